/* daemon_fuzz.c - whatever a peer sends, over RESP or HTTP: the daemon goes on, and serves others.
 *
 * A whole tenured in this process, its loop turned by hand, its disk one that forgets. The first
 * byte says which socket the rest goes to, and in how many pieces. */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/time.h"
#include "daemon/server.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int fdatasync(int fd);

static struct tn_server server;
static char folder[] = "/dev/shm/tenured-fuzz-......";
static struct sockaddr_un place = { .sun_family = AF_UNIX };
static int good; /* The connection of a peer that behaves. */

int fdatasync(int fd)
{
    (void)fd;
    return 0;
}

static void turn(int times)
{
    for (int i = 0; i < times; i++) {
        (void)uv_run(&server.loop, UV_RUN_NOWAIT);
        (void)tn_server_turn(&server);
    }
}

static int connect_unix(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    TN_ASSERT(fd >= 0);
    TN_ASSERT(connect(fd, (struct sockaddr *)&place, sizeof place) == 0);
    return fd;
}

/* Its end is a reset, so that ports do not run out; where others have used them up, or the fuzzer's
 * own alarm came in between, -1. */
static int connect_http(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)tn_http_port(&server)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct linger reset = { .l_onoff = 1 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    TN_ASSERT(fd >= 0);
    TN_ASSERT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset) == 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    TN_ASSERT(errno == EINTR || errno == EADDRNOTAVAIL);
    (void)close(fd);
    return -1;
}

static void clean_up(void)
{
    char command[100];

    tn_server_close(&server);
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    TN_ASSERT(system(command) == 0);
}

static void begin(void)
{
    static char dir[80];
    static char url[100];
    struct tn_server_config config = {
        .journal = { .dir = dir, .snapshot_bytes = UINT32_MAX },
        .limits = { .sessions = 50, .leases = 50, .waiters = 50, .text_bytes = 1 << 20 },
        .fences_max = 50,
        .conns_max = 50,
        .peer_conns_max = 50,
        .slow = TN_SEC(30),
        .idle = TN_SEC(100000),
        .listen = { url },
        .listen_count = 1,
        .http = "127.0.0.1:0"
    };
    char line[400];
    struct tn_text err;

    memset(strchr(folder, '.'), 'X', 6); /* What mkdtemp replaces. */
    TN_ASSERT(mkdtemp(folder) != NULL);
    (void)snprintf(dir, sizeof dir, "%s/data", folder);
    (void)snprintf(url, sizeof url, "unix:%s/socket", folder);
    (void)snprintf(place.sun_path, sizeof place.sun_path, "%s", url + 5);
    tn_text_init(&err, line, sizeof line);
    int rc = tn_server_open(&server, &config, &err);
    TN_ASSERT(rc == 0);
    (void)atexit(clean_up);
    good = connect_unix();
}

static void serve_others(void)
{
    char reply[16];

    TN_ASSERT(send(good, "PING\r\n", 6, MSG_NOSIGNAL) == 6);
    turn(4);
    TN_ASSERT(recv(good, reply, sizeof reply, MSG_DONTWAIT) == 7);
    TN_ASSERT(memcmp(reply, "+PONG\r\n", 7) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char reply[4096];

    if (server.loop.data == NULL) {
        begin();
        server.loop.data = &server;
    }
    if (size < 2)
        return 0;
    bool http = data[0] >= 128 && server.config.http != NULL;
    size_t pieces = 1 + data[0] % 4;
    int fd = http ? connect_http() : connect_unix();
    if (fd < 0)
        return 0;
    turn(2);
    for (size_t i = 0; i < pieces; i++) {
        size_t from = 1 + (size - 1) * i / pieces;
        size_t to = 1 + (size - 1) * (i + 1) / pieces;
        if (send(fd, data + from, to - from, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            break;
        turn(4);
        while (recv(fd, reply, sizeof reply, MSG_DONTWAIT) > 0)
            turn(1);
    }
    (void)close(fd);
    turn(4);
    serve_others();
    return 0;
}
