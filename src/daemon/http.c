/* http.c - HTTP for people and machines that watch: health, metrics, and who holds what as JSON.
 *
 * libmicrohttpd runs on the daemon's own loop: its epoll descriptor is one of the loop's, and it is
 * let run at the end of a turn, when everything that the tables say is on disk. So what is read
 * here is as true as a reply to a command. It only reads; leases are taken over RESP. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/time.h"
#include "daemon/server.h"

#define PAGE_MAX 1000
#define LEASE_TEXT 1200 /* One lease as JSON, names and labels escaped at worst. */

typedef enum MHD_Result result_t;

/* --- Answers ---------------------------------------------------------------------------------- */

static result_t answer(struct MHD_Connection *conn, unsigned status, const char *type, char *body,
                       size_t len)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(len, body, MHD_RESPMEM_MUST_COPY);

    if (response == NULL)
        return MHD_NO;
    (void)MHD_add_response_header(response, "Content-Type", type);
    (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    if (status == MHD_HTTP_UNAUTHORIZED)
        (void)MHD_add_response_header(response, "WWW-Authenticate", "Basic realm=\"tenured\"");
    result_t rc = MHD_queue_response(conn, status, response);
    MHD_destroy_response(response);
    return rc;
}

static result_t answer_line(struct MHD_Connection *conn, unsigned status, const char *line)
{
    char body[200];
    int len = snprintf(body, sizeof body, "%s\n", line);
    return answer(conn, status, "text/plain; charset=utf-8", body, len > 0 ? (size_t)len : 0);
}

/* Who asks, where there is an ACL: HTTP's Basic authentication, user and secret. */
static bool name_user(const struct tn_server *server, struct MHD_Connection *conn,
                      char user[TN_USER_MAX + 1])
{
    char *secret = NULL;
    char *name = MHD_basic_auth_get_username_password(conn, &secret);
    bool known = name != NULL && secret != NULL && strlen(name) <= TN_USER_MAX &&
                 tn_acl_knows(server->acl, name, secret, strlen(secret));

    if (known)
        (void)snprintf(user, TN_USER_MAX + 1, "%s", name);
    free(name);
    free(secret);
    return known;
}

/* --- Metrics ---------------------------------------------------------------------------------- */

static void add_metric(struct tn_text *text, const char *name, const char *type, const char *help,
                       uint64_t value)
{
    tn_text_addf(text, "# HELP tenured_%s %s\n# TYPE tenured_%s %s\ntenured_%s %" PRIu64 "\n", name,
                 help, name, type, name, value);
}

static void add_flushes(struct tn_text *text, const struct tn_server *server)
{
    static const char name[] = "tenured_journal_flush_seconds";
    uint64_t sum = 0;

    tn_text_addf(text, "# HELP %s Time that a write and flush took.\n# TYPE %s histogram\n", name,
                 name);
    for (int i = 0; i < TN_FLUSH_BUCKETS; i++) {
        sum += server->flush_times[i];
        if (i + 1 < TN_FLUSH_BUCKETS)
            tn_text_addf(text, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name,
                         (double)(UINT64_C(100) << i) / 1e6, sum);
    }
    tn_text_addf(text, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %g\n%s_count %" PRIu64 "\n",
                 name, sum, name, (double)server->flush_ns / 1e9, name, sum);
}

static result_t metrics(struct tn_server *server, struct MHD_Connection *conn)
{
    struct tn_table_counts counts;
    char buf[8192];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_table_count(server->state.table, &counts);
    add_metric(&text, "sessions", "gauge", "Sessions that live.", counts.sessions);
    add_metric(&text, "names", "gauge", "Names held or remembered.", counts.leases);
    add_metric(&text, "waiters", "gauge", "Acquires that wait in line.", counts.waiters);
    add_metric(&text, "fences", "gauge", "Resources with a fence.", server->state.fences.count);
    add_metric(&text, "highest_token", "gauge", "The highest token granted.",
               tn_table_token(server->state.table));
    add_metric(&text, "connections", "gauge", "Connections.", server->conn_count);
    add_metric(&text, "watches", "gauge", "Watches.", server->watch_count);
    add_metric(&text, "connections_total", "counter", "Connections since the start.",
               server->next_id);
    add_metric(&text, "commands_total", "counter", "Commands.", server->count.commands);
    add_metric(&text, "grants_total", "counter", "Leases granted.", server->count.grants);
    add_metric(&text, "renewals_total", "counter", "Sessions renewed, or tried to.",
               server->count.renewals);
    add_metric(&text, "refusals_total", "counter", "Commands answered with an error.",
               server->count.refusals);
    add_metric(&text, "sessions_ended_total", "counter",
               "Sessions that ended by time or with their process.", server->count.expired);
    add_metric(&text, "journal_bytes", "gauge", "Journal since the last snapshot.",
               server->journal.grown_bytes);
    add_metric(&text, "disk_full", "gauge", "1: nothing is granted, for want of room.",
               server->journal.disk_full);
    add_flushes(&text, server);
    return answer(conn, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", buf, text.len);
}

/* --- Leases ----------------------------------------------------------------------------------- */

/* The fields of `tenure status --json`. */
static void add_lease(struct tn_text *text, const struct tn_lease_view *view, const char *name,
                      size_t name_len)
{
    bool held = view->session != NULL;

    tn_text_add(text, "{\"name\":");
    tn_json_string(text, name, name_len);
    tn_text_addf(text, ",\"state\":\"%s\",\"holder\":", held ? "held" : "free");
    if (held)
        tn_json_string(text, view->label, view->label_len);
    else
        tn_text_add(text, "null");
    tn_text_addf(text, ",\"token\":%" PRIu64 ",\"ttl_ms\":%" PRId64 ",\"remaining_ms\":%" PRId64,
                 view->token, view->ttl / TN_MS(1), view->remaining / TN_MS(1));
    tn_text_add(text, held && view->revoked ? ",\"revoked\":true}" : "}");
}

static result_t one_lease(struct tn_server *server, struct MHD_Connection *conn, const char *name)
{
    struct tn_op op = { .kind = TN_OP_READ, .name = name, .name_len = (uint32_t)strlen(name) };
    struct tn_lease_view view = { 0 };
    struct tn_result result;
    char buf[LEASE_TEXT * 2];
    struct tn_text text;

    if (tn_name_check(name, strlen(name), NULL) != 0)
        return answer_line(conn, MHD_HTTP_BAD_REQUEST, "not a name");
    tn_server_step(server, &op, &result);
    if (tn_journal_is_pending(&server->journal)) /* It ended just now, and that is not on disk. */
        return answer_line(conn, MHD_HTTP_SERVICE_UNAVAILABLE, "changing hands; ask again");
    if (result.lease != 0)
        tn_table_lease(server->state.table, result.lease, &view);
    tn_text_init(&text, buf, sizeof buf);
    add_lease(&text, &view, name, strlen(name));
    tn_text_add(&text, "\n");
    return answer(conn, MHD_HTTP_OK, "application/json", buf, text.len);
}

/* {"cursor":N,"leases":[...]}; cursor 0: that was all. */
static result_t all_leases(struct tn_server *server, struct MHD_Connection *conn, const char *user)
{
    const char *prefix = MHD_lookup_connection_value(conn, MHD_GET_ARGUMENT_KIND, "prefix");
    const char *from = MHD_lookup_connection_value(conn, MHD_GET_ARGUMENT_KIND, "cursor");
    size_t size = (size_t)PAGE_MAX * LEASE_TEXT * 2;
    char *buf = malloc(size);
    uint64_t cursor = 0;
    struct tn_text text;
    const char *comma = "";

    if (buf == NULL || (from != NULL && tn_u64_parse(from, &cursor) != 0) || cursor > UINT32_MAX) {
        free(buf);
        return answer_line(conn, MHD_HTTP_BAD_REQUEST, "cursor: give what the last page gave");
    }
    uint32_t lease = (uint32_t)cursor;
    tn_text_init(&text, buf, size);
    tn_text_add(&text, "{\"leases\":[");
    for (int i = 0; i < PAGE_MAX; i++) {
        struct tn_lease_view view;
        lease = tn_table_next(server->state.table, lease);
        if (lease == 0)
            break;
        tn_table_lease(server->state.table, lease, &view);
        if (prefix != NULL &&
            (strlen(prefix) > view.name_len || memcmp(prefix, view.name, strlen(prefix)) != 0))
            continue;
        if (user != NULL && !tn_acl_allows(server->acl, user, TN_OBSERVE, view.name, view.name_len))
            continue;
        tn_text_add(&text, comma);
        add_lease(&text, &view, view.name, view.name_len);
        comma = ",";
    }
    tn_text_addf(&text, "],\"cursor\":%u}\n", lease);
    result_t rc = answer(conn, MHD_HTTP_OK, "application/json", buf, text.len);
    free(buf);
    return rc;
}

/* --- Routes ----------------------------------------------------------------------------------- */

static result_t route(struct tn_server *server, struct MHD_Connection *conn, const char *url)
{
    char user[TN_USER_MAX + 1] = "";
    const char *name = strncmp(url, "/v1/leases/", 11) == 0 ? url + 11 : NULL;

    if (strcmp(url, "/healthz") == 0)
        return answer_line(conn, MHD_HTTP_OK, "ok");
    if (strcmp(url, "/readyz") == 0)
        return tn_journal_is_short(&server->journal)
                   ? answer_line(conn, MHD_HTTP_SERVICE_UNAVAILABLE, "the disk is full")
                   : answer_line(conn, MHD_HTTP_OK, "ok");
    if (server->acl != NULL && !name_user(server, conn, user))
        return answer_line(conn, MHD_HTTP_UNAUTHORIZED, "say who you are: user and secret");
    if (server->acl != NULL &&
        !(name != NULL ? tn_acl_allows(server->acl, user, TN_OBSERVE, name, strlen(name))
                       : tn_acl_allows_some(server->acl, user, TN_OBSERVE)))
        return answer_line(conn, MHD_HTTP_FORBIDDEN, "the user has no right to observe this");
    if (strcmp(url, "/metrics") == 0)
        return metrics(server, conn);
    if (strcmp(url, "/v1/leases") == 0)
        return all_leases(server, conn, server->acl != NULL ? user : NULL);
    if (name != NULL)
        return one_lease(server, conn, name);
    return answer_line(conn, MHD_HTTP_NOT_FOUND, "there is no such page");
}

static result_t handle(void *arg, struct MHD_Connection *conn, const char *url, const char *method,
                       const char *version, const char *data, size_t *data_len, void **state)
{
    static int begun;

    (void)version;
    (void)data;
    if (*state == NULL) { /* The head is there; a body may follow. */
        *state = &begun;
        return MHD_YES;
    }
    if (*data_len > 0) {
        *data_len = 0;
        return MHD_YES;
    }
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return answer_line(conn, MHD_HTTP_METHOD_NOT_ALLOWED, "GET only; leases are taken by RESP");
    return route(arg, conn, url);
}

/* --- On the loop ------------------------------------------------------------------------------ */

static void readable(uv_poll_t *poll, int status, int events)
{
    struct tn_server *server = poll->data;

    (void)status;
    (void)events;
    server->http_waits = true; /* The turn that follows lets it run. */
    (void)uv_poll_stop(poll);
}

void tn_http_run(struct tn_server *server)
{
    if (server->http == NULL || !server->http_waits)
        return;
    server->http_waits = false;
    (void)MHD_run(server->http);
    (void)uv_poll_start(&server->http_poll, UV_READABLE, readable);
}

int tn_http_open(struct tn_server *server, const char *where, struct tn_text *reterr)
{
    struct sockaddr_storage address = { 0 };
    const union MHD_DaemonInfo *info;

    if (!tn_parse_address(where, &address)) {
        tn_text_addf(reterr, "--http %s: give ADDRESS:PORT, as 127.0.0.1:7421", where);
        return TENURE_E_INVALID;
    }
    if (!tn_is_loopback(&address)) {
        tn_text_addf(reterr, "--http %s: only a loopback address: there is no TLS yet", where);
        return TENURE_E_DENIED;
    }
    server->http = MHD_start_daemon(
        MHD_USE_EPOLL | (address.ss_family == AF_INET6 ? MHD_USE_IPv6 : 0), 0, NULL, NULL, handle,
        server, MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_CONNECTION_TIMEOUT,
        30u, MHD_OPTION_CONNECTION_LIMIT, 64u, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)16 * 1024, MHD_OPTION_END);
    info =
        server->http != NULL ? MHD_get_daemon_info(server->http, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (info == NULL || uv_poll_init(&server->loop, &server->http_poll, info->epoll_fd) != 0) {
        tn_text_addf(reterr, "--http %s: cannot listen there", where);
        tn_http_close(server);
        return TENURE_E_UNAVAILABLE;
    }
    server->http_poll.data = server;
    (void)uv_poll_start(&server->http_poll, UV_READABLE, readable);
    if (server->acl == NULL)
        tn_log("warning: --http %s shows all leases to every user of this machine", where);
    return 0;
}

int tn_http_port(const struct tn_server *server)
{
    const union MHD_DaemonInfo *info =
        server->http != NULL ? MHD_get_daemon_info(server->http, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    return info != NULL ? info->port : 0;
}

void tn_http_close(struct tn_server *server)
{
    if (server->http != NULL)
        MHD_stop_daemon(server->http);
    server->http = NULL;
}
