/* rfc3339.h - instants as other programs write them, in UTC: "2026-11-17T22:36:09.000000Z". */
#ifndef TN_BASE_RFC3339_H
#define TN_BASE_RFC3339_H

#include <stdbool.h>
#include <stdint.h>

enum { TN_RFC3339 = 40 };

/* Whole seconds since 1970, a fraction left out; false: it is no such text. */
bool tn_rfc3339_parse(const char *text, int64_t *ret_seconds);
/* With six digits behind the seconds, as Kubernetes' MicroTime wants them. */
void tn_rfc3339_format(int64_t seconds, uint32_t micros, char ret_text[TN_RFC3339]);

#endif
