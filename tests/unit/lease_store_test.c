/* lease_store_test.c - the lease table's records: limits, forgetting, iteration, growth. */
#include "base/prng.h" /* Before the script, whose `result` it would shadow. */

#include "tests/unit/table_script.h"

#include <stdio.h>

static void start_small(uint32_t sessions, uint32_t leases, uint32_t waiters, uint32_t text_bytes)
{
    start_with((struct tn_table_limits) { .sessions = sessions,
                                          .leases = leases,
                                          .waiters = waiters,
                                          .text_bytes = text_bytes,
                                          .hash_key = { 3, 4 } });
}

/* Opens a session without a label, which needs no text. */
static const char *opens_unnamed(int64_t at_ms, int who)
{
    struct tn_op op = open_of(who);
    op.label_len = 0;
    return feed(at_ms, op);
}

/* A name of @len bytes. */
static const char *name_of(char letter, size_t len)
{
    static char name[TN_NAME_MAX + 1];
    memset(name, letter, len);
    name[len] = 0;
    return name;
}

static const char *numbered(unsigned number)
{
    static char name[32];
    (void)snprintf(name, sizeof name, "service/%u", number);
    return name;
}

/* --- Limits ----------------------------------------------------------------------------------- */

TEST(a_session_too_many_is_refused_until_another_ends)
{
    start_small(2, 4, 4, 1024);
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_STR(opens(0, 'B'), "ok");
    CHECK_STR(opens(0, 'C'), "full");
    CHECK_STR(renews(1, 'C', 0), "gone");
    CHECK_STR(renews(1, 'A', 0), "ok");
    CHECK_STR(closes(2, 'A'), "ok");
    CHECK_STR(opens(3, 'C'), "ok");
    CHECK_STR(opens(3, 'D'), "full");
    CHECK_STR(renews(4, 'B', 0), "ok");
}

TEST(a_name_too_many_is_refused_while_all_are_held)
{
    start_small(2, 2, 4, 1024);
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_STR(acquires(1, 'A', 1, "x"), "granted 1; x held 1");
    CHECK_STR(acquires(1, 'A', 2, "y"), "granted 2; y held 2");
    CHECK_STR(acquires(2, 'A', 3, "z"), "full");
    CHECK_EQ_U64(result.lease, 0);
    CHECK_EQ_U64(tn_table_token(table), 2);
    CHECK_STR(reads(3, "x"), "held 1");
    CHECK_STR(reads(3, "y"), "held 2");
    CHECK_STR(reads(3, "z"), "free 0");
}

TEST(the_longest_free_name_is_forgotten_first_and_its_tokens_go_on)
{
    start_small(2, 3, 4, 1024);
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_STR(acquires(1, 'A', 1, "x"), "granted 1; x held 1");
    CHECK_STR(acquires(1, 'A', 2, "y"), "granted 2; y held 2");
    CHECK_STR(acquires(1, 'A', 3, "z"), "granted 3; z held 3");
    CHECK_STR(releases(2, 'A', 2, "y", 2), "released; y free 2");
    CHECK_STR(releases(3, 'A', 1, "x", 1), "released; x free 1");
    CHECK_STR(acquires(4, 'A', 4, "w"), "granted 4; w held 4");
    CHECK_STR(reads(5, "y"), "free 0");
    CHECK_STR(reads(5, "x"), "free 1");
    CHECK_STR(acquires(6, 'A', 5, "y"), "granted 5; y held 5");
    CHECK_STR(reads(7, "x"), "free 0");
    CHECK_STR(acquires(8, 'A', 6, "x"), "full");
}

TEST(reading_a_name_nobody_ever_held_takes_no_room)
{
    start_small(2, 1, 4, 1024);
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_STR(reads(1, "p"), "free 0");
    CHECK_STR(reads(1, "q"), "free 0");
    CHECK_STR(acquires(2, 'A', 1, "x"), "granted 1; x held 1");
}

TEST(a_waiter_too_many_is_refused_until_a_place_is_free)
{
    start_small(4, 4, 2, 1024);
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_STR(opens(0, 'B'), "ok");
    CHECK_STR(acquires(1, 'A', 1, "x"), "granted 1; x held 1");
    CHECK_STR(waits(2, 'B', 1, "x"), "queued");
    CHECK_STR(waits(2, 'B', 2, "x"), "queued");
    CHECK_STR(waits(3, 'B', 3, "x"), "full");
    CHECK_STR(waits(3, 'B', 2, "x"), "queued");
    CHECK_STR(acquires(3, 'B', 3, "x"), "held 1");
    CHECK_STR(releases(4, 'B', 1, "x", 0), "released");
    CHECK_STR(waits(5, 'B', 3, "x"), "queued");
    CHECK_STR(waits(5, 'B', 1, "x"), "full");
    CHECK_STR(releases(6, 'A', 1, "x", 1), "released; grant B2 x 2; x held 2");
    CHECK_STR(releases(7, 'B', 2, "x", 2), "released; grant B3 x 3; x held 3");
    CHECK_STR(releases(8, 'B', 3, "x", 3), "released; x free 3");
}

TEST(a_table_without_waiters_never_queues)
{
    start_small(2, 2, 0, 1024);
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_STR(acquires(1, 'A', 1, "x"), "granted 1; x held 1");
    CHECK_STR(waits(2, 'A', 2, "x"), "full");
}

TEST(names_that_do_not_fit_into_the_text_are_refused)
{
    start_small(2, 8, 4, 64);
    CHECK_STR(opens_unnamed(0, 'A'), "ok");
    CHECK_STR(acquires(1, 'A', 1, "x"), "granted 1; x held 1");
    (void)acquires(2, 'A', 2, name_of('y', 49));
    CHECK(result.answer == TN_ANSWER_FULL);
    (void)acquires(2, 'A', 2, name_of('y', 32));
    CHECK(result.answer == TN_ANSWER_GRANTED);
    CHECK_STR(acquires(3, 'A', 3, "z"), "granted 3; z held 3");
    CHECK_STR(acquires(4, 'A', 4, "w"), "full");
    CHECK_STR(reads(5, "x"), "held 1");
}

TEST(labels_that_do_not_fit_into_the_text_are_refused)
{
    start_small(8, 8, 4, 32);
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_STR(opens(0, 'B'), "ok");
    CHECK_STR(opens(1, 'C'), "full");
    CHECK_STR(renews(2, 'C', 0), "gone");
    CHECK_STR(opens_unnamed(3, 'C'), "ok");
    CHECK_STR(closes(4, 'A'), "ok");
    CHECK_STR(opens(5, 'D'), "ok");
}

TEST(names_that_nobody_holds_make_room_for_labels_too)
{
    start_small(8, 8, 4, 64);
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_STR(acquires(1, 'A', 1, "x"), "granted 1; x held 1");
    CHECK_STR(acquires(1, 'A', 1, "y"), "granted 2; y held 2");
    CHECK_STR(acquires(1, 'A', 1, "z"), "granted 3; z held 3");
    CHECK_STR(opens(2, 'B'), "full");
    CHECK_STR(releases(3, 'A', 1, "y", 2), "released; y free 2");
    CHECK_STR(opens(4, 'B'), "ok");
    CHECK_STR(reads(5, "x"), "held 1");
    CHECK_STR(reads(5, "y"), "free 0");
    CHECK_STR(opens(6, 'C'), "full");
}

TEST(text_is_used_again_by_names_of_its_size)
{
    static const size_t lengths[] = { 1, 16, 17, 32, 33, 64, 65, 128, 129, 255 };
    uint64_t token = 0;

    start_small(2, 1, 4, 16 + 32 + 64 + 128 + 256);
    CHECK_STR(opens_unnamed(0, 'A'), "ok");
    for (int round = 0; round < 100; round++) {
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            char letter = (char)('a' + round % 26);
            (void)acquires(1, 'A', 1, name_of(letter, lengths[i]));
            CHECK(result.answer == TN_ANSWER_GRANTED);
            CHECK_EQ_U64(result.token, ++token);
            (void)reads(1, name_of(letter, lengths[i]));
            CHECK(result.answer == TN_ANSWER_HELD);
            (void)releases(1, 'A', 1, name_of(letter, lengths[i]), token);
            CHECK(result.answer == TN_ANSWER_RELEASED);
        }
    }
}

TEST(freed_text_scattered_between_names_is_gathered_for_a_longer_one)
{
    char name[32];

    start_small(2, 32, 4, 16 * 20);
    CHECK_STR(opens(0, 'A'), "ok");
    for (unsigned i = 0; i < 19; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        (void)acquires(1, 'A', 1, name);
        CHECK(result.answer == TN_ANSWER_GRANTED);
    }
    (void)acquires(2, 'A', 1, name_of('y', 100));
    CHECK(result.answer == TN_ANSWER_FULL);
    for (unsigned i = 0; i < 14; i += 2) {
        (void)snprintf(name, sizeof name, "n%u", i);
        (void)releases(3, 'A', 1, name, i + 1);
        CHECK(result.answer == TN_ANSWER_RELEASED);
    }
    (void)acquires(4, 'A', 1, name_of('y', 112));
    CHECK(result.answer == TN_ANSWER_GRANTED);
    (void)acquires(4, 'A', 1, "one-more");
    CHECK(result.answer == TN_ANSWER_FULL);
    for (unsigned i = 1; i < 19; i += i < 14 ? 2 : 1) {
        struct tn_lease_view view;
        (void)snprintf(name, sizeof name, "n%u", i);
        (void)reads(5, name);
        CHECK(result.answer == TN_ANSWER_HELD);
        CHECK_EQ_U64(result.token, i + 1);
        tn_table_lease(table, result.lease, &view);
        CHECK_MEM(view.name, name, view.name_len);
        CHECK_MEM(view.label, "host-1", 6);
    }
}

/* Names of any length come and go in a table that could hold all of them; none may be refused. */
TEST(names_of_mixed_lengths_fit_as_long_as_their_sum_does)
{
    enum { NAMES = 40 };
    uint64_t tokens[NAMES] = { 0 };
    uint32_t lens[NAMES];
    int terms[NAMES];
    uint32_t units = 0;
    struct tn_prng prng;

    start_small(2, NAMES, 4, 16 * 256);
    tn_prng_seed(&prng, 11);
    CHECK_STR(opens_unnamed(0, 'A'), "ok");
    for (int step = 0; step < 20000; step++) {
        uint32_t i = (uint32_t)tn_prng_below(&prng, NAMES);
        uint32_t len = 1 + (uint32_t)tn_prng_below(&prng, tn_prng_below(&prng, 2) == 0 ? 20 : 250);
        uint32_t wanted = (len + 15) / 16;
        if (tokens[i] != 0) {
            (void)releases(1, 'A', terms[i], name_of((char)('A' + i), lens[i]), tokens[i]);
            CHECK(result.answer == TN_ANSWER_RELEASED);
            units -= (lens[i] + 15) / 16;
            tokens[i] = 0;
        } else if (units + wanted <= 240) { /* A sixteenth may stay unused. */
            terms[i] = 1 + step % 200;
            (void)acquires(1, 'A', terms[i], name_of((char)('A' + i), len));
            CHECK(result.answer == TN_ANSWER_GRANTED);
            tokens[i] = result.token;
            lens[i] = len;
            units += wanted;
        }
    }
    CHECK(tn_table_token(table) > 5000);
}

TEST(the_end_of_a_session_is_told_to_who_wants_to_know)
{
    start_with((struct tn_table_limits) { .sessions = 4,
                                          .leases = 4,
                                          .waiters = 4,
                                          .text_bytes = 1024,
                                          .tells_ends = true,
                                          .hash_key = { 3, 4 } });
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_STR(opens(0, 'B'), "ok");
    CHECK_STR(acquires(1, 'A', 1, "x"), "granted 1; x held 1");
    tn_table_step(table, TN_MS(2),
                  &(struct tn_op) { .kind = TN_OP_CLOSE, .session = secret_of('A') }, &result);
    CHECK_EQ_U64(result.count, 2);
    CHECK(result.list[0].kind == TN_NOTICE_CHANGED);
    CHECK(result.list[1].kind == TN_NOTICE_ENDED);
    CHECK_EQ_U64(result.list[1].session.bytes[0], 'A');
    tn_table_step(table, TN_MS(10000), &(struct tn_op) { .kind = TN_OP_TICK }, &result);
    CHECK_EQ_U64(result.count, 1);
    CHECK(result.list[0].kind == TN_NOTICE_ENDED);
    CHECK_EQ_U64(result.list[0].session.bytes[0], 'B');
}

TEST(a_table_too_small_for_anything_is_our_bug)
{
    struct tn_table_limits none = { .sessions = 1, .leases = 1, .text_bytes = 31 };

    CHECK_ASSERTS((void)tn_table_init(block, &none));
    none = (struct tn_table_limits) { .sessions = 0, .leases = 1, .text_bytes = 32 };
    CHECK_ASSERTS((void)tn_table_init(block, &none));
    none = (struct tn_table_limits) { .sessions = 1, .leases = 0, .text_bytes = 32 };
    CHECK_ASSERTS((void)tn_table_init(block, &none));
}

TEST(a_name_longer_than_the_longest_is_our_bug)
{
    char name[TN_NAME_MAX + 2];
    struct tn_op op;

    start_held();
    memset(name, 'a', sizeof name);
    op = op_by(TN_OP_ACQUIRE, 'A', 2, "");
    op.name = name;
    op.name_len = TN_NAME_MAX + 1;
    CHECK_ASSERTS((void)feed(200, op));
    op.name_len = TN_NAME_MAX + 2;
    CHECK_ASSERTS((void)feed(200, op));
}

/* --- Finding and walking ---------------------------------------------------------------------- */

TEST(iteration_meets_every_lease_in_use_once)
{
    unsigned met = 0;

    start_small(2, 4, 4, 1024);
    CHECK_EQ_U64(tn_table_next(table, 0), 0);
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_STR(acquires(1, 'A', 1, "a"), "granted 1; a held 1");
    CHECK_STR(acquires(1, 'A', 2, "b"), "granted 2; b held 2");
    CHECK_STR(acquires(1, 'A', 3, "c"), "granted 3; c held 3");
    CHECK_STR(releases(2, 'A', 2, "b", 2), "released; b free 2");
    for (uint32_t i = tn_table_next(table, 0); i != 0; i = tn_table_next(table, i)) {
        struct tn_lease_view view;
        tn_table_lease(table, i, &view);
        CHECK_EQ_U64(view.name_len, 1);
        met |= 1U << (view.name[0] - 'a');
        CHECK(view.name[0] == 'b' ? view.session == NULL : view.session != NULL);
    }
    CHECK_EQ_U64(met, 7);
}

TEST(iteration_passes_by_a_slot_that_is_not_in_use)
{
    start_small(2, 4, 4, 64);
    CHECK_STR(opens_unnamed(0, 'A'), "ok");
    CHECK_STR(acquires(1, 'A', 1, "a"), "granted 1; a held 1");
    (void)acquires(1, 'A', 1, name_of('b', 32));
    CHECK_STR(acquires(1, 'A', 1, "c"), "granted 3; c held 3");
    CHECK_STR(releases(2, 'A', 1, "a", 1), "released; a free 1");
    (void)releases(3, 'A', 1, name_of('b', 32), 2);
    /* Only the second one forgotten makes room for a name of this length. */
    (void)acquires(4, 'A', 1, name_of('d', 17));
    CHECK(result.answer == TN_ANSWER_GRANTED);
    CHECK_EQ_U64(tn_table_next(table, 0), 2);
    CHECK_EQ_U64(tn_table_next(table, 2), 3);
    CHECK_EQ_U64(tn_table_next(table, 3), 0);
}

TEST(five_thousand_names_are_all_found_again)
{
    start_small(2, 5000, 4, 5000 * 16 + 64);
    CHECK_STR(opens(0, 'A'), "ok");
    for (unsigned i = 1; i <= 5000; i++) {
        (void)acquires(1, 'A', 1, numbered(i));
        CHECK(result.answer == TN_ANSWER_GRANTED);
        CHECK_EQ_U64(result.token, i);
    }
    CHECK_STR(acquires(2, 'A', 1, "one-too-many"), "full");
    for (unsigned i = 1; i <= 5000; i++) {
        (void)reads(2, numbered(i));
        CHECK(result.answer == TN_ANSWER_HELD);
        CHECK_EQ_U64(result.token, i);
    }
    for (unsigned i = 1; i <= 5000; i += 2) {
        (void)releases(3, 'A', 1, numbered(i), i);
        CHECK(result.answer == TN_ANSWER_RELEASED);
    }
    for (unsigned i = 5001; i <= 7500; i++) {
        (void)acquires(4, 'A', 1, numbered(i));
        CHECK(result.answer == TN_ANSWER_GRANTED);
    }
    for (unsigned i = 1; i <= 7500; i++) {
        (void)reads(5, numbered(i));
        CHECK(result.answer == (i <= 5000 && i % 2 == 1 ? TN_ANSWER_FREE : TN_ANSWER_HELD));
    }
}

/* --- Timers ----------------------------------------------------------------------------------- */

TEST(sessions_expire_in_the_order_of_their_ends_not_of_their_beginnings)
{
    static const int seconds[] = { 50, 20, 70, 10, 60, 30, 80, 40, 90, 15, 25 };
    const size_t count = sizeof seconds / sizeof seconds[0];

    start();
    for (size_t i = 0; i < count; i++) {
        struct tn_op op = open_of('A' + (int)i);
        op.ttl = TN_SEC(seconds[i]);
        CHECK_STR(feed(0, op), "ok");
    }
    for (int second = 1; second <= 100; second++) {
        for (size_t i = 0; i < count; i++) {
            struct tn_op op = op_by(TN_OP_ACQUIRE, 'A' + (int)i, 1, "x");
            (void)feed(1000 * second, op);
            CHECK((result.answer == TN_ANSWER_GONE) == (second >= seconds[i]));
        }
        CHECK(wakes_at() == -1 || wakes_at() > 1000 * second);
    }
    CHECK_EQ_I64(wakes_at(), -1);
}

TEST(closing_sessions_in_any_order_keeps_the_timers_of_the_others)
{
    for (unsigned first = 0; first < 12; first++) {
        start();
        for (int i = 0; i < 12; i++) {
            struct tn_op op = open_of('A' + i);
            op.ttl = TN_SEC(10 + i * 7 % 12);
            CHECK_STR(feed(0, op), "ok");
        }
        for (unsigned i = 0; i < 11; i++)
            CHECK_STR(closes(1, 'A' + (int)((first + i * 5) % 12)), "ok");
        int last = (int)((first + 55) % 12);
        CHECK_EQ_I64(wakes_at(), 10000 + 1000 * (last * 7 % 12));
    }
}
