/* rows.h - a store on top of any engine that keeps versioned rows.
 *
 * The engine reads a row, and writes it if its version is unchanged: two functions, and a third
 * that lists. All the rest is here: sessions, names and what was told of them, requests and their
 * patience, polling, closing. What a conflict, an unknown outcome or a silent holder means is
 * decided by core/rows.h.
 *
 *   submit ... done   +-----------+  start, got   +-----------+   get, put   +--------+
 *   watch ... changed | store.c   | <-----------> | core/rows | -----------> | engine |
 *                     +-----------+               +-----------+ <----------- +--------+
 *                                                               tn_rows_io_*
 *
 * An engine's store begins with a struct tn_rows_store. Its open() calls tn_rows_open, its struct
 * tn_store_ops has the members TN_ROWS_OPS sets: the frame's functions, and hooks for it.
 *
 * Threads: the loop's. */
#ifndef TN_STORES_ROWS_ROWS_H
#define TN_STORES_ROWS_ROWS_H

#include <uv.h>

#include "base/prng.h"
#include "core/rows.h"
#include "runtime/store_frame.h"

struct tn_rows_store;

/* One read or write under way. Ends by exactly one of the functions below, inside the call or
 * later. */
struct tn_rows_io;

/* One call about an engine's session; ends by tn_rows_call_done, inside the call or later. CLOSE
 * needs no answer from the engine, but ends all the same. */
struct tn_rows_call {
    struct tn_rows_call *next;
    struct tn_rows_store *store;
    struct tn_rows_session *session; /* NULL: nobody waits for it any more. */
    enum tn_op_kind kind;            /* OPEN, RENEW or CLOSE. */
    uint64_t number;
    tenure_ns ttl, timeout;
    enum tn_rows_outcome outcome;
    bool urgent; /* A term depends on it. */
    bool denied; /* Set before tn_rows_call_done: the engine does not let us. */
    char id[TN_ROW_OWNER];
    char label[TN_LABEL_MAX + 1];
    char error[TN_ERROR_TEXT];
};

struct tn_rows_engine {
    void (*get)(struct tn_rows_store *store, struct tn_rows_io *io);
    /* Only if the row's version is @if_version; empty: only if there is no row. */
    void (*put)(struct tn_rows_store *store, struct tn_rows_io *io, const struct tn_row *row,
                const char *if_version);
    /* As ops.list; a struct tn_rows_listing does most of it. */
    void (*list)(struct tn_rows_store *store, const char *prefix, tn_store_listed *done, void *arg);
    /* End every io that is under way, then call tn_rows_shut, inside the call or later. */
    void (*shut)(struct tn_rows_store *store);
    /* The engine's versions are decimal numbers that rise over all its rows, deleted ones included:
     * the version of the acquiring write is the token. Such a write comes with row->minted set and
     * stores no token; a read sets it for a held row without one. */
    bool mints;
    /* NULL: renewing rewrites the rows held. Else the engine has sessions: OPEN one with the TTL
     * and the label of the call, RENEW or CLOSE the one called @id. Rows are locked and unlocked
     * for row->owner, and a row that nobody has locked is free, whatever is written in it. */
    void (*session)(struct tn_rows_store *store, struct tn_rows_call *call);
    /* How often a name that is watched is read; 0: the engine says tn_rows_changed. */
    tenure_ns poll_every;
    /* Which names are watched has changed (tn_rows_watched). NULL: it does not matter. */
    void (*watch)(struct tn_rows_store *store);
    /* Begin the change feed anew from the present state: it does not show what reads do. NULL: the
     * engine has none. */
    void (*refeed)(struct tn_rows_store *store);
    /* Engines with sessions: how long a feed is trusted that says nothing (struct tn_rows). */
    tenure_ns feed_trust;
};

struct rows_claim; /* inside.h */

/* What is kept of a session; for src/stores/rows alone, as is the next. */
struct tn_rows_session {
    struct tn_store_session base;
    struct tn_rows rows;
    struct tn_rows_store *store;
    uint64_t seq;
    struct tn_req_list renewals;
    struct tn_store_req *close;   /* The CLOSE that waits for the last release. */
    struct tn_store_req *adopted; /* The RENEW whose term was just adopted. */
    bool denied;                  /* Why the engine refused last; @error is what it said. */
    bool kept;                    /* It was opened here: it stays until it is closed. */
    char label[TN_LABEL_MAX + 1];
    char error[TN_ERROR_TEXT]; /* What the engine said about the session. */
};

/* And of a name that somebody here wants something of. */
struct tn_rows_watch {
    struct tn_store_name base;
    struct tn_rows_name known;
    struct rows_claim *poll; /* The read under way. */
    tenure_ns poll_at;
    bool kept;                       /* One of its uses is the store's, until drop_names. */
    bool has_news;                   /* It is in the store's list of those, with this: */
    struct tn_store_record news;     /* the record to be told. */
    struct tn_rows_watch *next_news; /* In that list. */
    uint64_t shown_in;               /* The round of the feed, counted from 1. */
    char written[TN_ROW_VERSION];    /* The engine told of it; empty: it has been seen to. */
    char label[TN_LABEL_MAX + 1];    /* Of the row that the feed showed last. */
};

struct tn_rows_store {
    struct tn_store base;
    const struct tn_rows_engine *engine;
    struct tn_rows_session *reader;       /* For what needs no session: READ, REVOKE, polls. */
    struct tn_rows_io *under_way, *ended; /* The latter wait for a turn of the loop. */
    struct tn_rows_call *calls, *calls_ended;
    struct rows_claim *ends;    /* So do these, whose end is to be told; */
    struct tn_rows_watch *news; /* and these, of which there is news. */
    struct tn_store_query *lists;
    uint64_t feed_round; /* Calls of tn_rows_saw_all. */
    struct tn_prng prng;
    uv_timer_t timer;
    unsigned active; /* Requests that the engine is asked for. */
    bool shut;       /* The engine has ended its part. */
};

const char *tn_rows_io_name(const struct tn_rows_io *io);
/* The label of the session that asks; empty: none does. */
const char *tn_rows_io_label(const struct tn_rows_io *io);
/* A term depends on it, or its end: of a term that is held, or is given back. */
bool tn_rows_io_is_urgent(const struct tn_rows_io *io);
/* A poll of a name that had neither row nor token when it was read last. */
bool tn_rows_io_only_looks(const struct tn_rows_io *io);
/* A read: @version NULL: there is no row, and @row is NULL or has nothing but the floor that the
 * next one starts above. The row and its label are copied. */
void tn_rows_io_got(struct tn_rows_io *io, const struct tn_row *row, const char *version);
/* A read that failed, or a write that was certainly not carried out. @status TENURE_E_DENIED: the
 * engine does not let us; any other counts as unavailable. */
void tn_rows_io_failed(struct tn_rows_io *io, int status, const char *why);
/* A write: @version is the new one if it was WRITTEN, @why is for people if it was not. */
void tn_rows_io_put(struct tn_rows_io *io, enum tn_rows_outcome outcome, const char *version,
                    const char *why);

/* @id: of an OPEN that was WRITTEN; @why is for people if it was not. */
void tn_rows_call_done(struct tn_rows_call *call, enum tn_rows_outcome outcome, const char *id,
                       const char *why);

/* The row as a record for others. */
void tn_rows_record(const struct tn_row *row, const char *version,
                    struct tn_store_record *ret_record);
/* The engine's list in the making; ends by tn_rows_listing_end. */
struct tn_rows_listing {
    tn_store_listed *done;
    void *arg;
    struct tn_store_lease *leases;
    size_t count, room;
    bool full; /* Out of memory. */
    char prefix[TN_NAME_MAX + 2];
};
void tn_rows_listing_begin(struct tn_rows_listing *listing, const char *prefix,
                           tn_store_listed *done, void *arg);
/* Names come in any order, and those without the prefix are left out. One that comes twice, because
 * its row has two parts, is held if one of them is, and has the higher token. False: no memory,
 * which the end tells. */
bool tn_rows_listing_add(struct tn_rows_listing *listing, const char *name,
                         const struct tn_row *row, const char *version);
/* @status 0: what was added is the list. */
void tn_rows_listing_end(struct tn_rows_listing *listing, int status, const char *error);
/* @name has @version now: it is read again if anybody here wants to know. */
void tn_rows_changed(struct tn_rows_store *store, const char *name, const char *version);
/* The engine's change feed shows @name as it is, or was some time ago; @row NULL: it has no row,
 * and @version is empty or that of its deletion. As long as the feed goes on, nobody here asks for
 * a name again and again that another holds (core/rows_name.h). */
void tn_rows_saw(struct tn_rows_store *store, const char *name, const struct tn_row *row,
                 const char *version);
/* All rows have been shown: a watched name that was not shown since the last call has none. */
void tn_rows_saw_all(struct tn_rows_store *store);
/* Nothing has changed since what the feed showed last. */
void tn_rows_feed_alive(struct tn_rows_store *store);
/* The feed has ended: what it showed may be old, and the names that are watched are read. */
void tn_rows_feed_lost(struct tn_rows_store *store);
/* How many names are watched; @ret_name: one of them. */
size_t tn_rows_watched(const struct tn_rows_store *store, const char **ret_name);
void tn_rows_shut(struct tn_rows_store *store);

/* Make a store of @size bytes that begin with a struct tn_rows_store. NULL: told in @reterr. */
void *tn_rows_open(size_t size, const struct tn_store_ops *ops, const struct tn_rows_engine *engine,
                   const struct tn_store_open *how, struct tn_text *reterr);

/* The hooks of TN_ROWS_OPS. */
void tn_rows_submit(struct tn_store *base, struct tn_store_req *req);
void tn_rows_turn(struct tn_store *base);
int tn_rows_watch_name(struct tn_store *base, struct tn_store_name *name, bool on);
void tn_rows_ask(struct tn_store *base, struct tn_store_query *query);
void tn_rows_close(struct tn_store *base);

#define TN_ROWS_OPS                                                           \
    .submit = tn_rows_submit, .watch = tn_store_watch, .list = tn_store_list, \
    .close = tn_store_close, .name_size = sizeof(struct tn_rows_watch),       \
    .session_size = sizeof(struct tn_rows_session), .turn = tn_rows_turn,     \
    .watched = tn_rows_watch_name, .ask = tn_rows_ask, .shut = tn_rows_close

#endif
