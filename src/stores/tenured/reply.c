/* reply.c - reading the daemon's replies; what is not as docs/protocol.md has it makes them bad. */
#include <string.h>

#include "base/number.h"
#include "base/time.h"
#include "stores/tenured/private.h"

struct tn_tenured_reply tn_reply_of(const char *bytes, size_t len)
{
    return (struct tn_tenured_reply) { bytes, len, 0, false };
}

struct tn_resp_value tn_reply_next(struct tn_tenured_reply *reply)
{
    struct tn_resp_value value = { .type = TN_RESP_NULL };

    if (!reply->bad && tn_resp_next(reply->bytes, reply->len, &reply->at, &value) < 0)
        reply->bad = true;
    return value;
}

uint64_t tn_reply_u64(struct tn_tenured_reply *reply)
{
    struct tn_resp_value value = tn_reply_next(reply);
    char digits[24];
    uint64_t number = 0;

    if (value.type == TN_RESP_INTEGER && value.integer >= 0)
        return (uint64_t)value.integer;
    /* Above 2^63 - 1 it comes as text. */
    if ((value.type == TN_RESP_NUMBER || value.type == TN_RESP_STRING) &&
        value.len < sizeof digits) {
        memcpy(digits, value.bytes, value.len);
        digits[value.len] = '\0';
        if (tn_u64_parse(digits, &number) == 0)
            return number;
    }
    reply->bad = true;
    return 0;
}

/* What is overdue has a negative rest. */
tenure_ns tn_reply_ms(struct tn_tenured_reply *reply)
{
    struct tn_resp_value value = tn_reply_next(reply);

    if (value.type != TN_RESP_INTEGER || value.integer > TN_NEVER / TN_MS(1))
        reply->bad = true;
    return reply->bad || value.integer < 0 ? 0 : TN_MS(value.integer);
}

uint32_t tn_reply_list(struct tn_tenured_reply *reply)
{
    struct tn_resp_value value = tn_reply_next(reply);

    if (value.type == TN_RESP_ARRAY || value.type == TN_RESP_MAP || value.type == TN_RESP_PUSH)
        return value.count;
    reply->bad = true;
    return 0;
}

uint32_t tn_reply_text(struct tn_tenured_reply *reply, char *buf, size_t size)
{
    struct tn_resp_value value = tn_reply_next(reply);

    buf[0] = '\0';
    if (value.type != TN_RESP_STRING || value.len >= size) {
        reply->bad = true;
        return 0;
    }
    memcpy(buf, value.bytes, value.len);
    buf[value.len] = '\0';
    return value.len;
}

void tn_reply_skip(struct tn_tenured_reply *reply)
{
    for (uint64_t left = 1; left > 0 && !reply->bad; left--) {
        struct tn_resp_value value = tn_reply_next(reply);
        if (value.type == TN_RESP_ARRAY || value.type == TN_RESP_PUSH)
            left += value.count;
        else if (value.type == TN_RESP_MAP)
            left += 2 * (uint64_t)value.count;
    }
}

void tn_reply_lease(struct tn_tenured_reply *reply, struct tn_store_lease *ret_lease)
{
    struct tn_store_record *record = &ret_lease->record;
    uint32_t pairs = tn_reply_list(reply);
    char text[TN_SECRET_DIGITS + 1];

    memset(ret_lease, 0, sizeof *ret_lease);
    for (uint32_t i = 0; i < pairs && !reply->bad; i++) {
        struct tn_resp_value key = tn_reply_next(reply);
        if (tn_resp_begins(&key, "name")) {
            (void)tn_reply_text(reply, ret_lease->name, sizeof ret_lease->name);
        } else if (tn_resp_begins(&key, "state")) {
            (void)tn_reply_text(reply, text, sizeof text);
            record->held = strcmp(text, "free") != 0;
            record->revoked = strcmp(text, "revoked") == 0;
        } else if (tn_resp_begins(&key, "token")) {
            record->token = tn_reply_u64(reply);
        } else if (tn_resp_begins(&key, "holder")) {
            record->label_len = tn_reply_text(reply, record->label, sizeof record->label);
        } else if (tn_resp_begins(&key, "ttl_ms")) {
            record->ttl = tn_reply_ms(reply);
        } else if (tn_resp_begins(&key, "remaining_ms")) {
            record->remaining = tn_reply_ms(reply);
        } else if (tn_resp_begins(&key, "beat")) {
            record->beat = tn_reply_u64(reply);
        } else if (tn_resp_begins(&key, "term")) {
            if (tn_reply_text(reply, text, sizeof text) != TN_SECRET_DIGITS ||
                !tn_secret_parse(&record->term, text))
                reply->bad = true;
        } else if (tn_resp_begins(&key, "since_ms")) {
            ret_lease->since = tn_reply_ms(reply) / TN_MS(1);
        } else if (tn_resp_begins(&key, "waiting")) {
            ret_lease->waiting = (uint32_t)tn_reply_u64(reply);
            ret_lease->counted = true;
        } else {
            tn_reply_skip(reply);
        }
    }
}

/* --- Tags ------------------------------------------------------------------------------------- */

/* A renewal extends the deadline from when it was sent. So the reply to another command, however
 * good, must not be taken for its own: a connection may have lost its step, or somebody on the way
 * repeats what was said before. */
void tn_tenured_open_reply(struct tn_tenured_job *job)
{
    struct tn_resp_call *call = &job->call;
    struct tn_tenured_reply reply = tn_reply_of(call->reply, call->reply_len);

    /* Untagged errors extend nothing: the daemon is too old, or does not let us in. */
    if (call->status != 0 || job->tag == 0 || call->value.type == TN_RESP_ERROR)
        return;
    bool whole = call->value.type == TN_RESP_ARRAY && tn_reply_list(&reply) == 2;
    if (!whole || tn_reply_u64(&reply) != job->tag || reply.bad) {
        tn_stream_doubt(&job->store->link.stream, "an answer to another request");
        call->status = TENURE_E_TIMEOUT;
        call->error = "tenured: an answer to another request; is something between that repeats?";
        return;
    }
    call->reply += reply.at;
    call->reply_len -= reply.at;
    reply = tn_reply_of(call->reply, call->reply_len);
    call->value = tn_reply_next(&reply);
}
