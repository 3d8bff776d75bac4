/* gate.c - an HTTP reverse proxy that checks a token; gate.h has the rules.
 *
 * Happy path: a request arrives whole; its resource and token are read; the fence lets it in; it is
 * sent on with a head of our own making, so that the server reads its length as we did; the answer
 * comes back the same way; the fence is told that it has landed. What can fail: the client's
 * request (4xx), the fence's disk (503), the server (502, 504). */
#define _GNU_SOURCE
#include "gate/gate.h"

#ifndef TENURE_HTTP

int tn_gate_open(const struct tn_gate_options *options, struct tn_gate **ret_gate,
                 struct tn_text *reterr)
{
    (void)options;
    (void)ret_gate;
    tn_text_add(reterr, "not in this build; install libmicrohttpd-dev and build again");
    return TENURE_E_UNSUPPORTED;
}

int tn_gate_port(const struct tn_gate *gate)
{
    (void)gate;
    return -1;
}

void tn_gate_close(struct tn_gate *gate)
{
    (void)gate;
}

#else

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/name.h"
#include "base/number.h"
#include "base/time.h"
#include "gate/fences.h"
#include "receivers/http_client.h"

enum {
    BODY_MAX = 16 << 20,
    HEAD_MAX = 32 << 10,
    CONNECTIONS_MAX = 1000,
    IDLE_SECONDS = 60,
    STACK = 256 << 10,
};

struct tn_gate {
    struct tn_gate_options options;
    struct tn_place place; /* Of the server. */
    struct tn_gate_fences *fences;
    struct MHD_Daemon *daemon;
    int port;
};

/* One request; lives from its first line to the end of its answer. */
struct request {
    char *uri; /* As it was sent. */
    bool begun;
    bool too_large;
    char *body;
    size_t len, size;
};

/* What the fields say. */
struct claim {
    const char *token_text;
    unsigned tokens;
    const char *resource_text;
    unsigned resources;
    char resource[TN_NAME_MAX + 1];
    uint64_t token;
};

/* --- Answers -------------------------------------------------------------------------------- */

/* With @status_field the status is told in a field, and 403 in its place. */
static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status,
                              const uint64_t *highest, const char *status_field, const char *body)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(body), (void *)(uintptr_t)body, MHD_RESPMEM_MUST_COPY);
    char digits[24];

    if (response == NULL)
        return MHD_NO;
    (void)MHD_add_response_header(response, "Content-Type", "application/json");
    (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    if (highest != NULL) {
        (void)snprintf(digits, sizeof digits, "%" PRIu64, *highest);
        (void)MHD_add_response_header(response, "Fence-Highest", digits);
    }
    if (status_field != NULL && status >= 300) {
        (void)snprintf(digits, sizeof digits, "%u", status);
        (void)MHD_add_response_header(response, status_field, digits);
        status = 403;
    }
    enum MHD_Result rc = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return rc;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status,
                              const char *status_field, const char *why)
{
    char body[512];
    struct tn_text text;

    tn_text_init(&text, body, sizeof body);
    tn_text_add(&text, "{\"error\":");
    tn_json_string(&text, why, strlen(why));
    tn_text_add(&text, "}\n");
    return answer(connection, status, NULL, status_field, body);
}

/* What the fence says about a token. */
static enum MHD_Result tell(struct MHD_Connection *connection, int rc, const struct claim *claim,
                            uint64_t highest, const char *status_field)
{
    char body[512];
    struct tn_text text;
    unsigned status = rc == 0 ? 200 : 412;

    if (rc < 0 && rc != TENURE_E_STALE)
        return refuse(connection, rc == TENURE_E_FULL ? 507 : 503, status_field,
                      rc == TENURE_E_UNAVAILABLE
                          ? "older requests did not end in time, or the disk failed"
                          : tenure_strerror(rc));
    tn_text_init(&text, body, sizeof body);
    tn_text_addf(&text,
                 "{\"admitted\":%s,\"resource\":\"%s\",\"token\":%" PRIu64 ",\"highest\":%" PRIu64
                 "}\n",
                 rc == 0 ? "true" : "false", claim->resource, claim->token, highest);
    return answer(connection, status, &highest, status_field, body);
}

/* --- What a request claims ------------------------------------------------------------------- */

static enum MHD_Result read_field(void *arg, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    struct claim *claim = arg;

    (void)kind;
    if (strcasecmp(name, "Fence-Token") == 0) {
        claim->token_text = value != NULL ? value : "";
        claim->tokens++;
    } else if (strcasecmp(name, "Fence-Resource") == 0) {
        claim->resource_text = value != NULL ? value : "";
        claim->resources++;
    }
    return MHD_YES;
}

/* 0, or the status to refuse with; then *@ret_why. */
static unsigned read_token(struct claim *claim, const char **ret_why)
{
    *ret_why = "the field Fence-Token is missing";
    if (claim->tokens == 0)
        return 428;
    *ret_why = "the field Fence-Token is there more than once";
    if (claim->tokens > 1)
        return 400;
    *ret_why = "Fence-Token is not a whole number from 1 to 18446744073709551615";
    return tn_u64_parse(claim->token_text, &claim->token) == 0 && claim->token > 0 ? 0 : 400;
}

static unsigned set_resource(struct claim *claim, const char *name, size_t len,
                             const char **ret_why)
{
    if (tn_name_check(name, len, ret_why) < 0)
        return 400;
    memcpy(claim->resource, name, len);
    claim->resource[len] = '\0';
    return 0;
}

static unsigned read_resource(const struct tn_gate *gate, const char *uri, struct claim *claim,
                              const char **ret_why)
{
    if (gate->options.resource != NULL)
        return set_resource(claim, gate->options.resource, strlen(gate->options.resource), ret_why);
    if (gate->options.by == TN_GATE_BY_PATH)
        return set_resource(claim, uri + 1, strcspn(uri + 1, "/?"), ret_why);
    *ret_why = "the field Fence-Resource is needed, once";
    if (claim->resources != 1)
        return claim->resources == 0 ? 428 : 400;
    return set_resource(claim, claim->resource_text, strlen(claim->resource_text), ret_why);
}

/* --- The server ----------------------------------------------------------------------------- */

/* Fields that belong to one connection, or that we write ourselves (RFC 9110, 7.6.1). */
static bool is_own(const char *name)
{
    static const char *const names[] = {
        "Connection",        "Keep-Alive",     "Proxy-Connection", "TE",     "Trailer",
        "Transfer-Encoding", "Content-Length", "Upgrade",          "Expect", "Proxy-Authorization"
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcasecmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

struct copy {
    struct tn_text head;
    struct tn_http_slice connection; /* Names the fields that go no further. */
};

static bool is_listed(const struct tn_http_slice *list, const char *name)
{
    char small[128];
    size_t len = strlen(name);

    for (size_t i = 0; i <= len && len < sizeof small; i++)
        small[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + ('a' - 'A') : name[i]);
    return len < sizeof small && tn_http_has(list, small);
}

static enum MHD_Result copy_field(void *arg, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    struct copy *copy = arg;

    (void)kind;
    if (!is_own(name) && !is_listed(&copy->connection, name))
        tn_text_addf(&copy->head, "%s: %s\r\n", name, value != NULL ? value : "");
    return MHD_YES;
}

/* One connection to the server per connection to us; made when first needed. */
static struct tn_http_client *client_of(const struct tn_gate *gate,
                                        struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct tn_http_client **slot = info != NULL ? info->socket_context : NULL;

    if (slot != NULL && *slot == NULL) {
        *slot = malloc(sizeof **slot);
        if (*slot != NULL)
            tn_http_client_init(*slot, &gate->place);
    }
    return slot != NULL ? *slot : NULL;
}

static enum MHD_Result give_back(struct MHD_Connection *connection,
                                 const struct tn_http_answer *from)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        from->len, (void *)(uintptr_t)from->body, MHD_RESPMEM_MUST_COPY);

    if (response == NULL)
        return MHD_NO;
    for (size_t i = 0; i < from->head->count; i++) {
        const struct tn_http_field *field = &from->head->fields[i];
        char name[256];
        char *value = strndup(field->value.bytes, field->value.len);

        (void)snprintf(name, sizeof name, "%.*s", (int)field->name.len, field->name.bytes);
        if (value != NULL && !is_own(name))
            (void)MHD_add_response_header(response, name, value);
        free(value);
    }
    enum MHD_Result rc = MHD_queue_response(connection, from->head->status, response);
    MHD_destroy_response(response);
    return rc;
}

static enum MHD_Result forward(const struct tn_gate *gate, struct MHD_Connection *connection,
                               const char *method, const struct request *request)
{
    struct tn_http_client *client = client_of(gate, connection);
    struct tn_http_answer from;
    char *buf = malloc(HEAD_MAX);
    char error_text[256];
    struct copy copy = { .connection = { "", 0 } };
    struct tn_text *head = &copy.head;
    struct tn_text error;
    int rc = TENURE_E_NOMEM;

    tn_text_init(&error, error_text, sizeof error_text);
    if (client == NULL || buf == NULL)
        goto out;
    const char *listed = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Connection");
    if (listed != NULL)
        copy.connection = (struct tn_http_slice) { listed, strlen(listed) };
    tn_text_init(head, buf, HEAD_MAX);
    tn_text_addf(head, "%s %s HTTP/1.1\r\n", method, request->uri);
    (void)MHD_get_connection_values(connection, MHD_HEADER_KIND, copy_field, &copy);
    tn_text_addf(head, "Content-Length: %zu\r\nVia: 1.1 tenure\r\n\r\n", request->len);
    rc = TENURE_E_FULL;
    if (!tn_text_truncated(head))
        rc = tn_http_ask(client, buf, head->len, request->body, request->len,
                         strcmp(method, "HEAD") == 0, gate->options.timeout, &from, &error);
out:
    free(buf);
    if (rc == 0)
        return give_back(connection, &from);
    if (rc == TENURE_E_FULL)
        return refuse(connection, 431, NULL, "the fields are too long");
    return refuse(connection, rc == TENURE_E_TIMEOUT ? 504 : 502, NULL, error_text);
}

/* --- One request ---------------------------------------------------------------------------- */

static bool is_read(const char *method)
{
    return strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0 ||
           strcmp(method, "OPTIONS") == 0;
}

static enum MHD_Result pass(const struct tn_gate *gate, struct MHD_Connection *connection,
                            const char *method, const struct request *request)
{
    struct claim claim = { 0 };
    struct tn_gate_fence *fence = NULL;
    const char *why = NULL;
    uint64_t highest;

    if (gate->options.upstream == NULL)
        return refuse(connection, 404, NULL, "this gate has no server behind it");
    if (is_read(method) && !gate->options.all)
        return forward(gate, connection, method, request);
    (void)MHD_get_connection_values(connection, MHD_HEADER_KIND, read_field, &claim);
    unsigned status = read_resource(gate, request->uri, &claim, &why);
    if (status == 0)
        status = read_token(&claim, &why);
    if (status != 0)
        return refuse(connection, status, NULL, why);
    int rc = tn_gate_enter(gate->fences, claim.resource, claim.token, gate->options.timeout, &fence,
                           &highest);
    if (rc < 0)
        return tell(connection, rc, &claim, highest, NULL);
    enum MHD_Result result = forward(gate, connection, method, request);
    tn_gate_leave(gate->fences, fence);
    return result;
}

/* The resource in the path, for the endpoints of one fence. */
static enum MHD_Result serve_fence(const struct tn_gate *gate, struct MHD_Connection *connection,
                                   const char *method, const char *resource)
{
    struct claim claim = { 0 };
    const char *why = NULL;
    uint64_t highest;
    int rc = 0;

    (void)MHD_get_connection_values(connection, MHD_HEADER_KIND, read_field, &claim);
    unsigned status = set_resource(&claim, resource, strlen(resource), &why);
    if (status == 0 && strcmp(method, "PUT") == 0) {
        status = read_token(&claim, &why);
        if (status == 0)
            rc = tn_gate_enter(gate->fences, claim.resource, claim.token, gate->options.timeout,
                               NULL, &highest);
        return status != 0 ? refuse(connection, status, NULL, why)
                           : tell(connection, rc, &claim, highest, NULL);
    }
    if (status == 0 && strcmp(method, "GET") == 0) {
        char body[512];
        highest = tn_gate_highest(gate->fences, claim.resource);
        (void)snprintf(body, sizeof body, "{\"resource\":\"%s\",\"token\":%" PRIu64 "}\n",
                       claim.resource, highest);
        return answer(connection, 200, &highest, NULL, body);
    }
    return refuse(connection, status != 0 ? status : 405, NULL, why != NULL ? why : "PUT or GET");
}

/* nginx hands the fields of the request on; the path, if it is needed, in X-Original-URI. The gap
 * between this answer and what nginx does then is nginx's: see docs/fencing.md. */
static enum MHD_Result serve_auth(const struct tn_gate *gate, struct MHD_Connection *connection)
{
    static const char field[] = "Fence-Status";
    struct claim claim = { 0 };
    const char *why = NULL;
    uint64_t highest;
    const char *uri = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "X-Original-URI");

    (void)MHD_get_connection_values(connection, MHD_HEADER_KIND, read_field, &claim);
    unsigned status = read_resource(gate, uri != NULL && uri[0] == '/' ? uri : "/", &claim, &why);
    if (status == 0)
        status = read_token(&claim, &why);
    if (status != 0)
        return refuse(connection, status, field, why);
    int rc = tn_gate_enter(gate->fences, claim.resource, claim.token, gate->options.timeout, NULL,
                           &highest);
    return tell(connection, rc, &claim, highest, field);
}

struct listing {
    char *buf;
    size_t size;
    struct tn_text text;
};

static void add_fence(void *arg, const char *resource, uint64_t token)
{
    struct listing *listing = arg;

    if (listing->size - listing->text.len < 400) {
        char *larger = realloc(listing->buf, 2 * listing->size);
        if (larger == NULL) {
            listing->text.truncated = true;
            return;
        }
        listing->buf = listing->text.buf = larger;
        listing->size = listing->text.size = 2 * listing->size;
    }
    tn_text_addf(&listing->text, "{\"resource\":\"%s\",\"token\":%" PRIu64 "}\n", resource, token);
}

static enum MHD_Result serve_list(const struct tn_gate *gate, struct MHD_Connection *connection)
{
    struct listing listing = { .buf = malloc(4096), .size = 4096 };

    if (listing.buf == NULL)
        return MHD_NO;
    tn_text_init(&listing.text, listing.buf, listing.size);
    tn_gate_list(gate->fences, add_fence, &listing);
    enum MHD_Result rc = tn_text_truncated(&listing.text)
                             ? refuse(connection, 503, NULL, "out of memory")
                             : answer(connection, 200, NULL, NULL, listing.buf);
    free(listing.buf);
    return rc;
}

static enum MHD_Result serve(const struct tn_gate *gate, struct MHD_Connection *connection,
                             const char *method, const struct request *request)
{
    static const char own[] = "/.tenure/";
    static const char one[] = "fence/";
    const char *rest = request->uri + sizeof own - 1;

    if (request->too_large)
        return refuse(connection, 413, NULL, "the body has more than 16 MiB");
    if (request->uri[0] != '/')
        return refuse(connection, 400, NULL, "the target must be a path");
    for (const char *c = request->uri; *c != '\0'; c++) {
        if (*c <= ' ' || *c > '~')
            return refuse(connection, 400, NULL, "the target has a byte that must be encoded");
    }
    if (strncmp(request->uri, own, sizeof own - 1) != 0)
        return pass(gate, connection, method, request);
    if (strncmp(rest, one, sizeof one - 1) == 0)
        return serve_fence(gate, connection, method, rest + sizeof one - 1);
    if (strcmp(rest, "auth") == 0)
        return serve_auth(gate, connection);
    if (strcmp(rest, "fences") == 0)
        return serve_list(gate, connection);
    if (strcmp(rest, "healthz") == 0)
        return answer(connection, 200, NULL, NULL, "{\"ok\":true}\n");
    return refuse(connection, 404, NULL, "there is no such endpoint");
}

/* --- libmicrohttpd --------------------------------------------------------------------------- */

/* The only place where the target is told as it was sent. */
static void *begin(void *arg, const char *uri, struct MHD_Connection *connection)
{
    struct request *request = calloc(1, sizeof *request);

    (void)arg;
    (void)connection;
    if (request != NULL)
        request->uri = strdup(uri);
    return request;
}

static void end(void *arg, struct MHD_Connection *connection, void **context,
                enum MHD_RequestTerminationCode why)
{
    struct request *request = *context;

    (void)arg;
    (void)connection;
    (void)why;
    if (request != NULL) {
        free(request->uri);
        free(request->body);
    }
    free(request);
    *context = NULL;
}

static void gather(struct request *request, const char *data, size_t len)
{
    if (request->too_large || request->len + len > BODY_MAX) {
        request->too_large = true;
        return;
    }
    if (request->len + len > request->size) {
        size_t size = request->size > 0 ? request->size : 4096;
        while (size < request->len + len)
            size *= 2;
        char *larger = realloc(request->body, size);
        request->too_large = larger == NULL;
        if (larger == NULL)
            return;
        request->body = larger;
        request->size = size;
    }
    memcpy(request->body + request->len, data, len);
    request->len += len;
}

static enum MHD_Result hear(void *arg, struct MHD_Connection *connection, const char *url,
                            const char *method, const char *version, const char *data, size_t *size,
                            void **context)
{
    struct request *request = *context;

    (void)url;
    (void)version;
    if (request == NULL || request->uri == NULL)
        return MHD_NO;
    if (!request->begun) { /* The head only. */
        request->begun = true;
        return MHD_YES;
    }
    if (*size > 0) {
        gather(request, data, *size);
        *size = 0;
        return MHD_YES;
    }
    return serve(arg, connection, method, request);
}

static void watch_connection(void *arg, struct MHD_Connection *connection, void **context,
                             enum MHD_ConnectionNotificationCode what)
{
    (void)arg;
    (void)connection;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        *context = calloc(1, sizeof(struct tn_http_client *));
        return;
    }
    struct tn_http_client **slot = *context;
    if (slot != NULL && *slot != NULL) {
        tn_http_client_done(*slot);
        free(*slot);
    }
    free(slot);
    *context = NULL;
}

/* --- Opening -------------------------------------------------------------------------------- */

static int listen_on(const struct tn_place *place, int *ret_fd, struct tn_text *reterr)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found = NULL;
    int one = 1;

    int rc = getaddrinfo(place->host, place->port, &hints, &found);
    if (rc != 0)
        return tn_fence_refuse(TENURE_E_INVALID, place->host, gai_strerror(rc), reterr);
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bool good = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 &&
                listen(fd, CONNECTIONS_MAX) == 0;
    int error = errno;
    freeaddrinfo(found);
    if (!good && fd >= 0)
        (void)close(fd);
    if (!good)
        return tn_fence_refuse_errno(place->host, error, reterr);
    *ret_fd = fd;
    return 0;
}

static int port_of(int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;

    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        return 0;
    if (address.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&address)->sin6_port);
    return ntohs(((const struct sockaddr_in *)&address)->sin_port);
}

static int start(struct tn_gate *gate, int fd, struct tn_text *reterr)
{
    gate->port = port_of(fd);
    gate->daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL,
        NULL, hear, gate, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_URI_LOG_CALLBACK, begin, gate,
        MHD_OPTION_NOTIFY_COMPLETED, end, gate, MHD_OPTION_NOTIFY_CONNECTION, watch_connection,
        gate, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_SECONDS, MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK, MHD_OPTION_END);
    if (gate->daemon != NULL)
        return 0;
    (void)close(fd);
    tn_text_add(reterr, "out of memory, threads or descriptors");
    return TENURE_E_UNAVAILABLE;
}

int tn_gate_open(const struct tn_gate_options *options, struct tn_gate **ret_gate,
                 struct tn_text *reterr)
{
    struct tn_place place;
    struct tn_gate *gate = calloc(1, sizeof *gate);
    int fd = -1;
    int rc = TENURE_E_INVALID;

    if (gate == NULL) {
        tn_text_add(reterr, "out of memory");
        return TENURE_E_NOMEM;
    }
    gate->options = *options;
    if (options->upstream != NULL && !tn_http_url_parse(options->upstream, &gate->place))
        tn_text_add(reterr, "--upstream: write http://HOST[:PORT]");
    else if (!tn_place_parse(options->listen, strlen(options->listen), "7423", &place))
        tn_text_add(reterr, "--listen: write HOST:PORT, as in 127.0.0.1:7423");
    else
        rc = tn_gate_fences_open(options->fences, &gate->fences, reterr);
    if (rc == 0)
        rc = listen_on(&place, &fd, reterr);
    if (rc == 0)
        rc = start(gate, fd, reterr);
    if (rc < 0) {
        tn_gate_close(gate);
        return rc;
    }
    *ret_gate = gate;
    return 0;
}

int tn_gate_port(const struct tn_gate *gate)
{
    return gate->port;
}

void tn_gate_close(struct tn_gate *gate)
{
    if (gate == NULL)
        return;
    if (gate->daemon != NULL)
        MHD_stop_daemon(gate->daemon);
    tn_gate_fences_close(gate->fences);
    free(gate);
}

#endif
