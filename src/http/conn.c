/* conn.c - one connection of an HTTP server, without its socket; conn.h has the states.
 *
 * What can fail: the peer's bytes are no request (400), its head or its body is too large (431,
 * 413), or there is no memory: then the connection ends without an answer. */
#define _GNU_SOURCE
#include "http/conn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"

enum {
    AHEAD_MAX = 64 << 10, /* Of requests behind the one that is being answered. */
    KEPT = 64 << 10,      /* A larger buffer is freed when it is empty. */
};

void tn_http_conn_init(struct tn_http_conn *conn, const struct tn_http_service *service,
                       const struct tn_http_transport *transport, struct tn_http_head *head)
{
    *conn = (struct tn_http_conn) { .service = service, .transport = transport, .head = head };
}

void tn_http_conn_gone(struct tn_http_conn *conn)
{
    conn->state = TN_HTTP_GONE;
}

void tn_http_conn_free(struct tn_http_conn *conn)
{
    free(conn->in);
    free(conn->out);
    conn->in = conn->out = NULL;
    conn->in_len = conn->in_size = conn->out_len = conn->out_size = 0;
}

/* Room for @len more bytes behind the *@used of a buffer. */
static char *make_room(char **buf, size_t *size, size_t used, size_t len)
{
    size_t larger = *size > 0 ? *size : 1024;

    if (*size - used >= len)
        return *buf + used;
    while (larger - used < len)
        larger *= 2;
    char *moved = realloc(*buf, larger);
    if (moved == NULL)
        return NULL;
    *buf = moved;
    *size = larger;
    return moved + used;
}

/* --- Sending ---------------------------------------------------------------------------------- */

static void end_conn(struct tn_http_conn *conn)
{
    conn->state = TN_HTTP_ENDED;
    conn->in_len = 0;
    conn->transport->end(conn);
}

/* The answer has left: the next request comes to the front, or the connection ends. */
static void end_request(struct tn_http_conn *conn)
{
    size_t used = conn->head_len + conn->body.len;

    if (!conn->keep_alive) {
        end_conn(conn);
        return;
    }
    conn->in_len -= used;
    if (conn->in_len > 0) {
        memmove(conn->in, conn->in + used, conn->in_len);
    } else {
        free(conn->in); /* Most connections are idle most of the time. */
        conn->in = NULL;
        conn->in_size = 0;
    }
    conn->head_len = 0;
    conn->body = (struct tn_http_content) { 0 };
    conn->continued = false;
    conn->state = TN_HTTP_READING;
}

static void forget_sent(struct tn_http_conn *conn)
{
    conn->sending = false;
    conn->out_len = 0;
    if (conn->out_size > KEPT) {
        free(conn->out);
        conn->out = NULL;
        conn->out_size = 0;
    }
}

/* Send what is at @out. True: it has left. */
static bool send_out(struct tn_http_conn *conn)
{
    conn->sending = true;
    if (!conn->transport->send(conn, conn->out, conn->out_len))
        return false;
    forget_sent(conn);
    return conn->state != TN_HTTP_GONE;
}

static void read_on(struct tn_http_conn *conn);

void tn_http_conn_sent(struct tn_http_conn *conn)
{
    if (conn->state == TN_HTTP_GONE || !conn->sending)
        return;
    forget_sent(conn);
    switch (conn->state) {
    case TN_HTTP_ANSWERING:
        end_request(conn);
        read_on(conn);
        return;
    case TN_HTTP_STREAMING:
        conn->service->drained(conn);
        return;
    case TN_HTTP_ENDED: /* A stream that was cut off. */
        end_conn(conn);
        return;
    case TN_HTTP_READING: /* "100 Continue": the body may be there by now. */
        read_on(conn);
        return;
    case TN_HTTP_SERVING:
    case TN_HTTP_GONE:
    default:
        return;
    }
}

/* --- Answers ---------------------------------------------------------------------------------- */

static const char *reason_of(unsigned status)
{
    static const struct {
        unsigned status;
        const char *text;
    } reasons[] = {
        { TN_STATUS_OK, "OK" },
        { TN_STATUS_MOVED_PERMANENTLY, "Moved Permanently" },
        { TN_STATUS_BAD_REQUEST, "Bad Request" },
        { TN_STATUS_UNAUTHORIZED, "Unauthorized" },
        { TN_STATUS_FORBIDDEN, "Forbidden" },
        { TN_STATUS_NOT_FOUND, "Not Found" },
        { TN_STATUS_METHOD_NOT_ALLOWED, "Method Not Allowed" },
        { TN_STATUS_CONFLICT, "Conflict" },
        { TN_STATUS_GONE, "Gone" },
        { TN_STATUS_PRECONDITION_FAILED, "Precondition Failed" },
        { TN_STATUS_TOO_LARGE, "Content Too Large" },
        { TN_STATUS_UNSUPPORTED_MEDIA_TYPE, "Unsupported Media Type" },
        { TN_STATUS_PRECONDITION_REQUIRED, "Precondition Required" },
        { TN_STATUS_FIELDS_TOO_LARGE, "Request Header Fields Too Large" },
        { TN_STATUS_INTERNAL_SERVER_ERROR, "Internal Server Error" },
        { TN_STATUS_BAD_GATEWAY, "Bad Gateway" },
        { TN_STATUS_SERVICE_UNAVAILABLE, "Service Unavailable" },
        { TN_STATUS_GATEWAY_TIMEOUT, "Gateway Timeout" },
        { TN_STATUS_INSUFFICIENT_STORAGE, "Insufficient Storage" },
    };

    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (reasons[i].status == status)
            return reasons[i].text;
    }
    return "";
}

/* "Sun, 06 Nov 1994 08:49:37 GMT", in every locale (RFC 9110, 6.6.1). */
static void put_date(struct tn_text *text)
{
    static const char days[] = "SunMonTueWedThuFriSat";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    struct timespec now;
    struct tm tm;

    if (clock_gettime(CLOCK_REALTIME, &now) != 0 || gmtime_r(&now.tv_sec, &tm) == NULL)
        return;
    tn_text_addf(text, "Date: %.3s, %02d %.3s %d %02d:%02d:%02d GMT\r\n",
                 days + 3 * (size_t)tm.tm_wday, tm.tm_mday, months + 3 * (size_t)tm.tm_mon,
                 tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

static size_t head_room(const struct tn_http_response *answer)
{
    return 256 + strlen(answer->type) + (answer->fields != NULL ? strlen(answer->fields) : 0);
}

static void put_head(struct tn_text *text, const struct tn_http_response *answer)
{
    tn_text_addf(text, "HTTP/1.1 %u %s\r\n", answer->status, reason_of(answer->status));
    put_date(text);
    tn_text_addf(text, "Content-Type: %s\r\n", answer->type);
    if (answer->fields != NULL)
        tn_text_add(text, answer->fields);
}

char *tn_http_conn_room(struct tn_http_conn *conn, size_t len)
{
    TN_ASSERT(conn->state == TN_HTTP_SERVING || conn->state == TN_HTTP_STREAMING ||
              conn->state == TN_HTTP_GONE);
    char *room = conn->state == TN_HTTP_GONE || conn->sending
                     ? NULL
                     : make_room(&conn->out, &conn->out_size, 0, len);
    if (room == NULL && conn->state != TN_HTTP_GONE)
        end_conn(conn);
    return room;
}

void tn_http_conn_built(struct tn_http_conn *conn, size_t len)
{
    TN_ASSERT(conn->state == TN_HTTP_SERVING);
    conn->out_len = len;
    conn->state = TN_HTTP_ANSWERING;
    if (!send_out(conn))
        return;
    end_request(conn);
    read_on(conn);
}

void tn_http_conn_answer(struct tn_http_conn *conn, const struct tn_http_response *answer)
{
    size_t size = head_room(answer) + answer->len;
    char *room = tn_http_conn_room(conn, size);
    struct tn_text text;

    if (room == NULL)
        return;
    tn_text_init(&text, room, size);
    put_head(&text, answer);
    tn_text_addf(&text, "Content-Length: %zu\r\n", answer->len);
    tn_text_add(&text, conn->keep_alive ? "\r\n" : "Connection: close\r\n\r\n");
    tn_text_add_bytes(&text, answer->body, conn->to_head ? 0 : answer->len);
    TN_ASSERT(!tn_text_truncated(&text));
    tn_http_conn_built(conn, text.len);
}

/* --- Streams ---------------------------------------------------------------------------------- */

void tn_http_conn_stream(struct tn_http_conn *conn, const struct tn_http_response *answer)
{
    size_t size = head_room(answer);
    char *room = tn_http_conn_room(conn, size);
    struct tn_text text;

    if (room == NULL)
        return;
    conn->keep_alive = conn->keep_alive && conn->chunked;
    tn_text_init(&text, room, size);
    put_head(&text, answer);
    tn_text_add(&text, conn->chunked ? "Transfer-Encoding: chunked\r\n" : "");
    tn_text_add(&text, conn->keep_alive ? "\r\n" : "Connection: close\r\n\r\n");
    TN_ASSERT(!tn_text_truncated(&text));
    conn->out_len = text.len;
    conn->state = TN_HTTP_STREAMING;
    if (conn->to_head)
        tn_http_conn_finish(conn);
    else
        (void)send_out(conn);
}

bool tn_http_conn_is_drained(const struct tn_http_conn *conn)
{
    return conn->state == TN_HTTP_STREAMING && !conn->sending;
}

void tn_http_conn_chunk(struct tn_http_conn *conn, const char *bytes, size_t len)
{
    size_t size = len + 32;
    char *room = tn_http_conn_room(conn, size);
    struct tn_text text;

    if (room == NULL)
        return;
    tn_text_init(&text, room, size);
    if (conn->chunked)
        tn_text_addf(&text, "%zx\r\n", len);
    tn_text_add_bytes(&text, bytes, len);
    tn_text_add(&text, conn->chunked ? "\r\n" : "");
    conn->out_len = text.len;
    (void)send_out(conn);
}

/* If something is still being sent, the stream ends behind it; the missing last chunk shows that it
 * was cut off. */
void tn_http_conn_finish(struct tn_http_conn *conn)
{
    static const char last[] = "0\r\n\r\n";
    bool sends = conn->sending;

    if (conn->state != TN_HTTP_STREAMING)
        return;
    conn->state = sends ? TN_HTTP_ENDED : TN_HTTP_ANSWERING;
    if (!sends && !conn->to_head && conn->chunked) {
        char *room = make_room(&conn->out, &conn->out_size, 0, sizeof last);
        conn->out_len = room != NULL ? sizeof last - 1 : 0;
        if (room != NULL)
            memcpy(room, last, sizeof last - 1);
        else
            conn->keep_alive = false; /* Nothing may follow a stream without its end. */
    }
    if (sends || (conn->out_len > 0 && !send_out(conn)))
        return;
    end_request(conn);
    read_on(conn);
}

/* --- Requests --------------------------------------------------------------------------------- */

static bool is_head(const struct tn_http_head *head)
{
    return head->method.len == 4 && memcmp(head->method.bytes, "HEAD", 4) == 0;
}

/* What cannot be understood, or is too much. */
static void give_up(struct tn_http_conn *conn, unsigned status, const char *why)
{
    conn->keep_alive = conn->to_head = false;
    conn->state = TN_HTTP_SERVING;
    conn->service->refuse(conn, status, why);
}

/* A client that waits for permission to send the body (curl does) gets it. */
static void send_continue(struct tn_http_conn *conn)
{
    static const char word[] = "HTTP/1.1 100 Continue\r\n\r\n";

    if (conn->continued || conn->sending || conn->head->minor == 0)
        return;
    for (size_t i = 0; i < conn->head->count; i++) {
        const struct tn_http_field *field = &conn->head->fields[i];
        char *room;
        if (!tn_http_is(&field->name, "expect") || !tn_http_is(&field->value, "100-continue"))
            continue;
        conn->continued = true;
        room = make_room(&conn->out, &conn->out_size, 0, sizeof word);
        if (room == NULL)
            return;
        memcpy(room, word, sizeof word - 1);
        conn->out_len = sizeof word - 1;
        (void)send_out(conn);
        return;
    }
}

static unsigned count_hosts(const struct tn_http_head *head)
{
    unsigned count = 0;

    for (size_t i = 0; i < head->count; i++)
        count += tn_http_is(&head->fields[i].name, "host");
    return count;
}

static void serve(struct tn_http_conn *conn, size_t head_len)
{
    const struct tn_http_head *head = conn->head;

    conn->head_len = head_len;
    conn->keep_alive = head->keep_alive;
    conn->chunked = head->minor > 0;
    conn->to_head = is_head(head);
    conn->state = TN_HTTP_SERVING;
    conn->service->request(conn, head);
}

/* Serve the request at the front, if it is whole. False: there is none. */
static bool read_one(struct tn_http_conn *conn)
{
    struct tn_http_head *head = conn->head;
    int64_t len = conn->in_len > 0 ? tn_http_read_request(conn->in, conn->in_len, head) : 0;
    int rc = (int)len;

    if (len > 0)
        rc = tn_http_gather(conn->in, &conn->in_len, head, (size_t)len, conn->service->body_max,
                            &conn->body);
    bool ready = rc == 1 && !conn->sending; /* "100 Continue" has to leave first. */
    if (len > 0 && count_hosts(head) > 1)
        give_up(conn, TN_STATUS_BAD_REQUEST, "the field Host is there more than once");
    else if (ready)
        serve(conn, (size_t)len);
    else if (rc == 0 && len > 0)
        send_continue(conn);
    else if (rc == TENURE_E_FULL && len > 0)
        give_up(conn, TN_STATUS_TOO_LARGE, "the body is too large");
    else if (rc < 0)
        give_up(conn, rc == TENURE_E_FULL ? TN_STATUS_FIELDS_TOO_LARGE : TN_STATUS_BAD_REQUEST,
                rc == TENURE_E_FULL ? "the fields are too long" : "this is not HTTP/1.1");
    return ready && conn->state == TN_HTTP_READING;
}

static void set_paused(struct tn_http_conn *conn, bool paused)
{
    if (conn->paused == paused || conn->state == TN_HTTP_GONE)
        return;
    conn->paused = paused;
    conn->transport->pause(conn, paused);
}

/* An answer has left. If it was given at once, the loop below goes on by itself. */
static void read_on(struct tn_http_conn *conn)
{
    if (conn->in_step)
        return;
    if (conn->transport->later != NULL && conn->in_len > 0)
        conn->transport->later(conn);
    else
        tn_http_conn_go_on(conn);
}

void tn_http_conn_go_on(struct tn_http_conn *conn)
{
    conn->in_step = true;
    while (conn->state == TN_HTTP_READING && read_one(conn))
        continue;
    conn->in_step = false;
    size_t used = conn->head_len + conn->body.len;
    if (conn->state == TN_HTTP_READING || conn->state == TN_HTTP_ENDED)
        set_paused(conn, false);
    else if (conn->in_len > used && conn->in_len - used > AHEAD_MAX)
        set_paused(conn, true);
    if (conn->state == TN_HTTP_READING && conn->peer_done) /* Half a request stays half. */
        end_conn(conn);
}

bool tn_http_conn_take(struct tn_http_conn *conn, const char *bytes, size_t len)
{
    if (conn->state == TN_HTTP_ENDED || conn->state == TN_HTTP_GONE)
        return true; /* Nothing more is read. */
    char *room = make_room(&conn->in, &conn->in_size, conn->in_len, len);
    if (room == NULL)
        return false;
    memcpy(room, bytes, len);
    conn->in_len += len;
    if (!conn->in_step)
        tn_http_conn_go_on(conn);
    return true;
}

bool tn_http_conn_peer_done(struct tn_http_conn *conn)
{
    conn->peer_done = true;
    return conn->state == TN_HTTP_READING || conn->state == TN_HTTP_STREAMING ||
           conn->state == TN_HTTP_ENDED;
}

bool tn_http_conn_is_partial(const struct tn_http_conn *conn)
{
    return conn->state == TN_HTTP_READING && conn->in_len > 0;
}

const struct tn_http_head *tn_http_conn_head(struct tn_http_conn *conn)
{
    int64_t len = tn_http_read_request(conn->in, conn->in_len, conn->head);

    TN_ASSERT(conn->state == TN_HTTP_SERVING);
    TN_ASSERT(len == (int64_t)conn->head_len);
    return conn->head;
}

char *tn_http_conn_body(const struct tn_http_conn *conn, size_t *ret_len)
{
    *ret_len = conn->body.len;
    return conn->in + conn->head_len;
}
