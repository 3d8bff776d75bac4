/* event-loop.c - a leader with a loop of its own: one thread, one poll, three descriptors.
 *
 *     cc event-loop.c $(pkg-config --cflags --libs tenure) -o event-loop
 *     ./event-loop nightly-report [STORE]
 *
 * With TENURE_OWN_LOOP callbacks run within tenure_dispatch, on this thread, so nothing needs a
 * lock. SIGTERM steps down first and leaves then. Linux: timerfd and signalfd. */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "tenure/tenure.h"

enum { TENURE, TIMER, SIGNALS, COUNT };

struct program {
    struct tenure *tenure;
    struct tenure_election *election;
    struct pollfd fds[COUNT];
    bool leads;   /* WON was told, and LOST not. */
    bool leaving; /* Asked to end. */
    bool done;
};

static void hear(struct tenure_election *election, const struct tenure_event *event, void *arg)
{
    struct program *program = arg;

    switch (event->kind) {
    case TENURE_WON:
        program->leads = true;
        printf("leading, token %" PRIu64 "\n", event->token);
        break;
    case TENURE_STOP: /* Nothing is under way outside of tick, so the work has stopped. */
        (void)tenure_drained(election);
        break;
    case TENURE_LOST:
        printf("lost: %s\n", tenure_reason_text(event->reason));
        (void)tenure_drained(election); /* Only now there can be another term. */
        program->leads = false;
        program->done = program->leaving;
        break;
    case TENURE_LEADER:
        printf("%s leads\n", event->leader);
        break;
    default:
        break;
    }
    (void)fflush(stdout);
}

/* One step of work, if it is ours to do. */
static void tick(struct program *program)
{
    uint64_t times, token = program->leads ? tenure_token(program->election) : 0;

    if (read(program->fds[TIMER].fd, &times, sizeof times) != (ssize_t)sizeof times)
        return;
    if (token != 0) {
        printf("working, token %" PRIu64 "\n", token);
        (void)fflush(stdout);
    }
}

/* The next one leads as soon as the work has stopped. */
static void leave(struct program *program)
{
    struct signalfd_siginfo signal;

    if (read(program->fds[SIGNALS].fd, &signal, sizeof signal) != (ssize_t)sizeof signal)
        return;
    program->leaving = true;
    program->done = !program->leads;
    (void)tenure_resign(program->election);
}

static int run(struct program *program)
{
    while (!program->done) {
        if (poll(program->fds, COUNT, -1) < 0)
            return -1;
        if (program->fds[TENURE].revents != 0 && tenure_dispatch(program->tenure) < 0)
            return -1;
        if (program->fds[TIMER].revents != 0)
            tick(program);
        if (program->fds[SIGNALS].revents != 0)
            leave(program);
    }
    return 0;
}

/* The descriptors of the program's own: a timer, and the signals that end it. */
static int watch(struct program *program)
{
    struct itimerspec every = { .it_value.tv_nsec = 100000000, .it_interval.tv_nsec = 100000000 };
    sigset_t signals;
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGINT);
    if (timer < 0 || timerfd_settime(timer, 0, &every, NULL) != 0 ||
        sigprocmask(SIG_BLOCK, &signals, NULL) != 0)
        return -1;
    program->fds[TIMER] = (struct pollfd) { .fd = timer, .events = POLLIN };
    program->fds[SIGNALS] =
        (struct pollfd) { .fd = signalfd(-1, &signals, SFD_CLOEXEC), .events = POLLIN };
    return program->fds[SIGNALS].fd < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    struct tenure_options options = { .size = sizeof options, .flags = TENURE_OWN_LOOP };
    struct program program = { 0 };
    struct tenure_campaign campaign = { .size = sizeof campaign,
                                        .callback = hear,
                                        .arg = &program };
    struct tenure_error error;

    if (argc < 2) {
        (void)fprintf(stderr, "usage: event-loop NAME [STORE]\n");
        return 64;
    }
    if (tenure_open(argc > 2 ? argv[2] : NULL, &options, &program.tenure, &error) != 0) {
        (void)fprintf(stderr, "event-loop: %s\n", error.text);
        return EXIT_FAILURE;
    }
    int rc = tenure_campaign_start(program.tenure, argv[1], &campaign, &program.election, &error);
    if (rc != 0)
        (void)fprintf(stderr, "event-loop: %s\n", error.text);
    program.fds[TENURE] = (struct pollfd) { .fd = tenure_fd(program.tenure), .events = POLLIN };
    if (rc == 0)
        rc = watch(&program) == 0 ? run(&program) : -1;
    (void)tenure_close(program.tenure);
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
