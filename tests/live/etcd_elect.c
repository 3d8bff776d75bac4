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

/* One etcdctl that campaigns: prints its key and its value when it leads. */
struct rival {
    pid_t pid;
    int out;
    char said[512];
    size_t len;
    tenure_ns led_at;
};

static struct rival spawn_rival(const char *value)
{
    struct rival rival = { 0 };
    int ends[2];
    char key[64];

    (void)snprintf(key, sizeof key, "both/%s", job);
    CHECK_EQ_I64(pipe2(ends, O_CLOEXEC), 0);
    (void)fflush(stdout);
    rival.pid = fork();
    CHECK(rival.pid >= 0);
    if (rival.pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)setenv("ETCDCTL_API", "3", 1);
        (void)execlp("etcdctl", "etcdctl", "--endpoints", getenv("TENURE_ETCDCTL_ENDPOINT"),
                     "elect", key, value, (char *)NULL);
        _exit(127);
    }
    (void)close(ends[1]);
    (void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
    rival.out = ends[0];
    return rival;
}

static bool leads(void *arg)
{
    struct rival *rival = arg;
    ssize_t got = read(rival->out, rival->said + rival->len, sizeof rival->said - rival->len - 1);

    if (got > 0)
        rival->len += (size_t)got;
    if (rival->led_at == 0 && memchr(rival->said, '\n', rival->len) != NULL)
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

/* The hand-over between two of theirs and between two of ours, in one run. */
static void compare_hand_overs(void)
{
    enum { TIMES = 20 };
    struct bed_store *store = bed_open();
    struct bed_actor actors[2] = { bed_actor(store, TTL), bed_actor(store, TTL) };
    tenure_ns theirs = 0, ours = 0;

    struct rival leader = spawn_rival("leader");
    CHECK(bed_until(leads, &leader, BED_BOUND));
    for (int i = 0; i < TIMES; i++) {
        struct rival next = spawn_rival("next");
        await_keys(2);
        tenure_ns before = bed_now();
        CHECK_EQ_I64(kill(leader.pid, SIGINT), 0);
        CHECK(bed_until(leads, &next, BED_BOUND));
        theirs += next.led_at - before;
        end_rival(&leader);
        leader = next;
    }
    end_rival(&leader);
    await_keys(0);
    CHECK_EQ_I64(bed_acquire(&actors[0], job, true)->answer, TN_ANSWER_GRANTED);
    for (int i = 0; i < TIMES; i++) {
        struct bed_actor *now = &actors[i % 2], *next = &actors[(i + 1) % 2];
        bed_new_term(next);
        CHECK_EQ_I64(bed_acquire(next, job, true)->answer, TN_ANSWER_QUEUED);
        tenure_ns before = bed_now();
        CHECK_EQ_I64(bed_release(now, job, now->token)->answer, TN_ANSWER_RELEASED);
        CHECK(bed_is_granted(next, job, BED_BOUND));
        ours += bed_now() - before;
    }
    printf("hand-over after a resign: etcdctl %d us, ours %d us on average\n",
           (int)(theirs / TIMES / 1000), (int)(ours / TIMES / 1000));
    CHECK(ours * 10 <= theirs * 13);
}

TEST(a_hand_over_takes_no_longer_than_theirs)
{
    job = "timed/job";
    bed_run(0, compare_hand_overs);
}
