/* number.h - strict reading of numbers: the whole text is one number, or it is an error.
 *
 * A token or a seed that is read leniently ("12abc", " 7", "-1") is a bug that shows up as somebody
 * else's data loss, so nothing is skipped, rounded or wrapped. */
#ifndef TN_BASE_NUMBER_H
#define TN_BASE_NUMBER_H

#include <stdint.h>

#include "tenure/error.h"

/* Decimal digits only: no sign, no blanks, no leading zero except "0" itself, at most 2^64 - 1.
 * Returns 0 or TENURE_E_INVALID; on error @ret_value is unchanged. */
TENURE_MUST_USE int tn_u64_parse(const char *text, uint64_t *ret_value);

/* A rate from 0 up to but not including 1, such as "0", "0.1" or "0.000001", into parts per
 * million. At most six decimals, so that the result is exact.
 * Returns 0 or TENURE_E_INVALID; on error @ret_ppm is unchanged. */
TENURE_MUST_USE int tn_ppm_parse(const char *text, uint32_t *ret_ppm);

#endif
