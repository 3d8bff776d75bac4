/* sqlite_test.c - the embedded store has the rules of the lease table, and never trusts a file. */
#define _GNU_SOURCE /* mkdtemp */
#include "tests/harness/test.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "tests/unit/sqlite_sync.h"

static char folder[64];
static char path[128];
static tenure_ns fake_now;

static char error_text[512];
static struct tn_text error;

static tenure_ns read_fake(void *arg)
{
    return *(tenure_ns *)arg;
}

static const struct tn_clock *fake_clock(const char *domain)
{
    static struct tn_clock clock;

    clock = (struct tn_clock) { .now = read_fake, .arg = &fake_now };
    (void)snprintf(clock.domain, sizeof clock.domain, "%s", domain);
    return &clock;
}

/* A fresh folder, a fresh clock; what the test before left is removed. */
static void fresh(void)
{
    static const char *const suffixes[] = { "", "-journal", "-bell", ".link" };
    char file[160];

    for (size_t i = 0; folder[0] != '\0' && i < sizeof suffixes / sizeof suffixes[0]; i++) {
        (void)snprintf(file, sizeof file, "%s%s", path, suffixes[i]);
        (void)unlink(file);
    }
    if (folder[0] != '\0')
        (void)rmdir(folder);
    (void)snprintf(folder, sizeof folder, "/tmp/tn-sqlite-......");
    memset(strchr(folder, '.'), 'X', 6); /* What mkdtemp replaces. */
    CHECK(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof path, "%s/t.db", folder);
    fake_now = TN_SEC(1000);
}

static int try_open(const char *file, const char *domain, bool create, struct tn_sqlite **ret_store)
{
    tn_text_init(&error, error_text, sizeof error_text);
    return sync_open(file, fake_clock(domain), create, ret_store, &error);
}

static struct tn_sqlite *open_on(const char *domain)
{
    struct tn_sqlite *store = NULL;

    int rc = try_open(path, domain, true, &store);
    CHECK_STR(error_text, "");
    CHECK_EQ_I64(rc, 0);
    return store;
}

static struct tn_sqlite_result result;

static enum tn_answer step(struct tn_sqlite *store, struct tn_op op)
{
    tn_text_init(&error, error_text, sizeof error_text);
    op.name_len = op.name != NULL ? (uint32_t)strlen(op.name) : 0;
    op.label_len = op.label != NULL ? (uint32_t)strlen(op.label) : 0;
    int rc = sync_step(store, &op, &result, &error);
    CHECK_STR(error_text, "");
    CHECK_EQ_I64(rc, 0);
    return result.answer;
}

static struct tn_secret secret(int number)
{
    return (struct tn_secret) { { 1, (uint8_t)number } };
}

/* Candidate @who, by its number, with a session of its own. */
static enum tn_answer open_session(struct tn_sqlite *store, int who, tenure_ns ttl)
{
    return step(
        store,
        (struct tn_op) { .kind = TN_OP_OPEN, .session = secret(who), .ttl = ttl, .label = "who" });
}

static enum tn_answer acquire(struct tn_sqlite *store, int who, const char *name, bool wait)
{
    return step(store, (struct tn_op) { .kind = TN_OP_ACQUIRE,
                                        .session = secret(who),
                                        .term = secret(100 + who),
                                        .name = name,
                                        .wait = wait });
}

static enum tn_answer release(struct tn_sqlite *store, int who, const char *name, uint64_t token)
{
    return step(store, (struct tn_op) { .kind = TN_OP_RELEASE,
                                        .session = secret(who),
                                        .term = secret(100 + who),
                                        .name = name,
                                        .token = token });
}

static enum tn_answer renew(struct tn_sqlite *store, int who)
{
    return step(store, (struct tn_op) { .kind = TN_OP_RENEW, .session = secret(who) });
}

static enum tn_answer read_name(struct tn_sqlite *store, const char *name)
{
    return step(store, (struct tn_op) { .kind = TN_OP_READ, .name = name });
}

static void run_sql(const char *sql)
{
    sqlite3 *db = NULL;

    CHECK_EQ_I64(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_EQ_I64(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    CHECK_EQ_I64(sqlite3_close(db), SQLITE_OK);
}

/* --- Sessions and leases -------------------------------------------------------------------- */

TEST(a_lease_goes_from_holder_to_holder)
{
    fresh();
    struct tn_sqlite *store = open_on("boot");

    CHECK_EQ_I64(read_name(store, "job"), TN_ANSWER_FREE);
    CHECK_EQ_U64(result.lease.record.token, 0);
    CHECK_EQ_I64(acquire(store, 1, "job", false), TN_ANSWER_GONE);
    CHECK_EQ_I64(open_session(store, 1, TN_SEC(15)), TN_ANSWER_OK);
    CHECK_EQ_I64(open_session(store, 2, TN_SEC(15)), TN_ANSWER_OK);
    CHECK_EQ_I64(acquire(store, 1, "job", false), TN_ANSWER_GRANTED);
    CHECK_EQ_U64(result.lease.record.token, 1);
    CHECK_EQ_I64(acquire(store, 1, "job", false), TN_ANSWER_GRANTED);
    CHECK_EQ_U64(result.lease.record.token, 1);
    fake_now += TN_SEC(5);
    CHECK_EQ_I64(acquire(store, 2, "job", false), TN_ANSWER_HELD);
    CHECK_EQ_U64(result.lease.record.token, 1);
    CHECK_STR(result.lease.record.label, "who");
    CHECK_EQ_I64(result.lease.record.remaining, TN_SEC(10));
    CHECK_EQ_I64(release(store, 1, "job", 1), TN_ANSWER_RELEASED);
    CHECK_EQ_I64(release(store, 1, "job", 1), TN_ANSWER_RELEASED);
    CHECK_EQ_I64(acquire(store, 1, "job", false), TN_ANSWER_STALE);
    CHECK_EQ_I64(acquire(store, 2, "job", false), TN_ANSWER_GRANTED);
    CHECK_EQ_U64(result.lease.record.token, 2);
    /* Said again, after the lease has passed on: still the same answer. */
    CHECK_EQ_I64(release(store, 1, "job", 1), TN_ANSWER_RELEASED);
    CHECK_EQ_I64(read_name(store, "job"), TN_ANSWER_HELD);
    tn_sqlite_close(store);
}

TEST(a_release_is_exact)
{
    fresh();
    struct tn_sqlite *store = open_on("boot");

    CHECK_EQ_I64(open_session(store, 1, TN_SEC(15)), TN_ANSWER_OK);
    CHECK_EQ_I64(open_session(store, 2, TN_SEC(15)), TN_ANSWER_OK);
    CHECK_EQ_I64(acquire(store, 1, "job", false), TN_ANSWER_GRANTED);
    CHECK_EQ_I64(release(store, 2, "job", 1), TN_ANSWER_DENIED);
    CHECK_EQ_I64(release(store, 3, "job", 1), TN_ANSWER_DENIED);
    CHECK_EQ_I64(release(store, 1, "job", 2), TN_ANSWER_STALE);
    CHECK_EQ_I64(release(store, 1, "other", 1), TN_ANSWER_STALE);
    CHECK_EQ_I64(step(store, (struct tn_op) { .kind = TN_OP_RELEASE,
                                              .session = secret(1),
                                              .term = secret(7),
                                              .name = "job",
                                              .token = 1 }),
                 TN_ANSWER_DENIED);
    CHECK_EQ_I64(read_name(store, "job"), TN_ANSWER_HELD);
    fake_now += TN_SEC(15);
    CHECK_EQ_I64(release(store, 1, "job", 1), TN_ANSWER_STALE);
    CHECK_EQ_I64(read_name(store, "job"), TN_ANSWER_FREE);
    CHECK_EQ_U64(result.lease.record.token, 1);
    tn_sqlite_close(store);
}

TEST(a_session_ends_at_its_ttl_and_not_before)
{
    fresh();
    struct tn_sqlite *store = open_on("boot");

    CHECK_EQ_I64(open_session(store, 1, TN_SEC(15)), TN_ANSWER_OK);
    CHECK_EQ_I64(open_session(store, 2, TN_SEC(60)), TN_ANSWER_OK);
    CHECK_EQ_I64(acquire(store, 1, "job", false), TN_ANSWER_GRANTED);
    fake_now += TN_SEC(10);
    CHECK_EQ_I64(renew(store, 1), TN_ANSWER_OK);
    CHECK_EQ_I64(result.ttl, TN_SEC(15));
    fake_now += TN_SEC(15) - 1;
    CHECK_EQ_I64(acquire(store, 2, "job", false), TN_ANSWER_HELD);
    fake_now += 1;
    CHECK_EQ_I64(renew(store, 1), TN_ANSWER_GONE);
    CHECK_EQ_I64(acquire(store, 2, "job", false), TN_ANSWER_GRANTED);
    CHECK_EQ_U64(result.lease.record.token, 2);
    CHECK_EQ_I64(open_session(store, 1, TN_SEC(15)), TN_ANSWER_OK);
    CHECK_EQ_I64(release(store, 1, "job", 1), TN_ANSWER_STALE);
    tn_sqlite_close(store);
}

TEST(an_old_renewal_extends_nothing)
{
    fresh();
    struct tn_sqlite *store = open_on("boot");
    struct tn_op op = { .kind = TN_OP_RENEW, .session = secret(1), .seq = 9 };

    CHECK_EQ_I64(open_session(store, 1, TN_SEC(15)), TN_ANSWER_OK);
    CHECK_EQ_I64(step(store, op), TN_ANSWER_OK);
    CHECK_EQ_I64(step(store, op), TN_ANSWER_STALE);
    op.seq = 8;
    CHECK_EQ_I64(step(store, op), TN_ANSWER_STALE);
    op.seq = 10;
    CHECK_EQ_I64(step(store, op), TN_ANSWER_OK);
    tn_sqlite_close(store);
}

TEST(closing_a_session_frees_its_leases_and_its_places)
{
    fresh();
    struct tn_sqlite *store = open_on("boot");

    for (int who = 1; who <= 3; who++)
        CHECK_EQ_I64(open_session(store, who, TN_SEC(15)), TN_ANSWER_OK);
    CHECK_EQ_I64(acquire(store, 1, "a", false), TN_ANSWER_GRANTED);
    CHECK_EQ_I64(acquire(store, 1, "b", false), TN_ANSWER_GRANTED);
    CHECK_EQ_I64(acquire(store, 2, "a", true), TN_ANSWER_QUEUED);
    CHECK_EQ_I64(acquire(store, 3, "a", true), TN_ANSWER_QUEUED);
    CHECK_EQ_I64(step(store, (struct tn_op) { .kind = TN_OP_CLOSE, .session = secret(2) }),
                 TN_ANSWER_OK);
    CHECK_EQ_I64(step(store, (struct tn_op) { .kind = TN_OP_CLOSE, .session = secret(1) }),
                 TN_ANSWER_OK);
    CHECK_EQ_I64(acquire(store, 3, "a", true), TN_ANSWER_GRANTED);
    CHECK_EQ_I64(read_name(store, "b"), TN_ANSWER_FREE);
    tn_sqlite_close(store);
}

TEST(waiters_come_in_their_order_and_only_alive)
{
    fresh();
    struct tn_sqlite *store = open_on("boot");

    CHECK_EQ_I64(open_session(store, 1, TN_SEC(60)), TN_ANSWER_OK);
    CHECK_EQ_I64(open_session(store, 2, TN_SEC(5)), TN_ANSWER_OK);
    CHECK_EQ_I64(open_session(store, 3, TN_SEC(60)), TN_ANSWER_OK);
    CHECK_EQ_I64(open_session(store, 4, TN_SEC(60)), TN_ANSWER_OK);
    CHECK_EQ_I64(acquire(store, 1, "job", true), TN_ANSWER_GRANTED);
    CHECK_EQ_I64(acquire(store, 2, "job", true), TN_ANSWER_QUEUED);
    CHECK_EQ_I64(acquire(store, 3, "job", true), TN_ANSWER_QUEUED);
    CHECK_EQ_I64(acquire(store, 4, "job", true), TN_ANSWER_QUEUED);
    CHECK_EQ_I64(acquire(store, 3, "job", true), TN_ANSWER_QUEUED);
    fake_now += TN_SEC(5);
    CHECK_EQ_I64(release(store, 1, "job", 1), TN_ANSWER_RELEASED);
    CHECK_EQ_I64(acquire(store, 4, "job", true), TN_ANSWER_QUEUED);
    CHECK_EQ_I64(acquire(store, 3, "job", true), TN_ANSWER_GRANTED);
    CHECK_EQ_U64(result.lease.record.token, 2);
    /* A term takes back its place; nobody is left to get the name. */
    CHECK_EQ_I64(release(store, 4, "job", 0), TN_ANSWER_RELEASED);
    CHECK_EQ_I64(release(store, 3, "job", 0), TN_ANSWER_RELEASED);
    CHECK_EQ_I64(read_name(store, "job"), TN_ANSWER_FREE);
    tn_sqlite_close(store);
}

/* --- Terms of scripts ------------------------------------------------------------------------ */

static enum tn_answer acquire_once(struct tn_sqlite *store, int who, bool wait)
{
    return step(store, (struct tn_op) { .kind = TN_OP_ACQUIRE,
                                        .session = secret(who),
                                        .term = secret(100 + who),
                                        .name = "job",
                                        .ttl = TN_SEC(15),
                                        .label = "script",
                                        .wait = wait });
}

static enum tn_answer renew_once(struct tn_sqlite *store, int who, uint64_t token)
{
    return step(store, (struct tn_op) { .kind = TN_OP_RENEW,
                                        .session = secret(who),
                                        .term = secret(100 + who),
                                        .name = "job",
                                        .token = token });
}

TEST(a_script_renews_by_name_token_and_secret)
{
    fresh();
    struct tn_sqlite *store = open_on("boot");

    CHECK_EQ_I64(acquire_once(store, 1, false), TN_ANSWER_GRANTED);
    CHECK_EQ_I64(acquire_once(store, 2, false), TN_ANSWER_HELD);
    CHECK_EQ_I64(renew_once(store, 2, 1), TN_ANSWER_DENIED);
    CHECK_EQ_I64(renew_once(store, 1, 2), TN_ANSWER_STALE);
    fake_now += TN_SEC(10);
    CHECK_EQ_I64(renew_once(store, 1, 1), TN_ANSWER_OK);
    fake_now += TN_SEC(10);
    CHECK_EQ_I64(release(store, 1, "job", 1), TN_ANSWER_RELEASED);
    CHECK_EQ_I64(release(store, 1, "job", 1), TN_ANSWER_RELEASED);
    CHECK_EQ_I64(renew_once(store, 1, 1), TN_ANSWER_STALE);
    CHECK_EQ_I64(acquire_once(store, 3, false), TN_ANSWER_GRANTED);
    CHECK_EQ_I64(acquire_once(store, 4, true), TN_ANSWER_QUEUED);
    fake_now += TN_SEC(15) - 1;
    CHECK_EQ_I64(acquire_once(store, 4, true), TN_ANSWER_QUEUED);
    fake_now += 1;
    CHECK_EQ_I64(acquire_once(store, 4, true), TN_ANSWER_GRANTED);
    CHECK_EQ_I64(result.lease.record.remaining, TN_SEC(15));
    CHECK_EQ_I64(release(store, 3, "job", 2), TN_ANSWER_STALE);
    tn_sqlite_close(store);
}

/* --- Clocks --------------------------------------------------------------------------------- */

TEST(another_boot_gives_everyone_a_full_ttl)
{
    fresh();
    struct tn_sqlite *store = open_on("boot-1");

    CHECK_EQ_I64(open_session(store, 1, TN_SEC(15)), TN_ANSWER_OK);
    CHECK_EQ_I64(acquire(store, 1, "job", false), TN_ANSWER_GRANTED);
    tn_sqlite_close(store);
    /* Far ahead or far behind, the new clock's number means nothing to the old deadline. */
    for (int i = 0; i < 2; i++) {
        fake_now = i == 0 ? TN_SEC(1) : TN_SEC(900000);
        store = open_on(i == 0 ? "boot-2" : "boot-3");
        CHECK_EQ_I64(open_session(store, 2, TN_SEC(60)), TN_ANSWER_OK);
        CHECK_EQ_I64(acquire(store, 2, "job", false), TN_ANSWER_HELD);
        CHECK_EQ_I64(result.lease.record.remaining, TN_SEC(15));
        fake_now += TN_SEC(15) - 1;
        CHECK_EQ_I64(acquire(store, 2, "job", false), TN_ANSWER_HELD);
        tn_sqlite_close(store);
    }
    fake_now += 1;
    store = open_on("boot-3");
    CHECK_EQ_I64(acquire(store, 2, "job", false), TN_ANSWER_GRANTED);
    CHECK_EQ_U64(result.lease.record.token, 2);
    tn_sqlite_close(store);
}

TEST(two_time_namespaces_judge_by_their_own_clocks)
{
    fresh();
    struct tn_sqlite *one = open_on("boot time:[1]");
    struct tn_sqlite *two = open_on("boot time:[2] +1000.0");

    CHECK_EQ_I64(open_session(one, 1, TN_SEC(15)), TN_ANSWER_OK);
    CHECK_EQ_I64(acquire(one, 1, "job", false), TN_ANSWER_GRANTED);
    fake_now += TN_SEC(1000);
    CHECK_EQ_I64(read_name(two, "job"), TN_ANSWER_HELD);
    fake_now -= TN_SEC(990);
    /* A renewal makes the other clock start anew; looking does not. */
    CHECK_EQ_I64(renew(one, 1), TN_ANSWER_OK);
    fake_now += TN_SEC(1000);
    CHECK_EQ_I64(read_name(two, "job"), TN_ANSWER_HELD);
    fake_now += TN_SEC(10);
    CHECK_EQ_I64(read_name(two, "job"), TN_ANSWER_HELD);
    fake_now -= TN_SEC(1000);
    CHECK_EQ_I64(read_name(one, "job"), TN_ANSWER_HELD);
    fake_now += TN_SEC(1005);
    CHECK_EQ_I64(read_name(two, "job"), TN_ANSWER_FREE);
    fake_now -= TN_SEC(1000);
    CHECK_EQ_I64(renew(one, 1), TN_ANSWER_GONE);
    tn_sqlite_close(one);
    tn_sqlite_close(two);
}

TEST(a_clock_that_was_set_back_costs_one_ttl)
{
    fresh();
    struct tn_sqlite *store = open_on("boot");

    CHECK_EQ_I64(open_session(store, 1, TN_SEC(15)), TN_ANSWER_OK);
    CHECK_EQ_I64(acquire(store, 1, "job", false), TN_ANSWER_GRANTED);
    fake_now -= TN_SEC(900);
    CHECK_EQ_I64(read_name(store, "job"), TN_ANSWER_HELD);
    CHECK_EQ_I64(result.lease.record.remaining, TN_SEC(15));
    fake_now += TN_SEC(15);
    CHECK_EQ_I64(read_name(store, "job"), TN_ANSWER_FREE);
    tn_sqlite_close(store);
}

/* --- Tokens --------------------------------------------------------------------------------- */

TEST(tokens_rise_over_names_handles_and_deleted_rows)
{
    fresh();
    struct tn_sqlite *stores[4];
    uint64_t last = 0;

    for (size_t i = 0; i < 4; i++)
        stores[i] = open_on("boot");
    for (int round = 0; round < 40; round++) {
        struct tn_sqlite *store = stores[round % 4];
        const char *name = round % 3 == 0 ? "a" : "b";

        if (round == 20)
            run_sql("DELETE FROM leases");
        CHECK_EQ_I64(open_session(store, round, TN_SEC(15)), TN_ANSWER_OK);
        CHECK_EQ_I64(acquire(store, round, name, false), TN_ANSWER_GRANTED);
        CHECK(result.lease.record.token > last);
        last = result.lease.record.token;
        CHECK_EQ_I64(acquire(stores[(round + 1) % 4], round, name, false), TN_ANSWER_GRANTED);
        CHECK_EQ_I64(release(stores[(round + 2) % 4], round, name, last), TN_ANSWER_RELEASED);
    }
    CHECK_EQ_I64(step(stores[0], (struct tn_op) { .kind = TN_OP_RAISE, .token = 1000 }),
                 TN_ANSWER_OK);
    CHECK_EQ_I64(open_session(stores[1], 77, TN_SEC(15)), TN_ANSWER_OK);
    CHECK_EQ_I64(acquire(stores[1], 77, "c", false), TN_ANSWER_GRANTED);
    CHECK_EQ_U64(result.lease.record.token, 1001);
    for (size_t i = 0; i < 4; i++)
        tn_sqlite_close(stores[i]);
}

/* A step that must fail with @code and change nothing. */
static void check_failing_acquire(struct tn_sqlite *store, int code)
{
    struct tn_op op = { .kind = TN_OP_ACQUIRE,
                        .session = secret(1),
                        .term = secret(9),
                        .name = "job",
                        .name_len = 3,
                        .ttl = TN_SEC(15) };

    tn_text_init(&error, error_text, sizeof error_text);
    CHECK_EQ_I64(sync_step(store, &op, &result, &error), code);
    CHECK(error_text[0] != '\0');
}

TEST(without_its_counter_a_store_grants_nothing)
{
    fresh();
    struct tn_sqlite *store = open_on("boot");

    CHECK_EQ_I64(acquire_once(store, 3, false), TN_ANSWER_GRANTED);
    CHECK_EQ_I64(release(store, 3, "job", 1), TN_ANSWER_RELEASED);
    run_sql("UPDATE counter SET token = 0");
    check_failing_acquire(store, TENURE_E_DAMAGED);
    run_sql("DELETE FROM counter");
    check_failing_acquire(store, TENURE_E_DAMAGED);
    run_sql("INSERT INTO counter VALUES (1, 9223372036854775807)");
    CHECK_EQ_I64(acquire_once(store, 1, false), TN_ANSWER_FULL);
    tn_sqlite_close(store);
}

TEST(the_list_is_sorted_and_settled)
{
    fresh();
    struct tn_sqlite *store = open_on("boot");
    struct tn_store_query query = { .prefix = "b" };

    CHECK_EQ_I64(open_session(store, 1, TN_SEC(15)), TN_ANSWER_OK);
    CHECK_EQ_I64(open_session(store, 2, TN_SEC(60)), TN_ANSWER_OK);
    CHECK_EQ_I64(acquire(store, 1, "b/x", false), TN_ANSWER_GRANTED);
    CHECK_EQ_I64(acquire(store, 2, "b/a", false), TN_ANSWER_GRANTED);
    CHECK_EQ_I64(acquire(store, 2, "a", false), TN_ANSWER_GRANTED);
    CHECK_EQ_I64(acquire(store, 2, "b~", false), TN_ANSWER_GRANTED);
    fake_now += TN_SEC(15);
    CHECK_EQ_I64(tn_sqlite_list(store, &query, &error), 0);
    CHECK_EQ_U64(query.count, 3);
    CHECK_STR(query.leases[0].name, "b/a");
    CHECK(query.leases[0].record.held);
    CHECK_EQ_I64(query.leases[0].record.remaining, TN_SEC(45));
    CHECK_STR(query.leases[1].name, "b/x");
    CHECK(!query.leases[1].record.held);
    CHECK_EQ_U64(query.leases[1].record.token, 1);
    CHECK_STR(query.leases[2].name, "b~");
    free(query.leases);
    tn_sqlite_close(store);
}

/* --- Secrets -------------------------------------------------------------------------------- */

static size_t read_all(const char *file, char *buf, size_t size)
{
    FILE *in = fopen(file, "rb");

    CHECK(in != NULL);
    size_t len = fread(buf, 1, size, in);
    fclose(in);
    return len;
}

TEST(no_secret_is_in_the_file)
{
    static char content[1 << 20];
    struct tn_secret session = { { 0 } };
    struct tn_secret term = { { 0 } };

    fresh();
    memcpy(session.bytes, "SESSION-SECRET-1", 16);
    memcpy(term.bytes, "TERM-SECRET-1234", 16);
    struct tn_sqlite *store = open_on("boot");
    CHECK_EQ_I64(step(store, (struct tn_op) { .kind = TN_OP_ACQUIRE,
                                              .session = session,
                                              .term = term,
                                              .name = "job",
                                              .label = "LABEL",
                                              .ttl = TN_SEC(15) }),
                 TN_ANSWER_GRANTED);
    tn_sqlite_close(store);
    size_t len = read_all(path, content, sizeof content);
    CHECK(memmem(content, len, "LABEL", 5) != NULL);
    CHECK(memmem(content, len, "SESSION-SECRET", 14) == NULL);
    CHECK(memmem(content, len, "TERM-SECRET", 11) == NULL);
}

/* --- Files ---------------------------------------------------------------------------------- */

static void write_file(const char *file, const char *bytes, size_t len)
{
    FILE *out = fopen(file, "wb");

    CHECK(out != NULL);
    CHECK_EQ_U64(fwrite(bytes, 1, len, out), len);
    CHECK_EQ_I64(fclose(out), 0);
}

/* @file is refused with @code and a line that has @words, and stays as it was. */
static void check_refused(const char *file, int code, const char *words)
{
    static char before[1 << 20];
    static char after[1 << 20];
    struct tn_sqlite *store = NULL;

    size_t len = read_all(file, before, sizeof before);
    CHECK_EQ_I64(try_open(file, "boot", true, &store), code);
    CHECK(store == NULL);
    if (strstr(error_text, words) == NULL)
        CHECK_STR(error_text, words);
    CHECK_EQ_U64(read_all(file, after, sizeof after), len);
    CHECK_MEM(before, after, len);
}

/* A store with something in it, closed. */
static size_t make_store(char *ret_content, size_t size)
{
    fresh();
    struct tn_sqlite *store = open_on("boot");
    CHECK_EQ_I64(acquire_once(store, 1, false), TN_ANSWER_GRANTED);
    tn_sqlite_close(store);
    return read_all(path, ret_content, size);
}

TEST(a_new_store_is_private_and_complete)
{
    struct tn_sqlite *store = NULL;
    struct stat st;

    fresh();
    CHECK_EQ_I64(try_open(path, "boot", false, &store), TENURE_E_NOT_HELD);
    CHECK(access(path, F_OK) != 0);
    mode_t old = umask(0);
    store = open_on("boot");
    (void)umask(old);
    CHECK_EQ_I64(stat(path, &st), 0);
    CHECK_EQ_U64(st.st_mode & 0777, 0600);
    tn_sqlite_close(store);
    tn_sqlite_close(NULL);
}

TEST(foreign_and_damaged_files_are_refused_untouched)
{
    static char good[1 << 20];
    static char bad[1 << 20];

    size_t len = make_store(good, sizeof good);
    CHECK(len > 8192);
    write_file(path, "", 0);
    check_refused(path, TENURE_E_DAMAGED, "is empty");
    write_file(path, "hello", 5);
    check_refused(path, TENURE_E_DAMAGED, "is not a database");
    memset(bad, 'x', sizeof bad);
    write_file(path, bad, len);
    check_refused(path, TENURE_E_DAMAGED, "is not a database");
    /* Cut in the middle of a page, and at a page. */
    write_file(path, good, len / 2 + 100);
    check_refused(path, TENURE_E_DAMAGED, "damaged");
    write_file(path, good, 4096);
    check_refused(path, TENURE_E_DAMAGED, "damaged");
    write_file(path, good, 99);
    check_refused(path, TENURE_E_DAMAGED, "is not a database");
    /* A header that lost a bit, and pages that lost their content. */
    memcpy(bad, good, len);
    bad[3] ^= 1;
    write_file(path, bad, len);
    check_refused(path, TENURE_E_DAMAGED, "is not a database");
    memcpy(bad, good, len);
    memset(bad + 4096, 0xa5, len - 4096);
    write_file(path, bad, len);
    check_refused(path, TENURE_E_DAMAGED, "damaged");
    memcpy(bad, good, len);
    bad[63] = 4;
    write_file(path, bad, len);
    check_refused(path, TENURE_E_UNSUPPORTED, "newer tenure: schema 4");
    bad[63] = 0;
    write_file(path, bad, len);
    check_refused(path, TENURE_E_DAMAGED, "no version");
    write_file(path, good, len);
    struct tn_sqlite *store = open_on("boot");
    CHECK_EQ_I64(read_name(store, "job"), TN_ANSWER_HELD);
    tn_sqlite_close(store);
}

TEST(another_programs_database_is_refused_untouched)
{
    fresh();
    run_sql("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)");
    check_refused(path, TENURE_E_DAMAGED, "another program's");
    run_sql("PRAGMA journal_mode=WAL; INSERT INTO theirs VALUES (2)");
    check_refused(path, TENURE_E_DAMAGED, "another program's");
}

TEST(links_folders_and_missing_folders_are_refused)
{
    static char content[1 << 20];
    struct tn_sqlite *store = NULL;
    char link[160];

    (void)make_store(content, sizeof content);
    (void)snprintf(link, sizeof link, "%s.link", path);
    CHECK_EQ_I64(symlink(path, link), 0);
    check_refused(link, TENURE_E_DENIED, "symbolic link");
    CHECK_EQ_I64(unlink(link), 0);
    CHECK_EQ_I64(symlink("nowhere", link), 0);
    CHECK_EQ_I64(try_open(link, "boot", true, &store), TENURE_E_DENIED);
    CHECK_EQ_I64(try_open(folder, "boot", true, &store), TENURE_E_DAMAGED);
    CHECK_EQ_I64(try_open("/nowhere/at/all.db", "boot", true, &store), TENURE_E_UNAVAILABLE);
    CHECK_EQ_I64(try_open("/tmp/", "boot", true, &store), TENURE_E_INVALID);
    CHECK_EQ_I64(try_open("/proc/t.db", "boot", true, &store), TENURE_E_UNAVAILABLE);
    CHECK(store == NULL);
}

TEST(a_file_that_goes_while_in_use_ends_the_store)
{
    static char content[1 << 20];

    size_t len = make_store(content, sizeof content);
    struct tn_sqlite *store = open_on("boot");
    CHECK_EQ_I64(unlink(path), 0);
    check_failing_acquire(store, TENURE_E_UNAVAILABLE);
    CHECK(strstr(error_text, "removed or replaced while it was in use") != NULL);
    /* Gone, but its journal tells that it was there: nobody begins again with token 1, and nobody
     * takes its names for free. */
    struct tn_sqlite *second = NULL;
    CHECK_EQ_I64(try_open(path, "boot", true, &second), TENURE_E_DAMAGED);
    CHECK(strstr(error_text, "its journal is there") != NULL);
    CHECK_EQ_I64(try_open(path, "boot", false, &second), TENURE_E_DAMAGED);
    CHECK(strstr(error_text, "its journal is there") != NULL);
    write_file(path, content, len);
    check_failing_acquire(store, TENURE_E_UNAVAILABLE);
    tn_sqlite_close(store);
    store = open_on("boot");
    CHECK_EQ_I64(read_name(store, "job"), TN_ANSWER_HELD);
    tn_sqlite_close(store);
}

/* --- Other processes ------------------------------------------------------------------------ */

TEST(a_transaction_of_another_is_told_and_not_waited_for)
{
    static char content[1 << 20];
    struct tn_clock clock;
    struct tn_sqlite *store = NULL;
    sqlite3 *other = NULL;

    (void)make_store(content, sizeof content);
    CHECK_EQ_I64(tn_clock_init(&clock), 0);
    tn_text_init(&error, error_text, sizeof error_text);
    CHECK_EQ_I64(sync_open(path, &clock, false, &store, &error), 0);
    CHECK_EQ_I64(sqlite3_open(path, &other), SQLITE_OK);
    CHECK_EQ_I64(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    check_failing_acquire(store, TENURE_E_UNAVAILABLE);
    CHECK(strstr(error_text, "busy") != NULL);
    CHECK_EQ_I64(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    CHECK_EQ_I64(sqlite3_close(other), SQLITE_OK);
    CHECK_EQ_I64(read_name(store, "job"), TN_ANSWER_HELD);
    tn_sqlite_close(store);
}

/* Whether another process meets SQLite's lock for writing. The child asks the kernel, because the
 * SQLite it inherits believes that the locks are its own. */
static bool is_busy_for_others(void)
{
    int status = -1;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        const off_t reserved_byte = 0x40000001;
        struct flock lock = { .l_type = F_WRLCK, .l_start = reserved_byte, .l_len = 1 };
        int fd = open(path, O_RDWR | O_CLOEXEC);
        int rc = fcntl(fd, F_GETLK, &lock);
        _exit(rc == 0 && lock.l_type != F_UNLCK ? 0 : 1);
    }
    CHECK_EQ_I64(waitpid(child, &status, 0), child);
    return status == 0;
}

/* POSIX drops a process's locks on a file when it closes any descriptor of it. */
TEST(opening_and_closing_a_store_keeps_the_locks_of_another)
{
    static char content[1 << 20];
    struct tn_sqlite *store = NULL;
    sqlite3 *other = NULL;

    (void)make_store(content, sizeof content);
    CHECK_EQ_I64(sqlite3_open(path, &other), SQLITE_OK);
    CHECK(!is_busy_for_others());
    CHECK_EQ_I64(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    CHECK(is_busy_for_others());
    CHECK_EQ_I64(try_open(path, "boot", true, &store), 0);
    CHECK(is_busy_for_others());
    tn_sqlite_close(store);
    CHECK(is_busy_for_others());
    CHECK_EQ_I64(sqlite3_close(other), SQLITE_OK);
}
