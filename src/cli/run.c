/* run.c - `tenure run NAME -- CMD`: runs CMD while leading, and stops it before the deadline.
 *
 * This process is the supervisor: it keeps the lease (candidate.h). The command runs below a
 * guardian (runner/guardian.h), which is told the deadline after every renewal and ends the whole
 * tree by it, also when this process is stopped or killed.
 *
 *   WAITING --won--> RUNNING --tree reaped--> DONE, or (the term was lost) WAITING again
 *
 * Happy path: campaign, win, run; the command ends, the tree is reaped, the lease is released, and
 * we exit as the command did. What can fail: the term is lost - the guardian stops the tree in
 * time, and with --once we exit 79, otherwise we campaign again; the command cannot be run - 126 or
 * 127, and the lease is free at once; nobody wins in time - 75, or 69 when the store never
 * answered. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/time.h"
#include "cli/candidate.h"
#include "runner/guardian.h"
#include "runner/os.h"

/* A release that the store does not take is repeated for this long; then the TTL has to end it. */
#define RELEASE_WAIT TN_SEC(5)
#define WAIT_MAX TN_SEC(30 * 24 * 3600)

static const char about[] = "Campaigns for NAME and runs the command while it leads. The whole "
                            "process tree of the command is\n"
                            "gone before anyone else can lead, whatever happens to this process. "
                            "When the term is lost, the\n"
                            "command is stopped and the campaign begins again.\n";
static const char after[] =
    "The command gets TENURE_NAME, TENURE_ID and TENURE_TOKEN, the fencing token of this term.\n"
    "\n"
    "Examples:\n"
    "  tenure run nightly-report -- ./report.sh     on two terminals: one runs, the other waits\n"
    "  tenure run --ttl 5s --once billing -- ./bill --all\n"
    "  tenure run --wait 10s backup -- sh -c 'rsync ...'\n"
    "\n"
    "Exit status: the command's own; 64 bad usage, 69 store unavailable, 75 not acquired within\n"
    "--wait, 77 not permitted, 79 leadership lost (--once), 126 not executable, 127 not found.\n";

struct run {
    struct tn_cli_candidate candidate;
    struct tn_guardian *guardian; /* NULL: nothing runs. */
    struct tn_plan plan;
    const char *name;
    char label[TN_LABEL_MAX + 1];
    char **argv;
    tenure_ns wait; /* Negative: for ever. */
    tenure_ns started;
    bool once;
    bool won;     /* Leads, and the command is to be started. */
    bool lost;    /* The term of the running command is over. */
    bool cut;     /* The command was stopped, and neither it nor we were asked to. */
    bool told;    /* That this term is lost, and why. */
    bool outage;  /* That the store does not answer was told. */
    bool leaving; /* No further campaign: the exit status is known, or follows from the command. */
    int status;   /* -1: not known yet. */
    uint64_t token;
    tenure_ns deadline; /* The last one told to the guardian. */
    tenure_ns leave_by;
    int signals;
    int timer;
};

/* One line for each term that is lost, with what the store said last if it did not answer. */
static void tell_lost(struct run *run, const char *why)
{
    bool outage = run->candidate.error != 0;

    if (run->told)
        return;
    run->told = true;
    run->outage = outage;
    (void)tn_cli_fail(0, "run", "%s: leadership lost: %s (token %" PRIu64 ")%s%s", run->name, why,
                      run->token, outage ? ": " : "", outage ? run->candidate.error_text : "");
}

/* Who waits for ever would not know why; who has a limit is told at its end. */
static void tell_outage(struct run *run)
{
    if (run->candidate.error == 0)
        run->outage = false;
    if (run->candidate.error == 0 || run->outage || run->guardian != NULL || run->leaving ||
        run->wait >= 0)
        return;
    run->outage = true;
    (void)tn_cli_fail(0, "run", "%s: no answer, asking again: %s", run->name,
                      run->candidate.error_text);
}

static void hears(void *arg, enum tn_cli_candidate_kind kind, uint64_t token, enum tn_reason reason)
{
    struct run *run = arg;

    if (kind == TN_CLI_CANDIDATE_WON) {
        run->won = true;
        run->lost = false;
        run->told = false;
        run->token = token;
    } else if (kind == TN_CLI_CANDIDATE_LOST) {
        run->won = false;
        run->lost = reason != TN_REASON_RELEASED;
        if (run->lost)
            tell_lost(run, tn_reason_text(reason));
        if (run->guardian != NULL)
            tn_guardian_stop(run->guardian);
    } else if (kind == TN_CLI_CANDIDATE_REFUSED) {
        (void)tn_cli_fail(0, "run", "%s: refused to lead with token %" PRIu64 ": %s", run->name,
                          token, tn_reason_text(reason));
    }
}

/* --- The command ------------------------------------------------------------------------------ */

static void leave(struct run *run, int status)
{
    if (!run->leaving)
        run->leave_by = tn_clock_now(&run->candidate.store->clock) + RELEASE_WAIT;
    run->leaving = true;
    if (run->status < 0)
        run->status = status;
}

static void start_command(struct run *run)
{
    char name[sizeof "TENURE_NAME=" + TN_NAME_MAX], id[sizeof "TENURE_ID=" + TN_LABEL_MAX];
    char token[64];
    const char *const env[] = { name, id, token, NULL };
    struct tn_guardian_options options = {
        .argv = run->argv,
        .env = env,
        .grace = run->plan.grace,
        .kill_bound = run->plan.kill_bound,
        .deadline = tn_cli_candidate_deadline(&run->candidate),
        .watch_every = TN_GUARDIAN_WATCH,
    };

    (void)snprintf(name, sizeof name, "TENURE_NAME=%s", run->name);
    (void)snprintf(id, sizeof id, "TENURE_ID=%s", run->label);
    (void)snprintf(token, sizeof token, "TENURE_TOKEN=%" PRIu64, run->token);
    int rc = tn_guardian_start(&options, &run->guardian);
    if (rc == TENURE_E_EXPIRED)
        return; /* Too little of the term is left; the next renewal brings more. */
    run->won = false;
    run->deadline = options.deadline;
    if (rc == 0)
        return;
    run->guardian = NULL;
    leave(run, tn_cli_fail(TN_EXIT_UNAVAILABLE, "run", "the command could not be started: %s",
                           tenure_strerror(rc)));
    tn_cli_candidate_tell(&run->candidate, TN_CLAIM_EV_RESIGN);
    tn_cli_candidate_tell(&run->candidate, TN_CLAIM_EV_DRAINED);
}

static void exec_failed(struct run *run, int error)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_cli_quote(&text, run->argv[0]);
    (void)tn_cli_fail(0, "run", "%s cannot be run: %s", buf, strerror(error));
}

/* Nothing of the tree is left. A term that was lost may be followed by another; otherwise the
 * command ended, or was told to, and so do we. */
static void tree_reaped(struct run *run)
{
    int status = tn_guardian_status(run->guardian);

    tn_guardian_free(run->guardian);
    run->guardian = NULL;
    if (!run->lost && !run->cut)
        leave(run, status >= 0 ? status : TN_EXIT_LOST);
    else if (run->once)
        leave(run, TN_EXIT_LOST);
    if (run->leaving)
        tn_cli_candidate_tell(&run->candidate, TN_CLAIM_EV_RESIGN);
    tn_cli_candidate_tell(&run->candidate, TN_CLAIM_EV_DRAINED);
    run->lost = false;
    run->cut = false;
}

/* Why the guardian ended the term of its own accord; NULL: it did not. */
static const char *why_cut(const struct tn_guardian_event *event)
{
    if (event->kind == TN_GUARDIAN_LOST)
        return "its guardian was killed";
    if (event->kind != TN_GUARDIAN_STOPPING)
        return NULL;
    switch (event->value) {
    case TN_REASON_DEADLINE:
        return "expired";
    case TN_REASON_SUPERVISOR_STOPPED:
        return "this process was stopped";
    case TN_REASON_GUARDIAN_STOPPED:
        return "its guardian was stopped";
    default:
        return NULL;
    }
}

static void hear_guardian(struct run *run)
{
    struct tn_guardian_event event;

    while (run->guardian != NULL && tn_guardian_dispatch(run->guardian, &event)) {
        const char *why = why_cut(&event);
        if (why != NULL && !run->leaving) {
            run->cut = true;
            tell_lost(run, why);
        }
        if (event.kind == TN_GUARDIAN_EXEC_FAILED)
            exec_failed(run, event.value);
        else if (event.kind == TN_GUARDIAN_REAPED)
            tree_reaped(run);
    }
}

/* --- Signals ---------------------------------------------------------------------------------- */

/* SIGTERM and SIGHUP end the term; others go to the command as if it had been run directly. What
 * was typed at the terminal has reached it already. */
static void hear_signals(struct run *run)
{
    struct signalfd_siginfo info;

    while (read(run->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        int signo = (int)info.ssi_signo;
        bool ends = signo == SIGTERM || signo == SIGHUP;
        if (run->guardian == NULL && signo != SIGUSR1 && signo != SIGUSR2) {
            leave(run, 128 + signo);
            tn_cli_candidate_tell(&run->candidate, TN_CLAIM_EV_RESIGN);
            tn_cli_candidate_tell(&run->candidate, TN_CLAIM_EV_DRAINED);
        } else if (run->guardian != NULL && ends) {
            run->leaving = true;
            run->leave_by = TN_NEVER; /* Set anew when the tree is gone. */
            tn_guardian_stop(run->guardian);
        } else if (run->guardian != NULL && info.ssi_code != SI_KERNEL) {
            bool heard = tn_guardian_signal(run->guardian, signo) == 0;
            (void)heard; /* It is gone, or going: the signal would find nobody. */
        }
    }
}

static int open_signals(void)
{
    static const int numbers[] = { SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2 };
    struct sigaction action;
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            (void)sigaddset(&set, numbers[i]);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    return tn_fd_above_streams(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

/* --- The loop --------------------------------------------------------------------------------- */

static int not_acquired(const struct run *run)
{
    char buf[TN_DURATION_TEXT];

    if (!run->candidate.answered_ever || run->candidate.error != 0)
        return tn_cli_store_fail("run", TENURE_E_UNAVAILABLE, run->candidate.error_text);
    return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, "run", "%s was held by another for the whole %s",
                       run->name, tn_cli_duration(buf, run->wait));
}

static void check_wait(struct run *run, tenure_ns now)
{
    if (run->wait < 0 || run->leaving || run->guardian != NULL || run->won ||
        now < run->started + run->wait)
        return;
    leave(run, not_acquired(run));
    tn_cli_candidate_tell(&run->candidate, TN_CLAIM_EV_RESIGN);
}

static tenure_ns wake_at(const struct run *run)
{
    tenure_ns at = tn_cli_candidate_wake_at(&run->candidate);

    if (run->wait >= 0 && !run->leaving && run->guardian == NULL && run->started + run->wait < at)
        at = run->started + run->wait;
    if (run->leaving && run->leave_by < at)
        at = run->leave_by;
    return at;
}

static void keep_guardian_informed(struct run *run)
{
    tenure_ns deadline = tn_cli_candidate_deadline(&run->candidate);

    if (run->won && !run->leaving && run->guardian == NULL)
        start_command(run);
    if (run->guardian == NULL || run->lost || deadline <= run->deadline)
        return;
    /* Not told, it acts by the deadline it knows, and is told again next time. */
    if (tn_guardian_extend(run->guardian, deadline) == 0)
        run->deadline = deadline;
}

/* Whether it is over; then @ret_status is the exit status. */
static bool is_over(struct run *run, tenure_ns now, int *ret_status)
{
    if (!run->leaving || run->guardian != NULL)
        return false;
    if (run->leave_by == TN_NEVER)
        run->leave_by = now + RELEASE_WAIT;
    *ret_status = run->status >= 0 ? run->status : TN_EXIT_LOST;
    if (tn_cli_candidate_is_idle(&run->candidate))
        return true;
    if (now < run->leave_by)
        return false;
    *ret_status = tn_cli_fail(TN_EXIT_UNAVAILABLE, "run",
                              "%s could not be released; it is free when its TTL is over: %s",
                              run->name, run->candidate.error_text);
    return true;
}

static int loop(struct run *run)
{
    int status;

    for (;;) {
        struct pollfd fds[] = {
            { .fd = run->signals, .events = POLLIN },
            { .fd = run->timer, .events = POLLIN },
            { .fd = run->candidate.bell, .events = POLLIN },
            { .fd = run->guardian != NULL ? tn_guardian_fd(run->guardian) : -1, .events = POLLIN },
        };
        tenure_ns now = tn_clock_now(&run->candidate.store->clock);

        check_wait(run, now);
        if (is_over(run, now, &status))
            return status;
        tn_timer_arm(run->timer, wake_at(run));
        (void)poll(fds, sizeof fds / sizeof fds[0], -1);
        hear_signals(run);
        tn_cli_candidate_run(&run->candidate, fds[2].revents != 0);
        tell_outage(run);
        hear_guardian(run);
        keep_guardian_informed(run);
    }
}

/* --- What was asked for ----------------------------------------------------------------------- */

static int read_command(struct run *run, const struct tn_command *command)
{
    int status = tn_cli_name(command, &run->name);

    if (status >= 0)
        return status;
    if (command->rest_before != 1)
        return tn_cli_fail(TN_EXIT_USAGE, "run",
                           "put the command behind --, as in 'tenure run %s -- ./report.sh'",
                           run->name);
    if (command->rest_count < 2)
        return tn_cli_fail(TN_EXIT_USAGE, "run", "there is no command behind %s --", run->name);
    run->argv = command->rest + 1;
    return -1;
}

/* Returns -1 to go on, or the exit status. */
static int read_arguments(struct run *run, const char **ret_url, int argc, char **argv)
{
    const char *id = NULL;
    tenure_ns ttl = TN_SEC(15), grace = 0;
    uint32_t rho_ppm = TN_PPM / 10;
    enum { TTL, GRACE, RHO, WAIT, ONCE, ID, STORE };
    struct tn_option options[] = {
        [TTL] = TN_DURATION("ttl", 0, &ttl, TN_TTL_MIN, TN_TTL_MAX, "15s",
                            "how long the lease outlives its last renewal"),
        [GRACE] = TN_DURATION("grace", 0, &grace, 0, TN_TTL_MAX, "5s, at most TTL/5",
                              "from SIGTERM to SIGKILL"),
        [RHO] = TN_RATE("rho", 0, &rho_ppm, "0.1", "how wrong the rate of a clock may be"),
        [WAIT] = TN_DURATION("wait", 0, &run->wait, 0, WAIT_MAX, "for ever",
                             "give up after this long without leading"),
        [ONCE] = TN_FLAG("once", 0, &run->once, "exit when the term is lost, instead of waiting"),
        [ID] = TN_STRING("id", 'i', &id, "ID", "host-pid", "a label, to tell who leads"),
        [STORE] = TN_STORE(ret_url),
    };
    struct tn_command command = { .verb = "run",
                                  .words = "NAME -- CMD [ARG]...",
                                  .words_max = SIZE_MAX,
                                  .about = about,
                                  .after = after,
                                  .options = options,
                                  .option_count = sizeof options / sizeof options[0] };

    int status = tn_cli_options(&command, argc, argv);
    if (status < 0)
        status = read_command(run, &command);
    if (status < 0)
        status = tn_cli_label("run", id, run->label);
    if (status >= 0)
        return status;
    if (!options[WAIT].given)
        run->wait = -1;
    tn_plan_init(&run->plan, ttl);
    tn_plan_turn(&run->plan, TN_KNOB_RHO, rho_ppm);
    if (options[GRACE].given)
        tn_plan_turn(&run->plan, TN_KNOB_GRACE, grace);
    return tn_cli_check_plan("run", &run->plan);
}

int tn_cli_run(int argc, char **argv)
{
    struct run run = { .status = -1, .wait = 0, .leave_by = TN_NEVER };
    struct tn_cli_store store = { .sqlite = NULL };
    const char *url = NULL;

    int status = read_arguments(&run, &url, argc, argv);
    if (status < 0)
        /* Without --wait a store that cannot even be opened is told at once: it is a mistake far
         * more often than an outage. One that fails later is waited for. */
        status = tn_cli_store_open("run", url, true, run.wait < 0 ? 0 : run.wait, &store);
    if (status >= 0)
        return status;
    run.started = tn_clock_now(&store.clock);
    run.signals = open_signals();
    run.timer = tn_fd_above_streams(tn_timer_open());
    if (run.signals < 0 || run.timer < 0)
        return tn_cli_fail(TN_EXIT_UNAVAILABLE, "run", "out of descriptors: %s", strerror(errno));
    status =
        tn_cli_candidate_start(&run.candidate, &store, &run.plan, run.name, run.label, hears, &run);
    if (status < 0) {
        keep_guardian_informed(&run);
        status = loop(&run);
        tn_cli_candidate_close(&run.candidate);
    }
    tn_cli_store_close(&store);
    return status;
}
