/* inner.h - what the files of the gate share: its connections, and who calls whom.
 *
 * client.c reads requests and decides; upstream.c asks the server; gate.c has the loop, and ends
 * what takes too long. One thread, so a decision of the fence and what follows are one step. */
#ifndef TN_GATE_INNER_H
#define TN_GATE_INNER_H

#include <uv.h>

#include "base/name.h"
#include "gate/fences.h"
#include "gate/gate.h"
#include "gate/link.h"
#include "receivers/socket.h"
#include "wire/http.h"

enum {
    TN_GATE_BODY_MAX = 16 << 20,   /* Of a request. */
    TN_GATE_ANSWER_MAX = 64 << 20, /* Of an answer, its head included. */
    TN_GATE_CLIENTS_MAX = 1000,
};

struct tn_gate {
    struct tn_gate_options options;
    struct tn_gate_fences *fences;
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_timer_t sweep;
    uv_signal_t signals[2];
    int port;
    struct tn_client *clients;
    size_t client_count;
    bool unaccepted; /* One waits for memory. */
    /* The server. */
    struct tn_place place;
    struct addrinfo *addresses;
    uv_getaddrinfo_t resolve;
    bool resolving;
    struct tn_upstream *idle;
    size_t idle_count;
    struct tn_http_head head; /* Of whatever is being read. */
};

enum tn_client_state {
    TN_CLIENT_READING,
    TN_CLIENT_WAITING, /* For older requests to end. */
    TN_CLIENT_ASKING,
    TN_CLIENT_ANSWERING, /* The rest of an answer is still to go. */
    TN_CLIENT_LEAVING,   /* Nothing more is read, so that the last answer is not reset. */
};

/* What a request claims. */
struct tn_claim {
    char resource[TN_NAME_MAX + 1];
    size_t len;
    uint64_t token;
};

/* How the body of a message goes on. All zero: at its start. */
struct tn_body {
    struct tn_http_chunks chunks;
    size_t len; /* What is there of it, behind the head. */
};

struct tn_client {
    struct tn_link link; /* First. */
    struct tn_gate *gate;
    struct tn_client *next, **back;
    enum tn_client_state state;
    uint64_t deadline; /* Of uv_now. */
    bool ended;        /* It sends no more. */
    /* The request at the front of what was read. */
    size_t head_len;
    struct tn_body body;
    bool keep_alive, to_head, continued;
    struct tn_claim claim;
    struct tn_gate_fence *fence; /* In flight behind it. */
    struct tn_gate_wait wait;
    bool (*when_clear)(struct tn_client *); /* WAITING: what then. */
    const char *status_field;
    struct tn_upstream *upstream; /* ASKING. */
};

/* A connection that was accepted; it looks after itself from here on. */
void tn_client_begin(struct tn_gate *gate);

/* Its time is over. */
void tn_client_late(struct tn_client *client);

/* The gate's is. */
void tn_client_end(struct tn_client *client);

/* The end of ASKING: the answer, whole, and when it was copied, the rest. False: no memory. */
bool tn_client_answered(struct tn_client *client, const struct tn_http_head *head,
                        const char *bytes, size_t head_len, size_t body_len);
void tn_client_landed(struct tn_client *client, bool good);

/* Or why there is no answer. */
void tn_client_failed(struct tn_client *client, unsigned status, const char *why);

/* Read what there is of a body behind @head_len bytes of a head; chunks lose their framing.
 * Returns 1 when it is whole; 0: more is needed; TENURE_E_INVALID; TENURE_E_FULL: over @max. */
int tn_gate_body(struct tn_link *link, const struct tn_http_head *head, size_t head_len, size_t max,
                 struct tn_body *body);

/* A method whose body has no meaning (RFC 9110, 9.3.1, 9.3.2, 9.3.5, 9.3.8). A server that ignores
 * the body would parse it as the next request. */
bool tn_gate_is_bodiless(const struct tn_http_head *head);

/* Adds the fields that are to be handed on. */
void tn_gate_copy_fields(struct tn_text *text, const struct tn_http_head *head);

/* Ask the server for @client, whose request is in the gate's head and the client's buffer. False:
 * it cannot be asked. */
bool tn_upstream_ask(struct tn_client *client);

/* Nobody waits for its answer any more. */
void tn_upstream_forget(struct tn_upstream *upstream);

/* Close the idle ones. */
void tn_upstream_end_idle(struct tn_gate *gate);

/* Look the server's name up; the first time at once. Errors as in receivers/target.h. */
int tn_upstream_resolve(struct tn_gate *gate, struct tn_text *reterr);

#endif
