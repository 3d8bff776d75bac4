/* many_test.c - ten thousand elections in one session: one thread, little memory, one renewal. */
#define _GNU_SOURCE
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/clock.h"
#include "tests/lib/stage.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

enum { MANY = 10000, BYTES_EACH = 1024 };

static struct tenure_election *elections[MANY];

static unsigned count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    unsigned count = 0;

    CHECK(tasks != NULL);
    for (struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        count += entry->d_name[0] != '.';
    (void)closedir(tasks);
    return count;
}

static size_t heap_used(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* A sanitizer starts a thread of its own together with the first of ours. */
static unsigned count_threads_before(void)
{
    CHECK_EQ_I64(tenure_close(stage_open(stage_url(), "first", TENURE_OWN_LOOP)), 0);
    return count_threads();
}

TEST(ten_thousand_elections_share_one_thread_and_one_renewal)
{
    unsigned threads = count_threads_before();
    struct tenure_options options = { .size = sizeof options,
                                      .ttl = TN_SEC(SANITIZED ? 60 : 3),
                                      .flags = TENURE_OWN_LOOP };
    struct tenure *tenure = NULL;
    char name[32];

    CHECK_EQ_I64(tenure_open(stage_url(), &options, &tenure, NULL), 0);
    CHECK_EQ_U64(count_threads(), threads + 1);
    struct tenure_election *first = stage_campaign(tenure, "first", 0, NULL);
    CHECK(stage_leads(first, true));
    size_t before = heap_used();
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "many/%u", i);
        elections[i] = stage_campaign(tenure, name, 0, NULL);
    }
    for (unsigned i = 0; i < MANY; i++)
        CHECK(stage_leads(elections[i], true));
    /* What is on its way is not the elections': wait until nothing is. */
    tenure_ns by = tn_boottime() + STAGE_PATIENCE;
    while (heap_used() > before + (size_t)MANY * BYTES_EACH && tn_boottime() < by)
        tn_clock_pause(TN_MS(1));
    if (!SANITIZED)
        CHECK(heap_used() - before <= (size_t)MANY * BYTES_EACH);
    CHECK_EQ_U64(count_threads(), threads + 1);
    /* Every second, or somewhat sooner. */
    unsigned renewals = stage_sent(TN_OP_RENEW), acquires = stage_sent(TN_OP_ACQUIRE);
    tenure_ns until = tn_boottime() + TN_MS(2500);
    while (tn_boottime() < until) {
        for (unsigned i = 0; i < MANY; i += 100)
            CHECK(tenure_token(elections[i]) != 0);
        tn_clock_pause(TN_MS(1));
    }
    renewals = stage_sent(TN_OP_RENEW) - renewals;
    CHECK(renewals >= 1 || SANITIZED);
    CHECK(renewals <= 10);
    CHECK_EQ_U64(stage_sent(TN_OP_ACQUIRE), acquires);
    CHECK_EQ_I64(tenure_close(tenure), 0);
    CHECK_EQ_U64(count_threads(), threads);
}

TEST(callbacks_take_one_thread_more)
{
    unsigned threads = count_threads_before();
    struct tenure *tenure = stage_open(stage_url(), "a", 0);

    CHECK_EQ_U64(count_threads(), threads + 2);
    CHECK_EQ_I64(tenure_close(tenure), 0);
    CHECK_EQ_U64(count_threads(), threads);
}
