/* s3_each.c - all objects below a prefix: the keys page by page, then each object. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/s3_bucket.h"

enum { AT_ONCE = 16, KEYS_MAX = 100000 };

struct s3_walk {
    struct tn_s3_each each;
    struct tn_s3_bucket *bucket;
    char **keys;
    size_t count, room;
    size_t next; /* The first that has not been asked for. */
    size_t under_way;
    bool busy;  /* fetch() is at work further up the stack. */
    int status; /* The first failure. */
    char prefix[TN_S3_KEY];
    char error[TN_ERROR_TEXT];
};

/* The request for a page, or for one of the objects. */
struct s3_walk_call {
    struct tn_s3_call call; /* First. */
    struct s3_walk *walk;
    const char *key;
};

static struct s3_walk_call *new_call(struct s3_walk *walk)
{
    struct s3_walk_call *call = tn_s3_call_new(walk->bucket, sizeof *call);

    if (call != NULL)
        call->walk = walk;
    return call;
}

static void fail_walk(struct s3_walk *walk, int status, const char *why)
{
    if (walk->status != 0)
        return;
    walk->status = status;
    (void)snprintf(walk->error, sizeof walk->error, "%s", why);
}

static void end_walk(struct s3_walk *walk)
{
    walk->each.done(walk->each.arg, walk->status, walk->error);
    for (size_t i = 0; i < walk->count; i++)
        free(walk->keys[i]);
    free(walk->keys);
    free(walk);
}

/* --- The objects ------------------------------------------------------------------------------ */

static void fetch(struct s3_walk *walk);

/* An object that was deleted in between is not there. */
static void hear_object(struct tn_s3_call *call, enum tn_s3_result result)
{
    const struct s3_walk_call *of = (const struct s3_walk_call *)(const void *)call;
    struct s3_walk *walk = of->walk;

    if (result == TN_S3_OK) {
        int rc = walk->status == 0 ? walk->each.item(walk->each.arg, of->key, call) : 0;
        if (rc < 0)
            fail_walk(walk, rc, call->error);
    } else if (result != TN_S3_MISSING) {
        fail_walk(walk, result == TN_S3_DENIED ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE,
                  call->error);
    }
    tn_s3_call_free(call);
    walk->under_way--;
    fetch(walk);
}

static void fetch(struct s3_walk *walk)
{
    if (walk->busy)
        return;
    walk->busy = true;
    while (walk->status == 0 && walk->next < walk->count && walk->under_way < AT_ONCE) {
        struct s3_walk_call *call = new_call(walk);
        if (call == NULL) {
            fail_walk(walk, TENURE_E_NOMEM, "out of memory");
            break;
        }
        call->key = walk->keys[walk->next++];
        walk->under_way++;
        tn_s3_get(&call->call, call->key, hear_object);
    }
    walk->busy = false;
    if (walk->under_way == 0)
        end_walk(walk);
}

/* --- The keys --------------------------------------------------------------------------------- */

static void add_key(struct s3_walk *walk, const char *key)
{
    size_t len = strlen(key), end = strlen(walk->each.last);

    if (len <= end || len >= TN_S3_KEY || strcmp(key + len - end, walk->each.last) != 0)
        return;
    if (walk->count == walk->room) {
        size_t room = walk->room > 0 ? 2 * walk->room : 64;
        char **keys = room <= 2 * KEYS_MAX ? realloc(walk->keys, room * sizeof *keys) : NULL;
        if (keys == NULL) {
            fail_walk(walk, TENURE_E_FULL, "s3: too many objects to list; give a longer prefix");
            return;
        }
        walk->keys = keys;
        walk->room = room;
    }
    walk->keys[walk->count] = strdup(key);
    if (walk->keys[walk->count] != NULL)
        walk->count++;
    else
        fail_walk(walk, TENURE_E_NOMEM, "out of memory");
}

static void hear_page(struct tn_s3_call *call, enum tn_s3_result result)
{
    struct s3_walk *walk = ((const struct s3_walk_call *)(const void *)call)->walk;
    char key[TN_S3_URL], token[1100];
    const char *at = NULL;

    if (result != TN_S3_OK)
        fail_walk(walk, result == TN_S3_DENIED ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE,
                  result == TN_S3_MISSING ? "s3: the bucket cannot be listed" : call->error);
    else if (!tn_s3_is_page(call))
        fail_walk(walk, TENURE_E_UNAVAILABLE,
                  "s3: the answer is no list of objects; is the endpoint right?");
    while (walk->status == 0 && tn_s3_next_key(call, &at, key))
        add_key(walk, key);
    if (walk->status == 0 && tn_s3_next_page(call, token, sizeof token)) {
        tn_s3_get_page(call, walk->prefix, token, hear_page);
        return;
    }
    tn_s3_call_free(call);
    fetch(walk);
}

void tn_s3_walk(struct tn_s3_bucket *bucket, const char *prefix, const struct tn_s3_each *each)
{
    struct s3_walk *walk = calloc(1, sizeof *walk);
    struct s3_walk_call *call = NULL;

    if (walk != NULL) {
        walk->bucket = bucket;
        walk->each = *each;
        (void)snprintf(walk->prefix, sizeof walk->prefix, "%s", prefix);
        call = new_call(walk);
    }
    if (call == NULL) {
        free(walk);
        each->done(each->arg, TENURE_E_NOMEM, "out of memory");
        return;
    }
    tn_s3_get_page(&call->call, walk->prefix, NULL, hear_page);
}
