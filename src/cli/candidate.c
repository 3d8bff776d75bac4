/* candidate.c - the core driven on the embedded store; candidate.h has the contract.
 *
 * Happy path: the session opens, the claim acquires or queues, asks again when the bell rings or
 * the holder's time is over, and wins; renewals follow by the session's schedule. What can fail:
 * the store. An operation that failed, or whose outcome is unknown, is told to the core as such and
 * repeated by it; the deadline goes on by itself. */
#include "cli/candidate.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/sha256.h"
#include "runtime/random.h"

static void read_clock(struct tn_cli_candidate *candidate)
{
    candidate->now = tn_clock_now(&candidate->store->clock);
}

/* --- Operations ------------------------------------------------------------------------------- */

static struct tn_secret term_secret(const struct tn_cli_candidate *candidate, uint64_t gen)
{
    struct {
        struct tn_secret base;
        uint64_t gen;
    } message = { candidate->term_base, gen };
    uint8_t digest[TN_SHA256_SIZE];
    struct tn_secret secret;

    tn_sha256(&message, sizeof message, digest);
    memcpy(&secret, digest, sizeof secret);
    return secret;
}

static struct tn_op make_op(const struct tn_cli_candidate *candidate, enum tn_op_kind kind)
{
    return (struct tn_op) {
        .kind = kind,
        .session = candidate->session_secret,
        .term = term_secret(candidate, candidate->claim.gen),
        .name = candidate->name,
        .name_len = (uint32_t)strlen(candidate->name),
        .label = candidate->label,
        .label_len = (uint32_t)strlen(candidate->label),
    };
}

static int step_store(struct tn_cli_candidate *candidate, const struct tn_op *op,
                      struct tn_sqlite_result *ret_result)
{
    struct tn_text text;

    tn_text_init(&text, candidate->error_text, sizeof candidate->error_text);
    candidate->error = tn_sqlite_step(candidate->store->sqlite, op, ret_result, &text);
    candidate->answered_ever = candidate->answered_ever || candidate->error == 0;
    return candidate->error;
}

/* --- The claim -------------------------------------------------------------------------------- */

static void step_claim(struct tn_cli_candidate *candidate, const struct tn_claim_event *event);
static void step_session(struct tn_cli_candidate *candidate, const struct tn_session_event *event);

static void session_gone(struct tn_cli_candidate *candidate)
{
    step_session(candidate, &(struct tn_session_event) { .kind = TN_SESSION_EV_GONE });
}

static void send_acquire(struct tn_cli_candidate *candidate, uint64_t gen)
{
    struct tn_op op = make_op(candidate, TN_OP_ACQUIRE);
    struct tn_claim_event event = { .gen = gen };
    struct tn_sqlite_result result;

    op.wait = true;
    event.kind = TN_CLAIM_EV_FAILED;
    if (step_store(candidate, &op, &result) == 0) {
        event.token = result.lease.token;
        switch (result.answer) {
        case TN_ANSWER_GRANTED:
            event.kind = TN_CLAIM_EV_GRANTED;
            break;
        case TN_ANSWER_QUEUED:
            event.kind = TN_CLAIM_EV_QUEUED;
            candidate->look_at = candidate->now + result.lease.remaining;
            break;
        case TN_ANSWER_HELD:
            event.kind = TN_CLAIM_EV_HELD;
            break;
        case TN_ANSWER_GONE:
            session_gone(candidate);
            return;
        default:
            break;
        }
    }
    step_claim(candidate, &event);
}

static void send_release(struct tn_cli_candidate *candidate, const struct tn_claim_action *action)
{
    struct tn_op op = make_op(candidate, TN_OP_RELEASE);
    struct tn_claim_event event = { .kind = TN_CLAIM_EV_RELEASED, .gen = action->gen };
    struct tn_sqlite_result result;

    op.term = term_secret(candidate, action->gen);
    op.token = action->token;
    if (step_store(candidate, &op, &result) < 0)
        event.kind = TN_CLAIM_EV_FAILED;
    step_claim(candidate, &event);
}

/* A synchronous store keeps no request for later, so nothing of ours can be there that the claim
 * does not know: what it holds is the token it has. */
static void send_read(struct tn_cli_candidate *candidate, uint64_t read)
{
    struct tn_op op = make_op(candidate, TN_OP_READ);
    struct tn_claim_event event = { .kind = TN_CLAIM_EV_OBSERVED, .read = read };
    struct tn_sqlite_result result;

    if (step_store(candidate, &op, &result) < 0)
        return;
    event.token = result.lease.token;
    event.held = result.lease.held;
    event.mine = event.held && event.token == candidate->claim.token;
    event.gen = event.mine ? candidate->claim.gen : 0;
    step_claim(candidate, &event);
}

static void carry_out(struct tn_cli_candidate *candidate, const struct tn_claim_action *action)
{
    switch (action->kind) {
    case TN_CLAIM_DO_ACQUIRE:
        send_acquire(candidate, action->gen);
        break;
    case TN_CLAIM_DO_RELEASE:
        send_release(candidate, action);
        break;
    case TN_CLAIM_DO_READ:
        send_read(candidate, action->read);
        break;
    case TN_CLAIM_DO_WON:
        candidate->hears(candidate->arg, TN_CLI_CANDIDATE_WON, action->token, TN_REASON_NONE);
        break;
    case TN_CLAIM_DO_LOST:
        candidate->hears(candidate->arg, TN_CLI_CANDIDATE_LOST, action->token, action->reason);
        break;
    case TN_CLAIM_DO_DRAIN:
        candidate->hears(candidate->arg, TN_CLI_CANDIDATE_DRAIN, action->token, TN_REASON_NONE);
        break;
    case TN_CLAIM_DO_REFUSED:
        candidate->hears(candidate->arg, TN_CLI_CANDIDATE_REFUSED, action->token, action->reason);
        break;
    case TN_CLAIM_DO_RAISE: /* No fences are configured here. */
    case TN_CLAIM_DO_LEADER:
        break;
    }
}

static void step_claim(struct tn_cli_candidate *candidate, const struct tn_claim_event *event)
{
    struct tn_claim_actions actions;

    tn_claim_step(&candidate->claim, candidate->now, event, &actions);
    for (uint32_t i = 0; i < actions.count; i++)
        carry_out(candidate, &actions.list[i]);
}

/* --- The session ------------------------------------------------------------------------------ */

/* A leader renews with its name: if an operator took the row away, the answer says so, and the
 * session is renewed without it. */
static enum tn_answer renew(struct tn_cli_candidate *candidate, uint64_t seq,
                            struct tn_sqlite_result *ret_result)
{
    struct tn_op op = make_op(candidate, TN_OP_RENEW);
    uint64_t token = tn_claim_token(&candidate->claim, candidate->now);

    op.seq = seq;
    op.token = token;
    if (token == 0)
        op.name_len = 0;
    if (step_store(candidate, &op, ret_result) < 0)
        return TN_ANSWER_FULL;
    if (token == 0 || ret_result->answer == TN_ANSWER_OK || ret_result->answer == TN_ANSWER_GONE)
        return ret_result->answer;
    step_claim(candidate, &(struct tn_claim_event) { .kind = TN_CLAIM_EV_REVOKED, .token = token });
    op.name_len = 0;
    return step_store(candidate, &op, ret_result) < 0 ? TN_ANSWER_FULL : ret_result->answer;
}

static enum tn_answer open_in_store(struct tn_cli_candidate *candidate, uint64_t seq,
                                    struct tn_sqlite_result *ret_result)
{
    struct tn_op op = make_op(candidate, TN_OP_OPEN);

    op.name_len = 0;
    op.seq = seq;
    op.ttl = candidate->plan.ttl;
    return step_store(candidate, &op, ret_result) < 0 ? TN_ANSWER_FULL : ret_result->answer;
}

static void send_attempt(struct tn_cli_candidate *candidate, const struct tn_session_action *action)
{
    struct tn_sqlite_result result = { .answer = TN_ANSWER_FULL };
    struct tn_session_event event = { .kind = TN_SESSION_EV_FAIL, .seq = action->seq };
    enum tn_answer answer = action->kind == TN_SESSION_DO_OPEN
                                ? open_in_store(candidate, action->seq, &result)
                                : renew(candidate, action->seq, &result);

    if (answer == TN_ANSWER_OK)
        event.kind = TN_SESSION_EV_OK;
    else if (answer == TN_ANSWER_GONE)
        event.kind = TN_SESSION_EV_GONE;
    event.ttl = result.ttl;
    /* The store may have taken long: the answer is judged by the time it came. */
    read_clock(candidate);
    step_session(candidate, &event);
}

static void hear_session(struct tn_cli_candidate *candidate, const struct tn_session_action *action)
{
    bool leads = tn_claim_token(&candidate->claim, candidate->now) != 0;

    if (action->state == TN_SESSION_LIVE && action->from == TN_SESSION_OPENING) {
        step_claim(candidate, &(struct tn_claim_event) { .kind = TN_CLAIM_EV_SESSION_LIVE });
    } else if (action->state == TN_SESSION_LOST) {
        step_claim(candidate, &(struct tn_claim_event) { .kind = TN_CLAIM_EV_SESSION_LOST });
        candidate->reopen_at = candidate->now + candidate->plan.backoff;
    } else if (leads) {
        candidate->hears(candidate->arg,
                         action->state == TN_SESSION_LIVE ? TN_CLI_CANDIDATE_SAFE
                                                          : TN_CLI_CANDIDATE_JEOPARDY,
                         candidate->claim.token, TN_REASON_NONE);
    }
}

static void step_session(struct tn_cli_candidate *candidate, const struct tn_session_event *event)
{
    struct tn_session_actions actions;

    tn_session_step(&candidate->session, candidate->now, event, &actions);
    for (uint32_t i = 0; i < actions.count; i++) {
        const struct tn_session_action *action = &actions.list[i];
        if (action->kind == TN_SESSION_DO_TELL)
            hear_session(candidate, action);
        else if (action->kind != TN_SESSION_DO_CLOSE)
            send_attempt(candidate, action);
    }
}

static int open_session(struct tn_cli_candidate *candidate)
{
    struct tn_secret seed;
    uint64_t number;
    int rc = tn_random_secret(&candidate->session_secret);

    if (rc == 0)
        rc = tn_random_secret(&seed);
    if (rc < 0)
        return rc;
    memcpy(&number, &seed, sizeof number);
    candidate->reopen_at = TN_NEVER;
    tn_session_init(&candidate->session, &candidate->plan, ++candidate->life, number);
    step_session(candidate, &(struct tn_session_event) { .kind = TN_SESSION_EV_OPEN });
    return 0;
}

/* --- From outside ----------------------------------------------------------------------------- */

int tn_cli_candidate_start(struct tn_cli_candidate *candidate, struct tn_cli_store *store,
                           const struct tn_plan *plan, const char *name, const char *label,
                           tn_cli_candidate_hears *hears, void *arg)
{
    *candidate = (struct tn_cli_candidate) {
        .store = store,
        .name = name,
        .label = label,
        .plan = *plan,
        .config = { .attempt_timeout = plan->attempt_timeout,
                    .backoff = plan->backoff,
                    .poll_every = plan->poll_every,
                    .drain_timeout = TN_NEVER / 4, /* The guardian sees to it that work ends. */
                    .jitter_ppm = plan->jitter_ppm },
        .look_at = TN_NEVER,
        .reopen_at = TN_NEVER,
        .hears = hears,
        .arg = arg,
    };
    candidate->bell = tn_sqlite_watch(store->sqlite);
    read_clock(candidate);
    tn_claim_init(&candidate->claim, &candidate->config, &candidate->session,
                  (uint64_t)candidate->now);
    int rc = tn_random_secret(&candidate->term_base);
    step_claim(candidate, &(struct tn_claim_event) { .kind = TN_CLAIM_EV_CAMPAIGN });
    if (rc == 0)
        rc = open_session(candidate);
    return rc < 0 ? tn_cli_store_fail(store->verb, rc, "the kernel gives no random numbers") : -1;
}

/* The bell rang, or the holder's time is over: ask again. */
static void look(struct tn_cli_candidate *candidate)
{
    candidate->look_at = TN_NEVER;
    if (candidate->bell >= 0)
        tn_sqlite_watch_drain(candidate->bell);
    if (candidate->claim.state == TN_CLAIM_WATCHING && candidate->claim.queued)
        send_acquire(candidate, candidate->claim.gen);
}

void tn_cli_candidate_run(struct tn_cli_candidate *candidate, bool rung)
{
    read_clock(candidate);
    if (candidate->now >= tn_session_wake_at(&candidate->session))
        step_session(candidate, &(struct tn_session_event) { .kind = TN_SESSION_EV_TICK });
    read_clock(candidate);
    if (rung || candidate->now >= candidate->look_at)
        look(candidate);
    if (candidate->now >= tn_claim_wake_at(&candidate->claim))
        step_claim(candidate, &(struct tn_claim_event) { .kind = TN_CLAIM_EV_TICK });
    if (candidate->now >= candidate->reopen_at)
        (void)open_session(candidate);
}

tenure_ns tn_cli_candidate_wake_at(const struct tn_cli_candidate *candidate)
{
    tenure_ns at = tn_session_wake_at(&candidate->session);
    tenure_ns claim = tn_claim_wake_at(&candidate->claim);

    if (claim < at)
        at = claim;
    if (candidate->reopen_at < at)
        at = candidate->reopen_at;
    return candidate->look_at < at ? candidate->look_at : at;
}

void tn_cli_candidate_tell(struct tn_cli_candidate *candidate, enum tn_claim_event_kind word)
{
    read_clock(candidate);
    if (candidate->now >= tn_session_wake_at(&candidate->session))
        step_session(candidate, &(struct tn_session_event) { .kind = TN_SESSION_EV_TICK });
    step_claim(candidate, &(struct tn_claim_event) { .kind = word });
}

tenure_ns tn_cli_candidate_deadline(const struct tn_cli_candidate *candidate)
{
    return tn_session_deadline(&candidate->session);
}

bool tn_cli_candidate_is_idle(const struct tn_cli_candidate *candidate)
{
    return candidate->claim.state == TN_CLAIM_WATCHING && !candidate->claim.queued;
}

void tn_cli_candidate_close(struct tn_cli_candidate *candidate)
{
    struct tn_op op = make_op(candidate, TN_OP_CLOSE);
    struct tn_sqlite_result result;

    op.name_len = 0;
    (void)step_store(candidate, &op, &result);
    if (candidate->bell >= 0)
        (void)close(candidate->bell);
    candidate->bell = -1;
}
