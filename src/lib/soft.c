/* soft.c - a soft limit (F1, docs/INVARIANTS.md): whether it may be had, and the digest by which
 * the store knows that two candidates raise the same fences.
 *
 * The digest is of the name and of the fences as they are spelled, sorted. Two spellings of one
 * fence therefore count as two: then the successor waits for the TTL, which is always safe. */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/sha256.h"
#include "lib/private.h"
#include "runtime/entry.h"

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int tn_lib_soft_make(const char *name, tenure_ns limit, char *const *fences,
                     struct tn_soft **ret_soft)
{
    uint8_t digest[TN_SHA256_SIZE];
    size_t count = 0, bytes = strlen(name) + 1, at = bytes;
    int rc = TENURE_E_NOMEM;

    for (; fences[count] != NULL; count++)
        bytes += strlen(fences[count]) + 1;
    const char **sorted = calloc(count + 1, sizeof *sorted);
    char *text = malloc(bytes);
    struct tn_soft *soft = malloc(sizeof *soft);
    if (sorted == NULL || text == NULL || soft == NULL)
        goto out;
    for (size_t i = 0; i < count; i++)
        sorted[i] = fences[i];
    qsort(sorted, count, sizeof *sorted, by_text);
    memcpy(text, name, at);
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(sorted[i]) + 1;
        memcpy(text + at, sorted[i], len);
        at += len;
    }
    tn_sha256(text, bytes, digest);
    soft->limit = limit;
    memcpy(soft->fences.bytes, digest, sizeof soft->fences.bytes);
    *ret_soft = soft;
    soft = NULL;
    rc = 0;
out:
    free(soft);
    free(sorted);
    free(text);
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
