/* look.c - who leads: for READ, for REVOKE, for those who watch, and for a list.
 *
 * A look reads the children of a name and then the first candidate's node. If that is gone by then,
 * it looks again. Who watches waits for the end of the first node, not for every coming and going;
 * only while there is no candidate are the children watched.
 *
 * A server may lag behind. READ and lists therefore ask it to catch up with the leader first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "stores/zookeeper/private.h"

enum { LOOKS_MAX = 32, TRIES_MAX = 100 };

static void look_at(struct tn_zk_look *look);

static struct tn_zk_call *call_for(struct tn_zk_look *look,
                                   void (*hear)(struct tn_zk_call *call,
                                                const struct tn_zk_reply *reply))
{
    struct tn_zk_call *call = tn_zk_call_new(look->session, hear);

    call->look = look;
    return call;
}

static void again(struct tn_zk_look *look)
{
    if (++look->tries > TRIES_MAX)
        look->done(look, ZOPERATIONTIMEOUT); /* Whoever leads never does so for long. */
    else
        look_at(look);
}

static void finish_free(struct tn_zk_look *look)
{
    struct tn_zk_store *store = look->session->store;
    struct tn_zk_name *name = tn_zk_name_find(store, look->name);
    uint64_t token = look->record.token;

    if (name != NULL && name->last_token > token)
        token = name->last_token;
    /* Nobody noted it; but it was not later than the last coming or going. */
    if (token == 0 && look->exists && look->stat.cversion > 0)
        token = (uint64_t)look->stat.pzxid;
    look->record = (struct tn_store_record) { .token = token };
    look->first[0] = '\0';
    look->done(look, ZOK);
}

static void hear_note(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_look *look = call->look;
    struct tn_zk_name *name = tn_zk_name_find(look->session->store, look->name);
    uint64_t token = 0;

    if (tn_zk_is_loss(reply->rc)) {
        look->done(look, reply->rc);
        return;
    }
    if (reply->rc == ZOK && tn_zk_note_parse(reply->value, reply->len, &token)) {
        look->noted = true;
        look->record.token = token;
        if (name != NULL)
            name->foreign = false;
    }
    if (name != NULL)
        name->noted = look->noted;
    finish_free(look);
}

static void hear_vacant(struct tn_zk_look *look)
{
    char path[TN_ZK_PATH_MAX];

    if (look->stat.dataLength == 0 || look->name[0] == '\0') {
        finish_free(look);
        return;
    }
    tn_zk_path_of(look->session->store, look->name, NULL, path);
    tn_zk_call_get(call_for(look, hear_note), path, false);
}

static void hear_first(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_look *look = call->look;
    struct tn_zk_store *store = look->session->store;

    if (reply->rc == ZNONODE) {
        again(look);
        return;
    }
    if (reply->rc == ZOK) {
        tn_zk_record_held(store, look->first, reply, &look->record);
        tn_zk_note_token(store, look->name, look->record.token);
    }
    look->done(look, reply->rc);
}

static void get_first(struct tn_zk_look *look, const char *first)
{
    char path[TN_ZK_PATH_MAX];

    (void)snprintf(look->first, sizeof look->first, "%s", first);
    tn_zk_path_of(look->session->store, look->name, first, path);
    tn_zk_call_get(call_for(look, hear_first), path, look->watch);
}

/* The name has no znode: wait for one. */
static void hear_exists(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    if (reply->rc == ZNONODE)
        finish_free(call->look);
    else if (reply->rc == ZOK)
        again(call->look);
    else
        call->look->done(call->look, reply->rc);
}

static void hear_missing(struct tn_zk_look *look)
{
    char path[TN_ZK_PATH_MAX];

    look->exists = false;
    if (!look->watch) {
        finish_free(look);
        return;
    }
    tn_zk_path_of(look->session->store, look->name, NULL, path);
    tn_zk_call_exists(call_for(look, hear_exists), path, true);
}

/* Watched from now on: it was empty a moment ago. */
static void hear_empty(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_look *look = call->look;
    size_t count;

    if (reply->rc == ZNONODE) {
        again(look);
        return;
    }
    if (reply->rc != ZOK) {
        look->done(look, reply->rc);
        return;
    }
    look->stat = *reply->stat;
    const char *first = tn_zk_first_node(reply->strings, &count);
    if (first != NULL)
        get_first(look, first);
    else
        hear_vacant(look);
}

static void hear_children(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    struct tn_zk_look *look = call->look;
    char path[TN_ZK_PATH_MAX];
    size_t count;

    if (reply->rc == ZNONODE) {
        hear_missing(look);
        return;
    }
    if (reply->rc != ZOK) {
        look->done(look, reply->rc);
        return;
    }
    look->exists = true;
    look->stat = *reply->stat;
    if (look->children != NULL)
        look->children(look, reply->strings);
    const char *first = tn_zk_first_node(reply->strings, &count);
    if (first != NULL) {
        get_first(look, first);
    } else if (look->watch) {
        tn_zk_path_of(look->session->store, look->name, NULL, path);
        tn_zk_call_children(call_for(look, hear_empty), path, true);
    } else {
        hear_vacant(look);
    }
}

static void look_at(struct tn_zk_look *look)
{
    char path[TN_ZK_PATH_MAX];

    look->record = (struct tn_store_record) { 0 };
    tn_zk_path_of(look->session->store, look->name, NULL, path);
    tn_zk_call_children(call_for(look, hear_children), path, false);
}

static void hear_sync(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    (void)call; /* What follows on the connection is answered after it. */
    (void)reply;
}

static void catch_up(struct tn_zk_session *session)
{
    char path[TN_ZK_PATH_MAX];

    tn_zk_path_of(session->store, "", NULL, path);
    tn_zk_call_sync(tn_zk_call_new(session, hear_sync), path);
}

void tn_zk_look_start(struct tn_zk_look *look)
{
    look_at(look);
}

static struct tn_zk_look *make_look(struct tn_zk_session *session, const char *name)
{
    struct tn_zk_look *look = calloc(1, sizeof *look);

    if (look != NULL) {
        look->session = session;
        (void)snprintf(look->name, sizeof look->name, "%s", name);
    }
    return look;
}

/* --- READ, and what has to read first --------------------------------------------------------- */

static void hear_revoke(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    if (reply->rc == ZOK)
        tn_zk_op_answer(call->op, TN_ANSWER_OK);
    else if (reply->rc == ZNONODE)
        tn_zk_op_answer(call->op, TN_ANSWER_STALE);
    else if (tn_zk_is_loss(reply->rc))
        tn_zk_op_park(call->op);
    else
        tn_zk_op_refuse(call->op, reply->rc, call->op->name);
}

/* Curator's word for it. A holder of ours takes any change of its node for it. */
static void revoke(struct tn_zk_op *op, struct tn_zk_look *look)
{
    static const char word[] = "__REVOKE__";
    const struct tn_op *asked = &op->req->op;
    char path[TN_ZK_PATH_MAX];

    if (!look->record.held || (asked->token != 0 && asked->token != look->record.token)) {
        tn_zk_op_answer(op, TN_ANSWER_STALE);
        return;
    }
    tn_zk_path_of(look->session->store, look->name, look->first, path);
    struct tn_zk_call *call = tn_zk_call_new(look->session, hear_revoke);
    tn_zk_call_for_op(call, op);
    op->written = true;
    tn_zk_call_set(call, path, word, (int)sizeof word - 1);
}

static enum tn_answer judge(const struct tn_zk_op *op, const struct tn_store_record *record)
{
    const struct tn_op *asked = &op->req->op;

    if (asked->kind == TN_OP_ACQUIRE)
        return op->otherwise;
    if (asked->kind == TN_OP_RELEASE)
        return record->held && record->token == asked->token ? TN_ANSWER_DENIED : TN_ANSWER_STALE;
    return record->held ? TN_ANSWER_HELD : TN_ANSWER_FREE;
}

static void read_done(struct tn_zk_look *look, int rc)
{
    struct tn_zk_op *op = look->op;

    if (!op->done && rc == ZOK) {
        op->req->record = look->record;
        if (op->req->op.kind == TN_OP_REVOKE)
            revoke(op, look);
        else
            tn_zk_op_answer(op, judge(op, &look->record));
    } else if (!op->done && tn_zk_is_loss(rc)) {
        tn_zk_op_park(op);
    } else if (!op->done) {
        tn_zk_op_refuse(op, rc, look->name);
    }
    tn_zk_op_unpin(op);
    free(look);
}

void tn_zk_read(struct tn_zk_op *op)
{
    if (op->reader)
        op->session = tn_zk_session_reader(op->store);
    if (op->session == NULL || op->session->over || !op->session->connected) {
        tn_zk_op_park(op);
        return;
    }
    struct tn_zk_look *look = make_look(op->session, op->name);
    if (look == NULL) {
        tn_zk_op_fail(op, TENURE_E_NOMEM, "out of memory");
        return;
    }
    look->op = op;
    op->pins++;
    look->done = read_done;
    catch_up(op->session);
    tn_zk_look_start(look);
}

/* --- Watching --------------------------------------------------------------------------------- */

static bool is_same(const struct tn_store_record *a, const struct tn_store_record *b)
{
    return a->held == b->held && a->token == b->token && a->label_len == b->label_len &&
           memcmp(a->label, b->label, a->label_len) == 0 && tn_secret_equal(&a->term, &b->term);
}

static void observe_done(struct tn_zk_look *look, int rc)
{
    struct tn_zk_store *store = look->session->store;
    const struct tn_store_open *how = &store->base.how;
    struct tn_zk_name *name = tn_zk_name_find(store, look->name);

    TN_ASSERT(name != NULL);
    name->looking = false;
    if (rc != ZOK || name->again) {
        tn_zk_name_due(store, name, true);
        name->again = false;
        if (rc == ZOK)
            tn_zk_kick(store);
    }
    if (rc == ZOK && name->watches > 0 && !store->base.closing) {
        (void)snprintf(name->first, sizeof name->first, "%s", look->first);
        if (!name->told || !is_same(&name->record, &look->record)) {
            name->told = true;
            name->record = look->record;
            how->host->changed(how->arg, name->name, &look->record);
        }
    }
    free(look);
}

void tn_zk_observe(struct tn_zk_store *store, struct tn_zk_name *name)
{
    struct tn_zk_session *session = tn_zk_session_reader(store);

    tn_zk_name_due(store, name, !name->looking);
    if (name->looking) {
        name->again = true;
        return;
    }
    if (session == NULL || !session->connected || session->in_flight >= TN_ZK_IN_FLIGHT)
        return;
    struct tn_zk_look *look = make_look(session, name->name);
    if (look == NULL)
        return;
    tn_zk_name_due(store, name, false);
    name->looking = true;
    look->watch = true;
    look->done = observe_done;
    tn_zk_look_start(look);
}

void tn_zk_observe_all(struct tn_zk_store *store, bool all)
{
    if (store->due == 0 && !all)
        return;
    for (unsigned i = 0; i < TN_ZK_BUCKETS && !store->base.closing; i++) {
        for (struct tn_zk_name *name = store->names[i]; name != NULL; name = name->next) {
            if (name->watches > 0 && (name->due || all))
                tn_zk_observe(store, name);
        }
    }
}

/* --- Lists ------------------------------------------------------------------------------------ */

static void more_looks(struct tn_zk_op *op);

static bool is_below(const char *name, const char *prefix)
{
    size_t a = strlen(name);
    size_t b = strlen(prefix);

    return memcmp(name, prefix, a < b ? a : b) == 0;
}

/* A znode that may be a name, or lead to one. */
static bool add_todo(struct tn_zk_op *op, const char *above, const char *child)
{
    char name[TN_NAME_MAX + 1];
    int64_t seq;
    int len = snprintf(name, sizeof name, "%s%s%s", above, above[0] != '\0' ? "/" : "", child);

    if (len < 0 || len > TN_NAME_MAX || tn_zk_node_parse(child, &seq) ||
        tn_name_check(name, (size_t)len, NULL) < 0 || !is_below(name, op->prefix) ||
        (op->store->url.chroot[0] == '\0' && strcmp(name, "zookeeper") == 0))
        return true;
    if (op->todo_count == op->todo_room) {
        size_t room = op->todo_room > 0 ? 2 * op->todo_room : 32;
        char(*grown)[TN_NAME_MAX + 1] = realloc(op->todo, room * sizeof *grown);
        if (grown == NULL)
            return false;
        op->todo = grown;
        op->todo_room = room;
    }
    memcpy(op->todo[op->todo_count++], name, (size_t)len + 1);
    return true;
}

static void list_children(struct tn_zk_look *look, const struct String_vector *children)
{
    struct tn_zk_op *op = look->op;

    if (look->listed)
        return;
    look->listed = true;
    for (int i = 0; i < children->count && !op->done; i++) {
        if (!add_todo(op, look->name, children->data[i]))
            tn_zk_op_fail(op, TENURE_E_NOMEM, "out of memory");
    }
}

static bool add_lease(struct tn_zk_op *op, const struct tn_zk_look *look)
{
    if (op->count == op->room) {
        size_t room = op->room > 0 ? 2 * op->room : 16;
        struct tn_store_lease *grown = realloc(op->leases, room * sizeof *grown);
        if (grown == NULL)
            return false;
        op->leases = grown;
        op->room = room;
    }
    struct tn_store_lease *lease = &op->leases[op->count++];
    memset(lease, 0, sizeof *lease);
    memcpy(lease->name, look->name, sizeof lease->name);
    lease->record = look->record;
    return true;
}

/* A znode without candidates is a name if it was held by one of us. */
static bool is_name(struct tn_zk_op *op, const struct tn_zk_look *look)
{
    const struct tn_zk_name *known = tn_zk_name_find(op->store, look->name);

    if (look->name[0] == '\0' || strncmp(look->name, op->prefix, strlen(op->prefix)) != 0)
        return false;
    return look->record.held || look->noted || (known != NULL && known->last_token > 0);
}

static void list_looked(struct tn_zk_look *look, int rc)
{
    struct tn_zk_op *op = look->op;

    op->looks--;
    if (op->done) {
        /* Too late, or failed before. */
    } else if (tn_zk_is_loss(rc)) {
        op->again = true;
    } else if (rc == ZNOAUTH && look->name[0] != '\0') {
        /* Not ours to read, so not ours to list. */
    } else if (rc != ZOK) {
        tn_zk_op_refuse(op, rc, look->name);
    } else if (is_name(op, look) && !add_lease(op, look)) {
        tn_zk_op_fail(op, TENURE_E_NOMEM, "out of memory");
    }
    if (!op->done)
        more_looks(op);
    tn_zk_op_unpin(op);
    free(look);
}

static void more_looks(struct tn_zk_op *op)
{
    while (op->looks < LOOKS_MAX && op->todo_count > 0 && !op->again) {
        struct tn_zk_look *look = make_look(op->session, op->todo[op->todo_count - 1]);
        if (look == NULL) {
            tn_zk_op_fail(op, TENURE_E_NOMEM, "out of memory");
            return;
        }
        op->todo_count--;
        op->looks++;
        op->pins++;
        look->op = op;
        look->children = list_children;
        look->done = list_looked;
        tn_zk_look_start(look);
    }
    if (op->looks > 0)
        return;
    if (op->again)
        tn_zk_op_park(op);
    else
        tn_zk_op_answer(op, TN_ANSWER_OK);
}

/* From the znode that the prefix lies in, down. */
void tn_zk_list(struct tn_zk_op *op)
{
    const char *slash = strrchr(op->prefix, '/');
    char above[TN_NAME_MAX + 1] = "";

    op->session = tn_zk_session_reader(op->store);
    if (op->session == NULL || !op->session->connected || op->looks > 0) {
        tn_zk_op_park(op);
        return;
    }
    if (slash != NULL)
        memcpy(above, op->prefix, (size_t)(slash - op->prefix));
    op->again = false;
    op->count = 0;
    op->todo_count = 0;
    if (op->todo == NULL && (op->todo = calloc(1, sizeof *op->todo)) == NULL) {
        tn_zk_op_fail(op, TENURE_E_NOMEM, "out of memory");
        return;
    }
    if (op->todo_room == 0)
        op->todo_room = 1;
    memcpy(op->todo[op->todo_count++], above, sizeof above);
    catch_up(op->session);
    more_looks(op);
}
