/* sqlite_bell.c - how a waiter hears of its grant at once: a file beside the store that is touched.
 *
 * Watching the database itself would wake all waiters with every renewal of anybody. The bell is
 * written only when a waiter was granted a lease, after the commit, so whoever wakes finds the
 * answer. It carries no meaning: a lost ring costs the time until the waiter asks by itself, a
 * false one a question. So nothing here is an error. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "stores/sqlite_private.h"

/* Never waits, should somebody have put a pipe there. */
static int open_bell(const struct tn_sqlite *store, char *path, size_t size)
{
    (void)snprintf(path, size, "%s-bell", store->path);
    return open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
}

void tn_sqlite_ring(const struct tn_sqlite *store)
{
    char path[PATH_MAX + 16];
    int fd = open_bell(store, path, sizeof path);

    if (fd < 0)
        return;
    ssize_t written = pwrite(fd, "\n", 1, 0);
    (void)written;
    (void)close(fd);
}

int tn_sqlite_watch(const struct tn_sqlite *store)
{
    char path[PATH_MAX + 16];
    int bell = open_bell(store, path, sizeof path);
    int fd = bell >= 0 ? inotify_init1(IN_CLOEXEC | IN_NONBLOCK) : -1;

    if (bell >= 0)
        (void)close(bell);
    if (fd >= 0 && inotify_add_watch(fd, path, IN_MODIFY | IN_DONT_FOLLOW) < 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

void tn_sqlite_watch_drain(int fd)
{
    char events[4096];

    while (read(fd, events, sizeof events) > 0)
        ;
}
