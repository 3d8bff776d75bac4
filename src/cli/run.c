/* run.c - `tenure run NAME -- CMD`: runs CMD while leading, and stops it before the deadline.
 *
 * This process is the supervisor: it keeps the lease, through the library (campaign.h). The command
 * runs below a guardian (runner/guardian.h), which is told the deadline after every renewal and
 * ends the whole tree by it, also when this process is stopped or killed.
 *
 * run.h has the picture of a term. The run ends when the command does; with --hold, when that time
 * is up; and without a command when another leads and --skip-if-held is given, or when it was won
 * but ran within --every.
 *
 * Happy path: campaign, win, run; the command ends, the tree is reaped, the lease is released, and
 * we exit as the command did. What can fail: the term is lost - the guardian stops the tree in
 * time, and with --once we exit 79, otherwise we campaign again; the command cannot be run - 126 or
 * 127, and the lease is free at once; nobody wins in time - 75, or 69 when the store never
 * answered. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/final.h"
#include "base/time.h"
#include "cli/events.h"
#include "cli/run.h"
#include "lib/agent.h"
#include "lib/command.h"

static const char about[] = "Campaigns for NAME and runs the command while it leads. The whole "
                            "process tree of the command is\n"
                            "gone before anyone else can lead, whatever happens to this process. "
                            "When the term is lost, the\n"
                            "command is stopped and the campaign begins again.\n";
static const char after[] =
    "The command gets TENURE_NAME, TENURE_ID, TENURE_TOKEN, the fencing token of this term, and\n"
    "TENURE_CONTAIN: how its processes are held together, so that all of them can be killed:\n"
    "  cgroup  a control group below the one of this process, killed as a whole\n"
    "  pidns   a pid namespace, killed as a whole; the command sees other pids, and as a plain "
    "user\n"
    "          it cannot use sudo or su\n"
    "  tree    the processes are looked up and killed one by one; a command that forks and exits\n"
    "          without rest may act on for a while after the deadline\n"
    "  auto    a cgroup where one can be made, else the tree, with a warning\n"
    "\n"
    "Examples:\n"
    "  tenure run nightly-report -- ./report.sh     on two terminals: one runs, the other waits\n"
    "  tenure run --ttl 5s --once billing -- ./bill --all\n"
    "  tenure run --fence sqlite:orders.db#orders orders -- ./sync\n"
    "  tenure run --ttl 30s --soft-limit 20s --fence sqlite:orders.db#orders orders -- ./sync\n"
    "  tenure run --http 127.0.0.1:7422 web -- ./serve   then: curl 127.0.0.1:7422/leader\n"
    "  tenure run --wait 10s backup -- sh -c 'rsync ...'\n"
    "  tenure run --skip-if-held --hold 10m --quiet nightly -- ./report.sh     for cron, see "
    "below\n"
    "  tenure run --skip-if-held --conflict-exit 75 nightly -- ./report.sh\n"
    "  tenure run --notify --linger 5s web -- ./serve   a unit of systemd, see tenure(1)\n"
    "  tenure run --every 23h --quiet nightly -- ./report.sh     once a day, whichever host\n"
    "  tenure run --slots 3 workers -- ./work    three of them run at the same time\n"
    "  tenure run --priority 5 --yield db -- ./primary   and a host with --priority 9 leads when "
    "it "
    "can\n"
    "\n"
    "The same line in the crontabs of several hosts runs the command once: with --skip-if-held a "
    "run\n"
    "ends with status 0, or --conflict-exit, when another holds the lease, and with 79 when it "
    "loses\n"
    "its own. --hold keeps the lease after a success, so that a host that is late finds it held. "
    "A\n"
    "signal ends the hold. With --every the store remembers the last success: a run within that "
    "time,\n"
    "on any host, ends with status 0, or --conflict-exit. A run that failed does not count.\n"
    "\n"
    "With --slots up to that many candidates lead at the same time, each with a token of its own "
    "and\n"
    "TENURE_SLOT, the number of its slot. All candidates give the same number.\n"
    "\n"
    "With --priority, 1 to 9, the highest of those who wait leads first; candidates without one "
    "take no\n"
    "part. With --yield a leader hands over, as for 'tenure handover', when a higher one waits.\n"
    "With --hold-off nobody leads for that long after the deadline of a term that was lost, not "
    "given\n"
    "back: time for what is under way to arrive, where the receiver has no fence.\n"
    "With --soft-limit and --fence a leader that the store has not heard of for so long gives way\n"
    "before the TTL is over, to a candidate with both options and the same fence.\n"
    "\n"
    "Exit status: the command's own; 64 bad usage, 69 store unavailable, 75 not acquired within\n"
    "--wait, 77 not permitted, 79 leadership lost (--once), 126 not executable, 127 not found.\n";

static const uint8_t allowed[TN_RUN_PHASE_COUNT] = {
    [TN_RUN_WAITS] = 1 << TN_RUN_STARTS,
    [TN_RUN_STARTS] = 1 << TN_RUN_RUNS | 1 << TN_RUN_KEEPS | 1 << TN_RUN_WAITS,
    [TN_RUN_RUNS] = 1 << TN_RUN_ASKED | 1 << TN_RUN_CUT | 1 << TN_RUN_LOST | 1 << TN_RUN_KEEPS,
    [TN_RUN_ASKED] = 1 << TN_RUN_CUT | 1 << TN_RUN_LOST | 1 << TN_RUN_KEEPS,
    [TN_RUN_CUT] = 1 << TN_RUN_LOST | 1 << TN_RUN_KEEPS,
    [TN_RUN_LOST] = 1 << TN_RUN_WAITS,
    [TN_RUN_KEEPS] = 1 << TN_RUN_WAITS,
};

static bool is_ours(enum tn_run_phase phase)
{
    return phase != TN_RUN_WAITS && phase != TN_RUN_LOST;
}

void tn_run_move(struct tn_run *run, enum tn_run_phase phase)
{
    bool runs = phase == TN_RUN_RUNS || phase == TN_RUN_ASKED || phase == TN_RUN_CUT ||
                phase == TN_RUN_LOST;

    TN_ASSERT(allowed[run->phase] & 1 << phase);
    TN_ASSERT(runs == (run->guardian != NULL));
    run->phase = phase;
}

void tn_run_tell_lost(struct tn_run *run, const char *why)
{
    struct tenure_error error;
    bool more = tenure_health(run->campaign.tenure, &error) != 0;
    bool ends = tn_cron_holds_on(&run->cron) || (run->once && run->guardian != NULL);

    if (run->told_lost)
        return;
    run->told_lost = true;
    (void)tn_campaign_is_news(&run->campaign, &error);
    (void)tn_cli_fail(ends ? TN_EXIT_LOST : 0, "run",
                      "%s: %sleadership lost: %s (token %" PRIu64 ")%s%s", run->name,
                      tn_cron_holds_on(&run->cron) ? "the hold ended early: " : "", why, run->token,
                      more ? ": " : "", more ? error.text : "");
}

void tn_run_tell_outage(struct tn_run *run)
{
    struct tenure_error error;

    if (run->guardian != NULL || run->leaving || run->campaign.wait >= 0 ||
        tn_cron_holds_on(&run->cron))
        return;
    if (tn_campaign_is_news(&run->campaign, &error))
        (void)tn_cli_fail(0, "run", "%s: no answer, asking again: %s", run->name, error.text);
}

static void hear_lost(struct tn_run *run, const struct tenure_event *event)
{
    tn_run_move(run, run->guardian != NULL ? TN_RUN_LOST : TN_RUN_WAITS);
    if (event->reason != TENURE_REASON_RELEASED)
        tn_run_tell_lost(run, tenure_reason_text(event->reason));
    if (run->guardian != NULL)
        tn_guardian_stop(run->guardian);
    else
        (void)tenure_drained(run->election); /* The command was not started, or has ended. */
    if (tn_cron_holds_on(&run->cron))
        tn_run_leave(run, TN_EXIT_OK);
}

/* An operator asks: the command is stopped as by SIGTERM, the lease renewed meanwhile, and given
 * back when nothing of the tree is left. */
static void hear_stop(struct tn_run *run, const struct tenure_event *event)
{
    if (run->phase == TN_RUN_STARTS)
        tn_run_move(run, TN_RUN_KEEPS);
    else if (run->phase == TN_RUN_RUNS)
        tn_run_move(run, TN_RUN_ASKED);
    if (strcmp(event->detail, "yield") == 0)
        (void)tn_cli_fail(0, "run", "%s: stepping down for a higher priority (token %" PRIu64 ")",
                          run->name, event->token);
    else
        (void)tn_cli_fail(0, "run",
                          "%s: stepping down, as an operator asked: %s (token %" PRIu64 ")",
                          run->name, event->detail, event->token);
    if (tn_cron_holds_on(&run->cron))
        tn_run_leave(run, TN_EXIT_OK);
    else if (run->guardian != NULL)
        tn_guardian_stop(run->guardian);
    else
        (void)tenure_drained(run->election);
}

/* A fence that never went up and will not, such as one that does not let us in, is a mistake and
 * ends it; any other one is asked again with the next grant, and that is said once. */
static void hear_refused(struct tn_run *run, const struct tenure_event *event)
{
    bool fence = event->reason == TENURE_REASON_FENCE;
    int code = fence ? tn_lib_fence_status(run->campaign.tenure, NULL) : 0;

    if (run->leaving || (fence && run->told_refused))
        return;
    run->told_refused = fence;
    run->campaign.regressed = event->reason == TENURE_REASON_TOKEN_REGRESSED;
    if (fence && !run->led && tn_error_is_final(code))
        tn_run_leave(run, tn_campaign_fail_fence("run", code, event->detail));
    else
        tn_cli_refused_print("run", run->name, event, fence ? "; trying again" : "");
}

static void hear_leader(struct tn_run *run, const struct tenure_event *event)
{
    run->taken = event->kind == TENURE_LEADER && !tn_lib_leader_is_mine(run->election);
    if (run->cron.skip && !run->cron.patient && run->taken && !is_ours(run->phase))
        tn_run_leave(run, tn_cron_skip_status(&run->cron));
}

static void hear(struct tenure_election *election, const struct tenure_event *event, void *arg)
{
    struct tn_run *run = arg;

    (void)election;
    tn_campaign_hear(&run->campaign, event);
    tn_sidecar_hear(&run->sidecar, event);
    if (event->kind == TENURE_WON) {
        tn_run_move(run, TN_RUN_STARTS);
        run->campaign.regressed = false;
        run->told_lost = run->told_refused = false;
        run->led = true;
        run->token = event->token;
    } else if (event->kind == TENURE_LOST) {
        hear_lost(run, event);
    } else if (event->kind == TENURE_STOP) {
        hear_stop(run, event);
    } else if (event->kind == TENURE_REFUSED) {
        hear_refused(run, event);
    } else if (event->kind == TENURE_HEALTH) {
        tn_run_tell_outage(run);
    } else if (event->kind == TENURE_LEADER || event->kind == TENURE_VACANT) {
        hear_leader(run, event);
    }
}

void tn_run_leave(struct tn_run *run, int status)
{
    run->leaving = true;
    if (run->status < 0)
        run->status = status;
}

/* --- Signals ---------------------------------------------------------------------------------- */

/* A process group that was stopped gets SIGHUP and SIGCONT from the kernel when the last process
 * that ties it to its session ends. Without a terminal the command is that process: its end, at the
 * deadline, would look like the wish that we end too. */
static bool is_orphans_hangup(const struct tn_run *run, const struct signalfd_siginfo *info)
{
    return run->detached && info->ssi_signo == SIGHUP && info->ssi_code == SI_KERNEL;
}

/* SIGTERM and SIGHUP end the term; others go to the command as if it had been run directly. What
 * was typed at the terminal has reached it already. */
static void hear_signals(struct tn_run *run)
{
    struct signalfd_siginfo info;

    while (read(run->campaign.signals, &info, sizeof info) == (ssize_t)sizeof info) {
        int signo = (int)info.ssi_signo;
        bool ends = signo == SIGTERM || signo == SIGHUP;
        if (is_orphans_hangup(run, &info))
            continue;
        if (run->guardian == NULL && signo != SIGUSR1 && signo != SIGUSR2) {
            tn_run_leave(run, 128 + signo);
        } else if (run->guardian != NULL && ends) {
            run->leaving = true;
            tn_guardian_stop(run->guardian);
        } else if (run->guardian != NULL && info.ssi_code != SI_KERNEL) {
            bool heard = tn_guardian_signal(run->guardian, signo) == 0;
            (void)heard; /* It is gone, or going: the signal would find nobody. */
        }
    }
}

/* --- The loop --------------------------------------------------------------------------------- */

/* When to give up waiting; TN_NEVER while there is no limit, or no wait. */
static tenure_ns give_up_at(const struct tn_run *run)
{
    if (run->leaving || run->guardian != NULL || run->phase == TN_RUN_STARTS ||
        tn_cron_holds_on(&run->cron))
        return TN_NEVER;
    return tn_campaign_give_up_at(&run->campaign);
}

/* The wait is over without a term. */
static int not_acquired(struct tn_run *run)
{
    if (run->cron.skip && run->taken && tenure_health(run->campaign.tenure, NULL) == 0)
        return tn_cron_skip_status(&run->cron);
    return tn_campaign_not_acquired(&run->campaign);
}

static tenure_ns least(tenure_ns a, tenure_ns b)
{
    return a < b ? a : b;
}

/* For the neighbours. */
static void answer_http(struct tn_run *run)
{
    run->sidecar.busy = run->guardian != NULL;
    run->sidecar.leaving = run->leaving;
    tn_sidecar_run(&run->sidecar);
}

static void tell_service(struct tn_run *run)
{
    bool ready = run->campaign.answered && tenure_health(run->campaign.tenure, NULL) == 0;
    const char *leader = run->sidecar.leader;

    tn_service_beat(&run->service);
    if (run->leaving)
        tn_service_stop(&run->service);
    else if (tn_cron_holds_on(&run->cron))
        tn_service_tell(&run->service, ready, "done, holding %s", run->name);
    else if (is_ours(run->phase))
        tn_service_tell(&run->service, ready, "leading %s, token %" PRIu64, run->name, run->token);
    else
        tn_service_tell(&run->service, ready, "waiting for %s%s%s", run->name,
                        leader[0] != '\0' ? ", led by " : "", leader);
}

static int loop(struct tn_run *run)
{
    while (!run->leaving || run->guardian != NULL) {
        int fds[] = { run->guardian != NULL ? tn_guardian_fd(run->guardian) : -1,
                      tn_http_fd(run->sidecar.http) };
        tenure_ns at = least(tn_http_wake_at(run->sidecar.http), run->cron.hold_until);
        at = least(at, run->service.beat_at);
        tn_campaign_poll(&run->campaign, fds, 2, least(at, give_up_at(run)));
        answer_http(run);
        hear_signals(run);
        tn_run_hear_guardian(run);
        tn_run_drive_command(run);
        tell_service(run);
        if (tn_boottime() >= give_up_at(run))
            tn_run_leave(run, not_acquired(run));
        if (tn_boottime() >= run->cron.hold_until)
            tn_run_leave(run, TN_EXIT_OK);
    }
    return run->status >= 0 ? run->status : TN_EXIT_LOST;
}

/* --- What was asked for ----------------------------------------------------------------------- */

static int read_command(struct tn_run *run, const struct tn_command *command)
{
    /* Otherwise the command would be taken for the name. */
    if (command->rest_count > 0 && command->rest_before == 0)
        return tn_cli_fail(TN_EXIT_USAGE, "run",
                           "the name of the lease is missing before --, as in 'tenure run "
                           "nightly-report -- ./report.sh'");
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
static int read_arguments(struct tn_run *run, struct tn_campaign_words *words, int argc,
                          char **argv)
{
    struct tn_option options[] = {
        TN_CAMPAIGN_OPTIONS(words),
        TN_DURATION("grace", 0, &words->grace, 0, TN_TTL_MAX, "5s, at most TTL/5",
                    "from SIGTERM to SIGKILL"),
        TN_FLAG("once", 0, &run->once, "exit when the term is lost, instead of waiting"),
        TN_CRON_OPTIONS(&run->cron),
        TN_DURATION("every", 0, &run->every.period, TN_TTL_MIN, TN_CLI_WAIT_MAX, NULL,
                    "exit at once if it succeeded within this time, on any host"),
        TN_SERVICE_OPTIONS(&run->service),
        TN_FLAG("quiet", 0, &run->quiet, "no warnings: only what ends the run is told"),
        TN_STRING("fence", 0, &run->fence, "URL#RESOURCE", "$TENURE_FENCE",
                  "raise this fence to the token before the command starts; or none"),
        TN_SOFT_LIMIT(words),
        TN_STRING("contain", 0, &run->contain_word, "HOW", "auto",
                  "hold the command's processes by: auto, cgroup, pidns, tree"),
        TN_STRING("http", 0, &run->http_address, "HOST:PORT", NULL,
                  "tell programs beside this one: /leader, /follower, /token, /healthz, /metrics"),
    };
    struct tn_command command = { .verb = "run",
                                  .words = "NAME -- CMD [ARG]...",
                                  .words_max = SIZE_MAX,
                                  .about = about,
                                  .after = after,
                                  .options = options,
                                  .option_count = sizeof options / sizeof options[0] };

    int status = tn_cli_options(&command, argc, argv);
    return status < 0 ? read_command(run, &command) : status;
}

static int read_fence(struct tn_run *run)
{
    const char *origin = run->fence != NULL ? "--fence" : "TENURE_FENCE";

    if (run->fence == NULL)
        run->fence = getenv("TENURE_FENCE");
    if (run->fence != NULL && run->fence[0] == '\0')
        run->fence = NULL;
    return tn_campaign_check_fence("run", origin, run->fence);
}

static int check_words(struct tn_run *run, const struct tn_campaign_words *words)
{
    const char *beside = tn_campaign_has_fence(run->fence) ? "--fence"
                         : run->every.period > 0           ? "--every"
                         : run->service.linger > 0         ? "--linger"
                                                           : NULL;
    int status = tn_cli_check_no_slot("run", run->name);

    if (status < 0)
        status = tn_campaign_check_soft("run", words, run->fence);
    run->told_unfenced =
        run->told_unfenced || words->slots > 1; /* A fence admits the highest token only. */
    return status < 0 ? tn_campaign_check("run", run->name, words, beside) : status;
}

/* What was asked for by name must be there, and is tried before anything else. */
static int read_contain(struct tn_run *run)
{
    char why[256] = "";
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;

    if (run->contain_word == NULL) {
        int rc = tn_contain_check(TN_CONTAIN_CGROUP, why, sizeof why);
        (void)
            rc; /* The answer is remembered; to ask takes time, and while leading there is none. */
        return -1;
    }
    tn_text_init(&text, buf, sizeof buf);
    tn_cli_quote(&text, run->contain_word);
    if (tn_contain_parse(run->contain_word, &run->contain) < 0)
        return tn_cli_fail(TN_EXIT_USAGE, "run",
                           "--contain: %s is none of auto, cgroup, pidns, tree", buf);
    if (tn_contain_check(run->contain, why, sizeof why) < 0)
        return tn_cli_fail(TN_EXIT_DENIED, "run",
                           "--contain %s cannot be had here: %s; 'auto' takes what there is",
                           run->contain_word, why);
    return -1;
}

/* Looked at once: when a terminal hangs up, it is no longer there to be asked. */
static bool has_terminal(void)
{
    int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);

    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

static int start_campaign(struct tn_run *run, const struct tn_campaign_words *words)
{
    const char *const fences[] = { tn_campaign_has_fence(run->fence) ? run->fence : NULL, NULL };
    struct tenure_campaign options = {
        .callback = hear,
        .arg = run,
        /* The guardian sees to it that the work ends in time. */
        .flags = TENURE_TELL_RENEWED | TENURE_TELL_HEALTH | TENURE_PATIENT,
        .fences = fences,
    };

    int status = tn_campaign_start(&run->campaign, words, &options, &run->election);
    run->sidecar.election = run->election;
    return status;
}

int tn_cli_run(int argc, char **argv)
{
    struct tn_run run = { .status = -1, .cron = TN_CRON_WORDS, .service = TN_SERVICE_WORDS };
    struct tn_campaign_words words = TN_CAMPAIGN_WORDS;

    int status = read_arguments(&run, &words, argc, argv);
    if (status < 0)
        status = tn_every_check(&run.every, run.name, words.url);
    if (status < 0)
        status = tn_cron_check(&run.cron, &words, run.every.period > 0);
    run.once = run.once || run.cron.skip; /* The next attempt is cron's. */
    if (run.quiet)
        tn_cli_be_quiet();
    if (status < 0)
        status = read_fence(&run);
    if (status < 0)
        status = check_words(&run, &words);
    if (status < 0)
        status = read_contain(&run);
    run.detached = !has_terminal();
    tn_service_open(&run.service);
    if (status < 0)
        status = tn_cli_lines_open("run", false);
    if (status < 0)
        status = tn_sidecar_open(&run.sidecar, "run", run.http_address, &run.campaign);
    if (status >= 0)
        return status;
    words.flags = TN_LIB_SHARED;
    status = tn_campaign_open(&run.campaign, "run", run.name, &words);
    run.every.label = run.campaign.label;
    if (status < 0)
        status = tn_campaign_signals(&run.campaign, true);
    if (status < 0)
        status = tn_campaign_probe_fence("run", run.fence);
    if (status < 0)
        status = start_campaign(&run, &words);
    if (status < 0)
        status = loop(&run);
    tn_sidecar_close(&run.sidecar);
    tn_every_close(&run.every);
    tn_service_stop(&run.service);
    /* A term that was lost is not ours to give back: that is tried, and changes no status. */
    bool held = is_ours(run.phase) && status != TN_EXIT_LOST;
    status = tn_campaign_close(&run.campaign, held, status);
    if (held)
        tn_service_linger(&run.service, words.url, run.name, run.token);
    return status;
}
