/* rows_session.c - the session's half of the recipe for rows: renewals, which cover all rows held,
 * and the session that some engines have themselves. rows.h has the picture and the rules. */
#include <string.h>

#include "base/assert.h"
#include "core/plant.h"
#include "core/rows_inside.h"

/* Engines with sessions: renewals between two looks at the rows held. */
enum { LOOK_EVERY = 4 };

/* --- Renewals --------------------------------------------------------------------------------- */

static uint32_t count_held(const struct tn_rows *rows)
{
    uint32_t held = 0;

    for (const struct tn_rows_claim *claim = rows->claims; claim != NULL; claim = claim->next)
        held += claim->held || claim->revoked;
    return held;
}

static bool is_covered(const struct tn_rows *rows, uint64_t number)
{
    for (const struct tn_rows_claim *claim = rows->claims; claim != NULL; claim = claim->next)
        if (claim->held && claim->covered < number)
            return false;
    return true;
}

/* Answer the renewals that have failed, and those that every row held has been written for. */
void tn_rows_answer_renewals(struct tn_rows *rows)
{
    uint32_t kept = 0;
    uint32_t count = rows->renewal_count;
    struct tn_rows_renewal all[TN_ROWS_RENEWALS];

    memcpy(all, rows->renewals, sizeof all);
    for (uint32_t i = 0; i < count; i++) {
        bool covered = rows->has_sessions ? all[i].done : is_covered(rows, all[i].number);
        enum tn_rows_outcome outcome = all[i].failed ? TN_ROWS_FAILED : TN_ROWS_WRITTEN;
        if (!all[i].failed && covered)
            rows->good_until = all[i].begun_at + rows->ttl;
        if (all[i].failed || covered || rows->gone)
            rows->host->renewed(rows->arg, all[i].seq, rows->gone ? TN_ROWS_GONE : outcome,
                                count_held(rows));
        else
            rows->renewals[kept++] = all[i];
    }
    rows->renewal_count = kept;
}

void tn_rows_fail_renewals(struct tn_rows *rows, uint64_t most)
{
    for (uint32_t i = 0; i < rows->renewal_count; i++)
        if (rows->renewals[i].number <= most)
            rows->renewals[i].failed = true;
}

bool tn_rows_is_wanted(const struct tn_rows_claim *claim)
{
    const struct tn_rows *rows = claim->rows;

    return claim->held && !rows->has_sessions && rows->renewal_count > 0 &&
           claim->covered < rows->renewals[rows->renewal_count - 1].number;
}

/* Each renewal is a call of its own: one that hangs does not hold up the next. What the change feed
 * did not tell of a row held, an occasional look finds. */
static void renew_session(struct tn_rows *rows, tenure_ns now)
{
    bool waits = TN_PLANT(RENEWAL_WAITS) && rows->renewal_count > 1;

    if (!rows->gone && !waits)
        rows->host->session(rows->arg, rows->begun, rows->id[0] != '\0' ? TN_OP_RENEW : TN_OP_OPEN,
                            rows->id);
    if (rows->begun % LOOK_EVERY != 0 || TN_PLANT(SESSION_REBORN))
        return;
    for (struct tn_rows_claim *claim = rows->claims; claim != NULL; claim = claim->next)
        tn_rows_look(claim, now);
}

void tn_rows_renew(struct tn_rows *rows, tenure_ns now, uint64_t seq)
{
    tn_rows_tick(rows, now);
    if (rows->renewal_count == TN_ROWS_RENEWALS) {
        rows->renewals[0].failed = true;
        tn_rows_answer_renewals(rows);
    }
    rows->begun++;
    rows->renewals[rows->renewal_count++] =
        (struct tn_rows_renewal) { .seq = seq, .number = rows->begun, .begun_at = now };
    if (rows->has_sessions)
        renew_session(rows, now);
    for (struct tn_rows_claim *claim = rows->claims; claim != NULL; claim = claim->next) {
        if (claim->goal == TN_ROWS_REST && tn_rows_is_wanted(claim)) {
            claim->goal = TN_ROWS_RENEW;
            tn_rows_proceed(claim, now);
        }
    }
    tn_rows_answer_renewals(rows);
}

bool tn_rows_is_over(const struct tn_rows *rows, tenure_ns now)
{
    return now >= rows->good_until;
}

void tn_rows_abandon_all(struct tn_rows *rows)
{
    for (struct tn_rows_claim *claim = rows->claims; claim != NULL; claim = claim->next)
        tn_rows_abandon(claim);
}

/* --- The engine's session --------------------------------------------------------------------- */

tenure_ns tn_rows_lock_delay(tenure_ns ttl)
{
    if (TN_PLANT(NO_LOCK_DELAY))
        return 0;
    return ttl < TN_ROWS_DELAY_MOST ? ttl : TN_ROWS_DELAY_MOST;
}

/* Nothing that this session had is ours any longer. */
void tn_rows_end_session(struct tn_rows *rows)
{
    rows->gone = true;
    for (struct tn_rows_claim *claim = rows->claims; claim != NULL; claim = claim->next) {
        bool held = claim->held;
        claim->held = claim->revoked = claim->known = false;
        if (held)
            rows->host->ended(rows->arg, claim);
    }
    tn_rows_answer_renewals(rows);
}

/* The reply to an earlier OPEN was late: there are two, and one is enough. */
static void set_session_id(struct tn_rows *rows, uint64_t number, const char *id)
{
    size_t len = 0;

    while (len < TN_ROW_OWNER && id[len] != '\0')
        len++;
    TN_ASSERT(len < TN_ROW_OWNER);
    if (rows->id[0] == '\0')
        memcpy(rows->id, id, len + 1);
    else if (memcmp(rows->id, id, len + 1) != 0)
        rows->host->session(rows->arg, number, TN_OP_CLOSE, id);
}

void tn_rows_session_done(struct tn_rows *rows, tenure_ns now, uint64_t number,
                          enum tn_rows_outcome outcome, const char *id)
{
    (void)now;
    if (outcome == TN_ROWS_GONE && TN_PLANT(SESSION_REBORN)) {
        rows->id[0] = '\0';
        rows->host->session(rows->arg, number, TN_OP_OPEN, rows->id);
        return;
    }
    if (outcome == TN_ROWS_GONE) {
        tn_rows_end_session(rows);
        return;
    }
    if (outcome == TN_ROWS_WRITTEN)
        set_session_id(rows, number, id);
    for (uint32_t i = 0; i < rows->renewal_count; i++) {
        struct tn_rows_renewal *renewal = &rows->renewals[i];
        if (renewal->number == number) {
            renewal->done = outcome == TN_ROWS_WRITTEN;
            renewal->failed = !renewal->done;
        }
    }
    tn_rows_answer_renewals(rows);
}

void tn_rows_close_session(struct tn_rows *rows)
{
    if (rows->id[0] != '\0' && !rows->gone)
        rows->host->session(rows->arg, 0, TN_OP_CLOSE, rows->id);
    rows->gone = true;
}

/* Nothing hangs on the first one yet, which opens the session: it may take longer. */
static tenure_ns give_up_renewal_at(const struct tn_rows *rows, uint32_t i)
{
    return rows->renewals[i].begun_at +
           (rows->id[0] != '\0' ? rows->attempt_timeout : rows->acquire_timeout);
}

void tn_rows_give_up_renewals(struct tn_rows *rows, tenure_ns now)
{
    if (!rows->has_sessions || TN_PLANT(RENEWAL_WAITS))
        return;
    for (uint32_t i = 0; i < rows->renewal_count; i++)
        if (give_up_renewal_at(rows, i) <= now)
            rows->renewals[i].failed = true;
    tn_rows_answer_renewals(rows);
}

tenure_ns tn_rows_give_up_renewals_at(const struct tn_rows *rows)
{
    if (!rows->has_sessions || rows->renewal_count == 0 || TN_PLANT(RENEWAL_WAITS))
        return TN_NEVER;
    return give_up_renewal_at(rows, 0);
}
