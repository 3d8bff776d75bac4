/* server.h - tenured: the lease table behind sockets.
 *
 * Everything runs on one loop, and on one thread at a time. Per turn of the loop: read what has
 * arrived on every connection and carry it out, each reply going into its connection's buffer; then
 * flush the journal once, if anything was written to it; then send every buffer with one call. So
 * nothing that is not on disk is ever said, and a turn costs one flush however many ask. A flush
 * that fails ends the program before the sending.
 *
 * If the flush lasts, another thread takes the loop over, and the next turns gather meanwhile; what
 * they have to say waits until its own records are flushed. flush.c has that.
 *
 * The clock is read after each read from a socket and before what was read is carried out: a lease
 * runs from then, and so never from before its holder asked (P1).
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_SERVER_H
#define TN_DAEMON_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "core/lease_table.h"
#include "daemon/acl.h"
#include "daemon/journal.h"
#include "daemon/state.h"
#include "runtime/bulk.h"
#include "runtime/tls.h"
#include "wire/resp.h"

#define TN_WORDS_MAX 1024
#define TN_FRAME_BYTES (64 * 1024)
#define TN_WORD_BYTES 4096
#define TN_OUT_MAX (8u << 20) /* A peer that lets so much wait for it is cut off. */
#define TN_LISTENERS_MAX 8
#define TN_HEARD_MAX 1024
#define TN_BUCKETS 4096

#define TN_HISTOGRAM_BUCKETS 20
#define TN_REASONS 9
#define TN_OWNERS_MAX 16384

struct tn_conn;
struct tn_server;
struct sockaddr_storage;
struct MHD_Daemon;
struct tn_peer;
struct tn_relay;

/* Up to @first, twice that, four times, ...; the last takes the rest. */
struct tn_histogram {
    tenure_ns first;
    uint64_t sum;
    uint64_t count[TN_HISTOGRAM_BUCKETS];
};

/* A word of a hash table's chain. */
struct tn_map_node {
    struct tn_map_node *next;
    uint64_t hash;
};

/* What a session is to its connections and processes; known by the session's hashed secret. */
struct tn_link {
    struct tn_map_node node; /* First. */
    struct tn_secret session;
    struct tn_conn *conn; /* Where its news go; NULL: nowhere. */
    struct tn_link *conn_next, **conn_prev;
    struct tn_bind *binds; /* Processes; when the last one is gone, the session ends, */
    bool unwatched;        /* unless there is one that could not be watched. */
};

/* Users by number, from 1. */
struct tn_owners {
    char (*names)[TN_USER_MAX + 1];
    uint32_t count;
};

/* A process that can act for a session. */
struct tn_bind {
    uv_poll_t poll;
    int pidfd;
    pid_t pid;        /* 0: it cannot be seen from this pid namespace. */
    uint64_t process; /* The pidfd's inode; 0: this kernel has none for each. */
    struct tn_server *server;
    struct tn_link *link;
    struct tn_bind *next;
};

/* A connection that watches a name or all below one. */
struct tn_watch {
    struct tn_map_node node; /* First; by pattern. */
    struct tn_conn *conn;
    struct tn_watch *conn_next, **conn_prev;
    uint32_t len;
    char pattern[]; /* A name, or "prefix" + "/" + star, or a star alone. */
};

/* A connection that waits for its turn. */
struct tn_wait {
    struct tn_map_node node; /* First; by session. */
    struct tn_conn *conn;
    struct tn_secret session, term;
    char term_text[32];
    uint32_t name_len;
    char name[TN_NAME_MAX];
    uv_timer_t timer;
    bool tagged;
    uint64_t tag;
};

struct tn_conn {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
        uv_poll_t poll; /* Of a request by HTTP: its peer's socket. */
    } uv;
    int fd; /* Its socket; the handle's. */
    struct tn_server *server;
    struct tn_tls *tls;           /* NULL: in clear. */
    bool secured;                 /* The handshake is over. */
    bool for_http;                /* What it says goes to libmicrohttpd, */
    struct tn_relay *relay;       /* by this. */
    struct tn_http_request *http; /* Whose replies these are; NULL: they are for the socket. */
    struct tn_conn *next, **prev; /* Of all. */
    struct tn_conn **called;      /* It has something to say; NULL: not that we know. */
    struct tn_saying *heard;      /* Not carried out yet; NULL: there is none. */
    uint32_t share;               /* Of the buffer that is read into; heard.c. */
    struct tn_conn *dirty_next, **dirty_prev, *gated_next;
    bool dirty, closing, quitting;
    bool lingers;     /* Its last word is an error that it should get. */
    uint32_t ignored; /* Bytes that it sent after that, and one. */
    uint32_t writing; /* Writes that the loop has under way. */
    bool gated;       /* It waits for the flush that is under way, */
    size_t sendable;  /* with so much of its buffer. */
    bool bound;       /* Something in its buffer must not be said before the next flush. */
    bool spoke;       /* It has sent a whole command. */
    bool resumable;   /* It waited, and commands may have arrived meanwhile. */
    bool local;       /* On a Unix socket: pid and uid are known. */
    bool trusted;     /* The daemon's own user or root, by the kernel's word. */
    bool member;      /* Of the socket's group: may do all but administer, unless an ACL says. */
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

struct tn_server_config {
    struct tn_journal_config journal;
    struct tn_table_limits limits;
    uint32_t fences_max;
    uint32_t conns_max, peer_conns_max;
    tenure_ns slow,
        idle; /* How long a command may take to arrive, and how long one may be silent. */
    const char *listen[TN_LISTENERS_MAX]; /* unix:PATH, tcp:HOST:PORT */
    uint32_t listen_count;
    const char *acl;                         /* A path; NULL: none. */
    const char *socket_group;                /* May use the Unix sockets, too; NULL: none. */
    gid_t socket_gid;                        /* Of that group. */
    const char *http;                        /* ADDRESS:PORT; NULL: none. */
    const char *tls_cert, *tls_key, *tls_ca; /* Files; all of them, or none. */
};

struct tn_listener {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } uv;
    struct tn_server *server;
    char *path; /* Of a Unix socket, to be removed at the end. */
    bool open;
    bool http; /* With TLS. */
};

/* Who has something to say, and what has been read and not been carried out yet. */
struct tn_heard {
    struct tn_conn *called[TN_HEARD_MAX]; /* NULL: it was closed meanwhile. */
    uint32_t called_count;
    struct tn_saying {
        struct tn_conn *conn; /* NULL: it was closed meanwhile. */
        char *bytes;
        size_t len;
    } list[TN_HEARD_MAX];
    uint32_t count;
    size_t len;
    char bytes[8 * TN_FRAME_BYTES];
};

/* What is not on disk yet about sessions; pending.c. */
struct tn_pendings {
    struct tn_map_node *map[TN_BUCKETS];
    struct tn_pending *gathered, *sealed, *spare;
    uint64_t batch; /* The one that gathers. */
    bool blind;     /* A note is missing: no memory. */
};

/* Lines that peers can cause, as often as they like. */
enum tn_said { TN_SAID_TLS, TN_SAID_SLOW, TN_SAID_OLDER, TN_SAID_COUNT };

struct tn_quiet {
    tenure_ns until;
    uint64_t left_out;
};

/* Who serves; flush.c. */
struct tn_baton {
    uv_mutex_t lock; /* Guards what follows. */
    uv_cond_t called;
    uv_async_t landed; /* A flush is over whose thread does not serve any more. */
    bool asleep;       /* The second thread, until it is called. */
    bool taken;        /* The server, while it was flushed. */
    bool over;
    int error;        /* Of the last flush. */
    uint64_t began;   /* The flush that is under way, by uv_hrtime; 0: none is. */
    uint64_t flushes; /* So far. */
};

struct tn_server {
    struct tn_server_config config;
    struct tn_state state;
    struct tn_journal journal;
    struct tn_tls_context *tls; /* NULL: TCP and HTTP are in clear, on loopback. */
    struct tn_quiet quiet[TN_SAID_COUNT];
    struct tn_acl *acl; /* NULL: whoever can connect may do everything. */
    struct tn_owners owners;
    uv_loop_t loop;
    uv_prepare_t prepare;
    uv_idle_t at_once; /* While it is started the loop does not wait. */
    uv_poll_t due;
    int due_fd;
    uv_timer_t sweep;
    uv_signal_t signals[4];
    struct tn_listener listeners[TN_LISTENERS_MAX];
    uint32_t listener_count;
    struct tn_conn *conns, *gated;
    struct tn_conn *dirty, **dirty_last;
    struct tn_bulk bulk;
    uint32_t conn_count;
    bool resumable; /* One of the dirty ones may be. */
    struct tn_baton baton;
    bool flushing;       /* On a thread that does not serve any more. */
    bool witness_failed; /* A line says so. */
    tenure_ns flush_began;
    struct tn_histogram flushes, renewals, terms, gaps;
    uint32_t *changed; /* By lease; metrics.c. */
    struct MHD_Daemon *http;
    uv_poll_t http_poll;
    uv_timer_t http_timer;
    struct tn_relay *relays; /* Of HTTP with TLS. */
    bool http_waits;
    tenure_ns now, armed_for;
    uint64_t seq;     /* For renewals without a number of their own. */
    uint64_t next_id; /* Of connections. */
    bool draining;
    int status; /* The program's exit status. */
    struct {
        uint64_t commands, grants, renewals, refusals, expired;
        uint64_t refused[TN_REASONS]; /* By the word of the error. */
    } count;
    struct tn_pendings pendings;
    struct tn_map_node *peers[TN_BUCKETS];
    struct tn_map_node *links[TN_BUCKETS];
    struct tn_map_node *waits[TN_BUCKETS];
    struct tn_map_node *watches[TN_BUCKETS];
    uint32_t watch_count;
    struct tn_resp_word words[TN_WORDS_MAX];
    struct tn_heard heard;
    char clear_buf[TN_FRAME_BYTES]; /* Of a peer with TLS. */
};

/* A command being carried out. words[0] is its name. */
struct tn_call {
    struct tn_server *server;
    struct tn_conn *conn;
    const struct tn_resp_word *words;
    uint32_t count;
    bool renews;  /* It renews sessions and does nothing else. */
    bool tagged;  /* The reply is to carry @tag; */
    bool tag_due; /* it does not yet. */
    uint64_t tag;
};

/* --- server.c --------------------------------------------------------------------------------- */

/* Opens the data and the sockets. Returns 0 or a TENURE_E_ code with a line in @reterr. */
TENURE_MUST_USE int tn_server_open(struct tn_server *server, const struct tn_server_config *config,
                                   struct tn_text *reterr);

/* Serves until a signal. Returns the exit status. */
int tn_server_run(struct tn_server *server);
void tn_server_close(struct tn_server *server);

/* One step of the table at the server's now: journaled, and its notices passed on. */
void tn_server_step(struct tn_server *server, const struct tn_op *op, struct tn_result *ret_result);

/* Read the clock; it never goes back. */
void tn_server_tell_time(struct tn_server *server);

/* A turn of the loop, after uv_run. False: the server is over, or not the caller's any more. */
bool tn_server_turn(struct tn_server *server);

/* --- log.c ------------------------------------------------------------------------------------ */

/* One line to stderr; never waits for it once tn_log_open was called. */
void tn_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whether a line that peers can cause may be logged: one in a second of each kind. */
bool tn_log_due(struct tn_server *server, enum tn_said what);
void tn_log_open(void);
/* The program ends: wait a moment for the last lines. */
void tn_log_finish(void);

/* --- flush.c ---------------------------------------------------------------------------------- */

TENURE_MUST_USE int tn_flush_open(struct tn_server *server);
void tn_flush_close(struct tn_server *server);
/* Flush what is pending. */
enum tn_flushed {
    TN_FLUSH_OVER,  /* All may be said. */
    TN_FLUSH_LASTS, /* Only what is not bound to a flush. */
    TN_FLUSH_TAKEN, /* The other thread serves. */
};
TENURE_MUST_USE enum tn_flushed tn_flush(struct tn_server *server);
/* Send what the dirty connections have to be told: all of it, or what needs no flush. */
void tn_flush_send(struct tn_server *server);
void tn_flush_send_unbound(struct tn_server *server);
/* Wait until a flush lasts: then the server is the caller's. False: it is over. */
TENURE_MUST_USE bool tn_flush_stand_by(struct tn_server *server);
void tn_flush_end(struct tn_server *server);

/* --- pending.c -------------------------------------------------------------------------------- */

/* After a step whose records were added to the batch. */
void tn_pending_note(struct tn_server *server, const struct tn_op *op,
                     const struct tn_result *result);
/* Make of a renewal's result what is on disk. False: the session itself is not, so the reply must
 * wait for the flush. */
TENURE_MUST_USE bool tn_pending_take_back(struct tn_server *server, const struct tn_op *op,
                                          struct tn_result *result);
/* The batch is on its way to the disk; it is there. */
void tn_pending_sealed(struct tn_server *server);
void tn_pending_landed(struct tn_server *server);
void tn_pending_close(struct tn_server *server);

/* --- listen.c --------------------------------------------------------------------------------- */

TENURE_MUST_USE int tn_listen(struct tn_server *server, const char *url, struct tn_text *reterr);
/* Listen on the sockets that systemd passed on (LISTEN_FDS). Returns 0, or an error. */
TENURE_MUST_USE int tn_listen_inherited(struct tn_server *server, struct tn_text *reterr);
/* How many there are. */
int tn_inherited_count(void);
/* Where it listens, as a URL: the port that the system chose too. */
int tn_listener_port(const struct tn_listener *listener); /* 0: it is a Unix socket. */
void tn_listener_name(const struct tn_listener *listener, struct tn_text *text);

/* A line when whoever can connect may do everything. */
void tn_listen_warn(const struct tn_server *server, const char *where);

/* "HOST:PORT", "[::1]:PORT". */
bool tn_parse_address(const char *text, struct sockaddr_storage *ret_address);
bool tn_is_loopback(const struct sockaddr_storage *address);

/* --- notify.c --------------------------------------------------------------------------------- */

void tn_notify(const char *state);

/* --- http.c ----------------------------------------------------------------------------------- */

TENURE_MUST_USE int tn_http_open(struct tn_server *server, const char *where,
                                 struct tn_text *reterr);
/* Read requests and write answers. */
void tn_http_run(struct tn_server *server);
/* What a request's connection has to say: the first @len bytes of its buffer. */
void tn_http_send(struct tn_conn *conn, size_t len);
void tn_http_conn_closed(struct tn_conn *conn);
void tn_http_sweep(struct tn_conn *conn);
/* HTTP with TLS: what the peer of @conn says goes to libmicrohttpd, and back. */
TENURE_MUST_USE bool tn_relay_open(struct tn_conn *conn);
void tn_relay_take(struct tn_conn *conn, const char *bytes, size_t len);
void tn_relay_drained(struct tn_conn *conn); /* The peer takes more. */
void tn_relay_close(struct tn_conn *conn);
void tn_http_quiesce(struct tn_server *server);   /* No new peers. */
int tn_http_port(const struct tn_server *server); /* 0: there is none. */
void tn_http_close(struct tn_server *server);

/* --- metrics.c -------------------------------------------------------------------------------- */

TENURE_MUST_USE int tn_metrics_open(struct tn_server *server);
void tn_metrics_close(struct tn_server *server);
void tn_histogram_add(struct tn_histogram *histogram, tenure_ns took);
/* An error was answered; @line begins with its word. */
void tn_metrics_refused(struct tn_server *server, const char *line);
void tn_metrics_changed(struct tn_server *server, uint32_t lease, bool held);
/* The replies to the connection's renewals are on their way. */
void tn_metrics_sent(struct tn_conn *conn);
void tn_metrics_write(struct tn_server *server, struct tn_text *text);

/* --- conn.c ----------------------------------------------------------------------------------- */

void tn_conn_accept(uv_stream_t *listener, int status);
/* One for a request by HTTP; its peer's socket is @fd. NULL: no memory. */
struct tn_conn *tn_conn_make_http(struct tn_server *server, int fd);
/* Let go of it; it vanishes when the loop has closed its handle. */
void tn_conn_close(struct tn_conn *conn);
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

/* --- heard.c ---------------------------------------------------------------------------------- */

/* @conn has something to say. */
void tn_heard_call(struct tn_conn *conn);
/* Read it, from all who have. */
void tn_heard_read(struct tn_server *server);
/* Read it, and carry all of it out. */
void tn_heard_carry_out(struct tn_server *server);
/* Where TN_FRAME_BYTES may be read to, and used at once. */
char *tn_heard_room(struct tn_server *server);
/* It is closed. */
void tn_heard_strike_out(struct tn_conn *conn);

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

/* --- map.c ------------------------------------------------------------------------------------ */

uint64_t tn_map_hash(const struct tn_server *server, const void *bytes, size_t len);
void tn_map_add(struct tn_map_node **buckets, struct tn_map_node *node, uint64_t hash);
void tn_map_remove(struct tn_map_node **buckets, struct tn_map_node *node);
/* The first of a chain, and the next: those with this hash, perhaps with other keys. */
struct tn_map_node *tn_map_first(struct tn_map_node **buckets, uint64_t hash);
struct tn_map_node *tn_map_next(struct tn_map_node *node);

/* --- link.c ----------------------------------------------------------------------------------- */

struct tn_link *tn_link_find(struct tn_server *server, const struct tn_secret *session);
/* News of the session go to @conn from now on. False: no memory. */
bool tn_link_attach(struct tn_server *server, struct tn_conn *conn,
                    const struct tn_secret *session);
/* The session lives with the peer's process. Returns 0, TENURE_E_UNSUPPORTED (not on a Unix
 * socket), TENURE_E_NOMEM or TENURE_E_UNAVAILABLE (it cannot be watched; the session lives its TTL
 * from now on). */
int tn_link_bind(struct tn_server *server, struct tn_conn *conn, const struct tn_secret *session);
/* A number of the peer's process that no other one has or will have; 0: the kernel has none. */
uint64_t tn_link_process(const struct tn_conn *conn);
void tn_link_ended(struct tn_server *server, const struct tn_secret *session);
void tn_link_conn_closed(struct tn_conn *conn);
void tn_link_drop_all(struct tn_server *server);

/* --- wait.c ----------------------------------------------------------------------------------- */

/* The connection waits for the lease; at most @timeout_ms, 0: for ever. */
bool tn_wait_begin(const struct tn_call *call, const struct tn_op *op, const char *term_text,
                   uint64_t timeout_ms);
/* The grant is somebody's who waits: answer it. False: nobody here waits for it. */
bool tn_wait_granted(struct tn_server *server, const struct tn_notice *notice);
/* The session is over: whoever waits for it hears so. */
void tn_wait_gone(struct tn_server *server, const struct tn_secret *session);
/* The user has no right to it any more: say so, and give the place in the queue back. */
void tn_wait_refuse(struct tn_conn *conn);
/* The connection that waits for this; NULL: there is none. */
struct tn_conn *tn_wait_conn(struct tn_server *server, const struct tn_secret *session,
                             const struct tn_secret *term, const struct tn_lease_view *view);
/* The connection ends, or the daemon: give the place in the queue back. */
void tn_wait_cancel(struct tn_conn *conn);

/* --- owner.c ---------------------------------------------------------------------------------- */

/* Put into @op who asks, and what the ACL lets that user have; nothing if it has no such limit. */
void tn_owner_name(struct tn_call *call, enum tn_limit limit, struct tn_op *op);
/* Answer with an error, as tn_reply_answer does; a limit of the user's own is told as that. */
void tn_owner_refuse(struct tn_call *call, const struct tn_op *op, const struct tn_result *result);

/* --- rights.c --------------------------------------------------------------------------------- */

/* The ACL is another than @before: end what has no right any more. */
void tn_rights_changed(struct tn_server *server, const struct tn_acl *before);
/* Whose the session is is known from now on. */
void tn_rights_adopted(struct tn_server *server, const struct tn_secret *session);

/* --- watch.c ---------------------------------------------------------------------------------- */

void tn_watch_changed(struct tn_server *server, uint32_t lease);
/* It was taken away, and not given back yet: an event over HTTP only. */
void tn_watch_revoked(struct tn_server *server, uint32_t lease);
void tn_watch_conn_closed(struct tn_conn *conn);
void tn_cmd_watch(struct tn_call *call);
void tn_cmd_unwatch(struct tn_call *call);

/* --- commands --------------------------------------------------------------------------------- */

/* Carry out the command in server->words. */
void tn_command(struct tn_conn *conn, uint32_t count);
void tn_cmd_session(struct tn_call *call);
void tn_cmd_lease(struct tn_call *call);
void tn_cmd_fence(struct tn_call *call);
void tn_cmd_revoke(struct tn_call *call);
void tn_cmd_token(struct tn_call *call);
void tn_cmd_info(struct tn_call *call);
void tn_cmd_hello(struct tn_call *call);

/* Reading words. Each answers the error itself and returns false. */
bool tn_word_u64(struct tn_call *call, uint32_t index, const char *what, uint64_t *ret_value);
bool tn_word_name(struct tn_call *call, uint32_t index, const char *what);
/* 32 hexadecimal digits, hashed for the table; a star: a new secret, its digits in @ret_text. */
bool tn_word_secret(struct tn_call *call, uint32_t index, char kind, struct tn_secret *ret_hash,
                    char ret_text[32]);
/* Whether the peer has the right to the name or pattern; to anything at all when @name is NULL. The
 * first only asks, the second also answers. */
bool tn_may_quietly(const struct tn_call *call, enum tn_right right, const char *name, size_t len);
bool tn_may(struct tn_call *call, enum tn_right right, const char *name, size_t len);
bool tn_may_word(struct tn_call *call, enum tn_right right, uint32_t index);
/* AUTH with the words from @index on: a user and a secret. */
bool tn_authenticate(struct tn_call *call, uint32_t index);
/* Whether the disk has room for what the command may write. */
bool tn_may_write(struct tn_call *call);

void tn_reply_error(struct tn_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void tn_reply_answer(struct tn_call *call, enum tn_answer answer);
struct tn_resp_out *tn_reply(struct tn_call *call, size_t bytes);
/* A lease as LEASE GET gives it; takes TN_LEASE_BYTES. */
#define TN_LEASE_BYTES 2048
void tn_put_lease(struct tn_resp_out *out, const struct tn_lease_view *view,
                  const struct tn_resp_word *name);
/* "[tag, reply": the reply must follow. It takes TN_TAG_BYTES. */
#define TN_TAG_BYTES (2 * TN_RESP_HEAD_MAX)
void tn_put_tag(struct tn_resp_out *out, uint64_t tag);
bool tn_word_count(struct tn_call *call, uint32_t least, uint32_t most, const char *usage);

#endif
