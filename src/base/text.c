/* text.c - the bounded text builder, and the two ways of escaping what came from outside. */
#include "base/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

void tn_text_init(struct tn_text *text, char *buf, size_t size)
{
    TN_ASSERT(size > 0);
    *text = (struct tn_text) { .buf = buf, .size = size };
    buf[0] = '\0';
}

static size_t room(const struct tn_text *text)
{
    return text->truncated ? 0 : text->size - text->len - 1;
}

void tn_text_add_bytes(struct tn_text *text, const char *bytes, size_t len)
{
    size_t fits = len < room(text) ? len : room(text);

    if (fits > 0)
        memcpy(text->buf + text->len, bytes, fits);
    text->len += fits;
    text->buf[text->len] = '\0';
    if (fits < len)
        text->truncated = true;
}

void tn_text_add(struct tn_text *text, const char *string)
{
    tn_text_add_bytes(text, string, strlen(string));
}

void tn_text_addf(struct tn_text *text, const char *format, ...)
{
    size_t space = room(text);
    va_list args;

    if (text->truncated)
        return;
    va_start(args, format);
    int len = vsnprintf(text->buf + text->len, space + 1, format, args);
    va_end(args);
    TN_ASSERT(len >= 0);
    text->truncated = (size_t)len > space;
    text->len += text->truncated ? space : (size_t)len;
}

/* All or nothing: half an escape would be read as something else. */
static void add_whole(struct tn_text *text, const char *bytes, size_t len)
{
    if (len <= room(text))
        tn_text_add_bytes(text, bytes, len);
    else
        text->truncated = true;
}

/* The letter that follows the backslash, or 0. The same letters in C and JSON. */
static char escape_letter(unsigned char byte)
{
    switch (byte) {
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    case '\\':
        return '\\';
    default:
        return '\0';
    }
}

void tn_text_escape(struct tn_text *text, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        char letter = escape_letter(byte);
        char escape[8];
        int escape_len = 1;

        if (letter != '\0')
            escape_len = snprintf(escape, sizeof escape, "\\%c", letter);
        else if (byte < 0x20 || byte > 0x7e)
            escape_len = snprintf(escape, sizeof escape, "\\x%02x", byte);
        else
            escape[0] = (char)byte;
        add_whole(text, escape, (size_t)escape_len);
    }
}

/* The length of the valid UTF-8 sequence at @bytes, or 0. Overlong forms, surrogates and values
 * above U+10FFFF are not valid: the bounds on the second byte shut them out. */
static size_t utf8_len(const unsigned char *bytes, size_t len)
{
    unsigned char lead = bytes[0];
    unsigned char low = 0x80;
    unsigned char high = 0xbf;
    size_t need;

    if (lead < 0x80)
        return 1;
    if (lead >= 0xc2 && lead <= 0xdf)
        need = 2;
    else if (lead >= 0xe0 && lead <= 0xef)
        need = 3;
    else if (lead >= 0xf0 && lead <= 0xf4)
        need = 4;
    else
        return 0;
    if (lead == 0xe0)
        low = 0xa0;
    else if (lead == 0xed)
        high = 0x9f;
    else if (lead == 0xf0)
        low = 0x90;
    else if (lead == 0xf4)
        high = 0x8f;
    if (need > len || bytes[1] < low || bytes[1] > high)
        return 0;
    for (size_t i = 2; i < need; i++) {
        if (bytes[i] < 0x80 || bytes[i] > 0xbf)
            return 0;
    }
    return need;
}

/* U+0080 to U+009F steer a terminal as ESC does. U+2028, U+2029 end a line, U+202A to U+202E and
 * U+2066 to U+2069 turn the direction of what follows. */
static bool is_control(const unsigned char *bytes, size_t sequence)
{
    if (sequence == 1)
        return bytes[0] < 0x20 || bytes[0] == 0x7f;
    if (sequence == 2)
        return bytes[0] == 0xc2 && bytes[1] < 0xa0;
    return sequence == 3 && bytes[0] == 0xe2 &&
           ((bytes[1] == 0x80 && bytes[2] >= 0xa8 && bytes[2] <= 0xae) ||
            (bytes[1] == 0x81 && bytes[2] >= 0xa6 && bytes[2] <= 0xa9));
}

void tn_text_add_line(struct tn_text *text, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len;) {
        const unsigned char *at = (const unsigned char *)bytes + i;
        size_t sequence = utf8_len(at, len - i);

        if (sequence == 0 || is_control(at, sequence)) {
            tn_text_escape(text, bytes + i, sequence > 0 ? sequence : 1);
            i += sequence > 0 ? sequence : 1;
        } else {
            add_whole(text, bytes + i, sequence);
            i += sequence;
        }
    }
}

/* So far back a space is looked for; a longer word is cut. */
enum { WORD_MOST = 48 };

/* The length, at most @len, at which @buf may end. */
static size_t whole_words(const char *buf, size_t len)
{
    size_t at = len;

    while (at > 0 && len - at < WORD_MOST && buf[at - 1] != ' ')
        at--;
    if (at > 0 && len - at < WORD_MOST) {
        while (at > 0 && strchr(" :;,", buf[at - 1]) != NULL)
            at--;
        return at;
    }
    /* Half an escape, or half a character, goes as a whole. */
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        if (buf[len - back] == '\\')
            return len - back;
    }
    for (size_t back = 1; back <= 4 && back <= len; back++) {
        if (((unsigned char)buf[len - back] & 0xc0) != 0x80)
            return utf8_len((const unsigned char *)buf + len - back, back) == back ? len
                                                                                   : len - back;
    }
    return len;
}

void tn_text_cut(struct tn_text *text)
{
    static const char dots[] = "...";
    size_t most = text->size > sizeof dots ? text->size - sizeof dots : 0;

    if (!text->truncated || most == 0)
        return;
    text->len = whole_words(text->buf, text->len < most ? text->len : most);
    memcpy(text->buf + text->len, dots, sizeof dots);
    text->len += sizeof dots - 1;
}

void tn_text_cut_full(char *buf, size_t size)
{
    struct tn_text text = { .buf = buf, .size = size, .len = size - 1, .truncated = true };

    if (strnlen(buf, size) >= size - 1)
        tn_text_cut(&text);
}

static void add_json_byte(struct tn_text *text, unsigned char byte)
{
    char letter = byte == '"' ? '"' : escape_letter(byte);
    char escape[8];
    int len = 1;

    if (letter != '\0')
        len = snprintf(escape, sizeof escape, "\\%c", letter);
    else if (byte < 0x20 || byte == 0x7f)
        len = snprintf(escape, sizeof escape, "\\u%04x", byte);
    else
        escape[0] = (char)byte;
    add_whole(text, escape, (size_t)len);
}

void tn_json_string(struct tn_text *text, const char *bytes, size_t len)
{
    tn_text_add(text, "\"");
    for (size_t i = 0; i < len;) {
        size_t sequence = utf8_len((const unsigned char *)bytes + i, len - i);

        if (sequence == 1)
            add_json_byte(text, (unsigned char)bytes[i]);
        else if (sequence > 1)
            add_whole(text, bytes + i, sequence);
        else
            add_whole(text, "\xef\xbf\xbd", 3);
        i += sequence > 0 ? sequence : 1;
    }
    tn_text_add(text, "\"");
}

const char *tn_text_str(const struct tn_text *text)
{
    return text->buf;
}

bool tn_text_truncated(const struct tn_text *text)
{
    return text->truncated;
}
