/* store_frame_test.c - what the frame does for every store, seen on the store in memory: refusals,
 * names that several watch, what is asked while it closes. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "runtime/store_frame.h"
#include "stores/registry.h"

static uv_loop_t loop;
static struct tn_clock clock_of_test;

static struct {
    unsigned changed, done, listed;
    int status;
    uint64_t token;
    bool closed;
    struct tn_store *store; /* Asked once more from within done(). */
    struct tn_store_req *again;
} heard;

static void hear_granted(void *arg, const char *name, const struct tn_secret *term, uint64_t token)
{
    (void)arg;
    (void)name;
    (void)term;
    (void)token;
}

static void hear_changed(void *arg, const char *name, const struct tn_store_record *record)
{
    (void)arg;
    CHECK_STR(name, "job");
    heard.changed++;
    heard.token = record->token;
}

static void hear_revoked(void *arg, const char *name, uint64_t token)
{
    (void)arg;
    (void)name;
    (void)token;
}

static const struct tn_store_host host = { hear_granted, hear_changed, hear_revoked };

static struct tn_store *open_store(void)
{
    struct tn_store *store = NULL;
    char text[256];
    struct tn_text error;

    memset(&heard, 0, sizeof heard);
    CHECK_EQ_I64(uv_loop_init(&loop), 0);
    CHECK_EQ_I64(tn_clock_init(&clock_of_test), 0);
    struct tn_store_open how = { .url = "memory:frame",
                                 .loop = &loop,
                                 .clock = &clock_of_test,
                                 .host = &host,
                                 .patience = TN_SEC(5) };
    tn_text_init(&error, text, sizeof text);
    CHECK_EQ_I64(tn_store_open(&how, &store, &error), 0);
    return store;
}

static void hear_closed(void *arg)
{
    (void)arg;
    heard.closed = true;
}

static void end_loop(void)
{
    for (int i = 0; i < 1000 && !heard.closed; i++)
        (void)uv_run(&loop, UV_RUN_ONCE);
    CHECK(heard.closed);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ_I64(uv_loop_close(&loop), 0);
}

static void hear_done(struct tn_store_req *req)
{
    struct tn_store_req *again = heard.again;

    heard.done++;
    heard.status = req->status;
    heard.again = NULL;
    if (again != NULL)
        tn_store_submit(heard.store, again);
}

static int ask(struct tn_store *store, const struct tn_op *op)
{
    struct tn_store_req req = { .op = *op, .done = hear_done };

    heard.done = 0;
    tn_store_submit(store, &req);
    CHECK_EQ_U64(heard.done, 0);
    while (heard.done == 0)
        (void)uv_run(&loop, UV_RUN_ONCE);
    return req.status;
}

static void run_until_changed(unsigned count)
{
    for (int i = 0; i < 1000 && heard.changed < count; i++)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    /* And no more than that. */
    for (int i = 0; i < 10; i++)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    CHECK_EQ_U64(heard.changed, count);
}

TEST(frame_each_watcher_hears_the_record_once)
{
    struct tn_store *store = open_store();
    const struct tn_op open = {
        .kind = TN_OP_OPEN, .session = { { 1 } }, .seq = 1, .ttl = TN_SEC(30)
    };
    const struct tn_op acquire = {
        .kind = TN_OP_ACQUIRE, .session = { { 1 } }, .term = { { 2 } }, .name = "job", .name_len = 3
    };
    CHECK_EQ_I64(store->ops->watch(store, "job", true), 0);
    CHECK_EQ_U64(heard.changed, 0);
    run_until_changed(1);
    CHECK_EQ_U64(heard.token, 0);
    /* The second one hears what is known already, not inside the call. */
    CHECK_EQ_I64(store->ops->watch(store, "job", true), 0);
    CHECK_EQ_U64(heard.changed, 1);
    run_until_changed(2);
    CHECK_EQ_I64(ask(store, &open), 0);
    CHECK_EQ_I64(ask(store, &acquire), 0);
    run_until_changed(3);
    CHECK(heard.token > 0);
    CHECK_EQ_I64(store->ops->watch(store, "job", false), 0);
    CHECK_EQ_I64(store->ops->watch(store, "job", false), 0);
    CHECK(tn_store_name_find(store, "job", 3) == NULL);
    store->ops->close(store, hear_closed, NULL);
    end_loop();
}

static void tell(struct tn_store *store, bool held, uint64_t token)
{
    const struct tn_store_record record = { .held = held, .token = token };

    tn_store_changed(store, tn_store_name_find(store, "job", 3), &record);
}

/* Servers of redlock: that have not heard of a term yet know only the one before. */
TEST(frame_the_token_of_a_vacancy_never_goes_back)
{
    struct tn_store *store = open_store();

    CHECK_EQ_I64(store->ops->watch(store, "job", true), 0);
    run_until_changed(1);
    tell(store, true, 5);
    tell(store, false, 0);
    CHECK_EQ_U64(heard.changed, 3);
    CHECK_EQ_U64(heard.token, 5);
    tell(store, false, 5);
    CHECK_EQ_U64(heard.changed, 3);
    tn_store_forget_told(tn_store_name_find(store, "job", 3));
    tell(store, false, 4);
    CHECK_EQ_U64(heard.changed, 4);
    CHECK_EQ_U64(heard.token, 5);
    /* A store that was restored shows in the next term. */
    tell(store, true, 3);
    CHECK_EQ_U64(heard.token, 3);
    tell(store, false, 3);
    CHECK_EQ_U64(heard.token, 3);
    /* Another watch knows nothing of this one. */
    CHECK_EQ_I64(store->ops->watch(store, "job", false), 0);
    CHECK_EQ_I64(store->ops->watch(store, "job", true), 0);
    tell(store, false, 1);
    CHECK_EQ_U64(heard.token, 1);
    CHECK_EQ_I64(store->ops->watch(store, "job", false), 0);
    store->ops->close(store, hear_closed, NULL);
    end_loop();
}

TEST(frame_a_watch_that_ends_at_once_hears_nothing)
{
    struct tn_store *store = open_store();

    CHECK_EQ_I64(store->ops->watch(store, "job", true), 0);
    CHECK_EQ_I64(store->ops->watch(store, "job", false), 0);
    run_until_changed(0);
    store->ops->close(store, hear_closed, NULL);
    end_loop();
}

TEST(frame_a_store_may_close_while_it_is_watched)
{
    struct tn_store *store = open_store();

    CHECK_EQ_I64(store->ops->watch(store, "job", true), 0);
    run_until_changed(1);
    store->ops->close(store, hear_closed, NULL);
    end_loop();
    CHECK_EQ_U64(heard.changed, 1);
}

TEST(frame_refuses_what_no_store_should_see)
{
    struct tn_store *store = open_store();
    const struct tn_op bad[] = {
        { .kind = TN_OP_TICK },
        { .kind = TN_OP_RAISE, .token = 7 },
        { .kind = TN_OP_READ, .name = "a//b", .name_len = 4 },
        { .kind = TN_OP_OPEN, .session = { { 1 } }, .seq = 1 },
        { .kind = TN_OP_OPEN, .session = { { 1 } }, .seq = 1, .ttl = TN_SEC(1), .label_len = 256 },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_EQ_I64(ask(store, &bad[i]), TENURE_E_INVALID);
    store->ops->close(store, hear_closed, NULL);
    end_loop();
}

static void hear_list(void *arg, int status, struct tn_store_lease *leases, size_t count,
                      const char *error)
{
    (void)arg;
    heard.listed++;
    CHECK_EQ_I64(status, TENURE_E_CLOSED);
    CHECK(leases == NULL && count == 0 && error != NULL);
}

TEST(frame_what_is_asked_while_it_closes_is_answered_later)
{
    struct tn_store *store = open_store();
    struct tn_store_req req = { .op = { .kind = TN_OP_READ, .name = "job", .name_len = 3 },
                                .done = hear_done };
    struct tn_store_req again = req;

    store->ops->close(store, hear_closed, NULL);
    heard.store = store;
    heard.again = &again;
    tn_store_submit(store, &req);
    store->ops->list(store, "", hear_list, NULL);
    CHECK_EQ_U64(heard.done + heard.listed, 0);
    end_loop();
    CHECK_EQ_U64(heard.done, 2);
    CHECK_EQ_U64(heard.listed, 1);
    CHECK_EQ_I64(req.status, TENURE_E_CLOSED);
    CHECK_EQ_I64(again.status, TENURE_E_CLOSED);
}

TEST(frame_a_request_is_hashed_once)
{
    struct tn_store_req req = {
        .op = { .kind = TN_OP_ACQUIRE, .session = { { 1 } }, .term = { { 2 } } }
    };

    tn_req_init(&req);
    tn_req_hash(&req);
    struct tn_secret session = req.session_hash, term = req.term_hash;
    CHECK(!tn_secret_equal(&session, &term));
    req.op.session.bytes[0] = 9;
    tn_req_hash(&req);
    CHECK(tn_secret_equal(&session, &req.session_hash));
    tn_req_init(&req);
    tn_req_hash(&req);
    CHECK(!tn_secret_equal(&session, &req.session_hash));
}
