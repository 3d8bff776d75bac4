/* rows_inside.h - what rows.c and rows_session.c share. */
#ifndef TN_CORE_ROWS_INSIDE_H
#define TN_CORE_ROWS_INSIDE_H

#include "core/rows.h"

/* --- rows.c --- */

/* Go on with the goal: judge what is known, or read it first. */
void tn_rows_proceed(struct tn_rows_claim *claim, tenure_ns now);

/* --- rows_session.c --- */

/* Whether a renewal waits for this row to be written. */
bool tn_rows_is_wanted(const struct tn_rows_claim *claim);
/* Answer the renewals that have failed, and those that every row held has been written for. */
void tn_rows_answer_renewals(struct tn_rows *rows);
/* Those with numbers up to @most. */
void tn_rows_fail_renewals(struct tn_rows *rows, uint64_t most);
/* Nothing that this session had is ours any longer. */
void tn_rows_end_session(struct tn_rows *rows);
/* Those that the engine has not answered in time. */
void tn_rows_give_up_renewals(struct tn_rows *rows, tenure_ns now);
tenure_ns tn_rows_give_up_renewals_at(const struct tn_rows *rows);

#endif
