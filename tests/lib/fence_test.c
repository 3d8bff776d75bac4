/* fence_test.c - P4: the fences of a campaign are up before anybody hears that it was won. */
#define _GNU_SOURCE /* mkdtemp */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "tenure/fence_file.h"
#include "tests/lib/stage.h"

static char folder[] = "/tmp/tenure-lib-......";
static char path[64], beside[80], url[80];

static void set_up(void)
{
    (void)snprintf(folder, sizeof folder, "/tmp/tenure-lib-......");
    memset(strchr(folder, '.'), 'X', 6); /* What mkdtemp replaces. */
    CHECK(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof path, "%s/journal", folder);
    (void)snprintf(beside, sizeof beside, "%s.fence", path);
    (void)snprintf(url, sizeof url, "file:%s", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    (void)close(fd);
}

static void tear_down(void)
{
    (void)unlink(path);
    (void)unlink(beside);
    CHECK(rmdir(folder) == 0);
}

static struct tenure_election *campaign_fenced(struct tenure *tenure, struct listener *listener)
{
    const char *fences[] = { url, NULL };
    struct tenure_campaign campaign = { .size = sizeof campaign,
                                        .callback = listener_hear,
                                        .arg = listener,
                                        .flags = TENURE_DRAINED_ON_RETURN,
                                        .fences = fences };
    struct tenure_election *election = NULL;

    CHECK_EQ_I64(tenure_campaign(tenure, "job", &campaign, &election), 0);
    return election;
}

static void look_at_fence(struct listener *listener, struct tenure_election *election,
                          const struct tenure_event *event)
{
    uint64_t highest = 0;

    (void)election;
    if (event->kind == TENURE_WON &&
        (tenure_fence_file_highest(path, &highest) != 0 || highest != event->token))
        listener->broken = "WON before the fence was up";
}

TEST(the_fence_stands_at_the_token_when_won_is_told)
{
    struct listener *one = listener_new();

    set_up();
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    one->also = look_at_fence;
    struct tenure_election *election = campaign_fenced(tenure, one);
    for (unsigned term = 1; term <= 5; term++) {
        CHECK(listener_waits(one, TENURE_WON, term));
        CHECK_EQ_I64(tenure_drained(election), 0);
    }
    CHECK_EQ_I64(tenure_close(tenure), 0);
    tear_down();
}

/* What the store's data being older is told as, once for all the grants that are refused. */
static void look_at_refusal(struct listener *listener, struct tenure_election *election,
                            const struct tenure_event *event)
{
    (void)election;
    if (event->kind != TENURE_REFUSED)
        return;
    if (strstr(event->detail, "token 1000000 was seen before: the store went back") == NULL ||
        strstr(event->detail, "raise its counter") == NULL)
        listener->broken = "REFUSED without a reason and what to do";
}

TEST(a_fence_that_stands_higher_refuses_the_grant)
{
    struct listener *one = listener_new();

    set_up();
    CHECK_EQ_I64(tenure_fence_file_raise(path, 1000000, TN_SEC(5)), 0);
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    one->also = look_at_refusal;
    struct tenure_election *election = campaign_fenced(tenure, one);
    CHECK(listener_waits(one, TENURE_REFUSED, 1));
    CHECK_EQ_I64(listener_last(one, TENURE_REFUSED).reason, TENURE_REASON_TOKEN_REGRESSED);
    /* Each grant is refused, and given back. */
    tenure_ns by = tn_boottime() + STAGE_PATIENCE;
    while (stage_sent(TN_OP_RELEASE) < 3 && tn_boottime() < by)
        tn_clock_pause(TN_MS(1));
    CHECK(stage_sent(TN_OP_RELEASE) >= 3);
    CHECK_EQ_U64(listener_count(one, TENURE_REFUSED), 1);
    CHECK_EQ_U64(tenure_token(election), 0);
    CHECK_EQ_U64(listener_count(one, TENURE_WON), 0);
    CHECK_EQ_I64(tenure_close(tenure), 0);
    tear_down();
}

/* Somebody keeps the file busy, so a thread of ours waits at it: whoever leaves or closes then must
 * neither free what it uses nor wait for ever. */
static void leave_while_raising(bool only_close)
{
    struct listener *one = listener_new();

    set_up();
    CHECK_EQ_I64(tenure_fence_file_raise(path, 1, TN_SEC(5)), 0);
    int busy = open(beside, O_RDWR | O_CLOEXEC);
    CHECK(busy >= 0 && flock(busy, LOCK_EX) == 0);
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    struct tenure_election *election = campaign_fenced(tenure, one);
    tenure_ns by = tn_boottime() + STAGE_PATIENCE;
    while (stage_sent(TN_OP_ACQUIRE) == 0 && tn_boottime() < by)
        tn_clock_pause(TN_MS(1));
    tn_clock_pause(TN_MS(20)); /* Granted and at the fence by now, or this shows less. */
    CHECK_EQ_U64(tenure_token(election), 0);
    if (!only_close)
        tenure_leave(election);
    CHECK_EQ_I64(tenure_close(tenure), 0);
    CHECK_EQ_U64(listener_count(one, TENURE_WON), 0);
    CHECK(tn_boottime() < by);
    (void)close(busy);
    tear_down();
}

TEST(leaving_while_the_fence_goes_up)
{
    leave_while_raising(false);
}

TEST(closing_while_the_fence_goes_up)
{
    leave_while_raising(true);
}

TEST(a_fence_that_is_missing_is_not_made)
{
    struct listener *one = listener_new();

    set_up();
    CHECK_EQ_I64(unlink(path), 0);
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    struct tenure_election *election = campaign_fenced(tenure, one);
    CHECK(listener_waits(one, TENURE_REFUSED, 1));
    CHECK_EQ_I64(listener_last(one, TENURE_REFUSED).reason, TENURE_REASON_FENCE);
    CHECK_EQ_U64(tenure_token(election), 0);
    CHECK_EQ_U64(listener_count(one, TENURE_WON), 0);
    CHECK_EQ_I64(tenure_close(tenure), 0);
    CHECK(access(beside, F_OK) != 0);
    tear_down();
}

TEST(a_fence_that_is_none_is_refused)
{
    const char *fences[] = { "no-such-scheme:x#y", NULL };
    struct tenure_campaign campaign = { .size = sizeof campaign, .fences = fences };
    struct tenure_election *election = NULL;
    struct tenure *tenure = stage_open(stage_url(), "a", 0);

    int rc = tenure_campaign(tenure, "job", &campaign, &election);
    CHECK(rc == TENURE_E_INVALID || rc == TENURE_E_UNSUPPORTED);
    CHECK(election == NULL);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}
