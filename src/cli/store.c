/* store.c - the words that the verbs on a store share, and how its answers are shown. */
#define _GNU_SOURCE
#include "cli/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/time.h"
#include "runtime/entry.h"

/* A lease as JSON: name and label, each byte of them escaped, and the rest. */
enum { LINE = 4096 };

/* --- Words ---------------------------------------------------------------------------------- */

int tn_cli_check_name(const char *verb, const char *name)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;
    const char *reason;

    if (tn_name_check(name, strlen(name), &reason) == 0)
        return -1;
    tn_text_init(&text, buf, sizeof buf);
    tn_cli_quote(&text, name);
    tn_text_addf(&text, " is not a name: %s", reason);
    return tn_cli_fail(TN_EXIT_USAGE, verb, "%s", buf);
}

int tn_cli_name(const struct tn_command *command, const char **ret_name)
{
    if (command->rest_count == 0)
        return tn_cli_fail(TN_EXIT_USAGE, command->verb,
                           "the name of the lease is missing, as in 'tenure %s nightly-report'",
                           command->verb);
    *ret_name = command->rest[0];
    return tn_cli_check_name(command->verb, *ret_name);
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int tn_cli_secret(const char *verb, const char *text, struct tn_op *op)
{
    uint8_t bytes[sizeof op->session.bytes + sizeof op->term.bytes];
    bool good = true;

    if (text == NULL)
        text = getenv("TENURE_SECRET");
    if (text == NULL || text[0] == '\0')
        return tn_cli_fail(TN_EXIT_USAGE, verb,
                           "the secret is missing; put what acquire gave into TENURE_SECRET");
    good = strlen(text) == 2 * sizeof bytes;
    for (size_t i = 0; good && i < sizeof bytes; i++) {
        int high = digit(text[2 * i]);
        int low = digit(text[2 * i + 1]);
        good = high >= 0 && low >= 0;
        bytes[i] = (uint8_t)(high * 16 + low);
    }
    /* It is not repeated: it may be a real one with a slip in it. */
    if (!good)
        return tn_cli_fail(TN_EXIT_USAGE, verb,
                           "the secret is malformed; give the 64 digits that acquire gave");
    memcpy(op->session.bytes, bytes, sizeof op->session.bytes);
    memcpy(op->term.bytes, bytes + sizeof op->session.bytes, sizeof op->term.bytes);
    return -1;
}

void tn_cli_secret_format(char buf[TN_SECRET_TEXT], const struct tn_op *op)
{
    struct tn_text text;

    tn_text_init(&text, buf, TN_SECRET_TEXT);
    for (size_t i = 0; i < sizeof op->session.bytes; i++)
        tn_text_addf(&text, "%02x", op->session.bytes[i]);
    for (size_t i = 0; i < sizeof op->term.bytes; i++)
        tn_text_addf(&text, "%02x", op->term.bytes[i]);
    TN_ASSERT(!tn_text_truncated(&text));
}

/* --- Leases --------------------------------------------------------------------------------- */

const char *tn_cli_state(const struct tn_store_record *record)
{
    if (!record->held)
        return "free";
    return record->revoked ? "revoked" : "held";
}

static void add_json(struct tn_text *text, const char *name, const struct tn_store_record *lease)
{
    tn_text_add(text, "{\"name\":");
    tn_json_string(text, name, strlen(name));
    tn_text_addf(text, ",\"state\":\"%s\",\"holder\":", lease->held ? "held" : "free");
    if (lease->held)
        tn_json_string(text, lease->label, lease->label_len);
    else
        tn_text_add(text, "null");
    tn_text_addf(text,
                 ",\"token\":%" PRIu64 ",\"ttl_ms\":%" PRId64 ",\"remaining_ms\":%" PRId64 "%s}",
                 lease->token, lease->ttl / TN_MS(1), lease->remaining / TN_MS(1),
                 lease->revoked ? ",\"revoked\":true" : "");
}

static void add_text(struct tn_text *text, const char *name, const struct tn_store_record *lease)
{
    char remaining[TN_DURATION_TEXT];
    char ttl[TN_DURATION_TEXT];

    tn_text_addf(text, "%s: ", name);
    if (!lease->held && lease->token == 0) {
        tn_text_add(text, "free, never held");
    } else if (!lease->held) {
        tn_text_addf(text, "free, last token %" PRIu64, lease->token);
    } else {
        tn_text_add(text, "held by ");
        tn_text_escape(text, lease->label, lease->label_len);
        tn_text_addf(text, ", token %" PRIu64, lease->token);
        if (lease->ttl > 0) /* Not every store tells it to others. */
            tn_text_addf(text, ", %s left of %s", tn_cli_duration(remaining, lease->remaining),
                         tn_cli_duration(ttl, lease->ttl));
        if (lease->revoked)
            tn_text_add(text, ", revoked");
    }
}

void tn_cli_lease_print(const char *name, const struct tn_store_record *record, bool json)
{
    char line[LINE];
    struct tn_text text;

    tn_text_init(&text, line, sizeof line);
    if (json)
        add_json(&text, name, record);
    else
        add_text(&text, name, record);
    TN_ASSERT(!tn_text_truncated(&text));
    printf("%s\n", line);
}

int tn_cli_list_print(struct tn_cli_store *store, const char *prefix, bool json)
{
    struct tn_store_lease *leases = NULL;
    size_t count = 0;
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    tn_text_init(&error, buf, sizeof buf);
    int rc = tn_cli_list_ask(store, prefix, &leases, &count, &error);
    if (rc < 0)
        return tn_cli_store_fail(store->verb, rc, buf);
    for (size_t i = 0; i < count; i++)
        tn_cli_lease_print(leases[i].name, &leases[i].record, json);
    free(leases);
    return -1;
}

int tn_cli_check_scripts(struct tn_cli_store *store)
{
    if (store->ask == NULL || (store->ops->caps & TN_STORE_BOUND) == 0)
        return -1;
    return tn_cli_fail(TN_EXIT_USAGE, store->verb,
                       "a lease in %s: ends with the process that takes it, so it is not for "
                       "scripts; use 'tenure run' or 'tenure elect'",
                       store->ops->scheme);
}

int tn_cli_label(const char *verb, const char *id, char buf[TN_LABEL_MAX + 1])
{
    char reason[TN_CLI_LINE_MAX];
    struct tn_text error;

    tn_text_init(&error, reason, sizeof reason);
    if (tn_entry_label(id, buf, &error) == 0)
        return -1;
    return tn_cli_fail(TN_EXIT_USAGE, verb, "--id: %s", reason);
}

int tn_cli_check_plan(const char *verb, const struct tn_plan *plan)
{
    char reason[TN_CLI_LINE_MAX];
    struct tn_text error;

    tn_text_init(&error, reason, sizeof reason);
    if (tn_entry_plan(plan, &error) == 0)
        return -1;
    return tn_cli_fail(TN_EXIT_USAGE, verb, "%s", reason);
}
