/* status.c - `tenure status [NAME]...`: who leads, under which token, for how much longer. */
#include <stdlib.h>
#include <string.h>

#include "cli/store.h"

static const char about[] = "Shows who holds each lease; without a name, all of them.\n";

static const char after[] =
    "A lease that was revoked is still held until its holder has given it back, or for a TTL: "
    "then\n"
    "the line ends in 'revoked', and the object has \"revoked\":true.\n"
    "\n"
    "Examples:\n"
    "  tenure status nightly-report           nightly-report: held by web1-4711, token 7, ...\n"
    "  tenure status --json nightly-report    {\"name\":...,\"state\":\"held\",\"holder\":...}\n"
    "  tenure status billing backup           these two, one line each\n"
    "  tenure status                          all names\n"
    "\n"
    "Exit status: 0 also when it is free, 64 bad usage, 69 store unavailable, 77 not permitted.\n";

/* All are read before the first is shown: a store that fails then leaves no half of an answer. */
static int show(struct tn_cli_store *store, char *const *names, size_t count, bool json)
{
    struct tn_store_record *records = calloc(count, sizeof *records);
    int status = records != NULL ? -1 : tn_cli_store_fail("status", TENURE_E_NOMEM, "");

    for (size_t i = 0; status < 0 && i < count; i++) {
        struct tn_op op = { .kind = TN_OP_READ,
                            .name = names[i],
                            .name_len = (uint32_t)strlen(names[i]) };
        struct tn_store_req req;
        status = tn_cli_step(store, &op, &req);
        records[i] = req.record;
    }
    for (size_t i = 0; status < 0 && i < count; i++)
        tn_cli_lease_print(names[i], &records[i], json);
    free(records);
    return status;
}

int tn_cli_status(int argc, char **argv)
{
    const char *url = NULL;
    bool json = false;
    struct tn_option options[] = {
        TN_STORE(&url),
        TN_FLAG("json", 0, &json, "print one JSON object per name"),
    };
    struct tn_command command = { .verb = "status",
                                  .words = "[NAME]...",
                                  .words_max = SIZE_MAX,
                                  .about = about,
                                  .after = after,
                                  .options = options,
                                  .option_count = sizeof options / sizeof options[0] };
    struct tn_cli_store store;

    int status = tn_cli_options(&command, argc, argv);
    for (size_t i = 0; status < 0 && i < command.rest_count; i++)
        status = tn_cli_check_name("status", command.rest[i]);
    if (status < 0)
        status = tn_cli_store_open("status", url, false, 0, &store);
    if (status >= 0)
        return status;
    if (command.rest_count > 0)
        status = show(&store, command.rest, command.rest_count, json);
    else
        status = tn_cli_list_print(&store, "", json);
    tn_cli_store_close(&store);
    return status < 0 ? TN_EXIT_OK : status;
}
