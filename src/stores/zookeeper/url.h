/* url.h - the parts of a ZooKeeper store's URL. */
#ifndef TN_STORES_ZOOKEEPER_URL_H
#define TN_STORES_ZOOKEEPER_URL_H

#include <stddef.h>

#include "base/name.h"
#include "base/text.h"

enum { TN_ZK_HOSTS_MAX = 16, TN_ZK_HOST_MAX = 256, TN_ZK_AUTH_MAX = 256 };

struct tn_zk_url {
    struct {
        char name[TN_ZK_HOST_MAX]; /* Without brackets. */
        unsigned port;
    } hosts[TN_ZK_HOSTS_MAX];
    size_t host_count;
    char auth[TN_ZK_AUTH_MAX];    /* "user:password", decoded; "" is nobody. */
    char chroot[TN_NAME_MAX + 2]; /* "" or "/a/b". */
};

/* Takes what stands behind "zookeeper:". Returns 0 or TENURE_E_INVALID; @reterr never names the
 * password. */
TENURE_MUST_USE int tn_zk_url_parse(const char *rest, struct tn_zk_url *ret_url,
                                    struct tn_text *reterr);

/* The hosts, for people. */
void tn_zk_url_hosts(const struct tn_zk_url *url, struct tn_text *text);

#endif
