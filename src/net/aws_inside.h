/* aws_inside.h - what the parts of the AWS credentials share: aws_config.c finds their source,
 * aws.c fetches from it. */
#ifndef TN_NET_AWS_INSIDE_H
#define TN_NET_AWS_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/aws.h"

enum aws_source {
    SOURCE_NONE,
    SOURCE_KEYS, /* At hand; they do not expire as far as anybody knows. */
    SOURCE_WEB_IDENTITY,
    SOURCE_ROLE, /* Assumed with the keys of another profile. */
    SOURCE_CONTAINER,
    SOURCE_INSTANCE,
};

enum aws_step { STEP_REST, STEP_STS, STEP_CONTAINER, STEP_TOKEN, STEP_ROLE, STEP_KEYS };

struct tn_aws {
    struct tn_web *web;
    enum aws_source source;
    enum aws_step step;
    struct tn_web_req req;
    bool have;
    struct tn_aws_keys keys;
    int64_t expires_at; /* Seconds since 1970, as are the next two; 0: never. */
    int64_t refresh_at;
    int64_t refused_at;
    struct tn_aws_keys lender;      /* SOURCE_ROLE: who may assume it, */
    struct tn_aws_sign lender_sign; /* and how that is signed. */
    struct tn_aws_wait *waits;
    char profile[129];
    char region[65];
    char endpoint[256];  /* The profile's; empty: none. */
    char role[2049];     /* Its ARN. */
    char external[1225]; /* For a role that wants it; empty: none. */
    char session[65];
    char token_file[1024];
    char url[1024];
    char instance[256]; /* The metadata service. */
    char instance_token[512];
    char about[192];
    char body[24576];
};

/* Decide on one source, by the environment and the files as they are now. */
int tn_aws_configure(struct tn_aws *aws, struct tn_text *reterr);

/* Empty: not set. */
const char *tn_aws_env(const char *name);
/* False, and nothing copied: @value is too long. */
bool tn_aws_set(char *ret_text, size_t size, const char *value);
/* The whole text, which the caller frees; NULL: no file, or too long. */
char *tn_aws_read_file(const char *path);

#endif
