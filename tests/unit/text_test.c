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

static void check_cut(const char *whole, size_t size, const char *expected)
{
    char buf[128];
    struct tn_text text;

    tn_text_init(&text, buf, size);
    tn_text_add_line(&text, whole, strlen(whole));
    tn_text_cut(&text);
    CHECK_STR(buf, expected);
    CHECK(strlen(buf) < size);
}

TEST(a_text_is_cut_at_a_word_and_says_so)
{
    check_cut("all of it fits", 15, "all of it fits");
    check_cut("the server: closed the connection", 20, "the server...");
    check_cut("the server: closed the connection", 28, "the server: closed the...");
    /* Without a space near: between characters, and never within an escape. */
    check_cut("\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 9, "\xc3\xa4\xc3\xa4...");
    check_cut("\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 10, "\xc3\xa4\xc3\xa4\xc3\xa4...");
    check_cut("ab\x1b\x1b\x1b\x1b", 12, "ab\\x1b...");
}

TEST(a_buffer_that_was_filled_to_the_end_is_cut)
{
    char full[16] = "no word is cut ", room[16] = "fourteen bytes";

    tn_text_cut_full(full, sizeof full);
    CHECK_STR(full, "no word is...");
    tn_text_cut_full(room, sizeof room);
    CHECK_STR(room, "fourteen bytes");
}

TEST(a_line_for_people_has_no_control_characters)
{
    char buf[128];
    struct tn_text text;
    const char *foreign = "a\n\x1b[2J\xc2\x9b\xe2\x80\xae \xc3\xa9 \xff\\";

    tn_text_init(&text, buf, sizeof buf);
    tn_text_add_line(&text, foreign, strlen(foreign));
    CHECK_STR(buf, "a\\n\\x1b[2J\\xc2\\x9b\\xe2\\x80\\xae \xc3\xa9 \\xff\\");
}
