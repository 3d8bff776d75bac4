/* sole_file.h - is this file what its name says: one file, one name, and nobody else's.
 *
 * A database and its journal find each other by name alone. A file with a second name (a hard link,
 * a mount of the single file) has a second journal, and a process that opens the one name does not
 * see what a crash left beside the other. A journal that another user put there is played back into
 * the database all the same. So both are looked at before they are used. Linux only.
 * Threads: any. Never opens the file for reading: closing a descriptor would drop POSIX locks. */
#ifndef TN_RUNTIME_SOLE_FILE_H
#define TN_RUNTIME_SOLE_FILE_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "tenure/error.h"

/* Look at the regular file @path. Returns 0 when it has exactly one name. Errors, with a reason in
 * *@ret_why that goes behind the path:
 * TENURE_E_NOT_HELD    there is no such file;
 * TENURE_E_DENIED      a symbolic link, a hard link or a mount point; or no permission to look;
 * TENURE_E_DAMAGED     not a regular file;
 * TENURE_E_UNSUPPORTED the kernel does not tell whether the file is a mount point;
 * TENURE_E_UNAVAILABLE, TENURE_E_NOMEM.
 * @ret_st: mode, owner, group, size, device and inode; set whenever there is a file. */
TENURE_MUST_USE int tn_sole_file(const char *path, struct stat *ret_st, const char **ret_why);

/* Whether a file's owner @uid is one user. In a user namespace every user without a mapping looks
 * like the overflow user, nobody; where all are mapped, nobody is a user like others. */
bool tn_uid_is_certain(uid_t uid);

/* Why the file @path with the status @beside must not be used together with the file @main that it
 * lies beside; NULL: it may. Only a user who may write @main anyway may have made it. */
const char *tn_beside_reason(const char *path, const struct stat *main, const struct stat *beside);

#endif
