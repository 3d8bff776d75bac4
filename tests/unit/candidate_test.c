/* candidate_test.c - what a store's answers mean to a process: its session and its claims.
 *
 * The host writes down what it is asked for: "open", "renew", "acquire job g1", "won job t5". The
 * plan is that of a TTL of 15 s. Times are in milliseconds. */
#include "tests/harness/test.h"

#include <string.h>

#include "base/text.h"
#include "core/candidate.h"
#include "tenure/error.h"

struct seat {
    struct tn_seat seat;
    const char *name;
};

static struct tn_plan plan;
static struct tn_claim_config config;
static struct tn_candidate candidate;
static struct seat job, other;
static struct tn_request last[TN_OP_TICK + 1]; /* The newest of each kind. */
static char transcript[512];
static struct tn_text text;

static const char *name_of(const struct tn_seat *seat)
{
    return seat != NULL ? ((const struct seat *)(const void *)seat)->name : "";
}

static void hear_send(void *arg, const struct tn_request *request)
{
    static const char *const verbs[] = { "open",    "renew", "close", "acquire",
                                         "release", "read",  "",      "raise" };

    (void)arg;
    last[request->kind] = *request;
    tn_text_addf(&text, "%s%s%s%s", text.len > 0 ? ", " : "", verbs[request->kind],
                 request->seat != NULL ? " " : "", name_of(request->seat));
}

static void hear_tell(void *arg, struct tn_seat *seat, const struct tn_claim_action *action)
{
    static const char *const words[] = {
        "", "", "", "", "won", "drain", "lost", "refused", "leader"
    };

    (void)arg;
    tn_text_addf(&text, "%s%s %s t%llu", text.len > 0 ? ", " : "", words[action->kind],
                 name_of(seat), (unsigned long long)action->token);
    if (action->kind == TN_CLAIM_DO_LOST || action->kind == TN_CLAIM_DO_REFUSED)
        tn_text_addf(&text, " %s", tn_reason_text(action->reason));
}

static void hear_session(void *arg, const struct tn_session_action *action)
{
    static const char *const words[] = { "closed", "opening", "live", "jeopardy", "gone" };

    (void)arg;
    tn_text_addf(&text, "%s%s", text.len > 0 ? ", " : "", words[action->state]);
}

static const struct tn_candidate_host host = { hear_send, hear_tell, hear_session };

static void clear(void)
{
    tn_text_init(&text, transcript, sizeof transcript);
}

static void start(bool fenced)
{
    tn_plan_init(&plan, TN_SEC(15));
    config = (struct tn_claim_config) {
        .attempt_timeout = TN_MS(1000),
        .backoff = TN_MS(250),
        .poll_every = TN_MS(3000),
        .drain_timeout = TN_MS(2000),
        .raise_timeout = TN_MS(2500),
        .fenced = fenced,
    };
    clear();
    memset(last, 0, sizeof last);
    job.name = "job";
    other.name = "other";
    tn_candidate_init(&candidate, &plan, &config, true, &host, NULL, 1);
    tn_candidate_add(&candidate, &job.seat, NULL);
    tn_candidate_open(&candidate, 0);
}

/* Answers the newest request of @kind at @at_ms; returns what came of it. */
static const char *answer(int64_t at_ms, enum tn_op_kind kind, struct tn_response response)
{
    struct tn_request request = last[kind];

    clear();
    tn_candidate_answer(&candidate, TN_MS(at_ms), &request, &response);
    return transcript;
}

static const char *wish(int64_t at_ms, struct seat *seat, enum tn_claim_event_kind kind)
{
    clear();
    tn_candidate_wish(&candidate, TN_MS(at_ms), &seat->seat, kind);
    return transcript;
}

static struct tn_response ok(uint32_t held)
{
    return (struct tn_response) { .answer = TN_ANSWER_OK, .ttl = TN_SEC(15), .held = held };
}

static struct tn_response granted(uint64_t token)
{
    return (struct tn_response) { .answer = TN_ANSWER_GRANTED,
                                  .record = { .held = true, .mine = true, .token = token } };
}

static void lead(uint64_t token)
{
    start(false);
    (void)answer(10, TN_OP_OPEN, ok(0));
    (void)wish(20, &job, TN_CLAIM_EV_CAMPAIGN);
    CHECK_STR(answer(30, TN_OP_ACQUIRE, granted(token)), "won job t5");
}

TEST(a_session_opens_and_its_claims_acquire)
{
    start(false);
    CHECK_STR(transcript, "open");
    CHECK_STR(wish(5, &job, TN_CLAIM_EV_CAMPAIGN), "");
    CHECK_STR(answer(10, TN_OP_OPEN, ok(0)), "acquire job, live");
    CHECK_STR(answer(20, TN_OP_ACQUIRE, granted(5)), "won job t5");
    CHECK_EQ_U64(tn_candidate_token(&candidate, &job.seat, TN_MS(20)), 5);
}

TEST(a_stale_answer_says_nothing)
{
    lead(5);
    CHECK_STR(answer(40, TN_OP_OPEN, (struct tn_response) { .answer = TN_ANSWER_STALE }), "");
}

TEST(a_failed_open_is_repeated)
{
    start(false);
    CHECK_STR(answer(10, TN_OP_OPEN, (struct tn_response) { .failed = true }), "");
    CHECK(tn_candidate_wake_at(&candidate) < TN_SEC(15));
    clear();
    tn_candidate_tick(&candidate, tn_candidate_wake_at(&candidate));
    CHECK_STR(transcript, "open");
}

TEST(a_session_that_is_gone_ends_its_terms_and_another_follows)
{
    lead(5);
    clear();
    tn_candidate_tick(&candidate, TN_SEC(6));
    CHECK_STR(transcript, "renew");
    CHECK_STR(answer(6010, TN_OP_RENEW, (struct tn_response) { .answer = TN_ANSWER_GONE }),
              "lost job t5 expired, gone");
    CHECK_EQ_U64(tn_candidate_token(&candidate, &job.seat, TN_MS(6010)), 0);
    clear();
    tn_candidate_tick(&candidate, tn_candidate_wake_at(&candidate));
    CHECK_STR(transcript, "open");
    CHECK_EQ_U64(candidate.life, 2);
}

TEST(an_answer_to_an_earlier_session_is_dropped)
{
    lead(5);
    struct tn_request old = last[TN_OP_ACQUIRE];
    struct tn_response response = granted(9);

    tn_candidate_expire(&candidate, TN_MS(40));
    tn_candidate_tick(&candidate, tn_candidate_wake_at(&candidate));
    clear();
    tn_candidate_answer(&candidate, candidate.now, &old, &response);
    tn_candidate_granted(&candidate, candidate.now, &job.seat, 1, 1, 9);
    tn_candidate_revoked(&candidate, candidate.now, &job.seat, 1, 9);
    CHECK_STR(transcript, "");
}

TEST(an_acquire_without_a_session_means_that_it_is_gone)
{
    start(false);
    (void)answer(10, TN_OP_OPEN, ok(0));
    (void)wish(20, &job, TN_CLAIM_EV_CAMPAIGN);
    CHECK_STR(answer(30, TN_OP_ACQUIRE, (struct tn_response) { .answer = TN_ANSWER_GONE }), "gone");
}

TEST(held_by_another_is_told_and_polled)
{
    struct tn_response held = { .answer = TN_ANSWER_HELD, .record = { .held = true, .token = 3 } };

    start(false);
    (void)answer(10, TN_OP_OPEN, ok(0));
    (void)wish(20, &job, TN_CLAIM_EV_CAMPAIGN);
    CHECK_STR(answer(30, TN_OP_ACQUIRE, held), "leader job t3");
    held.answer = TN_ANSWER_QUEUED;
    CHECK_STR(answer(40, TN_OP_ACQUIRE, held), "");
}

TEST(a_grant_by_push_counts_as_one_by_answer)
{
    struct tn_response queued = { .answer = TN_ANSWER_QUEUED,
                                  .record = { .held = true, .token = 3 } };

    start(false);
    (void)answer(10, TN_OP_OPEN, ok(0));
    (void)wish(20, &job, TN_CLAIM_EV_CAMPAIGN);
    (void)answer(30, TN_OP_ACQUIRE, queued);
    clear();
    tn_candidate_granted(&candidate, TN_MS(40), &job.seat, 1, 1, 5);
    CHECK_STR(transcript, "won job t5");
    clear();
    tn_candidate_revoked(&candidate, TN_MS(50), &job.seat, 1, 5);
    CHECK_STR(transcript, "lost job t5 revoked");
}

TEST(fewer_leases_than_led_raise_a_doubt)
{
    lead(5);
    clear();
    tn_candidate_tick(&candidate, TN_SEC(6));
    CHECK_STR(answer(6010, TN_OP_RENEW, ok(0)), "read job");
    struct tn_response gone = { .answer = TN_ANSWER_FREE, .record = { .token = 5 } };
    CHECK_STR(answer(6020, TN_OP_READ, gone), "leader job t5, lost job t5 revoked");
}

TEST(as_many_leases_as_led_raise_none)
{
    lead(5);
    tn_candidate_tick(&candidate, TN_SEC(6));
    CHECK_STR(answer(6010, TN_OP_RENEW, ok(1)), "");
}

TEST(a_read_that_failed_says_nothing)
{
    start(false);
    CHECK_STR(wish(5, &job, TN_CLAIM_EV_OBSERVE), "read job");
    CHECK_STR(answer(10, TN_OP_READ, (struct tn_response) { .failed = true }), "");
    CHECK_STR(answer(20, TN_OP_READ, (struct tn_response) { .answer = TN_ANSWER_FREE }),
              "leader job t0");
}

TEST(a_release_is_repeated_until_it_is_answered)
{
    lead(5);
    CHECK_STR(wish(40, &job, TN_CLAIM_EV_RESIGN), "drain job t5");
    CHECK_STR(wish(50, &job, TN_CLAIM_EV_DRAINED), "lost job t5 released, release job");
    CHECK_STR(answer(60, TN_OP_RELEASE, (struct tn_response) { .failed = true }), "");
    clear();
    tn_candidate_tick(&candidate, TN_MS(310));
    CHECK_STR(transcript, "release job");
    CHECK_STR(answer(320, TN_OP_RELEASE, (struct tn_response) { .answer = TN_ANSWER_RELEASED }),
              "");
}

TEST(a_release_without_a_session_means_that_it_is_gone)
{
    lead(5);
    (void)wish(40, &job, TN_CLAIM_EV_RESIGN);
    (void)wish(50, &job, TN_CLAIM_EV_DRAINED);
    CHECK_STR(answer(60, TN_OP_RELEASE, (struct tn_response) { .answer = TN_ANSWER_GONE }), "gone");
}

TEST(fences_go_up_before_anyone_hears_of_it)
{
    start(true);
    (void)answer(10, TN_OP_OPEN, ok(0));
    (void)wish(20, &job, TN_CLAIM_EV_CAMPAIGN);
    CHECK_STR(answer(30, TN_OP_ACQUIRE, granted(5)), "raise job");
    clear();
    tn_candidate_raised(&candidate, TN_MS(40), &last[TN_OP_RAISE], TENURE_E_UNAVAILABLE, 0);
    CHECK_STR(transcript, "");
    tn_candidate_tick(&candidate, TN_MS(300));
    CHECK_STR(transcript, "raise job");
    clear();
    tn_candidate_raised(&candidate, TN_MS(310), &last[TN_OP_RAISE], 0, 5);
    CHECK_STR(transcript, "won job t5");
}

TEST(a_fence_that_stands_higher_refuses_the_term)
{
    start(true);
    (void)answer(10, TN_OP_OPEN, ok(0));
    (void)wish(20, &job, TN_CLAIM_EV_CAMPAIGN);
    (void)answer(30, TN_OP_ACQUIRE, granted(5));
    clear();
    tn_candidate_raised(&candidate, TN_MS(40), &last[TN_OP_RAISE], TENURE_E_STALE, 9);
    CHECK_STR(transcript, "refused job t5 token-regressed, release job");
}

TEST(a_seat_that_left_is_not_woken)
{
    struct tn_claim_config patient = { .attempt_timeout = TN_SEC(2), .poll_every = TN_SEC(9) };

    start(false);
    tn_candidate_add(&candidate, &other.seat, &patient);
    CHECK_EQ_U64(candidate.seat_count, 2);
    (void)wish(5, &job, TN_CLAIM_EV_CAMPAIGN);
    (void)wish(5, &other, TN_CLAIM_EV_CAMPAIGN);
    CHECK_STR(answer(10, TN_OP_OPEN, ok(0)), "acquire other, acquire job, live");
    tn_candidate_remove(&candidate, &job.seat);
    clear();
    tn_candidate_tick(&candidate, TN_MS(1100));
    CHECK_STR(transcript, "");
    tn_candidate_tick(&candidate, TN_MS(2100));
    CHECK_STR(transcript, "acquire other");
    tn_candidate_remove(&candidate, &other.seat);
    CHECK_EQ_U64(candidate.seat_count, 0);
}

TEST(closing_ends_the_terms_and_opens_no_other_session)
{
    lead(5);
    clear();
    tn_candidate_close(&candidate, TN_MS(50));
    CHECK_STR(transcript, "close, lost job t5 closed, closed");
    CHECK_STR(answer(60, TN_OP_CLOSE, ok(0)), "");
    CHECK_EQ_I64(tn_candidate_wake_at(&candidate), TN_NEVER);
}

TEST(the_deadline_comes_before_whatever_arrived)
{
    lead(5);
    clear();
    tn_candidate_tick(&candidate, TN_SEC(6));
    CHECK_STR(transcript, "renew");
    CHECK_STR(answer(20000, TN_OP_RENEW, ok(1)), "lost job t5 expired, gone");
}

TEST(a_silent_holder_is_succeeded_with_evidence)
{
    struct tn_response held = { .answer = TN_ANSWER_HELD,
                                .record = {
                                    .held = true, .token = 3, .beat = 8, .ttl = TN_SEC(2) } };

    start(false);
    config.observed = true;
    CHECK_STR(wish(5, &job, TN_CLAIM_EV_CAMPAIGN), "");
    CHECK_STR(answer(10, TN_OP_OPEN, ok(0)), "read job, live");
    (void)answer(20, TN_OP_READ, held);
    while (last[TN_OP_ACQUIRE].seat == NULL && candidate.now < TN_SEC(5)) {
        tn_candidate_tick(&candidate, tn_candidate_wake_at(&candidate));
        if (strstr(transcript, "renew") != NULL)
            (void)answer(candidate.now / TN_MS(1), TN_OP_RENEW, ok(0));
    }
    CHECK(last[TN_OP_ACQUIRE].evident);
    CHECK_EQ_U64(last[TN_OP_ACQUIRE].token, 3);
    CHECK_EQ_U64(last[TN_OP_ACQUIRE].beat, 8);
}
