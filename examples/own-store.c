/* own-store.c - leads through a store of one's own, that of dir-store.c, and works while it does.
 *
 *     cc -o own-store own-store.c dir-store.c $(pkg-config --cflags --libs tenure)
 *     ./own-store job dir:/tmp/leases    on two terminals: one works, the other waits */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include <tenure/store.h>
#include <tenure/tenure.h>

static volatile sig_atomic_t stopped;

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

static void hear(struct tenure_election *election, const struct tenure_event *event, void *arg)
{
    (void)arg;
    if (event->kind == TENURE_LEADER)
        printf("%s leads %s\n", event->leader, tenure_name(election));
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    struct tenure *tenure = NULL;
    struct tenure_election *election = NULL;
    struct tenure_error error = { 0 };
    struct tenure_options options = { .size = sizeof options, .ttl = INT64_C(3000000000) };
    struct tenure_campaign campaign = { .size = sizeof campaign,
                                        .callback = hear,
                                        .flags = TENURE_DRAINED_ON_RETURN };
    const struct timespec pause = { .tv_nsec = 100000000 };
    uint64_t last = 0;

    if (argc != 3) {
        (void)fprintf(stderr, "usage: own-store NAME dir:PATH\n");
        return 64;
    }
    (void)signal(SIGTERM, stop);
    (void)signal(SIGINT, stop);
    int rc = tenure_store_register(tenure_store_plugin());
    if (rc == 0)
        rc = tenure_open(argv[2], &options, &tenure, &error);
    if (rc == 0)
        rc = tenure_campaign(tenure, argv[1], &campaign, &election);
    if (rc < 0) {
        (void)fprintf(stderr, "own-store: %s\n",
                      error.text[0] != '\0' ? error.text : tenure_strerror(rc));
        return 69;
    }
    while (!stopped) {
        uint64_t token = tenure_token(election);
        if (token != 0 && token != last)
            printf("working, token %" PRIu64 "\n", token);
        (void)fflush(stdout);
        last = token;
        (void)nanosleep(&pause, NULL);
    }
    return tenure_close(tenure) == 0 ? 0 : 69;
}
