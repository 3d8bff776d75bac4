/* revoke.c - an operator takes a term away. core/line_revoke.h decides; here its steps are calls.
 *
 * Happy path: the TTL of the leader's lease; a second lease of that TTL; the holder's key moves to
 * it, and it is kept alive once. The key keeps its create revision, so it leads all the while. The
 * second lease's number comes from the first, so a session has one of them at most, and whoever
 * closes it finds it.
 * What can fail: any answer may be missing, and then the request fails. A lease that got no key
 * ends by itself. */
#include <string.h>

#include "stores/etcd/store.h"

/* Of a key that is bound to no lease. */
enum { TTL_OTHERWISE = 15 };

int64_t tn_etcd_hold_off_lease(int64_t lease)
{
    int64_t id = (lease ^ 0x686f6c646f6666) & INT64_MAX;

    return id != 0 ? id : 1;
}

static void take_step(struct tn_etcd_job *job);

/* The engine's answer to the step; @failed: it has none. */
static void went(struct tn_etcd_job *job, const struct tn_etcd_reply *reply, bool failed, bool yes)
{
    job->rpc = NULL;
    if (failed) {
        tn_etcd_job_fail(job, reply);
        return;
    }
    tn_line_revoke_went(&job->revoke.recipe, yes);
    take_step(job);
}

static void measured(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_job *job = arg;
    const Etcd__LeaseTimeToLiveResponse *response = (const void *)reply->message;
    bool failed = reply->status != 0;

    if (!failed)
        job->revoke.ttl = response->granted_ttl;
    went(job, reply, failed, !failed && response->ttl > 0 && response->granted_ttl > 0);
}

static void opened(void *arg, const struct tn_etcd_reply *reply)
{
    bool there = reply->status != 0 && reply->grpc == TN_GRPC_FAILED_PRECONDITION;

    went(arg, reply, reply->status != 0 && !there, !there);
}

static void kept(void *arg, const struct tn_etcd_reply *reply)
{
    const Etcd__LeaseKeepAliveResponse *response = (const void *)reply->message;
    bool failed = reply->status != 0;

    went(arg, reply, failed, !failed && response->ttl > 0);
}

static void moved(void *arg, const struct tn_etcd_reply *reply)
{
    const Etcd__TxnResponse *txn = (const void *)reply->message;
    bool failed = reply->status != 0;

    went(arg, reply, failed, !failed && txn->succeeded);
}

static void open_lease(struct tn_etcd_job *job)
{
    Etcd__LeaseGrantRequest request = ETCD__LEASE_GRANT_REQUEST__INIT;

    request.id = job->revoke.lease;
    request.ttl = job->revoke.ttl;
    tn_etcd_job_call(job, "/etcdserverpb.Lease/LeaseGrant", &request.base,
                     &etcd__lease_grant_response__descriptor, opened);
}

static void keep_lease(struct tn_etcd_job *job)
{
    job->rpc =
        tn_etcd_keepalive(&job->store->client, job->revoke.lease, job->req->give_up_at, kept, job);
    if (job->rpc != NULL)
        return;
    if (job->revoke.recipe.step == TN_LINE_REVOKE_KEEP) {
        tn_etcd_job_answer(job, TN_ANSWER_OK); /* Moved it is. */
        return;
    }
    tn_req_fail(job->req, TENURE_E_NOMEM, "out of memory");
    tn_etcd_job_end(job);
}

static void move(struct tn_etcd_job *job)
{
    Etcd__TxnRequest txn = ETCD__TXN_REQUEST__INIT;
    Etcd__Compare compare, *compares[1] = { &compare };
    Etcd__RequestOp op = ETCD__REQUEST_OP__INIT, *ops[1] = { &op };
    Etcd__PutRequest put = ETCD__PUT_REQUEST__INIT;

    tn_etcd_compare(&compare, job->revoke.key, NULL, job->revoke.created);
    put.key.data = (uint8_t *)job->revoke.key;
    put.key.len = strlen(job->revoke.key);
    put.lease = job->revoke.lease;
    put.ignore_value = true;
    op.request_put = &put;
    txn.n_compare = txn.n_success = 1;
    txn.compare = compares;
    txn.success = ops;
    tn_etcd_job_txn(job, &txn, moved);
}

static void take_step(struct tn_etcd_job *job)
{
    switch (job->revoke.recipe.step) {
    case TN_LINE_REVOKE_MEASURE:
        tn_etcd_job_measure(job, job->revoke.leader, measured);
        break;
    case TN_LINE_REVOKE_OPEN:
        open_lease(job);
        break;
    case TN_LINE_REVOKE_MOVE:
        move(job);
        break;
    case TN_LINE_REVOKE_RENEW:
    case TN_LINE_REVOKE_KEEP:
        keep_lease(job);
        break;
    case TN_LINE_REVOKE_DONE:
    case TN_LINE_REVOKE_STEPS:
        tn_etcd_job_answer(job, job->revoke.recipe.answer);
        break;
    }
}

void tn_etcd_revoke(struct tn_etcd_job *job, const Etcd__KeyValue *leader)
{
    struct tn_line_leader known = { .there = leader != NULL };

    if (leader != NULL && tn_etcd_foreign_name(leader) > 0) {
        tn_etcd_foreign_refuse(job->req);
        tn_etcd_job_end(job);
        return;
    }
    if (leader != NULL) {
        known.moved = tn_etcd_is_moved(leader);
        known.bound = leader->lease != 0;
        known.token = (uint64_t)leader->create_revision;
        job->revoke.leader = leader->lease;
        job->revoke.ttl = TTL_OTHERWISE;
        job->revoke.lease = tn_etcd_hold_off_lease(leader->lease);
        job->revoke.created = leader->create_revision;
        job->revoke.key = strndup((const char *)leader->key.data, leader->key.len);
        if (job->revoke.key == NULL) {
            tn_req_fail(job->req, TENURE_E_NOMEM, "out of memory");
            tn_etcd_job_end(job);
            return;
        }
    }
    tn_line_revoke_start(&job->revoke.recipe, &known, job->req->op.token);
    take_step(job);
}
