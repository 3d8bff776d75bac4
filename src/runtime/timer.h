/* timer.h - a timer on the clock of clock.h, as a descriptor for a loop.
 *
 * libuv's own timers count CLOCK_MONOTONIC, which stands still in suspend, and in milliseconds.
 * Both calls may be made in a child forked from a process with threads. */
#ifndef TN_RUNTIME_TIMER_H
#define TN_RUNTIME_TIMER_H

#include "tenure/time.h"

/* Not armed, non-blocking, close-on-exec; -1 with errno. A timer whose instant fell into a suspend
 * fires on resume. */
int tn_timer_open(void);

/* Fire at @when, at once if it has passed; TN_NEVER disarms. */
void tn_timer_arm(int timer, tenure_ns when);

#endif
