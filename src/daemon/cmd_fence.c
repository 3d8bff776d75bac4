/* cmd_fence.c - FENCE ADMIT, RAISE and SHOW: a fence for resources that cannot keep one, and whose
 * requests all pass somebody who asks here first. The answer is on disk before it is given. */
#include <inttypes.h>

#include "daemon/server.h"

static void do_pass(struct tn_call *call, bool raise)
{
    struct tn_server *server = call->server;
    const struct tn_resp_word *name = &call->words[2];
    struct tn_fence_entry *entry;
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
    int rc = tn_fences_get(&server->state.fences, name->bytes, name->len, &entry);
    if (rc != 0) {
        tn_reply_error(call, "FULL a limit of the daemon is reached");
        return;
    }
    uint64_t before = tenure_fence_highest(&entry->fence);
    rc =
        raise ? tenure_fence_raise(&entry->fence, token) : tenure_fence_admit(&entry->fence, token);
    if (rc != 0) {
        tn_reply_error(call, "STALE token %" PRIu64 " was seen: a later holder exists", before);
        return;
    }
    if (token > before)
        tn_journal_add(&server->journal, &(struct tn_record) { .kind = TN_RECORD_FENCED,
                                                               .name = name->bytes,
                                                               .name_len = name->len,
                                                               .token = token });
    out = tn_reply(call, TN_RESP_HEAD_MAX);
    if (out != NULL)
        tn_resp_put_simple(out, "OK");
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
    else
        tn_reply_error(call, "ERR usage: FENCE ADMIT|RAISE|SHOW RESOURCE [TOKEN]");
}
