/* claim_term.h - of a claim: one term, what begins it and how it ends. When that happens is decided
 * in claim.c.
 *
 * Every move of the state is here, and asserted against the picture in claim.h. Threads, memory and
 * clock as for the claim. */
#ifndef TN_CORE_CLAIM_TERM_H
#define TN_CORE_CLAIM_TERM_H

#include "core/claim.h"

struct tn_claim_action *tn_claim_add(struct tn_claim_actions *out, enum tn_claim_action_kind kind);
void tn_claim_move(struct tn_claim *claim, enum tn_claim_state state);
tenure_ns tn_claim_jittered(struct tn_claim *claim, tenure_ns span);

/* R1: only who could lead at once may acquire; and never beside work that has not stopped (P5). */
bool tn_claim_wants(const struct tn_claim *claim);
bool tn_claim_leads(const struct tn_claim *claim);

void tn_claim_watch(struct tn_claim *claim, bool queued, tenure_ns poll_in);
void tn_claim_acquire(struct tn_claim *claim, struct tn_claim_actions *out);
void tn_claim_raise(struct tn_claim *claim, struct tn_claim_actions *out);
void tn_claim_won(struct tn_claim *claim, struct tn_claim_actions *out);
/* Refuse a grant before the application heard of it. */
void tn_claim_refuse(struct tn_claim *claim, enum tn_reason reason, struct tn_claim_actions *out);

/* The term ends with its session. */
void tn_claim_lose(struct tn_claim *claim, enum tn_reason reason, struct tn_claim_actions *out);
/* The term ends while its session lives on: the lease has to be given back, but only once the work
 * has stopped. */
void tn_claim_lose_early(struct tn_claim *claim, enum tn_reason reason,
                         struct tn_claim_actions *out);
/* Send the release of the present generation; a token of 0 withdraws an acquire. */
void tn_claim_release(struct tn_claim *claim, struct tn_claim_actions *out);
/* The generation is used up: nothing of it is held or waited for, as far as the store told. */
void tn_claim_finish_term(struct tn_claim *claim);

#endif
