/* version.c - which version serves us. The protocol does not tell; the four-letter word "srvr"
 * does, on a connection of its own. Servers allow it whatever their whitelist says; what is between
 * may not.
 *
 * Happy path: connect to the server that a session is on, else to the first of the URL that lets
 * us; say the word, and read until the server hangs up.
 * What can fail: a server without an answer is left for the next one, and after a few seconds the
 * version is not known. That is no reason not to use the store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "runtime/stream.h"
#include "stores/zookeeper/private.h"

enum { PATIENCE_MS = 1000, TRIES = 3, SAID_MAX = 2048, SHOWN_MAX = 100 };

struct tn_zk_question {
    struct tn_zk_store *store;
    struct tn_stream stream;
    uv_timer_t timer;
    void (*done)(void *arg, int status, const char *error);
    void *arg;
    unsigned tries;
    unsigned handles;
    bool over;
    char said[SAID_MAX];
    size_t len;
};

/* --- What it said ----------------------------------------------------------------------------- */

/* What a server acknowledged can be lost when another one rejoins it: until 3.8.4 and 3.9.2 by
 * ZOOKEEPER-4785, until 3.9.3 by ZOOKEEPER-4712, and in that one by ZOOKEEPER-4925. */
static const char *find_fault(const char *version)
{
    unsigned major = 0, minor = 0, patch = 0;

    if (sscanf(version, "%u.%u.%u", &major, &minor, &patch) != 3 || major > 3 ||
        (major == 3 && minor > 9))
        return NULL;
    if (major < 3 || minor < 8 || (minor == 8 && patch < 4) || (minor == 9 && patch < 2))
        return "ZOOKEEPER-4785";
    if (minor == 9 && patch < 4)
        return patch == 2 ? "ZOOKEEPER-4712" : "ZOOKEEPER-4925";
    return NULL;
}

/* A server without others has nobody to lose anything with. */
static void judge(struct tn_zk_store *store, const char *said)
{
    const char *fault = find_fault(store->version);

    if (fault != NULL && strstr(said, "Mode: standalone") == NULL)
        (void)snprintf(store->warning, sizeof store->warning,
                       "zookeeper %s can lose acknowledged changes when a server rejoins the "
                       "others (%s); use 3.8.5, 3.9.4 or later",
                       store->version, fault);
}

/* "Zookeeper version: 3.8.0-5a02a05, built on ..." */
static bool read_version(struct tn_zk_store *store, const char *said)
{
    static const char label[] = "Zookeeper version: ";
    const char *version = strstr(said, label);

    if (version == NULL)
        return false;
    version += sizeof label - 1;
    size_t len = strspn(version, "0123456789.");
    (void)snprintf(store->version, sizeof store->version, "%.*s", (int)len, version);
    judge(store, said);
    return store->version[0] != '\0';
}

/* --- The end ---------------------------------------------------------------------------------- */

static void part_closed(struct tn_zk_question *question)
{
    struct tn_zk_store *store = question->store;

    if (--question->handles > 0)
        return;
    free(question);
    tn_zk_handle_gone(store);
}

static void stream_closed(void *arg)
{
    part_closed(arg);
}

static void timer_closed(uv_handle_t *timer)
{
    part_closed(timer->data);
}

static void finish_question(struct tn_zk_question *question, int status, const char *error)
{
    question->over = true;
    question->store->question = NULL;
    question->done(question->arg, status, error);
    tn_stream_close(&question->stream, stream_closed);
    uv_close((uv_handle_t *)&question->timer, timer_closed);
}

void tn_zk_version_cancel(struct tn_zk_store *store)
{
    if (store->question != NULL)
        finish_question(store->question, TENURE_E_CLOSED, "the store is closed");
}

/* --- The question ----------------------------------------------------------------------------- */

static void hear_timer(uv_timer_t *timer);

static void wait_for(struct tn_zk_question *question, uint64_t ms)
{
    (void)uv_timer_start(&question->timer, hear_timer, ms, 0);
}

/* Of the first line, as far as it is text for people. */
static int line_len(const char *said)
{
    int len = 0;

    while (len < SHOWN_MAX && said[len] >= ' ' && said[len] <= '~')
        len++;
    return len;
}

static void hear_timer(uv_timer_t *timer)
{
    struct tn_zk_question *question = timer->data;
    struct tn_stream *stream = &question->stream;
    char error[TN_ERROR_TEXT];

    if (read_version(question->store, question->said)) {
        finish_question(question, 0, NULL);
    } else if (++question->tries == TRIES) {
        (void)snprintf(error, sizeof error, "%.80s %s%.*s", stream->at.where,
                       question->len > 0 ? "answers srvr with " : "does not answer srvr",
                       line_len(question->said), question->said);
        finish_question(question, TENURE_E_UNAVAILABLE, error);
    } else {
        wait_for(question, PATIENCE_MS);
        if (stream->up)
            tn_stream_drop(stream, "no answer");
    }
}

static void hear_up(void *arg)
{
    struct tn_zk_question *question = arg;

    question->len = 0;
    question->said[0] = '\0';
    tn_stream_write(&question->stream, "srvr", 4);
}

static void hear_bytes(void *arg, const uint8_t *data, size_t len)
{
    struct tn_zk_question *question = arg;
    size_t room = SAID_MAX - 1 - question->len;

    len = len < room ? len : room;
    memcpy(question->said + question->len, data, len);
    question->len += len;
    question->said[question->len] = '\0';
}

/* It hangs up when it has said everything. */
static void hear_down(void *arg)
{
    struct tn_zk_question *question = arg;

    if (!question->over && question->len > 0)
        wait_for(question, 0);
}

/* Where a session is connected to. */
static bool find_present(struct tn_zk_store *store, struct tn_endpoint *ret_endpoint)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } peer;
    char address[64];

    for (struct tn_zk_session *at = NULL; (at = tn_zk_session_next(store, at)) != NULL;) {
        socklen_t size = sizeof peer;
        int fd = at->relay != NULL ? tn_zk_relay_server(at->relay) : -1;
        if (!tn_zk_is_up(at) || fd < 0 || getpeername(fd, &peer.any, &size) != 0)
            continue;
        bool v6 = peer.any.sa_family == AF_INET6;
        int rc = v6 ? uv_ip6_name(&peer.v6, address, sizeof address)
                    : uv_ip4_name(&peer.v4, address, sizeof address);
        if (rc != 0)
            continue;
        unsigned port = ntohs(v6 ? peer.v6.sin6_port : peer.v4.sin_port);
        *ret_endpoint = (struct tn_endpoint) { .local = false };
        (void)snprintf(ret_endpoint->host, sizeof ret_endpoint->host, "%s", address);
        (void)snprintf(ret_endpoint->port, sizeof ret_endpoint->port, "%u", port & 0xffff);
        (void)snprintf(ret_endpoint->where, sizeof ret_endpoint->where, "%s:%s", address,
                       ret_endpoint->port);
        return true;
    }
    return false;
}

static unsigned list_endpoints(struct tn_zk_store *store, struct tn_endpoint *ret_endpoints)
{
    unsigned count = find_present(store, ret_endpoints) ? 1 : 0;

    for (unsigned i = 0; i < store->url.net.count && count < TN_ENDPOINTS_MAX; i++)
        ret_endpoints[count++] = store->url.net.endpoints[i];
    return count;
}

void tn_zk_version_ask(struct tn_store *base,
                       void (*done)(void *arg, int status, const char *error), void *arg)
{
    static const struct tn_stream_host host = { hear_up, hear_down, hear_bytes };
    struct tn_zk_store *store = (struct tn_zk_store *)(void *)base;
    struct tn_zk_question *question = calloc(1, sizeof *question);
    struct tn_endpoint endpoints[TN_ENDPOINTS_MAX];

    TN_ASSERT(question != NULL);
    TN_ASSERT(store->question == NULL);
    question->store = store;
    question->done = done;
    question->arg = arg;
    question->stream = (struct tn_stream) {
        .loop = base->how.loop,
        .clock = base->how.clock,
        .host = &host,
        .arg = question,
        .scheme = "zookeeper",
        .reach_ms = PATIENCE_MS,
    };
    unsigned count = list_endpoints(store, endpoints);
    int rc = tn_stream_init(&question->stream, endpoints, count, tn_prng_next(&store->prng));
    TN_ASSERT(rc == 0);
    tn_stream_set_endpoints(&question->stream, endpoints, count); /* Begin with the first. */
    (void)uv_timer_init(base->how.loop, &question->timer);
    question->timer.data = question;
    question->handles = 2;
    store->handles++;
    store->question = question;
    tn_stream_start(&question->stream);
    wait_for(question, PATIENCE_MS);
}
