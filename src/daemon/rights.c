/* rights.c - rights that were taken away end what rests on them.
 *
 * The rules are asked at every command. Some things go on after their command: connections,
 * watches, places in line and leases. When the ACL is read again they are held to the new rules:
 *
 *   a user that is gone or has another secret   its connections are closed
 *   no right to observe what is watched         the connection is closed; a stream of events ends
 *   no right to acquire what is waited for      the place is given up; WAIT answers DENIED
 *   no right to acquire what is held            the lease is revoked, as by REVOKE
 *
 * A session is the user's who first used it, which is not on disk. After a restart a session that
 * is used again is held to the rules then. */
#include <string.h>

#include "daemon/server.h"

struct ended {
    unsigned conns, places, leases;
};

static bool may(const struct tn_server *server, const char *user, enum tn_right right,
                const char *name, size_t len)
{
    return tn_acl_allows(server->acl, user, right, name, len);
}

/* --- Connections ------------------------------------------------------------------------------ */

static bool may_watch(const struct tn_conn *conn)
{
    for (const struct tn_watch *watch = conn->watches; watch != NULL; watch = watch->conn_next)
        if (!may(conn->server, conn->user, TN_OBSERVE, watch->pattern, watch->len))
            return false;
    return true;
}

static void check_conn(struct tn_conn *conn, const struct tn_acl *before, struct ended *ended)
{
    const struct tn_wait *wait = conn->wait;

    if (conn->peer_kind == TN_PEER_OWNER || conn->state == TN_CONN_CLOSED)
        return;
    bool known = !conn->by_secret || tn_acl_keeps(before, conn->server->acl, conn->user);
    if (!known || !may_watch(conn)) {
        ended->conns++;
        tn_conn_close(conn);
    } else if (wait != NULL &&
               !may(conn->server, conn->user, TN_ACQUIRE, wait->name, wait->name_len)) {
        ended->places++;
        tn_wait_refuse(conn);
    }
}

/* --- Sessions --------------------------------------------------------------------------------- */

/* The number of a user that has no number of its own is that of others, too: nobody knows whose. */
static const char *user_of(const struct tn_server *server, uint32_t owner)
{
    return owner > 0 && owner <= server->owners.count ? server->owners.names[owner - 1] : NULL;
}

static void give_up_place(struct tn_server *server, const struct tn_secret *session,
                          const struct tn_secret *term, const struct tn_lease_view *view)
{
    struct tn_op op = { .kind = TN_OP_RELEASE,
                        .session = *session,
                        .term = *term,
                        .name = view->name,
                        .name_len = view->name_len };
    struct tn_conn *waiting = tn_wait_conn(server, session, term, view);
    struct tn_result result;

    if (waiting != NULL)
        tn_wait_refuse(waiting);
    else
        tn_server_step(server, &op, &result);
}

static void check_places(struct tn_server *server, uint32_t session, const struct tn_secret *secret,
                         const char *user, struct ended *ended)
{
    const struct tn_table *table = server->state.table;
    uint32_t next;

    for (uint32_t i = tn_table_next_place(table, session, 0); i != 0; i = next) {
        struct tn_lease_view view;
        struct tn_secret term;
        next = tn_table_next_place(table, session, i);
        tn_table_lease(table, tn_table_place(table, i, &term), &view);
        if (may(server, user, TN_ACQUIRE, view.name, view.name_len))
            continue;
        ended->places++;
        give_up_place(server, secret, &term, &view);
    }
}

static void check_leases(struct tn_server *server, uint32_t session, const char *user,
                         struct ended *ended)
{
    const struct tn_table *table = server->state.table;
    uint32_t next;

    for (uint32_t i = tn_table_next_held(table, session, 0); i != 0; i = next) {
        struct tn_lease_view view;
        struct tn_result result;
        next = tn_table_next_held(table, session, i);
        tn_table_lease(table, i, &view);
        if (view.revoked || may(server, user, TN_ACQUIRE, view.name, view.name_len))
            continue;
        struct tn_op op = {
            .kind = TN_OP_REVOKE, .name = view.name, .name_len = view.name_len, .token = view.token
        };
        ended->leases++;
        tn_server_step(server, &op, &result);
    }
}

static void check_session(struct tn_server *server, uint32_t session, struct ended *ended)
{
    struct tn_session_view view;

    tn_table_session(server->state.table, session, &view);
    const char *user = user_of(server, view.owner);
    if (user == NULL || view.closed)
        return;
    struct tn_secret secret = *view.secret;
    check_places(server, session, &secret, user, ended);
    check_leases(server, session, user, ended);
}

/* --- When ------------------------------------------------------------------------------------- */

static void tell_ended(const struct ended *ended)
{
    if (ended->conns + ended->places + ended->leases > 0)
        tn_log_info(
            "rights taken away: %u connections closed, %u places in line given up, %u leases "
            "revoked",
            ended->conns, ended->places, ended->leases);
}

void tn_rights_changed(struct tn_server *server, const struct tn_acl *before)
{
    struct ended ended = { 0 };
    struct tn_conn *next;

    tn_server_tell_time(server);
    for (struct tn_conn *conn = server->conns; conn != NULL; conn = next) {
        next = conn->next;
        check_conn(conn, before, &ended);
    }
    for (uint32_t i = 0; (i = tn_table_next_session(server->state.table, i)) != 0;)
        check_session(server, i, &ended);
    tell_ended(&ended);
}

void tn_rights_adopted(struct tn_server *server, const struct tn_secret *session)
{
    struct ended ended = { 0 };
    uint32_t index = tn_table_session_of(server->state.table, session);

    if (index != 0)
        check_session(server, index, &ended);
    tell_ended(&ended);
}
