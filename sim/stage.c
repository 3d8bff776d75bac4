/* stage.c - runs a script up to any instant, and keeps what a page shows of it. */
#include "sim/stage.h"
#include "sim/run.h"

#include <stdlib.h>
#include <string.h>

/* Rounded up, so that the instant of an event shows what came of it. */
static long long us(tenure_ns at)
{
    return (at - TN_SEC(1) + 999) / 1000;
}

/* --- The instant looked at -------------------------------------------------------------------- */

static void keep_flight(void *arg, const struct sim_world *world, const struct sim_event *event,
                        uint64_t number, tenure_ns arrives_at)
{
    struct sim_stage *stage = arg;
    stage->flights[number % SIM_FLIGHTS] = (struct sim_flight) {
        .event = *event, .number = number, .sent_at = world->now, .arrives_at = arrives_at
    };
}

static void rewind_world(struct sim_stage *stage)
{
    memset(stage->flights, 0, sizeof stage->flights);
    stage->world.listener = &stage->listener;
    if (stage->script.history != 0) {
        sim_seed_open(&stage->world, stage->script.history);
        return;
    }
    sim_script_open(&stage->world, &stage->script);
    stage->world.goes_on = true;
}

static void watch_instant(struct sim_stage *stage)
{
    stage->listener = (struct sim_listener) { .message = keep_flight, .arg = stage };
    rewind_world(stage);
}

void sim_stage_until(struct sim_stage *stage, tenure_ns at)
{
    at += TN_SEC(1);
    if (at < stage->world.now)
        rewind_world(stage);
    sim_run_guarded(&stage->world, at);
}

tenure_ns sim_stage_next(const struct sim_stage *stage)
{
    tenure_ns next = sim_world_next_at(&stage->world);
    return next == TN_NEVER ? TN_NEVER : next - TN_SEC(1);
}

const char *sim_stage_snapshot(struct sim_stage *stage)
{
    stage->snapshot.len = 0;
    sim_snapshot(stage, &stage->snapshot);
    return stage->snapshot.data;
}

/* --- The whole run ---------------------------------------------------------------------------- */

static void keep_line(void *arg, const struct sim_world *world, const char *line, size_t len)
{
    struct sim_stage *stage = arg;
    sim_out_add(&stage->lines, "%s[%lld,", stage->lines.len > 0 ? "," : "", us(world->now));
    sim_out_string(&stage->lines, line, len - 1);
    sim_out_add(&stage->lines, "]");
}

/* Of the first MESSAGES_MOST: a page cannot show more. */
#define MESSAGES_MOST 5000
#define RENEWALS_MOST 1000000

static void keep_message(void *arg, const struct sim_world *world, const struct sim_event *event,
                         uint64_t number, tenure_ns arrives_at)
{
    struct sim_stage *stage = arg;
    bool lost = arrives_at == TN_NEVER;
    if (event->node >= SIM_SEEN_NODES || number > MESSAGES_MOST)
        return;
    sim_out_add(&stage->messages, "%s[%lld,%lld,%u,\"%s\",%llu,%llu]",
                stage->messages.len > 0 ? "," : "", us(world->now), lost ? -1 : us(arrives_at),
                event->node, sim_message_name(event), (unsigned long long)event->token,
                (unsigned long long)number);
}

static void keep_write(void *arg, const struct sim_world *world, const struct sim_event *event,
                       enum sim_verdict verdict)
{
    struct sim_stage *stage = arg;
    if (event->name == stage->name)
        sim_out_add(&stage->writes, "%s[%lld,%u,%llu,%d]", stage->writes.len > 0 ? "," : "",
                    us(world->now), event->node, (unsigned long long)event->token, (int)verdict);
}

/* d down; l leads; b was told that it leads, and its deadline has passed; w works on after its term
 * was lost; i idle. */
static struct sim_lane lane_of(const struct sim_world *world, const struct sim_node *node,
                               uint32_t name)
{
    const struct sim_app *app = &node->seats[name].app;
    struct sim_lane lane = { .state = 'i', .asleep = world->now < node->paused_until };
    uint64_t token = sim_node_token(world, node, name);

    if (!node->up) {
        lane = (struct sim_lane) { .state = 'd' };
    } else if (app->told_won) {
        lane.state = token != 0 ? 'l' : 'b';
        lane.token = app->token;
    } else if (app->working) {
        lane.state = 'w';
        lane.token = app->token;
    }
    return lane;
}

static bool same_lane(const struct sim_lane *a, const struct sim_lane *b)
{
    return a->state == b->state && a->asleep == b->asleep && a->token == b->token &&
           a->holder == b->holder;
}

/* A deadline passes between two events; it is noted where it passed. */
static tenure_ns changed_at(const struct sim_world *world, const struct sim_node *node,
                            const struct sim_lane *was, const struct sim_lane *is)
{
    tenure_ns deadline = node != NULL ? sim_node_deadline(node) : 0;
    bool passed = was->state == 'l' && is->state == 'b';
    return passed && deadline > 0 && deadline < world->now ? deadline : world->now;
}

static void note_lane(struct sim_stage *stage, const struct sim_world *world, uint32_t place,
                      const struct sim_node *node, struct sim_lane lane)
{
    struct sim_lane *seen = &stage->seen[place];
    if (same_lane(seen, &lane))
        return;
    sim_out_add(&stage->lanes, "%s[%lld,%d,\"%c\",%llu,%d,%d]", stage->lanes.len > 0 ? "," : "",
                us(changed_at(world, node, seen, &lane)), place == SIM_SEEN_NODES ? -1 : (int)place,
                lane.state, (unsigned long long)lane.token, lane.asleep,
                lane.holder == SIM_NOBODY ? -1 : (int)lane.holder);
    *seen = lane;
}

static void keep_step(void *arg, const struct sim_world *world)
{
    struct sim_stage *stage = arg;
    struct sim_holding held;

    for (uint32_t i = 0; i < world->config.nodes && i < SIM_SEEN_NODES; i++)
        note_lane(stage, world, i, &world->nodes[i], lane_of(world, &world->nodes[i], stage->name));
    sim_store_look(world, stage->name, &held);
    note_lane(stage, world, SIM_SEEN_NODES, NULL,
              (struct sim_lane) { .state = world->store.up ? 'u' : 'd',
                                  .asleep = world->now < world->store.paused_until,
                                  .token = held.node != SIM_NOBODY ? held.token : 0,
                                  .holder = held.node });
}

static void add_plan(const struct sim_stage *stage, struct sim_out *out)
{
    const struct tn_plan *plan = &stage->world.config.plan;
    struct tn_plan_answer answer;
    enum tn_plan_verdict verdict = tn_plan_judge(plan, &answer);

    sim_out_add(out, "\"plan\":{\"verdict\":\"%s\",\"ttl\":%lld,\"renew\":%lld,\"rho\":%u,",
                verdict == TN_PLAN_SAFE        ? "safe"
                : verdict == TN_PLAN_BREAKS_P1 ? "P1"
                                               : "P8",
                (long long)plan->ttl / 1000, (long long)plan->renew_every / 1000,
                plan->rho_holder_ppm);
    sim_out_add(out, "\"net\":%lld,\"d\":%lld,\"margin\":%lld,\"margin_least\":%lld,",
                (long long)stage->world.config.delay / 1000, (long long)answer.valid_for / 1000,
                (long long)answer.margin / 1000, (long long)answer.margin_least / 1000);
    sim_out_add(out, "\"timeout\":%lld,\"backoff\":%lld,\"pause\":%lld,\"kill\":%lld,",
                (long long)plan->attempt_timeout / 1000, (long long)plan->backoff / 1000,
                (long long)plan->pause / 1000, (long long)plan->kill_bound / 1000);
    sim_out_add(out, "\"grace\":%lld,\"p1\":[%lld,%lld],\"p8\":[%lld,%lld],\"tolerated\":%lld,",
                (long long)plan->grace / 1000, (long long)answer.p1_left / 1000,
                (long long)answer.p1_right / 1000, (long long)answer.p8_left / 1000,
                (long long)answer.p8_right / 1000, (long long)answer.tolerated);
    sim_out_add(out, "\"crash\":%lld,\"resign\":%lld}",
                (long long)answer.failover_crash_real / 1000,
                (long long)answer.failover_resign / 1000);
}

static void add_story(const struct sim_stage *stage, struct sim_out *out)
{
    const struct sim_scenario *story =
        stage->script.story != NULL ? sim_scenario_find(stage->script.story) : NULL;
    if (story == NULL)
        return;
    sim_out_add(out, ",\"story\":{\"name\":\"%s\",\"came_true\":%s}", story->name,
                stage->world.violation.promise == NULL && story->came_true(&stage->world)
                    ? "true"
                    : "false");
}

/* The name that a violation is about, in the world of a seed, which has several. */
static uint32_t name_in_question(const struct sim_world *world)
{
    for (uint32_t i = 0; i < world->config.names && world->violation.promise != NULL; i++)
        if (strstr(world->violation.text, sim_name(i)) != NULL)
            return i;
    return 0;
}

static void run_whole(struct sim_stage *stage, const struct sim_listener *listener)
{
    stage->lines.len = stage->lanes.len = stage->writes.len = stage->messages.len = 0;
    memset(stage->seen, 0, sizeof stage->seen);
    stage->listener = *listener;
    rewind_world(stage);
    sim_run_guarded(&stage->world, TN_NEVER);
}

static void tell_end(struct sim_stage *stage)
{
    if (stage->script.history == 0)
        sim_script_tell_end(&stage->world);
}

static const char *text_of(const struct sim_out *out)
{
    return out->len > 0 ? out->data : "";
}

const char *sim_stage_history(struct sim_stage *stage)
{
    const struct sim_listener all = { keep_line, keep_message, keep_write, keep_step, stage };
    struct sim_out *out = &stage->history;

    out->len = 0;
    sim_out_add(out, "{");
    add_plan(stage, out);
    if (stage->script.history == 0 && stage->script.verdict != TN_PLAN_SAFE) {
        sim_out_add(out, "}");
        return out->data;
    }
    run_whole(stage, &all);
    if (name_in_question(&stage->world) != stage->name) {
        stage->name = name_in_question(&stage->world);
        run_whole(stage, &all);
    }
    return sim_stage_history_end(stage);
}

const char *sim_stage_history_end(struct sim_stage *stage)
{
    struct sim_out *out = &stage->history;

    tell_end(stage);
    sim_out_add(out, ",\"end\":%lld,\"name\":\"%s\",\"nodes\":%u,\"fenced\":%s",
                us(stage->world.now), sim_name(stage->name), stage->world.config.nodes,
                stage->world.config.fenced ? "true" : "false");
    add_story(stage, out);
    sim_out_add(out, ",\"lanes\":[%s],\"writes\":[%s],\"messages\":[%s],\"lines\":[%s]}",
                text_of(&stage->lanes), text_of(&stage->writes), text_of(&stage->messages),
                text_of(&stage->lines));
    watch_instant(stage);
    return out->data;
}

static void keep_plain(void *arg, const struct sim_world *world, const char *line, size_t len)
{
    struct sim_stage *stage = arg;
    (void)world;
    (void)len;
    sim_out_add(&stage->lines, "%s", line);
}

const char *sim_stage_transcript(struct sim_stage *stage)
{
    const struct sim_listener plain = { .line = keep_plain, .arg = stage };
    run_whole(stage, &plain);
    return sim_stage_transcript_end(stage);
}

const char *sim_stage_transcript_end(struct sim_stage *stage)
{
    tell_end(stage);
    watch_instant(stage);
    return text_of(&stage->lines);
}

/* --- Opening and closing ---------------------------------------------------------------------- */

int sim_stage_open(struct sim_stage *stage, const char *text, struct tn_text *reterr)
{
    const struct sim_script *script = &stage->script;

    if (sim_script_parse(text, &stage->script, reterr) != 0)
        return -1;
    /* A link from a stranger must not hang the page. */
    if (script->end / script->config.plan.renew_every > RENEWALS_MOST / script->config.nodes) {
        tn_text_addf(reterr, "nodes and end: more than %d renewals; fewer nodes, or an earlier end",
                     RENEWALS_MOST);
        return -1;
    }
    (void)sim_plant_set(stage->script.plant);
    stage->name = 0;
    watch_instant(stage);
    return stage->script.history == 0 && stage->script.verdict != TN_PLAN_SAFE ? 1 : 0;
}

void sim_stage_close(struct sim_stage *stage)
{
    sim_world_free(&stage->world);
    free(stage->snapshot.data);
    free(stage->history.data);
    free(stage->lines.data);
    free(stage->lanes.data);
    free(stage->writes.data);
    free(stage->messages.data);
    memset(stage, 0, sizeof *stage);
}
