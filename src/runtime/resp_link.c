/* resp_link.c - pipelining, greeting, deadlines and losses; resp_link.h has the contract. */
#include "runtime/resp_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"

enum {
    REPLY_MAX = 16 << 20,
    VALUES_MAX = 1 << 20,
};

/* --- Words and values ------------------------------------------------------------------------- */

struct tn_resp_word tn_resp_word_of(const char *text)
{
    return (struct tn_resp_word) { text, (uint32_t)strlen(text) };
}

bool tn_resp_begins(const struct tn_resp_value *value, const char *text)
{
    size_t len = strlen(text);

    if (value->type != TN_RESP_STRING && value->type != TN_RESP_ERROR)
        return false;
    return value->len >= len && memcmp(value->bytes, text, len) == 0 &&
           (value->len == len || value->bytes[len] == ' ');
}

static bool is_one_of(const struct tn_resp_value *value, const char *const *words)
{
    for (; *words != NULL; words++)
        if (tn_resp_begins(value, *words))
            return true;
    return false;
}

/* --- Lists of calls --------------------------------------------------------------------------- */

static void add(struct tn_resp_calls *calls, struct tn_resp_call *call)
{
    call->next = NULL;
    *calls->end = call;
    calls->end = &call->next;
}

static struct tn_resp_call *take_first(struct tn_resp_calls *calls)
{
    struct tn_resp_call *call = calls->first;

    if (call == NULL)
        return NULL;
    calls->first = call->next;
    if (calls->first == NULL)
        calls->end = &calls->first;
    call->next = NULL;
    return call;
}

static void end(struct tn_resp_call *call, int status, const char *error)
{
    free(call->bytes);
    call->bytes = NULL;
    call->status = status;
    call->error = error;
    call->done(call);
}

/* What done() sends meanwhile is not among them. */
static void end_all(struct tn_resp_calls *calls, int status, const char *error)
{
    struct tn_resp_calls mine = *calls;
    struct tn_resp_call *call;

    if (mine.first == NULL)
        return;
    calls->first = NULL;
    calls->end = &calls->first;
    while ((call = mine.first) != NULL) {
        mine.first = call->next;
        end(call, status, error);
    }
}

const char *tn_resp_link_error(const struct tn_resp_link *link)
{
    return link->stream.error[0] != '\0' ? link->stream.error : "not connected yet";
}

/* --- Time ------------------------------------------------------------------------------------- */

static void hear_timer(uv_timer_t *timer);

static void wake_by(struct tn_resp_link *link, tenure_ns when)
{
    tenure_ns now = tn_clock_now(link->stream.clock);

    if (when >= link->wake_at || link->closing)
        return;
    link->wake_at = when;
    uint64_t ms = when > now ? (uint64_t)((when - now + TN_MS(1) - 1) / TN_MS(1)) : 0;
    int rc = uv_timer_start(&link->timer, hear_timer, ms, 0);
    TN_ASSERT(rc == 0);
}

static tenure_ns earliest(const struct tn_resp_calls *calls, tenure_ns so_far)
{
    for (const struct tn_resp_call *call = calls->first; call != NULL; call = call->next)
        if (call->give_up_at < so_far)
            so_far = call->give_up_at;
    return so_far;
}

/* Those whose time is up leave the line first, and are ended then: done() may change the line. */
static void end_late(struct tn_resp_link *link, tenure_ns now)
{
    struct tn_resp_calls late = { NULL, &late.first };
    struct tn_resp_call **at = &link->waiting.first;

    while (*at != NULL) {
        struct tn_resp_call *call = *at;
        if (call->give_up_at > now) {
            at = &call->next;
            continue;
        }
        *at = call->next;
        add(&late, call);
    }
    link->waiting.end = at;
    end_all(&late, link->stream.status, tn_resp_link_error(link));
}

static void hear_timer(uv_timer_t *timer)
{
    struct tn_resp_link *link = timer->data;
    tenure_ns now = tn_clock_now(link->stream.clock);

    link->wake_at = TN_NEVER;
    if (earliest(&link->sent, TN_NEVER) <= now)
        tn_stream_drop(&link->stream, "no answer; is the server overloaded or cut off?");
    end_late(link, now);
    wake_by(link, earliest(&link->sent, earliest(&link->waiting, TN_NEVER)));
}

/* --- Sending ---------------------------------------------------------------------------------- */

/* The command as bytes, in the link's scratch; 0: no memory. */
static size_t encode(struct tn_resp_link *link, const struct tn_resp_word *words, uint32_t count)
{
    size_t size = TN_RESP_HEAD_MAX;

    for (uint32_t i = 0; i < count; i++)
        size += words[i].len + TN_RESP_HEAD_MAX;
    if (size > link->scratch_size) {
        char *larger = realloc(link->scratch, size * 2);
        if (larger == NULL)
            return 0;
        link->scratch = larger;
        link->scratch_size = size * 2;
    }
    struct tn_resp_out out = { .buf = link->scratch, .size = link->scratch_size };
    tn_resp_put_array(&out, count);
    for (uint32_t i = 0; i < count; i++)
        tn_resp_put_bulk(&out, words[i].bytes, words[i].len);
    TN_ASSERT(!out.full);
    return out.len;
}

static void write_call(struct tn_resp_link *link, struct tn_resp_call *call, const char *bytes,
                       size_t len)
{
    if (call->confirms > 0)
        link->subscribed = true;
    add(&link->sent, call);
    tn_stream_write(&link->stream, bytes, len);
}

static int put_call(struct tn_resp_link *link, struct tn_resp_call *call,
                    const struct tn_resp_word *words, uint32_t count, bool now)
{
    size_t len = encode(link, words, count);

    if (len == 0)
        return TENURE_E_NOMEM;
    call->bytes = NULL;
    if (now) {
        write_call(link, call, link->scratch, len);
    } else {
        call->bytes = malloc(len);
        if (call->bytes == NULL)
            return TENURE_E_NOMEM;
        memcpy(call->bytes, link->scratch, len);
        call->len = len;
        add(&link->waiting, call);
    }
    wake_by(link, call->give_up_at);
    return 0;
}

int tn_resp_link_send(struct tn_resp_link *link, struct tn_resp_call *call,
                      const struct tn_resp_word *words, uint32_t count)
{
    return put_call(link, call, words, count, link->ready);
}

int tn_resp_link_greet(struct tn_resp_link *link, struct tn_resp_call *call,
                       const struct tn_resp_word *words, uint32_t count)
{
    TN_ASSERT(link->stream.up);
    return put_call(link, call, words, count, true);
}

void tn_resp_link_ready(struct tn_resp_link *link)
{
    struct tn_resp_call *call;

    link->ready = true;
    link->refusal[0] = '\0';
    tn_stream_proven(&link->stream);
    while ((call = take_first(&link->waiting)) != NULL) {
        write_call(link, call, call->bytes, call->len);
        free(call->bytes);
        call->bytes = NULL;
    }
}

void tn_resp_link_refuse(struct tn_resp_link *link, int status, const char *why)
{
    char error[sizeof link->stream.error];

    tn_stream_doubt(&link->stream, why);
    link->stream.status = status;
    (void)snprintf(error, sizeof error, "%s", tn_resp_link_error(link));
    memcpy(link->refusal, error, sizeof error);
    end_all(&link->waiting, status, error);
}

/* --- Greeting --------------------------------------------------------------------------------- */

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static void say_hello(struct tn_resp_link *link);

static void greeted(struct tn_resp_link *link)
{
    link->greeted = true;
    link->host->up(link->arg);
}

/* What the server said, where it cannot forge a line. */
static void refuse_reply(struct tn_resp_link *link, const struct tn_resp_value *value)
{
    static const char *const denials[] = { "WRONGPASS", "NOAUTH", "NOPERM", "DENIED", NULL };
    char why[TN_ERROR_TEXT];
    struct tn_text text;

    tn_text_init(&text, why, sizeof why);
    tn_text_escape(&text, value->bytes, value->len);
    bool denied = is_one_of(value, denials) || tn_resp_begins(value, "ERR invalid password") ||
                  tn_resp_begins(value, "ERR AUTH");
    tn_resp_link_refuse(link, denied ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE, why);
}

static void hello_done(struct tn_resp_call *call)
{
    struct tn_resp_link *link =
        (struct tn_resp_link *)((char *)call - offsetof(struct tn_resp_link, hello));

    if (call->status != 0)
        return; /* The connection was lost. */
    if (call->value.type == TN_RESP_ERROR) {
        bool unknown = tn_resp_begins(&call->value, "ERR unknown command");
        if (!unknown || link->plain_auth) {
            refuse_reply(link, &call->value);
            return;
        }
        link->plain_auth = true;
        if (is_given(link->password)) {
            say_hello(link);
            return;
        }
    }
    greeted(link);
}

/* Before Redis 6 there was no HELLO, and no users. */
static void say_hello(struct tn_resp_link *link)
{
    bool named = link->no_hello && is_given(link->user);
    const char *user = is_given(link->user) ? link->user : "default";
    bool auth = is_given(link->password);
    const struct tn_resp_word hello[] = { tn_resp_word_of("HELLO"), tn_resp_word_of("3"),
                                          tn_resp_word_of("AUTH"), tn_resp_word_of(user),
                                          tn_resp_word_of(auth ? link->password : "") };
    const struct tn_resp_word plain[] = { hello[2], named ? hello[3] : hello[4], hello[4] };

    link->hello = (struct tn_resp_call) { .done = hello_done };
    link->hello.give_up_at = tn_clock_now(link->stream.clock) + TN_MS(link->stream.reach_ms);
    int rc = link->plain_auth ? tn_resp_link_greet(link, &link->hello, plain, named ? 3 : 2)
                              : tn_resp_link_greet(link, &link->hello, hello, auth ? 5 : 2);
    if (rc < 0)
        tn_stream_doubt(&link->stream, "out of memory");
}

static void came_up(void *arg)
{
    struct tn_resp_link *link = arg;

    link->scan = (struct tn_resp_scan) { .at = 0 };
    link->in_len = 0;
    link->plain_auth = link->no_hello;
    link->subscribed = false;
    if (link->connected != NULL)
        link->connected(link->arg);
    if (link->no_hello && !is_given(link->password))
        greeted(link);
    else
        say_hello(link);
}

static void went_down(void *arg)
{
    struct tn_resp_link *link = arg;
    bool tell = link->greeted && !link->closing;
    char error[sizeof link->stream.error];

    link->epoch++;
    link->ready = link->greeted = false;
    link->in_len = 0;
    if (tell)
        link->host->down(link->arg);
    (void)snprintf(error, sizeof error, "%s", tn_resp_link_error(link));
    end_all(&link->sent, link->closing ? TENURE_E_CLOSED : TENURE_E_TIMEOUT, error);
}

/* --- Receiving -------------------------------------------------------------------------------- */

enum resp_kind { ANSWER, CONFIRMATION, MESSAGE };

/* RESP3 marks what answers no command; RESP2 sends it as an array like others. */
static enum resp_kind kind_of(const struct tn_resp_link *link, const struct tn_resp_value *head,
                              const char *frame, size_t len, size_t at)
{
    static const char *const confirmations[] = {
        "subscribe", "unsubscribe", "psubscribe", "punsubscribe", "ssubscribe", "sunsubscribe", NULL
    };
    static const char *const messages[] = { "message", "pmessage", "smessage", NULL };
    struct tn_resp_value word;

    if (head->type != TN_RESP_PUSH && (head->type != TN_RESP_ARRAY || !link->subscribed))
        return ANSWER;
    if (head->count == 0 || tn_resp_next(frame, len, &at, &word) < 0)
        return head->type == TN_RESP_PUSH ? MESSAGE : ANSWER;
    if (is_one_of(&word, confirmations))
        return CONFIRMATION;
    return head->type == TN_RESP_PUSH || is_one_of(&word, messages) ? MESSAGE : ANSWER;
}

static void take_frame(struct tn_resp_link *link, const char *frame, size_t len)
{
    struct tn_resp_call *call = link->sent.first;
    struct tn_resp_value head;
    size_t at = 0;
    char why[TN_ERROR_TEXT];
    struct tn_text text;

    int rc = tn_resp_next(frame, len, &at, &head);
    TN_ASSERT(rc == 0);
    enum resp_kind kind = kind_of(link, &head, frame, len, at);
    if (kind == MESSAGE || (kind == CONFIRMATION && (call == NULL || call->confirms == 0))) {
        if (link->host->push != NULL && link->greeted)
            link->host->push(link->arg, frame, len);
    } else if (call == NULL) {
        tn_text_init(&text, why, sizeof why);
        if (head.type == TN_RESP_ERROR)
            tn_text_escape(&text, head.bytes, head.len);
        else
            tn_text_add(&text, "an answer that nobody asked for");
        tn_stream_drop(&link->stream, why);
    } else if (kind == ANSWER || --call->confirms == 0) {
        (void)take_first(&link->sent);
        call->value = head;
        call->reply = frame;
        call->reply_len = len;
        end(call, 0, NULL);
    }
}

static bool keep(struct tn_resp_link *link, const uint8_t *data, size_t len)
{
    if (link->in_size - link->in_len < len) {
        size_t size = (link->in_len + len) * 2;
        char *larger = realloc(link->in, size);
        if (larger == NULL)
            return false;
        link->in = larger;
        link->in_size = size;
    }
    memcpy(link->in + link->in_len, data, len);
    link->in_len += len;
    return true;
}

static void bytes(void *arg, const uint8_t *data, size_t len)
{
    struct tn_resp_link *link = arg;
    uint64_t epoch = link->epoch;
    size_t at = 0;
    int64_t got = 0;

    if (!keep(link, data, len)) {
        tn_stream_drop(&link->stream, "out of memory");
        return;
    }
    while (at < link->in_len && (got = tn_resp_scan(&link->scan, link->reply_max, VALUES_MAX,
                                                    link->in + at, link->in_len - at)) > 0) {
        take_frame(link, link->in + at, (size_t)got);
        if (link->epoch != epoch || link->closing)
            return;
        at += (size_t)got;
    }
    if (got < 0) {
        tn_stream_drop(&link->stream, "the answer is not RESP, or too large");
        return;
    }
    memmove(link->in, link->in + at, link->in_len - at);
    link->in_len -= at;
}

/* --- Life and death --------------------------------------------------------------------------- */

int tn_resp_link_init(struct tn_resp_link *link, const struct tn_endpoint *endpoints,
                      unsigned count, uint64_t seed)
{
    static const struct tn_stream_host host = { came_up, went_down, bytes };

    link->stream.host = &host;
    link->stream.arg = link;
    link->waiting.end = &link->waiting.first;
    link->sent.end = &link->sent.first;
    link->wake_at = TN_NEVER;
    if (link->reply_max == 0)
        link->reply_max = REPLY_MAX;
    if (uv_timer_init(link->stream.loop, &link->timer) != 0)
        return TENURE_E_UNAVAILABLE;
    link->timer.data = link;
    link->parts = 2;
    return tn_stream_init(&link->stream, endpoints, count, seed);
}

void tn_resp_link_start(struct tn_resp_link *link)
{
    tn_stream_start(&link->stream);
}

static void part_closed(struct tn_resp_link *link)
{
    if (--link->parts > 0)
        return;
    free(link->in);
    free(link->scratch);
    link->closed(link->arg);
}

static void stream_closed(void *arg)
{
    part_closed(arg);
}

static void timer_closed(uv_handle_t *handle)
{
    part_closed(handle->data);
}

void tn_resp_link_close(struct tn_resp_link *link, void (*closed)(void *arg))
{
    link->closing = true;
    link->ready = false;
    link->closed = closed;
    tn_stream_close(&link->stream, stream_closed);
    end_all(&link->waiting, TENURE_E_CLOSED, "closed");
    uv_close((uv_handle_t *)&link->timer, timer_closed);
}
