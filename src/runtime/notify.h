/* notify.h - telling systemd about a service: a datagram to $NOTIFY_SOCKET, as sd_notify(3)
 * describes it. Without that variable nothing happens. Threads: one. */
#ifndef TN_RUNTIME_NOTIFY_H
#define TN_RUNTIME_NOTIFY_H

#include <stdbool.h>

/* Send @state: lines such as "READY=1". Waits a tenth of a second at most, however little the other
 * end reads. False: it could not be sent now. */
bool tn_notify(const char *state);

/* Remember the socket and remove its variable, so that no child speaks for this process. */
void tn_notify_keep(void);

#endif
