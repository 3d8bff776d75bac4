/* leader.c - the smallest leader: does one step of work after the other while it leads.
 *
 *     cc leader.c $(pkg-config --cflags --libs tenure) -o leader
 *     ./leader nightly-report [STORE]
 *
 * Start it twice: one works, the other waits. SIGTERM or Ctrl-C hands over at once, SIGKILL after
 * the TTL. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tenure/tenure.h"

static volatile sig_atomic_t stopping;

/* Held during each step: who has the lock knows that no step is under way. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool leads;

static void stop(int signal)
{
    (void)signal;
    stopping = 1;
}

/* Runs on a thread of the library. When it returns from STOP or LOST, the work has stopped; so said
 * the flag TENURE_DRAINED_ON_RETURN below. */
static void hear(struct tenure_election *election, const struct tenure_event *event, void *arg)
{
    (void)arg;
    switch (event->kind) {
    case TENURE_WON:
    case TENURE_STOP:
    case TENURE_LOST:
        (void)pthread_mutex_lock(&lock);
        leads = event->kind == TENURE_WON;
        (void)pthread_mutex_unlock(&lock);
        break;
    default:
        break;
    }
    if (event->kind == TENURE_WON)
        printf("leading %s with token %" PRIu64 "\n", tenure_name(election), event->token);
    if (event->kind == TENURE_LOST)
        printf("lost %s: %s\n", tenure_name(election), tenure_reason_text(event->reason));
    if (event->kind == TENURE_LEADER)
        printf("%s leads %s\n", event->leader, tenure_name(election));
    (void)fflush(stdout);
}

/* Short, and with the token: whoever receives the work can refuse an older one (fenced-writer.c).
 */
static void work(uint64_t token)
{
    printf("working, token %" PRIu64 "\n", token);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    struct tenure_campaign campaign = { .size = sizeof campaign,
                                        .callback = hear,
                                        .flags = TENURE_DRAINED_ON_RETURN };
    struct timespec pause = { .tv_nsec = 100000000 };
    struct tenure_election *election;
    struct tenure_error error;
    struct tenure *tenure;

    if (argc < 2) {
        (void)fprintf(stderr, "usage: leader NAME [STORE]\n");
        return 64;
    }
    (void)signal(SIGTERM, stop);
    (void)signal(SIGINT, stop);
    if (tenure_open(argc > 2 ? argv[2] : NULL, NULL, &tenure, &error) != 0) {
        (void)fprintf(stderr, "leader: %s\n", error.text);
        return EXIT_FAILURE;
    }
    int rc = tenure_campaign(tenure, argv[1], &campaign, &election);
    while (rc == 0 && !stopping) {
        (void)pthread_mutex_lock(&lock);
        uint64_t token = leads ? tenure_token(election) : 0; /* Asked before every step. */
        if (token != 0)
            work(token);
        (void)pthread_mutex_unlock(&lock);
        (void)nanosleep(&pause, NULL); /* A signal ends it early. */
    }
    if (rc != 0)
        (void)fprintf(stderr, "leader: %s: %s\n", argv[1], tenure_strerror(rc));
    (void)tenure_close(tenure); /* The work has stopped: the lease is free at once. */
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
