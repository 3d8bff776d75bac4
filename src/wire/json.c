/* json.c - a reader that keeps its place in an array of open containers, not on the stack. */
#include "wire/json.h"

#include <string.h>

#include "base/number.h"

struct reader {
    char *bytes;
    size_t len, at;
    struct tn_json_value *values;
    uint32_t max, count;
    uint32_t open[TN_JSON_DEPTH];
    uint32_t depth;
};

static char peek(const struct reader *reader)
{
    return reader->at < reader->len ? reader->bytes[reader->at] : 0;
}

static void skip_blanks(struct reader *reader)
{
    while (peek(reader) == ' ' || peek(reader) == '\t' || peek(reader) == '\n' ||
           peek(reader) == '\r')
        reader->at++;
}

/* --- Strings ---------------------------------------------------------------------------------- */

static int read_hex(struct reader *reader, uint32_t *ret_unit)
{
    uint32_t unit = 0;

    for (int i = 0; i < 4; i++) {
        char c = peek(reader);
        if (c >= '0' && c <= '9')
            unit = unit << 4 | (uint32_t)(c - '0');
        else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
            unit = unit << 4 | (uint32_t)((c | 32) - 'a' + 10);
        else
            return TENURE_E_INVALID;
        reader->at++;
    }
    *ret_unit = unit;
    return 0;
}

/* The four digits behind \u, or twice four: a pair of surrogates. */
static int read_code(struct reader *reader, uint32_t *ret_code)
{
    uint32_t high;
    uint32_t low;

    if (read_hex(reader, &high) != 0 || high == 0 || (high >= 0xDC00 && high < 0xE000))
        return TENURE_E_INVALID;
    *ret_code = high;
    if (high < 0xD800 || high >= 0xDC00)
        return 0;
    if (reader->len - reader->at < 2 || memcmp(reader->bytes + reader->at, "\\u", 2) != 0)
        return TENURE_E_INVALID;
    reader->at += 2;
    if (read_hex(reader, &low) != 0 || low < 0xDC00 || low >= 0xE000)
        return TENURE_E_INVALID;
    *ret_code = 0x10000 + ((high - 0xD800) << 10 | (low - 0xDC00));
    return 0;
}

static size_t put_utf8(char *to, uint32_t code)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    size_t len = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned heads[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    for (size_t i = len - 1; i > 0; i--) {
        to[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    to[0] = (char)(heads[len] | code);
    return len;
}

/* One escape, from its backslash on, to @to, which is not behind it. */
static int read_escape(struct reader *reader, char *to, size_t *ret_len)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    uint32_t code;

    reader->at++;
    char letter = peek(reader);
    reader->at++;
    if (letter == 'u') {
        if (read_code(reader, &code) != 0)
            return TENURE_E_INVALID;
        *ret_len = put_utf8(to, code);
        return 0;
    }
    const char *found = letter != 0 ? strchr(letters, letter) : NULL;
    if (found == NULL)
        return TENURE_E_INVALID;
    *to = meanings[found - letters];
    *ret_len = 1;
    return 0;
}

static int read_string(struct reader *reader, struct tn_json_value *value)
{
    char *start = reader->bytes + ++reader->at;
    char *to = start;

    while (peek(reader) != '"') {
        size_t len = 1;
        if ((unsigned char)peek(reader) < 0x20) /* The end, too. */
            return TENURE_E_INVALID;
        if (peek(reader) == '\\') {
            if (read_escape(reader, to, &len) != 0)
                return TENURE_E_INVALID;
        } else {
            *to = reader->bytes[reader->at++];
        }
        to += len;
    }
    reader->at++;
    value->type = TN_JSON_STRING;
    value->bytes = start;
    value->len = (uint32_t)(to - start);
    return 0;
}

/* --- The rest --------------------------------------------------------------------------------- */

static bool skip_digits(struct reader *reader)
{
    size_t from = reader->at;

    while (peek(reader) >= '0' && peek(reader) <= '9')
        reader->at++;
    return reader->at > from;
}

static int read_number(struct reader *reader, struct tn_json_value *value)
{
    size_t from = reader->at;

    reader->at += peek(reader) == '-';
    if (peek(reader) == '0')
        reader->at++;
    else if (!skip_digits(reader))
        return TENURE_E_INVALID;
    if (peek(reader) == '.') {
        reader->at++;
        if (!skip_digits(reader))
            return TENURE_E_INVALID;
    }
    if (peek(reader) == 'e' || peek(reader) == 'E') {
        reader->at++;
        reader->at += peek(reader) == '+' || peek(reader) == '-';
        if (!skip_digits(reader))
            return TENURE_E_INVALID;
    }
    value->type = TN_JSON_NUMBER;
    value->bytes = reader->bytes + from;
    value->len = (uint32_t)(reader->at - from);
    return 0;
}

static int read_word(struct reader *reader, struct tn_json_value *value)
{
    static const char *const words[] = { "null", "true", "false" };

    for (size_t i = 0; i < 3; i++) {
        size_t len = strlen(words[i]);
        if (reader->len - reader->at < len ||
            memcmp(reader->bytes + reader->at, words[i], len) != 0)
            continue;
        *value = (struct tn_json_value) { .type = i == 0 ? TN_JSON_NULL : TN_JSON_BOOL,
                                          .bytes = words[i],
                                          .len = (uint32_t)len };
        reader->at += len;
        return 0;
    }
    return TENURE_E_INVALID;
}

/* A value, or the head of a container. */
static int read_one(struct reader *reader)
{
    struct tn_json_value *value = &reader->values[reader->count];
    char c = peek(reader);
    int rc = 0;

    if (reader->count == reader->max)
        return TENURE_E_FULL;
    *value = (struct tn_json_value) { 0 };
    if (c == '{' || c == '[') {
        if (reader->depth == TN_JSON_DEPTH)
            return TENURE_E_FULL;
        value->type = c == '{' ? TN_JSON_OBJECT : TN_JSON_ARRAY;
        reader->open[reader->depth++] = reader->count;
        reader->at++;
    } else if (c == '"') {
        rc = read_string(reader, value);
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        rc = read_number(reader, value);
    } else {
        rc = read_word(reader, value);
    }
    value->next = ++reader->count;
    return rc;
}

/* What comes before the next value of the innermost container: a comma unless it is the first, and
 * a key in an object. Sets *@ret_closed when the container ends here instead. */
static int read_between(struct reader *reader, bool *ret_closed)
{
    struct tn_json_value *in = &reader->values[reader->open[reader->depth - 1]];
    char end = in->type == TN_JSON_OBJECT ? '}' : ']';

    skip_blanks(reader);
    if (peek(reader) == end) {
        reader->at++;
        reader->depth--;
        in->next = reader->count;
        *ret_closed = true;
        return 0;
    }
    if (in->count > 0) {
        if (peek(reader) != ',')
            return TENURE_E_INVALID;
        reader->at++;
        skip_blanks(reader);
    }
    in->count++;
    if (in->type == TN_JSON_OBJECT) {
        if (peek(reader) != '"')
            return TENURE_E_INVALID;
        int rc = read_one(reader);
        if (rc != 0)
            return rc;
        skip_blanks(reader);
        if (peek(reader) != ':')
            return TENURE_E_INVALID;
        reader->at++;
        skip_blanks(reader);
    }
    return 0;
}

int tn_json_read(char *bytes, size_t len, struct tn_json_value *ret_values, uint32_t max)
{
    struct reader reader = { .bytes = bytes, .len = len, .values = ret_values, .max = max };

    skip_blanks(&reader);
    int rc = read_one(&reader);
    while (rc == 0 && reader.depth > 0) {
        bool closed = false;
        rc = read_between(&reader, &closed);
        if (rc == 0 && !closed)
            rc = read_one(&reader);
    }
    skip_blanks(&reader);
    if (rc == 0 && reader.at != len)
        rc = TENURE_E_INVALID;
    return rc != 0 ? rc : (int)reader.count;
}

bool tn_json_is(const struct tn_json_value *value, const char *text)
{
    return value->type == TN_JSON_STRING && strlen(text) == value->len &&
           memcmp(value->bytes, text, value->len) == 0;
}

const struct tn_json_value *tn_json_get(const struct tn_json_value *values, uint32_t index,
                                        const char *key)
{
    bool object = values[index].type == TN_JSON_OBJECT;
    uint32_t at = index + 1;

    for (uint32_t i = 0; object && i < values[index].count; i++) {
        if (tn_json_is(&values[at], key))
            return &values[at + 1];
        at = values[at + 1].next;
    }
    return NULL;
}

const struct tn_json_value *tn_json_object(const struct tn_json_value *values, uint32_t index,
                                           const char *key)
{
    const struct tn_json_value *value =
        values[index].type == TN_JSON_OBJECT ? tn_json_get(values, index, key) : NULL;

    return value != NULL && value->type == TN_JSON_OBJECT ? value : NULL;
}

bool tn_json_text(const struct tn_json_value *values, const struct tn_json_value *in,
                  const char *key, char *ret_text, size_t size)
{
    const struct tn_json_value *value = in != NULL && in->type == TN_JSON_OBJECT
                                            ? tn_json_get(values, (uint32_t)(in - values), key)
                                            : NULL;

    ret_text[0] = '\0';
    if (value == NULL || (value->type != TN_JSON_STRING && value->type != TN_JSON_NUMBER) ||
        value->len >= size)
        return false;
    memcpy(ret_text, value->bytes, value->len);
    ret_text[value->len] = '\0';
    return true;
}

bool tn_json_u64(const struct tn_json_value *values, const struct tn_json_value *in,
                 const char *key, uint64_t *ret_number)
{
    char text[24];

    return tn_json_text(values, in, key, text, sizeof text) && tn_u64_parse(text, ret_number) == 0;
}

void tn_json_write(struct tn_text *text, const struct tn_json_value *values, uint32_t index)
{
    const struct tn_json_value *value = &values[index];
    bool object = value->type == TN_JSON_OBJECT;
    uint32_t at = index + 1;

    if (value->type == TN_JSON_STRING) {
        tn_json_string(text, value->bytes, value->len);
        return;
    }
    if (!object && value->type != TN_JSON_ARRAY) {
        tn_text_add_bytes(text, value->bytes, value->len);
        return;
    }
    tn_text_add(text, object ? "{" : "[");
    for (uint32_t i = 0; i < value->count; i++) { /* No deeper than TN_JSON_DEPTH. */
        tn_text_add(text, i > 0 ? "," : "");
        if (object) {
            tn_json_write(text, values, at++);
            tn_text_add(text, ":");
        }
        tn_json_write(text, values, at);
        at = values[at].next;
    }
    tn_text_add(text, object ? "}" : "]");
}

void tn_json_write_others(struct tn_text *text, const struct tn_json_value *values,
                          const struct tn_json_value *in, const char *const *except,
                          const char *prefix)
{
    uint32_t at = in != NULL ? (uint32_t)(in - values) + 1 : 0;

    for (uint32_t i = 0; in != NULL && i < in->count; i++) {
        const char *const *key = except;
        while (*key != NULL && !tn_json_is(&values[at], *key))
            key++;
        bool prefixed = values[at].len >= strlen(prefix) &&
                        memcmp(values[at].bytes, prefix, strlen(prefix)) == 0;
        if (*key == NULL && !prefixed) {
            tn_json_write(text, values, at);
            tn_text_add(text, ":");
            tn_json_write(text, values, at + 1);
            tn_text_add(text, ",");
        }
        at = values[at + 1].next;
    }
}
