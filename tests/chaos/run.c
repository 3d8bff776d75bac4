/* run.c - random runs of `tenure run` on one store: candidates are stopped, killed and asked to go.
 *
 * usage: run [--at-once N] [--faults N] [--plant] [--contain HOW] [--comets] [--load N] [--user]
 *            [RUNS [SEED]]
 *
 * 200 runs by default, of at most six faults; the seed is printed.
 *
 * A run draws a TTL, two to four candidates, the command of each, and a few faults one after
 * another; run I of seed S is run 0 of seed S + I, so `run 1 SEED` plays one again. The commands
 * write down when they act and with which token (tests/runner/acts.h). From that alone follows the
 * verdict: no two terms act at one time, tokens rise, nobody acts after its deadline; and when the
 * faults are over, somebody leads, and all ends when it is asked to.
 *
 * The deadline that a command must keep is bounded from outside: a supervisor that was stopped or
 * killed at F, or whose store was locked at F, sent no renewal after F that the store took, so its
 * deadline is at most F + D (core/plan.h). Who was asked to stop, and who lost its guardian or its
 * command, has its tree gone within the grace and a second.
 *
 * --contain: the containment, see docs/runner.md; v1 is the cgroup with the freezer of cgroup v1.
 * --comets: the commands are 1 to 60 chains that fork and exit without rest, with daemons and
 * double forks beside them. With --contain tree such runs may fail, and it is only told how many.
 * --load: N processes that do nothing but use up the processor. --user: as nobody; a cgroup of its
 * own is made and given to that user first.
 *
 * --plant: a process outside of the guardian's tree acts on with the first token. Such a run must
 * fail, and counts as passed if it does. Two faults at once on one candidate are not drawn:
 * docs/runner.md says what they can do. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/number.h"
#include "base/prng.h"
#include "core/plan.h"
#include "runner/os.h"
#include "tests/runner/acts.h"
#include "tests/runner/stage.h"

enum {
    SEATS = 4,
    FAULTS = 6,
    SPAWNS = 64,
    WHY = 400,
    RUNS_AT_ONCE = 12,
    NOBODY = 65534,
};

/* What a signal may take to reach a process that runs on another core, and a look at the clock. */
#define SIGNAL_SLACK TN_MS(30)
/* A busy machine may be slow to schedule somebody; nobody may be so slow to lead, or to end. */
#define PATIENCE TN_SEC(25)

enum fault {
    SUPERVISOR_STOPPED,
    SUPERVISOR_KILLED,
    GUARDIAN_STOPPED,
    GUARDIAN_KILLED,
    COMMAND_KILLED,
    GROUP_FROZEN,
    ASKED,
    STORE_LOCKED,
    GUARDIAN_TRACED, /* Held by a debugger, and the store locked. */
    WAITER_STOPPED,
    WAITER_KILLED,
    WAITER_ASKED,
    FAULT_COUNT
};

static const char *const fault_names[FAULT_COUNT] = {
    "supervisor stopped", "supervisor killed",    "guardian stopped", "guardian killed",
    "command killed",     "process group frozen", "asked to go",      "store locked",
    "guardian traced",    "a waiter stopped",     "a waiter killed",  "a waiter asked to go",
};

/* What the commands do; "record" comes first. */
static const char *const actors[] = {
    "",
    "ignore",
    "term=7",
    "daemon",
    "ignore daemon",
    "ignore tree=3",
    "ignore daemon tree=2 daemon",
    "tree=3",
    "ignore chain=4",
};

enum { ACTORS = sizeof actors / sizeof actors[0] };

/* The same with --comets; the number of chains is drawn. */
static const char *const comet_actors[] = {
    "comets=%u",
    "ignore comets=%u",
    "ignore daemon comets=%u",
    "ignore tree=3 daemon comets=%u daemon",
    "ignore chain=4 comets=%u",
};

enum { COMET_ACTORS = sizeof comet_actors / sizeof comet_actors[0], CHAINS_MAX = 60 };

struct settings {
    uint64_t runs, seed, at_once, faults, load;
    const char *contain; /* NULL: as it comes. */
    bool planted, comets, user;
};

static struct settings settings = { .runs = 200, .at_once = 0, .faults = FAULTS };

struct step {
    enum fault fault;
    tenure_ns delay;
    tenure_ns hold;
    unsigned other; /* Which of the others, for faults of waiters. */
};

/* All that is drawn, before anything begins: the same seed gives the same plan. */
struct script {
    struct tn_plan plan;
    tenure_ns valid_for;
    unsigned seats;
    unsigned steps;
    struct step step[FAULTS];
    char actors[SPAWNS][64];
};

struct candidate {
    pid_t pid; /* 0: this one has ended. */
    unsigned seat;
    bool killed; /* By us. */
    bool ends;   /* It may exit by itself: it was asked to, or its command was killed. */
    tenure_ns immune_until;
};

struct world {
    struct script script;
    char dir[64], log[80], err[80], db[80], url[96], ttl[32];
    struct candidate candidates[SPAWNS + 1]; /* From 1. */
    unsigned spawned;
    struct acts_bound bounds[FAULTS];
    size_t bound_count;
    pid_t planted;
    char why[WHY]; /* Empty: no failure so far. */
};

/* What a run leaves to the main process, in memory that both share. */
struct report {
    bool failed;
    size_t terms;
    tenure_ns overrun; /* The largest: how long after its bound a term acted. */
    unsigned faults[FAULT_COUNT];
    char why[WHY];
};

static void fail(struct world *world, const char *why)
{
    if (world->why[0] == '\0')
        (void)snprintf(world->why, sizeof world->why, "%s", why);
}

/* --- The script ------------------------------------------------------------------------------- */

/* "%u" in a pattern becomes the number of chains. */
static void draw_actor(char *ret_words, size_t size, struct tn_prng *prng)
{
    if (!settings.comets) {
        (void)snprintf(ret_words, size, "%s", actors[tn_prng_below(prng, ACTORS)]);
        return;
    }
    const char *pattern = comet_actors[tn_prng_below(prng, COMET_ACTORS)];
    const char *gap = strstr(pattern, "%u");
    TN_ASSERT(gap != NULL);
    (void)snprintf(ret_words, size, "%.*s%u%s", (int)(gap - pattern), pattern,
                   (unsigned)tn_prng_range(prng, 1, CHAINS_MAX), gap + 2);
}

static void draw(struct script *script, uint64_t seed)
{
    struct tn_plan_answer answer;
    struct tn_prng prng;

    tn_prng_seed(&prng, seed);
    tenure_ns ttl = TN_MS(tn_prng_range(&prng, 1000, 2000));
    tn_plan_init(&script->plan, ttl);
    (void)tn_plan_judge(&script->plan, &answer);
    script->valid_for = answer.valid_for;
    script->seats = (unsigned)tn_prng_range(&prng, 2, SEATS);
    script->steps = (unsigned)tn_prng_range(&prng, 1, (int64_t)settings.faults);
    for (unsigned i = 0; i < FAULTS; i++) {
        script->step[i].fault = (enum fault)tn_prng_below(&prng, FAULT_COUNT);
        script->step[i].delay = tn_prng_range(&prng, 0, ttl / 2);
        script->step[i].hold = tn_prng_range(&prng, TN_MS(50), 2 * ttl);
        script->step[i].other = (unsigned)tn_prng_below(&prng, SEATS);
    }
    for (unsigned i = 0; i < SPAWNS; i++)
        draw_actor(script->actors[i], sizeof script->actors[i], &prng);
}

/* --- Candidates ------------------------------------------------------------------------------- */

static void exec_actor(const struct world *world, const char *words, char **argv, size_t count)
{
    static char copy[128];
    char *rest = copy;
    char *word;

    argv[count++] = (char[]) { TN_ACTOR };
    argv[count++] = (char *)world->log;
    argv[count++] = (char[]) { "record" };
    (void)snprintf(copy, sizeof copy, "%s", words);
    while ((word = strsep(&rest, " ")) != NULL) {
        if (*word != '\0')
            argv[count++] = word;
    }
    argv[count] = NULL;
    (void)execv(argv[0], argv);
    _exit(127);
}

static void spawn(struct world *world, unsigned seat)
{
    unsigned number = world->spawned + 1;
    char id[16], text[16];

    if (number > SPAWNS) {
        fail(world, "more candidates were needed than a run can have");
        return;
    }
    (void)snprintf(id, sizeof id, "c%u", seat);
    (void)snprintf(text, sizeof text, "%u", number);
    pid_t pid = fork();
    TN_ASSERT(pid >= 0);
    if (pid == 0) {
        const char *contain = settings.contain != NULL ? settings.contain : "auto";
        char *argv[24] = { TN_TENURE,   "run",
                           "--store",   world->url,
                           "--ttl",     world->ttl,
                           "--id",      id,
                           "--contain", (char *)(strcmp(contain, "v1") == 0 ? "cgroup" : contain),
                           "job",       "--" };
        int err = open(world->err, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

        (void)setpgid(0, 0);
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* Nothing runs on when these runs are ended. */
        (void)setenv(ACTS_CANDIDATE, text, 1);
        if (err >= 0)
            (void)dup2(err, 2);
        exec_actor(world, world->script.actors[number - 1], argv, 12);
    }
    (void)setpgid(pid, pid);
    world->spawned = number;
    world->candidates[number] = (struct candidate) { .pid = pid, .seat = seat };
}

/* What a candidate's end must look like. */
static void judge_end(struct world *world, const struct candidate *candidate, int status)
{
    static const int known[] = { 7, 69, 79, 128 + SIGKILL, 128 + SIGTERM };
    bool good = false;

    if (WIFSIGNALED(status))
        /* It may have been asked to go before it listened. */
        good = (candidate->killed && WTERMSIG(status) == SIGKILL) ||
               (candidate->ends && WTERMSIG(status) == SIGTERM);
    for (size_t i = 0; WIFEXITED(status) && i < sizeof known / sizeof known[0]; i++)
        good = good || (candidate->ends && WEXITSTATUS(status) == known[i]);
    if (!good && world->why[0] == '\0')
        (void)snprintf(world->why, sizeof world->why,
                       "candidate %td ended with wait status 0x%x, and should not have",
                       candidate - world->candidates, (unsigned)status);
}

/* Returns whether there is a child left. */
static bool reap(struct world *world)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (unsigned i = 1; i <= world->spawned; i++) {
            if (world->candidates[i].pid != pid)
                continue;
            world->candidates[i].pid = 0;
            judge_end(world, &world->candidates[i], status);
        }
    }
    return pid == 0;
}

/* Every seat is taken by a live candidate, under the same id as the one before. */
static void refill(struct world *world)
{
    (void)reap(world);
    for (unsigned seat = 0; seat < world->script.seats; seat++) {
        bool taken = false;
        for (unsigned i = 1; i <= world->spawned; i++)
            taken = taken || (world->candidates[i].pid != 0 && world->candidates[i].seat == seat);
        if (!taken)
            spawn(world, seat);
    }
}

/* Its child; a supervisor has no other than the guardian, and reaps it only when it is dead. */
static int open_guardian(pid_t supervisor, pid_t *ret_pid)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    int found = -1;

    TN_ASSERT(dir != NULL);
    while (found < 0 && (entry = readdir(dir)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        char state;
        pid_t parent;

        if (pid <= 0 || !tn_proc_stat(pid, &state, &parent) || parent != supervisor)
            continue;
        found = tn_pidfd_open(pid);
        /* The number may have been given to another process before it was opened. */
        if (found >= 0 && (!tn_proc_stat(pid, &state, &parent) || parent != supervisor)) {
            (void)close(found);
            found = -1;
        }
        *ret_pid = pid;
    }
    (void)closedir(dir);
    return found;
}

static pid_t find_guardian(pid_t supervisor)
{
    pid_t pid = 0;
    int found = open_guardian(supervisor, &pid);

    if (found >= 0)
        (void)close(found);
    return found >= 0 ? pid : 0;
}

/* --- Waiting ---------------------------------------------------------------------------------- */

/* Waits until somebody acts, after @since, whose candidate may be hit. Returns it, or NULL. */
static struct candidate *wait_leader(struct world *world, tenure_ns since)
{
    tenure_ns end = tn_boottime() + PATIENCE;
    struct act act;

    while (tn_boottime() < end && world->why[0] == '\0') {
        refill(world);
        if (acts_last(world->log, &act) && act.at > since && act.candidate <= world->spawned &&
            act.at > tn_boottime() - TN_MS(100)) {
            struct candidate *candidate = &world->candidates[act.candidate];
            if (candidate->pid != 0 && tn_boottime() >= candidate->immune_until)
                return candidate;
        }
        stage_let(5);
    }
    fail(world, "nobody leads");
    return NULL;
}

static struct candidate *pick_waiter(struct world *world, const struct candidate *leader,
                                     unsigned other)
{
    struct candidate *found = NULL;

    for (unsigned i = 1; i <= world->spawned; i++) {
        struct candidate *candidate = &world->candidates[i];
        if (candidate->pid == 0 || candidate == leader || tn_boottime() < candidate->immune_until)
            continue;
        if (found == NULL || candidate->seat == other)
            found = candidate;
    }
    return found;
}

/* --- Faults ----------------------------------------------------------------------------------- */

static void expect_silence(struct world *world, const struct candidate *candidate, tenure_ns from,
                           tenure_ns by, const char *why)
{
    TN_ASSERT(world->bound_count < FAULTS);
    world->bounds[world->bound_count++] = (struct acts_bound) {
        .candidate = (uint32_t)(candidate - world->candidates), .from = from, .by = by, .why = why
    };
}

/* Hold the file's write lock for @hold; returns when it was taken, 0: it was not to be had. */
static tenure_ns lock_store(struct world *world, tenure_ns hold)
{
    sqlite3 *db = NULL;
    tenure_ns at = 0;

    if (sqlite3_open_v2(world->db, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK) {
        (void)sqlite3_busy_timeout(db, 1000);
        if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK) {
            at = tn_boottime();
            stage_let((int)(hold / TN_MS(1)));
            (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
        }
    }
    (void)sqlite3_close(db);
    return at;
}

/* A debugger's stop, which SIGCONT does not end, while nobody can renew. The supervisor has to see
 * that its guardian does nothing, and do it. */
static void trace_guardian(struct world *world, const struct candidate *candidate, tenure_ns hold)
{
    pid_t guardian = find_guardian(candidate->pid);

    if (guardian <= 0 || ptrace(PTRACE_SEIZE, guardian, NULL, NULL) != 0)
        return;
    (void)ptrace(PTRACE_INTERRUPT, guardian, NULL, NULL);
    tenure_ns at = lock_store(world, hold);
    tenure_ns by = at + world->script.valid_for + SIGNAL_SLACK;
    if (at != 0 && tn_boottime() > by)
        expect_silence(world, candidate, at, by, fault_names[GUARDIAN_TRACED]);
    /* Stopped by the tracer it can be let go of; dead it is reaped with all others. */
    (void)ptrace(PTRACE_DETACH, guardian, NULL, NULL);
}

static bool signal_guardian(const struct candidate *candidate, int signo)
{
    pid_t pid;
    int guardian = open_guardian(candidate->pid, &pid);
    bool sent = guardian >= 0 && tn_pidfd_signal(guardian, signo) == 0;

    if (guardian >= 0)
        (void)close(guardian);
    return sent;
}

/* The command's own process is the first that wrote in its term. */
static bool kill_command(const struct world *world, const struct candidate *candidate)
{
    struct acts acts;
    struct act last;
    pid_t pid = 0;
    char state;
    pid_t parent, above;

    if (!acts_last(world->log, &last) || !acts_read(world->log, &acts))
        return false;
    for (size_t i = 0; pid == 0 && i < acts.count; i++) {
        if (acts.list[i].token == last.token)
            pid = (pid_t)acts.list[i].pid;
    }
    acts_free(&acts);
    /* It is below the guardian, which is below the supervisor; no stranger is. */
    int pidfd = tn_pidfd_open(pid);
    bool sent = pidfd >= 0 && tn_proc_stat(pid, &state, &parent) &&
                tn_proc_stat(parent, &state, &above) && above == candidate->pid &&
                tn_pidfd_signal(pidfd, SIGKILL) == 0;
    if (pidfd >= 0)
        (void)close(pidfd);
    return sent;
}

/* Stop, hold, continue. @pid may be a group. */
static void stop_for(struct world *world, struct candidate *candidate, pid_t pid, tenure_ns hold,
                     const char *why)
{
    tenure_ns by = world->script.valid_for + SIGNAL_SLACK;

    (void)kill(pid, SIGSTOP);
    tenure_ns at = tn_boottime();
    stage_let((int)(hold / TN_MS(1)));
    tenure_ns thawed = tn_boottime();
    (void)kill(pid, SIGCONT);
    /* Continued in time, it may renew, and go on. */
    if (why != NULL && thawed > at + by)
        expect_silence(world, candidate, at, at + by, why);
}

static void hit_leader(struct world *world, struct candidate *leader, const struct step *step)
{
    tenure_ns stopped = world->script.plan.grace + TN_SEC(1);
    const char *why = fault_names[step->fault];
    tenure_ns by = 0;

    switch (step->fault) {
    case SUPERVISOR_STOPPED:
        stop_for(world, leader, leader->pid, step->hold, why);
        break;
    case GROUP_FROZEN:
        stop_for(world, leader, -leader->pid, step->hold, why);
        break;
    case SUPERVISOR_KILLED:
        leader->killed = true;
        (void)kill(leader->pid, SIGKILL);
        by = world->script.valid_for + SIGNAL_SLACK;
        break;
    case GUARDIAN_STOPPED:
        by = signal_guardian(leader, SIGSTOP) ? stopped : 0;
        break;
    case GUARDIAN_KILLED:
        by = signal_guardian(leader, SIGKILL) ? stopped : 0;
        break;
    case COMMAND_KILLED:
        leader->ends = true;
        by = kill_command(world, leader) ? stopped : 0;
        break;
    default:
        leader->ends = true;
        (void)kill(leader->pid, SIGTERM);
        by = stopped;
        break;
    }
    if (by == 0)
        return;
    tenure_ns now = tn_boottime();
    expect_silence(world, leader, now, now + by, why);
    stage_let((int)(step->hold / 4 / TN_MS(1)));
}

static void hit_waiter(struct world *world, struct candidate *waiter, const struct step *step)
{
    if (waiter == NULL)
        return;
    if (step->fault == WAITER_STOPPED) {
        stop_for(world, waiter, waiter->pid, step->hold, NULL);
    } else if (step->fault == WAITER_KILLED) {
        waiter->killed = true;
        (void)kill(waiter->pid, SIGKILL);
    } else {
        waiter->ends = true;
        (void)kill(waiter->pid, SIGTERM);
    }
    waiter->immune_until = tn_boottime() + TN_SEC(1);
}

static void play(struct world *world, const struct step *step, struct report *report)
{
    struct candidate *leader = wait_leader(world, 0);

    if (leader == NULL)
        return;
    stage_let((int)(step->delay / TN_MS(1)));
    report->faults[step->fault]++;
    if (step->fault == STORE_LOCKED) {
        tenure_ns at = lock_store(world, step->hold);
        tenure_ns by = at + world->script.valid_for + SIGNAL_SLACK;
        if (at != 0 && tn_boottime() > by)
            expect_silence(world, leader, at, by, fault_names[STORE_LOCKED]);
    } else if (step->fault == GUARDIAN_TRACED) {
        trace_guardian(world, leader, step->hold);
    } else if (step->fault >= WAITER_STOPPED) {
        hit_waiter(world, pick_waiter(world, leader, step->other), step);
    } else {
        hit_leader(world, leader, step);
    }
    /* One fault at a time on each: what stands in for what has failed must have its time. */
    leader->immune_until = tn_boottime() + world->script.plan.grace + TN_SEC(1);
}

/* --- One run ---------------------------------------------------------------------------------- */

/* A process that no guardian knows acts on with the first token that it saw. */
static void plant(struct world *world)
{
    struct act act;
    char token[32], number[16];

    if (wait_leader(world, 0) == NULL || !acts_last(world->log, &act))
        return;
    (void)snprintf(token, sizeof token, "%" PRIu64, act.token);
    (void)snprintf(number, sizeof number, "%u", act.candidate);
    world->planted = fork();
    TN_ASSERT(world->planted >= 0);
    if (world->planted == 0) {
        char *argv[16];

        (void)setenv("TENURE_TOKEN", token, 1);
        (void)setenv(ACTS_CANDIDATE, number, 1);
        exec_actor(world, "", argv, 0);
    }
    world->candidates[act.candidate].killed = true;
    (void)kill(world->candidates[act.candidate].pid, SIGKILL);
    /* Else its name on the planted acts would be taken for a leader's. */
    while (world->candidates[act.candidate].pid != 0 && reap(world))
        stage_let(1);
}

/* Ask all to go; nothing may be left, neither a candidate nor what its commands have started. What
 * loses its parent becomes a child of ours. */
static void end_all(struct world *world)
{
    tenure_ns end = tn_boottime() + PATIENCE;

    for (unsigned i = 1; i <= world->spawned; i++) {
        world->candidates[i].ends = true;
        if (world->candidates[i].pid != 0)
            (void)kill(world->candidates[i].pid, SIGTERM);
    }
    while (tn_boottime() < end) {
        if (!reap(world))
            return;
        stage_let(2);
    }
    fail(world, "a process was left that would not end");
    for (unsigned i = 1; i <= world->spawned; i++) {
        world->candidates[i].killed = true;
        if (world->candidates[i].pid != 0)
            (void)kill(world->candidates[i].pid, SIGKILL);
    }
}

static void judge(struct world *world, struct report *report)
{
    struct acts acts;
    char why[WHY];

    if (!acts_read(world->log, &acts))
        fail(world, "the record of the acts is damaged");
    else if (!acts_check(&acts, world->bounds, world->bound_count, why, sizeof why))
        fail(world, why);
    report->terms = acts_terms(&acts);
    for (size_t i = 0; i < world->bound_count; i++) {
        tenure_ns overrun = acts_overrun(&acts, &world->bounds[i]);
        report->overrun = overrun > report->overrun ? overrun : report->overrun;
    }
    acts_free(&acts);
}

/* A candidate that was killed while it made the store leaves a draft of it, so all files go. */
static void clean(const struct world *world)
{
    DIR *dir = opendir(world->dir);
    struct dirent *entry;

    TN_ASSERT(dir != NULL);
    while ((entry = readdir(dir)) != NULL)
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    (void)closedir(dir);
    (void)rmdir(world->dir);
}

static void open_world(struct world *world, uint64_t seed)
{
    const char *tmp = getenv("TMPDIR");

    *world = (struct world) { .spawned = 0 };
    draw(&world->script, seed);
    (void)snprintf(world->dir, sizeof world->dir, "%.30s/tenure-run-......",
                   tmp != NULL ? tmp : "/tmp");
    memset(strrchr(world->dir, '-') + 1, 'X', 6); /* What mkdtemp replaces. */
    TN_ASSERT(mkdtemp(world->dir) != NULL);
    (void)snprintf(world->log, sizeof world->log, "%s/acts", world->dir);
    (void)snprintf(world->err, sizeof world->err, "%s/stderr", world->dir);
    (void)snprintf(world->db, sizeof world->db, "%s/store", world->dir);
    (void)snprintf(world->url, sizeof world->url, "sqlite:%s", world->db);
    (void)snprintf(world->ttl, sizeof world->ttl, "%" PRId64 "ms",
                   world->script.plan.ttl / TN_MS(1));
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* For who has to find out why it failed. */
static void tell(const struct world *world)
{
    printf("%s: TTL %s, %u candidates\n", world->dir, world->ttl, world->script.seats);
    for (unsigned i = 0; i < world->script.steps; i++)
        printf("    %s after %" PRId64 " ms, for %" PRId64 " ms\n",
               fault_names[world->script.step[i].fault], world->script.step[i].delay / TN_MS(1),
               world->script.step[i].hold / TN_MS(1));
    for (unsigned i = 1; i <= world->spawned; i++)
        printf("    candidate %u: id c%u, command \"%s\"\n", i, world->candidates[i].seat,
               world->script.actors[i - 1]);
}

static void run(uint64_t seed, bool planted, struct report *report)
{
    struct world world;

    open_world(&world, seed);
    refill(&world);
    if (planted)
        plant(&world);
    for (unsigned i = 0; !planted && i < world.script.steps && world.why[0] == '\0'; i++)
        play(&world, &world.script.step[i], report);
    /* No fault any more: somebody leads. */
    (void)wait_leader(&world, tn_boottime());
    if (world.planted > 0) {
        /* Both have acted by now, and a little later both have acted again. */
        stage_let(50);
        (void)kill(world.planted, SIGKILL);
    }
    end_all(&world);
    judge(&world, report);
    (void)snprintf(report->why, sizeof report->why, "%s", world.why);
    report->failed = world.why[0] != '\0';
    if (!report->failed || planted)
        clean(&world);
    else
        tell(&world);
}

/* --- The checker itself ----------------------------------------------------------------------- */

/* Made-up acts of two terms; each line of the table spoils them in one way. Returns 1 if one of
 * them is judged wrong. */
static unsigned check_checker(void)
{
    static const struct {
        const char *what;
        struct act third;
        bool good;
    } table[] = {
        { "a second term after the first", { 30, 2, 2, 2, ACT_ACTING }, true },
        { "the first term acts on", { 30, 1, 1, 1, ACT_ACTING }, false },
        { "two terms at one time", { 20, 2, 2, 2, ACT_ACTING }, false },
        { "a token that goes back", { 50, 1, 2, 2, ACT_ACTING }, false },
        { "one token, two candidates", { 30, 1, 2, 2, ACT_ACTING }, false },
        { "no token", { 30, 0, 2, 2, ACT_ACTING }, false },
    };
    const struct acts_bound bound = { .candidate = 1, .from = 15, .by = 25, .why = "made up" };
    unsigned failed = 0;

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct act list[] = {
            { 10, 1, 1, 1, ACT_STARTED },
            { 20, 1, 1, 1, ACT_ACTING },
            table[i].third,
            { 60, 2, 2, 2, ACT_ENDED },
        };
        struct acts acts = { list, sizeof list / sizeof list[0] };
        char why[WHY];

        if (acts_check(&acts, &bound, 1, why, sizeof why) == table[i].good)
            continue;
        printf("FAIL the checker: %s\n", table[i].what);
        failed = 1;
    }
    return failed;
}

/* --- All runs --------------------------------------------------------------------------------- */

/* Returns how many runs ended otherwise than they should. */
static unsigned finish(const pid_t *pids, struct report *reports)
{
    int status;
    pid_t pid = waitpid(-1, &status, 0);

    for (uint64_t i = 0; i < settings.runs; i++) {
        if (pids[i] != pid)
            continue;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            reports[i].failed = !settings.planted;
            (void)snprintf(reports[i].why, sizeof reports[i].why, "the run itself died, 0x%x",
                           (unsigned)status);
        }
        if (reports[i].failed || settings.planted)
            printf("%s run %" PRIu64 ", seed %" PRIu64 ": %s\n",
                   settings.planted ? "planted" : "FAIL", i, settings.seed + i,
                   reports[i].failed ? reports[i].why : "nothing was found");
        (void)fflush(stdout);
        return reports[i].failed != settings.planted ? 1 : 0;
    }
    return 0;
}

static unsigned run_all(struct report *reports)
{
    pid_t *pids = calloc(settings.runs, sizeof *pids);
    unsigned failed = 0;
    uint64_t busy = 0;

    TN_ASSERT(pids != NULL);
    for (uint64_t i = 0; i < settings.runs; i++) {
        if (busy == settings.at_once) {
            failed += finish(pids, reports);
            busy--;
        }
        (void)fflush(stdout);
        reports[i].overrun = INT64_MIN;
        pids[i] = fork();
        TN_ASSERT(pids[i] >= 0);
        if (pids[i] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            run(settings.seed + i, settings.planted, &reports[i]);
            (void)fflush(stdout);
            _exit(0);
        }
        busy++;
    }
    for (; busy > 0; busy--)
        failed += finish(pids, reports);
    free(pids);
    return failed;
}

static void print_totals(const struct report *reports)
{
    char text[TN_DURATION_TEXT];
    tenure_ns overrun = INT64_MIN;
    size_t terms = 0;

    for (int fault = 0; fault < FAULT_COUNT; fault++) {
        unsigned times = 0;
        for (uint64_t i = 0; i < settings.runs; i++)
            times += reports[i].faults[fault];
        printf("%4u times: %s\n", times, fault_names[fault]);
    }
    for (uint64_t i = 0; i < settings.runs; i++) {
        terms += reports[i].terms;
        overrun = reports[i].overrun > overrun ? reports[i].overrun : overrun;
    }
    printf("%zu terms, no two at one time\n", terms);
    if (overrun == INT64_MIN)
        return;
    tn_duration_format(text, sizeof text, overrun);
    printf("last act after the moment by which there must be none, at most: %s\n", text);
}

static bool read_settings(int argc, char **argv)
{
    int at = 1;

    for (; at < argc && argv[at][0] == '-'; at++) {
        const char *word = argv[at];
        uint64_t *number = strcmp(word, "--at-once") == 0  ? &settings.at_once
                           : strcmp(word, "--faults") == 0 ? &settings.faults
                           : strcmp(word, "--load") == 0   ? &settings.load
                                                           : NULL;

        if (strcmp(word, "--plant") == 0)
            settings.planted = true;
        else if (strcmp(word, "--comets") == 0)
            settings.comets = true;
        else if (strcmp(word, "--user") == 0)
            settings.user = true;
        else if (++at == argc)
            return false;
        else if (strcmp(word, "--contain") == 0)
            settings.contain = argv[at];
        else if (number == NULL || tn_u64_parse(argv[at], number) != 0)
            return false;
    }
    if ((at < argc && tn_u64_parse(argv[at], &settings.runs) != 0) ||
        (at + 1 < argc && tn_u64_parse(argv[at + 1], &settings.seed) != 0))
        return false;
    return argc - at <= 2 && settings.runs > 0 && settings.at_once > 0 && settings.faults > 0 &&
           settings.faults <= FAULTS;
}

/* --- What the runs stand on ------------------------------------------------------------------- */

/* Where cgroups are mounted by custom: v1's freezer, and v2 beside v1 or alone. */
static const char *const mounts[] = { "/sys/fs/cgroup/freezer", "/sys/fs/cgroup/unified",
                                      "/sys/fs/cgroup" };

static void delegated_path(char *ret_path, size_t size, const char *base, pid_t pid)
{
    (void)snprintf(ret_path, size, "%s/chaos-%ld", base, (long)pid);
}

/* Move into a new cgroup that belongs to nobody, as a service manager delegates one. False: it
 * cannot be made. */
static bool delegate(bool v1)
{
    static const char *const files[] = { "", "/cgroup.procs", "/tasks" };
    char delegated[128];
    char path[192];

    delegated_path(delegated, sizeof delegated,
                   mounts[v1                             ? 0
                          : access(mounts[1], F_OK) == 0 ? 1
                                                         : 2],
                   getpid());
    if (mkdir(delegated, 0755) != 0)
        return false;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s", delegated, files[i]);
        if (chown(path, NOBODY, NOBODY) != 0 && i < 2)
            return false;
    }
    (void)snprintf(path, sizeof path, "%s/cgroup.procs", delegated);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool moved = fd >= 0 && write(fd, "0", 1) == 1;
    if (fd >= 0)
        (void)close(fd);
    return moved;
}

/* With v1 the other hierarchy must not be there to choose: it is covered, for this process and all
 * below it. */
static bool hide_v2(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) == 0 &&
           mount("none", "/sys/fs/cgroup/unified", "tmpfs", 0, NULL) == 0;
}

static bool prepare(void)
{
    bool v1 = settings.contain != NULL && strcmp(settings.contain, "v1") == 0;
    bool cgroup = v1 || (settings.contain != NULL && strcmp(settings.contain, "cgroup") == 0);

    if (v1 && !hide_v2())
        return false;
    if (settings.user && cgroup && !delegate(v1))
        return false;
    if (settings.user && (setgroups(0, NULL) != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
                          setresuid(NOBODY, NOBODY, NOBODY) != 0))
        return false;
    /* As that user: the kernel lets no dying parent kill a child of another one. */
    for (uint64_t i = 0; i < settings.load; i++) {
        if (fork() == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                ;
        }
    }
    return true;
}

/* The runs in a process of their own, which may become another user; this one cleans up. */
static int run_and_clean(int (*all)(void))
{
    int status = 0;
    pid_t pid = fork();

    TN_ASSERT(pid >= 0);
    if (pid == 0) {
        if (!prepare()) {
            printf("this machine, or this user, has no such containment: %m\n"
                   "0 passed, 0 failed, 1 skipped\n");
            (void)fflush(stdout);
            _exit(EXIT_SUCCESS);
        }
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        int rc = all();
        (void)fflush(stdout);
        _exit(rc);
    }
    (void)waitpid(pid, &status, 0);
    for (size_t i = 0; i < sizeof mounts / sizeof mounts[0]; i++) {
        char path[128];

        delegated_path(path, sizeof path, mounts[i], pid);
        (void)rmdir(path);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
}

static int run_everything(void)
{
    size_t size = settings.runs * sizeof(struct report);
    struct report *reports =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool promised =
        !settings.comets || settings.contain == NULL || strcmp(settings.contain, "tree") != 0;

    TN_ASSERT(reports != MAP_FAILED);
    unsigned failed = check_checker() + run_all(reports);
    if (failed == 0 && !settings.planted)
        print_totals(reports);
    if (!promised) {
        printf("%u of %" PRIu64 " runs broke what the tree alone does not promise\n", failed,
               settings.runs);
        failed = 0;
    }
    printf("%" PRIu64 " passed, %u failed, 0 skipped\n", settings.runs + 1 - failed, failed);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    settings.seed = (uint64_t)tn_boottime() % 1000000;
    settings.at_once = RUNS_AT_ONCE;
    if (!read_settings(argc, argv)) {
        (void)fprintf(stderr, "usage: run [--at-once N] [--faults N] [--plant] [--contain HOW] "
                              "[--comets] [--load N] [--user] [RUNS [SEED]]\n");
        return 64;
    }
    printf("%" PRIu64 " runs, seed %" PRIu64 "\n", settings.runs, settings.seed);
    (void)fflush(stdout);
    return run_and_clean(run_everything);
}
