/* http.c - HTTP: libmicrohttpd on the daemon's own loop, who asks, and what is refused at the door.
 *
 * Its epoll descriptor is one of the loop's, and it is let run at the start of a turn, as if what
 * it has read had just arrived on a socket of ours. A request is suspended until its reply has
 * passed the flush; http.h has the plan.
 *
 * Browsers are kept out of other people's pages: whoever writes must say application/json, which a
 * page from elsewhere may not without asking first, and is never told that it may; and the names in
 * Host and Origin must be this machine's own, so that no name on the net can be turned to here. */
#define _GNU_SOURCE
#include "daemon/http.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/assert.h"

enum { TOO_LARGE = 413 };

typedef enum MHD_Result result_t;

/* --- Answers ---------------------------------------------------------------------------------- */

bool tn_body_room(struct tn_body *body, size_t len, size_t most)
{
    size_t size = body->size > 0 ? body->size : 1024;

    if (body->failed || len > most || body->len > most - len) {
        body->failed = true;
        return false;
    }
    while (size - body->len < len)
        size *= 2;
    if (size > body->size) {
        char *larger = realloc(body->bytes, size);
        body->failed = larger == NULL;
        if (larger == NULL)
            return false;
        body->bytes = larger;
        body->size = size;
    }
    return true;
}

void tn_http_answer(struct tn_http_request *request, unsigned status, const char *type,
                    const char *text, size_t len)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);

    TN_ASSERT(request->response == NULL);
    request->answered = true;
    request->status = status;
    request->response = response;
    if (response == NULL)
        return;
    (void)MHD_add_response_header(response, "Content-Type", type);
    (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    if (status == MHD_HTTP_UNAUTHORIZED) {
        (void)MHD_add_response_header(response, "WWW-Authenticate", "Basic realm=\"tenured\"");
        (void)MHD_add_response_header(response, "Connection", "close"); /* Guessing costs. */
    }
}

void tn_http_refuse(struct tn_http_request *request, unsigned status, const char *word,
                    const char *message)
{
    char buf[1024];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf - 1);
    tn_text_addf(&text, "{\"error\":\"%s\",\"message\":", word);
    tn_json_string(&text, message, strlen(message));
    tn_text_add(&text, "}\n");
    tn_http_answer(request, status, "application/json", buf, text.len);
}

static void refuse_at_door(struct tn_http_request *request, unsigned status, const char *word,
                           const char *message)
{
    tn_metrics_refused(request->server, word);
    tn_http_refuse(request, status, word, message);
}

/* --- Who asks --------------------------------------------------------------------------------- */

static const char *field(const struct tn_http_request *request, const char *name)
{
    return MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, name);
}

/* "localhost", a loopback address, either with a port. */
static bool is_own_name(const char *host)
{
    struct sockaddr_storage address = { 0 };
    char with_port[80];
    const char *colon = strrchr(host, ':');
    const char *bracket = strchr(host, ']');

    if (strlen(host) >= sizeof with_port - 3)
        return false;
    bool port = colon != NULL && (bracket == NULL || colon > bracket);
    (void)snprintf(with_port, sizeof with_port, "%s%s", host, port ? "" : ":80");
    return tn_parse_address(with_port, &address) && tn_is_loopback(&address);
}

static bool is_from_here(struct tn_http_request *request)
{
    const char *host = field(request, "Host");
    const char *origin = field(request, "Origin");
    const char *site = field(request, "Sec-Fetch-Site");
    bool secure = request->server->tls != NULL; /* Then the certificate has our name. */
    const char *scheme = secure ? "https://" : "http://";
    size_t len = strlen(scheme);

    if (host != NULL && !secure && !is_own_name(host)) {
        refuse_at_door(request, MHD_HTTP_FORBIDDEN, "DENIED",
                       "Host: use localhost or the address; another name may be a trick");
        return false;
    }
    if (origin != NULL && (strncmp(origin, scheme, len) != 0 || host == NULL ||
                           strcasecmp(origin + len, host) != 0)) {
        refuse_at_door(request, MHD_HTTP_FORBIDDEN, "DENIED", "Origin: not from another site");
        return false;
    }
    if (site != NULL && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0) {
        refuse_at_door(request, MHD_HTTP_FORBIDDEN, "DENIED", "not from another site");
        return false;
    }
    return true;
}

static int socket_of(const struct tn_http_request *request)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info != NULL ? info->connect_fd : -1;
}

/* Where there is an ACL: Basic authentication, user and secret; or the name in the certificate. */
static bool name_user(struct tn_http_request *request, char user[TN_USER_MAX + 1])
{
    const struct tn_acl *acl = request->server->acl;
    char *secret = NULL;
    char *name;

    if (acl == NULL)
        return true;
    (void)snprintf(user, TN_USER_MAX + 1, "%s", tn_relay_user(request->server, socket_of(request)));
    if (user[0] != 0 && field(request, "Authorization") == NULL)
        return true;
    name = MHD_basic_auth_get_username_password(request->mhd, &secret);
    bool known = name != NULL && secret != NULL && strlen(name) <= TN_USER_MAX &&
                 tn_acl_knows(acl, name, secret, strlen(secret));
    if (known)
        (void)snprintf(user, TN_USER_MAX + 1, "%s", name);
    else
        refuse_at_door(request, MHD_HTTP_UNAUTHORIZED, name != NULL ? "DENIED" : "NOAUTH",
                       name != NULL ? "wrong user or secret" : "say who you are: user and secret");
    free(name);
    free(secret);
    return known;
}

static bool is_json(const struct tn_http_request *request)
{
    const char *type = field(request, "Content-Type");
    return type != NULL && strncasecmp(type, "application/json", 16) == 0 &&
           (type[16] == 0 || type[16] == ';' || type[16] == ' ');
}

/* --- A request's connection ------------------------------------------------------------------- */

static void peer_gone(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    tn_server_tell_time(((struct tn_conn *)poll->data)->server);
    tn_conn_close(poll->data);
}

/* The peer is watched as long as its request is with us: libmicrohttpd does not look after those
 * that are suspended, and one that waits in line must not be granted anything when it is gone. */
static bool connect_request(struct tn_http_request *request, const char *user)
{
    struct tn_conn *conn = tn_conn_make_http(request->server, socket_of(request));

    if (conn == NULL)
        return false;
    (void)snprintf(conn->user, sizeof conn->user, "%s", user);
    conn->by_secret = field(request, "Authorization") != NULL;
    conn->http = request;
    request->conn = conn;
    (void)uv_poll_start(&conn->uv.poll, UV_DISCONNECT, peer_gone);
    return true;
}

void tn_http_resume(struct tn_http_request *request)
{
    if (!request->suspended)
        return;
    request->suspended = false;
    request->server->http_waits = true;
    MHD_resume_connection(request->mhd);
}

/* What the connection has to say has passed the flush. */
void tn_http_send(struct tn_conn *conn, size_t len)
{
    struct tn_http_request *request = conn->http;

    if (conn->out.full) {
        tn_conn_close(conn);
        return;
    }
    if (len > 0) {
        if (request->streams)
            tn_events_replied(request, conn->out.buf, len);
        else if (!request->answered)
            tn_route_replied(request, conn->out.buf, len);
        conn->out.len -= len;
        if (conn->out.len > 0)
            memmove(conn->out.buf, conn->out.buf + len, conn->out.len);
    }
    if (conn->quitting && !conn->closing)
        tn_conn_close(conn);
    else if (request->answered || request->streams)
        tn_http_resume(request);
}

void tn_http_conn_closed(struct tn_conn *conn)
{
    struct tn_http_request *request = conn->http;

    conn->http = NULL;
    request->conn = NULL;
    tn_http_resume(request); /* To its end. */
}

void tn_http_sweep(struct tn_conn *conn)
{
    if (((struct tn_http_request *)conn->http)->streams)
        tn_events_sweep(conn->http);
}

/* --- A request -------------------------------------------------------------------------------- */

/* The head is there. What is wrong with it is answered at once. */
static struct tn_http_request *begin(struct tn_server *server, struct MHD_Connection *mhd,
                                     const char *url, const char *method)
{
    struct tn_http_request *request = calloc(1, sizeof *request);
    char user[TN_USER_MAX + 1] = "";

    if (request == NULL)
        return NULL;
    request->server = server;
    request->mhd = mhd;
    request->route = tn_route_find(request, method, url);
    if (request->route == NULL || tn_route_is_open(request->route) || !is_from_here(request) ||
        !name_user(request, user))
        return request;
    if (strcmp(method, "POST") == 0 && !is_json(request))
        refuse_at_door(request, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "ERR",
                       "Content-Type must be application/json");
    else if (!connect_request(request, user))
        refuse_at_door(request, MHD_HTTP_SERVICE_UNAVAILABLE, "UNAVAILABLE", "no memory");
    return request;
}

static result_t queue_answer(struct tn_http_request *request)
{
    return request->response != NULL
               ? MHD_queue_response(request->mhd, request->status, request->response)
               : MHD_NO;
}

/* The body is there. Most requests are a command, and wait for its reply. */
static result_t run_request(struct tn_http_request *request)
{
    struct tn_server *server = request->server;
    uint32_t count = 0;

    if (request->body.failed)
        refuse_at_door(request, TOO_LARGE, "FULL", "a body has at most 65536 bytes");
    else
        count = tn_route_words(request, server->words);
    if (request->answered)
        return queue_answer(request);
    request->suspended = true;
    MHD_suspend_connection(request->mhd);
    tn_server_tell_time(server);
    tn_command(request->conn, count);
    return MHD_YES;
}

static result_t handle(void *arg, struct MHD_Connection *mhd, const char *url, const char *method,
                       const char *version, const char *data, size_t *data_len, void **state)
{
    struct tn_http_request *request = *state;

    (void)version;
    if (request == NULL) {
        request = *state = begin(arg, mhd, url, method);
        if (request == NULL)
            return MHD_NO;
        return request->answered ? queue_answer(request) : MHD_YES;
    }
    if (*data_len > 0) {
        struct tn_body *body = &request->body;
        if (tn_body_room(body, *data_len, TN_BODY_MAX)) {
            memcpy(body->bytes + body->len, data, *data_len);
            body->len += *data_len;
        }
        *data_len = 0;
        return MHD_YES;
    }
    if (request->answered)
        return queue_answer(request);
    if (request->conn == NULL && !tn_route_is_open(request->route))
        return MHD_NO; /* The peer is gone, or the daemon ends. */
    return run_request(request);
}

static void completed(void *arg, struct MHD_Connection *mhd, void **state,
                      enum MHD_RequestTerminationCode why)
{
    struct tn_http_request *request = *state;

    (void)arg;
    (void)mhd;
    (void)why;
    if (request == NULL)
        return;
    request->suspended = false;
    if (request->conn != NULL)
        tn_conn_close(request->conn);
    if (request->response != NULL)
        MHD_destroy_response(request->response);
    free(request->body.bytes);
    free(request);
    *state = NULL;
}

/* --- On the loop ------------------------------------------------------------------------------ */

static void readable(uv_poll_t *poll, int status, int events)
{
    struct tn_server *server = poll->data;

    (void)status;
    (void)events;
    server->http_waits = true; /* The turn that follows lets it run. */
}

static void time_over(uv_timer_t *timer)
{
    struct tn_server *server = timer->data;
    server->http_waits = true;
}

void tn_http_run(struct tn_server *server)
{
    MHD_UNSIGNED_LONG_LONG ms;

    if (server->http == NULL || !server->http_waits)
        return;
    server->http_waits = false;
    (void)MHD_run(server->http);
    if (MHD_get_timeout(server->http, &ms) != MHD_YES) {
        (void)uv_timer_stop(&server->http_timer);
        return;
    }
    server->http_waits = server->http_waits || ms == 0;
    if (ms > 0)
        (void)uv_timer_start(&server->http_timer, time_over, ms, 0);
}

static int listen_http(struct tn_server *server, struct sockaddr_storage *address)
{
    unsigned most = server->config.conns_max / 4;
    unsigned how = server->tls != NULL              ? MHD_USE_NO_LISTEN_SOCKET
                   : address->ss_family == AF_INET6 ? MHD_USE_IPv6
                                                    : 0;
    const union MHD_DaemonInfo *info = NULL;

    most = most < 8 ? 8 : most > 1024 ? 1024 : most;
    server->http = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | how, 0, NULL, NULL, handle, server,
        MHD_OPTION_SOCK_ADDR, (struct sockaddr *)address, MHD_OPTION_CONNECTION_TIMEOUT, 30u,
        MHD_OPTION_CONNECTION_LIMIT, most, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)16 * 1024,
        MHD_OPTION_NOTIFY_COMPLETED, completed, server, MHD_OPTION_END);
    if (server->http != NULL)
        info = MHD_get_daemon_info(server->http, MHD_DAEMON_INFO_EPOLL_FD);
    if (info == NULL || uv_poll_init(&server->loop, &server->http_poll, info->epoll_fd) != 0)
        return TENURE_E_UNAVAILABLE;
    (void)uv_timer_init(&server->loop, &server->http_timer);
    server->http_timer.data = server->http_poll.data = server;
    (void)uv_poll_start(&server->http_poll, UV_READABLE, readable);
    return 0;
}

/* With TLS the socket is ours, and what comes is passed on. */
static int listen_secure(struct tn_server *server, const char *where, struct tn_text *reterr)
{
    char url[80];

    (void)snprintf(url, sizeof url, "tcp:%s", where);
    int rc = tn_listen(server, url, reterr);
    if (rc == 0)
        server->listeners[server->listener_count - 1].http = true;
    return rc;
}

int tn_http_open(struct tn_server *server, const char *where, struct tn_text *reterr)
{
    struct sockaddr_storage address = { 0 };

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
    if (listen_http(server, &address) != 0) {
        tn_text_addf(reterr, "--http %s: cannot listen there", where);
        tn_http_close(server);
        return TENURE_E_UNAVAILABLE;
    }
    if (server->tls != NULL)
        return listen_secure(server, where, reterr);
    tn_listen_warn(server, where);
    return 0;
}

int tn_http_port(const struct tn_server *server)
{
    for (uint32_t i = 0; i < server->listener_count; i++)
        if (server->listeners[i].http)
            return tn_listener_port(&server->listeners[i]);
    const union MHD_DaemonInfo *info =
        server->http != NULL ? MHD_get_daemon_info(server->http, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    return info != NULL ? info->port : 0;
}

void tn_http_quiesce(struct tn_server *server)
{
    MHD_socket listener = server->http != NULL ? MHD_quiesce_daemon(server->http) : -1;
    if (listener >= 0)
        (void)close(listener);
}

/* All connections of requests are closed already, so none is suspended. */
void tn_http_close(struct tn_server *server)
{
    if (server->http == NULL)
        return;
    (void)MHD_run(server->http);
    MHD_stop_daemon(server->http);
    server->http = NULL;
}
