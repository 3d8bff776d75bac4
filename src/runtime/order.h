/* order.h - what an operator's page asks for, by POST: {"name":...,"token":...}. */
#ifndef TN_RUNTIME_ORDER_H
#define TN_RUNTIME_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/name.h"

/* Changes @json. False: it is not such an object, the name is none, or something else is in it. */
bool tn_order_read(char *json, size_t len, char ret_name[TN_NAME_MAX + 1], uint64_t *ret_token);

#endif
