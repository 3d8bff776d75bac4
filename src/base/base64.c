/* base64.c - four characters are three bytes; base64.h has the rules. */
#include "base/base64.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int value_of(char c)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = c != '\0' ? strchr(letters, c) : NULL;

    return found != NULL ? (int)(found - letters) : -1;
}

char *tn_base64_decode(const char *text, size_t len, size_t *ret_len)
{
    char *bytes = malloc(len / 4 * 3 + 4);
    uint32_t bits = 0;
    unsigned count = 0, padding = 0;
    size_t out = 0;

    for (size_t i = 0; i < len && bytes != NULL; i++) {
        int value = value_of(text[i]);
        if (text[i] == '\n' || text[i] == '\r')
            continue;
        padding += text[i] == '=';
        if ((value < 0 && text[i] != '=') || (value >= 0 && padding > 0) || padding > 2) {
            free(bytes);
            return NULL;
        }
        bits = bits << 6 | (uint32_t)(value >= 0 ? value : 0);
        if (++count % 4 == 0)
            for (int shift = 16; shift >= 0; shift -= 8)
                bytes[out++] = (char)(bits >> shift & 0xFF);
    }
    if (bytes == NULL || count % 4 != 0 || (count == 0 && padding > 0)) {
        free(bytes);
        return NULL;
    }
    out -= padding;
    bytes[out] = '\0';
    *ret_len = out;
    return bytes;
}

void tn_base64_add(struct tn_text *text, const char *bytes, size_t len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        unsigned long word = (unsigned long)(unsigned char)bytes[i] << 16;
        char four[4];
        if (left > 1)
            word |= (unsigned long)(unsigned char)bytes[i + 1] << 8;
        if (left > 2)
            word |= (unsigned long)(unsigned char)bytes[i + 2];
        for (int j = 0; j < 4; j++)
            four[j] = digits[word >> (18 - 6 * j) & 63];
        if (left < 3)
            four[3] = '=';
        if (left < 2)
            four[2] = '=';
        tn_text_add_bytes(text, four, 4);
    }
}
