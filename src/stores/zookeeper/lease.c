/* lease.c - one term: its node in the queue, from create to delete.
 *
 *   LOOK_FIRST --> CREATE --> LOOK --> VERIFY --> HELD --> DELETE --> OVER
 *                    ^         | ^                          ^
 *                    |  gone   | | the node before is gone  |
 *                    +---------+ +--- QUEUED <-- FIRST <-- FOLLOW
 *
 * Who has the lowest number leads. The others watch the node before theirs and nothing else. Before
 * a grant the own node is read once more: it is there, and of this very ZooKeeper session.
 *
 * What can fail: the connection, at any stage. A create without an answer is looked for by its
 * prefix, which no other term has; everything else is simply done again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/sha256.h"
#include "stores/zookeeper/private.h"

enum { TRIES_MAX = 8 };

static void go(struct tn_zk_lease *lease);
static void make_parents(struct tn_zk_lease *lease);

/* --- The book of leases ----------------------------------------------------------------------- */

static struct tn_zk_lease *find(const struct tn_zk_session *session, const struct tn_zk_name *name,
                                const struct tn_secret *term)
{
    for (struct tn_zk_lease *at = name->leases; at != NULL; at = at->name_next) {
        if (at->session == session && tn_secret_equal(&at->term, term))
            return at;
    }
    return NULL;
}

static struct tn_zk_lease *make(struct tn_zk_session *session, struct tn_zk_name *name,
                                const struct tn_secret *term)
{
    struct tn_zk_lease *lease = calloc(1, sizeof *lease);

    if (lease == NULL)
        return NULL;
    lease->session = session;
    lease->name = name;
    lease->term = *term;
    lease->session_next = session->leases;
    session->leases = lease;
    lease->name_next = name->leases;
    name->leases = lease;
    return lease;
}

static void attach(struct tn_zk_lease *lease, struct tn_zk_op *op)
{
    struct tn_zk_op **end = &lease->ops;

    while (*end != NULL)
        end = &(*end)->lease_next;
    op->lease_next = NULL;
    *end = op;
    op->lease = lease;
}

void tn_zk_lease_forget_op(struct tn_zk_lease *lease, struct tn_zk_op *op)
{
    struct tn_zk_op **link = &lease->ops;

    while (*link != NULL && *link != op)
        link = &(*link)->lease_next;
    if (*link == op)
        *link = op->lease_next;
    op->lease = NULL;
}

void tn_zk_lease_unpin(struct tn_zk_lease *lease)
{
    TN_ASSERT(lease->pins > 0);
    if (--lease->pins == 0 && lease->session == NULL)
        free(lease);
}

/* Out of the books; its calls may still be answered. */
static void forget(struct tn_zk_lease *lease)
{
    struct tn_zk_lease **link = &lease->session->leases;

    TN_ASSERT(lease->ops == NULL);
    if (lease->held_back)
        lease->session->held_back--;
    while (*link != lease)
        link = &(*link)->session_next;
    *link = lease->session_next;
    for (link = &lease->name->leases; *link != lease; link = &(*link)->name_next)
        ;
    *link = lease->name_next;
    if (lease->counted)
        lease->session->held--;
    if (lease->revoked)
        lease->session->store->revoked--;
    lease->session = NULL;
    lease->stage = TN_ZK_OVER;
    if (lease->pins == 0)
        free(lease);
}

/* Answer those that wait: an ACQUIRE so, a RELEASE so. Both may be the same. */
static void answer_ops(struct tn_zk_lease *lease, enum tn_answer acquire, enum tn_answer release,
                       const struct tn_store_record *record)
{
    struct tn_zk_op *op;

    while ((op = lease->ops) != NULL) {
        enum tn_answer answer = op->req->op.kind == TN_OP_RELEASE ? release : acquire;
        if (answer == TN_ANSWER_QUEUED && !op->req->op.wait)
            answer = TN_ANSWER_HELD;
        op->req->record = *record;
        tn_zk_op_answer(op, answer);
    }
}

void tn_zk_lease_drop(struct tn_zk_lease *lease)
{
    const struct tn_store_record none = { 0 };

    answer_ops(lease, TN_ANSWER_GONE, TN_ANSWER_GONE, &none);
    forget(lease);
}

static void refuse(struct tn_zk_lease *lease, int rc)
{
    while (lease->ops != NULL)
        tn_zk_op_refuse(lease->ops, rc, lease->name->name);
    forget(lease);
}

/* --- Leaving ---------------------------------------------------------------------------------- */

/* No node is left of who did not wait; unless it wants to wait by now. */
static void end_refusal(struct tn_zk_lease *lease)
{
    lease->refused = false;
    if (lease->wait) {
        lease->leaving = false;
        lease->node[0] = '\0';
        lease->stage = TN_ZK_CREATE;
        go(lease);
        return;
    }
    while (lease->ops != NULL)
        tn_zk_op_answer(lease->ops, TN_ANSWER_HELD);
    forget(lease);
}

static void over(struct tn_zk_lease *lease)
{
    struct tn_zk_name *name = lease->name;
    struct tn_store_record record = { 0 };

    if (lease->refused) {
        end_refusal(lease);
        return;
    }
    if (lease->counted) {
        name->released_term = lease->term;
        name->released_token = lease->token;
        tn_zk_note_token(lease->session->store, name->name, lease->token);
    }
    record.token = name->last_token;
    answer_ops(lease, TN_ANSWER_STALE, TN_ANSWER_RELEASED, &record);
    forget(lease);
}

static void leave(struct tn_zk_lease *lease)
{
    lease->leaving = true;
    if (lease->stage == TN_ZK_CREATE && lease->uncertain)
        return; /* On its way: its answer goes on. */
    if (lease->node[0] == '\0' && !lease->uncertain) {
        over(lease);
        return;
    }
    lease->stage = lease->uncertain ? TN_ZK_LOOK : TN_ZK_DELETE;
    go(lease);
}

static void hear_delete(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_lease *lease = call->lease;

    if (lease->session == NULL || call->flow != lease->flow || tn_zk_is_loss(reply->rc))
        return;
    if (reply->rc == ZOK || (reply->rc == ZNONODE && call->note[0] == '\0')) {
        over(lease);
    } else if (call->note[0] != '\0') {
        lease->name->foreign = true; /* Without the note, then. */
        go(lease);
    } else {
        refuse(lease, reply->rc);
    }
}

void tn_zk_lease_abandon(struct tn_zk_lease *lease)
{
    if (lease->ops == NULL && lease->node[0] == '\0' && !lease->uncertain && !lease->leaving)
        forget(lease);
}

/* --- Granted, revoked, taken ------------------------------------------------------------------ */

static void tell_revoked(struct tn_zk_lease *lease)
{
    const struct tn_store_open *how = &lease->session->store->base.how;

    how->host->revoked(how->arg, lease->name->name, lease->token);
}

static void revoke(struct tn_zk_lease *lease)
{
    struct tn_zk_session *session = lease->session;

    if (lease->revoked)
        return;
    lease->revoked = true;
    lease->revocation = ++session->revocations;
    lease->free_at = tn_zk_now(session->store) + session->ttl;
    session->store->revoked++;
    tn_zk_kick(session->store);
    tell_revoked(lease);
}

/* Somebody deleted the node. */
static void taken(struct tn_zk_lease *lease)
{
    revoke(lease);
    over(lease);
}

void tn_zk_lease_remind(struct tn_zk_session *session, uint64_t seen)
{
    for (struct tn_zk_lease *at = session->leases; at != NULL && session->store->revoked > 0;
         at = at->session_next) {
        if (at->revoked && at->revocation > seen)
            tell_revoked(at);
    }
}

static struct tn_zk_lease *find_overdue(struct tn_zk_session *session, tenure_ns now,
                                        tenure_ns *due)
{
    for (struct tn_zk_lease *at = session->leases; at != NULL; at = at->session_next) {
        if (!at->revoked || at->leaving)
            continue;
        if (at->free_at <= now)
            return at;
        if (at->free_at < *due)
            *due = at->free_at;
    }
    return NULL;
}

tenure_ns tn_zk_lease_take(struct tn_zk_store *store, tenure_ns now)
{
    tenure_ns due = TN_NEVER;
    struct tn_zk_lease *lease;

    if (store->revoked == 0)
        return due;
    for (struct tn_zk_session *at = store->sessions; at != NULL; at = at->next) {
        while (!at->over && (lease = find_overdue(at, now, &due)) != NULL)
            leave(lease);
    }
    return due;
}

static void grant(struct tn_zk_lease *lease, const struct Stat *stat)
{
    struct tn_zk_session *session = lease->session;
    const struct tn_store_open *how = &session->store->base.how;
    struct tn_store_record record;
    bool asked = lease->ops != NULL;

    lease->stage = TN_ZK_HELD;
    lease->token = (uint64_t)stat->czxid;
    lease->counted = true;
    session->held++;
    tn_zk_note_token(session->store, lease->name->name, lease->token);
    tn_zk_record_own(lease, &record);
    answer_ops(lease, TN_ANSWER_GRANTED, TN_ANSWER_STALE, &record);
    if (!asked)
        how->host->granted(how->arg, lease->name->name, &lease->term, lease->token);
    if (stat->version > 0)
        revoke(lease);
}

/* --- The stages ------------------------------------------------------------------------------- */

static void hear_verify(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_lease *lease = call->lease;

    if (lease->session == NULL || call->flow != lease->flow || tn_zk_is_loss(reply->rc))
        return;
    bool ours = reply->rc == ZOK &&
                reply->stat->ephemeralOwner == zoo_client_id(lease->session->zh)->client_id;
    if (reply->rc != ZOK && reply->rc != ZNONODE) {
        refuse(lease, reply->rc);
        return;
    }
    bool adopted = lease->uncertain;
    lease->uncertain = false;
    if (!ours)
        lease->node[0] = '\0';
    if (lease->leaving) {
        leave(lease);
        return;
    }
    if (ours && !adopted) {
        grant(lease, reply->stat);
        return;
    }
    lease->stage = ours ? TN_ZK_LOOK : TN_ZK_CREATE;
    go(lease);
}

static void hear_follow(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_lease *lease = call->lease;
    struct tn_store_record record;

    if (lease->session == NULL || call->flow != lease->flow || tn_zk_is_loss(reply->rc))
        return;
    if (reply->rc == ZNONODE) {
        lease->stage = TN_ZK_LOOK;
        go(lease);
    } else if (reply->rc != ZOK) {
        refuse(lease, reply->rc);
    } else if (lease->ops == NULL) {
        lease->stage = TN_ZK_QUEUED;
    } else if (strcmp(lease->before, lease->first) == 0) {
        lease->stage = TN_ZK_QUEUED;
        tn_zk_record_held(lease->session->store, lease->first, reply, &record);
        answer_ops(lease, TN_ANSWER_QUEUED, TN_ANSWER_STALE, &record);
    } else {
        lease->stage = TN_ZK_FIRST;
        go(lease);
    }
}

static void hear_first(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_lease *lease = call->lease;
    struct tn_store_record record;

    if (lease->session == NULL || call->flow != lease->flow || tn_zk_is_loss(reply->rc))
        return;
    if (reply->rc == ZNONODE) {
        lease->stage = lease->node[0] != '\0' ? TN_ZK_LOOK : TN_ZK_LOOK_FIRST;
        go(lease);
        return;
    }
    if (reply->rc != ZOK) {
        refuse(lease, reply->rc);
        return;
    }
    tn_zk_record_held(lease->session->store, lease->first, reply, &record);
    tn_zk_note_token(lease->session->store, lease->name->name, record.token);
    lease->stage = TN_ZK_QUEUED;
    if (lease->wait) {
        answer_ops(lease, TN_ANSWER_QUEUED, TN_ANSWER_STALE, &record);
        return;
    }
    lease->refused = true;
    for (struct tn_zk_op *op = lease->ops; op != NULL; op = op->lease_next)
        op->req->record = record;
    leave(lease);
}

/* Our node among the children: by its name or, if a create was not answered, or its answer or this
 * list was damaged on the way, by its prefix, which is the term's. The newest then: an older one
 * may be of a session that is over. */
static const char *find_own(const struct tn_zk_lease *lease, const struct String_vector *children)
{
    char prefix[TN_ZK_NODE_MAX];
    const char *own = NULL;
    int64_t seq;
    int64_t highest = -1;

    tn_zk_node_prefix(&lease->term, prefix);
    for (int i = 0; i < children->count; i++) {
        const char *child = children->data[i];
        if (lease->node[0] != '\0' && strcmp(child, lease->node) == 0)
            return child;
        if ((lease->node[0] != '\0' || lease->uncertain) &&
            strncmp(child, prefix, strlen(prefix)) == 0 && tn_zk_node_parse(child, &seq) &&
            seq > highest) {
            highest = seq;
            own = child;
        }
    }
    return own;
}

static const char *find_before(const char *own, const struct String_vector *children)
{
    const char *before = NULL;
    int64_t mine = 0;
    int64_t seq;
    int64_t best = -1;

    (void)tn_zk_node_parse(own, &mine);
    for (int i = 0; i < children->count; i++) {
        if (tn_zk_node_parse(children->data[i], &seq) && seq < mine && seq > best) {
            best = seq;
            before = children->data[i];
        }
    }
    return before;
}

static void copy_node(char *ret_node, const char *node)
{
    (void)snprintf(ret_node, TN_ZK_NODE_MAX, "%s", node);
}

/* What to do next, given who is there. */
static enum tn_zk_stage judge(struct tn_zk_lease *lease, const struct String_vector *children)
{
    const struct String_vector none = { 0 };
    size_t count;

    if (children == NULL)
        children = &none;
    const char *own = find_own(lease, children);
    const char *first = tn_zk_first_node(children, &count);
    if (own == NULL) {
        lease->node[0] = '\0';
        lease->uncertain = false;
        if (first == NULL || lease->wait || lease->leaving)
            return TN_ZK_CREATE;
        copy_node(lease->first, first);
        return TN_ZK_FIRST;
    }
    if (strcmp(own, lease->node) != 0)
        lease->uncertain = true; /* Is it this session's? */
    copy_node(lease->node, own);
    copy_node(lease->first, first);
    const char *before = find_before(own, children);
    if (before == NULL || lease->uncertain)
        return TN_ZK_VERIFY;
    copy_node(lease->before, before);
    return lease->wait ? TN_ZK_FOLLOW : TN_ZK_FIRST;
}

static void note_parent(struct tn_zk_name *name, const struct Stat *stat)
{
    /* Data that is there and was never read as ours stays as it is. */
    if (stat != NULL && stat->dataLength > 0 && !name->noted)
        name->foreign = true;
    else if (stat != NULL && stat->dataLength == 0)
        name->foreign = false;
}

static void hear_look(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_lease *lease = call->lease;

    if (lease->session == NULL || call->flow != lease->flow || tn_zk_is_loss(reply->rc))
        return;
    if (reply->rc != ZOK && reply->rc != ZNONODE) {
        refuse(lease, reply->rc);
        return;
    }
    note_parent(lease->name, reply->rc == ZOK ? reply->stat : NULL);
    lease->stage = judge(lease, reply->rc == ZOK ? reply->strings : NULL);
    if (reply->rc == ZNONODE && lease->stage == TN_ZK_CREATE && !lease->leaving)
        make_parents(lease);
    if (lease->leaving && !lease->uncertain)
        leave(lease);
    else
        go(lease);
}

/* --- Creating --------------------------------------------------------------------------------- */

/* The znode that a name's own lies in; "" for one below the root. */
static void folder_of(const struct tn_zk_lease *lease, char *ret_path)
{
    tn_zk_path_of(lease->session->store, lease->name->name, NULL, ret_path);
    *strrchr(ret_path, '/') = '\0';
}

static void hear_parent(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_lease *lease = call->lease;

    if (reply->rc == ZNOAUTH)
        lease->denied = true;
    if (lease->session != NULL && call->note[0] != '\0' &&
        (reply->rc == ZOK || reply->rc == ZNODEEXISTS))
        folder_of(lease, lease->session->store->made);
}

/* All of them, from the top; those that are there already say so and nothing happens. The calls are
 * answered in this order, before the create that follows. Of a folder that was there a moment ago
 * only the last one. */
static void make_parents(struct tn_zk_lease *lease)
{
    struct tn_zk_store *store = lease->session->store;
    char path[TN_ZK_PATH_MAX];
    char folder[TN_ZK_PATH_MAX];

    lease->denied = false;
    folder_of(lease, folder);
    tn_zk_path_of(store, lease->name->name, NULL, path);
    bool made = folder[0] != '\0' && strcmp(folder, store->made) == 0;
    char *slash = strchr(path + (made ? strlen(folder) : 0) + 1, '/');
    for (;; slash = strchr(slash + 1, '/')) {
        struct tn_zk_call *call = tn_zk_call_new(lease->session, hear_parent);
        tn_zk_call_for_lease(call, lease);
        if (slash != NULL)
            *slash = '\0';
        else
            call->note[0] = 'n'; /* The name's own. */
        tn_zk_call_create(call, path, "", 0, ZOO_PERSISTENT);
        if (slash == NULL)
            return;
        *slash = '/';
    }
}

static void hear_create(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_lease *lease = call->lease;

    if (lease->session == NULL)
        return;
    if (tn_zk_is_loss(reply->rc)) {
        lease->stage = TN_ZK_LOOK;
        return;
    }
    lease->uncertain = false;
    if (reply->rc == ZOK) {
        const char *node = strrchr(reply->value, '/');
        TN_ASSERT(node != NULL);
        copy_node(lease->node, node + 1);
        lease->tries = 0;
        lease->stage = TN_ZK_LOOK;
    } else if (reply->rc == ZNONODE && lease->tries++ < TRIES_MAX && !lease->denied) {
        lease->session->store->made[0] = '\0';
        if (!lease->leaving)
            make_parents(lease);
    } else {
        refuse(lease, lease->denied ? ZNOAUTH : reply->rc);
        return;
    }
    if (lease->leaving)
        leave(lease);
    else
        go(lease);
}

static void create(struct tn_zk_lease *lease)
{
    struct tn_zk_session *session = lease->session;
    char prefix[TN_ZK_NODE_MAX];
    char path[TN_ZK_PATH_MAX];

    tn_zk_node_prefix(&lease->term, prefix);
    tn_zk_path_of(session->store, lease->name->name, prefix, path);
    lease->uncertain = true;
    struct tn_zk_call *call = tn_zk_call_new(session, hear_create);
    tn_zk_call_for_lease(call, lease);
    tn_zk_call_create(call, path, session->label, (int)session->label_len,
                      ZOO_EPHEMERAL_SEQUENTIAL);
}

/* The name's data remembers the last token, unless it is somebody else's. */
static void delete (struct tn_zk_lease *lease)
{
    struct tn_zk_store *store = lease->session->store;
    struct tn_zk_call *call = tn_zk_call_new(lease->session, hear_delete);
    char parent[TN_ZK_PATH_MAX];
    char path[TN_ZK_PATH_MAX];
    bool note = lease->counted && !lease->name->foreign;

    tn_zk_call_for_lease(call, lease);
    tn_zk_path_of(store, lease->name->name, NULL, parent);
    tn_zk_path_of(store, lease->name->name, lease->node, path);
    tn_zk_call_delete(call, path, note ? parent : NULL, lease->token);
}

static void get(struct tn_zk_lease *lease, const char *node, bool watch,
                void (*hear)(struct tn_zk_call *call, const struct tn_zk_reply *reply))
{
    struct tn_zk_call *call = tn_zk_call_new(lease->session, hear);
    char path[TN_ZK_PATH_MAX];

    tn_zk_call_for_lease(call, lease);
    tn_zk_path_of(lease->session->store, lease->name->name, node, path);
    tn_zk_call_get(call, path, watch);
}

static void look(struct tn_zk_lease *lease)
{
    struct tn_zk_call *call = tn_zk_call_new(lease->session, hear_look);
    char path[TN_ZK_PATH_MAX];

    tn_zk_call_for_lease(call, lease);
    tn_zk_path_of(lease->session->store, lease->name->name, NULL, path);
    tn_zk_call_children(call, path, false);
}

static void hold_back(struct tn_zk_lease *lease, bool held_back)
{
    if (lease->held_back == held_back)
        return;
    lease->held_back = held_back;
    lease->session->held_back += held_back ? 1U : -1U;
}

/* Not now: too many are on their way. */
static bool is_held_back(struct tn_zk_lease *lease)
{
    hold_back(lease, lease->session->in_flight >= TN_ZK_IN_FLIGHT);
    return lease->held_back;
}

static void go(struct tn_zk_lease *lease)
{
    if (!lease->session->connected || lease->session->over || is_held_back(lease))
        return;
    lease->flow++;
    if (lease->stage == TN_ZK_CREATE || lease->stage == TN_ZK_DELETE) {
        for (struct tn_zk_op *op = lease->ops; op != NULL; op = op->lease_next)
            op->written = true;
    }
    switch (lease->stage) {
    case TN_ZK_LOOK_FIRST:
    case TN_ZK_LOOK:
        look(lease);
        break;
    case TN_ZK_CREATE:
        create(lease);
        break;
    case TN_ZK_VERIFY:
        get(lease, lease->node, true, hear_verify);
        break;
    case TN_ZK_FOLLOW:
        get(lease, lease->before, true, hear_follow);
        break;
    case TN_ZK_FIRST:
        get(lease, lease->first, false, hear_first);
        break;
    case TN_ZK_DELETE:
        delete (lease);
        break;
    case TN_ZK_QUEUED:
    case TN_ZK_HELD:
    case TN_ZK_OVER:
        break;
    }
}

void tn_zk_lease_go_on(struct tn_zk_session *session)
{
    for (struct tn_zk_lease *lease = session->leases, *next; lease != NULL; lease = next) {
        next = lease->session_next;
        if (session->held_back == 0 || session->in_flight >= TN_ZK_IN_FLIGHT)
            return;
        if (lease->held_back)
            go(lease);
    }
}

void tn_zk_lease_resume(struct tn_zk_lease *lease)
{
    if (lease->stage != TN_ZK_QUEUED && lease->stage != TN_ZK_HELD)
        go(lease);
}

/* --- News ------------------------------------------------------------------------------------- */

static void hear_nothing(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    (void)call;
    (void)reply;
}

static void hear_own(struct tn_zk_lease *lease, int type)
{
    if (lease->stage != TN_ZK_HELD)
        return;
    if (type == ZOO_DELETED_EVENT) {
        taken(lease);
    } else if (type == ZOO_CHANGED_EVENT) {
        revoke(lease);
        if (lease->session->connected)
            get(lease, lease->node, true, hear_nothing); /* A watch fires once. */
    }
}

void tn_zk_lease_hear(struct tn_zk_name *name, struct tn_zk_session *session, const char *node,
                      int type)
{
    struct tn_zk_lease *next;

    for (struct tn_zk_lease *lease = name->leases; lease != NULL; lease = next) {
        next = lease->name_next;
        if (lease->session != session)
            continue;
        bool follows = lease->stage == TN_ZK_FOLLOW || lease->stage == TN_ZK_FIRST ||
                       lease->stage == TN_ZK_QUEUED;
        if (strcmp(lease->node, node) == 0) {
            hear_own(lease, type);
        } else if (follows && lease->node[0] != '\0' && strcmp(lease->before, node) == 0) {
            lease->stage = TN_ZK_LOOK;
            go(lease);
        }
    }
}

/* --- Requests --------------------------------------------------------------------------------- */

void tn_zk_lease_acquire(struct tn_zk_op *op)
{
    struct tn_zk_session *session = op->session;
    struct tn_zk_name *name = tn_zk_name_get(session->store, op->name);
    struct tn_secret term;

    tn_secret_hash(&op->req->op.term, 't', &term);
    if (name == NULL) {
        tn_zk_op_fail(op, TENURE_E_NOMEM, "out of memory");
        return;
    }
    struct tn_zk_lease *lease = find(session, name, &term);
    if ((lease == NULL && name->released_token != 0 &&
         tn_secret_equal(&name->released_term, &term)) ||
        (lease != NULL && lease->leaving && !lease->refused)) {
        op->req->record.token = name->last_token;
        tn_zk_op_answer(op, TN_ANSWER_STALE);
    } else if (lease != NULL && lease->stage == TN_ZK_HELD) {
        tn_zk_record_own(lease, &op->req->record);
        tn_zk_op_answer(op, lease->revoked ? TN_ANSWER_HELD : TN_ANSWER_GRANTED);
    } else if (lease != NULL &&
               (lease->refused ? !op->req->op.wait : lease->stage == TN_ZK_QUEUED)) {
        op->otherwise = op->req->op.wait ? TN_ANSWER_QUEUED : TN_ANSWER_HELD;
        tn_zk_read(op);
    } else if (lease != NULL) {
        lease->wait = lease->wait || op->req->op.wait;
        op->written = lease->uncertain;
        attach(lease, op);
    } else if ((lease = make(session, name, &term)) == NULL) {
        tn_zk_op_fail(op, TENURE_E_NOMEM, "out of memory");
    } else {
        lease->wait = op->req->op.wait;
        lease->stage = lease->wait ? TN_ZK_CREATE : TN_ZK_LOOK_FIRST;
        attach(lease, op);
        go(lease);
    }
}

void tn_zk_lease_release(struct tn_zk_op *op)
{
    struct tn_zk_session *session = op->session;
    struct tn_zk_name *name = tn_zk_name_find(session->store, op->name);
    uint64_t token = op->req->op.token;
    struct tn_secret term;

    tn_secret_hash(&op->req->op.term, 't', &term);
    struct tn_zk_lease *lease = name != NULL ? find(session, name, &term) : NULL;
    bool again = name != NULL && tn_secret_equal(&name->released_term, &term) &&
                 (token == 0 || name->released_token == token);
    if (lease != NULL && (token == 0 || (lease->counted && lease->token == token))) {
        attach(lease, op);
        op->written = op->written || lease->uncertain;
        lease->refused = false;
        if (!lease->leaving)
            leave(lease);
        else
            op->written = true;
    } else if (lease != NULL && lease->counted) {
        tn_zk_record_own(lease, &op->req->record);
        tn_zk_op_answer(op, TN_ANSWER_STALE);
    } else if (token == 0 || again) {
        op->req->record.token = name != NULL ? name->last_token : 0;
        tn_zk_op_answer(op, TN_ANSWER_RELEASED);
    } else {
        tn_zk_read(op); /* DENIED or STALE: whose is the token? */
    }
}
