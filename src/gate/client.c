/* client.c - requests to the gate: what they claim, what the fence says, what is answered.
 *
 * Happy path: a request arrives whole; its resource and token are read; the fence lets it in, at
 * once or when older requests have ended; it is sent on; the answer comes back; the fence is told
 * that it has landed, and the next request is read. What can fail: the client's request (4xx), the
 * fence's disk (503), the server (502, 504). The request of a client that hangs up in the middle is
 * in flight all the same, until the server has answered. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/time.h"
#include "base/token.h"
#include "gate/inner.h"

enum { IDLE_MS = 60000 };

static struct tn_client *client_of(struct tn_http_conn *conn)
{
    return (struct tn_client *)conn;
}

static void set_state(struct tn_client *client, enum tn_client_state state)
{
    const struct tn_gate *gate = client->gate;

    client->state = state;
    client->deadline = uv_now(&gate->loop) + (uint64_t)(gate->options.timeout / TN_MS(1));
}

static bool is_method(const struct tn_http_head *head, const char *method)
{
    return head->method.len == strlen(method) &&
           memcmp(head->method.bytes, method, head->method.len) == 0;
}

/* --- Messages ------------------------------------------------------------------------------- */

/* Fields that belong to one connection, or that we write ourselves (RFC 9110, 7.6.1). */
static bool is_own(const struct tn_http_slice *name)
{
    static const char *const names[] = {
        "connection",        "keep-alive",     "proxy-connection", "te",     "trailer",
        "transfer-encoding", "content-length", "upgrade",          "expect", "proxy-authorization"
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (tn_http_is(name, names[i]))
            return true;
    }
    return false;
}

/* Whether a field Connection names it, as one that goes no further. */
static bool is_listed(const struct tn_http_head *head, const struct tn_http_slice *name)
{
    char small[128];

    if (name->len >= sizeof small || tn_http_is(name, "host"))
        return false;
    for (size_t i = 0; i < name->len; i++) {
        char c = name->bytes[i];
        small[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    small[name->len] = '\0';
    for (size_t i = 0; i < head->count; i++) {
        if (tn_http_is(&head->fields[i].name, "connection") &&
            tn_http_has(&head->fields[i].value, small))
            return true;
    }
    return false;
}

void tn_gate_copy_fields(struct tn_text *text, const struct tn_http_head *head)
{
    bool lists = false;

    for (size_t i = 0; i < head->count; i++)
        lists = lists || tn_http_is(&head->fields[i].name, "connection");
    for (size_t i = 0; i < head->count; i++) {
        const struct tn_http_field *field = &head->fields[i];

        if (is_own(&field->name) || (lists && is_listed(head, &field->name)))
            continue;
        tn_text_add_bytes(text, field->name.bytes, field->name.len);
        tn_text_add_bytes(text, ": ", 2);
        tn_text_add_bytes(text, field->value.bytes, field->value.len);
        tn_text_add_bytes(text, "\r\n", 2);
    }
}

bool tn_gate_is_bodiless(const struct tn_http_head *head)
{
    static const char *const methods[] = { "GET", "HEAD", "OPTIONS", "DELETE", "TRACE" };

    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (is_method(head, methods[i]))
            return true;
    }
    return false;
}

/* --- Answers -------------------------------------------------------------------------------- */

/* With a status field the status is told there, and 403 in its place. */
static void answer(struct tn_client *client, unsigned status, const uint64_t *highest,
                   const char *body, size_t len)
{
    bool hidden = client->status_field != NULL && status >= 300;
    char fields[200];
    struct tn_text text;

    tn_text_init(&text, fields, sizeof fields);
    tn_text_add(&text, "Cache-Control: no-store\r\n");
    if (highest != NULL)
        tn_text_addf(&text, "Fence-Highest: %" PRIu64 "\r\n", *highest);
    if (hidden)
        tn_text_addf(&text, "%s: %u\r\n", client->status_field, status);
    client->state = TN_CLIENT_IDLE;
    client->status_field = NULL;
    tn_http_conn_answer(&client->peer.http,
                        &(struct tn_http_response) { .status = hidden ? 403 : status,
                                                     .type = "application/json",
                                                     .fields = fields,
                                                     .body = body,
                                                     .len = len });
}

static void refuse_request(struct tn_client *client, unsigned status, const char *why)
{
    char body[512];
    struct tn_text text;

    tn_text_init(&text, body, sizeof body);
    tn_text_add(&text, "{\"error\":");
    tn_json_string(&text, why, strlen(why));
    tn_text_add(&text, "}\n");
    answer(client, status, NULL, body, text.len);
}

/* What the fence says about the token. */
static void tell_verdict(struct tn_client *client, int rc, uint64_t highest)
{
    char body[512];
    struct tn_text text;

    if (rc < 0 && rc != TENURE_E_STALE) {
        refuse_request(client, rc == TENURE_E_FULL ? 507 : 503,
                       rc == TENURE_E_TIMEOUT ? "older requests did not end in time"
                                              : tenure_strerror(rc));
        return;
    }
    tn_text_init(&text, body, sizeof body);
    tn_text_addf(&text,
                 "{\"admitted\":%s,\"resource\":\"%s\",\"token\":%" PRIu64 ",\"highest\":%" PRIu64
                 "}\n",
                 rc == 0 ? "true" : "false", client->claim.resource, client->claim.token, highest);
    answer(client, rc == 0 ? 200 : 412, &highest, body, text.len);
}

/* --- What a request claims ------------------------------------------------------------------- */

/* 0, or the status to refuse with; then *@ret_why. */
static unsigned read_token(const struct tn_http_head *head, struct tn_gate_claim *claim,
                           const char **ret_why)
{
    unsigned count;
    char digits[TN_TOKEN_TEXT];
    const struct tn_http_slice *value = tn_http_field(head, "fence-token", &count);

    *ret_why = "the field Fence-Token is missing";
    if (count == 0)
        return 428;
    *ret_why = "the field Fence-Token is there more than once";
    if (count > 1)
        return 400;
    *ret_why = "Fence-Token is not a whole number from 1 to 18446744073709551615";
    if (value->len >= sizeof digits)
        return 400;
    memcpy(digits, value->bytes, value->len);
    digits[value->len] = '\0';
    return tn_u64_parse(digits, &claim->token) == 0 && claim->token > 0 ? 0 : 400;
}

static unsigned set_resource(struct tn_gate_claim *claim, const char *name, size_t len,
                             const char **ret_why)
{
    if (tn_name_check(name, len, ret_why) < 0)
        return 400;
    memcpy(claim->resource, name, len);
    claim->resource[len] = '\0';
    claim->len = len;
    return 0;
}

/* The first segment. The server must come to the same one, so a path that could be read in another
 * way is refused, and is never mended: what was judged goes on as it is. */
static unsigned set_from_path(struct tn_client *client, const struct tn_http_slice *path,
                              const char **ret_why)
{
    struct tn_gate_claim *claim = &client->claim;
    size_t end = 1;

    *ret_why = tn_http_path_check(path);
    if (*ret_why != NULL)
        return 400;
    while (end < path->len && path->bytes[end] != '/' && path->bytes[end] != '?')
        end++;
    unsigned status = set_resource(claim, path->bytes + 1, end - 1, ret_why);
    if (status == 0 && tn_gate_has_alike(client->gate->fences, claim->resource, claim->len)) {
        *ret_why = "the first segment differs from another resource only in the case of letters or "
                   "in dots at its end, and servers may take both for one";
        status = 400;
    }
    return status;
}

static unsigned read_claim(struct tn_client *client, const struct tn_http_head *head,
                           const struct tn_http_slice *path, const char **ret_why)
{
    const struct tn_gate_options *options = &client->gate->options;
    struct tn_gate_claim *claim = &client->claim;
    unsigned status, count;

    if (options->resource != NULL) {
        status = set_resource(claim, options->resource, strlen(options->resource), ret_why);
    } else if (options->by == TN_GATE_BY_PATH) {
        status = set_from_path(client, path, ret_why);
    } else {
        const struct tn_http_slice *value = tn_http_field(head, "fence-resource", &count);
        *ret_why = "the field Fence-Resource is needed, once";
        status = count == 0  ? 428
                 : count > 1 ? 400
                             : set_resource(claim, value->bytes, value->len, ret_why);
    }
    return status != 0 ? status : read_token(head, claim, ret_why);
}

static const char no_server[] = "there is no connection to the server";

/* --- Passing the fence ----------------------------------------------------------------------- */

/* A raise, or a question: nothing older is in flight. */
static bool agree(struct tn_client *client, const struct tn_http_head *head)
{
    (void)head;
    tell_verdict(client, 0, client->claim.token);
    return true;
}

static bool ask_server(struct tn_client *client, const struct tn_http_head *head)
{
    set_state(client, TN_CLIENT_ASKING);
    return tn_upstream_ask(client, head);
}

static void leave(struct tn_client *client);

static bool forward(struct tn_client *client, const struct tn_http_head *head)
{
    tn_gate_enter(client->fence, client->claim.token);
    if (ask_server(client, head))
        return true;
    leave(client);
    return false;
}

/* Past the fence, now or when the way is clear. */
static void pass(struct tn_client *client, const struct tn_http_head *head,
                 tn_client_step *when_clear)
{
    const struct tn_gate_claim *claim = &client->claim;
    struct tn_gate_fence *fence = NULL;
    uint64_t highest;

    int rc = tn_gate_admit(client->gate->fences, claim->resource, claim->len, claim->token, &fence,
                           &highest);
    client->fence = when_clear == forward ? fence : NULL;
    client->when_clear = when_clear;
    if (rc < 0) {
        tell_verdict(client, rc, highest);
    } else if (!tn_gate_is_clear(fence, claim->token)) {
        set_state(client, TN_CLIENT_WAITING);
        tn_gate_wait(fence, &client->wait);
    } else if (!when_clear(client, head)) {
        refuse_request(client, 502, no_server);
    }
}

/* Those who waited for this one are let in, or told that somebody later came. */
static void leave(struct tn_client *client)
{
    struct tn_gate_wait *waiting = NULL;

    if (client->fence == NULL)
        return;
    tn_gate_leave(client->fence, &waiting);
    client->fence = NULL;
    while (waiting != NULL) {
        struct tn_client *next =
            (struct tn_client *)((char *)waiting - offsetof(struct tn_client, wait));

        tn_gate_wait_end(&next->wait);
        pass(next, tn_http_conn_head(&next->peer.http), next->when_clear);
    }
}

size_t tn_client_answered(struct tn_client *client, const struct tn_http_head *head,
                          const char *bytes, size_t head_len, size_t body_len)
{
    const char *line = memchr(bytes, '\r', head_len);
    size_t size = head_len + head->count + body_len + 128;
    char *room = tn_http_conn_room(&client->peer.http, size);
    struct tn_text text;

    client->upstream = NULL;
    if (room == NULL)
        return 0;
    tn_text_init(&text, room, size);
    tn_text_add(&text, "HTTP/1.1");
    tn_text_add_bytes(&text, bytes + 8, (size_t)(line - bytes) - 8);
    tn_text_add(&text, "\r\n");
    tn_gate_copy_fields(&text, head);
    if (head->body != TN_HTTP_NO_BODY)
        tn_text_addf(&text, "Content-Length: %zu\r\n", body_len);
    else if (head->has_length)
        tn_text_addf(&text, "Content-Length: %" PRIu64 "\r\n", head->length);
    tn_text_add(&text, client->peer.http.keep_alive ? "\r\n" : "Connection: close\r\n\r\n");
    tn_text_add_bytes(&text, bytes + head_len, body_len);
    return text.len;
}

void tn_client_landed(struct tn_client *client, size_t len)
{
    client->state = TN_CLIENT_IDLE;
    leave(client);
    if (len > 0)
        tn_http_conn_built(&client->peer.http, len);
}

void tn_client_failed(struct tn_client *client, unsigned status, const char *why)
{
    client->upstream = NULL;
    leave(client);
    refuse_request(client, status, why);
}

/* --- Endpoints ------------------------------------------------------------------------------ */

/* A fence cannot be removed, and one with such a name would make both unusable by their path. */
static bool is_new_and_alike(const struct tn_client *client, const char *resource, size_t len)
{
    const struct tn_gate *gate = client->gate;

    return gate->options.resource == NULL && gate->options.by == TN_GATE_BY_PATH &&
           tn_gate_highest(gate->fences, resource, len) == 0 &&
           tn_gate_has_alike(gate->fences, resource, len);
}

static void serve_fence(struct tn_client *client, const struct tn_http_head *head,
                        const char *resource, size_t len)
{
    const char *why = NULL;
    unsigned status = set_resource(&client->claim, resource, len, &why);

    if (status == 0 && is_method(head, "PUT")) {
        status = read_token(head, &client->claim, &why);
        if (status == 0 && is_new_and_alike(client, resource, len)) {
            status = 400;
            why = "the resource differs from another one only in the case of letters or in dots at "
                  "its end; check the spelling";
        }
        if (status == 0) {
            pass(client, head, agree);
            return;
        }
    } else if (status == 0 && is_method(head, "GET")) {
        char body[512];
        uint64_t highest = tn_gate_highest(client->gate->fences, resource, len);
        int size = snprintf(body, sizeof body, "{\"resource\":\"%s\",\"token\":%" PRIu64 "}\n",
                            client->claim.resource, highest);
        answer(client, 200, &highest, body, (size_t)size);
        return;
    }
    refuse_request(client, status != 0 ? status : 405, why != NULL ? why : "PUT or GET");
}

/* nginx hands the fields of the request on; the path, if it is needed, in X-Original-URI. The gap
 * between this answer and what nginx does then is nginx's: see docs/fencing.md. */
static void serve_auth(struct tn_client *client, const struct tn_http_head *head)
{
    static const struct tn_http_slice none = { "/", 1 };
    const char *why = NULL;
    unsigned count;
    const struct tn_http_slice *uri = tn_http_field(head, "x-original-uri", &count);

    client->status_field = "Fence-Status";
    unsigned status = read_claim(client, head, count == 1 ? uri : &none, &why);
    if (status != 0)
        refuse_request(client, status, why);
    else
        pass(client, head, agree);
}

struct fence_listing {
    char *buf;
    size_t len, size;
    bool failed;
};

static void add_fence(void *arg, const char *resource, uint64_t token)
{
    struct fence_listing *listing = arg;

    if (listing->size - listing->len < 400) {
        size_t size = listing->size > 0 ? 2 * listing->size : 4096;
        char *larger = realloc(listing->buf, size);
        listing->failed = listing->failed || larger == NULL;
        if (larger == NULL)
            return;
        listing->buf = larger;
        listing->size = size;
    }
    listing->len +=
        (size_t)snprintf(listing->buf + listing->len, 400,
                         "{\"resource\":\"%s\",\"token\":%" PRIu64 "}\n", resource, token);
}

static void serve_list(struct tn_client *client)
{
    struct fence_listing listing = { .buf = NULL };

    tn_gate_list(client->gate->fences, add_fence, &listing);
    if (listing.failed)
        refuse_request(client, 503, "out of memory");
    else
        answer(client, 200, NULL, listing.buf != NULL ? listing.buf : "", listing.len);
    free(listing.buf);
}

static void serve_own(struct tn_client *client, const struct tn_http_head *head, const char *rest,
                      size_t len)
{
    static const char one[] = "fence/";
    struct tn_http_slice name = { rest, len };

    if (len >= sizeof one - 1 && memcmp(rest, one, sizeof one - 1) == 0)
        serve_fence(client, head, rest + sizeof one - 1, len - (sizeof one - 1));
    else if (tn_http_is(&name, "auth"))
        serve_auth(client, head);
    else if (tn_http_is(&name, "fences"))
        serve_list(client);
    else if (tn_http_is(&name, "healthz"))
        answer(client, 200, NULL, "{\"ok\":true}\n", 12);
    else
        refuse_request(client, 404, "there is no such endpoint");
}

/* --- Requests ------------------------------------------------------------------------------- */

/* Whether a field has a name of this list, in whatever case, or one that a server may take for it;
 * with @exact the names themselves do not count. */
static bool has_field(const struct tn_http_head *head, const char *const *names, bool exact)
{
    for (size_t i = 0; i < head->count; i++) {
        for (size_t k = 0; names[k] != NULL; k++) {
            if (tn_http_alike(&head->fields[i].name, names[k]) &&
                !(exact && tn_http_is(&head->fields[i].name, names[k])))
                return true;
        }
    }
    return false;
}

/* Anything else may write, and needs a token; and so does a request that asks the server to take it
 * for another method. */
static bool is_read(const struct tn_http_head *head)
{
    static const char *const overrides[] = { "x-http-method-override", "x-http-method",
                                             "x-method-override", NULL };

    return (is_method(head, "GET") || is_method(head, "HEAD") || is_method(head, "OPTIONS")) &&
           !has_field(head, overrides, false);
}

/* Whether the request asks the server to take its path for another one. */
static bool is_moved(const struct tn_http_head *head)
{
    static const char *const names[] = { "script-name",        "path-info",
                                         "x-script-name",      "x-original-url",
                                         "x-rewrite-url",      "x-original-uri",
                                         "x-forwarded-prefix", NULL };

    return has_field(head, names, false);
}

/* What is not forwarded, with any token: requests that the server could read in another way than
 * the gate. 0, or the status to refuse with; then *@ret_why. */
static unsigned check_form(const struct tn_http_head *head, const char **ret_why)
{
    static const char *const mistaken[] = {
        "content-length", "transfer-encoding", "connection",  "host",           "expect",
        "upgrade",        "trailer",           "fence-token", "fence-resource", NULL
    };
    unsigned hosts;

    (void)tn_http_field(head, "host", &hosts);
    *ret_why = "CONNECT is not forwarded";
    if (is_method(head, "CONNECT"))
        return 405;
    *ret_why = "the field Host is needed, once";
    if (hosts != 1)
        return 400;
    *ret_why = "a field's name has an underscore, and servers may take it for another field";
    if (has_field(head, mistaken, true))
        return 400;
    *ret_why = "this method must come without a body";
    return tn_gate_is_bodiless(head) &&
                   (head->body == TN_HTTP_CHUNKED || (head->has_length && head->length > 0))
               ? 400
               : 0;
}

static void serve(struct tn_http_conn *conn, const struct tn_http_head *head)
{
    static const char own[] = "/.tenure/";
    struct tn_client *client = client_of(conn);
    const struct tn_gate *gate = client->gate = client->peer.server->arg;
    const struct tn_http_slice *target = &head->target;
    const char *why = NULL;
    unsigned status;

    client->fence = NULL;
    client->status_field = NULL;
    if (target->bytes[0] != '/') {
        refuse_request(client, 400, "the target must be a path");
    } else if (target->len >= sizeof own - 1 && memcmp(target->bytes, own, sizeof own - 1) == 0) {
        serve_own(client, head, target->bytes + sizeof own - 1, target->len - (sizeof own - 1));
    } else if (gate->options.upstream == NULL) {
        refuse_request(client, 404, "this gate has no server behind it");
    } else if ((status = check_form(head, &why)) != 0) {
        conn->keep_alive = false; /* It may disagree with us on what comes next, too. */
        refuse_request(client, status, why);
    } else if (is_read(head) && !gate->options.all) {
        if (!ask_server(client, head))
            refuse_request(client, 502, no_server);
    } else {
        status = read_claim(client, head, target, &why);
        if (status == 0 && gate->options.resource == NULL && gate->options.by == TN_GATE_BY_PATH &&
            is_moved(head)) {
            status = 400;
            why = "a field such as X-Original-URL names another path than the one that is judged";
        }
        if (status != 0)
            refuse_request(client, status, why);
        else
            pass(client, head, forward);
    }
}

static void refuse_bytes(struct tn_http_conn *conn, unsigned status, const char *why)
{
    refuse_request(client_of(conn), status, status == 413 ? "the body has more than 16 MiB" : why);
}

/* --- The connection -------------------------------------------------------------------------- */

/* A client that only ends its sending still gets its answer. */
static void hung_up(struct tn_http_peer *peer)
{
    const struct tn_client *client = client_of(&peer->http);

    if (client->state == TN_CLIENT_WAITING && peer->broken)
        tn_http_peer_close(peer);
}

static void gone(struct tn_http_peer *peer)
{
    struct tn_client *client = client_of(&peer->http);

    tn_gate_wait_end(&client->wait);
    if (client->upstream != NULL)
        tn_upstream_forget(client->upstream);
    client->upstream = NULL;
}

struct tn_http_server_options tn_client_options(void)
{
    return (struct tn_http_server_options) {
        .service = { .body_max = TN_GATE_BODY_MAX, .request = serve, .refuse = refuse_bytes },
        .hung_up = hung_up,
        .gone = gone,
        .peer_size = sizeof(struct tn_client),
        .peers_max = TN_GATE_CLIENTS_MAX,
        .idle_ms = IDLE_MS,
    };
}

void tn_client_late(struct tn_client *client)
{
    struct tn_gate_upstream *upstream = client->upstream;

    if (client->state == TN_CLIENT_WAITING) {
        tn_gate_wait_end(&client->wait);
        tell_verdict(client, TENURE_E_TIMEOUT, 0);
    } else {
        client->upstream = NULL;
        tn_upstream_forget(upstream);
        tn_client_failed(client, 504, "the server did not answer in time; it may have happened");
    }
}
