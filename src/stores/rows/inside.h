/* inside.h - what the files of a store on rows share; rows.h has the picture. */
#ifndef TN_STORES_ROWS_INSIDE_H
#define TN_STORES_ROWS_INSIDE_H

#include "stores/rows/rows.h"

struct rows_claim {
    struct tn_rows_claim claim; /* First: the recipe hands it back. */
    struct tn_rows_session *session;
    struct tn_rows_watch *watch;
    struct tn_store_req *req;   /* What it works for; NULL: a poll, or the session's end. */
    struct tn_req_list waiting; /* Further requests for the same term. */
    bool untold;                /* The end of its term is still to be told: it is in this list. */
    struct rows_claim *next_end;
    bool given_back; /* The session is closed, and this was released or could not be. */
    bool denied;     /* Why the engine refused last; @error is what it said. */
    char error[TN_ERROR_TEXT];
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
    char error[TN_ERROR_TEXT];
    char name[TN_NAME_MAX + 1];
};

static inline struct rows_claim *tn_rows_claim_of(struct tn_rows_claim *claim)
{
    return (struct rows_claim *)(void *)claim;
}

/* --- store.c --- */
tenure_ns tn_rows_now_of(const struct tn_rows_store *store);
/* One after the other: NULL begins, and NULL is the end. */
struct tn_rows_session *tn_rows_next_session(const struct tn_rows_store *store,
                                             const struct tn_rows_session *session);
/* NULL: out of memory. @term NULL: a claim that only reads or revokes. */
struct rows_claim *tn_rows_add_claim(struct tn_rows_session *session, struct tn_rows_watch *watch,
                                     const struct tn_secret *term);

/* --- names.c --- */
/* Found or made. NULL: out of memory. */
struct tn_rows_watch *tn_rows_get_name(struct tn_rows_store *store, const char *name, size_t len);
struct tn_rows_watch *tn_rows_next_name(const struct tn_rows_store *store,
                                        const struct tn_rows_watch *watch);
/* What was observed of a name is forgotten once nobody here has wanted it for a TTL. */
void tn_rows_drop_names(struct tn_rows_store *store);
/* The record as this process sees it: a holder that was silent for long enough holds nothing. */
void tn_rows_judge_record(const struct tn_rows_store *store, const struct tn_rows_watch *watch,
                          struct tn_store_record *record);
/* Whether the row that @claim has seen is one of this process that nobody here holds. */
bool tn_rows_is_stray(const struct tn_rows_store *store, const struct rows_claim *claim);
/* A read that nobody asked for has ended. */
void tn_rows_end_poll(struct tn_rows_store *store, struct rows_claim *claim, bool failed);
void tn_rows_tick_names(struct tn_rows_store *store, tenure_ns now);
tenure_ns tn_rows_wake_names_at(const struct tn_rows_store *store);
void tn_rows_tell_news(struct tn_rows_store *store);

/* --- engine.c --- */
void tn_rows_recipe_get(void *arg, struct tn_rows_claim *claim, uint64_t request);
void tn_rows_recipe_put(void *arg, struct tn_rows_claim *claim, uint64_t request,
                        const struct tn_row *row);
void tn_rows_recipe_session(void *arg, uint64_t number, enum tn_op_kind kind, const char *id);
/* What has ended, to the recipe. */
void tn_rows_pass_on(struct tn_rows_store *store, tenure_ns now);
/* Nobody waits for what was asked for a claim, or for a session, any more. */
void tn_rows_forget_io(struct tn_rows_store *store, const struct rows_claim *claim);
void tn_rows_forget_calls(struct tn_rows_store *store, const struct tn_rows_session *session);
void tn_rows_start_lists(struct tn_rows_store *store);

#endif
