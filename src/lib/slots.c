/* slots.c - a semaphore as the application sees it: one election, with a seat for each slot.
 *
 * core/slots.h decides which seats may win and which term is the application's; here the seats are
 * told so. The driver must not be stepped from within its own news, so that happens when a step is
 * over (tn_lib_slots_settle), before the lock is let go. */
#include <stdlib.h>

#include "base/assert.h"
#include "lib/private.h"

static struct tenure_election *head(const struct tn_lib_slots *slots)
{
    return slots->list[0].election;
}

static struct tenure_election *kept(const struct tn_lib_slots *slots)
{
    return slots->core.kept != 0 ? slots->list[slots->core.kept - 1].election : NULL;
}

int tn_lib_slots_add(struct tenure *tenure, struct tn_lib_slots *slots,
                     const struct tn_claim_config *config)
{
    /* It fails only when the driver is closing, and then for the first one already. */
    for (uint32_t i = 0; i < slots->core.count; i++) {
        int rc = tn_driver_add(&tenure->driver, &slots->list[i].election->seat, config);
        if (rc < 0)
            return rc;
    }
    slots->next = tenure->slots;
    tenure->slots = slots;
    return 0;
}

static void unlink_slots(struct tenure *tenure, struct tn_lib_slots *slots)
{
    struct tn_lib_slots **place = &tenure->slots;

    while (*place != NULL && *place != slots)
        place = &(*place)->next;
    if (*place != NULL)
        *place = slots->next;
}

void tn_lib_slots_leave(struct tn_lib_slots *slots)
{
    struct tenure *tenure = head(slots)->tenure;

    unlink_slots(tenure, slots);
    slots->left = true;
    for (uint32_t i = slots->core.count; i > 0; i--) {
        struct tenure_election *election = slots->list[i - 1].election;
        election->life = TN_ELECTION_LEFT;
        tn_driver_leave(&tenure->driver, &election->seat);
    }
}

void tn_lib_slot_free(struct tenure_election *election)
{
    struct tn_lib_slots *slots = election->slot->all;

    if (--slots->members > 0)
        return;
    unlink_slots(election->tenure, slots);
    free(slots);
}

/* --- What the core says ----------------------------------------------------------------------- */

/* The application hears of others only when they hold all slots, and when one is free again. */
static bool see_leader(struct tenure_election *election, const struct tn_claim_action *action,
                       struct tn_claim_action *ret_action)
{
    struct tn_lib_slots *slots = election->slot->all;

    tn_slots_see(&slots->core, election->slot->index, action->held && !action->mine);
    bool full = tn_slots_full(&slots->core);
    bool news = full != slots->full && !action->mine; /* WON tells of our own. */
    slots->full = full;
    if (full)
        slots->leader_of = election;
    *ret_action = *action;
    ret_action->held = full;
    return news;
}

struct tenure_election *tn_lib_slot_tell(struct tenure_election *election,
                                         const struct tn_claim_action **action,
                                         struct tn_claim_action *buf)
{
    struct tn_lib_slots *slots = election->slot->all;
    bool tell = false;

    if (slots->left)
        return NULL;
    switch ((*action)->kind) {
    case TN_CLAIM_DO_WON:
        tell = tn_slots_won(&slots->core, election->slot->index);
        if (tell)
            atomic_store_explicit(&slots->kept, election->slot->number, memory_order_release);
        break;
    case TN_CLAIM_DO_LOST:
        tell = tn_slots_lost(&slots->core, election->slot->index);
        break;
    case TN_CLAIM_DO_DRAIN:
        tell = tn_slots_is_kept(&slots->core, election->slot->index);
        break;
    case TN_CLAIM_DO_LEADER:
        tell = see_leader(election, *action, buf);
        *action = buf;
        break;
    default: /* REFUSED. */
        tell = kept(slots) == NULL;
    }
    return tell ? head(slots) : NULL;
}

/* --- What the application says ---------------------------------------------------------------- */

static void wish_all(const struct tn_lib_slots *slots, enum tn_claim_event_kind wish)
{
    for (uint32_t i = 0; i < slots->core.count; i++)
        tn_driver_wish(&head(slots)->tenure->driver, &slots->list[i].election->seat, wish);
}

void tn_lib_slot_wish(struct tenure_election *election, enum tn_claim_event_kind wish)
{
    struct tn_lib_slots *slots = election->slot->all;
    struct tn_driver *driver = &election->tenure->driver;
    struct tenure_election *mine = kept(slots);

    switch (wish) {
    case TN_CLAIM_EV_CAMPAIGN:
        tn_slots_stand(&slots->core, true);
        tn_lib_slots_settle(election->tenure); /* Who may win is settled before anybody asks. */
        wish_all(slots, wish);
        break;
    case TN_CLAIM_EV_RESIGN:
        tn_slots_stand(&slots->core, false);
        if (mine != NULL)
            tn_driver_wish(driver, &mine->seat, wish);
        break;
    case TN_CLAIM_EV_READY:
    case TN_CLAIM_EV_NOT_READY:
        tn_slots_ready(&slots->core, wish == TN_CLAIM_EV_READY);
        break;
    case TN_CLAIM_EV_DRAINED:
        if (mine == NULL)
            break;
        /* Said first: the claim may end the term within its step. */
        tn_slots_drained(&slots->core);
        tn_driver_wish(driver, &mine->seat, wish);
        break;
    default:
        if (mine != NULL)
            tn_driver_wish(driver, &mine->seat, wish);
    }
}

/* --- Between steps ---------------------------------------------------------------------------- */

/* One seat. True: it was told something, which may change what the others should do. */
static bool settle_one(struct tn_lib_slot *slot)
{
    struct tenure_election *election = slot->election;
    struct tn_lib_slots *slots = slot->all;
    struct tn_driver *driver = &election->tenure->driver;
    uint32_t index = slot->index;

    const struct tn_claim *claim = &election->seat.seat.claim;
    /* While it is not known whether this process is drained, it asks for one slot, not for all. */
    tn_slots_close(&slots->core, index,
                   claim->barred && !tn_node_notes_missing(claim->notes.node, claim->now));
    bool wants = tn_slots_wants(&slots->core, index);
    if (wants != slot->open) {
        slot->open = wants;
        tn_driver_wish(driver, &election->seat, wants ? TN_CLAIM_EV_READY : TN_CLAIM_EV_NOT_READY);
        return true;
    }
    if (!tn_slots_gives_back(&slots->core, index))
        return false;
    tn_driver_wish(driver, &election->seat, TN_CLAIM_EV_DRAINED);
    return !tn_slots_gives_back(&slots->core, index);
}

void tn_lib_slots_settle(struct tenure *tenure)
{
    for (struct tn_lib_slots *slots = tenure->slots; slots != NULL; slots = slots->next) {
        bool again = true;
        while (again) {
            again = false;
            for (uint32_t i = 0; i < slots->core.count; i++)
                again = settle_one(&slots->list[i]) || again;
        }
    }
}

uint32_t tenure_slot(const struct tenure_election *election)
{
    if (tenure_token(election) == 0 || election->slot == NULL)
        return 0;
    return atomic_load_explicit(&election->slot->all->kept, memory_order_acquire);
}
