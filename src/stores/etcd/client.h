/* client.h - etcd's calls on one connection: unary ones, and the stream of watches.
 *
 * Whoever asks says until when it waits. A call waits for a connection and for the password to be
 * accepted; it is sent once, and once more only if the server said that it looked at nothing but
 * the token. Each answer says whether a write may have happened (tenure/error.h).
 *
 * Only so many calls are under way at a time: a server that is slower than we ask gets no more to
 * do than it can, instead of working on what we have given up.
 *
 * Callbacks come from the loop, never from within the function that asks.
 * Threads: the loop's. */
#ifndef TN_STORES_ETCD_CLIENT_H
#define TN_STORES_ETCD_CLIENT_H

#include "base/list.h"
#include "etcd.pb-c.h"
#include "runtime/stream.h"
#include "stores/etcd/config.h"
#include "stores/etcd/grpc.h"

struct tn_etcd_client;
struct tn_etcd_rpc;

struct tn_etcd_reply {
    int status; /* 0, or a TENURE_E_ code; then there is no message. */
    int grpc;   /* The server's own code, or TN_GRPC_LOST. */
    const ProtobufCMessage *message;
    const char *text; /* One line: what was wrong, and what to do. */
};

typedef void tn_etcd_answered(void *arg, const struct tn_etcd_reply *reply);

/* A key or a range that is watched from a revision on; the caller's memory. It fires once:
 * something happened there, or nobody can tell any more. Then, and when it is stopped, it is
 * idle. */
struct tn_etcd_watch {
    void (*fired)(struct tn_etcd_watch *watch);
    void *arg;
    int64_t put_at; /* When it fires: the revision of the put that did it; 0: something else. */
    /* The client's own. */
    struct tn_etcd_client *client; /* NULL: idle. */
    struct tn_etcd_watcher *watcher;
};

struct tn_etcd_client {
    struct tn_etcd_config config;
    struct tn_tls_context *tls;
    struct tn_stream stream; /* HTTP/2 on it is a connection that comes back. */
    struct tn_grpc *grpc;    /* While it is up, otherwise NULL. */
    bool proven;             /* The server has said something on this connection. */
    const struct tn_clock *clock;
    tenure_ns patience;
    void (*ready)(void *arg); /* Connected, and known to the server, again. */
    void *arg;
    char token[512];
    bool authenticating, authenticated;
    char denied[TN_ERROR_TEXT]; /* Why the server does not let us in. */
    char said[TN_ERROR_TEXT];   /* By tn_etcd_explain. */
    char warning[TN_ERROR_TEXT];
    char version[32];
    bool asked_version;
    struct tn_list under_way, waiting; /* The latter for a connection, or for their turn. */
    unsigned running;                  /* How many are under way. */
    struct tn_grpc_call watch_call;
    struct tn_list watchers; /* In the order of creation, which the stream confirms them in. */
    tenure_ns asked_at;      /* When something was first sent since the server was last heard. */
    uv_timer_t tick;
    void (*ticked)(void *arg); /* With every tick. */
    void (*closed)(void *arg);
    unsigned parts;
    bool closing;
};

/* Reads the URL; nothing is connected before tn_etcd_client_start. On error nothing is left. */
TENURE_MUST_USE int tn_etcd_client_init(struct tn_etcd_client *client, uv_loop_t *loop,
                                        const char *rest, bool tls, struct tn_text *reterr);
void tn_etcd_client_start(struct tn_etcd_client *client);
/* What is pending is answered with TENURE_E_CLOSED first. */
void tn_etcd_client_close(struct tn_etcd_client *client, void (*closed)(void *arg));

/* Call @path with @request (packed at once, not kept); the answer has @type. NULL: out of memory,
 * and @answered will not be called. */
struct tn_etcd_rpc *tn_etcd_call(struct tn_etcd_client *client, const char *path,
                                 const ProtobufCMessage *request,
                                 const ProtobufCMessageDescriptor *type, tenure_ns give_up_at,
                                 tn_etcd_answered *answered, void *arg);

/* A transaction; the message is an Etcd__TxnResponse. NULL: as tn_etcd_call. */
struct tn_etcd_rpc *tn_etcd_txn(struct tn_etcd_client *client, const Etcd__TxnRequest *txn,
                                tenure_ns give_up_at, tn_etcd_answered *answered, void *arg);

/* It goes before those that wait for their turn: without the session nothing else matters. */
void tn_etcd_hurry(struct tn_etcd_rpc *rpc);

/* Nobody wants the answer. NULL is fine. */
void tn_etcd_cancel(struct tn_etcd_rpc *rpc);

/* Keep lease @id alive; the message is an Etcd__LeaseKeepAliveResponse, with a ttl of 0 if there is
 * no such lease. Each has a stream of HTTP/2 to itself, so an answer belongs to this request and to
 * no other: taking an earlier one for it would move a deadline beyond what the server has promised
 * (P1). It waits for no other call's turn. NULL: as tn_etcd_call. */
struct tn_etcd_rpc *tn_etcd_keepalive(struct tn_etcd_client *client, int64_t id,
                                      tenure_ns give_up_at, tn_etcd_answered *answered, void *arg);

/* Watch @key, or with @range all keys that begin with it, from @revision on; @deletes: only for
 * deletions. Returns 0 or TENURE_E_NOMEM. */
TENURE_MUST_USE int tn_etcd_watch_start(struct tn_etcd_client *client, struct tn_etcd_watch *watch,
                                        const char *key, bool range, bool deletes,
                                        int64_t revision);
void tn_etcd_watch_stop(struct tn_etcd_watch *watch);

/* Write what the calls have to say. A failure is told later. */
void tn_etcd_flush(struct tn_etcd_client *client);
/* There is something to wait for: tick. */
void tn_etcd_client_wake(struct tn_etcd_client *client);

/* --- Between client.c and streams.c ----------------------------------------------------------- */

void tn_etcd_streams_up(struct tn_etcd_client *client);
void tn_etcd_streams_down(struct tn_etcd_client *client);
void tn_etcd_streams_close(struct tn_etcd_client *client);
/* A call's end in our words; its text is good until the next. */
void tn_etcd_explain(struct tn_etcd_client *client, const struct tn_grpc_call *call,
                     struct tn_etcd_reply *ret_reply);
bool tn_etcd_is_ready(const struct tn_etcd_client *client);
size_t tn_etcd_fields(const struct tn_etcd_client *client, struct tn_grpc_field fields[2]);
/* Something is about to be sent. */
void tn_etcd_sending(struct tn_etcd_client *client);
/* No answer in time. If nothing at all was heard for a while, the connection is dead, or the server
 * is; a server that only takes long is not helped by asking all over again. */
void tn_etcd_suspect(struct tn_etcd_client *client);

#endif
