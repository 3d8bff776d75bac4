/* redis_client.h - a small client for Redis: one connection, one question at a time, a deadline.
 *
 *     redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]
 *     redis+unix:PATH
 *     rediss://...?ca=FILE&cert=FILE&key=FILE&name=NAME
 *     tenured://[USER:SECRET@]HOST[:PORT]   tenured speaks the same protocol
 *     tenureds://...?ca=FILE&cert=FILE&key=FILE&name=NAME
 *     unix:PATH
 *
 * A fence asks a handful of questions and must not wait longer than it was told. The connection is
 * that of the stores, runtime/resp_link.h; here it gets a loop of its own and waits.
 * Threads: one at a time per client. Errors as in target.h. */
#ifndef TN_RECEIVERS_REDIS_CLIENT_H
#define TN_RECEIVERS_REDIS_CLIENT_H

#include <stddef.h>

#include "base/text.h"
#include "runtime/resp_link.h"
#include "tenure/error.h"
#include "tenure/time.h"

struct tn_redis;

/* Connects, logs in and chooses the database, all within @timeout, which also holds for each
 * question later. (But a host's name is resolved for as long as the system's resolver takes.) */
TENURE_MUST_USE int tn_redis_open(const char *url, tenure_ns timeout, struct tn_redis **ret_redis,
                                  struct tn_text *reterr);

/* Takes NULL. */
void tn_redis_close(struct tn_redis *redis);

/* An answer: its first value; the elements of an array follow by tn_redis_next. It lies in the
 * client's memory until the next question. */
struct tn_redis_answer {
    struct tn_resp_value value;
    const char *bytes;
    size_t len;
    size_t at;
};

TENURE_MUST_USE int tn_redis_next(struct tn_redis_answer *answer, struct tn_resp_value *ret_value);

/* Ask with @count words. An error of the server is an answer as well, but a MOVED of a cluster is
 * followed. TENURE_E_TIMEOUT: no answer, it may have happened; the connection is of no use then. */
TENURE_MUST_USE int tn_redis_ask(struct tn_redis *redis, const struct tn_resp_word *words,
                                 size_t count, struct tn_redis_answer *ret_answer,
                                 struct tn_text *reterr);

/* What the server's error is in our words; adds it to @reterr. */
int tn_redis_error(const struct tn_redis *redis, const struct tn_resp_value *error,
                   struct tn_text *reterr);

#endif
