/* store.c - the engine: reads and conditional writes of items, and a listing; the rest of a store
 * is stores/rows.
 *
 * Happy path: a read is one GetItem; a counter is read, too, where the lock item does not tell the
 * last token. A renewal or a release is one UpdateItem; a grant one transaction.
 * What can fail: a lost reply, which leaves a write unknown. A transaction is asked once more under
 * the same ClientRequestToken, which tells what became of it; other writes are settled by the
 * recipe's next read. Throttling slows the polls down. */
#include "stores/dynamodb/dynamodb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "net/dynamodb.h"
#include "stores/dynamodb/item.h"
#include "stores/rows/rows.h"

enum {
    PAGE = 500,          /* Items of a listing's page, */
    PAGE_VALUES = 20000, /* and their JSON values. */
    PAGE_MAX = 4 << 20,
    SLOWER = 8, /* Polls at most this many times as far apart. */
};

#define POLL_EVERY TN_SEC(1)

struct dynamodb {
    struct tn_rows_store base;
    struct tn_rows_engine engine; /* With its own poll_every. */
    struct tn_dynamo *dynamo;
    tenure_ns poll_every;
    bool distrusts; /* A lock item was behind its counter: always read both. */
};

struct dynamo_job {
    struct tn_dynamo_call call;
    struct dynamodb *store;
    struct tn_rows_io *io;
    bool repeated; /* The transaction was asked again. */
    struct tn_item item;
    char version[TN_ROW_VERSION];
};

static struct dynamo_job *new_job(struct dynamodb *store, void (*done)(struct tn_dynamo_call *call))
{
    struct dynamo_job *job = calloc(1, sizeof *job);

    if (job == NULL)
        return NULL;
    job->store = store;
    job->call.done = done;
    job->call.arg = job;
    job->call.timeout = store->base.base.how.patience;
    return job;
}

/* A table that is asked too often is asked less often for news; renewals keep their own time. */
static void pace(struct dynamodb *store, enum tn_dynamo_outcome outcome)
{
    tenure_ns every = store->engine.poll_every;

    if (outcome == TN_DYNAMO_THROTTLED && every < SLOWER * store->poll_every)
        every *= 2;
    else if (outcome == TN_DYNAMO_OK)
        every -= (every - store->poll_every) / 8;
    store->engine.poll_every = every;
}

static int status_of(const struct tn_dynamo_call *call)
{
    return call->outcome == TN_DYNAMO_DENIED ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE;
}

/* --- Reading ---------------------------------------------------------------------------------- */

static void start_get(struct dynamo_job *job, const char *prefix)
{
    tn_dynamo_begin(job->store->dynamo, &job->call, "GetItem");
    tn_text_add(&job->call.body, ",\"Key\":");
    tn_dynamo_add_key(&job->call, prefix, tn_rows_io_name(job->io));
    tn_item_add_projection(&job->call);
    tn_text_add(&job->call.body, "}");
    job->call.values = NULL;
    tn_dynamo_send(&job->call);
}

static void got_row(struct dynamo_job *job)
{
    bool there = tn_item_row(&job->item, job->version);

    tn_rows_io_got(job->io, &job->item.row, there ? job->version : NULL);
    free(job);
}

static void get_failed(struct dynamo_job *job, const char *why)
{
    tn_rows_io_failed(job->io, status_of(&job->call), why);
    free(job);
}

/* The index of the item that an answer has as @member; 0: there is none. */
static uint32_t find_item(const struct tn_dynamo_call *call, const char *member)
{
    const struct tn_json_value *item = tn_json_get(call->values, 0, member);

    return item != NULL && item->type == TN_JSON_OBJECT ? (uint32_t)(item - call->values) : 0;
}

static void got_counter(struct tn_dynamo_call *call)
{
    struct dynamo_job *job = call->arg;
    uint32_t at = call->outcome == TN_DYNAMO_OK ? find_item(call, "Item") : 0;

    pace(job->store, call->outcome);
    if (call->outcome != TN_DYNAMO_OK)
        get_failed(job, call->error);
    else if (at != 0 && !tn_item_read_counter(&job->item, call->values, at))
        get_failed(job, "dynamodb: the counter item has no tenureToken; look at it in the table");
    else
        got_row(job);
}

/* The lock item was read. Of a free name, or one that another kind of client holds, only the
 * counter tells the last token. It is read later, so it is no older than the lock item. A name that
 * was never there, as those of operators' notes, is not read twice with every poll. */
static void got_item(struct tn_dynamo_call *call)
{
    struct dynamo_job *job = call->arg;
    uint32_t at = call->outcome == TN_DYNAMO_OK ? find_item(call, "Item") : 0;
    const char *fault = NULL;
    char why[TN_ERROR_TEXT];

    pace(job->store, call->outcome);
    if (at != 0)
        fault = tn_item_read(&job->item, call->values, at);
    if (fault != NULL) {
        (void)snprintf(why, sizeof why, "dynamodb: the item '%s' is no lock item: %s",
                       tn_rows_io_name(job->io), fault);
        get_failed(job, why);
    } else if (call->outcome != TN_DYNAMO_OK) {
        get_failed(job, call->error);
    } else if (at == 0 && tn_rows_io_only_looks(job->io)) {
        got_row(job);
    } else if (!job->item.ours || !job->item.row.held || job->store->distrusts) {
        call->done = got_counter;
        start_get(job, TN_ITEM_COUNTER);
    } else {
        got_row(job);
    }
}

static void get(struct tn_rows_store *base, struct tn_rows_io *io)
{
    struct dynamo_job *job = new_job((struct dynamodb *)base, got_item);

    if (job == NULL) {
        tn_rows_io_failed(io, TENURE_E_NOMEM, "out of memory");
        return;
    }
    job->io = io;
    job->call.urgent = tn_rows_io_is_urgent(io);
    start_get(job, "");
}

/* --- Writing ---------------------------------------------------------------------------------- */

static void end_put(struct dynamo_job *job, enum tn_rows_outcome outcome, const char *why)
{
    tn_rows_io_put(job->io, outcome, outcome == TN_ROWS_WRITTEN ? job->version : NULL,
                   outcome == TN_ROWS_WRITTEN ? NULL : why);
    free(job);
}

/* An item that has the number of this write shows that it was done; any other answer may be an
 * older one that the network repeats. */
static void judge_proof(struct dynamo_job *job, const char *member)
{
    const struct tn_dynamo_call *call = &job->call;
    uint32_t at = call->outcome == TN_DYNAMO_OK ? find_item(call, member) : 0;

    if (at != 0 && tn_item_is(call->values, at, job->version))
        end_put(job, TN_ROWS_WRITTEN, NULL);
    else
        end_put(job, TN_ROWS_UNKNOWN,
                call->outcome != TN_DYNAMO_OK
                    ? call->error
                    : "dynamodb: the answer is not to this write; another client has written, or "
                      "the network repeats an older answer");
}

static void got_proof(struct tn_dynamo_call *call)
{
    struct dynamo_job *job = call->arg;

    pace(job->store, call->outcome);
    judge_proof(job, "Item");
}

/* The answer to an update has the new item in it. That to a transaction says nothing: with TLS it
 * is this one's, without TLS the item is read. */
static void written(struct dynamo_job *job, bool grant)
{
    if (!grant) {
        judge_proof(job, "Attributes");
    } else if (!tn_dynamo_is_plain(job->store->dynamo)) {
        end_put(job, TN_ROWS_WRITTEN, NULL);
    } else {
        job->call.done = got_proof;
        start_get(job, "");
    }
}

static void put_done(struct tn_dynamo_call *call)
{
    static const enum tn_rows_outcome outcomes[] = {
        [TN_DYNAMO_OK] = TN_ROWS_WRITTEN,        [TN_DYNAMO_CONDITION] = TN_ROWS_CONFLICT,
        [TN_DYNAMO_CONFLICT] = TN_ROWS_CONFLICT, [TN_DYNAMO_THROTTLED] = TN_ROWS_FAILED,
        [TN_DYNAMO_REFUSED] = TN_ROWS_FAILED,    [TN_DYNAMO_DENIED] = TN_ROWS_FAILED,
        [TN_DYNAMO_FAILED] = TN_ROWS_FAILED,     [TN_DYNAMO_UNKNOWN] = TN_ROWS_UNKNOWN,
    };
    struct dynamo_job *job = call->arg;
    bool grant = strcmp(call->action, "TransactWriteItems") == 0;
    enum tn_rows_outcome outcome = outcomes[call->outcome];

    pace(job->store, call->outcome);
    /* A deleted lock item that somebody put back: from now on the counter is read, too. */
    if (call->outcome == TN_DYNAMO_CONDITION && call->second)
        job->store->distrusts = true;
    if (call->outcome == TN_DYNAMO_UNKNOWN && grant && !job->repeated &&
        !job->store->base.base.closing) {
        job->repeated = true;
        tn_dynamo_send(call);
        return;
    }
    /* What the repetition says of itself is not what became of the first attempt. */
    if (job->repeated && outcome == TN_ROWS_FAILED)
        outcome = TN_ROWS_UNKNOWN;
    if (outcome == TN_ROWS_WRITTEN) {
        written(job, grant);
    } else if (outcome == TN_ROWS_FAILED && call->outcome == TN_DYNAMO_DENIED) {
        tn_rows_io_failed(job->io, TENURE_E_DENIED, call->error);
        free(job);
    } else {
        end_put(job, outcome, call->error);
    }
}

static void put(struct tn_rows_store *base, struct tn_rows_io *io, const struct tn_row *row,
                const char *if_version)
{
    struct dynamodb *store = (struct dynamodb *)base;
    struct dynamo_job *job = new_job(store, put_done);
    char rvn[TN_ITEM_RVN];

    if (job == NULL) {
        tn_rows_io_put(io, TN_ROWS_FAILED, NULL, "out of memory");
        return;
    }
    job->io = io;
    job->call.urgent = tn_rows_io_is_urgent(io);
    if (tn_item_is_grant(row, if_version))
        job->call.timeout /= 2; /* It may be asked twice. */
    tn_item_rvn(row->nonce, tn_prng_next(&base->prng), rvn);
    tn_item_write(store->dynamo, &job->call, tn_rows_io_name(io), row, if_version, rvn,
                  job->version);
    tn_dynamo_send(&job->call);
}

/* --- Listing ---------------------------------------------------------------------------------- */

struct dynamo_list {
    struct tn_dynamo_call call;
    struct dynamodb *store;
    struct tn_rows_listing rows;
    char from[2049]; /* The key that the next page begins behind. */
    struct tn_json_value values[PAGE_VALUES];
};

static void end_list(struct dynamo_list *list, int status, const char *why)
{
    tn_rows_listing_end(&list->rows, status, why);
    free(list);
}

static void start_page(struct dynamo_list *list)
{
    struct tn_dynamo_call *call = &list->call;
    struct tn_dynamo *dynamo = list->store->dynamo;

    tn_dynamo_begin(dynamo, call, "Scan");
    tn_text_addf(&call->body, ",\"Limit\":%d", (int)PAGE);
    tn_item_add_projection(call);
    if (list->rows.prefix[0] != '\0')
        tn_text_addf(
            &call->body,
            ",\"FilterExpression\":\"begins_with(#k,:p) OR begins_with(#k,:c)\","
            "\"ExpressionAttributeValues\":{\":p\":{\"S\":\"%s\"},\":c\":{\"S\":\"%s%s\"}}",
            list->rows.prefix, TN_ITEM_COUNTER, list->rows.prefix);
    if (list->from[0] != '\0') {
        tn_text_add(&call->body, ",\"ExclusiveStartKey\":{");
        tn_json_string(&call->body, tn_dynamo_key(dynamo), strlen(tn_dynamo_key(dynamo)));
        tn_text_add(&call->body, ":{\"S\":");
        tn_json_string(&call->body, list->from, strlen(list->from));
        tn_text_add(&call->body, "}}");
    }
    tn_text_add(&call->body, "}");
    tn_dynamo_send(call);
}

/* One item of a page. A name has a lock item, a counter, or both; other items are others'. */
static bool add_item(struct dynamo_list *list, uint32_t at)
{
    const struct tn_json_value *values = list->values;
    const struct tn_json_value *key =
        tn_dynamo_attribute(values, at, tn_dynamo_key(list->store->dynamo), "S");
    size_t front = sizeof TN_ITEM_COUNTER - 1;
    struct tn_item item = { 0 };
    char name[TN_NAME_MAX + 1], version[TN_ROW_VERSION];

    if (key == NULL)
        return true;
    bool counter = key->len > front && memcmp(key->bytes, TN_ITEM_COUNTER, front) == 0;
    const char *from = counter ? key->bytes + front : key->bytes;
    size_t len = counter ? key->len - front : key->len;
    if (tn_name_check(from, len, NULL) < 0)
        return true;
    if (counter ? !tn_item_read_counter(&item, values, at)
                : tn_item_read(&item, values, at) != NULL)
        return true;
    (void)snprintf(name, sizeof name, "%.*s", (int)len, from);
    (void)tn_item_row(&item, version);
    return tn_rows_listing_add(&list->rows, name, &item.row, version);
}

/* The key that the next page begins behind. False: there is no next page. */
static bool find_next(struct dynamo_list *list, const char **ret_fault)
{
    const struct tn_json_value *last = tn_json_get(list->values, 0, "LastEvaluatedKey");
    const struct tn_json_value *key = NULL;

    if (last == NULL || last->type != TN_JSON_OBJECT)
        return false;
    key = tn_dynamo_attribute(list->values, (uint32_t)(last - list->values),
                              tn_dynamo_key(list->store->dynamo), "S");
    if (key == NULL || key->len >= sizeof list->from) {
        *ret_fault = "dynamodb: the listing's next page cannot be asked for; is ?key= right?";
        return false;
    }
    memcpy(list->from, key->bytes, key->len);
    list->from[key->len] = '\0';
    return true;
}

static void got_page(struct tn_dynamo_call *call)
{
    struct dynamo_list *list = call->arg;
    const struct tn_json_value *items;
    const char *fault = NULL;

    if (list->store->base.base.closing) {
        end_list(list, TENURE_E_CLOSED, "the store is closed");
        return;
    }
    if (call->outcome != TN_DYNAMO_OK) {
        end_list(list, status_of(call), call->error);
        return;
    }
    items = tn_json_get(list->values, 0, "Items");
    uint32_t at = items != NULL ? (uint32_t)(items - list->values) + 1 : 0;
    for (uint32_t i = 0; items != NULL && items->type == TN_JSON_ARRAY && i < items->count; i++) {
        if (list->values[at].type == TN_JSON_OBJECT && !add_item(list, at))
            fault = "out of memory";
        at = list->values[at].next;
    }
    if (fault == NULL && find_next(list, &fault)) {
        start_page(list);
        return;
    }
    end_list(list, fault != NULL ? TENURE_E_UNAVAILABLE : 0, fault);
}

static void list_names(struct tn_rows_store *base, const char *prefix, tn_store_listed *done,
                       void *arg)
{
    struct dynamo_list *list = calloc(1, sizeof *list);

    if (list == NULL) {
        done(arg, TENURE_E_NOMEM, NULL, 0, "out of memory");
        return;
    }
    list->store = (struct dynamodb *)base;
    tn_rows_listing_begin(&list->rows, prefix, done, arg);
    list->call.done = got_page;
    list->call.arg = list;
    list->call.timeout = base->base.how.patience;
    list->call.answer_max = PAGE_MAX;
    list->call.values = list->values;
    list->call.values_max = PAGE_VALUES;
    start_page(list);
}

/* --- Opening and closing ---------------------------------------------------------------------- */

static void closed(void *arg)
{
    tn_rows_shut(arg);
}

static void shut(struct tn_rows_store *base)
{
    tn_dynamo_close(((struct dynamodb *)base)->dynamo, closed, base);
}

static void ignore_closed(void *arg)
{
    (void)arg;
}

static const struct tn_rows_engine dynamodb_engine = {
    .get = get, .put = put, .list = list_names, .shut = shut
};

static int open_table(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    struct tn_dynamo *dynamo = NULL;
    tenure_ns poll = POLL_EVERY;

    int rc = tn_dynamo_open(how->loop, how->rest, &poll, &dynamo, reterr);
    if (rc < 0)
        return rc;
    struct dynamodb *store = tn_rows_open(sizeof *store, ops, &dynamodb_engine, how, reterr);
    if (store == NULL) {
        tn_dynamo_close(dynamo, ignore_closed, NULL);
        return TENURE_E_NOMEM;
    }
    store->dynamo = dynamo;
    store->poll_every = poll;
    store->engine = dynamodb_engine;
    store->engine.poll_every = poll;
    store->base.engine = &store->engine;
    *ret_store = &store->base.base;
    return 0;
}

const struct tn_store_ops tn_dynamodb_store_ops = {
    .scheme = "dynamodb",
    .caps = TN_STORE_LINGERS | TN_STORE_PER_NAME | TN_STORE_NAMED,
    .ttl_min = TN_SEC(3), /* A write has a twelfth of it, also when the table is slow. */
    .ttl_max = TN_SEC(86400),
    .open = open_table,
    TN_ROWS_OPS,
    .class_why = "DynamoDB acknowledges a write once a majority of its replicas has it",
    .clock_why = "no clock of the server is used",
    .poll_every = POLL_EVERY,
    .restored = "raise tenureToken of its counter item to % (docs/stores/dynamodb.md)",
};
