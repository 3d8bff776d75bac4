/* list.c - `tenure list [PREFIX]`: all names of a store, held or once held. */
#include <string.h>

#include "cli/store.h"

static const char about[] =
    "Lists the names of a store in their order, held or once held, one line each.\n";

static const char after[] = "Examples:\n"
                            "  tenure list                   all names\n"
                            "  tenure list jobs/             those that begin with 'jobs/'\n"
                            "  tenure list --json            one JSON object per line\n"
                            "\n"
                            "Exit status: 0 also when there is none, 64 bad usage,\n"
                            "69 store unavailable, 77 not permitted.\n";

/* The beginning of a name: a name, or one with a '/' after it. */
static int check_prefix(const char *prefix)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;
    const char *reason;
    size_t len = strlen(prefix);

    if (len > 1 && prefix[len - 1] == '/')
        len--;
    if (tn_name_check(prefix, len, &reason) == 0)
        return -1;
    tn_text_init(&text, buf, sizeof buf);
    tn_cli_quote(&text, prefix);
    tn_text_addf(&text, " is not the beginning of a name: %s", reason);
    return tn_cli_fail(TN_EXIT_USAGE, "list", "%s", buf);
}

int tn_cli_list(int argc, char **argv)
{
    const char *url = NULL;
    bool json = false;
    struct tn_option options[] = {
        TN_STORE(&url),
        TN_FLAG("json", 0, &json, "print one JSON object per name"),
    };
    struct tn_command command = { .verb = "list",
                                  .words = "[PREFIX]",
                                  .words_max = 1,
                                  .about = about,
                                  .after = after,
                                  .options = options,
                                  .option_count = sizeof options / sizeof options[0] };
    struct tn_cli_store store;

    int status = tn_cli_options(&command, argc, argv);
    if (status < 0 && command.rest_count > 0)
        status = check_prefix(command.rest[0]);
    if (status < 0)
        status = tn_cli_store_open("list", url, false, 0, &store);
    if (status >= 0)
        return status;
    status = tn_cli_list_print(&store, command.rest_count > 0 ? command.rest[0] : "", json);
    tn_cli_store_close(&store);
    return status < 0 ? TN_EXIT_OK : status;
}
