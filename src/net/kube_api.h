/* kube_api.h - calls to a Kubernetes API server: signing in, waiting when asked to, plain errors.
 *
 *   tn_kube_call ----> credentials there? no quiet asked for? ----> web.h ----> done()
 *                         |        ^                                   |
 *                  token file or   | once more, with new credentials   | 401
 *                  plug-in is read +-----------------------------------+
 *
 * A token file is read again every ten seconds, because kubelets replace it, and after a 401. A
 * credential plug-in runs when its token expires and after a 401, for at most 30 s, and never by a
 * shell. After a 429 nothing is sent for as long as Retry-After says.
 *
 * Threads: the loop's. Blocks only to read the token file. */
#ifndef TN_NET_KUBE_API_H
#define TN_NET_KUBE_API_H

#include "net/kube_config.h"
#include "net/web.h"
#include "wire/json.h"

struct tn_kube_api;

struct tn_kube_call {
    struct tn_web_req web; /* First. Its data, timeout and body_max are the caller's to set. */
    struct tn_kube_call *next;
    struct tn_kube_api *api;
    const char *method;
    char path[1400]; /* From "/apis" on, with its query. */
    char *send;      /* Freed with the call's end; NULL: none. */
    tenure_ns not_before;
    tenure_ns give_up_at;
    bool repeated; /* After a 401. */
    /* Set before done(): status and http as in web.h, except that 0 means 2xx. */
    void (*done)(struct tn_kube_call *call);
    void *arg;
    int status; /* Another answer: DENIED (401, 403), FULL (429), DAMAGED: no API server's words,
                   UNAVAILABLE: whatever else has no effect, TIMEOUT: it may have happened. */
    int http;
    char *body;
    size_t body_len;
    char reason[40]; /* "NotFound": of the server's Status; empty: it sent none. */
    char about[40];  /* "leases": the kind of resource that it is about. */
    char error[TN_ERROR_TEXT];
};

/* @now reads the clock for @clock. Takes @config over, also on error. */
TENURE_MUST_USE int tn_kube_api_open(struct uv_loop_s *loop, tenure_ns (*now)(void *clock),
                                     void *clock, struct tn_kube_config *config,
                                     struct tn_kube_api **ret_api, struct tn_text *reterr);
/* @call is the caller's until done(), which is never called inside this. */
void tn_kube_start(struct tn_kube_api *api, struct tn_kube_call *call);
/* End it soon, with TENURE_E_CLOSED. */
void tn_kube_cancel(struct tn_kube_call *call);
/* By the clock that the calls are timed by. */
tenure_ns tn_kube_now(const struct tn_kube_api *api);
/* Every call ends first. */
void tn_kube_api_close(struct tn_kube_api *api, void (*closed)(void *arg), void *arg);

/* The values of a document, which is changed; to be freed. NULL: no JSON, or out of memory. */
struct tn_json_value *tn_kube_parse(char *bytes, size_t len);

/* A stream of documents, one on each line, as a watch sends them; zeroed, it is empty. */
struct tn_kube_lines {
    char *bytes; /* The line that is not complete yet. */
    size_t len, room;
};

/* Calls @hear for each line that is complete. False: it said false, a line is no JSON or longer
 * than 4 MB, or there is no memory. */
bool tn_kube_lines_add(struct tn_kube_lines *lines, const char *bytes, size_t len,
                       bool (*hear)(void *arg, const struct tn_json_value *values), void *arg);
void tn_kube_lines_clear(struct tn_kube_lines *lines);

#endif
