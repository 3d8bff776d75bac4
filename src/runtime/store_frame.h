/* store_frame.h - what is the same in every store: how it begins and ends, how a request is
 * checked, waits and is answered, and what is asked beside requests.
 *
 *   open    tn_store_new
 *   submit  tn_store_submit --> ops->submit, tn_req_add ... tn_req_take --> tn_req_finish
 *   list    tn_query_add ... the answer, or tn_query_fail
 *   close   tn_store_close ... when the last handle is closed: tn_store_gone
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
/* Nothing is left of it: free the memory, and tell who closed it, if anybody did. */
void tn_store_gone(struct tn_store *store);

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

/* Answer it with the next turn of the loop, never inside submit; the store need not be open. */
void tn_req_refuse(struct tn_store *store, struct tn_store_req *req, int status, const char *why);
/* As if it had been answered, with nothing to tell: what the store does not set stays so. */
void tn_req_init(struct tn_store_req *req);
/* Not done() yet. Where @why is empty the code has to do. */
void tn_req_fail(struct tn_store_req *req, int status, const char *why);
/* Calls done(), as does the next: @status 0 leaves the answer alone. */
void tn_req_finish(struct tn_store_req *req, int status, const char *why);
/* Those that have their answer already, also those that come while this tells the others. */
void tn_req_finish_all(struct tn_req_list *list);

bool tn_op_is_named(const struct tn_op *op);
/* What is wrong with it on any store whose TTLs are those of core/plan.h; NULL: nothing. */
const char *tn_op_fault(const struct tn_op *op);
/* "granted": as stores that answer in words spell it. False: no answer. */
bool tn_answer_parse(const char *word, size_t len, enum tn_answer *ret_answer);

/* --- Beside them ---------------------------------------------------------------------------- */

/* What ops.list, read_clock or forget has been asked: one of the three is set. */
struct tn_store_query {
    struct tn_store_query *next;
    tn_store_listed *listed;
    tn_store_clocked *clocked;
    tn_store_done *forgotten;
    void *arg;
    tenure_ns give_up_at;
    char prefix[TN_NAME_MAX + 2]; /* One more than a name may have: it will be refused. */
};

/* A copy of @query at the end of @queue, to be freed. False: out of memory, and the asker was told,
 * the only one who is told from within the call: there is no place to remember it. */
bool tn_query_add(struct tn_store_query **queue, const struct tn_store_query *query,
                  const char *prefix);
/* Tells the asker. */
void tn_query_fail(const struct tn_store_query *query, int status, const char *why);
/* The same for those that wait and are over time at @by, and frees them; TN_NEVER: for all. In a
 * store all have the same patience, so the first is the oldest. */
void tn_query_expire(struct tn_store_query **queue, tenure_ns by, int status, const char *why);

/* By their names. */
void tn_store_sort(struct tn_store_lease *leases, size_t count);

#endif
