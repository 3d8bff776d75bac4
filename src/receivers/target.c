/* target.c - which receiver a URL names, and the checks that all of them share.
 *
 * Happy path: the scheme is found in the table, the receiver opened, and each call is passed on
 * when its resource and token make sense. Bad input never reaches a receiver. */
#define _GNU_SOURCE /* AT_EACCESS */
#include "receivers/target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/name.h"
#include "base/time.h"

#define TIMEOUT TN_SEC(5)

static const struct tn_fence_ops *const receivers[] = {
    &tn_fence_sqlite_ops,     &tn_fence_file_ops,     &tn_fence_postgres_ops,
    &tn_fence_postgresql_ops, &tn_fence_redis_ops,    &tn_fence_rediss_ops,
    &tn_fence_redis_unix_ops, &tn_fence_http_ops,     &tn_fence_https_ops,
    &tn_fence_tenured_ops,    &tn_fence_tenureds_ops, &tn_fence_unix_ops,
    &tn_fence_dynamodb_ops,
};

enum { RECEIVERS = sizeof receivers / sizeof receivers[0] };

struct tn_fence_target {
    const struct tn_fence_ops *ops;
    void *self;
};

int tn_fence_refuse(int code, const char *place, const char *why, struct tn_text *reterr)
{
    tn_text_escape(reterr, place, strlen(place));
    tn_text_addf(reterr, ": %s", why);
    return code;
}

int tn_fence_refuse_errno(const char *place, int error, struct tn_text *reterr)
{
    int code = TENURE_E_UNAVAILABLE;

    if (error == EACCES || error == EPERM || error == EROFS)
        code = error == EROFS ? TENURE_E_UNAVAILABLE : TENURE_E_DENIED;
    else if (error == ENOMEM)
        code = TENURE_E_NOMEM;
    return tn_fence_refuse(code, place, strerror(error), reterr);
}

int tn_fence_refuse_missing(const char *place, int error, struct tn_text *reterr)
{
    char why[200];

    if (error != ENOENT && error != ENOTDIR)
        return tn_fence_refuse_errno(place, error, reterr);
    (void)snprintf(why, sizeof why,
                   "%s; check the path, or make it with 'tenure fence install --at URL'",
                   strerror(error));
    return tn_fence_refuse(TENURE_E_DAMAGED, place, why, reterr);
}

int tn_fence_folder_check(const char *path, struct tn_text *reterr)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];

    (void)snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - path + 1) : 1,
                   slash != NULL ? path : ".");
    if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0)
        return 0;
    return errno == EROFS ? tn_fence_refuse(TENURE_E_DAMAGED, folder, strerror(EROFS), reterr)
                          : tn_fence_refuse_missing(folder, errno, reterr);
}

/* --- Opening -------------------------------------------------------------------------------- */

static int refuse_scheme(const char *url, struct tn_text *reterr)
{
    /* Not the whole URL: there may be a password in it. */
    size_t len = strcspn(url, ":@");

    tn_text_add(reterr, "'");
    len += url[len] == ':';
    tn_text_escape(reterr, url, len < 40 ? len : 40);
    tn_text_add(reterr, "' is not a fence that this tenure knows; write");
    for (size_t i = 0; i < RECEIVERS; i++)
        tn_text_addf(reterr, "%s %s",
                     i == 0              ? ""
                     : i + 1 < RECEIVERS ? ","
                                         : " or",
                     receivers[i]->form);
    return TENURE_E_INVALID;
}

/* sqlite:PATH, also as sqlite:///PATH; a host has no meaning. */
static int find_path(const char *url, const char *rest, const char **ret_path,
                     struct tn_text *reterr)
{
    if (rest[0] == '\0')
        return tn_fence_refuse(TENURE_E_INVALID, url, "the path is missing", reterr);
    if (strncmp(rest, "//", 2) == 0 && rest[2] != '/')
        return tn_fence_refuse(TENURE_E_INVALID, url,
                               "names a host; leave out the slashes, the file is on this one",
                               reterr);
    *ret_path = strncmp(rest, "//", 2) == 0 ? rest + 2 : rest;
    return 0;
}

/* The receiver, and what of the URL is for it. */
static int find_receiver(const char *url, const struct tn_fence_ops **ret_ops,
                         const char **ret_place, struct tn_text *reterr)
{
    for (size_t i = 0; i < RECEIVERS; i++) {
        size_t len = strlen(receivers[i]->scheme);

        if (strncmp(url, receivers[i]->scheme, len) == 0) {
            *ret_ops = receivers[i];
            *ret_place = url;
            return receivers[i]->file ? find_path(url, url + len, ret_place, reterr) : 0;
        }
    }
    return refuse_scheme(url, reterr);
}

int tn_fence_url_check(const char *url, bool *ret_single, struct tn_text *reterr)
{
    const struct tn_fence_ops *ops;
    const char *place;

    int rc = find_receiver(url, &ops, &place, reterr);
    if (rc == 0)
        *ret_single = ops->single;
    return rc;
}

static int check_resource(const struct tn_fence_ops *ops, const char *resource,
                          struct tn_text *reterr)
{
    const char *reason;

    if (ops->single && resource == NULL)
        return 0;
    if (ops->single)
        tn_text_addf(reterr, "a fence at %s has no resource: the path is it", ops->scheme);
    else if (resource == NULL)
        tn_text_add(reterr, "the resource is missing");
    else if (tn_name_check(resource, strlen(resource), &reason) < 0) {
        tn_text_add(reterr, "'");
        tn_text_escape(reterr, resource, strnlen(resource, 80));
        tn_text_addf(reterr, "' is not a resource: %s", reason);
    } else {
        return 0;
    }
    return TENURE_E_INVALID;
}

int tn_fence_resource_check(const char *url, const char *resource, struct tn_text *reterr)
{
    const struct tn_fence_ops *ops;
    const char *place;

    int rc = find_receiver(url, &ops, &place, reterr);
    return rc < 0 ? rc : check_resource(ops, resource, reterr);
}

int tn_fence_target_open(const char *url, const struct tn_fence_options *options,
                         struct tn_fence_target **ret_target, struct tn_text *reterr)
{
    struct tn_fence_options filled = *options;
    const struct tn_fence_ops *ops;
    const char *place;

    int rc = find_receiver(url, &ops, &place, reterr);
    if (rc < 0)
        return rc;
    struct tn_fence_target *target = calloc(1, sizeof *target);
    if (target == NULL) {
        tn_text_add(reterr, "out of memory");
        return TENURE_E_NOMEM;
    }
    target->ops = ops;
    filled.timeout = options->timeout > 0 ? options->timeout : TIMEOUT;
    rc = ops->open(place, &filled, &target->self, reterr);
    if (rc < 0) {
        free(target);
        return rc;
    }
    *ret_target = target;
    return 0;
}

void tn_fence_target_close(struct tn_fence_target *target)
{
    if (target == NULL)
        return;
    target->ops->close(target->self);
    free(target);
}

/* --- The calls ------------------------------------------------------------------------------ */

static int check_token(uint64_t token, struct tn_text *reterr)
{
    if (token > 0)
        return 0;
    tn_text_add(reterr, "token 0 is never granted");
    return TENURE_E_INVALID;
}

int tn_fence_target_raise(struct tn_fence_target *target, const char *resource, uint64_t token,
                          uint64_t *ret_highest, struct tn_text *reterr)
{
    int rc = check_resource(target->ops, resource, reterr);
    if (rc == 0)
        rc = check_token(token, reterr);
    if (rc < 0)
        return rc;
    return target->ops->raise(target->self, resource, token, ret_highest, reterr);
}

int tn_fence_target_show(struct tn_fence_target *target, const char *resource,
                         uint64_t *ret_highest, struct tn_text *reterr)
{
    int rc = check_resource(target->ops, resource, reterr);
    if (rc < 0)
        return rc;
    return target->ops->show(target->self, resource, ret_highest, reterr);
}

int tn_fence_target_probe(struct tn_fence_target *target, const char *resource,
                          struct tn_text *reterr)
{
    uint64_t highest;

    int rc = tn_fence_target_show(target, resource, &highest, reterr);
    if (rc == 0 && target->ops->probe != NULL)
        rc = target->ops->probe(target->self, resource, reterr);
    return rc;
}

int tn_fence_target_list(struct tn_fence_target *target, tn_fence_each each, void *arg,
                         struct tn_text *reterr)
{
    return target->ops->list(target->self, each, arg, reterr);
}

static int refuse_unsupported(const struct tn_fence_target *target, const char *what,
                              struct tn_text *reterr)
{
    tn_text_addf(reterr, "a fence at %s %s", target->ops->scheme, what);
    return TENURE_E_UNSUPPORTED;
}

int tn_fence_target_write(struct tn_fence_target *target, uint64_t token, const void *data,
                          size_t len, bool append, uint64_t *ret_highest, struct tn_text *reterr)
{
    if (target->ops->write == NULL)
        return refuse_unsupported(target, "cannot be written from here; file: can", reterr);
    int rc = check_token(token, reterr);
    if (rc < 0)
        return rc;
    return target->ops->write(target->self, token, data, len, append, ret_highest, reterr);
}

int tn_fence_target_install(struct tn_fence_target *target, const char *table, const char *resource,
                            struct tn_text *reterr)
{
    if (target->ops->install == NULL)
        return refuse_unsupported(target, "has nothing to install", reterr);
    int rc = table != NULL ? check_resource(target->ops, resource, reterr) : 0;
    if (rc == 0 && table != NULL && target->ops->single)
        return refuse_unsupported(target, "has no tables", reterr);
    if (rc < 0)
        return rc;
    TN_ASSERT(table != NULL || resource == NULL);
    return target->ops->install(target->self, table, resource, reterr);
}

int tn_fence_target_remove(struct tn_fence_target *target, const char *table,
                           struct tn_text *reterr)
{
    if (target->ops->remove == NULL)
        return refuse_unsupported(target, "has nothing to remove", reterr);
    return target->ops->remove(target->self, table, reterr);
}

const char *tn_fence_install_text(const char *url)
{
    const struct tn_fence_ops *ops;
    const char *place;
    char scratch[128];
    struct tn_text ignored;

    tn_text_init(&ignored, scratch, sizeof scratch);
    return find_receiver(url, &ops, &place, &ignored) == 0 ? ops->install_text : NULL;
}

int tn_fence_raise_at(const char *url, const char *resource, uint64_t token, tenure_ns timeout,
                      struct tn_text *reterr)
{
    struct tn_fence_options options = { .timeout = timeout };
    struct tn_fence_target *target = NULL;
    uint64_t highest;

    if (resource != NULL && resource[0] == '\0')
        resource = NULL;
    int rc = tn_fence_resource_check(url, resource, reterr);
    if (rc == 0)
        rc = check_token(token, reterr);
    if (rc == 0)
        rc = tn_fence_target_open(url, &options, &target, reterr);
    if (rc < 0)
        return rc;
    rc = tn_fence_target_raise(target, resource, token, &highest, reterr);
    if (rc == TENURE_E_STALE)
        tn_text_addf(reterr, "the fence stands at %llu already", (unsigned long long)highest);
    tn_fence_target_close(target);
    return rc;
}
