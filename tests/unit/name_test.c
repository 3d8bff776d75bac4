/* name_test.c - the name rule, one case per clause. */
#include "tests/harness/test.h"

#include <string.h>

#include "base/name.h"

static int check(const char *name, const char **reterr)
{
    return tn_name_check(name, strlen(name), reterr);
}

TEST(good_names_pass)
{
    static const char *const good[] = { "a",   "a/b/c",        "Az09._~:@-", "..a",
                                        "a..", "...",          "a/.b/c..",   "-",
                                        "~",   "jobs/nightly", ".a/b.",      "x@host:7" };

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        CHECK_EQ_I64(check(good[i], NULL), 0);
}

TEST(bad_names_get_a_reason)
{
    static const struct {
        const char *name;
        const char *reason;
    } bad[] = {
        { "", "at least 1 byte" },     { "/", "empty segment" },    { "/a", "empty segment" },
        { "a/", "empty segment" },     { "a//b", "empty segment" }, { ".", "'.' or '..'" },
        { "..", "'.' or '..'" },       { "a/../b", "'.' or '..'" }, { "a/.", "'.' or '..'" },
        { "a b", "has only" },         { "a\n", "has only" },       { "a\\b", "has only" },
        { "caf\xc3\xa9", "has only" }, { "a*", "has only" },        { "a%2f", "has only" },
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *reason = NULL;
        CHECK_EQ_I64(check(bad[i].name, &reason), TENURE_E_INVALID);
        CHECK(reason != NULL && strstr(reason, bad[i].reason) != NULL);
        CHECK_EQ_I64(check(bad[i].name, NULL), TENURE_E_INVALID);
    }
}

TEST(length_counts_in_bytes)
{
    char name[TN_NAME_MAX + 1];
    const char *reason = NULL;

    memset(name, 'n', sizeof name);
    CHECK_EQ_I64(tn_name_check(name, TN_NAME_MAX, NULL), 0);
    CHECK_EQ_I64(tn_name_check(name, TN_NAME_MAX + 1, &reason), TENURE_E_INVALID);
    CHECK_STR(reason, "a name has at most 255 bytes");
}

TEST(a_zero_byte_inside_is_refused)
{
    CHECK_EQ_I64(tn_name_check("a\0b", 3, NULL), TENURE_E_INVALID);
    CHECK_EQ_I64(tn_name_check("\0", 1, NULL), TENURE_E_INVALID);
}
