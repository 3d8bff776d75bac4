/* ask.c - a store behind the verbs, asked step by step; store.h has the contract.
 *
 * Happy path: the store that the URL names is opened on a loop of its own, which runs only while an
 * answer is waited for. What can fail: the URL (64, and nothing is made), and the store (69, or 77
 * when it is not ours to use). Each answer comes within the store's patience, or its failure. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/assert.h"
#include "base/sha256.h"
#include "base/time.h"
#include "cli/reserve.h"
#include "cli/store.h"
#include "runtime/loop.h"
#include "runtime/note_name.h"
#include "stores/registry.h"

#define RETRY_EVERY TN_MS(250)
#define PATIENCE TN_SEC(5)

/* libuv's clock stands still in suspend: no turn of the loop lasts longer than this. */
#define TURN_MOST TN_SEC(1)

struct tn_ask {
    struct tn_store *store;
    uv_loop_t loop;
    uv_timer_t timer;
    uv_signal_t signals[3];
    bool catches[3];
    bool creates;
    bool woken;
    bool closed;
    int caught;
    uint64_t revoked;
    void (*hear)(void *arg, const char *name, const struct tn_store_record *record);
    void *hear_arg;
};

int tn_cli_store_fail(const char *verb, int error, const char *text)
{
    int status = TN_EXIT_UNAVAILABLE;

    if (error == TENURE_E_DENIED)
        status = TN_EXIT_DENIED;
    else if (error == TENURE_E_INVALID)
        status = TN_EXIT_USAGE;
    return tn_cli_fail(status, verb, "%s", text[0] != '\0' ? text : tenure_strerror(error));
}

/* A turn of the loop carries out what is due and then sleeps until something happens, even when
 * what it is run for has just been carried out. So whoever hears of that ends the turn. */
static void end_turn(struct tn_ask *ask)
{
    uv_stop(&ask->loop);
}

/* --- News ----------------------------------------------------------------------------------- */

static void hear_news(struct tn_ask *ask)
{
    ask->woken = true;
    end_turn(ask);
}

static void hear_granted(void *arg, const char *name, const struct tn_secret *term, uint64_t token)
{
    (void)name;
    (void)term;
    (void)token;
    hear_news(arg); /* Whoever waits asks again, and is told. */
}

static void hear_changed(void *arg, const char *name, const struct tn_store_record *record)
{
    struct tn_ask *ask = arg;

    if (ask->hear != NULL)
        ask->hear(ask->hear_arg, name, record);
    hear_news(ask);
}

static void hear_revoked(void *arg, const char *name, uint64_t token)
{
    (void)name;
    ((struct tn_ask *)arg)->revoked = token;
}

static const struct tn_store_host host = { hear_granted, hear_changed, hear_revoked };

static void hear_signal(uv_signal_t *handle, int number)
{
    struct tn_ask *ask = handle->data;

    ask->caught = number;
    end_turn(ask);
}

static void hear_ask_timer(uv_timer_t *timer)
{
    end_turn(timer->data);
}

/* --- Opening and closing -------------------------------------------------------------------- */

static int open_once(struct tn_ask *ask, const char *url, const struct tn_clock *clock,
                     struct tn_text *reterr)
{
    const struct tn_store_ops *ops;
    struct tn_store_open how = { .url = url,
                                 .loop = &ask->loop,
                                 .clock = clock,
                                 .host = &host,
                                 .arg = ask,
                                 .create = ask->creates,
                                 .patience = PATIENCE };

    int rc = tn_store_find(url, &ops, &how.rest, reterr);
    if (rc == 0 && (ops->caps & TN_STORE_LOCAL) != 0) {
        tn_text_addf(
            reterr,
            "%s: lives in one process and is gone with it; for this verb name a store that "
            "others see, such as sqlite:PATH",
            ops->scheme);
        return TENURE_E_INVALID;
    }
    return rc < 0 ? rc : ops->open(ops, &how, &ask->store, reterr);
}

static struct tn_ask *ask_new(struct tn_text *reterr)
{
    struct tn_ask *ask = calloc(1, sizeof *ask);

    tn_reserve_for_libuv();
    if (ask == NULL)
        tn_text_add(reterr, "out of memory");
    else if (tn_loop_check(reterr) < 0 || uv_loop_init(&ask->loop) != 0) {
        if (reterr->len == 0)
            tn_text_add(reterr, "no memory or descriptors for a loop");
        free(ask);
        ask = NULL;
    }
    if (ask == NULL)
        return NULL;
    (void)uv_timer_init(&ask->loop, &ask->timer);
    ask->timer.data = ask;
    return ask;
}

static void hear_closed(void *arg)
{
    struct tn_ask *ask = arg;

    ask->closed = true;
    end_turn(ask);
}

static void ask_free(struct tn_ask *ask)
{
    if (ask->store != NULL)
        ask->store->ops->close(ask->store, hear_closed, ask);
    while (ask->store != NULL && !ask->closed)
        (void)uv_run(&ask->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&ask->timer, NULL);
    for (int i = 0; i < 3; i++)
        if (ask->catches[i])
            uv_close((uv_handle_t *)&ask->signals[i], NULL);
    (void)uv_run(&ask->loop, UV_RUN_DEFAULT);
    int rc = uv_loop_close(&ask->loop);
    TN_ASSERT(rc == 0);
    free(ask);
}

int tn_cli_store_open(const char *verb, const char *url, bool create, tenure_ns wait,
                      struct tn_cli_store *ret_store)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    *ret_store = (struct tn_cli_store) { .verb = verb };
    if (url == NULL)
        url = getenv("TENURE_STORE");
    tn_text_init(&error, buf, sizeof buf);
    int rc = tn_clock_init(&ret_store->clock);
    if (rc < 0)
        return tn_cli_store_fail(verb, rc, "/proc does not tell which boot this is");
    ret_store->start = tn_clock_now(&ret_store->clock);
    struct tn_ask *ask = ask_new(&error);
    if (ask == NULL)
        return tn_cli_store_fail(verb, TENURE_E_UNAVAILABLE, buf);
    ask->creates = create;
    for (;;) {
        tn_text_init(&error, buf, sizeof buf);
        rc = open_once(ask, url, &ret_store->clock, &error);
        if (rc != TENURE_E_UNAVAILABLE ||
            tn_clock_now(&ret_store->clock) - ret_store->start >= wait)
            break;
        tn_clock_pause(RETRY_EVERY);
    }
    if (rc == 0) {
        ret_store->ask = ask;
        ret_store->ops = ask->store->ops;
        return -1;
    }
    ask_free(ask);
    return rc == TENURE_E_NOT_HELD && !create ? -1 : tn_cli_store_fail(verb, rc, buf);
}

void tn_cli_store_close(struct tn_cli_store *store)
{
    if (store->ask != NULL)
        ask_free(store->ask);
    store->ask = NULL;
}

/* --- Asking --------------------------------------------------------------------------------- */

struct asked {
    struct tn_store_req req;
    struct tn_ask *ask;
    bool done;
};

static void hear_done(struct tn_store_req *req)
{
    struct asked *asked = (struct asked *)req;

    asked->done = true;
    end_turn(asked->ask);
}

int tn_cli_ask(struct tn_cli_store *store, const struct tn_op *op, struct tn_store_req *ret_req)
{
    struct tn_ask *ask = store->ask;
    struct asked asked = { .req = { .op = *op, .done = hear_done }, .ask = ask };

    *ret_req = asked.req;
    if (ask == NULL) {
        ret_req->answer = op->kind == TN_OP_READ ? TN_ANSWER_FREE : TN_ANSWER_GONE;
        return 0;
    }
    tn_store_submit(ask->store, &asked.req);
    while (!asked.done)
        (void)uv_run(&ask->loop, UV_RUN_ONCE);
    tn_text_cut_full(asked.req.error, sizeof asked.req.error);
    *ret_req = asked.req;
    /* Nobody has made the store yet: then nobody holds anything in it. */
    if (ret_req->status == TENURE_E_NOT_HELD && !ask->creates) {
        store->missing = true;
        ret_req->status = 0;
        ret_req->answer = op->kind == TN_OP_READ ? TN_ANSWER_FREE : TN_ANSWER_GONE;
    }
    return ret_req->status;
}

int tn_cli_step(struct tn_cli_store *store, const struct tn_op *op, struct tn_store_req *ret_req)
{
    int rc = tn_cli_ask(store, op, ret_req);
    return rc < 0 ? tn_cli_store_fail(store->verb, rc, ret_req->error) : -1;
}

bool tn_cli_is_revoked(const struct tn_cli_store *store, uint64_t token)
{
    return store->ask != NULL && store->ask->revoked == token;
}

struct listing {
    struct tn_ask *ask;
    struct tn_store_lease *leases;
    size_t count;
    int status;
    bool done;
    char error[TN_CLI_LINE_MAX];
};

static void hear_list(void *arg, int status, struct tn_store_lease *leases, size_t count,
                      const char *error)
{
    struct listing *listing = arg;

    listing->status = status;
    listing->leases = leases;
    listing->count = count;
    if (error != NULL)
        (void)snprintf(listing->error, sizeof listing->error, "%s", error);
    listing->done = true;
    end_turn(listing->ask);
}

/* Operators' notes are shown only to who asks for their names. */
static size_t drop_notes(struct listing *listing)
{
    size_t kept = 0;

    for (size_t i = 0; i < listing->count; i++)
        if (!tn_name_is_reserved(listing->leases[i].name))
            listing->leases[kept++] = listing->leases[i];
    return kept;
}

int tn_cli_list_ask(struct tn_cli_store *store, const char *prefix,
                    struct tn_store_lease **ret_leases, size_t *ret_count, struct tn_text *reterr)
{
    struct listing listing = { .ask = store->ask };

    *ret_leases = NULL;
    *ret_count = 0;
    if (store->ask == NULL)
        return 0;
    struct tn_store *it = store->ask->store;
    it->ops->list(it, prefix, hear_list, &listing);
    while (!listing.done)
        (void)uv_run(&store->ask->loop, UV_RUN_ONCE);
    if (listing.status == TENURE_E_NOT_HELD && !store->ask->creates)
        return 0;
    tn_text_add(reterr, listing.error);
    if (listing.status == 0) {
        *ret_leases = listing.leases;
        *ret_count = tn_name_is_reserved(prefix) ? listing.count : drop_notes(&listing);
    }
    return listing.status;
}

void tn_cli_look(struct tn_cli_store *store, struct tn_store_lease *lease)
{
    struct listing listing = { .ask = store->ask };

    if (store->ask == NULL || store->ops->look == NULL)
        return;
    store->ops->look(store->ask->store, lease->name, hear_list, &listing);
    while (!listing.done)
        (void)uv_run(&store->ask->loop, UV_RUN_ONCE);
    for (size_t i = 0; listing.status == 0 && i < listing.count; i++) {
        const struct tn_store_lease *found = &listing.leases[i];
        if (strcmp(found->name, lease->name) != 0 || found->record.token != lease->record.token)
            continue;
        lease->since = found->since;
        lease->waiting = found->waiting;
        lease->counted = found->counted;
    }
    free(listing.leases);
}

bool tn_cli_waiters(struct tn_cli_store *store, const char *name, struct tn_store_lease **ret_line,
                    size_t *ret_count)
{
    struct listing listing = { .ask = store->ask };

    *ret_line = NULL;
    *ret_count = 0;
    if (store->ask == NULL || store->ops->line == NULL)
        return false;
    store->ops->line(store->ask->store, name, hear_list, &listing);
    while (!listing.done)
        (void)uv_run(&store->ask->loop, UV_RUN_ONCE);
    *ret_line = listing.leases;
    *ret_count = listing.count;
    return listing.status == 0;
}

struct past {
    struct tn_ask *ask;
    char *json;
    struct tn_text *error;
    int status;
    bool done;
};

static void hear_history(void *arg, int status, const char *json, size_t len, const char *error)
{
    struct past *past = arg;

    past->status = status;
    if (status == 0)
        past->json = strndup(json, len);
    if (status == 0 && past->json == NULL)
        past->status = TENURE_E_NOMEM;
    if (error != NULL)
        tn_text_add(past->error, error);
    past->done = true;
    end_turn(past->ask);
}

int tn_cli_history_ask(struct tn_cli_store *store, const char *name, char **ret_json,
                       struct tn_text *reterr)
{
    struct past past = { .ask = store->ask, .error = reterr };

    *ret_json = NULL;
    if (store->ask == NULL)
        return 0;
    if (store->ops->history == NULL)
        return TENURE_E_UNSUPPORTED;
    store->ops->history(store->ask->store, name, hear_history, &past);
    while (!past.done)
        (void)uv_run(&store->ask->loop, UV_RUN_ONCE);
    *ret_json = past.json;
    return past.status == TENURE_E_NOT_HELD && !store->ask->creates ? 0 : past.status;
}

void tn_cli_facts(const struct tn_cli_store *store, char *ret_server, size_t server_size,
                  char *ret_warning, size_t warning_size)
{
    struct tn_store_facts facts = { .version = "", .warning = "" };

    if (store->ops->facts != NULL)
        store->ops->facts(store->ask->store, &facts);
    if (facts.version[0] != '\0')
        (void)snprintf(ret_server, server_size, "%s %s", store->ops->scheme, facts.version);
    (void)snprintf(ret_warning, warning_size, "%s", facts.warning);
}

struct lesson {
    struct tn_ask *ask;
    struct tn_text why;
    int status;
    bool done;
};

static void hear_lesson(void *arg, int status, const char *error)
{
    struct lesson *lesson = arg;

    if (status < 0)
        tn_text_add(&lesson->why, error);
    lesson->status = status;
    lesson->done = true;
    end_turn(lesson->ask);
}

int tn_cli_learn(struct tn_cli_store *store, char *ret_why, size_t size)
{
    struct lesson lesson = { .ask = store->ask };

    tn_text_init(&lesson.why, ret_why, size);
    if (store->ops->learn == NULL)
        return 0;
    store->ops->learn(store->ask->store, hear_lesson, &lesson);
    while (!lesson.done)
        (void)uv_run(&store->ask->loop, UV_RUN_ONCE);
    return lesson.status;
}

struct clock_reading {
    struct tn_ask *ask;
    tenure_ns clock;
    int status;
    bool done;
    char error[TN_CLI_LINE_MAX];
};

static void hear_clock(void *arg, int status, tenure_ns clock, const char *error)
{
    struct clock_reading *reading = arg;

    reading->clock = clock;
    reading->status = status;
    reading->done = true;
    if (error != NULL)
        (void)snprintf(reading->error, sizeof reading->error, "%s", error);
    end_turn(reading->ask);
}

int tn_cli_read_clock(struct tn_cli_store *store, tenure_ns *ret_clock, struct tn_text *reterr)
{
    struct clock_reading reading = { .ask = store->ask };

    if (store->ops->read_clock == NULL) {
        const char *why = store->ops->clock_why;
        tn_text_add(reterr, why != NULL ? why : "this engine tells no clock");
        return TENURE_E_UNSUPPORTED;
    }
    store->ops->read_clock(store->ask->store, hear_clock, &reading);
    while (!reading.done)
        (void)uv_run(&store->ask->loop, UV_RUN_ONCE);
    tn_text_add(reterr, reading.error);
    if (reading.status == 0)
        *ret_clock = reading.clock;
    return reading.status;
}

/* --- Waiting -------------------------------------------------------------------------------- */

void tn_cli_catch_signals(struct tn_cli_store *store)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    struct tn_ask *ask = store->ask;
    struct sigaction old;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        /* nohup and a shell's background jobs ignore some; that stays so. */
        if (sigaction(numbers[i], NULL, &old) != 0 || old.sa_handler == SIG_IGN)
            continue;
        ask->catches[i] = uv_signal_init(&ask->loop, &ask->signals[i]) == 0;
        ask->signals[i].data = ask;
        if (ask->catches[i])
            (void)uv_signal_start(&ask->signals[i], hear_signal, numbers[i]);
    }
}

int tn_cli_caught(const struct tn_cli_store *store)
{
    return store->ask->caught;
}

int tn_cli_watch_name(struct tn_cli_store *store, const char *name)
{
    return store->ask->store->ops->watch(store->ask->store, name, true);
}

void tn_cli_hear_changes(struct tn_cli_store *store,
                         void (*hear)(void *arg, const char *name,
                                      const struct tn_store_record *record),
                         void *arg)
{
    store->ask->hear = hear;
    store->ask->hear_arg = arg;
}

void tn_cli_pause(struct tn_cli_store *store, tenure_ns until)
{
    struct tn_ask *ask = store->ask;

    while (!ask->woken && ask->caught == 0) {
        tenure_ns span = until - tn_clock_now(&store->clock);
        if (span <= 0)
            break;
        if (span > TURN_MOST)
            span = TURN_MOST;
        (void)uv_timer_start(&ask->timer, hear_ask_timer, (uint64_t)(span / TN_MS(1)) + 1, 0);
        (void)uv_run(&ask->loop, UV_RUN_ONCE);
    }
    (void)uv_timer_stop(&ask->timer);
    ask->woken = false;
}
