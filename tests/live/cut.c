/* cut.c - a TCP proxy for tests that hurts its connections on command.
 *
 * usage: cut LISTEN-PORT TARGET-PORT    commands, one letter each, on standard input:
 *   p pass   h hold: nothing passes, connections stay   m mute: what the server says is dropped
 *   d deaf: what the client says is dropped   c cut: close all, refuse new ones   t trickle
 * Ends with its standard input. Prints "ready" once it listens. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAIRS = 32, TURN_MS = 20 };

static struct {
    int client, server; /* -1: not used. */
    bool lossy;         /* Something was dropped: TCP would not let it live on as if nothing was. */
} pairs[PAIRS];

static struct sockaddr_in address(const char *port)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons((unsigned short)strtol(port, NULL, 10)),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    return at;
}

static int listen_on(const char *port)
{
    struct sockaddr_in at = address(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, 16) != 0) {
        perror("cut");
        exit(1);
    }
    return fd;
}

static void end_pair(int i)
{
    (void)close(pairs[i].client);
    if (pairs[i].server >= 0)
        (void)close(pairs[i].server);
    pairs[i].client = pairs[i].server = -1;
    pairs[i].lossy = false;
}

static void take_client(int listener, const char *port, char mode)
{
    struct sockaddr_in at = address(port);
    int client = accept(listener, NULL, NULL);

    if (client < 0)
        return;
    for (int i = 0; mode != 'c' && i < PAIRS; i++) {
        if (pairs[i].client >= 0)
            continue;
        pairs[i].client = client;
        pairs[i].server = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(pairs[i].server, (struct sockaddr *)&at, sizeof at) != 0)
            end_pair(i);
        return;
    }
    (void)close(client);
}

/* False: the connection has ended. */
static bool pass_on(int from, int to, bool drop, size_t most)
{
    char block[16384];
    ssize_t got = recv(from, block, most < sizeof block ? most : sizeof block, MSG_DONTWAIT);

    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    if (got == 0)
        return false;
    return drop || send(to, block, (size_t)got, MSG_NOSIGNAL) == got;
}

static void serve_pair(int i, char mode)
{
    size_t most = mode == 't' ? 1 : 16384;

    if (pairs[i].client < 0 || mode == 'h')
        return;
    if (pairs[i].lossy && mode == 'p') {
        end_pair(i);
        return;
    }
    pairs[i].lossy = pairs[i].lossy || mode == 'm' || mode == 'd';
    if (!pass_on(pairs[i].client, pairs[i].server, mode == 'd', 16384) ||
        !pass_on(pairs[i].server, pairs[i].client, mode == 'm', most))
        end_pair(i);
}

static nfds_t collect(struct pollfd *fds, int listener, char mode)
{
    nfds_t count = 0;

    fds[count++] = (struct pollfd) { .fd = STDIN_FILENO, .events = POLLIN };
    fds[count++] = (struct pollfd) { .fd = listener, .events = POLLIN };
    for (int i = 0; i < PAIRS && mode != 'h' && mode != 't'; i++) {
        if (pairs[i].client < 0)
            continue;
        fds[count++] = (struct pollfd) { .fd = pairs[i].client, .events = POLLIN };
        fds[count++] = (struct pollfd) { .fd = pairs[i].server, .events = POLLIN };
    }
    return count;
}

int main(int argc, char **argv)
{
    struct pollfd fds[2 + 2 * PAIRS];
    char mode = 'p';

    if (argc != 3)
        return 64;
    int listener = listen_on(argv[1]);
    for (int i = 0; i < PAIRS; i++)
        pairs[i].client = pairs[i].server = -1;
    (void)puts("ready");
    (void)fflush(stdout);
    for (;;) {
        (void)poll(fds, collect(fds, listener, mode), TURN_MS);
        if (fds[0].revents != 0) {
            char command;
            if (read(STDIN_FILENO, &command, 1) <= 0)
                return 0;
            if (command > ' ')
                mode = command;
        }
        if (fds[1].revents != 0)
            take_client(listener, argv[2], mode);
        for (int i = 0; i < PAIRS; i++) {
            if (mode == 'c' && pairs[i].client >= 0)
                end_pair(i);
            serve_pair(i, mode);
        }
    }
}
