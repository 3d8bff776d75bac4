/* stepped_clock.c - a library for LD_PRELOAD: the wall clock is off by the seconds in the file
 * TENURE_TEST_STEP, which may change at any time. The other clocks are as they are; other ways to
 * the wall clock are not used here, as tools/tidy checks. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long step(void)
{
    const char *path = getenv("TENURE_TEST_STEP");
    char text[32] = "";
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        if (read(fd, text, sizeof text - 1) < 0)
            text[0] = 0;
        (void)close(fd);
    }
    return strtol(text, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    static int (*real)(clockid_t, struct timespec *);

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int rc = real(clock, ret_time);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        ret_time->tv_sec += step();
    return rc;
}
