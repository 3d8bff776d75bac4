/* duration_test.c - durations are read exactly, with a unit, or refused. */
#include "tests/harness/test.h"

#include "base/duration.h"
#include "base/time.h"

TEST(parse_is_exact)
{
    static const struct {
        const char *text;
        tenure_ns ns;
    } good[] = {
        { "0s", 0 },
        { "0.000ms", 0 },
        { "15s", TN_SEC(15) },
        { "250ms", TN_MS(250) },
        { "90m", TN_SEC(5400) },
        { "24h", TN_SEC(86400) },
        { "1.5s", TN_MS(1500) },
        { "0.5h", TN_SEC(1800) },
        { "007s", TN_SEC(7) },
        { "0.000000001s", 1 },
        { "0.000001ms", 1 },
        { "0.000001000ms", 1 },
        { "0.000000001h", 3600 },
        { "0.333333333m", INT64_C(19999999980) },
        { "9223372036.854775807s", INT64_MAX },
        { "9223372036854.775807ms", INT64_MAX },
    };

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        tenure_ns ns = -1;
        CHECK_EQ_I64(tn_duration_parse(good[i].text, &ns), 0);
        CHECK_EQ_I64(ns, good[i].ns);
    }
}

TEST(parse_refuses_everything_else)
{
    static const char *const bad[] = {
        "",
        "15",
        "s",
        "-1s",
        "+1s",
        " 1s",
        "1s ",
        "1 s",
        "1S",
        "1sec",
        "1us",
        "1ns",
        "1d",
        "1m30s",
        ".5s",
        "1.s",
        "1..5s",
        "1.5",
        "1,5s",
        "0x1s",
        "1e3s",
        "inf",
        "nan",
        "0.0000001ms",
        "0.0000005ms",
        "0.0000000001s",
        "1.0000000000s",
        "9223372036.854775808s",
        "9223372037s",
        "9223372036854775808ms",
        "99999999999999999999h",
        "2562048h",
    };
    tenure_ns ns = 77;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_EQ_I64(tn_duration_parse(bad[i], &ns), TENURE_E_INVALID);
    CHECK_EQ_I64(ns, 77);
}

TEST(format_picks_ms_or_s_and_trims)
{
    static const struct {
        tenure_ns ns;
        const char *text;
    } cases[] = {
        { 0, "0ms" },
        { 1, "0ms" },
        { TN_US(1), "0.001ms" },
        { TN_US(250), "0.25ms" },
        { TN_MS(250), "250ms" },
        { TN_SEC(1) - 1, "999.999ms" },
        { TN_SEC(1), "1s" },
        { TN_SEC(15), "15s" },
        { TN_MS(12273), "12.273s" },
        { TN_MS(1500), "1.5s" },
        { TN_SEC(90), "90s" },
        { TN_SEC(100), "100s" },
        { -TN_MS(2310), "-2.31s" },
        { INT64_MAX, "9223372036.854s" },
        { INT64_MIN, "-9223372036.854s" },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char buf[TN_DURATION_TEXT];
        tn_duration_format(buf, sizeof buf, cases[i].ns);
        CHECK_STR(buf, cases[i].text);
    }
}

TEST(format_never_writes_past_a_short_buffer)
{
    char buf[4] = "xxx";

    tn_duration_format(buf, 3, TN_MS(12273));
    CHECK_STR(buf, "12");
    CHECK(buf[3] == '\0');
}
