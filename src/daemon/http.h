/* http.h - what the files of HTTP share.
 *
 * A request becomes the words of a command, which a connection of its own carries out: one without
 * a socket, whose replies come here. So HTTP has the rights, limits, words and order of RESP, and
 * an answer waits for the flush like any reply.
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_HTTP_H
#define TN_DAEMON_HTTP_H

#include "daemon/server.h"
#include "http/conn.h"
#include "http/target.h"
#include "runtime/pages.h"
#include "wire/json.h"

#define TN_BODY_MAX (64u * 1024)
#define TN_STREAM_MAX (1u << 20) /* Unsent events per reader; beyond it the connection is closed. */

/* A connection that speaks HTTP; the socket, TLS and the limits are those of its tn_conn. */
struct tn_httpd {
    struct tn_http_conn http; /* First. */
    struct tn_conn *conn;
    struct tn_http_request *request; /* NULL: none is being served. */
    struct tn_httpd *later_next;     /* Has a request, or wants a page of leases, next turn. */
    bool is_later;
};

/* Text that grows. */
struct tn_growing {
    char *bytes;
    size_t len, size;
    bool failed; /* No memory, or too much. */
};

struct tn_route;

enum tn_request_state {
    TN_REQUEST_ASKED,     /* The command has not been answered yet. */
    TN_REQUEST_LISTING,   /* A stream of events that begins with the leases as they are; */
    TN_REQUEST_AWAITING,  /* the same, and a page of them was asked for. */
    TN_REQUEST_FOLLOWING, /* A stream of events that goes on with what changes. */
    TN_REQUEST_OVER,      /* Answered, or its peer is gone. */
};

/* One request; lives from its last byte to the end of its answer. */
struct tn_http_request {
    struct tn_server *server;
    struct tn_httpd *web; /* NULL: the peer is gone. */
    struct tn_conn *conn; /* Carries the command out; NULL: there is none, or none any more. */
    enum tn_request_state state;
    bool in_use;                     /* A caller further up the stack has it. */
    const struct tn_http_head *head; /* Only until the command was given. */
    struct tn_http_target target;
    const struct tn_route *route;
    const struct tn_page *file; /* Of a page; NULL: it is a route of the API. */
    const char *rest;           /* Of the path, behind what the route names. */
    const char *fields;         /* Further fields of the answer; NULL: none. */
    struct tn_growing events;   /* Of the stream, not sent yet. */
    bool one;                   /* Of the stream: only one name; */
    bool beats;                 /* with a sign of life every second; */
    uint64_t cursor;            /* the page of leases that comes next. */
    char pattern[TN_NAME_MAX + 8];
    uint32_t silence; /* Sweeps since something was sent. */
};

/* --- http.c ----------------------------------------------------------------------------------- */

/* Answer with @text, which has content of the type @type. */
void tn_http_answer(struct tn_http_request *request, unsigned status, const char *type,
                    const char *text, size_t len);
/* {"error":WORD,"message":...} */
void tn_http_refuse(struct tn_http_request *request, unsigned status, const char *word,
                    const char *message);
/* Take it up again in the next turn of the loop. */
void tn_httpd_later(struct tn_http_conn *http);
/* Send the events that are there, if what was sent before has left. */
void tn_http_push(struct tn_http_request *request);

/* --- http_api.c ------------------------------------------------------------------------------- */

/* The route of a request; NULL: none, and the answer is there. */
const struct tn_route *tn_route_find(struct tn_http_request *request);
bool tn_route_is_open(const struct tn_route *route); /* To everybody, whatever the ACL says. */
/* The words of the command that the request means. They lie in its body, its target or its head.
 * Returns how many; 0: there is an answer instead. */
uint32_t tn_route_words(struct tn_http_request *request, struct tn_resp_word words[TN_WORDS_MAX]);
/* The reply is there: make an answer of it. */
void tn_route_replied(struct tn_http_request *request, const char *bytes, size_t len);

/* A reply being walked. */
struct tn_reply {
    const char *bytes;
    size_t len, at;
};

/* The next value; at the end, null. */
struct tn_resp_value tn_http_reply_next(struct tn_reply *reply);
/* A lease as LEASE GET and LIST give it, its array's head being read, as JSON. */
void tn_json_lease(struct tn_text *text, struct tn_reply *reply, uint32_t count);

/* --- http_reply.c ----------------------------------------------------------------------------- */

/* Make JSON of @value, the head of a reply whose rest is in @reply; @status is 200 unless set. */
typedef void tn_shape_fn(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                         unsigned *status);

tn_shape_fn tn_shape_opened, tn_shape_renewed, tn_shape_done, tn_shape_acquired, tn_shape_released,
    tn_shape_lease, tn_shape_leases, tn_shape_highest, tn_shape_token, tn_shape_told,
    tn_shape_lease_list, tn_shape_history, tn_shape_histories, tn_shape_line, tn_shape_sessions,
    tn_shape_fences, tn_shape_whoami, tn_shape_held, tn_shape_ended;

/* The whole reply; with @many it is a list of them. */
void tn_reply_write(struct tn_text *text, struct tn_reply reply, tn_shape_fn *shape, bool many,
                    unsigned *status);

/* --- http_events.c ---------------------------------------------------------------------------- */

uint32_t tn_events_words(struct tn_http_request *request, struct tn_resp_word list[TN_WORDS_MAX]);
void tn_events_begin(struct tn_http_request *request);
/* All events so far have left, and the loop may carry commands out: ask for the next leases. */
void tn_events_go_on(struct tn_http_request *request);
void tn_events_replied(struct tn_http_request *request, const char *bytes, size_t len);
void tn_events_sweep(struct tn_http_request *request);

#endif
