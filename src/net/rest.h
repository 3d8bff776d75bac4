/* rest.h - requests to one of several equal servers that answer in JSON.
 *
 * The first server of the URL is asked until it fails; then the next one. Every request ends by one
 * heard(), never inside the call, and is freed behind it. Threads: the loop's. */
#ifndef TN_NET_REST_H
#define TN_NET_REST_H

#include "base/net_url.h"
#include "net/web.h"
#include "wire/json.h"

struct tn_rest {
    struct tn_web *web;
    struct tn_net_url url;
    unsigned at; /* The server that is asked. */
    bool with_tls;
    char header[320]; /* Sent with every request; empty: none. */
    char scope[420];  /* "&ns=x": behind every path's query; empty: nothing. */
};

enum tn_rest_result {
    TN_REST_OK,      /* 2xx */
    TN_REST_REFUSED, /* Another code; @http has it. */
    TN_REST_DENIED,  /* 401, 403 */
    TN_REST_FAILED,  /* Certainly not carried out: nothing was sent. */
    TN_REST_UNKNOWN, /* No answer, or 5xx: it may have happened. */
};

/* First member of a larger struct. */
struct tn_rest_job {
    struct tn_web_req web;
    struct tn_rest *rest;
    unsigned at; /* The server that it was sent to. */
    enum tn_rest_result result;
    void (*heard)(struct tn_rest_job *job);
    char error[TN_ERROR_TEXT]; /* Why it is not OK: the server, and the first line it sent. */
};

/* @job is from malloc, its web.body_max is set. @path has no leading slash; @send is borrowed,
 * NULL: no body. */
void tn_rest_start(struct tn_rest *rest, struct tn_rest_job *job, const char *method,
                   const char *path, const char *send, tenure_ns timeout);

/* The values of the answer's body; to be freed. NULL: it is not JSON, or there is no memory, and
 * @error says so. */
struct tn_json_value *tn_rest_values(struct tn_rest_job *job);

/* For people, of an answer that is not what was asked for: the job's error or, where it is OK and
 * JSON, that it cannot be read all the same. */
const char *tn_rest_fault(const struct tn_rest_job *job);

/* Add "&NAME=VALUE" to what goes behind every path, unless @value is empty. */
void tn_rest_add_scope(struct tn_rest *rest, const char *name, const char *value);

#endif
