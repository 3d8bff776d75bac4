/* json_fuzz.c - whatever bytes arrive as JSON, the values lie inside them and nest properly. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "wire/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VALUES 256

static struct tn_json_value values[VALUES];

/* Each container spans what it counts, and ends inside the one around it. */
static uint32_t check(uint32_t index, uint32_t count, const char *bytes, size_t size)
{
    const struct tn_json_value *value = &values[index];

    TN_ASSERT(index < count);
    if (value->type == TN_JSON_STRING || value->type == TN_JSON_NUMBER) {
        TN_ASSERT(value->bytes >= bytes);
        TN_ASSERT(value->bytes + value->len <= bytes + size);
    }
    if (value->type != TN_JSON_ARRAY && value->type != TN_JSON_OBJECT) {
        TN_ASSERT(value->next == index + 1);
        return value->next;
    }
    uint32_t at = index + 1;
    uint32_t inside = value->type == TN_JSON_OBJECT ? 2 * value->count : value->count;
    for (uint32_t i = 0; i < inside; i++)
        at = check(at, count, bytes, size);
    TN_ASSERT(at == value->next);
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1);

    TN_ASSERT(copy != NULL);
    memcpy(copy, data, size);
    int count = tn_json_read(copy, size, values, VALUES);
    TN_ASSERT(count <= VALUES);
    if (count > 0)
        TN_ASSERT(check(0, (uint32_t)count, copy, size) == (uint32_t)count);
    free(copy);
    return 0;
}
