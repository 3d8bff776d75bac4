/* dynamodb.c - one signed POST per call, and what its answer means.
 *
 * Happy path: the caller has filled the body, the credentials are at hand, the request goes out and
 * its answer is JSON. What can fail: credentials that have to be fetched first; the network; and
 * the server's errors, which are told apart by their type. An answer that is neither success nor an
 * error of DynamoDB comes from something in between: the outcome is unknown. */
#include "net/dynamodb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/net_url.h"
#include "base/time.h"

static const char usage[] = "write dynamodb://TABLE[?region=REGION&endpoint=URL&key=ATTRIBUTE]";

/* Calls under way at once, each with a connection of its own. */
enum { CALLS_MAX = 64 };

struct tn_dynamo {
    struct tn_web *web;
    struct tn_aws *aws;
    unsigned under_way;
    bool closing;
    struct tn_dynamo_call *waiting; /* For others to end, the first to go first. */
    void (*closed)(void *arg);
    void *closed_arg;
    char table[TN_DYNAMO_KEY_MAX + 1];
    char key[TN_DYNAMO_KEY_MAX + 1];
    char region[65];
    char url[512];
};

/* --- The URL ---------------------------------------------------------------------------------- */

static int refuse_url(struct tn_text *reterr, const char *what)
{
    tn_text_addf(reterr, "dynamodb: %s; %s", what, usage);
    return TENURE_E_INVALID;
}

static bool is_table(const char *name)
{
    size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-");

    return name[len] == '\0' && len >= 3 && len <= TN_DYNAMO_KEY_MAX;
}

/* One NAME=VALUE of the query; false: unknown, or malformed. */
static bool read_option(struct tn_dynamo *dynamo, const char *text, size_t len, tenure_ns *ret_poll)
{
    const struct {
        const char *name;
        char *value;
        size_t size;
    } options[] = { { "region", dynamo->region, sizeof dynamo->region },
                    { "endpoint", dynamo->url, sizeof dynamo->url - 1 },
                    { "key", dynamo->key, sizeof dynamo->key } };
    const char *equal = memchr(text, '=', len);
    size_t name_len = equal != NULL ? (size_t)(equal - text) : 0;
    char poll[32];
    tenure_ns every;

    for (size_t i = 0; name_len > 0 && i < sizeof options / sizeof options[0]; i++)
        if (strlen(options[i].name) == name_len && memcmp(options[i].name, text, name_len) == 0)
            return tn_url_decode(options[i].value, options[i].size, equal + 1,
                                 len - name_len - 1) &&
                   options[i].value[0] != '\0';
    if (name_len != 4 || memcmp(text, "poll", 4) != 0 ||
        !tn_url_decode(poll, sizeof poll, equal + 1, len - name_len - 1) ||
        tn_duration_parse(poll, &every) < 0 || every < TN_MS(100) || every > TN_SEC(60))
        return false;
    *ret_poll = every;
    return true;
}

static int parse(struct tn_dynamo *dynamo, const char *rest, tenure_ns *ret_poll,
                 struct tn_text *reterr)
{
    size_t len = strcspn(rest, "?");
    const char *at = rest + len;

    (void)snprintf(dynamo->key, sizeof dynamo->key, "key"); /* As Amazon's lock client has it. */
    if (strncmp(rest, "//", 2) != 0)
        return refuse_url(reterr, "the two slashes before the table are missing");
    len -= 2;
    if (len > 0 && rest[2 + len - 1] == '/')
        len--;
    if (!tn_url_decode(dynamo->table, sizeof dynamo->table, rest + 2, len) ||
        !is_table(dynamo->table))
        return refuse_url(reterr, "a table's name has 3 to 255 of A-Z a-z 0-9 _ . -");
    while (*at != '\0') {
        at++;
        len = strcspn(at, "&");
        if (!read_option(dynamo, at, len, ret_poll))
            return refuse_url(reterr, "an option is unknown or malformed: there are region=, "
                                      "endpoint=, key= and poll= (100ms to 60s)");
        at += len;
    }
    if (dynamo->url[0] != '\0' && strncmp(dynamo->url, "http://", 7) != 0 &&
        strncmp(dynamo->url, "https://", 8) != 0)
        return refuse_url(reterr, "the endpoint must begin with http:// or https://");
    return 0;
}

/* Where it is: from the URL, else as for any AWS client. */
static int locate(struct tn_dynamo *dynamo, struct tn_text *reterr)
{
    char given[sizeof dynamo->url];
    struct tn_text url;

    if (dynamo->region[0] == '\0')
        (void)snprintf(dynamo->region, sizeof dynamo->region, "%s", tn_aws_region(dynamo->aws));
    if (dynamo->region[0] == '\0' && dynamo->url[0] != '\0')
        (void)snprintf(dynamo->region, sizeof dynamo->region, "us-east-1");
    if (dynamo->region[0] == '\0')
        return refuse_url(reterr, "no region; set ?region= or AWS_REGION");
    if (dynamo->region[strspn(dynamo->region, "abcdefghijklmnopqrstuvwxyz0123456789-")] != '\0')
        return refuse_url(reterr, "the region is malformed");
    memcpy(given, dynamo->url, sizeof given);
    tn_text_init(&url, dynamo->url, sizeof dynamo->url);
    if (given[0] != '\0')
        tn_text_add(&url, given);
    else
        tn_aws_endpoint(dynamo->aws, "dynamodb", dynamo->region, &url);
    if (url.len > 0 && dynamo->url[url.len - 1] != '/')
        tn_text_add(&url, "/");
    return 0;
}

/* --- Opening and closing ---------------------------------------------------------------------- */

static void web_closed(void *arg)
{
    struct tn_dynamo *dynamo = arg;
    void (*closed)(void *arg) = dynamo->closed;
    void *closed_arg = dynamo->closed_arg;

    tn_aws_free(dynamo->aws);
    free(dynamo);
    closed(closed_arg);
}

int tn_dynamo_open(struct uv_loop_s *loop, const char *rest, tenure_ns *ret_poll,
                   struct tn_dynamo **ret_dynamo, struct tn_text *reterr)
{
    const struct tn_web_options options = { 0 };
    struct tn_dynamo *dynamo = calloc(1, sizeof *dynamo);
    int rc = TENURE_E_NOMEM;

    if (dynamo == NULL) {
        tn_text_add(reterr, "out of memory");
        return rc;
    }
    rc = parse(dynamo, rest, ret_poll, reterr);
    if (rc == 0)
        rc = tn_aws_open(NULL, &dynamo->aws, reterr);
    if (rc == 0)
        rc = locate(dynamo, reterr);
    if (rc == 0) /* Last: it cannot be closed at once. */
        rc = tn_web_open(loop, &options, &dynamo->web, reterr);
    if (rc < 0) {
        tn_aws_free(dynamo->aws);
        free(dynamo);
        return rc;
    }
    tn_aws_attach(dynamo->aws, dynamo->web);
    *ret_dynamo = dynamo;
    return 0;
}

bool tn_dynamo_is_plain(const struct tn_dynamo *dynamo)
{
    return strncmp(dynamo->url, "http:", 5) == 0;
}

const char *tn_dynamo_table(const struct tn_dynamo *dynamo)
{
    return dynamo->table;
}

const char *tn_dynamo_key(const struct tn_dynamo *dynamo)
{
    return dynamo->key;
}

void tn_dynamo_where(const struct tn_dynamo *dynamo, struct tn_text *text)
{
    tn_text_addf(text, "table '%s' in %s at ", dynamo->table, dynamo->region);
    tn_web_where(text, dynamo->url);
}

/* --- Errors ----------------------------------------------------------------------------------- */

enum dynamo_advice { PLAIN, NO_TABLE, NOT_PERMITTED, BAD_KEYS, EXPIRED, INVALID };

/* What an error's type says about the call. */
static const struct {
    const char *type;
    enum tn_dynamo_outcome outcome;
    enum dynamo_advice advice;
} known_errors[] = {
    { "ConditionalCheckFailedException", TN_DYNAMO_CONDITION, PLAIN },
    { "TransactionCanceledException", TN_DYNAMO_REFUSED, PLAIN },
    { "TransactionConflictException", TN_DYNAMO_CONFLICT, PLAIN },
    { "TransactionInProgressException", TN_DYNAMO_UNKNOWN, PLAIN },
    { "ProvisionedThroughputExceededException", TN_DYNAMO_THROTTLED, PLAIN },
    { "ThrottlingException", TN_DYNAMO_THROTTLED, PLAIN },
    { "RequestLimitExceeded", TN_DYNAMO_THROTTLED, PLAIN },
    { "LimitExceededException", TN_DYNAMO_THROTTLED, PLAIN },
    { "InternalServerError", TN_DYNAMO_UNKNOWN, PLAIN },
    { "ServiceUnavailable", TN_DYNAMO_UNKNOWN, PLAIN },
    { "ResourceNotFoundException", TN_DYNAMO_REFUSED, NO_TABLE },
    { "AccessDeniedException", TN_DYNAMO_DENIED, NOT_PERMITTED },
    { "UnrecognizedClientException", TN_DYNAMO_DENIED, BAD_KEYS },
    { "InvalidSignatureException", TN_DYNAMO_DENIED, BAD_KEYS },
    { "IncompleteSignatureException", TN_DYNAMO_DENIED, BAD_KEYS },
    { "MissingAuthenticationTokenException", TN_DYNAMO_DENIED, BAD_KEYS },
    { "InvalidClientTokenId", TN_DYNAMO_DENIED, BAD_KEYS },
    { "ExpiredTokenException", TN_DYNAMO_DENIED, EXPIRED },
    { "ValidationException", TN_DYNAMO_REFUSED, INVALID },
    { "SerializationException", TN_DYNAMO_REFUSED, PLAIN },
};

static bool copy_text(const struct tn_json_value *value, char *ret_text, size_t size)
{
    struct tn_text text;

    if (value == NULL || value->type != TN_JSON_STRING)
        return false;
    tn_text_init(&text, ret_text, size);
    tn_text_escape(&text, value->bytes, value->len);
    tn_text_cut(&text);
    return true;
}

/* "... is not authorized to perform: dynamodb:PutItem on resource: ..." */
static void add_action(struct tn_text *text, const struct tn_dynamo_call *call, const char *message)
{
    static const char words[] = "to perform: ";
    const char *from = strstr(message, words);

    if (from == NULL) {
        tn_text_addf(text, "dynamodb:%s", call->action);
        return;
    }
    from += sizeof words - 1;
    tn_text_add_bytes(text, from, strcspn(from, " "));
}

static void explain(struct tn_dynamo_call *call, enum dynamo_advice advice, const char *type,
                    const char *message)
{
    struct tn_dynamo *dynamo = call->dynamo;
    bool schema = strstr(message, "schema") != NULL || strstr(message, "key") != NULL;
    bool skewed =
        strstr(message, "Signature expired") != NULL || strstr(message, "not yet current") != NULL;
    struct tn_text text;

    tn_text_init(&text, call->error, sizeof call->error);
    tn_text_add(&text, "dynamodb: ");
    if (advice == NO_TABLE) {
        tn_text_add(&text, "there is no ");
        tn_dynamo_where(dynamo, &text);
        tn_text_add(&text, "; make it as docs/stores/dynamodb.md says, or mend ?region=");
    } else if (advice == NOT_PERMITTED) {
        add_action(&text, call, message);
        tn_text_add(&text, " is not permitted on ");
        tn_dynamo_where(dynamo, &text);
        tn_text_addf(&text, " with the credentials from %s; allow it in their IAM policy",
                     tn_aws_source(dynamo->aws));
    } else if (advice == EXPIRED) {
        tn_text_addf(&text, "the credentials from %s are expired; renew them",
                     tn_aws_source(dynamo->aws));
    } else if (advice == BAD_KEYS && skewed) {
        tn_text_addf(&text, "this host's clock is wrong, set it: %s", message);
    } else if (advice == BAD_KEYS) {
        tn_text_addf(&text, "the credentials from %s are refused: %s: %s",
                     tn_aws_source(dynamo->aws), type, message);
    } else if (advice == INVALID && schema) {
        tn_dynamo_where(dynamo, &text);
        tn_text_addf(&text,
                     " needs a partition key '%s' of type S and no sort key, or name it by ?key=: "
                     "%s",
                     dynamo->key, message);
    } else {
        tn_dynamo_where(dynamo, &text);
        tn_text_addf(&text, ": %s%s%s", type, message[0] != '\0' ? ": " : "", message);
    }
    tn_text_cut(&text);
}

/* Why a transaction was cancelled: the reasons of its parts, the worst of which counts. */
static enum tn_dynamo_outcome judge_transaction(struct tn_dynamo_call *call,
                                                const struct tn_json_value *values,
                                                char *ret_reason, size_t size)
{
    const struct tn_json_value *reasons = tn_json_get(values, 0, "CancellationReasons");
    enum tn_dynamo_outcome outcome = TN_DYNAMO_REFUSED;
    uint32_t at;

    if (reasons == NULL || reasons->type != TN_JSON_ARRAY)
        return TN_DYNAMO_CONFLICT; /* Cancelled all the same: nothing was written. */
    at = (uint32_t)(reasons - values) + 1;
    for (uint32_t i = 0; i < reasons->count; i++, at = values[at].next) {
        const struct tn_json_value *code =
            values[at].type == TN_JSON_OBJECT ? tn_json_get(values, at, "Code") : NULL;
        if (code == NULL || code->type != TN_JSON_STRING || tn_json_is(code, "None"))
            continue;
        (void)copy_text(code, ret_reason, size);
        if (tn_json_is(code, "ConditionalCheckFailed")) {
            call->second = i > 0;
            return TN_DYNAMO_CONDITION;
        }
        if (tn_json_is(code, "TransactionConflict") || tn_json_is(code, "DuplicateItem"))
            outcome = TN_DYNAMO_CONFLICT;
        else if (tn_json_is(code, "ThrottlingError") ||
                 tn_json_is(code, "ProvisionedThroughputExceeded"))
            outcome = TN_DYNAMO_THROTTLED;
        else if (tn_json_is(code, "InternalServerError"))
            outcome = TN_DYNAMO_UNKNOWN;
    }
    return outcome;
}

/* The server's error, from {"__type":"...#TYPE","message":"..."}. */
static void judge_error(struct tn_dynamo_call *call, const struct tn_json_value *values, int count)
{
    const struct tn_json_value *kind = NULL;
    const struct tn_json_value *note = NULL;
    enum dynamo_advice advice = PLAIN;
    char type[80] = "";
    char message[256] = "";
    const char *word;

    if (count > 0 && values[0].type == TN_JSON_OBJECT) {
        kind = tn_json_get(values, 0, "__type");
        note = tn_json_get(values, 0, "message");
        note = note != NULL ? note : tn_json_get(values, 0, "Message");
    }
    call->outcome = TN_DYNAMO_UNKNOWN;
    if (!copy_text(kind, type, sizeof type)) {
        (void)snprintf(type, sizeof type, "status %d, and no error of DynamoDB with it",
                       call->req.http);
    }
    /* Whatever stands there, it did not let the request through. */
    if (call->req.http == 401 || call->req.http == 403)
        call->outcome = TN_DYNAMO_DENIED;
    (void)copy_text(note, message, sizeof message);
    word = strrchr(type, '#') != NULL ? strrchr(type, '#') + 1 : type;
    for (size_t i = 0; i < sizeof known_errors / sizeof known_errors[0]; i++) {
        if (strcmp(word, known_errors[i].type) == 0) {
            call->outcome = known_errors[i].outcome;
            advice = known_errors[i].advice;
        }
    }
    if (strcmp(word, "TransactionCanceledException") == 0)
        call->outcome = judge_transaction(call, values, message, sizeof message);
    if (advice == EXPIRED || advice == BAD_KEYS)
        tn_aws_refused(call->dynamo->aws);
    explain(call, advice, word, message);
    if (call->outcome == TN_DYNAMO_THROTTLED)
        tn_web_slow_down(call->dynamo->web, &call->req, call->error + strlen("dynamodb: "));
}

/* --- Calls ------------------------------------------------------------------------------------ */

static void start(struct tn_dynamo_call *call);

/* The call has its outcome; its memory may be gone afterwards. */
static void complete(struct tn_dynamo_call *call)
{
    struct tn_dynamo *dynamo = call->dynamo;
    struct tn_dynamo_call *next;

    dynamo->under_way--;
    call->done(call);
    next = dynamo->waiting;
    if (next == NULL || dynamo->closing || dynamo->under_way >= CALLS_MAX)
        return;
    dynamo->waiting = next->next;
    start(next);
}

static void finish_call(struct tn_dynamo_call *call, enum tn_dynamo_outcome outcome,
                        const char *why)
{
    struct tn_text text;

    call->outcome = outcome;
    tn_text_init(&text, call->error, sizeof call->error);
    tn_text_addf(&text, "dynamodb: %s", why);
    tn_text_cut(&text);
    complete(call);
}

/* Of an answer of 200: an object with a member that DynamoDB has, or with none at all. Another
 * server's words must not count as "there is no such item", nor as a grant. */
static bool is_answer(const struct tn_json_value *values, int count)
{
    static const char *const members[] = { "Item", "Items", "Attributes", "Count",
                                           "ConsumedCapacity" };

    if (count < 1 || values[0].type != TN_JSON_OBJECT)
        return false;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (tn_json_get(values, 0, members[i]) != NULL)
            return true;
    return values[0].count == 0;
}

static void answered(struct tn_web_req *req)
{
    struct tn_dynamo_call *call = req->arg;
    struct tn_json_value *values = call->values != NULL ? call->values : call->own;
    uint32_t max = call->values != NULL ? call->values_max : TN_DYNAMO_VALUES;

    if (req->status != 0) {
        bool unsent = req->status == TENURE_E_UNAVAILABLE || req->status == TENURE_E_NOMEM;
        finish_call(call, unsent ? TN_DYNAMO_FAILED : TN_DYNAMO_UNKNOWN, req->error);
        return;
    }
    call->values = values;
    int count = tn_json_read(req->body, req->body_len, values, max);
    call->count = count > 0 ? (uint32_t)count : 0;
    if (req->http != 200) {
        judge_error(call, values, count);
        complete(call);
    } else if (!is_answer(values, count)) {
        finish_call(call, TN_DYNAMO_UNKNOWN,
                    "the answer is not the JSON of DynamoDB; is the endpoint right?");
    } else {
        call->outcome = TN_DYNAMO_OK;
        call->error[0] = '\0';
        complete(call);
    }
}

static void send_signed(struct tn_dynamo_call *call)
{
    char target[128];
    const char *headers[] = { "Content-Type: application/x-amz-json-1.0", target, NULL };

    (void)snprintf(target, sizeof target, "X-Amz-Target: DynamoDB_20120810.%s", call->action);
    call->sign = (struct tn_aws_sign) { .region = call->dynamo->region,
                                        .service = "dynamodb",
                                        .key_id = call->keys.id,
                                        .secret = call->keys.secret,
                                        .session_token = call->keys.token };
    call->req = (struct tn_web_req) {
        .method = "POST",
        .url = call->dynamo->url,
        .headers = headers,
        .send = call->sent,
        .send_len = call->body.len,
        .timeout = call->timeout,
        .body_max = call->answer_max > 0 ? call->answer_max : 65536,
        .aws = &call->sign,
        .urgent = call->urgent,
        .done = answered,
        .arg = call,
    };
    tn_web_start(call->dynamo->web, &call->req);
}

static void have_keys(struct tn_aws_wait *wait)
{
    struct tn_dynamo_call *call = wait->arg;

    if (wait->status == 0 && tn_aws_get(call->dynamo->aws, &call->keys))
        send_signed(call);
    else
        finish_call(call, wait->status == TENURE_E_DENIED ? TN_DYNAMO_DENIED : TN_DYNAMO_FAILED,
                    wait->status != 0 ? wait->error : "the AWS credentials expired at once");
}

void tn_dynamo_begin(struct tn_dynamo *dynamo, struct tn_dynamo_call *call, const char *action)
{
    call->dynamo = dynamo;
    call->action = action;
    tn_text_init(&call->body, call->sent, sizeof call->sent);
    tn_text_addf(&call->body, "{\"TableName\":\"%s\"", dynamo->table);
}

void tn_dynamo_add_key(struct tn_dynamo_call *call, const char *prefix, const char *name)
{
    tn_text_add(&call->body, "{");
    tn_json_string(&call->body, call->dynamo->key, strlen(call->dynamo->key));
    tn_text_addf(&call->body, ":{\"S\":\"%s%s\"}}", prefix, name);
}

static void start(struct tn_dynamo_call *call)
{
    call->dynamo->under_way++;
    if (tn_text_truncated(&call->body)) {
        finish_call(call, TN_DYNAMO_REFUSED, "the request is too long");
    } else if (tn_aws_get(call->dynamo->aws, &call->keys)) {
        send_signed(call);
    } else {
        call->wait = (struct tn_aws_wait) { .done = have_keys, .arg = call };
        tn_aws_await(call->dynamo->aws, &call->wait);
    }
}

void tn_dynamo_send(struct tn_dynamo_call *call)
{
    struct tn_dynamo_call **link = &call->dynamo->waiting;

    call->second = false;
    call->count = 0;
    call->outcome = TN_DYNAMO_UNKNOWN;
    if (call->dynamo->under_way < CALLS_MAX) {
        start(call);
        return;
    }
    /* A term may depend on a write: it overtakes all that reads. */
    bool writes = strcmp(call->action, "UpdateItem") == 0;
    while (*link != NULL && (!writes || strcmp((*link)->action, "UpdateItem") == 0))
        link = &(*link)->next;
    call->next = *link;
    *link = call;
}

void tn_dynamo_close(struct tn_dynamo *dynamo, void (*closed)(void *arg), void *arg)
{
    struct tn_dynamo_call *call;

    dynamo->closed = closed;
    dynamo->closed_arg = arg;
    dynamo->closing = true;
    while ((call = dynamo->waiting) != NULL) {
        dynamo->waiting = call->next;
        dynamo->under_way++; /* As if it had been sent. */
        finish_call(call, TN_DYNAMO_FAILED, "the store is closed");
    }
    tn_web_close(dynamo->web, web_closed, dynamo);
}

const struct tn_json_value *tn_dynamo_attribute(const struct tn_json_value *values, uint32_t index,
                                                const char *name, const char *type)
{
    const struct tn_json_value *typed = tn_json_get(values, index, name);
    const struct tn_json_value *value = NULL;

    if (typed != NULL && typed->type == TN_JSON_OBJECT)
        value = tn_json_get(values, (uint32_t)(typed - values), type);
    return value != NULL && value->type == TN_JSON_STRING ? value : NULL;
}
