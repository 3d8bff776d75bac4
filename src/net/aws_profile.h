/* aws_profile.h - the settings of a profile in the files that the AWS tools share.
 *
 * ~/.aws/config names a profile [profile NAME], ~/.aws/credentials names it [NAME]; [default] is
 * spelled alike in both. Pure. Threads: any. */
#ifndef TN_NET_AWS_PROFILE_H
#define TN_NET_AWS_PROFILE_H

#include <stdbool.h>
#include <stddef.h>

/* The value of @key in @text, which is such a file; @config tells which of the two. False: it is
 * not there, or does not fit. @ret_value is left alone then. */
bool tn_aws_profile_get(const char *text, bool config, const char *profile, const char *key,
                        char *ret_value, size_t size);

/* Whether there is such a profile at all. */
bool tn_aws_profile_exists(const char *text, bool config, const char *profile);

#endif
