/* time.h - the one type for instants and spans of time.
 *
 * Nanoseconds, signed. An instant counts from an arbitrary start of the clock it was read from, so
 * instants of two clocks are never compared. */
#ifndef TENURE_TIME_H
#define TENURE_TIME_H

#include <stdint.h>

typedef int64_t tenure_ns;

#endif
