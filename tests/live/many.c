/* many.c - one process that campaigns for many names, for tests that count what that costs.
 *
 * usage: many URL COUNT TTL-MS [PREFIX]
 *
 * Prints "leads COUNT" whenever it has come to lead all of them, "waits COUNT" whenever all of them
 * have come to be led by others, and "lost NAME REASON" for each that is lost. It resigns all and
 * ends when its standard input does. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/time.h"
#include "tenure/tenure.h"

enum standing { NONE, LEADS, WAITS };

static int standings[3], count;

/* All callbacks come from one thread. */
static void move_to(enum standing *now, enum standing to)
{
    if (*now == to)
        return;
    standings[*now]--;
    *now = to;
    if (++standings[to] == count && to != NONE)
        printf("%s %d\n", to == LEADS ? "leads" : "waits", count);
}

static void hear(struct tenure_election *election, const struct tenure_event *event, void *arg)
{
    if (event->kind == TENURE_WON)
        move_to(arg, LEADS);
    else if (event->kind == TENURE_LEADER && tenure_token(election) == 0)
        move_to(arg, WAITS);
    else if (event->kind == TENURE_LOST)
        move_to(arg, NONE);
    if (event->kind == TENURE_LOST)
        printf("lost %s %s\n", tenure_name(election), tenure_reason_text(event->reason));
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    struct tenure_options options = { .size = sizeof options };
    struct tenure_error error;
    struct tenure *tenure;
    char name[64], byte;

    if (argc < 4) {
        (void)fprintf(stderr, "usage: many URL COUNT TTL-MS [PREFIX]\n");
        return 64;
    }
    count = (int)strtol(argv[2], NULL, 10);
    options.ttl = TN_MS(strtol(argv[3], NULL, 10));
    enum standing *all = calloc((size_t)count, sizeof *all);
    if (all == NULL || tenure_open(argv[1], &options, &tenure, &error) < 0) {
        (void)fprintf(stderr, "many: %s\n", all != NULL ? error.text : "out of memory");
        return 69;
    }
    for (int i = 0; i < count; i++) {
        struct tenure_election *election;
        struct tenure_campaign campaign = { .size = sizeof campaign,
                                            .callback = hear,
                                            .arg = &all[i],
                                            .flags = TENURE_DRAINED_ON_RETURN };
        (void)snprintf(name, sizeof name, "%s/%d", argc > 4 ? argv[4] : "many", i);
        if (tenure_campaign(tenure, name, &campaign, &election) < 0)
            return 69;
    }
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    int rc = tenure_close(tenure);
    free(all);
    return rc == 0 ? 0 : 69;
}
