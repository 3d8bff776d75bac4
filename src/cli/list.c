/* list.c - `tenure list [PATTERN]`: the names of a store, held or once held, in columns.
 *
 * A word with a star is a pattern, as in the daemon's ACL; any other word is the beginning of a
 * name. The store filters by the beginning, this file by the rest. */
#include <stdlib.h>
#include <string.h>

#include "cli/asked.h"
#include "cli/table.h"

static const char about[] =
    "Lists the names of a store in their order, held or once held, one line each. For scripts "
    "there\n"
    "is --json: the columns are for people, and grow with what is in them.\n";

static const char after[] =
    "STATE is held, free, or revoked: taken away and not given back yet. TOKEN is the last one of "
    "a\n"
    "free name. SINCE is when the holder's term began, where the store tells it. LEFT is how long "
    "the lease lives without a renewal. Names below '~tenure/', in "
    "which\n"
    "Tenure keeps notes, are listed for a pattern that begins so.\n"
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
    struct tn_selection names;
};

/* A word without a star is the beginning of a name, which may end in a slash. */
static int read_pattern(struct filter *filter, const char *word)
{
    const char *reason;
    size_t len = strlen(word);

    if (strchr(word, '*') != NULL || len < 2 || word[len - 1] != '/' ||
        tn_name_check(word, len - 1, &reason) < 0) {
        int status = tn_selection_read("list", word, &filter->names);
        filter->names.exact = false;
        return status;
    }
    (void)snprintf(filter->names.prefix, sizeof filter->names.prefix, "%s", word);
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

/* --- The verb ------------------------------------------------------------------------------- */

static int show(struct tn_cli_store *store, const struct filter *filter, bool json)
{
    struct tn_store_lease *leases = NULL;
    size_t count = 0;
    size_t kept = 0;
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    tn_text_init(&error, buf, sizeof buf);
    int rc = tn_cli_list_ask(store, filter->names.prefix, &leases, &count, &error);
    if (rc < 0)
        return tn_cli_store_fail("list", rc, buf);
    count = tn_selection_filter(&filter->names, leases, count);
    for (size_t i = 0; i < count; i++)
        if (passes(filter, &leases[i].record))
            leases[kept++] = leases[i];
    if (!json)
        tn_columns_print(stdout, leases, kept);
    for (size_t i = 0; json && i < kept; i++)
        tn_cli_lease_print(&(struct tn_shown) { .store = store, .lease = &leases[i] }, true);
    free(leases);
    return TN_EXIT_OK;
}

int tn_cli_list(int argc, char **argv)
{
    const char *url = NULL;
    bool json = false;
    struct filter filter = { .holder = NULL };
    struct tn_option options[] = {
        TN_FLAG("held", 0, &filter.held, "only names that somebody holds"),
        TN_FLAG("free", 0, &filter.free, "only names that nobody holds"),
        TN_STRING("holder", 0, &filter.holder, "ID", NULL, "only names that ID holds"),
        TN_STORE(&url),
        TN_FLAG("json", 0, &json, "print one JSON object per name"),
    };
    struct tn_command command = TN_COMMAND("list", "[PATTERN]", 1, options);
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
