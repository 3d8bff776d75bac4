/* assert.c - what happens when an assertion fails: one line on stderr, then abort. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

static void print_failure(const char *expr, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, expr);
}

void (*tn_assert_hook)(const char *expr, const char *file, int line) = print_failure;

_Noreturn void tn_assert_fail(const char *expr, const char *file, int line)
{
    tn_assert_hook(expr, file, line);
    abort();
}
