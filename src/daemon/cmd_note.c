/* cmd_note.c - HANDOVER, STAND-DOWN, RESUME, DRAIN, UNDRAIN: operators' notes (core/note.h), for
 * clients that only ask.
 *
 * A note is a lease like any other: it is journaled, watchers of its name are told, and it ends
 * with its TTL. The daemon does not follow it. The caller watches what the note is about, and may
 * say it again: a hand-over of an earlier term is replaced, and a note that lasts is prolonged.
 * The notes are those of the command `tenure`, so either side can end what the other has left. */
#include <inttypes.h>
#include <string.h>

#include "base/sha256.h"
#include "base/time.h"
#include "daemon/server.h"
#include "runtime/note_name.h"
#include "runtime/random.h"
#include "runtime/store.h"

#define USAGE_HANDOVER "HANDOVER NAME [TOKEN N] [TO ID] [FOR MS]"
#define USAGE_STAND_DOWN "STAND-DOWN NAME [FOR MS]"
#define USAGE_RESUME "RESUME NAME"
#define USAGE_DRAIN "DRAIN ID ID|HOST HOST [FOR MS]"
#define USAGE_UNDRAIN "UNDRAIN ID ID|HOST HOST"
#define FOR_HANDOVER_MS 30000
#define FOR_LASTING_MS 86400000
#define FOR_MIN_MS 1000
#define FOR_MAX_MS 86400000

struct note_wish {
    const char *usage;
    uint64_t token;
    uint64_t for_ms; /* 0: as long as the wish in force, or the default. */
    bool timed;      /* It takes FOR. */
    const struct tn_resp_word *to;
    bool lasting;                                      /* Anybody with the right may end it. */
    char name[TN_NAME_MAX + 1];                        /* The note's own. */
    char label[TN_LABEL_MAX + 1];                      /* What it says. */
    char id[TN_LABEL_MAX + 1], host[TN_LABEL_MAX + 1]; /* Of a drain: one of the two. */
};

/* --- Words ------------------------------------------------------------------------------------ */

/* The options from word @from on. */
static bool read_words(struct tn_call *call, uint32_t from, struct note_wish *wish)
{
    bool asks = wish->usage[0] == 'H';

    for (uint32_t i = from; i < call->count; i += 2) {
        const struct tn_resp_word *key = &call->words[i];
        bool more = i + 1 < call->count;
        if (more && asks && tn_resp_is(key, "TOKEN")) {
            if (!tn_word_token(call, i + 1, &wish->token))
                return false;
        } else if (more && wish->timed && tn_resp_is(key, "FOR")) {
            if (!tn_word_u64(call, i + 1, "FOR", &wish->for_ms))
                return false;
            if (wish->for_ms < FOR_MIN_MS || wish->for_ms > FOR_MAX_MS) {
                tn_reply_error(call, "ERR FOR from %d to %d", FOR_MIN_MS, FOR_MAX_MS);
                return false;
            }
        } else if (more && asks && tn_resp_is(key, "TO") && call->words[i + 1].len > 0) {
            wish->to = &call->words[i + 1];
        } else {
            tn_reply_error(call, "ERR usage: %s", wish->usage);
            return false;
        }
    }
    return true;
}

/* COMMAND NAME ...: the note's name. */
static bool read_name(struct tn_call *call, uint32_t most, struct note_wish *wish)
{
    struct tn_text name;

    if (!tn_word_count(call, 2, most, wish->usage) || !tn_word_name(call, 1, "NAME") ||
        !tn_may_word(call, TN_ADMIN, 1) || !read_words(call, 2, wish) || !tn_may_write(call))
        return false;
    tn_text_init(&name, wish->name, sizeof wish->name);
    tn_text_add(&name, TN_NOTE_ASK);
    tn_text_add_bytes(&name, call->words[1].bytes, call->words[1].len);
    if (!tn_text_truncated(&name))
        return true;
    tn_reply_error(call, "ERR NAME is too long for an operator's wish; REVOKE it");
    return false;
}

/* COMMAND ID|HOST WORD ... */
static bool read_node(struct tn_call *call, uint32_t most, struct note_wish *wish)
{
    const struct tn_resp_word *word = &call->words[2];
    bool is_id;

    if (!tn_word_count(call, 3, most, wish->usage))
        return false;
    is_id = tn_resp_is(&call->words[1], "ID");
    if (!is_id && !tn_resp_is(&call->words[1], "HOST")) {
        tn_reply_error(call, "ERR usage: %s", wish->usage);
        return false;
    }
    if (!tn_may(call, TN_ADMIN, "*", 1) || !read_words(call, 3, wish) || !tn_may_write(call))
        return false;
    if (word->len == 0 || word->len > TN_LABEL_MAX || memchr(word->bytes, 0, word->len) != NULL) {
        tn_reply_error(call, "ERR an id or a host has 1 to %d bytes", TN_LABEL_MAX);
        return false;
    }
    memcpy(is_id ? wish->id : wish->host, word->bytes, word->len);
    if (is_id ? tn_note_name_id(wish->id, wish->name) : tn_note_name_host(wish->host, wish->name))
        return true;
    tn_reply_error(call, "ERR it is too long for an operator's wish");
    return false;
}

static void reply_number(struct tn_call *call, uint64_t number)
{
    struct tn_resp_out *out = tn_reply(call, TN_RESP_HEAD_MAX);

    if (out != NULL)
        tn_resp_put_u64(out, number);
}

/* --- The note --------------------------------------------------------------------------------- */

/* The lease of this name. False: nobody has it. */
static bool is_held(struct tn_call *call, const char *name, size_t len,
                    struct tn_lease_view *ret_view)
{
    struct tn_op read = { .kind = TN_OP_READ, .name = name, .name_len = (uint32_t)len };
    struct tn_result result;

    tn_server_step(call->server, &read, &result);
    if (result.lease == 0)
        return false;
    tn_table_lease(call->server->state.table, result.lease, ret_view);
    return ret_view->session != NULL;
}

static void close_session(struct tn_call *call, const struct tn_secret *session)
{
    struct tn_op close = { .kind = TN_OP_CLOSE, .session = *session };
    struct tn_result result;

    tn_server_step(call->server, &close, &result);
}

/* Whether the session has one lease, so that its end takes nothing else away. */
static bool holds_one(const struct tn_table *table, const struct tn_secret *secret)
{
    uint32_t session = tn_table_session_of(table, secret);
    uint32_t first = session != 0 ? tn_table_next_held(table, session, 0) : 0;

    return first != 0 && tn_table_next_held(table, session, first) == 0;
}

static bool says(const struct tn_lease_view *view, const char *label)
{
    return view->label_len == strlen(label) && memcmp(view->label, label, view->label_len) == 0;
}

static bool make_secrets(const struct note_wish *wish, struct tn_op *op)
{
    struct tn_secret session, term;

    if (!wish->lasting)
        return tn_random_secret(&op->session) == 0 && tn_random_secret(&op->term) == 0;
    tn_note_secrets(wish->name, &session, &term);
    tn_secret_hash(&session, 's', &op->session);
    tn_secret_hash(&term, 't', &op->term);
    return true;
}

/* The known term of a lasting note is over once the note was taken back. It is left again under
 * another one, which nobody has to know: the session is what ends it. */
static void acquire_note(struct tn_call *call, const struct note_wish *wish, struct tn_op *op,
                         struct tn_result *ret_result)
{
    struct tn_lease_view view = { 0 };

    op->kind = TN_OP_ACQUIRE;
    op->name = wish->name;
    op->name_len = (uint32_t)strlen(wish->name);
    tn_owner_name(call, TN_LIMIT_LEASES, op);
    tn_server_step(call->server, op, ret_result);
    if (ret_result->answer == TN_ANSWER_GRANTED)
        (void)is_held(call, wish->name, op->name_len, &view);
    if (wish->lasting && (ret_result->answer == TN_ANSWER_STALE || view.revoked) &&
        tn_random_secret(&op->term) == 0)
        tn_server_step(call->server, op, ret_result);
}

/* Whether the wish is in force; otherwise the reply is made. */
static bool leave_note(struct tn_call *call, const struct note_wish *wish)
{
    struct tn_op op = { .kind = TN_OP_OPEN,
                        .seq = ++call->server->seq,
                        .ttl = TN_MS(wish->for_ms != 0 ? wish->for_ms : FOR_LASTING_MS),
                        .label = wish->label,
                        .label_len = (uint32_t)strlen(wish->label) };
    struct tn_lease_view view = { 0 };
    struct tn_result result;

    if (!make_secrets(wish, &op)) {
        tn_reply_error(call, "UNAVAILABLE no random numbers");
        return false;
    }
    tn_owner_name(call, TN_LIMIT_SESSIONS, &op);
    tn_server_step(call->server, &op, &result);
    if (result.answer == TN_ANSWER_OK)
        acquire_note(call, wish, &op, &result);
    bool mine = is_held(call, wish->name, strlen(wish->name), &view) &&
                tn_secret_equal(view.session, &op.session) && !view.revoked;
    /* A renewal does not change a TTL, and to leave the note anew would let somebody lead. */
    if (mine && says(&view, wish->label) && wish->for_ms != 0 && view.ttl != TN_MS(wish->for_ms)) {
        tn_reply_error(call,
                       "BUSY this wish is in force and lasts %" PRId64 " ms from now on; end "
                       "it to change that",
                       view.ttl / TN_MS(1));
        return false;
    }
    if (mine && says(&view, wish->label))
        return true;
    close_session(call, &op.session);
    if (mine)
        tn_reply_error(call, "DENIED somebody else had opened the session of this note, under "
                             "another label; it is closed now: try again");
    else if (result.answer == TN_ANSWER_HELD || result.answer == TN_ANSWER_GRANTED)
        tn_reply_error(call, "BUSY another operator's wish about it is in force");
    else
        tn_owner_refuse(call, &op, &result);
    return false;
}

/* --- A hand-over ------------------------------------------------------------------------------ */

/* One that names a term which is over is of no use to anybody. */
static void end_old_note(struct tn_call *call, const struct note_wish *wish)
{
    struct tn_lease_view view;

    if (!is_held(call, wish->name, strlen(wish->name), &view))
        return;
    struct tn_note note = tn_note_parse(view.label, view.label_len, "", 0);
    if (note.kind == TN_NOTE_HANDOVER && note.token < wish->token &&
        holds_one(call->server->state.table, view.session))
        close_session(call, view.session);
}

void tn_cmd_handover(struct tn_call *call)
{
    struct note_wish wish = { .usage = USAGE_HANDOVER, .for_ms = FOR_HANDOVER_MS, .timed = true };
    struct tn_lease_view view;
    struct tn_text label;

    if (!read_name(call, 8, &wish))
        return;
    if (!is_held(call, call->words[1].bytes, call->words[1].len, &view) ||
        (wish.token != 0 && wish.token != view.token)) {
        tn_reply_error(call, "STALE not held, or not under that token");
        return;
    }
    wish.token = view.token;
    tn_text_init(&label, wish.label, sizeof wish.label);
    tn_text_addf(&label, "handover token=%" PRIu64, wish.token);
    if (wish.to != NULL) {
        tn_text_add(&label, " to=");
        tn_text_add_bytes(&label, wish.to->bytes, wish.to->len);
    }
    if (tn_text_truncated(&label)) {
        tn_reply_error(call, "ERR ID is too long for a hand-over");
        return;
    }
    end_old_note(call, &wish);
    if (leave_note(call, &wish))
        reply_number(call, wish.token);
}

/* --- Notes that last -------------------------------------------------------------------------- */

/* How many leases the processes of the node have, without what they use themselves. */
static uint64_t count_held(const struct tn_table *table, const struct note_wish *wish)
{
    struct tn_session_view session;
    struct tn_lease_view view;
    uint64_t count = 0;

    for (uint32_t i = 0; (i = tn_table_next_session(table, i)) != 0;) {
        tn_table_session(table, i, &session);
        bool is_it = wish->host[0] != '\0'
                         ? tn_note_is_on_host(session.label, session.label_len, wish->host)
                         : session.label_len == strlen(wish->id) &&
                               memcmp(session.label, wish->id, session.label_len) == 0;
        for (uint32_t lease = 0; is_it && (lease = tn_table_next_held(table, i, lease)) != 0;) {
            tn_table_lease(table, lease, &view);
            count += view.name_len < sizeof TN_NOTE_PREFIX - 1 ||
                     memcmp(view.name, TN_NOTE_PREFIX, sizeof TN_NOTE_PREFIX - 1) != 0;
        }
    }
    return count;
}

void tn_cmd_stand_down(struct tn_call *call)
{
    struct note_wish wish = {
        .usage = USAGE_STAND_DOWN, .timed = true, .lasting = true, .label = "stand-down"
    };
    struct tn_lease_view view;

    if (read_name(call, 4, &wish) && leave_note(call, &wish))
        reply_number(call, is_held(call, call->words[1].bytes, call->words[1].len, &view));
}

void tn_cmd_drain(struct tn_call *call)
{
    struct note_wish wish = {
        .usage = USAGE_DRAIN, .timed = true, .lasting = true, .label = "drain"
    };

    if (read_node(call, 5, &wish) && leave_note(call, &wish))
        reply_number(call, count_held(call->server->state.table, &wish));
}

/* Whoever left it. The session of a note has the note and nothing else, and ends with it. */
static void lift(struct tn_call *call, const struct note_wish *wish)
{
    struct tn_op revoke = { .kind = TN_OP_REVOKE,
                            .name = wish->name,
                            .name_len = (uint32_t)strlen(wish->name) };
    struct tn_lease_view view;
    struct tn_result result;
    bool was = is_held(call, wish->name, revoke.name_len, &view) && !view.revoked;

    if (was && holds_one(call->server->state.table, view.session))
        close_session(call, view.session);
    else if (was)
        tn_server_step(call->server, &revoke, &result);
    reply_number(call, was);
}

void tn_cmd_resume(struct tn_call *call)
{
    struct note_wish wish = { .usage = USAGE_RESUME };

    if (read_name(call, 2, &wish))
        lift(call, &wish);
}

void tn_cmd_undrain(struct tn_call *call)
{
    struct note_wish wish = { .usage = USAGE_UNDRAIN };

    if (read_node(call, 3, &wish))
        lift(call, &wish);
}
