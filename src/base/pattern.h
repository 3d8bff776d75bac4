/* pattern.h - one pattern language for names, in the ACL and on the command line.
 *
 *   jobs/mailer   this name
 *   jobs/STAR     all names below "jobs/", at any depth; not "jobs" itself
 *   STAR          all names
 *
 * STAR is '*', which ends a comment here when it follows '/'. It stands for whole segments. */
#ifndef TN_BASE_PATTERN_H
#define TN_BASE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/name.h"

/* Room for the longest pattern, with the zero byte behind it. */
enum { TN_PATTERN_SIZE = TN_NAME_MAX + 3 };

/* Whether @text is a pattern. If not, @reterr, unless NULL, points at a static reason. */
bool tn_pattern_check(const char *text, const char **reterr);

/* Whether @pattern covers the name or narrower pattern @name. */
bool tn_pattern_covers(const char *pattern, const char *name, size_t len);

#endif
