/* pages.c - finding a page that was built in, and its type. */
#include "runtime/pages.h"

#include <string.h>

const struct tn_page *tn_page_find(const struct tn_page *pages, const char *url, const char *index)
{
    for (const struct tn_page *page = pages; page->path != NULL; page++)
        if (strcmp(page->path, strcmp(url, "/") == 0 ? index : url) == 0)
            return page;
    return NULL;
}

const char *tn_page_type(const struct tn_page *page)
{
    static const struct {
        const char *end, *type;
    } types[] = {
        { ".html", "text/html; charset=utf-8" },
        { ".js", "text/javascript; charset=utf-8" },
        { ".css", "text/css; charset=utf-8" },
    };
    size_t len = strlen(page->path);

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        size_t end = strlen(types[i].end);
        if (len > end && strcmp(page->path + len - end, types[i].end) == 0)
            return types[i].type;
    }
    return "application/octet-stream";
}
