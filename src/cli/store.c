/* store.c - the words that the verbs on a store share, and how its answers are shown. */
#define _GNU_SOURCE
#include "cli/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/time.h"
#include "cli/asked.h"
#include "runtime/entry.h"
#include "runtime/note_name.h"

/* A lease: its name, its label and NAMED_MOST that wait, each byte escaped, and the rest. */
enum { LINE = 8192, NAMED_MOST = 4 };

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

int tn_cli_check_free_name(const char *verb, const char *name)
{
    int status = tn_cli_check_name(verb, name);

    if (status < 0 && tn_name_is_reserved(name))
        status = tn_cli_fail(TN_EXIT_USAGE, verb,
                             "names below " TN_NOTE_PREFIX
                             " are reserved for operators; see 'tenure handover --help'");
    return status;
}

int tn_cli_name(const struct tn_command *command, const char **ret_name)
{
    if (command->rest_count == 0)
        return tn_cli_fail(TN_EXIT_USAGE, command->verb,
                           "the name of the lease is missing, as in 'tenure %s nightly-report'",
                           command->verb);
    *ret_name = command->rest[0];
    return tn_cli_check_free_name(command->verb, *ret_name);
}

int tn_cli_check_no_slot(const char *verb, const char *name)
{
    const char *slash = strrchr(name, '/');

    if (!tn_name_is_slot(name))
        return -1;
    return tn_cli_fail(
        TN_EXIT_USAGE, verb,
        "%s is a slot of a semaphore; campaign for all of its slots, as in 'tenure run "
        "--slots 3 %.*s -- ./work'",
        name, (int)(slash - name), name);
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

/* How long ago the holder was heard; negative: the store does not tell. */
static tenure_ns renewed_ago(const struct tn_cli_store *store, const struct tn_store_record *record)
{
    if (!record->held || store->ops->look == NULL || record->ttl <= 0 || record->remaining < 0 ||
        record->remaining > record->ttl)
        return -1;
    return record->ttl - record->remaining;
}

/* How many wait, as far as anybody told. */
static size_t count_waiting(const struct tn_shown *shown)
{
    size_t counted = shown->lease->counted ? shown->lease->waiting : 0;

    return shown->waiting.count > counted ? shown->waiting.count : counted;
}

static void print_line_json(const struct tn_waiting *waiting)
{
    char buf[6 * TN_LABEL_MAX + 3];
    struct tn_text id;

    printf(",\"line\":[");
    for (size_t i = 0; i < waiting->count; i++) {
        const struct tn_store_record *one = &waiting->line[i].record;
        tn_text_init(&id, buf, sizeof buf);
        tn_json_string(&id, one->label, one->label_len);
        printf("%s{\"id\":%s", i > 0 ? "," : "", buf);
        if (one->token > 0)
            printf(",\"priority\":%" PRIu64, one->token);
        printf("}");
    }
    printf("]");
}

static void add_json(struct tn_text *text, const struct tn_shown *shown)
{
    const struct tn_store_lease *lease = shown->lease;
    const struct tn_store_record *record = &lease->record;
    tenure_ns ago = renewed_ago(shown->store, record);

    tn_text_add(text, "{\"name\":");
    tn_json_string(text, lease->name, strlen(lease->name));
    tn_text_addf(text, ",\"state\":\"%s\",\"holder\":", record->held ? "held" : "free");
    if (record->held)
        tn_json_string(text, record->label, record->label_len);
    else
        tn_text_add(text, "null");
    tn_text_addf(text, ",\"token\":%" PRIu64 ",\"ttl_ms\":%" PRId64 ",\"remaining_ms\":%" PRId64,
                 record->token, record->ttl / TN_MS(1), record->remaining / TN_MS(1));
    if (shown->asked.kind != TN_NOTE_NONE)
        tn_text_addf(text, ",\"asked\":\"%s\"", tn_asked_word(shown->asked.kind));
    if (shown->asked.to != NULL) {
        tn_text_add(text, ",\"asked_to\":");
        tn_json_string(text, shown->asked.to, strlen(shown->asked.to));
    }
    if (lease->since > 0)
        tn_text_addf(text, ",\"since_ms\":%" PRId64, lease->since);
    if (ago >= 0)
        tn_text_addf(text, ",\"renewed_ago_ms\":%" PRId64, ago / TN_MS(1));
    size_t waiting = count_waiting(shown);
    if ((lease->counted || shown->waiting.known) && (record->held || waiting > 0))
        tn_text_addf(text, ",\"waiting\":%zu", waiting);
    if (record->revoked)
        tn_text_add(text, ",\"revoked\":true");
}

static void add_asked(struct tn_text *text, const struct tn_asked *asked)
{
    if (asked->kind == TN_NOTE_HANDOVER)
        tn_text_add(text, ", asked to hand over");
    if (asked->to != NULL) {
        tn_text_add(text, " to ");
        tn_text_escape(text, asked->to, strlen(asked->to));
    }
    if (asked->kind == TN_NOTE_STAND_DOWN)
        tn_text_add(text, ", stands down");
    if (asked->kind == TN_NOTE_DRAIN)
        tn_text_add(text, ", its node is drained");
}

static void add_text(struct tn_text *text, const struct tn_shown *shown)
{
    const struct tn_store_record *record = &shown->lease->record;
    tenure_ns ago = renewed_ago(shown->store, record);
    char remaining[TN_DURATION_TEXT], ttl[TN_DURATION_TEXT], since[TN_INSTANT_TEXT];

    tn_text_addf(text, "%s: ", shown->lease->name);
    if (!record->held && record->token == 0) {
        tn_text_add(text, "free, never held");
    } else if (!record->held) {
        tn_text_addf(text, "free, last token %" PRIu64, record->token);
        if (shown->store->ops->delay_most > 0)
            tn_text_addf(text, ", a lock-delay of up to %s may keep it back",
                         tn_cli_duration(ttl, shown->store->ops->delay_most));
    } else {
        tn_text_add(text, "held by ");
        tn_text_escape(text, record->label, record->label_len);
        tn_text_addf(text, ", token %" PRIu64, record->token);
        if (record->ttl > 0) /* Not every store tells it to others. */
            tn_text_addf(text, ", %s left of %s", tn_cli_span(remaining, record->remaining),
                         record->ttl % TN_SEC(1) == 0 ? tn_cli_duration(ttl, record->ttl)
                                                      : tn_cli_span(ttl, record->ttl));
        if (shown->lease->since > 0)
            tn_text_addf(text, ", since %s", tn_cli_instant(since, shown->lease->since));
        if (ago >= 0)
            tn_text_addf(text, ", renewed %s ago", tn_cli_span(ttl, ago));
        if (record->revoked)
            tn_text_add(text, ", revoked");
    }
    add_asked(text, &shown->asked);
    size_t waiting = count_waiting(shown), named = shown->waiting.count;
    if (waiting > 0)
        tn_text_addf(text, ", %zu waiting", waiting);
    for (size_t i = 0; i < named && i < NAMED_MOST; i++) {
        const struct tn_store_record *one = &shown->waiting.line[i].record;
        tn_text_add(text, i > 0 ? ", " : ": ");
        tn_text_escape(text, one->label, one->label_len);
        if (one->token > 0)
            tn_text_addf(text, " (priority %" PRIu64 ")", one->token);
    }
    if (named > 0 && waiting > NAMED_MOST)
        tn_text_addf(text, " and %zu more", waiting - NAMED_MOST);
}

void tn_cli_lease_print(const struct tn_shown *shown, bool json)
{
    char line[LINE];
    struct tn_text text;

    tn_text_init(&text, line, sizeof line);
    if (json)
        add_json(&text, shown);
    else
        add_text(&text, shown);
    TN_ASSERT(!tn_text_truncated(&text));
    printf("%s", line);
    if (json && shown->waiting.known && shown->waiting.count > 0)
        print_line_json(&shown->waiting);
    printf(json ? "}\n" : "\n");
}

const char *tn_cli_instant(char buf[TN_INSTANT_TEXT], int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts;

    if (ms <= 0 || localtime_r(&seconds, &parts) == NULL ||
        strftime(buf, TN_INSTANT_TEXT, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        (void)snprintf(buf, TN_INSTANT_TEXT, "-");
    return buf;
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

void tn_cli_plan_store(struct tn_plan *plan, const struct tn_store_ops *ops)
{
    plan->slack = ops->slack;
    plan->slop_ttls = ops->slop_ttls;
    plan->delay_most = ops->delay_most;
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
