/* lease.c - the rules of the lease table, on rows. sqlite.h has the contract.
 *
 * Happy path: begin; the session is alive; the name is free; the counter gives the next token;
 * commit.
 * What can fail: SQLite, at any statement. Then the transaction is rolled back and nothing
 * happened; the functions below need not look (private.h).
 *
 * P1: `now` is read after the transaction has begun and a deadline is only ever compared with the
 * clock it came from, so a session never ends before its TTL has passed since its last renewal.
 * P2: tokens come from one row that nothing deletes; a name's own row may vanish.
 * P9: a file that contradicts itself grants nothing. */
#include "stores/sqlite/sqlite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/sha256.h"
#include "base/time.h"
#include "core/plan.h"
#include "runtime/terms.h"
#include "stores/sqlite/private.h"

/* Expired sessions that one operation clears away, besides the one it meets. */
enum { REAP_MAX = 16 };

/* Grants after which the history of all names is cut to its size. */
enum { TRIM_EVERY = 64 };

/* One step: the operation, with its secrets as they are stored. */
struct sqlite_step {
    struct tn_sqlite *store;
    const struct tn_op *op;
    struct tn_secret session;
    struct tn_secret term;
    char name[TN_NAME_MAX + 1];
    struct tn_sqlite_result *result;
};

struct sqlite_row_session {
    int64_t id; /* 0: there is none. */
    tenure_ns ttl;
    int64_t seq;
};

struct sqlite_row_lease {
    bool exists;
    bool held;
    bool revoked; /* Set by settle: taken away, and not given back yet. */
    int64_t token;
    int64_t session;
    struct tn_secret term;
    int64_t released_token;
    struct tn_secret released_term;
};

/* --- Deadlines ------------------------------------------------------------------------------ */

static void set_deadline(struct tn_sqlite *store, int64_t session, tenure_ns ttl)
{
    (void)tn_sql_step(store, TN_SQL_DEADLINE_SET, "iti", session, store->clock.domain,
                      store->now + ttl);
}

/* A session that our clock has never looked at, or one whose deadline lies further away than its
 * TTL (the clock was set back with the machine), gets a full TTL from now. */
static bool alive(struct tn_sqlite *store, int64_t session)
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
    set_deadline(store, session, ttl);
    return true;
}

/* --- Leases --------------------------------------------------------------------------------- */

static struct sqlite_row_lease find_lease(struct tn_sqlite *store, const char *name)
{
    struct sqlite_row_lease lease = { 0 };
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

static int64_t last_token(struct tn_sqlite *store)
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

/* P2: the one place where a token is made. False: there are no more. */
static bool grant(struct tn_sqlite *store, const char *name, int64_t session,
                  const struct tn_secret *term)
{
    struct sqlite_row_lease lease = find_lease(store, name);
    int64_t token = last_token(store);

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

static void note_session(struct tn_sqlite *store, int64_t session)
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
        if (!alive(store, session) || !grant(store, name, session, &term))
            continue;
        note_session(store, session);
        if (store->hears != NULL)
            store->hears(store->arg, false, session, name, &term, (uint64_t)last_token(store));
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
    return strcmp(borrowed, name) == 0 && alive(store, rest) ? rest : 0;
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

static void end_session(struct tn_sqlite *store, int64_t session)
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

static void hold_off(struct tn_sqlite *store, const char *name,
                     const struct sqlite_row_lease *lease)
{
    (void)tn_sql_step(store, TN_SQL_REVOKED_SET, "titi", name, lease->token, store->clock.domain,
                      store->now + session_ttl(store, lease->session));
}

/* Whether the living holder of @name has lost it to a revocation whose hold-off is over. A clock
 * that has not looked yet, or was set back, gives a full TTL from now, as for sessions. */
static bool is_hold_off_over(struct tn_sqlite *store, const char *name,
                             struct sqlite_row_lease *lease)
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
        hold_off(store, name, lease);
    return false;
}

/* The lease as it is now: a holder whose time is over has gone, and the next in line has it. */
static struct sqlite_row_lease settle(struct tn_sqlite *store, const char *name)
{
    struct sqlite_row_lease lease = find_lease(store, name);

    if (!lease.held)
        return lease;
    if (!alive(store, lease.session))
        end_session(store, lease.session);
    else if (is_hold_off_over(store, name, &lease))
        vacate(store, name, false, rest_of(store, lease.session, name),
               &(struct sqlite_ending) { .why = TN_TERM_REVOKED, .at = tn_wall_ms() });
    else
        return lease;
    return find_lease(store, name);
}

static void reap(struct tn_sqlite *store, int most)
{
    char name[TN_NAME_MAX + 1];

    for (int i = 0; i < most; i++) {
        if (!tn_sql_step(store, TN_SQL_EXPIRED, "ti", store->clock.domain, store->now))
            break;
        end_session(store, tn_sql_i64(store, TN_SQL_EXPIRED, 0));
    }
    for (int i = 0; i < most; i++) {
        if (!tn_sql_step(store, TN_SQL_REVOKED_DUE, "ti", store->clock.domain, store->now))
            break;
        (void)tn_sql_bytes(store, TN_SQL_REVOKED_DUE, 0, name, sizeof name);
        (void)settle(store, name);
        /* If it is still there, it was about another term. */
        (void)tn_sql_step(store, TN_SQL_REVOKED_FORGET, "tt", name, store->clock.domain);
    }
}

static bool holds(const struct sqlite_step *step, const struct sqlite_row_lease *lease,
                  const struct sqlite_row_session *session)
{
    return lease->held && session->id != 0 && lease->session == session->id &&
           tn_secret_equal(&lease->term, &step->term);
}

/* --- Sessions ------------------------------------------------------------------------------- */

/* The session with this step's secret, alive or not. */
static struct sqlite_row_session find_session(const struct sqlite_step *step)
{
    struct sqlite_row_session session = { 0 };
    struct tn_sqlite *store = step->store;

    if (!tn_sql_step(store, TN_SQL_SESSION_FIND, "s", &step->session))
        return session;
    session.id = tn_sql_i64(store, TN_SQL_SESSION_FIND, 0);
    session.ttl = tn_sql_i64(store, TN_SQL_SESSION_FIND, 1);
    session.seq = tn_sql_i64(store, TN_SQL_SESSION_FIND, 2);
    step->result->session = session.id;
    return session;
}

static struct sqlite_row_session find_alive(const struct sqlite_step *step)
{
    struct sqlite_row_session session = find_session(step);

    if (session.id != 0 && !alive(step->store, session.id))
        session.id = 0;
    return session;
}

/* All of them every time, so there is nothing to remember: few are ever revoked at once. */
void tn_sqlite_tell_revoked(struct tn_sqlite *store, int64_t id)
{
    const enum tn_sql sql = TN_SQL_SESSION_REVOKED;
    char name[TN_NAME_MAX + 1];
    struct tn_secret term;

    if (store->hears == NULL)
        return;
    for (bool more = tn_sql_step(store, sql, "i", id); more; more = tn_sql_next(store, sql)) {
        (void)tn_sql_bytes(store, sql, 0, name, sizeof name);
        if (!tn_sql_secret(store, sql, 2, &term))
            tn_sql_damaged(store);
        else
            store->hears(store->arg, true, id, name, &term, (uint64_t)tn_sql_i64(store, sql, 1));
    }
}

/* Every clock's deadline goes: another clock has to look again before it may judge. */
static void renew(struct sqlite_step *step, const struct sqlite_row_session *session)
{
    struct tn_sqlite *store = step->store;
    int64_t seq = step->op->seq > 0 ? (int64_t)step->op->seq : session->seq + 1;

    if (seq <= session->seq) {
        step->result->answer = TN_ANSWER_STALE;
        return;
    }
    (void)tn_sql_step(store, TN_SQL_SESSION_SEQ, "ii", session->id, seq);
    (void)tn_sql_step(store, TN_SQL_DEADLINES_DROP, "i", session->id);
    set_deadline(store, session->id, session->ttl);
    step->result->answer = TN_ANSWER_OK;
    step->result->ttl = session->ttl;
    if (tn_sql_step(store, TN_SQL_SESSION_HELD, "i", session->id))
        step->result->held = (uint32_t)tn_sql_i64(store, TN_SQL_SESSION_HELD, 0);
    tn_sqlite_tell_revoked(store, session->id);
}

static void add_session(struct sqlite_step *step)
{
    const struct tn_op *op = step->op;
    struct sqlite_row_session session = { .ttl = op->ttl };

    (void)tn_sql_step(step->store, TN_SQL_SESSION_ADD, "sbi", &step->session, op->label,
                      (size_t)op->label_len, op->ttl);
    session.id = sqlite3_last_insert_rowid(step->store->db);
    step->result->session = session.id;
    renew(step, &session);
}

static void do_open(struct sqlite_step *step)
{
    struct tn_secret rest;
    struct sqlite_row_session session = find_session(step);

    tn_secret_hash(&step->session, 'r', &rest);
    if (session.id == 0 && tn_sql_step(step->store, TN_SQL_SESSION_FIND, "s", &rest))
        step->result->answer = TN_ANSWER_GONE; /* Superseded: F1, as in the lease table. */
    else if (session.id == 0)
        add_session(step);
    else if (alive(step->store, session.id))
        renew(step, &session);
    else
        step->result->answer = TN_ANSWER_GONE;
}

static void do_renew(struct sqlite_step *step)
{
    struct sqlite_row_lease lease = { 0 };

    if (step->op->name_len > 0)
        lease = settle(step->store, step->name);
    struct sqlite_row_session session = find_alive(step);
    if (step->op->name_len > 0 && (!lease.held || (uint64_t)lease.token != step->op->token))
        step->result->answer = TN_ANSWER_STALE;
    else if (step->op->name_len > 0 && !holds(step, &lease, &session))
        step->result->answer = TN_ANSWER_DENIED;
    else if (session.id == 0)
        step->result->answer = TN_ANSWER_GONE;
    else
        renew(step, &session);
}

static void do_close(struct sqlite_step *step)
{
    struct sqlite_row_session session = find_alive(step);

    step->result->answer = session.id != 0 ? TN_ANSWER_OK : TN_ANSWER_GONE;
    if (session.id != 0)
        end_session(step->store, session.id);
}

/* --- Acquire and release -------------------------------------------------------------------- */

static enum tn_answer enqueue(struct sqlite_step *step, int64_t session)
{
    struct tn_sqlite *store = step->store;

    if (!tn_sql_step(store, TN_SQL_WAITER_FIND, "tis", step->name, session, &step->term))
        (void)tn_sql_step(store, TN_SQL_WAITER_ADD, "tis", step->name, session, &step->term);
    return TN_ANSWER_QUEUED;
}

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

static void soften(struct sqlite_step *step, int64_t session)
{
    const struct tn_soft *soft = &step->op->soft;
    struct tn_soft before;

    if (soft->limit == 0)
        return;
    if (!find_soft(step->store, session, &before) || before.limit != soft->limit ||
        !tn_secret_equal(&before.fences, &soft->fences))
        (void)tn_sql_step(step->store, TN_SQL_SOFT_SET, "iis", session, soft->limit, &soft->fences);
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
static bool is_superseded(struct sqlite_step *step, const struct sqlite_row_lease *lease,
                          const struct sqlite_row_session *session)
{
    struct tn_sqlite *store = step->store;
    struct tn_soft soft;

    if (step->op->soft.limit == 0 || !lease->held || lease->revoked ||
        lease->session == session->id || !find_soft(store, lease->session, &soft) ||
        !tn_secret_equal(&soft.fences, &step->op->soft.fences))
        return false;
    tenure_ns ttl = session_ttl(store, lease->session);
    return soft.limit < ttl && store->now >= expires_at(store, lease->session) - ttl + soft.limit &&
           count_held(store, lease->session) == 1 && count_held(store, session->id) == 0 &&
           last_token(store) < INT64_MAX;
}

/* Its owner is unknown from now on, whatever it asks; its time goes on to its end. */
static void put_to_rest(struct tn_sqlite *store, const struct sqlite_row_lease *lease)
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

static void supersede(struct sqlite_step *step, const struct sqlite_row_lease *lease,
                      const struct sqlite_row_session *session)
{
    struct tn_sqlite *store = step->store;
    int64_t rest = rest_of(store, lease->session, step->name);
    tenure_ns ends = expires_at(store, lease->session);
    tenure_ns silent = store->now - (ends - session_ttl(store, lease->session));
    int64_t wall = tn_wall_ms();

    record_end(store, step->name,
               &(struct sqlite_ending) {
                   .why = TN_TERM_EXPIRED, .at = wall, .heard = wall - silent / TN_MS(1) });
    if (tn_sql_step(store, TN_SQL_WAITER_FIND, "tis", step->name, session->id, &step->term))
        (void)tn_sql_step(store, TN_SQL_WAITER_DROP, "i", tn_sql_i64(store, TN_SQL_WAITER_FIND, 0));
    (void)tn_sql_step(store, TN_SQL_LEASE_EXPIRE, "t", step->name);
    put_to_rest(store, lease);
    if (rest == 0 || expires_at(store, rest) < ends)
        rest = lease->session;
    (void)grant(store, step->name, session->id, &step->term);
    (void)tn_sql_step(store, TN_SQL_SOFT_REST, "iti", session->id, step->name, rest);
}

static enum tn_answer acquire(struct sqlite_step *step, const struct sqlite_row_session *session)
{
    struct tn_sqlite *store = step->store;
    struct sqlite_row_lease lease = settle(store, step->name);

    if (!lease.exists)
        (void)tn_sql_step(store, TN_SQL_LEASE_ADD, "t", step->name);
    if (holds(step, &lease, session) && !lease.revoked)
        return TN_ANSWER_GRANTED; /* A repetition: the same term, the same token. */
    if (!lease.held && lease.token > 0 && tn_secret_equal(&lease.term, &step->term))
        return TN_ANSWER_STALE; /* This term is over. */
    if (!lease.held)
        return grant(store, step->name, session->id, &step->term) ? TN_ANSWER_GRANTED
                                                                  : TN_ANSWER_FULL;
    if (is_superseded(step, &lease, session)) {
        supersede(step, &lease, session);
        return TN_ANSWER_GRANTED;
    }
    return step->op->wait ? enqueue(step, session->id) : TN_ANSWER_HELD;
}

static void do_acquire(struct sqlite_step *step)
{
    struct sqlite_row_session session = find_session(step);

    reap(step->store, REAP_MAX);
    step->result->answer = TN_ANSWER_GONE;
    if (session.id == 0 || !alive(step->store, session.id))
        return;
    soften(step, session.id);
    step->result->answer = acquire(step, &session);
}

static void give_back(struct sqlite_step *step, int64_t session)
{
    vacate(step->store, step->name, true, rest_of(step->store, session, step->name),
           &(struct sqlite_ending) { .why = TN_TERM_RELEASED, .at = tn_wall_ms() });
}

/* Take back whatever the term has: its place in the queue, or a grant that nobody heard of. */
static void withdraw(struct sqlite_step *step, const struct sqlite_row_lease *lease,
                     const struct sqlite_row_session *session)
{
    struct tn_sqlite *store = step->store;

    step->result->answer = session->id != 0 ? TN_ANSWER_RELEASED : TN_ANSWER_GONE;
    if (session->id == 0)
        return;
    if (tn_sql_step(store, TN_SQL_WAITER_FIND, "tis", step->name, session->id, &step->term))
        (void)tn_sql_step(store, TN_SQL_WAITER_DROP, "i", tn_sql_i64(store, TN_SQL_WAITER_FIND, 0));
    if (holds(step, lease, session))
        give_back(step, session->id);
}

/* P5: exactly this session, term and token. */
static void do_release(struct sqlite_step *step)
{
    struct sqlite_row_lease lease = settle(step->store, step->name);
    struct sqlite_row_session session = find_alive(step);
    uint64_t token = step->op->token;

    if (token == 0) {
        withdraw(step, &lease, &session);
    } else if ((uint64_t)lease.released_token == token &&
               tn_secret_equal(&lease.released_term, &step->term)) {
        step->result->answer = TN_ANSWER_RELEASED; /* Said again; the first reply was lost. */
    } else if (!lease.held || (uint64_t)lease.token != token) {
        step->result->answer = TN_ANSWER_STALE;
    } else if (holds(step, &lease, &session)) {
        give_back(step, session.id);
        step->result->answer = TN_ANSWER_RELEASED;
    } else {
        step->result->answer = TN_ANSWER_DENIED;
    }
}

/* --- The rest ------------------------------------------------------------------------------- */

static void do_read(struct sqlite_step *step)
{
    struct sqlite_row_lease lease = settle(step->store, step->name);

    step->result->answer = lease.held ? TN_ANSWER_HELD : TN_ANSWER_FREE;
}

/* The holder is told, and the lease passes on when it has released it, when its session ends, or a
 * full TTL from now: P1, as in the lease table. */
static void do_revoke(struct sqlite_step *step)
{
    struct tn_sqlite *store = step->store;
    struct sqlite_row_lease lease = settle(store, step->name);

    step->result->answer = TN_ANSWER_STALE;
    if (!lease.held || (step->op->token != 0 && step->op->token != (uint64_t)lease.token))
        return;
    step->result->answer = TN_ANSWER_OK;
    if (lease.revoked)
        return;
    hold_off(store, step->name, &lease);
    note_session(store, lease.session);
    tn_bell_note(store, tn_bell_name_slot(step->name));
}

static void do_raise(struct sqlite_step *step)
{
    struct tn_sqlite *store = step->store;

    step->result->answer = TN_ANSWER_FULL;
    if (step->op->token > INT64_MAX)
        return;
    step->result->answer = TN_ANSWER_OK;
    if (last_token(store) < (int64_t)step->op->token)
        (void)tn_sql_step(store, TN_SQL_TOKEN_SET, "i", (int64_t)step->op->token);
}

/* Sessions that another clock has renewed since we looked get a deadline on ours. */
static void adopt(struct tn_sqlite *store)
{
    (void)tn_sql_step(store, TN_SQL_ADOPT, "ti", store->clock.domain, store->now);
}

static void do_tick(struct sqlite_step *step)
{
    adopt(step->store);
    reap(step->store, REAP_MAX);
    step->result->answer = TN_ANSWER_OK;
}

void tn_sqlite_settle(struct tn_sqlite *store)
{
    adopt(store);
    reap(store, INT_MAX);
}

void tn_sqlite_read_view(struct tn_sqlite *store, enum tn_sql sql, struct tn_store_lease *ret_lease)
{
    struct tn_store_record *record = &ret_lease->record;

    *ret_lease = (struct tn_store_lease) { .counted = true };
    (void)tn_sql_bytes(store, sql, 0, ret_lease->name, sizeof ret_lease->name);
    record->token = (uint64_t)tn_sql_i64(store, sql, 1);
    record->held = !tn_sql_is_null(store, sql, 2) && !tn_sql_is_null(store, sql, 4);
    if (!record->held)
        return;
    record->label_len = tn_sql_bytes(store, sql, 3, record->label, sizeof record->label);
    record->ttl = tn_sql_i64(store, sql, 4);
    record->remaining = tn_sql_i64(store, sql, 5) - store->now;
    record->beat = (uint64_t)tn_sql_i64(store, sql, 7);
    record->revoked = tn_sql_i64(store, sql, 8) != 0;
    if (!tn_sql_secret(store, sql, 6, &record->term))
        tn_sql_damaged(store);
}

static void (*const operations[])(struct sqlite_step *step) = {
    [TN_OP_OPEN] = do_open,       [TN_OP_RENEW] = do_renew,     [TN_OP_CLOSE] = do_close,
    [TN_OP_ACQUIRE] = do_acquire, [TN_OP_RELEASE] = do_release, [TN_OP_READ] = do_read,
    [TN_OP_REVOKE] = do_revoke,   [TN_OP_RAISE] = do_raise,     [TN_OP_TICK] = do_tick,
};

void tn_sqlite_apply(struct tn_sqlite *store, const struct tn_op *op,
                     struct tn_sqlite_result *ret_result)
{
    struct sqlite_step step = { .store = store, .op = op, .result = ret_result };

    memset(ret_result, 0, sizeof *ret_result);
    if (op->name_len > 0)
        memcpy(step.name, op->name, op->name_len);
    tn_secret_hash(&op->session, 's', &step.session);
    tn_secret_hash(&op->term, 't', &step.term);
    operations[op->kind](&step);
    if (op->name_len > 0 &&
        tn_sql_step(store, TN_SQL_LEASE_VIEW, "tt", store->clock.domain, step.name))
        tn_sqlite_read_view(store, TN_SQL_LEASE_VIEW, &ret_result->lease);
}

bool tn_sqlite_peek(struct tn_sqlite *store, const char *name, struct tn_sqlite_result *ret_result)
{
    const enum tn_sql sql = TN_SQL_LEASE_VIEW;
    const struct tn_store_record *record = &ret_result->lease.record;

    memset(ret_result, 0, sizeof *ret_result);
    ret_result->answer = TN_ANSWER_FREE;
    if (!tn_sql_step(store, sql, "tt", store->clock.domain, name))
        return store->failed == 0;
    tn_sqlite_read_view(store, sql, &ret_result->lease);
    if (tn_sql_is_null(store, sql, 2))
        return true;
    ret_result->answer = TN_ANSWER_HELD;
    /* Not settled: the session is gone or over, or our clock has not looked at it. */
    if (!record->held || tn_sql_is_null(store, sql, 5) || record->remaining <= 0 ||
        record->remaining > record->ttl)
        return false;
    if (!tn_sql_step(store, TN_SQL_REVOKED_FIND, "tit", name, (int64_t)record->token,
                     store->clock.domain))
        return true;
    return tn_sql_i64(store, TN_SQL_REVOKED_FIND, 1) != 0 &&
           tn_sql_i64(store, TN_SQL_REVOKED_FIND, 0) > store->now;
}

tenure_ns tn_sqlite_due_at(struct tn_sqlite *store, int64_t id)
{
    static const enum tn_sql questions[] = { TN_SQL_SESSION_DUE, TN_SQL_SESSION_DUE_REVOKED };
    tenure_ns due = TN_NEVER;

    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        if (!tn_sql_step(store, questions[i], "it", id, store->clock.domain) ||
            tn_sql_is_null(store, questions[i], 0))
            continue;
        tenure_ns at = tn_sql_i64(store, questions[i], 0);
        due = at < due ? at : due;
    }
    return due;
}
