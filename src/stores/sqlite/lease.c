/* lease.c - the operations of the lease table, on rows. sqlite.h has the contract; who is granted a
 * name is in grant.c.
 *
 * Happy path: begin; the session is alive; the name is free; the counter gives the next token;
 * commit.
 * What can fail: SQLite, at any statement. Then the transaction is rolled back and nothing
 * happened; the functions below need not look (private.h).
 *
 * P1: `now` is read after the transaction has begun, so waiting for it counts.
 * P9: a file that contradicts itself grants nothing. */
#include "stores/sqlite/sqlite.h"

#include <string.h>

#include "base/sha256.h"
#include "core/plan.h"
#include "stores/sqlite/grant.h"

/* Expired sessions that one operation clears away, besides the one it meets. */
enum { REAP_MAX = 16 };

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

static bool holds(const struct sqlite_step *step, const struct tn_sqlite_row *lease,
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

    if (session.id != 0 && !tn_sqlite_is_alive(step->store, session.id))
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
    tn_sqlite_set_deadline(store, session->id, session->ttl);
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
    else if (tn_sqlite_is_alive(step->store, session.id))
        renew(step, &session);
    else
        step->result->answer = TN_ANSWER_GONE;
}

static void do_renew(struct sqlite_step *step)
{
    struct tn_sqlite_row lease = { 0 };

    if (step->op->name_len > 0)
        lease = tn_sqlite_settle_lease(step->store, step->name);
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
        tn_sqlite_end_session(step->store, session.id);
}

/* --- Acquire and release -------------------------------------------------------------------- */

static enum tn_answer enqueue(struct sqlite_step *step, int64_t session)
{
    struct tn_sqlite *store = step->store;

    if (!tn_sql_step(store, TN_SQL_WAITER_FIND, "tis", step->name, session, &step->term))
        (void)tn_sql_step(store, TN_SQL_WAITER_ADD, "tis", step->name, session, &step->term);
    return TN_ANSWER_QUEUED;
}

static enum tn_answer acquire(struct sqlite_step *step, const struct sqlite_row_session *session)
{
    struct tn_sqlite *store = step->store;
    struct tn_sqlite_row lease = tn_sqlite_settle_lease(store, step->name);

    if (!lease.exists)
        (void)tn_sql_step(store, TN_SQL_LEASE_ADD, "t", step->name);
    if (holds(step, &lease, session) && !lease.revoked)
        return TN_ANSWER_GRANTED; /* A repetition: the same term, the same token. */
    if (!lease.held && lease.token > 0 && tn_secret_equal(&lease.term, &step->term))
        return TN_ANSWER_STALE; /* This term is over. */
    if (!lease.held)
        return tn_sqlite_grant(store, step->name, session->id, &step->term) ? TN_ANSWER_GRANTED
                                                                            : TN_ANSWER_FULL;
    if (tn_sqlite_is_superseded(store, &lease, session->id, &step->op->soft)) {
        tn_sqlite_supersede(store, step->name, &lease, session->id, &step->term);
        return TN_ANSWER_GRANTED;
    }
    return step->op->wait ? enqueue(step, session->id) : TN_ANSWER_HELD;
}

static void do_acquire(struct sqlite_step *step)
{
    struct sqlite_row_session session = find_session(step);

    tn_sqlite_reap(step->store, REAP_MAX);
    step->result->answer = TN_ANSWER_GONE;
    if (session.id == 0 || !tn_sqlite_is_alive(step->store, session.id))
        return;
    tn_sqlite_soften(step->store, session.id, &step->op->soft);
    step->result->answer = acquire(step, &session);
}

/* Take back whatever the term has: its place in the queue, or a grant that nobody heard of. */
static void withdraw(struct sqlite_step *step, const struct tn_sqlite_row *lease,
                     const struct sqlite_row_session *session)
{
    step->result->answer = session->id != 0 ? TN_ANSWER_RELEASED : TN_ANSWER_GONE;
    if (session->id == 0)
        return;
    tn_sqlite_drop_waiter(step->store, step->name, session->id, &step->term);
    if (holds(step, lease, session))
        tn_sqlite_give_back(step->store, step->name, session->id);
}

/* P5: exactly this session, term and token. */
static void do_release(struct sqlite_step *step)
{
    struct tn_sqlite_row lease = tn_sqlite_settle_lease(step->store, step->name);
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
        tn_sqlite_give_back(step->store, step->name, session.id);
        step->result->answer = TN_ANSWER_RELEASED;
    } else {
        step->result->answer = TN_ANSWER_DENIED;
    }
}

/* --- The rest ------------------------------------------------------------------------------- */

static void do_read(struct sqlite_step *step)
{
    struct tn_sqlite_row lease = tn_sqlite_settle_lease(step->store, step->name);

    step->result->answer = lease.held ? TN_ANSWER_HELD : TN_ANSWER_FREE;
}

/* The holder is told, and the lease passes on when it has released it, when its session ends, or a
 * full TTL from now: P1, as in the lease table. */
static void do_revoke(struct sqlite_step *step)
{
    struct tn_sqlite *store = step->store;
    struct tn_sqlite_row lease = tn_sqlite_settle_lease(store, step->name);

    step->result->answer = TN_ANSWER_STALE;
    if (!lease.held || (step->op->token != 0 && step->op->token != (uint64_t)lease.token))
        return;
    step->result->answer = TN_ANSWER_OK;
    if (lease.revoked)
        return;
    tn_sqlite_hold_off(store, step->name, &lease);
    tn_sqlite_note_session(store, lease.session);
    tn_bell_note(store, tn_bell_name_slot(step->name));
}

static void do_raise(struct sqlite_step *step)
{
    struct tn_sqlite *store = step->store;

    step->result->answer = TN_ANSWER_FULL;
    if (step->op->token > INT64_MAX)
        return;
    step->result->answer = TN_ANSWER_OK;
    if (tn_sqlite_last_token(store) < (int64_t)step->op->token)
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
    tn_sqlite_reap(step->store, REAP_MAX);
    step->result->answer = TN_ANSWER_OK;
}

void tn_sqlite_settle(struct tn_sqlite *store)
{
    adopt(store);
    tn_sqlite_reap(store, INT_MAX);
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
