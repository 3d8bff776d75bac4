/* loop.c - whether there are descriptors for a loop and a store on it; loop.h says why. */
#define _GNU_SOURCE
#include "runtime/loop.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* What a handle on an embedded store takes, and a few for the store's own moments. */
#define DESCRIPTORS 20

int tn_loop_check(struct tn_text *reterr)
{
    int fds[DESCRIPTORS];
    int count = 0;

    while (count < DESCRIPTORS && (fds[count] = eventfd(0, EFD_CLOEXEC)) >= 0)
        count++;
    int error = errno;
    for (int i = 0; i < count; i++)
        (void)close(fds[i]);
    if (count == DESCRIPTORS)
        return 0;
    tn_text_addf(reterr, "too few descriptors are left: %s; %d are needed, see ulimit -n",
                 strerror(error), DESCRIPTORS);
    return TENURE_E_UNAVAILABLE;
}
