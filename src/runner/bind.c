/* bind.c - a few words to the daemon, without allocation and within a time limit. */
#define _GNU_SOURCE
#include "runner/bind.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/time.h"
#include "runner/os.h"

int tn_bind_connect(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = tn_fd_above_streams(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

    if (fd < 0)
        return -1;
    memccpy(address.sun_path, path, 0, sizeof address.sun_path - 1);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    int error = errno; /* EAGAIN: its queue is full. */
    (void)close(fd);
    errno = error;
    return -1;
}

/* Reads a line, of which only the first byte matters. */
static bool hear_yes(int fd, tenure_ns until)
{
    char bytes[128];
    char first = 0;

    for (;;) {
        struct pollfd ready = { .fd = fd, .events = POLLIN };
        tenure_ns left = until - tn_boottime();
        if (left <= 0 || (poll(&ready, 1, (int)(left / TN_MS(1)) + 1) < 0 && errno != EINTR))
            return false;
        ssize_t len = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        if (len > 0 && first == 0)
            first = bytes[0];
        if (len > 0 && memchr(bytes, '\n', (size_t)len) != NULL)
            return first == '+';
    }
}

static bool ask(int fd, const char *line, tenure_ns until)
{
    size_t len = strlen(line);

    return send(fd, line, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len && hear_yes(fd, until);
}

/* That the first connection still answers shows that the daemon has not begun anew since. */
bool tn_bind_both(int other, const struct tn_store_binding *binding, tenure_ns until)
{
    int own = tn_bind_connect(binding->path);
    bool bound = own >= 0 && ask(other, binding->line, until) && ask(own, binding->line, until) &&
                 ask(other, "PING\r\n", until);

    if (own >= 0)
        (void)close(own);
    (void)close(other);
    return bound;
}
