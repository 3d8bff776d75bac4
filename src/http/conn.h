/* conn.h - the server's end of one HTTP/1.1 connection: requests in, answers out.
 *
 * It has no socket and no timer. The owner of the socket passes on what has arrived and sends what
 * it is given (struct tn_http_transport); the service answers (struct tn_http_service). A request
 * is handed over whole, its body included. Requests are served one after the other, and the next
 * one is read when the answer has left: a peer that does not read cannot pile answers up.
 *
 *   READING --request--> SERVING --answer--> ANSWERING --sent--> READING, or ENDED
 *                           |                            (the peer or the service said close)
 *                           +------stream--> STREAMING --finish--> ANSWERING
 *
 * Any of them goes to GONE when the owner says so. Threads: one at a time. */
#ifndef TN_HTTP_CONN_H
#define TN_HTTP_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "wire/http.h"

struct tn_http_conn;

enum {
    TN_STATUS_OK = 200,
    TN_STATUS_MOVED_PERMANENTLY = 301,
    TN_STATUS_BAD_REQUEST = 400,
    TN_STATUS_UNAUTHORIZED = 401,
    TN_STATUS_FORBIDDEN = 403,
    TN_STATUS_NOT_FOUND = 404,
    TN_STATUS_METHOD_NOT_ALLOWED = 405,
    TN_STATUS_CONFLICT = 409,
    TN_STATUS_GONE = 410,
    TN_STATUS_PRECONDITION_FAILED = 412,
    TN_STATUS_TOO_LARGE = 413,
    TN_STATUS_UNSUPPORTED_MEDIA_TYPE = 415,
    TN_STATUS_PRECONDITION_REQUIRED = 428,
    TN_STATUS_FIELDS_TOO_LARGE = 431,
    TN_STATUS_INTERNAL_SERVER_ERROR = 500,
    TN_STATUS_BAD_GATEWAY = 502,
    TN_STATUS_SERVICE_UNAVAILABLE = 503,
    TN_STATUS_GATEWAY_TIMEOUT = 504,
    TN_STATUS_INSUFFICIENT_STORAGE = 507,
};

/* What answers. None of these is called inside of a call of its own. */
struct tn_http_service {
    size_t body_max; /* Of a request. A larger one is refused with 413. */
    /* A whole request: @head is valid during the call. Answer it now or later. */
    void (*request)(struct tn_http_conn *conn, const struct tn_http_head *head);
    /* What arrived is no request, or too large: answer with this status. Then the connection ends,
     * because nobody knows where the next request would begin. */
    void (*refuse)(struct tn_http_conn *conn, unsigned status, const char *why);
    /* All that was given to tn_http_conn_chunk has left. NULL: there are no streams. */
    void (*drained)(struct tn_http_conn *conn);
};

/* What has the socket. */
struct tn_http_transport {
    /* Send this. True: it has left, or never will. False: tn_http_conn_sent follows, and @bytes
     * stay as they are until then. */
    bool (*send)(struct tn_http_conn *conn, const char *bytes, size_t len);
    /* Stop reading from the peer, or go on. */
    void (*pause)(struct tn_http_conn *conn, bool pause);
    /* The last answer has left. */
    void (*end)(struct tn_http_conn *conn);
    /* The next request is there already: call tn_http_conn_go_on when it may be served. NULL: it
     * may be at once. */
    void (*later)(struct tn_http_conn *conn);
};

enum tn_http_conn_state {
    TN_HTTP_READING,
    TN_HTTP_SERVING,
    TN_HTTP_ANSWERING,
    TN_HTTP_STREAMING,
    TN_HTTP_ENDED,
    TN_HTTP_GONE,
};

struct tn_http_conn {
    const struct tn_http_service *service;
    const struct tn_http_transport *transport;
    struct tn_http_head *head; /* Shared by the connections of one server, to save memory. */
    void *user;                /* The service's. */
    enum tn_http_conn_state state;
    bool in_step;    /* Requests are being read further up the stack. */
    bool paused;     /* The peer is far ahead: it is not read from. */
    bool peer_done;  /* The peer sends no more. */
    bool keep_alive; /* The connection outlives this request. */
    bool to_head;    /* The request is HEAD: the answer has no body. */
    bool chunked;    /* The stream is; otherwise it lasts until the connection ends. */
    bool continued;  /* "100 Continue" was sent. */
    bool sending;    /* What is at @out has not left yet. */
    size_t head_len; /* Of the request at the front of @in; 0: it is not whole yet. */
    struct tn_http_content body;
    char *in;
    size_t in_len, in_size;
    char *out;
    size_t out_len, out_size;
};

struct tn_http_response {
    unsigned status;
    const char *type;   /* The media type. */
    const char *fields; /* Further fields, each with its CR LF; NULL: none. */
    const char *body;
    size_t len;
};

/* @head: where heads are parsed; may be shared by all connections of one thread. */
void tn_http_conn_init(struct tn_http_conn *conn, const struct tn_http_service *service,
                       const struct tn_http_transport *transport, struct tn_http_head *head);
/* The socket is closed: nothing is called any more. And its memory, once nobody uses it. */
void tn_http_conn_gone(struct tn_http_conn *conn);
void tn_http_conn_free(struct tn_http_conn *conn);

/* --- For the transport ------------------------------------------------------------------------ */

/* These bytes have arrived. False: no memory; close it. */
TENURE_MUST_USE bool tn_http_conn_take(struct tn_http_conn *conn, const char *bytes, size_t len);
/* The peer sends no more. True: it waits for nothing either, so close it. */
TENURE_MUST_USE bool tn_http_conn_peer_done(struct tn_http_conn *conn);
/* What was being sent has left. */
void tn_http_conn_sent(struct tn_http_conn *conn);
/* Serve what waits, after @later. */
void tn_http_conn_go_on(struct tn_http_conn *conn);
/* Whether a request has begun to arrive and is not whole. */
bool tn_http_conn_is_partial(const struct tn_http_conn *conn);

/* --- For the service -------------------------------------------------------------------------- */

/* Parse the head of the request again that is being served. */
const struct tn_http_head *tn_http_conn_head(struct tn_http_conn *conn);
/* The body, which the service may change. */
char *tn_http_conn_body(const struct tn_http_conn *conn, size_t *ret_len);

void tn_http_conn_answer(struct tn_http_conn *conn, const struct tn_http_response *answer);
/* An answer of the caller's own making: ask for room, write it there, and say how long it is. The
 * room is NULL when there is no memory; then the connection ends. */
char *tn_http_conn_room(struct tn_http_conn *conn, size_t len);
void tn_http_conn_built(struct tn_http_conn *conn, size_t len);

/* Begin an answer whose length is not known; the body of @answer is not used. */
void tn_http_conn_stream(struct tn_http_conn *conn, const struct tn_http_response *answer);
/* Whether the next piece may be given; otherwise the service's @drained will tell. */
bool tn_http_conn_is_drained(const struct tn_http_conn *conn);
/* The next piece; without memory for it the connection ends before its last chunk. */
void tn_http_conn_chunk(struct tn_http_conn *conn, const char *bytes, size_t len);
/* That was all of it. */
void tn_http_conn_finish(struct tn_http_conn *conn);

#endif
