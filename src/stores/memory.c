/* memory.c - the lease table in process, shared by all stores with one name; memory.h.
 *
 * One mutex guards every table: a step takes a microsecond. Under it a step's notices are put into
 * the inboxes of those whom they concern; each store empties its own on its own loop, woken by a
 * uv_async. Around every request the order is: step, news up to then, answer; so a revocation comes
 * before the renewal that tells of it, and a grant after the QUEUED that it follows.
 * What can fail: memory. Then news is lost, which the contract allows, or the request fails. */
#define _GNU_SOURCE
#include "stores/memory.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/sha256.h"
#include "base/time.h"
#include "core/plan.h"
#include "runtime/random.h"
#include "runtime/store_frame.h"
#include "runtime/timer.h"

enum { TURN_MAX = 256, BUCKETS = 256 };

/* One table. Guarded by @guard, as is the list of them. */
struct place {
    struct place *next;
    struct tn_table *table;
    struct memory_store *stores;
    tenure_ns now;
    char name[TN_NAME_MAX + 1];
};

struct own {
    struct own *next;
    struct tn_secret session;
};

struct watch {
    struct watch *next;
    unsigned count;
    bool told;
    char name[TN_NAME_MAX + 1];
};

struct news {
    struct news *next;
    enum tn_notice_kind kind;
    uint64_t token;
    struct tn_secret term; /* Hashed. */
    struct tn_store_record record;
    char name[TN_NAME_MAX + 1];
};

struct memory_store {
    struct tn_store base;
    struct place *place;
    struct memory_store *next; /* In the place. Guarded, as the three below. */
    struct own *owns;          /* Sessions opened, or waiting, through this store. */
    struct watch *watches[BUCKETS];
    struct news *inbox, **inbox_end;
    struct tn_req_list queue;
    struct tn_store_query *lists;
    uint64_t latency_ms;
    uv_idle_t idle;
    uv_timer_t later;
    uv_async_t wake;
    uv_poll_t alarm;
    int timer;
    unsigned open_handles;
    bool unread; /* A watch whose name was not read yet. */
};

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct place *places;

static void enter(void)
{
    int rc = pthread_mutex_lock(&guard);
    TN_ASSERT(rc == 0);
}

static void leave(void)
{
    int rc = pthread_mutex_unlock(&guard);
    TN_ASSERT(rc == 0);
}

/* --- News ----------------------------------------------------------------------------------- */

static void read_record(const struct tn_table *table, uint32_t lease,
                        struct tn_store_record *ret_record)
{
    struct tn_lease_view view;
    struct tn_store_record record = { 0 };

    tn_table_lease(table, lease, &view);
    record.token = view.token;
    record.held = view.session != NULL;
    if (record.held) {
        record.revoked = view.revoked;
        record.beat = view.beat;
        record.ttl = view.ttl;
        record.remaining = view.remaining;
        record.label_len = view.label_len;
        memcpy(record.label, view.label, view.label_len);
        tn_secret_hash(view.term, 't', &record.term);
    }
    *ret_record = record;
}

static struct watch **find_watch(struct memory_store *store, const char *name, size_t len)
{
    const struct tn_hash_key key = { 0, 0 };
    struct watch **link = &store->watches[tn_hash(key, name, len) % BUCKETS];

    while (*link != NULL && (strlen((*link)->name) != len || memcmp((*link)->name, name, len) != 0))
        link = &(*link)->next;
    return link;
}

static bool is_own(const struct memory_store *store, const struct tn_secret *session)
{
    for (const struct own *own = store->owns; own != NULL; own = own->next) {
        if (tn_secret_equal(&own->session, session))
            return true;
    }
    return false;
}

/* Put one notice into one inbox; without memory it is lost. */
static void post(struct memory_store *store, const struct tn_notice *notice)
{
    struct tn_lease_view view;
    struct news *news = calloc(1, sizeof *news);

    if (news == NULL)
        return;
    tn_table_lease(store->place->table, notice->lease, &view);
    news->kind = notice->kind;
    news->token = notice->token;
    tn_secret_hash(&notice->term, 't', &news->term);
    memcpy(news->name, view.name, view.name_len);
    read_record(store->place->table, notice->lease, &news->record);
    *store->inbox_end = news;
    store->inbox_end = &news->next;
    (void)uv_async_send(&store->wake);
}

static void post_all(struct place *place, const struct tn_result *result)
{
    struct tn_lease_view view;

    for (uint32_t i = 0; i < result->count; i++) {
        const struct tn_notice *notice = &result->list[i];
        tn_table_lease(place->table, notice->lease, &view);
        for (struct memory_store *store = place->stores; store != NULL; store = store->next) {
            bool concerned = notice->kind == TN_NOTICE_CHANGED
                                 ? *find_watch(store, view.name, view.name_len) != NULL
                                 : is_own(store, &notice->session);
            if (concerned)
                post(store, notice);
        }
    }
}

static void tell(struct memory_store *store, const struct news *news)
{
    const struct tn_store_open *how = &store->base.how;

    if (news->kind == TN_NOTICE_GRANTED)
        how->host->granted(how->arg, news->name, &news->term, news->token);
    else if (news->kind == TN_NOTICE_REVOKED)
        how->host->revoked(how->arg, news->name, news->token);
    else
        how->host->changed(how->arg, news->name, &news->record);
}

static void empty_inbox(struct memory_store *store)
{
    enter();
    struct news *news = store->inbox;
    store->inbox = NULL;
    store->inbox_end = &store->inbox;
    leave();
    while (news != NULL) {
        struct news *next = news->next;
        if (!store->base.closing)
            tell(store, news);
        free(news);
        news = next;
    }
}

/* --- Steps ---------------------------------------------------------------------------------- */

/* The table's time does not go back, whatever the clocks of its stores are. */
static void step(struct memory_store *store, const struct tn_op *op, struct tn_result *ret_result)
{
    struct place *place = store->place;
    tenure_ns now = tn_clock_now(store->base.how.clock);

    if (now > place->now)
        place->now = now;
    tn_table_step(place->table, place->now, op, ret_result);
    post_all(place, ret_result);
}

static void work_off(struct memory_store *store)
{
    const struct tn_op tick = { .kind = TN_OP_TICK };
    struct tn_result result;

    do
        step(store, &tick, &result);
    while (tn_table_wake_at(store->place->table) <= store->place->now);
}

static void arm(struct memory_store *store)
{
    enter();
    tenure_ns wake = tn_table_wake_at(store->place->table);
    leave();
    tn_timer_arm(store->timer, wake);
}

/* Before the step, so that its own notices find it. False: out of memory. */
static bool note_own(struct memory_store *store, const struct tn_op *op)
{
    if (op->kind != TN_OP_OPEN && !(op->kind == TN_OP_ACQUIRE && op->wait))
        return true;
    if (is_own(store, &op->session))
        return true;
    struct own *own = calloc(1, sizeof *own);
    if (own == NULL)
        return false;
    own->session = op->session;
    own->next = store->owns;
    store->owns = own;
    return true;
}

static void drop_own(struct memory_store *store, const struct tn_secret *session)
{
    for (struct own **link = &store->owns; *link != NULL; link = &(*link)->next) {
        if (tn_secret_equal(&(*link)->session, session)) {
            struct own *own = *link;
            *link = own->next;
            free(own);
            return;
        }
    }
}

static void carry_out(struct memory_store *store, struct tn_store_req *req)
{
    struct tn_result result;

    if (req->status < 0)
        return;
    enter();
    if (!note_own(store, &req->op)) {
        leave();
        tn_req_fail(req, TENURE_E_NOMEM, "out of memory");
        return;
    }
    step(store, &req->op, &result);
    req->answer = result.answer;
    req->ttl = result.ttl;
    req->seen = result.seen;
    req->held = result.held;
    req->more = result.more;
    if (result.lease != 0)
        read_record(store->place->table, result.lease, &req->record);
    if (result.answer == TN_ANSWER_GONE || req->op.kind == TN_OP_CLOSE)
        drop_own(store, &req->op.session);
    leave();
}

/* --- Listings and watches ------------------------------------------------------------------- */

/* NULL: out of memory. */
static struct tn_store_lease *collect(const struct tn_table *table, const char *prefix,
                                      size_t *ret_count)
{
    struct tn_lease_view view;
    struct tn_store_lease *leases = NULL;
    size_t room = 0;
    size_t count = 0;

    for (uint32_t i = tn_table_next(table, 0); i != 0 || leases == NULL;
         i = i != 0 ? tn_table_next(table, i) : 0) {
        if (count == room) {
            room = room > 0 ? 2 * room : 16;
            struct tn_store_lease *grown = realloc(leases, room * sizeof *leases);
            if (grown == NULL) {
                free(leases);
                return NULL;
            }
            leases = grown;
        }
        if (i == 0)
            break;
        tn_table_lease(table, i, &view);
        if (view.name_len < strlen(prefix) || memcmp(view.name, prefix, strlen(prefix)) != 0)
            continue;
        memset(leases[count].name, 0, sizeof leases[count].name);
        memcpy(leases[count].name, view.name, view.name_len);
        read_record(table, i, &leases[count].record);
        count++;
    }
    tn_store_sort(leases, count);
    *ret_count = count;
    return leases;
}

static void answer_lists(struct memory_store *store)
{
    while (store->lists != NULL) {
        struct tn_store_query *listing = store->lists;
        struct tn_store_lease *leases = NULL;
        size_t count = 0;
        int status = TENURE_E_CLOSED;

        store->lists = listing->next;
        if (!store->base.closing) {
            enter();
            work_off(store);
            leases = collect(store->place->table, listing->prefix, &count);
            leave();
            status = leases != NULL ? 0 : TENURE_E_NOMEM;
        }
        listing->listed(listing->arg, status, leases, count,
                        status < 0 ? tenure_strerror(status) : NULL);
        free(listing);
    }
}

/* The first look at a name that has come to be watched. */
static void read_watch(struct memory_store *store, struct watch *watch)
{
    struct tn_op op = { .kind = TN_OP_READ,
                        .name = watch->name,
                        .name_len = (uint32_t)strlen(watch->name) };
    struct news *news = calloc(1, sizeof *news);
    struct tn_result result;

    if (news == NULL)
        return;
    step(store, &op, &result);
    watch->told = true;
    news->kind = TN_NOTICE_CHANGED;
    memcpy(news->name, watch->name, sizeof news->name);
    if (result.lease != 0)
        read_record(store->place->table, result.lease, &news->record);
    *store->inbox_end = news;
    store->inbox_end = &news->next;
}

static void read_watches(struct memory_store *store)
{
    if (!store->unread)
        return;
    store->unread = false;
    enter();
    for (unsigned i = 0; i < BUCKETS; i++) {
        for (struct watch *watch = store->watches[i]; watch != NULL; watch = watch->next) {
            if (!watch->told)
                read_watch(store, watch);
        }
    }
    leave();
}

/* --- Turns ---------------------------------------------------------------------------------- */

static void run(struct memory_store *store);

static void idle(uv_idle_t *handle)
{
    run(handle->data);
}

static void later(uv_timer_t *handle)
{
    run(handle->data);
}

static void kick(struct memory_store *store)
{
    if (store->latency_ms == 0 || store->base.closing)
        (void)uv_idle_start(&store->idle, idle);
    else if (!uv_is_active((const uv_handle_t *)&store->later))
        (void)uv_timer_start(&store->later, later, store->latency_ms, 0);
}

static void shut(struct memory_store *store);

static void run(struct memory_store *store)
{
    struct tn_store_req *req;

    (void)uv_idle_stop(&store->idle);
    (void)uv_timer_stop(&store->later);
    for (int i = 0;
         i < TURN_MAX && !store->base.closing && (req = tn_req_take(&store->queue)) != NULL; i++) {
        carry_out(store, req);
        empty_inbox(store);
        req->done(req);
    }
    if (!store->base.closing)
        read_watches(store);
    empty_inbox(store);
    answer_lists(store);
    if (store->base.closing) {
        shut(store);
        return;
    }
    arm(store);
    if (store->queue.first != NULL)
        kick(store);
}

static void woken(uv_async_t *handle)
{
    struct memory_store *store = handle->data;

    if (store->base.closing)
        return;
    empty_inbox(store);
    if (!store->base.closing)
        arm(store);
}

static void hear_alarm(uv_poll_t *handle, int status, int events)
{
    struct memory_store *store = handle->data;
    uint64_t count;

    (void)status;
    (void)events;
    ssize_t len = read(store->timer, &count, sizeof count);
    (void)len;
    if (store->base.closing)
        return;
    enter();
    work_off(store);
    leave();
    empty_inbox(store);
    if (!store->base.closing)
        arm(store);
}

/* --- The interface -------------------------------------------------------------------------- */

static const char *find_fault(const struct tn_op *op)
{
    if ((op->kind == TN_OP_OPEN || op->kind == TN_OP_RENEW) && op->seq == 0)
        return "the sequence number is missing";
    return tn_op_fault(op);
}

static void submit(struct tn_store *base, struct tn_store_req *req)
{
    struct memory_store *store = (struct memory_store *)base;
    const char *fault = find_fault(&req->op);

    tn_req_init(req);
    if (fault != NULL)
        tn_req_fail(req, TENURE_E_INVALID, fault);
    if (base->closing)
        tn_req_fail(req, TENURE_E_CLOSED, "the store is closed");
    tn_req_add(&store->queue, req);
    kick(store);
}

static int watch_name(struct tn_store *base, const char *name, bool on)
{
    struct memory_store *store = (struct memory_store *)base;
    struct watch *made = calloc(1, sizeof *made);

    if (made == NULL)
        return TENURE_E_NOMEM;
    enter();
    struct watch **link = find_watch(store, name, strlen(name));
    TN_ASSERT(on || *link != NULL);
    if (on && *link == NULL) {
        (void)snprintf(made->name, sizeof made->name, "%s", name);
        *link = made;
        made = NULL;
        store->unread = true;
    }
    (*link)->count += on ? 1U : -1U;
    if ((*link)->count == 0) {
        struct watch *gone = *link;
        *link = gone->next;
        free(gone);
    }
    leave();
    free(made);
    kick(store);
    return 0;
}

static void list_names(struct tn_store *base, const char *prefix, tn_store_listed *done, void *arg)
{
    struct memory_store *store = (struct memory_store *)base;
    const struct tn_store_query query = { .listed = done, .arg = arg };

    if (tn_query_add(&store->lists, &query, prefix))
        kick(store);
}

/* --- Opening and closing -------------------------------------------------------------------- */

static struct place *make_place(const char *name)
{
    struct tn_table_limits limits = {
        .sessions = 1 << 16, .leases = 1 << 17, .waiters = 1 << 18, .text_bytes = 1 << 26
    };
    struct place *place = calloc(1, sizeof *place);
    struct tn_secret seed;

    if (place == NULL || tn_random_secret(&seed) < 0) {
        free(place);
        return NULL;
    }
    limits.hash_key.k0 = tn_load_le(seed.bytes, 8);
    limits.hash_key.k1 = tn_load_le(seed.bytes + 8, 8);
    void *block = calloc(1, tn_table_size(&limits));
    if (block == NULL) {
        free(place);
        return NULL;
    }
    place->table = tn_table_init(block, &limits);
    (void)snprintf(place->name, sizeof place->name, "%s", name);
    place->next = places;
    places = place;
    return place;
}

/* False: out of memory. */
static bool join(struct memory_store *store, const char *name)
{
    struct place *place;

    enter();
    for (place = places; place != NULL && strcmp(place->name, name) != 0; place = place->next)
        ;
    if (place == NULL)
        place = make_place(name);
    store->place = place;
    if (place != NULL) {
        store->next = place->stores;
        place->stores = store;
    }
    leave();
    return place != NULL;
}

static void part(struct memory_store *store)
{
    struct place *place = store->place;
    struct memory_store **link;
    struct place **where;

    enter();
    for (link = &place->stores; *link != store; link = &(*link)->next)
        ;
    *link = store->next;
    /* Somebody else has to keep the time now. */
    for (struct memory_store *other = place->stores; other != NULL; other = other->next)
        (void)uv_async_send(&other->wake);
    if (place->stores == NULL) {
        for (where = &places; *where != place; where = &(*where)->next)
            ;
        *where = place->next;
        free(place->table);
        free(place);
    }
    leave();
    store->place = NULL;
}

static void free_store(struct memory_store *store)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
        while (store->watches[i] != NULL) {
            struct watch *watch = store->watches[i];
            store->watches[i] = watch->next;
            free(watch);
        }
    }
    while (store->owns != NULL) {
        struct own *own = store->owns;
        store->owns = own->next;
        free(own);
    }
    if (store->timer >= 0)
        (void)close(store->timer);
    tn_store_gone(&store->base);
}

static void handle_closed(uv_handle_t *handle)
{
    struct memory_store *store = handle->data;

    TN_ASSERT(store->open_handles > 0);
    if (--store->open_handles == 0)
        free_store(store);
}

static void shut(struct memory_store *store)
{
    struct tn_store_req *req;

    while ((req = tn_req_take(&store->queue)) != NULL)
        tn_req_finish(req, TENURE_E_CLOSED, "the store is closed");
    part(store);
    empty_inbox(store);
    uv_close((uv_handle_t *)&store->idle, handle_closed);
    uv_close((uv_handle_t *)&store->later, handle_closed);
    uv_close((uv_handle_t *)&store->wake, handle_closed);
    uv_close((uv_handle_t *)&store->alarm, handle_closed);
}

static void close_store(struct tn_store *base, void (*closed)(void *arg), void *arg)
{
    struct memory_store *store = (struct memory_store *)base;

    tn_store_close(base, closed, arg);
    kick(store);
}

/* "NAME?latency=5ms" */
static int parse_rest(const char *rest, char *ret_name, size_t size, uint64_t *ret_latency_ms,
                      struct tn_text *reterr)
{
    static const char option[] = "?latency=";
    const char *mark = strchr(rest, '?');
    size_t len = mark != NULL ? (size_t)(mark - rest) : strlen(rest);
    tenure_ns latency = 0;

    if (len >= size) {
        tn_text_add(reterr, "the name of the store in memory is too long");
        return TENURE_E_INVALID;
    }
    if (mark != NULL && (strncmp(mark, option, sizeof option - 1) != 0 ||
                         tn_duration_parse(mark + sizeof option - 1, &latency) < 0)) {
        tn_text_add(reterr, "write memory:NAME or memory:NAME?latency=5ms");
        return TENURE_E_INVALID;
    }
    memcpy(ret_name, rest, len);
    ret_name[len] = '\0';
    *ret_latency_ms = (uint64_t)(latency / TN_MS(1));
    return 0;
}

static int refuse(int code, const char *why, struct tn_text *reterr)
{
    tn_text_add(reterr, why);
    return code;
}

/* Handles that were initialised can only be freed by the loop. */
static int start(struct memory_store *store, const char *name, struct tn_text *reterr)
{
    struct uv_loop_s *loop = store->base.how.loop;

    store->idle.data = store;
    store->later.data = store;
    store->wake.data = store;
    store->alarm.data = store;
    if (uv_async_init(loop, &store->wake, woken) != 0)
        return refuse(TENURE_E_UNAVAILABLE, "no descriptor is left for the loop", reterr);
    store->open_handles++;
    if (uv_poll_init(loop, &store->alarm, store->timer) != 0)
        return refuse(TENURE_E_UNAVAILABLE, "the loop cannot watch a timer", reterr);
    store->open_handles++;
    if (!join(store, name))
        return refuse(TENURE_E_NOMEM, "out of memory", reterr);
    (void)uv_idle_init(loop, &store->idle);
    (void)uv_timer_init(loop, &store->later);
    store->open_handles += 2;
    (void)uv_poll_start(&store->alarm, UV_READABLE, hear_alarm);
    return 0;
}

/* What start has left, as far as it came. */
static void discard(struct memory_store *store)
{
    unsigned handles = store->open_handles;

    store->base.closing = true;
    if (handles > 0)
        uv_close((uv_handle_t *)&store->wake, handle_closed);
    if (handles > 1)
        uv_close((uv_handle_t *)&store->alarm, handle_closed);
    if (handles == 0)
        free_store(store);
}

static int open_store(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    struct memory_store *store = tn_store_new(sizeof *store, ops, how, reterr);
    char name[TN_NAME_MAX + 1];

    if (store == NULL)
        return TENURE_E_NOMEM;
    store->inbox_end = &store->inbox;
    store->timer = tn_timer_open();
    int rc = parse_rest(how->rest, name, sizeof name, &store->latency_ms, reterr);
    if (rc == 0 && store->timer < 0)
        rc = refuse(TENURE_E_UNAVAILABLE, "no descriptor is left for a timer", reterr);
    if (rc == 0)
        rc = start(store, name, reterr);
    if (rc < 0) {
        discard(store);
        return rc;
    }
    arm(store);
    *ret_store = &store->base;
    return 0;
}

const struct tn_store_ops tn_memory_store_ops = {
    .scheme = "memory",
    .caps = TN_STORE_QUEUES | TN_STORE_TELLS | TN_STORE_LOCAL,
    .ttl_min = TN_TTL_MIN,
    .ttl_max = TN_TTL_MAX,
    .open = open_store,
    .submit = submit,
    .watch = watch_name,
    .list = list_names,
    .close = close_store,
    .class_why = "one process, and no longer than it lives",
};
