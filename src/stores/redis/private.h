/* private.h - the parts of the Redis stores, shared by their files.
 *
 *   url.c      what the URL says
 *   conn.c     one connection: log in, find the master, check the server, subscribe; what failed
 *   store.c    requests in, script calls out, answers back
 *   news.c     whom to tell: sessions that are ours, names that are watched, what is due
 *
 * lease.lua is what runs in the server. */
#ifndef TN_STORES_REDIS_PRIVATE_H
#define TN_STORES_REDIS_PRIVATE_H

#include <uv.h>

#include "base/net_url.h"
#include "base/prng.h"
#include "base/time.h"
#include "base/token.h"
#include "core/votes.h"
#include "runtime/resp_link.h"
#include "runtime/store_frame.h"
#include "runtime/tls.h"
#include "wire/resp.h"

enum { TN_RD_HEX = 2 * sizeof(struct tn_secret), TN_RD_BUCKETS = 1024, TN_RD_NUMBER = 17 };

/* --- url.c ---------------------------------------------------------------------------------- */

struct tn_rd_url {
    struct tn_net_url net;
    const char *scheme;
    char sentinel[64];           /* The master's name; empty: no Sentinel is asked. */
    char sentinel_password[256]; /* Of the Sentinels, where they want one. */
    char base[80];               /* The key that all others begin with. */
    char channel[100];
    char database[8];
    bool tls;
};

/* What is behind the colon of a URL with @scheme. TENURE_E_INVALID with a line. */
TENURE_MUST_USE int tn_rd_url_parse(const char *scheme, const char *rest, struct tn_rd_url *ret_url,
                                    struct tn_text *reterr);

/* --- conn.c --------------------------------------------------------------------------------- */

struct tn_rd_store;

/* The greeting, one command after the other. */
enum tn_rd_greeting {
    TN_RD_ASK, /* A Sentinel, where the master is. */
    TN_RD_SELECT,
    TN_RD_INFO,
    TN_RD_LOAD,
    TN_RD_PROBE,
};

struct tn_rd_greet {
    struct tn_resp_call base;
    struct tn_rd_store *store;
    char number[TN_RD_NUMBER]; /* As struct tn_rd_call has. */
};

struct tn_rd_conn {
    struct tn_resp_link link;
    struct tn_rd_greet call;
    struct tn_tls_context *tls;
    enum tn_rd_greeting greeting;
    struct tn_endpoint master; /* Where Sentinel says it is. */
    unsigned moves;            /* From node to node, since a connection was of use. */
    char version[24];
    bool forgets; /* It keeps no append-only file. */
};

TENURE_MUST_USE int tn_rd_conn_init(struct tn_rd_store *store, uint64_t seed,
                                    struct tn_text *reterr);
/* What the server's error means: the code, and @ret_text what it said, with a remedy. */
int tn_rd_blame(const struct tn_resp_value *error, struct tn_text *ret_text);
/* The connection leads to a server that cannot serve; another is looked for. */
void tn_rd_conn_leave(struct tn_rd_store *store, const char *why);

/* An array of words. */
struct tn_rd_reply {
    const char *bytes;
    size_t len, at;
    uint32_t left;
};

struct tn_rd_reply tn_rd_reply_of(const char *bytes, size_t len);
/* The next word; empty when there is none. */
struct tn_resp_word tn_rd_next(struct tn_rd_reply *reply);
uint64_t tn_rd_number(struct tn_resp_word word);
/* A number of milliseconds, which may be any number. */
tenure_ns tn_rd_ms(struct tn_resp_word word);
bool tn_rd_is(struct tn_resp_word word, const char *text);

/* --- store.c -------------------------------------------------------------------------------- */

enum tn_rd_job {
    TN_RD_STEP, /* A request. */
    TN_RD_LIST,
    TN_RD_LOOK,  /* What a session has. */
    TN_RD_WATCH, /* A name that is watched is read. */
    TN_RD_TICK,
    TN_RD_FORGET,
    TN_RD_LINE,   /* Who waits for a name. */
    TN_RD_CLOCK,  /* Not the script: TIME. */
    TN_RD_LISTEN, /* Not the script: a subscription begins or ends. */
};

/* A call of the script that waits or is on its way. */
struct tn_rd_call {
    struct tn_resp_call base;
    struct tn_rd_store *store;
    enum tn_rd_job job;
    struct tn_store_req *req;     /* STEP. */
    struct tn_store_query *query; /* LIST, LINE, CLOCK, FORGET. */
    struct tn_secret session;     /* LOOK: its hash. */
    bool whole;                   /* The script goes with it: the server has forgotten it. */
    char number[TN_RD_NUMBER];    /* Its answer begins with it. */
    char name[TN_NAME_MAX + 1];
};

/* A request to a node of Redlock, and what a node says beside the answer. */
struct tn_rd_req {
    struct tn_store_req base;
    enum tn_votes_kind kind; /* What is asked; op.kind is the nearest of a plain store. */
    uint64_t digest;         /* OPEN, RENEW: of the leases that were confirmed there. */
    uint32_t sure;           /* And their number. */
    bool confirmed;          /* With a name: whoever has the lease there is sure of it. */
    uint64_t last;           /* And the token of the term before that. */
};

struct tn_rd_store {
    struct tn_store base;
    struct tn_rd_url url;
    struct tn_rd_conn conn;
    struct tn_prng prng;
    uv_timer_t timer; /* For the next tick. */
    bool node;        /* Of Redlock: every request is a struct tn_rd_req. */
    /* news.c */
    bool waits;       /* Somebody waited in a queue through this store. */
    bool ticking;     /* A tick is on its way. */
    tenure_ns due_at; /* Something ends by itself then. */
};

tenure_ns tn_rd_now(const struct tn_rd_store *store);
/* A number that no other call has. */
void tn_rd_draw_number(struct tn_rd_store *store, char ret_number[TN_RD_NUMBER]);
/* A call of the store's own; @session or @name is what it is about. Without memory it is lost. */
void tn_rd_call(struct tn_rd_store *store, enum tn_rd_job job, const struct tn_secret *session,
                const char *name);
/* SUBSCRIBE or UNSUBSCRIBE to CHANNEL @kind @what. */
void tn_rd_listen(struct tn_rd_store *store, bool on, const char *kind, const char *what);
/* held, token, ttl, remaining, beat, term, label */
void tn_rd_record(const struct tn_resp_word parts[7], struct tn_store_record *ret_record);
void tn_rd_hex(char buf[TN_RD_HEX + 1], const struct tn_secret *hash);
bool tn_rd_unhex(struct tn_resp_word word, struct tn_secret *ret_hash);

/* One server, or what Sentinel says is one. */
TENURE_MUST_USE int tn_rd_open(const struct tn_store_ops *ops, const struct tn_store_open *how,
                               const struct tn_rd_url *url, bool node, struct tn_store **ret_store,
                               struct tn_text *reterr);

/* --- news.c --------------------------------------------------------------------------------- */

/* Before its request goes out, so that no news can be missed. False: out of memory. */
bool tn_rd_keep_session(struct tn_rd_store *store, const struct tn_secret *secret);
void tn_rd_drop_session(struct tn_rd_store *store, const struct tn_secret *secret);
int tn_rd_watched(struct tn_store *base, struct tn_store_name *name, bool on);
/* Subscribe to everything again, and ask what was missed. */
void tn_rd_catch_up(struct tn_rd_store *store);
void tn_rd_hear(struct tn_rd_store *store, struct tn_resp_word channel, struct tn_resp_word text);
void tn_rd_hear_look(struct tn_rd_store *store, struct tn_rd_reply *reply);
void tn_rd_hear_read(struct tn_rd_store *store, const char *name, struct tn_rd_reply *reply);
/* What a script's answer says of when something is due, in milliseconds. */
void tn_rd_hear_due(struct tn_rd_store *store, struct tn_resp_word word);
void tn_rd_ticked(struct tn_rd_store *store);

#endif
