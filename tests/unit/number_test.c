/* number_test.c - numbers are read whole or refused. */
#include "tests/harness/test.h"

#include "base/number.h"

TEST(u64_reads_its_whole_range)
{
    uint64_t value = 1;

    CHECK_EQ_I64(tn_u64_parse("0", &value), 0);
    CHECK_EQ_U64(value, 0);
    CHECK_EQ_I64(tn_u64_parse("1234567890", &value), 0);
    CHECK_EQ_U64(value, 1234567890);
    CHECK_EQ_I64(tn_u64_parse("18446744073709551615", &value), 0);
    CHECK_EQ_U64(value, UINT64_MAX);
}

TEST(u64_refuses_everything_else)
{
    static const char *const bad[] = { "",
                                       " ",
                                       " 1",
                                       "1 ",
                                       "+1",
                                       "-1",
                                       "-0",
                                       "00",
                                       "01",
                                       "1.0",
                                       "0x10",
                                       "12abc",
                                       "1\n",
                                       "1_000",
                                       "1e3",
                                       "\xb2",
                                       "18446744073709551616",
                                       "18446744073709551620",
                                       "99999999999999999999999" };
    uint64_t value = 77;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_EQ_I64(tn_u64_parse(bad[i], &value), TENURE_E_INVALID);
    CHECK_EQ_U64(value, 77);
}

TEST(ppm_reads_rates_exactly)
{
    static const struct {
        const char *text;
        uint32_t ppm;
    } good[] = { { "0", 0 },         { "0.0", 0 },           { "0.1", 100000 },
                 { "0.10", 100000 }, { "0.25", 250000 },     { "0.000001", 1 },
                 { "0.083", 83000 }, { "0.999999", 999999 }, { "0.000000", 0 } };

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint32_t ppm = 1;
        CHECK_EQ_I64(tn_ppm_parse(good[i].text, &ppm), 0);
        CHECK_EQ_U64(ppm, good[i].ppm);
    }
}

TEST(ppm_refuses_everything_else)
{
    static const char *const bad[] = { "",    "1",     "1.0",  "0.",   ".1",       "00",
                                       "-0",  "-0.1",  "+0.1", "0.1 ", " 0.1",     "0,1",
                                       "10%", "0.1.1", "0.x",  "1e-3", "0.0000001" };
    uint32_t ppm = 77;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_EQ_I64(tn_ppm_parse(bad[i], &ppm), TENURE_E_INVALID);
    CHECK_EQ_U64(ppm, 77);
}
