/* soft_limit_test.c - which soft limits the library lets through, and its digest (F1). */
#include "tests/harness/test.h"

#include <stdlib.h>

#include "base/time.h"
#include "lib/private.h"
#include "runtime/entry.h"

TEST(the_digest_is_of_the_name_and_the_sorted_fences)
{
    char *ab[] = { "sqlite:a#r", "sqlite:b#r", NULL }, *ba[] = { ab[1], ab[0], NULL };
    char *a[] = { ab[0], NULL };
    struct tn_soft *soft[4];

    CHECK_EQ_I64(tn_lib_soft_make("n", 1, ab, &soft[0]), 0);
    CHECK_EQ_I64(tn_lib_soft_make("n", 1, ba, &soft[1]), 0);
    CHECK_EQ_I64(tn_lib_soft_make("m", 1, ab, &soft[2]), 0);
    CHECK_EQ_I64(tn_lib_soft_make("n", 2, a, &soft[3]), 0);
    CHECK_EQ_I64(soft[3]->limit, 2);
    CHECK(tn_secret_equal(&soft[0]->fences, &soft[1]->fences));
    CHECK(!tn_secret_equal(&soft[0]->fences, &soft[2]->fences));
    CHECK(!tn_secret_equal(&soft[0]->fences, &soft[3]->fences));
    for (int i = 0; i < 4; i++)
        free(soft[i]);
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
