/* cmd_fence.c - FENCE ADMIT, RAISE, SHOW and REMOVE: a fence for resources that cannot keep one, if
 * all their requests pass somebody who asks here first. The answer is on disk before it is given.
 */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "daemon/server.h"

#define FENCES_OF_USER 10000 /* Of one user of the ACL, unless that says otherwise. */

/* Whether one more fence may be made for this peer. */
static bool may_make(struct tn_call *call)
{
    const struct tn_server *server = call->server;
    const struct tn_fences *fences = &server->state.fences;
    uint32_t most = 0;

    if (fences->count >= fences->limit) {
        tn_reply_error(call, "FULL a limit of the daemon is reached; FENCE REMOVE makes room");
        return false;
    }
    if (server->acl == NULL || call->conn->peer_kind == TN_PEER_OWNER)
        return true;
    tn_acl_limit(server->acl, call->conn->user, TN_LIMIT_FENCES, &most);
    if (most == 0)
        most = FENCES_OF_USER;
    if (tn_fences_of(fences, call->conn->user) < most)
        return true;
    tn_reply_error(call, "FULL user %s has the %lu fences that its limit allows", call->conn->user,
                   (unsigned long)most);
    return false;
}

static void record(struct tn_call *call, enum tn_journal_record_kind kind, uint64_t token)
{
    tn_journal_add(&call->server->journal,
                   &(struct tn_journal_record) { .kind = kind,
                                                 .name = call->words[2].bytes,
                                                 .name_len = call->words[2].len,
                                                 .user = call->conn->user,
                                                 .user_len = (uint32_t)strlen(call->conn->user),
                                                 .token = token });
}

/* The fence of the resource, made if need be. NULL: it is answered. */
static struct tn_fence_entry *get(struct tn_call *call, bool is_new)
{
    struct tn_fences *fences = &call->server->state.fences;
    const struct tn_resp_word *name = &call->words[2];
    struct tn_fence_entry *entry = NULL;

    if (is_new && !may_make(call))
        return NULL;
    int rc = tn_fences_get(fences, name->bytes, name->len, &entry);
    bool owned = is_new && call->server->acl != NULL && call->conn->peer_kind != TN_PEER_OWNER;
    if (rc == 0 && owned) {
        rc = tn_fences_own(fences, entry, call->conn->user, (uint32_t)strlen(call->conn->user));
        if (rc != 0 && tenure_fence_highest(&entry->fence) == 0)
            tn_fences_forget(fences, entry);
        else if (rc != 0)
            tn_fences_remove(fences, entry); /* As it was. */
    }
    if (rc == 0)
        return entry;
    tn_reply_error(call, "UNAVAILABLE no memory; ask again");
    return NULL;
}

static void do_pass(struct tn_call *call, bool raise)
{
    const struct tn_resp_word *name = &call->words[2];
    const struct tn_fence_entry *found;
    struct tn_resp_out *out;
    uint64_t token;

    if (!tn_word_count(call, 4, 4, "FENCE ADMIT|RAISE RESOURCE TOKEN") ||
        !tn_word_name(call, 2, "RESOURCE") || !tn_may_word(call, TN_ACQUIRE, 2) ||
        !tn_word_u64(call, 3, "TOKEN", &token))
        return;
    if (token == 0) {
        tn_reply_error(call, "ERR token 0 is never granted");
        return;
    }
    if (!tn_may_write(call))
        return;
    found = tn_fences_find(&call->server->state.fences, name->bytes, name->len);
    uint64_t before = found != NULL ? tenure_fence_highest(&found->fence) : 0;
    if (token < before) {
        tn_reply_error(call, "STALE token %" PRIu64 " was seen: a later holder exists", before);
        return;
    }
    bool is_new = found == NULL || found->removed;
    struct tn_fence_entry *entry = get(call, is_new);
    if (entry == NULL)
        return;
    int rc =
        raise ? tenure_fence_raise(&entry->fence, token) : tenure_fence_admit(&entry->fence, token);
    TN_ASSERT(rc == 0);
    if (token > before || is_new)
        record(call, TN_RECORD_FENCED, token);
    if (is_new && entry->owner > 0)
        record(call, TN_RECORD_OWNED, 0);
    out = tn_reply(call, TN_RESP_HEAD_MAX);
    if (out != NULL)
        tn_resp_put_simple(out, "OK");
}

/* It counts no more; its token is remembered, unless that shall be forgotten, too. */
static void do_remove(struct tn_call *call)
{
    struct tn_fences *fences = &call->server->state.fences;
    const struct tn_resp_word *name = &call->words[2];
    bool forget = call->count == 4 && tn_resp_is(&call->words[3], "FORGET");

    if (call->count == 4 && !forget)
        call->count = 0;
    if (!tn_word_count(call, 3, 4, "FENCE REMOVE RESOURCE [FORGET]") ||
        !tn_word_name(call, 2, "RESOURCE") || !tn_may_word(call, TN_ADMIN, 2) ||
        !tn_may_write(call))
        return;
    struct tn_fence_entry *entry = tn_fences_find(fences, name->bytes, name->len);
    uint64_t before = entry != NULL ? tenure_fence_highest(&entry->fence) : 0;
    if (entry != NULL && forget) {
        tn_fences_forget(fences, entry);
        record(call, TN_RECORD_FORGOT, 0);
    } else if (entry != NULL && !entry->removed) {
        if (fences->removed >= fences->limit) {
            tn_reply_error(call, "FULL no more removed fences are remembered; see FORGET");
            return;
        }
        tn_fences_remove(fences, entry);
        record(call, TN_RECORD_REMOVED, 0);
    }
    struct tn_resp_out *out = tn_reply(call, TN_RESP_HEAD_MAX);
    if (out != NULL)
        tn_resp_put_u64(out, before);
}

static void do_show(struct tn_call *call)
{
    const struct tn_resp_word *name = &call->words[2];
    const struct tn_fence_entry *entry;
    struct tn_resp_out *out;

    if (!tn_word_count(call, 3, 3, "FENCE SHOW RESOURCE") || !tn_word_name(call, 2, "RESOURCE") ||
        !tn_may_word(call, TN_OBSERVE, 2))
        return;
    entry = tn_fences_find(&call->server->state.fences, name->bytes, name->len);
    out = tn_reply(call, TN_RESP_HEAD_MAX);
    if (out != NULL)
        tn_resp_put_u64(out, entry != NULL ? tenure_fence_highest(&entry->fence) : 0);
}

void tn_cmd_fence(struct tn_call *call)
{
    if (call->count > 1 && tn_resp_is(&call->words[1], "ADMIT"))
        do_pass(call, false);
    else if (call->count > 1 && tn_resp_is(&call->words[1], "RAISE"))
        do_pass(call, true);
    else if (call->count > 1 && tn_resp_is(&call->words[1], "SHOW"))
        do_show(call);
    else if (call->count > 1 && tn_resp_is(&call->words[1], "REMOVE"))
        do_remove(call);
    else if (call->count > 1 && tn_resp_is(&call->words[1], "LIST"))
        tn_show_fences(call);
    else
        tn_reply_error(call,
                       "ERR usage: FENCE ADMIT|RAISE|SHOW|REMOVE|LIST RESOURCE [TOKEN|FORGET]");
}
