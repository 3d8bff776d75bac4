/* notify.c - telling systemd about a service; notify.h has the contract. */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include "runtime/notify.h"

#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* For room in the queue of a systemd that is busy. */
enum { WAIT_MS = 100 };

static char kept[sizeof(((struct sockaddr_un *)0)->sun_path)];

void tn_notify_keep(void)
{
    const char *path = getenv("NOTIFY_SOCKET");

    if (path == NULL || strlen(path) >= sizeof kept)
        return;
    (void)snprintf(kept, sizeof kept, "%s", path);
    (void)unsetenv("NOTIFY_SOCKET");
}

bool tn_notify(const char *state)
{
    const char *path = kept[0] != '\0' ? kept : getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t len = path != NULL ? strlen(path) : 0;

    if (len < 2 || len >= sizeof address.sun_path)
        return true; /* Nobody asks. */
    memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = 0; /* The abstract namespace. */
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    struct pollfd room = { .fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                           .events = POLLOUT };
    if (room.fd < 0)
        return false;
    bool sent = connect(room.fd, (const struct sockaddr *)&address, size) == 0 &&
                poll(&room, 1, WAIT_MS) == 1 &&
                send(room.fd, state, strlen(state), MSG_NOSIGNAL) > 0;
    (void)close(room.fd);
    return sent;
}
