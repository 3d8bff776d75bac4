/* test.c - main of every test program: runs the registered tests one by one in this process.
 *
 * A test leaves early by longjmp to run_one: on a failed check, a skip, or an assertion; a process
 * that it has forked ends there. A crash takes the program down before its last line, which
 * tests/run counts as a failure. */
#include "tests/harness/test.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"

enum verdict { PASSED, FAILED, SKIPPED, VERDICT_COUNT };

static struct tn_test *tests;
static struct tn_test **tests_end = &tests;
static struct tn_test *running;
static jmp_buf test_exit;
static jmp_buf assert_exit;
static bool assert_armed;
static pid_t home; /* The process that runs the tests. */

void tn_test_register(struct tn_test *test)
{
    *tests_end = test;
    tests_end = &test->next;
}

/* FILE/NAME, where FILE is the source's base name without ".c". */
static void format_id(const struct tn_test *test, char *buf, size_t size)
{
    const char *slash = strrchr(test->file, '/');
    const char *base = slash != NULL ? slash + 1 : test->file;
    const char *dot = strrchr(base, '.');
    int len = dot != NULL ? (int)(dot - base) : (int)strlen(base);

    (void)snprintf(buf, size, "%.*s/%s", len, base, test->name);
}

static _Noreturn void leave(enum verdict verdict)
{
    assert_armed = false;
    if (getpid() != home) {
        (void)fflush(stdout);
        _exit(1);
    }
    longjmp(test_exit, (int)verdict);
}

_Noreturn void tn_test_fail(const char *file, int line, const char *format, ...)
{
    char id[256];
    va_list args;

    format_id(running, id, sizeof id);
    printf("FAIL %s: %s:%d: ", id, file, line);
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    printf("\n");
    leave(FAILED);
}

_Noreturn void tn_test_skip(const char *reason)
{
    char id[256];

    format_id(running, id, sizeof id);
    printf("SKIP %s: %s\n", id, reason);
    leave(SKIPPED);
}

void tn_test_eq_u64(const char *file, int line, const char *expr, uint64_t a, uint64_t b)
{
    if (a != b)
        tn_test_fail(file, line, "%s: %" PRIu64 " and %" PRIu64, expr, a, b);
}

void tn_test_eq_i64(const char *file, int line, const char *expr, int64_t a, int64_t b)
{
    if (a != b)
        tn_test_fail(file, line, "%s: %" PRId64 " and %" PRId64, expr, a, b);
}

void tn_test_eq_str(const char *file, int line, const char *expr, const char *a, const char *b)
{
    if (a == NULL || b == NULL) {
        if (a != b)
            tn_test_fail(file, line, "%s: %s and %s", expr, a != NULL ? a : "NULL",
                         b != NULL ? b : "NULL");
        return;
    }
    if (strcmp(a, b) != 0)
        tn_test_fail(file, line, "%s: \"%s\" and \"%s\"", expr, a, b);
}

void tn_test_eq_mem(const char *file, int line, const char *expr, const void *a, const void *b,
                    size_t size)
{
    const unsigned char *x = a;
    const unsigned char *y = b;

    for (size_t i = 0; i < size; i++) {
        if (x[i] != y[i])
            tn_test_fail(file, line, "%s: byte %zu is 0x%02x and 0x%02x", expr, i, x[i], y[i]);
    }
}

jmp_buf *tn_test_assert_arm(void)
{
    assert_armed = true;
    return &assert_exit;
}

void tn_test_assert_disarm(void)
{
    assert_armed = false;
}

static void on_assert(const char *expr, const char *file, int line)
{
    if (assert_armed) {
        assert_armed = false;
        longjmp(assert_exit, 1);
    }
    tn_test_fail(file, line, "assertion failed: %s", expr);
}

static enum verdict run_one(struct tn_test *test)
{
    running = test;
    switch (setjmp(test_exit)) {
    case PASSED:
        test->run();
        return PASSED;
    case SKIPPED:
        return SKIPPED;
    default:
        return FAILED;
    }
}

int main(int argc, char **argv)
{
    unsigned counts[VERDICT_COUNT] = { 0 };
    const char *wanted = argc > 1 ? argv[1] : "";
    bool list = strcmp(wanted, "--list") == 0;

    tn_assert_hook = on_assert;
    home = getpid();
    for (struct tn_test *test = tests; test != NULL; test = test->next) {
        char id[256];

        format_id(test, id, sizeof id);
        if (list)
            printf("%s\n", id);
        else if (strstr(id, wanted) != NULL)
            counts[run_one(test)]++;
        /* What was said must not be lost if the next test crashes. */
        (void)fflush(stdout);
    }
    if (list)
        return EXIT_SUCCESS;
    if (counts[PASSED] + counts[FAILED] + counts[SKIPPED] == 0) {
        printf("FAIL: no test ran\n");
        counts[FAILED] = 1;
    }
    printf("%u passed, %u failed, %u skipped\n", counts[PASSED], counts[FAILED], counts[SKIPPED]);
    return counts[FAILED] == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
