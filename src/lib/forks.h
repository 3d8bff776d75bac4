/* forks.h - fork() waits until no thread of ours is at work.
 *
 * SQLite, libcurl and others have locks of the whole process. A child that is forked while another
 * thread holds one of these can never take it, so the handle that it opens would hang for ever.
 * Each thread of the library therefore says when it is at work, and fork() waits for a moment at
 * which none is. */
#ifndef TN_LIB_FORKS_H
#define TN_LIB_FORKS_H

#include "tenure/error.h"

/* Before the first tn_work_begin; again is fine. */
TENURE_MUST_USE int tn_forks_init(void);

/* This thread may take such locks until tn_work_end. It may fork itself. Not nested. */
void tn_work_begin(void);
void tn_work_end(void);

#endif
