/* strangers.h - children of this process that belong to no command: it had them before an exec, or
 * they are orphans of such children. They are left alone.
 *
 * This process reaps none of them, so their numbers stay theirs. Threads: one at a time. */
#ifndef TN_RUNNER_STRANGERS_H
#define TN_RUNNER_STRANGERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/tree.h"

enum { TN_STRANGERS_MAX = 256 };

bool tn_strangers_any(void);
/* Add those of @children that @is_guardian does not know. @complete: these are all there are. */
void tn_strangers_add(const pid_t *children, size_t count, bool complete,
                      bool (*is_guardian)(pid_t pid));
/* Put them behind the spared->count numbers in @pids, which has room for TN_STRANGERS_MAX more, and
 * spare all of @pids. Only strangers leave strangers behind: unless there are certainly none, every
 * child older than @born is spared, too. */
void tn_strangers_spare(struct tn_tree_spared *spared, pid_t *pids, uint64_t born);

#endif
