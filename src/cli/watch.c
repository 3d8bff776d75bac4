/* watch.c - `tenure watch [PATTERN]`: who leads, and every change of it, one line each; or, with
 * --live, a table that is updated in place.
 *
 * A name is observed through the library, which hears of changes and does not ask for them. Of a
 * pattern, and without one, all names are observed; names that are new are looked for now and then.
 * The table is drawn from such a look, and a change makes the next one come at once. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "cli/campaign.h"
#include "cli/events.h"
#include "cli/table.h"

/* How soon a name is seen that nobody ever campaigned for before; later in a store that takes long
 * to list them, so that looking is at most a fiftieth of what it does. */
#define LOOK_EVERY TN_SEC(1)
#define LOOK_SHARE 50

static const char about[] =
    "Shows who leads, then every change: of a name, of the names of a pattern, or of all names.\n";
static const char after[] =
    "If changes come faster than you read them, watch shows the last one. Each line begins with\n"
    "the local time at which the change was heard; the objects of --json have none. There are\n"
    "colours on a terminal, unless NO_COLOR is set.\n"
    "\n"
    "Examples:\n"
    "  tenure watch nightly-report            ... nightly-report: led by web1-4711, token 7\n"
    "  tenure watch --json nightly-report     {\"event\":\"leader\",\"name\":...,\"token\":7,...}\n"
    "  tenure watch 'jobs/*'                  those below 'jobs/', also those to come\n"
    "  tenure watch                           all names, also those to come\n"
    "  tenure watch --live                    the table of 'tenure list', updated in place\n"
    "\n"
    "Exit status: 0 asked to stop, 64 bad usage, 69 store unavailable, 74 nobody reads, 77 not\n"
    "permitted.\n";

struct watch {
    struct tn_campaign campaign;
    struct tn_cli_store store; /* For the list of names. */
    struct tn_selection names;
    bool json;
    bool live;
    int status; /* -1: go on. */
    tenure_ns look_at;
    char **seen; /* Names observed, sorted. */
    size_t seen_count;
    char *table; /* As drawn last. */
    size_t table_count;
};

/* The time of day, for people: nothing is decided by it. */
static void add_time(struct tn_text *text)
{
    char buf[32];
    struct timespec now;
    struct tm tm;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)localtime_r(&now.tv_sec, &tm);
    (void)strftime(buf, sizeof buf, "%Y-%m-%d %H:%M:%S", &tm);
    tn_text_addf(text, "%s%s.%03ld%s ", tn_cli_colour(TN_DIM), buf, now.tv_nsec / 1000000,
                 tn_cli_colour(TN_PLAIN));
}

static bool print_text(const char *name, const struct tenure_event *event)
{
    char line[2048];
    struct tn_text text;
    bool led = event->kind == TENURE_LEADER;

    tn_text_init(&text, line, sizeof line);
    add_time(&text);
    tn_text_addf(&text, "%s: %s", name, tn_cli_colour(led ? TN_GREEN : TN_YELLOW));
    if (led) {
        tn_text_add(&text, "led by ");
        tn_text_escape(&text, event->leader, strlen(event->leader));
        tn_text_addf(&text, ", token %" PRIu64, event->token);
    } else if (event->token == 0) {
        tn_text_add(&text, "nobody leads, nobody ever did");
    } else {
        tn_text_addf(&text, "nobody leads, last token %" PRIu64, event->token);
    }
    tn_text_addf(&text, "%s\n", tn_cli_colour(TN_PLAIN));
    return tn_cli_line(TN_LINE_NOTE, name, line);
}

static void hear(struct tenure_election *election, const struct tenure_event *event, void *arg)
{
    struct watch *watch = arg;
    const char *name = tenure_name(election);

    if (event->kind != TENURE_LEADER && event->kind != TENURE_VACANT)
        return;
    if (watch->live) {
        watch->look_at = 0;
        return;
    }
    bool read = watch->json ? tn_cli_event_print(name, "", event, 0) : print_text(name, event);
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

/* --- The table -------------------------------------------------------------------------------- */

#define SCREEN_BEGIN "\x1b[?1049h\x1b[?25l"
#define SCREEN_END "\x1b[?25h\x1b[?1049l"
#define SCREEN_HOME "\x1b[H"
#define LINE_END "\x1b[K\r\n"
#define SCREEN_REST "\x1b[J"

static void put_clipped(FILE *out, const char *line, size_t len, unsigned columns)
{
    (void)fprintf(out, "%.*s" LINE_END, (int)(len < columns ? len : columns), line);
}

/* As many lines as fit, and how many names there are. */
static void put_screen(FILE *out, const char *table, size_t count, const char *trouble)
{
    struct winsize size = { .ws_row = 24, .ws_col = 80 };
    unsigned lines = 0;
    char foot[TN_CLI_LINE_MAX + 64];

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row < 2 || size.ws_col == 0)
        size = (struct winsize) { .ws_row = 24, .ws_col = 80 };
    (void)fputs(SCREEN_HOME, out);
    while (*table != '\0' && lines + 2U < size.ws_row) {
        size_t len = strcspn(table, "\n");
        put_clipped(out, table, len, size.ws_col);
        table += len + (table[len] == '\n');
        lines++;
    }
    (void)snprintf(foot, sizeof foot, "%zu name%s%s%s", count, count == 1 ? "" : "s",
                   trouble[0] != '\0' ? "; no answer: " : "; ^C ends", trouble);
    put_clipped(out, foot, strlen(foot), size.ws_col);
    (void)fputs(SCREEN_REST, out);
}

/* Draw the screen; with @trouble, the table is as it was known last. */
static int draw(struct watch *watch, const struct tn_store_lease *leases, size_t count,
                const char *trouble)
{
    char *screen = NULL;
    size_t size = 0;

    if (trouble[0] == '\0') {
        free(watch->table);
        watch->table = NULL;
        FILE *table = open_memstream(&watch->table, &size);
        if (table == NULL)
            return tn_cli_store_fail("watch", TENURE_E_NOMEM, "");
        tn_columns_print(table, leases, count);
        if (fclose(table) != 0)
            return tn_cli_store_fail("watch", TENURE_E_NOMEM, "");
        watch->table_count = count;
    }
    FILE *out = open_memstream(&screen, &size);
    if (out == NULL)
        return tn_cli_store_fail("watch", TENURE_E_NOMEM, "");
    put_screen(out, watch->table != NULL ? watch->table : "", watch->table_count, trouble);
    bool good = fclose(out) == 0;
    int status = !good                                         ? TN_EXIT_UNAVAILABLE
                 : tn_cli_line(TN_LINE_NOTE, "screen", screen) ? -1
                                                               : TN_EXIT_IO;
    free(screen);
    return status;
}

/* --- Looking ---------------------------------------------------------------------------------- */

/* Look for names that are new. At first an error counts; a store that does not answer later may do
 * so the next time, and is not asked while the session's own requests fail. */
static int look(struct watch *watch, bool first)
{
    struct tn_store_lease *leases = NULL;
    size_t count = 0;
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;
    struct tenure_error health;
    tenure_ns began = tn_boottime();
    int status = -1;

    tn_text_init(&error, buf, sizeof buf);
    watch->look_at = began + LOOK_EVERY;
    int rc = first ? 0 : tenure_health(watch->campaign.tenure, &health);
    if (rc != 0)
        return watch->live ? draw(watch, NULL, 0, health.text) : -1;
    rc = tn_cli_list_ask(&watch->store, watch->names.prefix, &leases, &count, &error);
    if (first && rc < 0)
        return tn_cli_store_fail("watch", rc, buf);
    count = tn_selection_filter(&watch->names, leases, count);
    for (size_t i = 0; rc == 0 && status < 0 && i < count; i++)
        status = observe_new(watch, leases[i].name);
    if (watch->live && status < 0)
        status = draw(watch, leases, count, rc < 0 ? buf : "");
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
    int status = tn_campaign_open(&watch->campaign, "watch", watch->names.prefix, words);

    if (status < 0)
        status = tn_campaign_signals(&watch->campaign, false);
    if (status >= 0)
        return status;
    if (watch->names.exact && !watch->live)
        return observe(watch, watch->names.prefix);
    status = tn_cli_store_open("watch", words->url, true, 0, &watch->store);
    if (status < 0 && watch->live && !tn_cli_line(TN_LINE_NOTE, NULL, SCREEN_BEGIN))
        status = TN_EXIT_IO;
    return status < 0 ? look(watch, true) : status;
}

static int finish(struct watch *watch, int status)
{
    for (size_t i = 0; i < watch->seen_count; i++)
        free(watch->seen[i]);
    free(watch->seen);
    free(watch->table);
    if (watch->live)
        (void)tn_cli_line(TN_LINE_NOTE, NULL, SCREEN_END);
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
        TN_FLAG("live", 0, &watch.live, "show a table, updated in place; on a terminal"),
    };
    struct tn_command command = TN_COMMAND("watch", "[PATTERN]", 1, options);

    int status = tn_cli_options(&command, argc, argv);
    if (status < 0 && command.rest_count > 0)
        status = tn_selection_read("watch", command.rest[0], &watch.names);
    if (status < 0 && watch.live && watch.json)
        status = tn_cli_fail(TN_EXIT_USAGE, "watch",
                             "--live is for people, --json for programs: "
                             "leave one of them out");
    if (status < 0 && watch.live && isatty(STDOUT_FILENO) != 1)
        status = tn_cli_fail(TN_EXIT_USAGE, "watch",
                             "--live needs a terminal; without one use "
                             "'tenure watch', or 'tenure watch --json' for a program");
    if (status < 0)
        status = tn_cli_lines_open("watch", true);
    if (status >= 0)
        return status;
    status = start(&watch, &words);
    if (status < 0)
        status = loop(&watch);
    return finish(&watch, status);
}
