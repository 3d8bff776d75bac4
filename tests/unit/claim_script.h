/* claim_script.h - a claim under test: feed it one event, get its actions as text.
 *
 * "acquire g1" is the action for generation 1, "t5" is token 5. The session is good until 50 s
 * unless the test ends it. An unanswered request is repeated after 1 s, a failed one after 250 ms;
 * poll 3 s, drain 2 s, fences 2.5 s; no jitter. All times are in milliseconds. */
#ifndef TN_TESTS_UNIT_CLAIM_SCRIPT_H
#define TN_TESTS_UNIT_CLAIM_SCRIPT_H

#include "tests/harness/test.h"

#include "base/text.h"
#include "core/claim.h"

static struct tn_plan plan;
static struct tn_session session;
static struct tn_claim_config config;
static struct tn_claim claim;
static char transcript[256];

static const char *const states[TN_CLAIM_STATE_COUNT] = { "watching", "acquiring", "raising",
                                                          "holding",  "draining",  "releasing" };

static inline void session_feed(int64_t at_ms, struct tn_session_event event)
{
    struct tn_session_actions actions;
    tn_session_step(&session, TN_MS(at_ms), &event, &actions);
}

static inline void session_lives(int64_t at_ms, uint64_t life)
{
    tn_session_init(&session, &plan, life, 1);
    session_feed(at_ms, (struct tn_session_event) { .kind = TN_SESSION_EV_OPEN });
    session_feed(
        at_ms, (struct tn_session_event) { .kind = TN_SESSION_EV_OK, .seq = 1, .ttl = TN_SEC(60) });
}

static inline void start(void)
{
    tn_plan_init(&plan, TN_SEC(60));
    plan.margin = TN_SEC(10);
    plan.rho_holder_ppm = 0;
    plan.rho_store_ppm = 0;
    plan.jitter_ppm = 0;
    session_lives(0, 1);
    config = (struct tn_claim_config) {
        .attempt_timeout = TN_MS(1000),
        .backoff = TN_MS(250),
        .poll_every = TN_MS(3000),
        .drain_timeout = TN_MS(2000),
        .raise_timeout = TN_MS(2500),
    };
    tn_claim_init(&claim, &config, &session, 1);
}

static inline void add_action(struct tn_text *text, const struct tn_claim_action *action)
{
    static const char *const verbs[] = { "acquire", "read", "release", "raise", "won",
                                         "drain",   "lost", "refused", "leader" };

    tn_text_add(text, verbs[action->kind]);
    if (action->kind == TN_CLAIM_DO_ACQUIRE || action->kind == TN_CLAIM_DO_RELEASE)
        tn_text_addf(text, " g%u", (unsigned)action->gen);
    if (action->kind != TN_CLAIM_DO_ACQUIRE && action->kind != TN_CLAIM_DO_READ)
        tn_text_addf(text, " t%u", (unsigned)action->token);
    if (action->kind == TN_CLAIM_DO_LOST || action->kind == TN_CLAIM_DO_REFUSED)
        tn_text_addf(text, " %s", tn_reason_text(action->reason));
    if (action->kind == TN_CLAIM_DO_LEADER)
        tn_text_add(text, action->held ? " holds" : " gone");
}

static inline const char *feed(int64_t at_ms, struct tn_claim_event event)
{
    struct tn_claim_actions actions;
    struct tn_text text;

    tn_claim_step(&claim, TN_MS(at_ms), &event, &actions);
    tn_text_init(&text, transcript, sizeof transcript);
    for (uint32_t i = 0; i < actions.count; i++) {
        tn_text_add(&text, i > 0 ? ", " : "");
        add_action(&text, &actions.list[i]);
    }
    return tn_text_str(&text);
}

static inline const char *hears(int64_t at_ms, enum tn_claim_event_kind kind)
{
    return feed(at_ms, (struct tn_claim_event) { .kind = kind });
}

static inline const char *tick(int64_t at_ms)
{
    return hears(at_ms, TN_CLAIM_EV_TICK);
}

/* About generation @gen: QUEUED, HELD, RELEASED. */
static inline const char *about(int64_t at_ms, enum tn_claim_event_kind kind, uint64_t gen)
{
    return feed(at_ms, (struct tn_claim_event) { .kind = kind, .gen = gen });
}

/* About token @token: REVOKED, RAISED, STALE. */
static inline const char *token_is(int64_t at_ms, enum tn_claim_event_kind kind, uint64_t token)
{
    return feed(at_ms, (struct tn_claim_event) { .kind = kind, .token = token });
}

static inline const char *granted(int64_t at_ms, uint64_t gen, uint64_t token)
{
    return feed(
        at_ms, (struct tn_claim_event) { .kind = TN_CLAIM_EV_GRANTED, .gen = gen, .token = token });
}

static inline const char *observed(int64_t at_ms, uint64_t token, bool held)
{
    return feed(at_ms, (struct tn_claim_event) {
                           .kind = TN_CLAIM_EV_OBSERVED, .token = token, .held = held });
}

static inline const char *observed_mine(int64_t at_ms, uint64_t gen, uint64_t token)
{
    return feed(
        at_ms,
        (struct tn_claim_event) {
            .kind = TN_CLAIM_EV_OBSERVED, .gen = gen, .token = token, .held = true, .mine = true });
}

/* The session ends, by the store's word, and the claim hears of it. */
static inline const char *session_ends(int64_t at_ms)
{
    session_feed(at_ms, (struct tn_session_event) { .kind = TN_SESSION_EV_GONE });
    return hears(at_ms, TN_CLAIM_EV_SESSION_LOST);
}

static inline const char *in_state(void)
{
    return states[claim.state];
}

/* -1: never. */
static inline int64_t wakes_at(void)
{
    tenure_ns at = tn_claim_wake_at(&claim);
    return at == TN_NEVER ? -1 : at / TN_MS(1);
}

static inline uint64_t token_at(int64_t at_ms)
{
    return tn_claim_token(&claim, TN_MS(at_ms));
}

/* --- Ways into every state, over by 900 ms ---------------------------------------------------- */

static inline void reach_idle(void)
{
    start();
}

static inline void reach_acquiring(void)
{
    start();
    CHECK_STR(hears(500, TN_CLAIM_EV_CAMPAIGN), "acquire g1");
}

static inline void reach_waiting(void)
{
    reach_acquiring();
    CHECK_STR(about(600, TN_CLAIM_EV_HELD, 1), "");
}

static inline void reach_queued(void)
{
    reach_acquiring();
    CHECK_STR(about(600, TN_CLAIM_EV_QUEUED, 1), "");
}

static inline void reach_raising(void)
{
    start();
    config.fenced = true;
    CHECK_STR(hears(500, TN_CLAIM_EV_CAMPAIGN), "acquire g1");
    CHECK_STR(granted(600, 1, 5), "raise t5");
}

static inline void reach_holding(void)
{
    reach_acquiring();
    CHECK_STR(granted(600, 1, 5), "won t5");
}

static inline void reach_resigned(void)
{
    reach_holding();
    CHECK_STR(hears(700, TN_CLAIM_EV_RESIGN), "drain t5");
}

static inline void reach_revoked(void)
{
    reach_holding();
    CHECK_STR(token_is(700, TN_CLAIM_EV_REVOKED, 5), "lost t5 revoked");
}

static inline void reach_adrift(void)
{
    reach_holding();
    CHECK_STR(session_ends(700), "lost t5 expired");
}

static inline void reach_releasing(void)
{
    reach_resigned();
    CHECK_STR(hears(800, TN_CLAIM_EV_DRAINED), "lost t5 released, release g1 t5");
}

static inline void reach_withdrawing(void)
{
    reach_queued();
    CHECK_STR(hears(700, TN_CLAIM_EV_RESIGN), "release g1 t0");
}

#endif
