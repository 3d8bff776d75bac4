/* slots.c - which slot to ask for, which one to keep; slots.h has the rules.
 *
 * What can fail: news of a slot may be late. A taken slot that counts as free costs a request; a
 * free one that counts as taken has this candidate in its line. */
#include "core/slots.h"

#include "base/assert.h"

static uint64_t bit(uint32_t index)
{
    return UINT64_C(1) << index;
}

/* In line for the next one, too, as long as the last one cannot be had. */
static void advance(struct tn_slots *slots)
{
    while (slots->last + 1 < slots->count &&
           ((slots->taken | slots->closed) & bit(slots->last)) != 0)
        slots->last++;
}

/* The kept term is over and its work has stopped. */
static void begin_anew(struct tn_slots *slots)
{
    if (!slots->over || !slots->stopped)
        return;
    slots->kept = 0;
    slots->over = slots->stopped = false;
    slots->last = 0;
    advance(slots);
}

void tn_slots_init(struct tn_slots *slots, uint32_t count)
{
    TN_ASSERT(count >= 1);
    TN_ASSERT(count <= TN_SLOTS_MAX);
    *slots = (struct tn_slots) { .count = count, .standing = true, .ready = true };
}

void tn_slots_stand(struct tn_slots *slots, bool standing)
{
    slots->standing = standing;
}

void tn_slots_ready(struct tn_slots *slots, bool ready)
{
    slots->ready = ready;
}

/* Said before the end of the term is known, it ends the term: its claim says LOST then. */
void tn_slots_drained(struct tn_slots *slots)
{
    if (slots->kept == 0)
        return;
    slots->stopped = true;
    begin_anew(slots);
}

static void set(uint64_t *bits, uint32_t index, bool on)
{
    *bits = on ? *bits | bit(index) : *bits & ~bit(index);
}

void tn_slots_see(struct tn_slots *slots, uint32_t index, bool taken)
{
    TN_ASSERT(index < slots->count);
    set(&slots->taken, index, taken);
    advance(slots);
}

void tn_slots_close(struct tn_slots *slots, uint32_t index, bool closed)
{
    TN_ASSERT(index < slots->count);
    set(&slots->closed, index, closed);
    advance(slots);
}

bool tn_slots_won(struct tn_slots *slots, uint32_t index)
{
    TN_ASSERT(index < slots->count);
    set(&slots->won, index, true);
    set(&slots->taken, index, false);
    if (slots->kept != 0)
        return false;
    slots->kept = index + 1;
    slots->over = slots->stopped = false;
    return true;
}

bool tn_slots_lost(struct tn_slots *slots, uint32_t index)
{
    TN_ASSERT(index < slots->count);
    set(&slots->won, index, false);
    if (slots->kept != index + 1)
        return false;
    slots->over = true;
    begin_anew(slots);
    return true;
}

bool tn_slots_wants(const struct tn_slots *slots, uint32_t index)
{
    if (slots->kept != 0)
        return slots->kept == index + 1;
    return slots->standing && slots->ready && index <= slots->last;
}

bool tn_slots_gives_back(const struct tn_slots *slots, uint32_t index)
{
    return (slots->won & bit(index)) != 0 && slots->kept != index + 1;
}

bool tn_slots_is_kept(const struct tn_slots *slots, uint32_t index)
{
    return slots->kept == index + 1;
}

bool tn_slots_full(const struct tn_slots *slots)
{
    uint64_t all = slots->count == TN_SLOTS_MAX ? UINT64_MAX : bit(slots->count) - 1;

    return (slots->taken & all) == all;
}
