/* pages.h - pages that were built into the program, compressed (web/pack.cmake). */
#ifndef TN_RUNTIME_PAGES_H
#define TN_RUNTIME_PAGES_H

#include <stddef.h>

struct tn_page {
    const char *path;          /* "/main.js" */
    const unsigned char *gzip; /* Compressed. */
    size_t size;
};

/* Up to the one without a path: the sandbox, and the console. */
extern const struct tn_page tn_pages[];
extern const struct tn_page tn_console_pages[];

/* The page at @url; "/" is @index. NULL: there is none. */
const struct tn_page *tn_page_find(const struct tn_page *pages, const char *url, const char *index);
/* Its media type. */
const char *tn_page_type(const struct tn_page *page);

/* What the pages may load and ask: only what comes from where they came from. */
#define TN_PAGE_POLICY(scripts)                                                          \
    "default-src 'none'; script-src " scripts "; style-src 'self'; connect-src 'self'; " \
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
#define TN_CONSOLE_POLICY TN_PAGE_POLICY("'self'")
#define TN_SANDBOX_POLICY TN_PAGE_POLICY("'self' 'wasm-unsafe-eval'")

#endif
