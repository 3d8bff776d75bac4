/* lease_table.c - the authority's rules; lease_table.h has the contract.
 *
 * Happy path: a session opens and renews; an acquire finds the name free and is granted the next
 * token; a release, or the end of the session, passes it to the first waiter that is still alive.
 * An agent's table (limits.upstream) grants nothing by itself: the first waiter of a free name is
 * news for the agent, which campaigns upstream and brings the term's token by GRANT. So a token is
 * never used for two local terms, and none is made here.
 *
 * What can fail: limits are answered with FULL and change nothing. Whoever is over - by the clock,
 * by closing, by an observer's evidence - never comes back: every operation looks at the session
 * first.
 *
 * The end of a session with many leases is worked off in bounded steps: between two of them the
 * leases not yet reached look held, but tn_lease_settle lets each go as soon as anyone asks for
 * it. */
#include "core/lease_table.h"

#include <string.h>

#include "base/assert.h"
#include "core/lease_grant.h"
#include "core/plan.h"
#include "core/plant.h"

/* Room that one vacancy may need: the grant to the next in line, and the change for all. */
#define VACANCY_NOTICES 2

static uint32_t find_alive(const struct tn_table *table, const struct tn_secret *secret)
{
    uint32_t session = tn_session_find(table, secret);
    return session != 0 && tn_session_is_alive(table, session) ? session : 0;
}

static bool has_room(const struct tn_result *result)
{
    return result->count + VACANCY_NOTICES <= TN_TABLE_NOTICES;
}

/* --- Sessions ------------------------------------------------------------------------------- */

/* What was opened before a restart, or by somebody who is not counted, is whose next word it is. */
static void adopt(struct tn_table *table, uint32_t session, const struct tn_op *op,
                  struct tn_result *result)
{
    if (op->owner == 0 || tn_session_at(table, session)->owner != 0)
        return;
    tn_session_adopt(table, session, op->owner);
    result->adopted = true;
}

static void end_session(struct tn_table *table, uint32_t session)
{
    struct tn_session_record *record = tn_session_at(table, session);
    record->closed = true;
    record->timer_key = table->now;
    tn_timer_moved(table, session);
}

static void extend(struct tn_table *table, uint32_t session)
{
    struct tn_session_record *record = tn_session_at(table, session);
    record->expires_at = table->now + record->ttl;
    if (table->limits.observed || TN_PLANT(NEVER_EXPIRES))
        record->expires_at = TN_NEVER;
    record->beat++;
    /* The timer stays where it is and is put right when it fires: renewing costs no heap work. */
}

/* Tell of revocations with numbers above @seen, oldest first, as many as fit. Returns the last. */
static uint64_t list_revocations(struct tn_table *table, uint32_t session, uint64_t seen,
                                 struct tn_result *result)
{
    const struct tn_session_record *record = tn_session_at(table, session);
    for (uint32_t told = 0; told < record->revoked; told++) {
        uint32_t next = 0;
        uint64_t lowest = UINT64_MAX;
        for (uint32_t i = record->leases.first; i != 0; i = tn_lease_at(table, i)->links.next) {
            const struct tn_lease_record *lease = tn_lease_at(table, i);
            if (lease->state == TN_LEASE_REVOKED && lease->revocation > seen &&
                lease->revocation < lowest) {
                lowest = lease->revocation;
                next = i;
            }
        }
        if (next == 0)
            break;
        if (result->count == TN_TABLE_NOTICES)
            return seen;
        struct tn_notice *notice = tn_lease_notify(result, TN_NOTICE_REVOKED, next);
        notice->session = record->secret;
        notice->term = tn_lease_at(table, next)->term;
        notice->token = tn_lease_at(table, next)->token;
        notice->revocation = lowest;
        seen = lowest;
    }
    return record->revocations;
}

static void renew(struct tn_table *table, uint32_t session, const struct tn_op *op,
                  struct tn_result *result)
{
    struct tn_session_record *record = tn_session_at(table, session);
    TN_ASSERT(op->seq > 0);
    if (op->seq <= record->seq && !TN_PLANT(OLD_RENEWAL)) {
        result->answer = TN_ANSWER_STALE; /* Overtaken by a newer attempt: extends nothing. */
        return;
    }
    record->seq = op->seq;
    adopt(table, session, op, result);
    extend(table, session);
    result->answer = TN_ANSWER_OK;
    result->ttl = record->ttl;
    result->held = record->held;
    /* More seen than there were: this is a restored backup, and it counts on from there. */
    uint64_t seen = op->seen <= record->revocations ? op->seen : 0;
    if (op->seen > record->revocations)
        record->revocations = op->seen;
    result->seen = list_revocations(table, session, seen, result);
    result->more = result->seen < record->revocations;
}

static void do_open(struct tn_table *table, const struct tn_op *op, struct tn_result *result)
{
    uint32_t session = tn_session_find(table, &op->session);
    struct tn_secret rest;
    TN_ASSERT(op->ttl > 0);
    if (session != 0) {
        result->answer = TN_ANSWER_GONE;
        if (tn_session_is_alive(table, session))
            renew(table, session, op, result);
        return;
    }
    rest = tn_lease_resting(&op->session, TN_RESTING_SESSION);
    if (tn_session_find(table, &rest) != 0) {
        result->answer = TN_ANSWER_GONE; /* Superseded: an old OPEN must not bring it back. */
        return;
    }
    if (op->owner != 0 &&
        tn_lease_owner_is_full(op, tn_owner_at(table, op->owner)->sessions, result))
        return;
    session = tn_session_add(table, op);
    if (session == 0) {
        result->answer = TN_ANSWER_FULL;
        return;
    }
    result->fresh = true;
    renew(table, session, op, result);
    tn_session_at(table, session)->timer_key = tn_session_at(table, session)->expires_at;
    tn_timer_add(table, session);
}

static void do_renew(struct tn_table *table, const struct tn_op *op, struct tn_result *result)
{
    uint32_t session = tn_session_find(table, &op->session);
    if (session != 0 && (tn_session_is_alive(table, session) || TN_PLANT(REVIVE_EXPIRED)))
        renew(table, session, op, result);
    else
        result->answer = TN_ANSWER_GONE;
}

static void do_close(struct tn_table *table, const struct tn_op *op, struct tn_result *result)
{
    uint32_t session = find_alive(table, &op->session);
    result->answer = session != 0 ? TN_ANSWER_OK : TN_ANSWER_GONE;
    if (session != 0)
        end_session(table, session);
}

/* --- Leases --------------------------------------------------------------------------------- */

/* An observer saw @op's token and beat unchanged for the holder's TTL; if they are unchanged here
 * and now, the holder is over. The comparison and what follows are one step of the store. */
static void judge_silence(struct tn_table *table, uint32_t lease, uint32_t session,
                          const struct tn_op *op, struct tn_result *result)
{
    const struct tn_lease_record *record = tn_lease_at(table, lease);
    if (!table->limits.observed || !op->evident || record->state == TN_LEASE_FREE)
        return;
    if (record->session == session)
        return; /* Who asks is not silent. */
    if ((record->token == op->token && tn_session_at(table, record->session)->beat == op->beat) ||
        TN_PLANT(BLIND_TAKEOVER)) {
        end_session(table, record->session);
        tn_lease_vacate(table, lease, result);
    }
}

static void soften(struct tn_table *table, uint32_t session, const struct tn_op *op,
                   struct tn_result *result)
{
    struct tn_soft *soft = &tn_session_at(table, session)->soft;

    if (op->soft.limit == 0 ||
        (op->soft.limit == soft->limit && tn_secret_equal(&op->soft.fences, &soft->fences)))
        return;
    *soft = op->soft;
    result->softened = true;
}

static void enqueue(struct tn_table *table, uint32_t lease, uint32_t session,
                    const struct tn_op *op, struct tn_result *result)
{
    const struct tn_lease_record *record = tn_lease_at(table, lease);
    uint32_t waiter = tn_waiter_find(table, lease, session, &op->term);
    if (waiter == 0 && tn_lease_owner_is_full(op, tn_owner_of(table, session)->places, result))
        return;
    if (waiter == 0) {
        bool first = record->state == TN_LEASE_FREE && record->waiters.first == 0;
        waiter = tn_waiter_add(table, lease, session, &op->term);
        if (waiter != 0 && first)
            tn_lease_notify(result, TN_NOTICE_LINE, lease);
    }
    result->answer = waiter != 0 ? TN_ANSWER_QUEUED : TN_ANSWER_FULL;
}

static void do_acquire(struct tn_table *table, const struct tn_op *op, struct tn_result *result)
{
    uint32_t session = find_alive(table, &op->session);
    uint32_t lease = tn_lease_find(table, op->name, op->name_len);

    result->answer = session != 0 ? TN_ANSWER_FULL : TN_ANSWER_GONE;
    if (session == 0)
        return;
    adopt(table, session, op, result);
    soften(table, session, op, result);
    const struct tn_owner_record *owner = tn_owner_of(table, session);
    if (lease == 0 && tn_lease_owner_is_full(op, owner->places, result))
        return;
    if (lease == 0)
        lease = tn_lease_add(table, op->name, op->name_len);
    if (lease == 0)
        return;
    tn_lease_settle(table, lease, result);
    judge_silence(table, lease, session, op, result);
    result->lease = lease;
    struct tn_lease_record *record = tn_lease_at(table, lease);
    if (tn_lease_is_held_by(table, lease, session, &op->term) && record->state == TN_LEASE_HELD) {
        result->answer = TN_ANSWER_GRANTED; /* A repetition: the same term, the same token. */
        if (TN_PLANT(RETRY_NOT_IDEMPOTENT))
            record->token = ++table->last_token;
    } else if (record->state == TN_LEASE_FREE && record->token > 0 &&
               tn_secret_equal(&record->term, &op->term)) {
        result->answer = TN_ANSWER_STALE; /* Delayed in the network: this term is over. */
    } else if (record->state == TN_LEASE_FREE &&
               tn_lease_owner_is_full(op, owner->places, result)) {
        ; /* FULL. */
    } else if (record->state == TN_LEASE_FREE && table->limits.upstream &&
               !(TN_PLANT(AGENT_GRANTS) && record->token > 0)) {
        enqueue(table, lease, session, op, result);
    } else if (record->state == TN_LEASE_FREE && table->last_token < UINT64_MAX) {
        tn_lease_grant(table, lease, session, &op->term,
                       tn_lease_next_token(table, record, &op->term));
        tn_lease_notify_changed(table, lease, result);
        result->answer = TN_ANSWER_GRANTED;
    } else if (tn_lease_is_superseded(table, lease, session, op)) {
        tn_lease_supersede(table, lease, session, op, result);
    } else if (record->state == TN_LEASE_FREE) {
        result->answer = TN_ANSWER_FULL; /* Out of tokens: P9, stall rather than repeat one. */
    } else if (op->wait) {
        enqueue(table, lease, session, op, result);
    } else {
        result->answer = TN_ANSWER_HELD;
    }
    result->token = record->token;
}

/* Take back whatever the term has: its place in the queue, or a grant that nobody heard of. */
static void withdraw(struct tn_table *table, uint32_t lease, uint32_t session,
                     const struct tn_op *op, struct tn_result *result)
{
    uint32_t waiter = tn_waiter_find(table, lease, session, &op->term);
    if (waiter != 0)
        tn_lease_drop_waiter(table, waiter, result);
    if (tn_lease_is_held_by(table, lease, session, &op->term))
        tn_lease_vacate(table, lease, result);
    result->answer = TN_ANSWER_RELEASED;
}

/* P5: exactly this session, term and token. */
static void release(struct tn_table *table, uint32_t lease, uint32_t session,
                    const struct tn_op *op, struct tn_result *result)
{
    const struct tn_lease_record *record = tn_lease_at(table, lease);
    bool held = record->state != TN_LEASE_FREE;
    if (held && TN_PLANT(RELEASE_BY_NAME)) {
        tn_lease_vacate(table, lease, result);
        result->answer = TN_ANSWER_RELEASED;
    } else if (record->token != op->token) {
        result->answer = TN_ANSWER_STALE;
    } else if (held && tn_lease_is_held_by(table, lease, session, &op->term)) {
        tn_lease_vacate(table, lease, result);
        result->answer = TN_ANSWER_RELEASED;
    } else if (!held && tn_secret_equal(&record->term, &op->term)) {
        result->answer = TN_ANSWER_RELEASED; /* Said again; the first reply was lost. */
    } else {
        result->answer = held ? TN_ANSWER_DENIED : TN_ANSWER_STALE;
    }
}

static void do_release(struct tn_table *table, const struct tn_op *op, struct tn_result *result)
{
    uint32_t session = find_alive(table, &op->session);
    uint32_t lease = tn_lease_find(table, op->name, op->name_len);
    if (session == 0) {
        result->answer = TN_ANSWER_GONE;
    } else if (lease == 0) {
        result->answer = op->token == 0 ? TN_ANSWER_RELEASED : TN_ANSWER_STALE;
    } else {
        result->lease = lease;
        tn_lease_settle(table, lease, result);
        if (op->token == 0)
            withdraw(table, lease, session, op, result);
        else
            release(table, lease, session, op, result);
    }
}

static void do_read(struct tn_table *table, const struct tn_op *op, struct tn_result *result)
{
    uint32_t lease = tn_lease_find(table, op->name, op->name_len);
    result->answer = TN_ANSWER_FREE;
    if (lease == 0)
        return;
    tn_lease_settle(table, lease, result);
    result->lease = lease;
    result->token = tn_lease_at(table, lease)->token;
    if (tn_lease_at(table, lease)->state != TN_LEASE_FREE)
        result->answer = TN_ANSWER_HELD;
}

static void mark_revoked(struct tn_table *table, uint32_t lease, tenure_ns until)
{
    struct tn_lease_record *record = tn_lease_at(table, lease);
    struct tn_session_record *session = tn_session_at(table, record->session);
    record->state = TN_LEASE_REVOKED;
    record->free_at = until;
    record->revocation = ++session->revocations;
    session->revoked++;
}

/* An agent's lease may be free before its session is due. */
static void wake_by(struct tn_table *table, uint32_t session, tenure_ns at)
{
    struct tn_session_record *record = tn_session_at(table, session);
    if (record->timer_key <= at)
        return;
    record->timer_key = at;
    tn_timer_moved(table, session);
}

/* The holder is told at once and with every renewal until it releases. The lease passes on then, or
 * a full TTL from now: by then every renewal answered before the revocation has run out, and those
 * after it told the holder. A store without a clock cannot wait: there the lease is free at once,
 * and only the fence protects (A2 does not hold when somebody deletes a record). An agent says
 * until when: by then every deadline that it has allowed is over (N1). */
static void do_revoke(struct tn_table *table, const struct tn_op *op, struct tn_result *result)
{
    uint32_t lease = tn_lease_find(table, op->name, op->name_len);
    struct tn_lease_record *record = lease != 0 ? tn_lease_at(table, lease) : NULL;

    result->answer = TN_ANSWER_STALE;
    if (record == NULL)
        return;
    tn_lease_settle(table, lease, result);
    if (record->state == TN_LEASE_FREE || (op->token != 0 && op->token != record->token))
        return;
    result->answer = TN_ANSWER_OK;
    result->lease = lease;
    if (table->limits.observed || (table->limits.upstream && op->until <= table->now)) {
        tn_lease_vacate(table, lease, result);
    } else if (record->state == TN_LEASE_HELD) {
        tenure_ns until = table->now + tn_session_at(table, record->session)->ttl;
        mark_revoked(table, lease, table->limits.upstream ? op->until : until);
        wake_by(table, record->session, record->free_at);
        (void)list_revocations(table, record->session, record->revocation - 1, result);
    }
}

/* The upstream's term @op->token goes to the first in line. */
static void do_grant(struct tn_table *table, const struct tn_op *op, struct tn_result *result)
{
    uint32_t lease = tn_lease_find(table, op->name, op->name_len);

    TN_ASSERT(table->limits.upstream);
    TN_ASSERT(op->token > 0);
    result->answer = TN_ANSWER_FREE;
    if (lease == 0)
        return;
    tn_lease_settle(table, lease, result);
    const struct tn_lease_record *record = tn_lease_at(table, lease);
    result->lease = lease;
    if (record->state != TN_LEASE_FREE || op->token <= record->token) {
        result->answer = TN_ANSWER_STALE; /* P2: tokens rise, whatever upstream says. */
    } else if (tn_lease_grant_next(table, lease, op->token, result)) {
        if (op->token > table->last_token)
            table->last_token = op->token;
        tn_lease_notify_changed(table, lease, result);
        result->answer = TN_ANSWER_GRANTED;
    }
}

/* --- Time ----------------------------------------------------------------------------------- */

static void vacate_overdue_revocations(struct tn_table *table, uint32_t session,
                                       struct tn_result *result)
{
    const struct tn_session_record *record = tn_session_at(table, session);
    uint32_t next;
    for (uint32_t i = record->leases.first; i != 0 && record->revoked > 0; i = next) {
        next = tn_lease_at(table, i)->links.next;
        if (!has_room(result))
            return;
        tn_lease_settle(table, i, result);
    }
}

/* When @session next needs attention. */
static tenure_ns due_at(const struct tn_table *table, uint32_t session)
{
    const struct tn_session_record *record = tn_session_at(table, session);
    tenure_ns due = record->expires_at;
    for (uint32_t i = record->leases.first; i != 0 && record->revoked > 0;
         i = tn_lease_at(table, i)->links.next) {
        const struct tn_lease_record *lease = tn_lease_at(table, i);
        if (lease->state == TN_LEASE_REVOKED && lease->free_at < due)
            due = lease->free_at;
    }
    return due;
}

/* Let go of one lease or waiter of the dying session, or of the session itself. */
static void reap_one(struct tn_table *table, struct tn_result *result)
{
    const struct tn_session_record *session = tn_session_at(table, table->dying);
    if (session->waiters.first != 0) {
        tn_lease_drop_waiter(table, session->waiters.first, result);
    } else if (session->leases.first != 0) {
        tn_lease_vacate(table, session->leases.first, result);
    } else {
        if (table->limits.tells_ends)
            tn_lease_notify(result, TN_NOTICE_ENDED, 0)->session = session->secret;
        tn_session_drop(table, table->dying);
        table->dying = 0;
    }
}

/* Work off what is due while notices fit. Each waiter dropped was paid for when it was added. */
static void work_off(struct tn_table *table, struct tn_result *result)
{
    while (has_room(result)) {
        uint32_t first = tn_timer_first(table);
        if (table->dying != 0) {
            reap_one(table, result);
        } else if (first == 0 || tn_session_at(table, first)->timer_key > table->now) {
            break;
        } else if (!tn_session_is_alive(table, first)) {
            tn_timer_drop(table, first);
            table->dying = first;
        } else {
            vacate_overdue_revocations(table, first, result);
            tn_session_at(table, first)->timer_key = due_at(table, first);
            tn_timer_moved(table, first);
        }
    }
}

void tn_table_step(struct tn_table *table, tenure_ns now, const struct tn_op *op,
                   struct tn_result *ret_result)
{
    static void (*const operations[])(struct tn_table *, const struct tn_op *,
                                      struct tn_result *) = {
        [TN_OP_OPEN] = do_open,       [TN_OP_RENEW] = do_renew,     [TN_OP_CLOSE] = do_close,
        [TN_OP_ACQUIRE] = do_acquire, [TN_OP_RELEASE] = do_release, [TN_OP_READ] = do_read,
        [TN_OP_REVOKE] = do_revoke,   [TN_OP_GRANT] = do_grant,
    };
    TN_ASSERT(now >= table->now);
    TN_ASSERT(op->kind <= TN_OP_TICK);
    table->now = now;
    ret_result->answer = TN_ANSWER_OK;
    ret_result->token = 0;
    ret_result->ttl = 0;
    ret_result->seen = 0;
    ret_result->held = 0;
    ret_result->fresh = false;
    ret_result->owners = false;
    ret_result->adopted = false;
    ret_result->more = false;
    ret_result->softened = false;
    ret_result->lease = 0;
    ret_result->rested = 0;
    ret_result->count = 0;
    if (op->kind < TN_OP_RAISE || op->kind == TN_OP_GRANT)
        operations[op->kind](table, op, ret_result);
    else if (op->kind == TN_OP_RAISE && op->token > table->last_token)
        table->last_token = op->token;
    work_off(table, ret_result);
}

tenure_ns tn_table_wake_at(const struct tn_table *table)
{
    uint32_t first = tn_timer_first(table);
    if (table->dying != 0)
        return table->now;
    return first != 0 ? tn_session_at(table, first)->timer_key : TN_NEVER;
}

int tn_table_put(struct tn_table *table, const struct tn_lease_view *view)
{
    uint32_t session = view->session != NULL ? tn_session_find(table, view->session) : 0;
    uint32_t lease = tn_lease_find(table, view->name, view->name_len);

    if (view->session != NULL && session == 0)
        return TENURE_E_NOT_HELD;
    if (lease == 0)
        lease = tn_lease_add(table, view->name, view->name_len);
    if (lease == 0)
        return TENURE_E_FULL;
    struct tn_lease_record *record = tn_lease_at(table, lease);
    if (record->state != TN_LEASE_FREE)
        tn_lease_detach(table, lease);
    record->token = view->token;
    record->term = *view->term;
    if (view->token > table->last_token)
        table->last_token = view->token;
    if (session != 0)
        tn_lease_attach(table, lease, session);
    if (session != 0 && view->revoked)
        mark_revoked(table, lease, table->now + tn_session_at(table, session)->ttl);
    return 0;
}

int tn_table_put_soft(struct tn_table *table, const struct tn_secret *session,
                      const struct tn_soft *soft)
{
    uint32_t index = tn_session_find(table, session);

    if (index == 0)
        return TENURE_E_NOT_HELD;
    tn_session_at(table, index)->soft = *soft;
    return 0;
}

int tn_table_put_rest(struct tn_table *table, const struct tn_lease_view *view,
                      const struct tn_secret *rest)
{
    uint32_t session = tn_session_find(table, view->session);
    uint32_t lease = tn_lease_find(table, view->name, view->name_len);

    if (session == 0 || lease == 0 || tn_lease_at(table, lease)->session != session)
        return TENURE_E_NOT_HELD;
    tn_session_at(table, session)->borrowed = lease;
    tn_session_at(table, session)->rest = *rest;
    return 0;
}
