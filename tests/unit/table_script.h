/* table_script.h - a lease table under test: feed it one operation, get its reply as text.
 *
 * Sessions are letters, their terms small numbers; TTL 10 s, all times in milliseconds. A reply
 * reads "released; grant B1 x 2; x held 2": the answer, then the notices - session B's term 1 was
 * granted x under token 2, and all are told so. "line x": at an agent, the line of the free name x
 * has its first waiter, or none. */
#ifndef TN_TESTS_UNIT_TABLE_SCRIPT_H
#define TN_TESTS_UNIT_TABLE_SCRIPT_H

#include "tests/harness/test.h"

#include <string.h>

#include "base/text.h"
#include "core/lease_table.h"

static uint64_t block[1 << 18];
static struct tn_table_limits limits;
static struct tn_table *table;
static struct tn_result result;
static uint64_t seqs[256]; /* The newest attempt of each session. */
static char transcript[512];

static inline void start_with(struct tn_table_limits wanted)
{
    size_t size = tn_table_size(&wanted);

    CHECK(size <= sizeof block);
    memset(block, 0, size);
    memset(seqs, 0, sizeof seqs);
    limits = wanted;
    table = tn_table_init(block, &limits);
}

static inline void start(void)
{
    start_with((struct tn_table_limits) {
        .sessions = 32, .leases = 32, .waiters = 32, .text_bytes = 4096, .hash_key = { 1, 2 } });
}

static inline struct tn_secret secret_of(int letter)
{
    struct tn_secret secret;
    memset(secret.bytes, letter, sizeof secret.bytes);
    return secret;
}

static inline void add_notice(struct tn_text *text, const struct tn_notice *notice)
{
    struct tn_lease_view view;

    tn_table_lease(table, notice->lease, &view);
    tn_text_add(text, "; ");
    if (notice->kind == TN_NOTICE_LINE) {
        tn_text_add(text, "line ");
        tn_text_add_bytes(text, view.name, view.name_len);
        return;
    }
    if (notice->kind == TN_NOTICE_CHANGED) {
        tn_text_add_bytes(text, view.name, view.name_len);
        tn_text_add(text, notice->held ? " held " : " free ");
    } else {
        tn_text_addf(text, "%s %c%u ", notice->kind == TN_NOTICE_GRANTED ? "grant" : "revoke",
                     notice->session.bytes[0], (unsigned)notice->term.bytes[0]);
        tn_text_add_bytes(text, view.name, view.name_len);
        tn_text_add(text, " ");
    }
    tn_text_addf(text, "%llu", (unsigned long long)notice->token);
    if (notice->kind == TN_NOTICE_REVOKED)
        tn_text_addf(text, " #%u", (unsigned)notice->revocation);
}

static inline const char *feed(int64_t at_ms, struct tn_op op)
{
    static const char *const answers[] = { "ok",       "granted", "queued", "held", "free",
                                           "released", "stale",   "denied", "gone", "full" };
    struct tn_text text;

    tn_table_step(table, TN_MS(at_ms), &op, &result);
    CHECK(result.count <= TN_TABLE_NOTICES);
    tn_text_init(&text, transcript, sizeof transcript);
    tn_text_add(&text, answers[result.answer]);
    if (result.answer == TN_ANSWER_GRANTED || result.answer == TN_ANSWER_HELD ||
        result.answer == TN_ANSWER_FREE)
        tn_text_addf(&text, " %llu", (unsigned long long)result.token);
    for (uint32_t i = 0; i < result.count; i++)
        add_notice(&text, &result.list[i]);
    tn_text_add(&text, result.more ? "; more" : "");
    return tn_text_str(&text);
}

static inline struct tn_op op_on(enum tn_op_kind kind, const char *name)
{
    return (struct tn_op) { .kind = kind, .name = name, .name_len = (uint32_t)strlen(name) };
}

static inline struct tn_op op_by(enum tn_op_kind kind, int who, int term, const char *name)
{
    struct tn_op op = op_on(kind, name);
    op.session = secret_of(who);
    op.term = secret_of(term);
    op.term.bytes[1] = (uint8_t)who; /* No two sessions share a term's secret. */
    return op;
}

static inline struct tn_op open_of(int who)
{
    struct tn_op op = op_by(TN_OP_OPEN, who, 0, "");
    op.seq = ++seqs[who];
    op.ttl = TN_SEC(10);
    op.label = "host-1";
    op.label_len = 6;
    return op;
}

static inline const char *opens(int64_t at_ms, int who)
{
    return feed(at_ms, open_of(who));
}

/* @seen: the highest revocation that @who knows of. */
static inline const char *renews(int64_t at_ms, int who, uint64_t seen)
{
    struct tn_op op = op_by(TN_OP_RENEW, who, 0, "");
    op.seq = ++seqs[who];
    op.seen = seen;
    return feed(at_ms, op);
}

static inline const char *closes(int64_t at_ms, int who)
{
    return feed(at_ms, op_by(TN_OP_CLOSE, who, 0, ""));
}

static inline const char *acquires(int64_t at_ms, int who, int term, const char *name)
{
    return feed(at_ms, op_by(TN_OP_ACQUIRE, who, term, name));
}

static inline const char *waits(int64_t at_ms, int who, int term, const char *name)
{
    struct tn_op op = op_by(TN_OP_ACQUIRE, who, term, name);
    op.wait = true;
    return feed(at_ms, op);
}

static inline const char *releases(int64_t at_ms, int who, int term, const char *name,
                                   uint64_t token)
{
    struct tn_op op = op_by(TN_OP_RELEASE, who, term, name);
    op.token = token;
    return feed(at_ms, op);
}

static inline const char *reads(int64_t at_ms, const char *name)
{
    return feed(at_ms, op_on(TN_OP_READ, name));
}

static inline const char *revokes(int64_t at_ms, const char *name, uint64_t token)
{
    struct tn_op op = op_on(TN_OP_REVOKE, name);
    op.token = token;
    return feed(at_ms, op);
}

static inline const char *raises(int64_t at_ms, uint64_t token)
{
    return feed(at_ms, (struct tn_op) { .kind = TN_OP_RAISE, .token = token });
}

static inline const char *tick(int64_t at_ms)
{
    return feed(at_ms, (struct tn_op) { .kind = TN_OP_TICK });
}

/* -1: never. */
static inline int64_t wakes_at(void)
{
    tenure_ns at = tn_table_wake_at(table);
    return at == TN_NEVER ? -1 : at / TN_MS(1);
}

/* Sessions A, B and C, opened at 0. */
static inline void start_three(void)
{
    start();
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_STR(opens(0, 'B'), "ok");
    CHECK_STR(opens(0, 'C'), "ok");
}

/* As above; A's term 1 holds x under token 1. */
static inline void start_held(void)
{
    start_three();
    CHECK_STR(acquires(100, 'A', 1, "x"), "granted 1; x held 1");
}

#endif
