/* dict.h - a dictionary from bytes to intrusive nodes: the names and sessions of a store.
 *
 * The caller owns the nodes and the keys, and keeps both unchanged while a node is in it. The
 * hash is keyed with a seed from the caller, so nobody can choose names that share one bucket.
 *
 *     struct thing { struct tn_dict_node node; char name[64]; };
 *     tn_dict_add(&dict, &thing->node, thing->name, strlen(thing->name));
 *     struct thing *found = (struct thing *)tn_dict_find(&dict, "a", 1);
 *
 * Adding never fails: without memory it stays small and gets slower. */
#ifndef TN_BASE_DICT_H
#define TN_BASE_DICT_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

enum { TN_DICT_FEW = 8 };

struct tn_dict_node {
    struct tn_dict_node *next;
    const void *key;
    size_t len;
    uint64_t hash;
};

struct tn_dict {
    struct tn_hash_key seed;
    struct tn_dict_node **buckets; /* A power of two; @few to begin with. */
    size_t room, count;
    struct tn_dict_node *few[TN_DICT_FEW];
};

/* Points into itself: do not copy it. */
void tn_dict_init(struct tn_dict *dict, struct tn_hash_key seed);
/* Frees the buckets, not the nodes. A dictionary of zeros is fine, too. */
void tn_dict_done(struct tn_dict *dict);

/* The key must not be in it yet. */
void tn_dict_add(struct tn_dict *dict, struct tn_dict_node *node, const void *key, size_t len);
void tn_dict_remove(struct tn_dict *dict, struct tn_dict_node *node);
struct tn_dict_node *tn_dict_find(const struct tn_dict *dict, const void *key, size_t len);
/* One node after the other, in no order: NULL begins, and NULL is the end. Fetch the next node
 * before @node is removed; adding ends the iteration. */
struct tn_dict_node *tn_dict_next(const struct tn_dict *dict, const struct tn_dict_node *node);

#endif
