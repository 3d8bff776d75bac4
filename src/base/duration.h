/* duration.h - durations as people write them: a decimal number and a unit.
 *
 * The unit is mandatory: "15" has meant seconds to one program and milliseconds to the next. */
#ifndef TN_BASE_DURATION_H
#define TN_BASE_DURATION_H

#include <stddef.h>

#include "tenure/error.h"
#include "tenure/time.h"

/* Enough for any result of tn_duration_format. */
enum { TN_DURATION_TEXT = 32 };

/* Digits, optionally a point and one to nine more digits, then ms, s, m or h: "15s", "0.5h",
 * "250ms". No sign, no blanks. The value must be a whole number of nanoseconds; zero is allowed.
 * Returns 0 or TENURE_E_INVALID; on error @ret_ns is unchanged. */
TENURE_MUST_USE int tn_duration_parse(const char *text, tenure_ns *ret_ns);

/* Below one second in ms, otherwise in s; up to three decimals, the rest cut off, trailing zeros
 * dropped: "0ms", "0.25ms", "250ms", "12.273s", "90s". A negative span gets a minus sign, because
 * differences are shown too. The result is cut off if @size is below TN_DURATION_TEXT. */
void tn_duration_format(char *buf, size_t size, tenure_ns ns);

#endif
