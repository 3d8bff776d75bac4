/* server.c - the loop: what is due, the flush, the sending, the signals; server.h has the plan. */
#define _GNU_SOURCE /* WNOHANG */
#include "daemon/server.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/time.h"
#include "runtime/clock.h"
#include "runtime/random.h"
#include "runtime/timer.h"

/* Steps of leftover work in one turn of the loop; each lets go of at most four leases. */
#define STEPS_MAX 2000
/* With fewer to be answered a flush in the loop is faster than one on another thread. */
#define ASIDE_MIN 16
/* A flush on another thread is waited for this long before the loop goes on: mostly it is over by
 * then, and whoever arrives meanwhile is better served together. */
#define ASIDE_NS TN_MS(10)
#define SWEEP_MS 1000

enum { STATUS_IO = 74 };

void tn_log(const char *format, ...)
{
    char line[500];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *at = line; *at != 0; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7F)
            *at = '?'; /* Nothing that a peer or a path says makes a line of its own. */
    (void)fprintf(stderr, "tenured: %s\n", line);
}

void tn_server_tell_time(struct tn_server *server)
{
    tenure_ns now = tn_boottime();
    if (now > server->now)
        server->now = now;
}

/* --- The table -------------------------------------------------------------------------------- */

/* To the connection that the session's news go to. In RESP2 there is no way to tell. */
static void push_to_session(struct tn_server *server, const struct tn_notice *notice,
                            const char *what)
{
    struct tn_link *link = tn_link_find(server, &notice->session);
    struct tn_lease_view view;
    char term[32];

    if (link == NULL || link->conn == NULL || !link->conn->out.resp3 ||
        !tn_conn_room(link->conn, 1024))
        return;
    tn_table_lease(server->state.table, notice->lease, &view);
    tn_resp_put_push(&link->conn->out, 4);
    tn_resp_put_text(&link->conn->out, what);
    tn_resp_put_bulk(&link->conn->out, view.name, view.name_len);
    tn_resp_put_u64(&link->conn->out, notice->token);
    tn_secret_text(&notice->term, term); /* Its hash: the table knows no more. */
    tn_resp_put_bulk(&link->conn->out, term, sizeof term);
    tn_conn_touch(link->conn);
}

static void pass_on(struct tn_server *server, const struct tn_op *op,
                    const struct tn_result *result)
{
    for (uint32_t i = 0; i < result->count; i++) {
        const struct tn_notice *notice = &result->list[i];
        switch (notice->kind) {
        case TN_NOTICE_GRANTED:
            server->count.grants++;
            if (!tn_wait_granted(server, notice))
                push_to_session(server, notice, "granted");
            break;
        case TN_NOTICE_REVOKED:
            if (op->kind != TN_OP_RENEW && op->kind != TN_OP_OPEN) /* There the reply tells. */
                push_to_session(server, notice, "revoked");
            break;
        case TN_NOTICE_CHANGED:
            tn_metrics_changed(server, notice->lease, notice->held);
            tn_watch_changed(server, notice->lease);
            break;
        case TN_NOTICE_ENDED:
            server->count.expired += op->kind != TN_OP_CLOSE;
            tn_link_ended(server, &notice->session);
            tn_wait_gone(server, &notice->session);
            break;
        }
    }
}

void tn_server_step(struct tn_server *server, const struct tn_op *op, struct tn_result *ret_result)
{
    tn_table_step(server->state.table, server->now, op, ret_result);
    if (ret_result->count > 0 || (ret_result->answer == TN_ANSWER_OK && op->kind != TN_OP_RENEW)) {
        tn_state_log(&server->state, &server->journal, op, ret_result);
        pass_on(server, op, ret_result);
    }
}

/* What time has done. Returns whether some of it is left for the next turn. */
static bool work_off(struct tn_server *server)
{
    const struct tn_op tick = { .kind = TN_OP_TICK };
    struct tn_result result;
    int steps = 0;

    if (tn_table_wake_at(server->state.table) > server->now)
        return false;
    tn_server_tell_time(server);
    while (tn_table_wake_at(server->state.table) <= server->now && steps++ < STEPS_MAX)
        tn_server_step(server, &tick, &result);
    return steps > STEPS_MAX;
}

/* --- A turn of the loop ----------------------------------------------------------------------- */

static void resume_waiters(struct tn_server *server)
{
    bool again;

    do { /* What one of them asks for may end the wait of another. */
        again = false;
        for (struct tn_conn *conn = server->dirty; conn != NULL; conn = conn->dirty_next) {
            if (conn->resumable) {
                tn_conn_resume(conn);
                again = true;
            }
        }
    } while (again);
}

/* What the disk refused cannot be taken back from the table, so nothing may be said any more. */
_Noreturn static void give_up(const struct tn_text *why)
{
    tn_log("%s: ending without answering, so that nothing is promised that is not on disk",
           tn_text_str(why));
    _exit(STATUS_IO);
}

static void send_all(struct tn_server *server)
{
    while (server->dirty != NULL) {
        struct tn_conn *conn = server->dirty;
        server->dirty = conn->dirty_next;
        conn->dirty = false;
        if (!conn->closing)
            tn_conn_send(conn, conn->out.len);
    }
    server->dirty_count = 0;
}

static void snapshot_if_long(struct tn_server *server)
{
    char line[400];
    struct tn_text err;

    if (!tn_journal_is_long(&server->journal) || server->draining)
        return;
    tn_text_init(&err, line, sizeof line);
    if (tn_journal_snapshot(&server->journal, &err) != 0) {
        tn_log("no snapshot: %s; the journal goes on", line);
        server->journal.grown_bytes = 0; /* Not again at every turn. */
    }
}

static void arm(struct tn_server *server, bool at_once)
{
    tenure_ns when = at_once ? server->now : tn_table_wake_at(server->state.table);

    if (when == server->armed_for && !at_once)
        return;
    server->armed_for = when;
    tn_timer_arm(server->due_fd, when);
}

/* --- The flush -------------------------------------------------------------------------------- */

static void turn(struct tn_server *server);

static void write_out(uv_work_t *work)
{
    struct tn_server *server = work->data;
    int error = tn_journal_write_out(&server->journal);

    uv_mutex_lock(&server->flush_lock);
    server->flush_error = error;
    server->flush_over = true;
    uv_cond_signal(&server->flush_signal);
    uv_mutex_unlock(&server->flush_lock);
}

static bool is_over_soon(struct tn_server *server)
{
    uint64_t end = uv_hrtime() + ASIDE_NS;

    uv_mutex_lock(&server->flush_lock);
    while (!server->flush_over && uv_hrtime() < end)
        (void)uv_cond_timedwait(&server->flush_signal, &server->flush_lock, ASIDE_NS);
    bool over = server->flush_over;
    uv_mutex_unlock(&server->flush_lock);
    return over;
}

/* Those who waited for the flush are answered, with what they had to be told by then. */
static void send_gated(struct tn_server *server)
{
    while (server->gated != NULL) {
        struct tn_conn *conn = server->gated;
        server->gated = conn->gated_next;
        conn->gated = false;
        tn_conn_send(conn, conn->sendable);
    }
}

static void note_flush(struct tn_server *server)
{
    tn_histogram_add(&server->flushes, tn_boottime() - server->flush_began);
}

static void take_landed(struct tn_server *server)
{
    char line[400];
    struct tn_text err;

    tn_text_init(&err, line, sizeof line);
    if (tn_journal_landed(&server->journal, server->flush_error, &err) != 0)
        give_up(&err);
    note_flush(server);
}

static void landed(uv_work_t *work, int status)
{
    struct tn_server *server = work->data;

    (void)status;
    server->flush_queued = false;
    if (!server->flushing) /* It was over soon. */
        return;
    server->flushing = false;
    take_landed(server);
    send_gated(server);
    turn(server);
}

/* Whoever has something to be told waits for the flush that is under way. */
static void gate_all(struct tn_server *server)
{
    while (server->dirty != NULL) {
        struct tn_conn *conn = server->dirty;
        server->dirty = conn->dirty_next;
        conn->dirty = false;
        if (conn->closing)
            continue;
        conn->gated = true;
        conn->gated_next = server->gated;
        conn->sendable = conn->out.len;
        server->gated = conn;
    }
    server->dirty_count = 0;
}

/* Let the other thread flush. Returns whether that is over. */
static bool flush_aside(struct tn_server *server)
{
    server->flush.data = server;
    server->flush_over = false;
    server->flush_queued = true;
    (void)uv_queue_work(&server->loop, &server->flush, write_out, landed);
    if (is_over_soon(server)) {
        take_landed(server);
        return true;
    }
    server->flushing = true;
    gate_all(server);
    return false;
}

/* Renewals first: what a holder lives on does not wait for the disk. */
static void send_unbound(struct tn_server *server)
{
    struct tn_conn **at = &server->dirty;

    while (*at != NULL) {
        struct tn_conn *conn = *at;
        if (conn->bound || conn->gated || conn->closing) {
            at = &conn->dirty_next;
            continue;
        }
        *at = conn->dirty_next;
        conn->dirty = false;
        server->dirty_count--;
        tn_conn_send(conn, conn->out.len);
    }
}

/* Flush what is pending. Returns false when that is under way and nothing may be said yet. */
static bool flush(struct tn_server *server)
{
    char line[400];
    struct tn_text err;

    if (server->flushing)
        return false;
    if (!tn_journal_is_pending(&server->journal))
        return true;
    tn_text_init(&err, line, sizeof line);
    server->flush_began = tn_boottime();
    if (server->dirty_count >= ASIDE_MIN && !server->flush_queued) {
        if (tn_journal_seal(&server->journal, &err) != 0)
            give_up(&err);
        return flush_aside(server);
    }
    if (tn_journal_flush(&server->journal, &err) != 0)
        give_up(&err);
    note_flush(server);
    return true;
}

static void turn(struct tn_server *server)
{
    bool left = work_off(server);

    tn_http_run(server);
    resume_waiters(server);
    if (server->flushing || tn_journal_is_pending(&server->journal))
        send_unbound(server);
    if (!flush(server)) {
        arm(server, left || server->http_waits);
        return;
    }
    send_all(server);
    /* Cutting off a peer may have freed a lease: that is written, and told, in the next turn. */
    tn_journal_prepare(&server->journal);
    bool more =
        tn_journal_is_pending(&server->journal) || server->dirty != NULL || server->http_waits;
    if (!more)
        snapshot_if_long(server);
    arm(server, left || more);
    if (server->draining && !more)
        uv_stop(&server->loop);
}

static void before_poll(uv_prepare_t *prepare)
{
    turn(prepare->data);
}

static void after_poll(uv_check_t *check)
{
    turn(check->data);
}

static void due(uv_poll_t *poll, int status, int events)
{
    struct tn_server *server = poll->data;
    uint64_t count;

    (void)status;
    (void)events;
    (void)!read(server->due_fd, &count, sizeof count);
    server->armed_for = TN_NEVER;
    tn_server_tell_time(server);
}

/* A peer that began a command and does not finish it, or one that nothing will ever be told. */
static bool is_slow_or_idle(const struct tn_server *server, const struct tn_conn *conn)
{
    if (conn->partial_since != 0 && server->now - conn->partial_since > server->config.slow)
        return true;
    return conn->watches == NULL && conn->links == NULL && conn->relay == NULL &&
           server->now - conn->heard_at > server->config.idle;
}

static void sweep(uv_timer_t *timer)
{
    struct tn_server *server = timer->data;
    struct tn_conn *next;

    tn_server_tell_time(server);
    for (struct tn_conn *conn = server->conns; conn != NULL; conn = next) {
        next = conn->next;
        if (conn->http != NULL)
            tn_http_sweep(conn);
        else if (conn->wait == NULL && is_slow_or_idle(server, conn))
            tn_conn_close(conn);
    }
}

/* --- Signals ---------------------------------------------------------------------------------- */

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void stop_listening(struct tn_server *server)
{
    for (uint32_t i = 0; i < server->listener_count; i++) {
        struct tn_listener *listener = &server->listeners[i];
        if (listener->path != NULL)
            (void)unlink(listener->path);
        free(listener->path);
        listener->path = NULL;
        if (listener->open && !uv_is_closing(&listener->uv.handle))
            uv_close(&listener->uv.handle, NULL);
    }
}

/* No new peers; whoever waits is told to come again; what was asked is flushed and answered. */
static void drain(struct tn_server *server)
{
    struct tn_conn *next;

    server->draining = true;
    tn_notify("STOPPING=1");
    tn_server_tell_time(server);
    stop_listening(server);
    tn_http_quiesce(server);
    for (struct tn_conn *conn = server->conns; conn != NULL; conn = next) {
        next = conn->next;
        if (conn->wait != NULL) {
            tn_wait_cancel(conn);
            if (tn_conn_room(conn, 128))
                tn_resp_put_error(&conn->out, "UNAVAILABLE the daemon is ending; ask again");
        }
        conn->quitting = true;
        tn_conn_touch(conn);
    }
    turn(server); /* The last one stops the loop. */
}

static void reap(struct tn_server *server)
{
    int status;

    if (server->journal.snapshot_pid != 0 &&
        waitpid(server->journal.snapshot_pid, &status, WNOHANG) == server->journal.snapshot_pid &&
        tn_journal_snapshot_ended(&server->journal, status) != 0)
        tn_log("a snapshot could not be written; the journal goes on");
}

/* Who is known already stays known, by name; the new rules count from the next command on. */
static void reload(struct tn_server *server)
{
    char line[450];
    struct tn_text err;
    struct tn_acl *fresh;

    tn_secure_reload(server);
    if (server->config.acl == NULL)
        return;
    tn_text_init(&err, line, sizeof line);
    if (tn_acl_load(server->config.acl, &fresh, &err) != 0) {
        tn_log("%s; the rules stay as they were", line);
        return;
    }
    tn_acl_free(server->acl);
    server->acl = fresh;
    tn_log("%s: read again", server->config.acl);
}

static void signalled(uv_signal_t *handle, int number)
{
    struct tn_server *server = handle->data;

    if (number == SIGCHLD)
        reap(server);
    else if (number == SIGHUP)
        reload(server);
    else if (!server->draining)
        drain(server);
}

/* --- Beginning and end ------------------------------------------------------------------------ */

static int open_data(struct tn_server *server, struct tn_text *reterr)
{
    struct tn_journal_state hooks;
    struct tn_secret key;
    int rc = tn_random_secret(&key);

    if (rc != 0)
        return rc;
    memcpy(&server->config.limits.hash_key, key.bytes, sizeof server->config.limits.hash_key);
    rc = tn_state_init(&server->state, server->config.limits, server->config.fences_max);
    if (rc != 0) {
        tn_text_add(reterr, "no memory for the tables; lower the limits");
        return rc;
    }
    hooks = tn_state_for_journal(&server->state);
    rc = tn_journal_open(&server->journal, &server->config.journal, &hooks, reterr);
    if (rc != 0) {
        tn_state_done(&server->state);
        return rc;
    }
    tn_server_tell_time(server);
    tn_table_restart(server->state.table, server->now);
    return 0;
}

static int open_loop(struct tn_server *server)
{
    static const int numbers[4] = { SIGTERM, SIGINT, SIGHUP, SIGCHLD };

    int rc = uv_loop_init(&server->loop);
    if (rc != 0)
        return rc;
    server->due_fd = tn_timer_open();
    if (server->due_fd < 0)
        return UV_EMFILE;
    rc = uv_mutex_init(&server->flush_lock);
    if (rc == 0)
        rc = uv_cond_init(&server->flush_signal);
    if (rc != 0)
        return rc;
    (void)uv_prepare_init(&server->loop, &server->prepare);
    (void)uv_check_init(&server->loop, &server->check);
    (void)uv_timer_init(&server->loop, &server->sweep);
    rc = uv_poll_init(&server->loop, &server->due, server->due_fd);
    server->prepare.data = server->check.data = server->due.data = server->sweep.data = server;
    (void)uv_prepare_start(&server->prepare, before_poll);
    (void)uv_check_start(&server->check, after_poll);
    (void)uv_timer_start(&server->sweep, sweep, SWEEP_MS, SWEEP_MS);
    if (rc == 0)
        rc = uv_poll_start(&server->due, UV_READABLE, due);
    for (size_t i = 0; rc == 0 && i < 4; i++) {
        rc = uv_signal_init(&server->loop, &server->signals[i]);
        server->signals[i].data = server;
        if (rc == 0)
            rc = uv_signal_start(&server->signals[i], signalled, numbers[i]);
    }
    return rc;
}

int tn_server_open(struct tn_server *server, const struct tn_server_config *config,
                   struct tn_text *reterr)
{
    int rc;

    server->config = *config;
    server->due_fd = -1;
    server->armed_for = TN_NEVER;
    server->seq = UINT64_C(1) << 62;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* A file size limit is a full disk like any other. */
    rc = config->acl != NULL ? tn_acl_load(config->acl, &server->acl, reterr) : 0;
    if (rc == 0)
        rc = tn_secure_open(server, reterr);
    if (rc == 0)
        rc = open_data(server, reterr);
    if (rc == 0)
        rc = tn_metrics_open(server);
    if (rc != 0) {
        tn_tls_context_free(server->tls);
        tn_acl_free(server->acl);
        return rc;
    }
    int uv = open_loop(server);
    if (uv != 0) {
        tn_text_addf(reterr, "the event loop: %s", uv_strerror(uv));
        rc = TENURE_E_UNAVAILABLE;
    }
    if (rc == 0)
        rc = tn_listen_inherited(server, reterr);
    for (uint32_t i = 0; rc == 0 && i < config->listen_count; i++)
        rc = tn_listen(server, config->listen[i], reterr);
    if (rc == 0 && config->http != NULL)
        rc = tn_http_open(server, config->http, reterr);
    if (rc != 0)
        tn_server_close(server);
    return rc;
}

int tn_server_run(struct tn_server *server)
{
    (void)uv_run(&server->loop, UV_RUN_DEFAULT);
    return server->status;
}

void tn_server_close(struct tn_server *server)
{
    stop_listening(server);
    while (server->conns != NULL)
        tn_conn_close(server->conns);
    if (tn_journal_is_pending(&server->journal))
        turn(server); /* Waits given back; a snapshot does not begin any more. */
    tn_link_drop_all(server);
    tn_http_close(server);
    (void)uv_prepare_stop(&server->prepare);
    (void)uv_check_stop(&server->check);
    uv_walk(&server->loop, close_handle, NULL);
    while (uv_loop_close(&server->loop) == UV_EBUSY)
        (void)uv_run(&server->loop, UV_RUN_DEFAULT);
    if (server->due_fd >= 0)
        (void)close(server->due_fd);
    uv_cond_destroy(&server->flush_signal);
    uv_mutex_destroy(&server->flush_lock);
    tn_journal_close(&server->journal);
    tn_state_done(&server->state);
    tn_metrics_close(server);
    tn_tls_context_free(server->tls);
    tn_acl_free(server->acl);
}
