/* heap_test.c - the node that is due first is first, whatever was put in and taken out. */
#include "tests/harness/test.h"

#include "base/prng.h"
#include "core/heap.h"

#define NODES 200

TEST(an_empty_heap_has_no_first)
{
    struct tn_heap heap = { NULL };
    CHECK(tn_heap_first(&heap) == NULL);
}

TEST(a_node_taken_from_the_middle_leaves_the_others)
{
    struct tn_heap heap = { NULL };
    struct tn_heap_node nodes[3] = { { .at = 3 }, { .at = 1 }, { .at = 2 } };

    for (int i = 0; i < 3; i++)
        tn_heap_insert(&heap, &nodes[i]);
    tn_heap_remove(&heap, &nodes[2]);
    CHECK(tn_heap_first(&heap) == &nodes[1]);
    tn_heap_remove(&heap, &nodes[1]);
    CHECK(tn_heap_first(&heap) == &nodes[0]);
    tn_heap_remove(&heap, &nodes[0]);
    CHECK(tn_heap_first(&heap) == NULL);
}

static tenure_ns least(const struct tn_heap_node *nodes, const bool *in)
{
    tenure_ns at = TN_NEVER;

    for (int i = 0; i < NODES; i++)
        if (in[i] && nodes[i].at < at)
            at = nodes[i].at;
    return at;
}

TEST(the_first_is_the_least_after_every_change)
{
    static struct tn_heap_node nodes[NODES];
    static bool in[NODES];
    struct tn_heap heap = { NULL };
    struct tn_prng prng;

    tn_prng_seed(&prng, 7);
    for (int step = 0; step < 20000; step++) {
        uint64_t i = tn_prng_below(&prng, NODES);
        if (in[i]) {
            tn_heap_remove(&heap, &nodes[i]);
        } else {
            nodes[i].at = (tenure_ns)tn_prng_below(&prng, 50);
            tn_heap_insert(&heap, &nodes[i]);
        }
        in[i] = !in[i];
        const struct tn_heap_node *first = tn_heap_first(&heap);
        CHECK_EQ_I64(first != NULL ? first->at : TN_NEVER, least(nodes, in));
    }
}
