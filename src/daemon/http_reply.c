/* http_reply.c - replies of commands as JSON, one shape for each; http_api.c says which. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/http.h"

/* --- Replies ---------------------------------------------------------------------------------- */

struct tn_resp_value tn_http_reply_next(struct tn_reply *reply)
{
    struct tn_resp_value value = { .type = TN_RESP_NULL };

    if (tn_resp_next(reply->bytes, reply->len, &reply->at, &value) != 0)
        value.type = TN_RESP_NULL;
    return value;
}

/* A number; tokens beyond 2^63 are digits in a string. */
static void put_number(struct tn_text *text, struct tn_resp_value value)
{
    if (value.type == TN_RESP_STRING)
        tn_text_add_bytes(text, value.bytes, value.len);
    else
        tn_text_addf(text, "%" PRId64, value.integer);
}

static void put_field(struct tn_text *text, const char *key, struct tn_reply *reply)
{
    tn_text_addf(text, "\"%s\":", key);
    put_number(text, tn_http_reply_next(reply));
}

static unsigned status_of(const char *word, size_t len)
{
    static const struct {
        const char *word;
        unsigned status;
    } list[] = {
        { "ERR", TN_STATUS_BAD_REQUEST },
        { "GONE", TN_STATUS_GONE },
        { "STALE", TN_STATUS_PRECONDITION_FAILED },
        { "DENIED", TN_STATUS_FORBIDDEN },
        { "NOAUTH", TN_STATUS_UNAUTHORIZED },
        { "FULL", TN_STATUS_INSUFFICIENT_STORAGE },
        { "OLDER", TN_STATUS_CONFLICT },
        { "BUSY", TN_STATUS_CONFLICT },
        { "UNAVAILABLE", TN_STATUS_SERVICE_UNAVAILABLE },
    };

    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (strlen(list[i].word) == len && memcmp(list[i].word, word, len) == 0)
            return list[i].status;
    return TN_STATUS_INTERNAL_SERVER_ERROR;
}

static void put_error(struct tn_text *text, struct tn_resp_value value, unsigned *status)
{
    const char *blank = memchr(value.bytes, ' ', value.len);
    size_t word = blank != NULL ? (size_t)(blank - value.bytes) : value.len;
    size_t rest = blank != NULL ? word + 1 : word;

    *status = status_of(value.bytes, word);
    tn_text_addf(text, "{\"error\":\"%.*s\",\"message\":", (int)word, value.bytes);
    tn_json_string(text, value.bytes + rest, value.len - rest);
    tn_text_add(text, "}");
}

void tn_shape_opened(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                     unsigned *status)
{
    const char *comma = "{";

    (void)status;
    for (uint32_t i = 0; i + 1 < value.count; i += 2) {
        struct tn_resp_value key = tn_http_reply_next(reply);
        struct tn_resp_value content = tn_http_reply_next(reply);
        tn_text_addf(text, "%s\"%.*s\":", comma, (int)key.len, key.bytes);
        if (key.len == 7 && memcmp(key.bytes, "session", 7) == 0)
            tn_json_string(text, content.bytes, content.len);
        else
            put_number(text, content);
        comma = ",";
    }
    tn_text_add(text, "}");
}

void tn_shape_renewed(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                      unsigned *status)
{
    static const char *const keys[] = { "ttl_ms", "held", "seen" };

    (void)status;
    (void)value;
    for (size_t i = 0; i < 3; i++) {
        tn_text_add(text, i == 0 ? "{" : ",");
        put_field(text, keys[i], reply);
    }
    tn_text_addf(text, ",\"more\":%s,\"revoked\":[",
                 tn_http_reply_next(reply).integer != 0 ? "true" : "false");
    uint32_t count = tn_http_reply_next(reply).count;
    for (uint32_t i = 0; i + 1 < count; i += 2) {
        struct tn_resp_value name = tn_http_reply_next(reply);
        tn_text_add(text, i == 0 ? "{\"name\":" : ",{\"name\":");
        tn_json_string(text, name.bytes, name.len);
        tn_text_add(text, ",");
        put_field(text, "token", reply);
        tn_text_add(text, "}");
    }
    tn_text_add(text, "]}");
}

void tn_shape_acquired(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                       unsigned *status)
{
    bool granted = value.type == TN_RESP_ARRAY && value.count == 3;

    if (!granted)
        *status = TN_STATUS_CONFLICT;
    tn_text_addf(text, "{\"granted\":%s", granted ? "true" : "false");
    if (value.type == TN_RESP_NULL) { /* Its time in line is over. */
        tn_text_add(text, "}");
        return;
    }
    (void)tn_http_reply_next(reply); /* granted, held */
    tn_text_add(text, ",");
    put_field(text, "token", reply);
    struct tn_resp_value who = tn_http_reply_next(reply);
    tn_text_add(text, granted ? ",\"term\":" : ",\"holder\":");
    tn_json_string(text, who.bytes, who.len);
    if (!granted) {
        tn_text_add(text, ",");
        put_field(text, "remaining_ms", reply);
    }
    tn_text_add(text, "}");
}

void tn_shape_released(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                       unsigned *status)
{
    (void)reply;
    (void)value;
    (void)status;
    tn_text_add(text, "{\"released\":true}");
}

void tn_shape_done(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                   unsigned *status)
{
    (void)reply;
    (void)value;
    (void)status;
    tn_text_add(text, "{\"ok\":true}");
}

/* An object with one number. */
static void put_only(struct tn_text *text, const char *key, struct tn_resp_value value)
{
    tn_text_addf(text, "{\"%s\":", key);
    put_number(text, value);
    tn_text_add(text, "}");
}

void tn_shape_highest(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                      unsigned *status)
{
    (void)reply;
    (void)status;
    put_only(text, "highest", value);
}

void tn_shape_token(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                    unsigned *status)
{
    (void)reply;
    (void)status;
    put_only(text, "token", value);
}

void tn_shape_held(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                   unsigned *status)
{
    (void)reply;
    (void)status;
    put_only(text, "held", value);
}

void tn_shape_ended(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                    unsigned *status)
{
    (void)reply;
    (void)status;
    tn_text_addf(text, "{\"ended\":%s}", value.integer != 0 ? "true" : "false");
}

/* Lines "key:value", and headings that are not needed here. */
void tn_shape_told(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                   unsigned *status)
{
    const char *at = value.bytes;
    const char *end = value.bytes + value.len;
    const char *comma = "{";

    (void)reply;
    (void)status;
    while (at < end) {
        const char *line_end = memchr(at, '\r', (size_t)(end - at));
        const char *colon = memchr(at, ':', (size_t)(end - at));
        if (line_end == NULL)
            break;
        if (colon != NULL && colon < line_end) {
            size_t len = (size_t)(line_end - colon - 1);
            tn_text_addf(text, "%s\"%.*s\":", comma, (int)(colon - at), at);
            if (strspn(colon + 1, "0123456789") == len)
                tn_text_add_bytes(text, colon + 1, len);
            else
                tn_json_string(text, colon + 1, len);
            comma = ",";
        }
        at = line_end + 2;
    }
    tn_text_add(text, "}");
}

/* The fields of `tenure status --json`. */
void tn_json_lease(struct tn_text *text, struct tn_reply *reply, uint32_t count)
{
    static const char *const keys[] = { "name",   "state",        "token",    "holder",
                                        "ttl_ms", "remaining_ms", "since_ms", "waiting" };
    struct tn_resp_value found[8] = { 0 };

    for (uint32_t i = 0; i + 1 < count; i += 2) {
        struct tn_resp_value key = tn_http_reply_next(reply);
        struct tn_resp_value value = tn_http_reply_next(reply);
        for (size_t k = 0; k < 8; k++)
            if (strlen(keys[k]) == key.len && memcmp(keys[k], key.bytes, key.len) == 0)
                found[k] = value;
    }
    bool held = found[3].bytes != NULL;
    tn_text_add(text, "{\"name\":");
    tn_json_string(text, found[0].bytes, found[0].len);
    tn_text_addf(text, ",\"state\":\"%s\",\"holder\":", held ? "held" : "free");
    if (held)
        tn_json_string(text, found[3].bytes, found[3].len);
    else
        tn_text_add(text, "null");
    tn_text_add(text, ",\"token\":");
    put_number(text, found[2]);
    tn_text_addf(text, ",\"ttl_ms\":%" PRId64 ",\"remaining_ms\":%" PRId64, found[4].integer,
                 found[5].integer);
    if (held && found[1].bytes[0] == 'r')
        tn_text_add(text, ",\"revoked\":true");
    if (found[6].integer > 0)
        tn_text_addf(text, ",\"since_ms\":%" PRId64, found[6].integer);
    if (found[7].type == TN_RESP_INTEGER)
        tn_text_addf(text, ",\"waiting\":%" PRId64, found[7].integer);
    tn_text_add(text, "}");
}

void tn_shape_lease(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                    unsigned *status)
{
    (void)status;
    tn_json_lease(text, reply, value.count);
}

void tn_shape_leases(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                     unsigned *status)
{
    (void)value;
    (void)status;
    tn_text_add(text, "{");
    put_field(text, "cursor", reply);
    tn_text_add(text, ",\"leases\":[");
    uint32_t count = tn_http_reply_next(reply).count;
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0)
            tn_text_add(text, ",");
        tn_json_lease(text, reply, tn_http_reply_next(reply).count);
    }
    tn_text_add(text, "]}");
}

void tn_shape_lease_list(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                         unsigned *status)
{
    (void)status;
    tn_text_add(text, "{\"cursor\":0,\"leases\":[");
    for (uint32_t i = 0; i < value.count; i++) {
        tn_text_add(text, i > 0 ? "," : "");
        tn_json_lease(text, reply, tn_http_reply_next(reply).count);
    }
    tn_text_add(text, "]}");
}

#ifdef TENURE_SANDBOX
#define SANDBOX ",\"sandbox\""
#else
#define SANDBOX ""
#endif

/* --- What the console shows ------------------------------------------------------------------- */

/* The documents are JSON already. */
void tn_shape_history(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                      unsigned *status)
{
    (void)value;
    (void)status;
    struct tn_resp_value document = tn_http_reply_next(reply);
    tn_text_add_bytes(text, document.bytes, document.len);
}

void tn_shape_histories(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                        unsigned *status)
{
    tn_text_add(text, "{\"names\":[");
    for (uint32_t i = 0; i < value.count; i++) {
        tn_text_add(text, i > 0 ? "," : "");
        tn_shape_history(text, reply, value, status);
    }
    tn_text_add(text, "]}");
}

static void put_strings(struct tn_text *text, struct tn_reply *reply, uint32_t count)
{
    tn_text_add(text, "[");
    for (uint32_t i = 0; i < count; i++) {
        struct tn_resp_value string = tn_http_reply_next(reply);
        tn_text_add(text, i > 0 ? "," : "");
        tn_json_string(text, string.bytes, string.len);
    }
    tn_text_add(text, "]");
}

void tn_shape_line(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                   unsigned *status)
{
    (void)status;
    tn_text_add(text, "{\"waiting\":");
    put_strings(text, reply, value.count);
    tn_text_add(text, "}");
}

/* Keys and values in turn: numbers, texts and lists of texts. A token beyond 2^63 is a string. */
static void put_pairs(struct tn_text *text, struct tn_reply *reply, uint32_t count)
{
    for (uint32_t i = 0; i + 1 < count; i += 2) {
        struct tn_resp_value key = tn_http_reply_next(reply);
        struct tn_resp_value value = tn_http_reply_next(reply);
        bool number =
            value.type == TN_RESP_INTEGER || (key.len == 7 && memcmp(key.bytes, "highest", 7) == 0);
        tn_text_addf(text, "%s\"%.*s\":", i == 0 ? "{" : ",", (int)key.len, key.bytes);
        if (value.type == TN_RESP_ARRAY)
            put_strings(text, reply, value.count);
        else if (number)
            put_number(text, value);
        else
            tn_json_string(text, value.bytes, value.len);
    }
    tn_text_add(text, "}");
}

static void put_page(struct tn_text *text, struct tn_reply *reply, const char *key)
{
    tn_text_add(text, "{");
    put_field(text, "cursor", reply);
    tn_text_addf(text, ",\"%s\":[", key);
    uint32_t count = tn_http_reply_next(reply).count;
    for (uint32_t i = 0; i < count; i++) {
        tn_text_add(text, i > 0 ? "," : "");
        put_pairs(text, reply, tn_http_reply_next(reply).count);
    }
    tn_text_add(text, "]}");
}

void tn_shape_sessions(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                       unsigned *status)
{
    (void)value;
    (void)status;
    put_page(text, reply, "sessions");
}

void tn_shape_fences(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                     unsigned *status)
{
    (void)value;
    (void)status;
    put_page(text, reply, "fences");
}

void tn_shape_whoami(struct tn_text *text, struct tn_reply *reply, struct tn_resp_value value,
                     unsigned *status)
{
    (void)value;
    (void)status;
    (void)tn_http_reply_next(reply); /* user */
    struct tn_resp_value user = tn_http_reply_next(reply);
    tn_text_add(text, "{\"server\":\"tenured\",\"user\":");
    if (user.len > 0)
        tn_json_string(text, user.bytes, user.len);
    else
        tn_text_add(text, "null");
    (void)tn_http_reply_next(reply); /* rights */
    uint32_t count = tn_http_reply_next(reply).count;
    tn_text_add(text, ",\"rights\":[");
    for (uint32_t i = 0; i < count; i++) {
        (void)tn_http_reply_next(reply);
        struct tn_resp_value right = tn_http_reply_next(reply);
        struct tn_resp_value pattern = tn_http_reply_next(reply);
        tn_text_addf(text, "%s{\"right\":\"%.*s\",\"pattern\":", i > 0 ? "," : "", (int)right.len,
                     right.bytes);
        tn_json_string(text, pattern.bytes, pattern.len);
        tn_text_add(text, "}");
    }
    tn_text_add(text, "],");
    (void)tn_http_reply_next(reply);
    put_field(text, "now", reply);
    tn_text_add(text, ",");
    (void)tn_http_reply_next(reply);
    put_field(text, "history_since", reply);
    tn_text_add(
        text, ",\"shows\":[\"history\",\"sessions\",\"line\",\"fences\",\"handover\"" SANDBOX "]}");
}

static void put_result(struct tn_text *text, struct tn_reply *reply, tn_shape_fn *shape,
                       unsigned *status)
{
    struct tn_resp_value value = tn_http_reply_next(reply);

    if (value.type == TN_RESP_ERROR)
        put_error(text, value, status);
    else
        shape(text, reply, value, status);
}

void tn_reply_write(struct tn_text *text, struct tn_reply reply, tn_shape_fn *shape, bool many,
                    unsigned *status)
{
    unsigned ignored;

    if (!many || reply.bytes[0] == '-') {
        put_result(text, &reply, shape, status);
        return;
    }
    uint32_t count = tn_http_reply_next(&reply).count;
    for (uint32_t i = 0; i < count; i++) {
        tn_text_add(text, i == 0 ? "{\"results\":[" : ",");
        put_result(text, &reply, shape, &ignored);
    }
    tn_text_add(text, "]}");
}
