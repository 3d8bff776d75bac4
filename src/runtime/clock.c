/* clock.c - reads CLOCK_BOOTTIME, and finds out which boot and which time namespace it belongs to.
 *
 * The kernel uses a namespace's inode number again once the namespace is gone, so the offset of its
 * clock is part of the domain too. /proc tells it only for the namespace of our future children;
 * where that is another one, nobody but this process can share its clock by name.
 * What can fail: /proc is not mounted. Without a boot id there is no domain; a kernel without time
 * namespaces has exactly one. */
#include "runtime/clock.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/text.h"
#include "base/time.h"

enum { BOOT_ID_LEN = 36 };

/* The beginning of a small file, as a string. Returns its length, or -1. */
static ssize_t read_small(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t len = read(fd, buf, size - 1);
    (void)close(fd);
    if (len >= 0)
        buf[len] = '\0';
    return len;
}

static const char *read_link(const char *path, char *buf, size_t size)
{
    ssize_t len = readlink(path, buf, size - 1);
    buf[len > 0 ? len : 0] = '\0';
    return buf;
}

/* " time:[4026531834] +0.0", or nothing on a kernel without time namespaces. */
static void add_namespace(struct tn_text *domain)
{
    char own[64];
    char children[64];
    char offsets[256];
    int64_t seconds;
    int64_t nanoseconds;

    if (read_link("/proc/self/ns/time", own, sizeof own)[0] == '\0')
        return;
    tn_text_addf(domain, " %s", own);
    read_link("/proc/self/ns/time_for_children", children, sizeof children);
    if (strcmp(own, children) != 0) {
        tn_text_addf(domain, " pid %ld", (long)getpid());
        return;
    }
    if (read_small("/proc/self/timens_offsets", offsets, sizeof offsets) < 0)
        return;
    const char *line = strstr(offsets, "boottime");
    if (line != NULL && sscanf(line, "boottime %" SCNd64 " %" SCNd64, &seconds, &nanoseconds) == 2)
        tn_text_addf(domain, " %+" PRId64 ".%" PRId64, seconds, nanoseconds);
}

tenure_ns tn_boottime(void)
{
    struct timespec now;

    int rc = clock_gettime(CLOCK_BOOTTIME, &now);
    TN_ASSERT(rc == 0);
    return TN_SEC(now.tv_sec) + now.tv_nsec;
}

static tenure_ns read_clock(void *arg)
{
    (void)arg;
    return tn_boottime();
}

int tn_clock_init(struct tn_clock *ret_clock)
{
    struct tn_clock clock = { .now = read_clock };
    struct tn_text domain;
    char boot[64];

    if (read_small("/proc/sys/kernel/random/boot_id", boot, sizeof boot) < BOOT_ID_LEN)
        return TENURE_E_UNSUPPORTED;
    tn_text_init(&domain, clock.domain, sizeof clock.domain);
    tn_text_add_bytes(&domain, boot, BOOT_ID_LEN);
    add_namespace(&domain);
    TN_ASSERT(!tn_text_truncated(&domain));
    *ret_clock = clock;
    return 0;
}

tenure_ns tn_clock_now(const struct tn_clock *clock)
{
    return clock->now(clock->arg);
}

void tn_clock_pause(tenure_ns ns)
{
    struct timespec span = { .tv_sec = ns / TN_SEC(1), .tv_nsec = ns % TN_SEC(1) };

    TN_ASSERT(ns >= 0);
    (void)nanosleep(&span, NULL);
}
