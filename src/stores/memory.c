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

enum { TURN_MAX = 256 };

/* One table. Guarded by @guard, as is the list of them. */
struct memory_place {
    struct memory_place *next;
    struct tn_table *table;
    struct memory_store *stores;
    tenure_ns now;
    char name[TN_NAME_MAX + 1];
};

struct memory_news {
    struct memory_news *next;
    enum tn_notice_kind kind;
    uint64_t token;
    struct tn_secret term; /* Hashed. */
    struct tn_store_record record;
    char name[TN_NAME_MAX + 1];
};

struct memory_store {
    struct tn_store base; /* Its names and sessions are guarded, */
    struct memory_place *place;
    struct memory_store *next; /* in the place, as are this and the inbox. */
    struct memory_news *inbox, **inbox_end;
    struct tn_req_list queue;
    struct tn_store_query *lists;
    uint64_t latency_ms;
    uv_timer_t later;
    uv_async_t wake;
    uv_poll_t alarm;
    int timer;
    bool unread; /* A watch whose name was not read yet. */
};

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct memory_place *places;

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

static void push_news(struct memory_store *store, struct memory_news *news)
{
    *store->inbox_end = news;
    store->inbox_end = &news->next;
}

/* Put one notice into one inbox; without memory it is lost. */
static void post(struct memory_store *store, const struct tn_notice *notice)
{
    struct tn_lease_view view;
    struct memory_news *news = calloc(1, sizeof *news);

    if (news == NULL)
        return;
    tn_table_lease(store->place->table, notice->lease, &view);
    news->kind = notice->kind;
    news->token = notice->token;
    tn_secret_hash(&notice->term, 't', &news->term);
    memcpy(news->name, view.name, view.name_len);
    read_record(store->place->table, notice->lease, &news->record);
    push_news(store, news);
    (void)uv_async_send(&store->wake);
}

static bool is_concerned(const struct memory_store *store, const struct tn_notice *notice,
                         const struct tn_lease_view *view)
{
    if (notice->kind != TN_NOTICE_CHANGED)
        return tn_store_session_find(&store->base, &notice->session) != NULL;
    const struct tn_store_name *name = tn_store_name_find(&store->base, view->name, view->name_len);
    return name != NULL && name->watchers > 0;
}

static void post_all(struct memory_place *place, const struct tn_result *result)
{
    struct tn_lease_view view;

    for (uint32_t i = 0; i < result->count; i++) {
        const struct tn_notice *notice = &result->list[i];
        tn_table_lease(place->table, notice->lease, &view);
        for (struct memory_store *store = place->stores; store != NULL; store = store->next) {
            if (is_concerned(store, notice, &view))
                post(store, notice);
        }
    }
}

static void tell(struct tn_store *store, const struct memory_news *news)
{
    struct tn_store_name *name = tn_store_name_find(store, news->name, strlen(news->name));

    if (news->kind == TN_NOTICE_GRANTED)
        tn_store_granted(store, news->name, &news->term, news->token);
    else if (news->kind == TN_NOTICE_REVOKED)
        tn_store_revoked(store, news->name, news->token);
    else if (name != NULL)
        tn_store_changed(store, name, &news->record);
}

static void empty_inbox(struct memory_store *store)
{
    enter();
    struct memory_news *news = store->inbox;
    store->inbox = NULL;
    store->inbox_end = &store->inbox;
    leave();
    while (news != NULL) {
        struct memory_news *next = news->next;
        tell(&store->base, news);
        free(news);
        news = next;
    }
}

/* --- Steps ---------------------------------------------------------------------------------- */

/* The table's time does not go back, whatever the clocks of its stores are. */
static void step(struct memory_store *store, const struct tn_op *op, struct tn_result *ret_result)
{
    struct memory_place *place = store->place;
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

static void carry_out(struct memory_store *store, struct tn_store_req *req)
{
    struct tn_store_session *session = tn_store_session_find(&store->base, &req->op.session);
    struct tn_result result;

    /* Before the step, so that its own notices find the session. */
    if (session == NULL && tn_op_keeps_session(&req->op)) {
        session = tn_store_session_keep(&store->base, &req->op.session);
        if (session == NULL) {
            tn_req_fail(req, TENURE_E_NOMEM, "out of memory");
            return;
        }
    }
    enter();
    step(store, &req->op, &result);
    req->answer = result.answer;
    req->ttl = result.ttl;
    req->seen = result.seen;
    req->held = result.held;
    req->more = result.more;
    if (result.lease != 0)
        read_record(store->place->table, result.lease, &req->record);
    leave();
    if (session != NULL && (result.answer == TN_ANSWER_GONE || req->op.kind == TN_OP_CLOSE))
        tn_store_session_drop(&store->base, session);
}

/* --- Listings and watches ------------------------------------------------------------------- */

static void collect(const struct tn_table *table, struct tn_store_query *query)
{
    struct tn_lease_view view;
    size_t len = strlen(query->prefix);

    for (uint32_t i = tn_table_next(table, 0); i != 0; i = tn_table_next(table, i)) {
        tn_table_lease(table, i, &view);
        if (view.name_len < len || memcmp(view.name, query->prefix, len) != 0)
            continue;
        struct tn_store_lease *lease = tn_query_add_lease(query);
        if (lease == NULL)
            return;
        memcpy(lease->name, view.name, view.name_len);
        read_record(table, i, &lease->record);
    }
}

static void collect_line(const struct tn_table *table, struct tn_store_query *query)
{
    struct tn_session_view view;
    uint32_t place = 0, session;
    uint32_t lease = tn_table_lease_of(table, query->prefix, (uint32_t)strlen(query->prefix));

    while (lease != 0 && (place = tn_table_next_waiter(table, lease, place, &session)) != 0) {
        tn_table_session(table, session, &view);
        if (!tn_query_add_waiter(query, view.label, view.label_len))
            return;
    }
}

static void answer_lists(struct memory_store *store)
{
    while (store->lists != NULL && !store->base.closing) {
        struct tn_store_query *query = store->lists;

        store->lists = query->next;
        enter();
        work_off(store);
        if (query->line)
            collect_line(store->place->table, query);
        else
            collect(store->place->table, query);
        leave();
        tn_query_done(query, 0, NULL);
    }
}

/* The first look at a name that has come to be watched; without memory it is repeated. */
static void read_watch(struct memory_store *store, const struct tn_store_name *name)
{
    struct tn_op op = { .kind = TN_OP_READ,
                        .name = name->text,
                        .name_len = (uint32_t)strlen(name->text) };
    struct memory_news *news = calloc(1, sizeof *news);
    struct tn_result result;

    if (news == NULL) {
        store->unread = true;
        return;
    }
    step(store, &op, &result);
    news->kind = TN_NOTICE_CHANGED;
    (void)snprintf(news->name, sizeof news->name, "%s", name->text);
    if (result.lease != 0)
        read_record(store->place->table, result.lease, &news->record);
    push_news(store, news);
}

static void read_watches(struct memory_store *store)
{
    const struct tn_store_name *name = NULL;

    if (!store->unread)
        return;
    store->unread = false;
    enter();
    while ((name = tn_store_name_next(&store->base, name)) != NULL) {
        if (name->told == NULL)
            read_watch(store, name);
    }
    leave();
}

/* --- Turns ---------------------------------------------------------------------------------- */

static void hear_later(uv_timer_t *handle)
{
    tn_store_kick(handle->data);
}

static void turn_soon(struct memory_store *store)
{
    if (store->latency_ms == 0)
        tn_store_kick(&store->base);
    else if (!uv_is_active((const uv_handle_t *)&store->later))
        (void)uv_timer_start(&store->later, hear_later, store->latency_ms, 0);
}

static void turn(struct tn_store *base)
{
    struct memory_store *store = (struct memory_store *)base;
    struct tn_store_req *req;

    for (int i = 0; i < TURN_MAX && !base->closing && (req = tn_req_take(&store->queue)) != NULL;
         i++) {
        carry_out(store, req);
        empty_inbox(store);
        req->done(req);
    }
    if (!base->closing)
        read_watches(store);
    empty_inbox(store);
    answer_lists(store);
    if (base->closing)
        return;
    arm(store);
    if (store->queue.first != NULL)
        turn_soon(store);
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

static void submit(struct tn_store *base, struct tn_store_req *req)
{
    struct memory_store *store = (struct memory_store *)base;

    /* Nobody else knows a session here, so the number 0 is a mistake. */
    if ((req->op.kind == TN_OP_OPEN || req->op.kind == TN_OP_RENEW) && req->op.seq == 0) {
        tn_req_refuse(base, req, TENURE_E_INVALID, "the sequence number is missing");
        return;
    }
    tn_req_add(&store->queue, req);
    turn_soon(store);
}

static int watched(struct tn_store *base, struct tn_store_name *name, bool on)
{
    struct memory_store *store = (struct memory_store *)base;

    (void)name;
    store->unread = store->unread || on;
    turn_soon(store);
    return 0;
}

static void ask(struct tn_store *base, struct tn_store_query *query)
{
    struct memory_store *store = (struct memory_store *)base;

    tn_query_push(&store->lists, query);
    turn_soon(store);
}

/* --- Opening and closing -------------------------------------------------------------------- */

static struct memory_place *make_place(const char *name)
{
    struct tn_table_limits limits = {
        .sessions = 1 << 16, .leases = 1 << 17, .waiters = 1 << 18, .text_bytes = 1 << 26
    };
    struct memory_place *place = calloc(1, sizeof *place);
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
    struct memory_place *place;

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
    struct memory_place *place = store->place;
    struct memory_store **link;
    struct memory_place **where;

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

static void shut(struct tn_store *base)
{
    struct memory_store *store = (struct memory_store *)base;
    struct tn_store_req *req;

    while ((req = tn_req_take(&store->queue)) != NULL)
        tn_req_finish(req, TENURE_E_CLOSED, "the store is closed");
    tn_query_done_all(&store->lists, TENURE_E_CLOSED, "the store is closed");
    part(store);
    empty_inbox(store);
    tn_store_end(base);
}

static void free_rest(struct tn_store *base)
{
    struct memory_store *store = (struct memory_store *)base;

    if (store->timer >= 0)
        (void)close(store->timer);
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

/* What was made before a failure is the frame's to close. Returns why it failed, or NULL. */
static const char *start(struct memory_store *store, const char *name, int *ret_code)
{
    struct tn_store *base = &store->base;

    *ret_code = TENURE_E_UNAVAILABLE;
    if (store->timer < 0)
        return "no descriptor is left for a timer";
    if (uv_async_init(base->how.loop, &store->wake, woken) != 0)
        return "no descriptor is left for the loop";
    tn_store_add_handle(base, &store->wake);
    if (uv_poll_init(base->how.loop, &store->alarm, store->timer) != 0)
        return "the loop cannot watch a timer";
    tn_store_add_handle(base, &store->alarm);
    (void)uv_timer_init(base->how.loop, &store->later);
    tn_store_add_handle(base, &store->later);
    *ret_code = TENURE_E_NOMEM;
    if (!join(store, name))
        return "out of memory";
    (void)uv_poll_start(&store->alarm, UV_READABLE, hear_alarm);
    *ret_code = 0;
    return NULL;
}

static int open_store(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    struct memory_store *store = tn_store_new(sizeof *store, ops, how, reterr);
    char name[TN_NAME_MAX + 1];
    const char *why = NULL;

    if (store == NULL)
        return TENURE_E_NOMEM;
    store->base.guard = &guard;
    store->inbox_end = &store->inbox;
    store->timer = tn_timer_open();
    int rc = parse_rest(how->rest, name, sizeof name, &store->latency_ms, reterr);
    if (rc == 0)
        why = start(store, name, &rc);
    if (rc < 0)
        return tn_store_discard(&store->base, rc, why, reterr);
    arm(store);
    *ret_store = &store->base;
    return 0;
}

const struct tn_store_ops tn_memory_store_ops = {
    .scheme = "memory",
    .caps = TN_STORE_QUEUES | TN_STORE_TELLS | TN_STORE_LOCAL | TN_STORE_RAISES | TN_STORE_SOFT,
    .ttl_min = TN_TTL_MIN,
    .ttl_max = TN_TTL_MAX,
    .open = open_store,
    .submit = submit,
    .watch = tn_store_watch,
    .list = tn_store_list,
    .line = tn_store_line,
    .close = tn_store_close,
    .class_why = "one process, and no longer than it lives",
    .turn = turn,
    .watched = watched,
    .ask = ask,
    .shut = shut,
    .free = free_rest,
};
