/* random.h - secrets from the kernel. Everything else that looks random comes from base/prng.h. */
#ifndef TN_RUNTIME_RANDOM_H
#define TN_RUNTIME_RANDOM_H

#include "base/secret.h"
#include "tenure/error.h"

/* A fresh secret, never all zero. Blocks only in the first seconds of a machine's life.
 * Returns 0 or TENURE_E_UNSUPPORTED; on error @ret_secret is unchanged. Threads: any. */
TENURE_MUST_USE int tn_random_secret(struct tn_secret *ret_secret);

#endif
