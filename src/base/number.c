/* number.c - strict readers for unsigned numbers and rates. */
#include "base/number.h"

#include <stdbool.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int tn_u64_parse(const char *text, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (!is_digit(text[0]) || (text[0] == '0' && text[1] != '\0'))
        return TENURE_E_INVALID;
    for (const char *p = text; *p != '\0'; p++) {
        if (!is_digit(*p))
            return TENURE_E_INVALID;
        unsigned digit = (unsigned)(*p - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return TENURE_E_INVALID;
        value = value * 10 + digit;
    }
    *ret_value = value;
    return 0;
}

int tn_ppm_parse(const char *text, uint32_t *ret_ppm)
{
    uint32_t ppm = 0;
    uint32_t weight = 100000;

    if (text[0] != '0')
        return TENURE_E_INVALID;
    if (text[1] == '\0') {
        *ret_ppm = 0;
        return 0;
    }
    if (text[1] != '.' || !is_digit(text[2]))
        return TENURE_E_INVALID;
    for (const char *p = text + 2; *p != '\0'; p++) {
        if (!is_digit(*p) || weight == 0)
            return TENURE_E_INVALID;
        ppm += (uint32_t)(*p - '0') * weight;
        weight /= 10;
    }
    *ret_ppm = ppm;
    return 0;
}
