/* recorded.h - the history that a console writes of a store which keeps none of its own. */
#ifndef TN_CLI_RECORDED_H
#define TN_CLI_RECORDED_H

#include <limits.h>
#include <stdbool.h>

#include "runtime/history.h"

/* Terms of one name, and of all. */
enum { TN_RECORDED_PER_NAME = 100, TN_RECORDED_MOST = 20000 };

/* Where it is: tenure/console/HASH.history in the user's state directory, by the hash of the URL.
 * With @create the folders are made. False: there is no home. */
bool tn_recorded_path(const char *url, bool create, char ret_path[PATH_MAX]);

/* Read it into @history. False: there is none. *@ret_touched: when it was last written. */
bool tn_recorded_read(const char *path, struct tn_history *history, int64_t *ret_touched);

/* Append what is pending, or write all of it anew. Returns 0 or an errno. */
int tn_recorded_write(const char *path, struct tn_history *history);

#endif
