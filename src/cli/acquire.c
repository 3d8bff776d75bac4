/* acquire.c - `tenure acquire NAME`: takes a lease that belongs to no process and lives its TTL.
 *
 * Happy path: one transaction opens a session and takes the name; token and secret are printed.
 * With --wait it queues, first come, first served, and asks again when the store's bell rings, when
 * the holder's time is over, and often enough to stay alive in the queue: each question renews.
 * What can fail: the name is held for the whole wait (75), the store for the whole wait (69). A
 * waiter that is told to end, and one whose output is lost, takes back what it has. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/time.h"
#include "cli/store.h"
#include "core/plan.h"
#include "runtime/random.h"

#define WAIT_MAX TN_SEC(30 * 24 * 3600)

/* Without a bell; and at least this long between two questions. */
#define POLL_EVERY TN_MS(250)
#define POLL_LEAST TN_MS(2)

static const char about[] =
    "Takes a lease for a script. It belongs to no process: it lives its TTL and has to be renewed\n"
    "or released with the token and the secret that are printed. Without --wait it never waits.\n";

static const char after[] =
    "Examples:\n"
    "  eval \"$(tenure acquire nightly-report --ttl 10m)\" && export TENURE_SECRET\n"
    "      sets TENURE_TOKEN and TENURE_SECRET, for 'tenure renew' and 'tenure release'\n"
    "  tenure acquire nightly-report --wait 30s --json\n"
    "      {\"granted\":true,\"name\":...,\"token\":7,\"secret\":...,\"ttl_ms\":15000}\n"
    "\n"
    "Exit status: 0 granted, 64 bad usage, 69 store unavailable, 75 held by another,\n"
    "77 not permitted.\n";

struct request {
    struct tn_op op;
    tenure_ns ttl;
    tenure_ns renew_at; /* From then on a question also renews; others write nothing. */
    tenure_ns wait;
    bool json;
    int bell; /* -1: none. */
    char id[TN_LABEL_MAX + 1];
    sigset_t signals; /* Those that end a wait. */
    sigset_t before;  /* The mask to wait with. */
};

/* --- What was asked for --------------------------------------------------------------------- */

/* The TTL must be one that a holder can live with. */
static int check_ttl(tenure_ns ttl, const uint32_t *rho_ppm)
{
    struct tn_plan plan;

    tn_plan_init(&plan, ttl);
    if (rho_ppm != NULL)
        tn_plan_turn(&plan, TN_KNOB_RHO, *rho_ppm);
    return tn_cli_check_plan("acquire", &plan);
}

/* Returns -1 to go on, or the exit status. */
static int read_arguments(struct request *request, const char **ret_url, int argc, char **argv)
{
    const char *id = NULL;
    uint32_t rho_ppm = 0;
    struct tn_op *op = &request->op;
    struct tn_option options[] = {
        TN_RATE("rho", 0, &rho_ppm, "0.1", "clock-rate bound, to check the TTL with"),
        TN_DURATION("ttl", 0, &request->ttl, TN_TTL_MIN, TN_TTL_MAX, "15s",
                    "how long the lease lives"),
        TN_STRING("id", 'i', &id, "ID", "host-pid", "a label, to tell who holds it"),
        TN_DURATION("wait", 0, &request->wait, 0, WAIT_MAX, "0s", "wait in the queue this long"),
        TN_STORE(ret_url),
        TN_FLAG("json", 0, &request->json, "print one JSON object on one line"),
    };
    struct tn_command command = { .verb = "acquire",
                                  .words = "NAME",
                                  .words_max = 1,
                                  .about = about,
                                  .after = after,
                                  .options = options,
                                  .option_count = sizeof options / sizeof options[0] };

    int status = tn_cli_options(&command, argc, argv);
    if (status < 0)
        status = tn_cli_name(&command, &op->name);
    if (status < 0)
        status = check_ttl(request->ttl, options[0].given ? &rho_ppm : NULL);
    if (status < 0)
        status = tn_cli_label("acquire", id, request->id);
    if (status >= 0)
        return status;
    op->label = request->id;
    op->label_len = (uint32_t)strlen(request->id);
    op->name_len = (uint32_t)strlen(op->name);
    return -1;
}

/* --- The answer ----------------------------------------------------------------------------- */

static int take_back(struct tn_cli_store *store, const struct request *request)
{
    struct tn_op op = request->op;
    struct tn_sqlite_result result;

    op.kind = TN_OP_RELEASE;
    op.token = 0;
    return tn_cli_step(store, &op, &result);
}

static int granted(struct tn_cli_store *store, const struct request *request,
                   const struct tn_sqlite_result *result)
{
    char secret[TN_SECRET_TEXT];
    const struct tn_op *op = &request->op;

    tn_cli_secret_format(secret, op);
    if (request->json)
        printf("{\"granted\":true,\"name\":\"%s\",\"token\":%" PRIu64 ",\"secret\":\"%s\","
               "\"ttl_ms\":%" PRId64 "}\n",
               op->name, result->lease.token, secret, request->ttl / TN_MS(1));
    else
        printf("TENURE_TOKEN=%" PRIu64 "\nTENURE_SECRET=%s\n", result->lease.token, secret);
    /* Nobody knows the secret: nobody could give the lease back. main tells of the lost output. */
    if (fflush(stdout) != 0 || ferror(stdout))
        (void)take_back(store, request);
    return TN_EXIT_OK;
}

static int not_granted(const struct request *request, const struct tn_sqlite_lease *lease)
{
    char buf[TN_CLI_LINE_MAX];
    char json[8 * TN_LABEL_MAX];
    char remaining[TN_DURATION_TEXT];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    if (request->json) {
        tn_text_init(&text, json, sizeof json);
        tn_json_string(&text, lease->label, lease->label_len);
        printf("{\"granted\":false,\"holder\":%s,\"token\":%" PRIu64 ",\"remaining_ms\":%" PRId64
               "}\n",
               json, lease->token, lease->remaining / TN_MS(1));
        return TN_EXIT_NOT_ACQUIRED;
    }
    tn_cli_quote(&text, lease->label);
    return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, "acquire",
                       "%s is held by %s, token %" PRIu64 ", for another %s unless renewed",
                       request->op.name, buf, lease->token,
                       tn_cli_duration(remaining, lease->remaining));
}

/* --- Waiting -------------------------------------------------------------------------------- */

static volatile sig_atomic_t caught;

static void catch (int number)
{
    caught = number;
}

/* From here on the signals that end a program arrive only while it waits. */
static void catch_signals(struct request *request)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction action = { .sa_handler = catch };
    struct sigaction old;

    (void)sigemptyset(&request->signals);
    (void)sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        /* nohup and a shell's background jobs ignore some; that stays so. */
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) {
            (void)sigaddset(&request->signals, numbers[i]);
            (void)sigaction(numbers[i], &action, NULL);
        }
    }
    (void)sigprocmask(SIG_BLOCK, &request->signals, &request->before);
}

static int end_by_signal(struct tn_cli_store *store, const struct request *request)
{
    struct sigaction action = { .sa_handler = SIG_DFL };
    int number = caught;

    (void)take_back(store, request);
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
    (void)raise(number);
    (void)sigprocmask(SIG_UNBLOCK, &request->signals, NULL);
    return 128 + number;
}

static tenure_ns least(tenure_ns a, tenure_ns b)
{
    return a < b ? a : b;
}

/* Until the bell rings, a signal arrives, or @span is over. */
static void pause_for(const struct request *request, tenure_ns span)
{
    struct pollfd bell = { .fd = request->bell, .events = POLLIN };

    if (request->bell < 0)
        span = least(span, POLL_EVERY);
    if (span < POLL_LEAST)
        span = POLL_LEAST;
    struct timespec timeout = { .tv_sec = span / TN_SEC(1), .tv_nsec = span % TN_SEC(1) };
    (void)ppoll(&bell, 1, &timeout, &request->before);
}

static int fresh_secrets(struct request *request)
{
    int rc = tn_random_secret(&request->op.session);
    if (rc == 0)
        rc = tn_random_secret(&request->op.term);
    return rc < 0 ? tn_cli_store_fail("acquire", rc, "the kernel gives no random numbers") : -1;
}

/* Ask once. Returns the error code, and its line in @reterr. When the bell rings, all waiters ask:
 * only a question that writes nothing is cheap enough for that. */
static int ask(struct tn_cli_store *store, struct request *request,
               struct tn_sqlite_result *ret_result, struct tn_text *reterr)
{
    tenure_ns now = tn_clock_now(&store->clock);
    bool renews = now >= request->renew_at;

    reterr->len = 0;
    reterr->truncated = false;
    reterr->buf[0] = '\0';
    if (request->bell >= 0)
        tn_sqlite_watch_drain(request->bell);
    request->op.ttl = renews ? request->ttl : 0;
    int rc = tn_sqlite_step(store->sqlite, &request->op, ret_result, reterr);
    if (rc == 0 && renews)
        request->renew_at = now + request->ttl / 3;
    return rc;
}

/* What to do about @result while there is time @left: wait for *@ret_next and ask again (-1), or
 * end with the exit status. */
static int judge(struct tn_cli_store *store, struct request *request,
                 const struct tn_sqlite_result *result, tenure_ns left, tenure_ns *ret_next)
{
    int status;

    switch (result->answer) {
    case TN_ANSWER_GRANTED:
        if (request->op.ttl > 0)
            return granted(store, request, result);
        request->renew_at = 0; /* The holder is to have a full TTL. */
        *ret_next = 0;
        return -1;
    case TN_ANSWER_HELD:
        return not_granted(request, &result->lease);
    case TN_ANSWER_FULL:
        return tn_cli_store_fail("acquire", TENURE_E_FULL, "the store has no more tokens");
    case TN_ANSWER_QUEUED:
        *ret_next = least(*ret_next, result->lease.remaining);
        if (left > 0)
            return -1;
        status = take_back(store, request);
        return status >= 0 ? status : not_granted(request, &result->lease);
    default:
        /* This process slept so long that its place, or its unheard grant, has expired. */
        request->renew_at = 0;
        *ret_next = 0;
        return fresh_secrets(request);
    }
}

/* Without a wait this asks once. The wait ends with a last question, so that a grant that came in
 * the meantime is taken. */
static int campaign(struct tn_cli_store *store, struct request *request)
{
    tenure_ns end = store->start + request->wait;
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    tn_text_init(&error, buf, sizeof buf);
    for (;;) {
        struct tn_sqlite_result result = { .answer = TN_ANSWER_GONE };
        int rc = ask(store, request, &result, &error);
        tenure_ns now = tn_clock_now(&store->clock);
        tenure_ns next = rc < 0 ? POLL_EVERY : request->renew_at - now;
        bool again = rc == TENURE_E_UNAVAILABLE || rc == TENURE_E_TIMEOUT;

        if (caught != 0)
            return end_by_signal(store, request);
        if (rc < 0 && (now >= end || !again))
            return tn_cli_store_fail("acquire", rc, buf);
        int status = rc < 0 ? -1 : judge(store, request, &result, end - now, &next);
        if (status >= 0)
            return status;
        if (next > 0)
            pause_for(request, least(next, end - now));
    }
}

int tn_cli_acquire(int argc, char **argv)
{
    struct request request = { .op = { .kind = TN_OP_ACQUIRE }, .ttl = TN_SEC(15), .bell = -1 };
    struct tn_cli_store store = { .sqlite = NULL };
    const char *url = NULL;

    int status = read_arguments(&request, &url, argc, argv);
    if (status < 0)
        status = fresh_secrets(&request);
    if (status < 0)
        status = tn_cli_store_open("acquire", url, true, request.wait, &store);
    if (status >= 0)
        return status;
    if (request.wait > 0) {
        request.op.wait = true;
        catch_signals(&request);
        request.bell = tn_sqlite_watch(store.sqlite);
    }
    status = campaign(&store, &request);
    if (request.bell >= 0)
        (void)close(request.bell);
    tn_cli_store_close(&store);
    return status;
}
