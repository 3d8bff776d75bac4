/* names.c - names as paths, candidates as nodes, and what is remembered of a name.
 *
 * A candidate's node is Curator's: "_c_" and a UUID, "-latch-", ten digits from the server. Ours
 * have the hash of the term's secret for a UUID, so after a lost reply the node is found again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "stores/zookeeper/private.h"

/* How many names nobody has an interest in are remembered. */
enum { NAMES_IDLE = 4096 };

static const char marker[] = "latch-";
static const char note[] = "token=";

/* --- Paths ------------------------------------------------------------------------------------ */

void tn_zk_path_of(const struct tn_zk_store *store, const char *name, const char *node,
                   char *ret_path)
{
    int len = snprintf(ret_path, TN_ZK_PATH_MAX, "%s%s%s%s%s", store->url.chroot,
                       name[0] != '\0' ? "/" : "", name, node != NULL ? "/" : "",
                       node != NULL ? node : "");

    TN_ASSERT(len >= 0 && len < TN_ZK_PATH_MAX);
    if (len == 0)
        memcpy(ret_path, "/", 2);
}

bool tn_zk_path_parse(const struct tn_zk_store *store, const char *path, char *ret_name,
                      char *ret_node)
{
    size_t root = strlen(store->url.chroot);
    int64_t seq;

    if (strncmp(path, store->url.chroot, root) != 0 || path[root] != '/')
        return false;
    path += root + 1;
    const char *slash = strrchr(path, '/');
    size_t len = strlen(path);
    ret_node[0] = '\0';
    if (slash != NULL && tn_zk_node_parse(slash + 1, &seq)) {
        len = (size_t)(slash - path);
        memcpy(ret_node, slash + 1, strlen(slash + 1) + 1);
    }
    if (len == 0 || len > TN_NAME_MAX)
        return false;
    memcpy(ret_name, path, len);
    ret_name[len] = '\0';
    return true;
}

/* --- Nodes ------------------------------------------------------------------------------------ */

/* What stands behind the last marker, as Curator has it. */
bool tn_zk_node_parse(const char *node, int64_t *ret_seq)
{
    const char *found = NULL;
    int64_t seq = 0;

    for (const char *at = strstr(node, marker); at != NULL; at = strstr(at + 1, marker))
        found = at;
    if (found == NULL || strlen(node) >= TN_ZK_NODE_MAX)
        return false;
    found += sizeof marker - 1;
    size_t len = strlen(found);
    if (len < 10 || len > 18)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (found[i] < '0' || found[i] > '9')
            return false;
        seq = seq * 10 + (found[i] - '0');
    }
    *ret_seq = seq;
    return true;
}

void tn_zk_node_prefix(const struct tn_secret *term, char *ret_prefix)
{
    struct tn_text text;

    tn_text_init(&text, ret_prefix, TN_ZK_NODE_MAX);
    tn_text_add(&text, "_c_");
    for (size_t i = 0; i < sizeof term->bytes; i++) {
        bool dash = i == 4 || i == 6 || i == 8 || i == 10;
        tn_text_addf(&text, "%s%02x", dash ? "-" : "", term->bytes[i]);
    }
    tn_text_addf(&text, "-%s", marker);
    TN_ASSERT(!tn_text_truncated(&text));
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool tn_zk_node_term(const char *node, struct tn_secret *ret_term)
{
    struct tn_secret term = { { 0 } };
    unsigned digits = 0;

    if (strncmp(node, "_c_", 3) != 0)
        return false;
    for (node += 3; digits < 32; node++) {
        if (*node == '-')
            continue;
        int digit = hex(*node);
        if (digit < 0)
            return false;
        term.bytes[digits / 2] = (uint8_t)(term.bytes[digits / 2] << 4 | digit);
        digits++;
    }
    *ret_term = term;
    return true;
}

const char *tn_zk_first_node(const struct String_vector *children, size_t *ret_count)
{
    const char *first = NULL;
    int64_t lowest = INT64_MAX;
    int64_t seq;

    *ret_count = 0;
    for (int i = 0; i < children->count; i++) {
        if (!tn_zk_node_parse(children->data[i], &seq))
            continue;
        ++*ret_count;
        if (seq < lowest) {
            lowest = seq;
            first = children->data[i];
        }
    }
    return first;
}

/* --- Records ---------------------------------------------------------------------------------- */

bool tn_zk_note_parse(const char *value, int len, uint64_t *ret_token)
{
    uint64_t token = 0;
    int start = (int)sizeof note - 1;

    if (len <= start || len > start + 19 || memcmp(value, note, (size_t)start) != 0)
        return false;
    for (int i = start; i < len; i++) {
        if (value[i] < '0' || value[i] > '9')
            return false;
        token = token * 10 + (uint64_t)(value[i] - '0');
    }
    *ret_token = token;
    return true;
}

void tn_zk_note_token(struct tn_zk_store *store, const char *name, uint64_t token)
{
    struct tn_zk_name *known = tn_zk_name_find(store, name);

    if (known != NULL && token > known->last_token)
        known->last_token = token;
}

static void fill_session(const struct tn_zk_session *session, struct tn_store_record *record)
{
    tenure_ns left = session->expires_at - tn_zk_now(session->store);

    record->ttl = session->ttl;
    record->remaining = left > 0 ? left : 0;
    if (record->remaining > record->ttl)
        record->remaining = record->ttl;
}

/* Only of a node of a living session of our own is the term told: one of a session that is over
 * must not be taken for ours. */
void tn_zk_record_held(struct tn_zk_store *store, const char *node, const struct tn_zk_reply *reply,
                       struct tn_store_record *ret_record)
{
    /* Any change of the holder's node counts as a revocation. */
    struct tn_store_record record = { .held = true,
                                      .revoked = reply->stat->version > 0,
                                      .token = (uint64_t)reply->stat->czxid };

    record.label_len = reply->len > 0 ? (uint32_t)reply->len : 0;
    if (record.label_len > TN_LABEL_MAX)
        record.label_len = TN_LABEL_MAX;
    if (record.label_len > 0)
        memcpy(record.label, reply->value, record.label_len);
    for (struct tn_zk_session *at = store->sessions; at != NULL; at = at->next) {
        if (!at->owner || !at->ever || at->over || at->zh == NULL ||
            zoo_client_id(at->zh)->client_id != reply->stat->ephemeralOwner)
            continue;
        fill_session(at, &record);
        (void)tn_zk_node_term(node, &record.term);
    }
    *ret_record = record;
}

void tn_zk_record_own(const struct tn_zk_lease *lease, struct tn_store_record *ret_record)
{
    struct tn_store_record record = { .held = true, .token = lease->token, .term = lease->term };

    fill_session(lease->session, &record);
    record.label_len = lease->session->label_len;
    memcpy(record.label, lease->session->label, record.label_len);
    *ret_record = record;
}

/* --- Names ------------------------------------------------------------------------------------ */

static struct tn_zk_name **find_place(struct tn_zk_store *store, const char *name)
{
    struct tn_zk_name **place =
        &store->names[tn_hash(store->key, name, strlen(name)) % TN_ZK_BUCKETS];

    while (*place != NULL && strcmp((*place)->name, name) != 0)
        place = &(*place)->next;
    return place;
}

struct tn_zk_name *tn_zk_name_find(struct tn_zk_store *store, const char *name)
{
    return *find_place(store, name);
}

struct tn_zk_name *tn_zk_name_get(struct tn_zk_store *store, const char *name)
{
    struct tn_zk_name **place = find_place(store, name);

    if (*place == NULL) {
        struct tn_zk_name *made = calloc(1, sizeof *made);
        if (made == NULL)
            return NULL;
        memcpy(made->name, name, strlen(name));
        *place = made;
        store->name_count++;
    }
    return *place;
}

void tn_zk_name_due(struct tn_zk_store *store, struct tn_zk_name *name, bool due)
{
    if (name->due == due)
        return;
    name->due = due;
    if (due)
        store->due++;
    else
        store->due--;
}

/* Between turns only: nobody has a pointer to an idle name then. */
void tn_zk_name_sweep(struct tn_zk_store *store)
{
    if (store->name_count <= store->sweep_at && !store->shut)
        return;
    for (unsigned i = 0; i < TN_ZK_BUCKETS; i++) {
        for (struct tn_zk_name **place = &store->names[i]; *place != NULL;) {
            struct tn_zk_name *name = *place;
            if (!store->shut && (name->leases != NULL || name->watches > 0 || name->looking)) {
                place = &name->next;
                continue;
            }
            tn_zk_name_due(store, name, false);
            *place = name->next;
            free(name);
            store->name_count--;
        }
    }
    store->sweep_at = 2 * store->name_count + NAMES_IDLE;
}
