/* registry_test.c - which store a URL names, and what is said when there is none. */
#include "tests/harness/test.h"

#include <string.h>

#include "stores/memory.h"
#include "stores/registry.h"
#include "stores/sqlite.h"

static char line[500];

static int find(const char *url, const struct tn_store_ops **ret_ops, const char **ret_rest)
{
    struct tn_text error;

    tn_text_init(&error, line, sizeof line);
    return tn_store_find(url, ret_ops, ret_rest, &error);
}

TEST(the_scheme_names_the_store)
{
    const struct tn_store_ops *ops = NULL;
    const char *rest = NULL;

    CHECK_EQ_I64(find("sqlite:/var/lib/t.db", &ops, &rest), 0);
    CHECK(ops == &tn_sqlite_store_ops);
    CHECK_STR(rest, "/var/lib/t.db");
    CHECK_EQ_I64(find("memory:x?latency=5ms", &ops, &rest), 0);
    CHECK(ops == &tn_memory_store_ops);
    CHECK_STR(rest, "x?latency=5ms");
    CHECK_EQ_I64(find(NULL, &ops, &rest), 0);
    CHECK(ops == &tn_sqlite_store_ops);
    CHECK_STR(rest, "");
    CHECK_EQ_I64(find("", &ops, &rest), 0);
    CHECK(ops == &tn_sqlite_store_ops);
}

TEST(an_unknown_scheme_is_refused_with_those_that_are_known)
{
    const struct tn_store_ops *ops = NULL;
    const char *rest = NULL;

    CHECK_EQ_I64(find("sqlit:/x", &ops, &rest), TENURE_E_INVALID);
    CHECK_STR(line, "'sqlit:/x' names no store; known are sqlite:, memory:; did you mean sqlite:?");
    CHECK_EQ_I64(find("/var/lib/t.db", &ops, &rest), TENURE_E_INVALID);
    CHECK_STR(line, "'/var/lib/t.db' names no store; known are sqlite:, memory:; for a file write "
                    "sqlite:PATH");
    CHECK_EQ_I64(find("qqq\n:x", &ops, &rest), TENURE_E_INVALID);
    CHECK_STR(line, "'qqq\\n:x' names no store; known are sqlite:, memory:");
    CHECK(ops == NULL);
}

TEST(a_scheme_of_other_builds_is_told_apart)
{
    static const char *const urls[] = { "etcd://h",  "zookeeper://h", "consul://h",
                                        "redis://h", "kubernetes://", "dynamodb://t",
                                        "unix:/x",   "tenured://h",   "postgres://h" };
    const struct tn_store_ops *ops = NULL;
    const char *rest = NULL;

    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        CHECK_EQ_I64(find(urls[i], &ops, &rest), TENURE_E_UNSUPPORTED);
        CHECK(strstr(line, "is not in this build") != NULL);
    }
    CHECK_STR(line, "postgres: is not in this build of tenure; install libpq-dev and build again");
}
