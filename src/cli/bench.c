/* bench.c - `tenure bench`: loads a store for a few seconds and tells how fast it is.
 *
 * Happy path: as many clients as asked for, each with a connection and a session of its own and one
 * request outstanding, all on one loop. First each takes and gives back a name of its own, again
 * and again; then each renews; then two of them hand one name to and fro. At the end the sessions
 * are closed, and where a store can forget names it forgets these.
 * What can fail: the URL (64), and the store (69, 77): then what was begun is given back as well,
 * and so it is after a signal. What is left when the store does not answer ends with its TTL. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/sha256.h"
#include "base/time.h"
#include "cli/reserve.h"
#include "cli/store.h"
#include "runtime/loop.h"
#include "runtime/random.h"
#include "stores/registry.h"

enum { CLIENTS_MAX = 256, SAMPLES_MAX = 1 << 20 };

/* Longer than all works together, so that nobody has to renew beside them. */
#define TTL TN_SEC(60)
#define TIME_MAX TN_SEC(10)
#define PATIENCE TN_SEC(5)
/* Who waits is in the queue, and has heard who holds, before the release. */
#define SETTLE TN_MS(120)
/* News may be lost; and some stores do not tell. */
#define POLL_MS 50

static const char about[] =
    "Loads a store and reports: how many leases it grants, takes back and renews a second, how\n"
    "long one takes, and how long it is from a release to the next holder's knowledge. It takes\n"
    "names below 'tenure-bench/' only, and gives everything back.\n";

static const char after[] =
    "Each work lasts --time, so the whole takes about three times as long. Numbers of one machine\n"
    "compare with numbers of the same machine only; 'make bench' in the sources compares servers.\n"
    "\n"
    "Examples:\n"
    "  tenure bench --store etcd://10.0.0.1,10.0.0.2,10.0.0.3/bench --clients 64\n"
    "  tenure bench --time 500ms --json\n"
    "      {\"store\":\"sqlite\",\"clients\":16,\"works\":[{\"work\":\"acquire\",...},...]}\n"
    "\n"
    "Exit status: 0 measured, 64 bad usage, 69 store unavailable, 77 not permitted.\n";

enum work { ACQUIRE, RELEASE, RENEW, HANDOVER, WORK_COUNT };

static const char *const work_names[WORK_COUNT] = { "acquire", "release", "renew", "hand-over" };

struct samples {
    tenure_ns *list;
    size_t count, size;
    uint64_t done;
    tenure_ns span; /* How long the work lasted. */
};

struct bench;

struct client {
    struct bench *bench;
    struct tn_store *store;
    struct tn_store_req req;
    struct tn_secret session, term;
    uint64_t seq, token;
    tenure_ns sent_at;
    bool busy, open, holds, news, closed;
    char name[TN_NAME_MAX + 1];
};

struct bench {
    const char *url;
    const char *scheme; /* The URL itself may hold a password. */
    tenure_ns time;
    uint64_t count;
    bool json;
    struct tn_clock clock;
    uv_loop_t loop;
    uv_timer_t timer;
    uv_signal_t signals[2];
    int caught;
    tenure_ns until; /* No request is begun after this. */
    enum tn_op_kind next;
    int error; /* The first one. */
    char text[TN_CLI_LINE_MAX];
    bool forgotten;
    struct samples samples[WORK_COUNT];
    struct client clients[CLIENTS_MAX];
};

/* --- Samples ---------------------------------------------------------------------------------- */

static void note(struct samples *samples, tenure_ns took)
{
    samples->done++;
    if (samples->count == samples->size && samples->size < SAMPLES_MAX) {
        size_t size = samples->size > 0 ? 2 * samples->size : 4096;
        tenure_ns *larger = realloc(samples->list, size * sizeof *larger);
        if (larger == NULL)
            return; /* What there is will do. */
        samples->list = larger;
        samples->size = size;
    }
    if (samples->count < samples->size)
        samples->list[samples->count++] = took;
}

static int by_length(const void *a, const void *b)
{
    tenure_ns x = *(const tenure_ns *)a;
    tenure_ns y = *(const tenure_ns *)b;

    return (x > y) - (x < y);
}

static tenure_ns percentile(const struct samples *samples, size_t percent)
{
    return samples->count > 0 ? samples->list[(samples->count - 1) * percent / 100] : 0;
}

/* --- Requests --------------------------------------------------------------------------------- */

static void fail(struct bench *bench, int error, const char *text)
{
    if (bench->error != 0)
        return;
    bench->error = error;
    (void)snprintf(bench->text, sizeof bench->text, "%s", text);
}

static bool is_over(const struct bench *bench)
{
    return bench->error != 0 || bench->caught != 0 || tn_clock_now(&bench->clock) >= bench->until;
}

/* What the loop is run for may have happened before it would go to sleep; see cli/ask.c. */
static void end_turn(struct bench *bench)
{
    uv_stop(&bench->loop);
}

static void done(struct tn_store_req *req);

static void submit(struct client *client, enum tn_op_kind kind)
{
    struct tn_op op = { .kind = kind, .session = client->session, .term = client->term };

    if (kind == TN_OP_OPEN || kind == TN_OP_RENEW)
        op.seq = ++client->seq;
    if (kind == TN_OP_OPEN) {
        op.ttl = TTL;
        op.label = "tenure-bench";
        op.label_len = (uint32_t)strlen(op.label);
    }
    if (kind == TN_OP_ACQUIRE || kind == TN_OP_RELEASE) {
        op.name = client->name;
        op.name_len = (uint32_t)strlen(client->name);
        op.token = kind == TN_OP_RELEASE ? client->token : 0;
        op.wait = kind == TN_OP_ACQUIRE;
    }
    client->req = (struct tn_store_req) { .op = op, .done = done };
    client->busy = true;
    client->news = false;
    client->sent_at = tn_clock_now(&client->bench->clock);
    tn_store_submit(client->store, &client->req);
}

/* A term of its own for each grant. */
static void campaign(struct client *client)
{
    if (tn_random_secret(&client->term) < 0)
        fail(client->bench, TENURE_E_UNAVAILABLE, "the kernel gives no random numbers");
    else
        submit(client, TN_OP_ACQUIRE);
}

static void hold(struct client *client, uint64_t token)
{
    client->holds = true;
    client->token = token;
}

/* What the answer says, and whether it is one that a work can go on from. */
static bool take_answer(struct client *client)
{
    const struct tn_store_req *req = &client->req;

    if (req->status != 0) {
        fail(client->bench, req->status,
             req->error[0] != 0 ? req->error : tenure_strerror(req->status));
        return false;
    }
    switch (req->answer) {
    case TN_ANSWER_GRANTED:
        hold(client, req->record.token);
        return true;
    case TN_ANSWER_RELEASED:
        client->holds = false;
        return true;
    case TN_ANSWER_OK:
    case TN_ANSWER_QUEUED:
    case TN_ANSWER_HELD:
        return true;
    case TN_ANSWER_FREE:
    case TN_ANSWER_STALE:
    case TN_ANSWER_DENIED:
    case TN_ANSWER_GONE:
    case TN_ANSWER_FULL:
        break;
    }
    fail(client->bench, TENURE_E_UNAVAILABLE,
         req->answer == TN_ANSWER_FULL ? "the store is full"
                                       : "the store has ended a session before its time");
    return false;
}

/* In the first two works the next request follows at once. */
static void go_on(struct client *client, enum tn_op_kind kind)
{
    struct bench *bench = client->bench;
    tenure_ns took = tn_clock_now(&bench->clock) - client->sent_at;

    if (kind == TN_OP_RENEW) {
        note(&bench->samples[RENEW], took);
        if (!is_over(bench))
            submit(client, TN_OP_RENEW);
    } else if (kind == TN_OP_RELEASE) {
        note(&bench->samples[RELEASE], took);
        if (!is_over(bench))
            campaign(client);
    } else if (kind == TN_OP_ACQUIRE && client->holds) {
        note(&bench->samples[ACQUIRE], took);
        submit(client, TN_OP_RELEASE); /* Also when the time is over. */
    }
}

static void done(struct tn_store_req *req)
{
    struct client *client = (struct client *)((char *)req - offsetof(struct client, req));
    enum tn_op_kind kind = req->op.kind;

    end_turn(client->bench);
    client->busy = false;
    if (kind == TN_OP_CLOSE) {
        client->open = false; /* Whatever the answer: the TTL does the rest. */
        return;
    }
    if (!take_answer(client))
        return;
    if (kind == TN_OP_OPEN)
        client->open = true;
    else if (client->bench->next == TN_OP_ACQUIRE || client->bench->next == TN_OP_RENEW)
        go_on(client, kind);
}

static void hear_granted(void *arg, const char *name, const struct tn_secret *term, uint64_t token)
{
    struct client *client = arg;
    struct tn_secret own;

    (void)name;
    end_turn(client->bench);
    tn_secret_hash(&client->term, 't', &own);
    if (tn_secret_equal(term, &own) && !client->holds) /* Not of an earlier term. */
        hold(client, token);
}

static void hear_changed(void *arg, const char *name, const struct tn_store_record *record)
{
    struct client *client = arg;

    (void)name;
    (void)record;
    client->news = true;
    end_turn(client->bench);
}

static void hear_revoked(void *arg, const char *name, uint64_t token)
{
    (void)arg;
    (void)name;
    (void)token;
}

static const struct tn_store_host host = { hear_granted, hear_changed, hear_revoked };

/* --- Works ------------------------------------------------------------------------------------ */

static bool any_busy(const struct bench *bench)
{
    for (uint64_t i = 0; i < bench->count; i++)
        if (bench->clients[i].busy)
            return true;
    return false;
}

/* Every request comes back within the store's patience. */
static void settle(struct bench *bench)
{
    while (any_busy(bench))
        (void)uv_run(&bench->loop, UV_RUN_ONCE);
}

/* All clients at once, with @first as their first request. */
static void run_all(struct bench *bench, enum tn_op_kind first, enum work work)
{
    tenure_ns from = tn_clock_now(&bench->clock);

    bench->next = first;
    bench->until = from + bench->time;
    if (is_over(bench))
        return;
    for (uint64_t i = 0; i < bench->count; i++) {
        if (first == TN_OP_ACQUIRE)
            campaign(&bench->clients[i]);
        else
            submit(&bench->clients[i], first);
    }
    settle(bench);
    bench->samples[work].span = tn_clock_now(&bench->clock) - from;
}

/* Until @client holds, or there is no sense in waiting. News and the timer make it ask again. */
static void await(struct bench *bench, struct client *client)
{
    tenure_ns patience = tn_clock_now(&bench->clock) + 2 * PATIENCE;

    while (!client->holds && bench->error == 0 && bench->caught == 0) {
        if (tn_clock_now(&bench->clock) > patience)
            fail(bench, TENURE_E_UNAVAILABLE, "a release was not followed by a grant");
        (void)uv_run(&bench->loop, UV_RUN_ONCE);
        if (!client->busy && client->news && !client->holds)
            submit(client, TN_OP_ACQUIRE);
    }
}

static void hear_bench_timer(uv_timer_t *timer)
{
    struct bench *bench = timer->data;

    bench->clients[0].news = bench->clients[1].news = true;
}

static void let(struct bench *bench, tenure_ns span)
{
    tenure_ns end = tn_clock_now(&bench->clock) + span;

    while (tn_clock_now(&bench->clock) < end && bench->error == 0 && bench->caught == 0)
        (void)uv_run(&bench->loop, UV_RUN_ONCE);
}

static void run_hand_over(struct bench *bench)
{
    struct client *holder = &bench->clients[0];
    struct client *waiter = &bench->clients[1];
    tenure_ns from = tn_clock_now(&bench->clock);

    bench->next = TN_OP_TICK; /* Nothing follows by itself. */
    bench->until = from + bench->time;
    memcpy(waiter->name, holder->name, sizeof waiter->name);
    for (int i = 0; i < 2; i++)
        if (bench->clients[i].store->ops->watch(bench->clients[i].store, holder->name, true) < 0)
            fail(bench, TENURE_E_NOMEM, "out of memory");
    (void)uv_timer_start(&bench->timer, hear_bench_timer, POLL_MS, POLL_MS);
    if (!is_over(bench))
        campaign(holder);
    await(bench, holder);
    while (!is_over(bench)) {
        campaign(waiter);
        let(bench, SETTLE);
        settle(bench);
        if (bench->error != 0 || bench->caught != 0)
            break;
        submit(holder, TN_OP_RELEASE);
        await(bench, waiter);
        if (waiter->holds)
            note(&bench->samples[HANDOVER], tn_clock_now(&bench->clock) - holder->sent_at);
        settle(bench);
        struct client *swap = holder;
        holder = waiter;
        waiter = swap;
    }
    bench->samples[HANDOVER].span = tn_clock_now(&bench->clock) - from;
    settle(bench);
    (void)uv_timer_stop(&bench->timer);
}

/* --- Beginning and end ------------------------------------------------------------------------ */

static void open_client(struct bench *bench, struct client *client, const char *prefix, uint64_t i)
{
    struct tn_store_open how = { .url = bench->url,
                                 .loop = &bench->loop,
                                 .clock = &bench->clock,
                                 .host = &host,
                                 .arg = client,
                                 .create = true,
                                 .patience = PATIENCE };
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    client->bench = bench;
    (void)snprintf(client->name, sizeof client->name, "%s%" PRIu64, prefix, i);
    tn_text_init(&error, buf, sizeof buf);
    int rc = tn_random_secret(&client->session);
    if (rc == 0)
        rc = tn_store_open(&how, &client->store, &error);
    if (rc < 0) {
        fail(bench, rc, buf);
        return;
    }
    bench->scheme = client->store->ops->scheme;
    submit(client, TN_OP_OPEN);
}

static void hear_forgotten(void *arg, int status, const char *error)
{
    struct bench *bench = arg;

    (void)status;
    (void)error;
    bench->forgotten = true;
    end_turn(bench);
}

static void hear_closed(void *arg)
{
    struct client *client = arg;

    client->closed = true;
    end_turn(client->bench);
}

/* Give everything back, as far as the store answers. */
static void clean_up(struct bench *bench, const char *prefix)
{
    struct tn_store *first = bench->clients[0].store;

    settle(bench);
    for (uint64_t i = 0; i < bench->count; i++)
        if (bench->clients[i].open)
            submit(&bench->clients[i], TN_OP_CLOSE);
    settle(bench);
    if (first != NULL && first->ops->forget != NULL && bench->error == 0) {
        first->ops->forget(first, prefix, hear_forgotten, bench);
        while (!bench->forgotten)
            (void)uv_run(&bench->loop, UV_RUN_ONCE);
    }
    for (uint64_t i = 0; i < bench->count; i++) {
        struct client *client = &bench->clients[i];
        if (client->store == NULL)
            continue;
        client->store->ops->close(client->store, hear_closed, client);
        while (!client->closed)
            (void)uv_run(&bench->loop, UV_RUN_ONCE);
    }
}

static void hear_signal(uv_signal_t *handle, int number)
{
    struct bench *bench = handle->data;

    bench->caught = number;
    end_turn(bench);
}

static void run_works(struct bench *bench)
{
    static const int numbers[] = { SIGINT, SIGTERM };
    struct tn_secret random = { { 0 } };
    char prefix[64];

    for (int i = 0; i < 2; i++) {
        (void)uv_signal_init(&bench->loop, &bench->signals[i]);
        bench->signals[i].data = bench;
        (void)uv_signal_start(&bench->signals[i], hear_signal, numbers[i]);
    }
    (void)uv_timer_init(&bench->loop, &bench->timer);
    bench->timer.data = bench;
    if (tn_random_secret(&random) < 0)
        fail(bench, TENURE_E_UNAVAILABLE, "the kernel gives no random numbers");
    (void)snprintf(prefix, sizeof prefix, "tenure-bench/%02x%02x%02x%02x/", random.bytes[0],
                   random.bytes[1], random.bytes[2], random.bytes[3]);
    for (uint64_t i = 0; i < bench->count && bench->error == 0; i++)
        open_client(bench, &bench->clients[i], prefix, i);
    settle(bench);
    run_all(bench, TN_OP_ACQUIRE, ACQUIRE);
    bench->samples[RELEASE].span = bench->samples[ACQUIRE].span;
    run_all(bench, TN_OP_RENEW, RENEW);
    if (bench->error == 0)
        run_hand_over(bench);
    clean_up(bench, prefix);
    uv_close((uv_handle_t *)&bench->timer, NULL);
    for (int i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&bench->signals[i], NULL);
    (void)uv_run(&bench->loop, UV_RUN_DEFAULT);
}

/* --- The report ------------------------------------------------------------------------------- */

static double in(tenure_ns span, tenure_ns unit)
{
    return (double)span / (double)unit;
}

static void print_json(const struct bench *bench)
{
    printf("{\"store\":\"%s\",\"clients\":%" PRIu64 ",\"works\":[", bench->scheme, bench->count);
    for (int i = 0; i < WORK_COUNT; i++) {
        const struct samples *samples = &bench->samples[i];
        printf("%s{\"work\":\"%s\",\"count\":%" PRIu64 ",\"per_second\":%.1f,\"p50_us\":%.1f,"
               "\"p90_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f}",
               i > 0 ? "," : "", work_names[i], samples->done,
               (double)samples->done / in(samples->span, TN_SEC(1)),
               in(percentile(samples, 50), TN_US(1)), in(percentile(samples, 90), TN_US(1)),
               in(percentile(samples, 99), TN_US(1)), in(percentile(samples, 100), TN_US(1)));
    }
    printf("]}\n");
}

static void print_table(const struct bench *bench)
{
    char time[TN_DURATION_TEXT];

    printf("%s: %" PRIu64 " clients, %s of each work\n\n", bench->scheme, bench->count,
           tn_cli_duration(time, bench->time));
    printf("work         a second    p50 ms    p90 ms    p99 ms    max ms\n");
    for (int i = 0; i < WORK_COUNT; i++) {
        const struct samples *samples = &bench->samples[i];
        printf("%-10s %10.0f", work_names[i], (double)samples->done / in(samples->span, TN_SEC(1)));
        for (const size_t *percent = (const size_t[]) { 50, 90, 99, 100, 0 }; *percent != 0;
             percent++)
            printf(" %9.3f", in(percentile(samples, *percent), TN_MS(1)));
        printf("\n");
    }
}

static int report(struct bench *bench)
{
    for (int i = 0; i < WORK_COUNT; i++)
        if (bench->samples[i].list != NULL)
            qsort(bench->samples[i].list, bench->samples[i].count, sizeof(tenure_ns), by_length);
    if (bench->json)
        print_json(bench);
    else
        print_table(bench);
    return TN_EXIT_OK;
}

static int end_by_signal(int number)
{
    struct sigaction action = { .sa_handler = SIG_DFL };

    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
    (void)raise(number);
    return 128 + number;
}

/* Returns the exit status. */
static int measure(struct bench *bench)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    tn_text_init(&error, buf, sizeof buf);
    if (tn_clock_init(&bench->clock) < 0)
        return tn_cli_store_fail("bench", TENURE_E_UNAVAILABLE,
                                 "/proc does not tell which boot this is");
    tn_reserve_for_libuv();
    if (tn_loop_check(&error) < 0)
        return tn_cli_store_fail("bench", TENURE_E_UNAVAILABLE, buf);
    if (uv_loop_init(&bench->loop) != 0)
        return tn_cli_store_fail("bench", TENURE_E_UNAVAILABLE, "no descriptors for a loop");
    run_works(bench);
    int rc = uv_loop_close(&bench->loop);
    TN_ASSERT(rc == 0);
    if (bench->caught != 0)
        return end_by_signal(bench->caught);
    if (bench->error != 0)
        return tn_cli_store_fail("bench", bench->error, bench->text);
    return report(bench);
}

int tn_cli_bench(int argc, char **argv)
{
    struct bench *bench = calloc(1, sizeof *bench);

    if (bench == NULL)
        return tn_cli_fail(TN_EXIT_UNAVAILABLE, "bench", "out of memory");
    bench->count = 16;
    bench->time = TN_SEC(2);
    struct tn_option options[] = {
        TN_U64("clients", 'c', &bench->count, 2, CLIENTS_MAX, "COUNT", "16",
               "sessions, each with one request outstanding"),
        TN_DURATION("time", 't', &bench->time, TN_MS(10), TIME_MAX, "2s",
                    "how long each work lasts"),
        TN_STORE(&bench->url),
        TN_FLAG("json", 0, &bench->json, "print one JSON object on one line"),
    };
    struct tn_command command = TN_COMMAND("bench", NULL, 0, options);

    int status = tn_cli_options(&command, argc, argv);
    if (status < 0) {
        if (bench->url == NULL)
            bench->url = getenv("TENURE_STORE");
        status = measure(bench);
    }
    for (int i = 0; i < WORK_COUNT; i++)
        free(bench->samples[i].list);
    free(bench);
    return status;
}
