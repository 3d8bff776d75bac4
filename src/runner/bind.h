/* bind.h - supervisor and guardian tell the store's daemon that both can act for the session.
 *
 * The daemon ends the session at once when all of its processes are gone. So neither may be bound
 * without the other: were it the supervisor alone, its death would pass the lease on while the
 * guardian still stops the tree; were it the guardian alone, the same the other way round. A daemon
 * that is restarted forgets both at once.
 * May be called in a child forked from a process with threads. */
#ifndef TN_RUNNER_BIND_H
#define TN_RUNNER_BIND_H

#include <stdbool.h>

#include "runtime/binding.h"
#include "tenure/time.h"

/* A connection made by this process: -1 with errno. Above the standard streams, close-on-exec. */
int tn_bind_connect(const char *path);

/* Bind the process that made @other, and this one; both in the same life of the daemon. False: it
 * did not answer until @until, or refuses. Closes @other. */
bool tn_bind_both(int other, const struct tn_store_binding *binding, tenure_ns until);

#endif
