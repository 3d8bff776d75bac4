/* line_test.c - the recipe for engines with ordered keys, against an engine that the test plays. */
#include "tests/harness/test.h"

#include <string.h>

#include "core/line.h"

#define HOLD_OFF TN_SEC(6)

/* What the recipe asked last, and how often. */
static struct {
    enum tn_line_step step;
    uint64_t request, order, before;
    unsigned asked;
    bool behind, fresh;
} engine;

/* What the recipe told last. */
static struct {
    unsigned dones, revoked, ended;
    enum tn_line_goal goal;
    struct tn_line_answer answer;
} told;

static struct tn_line line;
static struct tn_line_claim claim, sibling;
static const int name = 1;

static void step(void *arg, struct tn_line_claim *of, enum tn_line_step what, uint64_t request)
{
    (void)arg;
    engine.step = what;
    engine.request = request;
    engine.order = of->key.order;
    engine.before = of->before;
    engine.behind = of->behind;
    engine.fresh = of->fresh;
    engine.asked++;
}

static void done(void *arg, struct tn_line_claim *of, enum tn_line_goal goal,
                 const struct tn_line_answer *answer)
{
    (void)arg;
    (void)of;
    told.dones++;
    told.goal = goal;
    told.answer = *answer;
}

static void news(void *arg, struct tn_line_claim *of, enum tn_line_news what)
{
    (void)arg;
    (void)of;
    told.revoked += what == TN_LINE_TOLD_REVOKED;
    told.ended += what == TN_LINE_TOLD_ENDED;
}

static const struct tn_line_host host = { step, done, news };

static struct tn_secret secret(uint8_t byte)
{
    struct tn_secret made;

    memset(&made, byte, sizeof made);
    return made;
}

static void begin(bool atomic)
{
    struct tn_line_engine kind = { .atomic = atomic, .shared = atomic };
    struct tn_secret term = secret(2);
    struct tn_secret other = secret(3);

    memset(&engine, 0, sizeof engine);
    memset(&told, 0, sizeof told);
    if (!atomic)
        kind.hold_off = HOLD_OFF;
    tn_line_init(&line, &host, NULL, &kind);
    tn_line_add(&line, &sibling, &name, &other);
    tn_line_add(&line, &claim, &name, &term);
}

static void check_asked(enum tn_line_step what)
{
    CHECK_EQ_I64(engine.step, what);
    engine.step = TN_LINE_NOTHING;
}

static void check_told(enum tn_line_goal goal, enum tn_answer answer)
{
    CHECK_EQ_U64(told.dones, 1);
    CHECK_EQ_I64(told.goal, goal);
    CHECK_EQ_I64(told.answer.answer, answer);
    told.dones = 0;
}

static void saw(enum tn_line_whose whose, uint64_t own, uint64_t first, uint64_t before)
{
    struct tn_line_view view = {
        .whose = whose, .own = { .order = own, .token = own }, .first = first, .before = before
    };

    tn_line_saw(&claim, 0, engine.request, &view);
}

static void proved(bool ours, uint64_t token)
{
    struct tn_line_proven proven = { .ours = ours, .token = token };

    tn_line_proved(&claim, 0, engine.request, &proven);
}

/* In line behind key 5, with key 9. */
static void queue_up(void)
{
    tn_line_acquire(&claim, 0, true);
    check_asked(TN_LINE_CREATE);
    saw(TN_LINE_MINE, 9, 5, 7);
    check_asked(TN_LINE_FOLLOW);
    CHECK_EQ_U64(engine.before, 7);
    tn_line_followed(&claim, 0, engine.request, true);
    check_told(TN_LINE_ACQUIRE, TN_ANSWER_QUEUED);
}

static void win(void)
{
    queue_up();
    tn_line_gone(&claim, 0, 7);
    check_asked(TN_LINE_LOOK);
    saw(TN_LINE_MINE, 9, 9, 0);
    check_asked(TN_LINE_PROVE);
    proved(true, 9);
    check_told(TN_LINE_ACQUIRE, TN_ANSWER_GRANTED);
}

TEST(a_key_made_alone_is_a_grant_in_one_step)
{
    struct tn_line_view view = {
        .whose = TN_LINE_MINE, .own = { 4, 4 }, .first = 4, .proved = true
    };

    begin(true);
    tn_line_acquire(&claim, 0, false);
    check_asked(TN_LINE_CREATE);
    CHECK(!engine.behind);
    tn_line_saw(&claim, 0, engine.request, &view);
    check_told(TN_LINE_ACQUIRE, TN_ANSWER_GRANTED);
    CHECK_EQ_U64(claim.key.token, 4);
    CHECK_EQ_U64(tn_line_held(&line), 1);
}

TEST(a_claim_that_does_not_wait_leaves_no_key_in_a_line)
{
    begin(true);
    tn_line_acquire(&claim, 0, false);
    saw(TN_LINE_NOBODYS, 0, 5, 0);
    check_told(TN_LINE_ACQUIRE, TN_ANSWER_HELD);
    begin(false);
    tn_line_acquire(&claim, 0, false);
    check_asked(TN_LINE_LOOK);
    saw(TN_LINE_NOBODYS, 0, 0, 0);
    check_asked(TN_LINE_CREATE);
    saw(TN_LINE_MINE, 9, 8, 8); /* Somebody was quicker. */
    check_asked(TN_LINE_REMOVE);
    CHECK_EQ_U64(engine.order, 9);
    tn_line_removed(&claim, 0, engine.request);
    check_asked(TN_LINE_LOOK);
    saw(TN_LINE_NOBODYS, 0, 8, 0);
    check_told(TN_LINE_ACQUIRE, TN_ANSWER_HELD);
}

TEST(the_first_in_line_leads_only_after_a_proof)
{
    begin(true);
    win();
    CHECK_EQ_I64(claim.place, TN_LINE_HELD);
    CHECK_EQ_U64(claim.key.token, 9);
}

TEST(a_key_that_is_gone_when_it_is_to_be_proved_leads_nobody)
{
    begin(true);
    queue_up();
    tn_line_gone(&claim, 0, 7);
    saw(TN_LINE_MINE, 9, 9, 0);
    check_asked(TN_LINE_PROVE);
    proved(false, 0);
    CHECK_EQ_U64(told.dones, 0);
    check_asked(TN_LINE_CREATE); /* It has lost its place and takes another. */
    CHECK_EQ_U64(tn_line_held(&line), 0);
}

TEST(a_key_of_an_old_session_is_not_taken_for_ours)
{
    begin(false);
    tn_line_acquire(&claim, 0, true);
    CHECK(tn_line_failed(&claim, engine.request, true));
    tn_line_go_on(&claim, 0);
    check_asked(TN_LINE_LOOK);
    CHECK(engine.fresh);
    saw(TN_LINE_NAMED_MINE, 3, 3, 0);
    check_asked(TN_LINE_PROVE);
    proved(false, 0);
    check_asked(TN_LINE_CREATE);
    CHECK_EQ_U64(told.dones, 0);
}

TEST(a_lost_create_is_found_again_and_proved_before_it_counts)
{
    begin(false);
    tn_line_acquire(&claim, 0, true);
    check_asked(TN_LINE_CREATE);
    CHECK(tn_line_failed(&claim, engine.request, true));
    tn_line_go_on(&claim, 0);
    check_asked(TN_LINE_LOOK);
    saw(TN_LINE_NAMED_MINE, 3, 3, 0);
    check_asked(TN_LINE_PROVE);
    proved(true, 30);
    check_asked(TN_LINE_LOOK);
    saw(TN_LINE_NAMED_MINE, 3, 3, 0); /* The same key: it was proved. */
    check_asked(TN_LINE_PROVE);
    proved(true, 30);
    check_told(TN_LINE_ACQUIRE, TN_ANSWER_GRANTED);
    CHECK_EQ_U64(claim.key.token, 30);
}

TEST(a_late_answer_is_ignored)
{
    struct tn_line_view view = {
        .whose = TN_LINE_MINE, .own = { 4, 4 }, .first = 4, .proved = true
    };

    begin(true);
    tn_line_acquire(&claim, 0, true);
    uint64_t late = engine.request;
    CHECK(tn_line_failed(&claim, late, true));
    CHECK(!tn_line_failed(&claim, late, true));
    tn_line_saw(&claim, 0, late, &view);
    CHECK_EQ_U64(told.dones, 0);
    CHECK_EQ_I64(claim.proof, TN_LINE_UNSURE);
}

TEST(a_predecessor_gone_before_it_is_watched_is_noticed)
{
    begin(false);
    tn_line_acquire(&claim, 0, true);
    saw(TN_LINE_MINE, 9, 5, 7);
    check_asked(TN_LINE_FOLLOW);
    tn_line_followed(&claim, 0, engine.request, false);
    check_asked(TN_LINE_LOOK);
    saw(TN_LINE_MINE, 9, 5, 5);
    check_asked(TN_LINE_FOLLOW);
    uint64_t request = engine.request;
    tn_line_gone(&claim, 0, 5); /* The event overtakes the answer that set the watch. */
    check_asked(TN_LINE_LOOK);
    tn_line_followed(&claim, 0, request, true);
    CHECK_EQ_U64(told.dones, 0);
}

TEST(a_release_removes_exactly_its_own_key)
{
    begin(true);
    win();
    tn_line_release(&claim, 0, 8);
    check_told(TN_LINE_RELEASE, TN_ANSWER_STALE);
    tn_line_release(&claim, 0, 9);
    check_asked(TN_LINE_REMOVE);
    CHECK_EQ_U64(engine.order, 9);
    CHECK(tn_line_failed(&claim, engine.request, true));
    tn_line_go_on(&claim, 0);
    check_asked(TN_LINE_REMOVE);
    CHECK_EQ_U64(engine.order, 9);
    tn_line_removed(&claim, 0, engine.request);
    check_told(TN_LINE_RELEASE, TN_ANSWER_RELEASED);
    tn_line_release(&claim, 0, 9);
    check_asked(TN_LINE_LOOK);
    saw(TN_LINE_NOBODYS, 0, 12, 0);
    check_told(TN_LINE_RELEASE, TN_ANSWER_RELEASED);
    tn_line_acquire(&claim, 0, true);
    check_told(TN_LINE_ACQUIRE, TN_ANSWER_STALE);
}

TEST(a_key_that_comes_back_with_a_backup_is_removed_again)
{
    begin(true);
    win();
    tn_line_release(&claim, 0, 9);
    tn_line_removed(&claim, 0, engine.request);
    check_told(TN_LINE_RELEASE, TN_ANSWER_RELEASED);
    tn_line_release(&claim, 0, 9);
    check_asked(TN_LINE_LOOK);
    saw(TN_LINE_MINE, 9, 9, 0);
    check_asked(TN_LINE_REMOVE);
    CHECK_EQ_U64(engine.order, 9);
    tn_line_removed(&claim, 0, engine.request);
    check_told(TN_LINE_RELEASE, TN_ANSWER_RELEASED);
    CHECK_EQ_I64(claim.place, TN_LINE_OVER);
}

/* Found by the simulator: seed 26717 of its day. */
TEST(a_key_of_a_claim_that_had_left_comes_back_with_a_backup_and_is_removed_again)
{
    begin(false);
    tn_line_acquire(&claim, 0, true);
    check_asked(TN_LINE_CREATE);
    saw(TN_LINE_MINE, 9, 5, 7);
    tn_line_release(&claim, 0, 0);
    check_asked(TN_LINE_REMOVE);
    tn_line_removed(&claim, 0, engine.request);
    check_told(TN_LINE_RELEASE, TN_ANSWER_RELEASED);
    tn_line_release(&claim, 0, 30);
    check_asked(TN_LINE_LOOK);
    CHECK(engine.fresh);
    saw(TN_LINE_NAMED_MINE, 9, 9, 0);
    check_asked(TN_LINE_PROVE);
    proved(true, 30);
    check_asked(TN_LINE_REMOVE);
    CHECK_EQ_U64(engine.order, 9);
    tn_line_removed(&claim, 0, engine.request);
    check_told(TN_LINE_RELEASE, TN_ANSWER_RELEASED);
}

TEST(a_key_that_bears_our_name_and_not_the_token_asked_for_stays)
{
    begin(false);
    tn_line_release(&claim, 0, 30);
    check_asked(TN_LINE_LOOK);
    saw(TN_LINE_NAMED_MINE, 9, 9, 0);
    check_asked(TN_LINE_PROVE);
    proved(true, 31);
    check_told(TN_LINE_RELEASE, TN_ANSWER_STALE);
    check_asked(TN_LINE_NOTHING);
}

TEST(a_release_settles_a_create_without_an_answer)
{
    begin(false);
    tn_line_acquire(&claim, 0, true);
    tn_line_release(&claim, 0, 0);
    check_asked(TN_LINE_CREATE); /* Its answer comes first. */
    CHECK(tn_line_failed(&claim, engine.request, true));
    tn_line_go_on(&claim, 0);
    check_asked(TN_LINE_LOOK);
    saw(TN_LINE_NAMED_MINE, 3, 3, 0);
    check_asked(TN_LINE_PROVE);
    proved(true, 30);
    check_asked(TN_LINE_REMOVE);
    CHECK_EQ_U64(engine.order, 3);
    tn_line_removed(&claim, 0, engine.request);
    check_told(TN_LINE_RELEASE, TN_ANSWER_RELEASED);
    CHECK_EQ_I64(claim.place, TN_LINE_LEFT);
}

TEST(a_release_with_a_token_that_was_never_ours_is_for_the_engine_to_judge)
{
    begin(true);
    tn_line_release(&claim, 0, 5);
    check_asked(TN_LINE_LOOK);
    saw(TN_LINE_NOBODYS, 0, 5, 0);
    check_told(TN_LINE_RELEASE, TN_ANSWER_STALE);
    CHECK(told.answer.stranger);
}

TEST(a_release_without_a_key_is_judged_by_the_record)
{
    CHECK_EQ_I64(tn_line_judge_release(true, 5, 5), TN_ANSWER_DENIED);
    CHECK_EQ_I64(tn_line_judge_release(true, 6, 5), TN_ANSWER_STALE);
    CHECK_EQ_I64(tn_line_judge_release(false, 5, 5), TN_ANSWER_RELEASED);
    CHECK_EQ_I64(tn_line_judge_release(false, 6, 5), TN_ANSWER_STALE);
    CHECK_EQ_I64(tn_line_judge_release(true, 5, 0), TN_ANSWER_RELEASED);
}

TEST(a_key_of_a_term_that_is_over_is_cleared)
{
    struct tn_line_view view = {
        .whose = TN_LINE_SIBLINGS, .own = { 4, 4 }, .first = 4, .sibling = secret(3)
    };

    begin(true);
    tn_line_acquire(&claim, 0, true);
    tn_line_saw(&claim, 0, engine.request, &view);
    check_asked(TN_LINE_FOLLOW); /* The other term may still lead. */
    tn_line_followed(&claim, 0, engine.request, true);
    check_told(TN_LINE_ACQUIRE, TN_ANSWER_QUEUED);
    CHECK_EQ_I64(claim.place, TN_LINE_BLOCKED);
    sibling.place = TN_LINE_LEFT;
    tn_line_acquire(&claim, 0, true);
    check_asked(TN_LINE_CREATE);
    tn_line_saw(&claim, 0, engine.request, &view);
    check_asked(TN_LINE_CLEAR);
    CHECK_EQ_U64(engine.before, 4);
    tn_line_removed(&claim, 0, engine.request);
    check_asked(TN_LINE_CREATE);
}

TEST(a_revoked_holder_gives_up_its_key_after_the_hold_off)
{
    begin(false);
    win();
    tn_line_changed(&claim, TN_SEC(1), 9);
    CHECK_EQ_U64(told.revoked, 1);
    CHECK_EQ_U64(tn_line_held(&line), 1);
    CHECK_EQ_I64(tn_line_wake_at(&line), TN_SEC(1) + HOLD_OFF);
    tn_line_acquire(&claim, TN_SEC(1), true);
    check_told(TN_LINE_ACQUIRE, TN_ANSWER_HELD);
    tn_line_tick(&line, TN_SEC(1) + HOLD_OFF);
    check_asked(TN_LINE_REMOVE);
    tn_line_removed(&claim, 0, engine.request);
    CHECK_EQ_I64(claim.place, TN_LINE_OVER);
}

TEST(a_claim_revoked_before_it_led_takes_another_place)
{
    struct tn_line_view view = {
        .whose = TN_LINE_MINE, .own = { 9, 9 }, .first = 9, .changed = true
    };

    begin(true);
    queue_up();
    tn_line_gone(&claim, 0, 7);
    tn_line_saw(&claim, 0, engine.request, &view);
    check_asked(TN_LINE_REMOVE);
    tn_line_removed(&claim, 0, engine.request);
    check_asked(TN_LINE_CREATE);
    CHECK_EQ_U64(told.dones, 0);
}

TEST(a_held_claim_whose_key_is_gone_has_ended)
{
    begin(true);
    win();
    tn_line_gone(&claim, 0, 9);
    CHECK_EQ_U64(told.ended, 1);
    CHECK_EQ_U64(tn_line_held(&line), 0);
    tn_line_acquire(&claim, 0, true);
    check_told(TN_LINE_ACQUIRE, TN_ANSWER_STALE); /* One term, one token. */
}

TEST(a_key_seen_as_the_first_is_adopted_by_a_claim_at_rest)
{
    struct tn_line_key key = { 4, 4 };

    begin(true);
    tn_line_acquire(&claim, 0, false);
    CHECK(!tn_line_adopt(&claim, 0, &key, false)); /* What is under way will see it. */
    CHECK(tn_line_failed(&claim, engine.request, true));
    tn_line_give_up(&claim);
    CHECK(tn_line_adopt(&claim, 0, &key, true));
    CHECK_EQ_I64(claim.place, TN_LINE_REVOKED);
    CHECK_EQ_U64(told.revoked, 1);
}

TEST(answers_to_requests_given_up_are_ignored)
{
    struct tn_line_view view = { .whose = TN_LINE_MINE, .own = { 9, 9 }, .first = 9 };
    struct tn_line_proven proven = { .ours = true, .token = 9 };

    begin(true);
    queue_up();
    unsigned asked = engine.asked;
    for (uint64_t request = 0; request < 2; request++) {
        uint64_t late = request == 0 ? 0 : engine.request + 100;
        tn_line_saw(&claim, 0, late, &view);
        tn_line_proved(&claim, 0, late, &proven);
        tn_line_followed(&claim, 0, late, true);
        tn_line_removed(&claim, 0, late);
        CHECK(!tn_line_failed(&claim, late, true));
    }
    CHECK_EQ_U64(engine.asked, asked);
    CHECK_EQ_U64(told.dones, 0);
    CHECK_EQ_I64(claim.place, TN_LINE_WAITING);
}

TEST(news_of_other_keys_changes_nothing)
{
    begin(true);
    tn_line_unwatched(&claim, 0); /* Not in line. */
    tn_line_go_on(&claim, 0);
    CHECK_EQ_U64(engine.asked, 0);
    win();
    unsigned asked = engine.asked;
    tn_line_gone(&claim, 0, 0);
    tn_line_gone(&claim, 0, 77);
    tn_line_changed(&claim, 0, 77);
    CHECK_EQ_U64(engine.asked, asked);
    CHECK_EQ_U64(told.revoked, 0);
    CHECK_EQ_I64(claim.place, TN_LINE_HELD);
}

TEST(a_revoked_claim_that_asks_again_is_told_held_and_revoked_once)
{
    begin(true);
    win();
    tn_line_changed(&claim, 0, 9);
    tn_line_changed(&claim, 0, 9);
    CHECK_EQ_U64(told.revoked, 1);
    tn_line_acquire(&claim, 0, true);
    check_told(TN_LINE_ACQUIRE, TN_ANSWER_HELD);
    CHECK_EQ_I64(claim.place, TN_LINE_REVOKED);
}

TEST(a_release_with_another_token_is_stale)
{
    begin(true);
    win();
    tn_line_release(&claim, 0, 8);
    check_told(TN_LINE_RELEASE, TN_ANSWER_STALE);
    CHECK_EQ_I64(claim.place, TN_LINE_HELD);
    tn_line_release(&claim, 0, 9);
    check_asked(TN_LINE_REMOVE);
    tn_line_acquire(&claim, 0, true);
    check_told(TN_LINE_ACQUIRE, TN_ANSWER_STALE);
    tn_line_removed(&claim, 0, engine.request);
    check_told(TN_LINE_RELEASE, TN_ANSWER_RELEASED);
}

TEST(giving_up_ends_reading_and_waits_for_writes)
{
    begin(true);
    tn_line_give_up(&claim);
    tn_line_acquire(&claim, 0, true);
    check_asked(TN_LINE_CREATE);
    tn_line_acquire(&claim, 0, true); /* Asked again while it is under way. */
    CHECK_EQ_U64(engine.asked, 1);
    tn_line_give_up(&claim);
    CHECK_EQ_I64(claim.goal, TN_LINE_ACQUIRE);
    saw(TN_LINE_MINE, 9, 5, 7);
    check_asked(TN_LINE_FOLLOW);
    tn_line_give_up(&claim);
    CHECK_EQ_I64(claim.goal, TN_LINE_REST);
    tn_line_followed(&claim, 0, engine.request, true);
    CHECK_EQ_U64(told.dones, 0);
}

TEST(a_key_that_is_gone_before_it_is_watched_is_a_reason_to_look)
{
    begin(true);
    tn_line_acquire(&claim, 0, true);
    check_asked(TN_LINE_CREATE);
    saw(TN_LINE_MINE, 9, 5, 7);
    check_asked(TN_LINE_FOLLOW);
    tn_line_followed(&claim, 0, engine.request, false);
    check_asked(TN_LINE_LOOK);
    saw(TN_LINE_MINE, 9, 9, 0);
    check_asked(TN_LINE_PROVE);
}

TEST(a_sibling_that_is_in_line_is_told_as_held_to_who_does_not_wait)
{
    struct tn_line_view view = {
        .whose = TN_LINE_SIBLINGS, .own = { 4, 4 }, .sibling = secret(3), .first = 4
    };

    begin(true);
    tn_line_acquire(&claim, 0, false);
    check_asked(TN_LINE_CREATE);
    tn_line_saw(&claim, 0, engine.request, &view);
    check_told(TN_LINE_ACQUIRE, TN_ANSWER_HELD);
    view.sibling = secret(8); /* Of a term that this process does not know. */
    tn_line_acquire(&claim, 0, false);
    tn_line_saw(&claim, 0, engine.request, &view);
    check_told(TN_LINE_ACQUIRE, TN_ANSWER_HELD);
}

TEST(claims_are_forgotten_in_any_order)
{
    struct tn_line_claim third;
    struct tn_secret term = secret(4);

    begin(true);
    tn_line_add(&line, &third, &name, &term);
    tn_line_remove(&claim); /* Between the two. */
    tn_line_remove(&sibling);
    CHECK(line.claims == &third);
    tn_line_remove(&third);
    CHECK(line.claims == NULL);
    CHECK_EQ_U64(tn_line_held(&line), 0);
}

TEST(a_held_claim_whose_watch_is_lost_looks_and_hears_of_what_it_missed)
{
    struct tn_line_view view = {
        .whose = TN_LINE_MINE, .own = { 9, 9 }, .first = 9, .changed = true
    };

    begin(true);
    win();
    tn_line_unwatched(&claim, 0);
    check_asked(TN_LINE_LOOK);
    tn_line_unwatched(&claim, 0); /* It is looking already. */
    tn_line_give_up(&claim);      /* Nobody waits for this look. */
    CHECK_EQ_I64(claim.goal, TN_LINE_CHECK);
    CHECK_EQ_I64(tn_line_is_sure(&line), false); /* Its time may be running out. */
    tn_line_saw(&claim, 0, engine.request, &view);
    CHECK_EQ_I64(tn_line_is_sure(&line), true);
    CHECK_EQ_U64(told.revoked, 1);
    CHECK_EQ_U64(told.dones, 0);
}

TEST(a_lost_watch_takes_nothing_from_a_holder_that_gives_up_its_key_by_itself)
{
    begin(false);
    win();
    tn_line_unwatched(&claim, 0);
    CHECK_EQ_I64(tn_line_is_sure(&line), true);
}

TEST(a_key_that_an_operator_wrote_to_before_its_turn_is_removed)
{
    struct tn_line_proven proven = { .ours = true, .changed = true, .token = 9 };

    begin(true);
    queue_up();
    tn_line_gone(&claim, 0, 7);
    check_asked(TN_LINE_LOOK);
    saw(TN_LINE_MINE, 9, 9, 0);
    check_asked(TN_LINE_PROVE);
    tn_line_proved(&claim, 0, engine.request, &proven);
    check_asked(TN_LINE_REMOVE);
    CHECK_EQ_U64(told.dones, 0);
}

TEST(only_a_create_leaves_an_unknown_key_behind)
{
    begin(true);
    queue_up();
    tn_line_gone(&claim, 0, 7);
    check_asked(TN_LINE_LOOK);
    CHECK(tn_line_failed(&claim, engine.request, true));
    CHECK_EQ_I64(claim.proof, TN_LINE_OURS);
    tn_line_go_on(&claim, 0);
    check_asked(TN_LINE_LOOK);
    CHECK(tn_line_failed(&claim, engine.request, false));
    begin(true);
    tn_line_acquire(&claim, 0, true);
    check_asked(TN_LINE_CREATE);
    CHECK(tn_line_failed(&claim, engine.request, false));
    CHECK_EQ_I64(claim.proof, TN_LINE_NO_KEY);
}

TEST(a_key_that_was_given_up_is_not_adopted_by_a_late_read)
{
    struct tn_line_key old = { 4, 4 }, next = { 9, 9 };
    struct tn_line_view view = {
        .whose = TN_LINE_MINE, .own = old, .first = 4, .changed = true, .revision = 5
    };

    begin(true);
    tn_line_acquire(&claim, 0, true);
    tn_line_saw(&claim, 0, engine.request, &view); /* Revoked before it led. */
    check_asked(TN_LINE_REMOVE);
    tn_line_removed(&claim, 0, engine.request);
    check_asked(TN_LINE_CREATE);
    CHECK(tn_line_failed(&claim, engine.request, true));
    tn_line_give_up(&claim);
    CHECK(!tn_line_adopt(&claim, 0, &old, false));
    CHECK(tn_line_adopt(&claim, 0, &next, false));
}

TEST(who_is_busy_or_in_line_adopts_nothing)
{
    struct tn_line_key key = { 4, 4 };

    begin(true);
    tn_line_acquire(&claim, 0, true);
    check_asked(TN_LINE_CREATE);
    CHECK(!tn_line_adopt(&claim, 0, &key, false));
    saw(TN_LINE_MINE, 9, 5, 7);
    tn_line_followed(&claim, 0, engine.request, true);
    CHECK(!tn_line_adopt(&claim, 0, &key, false));
    CHECK(tn_line_adopt(&sibling, 0, &key, true));
    CHECK_EQ_U64(told.revoked, 1);
}

TEST(the_lowest_order_is_first_and_the_next_lower_one_is_before_ours)
{
    const struct tn_line_seen keys[] = {
        { 12, false }, { 0, false }, { 9, true }, { 4, false }, { 7, false }
    };
    struct tn_line_view view;

    tn_line_find(9, TN_LINE_OURS, keys, 5, &view);
    CHECK_EQ_I64(view.whose, TN_LINE_NAMED_MINE);
    CHECK_EQ_U64(view.own.order, 9);
    CHECK_EQ_U64(view.first, 4);
    CHECK_EQ_U64(view.before, 7);
    CHECK(!view.proved);
    tn_line_find(0, TN_LINE_NO_KEY, keys, 5, &view);
    CHECK_EQ_I64(view.whose, TN_LINE_NOBODYS); /* None was created: the name proves nothing. */
    CHECK_EQ_U64(view.first, 4);
    CHECK_EQ_U64(view.before, 0);
    tn_line_find(9, TN_LINE_OURS, keys, 0, &view);
    CHECK_EQ_U64(view.first, 0);
}

TEST(of_the_keys_that_bear_our_name_the_known_one_is_ours_or_else_the_newest)
{
    const struct tn_line_seen keys[] = { { 5, true }, { 8, true }, { 6, true } };
    struct tn_line_view view;

    tn_line_find(0, TN_LINE_UNSURE, keys, 3, &view);
    CHECK_EQ_U64(view.own.order, 8);
    CHECK_EQ_U64(view.before, 6);
    tn_line_find(6, TN_LINE_OURS, keys, 3, &view);
    CHECK_EQ_U64(view.own.order, 6);
    tn_line_find(5, TN_LINE_NO_KEY, keys, 3, &view); /* It came back with a backup. */
    CHECK_EQ_U64(view.own.order, 5);
}

TEST(a_holder_is_reminded_of_what_it_has_not_heard_of)
{
    begin(false);
    win();
    tn_line_remind(&line, 0);
    CHECK_EQ_U64(told.revoked, 0);
    tn_line_changed(&claim, 0, 9);
    CHECK_EQ_U64(line.revocations, 1);
    tn_line_remind(&line, 0);
    CHECK_EQ_U64(told.revoked, 2);
    tn_line_remind(&line, 1);
    CHECK_EQ_U64(told.revoked, 2);
}

TEST(the_end_of_a_key_that_is_being_released_is_no_news)
{
    begin(false);
    win();
    tn_line_release(&claim, 0, 9);
    check_asked(TN_LINE_REMOVE);
    tn_line_gone(&claim, 0, 9);
    CHECK_EQ_U64(told.ended, 0);
    CHECK_EQ_U64(line.revocations, 0);
    tn_line_removed(&claim, 0, engine.request);
    check_told(TN_LINE_RELEASE, TN_ANSWER_RELEASED);
}

TEST(a_revoked_claim_that_is_forgotten_is_due_no_more)
{
    begin(false);
    win();
    tn_line_changed(&claim, 0, 9);
    CHECK_EQ_I64(tn_line_wake_at(&line), HOLD_OFF);
    tn_line_remove(&claim);
    CHECK_EQ_I64(tn_line_wake_at(&line), TN_NEVER);
}
