/* shift.c - a candidate for the live tests that leads until an operator asks it to step down.
 *
 * usage: shift URL NAME ID TTL_MS DRAIN_MS [PRIORITY]     with one it yields to a higher one
 *
 * Lines, with instants of CLOCK_BOOTTIME in nanoseconds:
 *   won TOKEN NS         when it was told
 *   acts TOKEN NS        again and again while it leads
 *   end TOKEN NS         when its work has stopped, before the lease is given back
 *   lost TOKEN NS WHY    the term ended otherwise
 *   late NS BY           it woke up later than it wanted to, or a flush of its output took longer,
 *                        by so much: the machine is busy */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/time.h"
#include "runtime/clock.h"
#include "tenure/tenure.h"

#define TURN TN_MS(5)

static volatile sig_atomic_t ending;
static tenure_ns drain;

static void hear_signal(int number)
{
    (void)number;
    ending = 1;
}

static void hear_shift(struct tenure_election *election, const struct tenure_event *event,
                       void *arg)
{
    (void)arg;
    if (event->kind == TENURE_WON) {
        printf("won %" PRIu64 " %" PRId64 "\n", event->token, tn_boottime());
    } else if (event->kind == TENURE_STOP) {
        tn_clock_pause(drain);
        printf("end %" PRIu64 " %" PRId64 "\n", event->token, tn_boottime());
        (void)tenure_drained(election);
    } else if (event->kind == TENURE_LOST) {
        if (event->reason != TENURE_REASON_RELEASED)
            printf("lost %" PRIu64 " %" PRId64 " %s\n", event->token, tn_boottime(),
                   tenure_reason_text(event->reason));
        (void)tenure_drained(election);
    }
}

/* What began at @before and should have taken a turn has ended now. */
static void tell_late(tenure_ns before)
{
    tenure_ns now = tn_boottime();

    if (now - before > 2 * TURN)
        printf("late %" PRId64 " %" PRId64 "\n", now, now - before - TURN);
}

static void work(struct tenure_election *election)
{
    for (unsigned turn = 1; !ending; turn++) {
        tenure_ns before = tn_boottime();
        tn_clock_pause(TURN);
        tell_late(before);
        uint64_t token = tenure_token(election);
        if (token != 0 && turn % 4 == 0)
            printf("acts %" PRIu64 " %" PRId64 "\n", token, tn_boottime());
        if (turn % 20 != 0)
            continue;
        before = tn_boottime();
        (void)fdatasync(STDOUT_FILENO); /* The stores' files are on the same disk. */
        tell_late(before);
    }
}

int main(int argc, char **argv)
{
    struct tenure_campaign campaign = { .size = sizeof campaign, .callback = hear_shift };
    struct tenure_options options = { .size = sizeof options };
    struct sigaction action = { .sa_handler = hear_signal };
    struct tenure_election *election;
    struct tenure_error error = { 0 };
    struct tenure *tenure;

    if (argc != 6 && argc != 7)
        return 64;
    if (argc == 7) {
        campaign.priority = (uint32_t)strtoul(argv[6], NULL, 10);
        campaign.flags = TENURE_YIELD;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)sigaction(SIGTERM, &action, NULL);
    options.id = argv[3];
    options.ttl = TN_MS(strtol(argv[4], NULL, 10));
    drain = TN_MS(strtol(argv[5], NULL, 10));
    int rc = tenure_open(argv[1], &options, &tenure, &error);
    if (rc == 0)
        rc = tenure_campaign_start(tenure, argv[2], &campaign, &election, &error);
    if (rc < 0) {
        (void)fprintf(stderr, "shift: %s\n", error.text);
        return 69;
    }
    work(election);
    (void)tenure_close(tenure);
    return 0;
}
