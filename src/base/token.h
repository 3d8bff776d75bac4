/* token.h - tokens as text of one width, so that their order is the order of their bytes.
 *
 * A receiver's own numbers are seldom wide enough: SQLite's integers are signed, Redis compares
 * doubles, which lose whole numbers from 2^53 on. Twenty digits, with zeros in front, hold every
 * token, compare exactly as bytes in any language and any database, and people can read them. */
#ifndef TN_BASE_TOKEN_H
#define TN_BASE_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#include "tenure/error.h"

enum { TN_TOKEN_DIGITS = 20, TN_TOKEN_TEXT = TN_TOKEN_DIGITS + 1 };

void tn_token_format(char buf[TN_TOKEN_TEXT], uint64_t token);

/* Exactly twenty digits, at most 2^64 - 1; @text need not end in a zero byte.
 * Returns 0 or TENURE_E_INVALID; on error @ret_token is unchanged. */
TENURE_MUST_USE int tn_token_parse(const char *text, size_t len, uint64_t *ret_token);

#endif
