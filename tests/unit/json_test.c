/* json_test.c - documents that are JSON and documents that are nearly. */
#include "wire/json.h"

#include <string.h>

#include "tests/harness/test.h"

#define VALUES 32

static struct tn_json_value values[VALUES];
static char text[256];

static int take(const char *document)
{
    size_t len = strlen(document);

    memcpy(text, document, len);
    return tn_json_read(text, len, values, VALUES);
}

TEST(values_come_in_the_order_of_the_text)
{
    CHECK_EQ_I64(take(" {\"a\": [1, -2.5e+3, []], \"b\": {\"c\": null}, \"d\": true} "), 12);
    CHECK_EQ_I64(values[0].type, TN_JSON_OBJECT);
    CHECK_EQ_I64(values[0].count, 3);
    CHECK_EQ_I64(values[0].next, 12);
    const struct tn_json_value *list = tn_json_get(values, 0, "a");
    CHECK_EQ_I64(list->type, TN_JSON_ARRAY);
    CHECK_EQ_I64(list->count, 3);
    CHECK_EQ_I64(list[2].len, 7);
    CHECK_EQ_I64(memcmp(list[2].bytes, "-2.5e+3", 7), 0);
    CHECK_EQ_I64(tn_json_get(values, 0, "d")->bytes[0], 't');
    const struct tn_json_value *inner = tn_json_get(values, 0, "b");
    CHECK_EQ_I64(tn_json_get(values, (uint32_t)(inner - values), "c")->type, TN_JSON_NULL);
    CHECK(tn_json_get(values, 0, "c") == NULL);
}

TEST(an_array_has_no_members)
{
    CHECK_EQ_I64(take("[\"a\", {\"a\": 1}]"), 5);
    CHECK(tn_json_get(values, 0, "a") == NULL);
    CHECK_EQ_I64(tn_json_get(values, 2, "a")->type, TN_JSON_NUMBER);
    CHECK(tn_json_get(values, 1, "a") == NULL);
}

TEST(escapes_are_resolved)
{
    CHECK_EQ_I64(take("\"a\\n\\\"\\/\\u00e9\\u20AC\\ud83d\\ude00\""), 1);
    CHECK(tn_json_is(&values[0], "a\n\"/\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"));
}

TEST(what_is_nearly_json_is_refused)
{
    static const char *const bad[] = {
        "",         " ",          "{",           "[1,]",        "[,1]",        "{\"a\"}",
        "{\"a\":}", "{\"a\":1,}", "{a:1}",       "[1 2]",       "01",          "1.",
        "-",        "1e",         "+1",          "nul",         "True",        "\"a",
        "\"\\x\"",  "\"\\u12\"",  "\"\\u0000\"", "\"\\ud800\"", "\"\\udc00\"", "\"\\ud83d\\u0041\"",
        "\"\t\"",   "[1]]",       "{} {}",       "[1}",
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (take(bad[i]) != TENURE_E_INVALID)
            tn_test_fail(__FILE__, __LINE__, "%s was read", bad[i]);
}

TEST(too_deep_and_too_many_are_full)
{
    char deep[2 * TN_JSON_DEPTH + 3] = "";

    memset(deep, '[', TN_JSON_DEPTH);
    memset(deep + TN_JSON_DEPTH, ']', TN_JSON_DEPTH);
    CHECK_EQ_I64(take(deep), TN_JSON_DEPTH);
    memset(deep, '[', TN_JSON_DEPTH + 1);
    memset(deep + TN_JSON_DEPTH + 1, ']', TN_JSON_DEPTH + 1);
    CHECK_EQ_I64(take(deep), TENURE_E_FULL);
    memcpy(text, "[1,2,3]", 7);
    CHECK_EQ_I64(tn_json_read(text, 7, values, 3), TENURE_E_FULL);
}

TEST(what_was_read_is_written_again)
{
    static const char document[] = "{\"a\":[1,-2.5e+3,[],{}],\"b\":{\"c\":null,\"d\\n\":\"\\\"\"},"
                                   "\"e\":true}";
    char again[sizeof document + 8];
    struct tn_text out;

    CHECK(take(document) > 0);
    tn_text_init(&out, again, sizeof again);
    tn_json_write(&out, values, 0);
    CHECK_STR(again, document);
}
