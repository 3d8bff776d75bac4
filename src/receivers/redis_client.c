/* redis_client.c - connecting to Redis, and asking it, with a deadline for each.
 *
 * Happy path: the URL is taken apart, a socket connected without blocking, AUTH and SELECT are
 * asked like anything else; a question is written, and bytes are read until wire/resp.h has seen a
 * whole value. What can fail: the URL, the address, the login, the deadline, a server that speaks
 * another protocol. */
#define _GNU_SOURCE
#include "receivers/redis_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/net_url.h"
#include "base/time.h"
#include "receivers/socket.h"
#include "runtime/clock.h"

enum {
    ANSWER_MAX = 64 << 20, /* Of a list of fences. */
    VALUES_MAX = 1 << 20,
    MOVES_MAX = 5,
};

struct tn_redis {
    const char *who; /* Lines begin with it. */
    struct tn_wire wire;
    tenure_ns timeout;
    struct tn_place place;
    char user[TN_PLACE_MAX];
    char password[TN_PLACE_MAX];
    char database[8];
    char *in;
    size_t in_len, in_size;
};

static int tell(const struct tn_redis *redis, int code, const char *what, const char *why,
                struct tn_text *reterr)
{
    tn_text_addf(reterr, "%s: ", redis->who);
    tn_text_escape(reterr, what, strlen(what));
    tn_text_addf(reterr, "%s%s", what[0] != '\0' ? ": " : "", why);
    return code;
}

struct tn_resp_word tn_redis_word(const char *text)
{
    return (struct tn_resp_word) { text, (uint32_t)strlen(text) };
}

/* --- The URL -------------------------------------------------------------------------------- */

/* [[USER]:PASSWORD@], into @redis; *@text moves behind it. */
static bool parse_login(const char **text, struct tn_redis *redis)
{
    size_t len = strcspn(*text, "/");
    const char *at = memrchr(*text, '@', len);

    if (at == NULL)
        return true;
    const char *colon = memchr(*text, ':', (size_t)(at - *text));
    if (colon == NULL)
        return false;
    bool good =
        tn_url_decode(redis->user, sizeof redis->user, *text, (size_t)(colon - *text)) &&
        tn_url_decode(redis->password, sizeof redis->password, colon + 1, (size_t)(at - colon - 1));
    *text = at + 1;
    return good;
}

/* The servers that speak this protocol. */
static const struct server {
    const char *scheme, *who, *port, *form;
    bool tls;
} servers[] = {
    { "redis://", "redis", "6379", "redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]", false },
    { "redis+unix:", "redis", NULL, "redis+unix:PATH", false },
    { "rediss:", "rediss", "6379", "rediss://[USER:PASSWORD@]HOST[:PORT][/DATABASE][?ca=FILE]",
      true },
    { "tenured://", "tenured", "7420", "tenured://[USER:SECRET@]HOST[:PORT]", false },
    { "tenureds:", "tenureds", "7420",
      "tenureds://[USER:SECRET@]HOST[:PORT]?ca=FILE&cert=FILE&key=FILE", true },
    { "unix:", "tenured", NULL, "unix:PATH", false },
};

static const struct server *server_of(const char *url)
{
    size_t last = sizeof servers / sizeof servers[0] - 1;
    size_t i = 0;

    while (i < last && strncmp(url, servers[i].scheme, strcspn(servers[i].scheme, ":") + 1) != 0)
        i++;
    return &servers[i];
}

static bool parse_url(const char *url, const struct server *server, struct tn_redis *redis)
{
    size_t len = strlen(server->scheme);

    if (strncmp(url, server->scheme, len) != 0)
        return false;
    const char *text = url + len;
    if (server->port == NULL) {
        text += strncmp(text, "///", 3) == 0 ? 2 : 0;
        redis->place.is_unix = true;
        redis->place.service = strcmp(server->who, "redis") == 0;
        return text[0] != '\0' && strlen(text) < sizeof((struct sockaddr_un *)NULL)->sun_path &&
               tn_url_decode(redis->place.host, sizeof redis->place.host, text, strlen(text));
    }
    if (!parse_login(&text, redis))
        return false;
    len = strcspn(text, "/");
    if (!tn_place_parse(text, len, server->port, &redis->place))
        return false;
    text += len;
    return text[0] == '\0' || text[1] == '\0' ||
           tn_digits_check(text + 1, strlen(text + 1), 9999, redis->database);
}

static int parse_secure(const char *url, const struct server *server, struct tn_redis *redis,
                        struct tn_text *reterr)
{
    const struct tn_net_form form = { .scheme = server->who,
                                      .usage = server->form,
                                      .port = server->port,
                                      .tls = server->who,
                                      .with_tls = true };
    struct tn_net_url parts;

    int rc = tn_wire_parse(&redis->wire, &form, url + strlen(server->scheme), &parts, &redis->place,
                           reterr);
    if (rc < 0)
        return rc;
    memcpy(redis->user, parts.user, sizeof parts.user);
    memcpy(redis->password, parts.password, sizeof parts.password);
    if (parts.path[0] == '\0' ||
        tn_digits_check(parts.path, strlen(parts.path), 9999, redis->database))
        return 0;
    tn_text_addf(reterr, "%s: write %s", server->who, server->form);
    return TENURE_E_INVALID;
}

/* --- Questions ------------------------------------------------------------------------------ */

static int reconnect(struct tn_redis *redis, struct tn_text *reterr)
{
    tn_wire_disconnect(&redis->wire);
    redis->in_len = 0;
    return tn_wire_connect(&redis->wire, &redis->place, tn_boottime() + redis->timeout, redis->who,
                           reterr);
}

static int lost(struct tn_redis *redis, struct tn_text *reterr)
{
    const char *tls = tn_wire_error(&redis->wire);

    (void)tell(redis, 0, redis->place.host, tls[0] != '\0' ? tls : "no answer", reterr);
    tn_text_add(reterr, "; it may have happened");
    tn_wire_disconnect(&redis->wire);
    return TENURE_E_TIMEOUT;
}

/* More bytes into the buffer, which grows. */
static bool receive(struct tn_redis *redis, tenure_ns end)
{
    if (redis->in_len == redis->in_size) {
        size_t size = redis->in_size > 0 ? 2 * redis->in_size : 4096;
        char *larger = size <= ANSWER_MAX ? realloc(redis->in, size) : NULL;
        if (larger == NULL)
            return false;
        redis->in = larger;
        redis->in_size = size;
    }
    long got = tn_wire_receive(&redis->wire, redis->in + redis->in_len,
                               redis->in_size - redis->in_len, end);
    redis->in_len += got > 0 ? (size_t)got : 0;
    return got > 0;
}

static int ask_once(struct tn_redis *redis, const struct tn_resp_word *words, size_t count,
                    struct tn_redis_answer *ret_answer, struct tn_text *reterr)
{
    tenure_ns end = tn_boottime() + redis->timeout;
    struct tn_resp_out out = { .size = TN_RESP_HEAD_MAX };
    struct tn_resp_scan scan = { 0 };
    int64_t len = 0;

    for (size_t i = 0; i < count; i++)
        out.size += words[i].len + TN_RESP_HEAD_MAX;
    out.buf = malloc(out.size);
    if (out.buf == NULL)
        return tell(redis, TENURE_E_NOMEM, "", "out of memory", reterr);
    tn_resp_put_array(&out, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        tn_resp_put_bulk(&out, words[i].bytes, words[i].len);
    bool good =
        redis->wire.fd >= 0 && !out.full && tn_wire_send(&redis->wire, out.buf, out.len, end);
    free(out.buf);
    redis->in_len = 0;
    while (good && len == 0) {
        good = receive(redis, end);
        if (good)
            len = tn_resp_scan(&scan, ANSWER_MAX, VALUES_MAX, redis->in, redis->in_len);
    }
    if (redis->wire.fd < 0)
        return tell(redis, TENURE_E_UNAVAILABLE, redis->place.host, "the connection is lost",
                    reterr);
    struct tn_redis_answer answer = { .bytes = redis->in, .len = (size_t)len };
    if (!good || len < 0 || tn_redis_next(&answer, &answer.value) < 0)
        return lost(redis, reterr);
    *ret_answer = answer;
    return 0;
}

int tn_redis_next(struct tn_redis_answer *answer, struct tn_resp_value *ret_value)
{
    return tn_resp_next(answer->bytes, answer->len, &answer->at, ret_value);
}

/* What the first word of an error means; anything else is a server that cannot be used now. */
int tn_redis_error(const struct tn_redis *redis, const struct tn_resp_value *error,
                   struct tn_text *reterr)
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
    tn_text_addf(reterr, "%s: ", redis->who);
    tn_text_escape(reterr, error->bytes, error->len < 300 ? error->len : 300);
    return code;
}

/* One question whose answer must not be an error. */
static int demand(struct tn_redis *redis, const struct tn_resp_word *words, size_t count,
                  struct tn_text *reterr)
{
    struct tn_redis_answer answer;

    int rc = ask_once(redis, words, count, &answer, reterr);
    if (rc == 0 && answer.value.type == TN_RESP_ERROR)
        rc = tn_redis_error(redis, &answer.value, reterr);
    return rc;
}

/* What can fail here has changed nothing. */
static int log_in(struct tn_redis *redis, struct tn_text *reterr)
{
    struct tn_resp_word auth[] = { tn_redis_word("AUTH"), tn_redis_word(redis->user),
                                   tn_redis_word(redis->password) };
    struct tn_resp_word choose[] = { tn_redis_word("SELECT"), tn_redis_word(redis->database) };
    int rc = 0;

    if (redis->user[0] == '\0')
        auth[1] = auth[2];
    if (redis->password[0] != '\0')
        rc = demand(redis, auth, redis->user[0] == '\0' ? 2 : 3, reterr);
    if (rc == 0 && redis->database[0] != '\0')
        rc = demand(redis, choose, 2, reterr);
    return rc == TENURE_E_TIMEOUT ? TENURE_E_UNAVAILABLE : rc;
}

/* MOVED SLOT HOST:PORT: another node of the cluster has the slot. An empty host is this one. */
static bool follow(struct tn_redis *redis, const struct tn_resp_value *value)
{
    char text[TN_PLACE_MAX];
    struct tn_place place = { .is_unix = false };

    if (value->type != TN_RESP_ERROR || value->len >= sizeof text || value->len < 6 ||
        memcmp(value->bytes, "MOVED ", 6) != 0)
        return false;
    memcpy(text, value->bytes, value->len);
    text[value->len] = '\0';
    const char *host = strrchr(text, ' ') + 1;
    const char *colon = strrchr(host, ':');
    if (colon == NULL || !tn_digits_check(colon + 1, strlen(colon + 1), 65535, place.port))
        return false;
    if (colon == host && redis->place.is_unix)
        return false;
    (void)snprintf(place.host, sizeof place.host, "%.*s", (int)(colon - host), host);
    if (colon == host)
        (void)snprintf(place.host, sizeof place.host, "%s", redis->place.host);
    redis->place = place;
    return true;
}

int tn_redis_ask(struct tn_redis *redis, const struct tn_resp_word *words, size_t count,
                 struct tn_redis_answer *ret_answer, struct tn_text *reterr)
{
    int rc = ask_once(redis, words, count, ret_answer, reterr);

    for (int i = 0; rc == 0 && i < MOVES_MAX && follow(redis, &ret_answer->value); i++) {
        rc = reconnect(redis, reterr);
        if (rc == 0)
            rc = log_in(redis, reterr);
        if (rc == 0)
            rc = ask_once(redis, words, count, ret_answer, reterr);
    }
    return rc;
}

int tn_redis_open(const char *url, tenure_ns timeout, struct tn_redis **ret_redis,
                  struct tn_text *reterr)
{
    const struct server *server = server_of(url);
    struct tn_redis *redis = calloc(1, sizeof *redis);
    int rc;

    if (redis == NULL) {
        tn_text_addf(reterr, "%s: out of memory", server->who);
        return TENURE_E_NOMEM;
    }
    redis->who = server->who;
    redis->wire.fd = -1;
    redis->timeout = timeout;
    /* The URL is not repeated: there may be a password in it. */
    rc = server->tls ? parse_secure(url, server, redis, reterr) : 0;
    if (!server->tls && !parse_url(url, server, redis)) {
        tn_text_addf(reterr, "%s: write %s", server->who, server->form);
        rc = TENURE_E_INVALID;
    }
    if (rc == 0)
        rc = reconnect(redis, reterr);
    if (rc == 0)
        rc = log_in(redis, reterr);
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
    tn_wire_done(&redis->wire);
    free(redis->in);
    free(redis);
}
