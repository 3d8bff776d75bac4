/* acts.h - what the commands of several candidates did, in the order in which they did it.
 *
 * Every process of a command appends fixed-size records to one file that all candidates of a name
 * share. An append is one write, so the order of the file is the order of the acts, even when a
 * process was stopped between its look at the clock and its write; the times say how far apart. */
#ifndef TN_TESTS_RUNNER_ACTS_H
#define TN_TESTS_RUNNER_ACTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tenure/time.h"

/* The environment variable with the candidate's number, one per supervisor that was started. */
#define ACTS_CANDIDATE "TN_CANDIDATE"

enum act_kind { ACT_STARTED = 1, ACT_ACTING, ACT_ENDED };

/* Its size divides a page: a kill may cut a write where one begins. */
struct act {
    int64_t at; /* CLOCK_BOOTTIME, read just before the write. */
    uint64_t token;
    int64_t pid;
    uint32_t candidate;
    uint32_t kind;
};

/* What must hold: the term in which @candidate was at @from has no act after @by. */
struct acts_bound {
    uint32_t candidate;
    tenure_ns from;
    tenure_ns by;
    const char *why;
};

struct acts {
    struct act *list;
    size_t count;
};

/* Read all of @file; one that is not there is empty. False when it cannot be read, or when it does
 * not consist of records. acts_free takes the result either way. */
bool acts_read(const char *file, struct acts *ret_acts);
void acts_free(struct acts *acts);

/* The last act, without reading the others. False when there is none. */
bool acts_last(const char *file, struct act *ret_act);

/* Whether the acts keep what is promised: a token belongs to one candidate, tokens rise, no act
 * comes after one with a higher token, and no bound is broken. If not, @ret_why tells what. */
bool acts_check(const struct acts *acts, const struct acts_bound *bounds, size_t count,
                char *ret_why, size_t size);

/* How long after @bound its term still acted; negative: how long before. INT64_MIN: never. */
tenure_ns acts_overrun(const struct acts *acts, const struct acts_bound *bound);

/* How many terms there were. */
size_t acts_terms(const struct acts *acts);

#endif
