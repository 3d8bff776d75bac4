/* cmd_lease.c - LEASE ACQUIRE, RELEASE, GET, LIST and their forms for many; REVOKE and TOKEN. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "daemon/server.h"

#define LIST_MAX 1000
#define WAIT_MAX_MS UINT64_C(86400000)
/* How long an agent's upstream may take to say who has a name. */
#define UPSTREAM_MS 5000
#define LOOK_MS 1000

#define ACQUIRE_USAGE "LEASE ACQUIRE SESSION TERM|* NAME [WAIT MS|QUEUE] [SOFT MS FENCES]"
#define LEASE_USAGE "LEASE ACQUIRE|RELEASE|GET|LIST|LINE|MACQUIRE|MRELEASE|MGET ..."
#define LIST_USAGE "LEASE LIST CURSOR [PREFIX TEXT] [COUNT N]"

static void take_name(const struct tn_call *call, uint32_t index, struct tn_op *op)
{
    op->name = call->words[index].bytes;
    op->name_len = call->words[index].len;
}

/* --- Acquire ---------------------------------------------------------------------------------- */

static void reply_granted(struct tn_call *call, uint64_t token, const char *term_text)
{
    struct tn_resp_out *out = tn_reply(call, 4 * TN_RESP_HEAD_MAX + 64);

    if (out == NULL)
        return;
    tn_resp_put_array(out, 3);
    tn_resp_put_text(out, "granted");
    tn_resp_put_u64(out, token);
    tn_resp_put_bulk(out, term_text, 32);
}

/* [held|queued, token, holder, remaining_ms] */
static void reply_held(struct tn_call *call, const char *word, uint32_t lease)
{
    struct tn_resp_out *out = tn_reply(call, 5 * TN_RESP_HEAD_MAX + 300);
    struct tn_lease_view view;

    if (out == NULL)
        return;
    tn_table_lease(call->server->state.table, lease, &view);
    if (view.session == NULL) /* An agent's: upstream may have told who has it. */
        (void)tn_agent_record(call->server, view.name, view.name_len, &view);
    if (view.session == NULL)
        view.token = 0;
    tn_resp_put_array(out, 4);
    tn_resp_put_text(out, word);
    tn_resp_put_u64(out, view.token);
    tn_resp_put_bulk(out, view.label_len > 0 ? view.label : "", view.label_len);
    tn_resp_put_int(out, view.remaining / TN_MS(1));
}

/* At an agent: upstream says whether the name is free, so even who does not wait, waits for that.
 */
static void wait_for_upstream(struct tn_call *call, const struct tn_op *op, const char *term_text)
{
    struct tn_op give_up = *op;
    struct tn_lease_view view;
    struct tn_result result;

    if (!tn_agent_record(call->server, op->name, op->name_len, &view) || view.session == NULL) {
        if (!tn_wait_begin(call, TN_WAIT_ONCE, op, term_text, UPSTREAM_MS))
            tn_reply_error(call, "UNAVAILABLE no memory; ask again");
        return;
    }
    reply_held(call, "held", tn_table_lease_of(call->server->state.table, op->name, op->name_len));
    give_up.kind = TN_OP_RELEASE;
    give_up.token = 0;
    tn_server_step(call->server, &give_up, &result);
}

struct acquire {
    struct tn_op op;
    char term_text[32];
    bool block;
    uint64_t wait_ms;
};

static void acquire_one(struct tn_call *call, struct acquire *how, uint32_t index)
{
    struct tn_result result;

    if (!tn_word_name(call, index, "NAME") || !tn_may_word(call, TN_ACQUIRE, index))
        return;
    take_name(call, index, &how->op);
    tn_owner_name(call, TN_LIMIT_LEASES, &how->op);
    tn_server_step(call->server, &how->op, &result);
    switch (result.answer) {
    case TN_ANSWER_GRANTED:
        call->server->count.grants++;
        reply_granted(call, result.token, how->term_text);
        break;
    case TN_ANSWER_HELD:
        reply_held(call, "held", result.lease);
        break;
    case TN_ANSWER_QUEUED:
        if (!how->op.wait)
            wait_for_upstream(call, &how->op, how->term_text);
        else if (!how->block)
            reply_held(call, "queued", result.lease);
        else if (!tn_wait_begin(call, TN_WAIT_TURN, &how->op, how->term_text, how->wait_ms))
            tn_reply_error(call, "UNAVAILABLE no memory; ask again");
        break;
    case TN_ANSWER_OK:
    case TN_ANSWER_FREE:
    case TN_ANSWER_RELEASED:
    case TN_ANSWER_STALE:
    case TN_ANSWER_DENIED:
    case TN_ANSWER_GONE:
    case TN_ANSWER_FULL:
        tn_owner_refuse(call, &how->op, &result);
    }
}

/* SOFT MS FENCES at @index; F1 needs the table that decides. */
static bool read_soft(struct tn_call *call, uint32_t index, struct tn_soft *ret_soft)
{
    const struct tn_resp_word *digest = &call->words[index + 2];
    uint64_t ms;

    if (!tn_word_u64(call, index + 1, "SOFT", &ms))
        return false;
    if (ms == 0 || ms > WAIT_MAX_MS || digest->len != TN_SECRET_DIGITS ||
        !tn_secret_parse(&ret_soft->fences, digest->bytes)) {
        tn_reply_error(call, "ERR SOFT takes 1 to %" PRIu64 " ms and a digest of 32 hex digits",
                       WAIT_MAX_MS);
        return false;
    }
    if (call->server->agent != NULL) {
        tn_reply_error(call, "ERR an agent knows no soft limit; campaign at its upstream");
        return false;
    }
    ret_soft->limit = TN_MS((int64_t)ms);
    return true;
}

static bool read_acquire(struct tn_call *call, struct acquire *ret)
{
    uint32_t at = 5;

    if (at < call->count && tn_resp_is(&call->words[at], "QUEUE")) {
        ret->op.wait = true;
        at++;
    } else if (at + 1 < call->count && tn_resp_is(&call->words[at], "WAIT")) {
        ret->op.wait = ret->block = true;
        if (!tn_word_u64(call, at + 1, "WAIT", &ret->wait_ms))
            return false;
        if (ret->wait_ms > WAIT_MAX_MS) {
            tn_reply_error(call, "ERR WAIT at most %" PRIu64 " ms; 0 is for ever", WAIT_MAX_MS);
            return false;
        }
        at += 2;
    }
    if (at + 2 < call->count && tn_resp_is(&call->words[at], "SOFT")) {
        if (!read_soft(call, at, &ret->op.soft))
            return false;
        at += 3;
    }
    if (at != call->count)
        tn_reply_error(call, "ERR usage: " ACQUIRE_USAGE);
    return at == call->count;
}

static void do_acquire(struct tn_call *call)
{
    struct acquire how = { .op = { .kind = TN_OP_ACQUIRE } };

    if (!tn_word_count(call, 5, 10, ACQUIRE_USAGE) || !read_acquire(call, &how))
        return;
    /* Names are many, so the memory of this one is far away: it is sent for before it is needed. */
    const struct tn_table *table = call->server->state.table;
    uint32_t bucket = tn_table_expect(table, call->words[4].bytes, call->words[4].len);
    if (!tn_word_secret(call, 2, 's', &how.op.session, NULL) ||
        !tn_word_secret(call, 3, 't', &how.op.term, how.term_text) || !tn_may_write(call))
        return;
    tn_table_expect_at(table, bucket);
    acquire_one(call, &how, 4);
}

static void do_acquire_many(struct tn_call *call)
{
    struct acquire how = { .op = { .kind = TN_OP_ACQUIRE } };
    struct tn_resp_out *out;

    if (!tn_word_count(call, 5, TN_WORDS_MAX, "LEASE MACQUIRE SESSION TERM|* NAME ...") ||
        !tn_word_secret(call, 2, 's', &how.op.session, NULL) ||
        !tn_word_secret(call, 3, 't', &how.op.term, how.term_text) || !tn_may_write(call))
        return;
    out = tn_reply(call, TN_RESP_HEAD_MAX);
    if (out != NULL)
        tn_resp_put_array(out, call->count - 4);
    for (uint32_t i = 4; i < call->count; i++)
        acquire_one(call, &how, i);
}

/* --- Release ---------------------------------------------------------------------------------- */

static void release_one(struct tn_call *call, struct tn_op *op, uint32_t index)
{
    struct tn_result result;
    struct tn_resp_out *out;

    if (!tn_word_name(call, index, "NAME") || !tn_may_word(call, TN_ACQUIRE, index) ||
        !tn_word_u64(call, index + 1, "TOKEN", &op->token))
        return;
    take_name(call, index, op);
    tn_server_step(call->server, op, &result);
    if (result.answer != TN_ANSWER_RELEASED) {
        tn_reply_answer(call, result.answer);
        return;
    }
    out = tn_reply(call, TN_RESP_HEAD_MAX);
    if (out != NULL)
        tn_resp_put_simple(out, "RELEASED");
}

static void do_release(struct tn_call *call, bool many)
{
    struct tn_op op = { .kind = TN_OP_RELEASE };
    uint32_t most = many ? TN_WORDS_MAX : 6;
    struct tn_resp_out *out;

    if (call->count % 2 != 0)
        call->count = 0; /* Names and tokens come in pairs. */
    if (!tn_word_count(call, 6, most, "LEASE [M]RELEASE SESSION TERM NAME TOKEN ...") ||
        !tn_word_secret(call, 2, 's', &op.session, NULL) ||
        !tn_word_secret(call, 3, 't', &op.term, NULL) || !tn_may_write(call))
        return;
    if (many) {
        out = tn_reply(call, TN_RESP_HEAD_MAX);
        if (out != NULL)
            tn_resp_put_array(out, (call->count - 4) / 2);
    }
    for (uint32_t i = 4; i < call->count; i += 2)
        release_one(call, &op, i);
}

/* --- Reading ---------------------------------------------------------------------------------- */

static void put_fields(struct tn_resp_out *out, const struct tn_lease_view *view,
                       const struct tn_resp_word *name, uint32_t more)
{
    char term[32];

    tn_resp_put_map(out, (view->session != NULL ? 8 : 3) + more);
    tn_resp_put_text(out, "name");
    tn_resp_put_bulk(out, name->bytes, name->len);
    tn_resp_put_text(out, "state");
    if (view->session == NULL)
        tn_resp_put_text(out, "free");
    else
        tn_resp_put_text(out, view->revoked ? "revoked" : "held");
    tn_resp_put_text(out, "token");
    tn_resp_put_u64(out, view->token);
    if (view->session == NULL)
        return;
    tn_resp_put_text(out, "holder");
    tn_resp_put_bulk(out, view->label, view->label_len);
    tn_resp_put_text(out, "ttl_ms");
    tn_resp_put_int(out, view->ttl / TN_MS(1));
    tn_resp_put_text(out, "remaining_ms");
    tn_resp_put_int(out, view->remaining / TN_MS(1));
    tn_resp_put_text(out, "beat");
    tn_resp_put_u64(out, view->beat);
    tn_resp_put_text(out, "term");
    tn_secret_text(view->term, term);
    tn_resp_put_bulk(out, term, sizeof term);
}

void tn_put_lease(struct tn_resp_out *out, const struct tn_lease_view *view,
                  const struct tn_resp_word *name)
{
    put_fields(out, view, name, 0);
}

/* Counting those who wait walks the line, so LEASE GET, which candidates ask, does not. */
void tn_put_lease_shown(const struct tn_server *server, struct tn_resp_out *out, uint32_t lease,
                        const struct tn_resp_word *name)
{
    struct tn_lease_view view = { 0 };
    const struct tn_term *term = NULL;
    enum tn_term_end why;
    uint32_t place = 0, session, waiting = 0;

    if (lease != 0)
        tn_table_lease(server->state.table, lease, &view);
    while (lease != 0 &&
           (place = tn_table_next_waiter(server->state.table, lease, place, &session)) != 0)
        waiting++;
    if (view.session != NULL)
        term = tn_history_current(&server->past.history, name->bytes, name->len, &why);
    bool since = term != NULL && term->token == view.token;
    put_fields(out, &view, name, since ? 2 : 1);
    if (since) {
        tn_resp_put_text(out, "since_ms");
        tn_resp_put_int(out, term->from);
    }
    tn_resp_put_text(out, "waiting");
    tn_resp_put_int(out, waiting);
}

static void do_get(struct tn_call *call)
{
    static const char no_term[32];
    struct tn_op op = { .kind = TN_OP_READ };
    struct tn_lease_view view = { 0 };
    struct tn_result result;
    struct tn_resp_out *out;

    if (!tn_word_count(call, 3, 3, "LEASE GET NAME") || !tn_word_name(call, 2, "NAME") ||
        !tn_may_word(call, TN_OBSERVE, 2))
        return;
    take_name(call, 2, &op);
    tn_server_step(call->server, &op, &result);
    if (result.lease != 0)
        tn_table_lease(call->server->state.table, result.lease, &view);
    if (view.session == NULL && !tn_agent_may_look(call, op.name, op.name_len))
        return;
    if (call->server->agent != NULL && view.session == NULL &&
        !tn_agent_record(call->server, op.name, op.name_len, &view)) {
        if (!tn_wait_begin(call, TN_WAIT_LOOK, &op, no_term, LOOK_MS))
            tn_reply_error(call, "UNAVAILABLE no memory; ask again");
        return;
    }
    out = tn_reply(call, 2048);
    if (out != NULL)
        tn_put_lease(out, &view, &call->words[2]);
}

struct lease_page {
    uint64_t cursor, count;
    const struct tn_resp_word *prefix;
};

static bool read_listing(struct tn_call *call, struct lease_page *ret)
{
    if (!tn_word_count(call, 3, 7, LIST_USAGE) || !tn_word_u64(call, 2, "CURSOR", &ret->cursor))
        return false;
    for (uint32_t i = 3; i < call->count; i += 2) {
        if (i + 1 < call->count && tn_resp_is(&call->words[i], "PREFIX")) {
            ret->prefix = &call->words[i + 1];
        } else if (i + 1 < call->count && tn_resp_is(&call->words[i], "COUNT")) {
            if (!tn_word_u64(call, i + 1, "COUNT", &ret->count))
                return false;
        } else {
            tn_reply_error(call, "ERR usage: " LIST_USAGE);
            return false;
        }
    }
    if (ret->count < 1 || ret->count > LIST_MAX || ret->cursor >= UINT32_MAX) {
        tn_reply_error(call, "ERR COUNT from 1 to %d, and a CURSOR that a reply gave", LIST_MAX);
        return false;
    }
    return true;
}

/* Looks at @count records from the cursor on and gives those with the prefix, as SCAN does: a page
 * may be empty although more follow; cursor 0 is the end. */
static void do_list(struct tn_call *call)
{
    struct lease_page list = { .count = 100 };
    const struct tn_table *table = call->server->state.table;
    uint32_t found[LIST_MAX];
    uint32_t count = 0;
    struct tn_resp_out *out;

    if (!read_listing(call, &list) || !tn_may(call, TN_OBSERVE, NULL, 0))
        return;
    uint32_t lease = (uint32_t)list.cursor;
    for (uint64_t i = 0; i < list.count; i++) {
        struct tn_lease_view view;
        lease = tn_table_next(table, lease);
        if (lease == 0)
            break;
        tn_table_lease(table, lease, &view);
        if (!tn_may_quietly(call, TN_OBSERVE, view.name, view.name_len))
            continue;
        if (list.prefix == NULL || (view.name_len >= list.prefix->len &&
                                    memcmp(view.name, list.prefix->bytes, list.prefix->len) == 0))
            found[count++] = lease;
    }
    out = tn_reply(call, 4 * TN_RESP_HEAD_MAX + (size_t)count * 900);
    if (out == NULL)
        return;
    tn_resp_put_array(out, 2);
    tn_resp_put_u64(out, lease);
    tn_resp_put_array(out, count);
    for (uint32_t i = 0; i < count; i++) {
        struct tn_lease_view view;
        tn_table_lease(table, found[i], &view);
        tn_put_lease_shown(call->server, out, found[i],
                           &(struct tn_resp_word) { view.name, view.name_len });
    }
}

void tn_cmd_lease(struct tn_call *call)
{
    const struct tn_resp_word *verb = &call->words[1];

    if (!tn_word_count(call, 2, TN_WORDS_MAX, LEASE_USAGE))
        return;
    if (tn_resp_is(verb, "ACQUIRE"))
        do_acquire(call);
    else if (tn_resp_is(verb, "RELEASE"))
        do_release(call, false);
    else if (tn_resp_is(verb, "GET"))
        do_get(call);
    else if (tn_resp_is(verb, "LIST"))
        do_list(call);
    else if (tn_resp_is(verb, "MACQUIRE"))
        do_acquire_many(call);
    else if (tn_resp_is(verb, "MRELEASE"))
        do_release(call, true);
    else if (tn_resp_is(verb, "MGET"))
        tn_show_leases(call);
    else if (tn_resp_is(verb, "LINE"))
        tn_show_line(call);
    else
        tn_reply_error(call, "ERR usage: " LEASE_USAGE);
}

/* --- The operator's --------------------------------------------------------------------------- */

static void reply_ok(struct tn_call *call)
{
    struct tn_resp_out *out = tn_reply(call, TN_RESP_HEAD_MAX);
    if (out != NULL)
        tn_resp_put_simple(out, "OK");
}

void tn_cmd_revoke(struct tn_call *call)
{
    struct tn_op op = { .kind = TN_OP_REVOKE };
    struct tn_result result;

    if (!tn_word_count(call, 2, 3, "REVOKE NAME [TOKEN]") || !tn_word_name(call, 1, "NAME") ||
        !tn_may_word(call, TN_ADMIN, 1) ||
        (call->count == 3 && !tn_word_token(call, 2, &op.token)) || !tn_may_write(call))
        return;
    take_name(call, 1, &op);
    tn_server_step(call->server, &op, &result);
    if (result.answer == TN_ANSWER_OK)
        reply_ok(call);
    else
        tn_reply_error(call, "STALE not held, or not under that token");
}

void tn_cmd_token(struct tn_call *call)
{
    struct tn_op op = { .kind = TN_OP_RAISE };
    struct tn_result result;
    struct tn_resp_out *out;

    if (!tn_word_count(call, 1, 3, "TOKEN [RAISE N]") ||
        !tn_may(call, call->count > 1 ? TN_ADMIN : TN_OBSERVE, call->count > 1 ? "*" : NULL, 1))
        return;
    if (call->count == 3 && tn_resp_is(&call->words[1], "RAISE")) {
        if (!tn_word_u64(call, 2, "N", &op.token) || !tn_may_write(call))
            return;
        if (op.token > tn_table_token(call->server->state.table))
            tn_server_step(call->server, &op, &result);
    } else if (call->count != 1) {
        tn_reply_error(call, "ERR usage: TOKEN [RAISE N]");
        return;
    }
    out = tn_reply(call, TN_RESP_HEAD_MAX);
    if (out != NULL)
        tn_resp_put_u64(out, tn_table_token(call->server->state.table));
}
