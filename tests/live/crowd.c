/* crowd.c - one process that campaigns for many names, as an application would.
 *
 * usage: crowd URL TTL_MS COUNT PREFIX
 *
 * Prints "waiting" once it campaigns for all, "leads N" whenever N of them have been won and N is
 * COUNT, and "lost NAME" for each that is lost. It resigns all and ends when stdin does. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tenure/tenure.h"

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static unsigned leads, wanted;

static void hear(struct tenure_election *election, const struct tenure_event *event, void *arg)
{
    (void)arg;
    (void)pthread_mutex_lock(&guard);
    if (event->kind == TENURE_WON && ++leads == wanted)
        printf("leads %u\n", leads);
    if (event->kind == TENURE_LOST) {
        leads--;
        printf("lost %s %s\n", tenure_name(election), tenure_reason_text(event->reason));
    }
    (void)fflush(stdout);
    (void)pthread_mutex_unlock(&guard);
}

int main(int argc, char **argv)
{
    struct tenure_options options = { .size = sizeof options };
    struct tenure_campaign campaign = { .size = sizeof campaign,
                                        .callback = hear,
                                        .flags = TENURE_DRAINED_ON_RETURN };
    struct tenure_error error;
    struct tenure *tenure;
    char byte;

    if (argc != 5) {
        (void)fprintf(stderr, "usage: crowd URL TTL_MS COUNT PREFIX\n");
        return 64;
    }
    options.ttl = strtoll(argv[2], NULL, 10) * 1000000;
    wanted = (unsigned)strtoul(argv[3], NULL, 10);
    if (tenure_open(argv[1], &options, &tenure, &error) != 0) {
        (void)fprintf(stderr, "%s\n", error.text);
        return 69;
    }
    for (unsigned i = 0; i < wanted; i++) {
        struct tenure_election *election;
        char name[64];
        (void)snprintf(name, sizeof name, "%s/%u", argv[4], i);
        if (tenure_campaign(tenure, name, &campaign, &election) != 0)
            return 70;
    }
    (void)pthread_mutex_lock(&guard);
    printf("waiting\n");
    (void)fflush(stdout);
    (void)pthread_mutex_unlock(&guard);
    while (read(0, &byte, 1) > 0)
        continue;
    return tenure_close(tenure) == 0 ? 0 : 69;
}
