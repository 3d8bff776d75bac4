/* time.h - spans of time as constants, and the instant that never comes.
 *
 * The arguments are plain integers; the products are not checked, so they are for constants and
 * for values whose range was checked before. */
#ifndef TN_BASE_TIME_H
#define TN_BASE_TIME_H

#include "tenure/time.h"

#define TN_US(x) ((tenure_ns)(x)*1000)
#define TN_MS(x) ((tenure_ns)(x)*1000000)
#define TN_SEC(x) ((tenure_ns)(x)*1000000000)

/* Later than any instant: "no deadline". */
#define TN_NEVER INT64_MAX

#endif
