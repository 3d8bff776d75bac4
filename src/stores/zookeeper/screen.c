/* screen.c - ZooKeeper's frames, decoded as strictly as the library should; screen.h says why.
 *
 * The forms are those of zookeeper.jute: big-endian integers, strings and buffers behind their
 * length, vectors behind their count. */
#include "stores/zookeeper/screen.h"

#include <stdlib.h>
#include <string.h>

/* Requests; see ZooDefs.OpCode. */
enum {
    OP_CREATE = 1,
    OP_DELETE = 2,
    OP_EXISTS = 3,
    OP_GET = 4,
    OP_SET = 5,
    OP_SYNC = 9,
    OP_PING = 11,
    OP_CHILDREN2 = 12,
    OP_CHECK = 13,
    OP_MULTI = 14,
    OP_CREATE2 = 15,
    OP_LOGIN = 100,
    OP_REWATCH = 101,
    OP_CLOSE = -11,
};

enum { XID_EVENT = -1, XID_PING = -2, XID_LOGIN = -4, XID_REWATCH = -8 };

enum { STAT = 68, PASSWORD = 16 };

/* What is left of a frame; @bad once something was missing. */
struct zk_frame {
    const uint8_t *at;
    size_t left;
    bool bad;
};

static const uint8_t *take(struct zk_frame *in, size_t len)
{
    static const uint8_t zeros[8];
    const uint8_t *at = in->at;

    if (in->bad || len > in->left) {
        in->bad = true;
        return zeros; /* Nobody asks for more than a long and looks at it. */
    }
    in->at += len;
    in->left -= len;
    return at;
}

static int32_t take_int(struct zk_frame *in)
{
    const uint8_t *b = take(in, 4);

    return (int32_t)((uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3]);
}

static int64_t take_long(struct zk_frame *in)
{
    uint64_t high = (uint32_t)take_int(in);

    return (int64_t)(high << 32 | (uint32_t)take_int(in));
}

/* A C string for the library: a zero byte would hide what is behind it. */
static void take_string(struct zk_frame *in)
{
    int32_t len = take_int(in);

    if (len < 0 || (size_t)len > in->left || memchr(in->at, '\0', (size_t)len) != NULL)
        in->bad = true;
    else
        (void)take(in, (size_t)len);
}

static void take_path(struct zk_frame *in)
{
    if (in->left < 5 || in->at[4] != '/')
        in->bad = true;
    take_string(in);
}

/* The path that was asked for, perhaps with a number that the server has put behind it. */
static void take_path_of(struct zk_frame *in, const struct tn_zk_asked *asked)
{
    struct zk_frame text = *in;

    take_path(in);
    size_t len = (size_t)take_int(&text);
    if (in->bad || len < asked->path_len || memcmp(text.at, asked->path, asked->path_len) != 0) {
        in->bad = true;
        return;
    }
    for (size_t i = asked->path_len; i < len; i++)
        if ((text.at[i] < '0' || text.at[i] > '9') && text.at[i] != '-')
            in->bad = true;
}

static void take_buffer(struct zk_frame *in)
{
    int32_t len = take_int(in);

    if (len < -1) /* -1 is a znode without data. */
        in->bad = true;
    else if (len > 0)
        (void)take(in, (size_t)len);
}

static void take_strings(struct zk_frame *in)
{
    int32_t count = take_int(in);

    if (count < 0)
        in->bad = true;
    while (!in->bad && count-- > 0)
        take_string(in);
}

static int refuse_frame(struct tn_zk_screen *screen, const char *why)
{
    screen->why = why;
    return TENURE_E_DAMAGED;
}

/* --- Requests --------------------------------------------------------------------------------- */

static void forget_first(struct tn_zk_screen *screen)
{
    struct tn_zk_asked *asked = screen->first;

    screen->first = asked->next;
    if (screen->first == NULL)
        screen->last = NULL;
    free(asked);
}

void tn_zk_screen_free(struct tn_zk_screen *screen)
{
    while (screen->first != NULL)
        forget_first(screen);
}

/* The steps of a transaction: how many, and of which kind. */
static void read_steps(struct zk_frame *in, struct tn_zk_asked *asked)
{
    for (;;) {
        int32_t type = take_int(in);
        bool done = take(in, 1)[0] != 0;
        (void)take_int(in);
        if (in->bad || done)
            return;
        if (asked->subs == TN_ZK_SUBS_MAX ||
            (type != OP_DELETE && type != OP_SET && type != OP_CHECK)) {
            in->bad = true;
            return;
        }
        asked->sub[asked->subs++] = type;
        take_string(in);
        if (type == OP_SET)
            take_buffer(in);
        (void)take_int(in);
    }
}

static bool is_numbered(int32_t type)
{
    switch (type) {
    case OP_CREATE:
    case OP_DELETE:
    case OP_EXISTS:
    case OP_GET:
    case OP_SET:
    case OP_SYNC:
    case OP_CHILDREN2:
    case OP_MULTI:
    case OP_CREATE2:
    case OP_CLOSE:
        return true;
    default:
        return false;
    }
}

int tn_zk_screen_request(struct tn_zk_screen *screen, const uint8_t *frame, size_t len)
{
    struct zk_frame in = { frame, len, false };
    struct tn_zk_asked asked = { .xid = take_int(&in) };
    const uint8_t *path = NULL;

    asked.type = take_int(&in);

    if (!in.bad && asked.xid == XID_PING && asked.type == OP_PING) {
        screen->pings++;
        return 0;
    }
    if (!in.bad && asked.xid == XID_LOGIN && asked.type == OP_LOGIN) {
        screen->logins++;
        return 0;
    }
    if (!in.bad && asked.xid == XID_REWATCH && asked.type == OP_REWATCH) {
        screen->rewatches++;
        return 0;
    }
    if (asked.type == OP_MULTI)
        read_steps(&in, &asked);
    if (asked.type == OP_CREATE || asked.type == OP_CREATE2 || asked.type == OP_SYNC) {
        asked.path_len = (size_t)take_int(&in);
        path = take(&in, asked.path_len);
    }
    if (in.bad || !is_numbered(asked.type))
        return refuse_frame(screen, "the client library asks for something unknown");
    struct tn_zk_asked *made = malloc(sizeof *made + asked.path_len);
    if (made == NULL)
        return TENURE_E_NOMEM;
    *made = asked;
    if (asked.path_len > 0)
        memcpy(made->path, path, asked.path_len);
    if (screen->last != NULL)
        screen->last->next = made;
    else
        screen->first = made;
    screen->last = made;
    return 0;
}

/* --- Answers ---------------------------------------------------------------------------------- */

/* A version, the timeout, the session, its password, and whether the server is read-only; servers
 * before 3.4 leave the last one out. Only a session that is over has no timeout. */
static int greet(struct tn_zk_screen *screen, struct zk_frame *in)
{
    (void)take_int(in);
    int32_t timeout = take_int(in);
    int64_t session = take_long(in);
    int32_t password = take_int(in);
    (void)take(in, PASSWORD);
    bool read_only = in->left > 0 && take(in, 1)[0] != 0;
    bool over = screen->resumes && timeout == 0 && session == 0;

    if (in->bad || in->left > 0 || password != PASSWORD || read_only ||
        (!over && (timeout <= 0 || session == 0)))
        return refuse_frame(screen, "the answer to the request for a session is malformed");
    screen->greeted = true;
    return 0;
}

/* An event that the library knows, for a path. */
static int hear_event(struct tn_zk_screen *screen, struct zk_frame *in)
{
    int32_t type = take_int(in);

    (void)take_int(in);
    take_path(in);
    if (in->bad || in->left > 0 || type < 1 || type > 4)
        return refuse_frame(screen, "an event is malformed");
    return 0;
}

/* An answer that is told apart by its kind only. */
static int hear_unnumbered(struct tn_zk_screen *screen, const struct zk_frame *in, unsigned *count)
{
    if (*count == 0)
        return refuse_frame(screen, "an answer that nobody asked for");
    if (in->left > 0)
        return refuse_frame(screen, "an answer is too long");
    --*count;
    return 0;
}

static void read_results(struct zk_frame *in, const struct tn_zk_asked *asked)
{
    for (unsigned i = 0; i <= asked->subs && !in->bad; i++) {
        int32_t type = take_int(in);
        uint8_t done = take(in, 1)[0];
        (void)take_int(in);
        if (done != (i == asked->subs)) {
            in->bad = true;
            return;
        }
        if (done != 0)
            continue;
        if (type == -1)
            (void)take_int(in); /* The error. */
        else if (type != asked->sub[i])
            in->bad = true;
        else if (type == OP_SET)
            (void)take(in, STAT);
    }
}

static void read_answer(struct zk_frame *in, const struct tn_zk_asked *asked)
{
    switch (asked->type) {
    case OP_CREATE:
    case OP_SYNC:
        take_path_of(in, asked);
        break;
    case OP_CREATE2:
        take_path_of(in, asked);
        (void)take(in, STAT);
        break;
    case OP_EXISTS:
    case OP_SET:
        (void)take(in, STAT);
        break;
    case OP_GET:
        take_buffer(in);
        (void)take(in, STAT);
        break;
    case OP_CHILDREN2:
        take_strings(in);
        (void)take(in, STAT);
        break;
    case OP_MULTI:
        read_results(in, asked);
        break;
    default: /* DELETE and CLOSE have none. */
        break;
    }
}

/* Errors that the library uses for what happens on this side. A server that says them would make
 * us wait for a connection that is there. */
static bool is_own_error(int32_t error)
{
    return error == -4 || error == -7 || error == -116 || error == -117;
}

int tn_zk_screen_answer(struct tn_zk_screen *screen, const uint8_t *frame, size_t len)
{
    struct zk_frame in = { frame, len, false };

    if (!screen->greeted)
        return greet(screen, &in);
    int32_t xid = take_int(&in);
    (void)take_long(&in); /* The zxid. */
    int32_t error = take_int(&in);
    if (in.bad)
        return refuse_frame(screen, "an answer is too short");
    if (xid == XID_EVENT)
        return hear_event(screen, &in);
    if (xid == XID_PING)
        return hear_unnumbered(screen, &in, &screen->pings);
    if (xid == XID_LOGIN)
        return hear_unnumbered(screen, &in, &screen->logins);
    if (xid == XID_REWATCH)
        return hear_unnumbered(screen, &in, &screen->rewatches);
    if (screen->first == NULL || screen->first->xid != xid)
        return refuse_frame(screen, "an answer does not belong to the oldest request");
    if (error > 0 || is_own_error(error))
        return refuse_frame(screen, "an answer has an error that no server says");
    if (error == 0)
        read_answer(&in, screen->first);
    if (in.bad || in.left > 0)
        return refuse_frame(screen, "an answer does not have the form of what was asked");
    forget_first(screen);
    return 0;
}
