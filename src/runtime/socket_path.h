/* socket_path.h - where tenured listens, and its clients look for it, when nobody says. */
#ifndef TN_RUNTIME_SOCKET_PATH_H
#define TN_RUNTIME_SOCKET_PATH_H

#include <stdbool.h>
#include <stddef.h>

#define TN_SOCKET_NAME "tenured.sock"

/* The folder of this user's socket: /run/tenured for root, tenured in $XDG_RUNTIME_DIR, else
 * /tmp/tenured-UID. False: it does not fit. */
bool tn_socket_folder(char *buf, size_t size);

#endif
