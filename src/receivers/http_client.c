/* http_client.c - asking an HTTP/1.1 server, with a deadline.
 *
 * Happy path: an open connection is used again if it is still quiet, else a new one is made; the
 * request is sent, the answer read whole. What can fail: the connection before anything was sent,
 * which is harmless, or after that, when nobody knows; an answer that is none, or too large. */
#define _GNU_SOURCE
#include "receivers/http_client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/clock.h"

bool tn_http_url_parse(const char *url, struct tn_place *ret_place)
{
    static const char scheme[] = "http://";

    if (strncmp(url, scheme, sizeof scheme - 1) != 0)
        return false;
    const char *host = url + sizeof scheme - 1;
    size_t len = strcspn(host, "/?#@");
    if (host[len] != '\0' && strcmp(host + len, "/") != 0)
        return false;
    return tn_place_parse(host, len, "80", ret_place);
}

int tn_http_client_init(struct tn_http_client *client, const char *url, struct tn_text *reterr)
{
    static const struct tn_net_form form = {
        .scheme = "https",
        .usage = "https://HOST[:PORT][?ca=FILE&cert=FILE&key=FILE&name=NAME]",
        .port = "443",
        .tls = "https",
        .with_tls = true,
    };
    struct tn_net_url parts;
    int rc = 0;

    *client = (struct tn_http_client) { .wire = { .fd = -1 } };
    if (strncmp(url, "https:", 6) == 0) {
        rc = tn_wire_parse(&client->wire, &form, url + 6, &parts, &client->place, reterr);
        if (rc == 0 && (parts.user[0] != '\0' || parts.path[0] != '\0')) {
            tn_text_addf(reterr, "https: a gate has no user and no path; write %s", form.usage);
            rc = TENURE_E_INVALID;
        }
    } else if (!tn_http_url_parse(url, &client->place)) {
        tn_text_add(reterr, "http: write http://HOST[:PORT], the address of a gate");
        rc = TENURE_E_INVALID;
    }
    if (rc < 0)
        tn_http_client_done(client);
    return rc;
}

void tn_http_client_done(struct tn_http_client *client)
{
    tn_wire_done(&client->wire);
    free(client->in);
    client->in = NULL;
}

/* A connection on which the server has said something, or good-bye, is of no use. */
static bool is_quiet(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static int lost(struct tn_http_client *client, const char *why, struct tn_text *reterr)
{
    const char *tls = tn_wire_error(&client->wire);

    tn_text_add(reterr, "http: ");
    tn_text_escape(reterr, client->place.host, strlen(client->place.host));
    tn_text_addf(reterr, ": %s; it may have happened", tls[0] != '\0' ? tls : why);
    tn_wire_disconnect(&client->wire);
    return TENURE_E_TIMEOUT;
}

static bool make_room(struct tn_http_client *client, size_t need)
{
    size_t size = client->in_size > 0 ? client->in_size : 4096;

    if (need > (size_t)TN_HTTP_BODY_MAX + TN_HTTP_HEAD_MAX)
        return false;
    while (size < need)
        size *= 2;
    if (size == client->in_size)
        return true;
    char *larger = realloc(client->in, size);
    if (larger == NULL)
        return false;
    client->in = larger;
    client->in_size = size;
    return true;
}

/* Reads at least one byte behind *@len; false at the end, too. */
static bool read_more(struct tn_http_client *client, size_t *len, tenure_ns end)
{
    if (*len == client->in_size && !make_room(client, *len + 1))
        return false;
    long got = tn_wire_receive(&client->wire, client->in + *len, client->in_size - *len, end);
    *len += got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* The head; informational answers (1xx) are passed over. Returns its length, or -1. */
static int64_t read_head(struct tn_http_client *client, bool to_head, size_t *len, tenure_ns end)
{
    for (;;) {
        int64_t head = tn_http_read(client->in, *len, to_head, &client->head);

        if (head < 0 || (head == 0 && !read_more(client, len, end)))
            return -1;
        if (head > 0 && client->head.status >= 200)
            return head;
        if (head > 0) {
            *len -= (size_t)head;
            memmove(client->in, client->in + head, *len);
        }
    }
}

/* The chunks behind @at; their content is gathered there. */
static bool read_chunks(struct tn_http_client *client, size_t at, size_t *len, tenure_ns end)
{
    struct tn_http_chunks chunks = { 0 };
    size_t data = 0;
    bool done = false;
    size_t fresh = at;

    for (;;) {
        int64_t used = tn_http_unchunk(&chunks, client->in + fresh, *len - fresh, &data, &done);

        if (used < 0 || (done && (size_t)used < *len - fresh))
            return false;
        fresh += data;
        *len = fresh;
        if (done)
            return true;
        if (!read_more(client, len, end))
            return false;
    }
}

static bool read_body(struct tn_http_client *client, size_t at, size_t *len, tenure_ns end)
{
    switch (client->head.body) {
    case TN_HTTP_NO_BODY:
        return *len == at;
    case TN_HTTP_LENGTH:
        if (client->head.length > TN_HTTP_BODY_MAX ||
            !make_room(client, at + (size_t)client->head.length))
            return false;
        while (*len < at + client->head.length) {
            if (!read_more(client, len, end))
                return false;
        }
        return *len == at + client->head.length;
    case TN_HTTP_CHUNKED:
        return read_chunks(client, at, len, end);
    case TN_HTTP_UNTIL_CLOSE:
    default:
        while (read_more(client, len, end))
            continue;
        return client->wire.tls == NULL && tn_boottime() < end && *len < (size_t)TN_HTTP_BODY_MAX;
    }
}

static int receive(struct tn_http_client *client, bool to_head, tenure_ns end,
                   struct tn_http_answer *ret_answer, struct tn_text *reterr)
{
    size_t len = 0;

    int64_t head = read_head(client, to_head, &len, end);
    if (head < 0)
        return lost(client, "no answer, or none that is HTTP", reterr);
    const char *before = client->in;
    if (!read_body(client, (size_t)head, &len, end))
        return lost(client, "the answer did not end well", reterr);
    /* The buffer may have moved: the slices of the head move with it. */
    if (client->in != before &&
        tn_http_read(client->in, (size_t)head, to_head, &client->head) != head)
        return lost(client, "the answer did not end well", reterr);
    if (!client->head.keep_alive)
        tn_wire_disconnect(&client->wire);
    *ret_answer = (struct tn_http_answer) { .head = &client->head,
                                            .body = client->in + head,
                                            .len = len - (size_t)head };
    return 0;
}

int tn_http_ask(struct tn_http_client *client, const char *head, size_t head_len, const void *body,
                size_t len, bool to_head, tenure_ns timeout, struct tn_http_answer *ret_answer,
                struct tn_text *reterr)
{
    tenure_ns end = tn_boottime() + timeout;

    if (client->wire.fd >= 0 && !is_quiet(client->wire.fd))
        tn_wire_disconnect(&client->wire);
    if (!make_room(client, 4096)) {
        tn_text_add(reterr, "out of memory");
        return TENURE_E_NOMEM;
    }
    int rc = client->wire.fd >= 0
                 ? 0
                 : tn_wire_connect(&client->wire, &client->place, end, "http", reterr);
    if (rc < 0)
        return rc;
    if (!tn_wire_send(&client->wire, head, head_len, end) ||
        !tn_wire_send(&client->wire, body, len, end))
        return lost(client, "the connection broke", reterr);
    return receive(client, to_head, end, ret_answer, reterr);
}
