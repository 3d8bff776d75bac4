/* grant.h - of the embedded store: who holds a name, who is next in line, and who may supersede a
 * silent holder (F1), as core/lease_grant.h has it. The operations that lead to it are in lease.c.
 *
 * All of it inside a transaction; errors are sticky (private.h). */
#ifndef TN_STORES_SQLITE_GRANT_H
#define TN_STORES_SQLITE_GRANT_H

#include "stores/sqlite/private.h"

/* A name. */
struct tn_sqlite_row {
    bool exists;
    bool held;
    bool revoked; /* Taken away, and not given back yet. */
    int64_t token;
    int64_t session;
    struct tn_secret term;
    int64_t released_token;
    struct tn_secret released_term;
};

/* A session that our clock has never looked at, or one whose deadline lies further away than its
 * TTL (the clock was set back with the machine), gets a full TTL from now. */
bool tn_sqlite_is_alive(struct tn_sqlite *store, int64_t session);
void tn_sqlite_set_deadline(struct tn_sqlite *store, int64_t session, tenure_ns ttl);
/* What it held passes on. */
void tn_sqlite_end_session(struct tn_sqlite *store, int64_t session);
/* At most @most sessions whose time is over, and as many revocations. */
void tn_sqlite_reap(struct tn_sqlite *store, int most);
/* Wake the process of this session after the commit. */
void tn_sqlite_note_session(struct tn_sqlite *store, int64_t session);

/* The lease as it is now: a holder whose time is over has gone, and the next in line has it. */
struct tn_sqlite_row tn_sqlite_settle_lease(struct tn_sqlite *store, const char *name);
/* P2: the one place where a token is made. False: there are no more. */
bool tn_sqlite_grant(struct tn_sqlite *store, const char *name, int64_t session,
                     const struct tn_secret *term);
/* Released by its holder, @session. */
void tn_sqlite_give_back(struct tn_sqlite *store, const char *name, int64_t session);
/* The holder may lead for one more TTL at most. */
void tn_sqlite_hold_off(struct tn_sqlite *store, const char *name,
                        const struct tn_sqlite_row *lease);
/* Somebody leaves the line. */
void tn_sqlite_drop_waiter(struct tn_sqlite *store, const char *name, int64_t session,
                           const struct tn_secret *term);
int64_t tn_sqlite_last_token(struct tn_sqlite *store);

/* F1: note the session's soft limit; whether @session may supersede the holder; and doing it. */
void tn_sqlite_soften(struct tn_sqlite *store, int64_t session, const struct tn_soft *soft);
bool tn_sqlite_is_superseded(struct tn_sqlite *store, const struct tn_sqlite_row *lease,
                             int64_t session, const struct tn_soft *by);
void tn_sqlite_supersede(struct tn_sqlite *store, const char *name,
                         const struct tn_sqlite_row *lease, int64_t session,
                         const struct tn_secret *term);

#endif
