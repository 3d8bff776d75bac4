/* move.h - how an election moves to another store: which step comes next.
 *
 * `tenure move` reads what both stores say of the name, asks tn_move_next, takes that one step, and
 * reads again. It keeps nothing between two steps but how far it has raised the new store's tokens,
 * and it can do that once more. So a move that was killed goes on when it is run again, and two
 * moves that run at the same time help each other.
 *
 * A move blocks a name by holding it. RESERVED is the block at the new store, until the old one is
 * blocked and the tokens are raised; MOVED is the block at the old store, which stays.
 *
 *     old store   LED   --------------> LED --- drain ---> MOVED ------------------> MOVED
 *     new store   FREE  -- RESERVED --> RESERVED --------> RESERVED -- raise, open --> LED
 *
 * At every instant at most one of the two can grant the name to a candidate: the new store is
 * opened only while the old one is blocked. A move that is given up opens the old one again, and
 * the new one after it: by then no candidate may use the new one, which only people can know. */
#ifndef TN_CORE_MOVE_H
#define TN_CORE_MOVE_H

#include <stdint.h>

enum tn_move_state {
    TN_MOVE_FREE,
    TN_MOVE_LED,      /* By a candidate. */
    TN_MOVE_RESERVED, /* Blocked by a move from the other of the two stores to this one. */
    TN_MOVE_MOVED,    /* Blocked by a move from this store to the other of the two. */
    TN_MOVE_FOREIGN,  /* Blocked by a move between this store and a third one. */
};

/* The name at one of the stores; the token as in struct tn_store_record. */
struct tn_move_place {
    enum tn_move_state state;
    uint64_t token;
};

enum tn_move_step {
    TN_MOVE_RAISE,   /* Let the new store grant above tn_move_floor from now on. */
    TN_MOVE_RESERVE, /* Hold the free name at the new store, as RESERVED. */
    TN_MOVE_BLOCK,   /* Let the leader at the old store stop, and hold the name there, as MOVED. */
    TN_MOVE_OPEN,    /* Give back what blocks the name at the new store. */
    TN_MOVE_REOPEN,  /* Give back what blocks the name at the old store. */
    TN_MOVE_DONE,
    /* Nothing more can be done: */
    TN_MOVE_TWO,      /* Candidates lead at the new store: these are two elections. */
    TN_MOVE_BUSY,     /* Another move has to be finished first. */
    TN_MOVE_REVERSED, /* A later move went the other way. */
    TN_MOVE_LOW,      /* Led at the new store under a token that is too low. */
};

/* @raised: this move has let the new store grant above it; 0: it has not. */
enum tn_move_step tn_move_next(const struct tn_move_place *from, const struct tn_move_place *to,
                               uint64_t raised);

/* The same for a move that is given up before anybody has led at the new store. */
enum tn_move_step tn_move_undo(const struct tn_move_place *from, const struct tn_move_place *to);

/* What RAISE raises to. Before the old store is blocked some more terms may pass there: a few
 * tokens above its last one are left out for these. */
uint64_t tn_move_floor(const struct tn_move_place *from);

#endif
