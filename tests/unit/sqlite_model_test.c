/* sqlite_model_test.c - the embedded store answers like the lease table, over random operations.
 *
 * Each candidate asks for one name only, and both sides clear away what has expired after every
 * move of the clock: in which order several vacancies of one instant are filled is left open. */
#define _GNU_SOURCE /* mkdtemp */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/prng.h"
#include "base/time.h"
#include "core/lease_table.h"
#include "tests/unit/sqlite_sync.h"

enum { CANDIDATES = 8, STEPS = 4000, TOKENS = STEPS + 1 };

struct world {
    struct tn_table *table;
    struct tn_sqlite *store;
    struct tn_prng prng;
    uint32_t lives[CANDIDATES]; /* A candidate that was lost comes back as another. */
    uint32_t terms[CANDIDATES];
    uint64_t tokens[CANDIDATES];
    bool released[TOKENS];
    int compared[TN_ANSWER_FULL + 1];
    int superseded;
};

static tenure_ns model_now;

static tenure_ns read_model_clock(void *arg)
{
    (void)arg;
    return model_now;
}

static struct tn_secret make_secret(uint32_t who, uint32_t number)
{
    struct tn_secret secret = { { 1, (uint8_t)who } };

    memcpy(secret.bytes + 4, &number, sizeof number);
    return secret;
}

static enum tn_answer ask_store(struct world *world, const struct tn_op *op, uint64_t *ret_token)
{
    struct tn_sqlite_result result;
    struct tn_text error;
    char text[256];

    tn_text_init(&error, text, sizeof text);
    int rc = sync_step(world->store, op, &result, &error);
    CHECK_STR(text, "");
    CHECK_EQ_I64(rc, 0);
    *ret_token = result.lease.record.token;
    return result.answer;
}

/* Time passes, and both sides work off what is due. */
static void advance(struct world *world)
{
    struct tn_op op = { .kind = TN_OP_TICK };
    struct tn_result result;
    uint64_t ignored;

    model_now += tn_prng_range(&world->prng, 1, TN_MS(700));
    do
        tn_table_step(world->table, model_now, &op, &result);
    while (tn_table_wake_at(world->table) <= model_now);
    CHECK_EQ_I64(ask_store(world, &op, &ignored), TN_ANSWER_OK);
}

static struct tn_op make_op(struct world *world, uint32_t who)
{
    static const enum tn_op_kind kinds[] = { TN_OP_OPEN,    TN_OP_RENEW,   TN_OP_RENEW,
                                             TN_OP_ACQUIRE, TN_OP_ACQUIRE, TN_OP_ACQUIRE,
                                             TN_OP_RELEASE, TN_OP_RELEASE, TN_OP_READ,
                                             TN_OP_CLOSE };
    struct tn_prng *prng = &world->prng;
    struct tn_op op = { .kind = kinds[tn_prng_below(prng, sizeof kinds / sizeof kinds[0])] };

    if (op.kind == TN_OP_CLOSE && !tn_prng_ppm(prng, 200000))
        op.kind = TN_OP_RENEW;
    op.session = make_secret(who, world->lives[who]);
    op.term = make_secret(who, world->terms[who]);
    if (op.kind == TN_OP_OPEN || op.kind == TN_OP_RENEW)
        op.seq = (uint64_t)model_now;
    if (op.kind == TN_OP_OPEN)
        op.ttl = TN_SEC(8);
    if (op.kind == TN_OP_ACQUIRE || op.kind == TN_OP_RELEASE || op.kind == TN_OP_READ) {
        op.name = who % 2 == 0 ? "even" : "odd";
        op.name_len = (uint32_t)strlen(op.name);
    }
    op.wait = tn_prng_ppm(prng, 500000);
    if (op.kind == TN_OP_ACQUIRE && who < 6 && tn_prng_ppm(prng, 900000))
        op.soft = (struct tn_soft) { .limit = TN_SEC(1), .fences = make_secret(who % 2, 7) };
    /* Mostly its own token, sometimes another's. */
    if (op.kind == TN_OP_RELEASE && tn_prng_ppm(prng, 800000))
        op.token = world->tokens[tn_prng_ppm(prng, 800000) ? who : tn_prng_below(prng, CANDIDATES)];
    return op;
}

/* Where the store says more about a release than the table: it knows how a term ended, and needs no
 * session to know it (sqlite.h). */
static bool is_told_better(const struct world *world, const struct tn_op *op,
                           enum tn_answer expected, enum tn_answer answer)
{
    bool released = op->token < TOKENS && world->released[op->token];

    if (expected == TN_ANSWER_GONE || op->token == 0)
        return expected == TN_ANSWER_GONE;
    if (expected == TN_ANSWER_STALE && released)
        return answer == TN_ANSWER_RELEASED;
    return expected == TN_ANSWER_RELEASED && !released && answer == TN_ANSWER_STALE;
}

static void step_both(struct world *world)
{
    uint32_t who = (uint32_t)tn_prng_below(&world->prng, CANDIDATES);
    struct tn_op op = make_op(world, who);
    struct tn_result expected;
    uint64_t token;

    tn_table_step(world->table, model_now, &op, &expected);
    enum tn_answer answer = ask_store(world, &op, &token);
    if (op.kind != TN_OP_RELEASE || !is_told_better(world, &op, expected.answer, answer))
        CHECK_EQ_I64(answer, expected.answer);
    if (op.kind == TN_OP_ACQUIRE || op.kind == TN_OP_READ) {
        if (expected.answer != TN_ANSWER_GONE)
            CHECK_EQ_U64(token, expected.token);
    }
    world->compared[expected.answer]++;
    world->superseded += expected.rested != 0;
    if (expected.answer == TN_ANSWER_GRANTED)
        world->tokens[who] = expected.token;
    if (answer == TN_ANSWER_RELEASED && op.token < TOKENS)
        world->released[op.token > 0 ? op.token : world->tokens[who]] = true;
    bool lost = expected.answer == TN_ANSWER_GONE || op.kind == TN_OP_CLOSE;
    if (lost)
        world->lives[who]++;
    /* A release is now and then said again. */
    if (lost || expected.answer == TN_ANSWER_STALE ||
        (expected.answer == TN_ANSWER_RELEASED && tn_prng_ppm(&world->prng, 500000)))
        world->terms[who]++;
}

/* Memory is faster than a disk, and what is flushed does not matter here. */
static void make_folder(char *folder, size_t size)
{
    (void)snprintf(folder, size, "%s/tn-model-......",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    memset(strchr(folder, '.'), 'X', 6);
    CHECK(mkdtemp(folder) != NULL);
}

TEST(the_store_answers_like_the_lease_table)
{
    static struct world world;
    struct tn_table_limits limits = {
        .sessions = 64, .leases = 8, .waiters = 64, .text_bytes = 4096, .hash_key = { 1, 2 }
    };
    struct tn_clock clock = { .now = read_model_clock, .domain = "boot" };
    char text[256];
    struct tn_text error;
    char folder[64];
    char path[96];

    make_folder(folder, sizeof folder);
    (void)snprintf(path, sizeof path, "%s/t.db", folder);
    tn_text_init(&error, text, sizeof text);
    model_now = TN_SEC(100);
    tn_prng_seed(&world.prng, 7);
    void *block = calloc(1, tn_table_size(&limits));
    world.table = tn_table_init(block, &limits);
    CHECK_EQ_I64(sync_open(path, &clock, true, &world.store, &error), 0);
    for (int i = 0; i < STEPS; i++) {
        advance(&world);
        step_both(&world);
    }
    /* Every answer was met, or this proves little. */
    for (enum tn_answer answer = 0; answer < TN_ANSWER_FULL; answer++)
        CHECK(world.compared[answer] > 0);
    CHECK(world.compared[TN_ANSWER_GRANTED] > 100);
    CHECK(world.superseded > 20);
    tn_sqlite_close(world.store);
    free(block);
    static const char *const suffixes[] = { "", "-journal", "-bell" };
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        char file[128];
        (void)snprintf(file, sizeof file, "%s%s", path, suffixes[i]);
        (void)unlink(file);
    }
    (void)rmdir(folder);
}
