/* assert.c - what happens when an assertion fails: one line on stderr, then abort. */
#include "base/assert.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Without stdio, and only while there is room: a process that has to end must not wait for whoever
 * does not read its stderr. */
static void print_failure(const char *expr, const char *file, int line)
{
    struct pollfd room = { .fd = STDERR_FILENO, .events = POLLOUT };
    char text[512];

    (void)snprintf(text, sizeof text, "%s:%d: assertion failed: %s\n", file, line, expr);
    if (poll(&room, 1, 0) == 1 && (room.revents & POLLOUT) != 0) {
        ssize_t written = write(STDERR_FILENO, text, strlen(text));
        (void)written;
    }
}

void (*tn_assert_hook)(const char *expr, const char *file, int line) = print_failure;

_Noreturn void tn_assert_fail(const char *expr, const char *file, int line)
{
    tn_assert_hook(expr, file, line);
    abort();
}
