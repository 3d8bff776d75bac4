/* soft_limit_test.c - which soft limits the library lets through, and its digest (F1). */
#define _GNU_SOURCE
#include "tests/harness/test.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "lib/private.h"
#include "receivers/spec.h"
#include "runtime/clock.h"
#include "runtime/entry.h"

/* Whether two candidates with these fences may supersede each other; -1: one may not at all. */
static int same(const char *name, char *const *one, char *const *other)
{
    struct tn_soft *soft[2] = { NULL, NULL };
    char why[256];
    struct tn_text text;

    tn_text_init(&text, why, sizeof why);
    int rc = tn_lib_soft_make("n", 1, one, &soft[0], &text);
    if (rc == 0)
        rc = tn_lib_soft_make(name, 2, other, &soft[1], &text);
    int result = rc < 0 ? -1 : tn_secret_equal(&soft[0]->fences, &soft[1]->fences);
    free(soft[0]);
    free(soft[1]);
    return result;
}

TEST(the_digest_is_of_the_name_and_of_the_fences_in_any_order)
{
    char *ab[] = { "redis://a.example#r", "redis://b.example#r", NULL };
    char *ba[] = { ab[1], ab[0], NULL }, *a[] = { ab[0], NULL };
    char *other[] = { "redis://a.example#s", NULL };

    CHECK_EQ_I64(same("n", ab, ba), 1);
    CHECK_EQ_I64(same("m", ab, ab), 0);
    CHECK_EQ_I64(same("n", ab, a), 0);
    CHECK_EQ_I64(same("n", a, other), 0);
}

/* In a folder of its own; the path is relative, as people write it. */
static void make_file(const char *folder)
{
    CHECK_EQ_I64(mkdir(folder, 0700), 0);
    CHECK_EQ_I64(chdir(folder), 0);
    FILE *file = fopen("orders.db", "w");
    CHECK(file != NULL);
    CHECK_EQ_I64(fclose(file), 0);
}

TEST(the_same_words_in_another_folder_are_another_fence)
{
    char folder[] = "/tmp/tenure-soft-......", here[PATH_MAX], absolute[128];
    char *words[] = { "sqlite:orders.db#orders", NULL }, *path[] = { absolute, NULL };
    char *missing[] = { "sqlite:none.db#orders", NULL },
         *link[] = { "sqlite:link.db#orders", NULL };
    struct tn_soft *first = NULL, *second = NULL;
    char why[256];
    struct tn_text text;

    tn_text_init(&text, why, sizeof why);
    CHECK(getcwd(here, sizeof here) != NULL);
    memset(strchr(folder, '.'), 'X', 6); /* What mkdtemp replaces. */
    CHECK(mkdtemp(folder) != NULL);
    CHECK_EQ_I64(chdir(folder), 0);
    make_file("a");
    (void)snprintf(absolute, sizeof absolute, "sqlite:%s/a/orders.db#orders", folder);
    CHECK_EQ_I64(symlink("orders.db", "link.db"), 0);
    CHECK_EQ_I64(same("n", words, path), 1);
    CHECK_EQ_I64(same("n", words, link), 1);
    CHECK_EQ_I64(same("n", words, missing), -1);
    CHECK_EQ_I64(tn_lib_soft_make("n", 1, words, &first, &text), 0);
    CHECK_EQ_I64(chdir(".."), 0);
    make_file("b");
    CHECK_EQ_I64(tn_lib_soft_make("n", 1, words, &second, &text), 0);
    CHECK(!tn_secret_equal(&first->fences, &second->fences));
    free(first);
    free(second);
    CHECK_EQ_I64(chdir(here), 0);
}

static bool is_of_this_machine(const char *spec)
{
    char buf[512], why[256];
    struct tn_text identity, text;
    struct tn_clock clock;

    tn_text_init(&identity, buf, sizeof buf);
    tn_text_init(&text, why, sizeof why);
    CHECK_EQ_I64(tn_clock_init(&clock), 0);
    CHECK_EQ_I64(tn_fence_spec_identify(spec, &identity, &text), 0);
    return strstr(buf, clock.domain) != NULL;
}

TEST(an_address_that_is_another_server_elsewhere_is_of_this_machine)
{
    static const char *const near[] = {
        "redis://127.0.0.1:6379#r", "redis://localhost#r",        "redis://u:p@LocalHost:1#r",
        "redis://[::1]:6379#r",     "http://0.0.0.0:80#r",        "postgres://db.localhost/x#r",
        "postgres:///x#r",          "postgres://h/x?host=/run#r",
    };
    static const char *const far[] = { "redis://redis.example#r", "postgres://u:p@10.0.0.1/x#r",
                                       "http://[2001:db8::1]:80#r" };
    char *table[] = { "dynamodb://fences#r", NULL };

    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++)
        CHECK(is_of_this_machine(near[i]));
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++)
        CHECK(!is_of_this_machine(far[i]));
    CHECK_EQ_I64(same("n", table, table), -1); /* Whose table that is, the environment decides. */
}

static int checks(tenure_ns ttl, tenure_ns hold_off, tenure_ns soft, char *ret_why, size_t size)
{
    struct tn_plan plan;
    struct tn_text text;

    tn_text_init(&text, ret_why, size);
    tn_plan_init(&plan, ttl);
    plan.hold_off = hold_off;
    return tn_entry_soft(&plan, soft, &text);
}

TEST(a_soft_limit_lies_between_a_late_renewal_and_the_ttl)
{
    char why[256];

    CHECK_EQ_I64(checks(TN_SEC(15), 0, TN_SEC(9), why, sizeof why), 0);
    CHECK_EQ_I64(checks(TN_SEC(15), 0, TN_SEC(8), why, sizeof why), TENURE_E_INVALID);
    CHECK_STR(why, "the soft limit is from 8.3s, which one lost renewal may take, to less than the "
                   "TTL of 15s");
    CHECK_EQ_I64(checks(TN_SEC(15), 0, TN_MS(8300), why, sizeof why), 0);
    CHECK_EQ_I64(checks(TN_SEC(15), 0, TN_SEC(15), why, sizeof why), TENURE_E_INVALID);
    CHECK_EQ_I64(checks(TN_SEC(15), TN_SEC(1), TN_SEC(9), why, sizeof why), TENURE_E_INVALID);
}
