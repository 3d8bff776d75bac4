/* history.c - `tenure history NAME`: who led, from when to when, why it ended, and the gaps.
 *
 * tenured and sqlite: keep the terms themselves. Of other stores a console that runs (`tenure
 * console`) records what it sees; this verb reads that file, and says since when it is.
 *
 * What can fail: the store (69, 77), or nobody has kept a history (69, with what to do). */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/duration.h"
#include "base/time.h"
#include "cli/recorded.h"
#include "cli/store.h"

static const char about[] =
    "Shows the terms of a name, who led from when to when and why it ended, and the gaps in which\n"
    "nobody led. tenured and sqlite: keep the last 100 terms of each name. Of any other store\n"
    "'tenure console' records what it sees while it runs.\n";

static const char after[] =
    "A gap begins when the last leader was known to live: at its release, at the end of its "
    "process,\n"
    "or, if it fell silent, at its last renewal. Causes: crash, hand-over (a successor within 5 "
    "s),\n"
    "nobody ready, revoked, store gone, unknown. Times are of the wall clock, for people.\n"
    "\n"
    "Examples:\n"
    "  tenure history nightly-report\n"
    "  tenure history --json nightly-report | jq .longest_gap.ms\n"
    "\n"
    "Exit status: 0 also when nobody ever led, 64 bad usage, 69 store unavailable or no history\n"
    "kept, 77 not permitted.\n";

/* --- The table ------------------------------------------------------------------------------ */

#define ROW "%-8s %s%-20s%s %-20s %-20s %-10s %s\n"

static const char *instant(char buf[32], int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts;

    if (ms == 0 || localtime_r(&seconds, &parts) == NULL ||
        strftime(buf, 32, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        (void)snprintf(buf, 32, "-");
    return buf;
}

/* "-" where the clock was set back meanwhile. */
static const char *span(char buf[TN_DURATION_TEXT], int64_t ms)
{
    if (ms < 0)
        return "-";
    if (ms >= 60000)
        ms -= ms % 1000;
    return tn_cli_duration(buf, TN_MS(ms));
}

static void print_term(const struct tn_term *term, int64_t now)
{
    const char *word = tn_term_word(term->end);
    char from[32], to[32], length[TN_DURATION_TEXT], token[24], shown[200];
    struct tn_text text;

    tn_text_init(&text, shown, sizeof shown);
    if (term->label_len > 0)
        tn_text_add_line(&text, term->label, term->label_len);
    (void)snprintf(token, sizeof token, "%" PRIu64, term->token);
    printf(ROW, token, "", text.len > 0 ? shown : "''", "", instant(from, term->from),
           instant(to, term->to), span(length, (term->to != 0 ? term->to : now) - term->from),
           word != NULL ? word : "leads");
}

static void print_gap(const struct tn_gap *gap)
{
    char from[32], to[32], length[TN_DURATION_TEXT];

    printf(ROW, "", tn_cli_colour(TN_RED), "nobody", tn_cli_colour(TN_PLAIN),
           instant(from, gap->from), gap->to != 0 ? instant(to, gap->to) : "now",
           span(length, gap->ms), gap->cause);
}

static int print_table(const char *name, char *json)
{
    char since[32], length[TN_DURATION_TEXT], from[32];
    struct tn_terms terms = { 0 };
    struct tn_gap gap;

    if (tn_terms_read(json, strlen(json), &terms) != 0)
        return tn_cli_fail(TN_EXIT_UNAVAILABLE, "history", "the history cannot be read");
    printf("%s: on record since %s\n", name, instant(since, terms.since));
    if (terms.count > 0)
        printf(ROW, "TOKEN", "", "HOLDER", "", "FROM", "TO", "LASTED", "ENDED");
    for (size_t i = 0; i < terms.count; i++) {
        const struct tn_term *next = i + 1 < terms.count ? &terms.list[i + 1] : NULL;
        print_term(&terms.list[i], terms.now);
        if (tn_gap_after(&terms.list[i], next, terms.now, &gap))
            print_gap(&gap);
    }
    if (tn_gap_longest(terms.list, terms.count, terms.now, false, &gap))
        printf("longest gap of the last 24 h: %s from %s, %s\n", span(length, gap.ms),
               instant(from, gap.from), gap.cause);
    else
        printf("no gap in the last 24 h\n");
    free(terms.list);
    return TN_EXIT_OK;
}

/* --- Where it comes from -------------------------------------------------------------------- */

/* Nobody leads in a store that is not there. */
static char *empty_history(const char *name)
{
    size_t size = tn_terms_room(0);
    char *json = malloc(size);
    struct tn_text text;

    if (json == NULL)
        return NULL;
    tn_text_init(&text, json, size);
    tn_terms_json(&text, name, strlen(name), NULL, 0, 0, tn_wall_ms());
    return json;
}

/* What a console has seen of it. NULL: there is no file. */
static char *recorded_history(const char *url, const char *name)
{
    struct tn_history history;
    char path[PATH_MAX];
    int64_t touched = 0;
    size_t count = 0;
    char *json = NULL;
    struct tn_text text;

    if (!tn_recorded_path(url, false, path))
        return NULL;
    tn_history_init(&history, (struct tn_hash_key) { 0 }, TN_RECORDED_PER_NAME, TN_RECORDED_MOST);
    if (tn_recorded_read(path, &history, &touched)) {
        struct tn_term *terms = tn_history_terms(&history, name, strlen(name), &count);
        size_t size = tn_terms_room(count);
        json = malloc(size);
        if (json != NULL) {
            tn_text_init(&text, json, size);
            tn_terms_json(&text, name, strlen(name), terms, count, history.since, touched);
        }
        free(terms);
    }
    tn_history_done(&history);
    return json;
}

static int show(struct tn_cli_store *store, const char *url, const char *name, bool json)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;
    char *document = NULL;

    tn_text_init(&error, buf, sizeof buf);
    int rc = tn_cli_history_ask(store, name, &document, &error);
    if (rc == TENURE_E_UNSUPPORTED && store->ops->history == NULL) {
        document = recorded_history(url, name);
        if (document == NULL)
            return tn_cli_fail(TN_EXIT_UNAVAILABLE, "history",
                               "%s: keeps no history, and no console has recorded one; leave "
                               "'tenure console --store URL' running with the same URL",
                               store->ops->scheme);
        rc = 0;
    }
    if (rc < 0)
        return tn_cli_store_fail("history", rc, buf);
    if (document == NULL)
        document = empty_history(name);
    if (document == NULL)
        return tn_cli_store_fail("history", TENURE_E_NOMEM, "");
    int status = TN_EXIT_OK;
    if (json)
        printf("%s\n", document);
    else
        status = print_table(name, document);
    free(document);
    return status;
}

int tn_cli_history(int argc, char **argv)
{
    const char *url = NULL;
    const char *name = NULL;
    bool json = false;
    struct tn_option options[] = {
        TN_STORE(&url),
        TN_FLAG("json", 0, &json, "print one JSON object"),
    };
    struct tn_command command = TN_COMMAND("history", "NAME", 1, options);
    struct tn_cli_store store;

    int status = tn_cli_options(&command, argc, argv);
    if (status < 0)
        status = tn_cli_name(&command, &name);
    if (status < 0)
        status = tn_cli_store_open("history", url, false, 0, &store);
    if (status >= 0)
        return status;
    if (url == NULL)
        url = getenv("TENURE_STORE");
    status = show(&store, url != NULL ? url : "sqlite:", name, json);
    tn_cli_store_close(&store);
    return status;
}
