/* notify.c - telling systemd that the daemon serves, or ends: a datagram to $NOTIFY_SOCKET, as
 * sd_notify(3) describes it. Without that variable nothing happens. */
#define _GNU_SOURCE /* SOCK_CLOEXEC */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/server.h"

void tn_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t len = path != NULL ? strlen(path) : 0;

    if (len < 2 || len >= sizeof address.sun_path)
        return;
    memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = 0; /* The abstract namespace. */
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
    (void)close(fd);
}
