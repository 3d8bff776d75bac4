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

/* --- Jobs ------------------------------------------------------------------------------------ */

struct tn_etcd_job *tn_etcd_job_new(struct tn_etcd_store *store, struct tn_store_req *req)
{
    struct tn_etcd_job *job = calloc(1, sizeof *job);

    if (job == NULL) {
        tn_req_finish(req, TENURE_E_NOMEM, "out of memory");
        return NULL;
    }
    job->store = store;
    job->req = req;
    tn_list_add(&store->jobs, &job->node);
    return job;
}

struct tn_store_req *tn_etcd_job_take(struct tn_etcd_job *job)
{
    struct tn_store_req *req = job->req;

    tn_list_remove(&job->node);
    free(job->revoke.key);
    free(job);
    return req;
}

void tn_etcd_job_end(struct tn_etcd_job *job)
{
    struct tn_store_req *req = tn_etcd_job_take(job);

    req->done(req);
}

void tn_etcd_job_fail(struct tn_etcd_job *job, const struct tn_etcd_reply *reply)
{
    tn_req_fail(job->req, reply->status, reply->text);
    tn_etcd_job_end(job);
}

static void no_memory(struct tn_etcd_job *job)
{
    tn_req_fail(job->req, TENURE_E_NOMEM, "out of memory");
    tn_etcd_job_end(job);
}

void tn_etcd_job_call(struct tn_etcd_job *job, const char *path, const ProtobufCMessage *request,
                      const ProtobufCMessageDescriptor *type, tn_etcd_answered *answered)
{
    job->rpc =
        tn_etcd_call(&job->store->client, path, request, type, job->req->give_up_at, answered, job);
    if (job->rpc == NULL)
        no_memory(job);
}

void tn_etcd_job_txn(struct tn_etcd_job *job, const Etcd__TxnRequest *txn,
                     tn_etcd_answered *answered)
{
    tn_etcd_job_call(job, "/etcdserverpb.KV/Txn", &txn->base, &etcd__txn_response__descriptor,
                     answered);
}

tenure_ns tn_etcd_seconds(int64_t seconds)
{
    const int64_t most = INT64_MAX / TN_SEC(1) / 4;

    if (seconds < 0)
        return 0;
    return TN_SEC(seconds < most ? seconds : most);
}

void tn_etcd_job_answer(struct tn_etcd_job *job, enum tn_answer answer)
{
    job->req->answer = answer;
    tn_etcd_job_end(job);
}

void tn_etcd_job_measure(struct tn_etcd_job *job, int64_t lease, tn_etcd_answered *answered)
{
    Etcd__LeaseTimeToLiveRequest request = ETCD__LEASE_TIME_TO_LIVE_REQUEST__INIT;

    request.id = lease;
    tn_etcd_job_call(job, "/etcdserverpb.Lease/LeaseTimeToLive", &request.base,
                     &etcd__lease_time_to_live_response__descriptor, answered);
}

/* --- Sessions --------------------------------------------------------------------------------- */

/* Not negative, which some versions cannot store, and not 0, which asks for any. */
int64_t tn_etcd_lease_of(const struct tn_secret *hash)
{
    uint64_t id = 0;

    for (size_t i = 0; i < 8; i++)
        id = id << 8 | hash->bytes[i];
    id &= INT64_MAX;
    return id != 0 ? (int64_t)id : 1;
}

struct tn_etcd_session *tn_etcd_session_find(struct tn_etcd_store *store,
                                             const struct tn_secret *secret)
{
    return (struct tn_etcd_session *)tn_store_session_find(&store->base, secret);
}

struct tn_etcd_session *tn_etcd_session_get(struct tn_etcd_store *store,
                                            const struct tn_secret *secret)
{
    struct tn_etcd_session *session =
        (struct tn_etcd_session *)tn_store_session_keep(&store->base, secret);

    if (session != NULL && session->lease == 0) {
        session->lease = tn_etcd_lease_of(&session->base.hash);
        tn_etcd_line_init(session);
    }
    return session;
}

void tn_etcd_session_drop(struct tn_etcd_store *store, struct tn_etcd_session *session)
{
    if (session == NULL)
        return;
    tn_etcd_claims_free(store, session);
    for (struct tn_list_node *node = tn_list_first(&store->jobs); node != NULL;
         node = tn_list_next(&store->jobs, node))
        if (((struct tn_etcd_job *)node)->session == session)
            ((struct tn_etcd_job *)node)->session = NULL;
    tn_store_session_drop(&store->base, &session->base);
}

static void probed(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_job *job = arg;

    if (reply->status != 0) {
        tn_etcd_job_fail(job, reply);
        return;
    }
    job->store->permitted = true;
    tn_etcd_job_answer(job, TN_ANSWER_OK);
}

/* etcd grants a lease without checking permissions. So the first OPEN also sends a transaction
 * whose condition is never true: etcd checks the permission to write for it, and a client without
 * it fails at once. */
static void end_open(struct tn_etcd_job *job)
{
    Etcd__TxnRequest txn = ETCD__TXN_REQUEST__INIT;
    Etcd__Compare compare, *compares[1] = { &compare };
    Etcd__RequestOp op = ETCD__REQUEST_OP__INIT, *ops[1] = { &op };
    Etcd__PutRequest put = ETCD__PUT_REQUEST__INIT;
    char key[TN_ETCD_KEY];

    if (job->store->permitted) {
        tn_etcd_job_answer(job, TN_ANSWER_OK);
        return;
    }
    (void)snprintf(key, sizeof key, "%s%%token/", job->store->client.config.prefix);
    tn_etcd_compare(&compare, key, NULL, INT64_MAX);
    put.key.data = (uint8_t *)key;
    put.key.len = strlen(key);
    op.request_put = &put;
    txn.n_compare = txn.n_success = 1;
    txn.compare = compares;
    txn.success = ops;
    tn_etcd_job_txn(job, &txn, probed);
}

static void kept_alive(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_job *job = arg;
    struct tn_store_req *req = job->req;

    const Etcd__LeaseKeepAliveResponse *response = (const void *)reply->message;
    if (reply->status == 0 && response->id != tn_etcd_lease_of(&req->session_hash)) {
        struct tn_etcd_reply other = { .status = TENURE_E_TIMEOUT,
                                       .grpc = TN_GRPC_LOST,
                                       .text = "etcd: an answer belongs to another lease" };
        tn_stream_doubt(&job->store->client.stream, other.text);
        tn_etcd_job_fail(job, &other);
        return;
    }
    if (reply->status != 0) {
        tn_etcd_job_fail(job, reply);
        return;
    }
    if (response->ttl <= 0) {
        tn_etcd_session_drop(job->store, tn_etcd_session_find(job->store, &req->op.session));
        tn_etcd_job_answer(job, TN_ANSWER_GONE);
        return;
    }
    if (job->session != NULL && !tn_line_is_sure(&job->session->line)) {
        struct tn_etcd_reply unsure = {
            .status = TENURE_E_TIMEOUT,
            .text = "etcd: a watch was lost, so whether a lease was revoked is not known yet"
        };
        tn_etcd_job_fail(job, &unsure);
        return;
    }
    req->ttl = tn_etcd_seconds(response->ttl);
    req->held = job->session != NULL ? tn_line_held(&job->session->line) : 0;
    if (req->op.kind == TN_OP_OPEN)
        end_open(job);
    else
        tn_etcd_job_answer(job, TN_ANSWER_OK);
}

static void keep_alive(struct tn_etcd_job *job)
{
    job->rpc = tn_etcd_keepalive(&job->store->client, tn_etcd_lease_of(&job->req->session_hash),
                                 job->req->give_up_at, kept_alive, job);
    if (job->rpc == NULL)
        no_memory(job);
}

static void opened(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_job *job = arg;

    if (reply->grpc == TN_GRPC_FAILED_PRECONDITION && reply->status != 0) {
        keep_alive(job); /* It exists: an earlier attempt has arrived after all. */
        return;
    }
    if (reply->status != 0) {
        tn_etcd_job_fail(job, reply);
        return;
    }
    const Etcd__LeaseGrantResponse *response = (const void *)reply->message;
    job->req->ttl = tn_etcd_seconds(response->ttl);
    job->req->held = job->session != NULL ? tn_line_held(&job->session->line) : 0;
    end_open(job);
}

/* Whole seconds: a part of one is granted as a whole one, never cut off. */
static void open_session(struct tn_etcd_job *job)
{
    const struct tn_op *op = &job->req->op;
    Etcd__LeaseGrantRequest request = ETCD__LEASE_GRANT_REQUEST__INIT;
    struct tn_etcd_session *session = tn_etcd_session_get(job->store, &op->session);

    if (session == NULL) {
        no_memory(job);
        return;
    }
    session->label_len = op->label_len;
    if (op->label_len > 0)
        memcpy(session->label, op->label, op->label_len);
    session->seq = op->seq;
    job->session = session;
    request.id = session->lease;
    request.ttl = (op->ttl + TN_SEC(1) - 1) / TN_SEC(1);
    job->rpc =
        tn_etcd_call(&job->store->client, "/etcdserverpb.Lease/LeaseGrant", &request.base,
                     &etcd__lease_grant_response__descriptor, job->req->give_up_at, opened, job);
    if (job->rpc != NULL)
        tn_etcd_hurry(job->rpc);
    else
        no_memory(job);
}

static void end_lease(struct tn_etcd_job *job, int64_t lease, tn_etcd_answered *answered)
{
    Etcd__LeaseRevokeRequest request = ETCD__LEASE_REVOKE_REQUEST__INIT;

    request.id = lease;
    tn_etcd_job_call(job, "/etcdserverpb.Lease/LeaseRevoke", &request.base,
                     &etcd__lease_revoke_response__descriptor, answered);
}

static void closed_rest(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_job *job = arg;

    if (reply->status != 0 && reply->grpc != TN_GRPC_NOT_FOUND)
        tn_etcd_job_fail(job, reply);
    else
        tn_etcd_job_end(job);
}

/* What was revoked and not given back is under another lease; seldom anything. */
static void closed_session(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_job *job = arg;
    int64_t lease = tn_etcd_lease_of(&job->req->session_hash);

    if (reply->status != 0 && reply->grpc != TN_GRPC_NOT_FOUND) {
        tn_etcd_job_fail(job, reply);
        return;
    }
    tn_etcd_session_drop(job->store, tn_etcd_session_find(job->store, &job->req->op.session));
    job->req->answer = reply->status == 0 ? TN_ANSWER_OK : TN_ANSWER_GONE;
    end_lease(job, tn_etcd_hold_off_lease(lease), closed_rest);
}

static void close_session(struct tn_etcd_job *job)
{
    end_lease(job, tn_etcd_lease_of(&job->req->session_hash), closed_session);
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

static void carry_out(struct tn_etcd_store *store, struct tn_store_req *req)
{
    struct tn_etcd_job *job;

    tn_req_hash(req);
    if (is_overtaken(store, req)) {
        req->done(req);
        return;
    }
    if (req->op.kind == TN_OP_ACQUIRE || req->op.kind == TN_OP_RELEASE) {
        if (!tn_etcd_foreign_check(store, req))
            tn_etcd_claim_ask(store, req);
        return;
    }
    job = tn_etcd_job_new(store, req);
    if (job == NULL)
        return;
    job->session = tn_etcd_session_find(store, &req->op.session);
    if (req->op.kind == TN_OP_OPEN)
        open_session(job);
    else if (req->op.kind == TN_OP_RENEW)
        keep_alive(job);
    else if (req->op.kind == TN_OP_CLOSE)
        close_session(job);
    else
        tn_etcd_read(job);
}

/* What is there now; what that leads to is the next turn's. */
static void take_turn(struct tn_store *base)
{
    struct tn_etcd_store *store = (struct tn_etcd_store *)base;
    struct tn_req_list todo = store->todo;
    struct tn_store_req *req;

    store->todo = (struct tn_req_list) { 0 };
    while ((req = tn_req_take(&todo)) != NULL)
        carry_out(store, req);
    (void)tn_etcd_names_tick(store, 0);
    tn_etcd_flush(&store->client);
}

static void submit(struct tn_store *base, struct tn_store_req *req)
{
    tn_req_add(&((struct tn_etcd_store *)base)->todo, req);
    tn_store_kick(base);
}

/* --- The client ------------------------------------------------------------------------------- */

static void go_on(struct tn_etcd_store *store, tenure_ns now)
{
    bool waits = tn_etcd_claims_tick(store, now);

    waits = tn_etcd_names_tick(store, now) || waits;
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

static void client_closed(void *arg)
{
    tn_store_end(arg);
}

/* The client answers everything that is under way with CLOSED; then nothing is left but memory. */
static void shut(struct tn_store *base)
{
    struct tn_etcd_store *store = (struct tn_etcd_store *)base;

    tn_req_expire(&store->todo, TN_NEVER, TENURE_E_CLOSED, "the store is closed");
    tn_etcd_client_close(&store->client, client_closed);
    tn_etcd_claims_free(store, NULL);
    TN_ASSERT(tn_list_first(&store->jobs) == NULL);
}

static int open_store(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    struct tn_etcd_store *store = tn_store_new(sizeof *store, ops, how, reterr);
    bool tls = ops == &tn_etcds_store_ops;

    if (store == NULL)
        return TENURE_E_NOMEM;
    tn_list_init(&store->jobs);
    tn_list_init(&store->claims);
    store->client.clock = how->clock;
    store->client.patience = store->base.how.patience;
    store->client.ready = ready;
    store->client.ticked = ticked;
    store->client.arg = store;
    int rc = tn_etcd_client_init(&store->client, how->loop, how->rest, tls, reterr);
    if (rc < 0)
        return tn_store_discard(&store->base, rc, NULL, reterr);
    tn_etcd_client_start(&store->client);
    *ret_store = &store->base;
    return 0;
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
        .scheme = scheme_, .caps = TN_STORE_QUEUES | TN_STORE_TELLS | TN_STORE_RESUMES,           \
        .slack = 0, .ttl_min = TN_SEC(2), .ttl_max = TN_SEC(24 * 3600), .open = open_store,       \
        .submit = submit, .watch = tn_store_watch, .list = tn_store_list, .look = tn_store_look,  \
        .line = tn_store_line, .close = tn_store_close, .name_size = sizeof(struct tn_etcd_name), \
        .session_size = sizeof(struct tn_etcd_session), .turn = take_turn,                        \
        .watched = tn_etcd_watched, .ask = tn_etcd_ask, .shut = shut, .facts = tell_facts,        \
        .class_why = "a majority of the servers has what was acknowledged on its disks",          \
        .clock_why = "etcd tells no clock, and what is left of a lease in whole seconds",         \
        .forget = tn_store_forget, .life_step = TN_SEC(1),                                        \
        .restored = "restore with: etcdutl snapshot restore --bump-revision % --mark-compacted"   \
    }

const struct tn_store_ops tn_etcd_store_ops = OPS("etcd");
const struct tn_store_ops tn_etcds_store_ops = OPS("etcds");
