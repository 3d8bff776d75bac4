/* move.c - the next step of a move; move.h has the picture. */
#include "core/move.h"

#include <stdbool.h>

enum { MARGIN = 64 };

uint64_t tn_move_floor(const struct tn_move_place *from)
{
    if (from->state == TN_MOVE_MOVED || from->token > UINT64_MAX - MARGIN)
        return from->token;
    return from->token + MARGIN;
}

/* The old store still grants the name. */
static enum tn_move_step prepare(const struct tn_move_place *from, const struct tn_move_place *to,
                                 uint64_t raised)
{
    if (to->state == TN_MOVE_LED)
        return TN_MOVE_TWO;
    if (raised <= from->token)
        return TN_MOVE_RAISE;
    return to->state == TN_MOVE_FREE ? TN_MOVE_RESERVE : TN_MOVE_BLOCK;
}

/* The old store is blocked, and stays so. */
static enum tn_move_step finish_move(const struct tn_move_place *from,
                                     const struct tn_move_place *to, uint64_t raised)
{
    bool above = to->token > from->token;

    switch (to->state) {
    case TN_MOVE_FREE:
        if (above || raised >= from->token)
            return TN_MOVE_DONE;
        return TN_MOVE_RESERVE; /* Nobody may lead there before the tokens are raised. */
    case TN_MOVE_LED:
        if (above)
            return TN_MOVE_DONE;
        return raised >= from->token ? TN_MOVE_LOW : TN_MOVE_RAISE;
    case TN_MOVE_MOVED:
        /* Both were left: the one with the higher token later. */
        if (above)
            return TN_MOVE_REVERSED;
        break;
    default:
        break;
    }
    return raised >= from->token ? TN_MOVE_OPEN : TN_MOVE_RAISE;
}

enum tn_move_step tn_move_next(const struct tn_move_place *from, const struct tn_move_place *to,
                               uint64_t raised)
{
    if (from->state == TN_MOVE_RESERVED || from->state == TN_MOVE_FOREIGN ||
        to->state == TN_MOVE_FOREIGN)
        return TN_MOVE_BUSY;
    return from->state == TN_MOVE_MOVED ? finish_move(from, to, raised) : prepare(from, to, raised);
}

enum tn_move_step tn_move_undo(const struct tn_move_place *from, const struct tn_move_place *to)
{
    if (to->state == TN_MOVE_FOREIGN)
        return TN_MOVE_BUSY;
    if (to->state != TN_MOVE_RESERVED)
        return from->state == TN_MOVE_MOVED ? TN_MOVE_TWO : TN_MOVE_DONE;
    return from->state == TN_MOVE_MOVED ? TN_MOVE_REOPEN : TN_MOVE_OPEN;
}
