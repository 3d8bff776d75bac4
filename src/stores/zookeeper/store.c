/* store.c - requests to a ZooKeeper store: who carries them out, and what becomes of them in time.
 *
 * Happy path: submit queues; a turn, just before the loop would sleep, starts what is queued, ends
 * sessions that are over, and asks the library of every session what it waits for. Answers come
 * through call.c.
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
#include "base/sha256.h"
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

/* --- Requests --------------------------------------------------------------------------------- */

static void free_op(struct tn_zk_op *op)
{
    free(op->prefix);
    free(op->leases);
    free(op->todo);
    free(op);
}

void tn_zk_op_unpin(struct tn_zk_op *op)
{
    TN_ASSERT(op->pins > 0);
    if (--op->pins == 0 && op->done)
        free_op(op);
}

static void finish_list(struct tn_zk_op *op, int status, const char *error)
{
    struct tn_store_lease *leases = NULL;

    if (status == 0) {
        /* There is an array also when there are no names. */
        leases = op->leases != NULL ? op->leases : calloc(1, sizeof *leases);
        op->leases = NULL;
        if (leases == NULL)
            status = TENURE_E_NOMEM;
    }
    if (status == 0)
        tn_store_sort(leases, op->count);
    op->list_done(op->list_arg, status, leases, status == 0 ? op->count : 0,
                  status < 0 && error == NULL ? tenure_strerror(status) : error);
}

static void finish_op(struct tn_zk_op *op, int status, const char *error)
{
    TN_ASSERT(!op->done);
    op->done = true;
    *op->link = op->next;
    if (op->next != NULL)
        op->next->link = op->link;
    else
        op->store->ops_end = op->link;
    if (op->lease != NULL)
        tn_zk_lease_forget_op(op->lease, op);
    for (struct tn_zk_farewell *at = op->store->farewells; at != NULL; at = at->next)
        at->op = at->op == op ? NULL : at->op;
    if (op->session != NULL && op->session->closing == op)
        op->session->closing = NULL;
    op->pins++;
    if (op->req == NULL) {
        finish_list(op, status, error);
    } else {
        tn_req_finish(op->req, status, error);
        op->req = NULL;
    }
    tn_zk_op_unpin(op);
}

void tn_zk_op_answer(struct tn_zk_op *op, enum tn_answer answer)
{
    if (op->done)
        return;
    if (op->req != NULL)
        op->req->answer = answer;
    finish_op(op, 0, NULL);
}

void tn_zk_op_fail(struct tn_zk_op *op, int status, const char *format, ...)
{
    char text[TN_ERROR_TEXT];
    va_list args;

    if (op->done)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    finish_op(op, status, text);
}

void tn_zk_op_refuse(struct tn_zk_op *op, int rc, const char *name)
{
    const struct tn_zk_url *url = &op->store->url;

    if (rc == ZNOAUTH)
        tn_zk_op_fail(op, TENURE_E_DENIED, "no permission on %.40s/%.60s: %s", url->chroot, name,
                      url->auth[0] != '\0' ? "its ACL does not admit this user and password"
                                           : "its ACL wants a user:password in the URL");
    else if (rc == ZINVALIDACL)
        tn_zk_op_fail(op, TENURE_E_DENIED, "the server did not accept the user and the password");
    else if (rc == ZNOCHILDRENFOREPHEMERALS)
        tn_zk_op_fail(op, TENURE_E_INVALID, "%.60s lies below an ephemeral node", name);
    else
        tn_zk_op_fail(op, TENURE_E_UNAVAILABLE, "zookeeper refused: %s", zerror(rc));
}

void tn_zk_op_park(struct tn_zk_op *op)
{
    if (op->done)
        return;
    op->parked = true;
    tn_zk_kick(op->store);
}

/* Why there is no connection: of the session, or of the name server. */
static const char *reason(const struct tn_zk_op *op)
{
    const struct tn_zk_session *session = op->session;

    if (op->store->servers == NULL && op->store->resolve_why[0] != '\0')
        return op->store->resolve_why;
    if (op->store->servers == NULL)
        return "the name server does not answer";
    return session != NULL && session->why[0] != '\0' ? session->why : "no server answers";
}

void tn_zk_op_give_up(struct tn_zk_op *op)
{
    struct tn_zk_lease *lease = op->lease;
    char hosts[80];
    struct tn_text text;

    tn_text_init(&text, hosts, sizeof hosts);
    tn_zk_url_hosts(&op->store->url, &text);
    if (op->session != NULL && op->session->denied) {
        tn_zk_op_fail(op, TENURE_E_DENIED, "the server did not accept the user and the password");
    } else if (op->written) {
        tn_zk_op_fail(op, TENURE_E_TIMEOUT, "zookeeper %s: no answer; it may have happened", hosts);
    } else {
        if (lease != NULL)
            tn_zk_lease_forget_op(lease, op);
        tn_zk_op_fail(op, TENURE_E_UNAVAILABLE, "zookeeper %s cannot be used: %.90s", hosts,
                      reason(op));
        if (lease != NULL)
            tn_zk_lease_abandon(lease);
    }
}

/* --- Sessions --------------------------------------------------------------------------------- */

static void fill_session(struct tn_zk_op *op)
{
    op->req->ttl = op->session->ttl;
    op->req->seen = op->session->revocations;
    op->req->held = op->session->held;
    op->req->more = false;
}

static void hear_renew(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_op *op = call->op;

    if (op->done)
        return;
    /* That the path is not there was found out by the quorum as well. */
    if (reply->rc == ZOK || reply->rc == ZNONODE || reply->rc == ZNOAUTH) {
        tn_zk_lease_remind(op->session, op->req->op.seen);
        fill_session(op);
        tn_zk_op_answer(op, TN_ANSWER_OK);
    } else if (reply->rc == ZSESSIONEXPIRED) {
        tn_zk_session_end(op->session, false);
        tn_zk_op_answer(op, TN_ANSWER_GONE);
    } else if (tn_zk_is_loss(reply->rc)) {
        tn_zk_op_fail(op, TENURE_E_TIMEOUT, "the connection was lost before the answer");
    } else {
        tn_zk_op_refuse(op, reply->rc, "");
    }
}

static void renew(struct tn_zk_op *op)
{
    struct tn_zk_session *session = op->session;
    char path[TN_ZK_PATH_MAX];

    if (!session->connected) {
        tn_zk_op_park(op);
        return;
    }
    tn_zk_path_of(session->store, "", NULL, path);
    struct tn_zk_call *call = tn_zk_call_new(session, hear_renew);
    tn_zk_call_for_op(call, op);
    op->written = true;
    tn_zk_call_prove(call, path);
}

/* Being connected for the first time is the answer to the OPEN that began it: the session was made
 * by the quorum, after that OPEN was sent. */
static void opened(struct tn_zk_op *op)
{
    if (!op->session->connected) {
        tn_zk_op_park(op);
        return;
    }
    fill_session(op);
    tn_zk_op_answer(op, TN_ANSWER_OK);
}

static void start_open(struct tn_zk_op *op)
{
    const struct tn_op *asked = &op->req->op;
    struct tn_zk_session *session = tn_zk_session_new(op->store, true, asked->ttl);

    if (session == NULL) {
        tn_zk_op_fail(op, TENURE_E_NOMEM, "out of memory");
        return;
    }
    tn_secret_hash(&asked->session, 's', &session->hash);
    session->label_len = asked->label_len;
    if (asked->label_len > 0)
        memcpy(session->label, asked->label, asked->label_len);
    session->seq = asked->seq;
    op->session = session;
    op->start = opened;
    tn_zk_op_park(op);
}

static void start_close(struct tn_zk_op *op)
{
    if (!op->session->connected) {
        tn_zk_op_park(op);
        return;
    }
    op->written = true;
    op->session->closing = op;
    tn_zk_session_end(op->session, true);
}

/* An old attempt extends nothing. */
static bool is_old(struct tn_zk_op *op)
{
    struct tn_zk_session *session = op->session;

    if (op->req->op.seq <= session->seq) {
        fill_session(op);
        tn_zk_op_answer(op, TN_ANSWER_STALE);
        return true;
    }
    session->seq = op->req->op.seq;
    session->expires_at = tn_zk_now(session->store) + session->ttl;
    return false;
}

static void start_op(struct tn_zk_op *op)
{
    enum tn_op_kind kind = op->req != NULL ? op->req->op.kind : TN_OP_READ;

    op->reader = kind == TN_OP_READ || kind == TN_OP_REVOKE;
    op->start = op->req != NULL ? tn_zk_read : tn_zk_list;
    if (op->reader) {
        op->start(op);
        return;
    }
    op->session = tn_zk_session_find(op->store, &op->req->op.session);
    if (op->session == NULL && kind == TN_OP_OPEN) {
        start_open(op);
        return;
    }
    if (op->session == NULL) {
        tn_zk_op_answer(op, TN_ANSWER_GONE);
        return;
    }
    if (kind == TN_OP_OPEN || kind == TN_OP_RENEW) {
        /* An OPEN said again may be younger than the session that is being made. */
        op->start = renew;
        if (is_old(op))
            return;
    } else if (kind == TN_OP_CLOSE) {
        op->start = start_close;
    } else if (kind == TN_OP_ACQUIRE) {
        op->start = tn_zk_lease_acquire;
    } else {
        op->start = tn_zk_lease_release;
    }
    op->start(op);
}

/* --- Turns ------------------------------------------------------------------------------------ */

static void hear_idle(uv_idle_t *idle)
{
    (void)idle; /* It only keeps the loop from sleeping. */
}

void tn_zk_kick(struct tn_zk_store *store)
{
    store->work = true;
    if (!store->shut)
        (void)uv_idle_start(&store->idle, hear_idle);
}

static void start_fresh(struct tn_zk_store *store)
{
    struct tn_zk_op *op;

    while ((op = store->fresh) != NULL) {
        store->fresh = op->lease_next;
        if (store->fresh == NULL)
            store->fresh_end = &store->fresh;
        op->lease_next = NULL;
        op->pins--;
        if (op->fault != NULL)
            tn_zk_op_fail(op, TENURE_E_INVALID, "%s", op->fault);
        else
            start_op(op);
    }
}

/* Readers whose session has ended ask another one. */
static void start_stray(struct tn_zk_store *store)
{
    struct tn_zk_op *op;

    for (op = store->ops; op != NULL; op = op->next) {
        op->ready = op->parked && op->reader && op->session == NULL;
        op->parked = op->parked && !op->ready;
    }
    for (;;) {
        for (op = store->ops; op != NULL && !op->ready; op = op->next)
            ;
        if (op == NULL)
            return;
        op->ready = false;
        op->start(op);
    }
}

/* True: one was dealt with, so the list may be another. */
static bool serve_one(struct tn_zk_store *store)
{
    for (struct tn_zk_session *at = store->sessions; at != NULL; at = at->next) {
        if (at->over) {
            tn_zk_session_drop(at);
            return true;
        }
        if (at->resume) {
            tn_zk_session_resume(at);
            return true;
        }
        if (at->held_back > 0)
            tn_zk_lease_go_on(at);
        if (at->dirty)
            tn_zk_session_drive(at);
    }
    return false;
}

static void check_times(struct tn_zk_store *store)
{
    tenure_ns now = tn_zk_now(store);
    tenure_ns next = tn_zk_lease_take(store, now);

    while (store->ops != NULL && store->ops->give_up_at <= now)
        tn_zk_op_give_up(store->ops);
    if (store->ops != NULL && store->ops->give_up_at < next)
        next = store->ops->give_up_at;
    for (struct tn_zk_session *at = store->sessions; at != NULL; at = at->next) {
        tenure_ns due = at->over ? now : tn_zk_session_check(at, now);
        next = due < next ? due : next;
    }
    if (store->servers == NULL && store->sessions != NULL && store->resolve == NULL) {
        if (now >= store->resolve_at)
            tn_zk_resolve_start(store);
        else if (store->resolve_at < next)
            next = store->resolve_at;
    }
    tn_store_wake_at(&store->base, &store->timer, store->on_timer, next);
}

static void shut(struct tn_zk_store *store);

static void turn(struct tn_zk_store *store)
{
    (void)uv_idle_stop(&store->idle);
    if (store->base.closing) {
        shut(store);
        return;
    }
    store->work = false;
    tn_zk_call_deliver_broken(store);
    start_fresh(store);
    start_stray(store);
    int rounds = 0;
    while (rounds < ROUNDS_MAX && serve_one(store))
        rounds++;
    store->work = store->work || rounds == ROUNDS_MAX;
    tn_zk_observe_all(store, false);
    for (struct tn_zk_session *at = store->sessions; at != NULL; at = at->next) {
        if (at->dirty && !at->over)
            tn_zk_session_drive(at);
    }
    tn_zk_name_sweep(store);
    check_times(store);
    if (store->work || store->base.closing)
        tn_zk_kick(store);
}

static void hear_prepare(uv_prepare_t *prepare)
{
    struct tn_zk_store *store = prepare->data;

    if (store->work || store->base.closing)
        turn(store);
}

static void hear_timer(uv_timer_t *timer)
{
    tn_zk_kick(timer->data);
}

/* --- The interface ---------------------------------------------------------------------------- */

static const char *find_fault(const struct tn_op *op, const struct tn_zk_url *url)
{
    const char *fault = tn_op_fault(op);
    char segment[TN_NAME_MAX + 1];
    int64_t seq;

    if ((op->kind == TN_OP_OPEN || op->kind == TN_OP_RENEW) && op->seq == 0)
        return "the sequence number is missing";
    if (fault != NULL || !tn_op_is_named(op))
        return fault;
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

static struct tn_zk_op *new_op(struct tn_zk_store *store)
{
    struct tn_zk_op *op = calloc(1, sizeof *op);

    if (op == NULL)
        return NULL;
    op->store = store;
    op->give_up_at = tn_zk_now(store) + store->base.how.patience;
    op->link = store->ops_end;
    *op->link = op;
    store->ops_end = &op->next;
    op->pins = 1; /* Of the list of fresh ones. */
    *store->fresh_end = op;
    store->fresh_end = &op->lease_next;
    tn_zk_kick(store);
    return op;
}

static void submit(struct tn_store *base, struct tn_store_req *req)
{
    struct tn_zk_store *store = (struct tn_zk_store *)(void *)base;
    struct tn_zk_op *op = new_op(store);

    /* There is no memory to remember that there was none. */
    TN_ASSERT(op != NULL);
    tn_req_init(req);
    op->req = req;
    op->fault = find_fault(&req->op, &store->url);
    if (op->fault == NULL && req->op.name != NULL && req->op.name_len <= TN_NAME_MAX)
        memcpy(op->name, req->op.name, req->op.name_len);
}

static int watch(struct tn_store *base, const char *text, bool on)
{
    struct tn_zk_store *store = (struct tn_zk_store *)(void *)base;
    struct tn_zk_name *name = tn_zk_name_get(store, text);

    if (name == NULL)
        return TENURE_E_NOMEM;
    TN_ASSERT(on || name->watches > 0);
    name->watches += on ? 1U : -1U;
    if (on && name->watches == 1) {
        name->told = false;
        tn_zk_name_due(store, name, true);
        tn_zk_kick(store);
    }
    return 0;
}

static void list(struct tn_store *base, const char *prefix, tn_store_listed *done, void *arg)
{
    struct tn_zk_op *op = new_op((struct tn_zk_store *)(void *)base);

    TN_ASSERT(op != NULL);
    op->list_done = done;
    op->list_arg = arg;
    op->prefix = strdup(prefix);
    TN_ASSERT(op->prefix != NULL);
    if (strlen(prefix) > TN_NAME_MAX)
        op->fault = "the prefix is longer than a name";
}

/* --- Opening and closing ---------------------------------------------------------------------- */

static void free_store(struct tn_zk_store *store)
{
    explicit_bzero(store->url.auth, sizeof store->url.auth);
    free(store->servers);
    tn_store_gone(&store->base);
}

static void handle_closed(uv_handle_t *handle)
{
    struct tn_zk_store *store = handle->data;

    if (--store->own_handles == 0)
        free_store(store);
}

/* Sessions that were not closed by CLOSE end at the servers when their time is over, as if the
 * process had died: nobody says that their work has stopped. */
static void shut(struct tn_zk_store *store)
{
    if (!store->hung_up) {
        store->hung_up = true;
        while (store->ops != NULL)
            tn_zk_op_fail(store->ops, TENURE_E_CLOSED, "the store is closed");
        while (store->fresh != NULL) {
            struct tn_zk_op *op = store->fresh;
            store->fresh = op->lease_next;
            tn_zk_op_unpin(op);
        }
        for (struct tn_zk_session *at = store->sessions; at != NULL; at = at->next)
            at->polite = !at->owner; /* Readers have nothing that could be given away early. */
        while (store->sessions != NULL)
            tn_zk_session_drop(store->sessions);
        tn_zk_call_deliver_broken(store);
        while (store->farewells != NULL)
            tn_zk_farewell_cancel(store->farewells);
        tn_zk_resolve_drop(store);
        tn_zk_version_cancel(store);
    }
    if (store->handles > 0)
        return;
    store->shut = true;
    tn_zk_name_sweep(store);
    uv_close((uv_handle_t *)&store->prepare, handle_closed);
    uv_close((uv_handle_t *)&store->idle, handle_closed);
    uv_close((uv_handle_t *)&store->timer, handle_closed);
}

static void close_store(struct tn_store *base, void (*closed)(void *arg), void *arg)
{
    struct tn_zk_store *store = (struct tn_zk_store *)(void *)base;

    tn_store_close(base, closed, arg);
    tn_zk_kick(store);
}

static int open_store(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    struct tn_zk_store *store = tn_store_new(sizeof *store, ops, how, reterr);

    if (store == NULL)
        return TENURE_E_NOMEM;
    int rc = tn_zk_url_parse(how->rest, &store->url, reterr);
    if (rc < 0) {
        free(store);
        return rc;
    }
    store->key = (struct tn_hash_key) { store->base.seeds[0], store->base.seeds[1] };
    tn_prng_seed(&store->prng, store->key.k0 ^ store->key.k1);
    store->ops_end = &store->ops;
    store->fresh_end = &store->fresh;
    store->on_timer = hear_timer;
    store->prepare.data = store;
    store->idle.data = store;
    store->timer.data = store;
    (void)uv_prepare_init(how->loop, &store->prepare);
    (void)uv_idle_init(how->loop, &store->idle);
    (void)uv_timer_init(how->loop, &store->timer);
    (void)uv_prepare_start(&store->prepare, hear_prepare);
    store->own_handles = 3;
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
    .watch = watch,
    .list = list,
    .close = close_store,
    .facts = tell_facts,
    .class_why = "a majority of the servers has what was acknowledged on its disks",
    .clock_why = "ZooKeeper tells clients no clock",
    .learn = tn_zk_version_ask,
    .restored = "wait: its tokens rise with every write to the ensemble",
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
