/* aws_sign.h - AWS Signature Version 4: proves that a request comes from the owner of a secret key.
 *
 * Written from Amazon's description, and tested with its published examples. libcurl has a signer,
 * too; this one is the same in every build, whatever libcurl is there.
 *
 * Threads: any. Reads no clock. */
#ifndef TN_NET_AWS_SIGN_H
#define TN_NET_AWS_SIGN_H

#include <stddef.h>

#include "base/text.h"
#include "tenure/error.h"

/* How to sign; all are C strings. */
struct tn_aws_sign {
    const char *region, *service; /* "eu-central-1", "s3" */
    const char *key_id, *secret;
    const char *session_token; /* NULL or empty: none. */
};

/* What to sign: the request as it is sent. */
struct tn_aws_request {
    const char *method;
    const char *host;  /* As in the Host header: with the port unless it is the usual one. */
    const char *path;  /* Begins with a slash; %-encoded once. */
    const char *query; /* %-encoded, without the question mark; "" or NULL: none. */
    const char *const *headers; /* "Name: value", NULL at the end: all are signed. NULL: none. */
    const void *body;
    size_t body_len;
    const char *date; /* "20260102T030405Z" */
};

enum {
    TN_AWS_DATE = 17,   /* Room for a date, the zero behind it included. */
    TN_AWS_DIGEST = 65, /* And for a hash in hexadecimal digits. */
};

/* The headers that a signed request has beside its own. */
struct tn_aws_headers {
    char body_hash[TN_AWS_DIGEST]; /* x-amz-content-sha256 */
    struct tn_text *authorization; /* The caller's; receives the value of Authorization. */
};

/* Signs Host, @request's own headers, x-amz-date, x-amz-content-sha256 and, if there is one, the
 * session token as x-amz-security-token. Returns 0 or TENURE_E_NOMEM; TENURE_E_INVALID: a header
 * without a colon, more than 32 headers or query parts, or no room in the text. */
TENURE_MUST_USE int tn_aws_sign(const struct tn_aws_sign *how, const struct tn_aws_request *request,
                                struct tn_aws_headers *ret_headers);

#endif
