/* lease_grant.h - of the lease table: who holds a name, who is next in line, and who may supersede
 * a silent holder (F1). The operations that lead to it are in lease_table.c.
 *
 * Threads, memory and clock as for the table. */
#ifndef TN_CORE_LEASE_GRANT_H
#define TN_CORE_LEASE_GRANT_H

#include "core/lease_store.h"

/* What the table's owner has to tell others; the caller has seen that there is room for it. */
struct tn_notice *tn_lease_notify(struct tn_result *result, enum tn_notice_kind kind,
                                  uint32_t lease);
void tn_lease_notify_changed(struct tn_table *table, uint32_t lease, struct tn_result *result);

/* The holder, and nothing else: no token, no notice. */
void tn_lease_attach(struct tn_table *table, uint32_t lease, uint32_t session);
void tn_lease_detach(struct tn_table *table, uint32_t lease);

uint64_t tn_lease_next_token(struct tn_table *table, const struct tn_lease_record *lease,
                             const struct tn_secret *term);
void tn_lease_grant(struct tn_table *table, uint32_t lease, uint32_t session,
                    const struct tn_secret *term, uint64_t token);
/* To the first in line who is still alive. False: there is none. */
bool tn_lease_grant_next(struct tn_table *table, uint32_t lease, uint64_t token,
                         struct tn_result *result);
bool tn_lease_is_held_by(const struct tn_table *table, uint32_t lease, uint32_t session,
                         const struct tn_secret *term);
/* The term is over: the next one follows. */
void tn_lease_vacate(struct tn_table *table, uint32_t lease, struct tn_result *result);
/* The same, if the holder's time is over by the clock. */
void tn_lease_settle(struct tn_table *table, uint32_t lease, struct tn_result *result);
/* Somebody leaves the line. */
void tn_lease_drop_waiter(struct tn_table *table, uint32_t waiter, struct tn_result *result);

/* True: the owner has all it may have, and that is the answer. */
bool tn_lease_owner_is_full(const struct tn_op *op, uint32_t has, struct tn_result *result);

/* F1: whether @session, whose acquire is @op, may supersede the holder; and doing it. */
bool tn_lease_is_superseded(const struct tn_table *table, uint32_t lease, uint32_t session,
                            const struct tn_op *op);
void tn_lease_supersede(struct tn_table *table, uint32_t lease, uint32_t session,
                        const struct tn_op *op, struct tn_result *result);

/* The secret of a session at rest (F1), or of the term that falls back to it. It is made of another
 * secret, so nobody can guess it who does not know that one, and it stands for no other. */
enum tn_resting_kind { TN_RESTING_SESSION = 0x52, TN_RESTING_TERM = 0xad };
struct tn_secret tn_lease_resting(const struct tn_secret *secret, enum tn_resting_kind kind);

#endif
