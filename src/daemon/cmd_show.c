/* cmd_show.c - what an operator's page shows beside leases: HISTORY, SESSION LIST, FENCE LIST,
 * LEASE LINE, LEASE MGET and WHOAMI. All of it only reads, and shows of each name only what the
 * asker may observe. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "daemon/server.h"

#define NAMES_MAX 200 /* Asked about in one command. */
#define PAGE_MAX 1000
#define HELD_MAX 20 /* Names of a session that are listed; the rest is a number. */
#define LINE_MOST 100
#define LOOKS_MAX 65536 /* Fences that one command looks at. */

/* --- History ---------------------------------------------------------------------------------- */

static void put_history(struct tn_call *call, const struct tn_resp_word *name)
{
    const struct tn_history *history = &call->server->past.history;
    size_t count = 0;
    struct tn_term *terms = tn_history_terms(history, name->bytes, name->len, &count);
    size_t size = tn_terms_room(count);
    char *buf = malloc(size);
    struct tn_text text;

    if (buf != NULL) {
        tn_text_init(&text, buf, size);
        tn_terms_json(&text, name->bytes, name->len, terms, count, history->since, tn_wall_ms());
        struct tn_resp_out *out = tn_reply(call, text.len + TN_RESP_HEAD_MAX);
        if (out != NULL)
            tn_resp_put_bulk(out, buf, text.len);
    } else {
        tn_reply_error(call, "UNAVAILABLE no memory; ask again");
    }
    free(buf);
    free(terms);
}

static bool may_see_all(struct tn_call *call, uint32_t from)
{
    for (uint32_t i = from; i < call->count; i++)
        if (!tn_word_name(call, i, "NAME") || !tn_may_word(call, TN_OBSERVE, i))
            return false;
    return true;
}

/* An array of JSON documents: the terms of each name, and the gaps between them. */
void tn_cmd_history(struct tn_call *call)
{
    struct tn_resp_out *out;

    if (!tn_word_count(call, 2, 1 + NAMES_MAX, "HISTORY NAME ...") || !may_see_all(call, 1))
        return;
    out = tn_reply(call, TN_RESP_HEAD_MAX);
    if (out != NULL)
        tn_resp_put_array(out, call->count - 1);
    for (uint32_t i = 1; out != NULL && i < call->count; i++)
        put_history(call, &call->words[i]);
}

/* --- Leases ----------------------------------------------------------------------------------- */

static uint32_t find_lease(struct tn_call *call, uint32_t index)
{
    struct tn_op op = { .kind = TN_OP_READ,
                        .name = call->words[index].bytes,
                        .name_len = call->words[index].len };
    struct tn_result result;

    tn_server_step(call->server, &op, &result);
    return result.lease;
}

void tn_show_leases(struct tn_call *call)
{
    struct tn_resp_out *out;

    if (!tn_word_count(call, 3, 2 + NAMES_MAX, "LEASE MGET NAME ...") || !may_see_all(call, 2))
        return;
    out = tn_reply(call, TN_RESP_HEAD_MAX);
    if (out == NULL)
        return;
    tn_resp_put_array(out, call->count - 2);
    for (uint32_t i = 2; i < call->count; i++) {
        uint32_t lease = find_lease(call, i);
        out = tn_reply(call, TN_LEASE_BYTES);
        if (out == NULL)
            return;
        tn_put_lease_shown(call->server, out, lease, &call->words[i]);
    }
}

/* The labels of those who wait, the next one first. */
void tn_show_line(struct tn_call *call)
{
    const struct tn_table *table = call->server->state.table;
    uint32_t sessions[LINE_MOST];
    uint32_t count = 0;
    struct tn_resp_out *out;

    if (!tn_word_count(call, 3, 3, "LEASE LINE NAME") || !may_see_all(call, 2))
        return;
    uint32_t lease = find_lease(call, 2);
    uint32_t place = 0;
    while (lease != 0 && count < LINE_MOST &&
           (place = tn_table_next_waiter(table, lease, place, &sessions[count])) != 0)
        count++;
    out = tn_reply(call, TN_RESP_HEAD_MAX + (size_t)count * (TN_RESP_HEAD_MAX + TN_NAME_MAX));
    if (out == NULL)
        return;
    tn_resp_put_array(out, count);
    for (uint32_t i = 0; i < count; i++) {
        struct tn_session_view view;
        tn_table_session(table, sessions[i], &view);
        tn_resp_put_bulk(out, view.label, view.label_len);
    }
}

/* --- Sessions --------------------------------------------------------------------------------- */

struct shown {
    uint32_t session, held, waits;
    uint32_t leases[HELD_MAX]; /* The first of those that the asker may observe. */
    uint32_t lease_count;
};

static bool may_see(const struct tn_call *call, uint32_t lease, struct tn_lease_view *ret_view)
{
    tn_table_lease(call->server->state.table, lease, ret_view);
    return tn_may_quietly(call, TN_OBSERVE, ret_view->name, ret_view->name_len);
}

/* Whether the asker may see the session: one of its names, or all names there are. */
static bool look_at_session(const struct tn_call *call, uint32_t session, struct shown *ret)
{
    const struct tn_table *table = call->server->state.table;
    struct tn_lease_view view;
    struct tn_secret term;

    *ret = (struct shown) { .session = session };
    for (uint32_t i = 0; (i = tn_table_next_held(table, session, i)) != 0;) {
        if (!may_see(call, i, &view))
            continue;
        ret->held++;
        if (ret->lease_count < HELD_MAX)
            ret->leases[ret->lease_count++] = i;
    }
    for (uint32_t i = 0; (i = tn_table_next_place(table, session, i)) != 0;)
        ret->waits += may_see(call, tn_table_place(table, i, &term), &view);
    return ret->held > 0 || ret->waits > 0 || tn_may_quietly(call, TN_OBSERVE, "*", 1);
}

static void put_session(struct tn_call *call, const struct shown *shown)
{
    const struct tn_server *server = call->server;
    struct tn_resp_out *out =
        tn_reply(call, 1024 + (size_t)shown->lease_count * (TN_RESP_HEAD_MAX + TN_NAME_MAX));
    struct tn_session_view view;
    struct tn_lease_view lease;

    if (out == NULL)
        return;
    tn_table_session(server->state.table, shown->session, &view);
    tenure_ns left = view.expires_at - server->now;
    tn_resp_put_map(out, 7);
    tn_resp_put_text(out, "holder");
    tn_resp_put_bulk(out, view.label, view.label_len);
    tn_resp_put_text(out, "user");
    const char *user = view.owner > 0 && view.owner <= server->owners.count
                           ? server->owners.names[view.owner - 1]
                           : "";
    tn_resp_put_text(out, user);
    tn_resp_put_text(out, "ttl_ms");
    tn_resp_put_int(out, view.ttl / TN_MS(1));
    tn_resp_put_text(out, "remaining_ms");
    tn_resp_put_int(out, view.closed || left < 0 ? 0 : left / TN_MS(1));
    tn_resp_put_text(out, "leases");
    tn_resp_put_int(out, shown->held);
    tn_resp_put_text(out, "waits");
    tn_resp_put_int(out, shown->waits);
    tn_resp_put_text(out, "names");
    tn_resp_put_array(out, shown->lease_count);
    for (uint32_t i = 0; i < shown->lease_count; i++) {
        tn_table_lease(server->state.table, shown->leases[i], &lease);
        tn_resp_put_bulk(out, lease.name, lease.name_len);
    }
}

/* CURSOR [COUNT N] from word 2 on. */
static bool read_page(struct tn_call *call, const char *usage, uint64_t *ret_cursor,
                      uint64_t *ret_count)
{
    *ret_count = 100;
    if (call->count != 3 && call->count != 5)
        call->count = 0;
    if (!tn_word_count(call, 3, 5, usage) || !tn_word_u64(call, 2, "CURSOR", ret_cursor) ||
        (call->count == 5 && !tn_word_u64(call, 4, "COUNT", ret_count)))
        return false;
    if (*ret_count >= 1 && *ret_count <= PAGE_MAX && *ret_cursor < UINT32_MAX &&
        (call->count == 3 || tn_resp_is(&call->words[3], "COUNT")))
        return true;
    tn_reply_error(call, "ERR usage: %s; COUNT from 1 to %d", usage, PAGE_MAX);
    return false;
}

/* [cursor, [session ...]], as LEASE LIST: cursor 0 is the end. */
void tn_show_sessions(struct tn_call *call)
{
    const struct tn_table *table = call->server->state.table;
    uint64_t cursor, most;
    struct shown shown;

    if (!read_page(call, "SESSION LIST CURSOR [COUNT N]", &cursor, &most) ||
        !tn_may(call, TN_OBSERVE, NULL, 0))
        return;
    uint32_t last = (uint32_t)cursor;
    uint32_t found = 0;
    uint32_t *list = calloc(most, sizeof *list);
    for (uint64_t i = 0; list != NULL && i < most; i++) {
        last = tn_table_next_session(table, last);
        if (last == 0)
            break;
        if (look_at_session(call, last, &shown))
            list[found++] = last;
    }
    struct tn_resp_out *out = list != NULL ? tn_reply(call, 4 * TN_RESP_HEAD_MAX) : NULL;
    if (out != NULL) {
        tn_resp_put_array(out, 2);
        tn_resp_put_u64(out, last);
        tn_resp_put_array(out, found);
    }
    for (uint32_t i = 0; out != NULL && i < found; i++) {
        (void)look_at_session(call, list[i], &shown);
        put_session(call, &shown);
    }
    if (list == NULL)
        tn_reply_error(call, "UNAVAILABLE no memory; ask again");
    free(list);
}

/* --- Fences ----------------------------------------------------------------------------------- */

void tn_show_fences(struct tn_call *call)
{
    const struct tn_fences *fences = &call->server->state.fences;
    uint64_t cursor, most;
    uint32_t found[PAGE_MAX];
    uint32_t count = 0;

    if (!read_page(call, "FENCE LIST CURSOR [COUNT N]", &cursor, &most) ||
        !tn_may(call, TN_OBSERVE, NULL, 0))
        return;
    uint32_t slot = (uint32_t)cursor;
    for (uint64_t looks = 0; slot < fences->slots && count < most && looks < LOOKS_MAX;
         slot++, looks++) {
        const struct tn_fence_entry *entry = &fences->entries[slot];
        if (entry->name != NULL && tn_may_quietly(call, TN_OBSERVE, entry->name, entry->len))
            found[count++] = slot;
    }
    struct tn_resp_out *out =
        tn_reply(call, 4 * TN_RESP_HEAD_MAX + (size_t)count * (512 + TN_NAME_MAX));
    if (out == NULL)
        return;
    tn_resp_put_array(out, 2);
    tn_resp_put_u64(out, slot < fences->slots ? slot : 0);
    tn_resp_put_array(out, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct tn_fence_entry *entry = &fences->entries[found[i]];
        tn_resp_put_map(out, 4);
        tn_resp_put_text(out, "resource");
        tn_resp_put_bulk(out, entry->name, entry->len);
        tn_resp_put_text(out, "highest");
        tn_resp_put_u64(out, tenure_fence_highest(&entry->fence));
        tn_resp_put_text(out, "user");
        tn_resp_put_text(out, entry->owner > 0 ? fences->users[entry->owner - 1].name : "");
        tn_resp_put_text(out, "state");
        tn_resp_put_text(out, entry->removed ? "removed" : "on");
    }
}

/* --- Who am I --------------------------------------------------------------------------------- */

/* {user, rights: [[right, pattern] ...], version, since}. Without an ACL the right is to "*". */
void tn_cmd_whoami(struct tn_call *call)
{
    static const char *const rights[] = { "observe", "acquire", "admin" };
    const struct tn_acl *acl = call->server->acl;
    enum tn_right right = TN_OBSERVE;
    const char *pattern = "*";
    size_t count = 0;
    bool by_rules = acl != NULL && call->conn->peer_kind != TN_PEER_OWNER;

    if (!tn_word_count(call, 1, 1, "WHOAMI"))
        return;
    while (by_rules && tn_acl_rule(acl, call->conn->user, count, &right, &pattern))
        count++;
    struct tn_resp_out *out = tn_reply(call, 1024 + (count + 1) * (64 + TN_NAME_MAX));
    if (out == NULL)
        return;
    tn_resp_put_map(out, 4);
    tn_resp_put_text(out, "user");
    tn_resp_put_text(out, call->conn->user);
    tn_resp_put_text(out, "rights");
    tn_resp_put_array(out, by_rules ? (uint32_t)count : 1);
    for (size_t i = 0; i < (by_rules ? count : 1); i++) {
        right = call->conn->peer_kind == TN_PEER_MEMBER ? TN_ACQUIRE : TN_ADMIN;
        if (by_rules)
            (void)tn_acl_rule(acl, call->conn->user, i, &right, &pattern);
        tn_resp_put_array(out, 2);
        tn_resp_put_text(out, rights[right]);
        tn_resp_put_text(out, pattern);
    }
    tn_resp_put_text(out, "now");
    tn_resp_put_int(out, tn_wall_ms());
    tn_resp_put_text(out, "history_since");
    tn_resp_put_int(out, call->server->past.history.since);
}
