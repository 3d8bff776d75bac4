/* rest.c - requests to one of several equal servers; rest.h. */
#include "net/rest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_error(struct tn_rest_job *job)
{
    const struct tn_web_req *web = &job->web;
    size_t len = strcspn(web->body, "\r\n");
    struct tn_text text;

    tn_text_init(&text, job->error, sizeof job->error);
    if (web->status != 0) {
        tn_text_add(&text, web->error);
        return;
    }
    tn_text_addf(&text, "%s: ", job->rest->url.endpoints[job->at].where);
    if (len > 0)
        tn_text_add_line(&text, web->body, len < 300 ? len : 300);
    else
        tn_text_addf(&text, "HTTP status %d", web->http);
    tn_text_cut(&text);
}

static enum tn_rest_result result_of(const struct tn_web_req *web)
{
    if (web->status == TENURE_E_UNAVAILABLE || web->status == TENURE_E_NOMEM)
        return TN_REST_FAILED;
    if (web->status != 0 || web->http >= 500)
        return TN_REST_UNKNOWN;
    if (web->http == 401 || web->http == 403)
        return TN_REST_DENIED;
    return web->http >= 200 && web->http < 300 ? TN_REST_OK : TN_REST_REFUSED;
}

static void hear_web(struct tn_web_req *web)
{
    struct tn_rest_job *job = web->arg;
    struct tn_rest *rest = job->rest;

    job->result = result_of(web);
    if (job->result != TN_REST_OK)
        add_error(job);
    if (web->status == 0 &&
        (web->http == 429 || (web->http == 503 && tn_web_header(web, "Retry-After") != NULL)))
        tn_web_slow_down(rest->web, web, job->error);
    /* Several requests may fail with the same server: all of them together leave it once. */
    if ((job->result == TN_REST_FAILED || job->result == TN_REST_UNKNOWN) &&
        web->status != TENURE_E_CLOSED && rest->at == job->at)
        rest->at = (rest->at + 1) % rest->url.count;
    job->heard(job);
    free(job);
}

void tn_rest_start(struct tn_rest *rest, struct tn_rest_job *job, const char *method,
                   const char *path, const char *send, tenure_ns timeout)
{
    const struct tn_endpoint *endpoint = &rest->url.endpoints[rest->at];
    bool v6 = strchr(endpoint->host, ':') != NULL;
    const char *headers[] = { rest->header[0] != '\0' ? rest->header : NULL, NULL };
    char url[2048];

    (void)snprintf(url, sizeof url, "%s://%s%s%s:%s/%s%s%s", rest->with_tls ? "https" : "http",
                   v6 ? "[" : "", endpoint->host, v6 ? "]" : "", endpoint->port, path,
                   rest->scope[0] != '\0' && strchr(path, '?') == NULL ? "?" : "", rest->scope);
    job->rest = rest;
    job->at = rest->at;
    job->web.method = method;
    job->web.url = url;
    job->web.headers = headers;
    job->web.send = send;
    job->web.send_len = send != NULL ? strlen(send) : 0;
    job->web.timeout = timeout;
    job->web.done = hear_web;
    job->web.arg = job;
    tn_web_start(rest->web, &job->web);
}

struct tn_json_value *tn_rest_values(struct tn_rest_job *job)
{
    size_t most = job->web.body_len / 2 + 8; /* A value has a byte, and a comma behind it. */
    struct tn_json_value *values = calloc(most, sizeof *values);

    if (values != NULL &&
        tn_json_read(job->web.body, job->web.body_len, values, (uint32_t)most) > 0)
        return values;
    free(values);
    (void)snprintf(job->error, sizeof job->error, "%s: the answer cannot be read",
                   job->rest->url.endpoints[job->at].where);
    return NULL;
}

const char *tn_rest_fault(const struct tn_rest_job *job)
{
    return job->error[0] != '\0' ? job->error
                                 : "the answer cannot be read; is this the right address?";
}

void tn_rest_add_scope(struct tn_rest *rest, const char *name, const char *value)
{
    size_t len = strlen(rest->scope);
    struct tn_text text;

    if (value[0] == '\0')
        return;
    tn_text_init(&text, rest->scope + len, sizeof rest->scope - len);
    tn_text_addf(&text, "&%s=", name);
    tn_web_escape(&text, value, strlen(value), "");
}
