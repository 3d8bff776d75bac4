/* memory_store_test.c - one table in memory, driven from two threads and loops at once. What it
 * shares with every store is in tests/conformance. */
#include "tests/harness/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <uv.h>

#include "base/time.h"
#include "stores/memory.h"

enum { TERMS = 300, THREADS = 2 };

static atomic_int holders;
static atomic_bool overlapped;
static atomic_ullong highest;
static atomic_bool went_back;

struct racer;

struct racer_req {
    struct tn_store_req req;
    struct racer *racer;
};

/* One candidate on its own thread: leads TERMS times, each time as soon as the store says so. */
struct racer {
    pthread_t thread;
    uv_loop_t loop;
    struct tn_clock clock;
    struct tn_store *store;
    struct racer_req open, acquire, release;
    uint8_t number;
    uint32_t term;
    unsigned led;
    bool failed;
};

static void campaign(struct racer *racer);

static void closed(void *arg)
{
    (void)arg;
}

static struct racer *racer_of(const struct tn_store_req *req)
{
    return ((const struct racer_req *)req)->racer;
}

static struct tn_op make_op(const struct racer *racer, enum tn_op_kind kind)
{
    struct tn_op op = { .kind = kind,
                        .session = { { 1, racer->number } },
                        .term = { { 2, racer->number } },
                        .name = "job",
                        .name_len = 3,
                        .wait = true,
                        .seq = 1,
                        .ttl = TN_SEC(30) };

    memcpy(op.term.bytes + 4, &racer->term, sizeof racer->term);
    return op;
}

static void submit(struct racer *racer, struct racer_req *req, enum tn_op_kind kind, uint64_t token,
                   void (*done)(struct tn_store_req *))
{
    memset(req, 0, sizeof *req);
    req->racer = racer;
    req->req.op = make_op(racer, kind);
    req->req.op.token = token;
    req->req.done = done;
    tn_store_submit(racer->store, &req->req);
}

static void released(struct tn_store_req *req)
{
    struct racer *racer = racer_of(req);

    racer->failed = racer->failed || req->answer != TN_ANSWER_RELEASED;
    if (++racer->led < TERMS && !racer->failed)
        campaign(racer);
    else
        racer->store->ops->close(racer->store, closed, NULL);
}

static void lead(struct racer *racer, uint64_t token)
{
    if (atomic_fetch_add(&holders, 1) != 0)
        atomic_store(&overlapped, true);
    if (atomic_exchange(&highest, token) >= token)
        atomic_store(&went_back, true);
    (void)atomic_fetch_sub(&holders, 1);
    submit(racer, &racer->release, TN_OP_RELEASE, token, released);
}

static void acquired(struct tn_store_req *req)
{
    struct racer *racer = racer_of(req);

    if (req->answer == TN_ANSWER_GRANTED)
        lead(racer, req->record.token);
    else if (req->answer != TN_ANSWER_QUEUED)
        racer->store->ops->close(racer->store, closed, NULL);
}

static void campaign(struct racer *racer)
{
    racer->term++;
    submit(racer, &racer->acquire, TN_OP_ACQUIRE, 0, acquired);
}

static void opened(struct tn_store_req *req)
{
    campaign(racer_of(req));
}

static void hear_granted(void *arg, const char *name, const struct tn_secret *term, uint64_t token)
{
    (void)name;
    (void)term;
    lead(arg, token);
}

static void hear_changed(void *arg, const char *name, const struct tn_store_record *record)
{
    (void)arg;
    (void)name;
    (void)record;
}

static void hear_revoked(void *arg, const char *name, uint64_t token)
{
    (void)arg;
    (void)name;
    (void)token;
}

static const struct tn_store_host host = { hear_granted, hear_changed, hear_revoked };

static void *run_racer(void *arg)
{
    struct racer *racer = arg;

    submit(racer, &racer->open, TN_OP_OPEN, 0, opened);
    (void)uv_run(&racer->loop, UV_RUN_DEFAULT);
    return NULL;
}

static void open_racer(struct racer *racer, uint8_t number)
{
    char text[128];
    struct tn_text error;
    struct tn_store_open how = {
        .rest = "threads", .loop = &racer->loop, .clock = &racer->clock, .host = &host, .arg = racer
    };

    racer->number = number;
    tn_text_init(&error, text, sizeof text);
    CHECK_EQ_I64(uv_loop_init(&racer->loop), 0);
    CHECK_EQ_I64(tn_clock_init(&racer->clock), 0);
    CHECK_EQ_I64(tn_memory_store_ops.open(&tn_memory_store_ops, &how, &racer->store, &error), 0);
}

TEST(two_threads_share_one_table)
{
    static struct racer racers[THREADS];

    for (uint8_t i = 0; i < THREADS; i++)
        open_racer(&racers[i], i);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ_I64(pthread_create(&racers[i].thread, NULL, run_racer, &racers[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ_I64(pthread_join(racers[i].thread, NULL), 0);
        CHECK_EQ_I64(uv_loop_close(&racers[i].loop), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ_U64(racers[i].led, TERMS);
        CHECK(!racers[i].failed);
    }
    CHECK(!atomic_load(&overlapped));
    CHECK(!atomic_load(&went_back));
    /* One counter, used by both. */
    CHECK_EQ_U64(atomic_load(&highest), TERMS * THREADS);
}

TEST(what_is_wrong_with_the_url_is_told)
{
    struct racer racer = { 0 };
    char text[128];
    struct tn_text error;
    struct tn_store_open how = {
        .rest = "x?speed=5", .loop = &racer.loop, .clock = &racer.clock, .host = &host
    };

    tn_text_init(&error, text, sizeof text);
    CHECK_EQ_I64(uv_loop_init(&racer.loop), 0);
    CHECK_EQ_I64(tn_memory_store_ops.open(&tn_memory_store_ops, &how, &racer.store, &error),
                 TENURE_E_INVALID);
    CHECK_STR(text, "write memory:NAME or memory:NAME?latency=5ms");
    CHECK_EQ_I64(uv_loop_close(&racer.loop), 0);
}
