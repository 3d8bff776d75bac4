/* sqlite_vfs.c - SQLite's own access to files, with a look at what is opened, less one flush.
 *
 * SQLite finds a journal by its name and plays back whatever it finds there. So each file is judged
 * here, where SQLite is about to open it, under SQLite's lock: the database itself, its journal,
 * and a WAL with its index, whose mere presence makes SQLite read it. In a directory with the
 * sticky bit nobody can exchange a file of ours between the look and the opening, and a file that
 * was not there is made with O_EXCL. Where others may rename files at will, nothing helps.
 *
 * SQLite closes its journal after every transaction and opens it with the next one, as if it were
 * new, and so it flushes the directory each time, lest the entry of a new journal be lost with the
 * power. Ours stays in place (PERSIST). Once a process has flushed the directory with that very
 * file in it, there is nothing left to flush; a journal that was removed and made again is another
 * file, and is flushed for again. */
#define _GNU_SOURCE
#include "runtime/sqlite_vfs.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/sole_file.h"

/* The journals of as many stores, each for as long as it is the same file. */
enum { KNOWN = 8 };

static struct {
    pthread_mutex_t lock;
    struct sqlite3_vfs vfs;
    struct {
        dev_t device;
        ino_t inode;
    } known[KNOWN];
    unsigned next;
    bool registered;
} own = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int (*system_open)(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                          int *ret_flags);

/* --- Refusing ------------------------------------------------------------------------------- */

static _Thread_local char refusal[PATH_MAX + 256];

static int refuse_path(const char *path, const char *why)
{
    struct tn_text text;

    tn_text_init(&text, refusal, sizeof refusal);
    tn_text_escape(&text, path, strlen(path));
    tn_text_addf(&text, ": %s", why);
    return SQLITE_PERM;
}

bool tn_sqlite_vfs_refusal(struct tn_text *reterr)
{
    if (refusal[0] == '\0')
        return false;
    tn_text_add(reterr, refusal);
    refusal[0] = '\0';
    return true;
}

/* SQLITE_OK also when there is no such file; then @ret_st->st_ino is 0. */
static int look_at(const char *path, struct stat *ret_st)
{
    const char *why;

    ret_st->st_ino = 0;
    int rc = tn_sole_file(path, ret_st, &why);
    if (rc == 0 || rc == TENURE_E_NOT_HELD)
        return SQLITE_OK;
    if (rc == TENURE_E_NOMEM || rc == TENURE_E_UNAVAILABLE)
        return rc == TENURE_E_NOMEM ? SQLITE_NOMEM : SQLITE_IOERR;
    return refuse_path(path, why);
}

static int look_beside(const char *path, const struct stat *main, struct stat *ret_st)
{
    int rc = look_at(path, ret_st);
    if (rc != SQLITE_OK || ret_st->st_ino == 0)
        return rc;
    const char *why = tn_beside_reason(path, main, ret_st);
    return why == NULL ? SQLITE_OK : refuse_path(path, why);
}

/* The database that @name is the journal or the WAL of: it must still have its one name, or the
 * journal is another file's. */
static int look_at_database(sqlite3_filename name, struct stat *ret_st)
{
    sqlite3_file *file = sqlite3_database_file_object(name);
    const char *path = sqlite3_filename_database(name);
    int moved = 0;

    int rc = look_at(path, ret_st);
    if (rc != SQLITE_OK)
        return rc;
    rc = file->pMethods->xFileControl(file, SQLITE_FCNTL_HAS_MOVED, &moved);
    if (rc == SQLITE_OK && moved == 0 && ret_st->st_ino != 0)
        return SQLITE_OK;
    return refuse_path(path, "the file was removed or replaced while it was in use");
}

/* --- Flushing ------------------------------------------------------------------------------- */

static bool is_known(const struct stat *st)
{
    bool known = false;

    (void)pthread_mutex_lock(&own.lock);
    for (unsigned i = 0; i < KNOWN; i++)
        known = known || (own.known[i].inode == st->st_ino && own.known[i].device == st->st_dev);
    (void)pthread_mutex_unlock(&own.lock);
    return known;
}

/* Flush the directory with the journal in it, and remember the file. */
static void note(const char *path)
{
    char folder[PATH_MAX];
    struct stat st;

    (void)snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL || stat(path, &st) != 0)
        return;
    slash[slash == folder ? 1 : 0] = '\0';
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fsync(fd) == 0) {
        (void)pthread_mutex_lock(&own.lock);
        own.known[own.next % KNOWN].device = st.st_dev;
        own.known[own.next++ % KNOWN].inode = st.st_ino;
        (void)pthread_mutex_unlock(&own.lock);
    }
    (void)close(fd);
}

/* --- Opening -------------------------------------------------------------------------------- */

/* There is no such file: make it, or fail; never open what appeared in between. */
static int open_new(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                    int *ret_flags)
{
    int made = 0;

    int rc = system_open(vfs, name, file, flags | SQLITE_OPEN_EXCLUSIVE, &made);
    if (rc == SQLITE_OK && (made & SQLITE_OPEN_READONLY) != 0) {
        /* SQLite opens for reading what it cannot make. */
        (void)file->pMethods->xClose(file);
        file->pMethods = NULL;
        return refuse_path(name,
                           "appeared while it was about to be made; find out who put it there");
    }
    if (rc == SQLITE_OK && ret_flags != NULL)
        *ret_flags = made;
    return rc;
}

static int open_journal(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                        int *ret_flags)
{
    struct stat main, st;

    int rc = look_at_database(name, &main);
    if (rc == SQLITE_OK)
        rc = look_beside(name, &main, &st);
    if (rc != SQLITE_OK)
        return rc;
    flags |= SQLITE_OPEN_NOFOLLOW;
    if (st.st_ino != 0 && is_known(&st)) {
        rc = system_open(vfs, name, file, flags & ~SQLITE_OPEN_CREATE, ret_flags);
        if (rc == SQLITE_OK)
            return rc; /* Otherwise it has gone since. */
    }
    bool create = (flags & SQLITE_OPEN_CREATE) != 0;
    rc = st.st_ino == 0 && create ? open_new(vfs, name, file, flags, ret_flags)
                                  : system_open(vfs, name, file, flags, ret_flags);
    if (rc == SQLITE_OK && create)
        note(name);
    return rc;
}

static int look_at_index(const char *path, const struct stat *main)
{
    char index[PATH_MAX];
    struct stat st;

    (void)snprintf(index, sizeof index, "%s-shm", path);
    return look_beside(index, main, &st);
}

int tn_sqlite_vfs_recheck(struct sqlite3 *db)
{
    const char *path = sqlite3_db_filename(db, "main");
    struct stat main;

    int rc = look_at(path, &main);
    return rc == SQLITE_OK ? look_at_index(path, &main) : rc;
}

/* SQLite itself opens the index of a WAL, so that is judged here as well. */
static int open_wal(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                    int *ret_flags)
{
    struct stat main, st;

    int rc = look_at_database(name, &main);
    if (rc == SQLITE_OK)
        rc = look_at_index(sqlite3_filename_database(name), &main);
    if (rc == SQLITE_OK)
        rc = look_beside(name, &main, &st);
    if (rc != SQLITE_OK)
        return rc;
    flags |= SQLITE_OPEN_NOFOLLOW;
    if (st.st_ino == 0 && (flags & SQLITE_OPEN_CREATE) != 0)
        return open_new(vfs, name, file, flags, ret_flags);
    return system_open(vfs, name, file, flags, ret_flags);
}

static int open_file(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                     int *ret_flags)
{
    struct stat st;

    file->pMethods = NULL;
    if (name != NULL && (flags & SQLITE_OPEN_MAIN_JOURNAL) != 0)
        return open_journal(vfs, name, file, flags, ret_flags);
    if (name != NULL && (flags & SQLITE_OPEN_WAL) != 0)
        return open_wal(vfs, name, file, flags, ret_flags);
    int rc = name != NULL && (flags & SQLITE_OPEN_MAIN_DB) != 0 ? look_at(name, &st) : SQLITE_OK;
    return rc == SQLITE_OK ? system_open(vfs, name, file, flags, ret_flags) : rc;
}

const char *tn_sqlite_vfs(void)
{
    (void)pthread_mutex_lock(&own.lock);
    sqlite3_vfs *system = own.registered ? NULL : sqlite3_vfs_find("unix");
    if (system != NULL) {
        own.vfs = *system;
        own.vfs.zName = "tenure";
        own.vfs.pNext = NULL;
        system_open = system->xOpen;
        own.vfs.xOpen = open_file;
        own.registered = sqlite3_vfs_register(&own.vfs, 0) == SQLITE_OK;
    }
    const char *name = own.registered ? "tenure" : NULL;
    (void)pthread_mutex_unlock(&own.lock);
    return name;
}
