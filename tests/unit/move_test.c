/* move_test.c - the steps of a move, taken in every order that chance finds: movers in both
 * directions, killed and run again between any two steps, among candidates at both stores. One
 * leader at a time, and tokens that rise over both stores; a wrong decision is found. */
#include "tests/harness/test.h"

#include <string.h>

#include "base/prng.h"
#include "core/move.h"

enum { MOVERS = 3, STEPS = 120, WORLDS = 20000 };

typedef enum tn_move_step decider(const struct tn_move_place *from, const struct tn_move_place *to,
                                  uint64_t raised);

/* A store with one name: a counter, who holds it, and a place in line for each mover. */
struct store {
    uint64_t counter;
    struct tn_move_place holds;
    bool begun; /* Candidates use it: the first store at once, the second once it was reserved. */
    bool waits; /* A block is in line. */
};

struct mover {
    int from; /* And to the other. */
    int read; /* How many of the two it has read. */
    struct tn_move_place seen[2];
    uint64_t raised;
};

struct world {
    struct store stores[2];
    struct mover movers[MOVERS];
    struct tn_prng prng;
    uint64_t last; /* The token of the last candidate that led. */
    unsigned done;
    bool broken;
};

static struct tn_move_place *hold(struct store *store, enum tn_move_state state)
{
    store->holds.state = state;
    store->holds.token = ++store->counter;
    return &store->holds;
}

static void lead(struct world *world, int at)
{
    struct store *store = &world->stores[at];

    if (store->holds.state != TN_MOVE_FREE || !store->begun)
        return;
    hold(store, TN_MOVE_LED);
    if (world->stores[!at].holds.state == TN_MOVE_LED || store->holds.token <= world->last)
        world->broken = true;
    world->last = store->holds.token;
}

static void vacate(struct world *world, int at)
{
    struct store *store = &world->stores[at];

    store->holds.state = TN_MOVE_FREE;
    if (store->waits && tn_prng_below(&world->prng, 2) == 0) {
        store->waits = false;
        hold(store, TN_MOVE_MOVED);
    }
}

/* What a store does with it: exact releases, grants of what is free, a line. */
static void act(struct world *world, struct mover *mover, enum tn_move_step step)
{
    struct store *from = &world->stores[mover->from];
    struct store *to = &world->stores[!mover->from];
    const struct tn_move_place *seen = &mover->seen[!mover->from];
    uint64_t floor = tn_move_floor(&mover->seen[mover->from]);

    if (step == TN_MOVE_RAISE) {
        to->counter = to->counter > floor ? to->counter : floor;
        mover->raised = floor;
    } else if (step == TN_MOVE_RESERVE && to->holds.state == TN_MOVE_FREE) {
        hold(to, TN_MOVE_RESERVED);
        to->begun = true;
    } else if (step == TN_MOVE_BLOCK && from->holds.state == TN_MOVE_FREE) {
        hold(from, TN_MOVE_MOVED);
    } else if (step == TN_MOVE_BLOCK && from->holds.state == TN_MOVE_LED) {
        from->waits = true;
        vacate(world, mover->from); /* It was revoked, and has stopped. */
    } else if (step == TN_MOVE_OPEN && to->holds.state == seen->state &&
               to->holds.token == seen->token) {
        vacate(world, !mover->from);
        world->done++;
    }
}

static void restart(struct mover *mover)
{
    mover->read = 0;
    mover->raised = 0;
}

static void go_on(struct world *world, struct mover *mover, decider *decide)
{
    if (mover->read < 2) {
        int at = mover->read++ == 0 ? mover->from : !mover->from;
        mover->seen[at] = world->stores[at].holds;
        return;
    }
    mover->read = 0;
    enum tn_move_step step =
        decide(&mover->seen[mover->from], &mover->seen[!mover->from], mover->raised);
    act(world, mover, step);
    if (step >= TN_MOVE_DONE)
        restart(mover);
}

static void run(struct world *world, uint64_t seed, bool both_ways, decider *decide)
{
    memset(world, 0, sizeof *world);
    tn_prng_seed(&world->prng, seed);
    world->stores[0].counter = tn_prng_below(&world->prng, 300);
    world->stores[1].counter = tn_prng_below(&world->prng, 300);
    world->stores[0].begun = true;
    for (int i = 0; i < MOVERS; i++)
        world->movers[i].from = both_ways && i == MOVERS - 1;
    for (int i = 0; i < STEPS && !world->broken; i++) {
        uint64_t dice = tn_prng_below(&world->prng, 16);
        int at = (int)tn_prng_below(&world->prng, 2);
        struct mover *mover = &world->movers[tn_prng_below(&world->prng, MOVERS)];
        if (dice == 0)
            restart(mover); /* Killed, and run again. */
        else if (dice < 4)
            lead(world, at);
        else if (dice == 4 && world->stores[at].holds.state == TN_MOVE_LED)
            vacate(world, at);
        else
            go_on(world, mover, decide);
    }
}

static bool is_sound(decider *decide)
{
    unsigned done = 0;

    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        struct world world;
        run(&world, seed, seed % 2 == 0, decide);
        done += world.done;
        if (world.broken)
            return false;
    }
    CHECK(done > WORLDS / 2);
    return true;
}

TEST(a_move_keeps_one_leader_and_rising_tokens)
{
    CHECK(is_sound(tn_move_next));
}

static enum tn_move_step never_reserve(const struct tn_move_place *from,
                                       const struct tn_move_place *to, uint64_t raised)
{
    enum tn_move_step step = tn_move_next(from, to, raised);
    return step == TN_MOVE_RESERVE && from->state != TN_MOVE_MOVED ? TN_MOVE_BLOCK : step;
}

static enum tn_move_step never_raise(const struct tn_move_place *from,
                                     const struct tn_move_place *to, uint64_t raised)
{
    (void)raised;
    return tn_move_next(from, to, UINT64_MAX);
}

static enum tn_move_step open_early(const struct tn_move_place *from,
                                    const struct tn_move_place *to, uint64_t raised)
{
    enum tn_move_step step = tn_move_next(from, to, raised);
    return step == TN_MOVE_BLOCK && to->state == TN_MOVE_RESERVED ? TN_MOVE_OPEN : step;
}

static enum tn_move_step go_both_ways(const struct tn_move_place *from,
                                      const struct tn_move_place *to, uint64_t raised)
{
    enum tn_move_step step = tn_move_next(from, to, raised);
    return step == TN_MOVE_REVERSED ? TN_MOVE_OPEN : step;
}

static enum tn_move_step share(const struct tn_move_place *from, const struct tn_move_place *to,
                               uint64_t raised)
{
    struct tn_move_place moved = { TN_MOVE_MOVED, from->token };
    return tn_move_next(from->state == TN_MOVE_RESERVED ? &moved : from, to, raised);
}

TEST(a_wrong_decision_of_a_move_is_found)
{
    decider *wrong[] = { never_raise, open_early, go_both_ways, share };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK(!is_sound(wrong[i]));
    /* Without the reservation no candidate of the model would begin there at all. */
    struct tn_move_place led = { TN_MOVE_LED, 7 }, none = { TN_MOVE_FREE, 0 };
    CHECK_EQ_I64(never_reserve(&led, &none, 7 + 64), TN_MOVE_BLOCK);
    CHECK_EQ_I64(tn_move_next(&led, &none, 7 + 64), TN_MOVE_RESERVE);
}

TEST(a_move_says_why_it_cannot_go_on)
{
    struct tn_move_place free_7 = { TN_MOVE_FREE, 7 }, led_9 = { TN_MOVE_LED, 9 };
    struct tn_move_place moved_20 = { TN_MOVE_MOVED, 20 }, moved_30 = { TN_MOVE_MOVED, 30 };
    struct tn_move_place foreign = { TN_MOVE_FOREIGN, 9 }, reserved = { TN_MOVE_RESERVED, 9 };

    CHECK_EQ_I64(tn_move_next(&free_7, &led_9, 0), TN_MOVE_TWO);
    CHECK_EQ_I64(tn_move_next(&foreign, &free_7, 0), TN_MOVE_BUSY);
    CHECK_EQ_I64(tn_move_next(&free_7, &foreign, 0), TN_MOVE_BUSY);
    CHECK_EQ_I64(tn_move_next(&reserved, &free_7, 0), TN_MOVE_BUSY);
    CHECK_EQ_I64(tn_move_next(&moved_20, &moved_30, 0), TN_MOVE_REVERSED);
    CHECK_EQ_I64(tn_move_next(&moved_30, &moved_20, 0), TN_MOVE_RAISE);
    CHECK_EQ_I64(tn_move_next(&moved_30, &moved_20, 30), TN_MOVE_OPEN);
    CHECK_EQ_I64(tn_move_next(&moved_20, &led_9, 0), TN_MOVE_RAISE);
    CHECK_EQ_I64(tn_move_next(&moved_20, &led_9, 20), TN_MOVE_LOW);
    CHECK_EQ_I64(tn_move_next(&moved_20, &free_7, 20), TN_MOVE_DONE);
    CHECK_EQ_I64(tn_move_next(&moved_20, &free_7, 0), TN_MOVE_RESERVE);
    CHECK_EQ_U64(tn_move_floor(&led_9), 9 + 64);
    CHECK_EQ_U64(tn_move_floor(&moved_20), 20);
    CHECK_EQ_U64(tn_move_floor(&(struct tn_move_place) { TN_MOVE_LED, UINT64_MAX }), UINT64_MAX);
}

TEST(a_move_that_is_given_up_opens_the_old_store_first)
{
    struct tn_move_place led = { TN_MOVE_LED, 9 }, moved = { TN_MOVE_MOVED, 20 };
    struct tn_move_place reserved = { TN_MOVE_RESERVED, 9 }, none = { TN_MOVE_FREE, 0 };
    struct tn_move_place foreign = { TN_MOVE_FOREIGN, 9 };

    CHECK_EQ_I64(tn_move_undo(&moved, &reserved), TN_MOVE_REOPEN);
    CHECK_EQ_I64(tn_move_undo(&none, &reserved), TN_MOVE_OPEN);
    CHECK_EQ_I64(tn_move_undo(&led, &none), TN_MOVE_DONE);
    CHECK_EQ_I64(tn_move_undo(&moved, &led), TN_MOVE_TWO);
    CHECK_EQ_I64(tn_move_undo(&moved, &foreign), TN_MOVE_BUSY);
    CHECK_EQ_I64(tn_move_undo(&foreign, &reserved), TN_MOVE_OPEN);
}
