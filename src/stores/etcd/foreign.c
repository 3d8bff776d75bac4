/* foreign.c - leaders that other programs elect in layouts of their own: to be seen, not joined.
 *
 *   .../SCOPE/leader                 Patroni: one leased key, the value is the member's name. Its
 *                                    create revision rises with every leader and is the token.
 *   ROOT/elections/NAME/locks/LEASE  Vitess: LEASE in decimal, the value is the candidate's id. The
 *                                    lowest mod revision leads; a key is written once, so its
 *                                    create revision is the same number and is the token.
 *
 * A name of such a form may as well be one of ours: what tells is the key, and, while nobody leads,
 * what the other program always keeps beside it. Nobody may campaign there: its own candidates
 * would not see ours. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stores/etcd/store.h"

static const char leader_part[] = "leader", elections_part[] = "elections/", locks_part[] = "locks";

/* The last part of @path begins at @at, and is @part. */
static bool is_part(const char *path, size_t at, size_t len, const char *part)
{
    return len - at == strlen(part) && memcmp(path + at, part, len - at) == 0;
}

/* Where the last part of a path begins. */
static size_t last_part(const char *path, size_t len)
{
    while (len > 0 && path[len - 1] != '/')
        len--;
    return len;
}

/* Where ROOT ends in ROOT/elections/NAME; SIZE_MAX: the path has another form. */
static size_t end_of_root(const char *path, size_t len)
{
    size_t name = last_part(path, len), skip = strlen(elections_part);

    if (name < skip || memcmp(path + name - skip, elections_part, skip) != 0 ||
        (name > skip && path[name - skip - 1] != '/'))
        return SIZE_MAX;
    return name - skip;
}

/* One key, or with @end all that begin with it, the oldest alone. */
static void make_range(Etcd__RangeRequest *ret_range, const char *key, char *end)
{
    if (end == NULL) {
        tn_etcd_get(ret_range, key);
        return;
    }
    tn_etcd_get_all(ret_range, key, end);
    ret_range->limit = 1;
    ret_range->sort_order = 1;
    ret_range->sort_target = 3; /* The mod revision. */
}

bool tn_etcd_foreign_make(struct tn_etcd_foreign *ret_foreign, const struct tn_etcd_store *store,
                          const char *name)
{
    char path[TN_ETCD_KEY - 16]; /* Prefix and name are shorter; so is what comes behind them. */

    int printed = snprintf(path, sizeof path, "%s%s", store->client.config.prefix, name);
    size_t len = (size_t)printed, last = last_part(path, len), root = end_of_root(path, len);
    if (is_part(path, last, len, leader_part)) {
        (void)snprintf(ret_foreign->key, TN_ETCD_KEY, "%s", path);
        (void)snprintf(ret_foreign->mark, TN_ETCD_KEY, "%.*sinitialize", (int)last, path);
        make_range(&ret_foreign->leader, ret_foreign->key, NULL);
        make_range(&ret_foreign->marks, ret_foreign->mark, NULL);
        return true;
    }
    if (root == SIZE_MAX)
        return false;
    (void)snprintf(ret_foreign->key, TN_ETCD_KEY, "%s/%s/", path, locks_part);
    (void)snprintf(ret_foreign->mark, TN_ETCD_KEY, "%.*scells/", (int)root, path);
    make_range(&ret_foreign->leader, ret_foreign->key, ret_foreign->end);
    make_range(&ret_foreign->marks, ret_foreign->mark, ret_foreign->mark_end);
    return true;
}

size_t tn_etcd_foreign_name(const Etcd__KeyValue *kv)
{
    const char *key = (const char *)kv->key.data;
    size_t len = kv->key.len, last = last_part(key, len);
    char lease[24];

    if (kv->lease == 0 || len == 0)
        return 0;
    if (is_part(key, last, len, leader_part))
        return len;
    (void)snprintf(lease, sizeof lease, "%" PRId64, kv->lease);
    if (last == 0 || !is_part(key, last, len, lease))
        return 0;
    size_t locks = last_part(key, last - 1);
    if (locks == 0 || !is_part(key, locks, last - 1, locks_part))
        return 0;
    return end_of_root(key, locks - 1) != SIZE_MAX ? locks - 1 : 0;
}

const Etcd__KeyValue *tn_etcd_foreign_leader(const Etcd__TxnResponse *txn)
{
    const Etcd__RangeResponse *range = tn_etcd_answer(txn, TN_ETCD_FOREIGN_AT);

    if (range == NULL || range->n_kvs == 0 || tn_etcd_foreign_name(range->kvs[0]) == 0)
        return NULL;
    return range->kvs[0];
}

/* --- Acquire ---------------------------------------------------------------------------------- */

void tn_etcd_foreign_refuse(struct tn_store_req *req)
{
    char why[TN_ERROR_TEXT];

    (void)snprintf(why, sizeof why,
                   "etcd: %.200s is led by another program, in its own layout; status, watch and "
                   "list show its leader, nobody else can campaign there",
                   req->op.name);
    tn_req_fail(req, TENURE_E_DENIED, why);
}

static void checked(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_job *job = arg;
    const Etcd__TxnResponse *txn = (const void *)reply->message;
    const Etcd__RangeResponse *marks;

    job->rpc = NULL;
    if (reply->status != 0) {
        tn_etcd_job_fail(job, reply);
        return;
    }
    marks = tn_etcd_answer(txn, TN_ETCD_FOREIGN_AT + 1);
    if (tn_etcd_foreign_leader(txn) != NULL || (marks != NULL && marks->n_kvs > 0)) {
        tn_etcd_foreign_refuse(job->req);
        tn_etcd_job_end(job);
        return;
    }
    tn_etcd_claim_ask(job->store, tn_etcd_job_take(job));
}

bool tn_etcd_foreign_check(struct tn_etcd_store *store, struct tn_store_req *req)
{
    struct tn_etcd_foreign foreign;
    struct tn_etcd_job *job;

    if (req->op.kind != TN_OP_ACQUIRE || !tn_etcd_foreign_make(&foreign, store, req->op.name))
        return false;
    job = tn_etcd_job_new(store, req);
    if (job != NULL)
        tn_etcd_look_for(job, checked);
    return true;
}
