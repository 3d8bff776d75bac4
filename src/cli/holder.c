/* holder.c - what `renew` and `release` share: the holder's word to the store, and its answer.
 *
 * Both prove themselves by name, token and secret, and both are answered the same way: done, not
 * yours (77), or over (80). */
#include <inttypes.h>
#include <string.h>

#include "base/sha256.h"
#include "base/time.h"
#include "cli/store.h"

/* Names need no escaping: tn_name_check has seen them. */
static void print_done(const struct tn_cli_word *word, const struct tn_op *op, tenure_ns ttl)
{
    printf("{\"%s\":true,\"name\":\"%s\",\"token\":%" PRIu64, word->participle, op->name,
           op->token);
    if (word->kind == TN_OP_RENEW)
        printf(",\"ttl_ms\":%" PRId64, ttl / TN_MS(1));
    printf("}\n");
}

/* Whose the term is, by the record: a renewal is the session's, and says nothing of the name; and
 * a session that is gone says nothing of whether it ever was. */
static int look(struct tn_cli_store *store, const struct tn_op *op, enum tn_answer done,
                enum tn_answer *answer)
{
    struct tn_op read = { .kind = TN_OP_READ, .name = op->name, .name_len = op->name_len };
    struct tn_store_req req;
    struct tn_secret hash;

    int status = tn_cli_step(store, &read, &req);
    if (status >= 0)
        return status;
    tn_secret_hash(&op->term, 't', &hash);
    if (!req.record.held || req.record.token != op->token || req.record.revoked ||
        tn_cli_is_revoked(store, op->token))
        *answer = TN_ANSWER_STALE;
    else if (*answer != done || !tn_secret_equal(&req.record.term, &hash))
        *answer = TN_ANSWER_DENIED;
    return -1;
}

static int say(const struct tn_cli_word *word, struct tn_cli_store *store, const struct tn_op *op,
               bool json)
{
    struct tn_store_req req;

    int status = tn_cli_step(store, op, &req);
    enum tn_answer answer = req.answer;
    if (status < 0 && (word->kind == TN_OP_RENEW || answer == TN_ANSWER_GONE))
        status = look(store, op, word->done, &answer);
    if (status >= 0)
        return status;
    if (answer == word->done) {
        if (json)
            print_done(word, op, req.ttl);
        return TN_EXIT_OK;
    }
    if (answer == TN_ANSWER_DENIED)
        return tn_cli_fail(TN_EXIT_DENIED, word->verb, "%s: the secret is not the holder's",
                           op->name);
    return tn_cli_fail(TN_EXIT_STALE, word->verb,
                       "%s: token %" PRIu64 " is over: expired, released or superseded", op->name,
                       op->token);
}

/* Where a silent session stays, it is closed; elsewhere it ends by itself, and until then the same
 * release can be said again. */
static void tidy_up(struct tn_cli_store *store, const struct tn_op *op)
{
    struct tn_op close = { .kind = TN_OP_CLOSE, .session = op->session };
    struct tn_store_req req;

    if (store->ask != NULL && (store->ops->caps & TN_STORE_LINGERS) != 0)
        (void)tn_cli_ask(store, &close, &req);
}

int tn_cli_say(const struct tn_cli_word *word, int argc, char **argv)
{
    const char *url = NULL;
    const char *secret = NULL;
    bool json = false;
    struct tn_op op = { .kind = word->kind };
    struct tn_option options[] = {
        TN_U64("token", 't', &op.token, 1, UINT64_MAX, "TOKEN", NULL, "the token of the term"),
        TN_STRING("secret", 0, &secret, "SECRET", "$TENURE_SECRET", "the secret of the term"),
        TN_STORE(&url),
        TN_FLAG("json", 0, &json, "print one JSON object when it is done"),
    };
    struct tn_command command = { .verb = word->verb,
                                  .words = "NAME",
                                  .words_max = 1,
                                  .about = word->about,
                                  .after = word->after,
                                  .options = options,
                                  .option_count = sizeof options / sizeof options[0] };
    struct tn_cli_store store;

    int status = tn_cli_options(&command, argc, argv);
    if (status < 0)
        status = tn_cli_name(&command, &op.name);
    if (status < 0 && op.token == 0)
        status = tn_cli_fail(TN_EXIT_USAGE, word->verb, "--token is missing; give acquire's");
    if (status < 0)
        status = tn_cli_secret(word->verb, secret, &op);
    if (status < 0)
        status = tn_cli_store_open(word->verb, url, false, 0, &store);
    if (status >= 0)
        return status;
    op.name_len = (uint32_t)strlen(op.name);
    status = tn_cli_check_scripts(&store);
    if (status < 0)
        status = say(word, &store, &op, json);
    if (status == TN_EXIT_OK && op.kind == TN_OP_RELEASE)
        tidy_up(&store, &op);
    tn_cli_store_close(&store);
    return status;
}
