/* target.c - decoding a request's path and arguments; target.h has the contract. */
#include "http/target.h"

#include <stdlib.h>
#include <string.h>

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | ('a' - 'A'));
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The characters from *@at up to one of @ends, and a zero. NULL: they are no good. */
static char *decode(char *out, const struct tn_http_slice *target, size_t *at, const char *ends,
                    bool is_argument)
{
    for (; *at < target->len && strchr(ends, target->bytes[*at]) == NULL; ++*at) {
        char c = target->bytes[*at];
        if (c == '%') {
            int high = *at + 2 < target->len ? digit_of(target->bytes[*at + 1]) : -1;
            int low = high >= 0 ? digit_of(target->bytes[*at + 2]) : -1;
            if (low < 0 || high + low == 0)
                return NULL;
            c = (char)(high * 16 + low);
            *at += 2;
        } else if (c == '+' && is_argument) {
            c = ' ';
        }
        *out++ = c;
    }
    *out++ = '\0';
    return out;
}

int tn_http_target_read(struct tn_http_target *ret_target, const struct tn_http_slice *target)
{
    struct tn_http_target made = { .text = malloc(2 * target->len + 4) };
    char *out = made.text;
    size_t at = 0;

    if (out == NULL)
        return TENURE_E_NOMEM;
    if (target->len == 0 || target->bytes[0] != '/')
        out = NULL;
    else
        out = decode(out, target, &at, "?", false);
    while (out != NULL && at < target->len) {
        at++; /* '?' or '&' */
        out = decode(out, target, &at, "=&", true);
        if (out != NULL && at < target->len && target->bytes[at] == '=') {
            at++;
            out = decode(out, target, &at, "&", true);
        } else if (out != NULL) {
            *out++ = '\0'; /* A key without a value. */
        }
        made.args++;
    }
    if (out == NULL) {
        free(made.text);
        return TENURE_E_INVALID;
    }
    *ret_target = made;
    return 0;
}

void tn_http_target_free(struct tn_http_target *target)
{
    free(target->text);
    *target = (struct tn_http_target) { 0 };
}

const char *tn_http_target_argument(const struct tn_http_target *target, const char *key)
{
    const char *at = target->text;

    for (uint32_t i = 0; i < target->args; i++) {
        const char *name = at + strlen(at) + 1;
        const char *value = name + strlen(name) + 1;
        if (strcmp(name, key) == 0)
            return value;
        at = value;
    }
    return NULL;
}
