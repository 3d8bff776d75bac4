/* streams.c - the stream of watches; client.h has the contract.
 *
 * Creations are confirmed in order, with the number that their events carry. A connection
 * that comes back gets them all again, each from where it was; a history that was compacted, or
 * that is shorter than what was seen before (a backup was restored), makes them fire. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "stores/etcd/client.h"

/* How far the server knows of a watch. A stream that ends makes all of them NEW again. */
enum watcher_state { WATCHER_NEW, WATCHER_ASKED, WATCHER_CREATED };

/* What the server knows of a watch, for as long as it does. */
struct tn_etcd_watcher {
    struct tn_list_node node;    /* First. */
    struct tn_etcd_watch *watch; /* NULL: stopped, but the server has not confirmed it yet. */
    int64_t id;
    int64_t revision; /* From which on. */
    enum watcher_state state;
    bool range, deletes;
    size_t key_len;
    char key[];
};

/* --- A stream --------------------------------------------------------------------------------- */

static void watch_heard(struct tn_grpc_call *call, const uint8_t *data, size_t len);
static void watch_ended(struct tn_grpc_call *call);

static bool open_stream(struct tn_etcd_client *client)
{
    struct tn_grpc_call *call = &client->watch_call;
    struct tn_grpc_field fields[3];
    size_t count = tn_etcd_fields(client, fields);

    if (call->grpc != NULL)
        return true;
    if (!tn_etcd_is_ready(client))
        return false;
    /* A member that has lost the others must end the stream instead of leaving us waiting. */
    fields[count++] = (struct tn_grpc_field) { "hasleader", "true" };
    call->message = watch_heard;
    call->done = watch_ended;
    call->arg = client;
    return tn_grpc_start(client->grpc, call, "/etcdserverpb.Watch/Watch", fields, count) == 0;
}

static bool send_message(struct tn_grpc_call *call, const ProtobufCMessage *message)
{
    uint8_t small[1024];
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = len <= sizeof small ? small : malloc(len);

    if (packed == NULL)
        return false;
    (void)protobuf_c_message_pack(message, packed);
    int rc = tn_grpc_send(call, packed, len, false);
    if (packed != small)
        free(packed);
    return rc == 0;
}

/* --- Watches ---------------------------------------------------------------------------------- */

/* NULL begins, and NULL is the end. */
static struct tn_etcd_watcher *next_watcher(const struct tn_etcd_client *client,
                                            const struct tn_etcd_watcher *watcher)
{
    return (struct tn_etcd_watcher *)(watcher != NULL
                                          ? tn_list_next(&client->watchers, &watcher->node)
                                          : tn_list_first(&client->watchers));
}

static void free_watcher(struct tn_etcd_watcher *watcher)
{
    tn_list_remove(&watcher->node);
    free(watcher);
}

static void detach(struct tn_etcd_watch *watch)
{
    watch->watcher->watch = NULL;
    watch->watcher = NULL;
    watch->client = NULL;
}

static void cancel_watcher(struct tn_etcd_client *client, struct tn_etcd_watcher *watcher)
{
    Etcd__WatchRequest request = ETCD__WATCH_REQUEST__INIT;
    Etcd__WatchCancelRequest cancel = ETCD__WATCH_CANCEL_REQUEST__INIT;

    cancel.watch_id = watcher->id;
    request.cancel_request = &cancel;
    if (client->watch_call.grpc != NULL)
        (void)send_message(&client->watch_call, &request.base);
    free_watcher(watcher);
}

/* Nobody wants it any more. One that is asked for is cancelled when its creation is confirmed. */
static void end_watcher(struct tn_etcd_client *client, struct tn_etcd_watcher *watcher)
{
    if (watcher->state == WATCHER_NEW)
        free_watcher(watcher);
    else if (watcher->state == WATCHER_CREATED)
        cancel_watcher(client, watcher);
}

void tn_etcd_watch_stop(struct tn_etcd_watch *watch)
{
    struct tn_etcd_client *client = watch->client;

    if (client == NULL)
        return;
    struct tn_etcd_watcher *watcher = watch->watcher;
    detach(watch);
    end_watcher(client, watcher);
}

static void fire(struct tn_etcd_client *client, struct tn_etcd_watcher *watcher,
                 const Etcd__Event *event)
{
    struct tn_etcd_watch *watch = watcher->watch;

    TN_ASSERT(watch != NULL);
    detach(watch);
    bool put = event != NULL && event->type == 0 && event->kv != NULL;
    watch->put_at = put ? event->kv->mod_revision : 0;
    end_watcher(client, watcher);
    watch->fired(watch);
}

static struct tn_etcd_watcher *find_watcher(struct tn_etcd_client *client,
                                            const Etcd__WatchResponse *response)
{
    struct tn_etcd_watcher *watcher = next_watcher(client, NULL);

    /* The confirmations come in the order in which they were asked for. */
    while (watcher != NULL && (response->created ? watcher->state != WATCHER_ASKED
                                                 : watcher->state != WATCHER_CREATED ||
                                                       watcher->id != response->watch_id))
        watcher = next_watcher(client, watcher);
    return watcher;
}

static void hear_watch(struct tn_etcd_client *client, const Etcd__WatchResponse *response)
{
    struct tn_etcd_watcher *watcher = find_watcher(client, response);
    int64_t revision = response->header != NULL ? response->header->revision : 0;

    if (watcher == NULL)
        return;
    if (response->created) {
        watcher->state = WATCHER_CREATED;
        watcher->id = response->watch_id;
    }
    if (response->canceled) {
        struct tn_etcd_watch *watch = watcher->watch;
        if (watch != NULL)
            detach(watch);
        free_watcher(watcher);
        if (watch != NULL) {
            watch->put_at = 0;
            watch->fired(watch);
        }
        return;
    }
    if (watcher->watch == NULL) {
        cancel_watcher(client, watcher);
    } else if (response->n_events > 0) {
        fire(client, watcher, response->events[response->n_events - 1]);
    } else if (response->created && revision > 0 && revision + 1 < watcher->revision) {
        fire(client, watcher, NULL); /* The server has forgotten what was seen already. */
    } else if (!response->created && revision >= watcher->revision) {
        watcher->revision = revision + 1;
    }
}

static void watch_heard(struct tn_grpc_call *call, const uint8_t *data, size_t len)
{
    Etcd__WatchResponse *response = etcd__watch_response__unpack(NULL, len, data);

    if (response == NULL) {
        struct tn_etcd_client *client = call->arg;
        tn_stream_doubt(&client->stream, "a watch event that cannot be read");
        return;
    }
    hear_watch(call->arg, response);
    etcd__watch_response__free_unpacked(response, NULL);
}

/* The stream has forgotten them; those that are still wanted are asked for again. */
static void forget_stream(struct tn_etcd_client *client)
{
    for (struct tn_etcd_watcher *watcher = next_watcher(client, NULL), *next; watcher != NULL;
         watcher = next) {
        next = next_watcher(client, watcher);
        watcher->state = WATCHER_NEW;
        if (watcher->watch == NULL)
            free_watcher(watcher);
    }
}

static void watch_ended(struct tn_grpc_call *call)
{
    struct tn_etcd_client *client = call->arg;

    forget_stream(client);
    /* A stream does not end by itself; with the connection it comes back. */
    if (call->status != TN_GRPC_LOST || client->grpc != NULL)
        tn_stream_doubt(&client->stream,
                        call->text[0] != '\0' ? call->text : "the server ended the watch");
}

static void ask_watcher(struct tn_etcd_client *client, struct tn_etcd_watcher *watcher)
{
    Etcd__WatchRequest request = ETCD__WATCH_REQUEST__INIT;
    Etcd__WatchCreateRequest create = ETCD__WATCH_CREATE_REQUEST__INIT;
    int32_t filters[1] = { 0 }; /* No puts. */
    char end[1024];

    if (!open_stream(client))
        return;
    create.key.data = (uint8_t *)watcher->key;
    create.key.len = watcher->key_len;
    create.start_revision = watcher->revision;
    if (watcher->range) {
        memcpy(end, watcher->key, watcher->key_len);
        end[watcher->key_len - 1]++;
        create.range_end.data = (uint8_t *)end;
        create.range_end.len = watcher->key_len;
    }
    create.filters = filters;
    create.n_filters = watcher->deletes ? 1 : 0;
    request.create_request = &create;
    if (send_message(&client->watch_call, &request.base))
        watcher->state = WATCHER_ASKED;
}

int tn_etcd_watch_start(struct tn_etcd_client *client, struct tn_etcd_watch *watch, const char *key,
                        bool range, bool deletes, int64_t revision)
{
    size_t len = strlen(key);
    struct tn_etcd_watcher *watcher = calloc(1, sizeof *watcher + len + 1);

    TN_ASSERT(len > 0 && len < 1024);
    tn_etcd_watch_stop(watch);
    if (watcher == NULL)
        return TENURE_E_NOMEM;
    memcpy(watcher->key, key, len);
    watcher->key_len = len;
    watcher->range = range;
    watcher->deletes = deletes;
    watcher->revision = revision;
    watcher->watch = watch;
    tn_list_add(&client->watchers, &watcher->node);
    watch->watcher = watcher;
    watch->client = client;
    if (tn_etcd_is_ready(client))
        ask_watcher(client, watcher);
    return 0;
}

/* --- The connection --------------------------------------------------------------------------- */

void tn_etcd_streams_up(struct tn_etcd_client *client)
{
    for (struct tn_etcd_watcher *watcher = NULL; (watcher = next_watcher(client, watcher)) != NULL;)
        if (watcher->state == WATCHER_NEW)
            ask_watcher(client, watcher);
}

/* The calls have ended by now, and with them what they carried. */
void tn_etcd_streams_down(struct tn_etcd_client *client)
{
    forget_stream(client);
}

void tn_etcd_streams_close(struct tn_etcd_client *client)
{
    tn_grpc_cancel(&client->watch_call);
    for (struct tn_etcd_watcher *watcher = NULL; (watcher = next_watcher(client, watcher)) != NULL;)
        if (watcher->watch != NULL)
            detach(watcher->watch);
    forget_stream(client);
    TN_ASSERT(tn_list_first(&client->watchers) == NULL);
}
