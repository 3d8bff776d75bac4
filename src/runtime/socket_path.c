/* socket_path.c - the default place of tenured's socket. */
#include "runtime/socket_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool tn_socket_folder(char *buf, size_t size)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    int len;

    if (geteuid() == 0)
        len = snprintf(buf, size, "/run/tenured");
    else if (runtime != NULL && runtime[0] == '/')
        len = snprintf(buf, size, "%s/tenured", runtime);
    else
        len = snprintf(buf, size, "/tmp/tenured-%lu", (unsigned long)geteuid());
    return len >= 0 && (size_t)len < size;
}
