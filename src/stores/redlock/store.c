/* store.c - the store redlock: its life, requests in, news of the servers; private.h has the idea.
 */
#include "core/plan.h"
#include "stores/redis/redis.h"
#include "stores/redlock/private.h"
#include "stores/redlock/redlock.h"

/* Whole milliseconds at a node, and a little more for what a wall clock does between two readings;
 * clocks that run at different rates are what rho is for. */
#define SLACK TN_MS(10)

/* --- News of the nodes ---------------------------------------------------------------------- */

static void node_granted(void *arg, const char *name, const struct tn_secret *hash, uint64_t token)
{
    struct tn_rl_node *node = arg;

    if (!node->store->base.closing)
        tn_rl_hear_vote(node->store, node->number, name, hash, token);
}

static void node_changed(void *arg, const char *name, const struct tn_store_record *record)
{
    struct tn_rl_node *node = arg;

    if (!node->store->base.closing)
        tn_rl_hear_change(node->store, name, record);
}

static void node_revoked(void *arg, const char *name, uint64_t token)
{
    struct tn_rl_node *node = arg;

    (void)token;
    if (!node->store->base.closing)
        tn_rl_hear_revoked(node->store, name);
}

/* --- Its life ------------------------------------------------------------------------------- */

static void node_closed(void *arg)
{
    struct tn_rl_store *store = arg;

    if (--store->open_nodes == 0)
        tn_store_end(&store->base);
}

static void hear_timer(uv_timer_t *timer)
{
    struct tn_rl_store *store = timer->data;

    if (!store->base.closing)
        tn_votes_tick(&store->votes, tn_rl_now(store));
    if (!store->base.closing)
        tn_rl_watches_tick(store);
    tn_store_kick(&store->base);
}

/* Once for all that came in a turn of the loop: it looks at every claim. */
static void take_turn(struct tn_store *base)
{
    struct tn_rl_store *store = (struct tn_rl_store *)base;
    tenure_ns votes = tn_votes_wake_at(&store->votes), watches = tn_rl_watches_wake_at(store);

    tn_store_wake_at(base, &store->timer, hear_timer, votes < watches ? votes : watches);
}

static void shut(struct tn_store *base)
{
    struct tn_rl_store *store = (struct tn_rl_store *)base;

    tn_votes_close(&store->votes);
    (void)uv_timer_stop(&store->timer);
    for (unsigned i = 0; i < store->count; i++)
        store->nodes[i].redis->ops->close(store->nodes[i].redis, node_closed, store);
}

static void free_store(struct tn_store *base)
{
    tn_rl_votes_done((struct tn_rl_store *)base);
}

static void tell_facts(const struct tn_store *base, struct tn_store_facts *ret_facts)
{
    const struct tn_rl_store *store = (const struct tn_rl_store *)base;

    /* Whoever has something to complain of, otherwise the last. */
    for (unsigned i = 0; i < store->count; i++) {
        const struct tn_store *redis = store->nodes[i].redis;
        redis->ops->facts(redis, ret_facts);
        if (ret_facts->warning[0] != '\0')
            return;
    }
}

/* A store of redis: for each; false: @reterr says why, and none is left. */
static int open_nodes(struct tn_rl_store *store, struct tn_text *reterr)
{
    static const struct tn_store_host host = { node_granted, node_changed, node_revoked };
    struct tn_rd_url url = store->url;
    int rc = 0;

    url.net.count = 1;
    for (unsigned i = 0; i < store->url.net.count && rc == 0; i++) {
        struct tn_rl_node *node = &store->nodes[i];
        struct tn_store_open how = store->base.how;
        node->store = store;
        node->number = i;
        how.host = &host;
        how.arg = node;
        /* So that what some nodes did not answer can still be told in time. */
        how.patience = how.patience / 2;
        url.net.endpoints[0] = store->url.net.endpoints[i];
        rc = tn_rd_open(&tn_redis_store_ops, &how, &url, true, &node->redis, reterr);
        if (rc == 0)
            store->count = i + 1;
    }
    for (unsigned i = 0; rc < 0 && i < store->count; i++)
        store->nodes[i].redis->ops->close(store->nodes[i].redis, NULL, NULL);
    return rc;
}

static int open_store(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    struct tn_rl_store *store = tn_store_new(sizeof *store, ops, how, reterr);

    if (store == NULL)
        return TENURE_E_NOMEM;
    store->due_end = &store->due;
    int rc = tn_rd_url_parse(ops->scheme, how->rest, &store->url, reterr);
    if (rc == 0)
        rc = open_nodes(store, reterr);
    if (rc < 0)
        return tn_store_discard(&store->base, rc, NULL, reterr);
    tn_rl_votes_init(store);
    store->open_nodes = store->count;
    (void)uv_timer_init(how->loop, &store->timer);
    tn_store_add_handle(&store->base, &store->timer);
    *ret_store = &store->base;
    return 0;
}

#define OPS(scheme_)                                                                             \
    {                                                                                            \
        .scheme = (scheme_),                                                                     \
        .caps = TN_STORE_QUEUES | TN_STORE_TELLS | TN_STORE_ADVISORY | TN_STORE_UNORDERED,       \
        .slack = SLACK, .ttl_min = TN_TTL_MIN, .ttl_max = TN_TTL_MAX, .open = open_store,        \
        .submit = tn_rl_submit, .watch = tn_store_watch, .list = tn_store_list,                  \
        .close = tn_store_close, .name_size = sizeof(struct tn_rl_name), .turn = take_turn,      \
        .watched = tn_rl_watched, .ask = tn_rl_ask, .shut = shut, .free = free_store,            \
        .facts = tell_facts,                                                                     \
        .class_why = "a server that restarts without its data votes twice, and all trust their " \
                     "wall clocks",                                                              \
        .clock_why = "each server has its own",                                                  \
        .restored = "raise the counter at every server: redis-cli SET {tenure}:token #"          \
    }

const struct tn_store_ops tn_redlock_store_ops = OPS("redlock");
const struct tn_store_ops tn_redlocks_store_ops = OPS("redlocks");
