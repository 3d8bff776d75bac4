/* watch.c - `tenure watch [NAME]`: who leads, and every change of it, one line each.
 *
 * A name is observed through the library, which hears of changes and does not ask for them. Without
 * a name all of them are observed; names that are new are looked for now and then. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/campaign.h"
#include "cli/events.h"

/* How soon a name is seen that nobody ever campaigned for before; later in a store that takes long
 * to list them, so that looking is at most a fiftieth of what it does. */
#define LOOK_EVERY TN_SEC(1)
#define LOOK_SHARE 50

static const char about[] =
    "Shows who leads NAME, then every change; without a name, of all names.\n";
static const char after[] =
    "Of changes that follow each other faster than they are read, the last one is shown.\n"
    "\n"
    "Examples:\n"
    "  tenure watch nightly-report            nightly-report: led by web1-4711, token 7\n"
    "  tenure watch --json nightly-report     {\"event\":\"leader\",\"name\":...,\"token\":7,...}\n"
    "  tenure watch                           all names, also those to come\n"
    "\n"
    "Exit status: 0 asked to stop, 64 bad usage, 69 store unavailable, 74 nobody reads, 77 not\n"
    "permitted.\n";

struct watch {
    struct tn_campaign campaign;
    struct tn_cli_store store; /* For the list of names. */
    const char *name;          /* NULL: all. */
    bool json;
    int status; /* -1: go on. */
    tenure_ns look_at;
    char **seen; /* Names observed, sorted. */
    size_t seen_count;
};

static bool print_text(const char *name, const struct tenure_event *event)
{
    char line[2048];
    struct tn_text text;

    tn_text_init(&text, line, sizeof line);
    tn_text_addf(&text, "%s: ", name);
    if (event->kind == TENURE_LEADER) {
        tn_text_add(&text, "led by ");
        tn_text_escape(&text, event->leader, strlen(event->leader));
        tn_text_addf(&text, ", token %" PRIu64, event->token);
    } else if (event->token == 0) {
        tn_text_add(&text, "nobody leads, nobody ever did");
    } else {
        tn_text_addf(&text, "nobody leads, last token %" PRIu64, event->token);
    }
    tn_text_add(&text, "\n");
    return tn_cli_line(TN_LINE_NOTE, name, line);
}

static void hear(struct tenure_election *election, const struct tenure_event *event, void *arg)
{
    struct watch *watch = arg;
    const char *name = tenure_name(election);

    if (event->kind != TENURE_LEADER && event->kind != TENURE_VACANT)
        return;
    bool read = watch->json ? tn_cli_event_print(name, "", event) : print_text(name, event);
    if (!read)
        watch->status = TN_EXIT_IO;
}

static int observe(struct watch *watch, const char *name)
{
    struct tenure_election *election; /* The session's: it goes with it. */
    int rc = tenure_observe(watch->campaign.tenure, name, hear, watch, &election);

    return rc < 0 ? tn_cli_store_fail("watch", rc, "") : -1;
}

static int compare(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;
    return strcmp(*left, *right);
}

static int observe_new(struct watch *watch, const char *name)
{
    if (watch->seen != NULL &&
        bsearch(&name, watch->seen, watch->seen_count, sizeof *watch->seen, compare) != NULL)
        return -1;
    char **grown = realloc(watch->seen, (watch->seen_count + 1) * sizeof *grown);
    char *copy = strdup(name);
    if (grown != NULL)
        watch->seen = grown;
    if (grown == NULL || copy == NULL) {
        free(copy);
        return tn_cli_store_fail("watch", TENURE_E_NOMEM, "");
    }
    watch->seen[watch->seen_count++] = copy;
    qsort(watch->seen, watch->seen_count, sizeof *watch->seen, compare);
    return observe(watch, name);
}

/* Look for names that are new. At first an error counts; a store that does not answer later may do
 * so the next time, and is not asked while the session's own requests fail. */
static int look(struct watch *watch, bool first)
{
    struct tn_store_lease *leases = NULL;
    size_t count = 0;
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;
    tenure_ns began = tn_boottime();
    int status = -1;

    tn_text_init(&error, buf, sizeof buf);
    watch->look_at = began + LOOK_EVERY;
    if (!first && tenure_health(watch->campaign.tenure, NULL) != 0)
        return -1;
    int rc = tn_cli_list_ask(&watch->store, "", &leases, &count, &error);
    if (first && rc < 0)
        return tn_cli_store_fail("watch", rc, buf);
    for (size_t i = 0; rc == 0 && status < 0 && i < count; i++)
        status = observe_new(watch, leases[i].name);
    free(leases);
    tenure_ns took = tn_boottime() - began;
    if (took > LOOK_EVERY / LOOK_SHARE)
        watch->look_at = began + took * LOOK_SHARE;
    return status;
}

static int loop(struct watch *watch)
{
    struct signalfd_siginfo info;

    while (watch->status < 0) {
        tn_campaign_poll(&watch->campaign, NULL, 0, watch->look_at);
        while (read(watch->campaign.signals, &info, sizeof info) == (ssize_t)sizeof info)
            watch->status = TN_EXIT_OK;
        if (watch->status < 0 && watch->campaign.unheard)
            watch->status = TN_EXIT_IO;
        if (watch->status < 0 && tn_boottime() >= watch->look_at)
            watch->status = look(watch, false);
    }
    return watch->status;
}

static int start(struct watch *watch, const struct tn_campaign_words *words)
{
    int status = tn_campaign_open(&watch->campaign, "watch", watch->name, words);

    if (status < 0)
        status = tn_campaign_signals(&watch->campaign, false);
    if (status >= 0)
        return status;
    if (watch->name != NULL)
        return observe(watch, watch->name);
    status = tn_cli_store_open("watch", words->url, true, 0, &watch->store);
    return status < 0 ? look(watch, true) : status;
}

static int finish(struct watch *watch, int status)
{
    for (size_t i = 0; i < watch->seen_count; i++)
        free(watch->seen[i]);
    free(watch->seen);
    tn_cli_store_close(&watch->store);
    return tn_campaign_close(&watch->campaign, false, status);
}

int tn_cli_watch(int argc, char **argv)
{
    struct watch watch = { .status = -1, .look_at = TN_NEVER };
    struct tn_campaign_words words = TN_CAMPAIGN_WORDS;
    struct tn_option options[] = {
        TN_STORE(&words.url),
        TN_FLAG("json", 0, &watch.json, "print one JSON object per line"),
    };
    struct tn_command command = { .verb = "watch",
                                  .words = "[NAME]",
                                  .words_max = 1,
                                  .about = about,
                                  .after = after,
                                  .options = options,
                                  .option_count = sizeof options / sizeof options[0] };

    int status = tn_cli_options(&command, argc, argv);
    if (status < 0 && command.rest_count > 0)
        status = tn_cli_name(&command, &watch.name);
    if (status < 0)
        status = tn_cli_lines_open("watch", true);
    if (status >= 0)
        return status;
    status = start(&watch, &words);
    if (status < 0)
        status = loop(&watch);
    return finish(&watch, status);
}
