/* http.c - HTTP on the daemon's own connections: who asks, and what is refused at the door.
 *
 * The sockets, TLS and the limits are those of RESP (conn.c, secure.c, peer.c); http/conn.c makes
 * requests of the bytes. A request is answered when its reply has passed the flush; http.h has the
 * plan. Commands are carried out only in that part of a turn that goes before the flush: a request
 * that was sent together with the one before it waits for the next turn (tn_httpd_later).
 *
 * Browsers are kept out of other people's pages: whoever writes must say application/json, which a
 * page from elsewhere may not without asking first, and is never told that it may; and the names in
 * Host and Origin must be this machine's own (http/own_host.h). */
#define _GNU_SOURCE
#include "daemon/http.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "base/base64.h"
#include "base/time.h"
#include "http/own_host.h"

#define IDLE TN_SEC(30) /* A peer without a request, or one that does not take its answer. */
#define NEW TN_SEC(1)   /* So long a silent connection is not idle. */

/* --- Answers ---------------------------------------------------------------------------------- */

static void write_error(struct tn_text *text, const char *word, const char *message)
{
    tn_text_addf(text, "{\"error\":\"%s\",\"message\":", word);
    tn_json_string(text, message, strlen(message));
    tn_text_add(text, "}\n");
}

void tn_http_answer(struct tn_http_request *request, unsigned status, const char *type,
                    const char *text, size_t len)
{
    char fields[1024] = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";
    const struct tn_http_response answer = {
        .status = status, .type = type, .fields = fields, .body = text, .len = len
    };
    size_t used = strlen(fields);

    TN_ASSERT(request->state == TN_REQUEST_ASKED);
    request->state = TN_REQUEST_OVER;
    if (request->web == NULL)
        return;
    if (status == TN_STATUS_UNAUTHORIZED) {
        request->fields = "WWW-Authenticate: Basic realm=\"tenured\"\r\n";
        request->web->http.keep_alive = false; /* Guessing costs. */
    }
    if (request->fields != NULL)
        (void)snprintf(fields + used, sizeof fields - used, "%s", request->fields);
    tn_http_conn_answer(&request->web->http, &answer);
}

void tn_http_refuse(struct tn_http_request *request, unsigned status, const char *word,
                    const char *message)
{
    char buf[1024];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf - 1);
    write_error(&text, word, message);
    tn_http_answer(request, status, "application/json", buf, text.len);
}

static void refuse_at_door(struct tn_http_request *request, unsigned status, const char *word,
                           const char *message)
{
    tn_metrics_refused(request->server, word);
    tn_http_refuse(request, status, word, message);
}

/* --- Who asks --------------------------------------------------------------------------------- */

static bool is_from_here(struct tn_http_request *request)
{
    const char *why =
        tn_own_request(request->head, request->server->tls != NULL, request->file != NULL);

    if (why != NULL)
        refuse_at_door(request, TN_STATUS_FORBIDDEN, "DENIED", why);
    return why == NULL;
}

/* Basic authentication: USER:SECRET in base64. NULL: there is none. To be freed. */
static char *read_basic(const struct tn_http_request *request, const char **ret_secret)
{
    const struct tn_http_slice *field = tn_http_field(request->head, "authorization", NULL);
    size_t len;

    if (field == NULL || field->len < 6 || strncasecmp(field->bytes, "basic ", 6) != 0)
        return NULL;
    char *pair = tn_base64_decode(field->bytes + 6, field->len - 6, &len);
    char *colon = pair != NULL && strlen(pair) == len ? strchr(pair, ':') : NULL;
    if (colon == NULL) {
        free(pair);
        return NULL;
    }
    *colon = '\0';
    *ret_secret = colon + 1;
    return pair;
}

/* Where there is an ACL: Basic authentication, user and secret; or the name in the certificate. */
static bool name_user(struct tn_http_request *request, char user[TN_USER_MAX + 1])
{
    const struct tn_acl *acl = request->server->acl;
    const char *secret = NULL;

    if (acl == NULL)
        return true;
    (void)snprintf(user, TN_USER_MAX + 1, "%s", request->web->conn->user);
    if (user[0] != 0 && tn_http_field(request->head, "authorization", NULL) == NULL)
        return true;
    char *name = read_basic(request, &secret);
    bool known = name != NULL && strlen(name) <= TN_USER_MAX &&
                 tn_acl_knows(acl, name, secret, strlen(secret));
    if (known)
        (void)snprintf(user, TN_USER_MAX + 1, "%s", name);
    else
        refuse_at_door(request, TN_STATUS_UNAUTHORIZED, name != NULL ? "DENIED" : "NOAUTH",
                       name != NULL ? "wrong user or secret" : "say who you are: user and secret");
    free(name);
    return known;
}

static bool is_json(const struct tn_http_request *request)
{
    const struct tn_http_slice *type = tn_http_field(request->head, "content-type", NULL);

    return type != NULL && type->len >= 16 &&
           strncasecmp(type->bytes, "application/json", 16) == 0 &&
           (type->len == 16 || type->bytes[16] == ';' || type->bytes[16] == ' ');
}

static bool is_post(const struct tn_http_head *head)
{
    return head->method.len == 4 && memcmp(head->method.bytes, "POST", 4) == 0;
}

/* --- A request -------------------------------------------------------------------------------- */

/* The caller has no use for it any more: it goes if it is over. */
static void let_go(struct tn_http_request *request)
{
    struct tn_conn *conn = request->conn;

    request->in_use = false;
    if (request->state != TN_REQUEST_OVER)
        return;
    if (request->web != NULL)
        request->web->request = NULL;
    request->web = NULL;
    if (conn != NULL) {
        conn->http = NULL;
        tn_conn_close(conn);
    }
    tn_http_target_free(&request->target);
    free(request->events.bytes);
    free(request);
}

/* The connection that carries the command out has no socket: the peer's is its web's. */
static bool connect_request(struct tn_http_request *request, const char *user)
{
    struct tn_conn *conn = tn_conn_make_http(request->server);

    if (conn == NULL)
        return false;
    (void)snprintf(conn->user, sizeof conn->user, "%s", user);
    conn->by_secret = tn_http_field(request->head, "authorization", NULL) != NULL;
    conn->http = request;
    request->conn = conn;
    return true;
}

/* What is wrong with the head is answered at once. */
static bool pass_door(struct tn_http_request *request)
{
    char user[TN_USER_MAX + 1] = "";
    int rc = tn_http_target_read(&request->target, &request->head->target);

    if (rc != 0) {
        refuse_at_door(request, TN_STATUS_BAD_REQUEST, "ERR", "the path is not well-formed");
        return false;
    }
    request->route = tn_route_find(request);
    if (request->route == NULL)
        return false;
    if (tn_route_is_open(request->route))
        return true;
    if (!is_from_here(request) || !name_user(request, user))
        return false;
    if (is_post(request->head) && !is_json(request)) {
        refuse_at_door(request, TN_STATUS_UNSUPPORTED_MEDIA_TYPE, "ERR",
                       "Content-Type must be application/json");
        return false;
    }
    if (connect_request(request, user))
        return true;
    refuse_at_door(request, TN_STATUS_SERVICE_UNAVAILABLE, "UNAVAILABLE", "no memory");
    return false;
}

/* Most requests are a command, and wait for its reply. */
static void serve_request(struct tn_http_conn *http, const struct tn_http_head *head)
{
    struct tn_httpd *web = (struct tn_httpd *)http;
    struct tn_server *server = web->conn->server;
    struct tn_http_request *request = calloc(1, sizeof *request);
    uint32_t count = 0;

    web->conn->spoke = true;
    if (request == NULL) {
        tn_conn_close(web->conn);
        return;
    }
    request->server = server;
    request->web = web;
    request->head = head;
    request->in_use = true;
    web->request = request;
    if (pass_door(request))
        count = tn_route_words(request, server->words);
    if (request->state == TN_REQUEST_ASKED)
        tn_command(request->conn, count);
    request->head = NULL;
    let_go(request);
}

static void refuse_bytes(struct tn_http_conn *http, unsigned status, const char *why)
{
    struct tn_httpd *web = (struct tn_httpd *)http;
    char buf[256];
    struct tn_text text;
    bool full = status == TN_STATUS_TOO_LARGE;

    tn_text_init(&text, buf, sizeof buf);
    tn_metrics_refused(web->conn->server, full ? "FULL" : "ERR");
    write_error(&text, full ? "FULL" : "ERR", full ? "a body has at most 65536 bytes" : why);
    tn_http_conn_answer(http, &(struct tn_http_response) { .status = status,
                                                           .type = "application/json",
                                                           .fields = "Cache-Control: no-store\r\n",
                                                           .body = buf,
                                                           .len = text.len });
}

/* --- Events ----------------------------------------------------------------------------------- */

void tn_http_push(struct tn_http_request *request)
{
    struct tn_httpd *web = request->web;
    struct tn_growing *events = &request->events;

    if (web == NULL || !tn_http_conn_is_drained(&web->http))
        return;
    if (events->len > 0) {
        size_t len = events->len;
        events->len = 0;
        request->silence = 0;
        tn_http_conn_chunk(&web->http, events->bytes, len);
    }
    if (request->state == TN_REQUEST_LISTING && request->web != NULL &&
        tn_http_conn_is_drained(&web->http))
        tn_httpd_later(&web->http);
}

static void push_more(struct tn_http_conn *http)
{
    struct tn_http_request *request = ((struct tn_httpd *)http)->request;

    if (request == NULL)
        return;
    request->in_use = true;
    tn_http_push(request);
    let_go(request);
}

static const struct tn_http_service service = { TN_BODY_MAX, serve_request, refuse_bytes,
                                                push_more };

/* --- A request's connection ------------------------------------------------------------------- */

/* What the connection has to say has passed the flush. */
void tn_http_send(struct tn_conn *conn, size_t len)
{
    struct tn_http_request *request = conn->http;

    if (conn->out.full) {
        tn_conn_close(conn);
        return;
    }
    request->in_use = true;
    if (len > 0) {
        if (request->state == TN_REQUEST_ASKED)
            tn_route_replied(request, conn->out.buf, len);
        else
            tn_events_replied(request, conn->out.buf, len);
        conn->out.len -= len;
        if (conn->out.len > 0)
            memmove(conn->out.buf, conn->out.buf + len, conn->out.len);
    }
    if (request->state != TN_REQUEST_ASKED && request->state != TN_REQUEST_OVER)
        tn_http_push(request);
    if (conn->state != TN_CONN_SERVED)
        tn_conn_close(conn);
    let_go(request);
}

/* By itself: a right was taken away, its reader is too slow, or the daemon ends. */
void tn_http_conn_closed(struct tn_conn *conn)
{
    struct tn_http_request *request = conn->http;
    enum tn_request_state before = request->state;
    bool in_use = request->in_use;

    conn->http = NULL;
    request->conn = NULL;
    request->state = TN_REQUEST_OVER;
    request->in_use = true;
    if (request->web != NULL && before != TN_REQUEST_OVER) {
        if (before == TN_REQUEST_ASKED || request->events.failed)
            tn_conn_close(request->web->conn); /* Without an answer, or its end. */
        else
            tn_http_conn_finish(&request->web->http);
    }
    if (!in_use)
        let_go(request);
}

void tn_http_sweep(struct tn_conn *conn)
{
    struct tn_http_request *request = conn->http;

    if (request->state == TN_REQUEST_ASKED)
        return;
    request->in_use = true;
    tn_events_sweep(request);
    let_go(request);
}

/* --- A connection ----------------------------------------------------------------------------- */

static bool send_bytes(struct tn_http_conn *http, const char *bytes, size_t len)
{
    struct tn_conn *conn = ((struct tn_httpd *)http)->conn;

    if (conn->state == TN_CONN_CLOSED)
        return true;
    if (conn->tls != NULL)
        tn_secure_send(conn, bytes, len);
    else
        tn_conn_write(conn, bytes, len);
    return conn->state == TN_CONN_CLOSED || conn->writing == 0;
}

static void pause_peer(struct tn_http_conn *http, bool pause)
{
    struct tn_conn *conn = ((struct tn_httpd *)http)->conn;

    if (pause)
        (void)uv_read_stop(&conn->uv.stream);
    else if (conn->state != TN_CONN_CLOSED)
        tn_conn_listen(conn);
}

static void end_peer(struct tn_http_conn *http)
{
    struct tn_conn *conn = ((struct tn_httpd *)http)->conn;

    tn_conn_fail(conn);
    tn_conn_touch(conn);
}

void tn_httpd_later(struct tn_http_conn *http)
{
    struct tn_httpd *web = (struct tn_httpd *)http;
    struct tn_server *server = web->conn->server;

    if (web->is_later)
        return;
    web->is_later = true;
    web->later_next = server->webs_later;
    server->webs_later = web;
}

static const struct tn_http_transport transport = { send_bytes, pause_peer, end_peer,
                                                    tn_httpd_later };

bool tn_httpd_open(struct tn_conn *conn)
{
    struct tn_httpd *web = calloc(1, sizeof *web);

    if (web == NULL)
        return false;
    tn_http_conn_init(&web->http, &service, &transport, &conn->server->http_head);
    web->conn = conn;
    conn->web = web;
    conn->server->web_count++;
    return true;
}

void tn_httpd_take(struct tn_conn *conn, const char *bytes, size_t len)
{
    struct tn_http_conn *http = &conn->web->http;

    if (!tn_http_conn_take(http, bytes, len)) {
        tn_conn_close(conn);
        return;
    }
    if (!tn_http_conn_is_partial(http))
        conn->partial_since = 0;
    else if (conn->partial_since == 0)
        conn->partial_since = conn->server->now;
}

void tn_httpd_sent(struct tn_conn *conn)
{
    tn_http_conn_sent(&conn->web->http);
}

bool tn_httpd_is_idle(const struct tn_conn *conn, tenure_ns silence)
{
    enum tn_http_conn_state state = conn->web->http.state;

    return state != TN_HTTP_SERVING && state != TN_HTTP_STREAMING && silence > IDLE;
}

void tn_httpd_closed(struct tn_conn *conn)
{
    struct tn_httpd *web = conn->web;
    struct tn_http_request *request = web->request;
    struct tn_httpd **at = &conn->server->webs_later;

    tn_http_conn_gone(&web->http);
    conn->server->web_count--;
    while (web->is_later && *at != web)
        at = &(*at)->later_next;
    if (web->is_later)
        *at = web->later_next;
    web->request = NULL;
    if (request == NULL)
        return;
    request->web = NULL;
    request->state = TN_REQUEST_OVER;
    if (!request->in_use)
        let_go(request);
}

void tn_httpd_free(struct tn_conn *conn)
{
    tn_http_conn_free(&conn->web->http);
    free(conn->web);
}

void tn_httpd_drain(struct tn_conn *conn)
{
    struct tn_http_conn *http = &conn->web->http;

    http->keep_alive = false;
    if (http->state == TN_HTTP_READING)
        tn_conn_close(conn);
}

/* The longest silent connection without a request makes room for a new one. */
bool tn_httpd_make_room(struct tn_server *server)
{
    uint32_t most = server->config.conns_max / 4;
    struct tn_conn *oldest = NULL;

    most = most < 8 ? 8 : most > 1024 ? 1024 : most;
    if (server->web_count <= most)
        return true;
    for (struct tn_conn *conn = server->conns; conn != NULL; conn = conn->next)
        if (conn->web != NULL && conn->web->http.state == TN_HTTP_READING && conn->heard == NULL &&
            conn->called == NULL && (oldest == NULL || conn->heard_at < oldest->heard_at))
            oldest = conn;
    if (oldest == NULL || server->now - oldest->heard_at < NEW)
        return false;
    tn_conn_close(oldest);
    return true;
}

/* --- On the loop ------------------------------------------------------------------------------ */

void tn_http_run(struct tn_server *server)
{
    struct tn_httpd *web;

    while ((web = server->webs_later) != NULL) {
        server->webs_later = web->later_next;
        web->is_later = false;
        tn_server_tell_time(server);
        if (web->http.state != TN_HTTP_STREAMING) {
            tn_http_conn_go_on(&web->http);
        } else if (web->request != NULL) {
            struct tn_http_request *request = web->request;
            request->in_use = true;
            tn_events_go_on(request);
            let_go(request);
        }
    }
}

int tn_http_open(struct tn_server *server, const char *where, struct tn_text *reterr)
{
    struct sockaddr_storage address = { 0 };
    char url[80];
    char why[200];
    struct tn_text unused;

    if (!tn_parse_address(where, &address)) {
        tn_text_addf(reterr, "--http %s: give ADDRESS:PORT, as 127.0.0.1:7421", where);
        return TENURE_E_INVALID;
    }
    if (server->tls == NULL && !tn_is_loopback(&address)) {
        tn_text_addf(reterr,
                     "--http %s: only a loopback address: beyond this machine mutual TLS is "
                     "needed; give --tls-cert, --tls-key and --tls-ca",
                     where);
        return TENURE_E_DENIED;
    }
    (void)snprintf(url, sizeof url, "tcp:%s", where);
    tn_text_init(&unused, why, sizeof why);
    int rc = tn_listen(server, url, &unused);
    if (rc == 0)
        server->listeners[server->listener_count - 1].http = true;
    else
        tn_text_addf(reterr, "--http %s: cannot listen there", where);
    return rc;
}

int tn_http_port(const struct tn_server *server)
{
    for (uint32_t i = 0; i < server->listener_count; i++)
        if (server->listeners[i].http)
            return tn_listener_port(&server->listeners[i]);
    return 0;
}
