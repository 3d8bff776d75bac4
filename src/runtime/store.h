/* store.h - what every store is to the runtime: operations in, answers and news out, on one loop.
 *
 * A store is driven from one libuv loop and its thread, and from no other. It never blocks that
 * thread for longer than a disk takes: an operation that waits, for a reply or for another process,
 * goes on in a callback of the loop. Operations and answers are those of core/lease_table.h, and so
 * are the rules: the same operation gives the same answer on every store.
 *
 *   driver -- tn_store_submit --> store        exactly one done(req) per submit, never inside it,
 *          <------- done(req) --               in any order; the answer, or a status that says
 *                                              whether the write may have happened
 *          <------- granted() --               news that nobody asked for; may be lost or doubled,
 *          <------- changed() --               the candidate's polls are the backstop
 *          <------- revoked() --
 *          -- close() ---------> ... closed()  what is pending is done first, with TENURE_E_CLOSED
 *
 * A session belongs to whoever knows its secret, also in another process (unless the store is
 * BOUND or LOCAL): `tenure acquire` opens one and is gone, `renew` and `release` come later. They
 * cannot know how often it was renewed, so they say OPEN and RENEW with the number 0, which is
 * newer than all before.
 *
 * Names are those of tn_name_check, labels any bytes up to TN_LABEL_MAX. */
#ifndef TN_RUNTIME_STORE_H
#define TN_RUNTIME_STORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/dict.h"
#include "base/name.h"
#include "base/secret.h"
#include "base/text.h"
#include "core/lease_table.h"
#include "runtime/binding.h"
#include "runtime/clock.h"
#include "tenure/error.h"

struct tn_store;
struct tn_store_name;
struct tn_store_query;

enum { TN_LABEL_MAX = 255, TN_STORE_HANDLES = 4, TN_LINE_MOST = 100 };

/* What a store can do, and what it cannot. */
enum tn_store_caps {
    TN_STORE_QUEUES = 1 << 0,   /* ACQUIRE with wait: first come, first served. */
    TN_STORE_TELLS = 1 << 1,    /* A queued acquire hears of its grant; no poll is needed. */
    TN_STORE_OBSERVED = 1 << 2, /* Expires nothing: vacancy comes from an observer. */
    TN_STORE_ADVISORY = 1 << 3, /* Can lose an acknowledged grant. Otherwise the class is strict. */
    TN_STORE_BOUND = 1 << 4,    /* A session ends with its process: no lease for scripts. */
    TN_STORE_LOCAL = 1 << 5,    /* Lives in this process: no other sees what is in it. */
    TN_STORE_LINGERS = 1 << 6,  /* A silent session stays until it is in somebody's way. */
    TN_STORE_PER_NAME = 1 << 7, /* Each name has a counter of its own for its tokens. */
    TN_STORE_NAMED = 1 << 8,    /* A session of another process is found by what it holds: RENEW
                                   then has the name, the term and the token, too. */
    TN_STORE_RAISES = 1 << 9,   /* RAISE: an operator can raise the counter of the tokens. */
    TN_STORE_UNORDERED = 1 << 10, /* QUEUES, but the order is not strict: servers vote. */
    TN_STORE_RESUMES = 1 << 11,   /* OPEN asks the server. OK says that the session
                                     goes on there with all that it holds, whichever process opened
                                     it, or is new because the old one has ended. */
    TN_STORE_SOFT = 1 << 12,      /* ACQUIRE with a soft limit (F1). */
    TN_STORE_HUSHED = 1 << 13,    /* A renewal changes nothing that others can read. */
};

/* A name as others may know it. */
struct tn_store_record {
    bool held;
    bool revoked;   /* Taken away, and not given back yet. False where the store does not tell. */
    uint64_t token; /* When free: the last one, 0 if there was none. */
    uint64_t beat;  /* Changes with every renewal of the holder; 0: not known. */
    tenure_ns ttl;  /* Of the holder. */
    tenure_ns remaining;
    struct tn_secret term; /* tn_secret_hash(term secret, 't') of the holder: its own kind knows. */
    uint32_t label_len;
    char label[TN_LABEL_MAX + 1]; /* Of the holder, and a zero behind it. */
};

struct tn_store_req {
    /* Set by the caller, and left alone until done. The name and the label are borrowed. */
    struct tn_op op; /* OPEN, RENEW, CLOSE, ACQUIRE, RELEASE, READ, REVOKE; RAISE with a name. */
    void (*done)(struct tn_store_req *req);
    /* Set by the store before done(). */
    int status; /* 0: answered. Otherwise a TENURE_E_ code, and tenure_error_unknown tells whether
                   it may have happened; @error says why, for people. */
    enum tn_answer answer;
    struct tn_store_record record; /* Operations with a name: as the step left it. */
    tenure_ns ttl;                 /* OPEN, RENEW: what was agreed to. */
    uint64_t seen;                 /* OPEN, RENEW: as in struct tn_result. */
    uint32_t held;
    bool more;
    char error[TN_ERROR_TEXT];
    /* The store's own, from submit to done. */
    struct tn_store_req *next;
    tenure_ns give_up_at;
    struct tn_secret session_hash, term_hash; /* By tn_req_hash, once. */
    bool hashed;
};

/* One line of a listing: the record, and what only some stores can tell, for people. */
struct tn_store_lease {
    char name[TN_NAME_MAX + 1];
    struct tn_store_record record;
    int64_t since; /* Wall clock, in ms since 1970: the term began; 0: the store does not tell. */
    uint32_t waiting; /* Candidates in line, */
    bool counted;     /* if the store tells. */
};

/* How the answer comes to what is asked beside the operations; once, and never inside the call. */
typedef void tn_store_listed(void *arg, int status, struct tn_store_lease *leases, size_t count,
                             const char *error);
typedef void tn_store_clocked(void *arg, int status, tenure_ns clock, const char *error);
typedef void tn_store_done(void *arg, int status, const char *error);
/* @json is good during the call. */
typedef void tn_store_told(void *arg, int status, const char *json, size_t len, const char *error);

/* Who drives the store. Called on the loop's thread, never from within submit, watch or open. */
struct tn_store_host {
    void (*granted)(void *arg, const char *name, const struct tn_secret *term_hash, uint64_t token);
    void (*changed)(void *arg, const char *name, const struct tn_store_record *record);
    void (*revoked)(void *arg, const char *name, uint64_t token);
};

/* What is known of the server, in the store's memory; what is not known (yet) is empty. */
struct tn_store_facts {
    const char *version; /* "3.4.23" */
    const char *warning; /* One line, for people: what is wrong with it, and what to do. */
};

/* Whose end ends a session at once, where the store can watch processes. */
enum tn_store_bind {
    TN_BIND_NONE,   /* Nobody's: it lives its TTL. */
    TN_BIND_OWN,    /* This process's. */
    TN_BIND_SHARED, /* This process's and another's, which binds itself (binding.h); so this one
                       does it only with a new session, before there is another. */
};

struct tn_store_open {
    const char *url;  /* With its scheme. */
    const char *rest; /* Behind "scheme:". */
    struct uv_loop_s *loop;
    const struct tn_clock *clock; /* Borrowed for the store's life. */
    const struct tn_store_host *host;
    void *arg;
    bool create;        /* Make what is not there yet. */
    tenure_ns ttl;      /* Which sessions will ask for; 0: any. */
    tenure_ns patience; /* An operation that cannot be carried out for this long has failed. */
    enum tn_store_bind bind;
};

struct tn_store_ops {
    const char *scheme;
    unsigned caps;
    tenure_ns slack; /* What the store may expire early by. */
    tenure_ns ttl_min, ttl_max;
    /* Opens at once or not at all; a server that cannot be reached yet is no error. Codes as in
     * stores/sqlite/sqlite.h. @ops is whose member this is: some engines have several schemes. */
    int (*open)(const struct tn_store_ops *ops, const struct tn_store_open *how,
                struct tn_store **ret_store, struct tn_text *reterr);
    /* Only tn_store_submit calls it: the request is checked and initialised. */
    void (*submit)(struct tn_store *store, struct tn_store_req *req);
    /* From now on (or no longer) tell changes of @name, beginning soon with the record as it is.
     * The name is copied. Counted: as many off as on. Returns 0 or TENURE_E_NOMEM. */
    int (*watch)(struct tn_store *store, const char *name, bool on);
    /* All names that begin with @prefix, sorted, as of one instant; in @done the array is the
     * callee's to free. */
    void (*list)(struct tn_store *store, const char *prefix, tn_store_listed *done, void *arg);
    /* Once; there is no news from now on. What a done() of the pending still submits is answered
     * with TENURE_E_CLOSED, too. The store is gone when @closed is called. */
    void (*close)(struct tn_store *store, void (*closed)(void *arg), void *arg);

    /* From here on members may be NULL; new ones come at the end. */

    /* Good until the loop goes on. NULL: there is no server. */
    void (*facts)(const struct tn_store *store, struct tn_store_facts *ret_facts);
    /* Half a sentence each, for people: why the class is what it is; why there is no read_clock. */
    const char *class_why;
    const char *clock_why;
    /* The server's clock as it answers, from whatever start. */
    void (*read_clock)(struct tn_store *store, tn_store_clocked *done, void *arg);
    /* Remove what is on record of all free names that begin with @prefix, last tokens included: for
     * names that only a test has used. */
    void (*forget)(struct tn_store *store, const char *prefix, tn_store_done *done, void *arg);
    /* How another process is bound to @session, too. False: this store watches none. NULL is the
     * same. Of any thread. */
    bool (*binding)(const struct tn_store *store, const struct tn_secret *session,
                    struct tn_store_binding *ret_binding);
    /* Ask the server for what facts() is to tell, where that does not come by itself; one at a
     * time. An error says why it is not known. @done comes once, never inside the call. */
    void (*learn)(struct tn_store *store, tn_store_done *done, void *arg);
    /* What an operator can do when an older copy of the data was put back, after "put the latest
     * data back, or ": how the counter is raised to at least a token, which stands for each '%'
     * and, in twenty digits, for each '#'. */
    const char *restored;
    /* The terms of @name on record, as terms.h writes them. NULL: the store keeps no history. */
    void (*history)(struct tn_store *store, const char *name, tn_store_told *done, void *arg);
    /* The least rights that a user of the server needs, as the server's tools take them: lines. */
    const char *rights;
    /* A silent session may live this many TTLs longer than its own, and its names may then be kept
     * from others for another TTL, but at most @delay_most: as in struct tn_plan. */
    uint32_t slop_ttls;
    tenure_ns delay_most;
    /* A candidate that waits reads each name this often, or up to twice as often; 0: it is told. A
     * URL may say otherwise. */
    tenure_ns poll_every;
    /* The line of @name alone, with all that a list tells, and perhaps names that begin like it;
     * without its line nothing is on record. NULL: a list tells no more than READ. */
    void (*look)(struct tn_store *store, const char *name, tn_store_listed *done, void *arg);
    /* The candidates that wait for @name, the next one first: the label of each is in its record. A
     * store may tell only the first TN_LINE_MOST. NULL: the store does not know them. */
    void (*line)(struct tn_store *store, const char *name, tn_store_listed *done, void *arg);
    /* Listings and news do not tell the holder's TTL; READ tells what is left of it, in steps of
     * this. 0: listings tell it. */
    tenure_ns life_step;

    /* Stores on the frame (store_frame.h) have its functions above, and these for it to call, from
     * the loop. Those in other threads are locked out by tn_store.guard. */

    size_t name_size, session_size; /* Larger structs that begin with the frame's; 0: no larger. */
    /* tn_store_kick has asked for it. */
    void (*turn)(struct tn_store *store);
    /* The first watcher came, or the last one left; inside ops->watch. 0 or TENURE_E_NOMEM. */
    int (*watched)(struct tn_store *store, struct tn_store_name *name, bool on);
    /* Answer it by tn_query_done, not inside this call. */
    void (*ask)(struct tn_store *store, struct tn_store_query *query);
    /* The store is closing: answer what is pending, then call tn_store_end. */
    void (*shut)(struct tn_store *store);
    /* All handles are closed: free what the store has beside itself. */
    void (*free)(struct tn_store *store);
};

/* Whether candidates are served strictly in the order in which they came: priorities rest on it. */
static inline bool tn_store_keeps_line(const struct tn_store_ops *ops)
{
    return (ops->caps & (TN_STORE_QUEUES | TN_STORE_UNORDERED)) == TN_STORE_QUEUES;
}

/* In the order of their coming; zeroed, it is empty. */
struct tn_req_list {
    struct tn_store_req *first, *last;
};

/* First member of every store; store_frame.h has what goes with it. */
struct tn_store {
    const struct tn_store_ops *ops;
    struct tn_store_open how; /* Without url and rest, which are good during open only. */
    uint64_t seeds[2];        /* From the kernel, for all in it that is random. */
    bool closing;             /* There is no news any more. */
    void (*closed)(void *arg);
    void *closed_arg;
    /* The frame's own. */
    uv_idle_t turn;
    bool has_turn, shut;
    struct tn_req_list answered;    /* Their done() comes with the next turn. */
    struct tn_store_query *late;    /* The same. */
    struct tn_store_name *retold;   /* Known already, and watched once more. */
    struct tn_dict names, sessions; /* Of this store. */
    pthread_mutex_t *guard;         /* Held while those change; NULL: no other thread reads them. */
    uv_handle_t *handles[TN_STORE_HANDLES];
    unsigned handle_count, open_handles;
};

/* How a driver asks: checks the operation, and hands it to ops->submit. */
void tn_store_submit(struct tn_store *store, struct tn_store_req *req);

#endif
