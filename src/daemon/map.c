/* map.c - chained hash tables of things that live elsewhere: links, waits and watches. */
#include "base/assert.h"
#include "daemon/server.h"

uint64_t tn_map_hash(const struct tn_server *server, const void *bytes, size_t len)
{
    return tn_hash(server->config.limits.hash_key, bytes, len);
}

static struct tn_map_node **bucket_of(struct tn_map_node **buckets, uint64_t hash)
{
    return &buckets[hash % TN_BUCKETS];
}

void tn_map_add(struct tn_map_node **buckets, struct tn_map_node *node, uint64_t hash)
{
    struct tn_map_node **bucket = bucket_of(buckets, hash);

    node->hash = hash;
    node->next = *bucket;
    *bucket = node;
}

void tn_map_remove(struct tn_map_node **buckets, struct tn_map_node *node)
{
    struct tn_map_node **at = bucket_of(buckets, node->hash);

    while (*at != node) {
        TN_ASSERT(*at != NULL);
        at = &(*at)->next;
    }
    *at = node->next;
}

static struct tn_map_node *skip_others(struct tn_map_node *node, uint64_t hash)
{
    while (node != NULL && node->hash != hash)
        node = node->next;
    return node;
}

struct tn_map_node *tn_map_first(struct tn_map_node **buckets, uint64_t hash)
{
    return skip_others(*bucket_of(buckets, hash), hash);
}

struct tn_map_node *tn_map_next(struct tn_map_node *node)
{
    return skip_others(node->next, node->hash);
}
