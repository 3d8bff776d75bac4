/* store.c - Leases as rows: get, put, list, and a watch of the namespace or of one name.
 *
 * Happy path: a read keeps the whole Lease, because a write sends it back with what is not ours; a
 * write names the UID and resourceVersion that were read. One watch shows all changes, so that a
 * candidate waits without asking.
 * What can fail: a write without an answer, or with one that no API server would give, has an
 * unknown outcome; the recipe reads what became of it. */
#define _GNU_SOURCE
#include "stores/kubernetes/kubernetes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/kube_access.h"
#include "net/kube_watch.h"
#include "stores/kubernetes/lease.h"
#include "stores/rows/rows.h"

#define ROOT "/apis/coordination.k8s.io/v1/namespaces/%s/leases"
#define CALL_TIME TN_SEC(10)
#define CALL_QUERY "timeout=10s" /* So that the server, too, gives up then. */
#define DOC_TIME TN_SEC(3600)
#define POLL_EVERY TN_SEC(30) /* Beside the watch, which a restored server leaves silent. */

/* A Lease as the server sent it. */
struct kube_doc {
    struct kube_doc *next;
    char *bytes;
    size_t len;
    struct tn_json_value *values;
    struct tn_kube_lease lease;
    tenure_ns used_at;
};

struct kube_store {
    struct tn_rows_store base;
    struct tn_kube_api *api;
    struct kube_doc *docs;
    struct tn_kube_watch feed;
    char namespace[TN_KUBE_NAMESPACE_MAX + 1];
    struct tn_kube_access access;
};

/* A read or write under way. */
struct kube_io {
    struct tn_kube_call call;
    struct kube_store *store;
    struct tn_rows_io *io;
    char nonce[TN_KUBE_NONCE]; /* Of the row that is written. */
    bool creates;
};

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

/* Keep the answer's Lease for the next write to it. NULL: it has none, or not that of @name. */
static struct kube_doc *keep_doc(struct kube_store *store, const struct tn_kube_call *call,
                                 const char *name, const char *claimant)
{
    struct kube_doc *doc = call->status == 0 ? calloc(1, sizeof *doc) : NULL;

    if (doc == NULL)
        return NULL;
    for (struct kube_doc **link = &store->docs; *link != NULL;)
        if (strcmp((*link)->lease.name, name) == 0 ||
            (*link)->used_at + DOC_TIME < tn_kube_now(store->api))
            drop_doc(link);
        else
            link = &(*link)->next;
    doc->next = store->docs;
    doc->used_at = tn_kube_now(store->api);
    store->docs = doc;
    doc->len = call->body_len;
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

static void set_path(struct tn_kube_call *call, const struct kube_store *store, const char *object)
{
    (void)snprintf(call->path, sizeof call->path, ROOT "%s%s?" CALL_QUERY, store->namespace,
                   object[0] != '\0' ? "/" : "", object);
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
    job->call.web.body_max = TN_KUBE_BODY_MAX;
    tn_kube_name(tn_rows_io_name(io), strlen(tn_rows_io_name(io)), object);
    set_path(&job->call, store, object);
    return job;
}

static void get_done(struct tn_kube_call *call)
{
    struct kube_io *job = (struct kube_io *)(void *)call;
    const struct kube_doc *doc =
        keep_doc(job->store, call, tn_rows_io_name(job->io), tn_rows_io_label(job->io));

    if (doc != NULL)
        tn_rows_io_got(job->io, &doc->lease.row, doc->lease.version);
    else if (call->status == 0)
        tn_rows_io_failed(job->io, TENURE_E_UNAVAILABLE,
                          "kubernetes: the answer is no Lease; is this an API server?");
    else if (is_missing(call))
        tn_rows_io_got(job->io, NULL, NULL);
    else
        tn_rows_io_failed(job->io, call->status, call->error);
    free(job);
}

static void kube_get(struct tn_rows_store *base, struct tn_rows_io *io)
{
    struct kube_store *store = (struct kube_store *)base;
    struct kube_io *job = new_io(store, io, "GET", get_done);

    if (job == NULL)
        tn_rows_io_failed(io, TENURE_E_NOMEM, "out of memory");
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
    const struct kube_doc *doc = keep_doc(job->store, call, tn_rows_io_name(job->io), NULL);

    if (doc != NULL && job->creates) /* It is there now, and nobody has it: judge it again. */
        tn_rows_io_put(job->io, TN_ROWS_CONFLICT, NULL, NULL);
    else if (doc != NULL && strcmp(doc->lease.nonce, job->nonce) != 0) /* An older answer. */
        tn_rows_io_put(job->io, TN_ROWS_UNKNOWN, NULL,
                       "kubernetes: the answer is not to this write; the network repeats an older "
                       "one");
    else if (doc != NULL)
        tn_rows_io_put(job->io, TN_ROWS_WRITTEN, doc->lease.version, NULL);
    else if (call->status == TENURE_E_DENIED)
        tn_rows_io_failed(job->io, TENURE_E_DENIED, call->error);
    else
        tn_rows_io_put(job->io, outcome_of(call), NULL,
                       call->status != 0 ? call->error : "kubernetes: the answer is no Lease");
    free(job);
}

/* The Lease as it is to be, in a text of its own. NULL: out of memory. */
static char *make_body(const struct kube_doc *doc, const char *name, const struct tn_row *row)
{
    size_t size = 8192 + (doc != NULL ? 6 * doc->len : 0); /* Escaped, a byte has up to six. */
    char *bytes = malloc(size);
    struct timespec instant;
    struct tn_text text;

    if (bytes == NULL)
        return NULL;
    (void)clock_gettime(CLOCK_REALTIME, &instant); /* For people, and for client-go. */
    tn_text_init(&text, bytes, size);
    if (doc != NULL)
        tn_kube_lease_write(&text, doc->values, 0, &doc->lease, row, &instant);
    else
        tn_kube_lease_create(&text, name);
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
    tn_kube_nonce(row, job->nonce);
    job->creates = creates;
    if (creates)
        set_path(&job->call, store, "");
    tn_kube_start(store->api, &job->call);
}

/* --- All names -------------------------------------------------------------------------------- */

struct kube_listing {
    struct tn_kube_list list;
    struct tn_rows_listing rows;
};

static bool add_lease(void *arg, const struct tn_json_value *values, uint32_t at)
{
    struct kube_listing *listing = arg;
    struct tn_kube_lease lease;

    return !tn_kube_lease_read(values, at, NULL, &lease) || lease.name[0] == '\0' ||
           tn_rows_listing_add(&listing->rows, lease.name, &lease.row, lease.version);
}

static void listing_done(struct tn_kube_list *list)
{
    struct kube_listing *listing = (struct kube_listing *)(void *)list;

    tn_rows_listing_end(&listing->rows, list->call.status, list->call.error);
    free(listing);
}

static void kube_list(struct tn_rows_store *base, const char *prefix, tn_store_listed *done,
                      void *arg)
{
    const struct kube_store *store = (struct kube_store *)base;
    struct kube_listing *listing = calloc(1, sizeof *listing);

    if (listing == NULL) {
        done(arg, TENURE_E_NOMEM, NULL, 0, "out of memory");
        return;
    }
    tn_rows_listing_begin(&listing->rows, prefix, done, arg);
    listing->list.item = add_lease;
    listing->list.done = listing_done;
    listing->list.arg = listing;
    (void)snprintf(listing->list.path, sizeof listing->list.path, ROOT, store->namespace);
    tn_kube_list(store->api, &listing->list);
}

/* --- The feed --------------------------------------------------------------------------------- */

static bool hear_lease(void *arg, const struct tn_json_value *values, uint32_t at, bool deleted)
{
    struct kube_store *store = arg;
    struct tn_kube_lease lease;

    if (!tn_kube_lease_read(values, at, NULL, &lease))
        return false;
    if (lease.name[0] != '\0') /* Else it is no name of ours. */
        tn_rows_saw(&store->base, lease.name, deleted ? NULL : &lease.row, lease.version);
    return true;
}

static void hear_loss(void *arg)
{
    struct kube_store *store = arg;

    if (!store->base.base.closing)
        tn_rows_feed_lost(&store->base);
}

/* One watch shows all names: the Lease itself if only one is watched, else the namespace. */
static void kube_watch(struct tn_rows_store *base)
{
    struct kube_store *store = (struct kube_store *)base;
    const char *name = NULL;
    size_t count = tn_rows_watched(base, &name);
    char object[TN_KUBE_NAME] = "";

    if (count == 1)
        tn_kube_name(name, strlen(name), object);
    tn_kube_watch_set(&store->feed, count > 0 ? object : NULL);
}

static void kube_refeed(struct tn_rows_store *base)
{
    tn_kube_watch_again(&((struct kube_store *)base)->feed);
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

    tn_kube_watch_set(&store->feed, NULL);
    tn_kube_api_close(store->api, api_closed, store);
}

static const struct tn_rows_engine engine = { .get = kube_get,
                                              .put = kube_put,
                                              .list = kube_list,
                                              .shut = kube_shut,
                                              .watch = kube_watch,
                                              .refeed = kube_refeed,
                                              .poll_every = POLL_EVERY };

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
    store->feed =
        (struct tn_kube_watch) { .api = api, .item = hear_lease, .lost = hear_loss, .arg = store };
    (void)snprintf(store->feed.list.path, sizeof store->feed.list.path, ROOT, namespace);
    memcpy(store->namespace, namespace, sizeof namespace);
    *ret_store = &store->base.base;
    return 0;
}

const struct tn_store_ops tn_kubernetes_store_ops = {
    .scheme = "kubernetes",
    .caps = TN_STORE_LINGERS | TN_STORE_PER_NAME | TN_STORE_NAMED,
    .ttl_min = TN_SEC(5), /* A write may take a few tenths of a second; and client-go sees renewals
                             that are a second apart. */
    .ttl_max = TN_SEC(86400),
    .open = kube_open,
    TN_ROWS_OPS,
    .facts = kube_facts,
    .learn = kube_learn,
    .rights = tn_kube_role,
    .poll_every = POLL_EVERY,
    .class_why = "the API server compares versions on etcd, which is linearizable and durable",
    .clock_why = "candidates observe the holder by their own clocks; no other counts",
    .restored = "raise the floor: kubectl annotate --overwrite lease NAME tenure/floor=%",
};
