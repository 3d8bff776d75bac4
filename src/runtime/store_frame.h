/* store_frame.h - what is the same in every store, written once: its names, its sessions, how a
 * request is checked, waits and is answered, what is asked beside requests, and how it ends.
 *
 *   open    tn_store_new, tn_store_add_handle ... when it fails: tn_store_discard
 *   submit  tn_store_submit --> ops->submit, tn_req_add ... tn_req_take --> tn_req_finish
 *   watch   tn_store_watch ---> ops->watched ... tn_store_changed, only when it has changed
 *   list    tn_store_list ----> ops->ask ... tn_query_add_lease, tn_query_done
 *   close   tn_store_close ---> ops->shut ... tn_store_end --> ops->free
 *
 * A store puts tn_store_watch, tn_store_list and the like into its ops, and the hooks behind the
 * arrows.
 *
 * Threads: the loop's. Nothing here waits, and nothing calls back but what says so. */
#ifndef TN_RUNTIME_STORE_FRAME_H
#define TN_RUNTIME_STORE_FRAME_H

#include <uv.h>

#include "runtime/store.h"

/* --- The store ------------------------------------------------------------------------------ */

/* @size bytes that begin with a struct tn_store, zero behind it. NULL: out of memory, or of random
 * numbers, told in @reterr. What is not opened after all is freed with free(). */
void *tn_store_new(size_t size, const struct tn_store_ops *ops, const struct tn_store_open *how,
                   struct tn_text *reterr);
/* From now on it is closing; the rest is for a later turn of the loop. */
void tn_store_close(struct tn_store *store, void (*closed)(void *arg), void *arg);

/* The loop closes @handle with the store; its data is the store. At most TN_STORE_HANDLES. */
void tn_store_add_handle(struct tn_store *store, void *handle);
/* Let there be a turn: ops->turn, or ops->shut when it is closing. */
void tn_store_kick(struct tn_store *store);
/* Everything is answered: close the handles, then ops->free. */
void tn_store_end(struct tn_store *store);
/* The same for a store that could not be opened; returns @code, and adds @why unless it is NULL. */
int tn_store_discard(struct tn_store *store, int code, const char *why, struct tn_text *reterr);

/* Run @hear at @at by the store's clock, not before; TN_NEVER: not at all. */
void tn_store_wake_at(const struct tn_store *store, uv_timer_t *timer, uv_timer_cb hear,
                      tenure_ns at);

/* A session that lives longer or shorter than was asked for would be a surprise, and the holder
 * counts with what it asked for: 0, or TENURE_E_INVALID and the limit that @ttl misses. */
TENURE_MUST_USE int tn_store_check_ttl(const struct tn_store_ops *ops, tenure_ns ttl,
                                       struct tn_text *reterr);

/* --- Requests ------------------------------------------------------------------------------- */

void tn_req_add(struct tn_req_list *list, struct tn_store_req *req);
struct tn_store_req *tn_req_take(struct tn_req_list *list); /* NULL: there is none. */
/* All of @front before all of @list; @front is empty then. */
void tn_req_put_back(struct tn_req_list *list, struct tn_req_list *front);

/* It has its answer: done() comes with the next turn of the loop, behind ops->turn. */
void tn_req_answer(struct tn_store *store, struct tn_store_req *req);
/* The same with an error: never inside submit; the store need not be open. */
void tn_req_refuse(struct tn_store *store, struct tn_store_req *req, int status, const char *why);
/* As if it had been answered, with nothing to tell: what the store does not set stays so. */
void tn_req_init(struct tn_store_req *req);
/* Fill in the hashes of the session and, with a name, of the term; once for each request. */
void tn_req_hash(struct tn_store_req *req);
/* Not done() yet. Where @why is empty the code has to do. */
void tn_req_fail(struct tn_store_req *req, int status, const char *why);
/* Calls done(), as does the next: @status 0 leaves the answer alone. */
void tn_req_finish(struct tn_store_req *req, int status, const char *why);
/* The same for those that wait in @list and are past their patience at @by; TN_NEVER: all. */
void tn_req_expire(struct tn_req_list *list, tenure_ns by, int status, const char *why);
/* Those that have their answer already, also those that come while this tells the others. */
void tn_req_finish_all(struct tn_req_list *list);

bool tn_op_is_named(const struct tn_op *op);
/* What is wrong with it on any store whose TTLs are those of core/plan.h; NULL: nothing. */
const char *tn_op_fault(const struct tn_op *op);
/* "granted": as stores that answer in words spell it. False: no answer. */
bool tn_answer_parse(const char *word, size_t len, enum tn_answer *ret_answer);

/* --- Sessions ------------------------------------------------------------------------------- */

/* One that was opened, or waits, through this store. */
struct tn_store_session {
    struct tn_dict_node node;
    struct tn_secret secret;
    struct tn_secret hash; /* tn_secret_hash(secret, 's'). */
};

struct tn_store_session *tn_store_session_find(const struct tn_store *store,
                                               const struct tn_secret *secret);
/* Found or made, with zeros behind it. NULL: out of memory. */
struct tn_store_session *tn_store_session_keep(struct tn_store *store,
                                               const struct tn_secret *secret);
void tn_store_session_drop(struct tn_store *store, struct tn_store_session *session);
/* One after the other: NULL begins, and NULL is the end. */
struct tn_store_session *tn_store_session_next(const struct tn_store *store,
                                               const struct tn_store_session *session);
/* OPEN, or an ACQUIRE that waits: news of this session may come. */
bool tn_op_keeps_session(const struct tn_op *op);

/* --- Names ---------------------------------------------------------------------------------- */

/* One that is watched, or that the store uses for something else. */
struct tn_store_name {
    struct tn_dict_node node;
    unsigned watchers;
    unsigned uses : 30;  /* By the store. */
    unsigned retold : 1; /* It is in the store's list of those that are told again. */
    unsigned unsaid : 1; /* The next record is told, even if it is the same. */
    /* What was told last, as long as its label is; NULL: nothing. */
    struct tn_store_record *told;
    struct tn_store_name *retold_next;
    const char *text; /* Behind the struct. */
};

/* NULL: there is none. */
struct tn_store_name *tn_store_name_find(const struct tn_store *store, const char *text,
                                         size_t len);
/* Found or made, and one use more. NULL: out of memory, or too long for a name. */
struct tn_store_name *tn_store_name_use(struct tn_store *store, const char *text, size_t len);
/* One use less; without any, and without watchers, it is freed. */
void tn_store_name_drop(struct tn_store *store, struct tn_store_name *name);
/* As tn_store_session_next. */
struct tn_store_name *tn_store_name_next(const struct tn_store *store,
                                         const struct tn_store_name *name);

/* ops->watch of a store on the frame. A second watcher hears what was told last. */
int tn_store_watch(struct tn_store *store, const char *text, bool on);

/* --- News: calls the host, unless the store is closing -------------------------------------- */

/* The same holder and token were told last. */
bool tn_store_is_told(const struct tn_store_name *name, const struct tn_store_record *record);
/* Tells the watchers, if the holder or the token differs from what they were told last. A vacancy
 * never has a lower token than that: a server that has not heard of the last term yet knows only
 * the one before. */
void tn_store_changed(struct tn_store *store, struct tn_store_name *name,
                      const struct tn_store_record *record);
/* Tell the next record, whatever was told last. */
void tn_store_forget_told(struct tn_store_name *name);
void tn_store_granted(struct tn_store *store, const char *name, const struct tn_secret *term_hash,
                      uint64_t token);
void tn_store_revoked(struct tn_store *store, const char *name, uint64_t token);

/* --- Beside them ---------------------------------------------------------------------------- */

/* What ops.list, read_clock, forget or history has been asked: one of the four is set. */
struct tn_store_query {
    struct tn_store_query *next;
    tn_store_listed *listed;
    tn_store_clocked *clocked;
    tn_store_done *forgotten;
    tn_store_told *told;
    void *arg;
    tenure_ns give_up_at;
    struct tn_store_lease *leases; /* Of a list in the making. */
    size_t count, room;
    bool no_memory;
    bool exact;  /* Only the line of @prefix is of interest. */
    bool line;   /* Not the name, but the candidates that wait for it, in order. */
    int refused; /* Why it will fail with the next turn: the code, and a text that stays. */
    const char *why;
    char prefix[TN_NAME_MAX + 2]; /* One more than a name may have: it will be refused. */
};

/* ops->list, look, line, read_clock, forget and history of a store on the frame. Without memory the
 * asker is told from within the call: there is no place to remember it. */
void tn_store_list(struct tn_store *store, const char *prefix, tn_store_listed *done, void *arg);
void tn_store_look(struct tn_store *store, const char *name, tn_store_listed *done, void *arg);
void tn_store_line(struct tn_store *store, const char *name, tn_store_listed *done, void *arg);
void tn_store_read_clock(struct tn_store *store, tn_store_clocked *done, void *arg);
void tn_store_forget(struct tn_store *store, const char *prefix, tn_store_done *done, void *arg);
/* The name is the query's prefix. */
void tn_store_history(struct tn_store *store, const char *name, tn_store_told *done, void *arg);

/* Room for one more, zeroed. NULL: out of memory, and so the query will fail. */
struct tn_store_lease *tn_query_add_lease(struct tn_store_query *query);
/* Room for a candidate that waits; false: out of memory, and so the query will fail. */
bool tn_query_add_waiter(struct tn_store_query *query, const char *label, size_t len);
/* Tells the asker: with @status 0 the leases, sorted unless they are a line, or that it is
 * forgotten. Frees the query. */
void tn_query_done(struct tn_store_query *query, int status, const char *why);
void tn_query_clocked(struct tn_store_query *query, tenure_ns clock);
void tn_query_told(struct tn_store_query *query, const char *json, size_t len);
/* With the next turn of the loop: never inside ops->ask. */
void tn_query_refuse(struct tn_store *store, struct tn_store_query *query, int status,
                     const char *why);
/* As tn_query_done, for all of a queue. */
void tn_query_done_all(struct tn_store_query **queue, int status, const char *why);
void tn_query_push(struct tn_store_query **queue, struct tn_store_query *query);

/* The same for those that are over time at @by; TN_NEVER: for all. In a store all have the same
 * patience, so the first is the oldest. */
void tn_query_expire(struct tn_store_query **queue, tenure_ns by, int status, const char *why);

/* By their names. */
void tn_store_sort(struct tn_store_lease *leases, size_t count);

#endif
