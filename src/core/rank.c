/* rank.c - who stays out of the line for a higher one, and which leader yields; rank.h has the
 * rules.
 *
 * What can fail: word of a lease may be late, doubled or lost. Its number tells old from new, and a
 * candidate stays out for a bounded time only. */
#include "core/rank.h"

#include "base/assert.h"
#include "core/plant.h"

enum { REFUSALS_MOST = 10 }; /* Hidden for at most a thousand steps. */

void tn_rank_hear(struct tn_rank *rank, tenure_ns now, uint32_t level, bool held, uint64_t number,
                  tenure_ns step)
{
    TN_ASSERT(level <= TN_RANK_MAX);
    uint16_t bit = (uint16_t)(1U << level);
    bool known = number == rank->number[level] && (rank->present & bit) != 0;

    if (level <= rank->level || number < rank->number[level] || (held && known))
        return;
    rank->number[level] = number;
    rank->present = (uint16_t)(held ? rank->present | bit : rank->present & ~bit);
    if (!held)
        return;
    rank->came_at = now;
    rank->fresh = true;
    rank->out_until = now + step;
}

void tn_rank_see(struct tn_rank *rank, bool held, uint64_t token)
{
    if (token <= rank->asked_token)
        return;
    if (rank->next_token == 0 && held)
        rank->next_token = token;
    else if (token > rank->next_token || !held)
        rank->asked_token = rank->next_token = 0;
}

void tn_rank_refused(struct tn_rank *rank, tenure_ns now, tenure_ns step)
{
    rank->hidden_until = now + (step << rank->refusals);
    if (rank->refusals < REFUSALS_MOST)
        rank->refusals++;
}

void tn_rank_stood_back(struct tn_rank *rank, uint64_t token)
{
    if (rank->gave_way)
        return;
    rank->asked_token = token;
    rank->next_token = 0;
}

bool tn_rank_asks(const struct tn_rank *rank, tenure_ns now, tenure_ns settle)
{
    if (TN_PLANT(RANK_KEPT))
        return false;
    return rank->yields && rank->fresh && rank->present != 0 && !rank->chosen &&
           now >= rank->came_at + settle;
}

bool tn_rank_bars(const struct tn_rank *rank, tenure_ns now)
{
    if (TN_PLANT(RANK_IGNORED))
        return false;
    return now < rank->out_until;
}

bool tn_rank_announces(const struct tn_rank *rank, tenure_ns now)
{
    return rank->asked_token == 0 && now >= rank->hidden_until;
}

tenure_ns tn_rank_wake_at(const struct tn_rank *rank, tenure_ns now, tenure_ns settle)
{
    const tenure_ns all[] = { rank->out_until, rank->hidden_until,
                              rank->fresh ? rank->came_at + settle : 0 };
    tenure_ns at = TN_NEVER;

    for (uint32_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] > now && all[i] < at)
            at = all[i];
    return at;
}
