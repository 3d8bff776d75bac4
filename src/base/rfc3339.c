/* rfc3339.c - there and back by the C library; rfc3339.h has the format. */
#define _GNU_SOURCE /* timegm */
#include "base/rfc3339.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

bool tn_rfc3339_parse(const char *text, int64_t *ret_seconds)
{
    struct tm parts = { 0 };
    char rest = '\0';

    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%c", &parts.tm_year, &parts.tm_mon, &parts.tm_mday,
               &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &rest) != 7 ||
        (rest != 'Z' && rest != '.'))
        return false;
    parts.tm_year -= 1900;
    parts.tm_mon -= 1;
    *ret_seconds = (int64_t)timegm(&parts);
    return true;
}

void tn_rfc3339_format(int64_t seconds, uint32_t micros, char ret_text[TN_RFC3339])
{
    time_t instant = (time_t)seconds;
    struct tm parts = { 0 };
    char whole[24] = "";

    (void)gmtime_r(&instant, &parts);
    (void)strftime(whole, sizeof whole, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(ret_text, TN_RFC3339, "%s.%06" PRIu32 "Z", whole, micros % 1000000);
}
