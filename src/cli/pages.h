/* pages.h - the sandbox page as it was built into the program (web/embed.cmake). */
#ifndef TN_CLI_PAGES_H
#define TN_CLI_PAGES_H

#include <stddef.h>

struct tn_page {
    const char *path;          /* "/main.js" */
    const unsigned char *gzip; /* Compressed. */
    size_t size;
};

/* Up to the one without a path. */
extern const struct tn_page tn_pages[];

#endif
