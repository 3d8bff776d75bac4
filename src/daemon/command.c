/* command.c - which command it is, and what all commands share: words in, replies out. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/number.h"
#include "base/sha256.h"
#include "daemon/server.h"
#include "runtime/random.h"

/* --- Replies ---------------------------------------------------------------------------------- */

struct tn_resp_out *tn_reply(struct tn_call *call, size_t bytes)
{
    struct tn_conn *conn = call->conn;

    if (!tn_conn_room(conn, bytes + (call->tag_due ? TN_TAG_BYTES : 0)))
        return NULL;
    tn_conn_touch(conn);
    if (call->tag_due)
        tn_put_tag(&conn->out, call->tag);
    call->tag_due = false;
    conn->replying = true;
    return &conn->out;
}

void tn_put_tag(struct tn_resp_out *out, uint64_t tag)
{
    tn_resp_put_array(out, 2);
    tn_resp_put_u64(out, tag);
}

void tn_reply_error(struct tn_call *call, const char *format, ...)
{
    struct tn_resp_out *out = tn_reply(call, 512);
    char line[400];
    va_list args;

    tn_metrics_refused(call->server, format);
    if (out == NULL)
        return;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    tn_resp_put_error(out, line);
}

/* The answers that are errors to whoever asked. */
void tn_reply_answer(struct tn_call *call, enum tn_answer answer)
{
    switch (answer) {
    case TN_ANSWER_STALE:
        tn_reply_error(call, "STALE a later attempt, term or token is current");
        break;
    case TN_ANSWER_DENIED:
        tn_reply_error(call, "DENIED held by another session or term");
        break;
    case TN_ANSWER_GONE:
        tn_reply_error(call, "GONE no such session: it ended, or never was");
        break;
    case TN_ANSWER_FULL:
        tn_reply_error(call, "FULL a limit of the daemon is reached");
        break;
    case TN_ANSWER_OK:
    case TN_ANSWER_GRANTED:
    case TN_ANSWER_QUEUED:
    case TN_ANSWER_HELD:
    case TN_ANSWER_FREE:
    case TN_ANSWER_RELEASED:
        TN_ASSERT(answer == TN_ANSWER_FULL); /* No error; the caller's business. */
    }
}

bool tn_may_write(struct tn_call *call)
{
    if (!tn_journal_is_short(&call->server->journal))
        return true;
    tn_reply_error(call,
                   "FULL the daemon's disk is full; sessions are renewed, nothing is granted");
    return false;
}

/* --- Rights ----------------------------------------------------------------------------------- */

bool tn_may_quietly(const struct tn_call *call, enum tn_right right, const char *name, size_t len)
{
    const struct tn_acl *acl = call->server->acl;

    if (call->conn->peer_kind == TN_PEER_OWNER)
        return true;
    tn_acl_resolve(&right, &name, &len);
    if (acl == NULL)
        return call->conn->peer_kind != TN_PEER_MEMBER || right != TN_ADMIN;
    return name != NULL ? tn_acl_allows(acl, call->conn->user, right, name, len)
                        : tn_acl_allows_some(acl, call->conn->user, right);
}

bool tn_may(struct tn_call *call, enum tn_right right, const char *name, size_t len)
{
    static const char *const rights[] = { "observe", "acquire", "admin" };

    if (tn_may_quietly(call, right, name, len))
        return true;
    if (call->server->acl == NULL)
        tn_reply_error(call, "DENIED this is for the daemon's own user and root, not for the group "
                             "of its socket");
    else if (call->conn->user[0] == 0)
        tn_reply_error(call, "NOAUTH say who you are first: AUTH USER SECRET");
    else
        tn_reply_error(call, "DENIED user %s has no right to %s %s", call->conn->user,
                       rights[right], name != NULL ? "this name" : "anything");
    return false;
}

bool tn_may_word(struct tn_call *call, enum tn_right right, uint32_t index)
{
    return tn_may(call, right, call->words[index].bytes, call->words[index].len);
}

bool tn_authenticate(struct tn_call *call, uint32_t index)
{
    const struct tn_resp_word *user = &call->words[index];
    const struct tn_resp_word *secret = &call->words[index + 1];
    struct tn_conn *conn = call->conn;
    char name[TN_USER_MAX + 1] = "";

    if (call->server->acl == NULL) {
        tn_reply_error(call, "ERR no ACL is configured: the socket's owner needs no secret");
        return false;
    }
    if (user->len <= TN_USER_MAX && memchr(user->bytes, 0, user->len) == NULL)
        memcpy(name, user->bytes, user->len);
    if (tn_acl_knows(call->server->acl, name, secret->bytes, secret->len)) {
        memcpy(conn->user, name, sizeof name);
        conn->owner = 0;
        conn->by_secret = true;
        return true;
    }
    tn_reply_error(call, "DENIED wrong user or secret");
    if (++conn->wrong_secrets == 3) /* Guessing costs connections. */
        tn_conn_leave(conn);
    return false;
}

/* --- Words ------------------------------------------------------------------------------------ */

bool tn_word_count(struct tn_call *call, uint32_t least, uint32_t most, const char *usage)
{
    if (call->count >= least && call->count <= most)
        return true;
    tn_reply_error(call, "ERR usage: %s", usage);
    return false;
}

bool tn_word_u64(struct tn_call *call, uint32_t index, const char *what, uint64_t *ret_value)
{
    const struct tn_resp_word *word = &call->words[index];
    char digits[24];

    if (word->len > 0 && word->len < sizeof digits) {
        memcpy(digits, word->bytes, word->len);
        digits[word->len] = 0;
        if (strlen(digits) == word->len && tn_u64_parse(digits, ret_value) == 0)
            return true;
    }
    tn_reply_error(call, "ERR %s must be a number", what);
    return false;
}

bool tn_word_token(struct tn_call *call, uint32_t index, uint64_t *ret_token)
{
    if (!tn_word_u64(call, index, "TOKEN", ret_token))
        return false;
    if (*ret_token != 0)
        return true;
    tn_reply_error(call, "ERR TOKEN must be at least 1");
    return false;
}

bool tn_word_name(struct tn_call *call, uint32_t index, const char *what)
{
    const char *why = NULL;

    if (tn_name_check(call->words[index].bytes, call->words[index].len, &why) == 0)
        return true;
    tn_reply_error(call, "ERR %s: %s", what, why);
    return false;
}

/* The table, and so the disk, knows only hashes. A connection mostly names one session, again and
 * again, so its hash is kept. */
bool tn_word_secret(struct tn_call *call, uint32_t index, char kind, struct tn_secret *ret_hash,
                    char ret_text[32])
{
    const struct tn_resp_word *word = &call->words[index];
    struct tn_conn *conn = call->conn;
    struct tn_secret secret;
    char text[32];

    if (kind == 's' && word->len == 32 && conn->cached_text[0] != 0 &&
        memcmp(conn->cached_text, word->bytes, 32) == 0) {
        *ret_hash = conn->cached_hash;
        if (ret_text != NULL)
            memcpy(ret_text, word->bytes, 32);
        return true;
    }
    if (ret_text != NULL && word->len == 1 && word->bytes[0] == '*') {
        if (tn_random_secret(&secret) != 0) {
            tn_reply_error(call, "UNAVAILABLE no source of secrets");
            return false;
        }
    } else if (word->len != TN_SECRET_DIGITS || !tn_secret_parse(&secret, word->bytes)) {
        tn_reply_error(call, "ERR a secret is 32 hexadecimal digits, not all zero");
        return false;
    }
    tn_secret_text(&secret, text);
    tn_secret_hash(&secret, kind, ret_hash);
    if (kind == 's' && word->len == 32) {
        memcpy(conn->cached_text, word->bytes, 32);
        conn->cached_hash = *ret_hash;
    }
    if (ret_text != NULL)
        memcpy(ret_text, text, sizeof text);
    return true;
}

/* --- Small commands --------------------------------------------------------------------------- */

static void reply_ok(struct tn_call *call)
{
    struct tn_resp_out *out = tn_reply(call, TN_RESP_HEAD_MAX);
    if (out != NULL)
        tn_resp_put_simple(out, "OK");
}

static void do_ping(struct tn_call *call)
{
    struct tn_resp_out *out = tn_reply(call, TN_RESP_HEAD_MAX + TN_WORD_BYTES);

    if (!tn_word_count(call, 1, 2, "PING [MESSAGE]") || out == NULL)
        return;
    if (call->count == 2)
        tn_resp_put_bulk(out, call->words[1].bytes, call->words[1].len);
    else
        tn_resp_put_simple(out, "PONG");
}

static void do_echo(struct tn_call *call)
{
    struct tn_resp_out *out = tn_reply(call, TN_RESP_HEAD_MAX + TN_WORD_BYTES);

    if (tn_word_count(call, 2, 2, "ECHO MESSAGE") && out != NULL)
        tn_resp_put_bulk(out, call->words[1].bytes, call->words[1].len);
}

static void do_quit(struct tn_call *call)
{
    reply_ok(call);
    tn_conn_leave(call->conn);
}

static void do_auth(struct tn_call *call)
{
    if (tn_word_count(call, 3, 3, "AUTH USER SECRET") && tn_authenticate(call, 1))
        reply_ok(call);
}

/* What client libraries say when they connect; nothing here depends on it. */
static void do_client(struct tn_call *call)
{
    struct tn_resp_out *out;

    if (call->count == 2 && tn_resp_is(&call->words[1], "ID")) {
        out = tn_reply(call, TN_RESP_HEAD_MAX);
        if (out != NULL)
            tn_resp_put_u64(out, call->conn->id);
    } else if (call->count >= 3 &&
               (tn_resp_is(&call->words[1], "SETINFO") || tn_resp_is(&call->words[1], "SETNAME"))) {
        reply_ok(call);
    } else {
        tn_reply_error(call, "ERR usage: CLIENT ID|SETINFO|SETNAME");
    }
}

static void do_command(struct tn_call *call)
{
    struct tn_resp_out *out = tn_reply(call, TN_RESP_HEAD_MAX);
    if (out != NULL)
        tn_resp_put_array(out, 0); /* See docs/protocol.md instead. */
}

static void do_select(struct tn_call *call)
{
    if (call->count == 2 && call->words[1].len == 1 && call->words[1].bytes[0] == '0')
        reply_ok(call);
    else
        tn_reply_error(call, "ERR there is one space of names; SELECT 0 is it");
}

struct command {
    const char *name;
    void (*run)(struct tn_call *call);
    bool untaggable; /* It is confirmed by messages. */
};

static const struct command *find_command(const struct tn_resp_word *word)
{
    static const struct command commands[] = {
        { "SESSION", tn_cmd_session, false },
        { "LEASE", tn_cmd_lease, false },
        { "FENCE", tn_cmd_fence, false },
        { "PING", do_ping, false },
        { "WATCH", tn_cmd_watch, true },
        { "UNWATCH", tn_cmd_unwatch, true },
        { "HELLO", tn_cmd_hello, false },
        { "REVOKE", tn_cmd_revoke, false },
        { "HANDOVER", tn_cmd_handover, false },
        { "STAND-DOWN", tn_cmd_stand_down, false },
        { "RESUME", tn_cmd_resume, false },
        { "DRAIN", tn_cmd_drain, false },
        { "UNDRAIN", tn_cmd_undrain, false },
        { "TOKEN", tn_cmd_token, false },
        { "INFO", tn_cmd_info, false },
        { "SUBSCRIBE", tn_cmd_watch, true },
        { "UNSUBSCRIBE", tn_cmd_unwatch, true },
        { "PSUBSCRIBE", tn_cmd_watch, true },
        { "PUNSUBSCRIBE", tn_cmd_unwatch, true },
        { "AUTH", do_auth, false },
        { "QUIT", do_quit, false },
        { "ECHO", do_echo, false },
        { "CLIENT", do_client, false },
        { "COMMAND", do_command, false },
        { "SELECT", do_select, false },
        { "HISTORY", tn_cmd_history, false },
        { "WHOAMI", tn_cmd_whoami, false },
    };

    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (tn_resp_is(word, commands[i].name))
            return &commands[i];
    return NULL;
}

/* TAG N COMMAND ...: the reply is [N, the command's]. False: it is answered already. */
static bool take_tag(struct tn_call *call)
{
    if (!tn_resp_is(&call->words[0], "TAG"))
        return true;
    if (!tn_word_count(call, 3, TN_WORDS_MAX, "TAG N COMMAND ...") ||
        !tn_word_u64(call, 1, "N", &call->tag))
        return false;
    call->tagged = call->tag_due = true;
    call->words += 2;
    call->count -= 2;
    return true;
}

static void run(struct tn_call *call)
{
    const struct command *command;
    char shown[128];
    struct tn_text text;

    if (!take_tag(call))
        return;
    command = find_command(&call->words[0]);
    if (command != NULL && !(command->untaggable && call->tagged)) {
        if (call->server->agent == NULL || tn_agent_may(call))
            command->run(call);
        return;
    }
    tn_text_init(&text, shown, sizeof shown);
    tn_text_escape(&text, call->words[0].bytes, call->words[0].len);
    if (command == NULL)
        tn_reply_error(call, "ERR unknown command '%s'; docs/protocol.md lists them", shown);
    else
        tn_reply_error(call, "ERR %s is confirmed by messages, which TAG cannot mark", shown);
}

void tn_command(struct tn_conn *conn, uint32_t count)
{
    struct tn_call call = {
        .server = conn->server, .conn = conn, .words = conn->server->words, .count = count
    };
    bool bound = conn->bound;
    size_t written = call.server->journal.batch_len;

    call.server->count.commands++;
    conn->spoke = true;
    conn->partial_since = 0;
    run(&call);
    /* What a renewal says is on disk already, or never will be, so it need not wait for what is on
     * its way there, unless something else happened as well. */
    if (call.renews && written == call.server->journal.batch_len)
        conn->bound = bound;
    tn_conn_replied(conn);
}
