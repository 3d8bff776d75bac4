/* floor.c - the least that a durable lease server must do, and nothing else: for each request that
 * arrives, append a record of 64 bytes; flush once for all that arrived together; answer each.
 *
 * usage: floor PORT FILE [memory]
 *
 * It keeps no table and checks nothing, so it is the bound that tenured is measured against on the
 * same machine. It gets the same bytes as tenured, where a request is one star, and gives as many.
 * The file is filled with zeros beforehand, as tenured does, because overwriting flushes faster
 * than appending. With "memory" it does not flush. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNS_MAX 2048
#define RECORD 64
#define FILE_BYTES (64 << 20)

static struct {
    bool open;
    unsigned owed; /* Requests not answered yet. */
} conns[CONNS_MAX];

static char batch[CONNS_MAX * RECORD * 64];

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int open_file(const char *path)
{
    static char zeros[1 << 20];
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    if (fd < 0)
        fail(path);
    for (off_t at = 0; at < FILE_BYTES; at += (off_t)sizeof zeros)
        if (pwrite(fd, zeros, sizeof zeros, at) != (ssize_t)sizeof zeros)
            fail(path);
    (void)fsync(fd);
    return fd;
}

static int listen_on(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 1024) != 0)
        fail("listen");
    return fd;
}

static void accept_one(int listener, int poller)
{
    int one = 1;
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

    if (fd < 0 || fd >= CONNS_MAX)
        fail("accept");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    conns[fd].open = true;
    conns[fd].owed = 0;
    (void)epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event);
}

/* How many requests arrived on @fd. */
static unsigned receive(int fd)
{
    static char bytes[64 * 1024];
    ssize_t n = read(fd, bytes, sizeof bytes);
    unsigned count = 0;

    if (n <= 0) {
        (void)close(fd);
        conns[fd].open = false;
        return 0;
    }
    for (const char *at = bytes; (at = memchr(at, '*', (size_t)(bytes + n - at))) != NULL; at++)
        count++;
    conns[fd].owed += count;
    return count;
}

static void answer(int fd)
{
    static const char reply[] = "*3\r\n$7\r\ngranted\r\n:1234567\r\n$32\r\n"
                                "0123456789abcdef0123456789abcdef\r\n";
    static char replies[(sizeof reply - 1) * 1024];
    unsigned owed = conns[fd].owed < 1024 ? conns[fd].owed : 1024;

    for (unsigned i = 0; i < owed; i++)
        memcpy(replies + (sizeof reply - 1) * i, reply, sizeof reply - 1);
    if (conns[fd].open && owed > 0)
        (void)!write(fd, replies, (sizeof reply - 1) * owed);
    conns[fd].owed = 0;
}

int main(int argc, char **argv)
{
    struct epoll_event events[CONNS_MAX];
    bool memory = argc == 4 && strcmp(argv[3], "memory") == 0;
    off_t at = 0;

    if (argc < 3) {
        (void)fprintf(stderr, "usage: floor PORT FILE [memory]\n");
        return 64;
    }
    int file = open_file(argv[2]);
    int listener = listen_on((int)strtol(argv[1], NULL, 10));
    int poller = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = listener };
    (void)epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int n = epoll_wait(poller, events, CONNS_MAX, -1);
        size_t requests = 0;
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener)
                accept_one(listener, poller);
            else
                requests += receive(events[i].data.fd);
        }
        if (requests > 0 && !memory) {
            size_t len = requests * RECORD < sizeof batch ? requests * RECORD : sizeof batch;
            if (at + (off_t)len > FILE_BYTES)
                at = 0;
            if (pwrite(file, batch, len, at) != (ssize_t)len || fdatasync(file) != 0)
                fail("flush");
            at += (off_t)len;
        }
        for (int i = 0; i < n; i++)
            if (events[i].data.fd != listener)
                answer(events[i].data.fd);
    }
}
