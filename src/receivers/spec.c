/* spec.c - URL#RESOURCE taken apart. The last '#' parts them: a path may hold one, a resource not.
 */
#include "receivers/spec.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "receivers/target.h"

/* The URL alone, to be freed by the caller, or NULL; *@ret_resource is NULL when there is none. */
static char *split(const char *spec, const char **ret_resource)
{
    const char *hash = strrchr(spec, '#');
    size_t len = hash != NULL ? (size_t)(hash - spec) : strlen(spec);

    *ret_resource = hash != NULL ? hash + 1 : NULL;
    return strndup(spec, len);
}

int tn_fence_spec_check(const char *spec, struct tn_text *reterr)
{
    const char *resource;
    char *url = split(spec, &resource);

    if (url == NULL)
        return TENURE_E_NOMEM;
    int rc = tn_fence_resource_check(url, resource, reterr);
    free(url);
    return rc;
}

/* Open the fence of @spec, and raise it unless @token is 0. */
static int use(const char *spec, uint64_t token, tenure_ns timeout, uint64_t *ret_highest,
               struct tn_text *reterr)
{
    struct tn_fence_options options = { .timeout = timeout };
    struct tn_fence_target *target = NULL;
    const char *resource;
    char *url = split(spec, &resource);

    if (url == NULL)
        return TENURE_E_NOMEM;
    int rc = tn_fence_target_open(url, &options, &target, reterr);
    if (rc == 0)
        rc = token > 0 ? tn_fence_target_raise(target, resource, token, ret_highest, reterr)
                       : tn_fence_target_probe(target, resource, reterr);
    tn_fence_target_close(target);
    free(url);
    return rc;
}

int tn_fence_spec_probe(const char *spec, tenure_ns timeout, struct tn_text *reterr)
{
    return use(spec, 0, timeout, NULL, reterr);
}

int tn_fence_spec_raise(const char *spec, uint64_t token, tenure_ns timeout, uint64_t *ret_highest,
                        struct tn_text *reterr)
{
    TN_ASSERT(token > 0);
    return use(spec, token, timeout, ret_highest, reterr);
}
