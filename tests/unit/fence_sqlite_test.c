/* fence_sqlite_test.c - a fence in an application's own database: exact, atomic, and in its way. */
#define _GNU_SOURCE /* mkdtemp */
#include "tests/harness/test.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "base/time.h"
#include "receivers/target.h"
#include "tenure/fence_sqlite.h"
#include "tests/unit/sqlite_sync.h"

static char folder[64];
static char path[128];
static char url[160];

static char error_text[512];
static struct tn_text error;

static void fresh(void)
{
    static const char *const suffixes[] = { "", "-journal", "-wal", "-shm", "-bell" };
    char file[160];

    for (size_t i = 0; folder[0] != '\0' && i < sizeof suffixes / sizeof suffixes[0]; i++) {
        (void)snprintf(file, sizeof file, "%s%s", path, suffixes[i]);
        (void)unlink(file);
    }
    if (folder[0] != '\0')
        (void)rmdir(folder);
    (void)snprintf(folder, sizeof folder, "/tmp/tn-fence-......");
    memset(strchr(folder, '.'), 'X', 6); /* What mkdtemp replaces. */
    CHECK(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof path, "%s/app.db", folder);
    (void)snprintf(url, sizeof url, "sqlite:%s", path);
    tn_text_init(&error, error_text, sizeof error_text);
}

static sqlite3 *open_db(void)
{
    sqlite3 *db = NULL;

    CHECK_EQ_I64(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

static void close_db(sqlite3 *db)
{
    CHECK_EQ_I64(sqlite3_close(db), SQLITE_OK);
}

static int exec(sqlite3 *db, const char *sql)
{
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static void must(sqlite3 *db, const char *sql)
{
    int rc = exec(db, sql);

    CHECK_STR(rc == SQLITE_OK ? "" : sqlite3_errmsg(db), "");
}

static int64_t number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;

    CHECK_EQ_I64(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    CHECK_EQ_I64(sqlite3_step(statement), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(statement, 0);
    CHECK_EQ_I64(sqlite3_finalize(statement), SQLITE_OK);
    return value;
}

/* One transaction of a holder: check, effect, commit. */
static int admit_and(sqlite3 *db, uint64_t token, const char *sql)
{
    must(db, "BEGIN");
    int rc = tenure_fence_sqlite_admit(db, "orders", token);
    if (rc == 0)
        must(db, sql);
    must(db, rc == 0 ? "COMMIT" : "ROLLBACK");
    return rc;
}

static uint64_t highest(sqlite3 *db)
{
    uint64_t token = 99;

    CHECK_EQ_I64(tenure_fence_sqlite_highest(db, "orders", &token), 0);
    return token;
}

TEST(a_higher_token_is_admitted_and_a_lower_one_is_stale)
{
    fresh();
    sqlite3 *db = open_db();

    must(db, "CREATE TABLE log (token)");
    CHECK_EQ_U64(highest(db), 0);
    CHECK_EQ_I64(number(db, "SELECT count(*) FROM sqlite_master"), 1);
    CHECK_EQ_I64(admit_and(db, 34, "INSERT INTO log VALUES (34)"), 0);
    CHECK_EQ_I64(admit_and(db, 33, "INSERT INTO log VALUES (33)"), TENURE_E_STALE);
    CHECK_EQ_I64(admit_and(db, 34, "INSERT INTO log VALUES (34)"), 0);
    CHECK_EQ_I64(admit_and(db, 35, "INSERT INTO log VALUES (35)"), 0);
    CHECK_EQ_I64(admit_and(db, 34, "INSERT INTO log VALUES (34)"), TENURE_E_STALE);
    CHECK_EQ_I64(number(db, "SELECT sum(token) FROM log"), 34 + 34 + 35);
    CHECK_EQ_U64(highest(db), 35);
    close_db(db);
}

TEST(tokens_are_told_apart_up_to_the_last_one)
{
    static const uint64_t tokens[] = { 1,         UINT64_C(1) << 53, (UINT64_C(1) << 53) + 1,
                                       INT64_MAX, UINT64_C(1) << 63, UINT64_MAX };

    fresh();
    sqlite3 *db = open_db();
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        CHECK_EQ_I64(tenure_fence_sqlite_raise(db, "orders", tokens[i]), 0);
        CHECK_EQ_U64(highest(db), tokens[i]);
        if (i > 0)
            CHECK_EQ_I64(tenure_fence_sqlite_raise(db, "orders", tokens[i] - 1), TENURE_E_STALE);
        CHECK_EQ_U64(highest(db), tokens[i]);
    }
    close_db(db);
}

TEST(malformed_requests_are_refused_and_nothing_is_written)
{
    char long_name[300];
    uint64_t token = 7;

    fresh();
    sqlite3 *db = open_db();
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    CHECK_EQ_I64(tenure_fence_sqlite_raise(db, "orders", 0), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_fence_sqlite_raise(db, "", 1), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_fence_sqlite_raise(db, "a'b", 1), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_fence_sqlite_raise(db, "a//b", 1), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_fence_sqlite_raise(db, long_name, 1), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_fence_sqlite_highest(db, "a b", &token), TENURE_E_INVALID);
    CHECK_EQ_U64(token, 7);
    CHECK_EQ_I64(number(db, "SELECT count(*) FROM sqlite_master"), 0);
    close_db(db);
}

TEST(an_admission_without_a_transaction_is_refused)
{
    fresh();
    sqlite3 *db = open_db();

    CHECK_EQ_I64(tenure_fence_sqlite_admit(db, "orders", 1), TENURE_E_INVALID);
    CHECK_EQ_U64(highest(db), 0);
    close_db(db);
}

TEST(a_rolled_back_transaction_leaves_neither_effect_nor_fence)
{
    fresh();
    sqlite3 *db = open_db();

    must(db, "CREATE TABLE orders (id)");
    CHECK_EQ_I64(tenure_fence_sqlite_install(db, "orders", "orders"), 0);
    must(db, "BEGIN");
    CHECK_EQ_I64(tenure_fence_sqlite_admit(db, "orders", 5), 0);
    must(db, "INSERT INTO orders VALUES (1)");
    must(db, "ROLLBACK");
    CHECK_EQ_U64(highest(db), 0);
    /* What was presented is not current any more: it was never committed. */
    CHECK_EQ_I64(exec(db, "INSERT INTO orders VALUES (2)"), SQLITE_CONSTRAINT);
    CHECK_EQ_I64(number(db, "SELECT count(*) FROM orders"), 0);
    close_db(db);
}

/* In WAL mode two transactions can stand at different times: the older one must not write. */
TEST(who_was_paused_inside_a_transaction_cannot_commit_after_a_successor)
{
    static const char *const modes[] = { "DELETE", "WAL" };

    for (size_t i = 0; i < 2; i++) {
        char pragma[64];

        fresh();
        sqlite3 *old = open_db();
        (void)snprintf(pragma, sizeof pragma, "PRAGMA journal_mode=%s", modes[i]);
        must(old, pragma);
        must(old, "CREATE TABLE log (token)");
        CHECK_EQ_I64(admit_and(old, 33, "INSERT INTO log VALUES (33)"), 0);
        sqlite3 *young = open_db();
        /* Paused after the check: the successor cannot come in between. */
        must(old, "BEGIN");
        CHECK_EQ_I64(tenure_fence_sqlite_admit(old, "orders", 33), 0);
        CHECK_EQ_I64(tenure_fence_sqlite_raise(young, "orders", 34), TENURE_E_UNAVAILABLE);
        must(old, "INSERT INTO log VALUES (33)");
        must(old, "COMMIT");
        /* Paused before the check, having read: the fence is raised, nothing is written yet. */
        must(old, "BEGIN");
        CHECK_EQ_I64(number(old, "SELECT count(*) FROM log"), 2);
        if (i == 1)
            CHECK_EQ_I64(tenure_fence_sqlite_raise(young, "orders", 34), 0);
        CHECK(tenure_fence_sqlite_admit(old, "orders", 33) == (i == 1 ? TENURE_E_UNAVAILABLE : 0));
        must(old, "ROLLBACK");
        CHECK_EQ_I64(tenure_fence_sqlite_raise(young, "orders", 34), 0);
        CHECK_EQ_I64(admit_and(old, 33, "INSERT INTO log VALUES (33)"), TENURE_E_STALE);
        CHECK_EQ_I64(number(young, "SELECT count(*) FROM log"), 2);
        close_db(old);
        close_db(young);
    }
}

/* --- Triggers ------------------------------------------------------------------------------- */

static const char *const writes[] = {
    "INSERT INTO \"or'd\"\"ers\" VALUES (2, 'new')",
    "INSERT OR REPLACE INTO \"or'd\"\"ers\" VALUES (1, 'new')",
    "REPLACE INTO \"or'd\"\"ers\" VALUES (1, 'new')",
    "INSERT INTO \"or'd\"\"ers\" VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET what = 'new'",
    "UPDATE \"or'd\"\"ers\" SET what = 'new'",
    "UPDATE OR REPLACE \"or'd\"\"ers\" SET id = 1",
    "DELETE FROM \"or'd\"\"ers\"",
    "DELETE FROM \"or'd\"\"ers\" WHERE id = 1",
};

static void check_refused(sqlite3 *db, const char *why)
{
    for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++) {
        CHECK(exec(db, writes[i]) != SQLITE_OK);
        if (strstr(sqlite3_errmsg(db), why) == NULL)
            CHECK_STR(sqlite3_errmsg(db), why);
    }
    CHECK_EQ_I64(number(db, "SELECT count(*) FROM \"or'd\"\"ers\" WHERE what = 'old'"), 1);
    CHECK_EQ_I64(number(db, "SELECT count(*) FROM \"or'd\"\"ers\""), 1);
}

TEST(a_protected_table_refuses_every_write_without_a_current_token)
{
    fresh();
    sqlite3 *db = open_db();
    sqlite3 *other = open_db();

    must(db, "CREATE TABLE \"or'd\"\"ers\" (id INTEGER PRIMARY KEY, what)");
    must(db, "INSERT INTO \"or'd\"\"ers\" VALUES (1, 'old')");
    CHECK_EQ_I64(tenure_fence_sqlite_install(db, "or'd\"ers", "orders"), 0);
    CHECK_EQ_I64(tenure_fence_sqlite_install(db, "or'd\"ers", "orders"), 0);
    check_refused(db, "no such function: tenure_fence_presented");
    must(db, "PRAGMA trusted_schema=OFF");
    CHECK_EQ_I64(admit_and(db, 7, "SELECT 1"), 0);
    for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++) {
        must(db, "BEGIN");
        must(db, writes[i]);
        must(db, "ROLLBACK");
    }
    /* Raised by another: what was presented is over at once, before the other has written. */
    CHECK_EQ_I64(tenure_fence_sqlite_raise(other, "orders", 8), 0);
    check_refused(db, "tenure: the token presented for orders is stale, or there was none");
    CHECK_EQ_I64(admit_and(other, 8, "UPDATE \"or'd\"\"ers\" SET what = 'old'"), 0);
    /* Presented for another resource. */
    must(db, "BEGIN");
    CHECK_EQ_I64(tenure_fence_sqlite_admit(db, "refunds", 9), 0);
    must(db, "COMMIT");
    check_refused(db, "tenure: the token presented for orders");
    CHECK_EQ_I64(tenure_fence_sqlite_remove(db, "or'd\"ers"), 0);
    CHECK_EQ_I64(tenure_fence_sqlite_remove(db, "or'd\"ers"), 0);
    must(db, writes[6]);
    CHECK_EQ_U64(highest(db), 8);
    close_db(db);
    close_db(other);
}

TEST(what_cannot_be_protected_is_refused)
{
    fresh();
    sqlite3 *db = open_db();

    must(db, "CREATE TABLE t (x); CREATE VIEW v AS SELECT x FROM t");
    CHECK_EQ_I64(tenure_fence_sqlite_install(db, "nowhere", "orders"), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_fence_sqlite_install(db, "v", "orders"), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_fence_sqlite_install(db, "", "orders"), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_fence_sqlite_install(db, "t", "or ders"), TENURE_E_INVALID);
    CHECK_EQ_I64(number(db, "SELECT count(*) FROM sqlite_master"), 2);
    /* In the application's own transaction, a refusal takes nothing else with it. */
    must(db, "BEGIN; INSERT INTO t VALUES (1)");
    CHECK_EQ_I64(tenure_fence_sqlite_install(db, "nowhere", "orders"), TENURE_E_INVALID);
    must(db, "COMMIT");
    CHECK_EQ_I64(number(db, "SELECT count(*) FROM t"), 1);
    close_db(db);
}

/* --- Foreign things ------------------------------------------------------------------------- */

TEST(a_table_that_holds_something_else_admits_nothing)
{
    fresh();
    sqlite3 *db = open_db();
    uint64_t token = 7;

    must(db, "CREATE TABLE tenure_fences (resource TEXT PRIMARY KEY, token)");
    must(db, "INSERT INTO tenure_fences VALUES ('orders', NULL)");
    CHECK_EQ_I64(admit_and(db, 5, "SELECT 1"), TENURE_E_DAMAGED);
    must(db, "UPDATE tenure_fences SET token = 3");
    CHECK_EQ_I64(tenure_fence_sqlite_highest(db, "orders", &token), TENURE_E_DAMAGED);
    must(db, "UPDATE tenure_fences SET token = '99999999999999999999'");
    CHECK_EQ_I64(admit_and(db, 5, "SELECT 1"), TENURE_E_DAMAGED);
    must(db, "DROP TABLE tenure_fences; CREATE TABLE tenure_fences (x)");
    CHECK_EQ_I64(admit_and(db, 5, "SELECT 1"), TENURE_E_DAMAGED);
    CHECK_EQ_I64(tenure_fence_sqlite_raise(db, "orders", 5), TENURE_E_DAMAGED);
    CHECK(sqlite3_get_autocommit(db) != 0);
    close_db(db);
}

TEST(our_table_takes_nothing_but_tokens)
{
    static const char *const bad[] = {
        "NULL", "34", "'34'", "-1", "x'00'", "'18446744073709551616'", "'0000000000000000003x'"
    };
    char sql[128];

    fresh();
    sqlite3 *db = open_db();
    CHECK_EQ_I64(tenure_fence_sqlite_raise(db, "orders", 5), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(sql, sizeof sql, "UPDATE tenure_fences SET token = %s", bad[i]);
        CHECK_EQ_I64(exec(db, sql), SQLITE_CONSTRAINT);
        (void)snprintf(sql, sizeof sql, "INSERT INTO tenure_fences VALUES ('b', %s)", bad[i]);
        CHECK_EQ_I64(exec(db, sql), SQLITE_CONSTRAINT);
    }
    CHECK_EQ_I64(exec(db, "INSERT INTO tenure_fences VALUES (NULL, '00000000000000000001')"),
                 SQLITE_CONSTRAINT);
    CHECK_EQ_U64(highest(db), 5);
    close_db(db);
}

TEST(a_temporary_table_of_the_same_name_is_not_the_fence)
{
    fresh();
    sqlite3 *db = open_db();

    CHECK_EQ_I64(tenure_fence_sqlite_raise(db, "orders", 5), 0);
    must(db, "CREATE TEMP TABLE tenure_fences (resource TEXT PRIMARY KEY, token)");
    CHECK_EQ_I64(admit_and(db, 4, "SELECT 1"), TENURE_E_STALE);
    CHECK_EQ_U64(highest(db), 5);
    close_db(db);
}

/* A store keeps its leases, and its file its journal, when it carries fences as well. */
TEST(a_stores_own_file_can_carry_fences)
{
    struct tn_clock clock;
    struct tn_sqlite *store = NULL;
    struct tn_store_query query = { .prefix = "" };
    char journal[160];

    fresh();
    (void)snprintf(journal, sizeof journal, "%s-journal", path);
    CHECK_EQ_I64(tn_clock_init(&clock), 0);
    CHECK_EQ_I64(sync_open(path, &clock, true, &store, &error), 0);
    CHECK_EQ_I64(tn_fence_raise_at(url, "orders", 7, TN_SEC(5), &error), 0);
    CHECK_EQ_I64(tn_sqlite_list(store, &query, &error), 0);
    CHECK_EQ_U64(query.count, 0);
    tn_sqlite_close(store);
    CHECK_EQ_I64(sync_open(path, &clock, true, &store, &error), 0);
    CHECK_EQ_I64(tn_fence_raise_at(url, "orders", 6, TN_SEC(5), &error), TENURE_E_STALE);
    CHECK_STR(error_text, "the fence stands at 7 already");
    tn_sqlite_close(store);
    CHECK_EQ_I64(access(journal, F_OK), 0);
}

/* --- Killed --------------------------------------------------------------------------------- */

/* A child raises the fence as fast as it can and tells what was acknowledged; it is killed in the
 * middle, over and over. What it told must be there. */
TEST(killed_at_any_instant_the_highest_token_survives)
{
    uint64_t told = 0;

    fresh();
    for (int round = 0; round < 20; round++) {
        int pipes[2];

        CHECK_EQ_I64(pipe(pipes), 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            sqlite3 *db = NULL;
            if (sqlite3_open(path, &db) != SQLITE_OK)
                _exit(1);
            (void)sqlite3_busy_timeout(db, 5000);
            for (uint64_t token = told + 1;; token++) {
                if (tenure_fence_sqlite_raise(db, "orders", token) != 0 ||
                    write(pipes[1], &token, sizeof token) != (ssize_t)sizeof token)
                    _exit(1);
            }
        }
        CHECK_EQ_I64(close(pipes[1]), 0);
        for (int count = 0; count <= round % 7; count++)
            CHECK_EQ_I64(read(pipes[0], &told, sizeof told), sizeof told);
        CHECK_EQ_I64(kill(child, SIGKILL), 0);
        while (read(pipes[0], &told, sizeof told) == (ssize_t)sizeof told)
            continue;
        CHECK_EQ_I64(close(pipes[0]), 0);
        CHECK_EQ_I64(waitpid(child, NULL, 0), child);
        sqlite3 *db = open_db();
        CHECK(highest(db) == told || highest(db) == told + 1);
        told = highest(db);
        close_db(db);
    }
    fresh();
}

/* --- The file ------------------------------------------------------------------------------- */

static int raise_at_url(uint64_t token)
{
    struct tn_fence_options options = { .timeout = TN_SEC(5), .create = true };
    struct tn_fence_target *target = NULL;
    uint64_t stands;

    tn_text_init(&error, error_text, sizeof error_text);
    int rc = tn_fence_target_open(url, &options, &target, &error);
    if (rc == 0)
        rc = tn_fence_target_raise(target, "orders", token, &stands, &error);
    tn_fence_target_close(target);
    return rc;
}

/* Each name has a journal of its own: what a killed writer left beside the one is not undone by a
 * writer at the other. */
TEST(a_database_with_a_second_name_is_refused)
{
    char second[160];

    fresh();
    (void)snprintf(second, sizeof second, "%s2", path);
    CHECK_EQ_I64(raise_at_url(5), 0);
    sqlite3 *db = open_db();
    must(db, "CREATE TABLE orders (x)");
    CHECK_EQ_I64(link(path, second), 0);
    CHECK_EQ_I64(raise_at_url(6), TENURE_E_DENIED);
    CHECK(strstr(error_text, "has more than one name") != NULL);
    CHECK_EQ_I64(admit_and(db, 6, "INSERT INTO orders VALUES (1)"), TENURE_E_DENIED);
    CHECK_EQ_I64(tenure_fence_sqlite_raise(db, "orders", 6), TENURE_E_DENIED);
    CHECK_EQ_I64(unlink(second), 0);
    CHECK_EQ_I64(admit_and(db, 6, "INSERT INTO orders VALUES (1)"), 0);
    CHECK_EQ_I64(raise_at_url(7), 0);
    CHECK_EQ_U64(highest(db), 7);
    close_db(db);
}

static void copy(const char *from, const char *to)
{
    char command[512];

    (void)snprintf(command, sizeof command, "cp %s %s", from, to);
    CHECK_EQ_I64(system(command), 0);
}

/* A journal that would bring token 5 back, planted beside a fence that stands at 9. */
static void plant(const char *mode)
{
    char old[160], journal[160], sql[96];

    fresh();
    (void)snprintf(old, sizeof old, "%s.old", path);
    (void)snprintf(journal, sizeof journal, "%s-%s", path,
                   strcmp(mode, "WAL") == 0 ? "wal" : "journal");
    (void)snprintf(sql, sizeof sql, "PRAGMA journal_mode=%s", mode);
    CHECK_EQ_I64(raise_at_url(5), 0);
    sqlite3 *db = open_db();
    must(db, sql);
    must(db, "BEGIN; UPDATE tenure_fences SET token = '00000000000000000001'");
    if (strcmp(mode, "WAL") == 0)
        must(db, "COMMIT");
    CHECK_EQ_I64(sqlite3_db_cacheflush(db), SQLITE_OK);
    copy(journal, old);
    if (strcmp(mode, "WAL") != 0)
        must(db, "ROLLBACK");
    must(db, "PRAGMA journal_mode=DELETE");
    close_db(db);
    CHECK_EQ_I64(tenure_fence_sqlite_raise((db = open_db()), "orders", 9), 0);
    close_db(db);
    CHECK_EQ_I64(rename(old, journal), 0);
    CHECK_EQ_I64(chmod(journal, 0644), 0);
    CHECK_EQ_I64(chown(journal, 65534, 65534), 0);
}

TEST(a_journal_of_another_user_is_not_played_back)
{
    static const char *const modes[] = { "PERSIST", "WAL" };

    if (geteuid() != 0)
        SKIP("only root can make files of others");
    for (int i = 0; i < 2; i++) {
        char journal[160];
        plant(modes[i]);
        CHECK_EQ_I64(raise_at_url(6), TENURE_E_DENIED);
        CHECK(strstr(error_text, "belongs to another user") != NULL);
        (void)snprintf(journal, sizeof journal, "%s-%s", path, i == 0 ? "journal" : "wal");
        CHECK_EQ_I64(unlink(journal), 0);
        CHECK_EQ_I64(raise_at_url(6), TENURE_E_STALE);
        CHECK_EQ_I64(raise_at_url(10), 0);
    }
}

/* A group that shares a database makes journals that belong to its members. */
TEST(a_journal_of_a_member_of_the_group_is_played_back)
{
    if (geteuid() != 0)
        SKIP("only root can make files of others");
    plant("PERSIST");
    CHECK_EQ_I64(chmod(path, 0660), 0);
    CHECK_EQ_I64(raise_at_url(6), 0); /* The journal says that 9 was never committed. */
}
