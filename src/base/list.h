/* list.h - an intrusive list with two ends: nodes go in at either end and come out anywhere.
 *
 * The caller owns the nodes. A node that is in no list has links of zero, so that taking it out
 * twice does no harm. */
#ifndef TN_BASE_LIST_H
#define TN_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct tn_list_node {
    struct tn_list_node *next, *prev;
};

/* What @node is a member of. */
#define TN_LIST_ENTRY(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

/* A ring: @ends is before the first node and behind the last. */
struct tn_list {
    struct tn_list_node ends;
};

/* Points to itself: do not copy it. */
static inline void tn_list_init(struct tn_list *list)
{
    list->ends.next = list->ends.prev = &list->ends;
}

/* NULL: the list is empty. */
static inline struct tn_list_node *tn_list_first(const struct tn_list *list)
{
    return list->ends.next != &list->ends ? list->ends.next : NULL;
}

static inline void tn_list_add(struct tn_list *list, struct tn_list_node *node)
{
    node->next = &list->ends;
    node->prev = list->ends.prev;
    node->prev->next = list->ends.prev = node;
}

static inline void tn_list_add_first(struct tn_list *list, struct tn_list_node *node)
{
    node->prev = &list->ends;
    node->next = list->ends.next;
    node->next->prev = list->ends.next = node;
}

/* The one behind @node, which is in the list; NULL: there is none. */
static inline struct tn_list_node *tn_list_next(const struct tn_list *list,
                                                const struct tn_list_node *node)
{
    return node->next != &list->ends ? node->next : NULL;
}

static inline void tn_list_remove(struct tn_list_node *node)
{
    if (node->next == NULL)
        return;
    node->next->prev = node->prev;
    node->prev->next = node->next;
    node->next = node->prev = NULL;
}

/* NULL: the list is empty. */
static inline struct tn_list_node *tn_list_take(struct tn_list *list)
{
    struct tn_list_node *node = tn_list_first(list);

    if (node != NULL)
        tn_list_remove(node);
    return node;
}

/* All of @from behind all of @list. */
static inline void tn_list_move(struct tn_list *list, struct tn_list *from)
{
    if (tn_list_first(from) == NULL)
        return;
    from->ends.next->prev = list->ends.prev;
    list->ends.prev->next = from->ends.next;
    from->ends.prev->next = &list->ends;
    list->ends.prev = from->ends.prev;
    tn_list_init(from);
}

#endif
