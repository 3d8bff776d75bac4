/* bulk_test.c - many sends and receives at once: the same bytes and results as one by one, with
 * io_uring and without. What a kernel forbids is forbidden here by a filter of system calls. */
#define _GNU_SOURCE
#include "tests/harness/test.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/bulk.h"

enum { PAIRS = 60 };

static struct tn_bulk bulk;
static int ends[PAIRS][2];

static void begin(void)
{
    tn_bulk_open(&bulk);
    for (int i = 0; i < PAIRS; i++)
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]) == 0);
}

static void finish(void)
{
    for (int i = 0; i < PAIRS; i++) {
        (void)close(ends[i][0]);
        (void)close(ends[i][1]);
    }
    tn_bulk_close(&bulk);
}

/* Several rounds, so that the ring comes round; each pair gets its own words, and twice. */
static void sends_all(void)
{
    static char words[PAIRS][24];
    char heard[64];

    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 2 * PAIRS; i++) {
            char *word = words[i % PAIRS];
            (void)snprintf(word, sizeof words[0], "%d to %d.", round, i % PAIRS);
            tn_bulk_send(&bulk, word, ends[i % PAIRS][0], word, strlen(word));
        }
        tn_bulk_go(&bulk);
        CHECK_EQ_U64(bulk.count, 2 * PAIRS);
        for (int i = 0; i < 2 * PAIRS; i++) {
            CHECK(bulk.list[i].arg == words[i % PAIRS]);
            CHECK_EQ_I64(bulk.list[i].result, (int64_t)bulk.list[i].len);
        }
        bulk.count = 0;
        for (int i = 0; i < PAIRS; i++) {
            size_t len = strlen(words[i]);
            CHECK_EQ_I64(recv(ends[i][1], heard, sizeof heard, MSG_DONTWAIT), 2 * (int64_t)len);
            CHECK(memcmp(heard, words[i], len) == 0);
            CHECK(memcmp(heard + len, words[i], len) == 0);
        }
    }
}

TEST(many_are_sent_to_each_its_own_and_in_order)
{
    begin();
    sends_all();
    finish();
}

TEST(a_few_are_sent_as_well)
{
    char heard[8];

    begin();
    tn_bulk_go(&bulk); /* None at all. */
    tn_bulk_send(&bulk, NULL, ends[0][0], "one", 3);
    tn_bulk_go(&bulk);
    CHECK_EQ_I64(bulk.list[0].result, 3);
    CHECK_EQ_I64(recv(ends[0][1], heard, sizeof heard, MSG_DONTWAIT), 3);
    finish();
}

TEST(a_full_socket_a_closed_one_and_a_slow_one_are_told_and_harm_nobody_else)
{
    static char much[1 << 20];
    char heard[8];

    begin();
    while (send(ends[1][0], much, sizeof much, MSG_DONTWAIT) > 0)
        ;
    (void)close(ends[2][1]);
    ends[2][1] = -1;
    tn_bulk_send(&bulk, NULL, ends[0][0], "before", 6);
    tn_bulk_send(&bulk, NULL, ends[1][0], "full", 4);
    tn_bulk_send(&bulk, NULL, ends[2][0], "closed", 6);
    tn_bulk_send(&bulk, NULL, ends[3][0], much, sizeof much);
    tn_bulk_send(&bulk, NULL, -1, "nowhere", 7);
    tn_bulk_send(&bulk, NULL, ends[4][0], "behind", 6);
    tn_bulk_go(&bulk);
    CHECK_EQ_I64(bulk.list[0].result, 6);
    CHECK_EQ_I64(bulk.list[1].result, -EAGAIN);
    CHECK_EQ_I64(bulk.list[2].result, -EPIPE);
    CHECK(bulk.list[3].result > 0 && bulk.list[3].result < (ssize_t)sizeof much);
    CHECK_EQ_I64(bulk.list[4].result, -EBADF);
    CHECK_EQ_I64(bulk.list[5].result, 6);
    CHECK_EQ_I64(recv(ends[4][1], heard, sizeof heard, MSG_DONTWAIT), 6);
    finish();
}

/* What every second pair was sent is received; the others have nothing, or have hung up. */
static void receives_all(void)
{
    static char heard[PAIRS][24];
    char word[24];

    for (int i = 0; i < PAIRS; i++) {
        (void)snprintf(word, sizeof word, "of %d", i);
        if (i % 2 == 0)
            CHECK(send(ends[i][1], word, strlen(word), 0) > 0);
        if (i == 3)
            CHECK(shutdown(ends[i][1], SHUT_WR) == 0);
        tn_bulk_receive(&bulk, heard[i], ends[i][0], heard[i], sizeof heard[i]);
    }
    tn_bulk_go(&bulk);
    for (int i = 0; i < PAIRS; i++) {
        (void)snprintf(word, sizeof word, "of %d", i);
        CHECK(bulk.list[i].arg == heard[i]);
        CHECK_EQ_I64(bulk.list[i].result, i % 2 == 0 ? (int64_t)strlen(word)
                                          : i == 3   ? 0
                                                     : -EAGAIN);
        CHECK(i % 2 != 0 || memcmp(heard[i], word, strlen(word)) == 0);
    }
    bulk.count = 0;
}

TEST(many_are_received_from_and_who_says_nothing_is_not_waited_for)
{
    begin();
    receives_all();
    finish();
}

/* In a process of its own, @number fails with @error from now on. */
static void forbid(int number, int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = sizeof filter / sizeof filter[0], .filter = filter };

    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void passes_without(int number, int error, bool opened)
{
    int status = -1;
    (void)fflush(stdout);
    pid_t pid = fork();

    if (pid == 0) {
        if (opened)
            begin();
        forbid(number, error);
        if (!opened) {
            begin();
            CHECK(bulk.ring == NULL);
        }
        sends_all();
        receives_all();
        finish();
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK_EQ_I64(status, 0);
}

TEST(where_io_uring_is_forbidden_each_is_done_by_itself)
{
    passes_without(SYS_io_uring_setup, EPERM, false);
}

TEST(what_the_kernel_does_not_take_is_done_by_itself)
{
    passes_without(SYS_io_uring_enter, EAGAIN, true);
}
