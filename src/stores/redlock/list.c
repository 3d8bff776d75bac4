/* list.c - the store redlock: all names, as a majority of servers has them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/redlock/private.h"

struct redlock_list {
    struct tn_rl_store *store;
    struct tn_store_query *query; /* With what all servers listed. */
    unsigned left, good;
    int status;
    char error[TN_ERROR_TEXT];
};

static int compare_tokens(uint64_t a, uint64_t b)
{
    return a < b ? 1 : a > b ? -1 : 0;
}

static int compare_leases(const void *a, const void *b)
{
    const struct tn_store_lease *x = a;
    const struct tn_store_lease *y = b;
    int order = strcmp(x->name, y->name);

    if (order == 0)
        order = memcmp(&x->record.term, &y->record.term, sizeof x->record.term);
    return order != 0 ? order : compare_tokens(x->record.token, y->record.token);
}

/* Those of one name, in the order of their terms and tokens, become one: a majority that has
 * confirmed a term has one token for it. */
static void merge(const struct tn_rl_store *store, const struct tn_store_lease *leases,
                  size_t count, struct tn_store_lease *ret_lease)
{
    struct tn_store_lease lease = leases[0];
    uint64_t tokens[TN_ENDPOINTS_MAX];
    size_t run = 0;
    bool revoked = false; /* A revocation need not have reached every server. */

    for (size_t i = 0; i < count; i++)
        tokens[i] = leases[i].record.token;
    lease.record = (struct tn_store_record) { .token = tn_votes_reached(&store->votes, tokens,
                                                                        (unsigned)count) };
    for (size_t i = 0; i < count; i++) {
        const struct tn_store_record *record = &leases[i].record;
        bool same = i > 0 && tn_secret_equal(&record->term, &leases[i - 1].record.term) &&
                    record->token == leases[i - 1].record.token;
        run = record->held ? (same ? run + 1 : 1) : 0;
        revoked = record->revoked || (same && revoked);
        if (run >= store->votes.majority) {
            lease.record = *record;
            lease.record.revoked = revoked;
        }
    }
    *ret_lease = lease;
}

static void finish_list(struct redlock_list *list)
{
    struct tn_store_query *query = list->query;
    struct tn_store_lease *leases = query->leases;
    size_t count = query->count;

    query->count = 0;
    if (list->good >= list->store->votes.majority && count > 0) {
        qsort(leases, count, sizeof *leases, compare_leases);
        for (size_t at = 0, next; at < count; at = next) {
            for (next = at + 1; next < count && strcmp(leases[next].name, leases[at].name) == 0;)
                next++;
            merge(list->store, leases + at, next - at, &leases[query->count++]);
        }
    }
    tn_query_done(query, list->good >= list->store->votes.majority ? 0 : list->status, list->error);
    free(list);
}

static void node_listed(void *arg, int status, struct tn_store_lease *leases, size_t count,
                        const char *error)
{
    struct redlock_list *list = arg;

    list->good += status == 0;
    for (size_t i = 0; status == 0 && i < count; i++) {
        struct tn_store_lease *lease = tn_query_add_lease(list->query);
        if (lease != NULL)
            *lease = leases[i];
    }
    free(leases);
    if (status != 0 && list->status == 0) {
        list->status = list->store->base.closing ? TENURE_E_CLOSED : status;
        (void)snprintf(list->error, sizeof list->error, "%s", error != NULL ? error : "");
    }
    if (--list->left == 0)
        finish_list(list);
}

void tn_rl_ask(struct tn_store *base, struct tn_store_query *query)
{
    struct tn_rl_store *store = (struct tn_rl_store *)base;
    struct redlock_list *list = calloc(1, sizeof *list);

    if (list == NULL) {
        tn_query_refuse(base, query, TENURE_E_NOMEM, "out of memory");
        return;
    }
    *list = (struct redlock_list) { .store = store, .query = query, .left = store->count };
    for (unsigned i = 0; i < store->count; i++)
        store->nodes[i].redis->ops->list(store->nodes[i].redis, query->prefix, node_listed, list);
}
