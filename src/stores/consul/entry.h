/* entry.h - a key of Consul as a row.
 *
 *   PREFIX/NAME/.lock   Flags 0x2ddccbc058a50c18, Session of the holder, Value as in rows/json.h
 *
 * Key and Flags are those of `consul lock PREFIX/NAME` and api.Lock: all contend. A key that no
 * session has is free, whatever is in its Value. A Value that is not of the session that has the
 * key is ignored: the holder is a client of another kind. Threads: any. Memory: the caller's. */
#ifndef TN_STORES_CONSUL_ENTRY_H
#define TN_STORES_CONSUL_ENTRY_H

#include "stores/rows/json.h"

#define TN_CONSUL_LOCK ".lock"
#define TN_CONSUL_FLAGS "3304740253564472344"

/* A key as it was read. The label is in it. */
struct tn_consul_entry {
    struct tn_row row;
    char key[2 * TN_NAME_MAX + 16];
    char version[TN_ROW_VERSION];
    char label[TN_LABEL_MAX + 1];
};

/* The entry in the JSON object at @index. Returns 0; TENURE_E_DAMAGED: it is none;
 * TENURE_E_UNSUPPORTED: another recipe (a semaphore) uses the key, or a later version of ours. */
TENURE_MUST_USE int tn_consul_read_entry(const struct tn_json_value *values, uint32_t index,
                                         struct tn_consul_entry *ret_entry);

#endif
