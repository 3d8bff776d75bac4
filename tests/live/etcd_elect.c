/* etcd_elect.c - etcdctl elect and ours in one election, leader by turns; run by etcd.sh.
 *
 * TENURE_CONFORMANCE_URL is our store, TENURE_ETCDCTL_ENDPOINT the same for etcdctl. A hundred
 * times each way the leader resigns and the other takes over: never two at once, tokens rise, and
 * whoever stands first in line is next. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/conformance/bed.h"

#define TTL TN_SEC(60)

enum { ROUNDS = 100 };

static const char *job; /* Each test has its own: sessions outlive the stores. */

/* A process that campaigns: etcdctl, which prints its key and its value when it leads, or tenure,
 * which prints an event. */
struct rival {
    pid_t pid;
    int out;
    const char *word; /* What it prints when it leads. */
    char said[512];
    size_t len;
    tenure_ns led_at;
};

static struct rival spawn(char *const *argv, const char *word)
{
    struct rival rival = { .word = word };
    int ends[2];

    CHECK_EQ_I64(pipe2(ends, O_CLOEXEC), 0);
    (void)fflush(stdout);
    rival.pid = fork();
    CHECK(rival.pid >= 0);
    if (rival.pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)setenv("ETCDCTL_API", "3", 1);
        (void)execvp(argv[0], argv);
        _exit(127);
    }
    (void)close(ends[1]);
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    rival.out = ends[0];
    return rival;
}

static struct rival spawn_rival(const char *value)
{
    char key[64];
    char *argv[] = { "etcdctl", "--endpoints", getenv("TENURE_ETCDCTL_ENDPOINT"),
                     "elect",   key,           (char *)(uintptr_t)value,
                     NULL };

    (void)snprintf(key, sizeof key, "both/%s", job);
    return spawn(argv, "\n");
}

static struct rival spawn_ours(void)
{
    char command[512];
    char *argv[] = { command,
                     "elect",
                     "--store",
                     getenv("TENURE_CONFORMANCE_URL"),
                     "--ttl",
                     "60s",
                     (char *)(uintptr_t)job,
                     NULL };

    (void)snprintf(command, sizeof command, "%s/tenure", getenv("TENURE_BUILD"));
    return spawn(argv, "\"won\"");
}

static bool leads(void *arg)
{
    struct rival *rival = arg;
    ssize_t got = read(rival->out, rival->said + rival->len, sizeof rival->said - rival->len - 1);

    if (got > 0)
        rival->len += (size_t)got;
    if (rival->led_at == 0 && strstr(rival->said, rival->word) != NULL)
        rival->led_at = bed_now();
    return rival->led_at != 0;
}

static void end_rival(struct rival *rival)
{
    int status;

    CHECK_EQ_I64(kill(rival->pid, SIGINT), 0);
    CHECK_EQ_I64(waitpid(rival->pid, &status, 0), rival->pid);
    (void)close(rival->out);
}

/* How many stand in line, as etcd itself counts. */
static int count_keys(void)
{
    char command[256], line[512];
    int count = 0;

    (void)snprintf(command, sizeof command,
                   "ETCDCTL_API=3 etcdctl --endpoints %s get --prefix --keys-only both/%s/",
                   getenv("TENURE_ETCDCTL_ENDPOINT"), job);
    FILE *keys = popen(command, "re");
    CHECK(keys != NULL);
    while (fgets(line, sizeof line, keys) != NULL)
        count += line[0] != '\n';
    (void)pclose(keys);
    return count;
}

static void await_keys(int wanted)
{
    tenure_ns end = bed_now() + BED_BOUND;

    while (count_keys() != wanted) {
        CHECK(bed_now() < end);
        bed_pass(bed_now() + TN_MS(5));
    }
}

static void change_leaders(void)
{
    struct bed_store *store = bed_open();
    struct bed_actor ours = bed_actor(store, TTL);
    uint64_t last = 0;
    tenure_ns to_them = 0, to_us = 0;
    char label[32];

    CHECK_EQ_I64(bed_acquire(&ours, job, true)->answer, TN_ANSWER_GRANTED);
    for (int round = 0; round < ROUNDS; round++) {
        (void)snprintf(label, sizeof label, "rival-%d", round);
        struct rival rival = spawn_rival(label);
        await_keys(2);
        CHECK(!leads(&rival)); /* Never two. */
        struct tn_store_req *req = bed_read(store, job);
        CHECK_EQ_U64(req->record.token, ours.token);
        CHECK_STR(req->record.label, "actor");
        CHECK(ours.token > last);
        last = ours.token;

        tenure_ns before = bed_now();
        CHECK_EQ_I64(bed_release(&ours, job, ours.token)->answer, TN_ANSWER_RELEASED);
        CHECK(bed_until(leads, &rival, BED_BOUND));
        to_them += rival.led_at - before;
        req = bed_read(store, job);
        CHECK_EQ_I64(req->answer, TN_ANSWER_HELD);
        CHECK_STR(req->record.label, label);
        CHECK(req->record.token > last);
        CHECK_EQ_I64(req->record.ttl, TN_SEC(60));
        last = req->record.token;

        bed_new_term(&ours);
        CHECK_EQ_I64(bed_acquire(&ours, job, true)->answer, TN_ANSWER_QUEUED);
        CHECK(!bed_is_granted(&ours, job, 0));
        before = bed_now();
        end_rival(&rival);
        CHECK(bed_is_granted(&ours, job, BED_BOUND));
        to_us += bed_now() - before;
    }
    printf("hand-over to etcdctl %d us, from etcdctl (its exit included) %d us on average\n",
           (int)(to_them / ROUNDS / 1000), (int)(to_us / ROUNDS / 1000));
}

TEST(the_leader_changes_a_hundred_times_each_way)
{
    job = "mixed/job";
    bed_run(0, change_leaders);
}

/* In line: us, theirs, another of ours, theirs. Each in its turn. */
static void keep_order(void)
{
    struct bed_store *store = bed_open();
    struct bed_actor first = bed_actor(store, TTL), third = bed_actor(store, TTL);

    CHECK_EQ_I64(bed_acquire(&first, job, true)->answer, TN_ANSWER_GRANTED);
    struct rival second = spawn_rival("second");
    await_keys(2);
    CHECK_EQ_I64(bed_acquire(&third, job, true)->answer, TN_ANSWER_QUEUED);
    struct rival fourth = spawn_rival("fourth");
    await_keys(4);
    CHECK_EQ_I64(bed_release(&first, job, first.token)->answer, TN_ANSWER_RELEASED);
    CHECK(bed_until(leads, &second, BED_BOUND));
    CHECK(!bed_is_granted(&third, job, TN_MS(100)));
    end_rival(&second);
    CHECK(bed_is_granted(&third, job, BED_BOUND));
    CHECK(!leads(&fourth));
    CHECK_EQ_I64(bed_release(&third, job, third.token)->answer, TN_ANSWER_RELEASED);
    CHECK(bed_until(leads, &fourth, BED_BOUND));
    end_rival(&fourth);
}

TEST(nobody_is_skipped)
{
    job = "order/job";
    bed_run(0, keep_order);
}

#define TIMES 21

static int by_size(const void *a, const void *b)
{
    const tenure_ns *x = a;
    const tenure_ns *y = b;
    return (*x > *y) - (*x < *y);
}

/* From the signal that makes the leader resign to the line that says that the next one leads. */
static tenure_ns hand_over(bool ours)
{
    tenure_ns took[TIMES];

    struct rival leader = ours ? spawn_ours() : spawn_rival("leader");
    CHECK(bed_until(leads, &leader, BED_BOUND));
    for (int i = 0; i < TIMES; i++) {
        struct rival next = ours ? spawn_ours() : spawn_rival("next");
        await_keys(2);
        tenure_ns before = bed_now();
        CHECK_EQ_I64(kill(leader.pid, SIGINT), 0);
        CHECK(bed_until(leads, &next, BED_BOUND));
        took[i] = next.led_at - before;
        end_rival(&leader);
        leader = next;
    }
    end_rival(&leader);
    await_keys(0);
    qsort(took, TIMES, sizeof took[0], by_size);
    return took[TIMES / 2];
}

/* Process to process, the same way for both, in one run. */
static void compare_hand_overs(void)
{
    struct bed_store *store = bed_open();
    tenure_ns theirs = hand_over(false), ours = hand_over(true);

    printf("hand-over after a resign: etcdctl %d us, tenure elect %d us (medians)\n",
           (int)(theirs / 1000), (int)(ours / 1000));
    CHECK(ours * 10 <= theirs * 13);
    bed_close(store);
}

TEST(a_hand_over_takes_no_longer_than_theirs)
{
    job = "timed/job";
    bed_run(0, compare_hand_overs);
}
