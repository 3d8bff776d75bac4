/* hex.c - bytes as hexadecimal digits, and back; hex.h. */
#include "base/hex.h"

#include <stdint.h>

void tn_hex(char *ret_text, const void *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *from = bytes;

    for (size_t i = 0; i < len; i++) {
        ret_text[2 * i] = digits[from[i] >> 4];
        ret_text[2 * i + 1] = digits[from[i] & 15];
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

bool tn_unhex(void *ret_bytes, const char *text, size_t len)
{
    uint8_t *to = ret_bytes;

    for (size_t i = 0; i < len; i++) {
        int high = digit_of(text[2 * i]);
        int low = high < 0 ? -1 : digit_of(text[2 * i + 1]);
        if (low < 0)
            return false;
        to[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
