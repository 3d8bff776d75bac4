/* store.h - bring your own store: leases in whatever you already run, under Tenure's promises.
 *
 * A store is one struct of functions, registered under the scheme of its URLs:
 *
 *     static const struct tenure_store_ops ops = {
 *         .size = sizeof ops, .version = TENURE_STORE_V1, .scheme = "dir",
 *         .caps = TENURE_STORE_BLOCKS, .open = open_dir, .submit = submit, .close = close_dir,
 *     };
 *     int rc = tenure_store_register(&ops);
 *     if (rc == 0)
 *         rc = tenure_open("dir:/var/lib/leases", NULL, &tenure, NULL);
 *
 * It is an authority: it keeps sessions (a TTL each) and leases (a name, its session, its token),
 * and carries out one operation after the other. The rules are few and exact; they are beside the
 * operations and answers below. `tenure doctor --conformance URL --plugin FILE` runs the suite that
 * every store must pass; examples/dir-store.c is one that does, in one file.
 *
 * Every operation is answered exactly once, by tenure_store_done, from any thread, at once or
 * later. One that is not answered within the patience is given up by Tenure as "may have happened";
 * its answer is then taken and ignored. Whatever the store tells, the holder's deadline is counted
 * from before its renewal was handed over: a slow store loses terms, and never doubles them.
 *
 * Threads: submit, watch, list and close of one store are called one at a time, from Tenure's own
 *   thread, which also renews: they must not block. With TENURE_STORE_BLOCKS they are called from a
 *   thread that belongs to this store alone, and may. All other calls here: from any thread.
 * Memory: what a call is given is good until it returns, but a request until tenure_store_done. */
#ifndef TENURE_STORE_H
#define TENURE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tenure/error.h"
#include "tenure/tenure.h"
#include "tenure/time.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TENURE_STORE_V1 = 1 };

enum tenure_store_caps {
    TENURE_STORE_QUEUES = 1 << 0, /* ACQUIRE with @wait: first come, first served. */
    TENURE_STORE_TELLS = 1 << 1,  /* And who waits is told (tenure_store_granted). Else it asks. */
    TENURE_STORE_ADVISORY = 1 << 2, /* Can lose an acknowledged grant: only fences protect then. */
    TENURE_STORE_BLOCKS = 1 << 3,   /* Calls may block: use a thread of their own. */
};

/* A session or a term, told from others by a secret that the store never sees: this is its hash.
 * Compare all 16 bytes; keep them as you like. */
struct tenure_store_id {
    uint8_t bytes[16];
};

enum tenure_store_op {
    /* @session, @seq, @ttl, @label. A session that exists is renewed: the first answer was lost.
     * Answers OK with its TTL and its number of leases; STALE as RENEW. */
    TENURE_STORE_OPEN = 1,
    /* @session, @seq. Its TTL begins anew. OK as OPEN; STALE: a @seq as high was there before, and
     * nothing was extended (0 is newer than all); GONE. */
    TENURE_STORE_RENEW,
    /* @session. Its leases are free at once. OK or GONE. */
    TENURE_STORE_CLOSE,
    /* @session, @term, @name, @wait. GRANTED: free, and now this session's under the next token;
     * or held by this very session and term already, under the same token. HELD by another, or
     * with @wait QUEUED. STALE: the last term of a free name was this one: it is late. GONE. */
    TENURE_STORE_ACQUIRE,
    /* @session, @term, @name, @token. RELEASED, also when it is said again; with token 0 whatever
     * the term has or waits for. STALE: that token is not current. DENIED: current, and not this
     * session's and term's. GONE. */
    TENURE_STORE_RELEASE,
    /* @name. HELD or FREE, with the record. */
    TENURE_STORE_READ,
    /* @name, @token (0: any). An operator's. Answer it with the status TENURE_E_UNSUPPORTED, or:
     * OK, the holder is told (tenure_store_revoked) and the lease passes on when it was released,
     * or a TTL later. STALE: not held, or not under that token. */
    TENURE_STORE_REVOKE,
};

enum tenure_store_answer {
    TENURE_STORE_OK = 1,
    TENURE_STORE_GRANTED,
    TENURE_STORE_QUEUED,
    TENURE_STORE_HELD,
    TENURE_STORE_FREE,
    TENURE_STORE_RELEASED,
    TENURE_STORE_STALE,
    TENURE_STORE_DENIED,
    TENURE_STORE_GONE, /* There is no such session: it expired, was closed, or never was. */
    TENURE_STORE_FULL, /* A limit is reached; nothing has changed. */
};

/* A name as others may know it. */
struct tenure_store_record {
    bool held;
    uint64_t token; /* When free: the last one, 0 if there was none. */
    tenure_ns ttl;  /* Of the holder, and what is left of it; 0: not known. */
    tenure_ns remaining;
    struct tenure_store_id term; /* Of the holder. */
    uint32_t label_len;
    char label[TENURE_ID_MAX + 1]; /* Of the holder; any bytes. */
};

/* What is asked. Names are checked already; a name and a label have at most 255 bytes. */
struct tenure_store_request {
    enum tenure_store_op op;
    bool wait;
    struct tenure_store_id session, term;
    const char *name; /* Ends in a zero. */
    const char *label;
    uint32_t label_len;
    uint64_t seq, token;
    tenure_ns ttl;
};

/* All zero but for the size, and what the answer needs. */
struct tenure_store_reply {
    size_t size;       /* sizeof(struct tenure_store_reply). */
    int status;        /* 0: @answer counts. Else a code of tenure/error.h; whether */
    const char *error; /* it may have happened follows from it. Why, for people. */
    enum tenure_store_answer answer;
    struct tenure_store_record record; /* Operations with a name: as the step left it. */
    tenure_ns ttl;                     /* OPEN, RENEW: what was agreed to. */
    uint32_t held;                     /* OPEN, RENEW: how many leases the session has. */
};

struct tenure_store_host; /* Who hears the news of one open store. */
struct tenure_store_list; /* A list in the making. */

struct tenure_store_open {
    size_t size;
    const char *url;  /* With its scheme. */
    const char *rest; /* Behind "scheme:". */
    bool create;      /* Make what is not there yet; otherwise TENURE_E_NOT_HELD. */
    tenure_ns patience;
    struct tenure_store_host *host; /* For the news; good until close returns. */
};

/* New members come at the end; @size says which there are. */
struct tenure_store_ops {
    size_t size;        /* REQUIRED. */
    unsigned version;   /* REQUIRED: TENURE_STORE_V1. */
    const char *scheme; /* REQUIRED: 1 to 31 of a-z, 0-9, + and -, not one of Tenure's own. */
    unsigned caps;      /* enum tenure_store_caps. */
    tenure_ns slack;    /* What the store may expire a session early by. */
    tenure_ns ttl_min;  /* 0: 1 s. */
    tenure_ns ttl_max;  /* 0: 24 h. */
    /* REQUIRED. Returns 0 and the store, or a code and why; a server that cannot be reached yet is
     * no error. Called from the thread that opens, which may wait for a disk. */
    int (*open)(const struct tenure_store_open *how, void **ret_store, struct tenure_error *reterr);
    /* REQUIRED. Carry it out, and answer it once with tenure_store_done, now or later. */
    void (*submit)(void *store, const struct tenure_store_request *request);
    /* From now on (or no longer) tell changes of @name with tenure_store_changed, beginning with
     * the record as it is. NULL: Tenure reads the name now and then instead. */
    void (*watch)(void *store, const char *name, bool on);
    /* All names that begin with @prefix, once held or held: tenure_store_list_add for each, in any
     * order, then tenure_store_list_done. NULL: there is no list. */
    void (*list)(void *store, const char *prefix, struct tenure_store_list *list);
    /* REQUIRED. Once, when nothing is pending; the last call. Sessions live on until their TTL. */
    void (*close)(void *store);
    /* Why the class is what it is, for people; or NULL. */
    const char *class_why;
};

/* Let URLs with @ops->scheme name this store, in this process, for good. @ops is copied, what it
 * points to has to stay. Call it before the first tenure_open that needs it.
 * TENURE_E_INVALID      a member is missing, or the size or the version is not known;
 * TENURE_E_CONFLICT     the scheme is taken;
 * TENURE_E_FULL         there are 16 already. */
TENURE_API TENURE_MUST_USE int tenure_store_register(const struct tenure_store_ops *ops);

/* The answer to @request, which is gone afterwards. @reply is copied. */
TENURE_API void tenure_store_done(const struct tenure_store_request *request,
                                  const struct tenure_store_reply *reply);

/* The same for a list; @status as in a reply, @error may be NULL. An error drops what was added.
 * list_add returns 0 or TENURE_E_NOMEM, and then the list fails by itself. */
TENURE_API int tenure_store_list_add(struct tenure_store_list *list, const char *name,
                                     const struct tenure_store_record *record);
TENURE_API void tenure_store_list_done(struct tenure_store_list *list, int status,
                                       const char *error);

/* News; may be lost or doubled, as candidates ask by themselves in the end. Granted: who waited
 * under @term has @token now. Changed: to who watches. Revoked: to the holder. */
TENURE_API void tenure_store_granted(struct tenure_store_host *host, const char *name,
                                     const struct tenure_store_id *term, uint64_t token);
TENURE_API void tenure_store_changed(struct tenure_store_host *host, const char *name,
                                     const struct tenure_store_record *record);
TENURE_API void tenure_store_revoked(struct tenure_store_host *host, const char *name,
                                     uint64_t token);

/* What a file exports that `tenure doctor --plugin` loads: the store that it has. The library has
 * no such function. */
const struct tenure_store_ops *tenure_store_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
