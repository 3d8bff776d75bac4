/* spec.h - a fence in one word, as an option or a campaign names it: URL#RESOURCE, or only the URL
 * where it names the resource (file:PATH). Errors as in target.h. Threads: any. */
#ifndef TN_RECEIVERS_SPEC_H
#define TN_RECEIVERS_SPEC_H

#include <stdint.h>

#include "base/text.h"
#include "tenure/error.h"
#include "tenure/time.h"

/* Whether @spec names a fence that this build knows; opens nothing. */
TENURE_MUST_USE int tn_fence_spec_check(const char *spec, struct tn_text *reterr);

/* Whether it can be raised, as far as that shows without raising it: it is there, it answers, and
 * we are let in. Blocks up to @timeout. What asking again does not mend is tn_error_is_final. */
TENURE_MUST_USE int tn_fence_spec_probe(const char *spec, tenure_ns timeout,
                                        struct tn_text *reterr);

/* Text that two processes have in common only if @spec is the same fence for both, wherever they
 * run. A file or socket is told by its inode and the boot of the machine, an address of the
 * loopback by the network namespace. Host names are believed: they mean one server everywhere.
 * TENURE_E_UNSUPPORTED: the environment decides what @spec means; or an error about the file. */
TENURE_MUST_USE int tn_fence_spec_identify(const char *spec, struct tn_text *ret_identity,
                                           struct tn_text *reterr);

/* Raise it to @token; *@ret_highest is set on 0 and TENURE_E_STALE. Blocks up to @timeout. */
TENURE_MUST_USE int tn_fence_spec_raise(const char *spec, uint64_t token, tenure_ns timeout,
                                        uint64_t *ret_highest, struct tn_text *reterr);

#endif
