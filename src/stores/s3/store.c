/* store.c - rows as objects in a bucket; s3.h.
 *
 * Happy path: a row is read by one GET and written by one conditional PUT. Before the first write
 * of a store the server shows that it refuses what it must refuse (try_server). The first write to
 * a name that has no object is preceded by one that raises the counter of the prefix, so that the
 * tokens of a deleted object are never given out again. */
#include "stores/s3/s3.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/net_url.h"
#include "base/time.h"
#include "net/s3_bucket.h"
#include "stores/rows/rows.h"
#include "stores/s3/record.h"

/* No name has a '!', so no key is part of another: some servers keep objects as files, where "a"
 * cannot be both an object and a folder. */
#define LEASE "/!lease"
#define COUNTER "!tokens"
#define PROBE "!probe"
#define NO_ETAG "\"00000000000000000000000000000000\""
#define POLL_EVERY TN_SEC(2)

/* How many tokens an object may use before it needs another block: enough for eight years of one
 * term per second, few enough for 33 million objects before doubles cannot tell tokens apart. */
#define BLOCK (UINT64_C(1) << 28)

/* The state of the question whether the server knows conditions. */
enum s3_trust { UNTRIED, TRYING, TRUSTED, REFUSED };

struct s3_store {
    struct tn_rows_store base;    /* First. */
    struct tn_rows_engine engine; /* With this store's own poll interval. */
    struct tn_s3_bucket bucket;
    enum s3_trust trust;
    tn_store_done *learned; /* The caller of learn(); NULL: none. */
    void *learned_arg;
    /* What the object of the counter says, and its ETag; empty: it is not there. */
    bool counter_known, raising;
    uint64_t counter, raised; /* @raised: from where this process raised it last. */
    char counter_etag[TN_S3_ETAG];
    char warning[TN_ERROR_TEXT];
};

/* What a call waits for, before its own request. */
enum { WAITS_FOR_TRIAL = 1, WAITS_FOR_COUNTER };

/* One read or write of a row, or the trial. */
struct s3_job {
    struct tn_s3_call call; /* First. */
    struct s3_store *store;
    struct tn_rows_io *io;
    unsigned step;
    bool frees;
    uint64_t floor;
    char etag[TN_S3_ETAG]; /* Of what is to be replaced; empty: nothing is there. */
    char lease[TN_S3_BODY];
};

static struct s3_job *new_job(struct s3_store *store, struct tn_rows_io *io)
{
    struct s3_job *job = tn_s3_call_new(&store->bucket, sizeof *job);

    if (job != NULL) {
        job->store = store;
        job->io = io;
        job->call.urgent = io != NULL && tn_rows_io_is_urgent(io);
    }
    return job;
}

static struct s3_job *job_of(struct tn_s3_call *call)
{
    return (struct s3_job *)(void *)call;
}

static struct s3_job *find_job(const struct s3_store *store, int mark)
{
    return job_of(tn_s3_call_marked(&store->bucket, mark));
}

static void key_of(const struct tn_rows_io *io, char ret_key[TN_S3_KEY])
{
    (void)snprintf(ret_key, TN_S3_KEY, "%s" LEASE, tn_rows_io_name(io));
}

/* --- Reading ---------------------------------------------------------------------------------- */

static void end_read(struct s3_job *job, bool denied)
{
    tn_rows_io_failed(job->io, denied ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE, job->call.error);
    tn_s3_call_free(&job->call);
}

/* What is in the object is not for us to judge or to replace. */
static void end_unreadable(struct s3_job *job, int rc)
{
    (void)snprintf(job->call.error, sizeof job->call.error,
                   rc == TENURE_E_UNSUPPORTED
                       ? "s3 %s: the object was written by a later version of tenure; update this"
                       : "s3 %s: the object is no record of tenure; use another prefix, or delete "
                         "it if nobody needs it",
                   job->store->bucket.name);
    end_read(job, false);
}

static void end_missing(struct s3_job *job)
{
    const struct tn_row row = { .floor = job->store->counter };

    tn_rows_io_got(job->io, &row, NULL);
    tn_s3_call_free(&job->call);
}

static void hear_counter(struct tn_s3_call *call, enum tn_s3_result result)
{
    struct s3_job *job = job_of(call);
    struct s3_store *store = job->store;
    int rc = 0;

    if (result != TN_S3_OK && result != TN_S3_MISSING) {
        end_read(job, result == TN_S3_DENIED);
        return;
    }
    store->counter = 0;
    store->counter_etag[0] = '\0';
    if (result == TN_S3_OK) {
        rc = tn_s3_read_counter(call->web.body, call->web.body_len, &store->counter);
        if (rc == 0 && !tn_s3_etag(call, store->counter_etag))
            rc = TENURE_E_DAMAGED;
    }
    store->counter_known = rc == 0;
    if (rc == 0)
        end_missing(job);
    else
        end_unreadable(job, rc);
}

static void hear_row(struct tn_s3_call *call, enum tn_s3_result result)
{
    struct s3_job *job = job_of(call);
    char label[TN_LABEL_MAX], etag[TN_S3_ETAG];
    struct tn_row row;
    int rc = TENURE_E_DAMAGED;

    if (result == TN_S3_MISSING && job->store->counter_known) {
        end_missing(job);
    } else if (result == TN_S3_MISSING) {
        tn_s3_get(call, COUNTER, hear_counter);
    } else if (result != TN_S3_OK) {
        end_read(job, result == TN_S3_DENIED);
    } else {
        if (tn_s3_etag(call, etag))
            rc = tn_s3_read_record(call->web.body, call->web.body_len, &row, label);
        if (rc < 0) {
            end_unreadable(job, rc);
            return;
        }
        tn_rows_io_got(job->io, &row, etag);
        tn_s3_call_free(call);
    }
}

static void get(struct tn_rows_store *base, struct tn_rows_io *io)
{
    struct s3_job *job = new_job((struct s3_store *)(void *)base, io);
    char key[TN_S3_KEY];

    if (job == NULL) {
        tn_rows_io_failed(io, TENURE_E_NOMEM, "out of memory");
        return;
    }
    key_of(io, key);
    tn_s3_get(&job->call, key, hear_row);
}

/* --- Writing ---------------------------------------------------------------------------------- */

static void end_write(struct s3_job *job, enum tn_s3_result result, const char *etag)
{
    static const enum tn_rows_outcome outcomes[] = { [TN_S3_OK] = TN_ROWS_WRITTEN,
                                                     [TN_S3_MISSING] = TN_ROWS_CONFLICT,
                                                     [TN_S3_CONFLICT] = TN_ROWS_CONFLICT,
                                                     [TN_S3_FAILED] = TN_ROWS_FAILED,
                                                     [TN_S3_UNKNOWN] = TN_ROWS_UNKNOWN };

    if (result == TN_S3_DENIED)
        tn_rows_io_failed(job->io, TENURE_E_DENIED, job->call.error);
    else
        tn_rows_io_put(job->io, outcomes[result], etag, job->call.error);
    tn_s3_call_free(&job->call);
}

static void hear_written(struct tn_s3_call *call, enum tn_s3_result result)
{
    end_write(job_of(call), result, call->etag);
}

static void write_lease(struct s3_job *job)
{
    char key[TN_S3_KEY];

    memcpy(job->call.body, job->lease, sizeof job->lease);
    key_of(job->io, key);
    tn_s3_put(&job->call, key, job->etag, job->frees, hear_written);
}

/* The lease has not been touched yet: whatever became of the counter, nothing was written. */
static void hear_raised(struct tn_s3_call *call, enum tn_s3_result result)
{
    struct s3_job *raise = job_of(call), *job = raise;
    struct s3_store *store = raise->store;
    char error[TN_ERROR_TEXT];

    memcpy(error, call->error, sizeof error);
    store->raising = false;
    store->counter_known = result == TN_S3_OK;
    if (result == TN_S3_OK) {
        store->raised = raise->floor;
        store->counter = raise->floor + BLOCK;
        memcpy(store->counter_etag, call->etag, sizeof store->counter_etag);
    }
    do {
        job->call.mark = 0;
        memcpy(job->call.error, error, sizeof error);
        if (result == TN_S3_OK)
            write_lease(job);
        else
            end_write(job, result == TN_S3_UNKNOWN ? TN_S3_FAILED : result, NULL);
    } while ((job = find_job(store, WAITS_FOR_COUNTER)) != NULL);
}

/* A new object has a block of tokens that begins where the counter was when the name was read. The
 * counter is raised from there first, which proves that nobody has made an object since; then no
 * later object of the name begins in that block. All that were read before share one raise. */
static void raise_counter(struct s3_job *job)
{
    struct s3_store *store = job->store;
    struct tn_text text;

    if (job->floor == store->raised && store->counter == store->raised + BLOCK) {
        write_lease(job);
    } else if (!store->counter_known || job->floor != store->counter) {
        end_write(job, TN_S3_CONFLICT, NULL); /* It is read again. */
    } else if (store->raising) {
        job->call.mark = WAITS_FOR_COUNTER;
    } else {
        store->raising = true;
        tn_text_init(&text, job->call.body, sizeof job->call.body);
        tn_s3_write_counter(&text, job->floor + BLOCK, tn_prng_next(&store->base.prng));
        tn_s3_put(&job->call, COUNTER, store->counter_etag, false, hear_raised);
    }
}

static void start_write(struct s3_job *job)
{
    if (job->etag[0] == '\0')
        raise_counter(job);
    else
        write_lease(job);
}

/* --- Whether the server knows conditions ------------------------------------------------------ */

static void end_trial(struct s3_job *trial, enum tn_s3_result result)
{
    struct s3_store *store = trial->store;
    tn_store_done *learned = store->learned;
    char error[TN_ERROR_TEXT];
    struct s3_job *job;
    int status = TENURE_E_UNAVAILABLE;

    memcpy(error, store->trust == REFUSED ? store->warning : trial->call.error, sizeof error);
    tn_s3_call_free(&trial->call);
    if (store->base.base.closing)
        status = TENURE_E_CLOSED;
    else if (store->trust == TRUSTED)
        status = 0;
    else if (store->trust == REFUSED || result == TN_S3_DENIED)
        status = TENURE_E_DENIED;
    while ((job = find_job(store, WAITS_FOR_TRIAL)) != NULL) {
        job->call.mark = 0;
        memcpy(job->call.error, error, sizeof error);
        if (status == 0)
            start_write(job);
        else
            end_write(job, status == TENURE_E_DENIED ? TN_S3_DENIED : TN_S3_FAILED, NULL);
    }
    store->learned = NULL;
    if (learned != NULL)
        learned(store->learned_arg, status, error);
}

static void hear_trial(struct tn_s3_call *call, enum tn_s3_result result)
{
    struct s3_job *trial = job_of(call);
    struct s3_store *store = trial->store;

    if (result == TN_S3_OK && trial->step == 0) {
        trial->step = 1;
        tn_s3_put(call, PROBE, "", false, hear_trial);
    } else if (result == TN_S3_OK || call->web.http == 501) {
        store->trust = REFUSED;
        (void)snprintf(store->warning, sizeof store->warning,
                       "s3 %s: the server does not honour %s: two could lead there, so nobody "
                       "may; use one that has conditional writes",
                       store->bucket.name, trial->step < 2 ? "If-None-Match" : "If-Match");
        end_trial(trial, result);
    } else if (result == TN_S3_CONFLICT && trial->step < 2) {
        trial->step = 2;
        tn_s3_put(call, PROBE, NO_ETAG, false, hear_trial);
    } else {
        store->trust = result == TN_S3_CONFLICT ? TRUSTED : UNTRIED;
        end_trial(trial, result);
    }
}

/* The object of the probe is there, or is made; then a write that wants it not to be there, and one
 * that wants it to be another, must both be refused. */
static bool try_server(struct s3_store *store)
{
    struct s3_job *trial = new_job(store, NULL);

    if (trial == NULL)
        return false;
    store->trust = TRYING;
    (void)snprintf(trial->call.body, sizeof trial->call.body, "{\"tenure\":1,\"probe\":true}");
    tn_s3_put(&trial->call, PROBE, "", false, hear_trial);
    return true;
}

static const char *write_fault(const struct tn_row *row, const char *if_version)
{
    if (row->held && row->token > row->floor && row->token - row->floor >= BLOCK)
        return "s3: the name has used up its block of tokens; delete its object while nobody leads";
    if (if_version[0] == '\0' && row->floor > UINT64_MAX - 2 * BLOCK)
        return "s3: the prefix has no tokens left; use another one";
    return NULL;
}

static void put(struct tn_rows_store *base, struct tn_rows_io *io, const struct tn_row *row,
                const char *if_version)
{
    struct s3_store *store = (struct s3_store *)(void *)base;
    const char *fault = write_fault(row, if_version);
    struct s3_job *job = fault == NULL ? new_job(store, io) : NULL;
    struct tn_text text;

    if (job == NULL) {
        tn_rows_io_put(io, TN_ROWS_FAILED, NULL, fault != NULL ? fault : "out of memory");
        return;
    }
    job->floor = row->floor;
    job->frees = !row->held;
    (void)snprintf(job->etag, sizeof job->etag, "%s", if_version);
    tn_text_init(&text, job->lease, sizeof job->lease);
    tn_s3_write_record(&text, row);
    if (store->trust == TRUSTED) {
        start_write(job);
        return;
    }
    job->call.mark = WAITS_FOR_TRIAL;
    if (store->trust != TRYING && !try_server(store)) {
        (void)snprintf(job->call.error, sizeof job->call.error, "out of memory");
        end_write(job, TN_S3_FAILED, NULL);
    }
}

/* --- Facts ------------------------------------------------------------------------------------ */

static void facts(const struct tn_store *base, struct tn_store_facts *ret_facts)
{
    const struct s3_store *store = (const struct s3_store *)(const void *)base;

    ret_facts->version = store->bucket.server;
    ret_facts->warning = store->warning;
}

static void learn(struct tn_store *base, tn_store_done *done, void *arg)
{
    struct s3_store *store = (struct s3_store *)(void *)base;

    store->learned = done;
    store->learned_arg = arg;
    if (store->trust == TRYING || try_server(store))
        return;
    store->learned = NULL;
    done(arg, TENURE_E_NOMEM, "out of memory");
}

/* --- Listing ---------------------------------------------------------------------------------- */

static int add_lease(void *arg, const char *key, struct tn_s3_call *call)
{
    size_t len = strlen(key) - strlen(LEASE);
    char label[TN_LABEL_MAX], etag[TN_S3_ETAG], name[TN_NAME_MAX + 1];
    struct tn_row row;

    if (tn_name_check(key, len, NULL) < 0)
        return 0; /* Not one of ours. */
    (void)snprintf(name, sizeof name, "%.*s", (int)len, key);
    if (!tn_s3_etag(call, etag) ||
        tn_s3_read_record(call->web.body, call->web.body_len, &row, label) < 0) {
        (void)snprintf(call->error, sizeof call->error, "s3: the object of %s is no record", name);
        return TENURE_E_DAMAGED;
    }
    return tn_rows_listing_add(arg, name, &row, etag) ? 0 : TENURE_E_NOMEM;
}

static void end_list(void *arg, int status, const char *error)
{
    tn_rows_listing_end(arg, status, error);
    free(arg);
}

static void list(struct tn_rows_store *base, const char *prefix, tn_store_listed *done, void *arg)
{
    struct tn_rows_listing *listing = malloc(sizeof *listing);
    const struct tn_s3_each each = { LEASE, add_lease, end_list, listing };

    if (listing == NULL) {
        done(arg, TENURE_E_NOMEM, NULL, 0, "out of memory");
        return;
    }
    tn_rows_listing_begin(listing, prefix, done, arg);
    tn_s3_walk(&((struct s3_store *)(void *)base)->bucket, prefix, &each);
}

/* --- Opening and closing ---------------------------------------------------------------------- */

static const char usage[] = "s3://BUCKET/PREFIX[?region=REGION&endpoint=URL&ca=FILE&poll=2s]";

struct s3_url {
    struct tn_net_url url;
    tenure_ns poll_every;
    char endpoint[200], region[64], ca[256], poll[24];
};

static const char *url_fault(struct s3_url *url)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789.-";
    const struct tn_endpoint *bucket = &url->url.endpoints[0];
    size_t len = strlen(bucket->host);

    if (url->url.user[0] != '\0')
        return "keys do not belong into the URL; use AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
    if (url->url.count != 1 || bucket->port[0] != '\0' || len < 3 || len > 63 ||
        strspn(bucket->host, letters) != len)
        return "the bucket's name has 3 to 63 of a-z 0-9 . -";
    if (url->endpoint[0] != '\0' && strncmp(url->endpoint, "http://", 7) != 0 &&
        strncmp(url->endpoint, "https://", 8) != 0)
        return "the endpoint begins with http:// or https://";
    if (strspn(url->region, letters) != strlen(url->region))
        return "a region is made of a-z 0-9 -";
    url->poll_every = POLL_EVERY;
    if (url->poll[0] != '\0' && (tn_duration_parse(url->poll, &url->poll_every) < 0 ||
                                 url->poll_every < TN_MS(100) || url->poll_every > TN_SEC(60)))
        return "poll is from 100ms to 60s";
    return NULL;
}

static int read_url(const char *rest, struct s3_url *ret_url, struct tn_text *reterr)
{
    const struct tn_net_option options[] = {
        { "region", ret_url->region, sizeof ret_url->region },
        { "endpoint", ret_url->endpoint, sizeof ret_url->endpoint },
        { "ca", ret_url->ca, sizeof ret_url->ca },
        { "poll", ret_url->poll, sizeof ret_url->poll },
    };
    const struct tn_net_form form = {
        .scheme = "s3", .usage = usage, .port = "", .options = options, .option_count = 4
    };
    int rc = tn_net_url_parse(&ret_url->url, &form, rest, reterr);
    const char *fault = rc == 0 ? url_fault(ret_url) : NULL;

    if (fault == NULL)
        return rc;
    tn_text_addf(reterr, "s3: %s; write %s", fault, usage);
    return TENURE_E_INVALID;
}

static void bucket_closed(void *arg)
{
    struct s3_store *store = arg;

    tn_s3_bucket_free(&store->bucket);
    tn_rows_shut(&store->base);
}

/* The trial and the raise end with their requests, and with them those that wait for these. */
static void shut(struct tn_rows_store *base)
{
    struct s3_store *store = (struct s3_store *)(void *)base;

    tn_s3_bucket_close(&store->bucket, bucket_closed, store);
}

static const struct tn_rows_engine engine = { .get = get, .put = put, .list = list, .shut = shut };

static int open_store(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    struct s3_url url = { .endpoint = "" };
    struct tn_s3_bucket bucket;
    int rc = read_url(how->rest, &url, reterr);
    const struct tn_s3_address address = {
        .bucket = url.url.endpoints[0].host,
        .path = url.url.path,
        .endpoint = url.endpoint,
        .region = url.region,
        .ca = url.ca,
        .patience = how->patience,
    };

    if (rc == 0)
        rc = tn_s3_bucket_open(&bucket, how->loop, &address, reterr);
    if (rc < 0)
        return rc;
    struct s3_store *store = tn_rows_open(sizeof *store, ops, &engine, how, reterr);
    if (store == NULL) {
        tn_s3_bucket_free(&bucket);
        tn_s3_bucket_close(&bucket, NULL, NULL);
        return TENURE_E_NOMEM;
    }
    store->bucket = bucket;
    store->engine = engine;
    store->engine.poll_every = url.poll_every;
    store->base.engine = &store->engine;
    store->raised = UINT64_MAX; /* Never. */
    *ret_store = &store->base.base;
    return 0;
}

const struct tn_store_ops tn_s3_store_ops = {
    .scheme = "s3",
    .caps = TN_STORE_LINGERS | TN_STORE_PER_NAME | TN_STORE_NAMED,
    .ttl_min = TN_SEC(5), /* A write may take a few tenths of a second. */
    .ttl_max = TN_SEC(86400),
    .open = open_store,
    TN_ROWS_OPS,
    .facts = facts,
    .learn = learn,
    .class_why = "a conditional PUT is one atomic, durable step in Amazon S3; other servers are as "
                 "strict as theirs is",
    .clock_why = "no clock of the server counts; observers use their own",
    .poll_every = POLL_EVERY,
    .restored = "write {\"tenure\":1,\"next\":%} to the object PREFIX/" COUNTER
                " and delete the name's object",
};
