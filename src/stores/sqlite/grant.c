/* grant.c - who holds a name, who is next in line, who may supersede a silent holder (F1); and the
 * history of all that. grant.h has the contract.
 *
 * P1: a deadline is only ever compared with the clock it came from, so a session never ends before
 * its TTL has passed since its last renewal.
 * P2: tokens come from one row that nothing deletes; a name's own row may vanish. */
#include "stores/sqlite/grant.h"

#include <string.h>

#include "base/assert.h"
#include "base/sha256.h"
#include "base/time.h"
#include "core/plan.h"
#include "runtime/terms.h"

/* Grants after which the history of all names is cut to its size. */
enum { TRIM_EVERY = 64 };

/* --- Deadlines ------------------------------------------------------------------------------ */

void tn_sqlite_set_deadline(struct tn_sqlite *store, int64_t session, tenure_ns ttl)
{
    (void)tn_sql_step(store, TN_SQL_DEADLINE_SET, "iti", session, store->clock.domain,
                      store->now + ttl);
}

bool tn_sqlite_is_alive(struct tn_sqlite *store, int64_t session)
{
    if (!tn_sql_step(store, TN_SQL_DEADLINE_FIND, "it", session, store->clock.domain))
        return false;
    bool known = !tn_sql_is_null(store, TN_SQL_DEADLINE_FIND, 0);
    tenure_ns expires_at = tn_sql_i64(store, TN_SQL_DEADLINE_FIND, 0);
    tenure_ns ttl = tn_sql_i64(store, TN_SQL_DEADLINE_FIND, 1);
    if (ttl < TN_TTL_MIN || ttl > TN_TTL_MAX) {
        tn_sql_damaged(store);
        return false;
    }
    if (known && expires_at <= store->now + ttl)
        return store->now < expires_at;
    tn_sqlite_set_deadline(store, session, ttl);
    return true;
}

/* --- Leases --------------------------------------------------------------------------------- */

static struct tn_sqlite_row find_lease(struct tn_sqlite *store, const char *name)
{
    struct tn_sqlite_row lease = { 0 };
    const enum tn_sql sql = TN_SQL_LEASE_FIND;

    if (!tn_sql_step(store, sql, "t", name))
        return lease;
    lease.exists = true;
    lease.token = tn_sql_i64(store, sql, 0);
    lease.held = !tn_sql_is_null(store, sql, 1);
    lease.session = tn_sql_i64(store, sql, 1);
    lease.released_token = tn_sql_i64(store, sql, 3);
    bool has_term = tn_sql_secret(store, sql, 2, &lease.term);
    bool has_released = tn_sql_secret(store, sql, 4, &lease.released_term);
    if (lease.token < 0 || (lease.token > 0 && !has_term) ||
        (lease.released_token != 0 && !has_released) || (lease.held && lease.token == 0))
        tn_sql_damaged(store);
    return lease;
}

int64_t tn_sqlite_last_token(struct tn_sqlite *store)
{
    if (!tn_sql_step(store, TN_SQL_TOKEN_READ, "")) {
        tn_sql_damaged(store);
        return 0;
    }
    int64_t token = tn_sql_i64(store, TN_SQL_TOKEN_READ, 0);
    if (token < 0)
        tn_sql_damaged(store);
    return token;
}

/* --- History: for people, in the same transaction; nothing below reads it ------------------- */

/* How a term ended. */
struct sqlite_ending {
    enum tn_term_end why;
    int64_t at, heard; /* By the wall clock. */
};

static void record_begin(struct tn_sqlite *store, const char *name, int64_t token, int64_t session)
{
    (void)tn_sql_step(store, TN_SQL_HISTORY_BEGIN, "tiii", name, token, tn_wall_ms(), session);
    (void)tn_sql_step(store, TN_SQL_HISTORY_TRIM, "ti", name, (int64_t)TN_SQLITE_TERMS - 1);
    if (token % TRIM_EVERY == 0)
        (void)tn_sql_step(store, TN_SQL_HISTORY_TRIM_ALL, "i", (int64_t)TN_SQLITE_TERMS_ALL);
}

static void record_end(struct tn_sqlite *store, const char *name,
                       const struct sqlite_ending *ending)
{
    (void)tn_sql_step(store, TN_SQL_HISTORY_END, "tiiii", name, ending->at, ending->heard,
                      (int64_t)ending->why, (int64_t)TN_TERM_REVOKED);
}

/* The session is over: silent for its TTL, which may have been noticed late, or closed. */
static struct sqlite_ending ending_of(struct tn_sqlite *store, int64_t session)
{
    int64_t wall = tn_wall_ms();
    struct sqlite_ending ending = { .why = TN_TERM_RELEASED, .at = wall, .heard = wall };

    if (!tn_sql_step(store, TN_SQL_DEADLINE_FIND, "it", session, store->clock.domain) ||
        tn_sql_is_null(store, TN_SQL_DEADLINE_FIND, 0))
        return ending;
    tenure_ns late = store->now - tn_sql_i64(store, TN_SQL_DEADLINE_FIND, 0);
    if (late < 0)
        return ending;
    ending.why = TN_TERM_EXPIRED;
    ending.at = wall - late / TN_MS(1);
    ending.heard = ending.at - tn_sql_i64(store, TN_SQL_DEADLINE_FIND, 1) / TN_MS(1);
    return ending;
}

/* --- Grants ---------------------------------------------------------------------------------- */

bool tn_sqlite_grant(struct tn_sqlite *store, const char *name, int64_t session,
                     const struct tn_secret *term)
{
    struct tn_sqlite_row lease = find_lease(store, name);
    int64_t token = tn_sqlite_last_token(store);

    TN_ASSERT(!lease.held || store->failed != 0);
    if (lease.token > token)
        tn_sql_damaged(store); /* The counter was set back. */
    if (token == INT64_MAX)
        return false;
    token++;
    (void)tn_sql_step(store, TN_SQL_TOKEN_SET, "i", token);
    (void)tn_sql_step(store, TN_SQL_LEASE_GRANT, "tiis", name, token, session, term);
    record_begin(store, name, token, session);
    tn_bell_note(store, tn_bell_name_slot(name));
    return true;
}

void tn_sqlite_note_session(struct tn_sqlite *store, int64_t session)
{
    struct tn_secret secret;

    if (tn_sql_step(store, TN_SQL_SESSION_SECRET, "i", session) &&
        tn_sql_secret(store, TN_SQL_SESSION_SECRET, 0, &secret))
        tn_bell_note(store, tn_bell_session_slot(&secret));
}

/* The first waiter whose session is alive; those before it whose sessions are over leave. */
static void grant_next(struct tn_sqlite *store, const char *name)
{
    while (tn_sql_step(store, TN_SQL_WAITER_FIRST, "t", name)) {
        struct tn_secret term;
        int64_t place = tn_sql_i64(store, TN_SQL_WAITER_FIRST, 0);
        int64_t session = tn_sql_i64(store, TN_SQL_WAITER_FIRST, 1);
        if (!tn_sql_secret(store, TN_SQL_WAITER_FIRST, 2, &term))
            tn_sql_damaged(store);
        (void)tn_sql_step(store, TN_SQL_WAITER_DROP, "i", place);
        if (!tn_sqlite_is_alive(store, session) || !tn_sqlite_grant(store, name, session, &term))
            continue;
        tn_sqlite_note_session(store, session);
        if (store->hears != NULL)
            store->hears(store->arg, false, session, name, &term,
                         (uint64_t)tn_sqlite_last_token(store));
        return;
    }
}

/* F1: the session at rest to which @name falls back when @session has it no more; 0: there is none,
 * or its time is over. */
static int64_t rest_of(struct tn_sqlite *store, int64_t session, const char *name)
{
    const enum tn_sql sql = TN_SQL_SOFT_FIND;
    char borrowed[TN_NAME_MAX + 1];

    if (!tn_sql_step(store, sql, "i", session) || tn_sql_is_null(store, sql, 3))
        return 0;
    (void)tn_sql_bytes(store, sql, 2, borrowed, sizeof borrowed);
    int64_t rest = tn_sql_i64(store, sql, 3);
    return strcmp(borrowed, name) == 0 && tn_sqlite_is_alive(store, rest) ? rest : 0;
}

/* Under a secret that no term has. */
static void fall_back(struct tn_sqlite *store, const char *name, int64_t rest)
{
    struct tn_secret secret, term;

    if (!tn_sql_step(store, TN_SQL_SESSION_SECRET, "i", rest) ||
        !tn_sql_secret(store, TN_SQL_SESSION_SECRET, 0, &secret)) {
        tn_sql_damaged(store);
        return;
    }
    tn_secret_hash(&secret, 't', &term);
    (void)tn_sql_step(store, TN_SQL_LEASE_FALL, "tis", name, rest, &term);
}

/* The term is over: by its release, or by whatever else. @rest: as rest_of tells. */
static void vacate(struct tn_sqlite *store, const char *name, bool released, int64_t rest,
                   const struct sqlite_ending *ending)
{
    record_end(store, name, ending);
    (void)tn_sql_step(store, released ? TN_SQL_LEASE_RELEASE : TN_SQL_LEASE_EXPIRE, "t", name);
    (void)tn_sql_step(store, TN_SQL_REVOKED_DROP, "t", name);
    tn_bell_note(store, tn_bell_name_slot(name));
    if (rest != 0)
        fall_back(store, name, rest);
    else
        grant_next(store, name);
}

void tn_sqlite_end_session(struct tn_sqlite *store, int64_t session)
{
    struct sqlite_ending ending = ending_of(store, session);
    char borrowed[TN_NAME_MAX + 1] = "", name[TN_NAME_MAX + 1];
    int64_t rest = 0;

    if (tn_sql_step(store, TN_SQL_SOFT_FIND, "i", session)) {
        (void)tn_sql_bytes(store, TN_SQL_SOFT_FIND, 2, borrowed, sizeof borrowed);
        rest = rest_of(store, session, borrowed);
        (void)tn_sql_step(store, TN_SQL_SOFT_DROP, "i", session);
    }
    (void)tn_sql_step(store, TN_SQL_DEADLINES_DROP, "i", session);
    (void)tn_sql_step(store, TN_SQL_SESSION_WAITERS_DROP, "i", session);
    (void)tn_sql_step(store, TN_SQL_SESSION_DROP, "i", session);
    while (tn_sql_step(store, TN_SQL_SESSION_LEASE, "i", session)) {
        (void)tn_sql_bytes(store, TN_SQL_SESSION_LEASE, 0, name, sizeof name);
        vacate(store, name, false, strcmp(name, borrowed) == 0 ? rest : 0, &ending);
    }
}

static tenure_ns session_ttl(struct tn_sqlite *store, int64_t session)
{
    (void)tn_sql_step(store, TN_SQL_DEADLINE_FIND, "it", session, store->clock.domain);
    return tn_sql_i64(store, TN_SQL_DEADLINE_FIND, 1);
}

void tn_sqlite_hold_off(struct tn_sqlite *store, const char *name,
                        const struct tn_sqlite_row *lease)
{
    (void)tn_sql_step(store, TN_SQL_REVOKED_SET, "titi", name, lease->token, store->clock.domain,
                      store->now + session_ttl(store, lease->session));
}

/* Whether the living holder of @name has lost it to a revocation whose hold-off is over. A clock
 * that has not looked yet, or was set back, gives a full TTL from now, as for sessions. */
static bool is_hold_off_over(struct tn_sqlite *store, const char *name, struct tn_sqlite_row *lease)
{
    const enum tn_sql sql = TN_SQL_REVOKED_FIND;

    if (!tn_sql_step(store, sql, "tit", name, lease->token, store->clock.domain))
        return false;
    lease->revoked = true;
    tenure_ns free_at = tn_sql_i64(store, sql, 0);
    bool known = tn_sql_i64(store, sql, 1) != 0;
    if (known && free_at <= store->now)
        return true;
    if (!known || free_at > store->now + session_ttl(store, lease->session))
        tn_sqlite_hold_off(store, name, lease);
    return false;
}

struct tn_sqlite_row tn_sqlite_settle_lease(struct tn_sqlite *store, const char *name)
{
    struct tn_sqlite_row lease = find_lease(store, name);

    if (!lease.held)
        return lease;
    if (!tn_sqlite_is_alive(store, lease.session))
        tn_sqlite_end_session(store, lease.session);
    else if (is_hold_off_over(store, name, &lease))
        vacate(store, name, false, rest_of(store, lease.session, name),
               &(struct sqlite_ending) { .why = TN_TERM_REVOKED, .at = tn_wall_ms() });
    else
        return lease;
    return find_lease(store, name);
}

void tn_sqlite_reap(struct tn_sqlite *store, int most)
{
    char name[TN_NAME_MAX + 1];

    for (int i = 0; i < most; i++) {
        if (!tn_sql_step(store, TN_SQL_EXPIRED, "ti", store->clock.domain, store->now))
            break;
        tn_sqlite_end_session(store, tn_sql_i64(store, TN_SQL_EXPIRED, 0));
    }
    for (int i = 0; i < most; i++) {
        if (!tn_sql_step(store, TN_SQL_REVOKED_DUE, "ti", store->clock.domain, store->now))
            break;
        (void)tn_sql_bytes(store, TN_SQL_REVOKED_DUE, 0, name, sizeof name);
        (void)tn_sqlite_settle_lease(store, name);
        /* If it is still there, it was about another term. */
        (void)tn_sql_step(store, TN_SQL_REVOKED_FORGET, "tt", name, store->clock.domain);
    }
}

/* --- Soft limits ---------------------------------------------------------------------------- */

/* What the session with soft limit row @session has; false: it has none. */
static bool find_soft(struct tn_sqlite *store, int64_t session, struct tn_soft *ret_soft)
{
    const enum tn_sql sql = TN_SQL_SOFT_FIND;

    if (!tn_sql_step(store, sql, "i", session))
        return false;
    ret_soft->limit = tn_sql_i64(store, sql, 0);
    if (!tn_sql_secret(store, sql, 1, &ret_soft->fences) || ret_soft->limit <= 0)
        tn_sql_damaged(store);
    return true;
}

void tn_sqlite_soften(struct tn_sqlite *store, int64_t session, const struct tn_soft *soft)
{
    struct tn_soft before;

    if (soft->limit == 0)
        return;
    if (!find_soft(store, session, &before) || before.limit != soft->limit ||
        !tn_secret_equal(&before.fences, &soft->fences))
        (void)tn_sql_step(store, TN_SQL_SOFT_SET, "iis", session, soft->limit, &soft->fences);
}

static int64_t count_held(struct tn_sqlite *store, int64_t session)
{
    return tn_sql_step(store, TN_SQL_SESSION_HELD, "i", session)
               ? tn_sql_i64(store, TN_SQL_SESSION_HELD, 0)
               : 0;
}

static tenure_ns expires_at(struct tn_sqlite *store, int64_t session)
{
    return tn_sql_step(store, TN_SQL_DEADLINE_FIND, "it", session, store->clock.domain)
               ? tn_sql_i64(store, TN_SQL_DEADLINE_FIND, 0)
               : 0;
}

/* F1, as in the lease table. The holder's deadline is on our clock: settle has looked. */
bool tn_sqlite_is_superseded(struct tn_sqlite *store, const struct tn_sqlite_row *lease,
                             int64_t session, const struct tn_soft *by)
{
    struct tn_soft soft;

    if (by->limit == 0 || !lease->held || lease->revoked || lease->session == session ||
        !find_soft(store, lease->session, &soft) || !tn_secret_equal(&soft.fences, &by->fences))
        return false;
    tenure_ns ttl = session_ttl(store, lease->session);
    return soft.limit < ttl && store->now >= expires_at(store, lease->session) - ttl + soft.limit &&
           count_held(store, lease->session) == 1 && count_held(store, session) == 0 &&
           tn_sqlite_last_token(store) < INT64_MAX;
}

/* Its owner is unknown from now on, whatever it asks; its time goes on to its end. */
static void put_to_rest(struct tn_sqlite *store, const struct tn_sqlite_row *lease)
{
    struct tn_secret secret, hash;

    (void)tn_sql_step(store, TN_SQL_SESSION_WAITERS_DROP, "i", lease->session);
    if (!tn_sql_step(store, TN_SQL_SESSION_SECRET, "i", lease->session) ||
        !tn_sql_secret(store, TN_SQL_SESSION_SECRET, 0, &secret)) {
        tn_sql_damaged(store);
        return;
    }
    tn_secret_hash(&secret, 't', &hash);
    if (tn_secret_equal(&hash, &lease->term))
        return; /* The lease has fallen back to it: it is at rest. */
    tn_secret_hash(&secret, 'r', &hash);
    (void)tn_sql_step(store, TN_SQL_SESSION_RENAME, "is", lease->session, &hash);
}

void tn_sqlite_drop_waiter(struct tn_sqlite *store, const char *name, int64_t session,
                           const struct tn_secret *term)
{
    if (tn_sql_step(store, TN_SQL_WAITER_FIND, "tis", name, session, term))
        (void)tn_sql_step(store, TN_SQL_WAITER_DROP, "i", tn_sql_i64(store, TN_SQL_WAITER_FIND, 0));
}

void tn_sqlite_supersede(struct tn_sqlite *store, const char *name,
                         const struct tn_sqlite_row *lease, int64_t session,
                         const struct tn_secret *term)
{
    int64_t rest = rest_of(store, lease->session, name);
    tenure_ns ends = expires_at(store, lease->session);
    tenure_ns silent = store->now - (ends - session_ttl(store, lease->session));
    int64_t wall = tn_wall_ms();

    record_end(store, name,
               &(struct sqlite_ending) {
                   .why = TN_TERM_EXPIRED, .at = wall, .heard = wall - silent / TN_MS(1) });
    tn_sqlite_drop_waiter(store, name, session, term);
    (void)tn_sql_step(store, TN_SQL_LEASE_EXPIRE, "t", name);
    put_to_rest(store, lease);
    if (rest == 0 || expires_at(store, rest) < ends)
        rest = lease->session;
    (void)tn_sqlite_grant(store, name, session, term);
    (void)tn_sql_step(store, TN_SQL_SOFT_REST, "iti", session, name, rest);
}

void tn_sqlite_give_back(struct tn_sqlite *store, const char *name, int64_t session)
{
    vacate(store, name, true, rest_of(store, session, name),
           &(struct sqlite_ending) { .why = TN_TERM_RELEASED, .at = tn_wall_ms() });
}
