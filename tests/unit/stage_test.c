/* stage_test.c - scripts: how they are read, what comes of them, and how a stage shows them. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "sim/stage.h"

static struct sim_stage stage;
static char why[300];

static int open_stage(const char *text)
{
    struct tn_text error;
    tn_text_init(&error, why, sizeof why);
    return sim_stage_open(&stage, text, &error);
}

static char *copy(const char *text)
{
    char *copied = malloc(strlen(text) + 1);
    CHECK(copied != NULL);
    memcpy(copied, text, strlen(text) + 1);
    return copied;
}

/* The snapshot at @at, as a copy. */
static char *look(tenure_ns at)
{
    sim_stage_until(&stage, at);
    return copy(sim_stage_snapshot(&stage));
}

static void check_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        tn_test_fail(__FILE__, __LINE__, "no '%s' in %.3000s", part, text);
}

TEST(a_script_is_refused_with_the_reason)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        { "9000:crush:a", "did you mean 'crash'" },
        { "9000:crash", "needs a candidate" },
        { "9000:crash:store", "needs a candidate" },
        { "9000:crash:d", "no such candidate" },
        { "9000:crash:a:5", "a word too many" },
        { "9000:pause:a", "needs a number" },
        { "9000:pause:a:0", "needs a number" },
        { "9000:pause:a:-5", "needs a number" },
        { "9000:rate:a:950000", "needs a number" },
        { "9000.0000001:crash:a", "its instant" },
        { "3600001:crash:a", "its instant" },
        { "9000", "no such act" },
        { "9000:", "no such act" },
        { "crash:a", "neither" },
        { "nods=3", "did you mean 'nodes'" },
        { "nodes=0", "not a value" },
        { "nodes=1001", "not a value" },
        { "ttl=999", "not a value" },
        { "fence=perhaps", "not a value" },
        { "plant=no-such", "not a value" },
        { "story=crush", "did you mean 'crash'" },
        { "history=7+9000:crash:a", "takes no acts" },
        { "9000:\033crash:a", "\\x1bcrash" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CHECK_EQ_I64(open_stage(cases[i].text), -1);
        check_has(why, cases[i].why);
    }
    sim_stage_close(&stage);
}

TEST(there_is_an_end_to_the_acts_of_a_script)
{
    static char text[SIM_ACTS_MAX * 16 + 32];
    size_t len = 0;
    for (int i = 0; i <= SIM_ACTS_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "1:mend:a+");
    CHECK_EQ_I64(open_stage(text), -1);
    check_has(why, "more than 256 acts");
    static char text2[SIM_SCRIPT_MAX + 1];
    memset(text2, '+', SIM_SCRIPT_MAX);
    CHECK_EQ_I64(open_stage(text2), -1);
    check_has(why, "too long");
    sim_stage_close(&stage);
}

TEST(lines_blanks_and_comments_are_the_same_script)
{
    CHECK_EQ_I64(open_stage("nodes=2+9000:crash:a+end=30000"), 0);
    char *plus = copy(sim_stage_transcript(&stage));
    CHECK_EQ_I64(open_stage("# a comment\nnodes=2\n\n  end=30000\r\n9000.000:crash:leader\n"), -1);
    CHECK_EQ_I64(open_stage("# a comment\nnodes=2\n\n  end=30000\n9000.000:crash:leader\n"), 0);
    CHECK_STR(sim_stage_transcript(&stage), plus);
    free(plus);
    sim_stage_close(&stage);
}

TEST(an_instant_looks_the_same_whichever_way_it_is_reached)
{
    static const char *const scripts[] = {
        "nodes=5+9000:freeze:a:22000+15000:cut:b:4000+31000:lose:60+end=60000",
        "nodes=5+ttl=3000+style=watch+4000:crash:leader+6000:start:a+7000:suspend:b:5000+end=20000",
        "nodes=3+style=observed+5000:rate:a:-90000+8000:restart:3000+20000:revoke+end=60000",
        "story=drift+plant=no-margin",
        "history=3",
    };
    struct tn_prng prng;
    tn_prng_seed(&prng, 17);
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        CHECK_EQ_I64(open_stage(scripts[i]), 0);
        for (int j = 0; j < 20; j++) {
            tenure_ns at = tn_prng_range(&prng, 0, TN_SEC(20));
            CHECK_EQ_I64(open_stage(scripts[i]), 0);
            char *fresh = look(at);
            free(look(at + TN_SEC(5)));
            char *behind = look(at);
            free(look(at / 2));
            for (tenure_ns frame = at / 2; frame < at; frame += TN_MS(97))
                free(look(frame));
            char *frames = look(at);
            CHECK_STR(behind, fresh);
            CHECK_STR(frames, fresh);
            free(fresh);
            free(behind);
            free(frames);
        }
    }
    sim_stage_close(&stage);
}

TEST(the_next_event_is_reached_and_changes_nothing_before)
{
    CHECK_EQ_I64(open_stage("nodes=2+end=9000"), 0);
    sim_stage_until(&stage, 0);
    for (int i = 0; i < 20; i++) {
        tenure_ns next = sim_stage_next(&stage);
        CHECK(next < TN_SEC(9));
        uint64_t before = stage.world.stats.events;
        sim_stage_until(&stage, next - 1);
        CHECK_EQ_U64(stage.world.stats.events, before);
        sim_stage_until(&stage, next);
        CHECK(stage.world.stats.events > before);
    }
    sim_stage_until(&stage, TN_SEC(10));
    CHECK_EQ_I64(sim_stage_next(&stage), TN_NEVER);
    sim_stage_close(&stage);
}

/* The leader sleeps through its deadline and does not know that it has lost: the gap begins at that
 * deadline, not at the end of an earlier term. */
TEST(the_gap_of_a_leader_that_sleeps_begins_at_its_deadline)
{
    CHECK_EQ_I64(open_stage("nodes=2+7000:pause:a:20000+end=40000"), 0);
    sim_stage_until(&stage, TN_SEC(25));
    CHECK_EQ_U64(stage.world.leader[0], 1);
    tenure_ns gap = stage.world.gap[0];
    CHECK(gap > TN_MS(2500));
    CHECK(gap < TN_MS(2900));
    CHECK_EQ_I64(stage.world.gap_most[0], gap);
    sim_stage_close(&stage);
}

TEST(a_crash_leaves_the_gap_that_the_ttl_says)
{
    CHECK_EQ_I64(open_stage("nodes=5+9000:crash:a+end=40000"), 0);
    sim_stage_until(&stage, TN_SEC(40));
    CHECK_EQ_I64(stage.world.gap_most[0] / TN_MS(1), 10858);
    CHECK_EQ_I64(open_stage("nodes=5+9000:resign:a+end=40000"), 0);
    sim_stage_until(&stage, TN_SEC(40));
    CHECK(stage.world.gap_most[0] <= TN_MS(25));
    sim_stage_close(&stage);
}

TEST(a_freeze_in_a_write_is_refused_by_the_fence_and_harmful_without)
{
    CHECK_EQ_I64(open_stage("nodes=5+9000:freeze:leader:22000+end=40000"), 0);
    char *seen = look(TN_SEC(40));
    check_has(seen, "\"refused\":1,\"harmed\":0");
    free(seen);
    CHECK_EQ_I64(open_stage("nodes=5+9000:freeze:leader:22000+fence=off+end=40000"), 0);
    seen = look(TN_SEC(40));
    check_has(seen, "\"refused\":0,\"harmed\":1");
    free(seen);
    sim_stage_close(&stage);
}

TEST(a_message_that_is_clicked_away_does_not_arrive)
{
    CHECK_EQ_I64(open_stage("nodes=1+end=9000"), 0);
    char *seen = look(TN_MS(2));
    check_has(seen, "\"n\":1,\"name\":\"open\"");
    check_has(seen, "\"lost\":0");
    free(seen);
    CHECK_EQ_I64(open_stage("nodes=1+0:lose:1+end=9000"), 0);
    seen = look(TN_MS(2));
    check_has(seen, "\"lost\":1");
    free(seen);
    seen = look(TN_SEC(1));
    check_has(seen, "\"leaders\":0");
    free(seen);
    sim_stage_close(&stage);
}

/* P1 is reported before both are to be seen; the world goes on behind it. */
TEST(a_clock_outside_of_its_bound_breaks_p1_by_the_assumption)
{
    static const char text[] = "nodes=2+0:rate:a:-300000+7000:cutto:a:30000+end=30000";
    CHECK_EQ_I64(open_stage(text), 0);
    const char *history = sim_stage_history(&stage);
    check_has(history, "P1 is broken");
    check_has(history, "\"end\":30000000");
    check_has(history, "a clock ran outside of rho");
    tenure_ns at = TN_SEC(7);
    while (at < TN_SEC(30) && stage.world.violation.promise == NULL) {
        at += TN_MS(10);
        sim_stage_until(&stage, at);
    }
    const char *seen = sim_stage_snapshot(&stage);
    check_has(seen, "\"leaders\":2");
    check_has(seen, "\"assumption\":1,\"promise\":\"P1\"");
    sim_stage_close(&stage);
}

TEST(numbers_that_tenure_refuses_are_explained_and_not_run)
{
    CHECK_EQ_I64(open_stage("margin=100"), 1);
    check_has(sim_stage_history(&stage), "\"verdict\":\"P1\"");
    CHECK_EQ_I64(open_stage("renew=14000"), 1);
    check_has(sim_stage_history(&stage), "\"verdict\":\"P8\"");
    CHECK_EQ_I64(open_stage("rho=1000+renew=4000+net=2"), 0);
    check_has(sim_stage_history(&stage), "\"verdict\":\"safe\"");
    sim_stage_close(&stage);
}

TEST(a_history_shows_every_story_with_its_end)
{
    for (uint32_t i = 0; sim_scenario_at(i) != NULL; i++) {
        char text[80];
        (void)snprintf(text, sizeof text, "story=%s", sim_scenario_at(i)->name);
        CHECK_EQ_I64(open_stage(text), 0);
        const char *history = sim_stage_history(&stage);
        check_has(history, "\"came_true\":true");
        check_has(history, "\"l\",1,"); /* Somebody led with token 1. */
    }
    sim_stage_close(&stage);
}

TEST(quotes_and_controls_of_a_script_do_not_break_the_json)
{
    CHECK_EQ_I64(open_stage("nodes=1+10:say=a \"quote\" and a \\ and \001+end=2000"), 0);
    check_has(sim_stage_history(&stage), "a \\\"quote\\\" and a \\\\ and \\u0001");
    struct sim_out out = { 0 };
    sim_catalogue(&out);
    check_has(out.data, "\"name\":\"pause-and-fence\"");
    check_has(out.data, "\"name\":\"shared-identity\"");
    free(out.data);
    sim_stage_close(&stage);
}
