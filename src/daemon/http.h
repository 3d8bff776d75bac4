/* http.h - what the three files of HTTP share.
 *
 * A request becomes the words of a command, which a connection of its own carries out: one without
 * a socket, whose replies come here. So HTTP has the rights, limits, words and order of RESP, and
 * an answer waits for the flush like any reply.
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_HTTP_H
#define TN_DAEMON_HTTP_H

#include <microhttpd.h>

#include "daemon/server.h"
#include "wire/json.h"

#define TN_BODY_MAX (64u * 1024)
#define TN_STREAM_MAX (1u << 20) /* A reader of events that lets so much wait is cut off. */

/* Text that grows. */
struct tn_body {
    char *bytes;
    size_t len, size;
    bool failed; /* No memory, or too much. */
};

struct tn_route;

/* One request; lives from its first line to the end of its answer. */
struct tn_http_request {
    struct tn_server *server;
    struct MHD_Connection *mhd;
    struct tn_conn *conn; /* Carries the command out; NULL: there is none, or none any more. */
    const struct tn_route *route;
    const char *rest;    /* Of the path, behind what the route names. */
    struct tn_body body; /* Of the request, then of the stream. */
    bool suspended, answered;
    bool one, asked; /* Of the streams: only one name; leases are on their way. */
    bool streams;    /* Events follow, */
    bool listing;    /* and the state of now before them, */
    uint64_t cursor; /* from here on. */
    char pattern[TN_NAME_MAX + 8];
    uint32_t silence; /* Sweeps since something was sent. */
    unsigned status;
    struct MHD_Response *response;
};

/* --- http.c ----------------------------------------------------------------------------------- */

/* Room for @len more bytes, at most @most in all. */
bool tn_body_room(struct tn_body *body, size_t len, size_t most);
/* Take @text, which has content of the type @type, as the answer. */
void tn_http_answer(struct tn_http_request *request, unsigned status, const char *type,
                    const char *text, size_t len);
/* {"error":WORD,"message":...} */
void tn_http_refuse(struct tn_http_request *request, unsigned status, const char *word,
                    const char *message);
/* Go on with a request that was suspended. */
void tn_http_resume(struct tn_http_request *request);

/* --- relay.c ---------------------------------------------------------------------------------- */

/* Whom the certificate names at the other end of libmicrohttpd's descriptor @fd; "": nobody. */
const char *tn_relay_user(const struct tn_server *server, int fd);

/* --- http_api.c ------------------------------------------------------------------------------- */

/* The route of a request; NULL: none, and the answer is there. */
const struct tn_route *tn_route_find(struct tn_http_request *request, const char *method,
                                     const char *url);
bool tn_route_is_open(const struct tn_route *route); /* To everybody, whatever the ACL says. */
/* The body is there: the words of the command that it means. They lie in the body or in the
 * request's head. Returns how many; 0: there is an answer instead. */
uint32_t tn_route_words(struct tn_http_request *request, struct tn_resp_word words[TN_WORDS_MAX]);
/* The reply is there: make an answer of it. */
void tn_route_replied(struct tn_http_request *request, const char *bytes, size_t len);

/* A reply being walked. */
struct tn_reply {
    const char *bytes;
    size_t len, at;
};

/* The next value; at the end, null. */
struct tn_resp_value tn_reply_next(struct tn_reply *reply);
/* A lease as LEASE GET and LIST give it, its array's head being read, as JSON. */
void tn_json_lease(struct tn_text *text, struct tn_reply *reply, uint32_t count);

/* --- http_events.c ---------------------------------------------------------------------------- */

uint32_t tn_events_words(struct tn_http_request *request, struct tn_resp_word list[TN_WORDS_MAX]);
void tn_events_begin(struct tn_http_request *request);
void tn_events_replied(struct tn_http_request *request, const char *bytes, size_t len);
void tn_events_sweep(struct tn_http_request *request);

#endif
