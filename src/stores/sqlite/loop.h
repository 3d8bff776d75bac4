/* loop.h - what the files of the SQLite store on a loop share.
 *
 * store.c has the transactions, loop.c when they are run, watch.c the names
 * that are watched and listed. */
#ifndef TN_STORES_SQLITE_LOOP_H
#define TN_STORES_SQLITE_LOOP_H

#include <uv.h>

#include "base/time.h"
#include "core/heap.h"
#include "core/plan.h"
#include "runtime/store_frame.h"
#include "stores/sqlite/private.h"

enum { TN_SQLITE_BATCH = 256 };

/* How long COMMIT is tried while readers are in the file, with new ones kept out. */
#define TN_SQLITE_COMMIT_FOR TN_MS(250)
/* After a failure what nobody has asked for rests so long. */
#define TN_SQLITE_RETRY TN_SEC(1)
/* Who waits or watches looks after so long, should every ring have been lost. */
#define TN_SQLITE_BACKSTOP TN_SEC(60)
/* How far those who wait for the same holder's end spread. */
#define TN_SQLITE_TICK_JITTER TN_MS(100)
/* How far those who watch the same name spread. */
#define TN_SQLITE_WATCH_JITTER TN_MS(300)

/* A session that was opened, or waits, through this store. */
struct tn_sqlite_session {
    struct tn_store_session base; /* First. */
    int64_t id;                   /* Its number; 0: not known, or gone. */
    uint64_t told;                /* What it was granted up to this token is known to it. */
    unsigned slot;                /* Of the bell. */
    bool moved;                   /* The slot has changed. */
    bool waits;                   /* Has a place in a queue, or may have. */
    bool looked;                  /* In this transaction. */
    bool waits_still;             /* By that look; it counts once the transaction has succeeded. */
};

/* What to tell the host once the transaction is committed. */
struct tn_sqlite_news {
    enum tn_notice_kind kind;
    size_t before; /* Tell it before the answer to this request of the batch. */
    uint64_t token;
    struct tn_secret term;
    struct tn_store_record record; /* CHANGED. */
    char name[TN_NAME_MAX + 1];
};

/* A name that is watched. */
struct tn_sqlite_name {
    struct tn_store_name base;   /* First. */
    struct tn_heap_node look;    /* When to read it next. */
    struct tn_sqlite_name *next; /* With the same slot of the bell. */
};

enum tn_sqlite_want {
    TN_SQLITE_WANTS_NOTHING,
    TN_SQLITE_WANTS_LIST,
    TN_SQLITE_WANTS_READ,
    TN_SQLITE_WANTS_WRITE,
    TN_SQLITE_WANTS_COMMIT,
};

struct tn_sqlite_store {
    struct tn_store base;
    struct tn_sqlite *sqlite;

    struct tn_req_list queue;    /* Asked. */
    struct tn_req_list batch;    /* In the transaction. */
    struct tn_req_list finished; /* Answered, to be told. */
    size_t batch_count;
    size_t alone; /* So many requests are taken one by one. */
    struct tn_sqlite_news *news;
    size_t news_count, news_room;
    struct tn_store_query *lists; /* Or names to forget. */

    uint64_t token;       /* The counter at the end of the transaction. */
    bool due;             /* A holder that somebody here waits for was over by then. */
    bool tick;            /* Work off what is over. */
    bool look;            /* Find out what is over. */
    bool settle;          /* A read met a name with something due. */
    tenure_ns tick_at;    /* When to look. */
    tenure_ns rest_until; /* Nothing but requests before that. */

    struct tn_heap looks;
    struct tn_sqlite_name *watches[TN_BELL_HALF]; /* By the slot of the bell. */
    struct tn_bell bell;
    struct tn_bell_page page;
    bool listening;

    bool committing;
    tenure_ns commit_until;
    unsigned tries; /* How often in a row another process was in the way. */

    uv_timer_t later; /* A turn in some milliseconds. */
    uv_poll_t alarm;  /* On the boot clock. */
    uv_poll_t ear;    /* The bell. */
    bool has_ear;
    int timer;
};

/* --- loop.c --- */

/* Let there be a turn soon. */
void tn_sqlite_kick(struct tn_sqlite_store *store);
/* ops->turn and free; and opening. */
void tn_sqlite_loop_turn(struct tn_store *base);
void tn_sqlite_loop_free(struct tn_store *base);
TENURE_MUST_USE int tn_sqlite_loop_open(const struct tn_store_ops *ops,
                                        const struct tn_store_open *how,
                                        struct tn_sqlite_store **ret_store, struct tn_text *reterr);

/* --- store.c --- */

/* NULL begins. */
struct tn_sqlite_session *tn_sqlite_next_session(const struct tn_sqlite_store *store,
                                                 const struct tn_sqlite_session *session);
bool tn_sqlite_has_moved_session(const struct tn_sqlite_store *store);
void tn_sqlite_turn(struct tn_sqlite_store *store);
enum tn_sqlite_want tn_sqlite_wants(const struct tn_sqlite_store *store, tenure_ns now);
/* NULL: out of memory; the transaction fails. */
struct tn_sqlite_news *tn_sqlite_add_news(struct tn_sqlite_store *store);
/* Reports every error of the file as UNAVAILABLE. */
int tn_sqlite_status(int code);
/* One more request, which may be the store's own. */
void tn_sqlite_submit(struct tn_store *base, struct tn_store_req *req);

/* --- watch.c --- */

/* ops->watched and ask. */
int tn_sqlite_watched(struct tn_store *base, struct tn_store_name *name, bool on);
void tn_sqlite_ask(struct tn_store *base, struct tn_store_query *query);
/* In a transaction: read what is due. */
void tn_sqlite_watches_read(struct tn_sqlite_store *store);
/* The bell's slot has changed. */
void tn_sqlite_watches_moved(struct tn_sqlite_store *store, unsigned slot, tenure_ns now);
void tn_sqlite_list_turn(struct tn_sqlite_store *store);

#endif
