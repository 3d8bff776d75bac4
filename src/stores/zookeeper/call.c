/* call.c - one asynchronous call to the client library, and its answer.
 *
 * The library answers in the order of sending, through one of several functions; all of them end in
 * deliver(). A call that the library does not take is answered in the next turn. When a handle is
 * closed, the library answers what is left with ZCLOSING. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "runtime/clock.h"
#include "stores/zookeeper/private.h"

struct tn_zk_call *tn_zk_call_new(struct tn_zk_session *session, void *asker, tn_zk_hear *hear)
{
    struct tn_zk_call *call = calloc(1, sizeof *call);

    /* Aborting ends the process, and that is a safe way to lose a lease; an election that has
     * silently lost track of its own node is none. */
    TN_ASSERT(call != NULL);
    call->session = session;
    call->asker = asker;
    call->hear = hear;
    call->sent_at = tn_zk_now(session->store);
    call->link = session->calls_end;
    *call->link = call;
    session->calls_end = &call->next;
    session->in_flight++;
    session->dirty = true;
    return call;
}

static void forget_asker(struct tn_zk_call *calls, const void *asker)
{
    for (struct tn_zk_call *call = calls; call != NULL; call = call->next)
        if (call->asker == asker)
            call->asker = NULL;
}

void tn_zk_call_forget(struct tn_zk_store *store, const void *asker)
{
    struct tn_zk_session *session = NULL;

    while ((session = tn_zk_session_next(store, session)) != NULL)
        forget_asker(session->calls, asker);
    forget_asker(store->broken, asker);
}

static void unlink_call(struct tn_zk_call *call)
{
    *call->link = call->next;
    if (call->next != NULL)
        call->next->link = call->link;
    else
        call->session->calls_end = call->link;
    call->next = NULL;
    call->session->in_flight--;
}

static void hear_call(struct tn_zk_call *call, const struct tn_zk_reply *reply)
{
    if (call->asker != NULL)
        call->hear(call, reply);
    free(call);
}

static void deliver(const void *data, const struct tn_zk_reply *reply)
{
    /* The library's pointer to our own object is const only on its way through. */
    struct tn_zk_call *call = *(struct tn_zk_call *const *)(const void *)&data;

    unlink_call(call);
    tn_store_kick(&call->session->store->base);
    call->session->dirty = true;
    call->session->heard_at = tn_zk_now(call->session->store);
    hear_call(call, reply);
}

static void hear_void(int rc, const void *data)
{
    struct tn_zk_reply reply = { .rc = rc };
    deliver(data, &reply);
}

static void hear_string(int rc, const char *value, const struct Stat *stat, const void *data)
{
    struct tn_zk_reply reply = { .rc = rc, .value = value, .stat = stat };
    deliver(data, &reply);
}

static void hear_plain_string(int rc, const char *value, const void *data)
{
    hear_string(rc, value, NULL, data);
}

static void hear_stat(int rc, const struct Stat *stat, const void *data)
{
    struct tn_zk_reply reply = { .rc = rc, .stat = stat };
    deliver(data, &reply);
}

static void hear_data(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
    struct tn_zk_reply reply = { .rc = rc, .value = value, .len = len, .stat = stat };
    deliver(data, &reply);
}

static void hear_strings(int rc, const struct String_vector *strings, const struct Stat *stat,
                         const void *data)
{
    struct tn_zk_reply reply = { .rc = rc, .strings = strings, .stat = stat };
    deliver(data, &reply);
}

/* The library did not take it. */
static void sent(struct tn_zk_call *call, int rc)
{
    struct tn_zk_store *store = call->session->store;

    tn_store_kick(&store->base);
    if (rc == ZOK)
        return;
    unlink_call(call);
    call->rc = rc;
    call->next = store->broken;
    store->broken = call;
}

void tn_zk_call_deliver_broken(struct tn_zk_store *store)
{
    while (store->broken != NULL) {
        struct tn_zk_call *call = store->broken;
        struct tn_zk_reply reply = { .rc = call->rc };
        store->broken = call->next;
        hear_call(call, &reply);
    }
}

static const struct ACL_vector *acl_of(const struct tn_zk_call *call)
{
    return call->session->store->url.auth[0] != '\0' ? &ZOO_CREATOR_ALL_ACL : &ZOO_OPEN_ACL_UNSAFE;
}

void tn_zk_call_create(struct tn_zk_call *call, const char *path, const char *value, int len,
                       int mode)
{
    zhandle_t *zh = call->session->zh;

    sent(call, zoo_acreate2(zh, path, value, len, acl_of(call), mode, hear_string, call));
}

/* With a @parent: in the same step its data remembers the token. */
void tn_zk_call_delete(struct tn_zk_call *call, const char *path, const char *parent,
                       uint64_t token)
{
    zhandle_t *zh = call->session->zh;
    zoo_op_t ops[2];

    if (parent == NULL) {
        sent(call, zoo_adelete(zh, path, -1, hear_void, call));
        return;
    }
    int len = snprintf(call->note, sizeof call->note, "token=%llu", (unsigned long long)token);
    zoo_delete_op_init(&ops[0], path, -1);
    zoo_set_op_init(&ops[1], parent, call->note, len, -1, &call->stat);
    sent(call, zoo_amulti(zh, 2, ops, call->results, hear_void, call));
}

void tn_zk_call_get(struct tn_zk_call *call, const char *path, bool watch)
{
    zhandle_t *zh = call->session->zh;

    sent(call,
         zoo_awget(zh, path, watch ? tn_zk_session_event : NULL, call->session, hear_data, call));
}

void tn_zk_call_exists(struct tn_zk_call *call, const char *path, bool watch)
{
    zhandle_t *zh = call->session->zh;

    sent(call, zoo_awexists(zh, path, watch ? tn_zk_session_event : NULL, call->session, hear_stat,
                            call));
}

void tn_zk_call_children(struct tn_zk_call *call, const char *path, bool watch)
{
    zhandle_t *zh = call->session->zh;

    sent(call, zoo_awget_children2(zh, path, watch ? tn_zk_session_event : NULL, call->session,
                                   hear_strings, call));
}

void tn_zk_call_set(struct tn_zk_call *call, const char *path, const char *value, int len)
{
    sent(call, zoo_aset(call->session->zh, path, value, len, -1, hear_stat, call));
}

void tn_zk_call_sync(struct tn_zk_session *session)
{
    struct tn_zk_call *call = tn_zk_call_new(session, NULL, NULL);
    char path[TN_ZK_PATH_MAX];

    tn_zk_path_of(session->store, "", NULL, path);
    sent(call, zoo_async(session->zh, path, hear_plain_string, call));
}

void tn_zk_call_prove(struct tn_zk_call *call, const char *path)
{
    zoo_op_t op;

    zoo_check_op_init(&op, path, -1);
    sent(call, zoo_amulti(call->session->zh, 1, &op, call->results, hear_void, call));
}
