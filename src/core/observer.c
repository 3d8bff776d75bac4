/* observer.c - counting a holder's silence; observer.h has the rule. */
#include "core/observer.h"

#include "base/assert.h"
#include "core/plan.h"
#include "core/plant.h"

void tn_observer_init(struct tn_observer *observer)
{
    *observer = (struct tn_observer) { 0 };
}

void tn_observer_saw(struct tn_observer *observer, tenure_ns sent_at, tenure_ns now, bool held,
                     uint64_t token, uint64_t beat, tenure_ns ttl)
{
    TN_ASSERT(sent_at <= now);
    if (held && observer->watching && observer->token == token && observer->beat == beat) {
        observer->wait = tn_plan_observe_for(ttl);
        return; /* Unchanged: the silence goes on, by the TTL that was shown last. */
    }
    if (TN_PLANT(OBSERVER_RESUMES) && held && observer->watching && observer->token == token) {
        observer->beat = beat;
        return;
    }
    /* Counted from after the read: a renewal may have come in between the store's answer and now,
     * but none that we could have seen earlier. From before it, a slow reply would shorten the
     * wait. */
    *observer = (struct tn_observer) {
        .token = token,
        .beat = beat,
        .since = TN_PLANT(READ_BEFORE) ? sent_at : now,
        .wait = held ? tn_plan_observe_for(ttl) : 0,
        .watching = held,
    };
}

bool tn_observer_vacant(const struct tn_observer *observer, tenure_ns now)
{
    return observer->watching && now >= tn_observer_wake_at(observer);
}

tenure_ns tn_observer_wake_at(const struct tn_observer *observer)
{
    return observer->watching ? observer->since + observer->wait : TN_NEVER;
}
