/* rank.h - priority: among those who wait, the higher one leads first.
 *
 * A store serves its line in the order of arrival and knows of no priority. So candidates that have
 * one arrange themselves. One that waits holds a lease of its level, from 1 to 9, beside its place
 * in line; that lease ends with its session, like everything it has. Candidates of lower levels
 * watch it. When a higher one comes, they leave the line, give up the leases of their own levels,
 * and return behind it after a step. So those below them do the same, and all find their order.
 *
 *   ~tenure/priority/LEVEL/NAME   held: a candidate of that level waits for NAME
 *
 * A leader that yields steps down when a higher one comes, once for each that comes. One that does
 * not lead then, because its fence is out of reach, say, hides before it comes again, and for twice
 * as long each time.
 *
 * An operator's hand-over goes first. The holder that was asked does not announce itself while its
 * successor leads, and a leader that was chosen does not yield in that term.
 *
 * What is heard of others gives no right: late or lost word costs somebody the better place, and
 * what follows from it ends by itself (H3).
 *
 * Threads: one at a time. Memory: the caller's, nothing allocated. Never blocks, reads no clock. */
#ifndef TN_CORE_RANK_H
#define TN_CORE_RANK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

#define TN_RANK_MAX 9

/* Of one claim; its caller sets the first two, the rest is zero at first. */
struct tn_rank {
    uint8_t level; /* 1 to TN_RANK_MAX. */
    bool yields;
    bool fresh;                       /* A higher one came, and nobody has yielded to it. */
    bool gave_way;                    /* The present term ends because it yields. */
    bool chosen;                      /* The present term is what an operator wanted. */
    uint16_t present;                 /* Higher levels at which somebody waits, a bit each. */
    uint64_t number[TN_RANK_MAX + 1]; /* Per level: the token of the lease heard of last. */
    tenure_ns came_at;                /* When the last higher one did. */
    tenure_ns out_until;              /* Stays out of the line until then. */
    tenure_ns hidden_until;           /* Does not show itself until then. */
    uint32_t refusals;                /* Of its grants, since its last term. */
    uint64_t asked_token;             /* An operator ended our term of this token; 0: none did. */
    uint64_t next_token;              /* The term behind that one; 0: not seen yet. */
};

/* The lease of @level is held, or free, under @number; @step: how long lower ones stay out. */
void tn_rank_hear(struct tn_rank *rank, tenure_ns now, uint32_t level, bool held, uint64_t number,
                  tenure_ns step);
/* A record of the name was read. */
void tn_rank_see(struct tn_rank *rank, bool held, uint64_t token);
/* A grant was not taken: it could not have led. */
void tn_rank_refused(struct tn_rank *rank, tenure_ns now, tenure_ns step);
/* The term of @token is over because somebody was to have it instead. */
void tn_rank_stood_back(struct tn_rank *rank, uint64_t token);

/* Whether the holder has to step down for a higher one; @settle: it lets others hear of it. */
bool tn_rank_asks(const struct tn_rank *rank, tenure_ns now, tenure_ns settle);
/* Whether the candidate stays out of the line. */
bool tn_rank_bars(const struct tn_rank *rank, tenure_ns now);
/* Whether one that waits announces itself. */
bool tn_rank_announces(const struct tn_rank *rank, tenure_ns now);
/* When one of these may change by itself; TN_NEVER: not. */
tenure_ns tn_rank_wake_at(const struct tn_rank *rank, tenure_ns now, tenure_ns settle);

#endif
