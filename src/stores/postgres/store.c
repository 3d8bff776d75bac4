/* store.c - requests in, statements out, answers back; the store's life and its turns.
 *
 * Happy path: all that is asked in one turn of the loop goes out as one statement, which is one
 * transaction, and comes back as one row per request. Requests of sessions go first and alone.
 * What can fail: the connection, after which a statement that was sent counts as unknown; or the
 * statement, which the server then has not carried out. A request that waits for a connection fails
 * when its patience is over, or at once when the server has said no. */
#define _GNU_SOURCE
#include "stores/postgres/postgres.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "core/plan.h"
#include "stores/postgres/private.h"

#define VERSION_LEAST 110000

/* The least time after which a silent connection is given up, however impatient the caller. */
#define STUCK_LEAST TN_MS(500)

tenure_ns tn_pg_now(const struct tn_pg_store *store)
{
    return tn_clock_now(store->base.how.clock);
}

/* --- What waits ----------------------------------------------------------------------------- */

/* Fail what waits and is over time at @by; TN_NEVER: all. */
static void fail_waiting(struct tn_pg_store *store, tenure_ns by, int code, const char *why)
{
    tn_query_expire(&store->lists, by, code, why);
    tn_req_expire(&store->urgent, by, code, why);
    tn_req_expire(&store->normal, by, code, why);
}

/* --- What is on its way --------------------------------------------------------------------- */

void tn_pg_forget_sent(struct tn_pg_store *store)
{
    store->job = TN_PG_IDLE;
    store->sent_count = 0;
    store->sent_list = NULL;
    store->stuck_at = TN_NEVER;
}

/* The statement came to nothing. */
static void fail_sent(struct tn_pg_store *store, int code, const char *why)
{
    struct tn_store_req *sent[TN_PG_BATCH];
    unsigned count = store->sent_count;
    struct tn_store_query *list = store->sent_list;

    memcpy(sent, store->sent, sizeof sent);
    tn_pg_forget_sent(store);
    for (unsigned i = 0; i < count; i++)
        if (sent[i] != NULL)
            tn_req_finish(sent[i], code, why);
    if (list != NULL)
        tn_query_done(list, code, why);
}

/* Back to the front of the queue, in their order: the server has carried out none of it. */
static void send_again(struct tn_pg_store *store)
{
    struct tn_req_list sent = { 0 };

    for (unsigned i = 0; i < store->sent_count; i++)
        if (store->sent[i] != NULL)
            tn_req_add(&sent, store->sent[i]);
    tn_req_put_back(store->job == TN_PG_SESSION ? &store->urgent : &store->normal, &sent);
    if (store->sent_list != NULL) {
        store->sent_list->next = store->lists;
        store->lists = store->sent_list;
    }
    tn_pg_forget_sent(store);
}

/* Sent requests past their deadline: the outcome is unknown. */
static void give_up_sent(struct tn_pg_store *store, tenure_ns now)
{
    for (unsigned i = 0; i < store->sent_count; i++) {
        struct tn_store_req *req = store->sent[i];
        if (req == NULL || req->give_up_at > now)
            continue;
        store->sent[i] = NULL;
        tn_req_finish(req, TENURE_E_TIMEOUT, "postgres: no answer to a statement that was sent");
    }
}

/* --- Sending -------------------------------------------------------------------------------- */

static void set_job(struct tn_pg_store *store, enum tn_pg_job job)
{
    tenure_ns patience = store->base.how.patience;

    store->job = job;
    store->stuck_at = tn_pg_now(store) + (patience > STUCK_LEAST ? patience : STUCK_LEAST);
}

void tn_pg_send(struct tn_pg_store *store, enum tn_pg_job job, const char *sql, int count,
                const char *const *values)
{
    set_job(store, job);
    tn_pg_link_send(&store->work, sql, count, values);
}

void tn_pg_send_install(struct tn_pg_store *store, const char *sql)
{
    set_job(store, TN_PG_INSTALL);
    store->stuck_at = tn_pg_now(store) + TN_SEC(10);
    tn_pg_link_script(&store->work, sql);
}

enum { NUMBER = 24 };

/* A number that no other statement has; the last column of every row of its answer repeats it. */
static void draw_number(struct tn_pg_store *store, char ret_number[NUMBER])
{
    store->number = (int64_t)(tn_prng_next(&store->prng) >> 1);
    (void)snprintf(ret_number, NUMBER, "%lld", (long long)store->number);
}

static void send_session(struct tn_pg_store *store, struct tn_store_req *req)
{
    struct tn_pg_buf secret = { 0 }, seq = { 0 }, third = { 0 }, fourth = { 0 };
    const struct tn_op *op = &req->op;
    static const char *const sql[] = {
        [TN_OP_OPEN] = "SELECT r.*, $5::bigint FROM"
                       " tenure.open($1::uuid, $2::bigint, $3::bigint, $4::bytea) r",
        [TN_OP_RENEW] = "SELECT r.*, $5::bigint FROM"
                        " tenure.renew($1::uuid, $2::bigint, $3::bigint, $4::bigint[]) r",
        [TN_OP_CLOSE] = "SELECT tenure.close($1::uuid), $2::bigint",
        /* An operator's, for the owner of the schema alone. */
        [TN_OP_RAISE] = "UPDATE tenure.state s SET token = greatest(s.token, $1::bigint)"
                        " FROM (SELECT tenure.endure()) e RETURNING 'ok', $2::bigint",
    };
    bool is_short = op->kind == TN_OP_CLOSE || op->kind == TN_OP_RAISE;

    tn_req_hash(req);
    if (op->kind == TN_OP_RAISE)
        tn_pg_buf_addf(&secret, "%llu", (unsigned long long)op->token);
    else
        tn_pg_buf_hex(&secret, &req->session_hash, sizeof req->session_hash);
    tn_pg_buf_addf(&seq, "%lld", (long long)op->seq);
    if (op->kind == TN_OP_OPEN) {
        tn_pg_buf_addf(&third, "%lld", (long long)op->ttl);
        tn_pg_buf_add(&fourth, "\\x", 2);
        tn_pg_buf_hex(&fourth, op->label, op->label_len);
    } else if (op->kind == TN_OP_RENEW) {
        const struct tn_pg_session *session =
            (const struct tn_pg_session *)tn_store_session_find(&store->base, &op->session);
        tn_pg_buf_addf(&third, "%lld", session != NULL ? (long long)session->known : 0);
        /* It tells the news of its own session, and of no other. */
        tn_pg_list_seen(store, session != NULL && store->base.sessions.count == 1, &fourth);
    }
    char number[NUMBER];
    draw_number(store, number);
    const char *values[] = { secret.data, seq.data, third.data, fourth.data, number };
    if (is_short)
        values[1] = number;
    store->sent[0] = req;
    store->sent_count = 1;
    set_job(store, TN_PG_SESSION);
    if (secret.failed || seq.failed || third.failed || fourth.failed)
        fail_sent(store, TENURE_E_NOMEM, "out of memory");
    else
        tn_pg_link_send(&store->work, sql[op->kind], is_short ? 2 : 5, values);
    free(secret.data);
    free(seq.data);
    free(third.data);
    free(fourth.data);
}

enum { STEP_PARAMS = 6 };

static void add_step(struct tn_pg_buf bufs[STEP_PARAMS], struct tn_store_req *req)
{
    static const char *const kinds[] = { [TN_OP_ACQUIRE] = "acquire",
                                         [TN_OP_RELEASE] = "release",
                                         [TN_OP_READ] = "read",
                                         [TN_OP_REVOKE] = "revoke" };
    const struct tn_op *op = &req->op;
    uint64_t token = op->token < INT64_MAX ? op->token : INT64_MAX;

    tn_req_hash(req);
    for (int i = 0; i < STEP_PARAMS; i++)
        tn_pg_buf_add(&bufs[i], bufs[i].len > 0 ? "," : "{", 1);
    tn_pg_buf_addf(&bufs[0], "%s", kinds[op->kind]);
    tn_pg_buf_hex(&bufs[1], &req->session_hash, sizeof req->session_hash);
    tn_pg_buf_hex(&bufs[2], &req->term_hash, sizeof req->term_hash);
    tn_pg_buf_addf(&bufs[3], "\"%.*s\"", (int)op->name_len, op->name);
    tn_pg_buf_addf(&bufs[4], "%llu", (unsigned long long)token);
    tn_pg_buf_addf(&bufs[5], "%c", op->wait ? 't' : 'f');
}

static void send_steps(struct tn_pg_store *store)
{
    static const char sql[] =
        "SELECT r.*, $7::bigint FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::text[], "
        "$5::bigint[],"
        " $6::boolean[]) WITH ORDINALITY o (kind, secret, term, name, token, wait, number)"
        " CROSS JOIN LATERAL tenure.step(o.kind, o.secret, o.term, o.name, o.token, o.wait) r"
        " ORDER BY o.number";
    struct tn_pg_buf bufs[STEP_PARAMS] = { { 0 } };
    const char *values[STEP_PARAMS + 1];
    char number[NUMBER];
    bool failed = false;

    while (store->sent_count < TN_PG_BATCH && store->normal.first != NULL) {
        struct tn_store_req *req = tn_req_take(&store->normal);
        add_step(bufs, req);
        store->sent[store->sent_count++] = req;
        store->waits = store->waits || (req->op.kind == TN_OP_ACQUIRE && req->op.wait);
    }
    for (int i = 0; i < STEP_PARAMS; i++) {
        tn_pg_buf_add(&bufs[i], "}", 1);
        failed = failed || bufs[i].failed;
        values[i] = bufs[i].data;
    }
    draw_number(store, number);
    values[STEP_PARAMS] = number;
    set_job(store, TN_PG_STEPS);
    if (failed)
        fail_sent(store, TENURE_E_NOMEM, "out of memory");
    else
        tn_pg_link_send(&store->work, sql, STEP_PARAMS + 1, values);
    for (int i = 0; i < STEP_PARAMS; i++)
        free(bufs[i].data);
}

/* One statement after the other, the most urgent first. */
static void pump(struct tn_pg_store *store)
{
    tenure_ns now = tn_pg_now(store);

    while (store->ready && store->job == TN_PG_IDLE && !store->base.closing) {
        if (store->urgent.first != NULL)
            send_session(store, tn_req_take(&store->urgent));
        else if (store->normal.first != NULL)
            send_steps(store);
        else if (store->lists != NULL)
            tn_pg_send_list(store);
        else if (!tn_pg_observe_next(store, now))
            break;
    }
}

/* --- Answers -------------------------------------------------------------------------------- */

static bool read_answer(const PGresult *result, int row, enum tn_answer *ret_answer)
{
    return tn_answer_parse(PQgetvalue(result, row, 0), (size_t)PQgetlength(result, row, 0),
                           ret_answer);
}

static void drop_session(struct tn_pg_store *store, const struct tn_op *op)
{
    struct tn_store_session *session = tn_store_session_find(&store->base, &op->session);

    if (session != NULL)
        tn_store_session_drop(&store->base, session);
}

/* Without memory its news are missed until it renews again. */
static void keep_session(struct tn_pg_store *store, const struct tn_op *op, int64_t num)
{
    struct tn_pg_session *session =
        (struct tn_pg_session *)tn_store_session_keep(&store->base, &op->session);

    if (session != NULL)
        session->num = num;
}

static void answer_session(struct tn_pg_store *store, const PGresult *result)
{
    struct tn_store_req *req = store->sent[0];
    enum tn_answer answer = TN_ANSWER_GONE;

    tn_pg_forget_sent(store);
    if (PQntuples(result) < 1 || !read_answer(result, 0, &answer)) {
        if (req != NULL)
            tn_req_finish(req, TENURE_E_DAMAGED,
                          "postgres: the schema tenure gives answers not known");
        return;
    }
    if (req != NULL) {
        const struct tn_op *op = &req->op;
        req->answer = answer;
        if (PQnfields(result) > 2 && answer == TN_ANSWER_OK) {
            req->held = (uint32_t)tn_pg_int(result, 0, 4);
            req->ttl = tn_pg_int(result, 0, 6);
            keep_session(store, op, tn_pg_int(result, 0, 3));
        }
        if (answer == TN_ANSWER_GONE || op->kind == TN_OP_CLOSE)
            drop_session(store, op);
    }
    /* Revocations are heard of before the renewal counts. */
    if (PQnfields(result) > 2)
        tn_pg_hear_news(store, result, 1);
    if (req != NULL)
        tn_req_finish(req, 0, "");
}

static void answer_steps(struct tn_pg_store *store, const PGresult *result)
{
    struct tn_store_req *sent[TN_PG_BATCH];
    unsigned count = store->sent_count;

    memcpy(sent, store->sent, sizeof sent);
    tn_pg_forget_sent(store);
    for (unsigned i = 0; i < count; i++) {
        struct tn_store_req *req = sent[i];
        char name[TN_NAME_MAX + 1] = "";
        struct tn_store_record record;
        bool revoked;
        if (req == NULL)
            continue;
        if ((int)i >= PQntuples(result)) {
            tn_req_finish(req, TENURE_E_DAMAGED,
                          "postgres: the schema tenure gives answers not known");
            continue;
        }
        int64_t holder = tn_pg_record(result, (int)i, 1, &record, &revoked);
        memcpy(name, req->op.name, req->op.name_len);
        req->record = record;
        if (!read_answer(result, (int)i, &req->answer))
            req->answer = record.held ? TN_ANSWER_HELD : TN_ANSWER_FREE;
        if (req->answer == TN_ANSWER_GONE)
            drop_session(store, &req->op);
        tn_pg_note(store, name, holder, revoked, &record);
        tn_req_finish(req, 0, "");
    }
}

/* --- The work link -------------------------------------------------------------------------- */

static bool is_state(const PGresult *result, const char *state)
{
    const char *field = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    return field != NULL && strncmp(field, state, strlen(state)) == 0;
}

/* The server has refused the statement: it did not happen. */
static void refused(struct tn_pg_store *store, const PGresult *result)
{
    enum tn_pg_job job = store->job;
    char why[TN_ERROR_TEXT];
    struct tn_text text;

    tn_text_init(&text, why, sizeof why);
    int code = tn_pg_blame_statement(result, &text);
    if (job == TN_PG_INSTALL) {
        /* Perhaps another was faster. */
        tn_pg_forget_sent(store);
        tn_pg_link_fail(&store->work, code, why);
    } else if (is_state(result, "40") || is_state(result, "55P03")) {
        send_again(store);
    } else if (is_state(result, "42883") || is_state(result, "42P01") ||
               is_state(result, "3F000") || is_state(result, "25006")) {
        /* The schema was dropped under us, or the primary became a replica: hello again. */
        send_again(store);
        tn_pg_link_fail(&store->work, code, why);
    } else if (is_state(result, "57P")) {
        fail_sent(store, TENURE_E_TIMEOUT, why); /* The server goes down; who knows. */
    } else {
        fail_sent(store, code, why);
    }
}

static void work_up(struct tn_pg_link *link)
{
    if (PQserverVersion(link->conn) < VERSION_LEAST)
        tn_pg_link_fail(link, TENURE_E_UNSUPPORTED,
                        "postgres: the server is older than PostgreSQL 11");
    else
        tn_pg_say_hello(link->store);
}

/* An answer that the network repeats has another statement's number, and extends nothing. */
static bool is_bound(const struct tn_pg_store *store, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++)
        if (tn_pg_int(result, row, PQnfields(result) - 1) != store->number)
            return false;
    return true;
}

static void work_result(struct tn_pg_link *link, const PGresult *result)
{
    struct tn_pg_store *store = link->store;
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        if (result != NULL && PQresultErrorField(result, PG_DIAG_SQLSTATE) != NULL)
            refused(store, result);
        else /* The connection broke; down() follows. */
            fail_sent(store, TENURE_E_TIMEOUT, "postgres: the connection was lost half-way");
        tn_store_kick(&store->base);
        return;
    }
    if ((store->job == TN_PG_SESSION || store->job == TN_PG_STEPS) && !is_bound(store, result)) {
        static const char why[] = "postgres: an answer belongs to another statement";
        fail_sent(store, TENURE_E_TIMEOUT, why);
        tn_pg_link_fail(link, TENURE_E_UNAVAILABLE, why);
        return;
    }
    switch (store->job) {
    case TN_PG_HELLO:
        tn_pg_answer_hello(store, result);
        break;
    case TN_PG_INSTALL:
        tn_pg_forget_sent(store);
        tn_pg_say_hello(store);
        break;
    case TN_PG_SESSION:
        answer_session(store, result);
        break;
    case TN_PG_STEPS:
        answer_steps(store, result);
        break;
    case TN_PG_LIST:
        tn_pg_answer_list(store, result);
        break;
    default:
        tn_pg_observe_result(store, result);
    }
    tn_store_kick(&store->base);
}

static void work_notified(struct tn_pg_link *link, const char *payload)
{
    (void)link;
    (void)payload; /* Only the bell listens. */
}

static void work_down(struct tn_pg_link *link)
{
    struct tn_pg_store *store = link->store;

    store->ready = false;
    fail_sent(store, TENURE_E_TIMEOUT, link->error);
    if (tn_pg_is_final(link->code) && tn_pg_link_tried_all(link))
        fail_waiting(store, TN_NEVER, link->code, link->error);
    tn_store_kick(&store->base);
}

static const struct tn_pg_link_host work_host = { work_up, work_result, work_notified, work_down };

/* --- The bell ------------------------------------------------------------------------------- */

static void bell_up(struct tn_pg_link *link)
{
    tn_pg_link_script(link, "LISTEN tenure");
}

static void bell_result(struct tn_pg_link *link, const PGresult *result)
{
    if (PQresultStatus(result) == PGRES_COMMAND_OK) {
        tn_pg_link_good(link);
        tn_pg_bell_up(link->store);
    }
    tn_store_kick(&link->store->base);
}

static void bell_notified(struct tn_pg_link *link, const char *payload)
{
    tn_pg_hear_bell(link->store, payload);
    tn_store_kick(&link->store->base);
}

static void bell_down(struct tn_pg_link *link)
{
    tn_pg_bell_down(link->store);
    tn_store_kick(&link->store->base);
}

static const struct tn_pg_link_host bell_host = { bell_up, bell_result, bell_notified, bell_down };

/* --- Turns ---------------------------------------------------------------------------------- */

static tenure_ns sooner(tenure_ns a, tenure_ns b)
{
    return a < b ? a : b;
}

static tenure_ns link_at(const struct tn_pg_link *link)
{
    return link->state == TN_PG_OFF || link->state == TN_PG_UP ? TN_NEVER : link->due_at;
}

static tenure_ns wake_at(const struct tn_pg_store *store)
{
    tenure_ns at = sooner(link_at(&store->work), link_at(&store->bell));

    at = sooner(at, store->stuck_at);
    /* All have the same patience, so the first of each is the first to lose it. */
    if (store->urgent.first != NULL)
        at = sooner(at, store->urgent.first->give_up_at);
    if (store->normal.first != NULL)
        at = sooner(at, store->normal.first->give_up_at);
    if (store->lists != NULL)
        at = sooner(at, store->lists->give_up_at);
    for (unsigned i = 0; i < store->sent_count; i++)
        if (store->sent[i] != NULL)
            at = sooner(at, store->sent[i]->give_up_at);
    if (store->ready)
        at = sooner(at, tn_pg_observe_at(store));
    return at;
}

static void hear_timer(uv_timer_t *timer)
{
    tn_store_kick(timer->data);
}

static void last_error(const struct tn_pg_store *store, char *ret_why, size_t size)
{
    const struct tn_pg_host *host = &store->url.hosts[0];

    if (store->work.error[0] != '\0')
        (void)snprintf(ret_why, size, "%s", store->work.error);
    else if (store->work.state == TN_PG_RESOLVING)
        (void)snprintf(ret_why, size,
                       "postgres: no answer from the name service about %.80s yet; check the "
                       "resolver, or give the address",
                       host->name);
    else
        (void)snprintf(ret_why, size,
                       "postgres: no answer from %.80s yet; check host, port and network",
                       host->name[0] != '\0' ? host->name : "the server");
}

static void take_turn(struct tn_store *base)
{
    struct tn_pg_store *store = (struct tn_pg_store *)base;
    tenure_ns now = tn_pg_now(store);
    char why[sizeof store->work.error];

    if (now >= store->stuck_at)
        tn_pg_link_fail(&store->work, TENURE_E_UNAVAILABLE,
                        "postgres: a statement was not answered; the connection is given up");
    give_up_sent(store, now);
    last_error(store, why, sizeof why);
    fail_waiting(store, now, store->ready ? TENURE_E_UNAVAILABLE : store->work.code,
                 store->ready ? "postgres: too busy with earlier statements" : why);
    tn_pg_link_tick(&store->work, now);
    tn_pg_link_tick(&store->bell, now);
    pump(store);
    if (!base->closing)
        tn_store_wake_at(base, &store->timer, hear_timer, wake_at(store));
}

/* --- The interface -------------------------------------------------------------------------- */

static void start_links(struct tn_pg_store *store, bool listens)
{
    tenure_ns now = tn_pg_now(store);

    if (listens && !store->url.listen_off)
        tn_pg_link_start(&store->bell, now);
    tn_pg_link_start(&store->work, now);
    tn_store_kick(&store->base);
}

static void submit(struct tn_store *base, struct tn_store_req *req)
{
    struct tn_pg_store *store = (struct tn_pg_store *)base;

    if (req->op.seq >= INT64_MAX || (req->op.kind == TN_OP_RAISE && req->op.token > INT64_MAX)) {
        tn_req_refuse(base, req, TENURE_E_INVALID, "postgres: numbers are below 2^63");
        return;
    }
    bool is_step = tn_op_is_named(&req->op) && req->op.kind != TN_OP_RAISE;
    tn_req_add(is_step ? &store->normal : &store->urgent, req);
    start_links(store, req->op.kind == TN_OP_ACQUIRE && req->op.wait);
}

static int watched(struct tn_store *base, struct tn_store_name *name, bool on)
{
    struct tn_pg_store *store = (struct tn_pg_store *)base;

    tn_pg_mark(store, (struct tn_pg_name *)name, on);
    if (on)
        start_links(store, true);
    return 0;
}

static void end_if_closed(struct tn_pg_store *store)
{
    if (store->base.shut && store->polls == 0)
        tn_store_end(&store->base);
}

void tn_pg_poll_closed(struct tn_pg_store *store)
{
    store->polls--;
    end_if_closed(store);
}

/* The store ends when the sockets' handles are gone. */
static void shut(struct tn_store *base)
{
    struct tn_pg_store *store = (struct tn_pg_store *)base;

    (void)uv_timer_stop(&store->timer);
    fail_sent(store, TENURE_E_CLOSED, "the store is closed");
    fail_waiting(store, TN_NEVER, TENURE_E_CLOSED, "the store is closed");
    tn_pg_link_stop(&store->work);
    tn_pg_link_stop(&store->bell);
    end_if_closed(store);
}

static void free_store(struct tn_store *base)
{
    struct tn_pg_store *store = (struct tn_pg_store *)base;

    tn_pg_observe_done(store);
    tn_pg_url_done(&store->url);
}

static void init_link(struct tn_pg_store *store, struct tn_pg_link *link,
                      const struct tn_pg_link_host *host)
{
    link->store = store;
    link->host = host;
    link->code = TENURE_E_UNAVAILABLE;
}

static const struct tn_store_ops relaxed_ops;

static int open_store(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    struct tn_pg_store *store = tn_store_new(sizeof *store, ops, how, reterr);

    if (store == NULL)
        return TENURE_E_NOMEM;
    int rc = tn_pg_url_parse(how->url, &store->url, reterr);
    if (rc < 0)
        return tn_store_discard(&store->base, rc,
                                rc != TENURE_E_INVALID ? tenure_strerror(rc) : NULL, reterr);
    (void)uv_timer_init(how->loop, &store->timer);
    tn_store_add_handle(&store->base, &store->timer);
    tn_prng_seed(&store->prng, store->base.seeds[0]);
    store->base.ops = store->url.relaxed ? &relaxed_ops : &tn_postgres_store_ops;
    store->stuck_at = TN_NEVER;
    store->looked_at = tn_pg_now(store);
    init_link(store, &store->work, &work_host);
    init_link(store, &store->bell, &bell_host);
    *ret_store = &store->base;
    return 0;
}

static void tell_facts(const struct tn_store *base, struct tn_store_facts *ret_facts)
{
    const struct tn_pg_store *store = (const struct tn_pg_store *)base;

    ret_facts->version = store->version;
    ret_facts->warning = store->warning != NULL ? store->warning : "";
}

#define OPS(scheme_, caps_, why_)                                                                  \
    {                                                                                              \
        .scheme = (scheme_),                                                                       \
        .caps = TN_STORE_QUEUES | TN_STORE_TELLS | TN_STORE_LINGERS | TN_STORE_RAISES |            \
                TN_STORE_RESUMES | (caps_),                                                        \
        .ttl_min = TN_TTL_MIN, .ttl_max = TN_TTL_MAX, .open = open_store, .submit = submit,        \
        .watch = tn_store_watch, .list = tn_store_list, .close = tn_store_close,                   \
        .line = tn_store_line, .facts = tell_facts, .class_why = (why_),                           \
        .read_clock = tn_store_read_clock, .forget = tn_store_forget,                              \
        .name_size = sizeof(struct tn_pg_name), .session_size = sizeof(struct tn_pg_session),      \
        .turn = take_turn, .watched = watched, .ask = tn_pg_ask, .shut = shut, .free = free_store, \
        .restored = "raise its counter: psql -c 'UPDATE tenure.state SET token = %'"               \
    }

static const char strict_why[] = "each step is a transaction that was flushed when it is answered";
const struct tn_store_ops tn_postgres_store_ops = OPS("postgres", 0, strict_why);
const struct tn_store_ops tn_postgresql_store_ops = OPS("postgresql", 0, strict_why);
static const struct tn_store_ops relaxed_ops =
    OPS("postgres", TN_STORE_ADVISORY, "durability=relaxed: the server may run with fsync off");
