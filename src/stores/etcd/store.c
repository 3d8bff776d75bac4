/* store.c - the etcd store: requests, sessions, opening and closing; store.h has the picture.
 *
 * Everything that is asked is put into a list and taken from there by the loop, so nothing is
 * answered from within the call that asks, and what is asked in one turn travels in one write.
 * What can fail: the server, which each answer tells of; memory, and then the request fails. */
#include "stores/etcd/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

tenure_ns tn_etcd_now(const struct tn_etcd_store *store)
{
    return tn_clock_now(store->base.how.clock);
}

/* --- Tasks ------------------------------------------------------------------------------------ */

struct tn_etcd_task *tn_etcd_task_new(struct tn_etcd_store *store, struct tn_store_req *req)
{
    struct tn_etcd_task *task = calloc(1, sizeof *task);

    if (task == NULL) {
        tn_req_finish(req, TENURE_E_NOMEM, "out of memory");
        return NULL;
    }
    task->store = store;
    task->req = req;
    task->give_up_at = req->give_up_at;
    task->link = &store->tasks;
    task->next = store->tasks;
    if (task->next != NULL)
        task->next->link = &task->next;
    store->tasks = task;
    return task;
}

void tn_etcd_task_end(struct tn_etcd_task *task)
{
    struct tn_store_req *req = task->req;

    *task->link = task->next;
    if (task->next != NULL)
        task->next->link = task->link;
    free(task->key);
    free(task);
    req->done(req);
}

void tn_etcd_task_fail(struct tn_etcd_task *task, const struct tn_etcd_reply *reply)
{
    tn_req_fail(task->req, reply->status, reply->text);
    tn_etcd_task_end(task);
}

static void no_memory(struct tn_etcd_task *task)
{
    tn_req_fail(task->req, TENURE_E_NOMEM, "out of memory");
    tn_etcd_task_end(task);
}

void tn_etcd_task_call(struct tn_etcd_task *task, const char *path, const ProtobufCMessage *request,
                       const ProtobufCMessageDescriptor *type, tn_etcd_answered *answered)
{
    task->rpc =
        tn_etcd_call(&task->store->client, path, request, type, task->give_up_at, answered, task);
    if (task->rpc == NULL)
        no_memory(task);
}

void tn_etcd_task_txn(struct tn_etcd_task *task, const Etcd__TxnRequest *txn,
                      tn_etcd_answered *answered)
{
    tn_etcd_task_call(task, "/etcdserverpb.KV/Txn", &txn->base, &etcd__txn_response__descriptor,
                      answered);
}

tenure_ns tn_etcd_seconds(int64_t seconds)
{
    const int64_t most = INT64_MAX / TN_SEC(1) / 4;

    if (seconds < 0)
        return 0;
    return TN_SEC(seconds < most ? seconds : most);
}

static void end_with(struct tn_etcd_task *task, enum tn_answer answer)
{
    task->req->answer = answer;
    tn_etcd_task_end(task);
}

/* --- Sessions --------------------------------------------------------------------------------- */

/* Not negative, which some versions cannot store, and not 0, which asks for any. */
int64_t tn_etcd_lease_of(const struct tn_secret *secret)
{
    struct tn_secret hash;
    uint64_t id = 0;

    tn_secret_hash(secret, 's', &hash);
    for (size_t i = 0; i < 8; i++)
        id = id << 8 | hash.bytes[i];
    id &= INT64_MAX;
    return id != 0 ? (int64_t)id : 1;
}

struct tn_etcd_session *tn_etcd_session_find(struct tn_etcd_store *store,
                                             const struct tn_secret *secret)
{
    struct tn_secret hash;

    tn_secret_hash(secret, 's', &hash);
    for (struct tn_etcd_session *session = store->sessions; session != NULL;
         session = session->next)
        if (tn_secret_equal(&session->hash, &hash))
            return session;
    return NULL;
}

struct tn_etcd_session *tn_etcd_session_get(struct tn_etcd_store *store,
                                            const struct tn_secret *secret)
{
    struct tn_etcd_session *session = tn_etcd_session_find(store, secret);

    if (session == NULL) {
        session = calloc(1, sizeof *session);
        if (session == NULL)
            return NULL;
        tn_secret_hash(secret, 's', &session->hash);
        session->lease = tn_etcd_lease_of(secret);
        tn_etcd_line_init(session);
        session->next = store->sessions;
        store->sessions = session;
    }
    return session;
}

/* Every bid of the session, of whatever name. */
static struct tn_etcd_bid *find_bid_of(struct tn_etcd_store *store,
                                       const struct tn_etcd_session *session)
{
    for (size_t i = 0; i < TN_ETCD_BUCKETS; i++)
        for (struct tn_etcd_name *name = store->names[i]; name != NULL; name = name->next)
            for (struct tn_etcd_bid *bid = name->bids; bid != NULL; bid = bid->next)
                if (bid->session == session)
                    return bid;
    return NULL;
}

void tn_etcd_session_drop(struct tn_etcd_store *store, struct tn_etcd_session *session)
{
    struct tn_etcd_session **at = &store->sessions;
    struct tn_etcd_bid *bid;

    if (session == NULL)
        return;
    while ((bid = find_bid_of(store, session)) != NULL)
        tn_etcd_bid_free(bid);
    for (struct tn_etcd_task *task = store->tasks; task != NULL; task = task->next)
        if (task->session == session)
            task->session = NULL;
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    free(session);
}

static void probed(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;

    if (reply->status != 0) {
        tn_etcd_task_fail(task, reply);
        return;
    }
    task->store->permitted = true;
    end_with(task, TN_ANSWER_OK);
}

/* Anybody may have a lease. So that somebody without permission is told by the first answer, the
 * first one waits for a write that never happens: the server asks for permission all the same. */
static void end_open(struct tn_etcd_task *task)
{
    Etcd__TxnRequest txn = ETCD__TXN_REQUEST__INIT;
    Etcd__Compare compare, *compares[1] = { &compare };
    Etcd__RequestOp op = ETCD__REQUEST_OP__INIT, *ops[1] = { &op };
    Etcd__PutRequest put = ETCD__PUT_REQUEST__INIT;
    char key[TN_ETCD_KEY];

    if (task->store->permitted) {
        end_with(task, TN_ANSWER_OK);
        return;
    }
    (void)snprintf(key, sizeof key, "%s%%token/", task->store->client.config.prefix);
    tn_etcd_compare(&compare, key, NULL, INT64_MAX);
    put.key.data = (uint8_t *)key;
    put.key.len = strlen(key);
    op.request_put = &put;
    txn.n_compare = txn.n_success = 1;
    txn.compare = compares;
    txn.success = ops;
    tn_etcd_task_txn(task, &txn, probed);
}

static void kept_alive(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;
    struct tn_store_req *req = task->req;

    const Etcd__LeaseKeepAliveResponse *response = (const void *)reply->message;
    if (reply->status == 0 && response->id != tn_etcd_lease_of(&req->op.session)) {
        struct tn_etcd_reply other = { .status = TENURE_E_TIMEOUT,
                                       .grpc = TN_GRPC_LOST,
                                       .text = "etcd: an answer belongs to another lease" };
        tn_channel_doubt(&task->store->client.channel, other.text);
        tn_etcd_task_fail(task, &other);
        return;
    }
    if (reply->status != 0) {
        tn_etcd_task_fail(task, reply);
        return;
    }
    if (response->ttl <= 0) {
        tn_etcd_session_drop(task->store, tn_etcd_session_find(task->store, &req->op.session));
        end_with(task, TN_ANSWER_GONE);
        return;
    }
    req->ttl = tn_etcd_seconds(response->ttl);
    req->held = task->session != NULL ? tn_line_held(&task->session->line) : 0;
    if (req->op.kind == TN_OP_OPEN)
        end_open(task);
    else
        end_with(task, TN_ANSWER_OK);
}

static void keep_alive(struct tn_etcd_task *task)
{
    task->rpc = tn_etcd_keepalive(&task->store->client, tn_etcd_lease_of(&task->req->op.session),
                                  task->give_up_at, kept_alive, task);
    if (task->rpc == NULL)
        no_memory(task);
}

static void opened(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;

    if (reply->grpc == TN_GRPC_FAILED_PRECONDITION && reply->status != 0) {
        keep_alive(task); /* It exists: an earlier attempt has arrived after all. */
        return;
    }
    if (reply->status != 0) {
        tn_etcd_task_fail(task, reply);
        return;
    }
    const Etcd__LeaseGrantResponse *response = (const void *)reply->message;
    task->req->ttl = tn_etcd_seconds(response->ttl);
    task->req->held = task->session != NULL ? tn_line_held(&task->session->line) : 0;
    end_open(task);
}

/* Whole seconds: a part of one is granted as a whole one, never cut off. */
static void open_session(struct tn_etcd_task *task)
{
    const struct tn_op *op = &task->req->op;
    Etcd__LeaseGrantRequest request = ETCD__LEASE_GRANT_REQUEST__INIT;
    struct tn_etcd_session *session = tn_etcd_session_get(task->store, &op->session);

    if (session == NULL) {
        no_memory(task);
        return;
    }
    session->label_len = op->label_len;
    if (op->label_len > 0)
        memcpy(session->label, op->label, op->label_len);
    session->seq = op->seq;
    task->session = session;
    request.id = session->lease;
    request.ttl = (op->ttl + TN_SEC(1) - 1) / TN_SEC(1);
    task->rpc =
        tn_etcd_call(&task->store->client, "/etcdserverpb.Lease/LeaseGrant", &request.base,
                     &etcd__lease_grant_response__descriptor, task->give_up_at, opened, task);
    if (task->rpc != NULL)
        tn_etcd_hurry(task->rpc);
    else
        no_memory(task);
}

static void end_lease(struct tn_etcd_task *task, int64_t lease, tn_etcd_answered *answered)
{
    Etcd__LeaseRevokeRequest request = ETCD__LEASE_REVOKE_REQUEST__INIT;

    request.id = lease;
    tn_etcd_task_call(task, "/etcdserverpb.Lease/LeaseRevoke", &request.base,
                      &etcd__lease_revoke_response__descriptor, answered);
}

static void closed_rest(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;

    if (reply->status != 0 && reply->grpc != TN_GRPC_NOT_FOUND)
        tn_etcd_task_fail(task, reply);
    else
        tn_etcd_task_end(task);
}

/* What was revoked and not given back is under another lease; seldom anything. */
static void closed_session(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;
    int64_t lease = tn_etcd_lease_of(&task->req->op.session);

    if (reply->status != 0 && reply->grpc != TN_GRPC_NOT_FOUND) {
        tn_etcd_task_fail(task, reply);
        return;
    }
    tn_etcd_session_drop(task->store, tn_etcd_session_find(task->store, &task->req->op.session));
    task->req->answer = reply->status == 0 ? TN_ANSWER_OK : TN_ANSWER_GONE;
    end_lease(task, tn_etcd_hold_off_lease(lease), closed_rest);
}

static void close_session(struct tn_etcd_task *task)
{
    end_lease(task, tn_etcd_lease_of(&task->req->op.session), closed_session);
}

/* An attempt that a newer one has overtaken extends nothing. */
static bool is_overtaken(struct tn_etcd_store *store, struct tn_store_req *req)
{
    struct tn_etcd_session *session = tn_etcd_session_find(store, &req->op.session);

    if (session == NULL || (req->op.kind != TN_OP_OPEN && req->op.kind != TN_OP_RENEW))
        return false;
    if (req->op.seq != 0 && req->op.seq <= session->seq) {
        req->answer = TN_ANSWER_STALE;
        return true;
    }
    if (req->op.kind == TN_OP_RENEW && req->op.seq != 0)
        session->seq = req->op.seq;
    return false;
}

/* --- Requests --------------------------------------------------------------------------------- */

/* False: it is done already. */
static bool check(struct tn_etcd_store *store, struct tn_store_req *req)
{
    const struct tn_op *op = &req->op;
    const char *why = NULL;

    if (store->base.closing) {
        tn_req_fail(req, TENURE_E_CLOSED, "the store is closed");
    } else if (op->kind == TN_OP_RAISE) {
        tn_req_fail(req, TENURE_E_UNSUPPORTED, "etcd: tokens are revisions and cannot be raised");
    } else if (tn_op_is_named(op) && tn_name_check(op->name, op->name_len, &why) < 0) {
        tn_req_fail(req, TENURE_E_INVALID, why);
    } else if (op->kind == TN_OP_OPEN && op->label_len > TN_LABEL_MAX) {
        tn_req_fail(req, TENURE_E_INVALID, "the label is longer than 255 bytes");
    } else if (!is_overtaken(store, req)) {
        return true;
    }
    req->done(req);
    return false;
}

static void carry_out(struct tn_etcd_store *store, struct tn_store_req *req)
{
    struct tn_etcd_task *task;

    if (!check(store, req))
        return;
    if (req->op.kind == TN_OP_ACQUIRE || req->op.kind == TN_OP_RELEASE) {
        tn_etcd_bid_ask(store, req);
        return;
    }
    task = tn_etcd_task_new(store, req);
    if (task == NULL)
        return;
    task->session = tn_etcd_session_find(store, &req->op.session);
    if (req->op.kind == TN_OP_OPEN)
        open_session(task);
    else if (req->op.kind == TN_OP_RENEW)
        keep_alive(task);
    else if (req->op.kind == TN_OP_CLOSE)
        close_session(task);
    else
        tn_etcd_read(task);
}

static void wake(struct tn_etcd_store *store);
static void finish_close(struct tn_etcd_store *store);

/* What is there now; what that leads to is the next turn's. */
static void take_turn(uv_idle_t *idle)
{
    struct tn_etcd_store *store = idle->data;
    struct tn_req_list todo = store->todo;
    struct tn_store_req *req;
    struct tn_etcd_listing *listing = store->lists, *following;

    store->todo = (struct tn_req_list) { 0 };
    store->lists = NULL;
    store->awake = false;
    (void)uv_idle_stop(idle);
    while ((req = tn_req_take(&todo)) != NULL)
        carry_out(store, req);
    for (; listing != NULL; listing = following) {
        following = listing->next;
        tn_etcd_list(listing);
    }
    for (size_t i = 0; i < TN_ETCD_BUCKETS && !store->base.closing; i++)
        for (struct tn_etcd_name *name = store->names[i]; name != NULL; name = name->next)
            if (name->look_at == 0)
                tn_etcd_name_look(name);
    tn_channel_flush(&store->client.channel);
    if (store->base.closing)
        finish_close(store);
}

static void wake(struct tn_etcd_store *store)
{
    if (store->awake)
        return;
    store->awake = true;
    int rc = uv_idle_start(&store->turn, take_turn);
    TN_ASSERT(rc == 0);
}

static void submit(struct tn_store *base, struct tn_store_req *req)
{
    struct tn_etcd_store *store = (struct tn_etcd_store *)(void *)base;

    tn_req_init(req);
    req->give_up_at = tn_etcd_now(store) + store->patience;
    tn_req_add(&store->todo, req);
    wake(store);
}

static int watch(struct tn_store *base, const char *name, bool on)
{
    int rc = tn_etcd_watch(base, name, on);

    wake((struct tn_etcd_store *)(void *)base);
    return rc;
}

static void list(struct tn_store *base, const char *prefix, tn_store_listed *done, void *arg)
{
    struct tn_etcd_store *store = (struct tn_etcd_store *)(void *)base;
    struct tn_etcd_listing *listing = calloc(1, sizeof *listing);

    if (listing == NULL) { /* The only answer that comes at once: there is no place for it. */
        done(arg, TENURE_E_NOMEM, NULL, 0, "out of memory");
        return;
    }
    listing->store = store;
    listing->done = done;
    listing->arg = arg;
    (void)snprintf(listing->prefix, sizeof listing->prefix, "%s", prefix);
    listing->next = store->lists;
    store->lists = listing;
    wake(store);
}

/* --- The client ------------------------------------------------------------------------------- */

static void go_on(struct tn_etcd_store *store, tenure_ns now)
{
    bool waits = false;

    for (size_t i = 0; i < TN_ETCD_BUCKETS; i++) {
        for (struct tn_etcd_name *name = store->names[i], *next; name != NULL; name = next) {
            next = name->next;
            for (struct tn_etcd_bid *bid = name->bids, *after; bid != NULL; bid = after) {
                after = bid->next;
                waits = waits || bid->due_at != TN_NEVER;
                tn_etcd_bid_tick(bid, now);
            }
            waits = waits || name->look_at != TN_NEVER;
            if (name->look_at <= now)
                tn_etcd_name_look(name);
        }
    }
    if (waits)
        tn_etcd_client_wake(&store->client);
}

static void ticked(void *arg)
{
    struct tn_etcd_store *store = arg;
    go_on(store, tn_etcd_now(store));
}

/* Connected again: what was put off is due now. */
static void ready(void *arg)
{
    go_on(arg, TN_NEVER - 1);
}

/* --- Life and death --------------------------------------------------------------------------- */

static void part_closed(struct tn_etcd_store *store)
{
    if (--store->parts == 0)
        tn_store_gone(&store->base);
}

static void turn_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

static void client_closed(void *arg)
{
    part_closed(arg);
}

static void free_names(struct tn_etcd_store *store)
{
    for (size_t i = 0; i < TN_ETCD_BUCKETS; i++) {
        while (store->names[i] != NULL) {
            struct tn_etcd_name *name = store->names[i];
            name->watched = 1; /* Stays until its bids have gone. */
            while (name->bids != NULL)
                tn_etcd_bid_free(name->bids);
            name->watched = 0;
            tn_etcd_name_free_if_unused(name);
        }
    }
    while (store->sessions != NULL) {
        struct tn_etcd_session *session = store->sessions;
        store->sessions = session->next;
        free(session);
    }
}

/* The client answers everything that is under way with CLOSED; then nothing is left but memory. */
static void finish_close(struct tn_etcd_store *store)
{
    store->parts = 2;
    tn_etcd_client_close(&store->client, client_closed);
    free_names(store);
    TN_ASSERT(store->tasks == NULL);
    TN_ASSERT(store->listing == NULL);
    uv_close((uv_handle_t *)&store->turn, turn_closed);
}

static void close_store(struct tn_store *base, void (*closed)(void *arg), void *arg)
{
    struct tn_etcd_store *store = (struct tn_etcd_store *)(void *)base;

    tn_store_close(base, closed, arg);
    wake(store);
}

static int open_store(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    struct tn_etcd_store *store = tn_store_new(sizeof *store, ops, how, reterr);
    bool tls = ops == &tn_etcds_store_ops;

    if (store == NULL)
        return TENURE_E_NOMEM;
    store->patience = how->patience > 0 ? how->patience : TN_SEC(5);
    store->client.clock = how->clock;
    store->client.patience = store->patience;
    store->client.ready = ready;
    store->client.ticked = ticked;
    store->client.arg = store;
    int rc = tn_etcd_client_init(&store->client, how->loop, how->rest, tls, reterr);
    if (rc < 0) {
        free(store);
        return rc;
    }
    rc = uv_idle_init(how->loop, &store->turn);
    TN_ASSERT(rc == 0);
    store->turn.data = store;
    tn_etcd_client_start(&store->client);
    *ret_store = &store->base;
    return 0;
}

struct forgetting {
    tn_store_done *done;
    void *arg;
};

static void forgotten(void *arg, const struct tn_etcd_reply *reply)
{
    struct forgetting *forgetting = arg;

    forgetting->done(forgetting->arg, reply->status, reply->text);
    free(forgetting);
}

/* All that is left of a free name is the note of its last token. */
static void forget(struct tn_store *base, const char *prefix, tn_store_done *done, void *arg)
{
    struct tn_etcd_store *store = (struct tn_etcd_store *)(void *)base;
    struct forgetting *forgetting = malloc(sizeof *forgetting);
    Etcd__TxnRequest txn = ETCD__TXN_REQUEST__INIT;
    Etcd__RequestOp op = ETCD__REQUEST_OP__INIT, *ops[1] = { &op };
    Etcd__DeleteRangeRequest removal = ETCD__DELETE_RANGE_REQUEST__INIT;
    char key[TN_ETCD_KEY], end[TN_ETCD_KEY];

    if (forgetting != NULL) {
        *forgetting = (struct forgetting) { done, arg };
        (void)snprintf(key, sizeof key, "%s%%token/%s", store->client.config.prefix, prefix);
        memcpy(end, key, sizeof end);
        end[strlen(end) - 1]++;
        removal.key.data = (uint8_t *)key;
        removal.range_end.data = (uint8_t *)end;
        removal.key.len = removal.range_end.len = strlen(key);
        op.request_delete_range = &removal;
        txn.n_success = 1;
        txn.success = ops;
        if (tn_etcd_call(&store->client, "/etcdserverpb.KV/Txn", &txn.base,
                         &etcd__txn_response__descriptor, tn_etcd_now(store) + store->patience,
                         forgotten, forgetting) != NULL)
            return;
    }
    free(forgetting);
    done(arg, TENURE_E_NOMEM, "out of memory");
}

static void tell_facts(const struct tn_store *base, struct tn_store_facts *ret_facts)
{
    const struct tn_etcd_store *store = (const struct tn_etcd_store *)(const void *)base;

    ret_facts->version = store->client.version;
    ret_facts->warning = store->client.warning;
}

/* The shortest lease that a server with the usual election timeout of a second grants is 2 s.
 * etcd counts a lease from when it has handled the keepalive, never less than its TTL, and after
 * a change of its own leader from the start: nothing expires early, so there is no slack. */
#define OPS(scheme_)                                                                              \
    {                                                                                             \
        .scheme = scheme_, .caps = TN_STORE_QUEUES | TN_STORE_TELLS, .slack = 0,                  \
        .ttl_min = TN_SEC(2), .ttl_max = TN_SEC(24 * 3600), .open = open_store, .submit = submit, \
        .watch = watch, .list = list, .close = close_store, .facts = tell_facts,                  \
        .class_why = "a majority of the servers has what was acknowledged on its disks",          \
        .clock_why = "etcd tells no clock, and what is left of a lease in whole seconds",         \
        .forget = forget,                                                                         \
        .restored = "restore with: etcdutl snapshot restore --bump-revision % --mark-compacted"   \
    }

const struct tn_store_ops tn_etcd_store_ops = OPS("etcd");
const struct tn_store_ops tn_etcds_store_ops = OPS("etcds");
