/* console_life_test.c - what the console concludes about a lease that is gone. */
#include "cli/console.h"

#include "base/time.h"
#include "tests/harness/test.h"

/* Seen last at @at, with TTL 10 s renewed at 100 s, gone at @now. */
static enum tn_term_end end_of(tenure_ns at, tenure_ns now)
{
    struct tn_seen seen = { .record = { .held = true, .token = 7 },
                            .life = { .ttl = TN_SEC(10), .low = TN_SEC(110), .high = TN_SEC(110) },
                            .at = at };
    tenure_ns heard = 0;
    enum tn_term_end why = tn_life_end(&seen, now, &heard);

    if (why == TN_TERM_EXPIRED)
        CHECK_EQ_I64(heard, TN_SEC(100));
    return why;
}

TEST(a_lease_that_is_gone_before_its_time_was_given_back)
{
    CHECK_EQ_I64(end_of(TN_SEC(101), TN_SEC(102)), TN_TERM_RELEASED);
}

TEST(a_holder_that_was_late_when_it_was_seen_last_has_expired)
{
    CHECK_EQ_I64(end_of(TN_SEC(109), TN_SEC(111)), TN_TERM_EXPIRED);
    CHECK_EQ_I64(end_of(TN_SEC(106), TN_SEC(120)), TN_TERM_EXPIRED);
}

TEST(who_was_not_looked_at_for_long_may_have_renewed_and_left)
{
    CHECK_EQ_I64(end_of(TN_SEC(101), TN_SEC(111)), TN_TERM_UNKNOWN);
}

TEST(what_a_store_does_not_tell_is_not_known)
{
    struct tn_seen seen = { .record = { .held = true, .token = 7 } };
    tenure_ns heard = 0;

    CHECK_EQ_I64(tn_life_end(&seen, TN_SEC(100), &heard), TN_TERM_UNKNOWN);
    seen.record.revoked = true;
    CHECK_EQ_I64(tn_life_end(&seen, TN_SEC(100), &heard), TN_TERM_REVOKED);
}
