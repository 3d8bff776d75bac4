/* forks.c - fork() waits until no thread of ours is at work; forks.h says why.
 *
 * The lock is held from the last look to the end of fork(), in parent and child: nobody begins in
 * between. What can fail: a disk or a receiver that does not answer keeps a thread at work. Then
 * fork() goes on after FORK_WAIT, as it would without us: better a child that may hang than a
 * parent that does. */
#include "lib/forks.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "base/assert.h"

enum { FORK_WAIT_S = 1 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended;
static unsigned at_work;           /* Threads. */
static unsigned forking;           /* The same, that wait for the others. */
static _Thread_local bool working; /* This one is at work. */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int once_rc;

static unsigned others(void)
{
    return at_work - (working ? 1 : 0);
}

static void forks_wait(void)
{
    struct timespec by;

    (void)pthread_mutex_lock(&lock);
    (void)clock_gettime(CLOCK_MONOTONIC, &by);
    by.tv_sec += FORK_WAIT_S;
    forking++;
    while (others() > 0 && pthread_cond_timedwait(&ended, &lock, &by) == 0)
        ;
    forking--;
}

static void forks_go_on(void)
{
    (void)pthread_mutex_unlock(&lock);
}

/* Only the thread that has forked is left. */
static void forks_begin_anew(void)
{
    at_work = working ? 1 : 0;
    forking = 0;
    (void)pthread_mutex_unlock(&lock);
}

static void forks_register(void)
{
    pthread_condattr_t attr;

    once_rc = TENURE_E_NOMEM;
    if (pthread_condattr_init(&attr) != 0)
        return;
    if (pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
        pthread_cond_init(&ended, &attr) == 0 &&
        pthread_atfork(forks_wait, forks_go_on, forks_begin_anew) == 0)
        once_rc = 0;
    (void)pthread_condattr_destroy(&attr);
}

int tn_forks_init(void)
{
    (void)pthread_once(&once, forks_register);
    return once_rc;
}

void tn_work_begin(void)
{
    (void)pthread_mutex_lock(&lock);
    TN_ASSERT(!working);
    working = true;
    at_work++;
    (void)pthread_mutex_unlock(&lock);
}

void tn_work_end(void)
{
    (void)pthread_mutex_lock(&lock);
    TN_ASSERT(working);
    working = false;
    at_work--;
    if (forking > 0)
        (void)pthread_cond_broadcast(&ended);
    (void)pthread_mutex_unlock(&lock);
}
