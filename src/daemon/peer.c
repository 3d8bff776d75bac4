/* peer.c - how many connections one peer has: on a Unix socket a process, on TCP an address. */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/server.h"

struct tn_peer {
    struct tn_map_node node; /* First. */
    uint32_t conns;
    uint8_t key[17]; /* What kind, and the process or address. */
};

static void read_key(const struct tn_conn *conn, uint8_t key[17])
{
    struct sockaddr_storage address = { 0 };
    int len = sizeof address;

    memset(key, 0, 17);
    if (conn->peer_kind != TN_PEER_UNKNOWN) {
        /* In another pid namespace: all of them have the number 0 here. */
        uint64_t process = conn->pid == 0 ? tn_link_process(conn) : 0;
        key[0] = 'u';
        memcpy(key + 1, &conn->pid, sizeof conn->pid);
        memcpy(key + 1 + sizeof conn->pid, &process, sizeof process);
        return;
    }
    (void)uv_tcp_getpeername(&conn->uv.tcp, (struct sockaddr *)&address, &len);
    key[0] = address.ss_family == AF_INET6 ? '6' : '4';
    if (address.ss_family == AF_INET6)
        memcpy(key + 1, &((struct sockaddr_in6 *)&address)->sin6_addr, 16);
    else
        memcpy(key + 1, &((struct sockaddr_in *)&address)->sin_addr, 4);
}

bool tn_peer_add(struct tn_conn *conn)
{
    struct tn_server *server = conn->server;
    uint8_t key[17];

    read_key(conn, key);
    uint64_t hash = tn_map_hash(server, key, sizeof key);
    struct tn_map_node *node = tn_map_first(server->peers, hash);
    while (node != NULL && memcmp(((struct tn_peer *)node)->key, key, sizeof key) != 0)
        node = tn_map_next(node);
    struct tn_peer *peer = (struct tn_peer *)node;
    if (peer == NULL) {
        peer = calloc(1, sizeof *peer);
        if (peer == NULL)
            return false;
        memcpy(peer->key, key, sizeof key);
        tn_map_add(server->peers, &peer->node, hash);
    }
    peer->conns++;
    conn->peer = peer;
    return peer->conns <= server->config.peer_conns_max;
}

void tn_peer_drop(struct tn_conn *conn)
{
    struct tn_peer *peer = conn->peer;

    conn->peer = NULL;
    if (peer == NULL || --peer->conns > 0)
        return;
    tn_map_remove(conn->server->peers, &peer->node);
    free(peer);
}
