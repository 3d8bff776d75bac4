/* line_revoke.c - which step follows which; line_revoke.h has the picture. */
#include "core/line_revoke.h"

#include "base/assert.h"
#include "core/plant.h"

static void end(struct tn_line_revoke *revoke, enum tn_answer answer)
{
    *revoke = (struct tn_line_revoke) { .step = TN_LINE_REVOKE_DONE, .answer = answer };
}

void tn_line_revoke_start(struct tn_line_revoke *revoke, const struct tn_line_leader *leader,
                          uint64_t token)
{
    if (!leader->there || (token != 0 && token != leader->token))
        end(revoke, TN_ANSWER_STALE);
    else if (leader->moved)
        end(revoke, TN_ANSWER_OK); /* Said before. */
    else
        revoke->step = leader->bound ? TN_LINE_REVOKE_MEASURE : TN_LINE_REVOKE_OPEN;
}

void tn_line_revoke_went(struct tn_line_revoke *revoke, bool yes)
{
    static const struct {
        enum tn_line_revoke_step yes, no;
        enum tn_answer no_answer; /* To "no", if that is the end. */
    } next[TN_LINE_REVOKE_STEPS] = {
        [TN_LINE_REVOKE_MEASURE] = { TN_LINE_REVOKE_OPEN, TN_LINE_REVOKE_DONE, TN_ANSWER_STALE },
        [TN_LINE_REVOKE_OPEN] = { TN_LINE_REVOKE_MOVE, TN_LINE_REVOKE_RENEW, 0 },
        [TN_LINE_REVOKE_RENEW] = { TN_LINE_REVOKE_MOVE, TN_LINE_REVOKE_OPEN, 0 },
        [TN_LINE_REVOKE_MOVE] = { TN_LINE_REVOKE_KEEP, TN_LINE_REVOKE_DONE, TN_ANSWER_STALE },
        [TN_LINE_REVOKE_KEEP] = { TN_LINE_REVOKE_DONE, TN_LINE_REVOKE_DONE, TN_ANSWER_OK },
    };

    TN_ASSERT(revoke->step != TN_LINE_REVOKE_DONE);
    enum tn_answer answer = yes ? TN_ANSWER_OK : next[revoke->step].no_answer;
    enum tn_line_revoke_step step = yes ? next[revoke->step].yes : next[revoke->step].no;
    if (TN_PLANT(HOLD_OFF_SHARED) && step == TN_LINE_REVOKE_RENEW)
        step = TN_LINE_REVOKE_MOVE;
    if (TN_PLANT(HOLD_OFF_SHARED) && step == TN_LINE_REVOKE_KEEP)
        step = TN_LINE_REVOKE_DONE;
    if (step == TN_LINE_REVOKE_DONE)
        end(revoke, answer);
    else
        revoke->step = step;
}
