/* acl.h - who may do what with which names: read from a file, deny by default.
 *
 *     # comment
 *     user  NAME  sha256:SALT:HASH        as `tenured --new-secret NAME` prints it
 *     allow NAME  observe|acquire|admin  PATTERN
 *     limit NAME|*  sessions|leases|fences  N
 *
 * A pattern is a name, "prefix" + "/" + star for all below it (whole segments), or a star. A right
 * includes those before it. Secrets are random, 128 bits, so that one round of a salted hash is
 * enough to keep them; they are compared in constant time. A limit of a star is that of each user
 * without one of its own.
 * Threads: one at a time. */
#ifndef TN_DAEMON_ACL_H
#define TN_DAEMON_ACL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "daemon/fences.h" /* TN_USER_MAX */
#include "tenure/error.h"

enum tn_right { TN_OBSERVE, TN_ACQUIRE, TN_ADMIN };
enum tn_limit { TN_LIMIT_SESSIONS, TN_LIMIT_LEASES, TN_LIMIT_FENCES };

struct tn_acl;

/* Read @path, which must belong to this user or root and be writable by nobody else. Returns 0, or
 * an error with a line in @reterr: "PATH:LINE: ...". */
TENURE_MUST_USE int tn_acl_load(const char *path, struct tn_acl **ret_acl, struct tn_text *reterr);
void tn_acl_free(struct tn_acl *acl);

/* Whether @secret is that of @user. Takes as long for a user that there is not. */
bool tn_acl_knows(const struct tn_acl *acl, const char *user, const char *secret, size_t len);

/* A name below "~tenure/" is about something else. Turns the right to it into the right that is
 * needed:
 *   a mark of `run --every`   the same right to the name that it is about
 *   a note about a name       to leave or end it: admin on that name; to read it: observe
 *   a note about a node       to leave or end it: admin on everything; to read it: observe on
 *                             anything (*@name is NULL then)
 *   all else                  admin or observe on everything */
void tn_acl_resolve(enum tn_right *right, const char **name, size_t *len);

/* Whether @user, which may be "", has the right to @name, or to all that a pattern covers. */
bool tn_acl_allows(const struct tn_acl *acl, const char *user, enum tn_right right,
                   const char *name, size_t len);
/* To anything at all. */
bool tn_acl_allows_some(const struct tn_acl *acl, const char *user, enum tn_right right);

/* The rule of @user with this number, from 0. False: there are no more. */
bool tn_acl_rule(const struct tn_acl *acl, const char *user, size_t number,
                 enum tn_right *ret_right, const char **ret_pattern);

/* Whether @user has the same secret in both, and is there. */
bool tn_acl_keeps(const struct tn_acl *before, const struct tn_acl *now, const char *user);

/* How many of these @user may have at once, 0: as many as there are. */
void tn_acl_limit(const struct tn_acl *acl, const char *user, enum tn_limit what,
                  uint32_t *ret_most);

/* A new secret for @user: what the user keeps, and the line for the file. Returns 0,
 * TENURE_E_INVALID (no name for a user) or TENURE_E_UNSUPPORTED. */
TENURE_MUST_USE int tn_acl_new_secret(const char *user, struct tn_text *ret_secret,
                                      struct tn_text *ret_line);

#endif
