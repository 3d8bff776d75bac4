/* plugin_test.c - a store that the application brings: registering it, answers from any thread,
 * answers that never come, news, and closing while it is at work. */
#include "tests/harness/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/sha256.h"
#include "stores/registry.h"
#include "tenure/store.h"

static uv_loop_t loop;
static struct tn_clock clock_of_test;

/* --- The store: keeps what it is asked, and answers when it is told to ----------------------- */

enum { KEPT = 16 };

static struct {
    struct tenure_store_host *host;
    const struct tenure_store_request *kept[KEPT];
    size_t count;
    unsigned opened, closed, watched;
    bool answers; /* At once, inside submit. */
    int fails;
} own;

static int open_own(const struct tenure_store_open *how, void **ret_store,
                    struct tenure_error *reterr)
{
    if (own.fails < 0) {
        (void)snprintf(reterr->text, sizeof reterr->text, "not today: %s", how->rest);
        return own.fails;
    }
    own.host = how->host;
    own.opened++;
    *ret_store = &own;
    return 0;
}

static void answer(const struct tenure_store_request *request)
{
    struct tenure_store_reply reply = { .size = sizeof reply,
                                        .answer = TENURE_STORE_HELD,
                                        .record = { .held = true, .token = 7 } };

    tenure_store_done(request, &reply);
}

static void submit_own(void *store, const struct tenure_store_request *request)
{
    CHECK(store == &own);
    CHECK(own.count < KEPT);
    if (own.answers)
        answer(request);
    else
        own.kept[own.count++] = request;
}

static void watch_own(void *store, const char *name, bool on)
{
    (void)store;
    CHECK_STR(name, "job");
    own.watched += on ? 1 : 10;
}

static void list_own(void *store, const char *prefix, struct tenure_store_list *list)
{
    struct tenure_store_record record = { .token = 3 };

    (void)store;
    CHECK_STR(prefix, "j");
    CHECK_EQ_I64(tenure_store_list_add(list, "jz", &record), 0);
    CHECK_EQ_I64(tenure_store_list_add(list, "ja", &record), 0);
    tenure_store_list_done(list, 0, NULL);
}

static void close_own(void *store)
{
    (void)store;
    own.closed++;
}

static struct tenure_store_ops make_ops(const char *scheme)
{
    return (struct tenure_store_ops) { .size = sizeof(struct tenure_store_ops),
                                       .version = TENURE_STORE_V1,
                                       .scheme = scheme,
                                       .caps = TENURE_STORE_QUEUES | TENURE_STORE_TELLS,
                                       .open = open_own,
                                       .submit = submit_own,
                                       .watch = watch_own,
                                       .list = list_own,
                                       .close = close_own };
}

/* --- The host ------------------------------------------------------------------------------- */

static struct {
    unsigned granted, changed, revoked, done;
    uint64_t token;
    char name[32];
    struct tn_secret term;
} heard;

static void hear_granted(void *arg, const char *name, const struct tn_secret *term, uint64_t token)
{
    (void)arg;
    heard.granted++;
    heard.token = token;
    heard.term = *term;
    (void)snprintf(heard.name, sizeof heard.name, "%s", name);
}

static void hear_changed(void *arg, const char *name, const struct tn_store_record *record)
{
    (void)arg;
    (void)name;
    heard.changed++;
    heard.token = record->token;
}

static void hear_revoked(void *arg, const char *name, uint64_t token)
{
    (void)arg;
    (void)name;
    heard.revoked++;
    heard.token = token;
}

static const struct tn_store_host host = { hear_granted, hear_changed, hear_revoked };

static void hear_done(struct tn_store_req *req)
{
    (void)req;
    heard.done++;
}

static struct tn_store *open_store(const char *scheme, tenure_ns patience)
{
    struct tenure_store_ops ops = make_ops(scheme);
    struct tn_store *store = NULL;
    char url[64], text[256];
    struct tn_text error;

    memset(&own, 0, sizeof own);
    memset(&heard, 0, sizeof heard);
    CHECK_EQ_I64(tenure_store_register(&ops), 0);
    CHECK_EQ_I64(uv_loop_init(&loop), 0);
    CHECK_EQ_I64(tn_clock_init(&clock_of_test), 0);
    (void)snprintf(url, sizeof url, "%s:somewhere", scheme);
    struct tn_store_open how = {
        .url = url, .loop = &loop, .clock = &clock_of_test, .host = &host, .patience = patience
    };
    tn_text_init(&error, text, sizeof text);
    CHECK_EQ_I64(tn_store_open(&how, &store, &error), 0);
    CHECK_EQ_U64(own.opened, 1);
    return store;
}

static void hear_closed(void *arg)
{
    *(bool *)arg = true;
}

static void close_store(struct tn_store *store)
{
    bool closed = false;

    store->ops->close(store, hear_closed, &closed);
    while (!closed)
        (void)uv_run(&loop, UV_RUN_ONCE);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ_I64(uv_loop_close(&loop), 0);
    CHECK_EQ_U64(own.closed, 1);
}

static void read_job(struct tn_store *store, struct tn_store_req *req)
{
    *req = (struct tn_store_req) { .op = { .kind = TN_OP_READ, .name = "job", .name_len = 3 },
                                   .done = hear_done };
    tn_store_submit(store, req);
    CHECK_EQ_U64(heard.done, 0);
}

/* --- Tests ---------------------------------------------------------------------------------- */

TEST(what_is_not_whole_is_not_registered)
{
    struct tenure_store_ops ops = make_ops("own-a");

    CHECK_EQ_I64(tenure_store_register(NULL), TENURE_E_INVALID);
    ops.version = 2;
    CHECK_EQ_I64(tenure_store_register(&ops), TENURE_E_INVALID);
    ops = make_ops("own-a");
    ops.size = 8;
    CHECK_EQ_I64(tenure_store_register(&ops), TENURE_E_INVALID);
    ops.size = sizeof ops + 8;
    CHECK_EQ_I64(tenure_store_register(&ops), TENURE_E_INVALID);
    ops = make_ops("own-a");
    ops.submit = NULL;
    CHECK_EQ_I64(tenure_store_register(&ops), TENURE_E_INVALID);
    static const char *const bad[] = { "", "Own", "a b", "a:b", "sqlite ", NULL };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ops = make_ops(bad[i]);
        CHECK_EQ_I64(tenure_store_register(&ops), TENURE_E_INVALID);
    }
    static const char *const taken[] = { "sqlite", "memory", "etcd", "consul" };
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        ops = make_ops(taken[i]);
        CHECK_EQ_I64(tenure_store_register(&ops), TENURE_E_CONFLICT);
    }
    ops = make_ops("own-a");
    CHECK_EQ_I64(tenure_store_register(&ops), 0);
    CHECK_EQ_I64(tenure_store_register(&ops), TENURE_E_CONFLICT);
}

TEST(a_store_that_does_not_open_says_why)
{
    struct tenure_store_ops ops = make_ops("own-b");
    struct tn_store *store = NULL;
    char text[256];
    struct tn_text error;

    memset(&own, 0, sizeof own);
    own.fails = TENURE_E_DENIED;
    CHECK_EQ_I64(tenure_store_register(&ops), 0);
    CHECK_EQ_I64(uv_loop_init(&loop), 0);
    struct tn_store_open how = {
        .url = "own-b:here", .loop = &loop, .clock = &clock_of_test, .host = &host
    };
    tn_text_init(&error, text, sizeof text);
    CHECK_EQ_I64(tn_store_open(&how, &store, &error), TENURE_E_DENIED);
    CHECK_STR(text, "not today: here");
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ_I64(uv_loop_close(&loop), 0);
    CHECK_EQ_U64(own.closed, 0);
}

TEST(an_answer_inside_submit_comes_later_all_the_same)
{
    struct tn_store *store = open_store("own-c", TN_SEC(5));
    struct tn_store_req req;

    own.answers = true;
    read_job(store, &req);
    while (heard.done == 0)
        (void)uv_run(&loop, UV_RUN_ONCE);
    CHECK_EQ_I64(req.status, 0);
    CHECK_EQ_I64(req.answer, TN_ANSWER_HELD);
    CHECK_EQ_U64(req.record.token, 7);
    close_store(store);
}

static void *answer_elsewhere(void *arg)
{
    answer(arg);
    return NULL;
}

TEST(an_answer_may_come_from_any_thread)
{
    struct tn_store *store = open_store("own-d", TN_SEC(30));
    struct tn_store_req req;
    pthread_t thread;

    read_job(store, &req);
    CHECK_EQ_U64(own.count, 1);
    CHECK_STR(own.kept[0]->name, "job");
    CHECK_EQ_I64(pthread_create(&thread, NULL, answer_elsewhere, (void *)(uintptr_t)own.kept[0]),
                 0);
    while (heard.done == 0)
        (void)uv_run(&loop, UV_RUN_ONCE);
    CHECK_EQ_I64(req.status, 0);
    CHECK_EQ_I64(pthread_join(thread, NULL), 0);
    close_store(store);
}

TEST(an_answer_that_does_not_come_may_have_happened)
{
    struct tn_store *store = open_store("own-e", TN_MS(1));
    struct tn_store_req req;

    read_job(store, &req);
    while (heard.done == 0)
        (void)uv_run(&loop, UV_RUN_ONCE);
    CHECK_EQ_I64(req.status, TENURE_E_TIMEOUT);
    CHECK(tenure_error_unknown(req.status));
    /* Late, it is taken and nobody hears it. */
    answer(own.kept[0]);
    close_store(store);
    CHECK_EQ_U64(heard.done, 1);
}

TEST(closing_waits_for_what_the_store_still_has)
{
    struct tn_store *store = open_store("own-f", TN_SEC(30));
    struct tn_store_req req;
    bool closed = false;

    read_job(store, &req);
    store->ops->close(store, hear_closed, &closed);
    while (heard.done == 0)
        (void)uv_run(&loop, UV_RUN_ONCE);
    CHECK_EQ_I64(req.status, TENURE_E_CLOSED);
    for (int i = 0; i < 10; i++)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    CHECK(!closed);
    CHECK_EQ_U64(own.closed, 0);
    answer(own.kept[0]);
    while (!closed)
        (void)uv_run(&loop, UV_RUN_ONCE);
    CHECK_EQ_U64(own.closed, 1);
    CHECK_EQ_U64(heard.done, 1);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ_I64(uv_loop_close(&loop), 0);
}

TEST(news_arrive_and_watches_are_counted)
{
    struct tn_store *store = open_store("own-g", TN_SEC(30));
    struct tenure_store_id term = { { 1, 2, 3 } };
    struct tenure_store_record record = { .held = true, .token = 9 };

    CHECK_EQ_I64(store->ops->watch(store, "job", true), 0);
    CHECK_EQ_I64(store->ops->watch(store, "job", true), 0);
    CHECK_EQ_I64(store->ops->watch(store, "job", false), 0);
    CHECK_EQ_U64(own.watched, 1);
    tenure_store_granted(own.host, "job", &term, 8);
    CHECK_EQ_U64(heard.granted, 0);
    while (heard.granted == 0)
        (void)uv_run(&loop, UV_RUN_ONCE);
    CHECK_EQ_U64(heard.token, 8);
    CHECK_STR(heard.name, "job");
    CHECK_MEM(heard.term.bytes, term.bytes, sizeof term.bytes);
    tenure_store_changed(own.host, "job", &record);
    tenure_store_revoked(own.host, "job", 9);
    while (heard.revoked == 0)
        (void)uv_run(&loop, UV_RUN_ONCE);
    CHECK_EQ_U64(heard.changed, 1);
    CHECK_EQ_U64(heard.token, 9);
    CHECK_EQ_I64(store->ops->watch(store, "job", false), 0);
    CHECK_EQ_U64(own.watched, 11);
    close_store(store);
}

static struct {
    struct tn_store_lease *leases;
    size_t count;
    bool done;
} listed;

static void hear_list(void *arg, int status, struct tn_store_lease *leases, size_t count,
                      const char *error)
{
    (void)arg;
    (void)error;
    CHECK_EQ_I64(status, 0);
    listed.leases = leases;
    listed.count = count;
    listed.done = true;
}

TEST(a_list_is_sorted_for_the_store)
{
    struct tn_store *store = open_store("own-h", TN_SEC(30));

    memset(&listed, 0, sizeof listed);
    store->ops->list(store, "j", hear_list, NULL);
    while (!listed.done)
        (void)uv_run(&loop, UV_RUN_ONCE);
    CHECK_EQ_U64(listed.count, 2);
    CHECK_STR(listed.leases[0].name, "ja");
    CHECK_STR(listed.leases[1].name, "jz");
    free(listed.leases);
    close_store(store);
}
