/* random.c - getrandom, repeated until it has given all. */
#include "runtime/random.h"

#include <errno.h>
#include <sys/random.h>

int tn_random_secret(struct tn_secret *ret_secret)
{
    struct tn_secret secret = { { 0 } };

    while (tn_secret_is_zero(&secret)) {
        /* Up to 256 bytes come whole or not at all. */
        ssize_t len = getrandom(&secret, sizeof secret, 0);
        if (len < 0 && errno == EINTR)
            continue;
        if (len != (ssize_t)sizeof secret)
            return TENURE_E_UNSUPPORTED;
    }
    *ret_secret = secret;
    return 0;
}
