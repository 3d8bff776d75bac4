/* observer_test.c - a holder is over when its record stood still for its TTL, counted from after
 * the read that first showed it. */
#include "tests/harness/test.h"

#include "core/observer.h"

#define TTL TN_SEC(3)

static struct tn_observer watching(tenure_ns sent_at, tenure_ns now, uint64_t token, uint64_t beat)
{
    struct tn_observer observer;
    tn_observer_init(&observer);
    tn_observer_saw(&observer, sent_at, now, true, token, beat, TTL);
    return observer;
}

TEST(who_saw_nothing_knows_of_no_vacancy)
{
    struct tn_observer observer;

    tn_observer_init(&observer);
    CHECK(!tn_observer_vacant(&observer, TN_SEC(3600)));
    CHECK_EQ_I64(tn_observer_wake_at(&observer), TN_NEVER);
}

TEST(silence_counts_from_after_the_read_not_from_before_it)
{
    struct tn_observer observer = watching(0, TN_SEC(2), 7, 1);

    CHECK_EQ_I64(tn_observer_wake_at(&observer), TN_SEC(5));
    CHECK(!tn_observer_vacant(&observer, TN_SEC(5) - 1));
    CHECK(tn_observer_vacant(&observer, TN_SEC(5)));
}

TEST(an_unchanged_record_lets_the_silence_go_on)
{
    struct tn_observer observer = watching(0, 0, 7, 1);

    tn_observer_saw(&observer, TN_SEC(1), TN_SEC(2), true, 7, 1, TTL);
    CHECK_EQ_I64(tn_observer_wake_at(&observer), TTL);
    CHECK(tn_observer_vacant(&observer, TTL));
}

TEST(the_ttl_that_was_shown_last_counts)
{
    struct tn_observer observer = watching(0, 0, 7, 1);

    tn_observer_saw(&observer, TN_SEC(1), TN_SEC(1), true, 7, 1, TTL / 3);
    CHECK_EQ_I64(tn_observer_wake_at(&observer), TTL / 3);
}

TEST(a_renewal_starts_the_wait_again)
{
    struct tn_observer observer = watching(0, 0, 7, 1);

    tn_observer_saw(&observer, TN_SEC(2), TN_SEC(2), true, 7, 2, TTL);
    CHECK(!tn_observer_vacant(&observer, TN_SEC(4)));
    CHECK_EQ_I64(tn_observer_wake_at(&observer), TN_SEC(5));
}

TEST(a_new_term_with_the_same_beat_starts_the_wait_again)
{
    struct tn_observer observer = watching(0, 0, 7, 1);

    tn_observer_saw(&observer, TN_SEC(2), TN_SEC(2), true, 8, 1, TTL);
    CHECK(!tn_observer_vacant(&observer, TN_SEC(4)));
    CHECK_EQ_I64(tn_observer_wake_at(&observer), TN_SEC(5));
}

TEST(a_beat_that_goes_back_is_a_change_too)
{
    struct tn_observer observer = watching(0, 0, 7, 2);

    tn_observer_saw(&observer, TN_SEC(1), TN_SEC(1), true, 7, 1, TTL);
    CHECK_EQ_I64(tn_observer_wake_at(&observer), TN_SEC(4));
}

TEST(the_wait_is_the_ttl_of_the_holder_seen)
{
    struct tn_observer observer = watching(0, 0, 7, 1);

    tn_observer_saw(&observer, 0, TN_SEC(1), true, 8, 1, TN_SEC(10));
    CHECK(!tn_observer_vacant(&observer, TN_SEC(11) - 1));
    CHECK(tn_observer_vacant(&observer, TN_SEC(11)));
}

TEST(a_free_record_has_nobody_to_be_silent)
{
    struct tn_observer observer = watching(0, 0, 7, 1);

    tn_observer_saw(&observer, TN_SEC(1), TN_SEC(1), false, 7, 1, TTL);
    CHECK(!tn_observer_vacant(&observer, TN_SEC(3600)));
    CHECK_EQ_I64(tn_observer_wake_at(&observer), TN_NEVER);
}

TEST(a_holder_seen_again_after_a_free_record_is_observed_anew)
{
    struct tn_observer observer = watching(0, 0, 7, 1);

    tn_observer_saw(&observer, TN_SEC(1), TN_SEC(1), false, 7, 1, TTL);
    tn_observer_saw(&observer, TN_SEC(2), TN_SEC(2), true, 7, 1, TTL);
    CHECK(!tn_observer_vacant(&observer, TN_SEC(4)));
    CHECK(tn_observer_vacant(&observer, TN_SEC(5)));
}

TEST(no_read_returns_before_it_is_sent)
{
    struct tn_observer observer;

    tn_observer_init(&observer);
    CHECK_ASSERTS(tn_observer_saw(&observer, TN_SEC(2), TN_SEC(1), true, 7, 1, TTL));
}
