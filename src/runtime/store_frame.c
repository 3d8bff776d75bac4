/* store_frame.c - what is the same in every store; store_frame.h. */
#include "runtime/store_frame.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/sha256.h"
#include "base/time.h"
#include "core/plan.h"
#include "runtime/random.h"

/* Of stores that were opened without one. */
#define PATIENCE TN_SEC(5)

/* --- The store ------------------------------------------------------------------------------ */

void *tn_store_new(size_t size, const struct tn_store_ops *ops, const struct tn_store_open *how,
                   struct tn_text *reterr)
{
    struct tn_store *store = calloc(1, size);
    struct tn_secret seed;
    struct tn_hash_key key;

    TN_ASSERT(size >= sizeof *store);
    if (store == NULL || tn_random_secret(&seed) < 0) {
        tn_text_add(reterr, store == NULL ? "out of memory" : "the system has no random numbers");
        free(store);
        return NULL;
    }
    memcpy(store->seeds, &seed, sizeof store->seeds);
    memcpy(&key, &seed, sizeof key);
    tn_dict_init(&store->names, key);
    tn_dict_init(&store->sessions, key);
    store->ops = ops;
    store->how = *how;
    store->how.url = NULL;
    store->how.rest = NULL;
    if (how->patience <= 0)
        store->how.patience = PATIENCE;
    return store;
}

static void dict_free(struct tn_dict *dict)
{
    for (struct tn_dict_node *node = tn_dict_next(dict, NULL), *next; node != NULL; node = next) {
        next = tn_dict_next(dict, node);
        tn_dict_remove(dict, node);
        free(node);
    }
    tn_dict_done(dict);
}

static void store_free(struct tn_store *store)
{
    void (*closed)(void *arg) = store->closed;
    void *arg = store->closed_arg;

    if (store->ops->free != NULL)
        store->ops->free(store);
    for (struct tn_store_name *name = NULL; (name = tn_store_name_next(store, name)) != NULL;)
        free(name->told);
    dict_free(&store->names);
    dict_free(&store->sessions);
    free(store);
    if (closed != NULL)
        closed(arg);
}

/* What has its answer, or was refused as it came. */
static void answer_late(struct tn_store *store)
{
    tn_req_finish_all(&store->answered);
    while (store->late != NULL) {
        struct tn_store_query *query = store->late;
        store->late = query->next;
        tn_query_done(query, query->refused, query->why);
    }
}

static void handle_closed(uv_handle_t *handle)
{
    struct tn_store *store = handle->data;

    TN_ASSERT(store->open_handles > 0);
    if (--store->open_handles > 0)
        return;
    answer_late(store);
    store_free(store);
}

static void take_turn(uv_idle_t *turn);

static void need_turn(struct tn_store *store)
{
    if (store->has_turn)
        return;
    (void)uv_idle_init(store->how.loop, &store->turn);
    store->turn.data = store;
    store->has_turn = true;
    store->open_handles++;
}

void tn_store_kick(struct tn_store *store)
{
    need_turn(store);
    if (!uv_is_closing((const uv_handle_t *)&store->turn))
        (void)uv_idle_start(&store->turn, take_turn);
}

void tn_store_close(struct tn_store *store, void (*closed)(void *arg), void *arg)
{
    TN_ASSERT(!store->closing);
    store->closing = true;
    store->closed = closed;
    store->closed_arg = arg;
    if (store->ops->shut != NULL)
        tn_store_kick(store);
}

void tn_store_add_handle(struct tn_store *store, void *handle)
{
    TN_ASSERT(store->handle_count < TN_STORE_HANDLES);
    store->handles[store->handle_count++] = handle;
    ((uv_handle_t *)handle)->data = store;
    store->open_handles++;
}

void tn_store_end(struct tn_store *store)
{
    if (store->open_handles == 0) {
        store_free(store);
        return;
    }
    for (unsigned i = 0; i < store->handle_count; i++)
        uv_close(store->handles[i], handle_closed);
    if (store->has_turn)
        uv_close((uv_handle_t *)&store->turn, handle_closed);
}

int tn_store_discard(struct tn_store *store, int code, const char *why, struct tn_text *reterr)
{
    if (why != NULL)
        tn_text_add(reterr, why);
    store->closing = true;
    tn_store_end(store);
    return code;
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
    req->hashed = false;
}

void tn_req_hash(struct tn_store_req *req)
{
    if (req->hashed)
        return;
    tn_secret_hash(&req->op.session, 's', &req->session_hash);
    if (req->op.name_len > 0)
        tn_secret_hash(&req->op.term, 't', &req->term_hash);
    req->hashed = true;
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

void tn_req_expire(struct tn_req_list *list, tenure_ns by, int status, const char *why)
{
    struct tn_req_list all = *list, over = { 0 };

    *list = (struct tn_req_list) { 0 };
    for (struct tn_store_req *req; (req = tn_req_take(&all)) != NULL;)
        tn_req_add(req->give_up_at <= by ? &over : list, req);
    for (struct tn_store_req *req; (req = tn_req_take(&over)) != NULL;)
        tn_req_finish(req, status, why);
}

void tn_req_finish_all(struct tn_req_list *list)
{
    for (struct tn_store_req *req = tn_req_take(list); req != NULL; req = tn_req_take(list))
        req->done(req);
}

void tn_req_answer(struct tn_store *store, struct tn_store_req *req)
{
    tn_req_add(&store->answered, req);
    tn_store_kick(store);
}

void tn_req_refuse(struct tn_store *store, struct tn_store_req *req, int status, const char *why)
{
    tn_req_fail(req, status, why);
    tn_req_answer(store, req);
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
    bool known = op->kind <= TN_OP_REVOKE ||
                 (op->kind == TN_OP_RAISE && (store->ops->caps & TN_STORE_RAISES) != 0);
    const char *fault = known ? NULL : "no such operation";
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
    else {
        req->give_up_at = tn_clock_now(store->how.clock) + store->how.patience;
        store->ops->submit(store, req);
    }
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
    if (op->soft.limit < 0 || op->soft.limit > TN_TTL_MAX ||
        (op->soft.limit > 0 && tn_secret_is_zero(&op->soft.fences)))
        return "the soft limit is out of range, or without fences";
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

/* --- Sessions ------------------------------------------------------------------------------- */

static void tables_lock(struct tn_store *store)
{
    if (store->guard != NULL)
        (void)pthread_mutex_lock(store->guard);
}

static void tables_unlock(struct tn_store *store)
{
    if (store->guard != NULL)
        (void)pthread_mutex_unlock(store->guard);
}

struct tn_store_session *tn_store_session_find(const struct tn_store *store,
                                               const struct tn_secret *secret)
{
    return (struct tn_store_session *)tn_dict_find(&store->sessions, secret, sizeof *secret);
}

struct tn_store_session *tn_store_session_keep(struct tn_store *store,
                                               const struct tn_secret *secret)
{
    struct tn_store_session *session = tn_store_session_find(store, secret);
    size_t size = store->ops->session_size;

    if (session != NULL)
        return session;
    session = calloc(1, size > 0 ? size : sizeof *session);
    if (session == NULL)
        return NULL;
    session->secret = *secret;
    tn_secret_hash(secret, 's', &session->hash);
    tables_lock(store);
    tn_dict_add(&store->sessions, &session->node, &session->secret, sizeof session->secret);
    tables_unlock(store);
    return session;
}

void tn_store_session_drop(struct tn_store *store, struct tn_store_session *session)
{
    tables_lock(store);
    tn_dict_remove(&store->sessions, &session->node);
    tables_unlock(store);
    free(session);
}

struct tn_store_session *tn_store_session_next(const struct tn_store *store,
                                               const struct tn_store_session *session)
{
    return (struct tn_store_session *)tn_dict_next(&store->sessions,
                                                   session != NULL ? &session->node : NULL);
}

bool tn_op_keeps_session(const struct tn_op *op)
{
    return op->kind == TN_OP_OPEN || (op->kind == TN_OP_ACQUIRE && op->wait);
}

/* --- Names ---------------------------------------------------------------------------------- */

struct tn_store_name *tn_store_name_find(const struct tn_store *store, const char *text, size_t len)
{
    return (struct tn_store_name *)tn_dict_find(&store->names, text, len);
}

struct tn_store_name *tn_store_name_use(struct tn_store *store, const char *text, size_t len)
{
    struct tn_store_name *name = tn_store_name_find(store, text, len);
    size_t size = store->ops->name_size > 0 ? store->ops->name_size : sizeof *name;

    if (name == NULL) {
        name = len <= TN_NAME_MAX ? calloc(1, size + len + 1) : NULL;
        if (name == NULL)
            return NULL;
        memcpy((char *)name + size, text, len);
        name->text = (const char *)name + size;
        tables_lock(store);
        tn_dict_add(&store->names, &name->node, name->text, len);
        tables_unlock(store);
    }
    name->uses++;
    return name;
}

void tn_store_name_drop(struct tn_store *store, struct tn_store_name *name)
{
    TN_ASSERT(name->uses > 0);
    if (--name->uses > 0 || name->watchers > 0)
        return;
    tables_lock(store);
    tn_dict_remove(&store->names, &name->node);
    tables_unlock(store);
    free(name->told);
    free(name);
}

struct tn_store_name *tn_store_name_next(const struct tn_store *store,
                                         const struct tn_store_name *name)
{
    return (struct tn_store_name *)tn_dict_next(&store->names, name != NULL ? &name->node : NULL);
}

/* Not inside watch: with the next turn, once for all who came since. It holds a use until then. */
static void tell_again(struct tn_store *store, struct tn_store_name *name)
{
    if (name->retold)
        return;
    name->retold = true;
    name->uses++;
    name->retold_next = store->retold;
    store->retold = name;
    tn_store_kick(store);
}

int tn_store_watch(struct tn_store *store, const char *text, bool on)
{
    struct tn_store_name *name = tn_store_name_use(store, text, strlen(text));
    int rc = 0;

    if (name == NULL)
        return TENURE_E_NOMEM;
    TN_ASSERT(on || name->watchers > 0);
    tables_lock(store);
    name->watchers += on ? 1U : -1U;
    tables_unlock(store);
    if (name->watchers == (on ? 1 : 0)) {
        free(name->told);
        name->told = NULL;
        rc = store->ops->watched(store, name, on);
    } else if (on && name->told != NULL && !name->unsaid) {
        tell_again(store, name);
    }
    if (rc < 0 && on) {
        tables_lock(store);
        name->watchers--;
        tables_unlock(store);
    }
    tn_store_name_drop(store, name);
    return rc;
}

/* --- News ----------------------------------------------------------------------------------- */

/* A record takes what its label does: a host may watch ten thousand names. */
static size_t record_size(const struct tn_store_record *record)
{
    return offsetof(struct tn_store_record, label) + record->label_len + 1;
}

/* Without memory it is told once more than is needed. */
static void remember_told(struct tn_store_name *name, const struct tn_store_record *record)
{
    struct tn_store_record *told = malloc(record_size(record));

    name->unsaid = told == NULL;
    if (told == NULL)
        return;
    memcpy(told, record, record_size(record));
    free(name->told);
    name->told = told;
}

static void tell_retold(struct tn_store *store)
{
    while (store->retold != NULL) {
        struct tn_store_name *name = store->retold;
        struct tn_store_record record;
        store->retold = name->retold_next;
        name->retold = false;
        if (name->watchers > 0 && name->told != NULL && !name->unsaid && !store->closing) {
            memcpy(&record, name->told, record_size(name->told));
            store->how.host->changed(store->how.arg, name->text, &record);
        }
        tn_store_name_drop(store, name);
    }
}

bool tn_store_is_told(const struct tn_store_name *name, const struct tn_store_record *record)
{
    const struct tn_store_record *told = name->told;

    return told != NULL && !name->unsaid && told->held == record->held &&
           told->revoked == record->revoked && told->token == record->token &&
           tn_secret_equal(&told->term, &record->term);
}

void tn_store_changed(struct tn_store *store, struct tn_store_name *name,
                      const struct tn_store_record *record)
{
    struct tn_store_record news = *record;

    if (!news.held && name->told != NULL && news.token < name->told->token)
        news.token = name->told->token;
    if (store->closing || name->watchers == 0 || tn_store_is_told(name, &news))
        return;
    remember_told(name, &news);
    name->uses++; /* Whoever is told may end the watch. */
    store->how.host->changed(store->how.arg, name->text, &news);
    tn_store_name_drop(store, name);
}

void tn_store_forget_told(struct tn_store_name *name)
{
    name->unsaid = true;
}

void tn_store_granted(struct tn_store *store, const char *name, const struct tn_secret *term_hash,
                      uint64_t token)
{
    if (!store->closing)
        store->how.host->granted(store->how.arg, name, term_hash, token);
}

void tn_store_revoked(struct tn_store *store, const char *name, uint64_t token)
{
    if (!store->closing)
        store->how.host->revoked(store->how.arg, name, token);
}

/* What is never done inside submit, watch or close. */
static void take_turn(uv_idle_t *turn)
{
    struct tn_store *store = turn->data;

    (void)uv_idle_stop(turn);
    tell_retold(store);
    if (!store->closing && store->ops->turn != NULL) {
        store->ops->turn(store);
    } else if (store->closing && store->ops->shut != NULL && !store->shut) {
        store->shut = true;
        store->ops->shut(store);
    }
    answer_late(store);
}
