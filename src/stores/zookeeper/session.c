/* session.c - a session of the client library on our loop, and its end.
 *
 * The library is asked what it waits for (zookeeper_interest) after whatever it did, and told what
 * came (zookeeper_process). When either fails, the library has closed its socket; its number may be
 * another socket's by now, so the poll handle goes at once, and a new one is made for the next
 * socket. Retries are ours to pace: the library would try again at once.
 *
 * A server that says nothing is left for the next one long before the library would do so, which is
 * after two thirds of the session's timeout: by then the term would be over. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/sha256.h"
#include "stores/zookeeper/private.h"

/* Of sessions that only read. */
#define READER_TTL TN_SEC(15)

enum {
    ANSWERS_MAX = 64,
    REPLY_MIN = 20 /* A length and a header: the least that a server says. */
};

/* --- Handles ---------------------------------------------------------------------------------- */

static void free_handle(uv_handle_t *handle)
{
    struct tn_zk_store *store = handle->data;

    free(handle);
    TN_ASSERT(store->handles > 0);
    store->handles--;
    tn_zk_kick(store);
}

void tn_zk_poll_drop(struct tn_zk_store *store, uv_poll_t **poll)
{
    uv_poll_t *handle = *poll;

    if (handle == NULL)
        return;
    (void)uv_poll_stop(handle);
    handle->data = store;
    uv_close((uv_handle_t *)handle, free_handle);
    *poll = NULL;
}

uv_poll_t *tn_zk_poll_new(struct tn_zk_store *store, int fd, void *data)
{
    uv_poll_t *made = calloc(1, sizeof *made);

    if (made == NULL || uv_poll_init(store->base.how.loop, made, fd) != 0) {
        free(made);
        return NULL;
    }
    store->handles++;
    made->data = data;
    return made;
}

static void drop_socket(struct tn_zk_session *session)
{
    session->fd = -1;
    tn_zk_poll_drop(session->store, &session->poll);
    tn_zk_relay_free(session->relay);
    session->relay = NULL;
}

static void drop_timer(struct tn_zk_session *session)
{
    if (session->timer == NULL)
        return;
    session->timer->data = session->store;
    uv_close((uv_handle_t *)session->timer, free_handle);
    session->timer = NULL;
}

static bool make_poll(struct tn_zk_session *session, int fd)
{
    session->poll = tn_zk_poll_new(session->store, fd, session);
    if (session->poll == NULL)
        return false;
    if (session->fd != fd)
        session->trying_since = tn_zk_now(session->store);
    session->fd = fd;
    return true;
}

/* Once the library has asked for its session, before it reads anything. */
static bool make_relay(struct tn_zk_session *session)
{
    bool resumes = zoo_client_id(session->zh)->client_id != 0;

    if (session->relay != NULL || zoo_state(session->zh) == ZOO_CONNECTING_STATE)
        return true;
    /* The number stays, but it will be another socket's. */
    tn_zk_poll_drop(session->store, &session->poll);
    session->relay = tn_zk_relay_new(session->store, session->fd, resumes);
    return session->relay != NULL && make_poll(session, session->fd);
}

static void hear_timer(uv_timer_t *timer)
{
    struct tn_zk_session *session = timer->data;

    session->dirty = true;
    tn_zk_kick(session->store);
}

static void arm(struct tn_zk_session *session, tenure_ns span)
{
    (void)uv_timer_start(session->timer, hear_timer, (uint64_t)(span / TN_MS(1)) + 1, 0);
}

/* --- Driving the library ---------------------------------------------------------------------- */

static tenure_ns stall(const struct tn_zk_session *session)
{
    tenure_ns span = session->ttl / 4;

    if (span < TN_MS(500))
        span = TN_MS(500);
    return span < TN_SEC(5) ? span : TN_SEC(5);
}

/* Short while the session can still be saved; and never all clients at once. */
static tenure_ns backoff(struct tn_zk_session *session)
{
    tenure_ns most = session->ttl / 10 < TN_SEC(1) ? session->ttl / 10 : TN_SEC(1);
    tenure_ns span = TN_MS(10) << (session->failures < 8 ? session->failures : 8);

    if (span > most)
        span = most;
    return span / 2 + (tenure_ns)tn_prng_below(&session->store->prng, (uint64_t)span / 2 + 1);
}

static const char *cause(const struct tn_zk_relay *relay, int rc, int error)
{
    const char *why = tn_zk_relay_why(relay, &error);

    if (why != NULL)
        return why;
    if (rc == ZOPERATIONTIMEOUT)
        return "it does not answer";
    if (error == 0 || error == EAGAIN || error == EINPROGRESS)
        return "the connection was closed";
    return strerror(error);
}

static void failed(struct tn_zk_session *session, int rc, int error)
{
    struct tn_zk_store *store = session->store;
    int state = zoo_state(session->zh);
    struct tn_text text;

    const char *why = cause(session->relay, rc, error);
    drop_socket(session);
    session->connected = false;
    if (state == ZOO_EXPIRED_SESSION_STATE) {
        tn_zk_session_end(session, false);
        return;
    }
    session->denied = state == ZOO_AUTH_FAILED_STATE;
    tn_text_init(&text, session->why, sizeof session->why);
    const char *server = zoo_get_current_server(session->zh);
    tn_text_addf(&text, "%s%s%s", server != NULL ? server : "", server != NULL ? ": " : "", why);
    session->failures++;
    tenure_ns wait = backoff(session);
    session->retry_at = tn_zk_now(store) + wait;
    arm(session, wait);
    if (session->failures > 2 * store->url.host_count)
        tn_zk_resolve_start(store);
}

static bool has(int fd, short events)
{
    struct pollfd ask = { .fd = fd, .events = events };

    return poll(&ask, 1, 0) == 1 && (ask.revents & events) != 0;
}

static void hear_poll(uv_poll_t *handle, int status, int events)
{
    struct tn_zk_session *session = handle->data;
    int what = 0;

    session->dirty = true;
    tn_zk_kick(session->store);
    if (session->relay == NULL && zoo_state(session->zh) != ZOO_CONNECTING_STATE)
        return;
    /* On an error libuv has stopped the handle and tells nothing; the library finds out. */
    if (status < 0)
        what = ZOOKEEPER_READ | ZOOKEEPER_WRITE;
    if ((events & (UV_READABLE | UV_DISCONNECT)) != 0)
        what |= ZOOKEEPER_READ;
    if ((events & UV_WRITABLE) != 0)
        what |= ZOOKEEPER_WRITE;
    if (session->relay == NULL) /* Whether it is connected; nothing is read before the relay is. */
        what = ZOOKEEPER_WRITE;
    errno = 0;
    /* The library takes one answer at a time. */
    int rc = zookeeper_process(session->zh, what);
    for (int i = 0; i < ANSWERS_MAX && rc == ZOK && session->connected && has(session->fd, POLLIN);
         i++)
        rc = zookeeper_process(session->zh, ZOOKEEPER_READ);
    if (rc != ZOK && rc != ZNOTHING)
        failed(session, rc, errno);
}

static void hear_auth(int rc, const void *data)
{
    (void)rc; /* The state says so as well. */
    (void)data;
}

static void hear_session(zhandle_t *zh, int type, int state, const char *path, void *arg)
{
    struct tn_zk_session *session = arg;

    (void)zh;
    (void)path;
    if (type != ZOO_SESSION_EVENT)
        return;
    session->connected = state == ZOO_CONNECTED_STATE;
    if (state == ZOO_CONNECTED_STATE)
        session->resume = true;
    if (state == ZOO_AUTH_FAILED_STATE)
        session->denied = true;
    if (state == ZOO_EXPIRED_SESSION_STATE)
        tn_zk_session_end(session, false);
    tn_zk_kick(session->store);
}

static void open_handle(struct tn_zk_session *session)
{
    struct tn_zk_store *store = session->store;
    const char *auth = store->url.auth;

    zoo_set_debug_level((ZooLogLevel)0); /* It would write to stderr. */
    session->zh = zookeeper_init(store->servers, hear_session, session->timeout_ms, NULL, session,
                                 ZOO_NO_LOG_CLIENTENV);
    if (session->zh == NULL) {
        (void)snprintf(session->why, sizeof session->why, "%s", strerror(errno));
        session->retry_at = tn_zk_now(store) + TN_SEC(1);
        arm(session, TN_SEC(1));
        return;
    }
    if (auth[0] != '\0')
        (void)zoo_add_auth(session->zh, "digest", auth, (int)strlen(auth), hear_auth, NULL);
}

void tn_zk_session_drive(struct tn_zk_session *session)
{
    struct tn_zk_store *store = session->store;
    struct timeval span;
    int fd = -1;
    int interest = 0;

    session->dirty = false;
    if (session->over || store->servers == NULL)
        return;
    /* The loop's timers count from when its turn began, so they come early. */
    tenure_ns now = tn_zk_now(store);
    if (now < session->retry_at) {
        arm(session, session->retry_at - now);
        return;
    }
    if (session->zh == NULL)
        open_handle(session);
    if (session->zh == NULL)
        return;
    errno = 0;
    int rc = zookeeper_interest(session->zh, &fd, &interest, &span);
    if (rc != ZOK || fd < 0) {
        failed(session, rc, errno);
        return;
    }
    if (fd != session->fd)
        drop_socket(session);
    if ((session->poll == NULL && !make_poll(session, fd)) || !make_relay(session)) {
        failed(session, ZSYSTEMERROR, ENOMEM);
        return;
    }
    int events = (interest & ZOOKEEPER_READ ? UV_READABLE : 0) |
                 (interest & ZOOKEEPER_WRITE ? UV_WRITABLE : 0);
    (void)uv_poll_start(session->poll, events, hear_poll);
    arm(session, TN_SEC(span.tv_sec) + TN_US(span.tv_usec));
}

/* Hang up; the library notices, answers what is open with "connection lost", and moves on. */
static void hang_up(struct tn_zk_session *session)
{
    if (session->fd >= 0)
        (void)shutdown(session->fd, SHUT_RDWR);
}

/* Since when nothing has come, though something should; TN_NEVER: all is well. */
static tenure_ns silent_since(const struct tn_zk_session *session)
{
    tenure_ns since = session->trying_since;

    if (session->fd < 0 || (session->connected && session->calls == NULL))
        return TN_NEVER;
    if (session->connected && session->calls->sent_at > since)
        since = session->calls->sent_at;
    if (session->connected && session->heard_at > since)
        since = session->heard_at;
    return since;
}

tenure_ns tn_zk_session_check(struct tn_zk_session *session, tenure_ns now)
{
    tenure_ns next = session->owner ? session->expires_at : TN_NEVER;
    tenure_ns since = silent_since(session);

    if (now >= next) {
        tn_zk_session_end(session, true);
        return now;
    }
    if (since == TN_NEVER)
        return next;
    if (now >= since + stall(session)) {
        session->trying_since = now; /* Once for each socket, or once more if it did not help. */
        since = now;
        hang_up(session);
    }
    return since + stall(session) < next ? since + stall(session) : next;
}

/* --- News ------------------------------------------------------------------------------------- */

void tn_zk_session_event(zhandle_t *zh, int type, int state, const char *path, void *arg)
{
    struct tn_zk_session *session = arg;
    struct tn_zk_store *store = session->store;
    char name[TN_NAME_MAX + 1];
    char node[TN_ZK_PATH_MAX];

    (void)zh;
    (void)state;
    if (type == ZOO_SESSION_EVENT || session->over || path == NULL ||
        strlen(path) >= TN_ZK_PATH_MAX || !tn_zk_path_parse(store, path, name, node))
        return;
    struct tn_zk_name *known = tn_zk_name_find(store, name);
    if (known == NULL)
        return;
    if (node[0] != '\0')
        tn_zk_lease_hear(known, session, node, type);
    if (known->watches > 0 && (node[0] == '\0' || strcmp(node, known->first) == 0)) {
        tn_zk_name_due(store, known, true);
        tn_zk_kick(store);
    }
}

/* --- Beginning -------------------------------------------------------------------------------- */

struct tn_zk_session *tn_zk_session_new(struct tn_zk_store *store, bool owner, tenure_ns ttl)
{
    struct tn_zk_session *session = calloc(1, sizeof *session);
    uv_timer_t *timer = calloc(1, sizeof *timer);

    if (session == NULL || timer == NULL) {
        free(session);
        free(timer);
        return NULL;
    }
    (void)uv_timer_init(store->base.how.loop, timer);
    store->handles++;
    timer->data = session;
    session->store = store;
    session->owner = owner;
    session->timer = timer;
    session->fd = -1;
    session->asked = ttl;
    session->ttl = ttl;
    session->expires_at = tn_zk_now(store) + ttl;
    session->calls_end = &session->calls;
    /* docs/stores/zookeeper.md tells why a third more. */
    session->timeout_ms = (int)((ttl + ttl / 3) / TN_MS(1)) + 1;
    session->dirty = true;
    session->next = store->sessions;
    store->sessions = session;
    if (store->servers == NULL)
        tn_zk_resolve_start(store);
    return session;
}

struct tn_zk_session *tn_zk_session_find(struct tn_zk_store *store, const struct tn_secret *secret)
{
    struct tn_secret hash;

    tn_secret_hash(secret, 's', &hash);
    for (struct tn_zk_session *at = store->sessions; at != NULL; at = at->next) {
        if (at->owner && !at->over && tn_secret_equal(&at->hash, &hash))
            return at;
    }
    return NULL;
}

struct tn_zk_session *tn_zk_session_reader(struct tn_zk_store *store)
{
    struct tn_zk_session *any = NULL;

    for (struct tn_zk_session *at = store->sessions; at != NULL; at = at->next) {
        if (at->over)
            continue;
        if (at->connected)
            return at;
        if (any == NULL || at->owner)
            any = at;
    }
    return any != NULL ? any : tn_zk_session_new(store, false, READER_TTL);
}

/* What the server agreed to; it may be another after a move to a server with other limits. */
static void agree(struct tn_zk_session *session)
{
    int timeout = zoo_recv_timeout(session->zh);

    if (timeout == session->timeout_ms)
        session->ttl = session->asked;
    else
        session->ttl = TN_MS(timeout) / 4 * 3;
}

/* One that is started may answer others, so none of them is remembered meanwhile. */
static void start_parked(struct tn_zk_session *session)
{
    struct tn_zk_store *store = session->store;
    struct tn_zk_op *op;

    for (op = store->ops; op != NULL; op = op->next) {
        op->ready = op->parked && op->session == session;
        op->parked = op->parked && !op->ready;
    }
    for (;;) {
        for (op = store->ops; op != NULL && !op->ready; op = op->next)
            ;
        if (op == NULL)
            return;
        op->ready = false;
        op->start(op);
    }
}

void tn_zk_session_resume(struct tn_zk_session *session)
{
    struct tn_zk_store *store = session->store;

    session->resume = false;
    if (session->over || !session->connected)
        return;
    session->failures = 0;
    agree(session);
    if (!session->ever)
        session->expires_at +=
            session->ttl - session->asked; /* Renewals come by what was agreed. */
    session->ever = true;
    for (struct tn_zk_lease *lease = session->leases, *after; lease != NULL; lease = after) {
        after = lease->session_next;
        tn_zk_lease_resume(lease);
    }
    start_parked(session);
    /* Readers move to a session that is there anyway. */
    for (struct tn_zk_session *at = store->sessions; at != NULL && session->owner; at = at->next) {
        if (!at->owner)
            tn_zk_session_end(at, true);
    }
    tn_zk_observe_all(store, false);
}

/* --- The end ---------------------------------------------------------------------------------- */

void tn_zk_session_end(struct tn_zk_session *session, bool polite)
{
    if (session->over)
        return;
    session->over = true;
    session->polite = polite;
    tn_zk_kick(session->store);
}

static void free_farewell(uv_handle_t *handle)
{
    struct tn_zk_farewell *farewell = (struct tn_zk_farewell *)(void *)handle->data;
    struct tn_zk_store *store = farewell->store;

    (void)close(farewell->fd);
    free(farewell);
    TN_ASSERT(store->handles > 0);
    store->handles--;
    tn_zk_kick(store);
}

static void end_farewell(struct tn_zk_farewell *farewell)
{
    struct tn_zk_farewell **link = &farewell->store->farewells;

    while (*link != farewell)
        link = &(*link)->next;
    *link = farewell->next;
    uv_close((uv_handle_t *)&farewell->poll, free_farewell);
}

void tn_zk_farewell_cancel(struct tn_zk_farewell *farewell)
{
    farewell->op = NULL;
    end_farewell(farewell);
}

/* The server hangs up when it has done what it was asked. */
static void hear_farewell(uv_poll_t *handle, int status, int events)
{
    struct tn_zk_farewell *farewell = handle->data;
    struct tn_zk_op *op = farewell->op;
    char bytes[4096];

    (void)status;
    (void)events;
    ssize_t len = read(farewell->fd, bytes, sizeof bytes);
    if (len > 0)
        farewell->heard += (size_t)len;
    if (len > 0 || (len < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    bool heard = farewell->heard >= REPLY_MIN;
    end_farewell(farewell);
    if (op == NULL)
        return;
    if (heard)
        tn_zk_op_answer(op, TN_ANSWER_OK);
    else
        tn_zk_op_fail(op, TENURE_E_TIMEOUT, "the server hung up without an answer to the close");
}

static struct tn_zk_farewell *make_farewell(struct tn_zk_session *session)
{
    struct tn_zk_store *store = session->store;
    struct tn_zk_farewell *farewell = calloc(1, sizeof *farewell);
    int fd = farewell != NULL ? tn_zk_relay_part(session->relay) : -1;

    if (fd < 0 || uv_poll_init(store->base.how.loop, &farewell->poll, fd) != 0) {
        if (fd >= 0)
            (void)close(fd);
        free(farewell);
        return NULL;
    }
    store->handles++;
    farewell->store = store;
    farewell->fd = fd;
    farewell->op = session->closing;
    session->closing = NULL;
    farewell->poll.data = farewell;
    farewell->next = store->farewells;
    store->farewells = farewell;
    return farewell;
}

static void close_handle(struct tn_zk_session *session)
{
    struct tn_zk_farewell *farewell = NULL;
    bool polite = session->polite && session->connected && session->relay != NULL;

    /* The library writes its last request and waits up to 3 s for room: only where there is. */
    if (polite && has(session->fd, POLLOUT))
        farewell = make_farewell(session);
    if (farewell == NULL)
        hang_up(session);
    tn_zk_poll_drop(session->store, &session->poll);
    drop_timer(session);
    if (session->zh != NULL)
        (void)zookeeper_close(session->zh);
    session->zh = NULL;
    if (farewell != NULL)
        tn_zk_relay_finish(session->relay);
    drop_socket(session);
    if (farewell != NULL)
        (void)uv_poll_start(&farewell->poll, UV_READABLE, hear_farewell);
    if (session->closing != NULL)
        tn_zk_op_fail(session->closing, TENURE_E_UNAVAILABLE, "the session is not connected: %s",
                      session->why);
    session->closing = NULL;
}

void tn_zk_session_drop(struct tn_zk_session *session)
{
    struct tn_zk_store *store = session->store;
    struct tn_zk_session **link = &store->sessions;
    struct tn_zk_op *next;

    while (*link != session)
        link = &(*link)->next;
    *link = session->next;
    session->connected = session->connected && session->polite;
    while (session->leases != NULL)
        tn_zk_lease_drop(session->leases);
    for (struct tn_zk_op *op = store->ops; op != NULL; op = next) {
        next = op->next;
        if (op->session != session)
            continue;
        op->session = NULL;
        if (!op->reader && op != session->closing)
            tn_zk_op_answer(op, TN_ANSWER_GONE);
    }
    close_handle(session);
    free(session);
    tn_zk_observe_all(store, true);
}
