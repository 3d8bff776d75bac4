/* private.h - what the files of the tenured store share.
 *
 *   store.c   opening, closing, and what is asked: a request becomes a command, a reply an answer
 *   back.c    what must be said again on every new connection: sessions, places in line, watches
 *   list.c    lists of names, and their history
 *   reply.c   reading replies
 *   url.c     what the URL says
 *
 * The daemon keeps a session when its connection is lost. So the store remembers what the daemon
 * tells of by itself: the sessions, because news go to the connection that they are attached to;
 * the places in line, because the grant may have been told to nobody, and because a daemon that
 * was restarted has forgotten them; and the watches, which end with a connection. */
#ifndef TN_STORES_TENURED_PRIVATE_H
#define TN_STORES_TENURED_PRIVATE_H

#include <stdatomic.h>
#include <uv.h>

#include "runtime/resp_link.h"
#include "runtime/store_frame.h"
#include "stores/tenured/tenured.h"

enum { TN_TENURED_WORDS = 16 };

/* One that the daemon has opened for us. */
struct tn_tenured_session {
    struct tn_store_session base; /* First. */
    tenure_ns ttl;
    uint32_t label_len;
    char label[TN_LABEL_MAX];
};

/* A term that waits in line. */
struct tn_tenured_claim {
    struct tn_tenured_claim *next;
    struct tn_secret session, term;
    struct tn_secret hash; /* Of the term, as the daemon tells it. */
};

/* A name that is watched or waited for. */
struct tn_tenured_name {
    struct tn_store_name base; /* First. Each place, and each command under way, uses it. */
    struct tn_tenured_claim *claims;
    bool looking; /* Its record is asked for, */
    bool again;   /* and must be asked for again. */
};

struct tn_tenured_url {
    struct tn_net_url net;
    bool local, tls;
};

struct tn_tenured {
    struct tn_store base; /* First. */
    struct tn_resp_link link;
    struct tn_tenured_url url;
    struct tn_tls_context *tls;
    struct tn_secret nobody; /* Stands for a secret that is none. */
    uint64_t saw;            /* The highest token that this daemon ever told. */
    uint64_t tag;            /* Of the last command. Begins at random. */
    char version[32];        /* Of the daemon; empty: not known yet. */
    _Atomic bool unbindable; /* The daemon cannot watch this process. */
};

/* One command under way. */
struct tn_tenured_job {
    struct tn_resp_call call; /* First. */
    struct tn_tenured *store;
    struct tn_tenured_name *name; /* NULL: none. */
    struct tn_store_req *req;     /* NULL: our own. */
    uint64_t tag;                 /* That the reply must carry; 0: none. */
    struct tn_secret session, term;
};

/* --- url.c ------------------------------------------------------------------------------------ */

TENURE_MUST_USE int tn_tenured_url_parse(struct tn_tenured_url *ret_url, const char *scheme,
                                         const char *rest, struct tn_text *reterr);

/* --- reply.c: one value after the other of a reply -------------------------------------------- */

struct tn_tenured_reply {
    const char *bytes;
    size_t len, at;
    bool bad; /* Something was not as expected; all values from then on are 0 or empty. */
};

struct tn_tenured_reply tn_reply_of(const char *bytes, size_t len);
struct tn_resp_value tn_reply_next(struct tn_tenured_reply *reply);
uint64_t tn_reply_u64(struct tn_tenured_reply *reply);
tenure_ns tn_reply_ms(struct tn_tenured_reply *reply);
/* The number of elements of an array, or of pairs of a map. */
uint32_t tn_reply_list(struct tn_tenured_reply *reply);
/* A string of at most @size - 1 bytes, with a zero behind it; its length. */
uint32_t tn_reply_text(struct tn_tenured_reply *reply, char *buf, size_t size);
void tn_reply_skip(struct tn_tenured_reply *reply);
/* A lease as LEASE GET gives it. */
void tn_reply_lease(struct tn_tenured_reply *reply, struct tn_store_lease *ret_lease);

/* The reply belongs to the command: its tag is taken off, and what is left is the command's own. If
 * it belongs to another, the call has failed with an unknown outcome, and the connection is given
 * up. */
void tn_tenured_open_reply(struct tn_tenured_job *job);

/* --- store.c ---------------------------------------------------------------------------------- */

/* A command of ours about @name (may be NULL). The words are copied. NULL: no memory; otherwise it
 * is on its way, and done() frees it with tn_tenured_job_free. @greets: between up and ready. */
struct tn_tenured_job *tn_tenured_send(struct tn_tenured *store, struct tn_tenured_name *name,
                                       void (*done)(struct tn_resp_call *call), uint32_t confirms,
                                       bool greets, const struct tn_resp_word *words,
                                       uint32_t count);
void tn_tenured_job_free(struct tn_tenured_job *job);

void tn_tenured_note_token(struct tn_tenured *store, uint64_t token);

/* What is wrong with the data, and what to do about it. */
void tn_tenured_explain_older(const struct tn_tenured *store, struct tn_text *text);
/* What an error of the daemon's means: the code, and "tenured WHERE: what it said". */
int tn_tenured_blame(const struct tn_tenured *store, const struct tn_resp_value *value, char *buf,
                     size_t size);

/* LEASE ACQUIRE ... QUEUE. */
struct tn_tenured_job *tn_tenured_queue(struct tn_tenured *store, struct tn_tenured_name *name,
                                        const struct tn_tenured_claim *claim,
                                        void (*done)(struct tn_resp_call *call));

/* --- back.c ----------------------------------------------------------------------------------- */

extern const struct tn_resp_host tn_tenured_link_host;

/* The daemon has it; without memory it will not be attached again, and its renewals go on. */
void tn_tenured_keep_session(struct tn_tenured *store, const struct tn_op *op, tenure_ns ttl);
/* It is over, and so are its places. */
void tn_tenured_forget_session(struct tn_tenured *store, const struct tn_secret *secret);

/* What the frame does not free. */
void tn_tenured_free_claims(struct tn_tenured *store);

/* The term waits, or waits no more. Returns whether it did. */
void tn_tenured_keep_claim(struct tn_tenured *store, const struct tn_op *op);
bool tn_tenured_forget_claim(struct tn_tenured *store, const char *name, uint32_t len,
                             const struct tn_secret *hash);

int tn_tenured_watched(struct tn_store *base, struct tn_store_name *name, bool on);

/* --- list.c ----------------------------------------------------------------------------------- */

/* ops->ask. */
void tn_tenured_list(struct tn_store *base, struct tn_store_query *query);

#endif
