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
#include "stores/sqlite/private.h"

/* Expired sessions that one operation clears away, besides the one it meets. */
enum { REAP_MAX = 16 };

/* One step: the operation, with its secrets as they are stored. */
struct step {
    struct tn_sqlite *store;
    const struct tn_op *op;
    struct tn_secret session;
    struct tn_secret term;
    char name[TN_NAME_MAX + 1];
    struct tn_sqlite_result *result;
};

struct session {
    int64_t id; /* 0: there is none. */
    tenure_ns ttl;
    int64_t seq;
    bool one_shot;
};

struct lease {
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

static struct lease find_lease(struct tn_sqlite *store, const char *name)
{
    struct lease lease = { 0 };
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

/* P2: the one place where a token is made. False: there are no more. */
static bool grant(struct tn_sqlite *store, const char *name, int64_t session,
                  const struct tn_secret *term)
{
    struct lease lease = find_lease(store, name);
    int64_t token = last_token(store);

    TN_ASSERT(!lease.held || store->failed != 0);
    if (lease.token > token)
        tn_sql_damaged(store); /* The counter was set back. */
    if (token == INT64_MAX)
        return false;
    token++;
    (void)tn_sql_step(store, TN_SQL_TOKEN_SET, "i", token);
    (void)tn_sql_step(store, TN_SQL_LEASE_GRANT, "tiis", name, token, session, term);
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

/* The term is over: by its release, or by whatever else. */
static void vacate(struct tn_sqlite *store, const char *name, bool released)
{
    (void)tn_sql_step(store, released ? TN_SQL_LEASE_RELEASE : TN_SQL_LEASE_EXPIRE, "t", name);
    (void)tn_sql_step(store, TN_SQL_REVOKED_DROP, "t", name);
    tn_bell_note(store, tn_bell_name_slot(name));
    grant_next(store, name);
}

static void end_session(struct tn_sqlite *store, int64_t session)
{
    char name[TN_NAME_MAX + 1];

    (void)tn_sql_step(store, TN_SQL_DEADLINES_DROP, "i", session);
    (void)tn_sql_step(store, TN_SQL_SESSION_WAITERS_DROP, "i", session);
    (void)tn_sql_step(store, TN_SQL_SESSION_DROP, "i", session);
    while (tn_sql_step(store, TN_SQL_SESSION_LEASE, "i", session)) {
        (void)tn_sql_bytes(store, TN_SQL_SESSION_LEASE, 0, name, sizeof name);
        vacate(store, name, false);
    }
}

static tenure_ns session_ttl(struct tn_sqlite *store, int64_t session)
{
    (void)tn_sql_step(store, TN_SQL_DEADLINE_FIND, "it", session, store->clock.domain);
    return tn_sql_i64(store, TN_SQL_DEADLINE_FIND, 1);
}

static void hold_off(struct tn_sqlite *store, const char *name, const struct lease *lease)
{
    (void)tn_sql_step(store, TN_SQL_REVOKED_SET, "titi", name, lease->token, store->clock.domain,
                      store->now + session_ttl(store, lease->session));
}

/* Whether the living holder of @name has lost it to a revocation whose hold-off is over. A clock
 * that has not looked yet, or was set back, gives a full TTL from now, as for sessions. */
static bool is_hold_off_over(struct tn_sqlite *store, const char *name, struct lease *lease)
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
static struct lease settle(struct tn_sqlite *store, const char *name)
{
    struct lease lease = find_lease(store, name);

    if (!lease.held)
        return lease;
    if (!alive(store, lease.session))
        end_session(store, lease.session);
    else if (is_hold_off_over(store, name, &lease))
        vacate(store, name, false);
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

static bool holds(const struct step *step, const struct lease *lease, const struct session *session)
{
    return lease->held && session->id != 0 && lease->session == session->id &&
           tn_secret_equal(&lease->term, &step->term);
}

/* --- Sessions ------------------------------------------------------------------------------- */

/* The session with this step's secret, alive or not. */
static struct session find_session(const struct step *step)
{
    struct session session = { 0 };
    struct tn_sqlite *store = step->store;

    if (!tn_sql_step(store, TN_SQL_SESSION_FIND, "s", &step->session))
        return session;
    session.id = tn_sql_i64(store, TN_SQL_SESSION_FIND, 0);
    session.ttl = tn_sql_i64(store, TN_SQL_SESSION_FIND, 1);
    session.seq = tn_sql_i64(store, TN_SQL_SESSION_FIND, 2);
    session.one_shot = tn_sql_i64(store, TN_SQL_SESSION_FIND, 3) != 0;
    step->result->session = session.id;
    return session;
}

static struct session find_alive(const struct step *step)
{
    struct session session = find_session(step);

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
static void renew(struct step *step, const struct session *session)
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

static struct session add_session(struct step *step, bool one_shot)
{
    const struct tn_op *op = step->op;
    struct session session = { .ttl = op->ttl, .one_shot = one_shot };

    (void)tn_sql_step(step->store, TN_SQL_SESSION_ADD, "sbii", &step->session, op->label,
                      (size_t)op->label_len, op->ttl, (int64_t)one_shot);
    session.id = sqlite3_last_insert_rowid(step->store->db);
    step->result->session = session.id;
    renew(step, &session);
    return session;
}

static void do_open(struct step *step)
{
    struct session session = find_session(step);

    if (session.id == 0)
        (void)add_session(step, false);
    else if (alive(step->store, session.id))
        renew(step, &session);
    else
        step->result->answer = TN_ANSWER_GONE;
}

static void do_renew(struct step *step)
{
    struct lease lease = { 0 };

    if (step->op->name_len > 0)
        lease = settle(step->store, step->name);
    struct session session = find_alive(step);
    if (step->op->name_len > 0 && (!lease.held || (uint64_t)lease.token != step->op->token))
        step->result->answer = TN_ANSWER_STALE;
    else if (step->op->name_len > 0 && !holds(step, &lease, &session))
        step->result->answer = TN_ANSWER_DENIED;
    else if (session.id == 0)
        step->result->answer = TN_ANSWER_GONE;
    else
        renew(step, &session);
}

static void do_close(struct step *step)
{
    struct session session = find_alive(step);

    step->result->answer = session.id != 0 ? TN_ANSWER_OK : TN_ANSWER_GONE;
    if (session.id != 0)
        end_session(step->store, session.id);
}

/* --- Acquire and release -------------------------------------------------------------------- */

static enum tn_answer enqueue(struct step *step, int64_t session)
{
    struct tn_sqlite *store = step->store;

    if (!tn_sql_step(store, TN_SQL_WAITER_FIND, "tis", step->name, session, &step->term))
        (void)tn_sql_step(store, TN_SQL_WAITER_ADD, "tis", step->name, session, &step->term);
    return TN_ANSWER_QUEUED;
}

static enum tn_answer acquire(struct step *step, const struct session *session)
{
    struct tn_sqlite *store = step->store;
    struct lease lease = settle(store, step->name);

    if (!lease.exists)
        (void)tn_sql_step(store, TN_SQL_LEASE_ADD, "t", step->name);
    if (holds(step, &lease, session) && !lease.revoked)
        return TN_ANSWER_GRANTED; /* A repetition: the same term, the same token. */
    if (!lease.held && lease.token > 0 && tn_secret_equal(&lease.term, &step->term))
        return TN_ANSWER_STALE; /* This term is over. */
    if (!lease.held)
        return grant(store, step->name, session->id, &step->term) ? TN_ANSWER_GRANTED
                                                                  : TN_ANSWER_FULL;
    return step->op->wait ? enqueue(step, session->id) : TN_ANSWER_HELD;
}

static void do_acquire(struct step *step)
{
    struct tn_sqlite *store = step->store;
    struct session session = find_session(step);
    bool opened = session.id == 0 && step->op->ttl > 0;

    reap(store, REAP_MAX);
    if (opened)
        session = add_session(step, true);
    else if (session.id != 0 && !alive(store, session.id))
        session.id = 0;
    else if (session.id != 0 && step->op->ttl > 0)
        renew(step, &session);
    if (session.id == 0) {
        step->result->answer = TN_ANSWER_GONE;
        return;
    }
    step->result->answer = acquire(step, &session);
    if (opened && step->result->answer != TN_ANSWER_GRANTED &&
        step->result->answer != TN_ANSWER_QUEUED)
        end_session(store, session.id);
}

static void give_back(struct step *step, const struct session *session)
{
    vacate(step->store, step->name, true);
    if (session->one_shot)
        end_session(step->store, session->id);
}

/* Take back whatever the term has: its place in the queue, or a grant that nobody heard of. */
static void withdraw(struct step *step, const struct lease *lease, const struct session *session)
{
    struct tn_sqlite *store = step->store;

    step->result->answer = session->id != 0 ? TN_ANSWER_RELEASED : TN_ANSWER_GONE;
    if (session->id == 0)
        return;
    if (tn_sql_step(store, TN_SQL_WAITER_FIND, "tis", step->name, session->id, &step->term))
        (void)tn_sql_step(store, TN_SQL_WAITER_DROP, "i", tn_sql_i64(store, TN_SQL_WAITER_FIND, 0));
    if (holds(step, lease, session))
        give_back(step, session);
    else if (session->one_shot)
        end_session(store, session->id);
}

/* P5: exactly this session, term and token. */
static void do_release(struct step *step)
{
    struct lease lease = settle(step->store, step->name);
    struct session session = find_alive(step);
    uint64_t token = step->op->token;

    if (token == 0) {
        withdraw(step, &lease, &session);
    } else if ((uint64_t)lease.released_token == token &&
               tn_secret_equal(&lease.released_term, &step->term)) {
        step->result->answer = TN_ANSWER_RELEASED; /* Said again; the first reply was lost. */
    } else if (!lease.held || (uint64_t)lease.token != token) {
        step->result->answer = TN_ANSWER_STALE;
    } else if (holds(step, &lease, &session)) {
        give_back(step, &session);
        step->result->answer = TN_ANSWER_RELEASED;
    } else {
        step->result->answer = TN_ANSWER_DENIED;
    }
}

/* --- The rest ------------------------------------------------------------------------------- */

static void do_read(struct step *step)
{
    struct lease lease = settle(step->store, step->name);

    step->result->answer = lease.held ? TN_ANSWER_HELD : TN_ANSWER_FREE;
}

/* The holder is told, and the lease passes on when it has released it, when its session ends, or a
 * full TTL from now: P1, as in the lease table. */
static void do_revoke(struct step *step)
{
    struct tn_sqlite *store = step->store;
    struct lease lease = settle(store, step->name);

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

static void do_raise(struct step *step)
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

static void do_tick(struct step *step)
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

void tn_sqlite_read_view(struct tn_sqlite *store, enum tn_sql sql,
                         struct tn_sqlite_lease *ret_lease)
{
    struct tn_sqlite_lease lease = { 0 };

    (void)tn_sql_bytes(store, sql, 0, lease.name, sizeof lease.name);
    lease.token = (uint64_t)tn_sql_i64(store, sql, 1);
    lease.held = !tn_sql_is_null(store, sql, 2) && !tn_sql_is_null(store, sql, 4);
    if (lease.held) {
        lease.label_len = tn_sql_bytes(store, sql, 3, lease.label, sizeof lease.label);
        lease.ttl = tn_sql_i64(store, sql, 4);
        lease.remaining = tn_sql_i64(store, sql, 5) - store->now;
        lease.beat = (uint64_t)tn_sql_i64(store, sql, 7);
        lease.revoked = tn_sql_i64(store, sql, 8) != 0;
        if (!tn_sql_secret(store, sql, 6, &lease.term))
            tn_sql_damaged(store);
    }
    *ret_lease = lease;
}

static void (*const operations[])(struct step *step) = {
    [TN_OP_OPEN] = do_open,       [TN_OP_RENEW] = do_renew,     [TN_OP_CLOSE] = do_close,
    [TN_OP_ACQUIRE] = do_acquire, [TN_OP_RELEASE] = do_release, [TN_OP_READ] = do_read,
    [TN_OP_REVOKE] = do_revoke,   [TN_OP_RAISE] = do_raise,     [TN_OP_TICK] = do_tick,
};

static bool needs_name(enum tn_op_kind kind)
{
    return kind == TN_OP_ACQUIRE || kind == TN_OP_RELEASE || kind == TN_OP_READ ||
           kind == TN_OP_REVOKE;
}

static int check_op(const struct tn_op *op, struct tn_text *reterr)
{
    const char *reason = "the TTL, the label or the sequence number is out of range";
    bool opens = op->kind == TN_OP_OPEN || (op->kind == TN_OP_ACQUIRE && op->ttl > 0);
    bool good = op->label_len <= TN_LABEL_MAX && op->seq <= INT64_MAX;

    if (opens)
        good = good && op->ttl >= TN_TTL_MIN && op->ttl <= TN_TTL_MAX;
    if (good && (op->name_len > 0 || needs_name(op->kind)))
        good = tn_name_check(op->name, op->name_len, &reason) == 0;
    if (!good)
        tn_text_add(reterr, reason);
    return good ? 0 : TENURE_E_INVALID;
}

void tn_sqlite_apply(struct tn_sqlite *store, const struct tn_op *op,
                     struct tn_sqlite_result *ret_result)
{
    struct step step = { .store = store, .op = op, .result = ret_result };

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
    struct tn_sqlite_lease *lease = &ret_result->lease;

    memset(ret_result, 0, sizeof *ret_result);
    ret_result->answer = TN_ANSWER_FREE;
    if (!tn_sql_step(store, sql, "tt", store->clock.domain, name))
        return store->failed == 0;
    tn_sqlite_read_view(store, sql, lease);
    if (tn_sql_is_null(store, sql, 2))
        return true;
    ret_result->answer = TN_ANSWER_HELD;
    /* Not settled: the session is gone or over, or our clock has not looked at it. */
    if (!lease->held || tn_sql_is_null(store, sql, 5) || lease->remaining <= 0 ||
        lease->remaining > lease->ttl)
        return false;
    if (!tn_sql_step(store, TN_SQL_REVOKED_FIND, "tit", name, (int64_t)lease->token,
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

int tn_sqlite_step(struct tn_sqlite *store, const struct tn_op *op,
                   struct tn_sqlite_result *ret_result, struct tn_text *reterr)
{
    struct tn_sqlite_result result;

    int rc = check_op(op, reterr);
    if (rc < 0)
        return rc;
    rc = tn_sql_begin(store, reterr);
    if (rc < 0)
        return rc;
    tn_sqlite_apply(store, op, &result);
    rc = tn_sql_end(store, 0, reterr);
    if (rc != 0)
        return rc;
    tn_sqlite_ring(store);
    *ret_result = result;
    return 0;
}
