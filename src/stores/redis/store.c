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
#include "base/hex.h"
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
    tn_hex(buf, hash->bytes, sizeof hash->bytes);
    buf[TN_RD_HEX] = '\0';
}

bool tn_rd_unhex(struct tn_resp_word word, struct tn_secret *ret_hash)
{
    return word.len == TN_RD_HEX && tn_unhex(ret_hash->bytes, word.bytes, sizeof ret_hash->bytes);
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
struct redis_words {
    struct tn_resp_word words[WORDS_MAX];
    uint32_t count;
    char session[TN_RD_HEX + 1], term[TN_RD_HEX + 1];
    char number[TN_TOKEN_TEXT], ttl[24];
};

static void add_bytes(struct redis_words *line, const char *bytes, uint32_t len)
{
    TN_ASSERT(line->count < WORDS_MAX);
    line->words[line->count++] = (struct tn_resp_word) { len > 0 ? bytes : "", len };
}

static void add(struct redis_words *line, const char *text)
{
    add_bytes(line, text, (uint32_t)strlen(text));
}

/* @vote: as of Redlock, whose questions have words of their own; -1: of a plain request. */
static void add_op(struct redis_words *line, struct tn_store_req *req, int vote)
{
    const struct tn_op *op = &req->op;
    static const char *const steps[] = {
        [TN_OP_OPEN] = "open",       [TN_OP_RENEW] = "renew",     [TN_OP_CLOSE] = "close",
        [TN_OP_ACQUIRE] = "acquire", [TN_OP_RELEASE] = "release", [TN_OP_READ] = "read",
        [TN_OP_REVOKE] = "revoke",   [TN_OP_RAISE] = "raise",
    };
    bool proves = op->kind < TN_OP_READ;
    bool named = tn_op_is_named(op);

    line->words[4] = tn_resp_word_of(vote == TN_VOTES_CONFIRM ? "confirm" : steps[op->kind]);
    tn_req_hash(req);
    tn_rd_hex(line->session, &req->session_hash);
    tn_rd_hex(line->term, &req->term_hash);
    if (proves)
        add(line, line->session);
    if (proves && named)
        add(line, line->term);
    if (named)
        add_bytes(line, op->name, op->name_len);
    tn_token_format(line->number, named ? op->token : op->seq);
    if (op->kind == TN_OP_ACQUIRE)
        add(line, vote == TN_VOTES_RECLAIM ? "2" : op->wait ? "1" : "0");
    else if (op->kind != TN_OP_CLOSE && op->kind != TN_OP_READ)
        add(line, line->number);
    if (vote == TN_VOTES_YIELD)
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

/* There is no memory to send it. This may be inside submit, so the asker is told later. */
static void refuse_call(struct tn_rd_call *call)
{
    struct tn_store *base = &call->store->base;

    if (call->req != NULL)
        tn_req_refuse(base, call->req, TENURE_E_NOMEM, "out of memory");
    else if (call->query != NULL)
        tn_query_refuse(base, call->query, TENURE_E_NOMEM, "out of memory");
    else if (call->job == TN_RD_TICK)
        tn_rd_ticked(call->store);
    free(call);
}

static void send_call(struct tn_rd_call *call)
{
    static const char *const steps[] = { "", "list", "look", "read", "tick", "forget", "line" };
    struct tn_rd_store *store = call->store;
    struct redis_words line = { .count = 0 };

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
        add_op(&line, call->req,
               store->node ? (int)((const struct tn_rd_req *)call->req)->kind : -1);
    } else if (call->job == TN_RD_LOOK) {
        tn_rd_hex(line.session, &call->session);
        add(&line, line.session);
    } else if (call->job != TN_RD_TICK && call->job != TN_RD_CLOCK) {
        add(&line, call->query != NULL ? call->query->prefix : call->name);
        if (call->job == TN_RD_LIST && call->query->exact)
            add(&line, "1");
    }
    if (tn_resp_link_send(&store->conn.link, &call->base, line.words, line.count) < 0)
        refuse_call(call);
}

static struct tn_rd_call *new_call(struct tn_rd_store *store, enum tn_rd_job job)
{
    struct tn_rd_call *call = calloc(1, sizeof *call);

    if (call != NULL) {
        call->base.done = call_done;
        call->base.give_up_at = tn_rd_now(store) + store->base.how.patience;
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
    else if (call->query != NULL)
        tn_query_done(call->query, status, why);
    if (call->job == TN_RD_TICK)
        tn_rd_ticked(call->store);
    free(call);
}

/* OPEN, RENEW: held, ttl, sure, digest, and then token and name of each lease that is revoked. */
static void answer_session(struct tn_rd_store *store, struct tn_store_req *req,
                           struct tn_rd_reply *reply)
{
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
    while (reply->left >= 2) {
        struct tn_resp_word token = tn_rd_next(reply);
        struct tn_resp_word name = tn_rd_next(reply);
        char text[TN_NAME_MAX + 1];
        if (name.len > TN_NAME_MAX)
            continue;
        (void)snprintf(text, sizeof text, "%.*s", (int)name.len, name.bytes);
        tn_store_revoked(&store->base, text, tn_rd_number(token));
    }
}

static void answer_step(struct tn_rd_call *call, struct tn_resp_word word,
                        struct tn_rd_reply *reply)
{
    struct tn_rd_store *store = call->store;
    struct tn_store_req *req = call->req;
    struct tn_resp_word parts[7];

    if (!tn_answer_parse(word.bytes, word.len, &req->answer)) {
        fail_call(call, TENURE_E_DAMAGED, "redis: the script gives answers that are not known");
        return;
    }
    free(call);
    if (req->answer == TN_ANSWER_GONE || req->op.kind == TN_OP_CLOSE)
        tn_rd_drop_session(store, &req->op.session);
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
    struct tn_store_lease *lease;

    /* The name, seven parts, whether it is revoked, since when, and how many wait. */
    while (reply->left >= 11 && (lease = tn_query_add_lease(call->query)) != NULL) {
        struct tn_resp_word name = tn_rd_next(reply);
        struct tn_resp_word parts[7];
        for (int part = 0; part < 7; part++)
            parts[part] = tn_rd_next(reply);
        (void)snprintf(lease->name, sizeof lease->name, "%.*s", (int)name.len, name.bytes);
        tn_rd_record(parts, &lease->record);
        lease->record.revoked = tn_rd_is(tn_rd_next(reply), "1") && lease->record.held;
        lease->since = (int64_t)tn_rd_number(tn_rd_next(reply));
        lease->waiting = (uint32_t)tn_rd_number(tn_rd_next(reply));
        lease->counted = true;
    }
    tn_query_done(call->query, 0, NULL);
    free(call);
}

static void answer_line(struct tn_rd_call *call, struct tn_rd_reply *reply)
{
    bool room = true;

    while (room && reply->left > 0) {
        struct tn_resp_word label = tn_rd_next(reply);
        room = tn_query_add_waiter(call->query, label.bytes, label.len);
    }
    tn_query_done(call->query, 0, NULL);
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
    if (job == TN_RD_LINE) {
        answer_line(call, &reply);
        return;
    }
    if (job == TN_RD_LOOK && !store->base.closing)
        tn_rd_hear_look(store, &reply);
    else if (job == TN_RD_WATCH && !store->base.closing)
        tn_rd_hear_read(store, call->name, &reply);
    else if (job == TN_RD_TICK)
        tn_rd_ticked(store);
    else if (job == TN_RD_FORGET)
        tn_query_done(call->query, 0, NULL);
    free(call);
}

static void answer_clock(struct tn_rd_call *call)
{
    struct tn_rd_reply reply = tn_rd_reply_of(call->base.reply, call->base.reply_len);
    tenure_ns seconds = (tenure_ns)tn_rd_number(tn_rd_next(&reply));
    tenure_ns micros = (tenure_ns)tn_rd_number(tn_rd_next(&reply));

    tn_query_clocked(call->query, TN_SEC(seconds) + micros * 1000);
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

static void submit(struct tn_store *base, struct tn_store_req *req)
{
    struct tn_rd_store *store = (struct tn_rd_store *)base;
    bool waits = req->op.kind == TN_OP_ACQUIRE && req->op.wait;

    if (store->node) /* Redlock has checked it, and asks here. */
        tn_req_init(req);
    if (base->closing) {
        tn_req_refuse(base, req, TENURE_E_CLOSED, "the store is closed");
        return;
    }
    struct tn_rd_call *call = new_call(store, TN_RD_STEP);
    if (call == NULL ||
        (tn_op_keeps_session(&req->op) && !tn_rd_keep_session(store, &req->op.session))) {
        free(call);
        tn_req_refuse(base, req, TENURE_E_NOMEM, "out of memory");
        return;
    }
    store->waits = store->waits || waits;
    call->req = req;
    send_call(call);
}

static void ask(struct tn_store *base, struct tn_store_query *query)
{
    enum tn_rd_job job = query->line              ? TN_RD_LINE
                         : query->listed != NULL  ? TN_RD_LIST
                         : query->clocked != NULL ? TN_RD_CLOCK
                                                  : TN_RD_FORGET;
    struct tn_rd_call *call = new_call((struct tn_rd_store *)base, job);

    if (call == NULL) {
        tn_query_refuse(base, query, TENURE_E_NOMEM, "out of memory");
        return;
    }
    call->query = query;
    send_call(call);
}

/* --- Its life ------------------------------------------------------------------------------- */

static void link_closed(void *arg)
{
    tn_store_end(arg);
}

static void shut(struct tn_store *base)
{
    tn_resp_link_close(&((struct tn_rd_store *)base)->conn.link, link_closed);
}

static void free_rest(struct tn_store *base)
{
    tn_tls_context_free(((struct tn_rd_store *)base)->conn.tls);
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
    if (rc < 0)
        return tn_store_discard(&store->base, rc, NULL, reterr);
    (void)uv_timer_init(how->loop, &store->timer);
    tn_store_add_handle(&store->base, &store->timer);
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

#define OPS(scheme_)                                                                               \
    {                                                                                              \
        .scheme = (scheme_),                                                                       \
        .caps = TN_STORE_QUEUES | TN_STORE_TELLS | TN_STORE_ADVISORY | TN_STORE_RAISES |           \
                TN_STORE_RESUMES,                                                                  \
        .slack = SLACK, .ttl_min = TN_TTL_MIN, .ttl_max = TN_TTL_MAX, .open = open_store,          \
        .submit = submit, .watch = tn_store_watch, .list = tn_store_list, .look = tn_store_look,   \
        .line = tn_store_line, .close = tn_store_close, .facts = tell_facts, .class_why = WHY,     \
        .read_clock = tn_store_read_clock, .forget = tn_store_forget,                              \
        .restored = "raise its counter: redis-cli SET {tenure}:token #", .watched = tn_rd_watched, \
        .ask = ask, .shut = shut, .free = free_rest                                                \
    }

const struct tn_store_ops tn_redis_store_ops = OPS("redis");
const struct tn_store_ops tn_rediss_store_ops = OPS("rediss");
const struct tn_store_ops tn_redis_unix_store_ops = OPS("redis+unix");
const struct tn_store_ops tn_redis_sentinel_store_ops = OPS("redis+sentinel");
const struct tn_store_ops tn_rediss_sentinel_store_ops = OPS("rediss+sentinel");
