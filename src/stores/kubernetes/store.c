/* store.c - Leases as rows: get, put, list, and a watch of the namespace or of one name.
 *
 * Happy path: a read keeps the whole Lease, because a write sends it back with what is not ours; a
 * write names the UID and resourceVersion that were read. One watch shows all changes, so that a
 * candidate waits without asking.
 * What can fail: a write without an answer, or with one that no API server would give, has an
 * unknown outcome; the recipe reads what became of it. */
#define _GNU_SOURCE
#include "stores/kubernetes/kubernetes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/plan.h"
#include "net/kube_access.h"
#include "stores/kubernetes/lease.h"
#include "stores/rows/rows.h"

#define ROOT "/apis/coordination.k8s.io/v1/namespaces/"
#define CALL_TIME TN_SEC(10)
#define CALL_QUERY "timeout=10s" /* So that the server, too, gives up then. */
#define DOC_TIME TN_SEC(3600)

enum {
    BODY_MAX = 16 << 20,
    WATCH_SECONDS = 240,
    PAGE = 500,
    BACKOFF_MAX = 5, /* Seconds. Every name that is watched is read that often meanwhile. */
};

/* A Lease as the server sent it. */
struct kube_doc {
    struct kube_doc *next;
    char *bytes;
    struct tn_json_value *values;
    struct tn_kube_lease lease;
    tenure_ns used_at;
};

/* One watch, of one name if there is only one. */
struct kube_feed {
    struct tn_kube_call call;
    bool running;
    unsigned failures;
    char selector[TN_KUBE_NAME]; /* Empty: the whole namespace. */
    char version[24];            /* Where to go on; empty: from the present state. */
    bool listing;                /* The present state is being read, for a version to go on from. */
    bool refused;                /* It ended by an event that says so. */
    struct tn_kube_lines lines;
};

struct kube_store {
    struct tn_rows_store base;
    struct tn_kube_api *api;
    struct kube_doc *docs;
    struct kube_feed feed;
    char namespace[TN_KUBE_NAMESPACE_MAX + 1];
    struct tn_kube_access access;
};

/* A read or write under way. */
struct kube_io {
    struct tn_kube_call call;
    struct kube_store *store;
    struct tn_rows_io *io;
    bool creates;
};

static tenure_ns now_of(const struct kube_store *store)
{
    return tn_clock_now(store->base.base.how.clock);
}

/* --- What was read ---------------------------------------------------------------------------- */

static struct kube_doc **find_doc(struct kube_store *store, const char *name)
{
    struct kube_doc **link = &store->docs;

    while (*link != NULL && strcmp((*link)->lease.name, name) != 0)
        link = &(*link)->next;
    return link;
}

static void drop_doc(struct kube_doc **link)
{
    struct kube_doc *doc = *link;

    *link = doc->next;
    free(doc->bytes);
    free(doc->values);
    free(doc);
}

/* Keep the answer's Lease for the next write to it. NULL: it is none, or not that of @name. */
static struct kube_doc *keep_doc(struct kube_store *store, const struct tn_kube_call *call,
                                 const char *name, const char *claimant)
{
    struct kube_doc *doc = calloc(1, sizeof *doc);

    for (struct kube_doc **link = &store->docs; *link != NULL;)
        if (strcmp((*link)->lease.name, name) == 0 || (*link)->used_at + DOC_TIME < now_of(store))
            drop_doc(link);
        else
            link = &(*link)->next;
    if (doc == NULL)
        return NULL;
    doc->next = store->docs;
    doc->used_at = now_of(store);
    store->docs = doc;
    doc->bytes = malloc(call->body_len + 1);
    if (doc->bytes != NULL) {
        memcpy(doc->bytes, call->body, call->body_len);
        doc->values = tn_kube_parse(doc->bytes, call->body_len);
    }
    if (doc->values != NULL && tn_kube_lease_read(doc->values, 0, claimant, &doc->lease) &&
        strcmp(doc->lease.name, name) == 0)
        return doc;
    drop_doc(&store->docs);
    return NULL;
}

/* --- Reads and writes ------------------------------------------------------------------------- */

static bool is_missing(const struct tn_kube_call *call)
{
    return call->http == 404 && strcmp(call->reason, "NotFound") == 0 &&
           strcmp(call->about, "leases") == 0;
}

static void set_path(struct tn_kube_call *call, const struct kube_store *store, const char *object,
                     const char *query)
{
    (void)snprintf(call->path, sizeof call->path, ROOT "%s/leases%s%s?%s", store->namespace,
                   object[0] != '\0' ? "/" : "", object, query);
}

static struct kube_io *new_io(struct kube_store *store, struct tn_rows_io *io, const char *method,
                              void (*done)(struct tn_kube_call *call))
{
    struct kube_io *job = calloc(1, sizeof *job);
    char object[TN_KUBE_NAME];

    if (job == NULL)
        return NULL;
    job->store = store;
    job->io = io;
    job->call.method = method;
    job->call.done = done;
    job->call.web.timeout = CALL_TIME;
    job->call.web.body_max = BODY_MAX;
    tn_kube_name(tn_rows_io_name(io), strlen(tn_rows_io_name(io)), object);
    set_path(&job->call, store, object, CALL_QUERY);
    return job;
}

static void get_done(struct tn_kube_call *call)
{
    struct kube_io *job = (struct kube_io *)(void *)call;
    struct kube_doc *doc = NULL;

    if (call->status == 0)
        doc = keep_doc(job->store, call, tn_rows_io_name(job->io), tn_rows_io_label(job->io));
    if (doc != NULL)
        tn_rows_io_got(job->io, &doc->lease.row, doc->lease.version);
    else if (call->status == 0)
        tn_rows_io_failed(job->io, "kubernetes: the answer is no Lease; is this an API server?");
    else if (is_missing(call))
        tn_rows_io_got(job->io, NULL, NULL);
    else if (call->status == TENURE_E_DENIED)
        tn_rows_io_denied(job->io, call->error);
    else
        tn_rows_io_failed(job->io, call->error);
    free(job);
}

static void kube_get(struct tn_rows_store *base, struct tn_rows_io *io)
{
    struct kube_store *store = (struct kube_store *)base;
    struct kube_io *job = new_io(store, io, "GET", get_done);

    if (job == NULL)
        tn_rows_io_failed(io, "out of memory");
    else
        tn_kube_start(store->api, &job->call);
}

static enum tn_rows_outcome outcome_of(const struct tn_kube_call *call)
{
    if (call->http == 409 || is_missing(call))
        return TN_ROWS_CONFLICT;
    if (call->status == TENURE_E_TIMEOUT || call->status == TENURE_E_CLOSED ||
        call->status == TENURE_E_DAMAGED || call->status == 0)
        return TN_ROWS_UNKNOWN; /* A gateway may say anything after the server has done it. */
    return TN_ROWS_FAILED;
}

static void put_done(struct tn_kube_call *call)
{
    struct kube_io *job = (struct kube_io *)(void *)call;
    struct kube_doc *doc = NULL;

    if (call->status == 0)
        doc = keep_doc(job->store, call, tn_rows_io_name(job->io), NULL);
    if (doc != NULL && job->creates) /* It is there now, and nobody has it: judge it again. */
        tn_rows_io_put(job->io, TN_ROWS_CONFLICT, NULL, NULL);
    else if (doc != NULL)
        tn_rows_io_put(job->io, TN_ROWS_WRITTEN, doc->lease.version, NULL);
    else if (call->status == TENURE_E_DENIED)
        tn_rows_io_denied(job->io, call->error);
    else
        tn_rows_io_put(job->io, outcome_of(call), NULL,
                       call->status != 0 ? call->error : "kubernetes: the answer is no Lease");
    free(job);
}

/* The Lease as it is to be, in a text of its own. NULL: out of memory. */
static char *make_body(const struct kube_doc *doc, const char *name, const struct tn_row *row)
{
    struct tn_kube_wall wall;
    struct timespec instant;
    struct tn_text text = { .truncated = true };
    char *bytes = NULL;

    (void)clock_gettime(CLOCK_REALTIME, &instant); /* For people, and for client-go. */
    wall.seconds = instant.tv_sec;
    wall.micros = (uint32_t)(instant.tv_nsec / 1000);
    for (size_t size = 8192; text.truncated && size <= BODY_MAX; size *= 4) {
        free(bytes);
        bytes = malloc(size);
        if (bytes == NULL)
            return NULL;
        tn_text_init(&text, bytes, size);
        if (doc != NULL)
            tn_kube_lease_write(&text, doc->values, 0, &doc->lease, row, &wall);
        else
            tn_kube_lease_create(&text, name);
    }
    return bytes;
}

static void kube_put(struct tn_rows_store *base, struct tn_rows_io *io, const struct tn_row *row,
                     const char *if_version)
{
    struct kube_store *store = (struct kube_store *)base;
    const char *name = tn_rows_io_name(io);
    bool creates = if_version[0] == '\0';
    struct kube_doc *doc = creates ? NULL : *find_doc(store, name);

    if (!creates && (doc == NULL || strcmp(doc->lease.version, if_version) != 0)) {
        tn_rows_io_put(io, TN_ROWS_CONFLICT, NULL, NULL); /* Read it again. */
        return;
    }
    if (row->held && tn_secret_is_zero(&row->session)) {
        tn_rows_io_put(io, TN_ROWS_FAILED, NULL,
                       "kubernetes: the holder is a client that cannot be asked to give the lease "
                       "back; stop it, or delete its pod");
        return;
    }
    struct kube_io *job = new_io(store, io, creates ? "POST" : "PUT", put_done);
    if (job != NULL)
        job->call.send = make_body(doc, name, row);
    if (job == NULL || job->call.send == NULL) {
        free(job);
        tn_rows_io_put(io, TN_ROWS_FAILED, NULL, "out of memory");
        return;
    }
    job->creates = creates;
    if (creates)
        set_path(&job->call, store, "", CALL_QUERY);
    tn_kube_start(store->api, &job->call);
}

/* --- All names -------------------------------------------------------------------------------- */

struct kube_list {
    struct tn_kube_call call;
    struct kube_store *store;
    tn_store_listed *done;
    void *arg;
    struct tn_store_lease *leases;
    size_t count;
    char prefix[TN_NAME_MAX + 2];
};

static bool add_page(struct kube_list *list, const struct tn_json_value *values)
{
    const struct tn_json_value *items =
        values[0].type == TN_JSON_OBJECT ? tn_json_get(values, 0, "items") : NULL;
    struct tn_kube_lease lease;

    if (items == NULL || items->type != TN_JSON_ARRAY)
        return false;
    void *more = realloc(list->leases, (list->count + items->count + 1) * sizeof *list->leases);
    if (more == NULL)
        return false;
    list->leases = more;
    uint32_t at = (uint32_t)(items - values) + 1;
    for (uint32_t i = 0; i < items->count; i++, at = values[at].next) {
        if (!tn_kube_lease_read(values, at, NULL, &lease) || lease.name[0] == '\0' ||
            strncmp(lease.name, list->prefix, strlen(list->prefix)) != 0)
            continue;
        struct tn_store_lease *to = &list->leases[list->count++];
        memcpy(to->name, lease.name, sizeof to->name);
        tn_rows_record(&lease.row, lease.version, &to->record);
    }
    return true;
}

/* More pages: the next, of the same instant. */
static bool next_page(struct kube_list *list, const struct tn_json_value *values)
{
    char query[1024], next[512];
    struct tn_text text;

    if (!tn_json_text(values, tn_json_object(values, 0, "metadata"), "continue", next,
                      sizeof next) ||
        next[0] == '\0')
        return false;
    tn_text_init(&text, query, sizeof query);
    tn_text_addf(&text, "limit=%d&continue=", PAGE);
    tn_web_escape(&text, next, strlen(next), "");
    set_path(&list->call, list->store, "", query);
    tn_kube_start(list->store->api, &list->call);
    return true;
}

static void list_done(struct tn_kube_call *call)
{
    struct kube_list *list = (struct kube_list *)(void *)call;
    struct tn_json_value *values =
        call->status == 0 ? tn_kube_parse(call->body, call->body_len) : NULL;
    bool read = values != NULL && add_page(list, values);
    bool more = read && next_page(list, values);

    free(values);
    if (more)
        return;
    if (read) {
        tn_store_sort(list->leases, list->count);
        list->done(list->arg, 0, list->leases, list->count, NULL);
    } else {
        free(list->leases);
        list->done(list->arg, call->status != 0 ? call->status : TENURE_E_DAMAGED, NULL, 0,
                   call->status != 0 ? call->error : "kubernetes: the answer is no list of Leases");
    }
    free(list);
}

static void kube_list(struct tn_rows_store *base, const char *prefix, tn_store_listed *done,
                      void *arg)
{
    struct kube_list *list = calloc(1, sizeof *list);

    if (list == NULL) {
        done(arg, TENURE_E_NOMEM, NULL, 0, "out of memory");
        return;
    }
    list->store = (struct kube_store *)base;
    list->done = done;
    list->arg = arg;
    (void)snprintf(list->prefix, sizeof list->prefix, "%s", prefix);
    list->call.method = "GET";
    list->call.done = list_done;
    list->call.web.timeout = CALL_TIME;
    list->call.web.body_max = BODY_MAX;
    set_path(&list->call, list->store, "", "limit=500");
    tn_kube_start(list->store->api, &list->call);
}

/* --- The feed --------------------------------------------------------------------------------- */

static bool hear_lease(struct kube_store *store, const struct tn_json_value *values, uint32_t at,
                       bool deleted)
{
    struct kube_feed *feed = &store->feed;
    struct tn_kube_lease lease;

    if (!tn_kube_lease_read(values, at, NULL, &lease))
        return false;
    (void)snprintf(feed->version, sizeof feed->version, "%s", strchr(lease.version, '/') + 1);
    const struct kube_doc *doc = *find_doc(store, lease.name);
    if (lease.name[0] == '\0' || (doc != NULL && lease.number < doc->lease.number))
        return true; /* No name of ours, or a read was faster. */
    tn_rows_saw(&store->base, lease.name, deleted ? NULL : &lease.row,
                deleted ? "" : lease.version);
    return true;
}

/* One event. False: the watch is over. */
static bool hear_event(void *arg, const struct tn_json_value *values)
{
    struct kube_store *store = arg;
    const struct tn_json_value *type =
        values[0].type == TN_JSON_OBJECT ? tn_json_get(values, 0, "type") : NULL;
    const struct tn_json_value *object = type != NULL ? tn_json_get(values, 0, "object") : NULL;
    struct kube_feed *feed = &store->feed;

    if (object == NULL || object->type != TN_JSON_OBJECT || tn_json_is(type, "ERROR")) {
        feed->refused = true; /* 410: what happened since is forgotten; begin with what is. */
        return false;
    }
    if (tn_json_is(type, "BOOKMARK")) {
        (void)tn_json_text(values, tn_json_object(values, (uint32_t)(object - values), "metadata"),
                           "resourceVersion", feed->version, sizeof feed->version);
        return true;
    }
    if (!hear_lease(store, values, (uint32_t)(object - values), tn_json_is(type, "DELETED")))
        return false;
    feed->failures = 0;
    return true;
}

/* The present state: what the watch goes on from. */
static bool hear_state(struct kube_store *store, const struct tn_json_value *values)
{
    const struct tn_json_value *meta = tn_json_object(values, 0, "metadata");
    const struct tn_json_value *items = meta != NULL ? tn_json_get(values, 0, "items") : NULL;
    struct kube_feed *feed = &store->feed;

    if (items == NULL || items->type != TN_JSON_ARRAY)
        return false;
    uint32_t at = (uint32_t)(items - values) + 1;
    for (uint32_t i = 0; i < items->count; i++, at = values[at].next)
        (void)hear_lease(store, values, at, false);
    return tn_json_text(values, meta, "resourceVersion", feed->version, sizeof feed->version);
}

static int feed_data(struct tn_web_req *web, const char *bytes, size_t len)
{
    struct kube_store *store = ((struct tn_kube_call *)(void *)web)->arg;

    return tn_kube_lines_add(&store->feed.lines, bytes, len, hear_event, store) ? 0 : 1;
}

static void start_feed(struct kube_store *store);

static void feed_done(struct tn_kube_call *call)
{
    struct kube_store *store = call->arg;
    struct kube_feed *feed = &store->feed;
    bool regular = call->status == 0 && !feed->refused;

    feed->running = false;
    tn_kube_lines_clear(&feed->lines);
    if (regular && feed->listing) {
        struct tn_json_value *values = tn_kube_parse(call->body, call->body_len);
        regular = values != NULL && hear_state(store, values);
        free(values);
    }
    if (!regular) { /* A server that was restored would say nothing to a version of its future. */
        feed->version[0] = '\0';
        feed->failures += (call->status != TENURE_E_CLOSED || feed->refused) && feed->failures < 8;
        if (!store->base.base.closing)
            tn_rows_feed_lost(&store->base);
    }
    start_feed(store);
}

static void start_feed(struct kube_store *store)
{
    struct kube_feed *feed = &store->feed;
    struct tn_kube_call *call = &feed->call;
    const char *name = NULL;
    size_t count = tn_rows_watched(&store->base, &name);
    char query[512], selector[TN_KUBE_NAME] = "";
    struct tn_text text;

    if (feed->running || count == 0 || store->base.base.closing)
        return;
    if (count == 1)
        tn_kube_name(name, strlen(name), selector);
    if (strcmp(selector, feed->selector) != 0)
        feed->version[0] = '\0';
    memcpy(feed->selector, selector, sizeof selector);
    feed->listing = feed->version[0] == '\0';
    feed->refused = false;
    tn_text_init(&text, query, sizeof query);
    if (feed->listing)
        tn_text_addf(&text, "limit=%d&" CALL_QUERY, PAGE);
    else
        tn_text_addf(&text, "watch=1&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s",
                     WATCH_SECONDS, feed->version);
    if (count == 1)
        tn_text_addf(&text, "&fieldSelector=metadata.name%%3D%s", selector);
    *call = (struct tn_kube_call) { .method = "GET", .done = feed_done, .arg = store };
    call->web.timeout = feed->listing ? CALL_TIME : TN_SEC(WATCH_SECONDS + 30);
    call->web.body_max = BODY_MAX;
    call->web.data = feed->listing ? NULL : feed_data;
    unsigned wait = feed->failures == 0 ? 0 : 1U << (feed->failures - 1);
    call->not_before = now_of(store) + TN_SEC(wait < BACKOFF_MAX ? wait : BACKOFF_MAX);
    set_path(call, store, "", query);
    feed->running = true;
    tn_kube_start(store->api, call);
}

/* Other names than before: the watch of one name becomes one of the namespace, or ends. */
static void kube_watch(struct tn_rows_store *base)
{
    struct kube_store *store = (struct kube_store *)base;
    const char *name = NULL;
    size_t count = tn_rows_watched(base, &name);
    char selector[TN_KUBE_NAME] = "";

    if (count == 1)
        tn_kube_name(name, strlen(name), selector);
    if (!store->feed.running)
        start_feed(store);
    else if (count == 0 ||
             (store->feed.selector[0] != '\0' && strcmp(store->feed.selector, selector) != 0))
        tn_kube_cancel(&store->feed.call);
}

/* --- Opening and closing ---------------------------------------------------------------------- */

static void api_closed(void *arg)
{
    struct kube_store *store = arg;

    while (store->docs != NULL)
        drop_doc(&store->docs);
    tn_rows_shut(&store->base);
}

static void kube_shut(struct tn_rows_store *base)
{
    struct kube_store *store = (struct kube_store *)base;

    tn_kube_api_close(store->api, api_closed, store);
}

static const struct tn_rows_engine engine = { .get = kube_get,
                                              .put = kube_put,
                                              .list = kube_list,
                                              .shut = kube_shut,
                                              .watch = kube_watch,
                                              .poll_every = TN_SEC(30) };

static void kube_facts(const struct tn_store *base, struct tn_store_facts *ret_facts)
{
    const struct kube_store *store = (const struct kube_store *)base;

    *ret_facts = (struct tn_store_facts) { store->access.version, store->access.warning };
}

static void kube_learn(struct tn_store *base, tn_store_done *done, void *arg)
{
    struct kube_store *store = (struct kube_store *)base;

    tn_kube_access(store->api, store->namespace, &store->access, done, arg);
}

static int kube_open(const struct tn_store_ops *ops, const struct tn_store_open *how,
                     struct tn_store **ret_store, struct tn_text *reterr)
{
    struct tn_kube_config config;
    struct tn_kube_api *api;
    char namespace[TN_KUBE_NAMESPACE_MAX + 1];

    int rc = tn_kube_config_open(&config, how->rest, reterr);
    if (rc != 0)
        return rc;
    (void)snprintf(namespace, sizeof namespace, "%s", config.namespace);
    rc = tn_kube_api_open(how->loop, how->clock->now, how->clock->arg, &config, &api, reterr);
    if (rc != 0)
        return rc;
    struct kube_store *store = tn_rows_open(sizeof *store, ops, &engine, how, reterr);
    if (store == NULL) {
        tn_kube_api_close(api, NULL, NULL);
        return TENURE_E_NOMEM;
    }
    store->api = api;
    memcpy(store->namespace, namespace, sizeof namespace);
    *ret_store = &store->base.base;
    return 0;
}

const struct tn_store_ops tn_kubernetes_store_ops = {
    .scheme = "kubernetes",
    .caps = TN_STORE_LINGERS | TN_STORE_PER_NAME | TN_STORE_BOUND,
    .ttl_min = TN_SEC(5), /* A write may take a few tenths of a second; and client-go sees renewals
                             that are a second apart. */
    .ttl_max = TN_SEC(86400),
    .open = kube_open,
    TN_ROWS_OPS,
    .facts = kube_facts,
    .learn = kube_learn,
    .rights = tn_kube_role,
    .class_why = "the API server compares versions on etcd, which is linearizable and durable",
    .clock_why = "candidates observe the holder by their own clocks; no other counts",
    .restored = "raise the floor: kubectl annotate --overwrite lease NAME tenure/floor=%",
};
