/* stage.h - what the tests of the library share: sessions on a store of the test's own, listeners
 * that keep count of what they hear, and a store between that counts and can lose requests.
 *
 * A failed check leaves its test by longjmp while callbacks go on. So listeners are never freed,
 * and what a callback finds wrong is kept in its listener for the test to look at. */
#ifndef TN_TESTS_LIB_STAGE_H
#define TN_TESTS_LIB_STAGE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/time.h"
#include "core/lease_table.h"
#include "tenure/tenure.h"
#include "tests/harness/test.h"

/* What a test waits for comes at once or not at all; the bound is for a loaded machine. */
#define STAGE_PATIENCE TN_SEC(20)

enum { STAGE_KINDS = TENURE_HEALTH + 1 };

struct listener {
    pthread_mutex_t lock;
    unsigned heard[STAGE_KINDS]; /* By kind. */
    struct tenure_event last[STAGE_KINDS];
    char leader[TENURE_ID_MAX + 1]; /* Of the last LEADER. */
    bool leads;                     /* WON was told, and LOST not. */
    const char *broken;             /* The first promise that was. */
    /* Called after the books are kept, without the lock; may be NULL. */
    void (*also)(struct listener *listener, struct tenure_election *election,
                 const struct tenure_event *event);
    atomic_bool blocked; /* For @also: stays in the callback while this is true. */
    void *arg;
};

/* A fresh one, good for ever. */
struct listener *listener_new(void);

/* The callback; @arg is the listener. */
void listener_hear(struct tenure_election *election, const struct tenure_event *event, void *arg);

/* An @also: waits until @blocked is false. */
void listener_block(struct listener *listener, struct tenure_election *election,
                    const struct tenure_event *event);

unsigned listener_count(struct listener *listener, enum tenure_event_kind kind);
struct tenure_event listener_last(struct listener *listener, enum tenure_event_kind kind);

/* Whether it has heard @kind @count times, now or within STAGE_PATIENCE. */
bool listener_waits(struct listener *listener, enum tenure_event_kind kind, unsigned count);

/* Whether the election leads (or does not), now or within STAGE_PATIENCE. */
bool stage_leads(const struct tenure_election *election, bool leads);

/* The URL of a store that no other test has; good until the next call. */
const char *stage_url(void);

/* A session as @id on @url with a TTL of 1 s, or the test fails. */
struct tenure *stage_open(const char *url, const char *id, unsigned flags);
struct tenure *stage_open_ttl(const char *url, const char *id, unsigned flags, tenure_ns ttl);

/* A campaign that @listener hears of, or the test fails. */
struct tenure_election *stage_campaign(struct tenure *tenure, const char *name, unsigned flags,
                                       struct listener *listener);

/* How many requests of this kind were sent by all sessions since the last stage_url. */
unsigned stage_sent(enum tn_op_kind kind);

/* Requests of the session @id of these kinds (bits) get no answer from now on; those that were
 * kept reach the store with the first request after they are no longer to be lost. */
void stage_lose(const char *id, unsigned kinds);

/* The next request of @kind is answered as if it had failed. */
void stage_spoil_next(enum tn_op_kind kind);
/* All requests of these kinds (bits) are, until the next stage_url. */
void stage_spoil_each(unsigned kinds);

/* The store that was opened last tells, on its own, that @label leads @name with @token. */
void stage_tell(const char *name, uint64_t token, const char *label);

#endif
