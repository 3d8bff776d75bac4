/* rows_name_test.c - what a change feed's events are good for beside reads and writes. */
#include "core/rows_name.h"
#include "tests/harness/test.h"

static struct tn_rows_news see(struct tn_rows_name *seen, tenure_ns now, enum tn_rows_whose whose,
                               const struct tn_row *row, const char *version)
{
    struct tn_rows_event event = { row, version, whose };

    return tn_rows_name_saw(seen, now, false, &event);
}

TEST(a_change_feed_counts_the_silence_of_other_holders_only)
{
    struct tn_rows_name seen = { .told = false };
    struct tn_row row = { .held = true, .token = 7, .ttl = TN_SEC(3) };

    CHECK(!see(&seen, TN_SEC(1), TN_ROWS_OURS, &row, "1").look);
    CHECK_EQ_I64(tn_rows_name_wake_at(&seen), TN_NEVER);
    CHECK(see(&seen, TN_SEC(1), TN_ROWS_OTHERS, &row, "1").look);
    CHECK_EQ_I64(tn_rows_name_wake_at(&seen), TN_SEC(4));
    CHECK(see(&seen, TN_SEC(2), TN_ROWS_OTHERS, &row, "2").tell);
    CHECK_EQ_I64(tn_rows_name_wake_at(&seen), TN_SEC(5));
    CHECK(!see(&seen, TN_SEC(2), TN_ROWS_STRAY, &row, "3").tell);
    CHECK_EQ_I64(tn_rows_name_wake_at(&seen), TN_SEC(5));
    row.held = false;
    CHECK(see(&seen, TN_SEC(3), TN_ROWS_OTHERS, &row, "4").tell);
    CHECK_EQ_I64(tn_rows_name_wake_at(&seen), TN_NEVER);
}

TEST(an_event_from_before_a_read_changes_nothing_but_asks_for_another_read)
{
    struct tn_rows_name seen = { .told = false };
    struct tn_row row = { .held = true, .token = 7, .ttl = TN_SEC(3) };
    struct tn_rows_news news;

    tn_rows_name_know(&seen, TN_SEC(1), "9");
    tn_rows_name_observe(&seen, 0, TN_SEC(1), true, &row, "9", row.ttl);
    news = see(&seen, TN_SEC(2), TN_ROWS_OTHERS, &row, "8");
    CHECK(news.read && !news.tell && !news.look);
    CHECK_EQ_I64(tn_rows_name_wake_at(&seen), TN_SEC(4));
    news = see(&seen, TN_SEC(2), TN_ROWS_OTHERS, NULL, "8"); /* Deleted, and made again since. */
    CHECK(news.read && !news.tell);
    tn_rows_name_know(&seen, TN_SEC(3), "5"); /* A backup was restored: a read counts. */
    CHECK(see(&seen, TN_SEC(3), TN_ROWS_OTHERS, &row, "6").tell);
    CHECK_EQ_I64(tn_rows_name_wake_at(&seen), TN_SEC(6));
    tn_rows_name_know(&seen, TN_SEC(3), ""); /* It was deleted behind that event. */
    tn_rows_name_know(&seen, TN_SEC(3), "");
    CHECK(see(&seen, TN_SEC(4), TN_ROWS_OTHERS, &row, "6").read);
    CHECK(see(&seen, TN_SEC(4), TN_ROWS_OTHERS, &row, "7").tell);
}

TEST(a_feed_that_does_not_show_what_was_read_is_behind_after_a_while)
{
    struct tn_rows_name seen = { .told = false };
    struct tn_row row = { .held = true, .token = 7, .ttl = TN_SEC(3) };

    CHECK_EQ_I64(tn_rows_name_behind_at(&seen, TN_SEC(5)), TN_NEVER);
    (void)see(&seen, TN_SEC(1), TN_ROWS_OTHERS, &row, "4");
    tn_rows_name_know(&seen, TN_SEC(2), "4");
    CHECK_EQ_I64(tn_rows_name_behind_at(&seen, TN_SEC(5)), TN_NEVER);
    tn_rows_name_know(&seen, TN_SEC(3), "6");
    tn_rows_name_know(&seen, TN_SEC(4), "7");
    CHECK_EQ_I64(tn_rows_name_behind_at(&seen, TN_SEC(5)), TN_SEC(8));
    CHECK(see(&seen, TN_SEC(5), TN_ROWS_OTHERS, &row, "6").read); /* Late, and it goes on. */
    CHECK_EQ_I64(tn_rows_name_behind_at(&seen, TN_SEC(5)), TN_SEC(10));
    CHECK(!tn_rows_name_is_behind(&seen, TN_SEC(10) - 1, TN_SEC(5)));
    CHECK(tn_rows_name_is_behind(&seen, TN_SEC(10), TN_SEC(5)));
    tn_rows_name_feed_lost(&seen);
    CHECK(!tn_rows_name_is_behind(&seen, TN_SEC(10), TN_SEC(5)));
}

TEST(where_rows_change_seldom_a_feed_is_trusted_as_long_as_it_speaks)
{
    struct tn_secret term = { .bytes = { 2 } };
    struct tn_rows_name seen = { .refused = term };
    struct tn_row row = { .held = true, .token = 7, .ttl = TN_SEC(3) };

    (void)see(&seen, TN_SEC(1), TN_ROWS_OTHERS, &row, "4");
    CHECK(tn_rows_name_shows_held(&seen, TN_SEC(6) - 1, true, TN_SEC(5), &term));
    CHECK(!tn_rows_name_shows_held(&seen, TN_SEC(6), true, TN_SEC(5), &term));
    tn_rows_name_feed_alive(&seen, TN_SEC(6));
    CHECK(tn_rows_name_shows_held(&seen, TN_SEC(6), true, TN_SEC(5), &term));
    tn_rows_name_know(&seen, TN_SEC(7), "5");
    tn_rows_name_feed_alive(&seen, TN_SEC(7)); /* Of what it has shown, not of what was read. */
    CHECK(!tn_rows_name_shows_held(&seen, TN_SEC(7), true, TN_SEC(5), &term));
}
