/* store.c - a plug-in, which is a store that the application brings (tenure/store.h), on the frame.
 *
 *   loop's thread             plug-in's thread, or the loop's      any thread
 *   submit --> job ---------> inbox, worker: ops.submit ---------> tenure_store_done
 *      done() <------ outbox, one wake-up of the loop <-----------/
 *
 * A job is the request as the application sees it. It stays until the application has answered,
 * even when its asker has lost patience or the store is closing: then nobody hears the answer.
 * The watches of a plug-in that has none are reads, a few times a second.
 * What can fail: the application's store, in its answers; memory, and then the request fails. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/plugin/private.h"

#define LOOK_EVERY_MS 200

/* The two enums have the same order. */
_Static_assert(TN_OP_REVOKE - TN_OP_OPEN == TENURE_STORE_REVOKE - TENURE_STORE_OPEN &&
                   TN_OP_ACQUIRE - TN_OP_OPEN == TENURE_STORE_ACQUIRE - TENURE_STORE_OPEN,
               "operations");
_Static_assert(TN_ANSWER_FULL - TN_ANSWER_OK == TENURE_STORE_FULL - TENURE_STORE_OK &&
                   TN_ANSWER_RELEASED - TN_ANSWER_OK == TENURE_STORE_RELEASED - TENURE_STORE_OK,
               "answers");

struct plugin_name {
    struct tn_store_name base;
    bool looking; /* A read is under way. */
};

struct plugin_store {
    struct tn_store base;
    const struct plugin_entry *plugin;
    void *theirs;         /* The application's. */
    pthread_mutex_t lock; /* Of the two queues. */
    pthread_cond_t filled;
    struct tn_list inbox, outbox;
    pthread_t thread;
    bool threaded;
    /* The rest is of the loop's thread. */
    uv_async_t wake;
    uv_timer_t timer;
    size_t out;                /* Jobs that the application has. */
    struct tn_list pending;    /* In the order of their patience: all have the same. */
    struct plugin_job *closer; /* Made beforehand: closing needs no memory. */
    tenure_ns answered_at;
};

/* --- Between the threads -------------------------------------------------------------------- */

static struct plugin_job *job_in_queue(struct tn_list_node *node)
{
    return (void *)((char *)node - offsetof(struct plugin_job, queued));
}

static struct plugin_job *first_pending(const struct plugin_store *store)
{
    struct tn_list_node *node = tn_list_first(&store->pending);

    return node != NULL ? (void *)((char *)node - offsetof(struct plugin_job, pending)) : NULL;
}

void tn_plugin_post(struct plugin_job *job)
{
    struct plugin_store *store = job->store;

    (void)pthread_mutex_lock(&store->lock);
    tn_list_add(&store->outbox, &job->queued);
    /* Inside the lock: once it is let go, the loop may have closed all of it. */
    (void)uv_async_send(&store->wake);
    (void)pthread_mutex_unlock(&store->lock);
}

static void take_all(struct plugin_store *store, struct tn_list *queue, struct tn_list *ret_jobs)
{
    tn_list_init(ret_jobs);
    (void)pthread_mutex_lock(&store->lock);
    tn_list_move(ret_jobs, queue);
    (void)pthread_mutex_unlock(&store->lock);
}

/* To the application, on whichever thread it is called. */
static void call_plugin(struct plugin_job *job)
{
    struct plugin_store *store = job->store;
    const struct tenure_store_ops *ops = &store->plugin->ops;

    if (job->kind == PLUGIN_REQUEST || job->kind == PLUGIN_LOOK)
        ops->submit(store->theirs, &job->request);
    else if (job->kind == PLUGIN_LIST)
        ops->list(store->theirs, job->name, (struct tenure_store_list *)job);
    else {
        if (job->kind == PLUGIN_WATCH)
            ops->watch(store->theirs, job->name, job->on);
        else
            ops->close(store->theirs);
        tn_plugin_post(job);
    }
}

static void *work(void *arg)
{
    struct plugin_store *store = arg;
    bool closed = false;

    while (!closed) {
        (void)pthread_mutex_lock(&store->lock);
        while (tn_list_first(&store->inbox) == NULL)
            (void)pthread_cond_wait(&store->filled, &store->lock);
        struct plugin_job *job = job_in_queue(tn_list_take(&store->inbox));
        (void)pthread_mutex_unlock(&store->lock);
        closed = job->kind == PLUGIN_CLOSE;
        call_plugin(job);
    }
    return NULL;
}

static void hand_in(struct plugin_job *job)
{
    struct plugin_store *store = job->store;

    store->out++;
    if (!store->threaded) {
        call_plugin(job);
        return;
    }
    (void)pthread_mutex_lock(&store->lock);
    tn_list_add(&store->inbox, &job->queued);
    (void)pthread_cond_signal(&store->filled);
    (void)pthread_mutex_unlock(&store->lock);
}

static struct plugin_job *job_new(struct plugin_store *store, enum plugin_job_kind kind,
                                  const char *name, size_t len)
{
    struct plugin_job *job = calloc(1, sizeof *job);

    if (job == NULL)
        return NULL;
    job->store = store;
    job->kind = kind;
    job->reply.status = TENURE_E_TIMEOUT;
    if (len > TN_NAME_MAX)
        len = TN_NAME_MAX;
    if (len > 0)
        memcpy(job->name, name, len);
    job->request.name = job->name;
    return job;
}

static void job_free(struct plugin_job *job)
{
    free(job->list.leases);
    free(job);
}

/* Somebody waits for it until its patience is over. */
static void job_start(struct plugin_job *job)
{
    struct plugin_store *store = job->store;

    job->give_up_at = tn_clock_now(store->base.how.clock) + store->base.how.patience;
    tn_list_add(&store->pending, &job->pending);
    hand_in(job);
}

/* --- Answers -------------------------------------------------------------------------------- */

void tn_plugin_record(const struct tenure_store_record *from, struct tn_store_record *ret_record)
{
    *ret_record = (struct tn_store_record) {
        .held = from->held, .token = from->token, .ttl = from->ttl, .remaining = from->remaining
    };
    memcpy(ret_record->term.bytes, from->term.bytes, sizeof from->term.bytes);
    ret_record->label_len = from->label_len <= TN_LABEL_MAX ? from->label_len : TN_LABEL_MAX;
    memcpy(ret_record->label, from->label, ret_record->label_len);
}

static void answer_request(struct plugin_job *job)
{
    struct tn_store_req *req = job->req;
    const struct tenure_store_reply *reply = &job->reply;
    bool known = reply->answer >= TENURE_STORE_OK && reply->answer <= TENURE_STORE_FULL;

    if (reply->status == 0 && known) {
        req->answer = (enum tn_answer)(reply->answer - TENURE_STORE_OK + TN_ANSWER_OK);
        req->ttl = reply->ttl;
        req->held = reply->held;
        tn_plugin_record(&reply->record, &req->record);
        tn_req_finish(req, 0, NULL);
    } else if (reply->status == 0) {
        tn_req_finish(req, TENURE_E_DAMAGED, "the store gave an answer that is none");
    } else {
        tn_req_finish(req, reply->status, job->error);
    }
}

static void answer_list(struct plugin_job *job)
{
    struct tn_store_query *query = job->query;

    query->leases = job->list.leases;
    query->count = job->list.count;
    query->no_memory = job->list.no_memory;
    job->list.leases = NULL;
    tn_query_done(query, job->reply.status, job->error[0] != '\0' ? job->error : NULL);
}

static void hear_look(struct plugin_store *store, const struct plugin_job *job)
{
    struct plugin_name *name =
        (struct plugin_name *)tn_store_name_find(&store->base, job->name, strlen(job->name));
    struct tn_store_record record;

    if (name == NULL)
        return;
    name->looking = false;
    tn_plugin_record(&job->reply.record, &record);
    if (job->reply.status == 0)
        tn_store_changed(&store->base, &name->base, &record);
}

static void hear_news(struct plugin_store *store, const struct plugin_job *job)
{
    struct tn_store_name *name = tn_store_name_find(&store->base, job->name, strlen(job->name));
    struct tn_store_record record;
    struct tn_secret term;

    memcpy(term.bytes, job->request.term.bytes, sizeof term.bytes);
    tn_plugin_record(&job->reply.record, &record);
    if (job->kind == PLUGIN_GRANTED)
        tn_store_granted(&store->base, job->name, &term, job->request.token);
    else if (job->kind == PLUGIN_REVOKED)
        tn_store_revoked(&store->base, job->name, job->request.token);
    else if (name != NULL)
        tn_store_changed(&store->base, name, &record);
}

static void close_plugin(struct plugin_store *store);

static void hear_job(struct plugin_store *store, struct plugin_job *job)
{
    tn_list_remove(&job->pending);
    store->out -= job->kind < PLUGIN_GRANTED;
    if (job->req != NULL)
        answer_request(job);
    else if (job->query != NULL)
        answer_list(job);
    else if (job->kind == PLUGIN_LOOK)
        hear_look(store, job);
    else if (job->kind >= PLUGIN_GRANTED)
        hear_news(store, job);
}

static void hear_wake(uv_async_t *async)
{
    struct plugin_store *store = async->data;
    struct tn_list_node *node;
    struct tn_list jobs;
    bool closed = false;

    /* Those that come meanwhile wake the loop again. */
    take_all(store, &store->outbox, &jobs);
    if (tn_list_first(&jobs) != NULL)
        store->answered_at = tn_clock_now(store->base.how.clock);
    while ((node = tn_list_take(&jobs)) != NULL) {
        struct plugin_job *job = job_in_queue(node);
        closed = closed || job->kind == PLUGIN_CLOSE;
        hear_job(store, job);
        job_free(job);
    }
    if (closed) {
        if (store->threaded)
            (void)pthread_join(store->thread, NULL);
        tn_store_end(&store->base);
    } else if (store->base.shut) {
        close_plugin(store);
    }
}

/* --- Patience, and watches that are reads --------------------------------------------------- */

/* Nobody waits for the first job any more; the application may still be at it. */
static void drop_first(struct plugin_store *store, int status, const char *why)
{
    struct plugin_job *job = first_pending(store);
    struct tn_store_req *req = job->req;
    struct tn_store_query *query = job->query;

    tn_list_remove(&job->pending);
    job->req = NULL;
    job->query = NULL;
    if (req != NULL)
        tn_req_finish(req, status, why);
    else
        tn_query_done(query, status, why);
}

/* Calls that may block are made one after the other: while they come back, waiting for one's turn
 * is not being left without an answer. */
static bool is_late(const struct plugin_store *store, const struct plugin_job *job, tenure_ns now)
{
    tenure_ns at = store->answered_at + store->base.how.patience;

    return now >= (store->threaded && at > job->give_up_at ? at : job->give_up_at);
}

/* Without memory: the next time. */
static void look_at(struct plugin_store *store, struct plugin_name *name)
{
    struct plugin_job *job = NULL;

    if (!name->looking && name->base.watchers > 0)
        job = job_new(store, PLUGIN_LOOK, name->base.text, strlen(name->base.text));
    if (job == NULL)
        return;
    job->request.op = TENURE_STORE_READ;
    name->looking = true;
    hand_in(job);
}

static void hear_timer(uv_timer_t *timer)
{
    struct plugin_store *store = timer->data;
    tenure_ns now = tn_clock_now(store->base.how.clock);
    struct tn_store_name *name = NULL;
    struct plugin_job *job;

    while (!store->base.closing && (job = first_pending(store)) != NULL && is_late(store, job, now))
        drop_first(store, TENURE_E_TIMEOUT, "the store has not answered; it may have happened");
    if (store->base.closing || store->plugin->ops.watch != NULL)
        return;
    while ((name = tn_store_name_next(&store->base, name)) != NULL)
        look_at(store, (struct plugin_name *)name);
}

/* --- The interface -------------------------------------------------------------------------- */

static void submit(struct tn_store *base, struct tn_store_req *req)
{
    struct plugin_store *store = (struct plugin_store *)base;
    const struct tn_op *op = &req->op;
    struct plugin_job *job = job_new(store, PLUGIN_REQUEST, op->name, op->name_len);

    if (job == NULL) {
        tn_req_refuse(base, req, TENURE_E_NOMEM, "out of memory");
        return;
    }
    tn_req_hash(req);
    job->req = req;
    job->request.op = (enum tenure_store_op)(op->kind - TN_OP_OPEN + TENURE_STORE_OPEN);
    memcpy(job->request.session.bytes, &req->session_hash, sizeof job->request.session.bytes);
    memcpy(job->request.term.bytes, &req->term_hash, sizeof job->request.term.bytes);
    job->request.wait = op->wait;
    job->request.seq = op->seq;
    job->request.token = op->token;
    job->request.ttl = op->ttl;
    if (op->label_len > 0)
        memcpy(job->label, op->label, op->label_len);
    job->request.label = job->label;
    job->request.label_len = op->label_len;
    job_start(job);
}

static int watched(struct tn_store *base, struct tn_store_name *name, bool on)
{
    struct plugin_store *store = (struct plugin_store *)base;

    if (store->plugin->ops.watch == NULL) {
        look_at(store, (struct plugin_name *)name);
        return 0;
    }
    struct plugin_job *job = job_new(store, PLUGIN_WATCH, name->text, strlen(name->text));
    if (job == NULL)
        return TENURE_E_NOMEM;
    job->on = on;
    hand_in(job);
    return 0;
}

static void ask(struct tn_store *base, struct tn_store_query *query)
{
    struct plugin_store *store = (struct plugin_store *)base;
    struct plugin_job *job = NULL;

    if (store->plugin->ops.list == NULL) {
        tn_query_refuse(base, query, TENURE_E_UNSUPPORTED, "this store has no list of names");
        return;
    }
    job = job_new(store, PLUGIN_LIST, query->prefix, strlen(query->prefix));
    if (job == NULL) {
        tn_query_refuse(base, query, TENURE_E_NOMEM, "out of memory");
        return;
    }
    job->query = query;
    job_start(job);
}

/* --- Opening and closing -------------------------------------------------------------------- */

/* Once the application has given back all that it had. */
static void close_plugin(struct plugin_store *store)
{
    struct plugin_job *closer = store->closer;

    if (closer == NULL || store->out > 0)
        return;
    store->closer = NULL;
    hand_in(closer);
}

/* What was asked is answered; what has not reached the application does not any more. */
static void shut(struct tn_store *base)
{
    struct plugin_store *store = (struct plugin_store *)base;
    struct tn_list_node *node;
    struct tn_list jobs;

    while (first_pending(store) != NULL)
        drop_first(store, TENURE_E_CLOSED, "the store is closed");
    take_all(store, &store->inbox, &jobs);
    while ((node = tn_list_take(&jobs)) != NULL) {
        store->out--;
        job_free(job_in_queue(node));
    }
    close_plugin(store);
}

static void free_rest(struct tn_store *base)
{
    struct plugin_store *store = (struct plugin_store *)base;

    (void)pthread_cond_destroy(&store->filled);
    (void)pthread_mutex_destroy(&store->lock);
    free(store->closer);
}

static int start_thread(struct plugin_store *store)
{
    sigset_t all, before;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&store->thread, NULL, work, store);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    store->threaded = rc == 0;
    return rc == 0 ? 0 : TENURE_E_UNAVAILABLE;
}

static struct plugin_store *store_new(const struct plugin_entry *plugin,
                                      const struct tn_store_open *how, struct tn_text *reterr)
{
    struct plugin_store *store = tn_store_new(sizeof *store, &plugin->internal, how, reterr);

    if (store == NULL)
        return NULL;
    store->plugin = plugin;
    tn_list_init(&store->inbox);
    tn_list_init(&store->outbox);
    tn_list_init(&store->pending);
    (void)pthread_mutex_init(&store->lock, NULL);
    (void)pthread_cond_init(&store->filled, NULL);
    store->closer = job_new(store, PLUGIN_CLOSE, "", 0);
    return store;
}

static int open_store(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    const struct plugin_entry *plugin =
        (const void *)((const char *)ops - offsetof(struct plugin_entry, internal));
    struct plugin_store *store = store_new(plugin, how, reterr);
    struct tenure_error error = { 0 };

    if (store == NULL)
        return TENURE_E_NOMEM;
    if (store->closer == NULL)
        return tn_store_discard(&store->base, TENURE_E_NOMEM, "out of memory", reterr);
    if (uv_async_init(how->loop, &store->wake, hear_wake) != 0)
        return tn_store_discard(&store->base, TENURE_E_NOMEM, "no descriptor is left for the loop",
                                reterr);
    tn_store_add_handle(&store->base, &store->wake);
    (void)uv_timer_init(how->loop, &store->timer);
    tn_store_add_handle(&store->base, &store->timer);
    struct tenure_store_open open = { .size = sizeof open,
                                      .url = how->url,
                                      .rest = how->rest,
                                      .create = how->create,
                                      .patience = store->base.how.patience,
                                      .host = (struct tenure_store_host *)store };
    int rc = plugin->ops.open(&open, &store->theirs, &error);
    if (rc > 0)
        rc = TENURE_E_DAMAGED;
    if (rc == 0 && (plugin->ops.caps & TENURE_STORE_BLOCKS) != 0) {
        rc = start_thread(store);
        if (rc < 0)
            plugin->ops.close(store->theirs);
    }
    if (rc < 0)
        return tn_store_discard(&store->base, rc,
                                error.text[0] != '\0' ? error.text : tenure_strerror(rc), reterr);
    (void)uv_timer_start(&store->timer, hear_timer, LOOK_EVERY_MS, LOOK_EVERY_MS);
    *ret_store = &store->base;
    return 0;
}

const struct tn_store_ops tn_plugin_ops = {
    .open = open_store,
    .submit = submit,
    .watch = tn_store_watch,
    .list = tn_store_list,
    .close = tn_store_close,
    .name_size = sizeof(struct plugin_name),
    .watched = watched,
    .ask = ask,
    .shut = shut,
    .free = free_rest,
};
