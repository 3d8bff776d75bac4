/* cmd_note.c - HANDOVER: leave an operator's note (core/note.h), for clients that only ask.
 *
 * The note is a lease like any other: it is journaled, watchers of its name are told, and it ends
 * with its TTL. The daemon keeps no secret of it and does not follow it. The caller watches NAME,
 * and may say it again: a note of an earlier term is replaced, one of the present term stays. */
#include <inttypes.h>
#include <string.h>

#include "base/time.h"
#include "core/note.h"
#include "daemon/server.h"
#include "runtime/random.h"
#include "runtime/store.h"

#define USAGE "HANDOVER NAME [TOKEN N] [TO ID] [FOR MS]"
#define FOR_DEFAULT_MS 30000
#define FOR_MIN_MS 1000
#define FOR_MAX_MS 86400000

struct handover {
    uint64_t token, for_ms;
    const struct tn_resp_word *to;
    char name[TN_NAME_MAX + 1], label[TN_LABEL_MAX + 1];
};

static bool read_words(struct tn_call *call, struct handover *ret)
{
    for (uint32_t i = 2; i < call->count; i += 2) {
        const struct tn_resp_word *key = &call->words[i];
        bool more = i + 1 < call->count;
        if (more && tn_resp_is(key, "TOKEN")) {
            if (!tn_word_token(call, i + 1, &ret->token))
                return false;
        } else if (more && tn_resp_is(key, "FOR")) {
            if (!tn_word_u64(call, i + 1, "FOR", &ret->for_ms))
                return false;
        } else if (more && tn_resp_is(key, "TO") && call->words[i + 1].len > 0) {
            ret->to = &call->words[i + 1];
        } else {
            tn_reply_error(call, "ERR usage: " USAGE);
            return false;
        }
    }
    if (ret->for_ms >= FOR_MIN_MS && ret->for_ms <= FOR_MAX_MS)
        return true;
    tn_reply_error(call, "ERR FOR from %d to %d", FOR_MIN_MS, FOR_MAX_MS);
    return false;
}

/* The name and the label of the note. */
static bool write_note(struct tn_call *call, struct handover *handover)
{
    struct tn_text name, label;

    tn_text_init(&name, handover->name, sizeof handover->name);
    tn_text_add(&name, TN_NOTE_ASK);
    tn_text_add_bytes(&name, call->words[1].bytes, call->words[1].len);
    tn_text_init(&label, handover->label, sizeof handover->label);
    tn_text_addf(&label, "handover token=%" PRIu64, handover->token);
    if (handover->to != NULL) {
        tn_text_add(&label, " to=");
        tn_text_add_bytes(&label, handover->to->bytes, handover->to->len);
    }
    if (!tn_text_truncated(&name) && !tn_text_truncated(&label))
        return true;
    tn_reply_error(call, "ERR NAME or ID is too long for a hand-over");
    return false;
}

/* Whether the session has one lease, so that its end takes nothing else away. */
static bool holds_one(const struct tn_table *table, const struct tn_secret *secret)
{
    uint32_t session = tn_table_session_of(table, secret);
    uint32_t first = session != 0 ? tn_table_next_held(table, session, 0) : 0;

    return first != 0 && tn_table_next_held(table, session, first) == 0;
}

/* One that names a term which is over is of no use to anybody. */
static void end_old_note(struct tn_call *call, const struct handover *handover)
{
    const struct tn_table *table = call->server->state.table;
    struct tn_op read = { .kind = TN_OP_READ,
                          .name = handover->name,
                          .name_len = (uint32_t)strlen(handover->name) };
    struct tn_lease_view view;
    struct tn_result result;

    tn_server_step(call->server, &read, &result);
    if (result.lease == 0)
        return;
    tn_table_lease(table, result.lease, &view);
    if (view.session == NULL)
        return;
    struct tn_note note = tn_note_parse(view.label, view.label_len, "", 0);
    if (note.kind != TN_NOTE_HANDOVER || note.token >= handover->token ||
        !holds_one(table, view.session))
        return;
    struct tn_op close = { .kind = TN_OP_CLOSE, .session = *view.session };
    tn_server_step(call->server, &close, &result);
}

static void leave_note(struct tn_call *call, const struct handover *handover)
{
    struct tn_op op = { .kind = TN_OP_OPEN,
                        .seq = 1,
                        .ttl = TN_MS(handover->for_ms),
                        .label = handover->label,
                        .label_len = (uint32_t)strlen(handover->label) };
    struct tn_result result;
    struct tn_resp_out *out;

    if (tn_random_secret(&op.session) != 0 || tn_random_secret(&op.term) != 0) {
        tn_reply_error(call, "UNAVAILABLE no random numbers");
        return;
    }
    tn_owner_name(call, TN_LIMIT_SESSIONS, &op);
    tn_server_step(call->server, &op, &result);
    if (result.answer == TN_ANSWER_OK) {
        op.kind = TN_OP_ACQUIRE;
        op.name = handover->name;
        op.name_len = (uint32_t)strlen(handover->name);
        tn_owner_name(call, TN_LIMIT_LEASES, &op);
        tn_server_step(call->server, &op, &result);
    }
    if (result.answer == TN_ANSWER_GRANTED) {
        out = tn_reply(call, TN_RESP_HEAD_MAX);
        if (out != NULL)
            tn_resp_put_u64(out, handover->token);
        return;
    }
    struct tn_op close = { .kind = TN_OP_CLOSE, .session = op.session };
    struct tn_result closed;
    tn_server_step(call->server, &close, &closed);
    if (result.answer == TN_ANSWER_HELD)
        tn_reply_error(call, "BUSY another operator's wish about this name is in force");
    else
        tn_owner_refuse(call, &op, &result);
}

void tn_cmd_handover(struct tn_call *call)
{
    struct handover handover = { .for_ms = FOR_DEFAULT_MS };
    struct tn_op read = { .kind = TN_OP_READ };
    struct tn_lease_view view = { 0 };
    struct tn_result result;

    if (!tn_word_count(call, 2, 8, USAGE) || !tn_word_name(call, 1, "NAME") ||
        !tn_may_word(call, TN_ADMIN, 1) || !read_words(call, &handover) || !tn_may_write(call))
        return;
    read.name = call->words[1].bytes;
    read.name_len = call->words[1].len;
    tn_server_step(call->server, &read, &result);
    if (result.lease != 0)
        tn_table_lease(call->server->state.table, result.lease, &view);
    if (view.session == NULL || (handover.token != 0 && handover.token != view.token)) {
        tn_reply_error(call, "STALE not held, or not under that token");
        return;
    }
    handover.token = view.token;
    if (!write_note(call, &handover))
        return;
    end_old_note(call, &handover);
    leave_note(call, &handover);
}
