/* status.c - `tenure status [PATTERN]...`: who leads, under which token, for how much longer. */
#include <stdlib.h>
#include <string.h>

#include "cli/asked.h"
#include "cli/table.h"

static const char about[] = "Shows who holds each lease; without a name, all of them.\n";

static const char after[] =
    "A lease that was revoked is still held until its holder has given it back, or for a TTL: "
    "then\n"
    "the line has 'revoked', and the object \"revoked\":true. An operator's wish in force is "
    "shown, "
    "too:\n"
    "\"asked\" is handover (\"asked_to\": to whom), stand-down or drain. So are, as far as the "
    "store can\n"
    "tell, since when it is held (\"since_ms\": of the wall clock, since 1970), the last renewal\n"
    "(\"renewed_ago_ms\"), how many wait (\"waiting\"), and their ids, the next one first, each "
    "with\n"
    "its --priority if it has one (\"line\"). What the store cannot tell is left out.\n"
    "\n"
    "Examples:\n"
    "  tenure status nightly-report           nightly-report: held by web1-4711, token 7, ...\n"
    "  tenure status --json nightly-report    {\"name\":...,\"state\":\"held\",\"holder\":...}\n"
    "  tenure status billing backup           these two, one line each\n"
    "  tenure status 'jobs/*'                 those below 'jobs/', as a pattern of the ACL\n"
    "  tenure status                          all names\n"
    "\n"
    "Exit status: 0 also when it is free, 64 bad usage, 69 store unavailable, 77 not permitted.\n";

/* A store that counts nobody is asked for each name: of more names than that, for none. */
enum { ASKED_MOST = 100 };

/* All are read before the first is shown: a store that fails then leaves no half of an answer. */
struct answer {
    struct tn_store_lease *leases;
    size_t count;
};

static int add_leases(struct answer *answer, const struct tn_store_lease *leases, size_t count)
{
    struct tn_store_lease *grown =
        realloc(answer->leases, (answer->count + count + 1) * sizeof *grown);

    if (grown == NULL)
        return tn_cli_store_fail("status", TENURE_E_NOMEM, "");
    answer->leases = grown;
    for (size_t i = 0; i < count; i++)
        grown[answer->count++] = leases[i];
    return -1;
}

static int read_name(struct tn_cli_store *store, const char *name, struct answer *answer)
{
    struct tn_op op = { .kind = TN_OP_READ, .name = name, .name_len = (uint32_t)strlen(name) };
    struct tn_store_lease lease = { .counted = false };
    struct tn_store_req req;

    int status = tn_cli_step(store, &op, &req);
    if (status >= 0)
        return status;
    (void)snprintf(lease.name, sizeof lease.name, "%s", name);
    lease.record = req.record;
    tn_cli_look(store, &lease);
    return add_leases(answer, &lease, 1);
}

static int read_pattern(struct tn_cli_store *store, const struct tn_selection *names,
                        struct answer *answer)
{
    struct tn_store_lease *leases = NULL;
    size_t count = 0;
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    tn_text_init(&error, buf, sizeof buf);
    int rc = tn_cli_list_ask(store, names->prefix, &leases, &count, &error);
    int status = rc < 0 ? tn_cli_store_fail("status", rc, buf)
                        : add_leases(answer, leases, tn_selection_filter(names, leases, count));
    free(leases);
    return status;
}

static int show(struct tn_cli_store *store, char *const *words, size_t count, bool json)
{
    struct answer answer = { .leases = NULL };
    struct tn_selection names = { .exact = false };
    int status = count == 0 ? read_pattern(store, &names, &answer) : -1;

    for (size_t i = 0; status < 0 && i < count; i++) {
        status = tn_selection_read("status", words[i], &names);
        if (status < 0 && names.exact)
            status = read_name(store, names.prefix, &answer);
        else if (status < 0)
            status = read_pattern(store, &names, &answer);
    }
    size_t note_count = 0;
    struct tn_store_lease *notes =
        status < 0 && answer.count > 0 ? tn_asked_read(store, &note_count) : NULL;
    for (size_t i = 0; status < 0 && i < answer.count; i++) {
        const struct tn_store_lease *lease = &answer.leases[i];
        struct tn_shown shown = { .store = store, .lease = lease };
        shown.asked = tn_asked_find(notes, note_count, lease);
        if (lease->counted ? lease->waiting > 0 : answer.count <= ASKED_MOST)
            shown.waiting = tn_waiting_read(store, lease->name, notes, note_count);
        tn_cli_lease_print(&shown, json);
        free(shown.waiting.line);
    }
    free(notes);
    free(answer.leases);
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
                                  .words = "[PATTERN]...",
                                  .words_max = SIZE_MAX,
                                  .about = about,
                                  .after = after,
                                  .options = options,
                                  .option_count = sizeof options / sizeof options[0] };
    struct tn_selection names;
    struct tn_cli_store store;

    int status = tn_cli_options(&command, argc, argv);
    for (size_t i = 0; status < 0 && i < command.rest_count; i++)
        status = tn_selection_read("status", command.rest[i], &names);
    if (status < 0)
        status = tn_cli_store_open("status", url, false, 0, &store);
    if (status >= 0)
        return status;
    status = show(&store, command.rest, command.rest_count, json);
    tn_cli_store_close(&store);
    return status < 0 ? TN_EXIT_OK : status;
}
