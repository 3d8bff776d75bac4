/* sqlite_target.c - `sqlite:PATH` as a fence: opens the file, and runs the fence's own transaction.
 *
 * The file is the application's, or that of a Tenure store, so nothing about it is changed but the
 * fence's table. Two settings hold for this connection alone: synchronous=EXTRA, because a token
 * that was acknowledged must survive a power cut; and in a store's file the journal stays in place,
 * as the store itself has it (stores/sqlite/file.c takes a journal without its file as a sign).
 *
 * The file is never opened but by SQLite: closing a descriptor of ours would drop the locks that
 * this process has on it through other connections. */
#define _GNU_SOURCE /* AT_EACCESS */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "receivers/sqlite.h"
#include "runtime/sole_file.h"
#include "runtime/sqlite_vfs.h"
#include "tenure/fence_sqlite.h"

#define STORE_APPLICATION 0x746e7572 /* "tnur", of stores/sqlite/lease.c */

struct file {
    sqlite3 *db;
    char path[PATH_MAX];
};

/* What SQLite has to say, after what it means. */
static int tell_error(const struct file *file, int code, struct tn_text *reterr)
{
    const char *why = tenure_strerror(code);

    if (code == 0 || code == TENURE_E_STALE)
        return code;
    if (code == TENURE_E_DENIED && tn_sqlite_vfs_refusal(reterr))
        return code;
    if (code == TENURE_E_UNAVAILABLE)
        why = "the database cannot be used";
    else if (code == TENURE_E_DAMAGED)
        why = "not a database, damaged, or its table tenure_fences is another program's";
    (void)tn_fence_refuse(code, file->path, why, reterr);
    if (file->db != NULL && sqlite3_errcode(file->db) != SQLITE_OK)
        tn_text_addf(reterr, " (%s)", sqlite3_errmsg(file->db));
    return code;
}

/* Returns 1 when there is no file, and it is to be made. */
static int check_file(const char *path, const struct tn_fence_options *options,
                      struct tn_text *reterr)
{
    const char *why;
    struct stat st;

    if (strlen(path) > 480)
        return tn_fence_refuse(TENURE_E_INVALID, path, "the path is too long; at most 480 bytes",
                               reterr);
    if (lstat(path, &st) != 0)
        return options->create && errno == ENOENT ? 1
                                                  : tn_fence_refuse_missing(path, errno, reterr);
    int rc = tn_sole_file(path, &st, &why);
    if (rc < 0)
        return tn_fence_refuse(rc, path, why, reterr);
    if (faccessat(AT_FDCWD, path, options->read_only ? R_OK : R_OK | W_OK, AT_EACCESS) != 0)
        return tn_fence_refuse_errno(path, errno, reterr);
    return 0;
}

static int keep_first(void *arg, int count, char **values, char **names)
{
    (void)names;
    if (count > 0 && values[0] != NULL)
        *(long *)arg = strtol(values[0], NULL, 10);
    return 0;
}

static int configure(sqlite3 *db, const struct tn_fence_options *options)
{
    tenure_ns busy_ms = options->timeout / TN_MS(1);
    long application = 0;

    (void)sqlite3_extended_result_codes(db, 1);
    int rc = sqlite3_busy_timeout(db, busy_ms < INT_MAX ? (int)busy_ms + 1 : INT_MAX);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, "PRAGMA synchronous=EXTRA; PRAGMA trusted_schema=OFF;", NULL, NULL,
                          NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, "PRAGMA application_id", keep_first, &application, NULL);
    if (rc == SQLITE_OK) /* The file has been read, so SQLite has open what belongs to it. */
        rc = tn_sqlite_vfs_recheck(db);
    if (rc == SQLITE_OK && application == STORE_APPLICATION && !options->read_only)
        rc = sqlite3_exec(db, "PRAGMA journal_mode=PERSIST", NULL, NULL, NULL);
    return rc;
}

static void close_file(void *self)
{
    struct file *file = self;

    (void)sqlite3_close(file->db);
    free(file);
}

static int open_file(const char *path, const struct tn_fence_options *options, void **ret_self,
                     struct tn_text *reterr)
{
    int flags = SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_READWRITE;
    const char *vfs = tn_sqlite_vfs();
    char full[PATH_MAX];

    int missing = check_file(path, options, reterr);
    if (missing < 0)
        return missing;
    struct file *file = calloc(1, sizeof *file);
    if (file == NULL) {
        tn_text_add(reterr, "out of memory");
        return TENURE_E_NOMEM;
    }
    (void)snprintf(file->path, sizeof file->path, "%s", path);
    *ret_self = file;
    /* SQLITE_OPEN_NOFOLLOW would refuse links on the way to the file, which are nobody's harm. */
    if (missing == 0 && realpath(path, full) == NULL)
        (void)snprintf(full, sizeof full, "%s", path);
    if (missing == 1)
        flags = SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    else if (options->read_only)
        flags = SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_READONLY;
    int rc = vfs != NULL ? sqlite3_open_v2(missing == 1 ? path : full, &file->db, flags, vfs)
                         : SQLITE_NOMEM;
    if (rc == SQLITE_CANTOPEN && file->db != NULL && sqlite3_system_errno(file->db) != 0)
        rc = tn_fence_refuse_missing(path, sqlite3_system_errno(file->db), reterr);
    else if (rc == SQLITE_OK && (rc = configure(file->db, options)) == SQLITE_OK)
        return 0;
    else
        rc = tell_error(file, tn_fence_sqlite_code(rc), reterr);
    close_file(file);
    return rc;
}

static int raise_fence(void *self, const char *resource, uint64_t token, uint64_t *ret_highest,
                       struct tn_text *reterr)
{
    struct file *file = self;

    return tell_error(file, tn_fence_sqlite_raise(file->db, resource, token, ret_highest), reterr);
}

static int show(void *self, const char *resource, uint64_t *ret_highest, struct tn_text *reterr)
{
    struct file *file = self;

    return tell_error(file, tenure_fence_sqlite_highest(file->db, resource, ret_highest), reterr);
}

static int list(void *self, tn_fence_each each, void *arg, struct tn_text *reterr)
{
    struct file *file = self;

    return tell_error(file, tn_fence_sqlite_list(file->db, each, arg), reterr);
}

/* SQLite makes a journal beside the file. */
static int probe(void *self, const char *resource, struct tn_text *reterr)
{
    const struct file *file = self;

    (void)resource;
    return tn_fence_folder_check(file->path, reterr);
}

static int install(void *self, const char *table, const char *resource, struct tn_text *reterr)
{
    struct file *file = self;

    if (table == NULL)
        return tell_error(file, tn_fence_sqlite_prepare(file->db), reterr);
    int rc = tenure_fence_sqlite_install(file->db, table, resource);
    if (rc == TENURE_E_INVALID)
        return tn_fence_refuse(rc, table, "no such table, or one that cannot be protected", reterr);
    return tell_error(file, rc, reterr);
}

static int remove_trigger(void *self, const char *table, struct tn_text *reterr)
{
    struct file *file = self;

    if (table == NULL) {
        tn_text_add(reterr, "--table is missing: which table is to be freed");
        return TENURE_E_INVALID;
    }
    return tell_error(file, tenure_fence_sqlite_remove(file->db, table), reterr);
}

const struct tn_fence_ops tn_fence_sqlite_ops = {
    .scheme = "sqlite:",
    .form = "sqlite:PATH",
    .file = true,
    .open = open_file,
    .close = close_file,
    .raise = raise_fence,
    .show = show,
    .list = list,
    .probe = probe,
    .install = install,
    .remove = remove_trigger,
};
