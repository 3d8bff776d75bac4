/* state.h - all that the daemon knows and must not forget: the lease table and the fences, and how
 * each change of them is put into the journal and taken out again.
 * Threads: one at a time. */
#ifndef TN_DAEMON_STATE_H
#define TN_DAEMON_STATE_H

#include "core/lease_table.h"
#include "daemon/fences.h"
#include "daemon/journal.h"

struct tn_state {
    struct tn_table *table;
    size_t table_bytes;
    bool large; /* Its names lie in large pages, if the system has them. */
    struct tn_fences fences;
};

/* Returns 0 or TENURE_E_NOMEM. limits->tells_ends is set. */
TENURE_MUST_USE int tn_state_init(struct tn_state *state, struct tn_table_limits limits,
                                  uint32_t fences_max);
void tn_state_done(struct tn_state *state);

/* Call it now and then, while the number of names grows. */
void tn_state_grown(struct tn_state *state);

/* The journal's view of it. */
struct tn_journal_state tn_state_for_journal(struct tn_state *state);

/* Put what @op and its @result changed into the journal's batch. */
void tn_state_log(const struct tn_state *state, struct tn_journal *journal, const struct tn_op *op,
                  const struct tn_result *result);

#endif
