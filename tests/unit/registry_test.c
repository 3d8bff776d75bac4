/* registry_test.c - which store a URL names, and what is said when there is none. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "core/plan.h"
#include "stores/memory.h"
#include "stores/registry.h"
#include "stores/sqlite/sqlite.h"

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

static bool begins(const char *words)
{
    return strncmp(line, words, strlen(words)) == 0;
}

/* Which stores are known beside the first two depends on the build. */
TEST(an_unknown_scheme_is_refused_with_those_that_are_known)
{
    const struct tn_store_ops *ops = NULL;
    const char *rest = NULL;

    CHECK_EQ_I64(find("sqlit:/x", &ops, &rest), TENURE_E_INVALID);
    CHECK(begins("'sqlit:/x' names no store; did you mean sqlite:? known are sqlite:, memory:"));
    CHECK_EQ_I64(find("/var/lib/t.db", &ops, &rest), TENURE_E_INVALID);
    CHECK(begins("'/var/lib/t.db' names no store; for a file write sqlite:PATH; known are"));
    CHECK_EQ_I64(find("localhost:2379", &ops, &rest), TENURE_E_INVALID);
    CHECK(begins("'localhost:2379' names no store; put the kind of store in front, as in etcd://"));
    CHECK_EQ_I64(find("qqqqqqqqqq\n:x", &ops, &rest), TENURE_E_INVALID);
    CHECK(begins("'qqqqqqqqqq\\n:x' names no store; known are sqlite:, memory:"));
    CHECK(strstr(line, "did you mean") == NULL);
    CHECK(ops == NULL);
}

/* Each is built in, or said not to be; none is unknown. */
TEST(a_scheme_of_other_builds_is_told_apart)
{
    static const char *const schemes[] = { "etcd", "zookeeper", "redis",
                                           "unix", "tenured",   "postgres" };
    const struct tn_store_ops *ops;
    const char *rest;
    char url[64];
    char words[64];

    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        ops = NULL;
        (void)snprintf(url, sizeof url, "%s://x", schemes[i]);
        (void)snprintf(words, sizeof words, "%s: is not in this build of tenure", schemes[i]);
        int rc = find(url, &ops, &rest);
        if (rc == 0)
            CHECK_STR(ops->scheme, schemes[i]);
        else
            CHECK_EQ_I64(rc, TENURE_E_UNSUPPORTED);
        CHECK(rc == 0 || begins(words));
    }
}

/* Whether they are in this build depends on a library; a slip of the keyboard they never are. */
TEST(a_scheme_that_is_not_built_is_told_apart)
{
    static const char *const urls[] = { "consul://x", "dynamodb://x", "kubernetes://x", "s3://x" };
    const struct tn_store_ops *ops = NULL;
    const char *rest = NULL;

    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        int rc = find(urls[i], &ops, &rest);
        if (rc == 0) {
            CHECK(strncmp(ops->scheme, urls[i], strlen(ops->scheme)) == 0);
            continue;
        }
        CHECK_EQ_I64(rc, TENURE_E_UNSUPPORTED);
        CHECK(strstr(line, ": is not in this build of tenure; ") != NULL);
    }
}

TEST(each_scheme_is_known_once)
{
    static const char *const schemes[] = { " sqlite:", " memory:",   " etcd:",
                                           " etcds:",  " postgres:", " zookeeper:" };
    const struct tn_store_ops *ops = NULL;
    const char *rest = NULL;

    CHECK_EQ_I64(find("localhost:2379", &ops, &rest), TENURE_E_INVALID);
    CHECK(begins("'localhost:2379' names no store; put the kind of store in front, as in etcd://"));
    CHECK_EQ_I64(find("qqqqqqqqqq:x", &ops, &rest), TENURE_E_INVALID);
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        const char *first = strstr(line, schemes[i]);
        CHECK(first == NULL || strstr(first + 1, schemes[i]) == NULL);
    }
}

/* Where it is found by what it holds, or ends with its process, OPEN proves nothing (N2). */
TEST(only_a_store_that_knows_a_session_lets_it_be_taken_up)
{
    static const char *const urls[] = { "etcd://x",   "postgres://x", "redis://x",
                                        "sqlite:x",   "unix:x",       "memory:",
                                        "s3://x/y",   "dynamodb://x", "kubernetes://",
                                        "consul://x", "redlock:x",    "zookeeper://x" };
    const unsigned others = TN_STORE_BOUND | TN_STORE_LOCAL | TN_STORE_NAMED | TN_STORE_UNORDERED;
    const struct tn_store_ops *ops = NULL;
    const char *rest = NULL;
    int known = 0;

    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        if (find(urls[i], &ops, &rest) != 0)
            continue; /* Not in this build. */
        known++;
        CHECK_EQ_I64((ops->caps & TN_STORE_RESUMES) != 0, (ops->caps & others) == 0);
    }
    CHECK(known >= 3);
}

TEST(a_ttl_that_the_store_does_not_take_is_refused)
{
    struct tn_store_open how = { .url = "memory:ttl", .ttl = TN_TTL_MIN - 1 };
    struct tn_store *store = NULL;
    struct tn_text text;

    tn_text_init(&text, line, sizeof line);
    CHECK_EQ_I64(tn_store_open(&how, &store, &text), TENURE_E_INVALID);
    CHECK_STR(line, "memory: takes a TTL of 1s or more");
    how.ttl = TN_TTL_MAX + 1;
    tn_text_init(&text, line, sizeof line);
    CHECK_EQ_I64(tn_store_open(&how, &store, &text), TENURE_E_INVALID);
    CHECK_STR(line, "memory: takes a TTL of 86400s or less");
    CHECK(store == NULL);
}
