/* loop.h - what to look at before a loop is made. */
#ifndef TN_RUNTIME_LOOP_H
#define TN_RUNTIME_LOOP_H

#include "base/text.h"
#include "tenure/error.h"

/* libuv ends the process when it finds no descriptors for its own pipes, and others fail in ways
 * that do not say why. So look first. Returns 0, or TENURE_E_UNAVAILABLE, told in @reterr. */
TENURE_MUST_USE int tn_loop_check(struct tn_text *reterr);

#endif
