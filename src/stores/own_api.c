/* own_api.c - tenure/store.h: registering a store, and what it calls. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "core/plan.h"
#include "stores/own.h"
#include "stores/own_private.h"
#include "stores/registry.h"

enum { KINDS = 16 };

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct own_kind_of kinds[KINDS];
static size_t kind_count;

/* --- Registering ---------------------------------------------------------------------------- */

static const struct own_kind_of *find(const char *scheme, size_t len)
{
    for (size_t i = 0; i < kind_count; i++)
        if (strlen(kinds[i].scheme) == len && memcmp(kinds[i].scheme, scheme, len) == 0)
            return &kinds[i];
    return NULL;
}

const struct tn_store_ops *tn_own_find(const char *url, size_t len)
{
    (void)pthread_mutex_lock(&guard);
    const struct own_kind_of *kind = find(url, len);
    (void)pthread_mutex_unlock(&guard);
    return kind != NULL ? &kind->internal : NULL;
}

static bool is_scheme(const char *scheme)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789+-";
    size_t len = scheme != NULL ? strlen(scheme) : 0;

    return len > 0 && len < sizeof kinds[0].scheme && strspn(scheme, letters) == len;
}

static bool is_whole(const struct tenure_store_ops *ops)
{
    return ops->version == TENURE_STORE_V1 && is_scheme(ops->scheme) && ops->open != NULL &&
           ops->submit != NULL && ops->close != NULL && ops->slack >= 0 && ops->ttl_min >= 0 &&
           ops->ttl_max >= 0;
}

/* One of ours, in this build or another. */
static bool is_taken(const char *scheme)
{
    char url[40], text[256];
    struct tn_text error;
    const struct tn_store_ops *ops;
    const char *rest;

    (void)snprintf(url, sizeof url, "%s:", scheme);
    tn_text_init(&error, text, sizeof text);
    return tn_store_find(url, &ops, &rest, &error) != TENURE_E_INVALID;
}

static unsigned caps_of(unsigned caps)
{
    unsigned all = 0;

    if ((caps & TENURE_STORE_QUEUES) != 0)
        all |= TN_STORE_QUEUES;
    if ((caps & TENURE_STORE_TELLS) != 0)
        all |= TN_STORE_TELLS;
    return (caps & TENURE_STORE_ADVISORY) != 0 ? all | TN_STORE_ADVISORY : all;
}

int tenure_store_register(const struct tenure_store_ops *ops)
{
    struct own_kind_of kind = { .internal = tn_own_ops };

    if (ops == NULL || ops->size < offsetof(struct tenure_store_ops, class_why) ||
        ops->size > sizeof kind.ops)
        return TENURE_E_INVALID;
    memcpy(&kind.ops, ops, ops->size);
    if (!is_whole(&kind.ops))
        return TENURE_E_INVALID;
    if (is_taken(kind.ops.scheme))
        return TENURE_E_CONFLICT;
    (void)snprintf(kind.scheme, sizeof kind.scheme, "%s", kind.ops.scheme);
    kind.internal.caps = caps_of(kind.ops.caps);
    kind.internal.slack = kind.ops.slack;
    kind.internal.ttl_min = kind.ops.ttl_min > TN_TTL_MIN ? kind.ops.ttl_min : TN_TTL_MIN;
    kind.internal.ttl_max = kind.ops.ttl_max > 0 ? kind.ops.ttl_max : TN_TTL_MAX;
    kind.internal.class_why = kind.ops.class_why;
    (void)pthread_mutex_lock(&guard);
    int rc = kind_count == KINDS ? TENURE_E_FULL : 0;
    if (rc == 0 && find(kind.scheme, strlen(kind.scheme)) != NULL)
        rc = TENURE_E_CONFLICT;
    if (rc == 0) {
        kinds[kind_count] = kind;
        kinds[kind_count].internal.scheme = kinds[kind_count].scheme;
        kind_count++;
    }
    (void)pthread_mutex_unlock(&guard);
    return rc;
}

/* --- Answers -------------------------------------------------------------------------------- */

static struct own_item *item_of(const struct tenure_store_request *request)
{
    return (struct own_item *)(uintptr_t)request;
}

static void set_error(struct own_item *item, int status, const char *error)
{
    item->reply.status = status <= 0 ? status : TENURE_E_DAMAGED;
    if (error != NULL)
        (void)snprintf(item->error, sizeof item->error, "%s", error);
}

void tenure_store_done(const struct tenure_store_request *request,
                       const struct tenure_store_reply *reply)
{
    struct own_item *item = item_of(request);
    size_t size = reply->size < sizeof item->reply ? reply->size : sizeof item->reply;

    item->reply = (struct tenure_store_reply) { 0 };
    memcpy(&item->reply, reply, size);
    set_error(item, reply->status, reply->error);
    tn_own_post(item);
}

int tenure_store_list_add(struct tenure_store_list *list, const char *name,
                          const struct tenure_store_record *record)
{
    struct own_item *item = (struct own_item *)(void *)list;

    if (item->count == item->room) {
        size_t room = item->room > 0 ? 2 * item->room : 16;
        struct tn_store_lease *grown = realloc(item->leases, room * sizeof *grown);
        if (grown == NULL) {
            item->on = true; /* Then it fails, whatever its end says. */
            return TENURE_E_NOMEM;
        }
        item->leases = grown;
        item->room = room;
    }
    struct tn_store_lease *lease = &item->leases[item->count++];
    (void)snprintf(lease->name, sizeof lease->name, "%s", name);
    tn_own_record(record, &lease->record);
    return 0;
}

void tenure_store_list_done(struct tenure_store_list *list, int status, const char *error)
{
    struct own_item *item = (struct own_item *)(void *)list;

    if (item->on)
        set_error(item, TENURE_E_NOMEM, "out of memory");
    else
        set_error(item, status, error);
    tn_own_post(item);
}

/* --- News ----------------------------------------------------------------------------------- */

/* Without memory it is lost, as news may be. */
static void post_news(struct tenure_store_host *host, enum own_kind kind, const char *name,
                      const struct tenure_store_id *term, uint64_t token,
                      const struct tenure_store_record *record)
{
    struct own_item *item = calloc(1, sizeof *item);

    if (item == NULL)
        return;
    item->store = (struct own_store *)(void *)host;
    item->kind = kind;
    (void)snprintf(item->name, sizeof item->name, "%s", name);
    if (term != NULL)
        item->request.term = *term;
    item->request.token = token;
    if (record != NULL)
        item->reply.record = *record;
    tn_own_post(item);
}

void tenure_store_granted(struct tenure_store_host *host, const char *name,
                          const struct tenure_store_id *term, uint64_t token)
{
    post_news(host, OWN_GRANTED, name, term, token, NULL);
}

void tenure_store_changed(struct tenure_store_host *host, const char *name,
                          const struct tenure_store_record *record)
{
    post_news(host, OWN_CHANGED, name, NULL, 0, record);
}

void tenure_store_revoked(struct tenure_store_host *host, const char *name, uint64_t token)
{
    post_news(host, OWN_REVOKED, name, NULL, token, NULL);
}
