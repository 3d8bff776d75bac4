/* token_test.c - twenty digits hold every token, and their bytes are in its order. */
#include "base/token.h"

#include <string.h>

#include "tests/harness/test.h"

TEST(every_token_comes_back_and_bytes_are_in_order)
{
    static const uint64_t tokens[] = {
        0,
        1,
        9,
        10,
        33,
        34,
        (UINT64_C(1) << 53) - 1,
        UINT64_C(1) << 53,
        (UINT64_C(1) << 53) + 1,
        INT64_MAX,
        UINT64_C(1) << 63,
        UINT64_MAX - 1,
        UINT64_MAX,
    };
    char before[TN_TOKEN_TEXT] = "";

    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        char text[TN_TOKEN_TEXT];
        uint64_t back = 7;

        tn_token_format(text, tokens[i]);
        CHECK_EQ_U64(strlen(text), TN_TOKEN_DIGITS);
        CHECK_EQ_I64(tn_token_parse(text, TN_TOKEN_DIGITS, &back), 0);
        CHECK_EQ_U64(back, tokens[i]);
        CHECK(memcmp(before, text, sizeof text) < 0);
        memcpy(before, text, sizeof text);
    }
}

TEST(anything_else_than_twenty_digits_is_refused)
{
    static const char *const bad[] = {
        "",
        "34",
        "0000000000000000003",
        "000000000000000000034",
        "0000000000000000003x",
        "-0000000000000000034",
        " 0000000000000000034",
        "18446744073709551616",
        "99999999999999999999",
    };
    uint64_t token = 7;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_EQ_I64(tn_token_parse(bad[i], strlen(bad[i]), &token), TENURE_E_INVALID);
    CHECK_EQ_U64(token, 7);
}
