/* failing_disk.c - a library for LD_PRELOAD: the flush fails from the Nth on, N in
 * TENURE_TEST_FLUSHES. It stands for a disk that reports errors, which no test can have at hand. */
#include <errno.h>
#include <stdlib.h>

int fdatasync(int fd);

int fdatasync(int fd)
{
    static int left = -1;
    const char *number = getenv("TENURE_TEST_FLUSHES");

    (void)fd;
    if (left < 0)
        left = number != NULL ? (int)strtol(number, NULL, 10) : 0;
    if (left > 0) {
        left--;
        return 0;
    }
    errno = EIO;
    return -1;
}
