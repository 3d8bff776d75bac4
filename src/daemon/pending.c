/* pending.c - what the records that are not flushed yet have changed about each session.
 *
 * Renewals do not wait for the disk, but they tell how many leases a session has and which were
 * revoked. They must tell what is on disk (protocol.md), and that is the table less what is noted
 * here. Most of the time there is nothing: a note lives from the step that made the record until
 * that record's flush.
 *
 * A note belongs to the batch that gathers or to the one that is being flushed, never to both. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "daemon/server.h"

struct tn_pending {
    struct tn_map_node node; /* First; by session. */
    struct tn_pending *next; /* Of the same batch, or spare. */
    struct tn_secret session;
    uint64_t batch;
    int32_t held; /* Leases that it has by now, and not on disk. */
    bool opened, revoked;
};

static struct tn_pending *make(struct tn_pendings *pendings)
{
    struct tn_pending *pending = pendings->spare;

    if (pending != NULL)
        pendings->spare = pending->next;
    else
        pending = malloc(sizeof *pending);
    return pending;
}

/* The note of this session in the batch that gathers. NULL: no memory. */
static struct tn_pending *note_of(struct tn_server *server, const struct tn_secret *session)
{
    struct tn_pendings *pendings = &server->pendings;
    uint64_t hash = tn_map_hash(server, session->bytes, sizeof session->bytes);
    struct tn_map_node *node = tn_map_first(pendings->map, hash);

    for (; node != NULL; node = tn_map_next(node)) {
        struct tn_pending *pending = (struct tn_pending *)node;
        if (pending->batch == pendings->batch && tn_secret_equal(&pending->session, session))
            return pending;
    }
    struct tn_pending *pending = make(pendings);
    if (pending == NULL) {
        pendings->blind = true;
        return NULL;
    }
    *pending = (struct tn_pending) { .session = *session,
                                     .batch = pendings->batch,
                                     .next = pendings->gathered };
    pendings->gathered = pending;
    tn_map_add(pendings->map, &pending->node, hash);
    return pending;
}

static void add_held(struct tn_server *server, const struct tn_secret *session, int32_t held)
{
    struct tn_pending *pending = note_of(server, session);

    if (pending != NULL)
        pending->held += held;
}

/* Who had it before is known of a release only. Otherwise the session is over, or the lease was
 * revoked, and its holder was told. */
static void note_change(struct tn_server *server, const struct tn_op *op,
                        const struct tn_result *result, const struct tn_notice *notice)
{
    struct tn_lease_view view;

    tn_table_lease(server->state.table, notice->lease, &view);
    if (notice->held && view.session != NULL && view.token == notice->token)
        add_held(server, view.session, 1);
    if (op->kind == TN_OP_RELEASE && result->answer == TN_ANSWER_RELEASED &&
        notice->lease == result->lease)
        add_held(server, &op->session, -1);
}

static void note_revoked(struct tn_server *server, const struct tn_secret *session)
{
    struct tn_pending *pending = note_of(server, session);

    if (pending != NULL)
        pending->revoked = true;
}

void tn_pending_note(struct tn_server *server, const struct tn_op *op,
                     const struct tn_result *result)
{
    struct tn_pending *pending = NULL;

    if (op->kind == TN_OP_OPEN && result->fresh)
        pending = note_of(server, &op->session);
    if (pending != NULL)
        pending->opened = true;
    for (uint32_t i = 0; i < result->count; i++) {
        const struct tn_notice *notice = &result->list[i];
        if (notice->kind == TN_NOTICE_CHANGED)
            note_change(server, op, result, notice);
        else if (notice->kind == TN_NOTICE_REVOKED && op->kind == TN_OP_REVOKE)
            note_revoked(server, &notice->session);
    }
}

bool tn_pending_take_back(struct tn_server *server, const struct tn_op *op,
                          struct tn_result *result)
{
    const struct tn_pendings *pendings = &server->pendings;
    bool opened = pendings->blind;
    int64_t held = result->held;
    bool revoked = false;

    if (pendings->gathered == NULL && pendings->sealed == NULL)
        return !opened;
    uint64_t hash = tn_map_hash(server, op->session.bytes, sizeof op->session.bytes);
    struct tn_map_node *node = tn_map_first(server->pendings.map, hash);
    for (; node != NULL; node = tn_map_next(node)) {
        const struct tn_pending *pending = (struct tn_pending *)node;
        if (!tn_secret_equal(&pending->session, &op->session))
            continue;
        held -= pending->held;
        opened |= pending->opened;
        revoked |= pending->revoked;
    }
    result->held = held > 0 ? (uint32_t)held : 0;
    if (revoked) { /* The next renewal tells, or a push once it is on disk. */
        result->count = 0;
        result->seen = op->seen;
        result->more = false;
    }
    return !opened;
}

void tn_pending_sealed(struct tn_server *server)
{
    struct tn_pendings *pendings = &server->pendings;

    TN_ASSERT(pendings->sealed == NULL);
    pendings->sealed = pendings->gathered;
    pendings->gathered = NULL;
    pendings->batch++;
}

void tn_pending_landed(struct tn_server *server)
{
    struct tn_pendings *pendings = &server->pendings;

    while (pendings->sealed != NULL) {
        struct tn_pending *pending = pendings->sealed;
        pendings->sealed = pending->next;
        tn_map_remove(pendings->map, &pending->node);
        pending->next = pendings->spare;
        pendings->spare = pending;
    }
    if (!tn_journal_is_pending(&server->journal))
        pendings->blind = false;
}

void tn_pending_close(struct tn_server *server)
{
    struct tn_pendings *pendings = &server->pendings;

    tn_pending_landed(server);
    tn_pending_sealed(server);
    tn_pending_landed(server);
    while (pendings->spare != NULL) {
        struct tn_pending *pending = pendings->spare;
        pendings->spare = pending->next;
        free(pending);
    }
}
