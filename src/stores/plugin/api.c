/* api.c - tenure/store.h: registering a store, and what it calls. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "core/plan.h"
#include "stores/plugin/plugin.h"
#include "stores/plugin/private.h"
#include "stores/registry.h"

enum { PLUGINS = 16 };

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static struct plugin_entry plugins[PLUGINS];
static size_t plugin_count;

/* --- Registering ---------------------------------------------------------------------------- */

static const struct plugin_entry *find(const char *scheme, size_t len)
{
    for (size_t i = 0; i < plugin_count; i++)
        if (strlen(plugins[i].scheme) == len && memcmp(plugins[i].scheme, scheme, len) == 0)
            return &plugins[i];
    return NULL;
}

const struct tn_store_ops *tn_plugin_find(const char *url, size_t len)
{
    (void)pthread_mutex_lock(&guard);
    const struct plugin_entry *plugin = find(url, len);
    (void)pthread_mutex_unlock(&guard);
    return plugin != NULL ? &plugin->internal : NULL;
}

static bool is_scheme(const char *scheme)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789+-";
    size_t len = scheme != NULL ? strlen(scheme) : 0;

    return len > 0 && len < sizeof plugins[0].scheme && strspn(scheme, letters) == len;
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
    struct plugin_entry plugin = { .internal = tn_plugin_ops };

    if (ops == NULL || ops->size < offsetof(struct tenure_store_ops, class_why) ||
        ops->size > sizeof plugin.ops)
        return TENURE_E_INVALID;
    memcpy(&plugin.ops, ops, ops->size);
    if (!is_whole(&plugin.ops))
        return TENURE_E_INVALID;
    if (is_taken(plugin.ops.scheme))
        return TENURE_E_CONFLICT;
    (void)snprintf(plugin.scheme, sizeof plugin.scheme, "%s", plugin.ops.scheme);
    plugin.internal.caps = caps_of(plugin.ops.caps);
    plugin.internal.slack = plugin.ops.slack;
    plugin.internal.ttl_min = plugin.ops.ttl_min > TN_TTL_MIN ? plugin.ops.ttl_min : TN_TTL_MIN;
    plugin.internal.ttl_max = plugin.ops.ttl_max > 0 ? plugin.ops.ttl_max : TN_TTL_MAX;
    plugin.internal.class_why = plugin.ops.class_why;
    (void)pthread_mutex_lock(&guard);
    int rc = plugin_count == PLUGINS ? TENURE_E_FULL : 0;
    if (rc == 0 && find(plugin.scheme, strlen(plugin.scheme)) != NULL)
        rc = TENURE_E_CONFLICT;
    if (rc == 0) {
        plugins[plugin_count] = plugin;
        plugins[plugin_count].internal.scheme = plugins[plugin_count].scheme;
        plugin_count++;
    }
    (void)pthread_mutex_unlock(&guard);
    return rc;
}

/* --- Answers -------------------------------------------------------------------------------- */

static struct plugin_job *job_of(const struct tenure_store_request *request)
{
    return (struct plugin_job *)(uintptr_t)request;
}

static void set_error(struct plugin_job *job, int status, const char *error)
{
    job->reply.status = status <= 0 ? status : TENURE_E_DAMAGED;
    if (error != NULL)
        (void)snprintf(job->error, sizeof job->error, "%s", error);
}

void tenure_store_done(const struct tenure_store_request *request,
                       const struct tenure_store_reply *reply)
{
    struct plugin_job *job = job_of(request);
    size_t size = reply->size < sizeof job->reply ? reply->size : sizeof job->reply;

    job->reply = (struct tenure_store_reply) { 0 };
    memcpy(&job->reply, reply, size);
    set_error(job, reply->status, reply->error);
    tn_plugin_post(job);
}

int tenure_store_list_add(struct tenure_store_list *list, const char *name,
                          const struct tenure_store_record *record)
{
    struct plugin_job *job = (struct plugin_job *)(void *)list;
    struct tn_store_lease *lease = tn_query_add_lease(&job->list);

    if (lease == NULL)
        return TENURE_E_NOMEM;
    (void)snprintf(lease->name, sizeof lease->name, "%s", name);
    tn_plugin_record(record, &lease->record);
    return 0;
}

void tenure_store_list_done(struct tenure_store_list *list, int status, const char *error)
{
    struct plugin_job *job = (struct plugin_job *)(void *)list;

    set_error(job, status, error);
    tn_plugin_post(job);
}

/* --- News ----------------------------------------------------------------------------------- */

/* Without memory it is lost, as news may be. */
static void post_news(struct tenure_store_host *host, enum plugin_job_kind kind, const char *name,
                      const struct tenure_store_id *term, uint64_t token,
                      const struct tenure_store_record *record)
{
    struct plugin_job *job = calloc(1, sizeof *job);

    if (job == NULL)
        return;
    job->store = (struct plugin_store *)(void *)host;
    job->kind = kind;
    (void)snprintf(job->name, sizeof job->name, "%s", name);
    if (term != NULL)
        job->request.term = *term;
    job->request.token = token;
    if (record != NULL)
        job->reply.record = *record;
    tn_plugin_post(job);
}

void tenure_store_granted(struct tenure_store_host *host, const char *name,
                          const struct tenure_store_id *term, uint64_t token)
{
    post_news(host, PLUGIN_GRANTED, name, term, token, NULL);
}

void tenure_store_changed(struct tenure_store_host *host, const char *name,
                          const struct tenure_store_record *record)
{
    post_news(host, PLUGIN_CHANGED, name, NULL, 0, record);
}

void tenure_store_revoked(struct tenure_store_host *host, const char *name, uint64_t token)
{
    post_news(host, PLUGIN_REVOKED, name, NULL, token, NULL);
}
