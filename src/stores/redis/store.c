/* store.c - requests in, calls of the script out, answers back; the store's life.
 *
 * Happy path: each request is one EVALSHA on the one connection, all that are asked in one turn go
 * out together, and answers come in order. What can fail: the connection, after which a call that
 * was written counts as unknown, as it does when an answer has another call's number; or the
 * server, which says why. A server that has forgotten the script gets it again, and one that is no
 * master (any more) is left: neither has done anything. */
#include "stores/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/sha256.h"
#include "core/plan.h"
#include "stores/redis/lease.h"
#include "stores/redis/private.h"

/* The server counts whole milliseconds. */
#define SLACK TN_MS(2)

#define WHY "Redis answers before its disk or its replicas have it, and trusts its wall clock"

enum { WORDS_MAX = 13 };

tenure_ns tn_rd_now(const struct tn_rd_store *store)
{
    return tn_clock_now(store->base.how.clock);
}

/* --- Words ---------------------------------------------------------------------------------- */

void tn_rd_hex(char buf[TN_RD_HEX + 1], const struct tn_secret *hash)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < sizeof hash->bytes; i++) {
        buf[2 * i] = digits[hash->bytes[i] >> 4];
        buf[2 * i + 1] = digits[hash->bytes[i] & 15];
    }
    buf[TN_RD_HEX] = '\0';
}

bool tn_rd_unhex(struct tn_resp_word word, struct tn_secret *ret_hash)
{
    struct tn_secret hash;

    if (word.len != TN_RD_HEX)
        return false;
    for (size_t i = 0; i < TN_RD_HEX; i++) {
        char c = word.bytes[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            return false;
        hash.bytes[i / 2] = (uint8_t)(i % 2 == 0 ? digit << 4 : hash.bytes[i / 2] | digit);
    }
    *ret_hash = hash;
    return true;
}

void tn_rd_record(const struct tn_resp_word parts[7], struct tn_store_record *ret_record)
{
    struct tn_store_record record = { .held = tn_rd_is(parts[0], "1"),
                                      .token = tn_rd_number(parts[1]) };

    if (record.held) {
        record.ttl = tn_rd_ms(parts[2]);
        record.remaining = tn_rd_ms(parts[3]);
        if (record.remaining > record.ttl)
            record.remaining = record.ttl;
        record.beat = tn_rd_number(parts[4]);
        (void)tn_rd_unhex(parts[5], &record.term);
        record.label_len = parts[6].len <= TN_LABEL_MAX ? parts[6].len : TN_LABEL_MAX;
        memcpy(record.label, parts[6].bytes, record.label_len);
    }
    *ret_record = record;
}

/* --- Sending -------------------------------------------------------------------------------- */

static void call_done(struct tn_resp_call *base);

/* The words of a call, and where those lie that are made for it. */
struct line {
    struct tn_resp_word words[WORDS_MAX];
    uint32_t count;
    char session[TN_RD_HEX + 1], term[TN_RD_HEX + 1];
    char number[TN_TOKEN_TEXT], ttl[24];
};

static void add_bytes(struct line *line, const char *bytes, uint32_t len)
{
    TN_ASSERT(line->count < WORDS_MAX);
    line->words[line->count++] = (struct tn_resp_word) { len > 0 ? bytes : "", len };
}

static void add(struct line *line, const char *text)
{
    add_bytes(line, text, (uint32_t)strlen(text));
}

static void add_op(struct line *line, const struct tn_op *op, bool node)
{
    static const char *const steps[] = {
        [TN_OP_OPEN] = "open",       [TN_OP_RENEW] = "renew",     [TN_OP_CLOSE] = "close",
        [TN_OP_ACQUIRE] = "acquire", [TN_OP_RELEASE] = "release", [TN_OP_READ] = "read",
        [TN_OP_REVOKE] = "revoke",   [TN_OP_RAISE] = "confirm",
    };
    bool proves = op->kind != TN_OP_READ && op->kind != TN_OP_REVOKE;
    bool named = tn_op_is_named(op);
    struct tn_secret session, term;

    line->words[4] = tn_resp_word_of(steps[op->kind]);
    tn_secret_hash(&op->session, 's', &session);
    tn_secret_hash(&op->term, 't', &term);
    tn_rd_hex(line->session, &session);
    tn_rd_hex(line->term, &term);
    if (proves)
        add(line, line->session);
    if (proves && named)
        add(line, line->term);
    if (named)
        add_bytes(line, op->name, op->name_len);
    tn_token_format(line->number, named ? op->token : op->seq);
    if (op->kind == TN_OP_ACQUIRE)
        add(line, node && op->evident ? "2" : op->wait ? "1" : "0");
    else if (op->kind != TN_OP_CLOSE && op->kind != TN_OP_READ)
        add(line, line->number);
    if (op->kind == TN_OP_RELEASE && node && op->evident)
        add(line, "1");
    if (op->kind == TN_OP_OPEN) {
        /* Rounded up: a session must not end early. */
        (void)snprintf(line->ttl, sizeof line->ttl, "%lld",
                       (long long)((op->ttl + TN_MS(1) - 1) / TN_MS(1)));
        add(line, line->ttl);
        add_bytes(line, op->label, op->label_len);
    }
}

void tn_rd_draw_number(struct tn_rd_store *store, char ret_number[TN_RD_NUMBER])
{
    (void)snprintf(ret_number, TN_RD_NUMBER, "%016llx",
                   (unsigned long long)tn_prng_next(&store->prng));
}

static void send_call(struct tn_rd_call *call)
{
    static const char *const steps[] = { "", "list", "look", "read", "tick", "forget" };
    struct tn_rd_store *store = call->store;
    struct line line = { .count = 0 };

    if (call->job == TN_RD_CLOCK) {
        add(&line, "TIME");
    } else {
        add(&line, call->whole ? "EVAL" : "EVALSHA");
        add(&line, call->whole ? tn_lease : TN_LEASE_SHA);
        add(&line, "1");
        add(&line, store->url.base);
        add(&line, steps[call->job]);
        add(&line, store->url.channel);
        tn_rd_draw_number(store, call->number);
        add(&line, call->number);
    }
    if (call->job == TN_RD_STEP) {
        add_op(&line, &call->req->op, store->node);
    } else if (call->job == TN_RD_LOOK) {
        tn_rd_hex(line.session, &call->session);
        add(&line, line.session);
    } else if (call->job != TN_RD_TICK && call->job != TN_RD_CLOCK) {
        add(&line, call->name);
    }
    if (tn_resp_link_send(&store->conn.link, &call->base, line.words, line.count) < 0)
        call_done(&call->base);
}

static struct tn_rd_call *new_call(struct tn_rd_store *store, enum tn_rd_job job)
{
    struct tn_rd_call *call = calloc(1, sizeof *call);

    if (call != NULL) {
        call->base.done = call_done;
        call->base.give_up_at = tn_rd_now(store) + store->base.how.patience;
        call->base.status = TENURE_E_NOMEM;
        call->base.error = "out of memory";
        call->store = store;
        call->job = job;
        tn_resp_link_start(&store->conn.link);
    }
    return call;
}

void tn_rd_call(struct tn_rd_store *store, enum tn_rd_job job, const struct tn_secret *session,
                const char *name)
{
    struct tn_rd_call *call = new_call(store, job);

    if (call == NULL)
        return;
    if (session != NULL)
        call->session = *session;
    if (name != NULL)
        (void)snprintf(call->name, sizeof call->name, "%s", name);
    send_call(call);
}

void tn_rd_listen(struct tn_rd_store *store, bool on, const char *kind, const char *what)
{
    struct tn_rd_call *call = new_call(store, TN_RD_LISTEN);
    char channel[sizeof store->url.channel + TN_NAME_MAX + 4];

    (void)snprintf(channel, sizeof channel, "%s%s%s", store->url.channel, kind, what);
    const struct tn_resp_word words[] = { tn_resp_word_of(on ? "SUBSCRIBE" : "UNSUBSCRIBE"),
                                          tn_resp_word_of(channel) };
    if (call == NULL)
        return;
    call->base.confirms = 1;
    if (tn_resp_link_send(&store->conn.link, &call->base, words, 2) < 0)
        free(call);
}

/* --- Answers -------------------------------------------------------------------------------- */

/* The call came to nothing. */
static void fail_call(struct tn_rd_call *call, int status, const char *why)
{
    if (call->req != NULL)
        tn_req_finish(call->req, status, why);
    else
        tn_query_fail(&call->query, status, why);
    if (call->job == TN_RD_TICK)
        tn_rd_ticked(call->store);
    free(call);
}

/* OPEN, RENEW: held, ttl, sure, digest, and then token and name of each lease that is revoked. */
static void answer_session(struct tn_rd_store *store, struct tn_store_req *req,
                           struct tn_rd_reply *reply)
{
    const struct tn_store_open *how = &store->base.how;
    struct tn_rd_req *node = (struct tn_rd_req *)req;

    req->held = (uint32_t)tn_rd_number(tn_rd_next(reply));
    req->ttl = tn_rd_ms(tn_rd_next(reply));
    if (req->op.kind == TN_OP_OPEN && req->ttl > req->op.ttl)
        req->ttl = req->op.ttl; /* It was rounded up. */
    uint64_t sure = tn_rd_number(tn_rd_next(reply));
    uint64_t digest = tn_rd_number(tn_rd_next(reply));
    if (store->node) {
        node->sure = (uint32_t)sure;
        node->digest = digest;
    }
    /* Revocations are heard of before the renewal counts. */
    while (reply->left >= 2 && !store->base.closing) {
        struct tn_resp_word token = tn_rd_next(reply);
        struct tn_resp_word name = tn_rd_next(reply);
        char text[TN_NAME_MAX + 1];
        if (name.len > TN_NAME_MAX)
            continue;
        (void)snprintf(text, sizeof text, "%.*s", (int)name.len, name.bytes);
        how->host->revoked(how->arg, text, tn_rd_number(token));
    }
}

static void answer_step(struct tn_rd_call *call, struct tn_resp_word word,
                        struct tn_rd_reply *reply)
{
    struct tn_rd_store *store = call->store;
    struct tn_store_req *req = call->req;
    struct tn_resp_word parts[7];
    struct tn_secret hash;

    if (!tn_answer_parse(word.bytes, word.len, &req->answer)) {
        fail_call(call, TENURE_E_DAMAGED, "redis: the script gives answers that are not known");
        return;
    }
    free(call);
    tn_secret_hash(&req->op.session, 's', &hash);
    if (req->answer == TN_ANSWER_GONE || req->op.kind == TN_OP_CLOSE)
        tn_rd_own_drop(store, &hash);
    if (tn_op_is_named(&req->op)) {
        for (int i = 0; i < 7; i++)
            parts[i] = tn_rd_next(reply);
        tn_rd_record(parts, &req->record);
        struct tn_resp_word sure = tn_rd_next(reply), last = tn_rd_next(reply);
        if (store->node) {
            ((struct tn_rd_req *)req)->confirmed = tn_rd_is(sure, "1");
            ((struct tn_rd_req *)req)->last = tn_rd_number(last);
        }
        req->record.revoked = req->record.held && tn_rd_is(tn_rd_next(reply), "1");
    } else if (req->answer == TN_ANSWER_OK && req->op.kind != TN_OP_CLOSE) {
        answer_session(store, req, reply);
    }
    tn_req_finish(req, 0, "");
}

static void answer_list(struct tn_rd_call *call, struct tn_rd_reply *reply)
{
    size_t count = reply->left / 9; /* The name, seven parts, and whether it is revoked. */
    struct tn_store_lease *leases = calloc(count + 1, sizeof *leases);

    for (size_t i = 0; leases != NULL && i < count; i++) {
        struct tn_resp_word name = tn_rd_next(reply);
        struct tn_resp_word parts[7];
        for (int part = 0; part < 7; part++)
            parts[part] = tn_rd_next(reply);
        (void)snprintf(leases[i].name, sizeof leases[i].name, "%.*s", (int)name.len, name.bytes);
        tn_rd_record(parts, &leases[i].record);
        leases[i].record.revoked = tn_rd_is(tn_rd_next(reply), "1") && leases[i].record.held;
    }
    if (leases != NULL)
        call->query.listed(call->query.arg, 0, leases, count, NULL);
    else
        tn_query_fail(&call->query, TENURE_E_NOMEM, "out of memory");
    free(call);
}

static void answer_call(struct tn_rd_call *call)
{
    struct tn_rd_store *store = call->store;
    struct tn_rd_reply reply = tn_rd_reply_of(call->base.reply, call->base.reply_len);
    enum tn_rd_job job = call->job;

    /* A repeated or a lost answer on the way: none that follows can be trusted. */
    if (!tn_rd_is(tn_rd_next(&reply), call->number)) {
        tn_rd_conn_leave(store, "an answer belongs to another request");
        fail_call(call, TENURE_E_TIMEOUT, "redis: an answer belongs to another request");
        return;
    }
    struct tn_resp_word word = tn_rd_next(&reply);
    tn_rd_hear_due(store, tn_rd_next(&reply));
    if (job == TN_RD_STEP) {
        answer_step(call, word, &reply);
        return;
    }
    if (job == TN_RD_LIST) {
        answer_list(call, &reply);
        return;
    }
    if (job == TN_RD_LOOK && !store->base.closing)
        tn_rd_hear_look(store, &reply);
    else if (job == TN_RD_WATCH && !store->base.closing)
        tn_rd_hear_read(store, call->name, &reply);
    else if (job == TN_RD_TICK)
        tn_rd_ticked(store);
    else if (job == TN_RD_FORGET)
        call->query.forgotten(call->query.arg, 0, NULL);
    free(call);
}

static void answer_clock(struct tn_rd_call *call)
{
    struct tn_rd_reply reply = tn_rd_reply_of(call->base.reply, call->base.reply_len);
    tenure_ns seconds = (tenure_ns)tn_rd_number(tn_rd_next(&reply));
    tenure_ns micros = (tenure_ns)tn_rd_number(tn_rd_next(&reply));

    call->query.clocked(call->query.arg, 0, TN_SEC(seconds) + micros * 1000, NULL);
    free(call);
}

/* The server has refused the call: nothing was done. */
static void refused(struct tn_rd_call *call)
{
    static const char *const leave[] = { "READONLY", "MASTERDOWN", "LOADING", "MOVED" };
    const struct tn_resp_value *error = &call->base.value;
    struct tn_rd_store *store = call->store;
    char why[TN_ERROR_TEXT];
    struct tn_text text;

    if (tn_resp_begins(error, "NOSCRIPT") && !call->whole) {
        call->whole = true;
        send_call(call);
        return;
    }
    tn_text_init(&text, why, sizeof why);
    tn_text_addf(&text, "%s %s: ", store->url.scheme, store->conn.link.stream.at.where);
    size_t skip = text.len;
    int code = tn_rd_blame(error, &text);
    for (size_t i = 0; i < sizeof leave / sizeof leave[0]; i++) {
        if (tn_resp_begins(error, leave[i])) {
            tn_rd_conn_leave(store, why + skip);
            send_call(call); /* It waits for the next connection. */
            return;
        }
    }
    fail_call(call, code, why);
}

/* Its time is over before an attempt to connect is. What the server said to the one before, such as
 * that it is still loading, is more than nothing. */
static void fail_unreached(struct tn_rd_call *call)
{
    const struct tn_rd_store *store = call->store;
    char why[TN_ERROR_TEXT];

    if (store->conn.link.refusal[0] != '\0') {
        fail_call(call, TENURE_E_UNAVAILABLE, store->conn.link.refusal);
        return;
    }
    (void)snprintf(why, sizeof why, "%s %.120s: no answer yet; is %s reachable there?",
                   store->url.scheme, store->url.net.endpoints[0].where,
                   store->url.tls ? "a Redis with TLS" : "a Redis");
    fail_call(call, TENURE_E_UNAVAILABLE, why);
}

static void call_done(struct tn_resp_call *base)
{
    struct tn_rd_call *call = (struct tn_rd_call *)base;

    if (base->status == TENURE_E_UNAVAILABLE && call->store->conn.link.stream.error[0] == '\0')
        fail_unreached(call);
    else if (base->status != 0)
        fail_call(call, base->status, base->error);
    else if (base->value.type == TN_RESP_ERROR && call->job != TN_RD_LISTEN)
        refused(call);
    else if (call->job == TN_RD_LISTEN)
        free(call);
    else if (call->job == TN_RD_CLOCK)
        answer_clock(call);
    else
        answer_call(call);
}

/* --- The interface -------------------------------------------------------------------------- */

static void handle_closed(uv_handle_t *handle)
{
    struct tn_rd_store *store = handle->data;

    if (--store->handles > 0)
        return;
    tn_rd_news_done(store);
    tn_tls_context_free(store->conn.tls);
    tn_store_gone(&store->base);
}

static void link_closed(void *arg)
{
    struct tn_rd_store *store = arg;

    tn_req_finish_all(&store->faulty);
    uv_close((uv_handle_t *)&store->timer, handle_closed);
    uv_close((uv_handle_t *)&store->idle, handle_closed);
}

/* What is never done inside submit or close. */
static void run_idle(uv_idle_t *idle)
{
    struct tn_rd_store *store = idle->data;

    (void)uv_idle_stop(idle);
    tn_req_finish_all(&store->faulty);
    if (store->base.closing && !store->shut) {
        store->shut = true;
        tn_resp_link_close(&store->conn.link, link_closed);
    }
}

static void submit_faulty(struct tn_rd_store *store, struct tn_store_req *req, int status,
                          const char *why)
{
    tn_req_fail(req, status, why);
    tn_req_add(&store->faulty, req);
    (void)uv_idle_start(&store->idle, run_idle);
}

static void submit(struct tn_store *base, struct tn_store_req *req)
{
    struct tn_rd_store *store = (struct tn_rd_store *)base;
    const char *fault = tn_op_fault(&req->op);
    struct tn_secret hash;

    tn_req_init(req);
    if (fault == NULL && req->op.kind > (store->node ? TN_OP_RAISE : TN_OP_REVOKE))
        fault = "redis: no such operation";
    if (fault != NULL || store->base.closing) {
        submit_faulty(store, req, fault != NULL ? TENURE_E_INVALID : TENURE_E_CLOSED,
                      fault != NULL ? fault : "the store is closed");
        return;
    }
    struct tn_rd_call *call = new_call(store, TN_RD_STEP);
    bool waits = req->op.kind == TN_OP_ACQUIRE && req->op.wait;
    tn_secret_hash(&req->op.session, 's', &hash);
    if (call == NULL || ((waits || req->op.kind == TN_OP_OPEN) && !tn_rd_own_add(store, &hash))) {
        free(call);
        submit_faulty(store, req, TENURE_E_NOMEM, "out of memory");
        return;
    }
    store->waits = store->waits || waits;
    call->req = req;
    send_call(call);
}

static int watch_name(struct tn_store *base, const char *name, bool on)
{
    struct tn_rd_store *store = (struct tn_rd_store *)base;

    tn_resp_link_start(&store->conn.link);
    return tn_rd_watch(store, name, on);
}

static void ask(struct tn_store *base, enum tn_rd_job job, const char *prefix,
                const struct tn_store_query *query)
{
    struct tn_rd_store *store = (struct tn_rd_store *)base;
    struct tn_rd_call *call = new_call(store, job);

    if (call == NULL) {
        tn_query_fail(query, TENURE_E_NOMEM, "out of memory");
        return;
    }
    call->query = *query;
    (void)snprintf(call->name, sizeof call->name, "%s", prefix);
    send_call(call);
}

static void list_names(struct tn_store *base, const char *prefix, tn_store_listed *done, void *arg)
{
    ask(base, TN_RD_LIST, prefix, &(struct tn_store_query) { .listed = done, .arg = arg });
}

static void read_clock(struct tn_store *base, tn_store_clocked *done, void *arg)
{
    ask(base, TN_RD_CLOCK, "", &(struct tn_store_query) { .clocked = done, .arg = arg });
}

static void forget_names(struct tn_store *base, const char *prefix, tn_store_done *done, void *arg)
{
    ask(base, TN_RD_FORGET, prefix, &(struct tn_store_query) { .forgotten = done, .arg = arg });
}

/* --- Its life ------------------------------------------------------------------------------- */

static void close_store(struct tn_store *base, void (*closed)(void *arg), void *arg)
{
    struct tn_rd_store *store = (struct tn_rd_store *)base;

    tn_store_close(base, closed, arg);
    (void)uv_timer_stop(&store->timer);
    (void)uv_idle_start(&store->idle, run_idle);
}

static void tell_facts(const struct tn_store *base, struct tn_store_facts *ret_facts)
{
    const struct tn_rd_conn *conn = &((const struct tn_rd_store *)base)->conn;

    ret_facts->version = conn->version;
    ret_facts->warning = conn->forgets ? "a restart forgets every lease and token; set appendonly "
                                         "yes there, and appendfsync always"
                                       : "";
}

int tn_rd_open(const struct tn_store_ops *ops, const struct tn_store_open *how,
               const struct tn_rd_url *url, bool node, struct tn_store **ret_store,
               struct tn_text *reterr)
{
    struct tn_rd_store *store = tn_store_new(sizeof *store, ops, how, reterr);

    if (store == NULL)
        return TENURE_E_NOMEM;
    tn_prng_seed(&store->prng, store->base.seeds[0]);
    store->url = *url;
    store->node = node;
    store->due_at = TN_NEVER;
    int rc = tn_rd_conn_init(store, store->base.seeds[1], reterr);
    if (rc < 0) {
        tn_tls_context_free(store->conn.tls);
        free(store);
        return rc;
    }
    (void)uv_timer_init(how->loop, &store->timer);
    (void)uv_idle_init(how->loop, &store->idle);
    store->timer.data = store->idle.data = store;
    store->handles = 2;
    *ret_store = &store->base;
    return 0;
}

static int open_store(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    struct tn_rd_url *url = calloc(1, sizeof *url);
    int rc = TENURE_E_NOMEM;

    if (url != NULL)
        rc = tn_rd_url_parse(ops->scheme, how->rest, url, reterr);
    else
        tn_text_add(reterr, "out of memory");
    if (rc == 0)
        rc = tn_rd_open(ops, how, url, false, ret_store, reterr);
    free(url);
    return rc;
}

#define OPS(scheme_)                                                                             \
    {                                                                                            \
        .scheme = (scheme_), .caps = TN_STORE_QUEUES | TN_STORE_TELLS | TN_STORE_ADVISORY,       \
        .slack = SLACK, .ttl_min = TN_TTL_MIN, .ttl_max = TN_TTL_MAX, .open = open_store,        \
        .submit = submit, .watch = watch_name, .list = list_names, .close = close_store,         \
        .facts = tell_facts, .class_why = WHY, .read_clock = read_clock, .forget = forget_names, \
        .restored = "raise its counter: redis-cli SET {tenure}:token #"                          \
    }

const struct tn_store_ops tn_redis_store_ops = OPS("redis");
const struct tn_store_ops tn_rediss_store_ops = OPS("rediss");
const struct tn_store_ops tn_redis_unix_store_ops = OPS("redis+unix");
