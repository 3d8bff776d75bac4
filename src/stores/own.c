/* own.c - a store that the application brought (tenure/store.h), as the runtime knows stores.
 *
 *   loop's thread             store's thread, or the loop's        any thread
 *   submit --> item --------> inbox, worker: ops.submit ---------> tenure_store_done
 *      done() <------ outbox, one wake-up of the loop <-----------/
 *
 * An item is the request as the application sees it. It stays until the application has answered,
 * even when its asker has lost patience or the store is being closed: then nobody hears the answer.
 * Watches of a store that has none are reads, a few times a second.
 * What can fail: the application's store, in its answers; memory, and then the request fails. */
#define _GNU_SOURCE
#include "stores/own.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/assert.h"
#include "base/sha256.h"
#include "core/plan.h"
#include "stores/own_private.h"

#define LOOK_EVERY_MS 200
#define PATIENCE TN_SEC(5)

/* --- Between the threads -------------------------------------------------------------------- */

static void push(struct own_queue *queue, struct own_item *item)
{
    item->next = NULL;
    *queue->end = item;
    queue->end = &item->next;
}

static struct own_item *take_all(struct own_queue *queue)
{
    struct own_item *first = queue->first;

    queue->first = NULL;
    queue->end = &queue->first;
    return first;
}

void tn_own_post(struct own_item *item)
{
    struct own_store *store = item->store;

    (void)pthread_mutex_lock(&store->lock);
    push(&store->outbox, item);
    /* Inside the lock: once it is let go, the loop may have closed all of it. */
    (void)uv_async_send(&store->wake);
    (void)pthread_mutex_unlock(&store->lock);
}

/* To the application, on whichever thread it is called. */
static void hand_over(struct own_item *item)
{
    struct own_store *store = item->store;
    const struct tenure_store_ops *ops = &store->kind->ops;

    if (item->kind == OWN_REQUEST)
        ops->submit(store->own, &item->request);
    else if (item->kind == OWN_LIST)
        ops->list(store->own, item->name, (struct tenure_store_list *)item);
    else {
        if (item->kind == OWN_WATCH)
            ops->watch(store->own, item->name, item->on);
        else
            ops->close(store->own);
        tn_own_post(item);
    }
}

static void *work(void *arg)
{
    struct own_store *store = arg;
    bool closed = false;

    while (!closed) {
        (void)pthread_mutex_lock(&store->lock);
        while (store->inbox.first == NULL)
            (void)pthread_cond_wait(&store->filled, &store->lock);
        struct own_item *item = store->inbox.first;
        store->inbox.first = item->next;
        if (store->inbox.first == NULL)
            store->inbox.end = &store->inbox.first;
        (void)pthread_mutex_unlock(&store->lock);
        closed = item->kind == OWN_CLOSE;
        hand_over(item);
    }
    return NULL;
}

static void hand_in(struct own_item *item)
{
    struct own_store *store = item->store;

    store->out++;
    if (!store->threaded) {
        hand_over(item);
        return;
    }
    (void)pthread_mutex_lock(&store->lock);
    push(&store->inbox, item);
    (void)pthread_cond_signal(&store->filled);
    (void)pthread_mutex_unlock(&store->lock);
}

static struct own_item *item_new(struct own_store *store, enum own_kind kind, const char *name,
                                 size_t len)
{
    struct own_item *item = calloc(1, sizeof *item);

    if (item == NULL)
        return NULL;
    item->store = store;
    item->kind = kind;
    item->reply.status = TENURE_E_TIMEOUT;
    if (len > TN_NAME_MAX)
        len = TN_NAME_MAX;
    memcpy(item->name, name, len);
    item->request.name = item->name;
    return item;
}

static void item_free(struct own_item *item)
{
    free(item->leases);
    free(item);
}

/* --- Answers -------------------------------------------------------------------------------- */

void tn_own_record(const struct tenure_store_record *from, struct tn_store_record *ret_record)
{
    *ret_record = (struct tn_store_record) {
        .held = from->held, .token = from->token, .ttl = from->ttl, .remaining = from->remaining
    };
    memcpy(ret_record->term.bytes, from->term.bytes, sizeof from->term.bytes);
    ret_record->label_len = from->label_len <= TN_LABEL_MAX ? from->label_len : TN_LABEL_MAX;
    memcpy(ret_record->label, from->label, ret_record->label_len);
}

/* False: the application's answer is none. */
static bool read_answer(enum tenure_store_answer from, enum tn_answer *ret_answer)
{
    static const enum tn_answer answers[] = {
        [TENURE_STORE_OK] = TN_ANSWER_OK,         [TENURE_STORE_GRANTED] = TN_ANSWER_GRANTED,
        [TENURE_STORE_QUEUED] = TN_ANSWER_QUEUED, [TENURE_STORE_HELD] = TN_ANSWER_HELD,
        [TENURE_STORE_FREE] = TN_ANSWER_FREE,     [TENURE_STORE_RELEASED] = TN_ANSWER_RELEASED,
        [TENURE_STORE_STALE] = TN_ANSWER_STALE,   [TENURE_STORE_DENIED] = TN_ANSWER_DENIED,
        [TENURE_STORE_GONE] = TN_ANSWER_GONE,     [TENURE_STORE_FULL] = TN_ANSWER_FULL,
    };

    if (from < TENURE_STORE_OK || from > TENURE_STORE_FULL)
        return false;
    *ret_answer = answers[from];
    return true;
}

static void answer(struct own_item *item)
{
    struct tn_store_req *req = item->req;
    const struct tenure_store_reply *reply = &item->reply;

    if (reply->status != 0) {
        tn_req_finish(req, reply->status, item->error);
        return;
    }
    if (!read_answer(reply->answer, &req->answer)) {
        tn_req_finish(req, TENURE_E_DAMAGED, "the store gave an answer that is none");
        return;
    }
    req->status = 0;
    req->error[0] = '\0';
    req->ttl = reply->ttl;
    req->held = reply->held;
    req->seen = req->op.seen;
    req->more = false;
    tn_own_record(&reply->record, &req->record);
    req->done(req);
}

static void answer_list(struct own_item *item)
{
    struct tn_store_lease *leases = item->leases;
    int status = item->reply.status;

    if (status == 0 && item->count > 0)
        tn_store_sort(leases, item->count);
    if (status == 0)
        item->leases = NULL;
    item->listed(item->arg, status, status == 0 ? leases : NULL, status == 0 ? item->count : 0,
                 status == 0              ? NULL
                 : item->error[0] != '\0' ? item->error
                                          : tenure_strerror(status));
}

/* A read that a watch asked for. */
static void see(struct own_store *store, struct own_watch *watch,
                const struct tenure_store_record *record)
{
    const struct tn_store_open *how = &store->base.how;
    struct tn_store_record known;

    tn_own_record(record, &known);
    bool same = watch->told && known.held == watch->known.held &&
                known.token == watch->known.token &&
                tn_secret_equal(&known.term, &watch->known.term);
    watch->known = known;
    watch->told = true;
    if (!same)
        how->host->changed(how->arg, watch->name, &known);
}

static struct own_watch **find_watch(struct own_store *store, const char *name)
{
    struct own_watch **link = &store->watches;

    while (*link != NULL && strcmp((*link)->name, name) != 0)
        link = &(*link)->next;
    return link;
}

/* --- The loop ------------------------------------------------------------------------------- */

static void tell(struct own_item *item)
{
    const struct tn_store_open *how = &item->store->base.how;
    struct tn_store_record record;
    struct tn_secret term;

    memcpy(term.bytes, item->request.term.bytes, sizeof term.bytes);
    if (item->kind == OWN_GRANTED)
        how->host->granted(how->arg, item->name, &term, item->request.token);
    else if (item->kind == OWN_REVOKED)
        how->host->revoked(how->arg, item->name, item->request.token);
    else {
        tn_own_record(&item->reply.record, &record);
        how->host->changed(how->arg, item->name, &record);
    }
}

static void hear(struct own_store *store, struct own_item *item)
{
    bool news = item->kind >= OWN_GRANTED;

    if (!news)
        store->out--;
    if (item->kind == OWN_REQUEST && item->req != NULL)
        answer(item);
    else if (item->kind == OWN_LIST && item->listed != NULL)
        answer_list(item);
    else if (item->kind == OWN_REQUEST && item->looks) {
        struct own_watch *watch = *find_watch(store, item->name);
        if (watch != NULL)
            watch->looking = false;
        if (watch != NULL && item->reply.status == 0 && !store->base.closing)
            see(store, watch, &item->reply.record);
    } else if (news && !store->base.closing)
        tell(item);
    if (item->kind == OWN_CLOSE)
        store->closed = true;
}

static void unlink_item(struct own_store *store, struct own_item *item)
{
    if (item->link == NULL)
        return;
    *item->link = item->pending_next;
    if (item->pending_next != NULL)
        item->pending_next->link = item->link;
    else
        store->pending_end = item->link;
    item->link = NULL;
}

/* In the order of their patience: all have the same. */
static void link_item(struct own_store *store, struct own_item *item)
{
    item->link = store->pending_end;
    *store->pending_end = item;
    store->pending_end = &item->pending_next;
}

/* Nobody waits for it any more; the application may still be at it. */
static void drop(struct own_store *store, struct own_item *item, int status, const char *text)
{
    struct tn_store_req *req = item->req;

    unlink_item(store, item);
    item->req = NULL;
    if (req != NULL)
        tn_req_finish(req, status, text);
    else if (item->listed != NULL) {
        void (*listed)(void *, int, struct tn_store_lease *, size_t, const char *) = item->listed;
        item->listed = NULL;
        listed(item->arg, status, NULL, 0, text);
    }
}

static void shut(struct own_store *store);

static void turn(struct own_store *store)
{
    (void)pthread_mutex_lock(&store->lock);
    struct own_item *item = take_all(&store->outbox);
    (void)pthread_mutex_unlock(&store->lock);
    if (item != NULL)
        store->answered_at = tn_clock_now(store->base.how.clock);
    for (struct own_item *next; item != NULL; item = next) {
        next = item->next;
        unlink_item(store, item);
        hear(store, item);
        item_free(item);
    }
    if (store->base.closing)
        shut(store);
}

static void hear_wake(uv_async_t *async)
{
    turn(async->data);
}

static void look(struct own_store *store, struct own_watch *watch)
{
    struct own_item *item = NULL;

    if (!watch->looking)
        item = item_new(store, OWN_REQUEST, watch->name, strlen(watch->name));
    if (item == NULL)
        return; /* The next time, then. */
    item->looks = true;
    item->request.op = TENURE_STORE_READ;
    watch->looking = true;
    hand_in(item);
}

/* Calls that may block are made one after the other: while they come back, waiting for one's turn
 * is not being left without an answer. */
static tenure_ns gives_up_at(const struct own_store *store, const struct own_item *item)
{
    tenure_ns at = store->answered_at + store->patience;

    return store->threaded && at > item->give_up_at ? at : item->give_up_at;
}

static void hear_timer(uv_timer_t *timer)
{
    struct own_store *store = timer->data;
    tenure_ns now = tn_clock_now(store->base.how.clock);

    if (store->base.closing)
        return;
    while (store->pending != NULL && gives_up_at(store, store->pending) <= now)
        drop(store, store->pending, TENURE_E_TIMEOUT,
             "the store has not answered; it may have happened");
    for (struct own_watch *watch = store->watches; watch != NULL; watch = watch->next)
        look(store, watch);
}

/* --- The interface -------------------------------------------------------------------------- */

static const char *find_fault(const struct tn_op *op)
{
    const char *reason = NULL;

    if (op->kind > TN_OP_REVOKE)
        return "no such operation";
    if (op->label_len > TN_LABEL_MAX)
        return "the label is too long";
    if (op->kind >= TN_OP_ACQUIRE && tn_name_check(op->name, op->name_len, &reason) < 0)
        return reason;
    return NULL;
}

/* Faults, too, are answered from the loop. */
static void refuse(struct own_item *item, int status, const char *text)
{
    item->store->out++;
    item->reply.status = status;
    (void)snprintf(item->error, sizeof item->error, "%s", text);
    tn_own_post(item);
}

static void fill(struct tenure_store_request *request, const struct tn_op *op)
{
    static const enum tenure_store_op ops[] = {
        [TN_OP_OPEN] = TENURE_STORE_OPEN,       [TN_OP_RENEW] = TENURE_STORE_RENEW,
        [TN_OP_CLOSE] = TENURE_STORE_CLOSE,     [TN_OP_ACQUIRE] = TENURE_STORE_ACQUIRE,
        [TN_OP_RELEASE] = TENURE_STORE_RELEASE, [TN_OP_READ] = TENURE_STORE_READ,
        [TN_OP_REVOKE] = TENURE_STORE_REVOKE,
    };
    struct tn_secret session, term;

    tn_secret_hash(&op->session, 's', &session);
    tn_secret_hash(&op->term, 't', &term);
    memcpy(request->session.bytes, session.bytes, sizeof session.bytes);
    memcpy(request->term.bytes, term.bytes, sizeof term.bytes);
    request->op = ops[op->kind];
    request->wait = op->wait;
    request->seq = op->seq;
    request->token = op->token;
    request->ttl = op->ttl;
}

static void submit(struct tn_store *base, struct tn_store_req *req)
{
    struct own_store *store = (struct own_store *)base;
    const struct tn_op *op = &req->op;
    const char *fault = find_fault(op);
    struct own_item *item = item_new(store, OWN_REQUEST, op->name != NULL ? op->name : "",
                                     op->name != NULL ? op->name_len : 0);

    if (item == NULL) { /* The only answer that comes at once: there is no place for it. */
        tn_req_finish(req, TENURE_E_NOMEM, "out of memory");
        return;
    }
    req->record = (struct tn_store_record) { 0 };
    item->req = req;
    item->give_up_at = tn_clock_now(base->how.clock) + store->patience;
    link_item(store, item);
    if (store->base.closing || fault != NULL) {
        refuse(item, store->base.closing ? TENURE_E_CLOSED : TENURE_E_INVALID,
               store->base.closing ? "the store is closed" : fault);
        return;
    }
    fill(&item->request, op);
    if (op->label_len > 0)
        memcpy(item->label, op->label, op->label_len);
    item->request.label = item->label;
    item->request.label_len = op->label_len;
    hand_in(item);
}

static int watch_name(struct tn_store *base, const char *name, bool on)
{
    struct own_store *store = (struct own_store *)base;
    struct own_watch **link = find_watch(store, name), *watch = *link;
    bool polls = store->kind->ops.watch == NULL;

    if (on && watch == NULL) {
        watch = calloc(1, sizeof *watch);
        if (watch == NULL)
            return TENURE_E_NOMEM;
        (void)snprintf(watch->name, sizeof watch->name, "%s", name);
        *link = watch;
        link = &store->watches;
    }
    bool first = on && watch->count++ == 0;
    bool last = !on && --watch->count == 0;
    if (polls && on) {
        watch->told = false;
        look(store, watch);
    } else if (!polls && (first || last)) {
        struct own_item *item = item_new(store, OWN_WATCH, name, strlen(name));
        if (item == NULL)
            return TENURE_E_NOMEM;
        item->on = on;
        hand_in(item);
    }
    if (last) {
        link = find_watch(store, name);
        *link = watch->next;
        free(watch);
    }
    return 0;
}

static void list_names(struct tn_store *base, const char *prefix, tn_store_listed *done, void *arg)
{
    struct own_store *store = (struct own_store *)base;
    struct own_item *item = item_new(store, OWN_LIST, prefix, strlen(prefix));

    if (item == NULL) {
        done(arg, TENURE_E_NOMEM, NULL, 0, "out of memory");
        return;
    }
    item->listed = done;
    item->arg = arg;
    item->give_up_at = tn_clock_now(base->how.clock) + store->patience;
    link_item(store, item);
    if (store->base.closing)
        refuse(item, TENURE_E_CLOSED, "the store is closed");
    else if (store->kind->ops.list == NULL)
        refuse(item, TENURE_E_UNSUPPORTED, "this store has no list of names");
    else
        hand_in(item);
}

/* --- Life and death ------------------------------------------------------------------------- */

static void store_free(struct own_store *store)
{
    while (store->watches != NULL) {
        struct own_watch *watch = store->watches;
        store->watches = watch->next;
        free(watch);
    }
    (void)pthread_cond_destroy(&store->filled);
    (void)pthread_mutex_destroy(&store->lock);
    free(store->closer);
    tn_store_gone(&store->base);
}

static void handle_closed(uv_handle_t *handle)
{
    struct own_store *store = handle->data;

    if (--store->handles == 0)
        store_free(store);
}

/* What was asked is answered, and what has not reached the application does not any more; then what
 * it still has comes back, and then it is closed. */
static void shut(struct own_store *store)
{
    struct own_item *waiting = NULL;

    while (store->pending != NULL)
        drop(store, store->pending, TENURE_E_CLOSED, "the store is closed");
    (void)pthread_mutex_lock(&store->lock);
    if (store->closer != NULL)
        waiting = take_all(&store->inbox);
    (void)pthread_mutex_unlock(&store->lock);
    for (struct own_item *next; waiting != NULL; waiting = next) {
        next = waiting->next;
        store->out--;
        item_free(waiting);
    }
    if (store->closer != NULL && store->out == 0) {
        struct own_item *item = store->closer;
        store->closer = NULL;
        hand_in(item);
    }
    if (!store->closed)
        return;
    store->closed = false; /* Once. */
    if (store->threaded)
        (void)pthread_join(store->thread, NULL);
    uv_close((uv_handle_t *)&store->wake, handle_closed);
    uv_close((uv_handle_t *)&store->timer, handle_closed);
}

static void close_store(struct tn_store *base, void (*closed)(void *arg), void *arg)
{
    struct own_store *store = (struct own_store *)base;

    tn_store_close(base, closed, arg);
    (void)uv_async_send(&store->wake);
}

static int start_thread(struct own_store *store)
{
    sigset_t all, before;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&store->thread, NULL, work, store);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    store->threaded = rc == 0;
    return rc == 0 ? 0 : TENURE_E_UNAVAILABLE;
}

static struct own_store *store_new(const struct own_kind_of *kind, const struct tn_store_open *how,
                                   struct tn_text *reterr)
{
    struct own_store *store = tn_store_new(sizeof *store, &kind->internal, how, reterr);

    if (store == NULL)
        return NULL;
    store->kind = kind;
    store->patience = how->patience > 0 ? how->patience : PATIENCE;
    store->inbox.end = &store->inbox.first;
    store->outbox.end = &store->outbox.first;
    store->pending_end = &store->pending;
    (void)pthread_mutex_init(&store->lock, NULL);
    (void)pthread_cond_init(&store->filled, NULL);
    store->closer = item_new(store, OWN_CLOSE, "", 0);
    if (store->closer == NULL) {
        tn_text_add(reterr, "out of memory");
        store_free(store);
        return NULL;
    }
    return store;
}

static int open_store(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    const struct own_kind_of *kind =
        (const void *)((const char *)ops - offsetof(struct own_kind_of, internal));
    struct own_store *store = store_new(kind, how, reterr);
    struct tenure_error error = { 0 };
    void *own = NULL;

    if (store == NULL)
        return TENURE_E_NOMEM;
    if (uv_async_init(how->loop, &store->wake, hear_wake) != 0) {
        store_free(store);
        tn_text_add(reterr, "no descriptor is left for the loop");
        return TENURE_E_NOMEM;
    }
    struct tenure_store_open open = { .size = sizeof open,
                                      .url = how->url,
                                      .rest = how->rest,
                                      .create = how->create,
                                      .patience = store->patience,
                                      .host = (struct tenure_store_host *)store };
    int rc = kind->ops.open(&open, &own, &error);
    if (rc > 0)
        rc = TENURE_E_DAMAGED;
    store->own = own;
    store->wake.data = store->timer.data = store;
    store->handles = 2;
    (void)uv_timer_init(how->loop, &store->timer);
    if (rc == 0 && (kind->ops.caps & TENURE_STORE_BLOCKS) != 0) {
        rc = start_thread(store);
        if (rc < 0)
            kind->ops.close(own);
    }
    if (rc < 0) {
        tn_text_add(reterr, error.text[0] != '\0' ? error.text : tenure_strerror(rc));
        uv_close((uv_handle_t *)&store->wake, handle_closed);
        uv_close((uv_handle_t *)&store->timer, handle_closed);
        return rc;
    }
    (void)uv_timer_start(&store->timer, hear_timer, LOOK_EVERY_MS, LOOK_EVERY_MS);
    *ret_store = &store->base;
    return 0;
}

const struct tn_store_ops tn_own_ops = {
    .open = open_store,
    .submit = submit,
    .watch = watch_name,
    .list = list_names,
    .close = close_store,
};
