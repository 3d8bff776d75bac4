/* name.c - the one place that decides whether a lease name is allowed. */
#include "base/name.h"

#include <stdbool.h>
#include <string.h>

/* Spelled out, not isalnum: the locale must not change which names exist. */
static bool is_name_char(char c)
{
    if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
        return true;
    return c != '\0' && strchr("._~:@-", c) != NULL;
}

static const char *check_segment(const char *segment, size_t len)
{
    if (len == 0)
        return "a name has no empty segment: no '/' at its ends, no two in a row";
    if (len <= 2 && memcmp(segment, "..", len) == 0)
        return "a name has no segment '.' or '..'";
    for (size_t i = 0; i < len; i++) {
        if (!is_name_char(segment[i]))
            return "a name has only A-Z a-z 0-9 . _ ~ : @ - and '/'";
    }
    return NULL;
}

int tn_name_check(const char *name, size_t len, const char **reterr)
{
    const char *reason = NULL;
    size_t start = 0;

    if (len == 0)
        reason = "a name has at least 1 byte";
    else if (len > TN_NAME_MAX)
        reason = "a name has at most 255 bytes";
    for (size_t i = 0; reason == NULL && i <= len; i++) {
        if (i == len || name[i] == '/') {
            reason = check_segment(name + start, i - start);
            start = i + 1;
        }
    }
    if (reason == NULL)
        return 0;
    if (reterr != NULL)
        *reterr = reason;
    return TENURE_E_INVALID;
}
