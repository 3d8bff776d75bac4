/* spec.c - URL#RESOURCE taken apart. The last '#' parts them: a path may hold one, a resource not.
 */
#include "receivers/spec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "receivers/target.h"
#include "runtime/clock.h"

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

/* --- Which fence it is ------------------------------------------------------------------------ */

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Of a file or a Unix socket; NULL: it is reached by an address. */
static const char *path_of(const char *url)
{
    static const char *const schemes[] = { "file:", "sqlite:", "unix:", "redis+unix:" };

    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (begins_with(url, schemes[i])) {
            const char *path = url + strlen(schemes[i]);
            return begins_with(path, "///") ? path + 2 : path;
        }
    }
    return NULL;
}

/* Whether the host may be another one for a process elsewhere: the loopback in any spelling, a
 * socket's folder, an address of this link alone. */
static bool is_near(const char *host, size_t len)
{
    static const char *const starts[] = { "127.", "0", "169.254.", "[::", "[fe80:", "/", "%" };

    if (len == 0 || memchr(host, ',', len) != NULL)
        return true;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (strncasecmp(host, starts[i], strlen(starts[i])) == 0)
            return true;
    if (memchr(host, '.', len) == NULL && host[0] >= '0' && host[0] <= '9')
        return true; /* An address in one number. */
    return len >= 9 && strncasecmp(host + len - 9, "localhost", 9) == 0;
}

static bool is_near_url(const char *url)
{
    const char *host = strstr(url, "://");
    size_t len = host != NULL ? strcspn(host + 3, "/?#") : 0;

    if (host == NULL || strstr(url, "host=") != NULL || strstr(url, "hostaddr=") != NULL)
        return true;
    for (host += 3; len > 0 && memchr(host, '@', len) != NULL; host++)
        len--;
    const char *port = len > 0 && host[0] != '[' ? memchr(host, ':', len) : NULL;
    return is_near(host, port != NULL ? (size_t)(port - host) : len);
}

/* This boot of this machine, and where it matters the network that its loopback belongs to. */
static int add_here(struct tn_text *identity, bool network, struct tn_text *reterr)
{
    struct tn_clock clock;
    struct stat net;

    if (tn_clock_init(&clock) < 0 || (network && stat("/proc/self/ns/net", &net) != 0))
        return tn_fence_refuse(TENURE_E_UNSUPPORTED, "/proc", "it does not tell this machine",
                               reterr);
    tn_text_addf(identity, " %s", clock.domain);
    if (network)
        tn_text_addf(identity, " %" PRIu64, (uint64_t)net.st_ino);
    return 0;
}

static int identify_file(const char *url, const char *path, const char *resource,
                         struct tn_text *identity, struct tn_text *reterr)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return tn_fence_refuse_missing(path, errno, reterr);
    tn_text_add_bytes(identity, url, strcspn(url, ":"));
    tn_text_addf(identity, " %" PRIu64 " %" PRIu64 " %s", (uint64_t)st.st_dev, (uint64_t)st.st_ino,
                 resource != NULL ? resource : "");
    return add_here(identity, false, reterr);
}

int tn_fence_spec_identify(const char *spec, struct tn_text *ret_identity, struct tn_text *reterr)
{
    const char *resource;
    char *url = split(spec, &resource);

    if (url == NULL)
        return TENURE_E_NOMEM;
    const char *path = path_of(url);
    int rc = tn_fence_resource_check(url, resource, reterr);
    if (rc == 0 && begins_with(url, "dynamodb:")) {
        tn_text_add(reterr, "dynamodb: the environment decides which account's table that is, so "
                            "two processes cannot tell that their fences are the same");
        rc = TENURE_E_UNSUPPORTED;
    } else if (rc == 0 && path != NULL) {
        rc = identify_file(url, path, resource, ret_identity, reterr);
    } else if (rc == 0) {
        tn_text_add(ret_identity, spec);
        if (is_near_url(url))
            rc = add_here(ret_identity, true, reterr);
    }
    free(url);
    return rc;
}
