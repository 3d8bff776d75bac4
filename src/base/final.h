/* final.h - errors that asking again does not mend: somebody has to change something first. */
#ifndef TN_BASE_FINAL_H
#define TN_BASE_FINAL_H

#include <stdbool.h>

#include "tenure/error.h"

/* Here, so that the core calls nothing. */
static inline bool tn_error_is_final(int code)
{
    return code == TENURE_E_INVALID || code == TENURE_E_DENIED || code == TENURE_E_UNSUPPORTED ||
           code == TENURE_E_DAMAGED;
}

#endif
