/* redis.c - `redis://...` as a fence: the calls of redis_fence.lua.
 *
 * Raising and looking go by EVAL, so that nothing needs to be installed first and old servers do.
 * What an application calls for every write is the library of functions, which install loads; a
 * server before Redis 7 keeps it as a script instead.
 * What can fail: the connection, the login, and the server's own errors, which the calls of the
 * library tell from each other by their first word. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "base/number.h"
#include "base/token.h"
#include "receivers/redis_client.h"
#include "receivers/redis_lua.h" /* Made from redis_fence.lua by CMake. */
#include "receivers/target.h"

/* The hash tag keeps a fence in one slot with what it protects. */
static const char prefix[] = "tenure:fence:{";

enum { KEY_MAX = sizeof prefix + TN_NAME_MAX + 2 };

/* EVAL takes the text without its first line, which names the library of functions. */
static const char *script(void)
{
    return strchr(tn_redis_fence, '\n') + 1;
}

static int open_server(const char *url, const struct tn_fence_options *options, void **ret_self,
                       struct tn_text *reterr)
{
    struct tn_redis *redis = NULL;

    int rc = tn_redis_open(url, options->timeout, &redis, reterr);
    if (rc == 0)
        *ret_self = redis;
    return rc;
}

static void close_server(void *self)
{
    tn_redis_close(self);
}

/* The number at the end of "STALE token 33 is stale, the fence stands at 34". */
static int read_highest(const struct tn_resp_value *value, uint64_t *ret_highest)
{
    char digits[TN_TOKEN_TEXT];
    uint32_t at = value->len;

    while (at > 0 && value->len - at < TN_TOKEN_DIGITS && value->bytes[at - 1] >= '0' &&
           value->bytes[at - 1] <= '9')
        at--;
    memcpy(digits, value->bytes + at, value->len - at);
    digits[value->len - at] = '\0';
    return tn_u64_parse(digits, ret_highest);
}

static int damaged(struct tn_text *reterr)
{
    tn_text_add(reterr, "redis: the answer is not what redis_fence.lua gives");
    return TENURE_E_DAMAGED;
}

/* EVAL script 1 KEY CALL [TOKEN] */
static int eval(struct tn_redis *redis, const char *call, const char *resource, const char *token,
                struct tn_redis_answer *ret_answer, struct tn_text *reterr)
{
    char key[KEY_MAX];

    (void)snprintf(key, sizeof key, "%s%s}", prefix, resource);
    struct tn_resp_word words[] = { tn_resp_word_of("EVAL"), tn_resp_word_of(script()),
                                    tn_resp_word_of("1"),    tn_resp_word_of(key),
                                    tn_resp_word_of(call),   tn_resp_word_of(token) };
    return tn_redis_ask(redis, words, token[0] != '\0' ? 6 : 5, ret_answer, reterr);
}

static int raise_fence(void *self, const char *resource, uint64_t token, uint64_t *ret_highest,
                       struct tn_text *reterr)
{
    struct tn_redis_answer answer;
    char digits[TN_TOKEN_TEXT];
    size_t before = reterr->len;

    (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)token);
    int rc = eval(self, "tenure_admit", resource, digits, &answer, reterr);
    if (rc < 0)
        return rc;
    if (answer.value.type == TN_RESP_STRING) {
        *ret_highest = token;
        return 0;
    }
    if (answer.value.type != TN_RESP_ERROR)
        return damaged(reterr);
    rc = tn_redis_error(self, &answer.value, reterr);
    if (rc != TENURE_E_STALE)
        return rc;
    reterr->len = before;
    reterr->buf[before] = '\0';
    return read_highest(&answer.value, ret_highest) == 0 ? rc : damaged(reterr);
}

static int show(void *self, const char *resource, uint64_t *ret_highest, struct tn_text *reterr)
{
    struct tn_redis_answer answer;

    int rc = eval(self, "tenure_show", resource, "", &answer, reterr);
    if (rc < 0)
        return rc;
    if (answer.value.type == TN_RESP_ERROR)
        return tn_redis_error(self, &answer.value, reterr);
    if (answer.value.type != TN_RESP_STRING || read_highest(&answer.value, ret_highest) < 0)
        return damaged(reterr);
    return 0;
}

/* --- All fences ----------------------------------------------------------------------------- */

struct names {
    char (*list)[TN_NAME_MAX + 1];
    size_t count, size;
};

/* What is not a fence of ours is passed over; SCAN may tell a key twice. */
static int add_name(struct names *names, const struct tn_resp_value *key)
{
    size_t front = sizeof prefix - 1;

    if (key->type != TN_RESP_STRING || key->len < front + 2 || key->len > front + 1 + TN_NAME_MAX ||
        key->bytes[key->len - 1] != '}' ||
        tn_name_check(key->bytes + front, key->len - front - 1, NULL) < 0)
        return 0;
    if (names->count == names->size) {
        size_t size = names->size > 0 ? 2 * names->size : 64;
        void *larger = realloc(names->list, size * sizeof names->list[0]);
        if (larger == NULL)
            return TENURE_E_NOMEM;
        names->list = larger;
        names->size = size;
    }
    size_t len = key->len - front - 1;
    memcpy(names->list[names->count], key->bytes + front, len);
    names->list[names->count++][len] = '\0';
    return 0;
}

/* One SCAN from @cursor, which moves on. */
static int scan(struct tn_redis *redis, char cursor[TN_TOKEN_TEXT], struct names *names,
                struct tn_text *reterr)
{
    struct tn_resp_word words[] = { tn_resp_word_of("SCAN"),  tn_resp_word_of(cursor),
                                    tn_resp_word_of("MATCH"), tn_resp_word_of("tenure:fence:{*}"),
                                    tn_resp_word_of("COUNT"), tn_resp_word_of("1000") };
    struct tn_redis_answer answer;
    struct tn_resp_value value;
    struct tn_resp_value keys;

    int rc = tn_redis_ask(redis, words, sizeof words / sizeof words[0], &answer, reterr);
    if (rc < 0)
        return rc;
    if (answer.value.type == TN_RESP_ERROR)
        return tn_redis_error(redis, &answer.value, reterr);
    if (tn_redis_next(&answer, &value) < 0 || value.type != TN_RESP_STRING ||
        value.len >= TN_TOKEN_TEXT || tn_redis_next(&answer, &keys) < 0 ||
        keys.type != TN_RESP_ARRAY)
        return damaged(reterr);
    memcpy(cursor, value.bytes, value.len);
    cursor[value.len] = '\0';
    for (uint32_t i = 0; rc == 0 && i < keys.count; i++) {
        rc = tn_redis_next(&answer, &value);
        if (rc == 0)
            rc = add_name(names, &value);
    }
    return rc;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Of a cluster, those of the node that was asked. */
static int list(void *self, tn_fence_each each, void *arg, struct tn_text *reterr)
{
    struct names names = { 0 };
    char cursor[TN_TOKEN_TEXT] = "0";
    uint64_t token;
    int rc;

    do {
        rc = scan(self, cursor, &names, reterr);
    } while (rc == 0 && strcmp(cursor, "0") != 0);
    if (rc == 0 && names.count > 0)
        qsort(names.list, names.count, sizeof names.list[0], compare_names);
    for (size_t i = 0; rc == 0 && i < names.count; i++) {
        if (i > 0 && strcmp(names.list[i], names.list[i - 1]) == 0)
            continue;
        rc = show(self, names.list[i], &token, reterr);
        if (rc == 0)
            each(arg, names.list[i], token);
    }
    free(names.list);
    return rc;
}

/* --- The library of functions ---------------------------------------------------------------- */

static bool is_unknown_command(const struct tn_resp_value *value)
{
    static const char words[] = "ERR unknown command";

    return value->type == TN_RESP_ERROR && value->len >= sizeof words - 1 &&
           memcmp(value->bytes, words, sizeof words - 1) == 0;
}

static int refuse_table(const char *table, struct tn_text *reterr)
{
    if (table == NULL)
        return 0;
    tn_text_add(reterr, "Redis has no tables: call the functions that install loads");
    return TENURE_E_UNSUPPORTED;
}

static int install(void *self, const char *table, const char *resource, struct tn_text *reterr)
{
    struct tn_resp_word load[] = { tn_resp_word_of("FUNCTION"), tn_resp_word_of("LOAD"),
                                   tn_resp_word_of("REPLACE"), tn_resp_word_of(tn_redis_fence) };
    struct tn_resp_word keep[] = { tn_resp_word_of("SCRIPT"), tn_resp_word_of("LOAD"),
                                   tn_resp_word_of(script()) };
    struct tn_redis_answer answer;

    (void)resource;
    int rc = refuse_table(table, reterr);
    if (rc == 0)
        rc = tn_redis_ask(self, load, 4, &answer, reterr);
    if (rc == 0 && is_unknown_command(&answer.value))
        rc = tn_redis_ask(self, keep, 3, &answer, reterr);
    if (rc == 0 && answer.value.type == TN_RESP_ERROR)
        rc = tn_redis_error(self, &answer.value, reterr);
    return rc;
}

/* The fences themselves stay: they are keys. */
static int remove_library(void *self, const char *table, struct tn_text *reterr)
{
    static const char not_there[] = "ERR Library not found";
    struct tn_resp_word words[] = { tn_resp_word_of("FUNCTION"), tn_resp_word_of("DELETE"),
                                    tn_resp_word_of("tenure_fence") };
    struct tn_redis_answer answer;

    int rc = refuse_table(table, reterr);
    if (rc == 0)
        rc = tn_redis_ask(self, words, 3, &answer, reterr);
    if (rc < 0 || answer.value.type != TN_RESP_ERROR || is_unknown_command(&answer.value) ||
        (answer.value.len == sizeof not_there - 1 &&
         memcmp(answer.value.bytes, not_there, answer.value.len) == 0))
        return rc;
    return tn_redis_error(self, &answer.value, reterr);
}

#define REDIS_OPS(scheme_, form_)                                                         \
    {                                                                                     \
        .scheme = (scheme_), .form = (form_), .open = open_server, .close = close_server, \
        .raise = raise_fence, .show = show, .list = list, .install = install,             \
        .remove = remove_library, .install_text = tn_redis_fence,                         \
    }

const struct tn_fence_ops tn_fence_redis_ops = REDIS_OPS("redis:", "redis://HOST");
const struct tn_fence_ops tn_fence_rediss_ops = REDIS_OPS("rediss:", "rediss://HOST");
const struct tn_fence_ops tn_fence_redis_unix_ops = REDIS_OPS("redis+unix:", "redis+unix:PATH");
