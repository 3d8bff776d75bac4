/* web.h - the HTTP client of the stores that speak HTTP: asynchronous, on the store's own loop.
 *
 *   tn_web_start ----> resolve, connect, TLS ----> sent ----> answered ----> done()
 *                              |                     |            |
 *                       UNAVAILABLE:              TIMEOUT: it may have happened
 *                       nothing was sent
 *
 * Every request ends by exactly one done(), never inside a call of this file. The distinction
 * between UNAVAILABLE and TIMEOUT is what a conditional write needs: after the first it may be sent
 * again, after the second only a read tells. A write is therefore never repeated behind the
 * caller's back, although libcurl would do so when a kept connection turns out to be dead.
 *
 * libcurl resolves names in a thread, speaks TLS and keeps connections. HTTP/1.1 only: a request
 * without an answer closes its connection and the next one takes another, whereas a dead HTTP/2
 * connection is shared by all requests and stays in use. Redirects are answers like any other. The
 * usual proxy variables of the environment count (https_proxy, http_proxy, no_proxy), but never for
 * this machine's own addresses.
 *
 * Threads: the loop's. Blocks nothing but the reading of certificate files. */
#ifndef TN_NET_WEB_H
#define TN_NET_WEB_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "net/aws_sign.h"
#include "tenure/error.h"
#include "tenure/time.h"

struct uv_loop_s;
struct tn_web;
struct tn_web_work;

/* Of all requests; copied. NULL: not given. */
struct tn_web_options {
    /* PEM files, which are read for each connection, so that they may be replaced. Without @ca_file
     * the system's certificate authorities count. */
    const char *ca_file, *cert_file, *key_file;
    /* The same as PEM texts, instead of the files. */
    const char *ca_pem, *cert_pem, *key_pem;
    const char *user_agent; /* NULL: "tenure". */
    unsigned connections;   /* At once, to one host; further requests wait. 0: any number. */
};

struct tn_web_req {
    /* Set by the caller. The request itself and @send are borrowed until done(); the rest during
     * tn_web_start only. */
    const char *method;         /* "GET" */
    const char *url;            /* http:// or https://, without a user, everything %-encoded. */
    const char *const *headers; /* "Name: value", NULL at the end. NULL: none. */
    const void *send;           /* The body; NULL: none. */
    size_t send_len;
    tenure_ns timeout;             /* From start to done; more than 0. */
    size_t body_max;               /* An answer with a longer body fails. */
    const struct tn_aws_sign *aws; /* Sign it for AWS; NULL: not. */
    bool urgent;                   /* A term depends on it: see tn_web_slow_down. */
    /* The body of a 2xx answer as it comes, for streams; NULL: it is collected, as other answers'
     * bodies always are. Non-zero: enough, done() comes with TENURE_E_CLOSED. May start and cancel
     * requests. */
    int (*data)(struct tn_web_req *req, const char *bytes, size_t len);
    void (*done)(struct tn_web_req *req);
    void *arg;

    /* Set before done(), and before data() as far as it is known; good until done() returns. */
    int status; /* 0: answered, with whatever code. TENURE_E_UNAVAILABLE: certainly nothing was
                   sent. TENURE_E_TIMEOUT: it may have happened. TENURE_E_CLOSED: cancelled, and it
                   may have happened. TENURE_E_NOMEM: nothing was sent. */
    int http;   /* The status code; 0: none came. */
    char *body; /* Collected, with a zero behind it; never NULL. May be changed. */
    size_t body_len;
    char error[TN_ERROR_TEXT]; /* One line for people, if @status is not 0. Has no secrets. */

    /* The client's own. */
    struct tn_web_work *work;
    struct tn_web_req *next;
    char none[1];
};

/* Returns 0; TENURE_E_INVALID: a file of @options cannot be read; TENURE_E_NOMEM. */
TENURE_MUST_USE int tn_web_open(struct uv_loop_s *loop, const struct tn_web_options *options,
                                struct tn_web **ret_web, struct tn_text *reterr);

void tn_web_start(struct tn_web *web, struct tn_web_req *req);

/* done() comes soon, with TENURE_E_CLOSED; data() is not called any more. */
void tn_web_cancel(struct tn_web *web, struct tn_web_req *req);

/* Cancel all requests; what their done() starts is cancelled, too. Then call @closed, after which
 * nothing is left. */
void tn_web_close(struct tn_web *web, void (*closed)(void *arg), void *arg);

/* In done(): the answer asks for fewer requests. For as long as its Retry-After says, 60 s at most,
 * each request to that host ends with TENURE_E_UNAVAILABLE and @why as its error, unsent. Without
 * one it is 1 s, and twice as long each time in a row, up to 8 s. An urgent request waits for one
 * second of a Retry-After, and else in its caller's own time: a term would end before many a server
 * wants to hear of anybody again. */
void tn_web_slow_down(struct tn_web *web, const struct tn_web_req *req, const char *why);

/* In data() and done(): the first header of that name in the answer; NULL: there is none. */
const char *tn_web_header(const struct tn_web_req *req, const char *name);

/* "host:port" of a URL, for people. */
void tn_web_where(struct tn_text *text, const char *url);

/* Add @bytes %-encoded as RFC 3986 and AWS want it: all but A-Z a-z 0-9 - _ . ~ and what is in
 * @keep ("/" for paths, "" for parts of a query). */
void tn_web_escape(struct tn_text *text, const char *bytes, size_t len, const char *keep);

#endif
