/* line_operator.c - operators' hands on the keys of SIM_LINE: they delete one, or revoke a term.
 *
 * Where keys are created atomically, as in etcd, the steps of core/line_revoke.h move the key to a
 * second lease of its session. They take their time, and any may be the last: the operator's
 * process is gone, or the store is. Otherwise, as in ZooKeeper, the key is written to, and its
 * holder gives it up by itself. */
#include "core/line_revoke.h"

#include "base/assert.h"
#include "sim/line.h"

/* Of SIM_EV_LINE_REVOKE: no step, but a beginning. */
enum { ANOTHER = TN_LINE_REVOKE_STEPS };

static struct sim_life *life_of(struct sim_world *world, uint32_t node, uint64_t life)
{
    return &world->store.lives[node][life % SIM_LIVES];
}

void sim_line_drop_moved(struct sim_world *world, uint32_t node, uint64_t life)
{
    life_of(world, node, life)->held_off_until = 0;
    for (uint32_t i = 0; i < world->config.names; i++) {
        struct sim_line *line = sim_line_of(world, i);
        for (uint32_t j = line->count; j-- > 0;)
            if (line->keys[j].moved && line->keys[j].node == node && line->keys[j].life == life)
                sim_line_delete(world, i, &line->keys[j]);
    }
}

void sim_line_let_go(struct sim_world *world)
{
    for (uint32_t i = 0; i < world->config.nodes; i++)
        for (uint32_t j = 0; j < SIM_LIVES; j++) {
            const struct sim_life *life = &world->store.lives[i][j];
            if (life->held_off_until == 0 || life->held_off_until > sim_store_now(world))
                continue;
            sim_fired(world, SIM_FAULT_HOLD_OFF_OVER);
            sim_line_drop_moved(world, i, life->life);
        }
}

/* Returns what the store says to the step. */
static bool carry_out(struct sim_world *world, struct sim_event *step)
{
    struct sim_life *life = life_of(world, step->node, step->life);
    struct sim_key *key = sim_line_find(sim_line_of(world, step->name), step->line.order);
    bool there = life->held_off_until != 0;

    switch ((enum tn_line_revoke_step)step->op) {
    case TN_LINE_REVOKE_MEASURE:
        step->ttl = life->ttl;
        return sim_line_is_alive(world, step->node, step->life);
    case TN_LINE_REVOKE_OPEN:
        if (there)
            return false;
        life->held_off = step->ttl;
        life->held_off_until = sim_store_now(world) + life->held_off;
        return true;
    case TN_LINE_REVOKE_RENEW:
    case TN_LINE_REVOKE_KEEP:
        if (there)
            life->held_off_until = sim_store_now(world) + life->held_off;
        return there;
    default:
        if (key == NULL)
            return false;
        sim_line_begin_change(world, step->name);
        key->changed = key->moved = true;
        if (!world->healed && world->script == NULL && sim_chance(world, TN_PPM / 2))
            world->nodes[step->node].deaf_until = world->now + 2 * life->held_off;
        sim_fired(world, SIM_FAULT_REVOKE);
        sim_line_push(world, step->name, SIM_LINE_CHANGED, key->order);
        return true;
    }
}

static void go_on(struct sim_world *world, struct sim_event *step,
                  const struct tn_line_revoke *revoke)
{
    bool dies = !world->healed && sim_chance(world, TN_PPM / 20);

    step->op = (uint8_t)revoke->step;
    if (revoke->step != TN_LINE_REVOKE_DONE && !dies)
        sim_at(world, world->now + sim_between(world, 0, 2 * world->config.delay), step);
    sim_store_schedule(world);
}

static void revoke_key(struct sim_world *world, uint32_t name, const struct sim_key *key)
{
    struct tn_line_leader leader = {
        .there = true, .moved = key->moved, .bound = true, .token = key->token
    };
    struct sim_event step = { .kind = SIM_EV_LINE_REVOKE,
                              .name = name,
                              .node = key->node,
                              .life = key->life,
                              .line.order = key->order };
    struct tn_line_revoke revoke;

    tn_line_revoke_start(&revoke, &leader, 0);
    go_on(world, &step, &revoke);
}

/* Another operator: a second name of a session whose hold-off is under way. Its holder hears
 * nothing of that, nor can it renew. */
static void revoke_another(struct sim_world *world, const struct sim_event *event)
{
    struct sim_node *node = &world->nodes[event->node];
    tenure_ns ttl = life_of(world, event->node, event->life)->ttl;

    for (uint32_t i = 0; i < world->config.names && !world->healed; i++) {
        const struct sim_line *line = sim_line_of(world, i);
        const struct sim_key *key = &line->keys[0];
        if (line->count == 0 || key->moved || key->node != event->node || key->life != event->life)
            continue;
        sim_fired(world, SIM_FAULT_CUT_BOTH);
        node->cut_to_until = node->cut_from_until = world->now + ttl;
        revoke_key(world, i, key);
        return;
    }
}

void sim_line_revoke(struct sim_world *world, const struct sim_event *event)
{
    struct sim_event step = *event;
    struct tn_line_revoke revoke = { .step = event->op };

    sim_line_expire(world);
    if (step.op == ANOTHER) {
        revoke_another(world, event);
        return;
    }
    /* The life has given way to a later one, or the lease to move to has ended: the operator hears
     * of an error. */
    const struct sim_life *life = life_of(world, step.node, step.life);
    if (life->life != step.life || (step.op == TN_LINE_REVOKE_MOVE && life->held_off_until == 0))
        return;
    tn_line_revoke_went(&revoke, carry_out(world, &step));
    go_on(world, &step, &revoke);
}

static void revoke_atomic(struct sim_world *world, uint32_t name, const struct sim_key *key)
{
    struct sim_event another = {
        .kind = SIM_EV_LINE_REVOKE, .op = ANOTHER, .node = key->node, .life = key->life
    };
    tenure_ns ttl = life_of(world, key->node, key->life)->ttl;

    revoke_key(world, name, key);
    bool alone = world->healed || world->script != NULL || world->config.names == 1;
    if (!alone && sim_chance(world, TN_PPM / 2))
        sim_at(world, world->now + sim_between(world, ttl / 4, ttl), &another);
}

void sim_line_operator(struct sim_world *world, enum tn_op_kind kind, uint32_t name, uint64_t token)
{
    struct sim_line *line = sim_line_of(world, name);

    if (kind != TN_OP_REVOKE) {
        TN_ASSERT(kind == TN_OP_RAISE);
        if (world->store.revision < token)
            world->store.revision = token;
        return;
    }
    if (line->count == 0)
        return;
    if (sim_chance(world, TN_PPM / 4)) {
        world->store.epoch[name]++;
        sim_fired(world, SIM_FAULT_DELETE);
        sim_line_delete(world, name, &line->keys[0]);
        return;
    }
    if (world->config.atomic) {
        revoke_atomic(world, name, &line->keys[0]);
        return;
    }
    sim_line_begin_change(world, name);
    line->keys[0].changed = true;
    sim_fired(world, SIM_FAULT_REVOKE);
    sim_line_push(world, name, SIM_LINE_CHANGED, line->keys[0].order);
}
