/* descriptors_test.c - too few descriptors: told by tenure_open, and nothing is left behind. */
#define _GNU_SOURCE /* mkdtemp */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "runtime/clock.h"
#include "tenure/tenure.h"
#include "tests/harness/test.h"

enum { SPARE_MOST = 64 };

/* What a process says by its exit status. */
enum outcome { LED, TOLD, NO_LIMIT, NO_LEADER, WRONG_CODE, LEAKED };

static int count_open(int end)
{
    int count = 0;

    for (int fd = 0; fd < end; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static enum outcome lead(struct tenure *tenure)
{
    struct tenure_election *election = NULL;
    tenure_ns by = tn_boottime() + TN_SEC(20);

    if (tenure_campaign(tenure, "job", NULL, &election) != 0)
        return WRONG_CODE;
    while (tenure_token(election) == 0 && tn_boottime() < by)
        tn_clock_pause(TN_MS(1));
    bool led = tenure_token(election) != 0;
    return tenure_close(tenure) == 0 && led ? LED : NO_LEADER;
}

static enum outcome open_and_lead(const char *url)
{
    struct tenure_options options = { .size = sizeof options, .ttl = TN_SEC(1) };
    struct tenure_error error = { 0 };
    struct tenure *tenure = NULL;
    int rc = tenure_open(url, &options, &tenure, &error);

    if (rc == 0)
        return lead(tenure);
    return rc == TENURE_E_UNAVAILABLE && tenure == NULL && error.text[0] != '\0' ? TOLD
                                                                                 : WRONG_CODE;
}

/* In a process of its own, which may open @spare descriptors more. */
static enum outcome open_with(int spare, const char *url)
{
    int end = dup(0) + spare;
    struct rlimit few = { (rlim_t)end, (rlim_t)end };

    (void)close(end - spare);
    int before = count_open(end);
    if (setrlimit(RLIMIT_NOFILE, &few) != 0)
        return NO_LIMIT;
    enum outcome outcome = open_and_lead(url);
    if (outcome == LED) { /* libuv keeps a few for good, from the first time on. */
        before = count_open(end);
        outcome = open_and_lead(url);
    }
    return count_open(end) == before ? outcome : LEAKED;
}

/* One more at a time, until there are enough. */
static void starve(const char *url)
{
    int outcome = TOLD, spare = 0, status;

    for (; outcome == TOLD; spare++) {
        CHECK(spare < SPARE_MOST);
        pid_t child = fork();
        if (child == 0)
            _exit((int)open_with(spare, url));
        CHECK(child > 0);
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status));
        outcome = WEXITSTATUS(status);
        if (outcome != TOLD && outcome != LED)
            printf("with %d descriptors: outcome %d\n", spare, outcome);
    }
    CHECK_EQ_I64(outcome, LED);
    CHECK(spare > 3); /* It takes some. */
}

TEST(each_descriptor_that_is_missing_is_told)
{
    starve("memory:descriptors");
}

TEST(each_descriptor_that_is_missing_is_told_on_sqlite)
{
    char dir[] = "/tmp/tenure-torture-......", url[64], command[64];

    memset(strchr(dir, '.'), 'X', 6); /* What mkdtemp replaces. */
    CHECK(mkdtemp(dir) != NULL);
    (void)snprintf(url, sizeof url, "sqlite:%s/db", dir);
    starve(url);
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    CHECK_EQ_I64(system(command), 0);
}
