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

static void end_with(struct tn_etcd_task *task, enum tn_answer answer)
{
    task->req->answer = answer;
    tn_etcd_task_end(task);
}

int64_t tn_etcd_hold_off_lease(int64_t lease)
{
    int64_t id = (lease ^ 0x686f6c646f6666) & INT64_MAX;

    return id != 0 ? id : 1;
}

static void held_off(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;

    task->rpc = NULL;
    if (reply->status != 0)
        tn_etcd_task_fail(task, reply);
    else
        end_with(task, TN_ANSWER_OK);
}

static void moved(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;
    const Etcd__TxnResponse *txn = (const void *)reply->message;

    task->rpc = NULL;
    if (reply->status != 0) {
        tn_etcd_task_fail(task, reply);
    } else if (!txn->succeeded) {
        end_with(task, TN_ANSWER_STALE); /* It was given back meanwhile. */
    } else {
        task->rpc =
            tn_etcd_keepalive(&task->store->client, task->lease, task->give_up_at, held_off, task);
        if (task->rpc == NULL)
            end_with(task, TN_ANSWER_OK); /* Moved it is. */
    }
}

static void move(struct tn_etcd_task *task)
{
    Etcd__TxnRequest txn = ETCD__TXN_REQUEST__INIT;
    Etcd__Compare compare, *compares[1] = { &compare };
    Etcd__RequestOp op = ETCD__REQUEST_OP__INIT, *ops[1] = { &op };
    Etcd__PutRequest put = ETCD__PUT_REQUEST__INIT;

    tn_etcd_compare(&compare, task->key, NULL, task->created);
    put.key.data = (uint8_t *)task->key;
    put.key.len = strlen(task->key);
    put.lease = task->lease;
    put.ignore_value = true;
    op.request_put = &put;
    txn.n_compare = txn.n_success = 1;
    txn.compare = compares;
    txn.success = ops;
    tn_etcd_task_txn(task, &txn, moved);
}

static void granted(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;
    bool exists = reply->grpc == TN_GRPC_FAILED_PRECONDITION; /* Another name was revoked, too. */

    task->rpc = NULL;
    if (reply->status != 0 && !exists)
        tn_etcd_task_fail(task, reply);
    else
        move(task);
}

static void grant(struct tn_etcd_task *task, int64_t ttl)
{
    Etcd__LeaseGrantRequest request = ETCD__LEASE_GRANT_REQUEST__INIT;

    request.id = task->lease;
    request.ttl = ttl;
    tn_etcd_task_call(task, "/etcdserverpb.Lease/LeaseGrant", &request.base,
                      &etcd__lease_grant_response__descriptor, granted);
}

static void measured(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_task *task = arg;
    const Etcd__LeaseTimeToLiveResponse *response = (const void *)reply->message;

    task->rpc = NULL;
    if (reply->status != 0)
        tn_etcd_task_fail(task, reply);
    else if (response->ttl <= 0 || response->granted_ttl <= 0)
        end_with(task, TN_ANSWER_STALE); /* It has just ended by itself. */
    else
        grant(task, response->granted_ttl);
}

void tn_etcd_revoke(struct tn_etcd_task *task, const Etcd__KeyValue *leader)
{
    Etcd__LeaseTimeToLiveRequest request = ETCD__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    uint64_t token = task->req->op.token;

    if (leader == NULL || (token != 0 && token != (uint64_t)leader->create_revision)) {
        end_with(task, TN_ANSWER_STALE);
        return;
    }
    task->key = strndup((const char *)leader->key.data, leader->key.len);
    if (task->key == NULL) {
        tn_req_fail(task->req, TENURE_E_NOMEM, "out of memory");
        tn_etcd_task_end(task);
        return;
    }
    task->created = leader->create_revision;
    task->lease = tn_etcd_hold_off_lease(leader->lease);
    if (leader->lease == 0) {
        grant(task, TTL_OTHERWISE);
    } else if (tn_etcd_is_moved(leader)) {
        end_with(task, TN_ANSWER_OK); /* Said before. */
    } else {
        request.id = leader->lease;
        tn_etcd_task_call(task, "/etcdserverpb.Lease/LeaseTimeToLive", &request.base,
                          &etcd__lease_time_to_live_response__descriptor, measured);
    }
}
