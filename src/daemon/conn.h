/* conn.h - one connection: its state (conn.c), what goes out (output.c), TLS (secure.c), and how
 * many one peer has (peer.c).
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_CONN_H
#define TN_DAEMON_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/secret.h"
#include "daemon/acl.h"
#include "runtime/tls.h"
#include "tenure/time.h"
#include "wire/resp.h"

struct tn_http_request;
struct tn_httpd;
struct tn_link;
struct tn_peer;
struct tn_saying;
struct tn_server;
struct tn_wait;
struct tn_watch;

#define TN_WORDS_MAX 1024
#define TN_FRAME_BYTES (64 * 1024)
#define TN_WORD_BYTES 4096
#define TN_OUT_MAX \
    (8u << 20) /* Unsent output per connection; beyond it the connection is closed. */

/* Where a connection is in its life.
 *
 *     SERVED --QUIT, refused, the daemon ends--> LEAVING --all is sent--> CLOSED
 *        +-------malformed-----> FAILED <-----------+                       ^
 *                                  +---all is sent---> DEAF ----hangs up----+
 *
 * A peer that hangs up or is cut off is CLOSED from wherever it was. */
enum tn_conn_state {
    TN_CONN_SERVED,
    TN_CONN_LEAVING, /* No command of it is carried out any more. */
    TN_CONN_FAILED,  /* The same; and its last word is an error that it should get. */
    TN_CONN_DEAF,    /* It has got that. What it still sends is thrown away. */
    TN_CONN_CLOSED,  /* Nothing is left of it but a handle that the loop closes. */
    TN_CONN_STATE_COUNT
};

/* Who is at the other end, by the kernel's word. */
enum tn_peer_kind {
    TN_PEER_UNKNOWN, /* It is on no Unix socket. */
    TN_PEER_OWNER,   /* The daemon's own user or root. */
    TN_PEER_MEMBER,  /* Of the socket's group: may do all but administer, unless an ACL says. */
};

struct tn_conn {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
        uv_timer_t none; /* Of a request by HTTP, which has no socket: never started. */
    } uv;
    int fd; /* Its socket; the handle's. */
    struct tn_server *server;
    struct tn_tls *tls;           /* NULL: in clear. */
    bool secured;                 /* The handshake is over. */
    struct tn_httpd *web;         /* It speaks HTTP; NULL: RESP. */
    struct tn_http_request *http; /* Whose replies these are; NULL: they are for the socket. */
    struct tn_conn *next, **prev; /* Of all. */
    struct tn_conn **called;      /* It has something to say; NULL: not that we know. */
    struct tn_saying *heard;      /* Not carried out yet; NULL: there is none. */
    uint32_t share;               /* Of the buffer that is read into; input.c. */
    struct tn_conn *dirty_next, **dirty_prev, *gated_next;
    enum tn_conn_state state : 8;
    enum tn_peer_kind peer_kind : 8; /* If it is on a Unix socket, pid and uid are known. */
    bool dirty;
    uint32_t ignored; /* DEAF: the bytes that it has sent since. */
    uint32_t writing; /* Writes that the loop has under way. */
    bool gated;       /* It waits for the flush that is under way, */
    size_t sendable;  /* with so much of its buffer. */
    bool bound;       /* Something in its buffer must not be said before the next flush. */
    bool spoke;       /* It has sent a whole command. */
    bool resumable;   /* It waited, and commands may have arrived meanwhile. */
    uint8_t wrong_secrets;
    char user[TN_USER_MAX + 1]; /* Of the ACL, after AUTH; "": nobody yet. */
    bool by_secret;             /* It said the user's secret; otherwise a certificate names it. */
    uint32_t owner;             /* Its number; 0: none yet, owner.c. */
    pid_t pid;
    uid_t uid;
    uint64_t id;
    uint32_t renewed;     /* Renewals to be answered, */
    tenure_ns renewed_at; /* read then. */
    struct tn_peer *peer;
    tenure_ns heard_at;
    tenure_ns partial_since; /* A command is expected to be all there soon; 0: none is. */
    char *in;
    uint32_t in_len, in_size;
    struct tn_resp_request request;
    struct tn_resp_out out;
    struct tn_resp_out later; /* Messages that must not come inside of the reply; */
    bool replying;            /* it is being written. */
    struct tn_wait *wait;
    struct tn_link *links;
    struct tn_watch *watches;
    uint32_t watch_count;
    char cached_text[32]; /* The session named last, and its hash; begins with 0: none was. */
    struct tn_secret cached_hash;
};

void tn_conn_accept(uv_stream_t *listener, int status);
/* One without a socket, for a request by HTTP. NULL: no memory. */
struct tn_conn *tn_conn_make_http(struct tn_server *server);
/* Let go of it; it vanishes when the loop has closed its handle. */
void tn_conn_close(struct tn_conn *conn);
/* Let go of it once all is sent; and: what it said was wrong, and it is to hear of that. */
void tn_conn_leave(struct tn_conn *conn);
void tn_conn_fail(struct tn_conn *conn);
/* It has heard of it. */
void tn_conn_deafen(struct tn_conn *conn);
/* There is something in the buffer: send it after the flush. And: that is seen to. */
void tn_conn_touch(struct tn_conn *conn);
void tn_conn_untouch(struct tn_conn *conn);
/* Make room for @bytes in the buffer. When the peer has too much waiting, it is cut off. */
bool tn_conn_room(struct tn_conn *conn, size_t bytes);
/* The same for a message that is no reply: it goes behind the reply that is being written. NULL:
 * there is no room. */
struct tn_resp_out *tn_conn_room_for_push(struct tn_conn *conn, size_t bytes);
/* The reply is there: what had to wait for it follows. */
void tn_conn_replied(struct tn_conn *conn);
/* Where the next bytes of a peer go: to @shared, of TN_FRAME_BYTES, or behind those it has. */
void tn_conn_room_in(struct tn_conn *conn, char *shared, uv_buf_t *ret_buf);
/* Its peer said this; encrypted, if it does that. */
void tn_conn_hear(struct tn_conn *conn, char *bytes, size_t len);
/* So many bytes have arrived there. */
void tn_conn_take(struct tn_conn *conn, char *bytes, size_t len);
/* Bytes for the socket itself. */
void tn_conn_write(struct tn_conn *conn, const char *bytes, size_t len);
/* Read from the peer, again. */
void tn_conn_listen(struct tn_conn *conn);
/* Send the first @len bytes of the buffer. */
void tn_conn_send(struct tn_conn *conn, size_t len);
/* Whether they would go to the socket as they are; and: they did, and that came of it. */
bool tn_conn_is_plain(const struct tn_conn *conn);
void tn_conn_sent(struct tn_conn *conn, size_t len, ssize_t sent);
/* Go on with the commands that arrived while the connection waited. */
void tn_conn_resume(struct tn_conn *conn);

/* --- secure.c --------------------------------------------------------------------------------- */

TENURE_MUST_USE int tn_secure_open(struct tn_server *server, struct tn_text *reterr);
void tn_secure_reload(struct tn_server *server);
bool tn_secure_accept(struct tn_conn *conn);
void tn_secure_received(struct tn_conn *conn, const char *bytes, size_t len);
void tn_secure_send(struct tn_conn *conn, const char *bytes, size_t len);

/* --- peer.c ----------------------------------------------------------------------------------- */

/* One more connection of its peer. False: that is too many, or there is no memory. */
TENURE_MUST_USE bool tn_peer_add(struct tn_conn *conn);
void tn_peer_drop(struct tn_conn *conn);

#endif
