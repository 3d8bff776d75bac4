/* client.c - unary calls, the password, and whose fault it was; client.h has the contract.
 *
 * Happy path: the connection comes up, Authenticate if there is a user, then every waiting call is
 * started, and later ones at once. What can fail: the connection, which leaves calls that were sent
 * with an unknown outcome and others waiting for the next; the token, which is asked for again. */
#include "stores/etcd/client.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "runtime/random.h"

enum { WINDOW = 64 }; /* Calls under way. */

struct tn_etcd_rpc {
    struct tn_grpc_call call; /* First. */
    struct tn_list_node node; /* Under way, or waiting. */
    struct tn_etcd_client *client;
    const char *path;
    const ProtobufCMessageDescriptor *type;
    ProtobufCMessage *message;
    tn_etcd_answered *answered;
    void *arg;
    tenure_ns give_up_at;
    bool started, retried, own; /* @own: the client's, needs no token. */
    bool urgent;                /* A keepalive. */
    size_t len;
    uint8_t packed[];
};

/* --- Errors ----------------------------------------------------------------------------------- */

static const struct {
    int grpc;
    const char *contains;
    int status;
    const char *text;
} meanings[] = {
    { TN_GRPC_INVALID_ARGUMENT, "user name is empty", TENURE_E_DENIED,
      "the server asks for a user; name one in the URL or in TENURE_ETCD_USER and "
      "TENURE_ETCD_PASSWORD" },
    { TN_GRPC_INVALID_ARGUMENT, "authentication failed", TENURE_E_DENIED,
      "wrong user or password" },
    { TN_GRPC_PERMISSION_DENIED, "", TENURE_E_DENIED,
      "permission denied; grant the user's role readwrite on the prefix of the URL" },
    { TN_GRPC_RESOURCE_EXHAUSTED, "space exceeded", TENURE_E_FULL,
      "the server's database is full; compact and defragment it, or raise its quota" },
    { TN_GRPC_OUT_OF_RANGE, "TTL", TENURE_E_INVALID, "the TTL is too large for the server" },
};

static int outcome_of(int grpc)
{
    switch (grpc) {
    case TN_GRPC_INVALID_ARGUMENT:
    case TN_GRPC_NOT_FOUND:
    case TN_GRPC_RESOURCE_EXHAUSTED:
    case TN_GRPC_FAILED_PRECONDITION:
    case TN_GRPC_OUT_OF_RANGE:
    case TN_GRPC_UNIMPLEMENTED:
    case TN_GRPC_UNAUTHENTICATED:
        return TENURE_E_UNAVAILABLE; /* Refused: nothing has happened. */
    default:
        return TENURE_E_TIMEOUT; /* "request timed out", "leader changed": who knows. */
    }
}

void tn_etcd_explain(struct tn_etcd_client *client, const struct tn_grpc_call *call,
                     struct tn_etcd_reply *ret_reply)
{
    char *text = client->said;
    const char *why = call->text;
    int status = outcome_of(call->status);

    if (call->status == TN_GRPC_LOST && !call->sent)
        status = TENURE_E_UNAVAILABLE;
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (call->status == meanings[i].grpc && strstr(call->text, meanings[i].contains) != NULL) {
            status = meanings[i].status;
            why = meanings[i].text;
            break;
        }
    }
    if (call->status == TN_GRPC_LOST && client->stream.error[0] != '\0')
        (void)snprintf(text, sizeof client->said, "%s", client->stream.error);
    else
        (void)snprintf(text, sizeof client->said, "etcd %.120s: %.250s", client->stream.at.where,
                       why);
    ret_reply->status = status;
    ret_reply->grpc = call->status;
    ret_reply->message = NULL;
    ret_reply->text = text;
}

static bool is_token_trouble(const struct tn_grpc_call *call)
{
    return call->status == TN_GRPC_UNAUTHENTICATED ||
           (call->status == TN_GRPC_INVALID_ARGUMENT &&
            strstr(call->text, "auth store is old") != NULL);
}

/* --- Calls ------------------------------------------------------------------------------------ */

bool tn_etcd_is_ready(const struct tn_etcd_client *client)
{
    return client->grpc != NULL && client->authenticated && !client->closing;
}

size_t tn_etcd_fields(const struct tn_etcd_client *client, struct tn_grpc_field fields[2])
{
    size_t count = 0;

    if (client->token[0] != '\0')
        fields[count++] = (struct tn_grpc_field) { "token", client->token };
    return count;
}

static struct tn_etcd_rpc *rpc_of(struct tn_list_node *node)
{
    return TN_LIST_ENTRY(node, struct tn_etcd_rpc, node);
}

/* NULL: none. */
static struct tn_etcd_rpc *first_rpc(const struct tn_list *list)
{
    struct tn_list_node *first = tn_list_first(list);

    return first != NULL ? rpc_of(first) : NULL;
}

static void remove_rpc(struct tn_etcd_rpc *rpc)
{
    tn_list_remove(&rpc->node);
    rpc->client->running -= rpc->started;
    rpc->started = false;
}

static void add_waiting(struct tn_etcd_rpc *rpc, bool in_front)
{
    if (in_front)
        tn_list_add_first(&rpc->client->waiting, &rpc->node);
    else
        tn_list_add(&rpc->client->waiting, &rpc->node);
}

static void free_rpc(struct tn_etcd_rpc *rpc)
{
    if (rpc->message != NULL)
        protobuf_c_message_free_unpacked(rpc->message, NULL);
    free(rpc);
}

static void start_waiting(struct tn_etcd_client *client);

static void answer(struct tn_etcd_rpc *rpc, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_client *client = rpc->client;

    remove_rpc(rpc);
    rpc->answered(rpc->arg, reply);
    free_rpc(rpc);
    start_waiting(client);
}

static void fail(struct tn_etcd_rpc *rpc, int status, const char *text)
{
    struct tn_etcd_reply reply = { .status = status, .grpc = TN_GRPC_LOST, .text = text };

    tn_grpc_cancel(&rpc->call);
    answer(rpc, &reply);
}

static void heard(struct tn_grpc_call *call, const uint8_t *data, size_t len)
{
    struct tn_etcd_rpc *rpc = (struct tn_etcd_rpc *)(void *)call;

    if (rpc->message == NULL)
        rpc->message = protobuf_c_message_unpack(rpc->type, NULL, len, data);
}

static void authenticate(struct tn_etcd_client *client);

/* A server always heads what it says of keys with its revision, and everybody here reads that. */
static bool is_whole(const struct tn_etcd_rpc *rpc)
{
    if (rpc->message == NULL || rpc->type != &etcd__txn_response__descriptor)
        return rpc->message != NULL;
    return ((const Etcd__TxnResponse *)(const void *)rpc->message)->header != NULL;
}

static void ended(struct tn_grpc_call *call)
{
    struct tn_etcd_rpc *rpc = (struct tn_etcd_rpc *)(void *)call;
    struct tn_etcd_client *client = rpc->client;
    struct tn_etcd_reply reply = { .grpc = call->status, .message = rpc->message };

    if (call->status == TN_GRPC_OK && is_whole(rpc)) {
        answer(rpc, &reply);
        return;
    }
    if (call->status == TN_GRPC_LOST && !call->sent && !client->closing) {
        remove_rpc(rpc);
        add_waiting(rpc, true); /* For the next connection. */
        return;
    }
    if (is_token_trouble(call) && !rpc->retried && !rpc->own &&
        client->config.url.user[0] != '\0') {
        rpc->retried = true;
        remove_rpc(rpc);
        add_waiting(rpc, true);
        client->authenticated = false;
        authenticate(client);
        return;
    }
    if (call->status == TN_GRPC_UNAVAILABLE && client->config.url.count > 1)
        tn_stream_doubt(&client->stream, call->text);
    tn_etcd_explain(client, call, &reply);
    if (call->status == TN_GRPC_OK) { /* A status, but not the message it belongs to. */
        reply.status = TENURE_E_TIMEOUT;
        reply.text = "etcd: an answer that cannot be read";
    }
    answer(rpc, &reply);
}

/* False: it waits on. */
static bool start(struct tn_etcd_rpc *rpc)
{
    struct tn_grpc_field fields[3];
    struct tn_etcd_client *client = rpc->client;
    size_t count = rpc->own ? 0 : tn_etcd_fields(client, fields);

    /* A member that has lost the others must say so at once instead of leaving us waiting. */
    if (rpc->urgent)
        fields[count++] = (struct tn_grpc_field) { "hasleader", "true" };
    rpc->call.message = heard;
    rpc->call.done = ended;
    if (tn_grpc_start(client->grpc, &rpc->call, rpc->path, fields, count) < 0)
        return false;
    if (tn_grpc_send(&rpc->call, rpc->packed, rpc->len, true) < 0) {
        tn_grpc_cancel(&rpc->call);
        return false;
    }
    tn_etcd_sending(client);
    remove_rpc(rpc);
    tn_list_add(&client->under_way, &rpc->node);
    rpc->started = true;
    client->running++;
    return true;
}

/* In the order in which they were asked, as many as fit. */
static void start_waiting(struct tn_etcd_client *client)
{
    for (struct tn_etcd_rpc *rpc; tn_etcd_is_ready(client) &&
                                  (rpc = first_rpc(&client->waiting)) != NULL &&
                                  (client->running < WINDOW || rpc->urgent);)
        if (!start(rpc))
            return;
}

static struct tn_etcd_rpc *add_rpc(struct tn_etcd_client *client, const char *path,
                                   const ProtobufCMessage *request,
                                   const ProtobufCMessageDescriptor *type, tenure_ns give_up_at,
                                   tn_etcd_answered *answered, void *arg)
{
    size_t len = protobuf_c_message_get_packed_size(request);
    struct tn_etcd_rpc *rpc = calloc(1, sizeof *rpc + len);

    if (rpc == NULL)
        return NULL;
    rpc->client = client;
    rpc->path = path;
    rpc->type = type;
    rpc->answered = answered;
    rpc->arg = arg;
    rpc->give_up_at = give_up_at;
    rpc->len = protobuf_c_message_pack(request, rpc->packed);
    TN_ASSERT(rpc->len == len);
    add_waiting(rpc, false);
    return rpc;
}

struct tn_etcd_rpc *tn_etcd_call(struct tn_etcd_client *client, const char *path,
                                 const ProtobufCMessage *request,
                                 const ProtobufCMessageDescriptor *type, tenure_ns give_up_at,
                                 tn_etcd_answered *answered, void *arg)
{
    struct tn_etcd_rpc *rpc = add_rpc(client, path, request, type, give_up_at, answered, arg);

    if (rpc == NULL)
        return NULL;
    start_waiting(client);
    tn_etcd_client_wake(client);
    return rpc;
}

struct tn_etcd_rpc *tn_etcd_txn(struct tn_etcd_client *client, const Etcd__TxnRequest *txn,
                                tenure_ns give_up_at, tn_etcd_answered *answered, void *arg)
{
    return tn_etcd_call(client, "/etcdserverpb.KV/Txn", &txn->base, &etcd__txn_response__descriptor,
                        give_up_at, answered, arg);
}

struct tn_etcd_rpc *tn_etcd_keepalive(struct tn_etcd_client *client, int64_t id,
                                      tenure_ns give_up_at, tn_etcd_answered *answered, void *arg)
{
    Etcd__LeaseKeepAliveRequest request = ETCD__LEASE_KEEP_ALIVE_REQUEST__INIT;

    request.id = id;
    struct tn_etcd_rpc *rpc =
        add_rpc(client, "/etcdserverpb.Lease/LeaseKeepAlive", &request.base,
                &etcd__lease_keep_alive_response__descriptor, give_up_at, answered, arg);
    if (rpc == NULL)
        return NULL;
    rpc->urgent = true;
    tn_etcd_hurry(rpc);
    start_waiting(client);
    tn_etcd_client_wake(client);
    return rpc;
}

void tn_etcd_hurry(struct tn_etcd_rpc *rpc)
{
    if (rpc->started)
        return;
    remove_rpc(rpc);
    add_waiting(rpc, true);
}

void tn_etcd_cancel(struct tn_etcd_rpc *rpc)
{
    if (rpc == NULL)
        return;
    struct tn_etcd_client *client = rpc->client;
    tn_grpc_cancel(&rpc->call);
    remove_rpc(rpc);
    free_rpc(rpc);
    start_waiting(client);
}

/* --- Who we are ------------------------------------------------------------------------------- */

/* Since 3.4.31 and 3.5.13 a leader that was stuck no longer revokes leases that its successor has
 * kept alive, and no watch loses events when the history is compacted (etcd pull requests 17425,
 * 17465, 17610, 17612). */
static void judge_version(struct tn_etcd_client *client)
{
    unsigned major = 0, minor = 0, patch = 0;

    if (sscanf(client->version, "%u.%u.%u", &major, &minor, &patch) != 3)
        return;
    bool faulty = major < 3 || (major == 3 && minor < 4) ||
                  (major == 3 && minor == 4 && patch < 31) ||
                  (major == 3 && minor == 5 && patch < 13);
    if (faulty)
        (void)snprintf(client->warning, sizeof client->warning,
                       "etcd %s has known lease faults (a stuck leader revokes leases that are "
                       "kept alive); use 3.4.31, 3.5.13 or later",
                       client->version);
}

static void got_version(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_client *client = arg;

    if (reply->status != 0)
        return;
    const Etcd__StatusResponse *status = (const void *)reply->message;
    (void)snprintf(client->version, sizeof client->version, "%s", status->version);
    judge_version(client);
}

static void ask_version(struct tn_etcd_client *client)
{
    Etcd__StatusRequest request = ETCD__STATUS_REQUEST__INIT;

    if (client->asked_version)
        return;
    client->asked_version = true;
    (void)tn_etcd_call(client, "/etcdserverpb.Maintenance/Status", &request.base,
                       &etcd__status_response__descriptor,
                       tn_clock_now(client->clock) + client->patience, got_version, client);
}

static void let_in(struct tn_etcd_client *client)
{
    client->authenticated = true;
    client->denied[0] = '\0';
    ask_version(client);
    start_waiting(client);
    tn_etcd_streams_up(client);
    client->ready(client->arg);
    tn_etcd_flush(client);
}

/* Nobody gets in: what waits is told now, for waiting does not help. */
static void turned_away(struct tn_etcd_client *client, const struct tn_etcd_reply *reply)
{
    (void)snprintf(client->denied, sizeof client->denied, "%s", reply->text);
    for (struct tn_etcd_rpc *rpc; (rpc = first_rpc(&client->waiting)) != NULL;)
        fail(rpc, TENURE_E_DENIED, client->denied);
    tn_stream_doubt(&client->stream, "the server does not let us in");
}

static void got_token(void *arg, const struct tn_etcd_reply *reply)
{
    struct tn_etcd_client *client = arg;

    client->authenticating = false;
    if (reply->grpc == TN_GRPC_FAILED_PRECONDITION) {
        let_in(client); /* The server knows no users (yet). */
    } else if (reply->status == TENURE_E_DENIED) {
        turned_away(client, reply);
    } else if (reply->status != 0) {
        tn_stream_doubt(&client->stream, "cannot authenticate");
    } else {
        const Etcd__AuthenticateResponse *response = (const void *)reply->message;
        (void)snprintf(client->token, sizeof client->token, "%s", response->token);
        let_in(client);
    }
}

static void authenticate(struct tn_etcd_client *client)
{
    Etcd__AuthenticateRequest request = ETCD__AUTHENTICATE_REQUEST__INIT;

    if (client->authenticating || client->grpc == NULL)
        return;
    client->token[0] = '\0';
    request.name = client->config.url.user;
    request.password = client->config.url.password;
    struct tn_etcd_rpc *rpc =
        add_rpc(client, "/etcdserverpb.Auth/Authenticate", &request.base,
                &etcd__authenticate_response__descriptor,
                tn_clock_now(client->clock) + client->patience, got_token, client);
    if (rpc == NULL) {
        tn_stream_doubt(&client->stream, "out of memory");
        return;
    }
    rpc->own = true;
    client->authenticating = true;
    if (!start(rpc))
        tn_stream_doubt(&client->stream, "cannot authenticate");
    tn_etcd_client_wake(client);
}

/* --- The connection --------------------------------------------------------------------------- */

static const char not_http2[] = "the answer is not HTTP/2; does the server want TLS (etcds:)?";

void tn_etcd_flush(struct tn_etcd_client *client)
{
    const uint8_t *data;
    ssize_t len = 0;

    while (client->grpc != NULL && (len = tn_grpc_pull(client->grpc, &data)) > 0)
        tn_stream_write(&client->stream, data, (size_t)len);
    if (len < 0)
        tn_stream_doubt(&client->stream, not_http2);
}

static void came_up(void *arg)
{
    struct tn_etcd_client *client = arg;

    client->proven = false;
    if (tn_grpc_new(&client->grpc, client->stream.at.where, client->tls != NULL) < 0) {
        tn_stream_doubt(&client->stream, "out of memory");
        return;
    }
    client->asked_at = 0;
    if (client->config.url.user[0] != '\0')
        authenticate(client);
    else
        let_in(client);
    tn_etcd_flush(client);
}

/* Ends the calls under way; those that were not sent wait for the next connection, but for the
 * client's own. */
static void went_down(void *arg)
{
    struct tn_etcd_client *client = arg;
    struct tn_grpc *grpc = client->grpc;

    if (grpc == NULL)
        return;
    client->grpc = NULL;
    tn_grpc_free(grpc);
    client->authenticated = client->authenticating = false;
    for (struct tn_list_node *node = tn_list_first(&client->waiting), *next; node != NULL;
         node = next) {
        next = tn_list_next(&client->waiting, node);
        if (rpc_of(node)->own)
            tn_etcd_cancel(rpc_of(node));
    }
    tn_etcd_streams_down(client);
}

/* The server is proved to be one by its first bytes, which are its settings. */
static void bytes_came(void *arg, const uint8_t *data, size_t len)
{
    struct tn_etcd_client *client = arg;

    if (client->grpc == NULL)
        return;
    client->proven = true;
    tn_stream_proven(&client->stream);
    if (tn_grpc_feed(client->grpc, data, len) < 0) {
        tn_stream_drop(&client->stream, not_http2);
        return;
    }
    tn_etcd_flush(client);
    if (client->grpc != NULL && tn_grpc_leaving(client->grpc))
        tn_stream_doubt(&client->stream, "the server is going away");
}

void tn_etcd_sending(struct tn_etcd_client *client)
{
    if (client->asked_at <= client->stream.heard_at)
        client->asked_at = tn_clock_now(client->clock);
}

/* Sooner if there is somebody else to ask; and at once if this one has not even said the settings
 * with which every server begins: for one that stands still, the kernel takes connections. */
static tenure_ns suspicious_silence(const struct tn_etcd_client *client)
{
    tenure_ns silence = 4 * client->patience, least = TN_SEC(1);

    if (client->config.url.count > 1) {
        silence = (client->proven ? 2 : 1) * client->patience;
        least = TN_MS(500);
    }
    return silence > least ? silence : least;
}

void tn_etcd_suspect(struct tn_etcd_client *client)
{
    tenure_ns silence = suspicious_silence(client);

    if (client->grpc != NULL && client->asked_at > client->stream.heard_at &&
        tn_clock_now(client->clock) - client->asked_at >= silence)
        tn_stream_doubt(&client->stream, "no answer; is the server overloaded or cut off?");
}

/* --- Time ------------------------------------------------------------------------------------- */

static void give_up(struct tn_etcd_rpc *rpc)
{
    struct tn_etcd_client *client = rpc->client;
    char text[TN_ERROR_TEXT];

    if (rpc->started && rpc->call.sent) {
        (void)snprintf(text, sizeof text, "etcd %.120s: no answer in time",
                       client->stream.at.where);
        tn_etcd_suspect(client);
        fail(rpc, TENURE_E_TIMEOUT, text);
    } else if (client->denied[0] != '\0') {
        (void)snprintf(text, sizeof text, "%s", client->denied);
        fail(rpc, TENURE_E_DENIED, text);
    } else {
        if (client->stream.error[0] != '\0')
            (void)snprintf(text, sizeof text, "%s", client->stream.error);
        else
            (void)snprintf(text, sizeof text, "etcd %.120s: %s", client->stream.at.where,
                           tn_etcd_is_ready(client) ? "the server is too slow for what is asked"
                                                    : "not connected yet");
        fail(rpc, TENURE_E_UNAVAILABLE, text);
    }
}

/* The list may be another one after each. */
static void give_up_late(struct tn_list *list, tenure_ns now)
{
    for (struct tn_list_node *node = tn_list_first(list), *next; node != NULL; node = next) {
        next = tn_list_next(list, node);
        if (now >= rpc_of(node)->give_up_at) {
            give_up(rpc_of(node));
            next = tn_list_first(list);
        }
    }
}

static void hear_tick(uv_timer_t *timer)
{
    struct tn_etcd_client *client = timer->data;
    tenure_ns now = tn_clock_now(client->clock);

    give_up_late(&client->under_way, now);
    give_up_late(&client->waiting, now);
    if (client->running == 0 && tn_list_first(&client->waiting) == NULL)
        (void)uv_timer_stop(&client->tick);
    client->ticked(client->arg);
    tn_etcd_flush(client);
}

void tn_etcd_client_wake(struct tn_etcd_client *client)
{
    uint64_t every = (uint64_t)(client->patience / TN_MS(16));

    if (uv_is_active((uv_handle_t *)&client->tick) || client->closing)
        return;
    every = every < 5 ? 5 : every > 100 ? 100 : every;
    int rc = uv_timer_start(&client->tick, hear_tick, every, every);
    TN_ASSERT(rc == 0);
}

/* --- Life and death --------------------------------------------------------------------------- */

int tn_etcd_client_init(struct tn_etcd_client *client, uv_loop_t *loop, const char *rest, bool tls,
                        struct tn_text *reterr)
{
    struct tn_secret secret;
    uint64_t seed;
    struct tn_stream *stream = &client->stream;
    static const struct tn_stream_host stream_host = { came_up, went_down, bytes_came };

    int rc = tn_etcd_config_parse(&client->config, rest, tls, reterr);
    if (rc == 0)
        rc = tn_random_secret(&secret);
    if (rc == 0 && tls)
        rc = tn_tls_context_new(&client->tls,
                                &(struct tn_tls_options) { .scheme = "etcds",
                                                           .ca = client->config.url.tls.ca,
                                                           .cert = client->config.url.tls.cert,
                                                           .key = client->config.url.tls.key,
                                                           .alpn = "h2" },
                                reterr);
    if (rc < 0)
        return rc;
    memcpy(&seed, &secret, sizeof seed);
    tn_list_init(&client->under_way);
    tn_list_init(&client->waiting);
    tn_list_init(&client->watchers);
    stream->host = &stream_host;
    stream->arg = client;
    stream->scheme = "etcd";
    stream->tls_scheme = "etcds";
    stream->loop = loop;
    stream->clock = client->clock;
    stream->tls = client->tls;
    stream->tls_name = client->config.url.tls.name;
    stream->reach_ms = tn_stream_reach_ms(client->patience);
    rc = uv_timer_init(loop, &client->tick) == 0 ? 0 : TENURE_E_UNAVAILABLE;
    client->tick.data = client;
    if (rc == 0)
        rc = tn_stream_init(stream, client->config.url.endpoints, client->config.url.count, seed);
    if (rc < 0)
        tn_tls_context_free(client->tls);
    client->parts = 2;
    return rc;
}

void tn_etcd_client_start(struct tn_etcd_client *client)
{
    tn_stream_start(&client->stream);
}

static void part_closed(struct tn_etcd_client *client)
{
    if (--client->parts > 0)
        return;
    tn_tls_context_free(client->tls);
    client->closed(client->arg);
}

static void stream_closed(void *arg)
{
    part_closed(arg);
}

static void tick_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

void tn_etcd_client_close(struct tn_etcd_client *client, void (*closed)(void *arg))
{
    client->closing = true;
    client->closed = closed;
    for (struct tn_etcd_rpc *rpc; (rpc = first_rpc(&client->under_way)) != NULL ||
                                  (rpc = first_rpc(&client->waiting)) != NULL;)
        fail(rpc, TENURE_E_CLOSED, "closed");
    tn_etcd_streams_close(client);
    tn_stream_close(&client->stream, stream_closed);
    uv_close((uv_handle_t *)&client->tick, tick_closed);
}
