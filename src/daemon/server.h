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
 * Read in this order: input.c (bytes of all connections), conn.c and command.c (commands and their
 * replies), flush.c (the journal), output.c (what is sent). Each file's header has its part; this
 * one has the server that holds them together.
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
#include "daemon/agent.h"
#include "daemon/command.h"
#include "daemon/conn.h"
#include "daemon/flush.h"
#include "daemon/httpd.h"
#include "daemon/input.h"
#include "daemon/journal.h"
#include "daemon/link.h"
#include "daemon/listen.h"
#include "daemon/log.h"
#include "daemon/map.h"
#include "daemon/metrics.h"
#include "daemon/past.h"
#include "daemon/pending.h"
#include "daemon/rights.h"
#include "daemon/state.h"
#include "daemon/wait.h"
#include "daemon/watch.h"
#include "runtime/bulk.h"
#include "runtime/tls.h"
#include "wire/http.h"
#include "wire/resp.h"

struct tn_agent;

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
    const char *metrics_names;               /* Names with series of their own; NULL: none. */
    struct {
        const char *prefix, *url; /* The store of the names below the prefix; "": of all others. */
    } upstreams[TN_UPSTREAMS_MAX];
    uint32_t upstream_count; /* 0: this is no agent. */
    tenure_ns upstream_ttl;
    bool log_json;
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
    struct tn_listener listeners[TN_LISTENERS_MAX + 1]; /* And the one of HTTP. */
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
    struct tn_past past;
    struct tn_agent *agent;      /* NULL: this is no agent. */
    uint32_t *changed;           /* By lease; metrics.c. */
    tenure_ns started;           /* On the boot clock. */
    struct tn_httpd *webs_later; /* HTTP connections to go on with before the next flush. */
    uint32_t web_count;
    struct tn_http_head http_head; /* Of the request being read. */
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
    struct tn_input input;
    char clear_buf[TN_FRAME_BYTES]; /* Of a peer with TLS. */
};

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

#endif
