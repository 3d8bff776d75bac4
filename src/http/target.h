/* target.h - the target of a request, decoded: its path, and the arguments behind the '?'. */
#ifndef TN_HTTP_TARGET_H
#define TN_HTTP_TARGET_H

#include <stdint.h>

#include "tenure/error.h"
#include "wire/http.h"

struct tn_http_target {
    char *text;    /* All of it: the path, then keys and values in turn, each with its zero. */
    uint32_t args; /* How many there are. */
};

/* Decode @target. Returns 0, TENURE_E_NOMEM, or TENURE_E_INVALID: it is no path, or a percent sign
 * is not followed by two digits, or they mean a zero. */
TENURE_MUST_USE int tn_http_target_read(struct tn_http_target *ret_target,
                                        const struct tn_http_slice *target);
void tn_http_target_free(struct tn_http_target *target);

/* The first argument of this key; NULL: there is none. */
const char *tn_http_target_argument(const struct tn_http_target *target, const char *key);

#endif
