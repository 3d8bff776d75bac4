/* look.c - who leads: for READ, for REVOKE, for those who watch, and for a list.
 *
 * A look reads the children of a name and then the first candidate's node. If that is gone by then,
 * it looks again. Those who watch wait for the end of the first node, not for every coming and
 * going; only while there is no candidate are the children watched.
 *
 * A server may lag behind. READ and lists therefore ask it to catch up with the leader first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "stores/zookeeper/private.h"

enum { LOOKS_MAX = 32, TRIES_MAX = 100 };

static void look_at(struct tn_zk_look *look);

static struct tn_zk_call *make_call(struct tn_zk_look *look, const char *node, tn_zk_hear *hear,
                                    char *ret_path)
{
    tn_zk_path_of(look->session->store, look->name, node, ret_path);
    return tn_zk_call_new(look->session, look, hear);
}

static void finish_look(struct tn_zk_look *look, int rc)
{
    *look->link = look->next;
    if (look->next != NULL)
        look->next->link = look->link;
    if (look->job != NULL || look->watched != NULL)
        look->done(look, rc);
    free(look);
}

static void look_again(struct tn_zk_look *look)
{
    if (++look->tries > TRIES_MAX)
        finish_look(look, ZOPERATIONTIMEOUT); /* The first node keeps changing. */
    else
        look_at(look);
}

static void finish_free(struct tn_zk_look *look)
{
    const struct tn_zk_name *name = tn_zk_name_find(look->session->store, look->name);
    uint64_t token = look->record.token;

    if (name != NULL && name->last_token > token)
        token = name->last_token;
    /* Nobody noted it; but it was not later than the last coming or going. */
    if (token == 0 && look->exists && look->stat.cversion > 0)
        token = (uint64_t)look->stat.pzxid;
    look->record = (struct tn_store_record) { .token = token };
    look->first[0] = '\0';
    finish_look(look, ZOK);
}

static void hear_note(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_look *look = call->asker;
    struct tn_zk_name *name = tn_zk_name_find(look->session->store, look->name);

    if (tn_zk_is_loss(reply->rc)) {
        finish_look(look, reply->rc);
        return;
    }
    look->noted =
        reply->rc == ZOK && tn_zk_note_parse(reply->value, reply->len, &look->record.token);
    if (name != NULL && reply->rc == ZOK)
        name->note = look->noted ? TN_ZK_NOTE_OURS : TN_ZK_NOTE_OTHER;
    finish_free(look);
}

static void hear_vacant(struct tn_zk_look *look)
{
    char path[TN_ZK_PATH_MAX];

    if (look->stat.dataLength == 0 || look->name[0] == '\0')
        finish_free(look);
    else
        tn_zk_call_get(make_call(look, NULL, hear_note, path), path, false);
}

static void hear_first(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_look *look = call->asker;
    struct tn_zk_store *store = look->session->store;

    if (reply->rc == ZNONODE) {
        look_again(look);
        return;
    }
    if (reply->rc == ZOK) {
        tn_zk_record_held(store, look->first, reply, &look->record);
        tn_zk_note_token(store, look->name, look->record.token);
    }
    finish_look(look, reply->rc);
}

/* The name has no znode: wait for one. */
static void hear_exists(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    if (reply->rc == ZNONODE)
        finish_free(call->asker);
    else if (reply->rc == ZOK)
        look_again(call->asker);
    else
        finish_look(call->asker, reply->rc);
}

static void hear_missing(struct tn_zk_look *look)
{
    char path[TN_ZK_PATH_MAX];

    look->exists = false;
    if (look->watched == NULL)
        finish_free(look);
    else
        tn_zk_call_exists(make_call(look, NULL, hear_exists, path), path, true);
}

static void list_children(struct tn_zk_look *look, const struct String_vector *children);

/* @again: it was empty a moment ago, and is watched from now on. */
static void hear_children(struct tn_zk_look *look, const struct tn_zk_reply *reply, bool again);

static void hear_some(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    hear_children(call->asker, reply, false);
}

static void hear_empty(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    hear_children(call->asker, reply, true);
}

static uint32_t count_waiting(const struct String_vector *children)
{
    uint32_t candidates = 0;
    int64_t seq;

    for (int i = 0; i < children->count; i++)
        candidates += tn_zk_node_parse(children->data[i], &seq);
    return candidates > 0 ? candidates - 1 : 0;
}

static void hear_children(struct tn_zk_look *look, const struct tn_zk_reply *reply, bool again)
{
    char path[TN_ZK_PATH_MAX];

    if (reply->rc == ZNONODE && again) {
        look_again(look);
    } else if (reply->rc == ZNONODE) {
        hear_missing(look);
    } else if (reply->rc != ZOK) {
        finish_look(look, reply->rc);
    } else {
        const char *first = tn_zk_first_node(reply->strings);
        look->exists = true;
        look->stat = *reply->stat;
        look->waiting = count_waiting(reply->strings);
        list_children(look, reply->strings);
        if (first != NULL) {
            (void)snprintf(look->first, sizeof look->first, "%s", first);
            tn_zk_call_get(make_call(look, first, hear_first, path), path, look->watched != NULL);
        } else if (look->watched != NULL && !again) {
            tn_zk_call_children(make_call(look, NULL, hear_empty, path), path, true);
        } else {
            hear_vacant(look);
        }
    }
}

static void look_at(struct tn_zk_look *look)
{
    char path[TN_ZK_PATH_MAX];

    look->record = (struct tn_store_record) { 0 };
    tn_zk_call_children(make_call(look, NULL, hear_some, path), path, false);
}

static struct tn_zk_look *make_look(struct tn_zk_session *session, const char *name,
                                    void (*done)(struct tn_zk_look *look, int rc))
{
    struct tn_zk_look **all = &session->store->looks;
    struct tn_zk_look *look = calloc(1, sizeof *look);

    if (look == NULL)
        return NULL;
    look->session = session;
    look->done = done;
    look->next = *all;
    look->link = all;
    if (look->next != NULL)
        look->next->link = &look->next;
    *all = look;
    (void)snprintf(look->name, sizeof look->name, "%.*s", TN_NAME_MAX, name);
    return look;
}

void tn_zk_look_forget(struct tn_zk_job *job)
{
    for (struct tn_zk_look *look = job->store->looks; look != NULL; look = look->next)
        if (look->job == job)
            look->job = NULL;
}

/* --- READ, and what has to read first --------------------------------------------------------- */

static void hear_revoke(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_job *job = call->asker;

    if (reply->rc == ZOK)
        tn_zk_job_answer(job, TN_ANSWER_OK);
    else if (reply->rc == ZNONODE)
        tn_zk_job_answer(job, TN_ANSWER_STALE);
    else if (tn_zk_is_loss(reply->rc))
        tn_zk_job_park(job);
    else
        tn_zk_job_refuse(job, reply->rc, job->name);
}

/* Curator's word for it. A holder of ours takes any change of its node for it. */
static void revoke(struct tn_zk_job *job, struct tn_zk_look *look)
{
    static const char word[] = "__REVOKE__";
    const struct tn_op *asked = &job->req->op;
    char path[TN_ZK_PATH_MAX];

    if (!look->record.held || (asked->token != 0 && asked->token != look->record.token)) {
        tn_zk_job_answer(job, TN_ANSWER_STALE);
        return;
    }
    tn_zk_path_of(look->session->store, look->name, look->first, path);
    job->written = true;
    tn_zk_call_set(tn_zk_call_new(look->session, job, hear_revoke), path, word,
                   (int)sizeof word - 1);
}

static enum tn_answer judge_record(const struct tn_zk_job *job,
                                   const struct tn_store_record *record)
{
    const struct tn_op *asked = &job->req->op;

    if (asked->kind == TN_OP_ACQUIRE)
        return job->otherwise;
    if (asked->kind == TN_OP_RELEASE)
        return tn_line_judge_release(record->held, record->token, asked->token);
    return record->held ? TN_ANSWER_HELD : TN_ANSWER_FREE;
}

static void read_done(struct tn_zk_look *look, int rc)
{
    struct tn_zk_job *job = look->job;

    if (rc == ZOK && job->req->op.kind == TN_OP_REVOKE) {
        job->req->record = look->record;
        revoke(job, look);
    } else if (rc == ZOK) {
        job->req->record = look->record;
        tn_zk_job_answer(job, judge_record(job, &look->record));
    } else if (tn_zk_is_loss(rc)) {
        tn_zk_job_park(job);
    } else {
        tn_zk_job_refuse(job, rc, look->name);
    }
}

/* ACQUIRE and RELEASE read through their own session, others through any that is connected. */
static bool find_reader(struct tn_zk_job *job)
{
    bool own = job->req != NULL &&
               (job->req->op.kind == TN_OP_ACQUIRE || job->req->op.kind == TN_OP_RELEASE);

    if (!own)
        job->session = tn_zk_session_reader(job->store);
    if (job->session != NULL && tn_zk_is_up(job->session))
        return true;
    tn_zk_job_park(job);
    return false;
}

void tn_zk_read(struct tn_zk_job *job)
{
    if (!find_reader(job))
        return;
    struct tn_zk_look *look = make_look(job->session, job->name, read_done);
    if (look == NULL) {
        tn_zk_job_fail(job, TENURE_E_NOMEM, "out of memory");
        return;
    }
    look->job = job;
    tn_zk_call_sync(job->session);
    look_at(look);
}

/* --- Watching --------------------------------------------------------------------------------- */

static void observe_done(struct tn_zk_look *look, int rc)
{
    struct tn_zk_store *store = look->session->store;
    struct tn_zk_name *name = look->watched;
    bool again = (rc != ZOK || name->view == TN_ZK_LOOKING_AGAIN) && name->base.watchers > 0;

    tn_zk_name_set_view(store, name, again ? TN_ZK_DUE : TN_ZK_SEEN);
    if (rc == ZOK) {
        if (again)
            tn_store_kick(&store->base);
        memcpy(name->first, look->first, sizeof name->first);
        tn_store_changed(&store->base, &name->base, &look->record);
    }
    tn_store_name_drop(&store->base, &name->base);
}

static void observe(struct tn_zk_store *store, struct tn_zk_name *name)
{
    struct tn_zk_session *session = tn_zk_session_reader(store);
    struct tn_zk_look *look;

    if (session == NULL || !tn_zk_is_up(session) || session->in_flight >= TN_ZK_IN_FLIGHT)
        return;
    look = make_look(session, name->base.text, observe_done);
    if (look == NULL)
        return;
    tn_zk_name_set_view(store, name, TN_ZK_LOOKING);
    look->watched = name;
    name->base.uses++;
    look_at(look);
}

void tn_zk_observe_due(struct tn_zk_store *store)
{
    struct tn_store_name *at = NULL;

    while (store->due > 0 && (at = tn_store_name_next(&store->base, at)) != NULL) {
        struct tn_zk_name *name = (struct tn_zk_name *)at;
        if (name->view == TN_ZK_DUE && at->watchers > 0)
            observe(store, name);
        else if (name->view == TN_ZK_DUE)
            tn_zk_name_set_view(store, name, TN_ZK_SEEN);
    }
}

void tn_zk_observe_all(struct tn_zk_store *store)
{
    struct tn_store_name *at = NULL;

    while ((at = tn_store_name_next(&store->base, at)) != NULL)
        if (at->watchers > 0)
            tn_zk_name_due(store, (struct tn_zk_name *)at);
}

/* --- Lists ------------------------------------------------------------------------------------ */

static void more_looks(struct tn_zk_job *job);

static bool is_below(const char *name, const char *prefix)
{
    size_t a = strlen(name);
    size_t b = strlen(prefix);

    return memcmp(name, prefix, a < b ? a : b) == 0;
}

/* A znode that may be a name, or lead to one. */
static bool add_todo(struct tn_zk_job *job, const char *name)
{
    if (job->todo_count == job->todo_room) {
        size_t room = job->todo_room > 0 ? 2 * job->todo_room : 32;
        char(*grown)[TN_NAME_MAX + 1] = realloc(job->todo, room * sizeof *grown);
        if (grown == NULL)
            return false;
        job->todo = grown;
        job->todo_room = room;
    }
    (void)snprintf(job->todo[job->todo_count++], sizeof *job->todo, "%s", name);
    return true;
}

/* Once for each look of a list. */
static void list_children(struct tn_zk_look *look, const struct String_vector *children)
{
    struct tn_zk_job *job = look->job;
    char name[TN_NAME_MAX + 1];
    int64_t seq;

    if (job == NULL || job->query == NULL || job->query->exact || look->listed)
        return;
    look->listed = true;
    for (int i = 0; i < children->count && !job->query->no_memory; i++) {
        const char *child = children->data[i];
        int len = snprintf(name, sizeof name, "%s%s%s", look->name,
                           look->name[0] != '\0' ? "/" : "", child);
        if (len < 0 || len > TN_NAME_MAX || tn_zk_node_parse(child, &seq) ||
            tn_name_check(name, (size_t)len, NULL) < 0 || !is_below(name, job->query->prefix) ||
            (job->store->url.chroot[0] == '\0' && strcmp(name, "zookeeper") == 0))
            continue;
        job->query->no_memory = !add_todo(job, name);
    }
}

/* A znode without candidates is a name if it was held by one of us. */
static void add_name(struct tn_zk_job *job, const struct tn_zk_look *look)
{
    const struct tn_zk_name *known = tn_zk_name_find(job->store, look->name);
    const char *prefix = job->query->prefix;
    struct tn_store_lease *lease;

    if (look->name[0] == '\0' || strncmp(look->name, prefix, strlen(prefix)) != 0 ||
        !(look->record.held || look->noted || (known != NULL && known->last_token > 0)))
        return;
    lease = tn_query_add_lease(job->query);
    if (lease == NULL)
        return;
    memcpy(lease->name, look->name, sizeof lease->name);
    lease->record = look->record;
    lease->waiting = look->waiting;
    lease->counted = true;
}

static void list_looked(struct tn_zk_look *look, int rc)
{
    struct tn_zk_job *job = look->job;

    job->looks--;
    if (tn_zk_is_loss(rc)) {
        job->again = true;
    } else if (rc == ZOK) {
        add_name(job, look);
    } else if (rc != ZNOAUTH || look->name[0] == '\0') { /* Not ours to read, nor to list. */
        tn_zk_job_refuse(job, rc, look->name);
        return;
    }
    more_looks(job);
}

static void more_looks(struct tn_zk_job *job)
{
    while (job->looks < LOOKS_MAX && job->todo_count > 0 && !job->again && !job->query->no_memory) {
        struct tn_zk_look *look =
            make_look(job->session, job->todo[--job->todo_count], list_looked);
        if (look == NULL) {
            job->query->no_memory = true;
            break;
        }
        job->looks++;
        look->job = job;
        look_at(look);
    }
    if (job->looks > 0)
        return;
    if (job->again)
        tn_zk_job_park(job);
    else
        tn_zk_job_answer(job, TN_ANSWER_OK);
}

/* --- Who waits -------------------------------------------------------------------------------- */

static void read_waiter(struct tn_zk_look *look);

static void hear_waiter(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_look *look = call->asker;
    struct tn_store_record record;

    if (reply->rc == ZOK && look->job != NULL) {
        tn_zk_record_held(look->session->store, look->job->todo[look->tries], reply, &record);
        (void)tn_query_add_waiter(look->job->query, record.label, record.label_len);
    }
    look->tries++;
    if (reply->rc == ZOK || reply->rc == ZNONODE) /* It has left the line. */
        read_waiter(look);
    else
        finish_look(look, reply->rc);
}

/* One after the other: the line is as it was a moment ago. */
static void read_waiter(struct tn_zk_look *look)
{
    const struct tn_zk_job *job = look->job;
    char path[TN_ZK_PATH_MAX];

    if (job == NULL || look->tries == job->todo_count || job->query->no_memory)
        finish_look(look, ZOK);
    else
        tn_zk_call_get(make_call(look, job->todo[look->tries], hear_waiter, path), path, false);
}

static int compare_nodes(const void *a, const void *b)
{
    int64_t x = 0, y = 0;

    (void)tn_zk_node_parse(a, &x);
    (void)tn_zk_node_parse(b, &y);
    return x < y ? -1 : x > y;
}

/* The candidates, the leader first, who is not read. */
static void hear_line(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_look *look = call->asker;
    struct tn_zk_job *job = look->job;
    int64_t seq;

    if (reply->rc != ZOK || job == NULL) {
        finish_look(look, reply->rc == ZNONODE ? ZOK : reply->rc);
        return;
    }
    for (int i = 0; i < reply->strings->count && !job->query->no_memory; i++)
        if (tn_zk_node_parse(reply->strings->data[i], &seq))
            job->query->no_memory = !add_todo(job, reply->strings->data[i]);
    if (job->todo_count > 0)
        qsort(job->todo, job->todo_count, sizeof *job->todo, compare_nodes);
    if (job->todo_count > TN_LINE_MOST + 1)
        job->todo_count = TN_LINE_MOST + 1;
    look->tries = job->todo_count > 0 ? 1 : 0;
    read_waiter(look);
}

static void line_done(struct tn_zk_look *look, int rc)
{
    if (rc == ZOK)
        tn_zk_job_answer(look->job, TN_ANSWER_OK);
    else if (tn_zk_is_loss(rc))
        tn_zk_job_park(look->job);
    else
        tn_zk_job_refuse(look->job, rc, look->name);
}

static void list_line(struct tn_zk_job *job)
{
    struct tn_zk_look *look = make_look(job->session, job->query->prefix, line_done);
    char path[TN_ZK_PATH_MAX];

    job->query->no_memory = look == NULL;
    if (look == NULL) {
        tn_zk_job_answer(job, TN_ANSWER_OK);
        return;
    }
    look->job = job;
    tn_zk_call_sync(job->session);
    tn_zk_call_children(make_call(look, NULL, hear_line, path), path, false);
}

/* From the znode that the prefix lies in, down. */
void tn_zk_list(struct tn_zk_job *job)
{
    const char *slash = strrchr(job->query->prefix, '/');
    char above[TN_NAME_MAX + 1] = "";

    if (!find_reader(job))
        return;
    job->again = false;
    job->query->count = 0;
    job->todo_count = 0;
    if (job->query->line) {
        list_line(job);
        return;
    }
    if (job->query->exact)
        (void)snprintf(above, sizeof above, "%.*s", TN_NAME_MAX, job->query->prefix);
    else if (slash != NULL)
        memcpy(above, job->query->prefix, (size_t)(slash - job->query->prefix));
    job->query->no_memory = !add_todo(job, above);
    tn_zk_call_sync(job->session);
    more_looks(job);
}
