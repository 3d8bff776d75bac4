/* store.c - rows as keys of Consul that sessions lock; consul.h.
 *
 * Happy path: a row is read by one GET, and written by one transaction that compares the key's
 * index, locks or unlocks it, and reads the new index, which is the token of a term that it begins.
 * One session holds all keys of a process; renewing it is one PUT. A blocking query shows what
 * changes.
 * What can fail: a request that certainly was not sent has failed; any other without an answer, and
 * every 5xx, has an unknown outcome, and the recipe (core/rows.h) reads what became of it. The next
 * request goes to the next server. */
#include "stores/consul/consul.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/number.h"
#include "base/time.h"
#include "core/plan.h"
#include "net/rest.h"
#include "stores/consul/entry.h"
#include "stores/rows/rows.h"

#define WAIT TN_SEC(15) /* Of a blocking query: a server that hangs is noticed a little later. */
#define WAIT_TIMEOUT (WAIT + WAIT / 16 + TN_SEC(3)) /* The server adds up to a sixteenth. */
#define FEED_BACKOFF TN_SEC(1)
#define ONE_MAX ((size_t)1 << 20)  /* Of an answer about one key, whose value has up to 512 kB; */
#define ALL_MAX ((size_t)64 << 20) /* and about all of a prefix. */

struct consul_store {
    struct tn_rows_store base; /* First. */
    struct tn_rest rest;
    char prefix[300];  /* %-encoded, with a slash at its end unless it is empty. */
    size_t prefix_len; /* Of the prefix as the keys have it. */
    struct consul_job *feed;
    uint64_t feed_index;
    bool feed_stale; /* Other names are watched by now. */
    uv_timer_t timer;
    tn_store_done *learned; /* The caller of learn(); NULL: none. */
    void *learned_arg;
    char version[64];
};

struct consul_job {
    struct tn_rest_job rest; /* First. */
    struct consul_store *store;
    struct tn_rows_io *io;
    struct tn_rows_call *call;
    struct tn_rows_listing listing;
    char send[2 * TN_ROW_JSON + 2048];
};

static struct consul_store *consul_of(struct tn_rows_store *base)
{
    return (struct consul_store *)(void *)base;
}

/* --- Requests --------------------------------------------------------------------------------- */

static struct consul_job *job_of(struct tn_rest_job *rest)
{
    return (struct consul_job *)(void *)rest;
}

static struct consul_job *new_job(struct consul_store *store, size_t body_max,
                                  void (*heard)(struct tn_rest_job *rest))
{
    struct consul_job *job = calloc(1, sizeof *job);

    if (job != NULL) {
        job->store = store;
        job->rest.heard = heard;
        job->rest.web.body_max = body_max;
    }
    return job;
}

static void start_job(struct consul_job *job, const char *method, const char *path,
                      tenure_ns timeout)
{
    tn_rest_start(&job->store->rest, &job->rest, method, path,
                  job->send[0] != '\0' ? job->send : NULL, timeout);
}

/* There is nothing there, as Consul says it. */
static bool is_missing(const struct tn_rest_job *rest)
{
    return rest->result == TN_REST_REFUSED && rest->web.http == 404;
}

/* The same of keys: any web server says 404. */
static bool has_no_key(const struct tn_rest_job *rest)
{
    return is_missing(rest) && tn_web_header(&rest->web, "X-Consul-Index") != NULL;
}

/* A transaction that the token does not allow is refused with 409 and this text. */
static bool is_denied(const struct tn_rest_job *rest)
{
    return rest->result == TN_REST_DENIED ||
           (rest->result == TN_REST_REFUSED && strstr(rest->web.body, "Permission denied") != NULL);
}

static int status_of(const struct tn_rest_job *rest)
{
    return is_denied(rest) ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE;
}

static void add_path(const struct consul_store *store, struct tn_text *text, const char *name)
{
    tn_text_addf(text, "v1/kv/%s", store->prefix);
    tn_web_escape(text, name, strlen(name), "/");
    tn_text_add(text, "/" TN_CONSUL_LOCK);
}

/* --- Reading ---------------------------------------------------------------------------------- */

static void hear_row(struct tn_rest_job *rest)
{
    struct tn_rows_io *io = job_of(rest)->io;
    struct tn_json_value *values = rest->result == TN_REST_OK ? tn_rest_values(rest) : NULL;
    struct tn_consul_entry entry;
    int rc = TENURE_E_DAMAGED;

    if (values != NULL && values[0].type == TN_JSON_ARRAY && values[0].count > 0)
        rc = tn_consul_read_entry(values, 1, &entry);
    free(values);
    if (rc == 0)
        tn_rows_io_got(io, &entry.row, entry.version);
    else if (has_no_key(rest))
        tn_rows_io_got(io, NULL, NULL);
    else
        tn_rows_io_failed(io, status_of(rest),
                          rc == TENURE_E_UNSUPPORTED
                              ? "the key is a semaphore's, or of a later version of tenure; "
                                "use another name"
                              : tn_rest_fault(rest));
}

static void get(struct tn_rows_store *base, struct tn_rows_io *io)
{
    struct consul_store *store = consul_of(base);
    struct consul_job *job = new_job(store, ONE_MAX, hear_row);
    char path[1400];
    struct tn_text text;

    if (job == NULL) {
        tn_rows_io_failed(io, TENURE_E_NOMEM, "out of memory");
        return;
    }
    job->io = io;
    job->rest.web.urgent = tn_rows_io_is_urgent(io);
    tn_text_init(&text, path, sizeof path);
    add_path(store, &text, tn_rows_io_name(io));
    tn_text_add(&text, "?consistent");
    start_job(job, "GET", path, store->base.base.how.patience);
}

/* --- Writing ---------------------------------------------------------------------------------- */

/* The index that the last step of a transaction read. */
static bool read_index(struct tn_rest_job *rest, char ret_version[TN_ROW_VERSION])
{
    struct tn_json_value *values = tn_rest_values(rest);
    const struct tn_json_value *results = values != NULL ? tn_json_get(values, 0, "Results") : NULL;
    const struct tn_json_value *index = NULL;
    uint32_t at = results != NULL ? (uint32_t)(results - values) + 1 : 0;

    for (uint32_t i = 0; results != NULL && i < results->count; i++, at = values[at].next) {
        const struct tn_json_value *key =
            values[at].type == TN_JSON_OBJECT ? tn_json_get(values, at, "KV") : NULL;
        if (key != NULL && key->type == TN_JSON_OBJECT)
            index = tn_json_get(values, (uint32_t)(key - values), "ModifyIndex");
    }
    bool found = index != NULL && tn_json_copy(index, ret_version, TN_ROW_VERSION);
    free(values);
    return found && ret_version[0] != '\0';
}

static enum tn_rows_outcome judge_write(struct tn_rest_job *rest, char ret_version[TN_ROW_VERSION])
{
    switch (rest->result) {
    case TN_REST_OK:
        return read_index(rest, ret_version) ? TN_ROWS_WRITTEN : TN_ROWS_UNKNOWN;
    case TN_REST_REFUSED:
        if (strstr(rest->web.body, "lock delay") != NULL)
            return TN_ROWS_DELAYED;
        if (strstr(rest->web.body, "invalid session") != NULL)
            return TN_ROWS_GONE;
        return rest->web.http == 409 ? TN_ROWS_CONFLICT : TN_ROWS_FAILED;
    case TN_REST_UNKNOWN:
        return TN_ROWS_UNKNOWN;
    default:
        return TN_ROWS_FAILED;
    }
}

static void hear_written(struct tn_rest_job *rest)
{
    struct tn_rows_io *io = job_of(rest)->io;
    char version[TN_ROW_VERSION] = "";

    if (is_denied(rest))
        tn_rows_io_failed(io, TENURE_E_DENIED, rest->error);
    else
        tn_rows_io_put(io, judge_write(rest, version), version, rest->error);
}

/* Every write sets Flags and Value anew; without the flags `consul lock` would refuse the key. */
static void add_steps(struct consul_job *job, const struct tn_row *row, const char *if_version)
{
    const struct consul_store *store = job->store;
    const char *name = tn_rows_io_name(job->io);
    char key[2 * TN_NAME_MAX + 16], value[TN_ROW_JSON];
    struct tn_text text, quoted;

    tn_text_init(&quoted, key, sizeof key);
    char plain[2 * TN_NAME_MAX + 8];
    (void)snprintf(plain, sizeof plain, "%s%s%s/" TN_CONSUL_LOCK, store->rest.url.path,
                   store->prefix_len > 0 ? "/" : "", name);
    tn_json_string(&quoted, plain, strlen(plain));
    tn_text_init(&text, job->send, sizeof job->send);
    if (if_version[0] != '\0')
        tn_text_addf(&text, "[{\"KV\":{\"Verb\":\"check-index\",\"Key\":%s,\"Index\":%s}},", key,
                     if_version);
    else
        tn_text_addf(&text, "[{\"KV\":{\"Verb\":\"check-not-exists\",\"Key\":%s}},", key);
    tn_text_addf(&text,
                 "{\"KV\":{\"Verb\":\"%s\",\"Key\":%s,\"Session\":\"%s\","
                 "\"Flags\":" TN_CONSUL_FLAGS ",\"Value\":\"",
                 row->held ? "lock" : "unlock", key, row->owner);
    tn_text_init(&quoted, value, sizeof value);
    tn_row_json_write(&quoted, row);
    tn_base64_add(&text, value, quoted.len);
    tn_text_addf(&text, "\"}},{\"KV\":{\"Verb\":\"get\",\"Key\":%s}}]", key);
}

static void put(struct tn_rows_store *base, struct tn_rows_io *io, const struct tn_row *row,
                const char *if_version)
{
    struct consul_store *store = consul_of(base);
    struct consul_job *job = new_job(store, ONE_MAX, hear_written);

    if (job == NULL) {
        tn_rows_io_put(io, TN_ROWS_FAILED, NULL, "out of memory");
        return;
    }
    job->io = io;
    job->rest.web.urgent = tn_rows_io_is_urgent(io);
    add_steps(job, row, if_version);
    start_job(job, "PUT", "v1/txn", store->base.base.how.patience);
}

/* --- Sessions --------------------------------------------------------------------------------- */

static void hear_session(struct tn_rest_job *rest)
{
    struct tn_rows_call *call = job_of(rest)->call;
    enum tn_rows_outcome outcome = rest->result == TN_REST_OK ? TN_ROWS_WRITTEN : TN_ROWS_FAILED;
    char id[TN_ROW_OWNER] = "";

    /* A renewal is answered by an array of one. Whatever a proxy says instead renews nothing. */
    if (call->kind != TN_OP_CLOSE && outcome == TN_ROWS_WRITTEN) {
        bool renews = call->kind == TN_OP_RENEW;
        struct tn_json_value *values = tn_rest_values(rest);
        uint32_t at = values != NULL && renews && values[0].count > 0 ? 1 : 0;
        if (values == NULL || !tn_json_copy(tn_json_get(values, at, "ID"), id, sizeof id) ||
            id[0] == '\0' || (renews && strcmp(id, call->id) != 0))
            outcome = TN_ROWS_FAILED;
        free(values);
    }
    /* "Session id '...' not found": any web server says 404. */
    if (call->kind == TN_OP_RENEW && is_missing(rest) && strstr(rest->web.body, call->id) != NULL)
        outcome = TN_ROWS_GONE;
    call->denied = is_denied(rest);
    tn_rows_call_done(call, outcome, id[0] != '\0' ? id : NULL, rest->error);
}

/* Without checks: a session lives by its TTL. It still ends with the node of the agent that made
 * it, which the lock-delay makes safe. */
static void add_session_body(struct consul_job *job)
{
    const struct tn_rows_call *call = job->call;
    char name[TN_LABEL_MAX + 16];
    struct tn_text text;

    tn_text_init(&text, job->send, sizeof job->send);
    (void)snprintf(name, sizeof name, "tenure %s", call->label);
    tn_text_add(&text, "{\"Name\":");
    tn_json_string(&text, name, strlen(name));
    tn_text_addf(&text,
                 ",\"TTL\":\"%" PRId64 "ms\",\"LockDelay\":\"%" PRId64
                 "ms\",\"Behavior\":\"release\",\"NodeChecks\":[]}",
                 call->ttl / TN_MS(1), tn_rows_lock_delay(call->ttl) / TN_MS(1));
}

static void session(struct tn_rows_store *base, struct tn_rows_call *call)
{
    struct consul_store *store = consul_of(base);
    struct consul_job *job = new_job(store, ONE_MAX, hear_session);
    const char *verb = call->kind == TN_OP_OPEN    ? "create"
                       : call->kind == TN_OP_RENEW ? "renew"
                                                   : "destroy";
    char path[128];

    if (job == NULL) {
        tn_rows_call_done(call, TN_ROWS_FAILED, NULL, "out of memory");
        return;
    }
    job->call = call;
    job->rest.web.urgent = call->urgent;
    if (call->kind == TN_OP_OPEN)
        add_session_body(job);
    (void)snprintf(path, sizeof path, "v1/session/%s%s%s", verb,
                   call->kind == TN_OP_OPEN ? "" : "/", call->kind == TN_OP_OPEN ? "" : call->id);
    /* One that hangs is asked again on another connection: this one is closed then. */
    start_job(job, "PUT", path, call->timeout);
}

/* --- Entries under the prefix ----------------------------------------------------------------- */

/* The name of a key; false: it is not one of ours. */
static bool name_of(const struct consul_store *store, const char *key, char *ret_name, size_t size)
{
    size_t skip = store->prefix_len > 0 ? store->prefix_len + 1 : 0;
    size_t len = strlen(key);
    size_t tail = strlen("/" TN_CONSUL_LOCK);

    if (len <= skip + tail || strncmp(key, store->rest.url.path, store->prefix_len) != 0 ||
        (skip > 0 && key[store->prefix_len] != '/') ||
        strcmp(key + len - tail, "/" TN_CONSUL_LOCK) != 0 || len - skip - tail >= size)
        return false;
    memcpy(ret_name, key + skip, len - skip - tail);
    ret_name[len - skip - tail] = '\0';
    return tn_name_check(ret_name, strlen(ret_name), NULL) == 0;
}

/* Call @each for every lock of the answer. False: it is not what Consul sends. */
static bool for_each(struct tn_rest_job *rest,
                     void (*each)(void *arg, const char *name, const struct tn_consul_entry *entry),
                     void *arg)
{
    struct tn_json_value *values = tn_rest_values(rest);
    struct tn_consul_entry entry;
    char name[TN_NAME_MAX + 1];
    bool good = values != NULL && values[0].type == TN_JSON_ARRAY;

    for (uint32_t i = 0, at = 1; good && i < values[0].count; i++, at = values[at].next) {
        if (values[at].type == TN_JSON_OBJECT && tn_consul_read_entry(values, at, &entry) == 0 &&
            name_of(job_of(rest)->store, entry.key, name, sizeof name))
            each(arg, name, &entry);
    }
    free(values);
    return good;
}

/* --- Listing ---------------------------------------------------------------------------------- */

static void list_entry(void *arg, const char *name, const struct tn_consul_entry *entry)
{
    (void)tn_rows_listing_add(arg, name, &entry->row, entry->version);
}

static void hear_list(struct tn_rest_job *rest)
{
    struct tn_rows_listing *listing = &job_of(rest)->listing;
    bool good = rest->result == TN_REST_OK ? for_each(rest, list_entry, listing) : has_no_key(rest);

    tn_rows_listing_end(listing, good ? 0 : status_of(rest), tn_rest_fault(rest));
}

static void list(struct tn_rows_store *base, const char *prefix, tn_store_listed *done, void *arg)
{
    struct consul_store *store = consul_of(base);
    struct consul_job *job = new_job(store, ALL_MAX, hear_list);
    char path[1400];
    struct tn_text text;

    if (job == NULL) {
        done(arg, TENURE_E_NOMEM, NULL, 0, "out of memory");
        return;
    }
    tn_rows_listing_begin(&job->listing, prefix, done, arg);
    tn_text_init(&text, path, sizeof path);
    tn_text_addf(&text, "v1/kv/%s", store->prefix);
    tn_web_escape(&text, prefix, strlen(prefix), "/");
    tn_text_add(&text, "?recurse&consistent");
    start_job(job, "GET", path, store->base.base.how.patience);
}

/* --- The change feed -------------------------------------------------------------------------- */

static void start_feed(struct consul_store *store);

static void wake_feed(uv_timer_t *timer)
{
    start_feed(timer->data);
}

static void see_entry(void *arg, const char *name, const struct tn_consul_entry *entry)
{
    tn_rows_saw(arg, name, &entry->row, entry->version);
}

/* An index that goes back means that an older state was restored: everything is shown again. False:
 * it is no answer of Consul, and what has changed is not known. */
static bool see_feed(struct consul_store *store, struct tn_rest_job *rest, uint64_t before)
{
    bool none = has_no_key(rest);
    const char *header =
        rest->result == TN_REST_OK || none ? tn_web_header(&rest->web, "X-Consul-Index") : NULL;
    uint64_t index = 0;

    if (header == NULL || tn_u64_parse(header, &index) < 0)
        return false;
    if (index < before)
        return true;
    if (index == before)
        tn_rows_feed_alive(&store->base);
    else if (none || for_each(rest, see_entry, &store->base))
        tn_rows_saw_all(&store->base);
    else
        return false;
    store->feed_index = index > 0 ? index : 1;
    return true;
}

static void hear_feed(struct tn_rest_job *rest)
{
    struct consul_store *store = job_of(rest)->store;
    uint64_t before = store->feed_index;

    store->feed = NULL;
    store->feed_index = 0;
    if (store->base.base.closing)
        return;
    if (store->feed_stale || see_feed(store, rest, before)) {
        start_feed(store);
        return;
    }
    tenure_ns pause = tn_plan_jittered(&store->base.prng, FEED_BACKOFF, TN_PPM / 2);
    tn_rows_feed_lost(&store->base);
    (void)uv_timer_start(&store->timer, wake_feed, (uint64_t)(pause / TN_MS(1)), 0);
}

/* One query shows all names: the key itself if only one is watched, else all under the prefix. */
static void start_feed(struct consul_store *store)
{
    const char *name = NULL;
    size_t count = tn_rows_watched(&store->base, &name);
    char path[1400];
    struct tn_text text;

    (void)uv_timer_stop(&store->timer);
    if (count == 0 || store->feed != NULL || store->base.base.closing)
        return;
    store->feed = new_job(store, ALL_MAX, hear_feed);
    if (store->feed == NULL) {
        (void)uv_timer_start(&store->timer, wake_feed, 1000, 0);
        return;
    }
    store->feed_stale = false;
    tn_text_init(&text, path, sizeof path);
    if (count == 1)
        add_path(store, &text, name);
    else
        tn_text_addf(&text, "v1/kv/%s", store->prefix);
    tn_text_addf(&text, "?%sindex=%" PRIu64 "&wait=%" PRId64 "s", count == 1 ? "" : "recurse&",
                 store->feed_index, (int64_t)(WAIT / TN_SEC(1)));
    start_job(store->feed, "GET", path, WAIT_TIMEOUT);
}

static void watch(struct tn_rows_store *base)
{
    struct consul_store *store = consul_of(base);

    store->feed_index = 0;
    if (store->feed == NULL) {
        start_feed(store);
        return;
    }
    store->feed_stale = true;
    tn_web_cancel(store->rest.web, &store->feed->rest.web);
}

/* --- Facts ------------------------------------------------------------------------------------ */

static void facts(const struct tn_store *base, struct tn_store_facts *ret_facts)
{
    const struct consul_store *store = (const struct consul_store *)(const void *)base;

    ret_facts->version = store->version;
}

static void hear_agent(struct tn_rest_job *rest)
{
    struct consul_store *store = job_of(rest)->store;
    tn_store_done *done = store->learned;
    int status = status_of(rest);
    struct tn_json_value *values = rest->result == TN_REST_OK ? tn_rest_values(rest) : NULL;
    const struct tn_json_value *config = values != NULL ? tn_json_get(values, 0, "Config") : NULL;

    if (config != NULL && config->type == TN_JSON_OBJECT &&
        tn_json_copy(tn_json_get(values, (uint32_t)(config - values), "Version"), store->version,
                     sizeof store->version))
        status = 0;
    free(values);
    store->learned = NULL;
    done(store->learned_arg, store->base.base.closing ? TENURE_E_CLOSED : status,
         tn_rest_fault(rest));
}

static void learn(struct tn_store *base, tn_store_done *done, void *arg)
{
    struct consul_store *store = (struct consul_store *)(void *)base;
    struct consul_job *job = new_job(store, ONE_MAX, hear_agent);

    if (job == NULL) {
        done(arg, TENURE_E_NOMEM, "out of memory");
        return;
    }
    store->learned = done;
    store->learned_arg = arg;
    start_job(job, "GET", "v1/agent/self", store->base.base.how.patience);
}

/* --- Opening and closing ---------------------------------------------------------------------- */

static void timer_closed(uv_handle_t *handle)
{
    struct consul_store *store = handle->data;

    tn_rows_shut(&store->base);
}

static void web_closed(void *arg)
{
    struct consul_store *store = arg;

    uv_close((uv_handle_t *)&store->timer, timer_closed);
}

static void shut(struct tn_rows_store *base)
{
    struct consul_store *store = consul_of(base);

    (void)uv_timer_stop(&store->timer);
    tn_web_close(store->rest.web, web_closed, store);
}

static const struct tn_rows_engine engine = {
    .get = get,
    .put = put,
    .list = list,
    .shut = shut,
    .mints = true,
    .session = session,
    .watch = watch,
    .refeed = watch, /* It begins with index 0. */
    .feed_trust = WAIT_TIMEOUT + TN_SEC(1),
};

static const char usage[] = "consul://HOST[:PORT][,HOST[:PORT]...]/PREFIX"
                            "[?token_file=FILE&ns=NAMESPACE&partition=PARTITION&dc=DATACENTER]";

struct consul_options {
    char token_file[256], ns[128], partition[128], dc[128];
};

static int refuse_url(const char *why, struct tn_text *reterr)
{
    tn_text_addf(reterr, "consul: %s; write %s", why, usage);
    return TENURE_E_INVALID;
}

/* The secret never is in the URL, which others can see. */
static int set_token(struct consul_store *store, const char *file, struct tn_text *reterr)
{
    const char *token = getenv("CONSUL_HTTP_TOKEN");
    char line[256] = "";

    if (file[0] != '\0') {
        FILE *stream = fopen(file, "re");
        bool read = stream != NULL && fgets(line, sizeof line, stream) != NULL;
        if (stream != NULL)
            (void)fclose(stream);
        if (!read) {
            tn_text_addf(reterr, "consul: cannot read the ACL token from %s", file);
            return TENURE_E_INVALID;
        }
        line[strcspn(line, "\r\n")] = '\0';
        token = line;
    }
    if (token == NULL || token[0] == '\0')
        return 0;
    if (strlen(token) > 200 || strspn(token, "0123456789abcdefABCDEF-") != strlen(token))
        return refuse_url("the ACL token is none", reterr);
    (void)snprintf(store->rest.header, sizeof store->rest.header, "X-Consul-Token: %s", token);
    return 0;
}

static int read_url(struct consul_store *store, const char *rest, struct tn_text *reterr)
{
    struct consul_options options = { .ns = "" };
    const struct tn_net_option known[] = {
        { "token_file", options.token_file, sizeof options.token_file },
        { "ns", options.ns, sizeof options.ns },
        { "partition", options.partition, sizeof options.partition },
        { "dc", options.dc, sizeof options.dc },
    };
    const struct tn_net_form form = { .scheme = "consul",
                                      .usage = usage,
                                      .port = store->rest.with_tls ? "8501" : "8500",
                                      .tls = "consuls",
                                      .with_tls = store->rest.with_tls,
                                      .options = known,
                                      .option_count = sizeof known / sizeof known[0] };
    struct tn_text text;
    int rc = tn_net_url_parse(&store->rest.url, &form, rest, reterr);

    if (rc < 0)
        return rc;
    if (store->rest.url.user[0] != '\0')
        return refuse_url("an ACL token does not belong into the URL; use token_file= or "
                          "CONSUL_HTTP_TOKEN",
                          reterr);
    if (store->rest.url.tls.name[0] != '\0')
        return refuse_url("name= is not known here; the certificate must be for the host", reterr);
    size_t len = strlen(store->rest.url.path);
    while (len > 0 && store->rest.url.path[len - 1] == '/')
        store->rest.url.path[--len] = '\0';
    store->prefix_len = len;
    tn_text_init(&text, store->prefix, sizeof store->prefix);
    tn_web_escape(&text, store->rest.url.path, len, "/");
    tn_text_add(&text, len > 0 ? "/" : "");
    if (len > 200 || tn_text_truncated(&text))
        return refuse_url("the prefix is too long", reterr);
    tn_rest_add_scope(&store->rest, "ns", options.ns);
    tn_rest_add_scope(&store->rest, "partition", options.partition);
    tn_rest_add_scope(&store->rest, "dc", options.dc);
    return set_token(store, options.token_file, reterr);
}

static int open_store(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    struct consul_store parts = { .rest.with_tls = ops == &tn_consuls_store_ops };
    int rc = read_url(&parts, how->rest, reterr);

    if (rc < 0)
        return rc;
    const struct tn_net_tls *tls = &parts.rest.url.tls;
    const struct tn_web_options options = {
        .ca_file = tls->ca[0] != '\0' ? tls->ca : NULL,
        .cert_file = tls->cert[0] != '\0' ? tls->cert : NULL,
        .key_file = tls->key[0] != '\0' ? tls->key : NULL,
        .connections = 32, /* An agent accepts 200 of one host. */
    };
    rc = tn_web_open(how->loop, &options, &parts.rest.web, reterr);
    if (rc < 0)
        return rc;
    struct consul_store *store = tn_rows_open(sizeof *store, ops, &engine, how, reterr);
    if (store == NULL) {
        tn_web_close(parts.rest.web, NULL, NULL);
        return TENURE_E_NOMEM;
    }
    parts.base = store->base;
    *store = parts;
    (void)uv_timer_init(how->loop, &store->timer);
    store->timer.data = store;
    *ret_store = &store->base.base;
    return 0;
}

#define OPS(scheme_)                                                                              \
    {                                                                                             \
        .scheme = scheme_, .caps = TN_STORE_NAMED | TN_STORE_LINGERS | TN_STORE_HUSHED,           \
        .ttl_min = TN_SEC(1), /* What a server accepts is its session_ttl_min, usually 10 s. */   \
            .ttl_max = TN_SEC(86400), .open = open_store, TN_ROWS_OPS, .facts = facts,            \
        .learn = learn,                                                                           \
        .class_why = "a majority of the servers has what was acknowledged; a session that ends "  \
                     "early, as with its agent's node, keeps its names from others for the "      \
                     "lock-delay, a TTL and at most 60 s",                                        \
        .clock_why = "Consul tells no clock; a silent session ends after one to two TTLs and a "  \
                     "lock-delay",                                                                \
        .restored = "write to any key of the cluster until its index is above %", .slop_ttls = 1, \
        .delay_most = TN_ROWS_DELAY_MOST                                                          \
    }

const struct tn_store_ops tn_consul_store_ops = OPS("consul");
const struct tn_store_ops tn_consuls_store_ops = OPS("consuls");
