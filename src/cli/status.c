/* status.c - `tenure status [NAME]`: who leads, under which token, for how much longer. */
#include <string.h>

#include "cli/store.h"

static const char about[] = "Shows who holds a lease; without a name, all of them.\n";

static const char after[] =
    "Examples:\n"
    "  tenure status nightly-report           nightly-report: held by web1-4711, token 7, ...\n"
    "  tenure status --json nightly-report    {\"name\":...,\"state\":\"held\",\"holder\":...}\n"
    "  tenure status                          all names\n"
    "\n"
    "Exit status: 0 also when it is free, 64 bad usage, 69 store unavailable, 77 not permitted.\n";

static int show(struct tn_cli_store *store, const char *name, bool json)
{
    struct tn_store_req req;
    struct tn_op op = { .kind = TN_OP_READ, .name = name, .name_len = (uint32_t)strlen(name) };

    int status = tn_cli_step(store, &op, &req);
    if (status >= 0)
        return status;
    tn_cli_lease_print(name, &req.record, json);
    return TN_EXIT_OK;
}

int tn_cli_status(int argc, char **argv)
{
    const char *url = NULL;
    const char *name = NULL;
    bool json = false;
    struct tn_option options[] = {
        TN_STORE(&url),
        TN_FLAG("json", 0, &json, "print one JSON object per name"),
    };
    struct tn_command command = { .verb = "status",
                                  .words = "[NAME]",
                                  .words_max = 1,
                                  .about = about,
                                  .after = after,
                                  .options = options,
                                  .option_count = sizeof options / sizeof options[0] };
    struct tn_cli_store store;

    int status = tn_cli_options(&command, argc, argv);
    if (status < 0 && command.rest_count > 0)
        status = tn_cli_name(&command, &name);
    if (status < 0)
        status = tn_cli_store_open("status", url, false, 0, &store);
    if (status >= 0)
        return status;
    status = name != NULL ? show(&store, name, json) : tn_cli_list_print(&store, "", json);
    tn_cli_store_close(&store);
    return status < 0 ? TN_EXIT_OK : status;
}
