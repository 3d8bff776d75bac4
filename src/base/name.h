/* name.h - which lease names are allowed; the same rule on every store.
 *
 * It is narrow so that a name needs no quoting in a key, a path, a URL or a shell, and means the
 * same thing wherever it is kept. */
#ifndef TN_BASE_NAME_H
#define TN_BASE_NAME_H

#include <stddef.h>

#include "tenure/error.h"

enum { TN_NAME_MAX = 255 };

/* 1 to 255 bytes: segments of A-Z a-z 0-9 . _ ~ : @ - joined by '/'. No segment is empty, "." or
 * "..". @name need not end in a zero byte; one inside @len is refused like any other.
 * Returns 0 or TENURE_E_INVALID; then @reterr, unless NULL, points at a static reason. */
TENURE_MUST_USE int tn_name_check(const char *name, size_t len, const char **reterr);

#endif
