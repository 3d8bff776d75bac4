/* claim.c - terms in a name's queue. core/line.c decides; here its steps become calls to ZooKeeper,
 * and the answers its views.
 *
 * Happy path: a request starts a goal of the recipe, which asks for steps. They are sent when the
 * session is connected and not too many are under way. A key's order is its sequence number + 1,
 * its token the czxid, and its proof the ephemeralOwner.
 * What can fail: the connection, at any step. The recipe is told, and what it asks for next waits
 * for the next connection. A create without an answer is looked for by its prefix, which no other
 * term has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "stores/zookeeper/private.h"

enum {
    TRIES_MAX = 8, /* To create a node whose parents vanish. */
    DEAD_MAX = 4   /* Terms that are over and remembered, of a session and a name. */
};

/* --- The book of claims ----------------------------------------------------------------------- */

static struct tn_zk_claim *claim_of(struct tn_line_claim *base)
{
    return (struct tn_zk_claim *)(void *)base; /* Its first member. */
}

static tenure_ns claim_now(const struct tn_zk_claim *claim)
{
    return tn_zk_now(claim->session->store);
}

static void free_claim(struct tn_zk_claim *claim)
{
    struct tn_zk_session *session = claim->session;
    struct tn_zk_claim **link = &session->unsent;

    TN_ASSERT(claim->jobs == NULL);
    while (claim->unsent && *link != claim)
        link = &(*link)->unsent_next;
    if (claim->unsent) {
        *link = claim->unsent_next;
        if (*link == NULL)
            session->unsent_end = link;
    }
    for (link = &claim->name->claims; *link != claim; link = &(*link)->name_next)
        ;
    *link = claim->name_next;
    tn_line_remove(&claim->base);
    tn_zk_call_forget(session->store, claim);
    tn_store_name_drop(&session->store->base, &claim->name->base);
    free(claim);
}

static bool is_idle(const struct tn_zk_claim *claim)
{
    return claim->jobs == NULL && claim->base.goal == TN_LINE_REST &&
           claim->base.step == TN_LINE_NOTHING;
}

/* After every call of the recipe. The claim may be gone afterwards. */
static void settle(struct tn_zk_claim *claim)
{
    if (is_idle(claim) && claim->base.place == TN_LINE_OUT && claim->base.proof == TN_LINE_NO_KEY)
        free_claim(claim);
}

/* A few terms that are over are remembered, so that a late request for them is known to be late. */
static void forget_dead(const struct tn_zk_session *session, const struct tn_zk_name *name)
{
    struct tn_zk_claim *oldest = NULL;
    unsigned dead = 0;

    for (struct tn_zk_claim *at = name->claims; at != NULL; at = at->name_next) {
        if (at->session != session || !tn_line_is_over(&at->base) || !is_idle(at))
            continue;
        dead++;
        oldest = at; /* New ones are put in front. */
    }
    if (dead >= DEAD_MAX)
        free_claim(oldest);
}

static struct tn_zk_claim *find_claim(const struct tn_zk_session *session,
                                      const struct tn_zk_name *name, const struct tn_secret *term)
{
    for (struct tn_zk_claim *at = name->claims; at != NULL; at = at->name_next)
        if (at->session == session && tn_secret_equal(&at->base.term, term))
            return at;
    return NULL;
}

static struct tn_zk_claim *make_claim(struct tn_zk_session *session, struct tn_zk_name *name,
                                      const struct tn_secret *term)
{
    struct tn_zk_claim *claim = calloc(1, sizeof *claim);

    if (claim == NULL)
        return NULL;
    forget_dead(session, name);
    tn_line_add(&session->line, &claim->base, name, term);
    claim->session = session;
    claim->name = name;
    claim->name_next = name->claims;
    name->claims = claim;
    name->base.uses++;
    return claim;
}

void tn_zk_claim_forget(struct tn_zk_job *job)
{
    struct tn_zk_job **link;

    if (job->claim == NULL)
        return;
    for (link = &job->claim->jobs; *link != job; link = &(*link)->claim_next)
        ;
    *link = job->claim_next;
    job->claim = NULL;
}

/* --- The recipe's host ------------------------------------------------------------------------ */

static void queue_step(struct tn_zk_claim *claim)
{
    struct tn_zk_session *session = claim->session;

    tn_store_kick(&session->store->base);
    if (claim->unsent)
        return;
    claim->unsent = true;
    claim->unsent_next = NULL;
    *session->unsent_end = claim;
    session->unsent_end = &claim->unsent_next;
}

static void step(void *arg, struct tn_line_claim *base, enum tn_line_step what, uint64_t request)
{
    (void)arg;
    (void)what;
    (void)request;
    queue_step(claim_of(base));
}

/* Returns whether there was one. */
static bool answer_jobs(struct tn_zk_claim *claim, enum tn_op_kind kind, enum tn_answer answer,
                        const struct tn_store_record *record)
{
    bool asked = false;

    for (struct tn_zk_job *job = claim->jobs, *next; job != NULL; job = next) {
        next = job->claim_next;
        if (job->req->op.kind != kind)
            continue;
        job->req->record = *record;
        tn_zk_job_answer(job, answer);
        asked = true;
    }
    return asked;
}

static void grant(struct tn_zk_claim *claim)
{
    struct tn_store *store = &claim->session->store->base;
    struct tn_store_record record;

    tn_zk_note_token(claim->session->store, claim->name->base.text, claim->base.key.token);
    tn_zk_record_own(claim, &record);
    if (!answer_jobs(claim, TN_OP_ACQUIRE, TN_ANSWER_GRANTED, &record))
        tn_store_granted(store, claim->name->base.text, &record.term, record.token);
}

/* Not its turn. The answer names the holder, who is read first; a waiting request stays with its
 * claim meanwhile, for its turn may come. */
static void end_waiting(struct tn_zk_claim *claim, enum tn_answer answer)
{
    for (struct tn_zk_job *job = claim->jobs, *next; job != NULL; job = next) {
        next = job->claim_next;
        if (job->req->op.kind != TN_OP_ACQUIRE || job->reading)
            continue;
        job->otherwise = job->req->op.wait ? answer : TN_ANSWER_HELD;
        job->reading = true;
        if (job->otherwise != TN_ANSWER_QUEUED)
            tn_zk_claim_forget(job);
        tn_zk_read(job);
    }
}

/* Whose the token of a release without a node is has to be read. */
static void read_strangers(struct tn_zk_claim *claim)
{
    for (struct tn_zk_job *job = claim->jobs, *next; job != NULL; job = next) {
        next = job->claim_next;
        if (job->req->op.kind != TN_OP_RELEASE || job->req->op.token == 0)
            continue;
        tn_zk_claim_forget(job);
        tn_zk_read(job);
    }
}

static void done(void *arg, struct tn_line_claim *base, enum tn_line_goal goal,
                 const struct tn_line_answer *answer)
{
    struct tn_zk_claim *claim = claim_of(base);
    struct tn_store_record record = { .token = claim->name->last_token };
    bool left = answer->answer == TN_ANSWER_RELEASED || answer->stranger;

    (void)arg;
    if (goal == TN_LINE_ACQUIRE && answer->answer == TN_ANSWER_GRANTED) {
        grant(claim);
    } else if (goal == TN_LINE_ACQUIRE && answer->answer == TN_ANSWER_STALE) {
        (void)answer_jobs(claim, TN_OP_ACQUIRE, TN_ANSWER_STALE, &record);
    } else if (goal == TN_LINE_ACQUIRE) {
        end_waiting(claim, answer->answer);
    } else {
        if (left)
            (void)answer_jobs(claim, TN_OP_ACQUIRE, TN_ANSWER_STALE, &record);
        else if (tn_line_is_granted(&claim->base))
            tn_zk_record_own(claim, &record);
        if (answer->stranger)
            read_strangers(claim);
        (void)answer_jobs(claim, TN_OP_RELEASE, answer->answer, &record);
    }
}

static void news(void *arg, struct tn_line_claim *base, enum tn_line_news what)
{
    struct tn_zk_claim *claim = claim_of(base);

    (void)arg;
    (void)what; /* To the holder both are the end of its term. */
    tn_store_revoked(&claim->session->store->base, claim->name->base.text, base->key.token);
}

void tn_zk_claim_init(struct tn_zk_session *session)
{
    static const struct tn_line_host host = { step, done, news };
    const struct tn_line_engine engine = { .hold_off = session->ttl };

    tn_line_init(&session->line, &host, session, &engine);
    session->unsent_end = &session->unsent;
}

/* --- Steps ------------------------------------------------------------------------------------ */

static tn_zk_hear hear_step;

static struct tn_zk_call *make_call(struct tn_zk_claim *claim, const char *node, char *ret_path)
{
    struct tn_zk_call *call = tn_zk_call_new(claim->session, claim, hear_step);

    call->request = claim->base.request;
    tn_zk_path_of(claim->session->store, claim->name->base.text, node, ret_path);
    return call;
}

/* The znode that a name's own lies in; "" for one below the root. */
static void folder_of(const struct tn_zk_claim *claim, char *ret_path)
{
    tn_zk_path_of(claim->session->store, claim->name->base.text, NULL, ret_path);
    *strrchr(ret_path, '/') = '\0';
}

static void hear_parent(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_claim *claim = call->asker;

    if (reply->rc == ZNOAUTH)
        claim->denied = true;
    if (call->note[0] != '\0' && (reply->rc == ZOK || reply->rc == ZNODEEXISTS))
        folder_of(claim, claim->session->store->made);
}

/* All of them, from the top; those that are there already say so and nothing happens. The calls are
 * answered in this order, before the create that follows. Of a folder that was there a moment ago
 * only the last one. */
static void make_parents(struct tn_zk_claim *claim)
{
    struct tn_zk_store *store = claim->session->store;
    char path[TN_ZK_PATH_MAX];
    char folder[TN_ZK_PATH_MAX];

    claim->denied = false;
    claim->name->missing = false;
    folder_of(claim, folder);
    tn_zk_path_of(store, claim->name->base.text, NULL, path);
    bool made = folder[0] != '\0' && strcmp(folder, store->made) == 0;
    char *slash = strchr(path + (made ? strlen(folder) : 0) + 1, '/');
    for (;; slash = strchr(slash + 1, '/')) {
        struct tn_zk_call *call = tn_zk_call_new(claim->session, claim, hear_parent);
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

static void send_create(struct tn_zk_claim *claim)
{
    const struct tn_zk_session *session = claim->session;
    char prefix[TN_ZK_NODE_MAX];
    char path[TN_ZK_PATH_MAX];

    if (claim->name->missing)
        make_parents(claim);
    tn_zk_node_prefix(&claim->base.term, prefix);
    struct tn_zk_call *call = make_call(claim, prefix, path);
    tn_zk_call_create(call, path, session->label, (int)session->label_len,
                      ZOO_EPHEMERAL_SEQUENTIAL);
}

/* In the same step, the name's data remembers the token of a term that led. */
static void send_remove(struct tn_zk_claim *claim)
{
    bool note = tn_line_is_granted(&claim->base) && claim->name->note != TN_ZK_NOTE_OTHER;
    char parent[TN_ZK_PATH_MAX];
    char path[TN_ZK_PATH_MAX];

    tn_zk_path_of(claim->session->store, claim->name->base.text, NULL, parent);
    struct tn_zk_call *call = make_call(claim, claim->node, path);
    tn_zk_call_delete(call, path, note ? parent : NULL, claim->base.key.token);
}

static void send_step(struct tn_zk_claim *claim)
{
    enum tn_line_step what = claim->base.step;
    char path[TN_ZK_PATH_MAX];
    struct tn_zk_call *call;

    if (what == TN_LINE_CREATE || what == TN_LINE_REMOVE)
        for (struct tn_zk_job *job = claim->jobs; job != NULL; job = job->claim_next)
            job->written = true;
    if (what == TN_LINE_CREATE) {
        send_create(claim);
    } else if (what == TN_LINE_REMOVE) {
        send_remove(claim);
    } else if (what == TN_LINE_LOOK) {
        if (claim->base.fresh)
            tn_zk_call_sync(claim->session);
        call = make_call(claim, NULL, path);
        tn_zk_call_children(call, path, false);
    } else {
        TN_ASSERT(what == TN_LINE_PROVE || what == TN_LINE_FOLLOW);
        if (what == TN_LINE_PROVE)
            tn_zk_call_sync(claim->session);
        call = make_call(claim, what == TN_LINE_PROVE ? claim->node : claim->before, path);
        tn_zk_call_get(call, path, true);
    }
}

void tn_zk_claim_send(struct tn_zk_session *session)
{
    while (session->unsent != NULL && tn_zk_is_up(session) &&
           session->in_flight < TN_ZK_IN_FLIGHT) {
        struct tn_zk_claim *claim = session->unsent;
        session->unsent = claim->unsent_next;
        if (session->unsent == NULL)
            session->unsent_end = &session->unsent;
        claim->unsent = false;
        if (claim->base.step != TN_LINE_NOTHING)
            send_step(claim);
    }
}

/* --- Answers ---------------------------------------------------------------------------------- */

/* The server refuses the step. */
static void refuse_step(struct tn_zk_claim *claim, int rc)
{
    (void)tn_line_failed(&claim->base, claim->base.request, false);
    while (claim->jobs != NULL)
        tn_zk_job_refuse(claim->jobs, rc, claim->name->base.text);
    tn_line_give_up(&claim->base);
}

static void copy_node(char *ret_node, const char *node)
{
    (void)snprintf(ret_node, TN_ZK_NODE_MAX, "%s", node != NULL ? node : "");
}

/* Its place in the queue; 0: it is no candidate's. */
static uint64_t order_of(const char *node)
{
    int64_t seq;

    return tn_zk_node_parse(node, &seq) ? (uint64_t)seq + 1 : 0;
}

static void hear_create(struct tn_zk_claim *claim, const struct tn_zk_reply *reply)
{
    struct tn_line_view view = { .whose = TN_LINE_MINE };
    const char *node = reply->rc == ZOK ? strrchr(reply->value, '/') : NULL;

    if (node != NULL && (view.own.order = order_of(node + 1)) != 0) {
        claim->tries = 0;
        copy_node(claim->node, node + 1);
        tn_line_saw(&claim->base, claim_now(claim), claim->base.request, &view);
    } else if (reply->rc == ZNONODE && claim->base.goal == TN_LINE_RELEASE) {
        (void)tn_line_failed(&claim->base, claim->base.request, false);
        tn_line_go_on(&claim->base, claim_now(claim));
    } else if (reply->rc == ZNONODE && !claim->denied && claim->tries++ < TRIES_MAX) {
        claim->session->store->made[0] = '\0';
        claim->name->missing = true;
        queue_step(claim);
    } else {
        refuse_step(claim, claim->denied ? ZNOAUTH : reply->rc == ZOK ? ZSYSTEMERROR : reply->rc);
    }
}

/* The child with that place in the queue; with a @prefix the one that begins so, since anybody may
 * make a node with the same number by hand. */
static const char *find_node(const struct String_vector *children, uint64_t order,
                             const char *prefix)
{
    for (int i = 0; i < children->count && order > 0; i++)
        if (order_of(children->data[i]) == order &&
            strncmp(children->data[i], prefix, strlen(prefix)) == 0)
            return children->data[i];
    return NULL;
}

/* The recipe finds our node by its number or, if a create was not answered, or its answer or this
 * list was damaged on the way, by its prefix, which is the term's. */
static void see_children(struct tn_zk_claim *claim, const struct String_vector *children)
{
    size_t count = (size_t)children->count;
    struct tn_line_seen *keys = calloc(count + 1, sizeof *keys);
    struct tn_line_view view;
    char prefix[TN_ZK_NODE_MAX];

    TN_ASSERT(keys != NULL); /* As in tn_zk_call_new. */
    tn_zk_node_prefix(&claim->base.term, prefix);
    for (size_t i = 0; i < count; i++) {
        keys[i].order = order_of(children->data[i]);
        keys[i].named = strncmp(children->data[i], prefix, strlen(prefix)) == 0;
    }
    tn_line_find(claim->base.key.order, claim->base.proof, keys, count, &view);
    free(keys);
    copy_node(claim->node, find_node(children, view.own.order, prefix));
    copy_node(claim->before, find_node(children, view.before, ""));
    tn_line_saw(&claim->base, claim_now(claim), claim->base.request, &view);
}

static void hear_look(struct tn_zk_claim *claim, const struct tn_zk_reply *reply)
{
    const struct String_vector none = { 0 };
    struct tn_zk_name *name = claim->name;

    name->missing = reply->rc == ZNONODE;
    if (reply->rc == ZOK && reply->stat->dataLength == 0)
        name->note = TN_ZK_NOTE_OURS;
    else if (reply->rc == ZOK && name->note == TN_ZK_NOTE_UNREAD)
        name->note = TN_ZK_NOTE_OTHER;
    see_children(claim, reply->rc == ZOK ? reply->strings : &none);
}

static void hear_prove(struct tn_zk_claim *claim, const struct tn_zk_reply *reply)
{
    struct tn_line_proven proven = { .ours = false };

    if (reply->rc == ZOK && reply->stat->czxid <= 0) { /* Damaged on the way: it is no token. */
        refuse_step(claim, ZMARSHALLINGERROR);
        return;
    }
    if (reply->rc == ZOK) {
        proven.ours = reply->stat->ephemeralOwner == zoo_client_id(claim->session->zh)->client_id;
        proven.changed = reply->stat->version > 0;
        proven.token = (uint64_t)reply->stat->czxid;
    }
    tn_line_proved(&claim->base, claim_now(claim), claim->base.request, &proven);
}

static void hear_remove(struct tn_zk_call *call, struct tn_zk_claim *claim, int rc)
{
    if (rc == ZOK || (rc == ZNONODE && call->note[0] == '\0')) {
        tn_line_removed(&claim->base, claim_now(claim), claim->base.request);
    } else if (call->note[0] != '\0') {
        claim->name->note = TN_ZK_NOTE_OTHER; /* Without the note, then. */
        queue_step(claim);
    } else {
        refuse_step(claim, rc);
    }
}

static void hear_step(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_claim *claim = call->asker;
    enum tn_line_step what = claim->base.step;

    if (call->request != claim->base.request)
        return; /* The recipe has moved on. */
    if (tn_zk_is_loss(reply->rc)) {
        (void)tn_line_failed(&claim->base, call->request, true);
        tn_line_go_on(&claim->base, claim_now(claim));
    } else if (what == TN_LINE_CREATE) {
        hear_create(claim, reply);
    } else if (what == TN_LINE_REMOVE) {
        hear_remove(call, claim, reply->rc);
    } else if (reply->rc != ZOK && reply->rc != ZNONODE) {
        refuse_step(claim, reply->rc);
    } else if (what == TN_LINE_LOOK) {
        hear_look(claim, reply);
    } else if (what == TN_LINE_PROVE) {
        hear_prove(claim, reply);
    } else {
        tn_line_followed(&claim->base, claim_now(claim), call->request, reply->rc == ZOK);
    }
    settle(claim);
}

/* --- News, requests, the end ------------------------------------------------------------------ */

static void hear_own(struct tn_zk_claim *claim, int type)
{
    char path[TN_ZK_PATH_MAX];

    if (type == ZOO_DELETED_EVENT) {
        tn_line_gone(&claim->base, claim_now(claim), claim->base.key.order);
    } else if (type == ZOO_CHANGED_EVENT) {
        tn_line_changed(&claim->base, claim_now(claim), claim->base.key.order);
        tn_zk_path_of(claim->session->store, claim->name->base.text, claim->node, path);
        if (tn_zk_is_up(claim->session)) /* A watch fires once. */
            tn_zk_call_get(tn_zk_call_new(claim->session, NULL, NULL), path, true);
    }
}

void tn_zk_claim_hear(struct tn_zk_name *name, struct tn_zk_session *session, const char *node,
                      int type)
{
    for (struct tn_zk_claim *claim = name->claims, *next; claim != NULL; claim = next) {
        next = claim->name_next;
        if (claim->session != session)
            continue;
        if (strcmp(claim->node, node) == 0)
            hear_own(claim, type);
        else if (strcmp(claim->before, node) == 0 && type == ZOO_DELETED_EVENT)
            tn_line_gone(&claim->base, claim_now(claim), claim->base.before);
        else if (strcmp(claim->before, node) == 0 && !tn_line_is_granted(&claim->base))
            tn_line_unwatched(&claim->base, claim_now(claim));
        else
            continue;
        settle(claim);
    }
}

static struct tn_zk_claim *attach(struct tn_zk_job *job)
{
    struct tn_zk_session *session = job->session;
    struct tn_store *store = &session->store->base;
    struct tn_store_name *used = tn_store_name_use(store, job->name, strlen(job->name));
    struct tn_zk_name *name = (struct tn_zk_name *)used;
    struct tn_zk_claim *claim = NULL;
    struct tn_zk_job **end;

    tn_req_hash(job->req);
    if (name != NULL)
        claim = find_claim(session, name, &job->req->term_hash);
    if (name != NULL && claim == NULL)
        claim = make_claim(session, name, &job->req->term_hash);
    if (name != NULL)
        tn_store_name_drop(store, used);
    if (claim == NULL) {
        tn_zk_job_fail(job, TENURE_E_NOMEM, "out of memory");
        return NULL;
    }
    tn_zk_claim_forget(job);
    for (end = &claim->jobs; *end != NULL; end = &(*end)->claim_next)
        ;
    *end = job;
    job->claim_next = NULL;
    job->claim = claim;
    job->reading = false;
    if (claim->base.proof == TN_LINE_UNSURE ||
        (!claim->unsent &&
         (claim->base.step == TN_LINE_CREATE || claim->base.step == TN_LINE_REMOVE)))
        job->written = true;
    return claim;
}

void tn_zk_claim_acquire(struct tn_zk_job *job)
{
    struct tn_zk_claim *claim = attach(job);

    if (claim == NULL)
        return;
    tn_line_acquire(&claim->base, claim_now(claim), job->req->op.wait);
    settle(claim);
}

void tn_zk_claim_release(struct tn_zk_job *job)
{
    struct tn_zk_claim *claim = attach(job);

    if (claim == NULL)
        return;
    tn_line_release(&claim->base, claim_now(claim), job->req->op.token);
    settle(claim);
}

void tn_zk_claim_abandon(struct tn_zk_claim *claim)
{
    if (claim->jobs != NULL || claim->base.place != TN_LINE_OUT ||
        claim->base.goal != TN_LINE_ACQUIRE)
        return;
    if (claim->unsent)
        (void)tn_line_failed(&claim->base, claim->base.request, false);
    if (claim->base.proof == TN_LINE_NO_KEY)
        tn_line_give_up(&claim->base);
    else
        tn_line_go_on(&claim->base, claim_now(claim));
    settle(claim);
}

void tn_zk_claim_drop_all(struct tn_zk_session *session)
{
    const struct tn_store_record none = { 0 };

    for (struct tn_zk_claim *claim = session->unsent; claim != NULL; claim = claim->unsent_next)
        claim->unsent = false;
    session->unsent = NULL;
    session->unsent_end = &session->unsent;
    while (session->line.claims != NULL) {
        struct tn_zk_claim *claim = claim_of(session->line.claims);
        (void)answer_jobs(claim, TN_OP_ACQUIRE, TN_ANSWER_GONE, &none);
        (void)answer_jobs(claim, TN_OP_RELEASE, TN_ANSWER_GONE, &none);
        free_claim(claim);
    }
}
