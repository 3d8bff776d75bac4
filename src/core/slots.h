/* slots.h - a semaphore: for which of its slots a candidate campaigns, and which one it keeps.
 *
 * A semaphore of N slots is N ordinary names, its slots, each with one holder at a time (P1). So
 * there are never more than N holders, whatever this file decides. What it decides is that one
 * candidate has at most one slot, and that no slot stays free while a candidate waits:
 *
 *   - It asks for one slot first. Only when that one is taken, or closed by an operator, does it
 *     get in line for the next one, too, and so on, until it is in all lines. So where a slot is
 *     free, one request does.
 *   - The first slot that is won is kept, and the application hears of it. The candidate leaves all
 *     other lines. A second grant, which may be on its way already, is given back at once, and the
 *     application does not hear of it.
 *   - When the work of the term has stopped it begins anew.
 *
 * Slots have indexes in the order in which this candidate asks. Each candidate begins elsewhere.
 * Threads: one at a time. Memory: the caller's, nothing allocated. Never blocks, reads no clock. */
#ifndef TN_CORE_SLOTS_H
#define TN_CORE_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

enum { TN_SLOTS_MAX = 64 };

struct tn_slots {
    uint32_t count;
    uint32_t last;   /* In line for all slots up to this index. */
    uint32_t kept;   /* One more than the index; 0: none. */
    bool standing;   /* The application campaigns, */
    bool ready;      /* and could lead at once. */
    bool over;       /* The kept term is lost. */
    bool stopped;    /* Its work has stopped. */
    uint64_t taken;  /* A bit for each slot: another holds it, as far as is known. */
    uint64_t closed; /* An operator keeps this candidate from winning it. */
    uint64_t won;    /* A term of this candidate's that lasts. */
};

void tn_slots_init(struct tn_slots *slots, uint32_t count);

/* The application's wishes. */
void tn_slots_stand(struct tn_slots *slots, bool standing);
void tn_slots_ready(struct tn_slots *slots, bool ready);
/* The work of the kept term has stopped. */
void tn_slots_drained(struct tn_slots *slots);

/* News of one slot. */
void tn_slots_see(struct tn_slots *slots, uint32_t index, bool taken);
void tn_slots_close(struct tn_slots *slots, uint32_t index, bool closed);
/* A term has begun. True: keep it, and tell the application. */
bool tn_slots_won(struct tn_slots *slots, uint32_t index);
/* A term has ended. True: it was the kept one. */
bool tn_slots_lost(struct tn_slots *slots, uint32_t index);

/* What to do. The claim on the slot should be ready to win it: */
bool tn_slots_wants(const struct tn_slots *slots, uint32_t index);
/* Its term should be given back: */
bool tn_slots_gives_back(const struct tn_slots *slots, uint32_t index);
/* The term of this slot is the application's. */
bool tn_slots_is_kept(const struct tn_slots *slots, uint32_t index);
/* Others hold all slots. */
bool tn_slots_full(const struct tn_slots *slots);

#endif
