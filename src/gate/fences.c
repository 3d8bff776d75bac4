/* fences.c - the fences of a gate; fences.h has the rules.
 *
 * One lock for all: what is done under it is a look into a table, and for a token that is new one
 * commit to the disk, which happens once per term. */
#define _GNU_SOURCE
#include "gate/fences.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/name.h"
#include "base/time.h"
#include "receivers/sqlite.h"
#include "tenure/fence.h"
#include "tenure/fence_sqlite.h"

enum { BUCKETS = 4096, FENCES_MAX = 100000 };

struct tn_gate_fence {
    struct tn_gate_fence *next;
    struct tenure_fence fence;
    uint64_t flying; /* The token of those in flight. */
    uint32_t in_flight;
    char resource[];
};

struct tn_gate_fences {
    sqlite3 *db;
    pthread_mutex_t mutex;
    pthread_cond_t landed; /* Somebody left. */
    size_t count;
    struct tn_gate_fence *buckets[BUCKETS];
};

/* --- The table ------------------------------------------------------------------------------ */

/* Names come from outside, but each costs a write to the disk before it is kept: a chain that
 * somebody makes long on purpose is bounded by FENCES_MAX. */
static struct tn_gate_fence **bucket_of(struct tn_gate_fences *fences, const char *resource)
{
    uint64_t hash = 14695981039346656037u;

    for (const char *c = resource; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    return &fences->buckets[(hash ^ hash >> 32) % BUCKETS];
}

static struct tn_gate_fence *find(struct tn_gate_fences *fences, const char *resource)
{
    for (struct tn_gate_fence *fence = *bucket_of(fences, resource); fence != NULL;
         fence = fence->next) {
        if (strcmp(fence->resource, resource) == 0)
            return fence;
    }
    return NULL;
}

static struct tn_gate_fence *add(struct tn_gate_fences *fences, const char *resource,
                                 uint64_t highest)
{
    struct tn_gate_fence **bucket = bucket_of(fences, resource);
    size_t len = strlen(resource);
    struct tn_gate_fence *fence =
        fences->count < FENCES_MAX ? malloc(sizeof *fence + len + 1) : NULL;

    if (fence == NULL)
        return NULL;
    *fence = (struct tn_gate_fence) { .next = *bucket, .fence = { highest } };
    memcpy(fence->resource, resource, len + 1);
    *bucket = fence;
    fences->count++;
    return fence;
}

/* --- Opening -------------------------------------------------------------------------------- */

static void load(void *arg, const char *resource, uint64_t token)
{
    struct tn_gate_fences *fences = arg;

    /* One that does not fit is not lost: it is in the file, and nothing is admitted for it. */
    (void)add(fences, resource, token);
}

static int open_file(struct tn_gate_fences *fences, const char *path)
{
    static const char setup[] =
        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=EXTRA; PRAGMA trusted_schema=OFF;"
        "BEGIN EXCLUSIVE; COMMIT;";

    int rc = sqlite3_open_v2(path, &fences->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(fences->db, setup, NULL, NULL, NULL);
    if (rc != SQLITE_OK)
        return tn_fence_sqlite_code(rc);
    return tn_fence_sqlite_list(fences->db, load, fences);
}

int tn_gate_fences_open(const char *path, struct tn_gate_fences **ret_fences,
                        struct tn_text *reterr)
{
    struct tn_gate_fences *fences = calloc(1, sizeof *fences);
    pthread_condattr_t attributes;

    if (fences == NULL) {
        tn_text_add(reterr, "out of memory");
        return TENURE_E_NOMEM;
    }
    (void)pthread_mutex_init(&fences->mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&fences->landed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    int rc = open_file(fences, path);
    if (rc < 0) {
        const char *why = fences->db != NULL ? sqlite3_errmsg(fences->db) : tenure_strerror(rc);
        rc = tn_fence_refuse(rc, path, why, reterr);
        tn_gate_fences_close(fences);
        return rc;
    }
    *ret_fences = fences;
    return 0;
}

void tn_gate_fences_close(struct tn_gate_fences *fences)
{
    if (fences == NULL)
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        while (fences->buckets[i] != NULL) {
            struct tn_gate_fence *fence = fences->buckets[i];
            fences->buckets[i] = fence->next;
            free(fence);
        }
    }
    (void)sqlite3_close(fences->db);
    (void)pthread_cond_destroy(&fences->landed);
    (void)pthread_mutex_destroy(&fences->mutex);
    free(fences);
}

/* --- Entering ------------------------------------------------------------------------------- */

/* On the disk first, then in memory: what was refused because of it must stay refused. */
static int move_up(struct tn_gate_fences *fences, const char *resource, uint64_t token,
                   struct tn_gate_fence **ret_fence)
{
    struct tn_gate_fence *fence = find(fences, resource);

    *ret_fence = fence;
    if (fence != NULL && token <= fence->fence.highest)
        return token < fence->fence.highest ? TENURE_E_STALE : 0;
    if (fence == NULL && fences->count >= FENCES_MAX)
        return TENURE_E_FULL;
    int rc = tenure_fence_sqlite_raise(fences->db, resource, token);
    if (rc < 0)
        return rc == TENURE_E_STALE ? TENURE_E_DAMAGED : TENURE_E_UNAVAILABLE;
    if (fence == NULL)
        fence = add(fences, resource, 0);
    if (fence == NULL)
        return TENURE_E_NOMEM;
    *ret_fence = fence;
    return tenure_fence_raise(&fence->fence, token);
}

static struct timespec deadline(tenure_ns timeout)
{
    struct timespec at;

    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    tenure_ns ns = at.tv_nsec + timeout % TN_SEC(1);
    at.tv_sec += timeout / TN_SEC(1) + ns / TN_SEC(1);
    at.tv_nsec = ns % TN_SEC(1);
    return at;
}

static int enter(struct tn_gate_fences *fences, struct tn_gate_fence *fence, uint64_t token,
                 tenure_ns timeout, bool flies)
{
    struct timespec end = deadline(timeout);

    while (fence->in_flight > 0 && fence->flying < token) {
        if (pthread_cond_timedwait(&fences->landed, &fences->mutex, &end) != 0)
            return TENURE_E_UNAVAILABLE;
    }
    if (token < fence->fence.highest)
        return TENURE_E_STALE;
    TN_ASSERT(fence->in_flight == 0 || fence->flying == token);
    if (flies) {
        fence->flying = token;
        fence->in_flight++;
    }
    return 0;
}

int tn_gate_enter(struct tn_gate_fences *fences, const char *resource, uint64_t token,
                  tenure_ns timeout, struct tn_gate_fence **ret_fence, uint64_t *ret_highest)
{
    struct tn_gate_fence *fence = NULL;

    (void)pthread_mutex_lock(&fences->mutex);
    int rc = move_up(fences, resource, token, &fence);
    if (rc == 0)
        rc = enter(fences, fence, token, timeout, ret_fence != NULL);
    *ret_highest = fence != NULL ? fence->fence.highest : 0;
    (void)pthread_mutex_unlock(&fences->mutex);
    if (rc == 0 && ret_fence != NULL)
        *ret_fence = fence;
    return rc;
}

void tn_gate_leave(struct tn_gate_fences *fences, struct tn_gate_fence *fence)
{
    (void)pthread_mutex_lock(&fences->mutex);
    TN_ASSERT(fence->in_flight > 0);
    if (--fence->in_flight == 0)
        (void)pthread_cond_broadcast(&fences->landed);
    (void)pthread_mutex_unlock(&fences->mutex);
}

uint64_t tn_gate_highest(struct tn_gate_fences *fences, const char *resource)
{
    (void)pthread_mutex_lock(&fences->mutex);
    const struct tn_gate_fence *fence = find(fences, resource);
    uint64_t highest = fence != NULL ? fence->fence.highest : 0;
    (void)pthread_mutex_unlock(&fences->mutex);
    return highest;
}

void tn_gate_list(struct tn_gate_fences *fences, tn_fence_each each, void *arg)
{
    (void)pthread_mutex_lock(&fences->mutex);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (const struct tn_gate_fence *fence = fences->buckets[i]; fence != NULL;
             fence = fence->next)
            each(arg, fence->resource, fence->fence.highest);
    }
    (void)pthread_mutex_unlock(&fences->mutex);
}
