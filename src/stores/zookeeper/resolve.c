/* resolve.c - the hosts of the URL as addresses. The library would ask the name server itself and
 * block the loop; of addresses it has nothing to ask. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/zookeeper/private.h"

enum { ADDRESSES_MAX = 64, ADDRESS_MAX = 64 };

struct tn_zk_resolve {
    struct tn_zk_store *store; /* NULL: nobody wants it any more. */
    uv_getaddrinfo_t asks[TN_ENDPOINTS_MAX];
    unsigned pending;
    int error;
    const char *failed; /* The host whose error that is. */
    char text[ADDRESSES_MAX * ADDRESS_MAX];
    struct tn_text servers;
    struct tn_net_url url;
};

static void add_server(struct tn_zk_resolve *resolve, const char *address, const char *port)
{
    tn_text_addf(&resolve->servers, "%s%s:%s", resolve->text[0] != '\0' ? "," : "", address, port);
}

/* Those that are connected stay so, if they still may. */
static void tell_sessions(struct tn_zk_store *store)
{
    for (struct tn_zk_session *at = NULL; (at = tn_zk_session_next(store, at)) != NULL;) {
        if (at->zh != NULL && !tn_zk_is_up(at))
            (void)zoo_set_servers(at->zh, store->servers);
        at->dirty = true;
    }
}

static void finish_resolve(struct tn_zk_resolve *resolve)
{
    struct tn_zk_store *store = resolve->store;

    if (store == NULL) {
        free(resolve);
        return;
    }
    store->resolve = NULL;
    if (resolve->text[0] == '\0') {
        unsigned doublings = store->resolve_failures < 5 ? store->resolve_failures : 5;
        (void)snprintf(store->resolve_why, sizeof store->resolve_why, "%.80s: %s",
                       resolve->failed != NULL ? resolve->failed : "", uv_strerror(resolve->error));
        store->resolve_failures++;
        store->resolve_at = tn_zk_now(store) + (TN_MS(100) << doublings);
    } else {
        store->resolve_failures = 0;
        store->resolve_at = tn_zk_now(store) + TN_SEC(5);
        if (store->servers == NULL || strcmp(store->servers, resolve->text) != 0) {
            free(store->servers);
            store->servers = strdup(resolve->text);
            tell_sessions(store);
        }
    }
    tn_store_kick(&store->base);
    free(resolve);
}

static void hear_address(uv_getaddrinfo_t *ask, int status, struct addrinfo *list)
{
    struct tn_zk_resolve *resolve = ask->data;
    size_t host = (size_t)(ask - resolve->asks);
    char address[ADDRESS_MAX];

    if (status < 0) {
        resolve->error = status;
        resolve->failed = resolve->url.endpoints[host].host;
    }
    for (struct addrinfo *at = list; at != NULL && status == 0; at = at->ai_next) {
        int rc = -1;
        if (at->ai_family == AF_INET)
            rc = uv_ip4_name((const struct sockaddr_in *)(const void *)at->ai_addr, address,
                             sizeof address);
        else if (at->ai_family == AF_INET6)
            rc = uv_ip6_name((const struct sockaddr_in6 *)(const void *)at->ai_addr, address,
                             sizeof address);
        if (rc == 0)
            add_server(resolve, address, resolve->url.endpoints[host].port);
    }
    uv_freeaddrinfo(list);
    if (--resolve->pending == 0)
        finish_resolve(resolve);
}

static bool is_address(const char *host)
{
    unsigned char bytes[16];

    return uv_inet_pton(AF_INET, host, bytes) == 0 || uv_inet_pton(AF_INET6, host, bytes) == 0;
}

static void ask_host(struct tn_zk_resolve *resolve, size_t host)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct uv_loop_s *loop = resolve->store->base.how.loop;

    resolve->asks[host].data = resolve;
    int rc = uv_getaddrinfo(loop, &resolve->asks[host], hear_address,
                            resolve->url.endpoints[host].host, NULL, &hints);
    if (rc == 0)
        resolve->pending++;
    else
        resolve->error = rc;
}

void tn_zk_resolve_start(struct tn_zk_store *store)
{
    const struct tn_net_url *url = &store->url.net;

    if (store->resolve != NULL || store->base.closing ||
        (store->resolve_at != 0 && tn_zk_now(store) < store->resolve_at))
        return;
    struct tn_zk_resolve *resolve = calloc(1, sizeof *resolve);
    if (resolve == NULL)
        return; /* Tried again in time. */
    resolve->store = store;
    resolve->url = *url;
    tn_text_init(&resolve->servers, resolve->text, sizeof resolve->text);
    store->resolve = resolve;
    resolve->pending = 1; /* Ours, until all are asked. */
    for (size_t i = 0; i < url->count; i++) {
        if (is_address(url->endpoints[i].host))
            add_server(resolve, url->endpoints[i].host, url->endpoints[i].port);
        else
            ask_host(resolve, i);
    }
    if (--resolve->pending == 0)
        finish_resolve(resolve);
}

void tn_zk_resolve_drop(struct tn_zk_store *store)
{
    struct tn_zk_resolve *resolve = store->resolve;

    if (resolve == NULL)
        return;
    store->resolve = NULL;
    resolve->store = NULL;
    for (size_t i = 0; i < resolve->url.count; i++) {
        if (resolve->asks[i].data != NULL)
            (void)uv_cancel((uv_req_t *)&resolve->asks[i]);
    }
}
