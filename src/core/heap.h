/* heap.h - who is due next: a pairing heap of nodes that live inside what they belong to.
 *
 * Nothing is allocated, so ten thousand timers cost what they lie in. Insert and first are O(1),
 * remove O(log n) amortised. The order of equal times depends only on the calls made, so that a
 * simulated run can be replayed.
 * Threads: one at a time. */
#ifndef TN_CORE_HEAP_H
#define TN_CORE_HEAP_H

#include <stddef.h>

#include "base/time.h"

struct tn_heap_node {
    tenure_ns at;
    struct tn_heap_node *child; /* The first of those that are not due before this one. */
    struct tn_heap_node *next;  /* Sibling. */
    struct tn_heap_node *prev;  /* Sibling, or the parent of a first child; NULL: the root. */
};

/* All zero: an empty heap. */
struct tn_heap {
    struct tn_heap_node *root;
};

/* The node that is due first, or NULL. */
static inline struct tn_heap_node *tn_heap_first(const struct tn_heap *heap)
{
    return heap->root;
}

/* @node is not in any heap; its `at` is set. */
void tn_heap_insert(struct tn_heap *heap, struct tn_heap_node *node);

/* @node is in @heap. */
void tn_heap_remove(struct tn_heap *heap, struct tn_heap_node *node);

#endif
