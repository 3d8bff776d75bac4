/* secure.c - TCP beyond this machine: mutual TLS between the socket and the commands.
 *
 * A peer without a certificate of the CA does not get past the handshake. The name in its
 * certificate is its user in the ACL. Certificates are read again on SIGHUP: who is connected stays
 * so, who comes later meets the new ones; new ones that are no good leave the old in place. */
#include <string.h>

#include "daemon/server.h"

/* --- Certificates ----------------------------------------------------------------------------- */

static struct tn_tls_options options_of(const struct tn_server *server)
{
    const struct tn_server_config *config = &server->config;

    return (struct tn_tls_options) { .side = TN_TLS_SERVER,
                                     .scheme = "tls",
                                     .ca = config->tls_ca,
                                     .cert = config->tls_cert,
                                     .key = config->tls_key };
}

int tn_secure_open(struct tn_server *server, struct tn_text *reterr)
{
    const struct tn_server_config *config = &server->config;
    struct tn_tls_options options = options_of(server);

    if (config->tls_ca == NULL && config->tls_cert == NULL && config->tls_key == NULL)
        return 0;
    if (config->tls_ca == NULL || config->tls_cert == NULL || config->tls_key == NULL) {
        tn_text_add(reterr, "--tls-cert, --tls-key and --tls-ca go together");
        return TENURE_E_INVALID;
    }
    return tn_tls_context_new(&server->tls, &options, reterr);
}

void tn_secure_reload(struct tn_server *server)
{
    struct tn_tls_options options = options_of(server);
    struct tn_tls_context *fresh;
    char line[450];
    struct tn_text err;

    if (server->tls == NULL)
        return;
    tn_text_init(&err, line, sizeof line);
    if (tn_tls_context_new(&fresh, &options, &err) != 0) {
        tn_log("%s; the certificates stay as they were", line);
        return;
    }
    tn_tls_context_free(server->tls);
    server->tls = fresh;
    tn_log_info("%s: read again", server->config.tls_cert);
}

/* --- A connection ----------------------------------------------------------------------------- */

bool tn_secure_accept(struct tn_conn *conn)
{
    conn->tls = tn_tls_new(conn->server->tls, NULL);
    return conn->tls != NULL;
}

/* What TLS itself has to say. It holds nothing that waits for a flush: replies are encrypted only
 * when they may be sent. */
static void send_own(struct tn_conn *conn)
{
    uint8_t bytes[4096];
    size_t len;

    while (conn->state != TN_CONN_CLOSED && (len = tn_tls_pull(conn->tls, bytes, sizeof bytes)) > 0)
        tn_conn_write(conn, (const char *)bytes, len);
}

static void say_failed(struct tn_conn *conn)
{
    struct tn_server *server = conn->server;
    const char *why = tn_tls_error(conn->tls);
    char shown[200];
    struct tn_text text;

    tn_metrics_refused(server, "DENIED");
    if (!tn_log_due(server, TN_SAID_TLS))
        return;
    tn_text_init(&text, shown, sizeof shown);
    tn_text_escape(&text, why, strlen(why));
    tn_log("connection %llu: no TLS: %s", (unsigned long long)conn->id, shown);
}

static void greet(struct tn_conn *conn)
{
    char name[TN_USER_MAX + 1];

    conn->secured = true;
    conn->partial_since = 0;
    if (tn_tls_principal(conn->tls, name, sizeof name) == 0)
        memcpy(conn->user, name, strlen(name) + 1);
}

void tn_secure_received(struct tn_conn *conn, const char *bytes, size_t len)
{
    enum tn_tls_state state = tn_tls_feed(conn->tls, (const uint8_t *)bytes, len);
    uv_buf_t room;
    ssize_t n = 0;

    send_own(conn);
    if (conn->state == TN_CONN_CLOSED)
        return;
    if (state == TN_TLS_FAILED) {
        say_failed(conn);
        tn_conn_close(conn);
        return;
    }
    if (state == TN_TLS_UP && !conn->secured)
        greet(conn);
    while (state == TN_TLS_UP && conn->state != TN_CONN_CLOSED) {
        tn_conn_room_in(conn, conn->server->clear_buf, &room);
        n = room.len > 0 ? tn_tls_read(conn->tls, (uint8_t *)room.base, room.len) : -1;
        if (n <= 0)
            break;
        tn_conn_take(conn, room.base, (size_t)n);
    }
    if (n < 0 && conn->state != TN_CONN_CLOSED)
        tn_conn_close(conn);
}

void tn_secure_send(struct tn_conn *conn, const char *bytes, size_t len)
{
    if (tn_tls_write(conn->tls, (const uint8_t *)bytes, len) != 0)
        tn_conn_close(conn);
    else
        send_own(conn);
}
