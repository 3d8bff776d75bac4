/* store.c - the store behind the verbs: found by its URL, asked, and its answers shown.
 *
 * Happy path: the URL names a scheme, the rest a path; the file is opened. What can fail: the URL
 * (exit 64, and no file is made), and the store (69, or 77 when it is not ours to open). */
#define _GNU_SOURCE
#include "cli/store.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/time.h"
#include "base/url.h"
#include "stores/registry.h"

/* A lease as JSON: name and label, each byte of them escaped, and the rest. */
enum { LINE = 4096 };

#define RETRY_EVERY TN_MS(250)

int tn_cli_store_fail(const char *verb, int error, const char *text)
{
    int status = TN_EXIT_UNAVAILABLE;

    if (error == TENURE_E_DENIED)
        status = TN_EXIT_DENIED;
    else if (error == TENURE_E_INVALID)
        status = TN_EXIT_USAGE;
    return tn_cli_fail(status, verb, "%s", text[0] != '\0' ? text : tenure_strerror(error));
}

/* --- The URL -------------------------------------------------------------------------------- */

static int path_of(const char *verb, const char *url, bool create, char *ret_path)
{
    static const char scheme[] = "sqlite:";
    const struct tn_store_ops *ops;
    const char *rest;
    char buf[TN_CLI_LINE_MAX];
    char reason[256], shown[256];
    struct tn_text text;
    struct tn_text error;
    int rc = TENURE_E_INVALID;

    tn_text_init(&error, reason, sizeof reason);
    if (strncmp(url, scheme, sizeof scheme - 1) == 0)
        rc = tn_sqlite_path(url + sizeof scheme - 1, create, ret_path, &error);
    else if (tn_store_find(url, &ops, &rest, &error) == 0)
        tn_text_add(&error, "is for run, elect and watch NAME; here write sqlite:PATH");
    else {
        tn_text_init(&error, reason, sizeof reason);
        tn_text_add(&error, "is not a store that this tenure knows; write sqlite:PATH");
    }
    if (rc == 0)
        return -1;
    tn_text_init(&text, buf, sizeof buf);
    if (rc == TENURE_E_INVALID) {
        tn_text_add(&text, "--store: ");
        tn_cli_quote(&text, tn_url_public(url, shown, sizeof shown));
        tn_text_add(&text, " ");
    }
    tn_text_add(&text, reason);
    return tn_cli_fail(TN_EXIT_USAGE, verb, "%s", buf);
}

/* The folder of the default store may be missing as well; then nothing was ever held. Where a
 * journal is left, something was: that is for the store to refuse. */
static bool is_missing(const char *path)
{
    char journal[PATH_MAX + 16];
    struct stat st;

    (void)snprintf(journal, sizeof journal, "%s-journal", path);
    return lstat(path, &st) != 0 && errno == ENOENT && lstat(journal, &st) != 0 && errno == ENOENT;
}

int tn_cli_store_open(const char *verb, const char *url, bool create, tenure_ns wait,
                      struct tn_cli_store *ret_store)
{
    struct tn_cli_store store = { .verb = verb };
    struct tn_sqlite_options options = { .clock = &store.clock, .create = create };
    char path[PATH_MAX];
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    if (url == NULL)
        url = getenv("TENURE_STORE");
    if (url == NULL || url[0] == '\0')
        url = "sqlite:";
    int status = path_of(verb, url, create, path);
    if (status >= 0)
        return status;
    int rc = tn_clock_init(&store.clock);
    if (rc < 0)
        return tn_cli_store_fail(verb, rc, "/proc does not tell which boot this is");
    store.start = tn_clock_now(&store.clock);
    while (create || !is_missing(path)) {
        tn_text_init(&error, buf, sizeof buf);
        rc = tn_sqlite_open(path, &options, &store.sqlite, &error);
        if (rc != TENURE_E_UNAVAILABLE || tn_clock_now(&store.clock) - store.start >= wait)
            break;
        tn_clock_pause(RETRY_EVERY);
    }
    if (rc < 0 && !(rc == TENURE_E_NOT_HELD && !create))
        return tn_cli_store_fail(verb, rc, buf);
    *ret_store = store;
    return -1;
}

void tn_cli_store_close(struct tn_cli_store *store)
{
    tn_sqlite_close(store->sqlite);
    store->sqlite = NULL;
}

int tn_cli_step(struct tn_cli_store *store, const struct tn_op *op,
                struct tn_sqlite_result *ret_result)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    TN_ASSERT(store->sqlite != NULL);
    tn_text_init(&error, buf, sizeof buf);
    int rc = tn_sqlite_step(store->sqlite, op, ret_result, &error);
    return rc < 0 ? tn_cli_store_fail(store->verb, rc, buf) : -1;
}

/* --- Words ---------------------------------------------------------------------------------- */

int tn_cli_name(const struct tn_command *command, const char **ret_name)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;
    const char *reason;

    if (command->rest_count == 0)
        return tn_cli_fail(TN_EXIT_USAGE, command->verb,
                           "the name of the lease is missing, as in 'tenure %s nightly-report'",
                           command->verb);
    const char *name = command->rest[0];
    if (tn_name_check(name, strlen(name), &reason) == 0) {
        *ret_name = name;
        return -1;
    }
    tn_text_init(&text, buf, sizeof buf);
    tn_cli_quote(&text, name);
    tn_text_addf(&text, " is not a name: %s", reason);
    return tn_cli_fail(TN_EXIT_USAGE, command->verb, "%s", buf);
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

static void add_json(struct tn_text *text, const struct tn_sqlite_lease *lease)
{
    tn_text_add(text, "{\"name\":");
    tn_json_string(text, lease->name, strlen(lease->name));
    tn_text_addf(text, ",\"state\":\"%s\",\"holder\":", lease->held ? "held" : "free");
    if (lease->held)
        tn_json_string(text, lease->label, lease->label_len);
    else
        tn_text_add(text, "null");
    tn_text_addf(text,
                 ",\"token\":%" PRIu64 ",\"ttl_ms\":%" PRId64 ",\"remaining_ms\":%" PRId64 "}",
                 lease->token, lease->ttl / TN_MS(1), lease->remaining / TN_MS(1));
}

static void add_text(struct tn_text *text, const struct tn_sqlite_lease *lease)
{
    char remaining[TN_DURATION_TEXT];
    char ttl[TN_DURATION_TEXT];

    tn_text_addf(text, "%s: ", lease->name);
    if (!lease->held && lease->token == 0) {
        tn_text_add(text, "free, never held");
    } else if (!lease->held) {
        tn_text_addf(text, "free, last token %" PRIu64, lease->token);
    } else {
        tn_text_add(text, "held by ");
        tn_text_escape(text, lease->label, lease->label_len);
        tn_text_addf(text, ", token %" PRIu64 ", %s left of %s", lease->token,
                     tn_cli_duration(remaining, lease->remaining),
                     tn_cli_duration(ttl, lease->ttl));
    }
}

void tn_cli_lease_print(const struct tn_sqlite_lease *lease, bool json)
{
    char line[LINE];
    struct tn_text text;

    tn_text_init(&text, line, sizeof line);
    if (json)
        add_json(&text, lease);
    else
        add_text(&text, lease);
    TN_ASSERT(!tn_text_truncated(&text));
    printf("%s\n", line);
}

int tn_cli_list_print(struct tn_cli_store *store, const char *prefix, bool json)
{
    struct tn_sqlite_lease *leases = NULL;
    size_t count = 0;
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    if (store->sqlite == NULL)
        return -1;
    tn_text_init(&error, buf, sizeof buf);
    int rc = tn_sqlite_list(store->sqlite, prefix, &leases, &count, &error);
    if (rc < 0)
        return tn_cli_store_fail(store->verb, rc, buf);
    for (size_t i = 0; i < count; i++)
        tn_cli_lease_print(&leases[i], json);
    free(leases);
    return -1;
}

int tn_cli_label(const char *verb, const char *id, char buf[TN_LABEL_MAX + 1])
{
    char host[128] = "";

    if (id != NULL && strlen(id) > TN_LABEL_MAX)
        return tn_cli_fail(TN_EXIT_USAGE, verb, "--id: at most %d bytes", TN_LABEL_MAX);
    if (id == NULL && (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0'))
        (void)snprintf(host, sizeof host, "host");
    if (id != NULL)
        (void)snprintf(buf, TN_LABEL_MAX + 1, "%s", id);
    else
        (void)snprintf(buf, TN_LABEL_MAX + 1, "%s-%ld", host, (long)getpid());
    return -1;
}

int tn_cli_check_plan(const char *verb, const struct tn_plan *plan)
{
    struct tn_plan_answer answer;
    char left[TN_DURATION_TEXT], right[TN_DURATION_TEXT];
    enum tn_plan_verdict verdict = tn_plan_judge(plan, &answer);
    bool p1 = verdict == TN_PLAN_BREAKS_P1;

    if (verdict == TN_PLAN_SAFE)
        return -1;
    return tn_cli_fail(TN_EXIT_USAGE, verb,
                       "%s, by P%d: %s is not at most %s; 'tenure plan' shows the arithmetic",
                       p1 ? "two leaders could overlap" : "one lost renewal would cost the term",
                       p1 ? 1 : 8, tn_cli_duration(left, p1 ? answer.p1_left : answer.p8_left),
                       tn_cli_duration(right, p1 ? answer.p1_right : answer.p8_right));
}
