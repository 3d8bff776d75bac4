/* list.c - `tenure list [PATTERN]`: the names of a store, held or once held, in columns.
 *
 * A word with a star is a pattern, as in the daemon's ACL; any other word is the beginning of a
 * name. The store filters by the beginning, this file by the rest. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/pattern.h"
#include "base/time.h"
#include "cli/store.h"

static const char about[] =
    "Lists the names of a store in their order, held or once held, one line each. For scripts "
    "there\n"
    "is --json: the columns are for people, and grow with what is in them.\n";

static const char after[] =
    "STATE is held, free, or revoked: taken away and not given back yet. TOKEN is the last one of "
    "a\n"
    "free name. LEFT is how long the lease lives without a renewal.\n"
    "\n"
    "Examples:\n"
    "  tenure list                   all names\n"
    "  tenure list 'jobs/*'          those below 'jobs/', as a pattern of the daemon's ACL\n"
    "  tenure list jobs/             those that begin with 'jobs/'\n"
    "  tenure list --held            only names that somebody holds\n"
    "  tenure list --holder web1     only names that web1 holds\n"
    "  tenure list --json            one JSON object per line\n"
    "\n"
    "Exit status: 0 also when there is none, 64 bad usage,\n"
    "69 store unavailable, 77 not permitted.\n";

struct filter {
    bool held, free;
    const char *holder; /* NULL: any. */
    char prefix[TN_PATTERN_SIZE];
};

static int fail_word(const char *word, const char *what, const char *reason)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_cli_quote(&text, word);
    return tn_cli_fail(TN_EXIT_USAGE, "list", "%s is not %s: %s", buf, what, reason);
}

/* A pattern without its star is the beginning of the names it covers. */
static int read_pattern(struct filter *filter, const char *word)
{
    static const char why[] = "a star stands alone or for all that is below a name, as in 'jobs/*'";
    const char *reason = why;
    size_t len = strlen(word);
    const char *star = strchr(word, '*');

    if (star != NULL && (star[1] != '\0' || (len > 1 && star[-1] != '/')))
        return fail_word(word, "a pattern", why);
    if (star != NULL && !tn_pattern_check(word, &reason))
        return fail_word(word, "a pattern", reason);
    if (star != NULL)
        len--;
    else if (tn_name_check(word, len - (len > 1 && word[len - 1] == '/'), &reason) < 0)
        return fail_word(word, "the beginning of a name", reason);
    (void)snprintf(filter->prefix, sizeof filter->prefix, "%.*s", (int)len, word);
    return -1;
}

static int read_filter(struct filter *filter, const struct tn_command *command)
{
    if (filter->held && filter->free)
        return tn_cli_fail(TN_EXIT_USAGE, "list",
                           "--held and --free leave nothing to show; give one of them, or none "
                           "for all names");
    if (filter->free && filter->holder != NULL)
        return tn_cli_fail(TN_EXIT_USAGE, "list",
                           "--holder: a free name has no holder; leave --free out");
    return command->rest_count > 0 ? read_pattern(filter, command->rest[0]) : -1;
}

static bool passes(const struct filter *filter, const struct tn_store_record *record)
{
    if ((filter->held && !record->held) || (filter->free && record->held))
        return false;
    if (filter->holder == NULL)
        return true;
    return record->held && strlen(filter->holder) == record->label_len &&
           memcmp(filter->holder, record->label, record->label_len) == 0;
}

/* --- Columns -------------------------------------------------------------------------------- */

enum { NAME, STATE, HOLDER, TOKEN, LEFT, COLUMNS };

/* One line. Each cell has room for a label with each byte escaped, and is ASCII. */
struct row {
    char cells[COLUMNS][4 * TN_NAME_MAX + 5];
};

/* Tenths of a second matter below a minute, and then no more. */
static tenure_ns round_left(tenure_ns left)
{
    return left - left % (left < TN_SEC(60) ? TN_MS(100) : TN_SEC(1));
}

static void fill_row(struct row *row, const struct tn_store_lease *lease)
{
    const struct tn_store_record *record = &lease->record;
    struct tn_text label;
    char left[TN_DURATION_TEXT] = "-";

    tn_text_init(&label, row->cells[HOLDER], sizeof row->cells[HOLDER]);
    if (record->held)
        tn_text_escape(&label, record->label, record->label_len);
    if (label.len == 0)
        tn_text_add(&label, record->held ? "''" : "-");
    if (record->held && record->ttl > 0) /* Not every store tells it to others. */
        (void)tn_cli_duration(left, round_left(record->remaining));
    (void)snprintf(row->cells[NAME], sizeof row->cells[NAME], "%s", lease->name);
    (void)snprintf(row->cells[STATE], sizeof row->cells[STATE], "%s", tn_cli_state(record));
    (void)snprintf(row->cells[TOKEN], sizeof row->cells[TOKEN], "%" PRIu64, record->token);
    (void)snprintf(row->cells[LEFT], sizeof row->cells[LEFT], "%s", left);
}

static void print_row(const struct row *row, const size_t widths[COLUMNS])
{
    for (int i = 0; i < COLUMNS; i++) {
        const char *cell = row->cells[i];
        int pad = i + 1 < COLUMNS ? (int)(widths[i] - strlen(cell)) + 2 : 0;
        printf("%s%*s", cell, pad, "");
    }
    printf("\n");
}

static void print_columns(const struct tn_store_lease *leases, size_t count)
{
    struct row row = { { "NAME", "STATE", "HOLDER", "TOKEN", "LEFT" } };
    const struct row head = row;
    size_t widths[COLUMNS];

    for (int i = 0; i < COLUMNS; i++)
        widths[i] = strlen(head.cells[i]);
    for (size_t i = 0; i < count; i++) {
        fill_row(&row, &leases[i]);
        for (int j = 0; j < COLUMNS; j++)
            widths[j] = strlen(row.cells[j]) > widths[j] ? strlen(row.cells[j]) : widths[j];
    }
    if (count > 0)
        print_row(&head, widths);
    for (size_t i = 0; i < count; i++) {
        fill_row(&row, &leases[i]);
        print_row(&row, widths);
    }
}

/* --- The verb ------------------------------------------------------------------------------- */

static int show(struct tn_cli_store *store, const struct filter *filter, bool json)
{
    struct tn_store_lease *leases = NULL;
    size_t count = 0;
    size_t kept = 0;
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    tn_text_init(&error, buf, sizeof buf);
    int rc = tn_cli_list_ask(store, filter->prefix, &leases, &count, &error);
    if (rc < 0)
        return tn_cli_store_fail("list", rc, buf);
    for (size_t i = 0; i < count; i++)
        if (passes(filter, &leases[i].record))
            leases[kept++] = leases[i];
    if (!json)
        print_columns(leases, kept);
    for (size_t i = 0; json && i < kept; i++)
        tn_cli_lease_print(leases[i].name, &leases[i].record, true);
    free(leases);
    return TN_EXIT_OK;
}

int tn_cli_list(int argc, char **argv)
{
    const char *url = NULL;
    bool json = false;
    struct filter filter = { .prefix = "" };
    struct tn_option options[] = {
        TN_FLAG("held", 0, &filter.held, "only names that somebody holds"),
        TN_FLAG("free", 0, &filter.free, "only names that nobody holds"),
        TN_STRING("holder", 0, &filter.holder, "ID", NULL, "only names that ID holds"),
        TN_STORE(&url),
        TN_FLAG("json", 0, &json, "print one JSON object per name"),
    };
    struct tn_command command = { .verb = "list",
                                  .words = "[PATTERN]",
                                  .words_max = 1,
                                  .about = about,
                                  .after = after,
                                  .options = options,
                                  .option_count = sizeof options / sizeof options[0] };
    struct tn_cli_store store;

    int status = tn_cli_options(&command, argc, argv);
    if (status < 0)
        status = read_filter(&filter, &command);
    if (status < 0)
        status = tn_cli_store_open("list", url, false, 0, &store);
    if (status >= 0)
        return status;
    status = show(&store, &filter, json);
    tn_cli_store_close(&store);
    return status;
}
