/* grpc.c - gRPC calls over nghttp2; grpc.h has the contract.
 *
 * A message travels as five bytes - whether it is compressed, and its length - and its own; in
 * DATA frames that are cut anywhere. The status comes as trailers, or at once in the first HEADERS
 * when there is no message. What can fail: memory, a peer that does not speak HTTP/2, and a message
 * longer than any answer we ask for. */
#include "stores/etcd/grpc.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hex.h"

enum {
    PREFIX = 5,
    MESSAGE_MAX = 64 << 20,
    WINDOW = 4 << 20,
    FIELDS_MAX = 12,
};

struct tn_grpc {
    nghttp2_session *session;
    struct tn_list calls;
    bool leaving;
    bool broken; /* nghttp2 has given the connection up. */
    bool busy;   /* In a feed or a pull. */
    const char *scheme;
    char authority[300];
};

/* --- Buffers ---------------------------------------------------------------------------------- */

static bool buf_add(struct tn_grpc_buf *buf, const void *data, size_t len)
{
    if (buf->at > 0 && buf->at == buf->len)
        buf->at = buf->len = 0;
    if (len > buf->size - buf->len) {
        size_t size = buf->size > 0 ? buf->size : 256;
        while (size - buf->len < len)
            size *= 2;
        uint8_t *grown = realloc(buf->data, size);
        if (grown == NULL)
            return false;
        buf->data = grown;
        buf->size = size;
    }
    if (len > 0)
        memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    return true;
}

static void buf_free(struct tn_grpc_buf *buf)
{
    free(buf->data);
    *buf = (struct tn_grpc_buf) { 0 };
}

/* --- Calls ------------------------------------------------------------------------------------ */

static void unlink_call(struct tn_grpc_call *call)
{
    tn_list_remove(&call->under_way);
    call->grpc = NULL;
    buf_free(&call->in);
    buf_free(&call->out);
}

static void end_call(struct tn_grpc_call *call)
{
    unlink_call(call);
    call->done(call);
}

static void say(struct tn_grpc_call *call, const char *text)
{
    if (call->text[0] == '\0')
        (void)snprintf(call->text, sizeof call->text, "%s", text);
}

static ssize_t read_out(nghttp2_session *session, int32_t stream, uint8_t *buf, size_t length,
                        uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct tn_grpc_call *call = nghttp2_session_get_stream_user_data(session, stream);

    (void)arg;
    (void)source;
    if (call == NULL) /* Cancelled. */
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    size_t left = call->out.len - call->out.at;
    if (left == 0 && !call->last)
        return NGHTTP2_ERR_DEFERRED;
    if (left > length)
        left = length;
    memcpy(buf, call->out.data + call->out.at, left);
    call->out.at += left;
    if (call->last && call->out.at == call->out.len)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)left;
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv) { (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                          strlen(value), NGHTTP2_NV_FLAG_NONE };
}

int tn_grpc_start(struct tn_grpc *grpc, struct tn_grpc_call *call, const char *path,
                  const struct tn_grpc_field *fields, size_t count)
{
    nghttp2_nv list[FIELDS_MAX] = {
        field(":method", "POST"),      field(":scheme", grpc->scheme),
        field(":path", path),          field(":authority", grpc->authority),
        field("te", "trailers"),       field("content-type", "application/grpc"),
        field("user-agent", "tenure"),
    };
    nghttp2_data_provider provider = { .read_callback = read_out };
    size_t used = 7;

    TN_ASSERT(used + count <= FIELDS_MAX);
    if (grpc->leaving)
        return TENURE_E_UNAVAILABLE;
    for (size_t i = 0; i < count; i++)
        list[used++] = field(fields[i].name, fields[i].value);
    call->status = TN_GRPC_LOST;
    call->sent = false;
    call->text[0] = '\0';
    call->last = false;
    call->in = call->out = (struct tn_grpc_buf) { 0 };
    call->stream = nghttp2_submit_request(grpc->session, NULL, list, used, &provider, call);
    if (call->stream < 0)
        return call->stream == NGHTTP2_ERR_NOMEM ? TENURE_E_NOMEM : TENURE_E_UNAVAILABLE;
    call->grpc = grpc;
    tn_list_add(&grpc->calls, &call->under_way);
    return 0;
}

int tn_grpc_send(struct tn_grpc_call *call, const void *data, size_t len, bool last)
{
    uint8_t prefix[PREFIX] = { 0, (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8),
                               (uint8_t)len };
    size_t before = call->out.len;

    TN_ASSERT(call->grpc != NULL);
    TN_ASSERT(!call->last);
    if (!buf_add(&call->out, prefix, sizeof prefix))
        return TENURE_E_NOMEM;
    if (!buf_add(&call->out, data, len)) {
        call->out.len = before < call->out.len ? call->out.len - sizeof prefix : 0;
        return TENURE_E_NOMEM;
    }
    call->last = last;
    /* Fails when it was not deferred, which is just as well. */
    (void)nghttp2_session_resume_data(call->grpc->session, call->stream);
    return 0;
}

void tn_grpc_cancel(struct tn_grpc_call *call)
{
    struct tn_grpc *grpc = call->grpc;

    if (grpc == NULL)
        return;
    /* Without memory the stream stays, and its answer is dropped. */
    (void)nghttp2_submit_rst_stream(grpc->session, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_CANCEL);
    (void)nghttp2_session_set_stream_user_data(grpc->session, call->stream, NULL);
    unlink_call(call);
}

/* --- What arrives ----------------------------------------------------------------------------- */

static struct tn_grpc_call *call_of(nghttp2_session *session, int32_t stream)
{
    return nghttp2_session_get_stream_user_data(session, stream);
}

/* Whole messages, as many as there are. The call may be cancelled by its own message(). */
static int take_messages(nghttp2_session *session, int32_t stream)
{
    struct tn_grpc_call *call;

    while ((call = call_of(session, stream)) != NULL && call->in.len - call->in.at >= PREFIX) {
        const uint8_t *head = call->in.data + call->in.at;
        size_t len = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
        if (head[0] != 0 || len > MESSAGE_MAX) {
            say(call, head[0] != 0 ? "a compressed answer" : "an answer of more than 64 MiB");
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        }
        if (call->in.len - call->in.at < PREFIX + len)
            break;
        /* Handed over on its own, so that the callee may cancel the call. */
        struct tn_grpc_buf whole = call->in;
        call->in = (struct tn_grpc_buf) { 0 };
        whole.at += PREFIX + len;
        if (!buf_add(&call->in, whole.data + whole.at, whole.len - whole.at)) {
            free(whole.data);
            return NGHTTP2_ERR_CALLBACK_FAILURE;
        }
        call->message(call, whole.data + whole.at - len, len);
        free(whole.data);
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
                   size_t len, void *arg)
{
    struct tn_grpc_call *call = call_of(session, stream);

    (void)flags;
    (void)arg;
    if (call == NULL)
        return 0;
    if (!buf_add(&call->in, data, len))
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    if (take_messages(session, stream) == 0)
        return 0;
    (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream, NGHTTP2_CANCEL);
    return 0;
}

/* grpc-message is percent-encoded. */
static void decode(char *ret_text, size_t size, const uint8_t *from, size_t len)
{
    size_t at = 0;

    for (size_t i = 0; i < len && at + 1 < size; i++) {
        uint8_t c = from[i];
        if (c == '%' && i + 2 < len && tn_unhex(&c, (const char *)from + i + 1, 1))
            i += 2;
        ret_text[at++] = c >= ' ' && c < 127 ? (char)c : '?';
    }
    ret_text[at] = '\0';
}

static bool is_name(const uint8_t *name, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(name, word, len) == 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    struct tn_grpc_call *call = call_of(session, frame->hd.stream_id);

    (void)flags;
    (void)arg;
    if (call == NULL)
        return 0;
    if (is_name(name, name_len, "grpc-status")) {
        int status = 0;
        for (size_t i = 0; i < value_len && i < 4; i++)
            status = 10 * status + (value[i] - '0');
        call->status = status;
    } else if (is_name(name, name_len, "grpc-message")) {
        decode(call->text, sizeof call->text, value, value_len);
    } else if (is_name(name, name_len, ":status") && !is_name(value, value_len, "200")) {
        (void)snprintf(call->text, sizeof call->text, "HTTP status %.*s", (int)value_len,
                       (const char *)value);
    }
    return 0;
}

static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct tn_grpc *grpc = arg;

    /* We never say goodbye ourselves: nghttp2 does, when the peer makes no sense. */
    if (frame->hd.type == NGHTTP2_GOAWAY)
        grpc->broken = true;
    if (frame->hd.type == NGHTTP2_HEADERS) {
        struct tn_grpc_call *call = call_of(session, frame->hd.stream_id);
        if (call != NULL)
            call->sent = true;
    }
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct tn_grpc *grpc = arg;

    if (frame->hd.type == NGHTTP2_GOAWAY)
        grpc->leaving = true;
    /* The server has said its last word; whatever we would still say, nobody hears. */
    if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                        NGHTTP2_NO_ERROR);
    return 0;
}

static int on_closed(nghttp2_session *session, int32_t stream, uint32_t error, void *arg)
{
    struct tn_grpc_call *call = call_of(session, stream);

    (void)arg;
    if (call == NULL)
        return 0;
    if (error == NGHTTP2_REFUSED_STREAM)
        call->sent = false; /* RFC 9113, 8.7: not processed. */
    if (call->status == TN_GRPC_LOST)
        say(call, error == NGHTTP2_NO_ERROR ? "the answer has no gRPC status"
                                            : nghttp2_http2_strerror(error));
    (void)nghttp2_session_set_stream_user_data(session, stream, NULL);
    end_call(call);
    return 0;
}

/* --- The connection --------------------------------------------------------------------------- */

static int make_session(struct tn_grpc *grpc)
{
    nghttp2_session_callbacks *callbacks;
    const nghttp2_settings_entry settings[] = {
        { NGHTTP2_SETTINGS_ENABLE_PUSH, 0 },
        { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW },
    };

    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return TENURE_E_NOMEM;
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_closed);
    int rc = nghttp2_session_client_new(&grpc->session, callbacks, grpc);
    nghttp2_session_callbacks_del(callbacks);
    if (rc == 0)
        rc = nghttp2_submit_settings(grpc->session, NGHTTP2_FLAG_NONE, settings, 2);
    if (rc == 0)
        rc = nghttp2_session_set_local_window_size(grpc->session, NGHTTP2_FLAG_NONE, 0, WINDOW);
    return rc == 0 ? 0 : TENURE_E_NOMEM;
}

int tn_grpc_new(struct tn_grpc **ret_grpc, const char *authority, bool tls)
{
    struct tn_grpc *grpc = calloc(1, sizeof *grpc);

    if (grpc == NULL)
        return TENURE_E_NOMEM;
    tn_list_init(&grpc->calls);
    grpc->scheme = tls ? "https" : "http";
    (void)snprintf(grpc->authority, sizeof grpc->authority, "%s", authority);
    if (make_session(grpc) < 0) {
        nghttp2_session_del(grpc->session);
        free(grpc);
        return TENURE_E_NOMEM;
    }
    *ret_grpc = grpc;
    return 0;
}

void tn_grpc_free(struct tn_grpc *grpc)
{
    if (grpc == NULL)
        return;
    grpc->leaving = true; /* done() cannot begin another call here. */
    for (struct tn_list_node *node; (node = tn_list_first(&grpc->calls)) != NULL;) {
        struct tn_grpc_call *call = TN_LIST_ENTRY(node, struct tn_grpc_call, under_way);
        call->status = TN_GRPC_LOST;
        say(call, "the connection was lost");
        end_call(call);
    }
    nghttp2_session_del(grpc->session);
    free(grpc);
}

int tn_grpc_feed(struct tn_grpc *grpc, const uint8_t *data, size_t len)
{
    TN_ASSERT(!grpc->busy);
    grpc->busy = true;
    ssize_t used = nghttp2_session_mem_recv(grpc->session, data, len);
    grpc->busy = false;
    return used == (ssize_t)len ? 0 : TENURE_E_DAMAGED;
}

ssize_t tn_grpc_pull(struct tn_grpc *grpc, const uint8_t **ret_data)
{
    if (grpc->busy)
        return 0; /* nghttp2 frees a stream twice if it is made to send from its own callbacks. */
    grpc->busy = true;
    ssize_t len = nghttp2_session_mem_send(grpc->session, ret_data);
    grpc->busy = false;
    return len == 0 && grpc->broken ? TENURE_E_DAMAGED : len;
}

bool tn_grpc_leaving(const struct tn_grpc *grpc)
{
    return grpc->leaving;
}
