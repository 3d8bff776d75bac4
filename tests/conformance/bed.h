/* bed.h - the test bed of the conformance suite: any store, on a real loop, asked step by step.
 *
 * A scenario is written once as CONFORMS(name) and runs against each URL: memory:, sqlite: and
 * rows: (an engine of rows in memory, rows_engine.c), or the one in TENURE_CONFORMANCE_URL, under
 * names of its own (`tenure doctor --conformance`). With TENURE_CONFORMANCE_PLANT the store gets a
 * fault on purpose (plant.c), and the suite must fail.
 *
 * Every request is checked to be done exactly once and never inside submit. Nothing sleeps: the
 * loop is run until something has happened, or a generous bound has passed. */
#ifndef TN_TESTS_CONFORMANCE_BED_H
#define TN_TESTS_CONFORMANCE_BED_H

#include <uv.h>

#include "base/time.h"
#include "runtime/store.h"
#include "tests/harness/test.h"

/* What may take a moment on a busy machine must have happened by then; a store with a planted fault
 * is not waited for so long. */
tenure_ns bed_bound(void);
#define BED_BOUND bed_bound()

/* Whether the store that is open has that capability, of tn_store_ops.caps. */
bool bed_has(unsigned cap);

/* Of sessions whose end nobody waits for: 30 s, or 120 s where a renewal is a write for each name,
 * since it has a twelfth of it. Once a store is open. */
tenure_ns bed_ttl(void);
/* Of sessions that are renewed all the time, and whose end is waited for: 1 s, or 8 s where each
 * renewal asks a server that has a twelfth of it for the answer. */
tenure_ns bed_brief(void);

enum { BED_URLS = 4, BED_NEWS = 64 };

struct bed_news {
    enum tn_notice_kind kind;
    char name[TN_NAME_MAX + 1];
    struct tn_secret term;
    uint64_t token;
    struct tn_store_record record;
    tenure_ns at;
};

/* A store that was opened, and what it told. */
struct bed_store {
    struct tn_store *store;
    struct bed_news news[BED_NEWS];
    size_t count;
    bool closed;
};

/* A candidate: a session, and a term of its own. */
struct bed_actor {
    struct bed_store *at;
    struct tn_secret session;
    struct tn_secret term;
    uint64_t seq;
    uint64_t token; /* Of the last grant, by answer or by push. */
};

/* A request that keeps count of itself. */
struct bed_req {
    struct tn_store_req req;
    unsigned done;
    bool inside;
    char name[TN_NAME_MAX + 64]; /* As the store gets it. */
};

extern uv_loop_t bed_loop;
extern struct tn_clock bed_clock;

void bed_run(unsigned slot, void (*scenario)(void));
/* The same under names of this run alone: a scenario's "job" is tenure-conformance-.../job to the
 * store, and what is left of them in the end is forgotten. */
void bed_conform(unsigned slot, void (*scenario)(void));
/* A name as the store gets it, good until the next call; and how long a name may be here. */
const char *bed_full(const char *name);
size_t bed_name_max(void);
/* A name as the scenario knows it. */
const char *bed_short(const char *full);
int bed_watch(struct bed_store *store, const char *name, bool on);
void bed_register(struct tn_test *entries, const char *name, bool shared);

struct bed_store *bed_open(void);
void bed_close(struct bed_store *store);
tenure_ns bed_now(void);

void bed_submit(struct bed_store *store, struct bed_req *req, const struct tn_op *op);
/* Submit, and run the loop until it is done. The request is good until the next call. */
struct tn_store_req *bed_ask(struct bed_store *store, const struct tn_op *op);

/* Run the loop until @condition or the bound; false: it never came. */
bool bed_until(bool (*condition)(void *arg), void *arg, tenure_ns bound);
/* Run it until @when on the clock. */
void bed_pass(tenure_ns when);
/* News of @kind about @name to @store, from number *@at on; NULL when none came. *@at moves on. */
const struct bed_news *bed_hear(struct bed_store *store, enum tn_notice_kind kind, const char *name,
                                size_t *at, tenure_ns bound);

struct bed_actor bed_actor(struct bed_store *store, tenure_ns ttl);
struct bed_actor bed_actor_as(struct bed_store *store, tenure_ns ttl, const char *label);
void bed_new_term(struct bed_actor *actor);
struct tn_store_req *bed_acquire(struct bed_actor *actor, const char *name, bool wait);
struct tn_store_req *bed_release(struct bed_actor *actor, const char *name, uint64_t token);
struct tn_store_req *bed_renew(struct bed_actor *actor);
struct tn_store_req *bed_read(struct bed_store *store, const char *name);
/* A store of one's own need not have what it says so plainly that it has not; those here all have
 * it, and then nothing is left out. */
bool bed_lacks(const struct tn_store_req *req);
/* What an acquire that waits is answered: QUEUED, or HELD where there are no queues. */
enum tn_answer bed_waiting(const struct bed_store *store);
/* The push that tells @actor's term of its grant; where nobody tells, it reads, and where there are
 * no queues, it asks again. */
bool bed_is_granted(struct bed_actor *actor, const char *name, tenure_ns bound);
/* It has no grant, and gets none within @bound. */
bool bed_is_not_granted(struct bed_actor *actor, const char *name, tenure_ns bound);

/* The rest of the scenario in another process, which has its own loop; call before any open.
 * In the child @body is run and the process ends. Returns its number; bed_join fails unless it
 * ended well. */
pid_t bed_fork(void (*body)(int in, int out), int *ret_in, int *ret_out);
void bed_join(pid_t child);

/* The store's operations with the fault that was asked for; plant.c. */
const struct tn_store_ops *bed_planted(const struct tn_store_ops *ops);

/* The engine of rows in memory; rows_engine.c. */
extern const struct tn_store_ops bed_rows_ops;
extern const struct tn_store_ops bed_minted_ops; /* Its versions become the tokens. */

/* CONFORMS_SHARED is for stores that several processes can share. */
#define CONFORMS(name_) CONFORMS_IF(name_, false)
#define CONFORMS_SHARED(name_) CONFORMS_IF(name_, true)
#define CONFORMS_IF(name_, shared_)                                                               \
    static void scenario_##name_(void);                                                           \
    static void first_##name_(void)                                                               \
    {                                                                                             \
        bed_conform(0, scenario_##name_);                                                         \
    }                                                                                             \
    static void second_##name_(void)                                                              \
    {                                                                                             \
        bed_conform(1, scenario_##name_);                                                         \
    }                                                                                             \
    static void third_##name_(void)                                                               \
    {                                                                                             \
        bed_conform(2, scenario_##name_);                                                         \
    }                                                                                             \
    static void fourth_##name_(void)                                                              \
    {                                                                                             \
        bed_conform(3, scenario_##name_);                                                         \
    }                                                                                             \
    static struct tn_test entries_##name_[BED_URLS] = { { NULL, __FILE__, first_##name_, NULL },  \
                                                        { NULL, __FILE__, second_##name_, NULL }, \
                                                        { NULL, __FILE__, third_##name_, NULL },  \
                                                        { NULL, __FILE__, fourth_##name_,         \
                                                          NULL } };                               \
    __attribute__((constructor)) static void register_##name_(void)                               \
    {                                                                                             \
        bed_register(entries_##name_, #name_, shared_);                                           \
    }                                                                                             \
    static void scenario_##name_(void)

#endif
