/* map.h - chained hash tables of fixed size, for what the daemon looks up by a hash.
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_MAP_H
#define TN_DAEMON_MAP_H

#include <stddef.h>
#include <stdint.h>

struct tn_server;

#define TN_BUCKETS 4096

/* A word of a hash table's chain. */
struct tn_map_node {
    struct tn_map_node *next;
    uint64_t hash;
};

uint64_t tn_map_hash(const struct tn_server *server, const void *bytes, size_t len);
void tn_map_add(struct tn_map_node **buckets, struct tn_map_node *node, uint64_t hash);
void tn_map_remove(struct tn_map_node **buckets, struct tn_map_node *node);
/* The first of a chain, and the next: those with this hash, perhaps with other keys. */
struct tn_map_node *tn_map_first(struct tn_map_node **buckets, uint64_t hash);
struct tn_map_node *tn_map_next(struct tn_map_node *node);

#endif
