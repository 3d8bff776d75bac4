/* server.c - the loop: what is due, the flush, the sending, the signals; server.h has the plan. */
#define _GNU_SOURCE /* WNOHANG */
#include "daemon/server.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/time.h"
#include "runtime/clock.h"
#include "runtime/notify.h"
#include "runtime/random.h"
#include "runtime/timer.h"

/* Steps of leftover work in one turn of the loop; each lets go of at most four leases. */
#define STEPS_MAX 2000
#define SWEEP_MS 1000
/* How often to look for more before a flush, how many peers are many, and what is much to flush. */
#define HEARINGS_MAX 4
#define MANY 16
#define MUCH_BYTES (256 * 1024)

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
    struct tn_resp_out *out = NULL;
    struct tn_lease_view view;
    char term[32];

    if (link != NULL && link->conn != NULL && link->conn->out.resp3)
        out = tn_conn_room_for_push(link->conn, 1024);
    if (out == NULL)
        return;
    tn_table_lease(server->state.table, notice->lease, &view);
    tn_resp_put_push(out, 4);
    tn_resp_put_text(out, what);
    tn_resp_put_bulk(out, view.name, view.name_len);
    tn_resp_put_u64(out, notice->token);
    tn_secret_text(&notice->term, term); /* Its hash: the table knows no more. */
    tn_resp_put_bulk(out, term, sizeof term);
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
            tn_past_revoked(server, notice->lease);
            if (op->kind == TN_OP_RENEW || op->kind == TN_OP_OPEN) /* There the reply tells. */
                break;
            push_to_session(server, notice, "revoked");
            tn_watch_revoked(server, notice->lease);
            break;
        case TN_NOTICE_CHANGED:
            tn_metrics_changed(server, notice->lease, notice->held);
            tn_past_changed(server, op, notice);
            tn_watch_changed(server, notice->lease);
            if (server->agent != NULL)
                tn_agent_changed(server, notice);
            break;
        case TN_NOTICE_ENDED:
            server->count.expired += op->kind != TN_OP_CLOSE;
            tn_link_ended(server, &notice->session);
            tn_wait_gone(server, &notice->session);
            break;
        case TN_NOTICE_LINE:
            tn_agent_look(server, notice->lease);
            break;
        }
    }
}

void tn_server_step(struct tn_server *server, const struct tn_op *op, struct tn_result *ret_result)
{
    tn_past_before(server, op);
    tn_table_step(server->state.table, server->now, op, ret_result);
    if (ret_result->count > 0 || ret_result->softened ||
        (ret_result->answer == TN_ANSWER_OK && op->kind != TN_OP_RENEW)) {
        if (!server->journal.none) {
            tn_state_log(&server->state, &server->journal, op, ret_result);
            tn_pending_note(server, op, ret_result);
        }
        pass_on(server, op, ret_result);
    }
    if (ret_result->adopted && server->acl != NULL)
        tn_rights_adopted(server, &op->session);
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
    while (server->resumable) { /* What one of them asks for may end the wait of another. */
        server->resumable = false;
        for (struct tn_conn *conn = server->dirty; conn != NULL; conn = conn->dirty_next)
            if (conn->resumable)
                tn_conn_resume(conn);
    }
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

/* All that goes before a flush. Returns whether some of it is left. */
static bool gather(struct tn_server *server)
{
    tn_input_carry_out(server);
    bool left = work_off(server);

    tn_http_run(server);
    resume_waiters(server);
    if (server->flushing || tn_journal_is_pending(&server->journal))
        tn_flush_send_unbound(server); /* Renewals first: a holder's life waits for no disk. */
    return left || server->webs_later != NULL;
}

bool tn_server_turn(struct tn_server *server)
{
    (void)uv_idle_stop(&server->at_once);
    (void)gather(server);
    switch (tn_flush(server)) {
    case TN_FLUSH_OVER:
        break;
    case TN_FLUSH_LASTS:
        return true;
    case TN_FLUSH_TAKEN:
        return false;
    }
    tn_flush_send(server);
    tn_state_grown(&server->state);
    tn_journal_prepare(&server->journal);
    /* Cutting off a peer may have freed a lease: that is written, and told, in the next turn. */
    bool more = tn_journal_is_pending(&server->journal) || server->dirty != NULL ||
                server->webs_later != NULL;
    if (!more)
        snapshot_if_long(server);
    if (server->draining && !more)
        tn_flush_end(server);
    return !server->draining || more;
}

static void nothing(uv_idle_t *idle)
{
    (void)idle;
}

/* When there is something left to do, the loop only looks what has arrived and does not wait. */
static void before_poll(uv_prepare_t *prepare)
{
    struct tn_server *server = prepare->data;
    bool left = gather(server);
    tenure_ns wake_at = tn_table_wake_at(server->state.table);

    if (left ||
        (!server->flushing && (server->dirty != NULL || tn_journal_is_pending(&server->journal))))
        (void)uv_idle_start(&server->at_once, nothing);
    if (wake_at != server->armed_for) {
        server->armed_for = wake_at;
        tn_timer_arm(server->due_fd, wake_at);
    }
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
    if (conn->web != NULL)
        return tn_httpd_is_idle(conn, server->now - conn->heard_at);
    return conn->watches == NULL && conn->links == NULL &&
           server->now - conn->heard_at > server->config.idle;
}

static void sweep(uv_timer_t *timer)
{
    struct tn_server *server = timer->data;
    struct tn_conn *next;

    tn_input_carry_out(server); /* Who has just spoken is not idle. */
    tn_server_tell_time(server);
    if (server->agent != NULL)
        tn_agent_sweep(server);
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

    tn_input_carry_out(server);
    server->draining = true;
    (void)tn_notify("STOPPING=1");
    tn_server_tell_time(server);
    stop_listening(server);
    for (struct tn_conn *conn = server->conns; conn != NULL; conn = next) {
        next = conn->next;
        if (conn->web != NULL) {
            tn_httpd_drain(conn);
            continue;
        }
        if (conn->wait != NULL) {
            tn_wait_cancel(conn);
            if (tn_conn_room(conn, 128))
                tn_resp_put_error(&conn->out, "UNAVAILABLE the daemon is ending; ask again");
        }
        tn_conn_leave(conn);
        tn_conn_touch(conn);
    }
}

static void reap(struct tn_server *server)
{
    int status;

    if (server->journal.snapshot_pid != 0 &&
        waitpid(server->journal.snapshot_pid, &status, WNOHANG) == server->journal.snapshot_pid &&
        tn_journal_snapshot_ended(&server->journal, status) != 0)
        tn_log("a snapshot could not be written; the journal goes on");
}

static void reload(struct tn_server *server)
{
    char line[450];
    struct tn_text err;
    struct tn_acl *fresh;

    tn_secure_reload(server);
    if (server->config.acl == NULL && server->tls == NULL)
        tn_log_info("SIGHUP: there is nothing to read again, neither --acl nor --tls-cert");
    if (server->config.acl == NULL)
        return;
    tn_text_init(&err, line, sizeof line);
    if (tn_acl_load(server->config.acl, &fresh, &err) != 0) {
        tn_log("%s; the rules stay as they were", line);
        return;
    }
    struct tn_acl *before = server->acl;
    server->acl = fresh;
    tn_rights_changed(server, before);
    tn_acl_free(before);
    tn_log_info("%s: read again", server->config.acl);
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
    return tn_past_open(server);
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
    rc = tn_flush_open(server);
    if (rc != 0)
        return rc;
    (void)uv_prepare_init(&server->loop, &server->prepare);
    (void)uv_idle_init(&server->loop, &server->at_once);
    (void)uv_timer_init(&server->loop, &server->sweep);
    rc = uv_poll_init(&server->loop, &server->due, server->due_fd);
    server->prepare.data = server->due.data = server->sweep.data = server;
    (void)uv_prepare_start(&server->prepare, before_poll);
    (void)uv_timer_start(&server->sweep, sweep, SWEEP_MS, SWEEP_MS);
    if (rc == 0)
        rc = tn_past_start(server);
    if (rc == 0 && server->agent != NULL)
        rc = tn_agent_start(server);
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
    if (rc == 0 && config->upstream_count > 0)
        rc = tn_agent_open(server, reterr);
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

/* Wait for what peers say. When many say something at once others are about to, and one flush may
 * do for them all: so look again, unless that is much already. */
static void hear(struct tn_server *server)
{
    (void)uv_run(&server->loop, UV_RUN_ONCE);
    tn_input_read(server);
    for (int hearings = 1; hearings < HEARINGS_MAX && server->input.count >= MANY &&
                           server->journal.batch_len < MUCH_BYTES;
         hearings++) {
        (void)uv_run(&server->loop, UV_RUN_NOWAIT);
        tn_input_read(server);
    }
}

/* Until the end, or until the other thread took over. */
static void serve(struct tn_server *server)
{
    do
        hear(server);
    while (tn_server_turn(server));
}

static void stand_by(void *arg)
{
    struct tn_server *server = arg;

    while (tn_flush_stand_by(server))
        serve(server);
}

int tn_server_run(struct tn_server *server)
{
    uv_thread_t second;
    bool alone = uv_thread_create(&second, stand_by, server) != 0;

    if (alone)
        tn_log("no second thread: while the disk hangs, nobody is served");
    serve(server);
    stand_by(server);
    if (!alone)
        (void)uv_thread_join(&second);
    return server->status;
}

void tn_server_close(struct tn_server *server)
{
    stop_listening(server);
    while (server->conns != NULL)
        tn_conn_close(server->conns);
    if (tn_journal_is_pending(&server->journal))
        (void)tn_server_turn(server); /* Waits given back; no snapshot begins any more. */
    tn_link_drop_all(server);
    tn_agent_close(server);
    (void)uv_prepare_stop(&server->prepare);
    uv_walk(&server->loop, close_handle, NULL);
    while (uv_loop_close(&server->loop) == UV_EBUSY)
        (void)uv_run(&server->loop, UV_RUN_DEFAULT);
    if (server->due_fd >= 0)
        (void)close(server->due_fd);
    tn_flush_close(server);
    tn_past_close(server);
    tn_journal_close(&server->journal);
    tn_state_done(&server->state);
    tn_metrics_close(server);
    tn_tls_context_free(server->tls);
    tn_acl_free(server->acl);
    free(server->owners.names);
    tn_pending_close(server);
    if (!tn_agent_left_open(server))
        tn_agent_free(server);
}
