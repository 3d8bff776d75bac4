/* url.h - the parts of a ZooKeeper store's URL. */
#ifndef TN_STORES_ZOOKEEPER_URL_H
#define TN_STORES_ZOOKEEPER_URL_H

#include "base/name.h"
#include "base/net_url.h"

struct tn_zk_url {
    struct tn_net_url net;
    char auth[400];               /* "user:password", decoded; "" is nobody. */
    char chroot[TN_NAME_MAX + 2]; /* "" or "/a/b". */
};

/* Takes what stands behind "zookeeper:". Returns 0 or TENURE_E_INVALID; @reterr never names the
 * password. */
TENURE_MUST_USE int tn_zk_url_parse(const char *rest, struct tn_zk_url *ret_url,
                                    struct tn_text *reterr);

#endif
