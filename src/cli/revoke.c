/* revoke.c - `tenure revoke NAME`: an operator takes a lease away.
 *
 * Happy path: read who holds the name, then revoke exactly that token, so that what is printed is
 * what was taken away. The store tells the holder, and passes the name on when the holder has given
 * it back, or after the hold-off (docs/INVARIANTS.md, P1).
 * What can fail: nobody holds the name, or not under --token (80); the name changes hands between
 * the two steps, which is read again; the store cannot revoke (69). */
#include <inttypes.h>
#include <string.h>

#include "base/duration.h"
#include "cli/store.h"

/* A name that changes hands this often while it is looked at is being fought over. */
enum { TRIES = 10 };

static const char about[] = "Takes a lease away from its holder. The holder is told and stops its "
                            "work; the next one leads\n"
                            "when the holder has given the lease back, at the latest a TTL from "
                            "now. 'tenure run' campaigns\n"
                            "again after a revocation unless it has --once.\n";

static const char after[] =
    "Examples:\n"
    "  tenure revoke nightly-report              whoever holds it\n"
    "  tenure revoke nightly-report --token 7    only if the term of token 7 still lasts\n"
    "  tenure status nightly-report              nightly-report: held by ..., revoked\n"
    "\n"
    "Exit status: 0 revoked, 64 bad usage, 69 store unavailable or without revocation, 77 not\n"
    "permitted, 80 nobody holds it, or not under that token.\n";

static int fail_stale(const struct tn_op *op, uint64_t asked, const struct tn_store_record *record)
{
    if (!record->held && record->token == 0)
        return tn_cli_fail(TN_EXIT_STALE, "revoke", "%s: nobody ever held it", op->name);
    if (!record->held)
        return tn_cli_fail(TN_EXIT_STALE, "revoke", "%s: nobody holds it, last token %" PRIu64,
                           op->name, record->token);
    if (asked != 0 && asked != record->token)
        return tn_cli_fail(TN_EXIT_STALE, "revoke",
                           "%s: token %" PRIu64 " is not current, %" PRIu64 " is", op->name, asked,
                           record->token);
    return tn_cli_fail(TN_EXIT_STALE, "revoke",
                       "%s: the term of token %" PRIu64 " ended meanwhile; look again with 'tenure "
                       "status %s'",
                       op->name, record->token, op->name);
}

static void print_done(const struct tn_op *op, const struct tn_store_record *record, bool json)
{
    char label[8 * TN_LABEL_MAX];
    char hold_off[TN_DURATION_TEXT];
    struct tn_text text;

    tn_text_init(&text, label, sizeof label);
    if (json) {
        tn_json_string(&text, record->label, record->label_len);
        printf("{\"revoked\":true,\"name\":\"%s\",\"holder\":%s,\"token\":%" PRIu64 "}\n", op->name,
               label, op->token);
        return;
    }
    tn_text_escape(&text, record->label, record->label_len);
    printf("%s: revoked from %s, token %" PRIu64 "; free when it has stopped", op->name, label,
           op->token);
    if (record->ttl > 0) /* Not every store tells it to others. */
        printf(", at the latest in %s", tn_cli_duration(hold_off, record->ttl));
    printf("\n");
}

static int revoke(struct tn_cli_store *store, const char *name, uint64_t asked, bool json)
{
    struct tn_op op = { .name = name, .name_len = (uint32_t)strlen(name) };
    struct tn_store_req read, req;

    for (int i = 0;; i++) {
        op.kind = TN_OP_READ;
        int status = tn_cli_step(store, &op, &read);
        if (status >= 0)
            return status;
        if (!read.record.held || (asked != 0 && asked != read.record.token) || i == TRIES)
            return fail_stale(&op, asked, &read.record);
        op.kind = TN_OP_REVOKE;
        op.token = read.record.token;
        status = tn_cli_step(store, &op, &req);
        if (status >= 0)
            return status;
        if (req.answer == TN_ANSWER_OK) {
            print_done(&op, &read.record, json);
            return TN_EXIT_OK;
        }
    }
}

int tn_cli_revoke(int argc, char **argv)
{
    const char *url = NULL;
    const char *name = NULL;
    uint64_t token = 0;
    bool json = false;
    struct tn_option options[] = {
        TN_U64("token", 't', &token, 1, UINT64_MAX, "TOKEN", "whichever it is",
               "only the term of this token"),
        TN_STORE(&url),
        TN_FLAG("json", 0, &json, "print one JSON object when it is done"),
    };
    struct tn_command command = TN_COMMAND("revoke", "NAME", 1, options);
    struct tn_cli_store store;

    int status = tn_cli_options(&command, argc, argv);
    if (status < 0)
        status = tn_cli_name(&command, &name);
    if (status < 0)
        status = tn_cli_store_open("revoke", url, false, 0, &store);
    if (status >= 0)
        return status;
    status = revoke(&store, name, token, json);
    tn_cli_store_close(&store);
    return status;
}
