/* private.h - the parts of the PostgreSQL store, shared by its files.
 *
 *   url.c      what the URL says
 *   link.c     one connection: resolve, connect, one statement at a time, notifications
 *   blame.c    what a failure means and what to do about it
 *   store.c    requests in, statements out, answers back
 *   hello.c    whether the server will do, and the schema in it
 *   list.c     lists, and what else is asked beside the operations
 *   values.c   parameters and columns
 *   observe.c  who is silent, what changed, whom to tell
 *
 * There are two links: `work` carries every statement, `bell` only listens. */
#ifndef TN_STORES_POSTGRES_PRIVATE_H
#define TN_STORES_POSTGRES_PRIVATE_H

#include <libpq-fe.h>
#include <uv.h>

#include "base/hash.h"
#include "base/prng.h"
#include "base/time.h"
#include "core/observer.h"
#include "runtime/store_frame.h"

enum { TN_PG_HOSTS = 8, TN_PG_BATCH = 128, TN_PG_READS_MAX = 1000 };

/* --- url.c ---------------------------------------------------------------------------------- */

struct tn_pg_host {
    char *name; /* Of a host, a folder with a socket, or empty. */
    char *addr; /* Given in the URL, or empty. */
    char *port;
};

struct tn_pg_url {
    PQconninfoOption *options; /* libpq's, with defaults and environment. */
    struct tn_pg_host hosts[TN_PG_HOSTS];
    unsigned host_count;
    struct tn_pg_host listen; /* Where to listen, if elsewhere. */
    bool listen_off, listen_apart, relaxed;
};

/* TENURE_E_INVALID, TENURE_E_NOMEM; @reterr never has a password in it. */
TENURE_MUST_USE int tn_pg_url_parse(const char *text, struct tn_pg_url *ret_url,
                                    struct tn_text *reterr);
void tn_pg_url_done(struct tn_pg_url *url);
const char *tn_pg_url_get(const struct tn_pg_url *url, const char *keyword);

/* --- link.c --------------------------------------------------------------------------------- */

struct tn_pg_store;
struct tn_pg_link;

struct tn_pg_link_host {
    void (*up)(struct tn_pg_link *link); /* Connected. */
    /* The statement is over. NULL: out of memory. */
    void (*result)(struct tn_pg_link *link, const PGresult *result);
    void (*notified)(struct tn_pg_link *link, const char *payload);
    void (*down)(struct tn_pg_link *link); /* link->error says why; it comes up again by itself. */
};

enum tn_pg_link_state { TN_PG_OFF, TN_PG_WAITING, TN_PG_RESOLVING, TN_PG_CONNECTING, TN_PG_UP };

struct tn_pg_link {
    struct tn_pg_store *store;
    const struct tn_pg_link_host *host;
    enum tn_pg_link_state state;
    PGconn *conn;
    struct tn_pg_poll *poll;
    struct tn_pg_dns *dns;
    PGresult *result;  /* Of the statement so far. */
    bool busy;         /* A statement is on its way. */
    unsigned attempts; /* Since it was last good. */
    unsigned turn;     /* Which host, and which of its addresses. */
    tenure_ns due_at;  /* WAITING: connect then. Connecting: give up then. */
    int code;          /* Of the last failure. */
    char error[TN_ERROR_TEXT];
};

void tn_pg_link_start(struct tn_pg_link *link, tenure_ns now);
void tn_pg_link_stop(struct tn_pg_link *link);
/* The connection is of no use, for @why; down() is called. */
void tn_pg_link_fail(struct tn_pg_link *link, int code, const char *why);
/* It has proved good: failures start counting again. */
void tn_pg_link_good(struct tn_pg_link *link);
void tn_pg_link_tick(struct tn_pg_link *link, tenure_ns now);
/* Send one statement; results are binary. A failure is told by down(), later. */
void tn_pg_link_send(struct tn_pg_link *link, const char *sql, int count,
                     const char *const *values);
/* Several statements in one transaction. */
void tn_pg_link_script(struct tn_pg_link *link, const char *sql);
/* Whether every host was tried since it was last good. */
bool tn_pg_link_tried_all(const struct tn_pg_link *link);

/* --- blame.c -------------------------------------------------------------------------------- */

/* Whether asking again soon is of no use. */
static inline bool tn_pg_is_final(int code)
{
    return code == TENURE_E_DENIED || code == TENURE_E_UNSUPPORTED || code == TENURE_E_NOT_HELD;
}

/* What libpq said of a connection that failed, in our words. Returns the code. */
int tn_pg_blame_connection(const struct tn_pg_host *host, const PGconn *conn,
                           struct tn_text *ret_text);
/* The same for a statement that the server refused. */
int tn_pg_blame_statement(const PGresult *result, struct tn_text *ret_text);

/* --- store.c -------------------------------------------------------------------------------- */

enum tn_pg_job {
    TN_PG_IDLE,
    TN_PG_HELLO,
    TN_PG_INSTALL,
    TN_PG_SESSION, /* OPEN, RENEW, CLOSE: one request. */
    TN_PG_STEPS,   /* Any number of requests with names. */
    TN_PG_LIST,
    TN_PG_READS, /* Of names that are watched. */
    TN_PG_LOOK,
    TN_PG_EVICT,
    TN_PG_LAPSE,
    TN_PG_PROBE,
};

/* A session opened through this store. */
struct tn_pg_session {
    struct tn_store_session base;
    int64_t num;
    int64_t known; /* Grants up to this token were told. */
};

struct tn_pg_name {
    struct tn_store_name base;
    bool dirty;     /* Watched, and to be read. */
    int64_t holder; /* Of what was told last: the session's number; 0: free. */
};

/* A session whose beat is observed. */
struct tn_pg_seen {
    struct tn_pg_seen *next;
    struct tn_observer observer; /* Decides how long its beat must stand still. */
    int64_t num;
    tenure_ns ttl;
    tenure_ns heard_at; /* When it last mattered. */
    bool first;         /* We are the first who should end it. */
    bool stray;         /* It stands in nobody's way. */
    bool asked;         /* Its beat was asked for, and not told yet. */
    bool evicting;      /* It is in the evict statement on its way. */
};

/* A revoked lease whose holder does not give it back. */
struct tn_pg_lapsing {
    struct tn_pg_lapsing *next;
    struct tn_observer observer; /* Decides how long the revocation must stand. */
    char name[TN_NAME_MAX + 1];
};

struct tn_pg_store {
    struct tn_store base;
    struct tn_pg_url url;
    struct tn_pg_link work, bell;
    struct tn_prng prng;
    uv_timer_t timer;
    unsigned polls;   /* Handles of sockets. */
    bool ready;       /* The work link has said hello. */
    bool lineless;    /* The schema cannot say yet who waits. */
    char version[64]; /* Of the server, and what is wrong with it; NULL: not known yet. */
    const char *warning;
    struct tn_req_list urgent, normal; /* Sessions first: a renewal waits for no batch. */
    struct tn_store_query *lists;
    /* The statement on its way. */
    enum tn_pg_job job;
    tenure_ns stuck_at;                     /* When its connection counts as dead. */
    struct tn_store_req *sent[TN_PG_BATCH]; /* NULL: given up meanwhile. */
    unsigned sent_count;
    struct tn_store_query *sent_list;
    int64_t number; /* SESSION, STEPS: its answer repeats it. */
    /* observe.c */
    unsigned dirty; /* Names. */
    struct tn_pg_seen *seen;
    struct tn_pg_lapsing *lapsing;
    tenure_ns looked_at;
    bool waits;    /* Somebody waited in a queue through this store. */
    bool look_now; /* News may have been missed. */
    bool heard;    /* The bell works: its probe came through. */
    bool probing;
    tenure_ns probe_by;
    uint64_t probe;
};

tenure_ns tn_pg_now(const struct tn_pg_store *store);
/* A socket's handle is closed; the last one ends a store that is closing. */
void tn_pg_poll_closed(struct tn_pg_store *store);
/* A script that makes the schema goes out. */
void tn_pg_send_install(struct tn_pg_store *store, const char *sql);

/* --- hello.c -------------------------------------------------------------------------------- */

void tn_pg_say_hello(struct tn_pg_store *store);
void tn_pg_answer_hello(struct tn_pg_store *store, const PGresult *result);

/* --- values.c ------------------------------------------------------------------------------- */

/* A column of a binary result. */
int64_t tn_pg_int(const PGresult *result, int row, int column);
bool tn_pg_is(const PGresult *result, int row, int column, const char *text);
bool tn_pg_bool(const PGresult *result, int row, int column);
/* A uuid; false: NULL. */
bool tn_pg_hash(const PGresult *result, int row, int column, struct tn_secret *ret_hash);
/* The record in columns @column and following; returns the holder's number, 0: free. */
int64_t tn_pg_record(const PGresult *result, int row, int column,
                     struct tn_store_record *ret_record, bool *ret_revoked);

/* Text that grows, for parameters. */
struct tn_pg_buf {
    char *data;
    size_t len, room;
    bool failed;
};

void tn_pg_buf_add(struct tn_pg_buf *buf, const char *text, size_t len);
void tn_pg_buf_addf(struct tn_pg_buf *buf, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void tn_pg_buf_hex(struct tn_pg_buf *buf, const void *bytes, size_t len);

/* --- observe.c ------------------------------------------------------------------------------ */

/* A watched name is to be read, or not. */
void tn_pg_mark(struct tn_pg_store *store, struct tn_pg_name *name, bool dirty);
/* The record of @name, as somebody read it. */
void tn_pg_note(struct tn_pg_store *store, const char *name, int64_t holder, bool revoked,
                const struct tn_store_record *record);
/* The rows of renew and look from @row on. */
void tn_pg_hear_news(struct tn_pg_store *store, const PGresult *result, int row);
void tn_pg_hear_bell(struct tn_pg_store *store, const char *payload);
void tn_pg_bell_up(struct tn_pg_store *store);
void tn_pg_bell_down(struct tn_pg_store *store);
/* The numbers of all who are observed, as an array, for a statement that brings their beats along;
 * @all: and the news of every session of ours, so that there is no need to look for a while. */
void tn_pg_list_seen(struct tn_pg_store *store, bool all, struct tn_pg_buf *buf);
/* What observing wants next, as a statement to send; false: nothing. */
bool tn_pg_observe_next(struct tn_pg_store *store, tenure_ns now);
void tn_pg_observe_result(struct tn_pg_store *store, const PGresult *result);
/* When it will want something. */
tenure_ns tn_pg_observe_at(const struct tn_pg_store *store);
void tn_pg_observe_done(struct tn_pg_store *store);

/* store.c, for observe.c: the statement goes out as @job. */
void tn_pg_send(struct tn_pg_store *store, enum tn_pg_job job, const char *sql, int count,
                const char *const *values);

/* The statement on its way is over. */
void tn_pg_forget_sent(struct tn_pg_store *store);

/* --- list.c ----------------------------------------------------------------------------------- */

/* The first in line. */
void tn_pg_send_list(struct tn_pg_store *store);
void tn_pg_answer_list(struct tn_pg_store *store, const PGresult *result);

void tn_pg_ask(struct tn_store *base, struct tn_store_query *query);

#endif
