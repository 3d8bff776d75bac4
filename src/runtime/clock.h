/* clock.h - the only clock that is read: CLOCK_BOOTTIME, which counts suspend.
 *
 * An instant means something only in its domain: one boot of one kernel, seen from one time
 * namespace. Instants that are kept in files carry the domain's name and are compared with no
 * other. Tests bring a clock of their own.
 * Threads: any. Never blocks. */
#ifndef TN_RUNTIME_CLOCK_H
#define TN_RUNTIME_CLOCK_H

#include "tenure/error.h"
#include "tenure/time.h"

/* Enough for a boot id, a namespace and an offset. */
enum { TN_CLOCK_DOMAIN = 128 };

struct tn_clock {
    tenure_ns (*now)(void *arg);
    void *arg;
    char domain[TN_CLOCK_DOMAIN];
};

/* The machine's clock. Returns 0, or TENURE_E_UNSUPPORTED when the boot cannot be told from others:
 * then no instant may be kept in a file. On error @ret_clock is unchanged. */
TENURE_MUST_USE int tn_clock_init(struct tn_clock *ret_clock);

tenure_ns tn_clock_now(const struct tn_clock *clock);

/* CLOCK_BOOTTIME as it is, for who keeps no instants: the runner, also in a forked child. */
tenure_ns tn_boottime(void);

/* Wait for @ns; shorter when a signal arrives. */
void tn_clock_pause(tenure_ns ns);

#endif
