/* term_test.c - terms begin, go on and end as the header says. */
#include <stdatomic.h>
#include <string.h>

#include "lib/private.h"
#include "runtime/clock.h"
#include "tests/lib/stage.h"

TEST(a_campaign_wins_and_the_token_is_valid)
{
    struct listener *listener = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    struct tenure_election *election = stage_campaign(tenure, "job", 0, listener);

    CHECK(listener_waits(listener, TENURE_WON, 1));
    uint64_t token = listener_last(listener, TENURE_WON).token;
    CHECK(token > 0);
    CHECK_EQ_U64(tenure_token(election), token);
    CHECK(tenure_deadline(election) > tn_boottime());
    CHECK(tenure_deadline(election) < tn_boottime() + TN_SEC(1));
    CHECK_STR(tenure_name(election), "job");
    CHECK_EQ_I64(tenure_health(tenure, NULL), 0);
    CHECK_EQ_I64(tenure_close(tenure), 0);
    CHECK_EQ_U64(listener_count(listener, TENURE_LOST), 0);
}

/* `tenure run --wait` tells by it whether another leads (75) or the store does not answer (69). */
TEST(a_renewal_does_not_hide_that_the_name_cannot_be_asked_for)
{
    struct listener *one = listener_new(), *two = listener_new();
    const char *url = stage_url();
    struct tenure *a = stage_open(url, "a", 0), *b = stage_open(url, "b", 0);
    tenure_ns by = tn_boottime() + STAGE_PATIENCE;

    (void)stage_campaign(a, "job", 0, one);
    CHECK(listener_waits(one, TENURE_WON, 1));
    stage_spoil_each(1u << TN_OP_ACQUIRE);
    (void)stage_campaign(b, "job", 0, two);
    while (tenure_health(b, NULL) != TENURE_E_UNAVAILABLE && tn_boottime() < by)
        tn_clock_pause(TN_MS(1));
    unsigned renewed = stage_sent(TN_OP_RENEW);
    while (stage_sent(TN_OP_RENEW) < renewed + 6 && tn_boottime() < by) {
        CHECK_EQ_I64(tenure_health(b, NULL), TENURE_E_UNAVAILABLE);
        tn_clock_pause(TN_MS(1));
    }
    stage_spoil_each(0);
    while (tenure_health(b, NULL) != 0 && tn_boottime() < by)
        tn_clock_pause(TN_MS(1));
    CHECK_EQ_I64(tenure_health(b, NULL), 0);
    CHECK_EQ_I64(tenure_close(b), 0);
    CHECK_EQ_I64(tenure_close(a), 0);
}

TEST(one_of_two_leads_and_close_hands_over)
{
    struct listener *one = listener_new(), *two = listener_new();
    const char *url = stage_url();
    struct tenure *a = stage_open(url, "a", 0), *b = stage_open(url, "b", 0);
    struct tenure_election *first = stage_campaign(a, "job", 0, one);

    CHECK(listener_waits(one, TENURE_WON, 1));
    struct tenure_election *second = stage_campaign(b, "job", 0, two);
    CHECK(listener_waits(two, TENURE_LEADER, 1));
    CHECK_STR(two->leader, "a");
    CHECK_EQ_U64(tenure_token(second), 0);
    CHECK_EQ_I64(tenure_deadline(second), 0);
    uint64_t token = tenure_token(first);
    CHECK(token != 0);
    CHECK_EQ_I64(tenure_close(a), 0);
    CHECK(listener_waits(two, TENURE_WON, 1));
    CHECK(listener_last(two, TENURE_WON).token > token);
    CHECK_EQ_I64(tenure_close(b), 0);
}

TEST(resign_then_drained_then_the_successor_leads)
{
    struct listener *one = listener_new(), *two = listener_new();
    const char *url = stage_url();
    struct tenure *a = stage_open(url, "a", 0), *b = stage_open(url, "b", 0);
    struct tenure_election *first = stage_campaign(a, "job", 0, one);

    CHECK(listener_waits(one, TENURE_WON, 1));
    struct tenure_election *second = stage_campaign(b, "job", 0, two);
    CHECK_EQ_I64(tenure_resign(first), 0);
    CHECK(listener_waits(one, TENURE_STOP, 1));
    CHECK(tenure_token(first) != 0); /* Still leads, to finish what it does. */
    CHECK_EQ_U64(tenure_token(second), 0);
    CHECK_EQ_I64(tenure_drained(first), 0);
    CHECK_EQ_U64(tenure_token(first), 0);
    CHECK(listener_waits(two, TENURE_WON, 1));
    CHECK(listener_waits(one, TENURE_LOST, 1));
    CHECK_EQ_I64(listener_last(one, TENURE_LOST).reason, TENURE_REASON_RELEASED);
    /* It stands again when asked to, not before. */
    CHECK_EQ_I64(tenure_resign(second), 0);
    CHECK_EQ_I64(tenure_drained(second), 0);
    CHECK(listener_waits(two, TENURE_LOST, 1));
    CHECK_EQ_I64(tenure_stand(first), 0);
    CHECK(listener_waits(one, TENURE_WON, 2));
    CHECK_EQ_U64(listener_count(two, TENURE_WON), 1);
    CHECK_EQ_I64(tenure_close(a), 0);
    CHECK_EQ_I64(tenure_close(b), 0);
}

TEST(drained_on_return_needs_no_call)
{
    struct listener *one = listener_new(), *two = listener_new();
    const char *url = stage_url();
    struct tenure *a = stage_open(url, "a", 0), *b = stage_open(url, "b", 0);
    struct tenure_election *first = stage_campaign(a, "job", TENURE_DRAINED_ON_RETURN, one);

    CHECK(listener_waits(one, TENURE_WON, 1));
    (void)stage_campaign(b, "job", 0, two);
    CHECK_EQ_I64(tenure_resign(first), 0);
    CHECK(listener_waits(two, TENURE_WON, 1));
    CHECK(listener_waits(one, TENURE_LOST, 1));
    CHECK_EQ_U64(listener_count(one, TENURE_STOP), 1);
    CHECK_EQ_I64(tenure_close(a), 0);
    CHECK_EQ_I64(tenure_close(b), 0);
}

/* The work is done: the term ends, and as nobody resigned, there is another. */
TEST(drained_alone_ends_the_term_and_the_campaign_goes_on)
{
    struct listener *listener = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    struct tenure_election *election = stage_campaign(tenure, "job", 0, listener);

    for (unsigned term = 1; term <= 20; term++) {
        CHECK(listener_waits(listener, TENURE_WON, term));
        CHECK_EQ_I64(tenure_drained(election), 0);
        CHECK(listener_waits(listener, TENURE_LOST, term));
    }
    CHECK(listener_waits(listener, TENURE_WON, 21));
    CHECK_EQ_U64(listener_count(listener, TENURE_STOP), 0);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

TEST(who_is_not_ready_does_not_lead)
{
    struct listener *one = listener_new(), *two = listener_new();
    const char *url = stage_url();
    struct tenure *a = stage_open(url, "a", 0), *b = stage_open(url, "b", 0);
    struct tenure_election *first = stage_campaign(a, "job", TENURE_NOT_READY, one);
    struct tenure_election *second = stage_campaign(b, "job", 0, two);

    CHECK(listener_waits(two, TENURE_WON, 1));
    CHECK_EQ_U64(tenure_token(first), 0);
    CHECK_EQ_I64(tenure_ready(first, true), 0);
    CHECK_EQ_I64(tenure_resign(second), 0);
    CHECK_EQ_I64(tenure_drained(second), 0);
    CHECK(listener_waits(one, TENURE_WON, 1));
    /* A term goes on; the next one is not taken. */
    CHECK_EQ_I64(tenure_ready(first, false), 0);
    CHECK(tenure_token(first) != 0);
    CHECK_EQ_I64(tenure_drained(first), 0);
    CHECK_EQ_I64(tenure_stand(second), 0);
    CHECK(listener_waits(two, TENURE_WON, 2));
    CHECK_EQ_U64(listener_count(one, TENURE_WON), 1);
    CHECK_EQ_I64(tenure_close(a), 0);
    CHECK_EQ_I64(tenure_close(b), 0);
}

TEST(a_stalled_work_loop_ends_the_term_and_gets_no_other_until_drained)
{
    struct listener *listener = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    struct tenure_campaign campaign = { .size = sizeof campaign,
                                        .callback = listener_hear,
                                        .arg = listener,
                                        .stall_after = TN_MS(300) };
    struct tenure_election *election;

    CHECK_EQ_I64(tenure_campaign(tenure, "job", &campaign, &election), 0);
    CHECK(listener_waits(listener, TENURE_WON, 1));
    tenure_ns until = tn_boottime() + TN_MS(450);
    while (tn_boottime() < until) { /* Longer than one stall. */
        CHECK_EQ_I64(tenure_check_in(election), 0);
        tn_clock_pause(TN_MS(5));
    }
    CHECK_EQ_U64(listener_count(listener, TENURE_LOST), 0);
    CHECK(tenure_token(election) != 0);
    CHECK(listener_waits(listener, TENURE_LOST, 1));
    CHECK_EQ_I64(listener_last(listener, TENURE_LOST).reason, TENURE_REASON_STALLED);
    CHECK_EQ_U64(tenure_token(election), 0);
    /* Even when the deadline has let the lease go: another process may lead, this one not. */
    struct listener *other = listener_new();
    (void)stage_campaign(tenure, "job", 0, other);
    CHECK(listener_waits(other, TENURE_WON, 1));
    CHECK_EQ_U64(listener_count(listener, TENURE_WON), 1);
    CHECK_EQ_I64(tenure_check_in(election), 0);
    CHECK_EQ_U64(listener_count(listener, TENURE_WON), 1);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

/* As above, with nobody else: its own drained is what brings the next term. */
TEST(drained_after_a_stall_brings_the_next_term)
{
    struct listener *listener = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    struct tenure_campaign campaign = { .size = sizeof campaign,
                                        .callback = listener_hear,
                                        .arg = listener,
                                        .stall_after = TN_MS(50) };
    struct tenure_election *election;

    CHECK_EQ_I64(tenure_campaign(tenure, "job", &campaign, &election), 0);
    CHECK(listener_waits(listener, TENURE_LOST, 1));
    CHECK_EQ_U64(listener_count(listener, TENURE_WON), 1);
    CHECK_EQ_I64(tenure_drained(election), 0);
    CHECK(listener_waits(listener, TENURE_WON, 2));
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

TEST(an_observer_hears_who_leads_and_never_leads)
{
    struct listener *watcher = listener_new(), *one = listener_new();
    const char *url = stage_url();
    struct tenure *a = stage_open(url, "a", 0), *w = stage_open(url, "w", 0);
    struct tenure_election *watched, *election;

    CHECK_EQ_I64(tenure_observe(w, "job", listener_hear, watcher, &watched), 0);
    CHECK(listener_waits(watcher, TENURE_VACANT, 1));
    CHECK_EQ_U64(listener_last(watcher, TENURE_VACANT).token, 0);
    election = stage_campaign(a, "job", 0, one);
    CHECK(listener_waits(one, TENURE_WON, 1));
    CHECK(listener_waits(watcher, TENURE_LEADER, 1));
    CHECK_EQ_U64(listener_last(watcher, TENURE_LEADER).token, tenure_token(election));
    CHECK_STR(watcher->leader, "a");
    CHECK_EQ_I64(tenure_stand(watched), 0); /* Has nothing to stand for. */
    CHECK_EQ_I64(tenure_resign(election), 0);
    CHECK_EQ_I64(tenure_drained(election), 0);
    CHECK(listener_waits(watcher, TENURE_VACANT, 2));
    CHECK(listener_last(watcher, TENURE_VACANT).token > 0);
    CHECK_EQ_U64(tenure_token(watched), 0);
    CHECK_EQ_U64(listener_count(watcher, TENURE_WON), 0);
    tenure_leave(watched);
    CHECK_EQ_I64(tenure_close(a), 0);
    CHECK_EQ_I64(tenure_close(w), 0);
}

TEST(a_renewal_is_told_to_who_asks_and_moves_the_deadline)
{
    struct listener *one = listener_new(), *two = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    struct tenure_election *election = stage_campaign(tenure, "x", TENURE_TELL_RENEWED, one);
    tenure_ns before = 0;

    (void)stage_campaign(tenure, "y", 0, two);
    CHECK(listener_waits(one, TENURE_WON, 1));
    CHECK(listener_waits(two, TENURE_WON, 1));
    for (unsigned i = 1; i <= 3; i++) {
        tenure_ns deadline = tenure_deadline(election);
        CHECK(deadline >= before);
        before = deadline;
        unsigned heard = listener_count(one, TENURE_RENEWED);
        CHECK(listener_waits(one, TENURE_RENEWED, heard + 1));
        CHECK(tenure_deadline(election) > deadline);
    }
    CHECK_EQ_U64(listener_count(two, TENURE_RENEWED), 0);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

TEST(a_lost_renewal_is_jeopardy_and_the_next_makes_it_safe)
{
    struct listener *listener = listener_new();
    /* Between jeopardy and the deadline a busy machine needs a second or two. */
    struct tenure *tenure = stage_open_ttl(stage_url(), "a", 0, TN_SEC(5));
    struct tenure_election *election = stage_campaign(tenure, "job", 0, listener);

    CHECK(listener_waits(listener, TENURE_WON, 1));
    stage_lose("a", 1u << TN_OP_RENEW);
    CHECK(listener_waits(listener, TENURE_JEOPARDY, 1));
    CHECK(tenure_token(election) != 0);
    stage_lose("a", 0); /* The late one arrives together with the next. */
    CHECK(listener_waits(listener, TENURE_SAFE, 1));
    CHECK(tenure_token(election) != 0);
    CHECK_EQ_U64(listener_count(listener, TENURE_LOST), 0);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

/* The store does not answer: the term is over by its deadline, and told so about then. */
TEST(without_renewals_the_term_expires_at_its_deadline)
{
    struct listener *listener = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    struct tenure_election *election =
        stage_campaign(tenure, "job", TENURE_DRAINED_ON_RETURN, listener);
    tenure_ns deadline = 0, last = 0;

    CHECK(listener_waits(listener, TENURE_WON, 1));
    stage_lose("a", 1u << TN_OP_RENEW | 1u << TN_OP_OPEN);
    while ((last = tenure_deadline(election)) != 0) {
        CHECK(last >= deadline); /* It never goes back. */
        deadline = last;
    }
    CHECK(tn_boottime() >= deadline);
    CHECK(listener_waits(listener, TENURE_LOST, 1));
    CHECK(tn_boottime() < deadline + TN_MS(500));
    CHECK_EQ_I64(listener_last(listener, TENURE_LOST).reason, TENURE_REASON_EXPIRED);
    stage_lose("a", 0);
    CHECK(listener_waits(listener, TENURE_WON, 2));
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

/* P5: a worker that asks for the token may be at work before WON is told. Its term is given back
 * only when it has stopped, like any other. */
TEST(a_term_whose_token_was_read_is_told_and_drained_though_it_ends_before_won)
{
    struct listener *listener = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", TENURE_OWN_LOOP);
    struct tenure_election *election = stage_campaign(tenure, "job", 0, listener);

    CHECK(stage_leads(election, true));
    CHECK_EQ_I64(tenure_resign(election), 0); /* Nobody has dispatched WON. */
    tenure_ns by = tn_boottime() + STAGE_PATIENCE;
    while (listener_count(listener, TENURE_STOP) == 0 && tn_boottime() < by)
        CHECK(tenure_dispatch(tenure) >= 0);
    CHECK_EQ_U64(listener_count(listener, TENURE_WON), 1);
    CHECK_EQ_U64(listener_count(listener, TENURE_STOP), 1);
    CHECK_EQ_U64(stage_sent(TN_OP_RELEASE), 0);
    CHECK_EQ_I64(tenure_drained(election), 0);
    while (listener_count(listener, TENURE_LOST) == 0 && tn_boottime() < by)
        CHECK(tenure_dispatch(tenure) >= 0);
    CHECK_STR(listener->broken, NULL);
    CHECK_EQ_I64(listener_last(listener, TENURE_LOST).reason, TENURE_REASON_RELEASED);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

/* The same for a term that is lost: WON comes before LOST, also when both come late. */
TEST(a_term_whose_token_was_read_is_told_though_it_is_lost_before_won)
{
    struct listener *listener = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", TENURE_OWN_LOOP);
    struct tenure_election *election = stage_campaign(tenure, "job", 0, listener);

    CHECK(stage_leads(election, true));
    stage_lose("a", 1u << TN_OP_RENEW);
    CHECK(stage_leads(election, false));
    tenure_ns by = tn_boottime() + STAGE_PATIENCE;
    while (listener_count(listener, TENURE_LOST) == 0 && tn_boottime() < by)
        CHECK(tenure_dispatch(tenure) >= 0);
    CHECK_STR(listener->broken, NULL);
    CHECK_EQ_U64(listener_count(listener, TENURE_WON), 1);
    CHECK_EQ_U64(listener_count(listener, TENURE_LOST), 1);
    CHECK_EQ_U64(listener_last(listener, TENURE_WON).token,
                 listener_last(listener, TENURE_LOST).token);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

/* Who knows nothing of a term has nothing to stop: it gets neither WON nor LOST of it. */
TEST(a_term_that_ends_before_it_was_told_is_not_told)
{
    struct listener *listener = listener_new();
    struct listener *other = listener_new();
    const char *url = stage_url();
    struct tenure *tenure = stage_open(url, "a", TENURE_OWN_LOOP);
    struct tenure *looks = stage_open(url, "b", 0);
    struct tenure_election *seen = NULL;
    struct tenure_election *election = stage_campaign(tenure, "job", 0, listener);

    CHECK_EQ_I64(tenure_observe(looks, "job", listener_hear, other, &seen), 0);
    CHECK(listener_waits(other, TENURE_LEADER, 1));
    CHECK_EQ_I64(tenure_resign(election), 0); /* Nobody has dispatched WON. */
    tenure_ns by = tn_boottime() + STAGE_PATIENCE;
    while (tenure_token(election) != 0 && tn_boottime() < by)
        CHECK(tenure_dispatch(tenure) >= 0);
    CHECK_EQ_U64(tenure_token(election), 0);
    CHECK_EQ_I64(tenure_stand(election), 0);
    while (listener_count(listener, TENURE_WON) == 0 && tn_boottime() < by)
        CHECK(tenure_dispatch(tenure) >= 0);
    CHECK_STR(listener->broken, NULL);
    CHECK_EQ_U64(listener_count(listener, TENURE_WON), 1);
    CHECK_EQ_U64(listener_count(listener, TENURE_LOST), 0);
    CHECK_EQ_U64(listener_count(listener, TENURE_STOP), 0);
    CHECK_EQ_U64(listener_last(listener, TENURE_WON).token, tenure_token(election));
    CHECK_EQ_I64(tenure_close(looks), 0);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

/* A reader that took the token just before it was cleared marks it as seen, and then finds it
 * cleared: it does not lead, and neither do those who find its mark. */
TEST(a_reader_that_comes_too_late_does_not_bring_a_term_back)
{
    struct listener *listener = listener_new();
    struct listener *other = listener_new();
    const char *url = stage_url();
    struct tenure *tenure = stage_open(url, "a", TENURE_OWN_LOOP);
    struct tenure *looks = stage_open(url, "b", 0);
    struct tenure_election *seen = NULL;
    struct tenure_election *election = stage_campaign(tenure, "job", 0, listener);

    CHECK_EQ_I64(tenure_observe(looks, "job", listener_hear, other, &seen), 0);
    CHECK(listener_waits(other, TENURE_LEADER, 1));
    CHECK_EQ_I64(tenure_resign(election), 0); /* Nobody has dispatched WON: it is taken back. */
    atomic_store(&election->seen, true);
    CHECK_EQ_U64(tenure_token(election), 0);
    tenure_ns by = tn_boottime() + STAGE_PATIENCE;
    while (stage_sent(TN_OP_RELEASE) == 0 && tn_boottime() < by)
        CHECK(tenure_dispatch(tenure) >= 0);
    CHECK_EQ_I64(tenure_stand(election), 0);
    while (listener_count(listener, TENURE_WON) == 0 && tn_boottime() < by)
        CHECK(tenure_dispatch(tenure) >= 0);
    CHECK_STR(listener->broken, NULL);
    CHECK_EQ_U64(listener_count(listener, TENURE_LOST), 0);
    CHECK_EQ_I64(tenure_close(looks), 0);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

/* Who drains by itself need not wait to be told LOST; the next WON has to. */
TEST(lost_is_told_before_the_next_won)
{
    struct listener *listener = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", TENURE_OWN_LOOP);
    struct tenure_election *election = stage_campaign(tenure, "job", 0, listener);

    CHECK(stage_leads(election, true));
    CHECK(tenure_dispatch(tenure) > 0);
    CHECK_EQ_U64(listener_count(listener, TENURE_WON), 1);
    uint64_t token = tenure_token(election);
    CHECK_EQ_I64(tenure_drained(election), 0);
    CHECK(stage_leads(election, true));
    CHECK(tenure_token(election) > token);
    CHECK(tenure_dispatch(tenure) > 0);
    CHECK_STR(listener->broken, NULL);
    CHECK_EQ_U64(listener_count(listener, TENURE_WON), 2);
    CHECK_EQ_U64(listener_count(listener, TENURE_LOST), 1);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

/* A poller's work is not known of by callbacks, so only its own word ends it. */
TEST(without_a_callback_resigning_waits_for_drained)
{
    struct listener *two = listener_new();
    const char *url = stage_url();
    struct tenure *a = stage_open(url, "a", TENURE_OWN_LOOP), *b = stage_open(url, "b", 0);
    struct tenure_election *first = stage_campaign(a, "job", 0, NULL);

    CHECK(stage_leads(first, true));
    (void)stage_campaign(b, "job", 0, two);
    CHECK_EQ_I64(tenure_resign(first), 0);
    CHECK(tenure_dispatch(a) >= 0);
    CHECK_EQ_U64(tenure_token(first), 0); /* No event tells it to stop. */
    tn_clock_pause(TN_MS(150));           /* Within the grace. */
    CHECK_EQ_U64(listener_count(two, TENURE_WON), 0);
    CHECK_EQ_I64(tenure_drained(first), 0);
    CHECK(listener_waits(two, TENURE_WON, 1));
    CHECK_EQ_I64(tenure_close(a), 0);
    CHECK_EQ_I64(tenure_close(b), 0);
}

/* Who is told to lead is who has the token that is told, whatever comes late. */
TEST(late_word_of_an_earlier_leader_changes_nothing)
{
    struct listener *watcher = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "w", TENURE_OWN_LOOP);
    struct tenure_election *watched;
    tenure_ns by = tn_boottime() + STAGE_PATIENCE;

    CHECK_EQ_I64(tenure_observe(tenure, "job", listener_hear, watcher, &watched), 0);
    while (listener_count(watcher, TENURE_VACANT) == 0 && tn_boottime() < by)
        CHECK(tenure_dispatch(tenure) >= 0);
    stage_tell("job", 5, "new");
    stage_tell("job", 4, "old");
    while (listener_count(watcher, TENURE_LEADER) == 0 && tn_boottime() < by)
        CHECK(tenure_dispatch(tenure) >= 0);
    CHECK_EQ_U64(listener_last(watcher, TENURE_LEADER).token, 5);
    CHECK_STR(watcher->leader, "new");
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

/* SAFE is news only to who was told of the jeopardy. */
TEST(a_jeopardy_that_was_over_before_it_was_told_is_not_told)
{
    struct listener *listener = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", TENURE_OWN_LOOP);
    struct tenure_election *election = stage_campaign(tenure, "job", 0, listener);
    tenure_ns by = tn_boottime() + STAGE_PATIENCE;

    CHECK(stage_leads(election, true));
    CHECK(tenure_dispatch(tenure) > 0);
    unsigned sent = stage_sent(TN_OP_RENEW);
    stage_lose("a", 1u << TN_OP_RENEW);
    while (stage_sent(TN_OP_RENEW) < sent + 2 && tn_boottime() < by)
        tn_clock_pause(TN_MS(1)); /* The second try: the first is overdue. */
    stage_lose("a", 0);
    while (stage_sent(TN_OP_RENEW) < sent + 4 && tn_boottime() < by)
        tn_clock_pause(TN_MS(1));
    CHECK(tenure_dispatch(tenure) >= 0);
    CHECK_EQ_U64(listener_count(listener, TENURE_SAFE), 0);
    CHECK_EQ_U64(listener_count(listener, TENURE_JEOPARDY), 0);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

TEST(who_won_in_jeopardy_is_not_told_that_it_is_safe)
{
    struct listener *one = listener_new(), *two = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", 0);

    (void)stage_campaign(tenure, "x", TENURE_DRAINED_ON_RETURN, one);
    CHECK(listener_waits(one, TENURE_WON, 1));
    stage_lose("a", 1u << TN_OP_RENEW);
    CHECK(listener_waits(one, TENURE_JEOPARDY, 1));
    (void)stage_campaign(tenure, "y", TENURE_DRAINED_ON_RETURN, two);
    CHECK(listener_waits(two, TENURE_WON, 1));
    stage_lose("a", 0);
    CHECK(listener_waits(one, TENURE_SAFE, 1) || listener_count(one, TENURE_LOST) > 0);
    CHECK(listener_waits(two, TENURE_SAFE, 0)); /* Looks for what is broken. */
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

/* The grace is a fifth of the TTL here. */
TEST(a_drain_that_takes_longer_than_the_grace_is_a_stall_unless_patient)
{
    struct listener *hasty = listener_new(), *patient = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    struct tenure_election *x = stage_campaign(tenure, "x", 0, hasty);
    struct tenure_election *y = stage_campaign(tenure, "y", TENURE_PATIENT, patient);

    CHECK(listener_waits(hasty, TENURE_WON, 1));
    CHECK(listener_waits(patient, TENURE_WON, 1));
    CHECK_EQ_I64(tenure_resign(y), 0);
    CHECK_EQ_I64(tenure_resign(x), 0);
    CHECK(listener_waits(hasty, TENURE_LOST, 1));
    CHECK_EQ_I64(listener_last(hasty, TENURE_LOST).reason, TENURE_REASON_STALLED);
    CHECK_EQ_U64(listener_count(patient, TENURE_LOST), 0);
    CHECK(tenure_token(y) != 0);
    CHECK_EQ_I64(tenure_drained(y), 0);
    CHECK(listener_waits(patient, TENURE_LOST, 1));
    CHECK_EQ_I64(listener_last(patient, TENURE_LOST).reason, TENURE_REASON_RELEASED);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}
