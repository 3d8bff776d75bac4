/* owner.c - whose the sessions are: users of the ACL, as numbers by which the table counts. A
 * number is given once and stays, also when the ACL is read again.
 *
 * It is not on record which user opened a session: after a restart each is counted from its next
 * renewal or acquire on. */
#include <stdlib.h>
#include <string.h>

#include "daemon/server.h"

/* Users that come when there are no numbers left are counted together, under the last number. */
static uint32_t number_of(struct tn_server *server, const char *user)
{
    struct tn_owners *owners = &server->owners;

    for (uint32_t i = 0; i < owners->count; i++)
        if (strcmp(owners->names[i], user) == 0)
            return i + 1;
    if (owners->count == TN_OWNERS_MAX - 1)
        return TN_OWNERS_MAX;
    void *larger = realloc(owners->names, (owners->count + 1) * sizeof *owners->names);
    if (larger == NULL)
        return TN_OWNERS_MAX;
    owners->names = larger;
    memcpy(owners->names[owners->count], user, strlen(user) + 1);
    return ++owners->count;
}

void tn_owner_name(struct tn_call *call, enum tn_limit limit, struct tn_op *op)
{
    const struct tn_acl *acl = call->server->acl;
    struct tn_conn *conn = call->conn;

    if (acl == NULL || conn->peer_kind == TN_PEER_OWNER)
        return;
    tn_acl_limit(acl, conn->user, limit, &op->owner_max);
    if (conn->owner == 0)
        conn->owner = number_of(call->server, conn->user);
    op->owner = conn->owner;
}

void tn_owner_refuse(struct tn_call *call, const struct tn_op *op, const struct tn_result *result)
{
    if (!result->owners)
        tn_reply_answer(call, result->answer);
    else
        tn_reply_error(call, "FULL user %s has the %lu %s that its limit allows", call->conn->user,
                       (unsigned long)op->owner_max,
                       op->kind == TN_OP_OPEN ? "sessions" : "leases and places in line");
}
