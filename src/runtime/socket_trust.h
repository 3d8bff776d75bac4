/* socket_trust.h - whether a client may believe the server of a Unix socket.
 *
 * Anybody who may write to a directory on the way can put a server, or a link to one, where the
 * client looks. So the client asks, once it is connected and before it sends anything:
 *   - the kernel, as whom the server listens (SO_PEERCRED);
 *   - the file system, who owns the socket, every directory on the way and every link followed,
 *     and whether others may write there. A sticky directory such as /tmp may be writable.
 * Root and the client's own user may own any of these. Linux only. Threads: any. */
#ifndef TN_RUNTIME_SOCKET_TRUST_H
#define TN_RUNTIME_SOCKET_TRUST_H

#include "base/text.h"
#include "tenure/error.h"

enum tn_socket_trust {
    /* The server runs as the client's user or as root; or as a user whom root has let put its
     * socket into a directory of root's: tenured. Nobody whom root did not let can forge it. */
    TN_TRUST_OWN,
    /* Or as a user of its own, as a Redis does, to whom the socket belongs, in a directory where
     * only that user, root and the client's user can make one. */
    TN_TRUST_SERVICE,
};

/* Of the connection @fd to the socket at @path. Returns 0, or TENURE_E_DENIED and why in
 * @reterr. */
TENURE_MUST_USE int tn_socket_trust(int fd, const char *path, enum tn_socket_trust trust,
                                    struct tn_text *reterr);

#endif
