/* driver_seats.c - the names that a driver's candidate campaigns for or observes; driver.h. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "runtime/driver_inside.h"

struct tn_driver_seat **tn_driver_bucket(const struct tn_driver *driver, const char *name)
{
    struct tn_hash_key key = { 0 };

    memcpy(&key, &driver->secret, sizeof key);
    return &driver->buckets[tn_hash(key, name, strlen(name)) & (driver->bucket_count - 1)];
}

/* Twice as many buckets; without memory the old ones do. */
static void grow(struct tn_driver *driver)
{
    struct tn_driver_seat **old = driver->buckets;
    uint32_t count = driver->bucket_count;
    struct tn_driver_seat **wide = calloc(2 * (size_t)count, sizeof(*wide));

    if (wide == NULL)
        return;
    driver->buckets = wide;
    driver->bucket_count = 2 * count;
    for (uint32_t i = 0; i < count; i++) {
        for (struct tn_driver_seat *seat = old[i], *next; seat != NULL; seat = next) {
            next = seat->bucket_next;
            struct tn_driver_seat **place = tn_driver_bucket(driver, seat->name);
            seat->bucket_next = *place;
            *place = seat;
        }
    }
    free(old);
}

void tn_driver_add_chore(struct tn_driver *driver, struct tn_driver_seat *seat)
{
    if (seat->chore)
        return;
    seat->chore = true;
    seat->chore_next = driver->chores;
    driver->chores = seat;
}

int tn_driver_add(struct tn_driver *driver, struct tn_driver_seat *seat,
                  const struct tn_claim_config *config)
{
    if (driver->closing)
        return TENURE_E_CLOSED;
    if (driver->candidate.seat_count >= driver->bucket_count)
        grow(driver);
    seat->number = ++driver->seat_numbers;
    seat->place = 0;
    seat->noted = 0;
    seat->leader = NULL;
    seat->leader_len = 0;
    seat->reqs = NULL;
    seat->chore = seat->watched = seat->leaving = seat->left = seat->note_watched = false;
    struct tn_driver_seat **place = tn_driver_bucket(driver, seat->name);
    seat->bucket_next = *place;
    *place = seat;
    tn_candidate_add(&driver->candidate, &seat->seat, config);
    tn_driver_add_chore(driver, seat);
    return 0;
}

/* Attempts and seats of each process have numbers that no process before it had. */
void tn_driver_keep(struct tn_driver *driver, struct tn_ledger *ledger)
{
    TN_ASSERT(driver->candidate.seat_count == 0 && driver->candidate.life == 0);
    driver->ledger = ledger;
    driver->secret = ledger->secret;
    driver->seat_numbers = ledger->starts << 40;
    if (ledger->resumed)
        tn_candidate_resume(&driver->candidate, ledger->life, ledger->starts << 32);
}

void tn_driver_resume(struct tn_driver_seat *seat, const struct tn_ledger_entry *past,
                      uint32_t place, uint64_t token)
{
    seat->number = past->number;
    seat->place = place;
    seat->noted = past->gen;
    tn_claim_resume(&seat->seat.claim, past->gen, token);
}

void tn_driver_note_in_ledger(struct tn_driver *driver, struct tn_driver_seat *seat, uint64_t gen,
                              uint64_t token)
{
    struct tn_ledger_entry entry = { .number = seat->number, .gen = gen, .token = token };

    if (driver->ledger == NULL || (seat->noted == gen && token == 0))
        return;
    (void)strncpy(entry.name, seat->name, sizeof entry.name - 1);
    tn_ledger_note(driver->ledger, &seat->place, &entry);
    seat->noted = gen;
}

static void forget_reqs(struct tn_driver_seat *seat)
{
    while (seat->reqs != NULL) {
        struct tn_driver_req *req = seat->reqs;
        seat->reqs = req->seat_next;
        req->seat = NULL;
    }
}

/* Out of the candidate; the loop's thread disposes of it. */
void tn_driver_remove_seat(struct tn_driver *driver, struct tn_driver_seat *seat)
{
    struct tn_driver_seat **place = tn_driver_bucket(driver, seat->name);

    TN_ASSERT(!seat->left);
    while (*place != seat)
        place = &(*place)->bucket_next;
    *place = seat->bucket_next;
    forget_reqs(seat);
    tn_candidate_remove(&driver->candidate, &seat->seat);
    if (seat->leaving)
        driver->leaving--;
    if (driver->ledger != NULL && !driver->closing)
        tn_ledger_drop(driver->ledger, &seat->place);
    seat->left = true;
    tn_driver_add_chore(driver, seat);
}

void tn_driver_remove_if_idle(struct tn_driver *driver, struct tn_driver_seat *seat)
{
    const struct tn_claim *claim = &seat->seat.claim;

    if (seat->leaving && !seat->left && claim->state == TN_CLAIM_WATCHING && !claim->queued)
        tn_driver_remove_seat(driver, seat);
}

/* After a step that may have made any of them idle. */
void tn_driver_sweep_leaving(struct tn_driver *driver)
{
    struct tn_seat *next;

    if (driver->leaving == 0)
        return;
    for (struct tn_seat *seat = driver->candidate.seats; seat != NULL; seat = next) {
        next = seat->next;
        tn_driver_remove_if_idle(driver, tn_driver_seat_of(seat));
    }
}

void tn_driver_leave(struct tn_driver *driver, struct tn_driver_seat *seat)
{
    TN_ASSERT(!seat->leaving);
    seat->leaving = true;
    driver->leaving++;
    tn_candidate_wish(&driver->candidate, tn_driver_now(driver), &seat->seat, TN_CLAIM_EV_RESIGN);
    tn_candidate_wish(&driver->candidate, tn_driver_now(driver), &seat->seat, TN_CLAIM_EV_DRAINED);
    tn_driver_remove_if_idle(driver, seat);
}
