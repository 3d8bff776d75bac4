/* stand_down.c - notes that last: `tenure stand-down NAME`, `resume NAME`, `drain`, `undrain`.
 *
 * Happy path: leave the note, wait until nothing that it is about is held any more, and end; the
 * note stays until it is taken back or its time is over. Where a lease ends with its process
 * (ZooKeeper) the command stays, and the note ends with it.
 * What can fail: a holder that takes longer to stop than --wait (75; the note stays), another note
 * (75), the store. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/time.h"
#include "cli/operate.h"

#define WAIT_MAX TN_SEC(24 * 3600)
#define LOOK_EVERY TN_MS(250)

struct standing {
    const char *verb;
    const char *url;
    const char *name; /* stand-down, resume. */
    const char *id, *host;
    tenure_ns lasts, wait;
    bool json;
    char note_name[TN_NAME_MAX + 1];
    char subject[TN_CLI_LINE_MAX]; /* What is drained or stands down, for people. */
    size_t held_first, held;       /* Leases that it is about: at first, and when seen last. */
};

#define ABOUT_FOR                                                                                 \
    "The wish lasts for --for, also when this command is gone; repeat it to prolong it. Where a " \
    "lease\n"                                                                                     \
    "ends with its process (zookeeper:) the command stays and keeps the wish up until it is "     \
    "stopped.\n"
#define AFTER_STATUS                                                                             \
    "\n"                                                                                         \
    "Exit status: 0 done, 64 bad usage, 69 store unavailable, 75 something is still held after " \
    "--wait\n"                                                                                   \
    "(the wish stays), or another wish is in force, 77 not permitted.\n"
#define AFTER_LIFT                                                                             \
    "\n"                                                                                       \
    "Exit status: 0 also when there was no such wish, 64 bad usage, 69 store unavailable, 77 " \
    "not\n"                                                                                    \
    "permitted.\n"

/* --- What it is about ------------------------------------------------------------------------- */

static bool is_label(const struct tn_store_record *record, const char *id)
{
    return record->label_len == strlen(id) && memcmp(record->label, id, record->label_len) == 0;
}

static int count_held(struct tn_cli_store *store, struct standing *standing)
{
    struct tn_op op = { .kind = TN_OP_READ, .name = standing->name };
    struct tn_store_lease *leases;
    struct tn_store_req req;
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;
    size_t count;

    standing->held = 0;
    if (standing->name != NULL) {
        op.name_len = (uint32_t)strlen(standing->name);
        int status = tn_cli_step(store, &op, &req);
        standing->held = status < 0 && req.record.held;
        return status;
    }
    tn_text_init(&error, buf, sizeof buf);
    int rc = tn_cli_list_ask(store, "", &leases, &count, &error);
    if (rc < 0)
        return tn_cli_store_fail(standing->verb, rc, buf);
    for (size_t i = 0; i < count; i++) {
        const struct tn_store_record *record = &leases[i].record;
        standing->held +=
            record->held &&
            (standing->id != NULL
                 ? is_label(record, standing->id)
                 : tn_note_is_on_host(record->label, record->label_len, standing->host));
    }
    free(leases);
    return -1;
}

/* --- Leaving a note --------------------------------------------------------------------------- */

static void print_left(const struct standing *standing)
{
    char lasts[TN_DURATION_TEXT];

    if (standing->json)
        printf("{\"%s\":true,\"handed_over\":%zu,\"for_ms\":%" PRId64 "}\n",
               standing->name != NULL ? "stood_down" : "drained", standing->held_first,
               standing->lasts / TN_MS(1));
    else if (standing->name != NULL)
        printf("%s: stands down for %s; nobody leads\n", standing->name,
               tn_cli_duration(lasts, standing->lasts));
    else
        printf("%s: drained for %s; %zu given back\n", standing->subject,
               tn_cli_duration(lasts, standing->lasts), standing->held_first);
}

static int wait_until_free(struct tn_cli_store *store, struct standing *standing,
                           struct tn_cli_note *note)
{
    tenure_ns end = tn_clock_now(&store->clock) + standing->wait;
    char wait[TN_DURATION_TEXT];

    for (;;) {
        int status = count_held(store, standing);
        if (status >= 0 || standing->held == 0)
            return status;
        if (tn_cli_caught(store) != 0 || tn_clock_now(&store->clock) >= end)
            return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, standing->verb,
                               "%s: %zu still held after %s; the wish stays, so wait, or see "
                               "'tenure revoke'",
                               standing->subject, standing->held,
                               tn_cli_duration(wait, standing->wait));
        tn_cli_pause(store, tn_clock_now(&store->clock) + LOOK_EVERY);
        if ((store->ops->caps & TN_STORE_BOUND) != 0)
            (void)tn_cli_note_keep(store, note);
    }
}

/* The note ends with this process, so this process stays. */
static void stay(struct tn_cli_store *store, const struct standing *standing,
                 struct tn_cli_note *note)
{
    tenure_ns end = tn_clock_now(&store->clock) + standing->lasts;
    struct tn_op op = { .kind = TN_OP_READ,
                        .name = note->name,
                        .name_len = (uint32_t)strlen(note->name) };
    struct tn_store_req req;

    (void)fflush(stdout);
    (void)tn_cli_fail(0, standing->verb,
                      "in %s: a wish ends with its process, so this command stays; stop it to "
                      "take the wish back",
                      store->ops->scheme);
    while (tn_cli_caught(store) == 0 && tn_clock_now(&store->clock) < end) {
        tn_cli_pause(store, note->renew_at < end ? note->renew_at : end);
        (void)tn_cli_note_keep(store, note);
        if (tn_cli_ask(store, &op, &req) == 0 &&
            (!req.record.held || req.record.token != note->token))
            return; /* Taken back by another command. */
    }
    tn_cli_note_end(store, note);
}

static int leave(struct standing *standing, struct tn_cli_store *store)
{
    struct tn_cli_note note = { .ttl = standing->lasts };
    bool bound = (store->ops->caps & TN_STORE_BOUND) != 0;
    char buf[TN_CLI_LINE_MAX], limit[TN_DURATION_TEXT];
    struct tn_text error;
    int code = 0;

    if (!bound && standing->lasts > store->ops->ttl_max)
        return tn_cli_fail(TN_EXIT_USAGE, standing->verb, "--for: %s: keeps a wish for at most %s",
                           store->ops->scheme, tn_cli_duration(limit, store->ops->ttl_max));
    if (!bound && standing->lasts < store->ops->ttl_min)
        return tn_cli_fail(TN_EXIT_USAGE, standing->verb, "--for: %s: keeps a wish for at least %s",
                           store->ops->scheme, tn_cli_duration(limit, store->ops->ttl_min));
    (void)snprintf(note.name, sizeof note.name, "%s", standing->note_name);
    (void)snprintf(note.text, sizeof note.text, "%s",
                   standing->name != NULL ? "stand-down" : "drain");
    int status = count_held(store, standing);
    if (status >= 0)
        return status;
    standing->held_first = standing->held;
    tn_text_init(&error, buf, sizeof buf);
    enum tn_cli_noted noted = tn_cli_note_leave(store, &note, true, &code, &error);
    if (noted == TN_NOTED_FAILED)
        return tn_cli_store_fail(standing->verb, code, buf);
    if (noted == TN_NOTED_TAKEN)
        return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, standing->verb,
                           "%s: another operator's wish is in force: '%s'; try again when it has "
                           "ended",
                           standing->subject, note.text);
    if (standing->name != NULL)
        (void)tn_cli_watch_name(store, standing->name); /* Without it, reads do. */
    if (!bound)
        standing->lasts = note.ttl;
    status = wait_until_free(store, standing, &note);
    if (status < 0)
        print_left(standing);
    if (bound && (status < 0 || tn_cli_caught(store) == 0))
        stay(store, standing, &note);
    return status < 0 ? TN_EXIT_OK : status;
}

static int lift(struct standing *standing, struct tn_cli_store *store)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;
    bool was = false;

    tn_text_init(&error, buf, sizeof buf);
    int rc = tn_cli_note_lift(store, standing->note_name, &was, &error);
    if (rc < 0)
        return tn_cli_store_fail(standing->verb, rc, buf);
    if (standing->json)
        printf("{\"%s\":%s}\n", standing->name != NULL ? "resumed" : "undrained",
               was ? "true" : "false");
    else
        printf("%s: %s\n", standing->subject,
               was                      ? "may lead again"
               : standing->name != NULL ? "did not stand down"
                                        : "was not drained");
    return TN_EXIT_OK;
}

/* --- Words ------------------------------------------------------------------------------------ */

static int read_subject(struct standing *standing, const struct tn_command *command)
{
    const char *node = standing->id != NULL ? standing->id : standing->host;
    const char *option = standing->id != NULL ? "--id" : "--host";
    struct tn_text text;
    bool fits;

    tn_text_init(&text, standing->subject, sizeof standing->subject);
    if (command->words != NULL) {
        int status = tn_cli_name(command, &standing->name);
        if (status >= 0)
            return status;
        tn_text_add(&text, standing->name);
        fits = tn_note_name_ask(standing->name, standing->note_name);
        node = standing->name;
    } else if ((standing->id == NULL) == (standing->host == NULL)) {
        return tn_cli_fail(TN_EXIT_USAGE, standing->verb,
                           "say which node, as in 'tenure %s --host web1' or 'tenure %s --id "
                           "web1-4711'",
                           standing->verb, standing->verb);
    } else if (node[0] == '\0' || strlen(node) > TN_LABEL_MAX) {
        return tn_cli_fail(TN_EXIT_USAGE, standing->verb, "%s: it has 1 to %d bytes", option,
                           TN_LABEL_MAX);
    } else {
        tn_cli_quote(&text, node);
        fits = standing->id != NULL ? tn_note_name_id(node, standing->note_name)
                                    : tn_note_name_host(node, standing->note_name);
    }
    if (!fits)
        return tn_cli_fail(TN_EXIT_USAGE, standing->verb,
                           "%s is too long for an operator's wish; use 'tenure revoke'",
                           standing->subject);
    return -1;
}

static int run(struct standing *standing, struct tn_command *command, int argc, char **argv,
               int (*act)(struct standing *standing, struct tn_cli_store *store), bool creates)
{
    struct tn_cli_store store;

    int status = tn_cli_options(command, argc, argv);
    if (status < 0)
        status = read_subject(standing, command);
    if (status < 0)
        status = tn_cli_store_open(standing->verb, standing->url, creates, 0, &store);
    if (status >= 0)
        return status;
    if (store.ask != NULL)
        tn_cli_catch_signals(&store);
    status = act(standing, &store);
    tn_cli_store_close(&store);
    return status;
}

#define OPTION_FOR(standing_)                                                \
    TN_DURATION("for", 0, &(standing_)->lasts, TN_SEC(1), TN_TTL_MAX, "24h", \
                "how long the wish lasts"),                                  \
        TN_DURATION("wait", 0, &(standing_)->wait, 0, WAIT_MAX, "30s",       \
                    "how long to wait until all is given back")
#define OPTIONS_ALL(standing_)   \
    TN_STORE(&(standing_)->url), \
        TN_FLAG("json", 0, &(standing_)->json, "print one JSON object when it is done")
#define OPTIONS_NODE(standing_)                                                     \
    TN_STRING("id", 'i', &(standing_)->id, "ID", NULL, "the process with this id"), \
        TN_STRING("host", 0, &(standing_)->host, "HOST", NULL, "all processes of this host")
#define COMMAND(verb_, words_, about_, after_, options_)                                      \
    {                                                                                         \
        .verb = (verb_), .words = (words_), .words_max = (words_) != NULL, .about = (about_), \
        .after = (after_), .options = (options_),                                             \
        .option_count = sizeof(options_) / sizeof((options_)[0])                              \
    }

int tn_cli_stand_down(int argc, char **argv)
{
    struct standing standing = { .verb = "stand-down",
                                 .lasts = TN_SEC(24 * 3600),
                                 .wait = TN_SEC(30) };
    struct tn_option options[] = { OPTION_FOR(&standing), OPTIONS_ALL(&standing) };
    struct tn_command command = COMMAND(
        "stand-down", "NAME",
        "Maintenance: the holder of NAME stops its work and gives the lease back, and "
        "nobody leads until\n"
        "'tenure resume NAME'.\n" ABOUT_FOR,
        "Examples:\n"
        "  tenure stand-down nightly-report            nightly-report: stands down for "
        "24h; nobody leads\n"
        "  tenure stand-down nightly-report --for 2h   at most for two hours\n" AFTER_STATUS,
        options);

    return run(&standing, &command, argc, argv, leave, true);
}

int tn_cli_resume(int argc, char **argv)
{
    struct standing standing = { .verb = "resume" };
    struct tn_option options[] = { OPTIONS_ALL(&standing) };
    struct tn_command command =
        COMMAND("resume", "NAME", "Ends a stand-down: candidates of NAME campaign again.\n",
                "Examples:\n"
                "  tenure resume nightly-report    nightly-report: may lead again\n" AFTER_LIFT,
                options);

    return run(&standing, &command, argc, argv, lift, false);
}

int tn_cli_drain(int argc, char **argv)
{
    struct standing standing = { .verb = "drain", .lasts = TN_SEC(24 * 3600), .wait = TN_SEC(30) };
    struct tn_option options[] = { OPTIONS_NODE(&standing), OPTION_FOR(&standing),
                                   OPTIONS_ALL(&standing) };
    struct tn_command command =
        COMMAND("drain", NULL,
                "Before a reboot: the processes of a node give back all that they hold, and win "
                "nothing until\n"
                "'tenure undrain'. Waits until nothing is held there any more.\n" ABOUT_FOR,
                "All processes on the host obey. This command sees those whose id is HOST or "
                "HOST-PID, which is\n"
                "the default; for a process with an --id of its own wait with 'tenure drain "
                "--id'.\n"
                "\n"
                "Examples:\n"
                "  tenure drain --host web1               'web1': drained for 24h; 3 given back\n"
                "  tenure drain --id web1-4711 --for 1h   one process, for an hour\n" AFTER_STATUS,
                options);

    return run(&standing, &command, argc, argv, leave, true);
}

int tn_cli_undrain(int argc, char **argv)
{
    struct standing standing = { .verb = "undrain" };
    struct tn_option options[] = { OPTIONS_NODE(&standing), OPTIONS_ALL(&standing) };
    struct tn_command command =
        COMMAND("undrain", NULL, "Ends a drain: the processes of the node campaign again.\n",
                "Examples:\n"
                "  tenure undrain --host web1    'web1': may lead again\n" AFTER_LIFT,
                options);

    return run(&standing, &command, argc, argv, lift, false);
}
