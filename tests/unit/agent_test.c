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
    CHECK_EQ_I64(tn_agent_allowed(table, TN_MS(5000)), TN_MS(15000));
    CHECK_STR(recalls(5000, "x", tn_agent_allowed(table, TN_MS(5000)) / TN_MS(1)),
              "ok; revoke A1 x 41 #1");
    CHECK_STR(renews(5100, 'A', 0), "ok; revoke A1 x 41 #1");
    CHECK_STR(reads(14999, "x"), "held 41");
}

TEST(what_an_agent_without_sessions_has_allowed_is_over)
{
    start_with((struct tn_table_limits) {
        .sessions = 2, .leases = 3, .waiters = 2, .text_bytes = 4096, .upstream = true });
    CHECK_EQ_I64(tn_agent_allowed(table, TN_MS(5000)), TN_MS(5000));
}

/* --- Deadlines nest: N1 ----------------------------------------------------------------------- */

TEST(a_local_ttl_is_what_is_left_upstream)
{
    CHECK_EQ_I64(tn_agent_ttl(TN_SEC(15), TN_SEC(100), TN_SEC(10)), TN_SEC(15));
    CHECK_EQ_I64(tn_agent_ttl(TN_SEC(15), TN_SEC(20), TN_SEC(10)), TN_SEC(10));
    CHECK_EQ_I64(tn_agent_ttl(TN_SEC(15), TN_SEC(11), TN_SEC(10)), TN_SEC(1));
    CHECK_EQ_I64(tn_agent_ttl(TN_SEC(15), TN_SEC(11) - 1, TN_SEC(10)), 0);
    CHECK_EQ_I64(tn_agent_ttl(TN_SEC(15), TN_SEC(9), TN_SEC(10)), 0);
    CHECK_EQ_I64(tn_agent_ttl(TN_SEC(15), 0, TN_SEC(10)), 0);
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
