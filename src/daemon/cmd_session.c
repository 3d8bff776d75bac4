/* cmd_session.c - SESSION OPEN, ATTACH, RENEW, MRENEW, BIND and CLOSE. */
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "daemon/server.h"

#define TTL_MIN_MS 1000
#define TTL_MAX_MS (24 * 60 * 60 * 1000)

#define OPEN_USAGE "SESSION OPEN SECRET|* TTL-MS [LABEL TEXT] [SEQ N] [SAW TOKEN] [BIND]"
#define ATTACH_USAGE "SESSION ATTACH SECRET [SAW TOKEN] [BIND]"
#define RENEW_USAGE "SESSION RENEW SECRET [SEQ N] [SEEN N]"
#define USAGE "SESSION RENEW|OPEN|ATTACH|CLOSE|BIND|LIST|MRENEW ..."

/* Options of OPEN and RENEW, from word @from on. */
struct options {
    const struct tn_resp_word *label;
    uint64_t seq, seen, saw;
    bool bind;
};

static bool read_options(struct tn_call *call, uint32_t from, bool open, struct options *ret)
{
    *ret = (struct options) { 0 };
    for (uint32_t i = from; i < call->count; i++) {
        const struct tn_resp_word *word = &call->words[i];
        bool value = i + 1 < call->count;
        if (open && tn_resp_is(word, "BIND")) {
            ret->bind = true;
        } else if (open && value && tn_resp_is(word, "LABEL")) {
            ret->label = &call->words[++i];
        } else if (value && tn_resp_is(word, "SEQ")) {
            if (!tn_word_u64(call, ++i, "SEQ", &ret->seq))
                return false;
        } else if (!open && value && tn_resp_is(word, "SEEN")) {
            if (!tn_word_u64(call, ++i, "SEEN", &ret->seen))
                return false;
        } else if (open && value && tn_resp_is(word, "SAW")) {
            if (!tn_word_u64(call, ++i, "SAW", &ret->saw))
                return false;
        } else {
            tn_reply_error(call, "ERR usage: %s", open ? OPEN_USAGE : RENEW_USAGE);
            return false;
        }
    }
    if (ret->label != NULL && ret->label->len > TN_NAME_MAX) {
        tn_reply_error(call, "ERR the label is longer than %d bytes", TN_NAME_MAX);
        return false;
    }
    return true;
}

/* The attempt's number: the client's, or the order of arrival. */
static uint64_t seq_of(struct tn_server *server, uint64_t given)
{
    return given != 0 ? given : ++server->seq;
}

/* A candidate that has seen a higher token than was ever granted here knows that this daemon's
 * data is older than what was promised. It must not lead, and somebody should look. */
static bool is_older(struct tn_call *call, uint64_t saw)
{
    uint64_t token = tn_table_token(call->server->state.table);

    if (saw <= token || call->server->agent != NULL) /* An agent's data is its upstream's. */
        return false;
    if (tn_log_due(call->server, TN_SAID_OLDER))
        tn_log("a client has seen token %llu, the highest here is %llu: is this an older copy of "
               "the data? TOKEN RAISE goes on from there",
               (unsigned long long)saw, (unsigned long long)token);
    tn_reply_error(call, "OLDER the highest token here is %llu: an older copy of the data?",
                   (unsigned long long)token);
    return true;
}

static void reply_opened(struct tn_call *call, const char *text, const struct tn_result *result)
{
    struct tn_resp_out *out = tn_reply(call, 512);

    if (out == NULL)
        return;
    tn_resp_put_map(out, 5);
    tn_resp_put_text(out, "session");
    tn_resp_put_bulk(out, text, 32);
    tn_resp_put_text(out, "ttl_ms");
    tn_resp_put_int(out, result->ttl / TN_MS(1));
    tn_resp_put_text(out, "held");
    tn_resp_put_int(out, result->held);
    tn_resp_put_text(out, "seen");
    tn_resp_put_u64(out, result->seen);
    tn_resp_put_text(out, "token");
    tn_resp_put_u64(out, tn_table_token(call->server->state.table));
}

/* The end of a session ends its leases. Its secret alone does not give the right to that: those of
 * notes and of a move's blocks follow from what everybody may read. */
static bool may_end(struct tn_call *call, const struct tn_secret *session)
{
    const struct tn_table *table = call->server->state.table;
    uint32_t index = tn_table_session_of(table, session);
    struct tn_lease_view view;

    for (uint32_t i = 0; index != 0 && (i = tn_table_next_held(table, index, i)) != 0;) {
        tn_table_lease(table, i, &view);
        if (!view.revoked && !tn_may(call, TN_ACQUIRE, view.name, view.name_len))
            return false;
    }
    return true;
}

/* The session ends with the last process that is bound to it. */
static bool bind_peer(struct tn_call *call, const struct tn_secret *session)
{
    if (!may_end(call, session))
        return false;
    int rc = tn_link_bind(call->server, call->conn, session);

    if (rc == 0)
        return true;
    tn_reply_error(call, rc == TENURE_E_UNSUPPORTED
                             ? "ERR BIND works on a Unix socket only: the peer's process is unknown"
                             : "UNAVAILABLE the peer's process cannot be watched");
    return false;
}

static void do_open(struct tn_call *call)
{
    struct tn_op op = { .kind = TN_OP_OPEN };
    struct tn_result result;
    struct options options;
    char text[32];
    uint64_t ttl_ms;

    if (!tn_word_count(call, 4, 14, OPEN_USAGE) || !tn_word_u64(call, 3, "TTL-MS", &ttl_ms) ||
        !read_options(call, 4, true, &options) || !tn_word_secret(call, 2, 's', &op.session, text))
        return;
    if (ttl_ms < TTL_MIN_MS || ttl_ms > TTL_MAX_MS) {
        tn_reply_error(call, "ERR TTL-MS from %d to %d", TTL_MIN_MS, TTL_MAX_MS);
        return;
    }
    if (is_older(call, options.saw) || !tn_may_write(call))
        return;
    op.ttl = TN_MS(ttl_ms);
    op.seq = seq_of(call->server, options.seq);
    if (options.label != NULL) {
        op.label = options.label->bytes;
        op.label_len = options.label->len;
    }
    tn_owner_name(call, TN_LIMIT_SESSIONS, &op);
    struct tn_agent_bounds bounds;
    tn_agent_listen(call->server, &op, &bounds);
    tn_server_step(call->server, &op, &result);
    if (result.answer != TN_ANSWER_OK) {
        tn_owner_refuse(call, &op, &result);
        return;
    }
    if (!tn_agent_promise(call, &op, &bounds, &result.ttl))
        return;
    if (call->conn->out.resp3)
        (void)tn_link_attach(call->server, call->conn, &op.session);
    if (!options.bind || bind_peer(call, &op.session))
        reply_opened(call, text, &result);
}

/* [ttl_ms, held, seen, more, [name, token, ...] of leases that were revoked] */
static void reply_renewed(struct tn_call *call, const struct tn_result *result)
{
    struct tn_resp_out *out = tn_reply(call, 6 * TN_RESP_HEAD_MAX + TN_TABLE_NOTICES * 320);
    uint32_t revoked = 0;

    if (out == NULL)
        return;
    for (uint32_t i = 0; i < result->count; i++)
        revoked += result->list[i].kind == TN_NOTICE_REVOKED;
    tn_resp_put_array(out, 5);
    tn_resp_put_int(out, result->ttl / TN_MS(1));
    tn_resp_put_int(out, result->held);
    tn_resp_put_u64(out, result->seen);
    tn_resp_put_int(out, result->more);
    tn_resp_put_array(out, 2 * revoked);
    for (uint32_t i = 0; i < result->count; i++) {
        struct tn_lease_view view;
        if (result->list[i].kind != TN_NOTICE_REVOKED)
            continue;
        tn_table_lease(call->server->state.table, result->list[i].lease, &view);
        tn_resp_put_bulk(out, view.name, view.name_len);
        tn_resp_put_u64(out, result->list[i].token);
    }
}

static void renew_one(struct tn_call *call, uint32_t index, uint64_t seq, uint64_t seen)
{
    struct tn_op op = { .kind = TN_OP_RENEW, .seen = seen };
    struct tn_result result;

    if (!tn_word_secret(call, index, 's', &op.session, NULL))
        return;
    op.seq = seq_of(call->server, seq);
    tn_owner_name(call, TN_LIMIT_LEASES, &op);
    struct tn_agent_bounds bounds;
    tn_agent_listen(call->server, &op, &bounds);
    tn_server_step(call->server, &op, &result);
    call->server->count.renewals++;
    if (call->conn->renewed++ == 0)
        call->conn->renewed_at = call->server->now;
    if (result.answer == TN_ANSWER_OK && !tn_pending_take_back(call->server, &op, &result))
        call->renews = false;
    if (result.answer == TN_ANSWER_OK && !tn_agent_promise(call, &op, &bounds, &result.ttl))
        return;
    if (result.answer == TN_ANSWER_OK)
        reply_renewed(call, &result);
    else
        tn_reply_answer(call, result.answer);
}

static void do_renew(struct tn_call *call)
{
    struct options options;

    if (tn_word_count(call, 3, 7, RENEW_USAGE) && read_options(call, 3, false, &options))
        renew_one(call, 2, options.seq, options.seen);
}

/* As many replies of RENEW in an array; an error may be among them. */
static void do_renew_many(struct tn_call *call)
{
    struct tn_resp_out *out;

    if (!tn_word_count(call, 3, TN_WORDS_MAX, "SESSION MRENEW SECRET ..."))
        return;
    out = tn_reply(call, TN_RESP_HEAD_MAX);
    if (out != NULL)
        tn_resp_put_array(out, call->count - 2);
    for (uint32_t i = 2; i < call->count; i++)
        renew_one(call, i, 0, 0);
}

static void reply_ok(struct tn_call *call)
{
    struct tn_resp_out *out = tn_reply(call, TN_RESP_HEAD_MAX);
    if (out != NULL)
        tn_resp_put_simple(out, "OK");
}

static void do_close(struct tn_call *call)
{
    struct tn_op op = { .kind = TN_OP_CLOSE };
    struct tn_result result;

    if (!tn_word_count(call, 3, 3, "SESSION CLOSE SECRET") ||
        !tn_word_secret(call, 2, 's', &op.session, NULL) || !may_end(call, &op.session) ||
        !tn_may_write(call))
        return;
    tn_server_step(call->server, &op, &result);
    if (result.answer == TN_ANSWER_OK)
        reply_ok(call);
    else
        tn_reply_answer(call, result.answer);
}

/* Whether the session of word 2 is there; a renewal that is too old to extend anything shows. */
static bool is_there(struct tn_call *call, struct tn_secret *ret_session)
{
    struct tn_op op = { .kind = TN_OP_RENEW, .seq = 1 };
    struct tn_result result;

    if (!tn_word_secret(call, 2, 's', &op.session, NULL))
        return false;
    tn_server_step(call->server, &op, &result);
    if (result.answer == TN_ANSWER_GONE)
        tn_reply_answer(call, result.answer);
    *ret_session = op.session;
    return result.answer != TN_ANSWER_GONE;
}

/* One more process can act for the session. */
static void do_bind(struct tn_call *call)
{
    struct tn_secret session;

    if (tn_word_count(call, 3, 3, "SESSION BIND SECRET") && is_there(call, &session) &&
        bind_peer(call, &session))
        reply_ok(call);
}

/* A client is back on another connection; it neither opens the session nor extends it. */
static void do_attach(struct tn_call *call)
{
    struct tn_secret session;
    struct options options = { 0 };

    if (!tn_word_count(call, 3, 6, ATTACH_USAGE))
        return;
    for (uint32_t i = 3; i < call->count; i++) {
        if (tn_resp_is(&call->words[i], "BIND")) {
            options.bind = true;
        } else if (tn_resp_is(&call->words[i], "SAW") && i + 1 < call->count) {
            if (!tn_word_u64(call, ++i, "SAW", &options.saw))
                return;
        } else {
            tn_reply_error(call, "ERR usage: " ATTACH_USAGE);
            return;
        }
    }
    if (is_older(call, options.saw) || !is_there(call, &session))
        return;
    if (call->conn->out.resp3)
        (void)tn_link_attach(call->server, call->conn, &session);
    if (!options.bind || bind_peer(call, &session))
        reply_ok(call);
}

void tn_cmd_session(struct tn_call *call)
{
    const struct tn_resp_word *verb = &call->words[1];

    if (!tn_word_count(call, 2, TN_WORDS_MAX, USAGE))
        return;
    if (tn_resp_is(verb, "LIST")) {
        tn_show_sessions(call);
        return;
    }
    if (!tn_may(call, TN_ACQUIRE, NULL, 0))
        return;
    call->renews = tn_resp_is(verb, "RENEW") || tn_resp_is(verb, "MRENEW");
    if (tn_resp_is(verb, "RENEW"))
        do_renew(call);
    else if (tn_resp_is(verb, "OPEN"))
        do_open(call);
    else if (tn_resp_is(verb, "CLOSE"))
        do_close(call);
    else if (tn_resp_is(verb, "MRENEW"))
        do_renew_many(call);
    else if (tn_resp_is(verb, "ATTACH"))
        do_attach(call);
    else if (tn_resp_is(verb, "BIND"))
        do_bind(call);
    else
        tn_reply_error(call, "ERR usage: " USAGE);
}
