/* dict_test.c - the dictionary, the list and hexadecimal digits. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dict.h"
#include "base/hex.h"
#include "base/list.h"

enum { THINGS = 10000 };

struct thing {
    struct tn_dict_node node;
    unsigned seen;
    char name[24];
};

static struct thing *find_thing(const struct tn_dict *dict, const char *name)
{
    return (struct thing *)tn_dict_find(dict, name, strlen(name));
}

static void see_all(const struct tn_dict *dict)
{
    for (struct tn_dict_node *node = tn_dict_next(dict, NULL); node != NULL;
         node = tn_dict_next(dict, node))
        ((struct thing *)node)->seen++;
}

TEST(dict_finds_each_of_ten_thousand_names)
{
    struct thing *things = calloc(THINGS, sizeof *things);
    struct tn_dict dict;
    size_t longest = 0;

    CHECK(things != NULL);
    tn_dict_init(&dict, (struct tn_hash_key) { 1, 2 });
    CHECK(find_thing(&dict, "job/1") == NULL);
    CHECK(tn_dict_next(&dict, NULL) == NULL);
    for (int i = 0; i < THINGS; i++) {
        (void)snprintf(things[i].name, sizeof things[i].name, "job/%d", i);
        tn_dict_add(&dict, &things[i].node, things[i].name, strlen(things[i].name));
    }
    CHECK_EQ_U64(dict.count, THINGS);
    for (int i = 0; i < THINGS; i++)
        CHECK(find_thing(&dict, things[i].name) == &things[i]);
    CHECK(find_thing(&dict, "job/10000") == NULL);
    CHECK(find_thing(&dict, "job/") == NULL);
    /* It grew: a bucket has a few nodes at most. */
    for (size_t i = 0; i < dict.room; i++) {
        size_t chain = 0;
        for (struct tn_dict_node *node = dict.buckets[i]; node != NULL; node = node->next)
            chain++;
        longest = chain > longest ? chain : longest;
    }
    CHECK(longest <= 12);
    see_all(&dict);
    for (int i = 0; i < THINGS; i++)
        CHECK_EQ_U64(things[i].seen, 1);
    for (int i = 0; i < THINGS; i += 2)
        tn_dict_remove(&dict, &things[i].node);
    see_all(&dict);
    for (int i = 0; i < THINGS; i++) {
        CHECK_EQ_U64(things[i].seen, i % 2 == 0 ? 1 : 2);
        CHECK((find_thing(&dict, things[i].name) != NULL) == (i % 2 == 1));
    }
    tn_dict_done(&dict);
    free(things);
}

TEST(dict_nodes_may_be_removed_while_it_is_walked)
{
    struct thing things[3] = { 0 };
    struct tn_dict dict;

    tn_dict_init(&dict, (struct tn_hash_key) { 0, 0 });
    for (int i = 0; i < 3; i++) {
        things[i].name[0] = (char)('a' + i);
        tn_dict_add(&dict, &things[i].node, things[i].name, 1);
    }
    for (struct tn_dict_node *node = tn_dict_next(&dict, NULL), *next; node != NULL; node = next) {
        next = tn_dict_next(&dict, node);
        tn_dict_remove(&dict, node);
    }
    CHECK_EQ_U64(dict.count, 0);
    CHECK(tn_dict_next(&dict, NULL) == NULL);
    tn_dict_done(&dict);
}

TEST(list_nodes_leave_from_anywhere)
{
    struct tn_list_node nodes[4] = { 0 };
    struct tn_list list;

    tn_list_init(&list);
    CHECK(tn_list_take(&list) == NULL);
    for (int i = 0; i < 4; i++)
        tn_list_add(&list, &nodes[i]);
    tn_list_remove(&nodes[2]);
    tn_list_remove(&nodes[2]);
    tn_list_remove(&nodes[3]);
    tn_list_add(&list, &nodes[2]);
    CHECK(tn_list_take(&list) == &nodes[0]);
    CHECK(tn_list_first(&list) == &nodes[1]);
    CHECK(tn_list_take(&list) == &nodes[1]);
    CHECK(tn_list_take(&list) == &nodes[2]);
    CHECK(tn_list_first(&list) == NULL);
    tn_list_add_first(&list, &nodes[1]);
    tn_list_add_first(&list, &nodes[0]);
    tn_list_add(&list, &nodes[2]);
    CHECK(tn_list_first(&list) == &nodes[0]);
    CHECK(tn_list_next(&list, &nodes[0]) == &nodes[1]);
    CHECK(tn_list_next(&list, &nodes[1]) == &nodes[2]);
    CHECK(tn_list_next(&list, &nodes[2]) == NULL);
}

TEST(list_moves_behind_another)
{
    struct tn_list_node nodes[3] = { 0 };
    struct tn_list list, other;

    tn_list_init(&list);
    tn_list_init(&other);
    tn_list_move(&list, &other);
    CHECK(tn_list_first(&list) == NULL);
    tn_list_add(&list, &nodes[0]);
    tn_list_add(&other, &nodes[1]);
    tn_list_add(&other, &nodes[2]);
    tn_list_move(&list, &other);
    CHECK(tn_list_first(&other) == NULL);
    for (int i = 0; i < 3; i++)
        CHECK(tn_list_take(&list) == &nodes[i]);
    CHECK(tn_list_take(&list) == NULL);
}

TEST(hex_digits_come_back_as_the_same_bytes)
{
    const unsigned char bytes[] = { 0x00, 0x7f, 0xa5, 0xff };
    unsigned char back[4];
    char text[9] = "";

    tn_hex(text, bytes, sizeof bytes);
    CHECK_STR(text, "007fa5ff");
    CHECK(tn_unhex(back, "007FA5ff", 4));
    CHECK_MEM(back, bytes, sizeof bytes);
    CHECK(!tn_unhex(back, "007fa5fg", 4));
    CHECK(!tn_unhex(back, "0", 1));
}
