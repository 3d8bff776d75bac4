/* redis.c - a real Redis as a receiver: records are pushed to a list through tenure_call. */
#define _GNU_SOURCE /* mkdtemp */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "base/token.h"
#include "receivers/redis_client.h"
#include "receivers/target.h"
#include "tests/receivers/fences.h"

#define TIMEOUT TN_SEC(60)

static struct place place;

static bool prepare(char *why, size_t size)
{
    return place_start(&place, "redis", why, size) && place_install(&place, NULL, why, size);
}

static void finish(void)
{
    place_stop(&place, "redis");
}

static void *open_connection(char *error, size_t size)
{
    struct tn_redis *redis = NULL;
    struct tn_text text;

    tn_text_init(&text, error, size);
    return tn_redis_open(place.url, TIMEOUT, &redis, &text) == 0 ? redis : NULL;
}

/* FCALL tenure_call 2 FENCE LIST TOKEN RPUSH LIST RECORD */
static int write_record(void *connection, uint64_t token, unsigned writer, unsigned n, char *error,
                        size_t size)
{
    char digits[TN_TOKEN_TEXT];
    char padded[TN_TOKEN_TEXT];
    char record[64];
    struct tn_redis_answer answer;
    struct tn_text text;

    (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)token);
    tn_token_format(padded, token);
    (void)snprintf(record, sizeof record, "%s %u %u", padded, writer, n);
    struct tn_resp_word words[] = {
        tn_resp_word_of("FCALL"),
        tn_resp_word_of("tenure_call"),
        tn_resp_word_of("2"),
        tn_resp_word_of("tenure:fence:{log}"),
        tn_resp_word_of("{log}:records"),
        tn_resp_word_of(digits),
        tn_resp_word_of("RPUSH"),
        tn_resp_word_of("{log}:records"),
        tn_resp_word_of(record),
    };
    tn_text_init(&text, error, size);
    size_t from = unguarded ? 6 : 0; /* The command alone. */
    int rc = tn_redis_ask(connection, words + from, sizeof words / sizeof words[0] - from, &answer,
                          &text);
    if (rc == 0 && answer.value.type == TN_RESP_ERROR)
        rc = tn_redis_error(connection, &answer.value, &text);
    if (rc == TENURE_E_STALE)
        error[0] = '\0';
    return rc;
}

static int raise_fence(uint64_t token, char *error, size_t size)
{
    return place_raise(&place, token, error, size);
}

static bool read_records(record_each each, void *arg)
{
    char error[256];
    struct tn_text text;
    struct tn_redis_answer answer;
    struct tn_resp_value value;
    struct tn_resp_word words[] = { tn_resp_word_of("LRANGE"), tn_resp_word_of("{log}:records"),
                                    tn_resp_word_of("0"), tn_resp_word_of("-1") };
    struct tn_redis *redis = open_connection(error, sizeof error);

    tn_text_init(&text, error, sizeof error);
    bool good = redis != NULL && tn_redis_ask(redis, words, 4, &answer, &text) == 0 &&
                answer.value.type == TN_RESP_ARRAY;
    for (uint32_t i = 0; good && i < answer.value.count; i++) {
        char record[64];
        uint64_t token = 0;
        unsigned writer = 0, n = 0;

        good = tn_redis_next(&answer, &value) == 0 && value.type == TN_RESP_STRING &&
               value.len < sizeof record && value.len > TN_TOKEN_DIGITS &&
               tn_token_parse(value.bytes, TN_TOKEN_DIGITS, &token) == 0;
        if (!good)
            break;
        memcpy(record, value.bytes, value.len);
        record[value.len] = '\0';
        good = sscanf(record + TN_TOKEN_DIGITS, " %u %u", &writer, &n) == 2;
        each(arg, token, writer, n);
    }
    tn_redis_close(redis);
    return good;
}

static bool read_highest(uint64_t *ret_highest)
{
    return place_highest(&place, ret_highest);
}

const struct receiver redis_receiver = {
    .name = "redis",
    .prepare = prepare,
    .finish = finish,
    .open = open_connection,
    .write = write_record,
    .raise = raise_fence,
    .read = read_records,
    .highest = read_highest,
};
