/* text_test.c - built text never overflows, is marked when cut off, and escapes what is foreign. */
#include "tests/harness/test.h"

#include <string.h>

#include "base/text.h"

TEST(pieces_are_joined)
{
    char buf[32];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    CHECK_STR(tn_text_str(&text), "");
    tn_text_add(&text, "renew: ");
    tn_text_addf(&text, "token %d", 7);
    tn_text_add_bytes(&text, "!?", 1);
    CHECK_STR(tn_text_str(&text), "renew: token 7!");
    CHECK(!tn_text_truncated(&text));
}

TEST(an_exact_fit_is_not_cut_off)
{
    char buf[6];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_text_add(&text, "ab");
    tn_text_addf(&text, "%s", "cde");
    CHECK_STR(tn_text_str(&text), "abcde");
    CHECK(!tn_text_truncated(&text));
    tn_text_add(&text, "");
    CHECK(!tn_text_truncated(&text));
    tn_text_add(&text, "f");
    CHECK_STR(tn_text_str(&text), "abcde");
    CHECK(tn_text_truncated(&text));
}

TEST(nothing_is_added_after_the_cut)
{
    char buf[6];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_text_addf(&text, "%s", "abcdefgh");
    CHECK_STR(tn_text_str(&text), "abcde");
    CHECK(tn_text_truncated(&text));

    tn_text_init(&text, buf, sizeof buf);
    tn_text_escape(&text, "abcd\n", 5);
    tn_text_add(&text, "e");
    tn_text_addf(&text, "f");
    CHECK_STR(tn_text_str(&text), "abcd");
    CHECK(tn_text_truncated(&text));
}

TEST(a_buffer_of_one_byte_holds_the_empty_text)
{
    char buf[1];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_text_addf(&text, "%d", 1);
    CHECK_STR(tn_text_str(&text), "");
    CHECK(tn_text_truncated(&text));
    CHECK_ASSERTS(tn_text_init(&text, buf, 0));
}

TEST(escape_leaves_no_byte_that_steers_a_terminal)
{
    char buf[64];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_text_escape(&text, "a\n\r\t\\\x1b[0m\x7f\xc3\xa9\0z", 14);
    CHECK_STR(tn_text_str(&text), "a\\n\\r\\t\\\\\\x1b[0m\\x7f\\xc3\\xa9\\x00z");
    CHECK(!tn_text_truncated(&text));
}

static void check_json(const char *bytes, size_t len, const char *expected)
{
    char buf[64];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_json_string(&text, bytes, len);
    CHECK_STR(tn_text_str(&text), expected);
    CHECK(!tn_text_truncated(&text));
}

TEST(json_escapes_what_json_demands)
{
    check_json("", 0, "\"\"");
    check_json("a/b", 3, "\"a/b\"");
    check_json("\"\\\n\r\t", 5, "\"\\\"\\\\\\n\\r\\t\"");
    check_json("\0\x1f\x7f", 3, "\"\\u0000\\u001f\\u007f\"");
}

TEST(json_passes_valid_utf8_and_replaces_the_rest)
{
    static const char *const valid[] = { "\xc3\xa9", "\xe2\x82\xac", "\xed\x9f\xbf",
                                         "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf" };
    static const char *const broken[] = { "\x80",
                                          "\xff",
                                          "\xc0\xaf",
                                          "\xe0\x9f\xbf",
                                          "\xed\xa0\x80",
                                          "\xf0\x8f\xbf\xbf",
                                          "\xf4\x90\x80\x80",
                                          "\xf5\x80\x80\x80",
                                          "\xe2\x82",
                                          "\xe2\x28\xa1",
                                          "\xe2\x82\x28" };

    for (size_t i = 0; i < sizeof valid / sizeof valid[0]; i++) {
        char expected[16] = "\"";
        size_t len = strlen(valid[i]);
        memcpy(expected + 1, valid[i], len);
        expected[1 + len] = '"';
        check_json(valid[i], len, expected);
    }
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char buf[64];
        struct tn_text text;
        tn_text_init(&text, buf, sizeof buf);
        tn_json_string(&text, broken[i], strlen(broken[i]));
        CHECK(strncmp(buf, "\"\xef\xbf\xbd", 4) == 0);
    }
}
