/* rank.c - the priority of an election: the leases that show who waits, as elections of our own.
 *
 * core/rank.h decides. Here one election holds the lease of our level while core/claim.h wants to
 * be seen, and one for each higher level observes it. The application knows nothing of them. As
 * with slots, the driver must not be stepped from within its own news, so what follows from them
 * happens when the step is over. */
#include <stdlib.h>

#include "lib/private.h"

int tn_lib_rank_add(struct tenure *tenure, struct tn_lib_rank *rank)
{
    struct tn_driver *driver = &tenure->driver;

    /* It fails only when the driver is closing, and then for the first one already. */
    for (uint32_t i = 0; i < rank->count; i++) {
        int rc = tn_driver_add(driver, &rank->list[i]->seat, NULL);
        if (rc < 0)
            return rc;
    }
    rank->election->seat.seat.claim.notes.rank = &rank->core;
    rank->next = tenure->ranks;
    tenure->ranks = rank;
    for (uint32_t i = 1; i < rank->count; i++)
        tn_driver_wish(driver, &rank->list[i]->seat, TN_CLAIM_EV_OBSERVE);
    return 0;
}

static void unlink_rank(struct tenure *tenure, struct tn_lib_rank *rank)
{
    struct tn_lib_rank **place = &tenure->ranks;

    while (*place != NULL && *place != rank)
        place = &(*place)->next;
    if (*place != NULL)
        *place = rank->next;
}

void tn_lib_rank_leave(struct tn_lib_rank *rank)
{
    struct tenure *tenure = rank->election->tenure;

    unlink_rank(tenure, rank);
    for (uint32_t i = 0; i < rank->count; i++) {
        rank->list[i]->life = TN_ELECTION_LEFT;
        tn_driver_leave(&tenure->driver, &rank->list[i]->seat);
    }
}

void tn_lib_rank_free(struct tenure_election *election)
{
    struct tn_lib_rank *rank = election->rank;

    unlink_rank(election->tenure, rank);
    if (--rank->members == 0)
        free(rank);
}

void tn_lib_rank_tell(struct tenure_election *election, const struct tn_claim_action *action)
{
    struct tn_lib_rank *rank = election->rank;
    struct tn_driver *driver = &election->tenure->driver;

    if (action->kind != TN_CLAIM_DO_LEADER || election->level == rank->core.level)
        return; /* Of our own lease nothing needs to be told: settle sees what has become of it. */
    tn_rank_hear(&rank->core, tn_clock_now(&driver->clock), election->level, action->held,
                 action->token, driver->config.notes.back);
    rank->heard = true;
}

/* True: somebody was told something, which may change what is wanted. */
static bool settle_one(struct tn_lib_rank *rank)
{
    struct tn_driver *driver = &rank->election->tenure->driver;
    struct tn_driver_seat *own = &rank->list[0]->seat;
    const struct tn_claim *claim = &own->seat.claim;
    bool wants = tn_claim_announces(&rank->election->seat.seat.claim);

    if (rank->heard) {
        rank->heard = false;
        tn_driver_look(driver, &rank->election->seat);
        return true;
    }
    if (wants != claim->campaigning) {
        tn_driver_wish(driver, own, wants ? TN_CLAIM_EV_CAMPAIGN : TN_CLAIM_EV_RESIGN);
        return true;
    }
    if (claim->state != TN_CLAIM_DRAINING || !claim->working)
        return false;
    tn_driver_wish(driver, own, TN_CLAIM_EV_DRAINED); /* There is no work to stop. */
    return true;
}

void tn_lib_ranks_settle(struct tenure *tenure)
{
    for (struct tn_lib_rank *rank = tenure->ranks; rank != NULL; rank = rank->next)
        while (settle_one(rank))
            continue;
}
