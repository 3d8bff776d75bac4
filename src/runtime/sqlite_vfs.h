/* sqlite_vfs.h - SQLite's access to files for all that Tenure opens itself: stores and fences.
 *
 * It refuses a database that has more than one name, and a journal, WAL or shared-memory file that
 * somebody may have planted; sole_file.h says why. And it saves a flush per transaction.
 * Threads: any. */
#ifndef TN_RUNTIME_SQLITE_VFS_H
#define TN_RUNTIME_SQLITE_VFS_H

#include "base/text.h"

struct sqlite3;

/* The name for sqlite3_open_v2; NULL: it cannot be had, and nothing may be opened. */
const char *tn_sqlite_vfs(void);

/* What this thread was refused last, as one line with the path; false: nothing since the last call.
 * SQLite then says SQLITE_PERM. */
bool tn_sqlite_vfs_refusal(struct tn_text *reterr);

/* Once @db was read from, before it is written: the index of a WAL is opened by SQLite without our
 * seeing it, and may have been put there in that instant. SQLITE_OK or SQLITE_PERM. */
int tn_sqlite_vfs_recheck(struct sqlite3 *db);

#endif
