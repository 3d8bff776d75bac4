/* store.c - the embedded store on a loop: what is asked in one turn is one transaction.
 *
 *   submit --> queue --turn--> batch: begin, look, apply each, commit --> ring --> news, done
 *                 ^                     |
 *                 +---- busy: later ----+
 *
 * Happy path: a turn takes up to BATCH_MAX requests into one transaction, so that all of them cost
 * one flush of the disk. A turn with nothing but reads writes nothing and keeps nobody out.
 * Nothing here waits: when another process is in a transaction, the turn is tried again from the
 * loop, after a few milliseconds, until the requests give up.
 * What can fail: everything, and then all of the batch has failed. The connection is given up and
 * made anew for the next turn, which checks the file like an open does. A file that was removed or
 * replaced is noticed at the start of every transaction: nothing is done in the old one, and
 * nothing is created in its place, because there may be leaders; a good file that appears is used.
 * It knows none of our sessions, so a holder hears GONE with its next renewal.
 *
 * Waiters. A grant changes the bell's slot of the session, and the process in which it lives looks
 * what the session was granted since it last looked: tokens rise over all names, so one number is
 * all it has to remember. Every transaction that writes looks as well, so a lost ring costs at
 * most a renewal's interval. A dead holder rings no bell. Each waiter therefore wakes when the
 * earliest session ahead of it can expire, reads, and ends that session if no other process has.
 *
 * Watchers look when the bell's slot of the name has changed, but each after a random delay: the
 * winner comes first, and a hundred others do not all read at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/sqlite/loop.h"

/* --- Requests ------------------------------------------------------------------------------- */

int tn_sqlite_status(int code)
{
    return code == TENURE_E_NOT_HELD ? TENURE_E_UNAVAILABLE : code;
}

static void fail_all(struct tn_sqlite_store *store, struct tn_req_list *list, int status,
                     const char *text)
{
    struct tn_store_req *req;

    while ((req = tn_req_take(list)) != NULL) {
        tn_req_fail(req, tn_sqlite_status(status), text);
        tn_req_add(&store->finished, req);
    }
}

static void answer(struct tn_store_req *req, const struct tn_sqlite_result *result)
{
    req->answer = result->answer;
    req->ttl = result->ttl;
    req->held = result->held;
    req->record = result->lease.record;
}

void tn_sqlite_submit(struct tn_store *base, struct tn_store_req *req)
{
    struct tn_sqlite_store *store = (struct tn_sqlite_store *)base;

    if (req->op.seq > INT64_MAX) {
        tn_req_refuse(base, req, TENURE_E_INVALID, "the sequence number is out of range");
        return;
    }
    tn_req_add(&store->queue, req);
    tn_sqlite_kick(store);
}

/* --- News ----------------------------------------------------------------------------------- */

struct tn_sqlite_news *tn_sqlite_add_news(struct tn_sqlite_store *store)
{
    if (store->news_count == store->news_room) {
        size_t room = store->news_room > 0 ? 2 * store->news_room : 8;
        struct tn_sqlite_news *grown = realloc(store->news, room * sizeof *grown);
        if (grown == NULL) {
            store->sqlite->failed = SQLITE_NOMEM;
            return NULL;
        }
        store->news = grown;
        store->news_room = room;
    }
    struct tn_sqlite_news *news = &store->news[store->news_count++];
    memset(news, 0, sizeof *news);
    news->before = store->batch_count;
    return news;
}

static void add_grant(struct tn_sqlite_store *store, bool revoked, const char *name,
                      const struct tn_secret *term, uint64_t token)
{
    struct tn_sqlite_news *news = tn_sqlite_add_news(store);

    if (news == NULL)
        return;
    news->kind = revoked ? TN_NOTICE_REVOKED : TN_NOTICE_GRANTED;
    news->token = token;
    news->term = *term;
    (void)snprintf(news->name, sizeof news->name, "%s", name);
}

/* From the rules, in the middle of a transaction. */
static void hear_change(void *arg, bool revoked, int64_t session, const char *name,
                        const struct tn_secret *term, uint64_t token)
{
    struct tn_sqlite_store *store = arg;
    struct tn_sqlite_session *own = NULL;

    while ((own = tn_sqlite_next_session(store, own)) != NULL) {
        if (own->id == session) {
            add_grant(store, revoked, name, term, token);
            return;
        }
    }
}

static void tell(struct tn_store *store, const struct tn_sqlite_news *news)
{
    struct tn_store_name *name = tn_store_name_find(store, news->name, strlen(news->name));

    if (news->kind == TN_NOTICE_GRANTED)
        tn_store_granted(store, news->name, &news->term, news->token);
    else if (news->kind == TN_NOTICE_REVOKED)
        tn_store_revoked(store, news->name, news->token);
    else if (name != NULL)
        tn_store_changed(store, name, &news->record);
}

/* In the order in which it happened: what a request brought about is told just before its answer.
 * Everybody who is told may submit, watch or close. */
static void deliver(struct tn_sqlite_store *store)
{
    struct tn_req_list batch = store->batch;
    struct tn_sqlite_news *news = store->news;
    size_t count = store->news_count;
    struct tn_store_req *req;
    size_t told = 0;
    size_t at = 0;

    store->batch = (struct tn_req_list) { 0 };
    store->batch_count = 0;
    store->news = NULL;
    store->news_count = 0;
    store->news_room = 0;
    while ((req = tn_req_take(&batch)) != NULL) {
        for (; told < count && news[told].before <= at; told++)
            tell(&store->base, &news[told]);
        req->done(req);
        at++;
    }
    for (; told < count; told++)
        tell(&store->base, &news[told]);
    free(news);
}

/* --- Sessions ------------------------------------------------------------------------------- */

struct tn_sqlite_session *tn_sqlite_next_session(const struct tn_sqlite_store *store,
                                                 const struct tn_sqlite_session *session)
{
    return (struct tn_sqlite_session *)tn_store_session_next(
        &store->base, session != NULL ? &session->base : NULL);
}

bool tn_sqlite_has_moved_session(const struct tn_sqlite_store *store)
{
    const struct tn_sqlite_session *session = NULL;

    while ((session = tn_sqlite_next_session(store, session)) != NULL) {
        if (session->moved)
            return true;
    }
    return false;
}

static void note_session(struct tn_sqlite_store *store, const struct tn_op *op,
                         const struct tn_sqlite_result *result)
{
    bool opens = op->kind == TN_OP_OPEN && result->answer == TN_ANSWER_OK;
    bool waits = op->kind == TN_OP_ACQUIRE && result->answer == TN_ANSWER_QUEUED;
    struct tn_sqlite_session *session;

    if (!opens && !waits)
        return;
    session = (struct tn_sqlite_session *)tn_store_session_keep(&store->base, &op->session);
    if (session == NULL) {
        store->sqlite->failed = SQLITE_NOMEM;
        return;
    }
    session->slot = tn_bell_session_slot(&session->base.hash);
    session->id = result->session;
    session->waits = session->waits || waits;
    session->waits_still = session->waits_still || waits;
}

/* What the session was granted, and lost, since the last look. */
static void look_at(struct tn_sqlite_store *store, struct tn_sqlite_session *own)
{
    struct tn_sqlite *sqlite = store->sqlite;
    const enum tn_sql sql = TN_SQL_SESSION_SINCE;
    char name[TN_NAME_MAX + 1];
    struct tn_secret term;

    own->id = tn_sql_step(sqlite, TN_SQL_SESSION_FIND, "s", &own->base.hash)
                  ? tn_sql_i64(sqlite, TN_SQL_SESSION_FIND, 0)
                  : 0;
    if (own->id == 0)
        return;
    bool more = tn_sql_step(sqlite, sql, "ii", own->id, (int64_t)own->told);
    for (; more; more = tn_sql_next(sqlite, sql)) {
        (void)tn_sql_bytes(sqlite, sql, 0, name, sizeof name);
        if (!tn_sql_secret(sqlite, sql, 2, &term))
            tn_sql_damaged(sqlite);
        else
            add_grant(store, false, name, &term, (uint64_t)tn_sql_i64(sqlite, sql, 1));
    }
    if (own->moved)
        tn_sqlite_tell_revoked(sqlite, own->id);
    own->waits_still = tn_sql_step(sqlite, TN_SQL_SESSION_WAITS, "i", own->id);
}

static bool is_looked_at(const struct tn_sqlite_session *own)
{
    return own->waits || own->moved;
}

static void look(struct tn_sqlite_store *store)
{
    struct tn_sqlite_session *own = NULL;

    while ((own = tn_sqlite_next_session(store, own)) != NULL) {
        own->looked = is_looked_at(own);
        own->waits_still = false;
        if (own->looked)
            look_at(store, own);
    }
}

/* When to look for a holder that died; a little later for each of those who wait. */
static void plan_tick(struct tn_sqlite_store *store)
{
    tenure_ns now = store->sqlite->now;
    tenure_ns due = TN_NEVER;
    const struct tn_sqlite_session *own = NULL;

    while ((own = tn_sqlite_next_session(store, own)) != NULL) {
        bool waits = own->looked ? own->waits_still : own->waits;
        if (!waits || own->id == 0)
            continue;
        tenure_ns at = tn_sqlite_due_at(store->sqlite, own->id);
        if (at == 0)
            at = now + TN_SQLITE_RETRY; /* Our clock has yet to look at the holder. */
        if (at > now + TN_SQLITE_BACKSTOP)
            at = now + TN_SQLITE_BACKSTOP;
        due = at < due ? at : due;
    }
    store->due = due <= now;
    if (due != TN_NEVER)
        due += tn_prng_range(&store->sqlite->prng, 0, TN_SQLITE_TICK_JITTER);
    store->tick_at = due;
}

/* The transaction has succeeded: what was looked at is known up to @token. */
static void settle_sessions(struct tn_sqlite_store *store, bool wrote)
{
    struct tn_sqlite_session *own = tn_sqlite_next_session(store, NULL);

    for (struct tn_sqlite_session *next; own != NULL; own = next) {
        next = tn_sqlite_next_session(store, own);
        if (own->looked || wrote)
            own->told = store->token;
        if (own->looked) {
            own->moved = false;
            own->waits = own->waits_still;
        }
        if (own->looked && own->id == 0)
            tn_store_session_drop(&store->base, &own->base);
    }
}

static void read_token(struct tn_sqlite_store *store)
{
    if (tn_sql_step(store->sqlite, TN_SQL_TOKEN_READ, ""))
        store->token = (uint64_t)tn_sql_i64(store->sqlite, TN_SQL_TOKEN_READ, 0);
    else
        tn_sql_damaged(store->sqlite);
}

/* --- Failure -------------------------------------------------------------------------------- */

/* Later, and later still; those whose time is up are answered. */
static void postpone(struct tn_sqlite_store *store, const char *text)
{
    tenure_ns now = tn_clock_now(store->base.how.clock);
    struct tn_req_list queue = store->queue;
    struct tn_req_list late = { 0 };
    struct tn_store_req *req;

    store->queue = (struct tn_req_list) { 0 };
    while ((req = tn_req_take(&queue)) != NULL)
        tn_req_add(now >= req->give_up_at ? &late : &store->queue, req);
    fail_all(store, &late, TENURE_E_UNAVAILABLE, text);
    tn_query_expire(&store->lists, now, TENURE_E_UNAVAILABLE, text);
    store->tries++;
}

/* The batch as if it had never been taken. */
static void put_back(struct tn_sqlite_store *store)
{
    tn_req_put_back(&store->queue, &store->batch);
    store->batch_count = 0;
    store->news_count = 0;
}

/* The file is not the one that was opened: what is known of sessions and names is void. */
static void forget(struct tn_sqlite_store *store)
{
    struct tn_sqlite_session *own = NULL;

    tn_sqlite_disconnect(store->sqlite);
    while ((own = tn_sqlite_next_session(store, own)) != NULL) {
        own->told = 0;
        own->id = 0;
    }
}

static void batch_failed(struct tn_sqlite_store *store, int status, const char *text)
{
    struct tn_sqlite *sqlite = store->sqlite;

    store->committing = false;
    store->news_count = 0;
    if (sqlite->was_busy && status != TENURE_E_TIMEOUT) {
        put_back(store);
        postpone(store, text);
        return;
    }
    /* One name's damage is not everyone's: find out whose it is. */
    if (status == TENURE_E_DAMAGED && store->batch_count > 1) {
        store->alone = store->batch_count;
        put_back(store);
    } else {
        if (store->alone > 0)
            store->alone--;
        fail_all(store, &store->batch, status, text);
        store->batch_count = 0;
        store->rest_until = tn_clock_now(store->base.how.clock) + TN_SQLITE_RETRY;
    }
    if (sqlite->has_moved)
        forget(store);
    else
        tn_sqlite_disconnect(sqlite);
}

/* There is a connection, or one is made. */
static bool has_connection(struct tn_sqlite_store *store)
{
    char text[sizeof store->queue.first->error];
    struct tn_text error;

    if (store->sqlite->db != NULL)
        return true;
    tn_text_init(&error, text, sizeof text);
    int rc = tn_sqlite_connect(store->sqlite, false, &error);
    if (rc == 0)
        return true;
    if (store->sqlite->was_busy) {
        postpone(store, text);
        return false;
    }
    fail_all(store, &store->queue, rc, text);
    tn_query_done_all(&store->lists, tn_sqlite_status(rc), text);
    store->rest_until = tn_clock_now(store->base.how.clock) + TN_SQLITE_RETRY;
    return false;
}

/* True: the transaction has begun. A file that was exchanged is opened anew, once. */
static bool begin(struct tn_sqlite_store *store, bool writes)
{
    char text[sizeof store->queue.first->error];
    struct tn_text error;

    for (int i = 0; i < 2; i++) {
        if (!has_connection(store))
            return false;
        tn_text_init(&error, text, sizeof text);
        int rc =
            writes ? tn_sql_begin(store->sqlite, &error) : tn_sql_begin_read(store->sqlite, &error);
        if (rc == 0) {
            store->tries = 0;
            return true;
        }
        if (!store->sqlite->has_moved) {
            tn_req_put_back(&store->batch, &store->queue);
            batch_failed(store, rc, text);
            return false;
        }
        forget(store);
    }
    fail_all(store, &store->queue, TENURE_E_UNAVAILABLE, text);
    return false;
}

/* --- Transactions --------------------------------------------------------------------------- */

static void apply(struct tn_sqlite_store *store, struct tn_store_req *req)
{
    struct tn_sqlite_result result;

    tn_sqlite_apply(store->sqlite, &req->op, &result);
    answer(req, &result);
    note_session(store, &req->op, &result);
}

static void commit(struct tn_sqlite_store *store)
{
    char text[sizeof store->queue.first->error];
    struct tn_text error;
    tenure_ns now = tn_clock_now(store->base.how.clock);

    tn_text_init(&error, text, sizeof text);
    int rc = tn_sql_end(store->sqlite, 0, &error);
    if (rc == TN_SQL_AGAIN && !store->committing) {
        store->committing = true;
        store->commit_until = now + TN_SQLITE_COMMIT_FOR;
        return;
    }
    if (rc == TN_SQL_AGAIN && now < store->commit_until)
        return;
    if (rc == TN_SQL_AGAIN) /* A reader has stopped: let the other readers in for a while. */
        rc = tn_sql_give_up(store->sqlite, &error);
    if (rc < 0) {
        batch_failed(store, rc, text);
        return;
    }
    store->committing = false;
    tn_sqlite_ring(store->sqlite);
    settle_sessions(store, true);
    store->tick = store->due;
    store->settle = false;
    if (store->alone > 0)
        store->alone--;
    deliver(store);
}

static void write_turn(struct tn_sqlite_store *store)
{
    const struct tn_op tick = { .kind = TN_OP_TICK };
    struct tn_sqlite_result ignored;
    size_t most = store->alone > 0 ? 1 : TN_SQLITE_BATCH;
    struct tn_store_req *req;

    if (!begin(store, true))
        return;
    look(store);
    if (store->tick)
        tn_sqlite_apply(store->sqlite, &tick, &ignored);
    while (store->batch_count < most && (req = tn_req_take(&store->queue)) != NULL) {
        apply(store, req);
        tn_req_add(&store->batch, req);
        store->batch_count++;
    }
    read_token(store);
    plan_tick(store);
    commit(store);
}

static void read_turn(struct tn_sqlite_store *store)
{
    char text[sizeof store->queue.first->error];
    struct tn_sqlite_result result;
    struct tn_text error;
    struct tn_store_req *req;
    char name[TN_NAME_MAX + 1] = "";

    if (!begin(store, false))
        return;
    look(store);
    while (store->batch_count < TN_SQLITE_BATCH && (req = store->queue.first) != NULL) {
        memcpy(name, req->op.name, req->op.name_len);
        name[req->op.name_len] = '\0';
        if (!tn_sqlite_peek(store->sqlite, name, &result)) {
            store->settle = true;
            break;
        }
        (void)tn_req_take(&store->queue);
        answer(req, &result);
        tn_req_add(&store->batch, req);
        store->batch_count++;
    }
    tn_sqlite_watches_read(store);
    read_token(store);
    plan_tick(store);
    store->look = false;
    tn_text_init(&error, text, sizeof text);
    int rc = tn_sql_end(store->sqlite, 0, &error);
    if (rc != 0) {
        batch_failed(store, rc, text);
        return;
    }
    settle_sessions(store, false);
    if (store->due)
        store->tick = true;
    deliver(store);
}

/* --- Turns ---------------------------------------------------------------------------------- */

static bool wants_write(const struct tn_sqlite_store *store, bool rested)
{
    if (store->settle && store->queue.first != NULL)
        return true;
    for (const struct tn_store_req *req = store->queue.first; req != NULL; req = req->next) {
        if (req->op.kind != TN_OP_READ)
            return true;
    }
    return store->tick && rested;
}

static bool wants_read(const struct tn_sqlite_store *store, tenure_ns now, bool rested)
{
    const struct tn_heap_node *first = tn_heap_first(&store->looks);

    if (store->queue.first != NULL)
        return true;
    if (!rested)
        return false;
    return tn_sqlite_has_moved_session(store) || store->look || (first != NULL && first->at <= now);
}

enum tn_sqlite_want tn_sqlite_wants(const struct tn_sqlite_store *store, tenure_ns now)
{
    bool rested = now >= store->rest_until;

    if (store->committing)
        return TN_SQLITE_WANTS_COMMIT;
    if (wants_write(store, rested))
        return TN_SQLITE_WANTS_WRITE;
    if (wants_read(store, now, rested))
        return TN_SQLITE_WANTS_READ;
    return store->lists != NULL ? TN_SQLITE_WANTS_LIST : TN_SQLITE_WANTS_NOTHING;
}

void tn_sqlite_turn(struct tn_sqlite_store *store)
{
    switch (tn_sqlite_wants(store, tn_clock_now(store->base.how.clock))) {
    case TN_SQLITE_WANTS_COMMIT:
        commit(store);
        break;
    case TN_SQLITE_WANTS_WRITE:
        write_turn(store);
        break;
    case TN_SQLITE_WANTS_READ:
        read_turn(store);
        break;
    case TN_SQLITE_WANTS_LIST:
        if (has_connection(store))
            tn_sqlite_list_turn(store);
        break;
    case TN_SQLITE_WANTS_NOTHING:
        break;
    }
    tn_req_finish_all(&store->finished);
}

/* Whatever is asked or under way is over. */
static void shut(struct tn_store *base)
{
    struct tn_sqlite_store *store = (struct tn_sqlite_store *)base;

    if (store->committing)
        tn_sql_roll_back(store->sqlite);
    store->committing = false;
    store->news_count = 0;
    fail_all(store, &store->batch, TENURE_E_CLOSED, "the store is closed");
    fail_all(store, &store->queue, TENURE_E_CLOSED, "the store is closed");
    tn_query_done_all(&store->lists, TENURE_E_CLOSED, "the store is closed");
    tn_req_finish_all(&store->finished);
    tn_store_end(base);
}

static int open_store(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    struct tn_sqlite_store *store = NULL;

    int rc = tn_sqlite_loop_open(ops, how, &store, reterr);
    if (rc < 0)
        return rc;
    store->sqlite->hears = hear_change;
    store->sqlite->arg = store;
    *ret_store = &store->base;
    return 0;
}

const struct tn_store_ops tn_sqlite_store_ops = {
    .scheme = "sqlite",
    .caps = TN_STORE_QUEUES | TN_STORE_TELLS | TN_STORE_RAISES | TN_STORE_RESUMES | TN_STORE_SOFT,
    .ttl_min = TN_TTL_MIN,
    .ttl_max = TN_TTL_MAX,
    .open = open_store,
    .submit = tn_sqlite_submit,
    .watch = tn_store_watch,
    .list = tn_store_list,
    .line = tn_store_line,
    .look = tn_store_look,
    .close = tn_store_close,
    .class_why = "a file on this host; each step was flushed to the disk when it is answered",
    .restored = "raise its counter: sqlite3 FILE 'UPDATE counter SET token = %'",
    .clock_why = "all who use the file read one clock, that of this host",
    .forget = tn_store_forget,
    .history = tn_store_history,
    .name_size = sizeof(struct tn_sqlite_name),
    .session_size = sizeof(struct tn_sqlite_session),
    .turn = tn_sqlite_loop_turn,
    .watched = tn_sqlite_watched,
    .ask = tn_sqlite_ask,
    .shut = shut,
    .free = tn_sqlite_loop_free,
};
