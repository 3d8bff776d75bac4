/* order.c - the orders of order.h. */
#include "runtime/order.h"

#include <string.h>

#include "base/number.h"
#include "wire/json.h"

bool tn_order_read(char *json, size_t len, char ret_name[TN_NAME_MAX + 1], uint64_t *ret_token)
{
    struct tn_json_value values[16];
    const char *why;
    char digits[24];

    return tn_json_read(json, len, values, 16) > 0 && values[0].type == TN_JSON_OBJECT &&
           values[0].count == 2 &&
           tn_json_text(values, values, "name", ret_name, TN_NAME_MAX + 1) &&
           tn_name_check(ret_name, strlen(ret_name), &why) == 0 &&
           tn_json_text(values, values, "token", digits, sizeof digits) &&
           tn_u64_parse(digits, ret_token) == 0;
}
