/* token.c - tokens to twenty digits and back. */
#include "base/token.h"

void tn_token_format(char buf[TN_TOKEN_TEXT], uint64_t token)
{
    for (int i = TN_TOKEN_DIGITS - 1; i >= 0; i--) {
        buf[i] = (char)('0' + token % 10);
        token /= 10;
    }
    buf[TN_TOKEN_DIGITS] = '\0';
}

int tn_token_parse(const char *text, size_t len, uint64_t *ret_token)
{
    uint64_t token = 0;

    if (len != TN_TOKEN_DIGITS)
        return TENURE_E_INVALID;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return TENURE_E_INVALID;
        unsigned digit = (unsigned)(text[i] - '0');
        if (token > (UINT64_MAX - digit) / 10)
            return TENURE_E_INVALID;
        token = token * 10 + digit;
    }
    *ret_token = token;
    return 0;
}
