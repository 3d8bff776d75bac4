/* entry.h - what a candidate is asked before it may enter: who it is, and whether its numbers are
 * safe. The command and the library ask the same. */
#ifndef TN_RUNTIME_ENTRY_H
#define TN_RUNTIME_ENTRY_H

#include "core/plan.h"
#include "runtime/store.h"

/* The label that others see: @id, or "host-pid" for NULL. Returns 0, or TENURE_E_INVALID, told in
 * @reterr, for one that is empty or too long. */
TENURE_MUST_USE int tn_entry_label(const char *id, char ret_label[TN_LABEL_MAX + 1],
                                   struct tn_text *reterr);

/* Returns 0, or TENURE_E_INVALID for numbers that break P1 or P8, with the arithmetic in @reterr.
 */
TENURE_MUST_USE int tn_entry_plan(const struct tn_plan *plan, struct tn_text *reterr);

/* The same for a soft limit (F1): longer than a renewal may be late, and below the TTL. */
TENURE_MUST_USE int tn_entry_soft(const struct tn_plan *plan, tenure_ns soft,
                                  struct tn_text *reterr);

/* Of a store without TN_STORE_SOFT. */
#define TN_ENTRY_NO_SOFT                                                                   \
    "knows no soft limit; leave it out, or use a store that does: sqlite, tenured, unix, " \
    "memory"

#endif
