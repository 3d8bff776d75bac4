/* watch.c - who is told when a lease changes hands.
 *
 * A watch is on a name, on all names below a prefix of whole segments ("jobs" + "/" + star), or on
 * all (a star). A star cannot be in a name, so patterns are keys of the same map as names: a
 * change looks up its name and each of its prefixes, however many watch something else.
 *
 * What is sent has the shape of Redis's publish and subscribe, so that its clients know it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/server.h"

#define WATCHES_MAX 16384 /* Of one connection. */

static bool is_pattern(const char *text, uint32_t len)
{
    return len > 0 && text[len - 1] == '*';
}

static struct tn_watch *find(struct tn_conn *conn, const char *pattern, uint32_t len)
{
    struct tn_server *server = conn->server;
    struct tn_map_node *node = tn_map_first(server->watches, tn_map_hash(server, pattern, len));

    for (; node != NULL; node = tn_map_next(node)) {
        struct tn_watch *watch = (struct tn_watch *)node;
        if (watch->conn == conn && watch->len == len && memcmp(watch->pattern, pattern, len) == 0)
            return watch;
    }
    return NULL;
}

static bool add(struct tn_conn *conn, const char *pattern, uint32_t len)
{
    struct tn_server *server = conn->server;
    struct tn_watch *watch = malloc(sizeof *watch + len);

    if (watch == NULL)
        return false;
    *watch = (struct tn_watch) {
        .conn = conn, .conn_next = conn->watches, .conn_prev = &conn->watches, .len = len
    };
    memcpy(watch->pattern, pattern, len);
    if (conn->watches != NULL)
        conn->watches->conn_prev = &watch->conn_next;
    conn->watches = watch;
    conn->watch_count++;
    server->watch_count++;
    tn_map_add(server->watches, &watch->node, tn_map_hash(server, pattern, len));
    return true;
}

static void drop(struct tn_watch *watch)
{
    struct tn_conn *conn = watch->conn;

    tn_map_remove(conn->server->watches, &watch->node);
    *watch->conn_prev = watch->conn_next;
    if (watch->conn_next != NULL)
        watch->conn_next->conn_prev = watch->conn_prev;
    conn->watch_count--;
    conn->server->watch_count--;
    free(watch);
}

void tn_watch_conn_closed(struct tn_conn *conn)
{
    while (conn->watches != NULL)
        drop(conn->watches);
}

/* --- Telling ---------------------------------------------------------------------------------- */

static void tell_watcher(struct tn_watch *watch, const struct tn_lease_view *view, const char *text,
                         size_t text_len)
{
    struct tn_conn *conn = watch->conn;
    bool pattern = is_pattern(watch->pattern, watch->len);

    if (conn->state == TN_CONN_CLOSED || (text_len == 0 && conn->http == NULL))
        return;
    struct tn_resp_out *out = tn_conn_room_for_push(conn, TN_LEASE_BYTES);
    if (out == NULL)
        return;
    if (conn->http != NULL) { /* An event has the whole state. */
        tn_resp_put_push(out, 2);
        tn_resp_put_text(out, "lease");
        tn_put_lease(out, view, &(struct tn_resp_word) { view->name, view->name_len });
        return;
    }
    tn_resp_put_push(out, pattern ? 4 : 3);
    tn_resp_put_text(out, pattern ? "pmessage" : "message");
    if (pattern)
        tn_resp_put_bulk(out, watch->pattern, watch->len);
    tn_resp_put_bulk(out, view->name, view->name_len);
    tn_resp_put_bulk(out, text, text_len);
}

static void tell_all(struct tn_server *server, const char *pattern, uint32_t len,
                     const struct tn_lease_view *view, const char *text, size_t text_len)
{
    struct tn_map_node *node = tn_map_first(server->watches, tn_map_hash(server, pattern, len));

    while (node != NULL) {
        struct tn_watch *watch = (struct tn_watch *)node;
        node = tn_map_next(node); /* Telling may cut the peer off. */
        if (watch->len == len && memcmp(watch->pattern, pattern, len) == 0)
            tell_watcher(watch, view, text, text_len);
    }
}

/* To all that watch the name; an empty text only to those that are told the whole state. */
static void tell_everybody(struct tn_server *server, const struct tn_lease_view *view,
                           const char *text, size_t text_len)
{
    char pattern[TN_NAME_MAX + 2];

    tell_all(server, view->name, view->name_len, view, text, text_len);
    for (uint32_t len = view->name_len; len > 0; len--) {
        if (view->name[len - 1] != '/')
            continue;
        memcpy(pattern, view->name, len);
        pattern[len] = '*';
        tell_all(server, pattern, len + 1, view, text, text_len);
    }
    tell_all(server, "*", 1, view, text, text_len);
}

void tn_watch_tell(struct tn_server *server, const struct tn_lease_view *view)
{
    char text[TN_NAME_MAX + 64];
    struct tn_text payload;

    if (server->watch_count == 0)
        return;
    tn_text_init(&payload, text, sizeof text);
    tn_text_addf(&payload, "%s %" PRIu64, view->session != NULL ? "held" : "free", view->token);
    if (view->session != NULL) {
        tn_text_add(&payload, " ");
        tn_text_add_bytes(&payload, view->label, view->label_len);
    }
    tell_everybody(server, view, text, payload.len);
}

void tn_watch_changed(struct tn_server *server, uint32_t lease)
{
    struct tn_lease_view view;

    tn_table_lease(server->state.table, lease, &view);
    tn_watch_tell(server, &view);
}

bool tn_watch_has(struct tn_server *server, const char *name, uint32_t len)
{
    struct tn_map_node *node = tn_map_first(server->watches, tn_map_hash(server, name, len));

    for (; node != NULL; node = tn_map_next(node)) {
        const struct tn_watch *watch = (struct tn_watch *)node;
        if (watch->len == len && memcmp(watch->pattern, name, len) == 0)
            return true;
    }
    return false;
}

void tn_watch_revoked(struct tn_server *server, uint32_t lease)
{
    struct tn_lease_view view;

    if (server->watch_count == 0)
        return;
    tn_table_lease(server->state.table, lease, &view);
    tell_everybody(server, &view, "", 0);
}

/* --- Commands --------------------------------------------------------------------------------- */

/* A name, "name/" and a star, or a star. */
static bool is_watchable(const struct tn_resp_word *word)
{
    uint32_t len = word->len;

    if (is_pattern(word->bytes, len)) {
        if (len == 1)
            return true;
        if (word->bytes[len - 2] != '/')
            return false;
        len -= 2;
    }
    return tn_name_check(word->bytes, len, NULL) == 0;
}

static bool check_watchable(struct tn_call *call, uint32_t index)
{
    if (is_watchable(&call->words[index]))
        return true;
    tn_reply_error(call, "ERR word %u is neither a name nor PREFIX/* nor *", index);
    return false;
}

static void confirm(struct tn_call *call, const struct tn_resp_word *word, bool on)
{
    struct tn_conn *conn = call->conn;
    bool pattern = is_pattern(word->bytes, word->len);
    struct tn_resp_out *out = tn_reply(call, 512);

    if (out == NULL)
        return;
    tn_resp_put_push(out, 3);
    if (pattern)
        tn_resp_put_text(out, on ? "psubscribe" : "punsubscribe");
    else
        tn_resp_put_text(out, on ? "subscribe" : "unsubscribe");
    tn_resp_put_bulk(out, word->bytes, word->len);
    tn_resp_put_int(out, conn->watch_count);
}

/* Of a name, what happens upstream; of a pattern, what the processes of this host do. */
static bool may_watch_upstream(struct tn_call *call, const struct tn_resp_word *word)
{
    if (is_pattern(word->bytes, word->len))
        return true;
    if (!tn_agent_may_look(call, word->bytes, word->len))
        return false;
    if (tn_agent_watch(call->server, word->bytes, word->len))
        return true;
    tn_reply_error(call, "UNAVAILABLE no memory; ask again");
    return false;
}

void tn_cmd_watch(struct tn_call *call)
{
    struct tn_conn *conn = call->conn;

    if (!tn_word_count(call, 2, TN_WORDS_MAX, "WATCH NAME|PREFIX/*|* ..."))
        return;
    for (uint32_t i = 1; i < call->count; i++) {
        const struct tn_resp_word *word = &call->words[i];
        if (!check_watchable(call, i) || !tn_may_word(call, TN_OBSERVE, i))
            return;
        if (call->server->agent != NULL && !may_watch_upstream(call, word))
            return;
        if (find(conn, word->bytes, word->len) == NULL &&
            (conn->watch_count == WATCHES_MAX || !add(conn, word->bytes, word->len))) {
            tn_reply_error(call, "FULL at most %d watches on a connection", WATCHES_MAX);
            return;
        }
        confirm(call, word, true);
    }
}

void tn_cmd_unwatch(struct tn_call *call)
{
    struct tn_conn *conn = call->conn;

    if (call->count == 1 && conn->watches == NULL) {
        confirm(call, &(struct tn_resp_word) { "", 0 }, false);
        return;
    }
    while (call->count == 1 && conn->watches != NULL) {
        char pattern[TN_NAME_MAX + 2];
        struct tn_resp_word word = { pattern, conn->watches->len };
        memcpy(pattern, conn->watches->pattern, word.len);
        drop(conn->watches);
        confirm(call, &word, false);
    }
    for (uint32_t i = 1; i < call->count; i++) {
        if (!check_watchable(call, i))
            return;
        struct tn_watch *watch = find(conn, call->words[i].bytes, call->words[i].len);
        if (watch != NULL)
            drop(watch);
        confirm(call, &call->words[i], false);
    }
}
