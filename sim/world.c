/* world.c - the queue of events and the clocks.
 *
 * Events are ordered by real time, and at one instant by the order in which they were scheduled, so
 * a seed has exactly one history. */
#include "sim/check.h"
#include "sim/votes.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* --- Memory: grown on demand, kept from seed to seed ------------------------------------------ */

static void *grown(void *memory, size_t count, size_t size)
{
    void *bigger = realloc(memory, count * size);
    TN_ASSERT(bigger != NULL);
    return bigger;
}

void sim_world_free(struct sim_world *world)
{
    for (uint32_t i = 0; i < SIM_NAMES_MAX; i++)
        free(world->store.queue[i].list);
    free(world->store.block);
    free(world->store.backup);
    free(world->store.lives);
    free(world->store.row_sessions);
    free(world->store.backup_row_sessions);
    free(world->heap);
    free(world->slots);
    free(world->free_slots);
    free(world->nodes);
    free(world->seats);
    free(world->row_clients);
    sim_votes_free(world);
    free(world->line_clients);
    free(world->store.lines);
    free(world->store.backup_lines);
    sim_hosts_free(world);
    memset(world, 0, sizeof *world);
}

static void reset_slots(struct sim_world *world)
{
    world->heap_count = 0;
    world->free_count = 0;
    for (uint32_t i = world->slot_room; i > 0; i--)
        world->free_slots[world->free_count++] = i - 1;
}

static void grow_slots(struct sim_world *world)
{
    uint32_t room = world->slot_room ? 2 * world->slot_room : 256;
    world->slots = grown(world->slots, room, sizeof *world->slots);
    world->free_slots = grown(world->free_slots, room, sizeof *world->free_slots);
    world->heap = grown(world->heap, room, sizeof *world->heap);
    for (uint32_t i = room; i > world->slot_room; i--)
        world->free_slots[world->free_count++] = i - 1;
    world->slot_room = room;
}

/* What outlives a seed: memory, and how its story is told. */
static void keep_memory(const struct sim_world *old, struct sim_world *fresh)
{
    fresh->heap = old->heap;
    fresh->slots = old->slots;
    fresh->free_slots = old->free_slots;
    fresh->slot_room = old->slot_room;
    fresh->row_clients = old->row_clients;
    fresh->store.row_sessions = old->store.row_sessions;
    fresh->store.backup_row_sessions = old->store.backup_row_sessions;
    fresh->vote_clients = old->vote_clients;
    fresh->store.voters = old->store.voters;
    fresh->line_clients = old->line_clients;
    fresh->store.lines = old->store.lines;
    fresh->store.backup_lines = old->store.backup_lines;
    fresh->store.block = old->store.block;
    fresh->store.backup = old->store.backup;
    fresh->store.block_size = old->store.block_size;
    for (uint32_t i = 0; i < SIM_NAMES_MAX; i++)
        fresh->store.queue[i].list = old->store.queue[i].list;
    fresh->hosts = old->hosts;
    fresh->listener = old->listener;
}

void sim_world_reset(struct sim_world *world, const struct sim_config *config, uint64_t seed)
{
    struct sim_world fresh = { .config = *config, .seed = seed };
    size_t seats = (size_t)config->nodes * config->names;

    TN_ASSERT(config->nodes > 0 && config->nodes <= SIM_NODES_MAX);
    TN_ASSERT(config->names > 0 && config->names <= SIM_NAMES_MAX);
    keep_memory(world, &fresh);
    fresh.nodes = grown(world->nodes, config->nodes, sizeof *fresh.nodes);
    fresh.seats = grown(world->seats, seats, sizeof *fresh.seats);
    fresh.store.lives = grown(world->store.lives, config->nodes, sizeof *fresh.store.lives);
    memset(fresh.nodes, 0, config->nodes * sizeof *fresh.nodes);
    memset(fresh.seats, 0, seats * sizeof *fresh.seats);
    memset(fresh.store.lives, 0, config->nodes * sizeof *fresh.store.lives);
    for (uint32_t i = 0; i < config->nodes; i++) {
        fresh.nodes[i].index = i;
        fresh.nodes[i].seats = &fresh.seats[(size_t)i * config->names];
    }
    for (uint32_t i = 0; i < SIM_NAMES_MAX; i++)
        fresh.leader[i] = SIM_NOBODY;
    for (uint32_t i = 0; i < SIM_NAMES_MAX; i++)
        fresh.vacant_since[i] = TN_NEVER;
    fresh.doomed_node = SIM_NOBODY;
    fresh.must_keep = SIM_NOBODY;
    *world = fresh;
    reset_slots(world);
    tn_prng_seed(&world->prng, seed);
    world->now = TN_SEC(1);
    sim_store_init(world);
}

/* --- The queue -------------------------------------------------------------------------------- */

static bool before(const struct sim_heap_entry *a, const struct sim_heap_entry *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void sift_up(struct sim_heap_entry *heap, uint32_t slot)
{
    struct sim_heap_entry entry = heap[slot];
    while (slot > 0 && before(&entry, &heap[(slot - 1) / 2])) {
        heap[slot] = heap[(slot - 1) / 2];
        slot = (slot - 1) / 2;
    }
    heap[slot] = entry;
}

static void sift_down(struct sim_heap_entry *heap, uint32_t count, uint32_t slot)
{
    struct sim_heap_entry entry = heap[slot];
    for (;;) {
        uint32_t child = 2 * slot + 1;
        if (child >= count)
            break;
        if (child + 1 < count && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &entry))
            break;
        heap[slot] = heap[child];
        slot = child;
    }
    heap[slot] = entry;
}

void sim_at(struct sim_world *world, tenure_ns at, const struct sim_event *event)
{
    TN_ASSERT(at >= world->now);
    if (world->free_count == 0)
        grow_slots(world);
    uint32_t slot = world->free_slots[--world->free_count];
    world->slots[slot] = *event;
    world->heap[world->heap_count] =
        (struct sim_heap_entry) { .at = at, .order = ++world->order, .slot = slot };
    sift_up(world->heap, world->heap_count++);
}

static struct sim_event take(struct sim_world *world)
{
    TN_ASSERT(world->heap_count > 0);
    struct sim_heap_entry first = world->heap[0];
    TN_ASSERT(first.at >= world->now);
    world->now = first.at;
    world->heap[0] = world->heap[--world->heap_count];
    if (world->heap_count > 0)
        sift_down(world->heap, world->heap_count, 0);
    world->free_slots[world->free_count++] = first.slot;
    return world->slots[first.slot];
}

void sim_hurry(struct sim_world *world, tenure_ns latest, tenure_ns drained)
{
    for (uint32_t i = 0; i < world->heap_count; i++) {
        struct sim_heap_entry *entry = &world->heap[i];
        uint8_t kind = world->slots[entry->slot].kind;
        if (kind <= SIM_EV_RAISED && entry->at > latest)
            entry->at = latest;
        if (kind == SIM_EV_DRAINED && entry->at > drained)
            entry->at = drained;
    }
    for (uint32_t i = world->heap_count / 2; i > 0; i--)
        sift_down(world->heap, world->heap_count, i - 1);
}

static void dispatch(struct sim_world *world, const struct sim_event *event)
{
    switch ((enum sim_event_kind)event->kind) {
    case SIM_EV_REQUEST:
    case SIM_EV_ROW_GET:
    case SIM_EV_ROW_PUT:
    case SIM_EV_ROW_SESSION:
    case SIM_EV_ROW_WATCH:
    case SIM_EV_LINE_STEP:
    case SIM_EV_LINE_REVOKE:
    case SIM_EV_STORE_TIMER:
    case SIM_EV_STORE_UP:
        sim_store_event(world, event);
        break;
    case SIM_EV_VOTE:
    case SIM_EV_VOTER:
        sim_voters_event(world, event);
        break;
    case SIM_EV_WRITE:
    case SIM_EV_RAISE:
        sim_receiver_event(world, event);
        break;
    case SIM_EV_FAULT:
        sim_fault_event(world, event);
        break;
    case SIM_EV_STEP:
        sim_phase_step(world);
        break;
    default:
        TN_ASSERT(event->kind < SIM_EV_KINDS);
        sim_node_event(world, event);
    }
}

/* Busy without getting anywhere is a broken promise of liveness too. */
static void check_progress(struct sim_world *world, tenure_ns before)
{
    world->stats.events++;
    if (world->now != before)
        world->moved_on = world->stats.events;
    if (world->stats.events > SIM_EVENTS_MOST ||
        world->stats.events - world->moved_on > SIM_EVENTS_AT_ONCE) {
        sim_violate(world, "P7", "everyone is busy and nothing gets on");
        world->ended = true;
    }
}

static bool is_over(const struct sim_world *world)
{
    return world->ended || (world->violation.promise != NULL && !world->goes_on);
}

tenure_ns sim_world_next_at(const struct sim_world *world)
{
    return is_over(world) || world->heap_count == 0 ? TN_NEVER : world->heap[0].at;
}

void sim_world_run(struct sim_world *world, tenure_ns until)
{
    while (!is_over(world) && (until == TN_NEVER || sim_world_next_at(world) <= until)) {
        tenure_ns before = world->now;
        struct sim_event event = take(world);
        check_progress(world, before);
        dispatch(world, &event);
        if (world->listener != NULL && world->listener->step != NULL)
            world->listener->step(world->listener->arg, world);
    }
    if (!is_over(world) && until != TN_NEVER && until > world->now)
        world->now = until;
}

/* --- Clocks ----------------------------------------------------------------------------------- */

/* span * num / den without overflow, rounded down. */
static tenure_ns scaled(tenure_ns span, int64_t num, int64_t den)
{
    return span / den * num + span % den * num / den;
}

tenure_ns sim_clock_local(const struct sim_clock *clock, tenure_ns real)
{
    return clock->local_from + scaled(real - clock->real_from, clock->rate_ppm, TN_PPM);
}

/* The first real instant at which the clock shows @local. */
tenure_ns sim_clock_real(const struct sim_clock *clock, tenure_ns local)
{
    if (local <= clock->local_from)
        return clock->real_from;
    tenure_ns real = clock->real_from + scaled(local - clock->local_from, TN_PPM, clock->rate_ppm);
    while (sim_clock_local(clock, real) < local)
        real++;
    return real;
}

void sim_clock_set_rate(struct sim_clock *clock, tenure_ns real, int64_t rate_ppm)
{
    clock->local_from = sim_clock_local(clock, real);
    clock->real_from = real;
    clock->rate_ppm = rate_ppm;
}

bool sim_chance(struct sim_world *world, uint32_t ppm)
{
    return tn_prng_ppm(&world->prng, ppm);
}

tenure_ns sim_between(struct sim_world *world, tenure_ns low, tenure_ns high)
{
    return tn_prng_range(&world->prng, low, high);
}
