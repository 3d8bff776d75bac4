/* history_test.c - terms, gaps and their causes, the bounds of a history, and its lines. */
#include "runtime/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "runtime/clock.h"
#include "tests/harness/test.h"

static struct tn_term term_at(uint64_t token, int64_t from)
{
    return (struct tn_term) {
        .token = token, .from = from, .ttl_ms = 3000, .label = "web1", .label_len = 4
    };
}

static void lead(struct tn_history *history, const char *name, uint64_t token, int64_t from,
                 int64_t to, enum tn_term_end why, int64_t heard)
{
    struct tn_term term = term_at(token, from);

    tn_history_began(history, name, strlen(name), &term);
    if (why != TN_TERM_OPEN)
        tn_history_ended(history, name, strlen(name), token, why, to, heard);
}

static const char *cause_of(enum tn_term_end end, int64_t next_from, bool *ret_counts)
{
    struct tn_term term = term_at(1, 1000);
    struct tn_term next = term_at(2, next_from);
    static struct tn_gap gap;

    term.end = end;
    term.to = 5000;
    if (!tn_gap_after(&term, next_from > 0 ? &next : NULL, 20000, &gap))
        return "none";
    *ret_counts = gap.counts;
    return gap.cause;
}

TEST(a_gap_has_the_cause_that_ended_the_term)
{
    bool counts = false;

    CHECK_STR(cause_of(TN_TERM_RELEASED, 5400, &counts), "hand-over");
    CHECK(counts);
    CHECK_STR(cause_of(TN_TERM_RELEASED, 10001, &counts), "nobody ready");
    CHECK(counts);
    CHECK_STR(cause_of(TN_TERM_RELEASED, 0, &counts), "nobody ready");
    CHECK(!counts); /* A job that is done needs no leader. */
    CHECK_STR(cause_of(TN_TERM_EXPIRED, 6000, &counts), "crash");
    CHECK_STR(cause_of(TN_TERM_GONE, 0, &counts), "crash");
    CHECK(counts);
    CHECK_STR(cause_of(TN_TERM_REVOKED, 6000, &counts), "revoked");
    CHECK_STR(cause_of(TN_TERM_STORE, 6000, &counts), "store gone");
    CHECK_STR(cause_of(TN_TERM_UNKNOWN, 6000, &counts), "unknown");
    CHECK_STR(cause_of(TN_TERM_OPEN, 6000, &counts), "none");
    CHECK_STR(cause_of(TN_TERM_RELEASED, 5000, &counts), "none");
}

TEST(the_gap_of_a_silent_holder_counts_from_its_last_renewal)
{
    struct tn_term terms[] = { term_at(1, 1000), term_at(2, 9000) };
    struct tn_gap gap;

    terms[0].end = TN_TERM_EXPIRED;
    terms[0].to = 8000;
    terms[0].heard = 5000;
    CHECK(tn_gap_longest(terms, 2, 10000, true, &gap));
    CHECK_EQ_I64(gap.ms, 4000);
    CHECK_EQ_I64(gap.from, 5000);
    /* More than a day ago, it is no gap of this day. */
    CHECK(!tn_gap_longest(terms, 2, 9001 + TN_DAY_MS, true, &gap));
}

TEST(the_oldest_ended_terms_go_first_and_those_that_go_on_stay)
{
    struct tn_history history;
    size_t count;

    tn_history_init(&history, (struct tn_hash_key) { 1, 2 }, 3, 5);
    lead(&history, "long", 1, 100, 0, TN_TERM_OPEN, 0);
    for (uint64_t token = 2; token < 12; token++)
        lead(&history, "busy", token, 100 * (int64_t)token, 100 * (int64_t)token + 50,
             TN_TERM_RELEASED, 0);
    struct tn_term *terms = tn_history_terms(&history, "busy", 4, &count);
    CHECK_EQ_U64(count, 3);
    CHECK_EQ_U64(terms[0].token, 9);
    free(terms);
    for (uint64_t token = 20; token < 24; token++) {
        char name[8];
        (void)snprintf(name, sizeof name, "n%d", (int)token);
        lead(&history, name, token, 5000, 5001, TN_TERM_RELEASED, 0);
    }
    CHECK_EQ_U64(history.ends, 5);
    terms = tn_history_terms(&history, "busy", 4, &count);
    CHECK_EQ_U64(count, 1);
    free(terms);
    terms = tn_history_terms(&history, "long", 4, &count);
    CHECK_EQ_U64(count, 1);
    CHECK(terms[0].end == TN_TERM_OPEN);
    free(terms);
    tn_history_done(&history);
}

TEST(terms_that_go_on_are_bounded_too)
{
    struct tn_history history;
    char name[16];
    size_t count;

    tn_history_init(&history, (struct tn_hash_key) { 1, 2 }, 3, 5);
    for (uint64_t token = 1; token <= 20; token++) {
        (void)snprintf(name, sizeof name, "n%d", (int)token);
        lead(&history, name, token, 100, 0, TN_TERM_OPEN, 0);
    }
    CHECK_EQ_U64(history.count, 5);
    CHECK_EQ_U64(history.names.count, 5);
    /* The end of one that is not on record says nothing; that of another makes room. */
    tn_history_ended(&history, "n20", 3, 20, TN_TERM_RELEASED, 200, 0);
    CHECK_EQ_U64(history.ends, 0);
    tn_history_ended(&history, "n1", 2, 1, TN_TERM_RELEASED, 200, 0);
    lead(&history, "n20", 21, 300, 0, TN_TERM_OPEN, 0);
    free(tn_history_terms(&history, "n20", 3, &count));
    CHECK_EQ_U64(count, 1);
    lead(&history, "n2", 22, 300, 0, TN_TERM_OPEN, 0); /* In the place of its own term. */
    free(tn_history_terms(&history, "n2", 2, &count));
    CHECK_EQ_U64(count, 2);
    CHECK_EQ_U64(history.count - history.ends, 5);
    tn_history_done(&history);
}

/* What takes the square of the names takes minutes here. */
TEST(many_names_are_let_go_in_linear_time)
{
    enum { NAMES = 300000 };
    struct tn_history history;
    char name[16];

    tn_history_init(&history, (struct tn_hash_key) { 1, 2 }, 3, NAMES);
    for (int i = 1; i <= NAMES; i++) {
        (void)snprintf(name, sizeof name, "n%d", i);
        lead(&history, name, (uint64_t)i, 100, 0, TN_TERM_OPEN, 0);
    }
    tenure_ns began = tn_boottime();
    tn_history_done(&history);
    CHECK(tn_boottime() - began < TN_SEC(10));
}

TEST(a_label_longer_than_any_is_not_believed)
{
    struct tn_history history;
    char bytes[2000];
    size_t count;

    int len = snprintf(bytes, sizeof bytes,
                       "{\"name\":\"a\",\"token\":1,\"from\":5,\"holder\":\"%01000d\"}\n", 7);
    tn_history_init(&history, (struct tn_hash_key) { 1, 2 }, 10, 100);
    tn_history_read(&history, bytes, (size_t)len);
    struct tn_term *terms = tn_history_terms(&history, "a", 1, &count);
    CHECK_EQ_U64(count, 1);
    CHECK_EQ_U64(terms[0].label_len, 0);
    free(terms);
    tn_history_done(&history);
}

TEST(what_is_written_is_read_again_and_a_line_cut_off_is_left_out)
{
    struct tn_history first, second;
    size_t len, count;

    tn_history_init(&first, (struct tn_hash_key) { 1, 2 }, 10, 100);
    first.since = 77;
    lead(&first, "a/b", 5, 100, 300, TN_TERM_EXPIRED, 200);
    lead(&first, "a/b", 6, 400, 0, TN_TERM_OPEN, 0);
    char *bytes = tn_history_dump(&first, &len);
    CHECK(bytes != NULL);
    CHECK(tn_history_take(&first, &count) == NULL);
    lead(&first, "a/b", 7, 500, 600, TN_TERM_REVOKED, 0); /* 6 was not seen to end. */
    size_t more_len;
    char *more = tn_history_take(&first, &more_len);
    char *all = malloc(len + more_len);
    memcpy(all, bytes, len);
    memcpy(all + len, more, more_len - 3); /* The last line is not whole. */
    tn_history_init(&second, (struct tn_hash_key) { 3, 4 }, 10, 100);
    tn_history_read(&second, all, len + more_len - 3);
    CHECK_EQ_I64(second.since, 77);
    struct tn_term *terms = tn_history_terms(&second, "a/b", 3, &count);
    CHECK_EQ_U64(count, 3);
    CHECK_EQ_I64(terms[0].heard, 200);
    CHECK(terms[0].end == TN_TERM_EXPIRED);
    CHECK(terms[1].end == TN_TERM_UNKNOWN);
    CHECK_EQ_I64(terms[1].to, 500);
    CHECK(terms[2].end == TN_TERM_OPEN);
    CHECK(terms[2].label_len == 4 && memcmp(terms[2].label, "web1", 4) == 0);
    free(terms);
    free(bytes);
    free(more);
    free(all);
    tn_history_done(&first);
    tn_history_done(&second);
}

TEST(a_store_that_began_anew_has_low_tokens_again)
{
    struct tn_history first, second;
    size_t len, count;

    tn_history_init(&first, (struct tn_hash_key) { 1, 2 }, 10, 100);
    lead(&first, "a", 5, 100, 300, TN_TERM_RELEASED, 0);
    lead(&first, "a", 4, 200, 0, TN_TERM_OPEN, 0); /* Late news. */
    lead(&first, "a", 1, 400, 500, TN_TERM_RELEASED, 0);
    lead(&first, "a", 1, 600, 0, TN_TERM_OPEN, 0); /* Anew once more. */
    char *bytes = tn_history_dump(&first, &len);
    tn_history_init(&second, (struct tn_hash_key) { 3, 4 }, 10, 100);
    tn_history_read(&second, bytes, len);
    struct tn_term *terms = tn_history_terms(&second, "a", 1, &count);
    CHECK_EQ_U64(count, 3);
    CHECK_EQ_U64(terms[0].token, 5);
    CHECK_EQ_I64(terms[1].to, 500);
    CHECK_EQ_I64(terms[2].from, 600);
    CHECK(terms[2].end == TN_TERM_OPEN);
    free(terms);
    free(bytes);
    tn_history_done(&first);
    tn_history_done(&second);
}

TEST(a_storm_of_terms_is_written_as_a_whole_instead)
{
    struct tn_history history;
    size_t len;

    tn_history_init(&history, (struct tn_hash_key) { 1, 2 }, 10, 100);
    for (uint64_t token = 1; token < 10000; token++)
        lead(&history, "storm", token, (int64_t)token, (int64_t)token, TN_TERM_RELEASED, 0);
    CHECK(history.whole);
    CHECK(history.pending_len <= TN_HISTORY_PENDING);
    char *bytes = tn_history_dump(&history, &len);
    CHECK(len < 4000);
    CHECK(!history.whole);
    free(bytes);
    tn_history_done(&history);
}

TEST(lines_that_are_none_change_nothing)
{
    struct tn_history history;
    char bytes[] = "\n{}\n[1]\nnonsense\n{\"name\":\"a\",\"token\":-1,\"from\":5}\n"
                   "{\"name\":\"a\",\"token\":1,\"from\":4611686018427387900}\n";

    tn_history_init(&history, (struct tn_hash_key) { 1, 2 }, 10, 100);
    tn_history_read(&history, bytes, sizeof bytes - 1);
    CHECK_EQ_U64(history.count, 0);
    tn_history_done(&history);
}
