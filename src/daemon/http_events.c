/* http_events.c - GET /v1/events: what happens to leases, as server-sent events.
 *
 * The stream begins with the leases as they are, then says "synced", then tells every change. Each
 * event has the whole state of its lease, so the latest one counts, in whatever order they were
 * gathered. There are no numbers to resume from, because nothing is kept for who is away: who comes
 * back gets the state of then, which is honest and enough.
 *
 * The connection watches as with WATCH, and lists as with LEASE LIST; here both become events. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/http.h"

#define PAGE "250" /* Leases in one step: even with the longest texts less than TN_STREAM_MAX. */

enum { SILENT_SWEEPS = 15 };

static const char *argument(const struct tn_http_request *request, const char *key)
{
    return tn_http_target_argument(&request->target, key);
}

static struct tn_resp_word word_of(const char *text)
{
    return (struct tn_resp_word) { text, (uint32_t)strlen(text) };
}

/* WATCH NAME, WATCH PREFIX/STAR, WATCH STAR. */
uint32_t tn_events_words(struct tn_http_request *request, struct tn_resp_word list[TN_WORDS_MAX])
{
    const char *name = argument(request, "name");
    const char *prefix = argument(request, "prefix");
    const char *text = name != NULL ? name : prefix != NULL ? prefix : "";
    size_t len = strlen(text);

    while (name == NULL && len > 0 && text[len - 1] == '/')
        len--;
    if (len > TN_NAME_MAX)
        len = TN_NAME_MAX + 1; /* WATCH refuses it. */
    (void)snprintf(request->pattern, sizeof request->pattern, "%.*s%s%s", (int)len, text,
                   name == NULL && len > 0 ? "/" : "", name == NULL ? "*" : "");
    request->one = name != NULL;
    request->beats = argument(request, "beat") != NULL;
    list[0] = word_of("WATCH");
    list[1] = word_of(request->pattern);
    return 2;
}

/* Ask for the next leases of the beginning. */
static void ask_for_leases(struct tn_http_request *request)
{
    struct tn_server *server = request->server;
    struct tn_resp_word *words = server->words;
    char cursor[24];
    size_t len = strlen(request->pattern);

    request->state = TN_REQUEST_AWAITING;
    words[0] = word_of("LEASE");
    if (request->one) {
        words[1] = word_of("GET");
        words[2] = word_of(request->pattern);
        tn_command(request->conn, 3);
        return;
    }
    (void)snprintf(cursor, sizeof cursor, "%" PRIu64, request->cursor);
    words[1] = word_of("LIST");
    words[2] = word_of(cursor);
    words[3] = word_of("COUNT");
    words[4] = word_of(PAGE);
    words[5] = word_of("PREFIX");
    words[6] = (struct tn_resp_word) { request->pattern, (uint32_t)len - 1 };
    tn_command(request->conn, 7);
}

/* --- The stream ------------------------------------------------------------------------------- */

void tn_events_go_on(struct tn_http_request *request)
{
    if (request->state == TN_REQUEST_LISTING && request->conn != NULL && request->events.len == 0)
        ask_for_leases(request);
}

void tn_events_begin(struct tn_http_request *request)
{
    const struct tn_http_response answer = {
        .status = TN_STATUS_OK,
        .type = "text/event-stream",
        .fields = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                  "X-Accel-Buffering: no\r\n",
    };

    request->state = TN_REQUEST_LISTING;
    tn_http_conn_stream(&request->web->http, &answer);
    if (request->web == NULL || request->web->http.state != TN_HTTP_STREAMING)
        request->state = TN_REQUEST_OVER; /* HEAD, or there is nobody. */
    else
        tn_httpd_later(&request->web->http);
}

/* Room for @len more bytes, up to what a reader may let wait. */
static bool make_room(struct tn_growing *events, size_t len)
{
    size_t size = events->size > 0 ? events->size : 1024;

    events->failed = events->failed || events->len + len > TN_STREAM_MAX;
    if (events->failed)
        return false;
    while (size - events->len < len)
        size *= 2;
    if (size == events->size)
        return true;
    char *larger = realloc(events->bytes, size);
    events->failed = larger == NULL;
    if (larger == NULL)
        return false;
    events->bytes = larger;
    events->size = size;
    return true;
}

static void add_event(struct tn_http_request *request, const struct tn_text *text)
{
    struct tn_growing *events = &request->events;

    if (!make_room(events, text->len)) {
        if (tn_log_due(request->conn->server, TN_SAID_SLOW))
            tn_log("connection %llu: reads events too slowly, cut off",
                   (unsigned long long)request->conn->id);
        tn_conn_close(request->conn);
        return;
    }
    memcpy(events->bytes + events->len, text->buf, text->len);
    events->len += text->len;
}

/* A lease between @before and @after. */
static void tell_one(struct tn_http_request *request, struct tn_reply *reply, uint32_t count,
                     const char *before, const char *after)
{
    char buf[4096];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_text_add(&text, before);
    tn_json_lease(&text, reply, count);
    tn_text_add(&text, after);
    if (request->conn != NULL)
        add_event(request, &text);
}

static void tell_lease(struct tn_http_request *request, struct tn_reply *reply, uint32_t count)
{
    tell_one(request, reply, count, "event: lease\ndata: ", "\n\n");
}

/* Of the beginning. A reader that asks for beats gets one event for all of a page: thousands of
 * events cost a browser more than what is in them. */
static void tell_page(struct tn_http_request *request, struct tn_reply *reply)
{
    uint32_t leases = tn_http_reply_next(reply).count;

    for (uint32_t i = 0; i < leases; i++) {
        uint32_t count = tn_http_reply_next(reply).count;
        if (!request->beats)
            tell_lease(request, reply, count);
        else
            tell_one(request, reply, count, i == 0 ? "event: leases\ndata: [" : ",",
                     i + 1 == leases ? "]\n\n" : "");
    }
}

static void tell_synced(struct tn_http_request *request)
{
    char buf[64];
    struct tn_text text;

    request->state = TN_REQUEST_FOLLOWING;
    tn_text_init(&text, buf, sizeof buf);
    tn_text_add(&text, "event: synced\ndata: {}\n\n");
    if (request->conn != NULL)
        add_event(request, &text);
}

/* What the connection was told: a change, a page of the beginning, or one lease. */
static void tell_event(struct tn_http_request *request, struct tn_reply *reply)
{
    struct tn_reply ahead = *reply;
    uint32_t count = tn_http_reply_next(reply).count;
    struct tn_resp_value first = tn_http_reply_next(reply);

    if (first.type == TN_RESP_INTEGER) {
        request->cursor = (uint64_t)first.integer;
        request->state = TN_REQUEST_LISTING;
        tell_page(request, reply);
        if (request->cursor == 0)
            tell_synced(request);
        return;
    }
    if (first.type == TN_RESP_STRING && first.len == 4 && memcmp(first.bytes, "name", 4) == 0) {
        (void)tn_http_reply_next(&ahead);
        tell_lease(request, &ahead, count);
        *reply = ahead;
        tell_synced(request);
        return;
    }
    if (first.type == TN_RESP_STRING && first.len == 5 && memcmp(first.bytes, "lease", 5) == 0) {
        tell_lease(request, reply, tn_http_reply_next(reply).count);
        return;
    }
    for (uint32_t i = 1; i < count; i++)
        (void)tn_http_reply_next(reply); /* The watch is confirmed. */
}

void tn_events_replied(struct tn_http_request *request, const char *bytes, size_t len)
{
    struct tn_reply reply = { .bytes = bytes, .len = len };

    while (reply.at < len && request->conn != NULL)
        tell_event(request, &reply);
}

/* A comment now and then keeps the way open. A reader that asks for beats hears one every second,
 * and so knows within two that the daemon does not answer any more. */
void tn_events_sweep(struct tn_http_request *request)
{
    char buf[80];
    struct tn_text text;

    if (!request->beats && (request->events.len > 0 || ++request->silence < SILENT_SWEEPS))
        return;
    tn_text_init(&text, buf, sizeof buf);
    if (request->beats)
        tn_text_addf(&text, "event: beat\ndata: {\"now\":%" PRId64 "}\n\n", tn_wall_ms());
    else
        tn_text_add(&text, ":\n\n");
    add_event(request, &text);
    if (request->conn != NULL)
        tn_http_push(request);
}
