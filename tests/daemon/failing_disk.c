/* failing_disk.c - a library for LD_PRELOAD: the flush fails from the Nth on, N in
 * TENURE_TEST_FLUSHES, and takes as long as there is a file TENURE_TEST_STALL. It stands for disks
 * that report errors and for such as hang, which no test can have at hand. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

int fdatasync(int fd);

int fdatasync(int fd)
{
    static int left = -1;
    const char *number = getenv("TENURE_TEST_FLUSHES");
    const char *stall = getenv("TENURE_TEST_STALL");

    (void)fd;
    while (stall != NULL && access(stall, F_OK) == 0)
        (void)poll(NULL, 0, 5);
    if (left < 0)
        left = number != NULL ? (int)strtol(number, NULL, 10) : 0;
    if (left > 0) {
        left--;
        return 0;
    }
    errno = EIO;
    return -1;
}
