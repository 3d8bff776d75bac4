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

enum { BLOCK = 16 * 1024, SILENT_SWEEPS = 15 };

static const char *argument(const struct tn_http_request *request, const char *key)
{
    return MHD_lookup_connection_value(request->mhd, MHD_GET_ARGUMENT_KIND, key);
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
    list[0] = word_of("WATCH");
    list[1] = word_of(request->pattern);
    return 2;
}

/* Ask for the next leases of the beginning. */
static void ask(struct tn_http_request *request)
{
    struct tn_server *server = request->server;
    struct tn_resp_word *words = server->words;
    char cursor[24];
    size_t len = strlen(request->pattern);

    request->asked = true;
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

static ssize_t read_events(void *arg, uint64_t position, char *buf, size_t max)
{
    struct tn_http_request *request = arg;
    struct tn_body *body = &request->body;
    size_t len = body->len < max ? body->len : max;

    (void)position;
    if (body->failed)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (len > 0) {
        memcpy(buf, body->bytes, len);
        body->len -= len;
        memmove(body->bytes, body->bytes + len, body->len);
        request->silence = 0;
        return (ssize_t)len;
    }
    if (request->conn == NULL)
        return MHD_CONTENT_READER_END_OF_STREAM;
    request->suspended = true;
    MHD_suspend_connection(request->mhd);
    if (request->listing && !request->asked) {
        tn_server_tell_time(request->server);
        ask(request);
    }
    return 0;
}

void tn_events_begin(struct tn_http_request *request)
{
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK, read_events, request, NULL);

    request->streams = request->answered = request->listing = true;
    request->body.len = 0;
    request->status = MHD_HTTP_OK;
    request->response = response;
    if (response == NULL)
        return;
    (void)MHD_add_response_header(response, "Content-Type", "text/event-stream");
    (void)MHD_add_response_header(response, "Cache-Control", "no-store");
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    (void)MHD_add_response_header(response, "X-Accel-Buffering", "no");
}

static void add(struct tn_http_request *request, const struct tn_text *text)
{
    struct tn_body *body = &request->body;

    if (!tn_body_room(body, text->len, TN_STREAM_MAX)) {
        if (tn_log_due(request->conn->server, TN_SAID_SLOW))
            tn_log("connection %llu: reads events too slowly, cut off",
                   (unsigned long long)request->conn->id);
        tn_conn_close(request->conn);
        return;
    }
    memcpy(body->bytes + body->len, text->buf, text->len);
    body->len += text->len;
}

static void tell_lease(struct tn_http_request *request, struct tn_reply *reply, uint32_t count)
{
    char buf[4096];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_text_add(&text, "event: lease\ndata: ");
    tn_json_lease(&text, reply, count);
    tn_text_add(&text, "\n\n");
    if (request->conn != NULL)
        add(request, &text);
}

static void tell_synced(struct tn_http_request *request)
{
    char buf[64];
    struct tn_text text;

    request->listing = false;
    tn_text_init(&text, buf, sizeof buf);
    tn_text_add(&text, "event: synced\ndata: {}\n\n");
    if (request->conn != NULL)
        add(request, &text);
}

/* What the connection was told: a change, a page of the beginning, or one lease. */
static void tell(struct tn_http_request *request, struct tn_reply *reply)
{
    struct tn_reply ahead = *reply;
    uint32_t count = tn_reply_next(reply).count;
    struct tn_resp_value first = tn_reply_next(reply);

    if (first.type == TN_RESP_INTEGER) {
        request->cursor = (uint64_t)first.integer;
        request->asked = false;
        uint32_t leases = tn_reply_next(reply).count;
        for (uint32_t i = 0; i < leases; i++)
            tell_lease(request, reply, tn_reply_next(reply).count);
        if (request->cursor == 0)
            tell_synced(request);
        return;
    }
    if (first.type == TN_RESP_STRING && first.len == 4 && memcmp(first.bytes, "name", 4) == 0) {
        request->asked = false;
        (void)tn_reply_next(&ahead);
        tell_lease(request, &ahead, count);
        *reply = ahead;
        tell_synced(request);
        return;
    }
    if (first.type == TN_RESP_STRING && first.len == 5 && memcmp(first.bytes, "lease", 5) == 0) {
        tell_lease(request, reply, tn_reply_next(reply).count);
        return;
    }
    for (uint32_t i = 1; i < count; i++)
        (void)tn_reply_next(reply); /* The watch is confirmed. */
}

void tn_events_replied(struct tn_http_request *request, const char *bytes, size_t len)
{
    struct tn_reply reply = { .bytes = bytes, .len = len };

    while (reply.at < len && request->conn != NULL)
        tell(request, &reply);
}

void tn_events_sweep(struct tn_http_request *request)
{
    char buf[8];
    struct tn_text text;

    if (request->body.len > 0 || ++request->silence < SILENT_SWEEPS)
        return;
    tn_text_init(&text, buf, sizeof buf);
    tn_text_add(&text, ":\n\n"); /* A comment, so that the way stays open. */
    add(request, &text);
    tn_http_resume(request);
}
