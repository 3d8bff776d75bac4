/* sqlite_file_test.c - one file, one name, one journal, and nobody else's.
 *
 * A hot journal is made as a process that is killed inside COMMIT leaves it: the pages as they were
 * are in the journal and flushed, the file has the new ones. */
#define _GNU_SOURCE /* mkdtemp, unshare */
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "runtime/sole_file.h"
#include "tests/unit/sqlite_sync.h"

static char folder[64];
static char path[96];
static char journal[128];
static char other[128];
static char error_text[1024];
static struct tn_sqlite_result result;

static const char *name(const char *suffix)
{
    static char names[4][160];
    static unsigned next;
    char *buf = names[next++ % 4];

    (void)snprintf(buf, sizeof names[0], "%s%s", path, suffix);
    return buf;
}

static void fresh(void)
{
    static const char *const suffixes[] = { "",     "-journal", "-bell",    "-wal", "-shm",
                                            ".old", ".old-wal", ".old-shm", "2" };

    for (size_t i = 0; folder[0] != '\0' && i < sizeof suffixes / sizeof suffixes[0]; i++)
        (void)unlink(name(suffixes[i]));
    if (folder[0] != '\0')
        (void)rmdir(folder);
    (void)snprintf(folder, sizeof folder, "/tmp/tn-file-......");
    memset(strchr(folder, '.'), 'X', 6); /* What mkdtemp replaces. */
    CHECK(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof path, "%s/t.db", folder);
    (void)snprintf(journal, sizeof journal, "%s-journal", path);
    (void)snprintf(other, sizeof other, "%s2", path);
}

static int try_open(const char *file, struct tn_sqlite **ret_store)
{
    static struct tn_clock clock;
    struct tn_text error;

    CHECK_EQ_I64(tn_clock_init(&clock), 0);
    tn_text_init(&error, error_text, sizeof error_text);
    return sync_open(file, &clock, true, ret_store, &error);
}

static int try_acquire(struct tn_sqlite *store, int who)
{
    struct tn_op op = { .kind = TN_OP_ACQUIRE,
                        .session = { { 1, (uint8_t)who } },
                        .term = { { 2, (uint8_t)who } },
                        .ttl = TN_SEC(600),
                        .name = "job",
                        .name_len = 3 };
    struct tn_text error;

    tn_text_init(&error, error_text, sizeof error_text);
    return sync_step(store, &op, &result, &error);
}

static void says(const char *words)
{
    if (strstr(error_text, words) == NULL)
        CHECK_STR(error_text, words);
}

/* The store is refused so, at once and not only at the second look. */
static void refused(const char *file, int code, const char *words)
{
    struct tn_sqlite *store = NULL;

    int rc = try_open(file, &store);
    if (rc == 0)
        rc = try_acquire(store, 9);
    tn_sqlite_close(store);
    CHECK_EQ_I64(rc, code);
    says(words);
}

static uint64_t grant(int who)
{
    struct tn_sqlite *store = NULL;

    int rc = try_open(path, &store);
    CHECK_STR(error_text, "");
    CHECK_EQ_I64(rc, 0);
    CHECK_EQ_I64(try_acquire(store, who), 0);
    tn_sqlite_close(store);
    return result.lease.record.token;
}

static uint64_t token_in_file(void)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;

    CHECK_EQ_I64(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_EQ_I64(sqlite3_prepare_v2(db, "SELECT token FROM counter", -1, &statement, NULL), 0);
    CHECK_EQ_I64(sqlite3_step(statement), SQLITE_ROW);
    uint64_t token = (uint64_t)sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    CHECK_EQ_I64(sqlite3_close(db), SQLITE_OK);
    return token;
}

static void copy(const char *from, const char *to)
{
    static char bytes[1 << 20];
    FILE *in = fopen(from, "rb");
    FILE *out = fopen(to, "wb");

    CHECK(in != NULL && out != NULL);
    size_t len = fread(bytes, 1, sizeof bytes, in);
    CHECK_EQ_U64(fwrite(bytes, 1, len, out), len);
    CHECK_EQ_I64(fclose(in) | fclose(out), 0);
}

/* Die inside COMMIT, with @sql half done through the name @file. */
static void die_in_commit(const char *file, const char *sql)
{
    int status = -1;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        sqlite3 *db = NULL;
        int rc = sqlite3_open(file, &db);
        if (rc == SQLITE_OK)
            rc = sqlite3_exec(db, "PRAGMA journal_mode=PERSIST; BEGIN IMMEDIATE", NULL, NULL, NULL);
        if (rc == SQLITE_OK)
            rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
        if (rc == SQLITE_OK)
            rc = sqlite3_db_cacheflush(db);
        _exit(rc == SQLITE_OK ? 0 : 1);
    }
    CHECK_EQ_I64(waitpid(child, &status, 0), child);
    CHECK_EQ_I64(status, 0);
}

#define GRANTS_BACK "UPDATE counter SET token = token + 1; DELETE FROM leases"

/* A store with token 3, and beside it, as .old, a journal that would bring token 1 back. */
static void make_old_journal(void)
{
    fresh();
    CHECK_EQ_U64(grant(1), 1);
    die_in_commit(path, GRANTS_BACK);
    copy(journal, name(".old"));
    CHECK_EQ_U64(grant(1), 1); /* The journal was played back, and the lease is held. */
    for (int i = 0; i < 2; i++) {
        sqlite3 *db = NULL;
        CHECK_EQ_I64(sqlite3_open(path, &db), SQLITE_OK);
        CHECK_EQ_I64(sqlite3_exec(db, "UPDATE counter SET token = token + 1", NULL, NULL, NULL), 0);
        CHECK_EQ_I64(sqlite3_close(db), SQLITE_OK);
    }
    CHECK_EQ_U64(token_in_file(), 3);
    (void)unlink(journal);
}

/* --- One name ------------------------------------------------------------------------------- */

TEST(a_second_name_is_refused_under_both)
{
    fresh();
    CHECK_EQ_U64(grant(1), 1);
    CHECK_EQ_I64(link(path, other), 0);
    refused(path, TENURE_E_DENIED, "has more than one name");
    refused(other, TENURE_E_DENIED, "has more than one name");
    CHECK_EQ_I64(unlink(other), 0);
    CHECK_EQ_U64(grant(1), 1);
}

TEST(a_second_name_that_appears_stops_a_store_in_use)
{
    struct tn_sqlite *store = NULL;

    fresh();
    CHECK_EQ_I64(try_open(path, &store), 0);
    CHECK_EQ_I64(try_acquire(store, 1), 0);
    CHECK_EQ_I64(link(path, other), 0);
    CHECK_EQ_I64(try_acquire(store, 1), TENURE_E_DENIED);
    says("has more than one name");
    CHECK_EQ_I64(unlink(other), 0);
    CHECK_EQ_I64(try_acquire(store, 1), 0);
    CHECK_EQ_U64(result.lease.record.token, 1);
    tn_sqlite_close(store);
}

/* As a maker leaves it that died between link and unlink, where there is no better way. */
TEST(a_leftover_draft_is_no_second_name)
{
    fresh();
    CHECK_EQ_U64(grant(1), 1);
    CHECK_EQ_I64(link(path, name("-new-0123456789abcdef")), 0);
    CHECK_EQ_U64(grant(1), 1);
    CHECK(access(name("-new-0123456789abcdef"), F_OK) != 0);
}

/* Another file with such a name is not touched. */
TEST(a_file_that_only_looks_like_a_draft_stays)
{
    fresh();
    CHECK_EQ_U64(grant(1), 1);
    CHECK_EQ_I64(link(path, other), 0);
    copy(path, name("-new-0123456789abcdef"));
    refused(path, TENURE_E_DENIED, "has more than one name");
    CHECK_EQ_I64(unlink(name("-new-0123456789abcdef")), 0);
}

/* --- Mounts --------------------------------------------------------------------------------- */

/* Runs @check in a child with mounts of its own. Returns false when that is not allowed. */
static bool in_namespace(void (*check)(void))
{
    int status = -1;
    pid_t child = fork();

    CHECK(child >= 0);
    if (child == 0) {
        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
            _exit(77);
        check();
        _exit(0);
    }
    CHECK_EQ_I64(waitpid(child, &status, 0), child);
    bool allowed = !WIFEXITED(status) || WEXITSTATUS(status) != 77;
    CHECK(!allowed || status == 0);
    return allowed;
}

/* From here on statx answers as on an old kernel, with or without what it knows of mounts. */
static void forbid_statx(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_statx, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof code[0], code };

    CHECK_EQ_I64(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQ_I64(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void check_mounted_file(void)
{
    copy(path, other);
    CHECK_EQ_I64(mount(path, other, NULL, MS_BIND, NULL), 0);
    refused(other, TENURE_E_DENIED, "is mounted as a single file");
    CHECK_EQ_U64(grant(1), 1); /* By its own name it goes on. */
    forbid_statx();
    refused(other, TENURE_E_DENIED, "is mounted as a single file");
    CHECK_EQ_U64(grant(1), 1);
    /* Nothing is left to tell by. */
    const char *why = "";
    struct stat st;
    CHECK_EQ_I64(umount2("/proc", MNT_DETACH), 0);
    CHECK_EQ_I64(tn_sole_file(path, &st, &why), TENURE_E_UNSUPPORTED);
    CHECK(strstr(why, "mount /proc") != NULL);
}

TEST(a_file_that_is_mounted_by_itself_is_refused)
{
    fresh();
    CHECK_EQ_U64(grant(1), 1);
    if (!in_namespace(check_mounted_file))
        SKIP("mounting is not allowed here");
}

static void check_mount_in_use(void)
{
    struct tn_sqlite *store = NULL;

    CHECK_EQ_I64(try_open(path, &store), 0);
    CHECK_EQ_I64(mount(path, path, NULL, MS_BIND, NULL), 0);
    CHECK_EQ_I64(try_acquire(store, 1), TENURE_E_DENIED);
    says("is mounted as a single file");
    CHECK_EQ_I64(umount2(path, MNT_DETACH), 0);
    CHECK_EQ_I64(try_acquire(store, 1), 0);
    tn_sqlite_close(store);
}

TEST(a_mount_over_a_store_in_use_stops_it)
{
    fresh();
    if (!in_namespace(check_mount_in_use))
        SKIP("mounting is not allowed here");
}

/* The same directory in two places has one journal: what died at the one is undone at the other. */
static void check_mounted_folder(void)
{
    char place[128];
    char file[160];

    (void)snprintf(place, sizeof place, "%s.d", path);
    (void)snprintf(file, sizeof file, "%s/t.db", place);
    CHECK_EQ_I64(mkdir(place, 0700), 0);
    CHECK_EQ_I64(mount(folder, place, NULL, MS_BIND, NULL), 0);
    die_in_commit(file, GRANTS_BACK);
    CHECK_EQ_U64(grant(1), 1);
    CHECK_EQ_I64(umount2(place, MNT_DETACH) | rmdir(place), 0);
}

TEST(a_directory_that_is_mounted_twice_has_one_journal)
{
    fresh();
    CHECK_EQ_U64(grant(1), 1);
    if (!in_namespace(check_mounted_folder))
        SKIP("mounting is not allowed here");
}

/* --- Journals ------------------------------------------------------------------------------- */

TEST(what_a_killed_commit_left_is_undone)
{
    fresh();
    CHECK_EQ_U64(grant(1), 1);
    die_in_commit(path, GRANTS_BACK);
    CHECK_EQ_U64(grant(1), 1);
}

TEST(a_journal_of_another_user_is_not_played_back)
{
    if (geteuid() != 0)
        SKIP("only root can make files of others");
    make_old_journal();
    copy(name(".old"), journal);
    CHECK_EQ_I64(chown(journal, 65534, 65534), 0);
    refused(path, TENURE_E_DENIED, "t.db-journal: belongs to another user");
    CHECK_EQ_I64(unlink(journal), 0);
    CHECK_EQ_U64(token_in_file(), 3);
    CHECK_EQ_U64(grant(1), 1);
}

/* Before there is a store, too, and it says whose it is. */
TEST(a_journal_of_another_user_is_in_the_way_of_a_new_store)
{
    if (geteuid() != 0)
        SKIP("only root can make files of others");
    make_old_journal();
    CHECK_EQ_I64(unlink(path), 0);
    CHECK_EQ_I64(rename(name(".old"), journal), 0);
    CHECK_EQ_I64(chown(journal, 65534, 65534), 0);
    refused(path, TENURE_E_DENIED, "t.db-journal: belongs to another user");
    CHECK(access(path, F_OK) != 0);
}

/* Put there while the store is open, where no check at the start can see it. */
TEST(a_journal_of_another_user_is_not_played_back_by_a_store_in_use)
{
    struct tn_sqlite *store = NULL;

    if (geteuid() != 0)
        SKIP("only root can make files of others");
    make_old_journal();
    CHECK_EQ_I64(try_open(path, &store), 0);
    (void)unlink(journal);
    copy(name(".old"), journal);
    CHECK_EQ_I64(chown(journal, 65534, 65534), 0);
    CHECK_EQ_I64(try_acquire(store, 9), TENURE_E_DENIED);
    says("t.db-journal: belongs to another user");
    CHECK_EQ_I64(unlink(journal), 0);
    CHECK_EQ_I64(try_acquire(store, 9), 0);
    CHECK_EQ_I64(result.answer, TN_ANSWER_HELD);
    tn_sqlite_close(store);
    CHECK_EQ_U64(token_in_file(), 3);
}

TEST(a_journal_that_others_may_write_is_not_played_back)
{
    make_old_journal();
    copy(name(".old"), journal);
    CHECK_EQ_I64(chmod(journal, 0622), 0);
    refused(path, TENURE_E_DENIED, "may be written by users");
    CHECK_EQ_I64(unlink(journal), 0);
    CHECK_EQ_U64(token_in_file(), 3);
}

TEST(a_journal_that_is_no_plain_file_is_refused_and_never_waited_for)
{
    make_old_journal();
    (void)alarm(60); /* Opening a pipe without a writer would wait for ever. */
    CHECK_EQ_I64(mkfifo(journal, 0600), 0);
    refused(path, TENURE_E_DENIED, "t.db-journal: is not a regular file");
    CHECK_EQ_I64(unlink(journal), 0);
    CHECK_EQ_I64(symlink(name(".old"), journal), 0);
    refused(path, TENURE_E_DENIED, "t.db-journal: is a symbolic link");
    CHECK_EQ_I64(unlink(journal), 0);
    CHECK_EQ_I64(link(name(".old"), journal), 0);
    refused(path, TENURE_E_DENIED, "t.db-journal: has more than one name");
    CHECK_EQ_I64(unlink(journal), 0);
    CHECK_EQ_I64(mkdir(journal, 0700), 0);
    refused(path, TENURE_E_DENIED, "t.db-journal: is not a regular file");
    CHECK_EQ_I64(rmdir(journal), 0);
    (void)alarm(0);
    CHECK_EQ_U64(token_in_file(), 3);
}

/* The presence of a WAL alone makes SQLite read it. */
TEST(a_wal_of_another_user_is_not_read)
{
    static const char *const suffixes[] = { "-wal", "-shm" };
    sqlite3 *db = NULL;

    if (geteuid() != 0)
        SKIP("only root can make files of others");
    for (int i = 0; i < 2; i++) {
        fresh();
        CHECK_EQ_U64(grant(1), 1);
        copy(path, name(".old"));
        CHECK_EQ_I64(sqlite3_open(name(".old"), &db), SQLITE_OK);
        CHECK_EQ_I64(sqlite3_exec(db, "PRAGMA journal_mode=WAL; " GRANTS_BACK, NULL, NULL, NULL),
                     0);
        copy(name(".old-wal"), name("-wal"));
        if (i == 1)
            copy(name(".old-shm"), name("-shm"));
        CHECK_EQ_I64(sqlite3_close(db), SQLITE_OK);
        CHECK_EQ_I64(chmod(name("-wal"), 0600), 0);
        CHECK_EQ_I64(chown(name(suffixes[i]), 65534, 65534), 0);
        refused(path, TENURE_E_DENIED, "belongs to another user");
        says(suffixes[i]);
        (void)unlink(name("-wal"));
        (void)unlink(name("-shm"));
        CHECK_EQ_U64(grant(1), 1);
    }
}

/* --- The bell ------------------------------------------------------------------------------- */

TEST(a_bell_that_is_another_file_is_not_written)
{
    struct stat st;
    struct tn_sqlite *store = NULL;

    fresh();
    FILE *precious = fopen(other, "wb");
    CHECK(precious != NULL);
    CHECK_EQ_I64(fclose(precious), 0);
    CHECK_EQ_I64(link(other, name("-bell")), 0);
    CHECK_EQ_I64(try_open(path, &store), 0);
    CHECK_EQ_I64(try_acquire(store, 1), 0);
    tn_sqlite_close(store);
    CHECK_EQ_I64(stat(other, &st), 0);
    CHECK_EQ_U64((uint64_t)st.st_size, 0);
    CHECK_EQ_I64(unlink(name("-bell")), 0);
}
