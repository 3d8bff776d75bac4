/* redis_client.c - asking a server of Redis' protocol, with a deadline for each question.
 *
 * It is runtime/resp_link.h on a loop of its own, which runs while a question is under way. Happy
 * path: the URL is taken apart, the link connects, logs in and chooses the database; a question is
 * sent, and its answer copied. What can fail: the URL, the address, the login, the deadline, a
 * server that speaks another protocol. The first failure ends the link: nobody connects again
 * behind the caller's back. */
#include "receivers/redis_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/list.h"
#include "base/net_url.h"
#include "base/number.h"
#include "base/time.h"
#include "runtime/loop.h"

enum {
    ANSWER_MAX = 64 << 20, /* Of a list of fences. */
    MOVES_MAX = 5,
};

struct tn_redis {
    const struct resp_server *server; /* Lines begin with its name. */
    struct tn_net_url url;
    struct tn_tls_context *tls; /* NULL: in clear. */
    tenure_ns timeout;
    uv_loop_t loop;
    struct tn_clock clock;
    struct tn_resp_link link;
    bool looped, linked;        /* There is a loop, a link. */
    struct tn_resp_call choose; /* The database. */
    struct tn_resp_call question;
    bool answered; /* Or it never will be. */
    char *answer;
    size_t answer_size;
    char error[TN_ERROR_TEXT];
};

/* --- The URL -------------------------------------------------------------------------------- */

/* The servers that speak this protocol. */
static const struct resp_server {
    const char *scheme, *who, *port, *form;
    const char *tls; /* The scheme with TLS; NULL: a socket of this host. */
    bool with_tls;
} servers[] = {
    { "redis://", "redis", "6379", "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]", "rediss",
      false },
    { "redis+unix:", "redis", NULL, "redis+unix:PATH", NULL, false },
    { "rediss:", "rediss", "6379", "rediss://[USER:PASSWORD@]HOST[:PORT][/DATABASE][?ca=FILE]",
      "rediss", true },
    { "tenured://", "tenured", "7420", "tenured://[USER:SECRET@]HOST[:PORT]", "tenureds", false },
    { "tenureds:", "tenureds", "7420",
      "tenureds://[USER:SECRET@]HOST[:PORT]?ca=FILE&cert=FILE&key=FILE", "tenureds", true },
    { "unix:", "tenured", NULL, "unix:PATH", NULL, false },
};

static const struct resp_server *server_of(const char *url)
{
    size_t last = sizeof servers / sizeof servers[0] - 1;
    size_t i = 0;

    while (i < last && strncmp(url, servers[i].scheme, strcspn(servers[i].scheme, ":") + 1) != 0)
        i++;
    return &servers[i];
}

/* The URL is not repeated: there may be a password in it. */
static int refuse_url(const struct resp_server *server, struct tn_text *reterr)
{
    tn_text_addf(reterr, "%s: write %s", server->who, server->form);
    return TENURE_E_INVALID;
}

static int parse_local(struct tn_redis *redis, const char *path, struct tn_text *reterr)
{
    char text[sizeof redis->url.endpoints[0].host];

    path += strncmp(path, "///", 3) == 0 ? 2 : 0;
    if (!tn_url_decode(text, sizeof text, path, strlen(path)) ||
        !tn_endpoint_local(&redis->url.endpoints[0], text))
        return refuse_url(redis->server, reterr);
    redis->url.count = 1;
    return 0;
}

static bool is_database(const char *text)
{
    return strlen(text) <= 4 && strspn(text, "0123456789") == strlen(text);
}

static int parse_url(struct tn_redis *redis, const char *url, struct tn_text *reterr)
{
    const struct resp_server *server = redis->server;
    const struct tn_net_form form = { .scheme = server->who,
                                      .usage = server->form,
                                      .port = server->port,
                                      .tls = server->tls,
                                      .with_tls = server->with_tls };
    const struct tn_net_tls *tls = &redis->url.tls;

    if (strncmp(url, server->scheme, strlen(server->scheme)) != 0)
        return refuse_url(server, reterr);
    if (server->tls == NULL)
        return parse_local(redis, url + strlen(server->scheme), reterr);
    int rc = tn_net_url_parse(&redis->url, &form, strchr(url, ':') + 1, reterr);
    if (rc < 0)
        return rc;
    if (redis->url.count != 1) {
        tn_text_addf(reterr, "%s: a fence is on one server; write %s", server->who, server->form);
        return TENURE_E_INVALID;
    }
    if (!is_database(redis->url.path) ||
        (!server->with_tls && redis->url.user[0] != '\0' && redis->url.password[0] == '\0'))
        return refuse_url(server, reterr);
    if (!server->with_tls)
        return 0;
    return tn_tls_context_new(
        &redis->tls,
        &(struct tn_tls_options) {
            .scheme = server->who, .ca = tls->ca, .cert = tls->cert, .key = tls->key },
        reterr);
}

/* --- The link ------------------------------------------------------------------------------- */

static int code_of(const struct tn_resp_value *error);

static int no_loop(const struct tn_redis *redis, struct tn_text *reterr)
{
    tn_text_addf(reterr, "%s: no descriptor is left for the loop", redis->server->who);
    return TENURE_E_UNAVAILABLE;
}

static void chosen(struct tn_resp_call *call)
{
    struct tn_redis *redis = TN_LIST_ENTRY(call, struct tn_redis, choose);
    char why[TN_ERROR_TEXT];
    struct tn_text text;

    if (call->status != 0)
        return; /* The connection was lost. */
    if (call->value.type != TN_RESP_ERROR) {
        tn_resp_link_ready(&redis->link);
        return;
    }
    tn_text_init(&text, why, sizeof why);
    tn_text_escape(&text, call->value.bytes, call->value.len);
    tn_resp_link_refuse(&redis->link, code_of(&call->value), why);
}

static void came_up(void *arg)
{
    struct tn_redis *redis = arg;
    const struct tn_resp_word choose[] = { tn_resp_word_of("SELECT"),
                                           tn_resp_word_of(redis->url.path) };

    if (redis->url.path[0] == '\0') {
        tn_resp_link_ready(&redis->link);
        return;
    }
    redis->choose =
        (struct tn_resp_call) { .done = chosen, .give_up_at = tn_boottime() + redis->timeout };
    if (tn_resp_link_greet(&redis->link, &redis->choose, choose, 2) < 0)
        tn_resp_link_refuse(&redis->link, TENURE_E_NOMEM, "out of memory");
}

static void went_down(void *arg)
{
    (void)arg; /* The question that was under way says so. */
}

static int start_link(struct tn_redis *redis, const struct tn_endpoint *endpoint,
                      struct tn_text *reterr)
{
    static const struct tn_resp_host host = { .up = came_up, .down = went_down };
    const struct resp_server *server = redis->server;
    bool service = strcmp(server->who, "redis") == 0;
    tenure_ns reach_ms = redis->timeout / TN_MS(1);

    redis->link = (struct tn_resp_link) {
        .stream = { .loop = &redis->loop,
                    .clock = &redis->clock,
                    .scheme = server->who,
                    .tls_scheme = server->with_tls ? NULL : server->tls,
                    .tls = redis->tls,
                    .tls_name = redis->url.tls.name,
                    .own_peer = !service, /* A fence at a forged socket would be raised in vain. */
                    .service_peer = service,
                    .reach_ms = reach_ms > 0 ? (uint64_t)reach_ms : 1 },
        .host = &host,
        .arg = redis,
        .user = redis->url.user,
        .password = redis->url.password,
        .no_hello = true,
        .reply_max = ANSWER_MAX,
    };
    int rc = tn_resp_link_init(&redis->link, endpoint, 1, 0);
    if (rc < 0)
        return no_loop(redis, reterr);
    redis->linked = true;
    tn_resp_link_start(&redis->link);
    while (!redis->link.ready && redis->link.stream.failures == 0)
        (void)uv_run(&redis->loop, UV_RUN_ONCE);
    if (redis->link.ready)
        return 0;
    tn_text_add(reterr, tn_resp_link_error(&redis->link));
    return redis->link.stream.status;
}

static void link_closed(void *arg)
{
    struct tn_redis *redis = arg;

    redis->linked = false;
}

static void end_link(struct tn_redis *redis)
{
    if (!redis->linked)
        return;
    tn_resp_link_close(&redis->link, link_closed);
    while (redis->linked)
        (void)uv_run(&redis->loop, UV_RUN_ONCE);
}

/* --- Questions ------------------------------------------------------------------------------ */

/* The bytes are the link's until this returns. */
static void answered(struct tn_resp_call *call)
{
    struct tn_redis *redis = TN_LIST_ENTRY(call, struct tn_redis, question);

    redis->answered = true;
    if (call->status != 0) {
        (void)snprintf(redis->error, sizeof redis->error, "%s", call->error);
        return;
    }
    if (call->reply_len > redis->answer_size) {
        char *larger = realloc(redis->answer, call->reply_len);
        if (larger == NULL) { /* What was asked has happened, and what came of it is not known. */
            call->status = TENURE_E_TIMEOUT;
            (void)snprintf(redis->error, sizeof redis->error, "%s: out of memory",
                           redis->server->who);
            return;
        }
        redis->answer = larger;
        redis->answer_size = call->reply_len;
    }
    memcpy(redis->answer, call->reply, call->reply_len);
}

static int ask_once(struct tn_redis *redis, const struct tn_resp_word *words, size_t count,
                    struct tn_redis_answer *ret_answer, struct tn_text *reterr)
{
    struct tn_resp_call *call = &redis->question;

    if (!redis->linked || !redis->link.ready) {
        tn_text_addf(reterr, "%s: the connection is lost", redis->server->who);
        return TENURE_E_UNAVAILABLE;
    }
    *call =
        (struct tn_resp_call) { .done = answered, .give_up_at = tn_boottime() + redis->timeout };
    redis->answered = false;
    if (tn_resp_link_send(&redis->link, call, words, (uint32_t)count) < 0) {
        tn_text_addf(reterr, "%s: out of memory", redis->server->who);
        return TENURE_E_NOMEM;
    }
    while (!redis->answered)
        (void)uv_run(&redis->loop, UV_RUN_ONCE);
    if (call->status != 0) {
        tn_text_addf(reterr, "%s; it may have happened", redis->error);
        end_link(redis);
        return call->status;
    }
    struct tn_redis_answer answer = { .bytes = redis->answer, .len = call->reply_len };
    int rc = tn_redis_next(&answer, &answer.value);
    TN_ASSERT(rc == 0);
    *ret_answer = answer;
    return 0;
}

int tn_redis_next(struct tn_redis_answer *answer, struct tn_resp_value *ret_value)
{
    return tn_resp_next(answer->bytes, answer->len, &answer->at, ret_value);
}

/* What the first word of an error means; anything else is a server that cannot be used now. */
static int code_of(const struct tn_resp_value *error)
{
    static const struct {
        const char *word;
        int code;
    } words[] = {
        { "STALE ", TENURE_E_STALE },         { "BADTOKEN ", TENURE_E_INVALID },
        { "BADFENCE ", TENURE_E_DAMAGED },    { "WRONGTYPE ", TENURE_E_DAMAGED },
        { "NOAUTH ", TENURE_E_DENIED },       { "WRONGPASS ", TENURE_E_DENIED },
        { "NOPERM ", TENURE_E_DENIED },       { "DENIED ", TENURE_E_DENIED },
        { "ERR AUTH ", TENURE_E_DENIED },     { "ERR invalid password", TENURE_E_DENIED },
        { "ERR DB index", TENURE_E_INVALID },
    };
    int code = TENURE_E_UNAVAILABLE;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t len = strlen(words[i].word);
        if (error->len >= len && memcmp(error->bytes, words[i].word, len) == 0)
            code = words[i].code;
    }
    return code;
}

int tn_redis_error(const struct tn_redis *redis, const struct tn_resp_value *error,
                   struct tn_text *reterr)
{
    tn_text_addf(reterr, "%s: ", redis->server->who);
    tn_text_escape(reterr, error->bytes, error->len < 300 ? error->len : 300);
    return code_of(error);
}

/* MOVED SLOT HOST:PORT: another node of the cluster has the slot. An empty host is this one. */
static bool read_moved(const struct tn_redis *redis, const struct tn_resp_value *value,
                       struct tn_endpoint *ret_endpoint)
{
    struct tn_endpoint endpoint = { .local = false };
    char text[sizeof endpoint.host];
    uint64_t port;

    if (!tn_resp_begins(value, "MOVED") || value->len >= sizeof text)
        return false;
    (void)snprintf(text, sizeof text, "%.*s", (int)value->len, value->bytes);
    const char *host = strrchr(text, ' ') != NULL ? strrchr(text, ' ') + 1 : text;
    char *colon = strrchr(host, ':');
    if (colon == NULL || tn_u64_parse(colon + 1, &port) < 0 || port == 0 || port > 65535)
        return false;
    *colon = '\0';
    if (host[0] == '\0' && redis->link.stream.at.local)
        return false;
    if (host[0] == '\0')
        host = redis->link.stream.at.host;
    (void)snprintf(endpoint.host, sizeof endpoint.host, "%s", host);
    (void)snprintf(endpoint.port, sizeof endpoint.port, "%u", (unsigned)port);
    (void)snprintf(endpoint.where, sizeof endpoint.where, "%s:%s", endpoint.host, endpoint.port);
    *ret_endpoint = endpoint;
    return true;
}

int tn_redis_ask(struct tn_redis *redis, const struct tn_resp_word *words, size_t count,
                 struct tn_redis_answer *ret_answer, struct tn_text *reterr)
{
    struct tn_endpoint endpoint;
    int rc = ask_once(redis, words, count, ret_answer, reterr);

    for (int i = 0; rc == 0 && i < MOVES_MAX && read_moved(redis, &ret_answer->value, &endpoint);
         i++) {
        end_link(redis);
        rc = start_link(redis, &endpoint, reterr);
        if (rc == 0)
            rc = ask_once(redis, words, count, ret_answer, reterr);
    }
    return rc;
}

/* --- Life and death -------------------------------------------------------------------------- */

static tenure_ns clock_now(void *arg)
{
    (void)arg;
    return tn_boottime();
}

static int start_loop(struct tn_redis *redis, struct tn_text *reterr)
{
    int rc = tn_loop_check(reterr);

    if (rc == 0 && uv_loop_init(&redis->loop) != 0)
        rc = no_loop(redis, reterr);
    redis->looped = rc == 0;
    redis->clock.now = clock_now;
    return rc;
}

int tn_redis_open(const char *url, tenure_ns timeout, struct tn_redis **ret_redis,
                  struct tn_text *reterr)
{
    const struct resp_server *server = server_of(url);
    struct tn_redis *redis = calloc(1, sizeof *redis);

    if (redis == NULL) {
        tn_text_addf(reterr, "%s: out of memory", server->who);
        return TENURE_E_NOMEM;
    }
    redis->server = server;
    redis->timeout = timeout;
    int rc = parse_url(redis, url, reterr);
    if (rc == 0)
        rc = start_loop(redis, reterr);
    if (rc == 0)
        rc = start_link(redis, &redis->url.endpoints[0], reterr);
    if (rc < 0) {
        tn_redis_close(redis);
        return rc;
    }
    *ret_redis = redis;
    return 0;
}

void tn_redis_close(struct tn_redis *redis)
{
    if (redis == NULL)
        return;
    end_link(redis);
    if (redis->looped) {
        (void)uv_run(&redis->loop, UV_RUN_DEFAULT);
        int rc = uv_loop_close(&redis->loop);
        TN_ASSERT(rc == 0);
    }
    tn_tls_context_free(redis->tls);
    free(redis->answer);
    free(redis);
}
