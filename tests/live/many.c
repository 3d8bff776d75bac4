/* many.c - one process that campaigns for many names, for tests that count what that costs.
 *
 * usage: many URL COUNT TTL-MS [PREFIX]    prints "leads N" and "waits N" once every name is led by
 * it or by another; ends with its standard input, and resigns. */
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tenure/tenure.h"

static atomic_int won, others;

static void hear(struct tenure_election *election, const struct tenure_event *event, void *arg)
{
    bool *counted = arg;

    if (event->kind == TENURE_WON && !*counted) {
        *counted = true;
        (void)atomic_fetch_add(&won, 1);
    } else if (event->kind == TENURE_LEADER && !*counted && tenure_token(election) == 0) {
        *counted = true;
        (void)atomic_fetch_add(&others, 1);
    }
}

int main(int argc, char **argv)
{
    struct tenure *tenure;
    struct tenure_error error;
    struct tenure_options options = { .size = sizeof options };
    char name[64];

    if (argc < 4)
        return 64;
    int count = (int)strtol(argv[2], NULL, 10);
    options.ttl = (tenure_ns)strtol(argv[3], NULL, 10) * 1000000;
    if (tenure_open(argv[1], &options, &tenure, &error) < 0) {
        (void)fprintf(stderr, "many: %s\n", error.text);
        return 69;
    }
    bool *counted = calloc((size_t)count, sizeof *counted);
    for (int i = 0; counted != NULL && i < count; i++) {
        struct tenure_election *election;
        struct tenure_campaign campaign = { .size = sizeof campaign,
                                            .callback = hear,
                                            .arg = &counted[i],
                                            .flags = TENURE_DRAINED_ON_RETURN };
        (void)snprintf(name, sizeof name, "%s/%d", argc > 4 ? argv[4] : "many", i);
        if (tenure_campaign(tenure, name, &campaign, &election) < 0)
            return 69;
    }
    struct pollfd in = { .fd = STDIN_FILENO, .events = POLLIN };
    bool said = false;
    while (poll(&in, 1, 50) == 0) {
        if (said || atomic_load(&won) + atomic_load(&others) < count)
            continue;
        printf("leads %d\nwaits %d\n", atomic_load(&won), atomic_load(&others));
        (void)fflush(stdout);
        said = true;
    }
    int rc = tenure_close(tenure);
    free(counted);
    return rc == 0 ? 0 : 69;
}
