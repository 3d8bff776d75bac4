/* inner.h - what the files of the gate share: its connections, and who calls whom.
 *
 * http/server.h reads requests; client.c decides; upstream.c asks the server; gate.c has the loop,
 * and ends what takes too long. One thread, so a decision of the fence and what follows are one
 * step. */
#ifndef TN_GATE_INNER_H
#define TN_GATE_INNER_H

#include <uv.h>

#include "base/name.h"
#include "gate/fences.h"
#include "gate/gate.h"
#include "gate/link.h"
#include "http/server.h"
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
    struct tn_http_server server;
    uv_timer_t sweep;
    uv_signal_t signals[2];
    int port;
    /* The server. */
    struct tn_place place;
    struct addrinfo *addresses;
    uv_getaddrinfo_t resolve;
    bool resolving;
    struct tn_gate_upstream *idle;
    size_t idle_count;
    struct tn_http_head head; /* Of the answer that is being read. */
};

/* Where the request is. */
enum tn_client_state {
    TN_CLIENT_IDLE,    /* There is none. */
    TN_CLIENT_WAITING, /* For older requests to end. */
    TN_CLIENT_ASKING,  /* With the server. */
};

/* What a request claims. */
struct tn_gate_claim {
    char resource[TN_NAME_MAX + 1];
    size_t len;
    uint64_t token;
};

struct tn_client;
/* False: the server cannot be asked. */
typedef bool tn_client_step(struct tn_client *client, const struct tn_http_head *head);

struct tn_client {
    struct tn_http_peer peer; /* First. */
    struct tn_gate *gate;
    enum tn_client_state state;
    uint64_t deadline; /* Of uv_now; not of an idle one. */
    struct tn_gate_claim claim;
    struct tn_gate_fence *fence; /* In flight behind it. */
    struct tn_gate_wait wait;
    tn_client_step *when_clear; /* WAITING: what then. */
    const char *status_field;
    struct tn_gate_upstream *upstream; /* ASKING. */
};

/* How the gate answers; @server.arg is the gate. */
struct tn_http_server_options tn_client_options(void);

/* Its time is over. */
void tn_client_late(struct tn_client *client);

/* The end of ASKING: the answer, whole, is copied; its length, 0 without memory, is for the call
 * below, once the server's connection is free again. */
size_t tn_client_answered(struct tn_client *client, const struct tn_http_head *head,
                          const char *bytes, size_t head_len, size_t body_len);
void tn_client_landed(struct tn_client *client, size_t len);

/* Or why there is no answer. */
void tn_client_failed(struct tn_client *client, unsigned status, const char *why);

/* A method whose body has no meaning (RFC 9110, 9.3.1, 9.3.2, 9.3.5, 9.3.8). A server that ignores
 * the body would parse it as the next request. */
bool tn_gate_is_bodiless(const struct tn_http_head *head);

/* Adds the fields that are to be handed on. */
void tn_gate_copy_fields(struct tn_text *text, const struct tn_http_head *head);

/* Ask the server for @client, whose request has this @head. False: it cannot be asked. */
bool tn_upstream_ask(struct tn_client *client, const struct tn_http_head *head);

/* Nobody waits for its answer any more. */
void tn_upstream_forget(struct tn_gate_upstream *upstream);

/* Close the idle ones. */
void tn_upstream_end_idle(struct tn_gate *gate);

/* Look the server's name up; the first time at once. Errors as in receivers/target.h. */
int tn_upstream_resolve(struct tn_gate *gate, struct tn_text *reterr);

#endif
