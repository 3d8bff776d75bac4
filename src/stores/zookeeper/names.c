/* names.c - names as paths, candidates as nodes, and what is remembered of a name.
 *
 * A candidate's node is Curator's: "_c_" and a UUID, "-latch-", ten digits from the server. Ours
 * have the hash of the term's secret for a UUID, so after a lost reply the node is found again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hex.h"
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

bool tn_zk_node_term(const char *node, struct tn_secret *ret_term)
{
    char digits[2 * sizeof ret_term->bytes];
    size_t count = 0;

    if (strncmp(node, "_c_", 3) != 0)
        return false;
    for (node += 3; count < sizeof digits && *node != '\0'; node++)
        if (*node != '-')
            digits[count++] = *node;
    return count == sizeof digits && tn_unhex(ret_term->bytes, digits, sizeof ret_term->bytes);
}

const char *tn_zk_first_node(const struct String_vector *children)
{
    const char *first = NULL;
    int64_t lowest = INT64_MAX;
    int64_t seq;

    for (int i = 0; i < children->count; i++) {
        if (!tn_zk_node_parse(children->data[i], &seq) || seq >= lowest)
            continue;
        lowest = seq;
        first = children->data[i];
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
    for (struct tn_zk_session *at = NULL; (at = tn_zk_session_next(store, at)) != NULL;) {
        if (at->reader || tn_zk_is_over(at) || at->zh == NULL || reply->stat->ephemeralOwner == 0 ||
            zoo_client_id(at->zh)->client_id != reply->stat->ephemeralOwner)
            continue;
        fill_session(at, &record);
        (void)tn_zk_node_term(node, &record.term);
    }
    *ret_record = record;
}

void tn_zk_record_own(const struct tn_zk_claim *claim, struct tn_store_record *ret_record)
{
    struct tn_store_record record = { .held = true,
                                      .token = claim->base.key.token,
                                      .term = claim->base.term,
                                      .label_len = claim->session->label_len };

    fill_session(claim->session, &record);
    memcpy(record.label, claim->session->label, record.label_len);
    *ret_record = record;
}

/* --- Names ------------------------------------------------------------------------------------ */

struct tn_zk_name *tn_zk_name_find(struct tn_zk_store *store, const char *name)
{
    return (struct tn_zk_name *)tn_store_name_find(&store->base, name, strlen(name));
}

void tn_zk_name_set_view(struct tn_zk_store *store, struct tn_zk_name *name, enum tn_zk_view view)
{
    store->due -= name->view == TN_ZK_DUE;
    store->due += view == TN_ZK_DUE;
    name->view = view;
}

void tn_zk_name_due(struct tn_zk_store *store, struct tn_zk_name *name)
{
    bool looking = name->view == TN_ZK_LOOKING || name->view == TN_ZK_LOOKING_AGAIN;

    tn_zk_name_set_view(store, name, looking ? TN_ZK_LOOKING_AGAIN : TN_ZK_DUE);
    tn_store_kick(&store->base);
}

/* Names that nobody uses but for their last token. */
static void forget_names(struct tn_zk_store *store)
{
    struct tn_store_name *next;

    for (struct tn_store_name *at = tn_store_name_next(&store->base, NULL); at != NULL; at = next) {
        next = tn_store_name_next(&store->base, at);
        if (((struct tn_zk_name *)at)->last_token == 0 || at->uses > 1 || at->watchers > 0)
            continue;
        store->remembered--;
        tn_store_name_drop(&store->base, at);
    }
}

void tn_zk_note_token(struct tn_zk_store *store, const char *text, uint64_t token)
{
    struct tn_zk_name *name = tn_zk_name_find(store, text);

    if (name == NULL || token <= name->last_token)
        return;
    if (name->last_token == 0) {
        name->base.uses++;
        store->remembered++;
    }
    name->last_token = token;
    if (store->remembered > store->remember_most + NAMES_IDLE) {
        forget_names(store);
        store->remember_most = 2 * store->remembered;
    }
}
