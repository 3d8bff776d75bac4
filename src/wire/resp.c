/* resp.c - the codec of resp.h.
 *
 * Happy path of a request: "*3\r\n", then three times "$LEN\r\n", LEN bytes and "\r\n". The state
 * is the number of the byte to look at and what is expected there, so reading goes on wherever the
 * bytes ended. What can fail: anything else, which ends the connection.
 *
 * The grammar is that of the Redis documentation ("Redis serialization protocol specification"). A
 * line ends in CR LF; an inline command may also end in LF alone, as telnet and netcat send it. */
#include "wire/resp.h"

#include <string.h>

#include "base/assert.h"

/* The longest head that means anything: a type, a sign, twenty digits. */
#define HEAD_MAX 24

/* The end of the line that begins at @begun: the index of its LF. Looks on from *@at.
 * Returns 0 when it has not arrived (no line ends at byte 0), or an error when it is too long. */
static int64_t find_line(const char *bytes, size_t len, uint32_t begun, uint32_t *at, uint32_t max)
{
    size_t end = len < (size_t)begun + max ? len : (size_t)begun + max;
    const char *found = *at < end ? memchr(bytes + *at, '\n', end - *at) : NULL;

    if (found != NULL)
        return found - bytes;
    *at = (uint32_t)end;
    return end == (size_t)begun + max ? TENURE_E_FULL : 0;
}

/* A decimal number with an optional minus sign that fills @len bytes. */
static bool parse_number(const char *bytes, size_t len, int64_t *ret_number)
{
    bool negative = len > 0 && bytes[0] == '-';
    uint64_t number = 0;
    size_t i = negative ? 1 : 0;

    if (i == len || len - i > 19)
        return false;
    for (; i < len; i++) {
        if (bytes[i] < '0' || bytes[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(bytes[i] - '0');
    }
    if (number > INT64_MAX)
        return false;
    *ret_number = negative ? -(int64_t)number : (int64_t)number;
    return true;
}

/* --- Requests -------------------------------------------------------------------------------- */

enum { AT_START, AT_WORD_HEAD, AT_WORD, AT_INLINE };

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Cut @line into words, in place: quotes vanish. */
static int64_t split_line(char *line, size_t len, const struct tn_resp_limits *limits,
                          struct tn_resp_word *words, uint32_t *ret_count, const char **reterr)
{
    size_t from = 0;
    uint32_t count = 0;

    while (from < len) {
        char quote = 0;
        size_t to;
        if (is_blank(line[from])) {
            from++;
            continue;
        }
        if (line[from] == '"' || line[from] == '\'')
            quote = line[from++];
        for (to = from; to < len && (quote != 0 ? line[to] != quote : !is_blank(line[to])); to++)
            ;
        if (quote != 0 && (to == len || (to + 1 < len && !is_blank(line[to + 1])))) {
            *reterr = "unbalanced quotes in the command";
            return TENURE_E_INVALID;
        }
        if (count == limits->words || to - from > limits->word_bytes) {
            *reterr = "too many or too long words in the command";
            return TENURE_E_FULL;
        }
        words[count++] = (struct tn_resp_word) { line + from, (uint32_t)(to - from) };
        from = to + (quote != 0 ? 1 : 0);
    }
    *ret_count = count;
    return 0;
}

static int64_t read_inline(struct tn_resp_request *request, const struct tn_resp_limits *limits,
                           char *bytes, size_t len, struct tn_resp_word *words, uint32_t *ret_count,
                           const char **reterr)
{
    int64_t end = find_line(bytes, len, 0, &request->at, limits->frame_bytes);
    size_t line_len;

    request->state = AT_INLINE;
    if (end < 0)
        *reterr = "the command is too long";
    if (end < 0 || (end == 0 && (len == 0 || bytes[0] != '\n')))
        return end;
    line_len = (size_t)end;
    if (line_len > 0 && bytes[line_len - 1] == '\r')
        line_len--;
    if (memchr(bytes, 0, line_len) != NULL) {
        *reterr = "a zero byte in the command";
        return TENURE_E_INVALID;
    }
    int64_t rc = split_line(bytes, line_len, limits, words, ret_count, reterr);
    *request = (struct tn_resp_request) { 0 };
    return rc < 0 ? rc : end + 1;
}

/* The number in the head "@mark NUMBER\r\n" at request->begun, and step over it.
 * Returns 1, 0 when it has not arrived, or an error. */
static int read_head(struct tn_resp_request *request, char mark, const char *bytes, size_t len,
                     int64_t *ret_number, const char **reterr)
{
    int64_t end = find_line(bytes, len, request->begun, &request->at, HEAD_MAX);
    const char *head = bytes + request->begun;

    if (request->begun < len && *head != mark) {
        *reterr = mark == '$' ? "expected '$' and the length of a word" : "expected '*'";
        return TENURE_E_INVALID;
    }
    if (end == 0)
        return 0;
    if (end < 0 || end < (int64_t)request->begun + 2 || bytes[end - 1] != '\r' ||
        !parse_number(head + 1, (size_t)end - 2 - request->begun, ret_number)) {
        *reterr = "a length that is no number";
        return TENURE_E_INVALID;
    }
    request->at = request->begun = (uint32_t)end + 1;
    return 1;
}

static int begin_words(struct tn_resp_request *request, const struct tn_resp_limits *limits,
                       const char *bytes, size_t len, const char **reterr)
{
    int64_t number;
    int rc = read_head(request, '*', bytes, len, &number, reterr);

    if (rc <= 0)
        return rc;
    if (number > limits->words) {
        *reterr = "too many words in the command";
        return TENURE_E_FULL;
    }
    request->count = number > 0 ? (uint32_t)number : 0;
    request->state = AT_WORD_HEAD;
    return 1;
}

static int begin_word(struct tn_resp_request *request, const struct tn_resp_limits *limits,
                      const char *bytes, size_t len, const char **reterr)
{
    int64_t number;
    uint32_t head = request->begun;
    int rc = read_head(request, '$', bytes, len, &number, reterr);

    if (rc <= 0)
        return rc;
    if (bytes[head + 1] == '-') {
        *reterr = "a length below zero";
        return TENURE_E_INVALID;
    }
    if (number > limits->word_bytes ||
        (uint64_t)request->at + (uint64_t)number + 2 > limits->frame_bytes) {
        *reterr = "the command is too long";
        return TENURE_E_FULL;
    }
    request->word_len = (uint32_t)number;
    request->state = AT_WORD;
    return 1;
}

static int end_word(struct tn_resp_request *request, const char *bytes, size_t len,
                    const char **reterr)
{
    size_t end = (size_t)request->begun + request->word_len;

    if (len < end + 2)
        return 0;
    if (bytes[end] != '\r' || bytes[end + 1] != '\n') {
        *reterr = "a word does not end where its length says";
        return TENURE_E_INVALID;
    }
    request->found++;
    request->at = request->begun = (uint32_t)end + 2;
    request->state = AT_WORD_HEAD;
    return 1;
}

/* The words of a command that is all there. Their places are known from the heads alone, so nothing
 * about them had to be kept while the bytes trickled in. */
static void collect(const char *bytes, uint32_t count, struct tn_resp_word *words)
{
    size_t at = (size_t)((const char *)memchr(bytes, '\n', HEAD_MAX) - bytes) + 1;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t len = 0;
        for (at++; bytes[at] != '\r'; at++)
            len = len * 10 + (uint32_t)(bytes[at] - '0');
        words[i] = (struct tn_resp_word) { bytes + at + 2, len };
        at += (size_t)len + 4;
    }
}

int64_t tn_resp_read(struct tn_resp_request *request, const struct tn_resp_limits *limits,
                     char *bytes, size_t len, struct tn_resp_word *words, uint32_t *ret_count,
                     const char **reterr)
{
    int rc = 1;

    if (len == 0)
        return 0;
    if (request->state == AT_INLINE || (request->state == AT_START && bytes[0] != '*'))
        return read_inline(request, limits, bytes, len, words, ret_count, reterr);
    if (request->state == AT_START)
        rc = begin_words(request, limits, bytes, len, reterr);
    while (rc > 0) {
        if (request->state == AT_WORD) {
            rc = end_word(request, bytes, len, reterr);
        } else if (request->found == request->count) {
            int64_t taken = request->at;
            collect(bytes, request->count, words);
            *ret_count = request->count;
            *request = (struct tn_resp_request) { 0 };
            return taken;
        } else {
            rc = begin_word(request, limits, bytes, len, reterr);
        }
    }
    return rc;
}

bool tn_resp_is(const struct tn_resp_word *word, const char *text)
{
    uint32_t i;

    for (i = 0; i < word->len && text[i] != 0; i++) {
        char c = word->bytes[i];
        if (c >= 'a' && c <= 'z')
            c = (char)(c - 'a' + 'A');
        if (c != text[i])
            return false;
    }
    return i == word->len && text[i] == 0;
}

/* --- Values ---------------------------------------------------------------------------------- */

/* What a type's first byte means for the line after it. */
enum shape { SHAPE_BAD, SHAPE_LINE, SHAPE_BULK, SHAPE_MANY, SHAPE_PAIRS };

static enum shape shape_of(char type)
{
    switch (type) {
    case '+':
    case '-':
    case ':':
    case '_':
    case '#':
    case ',':
    case '(':
        return SHAPE_LINE;
    case '$':
    case '!':
    case '=':
        return SHAPE_BULK;
    case '*':
    case '~':
    case '>':
        return SHAPE_MANY;
    case '%':
        return SHAPE_PAIRS;
    default:
        return SHAPE_BAD;
    }
}

/* One value less is to come at this depth; close every level that is complete. */
static void value_done(struct tn_resp_scan *scan)
{
    while (scan->depth > 0 && --scan->open[scan->depth - 1] == 0)
        scan->depth--;
}

/* What follows the line [begun, end) of a value. */
static int scan_line(struct tn_resp_scan *scan, uint32_t frame_max, uint32_t values_max,
                     const char *line, size_t len)
{
    enum shape shape = shape_of(line[0]);
    int64_t number = 0;

    if (++scan->values > values_max)
        return TENURE_E_FULL;
    if (shape == SHAPE_LINE) {
        bool flag = len == 2 && (line[1] == 't' || line[1] == 'f');
        if ((line[0] == ':' && !parse_number(line + 1, len - 1, &number)) ||
            (line[0] == '_' && len != 1) || (line[0] == '#' && !flag))
            return TENURE_E_INVALID;
        value_done(scan);
        return 0;
    }
    if (!parse_number(line + 1, len - 1, &number) || number < -1)
        return TENURE_E_INVALID;
    if (number == -1) {
        value_done(scan);
        return line[0] == '$' || line[0] == '*' ? 0 : TENURE_E_INVALID;
    }
    if (shape == SHAPE_BULK) {
        if ((line[0] == '=' && number < 4) || number > frame_max)
            return number > frame_max ? TENURE_E_FULL : TENURE_E_INVALID;
        scan->skip = (uint32_t)number + 2;
        return 0;
    }
    if (number > values_max)
        return TENURE_E_FULL;
    if (number == 0) {
        value_done(scan);
        return 0;
    }
    if (scan->depth == TN_RESP_DEPTH)
        return TENURE_E_FULL;
    scan->open[scan->depth++] = shape == SHAPE_PAIRS ? (uint64_t)number * 2 : (uint64_t)number;
    return 0;
}

/* The bytes of a bulk and the line break behind them. Returns 1, 0 for more, or an error. */
static int scan_bulk(struct tn_resp_scan *scan, const char *bytes, size_t len)
{
    size_t end = (size_t)scan->begun + scan->skip;

    if (len < end)
        return 0;
    if (bytes[end - 2] != '\r' || bytes[end - 1] != '\n')
        return TENURE_E_INVALID;
    scan->at = scan->begun = (uint32_t)end;
    scan->skip = 0;
    value_done(scan);
    return 1;
}

int64_t tn_resp_scan(struct tn_resp_scan *scan, uint32_t frame_max, uint32_t values_max,
                     const char *bytes, size_t len)
{
    for (;;) {
        if (scan->skip > 0) {
            int rc = scan_bulk(scan, bytes, len);
            if (rc <= 0)
                return rc;
        } else if (scan->values > 0 && scan->depth == 0) {
            int64_t taken = scan->at;
            *scan = (struct tn_resp_scan) { 0 };
            return taken <= frame_max ? taken : TENURE_E_FULL;
        } else if (scan->begun >= len) {
            return 0;
        } else if (shape_of(bytes[scan->begun]) == SHAPE_BAD) {
            return TENURE_E_INVALID;
        } else {
            uint32_t room = scan->begun < frame_max ? frame_max - scan->begun : 0;
            int64_t end = find_line(bytes, len, scan->begun, &scan->at, room);
            if (end <= 0)
                return end;
            if (end < (int64_t)scan->begun + 2 || bytes[end - 1] != '\r')
                return TENURE_E_INVALID;
            int rc = scan_line(scan, frame_max, values_max, bytes + scan->begun,
                               (size_t)end - 1 - scan->begun);
            if (rc < 0)
                return rc;
            scan->at = scan->begun = (uint32_t)end + 1;
        }
    }
}

static enum tn_resp_type type_of(char mark)
{
    switch (mark) {
    case '-':
    case '!':
        return TN_RESP_ERROR;
    case ':':
        return TN_RESP_INTEGER;
    case '_':
        return TN_RESP_NULL;
    case '#':
        return TN_RESP_BOOL;
    case ',':
    case '(':
        return TN_RESP_NUMBER;
    case '*':
    case '~':
        return TN_RESP_ARRAY;
    case '%':
        return TN_RESP_MAP;
    case '>':
        return TN_RESP_PUSH;
    default:
        return TN_RESP_STRING;
    }
}

int tn_resp_next(const char *bytes, size_t len, size_t *at, struct tn_resp_value *ret_value)
{
    const char *line = bytes + *at;
    const char *end = *at < len ? memchr(line, '\n', len - *at) : NULL;
    struct tn_resp_value value = { 0 };
    int64_t number = 0;

    if (end == NULL || end < line + 2 || shape_of(*line) == SHAPE_BAD)
        return TENURE_E_INVALID;
    size_t line_len = (size_t)(end - line) - 1;
    size_t next = *at + line_len + 2;
    enum shape shape = shape_of(*line);

    value.type = type_of(*line);
    value.bytes = line + 1;
    value.len = (uint32_t)line_len - 1;
    if ((shape != SHAPE_LINE || *line == ':') && !parse_number(line + 1, line_len - 1, &number))
        return TENURE_E_INVALID;
    if (*line == '#')
        number = line_len == 2 && line[1] == 't';
    value.integer = number;
    if (shape != SHAPE_LINE && number < 0) {
        value.type = TN_RESP_NULL;
    } else if (shape == SHAPE_MANY || shape == SHAPE_PAIRS) {
        value.count = (uint32_t)number;
    } else if (shape == SHAPE_BULK) {
        if (next > len || (uint64_t)number + 2 > len - next)
            return TENURE_E_INVALID;
        value.bytes = bytes + next;
        value.len = (uint32_t)number;
        next += (size_t)number + 2;
        if (*line == '=' && number >= 4) { /* "txt:" says how to show the rest. */
            value.bytes += 4;
            value.len -= 4;
        }
    }
    *at = next;
    *ret_value = value;
    return 0;
}

/* --- Writing --------------------------------------------------------------------------------- */

static char *reserve(struct tn_resp_out *out, size_t bytes)
{
    if (out->full || out->size - out->len < bytes) {
        out->full = true;
        return NULL;
    }
    return out->buf + out->len;
}

/* "@mark NUMBER\r\n" with the digits of @magnitude. */
static size_t format_head(char *to, char mark, bool negative, uint64_t magnitude)
{
    char digits[20];
    size_t count = 0;
    size_t len = 0;

    do {
        digits[count++] = (char)('0' + magnitude % 10);
        magnitude /= 10;
    } while (magnitude > 0);
    to[len++] = mark;
    if (negative)
        to[len++] = '-';
    while (count > 0)
        to[len++] = digits[--count];
    to[len++] = '\r';
    to[len++] = '\n';
    return len;
}

static void put_head(struct tn_resp_out *out, char mark, uint64_t number)
{
    char *to = reserve(out, TN_RESP_HEAD_MAX);

    if (to != NULL)
        out->len += format_head(to, mark, false, number);
}

static void put_bytes(struct tn_resp_out *out, const char *bytes, size_t len)
{
    char *to = reserve(out, len);

    if (to != NULL) {
        memcpy(to, bytes, len);
        out->len += len;
    }
}

static void put_line(struct tn_resp_out *out, char mark, const char *text)
{
    size_t len = strlen(text);
    char *to = reserve(out, len + 3);

    if (to == NULL)
        return;
    *to++ = mark;
    for (size_t i = 0; i < len; i++)
        *to++ = text[i] == '\r' || text[i] == '\n' ? ' ' : text[i];
    *to++ = '\r';
    *to = '\n';
    out->len += len + 3;
}

void tn_resp_put_simple(struct tn_resp_out *out, const char *text)
{
    put_line(out, '+', text);
}

void tn_resp_put_error(struct tn_resp_out *out, const char *text)
{
    put_line(out, '-', text);
}

void tn_resp_put_bulk(struct tn_resp_out *out, const void *bytes, size_t len)
{
    char *to = reserve(out, len + TN_RESP_HEAD_MAX);

    if (to == NULL)
        return;
    size_t head = format_head(to, '$', false, len);
    if (len > 0)
        memcpy(to + head, bytes, len);
    memcpy(to + head + len, "\r\n", 2);
    out->len += head + len + 2;
}

void tn_resp_put_text(struct tn_resp_out *out, const char *text)
{
    tn_resp_put_bulk(out, text, strlen(text));
}

void tn_resp_put_int(struct tn_resp_out *out, int64_t value)
{
    char *to = reserve(out, TN_RESP_HEAD_MAX);
    bool negative = value < 0;

    if (to != NULL)
        out->len +=
            format_head(to, ':', negative, negative ? 0 - (uint64_t)value : (uint64_t)value);
}

void tn_resp_put_u64(struct tn_resp_out *out, uint64_t value)
{
    if (value <= INT64_MAX) {
        put_head(out, ':', value);
    } else if (out->resp3) {
        put_head(out, '(', value);
    } else {
        char digits[TN_RESP_HEAD_MAX];
        size_t len = format_head(digits, '$', false, value);
        tn_resp_put_bulk(out, digits + 1, len - 3);
    }
}

void tn_resp_put_null(struct tn_resp_out *out)
{
    put_bytes(out, out->resp3 ? "_\r\n" : "$-1\r\n", out->resp3 ? 3 : 5);
}

void tn_resp_put_null_array(struct tn_resp_out *out)
{
    put_bytes(out, out->resp3 ? "_\r\n" : "*-1\r\n", out->resp3 ? 3 : 5);
}

void tn_resp_put_array(struct tn_resp_out *out, uint32_t count)
{
    put_head(out, '*', count);
}

void tn_resp_put_map(struct tn_resp_out *out, uint32_t pairs)
{
    put_head(out, out->resp3 ? '%' : '*', out->resp3 ? pairs : 2 * (uint64_t)pairs);
}

void tn_resp_put_push(struct tn_resp_out *out, uint32_t count)
{
    put_head(out, out->resp3 ? '>' : '*', count);
}
