/* dynamodb.h - calls to one table of DynamoDB, for the store and for the fence.
 *
 *   dynamodb://TABLE[?region=REGION][&endpoint=URL][&key=ATTRIBUTE][&poll=TIME]
 *
 * A call ends with one outcome, which says what a conditional write needs to know: done, refused
 * by its condition, certainly not done, or unknown. Whatever is not done has one line for people.
 *
 * Threads: the loop's. */
#ifndef TN_NET_DYNAMODB_H
#define TN_NET_DYNAMODB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "net/aws.h"
#include "net/web.h"
#include "tenure/error.h"
#include "tenure/time.h"
#include "wire/json.h"

struct uv_loop_s;
struct tn_dynamo;

enum {
    TN_DYNAMO_BODY = 8192,   /* Room for what a call sends. */
    TN_DYNAMO_VALUES = 256,  /* JSON values of an answer, unless the caller has more room. */
    TN_DYNAMO_KEY_MAX = 255, /* Of a table's name and of its key attribute's. */
};

enum tn_dynamo_outcome {
    TN_DYNAMO_OK,
    TN_DYNAMO_CONDITION, /* The condition does not hold; nothing was written. */
    TN_DYNAMO_CONFLICT,  /* Another transaction is at it; nothing was written. */
    TN_DYNAMO_THROTTLED, /* Nothing was done: too many requests. */
    TN_DYNAMO_REFUSED,   /* Nothing was done, and asking again does not help before somebody has
                            mended what @error says. */
    TN_DYNAMO_DENIED,    /* The same: not permitted. */
    TN_DYNAMO_FAILED,    /* Nothing was done: the server was not reached. */
    TN_DYNAMO_UNKNOWN,   /* A write may have happened, or may still. */
};

struct tn_dynamo_call {
    /* Set by the caller, whose memory it is until done(). */
    const char *action; /* "GetItem" */
    void (*done)(struct tn_dynamo_call *call);
    void *arg;
    tenure_ns timeout;
    bool urgent;                  /* As in web.h. */
    size_t answer_max;            /* Bytes of an answer; 0: 64 kB. */
    struct tn_json_value *values; /* Room for the answer; NULL: @own. */
    uint32_t values_max;
    struct tn_text body; /* On @sent; tn_dynamo_begin and tn_json_string fill it. */
    /* Set before done(), good until it returns. @values point into req.body. */
    uint32_t count; /* Of @values. */
    enum tn_dynamo_outcome outcome;
    bool second; /* CONDITION: it was that of a transaction's second part. */
    char error[TN_ERROR_TEXT];
    /* Its own. */
    struct tn_dynamo *dynamo;
    struct tn_dynamo_call *next;
    struct tn_web_req req;
    struct tn_aws_wait wait;
    struct tn_aws_keys keys;
    struct tn_aws_sign sign;
    struct tn_json_value own[TN_DYNAMO_VALUES];
    char sent[TN_DYNAMO_BODY];
};

/* @rest is the URL behind "dynamodb:". *@ret_poll is left alone when not given. Returns 0;
 * TENURE_E_INVALID: the URL or the AWS configuration, told in @reterr; TENURE_E_NOMEM. */
TENURE_MUST_USE int tn_dynamo_open(struct uv_loop_s *loop, const char *rest, tenure_ns *ret_poll,
                                   struct tn_dynamo **ret_dynamo, struct tn_text *reterr);
/* Ends all calls first; nothing is left once @closed is called. */
void tn_dynamo_close(struct tn_dynamo *dynamo, void (*closed)(void *arg), void *arg);

const char *tn_dynamo_table(const struct tn_dynamo *dynamo);
const char *tn_dynamo_key(const struct tn_dynamo *dynamo);
/* Without TLS, so that the network may repeat old answers. */
bool tn_dynamo_is_plain(const struct tn_dynamo *dynamo);
/* "table 'x' in eu-west-1": for people. */
void tn_dynamo_where(const struct tn_dynamo *dynamo, struct tn_text *text);

/* Begin the body: {"TableName":"TABLE" */
void tn_dynamo_begin(struct tn_dynamo *dynamo, struct tn_dynamo_call *call, const char *action);
/* Add "KEY":{"S":"PREFIX+NAME"} in braces. */
void tn_dynamo_add_key(struct tn_dynamo_call *call, const char *prefix, const char *name);
/* done() may come inside the call only if there are no credentials. */
void tn_dynamo_send(struct tn_dynamo_call *call);

/* The text of attribute @name with type @type ("S", "N") in the item at @index; NULL: none. */
const struct tn_json_value *tn_dynamo_attribute(const struct tn_json_value *values, uint32_t index,
                                                const char *name, const char *type);

#endif
