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
    if (!tn_conn_room(call->conn, bytes))
        return NULL;
    tn_conn_touch(call->conn);
    return &call->conn->out;
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

    if (acl == NULL || call->conn->trusted)
        return true;
    return name != NULL ? tn_acl_allows(acl, call->conn->user, right, name, len)
                        : tn_acl_allows_some(acl, call->conn->user, right);
}

bool tn_may(struct tn_call *call, enum tn_right right, const char *name, size_t len)
{
    static const char *const rights[] = { "observe", "acquire", "admin" };

    if (tn_may_quietly(call, right, name, len))
        return true;
    if (call->conn->user[0] == 0)
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
        return true;
    }
    tn_reply_error(call, "DENIED wrong user or secret");
    conn->quitting = ++conn->wrong_secrets == 3; /* Guessing costs connections. */
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
    call->conn->quitting = true;
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

void tn_command(struct tn_conn *conn, uint32_t count)
{
    static const struct {
        const char *name;
        void (*run)(struct tn_call *call);
    } commands[] = {
        { "SESSION", tn_cmd_session },
        { "LEASE", tn_cmd_lease },
        { "FENCE", tn_cmd_fence },
        { "PING", do_ping },
        { "WATCH", tn_cmd_watch },
        { "UNWATCH", tn_cmd_unwatch },
        { "HELLO", tn_cmd_hello },
        { "REVOKE", tn_cmd_revoke },
        { "TOKEN", tn_cmd_token },
        { "INFO", tn_cmd_info },
        { "SUBSCRIBE", tn_cmd_watch },
        { "UNSUBSCRIBE", tn_cmd_unwatch },
        { "PSUBSCRIBE", tn_cmd_watch },
        { "PUNSUBSCRIBE", tn_cmd_unwatch },
        { "AUTH", do_auth },
        { "QUIT", do_quit },
        { "ECHO", do_echo },
        { "CLIENT", do_client },
        { "COMMAND", do_command },
        { "SELECT", do_select },
    };
    struct tn_call call = {
        .server = conn->server, .conn = conn, .words = conn->server->words, .count = count
    };
    char shown[128];
    struct tn_text text;

    call.server->count.commands++;
    conn->spoke = true;
    conn->partial_since = 0;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (tn_resp_is(&call.words[0], commands[i].name)) {
            bool bound = conn->bound;
            size_t written = call.server->journal.batch_len;
            commands[i].run(&call);
            /* What a renewal says is not on disk, so it need not wait for what is on its way there,
             * unless something else happened as well. */
            if (call.renews && written == call.server->journal.batch_len)
                conn->bound = bound;
            return;
        }
    }
    tn_text_init(&text, shown, sizeof shown);
    tn_text_escape(&text, call.words[0].bytes, call.words[0].len);
    tn_reply_error(&call, "ERR unknown command '%s'; docs/protocol.md lists them", shown);
}
