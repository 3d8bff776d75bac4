/* failing_disk.c - a library for LD_PRELOAD: the flush fails from the Nth on, N in
 * TENURE_TEST_FLUSHES, takes TENURE_TEST_FLUSH_MS, and lasts while there is a TENURE_TEST_STALL;
 * each adds a byte to TENURE_TEST_FLUSH_MARK. It stands for disks that report errors, are slow or
 * hang, which no test can have at hand. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

int fdatasync(int fd);

static void mark(void)
{
    const char *path = getenv("TENURE_TEST_FLUSH_MARK");
    int fd = path != NULL ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;

    if (fd >= 0) {
        (void)!write(fd, ".", 1);
        (void)close(fd);
    }
}

int fdatasync(int fd)
{
    static int left = -1;
    const char *number = getenv("TENURE_TEST_FLUSHES");
    const char *stall = getenv("TENURE_TEST_STALL");
    const char *ms = getenv("TENURE_TEST_FLUSH_MS");

    (void)fd;
    mark();
    if (ms != NULL)
        (void)poll(NULL, 0, (int)strtol(ms, NULL, 10));
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
