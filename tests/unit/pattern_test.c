/* pattern_test.c - which words are patterns, and which names they cover. */
#include "tests/harness/test.h"

#include <string.h>

#include "base/pattern.h"

static bool covers(const char *pattern, const char *name)
{
    return tn_pattern_covers(pattern, name, strlen(name));
}

TEST(a_pattern_is_a_name_a_prefix_and_a_star_or_a_star)
{
    static const char *const good[] = { "*", "a", "a/b", "a/*", "a/b/*" };
    static const char *const bad[] = { "",     "/*",  "a*",  "*a",  "a/**", "a//*",
                                       "a/*/", "a/ ", "*/a", "./*", "a b/*" };
    const char *why = NULL;

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        CHECK(tn_pattern_check(good[i], NULL));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK(!tn_pattern_check(bad[i], &why));
        CHECK(why != NULL);
    }
}

TEST(a_star_covers_whole_segments_at_any_depth)
{
    CHECK(covers("*", "a"));
    CHECK(covers("*", "a/b/c"));
    CHECK(covers("a", "a"));
    CHECK(!covers("a", "ab"));
    CHECK(!covers("a", "a/b"));
    CHECK(covers("a/*", "a/b"));
    CHECK(covers("a/*", "a/b/c"));
    CHECK(!covers("a/*", "a"));
    CHECK(!covers("a/*", "ab/c"));
    CHECK(!covers("a/*", "a/"));
}

TEST(a_pattern_covers_narrower_patterns)
{
    CHECK(covers("*", "*"));
    CHECK(covers("a/*", "a/*"));
    CHECK(covers("a/*", "a/b/*"));
    CHECK(!covers("a/b/*", "a/*"));
    CHECK(!covers("a", "a/*"));
    CHECK(!covers("a/*", "*"));
}

TEST(the_longest_pattern_has_room)
{
    char pattern[TN_PATTERN_SIZE + 2];

    memset(pattern, 'a', sizeof pattern);
    memcpy(pattern + TN_NAME_MAX, "/*", 3);
    CHECK(tn_pattern_check(pattern, NULL));
    CHECK_EQ_U64(strlen(pattern) + 1, TN_PATTERN_SIZE);
    pattern[TN_NAME_MAX] = 'a';
    memcpy(pattern + TN_NAME_MAX + 1, "/*", 3);
    CHECK(!tn_pattern_check(pattern, NULL));
}
