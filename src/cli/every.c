/* every.c - `tenure run --every`; every.h has the contract. */
#define _GNU_SOURCE
#include "cli/every.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/duration.h"
#include "base/final.h"
#include "base/sha256.h"
#include "base/time.h"

/* How long the mark is tried to be written, and the pause between two attempts. */
#define NOTE_PATIENCE TN_SEC(5)
#define NOTE_AGAIN TN_MS(250)

/* "2026-11-18T03:00:01.500Z" behind an '@'. */
enum { INSTANT = 24 };

int tn_every_check(struct tn_every *every, const char *name, const char *url)
{
    const struct tn_store_ops *ops = tn_campaign_store(url);
    char longest[TN_DURATION_TEXT], period[TN_DURATION_TEXT];

    if (every->period == 0)
        return -1;
    every->url = url;
    if (strlen(name) > TN_NAME_MAX - strlen(TN_NOTE_EVERY))
        return tn_cli_fail(TN_EXIT_USAGE, "run",
                           "--every: the name has %zu characters; with --every it may have %zu",
                           strlen(name), TN_NAME_MAX - strlen(TN_NOTE_EVERY));
    (void)snprintf(every->name, sizeof every->name, TN_NOTE_EVERY "%s", name);
    if (ops == NULL)
        return -1; /* Opening the store says why. */
    if ((ops->caps & (TN_STORE_BOUND | TN_STORE_LOCAL)) != 0)
        return tn_cli_fail(TN_EXIT_USAGE, "run",
                           "--every: in %s: nothing outlives the process that ran the command, so "
                           "the store cannot remember the run; use --skip-if-held with --hold, or "
                           "another store",
                           ops->scheme);
    if (every->period > ops->ttl_max)
        return tn_cli_fail(TN_EXIT_USAGE, "run",
                           "--every: %s is too long: %s: remembers a run for %s at most; for a "
                           "longer period let cron start it less often",
                           tn_cli_duration(period, every->period), ops->scheme,
                           tn_cli_duration(longest, ops->ttl_max));
    return -1;
}

/* --- The label ------------------------------------------------------------------------------ */

/* The only comparison of wall clocks: cron's own, on which all of these hosts run. */
static tenure_ns every_wall_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (tenure_ns)now.tv_sec * TN_SEC(1) + now.tv_nsec;
}

static void every_format(char label[TN_LABEL_MAX + 1], const char *id, tenure_ns wall)
{
    time_t seconds = (time_t)(wall / TN_SEC(1));
    char instant[INSTANT];
    struct tn_text text;
    struct tm tm;

    (void)gmtime_r(&seconds, &tm);
    (void)strftime(instant, sizeof instant, "%Y-%m-%dT%H:%M:%S", &tm);
    tn_text_init(&text, label, TN_LABEL_MAX + 1);
    tn_text_addf(&text, "%.*s@%s.%03dZ", TN_LABEL_MAX - INSTANT - 1, id, instant,
                 (int)(wall / TN_MS(1) % 1000));
}

/* False: the label is not one of ours. */
static bool every_parse(const struct tn_store_record *record, tenure_ns *ret_wall)
{
    struct tm tm = { 0 };
    uint32_t len = record->label_len;

    if (len <= INSTANT || record->label[len - INSTANT - 1] != '@')
        return false;
    const char *rest = strptime(record->label + len - INSTANT, "%Y-%m-%dT%H:%M:%S", &tm);
    if (rest == NULL || rest[0] != '.' || rest + 5 != record->label + len)
        return false;
    int ms = (rest[1] - '0') * 100 + (rest[2] - '0') * 10 + (rest[3] - '0');
    *ret_wall = (tenure_ns)timegm(&tm) * TN_SEC(1) + TN_MS(ms);
    return true;
}

/* What the mark is taken and given back with. */
static void every_secrets(const struct tn_every *every, const char *label, struct tn_op *op)
{
    char text[TN_NAME_MAX + TN_LABEL_MAX + 2];
    uint8_t digest[TN_SHA256_SIZE];

    int len = snprintf(text, sizeof text, "%s %s", every->name, label);
    tn_sha256(text, (size_t)len, digest);
    memcpy(op->session.bytes, digest, sizeof op->session.bytes);
    memcpy(op->term.bytes, digest + sizeof op->session.bytes, sizeof op->term.bytes);
}

/* --- The mark ------------------------------------------------------------------------------- */

static struct tn_op every_op(const struct tn_every *every, enum tn_op_kind kind)
{
    return (struct tn_op) { .kind = kind,
                            .name = every->name,
                            .name_len = (uint32_t)strlen(every->name) };
}

static int every_read(struct tn_every *every, struct tn_store_req *ret_req)
{
    struct tn_op op = every_op(every, TN_OP_READ);

    return tn_cli_ask(&every->store, &op, ret_req);
}

static bool every_is_over(const struct tn_every *every, const struct tn_store_record *record)
{
    tenure_ns wall;

    if (!record->held || record->revoked)
        return true;
    return every_parse(record, &wall) && every_wall_now() - wall >= every->period;
}

enum tn_every_answer tn_every_ask(struct tn_every *every, int *ret_status)
{
    struct tn_store_req req;
    int status = every->open ? -1 : tn_cli_store_open("run", every->url, true, 0, &every->store);

    if (status >= 0) {
        *ret_status = status;
        return TN_EVERY_FAILED;
    }
    every->open = true;
    int rc = every_read(every, &req);
    if (rc == 0)
        return every_is_over(every, &req.record) ? TN_EVERY_DUE : TN_EVERY_DONE;
    if (tn_error_is_final(rc) || rc == TENURE_E_DENIED) {
        *ret_status = tn_cli_store_fail("run", rc, req.error);
        return TN_EVERY_FAILED;
    }
    if (!every->told)
        (void)tn_cli_fail(0, "run", "%s: no answer, asking again: %s", every->name, req.error);
    every->told = true;
    return TN_EVERY_UNKNOWN;
}

/* The mark of an earlier period that the store still keeps. */
static int every_clear(struct tn_every *every, struct tn_store_req *ret_req)
{
    struct tn_op release = every_op(every, TN_OP_RELEASE);
    struct tn_op close = { .kind = TN_OP_CLOSE };

    int rc = every_read(every, ret_req);
    if (rc < 0 || !ret_req->record.held)
        return rc;
    every_secrets(every, ret_req->record.label, &release);
    release.token = ret_req->record.token;
    close.session = release.session;
    rc = tn_cli_ask(&every->store, &release, ret_req);
    return rc < 0 ? rc : tn_cli_ask(&every->store, &close, ret_req);
}

static tenure_ns every_clamp(tenure_ns value, const struct tn_store_ops *ops)
{
    if (value < ops->ttl_min)
        return ops->ttl_min;
    return value < ops->ttl_max ? value : ops->ttl_max;
}

/* Returns 0 when the mark is there. Said twice, it is the same mark. */
static int every_write(struct tn_every *every, const char *label, tenure_ns ttl,
                       struct tn_store_req *ret_req)
{
    struct tn_op open = {
        .kind = TN_OP_OPEN, .ttl = ttl, .label = label, .label_len = (uint32_t)strlen(label)
    };
    struct tn_op acquire = every_op(every, TN_OP_ACQUIRE);

    every_secrets(every, label, &acquire);
    open.session = acquire.session;
    int rc = tn_cli_ask(&every->store, &open, ret_req);
    if (rc == 0)
        rc = tn_cli_ask(&every->store, &acquire, ret_req);
    if (rc == 0 && ret_req->answer == TN_ANSWER_HELD) {
        rc = every_clear(every, ret_req);
        if (rc == 0)
            rc = tn_cli_ask(&every->store, &acquire, ret_req);
    }
    if (rc < 0 || ret_req->answer == TN_ANSWER_GRANTED)
        return rc;
    (void)snprintf(ret_req->error, sizeof ret_req->error, "%s cannot be replaced", every->name);
    return TENURE_E_DENIED;
}

void tn_every_note(struct tn_every *every, struct tenure_election *election, tenure_ns started)
{
    tenure_ns now = tn_boottime();
    tenure_ns left = started + every->period - now;
    char label[TN_LABEL_MAX + 1];
    struct tn_store_req req;
    int rc = TENURE_E_EXPIRED;

    if (every->period == 0 || left <= 0)
        return;
    req.error[0] = '\0';
    every_format(label, every->label, every_wall_now() - (now - started));
    while (tenure_token(election) != 0) {
        rc = every_write(every, label, every_clamp(left, every->store.ops), &req);
        if ((rc != TENURE_E_UNAVAILABLE && rc != TENURE_E_TIMEOUT) ||
            tn_boottime() - now >= NOTE_PATIENCE)
            break;
        tn_clock_pause(NOTE_AGAIN);
    }
    if (rc < 0) /* Also with --quiet. */
        (void)tn_cli_fail(TN_EXIT_UNAVAILABLE, "run",
                          "the command succeeded, but the store does not remember it, so "
                          "it may run again within --every: %s",
                          req.error[0] != '\0' ? req.error : tenure_strerror(rc));
}

void tn_every_close(struct tn_every *every)
{
    if (every->open)
        tn_cli_store_close(&every->store);
    every->open = false;
}
