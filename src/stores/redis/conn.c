/* conn.c - one connection to Redis: find the master, look at the server, load the script.
 *
 * Happy path: HELLO with AUTH is the link's; then SELECT, INFO, SCRIPT LOAD, and the script's own
 * hello, which writes and publishes; then whoever waits is let through. With Sentinel the first
 * connection only asks where the master is, and the second goes there; in a cluster likewise, to
 * the node that has our slot.
 * What can fail: each of these, with the server's word for it. What asking again cannot mend (a
 * password, a permission, an eviction policy) is told to all who wait, at once. */
#define _GNU_SOURCE /* memrchr */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/redis/lease.h"
#include "stores/redis/private.h"

#define GREETING_MS 5000

/* A cluster that changes may name another node now and then. */
#define MOVES_MAX 5

/* --- What the server says ------------------------------------------------------------------- */

static const struct {
    const char *sign;
    int code;
    const char *remedy;
} signs[] = {
    { "NOAUTH", TENURE_E_DENIED, "it wants a password; write redis://USER:PASSWORD@HOST" },
    { "WRONGPASS", TENURE_E_DENIED, "check the user and the password" },
    { "NOPERM", TENURE_E_DENIED,
      "the user needs ~{tenure}* &{tenure}* and +hello +select +info +subscribe +unsubscribe "
      "+eval +evalsha +script|load, and what the script calls" },
    { "DENIED", TENURE_E_DENIED, "give the server a password, or turn its protected mode off" },
    { "READONLY", TENURE_E_UNAVAILABLE, "this is a read-only replica; connect to the master" },
    { "MASTERDOWN", TENURE_E_UNAVAILABLE, "this replica has lost its master" },
    { "LOADING", TENURE_E_UNAVAILABLE, "it is still reading its data; wait" },
    { "OOM", TENURE_E_UNAVAILABLE, "its memory is full; raise maxmemory there" },
    { "MISCONF", TENURE_E_UNAVAILABLE, "it cannot write its data; look at its disk and its log" },
    { "NOREPLICAS", TENURE_E_UNAVAILABLE, "it has fewer replicas than min-replicas-to-write" },
    { "BUSY", TENURE_E_UNAVAILABLE, "another script keeps it busy" },
    { "MOVED", TENURE_E_UNAVAILABLE, "this is a cluster; connect to the node that it names" },
    { "CLUSTERDOWN", TENURE_E_UNAVAILABLE, "the cluster is down" },
    { "ERR DB index", TENURE_E_UNAVAILABLE, "there is no such database; check the URL" },
    { "ERR SELECT is not allowed", TENURE_E_UNAVAILABLE, "a cluster has database 0 only" },
};

/* A script's error begins with the code of what failed in it, and ends with where. */
int tn_rd_blame(const struct tn_resp_value *error, struct tn_text *ret_text)
{
    size_t len = error->len;
    const char *script = NULL;

    for (size_t i = 0; i + 8 < len && script == NULL; i++)
        if (memcmp(error->bytes + i, " script: ", 9) == 0)
            script = error->bytes + i;
    if (script != NULL)
        len = (size_t)(script - error->bytes);
    tn_text_escape(ret_text, error->bytes, len < 90 ? len : 90);
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (tn_resp_begins(error, signs[i].sign)) {
            tn_text_addf(ret_text, "; %s", signs[i].remedy);
            return signs[i].code;
        }
    }
    return TENURE_E_UNAVAILABLE;
}

/* --- Replies -------------------------------------------------------------------------------- */

struct tn_rd_reply tn_rd_reply_of(const char *bytes, size_t len)
{
    struct tn_rd_reply reply = { .bytes = bytes, .len = len };
    struct tn_resp_value head;

    if (tn_resp_next(bytes, len, &reply.at, &head) == 0 &&
        (head.type == TN_RESP_ARRAY || head.type == TN_RESP_PUSH))
        reply.left = head.count;
    return reply;
}

struct tn_resp_word tn_rd_next(struct tn_rd_reply *reply)
{
    struct tn_resp_word word = { "", 0 };
    struct tn_resp_value value;

    if (reply->left == 0 || tn_resp_next(reply->bytes, reply->len, &reply->at, &value) < 0)
        return word;
    reply->left--;
    if (value.type == TN_RESP_STRING)
        word = (struct tn_resp_word) { value.bytes, value.len };
    return word;
}

uint64_t tn_rd_number(struct tn_resp_word word)
{
    uint64_t value = 0;

    for (uint32_t i = 0; i < word.len && word.bytes[i] >= '0' && word.bytes[i] <= '9'; i++)
        value = value * 10 + (uint64_t)(word.bytes[i] - '0');
    return value;
}

tenure_ns tn_rd_ms(struct tn_resp_word word)
{
    const uint64_t most = (uint64_t)(INT64_MAX / TN_MS(4));
    uint64_t number = tn_rd_number(word);

    return TN_MS(number < most ? number : most);
}

bool tn_rd_is(struct tn_resp_word word, const char *text)
{
    return word.len == strlen(text) && memcmp(word.bytes, text, word.len) == 0;
}

/* --- The greeting --------------------------------------------------------------------------- */

static void greeted(struct tn_resp_call *call);

static void refuse_server(struct tn_rd_store *store, int code, const char *why)
{
    tn_resp_link_refuse(&store->conn.link, code, why);
}

static void greet(struct tn_rd_store *store, const struct tn_resp_word *words, uint32_t count,
                  const char number[TN_RD_NUMBER])
{
    struct tn_rd_conn *conn = &store->conn;

    conn->call = (struct tn_rd_greet) {
        .base = { .done = greeted, .give_up_at = tn_rd_now(store) + TN_MS(GREETING_MS) },
        .store = store,
    };
    memcpy(conn->call.number, number, TN_RD_NUMBER);
    if (tn_resp_link_greet(&conn->link, &conn->call.base, words, count) < 0)
        refuse_server(store, TENURE_E_NOMEM, "out of memory");
}

static void greet_next(struct tn_rd_store *store, enum tn_rd_greeting greeting)
{
    const struct tn_rd_url *url = &store->url;
    char number[TN_RD_NUMBER];
    const char *texts[][7] = {
        [TN_RD_ASK] = { "SENTINEL", "get-master-addr-by-name", url->sentinel },
        [TN_RD_SELECT] = { "SELECT", url->database },
        [TN_RD_INFO] = { "INFO" },
        [TN_RD_LOAD] = { "SCRIPT", "LOAD", tn_lease },
        [TN_RD_PROBE] = { "EVALSHA", TN_LEASE_SHA, "1", url->base, "hello", url->channel, number },
    };
    struct tn_resp_word words[7];
    uint32_t count = 0;

    tn_rd_draw_number(store, number);
    for (; count < 7 && texts[greeting][count] != NULL; count++)
        words[count] = tn_resp_word_of(texts[greeting][count]);
    store->conn.greeting = greeting;
    greet(store, words, count, number);
}

/* Connect to the server that another one has named. False: it has named none. */
static bool go_to(struct tn_rd_store *store, struct tn_resp_word host, struct tn_resp_word port,
                  const char *why)
{
    struct tn_rd_conn *conn = &store->conn;
    struct tn_endpoint at[TN_ENDPOINTS_MAX] = { { .local = false } };
    unsigned count = store->url.net.count;

    if (host.len == 0 || host.len >= sizeof at->host || port.len == 0 ||
        port.len >= sizeof at->port)
        return false;
    memcpy(at->host, host.bytes, host.len);
    memcpy(at->port, port.bytes, port.len);
    (void)snprintf(at->where, sizeof at->where, "%s:%s", at->host, at->port);
    conn->master = at[0];
    /* Those of the URL are asked again as soon as it cannot be reached. */
    count = count < TN_ENDPOINTS_MAX ? count : TN_ENDPOINTS_MAX - 1;
    memcpy(at + 1, store->url.net.endpoints, count * sizeof *at);
    tn_stream_set_endpoints(&conn->link.stream, at, count + 1);
    tn_stream_doubt(&conn->link.stream, why);
    return true;
}

static void hear_master(struct tn_rd_store *store, const struct tn_resp_call *call)
{
    struct tn_rd_reply reply = tn_rd_reply_of(call->reply, call->reply_len);
    struct tn_resp_word host = tn_rd_next(&reply);
    struct tn_resp_word port = tn_rd_next(&reply);

    if (!go_to(store, host, port, "on to the master"))
        refuse_server(store, TENURE_E_UNAVAILABLE,
                      "this Sentinel knows no such master; check sentinel= in the URL");
}

/* "MOVED SLOT HOST:PORT": all our keys are in one slot of a cluster, and another node has it. An
 * empty host is the one that says so. False: it is something else, or they send us round. */
static bool follow(struct tn_rd_store *store, const struct tn_resp_value *error)
{
    const char *here = store->conn.link.stream.at.host;
    const char *end = error->bytes + error->len;
    bool moved = tn_resp_begins(error, "MOVED") && error->len > 6;
    const char *blank = moved ? memchr(error->bytes + 6, ' ', error->len - 6) : NULL;
    const char *colon = blank != NULL ? memrchr(blank, ':', (size_t)(end - blank)) : NULL;

    if (colon == NULL || store->conn.moves == MOVES_MAX) {
        store->conn.moves = 0;
        return false;
    }
    store->conn.moves++;
    struct tn_resp_word host = { blank + 1, (uint32_t)(colon - blank - 1) };
    struct tn_resp_word port = { colon + 1, (uint32_t)(end - colon - 1) };
    if (host.len == 0)
        host = tn_resp_word_of(here);
    return go_to(store, host, port, "on to the node that has the slot");
}

/* The text behind "\nKEY:" in what INFO says, up to the end of its line. */
static struct tn_resp_word info_of(const struct tn_resp_value *info, const char *key)
{
    struct tn_resp_word found = { "", 0 };
    size_t len = strlen(key);

    for (uint32_t i = 0; i + len < info->len && found.len == 0; i++) {
        if (memcmp(info->bytes + i, key, len) != 0)
            continue;
        found.bytes = info->bytes + i + len;
        while (i + len + found.len < info->len && found.bytes[found.len] != '\r' &&
               found.bytes[found.len] != '\n')
            found.len++;
    }
    return found;
}

/* Keys of ours never expire, so only the policies for all keys take them. A user who may not ask is
 * believed. */
static bool is_fit(struct tn_rd_store *store, const struct tn_resp_value *info)
{
    char why[TN_ERROR_TEXT];
    struct tn_resp_word policy = info_of(info, "\nmaxmemory_policy:");

    if (info->type != TN_RESP_STRING)
        return true;
    struct tn_resp_word version = info_of(info, "\nredis_version:");
    (void)snprintf(store->conn.version, sizeof store->conn.version, "%.*s",
                   (int)(version.len < 20 ? version.len : 20), version.bytes);
    store->conn.forgets = tn_rd_is(info_of(info, "\naof_enabled:"), "0");
    if (tn_rd_number(version) < 6) {
        refuse_server(store, TENURE_E_UNSUPPORTED, "the server is older than Redis 6");
        return false;
    }
    if (tn_rd_is(info_of(info, "\nrole:"), "slave")) {
        refuse_server(store, TENURE_E_UNAVAILABLE,
                      "this is a read-only replica; connect to the master, or through Sentinel");
        return false;
    }
    if (policy.len > 8 && memcmp(policy.bytes, "allkeys-", 8) == 0 &&
        tn_rd_number(info_of(info, "\nmaxmemory:")) > 0) {
        (void)snprintf(why, sizeof why,
                       "maxmemory-policy is %.*s, which may throw leases away; set noeviction",
                       (int)(policy.len < 40 ? policy.len : 40), policy.bytes);
        refuse_server(store, TENURE_E_UNSUPPORTED, why);
        return false;
    }
    return true;
}

static void hear_probe(struct tn_rd_store *store, const struct tn_resp_call *call)
{
    struct tn_rd_reply reply = tn_rd_reply_of(call->reply, call->reply_len);
    bool bound = tn_rd_is(tn_rd_next(&reply), store->conn.call.number);
    struct tn_resp_word word = tn_rd_next(&reply);

    if (!bound) {
        refuse_server(store, TENURE_E_UNAVAILABLE, "an answer belongs to another request");
    } else if (tn_rd_is(word, "ok")) {
        store->conn.moves = 0;
        tn_stream_proven(&store->conn.link.stream);
        tn_resp_link_ready(&store->conn.link);
        tn_rd_catch_up(store);
    } else if (tn_rd_is(word, "mute")) {
        refuse_server(store, TENURE_E_DENIED,
                      "this user may not publish; its ACL needs &{tenure}* and +publish");
    } else {
        refuse_server(store, TENURE_E_UNSUPPORTED,
                      "its leases are of another version; use the release that made them");
    }
}

static void greeted(struct tn_resp_call *call)
{
    struct tn_rd_store *store = ((struct tn_rd_greet *)call)->store;
    enum tn_rd_greeting greeting = store->conn.greeting;
    char why[TN_ERROR_TEXT];
    struct tn_text text;

    if (call->status != 0)
        return; /* The connection was lost, and another is made. */
    if (call->value.type == TN_RESP_ERROR && follow(store, &call->value))
        return;
    if (call->value.type == TN_RESP_ERROR && greeting != TN_RD_INFO) {
        tn_text_init(&text, why, sizeof why);
        refuse_server(store, tn_rd_blame(&call->value, &text), why);
        return;
    }
    switch (greeting) {
    case TN_RD_ASK:
        hear_master(store, call);
        break;
    case TN_RD_SELECT:
        greet_next(store, TN_RD_INFO);
        break;
    case TN_RD_INFO:
        if (is_fit(store, &call->value))
            greet_next(store, TN_RD_LOAD);
        break;
    case TN_RD_LOAD:
        greet_next(store, TN_RD_PROBE);
        break;
    case TN_RD_PROBE:
        hear_probe(store, call);
        break;
    }
}

/* --- The link ------------------------------------------------------------------------------- */

static bool is_sentinel(const struct tn_rd_store *store)
{
    const struct tn_rd_conn *conn = &store->conn;

    return store->url.sentinel[0] != '\0' &&
           strcmp(conn->link.stream.at.where, conn->master.where) != 0;
}

static void connected(void *arg)
{
    struct tn_rd_store *store = arg;
    bool ask = is_sentinel(store);

    store->conn.link.user = ask ? NULL : store->url.net.user;
    store->conn.link.password = ask ? store->url.sentinel_password : store->url.net.password;
}

static void came_up(void *arg)
{
    struct tn_rd_store *store = arg;

    greet_next(store, is_sentinel(store) ? TN_RD_ASK : TN_RD_SELECT);
}

static void went_down(void *arg)
{
    (void)arg; /* Whoever waits, waits on; those who were sent are told by the link. */
}

static void hear_push(void *arg, const char *frame, size_t len)
{
    struct tn_rd_reply reply = tn_rd_reply_of(frame, len);
    struct tn_resp_word kind = tn_rd_next(&reply);
    struct tn_resp_word channel = tn_rd_next(&reply);

    if (tn_rd_is(kind, "message"))
        tn_rd_hear(arg, channel, tn_rd_next(&reply));
}

void tn_rd_conn_leave(struct tn_rd_store *store, const char *why)
{
    tn_stream_doubt(&store->conn.link.stream, why);
}

int tn_rd_conn_init(struct tn_rd_store *store, uint64_t seed, struct tn_text *reterr)
{
    static const struct tn_resp_host host = { came_up, went_down, hear_push };
    const struct tn_rd_url *url = &store->url;
    struct tn_rd_conn *conn = &store->conn;
    const struct tn_tls_options tls = { .side = TN_TLS_CLIENT,
                                        .scheme = url->scheme,
                                        .ca = url->net.tls.ca,
                                        .cert = url->net.tls.cert,
                                        .key = url->net.tls.key };

    if (url->tls) {
        int rc = tn_tls_context_new(&conn->tls, &tls, reterr);
        if (rc < 0)
            return rc;
    }
    conn->link.stream =
        (struct tn_stream) { .loop = store->base.how.loop,
                             .clock = store->base.how.clock,
                             .scheme = url->scheme,
                             .tls_scheme = "rediss",
                             .tls = conn->tls,
                             .tls_name = url->net.tls.name,
                             .service_peer = true,
                             .reach_ms = tn_stream_reach_ms(store->base.how.patience) };
    conn->link.host = &host;
    conn->link.arg = store;
    conn->link.connected = connected;
    int rc = tn_resp_link_init(&conn->link, url->net.endpoints, url->net.count, seed);
    if (rc < 0)
        tn_text_addf(reterr, "%s: no descriptor is left for the loop", url->scheme);
    return rc;
}
