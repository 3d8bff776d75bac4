/* latch.c - a candidate for the live tests that takes its turns.
 *
 * usage: latch URL NAME ID TTL_MS TERMS HOLD_MS
 *
 * It leads TERMS times for HOLD_MS each and prints "won TOKEN NS" and "end TOKEN NS" on
 * CLOCK_BOOTTIME: the first when it was told, the second before it gives the lease back. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "runtime/clock.h"
#include "tenure/tenure.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static unsigned terms_left;
static tenure_ns hold;

static void hear_turn(struct tenure_election *election, const struct tenure_event *event, void *arg)
{
    (void)arg;
    if (event->kind == TENURE_WON) {
        printf("won %" PRIu64 " %" PRId64 "\n", event->token, tn_boottime());
        tn_clock_pause(hold);
        printf("end %" PRIu64 " %" PRId64 "\n", event->token, tn_boottime());
        (void)fflush(stdout);
        (void)tenure_resign(election);
    } else if (event->kind == TENURE_LOST) {
        if (event->reason != TENURE_REASON_RELEASED)
            printf("lost %" PRIu64 " %s\n", event->token, tenure_reason_text(event->reason));
        (void)pthread_mutex_lock(&lock);
        if (--terms_left > 0)
            (void)tenure_stand(election);
        (void)pthread_cond_signal(&moved);
        (void)pthread_mutex_unlock(&lock);
    }
}

static int take_turns(struct tenure *tenure, char **args)
{
    struct tenure_campaign campaign = { .size = sizeof campaign,
                                        .callback = hear_turn,
                                        .flags = TENURE_DRAINED_ON_RETURN };
    struct tenure_election *election;

    terms_left = (unsigned)strtoul(args[3], NULL, 10);
    hold = TN_MS(strtol(args[4], NULL, 10));
    if (tenure_campaign(tenure, args[0], &campaign, &election) < 0)
        return 1;
    (void)pthread_mutex_lock(&lock);
    while (terms_left > 0)
        (void)pthread_cond_wait(&moved, &lock);
    (void)pthread_mutex_unlock(&lock);
    tenure_leave(election);
    return 0;
}

int main(int argc, char **argv)
{
    struct tenure_options options = { .size = sizeof options };
    struct tenure_error error;
    struct tenure *tenure;

    if (argc != 7) {
        (void)fprintf(stderr, "usage: latch URL NAME ID TTL_MS TERMS HOLD_MS\n");
        return 64;
    }
    options.id = argv[3];
    options.ttl = TN_MS(strtol(argv[4], NULL, 10));
    if (tenure_open(argv[1], &options, &tenure, &error) < 0) {
        (void)fprintf(stderr, "latch: %s\n", error.text);
        return 69;
    }
    int status = take_turns(tenure, argv + 2);
    if (tenure_close(tenure) < 0)
        status = 1;
    return status;
}
