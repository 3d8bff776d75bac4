/* base64.h - reading and writing base64 (RFC 4648), as configuration files and JSON carry bytes in
 * it. */
#ifndef TN_BASE_BASE64_H
#define TN_BASE_BASE64_H

#include <stddef.h>

#include "base/text.h"

/* The bytes that @text, @len characters, stands for, and a zero behind them; to be freed. Line ends
 * are skipped, as PEM has them. NULL: malformed, or out of memory. */
char *tn_base64_decode(const char *text, size_t len, size_t *ret_len);

void tn_base64_add(struct tn_text *text, const char *bytes, size_t len);

#endif
