/* url.c - "//[user:password@]host[:port],.../chroot" taken apart. */
#include "stores/zookeeper/url.h"

#include <stdio.h>
#include <string.h>

static const struct tn_net_form form = {
    .scheme = "zookeeper",
    .usage = "zookeeper://[user:password@]host[:port],host[:port]/chroot",
    .port = "2181",
};

static int refuse_url(struct tn_text *reterr, const char *why)
{
    tn_text_addf(reterr, "%s: %s; write %s", form.scheme, why, form.usage);
    return TENURE_E_INVALID;
}

/* The library takes a list of hosts apart by itself: nothing else may be among them. */
static bool is_host(const char *host)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    for (; *host != '\0'; host++)
        if (strchr(letters, *host) == NULL && strchr("0123456789.-_:", *host) == NULL)
            return false;
    return true;
}

static int read_chroot(struct tn_zk_url *url, struct tn_text *reterr)
{
    char *path = url->net.path;
    size_t len = strlen(path);
    const char *reason = NULL;

    if (len > 0 && path[len - 1] == '/')
        path[--len] = '\0';
    if (len == 0)
        return 0;
    if (tn_name_check(path, len, &reason) < 0) {
        tn_text_addf(reterr, "the chroot follows the rule of names: %s", reason);
        return TENURE_E_INVALID;
    }
    if (strncmp(path, "zookeeper", 9) == 0 && (path[9] == '/' || path[9] == '\0')) {
        tn_text_add(reterr, "/zookeeper belongs to the server: choose another chroot");
        return TENURE_E_INVALID;
    }
    (void)snprintf(url->chroot, sizeof url->chroot, "/%s", path);
    return 0;
}

int tn_zk_url_parse(const char *rest, struct tn_zk_url *ret_url, struct tn_text *reterr)
{
    struct tn_zk_url url = { .auth = "" };

    if (strpbrk(rest, "?#") != NULL)
        return refuse_url(reterr, "a ZooKeeper URL has no options");
    int rc = tn_net_url_parse(&url.net, &form, rest, reterr);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < url.net.count; i++)
        if (!is_host(url.net.endpoints[i].host))
            return refuse_url(reterr, "a host has letters that no host has");
    if ((url.net.user[0] != '\0') != (url.net.password[0] != '\0'))
        return refuse_url(reterr, "a user and a password belong together");
    if (url.net.user[0] != '\0')
        (void)snprintf(url.auth, sizeof url.auth, "%s:%s", url.net.user, url.net.password);
    rc = read_chroot(&url, reterr);
    if (rc == 0)
        *ret_url = url;
    return rc;
}
