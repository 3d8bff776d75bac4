/* slots_test.c - a semaphore's candidate: which lines it joins, which term it keeps; then many
 * candidates on a made-up store of slots with lines, step by step at random. */
#include "base/prng.h"
#include "core/slots.h"
#include "tests/harness/test.h"

TEST(one_slot_is_asked_for_first_and_the_next_when_it_is_taken)
{
    struct tn_slots slots;

    tn_slots_init(&slots, 3);
    CHECK(tn_slots_wants(&slots, 0) && !tn_slots_wants(&slots, 1) && !tn_slots_wants(&slots, 2));
    tn_slots_see(&slots, 0, true);
    CHECK(tn_slots_wants(&slots, 0) && tn_slots_wants(&slots, 1) && !tn_slots_wants(&slots, 2));
    tn_slots_see(&slots, 0, false); /* It stays in the lines that it joined. */
    CHECK(tn_slots_wants(&slots, 0) && tn_slots_wants(&slots, 1) && !tn_slots_wants(&slots, 2));
    tn_slots_close(&slots, 1, true); /* Stands down. */
    CHECK(tn_slots_wants(&slots, 2));
    CHECK(!tn_slots_full(&slots));
    tn_slots_see(&slots, 2, true);
    tn_slots_see(&slots, 1, true);
    CHECK(!tn_slots_full(&slots));
    tn_slots_see(&slots, 0, true);
    CHECK(tn_slots_full(&slots));
}

TEST(the_first_term_is_kept_and_a_second_one_given_back)
{
    struct tn_slots slots;

    tn_slots_init(&slots, 2);
    tn_slots_see(&slots, 0, true);
    CHECK(tn_slots_won(&slots, 1));
    CHECK(tn_slots_is_kept(&slots, 1) && !tn_slots_gives_back(&slots, 1));
    CHECK(!tn_slots_wants(&slots, 0));
    CHECK(!tn_slots_won(&slots, 0));
    CHECK(tn_slots_gives_back(&slots, 0) && !tn_slots_gives_back(&slots, 1));
    CHECK(!tn_slots_lost(&slots, 0)); /* Not the application's. */
    CHECK(!tn_slots_gives_back(&slots, 0));
    CHECK(tn_slots_lost(&slots, 1));
    CHECK(!tn_slots_wants(&slots, 0)); /* The work has not stopped. */
    tn_slots_drained(&slots);
    CHECK(tn_slots_wants(&slots, 0));
}

TEST(work_that_ends_before_its_term_begins_anew_with_its_loss)
{
    struct tn_slots slots;

    tn_slots_init(&slots, 2);
    tn_slots_drained(&slots); /* There is none: nothing changes. */
    CHECK(tn_slots_won(&slots, 0));
    tn_slots_drained(&slots);
    CHECK(tn_slots_is_kept(&slots, 0));
    CHECK(tn_slots_lost(&slots, 0));
    CHECK(!tn_slots_is_kept(&slots, 0) && tn_slots_wants(&slots, 0));
}

TEST(who_does_not_stand_or_is_not_ready_wants_none_and_keeps_its_term)
{
    struct tn_slots slots;

    tn_slots_init(&slots, TN_SLOTS_MAX);
    for (uint32_t i = 0; i < TN_SLOTS_MAX; i++)
        tn_slots_see(&slots, i, true);
    CHECK(tn_slots_full(&slots) && tn_slots_wants(&slots, TN_SLOTS_MAX - 1));
    tn_slots_ready(&slots, false);
    CHECK(!tn_slots_wants(&slots, 0));
    tn_slots_ready(&slots, true);
    CHECK(tn_slots_won(&slots, 7));
    tn_slots_stand(&slots, false);
    CHECK(tn_slots_wants(&slots, 7) && !tn_slots_wants(&slots, 0));
    CHECK(tn_slots_lost(&slots, 7));
    tn_slots_drained(&slots);
    CHECK(!tn_slots_wants(&slots, 7));
}

/* --- Many candidates -------------------------------------------------------------------------- */

enum { SLOTS = 3, CANDIDATES = 6, STEPS = 4000 };

struct store {
    int holder[SLOTS]; /* -1: free. */
    int line[SLOTS][CANDIDATES];
    int waiting[SLOTS];
};

struct candidate {
    struct tn_slots slots;
    bool asked[SLOTS];   /* Holds the slot, or waits in its line. */
    bool granted[SLOTS]; /* And its grant was heard. */
    bool lost;           /* The application heard so, and works on for a while. */
    uint32_t first;
};

struct world {
    struct store store;
    struct candidate list[CANDIDATES];
    struct tn_prng prng;
};

static uint32_t slot_of(const struct candidate *candidate, uint32_t index)
{
    return (candidate->first + index) % SLOTS;
}

static void grant_next(struct store *store, uint32_t slot)
{
    store->holder[slot] = -1;
    if (store->waiting[slot] == 0)
        return;
    store->holder[slot] = store->line[slot][0];
    store->waiting[slot]--;
    for (int i = 0; i < store->waiting[slot]; i++)
        store->line[slot][i] = store->line[slot][i + 1];
}

static void ask(struct store *store, uint32_t slot, int who)
{
    store->line[slot][store->waiting[slot]++] = who;
    if (store->holder[slot] < 0)
        grant_next(store, slot);
}

/* Whatever it holds or waits for. */
static void give_up(struct store *store, uint32_t slot, int who)
{
    int kept = 0;

    for (int i = 0; i < store->waiting[slot]; i++)
        if (store->line[slot][i] != who)
            store->line[slot][kept++] = store->line[slot][i];
    store->waiting[slot] = kept;
    if (store->holder[slot] == who)
        grant_next(store, slot);
}

/* One claim of one candidate does what it should, and hears what there is. */
static void step_claim(struct world *world, int who, uint32_t index)
{
    struct candidate *candidate = &world->list[who];
    struct tn_slots *slots = &candidate->slots;
    uint32_t slot = slot_of(candidate, index);
    int holder = world->store.holder[slot];

    tn_slots_see(slots, index, holder >= 0 && holder != who);
    if (candidate->asked[index] && !candidate->granted[index] && holder == who) {
        candidate->granted[index] = true;
        (void)tn_slots_won(slots, index);
    }
    if (tn_slots_gives_back(slots, index) ||
        (!tn_slots_wants(slots, index) && candidate->asked[index] && !candidate->granted[index])) {
        if (candidate->granted[index])
            CHECK(!tn_slots_lost(slots, index)); /* The application never heard of it. */
        candidate->asked[index] = candidate->granted[index] = false;
        give_up(&world->store, slot, who);
    } else if (tn_slots_wants(slots, index) && !candidate->asked[index] && !candidate->lost) {
        candidate->asked[index] = true;
        ask(&world->store, slot, who);
    }
}

/* The application's term ends, in one of the ways in which terms do. */
static void end_term(struct world *world, int who, bool by_loss)
{
    struct candidate *candidate = &world->list[who];

    for (uint32_t i = 0; i < SLOTS; i++) {
        if (!tn_slots_is_kept(&candidate->slots, i) || candidate->lost)
            continue;
        candidate->asked[i] = candidate->granted[i] = false;
        if (!by_loss)
            tn_slots_drained(&candidate->slots);
        CHECK(tn_slots_lost(&candidate->slots, i));
        candidate->lost = by_loss;
        give_up(&world->store, slot_of(candidate, i), who);
        return;
    }
}

static uint32_t terms_of(const struct candidate *candidate)
{
    uint32_t terms = 0;

    for (uint32_t i = 0; i < SLOTS; i++)
        terms += tn_slots_is_kept(&candidate->slots, i) && candidate->granted[i];
    return terms;
}

static void check_world(const struct world *world)
{
    uint32_t leading = 0;

    for (int i = 0; i < CANDIDATES; i++) {
        CHECK(terms_of(&world->list[i]) <= 1);
        leading += terms_of(&world->list[i]);
    }
    CHECK(leading <= SLOTS);
}

/* All news are heard and nobody's term ends: then each slot has a leader that knows it. */
static void check_settled(struct world *world)
{
    uint32_t leading = 0;

    for (int round = 0; round < 50; round++)
        for (int who = 0; who < CANDIDATES; who++) {
            if (world->list[who].lost)
                tn_slots_drained(&world->list[who].slots);
            world->list[who].lost = false;
            for (uint32_t i = 0; i < SLOTS; i++)
                step_claim(world, who, i);
        }
    for (int i = 0; i < CANDIDATES; i++)
        leading += terms_of(&world->list[i]);
    CHECK_EQ_I64(leading, SLOTS);
}

TEST(many_candidates_share_the_slots_and_none_stays_free)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct world world = { .store = { .holder = { -1, -1, -1 } } };
        tn_prng_seed(&world.prng, seed);
        for (uint32_t i = 0; i < CANDIDATES; i++) {
            tn_slots_init(&world.list[i].slots, SLOTS);
            world.list[i].first = i;
        }
        for (int step = 0; step < STEPS; step++) {
            int who = (int)tn_prng_below(&world.prng, CANDIDATES);
            uint64_t chance = tn_prng_below(&world.prng, 100);
            if (chance < 90) {
                step_claim(&world, who, (uint32_t)tn_prng_below(&world.prng, SLOTS));
            } else if (chance < 95) {
                end_term(&world, who, chance < 93);
            } else if (world.list[who].lost) {
                tn_slots_drained(&world.list[who].slots);
                world.list[who].lost = false;
            }
            check_world(&world);
        }
        check_settled(&world);
    }
}
