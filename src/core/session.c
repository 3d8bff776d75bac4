/* session.c - the life of a session; session.h has the picture.
 *
 * Happy path: open, OK, then a renewal at most R after the send of the last one that succeeded.
 * What can fail: an attempt stays unanswered for To - jeopardy is told, and after a short jittered
 * pause another attempt goes out while the old one may still be answered. Its late reply counts,
 * from its own send time. When the deadline comes first the session is lost, latched, whatever
 * arrives later. */
#include "core/session.h"

#include <string.h>

#include "base/assert.h"
#include "core/plant.h"

static const uint8_t allowed[TN_SESSION_STATE_COUNT] = {
    [TN_SESSION_CLOSED] = 0, /* Opening is not told. */
    [TN_SESSION_OPENING] = 1 << TN_SESSION_LIVE | 1 << TN_SESSION_LOST | 1 << TN_SESSION_CLOSED,
    [TN_SESSION_LIVE] = 1 << TN_SESSION_JEOPARDY | 1 << TN_SESSION_LOST | 1 << TN_SESSION_CLOSED,
    [TN_SESSION_JEOPARDY] = 1 << TN_SESSION_LIVE | 1 << TN_SESSION_LOST | 1 << TN_SESSION_CLOSED,
    [TN_SESSION_LOST] = 0,
};

void tn_session_init(struct tn_session *session, const struct tn_plan *plan, uint64_t life,
                     uint64_t seed)
{
    TN_ASSERT(life > 0);
    *session = (struct tn_session) {
        .plan = plan,
        .life = life,
        .deadline = 0,
        .attempt_at = TN_NEVER,
        .overdue_at = TN_NEVER,
    };
    tn_plan_timing(plan, tn_plan_asked(plan), &session->timing);
    tn_prng_seed(&session->prng, seed);
}

static struct tn_session_action *add(struct tn_session_actions *out,
                                     enum tn_session_action_kind kind)
{
    TN_ASSERT(out->count < TN_SESSION_ACTIONS);
    struct tn_session_action *action = &out->list[out->count++];
    *action = (struct tn_session_action) { .kind = kind };
    return action;
}

static void move(struct tn_session *session, enum tn_session_state state,
                 struct tn_session_actions *out)
{
    TN_ASSERT(allowed[session->state] & 1 << state);
    struct tn_session_action *action = add(out, TN_SESSION_DO_TELL);
    action->from = session->state;
    action->state = state;
    session->state = state;
}

static void lose(struct tn_session *session, enum tn_reason reason, struct tn_session_actions *out)
{
    TN_ASSERT(reason != TN_REASON_NONE);
    session->reason = reason;
    session->attempt_at = TN_NEVER;
    session->overdue_at = TN_NEVER;
    move(session, TN_SESSION_LOST, out);
}

static bool is_kept_alive(const struct tn_session *session)
{
    return session->state == TN_SESSION_LIVE || session->state == TN_SESSION_JEOPARDY;
}

static tenure_ns jittered(struct tn_session *session, tenure_ns span)
{
    return tn_plan_jittered(&session->prng, span, session->timing.jitter_ppm);
}

static void send_attempt(struct tn_session *session, struct tn_session_actions *out)
{
    bool opening = session->state == TN_SESSION_OPENING;
    struct tn_attempt *slot = &session->attempts[++session->seq % TN_SESSION_ATTEMPTS];

    TN_ASSERT(session->seq != 0);
    *slot = (struct tn_attempt) { .seq = session->seq, .sent_at = session->now };
    session->attempt_at = TN_NEVER;
    session->overdue_at =
        TN_PLANT(RENEW_ONCE) ? TN_NEVER : session->now + session->timing.attempt_timeout;
    add(out, opening ? TN_SESSION_DO_OPEN : TN_SESSION_DO_RENEW)->seq = session->seq;
}

/* Retries of a renewal keep a steady pace, because the deadline ends them. Retries of an opening
 * back off, because nothing else would. */
static tenure_ns backoff(const struct tn_session *session)
{
    tenure_ns wait = session->timing.backoff;
    uint32_t doublings = session->failures < 8 ? session->failures : 8;
    if (TN_PLANT(LATE_RETRY))
        return session->timing.renew_every;
    if (session->state != TN_SESSION_OPENING)
        return wait;
    wait <<= doublings;
    return wait < session->timing.renew_every ? wait : session->timing.renew_every;
}

/* The newest attempt failed or is overdue. */
static void attempt_failed(struct tn_session *session, struct tn_session_actions *out)
{
    TN_ASSERT(session->state != TN_SESSION_LOST);
    session->failures++;
    session->overdue_at = TN_NEVER;
    session->attempt_at = session->now + jittered(session, backoff(session));
    if (session->state == TN_SESSION_LIVE)
        move(session, TN_SESSION_JEOPARDY, out);
}

static struct tn_attempt *find_attempt(struct tn_session *session, uint64_t seq)
{
    struct tn_attempt *slot = &session->attempts[seq % TN_SESSION_ATTEMPTS];
    if (TN_PLANT(ANY_REPLY))
        slot = &session->attempts[session->seq % TN_SESSION_ATTEMPTS];
    else if (seq == 0 || slot->seq != seq)
        return NULL;
    return slot;
}

/* P1: deadline = max(deadline, t_send + D). */
static void extend(struct tn_session *session, tenure_ns sent_at)
{
    tenure_ns from = TN_PLANT(REPLY_DEADLINE) ? session->now : sent_at;
    tenure_ns deadline = from + session->timing.valid_for;
    if (deadline > session->deadline)
        session->deadline = deadline;
    if (sent_at > session->proven)
        session->proven = sent_at;
}

/* The newest answer says which TTL counts. One that is shorter than before takes back what was
 * promised on the longer one; an older answer that comes late no longer promises anything of its
 * own. */
static void agree_on_ttl(struct tn_session *session, const struct tn_session_event *event)
{
    TN_ASSERT(event->ttl > 0);
    if (event->seq < session->answered)
        return;
    session->answered = event->seq;
    if (event->ttl == session->timing.ttl)
        return;
    if (event->ttl < session->timing.ttl && !TN_PLANT(SHORT_GRANT))
        session->deadline = 0;
    tn_plan_timing(session->plan, event->ttl, &session->timing);
}

static void attempt_succeeded(struct tn_session *session, const struct tn_session_event *event,
                              struct tn_session_actions *out)
{
    struct tn_attempt *attempt = find_attempt(session, event->seq);
    if (attempt == NULL)
        return; /* Too old, a duplicate, or not ours. */
    if (event->more && !TN_PLANT(MORE_IGNORED)) {
        session->attempt_at = session->now; /* Read the rest at once. */
        return;
    }
    agree_on_ttl(session, event);
    extend(session, attempt->sent_at);
    attempt->seq = 0;
    session->failures = 0;
    session->overdue_at = TN_NEVER;
    session->attempt_at = attempt->sent_at + jittered(session, session->timing.renew_every);
    if (session->now >= session->deadline)
        return; /* Opened, but the reply came too late to be of use: renew at once. */
    if (session->state != TN_SESSION_LIVE)
        move(session, TN_SESSION_LIVE, out);
}

static void attempt_refused(struct tn_session *session, const struct tn_session_event *event,
                            struct tn_session_actions *out)
{
    if (event->seq == session->seq && session->overdue_at != TN_NEVER)
        attempt_failed(session, out);
}

static void gone(struct tn_session *session, const struct tn_session_event *event,
                 struct tn_session_actions *out)
{
    struct tn_session_event ok = { .seq = event->seq, .ttl = session->timing.ttl };
    if (TN_PLANT(GONE_IS_OK))
        attempt_succeeded(session, &ok, out);
    else
        lose(session, TN_REASON_EXPIRED, out);
}

static void close_session(struct tn_session *session, struct tn_session_actions *out)
{
    session->reason = TN_REASON_CLOSED;
    session->deadline = 0;
    session->attempt_at = TN_NEVER;
    session->overdue_at = TN_NEVER;
    add(out, TN_SESSION_DO_CLOSE);
    move(session, TN_SESSION_CLOSED, out);
}

static void tick(struct tn_session *session, struct tn_session_actions *out)
{
    if (session->now >= session->overdue_at)
        attempt_failed(session, out);
    if (session->now >= session->attempt_at)
        send_attempt(session, out);
}

void tn_session_step(struct tn_session *session, tenure_ns now,
                     const struct tn_session_event *event, struct tn_session_actions *ret_actions)
{
    TN_ASSERT(now >= session->now);
    session->now = now;
    ret_actions->count = 0;

    /* P6: the deadline comes first, whatever woke us - a reply that slept in a socket, a resume. */
    if (is_kept_alive(session) && now >= session->deadline && !TN_PLANT(NO_LATCH) &&
        !TN_PLANT(FLAG_NOT_DEADLINE))
        lose(session, TN_REASON_EXPIRED, ret_actions);
    if (event->kind == TN_SESSION_EV_OPEN) {
        TN_ASSERT(session->state == TN_SESSION_CLOSED && session->reason == TN_REASON_NONE);
        session->state = TN_SESSION_OPENING;
        session->attempt_at = now;
    }
    if (session->state == TN_SESSION_LOST || session->state == TN_SESSION_CLOSED)
        return;
    switch (event->kind) {
    case TN_SESSION_EV_OK:
        attempt_succeeded(session, event, ret_actions);
        break;
    case TN_SESSION_EV_FAIL:
        attempt_refused(session, event, ret_actions);
        break;
    case TN_SESSION_EV_GONE:
        gone(session, event, ret_actions);
        break;
    case TN_SESSION_EV_CLOSE:
        close_session(session, ret_actions);
        break;
    case TN_SESSION_EV_OPEN:
    case TN_SESSION_EV_TICK:
        break;
    }
    if (session->state != TN_SESSION_LOST && session->state != TN_SESSION_CLOSED)
        tick(session, ret_actions);
}

tenure_ns tn_session_wake_at(const struct tn_session *session)
{
    tenure_ns at = session->attempt_at;
    if (session->overdue_at < at)
        at = session->overdue_at;
    if (is_kept_alive(session) && session->deadline < at && !TN_PLANT(NO_LATCH) &&
        !TN_PLANT(FLAG_NOT_DEADLINE))
        at = session->deadline;
    return at;
}

tenure_ns tn_session_deadline(const struct tn_session *session)
{
    return session->deadline;
}

bool tn_session_valid(const struct tn_session *session, tenure_ns now)
{
    if (TN_PLANT(FLAG_NOT_DEADLINE))
        return is_kept_alive(session);
    return is_kept_alive(session) && now < session->deadline;
}

const char *tn_reason_text(enum tn_reason reason)
{
    static const char *const texts[] = {
        [TN_REASON_NONE] = "none",          [TN_REASON_EXPIRED] = "expired",
        [TN_REASON_REVOKED] = "revoked",    [TN_REASON_RELEASED] = "released",
        [TN_REASON_STALLED] = "stalled",    [TN_REASON_TOKEN_REGRESSED] = "token-regressed",
        [TN_REASON_FENCE] = "fence-failed", [TN_REASON_CLOSED] = "closed",
        [TN_REASON_NOTE_ASKED] = "asked",
    };
    TN_ASSERT(reason <= TN_REASON_NOTE_ASKED);
    return texts[reason];
}
