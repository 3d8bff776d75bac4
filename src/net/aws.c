/* aws.c - how the credentials of AWS stay fresh; aws.h has the sources.
 *
 * Happy path: tn_aws_open decides on one source. Keys of the environment and of files are there at
 * once. The others are fetched by one request, or by three from an instance's metadata service,
 * when somebody asks for the first time, and again when half an hour, or half their life, is left.
 * What can fail: the source, and then all that wait are told why, and the next one asks again. */
#include "net/aws_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/time.h"
#include "wire/json.h"
enum {
    BODY_MAX = 1 << 16,
    TIMEOUT_S = 5,
    INSTANCE_TIMEOUT_S = 1, /* Elsewhere than at Amazon nobody answers. */
    LEFT_S = 1800,          /* Fetch again when less is left, */
    REFUSED_S = 10,
    MARGIN_S = 10, /* and do not use what expires on its way to the server. */
};

static int64_t wall_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec;
}

/* --- Dates ------------------------------------------------------------------------------------ */

static bool read_digits(const char *text, int count, int *ret_number)
{
    *ret_number = 0;
    for (int i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *ret_number = 10 * *ret_number + (text[i] - '0');
    }
    return true;
}

bool tn_aws_time_parse(const char *text, int64_t *ret_seconds)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd";
    int year, month, day, hour, minute, second;

    for (size_t i = 0; i < sizeof form - 1; i++)
        if (text[i] == '\0' || (form[i] != 'd' && text[i] != form[i]))
            return false;
    if (!read_digits(text, 4, &year) || !read_digits(text + 5, 2, &month) ||
        !read_digits(text + 8, 2, &day) || !read_digits(text + 11, 2, &hour) ||
        !read_digits(text + 14, 2, &minute) || !read_digits(text + 17, 2, &second))
        return false;
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 ||
        second > 60 || (text[19] != 'Z' && text[19] != '.'))
        return false;
    /* Years that begin in March have their leap day at the end. */
    int64_t from_march = month >= 3 ? month - 3 : month + 9;
    int64_t y = from_march >= 10 ? year - 1 : year;
    int64_t days =
        365 * y + y / 4 - y / 100 + y / 400 - 719468 + (153 * from_march + 2) / 5 + day - 1;
    *ret_seconds = days * 86400 + hour * 3600 + minute * 60 + second;
    return true;
}

/* --- Opening ---------------------------------------------------------------------------------- */

int tn_aws_open(struct tn_web *web, struct tn_aws **ret_aws, struct tn_text *reterr)
{
    struct tn_aws *aws = calloc(1, sizeof *aws);

    if (aws == NULL) {
        tn_text_add(reterr, "out of memory");
        return TENURE_E_NOMEM;
    }
    aws->web = web;
    int rc = tn_aws_configure(aws, reterr);
    if (rc < 0) {
        tn_aws_free(aws);
        return rc;
    }
    *ret_aws = aws;
    return 0;
}

void tn_aws_attach(struct tn_aws *aws, struct tn_web *web)
{
    aws->web = web;
}

void tn_aws_free(struct tn_aws *aws)
{
    TN_ASSERT(aws == NULL || aws->step == STEP_REST);
    free(aws);
}

/* --- Fetching --------------------------------------------------------------------------------- */

static void request_done(struct tn_web_req *req);

/* The fetch has ended: tell all that wait. Each may wait again at once. */
static void settle(struct tn_aws *aws, int status, const char *why)
{
    struct tn_aws_wait *wait = aws->waits;

    aws->step = STEP_REST;
    aws->waits = NULL;
    while (wait != NULL) {
        struct tn_aws_wait *next = wait->next;
        struct tn_text text;
        wait->status = status;
        tn_text_init(&text, wait->error, sizeof wait->error);
        tn_text_addf(&text, "no AWS credentials from %s: %s", tn_aws_source(aws), why);
        tn_text_cut(&text);
        wait->next = NULL;
        wait->done(wait);
        wait = next;
    }
}

static void keep_keys(struct tn_aws *aws, const struct tn_aws_keys *keys, const char *expiration)
{
    int64_t now = wall_now();
    int64_t expires_at = 0;

    if (expiration[0] != '\0' && !tn_aws_time_parse(expiration, &expires_at)) {
        settle(aws, TENURE_E_UNAVAILABLE, "the time of their expiry cannot be read");
        return;
    }
    if (expires_at != 0 && expires_at <= now + MARGIN_S) {
        settle(aws, TENURE_E_UNAVAILABLE, "those it gives are expired; check this host's clock");
        return;
    }
    aws->keys = *keys;
    aws->have = true;
    aws->expires_at = expires_at;
    aws->refresh_at =
        expires_at - (expires_at - now < 2 * LEFT_S ? (expires_at - now) / 2 : LEFT_S);
    settle(aws, 0, "");
}

static void start(struct tn_aws *aws, enum aws_step step, const char *method, const char *url,
                  const char *const *headers)
{
    bool instance = step >= STEP_TOKEN;

    aws->step = step;
    aws->req = (struct tn_web_req) {
        .method = method,
        .url = url,
        .headers = headers,
        .timeout = TN_SEC(instance ? INSTANCE_TIMEOUT_S : TIMEOUT_S),
        .body_max = BODY_MAX,
        .done = request_done,
        .arg = aws,
    };
    if (step == STEP_STS) {
        aws->req.send = aws->body;
        aws->req.send_len = strlen(aws->body);
        aws->req.aws = aws->source == SOURCE_ROLE ? &aws->lender_sign : NULL;
    }
    tn_web_start(aws->web, &aws->req);
}

static void add_form(struct tn_text *text, const char *name, const char *value)
{
    if (value[0] == '\0')
        return;
    tn_text_addf(text, "&%s=", name);
    tn_web_escape(text, value, strlen(value), "");
}

/* The token in a file, which its owner replaces now and then; empty: it cannot be read. */
static void read_token(const char *path, char *ret_token, size_t size)
{
    char *text = tn_aws_read_file(path);
    size_t len = text != NULL ? strcspn(text, "\r\n") : 0;

    ret_token[0] = '\0';
    if (text != NULL && len < size) {
        memcpy(ret_token, text, len);
        ret_token[len] = '\0';
    }
    free(text);
}

static void ask_sts(struct tn_aws *aws)
{
    static const char *const headers[] = { "Content-Type: application/x-www-form-urlencoded",
                                           "Accept: application/xml", NULL };
    const char *region = aws->region[0] != '\0' ? aws->region : "us-east-1";
    bool web_identity = aws->source == SOURCE_WEB_IDENTITY;
    char token[16384] = "";
    struct tn_text text;

    if (web_identity) {
        read_token(aws->token_file, token, sizeof token);
        if (token[0] == '\0') {
            settle(aws, TENURE_E_DENIED, "its token file is empty or cannot be read");
            return;
        }
    }
    tn_text_init(&text, aws->body, sizeof aws->body);
    tn_text_addf(&text, "Action=AssumeRole%s&Version=2011-06-15",
                 web_identity ? "WithWebIdentity" : "");
    add_form(&text, "RoleArn", aws->role);
    add_form(&text, "RoleSessionName", aws->session);
    add_form(&text, "ExternalId", web_identity ? "" : aws->external);
    add_form(&text, "WebIdentityToken", token);
    if (tn_text_truncated(&text)) {
        settle(aws, TENURE_E_DENIED, "its token is too long");
        return;
    }
    aws->lender_sign = (struct tn_aws_sign) { .region = region,
                                              .service = "sts",
                                              .key_id = aws->lender.id,
                                              .secret = aws->lender.secret,
                                              .session_token = aws->lender.token };
    tn_text_init(&text, aws->url, sizeof aws->url);
    tn_aws_endpoint(aws, "sts", region, &text);
    if (text.len > 0 && aws->url[text.len - 1] != '/')
        tn_text_add(&text, "/");
    start(aws, STEP_STS, "POST", aws->url, headers);
}

static void ask_container(struct tn_aws *aws)
{
    const char *file = tn_aws_env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    char token[8192] = "";
    char header[8300];
    const char *headers[] = { header, NULL };

    if (file[0] != '\0')
        read_token(file, token, sizeof token);
    else
        (void)tn_aws_set(token, sizeof token, tn_aws_env("AWS_CONTAINER_AUTHORIZATION_TOKEN"));
    if (file[0] != '\0' && token[0] == '\0') {
        settle(aws, TENURE_E_DENIED,
               "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE is empty or cannot be read");
        return;
    }
    if (strpbrk(token, "\r\n") != NULL) {
        settle(aws, TENURE_E_DENIED, "AWS_CONTAINER_AUTHORIZATION_TOKEN has a line break in it");
        return;
    }
    (void)snprintf(header, sizeof header, "Authorization: %s", token);
    start(aws, STEP_CONTAINER, "GET", aws->url, token[0] != '\0' ? headers : NULL);
}

static void ask_instance(struct tn_aws *aws, enum aws_step step, const char *role)
{
    char header[600];
    const char *headers[] = { header, NULL };

    if (step == STEP_TOKEN) {
        (void)snprintf(header, sizeof header, "X-aws-ec2-metadata-token-ttl-seconds: 21600");
        (void)snprintf(aws->url, sizeof aws->url, "%s/latest/api/token", aws->instance);
    } else {
        (void)snprintf(header, sizeof header, "X-aws-ec2-metadata-token: %s", aws->instance_token);
        (void)snprintf(aws->url, sizeof aws->url, "%s/latest/meta-data/iam/security-credentials/%s",
                       aws->instance, role);
    }
    start(aws, step, step == STEP_TOKEN ? "PUT" : "GET", aws->url, headers);
}

static void fetch(struct tn_aws *aws)
{
    if (aws->step != STEP_REST)
        return;
    switch (aws->source) {
    case SOURCE_WEB_IDENTITY:
    case SOURCE_ROLE:
        ask_sts(aws);
        break;
    case SOURCE_CONTAINER:
        ask_container(aws);
        break;
    case SOURCE_INSTANCE:
        ask_instance(aws, STEP_TOKEN, "");
        break;
    case SOURCE_KEYS:
        settle(aws, 0, "");
        break;
    case SOURCE_NONE:
        settle(aws, TENURE_E_DENIED,
               "neither environment, profile, container nor instance has any; set "
               "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE");
        break;
    }
}

/* --- Answers ---------------------------------------------------------------------------------- */

static bool copy_member(const struct tn_json_value *values, const char *key, char *ret_text,
                        size_t size)
{
    const struct tn_json_value *value = tn_json_get(values, 0, key);

    if (value == NULL || value->type != TN_JSON_STRING || value->len >= size)
        return false;
    memcpy(ret_text, value->bytes, value->len);
    ret_text[value->len] = '\0';
    return true;
}

/* What the container's and the instance's endpoints answer. */
static void read_json_keys(struct tn_aws *aws, struct tn_web_req *req)
{
    struct tn_json_value values[64];
    struct tn_aws_keys keys = { "", "", "" };
    char expiration[64] = "";
    int count = tn_json_read(req->body, req->body_len, values, 64);

    if (count < 1 || values[0].type != TN_JSON_OBJECT ||
        !copy_member(values, "AccessKeyId", keys.id, sizeof keys.id) ||
        !copy_member(values, "SecretAccessKey", keys.secret, sizeof keys.secret)) {
        settle(aws, TENURE_E_UNAVAILABLE, "the answer has no credentials in it");
        return;
    }
    (void)copy_member(values, "Token", keys.token, sizeof keys.token);
    (void)copy_member(values, "Expiration", expiration, sizeof expiration);
    keep_keys(aws, &keys, expiration);
}

/* The text of the first element @tag, which has no attributes and no children. */
static bool copy_element(const char *xml, const char *tag, char *ret_text, size_t size)
{
    char open[64];
    const char *from;

    (void)snprintf(open, sizeof open, "<%s>", tag);
    from = strstr(xml, open);
    if (from == NULL)
        return false;
    from += strlen(open);
    size_t len = strcspn(from, "<");
    if (len >= size || from[len] == '\0')
        return false;
    memcpy(ret_text, from, len);
    ret_text[len] = '\0';
    return true;
}

static void read_sts(struct tn_aws *aws, const struct tn_web_req *req)
{
    struct tn_aws_keys keys = { "", "", "" };
    char expiration[64] = "";

    if (!copy_element(req->body, "AccessKeyId", keys.id, sizeof keys.id) ||
        !copy_element(req->body, "SecretAccessKey", keys.secret, sizeof keys.secret) ||
        !copy_element(req->body, "SessionToken", keys.token, sizeof keys.token) ||
        !copy_element(req->body, "Expiration", expiration, sizeof expiration)) {
        settle(aws, TENURE_E_UNAVAILABLE, "the answer of STS has no credentials in it");
        return;
    }
    keep_keys(aws, &keys, expiration);
}

/* An answer that is no success: "AccessDenied: Not authorized to ...", or the number. */
static void fail_answer(struct tn_aws *aws, const struct tn_web_req *req)
{
    char code[80] = "";
    char message[200] = "";
    char why[300];
    struct tn_text text;

    tn_text_init(&text, why, sizeof why);
    if (aws->step == STEP_STS && copy_element(req->body, "Code", code, sizeof code)) {
        (void)copy_element(req->body, "Message", message, sizeof message);
        tn_text_add(&text, "STS refuses: ");
        tn_text_escape(&text, code, strlen(code));
        tn_text_add(&text, ": ");
        tn_text_escape(&text, message, strlen(message));
    } else if (aws->step >= STEP_ROLE && req->http == 404) {
        tn_text_add(&text, "the instance has no role");
    } else {
        tn_web_where(&text, aws->url);
        tn_text_addf(&text, " answers with status %d", req->http);
    }
    settle(aws, req->http >= 500 ? TENURE_E_UNAVAILABLE : TENURE_E_DENIED, why);
}

static void request_done(struct tn_web_req *req)
{
    struct tn_aws *aws = req->arg;
    size_t len = strcspn(req->body, "\r\n");
    char role[256];

    if (req->status != 0) {
        settle(aws, TENURE_E_UNAVAILABLE,
               aws->step == STEP_TOKEN ? "nobody answers there; elsewhere than at Amazon set "
                                         "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                                         "AWS_PROFILE"
                                       : req->error);
    } else if (req->http != 200) {
        fail_answer(aws, req);
    } else if (aws->step == STEP_STS) {
        read_sts(aws, req);
    } else if (aws->step == STEP_CONTAINER || aws->step == STEP_KEYS) {
        read_json_keys(aws, req);
    } else if (len == 0 || len >= sizeof role) {
        settle(aws, TENURE_E_UNAVAILABLE, "the answer cannot be read");
    } else if (aws->step == STEP_TOKEN) {
        req->body[len] = '\0';
        (void)snprintf(aws->instance_token, sizeof aws->instance_token, "%s", req->body);
        ask_instance(aws, STEP_ROLE, "");
    } else {
        struct tn_text text;
        tn_text_init(&text, role, sizeof role);
        tn_web_escape(&text, req->body, len, "");
        ask_instance(aws, STEP_KEYS, role);
    }
}

/* --- Asking ----------------------------------------------------------------------------------- */

bool tn_aws_get(struct tn_aws *aws, struct tn_aws_keys *ret_keys)
{
    int64_t now = wall_now();

    if (aws->have && aws->expires_at != 0 && now >= aws->refresh_at) {
        /* One attempt a minute is enough while the old ones are good. */
        aws->refresh_at = now + 60;
        aws->have = now + MARGIN_S < aws->expires_at;
        fetch(aws);
    }
    if (aws->have)
        *ret_keys = aws->keys;
    return aws->have;
}

void tn_aws_await(struct tn_aws *aws, struct tn_aws_wait *wait)
{
    struct tn_aws_wait **link = &aws->waits;

    while (*link != NULL)
        link = &(*link)->next;
    wait->next = NULL;
    *link = wait;
    fetch(aws);
}

void tn_aws_forget(struct tn_aws *aws, struct tn_aws_wait *wait)
{
    struct tn_aws_wait **link = &aws->waits;

    while (*link != NULL && *link != wait)
        link = &(*link)->next;
    if (*link != NULL)
        *link = wait->next;
}

void tn_aws_refused(struct tn_aws *aws)
{
    char unused[TN_ERROR_TEXT];
    struct tn_text ignored;
    int64_t now = wall_now();

    if (aws->step != STEP_REST || now < aws->refused_at + REFUSED_S)
        return;
    aws->refused_at = now;
    tn_text_init(&ignored, unused, sizeof unused);
    if (aws->source == SOURCE_KEYS)
        (void)tn_aws_configure(aws, &ignored);
    else
        aws->have = false;
}
