/* line_revoke.h - an operator takes a term away, in an engine that binds keys to leases (etcd).
 *
 * The holder hears that its key was changed, and gives it back. Should it not hear, the key goes
 * by itself a TTL later, whether the operator is still there or not: the change is a move to a
 * second lease, which nobody keeps alive. A session has one such lease at most, so another of its
 * names may have been moved to it before.
 *
 *   MEASURE --alive--> OPEN --------> MOVE --------> KEEP ----> DONE: OK
 *      |               |  ^            ^ |
 *      |    there      |  | over       | | the key is gone, or another one
 *      | over   already v  |           | v
 *      +--> DONE: STALE  RENEW --------+ DONE: STALE
 *
 * P1: a renewal that was sent before the move runs out before the second lease does, because that
 * one counts anew from a step before the move and once more from one behind it. A renewal that is
 * sent later says nothing of the move: the word of it comes before the answer on the same
 * connection, and where it was lost the renewal does not count (tn_line_is_sure).
 *
 * Threads: one at a time. Memory: the caller's, nothing allocated. Never blocks, reads no clock. */
#ifndef TN_CORE_LINE_REVOKE_H
#define TN_CORE_LINE_REVOKE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/lease_table.h"

/* What the engine is asked to do. Each is answered by tn_line_revoke_went; one without an answer is
 * not repeated: whoever revokes again finds the key moved, or not. */
enum tn_line_revoke_step {
    TN_LINE_REVOKE_DONE,
    TN_LINE_REVOKE_MEASURE, /* Is the leader's lease alive, and with which TTL? */
    TN_LINE_REVOKE_OPEN,    /* A second lease with that TTL; no: there is one already. */
    TN_LINE_REVOKE_RENEW,   /* It counts anew; no: it has just ended. */
    TN_LINE_REVOKE_MOVE,    /* The leader's key to it, if it is still that key; no: it is not. */
    TN_LINE_REVOKE_KEEP,    /* The second lease counts anew, for the last time. */
    TN_LINE_REVOKE_STEPS
};

/* The first key in line. */
struct tn_line_leader {
    bool there;
    bool moved; /* Revoked before. */
    bool bound; /* To a lease. */
    uint64_t token;
};

struct tn_line_revoke {
    enum tn_line_revoke_step step;
    enum tn_answer answer; /* DONE. */
};

/* @token: the one to be revoked; 0: whichever it is. */
void tn_line_revoke_start(struct tn_line_revoke *revoke, const struct tn_line_leader *leader,
                          uint64_t token);
/* The engine has answered the step: yes, or no. */
void tn_line_revoke_went(struct tn_line_revoke *revoke, bool yes);

#endif
