/* pattern.c - the patterns of pattern.h. */
#include "base/pattern.h"

#include <string.h>

bool tn_pattern_check(const char *text, const char **reterr)
{
    size_t len = strlen(text);

    if (strcmp(text, "*") == 0)
        return true;
    if (len > 2 && strcmp(text + len - 2, "/*") == 0)
        len -= 2;
    return tn_name_check(text, len, reterr) == 0;
}

bool tn_pattern_covers(const char *pattern, const char *name, size_t len)
{
    size_t pattern_len = strlen(pattern);

    if (strcmp(pattern, "*") == 0)
        return true;
    if (pattern[pattern_len - 1] == '*') /* "a/" and a star covers what begins with "a/". */
        return len > pattern_len - 1 && memcmp(pattern, name, pattern_len - 1) == 0;
    return len == pattern_len && memcmp(pattern, name, len) == 0;
}
