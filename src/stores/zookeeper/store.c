/* store.c - requests to a ZooKeeper store: who carries them out, and what becomes of them in time.
 *
 * Happy path: submit queues; a turn of the loop starts what is queued, ends sessions that are over,
 * and asks the library of every session what it waits for. Answers come through call.c.
 * What can fail: the servers. A request waits for the connection as long as its patience lasts; if
 * nothing of it was written it has failed, otherwise nobody knows.
 *
 * P1: RENEW is a change that changes nothing (a transaction of one check). Unlike a read it is not
 * answered by a server that has lost the others, nor by a leader without its quorum; and it is
 * refused when the session is over. docs/stores/zookeeper.md has the whole argument. */
#define _GNU_SOURCE
#include "stores/zookeeper/zookeeper.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "core/plan.h"
#include "stores/zookeeper/private.h"

enum { ROUNDS_MAX = 64 };

tenure_ns tn_zk_now(const struct tn_zk_store *store)
{
    return tn_clock_now(store->base.how.clock);
}

bool tn_zk_is_loss(int rc)
{
    return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZCLOSING ||
           rc == ZINVALIDSTATE || rc == ZSESSIONMOVED || rc == ZSESSIONEXPIRED || rc == ZAUTHFAILED;
}

/* --- Jobs ------------------------------------------------------------------------------------- */

static void set_ready(struct tn_zk_job *job)
{
    job->progress = TN_ZK_READY;
    job->store->ready++;
    tn_store_kick(&job->store->base);
}

/* Nothing may refer to it when its asker is told. */
static void finish_job(struct tn_zk_job *job, int status, const char *error)
{
    struct tn_zk_store *store = job->store;
    struct tn_store_req *req = job->req;
    struct tn_store_query *query = job->query;

    *job->link = job->next;
    if (job->next != NULL)
        job->next->link = job->link;
    else
        store->jobs_end = job->link;
    if (store->job_next == job)
        store->job_next = job->next;
    store->ready -= job->progress == TN_ZK_READY;
    tn_zk_claim_forget(job);
    tn_zk_look_forget(job);
    tn_zk_call_forget(store, job);
    for (struct tn_zk_farewell *at = store->farewells; at != NULL; at = at->next)
        at->job = at->job == job ? NULL : at->job;
    if (job->session != NULL && job->session->closing == job)
        job->session->closing = NULL;
    free(job->todo);
    free(job);
    if (query != NULL)
        tn_query_done(query, status, error);
    else
        tn_req_finish(req, status, error);
}

void tn_zk_job_answer(struct tn_zk_job *job, enum tn_answer answer)
{
    if (job->req != NULL)
        job->req->answer = answer;
    finish_job(job, 0, NULL);
}

void tn_zk_job_fail(struct tn_zk_job *job, int status, const char *format, ...)
{
    char text[TN_ERROR_TEXT];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    finish_job(job, status, text);
}

void tn_zk_job_refuse(struct tn_zk_job *job, int rc, const char *name)
{
    const struct tn_zk_url *url = &job->store->url;

    if (rc == ZNOAUTH)
        tn_zk_job_fail(job, TENURE_E_DENIED, "no permission on %.40s/%.60s: %s", url->chroot, name,
                       url->auth[0] != '\0' ? "its ACL does not admit this user and password"
                                            : "its ACL wants a user:password in the URL");
    else if (rc == ZINVALIDACL)
        tn_zk_job_fail(job, TENURE_E_DENIED, "the server did not accept the user and the password");
    else if (rc == ZNOCHILDRENFOREPHEMERALS)
        tn_zk_job_fail(job, TENURE_E_DENIED,
                       "%.200s is led by another program: there, or above it, is an ephemeral "
                       "node, below which nobody can stand in line",
                       name);
    else
        tn_zk_job_fail(job, TENURE_E_UNAVAILABLE, "zookeeper refused: %s", zerror(rc));
}

void tn_zk_job_park(struct tn_zk_job *job)
{
    job->progress = TN_ZK_PARKED;
    job->reading = false;
}

void tn_zk_job_wake(struct tn_zk_store *store, const struct tn_zk_session *session)
{
    for (struct tn_zk_job *job = store->jobs; job != NULL; job = job->next)
        if (job->progress == TN_ZK_PARKED && job->session == session)
            set_ready(job);
}

/* Why there is no connection: of the session, or of the name server. */
static const char *find_reason(const struct tn_zk_job *job)
{
    const struct tn_zk_session *session = job->session;

    if (job->store->servers == NULL && job->store->resolve_why[0] != '\0')
        return job->store->resolve_why;
    if (job->store->servers == NULL)
        return "the name server does not answer";
    return session != NULL && session->why[0] != '\0' ? session->why : "no server answers";
}

static void give_up(struct tn_zk_job *job)
{
    const struct tn_net_url *url = &job->store->url.net;
    struct tn_zk_claim *claim = job->claim;
    char hosts[80];
    struct tn_text text;

    tn_text_init(&text, hosts, sizeof hosts);
    for (unsigned i = 0; i < url->count; i++)
        tn_text_addf(&text, "%s%s", i > 0 ? "," : "", url->endpoints[i].where);
    if (job->session != NULL && job->session->state == TN_ZK_DENIED) {
        tn_zk_job_fail(job, TENURE_E_DENIED, "the server did not accept the user and the password");
    } else if (job->written) {
        tn_zk_job_fail(job, TENURE_E_TIMEOUT, "zookeeper %s: no answer; it may have happened",
                       hosts);
    } else {
        tn_zk_job_fail(job, TENURE_E_UNAVAILABLE, "zookeeper %s cannot be used: %.90s", hosts,
                       find_reason(job));
        if (claim != NULL)
            tn_zk_claim_abandon(claim);
    }
}

/* --- Sessions --------------------------------------------------------------------------------- */

static void fill_session(struct tn_zk_job *job)
{
    struct tn_zk_session *session = job->session;

    job->req->ttl = session->ttl;
    job->req->seen = session->line.revocations;
    job->req->held = tn_line_held(&session->line);
}

static void hear_renew(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_job *job = call->asker;

    /* That the path is not there was found out by the quorum as well. */
    if (reply->rc == ZOK || reply->rc == ZNONODE || reply->rc == ZNOAUTH) {
        tn_line_remind(&job->session->line, job->req->op.seen);
        fill_session(job);
        tn_zk_job_answer(job, TN_ANSWER_OK);
    } else if (reply->rc == ZSESSIONEXPIRED) {
        tn_zk_session_end(job->session, false);
        tn_zk_job_answer(job, TN_ANSWER_GONE);
    } else if (tn_zk_is_loss(reply->rc)) {
        tn_zk_job_fail(job, TENURE_E_TIMEOUT, "the connection was lost before the answer");
    } else {
        tn_zk_job_refuse(job, reply->rc, "");
    }
}

static void renew(struct tn_zk_job *job)
{
    struct tn_zk_session *session = job->session;
    char path[TN_ZK_PATH_MAX];

    if (!tn_zk_is_up(session)) {
        tn_zk_job_park(job);
        return;
    }
    tn_zk_path_of(session->store, "", NULL, path);
    job->written = true;
    tn_zk_call_prove(tn_zk_call_new(session, job, hear_renew), path);
}

/* Being connected for the first time is the answer to the OPEN that began it: the session was made
 * by the quorum, after that OPEN was sent. */
static void opened(struct tn_zk_job *job)
{
    if (!tn_zk_is_up(job->session)) {
        tn_zk_job_park(job);
        return;
    }
    fill_session(job);
    tn_zk_job_answer(job, TN_ANSWER_OK);
}

static void start_open(struct tn_zk_job *job)
{
    const struct tn_op *asked = &job->req->op;
    struct tn_zk_session *session = tn_zk_session_new(job->store, &asked->session, asked->ttl);

    if (session == NULL) {
        tn_zk_job_fail(job, TENURE_E_NOMEM, "out of memory");
        return;
    }
    session->label_len = asked->label_len;
    if (asked->label_len > 0)
        memcpy(session->label, asked->label, asked->label_len);
    session->seq = asked->seq;
    job->session = session;
    job->start = opened;
    tn_zk_job_park(job);
}

static void start_close(struct tn_zk_job *job)
{
    if (!tn_zk_is_up(job->session)) {
        tn_zk_job_park(job);
        return;
    }
    job->written = true;
    job->session->closing = job;
    tn_zk_session_end(job->session, true);
}

/* An old attempt extends nothing. */
static bool is_old(struct tn_zk_job *job)
{
    struct tn_zk_session *session = job->session;

    if (job->req->op.seq <= session->seq) {
        fill_session(job);
        tn_zk_job_answer(job, TN_ANSWER_STALE);
        return true;
    }
    session->seq = job->req->op.seq;
    session->expires_at = tn_zk_now(session->store) + session->ttl;
    return false;
}

/* The first start of a request whose session asks. */
static void start_job(struct tn_zk_job *job)
{
    enum tn_op_kind kind = job->req->op.kind;

    job->session =
        (struct tn_zk_session *)tn_store_session_find(&job->store->base, &job->req->op.session);
    if (job->session != NULL && tn_zk_is_over(job->session)) {
        struct tn_zk_session *over = job->session;
        job->session = NULL;
        tn_zk_session_drop(over);
    }
    if (job->session == NULL && kind == TN_OP_OPEN) {
        start_open(job);
        return;
    }
    if (job->session == NULL) {
        tn_zk_job_answer(job, TN_ANSWER_GONE);
        return;
    }
    if (kind == TN_OP_OPEN || kind == TN_OP_RENEW) {
        /* An OPEN said again may be younger than the session that is being made. */
        job->start = renew;
        if (is_old(job))
            return;
    } else if (kind == TN_OP_CLOSE) {
        job->start = start_close;
    } else {
        job->start = kind == TN_OP_ACQUIRE ? tn_zk_claim_acquire : tn_zk_claim_release;
    }
    job->start(job);
}

/* --- Turns ------------------------------------------------------------------------------------ */

/* One that is started may answer others. */
static void start_ready(struct tn_zk_store *store)
{
    struct tn_zk_job *job = store->ready > 0 ? store->jobs : NULL;

    for (; job != NULL; job = store->job_next) {
        store->job_next = job->next;
        if (job->progress != TN_ZK_READY)
            continue;
        store->ready--;
        job->progress = TN_ZK_STARTED;
        job->start(job);
    }
}

/* True: one was dealt with, so the list may be another. */
static bool serve_one(struct tn_zk_store *store)
{
    struct tn_zk_session *at = NULL;

    while ((at = tn_zk_session_next(store, at)) != NULL) {
        if (tn_zk_is_over(at)) {
            tn_zk_session_drop(at);
            return true;
        }
        if (at->state == TN_ZK_ARRIVED) {
            tn_zk_session_resume(at);
            return true;
        }
    }
    return false;
}

static void hear_timer(uv_timer_t *timer)
{
    tn_store_kick(timer->data);
}

static void check_times(struct tn_zk_store *store)
{
    tenure_ns now = tn_zk_now(store);
    tenure_ns next = TN_NEVER;
    struct tn_zk_session *at = NULL;

    while (store->jobs != NULL && store->jobs->give_up_at <= now)
        give_up(store->jobs);
    if (store->jobs != NULL)
        next = store->jobs->give_up_at;
    while ((at = tn_zk_session_next(store, at)) != NULL) {
        tn_line_tick(&at->line, now);
        tenure_ns due = tn_zk_is_over(at) ? now : tn_zk_session_check(at, now);
        due = tn_line_wake_at(&at->line) < due ? tn_line_wake_at(&at->line) : due;
        next = due < next ? due : next;
    }
    if (store->servers == NULL && store->base.sessions.count > 0 && store->resolve == NULL) {
        if (now >= store->resolve_at)
            tn_zk_resolve_start(store);
        else if (store->resolve_at < next)
            next = store->resolve_at;
    }
    tn_store_wake_at(&store->base, &store->timer, hear_timer, next);
}

static void turn(struct tn_store *base)
{
    struct tn_zk_store *store = (struct tn_zk_store *)base;
    struct tn_zk_session *at = NULL;
    int rounds = 0;

    tn_zk_call_deliver_broken(store);
    while (rounds < ROUNDS_MAX && serve_one(store))
        rounds++;
    start_ready(store);
    tn_zk_observe_due(store);
    while ((at = tn_zk_session_next(store, at)) != NULL) {
        tn_zk_claim_send(at);
        if (at->dirty && !tn_zk_is_over(at))
            tn_zk_session_drive(at);
    }
    check_times(store);
    if (rounds == ROUNDS_MAX)
        tn_store_kick(base);
}

/* --- The interface ---------------------------------------------------------------------------- */

static const char *find_fault(const struct tn_op *op, const struct tn_zk_url *url)
{
    char segment[TN_NAME_MAX + 1];
    int64_t seq;

    if ((op->kind == TN_OP_OPEN || op->kind == TN_OP_RENEW) && op->seq == 0)
        return "the sequence number is missing";
    if (!tn_op_is_named(op))
        return NULL;
    for (uint32_t i = 0, start = 0; i <= op->name_len; i++) {
        if (i < op->name_len && op->name[i] != '/')
            continue;
        memcpy(segment, op->name + start, i - start);
        segment[i - start] = '\0';
        if (tn_zk_node_parse(segment, &seq))
            return "a segment that ends in 'latch-' and digits is a candidate's in ZooKeeper";
        if (start == 0 && url->chroot[0] == '\0' && strcmp(segment, "zookeeper") == 0)
            return "/zookeeper belongs to the server: choose another name, or a chroot";
        start = i + 1;
    }
    return NULL;
}

static struct tn_zk_job *new_job(struct tn_zk_store *store, void (*start)(struct tn_zk_job *job))
{
    struct tn_zk_job *job = calloc(1, sizeof *job);

    if (job == NULL)
        return NULL;
    job->store = store;
    job->start = start;
    job->link = store->jobs_end;
    *job->link = job;
    store->jobs_end = &job->next;
    set_ready(job);
    return job;
}

static void submit(struct tn_store *base, struct tn_store_req *req)
{
    struct tn_zk_store *store = (struct tn_zk_store *)base;
    const struct tn_op *op = &req->op;
    bool reads = op->kind == TN_OP_READ || op->kind == TN_OP_REVOKE;
    const char *fault = find_fault(op, &store->url);
    struct tn_zk_job *job = fault == NULL ? new_job(store, reads ? tn_zk_read : start_job) : NULL;

    if (job == NULL) {
        tn_req_refuse(base, req, fault != NULL ? TENURE_E_INVALID : TENURE_E_NOMEM, fault);
        return;
    }
    job->req = req;
    job->give_up_at = req->give_up_at;
    if (tn_op_is_named(op))
        memcpy(job->name, op->name, op->name_len);
}

static void ask(struct tn_store *base, struct tn_store_query *query)
{
    bool fits = strlen(query->prefix) <= TN_NAME_MAX;
    struct tn_zk_job *job = fits ? new_job((struct tn_zk_store *)base, tn_zk_list) : NULL;

    if (job == NULL) {
        tn_query_refuse(base, query, fits ? TENURE_E_NOMEM : TENURE_E_INVALID,
                        fits ? "out of memory" : "the prefix is longer than a name");
        return;
    }
    job->query = query;
    job->give_up_at = query->give_up_at;
}

static int watched(struct tn_store *base, struct tn_store_name *at, bool on)
{
    struct tn_zk_store *store = (struct tn_zk_store *)base;
    struct tn_zk_name *name = (struct tn_zk_name *)at;

    if (on)
        tn_zk_name_due(store, name);
    else if (name->view == TN_ZK_DUE)
        tn_zk_name_set_view(store, name, TN_ZK_SEEN);
    return 0;
}

/* --- Opening and closing ---------------------------------------------------------------------- */

void tn_zk_handle_gone(struct tn_zk_store *store)
{
    TN_ASSERT(store->handles > 0);
    if (--store->handles == 0 && store->base.shut)
        tn_store_end(&store->base);
}

/* Sessions that were not closed by CLOSE end at the servers when their time is over, as if the
 * process had died: nobody says that their work has stopped. */
static void shut(struct tn_store *base)
{
    struct tn_zk_store *store = (struct tn_zk_store *)base;
    struct tn_zk_session *session;

    store->handles++; /* Until all have begun to close. */
    while (store->jobs != NULL)
        tn_zk_job_fail(store->jobs, TENURE_E_CLOSED, "the store is closed");
    while ((session = tn_zk_session_next(store, NULL)) != NULL) {
        /* Readers have nothing that could be given away early. */
        session->state = session->reader ? TN_ZK_CLOSING : TN_ZK_ENDING;
        tn_zk_session_drop(session);
    }
    tn_zk_call_deliver_broken(store);
    while (store->farewells != NULL)
        tn_zk_farewell_cancel(store->farewells);
    tn_zk_resolve_drop(store);
    tn_zk_version_cancel(store);
    tn_zk_handle_gone(store);
}

static void free_store(struct tn_store *base)
{
    struct tn_zk_store *store = (struct tn_zk_store *)base;

    explicit_bzero(&store->url, sizeof store->url);
    free(store->servers);
}

static int open_store(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    struct tn_zk_store *store = tn_store_new(sizeof *store, ops, how, reterr);

    if (store == NULL)
        return TENURE_E_NOMEM;
    int rc = tn_zk_url_parse(how->rest, &store->url, reterr);
    if (rc < 0)
        return tn_store_discard(&store->base, rc, NULL, reterr);
    tn_prng_seed(&store->prng, store->base.seeds[0] ^ store->base.seeds[1]);
    store->jobs_end = &store->jobs;
    (void)uv_timer_init(how->loop, &store->timer);
    tn_store_add_handle(&store->base, &store->timer);
    *ret_store = &store->base;
    return 0;
}

static void tell_facts(const struct tn_store *base, struct tn_store_facts *ret_facts)
{
    const struct tn_zk_store *store = (const struct tn_zk_store *)(const void *)base;

    *ret_facts = (struct tn_store_facts) { store->version, store->warning };
}

const struct tn_store_ops tn_zookeeper_store_ops = {
    .scheme = "zookeeper",
    .caps = TN_STORE_QUEUES | TN_STORE_TELLS | TN_STORE_BOUND,
    .ttl_min = TN_TTL_MIN,
    .ttl_max = TN_TTL_MAX,
    .open = open_store,
    .submit = submit,
    .watch = tn_store_watch,
    .list = tn_store_list,
    .look = tn_store_look,
    .line = tn_store_line,
    .close = tn_store_close,
    .facts = tell_facts,
    .class_why = "a majority of the servers has what was acknowledged on its disks",
    .clock_why = "ZooKeeper tells clients no clock",
    .learn = tn_zk_version_ask,
    .restored = "wait: its tokens rise with every write to the ensemble",
    .name_size = sizeof(struct tn_zk_name),
    .session_size = sizeof(struct tn_zk_session),
    .turn = turn,
    .watched = watched,
    .ask = ask,
    .shut = shut,
    .free = free_store,
};

static int refuse_tls(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    (void)ops;
    (void)how;
    (void)ret_store;
    tn_text_add(reterr, "zookeepers: the ZooKeeper client library has no TLS; use zookeeper:// "
                        "through a TLS tunnel (stunnel, a service mesh) on this host");
    return TENURE_E_UNSUPPORTED;
}

const struct tn_store_ops tn_zookeepers_store_ops = {
    .scheme = "zookeepers",
    .caps = TN_STORE_QUEUES | TN_STORE_TELLS | TN_STORE_BOUND,
    .ttl_min = TN_TTL_MIN,
    .ttl_max = TN_TTL_MAX,
    .open = refuse_tls,
};
