/* sqlite_store_test.c - the embedded store on a loop: what it does when others, or the file, do not
 * play along. What it shares with every store is in tests/conformance. */
#define _GNU_SOURCE /* mkdtemp */
#include "tests/harness/test.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "base/time.h"
#include "stores/registry.h"
#include "tests/unit/sqlite_sync.h"

#define BOUND TN_SEC(15)

static char folder[64];
static char path[128];
static char url[160];
static uv_loop_t loop;
static uv_timer_t pulse;
static struct tn_clock boot;
static struct tn_store *store;
static bool closed;

static struct {
    unsigned granted, changed, revoked;
    uint64_t token;
} told;

static void hear_granted(void *arg, const char *name, const struct tn_secret *term, uint64_t token)
{
    (void)arg;
    (void)name;
    (void)term;
    told.granted++;
    told.token = token;
}

static void hear_changed(void *arg, const char *name, const struct tn_store_record *record)
{
    (void)arg;
    (void)name;
    (void)record;
    told.changed++;
}

static void hear_revoked(void *arg, const char *name, uint64_t token)
{
    (void)arg;
    (void)name;
    (void)token;
    told.revoked++;
}

static const struct tn_store_host host = { hear_granted, hear_changed, hear_revoked };

static void beat(uv_timer_t *timer)
{
    (void)timer;
}

static bool run_until(const unsigned *count, unsigned wanted, tenure_ns bound)
{
    tenure_ns end = tn_boottime() + bound;

    while (*count < wanted) {
        if (tn_boottime() >= end)
            return false;
        (void)uv_run(&loop, UV_RUN_ONCE);
    }
    return true;
}

static void run_for(tenure_ns span)
{
    const unsigned never = 0;

    (void)run_until(&never, 1, span);
}

static int try_open(tenure_ns patience, char *text, size_t size)
{
    struct tn_text error;
    struct tn_store_open how = { .url = url,
                                 .loop = &loop,
                                 .clock = &boot,
                                 .host = &host,
                                 .create = true,
                                 .patience = patience };

    tn_text_init(&error, text, size);
    return tn_store_open(&how, &store, &error);
}

static void open_store(tenure_ns patience)
{
    char text[256];

    int rc = try_open(patience, text, sizeof text);
    CHECK_STR(text, "");
    CHECK_EQ_I64(rc, 0);
}

static void start(void)
{
    (void)snprintf(folder, sizeof folder, "/tmp/tn-loop-......");
    memset(strchr(folder, '.'), 'X', 6);
    CHECK(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof path, "%s/t.db", folder);
    (void)snprintf(url, sizeof url, "sqlite:%s", path);
    memset(&told, 0, sizeof told);
    CHECK_EQ_I64(tn_clock_init(&boot), 0);
    CHECK_EQ_I64(uv_loop_init(&loop), 0);
    CHECK_EQ_I64(uv_timer_init(&loop, &pulse), 0);
    CHECK_EQ_I64(uv_timer_start(&pulse, beat, 5, 5), 0);
}

static void store_closed(void *arg)
{
    (void)arg;
    closed = true;
}

static void close_store(void)
{
    closed = false;
    store->ops->close(store, store_closed, NULL);
    for (int i = 0; i < 1000 && !closed; i++)
        (void)uv_run(&loop, UV_RUN_ONCE);
    CHECK(closed);
}

static char *beside(const char *suffix)
{
    static char file[160];

    (void)snprintf(file, sizeof file, "%s%s", path, suffix);
    return file;
}

static void stop(void)
{
    close_store();
    uv_close((uv_handle_t *)&pulse, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ_I64(uv_loop_close(&loop), 0);
    (void)unlink(path);
    (void)unlink(beside("-journal"));
    (void)unlink(beside("-bell"));
    (void)unlink(beside(".away"));
    CHECK_EQ_I64(rmdir(folder), 0);
}

/* --- Requests ------------------------------------------------------------------------------- */

struct ask {
    struct tn_store_req req;
    unsigned done;
};

static void ask_done(struct tn_store_req *req)
{
    ((struct ask *)req)->done++;
}

static void submit(struct ask *ask, struct tn_op op)
{
    memset(ask, 0, sizeof *ask);
    op.name_len = op.name != NULL ? (uint32_t)strlen(op.name) : 0;
    ask->req.op = op;
    ask->req.done = ask_done;
    tn_store_submit(store, &ask->req);
    CHECK_EQ_U64(ask->done, 0);
}

static struct ask last;

static int ask(struct tn_op op)
{
    submit(&last, op);
    CHECK(run_until(&last.done, 1, BOUND));
    CHECK_EQ_U64(last.done, 1);
    return last.req.status;
}

static struct tn_secret secret(int number)
{
    return (struct tn_secret) { { 1, (uint8_t)number } };
}

static struct tn_op open_op(int who)
{
    return (
        struct tn_op) { .kind = TN_OP_OPEN, .session = secret(who), .seq = 1, .ttl = TN_SEC(30) };
}

static struct tn_op acquire_op(int who, const char *name)
{
    return (struct tn_op) { .kind = TN_OP_ACQUIRE,
                            .session = secret(who),
                            .term = secret(100 + who),
                            .name = name,
                            .wait = true };
}

static struct tn_op release_op(int who, const char *name)
{
    return (struct tn_op) {
        .kind = TN_OP_RELEASE, .session = secret(who), .term = secret(100 + who), .name = name
    };
}

static struct tn_op read_op(const char *name)
{
    return (struct tn_op) { .kind = TN_OP_READ, .name = name };
}

static sqlite3 *open_other(void)
{
    sqlite3 *other = NULL;

    CHECK_EQ_I64(sqlite3_open(path, &other), SQLITE_OK);
    return other;
}

static void run_sql(sqlite3 *db, const char *sql)
{
    CHECK_EQ_I64(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
}

/* --- Other processes ------------------------------------------------------------------------ */

TEST(the_loop_turns_while_another_is_in_a_transaction)
{
    struct ask first;
    struct ask second;

    start();
    open_store(TN_SEC(10));
    CHECK_EQ_I64(ask(open_op(1)), 0);
    sqlite3 *other = open_other();
    run_sql(other, "BEGIN IMMEDIATE");
    submit(&first, acquire_op(1, "job"));
    tenure_ns start_at = tn_boottime();
    for (int i = 0; i < 20; i++) {
        (void)uv_run(&loop, UV_RUN_ONCE);
        /* One turn of the loop never waits for the other. */
        CHECK(tn_boottime() - start_at < TN_SEC(3));
        start_at = tn_boottime();
    }
    CHECK_EQ_U64(first.done, 0);
    /* Who only reads is not kept waiting by one who has not written yet. */
    submit(&second, acquire_op(1, "other"));
    run_sql(other, "ROLLBACK");
    CHECK(run_until(&first.done, 1, BOUND));
    CHECK(run_until(&second.done, 1, BOUND));
    CHECK_EQ_I64(first.req.answer, TN_ANSWER_GRANTED);
    CHECK_EQ_I64(second.req.answer, TN_ANSWER_GRANTED);
    CHECK_EQ_I64(sqlite3_close(other), SQLITE_OK);
    stop();
}

TEST(a_request_gives_up_after_its_patience)
{
    struct ask asked;

    start();
    open_store(TN_MS(100));
    CHECK_EQ_I64(ask(open_op(1)), 0);
    sqlite3 *other = open_other();
    run_sql(other, "BEGIN IMMEDIATE");
    tenure_ns before = tn_boottime();
    CHECK_EQ_I64(ask(acquire_op(1, "job")), TENURE_E_UNAVAILABLE);
    CHECK(tn_boottime() - before >= TN_MS(100));
    CHECK(strstr(last.req.error, "another process keeps the file busy") != NULL);
    /* A reader does not mind. */
    CHECK_EQ_I64(ask(read_op("job")), 0);
    CHECK_EQ_I64(last.req.answer, TN_ANSWER_FREE);
    /* In the middle of a commit, everyone does. */
    run_sql(other, "COMMIT; BEGIN EXCLUSIVE");
    CHECK_EQ_I64(ask(read_op("job")), TENURE_E_UNAVAILABLE);
    submit(&asked, acquire_op(1, "job"));
    run_sql(other, "ROLLBACK");
    CHECK(run_until(&asked.done, 1, BOUND));
    CHECK_EQ_I64(asked.req.answer, TN_ANSWER_GRANTED);
    CHECK_EQ_I64(sqlite3_close(other), SQLITE_OK);
    stop();
}

/* A reader that stays in the file keeps a commit from ending, and must not be kept in a spin. */
TEST(a_commit_waits_for_readers_only_so_long)
{
    struct ask asked;

    start();
    open_store(TN_MS(600));
    CHECK_EQ_I64(ask(open_op(1)), 0);
    sqlite3 *other = open_other();
    run_sql(other, "BEGIN; SELECT count(*) FROM leases");
    CHECK_EQ_I64(ask(acquire_op(1, "job")), TENURE_E_UNAVAILABLE);
    CHECK(strstr(last.req.error, "busy") != NULL);
    submit(&asked, acquire_op(1, "job"));
    run_for(TN_MS(50));
    CHECK_EQ_U64(asked.done, 0);
    run_sql(other, "COMMIT");
    CHECK(run_until(&asked.done, 1, BOUND));
    CHECK_EQ_I64(asked.req.answer, TN_ANSWER_GRANTED);
    CHECK_EQ_U64(asked.req.record.token, 1);
    CHECK_EQ_I64(sqlite3_close(other), SQLITE_OK);
    stop();
}

TEST(closing_in_the_middle_of_a_commit_undoes_it)
{
    struct ask asked;

    start();
    open_store(TN_SEC(10));
    CHECK_EQ_I64(ask(open_op(1)), 0);
    sqlite3 *other = open_other();
    run_sql(other, "BEGIN; SELECT count(*) FROM leases");
    submit(&asked, acquire_op(1, "job"));
    run_for(TN_MS(50));
    close_store();
    CHECK_EQ_U64(asked.done, 1);
    CHECK_EQ_I64(asked.req.status, TENURE_E_CLOSED);
    run_sql(other, "COMMIT");
    CHECK_EQ_I64(sqlite3_close(other), SQLITE_OK);
    open_store(TN_SEC(10));
    CHECK_EQ_I64(ask(read_op("job")), 0);
    CHECK_EQ_U64(last.req.record.token, 0);
    stop();
}

TEST(a_store_that_is_busy_when_it_is_opened_is_asked_later)
{
    start();
    open_store(TN_SEC(10));
    CHECK_EQ_I64(ask(open_op(1)), 0);
    close_store();
    sqlite3 *other = open_other();
    run_sql(other, "BEGIN EXCLUSIVE");
    open_store(TN_MS(100));
    CHECK_EQ_I64(ask(read_op("job")), TENURE_E_UNAVAILABLE);
    run_sql(other, "ROLLBACK");
    CHECK_EQ_I64(sqlite3_close(other), SQLITE_OK);
    CHECK_EQ_I64(ask(read_op("job")), 0);
    stop();
}

/* --- The file ------------------------------------------------------------------------------- */

TEST(a_file_that_goes_is_not_made_again_and_taken_up_when_it_is_back)
{
    struct stat st;

    start();
    open_store(TN_SEC(5));
    CHECK_EQ_I64(ask(open_op(1)), 0);
    CHECK_EQ_I64(ask(acquire_op(1, "job")), 0);
    CHECK_EQ_I64(rename(path, beside(".away")), 0);
    CHECK_EQ_I64(ask(read_op("job")), TENURE_E_DAMAGED);
    CHECK(strstr(last.req.error, "the file is gone, but its journal is there") != NULL);
    char journal[160];
    (void)snprintf(journal, sizeof journal, "%s-journal", path);
    CHECK_EQ_I64(unlink(journal), 0);
    CHECK_EQ_I64(ask(acquire_op(1, "job")), TENURE_E_UNAVAILABLE);
    CHECK(strstr(last.req.error, "there is no such file") != NULL);
    CHECK(stat(path, &st) != 0);
    CHECK_EQ_I64(rename(beside(".away"), path), 0);
    CHECK_EQ_I64(ask(acquire_op(1, "job")), 0);
    CHECK_EQ_I64(last.req.answer, TN_ANSWER_GRANTED);
    CHECK_EQ_U64(last.req.record.token, 1);
    stop();
}

TEST(another_file_in_its_place_is_another_store)
{
    start();
    open_store(TN_SEC(5));
    close_store();
    CHECK_EQ_I64(rename(path, beside(".away")), 0);
    (void)unlink(beside("-journal"));
    open_store(TN_SEC(5));
    CHECK_EQ_I64(ask(open_op(1)), 0);
    CHECK_EQ_I64(ask(acquire_op(1, "job")), 0);
    CHECK_EQ_I64(rename(beside(".away"), path), 0);
    /* Nothing is done in the file that was replaced: who led hears that its session is gone. */
    struct tn_op renew = { .kind = TN_OP_RENEW, .session = secret(1), .seq = 2 };
    CHECK_EQ_I64(ask(renew), 0);
    CHECK_EQ_I64(last.req.answer, TN_ANSWER_GONE);
    CHECK_EQ_I64(ask(read_op("job")), 0);
    CHECK_EQ_I64(last.req.answer, TN_ANSWER_FREE);
    stop();
}

TEST(damage_to_one_name_is_not_damage_to_all)
{
    struct ask bad;
    struct ask good;

    start();
    open_store(TN_SEC(5));
    CHECK_EQ_I64(ask(open_op(1)), 0);
    CHECK_EQ_I64(ask(acquire_op(1, "bad")), 0);
    sqlite3 *other = open_other();
    run_sql(other, "UPDATE leases SET term = x'00' WHERE name = 'bad'");
    CHECK_EQ_I64(sqlite3_close(other), SQLITE_OK);
    submit(&bad, acquire_op(1, "bad"));
    submit(&good, acquire_op(1, "good"));
    CHECK(run_until(&bad.done, 1, BOUND));
    CHECK(run_until(&good.done, 1, BOUND));
    CHECK_EQ_I64(bad.req.status, TENURE_E_DAMAGED);
    CHECK_EQ_I64(good.req.status, 0);
    CHECK_EQ_I64(good.req.answer, TN_ANSWER_GRANTED);
    stop();
}

/* What an operator deletes under its holder is held off, as if it were revoked. */
TEST(a_deleted_row_is_a_revocation)
{
    start();
    open_store(TN_SEC(5));
    CHECK_EQ_I64(ask(open_op(1)), 0);
    CHECK_EQ_I64(ask(acquire_op(1, "a")), 0);
    CHECK_EQ_I64(ask(acquire_op(1, "b")), 0);
    sqlite3 *other = open_other();
    run_sql(other, "DELETE FROM leases WHERE name = 'a'");
    CHECK_EQ_I64(sqlite3_close(other), SQLITE_OK);
    CHECK_EQ_I64(ask(open_op(2)), 0);
    CHECK_EQ_I64(ask(acquire_op(2, "a")), 0);
    CHECK(last.req.answer != TN_ANSWER_GRANTED);
    struct tn_op renew = { .kind = TN_OP_RENEW, .session = secret(1), .seq = 2 };
    CHECK_EQ_I64(ask(renew), 0);
    CHECK_EQ_U64(last.req.held, 2);
    CHECK(run_until(&told.revoked, 1, BOUND));
    CHECK_EQ_I64(ask(release_op(1, "a")), 0);
    CHECK_EQ_I64(last.req.answer, TN_ANSWER_RELEASED);
    CHECK(run_until(&told.granted, 1, BOUND));
    CHECK_EQ_U64(told.token, 3);
    stop();
}

/* --- The bell ------------------------------------------------------------------------------- */

/* Session 1 holds, session 2 waits; both in this process, so each learns through the bell or by
 * the transaction itself. The other process is played by a second connection. */
static void release_by_another(void)
{
    struct tn_sqlite *other = NULL;
    struct tn_sqlite_result result;
    char text[256];
    struct tn_text error;
    struct tn_op op = release_op(1, "job");

    op.name_len = 3;
    tn_text_init(&error, text, sizeof text);
    CHECK_EQ_I64(sync_open(path, &boot, false, &other, &error), 0);
    CHECK_EQ_I64(sync_step(other, &op, &result, &error), 0);
    CHECK_EQ_I64(result.answer, TN_ANSWER_RELEASED);
    tn_sqlite_close(other);
}

static void check_wakes(void)
{
    CHECK_EQ_I64(ask(open_op(1)), 0);
    CHECK_EQ_I64(ask(open_op(2)), 0);
    CHECK_EQ_I64(ask(acquire_op(1, "job")), 0);
    CHECK_EQ_I64(last.req.answer, TN_ANSWER_GRANTED);
    uint64_t token = last.req.record.token;
    CHECK_EQ_I64(ask(acquire_op(2, "job")), 0);
    CHECK_EQ_I64(last.req.answer, TN_ANSWER_QUEUED);
    told.granted = 0;
    release_by_another();
    CHECK(run_until(&told.granted, 1, BOUND));
    CHECK(told.token > token);
    /* Each grant is told once. */
    run_for(TN_MS(100));
    CHECK_EQ_U64(told.granted, 1);
    CHECK_EQ_I64(ask(release_op(2, "job")), 0);
    CHECK_EQ_I64(ask((struct tn_op) { .kind = TN_OP_CLOSE, .session = secret(1) }), 0);
    CHECK_EQ_I64(ask((struct tn_op) { .kind = TN_OP_CLOSE, .session = secret(2) }), 0);
}

TEST(the_bell_survives_whatever_is_done_to_it)
{
    start();
    open_store(TN_SEC(5));
    check_wakes();
    CHECK_EQ_I64(truncate(beside("-bell"), 3), 0);
    check_wakes();
    CHECK_EQ_I64(unlink(beside("-bell")), 0);
    run_for(TN_MS(20));
    check_wakes();
    char bell_path[160];
    (void)snprintf(bell_path, sizeof bell_path, "%s-bell", path);
    CHECK_EQ_I64(rename(bell_path, beside(".away")), 0);
    run_for(TN_MS(20));
    check_wakes();
    /* As a version without slots rings it. */
    FILE *bell = fopen(beside("-bell"), "r+");
    CHECK(bell != NULL);
    CHECK_EQ_I64(fputc('\n', bell), '\n');
    CHECK_EQ_I64(fclose(bell), 0);
    check_wakes();
    stop();
}

/* A grant whose ring was lost, seen by a transaction that then failed, is seen again. */
TEST(a_grant_is_told_though_its_ring_was_lost_and_a_commit_failed)
{
    struct ask asked;
    struct tn_op renew = { .kind = TN_OP_RENEW, .session = secret(2), .seq = 2 };

    start();
    open_store(TN_SEC(10));
    CHECK_EQ_I64(ask(open_op(1)), 0);
    CHECK_EQ_I64(ask(open_op(2)), 0);
    CHECK_EQ_I64(ask(acquire_op(1, "job")), 0);
    CHECK_EQ_I64(ask(acquire_op(2, "job")), 0);
    CHECK_EQ_I64(last.req.answer, TN_ANSWER_QUEUED);
    sqlite3 *other = open_other();
    run_sql(other, "BEGIN; UPDATE counter SET token = 2; UPDATE leases SET token = 2,"
                   " session = (SELECT session FROM waiters), term = (SELECT term FROM waiters);"
                   "DELETE FROM waiters; COMMIT;"
                   "BEGIN; SELECT count(*) FROM leases");
    submit(&asked, renew);
    /* Longer than a commit is tried. */
    run_for(TN_MS(400));
    CHECK_EQ_U64(asked.done, 0);
    CHECK_EQ_U64(told.granted, 0);
    run_sql(other, "COMMIT");
    CHECK(run_until(&asked.done, 1, BOUND));
    CHECK_EQ_U64(told.granted, 1);
    CHECK_EQ_U64(told.token, 2);
    CHECK_EQ_I64(sqlite3_close(other), SQLITE_OK);
    stop();
}

/* --- Schema 1 ------------------------------------------------------------------------------- */

/* The schema of version 0.1.0, as it was. */
static const char schema_1[] =
    "PRAGMA application_id=1953396082; PRAGMA user_version=1; BEGIN;"
    "CREATE TABLE counter (id INTEGER PRIMARY KEY CHECK (id = 1), token INTEGER NOT NULL);"
    "INSERT INTO counter VALUES (1, 0);"
    "CREATE TABLE sessions (id INTEGER PRIMARY KEY AUTOINCREMENT, secret BLOB NOT NULL UNIQUE,"
    " label BLOB NOT NULL, ttl_ns INTEGER NOT NULL CHECK (ttl_ns > 0), seq INTEGER NOT NULL,"
    " one_shot INTEGER NOT NULL);"
    "CREATE TABLE deadlines (session INTEGER NOT NULL, clock TEXT NOT NULL,"
    " expires_at INTEGER NOT NULL, PRIMARY KEY (session, clock)) WITHOUT ROWID;"
    "CREATE INDEX deadlines_due ON deadlines (clock, expires_at);"
    "CREATE TABLE leases (name TEXT PRIMARY KEY, token INTEGER NOT NULL, session INTEGER, term "
    "BLOB,"
    " released_token INTEGER, released_term BLOB) WITHOUT ROWID;"
    "CREATE INDEX leases_held ON leases (session) WHERE session IS NOT NULL;"
    "CREATE TABLE waiters (place INTEGER PRIMARY KEY, name TEXT NOT NULL, session INTEGER NOT NULL,"
    " term BLOB NOT NULL, UNIQUE (name, session, term));"
    "CREATE INDEX waiters_queue ON waiters (name, place);"
    "CREATE INDEX waiters_session ON waiters (session);"
    "INSERT INTO sessions VALUES (7, x'000102030405060708090a0b0c0d0e0f', 'old', 60000000000, 1, "
    "0);"
    "INSERT INTO leases VALUES ('job', 41, 7, x'0f0e0d0c0b0a09080706050403020100', NULL, NULL);"
    "UPDATE counter SET token = 41; COMMIT;";

TEST(a_file_of_schema_1_is_taken_over)
{
    char text[256];

    start();
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    CHECK_EQ_I64(fclose(file), 0);
    sqlite3 *other = open_other();
    run_sql(other, schema_1);
    CHECK_EQ_I64(sqlite3_close(other), SQLITE_OK);
    int rc = try_open(TN_SEC(5), text, sizeof text);
    CHECK_STR(text, "");
    CHECK_EQ_I64(rc, 0);
    CHECK_EQ_I64(ask(read_op("job")), 0);
    CHECK_EQ_I64(last.req.answer, TN_ANSWER_HELD);
    CHECK_EQ_U64(last.req.record.token, 41);
    CHECK_STR(last.req.record.label, "old");
    CHECK_EQ_I64(ask((struct tn_op) { .kind = TN_OP_REVOKE, .name = "job" }), 0);
    CHECK_EQ_I64(last.req.answer, TN_ANSWER_OK);
    CHECK_EQ_I64(ask(open_op(1)), 0);
    CHECK_EQ_I64(ask(acquire_op(1, "new")), 0);
    CHECK_EQ_U64(last.req.record.token, 42);
    stop();
}

TEST(a_file_of_schema_2_is_taken_over)
{
    start();
    open_store(TN_SEC(5));
    close_store();
    sqlite3 *other = open_other();
    run_sql(other, "DROP TRIGGER leases_kept; PRAGMA user_version=2");
    open_store(TN_SEC(5));
    CHECK_EQ_I64(ask(open_op(1)), 0);
    CHECK_EQ_I64(ask(acquire_op(1, "job")), 0);
    run_sql(other, "DELETE FROM leases");
    CHECK_EQ_I64(sqlite3_close(other), SQLITE_OK);
    CHECK_EQ_I64(ask(read_op("job")), 0);
    CHECK_EQ_I64(last.req.answer, TN_ANSWER_HELD);
    stop();
}
