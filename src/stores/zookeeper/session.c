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
#include "runtime/random.h"
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
    tn_zk_handle_gone(store);
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
    tn_store_kick(&session->store->base);
}

static void arm(struct tn_zk_session *session, tenure_ns span)
{
    (void)uv_timer_start(session->timer, hear_timer, (uint64_t)(span / TN_MS(1)) + 1, 0);
}

bool tn_zk_is_up(const struct tn_zk_session *session)
{
    return session->state == TN_ZK_ARRIVED || session->state == TN_ZK_UP;
}

bool tn_zk_is_over(const struct tn_zk_session *session)
{
    return session->state >= TN_ZK_ENDING;
}

struct tn_zk_session *tn_zk_session_next(struct tn_zk_store *store,
                                         const struct tn_zk_session *session)
{
    return (struct tn_zk_session *)tn_store_session_next(&store->base,
                                                         session != NULL ? &session->base : NULL);
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

/* What was agreed to counts, not what was asked for; after a move to a server with other limits it
 * may be another. */
static void agree(struct tn_zk_session *session)
{
    int timeout = zoo_recv_timeout(session->zh);

    if (timeout == session->timeout_ms)
        session->ttl = session->asked;
    else
        session->ttl = TN_MS(timeout) / 4 * 3;
    session->line.engine.hold_off = session->ttl;
    if (session->state == TN_ZK_NEW) /* Renewals come by what was agreed. */
        session->expires_at += session->ttl - session->asked;
}

/* @state: the library's. */
static void note_state(struct tn_zk_session *session, int state)
{
    if (tn_zk_is_over(session))
        return;
    if (state == ZOO_EXPIRED_SESSION_STATE) {
        tn_zk_session_end(session, false);
    } else if (state == ZOO_CONNECTED_STATE) {
        agree(session);
        session->state = TN_ZK_ARRIVED;
    } else if (state == ZOO_AUTH_FAILED_STATE) {
        session->state = TN_ZK_DENIED;
    } else if (session->state != TN_ZK_NEW) {
        session->state = TN_ZK_LOST;
    }
    tn_store_kick(&session->store->base);
}

static void failed(struct tn_zk_session *session, int rc, int error)
{
    struct tn_zk_store *store = session->store;
    int state = zoo_state(session->zh);
    struct tn_text text;

    const char *why = cause(session->relay, rc, error);
    drop_socket(session);
    note_state(session, state);
    if (tn_zk_is_over(session))
        return;
    tn_text_init(&text, session->why, sizeof session->why);
    const char *server = zoo_get_current_server(session->zh);
    tn_text_addf(&text, "%s%s%s", server != NULL ? server : "", server != NULL ? ": " : "", why);
    session->failures++;
    tenure_ns wait = backoff(session);
    session->retry_at = tn_zk_now(store) + wait;
    arm(session, wait);
    if (session->failures > 2 * store->url.net.count)
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
    tn_store_kick(&session->store->base);
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
    for (int i = 0;
         i < ANSWERS_MAX && rc == ZOK && tn_zk_is_up(session) && has(session->fd, POLLIN); i++)
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
    if (type == ZOO_SESSION_EVENT)
        note_state(session, state);
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
    if (tn_zk_is_over(session) || store->servers == NULL)
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

    if (session->fd < 0 || (tn_zk_is_up(session) && session->calls == NULL))
        return TN_NEVER;
    if (tn_zk_is_up(session) && session->calls->sent_at > since)
        since = session->calls->sent_at;
    if (tn_zk_is_up(session) && session->heard_at > since)
        since = session->heard_at;
    return since;
}

tenure_ns tn_zk_session_check(struct tn_zk_session *session, tenure_ns now)
{
    tenure_ns next = session->reader ? TN_NEVER : session->expires_at;
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
    if (type == ZOO_SESSION_EVENT || tn_zk_is_over(session) || path == NULL ||
        strlen(path) >= TN_ZK_PATH_MAX || !tn_zk_path_parse(store, path, name, node))
        return;
    struct tn_zk_name *known = tn_zk_name_find(store, name);
    if (known == NULL)
        return;
    known->base.uses++; /* Its last claim may go. */
    if (node[0] != '\0')
        tn_zk_claim_hear(known, session, node, type);
    if (known->base.watchers > 0 && (node[0] == '\0' || strcmp(node, known->first) == 0))
        tn_zk_name_due(store, known);
    tn_store_name_drop(&store->base, &known->base);
}

/* --- Beginning -------------------------------------------------------------------------------- */

struct tn_zk_session *tn_zk_session_new(struct tn_zk_store *store, const struct tn_secret *secret,
                                        tenure_ns ttl)
{
    struct tn_secret made;
    uv_timer_t *timer = calloc(1, sizeof *timer);
    struct tn_zk_session *session = NULL;

    if (timer != NULL && (secret != NULL || tn_random_secret(&made) == 0))
        session = (struct tn_zk_session *)tn_store_session_keep(&store->base,
                                                                secret != NULL ? secret : &made);
    if (session == NULL) {
        free(timer);
        return NULL;
    }
    (void)uv_timer_init(store->base.how.loop, timer);
    store->handles++;
    timer->data = session;
    session->store = store;
    session->reader = secret == NULL;
    session->timer = timer;
    session->fd = -1;
    session->asked = ttl;
    session->ttl = ttl;
    session->expires_at = tn_zk_now(store) + ttl;
    session->calls_end = &session->calls;
    /* docs/stores/zookeeper.md tells why a third more. */
    session->timeout_ms = (int)((ttl + ttl / 3) / TN_MS(1)) + 1;
    session->dirty = true;
    tn_zk_claim_init(session);
    if (store->servers == NULL)
        tn_zk_resolve_start(store);
    return session;
}

struct tn_zk_session *tn_zk_session_reader(struct tn_zk_store *store)
{
    struct tn_zk_session *any = NULL;

    for (struct tn_zk_session *at = NULL; (at = tn_zk_session_next(store, at)) != NULL;) {
        if (tn_zk_is_up(at))
            return at;
        if (!tn_zk_is_over(at) && (any == NULL || !at->reader))
            any = at;
    }
    return any != NULL ? any : tn_zk_session_new(store, NULL, READER_TTL);
}

void tn_zk_session_resume(struct tn_zk_session *session)
{
    struct tn_zk_store *store = session->store;

    session->state = TN_ZK_UP;
    session->failures = 0;
    tn_zk_job_wake(store, session);
    /* Readers move to a session that is there anyway. */
    for (struct tn_zk_session *at = NULL; (at = tn_zk_session_next(store, at)) != NULL;)
        if (at->reader && !session->reader)
            tn_zk_session_end(at, true);
}

/* --- The end ---------------------------------------------------------------------------------- */

void tn_zk_session_end(struct tn_zk_session *session, bool polite)
{
    if (tn_zk_is_over(session))
        return;
    session->state = polite ? TN_ZK_CLOSING : TN_ZK_ENDING;
    tn_store_kick(&session->store->base);
}

static void free_farewell(uv_handle_t *handle)
{
    struct tn_zk_farewell *farewell = (struct tn_zk_farewell *)(void *)handle->data;
    struct tn_zk_store *store = farewell->store;

    (void)close(farewell->fd);
    free(farewell);
    tn_zk_handle_gone(store);
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
    farewell->job = NULL;
    end_farewell(farewell);
}

/* The server hangs up when it has done what it was asked. */
static void hear_farewell(uv_poll_t *handle, int status, int events)
{
    struct tn_zk_farewell *farewell = handle->data;
    struct tn_zk_job *job = farewell->job;
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
    if (job == NULL)
        return;
    if (heard)
        tn_zk_job_answer(job, TN_ANSWER_OK);
    else
        tn_zk_job_fail(job, TENURE_E_TIMEOUT, "the server hung up without an answer to the close");
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
    /* The job outlives the session: it is answered when the server hangs up. */
    farewell->job = session->closing;
    if (farewell->job != NULL)
        farewell->job->session = NULL;
    session->closing = NULL;
    farewell->poll.data = farewell;
    farewell->next = store->farewells;
    store->farewells = farewell;
    return farewell;
}

static void close_handle(struct tn_zk_session *session)
{
    struct tn_zk_farewell *farewell = NULL;
    bool polite = session->state == TN_ZK_CLOSING && session->relay != NULL &&
                  zoo_state(session->zh) == ZOO_CONNECTED_STATE;

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
        tn_zk_job_fail(session->closing, TENURE_E_UNAVAILABLE, "the session is not connected: %s",
                       session->why);
}

/* Its jobs: readers ask another session, the one that closes it is answered later. */
static void end_jobs(struct tn_zk_session *session)
{
    struct tn_zk_store *store = session->store;
    struct tn_zk_job *next;

    for (struct tn_zk_job *job = store->jobs; job != NULL; job = next) {
        next = job->next;
        if (job->session != session || job == session->closing)
            continue;
        job->session = NULL;
        if (job->start != tn_zk_read && job->start != tn_zk_list)
            tn_zk_job_answer(job, TN_ANSWER_GONE);
    }
}

void tn_zk_session_drop(struct tn_zk_session *session)
{
    struct tn_zk_store *store = session->store;

    tn_zk_claim_drop_all(session);
    end_jobs(session);
    close_handle(session);
    tn_store_session_drop(&store->base, &session->base);
    tn_zk_job_wake(store, NULL);
    tn_zk_observe_all(store);
}
