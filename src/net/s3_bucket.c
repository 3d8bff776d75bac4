/* s3_bucket.c - requests to a bucket of S3; s3_bucket.h.
 *
 * Happy path: the URL and the condition are written, the credentials are at hand or come, the
 * request is signed and sent, and its answer is judged and handed to the purpose. */
#include "net/s3_bucket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/net_url.h"
#include "base/time.h"

#define TIMEOUT_MAX TN_SEC(10)
enum { RECORD_MAX = 1 << 16, PAGE_MAX = 1 << 23, CONNECTIONS = 64 };

/* --- Answers ---------------------------------------------------------------------------------- */

static const char *find_element(const struct tn_s3_call *call, const char *from, const char *name,
                                size_t *ret_len)
{
    char open[48], close[48];

    (void)snprintf(open, sizeof open, "<%s>", name);
    (void)snprintf(close, sizeof close, "</%s>", name);
    const char *begin = strstr(from != NULL ? from : call->web.body, open);
    if (begin == NULL)
        return NULL;
    begin += strlen(open);
    const char *end = strstr(begin, close);
    *ret_len = end != NULL ? (size_t)(end - begin) : 0;
    return end != NULL ? begin : NULL;
}

bool tn_s3_etag(const struct tn_s3_call *call, char ret_etag[TN_S3_ETAG])
{
    const char *etag = tn_web_header(&call->web, "etag");

    if (etag == NULL || etag[0] != '"' || strlen(etag) >= TN_S3_ETAG)
        return false; /* Weak ones do not tell two writes apart. */
    memcpy(ret_etag, etag, strlen(etag) + 1);
    return true;
}

/* S3's own word for what went wrong: "NoSuchKey". */
static void read_code(const struct tn_s3_call *call, char *ret_code, size_t size)
{
    size_t len = 0;
    const char *code = find_element(call, NULL, "Code", &len);

    (void)snprintf(ret_code, size, "%.*s", code != NULL && len < size ? (int)len : 0,
                   code != NULL ? code : "");
}

/* Answers which say that the region is another one, as far as they tell which. */
static void add_region(struct tn_text *text, const struct tn_s3_call *call)
{
    const char *region = tn_web_header(&call->web, "x-amz-bucket-region");
    size_t len = region != NULL ? strlen(region) : 0;

    if (region == NULL)
        region = find_element(call, NULL, "Region", &len);
    tn_text_addf(text, "region '%s' is not the bucket's", call->bucket->region);
    if (region != NULL && len > 0) {
        tn_text_add(text, "; add region=");
        tn_text_escape(text, region, len);
    } else {
        tn_text_add(text, "; name its own by region=, or AWS_REGION");
    }
}

static bool is_one_of(const char *code, const char *const *codes)
{
    while (*codes != NULL && strcmp(code, *codes) != 0)
        codes++;
    return *codes != NULL;
}

/* S3 refuses a token that has expired with 400, an unknown key with 403: the code tells. */
static const char *const key_errors[] = { "InvalidAccessKeyId", "ExpiredToken", "InvalidToken",
                                          "TokenRefreshRequired", NULL };

/* A server that is about to start answers 503, too, some of them with a Retry-After of a minute. S3
 * has a word of its own for too many requests. */
static const char *const slow_errors[] = { "SlowDown", "SlowDownRead", "SlowDownWrite",
                                           "TooManyRequests", NULL };

static bool is_denied(int http, const char *code)
{
    return http == 401 || http == 403 || is_one_of(code, key_errors);
}

static void add_denied(struct tn_text *text, const struct tn_s3_call *call, const char *code)
{
    if (strcmp(code, "SignatureDoesNotMatch") == 0) {
        tn_text_addf(text, "the secret key is wrong; the credentials are from %s",
                     tn_aws_source(call->bucket->aws));
    } else if (strcmp(code, "RequestTimeTooSkewed") == 0) {
        tn_text_add(text, "this machine's clock differs too much from the server's; set it");
    } else if (is_one_of(code, key_errors)) {
        tn_text_addf(text, "the access key is unknown or expired; the credentials are from %s",
                     tn_aws_source(call->bucket->aws));
        tn_aws_refused(call->bucket->aws);
    } else {
        tn_text_addf(text, "not permitted; allow s3:%s",
                     strcmp(call->web.method, "PUT") == 0
                         ? "PutObject below the prefix"
                         : "GetObject below the prefix and s3:ListBucket on the bucket");
    }
}

/* The line for people, behind "s3 BUCKET: ". */
static void explain(struct tn_s3_call *call, const char *code)
{
    int http = call->web.http;
    struct tn_text text;

    tn_text_init(&text, call->error, sizeof call->error);
    tn_text_addf(&text, "s3 %s: ", call->bucket->name);
    if (call->web.status != 0)
        tn_text_add(&text, call->web.error);
    else if (http == 301 || http == 307 || strcmp(code, "AuthorizationHeaderMalformed") == 0 ||
             strcmp(code, "IllegalLocationConstraintException") == 0)
        add_region(&text, call);
    else if (strcmp(code, "NoSuchBucket") == 0)
        tn_text_add(&text, "there is no such bucket; make it, or check its name");
    else if (is_denied(http, code))
        add_denied(&text, call, code);
    else if (http == 429 || http == 503)
        tn_text_add(&text, "the server asks for fewer requests");
    else if (http == 501)
        tn_text_add(&text, "the server does not know conditional writes; nobody can lead there");
    else
        tn_text_addf(&text, "the server answers %d%s", http,
                     code[0] != '\0' ? "" : ", as S3 does not; is the endpoint right?");
    if (code[0] != '\0') {
        tn_text_add(&text, " (");
        tn_text_escape(&text, code, strlen(code));
        tn_text_add(&text, ")");
    }
    tn_text_cut(&text);
}

static enum tn_s3_result judge(struct tn_s3_call *call)
{
    const struct tn_web_req *web = &call->web;
    bool put = strcmp(call->web.method, "PUT") == 0;
    char code[48], etag[TN_S3_ETAG];

    if (web->status != 0) {
        explain(call, "");
        return put && (web->status == TENURE_E_TIMEOUT || web->status == TENURE_E_CLOSED)
                   ? TN_S3_UNKNOWN
                   : TN_S3_FAILED;
    }
    if (web->http == 200) {
        if (!put || tn_s3_etag(call, etag))
            return TN_S3_OK;
        (void)snprintf(call->error, sizeof call->error,
                       "s3 %s: the answer has no ETag; is this an S3 server?", call->bucket->name);
        return TN_S3_UNKNOWN;
    }
    read_code(call, code, sizeof code);
    if (web->http == 404 && strcmp(code, "NoSuchKey") == 0) /* Else it may be no S3 server. */
        return put ? TN_S3_CONFLICT : TN_S3_MISSING;
    if (web->http == 412)
        return TN_S3_CONFLICT;
    explain(call, code);
    if (web->http == 429 || is_one_of(code, slow_errors))
        tn_web_slow_down(call->bucket->web, web,
                         call->error + strlen("s3 : ") + strlen(call->bucket->name));
    if (is_denied(web->http, code))
        return TN_S3_DENIED;
    /* 409: S3 found another writer at the same time, and does not say who won. */
    return put && (web->http == 409 || (web->http >= 500 && web->http != 501)) ? TN_S3_UNKNOWN
                                                                               : TN_S3_FAILED;
}

static void ask_bucket(struct tn_s3_call *call, const char *method, size_t body_max,
                       tn_s3_heard *heard);

/* The answer to a PUT says nothing of the request, so without TLS it may be an older one that the
 * network repeats. The object itself tells: each that is written has a number of its own in it. */
static enum tn_s3_result judge_proof(struct tn_s3_call *call, enum tn_s3_result result)
{
    const struct tn_web_req *web = &call->web;
    char why[256], etag[TN_S3_ETAG] = "";
    bool found = result == TN_S3_OK && tn_s3_etag(call, etag);

    if (found && web->body_len == strlen(call->body) &&
        memcmp(web->body, call->body, web->body_len) == 0) {
        memcpy(call->etag, etag, sizeof etag);
        return TN_S3_OK;
    }
    /* The condition has the ETag before. Whoever has written since could do so because of this. */
    if (call->frees &&
        (result == TN_S3_MISSING || (found && strstr(call->condition, etag) == NULL)))
        return TN_S3_OK;
    (void)snprintf(why, sizeof why, "%.255s", call->error);
    (void)snprintf(call->error, sizeof call->error,
                   "s3 %s: the object is not as it was written: %s", call->bucket->name,
                   result == TN_S3_OK        ? "another client has written, or an answer was an "
                                               "older one that the network repeats"
                   : result == TN_S3_MISSING ? "it is not there"
                                             : why);
    return TN_S3_UNKNOWN;
}

static void hear_answer(struct tn_web_req *web)
{
    struct tn_s3_call *call = web->arg;
    struct tn_s3_bucket *bucket = call->bucket;
    const char *server = web->status == 0 ? tn_web_header(web, "server") : NULL;

    if (server != NULL && bucket->server[0] == '\0') {
        struct tn_text text;
        tn_text_init(&text, bucket->server, sizeof bucket->server);
        tn_text_escape(&text, server, strlen(server));
    }
    enum tn_s3_result result = judge(call);
    if (result == TN_S3_OK && !call->proves)
        (void)tn_s3_etag(call, call->etag);
    if (call->proves) {
        call->proves = false;
        result = judge_proof(call, result);
    } else if (result == TN_S3_OK && strcmp(web->method, "PUT") == 0 &&
               strncmp(call->url, "http:", 5) == 0) {
        call->proves = true;
        ask_bucket(call, "GET", RECORD_MAX, call->heard);
        return;
    }
    call->heard(call, result);
}

/* --- Sending ---------------------------------------------------------------------------------- */

static void send_call(struct tn_s3_call *call)
{
    struct tn_s3_bucket *bucket = call->bucket;
    struct tn_aws_keys keys;
    struct tn_aws_sign sign = { .region = bucket->region,
                                .service = "s3",
                                .key_id = keys.id,
                                .secret = keys.secret,
                                .session_token = keys.token };

    if (!tn_aws_get(bucket->aws, &keys)) {
        (void)snprintf(call->error, sizeof call->error, "s3 %s: no credentials", bucket->name);
        call->heard(call, TN_S3_DENIED);
        return;
    }
    call->web.aws = &sign;
    tn_web_start(bucket->web, &call->web);
}

static void hear_keys(struct tn_aws_wait *wait)
{
    struct tn_s3_call *call = wait->arg;

    call->awaits = false;
    if (wait->status == 0) {
        send_call(call);
        return;
    }
    (void)snprintf(call->error, sizeof call->error, "s3 %s: %.300s", call->bucket->name,
                   wait->error);
    call->heard(call, wait->status == TENURE_E_DENIED ? TN_S3_DENIED : TN_S3_FAILED);
}

static void ask_bucket(struct tn_s3_call *call, const char *method, size_t body_max,
                       tn_s3_heard *heard)
{
    tenure_ns patience = call->bucket->patience;
    bool put = strcmp(method, "PUT") == 0;

    call->heard = heard;
    call->error[0] = '\0';
    call->headers[0] = put ? call->condition : NULL;
    call->headers[1] = put ? "Content-Type: application/json" : NULL;
    call->web = (struct tn_web_req) {
        .method = method,
        .url = call->url,
        .headers = call->headers,
        .send = put ? call->body : NULL,
        .send_len = put ? strlen(call->body) : 0,
        .timeout = patience > 0 && patience < TIMEOUT_MAX ? patience : TIMEOUT_MAX,
        .body_max = body_max,
        .urgent = call->urgent,
        .done = hear_answer,
        .arg = call,
    };
    call->wait = (struct tn_aws_wait) { .done = hear_keys, .arg = call };
    call->awaits = true;
    tn_aws_await(call->bucket->aws, &call->wait);
}

static void write_url(struct tn_s3_call *call, const char *key)
{
    const struct tn_s3_bucket *bucket = call->bucket;
    struct tn_text text;

    tn_text_init(&text, call->url, sizeof call->url);
    tn_text_add(&text, bucket->root);
    tn_web_escape(&text, bucket->prefix, strlen(bucket->prefix), "/");
    tn_web_escape(&text, key, strlen(key), "/");
    TN_ASSERT(!tn_text_truncated(&text));
}

void tn_s3_get(struct tn_s3_call *call, const char *key, tn_s3_heard *heard)
{
    write_url(call, key);
    ask_bucket(call, "GET", RECORD_MAX, heard);
}

void tn_s3_put(struct tn_s3_call *call, const char *key, const char *etag, bool frees,
               tn_s3_heard *heard)
{
    write_url(call, key);
    call->frees = frees;
    (void)snprintf(call->condition, sizeof call->condition,
                   etag[0] != '\0' ? "If-Match: %s" : "If-None-Match: *", etag);
    ask_bucket(call, "PUT", RECORD_MAX, heard);
}

void tn_s3_get_page(struct tn_s3_call *call, const char *prefix, const char *token,
                    tn_s3_heard *heard)
{
    const struct tn_s3_bucket *bucket = call->bucket;
    struct tn_text text;

    tn_text_init(&text, call->url, sizeof call->url);
    tn_text_addf(&text, "%s?list-type=2&encoding-type=url&prefix=", bucket->root);
    tn_web_escape(&text, bucket->prefix, strlen(bucket->prefix), "");
    tn_web_escape(&text, prefix, strlen(prefix), "");
    if (token != NULL) {
        tn_text_add(&text, "&continuation-token=");
        tn_web_escape(&text, token, strlen(token), "");
    }
    if (tn_text_truncated(&text)) {
        (void)snprintf(call->error, sizeof call->error, "s3 %s: the list cannot be continued",
                       bucket->name);
        heard(call, TN_S3_FAILED);
        return;
    }
    ask_bucket(call, "GET", PAGE_MAX, heard);
}

/* A key as the list has it, in which a plus is a blank. */
static bool read_key(const struct tn_s3_call *call, const char *text, size_t len,
                     char ret_key[TN_S3_URL])
{
    const char *prefix = call->bucket->prefix;
    char raw[TN_S3_URL], key[TN_S3_URL];

    if (len >= sizeof raw)
        return false;
    for (size_t i = 0; i < len; i++)
        raw[i] = (char)(text[i] == '+' ? ' ' : text[i]);
    if (!tn_url_decode(key, sizeof key, raw, len) || strncmp(key, prefix, strlen(prefix)) != 0)
        return false;
    (void)snprintf(ret_key, TN_S3_URL, "%s", key + strlen(prefix));
    return true;
}

bool tn_s3_is_page(const struct tn_s3_call *call)
{
    return strstr(call->web.body, "<ListBucketResult") != NULL;
}

bool tn_s3_next_key(const struct tn_s3_call *call, const char **at, char ret_key[TN_S3_URL])
{
    size_t len = 0;

    while ((*at = find_element(call, *at, "Key", &len)) != NULL)
        if (read_key(call, *at, len, ret_key))
            return true;
    return false;
}

bool tn_s3_next_page(const struct tn_s3_call *call, char *ret_token, size_t size)
{
    size_t len = 0;
    const char *token = find_element(call, NULL, "NextContinuationToken", &len);

    if (token == NULL || len >= size)
        return false;
    memcpy(ret_token, token, len);
    ret_token[len] = '\0';
    return true;
}

/* --- Calls ------------------------------------------------------------------------------------ */

void *tn_s3_call_new(struct tn_s3_bucket *bucket, size_t size)
{
    struct tn_s3_call *call = calloc(1, size);

    TN_ASSERT(size >= sizeof *call);
    if (call == NULL)
        return NULL;
    call->bucket = bucket;
    call->next = bucket->calls;
    bucket->calls = call;
    return call;
}

void tn_s3_call_free(struct tn_s3_call *call)
{
    struct tn_s3_call **link = &call->bucket->calls;

    while (*link != call)
        link = &(*link)->next;
    *link = call->next;
    free(call);
}

struct tn_s3_call *tn_s3_call_marked(const struct tn_s3_bucket *bucket, int mark)
{
    struct tn_s3_call *call = bucket->calls;

    while (call != NULL && call->mark != mark)
        call = call->next;
    return call;
}

/* --- Opening and closing ---------------------------------------------------------------------- */

/* Amazon's buckets are hosts, unless the name has a dot, which no certificate covers; elsewhere
 * they are the first part of the path. */
static int set_root(struct tn_s3_bucket *bucket, const struct tn_s3_address *address,
                    struct tn_text *reterr)
{
    char at[256];
    struct tn_text text, root;
    const char *region = address->region[0] != '\0' ? address->region : tn_aws_region(bucket->aws);

    tn_text_init(&text, at, sizeof at);
    tn_text_init(&root, bucket->root, sizeof bucket->root);
    if (address->endpoint[0] != '\0')
        tn_text_add(&text, address->endpoint);
    else
        tn_aws_endpoint(bucket->aws, "s3", region, &text);
    bool amazon = strstr(at, ".amazonaws.com") != NULL && address->endpoint[0] == '\0';
    if (region[0] == '\0' && amazon) {
        tn_text_addf(reterr, "s3 %s: there is no region; add ?region=REGION, or set AWS_REGION",
                     bucket->name);
        return TENURE_E_INVALID;
    }
    (void)snprintf(bucket->region, sizeof bucket->region, "%s",
                   region[0] != '\0' ? region : "us-east-1");
    if (amazon && strchr(bucket->name, '.') == NULL)
        tn_text_addf(&root, "https://%s.%s/", bucket->name, at + strlen("https://"));
    else
        tn_text_addf(&root, "%s%s%s/", at, at[text.len - 1] == '/' ? "" : "/", bucket->name);
    if (!tn_text_truncated(&root) && !tn_text_truncated(&text))
        return 0;
    tn_text_addf(reterr, "s3 %s: the endpoint's URL is too long", bucket->name);
    return TENURE_E_INVALID;
}

static void set_prefix(struct tn_s3_bucket *bucket, const char *path)
{
    size_t len = strlen(path);

    while (len > 0 && path[len - 1] == '/')
        len--;
    (void)snprintf(bucket->prefix, sizeof bucket->prefix, "%.*s%s", (int)len, path,
                   len > 0 ? "/" : "");
}

int tn_s3_bucket_open(struct tn_s3_bucket *ret_bucket, struct uv_loop_s *loop,
                      const struct tn_s3_address *address, struct tn_text *reterr)
{
    struct tn_s3_bucket bucket = { .patience = address->patience };
    const struct tn_web_options options = { .ca_file = address->ca, .connections = CONNECTIONS };
    int rc = tn_web_open(loop, &options, &bucket.web, reterr);

    if (rc < 0)
        return rc;
    (void)snprintf(bucket.name, sizeof bucket.name, "%s", address->bucket);
    set_prefix(&bucket, address->path);
    rc = tn_aws_open(bucket.web, &bucket.aws, reterr);
    if (rc == 0)
        rc = set_root(&bucket, address, reterr);
    if (rc == 0) {
        *ret_bucket = bucket;
        return 0;
    }
    tn_aws_free(bucket.aws);
    tn_web_close(bucket.web, NULL, NULL);
    return rc;
}

static struct tn_s3_call *find_awaiting(const struct tn_s3_bucket *bucket)
{
    struct tn_s3_call *call = bucket->calls;

    while (call != NULL && !call->awaits)
        call = call->next;
    return call;
}

void tn_s3_bucket_close(struct tn_s3_bucket *bucket, void (*closed)(void *arg), void *arg)
{
    struct tn_s3_call *call;

    while ((call = find_awaiting(bucket)) != NULL) {
        tn_aws_forget(bucket->aws, &call->wait);
        call->awaits = false;
        (void)snprintf(call->error, sizeof call->error, "the store is closed");
        call->heard(call, TN_S3_FAILED);
    }
    tn_web_close(bucket->web, closed, arg);
}

void tn_s3_bucket_free(struct tn_s3_bucket *bucket)
{
    tn_aws_free(bucket->aws);
}
