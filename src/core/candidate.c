/* candidate.c - the session and the claims of one process, and the meaning of answers; candidate.h
 * has the picture.
 *
 * Happy path: open() sends OPEN, its answer makes the session live, every campaigning seat sends
 * ACQUIRE, a grant leads to WON; renewals follow by the session's schedule.
 * What can fail: an answer may be missing, late, or of an earlier session. The first two are the
 * session's and the claims' business; the last is dropped here, by the life that it carries. */
#include "core/candidate.h"

#include <stddef.h>

#include "base/assert.h"
#include "base/final.h"
#include "core/plant.h"
#include "tenure/error.h"

void tn_candidate_init(struct tn_candidate *candidate, const struct tn_plan *plan,
                       const struct tn_claim_config *config, bool waits,
                       const struct tn_candidate_host *host, void *arg, uint64_t seed)
{
    TN_ASSERT(host->send != NULL && host->tell != NULL && host->tell_session != NULL);
    *candidate = (struct tn_candidate) {
        .plan = plan,
        .config = config,
        .host = host,
        .arg = arg,
        .reopen_at = TN_NEVER,
        .waits = waits,
    };
    tn_prng_seed(&candidate->prng, seed);
    tn_session_init(&candidate->session, plan, 1, seed); /* Closed until tn_candidate_open. */
}

/* --- Seats ------------------------------------------------------------------------------------ */

static struct tn_seat *seat_of(struct tn_heap_node *wake)
{
    return (struct tn_seat *)(void *)((char *)wake - offsetof(struct tn_seat, wake));
}

/* Engines that expire nothing are observed by whoever would lead at once. */
static bool is_observing(const struct tn_candidate *candidate, const struct tn_seat *seat)
{
    return candidate->config->observed && seat->claim.state == TN_CLAIM_WATCHING &&
           seat->claim.campaigning && seat->claim.ready && !seat->claim.working &&
           !seat->claim.barred && tn_session_valid(&candidate->session, candidate->now);
}

static void schedule(struct tn_candidate *candidate, struct tn_seat *seat)
{
    tenure_ns at = tn_claim_wake_at(&seat->claim);

    if (is_observing(candidate, seat) && tn_observer_wake_at(&seat->observer) < at)
        at = tn_observer_wake_at(&seat->observer);
    if (at == seat->wake.at)
        return;
    if (seat->wake.at != TN_NEVER)
        tn_heap_remove(&candidate->wakes, &seat->wake);
    seat->wake.at = at;
    if (at != TN_NEVER)
        tn_heap_insert(&candidate->wakes, &seat->wake);
}

void tn_candidate_add(struct tn_candidate *candidate, struct tn_seat *seat,
                      const struct tn_claim_config *config)
{
    tn_claim_init(&seat->claim, config != NULL ? config : candidate->config, &candidate->session,
                  tn_prng_next(&candidate->prng));
    seat->claim.notes.node = &candidate->notes;
    tn_observer_init(&seat->observer);
    seat->wake.at = TN_NEVER;
    seat->prev = NULL;
    seat->next = candidate->seats;
    if (seat->next != NULL)
        seat->next->prev = seat;
    candidate->seats = seat;
    candidate->seat_count++;
}

void tn_candidate_remove(struct tn_candidate *candidate, struct tn_seat *seat)
{
    TN_ASSERT(candidate->seat_count > 0);
    if (seat->wake.at != TN_NEVER)
        tn_heap_remove(&candidate->wakes, &seat->wake);
    seat->wake.at = TN_NEVER;
    if (seat->prev != NULL)
        seat->prev->next = seat->next;
    else
        candidate->seats = seat->next;
    if (seat->next != NULL)
        seat->next->prev = seat->prev;
    candidate->seat_count--;
}

/* --- Carrying out actions --------------------------------------------------------------------- */

static void send(struct tn_candidate *candidate, struct tn_request *request)
{
    request->life = candidate->life;
    request->sent_at = candidate->now;
    candidate->host->send(candidate->arg, request);
}

static void send_acquire(struct tn_candidate *candidate, struct tn_seat *seat, uint64_t gen)
{
    const struct tn_observer *observer = &seat->observer;
    struct tn_request request = {
        .kind = TN_OP_ACQUIRE, .seat = seat, .gen = gen, .wait = candidate->waits
    };

    if (tn_observer_vacant(observer, candidate->now)) {
        request.evident = true;
        request.token = observer->token;
        request.beat = observer->beat;
    }
    send(candidate, &request);
}

static void carry_out(struct tn_candidate *candidate, struct tn_seat *seat,
                      const struct tn_claim_action *action)
{
    struct tn_request request = { .seat = seat, .gen = action->gen, .token = action->token };

    switch (action->kind) {
    case TN_CLAIM_DO_ACQUIRE:
        send_acquire(candidate, seat, action->gen);
        return;
    case TN_CLAIM_DO_READ:
        request.kind = TN_OP_READ;
        request.read = action->read;
        break;
    case TN_CLAIM_DO_RELEASE:
        request.kind = TN_OP_RELEASE;
        break;
    case TN_CLAIM_DO_RAISE:
        request.kind = TN_OP_RAISE;
        break;
    default:
        candidate->host->tell(candidate->arg, seat, action);
        return;
    }
    send(candidate, &request);
}

static void step_claim(struct tn_candidate *candidate, struct tn_seat *seat,
                       const struct tn_claim_event *event)
{
    struct tn_claim_actions actions;

    tn_claim_step(&seat->claim, candidate->now, event, &actions);
    schedule(candidate, seat);
    for (uint32_t i = 0; i < actions.count; i++)
        carry_out(candidate, seat, &actions.list[i]);
}

static void step_claims(struct tn_candidate *candidate, enum tn_claim_event_kind kind)
{
    for (struct tn_seat *seat = candidate->seats; seat != NULL; seat = seat->next)
        step_claim(candidate, seat, &(struct tn_claim_event) { .kind = kind });
}

/* The session's news reach the claims before the host, which then sees what has come of them. */
static void session_told(struct tn_candidate *candidate, const struct tn_session_action *action)
{
    if (action->state == TN_SESSION_LIVE && action->from == TN_SESSION_OPENING)
        step_claims(candidate, TN_CLAIM_EV_SESSION_LIVE);
    if (action->state == TN_SESSION_LOST || action->state == TN_SESSION_CLOSED)
        step_claims(candidate, TN_CLAIM_EV_SESSION_LOST);
    if (action->state == TN_SESSION_LOST && !candidate->closed)
        candidate->reopen_at =
            candidate->now + tn_plan_jittered(&candidate->prng, candidate->plan->backoff, TN_PPM);
    candidate->host->tell_session(candidate->arg, action);
}

static void step_session(struct tn_candidate *candidate, const struct tn_session_event *event)
{
    struct tn_session_actions actions;

    tn_session_step(&candidate->session, candidate->now, event, &actions);
    for (uint32_t i = 0; i < actions.count; i++) {
        const struct tn_session_action *action = &actions.list[i];
        struct tn_request request = { .seq = action->seq,
                                      .ttl = tn_plan_asked(candidate->plan),
                                      .seen = candidate->seen };
        if (action->kind == TN_SESSION_DO_TELL) {
            session_told(candidate, action);
            continue;
        }
        request.kind = action->kind == TN_SESSION_DO_OPEN    ? TN_OP_OPEN
                       : action->kind == TN_SESSION_DO_RENEW ? TN_OP_RENEW
                                                             : TN_OP_CLOSE;
        send(candidate, &request);
    }
}

static void session_gone(struct tn_candidate *candidate)
{
    step_session(candidate, &(struct tn_session_event) { .kind = TN_SESSION_EV_GONE });
}

static void open_session(struct tn_candidate *candidate)
{
    candidate->reopen_at = TN_NEVER;
    candidate->seen = 0;
    candidate->life = candidate->resume > 0 ? candidate->resume : candidate->life + 1;
    tn_session_init(&candidate->session, candidate->plan, candidate->life,
                    tn_prng_next(&candidate->prng));
    candidate->session.seq = candidate->seq;
    candidate->resume = candidate->seq = 0;
    step_session(candidate, &(struct tn_session_event) { .kind = TN_SESSION_EV_OPEN });
}

/* --- Time ------------------------------------------------------------------------------------- */

/* The session's deadline first, before anything that arrived is looked at (P6). */
static void begin(struct tn_candidate *candidate, tenure_ns now)
{
    TN_ASSERT(now >= candidate->now);
    candidate->now = now;
    if (now >= tn_session_wake_at(&candidate->session))
        step_session(candidate, &(struct tn_session_event) { .kind = TN_SESSION_EV_TICK });
}

static void wake(struct tn_candidate *candidate, struct tn_seat *seat)
{
    if (candidate->now >= tn_claim_wake_at(&seat->claim))
        step_claim(candidate, seat, &(struct tn_claim_event) { .kind = TN_CLAIM_EV_TICK });
    if (is_observing(candidate, seat) && tn_observer_vacant(&seat->observer, candidate->now)) {
        struct tn_claim_event vacant = { .kind = TN_CLAIM_EV_OBSERVED,
                                         .token = seat->observer.token };
        step_claim(candidate, seat, &vacant);
    }
    schedule(candidate, seat);
}

/* What is due now; each seat once, so that one which is due again at once cannot hold up the rest
 * of the process. */
static void end(struct tn_candidate *candidate)
{
    struct tn_heap_node *first;

    if (candidate->now >= tn_session_wake_at(&candidate->session))
        step_session(candidate, &(struct tn_session_event) { .kind = TN_SESSION_EV_TICK });
    for (uint32_t left = candidate->seat_count; left > 0; left--) {
        first = tn_heap_first(&candidate->wakes);
        if (first == NULL || first->at > candidate->now)
            break;
        wake(candidate, seat_of(first));
    }
    if (candidate->now >= candidate->reopen_at)
        open_session(candidate);
}

void tn_candidate_tick(struct tn_candidate *candidate, tenure_ns now)
{
    begin(candidate, now);
    end(candidate);
}

tenure_ns tn_candidate_wake_at(const struct tn_candidate *candidate)
{
    const struct tn_heap_node *first = tn_heap_first(&candidate->wakes);
    tenure_ns at = tn_session_wake_at(&candidate->session);

    if (candidate->reopen_at < at)
        at = candidate->reopen_at;
    return first != NULL && first->at < at ? first->at : at;
}

/* --- From the application --------------------------------------------------------------------- */

void tn_candidate_resume(struct tn_candidate *candidate, uint64_t life, uint64_t seq)
{
    TN_ASSERT(candidate->life == 0 && life > 0);
    candidate->resume = TN_PLANT(AGENT_NEW_SESSION) ? life + 1 : life;
    candidate->seq = seq;
}

void tn_candidate_open(struct tn_candidate *candidate, tenure_ns now)
{
    TN_ASSERT(candidate->session.state == TN_SESSION_CLOSED);
    candidate->now = now;
    open_session(candidate);
}

void tn_candidate_expire(struct tn_candidate *candidate, tenure_ns now)
{
    begin(candidate, now);
    session_gone(candidate);
    end(candidate);
}

void tn_candidate_close(struct tn_candidate *candidate, tenure_ns now)
{
    candidate->closed = true;
    candidate->reopen_at = TN_NEVER;
    begin(candidate, now);
    candidate->reopen_at = TN_NEVER;
    step_session(candidate, &(struct tn_session_event) { .kind = TN_SESSION_EV_CLOSE });
}

void tn_candidate_wish(struct tn_candidate *candidate, tenure_ns now, struct tn_seat *seat,
                       enum tn_claim_event_kind wish)
{
    TN_ASSERT(wish >= TN_CLAIM_EV_CAMPAIGN && wish <= TN_CLAIM_EV_OBSERVE);
    begin(candidate, now);
    step_claim(candidate, seat, &(struct tn_claim_event) { .kind = wish });
    end(candidate);
}

uint64_t tn_candidate_token(const struct tn_candidate *candidate, const struct tn_seat *seat,
                            tenure_ns now)
{
    (void)candidate;
    return tn_claim_token(&seat->claim, now);
}

/* --- From the store --------------------------------------------------------------------------- */

static void hear_record(struct tn_candidate *candidate, struct tn_seat *seat,
                        const struct tn_record *record, uint64_t read)
{
    struct tn_claim_event observed = { .kind = TN_CLAIM_EV_OBSERVED,
                                       .gen = record->mine ? record->gen : 0,
                                       .token = record->token,
                                       .read = read,
                                       .held = record->held,
                                       .mine = record->mine };
    step_claim(candidate, seat, &observed);
}

/* The store knows of fewer leases than this process leads: each has to be looked up. */
static void compare_counts(struct tn_candidate *candidate, uint32_t held)
{
    uint32_t leads = 0;

    for (struct tn_seat *seat = candidate->seats; seat != NULL; seat = seat->next)
        leads += tn_claim_token(&seat->claim, candidate->now) != 0;
    if (held < leads)
        step_claims(candidate, TN_CLAIM_EV_DOUBT);
}

static void answer_session(struct tn_candidate *candidate, const struct tn_request *request,
                           const struct tn_response *response)
{
    struct tn_session_event heard = { .kind = TN_SESSION_EV_FAIL,
                                      .seq = request->seq,
                                      .ttl = response->ttl,
                                      .more = response->more };

    if (!response->failed && response->answer == TN_ANSWER_STALE)
        return; /* A newer attempt got there first. */
    if (!response->failed && response->answer == TN_ANSWER_OK) {
        heard.kind = TN_SESSION_EV_OK;
        if (response->seen > candidate->seen)
            candidate->seen = response->seen;
    } else if (!response->failed && response->answer == TN_ANSWER_GONE) {
        heard.kind = TN_SESSION_EV_GONE;
    }
    step_session(candidate, &heard);
    if (heard.kind == TN_SESSION_EV_OK)
        compare_counts(candidate, response->held);
}

static void answer_acquire(struct tn_candidate *candidate, const struct tn_request *request,
                           const struct tn_response *response)
{
    struct tn_claim_event heard = { .kind = TN_CLAIM_EV_FAILED,
                                    .gen = request->gen,
                                    .token = response->record.token };

    if (!response->failed && response->answer == TN_ANSWER_GONE) {
        session_gone(candidate);
        return;
    }
    if (!response->failed && response->answer == TN_ANSWER_GRANTED) {
        heard.kind = TN_CLAIM_EV_GRANTED;
    } else if (!response->failed && response->answer == TN_ANSWER_QUEUED) {
        heard.kind = TN_CLAIM_EV_QUEUED;
    } else if (!response->failed && response->answer == TN_ANSWER_HELD) {
        heard.kind = TN_CLAIM_EV_HELD;
        tn_observer_init(&request->seat->observer); /* Not convinced by the evidence: look again. */
    }
    step_claim(candidate, request->seat, &heard);
    if (!response->failed && response->answer != TN_ANSWER_GRANTED && response->record.held)
        hear_record(candidate, request->seat, &response->record, 0);
}

static void answer_release(struct tn_candidate *candidate, const struct tn_request *request,
                           const struct tn_response *response)
{
    struct tn_claim_event heard = { .kind = TN_CLAIM_EV_RELEASED, .gen = request->gen };

    if (response->failed)
        heard.kind = TN_CLAIM_EV_FAILED;
    step_claim(candidate, request->seat, &heard);
    if (!response->failed && response->answer == TN_ANSWER_GONE)
        session_gone(candidate);
}

static void answer_read(struct tn_candidate *candidate, const struct tn_request *request,
                        const struct tn_response *response)
{
    const struct tn_record *record = &response->record;

    if (response->failed)
        return; /* Asked again by whoever wants to know. */
    if (candidate->config->observed && !record->mine)
        tn_observer_saw(&request->seat->observer, request->sent_at, candidate->now, record->held,
                        record->token, record->beat, record->ttl);
    hear_record(candidate, request->seat, record, request->read);
}

void tn_candidate_answer(struct tn_candidate *candidate, tenure_ns now,
                         const struct tn_request *request, const struct tn_response *response)
{
    begin(candidate, now);
    if (request->life == candidate->life) { /* Otherwise of an earlier session. */
        switch (request->kind) {
        case TN_OP_OPEN:
        case TN_OP_RENEW:
            answer_session(candidate, request, response);
            break;
        case TN_OP_ACQUIRE:
            answer_acquire(candidate, request, response);
            break;
        case TN_OP_RELEASE:
            answer_release(candidate, request, response);
            break;
        case TN_OP_READ:
            answer_read(candidate, request, response);
            break;
        default:
            TN_ASSERT(request->kind == TN_OP_CLOSE);
        }
    }
    end(candidate);
}

void tn_candidate_granted(struct tn_candidate *candidate, tenure_ns now, struct tn_seat *seat,
                          uint64_t life, uint64_t gen, uint64_t token)
{
    struct tn_claim_event heard = { .kind = TN_CLAIM_EV_GRANTED, .gen = gen, .token = token };

    begin(candidate, now);
    if (life == candidate->life)
        step_claim(candidate, seat, &heard);
    end(candidate);
}

void tn_candidate_revoked(struct tn_candidate *candidate, tenure_ns now, struct tn_seat *seat,
                          uint64_t life, uint64_t token)
{
    struct tn_claim_event heard = { .kind = TN_CLAIM_EV_REVOKED, .token = token };

    begin(candidate, now);
    if (life == candidate->life)
        step_claim(candidate, seat, &heard);
}

void tn_candidate_changed(struct tn_candidate *candidate, tenure_ns now, struct tn_seat *seat,
                          const struct tn_record *record)
{
    begin(candidate, now);
    hear_record(candidate, seat, record, 0);
    end(candidate);
}

void tn_candidate_await(struct tn_candidate *candidate, enum tn_note_slot slot, tenure_ns until)
{
    tn_node_notes_await(&candidate->notes, slot, until);
}

void tn_candidate_noted(struct tn_candidate *candidate, tenure_ns now, struct tn_seat *seat,
                        enum tn_note_slot slot, const struct tn_note *note)
{
    struct tn_claim_event noted = { .kind = TN_CLAIM_EV_NOTED, .note = note };

    begin(candidate, now);
    if (seat != NULL) {
        step_claim(candidate, seat, &noted);
    } else {
        tn_node_notes_hear(&candidate->notes, candidate->now, slot, note);
        step_claims(candidate, TN_CLAIM_EV_NOTED);
    }
    end(candidate);
}

void tn_candidate_raised(struct tn_candidate *candidate, tenure_ns now,
                         const struct tn_request *request, int status, uint64_t token)
{
    struct tn_claim_event heard = { .kind = TN_CLAIM_EV_FAILED,
                                    .gen = request->gen,
                                    .token = request->token };

    begin(candidate, now);
    if (status == 0) {
        heard.kind = TN_CLAIM_EV_RAISED;
    } else if (status == TENURE_E_STALE) {
        heard.kind = TN_CLAIM_EV_STALE;
        heard.token = token;
    } else if (tn_error_is_final(status)) {
        heard.kind = TN_CLAIM_EV_BARRED;
    }
    step_claim(candidate, request->seat, &heard);
    end(candidate);
}
