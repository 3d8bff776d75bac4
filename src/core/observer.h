/* observer.h - vacancy for stores that do not expire anything themselves.
 *
 * A record that has not changed for its holder's TTL, on the observer's own clock, counted from
 * after the read that first showed it returned, belongs to nobody any more. No clock is
 * compared with another one's: only "did it change" crosses the network.
 *
 * Threads: one at a time. Memory: the caller's. Reads no clock. */
#ifndef TN_CORE_OBSERVER_H
#define TN_CORE_OBSERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

struct tn_observer {
    uint64_t token;  /* Of the term observed. */
    uint64_t beat;   /* Changes with every renewal of its holder. */
    tenure_ns since; /* When the first read that showed them had returned. */
    tenure_ns wait;  /* How long they must stay as they are. */
    bool watching;   /* Whether there is a holder to observe. */
};

void tn_observer_init(struct tn_observer *observer);

/* A read sent at @sent_at returned at @now: held under (@token, @beat) with @ttl, or free. */
void tn_observer_saw(struct tn_observer *observer, tenure_ns sent_at, tenure_ns now, bool held,
                     uint64_t token, uint64_t beat, tenure_ns ttl);

/* Whether the holder last seen has been silent for long enough at @now. */
bool tn_observer_vacant(const struct tn_observer *observer, tenure_ns now);

/* When that will be, if nothing changes. */
tenure_ns tn_observer_wake_at(const struct tn_observer *observer);

#endif
