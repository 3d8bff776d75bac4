/* rights.h - what a change of the ACL ends (rights.c), and limits per user (owner.c).
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_RIGHTS_H
#define TN_DAEMON_RIGHTS_H

#include <stdint.h>

#include "core/lease_table.h"
#include "daemon/acl.h"

struct tn_server;
struct tn_call;

#define TN_OWNERS_MAX 16384

/* Users by number, from 1. */
struct tn_owners {
    char (*names)[TN_USER_MAX + 1];
    uint32_t count;
};

/* Put into @op who asks, and what the ACL lets that user have; nothing if it has no such limit. */
void tn_owner_name(struct tn_call *call, enum tn_limit limit, struct tn_op *op);
/* Answer with an error, as tn_reply_answer does; a limit of the user's own is told as that. */
void tn_owner_refuse(struct tn_call *call, const struct tn_op *op, const struct tn_result *result);

/* The ACL is another than @before: end what has no right any more. */
void tn_rights_changed(struct tn_server *server, const struct tn_acl *before);
/* Whose the session is is known from now on. */
void tn_rights_adopted(struct tn_server *server, const struct tn_secret *session);

#endif
