/* entry.c - keys of Consul as rows; entry.h. */
#include "stores/consul/entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/time.h"

#define SEMAPHORE_FLAGS "16210313421097356768"
#define STRANGER_TTL TN_SEC(15) /* Of `consul lock` and api.Lock, unless told otherwise. */

/* What our Value says of a key that @owner has, or nobody. */
static int read_value(const struct tn_json_value *value, const char *owner,
                      struct tn_consul_entry *entry)
{
    size_t len = 0;
    char *body = value != NULL && value->type == TN_JSON_STRING
                     ? tn_base64_decode(value->bytes, value->len, &len)
                     : NULL;
    struct tn_row row;
    int rc = body != NULL ? tn_row_json_read(body, len, &row, entry->label) : TENURE_E_DAMAGED;

    free(body);
    if (rc < 0)
        return rc;
    entry->row.floor = row.floor; /* Counts, whoever has the key by now. */
    if (owner[0] != '\0' && strcmp(owner, row.owner) != 0)
        return TENURE_E_DAMAGED;
    entry->row = row;
    return 0;
}

int tn_consul_read_entry(const struct tn_json_value *values, uint32_t index,
                         struct tn_consul_entry *ret_entry)
{
    struct tn_row *row = &ret_entry->row;
    char owner[TN_ROW_OWNER], flags[24];

    memset(ret_entry, 0, sizeof *ret_entry);
    if (!tn_json_copy(tn_json_get(values, index, "Key"), ret_entry->key, sizeof ret_entry->key) ||
        !tn_json_copy(tn_json_get(values, index, "Session"), owner, sizeof owner) ||
        !tn_json_copy(tn_json_get(values, index, "Flags"), flags, sizeof flags) ||
        !tn_json_copy(tn_json_get(values, index, "ModifyIndex"), ret_entry->version,
                      sizeof ret_entry->version) ||
        ret_entry->key[0] == '\0' || ret_entry->version[0] == '\0')
        return TENURE_E_DAMAGED;
    row->minted = true;
    int rc = read_value(tn_json_get(values, index, "Value"), owner, ret_entry);
    if (rc == TENURE_E_UNSUPPORTED || strcmp(flags, SEMAPHORE_FLAGS) == 0)
        return TENURE_E_UNSUPPORTED;
    if (rc < 0 && owner[0] != '\0') { /* Only the session's id is known of the holder. */
        row->ttl = STRANGER_TTL;
        row->label = ret_entry->label;
        row->label_len = (uint32_t)snprintf(ret_entry->label, sizeof ret_entry->label,
                                            "consul session %s", owner);
    }
    row->held = owner[0] != '\0';
    row->revoked = row->revoked && row->held;
    memcpy(row->owner, owner, sizeof owner);
    return 0;
}
