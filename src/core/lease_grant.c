/* lease_grant.c - who holds a name, and who is next; lease_grant.h has the contract. */
#include "core/lease_grant.h"

#include "base/assert.h"
#include "core/plant.h"

struct tn_notice *tn_lease_notify(struct tn_result *result, enum tn_notice_kind kind,
                                  uint32_t lease)
{
    TN_ASSERT(result->count < TN_TABLE_NOTICES);
    struct tn_notice *notice = &result->list[result->count++];
    *notice = (struct tn_notice) { .kind = kind, .lease = lease };
    return notice;
}

/* --- Grants and vacancies ------------------------------------------------------------------- */

void tn_lease_notify_changed(struct tn_table *table, uint32_t lease, struct tn_result *result)
{
    const struct tn_lease_record *record = tn_lease_at(table, lease);
    struct tn_notice *notice = tn_lease_notify(result, TN_NOTICE_CHANGED, lease);
    notice->token = record->token;
    notice->held = record->state != TN_LEASE_FREE;
}

/* P2: the one place where a token is made. */
uint64_t tn_lease_next_token(struct tn_table *table, const struct tn_lease_record *lease,
                             const struct tn_secret *term)
{
    /* In the simulator a secret begins with the candidate's label. */
    if (TN_PLANT(TOKEN_PER_SESSION) && memcmp(&lease->term, term, 4) == 0 && lease->token > 0)
        return lease->token;
    if (TN_PLANT(TOKEN_FROM_RECORD))
        return lease->token + 1;
    TN_ASSERT(table->last_token < UINT64_MAX);
    return ++table->last_token;
}

void tn_lease_attach(struct tn_table *table, uint32_t lease, uint32_t session)
{
    struct tn_lease_record *record = tn_lease_at(table, lease);
    tn_lease_unchain(table, lease);
    record->state = TN_LEASE_HELD;
    record->session = session;
    tn_session_at(table, session)->held++;
    tn_owner_of(table, session)->places++;
    tn_lease_chain(table, lease);
}

void tn_lease_detach(struct tn_table *table, uint32_t lease)
{
    struct tn_lease_record *record = tn_lease_at(table, lease);
    TN_ASSERT(record->state == TN_LEASE_HELD || record->state == TN_LEASE_REVOKED);
    tn_session_at(table, record->session)->held--;
    if (tn_session_at(table, record->session)->borrowed == lease)
        tn_session_at(table, record->session)->borrowed = 0;
    tn_owner_of(table, record->session)->places--;
    if (record->state == TN_LEASE_REVOKED)
        tn_session_at(table, record->session)->revoked--;
    tn_lease_unchain(table, lease);
    record->state = TN_LEASE_FREE;
    record->session = 0;
    tn_lease_chain(table, lease);
}

void tn_lease_grant(struct tn_table *table, uint32_t lease, uint32_t session,
                    const struct tn_secret *term, uint64_t token)
{
    struct tn_lease_record *record = tn_lease_at(table, lease);
    TN_ASSERT(record->state == TN_LEASE_FREE);
    TN_ASSERT(tn_session_is_alive(table, session) || TN_PLANT(DEAD_WAITER));
    record->token = token;
    record->term = *term;
    tn_lease_attach(table, lease, session);
}

static uint32_t first_waiter(struct tn_table *table, uint32_t lease)
{
    const struct tn_lease_record *record = tn_lease_at(table, lease);
    if (TN_PLANT(QUEUE_SKIPPED))
        return record->waiters.last;
    return record->waiters.first;
}

/* Q1: the first waiter whose session is alive; those before it whose sessions are over leave.
 * @token: the upstream's; 0: the next one of our own. False: nobody is left in line. */
bool tn_lease_grant_next(struct tn_table *table, uint32_t lease, uint64_t token,
                         struct tn_result *result)
{
    uint32_t index;
    while ((index = first_waiter(table, lease)) != 0) {
        struct tn_waiter_record waiter = *tn_waiter_at(table, index);
        tn_waiter_drop(table, index);
        if (!tn_session_is_alive(table, waiter.session) && !TN_PLANT(DEAD_WAITER))
            continue;
        if (token == 0 && table->last_token == UINT64_MAX)
            continue; /* P9: nothing can be granted any more; FULL answers who asks again. */
        if (token == 0)
            token = tn_lease_next_token(table, tn_lease_at(table, lease), &waiter.term);
        tn_lease_grant(table, lease, waiter.session, &waiter.term, token);
        struct tn_notice *notice = tn_lease_notify(result, TN_NOTICE_GRANTED, lease);
        notice->session = tn_session_at(table, waiter.session)->secret;
        notice->term = waiter.term;
        notice->token = token;
        return true;
    }
    return false;
}

/* F1: the session at rest to which @lease falls back; 0: there is none, or its time is over. */
static uint32_t rest_of(const struct tn_table *table, uint32_t lease)
{
    const struct tn_session_record *holder =
        tn_session_at(table, tn_lease_at(table, lease)->session);
    uint32_t rest = holder->borrowed == lease ? tn_session_find(table, &holder->rest) : 0;

    return rest != 0 && tn_session_is_alive(table, rest) && !TN_PLANT(SOFT_NO_REST) ? rest : 0;
}

struct tn_secret tn_lease_resting(const struct tn_secret *secret, enum tn_resting_kind kind)
{
    struct tn_secret made = *secret;

    for (size_t i = 0; i < sizeof made.bytes; i++)
        made.bytes[i] = (uint8_t)(made.bytes[i] ^ kind);
    return made;
}

/* The term is over. Its token and secret stay on record, so that its release may be repeated. An
 * agent's name goes to the next in line with the upstream's next token only. What was taken over
 * early falls back to whom it was taken from, until that one's time is over: under a secret that no
 * term has. */
void tn_lease_vacate(struct tn_table *table, uint32_t lease, struct tn_result *result)
{
    uint32_t rest = rest_of(table, lease);

    tn_lease_detach(table, lease);
    if (rest != 0) {
        tn_lease_at(table, lease)->term =
            tn_lease_resting(&tn_session_at(table, rest)->secret, TN_RESTING_TERM);
        tn_lease_attach(table, lease, rest);
    } else if (!table->limits.upstream)
        (void)tn_lease_grant_next(table, lease, 0, result);
    else if (TN_PLANT(AGENT_TOKEN_KEPT))
        (void)tn_lease_grant_next(table, lease, tn_lease_at(table, lease)->token, result);
    tn_lease_notify_changed(table, lease, result);
}

void tn_lease_drop_waiter(struct tn_table *table, uint32_t waiter, struct tn_result *result)
{
    uint32_t lease = tn_waiter_at(table, waiter)->lease;
    const struct tn_lease_record *record = tn_lease_at(table, lease);
    tn_waiter_drop(table, waiter);
    if (table->limits.upstream && record->state == TN_LEASE_FREE && record->waiters.first == 0)
        tn_lease_notify(result, TN_NOTICE_LINE, lease);
}

/* Whether the holder's time is over, whatever the timers have done so far. */
static bool is_over(const struct tn_table *table, uint32_t lease)
{
    const struct tn_lease_record *record = tn_lease_at(table, lease);
    if (record->state == TN_LEASE_FREE)
        return false;
    if (!tn_session_is_alive(table, record->session))
        return true;
    return record->state == TN_LEASE_REVOKED &&
           (table->now >= record->free_at || TN_PLANT(REVOKE_AT_ONCE));
}

void tn_lease_settle(struct tn_table *table, uint32_t lease, struct tn_result *result)
{
    if (is_over(table, lease))
        tn_lease_vacate(table, lease, result);
}

bool tn_lease_is_held_by(const struct tn_table *table, uint32_t lease, uint32_t session,
                         const struct tn_secret *term)
{
    const struct tn_lease_record *record = tn_lease_at(table, lease);
    return record->state != TN_LEASE_FREE && record->session == session &&
           tn_secret_equal(&record->term, term);
}

bool tn_lease_owner_is_full(const struct tn_op *op, uint32_t has, struct tn_result *result)
{
    result->owners = op->owner_max != 0 && has >= op->owner_max;
    if (result->owners)
        result->answer = TN_ANSWER_FULL;
    return result->owners;
}

/* --- A silent holder -------------------------------------------------------------------------- */

/* F1: whether the holder may be superseded by @session, whose acquire is @op: it was silent for its
 * soft limit, both raise the same fences, and neither session has anything else that would end or
 * begin with this. */
bool tn_lease_is_superseded(const struct tn_table *table, uint32_t lease, uint32_t session,
                            const struct tn_op *op)
{
    const struct tn_lease_record *record = tn_lease_at(table, lease);

    if (record->state != TN_LEASE_HELD || record->session == session || op->soft.limit == 0 ||
        table->limits.observed || table->limits.upstream || table->last_token == UINT64_MAX)
        return false;
    const struct tn_session_record *former = tn_session_at(table, record->session);
    tenure_ns renewed = former->expires_at - former->ttl;
    if (TN_PLANT(SOFT_OLD_RENEWAL))
        renewed = former->timer_key - former->ttl;
    if (former->soft.limit == 0 || former->soft.limit >= former->ttl ||
        table->now < renewed + former->soft.limit)
        return false;
    return former->held == 1 && tn_session_at(table, session)->held == 0 &&
           (tn_secret_equal(&op->soft.fences, &former->soft.fences) || TN_PLANT(SOFT_ANY_FENCES));
}

/* Its owner is unknown from now on, whatever it asks; its time goes on to its end, and cannot be
 * made longer. */
static void put_to_rest(struct tn_table *table, uint32_t session, const struct tn_secret *term,
                        struct tn_result *result)
{
    struct tn_session_record *record = tn_session_at(table, session);
    struct tn_secret secret;

    secret = tn_lease_resting(&record->secret, TN_RESTING_TERM);
    if (tn_secret_equal(&secret, term) || TN_PLANT(SOFT_STILL_RENEWED))
        return; /* The lease has fallen back to it: it is at rest. */
    if (table->limits.tells_ends)
        tn_lease_notify(result, TN_NOTICE_ENDED, 0)->session = record->secret;
    while (record->waiters.first != 0)
        tn_lease_drop_waiter(table, record->waiters.first, result);
    secret = tn_lease_resting(&record->secret, TN_RESTING_SESSION);
    tn_session_rename(table, session, &secret);
    result->rested = session;
}

/* F1: the fences of the new term go up before anyone hears of it, so nothing of the former's gets
 * through from then on. P1 towards all others: until the former's time is over, the lease falls
 * back to it. Of two formers, to the one whose time is longer. */
void tn_lease_supersede(struct tn_table *table, uint32_t lease, uint32_t session,
                        const struct tn_op *op, struct tn_result *result)
{
    struct tn_lease_record *record = tn_lease_at(table, lease);
    uint32_t former = record->session, before = rest_of(table, lease);
    uint32_t place = tn_waiter_find(table, lease, session, &op->term);

    if (place == 0 && tn_lease_owner_is_full(op, tn_owner_of(table, session)->places, result))
        return;
    if (place != 0)
        tn_waiter_drop(table, place);
    tn_lease_detach(table, lease);
    put_to_rest(table, former, &record->term, result);
    if (before == 0 ||
        tn_session_at(table, before)->expires_at < tn_session_at(table, former)->expires_at)
        before = former;
    tn_lease_grant(table, lease, session, &op->term, tn_lease_next_token(table, record, &op->term));
    tn_session_at(table, session)->borrowed = lease;
    tn_session_at(table, session)->rest = tn_session_at(table, before)->secret;
    tn_lease_notify_changed(table, lease, result);
    result->answer = TN_ANSWER_GRANTED;
}
