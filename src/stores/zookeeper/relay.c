/* relay.c - between the client library's socket and the server: only screened frames pass.
 *
 * The library connects by itself and asks for its session. Then, before it reads a single byte, its
 * descriptor is made one end of a pair of sockets (dup3), and the connection is ours. What the
 * server says is passed on frame by frame, once tn_zk_screen_answer has looked at it; what the
 * library says is noted on its way, so that it is known what the answers are to.
 * What can fail: either side hangs up, or a frame is malformed. Then the pair is shut, which to the
 * library is a lost connection like any other. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "stores/zookeeper/private.h"
#include "stores/zookeeper/screen.h"

enum { PIECE = 16384, PREFIX = 4, PIECES_MAX = 16 };

/* One direction. Bytes up to @good have been looked at; those before @at have been sent on. */
struct zk_lane {
    int from, to;
    int (*look)(struct tn_zk_screen *screen, const uint8_t *frame, size_t len);
    uint8_t *data;
    size_t at, good, len, size;
};

struct tn_zk_relay {
    struct tn_zk_store *store;
    int server, client; /* The connection, and our end of the pair. */
    uv_poll_t *server_poll, *client_poll;
    struct zk_lane up, down;
    struct tn_zk_screen screen;
    bool over;
    int error; /* Over: errno, if that is the reason. */
};

static bool has_to_send(const struct zk_lane *lane)
{
    return lane->good > lane->at;
}

static bool make_room(struct zk_lane *lane)
{
    if (lane->at > 0) {
        memmove(lane->data, lane->data + lane->at, lane->len - lane->at);
        lane->good -= lane->at;
        lane->len -= lane->at;
        lane->at = 0;
    }
    if (lane->size - lane->len >= PIECE)
        return true;
    size_t size = lane->size > 0 ? 2 * lane->size : 2 * (size_t)PIECE;
    uint8_t *grown = realloc(lane->data, size);
    if (grown == NULL)
        return false;
    lane->data = grown;
    lane->size = size;
    return true;
}

/* Look at the frames that are whole. */
static int look_at_frames(struct zk_lane *lane, struct tn_zk_screen *screen)
{
    while (lane->len - lane->good >= PREFIX) {
        const uint8_t *head = lane->data + lane->good;
        size_t len = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
        if (len > TN_ZK_FRAME_MAX) {
            screen->why = "a length that no answer has";
            return TENURE_E_DAMAGED;
        }
        if (lane->len - lane->good - PREFIX < len)
            return 0;
        int rc = lane->look(screen, head + PREFIX, len);
        if (rc < 0)
            return rc;
        lane->good += PREFIX + len;
    }
    return 0;
}

static int send_on(struct zk_lane *lane)
{
    while (has_to_send(lane)) {
        ssize_t sent = send(lane->to, lane->data + lane->at, lane->good - lane->at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return errno == EAGAIN ? 0 : TENURE_E_UNAVAILABLE;
        lane->at += (size_t)sent;
    }
    return 0;
}

/* What has come, as long as the other side takes it. A negative code: no more will come. */
static int pump(struct zk_lane *lane, struct tn_zk_screen *screen)
{
    int rc = send_on(lane);

    for (int i = 0; i < PIECES_MAX && rc == 0 && !has_to_send(lane); i++) {
        if (!make_room(lane)) {
            errno = ENOMEM;
            return TENURE_E_NOMEM;
        }
        ssize_t len = recv(lane->from, lane->data + lane->len, lane->size - lane->len, 0);
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0 && errno == EAGAIN)
            return 0;
        if (len <= 0) {
            errno = len == 0 ? 0 : errno;
            return TENURE_E_UNAVAILABLE;
        }
        lane->len += (size_t)len;
        errno = 0;
        rc = look_at_frames(lane, screen);
        if (rc == 0)
            rc = send_on(lane);
    }
    return rc;
}

static void drop_polls(struct tn_zk_relay *relay)
{
    tn_zk_poll_drop(relay->store, &relay->server_poll);
    tn_zk_poll_drop(relay->store, &relay->client_poll);
}

/* The library hears what has been passed on, and then that the connection is lost. */
static void end(struct tn_zk_relay *relay, int error)
{
    relay->over = true;
    relay->error = error;
    drop_polls(relay);
    (void)shutdown(relay->client, SHUT_RDWR);
}

static void hear_socket(uv_poll_t *handle, int status, int events);

static void wait_for_more(struct tn_zk_relay *relay)
{
    int server =
        (has_to_send(&relay->down) ? 0 : UV_READABLE) | (has_to_send(&relay->up) ? UV_WRITABLE : 0);
    int client =
        (has_to_send(&relay->up) ? 0 : UV_READABLE) | (has_to_send(&relay->down) ? UV_WRITABLE : 0);

    (void)uv_poll_start(relay->server_poll, server, hear_socket);
    (void)uv_poll_start(relay->client_poll, client, hear_socket);
}

static void hear_socket(uv_poll_t *handle, int status, int events)
{
    struct tn_zk_relay *relay = handle->data;

    (void)status; /* An error is found by reading. */
    (void)events;
    int rc = pump(&relay->up, &relay->screen);
    if (rc == 0)
        rc = pump(&relay->down, &relay->screen);
    if (rc < 0)
        end(relay, rc == TENURE_E_DAMAGED ? 0 : errno);
    else
        wait_for_more(relay);
}

/* --- Life ------------------------------------------------------------------------------------- */

void tn_zk_relay_free(struct tn_zk_relay *relay)
{
    if (relay == NULL)
        return;
    drop_polls(relay);
    if (relay->server >= 0)
        (void)close(relay->server);
    if (relay->client >= 0)
        (void)close(relay->client);
    tn_zk_screen_free(&relay->screen);
    free(relay->up.data);
    free(relay->down.data);
    free(relay);
}

struct tn_zk_relay *tn_zk_relay_new(struct tn_zk_store *store, int fd, bool resumes)
{
    struct tn_zk_relay *relay = calloc(1, sizeof *relay);
    int pair[2] = { -1, -1 };

    if (relay == NULL)
        return NULL;
    relay->store = store;
    relay->screen.resumes = resumes;
    relay->server = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        pair[0] = pair[1] = -1;
    relay->client = pair[1];
    relay->up = (struct zk_lane) { .from = relay->client,
                                   .to = relay->server,
                                   .look = tn_zk_screen_request };
    relay->down = (struct zk_lane) { .from = relay->server,
                                     .to = relay->client,
                                     .look = tn_zk_screen_answer };
    if (relay->server >= 0 && relay->client >= 0) {
        relay->server_poll = tn_zk_poll_new(store, relay->server, relay);
        relay->client_poll = tn_zk_poll_new(store, relay->client, relay);
    }
    /* Last, for it cannot be taken back. */
    if (relay->server_poll == NULL || relay->client_poll == NULL ||
        dup3(pair[0], fd, O_CLOEXEC) < 0) {
        tn_zk_relay_free(relay);
        relay = NULL;
    }
    if (pair[0] >= 0)
        (void)close(pair[0]);
    if (relay != NULL)
        wait_for_more(relay);
    return relay;
}

int tn_zk_relay_server(const struct tn_zk_relay *relay)
{
    return relay->server;
}

const char *tn_zk_relay_why(const struct tn_zk_relay *relay, int *ret_error)
{
    if (relay == NULL || !relay->over)
        return NULL;
    if (relay->error != 0)
        *ret_error = relay->error;
    return relay->screen.why;
}

/* --- The end ---------------------------------------------------------------------------------- */

int tn_zk_relay_part(struct tn_zk_relay *relay)
{
    if (relay->over || has_to_send(&relay->up))
        return -1;
    int fd = fcntl(relay->server, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0)
        (void)shutdown(relay->client, SHUT_WR);
    return fd;
}

void tn_zk_relay_finish(struct tn_zk_relay *relay)
{
    (void)pump(&relay->up, &relay->screen);
}
