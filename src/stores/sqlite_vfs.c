/* sqlite_vfs.c - SQLite's own access to files, less one flush per transaction.
 *
 * SQLite closes its journal after every transaction and opens it with the next one, as if it were
 * new, and so it flushes the directory each time, lest the entry of a new journal be lost with the
 * power. Ours stays in place (PERSIST). Once a process has flushed the directory with that very
 * file in it, there is nothing left to flush; a journal that was removed and made again is another
 * file, and is flushed for again. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stores/sqlite_private.h"

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

static int open_file(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
                     int *ret_flags)
{
    const int made = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_CREATE;
    struct stat st;

    if ((flags & made) != made || name == NULL)
        return system_open(vfs, name, file, flags, ret_flags);
    if (stat(name, &st) == 0 && is_known(&st)) {
        int rc = system_open(vfs, name, file, flags & ~SQLITE_OPEN_CREATE, ret_flags);
        if (rc == SQLITE_OK)
            return rc; /* Otherwise it has gone since. */
    }
    int rc = system_open(vfs, name, file, flags, ret_flags);
    if (rc == SQLITE_OK)
        note(name);
    return rc;
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
