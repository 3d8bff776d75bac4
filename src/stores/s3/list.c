/* list.c - all leases below a prefix; list.h. */
#include "stores/s3/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/store_frame.h"
#include "stores/rows/rows.h"
#include "stores/s3/record.h"

enum { AT_ONCE = 16, LEASES_MAX = 100000 };

struct s3_list {
    struct tn_s3_bucket *bucket;
    tn_store_listed *done;
    void *arg;
    struct tn_store_lease *leases;
    size_t count, room;
    size_t next; /* The first that has not been asked for. */
    size_t under_way;
    bool busy;  /* fetch() is at work further up the stack. */
    int status; /* The first failure. */
    char prefix[TN_NAME_MAX + 2];
    char error[TN_ERROR_TEXT];
};

/* The request for a page, or for one of the leases. */
struct s3_list_call {
    struct tn_s3_call call; /* First. */
    struct s3_list *list;
    size_t at;
};

static struct s3_list_call *new_call(struct s3_list *list)
{
    struct s3_list_call *call = tn_s3_call_new(list->bucket, sizeof *call);

    if (call != NULL)
        call->list = list;
    return call;
}

static void fail_list(struct s3_list *list, int status, const char *why)
{
    if (list->status != 0)
        return;
    list->status = status;
    (void)snprintf(list->error, sizeof list->error, "%s", why);
}

static void finish_list(struct s3_list *list)
{
    size_t count = 0;

    for (size_t i = 0; i < list->count; i++) /* Those deleted in between are not there. */
        if (list->leases[i].name[0] != '\0')
            list->leases[count++] = list->leases[i];
    if (list->status != 0) {
        free(list->leases);
        list->done(list->arg, list->status, NULL, 0, list->error);
    } else {
        tn_store_sort(list->leases, count);
        list->done(list->arg, 0, list->leases, count, NULL);
    }
    free(list);
}

/* --- The objects ------------------------------------------------------------------------------ */

static void fetch(struct s3_list *list);

static void hear_lease(struct tn_s3_call *call, enum tn_s3_result result)
{
    const struct s3_list_call *of = (const struct s3_list_call *)(const void *)call;
    struct s3_list *list = of->list;
    struct tn_store_lease *lease = &list->leases[of->at];
    char label[TN_LABEL_MAX], etag[TN_S3_ETAG];
    struct tn_row row;

    if (result == TN_S3_MISSING)
        lease->name[0] = '\0';
    else if (result != TN_S3_OK)
        fail_list(list, result == TN_S3_DENIED ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE,
                  call->error);
    else if (!tn_s3_etag(call, etag) ||
             tn_s3_read_record(call->web.body, call->web.body_len, &row, label) < 0)
        fail_list(list, TENURE_E_DAMAGED, "s3: an object is no record of tenure");
    else
        tn_rows_record(&row, etag, &lease->record);
    tn_s3_call_free(call);
    list->under_way--;
    fetch(list);
}

static void fetch(struct s3_list *list)
{
    if (list->busy)
        return;
    list->busy = true;
    while (list->status == 0 && list->next < list->count && list->under_way < AT_ONCE) {
        struct s3_list_call *call = new_call(list);
        char key[TN_S3_KEY];
        if (call == NULL) {
            fail_list(list, TENURE_E_NOMEM, "out of memory");
            break;
        }
        call->at = list->next++;
        list->under_way++;
        (void)snprintf(key, sizeof key, "%s/" TN_S3_LEASE, list->leases[call->at].name);
        tn_s3_get(&call->call, key, hear_lease);
    }
    list->busy = false;
    if (list->under_way == 0)
        finish_list(list);
}

/* --- The keys --------------------------------------------------------------------------------- */

/* Keys of other objects are not ours. */
static void add_key(struct s3_list *list, const char *key)
{
    static const char last[] = "/" TN_S3_LEASE;
    size_t len = strlen(key), end = sizeof last - 1;

    if (len <= end || strcmp(key + len - end, last) != 0 ||
        tn_name_check(key, len - end, NULL) < 0 || list->status != 0)
        return;
    if (list->count == list->room) {
        size_t room = list->room > 0 ? 2 * list->room : 64;
        struct tn_store_lease *leases =
            room <= 2 * LEASES_MAX ? realloc(list->leases, room * sizeof *leases) : NULL;
        if (leases == NULL) {
            fail_list(list, TENURE_E_FULL, "s3: too many names to list; give a longer prefix");
            return;
        }
        list->leases = leases;
        list->room = room;
    }
    struct tn_store_lease *lease = &list->leases[list->count++];
    *lease = (struct tn_store_lease) { .name = "" };
    memcpy(lease->name, key, len - end);
}

static void hear_page(struct tn_s3_call *call, enum tn_s3_result result)
{
    struct s3_list *list = ((const struct s3_list_call *)(const void *)call)->list;
    char key[TN_S3_URL], token[1100];
    const char *at = NULL;

    if (result != TN_S3_OK)
        fail_list(list, result == TN_S3_DENIED ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE,
                  result == TN_S3_MISSING ? "s3: the bucket cannot be listed" : call->error);
    while (result == TN_S3_OK && tn_s3_next_key(call, &at, key))
        add_key(list, key);
    if (list->status == 0 && tn_s3_next_page(call, token, sizeof token)) {
        tn_s3_get_page(call, list->prefix, token, hear_page);
        return;
    }
    tn_s3_call_free(call);
    fetch(list);
}

void tn_s3_list(struct tn_s3_bucket *bucket, const char *prefix, tn_store_listed *done, void *arg)
{
    struct s3_list *list = calloc(1, sizeof *list);
    struct s3_list_call *call = NULL;

    if (list != NULL) {
        list->bucket = bucket;
        list->done = done;
        list->arg = arg;
        (void)snprintf(list->prefix, sizeof list->prefix, "%s", prefix);
        call = new_call(list);
    }
    if (call == NULL) {
        free(list);
        done(arg, TENURE_E_NOMEM, NULL, 0, "out of memory");
        return;
    }
    tn_s3_get_page(&call->call, list->prefix, NULL, hear_page);
}
