/* config.h - what an etcd: URL says: those of base/net_url.h, with a prefix as its path.
 *
 * etcds: is the same over TLS. User and password may come from the environment instead,
 * TENURE_ETCD_USER and TENURE_ETCD_PASSWORD, which other users cannot read. */
#ifndef TN_STORES_ETCD_CONFIG_H
#define TN_STORES_ETCD_CONFIG_H

#include "base/net_url.h"

enum { TN_ETCD_PREFIX_MAX = 255 };

struct tn_etcd_config {
    struct tn_net_url url;
    char prefix[TN_ETCD_PREFIX_MAX + 2]; /* With a slash at its end, or empty. */
};

/* Read @rest, the URL behind its scheme's colon. Returns 0 or TENURE_E_INVALID with a line that
 * never repeats the password. */
TENURE_MUST_USE int tn_etcd_config_parse(struct tn_etcd_config *ret_config, const char *rest,
                                         bool tls, struct tn_text *reterr);

#endif
