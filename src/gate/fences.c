/* fences.c - the fences of a gate; fences.h has the rules.
 *
 * An admission is a look into a table, and for a token that is new one commit to the disk, which
 * happens once per term; all wait for it. */
#include "gate/fences.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/name.h"
#include "receivers/sqlite.h"
#include "runtime/sqlite_vfs.h"
#include "tenure/fence.h"
#include "tenure/fence_sqlite.h"

enum { BUCKETS = 4096, FENCES_MAX = 100000 };

struct tn_gate_fence {
    struct tn_gate_fence *next;
    struct tenure_fence fence;
    uint64_t flying; /* The token of those in flight. */
    uint32_t in_flight;
    struct tn_gate_wait *waiting;
    size_t len;
    char resource[];
};

struct tn_gate_fences {
    sqlite3 *db;
    size_t count;
    struct tn_gate_fence *buckets[BUCKETS];
};

/* --- The table ------------------------------------------------------------------------------ */

/* Names that are alike have the same letters, in whatever case, and any dots behind them; they lie
 * in the same bucket. */
static char fold(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static size_t folded_len(const char *resource, size_t len)
{
    while (len > 0 && resource[len - 1] == '.')
        len--;
    return len;
}

/* Names come from outside, but each costs a write to the disk before it is kept: a chain that
 * somebody makes long on purpose is bounded by FENCES_MAX. */
static struct tn_gate_fence **bucket_of(struct tn_gate_fences *fences, const char *resource,
                                        size_t len)
{
    uint64_t hash = 14695981039346656037u;

    len = folded_len(resource, len);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)fold(resource[i])) * 1099511628211u;
    return &fences->buckets[(hash ^ hash >> 32) % BUCKETS];
}

static struct tn_gate_fence *find(struct tn_gate_fences *fences, const char *resource, size_t len)
{
    for (struct tn_gate_fence *fence = *bucket_of(fences, resource, len); fence != NULL;
         fence = fence->next) {
        if (fence->len == len && memcmp(fence->resource, resource, len) == 0)
            return fence;
    }
    return NULL;
}

bool tn_gate_has_alike(struct tn_gate_fences *fences, const char *resource, size_t len)
{
    size_t folded = folded_len(resource, len);
    const struct tn_gate_fence *fence = *bucket_of(fences, resource, len);

    for (; fence != NULL; fence = fence->next) {
        size_t i = 0;

        if (folded_len(fence->resource, fence->len) != folded ||
            (fence->len == len && memcmp(fence->resource, resource, len) == 0))
            continue;
        while (i < folded && fold(fence->resource[i]) == fold(resource[i]))
            i++;
        if (i == folded)
            return true;
    }
    return false;
}

static struct tn_gate_fence *add(struct tn_gate_fences *fences, const char *resource, size_t len,
                                 uint64_t highest)
{
    struct tn_gate_fence **bucket = bucket_of(fences, resource, len);
    struct tn_gate_fence *fence =
        fences->count < FENCES_MAX ? malloc(sizeof *fence + len + 1) : NULL;

    if (fence == NULL)
        return NULL;
    *fence = (struct tn_gate_fence) { .next = *bucket, .fence = { highest }, .len = len };
    memcpy(fence->resource, resource, len);
    fence->resource[len] = '\0';
    *bucket = fence;
    fences->count++;
    return fence;
}

/* --- Opening -------------------------------------------------------------------------------- */

static void load(void *arg, const char *resource, uint64_t token)
{
    struct tn_gate_fences *fences = arg;

    /* One that does not fit is not lost: it is in the file, and nothing is admitted for it. */
    (void)add(fences, resource, strlen(resource), token);
}

static int open_file(struct tn_gate_fences *fences, const char *path)
{
    static const char setup[] =
        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=EXTRA; PRAGMA trusted_schema=OFF;"
        "BEGIN EXCLUSIVE; COMMIT;";

    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    const char *vfs = tn_sqlite_vfs();

    int rc = vfs != NULL ? sqlite3_open_v2(path, &fences->db, flags, vfs) : SQLITE_NOMEM;
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(fences->db, setup, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = tn_sqlite_vfs_recheck(fences->db);
    if (rc != SQLITE_OK)
        return tn_fence_sqlite_code(rc);
    return tn_fence_sqlite_list(fences->db, load, fences);
}

int tn_gate_fences_open(const char *path, struct tn_gate_fences **ret_fences,
                        struct tn_text *reterr)
{
    struct tn_gate_fences *fences = calloc(1, sizeof *fences);

    if (fences == NULL) {
        tn_text_add(reterr, "out of memory");
        return TENURE_E_NOMEM;
    }
    int rc = open_file(fences, path);
    if (rc < 0) {
        const char *why = fences->db != NULL ? sqlite3_errmsg(fences->db) : tenure_strerror(rc);
        if (rc != TENURE_E_DENIED || !tn_sqlite_vfs_refusal(reterr))
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
    free(fences);
}

/* --- Entering ------------------------------------------------------------------------------- */

/* On the disk first, then in memory: what was refused because of it must stay refused. */
static int move_up(struct tn_gate_fences *fences, const char *resource, size_t len, uint64_t token,
                   struct tn_gate_fence **fence)
{
    char name[TN_NAME_MAX + 1];

    if (*fence == NULL && fences->count >= FENCES_MAX)
        return TENURE_E_FULL;
    memcpy(name, resource, len);
    name[len] = '\0';
    int rc = tenure_fence_sqlite_raise(fences->db, name, token);
    if (rc < 0)
        return rc == TENURE_E_STALE ? TENURE_E_DAMAGED : TENURE_E_UNAVAILABLE;
    if (*fence == NULL)
        *fence = add(fences, resource, len, 0);
    if (*fence == NULL)
        return TENURE_E_NOMEM;
    return tenure_fence_raise(&(*fence)->fence, token);
}

int tn_gate_admit(struct tn_gate_fences *fences, const char *resource, size_t len, uint64_t token,
                  struct tn_gate_fence **ret_fence, uint64_t *ret_highest)
{
    struct tn_gate_fence *fence = find(fences, resource, len);
    uint64_t highest = fence != NULL ? fence->fence.highest : 0;
    int rc = token < highest ? TENURE_E_STALE : 0;

    TN_ASSERT(len <= TN_NAME_MAX);
    if (token > highest)
        rc = move_up(fences, resource, len, token, &fence);
    *ret_highest = fence != NULL ? fence->fence.highest : 0;
    if (rc == 0)
        *ret_fence = fence;
    return rc;
}

bool tn_gate_is_clear(const struct tn_gate_fence *fence, uint64_t token)
{
    return fence->in_flight == 0 || fence->flying >= token;
}

void tn_gate_enter(struct tn_gate_fence *fence, uint64_t token)
{
    TN_ASSERT(token == fence->fence.highest);
    TN_ASSERT(fence->in_flight == 0 || fence->flying == token);
    fence->flying = token;
    fence->in_flight++;
}

void tn_gate_leave(struct tn_gate_fence *fence, struct tn_gate_wait **ret_waiting)
{
    TN_ASSERT(fence->in_flight > 0);
    if (--fence->in_flight > 0 || fence->waiting == NULL)
        return;
    *ret_waiting = fence->waiting;
    fence->waiting->link = ret_waiting;
    fence->waiting = NULL;
}

void tn_gate_wait(struct tn_gate_fence *fence, struct tn_gate_wait *wait)
{
    struct tn_gate_wait **link = &fence->waiting;

    while (*link != NULL)
        link = &(*link)->next;
    *wait = (struct tn_gate_wait) { .link = link };
    *link = wait;
}

void tn_gate_wait_end(struct tn_gate_wait *wait)
{
    if (wait->link == NULL)
        return;
    *wait->link = wait->next;
    if (wait->next != NULL)
        wait->next->link = wait->link;
    *wait = (struct tn_gate_wait) { NULL, NULL };
}

uint64_t tn_gate_highest(struct tn_gate_fences *fences, const char *resource, size_t len)
{
    const struct tn_gate_fence *fence = find(fences, resource, len);

    return fence != NULL ? fence->fence.highest : 0;
}

void tn_gate_list(struct tn_gate_fences *fences, tn_fence_each each, void *arg)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (const struct tn_gate_fence *fence = fences->buckets[i]; fence != NULL;
             fence = fence->next)
            each(arg, fence->resource, fence->fence.highest);
    }
}
