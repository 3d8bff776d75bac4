/* claim_term.c - one term: what begins it, and the ways it ends; claim_term.h says when. */
#include "core/claim_term.h"

#include "base/assert.h"
#include "core/plant.h"

static const uint8_t allowed[TN_CLAIM_STATE_COUNT] = {
    [TN_CLAIM_WATCHING] = 1 << TN_CLAIM_ACQUIRING | 1 << TN_CLAIM_RAISING | 1 << TN_CLAIM_RELEASING,
    [TN_CLAIM_ACQUIRING] = 1 << TN_CLAIM_WATCHING | 1 << TN_CLAIM_RAISING | 1 << TN_CLAIM_RELEASING,
    [TN_CLAIM_RAISING] = 1 << TN_CLAIM_HOLDING | 1 << TN_CLAIM_RELEASING | 1 << TN_CLAIM_WATCHING,
    [TN_CLAIM_HOLDING] = 1 << TN_CLAIM_DRAINING,
    [TN_CLAIM_DRAINING] = 1 << TN_CLAIM_RELEASING | 1 << TN_CLAIM_WATCHING,
    [TN_CLAIM_RELEASING] = 1 << TN_CLAIM_WATCHING | 1 << TN_CLAIM_DRAINING,
};

struct tn_claim_action *tn_claim_add(struct tn_claim_actions *out, enum tn_claim_action_kind kind)
{
    TN_ASSERT(out->count < TN_CLAIM_ACTIONS);
    struct tn_claim_action *action = &out->list[out->count++];
    *action = (struct tn_claim_action) { .kind = kind };
    return action;
}

void tn_claim_move(struct tn_claim *claim, enum tn_claim_state state)
{
    TN_ASSERT(allowed[claim->state] & 1 << state);
    claim->state = state;
}

tenure_ns tn_claim_jittered(struct tn_claim *claim, tenure_ns span)
{
    return tn_plan_jittered(&claim->prng, span, claim->config->jitter_ppm);
}

bool tn_claim_wants(const struct tn_claim *claim)
{
    return claim->campaigning && (claim->ready || TN_PLANT(NOT_READY_WINS)) &&
           (!claim->working || TN_PLANT(DRAIN_FORGOTTEN)) &&
           !tn_notes_bar(&claim->notes, claim->now) && tn_session_valid(claim->session, claim->now);
}

void tn_claim_watch(struct tn_claim *claim, bool queued, tenure_ns poll_in)
{
    if (claim->state != TN_CLAIM_WATCHING)
        tn_claim_move(claim, TN_CLAIM_WATCHING);
    claim->queued = queued;
    claim->retry_at = TN_PLANT(NO_POLL) ? TN_NEVER : claim->now + tn_claim_jittered(claim, poll_in);
    claim->give_up_at = TN_NEVER;
}

void tn_claim_acquire(struct tn_claim *claim, struct tn_claim_actions *out)
{
    TN_ASSERT(claim->token == 0 || TN_PLANT(DRAIN_FORGOTTEN));
    if (claim->state != TN_CLAIM_ACQUIRING)
        tn_claim_move(claim, TN_CLAIM_ACQUIRING);
    claim->life = claim->session->life;
    claim->retry_at = claim->now + claim->config->attempt_timeout;
    tn_claim_add(out, TN_CLAIM_DO_ACQUIRE)->gen = claim->gen;
}

void tn_claim_release(struct tn_claim *claim, struct tn_claim_actions *out)
{
    /* P5: the work has stopped, or (after a stall) the deadline that everyone counts on is over. */
    TN_ASSERT(!claim->working || claim->now >= claim->give_up_at || TN_PLANT(DRAIN_SKIPPED));
    if (claim->state != TN_CLAIM_RELEASING)
        tn_claim_move(claim, TN_CLAIM_RELEASING);
    claim->queued = claim->resuming = false;
    claim->retry_at =
        TN_PLANT(RELEASE_ONCE) ? TN_NEVER : claim->now + claim->config->attempt_timeout;
    struct tn_claim_action *action = tn_claim_add(out, TN_CLAIM_DO_RELEASE);
    action->gen = claim->gen;
    action->token = claim->token;
}

/* After a refusal the next campaign waits, so as not to run in circles. */
void tn_claim_finish_term(struct tn_claim *claim)
{
    if (claim->yields)
        tn_notes_stand_back(&claim->notes, claim->now, claim->token, &claim->config->notes);
    claim->yields = false;
    tenure_ns wait = claim->refused || !tn_claim_wants(claim) ? claim->config->poll_every : 0;

    claim->refused = false;
    if (claim->token > claim->high_token)
        claim->high_token = claim->token;
    claim->token = 0;
    claim->owed = false;
    claim->gen++;
    if (claim->working && !TN_PLANT(DRAIN_FORGOTTEN)) {
        if (claim->state != TN_CLAIM_DRAINING)
            tn_claim_move(claim, TN_CLAIM_DRAINING);
        claim->retry_at = TN_NEVER;
        claim->give_up_at = TN_NEVER;
    } else {
        tn_claim_watch(claim, false, wait);
        if (!tn_claim_wants(claim) && !claim->unsettled && !claim->observing)
            claim->retry_at = TN_NEVER; /* Nothing to wait for. */
    }
}

void tn_claim_refuse(struct tn_claim *claim, enum tn_reason reason, struct tn_claim_actions *out)
{
    TN_ASSERT(!claim->working);
    struct tn_claim_action *action = tn_claim_add(out, TN_CLAIM_DO_REFUSED);
    action->reason = reason;
    action->token = claim->token;
    action->seen = reason == TN_REASON_TOKEN_REGRESSED ? claim->high_token : 0;
    claim->refused = true;
    if (claim->notes.rank != NULL)
        tn_rank_refused(claim->notes.rank, claim->now, claim->config->notes.back);
    tn_claim_release(claim, out);
}

void tn_claim_won(struct tn_claim *claim, struct tn_claim_actions *out)
{
    TN_ASSERT(claim->token > 0);
    TN_ASSERT(!claim->working || TN_PLANT(WON_TWICE) || TN_PLANT(DRAIN_FORGOTTEN));
    if (claim->state != TN_CLAIM_HOLDING)
        tn_claim_move(claim, TN_CLAIM_HOLDING);
    claim->working = true;
    claim->retry_at = TN_NEVER;
    claim->give_up_at = TN_NEVER;
    claim->check_in_by = TN_NEVER;
    if (claim->config->stall_after > 0 && !TN_PLANT(STALL_KEPT))
        claim->check_in_by = claim->now + claim->config->stall_after;
    tn_notes_won(&claim->notes, claim->now, claim->token, &claim->config->notes);
    tn_claim_add(out, TN_CLAIM_DO_WON)->token = claim->token;
}

void tn_claim_raise(struct tn_claim *claim, struct tn_claim_actions *out)
{
    claim->retry_at = claim->now + claim->config->attempt_timeout;
    struct tn_claim_action *action = tn_claim_add(out, TN_CLAIM_DO_RAISE);
    action->gen = claim->gen;
    action->token = claim->token;
}

bool tn_claim_leads(const struct tn_claim *claim)
{
    return (claim->state == TN_CLAIM_HOLDING || claim->state == TN_CLAIM_DRAINING) &&
           claim->token > 0 && !claim->lost;
}

void tn_claim_lose(struct tn_claim *claim, enum tn_reason reason, struct tn_claim_actions *out)
{
    TN_ASSERT(claim->working);
    TN_ASSERT(tn_claim_leads(claim));
    if (claim->state == TN_CLAIM_HOLDING)
        tn_claim_move(claim, TN_CLAIM_DRAINING);
    claim->lost = true;
    claim->check_in_by = TN_NEVER;
    claim->give_up_at = TN_NEVER;
    struct tn_claim_action *action = tn_claim_add(out, TN_CLAIM_DO_LOST);
    action->reason = reason;
    action->token = claim->token;
    action->proven = claim->session->proven;
}

/* A stalled worker never says that it has stopped; then the deadline as it stands now decides, and
 * the hold-off behind it, because that is when an expiry would have let the lease go as well. */
void tn_claim_lose_early(struct tn_claim *claim, enum tn_reason reason,
                         struct tn_claim_actions *out)
{
    tn_claim_lose(claim, reason, out);
    claim->owed = true;
    if (reason == TN_REASON_STALLED)
        claim->give_up_at = tn_session_deadline(claim->session) + claim->session->plan->hold_off;
}
