/* http_path.c - paths that every server reads in the same way.
 *
 * What a proxy judges and what the server behind it does must be the same path. Servers resolve dot
 * segments, merge slashes, turn backslashes round, decode once or twice, cut parameters off and
 * strip dots and blanks at the end, each in its own order. So a path that gives them anything to do
 * is refused instead of mended. */
#include <stdint.h>
#include <string.h>

#include "wire/http.h"

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* RFC 3986, 2.3: these never need a percent sign. */
static bool is_unreserved(unsigned char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
           (c != '\0' && strchr("-._~", c) != NULL);
}

/* And these are left to an application; without ';', behind which some servers see parameters. */
static bool is_plain(char c)
{
    return is_unreserved((unsigned char)c) || (c != '\0' && strchr("!$&'()*+,=:@", c) != NULL);
}

/* The bytes of one character of UTF-8 as far as they are there. */
struct utf8 {
    unsigned left;       /* Bytes to follow; */
    uint8_t least, most; /* and what the next one may be. */
};

/* The next byte, from 0x80 on (RFC 3629: no overlong forms, no surrogates, nothing beyond
 * U+10FFFF). */
static bool take_utf8(struct utf8 *utf8, uint8_t byte)
{
    if (utf8->left > 0) {
        bool good = byte >= utf8->least && byte <= utf8->most;
        *utf8 = (struct utf8) { utf8->left - 1, 0x80, 0xbf };
        return good;
    }
    *utf8 = (struct utf8) { byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3, 0x80, 0xbf };
    if (byte == 0xe0)
        utf8->least = 0xa0;
    else if (byte == 0xed)
        utf8->most = 0x9f;
    else if (byte == 0xf0)
        utf8->least = 0x90;
    else if (byte == 0xf4)
        utf8->most = 0x8f;
    return byte >= 0xc2 && byte <= 0xf4;
}

/* A byte behind a percent sign. */
static const char *check_escape(struct utf8 *utf8, const char *digits, size_t len)
{
    int high = len >= 2 ? hex(digits[0]) : -1;
    int low = len >= 2 ? hex(digits[1]) : -1;

    if (high < 0 || low < 0)
        return "the path has a percent sign without two digits";
    uint8_t byte = (uint8_t)(high * 16 + low);
    if (byte >= 0x80)
        return take_utf8(utf8, byte) ? NULL : "the path is not UTF-8";
    if (utf8->left > 0)
        return "the path is not UTF-8";
    if (byte < ' ' || byte == 0x7f || strchr("/\\%;?#", byte) != NULL)
        return "the path hides a character behind a percent sign that servers read differently";
    return is_unreserved(byte) ? "the path has a percent sign where none is needed" : NULL;
}

/* Dots and blanks alone name this directory or the one above, or nothing at all. */
static const char *check_segment(const char *segment, size_t len)
{
    size_t at = 0;

    while (at < len) {
        size_t skip = segment[at] == '.' ? 1 : 0;
        if (len - at >= 3 && memcmp(segment + at, "%20", 3) == 0)
            skip = 3;
        if (skip == 0)
            return NULL;
        at += skip;
    }
    return len == 0 ? "the path has an empty segment" : "the path has a segment of dots or blanks";
}

const char *tn_http_path_check(const struct tn_http_slice *target)
{
    const char *end = memchr(target->bytes, '?', target->len);
    size_t len = end != NULL ? (size_t)(end - target->bytes) : target->len;
    struct utf8 utf8 = { 0 };
    const char *why = NULL;
    size_t start = 1;

    if (len == 0 || target->bytes[0] != '/')
        return "the target must be a path";
    if (memchr(target->bytes, '#', target->len) != NULL)
        return "the target has a fragment";
    for (size_t i = 1; i <= len && why == NULL; i++) {
        char c = i < len ? target->bytes[i] : '/';

        if (utf8.left > 0 && c != '%')
            why = "the path is not UTF-8";
        else if (c == '%') {
            why = check_escape(&utf8, target->bytes + i + 1, len - i - 1);
            i += 2;
        } else if (c == '/') {
            /* A slash at the end is none too many. */
            if (i < len || i > start)
                why = check_segment(target->bytes + start, i - start);
            start = i + 1;
        } else if (!is_plain(c)) {
            why = "the path has a character that servers read differently";
        }
    }
    return why;
}
