/* dynamodb.c - `dynamodb://TABLE` as a fence: one item per resource, raised by a conditional write.
 *
 * The item's key has "#fence/" before the resource; fenceToken is the highest token. Applications
 * put the same condition into their own writes (docs/stores/dynamodb.md): there check and effect
 * are one step of the table.
 * What can fail: the table, the network, the credentials; a write without an answer may have
 * happened, and raising again tells. */
#include "receivers/target.h"

#ifdef TN_HAVE_WEB

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/name.h"
#include "base/number.h"
#include "net/dynamodb.h"

#define FENCE "#fence/"

enum { PAGE = 500, PAGE_VALUES = 10000, PAGE_MAX = 4 << 20 };

struct dynamo_fence {
    uv_loop_t loop;
    struct tn_dynamo *dynamo;
    tenure_ns timeout;
    bool ended;
    char *answer; /* What the call's values point into. */
    struct tn_dynamo_call call;
};

static void mark_closed(void *arg)
{
    struct dynamo_fence *fence = arg;

    fence->ended = true;
}

static void close_table(void *self)
{
    struct dynamo_fence *fence = self;

    fence->ended = false;
    tn_dynamo_close(fence->dynamo, mark_closed, fence);
    while (!fence->ended)
        (void)uv_run(&fence->loop, UV_RUN_ONCE);
    (void)uv_run(&fence->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&fence->loop);
    free(fence->answer);
    free(fence);
}

static int open_table(const char *url, const struct tn_fence_options *options, void **ret_self,
                      struct tn_text *reterr)
{
    struct dynamo_fence *fence = calloc(1, sizeof *fence);
    tenure_ns poll = 0;

    if (fence == NULL || uv_loop_init(&fence->loop) != 0) {
        free(fence);
        tn_text_add(reterr, "out of memory");
        return TENURE_E_NOMEM;
    }
    int rc = tn_dynamo_open(&fence->loop, strchr(url, ':') + 1, &poll, &fence->dynamo, reterr);
    if (rc < 0) {
        (void)uv_loop_close(&fence->loop);
        free(fence);
        return rc;
    }
    fence->timeout = options->timeout;
    *ret_self = fence;
    return 0;
}

/* --- Calls ------------------------------------------------------------------------------------ */

/* The answer is the client's and gone after this call: keep a copy. */
static void mark_ended(struct tn_dynamo_call *call)
{
    struct dynamo_fence *fence = call->arg;

    fence->ended = true;
    if (call->count == 0)
        return;
    fence->answer = malloc(call->req.body_len + 1);
    if (fence->answer == NULL) {
        call->outcome = TN_DYNAMO_UNKNOWN;
        (void)snprintf(call->error, sizeof call->error, "dynamodb: out of memory");
        return;
    }
    memcpy(fence->answer, call->req.body, call->req.body_len + 1);
    for (uint32_t i = 0; i < call->count; i++)
        if (call->values[i].type == TN_JSON_STRING || call->values[i].type == TN_JSON_NUMBER)
            call->values[i].bytes = fence->answer + (call->values[i].bytes - call->req.body);
}

/* Send the call and wait for it. A condition that does not hold is TENURE_E_STALE. */
static int ask_table(struct dynamo_fence *fence, struct tn_text *reterr)
{
    static const int codes[] = {
        [TN_DYNAMO_OK] = 0,
        [TN_DYNAMO_CONDITION] = TENURE_E_STALE,
        [TN_DYNAMO_CONFLICT] = TENURE_E_UNAVAILABLE,
        [TN_DYNAMO_THROTTLED] = TENURE_E_UNAVAILABLE,
        [TN_DYNAMO_REFUSED] = TENURE_E_DAMAGED,
        [TN_DYNAMO_DENIED] = TENURE_E_DENIED,
        [TN_DYNAMO_FAILED] = TENURE_E_UNAVAILABLE,
        [TN_DYNAMO_UNKNOWN] = TENURE_E_TIMEOUT,
    };

    free(fence->answer);
    fence->answer = NULL;
    fence->ended = false;
    fence->call.done = mark_ended;
    fence->call.arg = fence;
    fence->call.timeout = fence->timeout;
    fence->call.urgent = true; /* Of a writer that waits for it. */
    tn_text_add(&fence->call.body, "}");
    tn_dynamo_send(&fence->call);
    while (!fence->ended)
        (void)uv_run(&fence->loop, UV_RUN_ONCE);
    int rc = codes[fence->call.outcome];
    if (rc < 0 && rc != TENURE_E_STALE)
        tn_text_add(reterr, fence->call.error);
    return rc;
}

static void begin(struct dynamo_fence *fence, const char *action, const char *resource)
{
    struct tn_dynamo_call *call = &fence->call;

    call->values = NULL; /* Those of the call itself. */
    tn_dynamo_begin(fence->dynamo, call, action);
    if (resource == NULL)
        return;
    tn_text_add(&call->body, ",\"Key\":");
    tn_dynamo_add_key(call, FENCE, resource);
}

/* The token of the fence item at @index. */
static int read_token(const struct dynamo_fence *fence, uint32_t index, uint64_t *ret_token,
                      struct tn_text *reterr)
{
    const struct tn_json_value *value =
        tn_dynamo_attribute(fence->call.values, index, "fenceToken", "N");
    char digits[24];

    if (value != NULL && value->len < sizeof digits) {
        memcpy(digits, value->bytes, value->len);
        digits[value->len] = '\0';
        if (tn_u64_parse(digits, ret_token) == 0)
            return 0;
    }
    tn_text_add(reterr, "dynamodb: an item of the fence has no whole number fenceToken");
    return TENURE_E_DAMAGED;
}

/* The item of an answer, or of a refusal; without one *@ret_token is left alone. */
static int read_item(const struct dynamo_fence *fence, uint64_t *ret_token, bool *ret_there,
                     struct tn_text *reterr)
{
    const struct tn_json_value *item = tn_json_get(fence->call.values, 0, "Item");

    *ret_there = item != NULL && item->type == TN_JSON_OBJECT;
    return *ret_there ? read_token(fence, (uint32_t)(item - fence->call.values), ret_token, reterr)
                      : 0;
}

static int show(void *self, const char *resource, uint64_t *ret_highest, struct tn_text *reterr)
{
    struct dynamo_fence *fence = self;
    bool there;

    begin(fence, "GetItem", resource);
    tn_text_add(&fence->call.body, ",\"ConsistentRead\":true");
    int rc = ask_table(fence, reterr);
    if (rc < 0)
        return rc;
    *ret_highest = 0;
    return read_item(fence, ret_highest, &there, reterr);
}

/* The other attributes are those that the listing of Amazon's lock client expects in every item. */
static void add_update(struct dynamo_fence *fence, const char *condition, uint64_t token)
{
    tn_text_addf(&fence->call.body,
                 ",\"UpdateExpression\":\"SET #f=:f,#o=:o,#l=:l,#r=:r,#i=:i\""
                 ",\"ConditionExpression\":\"%s\""
                 ",\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\""
                 ",\"ExpressionAttributeNames\":{\"#f\":\"fenceToken\",\"#o\":\"ownerName\","
                 "\"#l\":\"leaseDuration\",\"#r\":\"recordVersionNumber\",\"#i\":\"isReleased\"}"
                 ",\"ExpressionAttributeValues\":{\":f\":{\"N\":\"%" PRIu64 "\"},"
                 "\":o\":{\"S\":\"tenure\"},\":l\":{\"S\":\"1000\"},\":r\":{\"S\":\"fence\"},"
                 "\":i\":{\"S\":\"1\"}}",
                 condition, token);
}

static int raise_fence(void *self, const char *resource, uint64_t token, uint64_t *ret_highest,
                       struct tn_text *reterr)
{
    struct dynamo_fence *fence = self;
    bool there = false;

    begin(fence, "UpdateItem", resource);
    add_update(fence, "attribute_not_exists(#f) OR #f<=:f", token);
    int rc = ask_table(fence, reterr);
    if (rc == 0)
        *ret_highest = token;
    if (rc != TENURE_E_STALE)
        return rc;
    int looked = read_item(fence, ret_highest, &there, reterr);
    if (looked == 0 && !there) /* A server that does not send the item along. */
        looked = show(self, resource, ret_highest, reterr);
    return looked < 0 ? looked : rc;
}

/* A write whose condition never holds: refused by it, if it is permitted at all. */
static int probe(void *self, const char *resource, struct tn_text *reterr)
{
    struct dynamo_fence *fence = self;

    begin(fence, "UpdateItem", resource);
    add_update(fence, "attribute_exists(#f) AND attribute_not_exists(#f)", 0);
    int rc = ask_table(fence, reterr);
    return rc == TENURE_E_STALE ? 0 : rc;
}

/* --- All fences ------------------------------------------------------------------------------- */

struct fence_line {
    char resource[TN_NAME_MAX + 1];
    uint64_t token;
};

struct fence_lines {
    struct fence_line *list;
    size_t count, size;
    char from[2049]; /* The key that the next page begins behind; empty: it is the first. */
};

static int compare_lines(const void *a, const void *b)
{
    return strcmp(((const struct fence_line *)a)->resource,
                  ((const struct fence_line *)b)->resource);
}

static int add_line(const struct dynamo_fence *fence, struct fence_lines *lines, uint32_t at,
                    struct tn_text *reterr)
{
    const struct tn_json_value *key =
        tn_dynamo_attribute(fence->call.values, at, tn_dynamo_key(fence->dynamo), "S");
    size_t front = sizeof FENCE - 1;
    uint64_t token;

    if (key == NULL || key->len <= front || memcmp(key->bytes, FENCE, front) != 0 ||
        tn_name_check(key->bytes + front, key->len - front, NULL) < 0)
        return 0;
    int rc = read_token(fence, at, &token, reterr);
    if (rc < 0)
        return rc;
    if (lines->count == lines->size) {
        size_t size = lines->size > 0 ? 2 * lines->size : 64;
        void *larger = realloc(lines->list, size * sizeof lines->list[0]);
        if (larger == NULL)
            return TENURE_E_NOMEM;
        lines->list = larger;
        lines->size = size;
    }
    struct fence_line *line = &lines->list[lines->count++];
    memcpy(line->resource, key->bytes + front, key->len - front);
    line->resource[key->len - front] = '\0';
    line->token = token;
    return 0;
}

/* One page; *@ret_more: there is another. */
static int scan(struct dynamo_fence *fence, struct tn_json_value *values, struct fence_lines *lines,
                bool *ret_more, struct tn_text *reterr)
{
    struct tn_text *body = &fence->call.body;
    const char *key = tn_dynamo_key(fence->dynamo);

    begin(fence, "Scan", NULL);
    fence->call.values = values;
    fence->call.values_max = PAGE_VALUES;
    fence->call.answer_max = PAGE_MAX;
    tn_text_addf(body,
                 ",\"ConsistentRead\":true,\"Limit\":%d,\"FilterExpression\":\"begins_with(#k,:p)\""
                 ",\"ProjectionExpression\":\"#k,#f\",\"ExpressionAttributeValues\":{\":p\":{\"S\":"
                 "\"%s\"}},\"ExpressionAttributeNames\":{\"#f\":\"fenceToken\",\"#k\":",
                 (int)PAGE, FENCE);
    tn_json_string(body, key, strlen(key));
    tn_text_add(body, "}");
    if (lines->from[0] != '\0') {
        tn_text_add(body, ",\"ExclusiveStartKey\":{");
        tn_json_string(body, key, strlen(key));
        tn_text_add(body, ":{\"S\":");
        tn_json_string(body, lines->from, strlen(lines->from));
        tn_text_add(body, "}}");
    }
    int rc = ask_table(fence, reterr);
    const struct tn_json_value *items = rc == 0 ? tn_json_get(values, 0, "Items") : NULL;
    uint32_t at = items != NULL ? (uint32_t)(items - values) + 1 : 0;
    for (uint32_t i = 0; rc == 0 && items != NULL && i < items->count; i++, at = values[at].next)
        rc = values[at].type == TN_JSON_OBJECT ? add_line(fence, lines, at, reterr) : 0;
    const struct tn_json_value *last = rc == 0 ? tn_json_get(values, 0, "LastEvaluatedKey") : NULL;
    const struct tn_json_value *next =
        last != NULL && last->type == TN_JSON_OBJECT
            ? tn_dynamo_attribute(values, (uint32_t)(last - values), key, "S")
            : NULL;
    *ret_more = next != NULL && next->len < sizeof lines->from;
    if (*ret_more)
        (void)snprintf(lines->from, sizeof lines->from, "%.*s", (int)next->len, next->bytes);
    return rc;
}

static int list(void *self, tn_fence_each each, void *arg, struct tn_text *reterr)
{
    struct dynamo_fence *fence = self;
    struct tn_json_value *values = calloc(PAGE_VALUES, sizeof *values);
    struct fence_lines lines = { NULL, 0, 0, "" };
    bool more = true;
    int rc = values != NULL ? 0 : TENURE_E_NOMEM;

    while (rc == 0 && more)
        rc = scan(fence, values, &lines, &more, reterr);
    if (rc == 0 && lines.count > 0)
        qsort(lines.list, lines.count, sizeof lines.list[0], compare_lines);
    for (size_t i = 0; rc == 0 && i < lines.count; i++)
        each(arg, lines.list[i].resource, lines.list[i].token);
    free(lines.list);
    free(values);
    return rc;
}

const struct tn_fence_ops tn_fence_dynamodb_ops = {
    .scheme = "dynamodb:",
    .form = "dynamodb://TABLE",
    .open = open_table,
    .close = close_table,
    .raise = raise_fence,
    .show = show,
    .list = list,
    .probe = probe,
};

#else

static int open_table(const char *url, const struct tn_fence_options *options, void **ret_self,
                      struct tn_text *reterr)
{
    (void)url;
    (void)options;
    (void)ret_self;
    tn_text_add(reterr, "this tenure was built without libcurl; install libcurl4-openssl-dev and "
                        "build it again");
    return TENURE_E_UNSUPPORTED;
}

const struct tn_fence_ops tn_fence_dynamodb_ops = {
    .scheme = "dynamodb:", .form = "dynamodb://TABLE", .open = open_table
};

#endif
