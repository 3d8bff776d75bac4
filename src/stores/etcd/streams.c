/* streams.c - the stream of keepalives and the stream of watches; client.h has the contract.
 *
 * Keepalives: the server answers them in order. So an answer belongs to the oldest request for that
 * lease that has none yet: taking it for a later one would move a deadline beyond what the server
 * has promised (P1). One that is given up takes its stream with it, so no answer to it can come.
 *
 * Watches: creations are confirmed in order, with the number that their events carry. A connection
 * that comes back gets them all again, each from where it was; a history that was compacted, or
 * that is shorter than what was seen before (a backup was restored), makes them fire. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "etcd.pb-c.h"
#include "stores/etcd/client.h"

/* What the server knows of a watch, for as long as it does. */
struct tn_etcd_watcher {
    struct tn_etcd_watcher *next;
    struct tn_etcd_watch *watch; /* NULL: stopped, but the server has not confirmed it yet. */
    int64_t id;
    int64_t revision; /* From which on. */
    bool asked;       /* Of the present stream. */
    bool created;
    bool range, deletes;
    size_t key_len;
    char key[];
};

static const char keep_path[] = "/etcdserverpb.Lease/LeaseKeepAlive";
static const char watch_path[] = "/etcdserverpb.Watch/Watch";

/* --- A stream --------------------------------------------------------------------------------- */

static bool open_stream(struct tn_etcd_client *client, struct tn_grpc_call *call, const char *path,
                        void (*message)(struct tn_grpc_call *, const uint8_t *, size_t),
                        void (*done)(struct tn_grpc_call *))
{
    struct tn_grpc_field fields[3];
    size_t count = tn_etcd_fields(client, fields);

    if (call->grpc != NULL)
        return true;
    if (!tn_etcd_is_ready(client))
        return false;
    /* A member that has lost the others must end the stream instead of leaving us waiting. */
    fields[count++] = (struct tn_grpc_field) { "hasleader", "true" };
    call->message = message;
    call->done = done;
    call->arg = client;
    return tn_grpc_start(client->channel.grpc, call, path, fields, count) == 0;
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

/* --- Keepalives ------------------------------------------------------------------------------- */

static struct tn_etcd_keep *take_keep(struct tn_etcd_client *client, struct tn_etcd_keep **at)
{
    struct tn_etcd_keep *keep = *at;

    *at = keep->next;
    if (client->keeps_end == &keep->next)
        client->keeps_end = at;
    return keep;
}

static void answer_keep(struct tn_etcd_client *client, struct tn_etcd_keep **at,
                        const struct tn_etcd_reply *reply)
{
    struct tn_etcd_keep *keep = take_keep(client, at);

    keep->answered(keep->arg, reply);
    free(keep);
}

static void fail_keeps(struct tn_etcd_client *client, const struct tn_etcd_reply *reply)
{
    while (client->keeps != NULL)
        answer_keep(client, &client->keeps, reply);
}

static void keep_heard(struct tn_grpc_call *call, const uint8_t *data, size_t len)
{
    struct tn_etcd_client *client = call->arg;
    Etcd__LeaseKeepAliveResponse *response =
        etcd__lease_keep_alive_response__unpack(NULL, len, data);
    struct tn_etcd_keep **at = &client->keeps;

    if (response == NULL)
        return; /* The request will time out. */
    while (*at != NULL && (*at)->id != response->id)
        at = &(*at)->next;
    if (*at != NULL) {
        struct tn_etcd_reply reply = { .message = &response->base };
        answer_keep(client, at, &reply);
    }
    etcd__lease_keep_alive_response__free_unpacked(response, NULL);
}

static void keep_ended(struct tn_grpc_call *call)
{
    struct tn_etcd_client *client = call->arg;
    struct tn_etcd_reply reply;

    tn_etcd_explain(client, call, &reply);
    if (call->status == TN_GRPC_UNAVAILABLE && client->config.url.count > 1)
        tn_channel_doubt(&client->channel, call->text);
    fail_keeps(client, &reply);
}

/* What cannot be sent now is sent when there is a connection, or is given up like one that was
 * lost. */
static void send_keep(struct tn_etcd_client *client, int64_t id)
{
    Etcd__LeaseKeepAliveRequest request = ETCD__LEASE_KEEP_ALIVE_REQUEST__INIT;

    if (!open_stream(client, &client->keep_call, keep_path, keep_heard, keep_ended))
        return;
    request.id = id;
    tn_etcd_sending(client);
    (void)send_message(&client->keep_call, &request.base);
}

static void send_keeps(struct tn_etcd_client *client)
{
    for (struct tn_etcd_keep *keep = client->keeps; keep != NULL; keep = keep->next)
        send_keep(client, keep->id);
}

int tn_etcd_keepalive(struct tn_etcd_client *client, int64_t id, tenure_ns give_up_at,
                      tn_etcd_answered *answered, void *arg)
{
    struct tn_etcd_keep *keep = calloc(1, sizeof *keep);

    if (keep == NULL)
        return TENURE_E_NOMEM;
    keep->id = id;
    keep->give_up_at = give_up_at;
    keep->answered = answered;
    keep->arg = arg;
    *client->keeps_end = keep;
    client->keeps_end = &keep->next;
    send_keep(client, id);
    tn_etcd_client_wake(client);
    return 0;
}

/* No later answer comes before the one that does not come: a member hands keepalives on to the
 * leader it knows, and if that one stands still, only gives up after seven seconds. On a new stream
 * it may know of another leader. */
static void leave_stuck_stream(struct tn_etcd_client *client)
{
    tn_grpc_cancel(&client->keep_call);
    send_keeps(client);
}

static void give_up_late_keeps(struct tn_etcd_client *client, tenure_ns now)
{
    const char *why = client->channel.stream.error;
    struct tn_etcd_reply late = { .status = TENURE_E_TIMEOUT,
                                  .grpc = TN_GRPC_LOST,
                                  .text = why[0] != '\0' ? why : "etcd: no answer in time" };
    struct tn_etcd_keep **at = &client->keeps;
    bool stuck = false;

    while (*at != NULL) {
        if (now < (*at)->give_up_at) {
            at = &(*at)->next;
            continue;
        }
        stuck = true;
        tn_etcd_suspect(client);
        answer_keep(client, at, &late);
        at = &client->keeps; /* The list may be another one. */
    }
    if (stuck)
        leave_stuck_stream(client);
}

/* --- Watches ---------------------------------------------------------------------------------- */

static void free_watcher(struct tn_etcd_client *client, struct tn_etcd_watcher *watcher)
{
    struct tn_etcd_watcher **at = &client->watchers;

    while (*at != watcher)
        at = &(*at)->next;
    *at = watcher->next;
    free(watcher);
}

static void detach(struct tn_etcd_watch *watch)
{
    *watch->link = watch->next;
    if (watch->next != NULL)
        watch->next->link = watch->link;
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
    free_watcher(client, watcher);
}

void tn_etcd_watch_stop(struct tn_etcd_watch *watch)
{
    struct tn_etcd_client *client = watch->client;

    if (client == NULL)
        return;
    struct tn_etcd_watcher *watcher = watch->watcher;
    detach(watch);
    if (!watcher->asked)
        free_watcher(client, watcher);
    else if (watcher->created)
        cancel_watcher(client, watcher);
    /* Otherwise it is cancelled when its creation is confirmed. */
}

static void fire(struct tn_etcd_client *client, struct tn_etcd_watcher *watcher,
                 const Etcd__Event *event)
{
    struct tn_etcd_watch *watch = watcher->watch;

    TN_ASSERT(watch != NULL);
    detach(watch);
    bool put = event != NULL && event->type == 0 && event->kv != NULL;
    watch->put_at = put ? event->kv->mod_revision : 0;
    if (!watcher->asked)
        free_watcher(client, watcher);
    else if (watcher->created)
        cancel_watcher(client, watcher);
    watch->fired(watch);
}

static struct tn_etcd_watcher *find_watcher(struct tn_etcd_client *client,
                                            const Etcd__WatchResponse *response)
{
    struct tn_etcd_watcher *watcher = client->watchers;

    /* The confirmations come in the order in which they were asked for. */
    while (watcher != NULL &&
           (response->created ? !watcher->asked || watcher->created
                              : watcher->id != response->watch_id || !watcher->created))
        watcher = watcher->next;
    return watcher;
}

static void hear_watch(struct tn_etcd_client *client, const Etcd__WatchResponse *response)
{
    struct tn_etcd_watcher *watcher = find_watcher(client, response);
    int64_t revision = response->header != NULL ? response->header->revision : 0;

    if (watcher == NULL)
        return;
    if (response->created) {
        watcher->created = true;
        watcher->id = response->watch_id;
    }
    if (response->canceled) {
        struct tn_etcd_watch *watch = watcher->watch;
        if (watch != NULL)
            detach(watch);
        free_watcher(client, watcher);
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
        tn_channel_doubt(&client->channel, "a watch event that cannot be read");
        return;
    }
    hear_watch(call->arg, response);
    etcd__watch_response__free_unpacked(response, NULL);
}

/* The stream has forgotten them; those that are still wanted are asked for again. */
static void forget_stream(struct tn_etcd_client *client)
{
    for (struct tn_etcd_watcher *watcher = client->watchers, *next; watcher != NULL;
         watcher = next) {
        next = watcher->next;
        watcher->asked = watcher->created = false;
        if (watcher->watch == NULL)
            free_watcher(client, watcher);
    }
}

static void watch_ended(struct tn_grpc_call *call)
{
    struct tn_etcd_client *client = call->arg;

    forget_stream(client);
    /* A stream does not end by itself; with the connection it comes back. */
    if (call->status != TN_GRPC_LOST || client->channel.grpc != NULL)
        tn_channel_doubt(&client->channel,
                         call->text[0] != '\0' ? call->text : "the server ended the watch");
}

static void ask_watcher(struct tn_etcd_client *client, struct tn_etcd_watcher *watcher)
{
    Etcd__WatchRequest request = ETCD__WATCH_REQUEST__INIT;
    Etcd__WatchCreateRequest create = ETCD__WATCH_CREATE_REQUEST__INIT;
    int32_t filters[1] = { 0 }; /* No puts. */
    char end[1024];

    if (!open_stream(client, &client->watch_call, watch_path, watch_heard, watch_ended))
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
    watcher->asked = send_message(&client->watch_call, &request.base);
}

int tn_etcd_watch_start(struct tn_etcd_client *client, struct tn_etcd_watch *watch, const char *key,
                        bool range, bool deletes, int64_t revision)
{
    size_t len = strlen(key);
    struct tn_etcd_watcher *watcher = calloc(1, sizeof *watcher + len + 1);
    struct tn_etcd_watcher **end = &client->watchers;

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
    while (*end != NULL)
        end = &(*end)->next;
    *end = watcher;
    watch->watcher = watcher;
    watch->client = client;
    watch->link = &client->watches;
    watch->next = client->watches;
    if (watch->next != NULL)
        watch->next->link = &watch->next;
    client->watches = watch;
    if (tn_etcd_is_ready(client))
        ask_watcher(client, watcher);
    return 0;
}

/* --- The connection --------------------------------------------------------------------------- */

void tn_etcd_streams_up(struct tn_etcd_client *client)
{
    for (struct tn_etcd_watcher *watcher = client->watchers; watcher != NULL;
         watcher = watcher->next)
        if (!watcher->asked)
            ask_watcher(client, watcher);
    send_keeps(client);
}

/* The calls have ended by now, and with them what they carried. */
void tn_etcd_streams_down(struct tn_etcd_client *client)
{
    forget_stream(client);
}

bool tn_etcd_streams_tick(struct tn_etcd_client *client, tenure_ns now)
{
    give_up_late_keeps(client, now);
    return client->keeps != NULL;
}

void tn_etcd_streams_close(struct tn_etcd_client *client)
{
    struct tn_etcd_reply reply = { .status = TENURE_E_CLOSED,
                                   .grpc = TN_GRPC_LOST,
                                   .text = "closed" };

    tn_grpc_cancel(&client->keep_call);
    tn_grpc_cancel(&client->watch_call);
    fail_keeps(client, &reply);
    while (client->watches != NULL)
        detach(client->watches);
    forget_stream(client);
    TN_ASSERT(client->watchers == NULL);
}
