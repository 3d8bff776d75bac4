/* soft.c - a soft limit (F1, docs/INVARIANTS.md): whether it may be had, and the digest by which
 * the store knows that two candidates raise the same fences.
 *
 * The digest is of the name and of what tells each fence from all others (receivers/spec.h),
 * sorted: the same words in another folder or on another host may be another fence. Where two
 * processes do not find that theirs are the same, the successor waits for the TTL, which is always
 * safe. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/duration.h"
#include "base/sha256.h"
#include "lib/private.h"
#include "receivers/spec.h"
#include "runtime/clock.h"
#include "runtime/entry.h"

/* What an identity has beside the words of its fence: the boot, an inode, a network. */
enum { IDENTITY_MORE = TN_CLOCK_DOMAIN + 80 };

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The identities of all fences, sorted, one behind the other in @buf; 0 or a code. */
static int identify_all(char *const *fences, const char **sorted, char *buf, size_t size,
                        size_t count, struct tn_text *reterr)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < count; i++) {
        struct tn_text identity;

        sorted[i] = buf + i * size;
        tn_text_init(&identity, buf + i * size, size);
        rc = tn_fence_spec_identify(fences[i], &identity, reterr);
        TN_ASSERT(rc < 0 || !tn_text_truncated(&identity));
    }
    if (rc == 0)
        qsort(sorted, count, sizeof *sorted, by_text);
    return rc;
}

int tn_lib_soft_make(const char *name, tenure_ns limit, char *const *fences,
                     struct tn_soft **ret_soft, struct tn_text *reterr)
{
    uint8_t both[2 * TN_SHA256_SIZE], digest[TN_SHA256_SIZE];
    size_t count = 0, longest = 0;
    int rc = TENURE_E_NOMEM;

    for (; fences[count] != NULL; count++)
        longest = strlen(fences[count]) > longest ? strlen(fences[count]) : longest;
    const size_t size = longest + IDENTITY_MORE;
    const char **sorted = calloc(count + 1, sizeof *sorted);
    char *buf = calloc(count + 1, size);
    struct tn_soft *soft = malloc(sizeof *soft);
    if (sorted == NULL || buf == NULL || soft == NULL)
        goto out;
    rc = identify_all(fences, sorted, buf, size, count, reterr);
    if (rc < 0)
        goto out;
    tn_sha256(name, strlen(name), digest);
    for (size_t i = 0; i < count; i++) {
        memcpy(both, digest, sizeof digest);
        tn_sha256(sorted[i], strlen(sorted[i]), both + sizeof digest);
        tn_sha256(both, sizeof both, digest);
    }
    soft->limit = limit;
    memcpy(soft->fences.bytes, digest, sizeof soft->fences.bytes);
    *ret_soft = soft;
    soft = NULL;
out:
    free(soft);
    free(sorted);
    free(buf);
    return rc;
}

int tn_lib_soft_check(const struct tn_plan *plan, unsigned caps, const char *scheme,
                      const struct tenure_campaign *campaign, struct tn_text *reterr)
{
    if (campaign->soft_limit == 0)
        return 0;
    if ((caps & TN_STORE_SOFT) == 0) {
        tn_text_addf(reterr, "%s: " TN_ENTRY_NO_SOFT, scheme);
        return TENURE_E_UNSUPPORTED;
    }
    if (campaign->fences == NULL || campaign->fences[0] == NULL)
        tn_text_add(reterr, "a soft limit needs a fence: only that stops a leader that was silent");
    else if (campaign->priority > 0)
        tn_text_add(reterr, "a soft limit and a priority do not go together");
    if (reterr->len > 0)
        return TENURE_E_INVALID;
    return tn_entry_soft(plan, campaign->soft_limit, reterr);
}
