/* leader.c - the smallest leader: does one step of work after the other while it leads.
 *
 *     cc leader.c $(pkg-config --cflags --libs tenure) -o leader
 *     ./leader nightly-report [STORE]
 *
 * Start it twice: one works, the other waits. SIGTERM or Ctrl-C hands over at once, SIGKILL after
 * the TTL. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tenure/tenure.h"

static volatile sig_atomic_t stopping;

static void stop(int signal)
{
    (void)signal;
    stopping = 1;
}

/* Short, and with the token: the receiver of the work can refuse an older one (fenced-writer.c). */
static void work(uint64_t token)
{
    struct timespec pause = { .tv_nsec = 100000000 };

    printf("working, token %" PRIu64 "\n", token);
    (void)fflush(stdout);
    (void)nanosleep(&pause, NULL); /* A signal ends it early. */
}

/* Term after term. The call of tenure_wait says that the work of the last term has stopped: only
 * then does the lease pass on when an operator asks for a hand-over. */
static int lead(struct tenure_election *election)
{
    uint64_t token;
    int rc = 0;

    while (!stopping && (rc == 0 || rc == TENURE_E_TIMEOUT)) {
        rc = tenure_wait(election, 500000000, &token); /* Half a second, then look at stopping. */
        while (rc == 0 && !stopping && tenure_token(election) == token) /* Before every step. */
            work(token);
    }
    return rc == TENURE_E_TIMEOUT ? 0 : rc;
}

int main(int argc, char **argv)
{
    struct tenure_campaign campaign = { .size = sizeof campaign,
                                        .flags = TENURE_DRAINED_ON_RETURN };
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
    int rc = tenure_campaign_start(tenure, argv[1], &campaign, &election, &error);
    if (rc != 0)
        (void)fprintf(stderr, "leader: %s\n", error.text);
    else if ((rc = lead(election)) != 0)
        (void)fprintf(stderr, "leader: %s: %s\n", argv[1], tenure_strerror(rc));
    (void)tenure_close(tenure); /* The work has stopped: the lease is free at once. */
    return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
