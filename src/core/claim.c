/* claim.c - from wanting a name to leading it and back; claim.h has the picture.
 *
 * Happy path: CAMPAIGN, acquire, granted, fences up, WON; RESIGN, DRAIN, DRAINED, LOST(released),
 * release, and the successor leads.
 * What can fail: every request may be lost, late or doubled. Requests carry a generation, which
 * names the secret of one term, so that repeating an acquire or a release is harmless, and an
 * answer to an older generation is recognised. A grant that nobody waits for any more - its acquire
 * was delayed in the network - is given back as soon as it is seen. */
#include "core/claim.h"

#include "base/assert.h"
#include "core/claim_term.h"
#include "core/plant.h"

void tn_claim_init(struct tn_claim *claim, const struct tn_claim_config *config,
                   const struct tn_session *session, uint64_t seed)
{
    TN_ASSERT(config->attempt_timeout > 0);
    TN_ASSERT(config->poll_every > 0);
    *claim = (struct tn_claim) {
        .config = config,
        .session = session,
        .gen = 1,
        .ready = true,
        .retry_at = TN_NEVER,
        .give_up_at = TN_NEVER,
        .check_in_by = TN_NEVER,
    };
    tn_prng_seed(&claim->prng, seed);
}

void tn_claim_resume(struct tn_claim *claim, uint64_t gen, uint64_t token)
{
    TN_ASSERT(claim->state == TN_CLAIM_WATCHING && !claim->campaigning && gen > 0);
    claim->gen = gen;
    claim->token = token;
    claim->unsettled = true; /* What that process has sent may arrive yet. */
    claim->resuming = claim->campaigning = claim->working = token > 0;
    claim->state = token > 0 ? TN_CLAIM_HOLDING : TN_CLAIM_RELEASING;
}

/* How long to rely on a store that tells. */
static tenure_ns queue_poll(const struct tn_claim *claim)
{
    const struct tn_claim_config *config = claim->config;
    tenure_ns every = config->queue_poll > 0 ? config->queue_poll : config->poll_every;

    /* F1: nobody tells that a holder is silent; who may supersede it asks. */
    return config->soft > 0 && config->soft / 4 < every ? config->soft / 4 : every;
}

static void read_record(struct tn_claim *claim, struct tn_claim_actions *out)
{
    tn_claim_add(out, TN_CLAIM_DO_READ)->read = ++claim->reads;
}

/* Whether @token was already passed by in this name's history, as far as this candidate saw it. */
static bool regressed(const struct tn_claim *claim, uint64_t token)
{
    return token <= claim->high_token && !TN_PLANT(NO_HIGH_WATER) && !TN_PLANT(TOKEN_PER_SESSION);
}

/* Give back a grant of an older generation: nobody waits for it any more. Not once the session is
 * over: then the grant may be the lost term itself, whose work has not stopped yet (P5). */
static void give_back(const struct tn_claim *claim, const struct tn_claim_event *event,
                      struct tn_claim_actions *out)
{
    if (TN_PLANT(STRAY_KEPT) || !tn_session_valid(claim->session, claim->now))
        return;
    struct tn_claim_action *action = tn_claim_add(out, TN_CLAIM_DO_RELEASE);
    action->gen = event->gen;
    action->token = event->token;
}

/* Not asked about in the present session yet. */
static bool is_from_before(const struct tn_claim *claim)
{
    return claim->resuming || (claim->state == TN_CLAIM_RELEASING && claim->life == 0);
}

/* The session of the process before this one is live here: ask for the same term again. */
static void ask_again(struct tn_claim *claim, struct tn_claim_actions *out)
{
    claim->life = claim->session->life;
    if (claim->state == TN_CLAIM_RELEASING) {
        tn_claim_release(claim, out);
        return;
    }
    claim->first_read = claim->reads + 1;
    claim->retry_at = claim->now + claim->config->attempt_timeout;
    tn_claim_add(out, TN_CLAIM_DO_ACQUIRE)->gen = claim->gen;
}

/* N2: a token names one term, for ever. With the same one the term goes on; otherwise it was over
 * in between. */
static void confirm(struct tn_claim *claim, uint64_t token, struct tn_claim_actions *out)
{
    claim->resuming = false;
    claim->retry_at = TN_NEVER;
    if (token == claim->token && claim->state == TN_CLAIM_HOLDING) {
        tn_notes_see(&claim->notes, claim->now, true, token, &claim->config->notes);
        tn_claim_add(out, TN_CLAIM_DO_WON)->token = token;
    }
    if (token == claim->token)
        return;
    if (tn_claim_leads(claim))
        tn_claim_lose_early(claim, TN_REASON_EXPIRED, out);
    claim->token = token; /* Of what is to be given back; 0: a place in line at most. */
}

static void granted(struct tn_claim *claim, const struct tn_claim_event *event,
                    struct tn_claim_actions *out)
{
    bool waiting = claim->state == TN_CLAIM_ACQUIRING || claim->state == TN_CLAIM_WATCHING;

    if (TN_PLANT(WON_TWICE) && claim->state == TN_CLAIM_HOLDING && event->gen == claim->gen)
        tn_claim_won(claim, out);
    if (event->gen == claim->gen && claim->resuming) {
        confirm(claim, event->token, out);
        return;
    }
    if (event->gen == claim->gen && event->token == claim->token)
        return; /* A duplicate of what is known. */
    if (event->gen != claim->gen || !waiting) {
        if (event->gen < claim->gen)
            give_back(claim, event, out);
        return;
    }
    if (!tn_session_valid(claim->session, claim->now))
        return; /* Too late: the store lets it go together with the session. */
    claim->token = event->token;
    claim->first_read = claim->reads + 1;
    claim->lost = false;
    claim->queued = false;
    if (!tn_claim_wants(claim)) {
        tn_claim_release(claim, out);
    } else if (regressed(claim, event->token)) {
        tn_claim_refuse(claim, TN_REASON_TOKEN_REGRESSED, out);
    } else if (event->token <= claim->revoked_token && !TN_PLANT(REVOKE_FORGOTTEN)) {
        tn_claim_refuse(claim, TN_REASON_REVOKED, out);
    } else if (claim->config->fenced && !TN_PLANT(FENCE_AFTER_WON) &&
               !(TN_PLANT(SOFT_UNRAISED) && claim->config->soft > 0)) {
        tn_claim_move(claim, TN_CLAIM_RAISING);
        claim->give_up_at = claim->now + claim->config->raise_timeout;
        tn_claim_raise(claim, out);
    } else {
        tn_claim_move(claim, TN_CLAIM_RAISING);
        tn_claim_won(claim, out);
        if (claim->config->fenced)
            tn_claim_raise(claim, out);
    }
}

/* @kind NONE: the application resigns, nobody asked. */
static void step_down(struct tn_claim *claim, enum tn_note_kind kind, struct tn_claim_actions *out)
{
    if (claim->state != TN_CLAIM_HOLDING)
        return;
    tn_claim_move(claim, TN_CLAIM_DRAINING);
    claim->give_up_at = claim->now + claim->config->drain_timeout;
    struct tn_claim_action *action = tn_claim_add(out, TN_CLAIM_DO_DRAIN);
    action->token = claim->token;
    action->reason = kind != TN_NOTE_NONE ? TN_REASON_NOTE_ASKED : TN_REASON_NONE;
    action->note = kind;
    if (TN_PLANT(DRAIN_SKIPPED)) {
        tn_claim_lose(claim, TN_REASON_RELEASED, out);
        tn_claim_release(claim, out);
    }
}

/* For this term only: the campaign goes on, as soon as the note lets it. */
static void obey(struct tn_claim *claim, struct tn_claim_actions *out)
{
    enum tn_note_kind kind =
        tn_notes_ask(&claim->notes, claim->now, claim->token, &claim->config->notes);

    if (kind == TN_NOTE_NONE || claim->state != TN_CLAIM_HOLDING)
        return;
    claim->yields = kind == TN_NOTE_HANDOVER || kind == TN_NOTE_YIELD;
    if (kind == TN_NOTE_YIELD) {
        claim->notes.rank->gave_way = true;
        claim->notes.rank->fresh = false;
    }
    step_down(claim, kind, out);
}

static void drained(struct tn_claim *claim, struct tn_claim_actions *out)
{
    if (!claim->working)
        return;
    if (tn_claim_leads(claim)) /* Resigned, or the work ended by itself, which comes to the same. */
        tn_claim_lose_early(claim, TN_REASON_RELEASED, out);
    claim->working = false;
    if (claim->state != TN_CLAIM_DRAINING)
        return;
    if (claim->owed)
        tn_claim_release(claim, out);
    else
        tn_claim_finish_term(claim);
}

/* Not wanted any more, before anything was granted: leave the queue, or whatever is on its way. */
static void withdraw(struct tn_claim *claim, struct tn_claim_actions *out)
{
    if (claim->state == TN_CLAIM_ACQUIRING)
        claim->unsettled = true;
    if (claim->state == TN_CLAIM_ACQUIRING || claim->state == TN_CLAIM_RAISING || claim->queued)
        tn_claim_release(claim, out);
}

static void session_lost(struct tn_claim *claim, struct tn_claim_actions *out)
{
    claim->unsettled = false; /* Whatever arrives now is refused or dies with the session. */
    claim->resuming = false;
    if (tn_claim_leads(claim))
        tn_claim_lose(claim, claim->session->reason, out);
    claim->queued = false;
    if (claim->state == TN_CLAIM_WATCHING)
        claim->gen++; /* Of whatever is on its way nothing may be taken for the next life's. */
    else
        tn_claim_finish_term(claim);
    claim->retry_at = TN_NEVER; /* Until the session is live again. */
}

/* The lease is gone from the store, and the session goes on. */
static void taken_away(struct tn_claim *claim, enum tn_reason reason, struct tn_claim_actions *out)
{
    if (tn_claim_leads(claim))
        tn_claim_lose_early(claim, reason, out);
    else if (claim->state == TN_CLAIM_RAISING)
        tn_claim_refuse(claim, reason, out);
}

static void revoked(struct tn_claim *claim, uint64_t token, struct tn_claim_actions *out)
{
    if (TN_PLANT(REVOKE_IGNORED))
        return;
    if (token > claim->revoked_token)
        claim->revoked_token = token;
    if (claim->token != token || token == 0)
        return;
    /* It was taken away so that somebody else has it. */
    claim->yields = !TN_PLANT(REVOKE_RETURNS);
    taken_away(claim, TN_REASON_REVOKED, out);
}

static void tell_leader(struct tn_claim *claim, const struct tn_claim_event *event,
                        struct tn_claim_actions *out)
{
    bool asked = claim->observing && !claim->informed; /* Also "nobody yet" is an answer. */

    claim->informed = true;
    if (!asked && (event->token < claim->leader_token ||
                   (event->token == claim->leader_token && event->held == claim->leader_held)))
        return; /* Older than what was told, or the same. */
    claim->hurried = false;
    claim->leader_token = event->token;
    claim->leader_held = event->held;
    struct tn_claim_action *action = tn_claim_add(out, TN_CLAIM_DO_LEADER);
    action->token = event->token;
    action->held = event->held;
    action->mine = event->mine;
}

/* Somebody else's record, or none, while we hold: deleted, given away, or restored under us. From a
 * watch only a token as high as ours proves it, since the word may be older than our term; a read
 * that was sent within the term proves it whatever it says. */
static bool is_proof_of_loss(const struct tn_claim *claim, const struct tn_claim_event *event)
{
    if (TN_PLANT(REVOKE_IGNORED))
        return false;
    return event->token >= claim->token || (event->read != 0 && event->read >= claim->first_read);
}

/* What the record says, from a watch or a read; perhaps old, so tokens decide what it proves. */
static void observed(struct tn_claim *claim, const struct tn_claim_event *event,
                     struct tn_claim_actions *out)
{
    tell_leader(claim, event, out);
    if (event->mine) {
        if (claim->life == claim->session->life)
            granted(claim, event, out);
        return;
    }
    if (event->token > claim->high_token && event->token != claim->token)
        claim->high_token = event->token;
    tn_notes_see(&claim->notes, claim->now, event->held, event->token, &claim->config->notes);
    if (claim->token > 0 && is_proof_of_loss(claim, event)) {
        taken_away(claim,
                   event->token < claim->token ? TN_REASON_TOKEN_REGRESSED : TN_REASON_REVOKED,
                   out);
        return;
    }
    if (!event->held && claim->state == TN_CLAIM_WATCHING && !claim->queued &&
        tn_claim_wants(claim))
        tn_claim_acquire(claim, out);
}

static void fences_raised(struct tn_claim *claim, const struct tn_claim_event *event,
                          struct tn_claim_actions *out)
{
    if (claim->state != TN_CLAIM_RAISING)
        return;
    if (event->kind == TN_CLAIM_EV_STALE && event->token > claim->token) {
        claim->high_token = event->token;
        tn_claim_refuse(claim, TN_REASON_TOKEN_REGRESSED, out);
    } else if (event->kind == TN_CLAIM_EV_BARRED && event->token == claim->token) {
        tn_claim_refuse(claim, TN_REASON_FENCE, out);
    } else if (event->kind == TN_CLAIM_EV_RAISED && event->token == claim->token) {
        if (tn_session_valid(claim->session, claim->now))
            tn_claim_won(claim, out);
    }
}

static void failed(struct tn_claim *claim, struct tn_claim_actions *out)
{
    if (TN_PLANT(FENCE_SKIPPED) && claim->state == TN_CLAIM_RAISING) {
        tn_claim_won(claim, out);
        return;
    }
    if (claim->state == TN_CLAIM_ACQUIRING || claim->state == TN_CLAIM_RAISING ||
        claim->state == TN_CLAIM_RELEASING || claim->resuming)
        claim->retry_at = claim->now + tn_claim_jittered(claim, claim->config->backoff);
}

/* Who leads? Again after a while, sooner when there was no answer. */
static void look(struct tn_claim *claim, struct tn_claim_actions *out)
{
    tn_claim_watch(claim, claim->queued,
                   claim->informed ? queue_poll(claim) : claim->config->poll_every);
    read_record(claim, out);
}

/* The retry or poll is due. */
static void retry(struct tn_claim *claim, struct tn_claim_actions *out)
{
    claim->retry_at = TN_NEVER;
    switch (claim->state) {
    case TN_CLAIM_WATCHING:
        if (tn_claim_wants(claim) && (claim->queued || !claim->config->observed)) {
            tn_claim_acquire(claim, out); /* Doubles as a read: a queued one keeps its place. */
            if (claim->unsettled)         /* The holder may be a stray grant of our own: look. */
                read_record(claim, out);
        } else if (tn_claim_wants(claim) || claim->unsettled) {
            tn_claim_watch(claim, claim->queued, claim->config->poll_every);
            read_record(claim, out);
        } else if (claim->observing) {
            look(claim, out);
        }
        break;
    case TN_CLAIM_ACQUIRING:
        claim->unsettled = true; /* The first one may arrive at any time, even after a release. */
        tn_claim_acquire(claim, out);
        break;
    case TN_CLAIM_RAISING:
        tn_claim_raise(claim, out);
        break;
    case TN_CLAIM_RELEASING:
        tn_claim_release(claim, out);
        break;
    case TN_CLAIM_HOLDING:
        if (claim->resuming)
            ask_again(claim, out);
        break;
    case TN_CLAIM_DRAINING:
    case TN_CLAIM_STATE_COUNT:
        break;
    }
}

static void give_up(struct tn_claim *claim, struct tn_claim_actions *out)
{
    if (claim->state == TN_CLAIM_RAISING) {
        claim->give_up_at = TN_NEVER;
        tn_claim_refuse(claim, TN_REASON_FENCE, out);
    } else if (claim->state == TN_CLAIM_DRAINING && !claim->lost) {
        tn_claim_lose_early(claim, TN_REASON_STALLED, out);
    } else if (claim->state == TN_CLAIM_DRAINING) {
        tn_claim_release(claim, out); /* A stall: the frozen deadline is over. */
    }
}

static void campaign(struct tn_claim *claim, struct tn_claim_actions *out);

/* What follows from the clock and the wishes alone, after every event. */
static void settle(struct tn_claim *claim, struct tn_claim_actions *out)
{
    bool was_barred = claim->barred;

    if (claim->now >= claim->check_in_by)
        tn_claim_lose_early(claim, TN_REASON_STALLED, out);
    if (claim->now >= claim->give_up_at)
        give_up(claim, out);
    obey(claim, out);
    claim->barred = tn_notes_bar(&claim->notes, claim->now);
    if (was_barred && !claim->barred)
        campaign(claim, out);
    if (!tn_claim_wants(claim) && !claim->working && tn_session_valid(claim->session, claim->now))
        withdraw(claim, out);
    if (claim->now >= claim->retry_at)
        retry(claim, out);
}

static void campaign(struct tn_claim *claim, struct tn_claim_actions *out)
{
    if (claim->state == TN_CLAIM_WATCHING && !claim->queued && tn_claim_wants(claim)) {
        if (claim->config->observed) {
            tn_claim_watch(claim, false, claim->config->poll_every);
            read_record(claim, out);
        } else {
            tn_claim_acquire(claim, out);
        }
    } else if (claim->state == TN_CLAIM_WATCHING && claim->observing && !claim->queued) {
        look(claim, out);
    }
}

static void hear_application(struct tn_claim *claim, const struct tn_claim_event *event,
                             struct tn_claim_actions *out)
{
    switch (event->kind) {
    case TN_CLAIM_EV_CAMPAIGN:
        claim->campaigning = true;
        if (is_from_before(claim) && tn_session_valid(claim->session, claim->now))
            ask_again(claim, out); /* The session was faster. */
        campaign(claim, out);
        break;
    case TN_CLAIM_EV_RESIGN:
        claim->campaigning = false;
        step_down(claim, TN_NOTE_NONE, out);
        break;
    case TN_CLAIM_EV_READY:
        claim->ready = true;
        campaign(claim, out);
        break;
    case TN_CLAIM_EV_NOT_READY:
        claim->ready = false;
        break;
    case TN_CLAIM_EV_DRAINED:
        drained(claim, out);
        break;
    case TN_CLAIM_EV_OBSERVE:
        claim->observing = true;
        campaign(claim, out);
        break;
    case TN_CLAIM_EV_CHECK_IN:
        if (claim->check_in_by != TN_NEVER && claim->now < claim->check_in_by)
            claim->check_in_by = claim->now + claim->config->stall_after;
        break;
    default:
        TN_ASSERT(event->kind == TN_CLAIM_EV_TICK);
    }
}

/* Somebody else holds it under @token - or did: word of the vacancy may have overtaken us. Asked
 * again once per vacancy: in a store that was restored, what we know of may have been another age.
 */
static void held(struct tn_claim *claim, uint64_t token, struct tn_claim_actions *out)
{
    tn_claim_watch(claim, false, claim->config->poll_every);
    if (!claim->leader_held && claim->leader_token >= token && token > 0 && !claim->hurried) {
        claim->hurried = true;
        tn_claim_acquire(claim, out);
    }
}

static void hear_store(struct tn_claim *claim, const struct tn_claim_event *event,
                       struct tn_claim_actions *out)
{
    bool ours = event->gen == claim->gen;
    switch (event->kind) {
    case TN_CLAIM_EV_GRANTED:
        granted(claim, event, out);
        break;
    case TN_CLAIM_EV_QUEUED:
        if (ours && claim->resuming)
            confirm(claim, 0, out);
        else if (ours && claim->state == TN_CLAIM_ACQUIRING)
            tn_claim_watch(claim, true, queue_poll(claim));
        break;
    case TN_CLAIM_EV_HELD:
        if (ours && claim->resuming)
            confirm(claim, 0, out);
        else if (ours && claim->state == TN_CLAIM_ACQUIRING)
            held(claim, event->token, out);
        break;
    case TN_CLAIM_EV_FAILED:
        if (ours)
            failed(claim, out);
        break;
    case TN_CLAIM_EV_RELEASED:
        if (ours && claim->state == TN_CLAIM_RELEASING)
            tn_claim_finish_term(claim);
        break;
    case TN_CLAIM_EV_REVOKED:
        revoked(claim, event->token, out);
        break;
    case TN_CLAIM_EV_DOUBT:
        if (tn_claim_leads(claim) && !TN_PLANT(DOUBT_IGNORED))
            read_record(claim, out);
        break;
    default:
        TN_ASSERT(event->kind == TN_CLAIM_EV_OBSERVED);
        observed(claim, event, out);
    }
}

void tn_claim_step(struct tn_claim *claim, tenure_ns now, const struct tn_claim_event *event,
                   struct tn_claim_actions *ret_actions)
{
    TN_ASSERT(now >= claim->now);
    claim->now = now;
    ret_actions->count = 0;
    switch (event->kind) {
    case TN_CLAIM_EV_NOTED:
        if (event->note != NULL)
            tn_notes_hear(&claim->notes, now, event->note);
        break;
    case TN_CLAIM_EV_SESSION_LIVE:
        if (claim->resuming && TN_PLANT(AGENT_NEW_SESSION))
            confirm(claim, claim->token, ret_actions);
        else if (is_from_before(claim))
            ask_again(claim, ret_actions);
        else
            campaign(claim, ret_actions);
        break;
    case TN_CLAIM_EV_SESSION_LOST:
        session_lost(claim, ret_actions);
        break;
    case TN_CLAIM_EV_RAISED:
    case TN_CLAIM_EV_BARRED:
    case TN_CLAIM_EV_STALE:
        fences_raised(claim, event, ret_actions);
        break;
    case TN_CLAIM_EV_GRANTED:
    case TN_CLAIM_EV_QUEUED:
    case TN_CLAIM_EV_HELD:
    case TN_CLAIM_EV_FAILED:
    case TN_CLAIM_EV_OBSERVED:
    case TN_CLAIM_EV_RELEASED:
    case TN_CLAIM_EV_REVOKED:
    case TN_CLAIM_EV_DOUBT:
        hear_store(claim, event, ret_actions);
        break;
    default:
        hear_application(claim, event, ret_actions);
    }
    settle(claim, ret_actions);
}

tenure_ns tn_claim_wake_at(const struct tn_claim *claim)
{
    tenure_ns at = tn_notes_wake_at(&claim->notes, claim->now, &claim->config->notes);
    if (claim->retry_at < at)
        at = claim->retry_at;
    if (claim->give_up_at < at && claim->state != TN_CLAIM_RELEASING)
        at = claim->give_up_at;
    if (claim->check_in_by < at)
        at = claim->check_in_by;
    return at;
}

bool tn_claim_announces(const struct tn_claim *claim)
{
    /* Only once it has its place: those who then leave the line return behind it. */
    return claim->notes.rank != NULL && claim->queued && tn_claim_wants(claim) && !claim->yields &&
           tn_rank_announces(claim->notes.rank, claim->now);
}

uint64_t tn_claim_token(const struct tn_claim *claim, tenure_ns now)
{
    bool valid = tn_claim_leads(claim) && claim->life == claim->session->life &&
                 tn_session_valid(claim->session, now);
    return valid ? claim->token : 0;
}
