/* url.h - a store's URL as it may be shown: without what is between "//" and "@", and without its
 * query, where a password may be. Error lines end up in logs that many read. */
#ifndef TN_BASE_URL_H
#define TN_BASE_URL_H

#include <stddef.h>

/* Fills @buf, @size > 0 bytes, and returns it; cut off when it does not fit. */
const char *tn_url_public(const char *url, char *buf, size_t size);

#endif
