/* error_test.c - the error table: every code has one value, a text and an outcome class. */
#include "tests/harness/test.h"

#include <string.h>

#include "tenure/error.h"

static const int codes[] = {
#define CODE(name, value, outcome, text) TENURE_E_##name,
    TENURE_ERRORS(CODE)
#undef CODE
};

enum { CODE_COUNT = sizeof codes / sizeof codes[0] };

TEST(codes_are_negative_and_distinct)
{
    for (size_t i = 0; i < CODE_COUNT; i++) {
        CHECK(codes[i] < 0);
        for (size_t j = 0; j < i; j++)
            CHECK(codes[i] != codes[j]);
    }
}

TEST(each_code_has_a_text_of_its_own)
{
    for (size_t i = 0; i < CODE_COUNT; i++) {
        CHECK(strcmp(tenure_strerror(codes[i]), "unknown error") != 0);
        for (size_t j = 0; j < i; j++)
            CHECK(strcmp(tenure_strerror(codes[i]), tenure_strerror(codes[j])) != 0);
    }
    CHECK_STR(tenure_strerror(0), "no error");
    CHECK_STR(tenure_strerror(-9999), "unknown error");
    CHECK_STR(tenure_strerror(1), "unknown error");
}

TEST(only_a_timeout_leaves_the_outcome_open)
{
    for (size_t i = 0; i < CODE_COUNT; i++)
        CHECK(tenure_error_unknown(codes[i]) == (codes[i] == TENURE_E_TIMEOUT));
}

TEST(a_code_from_the_future_counts_as_unknown)
{
    CHECK(tenure_error_unknown(-9999));
    CHECK(!tenure_error_unknown(0));
}
