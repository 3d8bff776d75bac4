/* console_http.c - the requests of the console's page; console.h has the contract.
 *
 * The paths and the JSON are those of tenured (docs/openapi.yaml), as far as any store can tell
 * them. They lie below /KEY/, a secret that is new for each run: other users of this machine do not
 * know it. Requests of other sites' pages are refused by Host, Origin and Sec-Fetch-Site, also
 * under a name that was turned to 127.0.0.1.
 *
 * Happy path: http/server.c runs on the console's loop. A request that needs the store is answered
 * when the store has answered; a stream of events goes on until the page or the console ends. A
 * request whose page has left lives until the store has answered. */
#define _GNU_SOURCE
#include "cli/console.h"

#ifdef TENURE_CONSOLE

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "http/own_host.h"
#include "http/server.h"
#include "http/target.h"
#include "runtime/order.h"
#include "runtime/pages.h"

/* Every user of the machine may connect. One that sends no whole request is not waited for. */
#define CONNECTIONS_MOST 256u
#define IDLE_MS 5000u
#define BODY_MOST 4096
#define STREAM_MOST (16u << 20) /* A page that lets so much wait is cut off. */
#define PAGE 250                /* Leases in one event of the beginning. */
#define LEASE_ROOM (2 * 6 * TN_NAME_MAX + 300)

struct tn_console_http {
    struct tn_http_server server;
    struct tn_console *console;
    struct tn_list requests;
};

enum request_state {
    ASKED,     /* To be answered, by the store or at once. */
    SYNCING,   /* A stream that waits until all names are known. */
    FOLLOWING, /* A stream that has them. */
    OVER,      /* Answered, or its page has left. */
};

struct page_request {
    struct tn_list_node node; /* First; of all. */
    struct tn_console_http *http;
    struct tn_http_conn *conn; /* NULL: the page has left. */
    enum request_state state;
    bool pending; /* The store has yet to answer. */
    bool in_use;  /* A caller further up the stack has it. */
    bool gone;    /* Too much waits to be sent, or there is no memory. */
    struct tn_http_target target;
    char *out; /* Of a stream, or an answer in the making. */
    size_t out_len, out_size;
    const char *at; /* What is left of the argument "names". */
    char name[TN_NAME_MAX + 1];
    struct tn_store_req req;
};

/* --- Answers -------------------------------------------------------------------------------- */

#define HEADERS                                                      \
    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n" \
    "Referrer-Policy: no-referrer\r\nContent-Security-Policy: " TN_CONSOLE_POLICY "\r\n"

/* The request is over: what happens to its connection from here on does not concern it. Returns
 * the connection; NULL: the page has left. */
static struct tn_http_conn *detach(struct page_request *request)
{
    struct tn_http_conn *conn = request->conn;

    request->state = OVER;
    request->conn = NULL;
    if (conn != NULL)
        conn->user = NULL;
    return conn;
}

static void set_answer(struct page_request *request, unsigned status, const char *type,
                       const void *bytes, size_t len, bool gzip)
{
    struct tn_http_conn *conn = detach(request);

    if (conn != NULL)
        tn_http_conn_answer(conn,
                            &(struct tn_http_response) {
                                .status = status,
                                .type = type,
                                .fields = gzip ? HEADERS "Content-Encoding: gzip\r\n" : HEADERS,
                                .body = bytes,
                                .len = len });
}

static void answer_json(struct page_request *request, unsigned status, const char *text)
{
    set_answer(request, status, "application/json", text, strlen(text), false);
}

static void refuse_request(struct page_request *request, unsigned status, const char *word,
                           const char *message)
{
    char buf[700];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf - 2);
    tn_text_addf(&text, "{\"error\":\"%s\",\"message\":", word);
    tn_json_string(&text, message, strnlen(message, 400));
    tn_text_add(&text, "}\n");
    answer_json(request, status, buf);
}

/* Room for @len more bytes. */
static char *out_room(struct page_request *request, size_t len)
{
    if (request->out_size - request->out_len < len) {
        size_t size = 2 * (request->out_len + len);
        char *larger = request->out_len + len <= STREAM_MOST ? realloc(request->out, size) : NULL;
        if (larger == NULL) {
            request->gone = true;
            return NULL;
        }
        request->out = larger;
        request->out_size = size;
    }
    return request->out + request->out_len;
}

static void out_add(struct page_request *request, const char *bytes, size_t len)
{
    char *to = out_room(request, len);

    if (to == NULL)
        return;
    memcpy(to, bytes, len);
    request->out_len += len;
}

/* Free the request, if it is over and nobody has it any more. */
static void let_go(struct page_request *request)
{
    if (request->state != OVER || request->pending || request->in_use)
        return;
    (void)detach(request);
    tn_list_remove(&request->node);
    free(request->out);
    tn_http_target_free(&request->target);
    free(request);
}

/* --- Events --------------------------------------------------------------------------------- */

/* The lease between @before and @after. */
static void stream_one(struct page_request *request, const struct tn_seen *seen, const char *before,
                       const char *after)
{
    char buf[LEASE_ROOM];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_text_add(&text, before);
    tn_console_lease(request->http->console, seen, &text);
    tn_text_add(&text, after);
    out_add(request, buf, text.len);
}

static void stream_lease(struct page_request *request, const struct tn_seen *seen)
{
    stream_one(request, seen, "event: lease\ndata: ", "\n\n");
}

static void stream_all(struct page_request *request)
{
    static const char synced[] = "event: synced\ndata: {}\n\n";
    const struct tn_dict *names = &request->http->console->names;
    const struct tn_dict_node *node = NULL;

    for (uint32_t i = 0; (node = tn_dict_next(names, node)) != NULL; i++)
        stream_one(request, (const struct tn_seen *)node,
                   i % PAGE == 0 ? "event: leases\ndata: [" : ",",
                   i % PAGE == PAGE - 1 || i + 1 == names->count ? "]\n\n" : "");
    out_add(request, synced, sizeof synced - 1);
    request->state = FOLLOWING;
}

static bool is_stream(const struct page_request *request)
{
    return request->state == SYNCING || request->state == FOLLOWING;
}

/* Send the events that are there, if those before them have left. */
static void push_events(struct page_request *request)
{
    size_t len = request->out_len;

    if (request->conn == NULL)
        return;
    if (request->gone || request->http->console->ending) {
        tn_http_conn_finish(detach(request));
        let_go(request);
    } else if (len > 0 && tn_http_conn_is_drained(request->conn)) {
        request->out_len = 0;
        tn_http_conn_chunk(request->conn, request->out, len);
    }
}

static void push_more(struct tn_http_conn *conn)
{
    if (conn->user != NULL)
        push_events(conn->user);
}

static void begin_stream(struct page_request *request)
{
    request->state = SYNCING;
    tn_http_conn_stream(request->conn, &(struct tn_http_response) { .status = TN_STATUS_OK,
                                                                    .type = "text/event-stream",
                                                                    .fields = HEADERS });
    if (request->conn == NULL || request->conn->state != TN_HTTP_STREAMING) {
        request->state = OVER; /* HEAD, or the page has left. */
        return;
    }
    if (request->http->console->synced)
        stream_all(request);
    push_events(request);
}

static struct page_request *next_request(const struct tn_console_http *http,
                                         struct page_request *request)
{
    struct tn_list_node *next = request != NULL ? request->node.next : http->requests.ends.next;
    return next != &http->requests.ends ? (struct page_request *)next : NULL;
}

void tn_console_http_changed(struct tn_console_http *http, const struct tn_seen *seen)
{
    for (struct page_request *it = next_request(http, NULL), *next; it != NULL; it = next) {
        next = next_request(http, it);
        if (it->state != FOLLOWING)
            continue;
        stream_lease(it, seen);
        push_events(it);
    }
}

void tn_console_http_synced(struct tn_console_http *http)
{
    for (struct page_request *it = next_request(http, NULL), *next; it != NULL; it = next) {
        next = next_request(http, it);
        if (it->state != SYNCING)
            continue;
        stream_all(it);
        push_events(it);
    }
}

/* A beat says that what is shown is as of now: without it the page says that it may be old. A
 * comment only shows whether the reader is still there: one that left must not keep its place. */
void tn_console_http_beat(struct tn_console_http *http)
{
    char buf[80] = ":\n\n";

    if (tn_console_is_fresh(http->console))
        (void)snprintf(buf, sizeof buf, "event: beat\ndata: {\"now\":%" PRId64 "}\n\n",
                       tn_wall_ms());
    for (struct page_request *it = next_request(http, NULL), *next; it != NULL; it = next) {
        next = next_request(http, it);
        if (!is_stream(it))
            continue;
        out_add(it, buf, strlen(buf));
        push_events(it);
    }
}

/* --- What is asked of the store ------------------------------------------------------------- */

static void finish_names(struct page_request *request)
{
    out_add(request, "]}\n", 4); /* With its zero. */
    if (request->gone)
        refuse_request(request, TN_STATUS_SERVICE_UNAVAILABLE, "UNAVAILABLE", "out of memory");
    else
        answer_json(request, TN_STATUS_OK, request->out);
}

/* The next of the names; false: there is none. */
static bool take_name(struct page_request *request)
{
    const char *why;

    while (request->at != NULL && *request->at != '\0') {
        size_t len = strcspn(request->at, ",");
        bool good = len <= TN_NAME_MAX && tn_name_check(request->at, len, &why) == 0;
        if (good) {
            memcpy(request->name, request->at, len);
            request->name[len] = '\0';
        }
        request->at += len + (request->at[len] == ',');
        if (good)
            return true;
    }
    return false;
}

static void give_leases(struct page_request *request)
{
    struct tn_console *console = request->http->console;
    static const char head[] = "{\"cursor\":0,\"leases\":[";
    const char *comma = "";
    struct tn_text text;

    out_add(request, head, sizeof head - 1);
    while (take_name(request)) {
        struct tn_seen *seen =
            (struct tn_seen *)tn_dict_find(&console->names, request->name, strlen(request->name));
        char *to = seen != NULL ? out_room(request, LEASE_ROOM) : NULL;
        if (to == NULL)
            continue;
        tn_text_init(&text, to, LEASE_ROOM);
        tn_text_add(&text, comma);
        seen->life.wanted_at = tn_console_now(console);
        tn_console_lease(console, seen, &text);
        request->out_len += text.len;
        comma = ",";
    }
    finish_names(request);
}

/* The history that this console has recorded. */
static void give_recorded(struct page_request *request)
{
    const struct tn_console *console = request->http->console;
    const char *comma = "";
    struct tn_text text;

    out_add(request, "{\"names\":[", 10);
    while (take_name(request)) {
        size_t count = 0;
        struct tn_term *terms =
            tn_history_terms(&console->history, request->name, strlen(request->name), &count);
        char *to = out_room(request, tn_terms_room(count));
        if (to != NULL) {
            tn_text_init(&text, to, tn_terms_room(count));
            tn_text_add(&text, comma);
            tn_terms_json(&text, request->name, strlen(request->name), terms, count,
                          console->history.since, tn_wall_ms());
            request->out_len += text.len;
        }
        free(terms);
        comma = ",";
    }
    finish_names(request);
}

static void ask_history(struct page_request *request);

static void hear_history(void *arg, int status, const char *json, size_t len, const char *error)
{
    struct page_request *request = arg;

    request->pending = false;
    if (status == 0) {
        out_add(request, json, len);
        ask_history(request);
        return;
    }
    refuse_request(request,
                   status == TENURE_E_DENIED ? TN_STATUS_FORBIDDEN : TN_STATUS_SERVICE_UNAVAILABLE,
                   status == TENURE_E_DENIED ? "DENIED" : "UNAVAILABLE",
                   error != NULL ? error : tenure_strerror(status));
    let_go(request);
}

/* One name after the other, as the store keeps them. */
static void ask_history(struct page_request *request)
{
    struct tn_store *store = request->http->console->store;

    if (!take_name(request)) {
        finish_names(request);
        let_go(request);
        return;
    }
    if (request->out_len > 10)
        out_add(request, ",", 1);
    request->pending = true;
    store->ops->history(store, request->name, hear_history, request);
}

static void hear_revoked_done(struct tn_store_req *req)
{
    struct page_request *request =
        (struct page_request *)((char *)req - offsetof(struct page_request, req));

    request->pending = false;
    if (req->status == TENURE_E_DENIED)
        refuse_request(request, TN_STATUS_FORBIDDEN, "DENIED", req->error);
    else if (req->status != 0)
        refuse_request(request, TN_STATUS_SERVICE_UNAVAILABLE, "UNAVAILABLE", req->error);
    else if (req->answer == TN_ANSWER_OK)
        answer_json(request, TN_STATUS_OK, "{\"ok\":true}\n");
    else
        refuse_request(request, TN_STATUS_PRECONDITION_FAILED, "STALE",
                       "not held, or not under that token");
    let_go(request);
}

static void hear_wish(void *arg, int status, enum tn_answer answer, const char *text)
{
    struct page_request *request = arg;

    request->pending = false;
    if (status == TENURE_E_DENIED)
        refuse_request(request, TN_STATUS_FORBIDDEN, "DENIED", text);
    else if (status != 0)
        refuse_request(request, TN_STATUS_SERVICE_UNAVAILABLE, "UNAVAILABLE", text);
    else if (answer == TN_ANSWER_OK)
        answer_json(request, TN_STATUS_OK, "{\"ok\":true}\n");
    else if (answer == TN_ANSWER_HELD)
        refuse_request(request, TN_STATUS_CONFLICT, "BUSY", text);
    else
        refuse_request(request, TN_STATUS_PRECONDITION_FAILED, "STALE",
                       "not held, or not under that token");
    let_go(request);
}

/* The token goes along, so that a click on what is old takes nothing from the next holder. */
static void serve_order(struct page_request *request, bool handover)
{
    struct tn_op op = { .kind = TN_OP_REVOKE, .name = request->name };
    struct tn_console *console = request->http->console;

    size_t len;
    char *body = tn_http_conn_body(request->conn, &len);

    if (!tn_order_read(body, len, request->name, &op.token) || op.token == 0) {
        refuse_request(request, TN_STATUS_BAD_REQUEST, "ERR",
                       "expected a JSON object of: name, token");
        return;
    }
    request->pending = true;
    if (!handover) {
        op.name_len = (uint32_t)strlen(request->name);
        request->req = (struct tn_store_req) { .op = op, .done = hear_revoked_done };
        tn_store_submit(console->store, &request->req);
    } else if (!tn_wish_handover(console, request->name, op.token, hear_wish, request)) {
        request->pending = false;
        refuse_request(request, TN_STATUS_BAD_REQUEST, "ERR",
                       "the name is too long for a hand-over");
    }
}

static void give_me(struct page_request *request)
{
    const struct tn_console *console = request->http->console;
    char buf[1024];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_text_add(&text, "{\"server\":\"console\",\"user\":null,\"store\":");
    tn_json_string(&text, console->url, strlen(console->url));
    tn_text_addf(&text,
                 ",\"rights\":[{\"right\":\"admin\",\"pattern\":\"*\"}],\"now\":%" PRId64
                 ",\"history_since\":%" PRId64 ",\"shows\":[\"history\",\"handover\"]}\n",
                 tn_wall_ms(), console->history.since);
    answer_json(request, TN_STATUS_OK, buf);
}

/* --- Requests ------------------------------------------------------------------------------- */

/* What follows /KEY of the path; NULL: it is not there. */
static const char *path_below_key(const struct tn_console *console, const char *url)
{
    struct tn_secret given;

    if (strlen(url) < TN_SECRET_DIGITS + 2 || url[1 + TN_SECRET_DIGITS] != '/' ||
        !tn_secret_parse(&given, url + 1) || !tn_secret_equal(&given, &console->key))
        return NULL;
    return url + 1 + TN_SECRET_DIGITS;
}

static bool has_names(struct page_request *request)
{
    request->at = tn_http_target_argument(&request->target, "names");
    if (request->at == NULL)
        refuse_request(request, TN_STATUS_BAD_REQUEST, "ERR", "expected names=A,B");
    return request->at != NULL;
}

static void serve_get(struct page_request *request, const char *path, const struct tn_page *page)
{
    if (page != NULL) {
        set_answer(request, TN_STATUS_OK, tn_page_type(page), page->gzip, page->size, true);
    } else if (strcmp(path, "/v1/whoami") == 0) {
        give_me(request);
    } else if (strcmp(path, "/v1/events") == 0) {
        begin_stream(request);
    } else if (strcmp(path, "/v1/leases") == 0) {
        if (has_names(request))
            give_leases(request);
    } else if (strcmp(path, "/v1/history") == 0) {
        if (!has_names(request))
            return;
        if (request->http->console->store->ops->history == NULL) {
            give_recorded(request);
        } else {
            out_add(request, "{\"names\":[", 10);
            ask_history(request);
        }
    } else {
        refuse_request(request, TN_STATUS_NOT_FOUND, "ERR", "not here");
    }
}

static bool is_json(const struct tn_http_head *head)
{
    const struct tn_http_slice *type = tn_http_field(head, "content-type", NULL);

    return type != NULL && type->len >= 16 && memcmp(type->bytes, "application/json", 16) == 0;
}

static void serve(struct page_request *request, const struct tn_http_head *head)
{
    const char *path = path_below_key(request->http->console, request->target.text);
    bool gets = tn_http_is(&head->method, "get") || request->conn->to_head;
    const struct tn_page *page =
        gets && path != NULL ? tn_page_find(tn_console_pages, path, "/console.html") : NULL;
    bool handover = path != NULL && strcmp(path, "/v1/leases/handover") == 0;
    bool revoke = path != NULL && strcmp(path, "/v1/leases/revoke") == 0;

    if (tn_http_field(head, "host", NULL) == NULL ||
        tn_own_request(head, false, page != NULL) != NULL)
        refuse_request(request, TN_STATUS_FORBIDDEN, "DENIED", "not from another site");
    else if (path == NULL)
        refuse_request(request, TN_STATUS_NOT_FOUND, "ERR",
                       "not here; use the address that was printed");
    else if (gets)
        serve_get(request, path, page);
    else if (!tn_http_is(&head->method, "post") || (!revoke && !handover))
        refuse_request(request, TN_STATUS_METHOD_NOT_ALLOWED, "ERR", "not by this method");
    else if (!is_json(head))
        refuse_request(request, TN_STATUS_UNSUPPORTED_MEDIA_TYPE, "ERR",
                       "Content-Type must be application/json");
    else
        serve_order(request, handover);
}

static void refuse_bytes(struct tn_http_conn *conn, unsigned status, const char *why)
{
    tn_http_conn_answer(conn, &(struct tn_http_response) { .status = status,
                                                           .type = "text/plain",
                                                           .fields = HEADERS,
                                                           .body = why,
                                                           .len = strlen(why) });
}

static void serve_request(struct tn_http_conn *conn, const struct tn_http_head *head)
{
    struct tn_console_http *http = tn_http_peer_of(conn)->server->arg;
    struct page_request *request = calloc(1, sizeof *request);

    if (request == NULL) {
        refuse_bytes(conn, TN_STATUS_SERVICE_UNAVAILABLE, "out of memory");
        return;
    }
    request->http = http;
    request->conn = conn;
    tn_list_add(&http->requests, &request->node);
    conn->user = request;
    request->in_use = true;
    if (tn_http_target_read(&request->target, &head->target) != 0)
        refuse_request(request, TN_STATUS_BAD_REQUEST, "ERR", "the path is not well-formed");
    else
        serve(request, head);
    request->in_use = false;
    let_go(request);
}

/* The page has left. What the store was asked goes on. */
static void page_gone(struct tn_http_peer *peer)
{
    struct page_request *request = peer->http.user;

    if (request == NULL)
        return;
    (void)detach(request);
    let_go(request);
}

/* --- On the loop ---------------------------------------------------------------------------- */

struct tn_console_http *tn_console_http_open(struct tn_console *console, int fd)
{
    const struct tn_http_server_options options = {
        .service = { BODY_MOST, serve_request, refuse_bytes, push_more },
        .hung_up = tn_http_peer_close,
        .gone = page_gone,
        .peers_max = CONNECTIONS_MOST,
        .idle_ms = IDLE_MS,
        .whole_ms = IDLE_MS,
    };
    struct tn_console_http *http = calloc(1, sizeof *http);

    if (http == NULL) {
        (void)close(fd);
        return NULL;
    }
    http->console = console;
    http->server.arg = http;
    tn_list_init(&http->requests);
    if (tn_http_server_open(&http->server, &console->loop, fd, &options) == 0)
        return http;
    (void)uv_run(&console->loop, UV_RUN_NOWAIT);
    free(http);
    return NULL;
}

/* The store is closed, so nothing is pending. */
void tn_console_http_close(struct tn_console_http *http)
{
    tn_http_server_close(&http->server);
    for (struct page_request *it = next_request(http, NULL), *next; it != NULL; it = next) {
        next = next_request(http, it);
        let_go(it);
    }
}

#else
extern int tn_no_console; /* Without the page there is nothing to serve. */
#endif
