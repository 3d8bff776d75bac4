/* agent_test.c - an agent's lease table and an agent's decisions. */
#include "tests/unit/table_script.h"

#include "core/agent.h"

static void start_agent(void)
{
    start_with((struct tn_table_limits) { .sessions = 32,
                                          .leases = 3,
                                          .waiters = 32,
                                          .text_bytes = 4096,
                                          .upstream = true,
                                          .hash_key = { 1, 2 } });
    CHECK_STR(opens(0, 'A'), "ok");
    CHECK_STR(opens(0, 'B'), "ok");
}

static const char *grants(int64_t at_ms, const char *name, uint64_t token)
{
    struct tn_op op = op_on(TN_OP_GRANT, name);
    op.token = token;
    return feed(at_ms, op);
}

static const char *recalls(int64_t at_ms, const char *name, int64_t until_ms)
{
    struct tn_op op = op_on(TN_OP_REVOKE, name);
    op.until = TN_MS(until_ms);
    return feed(at_ms, op);
}

static uint32_t session_of(char who)
{
    struct tn_secret secret = secret_of(who);

    return tn_table_session_of(table, &secret);
}

static int64_t allowed(const char *name)
{
    return tn_table_allowed(table, tn_table_lease_of(table, name, (uint32_t)strlen(name))) /
           TN_MS(1);
}

/* --- The table -------------------------------------------------------------------------------- */

TEST(an_agents_table_grants_nothing_by_itself)
{
    start_agent();
    CHECK_STR(acquires(1, 'A', 1, "x"), "queued; line x");
    CHECK_STR(acquires(2, 'A', 1, "x"), "queued");
    CHECK_STR(waits(3, 'B', 1, "x"), "queued");
    CHECK_STR(reads(4, "x"), "free 0");
    CHECK_EQ_U64(tn_table_token(table), 0);
}

TEST(a_grant_of_the_upstream_goes_to_the_first_in_line)
{
    start_agent();
    CHECK_STR(waits(1, 'A', 1, "x"), "queued; line x");
    CHECK_STR(waits(2, 'B', 1, "x"), "queued");
    CHECK_STR(grants(3, "x", 41), "granted 0; grant A1 x 41; x held 41");
    CHECK_EQ_U64(tn_table_token(table), 41);
    CHECK_STR(acquires(4, 'A', 1, "x"), "granted 41");
    CHECK_STR(grants(5, "x", 42), "stale");
}

TEST(a_local_hand_over_needs_a_new_token)
{
    start_agent();
    CHECK_STR(waits(1, 'A', 1, "x"), "queued; line x");
    CHECK_STR(waits(2, 'B', 1, "x"), "queued");
    CHECK_STR(grants(3, "x", 41), "granted 0; grant A1 x 41; x held 41");
    CHECK_STR(releases(4, 'A', 1, "x", 41), "released; x free 41");
    CHECK_STR(grants(5, "x", 41), "stale");
    CHECK_STR(grants(6, "x", 45), "granted 0; grant B1 x 45; x held 45");
}

TEST(an_empty_line_is_news_for_the_agent)
{
    start_agent();
    CHECK_STR(waits(1, 'A', 1, "x"), "queued; line x");
    CHECK_STR(releases(2, 'A', 1, "x", 0), "released; line x");
    CHECK_STR(grants(3, "x", 7), "free 0");
    CHECK_STR(waits(4, 'A', 2, "x"), "queued; line x");
    CHECK_STR(closes(5, 'A'), "ok; line x");
    CHECK_STR(grants(6, "never", 7), "free 0");
}

TEST(a_name_with_a_line_is_not_forgotten)
{
    start_agent();
    CHECK_STR(waits(1, 'A', 1, "x"), "queued; line x");
    CHECK_STR(waits(1, 'A', 1, "y"), "queued; line y");
    CHECK_STR(waits(1, 'A', 1, "z"), "queued; line z");
    CHECK_STR(waits(2, 'B', 1, "w"), "full");
    CHECK_STR(releases(3, 'A', 1, "y", 0), "released; line y");
    CHECK_STR(waits(4, 'B', 1, "w"), "queued; line w");
    CHECK_STR(grants(5, "x", 9), "granted 0; grant A1 x 9; x held 9");
}

TEST(a_waiter_whose_session_is_over_is_passed_over)
{
    start_agent();
    CHECK_STR(waits(1, 'A', 1, "x"), "queued; line x");
    CHECK_STR(renews(9000, 'B', 0), "ok");
    CHECK_STR(waits(9000, 'B', 1, "x"), "queued");
    CHECK_STR(grants(10001, "x", 9), "granted 0; grant B1 x 9; x held 9");
}

TEST(a_recalled_lease_is_free_when_its_deadline_is_over)
{
    start_agent();
    CHECK_STR(waits(1, 'A', 1, "x"), "queued; line x");
    CHECK_STR(grants(2, "x", 5), "granted 0; grant A1 x 5; x held 5");
    CHECK_STR(recalls(100, "x", 4000), "ok; revoke A1 x 5 #1");
    CHECK_EQ_I64(wakes_at(), 4000);
    CHECK_STR(renews(200, 'A', 0), "ok; revoke A1 x 5 #1");
    CHECK_STR(tick(3999), "ok");
    CHECK_STR(tick(4000), "ok; x free 5");
}

TEST(a_recall_behind_the_deadline_frees_at_once)
{
    start_agent();
    CHECK_STR(waits(1, 'A', 1, "x"), "queued; line x");
    CHECK_STR(grants(2, "x", 5), "granted 0; grant A1 x 5; x held 5");
    CHECK_STR(recalls(100, "x", 100), "ok; x free 5");
    CHECK_STR(acquires(101, 'A', 1, "x"), "stale");
}

/* N2: an agent above a table of before recalls what is held there. The holder hears of it with its
 * next renewal, and nobody else has the name before all that was promised is over. */
TEST(an_agent_that_recalls_after_a_restart_tells_the_holder_first)
{
    start_agent();
    CHECK_STR(waits(1, 'A', 1, "x"), "queued; line x");
    CHECK_STR(grants(2, "x", 41), "granted 0; grant A1 x 41; x held 41");
    tn_table_restart(table, TN_MS(5000));
    CHECK_EQ_I64(allowed("x"), 15000);
    CHECK_STR(recalls(5000, "x", allowed("x")), "ok; revoke A1 x 41 #1");
    CHECK_STR(renews(5100, 'A', 0), "ok; revoke A1 x 41 #1");
    CHECK_STR(reads(14999, "x"), "held 41");
}

TEST(what_a_session_was_allowed_is_the_latest_answer_to_it)
{
    start_agent();
    CHECK_STR(waits(1, 'A', 1, "x"), "queued; line x");
    CHECK_EQ_I64(allowed("x"), 0); /* Nobody has it. */
    CHECK_STR(grants(2, "x", 41), "granted 0; grant A1 x 41; x held 41");
    tn_table_allow(table, session_of('A'), TN_MS(900));
    tn_table_allow(table, session_of('B'), TN_MS(2000));
    tn_table_allow(table, session_of('A'), TN_MS(700));
    CHECK_EQ_I64(allowed("x"), 900);
}

/* --- Deadlines nest: N1 ----------------------------------------------------------------------- */

/* One upstream, with so much left; the session has a name of it or not. */
static tenure_ns alone(int64_t left_ms, bool used)
{
    struct tn_agent_reach one = { .left = TN_MS(left_ms), .span = TN_SEC(24), .used = used };

    CHECK(!tn_agent_counts_out(&one, 1, 0, TN_SEC(15)));
    return tn_agent_ttl(&one, 1, TN_SEC(15)) / TN_MS(1);
}

TEST(a_local_ttl_is_what_is_left_upstream)
{
    CHECK_EQ_I64(tn_agent_left(TN_SEC(100), TN_SEC(10)), TN_SEC(90));
    CHECK_EQ_I64(tn_agent_left(TN_SEC(9), TN_SEC(10)), 0);
    for (int used = 0; used < 2; used++) {
        CHECK_EQ_I64(alone(90000, used), 15000);
        CHECK_EQ_I64(alone(10000, used), 10000);
        CHECK_EQ_I64(alone(1000, used), 1000);
        CHECK_EQ_I64(alone(999, used), 0);
        CHECK_EQ_I64(alone(0, used), 0);
    }
}

/* --- Several upstreams: N3 -------------------------------------------------------------------- */

static struct tn_agent_reach two[2];

/* What is left of two upstreams that prove 24 s each; @used: "a", "b", "ab", "". */
static void reach(int64_t a_ms, int64_t b_ms, const char *used)
{
    two[0] = (struct tn_agent_reach) { .left = TN_MS(a_ms),
                                       .span = TN_SEC(24),
                                       .used = strchr(used, 'a') != NULL };
    two[1] = (struct tn_agent_reach) { .left = TN_MS(b_ms),
                                       .span = TN_SEC(24),
                                       .used = strchr(used, 'b') != NULL };
}

static int64_t promises(tenure_ns ttl)
{
    return tn_agent_ttl(two, 2, ttl) / TN_MS(1);
}

static const char *counted_out(tenure_ns ttl)
{
    bool a = tn_agent_counts_out(two, 2, 0, ttl);
    bool b = tn_agent_counts_out(two, 2, 1, ttl);

    return a ? b ? "ab" : "a" : b ? "b" : "";
}

TEST(a_promise_is_bound_by_the_upstreams_whose_names_the_session_has)
{
    reach(20000, 7000, "ab");
    CHECK_EQ_I64(promises(TN_SEC(15)), 7000);
    reach(20000, 7000, "a");
    CHECK_EQ_I64(promises(TN_SEC(15)), 15000);
    CHECK_EQ_I64(promises(TN_SEC(600)), 20000);
    reach(20000, 7000, "b");
    CHECK_EQ_I64(promises(TN_SEC(15)), 7000);
    reach(20000, 0, "b");
    CHECK_EQ_I64(promises(TN_SEC(15)), 0);
}

TEST(an_upstream_that_is_well_may_grant_a_name_at_any_time_so_it_binds)
{
    reach(20000, 14000, "a");
    CHECK_EQ_I64(promises(TN_SEC(15)), 14000);
    reach(20000, 12000, "");
    CHECK_EQ_I64(promises(TN_SEC(15)), 12000);
    reach(20000, 11999, "");
    CHECK_EQ_I64(promises(TN_SEC(15)), 15000);
    reach(5000, 3000, "");
    CHECK_EQ_I64(promises(TN_SEC(15)), 5000);
    reach(900, 0, "");
    CHECK_EQ_I64(promises(TN_SEC(15)), 0);
}

TEST(a_dying_upstream_is_counted_out_while_a_third_of_the_ttl_is_left)
{
    reach(20000, 5000, "ab");
    CHECK_STR(counted_out(TN_SEC(15)), "");
    reach(20000, 4999, "ab");
    CHECK_STR(counted_out(TN_SEC(15)), "b");
    CHECK_STR(counted_out(TN_SEC(6)), "");
    two[1].used = false; /* As it is then. */
    CHECK_EQ_I64(promises(TN_SEC(15)), 15000);
    reach(20000, 999, "ab");
    CHECK_STR(counted_out(TN_SEC(1)), "b");
    reach(20000, 4000, "a");
    CHECK_STR(counted_out(TN_SEC(15)), "");
}

TEST(a_quarter_of_what_a_short_lived_upstream_proves_is_enough)
{
    reach(20000, 1100, "ab");
    two[1].span = TN_SEC(4);
    CHECK_STR(counted_out(TN_SEC(15)), "");
    reach(20000, 999, "ab");
    two[1].span = TN_SEC(4);
    CHECK_STR(counted_out(TN_SEC(15)), "b");
}

TEST(a_session_with_names_of_the_dying_upstream_alone_keeps_them_to_the_end)
{
    reach(20000, 1000, "b");
    CHECK_STR(counted_out(TN_SEC(15)), "");
    reach(20000, 999, "b");
    CHECK_STR(counted_out(TN_SEC(15)), "b");
}

TEST(when_all_are_dying_the_best_is_kept)
{
    reach(3000, 2000, "ab");
    CHECK_STR(counted_out(TN_SEC(15)), "b");
    reach(2000, 2000, "ab");
    CHECK_STR(counted_out(TN_SEC(15)), "");
    reach(900, 800, "ab");
    CHECK_STR(counted_out(TN_SEC(15)), "");
}

TEST(an_upstream_of_before_is_awaited_for_a_moment)
{
    reach(20000, 0, "ab");
    two[1].awaited = TN_SEC(3) - 1;
    CHECK_STR(counted_out(TN_SEC(15)), "");
    CHECK_EQ_I64(promises(TN_SEC(15)), 0);
    two[1].awaited = TN_SEC(3);
    CHECK_STR(counted_out(TN_SEC(15)), "b");
}

TEST(the_longest_prefix_by_whole_segments_has_the_name)
{
    static const char *const prefixes[] = { "eu/", "", "eu/west/", "us/" };

    CHECK_EQ_U64(tn_agent_route(prefixes, 4, "eu/a", 4), 0);
    CHECK_EQ_U64(tn_agent_route(prefixes, 4, "eu/west/a", 9), 2);
    CHECK_EQ_U64(tn_agent_route(prefixes, 4, "eu/western", 10), 0);
    CHECK_EQ_U64(tn_agent_route(prefixes, 4, "us/a/b", 6), 3);
    CHECK_EQ_U64(tn_agent_route(prefixes, 4, "eu", 2), 1);
    CHECK_EQ_U64(tn_agent_route(prefixes, 4, "usa", 3), 1);
    CHECK_EQ_U64(tn_agent_route(prefixes, 1, "us/a", 4), TN_AGENT_NOWHERE);
    CHECK_EQ_U64(tn_agent_route(prefixes, 1, "eu", 2), TN_AGENT_NOWHERE);
}

/* @ms: the deadline of the name's upstream. */
static bool is_beyond(int64_t ms, int64_t now_ms)
{
    return tn_agent_local_of(table, "x", 1, ms > 0 ? TN_MS(ms) : TN_NEVER, TN_MS(now_ms)).beyond;
}

TEST(the_first_in_line_may_be_valid_beyond_the_upstream)
{
    start_agent();
    CHECK_STR(waits(1, 'A', 1, "x"), "queued; line x");
    CHECK_STR(waits(2, 'B', 1, "x"), "queued");
    tn_table_allow(table, session_of('A'), TN_MS(9000));
    tn_table_allow(table, session_of('B'), TN_MS(4000));
    CHECK(is_beyond(8999, 10));
    CHECK(!is_beyond(9000, 10));
    CHECK(!is_beyond(0, 10));
    CHECK_STR(releases(11, 'A', 1, "x", 0), "released");
    CHECK(!is_beyond(4000, 12));
    CHECK(is_beyond(3999, 12));
}

/* --- Decisions -------------------------------------------------------------------------------- */

static struct tn_agent_name name;
static const struct tn_agent_local empty = { 0 };
static const struct tn_agent_local wanted = { .wanted = true };
static const struct tn_agent_local held = { .held = true };
static const struct tn_agent_local both = { .held = true, .wanted = true };

static enum tn_agent_act look_at(const struct tn_agent_local *local)
{
    return tn_agent_next(&name, TN_AGENT_EV_LOOK, 0, local);
}

/* In use by a local session, under token 7. */
static void start_in_use(void)
{
    name = (struct tn_agent_name) { 0 };
    CHECK_EQ_I64(look_at(&empty), TN_AGENT_NOTHING);
    CHECK_EQ_I64(look_at(&wanted), TN_AGENT_CAMPAIGN);
    CHECK_EQ_I64(look_at(&wanted), TN_AGENT_NOTHING);
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_WON, 7, &wanted), TN_AGENT_GRANT);
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_GRANTED, 0, &held), TN_AGENT_NOTHING);
    CHECK_EQ_I64(name.stage, TN_AGENT_IN_USE);
    CHECK_EQ_U64(name.token, 7);
}

TEST(an_agent_gives_back_what_its_last_session_let_go)
{
    start_in_use();
    CHECK_EQ_I64(look_at(&both), TN_AGENT_NOTHING);
    CHECK_EQ_I64(look_at(&empty), TN_AGENT_LEAVE);
    CHECK_EQ_I64(name.stage, TN_AGENT_IDLE);
}

TEST(an_agent_with_a_line_campaigns_again)
{
    start_in_use();
    CHECK_EQ_I64(look_at(&wanted), TN_AGENT_GIVE_BACK);
    CHECK_EQ_I64(name.stage, TN_AGENT_WAITING);
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_LOST, 0, &wanted), TN_AGENT_NOTHING);
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_WON, 9, &wanted), TN_AGENT_GRANT);
}

TEST(an_agent_leaves_when_nobody_waits_any_more)
{
    name = (struct tn_agent_name) { 0 };
    CHECK_EQ_I64(look_at(&wanted), TN_AGENT_CAMPAIGN);
    CHECK_EQ_I64(look_at(&empty), TN_AGENT_LEAVE);
    CHECK_EQ_I64(look_at(&wanted), TN_AGENT_CAMPAIGN);
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_WON, 7, &empty), TN_AGENT_GRANT);
    CHECK_EQ_I64(look_at(&empty), TN_AGENT_LEAVE); /* The table had nobody to give it to. */
}

TEST(an_agent_that_lost_a_term_waits_for_its_holder)
{
    start_in_use();
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_LOST, 0, &both), TN_AGENT_RECALL);
    CHECK_EQ_I64(look_at(&both), TN_AGENT_NOTHING);
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_LOST, 0, &both), TN_AGENT_NOTHING);
    CHECK_EQ_I64(look_at(&wanted), TN_AGENT_GIVE_BACK);
    CHECK_EQ_I64(name.stage, TN_AGENT_WAITING);
}

TEST(an_agent_that_lost_a_term_nobody_has_leaves)
{
    start_in_use();
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_LOST, 0, &empty), TN_AGENT_LEAVE);
    CHECK_EQ_I64(name.stage, TN_AGENT_IDLE);
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_LOST, 0, &both), TN_AGENT_NOTHING);
}

TEST(an_agent_that_starts_again_goes_on_with_what_is_held)
{
    name = (struct tn_agent_name) { 0 };
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_RESUME, 7, &held), TN_AGENT_TAKE_UP);
    CHECK_EQ_I64(look_at(&both), TN_AGENT_NOTHING);
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_WON, 7, &both), TN_AGENT_NOTHING);
    CHECK_EQ_I64(name.stage, TN_AGENT_IN_USE);
    CHECK_EQ_I64(look_at(&wanted), TN_AGENT_GIVE_BACK);
}

TEST(an_agent_that_starts_again_ends_what_upstream_has_not)
{
    name = (struct tn_agent_name) { 0 };
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_RESUME, 7, &held), TN_AGENT_TAKE_UP);
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_LOST, 7, &held), TN_AGENT_RECALL);
    CHECK_EQ_I64(look_at(&held), TN_AGENT_NOTHING);
    CHECK_EQ_I64(look_at(&empty), TN_AGENT_LEAVE);
    name = (struct tn_agent_name) { 0 };
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_RESUME, 0, &held), TN_AGENT_RECALL);
    CHECK_EQ_I64(name.stage, TN_AGENT_IDLE);
}

TEST(an_agent_that_starts_again_gives_back_what_nobody_holds)
{
    name = (struct tn_agent_name) { 0 };
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_RESUME, 7, &empty), TN_AGENT_LEAVE);
    CHECK_EQ_I64(name.stage, TN_AGENT_IDLE);
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_RESUME, 7, &held), TN_AGENT_TAKE_UP);
    CHECK_EQ_I64(look_at(&wanted), TN_AGENT_GIVE_BACK); /* Before upstream has answered. */
}

TEST(a_grant_waits_until_upstream_outlives_the_first_in_line)
{
    static const struct tn_agent_local beyond = { .wanted = true, .beyond = true };

    name = (struct tn_agent_name) { .stage = TN_AGENT_WAITING };
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_WON, 7, &beyond), TN_AGENT_NOTHING);
    CHECK_EQ_I64(name.stage, TN_AGENT_HELD_BACK);
    CHECK_EQ_I64(look_at(&beyond), TN_AGENT_NOTHING);
    CHECK_EQ_I64(look_at(&wanted), TN_AGENT_GRANT);
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_GRANTED, 0, &held), TN_AGENT_NOTHING);
    CHECK_EQ_I64(name.stage, TN_AGENT_IN_USE);
    name = (struct tn_agent_name) { .stage = TN_AGENT_HELD_BACK, .token = 7 };
    CHECK_EQ_I64(look_at(&empty), TN_AGENT_LEAVE);
    name = (struct tn_agent_name) { .stage = TN_AGENT_HELD_BACK, .token = 7 };
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_LOST, 0, &beyond), TN_AGENT_GIVE_BACK);
    CHECK_EQ_I64(name.stage, TN_AGENT_WAITING);
}

TEST(what_is_counted_out_is_recalled_and_then_given_back)
{
    start_in_use();
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_SHORT, 0, &held), TN_AGENT_RECALL);
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_SHORT, 0, &held), TN_AGENT_NOTHING);
    CHECK_EQ_I64(look_at(&empty), TN_AGENT_LEAVE);
    name = (struct tn_agent_name) { 0 };
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_RESUME, 7, &held), TN_AGENT_TAKE_UP);
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_SHORT, 0, &held), TN_AGENT_RECALL);
    CHECK_EQ_I64(tn_agent_next(&name, TN_AGENT_EV_WON, 7, &held), TN_AGENT_NOTHING);
    CHECK_EQ_I64(look_at(&wanted), TN_AGENT_GIVE_BACK);
}
