/* dict.c - a dictionary of intrusive nodes; dict.h. */
#include "base/dict.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

void tn_dict_init(struct tn_dict *dict, struct tn_hash_key seed)
{
    *dict = (struct tn_dict) { .seed = seed, .room = TN_DICT_FEW };
    dict->buckets = dict->few;
}

void tn_dict_done(struct tn_dict *dict)
{
    if (dict->buckets != dict->few)
        free(dict->buckets);
    dict->buckets = NULL;
    dict->room = dict->count = 0;
}

static struct tn_dict_node **bucket_of(const struct tn_dict *dict, uint64_t hash)
{
    return &dict->buckets[hash & (dict->room - 1)];
}

static void dict_grow(struct tn_dict *dict)
{
    struct tn_dict larger = { .room = 2 * dict->room };

    larger.buckets = calloc(larger.room, sizeof(struct tn_dict_node *));
    if (larger.buckets == NULL)
        return;
    for (size_t i = 0; i < dict->room; i++) {
        for (struct tn_dict_node *node = dict->buckets[i], *next; node != NULL; node = next) {
            struct tn_dict_node **bucket = bucket_of(&larger, node->hash);
            next = node->next;
            node->next = *bucket;
            *bucket = node;
        }
    }
    if (dict->buckets != dict->few)
        free(dict->buckets);
    dict->buckets = larger.buckets;
    dict->room = larger.room;
}

void tn_dict_add(struct tn_dict *dict, struct tn_dict_node *node, const void *key, size_t len)
{
    if (dict->count >= dict->room)
        dict_grow(dict);
    node->key = key;
    node->len = len;
    node->hash = tn_hash(dict->seed, key, len);
    struct tn_dict_node **bucket = bucket_of(dict, node->hash);
    node->next = *bucket;
    *bucket = node;
    dict->count++;
}

void tn_dict_remove(struct tn_dict *dict, struct tn_dict_node *node)
{
    struct tn_dict_node **link = bucket_of(dict, node->hash);

    while (*link != node) {
        TN_ASSERT(*link != NULL);
        link = &(*link)->next;
    }
    *link = node->next;
    dict->count--;
}

struct tn_dict_node *tn_dict_find(const struct tn_dict *dict, const void *key, size_t len)
{
    uint64_t hash = tn_hash(dict->seed, key, len);
    struct tn_dict_node *node = *bucket_of(dict, hash);

    while (node != NULL &&
           (node->hash != hash || node->len != len || memcmp(node->key, key, len) != 0))
        node = node->next;
    return node;
}

struct tn_dict_node *tn_dict_next(const struct tn_dict *dict, const struct tn_dict_node *node)
{
    if (node != NULL && node->next != NULL)
        return node->next;
    for (size_t i = node != NULL ? (node->hash & (dict->room - 1)) + 1 : 0; i < dict->room; i++) {
        if (dict->buckets[i] != NULL)
            return dict->buckets[i];
    }
    return NULL;
}
