/* tenured.c - `tenured://HOST` and `unix:PATH` as a fence: FENCE RAISE and SHOW of the daemon.
 *
 * For resources that cannot keep a fence, and whose requests all pass somebody who asks the daemon
 * first. The protocol is that of Redis, and so is the client. */
#include <stdio.h>

#include "base/number.h"
#include "base/token.h"
#include "receivers/redis_client.h"
#include "receivers/target.h"

static int open_daemon(const char *url, const struct tn_fence_options *options, void **ret_self,
                       struct tn_text *reterr)
{
    struct tn_redis *daemon = NULL;

    int rc = tn_redis_open(url, options->timeout, &daemon, reterr);
    if (rc == 0)
        *ret_self = daemon;
    return rc;
}

static void close_daemon(void *self)
{
    tn_redis_close(self);
}

/* FENCE ACTION RESOURCE [TOKEN] */
static int ask_daemon(struct tn_redis *daemon, const char *action, const char *resource,
                      const char *token, struct tn_redis_answer *ret_answer, struct tn_text *reterr)
{
    struct tn_resp_word words[] = { tn_resp_word_of("FENCE"), tn_resp_word_of(action),
                                    tn_resp_word_of(resource), tn_resp_word_of(token) };
    size_t before = reterr->len;

    int rc = tn_redis_ask(daemon, words, token[0] != '\0' ? 4 : 3, ret_answer, reterr);
    if (rc == 0 && ret_answer->value.type == TN_RESP_ERROR)
        rc = tn_redis_error(daemon, &ret_answer->value, reterr);
    if (rc == TENURE_E_STALE) {
        reterr->len = before;
        reterr->buf[before] = '\0';
    }
    return rc;
}

/* An integer, or text where it would not fit into one. */
static int show(void *self, const char *resource, uint64_t *ret_highest, struct tn_text *reterr)
{
    struct tn_redis_answer answer;
    char digits[TN_TOKEN_TEXT];

    int rc = ask_daemon(self, "SHOW", resource, "", &answer, reterr);
    if (rc < 0)
        return rc;
    if (answer.value.type == TN_RESP_INTEGER && answer.value.integer >= 0) {
        *ret_highest = (uint64_t)answer.value.integer;
        return 0;
    }
    (void)snprintf(digits, sizeof digits, "%.*s",
                   answer.value.type == TN_RESP_STRING ? (int)answer.value.len : 0,
                   answer.value.bytes);
    if (tn_u64_parse(digits, ret_highest) == 0)
        return 0;
    tn_text_add(reterr, "tenured: the answer is not a token");
    return TENURE_E_DAMAGED;
}

static int raise_fence(void *self, const char *resource, uint64_t token, uint64_t *ret_highest,
                       struct tn_text *reterr)
{
    struct tn_redis_answer answer;
    char digits[TN_TOKEN_TEXT];

    (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)token);
    int rc = ask_daemon(self, "RAISE", resource, digits, &answer, reterr);
    if (rc == 0)
        *ret_highest = token;
    if (rc != TENURE_E_STALE)
        return rc;
    rc = show(self, resource, ret_highest, reterr);
    return rc < 0 ? rc : TENURE_E_STALE;
}

/* The right to observe does not include the right to raise. RAISE 0 always fails: with DENIED if we
 * lack the right, otherwise because no token is 0. */
static int probe(void *self, const char *resource, struct tn_text *reterr)
{
    struct tn_redis_answer answer;
    size_t before = reterr->len;

    int rc = ask_daemon(self, "RAISE", resource, "0", &answer, reterr);
    if (rc == TENURE_E_DENIED)
        return rc;
    reterr->len = before;
    reterr->buf[before] = '\0';
    return 0;
}

static int list(void *self, tn_fence_each each, void *arg, struct tn_text *reterr)
{
    (void)self;
    (void)each;
    (void)arg;
    tn_text_add(reterr, "tenured: it has no list of its fences; name a resource");
    return TENURE_E_UNSUPPORTED;
}

#define TENURED_OPS(scheme_, form_)                                                       \
    {                                                                                     \
        .scheme = (scheme_), .form = (form_), .open = open_daemon, .close = close_daemon, \
        .raise = raise_fence, .show = show, .list = list, .probe = probe,                 \
    }

const struct tn_fence_ops tn_fence_tenured_ops = TENURED_OPS("tenured:", "tenured://HOST");
const struct tn_fence_ops tn_fence_tenureds_ops = TENURED_OPS("tenureds:", "tenureds://HOST");
const struct tn_fence_ops tn_fence_unix_ops = TENURED_OPS("unix:", "unix:PATH");
