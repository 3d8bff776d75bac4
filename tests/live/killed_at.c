/* killed_at.c - to be preloaded: a client of a store is killed behind its Nth request.
 *
 *   TN_KILL_AT=N    behind the Nth request, SIGKILL; fewer are no harm
 *
 * A request is what one write to a socket sends, or a transaction of SQLite, which ends when the
 * last lock on the file is given back. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static void count_request(void)
{
    static long left = -1;

    if (left < 0) {
        const char *at = getenv("TN_KILL_AT");
        left = at != NULL ? strtol(at, NULL, 10) : 0;
    }
    if (left > 0 && --left == 0)
        (void)raise(SIGKILL);
}

static void sent(int fd, ssize_t length)
{
    int type;
    socklen_t size = sizeof type;

    if (length > 0 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0)
        count_request();
}

static void *find(const char *name)
{
    void *it = dlsym(RTLD_NEXT, name);

    if (it == NULL)
        abort();
    return it;
}

ssize_t write(int fd, const void *bytes, size_t length)
{
    static ssize_t (*real)(int, const void *, size_t);

    if (real == NULL)
        *(void **)&real = find("write");
    ssize_t rc = real(fd, bytes, length);
    sent(fd, rc);
    return rc;
}

ssize_t writev(int fd, const struct iovec *pieces, int count)
{
    static ssize_t (*real)(int, const struct iovec *, int);

    if (real == NULL)
        *(void **)&real = find("writev");
    ssize_t rc = real(fd, pieces, count);
    sent(fd, rc);
    return rc;
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    static ssize_t (*real)(int, const struct msghdr *, int);

    if (real == NULL)
        *(void **)&real = find("sendmsg");
    ssize_t rc = real(fd, message, flags);
    sent(fd, rc);
    return rc;
}

static int control(const char *name, int fd, int command, void *arg)
{
    int (*real)(int, int, ...) = NULL;
    const struct flock *lock = arg;

    *(void **)&real = find(name);
    int rc = real(fd, command, arg);
    if (rc == 0 && command == F_SETLK && lock->l_type == F_UNLCK && lock->l_len == 0)
        count_request();
    return rc;
}

int fcntl(int fd, int command, ...)
{
    va_list rest;

    va_start(rest, command);
    void *arg = va_arg(rest, void *);
    va_end(rest);
    return control("fcntl", fd, command, arg);
}

int fcntl64(int fd, int command, ...)
{
    va_list rest;

    va_start(rest, command);
    void *arg = va_arg(rest, void *);
    va_end(rest);
    return control("fcntl64", fd, command, arg);
}
