/* registry.c - the stores of this build by the scheme of their URL.
 *
 * A scheme that exists, but not in this build, gets another answer than a slip of the keyboard. */
#include "stores/registry.h"

#include <string.h>

#include "base/nearest.h"
#include "base/url.h"
#include "runtime/store_frame.h"
#include "stores/memory.h"
#include "stores/plugin/plugin.h"
#include "stores/redis/redis.h"
#include "stores/redlock/redlock.h"
#include "stores/sqlite/sqlite.h"
#include "stores/tenured/tenured.h"
#ifdef TENURE_CONSUL
#include "stores/consul/consul.h"
#endif
#ifdef TENURE_DYNAMODB
#include "stores/dynamodb/dynamodb.h"
#endif
#ifdef TENURE_ETCD
#include "stores/etcd/etcd.h"
#endif
#ifdef TENURE_KUBERNETES
#include "stores/kubernetes/kubernetes.h"
#endif
#ifdef TENURE_POSTGRES
#include "stores/postgres/postgres.h"
#endif
#ifdef TENURE_S3
#include "stores/s3/s3.h"
#endif
#ifdef TENURE_ZOOKEEPER
#include "stores/zookeeper/zookeeper.h"
#endif

static const struct tn_store_ops *const built[] = {
    &tn_sqlite_store_ops,
    &tn_memory_store_ops,
    &tn_unix_store_ops,
    &tn_tenured_store_ops,
    &tn_tenureds_store_ops,
#ifdef TENURE_CONSUL
    &tn_consul_store_ops,
    &tn_consuls_store_ops,
#endif
#ifdef TENURE_DYNAMODB
    &tn_dynamodb_store_ops,
#endif
#ifdef TENURE_ETCD
    &tn_etcd_store_ops,
    &tn_etcds_store_ops,
#endif
#ifdef TENURE_KUBERNETES
    &tn_kubernetes_store_ops,
#endif
#ifdef TENURE_POSTGRES
    &tn_postgres_store_ops,
    &tn_postgresql_store_ops,
#endif
#ifdef TENURE_S3
    &tn_s3_store_ops,
#endif
#ifdef TENURE_ZOOKEEPER
    &tn_zookeeper_store_ops,
    &tn_zookeepers_store_ops,
#endif
    &tn_redis_store_ops,
    &tn_rediss_store_ops,
    &tn_redis_unix_store_ops,
    &tn_redis_sentinel_store_ops,
    &tn_rediss_sentinel_store_ops,
    &tn_redlock_store_ops,
    &tn_redlocks_store_ops,
};

enum { BUILT = sizeof built / sizeof built[0] };

#ifdef TENURE_WEB
#define WITH_CURL NULL /* It is there, but the engine is not. */
#else
#define WITH_CURL "libcurl4-openssl-dev"
#endif

/* Schemes that builds may have, and the packages that each needs when it is built. */
static const struct {
    const char *scheme;
    const char *packages;
} absent[] = {
#ifndef TENURE_ETCD
    { "etcd", "libnghttp2-dev, libprotobuf-c-dev and protobuf-c-compiler" },
    { "etcds", "libnghttp2-dev, libprotobuf-c-dev and protobuf-c-compiler" },
#endif
#ifndef TENURE_ZOOKEEPER
    { "zookeeper", "libzookeeper-st-dev" },
    { "zookeepers", "libzookeeper-st-dev" },
#endif
#ifndef TENURE_CONSUL
    { "consul", WITH_CURL },
    { "consuls", WITH_CURL },
#endif
#ifndef TENURE_DYNAMODB
    { "dynamodb", WITH_CURL },
#endif
#ifndef TENURE_KUBERNETES
    { "kubernetes", WITH_CURL },
#endif
#ifndef TENURE_S3
    { "s3", WITH_CURL },
#endif
#ifndef TENURE_POSTGRES
    { "postgres", "libpq-dev" },
    { "postgresql", "libpq-dev" },
#endif
    { NULL, NULL }, /* The end: a build may have them all. */
};

enum { ABSENT = sizeof absent / sizeof absent[0] };

static void quote(struct tn_text *text, const char *url)
{
    char shown[256];

    (void)tn_url_public(url, shown, sizeof shown);
    tn_text_add(text, "'");
    tn_text_escape(text, shown, strlen(shown));
    tn_text_add(text, "'");
}

static bool is_scheme(const char *url, size_t len, const char *scheme)
{
    return strlen(scheme) == len && memcmp(url, scheme, len) == 0;
}

static void list_known(struct tn_text *text)
{
    for (size_t i = 0; i < BUILT; i++)
        tn_text_addf(text, "%s%s:", i > 0 ? ", " : "", built[i]->scheme);
}

/* "etdc:..." is near to etcd; "/var/lib/x.db" is a path without its scheme. */
static int refuse_url(const char *url, size_t len, struct tn_text *reterr)
{
    const char *words[BUILT + ABSENT] = { NULL };
    char typed[32];
    const char *nearest = NULL;

    for (size_t i = 0; i < BUILT; i++)
        words[i] = built[i]->scheme;
    for (size_t i = 0; absent[i].scheme != NULL; i++)
        words[BUILT + i] = absent[i].scheme;
    if (len > 0 && len < sizeof typed) {
        memcpy(typed, url, len);
        typed[len] = '\0';
        nearest = tn_nearest(typed, words);
    }
    quote(reterr, url);
    /* The remedy first: the list is long, and may be cut short. */
    tn_text_add(reterr, " names no store; ");
    if (nearest != NULL)
        tn_text_addf(reterr, "did you mean %s:? ", nearest);
    else if (url[len] == '\0')
        tn_text_add(reterr, "for a file write sqlite:PATH; ");
    else if (url[len + 1] >= '0' && url[len + 1] <= '9')
        tn_text_add(reterr, "put the kind of store in front, as in etcd://localhost:2379/prod; ");
    tn_text_add(reterr, "known are ");
    list_known(reterr);
    return TENURE_E_INVALID;
}

int tn_store_find(const char *url, const struct tn_store_ops **ret_ops, const char **ret_rest,
                  struct tn_text *reterr)
{
    if (url == NULL || url[0] == '\0')
        url = "sqlite:";
    size_t len = strcspn(url, ":");
    for (size_t i = 0; i < BUILT && url[len] == ':'; i++) {
        if (is_scheme(url, len, built[i]->scheme)) {
            *ret_ops = built[i];
            *ret_rest = url + len + 1;
            return 0;
        }
    }
    const struct tn_store_ops *own = url[len] == ':' ? tn_plugin_find(url, len) : NULL;
    if (own != NULL) {
        *ret_ops = own;
        *ret_rest = url + len + 1;
        return 0;
    }
    for (size_t i = 0; absent[i].scheme != NULL && url[len] == ':'; i++) {
        if (is_scheme(url, len, absent[i].scheme)) {
            tn_text_addf(reterr, "%s: is not in this build of tenure; install %s and build again",
                         absent[i].scheme, absent[i].packages);
            return TENURE_E_UNSUPPORTED;
        }
    }
    return refuse_url(url, len, reterr);
}

void tn_store_catalogue(struct tn_text *ret_built, struct tn_text *ret_left_out)
{
    for (size_t i = 0; i < BUILT; i++)
        tn_text_addf(ret_built, "%s%s", i > 0 ? ", " : "", built[i]->scheme);
    for (size_t i = 0; absent[i].scheme != NULL; i++)
        tn_text_addf(ret_left_out, "%s%s (%s)", ret_left_out->len > 0 ? ", " : "", absent[i].scheme,
                     absent[i].packages);
}

int tn_store_open(const struct tn_store_open *how, struct tn_store **ret_store,
                  struct tn_text *reterr)
{
    struct tn_store_open open = *how;
    const struct tn_store_ops *ops = NULL;

    int rc = tn_store_find(how->url, &ops, &open.rest, reterr);
    if (rc == 0 && how->ttl != 0)
        rc = tn_store_check_ttl(ops, how->ttl, reterr);
    return rc < 0 ? rc : ops->open(ops, &open, ret_store, reterr);
}
