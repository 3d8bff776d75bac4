/* secret.c - secrets as text. */
#include "base/secret.h"

void tn_secret_text(const struct tn_secret *secret, char ret_text[TN_SECRET_DIGITS])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < sizeof secret->bytes; i++) {
        ret_text[2 * i] = digits[secret->bytes[i] >> 4];
        ret_text[2 * i + 1] = digits[secret->bytes[i] & 15];
    }
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool tn_secret_parse(struct tn_secret *ret_secret, const char text[TN_SECRET_DIGITS])
{
    struct tn_secret secret;

    for (size_t i = 0; i < sizeof secret.bytes; i++) {
        int high = digit_of(text[2 * i]);
        int low = digit_of(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        secret.bytes[i] = (uint8_t)(high << 4 | low);
    }
    if (tn_secret_is_zero(&secret))
        return false;
    *ret_secret = secret;
    return true;
}
