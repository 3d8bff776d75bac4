/* redis_client.c - connecting to Redis, and asking it, with a deadline for each.
 *
 * Happy path: the URL is taken apart, a socket connected without blocking, AUTH and SELECT are
 * asked like anything else; a question is written, and bytes are read until wire/resp.h has seen a
 * whole value. What can fail: the URL, the address, the login, the deadline, a server that speaks
 * another protocol. */
#define _GNU_SOURCE
#include "receivers/redis_client.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/number.h"
#include "base/time.h"
#include "runtime/clock.h"

enum {
    PART_MAX = 256,
    ANSWER_MAX = 64 << 20, /* Of a list of fences. */
    VALUES_MAX = 1 << 20,
    MOVES_MAX = 5,
};

struct place {
    char host[PART_MAX]; /* Or the path of a socket. */
    char port[8];
    bool is_unix;
};

struct tn_redis {
    int fd;
    tenure_ns timeout;
    struct place place;
    char user[PART_MAX];
    char password[PART_MAX];
    char database[8];
    char *in;
    size_t in_len, in_size;
};

static int tell(int code, const char *what, const char *why, struct tn_text *reterr)
{
    tn_text_add(reterr, "redis: ");
    tn_text_escape(reterr, what, strlen(what));
    tn_text_addf(reterr, "%s%s", what[0] != '\0' ? ": " : "", why);
    return code;
}

struct tn_resp_word tn_redis_word(const char *text)
{
    return (struct tn_resp_word) { text, (uint32_t)strlen(text) };
}

/* --- The URL -------------------------------------------------------------------------------- */

static int hex(char c)
{
    const char *digits = "0123456789abcdef";
    const char *found =
        c != '\0' ? strchr(digits, c >= 'A' && c <= 'F' ? c + ('a' - 'A') : c) : NULL;

    return found != NULL ? (int)(found - digits) : -1;
}

/* @len bytes with %XX undone, into PART_MAX bytes. */
static bool decode(const char *text, size_t len, char *ret_part)
{
    size_t out = 0;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (c == '%') {
            int high = i + 2 < len ? hex(text[i + 1]) : -1;
            int low = i + 2 < len ? hex(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0' || out + 1 >= PART_MAX)
            return false;
        ret_part[out++] = c;
    }
    ret_part[out] = '\0';
    return true;
}

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
    bool good = decode(*text, (size_t)(colon - *text), redis->user) &&
                decode(colon + 1, (size_t)(at - colon - 1), redis->password);
    *text = at + 1;
    return good;
}

static bool parse_number(const char *text, size_t len, uint64_t most, char ret_text[8])
{
    uint64_t value;

    if (len >= 8)
        return false;
    memcpy(ret_text, text, len);
    ret_text[len] = '\0';
    return tn_u64_parse(ret_text, &value) == 0 && value <= most;
}

/* HOST[:PORT], also [v6]:PORT. */
static bool parse_host(const char *text, size_t len, struct place *place)
{
    const char *end = text + len;
    const char *close = text[0] == '[' ? memchr(text, ']', len) : NULL;
    const char *after = close != NULL ? close + 1 : memchr(text, ':', len);

    if (after == NULL)
        after = end;
    bool good = close != NULL ? decode(text + 1, (size_t)(close - text - 1), place->host)
                              : decode(text, (size_t)(after - text), place->host);
    (void)snprintf(place->port, sizeof place->port, "6379");
    if (good && after < end)
        good =
            *after == ':' && parse_number(after + 1, (size_t)(end - after - 1), 65535, place->port);
    return good && place->host[0] != '\0';
}

static bool parse_url(const char *url, struct tn_redis *redis)
{
    static const char tcp[] = "redis://";
    static const char local[] = "redis+unix:";

    if (strncmp(url, local, sizeof local - 1) == 0) {
        const char *path = url + sizeof local - 1;
        path += strncmp(path, "///", 3) == 0 ? 2 : 0;
        redis->place.is_unix = true;
        return path[0] != '\0' && strlen(path) < sizeof((struct sockaddr_un *)NULL)->sun_path &&
               decode(path, strlen(path), redis->place.host);
    }
    if (strncmp(url, tcp, sizeof tcp - 1) != 0)
        return false;
    const char *text = url + sizeof tcp - 1;
    if (!parse_login(&text, redis))
        return false;
    size_t len = strcspn(text, "/");
    if (!parse_host(text, len, &redis->place))
        return false;
    text += len;
    return text[0] == '\0' || text[1] == '\0' ||
           parse_number(text + 1, strlen(text + 1), 9999, redis->database);
}

/* --- The socket ----------------------------------------------------------------------------- */

/* Until @fd is ready for @events; false when @end has come. */
static bool wait_for(int fd, short events, tenure_ns end)
{
    struct pollfd ready = { .fd = fd, .events = events };

    for (;;) {
        tenure_ns left = end - tn_boottime();
        if (left <= 0)
            return false;
        tenure_ns ms = left / TN_MS(1) + 1;
        int rc = poll(&ready, 1, ms < 60000 ? (int)ms : 60000);
        if (rc > 0)
            return true;
        if (rc < 0 && errno != EINTR)
            return false;
    }
}

/* A connected socket, or -1 and errno. */
static int connect_to(const struct sockaddr *address, socklen_t len, tenure_ns end)
{
    int error = 0;
    socklen_t size = sizeof error;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (connect(fd, address, len) != 0)
        error = errno;
    if (error == EINPROGRESS || error == EAGAIN) {
        error = ETIMEDOUT;
        if (wait_for(fd, POLLOUT, end) && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            error = errno;
    }
    if (error == 0)
        return fd;
    (void)close(fd);
    errno = error;
    return -1;
}

static int connect_unix(const struct place *place, tenure_ns end)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    memcpy(address.sun_path, place->host, strlen(place->host) + 1);
    return connect_to((const struct sockaddr *)&address, sizeof address, end);
}

/* The first of the host's addresses that answers. */
static int connect_tcp(const struct place *place, tenure_ns end, struct tn_text *reterr)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    int fd = -1;
    int one = 1;

    int rc = getaddrinfo(place->host, place->port, &hints, &found);
    if (rc != 0)
        return tell(TENURE_E_UNAVAILABLE, place->host, gai_strerror(rc), reterr);
    for (const struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next)
        fd = connect_to(at->ai_addr, at->ai_addrlen, end);
    int error = errno;
    freeaddrinfo(found);
    if (fd >= 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    errno = error;
    return fd;
}

static int reconnect(struct tn_redis *redis, struct tn_text *reterr)
{
    tenure_ns end = tn_boottime() + redis->timeout;

    if (redis->fd >= 0)
        (void)close(redis->fd);
    redis->in_len = 0;
    redis->fd = redis->place.is_unix ? connect_unix(&redis->place, end)
                                     : connect_tcp(&redis->place, end, reterr);
    if (redis->fd >= 0)
        return 0;
    if (redis->fd < -1) { /* Told already. */
        int rc = redis->fd;
        redis->fd = -1;
        return rc;
    }
    return tell(errno == EACCES || errno == EPERM ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE,
                redis->place.host, strerror(errno), reterr);
}

/* --- Questions ------------------------------------------------------------------------------ */

static int lost(struct tn_redis *redis, struct tn_text *reterr)
{
    (void)close(redis->fd);
    redis->fd = -1;
    return tell(TENURE_E_TIMEOUT, redis->place.host, "no answer; it may have happened", reterr);
}

static bool send_all(const struct tn_redis *redis, const char *bytes, size_t len, tenure_ns end)
{
    while (len > 0) {
        ssize_t sent = send(redis->fd, bytes, len, MSG_NOSIGNAL);

        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (sent < 0 && !wait_for(redis->fd, POLLOUT, end))
            return false;
        bytes += sent > 0 ? sent : 0;
        len -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
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
    for (;;) {
        ssize_t got = recv(redis->fd, redis->in + redis->in_len, redis->in_size - redis->in_len, 0);

        if (got > 0) {
            redis->in_len += (size_t)got;
            return true;
        }
        if (got == 0 || (errno != EAGAIN && errno != EINTR) || !wait_for(redis->fd, POLLIN, end))
            return false;
    }
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
        return tell(TENURE_E_NOMEM, "", "out of memory", reterr);
    tn_resp_put_array(&out, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        tn_resp_put_bulk(&out, words[i].bytes, words[i].len);
    bool good = redis->fd >= 0 && !out.full && send_all(redis, out.buf, out.len, end);
    free(out.buf);
    redis->in_len = 0;
    while (good && len == 0) {
        good = receive(redis, end);
        if (good)
            len = tn_resp_scan(&scan, ANSWER_MAX, VALUES_MAX, redis->in, redis->in_len);
    }
    if (redis->fd < 0)
        return tell(TENURE_E_UNAVAILABLE, redis->place.host, "the connection is lost", reterr);
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
int tn_redis_error(const struct tn_resp_value *error, struct tn_text *reterr)
{
    static const struct {
        const char *word;
        int code;
    } words[] = {
        { "STALE ", TENURE_E_STALE },
        { "BADTOKEN ", TENURE_E_INVALID },
        { "BADFENCE ", TENURE_E_DAMAGED },
        { "WRONGTYPE ", TENURE_E_DAMAGED },
        { "NOAUTH ", TENURE_E_DENIED },
        { "WRONGPASS ", TENURE_E_DENIED },
        { "NOPERM ", TENURE_E_DENIED },
        { "ERR AUTH ", TENURE_E_DENIED },
        { "ERR invalid password", TENURE_E_DENIED },
    };
    int code = TENURE_E_UNAVAILABLE;

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t len = strlen(words[i].word);
        if (error->len >= len && memcmp(error->bytes, words[i].word, len) == 0)
            code = words[i].code;
    }
    tn_text_add(reterr, "redis: ");
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
        rc = tn_redis_error(&answer.value, reterr);
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
    char text[PART_MAX];
    struct place place = { .is_unix = false };

    if (value->type != TN_RESP_ERROR || value->len >= sizeof text || value->len < 6 ||
        memcmp(value->bytes, "MOVED ", 6) != 0)
        return false;
    memcpy(text, value->bytes, value->len);
    text[value->len] = '\0';
    const char *host = strrchr(text, ' ') + 1;
    const char *colon = strrchr(host, ':');
    if (colon == NULL || !parse_number(colon + 1, strlen(colon + 1), 65535, place.port))
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
    struct tn_redis *redis = calloc(1, sizeof *redis);
    int rc;

    if (redis == NULL)
        return tell(TENURE_E_NOMEM, "", "out of memory", reterr);
    redis->fd = -1;
    redis->timeout = timeout;
    /* The URL is not repeated: there may be a password in it. */
    if (!parse_url(url, redis))
        rc =
            tell(TENURE_E_INVALID, "",
                 "write redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] or redis+unix:PATH", reterr);
    else
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
    if (redis->fd >= 0)
        (void)close(redis->fd);
    free(redis->in);
    free(redis);
}
