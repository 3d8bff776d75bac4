/* lease_view.c - what the lease table tells of itself, without changing anything; and what is left
 * of it after a restart. lease_table.h has the contract. */
#include "core/lease_table.h"

#include "core/lease_store.h"
#include "core/plant.h"

/* --- Restart -------------------------------------------------------------------------------- */

/* What a session's life after a restart is: over if it was over, otherwise a full TTL. */
static void restart_session(struct tn_table *table, uint32_t session, tenure_ns before,
                            tenure_ns now)
{
    struct tn_session_record *record = tn_session_at(table, session);
    if (before >= record->expires_at)
        record->closed = true;
    while (record->waiters.first != 0)
        tn_waiter_drop(table, record->waiters.first);
    for (uint32_t i = record->leases.first; i != 0; i = tn_lease_at(table, i)->links.next)
        tn_lease_at(table, i)->free_at = now + record->ttl;
    if (!table->limits.observed)
        record->expires_at = now + (TN_PLANT(RESTART_FORGETS) ? record->ttl / 8 : record->ttl);
    record->allowed = TN_PLANT(AGENT_UNTOLD) ? 0 : now + record->ttl;
    record->timer_key = record->closed ? now : record->expires_at;
    record->seq = 0; /* Renewals are not on record; the next one counts whatever its number. */
    record->heap_at = 0;
    tn_timer_add(table, session);
}

static uint64_t highest_held_token(const struct tn_table *table)
{
    uint64_t highest = 0;
    for (uint32_t i = 1; i < table->leases.used; i++) {
        const struct tn_lease_record *lease = tn_lease_at(table, i);
        if (lease->state >= TN_LEASE_HELD && lease->token > highest)
            highest = lease->token;
    }
    return highest;
}

void tn_table_restart(struct tn_table *table, tenure_ns now)
{
    tenure_ns before = table->now;
    table->now = now;
    table->dying = 0;
    table->heap.count = 0;
    for (uint32_t i = 1; i < table->sessions.used; i++) {
        uint32_t indexed = tn_session_find(table, &tn_session_at(table, i)->secret);
        if (indexed == i) /* Not a freed slot. */
            restart_session(table, i, before, now);
    }
    if (TN_PLANT(TOKEN_IN_MEMORY))
        table->last_token = highest_held_token(table);
}

/* --- Views ---------------------------------------------------------------------------------- */

void tn_table_lease(const struct tn_table *table, uint32_t lease, struct tn_lease_view *ret_view)
{
    const struct tn_lease_record *record = tn_lease_at(table, lease);
    *ret_view = (struct tn_lease_view) {
        .name = tn_text_at(table, record->name),
        .name_len = record->name.len,
        .token = record->token,
        .revoked = record->state == TN_LEASE_REVOKED,
    };
    if (record->state == TN_LEASE_FREE)
        return;
    const struct tn_session_record *session = tn_session_at(table, record->session);
    ret_view->session = &session->secret;
    ret_view->term = &record->term;
    ret_view->label = tn_text_at(table, session->label);
    ret_view->label_len = session->label.len;
    ret_view->beat = session->beat;
    ret_view->ttl = session->ttl;
    ret_view->closed = session->closed;
    if (tn_session_is_alive(table, record->session))
        ret_view->remaining = session->expires_at - table->now;
}

uint32_t tn_table_next(const struct tn_table *table, uint32_t lease)
{
    while (++lease < table->leases.used)
        if (tn_lease_at(table, lease)->state != TN_LEASE_UNUSED)
            return lease;
    return 0;
}

uint32_t tn_table_next_session(const struct tn_table *table, uint32_t session)
{
    while (++session < table->sessions.used)
        if (tn_session_at(table, session)->ttl > 0)
            return session;
    return 0;
}

void tn_table_session(const struct tn_table *table, uint32_t session,
                      struct tn_session_view *ret_view)
{
    const struct tn_session_record *record = tn_session_at(table, session);
    *ret_view = (struct tn_session_view) {
        .secret = &record->secret,
        .label = tn_text_at(table, record->label),
        .label_len = record->label.len,
        .ttl = record->ttl,
        .expires_at = record->expires_at,
        .allowed = record->allowed,
        .closed = record->closed,
        .owner = record->owner,
        .soft = &record->soft,
        .borrowed = record->borrowed,
        .rest = &record->rest,
    };
}

uint32_t tn_table_session_of(const struct tn_table *table, const struct tn_secret *secret)
{
    return tn_session_find(table, secret);
}

void tn_table_allow(struct tn_table *table, uint32_t session, tenure_ns until)
{
    struct tn_session_record *record = tn_session_at(table, session);
    if (until > record->allowed)
        record->allowed = until;
}

tenure_ns tn_table_allowed(const struct tn_table *table, uint32_t lease)
{
    const struct tn_lease_record *record = tn_lease_at(table, lease);
    return record->state != TN_LEASE_FREE ? tn_session_at(table, record->session)->allowed : 0;
}

uint32_t tn_table_next_held(const struct tn_table *table, uint32_t session, uint32_t lease)
{
    return lease == 0 ? tn_session_at(table, session)->leases.first
                      : tn_lease_at(table, lease)->links.next;
}

uint32_t tn_table_next_place(const struct tn_table *table, uint32_t session, uint32_t place)
{
    return place == 0 ? tn_session_at(table, session)->waiters.first
                      : tn_waiter_at(table, place)->in_session.next;
}

uint32_t tn_table_next_waiter(const struct tn_table *table, uint32_t lease, uint32_t place,
                              uint32_t *ret_session)
{
    uint32_t next = place == 0 ? tn_lease_at(table, lease)->waiters.first
                               : tn_waiter_at(table, place)->in_lease.next;

    if (next != 0)
        *ret_session = tn_waiter_at(table, next)->session;
    return next;
}

uint32_t tn_table_lease_of(const struct tn_table *table, const char *name, uint32_t len)
{
    return tn_lease_find(table, name, len);
}

uint32_t tn_table_place(const struct tn_table *table, uint32_t place, struct tn_secret *ret_term)
{
    *ret_term = tn_waiter_at(table, place)->term;
    return tn_waiter_at(table, place)->lease;
}

const struct tn_secret *tn_table_term(const struct tn_table *table, uint32_t lease)
{
    return &tn_lease_at(table, lease)->term;
}

void tn_table_count(const struct tn_table *table, struct tn_table_counts *ret_counts)
{
    *ret_counts = (struct tn_table_counts) { .sessions = table->sessions.count,
                                             .leases = table->leases.count,
                                             .waiters = table->waiters.count };
}

uint64_t tn_table_token(const struct tn_table *table)
{
    return table->last_token;
}
