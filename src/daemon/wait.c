/* wait.c - connections that wait for a lease: answered when their turn comes, when their time is
 * over, or when their session is. Only the one who is granted the lease is woken. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "daemon/server.h"

static uint64_t hash_of(const struct tn_server *server, const struct tn_secret *session)
{
    return tn_map_hash(server, session->bytes, sizeof session->bytes);
}

static void timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

/* The wait is over; its connection may go on. The memory is good until the loop's next turn. */
static void end_wait(struct tn_wait *wait)
{
    struct tn_conn *conn = wait->conn;

    TN_ASSERT(conn->wait == wait);
    tn_map_remove(conn->server->waits, &wait->node);
    conn->wait = NULL;
    conn->resumable = true;
    conn->server->resumable = true;
    uv_close((uv_handle_t *)&wait->timer, timer_closed);
}

/* Whether there is room for a reply of so many bytes; its tag is there then. */
static bool begin_reply(const struct tn_wait *wait, size_t bytes)
{
    if (!tn_conn_room(wait->conn, bytes + (wait->tagged ? TN_TAG_BYTES : 0)))
        return false;
    if (wait->tagged)
        tn_put_tag(&wait->conn->out, wait->tag);
    return true;
}

/* Give its place in the queue back. After end_wait: the step may end its session. */
static void withdraw(struct tn_server *server, const struct tn_wait *wait)
{
    struct tn_op op = { .kind = TN_OP_RELEASE,
                        .session = wait->session,
                        .term = wait->term,
                        .name = wait->name,
                        .name_len = wait->name_len };
    struct tn_result result;

    tn_server_step(server, &op, &result);
}

static void timed_out(uv_timer_t *timer)
{
    struct tn_wait *wait = timer->data;
    struct tn_conn *conn = wait->conn;

    tn_server_tell_time(conn->server);
    end_wait(wait);
    if (wait->kind == TN_WAIT_TURN && begin_reply(wait, TN_RESP_HEAD_MAX)) {
        tn_resp_put_null_array(&conn->out);
    } else if (wait->kind != TN_WAIT_TURN && begin_reply(wait, 128)) {
        tn_metrics_refused(conn->server, "UNAVAILABLE");
        tn_resp_put_error(&conn->out, "UNAVAILABLE the upstream store does not answer; ask again");
    }
    tn_conn_touch(conn);
    withdraw(conn->server, wait);
}

bool tn_wait_begin(const struct tn_call *call, enum tn_wait_kind kind, const struct tn_op *op,
                   const char *term_text, uint64_t timeout_ms)
{
    struct tn_server *server = call->server;
    struct tn_conn *conn = call->conn;
    struct tn_wait *wait = calloc(1, sizeof *wait);

    if (wait == NULL)
        return false;
    wait->conn = conn;
    wait->kind = kind;
    wait->tagged = call->tagged;
    wait->tag = call->tag;
    wait->session = op->session;
    wait->term = op->term;
    memcpy(wait->term_text, term_text, sizeof wait->term_text);
    wait->name_len = op->name_len;
    memcpy(wait->name, op->name, op->name_len);
    (void)uv_timer_init(&server->loop, &wait->timer);
    wait->timer.data = wait;
    if (timeout_ms > 0) {
        uv_update_time(&server->loop);
        (void)uv_timer_start(&wait->timer, timed_out, timeout_ms, 0);
    }
    tn_map_add(server->waits, &wait->node, hash_of(server, &op->session));
    conn->wait = wait;
    return true;
}

struct tn_conn *tn_wait_conn(struct tn_server *server, const struct tn_secret *session,
                             const struct tn_secret *term, const struct tn_lease_view *view)
{
    struct tn_map_node *node = tn_map_first(server->waits, hash_of(server, session));

    for (; node != NULL; node = tn_map_next(node)) {
        const struct tn_wait *wait = (struct tn_wait *)node;
        if (tn_secret_equal(&wait->session, session) && tn_secret_equal(&wait->term, term) &&
            wait->name_len == view->name_len && memcmp(wait->name, view->name, view->name_len) == 0)
            return wait->conn;
    }
    return NULL;
}

bool tn_wait_granted(struct tn_server *server, const struct tn_notice *notice)
{
    struct tn_lease_view view;

    tn_table_lease(server->state.table, notice->lease, &view);
    struct tn_conn *conn = tn_wait_conn(server, &notice->session, &notice->term, &view);
    if (conn == NULL)
        return false;
    struct tn_wait *wait = conn->wait;
    if (begin_reply(wait, 4 * TN_RESP_HEAD_MAX + 64)) {
        tn_resp_put_array(&conn->out, 3);
        tn_resp_put_text(&conn->out, "granted");
        tn_resp_put_u64(&conn->out, notice->token);
        tn_resp_put_bulk(&conn->out, wait->term_text, sizeof wait->term_text);
    }
    end_wait(wait);
    tn_conn_touch(conn);
    return true;
}

/* [held, token, holder, remaining_ms] */
static void put_held(struct tn_resp_out *out, const struct tn_lease_view *view)
{
    tn_resp_put_array(out, 4);
    tn_resp_put_text(out, "held");
    tn_resp_put_u64(out, view->token);
    tn_resp_put_bulk(out, view->label, view->label_len);
    tn_resp_put_int(out, 0);
}

/* True: the wait is over. */
static bool answer_look(struct tn_wait *wait, const struct tn_lease_view *view)
{
    struct tn_conn *conn = wait->conn;
    bool once = wait->kind == TN_WAIT_ONCE;

    if (wait->kind == TN_WAIT_TURN || (once && view->session == NULL) ||
        wait->name_len != view->name_len || memcmp(wait->name, view->name, view->name_len) != 0)
        return false;
    end_wait(wait);
    if (begin_reply(wait, TN_LEASE_BYTES) && once)
        put_held(&conn->out, view);
    else if (!once)
        tn_put_lease(&conn->out, view, &(struct tn_resp_word) { view->name, view->name_len });
    tn_conn_touch(conn);
    withdraw(conn->server, wait);
    return true;
}

void tn_wait_looked(struct tn_server *server, const struct tn_lease_view *view)
{
    for (uint32_t i = 0; i < TN_BUCKETS && server->conn_count > 0; i++) {
        struct tn_map_node *node = server->waits[i];
        while (node != NULL) {
            struct tn_wait *wait = (struct tn_wait *)node;
            node = node->next;
            if (answer_look(wait, view))
                node = server->waits[i]; /* What it gave back may have ended another wait. */
        }
    }
}

void tn_wait_gone(struct tn_server *server, const struct tn_secret *session)
{
    struct tn_map_node *node = tn_map_first(server->waits, hash_of(server, session));

    while (node != NULL) {
        struct tn_wait *wait = (struct tn_wait *)node;
        struct tn_conn *conn = wait->conn;
        node = tn_map_next(node);
        if (!tn_secret_equal(&wait->session, session))
            continue;
        end_wait(wait);
        if (begin_reply(wait, 128))
            tn_resp_put_error(&conn->out, "GONE the session is over; open a new one");
        tn_conn_touch(conn);
    }
}

void tn_wait_refuse(struct tn_conn *conn)
{
    struct tn_wait *wait = conn->wait;

    end_wait(wait);
    if (begin_reply(wait, 160)) {
        tn_metrics_refused(conn->server, "DENIED");
        tn_resp_put_error(&conn->out, "DENIED the right to acquire this name was taken away");
    }
    tn_conn_touch(conn);
    withdraw(conn->server, wait);
}

void tn_wait_cancel(struct tn_conn *conn)
{
    struct tn_wait *wait = conn->wait;

    if (wait == NULL)
        return;
    end_wait(wait);
    withdraw(conn->server, wait);
}
