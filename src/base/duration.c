/* duration.c - exact conversion between text and nanoseconds; no floating point anywhere.
 *
 * The whole part is multiplied by the unit with an overflow check. The fraction is below one unit
 * and cannot overflow, but it must come out as whole nanoseconds, or the text is refused. */
#include "base/duration.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"

enum { DECIMALS_MAX = 9 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int parse_unit(const char *text, tenure_ns *ret_unit)
{
    static const struct {
        const char *name;
        tenure_ns ns;
    } units[] = {
        { "ms", TN_MS(1) },
        { "s", TN_SEC(1) },
        { "m", TN_SEC(60) },
        { "h", TN_SEC(3600) },
    };

    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(text, units[i].name) == 0) {
            *ret_unit = units[i].ns;
            return 0;
        }
    }
    return TENURE_E_INVALID;
}

/* Reads the digits at *@text, at least one and at most @count_max, and moves *@text behind them. */
static int parse_digits(const char **text, size_t count_max, tenure_ns *ret_value,
                        size_t *ret_count)
{
    tenure_ns value = 0;
    size_t count = 0;

    for (; is_digit(**text); (*text)++, count++) {
        tenure_ns digit = **text - '0';
        if (count == count_max || value > (INT64_MAX - digit) / 10)
            return TENURE_E_INVALID;
        value = value * 10 + digit;
    }
    if (count == 0)
        return TENURE_E_INVALID;
    *ret_value = value;
    *ret_count = count;
    return 0;
}

/* @digits are the @count decimals of a unit. Without their trailing zeros they are not divisible by
 * ten, and every unit is a power of ten times a number that matters only beyond nine decimals; so
 * the result is whole exactly when the remaining scale divides the unit. */
static int scale_fraction(tenure_ns digits, size_t count, tenure_ns unit, tenure_ns *ret_ns)
{
    tenure_ns scale = 1;

    for (; count > 0 && digits % 10 == 0; count--)
        digits /= 10;
    for (; count > 0; count--)
        scale *= 10;
    if (unit % scale != 0)
        return TENURE_E_INVALID;
    *ret_ns = digits * (unit / scale);
    return 0;
}

int tn_duration_parse(const char *text, tenure_ns *ret_ns)
{
    tenure_ns whole;
    tenure_ns unit;
    tenure_ns fraction = 0;
    size_t count = 0;

    int rc = parse_digits(&text, SIZE_MAX, &whole, &count);
    if (rc < 0)
        return rc;
    count = 0;
    if (*text == '.') {
        text++;
        rc = parse_digits(&text, DECIMALS_MAX, &fraction, &count);
        if (rc < 0)
            return rc;
    }
    rc = parse_unit(text, &unit);
    if (rc < 0)
        return rc;
    rc = scale_fraction(fraction, count, unit, &fraction);
    if (rc < 0)
        return rc;
    if (whole > (INT64_MAX - fraction) / unit)
        return TENURE_E_INVALID;
    *ret_ns = whole * unit + fraction;
    return 0;
}

void tn_duration_format(char *buf, size_t size, tenure_ns ns)
{
    /* Unsigned, because the most negative span has no positive counterpart. */
    uint64_t span = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    bool seconds = span >= (uint64_t)TN_SEC(1);
    uint64_t unit = seconds ? (uint64_t)TN_SEC(1) : (uint64_t)TN_MS(1);
    uint64_t thousandths = span % unit / (unit / 1000);
    char decimals[8] = "";

    if (thousandths != 0) {
        int len = snprintf(decimals, sizeof decimals, ".%03u", (unsigned)thousandths);
        while (len > 0 && decimals[len - 1] == '0')
            decimals[--len] = '\0';
    }
    (void)snprintf(buf, size, "%s%" PRIu64 "%s%s", ns < 0 ? "-" : "", span / unit, decimals,
                   seconds ? "s" : "ms");
}
