/* crew.c - many seeds on all cores. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "sim/run.h"

struct crew {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t next, end;
    uint32_t working;
    const char *stop_at;
    struct sim_totals totals;
};

static void add_stats(struct sim_stats *sum, const struct sim_stats *more)
{
    sum->events += more->events;
    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++)
        sum->faults[i] += more->faults[i];
    sum->terms += more->terms;
    sum->losses += more->losses;
    sum->refusals += more->refusals;
    sum->writes += more->writes;
    sum->refused_writes += more->refused_writes;
    sum->harm += more->harm;
    sum->lease_us += more->lease_us;
}

/* Sums do not depend on the order, and the lowest seed is told: the same result on any number of
 * threads. */
static void hand_in(struct crew *crew, const struct sim_world *world, uint64_t seed)
{
    struct sim_totals *totals = &crew->totals;
    add_stats(&totals->stats, &world->stats);
    totals->seeds++;
    if (world->violation.promise == NULL ||
        (crew->stop_at != NULL && strcmp(world->violation.promise, crew->stop_at) != 0))
        return;
    if (totals->violations++ == 0 || seed < totals->first_seed) {
        totals->first_seed = seed;
        totals->first = world->violation;
    }
    if (crew->stop_at != NULL)
        crew->end = crew->next;
}

static void *work(void *arg)
{
    struct crew *crew = arg;
    struct sim_world world = { 0 };

    (void)pthread_mutex_lock(&crew->lock);
    while (crew->next < crew->end) {
        uint64_t seed = crew->next++;
        (void)pthread_mutex_unlock(&crew->lock);
        sim_run_seed(&world, seed);
        (void)pthread_mutex_lock(&crew->lock);
        hand_in(crew, &world, seed);
    }
    crew->working--;
    (void)pthread_cond_signal(&crew->changed);
    (void)pthread_mutex_unlock(&crew->lock);
    sim_world_free(&world);
    return NULL;
}

static double seconds_since(const struct timespec *start)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + (double)(now.tv_nsec - start->tv_nsec) / 1e9;
}

static void oversee(struct crew *crew, uint64_t count,
                    void (*progress)(uint64_t done, uint64_t count, void *arg), void *arg)
{
    (void)pthread_mutex_lock(&crew->lock);
    while (crew->working > 0) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 100000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        (void)pthread_cond_timedwait(&crew->changed, &crew->lock, &until);
        if (progress != NULL)
            progress(crew->totals.seeds, count, arg);
    }
    (void)pthread_mutex_unlock(&crew->lock);
}

void sim_run_many(uint64_t from, uint64_t count, uint32_t threads, const char *stop_at,
                  void (*progress)(uint64_t done, uint64_t count, void *arg), void *arg,
                  struct sim_totals *ret_totals)
{
    struct crew crew = { .next = from, .end = from + count, .stop_at = stop_at };
    pthread_t ids[64];
    struct timespec start;
    uint32_t started = 0;

    sim_guard();
    (void)pthread_mutex_init(&crew.lock, NULL);
    (void)pthread_cond_init(&crew.changed, NULL);
    (void)clock_gettime(CLOCK_MONOTONIC, &start);
    if (threads > 64)
        threads = 64;
    crew.working = threads;
    while (started < threads && pthread_create(&ids[started], NULL, work, &crew) == 0)
        started++;
    (void)pthread_mutex_lock(&crew.lock);
    crew.working -= threads - started;
    (void)pthread_mutex_unlock(&crew.lock);
    if (started == 0) {
        crew.working = 1;
        (void)work(&crew);
    }
    oversee(&crew, count, progress, arg);
    for (uint32_t i = 0; i < started; i++)
        (void)pthread_join(ids[i], NULL);
    crew.totals.seconds = seconds_since(&start);
    (void)pthread_cond_destroy(&crew.changed);
    (void)pthread_mutex_destroy(&crew.lock);
    *ret_totals = crew.totals;
}
