/* names.c - who leads a name: reading and watching.
 *
 * A watched name is looked at once; then only its leader's key is watched, or, while nobody leads,
 * the name. Whatever happens there - also that nobody can tell any more - leads to another look, so
 * there is one way to learn the truth. */
#include <string.h>

#include "stores/etcd/store.h"

#define LOOK_AGAIN TN_MS(250)

/* --- Names ------------------------------------------------------------------------------------ */

static void watch_fired(struct tn_etcd_watch *watch)
{
    tn_etcd_name_look(watch->arg);
}

static void set_up(struct tn_etcd_name *name, struct tn_etcd_store *store)
{
    if (name->store != NULL)
        return;
    name->store = store;
    tn_list_init(&name->claims);
    name->look_at = TN_NEVER;
    name->watch.fired = watch_fired;
    name->watch.arg = name;
}

struct tn_etcd_name *tn_etcd_name_find(struct tn_etcd_store *store, const char *text, size_t len)
{
    return (struct tn_etcd_name *)tn_store_name_find(&store->base, text, len);
}

struct tn_etcd_name *tn_etcd_name_use(struct tn_etcd_store *store, const char *text, size_t len)
{
    struct tn_etcd_name *name = (struct tn_etcd_name *)tn_store_name_use(&store->base, text, len);

    if (name != NULL)
        set_up(name, store);
    return name;
}

void tn_etcd_fill(struct tn_etcd_name *name, const Etcd__KeyValue *leader, uint64_t last,
                  struct tn_store_record *ret_record)
{
    if (leader != NULL) {
        tn_etcd_record(leader, ret_record);
        last = ret_record->token;
    }
    if (name != NULL && last > name->last_token)
        name->last_token = last;
    if (leader == NULL)
        *ret_record = (struct tn_store_record) { .token = name != NULL && name->last_token > last
                                                              ? name->last_token
                                                              : last };
}

/* --- Looking ---------------------------------------------------------------------------------- */

/* The reads that tell who leads: leader first, then the last token; then another program's leader
 * and marks, where the name could be its. */
struct etcd_look {
    struct tn_etcd_keys keys;
    struct tn_etcd_foreign foreign;
    Etcd__RangeRequest leader, last;
    Etcd__RequestOp ops[4];
    Etcd__RequestOp *list[4];
    Etcd__TxnRequest txn;
};

static void make_look(struct etcd_look *look, const struct tn_etcd_store *store, const char *name,
                      bool crowded)
{
    tn_etcd_keys(&look->keys, store, name, 0);
    tn_etcd_range(&look->leader, &look->keys, true, crowded ? 0 : 1, 0);
    tn_etcd_get(&look->last, look->keys.last);
    Etcd__RangeRequest *ranges[] = { &look->leader, &look->last, &look->foreign.leader,
                                     &look->foreign.marks };
    for (size_t i = 0; i < 4; i++) {
        look->ops[i] = (Etcd__RequestOp)ETCD__REQUEST_OP__INIT;
        look->ops[i].request_range = ranges[i];
        look->list[i] = &look->ops[i];
    }
    look->txn = (Etcd__TxnRequest)ETCD__TXN_REQUEST__INIT;
    look->txn.n_success = tn_etcd_foreign_make(&look->foreign, store, name) ? 4 : 2;
    look->txn.success = look->list;
}

/* Another program may write a new value into the leader's key: the label, and nothing else. */
static bool is_relabelled(const struct tn_etcd_name *name, const struct tn_store_record *record)
{
    const struct tn_store_record *told = name->base.told;

    return told != NULL && (told->label_len != record->label_len ||
                            memcmp(told->label, record->label, told->label_len) != 0);
}

/* Of a leader its end, and whatever another program does to its key; of a vacant name all, and the
 * key of that name, too. */
static int watch_leader(struct tn_etcd_name *name, const Etcd__KeyValue *leader, int64_t revision)
{
    struct tn_etcd_client *client = &name->store->client;
    struct tn_etcd_foreign foreign;
    struct tn_etcd_keys keys;
    char key[TN_ETCD_KEY];

    if (leader != NULL) {
        tn_etcd_candidate_key(leader, key);
        return tn_etcd_watch_start(client, &name->watch, key, false,
                                   tn_etcd_foreign_name(leader) == 0, revision);
    }
    tn_etcd_keys(&keys, name->store, name->base.text, 0);
    if (tn_etcd_foreign_make(&foreign, name->store, name->base.text))
        keys.base[strlen(keys.base) - 1] = '\0';
    return tn_etcd_watch_start(client, &name->watch, keys.base, true, false, revision);
}

static void put_off(struct tn_etcd_name *name)
{
    name->look_at = tn_etcd_now(name->store) + LOOK_AGAIN;
    tn_etcd_client_wake(&name->store->client);
}

static void looked(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_name *name = arg;
    struct tn_etcd_store *store = name->store;
    const Etcd__TxnResponse *txn = (const void *)reply->message;
    struct tn_etcd_keys keys;
    struct tn_store_record record;
    bool crowded = false;

    name->look = NULL;
    if (reply->status == TENURE_E_CLOSED || name->base.watchers == 0)
        return;
    if (reply->status != 0) {
        put_off(name);
        return;
    }
    tn_etcd_keys(&keys, store, name->base.text, 0);
    const Etcd__KeyValue *leader = tn_etcd_first(&keys, tn_etcd_answer(txn, 0), &crowded);
    if (crowded && !name->crowded) {
        name->crowded = true;
        tn_etcd_name_look(name);
        return;
    }
    tn_etcd_claim_adopt(store, name->base.text, leader, txn->header->revision);
    if (leader == NULL)
        leader = tn_etcd_foreign_leader(txn);
    tn_etcd_fill(name, leader, tn_etcd_last(tn_etcd_answer(txn, 1)), &record);
    if (watch_leader(name, leader, txn->header->revision + 1) < 0)
        put_off(name);
    if (is_relabelled(name, &record))
        tn_store_forget_told(&name->base);
    tn_store_changed(&store->base, &name->base, &record);
}

void tn_etcd_name_look(struct tn_etcd_name *name)
{
    struct etcd_look look;

    name->look_at = TN_NEVER;
    if (name->look != NULL || name->base.watchers == 0 || name->store->base.closing)
        return;
    make_look(&look, name->store, name->base.text, name->crowded);
    name->look =
        tn_etcd_txn(&name->store->client, &look.txn,
                    tn_etcd_now(name->store) + name->store->base.how.patience, looked, name);
    if (name->look == NULL)
        put_off(name);
}

int tn_etcd_watched(struct tn_store *base, struct tn_store_name *named, bool on)
{
    struct tn_etcd_name *name = (struct tn_etcd_name *)named;

    set_up(name, (struct tn_etcd_store *)base);
    name->look_at = on ? 0 : TN_NEVER; /* With the next turn. */
    if (!on) {
        tn_etcd_watch_stop(&name->watch);
        tn_etcd_cancel(name->look);
        name->look = NULL;
    }
    tn_store_kick(base);
    return 0;
}

bool tn_etcd_names_tick(struct tn_etcd_store *store, tenure_ns now)
{
    bool waits = false;

    for (struct tn_store_name *at = NULL; (at = tn_store_name_next(&store->base, at)) != NULL;) {
        struct tn_etcd_name *name = (struct tn_etcd_name *)at;
        if (name->look_at <= now)
            tn_etcd_name_look(name);
        waits = waits || name->look_at != TN_NEVER;
    }
    return waits;
}

/* --- Reading ---------------------------------------------------------------------------------- */

static void got_ttl(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_job *job = arg;

    /* Not knowing it is no failure; a lease that has ended since has nothing left. */
    if (reply->status == 0) {
        const Etcd__LeaseTimeToLiveResponse *response = (const void *)reply->message;
        job->req->record.ttl = tn_etcd_seconds(response->granted_ttl);
        job->req->record.remaining = tn_etcd_seconds(response->ttl);
    }
    tn_etcd_job_end(job);
}

void tn_etcd_add_ttl(struct tn_etcd_job *job, int64_t lease)
{
    if (lease == 0)
        tn_etcd_job_end(job);
    else
        tn_etcd_job_measure(job, lease, got_ttl);
}

static void got_record(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_job *job = arg;
    struct tn_store_req *req = job->req;
    const Etcd__TxnResponse *txn = (const void *)reply->message;
    struct tn_etcd_keys keys;
    bool crowded = false;

    if (reply->status != 0) {
        tn_etcd_job_fail(job, reply);
        return;
    }
    tn_etcd_keys(&keys, job->store, req->op.name, 0);
    const Etcd__KeyValue *leader = tn_etcd_first(&keys, tn_etcd_answer(txn, 0), &crowded);
    if (crowded && job->tries++ == 0) {
        tn_etcd_read(job);
        return;
    }
    tn_etcd_claim_adopt(job->store, req->op.name, leader, txn->header->revision);
    if (leader == NULL)
        leader = tn_etcd_foreign_leader(txn);
    tn_etcd_fill(tn_etcd_name_find(job->store, req->op.name, req->op.name_len), leader,
                 tn_etcd_last(tn_etcd_answer(txn, 1)), &req->record);
    if (req->op.kind == TN_OP_REVOKE) {
        job->rpc = NULL;
        tn_etcd_revoke(job, leader);
        return;
    }
    req->answer = leader != NULL ? TN_ANSWER_HELD : TN_ANSWER_FREE;
    tn_etcd_add_ttl(job, leader != NULL ? leader->lease : 0);
}

void tn_etcd_look_for(struct tn_etcd_job *job, tn_etcd_answered *answered)
{
    struct etcd_look look;

    make_look(&look, job->store, job->req->op.name, job->tries > 0);
    tn_etcd_job_txn(job, &look.txn, answered);
}

void tn_etcd_read(struct tn_etcd_job *job)
{
    tn_etcd_look_for(job, got_record);
}
