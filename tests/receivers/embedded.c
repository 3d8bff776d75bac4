/* embedded.c - the receivers that need no server: an SQLite database, a file, and a file without a
 * fence, to see that the judge would notice. */
#define _GNU_SOURCE /* mkdtemp */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/time.h"
#include "base/token.h"
#include "receivers/target.h"
#include "tenure/fence_file.h"
#include "tenure/fence_sqlite.h"
#include "tests/receivers/fences.h"

const struct receiver *const receivers[] = { &sqlite_receiver,
                                             &file_receiver,
                                             &postgres_receiver,
                                             &redis_receiver,
                                             &http_receiver,
                                             &plain_receiver,
                                             NULL };

static struct place place;
static char path[128];

static bool make_folder(const char *scheme, char *why, size_t size)
{
    if (!place_make(&place, why, size))
        return false;
    (void)snprintf(path, sizeof path, "%s/data", place.folder);
    (void)snprintf(place.url, sizeof place.url, "%s%s", scheme, path);
    return true;
}

static bool file_prepare(char *why, size_t size)
{
    return make_folder("file:", why, size);
}

static void remove_folder(void)
{
    static const char *const suffixes[] = {
        "", "-journal", "-wal", "-shm", ".fence", ".fence-new"
    };
    char file[160];

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        (void)snprintf(file, sizeof file, "%s%s", path, suffixes[i]);
        (void)unlink(file);
    }
    (void)rmdir(place.folder);
}

/* --- SQLite --------------------------------------------------------------------------------- */

static sqlite3 *open_db(void)
{
    sqlite3 *db = NULL;

    if (sqlite3_open(path, &db) != SQLITE_OK || sqlite3_busy_timeout(db, 120000) != SQLITE_OK) {
        (void)sqlite3_close(db);
        return NULL;
    }
    return db;
}

static bool sqlite_prepare(char *why, size_t size)
{
    if (!make_folder("sqlite:", why, size))
        return false;
    sqlite3 *db = open_db();
    bool good = db != NULL &&
                sqlite3_exec(db,
                             "PRAGMA journal_mode=WAL; CREATE TABLE log (id INTEGER PRIMARY KEY "
                             "AUTOINCREMENT, token TEXT, writer, n)",
                             NULL, NULL, NULL) == SQLITE_OK &&
                tenure_fence_sqlite_install(db, "log", "log") == 0;
    (void)sqlite3_close(db);
    (void)snprintf(why, size, "no database can be made");
    return good;
}

static void *sqlite_open(char *error, size_t size)
{
    sqlite3 *db = open_db();

    if (db == NULL)
        (void)snprintf(error, size, "no database");
    return db;
}

/* Presented through the trigger as well: every insert is checked twice. */
static int sqlite_write(void *connection, uint64_t token, unsigned writer, unsigned n, char *error,
                        size_t size)
{
    sqlite3 *db = connection;
    char text[TN_TOKEN_TEXT];
    char sql[160];

    tn_token_format(text, token);
    (void)snprintf(sql, sizeof sql, "INSERT INTO log (token, writer, n) VALUES ('%s', %u, %u)",
                   text, writer, n);
    if (sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
        goto out;
    int rc = unguarded ? 0 : tenure_fence_sqlite_admit(db, "log", token);
    if (rc == TENURE_E_STALE) {
        if (sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL) == SQLITE_OK)
            return rc;
    } else if (rc == 0 && sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK &&
               sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK) {
        return 0;
    }
out:
    (void)snprintf(error, size, "%s", sqlite3_errmsg(db));
    return TENURE_E_UNAVAILABLE;
}

static bool sqlite_read(record_each each, void *arg)
{
    sqlite3 *db = open_db();
    sqlite3_stmt *statement = NULL;
    bool good = db != NULL && sqlite3_prepare_v2(db, "SELECT * FROM log ORDER BY id", -1,
                                                 &statement, NULL) == SQLITE_OK;

    while (good && sqlite3_step(statement) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(statement, 1);
        uint64_t token = 0;

        good = text != NULL && tn_token_parse(text, strlen(text), &token) == 0;
        each(arg, token, (unsigned)sqlite3_column_int(statement, 2),
             (unsigned)sqlite3_column_int(statement, 3));
    }
    good = sqlite3_finalize(statement) == SQLITE_OK && good;
    (void)sqlite3_close(db);
    return good;
}

static bool sqlite_highest(uint64_t *ret_highest)
{
    sqlite3 *db = open_db();
    bool good = db != NULL && tenure_fence_sqlite_highest(db, "log", ret_highest) == 0;

    (void)sqlite3_close(db);
    return good;
}

static int raise_fence(uint64_t token, char *error, size_t size)
{
    return place_raise(&place, token, error, size);
}

static bool sqlite_guard(bool on)
{
    return place_guard(&place, on);
}

const struct receiver sqlite_receiver = {
    .name = "sqlite",
    .prepare = sqlite_prepare,
    .finish = remove_folder,
    .open = sqlite_open,
    .write = sqlite_write,
    .raise = raise_fence,
    .read = sqlite_read,
    .guard = sqlite_guard,
    .highest = sqlite_highest,
};

/* --- Files ---------------------------------------------------------------------------------- */

static void *file_open(char *error, size_t size)
{
    (void)error;
    (void)size;
    return path;
}

static int format_record(char buf[64], uint64_t token, unsigned writer, unsigned n)
{
    char text[TN_TOKEN_TEXT];

    tn_token_format(text, token);
    return snprintf(buf, 64, "%s %u %u\n", text, writer, n);
}

static int plain_write(void *connection, uint64_t token, unsigned writer, unsigned n, char *error,
                       size_t size)
{
    char record[64];
    int len = format_record(record, token, writer, n);
    int fd = open(connection, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    bool good = fd >= 0 && write(fd, record, (size_t)len) == len;
    if (!good)
        (void)snprintf(error, size, "cannot append");
    (void)close(fd);
    return good ? 0 : TENURE_E_UNAVAILABLE;
}

static int file_write(void *connection, uint64_t token, unsigned writer, unsigned n, char *error,
                      size_t size)
{
    char record[64];
    int len = format_record(record, token, writer, n);

    if (unguarded)
        return plain_write(connection, token, writer, n, error, size);
    int rc = tenure_fence_file_append(connection, token, record, (size_t)len, TN_SEC(120));
    if (rc < 0 && rc != TENURE_E_STALE)
        (void)snprintf(error, size, "%s", tenure_strerror(rc));
    return rc;
}

static bool plain_read(record_each each, void *arg)
{
    char line[80];
    uint64_t token;
    unsigned writer, n;
    FILE *in = fopen(path, "r");

    bool good = in != NULL;
    while (good && fgets(line, sizeof line, in) != NULL) {
        good = strlen(line) > TN_TOKEN_DIGITS && line[strlen(line) - 1] == '\n' &&
               tn_token_parse(line, TN_TOKEN_DIGITS, &token) == 0 &&
               sscanf(line + TN_TOKEN_DIGITS, " %u %u\n", &writer, &n) == 2;
        if (good)
            each(arg, token, writer, n);
    }
    if (in != NULL)
        (void)fclose(in);
    return good;
}

/* The last append may not have ended: a raise to what the fence has cuts it off. */
static bool file_read(record_each each, void *arg)
{
    uint64_t token;

    if (unguarded)
        return plain_read(each, arg);
    return tenure_fence_file_highest(path, &token) == 0 && token > 0 &&
           tenure_fence_file_raise(path, token, TN_SEC(5)) == 0 && plain_read(each, arg);
}

static bool file_highest(uint64_t *ret_highest)
{
    return tenure_fence_file_highest(path, ret_highest) == 0;
}

const struct receiver file_receiver = {
    .name = "file",
    .prepare = file_prepare,
    .finish = remove_folder,
    .open = file_open,
    .write = file_write,
    .raise = raise_fence,
    .read = file_read,
    .highest = file_highest,
};

/* --- A file without a fence ------------------------------------------------------------------ */

static bool plain_highest(uint64_t *ret_highest)
{
    *ret_highest = UINT64_MAX;
    return true;
}

static int plain_raise(uint64_t token, char *error, size_t size)
{
    (void)token;
    (void)error;
    (void)size;
    return 0;
}

const struct receiver plain_receiver = {
    .name = "unfenced",
    .prepare = file_prepare,
    .finish = remove_folder,
    .open = file_open,
    .write = plain_write,
    .raise = plain_raise,
    .read = plain_read,
    .highest = plain_highest,
    .unfenced = true,
};
