/* fence_file_test.c - a file that is written through its fence: all or nothing, and never back. */
#define _GNU_SOURCE /* mkdtemp */
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "receivers/target.h"
#include "tenure/fence_file.h"

static char folder[64];
static char path[128];
static char fence[160];

static void fresh(void)
{
    static const char *const suffixes[] = { "", ".fence", ".fence-new" };
    char file[160];

    for (size_t i = 0; folder[0] != '\0' && i < sizeof suffixes / sizeof suffixes[0]; i++) {
        (void)snprintf(file, sizeof file, "%s%s", path, suffixes[i]);
        (void)unlink(file);
    }
    if (folder[0] != '\0')
        (void)rmdir(folder);
    (void)snprintf(folder, sizeof folder, "/tmp/tn-file-......");
    memset(strchr(folder, '.'), 'X', 6); /* What mkdtemp replaces. */
    CHECK(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof path, "%s/data", folder);
    (void)snprintf(fence, sizeof fence, "%s.fence", path);
}

static const char *content(const char *file)
{
    static char buf[65536];
    FILE *in = fopen(file, "rb");

    if (in == NULL)
        return "(none)";
    size_t len = fread(buf, 1, sizeof buf - 1, in);
    fclose(in);
    buf[len] = '\0';
    return buf;
}

static void put(const char *file, const char *text)
{
    FILE *out = fopen(file, "wb");

    CHECK(out != NULL);
    CHECK_EQ_U64(fwrite(text, 1, strlen(text), out), strlen(text));
    CHECK_EQ_I64(fclose(out), 0);
}

static int replace(uint64_t token, const char *text)
{
    return tenure_fence_file_replace(path, token, text, strlen(text), TN_SEC(5));
}

static int append(uint64_t token, const char *text)
{
    return tenure_fence_file_append(path, token, text, strlen(text), TN_SEC(5));
}

static uint64_t highest(void)
{
    uint64_t token = 99;

    CHECK_EQ_I64(tenure_fence_file_highest(path, &token), 0);
    return token;
}

TEST(what_a_stale_holder_writes_never_arrives)
{
    fresh();
    CHECK_EQ_U64(highest(), 0);
    CHECK(access(fence, F_OK) != 0);
    CHECK_EQ_I64(replace(34, "one\n"), 0);
    CHECK_EQ_I64(replace(33, "stale\n"), TENURE_E_STALE);
    CHECK_EQ_I64(append(33, "stale\n"), TENURE_E_STALE);
    CHECK_EQ_I64(append(34, "two\n"), 0);
    CHECK_STR(content(path), "one\ntwo\n");
    CHECK_STR(content(fence), "00000000000000000034\n");
    CHECK_EQ_I64(tenure_fence_file_raise(path, 35, TN_SEC(5)), 0);
    CHECK_EQ_I64(tenure_fence_file_raise(path, 35, TN_SEC(5)), 0);
    CHECK_EQ_I64(tenure_fence_file_raise(path, 34, TN_SEC(5)), TENURE_E_STALE);
    CHECK_EQ_I64(append(34, "stale\n"), TENURE_E_STALE);
    CHECK_EQ_I64(append(36, "three\n"), 0);
    CHECK_EQ_I64(replace(36, ""), 0);
    CHECK_STR(content(path), "");
    CHECK_EQ_U64(highest(), 36);
}

TEST(large_tokens_are_told_apart_in_files)
{
    static const uint64_t tokens[] = { UINT64_C(1) << 53, (UINT64_C(1) << 53) + 1,
                                       UINT64_C(1) << 63, UINT64_MAX };

    fresh();
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        CHECK_EQ_I64(append(tokens[i], "x"), 0);
        CHECK_EQ_I64(append(tokens[i] - 1, "y"), TENURE_E_STALE);
        CHECK_EQ_U64(highest(), tokens[i]);
    }
    CHECK_STR(content(path), "xxxx");
}

TEST(malformed_files_and_requests_write_nothing)
{
    static const char *const bad[] = { "34\n",
                                       "0000000000000000003x\n",
                                       "00000000000000000034",
                                       "00000000000000000034\n\n",
                                       "18446744073709551616\n",
                                       "00000000000000000034 99999999999999999999\n",
                                       "00000000000000000034x00000000000000000034\n",
                                       "00000000000000000034 00000000000000000034\nmore" };
    uint64_t token;

    fresh();
    put(path, "data");
    CHECK_EQ_I64(replace(0, "x"), TENURE_E_INVALID);
    CHECK_EQ_I64(append(0, "x"), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_fence_file_raise("", 1, 0), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_fence_file_raise("/tmp/", 1, 0), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_fence_file_raise("..", 1, 0), TENURE_E_INVALID);
    CHECK_EQ_I64(tenure_fence_file_raise(fence, 1, 0), TENURE_E_INVALID);
    CHECK(access(fence, F_OK) != 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put(fence, bad[i]);
        CHECK_EQ_I64(replace(99, "x"), TENURE_E_DAMAGED);
        CHECK_EQ_I64(append(99, "x"), TENURE_E_DAMAGED);
        CHECK_EQ_I64(tenure_fence_file_highest(path, &token), TENURE_E_DAMAGED);
        CHECK_STR(content(fence), bad[i]);
    }
    CHECK_STR(content(path), "data");
    CHECK_EQ_I64(tenure_fence_file_raise("/nowhere/at/all", 1, 0), TENURE_E_UNAVAILABLE);
    CHECK_EQ_I64(errno, ENOENT);
}

TEST(links_and_folders_are_refused)
{
    char target[160];

    fresh();
    (void)snprintf(target, sizeof target, "%s/target", folder);
    put(target, "theirs");
    CHECK_EQ_I64(symlink(target, path), 0);
    CHECK_EQ_I64(replace(1, "x"), TENURE_E_DENIED);
    CHECK_EQ_I64(append(1, "x"), TENURE_E_DENIED);
    CHECK_EQ_I64(unlink(path), 0);
    CHECK(access(fence, F_OK) != 0);
    CHECK_EQ_I64(symlink(target, fence), 0);
    CHECK_EQ_I64(replace(1, "x"), TENURE_E_DENIED);
    CHECK_STR(content(target), "theirs");
    CHECK_EQ_I64(unlink(fence), 0);
    CHECK_EQ_I64(unlink(target), 0);
    CHECK_EQ_I64(mkdir(path, 0700), 0);
    CHECK(replace(2, "x") < 0);
    CHECK(append(2, "x") < 0);
    CHECK_EQ_I64(rmdir(path), 0);
}

TEST(a_file_keeps_its_mode)
{
    struct stat st;

    fresh();
    put(path, "old");
    CHECK_EQ_I64(chmod(path, 0640), 0);
    CHECK_EQ_I64(replace(1, "new"), 0);
    CHECK_EQ_I64(stat(path, &st), 0);
    CHECK_EQ_U64(st.st_mode & 0777, 0640);
}

/* What a process that died in the middle of an append left behind. */
TEST(an_append_that_did_not_end_is_cut_off_by_the_next)
{
    fresh();
    CHECK_EQ_I64(append(5, "whole\n"), 0);
    put(path, "whole\nhal");
    put(fence, "00000000000000000006 00000000000000000006\n");
    CHECK_EQ_I64(append(5, "stale\n"), TENURE_E_STALE);
    CHECK_STR(content(path), "whole\n");
    CHECK_STR(content(fence), "00000000000000000006\n");
    put(path, "whole\nhal");
    put(fence, "00000000000000000006 00000000000000000006\n");
    CHECK_EQ_U64(highest(), 6);
    CHECK_EQ_I64(append(6, "next\n"), 0);
    CHECK_STR(content(path), "whole\nnext\n");
    /* Nothing had been written yet; and the file is gone. */
    put(fence, "00000000000000000006 00000000000000000900\n");
    CHECK_EQ_I64(append(7, "x\n"), 0);
    CHECK_STR(content(path), "whole\nnext\nx\n");
    put(fence, "00000000000000000007 00000000000000000900\n");
    CHECK_EQ_I64(unlink(path), 0);
    CHECK_EQ_I64(append(7, "y\n"), 0);
    CHECK_STR(content(path), "y\n");
}

TEST(a_full_disk_leaves_the_file_as_it_was)
{
    static char much[8192];
    int status = -1;

    fresh();
    memset(much, 'x', sizeof much - 1);
    CHECK_EQ_I64(append(1, "before\n"), 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct rlimit limit = { .rlim_cur = 4096, .rlim_max = 4096 };
        (void)signal(SIGXFSZ, SIG_IGN);
        int bad = setrlimit(RLIMIT_FSIZE, &limit);
        bad += append(2, much) != TENURE_E_UNAVAILABLE;
        bad += replace(2, much) != TENURE_E_UNAVAILABLE;
        _exit(bad);
    }
    CHECK_EQ_I64(waitpid(child, &status, 0), child);
    CHECK_EQ_I64(status, 0);
    CHECK_STR(content(path), "before\n");
    CHECK_EQ_U64(highest(), 2);
    CHECK_EQ_I64(append(2, "after\n"), 0);
    CHECK_STR(content(path), "before\nafter\n");
}

TEST(another_writer_is_waited_for_only_so_long)
{
    fresh();
    CHECK_EQ_I64(append(1, "a"), 0);
    int fd = open(fence, O_RDWR | O_CLOEXEC);
    CHECK_EQ_I64(flock(fd, LOCK_EX), 0);
    CHECK_EQ_I64(tenure_fence_file_append(path, 2, "b", 1, TN_MS(30)), TENURE_E_UNAVAILABLE);
    CHECK_EQ_I64(errno, EWOULDBLOCK);
    CHECK_EQ_U64(highest(), 1);
    (void)close(fd);
    CHECK_EQ_I64(append(2, "b"), 0);
    CHECK_STR(content(path), "ab");
}

/* A lock on a file that has lost its name to another is no lock. */
TEST(a_lock_counts_only_while_its_file_has_the_name)
{
    fresh();
    CHECK_EQ_I64(append(1, "a"), 0);
    int fd = open(fence, O_RDWR | O_CLOEXEC);
    CHECK_EQ_I64(append(2, "b"), 0);
    /* The old file: locked, but nobody asks it any more. */
    CHECK_EQ_I64(flock(fd, LOCK_EX | LOCK_NB), 0);
    CHECK_EQ_I64(append(3, "c"), 0);
    (void)close(fd);
    CHECK_STR(content(path), "abc");
}

/* --- By URL --------------------------------------------------------------------------------- */

static char error_text[512];
static struct tn_text error;

static int raise_at(const char *url, const char *resource, uint64_t token)
{
    tn_text_init(&error, error_text, sizeof error_text);
    return tn_fence_raise_at(url, resource, token, TN_SEC(5), &error);
}

TEST(a_fence_is_raised_by_its_url)
{
    char url[200];

    fresh();
    (void)snprintf(url, sizeof url, "file:%s", path);
    /* A path that is misspelt does not become a fence. */
    CHECK_EQ_I64(raise_at(url, NULL, 7), TENURE_E_DAMAGED);
    CHECK(access(fence, F_OK) != 0);
    CHECK_EQ_I64(replace(6, "a"), 0);
    CHECK_EQ_I64(raise_at(url, NULL, 7), 0);
    CHECK_EQ_I64(raise_at(url, "", 8), 0);
    CHECK_EQ_I64(raise_at(url, NULL, 7), TENURE_E_STALE);
    CHECK_STR(error_text, "the fence stands at 8 already");
    (void)snprintf(url, sizeof url, "file://%s", path);
    CHECK_EQ_I64(raise_at(url, NULL, 9), 0);
    CHECK_EQ_U64(highest(), 9);
    CHECK_EQ_I64(raise_at(url, "orders", 10), TENURE_E_INVALID);
    CHECK_STR(error_text, "a fence at file: has no resource: the path is it");
    CHECK_EQ_I64(raise_at(url, NULL, 0), TENURE_E_INVALID);
    CHECK_STR(error_text, "token 0 is never granted");
    CHECK_EQ_U64(highest(), 9);
}

TEST(a_url_that_names_no_fence_is_refused)
{
    static const char *const bad[] = { "",        "x",
                                       "/tmp/x",  "etcd://h",
                                       "file:",   "file://host/x",
                                       "sqlite:", "sqlite://host/x",
                                       "FILE:x",  "file:/" };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_EQ_I64(raise_at(bad[i], i > 5 ? "orders" : NULL, 1), TENURE_E_INVALID);
        CHECK(error_text[0] != '\0');
    }
    CHECK_EQ_I64(raise_at("sqlite:/tmp/tn-none.db", NULL, 1), TENURE_E_INVALID);
    CHECK_STR(error_text, "the resource is missing");
    CHECK_EQ_I64(raise_at("sqlite:/tmp/tn-none.db", "a//b", 1), TENURE_E_INVALID);
    CHECK_EQ_I64(raise_at("sqlite:/tmp/tn-none.db", "a", 0), TENURE_E_INVALID);
    CHECK(access("/tmp/tn-none.db", F_OK) != 0);
    fresh();
}

/* Each name has a fence of its own, so a stale holder of the one would pass at the other. */
TEST(a_file_with_a_second_name_is_refused_under_both)
{
    char second[160], second_fence[176];

    fresh();
    (void)snprintf(second, sizeof second, "%s2", path);
    (void)snprintf(second_fence, sizeof second_fence, "%s.fence", second);
    CHECK_EQ_I64(append(34, "one\n"), 0);
    CHECK_EQ_I64(link(path, second), 0);
    CHECK_EQ_I64(append(35, "two\n"), TENURE_E_DENIED);
    CHECK_EQ_I64(replace(35, "two\n"), TENURE_E_DENIED);
    CHECK_EQ_I64(tenure_fence_file_append(second, 33, "stale\n", 6, TN_SEC(5)), TENURE_E_DENIED);
    CHECK_EQ_U64(highest(), 34);
    CHECK_EQ_I64(unlink(second), 0);
    (void)unlink(second_fence);
    CHECK_EQ_I64(append(35, "two\n"), 0);
    CHECK_STR(content(path), "one\ntwo\n");
}

/* Whoever owns the fence can write any token into it. */
TEST(a_fence_that_another_user_planted_is_refused)
{
    if (geteuid() != 0)
        SKIP("only root can make files of others");
    fresh();
    CHECK_EQ_I64(chmod(folder, 01777), 0);
    CHECK_EQ_I64(append(34, "one\n"), 0);
    put(fence, "00000000000000000001\n");
    CHECK_EQ_I64(chown(fence, 65534, 65534), 0);
    CHECK_EQ_I64(append(33, "stale\n"), TENURE_E_DENIED);
    CHECK_EQ_I64(tenure_fence_file_raise(path, 35, TN_SEC(5)), TENURE_E_DENIED);
    /* Nobody but its group can put files there: that is how users share one. */
    CHECK_EQ_I64(chmod(folder, 0770), 0);
    CHECK_EQ_I64(append(34, "two\n"), 0);
    CHECK_STR(content(path), "one\ntwo\n");
}
