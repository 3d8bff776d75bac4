/* assert_test.c - a failed assertion says where in one line, and ends the process. */
#include "tests/harness/test.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"

static void (*default_hook)(const char *expr, const char *file, int line);

/* Before main, where the harness puts its own hook in place. */
__attribute__((constructor)) static void save_default_hook(void)
{
    default_hook = tn_assert_hook;
}

static void silent_hook(const char *expr, const char *file, int line)
{
    (void)expr;
    (void)file;
    (void)line;
}

/* Fails an assertion in a child process; collects its stderr and gives its wait status. */
static int fail_in_child(void (*hook)(const char *, const char *, int), char *buf, size_t size)
{
    int fds[2];
    int status = 0;
    size_t len = 0;

    CHECK(pipe(fds) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        const struct rlimit no_core = { 0, 0 };
        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)dup2(fds[1], STDERR_FILENO);
        tn_assert_hook = hook;
        tn_assert_fail("x == 1", "src/core/x.c", 12);
    }
    (void)close(fds[1]);
    for (ssize_t n = 1; n > 0 && len<size - 1; len += n> 0 ? (size_t)n : 0)
        n = read(fds[0], buf + len, size - 1 - len);
    buf[len] = '\0';
    (void)close(fds[0]);
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

TEST(the_default_hook_prints_one_line_and_the_process_aborts)
{
    char said[256];
    int status = fail_in_child(default_hook, said, sizeof said);

    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_STR(said, "src/core/x.c:12: assertion failed: x == 1\n");
}

TEST(a_hook_that_returns_does_not_save_the_process)
{
    char said[256];
    int status = fail_in_child(silent_hook, said, sizeof said);

    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_STR(said, "");
}

TEST(files_are_named_relative_to_the_sources)
{
    CHECK_STR(__FILE__, "tests/unit/assert_test.c");
}
