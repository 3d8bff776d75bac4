/* aws.h - the credentials and the region that an AWS client has, from where the AWS tools take
 * them. In this order, and the first source that is configured counts:
 *
 *   environment    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *   web identity   AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE, exchanged at STS
 *   profile        AWS_PROFILE (else "default") in ~/.aws/credentials and ~/.aws/config, also by
 *                  AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE; role_arn with source_profile or
 *                  web_identity_token_file is exchanged at STS
 *   container      AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI, with the token of
 *                  AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE or AWS_CONTAINER_AUTHORIZATION_TOKEN
 *   instance       version 2 of the metadata service, unless AWS_EC2_METADATA_DISABLED is "true";
 *                  its address may be in AWS_EC2_METADATA_SERVICE_ENDPOINT
 *
 * Credentials that expire are fetched again before they do, while the old ones go on being used.
 * No line about an error holds a secret.
 *
 * * Threads: the loop's. Blocks only to read files. */
#ifndef TN_NET_AWS_H
#define TN_NET_AWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "net/aws_sign.h"
#include "net/web.h"
#include "tenure/error.h"

struct tn_aws;

/* A copy to sign with. */
struct tn_aws_keys {
    char id[129];
    char secret[129];
    char token[4097]; /* Empty: the credentials have none. */
};

/* One caller that waits for credentials. The caller's memory until done() or tn_aws_forget. */
struct tn_aws_wait {
    void (*done)(struct tn_aws_wait *wait);
    void *arg;
    int status; /* 0: tn_aws_get has them. TENURE_E_UNAVAILABLE, or TENURE_E_DENIED: there are
                   none, or the source refuses. @error says why. */
    char error[TN_ERROR_TEXT];
    struct tn_aws_wait *next; /* Its own. */
};

/* Reads the environment and the files. @web is borrowed, and may come later by tn_aws_attach: so
 * nothing is open yet if the configuration is wrong. Returns 0; TENURE_E_INVALID: a profile
 * that is named is not there, or asks for what is not supported; TENURE_E_NOMEM. */
TENURE_MUST_USE int tn_aws_open(struct tn_web *web, struct tn_aws **ret_aws,
                                struct tn_text *reterr);
void tn_aws_attach(struct tn_aws *aws, struct tn_web *web);
/* After all requests of @web have ended, and before it is closed or from its closed(). Takes NULL.
 * No done() is called. */
void tn_aws_free(struct tn_aws *aws);

/* The region of AWS_REGION, AWS_DEFAULT_REGION or the profile; empty: none. */
const char *tn_aws_region(const struct tn_aws *aws);

/* Add the URL of @service ("dynamodb", "s3", "sts") in @region: AWS_ENDPOINT_URL_SERVICE,
 * AWS_ENDPOINT_URL, the profile's endpoint_url, else Amazon's own. */
void tn_aws_endpoint(const struct tn_aws *aws, const char *service, const char *region,
                     struct tn_text *text);

/* The credentials if they are at hand. A refresh that is due begins by itself. */
bool tn_aws_get(struct tn_aws *aws, struct tn_aws_keys *ret_keys);
/* Call done() once they are, or cannot be had; may be inside the call. */
void tn_aws_await(struct tn_aws *aws, struct tn_aws_wait *wait);
void tn_aws_forget(struct tn_aws *aws, struct tn_aws_wait *wait);
/* A server said that the credentials are expired or unknown: fetch them again, and read the files
 * again. Not more often than every 10 s. */
void tn_aws_refused(struct tn_aws *aws);

/* Where the credentials come from, for people: "the environment", "profile 'x'". */
const char *tn_aws_source(const struct tn_aws *aws);

/* "2015-08-30T12:36:00Z", as answers have it, in seconds since 1970. False: malformed. */
bool tn_aws_time_parse(const char *text, int64_t *ret_seconds);

#endif
