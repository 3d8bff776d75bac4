/* engine.c - between the recipe and the engine: reads and writes of rows, calls about the engine's
 * sessions, listings. What the engine answers waits for a turn of the loop. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "stores/rows/inside.h"

/* The engine has ended what was under way: nobody waits for it. */
static void end_if_shut(struct tn_rows_store *store)
{
    if (!store->shut || store->under_way != NULL || store->calls != NULL)
        return;
    tn_rows_pass_on(store, 0);
    tn_store_end(&store->base);
}

void tn_rows_shut(struct tn_rows_store *store)
{
    store->shut = true;
    end_if_shut(store);
}

/* --- Rows ------------------------------------------------------------------------------------- */

static struct tn_rows_io *new_io(const struct rows_claim *claim, uint64_t request, bool put)
{
    struct tn_rows_store *store = claim->session->store;
    struct tn_rows_io *io = calloc(1, sizeof *io);

    if (io == NULL)
        return NULL; /* The recipe gives up waiting for it, by its own clock. */
    io->store = store;
    io->claim = (struct rows_claim *)claim;
    io->request = request;
    io->put = put;
    (void)snprintf(io->name, sizeof io->name, "%s", claim->watch->base.text);
    io->next = store->under_way;
    store->under_way = io;
    return io;
}

void tn_rows_recipe_get(void *arg, struct tn_rows_claim *claim, uint64_t request)
{
    const struct tn_rows_session *session = arg;
    struct tn_rows_io *io = new_io(tn_rows_claim_of(claim), request, false);

    if (io != NULL)
        session->store->engine->get(session->store, io);
}

void tn_rows_recipe_put(void *arg, struct tn_rows_claim *claim, uint64_t request,
                        const struct tn_row *row)
{
    const struct tn_rows_session *session = arg;
    struct tn_rows_io *io = new_io(tn_rows_claim_of(claim), request, true);

    if (io != NULL)
        session->store->engine->put(session->store, io, row, claim->version);
}

const char *tn_rows_io_name(const struct tn_rows_io *io)
{
    return io->name;
}

const char *tn_rows_io_label(const struct tn_rows_io *io)
{
    return io->claim != NULL ? io->claim->session->label : "";
}

bool tn_rows_io_is_urgent(const struct tn_rows_io *io)
{
    const struct tn_rows_claim *claim = io->claim != NULL ? &io->claim->claim : NULL;

    return claim != NULL && (claim->held || claim->revoked || claim->goal == TN_ROWS_RELEASE ||
                             claim->goal == TN_ROWS_ADOPT);
}

bool tn_rows_io_only_looks(const struct tn_rows_io *io)
{
    const struct tn_rows_watch *watch = io->claim != NULL ? io->claim->watch : NULL;

    return watch != NULL && watch->poll == io->claim && watch->known.none && watch->news.token == 0;
}

static void end_io(struct tn_rows_io *io, const char *version, const char *why)
{
    struct tn_rows_store *store = io->store;
    struct tn_rows_io **link = &store->under_way;
    struct tn_rows_io **last = &store->ended;

    while (*link != io)
        link = &(*link)->next;
    *link = io->next;
    io->next = NULL;
    while (*last != NULL)
        last = &(*last)->next;
    *last = io;
    if (version != NULL && strlen(version) >= sizeof io->version) {
        /* Cut short, it could look like another one. */
        io->failed = true;
        io->outcome = TN_ROWS_UNKNOWN;
        why = "the engine's version of the row is too long";
    } else if (version != NULL) {
        memcpy(io->version, version, strlen(version) + 1);
    }
    if (why != NULL)
        (void)snprintf(io->error, sizeof io->error, "%s", why);
    tn_store_kick(&store->base);
    end_if_shut(store);
}

void tn_rows_io_got(struct tn_rows_io *io, const struct tn_row *row, const char *version)
{
    TN_ASSERT(!io->put);
    if (row != NULL) {
        io->row = *row;
        io->row.label = io->label;
        if (io->row.label_len > TN_LABEL_MAX)
            io->row.label_len = TN_LABEL_MAX;
        if (io->row.label_len > 0)
            memcpy(io->label, row->label, io->row.label_len);
    }
    end_io(io, version, NULL);
}

void tn_rows_io_failed(struct tn_rows_io *io, int status, const char *why)
{
    io->failed = true;
    io->denied = status == TENURE_E_DENIED;
    io->outcome = TN_ROWS_FAILED;
    end_io(io, NULL, why);
}

void tn_rows_io_put(struct tn_rows_io *io, enum tn_rows_outcome outcome, const char *version,
                    const char *why)
{
    TN_ASSERT(io->put);
    io->outcome = outcome;
    end_io(io, version, why);
}

/* What one claim learned of a row concerns all others on that name: those that held it look whether
 * they still do. */
static void share_io(struct tn_rows_store *store, const struct rows_claim *by,
                     const struct tn_rows_io *io)
{
    struct tn_rows_watch *watch = by->watch;
    bool written = io->put && io->outcome == TN_ROWS_WRITTEN;

    if (io->put ? !written : io->failed)
        return;
    /* A write that went through shows that nobody else has written: no read is needed until a
     * renewal is overdue. */
    if (written && by->claim.row.held && watch->poll_at != TN_NEVER)
        watch->poll_at = tn_rows_now_of(store) + by->claim.row.ttl / 2;
    (void)snprintf(watch->written, sizeof watch->written, "%s",
                   io->version[0] != '\0' ? io->version : "-");
    for (struct tn_rows_session *each = NULL;
         written && (each = tn_rows_next_session(store, each)) != NULL;)
        tn_rows_outdate(&each->rows, &by->claim);
}

static void pass_on_io(struct tn_rows_io *io, tenure_ns now)
{
    struct rows_claim *claim = io->claim;

    if (claim == NULL)
        return;
    share_io(io->store, claim, io);
    if (io->error[0] != '\0')
        memcpy(claim->error, io->error, sizeof claim->error);
    claim->denied = io->denied;
    if (io->put)
        tn_rows_put_done(&claim->claim, now, io->request, io->outcome, io->version);
    else if (io->failed)
        tn_rows_get_failed(&claim->claim, now, io->request);
    else
        tn_rows_got(&claim->claim, now, io->request, &io->row, io->version);
}

void tn_rows_forget_io(struct tn_rows_store *store, const struct rows_claim *claim)
{
    for (struct tn_rows_io *io = store->under_way; io != NULL; io = io->next)
        if (io->claim == claim)
            io->claim = NULL;
    for (struct tn_rows_io *io = store->ended; io != NULL; io = io->next)
        if (io->claim == claim)
            io->claim = NULL;
}

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
    for (const struct tn_rows_claim *each = session->rows.claims; each != NULL; each = each->next)
        call->urgent = call->urgent || (each->held && kind == TN_OP_RENEW);
    call->ttl = session->rows.ttl;
    call->timeout =
        kind == TN_OP_RENEW ? session->rows.attempt_timeout : session->rows.acquire_timeout;
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
    tn_store_kick(&store->base);
    end_if_shut(store);
}

static void pass_on_call(const struct tn_rows_call *call, tenure_ns now)
{
    struct tn_rows_session *session = call->session;

    if (session == NULL || call->kind == TN_OP_CLOSE)
        return;
    memcpy(session->error, call->error, sizeof session->error);
    session->denied = call->denied;
    tn_rows_session_done(&session->rows, now, call->number, call->outcome, call->id);
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

void tn_rows_pass_on(struct tn_rows_store *store, tenure_ns now)
{
    struct tn_rows_io *io;
    struct tn_rows_call *call;

    while ((io = store->ended) != NULL) {
        store->ended = io->next;
        pass_on_io(io, now);
        free(io);
    }
    while ((call = store->calls_ended) != NULL) {
        store->calls_ended = call->next;
        pass_on_call(call, now);
        free(call);
    }
}

/* --- Listings --------------------------------------------------------------------------------- */

void tn_rows_listing_begin(struct tn_rows_listing *listing, const char *prefix,
                           tn_store_listed *done, void *arg)
{
    *listing = (struct tn_rows_listing) { .done = done, .arg = arg };
    (void)snprintf(listing->prefix, sizeof listing->prefix, "%s", prefix);
}

bool tn_rows_listing_add(struct tn_rows_listing *listing, const char *name,
                         const struct tn_row *row, const char *version)
{
    if (strncmp(name, listing->prefix, strlen(listing->prefix)) != 0)
        return true;
    if (listing->count == listing->room) {
        size_t room = listing->room > 0 ? 2 * listing->room : 16;
        struct tn_store_lease *leases = realloc(listing->leases, room * sizeof *leases);
        if (leases == NULL) {
            listing->full = true;
            return false;
        }
        listing->leases = leases;
        listing->room = room;
    }
    struct tn_store_lease *lease = &listing->leases[listing->count++];
    (void)snprintf(lease->name, sizeof lease->name, "%s", name);
    tn_rows_record(row, version, &lease->record);
    return true;
}

/* Sorted, two lines of one name are neighbours. */
static void merge_twins(struct tn_rows_listing *listing)
{
    size_t kept = 0;

    for (size_t i = 0; i < listing->count; i++) {
        const struct tn_store_lease *each = &listing->leases[i];
        struct tn_store_lease *last = kept > 0 ? &listing->leases[kept - 1] : NULL;
        if (last == NULL || strcmp(last->name, each->name) != 0) {
            listing->leases[kept++] = *each;
            continue;
        }
        uint64_t token = last->record.token;
        if (each->record.held)
            *last = *each;
        if (each->record.token > token)
            token = each->record.token;
        last->record.token = token;
    }
    listing->count = kept;
}

void tn_rows_listing_end(struct tn_rows_listing *listing, int status, const char *error)
{
    if (listing->full) {
        status = TENURE_E_NOMEM;
        error = "out of memory";
    }
    if (status != 0) {
        free(listing->leases);
        listing->done(listing->arg, status, NULL, 0, error);
        return;
    }
    tn_store_sort(listing->leases, listing->count);
    merge_twins(listing);
    listing->done(listing->arg, 0, listing->leases, listing->count, NULL);
}

static void end_list(void *arg, int status, struct tn_store_lease *leases, size_t count,
                     const char *error)
{
    struct tn_store_query *query = arg;

    query->leases = leases;
    query->count = count;
    tn_query_done(query, status, error);
}

void tn_rows_start_lists(struct tn_rows_store *store)
{
    struct tn_store_query *query;

    while ((query = store->lists) != NULL) {
        store->lists = query->next;
        store->engine->list(store, query->prefix, end_list, query);
    }
}

void tn_rows_ask(struct tn_store *base, struct tn_store_query *query)
{
    struct tn_rows_store *store = (struct tn_rows_store *)base;

    tn_query_push(&store->lists, query);
    tn_store_kick(base);
}
