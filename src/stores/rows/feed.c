/* feed.c - what an engine tells a store on rows beside reads and writes: how the calls about its
 * sessions ended, what its change feed shows, and what it lists. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/rows/inside.h"

/* --- The engine's sessions -------------------------------------------------------------------- */

void tn_rows_recipe_session(void *arg, uint64_t number, enum tn_op_kind kind, const char *id)
{
    struct tn_rows_session *session = arg;
    struct tn_rows_store *store = session->store;
    struct tn_rows_call *call = calloc(1, sizeof *call);

    if (call == NULL)
        return; /* The recipe gives up waiting for it, by its own clock. */
    call->store = store;
    call->session = session;
    call->kind = kind;
    call->number = number;
    call->ttl = session->rows.ttl;
    call->timeout = session->rows.attempt_timeout;
    (void)snprintf(call->id, sizeof call->id, "%s", id);
    (void)snprintf(call->label, sizeof call->label, "%s", session->label);
    call->next = store->calls;
    store->calls = call;
    store->engine->session(store, call);
}

void tn_rows_call_done(struct tn_rows_call *call, enum tn_rows_outcome outcome, const char *id,
                       const char *why)
{
    struct tn_rows_store *store = call->store;
    struct tn_rows_call **link = &store->calls;

    while (*link != call)
        link = &(*link)->next;
    *link = call->next;
    call->next = store->calls_ended;
    store->calls_ended = call;
    call->outcome = outcome;
    if (id != NULL)
        (void)snprintf(call->id, sizeof call->id, "%s", id);
    (void)snprintf(call->error, sizeof call->error, "%s", why != NULL ? why : "");
    tn_rows_kick(store);
}

void tn_rows_pass_on_calls(struct tn_rows_store *store, tenure_ns now)
{
    struct tn_rows_call *call;

    while ((call = store->calls_ended) != NULL) {
        struct tn_rows_session *session = call->session;
        store->calls_ended = call->next;
        if (session != NULL && !store->base.closing && call->kind != TN_OP_CLOSE) {
            memcpy(session->error, call->error, sizeof session->error);
            tn_rows_session_done(&session->rows, now, call->number, call->outcome, call->id);
        }
        free(call);
    }
}

void tn_rows_forget_calls(struct tn_rows_store *store, const struct tn_rows_session *session)
{
    for (struct tn_rows_call *call = store->calls; call != NULL; call = call->next)
        if (call->session == session)
            call->session = NULL;
    for (struct tn_rows_call *call = store->calls_ended; call != NULL; call = call->next)
        if (call->session == session)
            call->session = NULL;
}

/* --- The engine's change feed ----------------------------------------------------------------- */

void tn_rows_saw(struct tn_rows_store *store, const char *name, const struct tn_row *row,
                 const char *version)
{
    struct tn_row seen = { 0 };
    struct tn_rows_watch *watch = tn_rows_find_name(store, name, strlen(name));
    enum tn_rows_whose whose = TN_ROWS_OTHERS;

    if (watch == NULL || store->base.closing)
        return;
    watch->shown_in = store->feed_round + 1;
    if (row != NULL)
        seen = *row;
    row = &seen;
    tn_rows_name_settle(&watch->known, &seen, version);
    for (const struct tn_rows_session *each = store->sessions;
         each != NULL && whose == TN_ROWS_OTHERS; each = each->next)
        whose = tn_rows_whose(&each->rows, &watch->known, row);
    watch->fed = whose == TN_ROWS_OTHERS;
    watch->shown_beat = tn_row_beat(version);
    /* A term of our own is told by its requests; somebody else's write may have ended one. */
    if (whose != TN_ROWS_OURS || row->revoked)
        (void)snprintf(watch->written, sizeof watch->written, "%s",
                       version[0] != '\0' ? version : "(none)");
    tn_rows_kick(store);
    if (whose == TN_ROWS_STRAY)
        return;
    if (store->engine->session == NULL) /* Else the engine says whether the holder is gone. */
        tn_rows_name_saw(&watch->known, tn_rows_now_of(store), whose == TN_ROWS_OTHERS, row,
                         version);
    tn_rows_record(row, version, &watch->shown);
    struct tn_store_record told = watch->shown;
    tn_rows_judge_record(store, watch, &told);
    tn_rows_tell_change(store, watch, &told);
}

void tn_rows_saw_all(struct tn_rows_store *store)
{
    for (struct tn_rows_watch *each = store->names; each != NULL; each = each->next)
        if (each->watches > 0 && each->shown_in != store->feed_round + 1)
            tn_rows_saw(store, each->name, NULL, "");
    store->feed_round++;
}

void tn_rows_feed_lost(struct tn_rows_store *store)
{
    for (struct tn_rows_watch *each = store->names; each != NULL; each = each->next) {
        each->fed = false;
        if (each->watches > 0)
            each->poll_at = 0;
    }
    tn_rows_kick(store);
}

size_t tn_rows_watched(const struct tn_rows_store *store, const char **ret_name)
{
    size_t count = 0;

    for (const struct tn_rows_watch *each = store->names; each != NULL; each = each->next) {
        if (each->watches == 0)
            continue;
        count++;
        *ret_name = each->name;
    }
    return count;
}

/* --- Listings --------------------------------------------------------------------------------- */

void tn_rows_listing_add(struct tn_rows_listing *listing, const char *name,
                         const struct tn_row *row, const char *version)
{
    if (listing->full || strncmp(name, listing->prefix, strlen(listing->prefix)) != 0)
        return;
    if (listing->count == listing->room) {
        size_t room = listing->room > 0 ? 2 * listing->room : 16;
        struct tn_store_lease *leases = realloc(listing->leases, room * sizeof *leases);
        if (leases == NULL) {
            listing->full = true;
            return;
        }
        listing->leases = leases;
        listing->room = room;
    }
    struct tn_store_lease *lease = &listing->leases[listing->count++];
    (void)snprintf(lease->name, sizeof lease->name, "%s", name);
    tn_rows_record(row, version, &lease->record);
}
