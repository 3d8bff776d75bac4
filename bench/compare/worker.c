/* worker.c - a worker of bench/compare: libtenure, on any store.
 *
 * usage: worker URL NAME ID TTL-SECONDS COUNT
 *
 * bench/compare/run says what a worker prints. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tenure/tenure.h"

static volatile sig_atomic_t stopping;

static void stop(int signal)
{
    (void)signal;
    stopping = 1;
}

/* In one piece: several processes share the pipe. */
static void say(const char *word, const char *id, uint64_t token)
{
    char line[200];
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    int len = snprintf(line, sizeof line, "%s %s %" PRIu64 " %lld\n", word, id, token,
                       (long long)now.tv_sec * 1000000000 + now.tv_nsec);
    if (write(STDOUT_FILENO, line, (size_t)len) != len)
        stopping = 1;
}

struct candidate {
    struct tenure *tenure;
    struct tenure_election *election;
    char id[64];
};

static void start(struct candidate *candidate, char **argv, int number, int count)
{
    struct tenure_options options = { .size = sizeof options, .id = candidate->id };
    struct tenure_error error = { .text = "" };

    (void)snprintf(candidate->id, sizeof candidate->id, "%s", argv[3]);
    if (count > 1)
        (void)snprintf(candidate->id, sizeof candidate->id, "%s%d", argv[3], number);
    options.ttl = (tenure_ns)strtol(argv[4], NULL, 10) * 1000000000;
    options.grace = options.ttl / 20;
    int rc = tenure_open(argv[1], &options, &candidate->tenure, &error);
    if (rc == 0)
        rc = tenure_campaign(candidate->tenure, argv[2], NULL, &candidate->election);
    if (rc != 0) {
        (void)fprintf(stderr, "worker: %s %s\n", tenure_strerror(rc), error.text);
        exit(1);
    }
    say("wait", candidate->id, 0);
}

int main(int argc, char **argv)
{
    const struct timespec pause = { .tv_nsec = 5000000 };

    if (argc != 6) {
        (void)fprintf(stderr, "usage: worker URL NAME ID TTL COUNT\n");
        return 64;
    }
    int count = (int)strtol(argv[5], NULL, 10);
    struct candidate *all = calloc((size_t)count, sizeof *all);
    (void)signal(SIGTERM, stop);
    for (int i = 0; all != NULL && i < count; i++)
        start(&all[i], argv, i, count);
    while (all != NULL && !stopping) {
        for (int i = 0; i < count; i++) {
            uint64_t token = tenure_token(all[i].election); /* Asked before every act. */
            if (token != 0)
                say("act", all[i].id, token);
        }
        (void)nanosleep(&pause, NULL);
    }
    for (int i = 0; all != NULL && i < count; i++) {
        say("resign", all[i].id, 0);
        (void)tenure_close(all[i].tenure);
    }
    free(all);
    return 0;
}
