/* state.c - the state of state.h.
 *
 * What is written are outcomes: granted, freed, ended. A step of the table tells all of them as
 * notices, the ones that time caused too. Renewals change nothing that is written. */
#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE, MADV_HUGEPAGE */
#include "daemon/state.h"

#include <string.h>
#include <sys/mman.h>

/* From so many names on, of 84 bytes each, large pages are full enough not to waste memory; below,
 * the processor finds the small ones fast. */
#define LARGE_AFTER 50000
#define LARGE_PAGE (UINT64_C(2) << 20)

int tn_state_init(struct tn_state *state, struct tn_table_limits limits, uint32_t fences_max)
{
    void *block;

    *state = (struct tn_state) { 0 };
    limits.tells_ends = true;
    state->table_bytes = tn_table_size(&limits);
    /* Zero pages that cost nothing until they are touched: limits may be generous. */
    block = mmap(NULL, state->table_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == MAP_FAILED)
        return TENURE_E_NOMEM;
    state->table = tn_table_init(block, &limits);
    tn_fences_init(&state->fences, limits.hash_key, fences_max);
    return 0;
}

void tn_state_grown(struct tn_state *state)
{
    struct tn_table_counts counts;
    struct tn_table_part parts[2];

    if (state->large)
        return;
    tn_table_count(state->table, &counts);
    if (counts.leases < LARGE_AFTER)
        return;
    state->large = true;
    tn_table_parts(state->table, parts);
    for (int i = 0; i < 2; i++) {
        /* Inwards to whole pages: what lies beside it stays as it is. */
        uintptr_t from = ((uintptr_t)parts[i].at + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
        uintptr_t end = ((uintptr_t)parts[i].at + parts[i].bytes) / LARGE_PAGE * LARGE_PAGE;
        if (from < end)
            (void)madvise((void *)from, end - from, MADV_HUGEPAGE);
    }
}

void tn_state_done(struct tn_state *state)
{
    if (state->table != NULL)
        (void)munmap(state->table, state->table_bytes);
    state->table = NULL;
    tn_fences_done(&state->fences);
}

/* --- Out of the journal ---------------------------------------------------------------------- */

/* One operation at instant 0, and all that follows from it. */
static enum tn_answer replay(struct tn_state *state, const struct tn_op *op)
{
    struct tn_result result;
    enum tn_answer answer;

    tn_table_step(state->table, 0, op, &result);
    answer = result.answer;
    while (tn_table_wake_at(state->table) <= 0)
        tn_table_step(state->table, 0, &(struct tn_op) { .kind = TN_OP_TICK }, &result);
    return answer;
}

static int put_lease(struct tn_state *state, const struct tn_journal_record *record)
{
    struct tn_lease_view view = {
        .name = record->name,
        .name_len = record->name_len,
        .session = record->kind == TN_RECORD_GRANTED ? &record->session : NULL,
        .term = &record->term,
        .token = record->token,
    };
    tn_state_grown(state);
    return tn_table_put(state->table, &view);
}

static int put_soft(struct tn_state *state, const struct tn_journal_record *record)
{
    return tn_table_put_soft(state->table, &record->session,
                             &(struct tn_soft) { .limit = record->ttl, .fences = record->term });
}

static int put_rest(struct tn_state *state, const struct tn_journal_record *record)
{
    struct tn_lease_view view = { .name = record->name,
                                  .name_len = record->name_len,
                                  .session = &record->session };
    return tn_table_put_rest(state->table, &view, &record->term);
}

static int put_fence(struct tn_state *state, const struct tn_journal_record *record)
{
    struct tn_fence_entry *entry;
    int rc = tn_fences_get(&state->fences, record->name, record->name_len, &entry);
    return rc == 0 ? tenure_fence_raise(&entry->fence, record->token) : rc;
}

/* Of a fence that is there. */
static int change_fence(struct tn_state *state, const struct tn_journal_record *record)
{
    struct tn_fence_entry *entry = tn_fences_find(&state->fences, record->name, record->name_len);

    if (entry == NULL)
        return TENURE_E_DAMAGED;
    if (record->kind == TN_RECORD_OWNED)
        return tn_fences_own(&state->fences, entry, record->user, record->user_len);
    if (record->kind == TN_RECORD_REMOVED)
        tn_fences_remove(&state->fences, entry);
    else
        tn_fences_forget(&state->fences, entry);
    return 0;
}

static int apply(void *arg, const struct tn_journal_record *record)
{
    struct tn_state *state = arg;
    struct tn_op op = { .session = record->session,
                        .name = record->name,
                        .name_len = record->name_len,
                        .token = record->token };

    switch (record->kind) {
    case TN_RECORD_OPENED:
        op.kind = TN_OP_OPEN;
        op.seq = 1;
        op.ttl = record->ttl;
        op.label = record->name;
        op.label_len = record->name_len;
        return replay(state, &op) == TN_ANSWER_FULL ? TENURE_E_FULL : 0;
    case TN_RECORD_ENDED:
        op.kind = TN_OP_CLOSE;
        (void)replay(state, &op); /* GONE when it was closed, which is written too. */
        return 0;
    case TN_RECORD_GRANTED:
    case TN_RECORD_FREED:
        return put_lease(state, record);
    case TN_RECORD_SOFT:
        return put_soft(state, record);
    case TN_RECORD_LENT:
        return put_rest(state, record);
    case TN_RECORD_REVOKED:
        op.kind = TN_OP_REVOKE;
        op.until = TN_NEVER; /* An agent's; tn_table_restart says until when. */
        return replay(state, &op) == TN_ANSWER_OK ? 0 : TENURE_E_DAMAGED;
    case TN_RECORD_RAISED:
        op.kind = TN_OP_RAISE;
        (void)replay(state, &op);
        return 0;
    case TN_RECORD_FENCED:
        return put_fence(state, record);
    case TN_RECORD_OWNED:
    case TN_RECORD_REMOVED:
    case TN_RECORD_FORGOT:
        return change_fence(state, record);
    case TN_RECORD_LAST:
        break;
    }
    return TENURE_E_DAMAGED;
}

/* --- Into a snapshot ------------------------------------------------------------------------- */

typedef int put_function(void *to, const struct tn_journal_record *record);

static int dump_session(const struct tn_session_view *view, put_function *put, void *to)
{
    int rc = put(to, &(struct tn_journal_record) { .kind = TN_RECORD_OPENED,
                                                   .name = view->label,
                                                   .name_len = view->label_len,
                                                   .session = *view->secret,
                                                   .ttl = view->ttl });
    if (rc == 0 && view->soft->limit > 0)
        rc = put(to, &(struct tn_journal_record) { .kind = TN_RECORD_SOFT,
                                                   .session = *view->secret,
                                                   .term = view->soft->fences,
                                                   .ttl = view->soft->limit });
    return rc;
}

/* Whom it falls back to, if it was taken over early. */
static int dump_rest(const struct tn_state *state, uint32_t lease, put_function *put, void *to)
{
    struct tn_session_view session;
    struct tn_lease_view view;

    tn_table_lease(state->table, lease, &view);
    tn_table_session(state->table, tn_table_session_of(state->table, view.session), &session);
    if (session.borrowed != lease)
        return 0;
    return put(to, &(struct tn_journal_record) { .kind = TN_RECORD_LENT,
                                                 .name = view.name,
                                                 .name_len = view.name_len,
                                                 .session = *session.secret,
                                                 .term = *session.rest });
}

static int dump_sessions(const struct tn_state *state, put_function *put, void *to)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && (i = tn_table_next_session(state->table, i)) != 0;) {
        struct tn_session_view view;
        tn_table_session(state->table, i, &view);
        if (view.closed)
            continue;
        rc = dump_session(&view, put, to);
    }
    return rc;
}

static bool is_closed(const struct tn_lease_view *view)
{
    return view->session == NULL || view->closed;
}

static int dump_leases(const struct tn_state *state, put_function *put, void *to)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && (i = tn_table_next(state->table, i)) != 0;) {
        struct tn_lease_view view;
        tn_table_lease(state->table, i, &view);
        struct tn_journal_record record = { .kind = TN_RECORD_FREED,
                                            .name = view.name,
                                            .name_len = view.name_len,
                                            .term = *tn_table_term(state->table, i),
                                            .token = view.token };
        if (!is_closed(&view)) {
            record.kind = TN_RECORD_GRANTED;
            record.session = *view.session;
        }
        rc = put(to, &record);
        if (rc == 0 && !is_closed(&view))
            rc = dump_rest(state, i, put, to);
        if (rc == 0 && view.revoked && !is_closed(&view)) {
            record.kind = TN_RECORD_REVOKED;
            rc = put(to, &record);
        }
    }
    return rc;
}

static int dump_fences(const struct tn_state *state, put_function *put, void *to)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < state->fences.slots; i++) {
        const struct tn_fence_entry *entry = &state->fences.entries[i];
        struct tn_journal_record record = { .kind = TN_RECORD_FENCED,
                                            .name = entry->name,
                                            .name_len = entry->len,
                                            .token = tenure_fence_highest(&entry->fence) };
        if (entry->name != NULL)
            rc = put(to, &record);
        if (rc == 0 && entry->owner > 0) {
            record.kind = TN_RECORD_OWNED;
            record.user = state->fences.users[entry->owner - 1].name;
            record.user_len = (uint32_t)strlen(record.user);
            rc = put(to, &record);
        }
        if (rc == 0 && entry->removed) {
            record.kind = TN_RECORD_REMOVED;
            rc = put(to, &record);
        }
    }
    return rc;
}

static int dump(void *arg, put_function *put, void *to)
{
    const struct tn_state *state = arg;
    int rc = put(to, &(struct tn_journal_record) { .kind = TN_RECORD_RAISED,
                                                   .token = tn_table_token(state->table) });
    if (rc == 0)
        rc = dump_sessions(state, put, to);
    if (rc == 0)
        rc = dump_leases(state, put, to);
    if (rc == 0)
        rc = dump_fences(state, put, to);
    return rc;
}

static uint64_t token(void *arg)
{
    const struct tn_state *state = arg;
    return tn_table_token(state->table);
}

struct tn_journal_state tn_state_for_journal(struct tn_state *state)
{
    return (struct tn_journal_state) { .arg = state, .apply = apply, .dump = dump, .token = token };
}

/* --- Into the journal ------------------------------------------------------------------------ */

static void log_lease(const struct tn_state *state, struct tn_journal *journal,
                      const struct tn_notice *notice)
{
    struct tn_lease_view view;

    tn_table_lease(state->table, notice->lease, &view);
    struct tn_journal_record record = { .kind = TN_RECORD_FREED,
                                        .name = view.name,
                                        .name_len = view.name_len,
                                        .term = *tn_table_term(state->table, notice->lease),
                                        .token = notice->token };
    if (notice->held) {
        /* Freed again in the same step: that notice follows, and says all that counts. */
        if (view.session == NULL || view.token != notice->token)
            return;
        record.kind = TN_RECORD_GRANTED;
        record.session = *view.session;
    }
    tn_journal_add(journal, &record);
}

static void log_operation(const struct tn_state *state, struct tn_journal *journal,
                          const struct tn_op *op, const struct tn_result *result)
{
    struct tn_journal_record record = {
        .session = op->session, .name = op->name, .name_len = op->name_len, .token = op->token
    };

    if (op->kind == TN_OP_OPEN && result->fresh) {
        record.kind = TN_RECORD_OPENED;
        record.name = op->label;
        record.name_len = op->label_len;
        record.ttl = op->ttl;
    } else if (op->kind == TN_OP_CLOSE) {
        record.kind = TN_RECORD_ENDED;
    } else if (op->kind == TN_OP_REVOKE) {
        struct tn_lease_view view;
        tn_table_lease(state->table, result->lease, &view);
        record.kind = TN_RECORD_REVOKED;
        record.token = view.token;
    } else if (op->kind == TN_OP_RAISE) {
        record.kind = TN_RECORD_RAISED;
    } else {
        return;
    }
    tn_journal_add(journal, &record);
}

static int log_record(void *to, const struct tn_journal_record *record)
{
    tn_journal_add(to, record);
    return 0;
}

/* F1: the session's soft limit; and who was superseded, under the secret that it has now. */
static void log_soft(const struct tn_state *state, struct tn_journal *journal,
                     const struct tn_op *op, const struct tn_result *result)
{
    struct tn_session_view view;

    if (result->softened)
        tn_journal_add(journal, &(struct tn_journal_record) { .kind = TN_RECORD_SOFT,
                                                              .session = op->session,
                                                              .term = op->soft.fences,
                                                              .ttl = op->soft.limit });
    if (result->rested == 0)
        return;
    tn_table_session(state->table, result->rested, &view);
    (void)dump_session(&view, log_record, journal);
    (void)dump_rest(state, result->lease, log_record, journal);
}

void tn_state_log(const struct tn_state *state, struct tn_journal *journal, const struct tn_op *op,
                  const struct tn_result *result)
{
    if (result->answer == TN_ANSWER_OK)
        log_operation(state, journal, op, result);
    for (uint32_t i = 0; i < result->count; i++) {
        const struct tn_notice *notice = &result->list[i];
        if (notice->kind == TN_NOTICE_CHANGED)
            log_lease(state, journal, notice);
        else if (notice->kind == TN_NOTICE_ENDED)
            tn_journal_add(journal, &(struct tn_journal_record) { .kind = TN_RECORD_ENDED,
                                                                  .session = notice->session });
    }
    log_soft(state, journal, op, result);
}
