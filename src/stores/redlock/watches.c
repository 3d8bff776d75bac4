/* watches.c - the store redlock: who leads a name, by a majority, when a node tells of a change.
 *
 * A node tells only what it knows itself, so its word is a reason to read the name at all of them.
 * What was told already, from whichever node, is none; and few names are read at a time. So a
 * thousand names that change at once, or a node that comes back and tells all of them, cost a read
 * or two each, and no renewal waits behind a crowd of reads.
 *
 * A read may come between the votes for a term and their confirmation, which changes nothing that a
 * node tells of; or too few nodes answer. Then the name is read again after a rest. */
#include <stddef.h>
#include <string.h>

#include "stores/redlock/private.h"

enum { READS_MAX = 16 };

/* The first rest, which doubles, and the longest. */
#define REST_MIN TN_MS(50)
#define REST_MAX TN_SEC(2)

static void begin_due(struct tn_rl_store *store);

static void rest(struct tn_rl_store *store, struct tn_rl_name *name)
{
    name->rest = name->rest == 0 ? REST_MIN : name->rest < REST_MAX / 2 ? 2 * name->rest : REST_MAX;
    name->due_at = tn_rl_now(store) + name->rest;
    name->reading = TN_RL_RESTING;
    name->base.uses++;
    name->due_next = store->resting;
    store->resting = name;
}

static void end_rest(struct tn_rl_store *store, struct tn_rl_name *name)
{
    struct tn_rl_name **link = &store->resting;

    while (*link != name)
        link = &(*link)->due_next;
    *link = name->due_next;
    name->reading = TN_RL_AT_REST;
    name->base.uses--; /* Of the caller, who has one or takes one. */
}

/* At once, after the read that is under way, or when there are fewer of them. */
static void want_read(struct tn_rl_store *store, struct tn_rl_name *name)
{
    if (name->reading == TN_RL_READING)
        name->reading = TN_RL_READING_OLD;
    if (name->reading == TN_RL_RESTING)
        end_rest(store, name);
    if (name->reading != TN_RL_AT_REST)
        return;
    name->reading = TN_RL_DUE;
    name->base.uses++;
    name->due_next = NULL;
    *store->due_end = name;
    store->due_end = &name->due_next;
    begin_due(store);
}

static struct tn_rl_name *name_of_read(struct tn_store_req *req)
{
    return (struct tn_rl_name *)(void *)((char *)req - offsetof(struct tn_rl_name, read));
}

static void read_done(struct tn_store_req *req)
{
    struct tn_rl_name *name = name_of_read(req);
    struct tn_rl_store *store = name->store;
    bool again = name->reading == TN_RL_READING_OLD;
    struct tn_store_record record = req->record; /* The next read may begin at once. */
    bool good = req->status == 0;
    bool open = !good || name->unsure;

    store->reads--;
    name->reading = TN_RL_AT_REST;
    if (!open)
        name->rest = 0;
    if (again && name->base.watchers > 0 && !store->base.closing)
        want_read(store, name);
    else if (open && name->base.watchers > 0 && !store->base.closing)
        rest(store, name);
    if (good)
        tn_store_changed(&store->base, &name->base, &record);
    tn_store_name_drop(&store->base, &name->base);
    if (!store->base.closing)
        begin_due(store);
}

bool tn_rl_is_watch(const struct tn_store_req *req)
{
    return req->done == read_done;
}

void tn_rl_watch_unsure(struct tn_store_req *req)
{
    name_of_read(req)->unsure = true;
}

/* A name that begins to be read is not in the list any more, so look from the start again. */
void tn_rl_watches_tick(struct tn_rl_store *store)
{
    tenure_ns now = tn_rl_now(store);
    struct tn_rl_name *name = store->resting;

    while (name != NULL) {
        if (name->due_at > now) {
            name = name->due_next;
        } else {
            want_read(store, name);
            name = store->resting;
        }
    }
}

tenure_ns tn_rl_watches_wake_at(const struct tn_rl_store *store)
{
    tenure_ns at = TN_NEVER;

    for (const struct tn_rl_name *name = store->resting; name != NULL; name = name->due_next)
        at = name->due_at < at ? name->due_at : at;
    return at;
}

static struct tn_rl_name *take_due(struct tn_rl_store *store)
{
    struct tn_rl_name *name = store->due;

    store->due = name->due_next;
    if (store->due == NULL)
        store->due_end = &store->due;
    return name;
}

static void begin_due(struct tn_rl_store *store)
{
    while (store->due != NULL && store->reads < READS_MAX) {
        struct tn_rl_name *name = take_due(store);
        if (name->base.watchers == 0) { /* Nobody wants to know any more. */
            name->reading = TN_RL_AT_REST;
            tn_store_name_drop(&store->base, &name->base);
            continue;
        }
        name->reading = TN_RL_READING;
        name->unsure = false;
        store->reads++;
        tn_req_init(&name->read);
        name->read.op = (struct tn_op) { .kind = TN_OP_READ,
                                         .name = name->base.text,
                                         .name_len = (uint32_t)strlen(name->base.text) };
        name->read.done = read_done;
        tn_rl_submit(&store->base, &name->read);
    }
}

void tn_rl_hear_change(struct tn_rl_store *store, const char *text,
                       const struct tn_store_record *record)
{
    struct tn_rl_name *name =
        (struct tn_rl_name *)tn_store_name_find(&store->base, text, strlen(text));

    if (name != NULL && name->base.watchers > 0 &&
        (record == NULL || !tn_store_is_told(&name->base, record)))
        want_read(store, name);
}

int tn_rl_watched(struct tn_store *base, struct tn_store_name *named, bool on)
{
    struct tn_rl_store *store = (struct tn_rl_store *)base;

    ((struct tn_rl_name *)named)->store = store;
    for (unsigned i = 0; i < store->count; i++) {
        struct tn_store *redis = store->nodes[i].redis;
        if (redis->ops->watch(redis, named->text, on) < 0)
            return TENURE_E_NOMEM; /* Some of them tell all the same. */
    }
    return 0;
}
