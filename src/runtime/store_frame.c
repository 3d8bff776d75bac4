/* store_frame.c - what is the same in every store; store_frame.h. */
#include "runtime/store_frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/time.h"
#include "core/plan.h"
#include "runtime/random.h"

/* --- The store ------------------------------------------------------------------------------ */

void *tn_store_new(size_t size, const struct tn_store_ops *ops, const struct tn_store_open *how,
                   struct tn_text *reterr)
{
    struct tn_store *store = calloc(1, size);
    struct tn_secret seed;

    TN_ASSERT(size >= sizeof *store);
    if (store == NULL || tn_random_secret(&seed) < 0) {
        tn_text_add(reterr, store == NULL ? "out of memory" : "the system has no random numbers");
        free(store);
        return NULL;
    }
    memcpy(store->seeds, &seed, sizeof store->seeds);
    store->ops = ops;
    store->how = *how;
    store->how.url = NULL;
    store->how.rest = NULL;
    return store;
}

void tn_store_close(struct tn_store *store, void (*closed)(void *arg), void *arg)
{
    TN_ASSERT(!store->closing);
    store->closing = true;
    store->closed = closed;
    store->closed_arg = arg;
}

static void store_free(struct tn_store *store)
{
    void (*closed)(void *arg) = store->closed;
    void *arg = store->closed_arg;

    free(store);
    if (closed != NULL)
        closed(arg);
}

static void turn_closed(uv_handle_t *turn)
{
    struct tn_store *store = turn->data;

    tn_req_finish_all(&store->refused);
    store_free(store);
}

void tn_store_gone(struct tn_store *store)
{
    if (store->has_turn)
        uv_close((uv_handle_t *)&store->turn, turn_closed);
    else
        store_free(store);
}

void tn_store_wake_at(const struct tn_store *store, uv_timer_t *timer, uv_timer_cb hear,
                      tenure_ns at)
{
    tenure_ns now = tn_clock_now(store->how.clock);

    if (at == TN_NEVER)
        (void)uv_timer_stop(timer);
    else
        (void)uv_timer_start(timer, hear, at > now ? (uint64_t)((at - now) / TN_MS(1)) + 1 : 1, 0);
}

/* --- Requests ------------------------------------------------------------------------------- */

void tn_req_add(struct tn_req_list *list, struct tn_store_req *req)
{
    req->next = NULL;
    if (list->first == NULL)
        list->first = req;
    else
        list->last->next = req;
    list->last = req;
}

struct tn_store_req *tn_req_take(struct tn_req_list *list)
{
    struct tn_store_req *req = list->first;

    if (req != NULL)
        list->first = req->next;
    return req;
}

void tn_req_put_back(struct tn_req_list *list, struct tn_req_list *front)
{
    if (front->first == NULL)
        return;
    front->last->next = list->first;
    if (list->first == NULL)
        list->last = front->last;
    list->first = front->first;
    front->first = NULL;
}

void tn_req_init(struct tn_store_req *req)
{
    req->status = 0;
    req->error[0] = '\0';
    req->answer = TN_ANSWER_OK;
    req->record = (struct tn_store_record) { 0 };
    req->ttl = 0;
    req->seen = req->op.seen;
    req->held = 0;
    req->more = false;
}

void tn_req_fail(struct tn_store_req *req, int status, const char *why)
{
    req->status = status;
    (void)snprintf(req->error, sizeof req->error, "%s",
                   why != NULL && why[0] != '\0' ? why : tenure_strerror(status));
}

void tn_req_finish(struct tn_store_req *req, int status, const char *why)
{
    req->status = 0;
    if (status != 0)
        tn_req_fail(req, status, why);
    req->done(req);
}

void tn_req_finish_all(struct tn_req_list *list)
{
    for (struct tn_store_req *req = tn_req_take(list); req != NULL; req = tn_req_take(list))
        req->done(req);
}

static void take_turn(uv_idle_t *turn)
{
    struct tn_store *store = turn->data;

    (void)uv_idle_stop(turn);
    tn_req_finish_all(&store->refused);
}

void tn_req_refuse(struct tn_store *store, struct tn_store_req *req, int status, const char *why)
{
    if (!store->has_turn) {
        (void)uv_idle_init(store->how.loop, &store->turn);
        store->turn.data = store;
        store->has_turn = true;
    }
    tn_req_fail(req, status, why);
    tn_req_add(&store->refused, req);
    if (!uv_is_closing((const uv_handle_t *)&store->turn))
        (void)uv_idle_start(&store->turn, take_turn);
}

int tn_store_check_ttl(const struct tn_store_ops *ops, tenure_ns ttl, struct tn_text *reterr)
{
    char limit[TN_DURATION_TEXT];
    bool low = ttl < ops->ttl_min;

    if (!low && ttl <= ops->ttl_max)
        return 0;
    tn_duration_format(limit, sizeof limit, low ? ops->ttl_min : ops->ttl_max);
    tn_text_addf(reterr, "%s: takes a TTL of %s or %s", ops->scheme, limit, low ? "more" : "less");
    return TENURE_E_INVALID;
}

void tn_store_submit(struct tn_store *store, struct tn_store_req *req)
{
    const struct tn_op *op = &req->op;
    const char *fault = op->kind > TN_OP_REVOKE ? "no such operation" : NULL;
    char why[TN_ERROR_TEXT];
    struct tn_text text;

    tn_req_init(req);
    tn_text_init(&text, why, sizeof why);
    if (fault == NULL && op->kind == TN_OP_OPEN &&
        tn_store_check_ttl(store->ops, op->ttl, &text) < 0)
        fault = why;
    if (fault == NULL)
        fault = tn_op_fault(op);
    if (store->closing)
        tn_req_refuse(store, req, TENURE_E_CLOSED, "the store is closed");
    else if (fault != NULL)
        tn_req_refuse(store, req, TENURE_E_INVALID, fault);
    else
        store->ops->submit(store, req);
}

bool tn_op_is_named(const struct tn_op *op)
{
    return op->kind >= TN_OP_ACQUIRE && op->kind <= TN_OP_RAISE;
}

const char *tn_op_fault(const struct tn_op *op)
{
    const char *reason = NULL;

    if (op->label_len > TN_LABEL_MAX)
        return "the label is too long";
    if (op->kind == TN_OP_OPEN && (op->ttl < TN_TTL_MIN || op->ttl > TN_TTL_MAX))
        return "the TTL is out of range";
    if (tn_op_is_named(op) && tn_name_check(op->name, op->name_len, &reason) < 0)
        return reason;
    return NULL;
}

bool tn_answer_parse(const char *word, size_t len, enum tn_answer *ret_answer)
{
    static const struct {
        const char *word;
        enum tn_answer answer;
    } words[] = {
        { "ok", TN_ANSWER_OK },         { "granted", TN_ANSWER_GRANTED },
        { "queued", TN_ANSWER_QUEUED }, { "held", TN_ANSWER_HELD },
        { "free", TN_ANSWER_FREE },     { "released", TN_ANSWER_RELEASED },
        { "stale", TN_ANSWER_STALE },   { "denied", TN_ANSWER_DENIED },
        { "gone", TN_ANSWER_GONE },     { "full", TN_ANSWER_FULL },
    };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (len == strlen(words[i].word) && memcmp(word, words[i].word, len) == 0) {
            *ret_answer = words[i].answer;
            return true;
        }
    }
    return false;
}

/* --- Beside them ---------------------------------------------------------------------------- */

bool tn_query_add(struct tn_store_query **queue, const struct tn_store_query *query,
                  const char *prefix)
{
    struct tn_store_query *copy = malloc(sizeof *copy);

    if (copy == NULL) {
        tn_query_fail(query, TENURE_E_NOMEM, "out of memory");
        return false;
    }
    *copy = *query;
    copy->next = NULL;
    (void)snprintf(copy->prefix, sizeof copy->prefix, "%s", prefix);
    while (*queue != NULL)
        queue = &(*queue)->next;
    *queue = copy;
    return true;
}

void tn_query_fail(const struct tn_store_query *query, int status, const char *why)
{
    if (query->listed != NULL)
        query->listed(query->arg, status, NULL, 0, why);
    else if (query->clocked != NULL)
        query->clocked(query->arg, status, 0, why);
    else if (query->forgotten != NULL)
        query->forgotten(query->arg, status, why);
}

void tn_query_expire(struct tn_store_query **queue, tenure_ns by, int status, const char *why)
{
    while (*queue != NULL && (*queue)->give_up_at <= by) {
        struct tn_store_query *query = *queue;
        *queue = query->next;
        tn_query_fail(query, status, why);
        free(query);
    }
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct tn_store_lease *)a)->name,
                  ((const struct tn_store_lease *)b)->name);
}

void tn_store_sort(struct tn_store_lease *leases, size_t count)
{
    if (count > 0)
        qsort(leases, count, sizeof *leases, compare_names);
}
