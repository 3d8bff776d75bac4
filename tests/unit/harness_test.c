/* harness_test.c - the harness's good paths; its bad ones are in tests/tools/harness.sh. */
#include "tests/harness/test.h"

#include "base/assert.h"

static void require_positive(int value)
{
    TN_ASSERT(value > 0);
}

TEST(checks_pass_on_equal_values)
{
    CHECK(true);
    CHECK_EQ_U64(UINT64_MAX, UINT64_MAX);
    CHECK_EQ_I64(INT64_MIN, INT64_MIN);
    CHECK_STR("same", "same");
    CHECK_STR(NULL, NULL);
    CHECK_MEM("abx", "aby", 2);
}

TEST(a_tripped_assertion_can_be_expected_twice)
{
    CHECK_ASSERTS(require_positive(0));
    CHECK_ASSERTS(require_positive(-1));
    require_positive(1);
}
