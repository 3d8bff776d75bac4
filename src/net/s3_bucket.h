/* s3_bucket.h - requests to a bucket of S3: conditional, signed, with what their answers mean.
 *
 * A call is one request after the other for one purpose. Each ends by heard(), usually later; where
 * there are no credentials, inside the call that starts it.
 *
 * Threads: the loop's. */
#ifndef TN_NET_S3_BUCKET_H
#define TN_NET_S3_BUCKET_H

#include "net/aws.h"
#include "net/web.h"

enum {
    TN_S3_URL = 4200, /* A key has up to 1024 bytes, each of which may be encoded as three. */
    TN_S3_ETAG = 64,  /* Room for an ETag, the zero behind it included. */
    TN_S3_BODY = 2600,
    TN_S3_KEY = 1025, /* Room for a key. */
};

struct tn_s3_call;

struct tn_s3_bucket {
    /* Set before the first call, by tn_s3_bucket_open or the caller. */
    struct tn_web *web;
    struct tn_aws *aws;
    tenure_ns patience; /* For one request. */
    char name[64], region[64];
    char root[300];   /* URL up to the bucket's slash: "https://b.s3.eu-central-1.amazonaws.com/" */
    char prefix[512]; /* Of keys: empty, or ends with a slash. */
    /* May be read. */
    char server[64]; /* As it calls itself; empty: not known yet. */
    struct tn_s3_call *calls;
};

/* What an answer means. */
enum tn_s3_result {
    TN_S3_OK,
    TN_S3_MISSING,  /* There is no such object. */
    TN_S3_CONFLICT, /* A condition did not hold; nothing was written. */
    TN_S3_DENIED,
    TN_S3_FAILED,  /* Nothing was written. */
    TN_S3_UNKNOWN, /* A write may have happened. */
};

typedef void tn_s3_heard(struct tn_s3_call *call, enum tn_s3_result result);

/* First member of what the purpose needs. */
struct tn_s3_call {
    struct tn_web_req web; /* In heard(): the answer. */
    struct tn_s3_bucket *bucket;
    struct tn_s3_call *next;
    int mark;                  /* The owner's; 0 at first. */
    bool urgent;               /* The owner's, too: as in web.h. */
    char body[TN_S3_BODY];     /* What is written. */
    char error[TN_ERROR_TEXT]; /* Unless the result is OK, MISSING or CONFLICT. */
    char etag[TN_S3_ETAG];     /* Of what was written, if the result is OK. */
    /* Its own. */
    struct tn_aws_wait wait;
    tn_s3_heard *heard;
    bool awaits; /* Credentials. */
    bool proves; /* Reads what was written. */
    bool frees;
    const char *headers[3];
    char condition[TN_S3_ETAG + 24];
    char url[TN_S3_URL];
};

/* Where a bucket is. */
struct tn_s3_address {
    const char *bucket, *path; /* @path: the prefix, with or without slashes at its end. */
    const char *endpoint;      /* Empty: as the environment says, or Amazon's. */
    const char *region;        /* The same. */
    const char *ca;            /* A file; empty: the system's authorities. */
    tenure_ns patience;
};

/* Returns 0; TENURE_E_INVALID with a line: a file, a profile, or no region; TENURE_E_NOMEM. After
 * an error the loop has to be run for a turn. */
TENURE_MUST_USE int tn_s3_bucket_open(struct tn_s3_bucket *ret_bucket, struct uv_loop_s *loop,
                                      const struct tn_s3_address *address, struct tn_text *reterr);
/* Ends all calls, with FAILED or UNKNOWN, then @closed. No call may be started any more. */
void tn_s3_bucket_close(struct tn_s3_bucket *bucket, void (*closed)(void *arg), void *arg);
/* In closed(), at last. */
void tn_s3_bucket_free(struct tn_s3_bucket *bucket);

/* @size bytes that begin with a call, zeroed behind it. NULL: out of memory. */
void *tn_s3_call_new(struct tn_s3_bucket *bucket, size_t size);
void tn_s3_call_free(struct tn_s3_call *call);
/* The first with that mark; NULL: none. */
struct tn_s3_call *tn_s3_call_marked(const struct tn_s3_bucket *bucket, int mark);

/* Ask for, or write call->body to, the object at @key below the prefix. */
void tn_s3_get(struct tn_s3_call *call, const char *key, tn_s3_heard *heard);
/* Only if the ETag is @etag; empty: only if there is no object. Without TLS the object is read
 * back, and the result is OK only if it is as it was written; or, if the write @frees the object,
 * so that others may write at once, if it is not as it was before. */
void tn_s3_put(struct tn_s3_call *call, const char *key, const char *etag, bool frees,
               tn_s3_heard *heard);

/* One page of the keys that begin with the prefix and @prefix; @token NULL: the first. */
void tn_s3_get_page(struct tn_s3_call *call, const char *prefix, const char *token,
                    tn_s3_heard *heard);
/* In its heard(): whether the answer is a page at all. */
bool tn_s3_is_page(const struct tn_s3_call *call);
/* The next key of the page without the bucket's prefix. @at is NULL at first, and
 * moves on. False: there are no more. */
bool tn_s3_next_key(const struct tn_s3_call *call, const char **at, char ret_key[TN_S3_URL]);
/* And how to go on; false: it was the last page. */
bool tn_s3_next_page(const struct tn_s3_call *call, char *ret_token, size_t size);

/* What to do with all objects of some kind. */
struct tn_s3_each {
    const char *last; /* How their keys end; borrowed. */
    /* One of them, in any order; @key without the bucket's prefix, the object in @call's answer.
     * Below 0: an error, told in call->error, and the walk ends. */
    int (*item)(void *arg, const char *key, struct tn_s3_call *call);
    void (*done)(void *arg, int status, const char *error); /* Once; may be inside the call. */
    void *arg;
};

/* Read all whose keys begin with the bucket's prefix and @prefix; not all at one instant. */
void tn_s3_walk(struct tn_s3_bucket *bucket, const char *prefix, const struct tn_s3_each *each);

/* In heard(): the ETag of the answer. False: it has none that we can use. */
bool tn_s3_etag(const struct tn_s3_call *call, char ret_etag[TN_S3_ETAG]);

#endif
