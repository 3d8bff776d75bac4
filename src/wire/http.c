/* http.c - reading the messages of HTTP/1.1, strictly.
 *
 * A head is read when all of it is there: heads are short, and reading a line twice costs less than
 * keeping state. Chunks come in any pieces, so they are a state machine over bytes. */
#include "wire/http.h"

#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* The characters of a field's name and of a method (RFC 9110, 5.6.2). */
static bool is_token(char c)
{
    return (lower(c) >= 'a' && lower(c) <= 'z') || c == '-' || is_digit(c) ||
           (c != '\0' && strchr("!#$%&'*+.^_`|~", c) != NULL);
}

bool tn_http_is(const struct tn_http_slice *slice, const char *text)
{
    if (slice->len != strlen(text))
        return false;
    for (size_t i = 0; i < slice->len; i++) {
        if (lower(slice->bytes[i]) != text[i])
            return false;
    }
    return true;
}

bool tn_http_alike(const struct tn_http_slice *slice, const char *text)
{
    if (slice->len != strlen(text))
        return false;
    for (size_t i = 0; i < slice->len; i++) {
        char c = slice->bytes[i] == '_' ? '-' : lower(slice->bytes[i]);
        if (c != text[i])
            return false;
    }
    return true;
}

const struct tn_http_slice *tn_http_field(const struct tn_http_head *head, const char *name,
                                          unsigned *ret_count)
{
    const struct tn_http_slice *found = NULL;
    unsigned count = 0;

    for (size_t i = 0; i < head->count; i++) {
        if (tn_http_is(&head->fields[i].name, name) && count++ == 0)
            found = &head->fields[i].value;
    }
    if (ret_count != NULL)
        *ret_count = count;
    return found;
}

static struct tn_http_slice trim(const char *bytes, size_t len)
{
    while (len > 0 && (bytes[0] == ' ' || bytes[0] == '\t')) {
        bytes++;
        len--;
    }
    while (len > 0 && (bytes[len - 1] == ' ' || bytes[len - 1] == '\t'))
        len--;
    return (struct tn_http_slice) { bytes, len };
}

bool tn_http_has(const struct tn_http_slice *slice, const char *text)
{
    size_t start = 0;

    for (size_t i = 0; i <= slice->len; i++) {
        if (i < slice->len && slice->bytes[i] != ',')
            continue;
        struct tn_http_slice word = trim(slice->bytes + start, i - start);
        if (tn_http_is(&word, text))
            return true;
        start = i + 1;
    }
    return false;
}

/* --- The head ------------------------------------------------------------------------------- */

/* "HTTP/1.1 200 OK"; the reason may be missing. */
static bool read_status(const char *line, size_t len, struct tn_http_head *head)
{
    if (len < 12 || memcmp(line, "HTTP/1.", 7) != 0 || (line[7] != '0' && line[7] != '1') ||
        line[8] != ' ' || !is_digit(line[9]) || !is_digit(line[10]) || !is_digit(line[11]) ||
        (len > 12 && line[12] != ' '))
        return false;
    head->status = (unsigned)((line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0'));
    head->minor = (unsigned)(line[7] - '0');
    head->keep_alive = head->minor > 0;
    return head->status >= 100;
}

/* "GET /path HTTP/1.1" */
static bool read_request_line(const char *line, size_t len, struct tn_http_head *head)
{
    size_t method = 0;

    while (method < len && is_token(line[method]))
        method++;
    if (method == 0 || len < method + 11 || line[method] != ' ')
        return false;
    const char *version = line + len - 9;
    if (memcmp(version, " HTTP/1.", 8) != 0 || (version[8] != '0' && version[8] != '1'))
        return false;
    head->method = (struct tn_http_slice) { line, method };
    head->target = (struct tn_http_slice) { line + method + 1, len - method - 10 };
    head->minor = (unsigned)(version[8] - '0');
    head->keep_alive = head->minor > 0;
    for (size_t i = 0; i < head->target.len; i++) {
        if (head->target.bytes[i] <= ' ' || head->target.bytes[i] > '~')
            return false;
    }
    return true;
}

static bool read_field(const char *line, size_t len, struct tn_http_head *head)
{
    size_t name = 0;

    while (name < len && is_token(line[name]))
        name++;
    if (name == 0 || name == len || line[name] != ':' || head->count == TN_HTTP_FIELDS_MAX)
        return false;
    for (size_t i = name; i < len; i++) {
        unsigned char c = (unsigned char)line[i];
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    head->fields[head->count++] =
        (struct tn_http_field) { { line, name }, trim(line + name + 1, len - name - 1) };
    return true;
}

static bool read_length(const struct tn_http_slice *value, uint64_t *ret_length)
{
    uint64_t length = 0;

    if (value->len == 0 || value->len > 18)
        return false;
    for (size_t i = 0; i < value->len; i++) {
        if (!is_digit(value->bytes[i]))
            return false;
        length = length * 10 + (uint64_t)(value->bytes[i] - '0');
    }
    *ret_length = length;
    return true;
}

/* The fields that say where the body ends (RFC 9112, 6.3) and whether the connection does. Two
 * lengths, or a length and chunks, are refused; and so are chunks in HTTP/1.0, which has none: a
 * server of that version would take them for the next message. */
static bool read_framing(struct tn_http_head *head)
{
    bool has_coding = false;

    head->has_length = false;
    for (size_t i = 0; i < head->count; i++) {
        const struct tn_http_field *field = &head->fields[i];

        if (tn_http_is(&field->name, "content-length")) {
            if (head->has_length || !read_length(&field->value, &head->length))
                return false;
            head->has_length = true;
        } else if (tn_http_is(&field->name, "transfer-encoding")) {
            if (has_coding || head->minor == 0 || !tn_http_is(&field->value, "chunked"))
                return false;
            has_coding = true;
        } else if (tn_http_is(&field->name, "connection") && tn_http_has(&field->value, "close")) {
            head->keep_alive = false;
        }
    }
    head->body = has_coding ? TN_HTTP_CHUNKED : head->has_length ? TN_HTTP_LENGTH : TN_HTTP_NO_BODY;
    return !(head->has_length && has_coding);
}

static bool find_answer_body(struct tn_http_head *head, bool to_head)
{
    if (!read_framing(head))
        return false;
    if (to_head || head->status < 200 || head->status == 204 || head->status == 304) {
        head->body = TN_HTTP_NO_BODY;
    } else if (head->body == TN_HTTP_NO_BODY) {
        head->body = TN_HTTP_UNTIL_CLOSE;
        head->keep_alive = false;
    }
    return true;
}

/* The lines of a head, the first by @read_first. */
static int64_t read_lines(const char *bytes, size_t len,
                          bool (*read_first)(const char *, size_t, struct tn_http_head *),
                          struct tn_http_head *head)
{
    size_t start = 0;
    size_t end = len < TN_HTTP_HEAD_MAX ? len : TN_HTTP_HEAD_MAX;

    head->count = 0;
    for (size_t i = 0; i + 1 < end; i++) {
        if (bytes[i] == '\n' || (bytes[i] == '\r' && bytes[i + 1] != '\n'))
            return TENURE_E_INVALID;
        if (bytes[i] != '\r')
            continue;
        if (i == start && start > 0)
            return (int64_t)i + 2;
        bool good =
            start == 0 ? read_first(bytes, i, head) : read_field(bytes + start, i - start, head);
        if (!good)
            return TENURE_E_INVALID;
        start = i + 2;
        i++;
    }
    return len >= TN_HTTP_HEAD_MAX ? TENURE_E_FULL : 0;
}

int64_t tn_http_read(const char *bytes, size_t len, bool to_head, struct tn_http_head *ret_head)
{
    int64_t end = read_lines(bytes, len, read_status, ret_head);

    return end <= 0 || find_answer_body(ret_head, to_head) ? end : TENURE_E_INVALID;
}

int64_t tn_http_read_request(const char *bytes, size_t len, struct tn_http_head *ret_head)
{
    int64_t end = read_lines(bytes, len, read_request_line, ret_head);

    return end <= 0 || read_framing(ret_head) ? end : TENURE_E_INVALID;
}

/* --- Chunks --------------------------------------------------------------------------------- */

enum state {
    SIZE,      /* Digits of the size. */
    EXTENSION, /* What follows them, which is ignored. */
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER, /* At the start of a line after the last chunk. */
    TRAILER_LINE,
    TRAILER_LF,
    END_LF,
    DONE,
};

static int hex(char c)
{
    c = lower(c);
    if (is_digit(c))
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool take_size(struct tn_http_chunks *chunks, char c)
{
    int digit = hex(c);

    if (digit >= 0 && chunks->line < 15) {
        chunks->remain = chunks->remain * 16 + (uint64_t)digit;
        chunks->line++;
        return true;
    }
    if (chunks->line == 0 || (c != ';' && c != '\r'))
        return false;
    chunks->state = c == '\r' ? SIZE_LF : EXTENSION;
    return true;
}

/* One byte that is not content. */
static bool take(struct tn_http_chunks *chunks, char c)
{
    switch ((enum state)chunks->state) {
    case SIZE:
        return take_size(chunks, c);
    case EXTENSION:
    case TRAILER_LINE:
        if (c == '\r')
            chunks->state = chunks->state == EXTENSION ? SIZE_LF : TRAILER_LF;
        return c != '\n' && ++chunks->line < TN_HTTP_HEAD_MAX;
    case SIZE_LF:
        chunks->state = chunks->remain > 0 ? DATA : TRAILER;
        chunks->line = 0;
        return c == '\n';
    case DATA_CR:
        chunks->state = DATA_LF;
        return c == '\r';
    case DATA_LF:
        chunks->state = SIZE;
        chunks->line = 0;
        return c == '\n';
    case TRAILER:
        chunks->state = c == '\r' ? END_LF : TRAILER_LINE;
        return c != '\n';
    case TRAILER_LF:
        chunks->state = TRAILER;
        return c == '\n';
    case END_LF:
        chunks->state = DONE;
        return c == '\n';
    case DATA:
    case DONE:
    default:
        return false;
    }
}

int64_t tn_http_unchunk(struct tn_http_chunks *chunks, char *bytes, size_t len, size_t *ret_data,
                        bool *ret_done)
{
    size_t data = 0;
    size_t at = 0;

    while (at < len && chunks->state != DONE) {
        if (chunks->state == DATA) {
            size_t some = chunks->remain < len - at ? (size_t)chunks->remain : len - at;

            memmove(bytes + data, bytes + at, some);
            data += some;
            at += some;
            chunks->remain -= some;
            if (chunks->remain == 0)
                chunks->state = DATA_CR;
        } else if (!take(chunks, bytes[at++])) {
            return TENURE_E_INVALID;
        }
    }
    *ret_data = data;
    *ret_done = chunks->state == DONE;
    return (int64_t)at;
}

int tn_http_gather(char *in, size_t *in_len, const struct tn_http_head *head, size_t head_len,
                   size_t max, struct tn_http_content *content)
{
    size_t there = *in_len - head_len;
    size_t data;
    bool done;

    switch (head->body) {
    case TN_HTTP_NO_BODY:
        return 1;
    case TN_HTTP_LENGTH:
        if (head->length > max)
            return TENURE_E_FULL;
        content->len = (size_t)head->length;
        return there >= content->len ? 1 : 0;
    case TN_HTTP_CHUNKED: {
        char *fresh = in + head_len + content->len;
        size_t len = there - content->len;
        int64_t used = tn_http_unchunk(&content->chunks, fresh, len, &data, &done);
        if (used < 0)
            return TENURE_E_INVALID;
        memmove(fresh + data, fresh + used, len - (size_t)used);
        *in_len -= (size_t)used - data;
        content->len += data;
        return content->len > max ? TENURE_E_FULL : done;
    }
    case TN_HTTP_UNTIL_CLOSE:
    default:
        content->len = there;
        return there > max ? TENURE_E_FULL : 0;
    }
}
