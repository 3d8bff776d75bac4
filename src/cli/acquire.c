/* acquire.c - `tenure acquire NAME`: takes a lease that belongs to no process and lives its TTL.
 *
 * Happy path: a session of its own is opened, the name is taken, and token and secret are printed;
 * the session stays behind, for whoever knows the secret. With --wait it queues, first come, first
 * served, and asks again when the store has news, when the holder's time is over, and often enough
 * to stay alive in the queue.
 * What can fail: the name is held for the whole wait (75), the store for the whole wait (69). A
 * waiter that is told to end, and one whose output is lost, takes back what it has. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/time.h"
#include "base/url.h"
#include "cli/store.h"
#include "core/plan.h"
#include "runtime/random.h"

#define WAIT_MAX TN_SEC(30 * 24 * 3600)

/* In a store that does not tell, and after a failure; and at least this long between two questions
 * that come from the holder's time being over. */
#define POLL_EVERY TN_MS(250)
#define POLL_LEAST TN_MS(20)

static const char about[] =
    "Takes a lease for a script. It belongs to no process: it lives its TTL and has to be renewed\n"
    "or released with the token and the secret that are printed. Without --wait it never waits.\n";

static const char after[] =
    "With a command, it becomes that command once the lease is granted, with TENURE_TOKEN and\n"
    "TENURE_SECRET in its environment; otherwise the command is not run. Nothing stops the "
    "command\n"
    "when the TTL is over: choose one that is longer than the work, or use 'tenure run'.\n"
    "\n"
    "A write that was sent before the TTL was over may arrive later. Where no fence refuses it,\n"
    "--hold-off leaves it time: the store keeps the lease for so much longer, unless it is "
    "released.\n"
    "\n"
    "Examples:\n"
    "  tenure acquire nightly-report --ttl 10m -- ./report.sh\n"
    "      report.sh ends with: tenure release nightly-report --token \"$TENURE_TOKEN\"\n"
    "  lease=$(tenure acquire nightly-report --ttl 10m) || exit\n"
    "  eval \"$lease\" || exit; export TENURE_SECRET\n"
    "      the same within a script; without the lease, the eval fails and unsets the variables\n"
    "  tenure acquire nightly-report --wait 30s --json\n"
    "      {\"granted\":true,\"name\":...,\"token\":7,\"secret\":...,\"ttl_ms\":15000}\n"
    "\n"
    "Exit status: 0 granted, or the command's own; 64 bad usage, 69 store unavailable, 74 output\n"
    "lost, 75 held by another, 77 not permitted, 126 not executable, 127 not found.\n";

struct acquire_request {
    struct tn_op op;
    struct tn_plan plan;
    tenure_ns ttl;
    tenure_ns hold_off;
    tenure_ns agreed;   /* What the store made of both. */
    tenure_ns renew_at; /* 0: there is no session yet. */
    tenure_ns wait;
    bool json;
    bool for_eval; /* What is printed. */
    bool granted;
    uint64_t token;
    char **argv; /* What to become; NULL: nothing. */
    char id[TN_LABEL_MAX + 1];
};

/* --- What was asked for --------------------------------------------------------------------- */

/* The TTL must be one that a holder can live with. */
static int check_ttl(struct acquire_request *request, const uint32_t *rho_ppm)
{
    tn_plan_init(&request->plan, request->ttl);
    request->plan.hold_off = request->hold_off;
    if (rho_ppm != NULL)
        tn_plan_turn(&request->plan, TN_KNOB_RHO, *rho_ppm);
    return tn_cli_check_plan("acquire", &request->plan);
}

/* What is left to the term when the store keeps the lease for @kept. */
static tenure_ns without_hold_off(const struct acquire_request *request, tenure_ns kept)
{
    return kept - (tn_plan_asked(&request->plan) - request->plan.ttl);
}

static int read_command(struct acquire_request *request, const struct tn_command *command)
{
    if (command->rest_count == 1)
        return -1;
    if (command->rest_before != 1)
        return tn_cli_fail(TN_EXIT_USAGE, "acquire",
                           "one name at a time; a command goes behind --, as in 'tenure acquire %s "
                           "-- ./report.sh'",
                           request->op.name);
    if (request->json)
        return tn_cli_fail(TN_EXIT_USAGE, "acquire",
                           "--json prints the secret, and a command gets it in its environment: "
                           "leave one of them out");
    request->argv = command->rest + 1;
    return -1;
}

/* Returns -1 to go on, or the exit status. */
static int read_arguments(struct acquire_request *request, const char **ret_url, int argc,
                          char **argv)
{
    bool no_command = argc > 1 && strcmp(argv[argc - 1], "--") == 0;
    const char *id = NULL;
    uint32_t rho_ppm = 0;
    struct tn_op *op = &request->op;
    struct tn_option options[] = {
        TN_RATE("rho", 0, &rho_ppm, "0.1", "clock-rate bound, to check the TTL with"),
        TN_DURATION("ttl", 0, &request->ttl, TN_TTL_MIN, TN_TTL_MAX, "15s",
                    "how long the lease lives"),
        TN_DURATION("hold-off", 0, &request->hold_off, 0, TN_TTL_MAX, "0s",
                    "unless it is released, keep it from others for so long behind the TTL"),
        TN_STRING("id", 'i', &id, "ID", "host-pid", "a label, to tell who holds it"),
        TN_DURATION("wait", 0, &request->wait, 0, WAIT_MAX, "0s", "wait in the queue this long"),
        TN_STORE(ret_url),
        TN_FLAG("json", 0, &request->json, "print one JSON object on one line"),
    };
    struct tn_command command = { .verb = "acquire",
                                  .words = "NAME [-- CMD [ARG]...]",
                                  .words_max = SIZE_MAX,
                                  .about = about,
                                  .after = after,
                                  .options = options,
                                  .option_count = sizeof options / sizeof options[0] };

    int status = tn_cli_options(&command, argc, argv);
    if (status < 0)
        status = tn_cli_name(&command, &op->name);
    if (status < 0)
        status = tn_cli_check_no_slot("acquire", op->name);
    if (status < 0 && no_command)
        status =
            tn_cli_fail(TN_EXIT_USAGE, "acquire", "there is no command behind %s --", op->name);
    if (status < 0)
        status = read_command(request, &command);
    if (status < 0)
        status = check_ttl(request, options[0].given ? &rho_ppm : NULL);
    if (status < 0)
        status = tn_cli_label("acquire", id, request->id);
    if (status >= 0)
        return status;
    op->name_len = (uint32_t)strlen(op->name);
    return -1;
}

/* --- The answer ----------------------------------------------------------------------------- */

/* The session ends, and what it has or waits for with it. */
static void take_back(struct tn_cli_store *store, const struct acquire_request *request)
{
    struct tn_op op = { .kind = TN_OP_CLOSE, .session = request->op.session };
    struct tn_store_req req;

    (void)tn_cli_ask(store, &op, &req);
}

static int granted(struct tn_cli_store *store, struct acquire_request *request, uint64_t token)
{
    char secret[TN_SECRET_TEXT];
    const struct tn_op *op = &request->op;

    request->granted = true;
    request->token = token;
    if (request->argv != NULL)
        return TN_EXIT_OK;
    tn_cli_secret_format(secret, op);
    if (request->json)
        printf("{\"granted\":true,\"name\":\"%s\",\"token\":%" PRIu64 ",\"secret\":\"%s\","
               "\"ttl_ms\":%" PRId64 "}\n",
               op->name, token, secret, without_hold_off(request, request->agreed) / TN_MS(1));
    else
        printf("TENURE_TOKEN=%" PRIu64 "\nTENURE_SECRET=%s\n", token, secret);
    /* Nobody knows the secret: nobody could give the lease back. main tells of the lost output. */
    if (fflush(stdout) == 0 && !ferror(stdout))
        return TN_EXIT_OK;
    take_back(store, request);
    return TN_EXIT_IO;
}

static int tell_holder(const struct tn_cli_store *store, const struct acquire_request *request,
                       const struct tn_store_record *lease)
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
    tn_text_addf(&text, ", token %" PRIu64, lease->token);
    if ((store->ops->caps & TN_STORE_LINGERS) != 0) /* Nobody but who waits can tell. */
        tn_text_addf(&text, "; if it is dead, that shows to --wait %s or longer",
                     tn_cli_duration(remaining, lease->ttl));
    else if (lease->ttl > 0)
        tn_text_addf(&text, ", for another %s unless renewed",
                     tn_cli_duration(remaining, lease->remaining));
    return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, "acquire", "%s is held by %s", request->op.name, buf);
}

/* The place is given up, and the holder told; an answer to who waits need not say all of it. */
static int not_granted(struct tn_cli_store *store, const struct acquire_request *request,
                       const struct tn_store_record *known)
{
    struct tn_op read = { .kind = TN_OP_READ,
                          .name = request->op.name,
                          .name_len = request->op.name_len };
    struct tn_store_req req;
    const struct tn_store_record *holder = known;

    if (request->wait > 0 && tn_cli_ask(store, &read, &req) == 0 && req.record.held)
        holder = &req.record;
    take_back(store, request);
    return tell_holder(store, request, holder);
}

/* --- Waiting -------------------------------------------------------------------------------- */

/* The output is for `eval`, and `eval ""` succeeds. Without a lease, eval must fail and must not
 * leave the variables of an earlier one. On one line: the script may have forgotten the quotes. */
static void print_failure(int status)
{
    printf("unset TENURE_TOKEN TENURE_SECRET; (exit %d)\n", status);
}

static int end_by_signal(struct tn_cli_store *store, const struct acquire_request *request)
{
    struct sigaction action = { .sa_handler = SIG_DFL };
    int number = tn_cli_caught(store);

    take_back(store, request);
    tn_cli_store_close(store);
    if (request->for_eval)
        print_failure(128 + number);
    (void)fflush(stdout);
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
    (void)raise(number);
    return 128 + number;
}

static tenure_ns least(tenure_ns a, tenure_ns b)
{
    return a < b ? a : b;
}

static int fresh_secrets(struct acquire_request *request)
{
    int rc = tn_random_secret(&request->op.session);
    if (rc == 0)
        rc = tn_random_secret(&request->op.term);
    request->renew_at = 0;
    return rc < 0 ? tn_cli_store_fail("acquire", rc, "the kernel gives no random numbers") : -1;
}

/* The session as it should be: there, and with a full TTL when it is time. */
static int keep_session(struct tn_cli_store *store, struct acquire_request *request,
                        struct tn_store_req *ret_req)
{
    tenure_ns now = tn_clock_now(&store->clock);
    struct tn_op op = { .kind = request->renew_at == 0 ? TN_OP_OPEN : TN_OP_RENEW,
                        .session = request->op.session,
                        .ttl = tn_plan_asked(&request->plan),
                        .label = request->id,
                        .label_len = (uint32_t)strlen(request->id) };

    ret_req->answer = TN_ANSWER_OK;
    if (request->renew_at > now)
        return 0;
    int rc = tn_cli_ask(store, &op, ret_req);
    if (rc == 0 && ret_req->answer == TN_ANSWER_OK) {
        request->agreed = ret_req->ttl;
        request->renew_at = now + ret_req->ttl / 3;
    }
    return rc;
}

/* What to do about the answer while there is time @left: wait for *@ret_next and ask again (-1), or
 * end with the exit status. */
static int judge(struct tn_cli_store *store, struct acquire_request *request,
                 const struct tn_store_req *req, tenure_ns left, tenure_ns *ret_next)
{
    switch (req->answer) {
    case TN_ANSWER_GRANTED:
        return granted(store, request, req->record.token);
    case TN_ANSWER_FULL:
        return tn_cli_store_fail("acquire", TENURE_E_FULL, "the store has no more tokens");
    case TN_ANSWER_HELD:
    case TN_ANSWER_QUEUED:
        if (left <= 0 || request->wait <= 0)
            return not_granted(store, request, &req->record);
        if (req->record.remaining > 0)
            *ret_next = least(*ret_next, req->record.remaining + POLL_LEAST);
        if (req->answer == TN_ANSWER_HELD || (store->ops->caps & TN_STORE_TELLS) == 0)
            *ret_next = least(*ret_next, POLL_EVERY);
        return -1;
    default:
        /* This process slept so long that its place, or its unheard grant, has expired. */
        *ret_next = 0;
        return fresh_secrets(request);
    }
}

/* Ask once: for the session if need be, then for the name. A grant that came while waiting is to
 * last a full TTL from when it is printed. */
static int ask(struct tn_cli_store *store, struct acquire_request *request,
               struct tn_store_req *ret_req)
{
    int rc = keep_session(store, request, ret_req);

    if (rc < 0 || ret_req->answer != TN_ANSWER_OK)
        return rc;
    tenure_ns opened = request->renew_at;
    rc = tn_cli_ask(store, &request->op, ret_req);
    if (rc < 0 || ret_req->answer != TN_ANSWER_GRANTED || request->wait == 0 ||
        opened - request->agreed / 3 >= tn_clock_now(&store->clock) - POLL_EVERY)
        return rc;
    struct tn_store_req renewal;
    request->renew_at = 1;
    rc = keep_session(store, request, &renewal);
    if (rc < 0 || renewal.answer != TN_ANSWER_OK)
        *ret_req = renewal;
    return rc;
}

/* Without a wait this asks once. The wait ends with a last question, so that a grant that came in
 * the meantime is taken. */
static int campaign(struct tn_cli_store *store, struct acquire_request *request)
{
    tenure_ns end = store->start + request->wait;

    for (;;) {
        struct tn_store_req req = { .answer = TN_ANSWER_GONE };
        int rc = ask(store, request, &req);
        tenure_ns now = tn_clock_now(&store->clock);
        tenure_ns next = rc < 0 ? POLL_EVERY : request->renew_at - now;
        bool again = rc == TENURE_E_UNAVAILABLE || rc == TENURE_E_TIMEOUT;

        if (tn_cli_caught(store) != 0)
            return end_by_signal(store, request);
        if (rc < 0 && (now >= end || !again)) {
            if (request->renew_at != 0 || tenure_error_unknown(rc))
                take_back(store, request); /* It may have happened all the same. */
            return tn_cli_store_fail("acquire", rc, req.error);
        }
        int status = rc < 0 ? -1 : judge(store, request, &req, end - now, &next);
        if (status >= 0)
            return status;
        tn_cli_pause(store, least(now + next, end));
    }
}

/* The TTL may be below what the engine grants, or above: then it must say so, not change it. */
static int check_store(struct tn_cli_store *store, const struct acquire_request *request)
{
    tenure_ns asked = tn_plan_asked(&request->plan);
    const char *options = request->hold_off > 0 ? "--ttl and --hold-off" : "--ttl";
    const char *both = request->hold_off > 0 ? " for both together" : "";
    char limit[TN_DURATION_TEXT];

    int status = tn_cli_check_scripts(store);
    if (status < 0 && asked < store->ops->ttl_min)
        status = tn_cli_fail(TN_EXIT_USAGE, "acquire", "--ttl: %s: takes %s or more",
                             store->ops->scheme, tn_cli_duration(limit, store->ops->ttl_min));
    else if (status < 0 && store->ops->delay_most > 0 && asked > store->ops->delay_most)
        status = tn_cli_fail(TN_EXIT_USAGE, "acquire",
                             "%s: %s: takes %s or less%s: if a session ends early, the lease is "
                             "kept from others no longer than that",
                             options, store->ops->scheme,
                             tn_cli_duration(limit, store->ops->delay_most), both);
    else if (status < 0 && asked > store->ops->ttl_max)
        status = tn_cli_fail(TN_EXIT_USAGE, "acquire", "%s: %s: takes %s or less%s", options,
                             store->ops->scheme, tn_cli_duration(limit, store->ops->ttl_max), both);
    return status;
}

/* --- The command ---------------------------------------------------------------------------- */

static void set_number(const char *name, uint64_t number)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%" PRIu64, number);
    (void)setenv(name, text, 1);
}

/* So that the command's own verbs find the lease. A password stays out of the environment. */
static void pass_store_on(const char *url)
{
    char shown[TN_CLI_LINE_MAX];

    if (url != NULL && strcmp(tn_url_public(url, shown, sizeof shown), url) == 0)
        (void)setenv("TENURE_STORE", url, 1);
}

/* Take the command's form, with the lease in its environment. Returns only if there is no such
 * command: then the lease is given back. */
static int become(const char *url, const struct acquire_request *request)
{
    char secret[TN_SECRET_TEXT], word[TN_CLI_LINE_MAX];
    struct tn_cli_store store = { .ask = NULL };
    struct tn_text text;

    tn_cli_secret_format(secret, &request->op);
    /* What `tenure run` sets says that a guardian watches; here none does. */
    (void)unsetenv("TENURE_NAME");
    (void)unsetenv("TENURE_ID");
    (void)unsetenv("TENURE_CONTAIN");
    pass_store_on(url);
    (void)setenv("TENURE_SECRET", secret, 1);
    set_number("TENURE_TOKEN", request->token);
    (void)tn_cli_pipe_restore();
    (void)execvp(request->argv[0], request->argv);
    int error = errno;
    tn_cli_pipe_ignore();
    int status = tn_cli_store_open("acquire", url, true, 0, &store);
    if (status >= 0)
        return status;
    take_back(&store, request);
    tn_cli_store_close(&store);
    tn_text_init(&text, word, sizeof word);
    tn_cli_quote(&text, request->argv[0]);
    return tn_cli_fail(error == ENOENT ? 127 : 126, "acquire", "%s cannot be run: %s", word,
                       strerror(error));
}

/* Whether the output may be for `eval`, before the words are read: they may be wrong. */
static bool is_for_eval(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "--help") == 0 ||
            strcmp(argv[i], "-h") == 0)
            return false;
    }
    return true;
}

static int acquire(int argc, char **argv, bool *for_eval)
{
    struct acquire_request request = { .op = { .kind = TN_OP_ACQUIRE }, .ttl = TN_SEC(15) };
    struct tn_cli_store store = { .ask = NULL };
    const char *url = NULL;

    int status = read_arguments(&request, &url, argc, argv);
    *for_eval = *for_eval && request.argv == NULL;
    request.for_eval = *for_eval;
    if (status < 0)
        status = fresh_secrets(&request);
    if (status < 0)
        status = tn_cli_store_open("acquire", url, true, request.wait, &store);
    if (status >= 0)
        return status;
    status = check_store(&store, &request);
    if (status < 0 && request.wait > 0) {
        request.op.wait = (store.ops->caps & TN_STORE_QUEUES) != 0;
        tn_cli_catch_signals(&store);
        if (!request.op.wait)
            (void)tn_cli_watch_name(&store, request.op.name); /* Without it, polls do. */
    }
    if (status < 0)
        status = campaign(&store, &request);
    tn_cli_store_close(&store);
    return request.granted && request.argv != NULL ? become(url, &request) : status;
}

int tn_cli_acquire(int argc, char **argv)
{
    bool for_eval = is_for_eval(argc, argv);
    int status = acquire(argc, argv, &for_eval);

    if (status != TN_EXIT_OK && for_eval)
        print_failure(status);
    return status;
}
