/* inside.h - what a store on rows keeps, for store.c alone; rows.h has the picture. */
#ifndef TN_STORES_ROWS_INSIDE_H
#define TN_STORES_ROWS_INSIDE_H

#include "stores/rows/rows.h"

/* A name that somebody here wants something of. */
struct tn_rows_watch {
    struct tn_rows_watch *next;
    struct tn_rows_name known;
    struct rows_claim *poll; /* The read under way. */
    unsigned watches;        /* How often it is watched; */
    unsigned claims;         /* and by how many claims it is used. */
    bool told;               /* What was told last: */
    bool told_held;
    uint64_t told_token;
    tenure_ns poll_at;
    bool fed;                     /* The engine's feed shows it as it is: */
    struct tn_store_record shown; /* as this. */
    uint64_t shown_beat;
    uint64_t shown_in;            /* The round of the feed, counted from 1. */
    struct tn_secret refused;     /* The last term that a read refused. */
    char written[TN_ROW_VERSION]; /* The engine told of this version; empty: it has been seen to. */
    char name[TN_NAME_MAX + 1];
};

struct rows_claim {
    struct tn_rows_claim claim; /* First: the recipe hands it back. */
    struct tn_rows_session *session;
    struct tn_rows_watch *watch;
    struct tn_store_req *req;   /* What it works for; NULL: a poll, or the session's end. */
    struct tn_req_list waiting; /* Further requests for the same term. */
    bool untold;                /* The end of its term is still to be told. */
    bool given_back;            /* The session is closed, and this was released or could not be. */
    bool denied;                /* Why the engine refused last; @error is what it said. */
    char error[sizeof((struct tn_store_req *)0)->error];
};

struct tn_rows_session {
    struct tn_rows rows; /* First. */
    struct tn_rows_session *next;
    struct tn_rows_store *store;
    uint64_t seq;
    struct tn_req_list renewals;
    struct tn_store_req *close; /* The CLOSE that waits for the last release. */
    bool kept;                  /* It was opened here: it stays until it is closed. */
    char label[TN_LABEL_MAX + 1];
    char error[TN_ERROR_TEXT]; /* What the engine said about the session. */
};

struct tn_rows_io {
    struct tn_rows_io *next;
    struct tn_rows_store *store;
    struct rows_claim *claim; /* NULL: nobody waits for it any more. */
    uint64_t request;
    enum tn_rows_outcome outcome;
    bool put, failed, denied;
    struct tn_row row;
    char version[TN_ROW_VERSION];
    char label[TN_LABEL_MAX + 1];
    char error[sizeof((struct tn_store_req *)0)->error];
    char name[TN_NAME_MAX + 1];
};

struct tn_rows_news {
    struct tn_rows_news *next;
    struct tn_store_record record;
    char name[TN_NAME_MAX + 1];
};

/* --- store.c --- */
tenure_ns tn_rows_now_of(const struct tn_rows_store *store);
/* Have a turn of the loop soon. */
void tn_rows_kick(struct tn_rows_store *store);
/* The record as this process sees it: a holder that was silent for long enough holds nothing. */
void tn_rows_judge_record(struct tn_rows_store *store, const struct tn_rows_watch *watch,
                          struct tn_store_record *record);
/* If it is news. */
void tn_rows_tell_change(struct tn_rows_store *store, struct tn_rows_watch *watch,
                         const struct tn_store_record *record);
struct tn_rows_watch *tn_rows_find_name(struct tn_rows_store *store, const char *name, size_t len);

/* --- feed.c --- */
void tn_rows_recipe_session(void *arg, uint64_t number, enum tn_op_kind kind, const char *id);
void tn_rows_pass_on_calls(struct tn_rows_store *store, tenure_ns now);
/* Nobody waits for the calls of a session that is dropped. */
void tn_rows_forget_calls(struct tn_rows_store *store, const struct tn_rows_session *session);

#endif
