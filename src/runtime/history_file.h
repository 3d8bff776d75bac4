/* history_file.h - the file of a history: read as a whole, appended to, or written anew. */
#ifndef TN_RUNTIME_HISTORY_FILE_H
#define TN_RUNTIME_HISTORY_FILE_H

#include "runtime/history.h"

/* Takes what the file @fd has; closes @fd, which may be negative. False: there was nothing to take.
 * @ret_touched: when it was last written, in milliseconds since 1970; 0: never. */
bool tn_history_file_read(int fd, struct tn_history *history, int64_t *ret_touched);

/* Returns 0 or an errno; closes @fd. */
int tn_history_file_write(int fd, const char *bytes, size_t len);

#endif
