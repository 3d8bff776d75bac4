/* stage.c - a supervisor in a process of its own, with an actor as its command. */
#define _GNU_SOURCE
#include "tests/runner/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "runner/os.h"

void stage_let(int ms)
{
    tenure_ns end = tn_boottime() + TN_MS(ms);

    for (tenure_ns now = tn_boottime(); now < end; now = tn_boottime())
        (void)poll(NULL, 0, (int)((end - now) / TN_MS(1)) + 1);
}

/* For loops that wait: true once a millisecond until @end. */
static bool patience(tenure_ns end)
{
    (void)poll(NULL, 0, 1);
    return tn_boottime() < end;
}

int stage_fds(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");

    while (dir != NULL && readdir(dir) != NULL)
        count++;
    if (dir != NULL)
        (void)closedir(dir);
    return count;
}

static bool has_mark(const char *pid, const char *mark)
{
    static char text[65536];
    char path[300];
    ssize_t len = 0;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%s/environ", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    for (ssize_t got = 1; got > 0 && len<(ssize_t)sizeof text; len += got> 0 ? got : 0)
        got = read(fd, text + len, sizeof text - (size_t)len);
    (void)close(fd);
    return memmem(text, (size_t)len, mark, strlen(mark) + 1) != NULL;
}

/* Appends of several processes are in no strict order, so the last few hundred are looked at. */
tenure_ns stage_last_beat(const struct stage *stage)
{
    int64_t beats[512];
    struct stat st;
    tenure_ns last = 0;
    int fd = open(stage->file, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return 0;
    if (fstat(fd, &st) == 0) {
        off_t from = st.st_size > (off_t)sizeof beats ? st.st_size - (off_t)sizeof beats : 0;
        ssize_t len = pread(fd, beats, sizeof beats, from / 8 * 8);

        for (ssize_t i = 0; i < len / 8; i++)
            last = beats[i] > last ? beats[i] : last;
    }
    (void)close(fd);
    return last;
}

bool stage_wait_count(const struct stage *stage, size_t least, int ms)
{
    tenure_ns end = tn_boottime() + TN_MS(ms);

    do {
        if (stage_count(stage) >= least)
            return true;
    } while (patience(end));
    return false;
}

bool stage_wait_int(_Atomic int *value, int unlike, int ms)
{
    tenure_ns end = tn_boottime() + TN_MS(ms);

    do {
        if (*value != unlike)
            return true;
    } while (patience(end));
    return false;
}

bool stage_wait_time(_Atomic int64_t *value, int ms)
{
    tenure_ns end = tn_boottime() + TN_MS(ms);

    do {
        if (*value != 0)
            return true;
    } while (patience(end));
    return false;
}

bool stage_wait_state(pid_t pid, const char *states, int ms)
{
    tenure_ns end = tn_boottime() + TN_MS(ms);
    char state;
    pid_t parent;

    do {
        if (tn_proc_stat(pid, &state, &parent) && strchr(states, state) != NULL)
            return true;
    } while (patience(end));
    return false;
}

bool stage_wait_caught(pid_t pid, int signo, int ms)
{
    tenure_ns end = tn_boottime() + TN_MS(ms);
    char line[128];

    do {
        unsigned long long caught = 0;

        (void)snprintf(line, sizeof line, "/proc/%ld/status", (long)pid);
        FILE *status = fopen(line, "re");
        while (status != NULL && fgets(line, sizeof line, status) != NULL)
            (void)sscanf(line, "SigCgt: %llx", &caught);
        if (status != NULL)
            (void)fclose(status);
        if ((caught >> (signo - 1) & 1) != 0)
            return true;
    } while (patience(end));
    return false;
}

void stage_init(struct stage *stage, int grace_ms, int kill_bound_ms, int term_ms)
{
    static unsigned number;
    static struct stage_shared *page;

    *stage = (struct stage) { .grace = TN_MS(grace_ms),
                              .kill_bound = TN_MS(kill_bound_ms),
                              .term = TN_MS(term_ms),
                              .watch_every = TN_MS(20) };
    if (getenv("TN_CONTAIN") != NULL)
        TN_ASSERT(tn_contain_parse(getenv("TN_CONTAIN"), &stage->contain) == 0);
    if (page == NULL) {
        page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        TN_ASSERT(page != MAP_FAILED);
    }
    memset(page, 0, sizeof *page);
    stage->shared = page;
    stage->shared->reason = -1;
    stage->shared->status = -1;
    stage->shared->extend = true;
    (void)snprintf(stage->dir, sizeof stage->dir, "/tmp/tenure-stage-%ld-%u", (long)getpid(),
                   ++number);
    TN_ASSERT(mkdir(stage->dir, 0700) == 0);
    (void)snprintf(stage->file, sizeof stage->file, "%s/beats", stage->dir);
    (void)snprintf(stage->mark, sizeof stage->mark, "TN_STAGE=%ld.%u", (long)getpid(), number);
    /* What a killed supervisor leaves behind falls to the test, which can then see it end. */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static void note(struct stage_shared *shared, const struct tn_guardian_event *event)
{
    switch (event->kind) {
    case TN_GUARDIAN_STARTED:
        shared->command = event->value;
        break;
    case TN_GUARDIAN_STOPPING:
        shared->reason = event->value;
        shared->stopping_at = event->at;
        break;
    case TN_GUARDIAN_KILLING:
        shared->killing_at = event->at;
        break;
    case TN_GUARDIAN_LOST:
        shared->lost_by = event->value;
        shared->lost = true;
        break;
    case TN_GUARDIAN_REAPED:
        shared->reaped_at = event->at;
        break;
    default:
        break;
    }
}

static void renew(struct stage *stage, struct tn_guardian *guardian)
{
    struct stage_shared *shared = stage->shared;
    int signo = atomic_exchange(&shared->signal, 0);

    if (shared->extend) {
        tenure_ns deadline = tn_boottime() + stage->term;

        /* Before it is sent: a guardian that knows it must not be judged by the one before. */
        shared->deadline = deadline;
        (void)!tn_guardian_extend(guardian, deadline);
    }
    if (signo != 0)
        (void)!tn_guardian_signal(guardian, signo);
    if (atomic_exchange(&shared->stop, false))
        tn_guardian_stop(guardian);
}

static void on_interrupt(int signo)
{
    (void)signo;
}

static _Noreturn void supervise(struct stage *stage, char *const *argv)
{
    struct stage_shared *shared = stage->shared;
    const char *env[] = { stage->mark, NULL };
    struct tn_guardian_options options = {
        .argv = argv,
        .env = env,
        .grace = stage->grace,
        .kill_bound = stage->kill_bound,
        .deadline = tn_boottime() + stage->term,
        .watch_every = stage->watch_every,
        .contain = stage->contain,
        .binding = stage->binding,
    };
    struct tn_guardian *guardian = NULL;
    struct tn_guardian_event event;

    (void)setpgid(0, 0);
    /* Ctrl-C is for the command, which gets it from the terminal. */
    (void)signal(SIGINT, on_interrupt);
    shared->fds_before = stage_fds();
    shared->deadline = options.deadline;
    shared->start_error = tn_guardian_start(&options, &guardian);
    if (shared->start_error != 0)
        _exit(1);
    shared->guardian = tn_guardian_pid(guardian);
    shared->contain = (int)tn_guardian_containment(guardian);
    while (!tn_guardian_done(guardian)) {
        struct pollfd fd = { .fd = tn_guardian_fd(guardian), .events = POLLIN };

        (void)poll(&fd, 1, 5);
        while (tn_guardian_dispatch(guardian, &event))
            note(shared, &event);
        if (!tn_guardian_done(guardian))
            renew(stage, guardian);
    }
    shared->status = tn_guardian_status(guardian);
    tn_guardian_free(guardian);
    shared->fds_after = stage_fds();
    /* No child may be left, dead or alive. */
    _exit(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD ? 0 : 2);
}

void stage_open_command(struct stage *stage, char *const *argv)
{
    (void)fflush(stdout);
    stage->supervisor = fork();
    TN_ASSERT(stage->supervisor >= 0);
    if (stage->supervisor == 0)
        supervise(stage, argv);
}

bool stage_open(struct stage *stage, const char *words)
{
    char copy[256];
    char *argv[STAGE_WORDS + 3] = { TN_ACTOR, stage->file };
    size_t count = 2;
    char *rest = copy;
    char *word;
    tenure_ns end = tn_boottime() + TN_SEC(10);

    (void)snprintf(copy, sizeof copy, "%s", words);
    while ((word = strsep(&rest, " ")) != NULL && count < STAGE_WORDS + 2) {
        if (*word != '\0')
            argv[count++] = word;
    }
    stage_open_command(stage, argv);
    do {
        if (stage->shared->command != 0 && stage_last_beat(stage) != 0)
            return true;
    } while (patience(end));
    return false;
}

bool stage_is_contained(void)
{
    const char *chosen = getenv("TN_CONTAIN");
    char why[256];

    if (chosen != NULL && strcmp(chosen, "auto") != 0)
        return strcmp(chosen, "tree") != 0;
    return tn_contain_check(TN_CONTAIN_CGROUP, why, sizeof why) == 0;
}

/* Whether @pid can never act again: it is dead, or SIGKILL is on its way to it. */
static bool is_killed(const char *pid)
{
    unsigned long long pending = 0;
    unsigned long long bits;
    char line[300];

    (void)snprintf(line, sizeof line, "/proc/%s/status", pid);
    FILE *status = fopen(line, "re");
    if (status == NULL)
        return true;
    while (fgets(line, sizeof line, status) != NULL) {
        if (sscanf(line, "SigPnd: %llx", &bits) == 1 || sscanf(line, "ShdPnd: %llx", &bits) == 1)
            pending |= bits;
    }
    (void)fclose(status);
    return (pending >> (SIGKILL - 1) & 1) != 0;
}

static size_t count_marked(const struct stage *stage, bool killed_too)
{
    size_t count = 0;
    DIR *dir = opendir("/proc");
    struct dirent *entry;

    TN_ASSERT(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            has_mark(entry->d_name, stage->mark) && (killed_too || !is_killed(entry->d_name)))
            count++;
    }
    (void)closedir(dir);
    return count;
}

size_t stage_count(const struct stage *stage)
{
    return count_marked(stage, true);
}

/* Wait until nobody carries the mark. The deadline may be moved on meanwhile, but not for ever. */
static size_t wait_gone(const struct stage *stage, tenure_ns *ret_when)
{
    tenure_ns end = tn_boottime() + TN_SEC(3);
    size_t left;

    do {
        left = stage_count(stage);
        /* After the look: nobody can have been there longer. */
        *ret_when = tn_boottime();
    } while (left > 0 && patience(end));
    return left;
}

struct stage_result stage_close(struct stage *stage)
{
    struct stage_result result = { 0 };
    tenure_ns gone_at;
    tenure_ns end;

    result.left = wait_gone(stage, &gone_at);
    result.unkilled = result.left > 0 ? count_marked(stage, false) : 0;
    tenure_ns deadline = stage->shared->deadline;
    if (result.left > 0)
        (void)kill(stage->supervisor, SIGKILL);
    (void)kill(stage->supervisor, SIGCONT);
    end = tn_boottime() + TN_SEC(3);
    while (waitpid(stage->supervisor, &result.supervisor_status, WNOHANG) == 0) {
        if (!patience(end))
            (void)kill(stage->supervisor, SIGKILL);
    }
    /* The guardian and whatever else came to us. */
    while (waitpid(-1, NULL, WNOHANG) >= 0) {
        if (!patience(end))
            break;
    }
    result.last_beat = stage_last_beat(stage);
    result.beat_overrun = result.last_beat - deadline;
    result.gone_overrun = gone_at - deadline;
    (void)unlink(stage->file);
    (void)rmdir(stage->dir);
    return result;
}
