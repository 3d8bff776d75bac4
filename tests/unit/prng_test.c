/* prng_test.c - the generator is the published one, and its bounds hold at the edges. */
#include "tests/harness/test.h"

#include "base/prng.h"

TEST(numbers_are_those_of_the_reference_implementation)
{
    struct tn_prng p = { { 1, 2, 3, 4 } };

    CHECK_EQ_U64(tn_prng_next(&p), 11520);
    CHECK_EQ_U64(tn_prng_next(&p), 0);
    CHECK_EQ_U64(tn_prng_next(&p), 1509978240);
    CHECK_EQ_U64(tn_prng_next(&p), UINT64_C(1215971899390074240));
}

TEST(seeding_is_that_of_the_reference_splitmix64)
{
    uint64_t state = 1234567;
    struct tn_prng p;

    CHECK_EQ_U64(tn_prng_split(&state), UINT64_C(6457827717110365317));
    CHECK_EQ_U64(tn_prng_split(&state), UINT64_C(3203168211198807973));
    tn_prng_seed(&p, 1234567);
    CHECK_EQ_U64(p.s[0], UINT64_C(6457827717110365317));
    CHECK_EQ_U64(p.s[1], UINT64_C(3203168211198807973));
}

TEST(seed_zero_is_as_good_as_any)
{
    struct tn_prng p;

    tn_prng_seed(&p, 0);
    CHECK((p.s[0] | p.s[1] | p.s[2] | p.s[3]) != 0);
    CHECK(tn_prng_next(&p) != tn_prng_next(&p));
}

TEST(high_half_of_a_product)
{
    CHECK_EQ_U64(tn_prng_mul_high(UINT64_MAX, UINT64_MAX), UINT64_MAX - 1);
    CHECK_EQ_U64(tn_prng_mul_high(UINT64_C(1) << 63, 2), 1);
    CHECK_EQ_U64(tn_prng_mul_high(UINT32_MAX, UINT32_MAX), 0);
    CHECK_EQ_U64(tn_prng_mul_high(UINT64_C(0x123456789abcdef0), UINT64_C(0xfedcba9876543210)),
                 UINT64_C(0x121fa00ad77d7422));
}

TEST(below_stays_below_and_reaches_every_value)
{
    struct tn_prng p;
    unsigned seen[7] = { 0 };

    tn_prng_seed(&p, 42);
    for (int i = 0; i < 7000; i++)
        seen[tn_prng_below(&p, 7)]++;
    for (int i = 0; i < 7; i++)
        CHECK(seen[i] > 850 && seen[i] < 1150);
    for (int i = 0; i < 100; i++)
        CHECK_EQ_U64(tn_prng_below(&p, 1), 0);
}

TEST(below_rejects_what_would_be_biased)
{
    struct tn_prng p;
    uint64_t n = (UINT64_C(1) << 63) + 1;
    unsigned low = 0;

    tn_prng_seed(&p, 7);
    for (int i = 0; i < 1000; i++) {
        uint64_t x = tn_prng_below(&p, n);
        CHECK(x < n);
        low += x < n / 2;
    }
    CHECK(low > 400 && low < 600);
}

TEST(below_nothing_is_our_bug)
{
    struct tn_prng p;

    tn_prng_seed(&p, 1);
    CHECK_ASSERTS((void)tn_prng_below(&p, 0));
}

TEST(range_includes_both_ends)
{
    struct tn_prng p;
    bool lo = false;
    bool hi = false;

    tn_prng_seed(&p, 3);
    for (int i = 0; i < 200; i++) {
        int64_t x = tn_prng_range(&p, -2, 1);
        CHECK(x >= -2 && x <= 1);
        lo = lo || x == -2;
        hi = hi || x == 1;
    }
    CHECK(lo && hi);
    CHECK_EQ_I64(tn_prng_range(&p, 5, 5), 5);
}

TEST(range_spans_all_of_int64)
{
    struct tn_prng p;
    bool negative = false;
    bool positive = false;

    tn_prng_seed(&p, 4);
    for (int i = 0; i < 64; i++) {
        int64_t x = tn_prng_range(&p, INT64_MIN, INT64_MAX);
        negative = negative || x < 0;
        positive = positive || x > 0;
    }
    CHECK(negative && positive);
    CHECK_EQ_I64(tn_prng_range(&p, INT64_MIN, INT64_MIN), INT64_MIN);
    CHECK_EQ_I64(tn_prng_range(&p, INT64_MAX, INT64_MAX), INT64_MAX);
    CHECK_ASSERTS((void)tn_prng_range(&p, 1, 0));
}

TEST(ppm_is_never_always_and_in_between)
{
    struct tn_prng p;
    unsigned hits = 0;

    tn_prng_seed(&p, 5);
    for (int i = 0; i < 10000; i++) {
        CHECK(!tn_prng_ppm(&p, 0));
        CHECK(tn_prng_ppm(&p, 1000000));
        hits += tn_prng_ppm(&p, 250000);
    }
    CHECK(hits > 2300 && hits < 2700);
}
