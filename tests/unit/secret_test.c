/* secret_test.c - secrets are equal only when every byte is. */
#include "tests/harness/test.h"

#include "base/secret.h"

TEST(equal_secrets_differ_in_no_byte)
{
    struct tn_secret a = { { 1, 2, 3 } };

    for (size_t i = 0; i < sizeof a.bytes; i++) {
        struct tn_secret b = a;
        CHECK(tn_secret_equal(&a, &b));
        b.bytes[i] ^= 0x80;
        CHECK(!tn_secret_equal(&a, &b));
    }
}

TEST(a_zero_secret_has_no_bit_set)
{
    struct tn_secret a = { { 0 } };

    CHECK(tn_secret_is_zero(&a));
    a.bytes[15] = 1;
    CHECK(!tn_secret_is_zero(&a));
}
