/* etcd_grpc_test.c - gRPC calls against a server of nghttp2's own, byte by byte, no socket. */
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

#include "stores/etcd/grpc.h"
#include "tests/harness/test.h"

/* The server: what it got, and what it is to answer. */
static struct {
    nghttp2_session *session;
    int32_t stream;
    uint8_t got[256];
    size_t len;
    const char *answer; /* Bytes of DATA. */
    size_t answer_len, answered;
    bool trailers;
} server;

static struct {
    char messages[4][64];
    size_t lens[4];
    unsigned count, done;
} heard;

static int server_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *data,
                       size_t len, void *arg)
{
    (void)session, (void)flags, (void)stream, (void)arg;
    memcpy(server.got + server.len, data, len);
    server.len += len;
    return 0;
}

static int server_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    (void)session, (void)arg;
    if (frame->hd.type == NGHTTP2_HEADERS)
        server.stream = frame->hd.stream_id;
    return 0;
}

static void start_server(void)
{
    nghttp2_session_callbacks *callbacks;

    memset(&server, 0, sizeof server);
    memset(&heard, 0, sizeof heard);
    CHECK_EQ_I64(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, server_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, server_frame);
    CHECK_EQ_I64(nghttp2_session_server_new(&server.session, callbacks, NULL), 0);
    nghttp2_session_callbacks_del(callbacks);
    CHECK_EQ_I64(nghttp2_submit_settings(server.session, 0, NULL, 0), 0);
}

/* Both sides say what they have to, one byte at a time towards the client. */
static int talk(struct tn_grpc *grpc)
{
    const uint8_t *data;
    ssize_t len;

    for (int turns = 0; turns < 20; turns++) {
        while ((len = tn_grpc_pull(grpc, &data)) > 0)
            CHECK_EQ_I64(nghttp2_session_mem_recv(server.session, data, (size_t)len), len);
        while ((len = nghttp2_session_mem_send(server.session, &data)) > 0)
            for (ssize_t i = 0; i < len; i++)
                if (tn_grpc_feed(grpc, data + i, 1) < 0)
                    return TENURE_E_DAMAGED;
    }
    return 0;
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv) { (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                          strlen(value), NGHTTP2_NV_FLAG_NONE };
}

static ssize_t give(nghttp2_session *session, int32_t stream, uint8_t *buf, size_t length,
                    uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    size_t left = server.answer_len - server.answered;

    (void)source, (void)arg;
    left = left < length ? left : length;
    memcpy(buf, server.answer + server.answered, left);
    server.answered += left;
    if (server.answered == server.answer_len) {
        const nghttp2_nv trailer[] = { field("grpc-status", "0") };
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (server.trailers) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            (void)nghttp2_submit_trailer(session, stream, trailer, 1);
        }
    }
    return (ssize_t)left;
}

static void reply(const char *bytes, size_t len, bool trailers)
{
    const nghttp2_nv head[] = { field(":status", "200"),
                                field("content-type", "application/grpc") };
    nghttp2_data_provider provider = { .read_callback = give };

    server.answer = bytes;
    server.answer_len = len;
    server.answered = 0;
    server.trailers = trailers;
    CHECK_EQ_I64(nghttp2_submit_response(server.session, server.stream, head, 2, &provider), 0);
}

static void hear_message(struct tn_grpc_call *call, const uint8_t *data, size_t len)
{
    (void)call;
    CHECK(heard.count < 4 && len < 64);
    memcpy(heard.messages[heard.count], data, len);
    heard.lens[heard.count++] = len;
}

static void hear_done(struct tn_grpc_call *call)
{
    (void)call;
    heard.done++;
}

/* A client that has more to ask as soon as it has an answer. */
struct asker {
    struct tn_grpc *grpc;
    struct tn_grpc_call first, second;
};

static void ask_again(struct tn_grpc_call *call)
{
    struct asker *asker = call->arg;
    const uint8_t *data;

    CHECK_EQ_I64(tn_grpc_start(asker->grpc, &asker->second, "/x.Y/Z", NULL, 0), 0);
    CHECK_EQ_I64(tn_grpc_send(&asker->second, "again", 5, true), 0);
    CHECK_EQ_I64(tn_grpc_pull(asker->grpc, &data), 0);
}

static struct tn_grpc *connect_to_server(void)
{
    struct tn_grpc *grpc = NULL;

    start_server();
    CHECK_EQ_I64(tn_grpc_new(&grpc, "here:1", false), 0);
    return grpc;
}

static void end(struct tn_grpc *grpc)
{
    tn_grpc_free(grpc);
    nghttp2_session_del(server.session);
}

TEST(a_unary_call_and_its_answer)
{
    struct tn_grpc *grpc = connect_to_server();
    struct tn_grpc_call call = { .message = hear_message, .done = hear_done };
    struct tn_grpc_field token = { "token", "abc" };

    CHECK_EQ_I64(tn_grpc_start(grpc, &call, "/x.Y/Z", &token, 1), 0);
    CHECK_EQ_I64(tn_grpc_send(&call, "hello", 5, true), 0);
    CHECK_EQ_I64(talk(grpc), 0);
    CHECK_EQ_U64(server.len, 10);
    CHECK_MEM(server.got, "\0\0\0\0\5hello", 10);
    reply("\0\0\0\0\2hi", 7, true);
    CHECK_EQ_I64(talk(grpc), 0);
    CHECK_EQ_U64(heard.done, 1);
    CHECK_EQ_I64(call.status, TN_GRPC_OK);
    CHECK(call.sent);
    CHECK_EQ_U64(heard.count, 1);
    CHECK_MEM(heard.messages[0], "hi", 2);
    end(grpc);
    CHECK_EQ_U64(heard.done, 1);
}

TEST(a_stream_has_any_number_of_messages)
{
    struct tn_grpc *grpc = connect_to_server();
    struct tn_grpc_call call = { .message = hear_message, .done = hear_done };

    CHECK_EQ_I64(tn_grpc_start(grpc, &call, "/x.Y/Z", NULL, 0), 0);
    CHECK_EQ_I64(tn_grpc_send(&call, "a", 1, false), 0);
    CHECK_EQ_I64(talk(grpc), 0);
    CHECK_EQ_I64(tn_grpc_send(&call, "", 0, false), 0);
    CHECK_EQ_I64(talk(grpc), 0);
    CHECK_EQ_U64(server.len, 11);
    reply("\0\0\0\0\1b\0\0\0\0\0\0\0\0\0\2cd", 18, true);
    CHECK_EQ_I64(talk(grpc), 0);
    CHECK_EQ_U64(heard.count, 3);
    CHECK_EQ_U64(heard.lens[1], 0);
    CHECK_MEM(heard.messages[2], "cd", 2);
    CHECK_EQ_U64(heard.done, 1);
    end(grpc);
}

/* The stream that ends is still in nghttp2's hands then. */
TEST(a_call_that_is_begun_by_the_end_of_another_is_written_after_it)
{
    const nghttp2_nv head[] = { field(":status", "200"), field("grpc-status", "9") };
    struct asker asker = { .first = { .message = hear_message, .done = ask_again, .arg = &asker },
                           .second = { .message = hear_message, .done = hear_done } };

    asker.grpc = connect_to_server();
    CHECK_EQ_I64(tn_grpc_start(asker.grpc, &asker.first, "/x.Y/Z", NULL, 0), 0);
    CHECK_EQ_I64(tn_grpc_send(&asker.first, "a", 1, true), 0);
    CHECK_EQ_I64(talk(asker.grpc), 0);
    CHECK_EQ_I64(nghttp2_submit_response(server.session, server.stream, head, 2, NULL), 0);
    server.len = 0;
    CHECK_EQ_I64(talk(asker.grpc), 0);
    CHECK_MEM(server.got, "\0\0\0\0\5again", 10);
    reply("\0\0\0\0\2hi", 7, true);
    CHECK_EQ_I64(talk(asker.grpc), 0);
    CHECK_EQ_U64(heard.done, 1);
    CHECK_EQ_I64(asker.second.status, TN_GRPC_OK);
    end(asker.grpc);
}

TEST(an_error_comes_without_a_message)
{
    struct tn_grpc *grpc = connect_to_server();
    struct tn_grpc_call call = { .message = hear_message, .done = hear_done };
    const nghttp2_nv head[] = { field(":status", "200"), field("grpc-status", "5"),
                                field("grpc-message", "no%20such%0Alease") };

    CHECK_EQ_I64(tn_grpc_start(grpc, &call, "/x.Y/Z", NULL, 0), 0);
    CHECK_EQ_I64(tn_grpc_send(&call, "a", 1, true), 0);
    CHECK_EQ_I64(talk(grpc), 0);
    CHECK_EQ_I64(nghttp2_submit_response(server.session, server.stream, head, 3, NULL), 0);
    CHECK_EQ_I64(talk(grpc), 0);
    CHECK_EQ_U64(heard.done, 1);
    CHECK_EQ_U64(heard.count, 0);
    CHECK_EQ_I64(call.status, TN_GRPC_NOT_FOUND);
    CHECK_STR(call.text, "no such?lease");
    end(grpc);
}

TEST(a_lost_connection_says_whether_the_server_may_have_seen_it)
{
    struct tn_grpc *grpc = connect_to_server();
    struct tn_grpc_call sent = { .message = hear_message, .done = hear_done }, unsent = sent;

    CHECK_EQ_I64(tn_grpc_start(grpc, &sent, "/x.Y/Z", NULL, 0), 0);
    CHECK_EQ_I64(tn_grpc_send(&sent, "a", 1, true), 0);
    CHECK_EQ_I64(talk(grpc), 0);
    CHECK_EQ_I64(tn_grpc_start(grpc, &unsent, "/x.Y/Z", NULL, 0), 0);
    CHECK_EQ_I64(tn_grpc_send(&unsent, "b", 1, true), 0);
    end(grpc);
    CHECK_EQ_U64(heard.done, 2);
    CHECK_EQ_I64(sent.status, TN_GRPC_LOST);
    CHECK(sent.sent);
    CHECK_EQ_I64(unsent.status, TN_GRPC_LOST);
    CHECK(!unsent.sent);
}

TEST(a_cancelled_call_hears_nothing_more)
{
    struct tn_grpc *grpc = connect_to_server();
    struct tn_grpc_call call = { .message = hear_message, .done = hear_done };

    CHECK_EQ_I64(tn_grpc_start(grpc, &call, "/x.Y/Z", NULL, 0), 0);
    CHECK_EQ_I64(tn_grpc_send(&call, "a", 1, true), 0);
    CHECK_EQ_I64(talk(grpc), 0);
    tn_grpc_cancel(&call);
    tn_grpc_cancel(&call);
    CHECK_EQ_I64(talk(grpc), 0);
    end(grpc);
    CHECK_EQ_U64(heard.done, 0);
}

TEST(what_is_not_http2_or_not_grpc_is_refused)
{
    static const char http1[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nno\n";
    struct tn_grpc *grpc = connect_to_server();
    struct tn_grpc_call call = { .message = hear_message, .done = hear_done };

    CHECK_EQ_I64(tn_grpc_start(grpc, &call, "/x.Y/Z", NULL, 0), 0);
    CHECK_EQ_I64(tn_grpc_send(&call, "a", 1, true), 0);
    CHECK_EQ_I64(talk(grpc), 0);
    reply("\1\0\0\0\1x", 6, true); /* Compressed, which was not asked for. */
    CHECK_EQ_I64(talk(grpc), 0);
    CHECK_EQ_U64(heard.count, 0);
    CHECK_EQ_U64(heard.done, 1);
    CHECK_EQ_I64(call.status, TN_GRPC_LOST);
    end(grpc);

    grpc = connect_to_server();
    const uint8_t *data;
    ssize_t len;
    int rc = tn_grpc_feed(grpc, (const uint8_t *)http1, sizeof http1 - 1);
    do
        len = tn_grpc_pull(grpc, &data);
    while (len > 0);
    CHECK(rc < 0 || len < 0);
    end(grpc);
}
