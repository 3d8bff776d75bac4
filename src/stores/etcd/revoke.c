/* revoke.c - an operator takes a term away: the holder is told, and held off for a TTL.
 *
 * Happy path: who leads; its lease's TTL; a second lease of that TTL, which nobody will keep alive;
 * the holder's key is moved to it, and it is kept alive once, so that it counts from after the
 * move. The holder hears of the move by the watch on its own key, and gives the key back. Otherwise
 * etcd deletes it with the lease: no process needs to be there for it. The key keeps its create
 * revision, so it leads all the while. The second lease's number comes from the first, so a session
 * has one of them at most, and whoever closes it finds it.
 * What can fail: the answer to the move may be missing. Who asks again finds the key moved, and
 * that is the answer. A lease that got no key ends by itself.
 *
 * P1: a renewal that was sent before the move runs out before the second lease does. One that is
 * sent after it says nothing of the move: that the watch tells it in less than a TTL, on the
 * connection that carries the renewals, is what etcd leaves to trust. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stores/etcd/store.h"

/* Of a key that is bound to no lease. */
enum { TTL_OTHERWISE = 15 };

static void grant(struct tn_etcd_job *job);

int64_t tn_etcd_hold_off_lease(int64_t lease)
{
    int64_t id = (lease ^ 0x686f6c646f6666) & INT64_MAX;

    return id != 0 ? id : 1;
}

static void held_off(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_job *job = arg;

    job->rpc = NULL;
    if (reply->status != 0)
        tn_etcd_job_fail(job, reply);
    else
        tn_etcd_job_answer(job, TN_ANSWER_OK);
}

static void moved(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_job *job = arg;
    const Etcd__TxnResponse *txn = (const void *)reply->message;

    job->rpc = NULL;
    if (reply->status != 0) {
        tn_etcd_job_fail(job, reply);
    } else if (!txn->succeeded) {
        tn_etcd_job_answer(job, TN_ANSWER_STALE); /* It was given back meanwhile. */
    } else {
        job->rpc = tn_etcd_keepalive(&job->store->client, job->revoke.lease, job->req->give_up_at,
                                     held_off, job);
        if (job->rpc == NULL)
            tn_etcd_job_answer(job, TN_ANSWER_OK); /* Moved it is. */
    }
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

/* Another name of the session was revoked earlier, so the second lease may have little left. It
 * counts anew before the key moves to it: if this process dies behind the move, the key still
 * outlasts every renewal that was sent before. */
static void renewed(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_job *job = arg;
    const Etcd__LeaseKeepAliveResponse *response = (const void *)reply->message;

    job->rpc = NULL;
    if (reply->status != 0)
        tn_etcd_job_fail(job, reply);
    else if (response->ttl <= 0)
        grant(job); /* It has just ended. */
    else
        move(job);
}

static void granted(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_job *job = arg;

    job->rpc = NULL;
    if (reply->status == 0) {
        move(job);
    } else if (reply->grpc != TN_GRPC_FAILED_PRECONDITION) {
        tn_etcd_job_fail(job, reply);
    } else { /* There is one already. */
        job->rpc = tn_etcd_keepalive(&job->store->client, job->revoke.lease, job->req->give_up_at,
                                     renewed, job);
        if (job->rpc == NULL) {
            tn_req_fail(job->req, TENURE_E_NOMEM, "out of memory");
            tn_etcd_job_end(job);
        }
    }
}

static void grant(struct tn_etcd_job *job)
{
    Etcd__LeaseGrantRequest request = ETCD__LEASE_GRANT_REQUEST__INIT;

    request.id = job->revoke.lease;
    request.ttl = job->revoke.ttl;
    tn_etcd_job_call(job, "/etcdserverpb.Lease/LeaseGrant", &request.base,
                     &etcd__lease_grant_response__descriptor, granted);
}

static void measured(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_job *job = arg;
    const Etcd__LeaseTimeToLiveResponse *response = (const void *)reply->message;

    job->rpc = NULL;
    if (reply->status != 0) {
        tn_etcd_job_fail(job, reply);
    } else if (response->ttl <= 0 || response->granted_ttl <= 0) {
        tn_etcd_job_answer(job, TN_ANSWER_STALE); /* It has just ended by itself. */
    } else {
        job->revoke.ttl = response->granted_ttl;
        grant(job);
    }
}

void tn_etcd_revoke(struct tn_etcd_job *job, const Etcd__KeyValue *leader)
{
    uint64_t token = job->req->op.token;

    if (leader != NULL && tn_etcd_foreign_name(leader) > 0) {
        tn_etcd_foreign_refuse(job->req);
        tn_etcd_job_end(job);
        return;
    }
    if (leader == NULL || (token != 0 && token != (uint64_t)leader->create_revision)) {
        tn_etcd_job_answer(job, TN_ANSWER_STALE);
        return;
    }
    job->revoke.key = strndup((const char *)leader->key.data, leader->key.len);
    if (job->revoke.key == NULL) {
        tn_req_fail(job->req, TENURE_E_NOMEM, "out of memory");
        tn_etcd_job_end(job);
        return;
    }
    job->revoke.created = leader->create_revision;
    job->revoke.lease = tn_etcd_hold_off_lease(leader->lease);
    if (leader->lease == 0) {
        job->revoke.ttl = TTL_OTHERWISE;
        grant(job);
    } else if (tn_etcd_is_moved(leader)) {
        tn_etcd_job_answer(job, TN_ANSWER_OK); /* Said before. */
    } else {
        tn_etcd_job_measure(job, leader->lease, measured);
    }
}
