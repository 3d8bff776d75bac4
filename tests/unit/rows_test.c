/* rows_test.c - the recipe for engines of rows, against an engine that the test plays by hand. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "core/rows.h"

#define TTL TN_SEC(6)
#define ATTEMPT TN_MS(500)

/* The engine: one row, and what the recipe asked last. */
static struct {
    struct tn_row row, asked;
    char version[TN_ROW_VERSION];
    unsigned versions, gets, puts, ends;
    uint64_t request;
    bool putting;
    unsigned calls;
    uint64_t call;
    enum tn_op_kind called;
    char id[TN_ROW_OWNER];
} engine;

/* What the recipe answered last. */
static struct {
    unsigned dones, renewals;
    struct tn_rows_answer answer;
    enum tn_rows_goal goal;
    uint64_t seq;
    bool failed, gone;
    uint32_t held;
} told;

static struct tn_rows rows;
static struct tn_rows_name name;
static struct tn_rows_claim claim;

static void get(void *arg, struct tn_rows_claim *of, uint64_t request)
{
    (void)arg;
    (void)of;
    engine.gets++;
    engine.request = request;
    engine.putting = false;
}

static void put(void *arg, struct tn_rows_claim *of, uint64_t request, const struct tn_row *row)
{
    (void)arg;
    (void)of;
    engine.puts++;
    engine.request = request;
    engine.asked = *row;
    engine.putting = true;
}

static void done(void *arg, struct tn_rows_claim *of, enum tn_rows_goal goal,
                 const struct tn_rows_answer *answer)
{
    (void)arg;
    (void)of;
    told.dones++;
    told.goal = goal;
    told.answer = *answer;
}

static void renewed(void *arg, uint64_t seq, enum tn_rows_outcome outcome, uint32_t held)
{
    (void)arg;
    told.renewals++;
    told.seq = seq;
    told.failed = outcome != TN_ROWS_WRITTEN;
    told.gone = outcome == TN_ROWS_GONE;
    told.held = held;
}

static void ended(void *arg, struct tn_rows_claim *of)
{
    (void)arg;
    (void)of;
    engine.ends++;
}

static uint64_t nonce(void *arg)
{
    (void)arg;
    return engine.puts + 1;
}

static void call_session(void *arg, uint64_t number, enum tn_op_kind kind, const char *id)
{
    (void)arg;
    engine.calls++;
    engine.call = number;
    engine.called = kind;
    (void)snprintf(engine.id, sizeof engine.id, "%s", id);
}

static const struct tn_rows_host host = { get, put, done, renewed, ended, nonce, call_session };

static struct tn_secret secret(uint8_t byte)
{
    struct tn_secret made;

    memset(&made, byte, sizeof made);
    return made;
}

static void begin(void)
{
    struct tn_secret session = secret(1);
    struct tn_secret term = secret(2);

    memset(&engine, 0, sizeof engine);
    memset(&told, 0, sizeof told);
    memset(&name, 0, sizeof name);
    tn_rows_init(&rows, &host, NULL, &session, TTL, ATTEMPT, ATTEMPT);
    tn_rows_add(&rows, &claim, &name, &term);
}

/* Somebody writes the row. */
static void write_row(const struct tn_row *row)
{
    engine.row = *row;
    (void)snprintf(engine.version, sizeof engine.version, "%u", ++engine.versions);
}

static void write_of_another(uint64_t token)
{
    struct tn_row row = {
        .held = true, .token = token, .ttl = TTL, .session = secret(7), .term = secret(8)
    };
    write_row(&row);
}

static void answer_get(struct tn_rows_claim *of, tenure_ns now)
{
    CHECK(!engine.putting);
    tn_rows_got(of, now, engine.request, &engine.row, engine.version);
}

static void answer_put(struct tn_rows_claim *of, tenure_ns now, enum tn_rows_outcome outcome)
{
    CHECK(engine.putting);
    if (outcome == TN_ROWS_WRITTEN)
        write_row(&engine.asked);
    tn_rows_put_done(of, now, engine.request, outcome, engine.version);
}

static void ask(tenure_ns now, enum tn_op_kind kind, uint64_t token)
{
    struct tn_op op = { .kind = kind, .token = token };

    tn_rows_start(&claim, now, &op);
}

static void check_told(enum tn_answer answer)
{
    CHECK_EQ_U64(told.dones, 1);
    CHECK(!told.answer.failed);
    CHECK_EQ_I64(told.answer.answer, answer);
    told.dones = 0;
}

static void check_failed(bool unknown)
{
    CHECK_EQ_U64(told.dones, 1);
    CHECK(told.answer.failed);
    CHECK_EQ_I64(told.answer.unknown, unknown);
    told.dones = 0;
}

static void acquire(tenure_ns now)
{
    ask(now, TN_OP_ACQUIRE, 0);
    answer_get(&claim, now);
    answer_put(&claim, now, TN_ROWS_WRITTEN);
    check_told(TN_ANSWER_GRANTED);
}

TEST(a_name_without_a_row_is_granted_with_the_first_token)
{
    begin();
    acquire(0);
    CHECK(engine.row.held);
    CHECK_EQ_U64(engine.row.token, 1);
    CHECK_EQ_I64(engine.row.ttl, TTL);
    CHECK_EQ_U64(claim.token, 1);
    CHECK_EQ_I64(tn_rows_whose(&rows, &name, &engine.row), TN_ROWS_OURS);
}

TEST(a_grant_is_above_the_floor)
{
    struct tn_row row = { .token = 3, .floor = 40 };

    begin();
    write_row(&row);
    acquire(0);
    CHECK_EQ_U64(engine.row.token, 41);
    CHECK_EQ_U64(engine.row.floor, 40);
}

static void begin_minting(uint64_t versions)
{
    begin();
    rows.mints = true;
    engine.versions = (unsigned)versions;
}

TEST(a_minted_token_is_the_version_of_the_acquiring_write)
{
    begin_minting(40);
    acquire(0);
    CHECK(engine.row.minted);
    CHECK_EQ_U64(engine.row.token, 0);
    CHECK_EQ_U64(claim.token, 41);
    CHECK_EQ_U64(tn_row_token(&engine.row, engine.version), 41);
    tn_rows_renew(&rows, TN_SEC(1), 1);
    answer_put(&claim, TN_SEC(1), TN_ROWS_WRITTEN);
    CHECK(!engine.row.minted);
    CHECK_EQ_U64(engine.row.token, 41);
    CHECK_EQ_U64(tn_row_token(&engine.row, engine.version), 41);
    ask(TN_SEC(2), TN_OP_RELEASE, 41);
    answer_put(&claim, TN_SEC(2), TN_ROWS_WRITTEN);
    check_told(TN_ANSWER_RELEASED);
    CHECK_EQ_U64(engine.row.token, 41);
}

TEST(a_minted_token_is_above_the_floor_and_the_last_token)
{
    struct tn_row row = { .token = 90, .floor = 70 };

    begin_minting(40);
    write_row(&row);
    acquire(0);
    CHECK_EQ_U64(claim.token, 91);
    CHECK_EQ_U64(engine.row.floor, 90);
}

TEST(a_row_that_was_deleted_does_not_restart_a_minted_token)
{
    struct tn_row none = { .held = false };
    struct tn_secret next = secret(3);

    begin_minting(40);
    acquire(0);
    ask(0, TN_OP_RELEASE, 41);
    answer_put(&claim, 0, TN_ROWS_WRITTEN);
    check_told(TN_ANSWER_RELEASED);
    engine.row = none;
    engine.version[0] = '\0';
    tn_rows_remove(&claim);
    tn_rows_add(&rows, &claim, &name, &next);
    acquire(0);
    CHECK_EQ_U64(claim.token, 43);
}

TEST(a_holder_keeps_its_token_when_somebody_rewrites_its_minted_row)
{
    begin_minting(40);
    acquire(0);
    write_row(&engine.row);
    tn_rows_renew(&rows, TN_SEC(1), 1);
    answer_put(&claim, TN_SEC(1), TN_ROWS_CONFLICT);
    answer_get(&claim, TN_SEC(1));
    answer_put(&claim, TN_SEC(1), TN_ROWS_WRITTEN);
    CHECK_EQ_U64(engine.row.token, 41);
}

TEST(a_version_that_is_no_number_mints_nothing_below_the_floor)
{
    struct tn_row row = { .held = true, .minted = true, .floor = 7 };

    CHECK_EQ_U64(tn_row_token(&row, "8x"), 8);
    CHECK_EQ_U64(tn_row_token(&row, "99999999999999999999999"), 8);
    CHECK_EQ_U64(tn_row_token(&row, "18446744073709551615"), UINT64_MAX);
    row.floor = UINT64_MAX;
    CHECK_EQ_U64(tn_row_token(&row, "12"), UINT64_MAX);
}

TEST(there_is_no_grant_beyond_the_last_token)
{
    struct tn_row row = { .token = UINT64_MAX };

    begin();
    write_row(&row);
    ask(0, TN_OP_ACQUIRE, 0);
    answer_get(&claim, 0);
    check_told(TN_ANSWER_FULL);
    CHECK_EQ_U64(engine.puts, 0);
}

TEST(a_holder_is_waited_for_until_it_was_silent_for_its_own_ttl)
{
    begin();
    write_of_another(5);
    ask(0, TN_OP_ACQUIRE, 0);
    answer_get(&claim, TN_SEC(1));
    check_told(TN_ANSWER_HELD);
    CHECK_EQ_I64(tn_rows_name_wake_at(&name), TN_SEC(1) + TTL);
    CHECK(!tn_rows_name_is_vacated(&name, TN_SEC(1) + TTL - 1));
    CHECK(tn_rows_name_is_vacated(&name, TN_SEC(1) + TTL));
    CHECK(!tn_rows_name_is_vacated(&name, TN_SEC(1) + TTL)); /* Told once. */
    CHECK_EQ_I64(tn_rows_name_wake_at(&name), TN_NEVER);
    acquire(TN_SEC(1) + TTL);
    CHECK_EQ_U64(engine.row.token, 6);
}

TEST(a_row_that_changed_is_observed_anew)
{
    begin();
    write_of_another(5);
    ask(0, TN_OP_ACQUIRE, 0);
    answer_get(&claim, 0);
    check_told(TN_ANSWER_HELD);
    CHECK(tn_rows_name_is_vacated(&name, TTL));
    write_of_another(5); /* It renewed after all. */
    ask(TTL, TN_OP_ACQUIRE, 0);
    answer_get(&claim, TTL);
    check_told(TN_ANSWER_HELD);
    CHECK_EQ_I64(tn_rows_name_wake_at(&name), 2 * TTL);
}

TEST(a_read_tells_of_a_silent_holder_as_free)
{
    begin();
    write_of_another(5);
    ask(0, TN_OP_READ, 0);
    answer_get(&claim, 0);
    check_told(TN_ANSWER_HELD);
    ask(TTL, TN_OP_READ, 0);
    answer_get(&claim, TTL);
    check_told(TN_ANSWER_FREE);
}

TEST(a_conflict_is_judged_by_another_read)
{
    begin();
    ask(0, TN_OP_ACQUIRE, 0);
    answer_get(&claim, 0);
    write_of_another(1);
    answer_put(&claim, 0, TN_ROWS_CONFLICT);
    answer_get(&claim, 0);
    check_told(TN_ANSWER_HELD);
    CHECK(!claim.held);
}

TEST(conflicts_without_end_fail)
{
    begin();
    ask(0, TN_OP_ACQUIRE, 0);
    for (unsigned i = 0; i < 20 && told.dones == 0; i++) {
        answer_get(&claim, 0);
        answer_put(&claim, 0, TN_ROWS_CONFLICT);
    }
    check_failed(false);
}

/* The write went through, and no answer came: the row has to be written again before it counts. */
TEST(a_row_left_by_an_unknown_write_is_written_again_before_it_is_granted)
{
    begin();
    ask(0, TN_OP_ACQUIRE, 0);
    answer_get(&claim, 0);
    write_row(&engine.asked);
    CHECK_EQ_I64(tn_rows_whose(&rows, &name, &engine.row), TN_ROWS_STRAY);
    tn_rows_tick(&rows, ATTEMPT);
    answer_get(&claim, ATTEMPT);
    CHECK_EQ_U64(told.dones, 0);
    answer_put(&claim, ATTEMPT, TN_ROWS_WRITTEN);
    check_told(TN_ANSWER_GRANTED);
    CHECK_EQ_U64(engine.row.token, 1);
}

TEST(a_late_answer_to_a_request_given_up_counts_for_nothing)
{
    begin();
    ask(0, TN_OP_ACQUIRE, 0);
    answer_get(&claim, 0);
    uint64_t late = engine.request;
    tn_rows_tick(&rows, ATTEMPT);
    tn_rows_put_done(&claim, ATTEMPT, late, TN_ROWS_WRITTEN, "99");
    CHECK_EQ_U64(told.dones, 0);
    CHECK(!engine.putting); /* It reads. */
}

TEST(without_an_answer_the_outcome_of_an_acquire_is_unknown)
{
    begin();
    ask(0, TN_OP_ACQUIRE, 0);
    answer_get(&claim, 0);
    answer_put(&claim, 0, TN_ROWS_UNKNOWN);
    tn_rows_get_failed(&claim, 0, engine.request);
    check_failed(true);
    ask(1, TN_OP_ACQUIRE, 0);
    tn_rows_get_failed(&claim, 1, engine.request);
    check_failed(false);
    ask(2, TN_OP_ACQUIRE, 0);
    answer_get(&claim, 2);
    answer_put(&claim, 2, TN_ROWS_FAILED);
    check_failed(false);
}

/* The session was renewed while the write was under way: the row must change once more. */
TEST(a_grant_that_a_renewal_overtook_is_written_again)
{
    begin();
    ask(0, TN_OP_ACQUIRE, 0);
    answer_get(&claim, 0);
    tn_rows_renew(&rows, TN_MS(1), 7);
    CHECK_EQ_U64(told.renewals, 1); /* Nothing is held yet. */
    answer_put(&claim, TN_MS(2), TN_ROWS_WRITTEN);
    CHECK_EQ_U64(told.dones, 0);
    answer_put(&claim, TN_MS(3), TN_ROWS_WRITTEN);
    check_told(TN_ANSWER_GRANTED);
}

TEST(a_renewal_writes_every_row_held)
{
    struct tn_rows_name other_name = { .told = false };
    struct tn_rows_claim other;
    struct tn_secret term = secret(3);
    struct tn_op op = { .kind = TN_OP_ACQUIRE };

    begin();
    acquire(0);
    uint64_t token = engine.row.token;
    tn_rows_add(&rows, &other, &other_name, &term);
    engine.version[0] = '\0';
    engine.row = (struct tn_row) { .held = false };
    tn_rows_start(&other, 0, &op);
    answer_get(&other, 0);
    answer_put(&other, 0, TN_ROWS_WRITTEN);
    told.dones = 0;
    tn_rows_renew(&rows, 1, 3);
    CHECK_EQ_U64(engine.puts, 4);
    CHECK_EQ_U64(told.renewals, 0);
    answer_put(&claim, 2, TN_ROWS_WRITTEN); /* The newest asked, of the first claim. */
    CHECK_EQ_U64(told.renewals, 0);
    CHECK_EQ_U64(token, claim.row.token);
    tn_rows_put_done(&other, 2, other.request, TN_ROWS_UNKNOWN, "");
    CHECK_EQ_U64(told.renewals, 1);
    CHECK(told.failed); /* One row is enough to fail it. */
    CHECK_EQ_U64(told.seq, 3);
    CHECK_EQ_U64(told.held, 2);
    tn_rows_remove(&other);
}

TEST(a_renewal_that_begins_later_does_not_fail_with_an_earlier_write)
{
    begin();
    acquire(0);
    tn_rows_renew(&rows, 0, 1);
    tn_rows_renew(&rows, ATTEMPT / 2, 2);
    tn_rows_tick(&rows, ATTEMPT);
    CHECK_EQ_U64(told.renewals, 1);
    CHECK_EQ_U64(told.seq, 1);
    CHECK(told.failed);
    answer_get(&claim, ATTEMPT);
    answer_put(&claim, ATTEMPT, TN_ROWS_WRITTEN);
    CHECK_EQ_U64(told.renewals, 2);
    CHECK_EQ_U64(told.seq, 2);
    CHECK(!told.failed);
}

TEST(a_write_sent_before_a_renewal_does_not_answer_it)
{
    begin();
    acquire(0);
    tn_rows_renew(&rows, 0, 1);
    tn_rows_renew(&rows, 1, 2);
    answer_put(&claim, 2, TN_ROWS_WRITTEN);
    CHECK_EQ_U64(told.renewals, 1);
    CHECK_EQ_U64(told.seq, 1);
    answer_put(&claim, 3, TN_ROWS_WRITTEN);
    CHECK_EQ_U64(told.renewals, 2);
    CHECK_EQ_U64(told.seq, 2);
}

TEST(the_oldest_of_too_many_renewals_fails)
{
    begin();
    acquire(0);
    for (uint64_t seq = 1; seq <= TN_ROWS_RENEWALS; seq++)
        tn_rows_renew(&rows, 0, seq);
    CHECK_EQ_U64(told.renewals, 0);
    tn_rows_renew(&rows, 0, 99);
    CHECK_EQ_U64(told.renewals, 1);
    CHECK_EQ_U64(told.seq, 1);
    CHECK(told.failed);
}

TEST(a_renewal_finds_a_row_that_somebody_touched_and_keeps_it)
{
    begin();
    acquire(0);
    struct tn_row same = engine.row;
    write_row(&same);
    tn_rows_renew(&rows, 1, 1);
    answer_put(&claim, 1, TN_ROWS_CONFLICT);
    answer_get(&claim, 1);
    answer_put(&claim, 1, TN_ROWS_WRITTEN);
    CHECK_EQ_U64(told.renewals, 1);
    CHECK(!told.failed);
    CHECK_EQ_U64(engine.ends, 0);
}

TEST(a_renewal_that_finds_another_holder_ends_the_term_first)
{
    begin();
    acquire(0);
    write_of_another(2);
    tn_rows_renew(&rows, 1, 1);
    answer_put(&claim, 1, TN_ROWS_CONFLICT);
    answer_get(&claim, 1);
    CHECK_EQ_U64(engine.ends, 1);
    CHECK_EQ_U64(told.renewals, 1);
    CHECK(!told.failed);
    CHECK_EQ_U64(told.held, 0);
}

TEST(a_revoked_row_ends_the_term_at_its_next_renewal)
{
    struct tn_rows_claim operator;
    struct tn_op op = { .kind = TN_OP_REVOKE, .token = 1 };

    begin();
    acquire(0);
    tn_rows_add(&rows, &operator, & name, NULL);
    tn_rows_start(&operator, 0, &op);
    answer_get(&operator, 0);
    answer_put(&operator, 0, TN_ROWS_WRITTEN);
    check_told(TN_ANSWER_OK);
    CHECK(engine.row.revoked);
    tn_rows_start(&operator, 0, &op); /* Once more. */
    answer_get(&operator, 0);
    check_told(TN_ANSWER_OK);
    op.token = 9;
    tn_rows_start(&operator, 0, &op);
    answer_get(&operator, 0);
    check_told(TN_ANSWER_STALE);
    tn_rows_renew(&rows, 1, 1);
    answer_put(&claim, 1, TN_ROWS_CONFLICT);
    answer_get(&claim, 1);
    CHECK_EQ_U64(engine.ends, 1);
    CHECK_EQ_U64(told.held, 1); /* Until it is given back. */
    ask(2, TN_OP_RELEASE, 1);
    answer_put(&claim, 2, TN_ROWS_WRITTEN);
    check_told(TN_ANSWER_RELEASED);
    CHECK_EQ_U64(engine.row.token, 1);
}

TEST(a_grant_revoked_before_it_was_heard_of_is_told_revoked_first)
{
    begin();
    ask(0, TN_OP_ACQUIRE, 0);
    answer_get(&claim, 0);
    struct tn_row row = engine.asked;
    row.revoked = true;
    write_row(&row);
    answer_put(&claim, 0, TN_ROWS_UNKNOWN);
    answer_get(&claim, 0);
    check_told(TN_ANSWER_GRANTED);
    CHECK_EQ_U64(engine.ends, 1);
    CHECK(!claim.held); /* No renewal writes it. */
}

TEST(a_release_writes_a_free_row_with_the_same_token)
{
    begin();
    acquire(0);
    ask(1, TN_OP_RELEASE, 1);
    CHECK(engine.putting); /* One write: nothing has to be read first. */
    answer_put(&claim, 1, TN_ROWS_WRITTEN);
    check_told(TN_ANSWER_RELEASED);
    CHECK(!engine.row.held);
    CHECK_EQ_U64(engine.row.token, 1);
    ask(2, TN_OP_RELEASE, 1); /* Said again. */
    check_told(TN_ANSWER_RELEASED);
    ask(3, TN_OP_ACQUIRE, 0); /* Late: this term is over. */
    answer_get(&claim, 3);
    check_told(TN_ANSWER_STALE);
}

TEST(a_release_needs_the_term_and_the_token)
{
    begin();
    write_of_another(4);
    ask(0, TN_OP_RELEASE, 4);
    answer_get(&claim, 0);
    check_told(TN_ANSWER_DENIED);
    ask(0, TN_OP_RELEASE, 3);
    check_told(TN_ANSWER_STALE);
    ask(0, TN_OP_RELEASE, 0);
    check_told(TN_ANSWER_RELEASED); /* It has nothing. */
    CHECK_EQ_U64(engine.puts, 0);
    struct tn_row row = { .token = 4, .term = secret(8) };
    write_row(&row);
    claim.known = false;
    ask(0, TN_OP_RELEASE, 4);
    answer_get(&claim, 0);
    check_told(TN_ANSWER_STALE);
}

TEST(a_release_with_another_token_leaves_the_term_alone)
{
    begin();
    acquire(0);
    ask(1, TN_OP_RELEASE, 9);
    check_told(TN_ANSWER_STALE);
    CHECK(claim.held);
}

TEST(a_write_of_somebody_else_makes_the_holder_look)
{
    begin();
    acquire(0);
    struct tn_row same = engine.row;
    write_row(&same);
    tn_rows_look(&claim, 1);
    answer_get(&claim, 1);
    CHECK(claim.held);
    CHECK_EQ_U64(engine.ends, 0);
    write_of_another(2);
    tn_rows_look(&claim, 2);
    tn_rows_look(&claim, 2); /* It is looking already. */
    answer_get(&claim, 2);
    CHECK_EQ_U64(engine.ends, 1);
    tn_rows_look(&claim, 3);
    CHECK_EQ_U64(engine.gets, 3);
}

TEST(a_session_is_over_a_ttl_after_its_last_renewal_began)
{
    begin();
    acquire(0);
    tn_rows_renew(&rows, TN_SEC(1), 1);
    answer_put(&claim, TN_SEC(1) + 1, TN_ROWS_WRITTEN);
    CHECK(!tn_rows_is_over(&rows, TN_SEC(1) + TTL - 1));
    CHECK(tn_rows_is_over(&rows, TN_SEC(1) + TTL));
}

TEST(a_release_that_conflicts_leaves_the_successor_alone)
{
    begin();
    acquire(0);
    write_of_another(2);
    ask(1, TN_OP_RELEASE, 1);
    answer_put(&claim, 1, TN_ROWS_CONFLICT);
    answer_get(&claim, 1);
    check_told(TN_ANSWER_STALE);
    CHECK(engine.row.held);
}

TEST(a_release_waits_for_the_renewal_that_is_under_way)
{
    begin();
    acquire(0);
    tn_rows_renew(&rows, 1, 1);
    ask(1, TN_OP_RELEASE, 1);
    CHECK_EQ_U64(told.renewals, 1); /* No renewal waits for a row on its way out. */
    CHECK_EQ_U64(told.held, 0);
    answer_put(&claim, 2, TN_ROWS_WRITTEN);
    answer_put(&claim, 2, TN_ROWS_WRITTEN);
    check_told(TN_ANSWER_RELEASED);
    CHECK(!engine.row.held);
}

/* An older term's write arrived after its release: nobody leads under it. */
TEST(a_stray_of_the_same_session_is_replaced_at_once_and_told_to_nobody)
{
    struct tn_row stray = {
        .held = true, .token = 3, .ttl = TTL, .session = secret(1), .term = secret(9)
    };

    begin();
    write_row(&stray);
    ask(0, TN_OP_READ, 0);
    answer_get(&claim, 0);
    check_failed(false);
    acquire(1);
    CHECK_EQ_U64(engine.row.token, 4);
}

TEST(an_answer_after_the_goal_was_reached_changes_nothing)
{
    begin();
    acquire(0);
    tn_rows_renew(&rows, 0, 1);
    ask(0, TN_OP_RELEASE, 1);
    answer_put(&claim, 0, TN_ROWS_FAILED);
    check_failed(false);
    tn_rows_get_failed(&claim, 1, 0);
    tn_rows_put_done(&claim, 1, 0, TN_ROWS_CONFLICT, "");
    CHECK_EQ_U64(told.dones, 0);
    CHECK_EQ_I64(tn_rows_wake_at(&rows), TN_NEVER);
}

TEST(a_version_makes_a_beat)
{
    CHECK(tn_row_beat("1") != tn_row_beat("2"));
    CHECK(tn_row_beat("") != 0);
}

/* --- Engines with sessions --- */

static void begin_session(void)
{
    begin_minting(40);
    rows.has_sessions = true;
    tn_rows_renew(&rows, 0, 1);
    CHECK_EQ_I64(engine.called, TN_OP_OPEN);
    tn_rows_session_done(&rows, 0, engine.call, TN_ROWS_WRITTEN, "s1");
    CHECK(!told.failed);
    CHECK_EQ_U64(told.seq, 1);
}

TEST(a_renewal_is_one_call_for_all_rows)
{
    begin_session();
    acquire(0);
    CHECK_STR(engine.row.owner, "s1");
    engine.puts = engine.gets = 0;
    tn_rows_renew(&rows, TN_SEC(1), 2);
    CHECK_EQ_I64(engine.called, TN_OP_RENEW);
    CHECK_STR(engine.id, "s1");
    tn_rows_session_done(&rows, TN_SEC(1), engine.call, TN_ROWS_WRITTEN, "s1");
    CHECK_EQ_U64(told.seq, 2);
    CHECK(!told.failed);
    CHECK_EQ_U64(told.held, 1);
    CHECK_EQ_U64(engine.puts + engine.gets, 0);
    CHECK(!tn_rows_is_over(&rows, TN_SEC(1) + TTL - 1));
    CHECK(tn_rows_is_over(&rows, TN_SEC(1) + TTL));
}

TEST(a_renewal_that_hangs_does_not_hold_up_the_next)
{
    begin_session();
    tn_rows_renew(&rows, TN_SEC(1), 2);
    tn_rows_tick(&rows, TN_SEC(1) + ATTEMPT);
    CHECK(told.failed);
    CHECK_EQ_U64(told.seq, 2);
    tn_rows_renew(&rows, TN_SEC(2), 3);
    CHECK_EQ_U64(engine.call, 3);
    tn_rows_session_done(&rows, TN_SEC(2), 2, TN_ROWS_WRITTEN, "s1");
    CHECK_EQ_U64(told.seq, 2);
    tn_rows_session_done(&rows, TN_SEC(2), 3, TN_ROWS_WRITTEN, "s1");
    CHECK_EQ_U64(told.seq, 3);
    CHECK(!told.failed);
}

TEST(a_session_that_is_gone_ends_its_terms_and_is_not_replaced)
{
    begin_session();
    acquire(0);
    tn_rows_renew(&rows, TN_SEC(1), 2);
    tn_rows_session_done(&rows, TN_SEC(1), engine.call, TN_ROWS_GONE, NULL);
    CHECK_EQ_U64(engine.ends, 1);
    CHECK(told.gone);
    CHECK(!claim.held);
    engine.calls = 0;
    tn_rows_renew(&rows, TN_SEC(2), 3);
    CHECK_EQ_U64(engine.calls, 0);
    CHECK(told.gone);
    CHECK_EQ_U64(told.seq, 3);
}

TEST(a_session_that_was_opened_twice_is_closed_once)
{
    begin_minting(40);
    rows.has_sessions = true;
    tn_rows_renew(&rows, 0, 1);
    tn_rows_renew(&rows, TN_SEC(1), 2);
    CHECK_EQ_I64(engine.called, TN_OP_OPEN);
    tn_rows_session_done(&rows, TN_SEC(1), 2, TN_ROWS_WRITTEN, "s2");
    tn_rows_session_done(&rows, TN_SEC(1), 1, TN_ROWS_WRITTEN, "s1");
    CHECK_EQ_I64(engine.called, TN_OP_CLOSE);
    CHECK_STR(engine.id, "s1");
    CHECK_STR(rows.id, "s2");
}

TEST(a_lock_delay_is_waited_for)
{
    begin_session();
    ask(0, TN_OP_ACQUIRE, 0);
    answer_get(&claim, 0);
    answer_put(&claim, 0, TN_ROWS_DELAYED);
    check_told(TN_ANSWER_HELD);
    CHECK(!claim.row.held);
    CHECK(tn_rows_name_wake_at(&name) < TTL);
    CHECK(!tn_rows_name_is_vacated(&name, 0));
    CHECK(tn_rows_name_is_vacated(&name, TTL));
    CHECK(!tn_rows_name_is_vacated(&name, TTL));
    acquire(TTL);
    CHECK_EQ_I64(tn_rows_lock_delay(TTL), TTL);
    CHECK_EQ_I64(tn_rows_lock_delay(TN_SEC(3600)), TN_SEC(60));
}

TEST(an_acquire_for_a_session_that_is_gone_says_so)
{
    begin_session();
    ask(0, TN_OP_ACQUIRE, 0);
    answer_get(&claim, 0);
    answer_put(&claim, 0, TN_ROWS_GONE);
    check_told(TN_ANSWER_GONE);
    CHECK(rows.gone);
}

TEST(a_holder_that_is_not_renewed_is_never_observed_by_an_engine_with_sessions)
{
    begin_session();
    write_of_another(3);
    ask(0, TN_OP_ACQUIRE, 0);
    answer_get(&claim, 0);
    check_told(TN_ANSWER_HELD);
    CHECK_EQ_I64(tn_rows_name_wake_at(&name), TN_NEVER);
    ask(10 * TTL, TN_OP_ACQUIRE, 0);
    answer_get(&claim, 10 * TTL);
    check_told(TN_ANSWER_HELD);
}

TEST(a_revoked_row_that_is_not_given_back_is_freed_after_a_ttl)
{
    struct tn_row marked;

    begin_session();
    acquire(0);
    marked = engine.row;
    marked.revoked = true;
    write_row(&marked);
    tn_rows_look(&claim, TN_SEC(1));
    answer_get(&claim, TN_SEC(1));
    CHECK_EQ_U64(engine.ends, 1);
    CHECK_EQ_I64(tn_rows_wake_at(&rows), TN_SEC(1) + TTL);
    engine.puts = 0;
    tn_rows_tick(&rows, TTL);
    CHECK_EQ_U64(engine.puts, 0);
    tn_rows_tick(&rows, TN_SEC(1) + TTL);
    answer_get(&claim, TN_SEC(1) + TTL);
    answer_put(&claim, TN_SEC(1) + TTL, TN_ROWS_WRITTEN);
    CHECK(!engine.row.held);
    CHECK_EQ_U64(engine.row.token, 41);
    CHECK_STR(engine.row.owner, "s1");
    CHECK(!claim.revoked);
    CHECK_EQ_U64(told.dones, 0);
}

TEST(a_version_that_is_no_number_mints_the_token_behind_the_floor)
{
    static const char *const versions[] = { "abc", "12/", "99999999999999999999999", "5" };
    struct tn_row row = { .held = true, .minted = true, .floor = 5 };

    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
        CHECK_EQ_U64(tn_row_token(&row, versions[i]), 6);
    CHECK_EQ_U64(tn_row_token(&row, "18446744073709551615"), UINT64_MAX);
    row.floor = UINT64_MAX;
    CHECK_EQ_U64(tn_row_token(&row, "7"), UINT64_MAX);
}

/* What another process of the session, with these secrets, has on record. */
static void write_of_script(uint64_t token)
{
    struct tn_row row = { .held = true,
                          .token = token,
                          .ttl = 2 * TTL,
                          .session = secret(1),
                          .term = secret(2),
                          .owner = "engine-session" };
    write_row(&row);
}

TEST(a_term_of_another_process_with_the_same_secrets_is_adopted_and_then_renewed)
{
    begin();
    write_of_script(5);
    ask(0, TN_OP_RENEW, 5);
    answer_get(&claim, 0);
    check_told(TN_ANSWER_OK);
    CHECK_EQ_U64(engine.puts, 0); /* The read extends nothing. */
    CHECK(tn_rows_is_over(&rows, 0));
    tn_rows_renew(&rows, TN_SEC(1), 1);
    CHECK_EQ_U64(told.renewals, 0);
    answer_put(&claim, TN_SEC(1), TN_ROWS_WRITTEN);
    CHECK_EQ_U64(told.renewals, 1);
    CHECK(!told.failed);
    CHECK_EQ_U64(told.held, 1);
    CHECK_EQ_U64(engine.row.token, 5);
    CHECK_EQ_I64(engine.row.ttl, 2 * TTL);
    CHECK(!tn_rows_is_over(&rows, 2 * TTL));
}

TEST(an_adopted_session_of_the_engine_is_renewed_by_its_id)
{
    begin();
    rows.has_sessions = true;
    write_of_script(5);
    ask(0, TN_OP_RENEW, 5);
    answer_get(&claim, 0);
    check_told(TN_ANSWER_OK);
    tn_rows_renew(&rows, 0, 1);
    CHECK_EQ_I64(engine.called, TN_OP_RENEW);
    CHECK(strcmp(engine.id, "engine-session") == 0);
    CHECK_EQ_U64(engine.puts, 0);
    tn_rows_session_done(&rows, 0, engine.call, TN_ROWS_GONE, "");
    CHECK(told.gone);
}

TEST(only_the_term_with_its_token_is_adopted)
{
    struct tn_row row;

    for (int i = 0; i < 5; i++) {
        begin();
        write_of_script(5);
        row = engine.row;
        row.held = i != 0;
        row.revoked = i == 1;
        row.token = i == 2 ? 6 : 5;
        row.session = secret(i == 3 ? 9 : 1);
        row.term = secret(i == 4 ? 9 : 2);
        write_row(&row);
        ask(0, TN_OP_RENEW, 5);
        answer_get(&claim, 0);
        check_told(TN_ANSWER_GONE);
        CHECK(!claim.held);
        CHECK_EQ_U64(engine.puts, 0);
    }
}

TEST(a_term_that_is_taken_between_adoption_and_renewal_is_not_renewed)
{
    begin();
    write_of_script(5);
    ask(0, TN_OP_RENEW, 5);
    answer_get(&claim, 0);
    check_told(TN_ANSWER_OK);
    write_of_another(6);
    tn_rows_renew(&rows, 0, 1);
    answer_put(&claim, 0, TN_ROWS_CONFLICT);
    answer_get(&claim, 0);
    CHECK_EQ_U64(engine.ends, 1);
    CHECK_EQ_U64(engine.row.token, 6);
}

static void show_row(tenure_ns now)
{
    struct tn_rows_event event = { &engine.row, engine.version, TN_ROWS_OTHERS };

    (void)tn_rows_name_saw(&name, now, rows.has_sessions, &event);
}

TEST(a_refused_acquire_is_answered_by_the_feed_while_it_keeps_up_and_the_holder_is_alive)
{
    begin();
    write_of_another(1);
    show_row(0);
    ask(0, TN_OP_ACQUIRE, 0);
    CHECK_EQ_U64(engine.gets, 1); /* The first one reads, whatever was shown. */
    answer_get(&claim, 1);
    check_told(TN_ANSWER_HELD);
    ask(TTL - 1, TN_OP_ACQUIRE, 0);
    CHECK_EQ_U64(engine.gets, 1);
    check_told(TN_ANSWER_HELD);
    tn_rows_name_feed_lost(&name);
    ask(TTL - 1, TN_OP_ACQUIRE, 0);
    CHECK_EQ_U64(engine.gets, 2);
    show_row(TTL - 1);
    write_of_another(1); /* Which the read shows, and the feed not yet. */
    answer_get(&claim, TTL - 1);
    ask(TTL - 1, TN_OP_ACQUIRE, 0);
    CHECK_EQ_U64(engine.gets, 3);
    show_row(TTL - 1);
    answer_get(&claim, TTL - 1);
    ask(2 * TTL, TN_OP_ACQUIRE, 0); /* Silent for too long: the row itself decides. */
    CHECK_EQ_U64(engine.gets, 4);
}
