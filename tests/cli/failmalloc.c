/* failmalloc.c - to be preloaded: one allocation of a program, or all from one on, fail.
 *
 *   TN_FAIL_AT=N    the Nth allocation of the process fails
 *   TN_FAIL_ON=1    and so do all after it
 *   TN_FAIL_TOLD=F  the file F is made when one fails; if it is missing, there were fewer
 *
 * Counts what the C library and SQLite allocate, too. A forked child goes on with its own count. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* The C library's own; it has no header for them. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

static atomic_long left;
static atomic_bool on;
static const char *told;

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("TN_FAIL_AT");

    told = getenv("TN_FAIL_TOLD");
    on = getenv("TN_FAIL_ON") != NULL;
    left = at != NULL ? strtol(at, NULL, 10) : 0;
}

static bool is_due(void)
{
    long before = atomic_load(&left);

    if (before == 0)
        return false;
    before = before > 0 ? atomic_fetch_sub(&left, 1) : before;
    if (before > 1)
        return false;
    if (before == 1) {
        int fd = told != NULL ? open(told, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
        if (fd >= 0)
            (void)close(fd);
        atomic_store(&left, atomic_load(&on) ? -1 : 0);
    }
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return is_due() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return is_due() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    return is_due() ? NULL : __libc_realloc(block, size);
}
