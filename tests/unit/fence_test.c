/* fence_test.c - the receiver's check: tokens never go back, errors change nothing (P3). */
#include "tests/harness/test.h"

#include "tenure/fence.h"

TEST(a_new_fence_has_seen_nothing)
{
    struct tenure_fence fence = { 0 };

    CHECK_EQ_U64(tenure_fence_highest(&fence), 0);
}

TEST(equal_and_higher_tokens_are_admitted)
{
    struct tenure_fence fence = { 0 };

    CHECK_EQ_I64(tenure_fence_admit(&fence, 5), 0);
    CHECK_EQ_I64(tenure_fence_admit(&fence, 5), 0);
    CHECK_EQ_I64(tenure_fence_admit(&fence, 6), 0);
    CHECK_EQ_U64(tenure_fence_highest(&fence), 6);
    CHECK_EQ_I64(tenure_fence_admit(&fence, UINT64_MAX), 0);
    CHECK_EQ_U64(tenure_fence_highest(&fence), UINT64_MAX);
}

TEST(a_lower_token_is_stale_and_changes_nothing)
{
    struct tenure_fence fence = { 9 };

    CHECK_EQ_I64(tenure_fence_admit(&fence, 8), TENURE_E_STALE);
    CHECK_EQ_I64(tenure_fence_raise(&fence, 1), TENURE_E_STALE);
    CHECK_EQ_U64(tenure_fence_highest(&fence), 9);
}

TEST(token_zero_is_invalid_even_on_a_new_fence)
{
    struct tenure_fence fence = { 0 };

    CHECK_EQ_I64(tenure_fence_admit(&fence, 0), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_fence_raise(&fence, 0), TENURE_E_INVALID);
    CHECK_EQ_U64(tenure_fence_highest(&fence), 0);
}

TEST(a_raise_shuts_out_the_older_token_before_the_first_write)
{
    struct tenure_fence fence = { 0 };

    CHECK_EQ_I64(tenure_fence_admit(&fence, 3), 0);
    CHECK_EQ_I64(tenure_fence_raise(&fence, 4), 0);
    CHECK_EQ_I64(tenure_fence_raise(&fence, 4), 0);
    CHECK_EQ_I64(tenure_fence_admit(&fence, 3), TENURE_E_STALE);
    CHECK_EQ_I64(tenure_fence_admit(&fence, 4), 0);
}
