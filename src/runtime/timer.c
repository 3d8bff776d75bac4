/* timer.c - a timerfd on CLOCK_BOOTTIME. */
#define _GNU_SOURCE
#include "runtime/timer.h"

#include <sys/timerfd.h>
#include <time.h>

#include "base/assert.h"
#include "base/time.h"

int tn_timer_open(void)
{
    return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

void tn_timer_arm(int timer, tenure_ns when)
{
    struct itimerspec spec = { 0 };

    if (when != TN_NEVER) {
        /* All zero would disarm it. */
        tenure_ns at = when > 0 ? when : 1;

        spec.it_value.tv_sec = (time_t)(at / TN_SEC(1));
        spec.it_value.tv_nsec = (long)(at % TN_SEC(1));
    }
    int rc = timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, NULL);
    TN_ASSERT(rc == 0);
}
