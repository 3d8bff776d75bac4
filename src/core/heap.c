/* heap.c - a pairing heap; heap.h has the contract. */
#include "core/heap.h"

#include "base/assert.h"

/* One tree of two: the later root becomes the first child of the earlier. */
static struct tn_heap_node *meld(struct tn_heap_node *a, struct tn_heap_node *b)
{
    if (a == NULL || b == NULL)
        return a != NULL ? a : b;
    if (b->at < a->at) {
        struct tn_heap_node *swap = a;
        a = b;
        b = swap;
    }
    b->prev = a;
    b->next = a->child;
    if (a->child != NULL)
        a->child->prev = b;
    a->child = b;
    return a;
}

/* One tree of a list of siblings: first in pairs, then all pairs into one. */
static struct tn_heap_node *meld_all(struct tn_heap_node *list)
{
    struct tn_heap_node *pairs = NULL, *root = NULL;

    while (list != NULL) {
        struct tn_heap_node *a = list, *b = list->next;
        list = b != NULL ? b->next : NULL;
        a->next = a->prev = NULL;
        if (b != NULL)
            b->next = b->prev = NULL;
        a = meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    while (pairs != NULL) {
        struct tn_heap_node *pair = pairs;
        pairs = pair->next;
        pair->next = NULL;
        root = meld(root, pair);
    }
    return root;
}

void tn_heap_insert(struct tn_heap *heap, struct tn_heap_node *node)
{
    node->child = node->next = node->prev = NULL;
    heap->root = meld(heap->root, node);
}

void tn_heap_remove(struct tn_heap *heap, struct tn_heap_node *node)
{
    struct tn_heap_node *rest = meld_all(node->child);

    if (node == heap->root) {
        heap->root = rest;
    } else {
        TN_ASSERT(node->prev != NULL);
        if (node->prev->child == node)
            node->prev->child = node->next;
        else
            node->prev->next = node->next;
        if (node->next != NULL)
            node->next->prev = node->prev;
        heap->root = meld(heap->root, rest);
    }
    node->child = node->next = node->prev = NULL;
}
