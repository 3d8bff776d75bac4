/* url.c - what of a URL may be shown. */
#include "base/url.h"

#include <stdio.h>
#include <string.h>

static const char *hide_all(const char *url, const char *begin, char *buf, size_t size)
{
    (void)snprintf(buf, size, "%.*s...", (int)(begin - url), url);
    return buf;
}

const char *tn_url_public(const char *url, char *buf, size_t size)
{
    const char *slashes = strstr(url, "://");
    const char *begin = slashes != NULL ? slashes + 3 : url;
    /* The last one: a password may hold an "@" that nobody encoded. */
    const char *at = slashes != NULL ? strrchr(begin, '@') : NULL;
    const char *rest = at != NULL ? at : begin;
    size_t shown = strcspn(rest, slashes != NULL ? "?" : "");

    /* Which of the two is in the password cannot be told: then nothing is shown. */
    if (at != NULL && memchr(begin, '?', (size_t)(at - begin)) != NULL)
        return hide_all(url, begin, buf, size);

    (void)snprintf(buf, size, "%.*s%s%.*s%s", (int)(begin - url), url, at != NULL ? "..." : "",
                   (int)shown, rest, rest[shown] != '\0' ? "?..." : "");
    return buf;
}
