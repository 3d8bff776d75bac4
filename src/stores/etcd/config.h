/* config.h - what an etcd: URL says.
 *
 *   etcd://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]...][/PREFIX][?OPTION=VALUE[&...]]
 *
 * etcds: is the same over TLS; its options are ca, cert and key (PEM files) and name (the host name
 * that the certificate must be for, instead of HOST). User and password may come from the
 * environment instead, TENURE_ETCD_USER and TENURE_ETCD_PASSWORD, which other users cannot read. */
#ifndef TN_STORES_ETCD_CONFIG_H
#define TN_STORES_ETCD_CONFIG_H

#include <stdbool.h>

#include "base/text.h"
#include "tenure/error.h"

enum { TN_ETCD_ENDPOINTS = 16, TN_ETCD_PREFIX_MAX = 255 };

struct tn_etcd_endpoint {
    char host[256]; /* Without brackets. */
    char port[6];
    char where[272]; /* host:port, for people and as the authority. */
};

struct tn_etcd_config {
    struct tn_etcd_endpoint endpoints[TN_ETCD_ENDPOINTS];
    unsigned count;
    bool tls;
    char prefix[TN_ETCD_PREFIX_MAX + 2]; /* With a slash at its end, or empty. */
    char user[128];                      /* Empty: none. */
    char password[256];
    char ca[256], cert[256], key[256], name[256];
};

/* Read @rest, the URL behind its scheme's colon. Returns 0 or TENURE_E_INVALID with a line that
 * never repeats the password. */
TENURE_MUST_USE int tn_etcd_config_parse(struct tn_etcd_config *ret_config, const char *rest,
                                         bool tls, struct tn_text *reterr);

#endif
