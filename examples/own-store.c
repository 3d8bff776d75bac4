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

/* Term after term, as leader.c does: the call of tenure_wait says that the work has stopped. */
static int lead(struct tenure_election *election)
{
    const struct timespec pause = { .tv_nsec = 100000000 };
    uint64_t token;
    int rc = 0;

    while (!stopped && (rc == 0 || rc == TENURE_E_TIMEOUT)) {
        rc = tenure_wait(election, 500000000, &token);
        if (rc == 0)
            printf("working, token %" PRIu64 "\n", token);
        (void)fflush(stdout);
        while (rc == 0 && !stopped && tenure_token(election) == token)
            (void)nanosleep(&pause, NULL);
    }
    return rc == TENURE_E_TIMEOUT ? 0 : rc;
}

int main(int argc, char **argv)
{
    struct tenure *tenure = NULL;
    struct tenure_election *election = NULL, *watched = NULL;
    struct tenure_error error = { 0 };
    struct tenure_options options = { .size = sizeof options, .ttl = INT64_C(3000000000) };
    struct tenure_campaign campaign = { .size = sizeof campaign,
                                        .flags = TENURE_DRAINED_ON_RETURN };

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
        rc = tenure_observe_start(tenure, argv[1], hear, NULL, &watched, &error);
    if (rc == 0)
        rc = tenure_campaign_start(tenure, argv[1], &campaign, &election, &error);
    if (rc == 0)
        rc = lead(election);
    if (rc != 0)
        (void)fprintf(stderr, "own-store: %s\n",
                      error.text[0] != '\0' ? error.text : tenure_strerror(rc));
    return tenure_close(tenure) == 0 && rc == 0 ? 0 : 69;
}
