/* web_test.c - the HTTP client against a server in the same loop that answers as each test says. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <uv.h>

#include "base/time.h"
#include "net/web.h"

enum { CONNS = 16, REQS = 8 };

static uv_loop_t loop;
static struct tn_web *web;
static bool web_closed, inside;
static char url[128];

static struct {
    uv_tcp_t listener;
    uv_tcp_t conns[CONNS];
    unsigned count;
    unsigned requests;
    char in[8192]; /* The last request. */
    size_t in_len;
    void (*answer)(uv_stream_t *conn);
} server;

struct test_req {
    struct tn_web_req web;
    unsigned done;
    int status, http;
    size_t got; /* By data(). */
    char body[256], error[TN_ERROR_TEXT], etag[64];
};
static struct test_req reqs[REQS];

/* --- The server ------------------------------------------------------------------------------- */

static void say(uv_stream_t *conn, const char *text)
{
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)text, (unsigned)strlen(text));

    CHECK_EQ_I64(uv_try_write(conn, &buf, 1), (int64_t)strlen(text));
}

static void hang_up(uv_stream_t *conn)
{
    if (!uv_is_closing((uv_handle_t *)conn))
        uv_close((uv_handle_t *)conn, NULL);
}

static void answer_hello(uv_stream_t *conn)
{
    say(conn, "HTTP/1.1 200 OK\r\nETag: \"abc\"\r\nContent-Length: 5\r\n\r\nhello");
}

static void answer_nothing(uv_stream_t *conn)
{
    (void)conn;
}

static void answer_half(uv_stream_t *conn)
{
    say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhello");
    hang_up(conn);
}

static void answer_error(uv_stream_t *conn)
{
    say(conn, "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 2\r\n\r\nno");
}

static void answer_redirect(uv_stream_t *conn)
{
    say(conn,
        "HTTP/1.1 307 Elsewhere\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
}

static void answer_busy(uv_stream_t *conn)
{
    say(conn, "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n");
}

static void answer_busy_for_two(uv_stream_t *conn)
{
    say(conn, "HTTP/1.1 429 Too Many\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n");
}

static void answer_garbage(uv_stream_t *conn)
{
    say(conn, "220 mail.example ESMTP\r\n");
    hang_up(conn);
}

/* Far more than anybody wants; the client must not take it all. */
static void answer_endless(uv_stream_t *conn)
{
    char *flood = calloc(1, 1 << 20);
    uv_buf_t buf = uv_buf_init(flood, 1 << 20);

    CHECK(flood != NULL);
    say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n");
    (void)uv_try_write(conn, &buf, 1);
    free(flood);
}

static void answer_first_only(uv_stream_t *conn)
{
    if (server.requests == 1)
        answer_hello(conn);
    else
        hang_up(conn); /* A kept connection that died. */
}

static void give_buf(uv_handle_t *handle, size_t wanted, uv_buf_t *ret_buf)
{
    (void)handle;
    (void)wanted;
    *ret_buf =
        uv_buf_init(server.in + server.in_len, (unsigned)(sizeof server.in - 1 - server.in_len));
}

static bool is_whole(void)
{
    const char *end = strstr(server.in, "\r\n\r\n");
    const char *length = strstr(server.in, "Content-Length: ");

    return end != NULL && (length == NULL || server.in_len >= (size_t)(end + 4 - server.in) +
                                                                  strtoul(length + 16, NULL, 10));
}

static void hear(uv_stream_t *conn, ssize_t got, const uv_buf_t *buf)
{
    (void)buf;
    if (got < 0) {
        hang_up(conn);
        return;
    }
    server.in_len += (size_t)got;
    server.in[server.in_len] = '\0';
    if (!is_whole())
        return;
    server.in_len = 0;
    server.requests++;
    server.answer(conn);
}

static void accept_conn(uv_stream_t *listener, int status)
{
    CHECK_EQ_I64(status, 0);
    CHECK(server.count < CONNS);
    uv_tcp_t *conn = &server.conns[server.count++];
    CHECK_EQ_I64(uv_tcp_init(&loop, conn), 0);
    CHECK_EQ_I64(uv_accept(listener, (uv_stream_t *)conn), 0);
    CHECK_EQ_I64(uv_read_start((uv_stream_t *)conn, give_buf, hear), 0);
}

/* --- The client ------------------------------------------------------------------------------- */

static void begin(void (*answer)(uv_stream_t *conn))
{
    static const struct tn_web_options options = { .user_agent = "test" };
    struct sockaddr_in at;
    struct sockaddr_storage got;
    int size = sizeof got;
    char why[TN_ERROR_TEXT];
    struct tn_text text;

    tn_text_init(&text, why, sizeof why);
    memset(&server, 0, sizeof server);
    memset(reqs, 0, sizeof reqs);
    web_closed = false;
    server.answer = answer;
    CHECK_EQ_I64(uv_loop_init(&loop), 0);
    CHECK_EQ_I64(uv_tcp_init(&loop, &server.listener), 0);
    CHECK_EQ_I64(uv_ip4_addr("127.0.0.1", 0, &at), 0);
    CHECK_EQ_I64(uv_tcp_bind(&server.listener, (const struct sockaddr *)&at, 0), 0);
    CHECK_EQ_I64(uv_listen((uv_stream_t *)&server.listener, 8, accept_conn), 0);
    CHECK_EQ_I64(uv_tcp_getsockname(&server.listener, (struct sockaddr *)&got, &size), 0);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/a%%20b?x=1",
                   ntohs(((struct sockaddr_in *)&got)->sin_port));
    CHECK_EQ_I64(tn_web_open(&loop, &options, &web, &text), 0);
}

static void hear_done(struct tn_web_req *req)
{
    struct test_req *test = req->arg;
    const char *etag = tn_web_header(req, "etag");

    CHECK(!inside);
    test->done++;
    test->status = req->status;
    test->http = req->http;
    (void)snprintf(test->body, sizeof test->body, "%s", req->body);
    (void)snprintf(test->error, sizeof test->error, "%s", req->error);
    (void)snprintf(test->etag, sizeof test->etag, "%s", etag != NULL ? etag : "");
    if (req->http == 429)
        tn_web_slow_down(web, req, "busy");
}

static void send_req(struct test_req *test, const char *method, const char *body)
{
    test->web.method = method;
    if (test->web.url == NULL)
        test->web.url = url;
    test->web.send = body;
    test->web.send_len = body != NULL ? strlen(body) : 0;
    if (test->web.timeout == 0)
        test->web.timeout = TN_SEC(60);
    if (test->web.body_max == 0)
        test->web.body_max = 1000;
    test->web.done = hear_done;
    test->web.arg = test;
    inside = true;
    tn_web_start(web, &test->web);
    inside = false;
}

static void wait_for(const struct test_req *test)
{
    while (test->done == 0)
        (void)uv_run(&loop, UV_RUN_ONCE);
    CHECK_EQ_U64(test->done, 1);
}

static void do_nothing(uv_timer_t *timer)
{
    uv_close((uv_handle_t *)timer, NULL);
}

static void let_pass(uint64_t ms)
{
    uv_timer_t timer;

    (void)uv_timer_init(&loop, &timer);
    (void)uv_timer_start(&timer, do_nothing, ms, 0);
    while (!uv_is_closing((uv_handle_t *)&timer))
        (void)uv_run(&loop, UV_RUN_ONCE);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
}

static void hear_closed(void *arg)
{
    CHECK(arg == &web_closed);
    web_closed = true;
}

static void close_any(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void end(void)
{
    tn_web_close(web, hear_closed, &web_closed);
    while (!web_closed)
        (void)uv_run(&loop, UV_RUN_ONCE);
    uv_walk(&loop, close_any, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ_I64(uv_loop_close(&loop), 0);
}

/* --- Tests ------------------------------------------------------------------------------------ */

TEST(an_answer_comes_with_its_code_body_and_headers)
{
    static const char *const headers[] = { "If-Match: \"x\"", NULL };

    begin(answer_hello);
    reqs[0].web.headers = headers;
    send_req(&reqs[0], "PUT", "{}");
    wait_for(&reqs[0]);
    CHECK_EQ_I64(reqs[0].status, 0);
    CHECK_EQ_I64(reqs[0].http, 200);
    CHECK_STR(reqs[0].body, "hello");
    CHECK_STR(reqs[0].etag, "\"abc\"");
    CHECK(strncmp(server.in, "PUT /a%20b?x=1 HTTP/1.1\r\n", 25) == 0);
    CHECK(strstr(server.in, "\r\nIf-Match: \"x\"\r\n") != NULL);
    CHECK(strstr(server.in, "\r\nUser-Agent: test\r\n") != NULL);
    CHECK(strstr(server.in, "Content-Type") == NULL);
    CHECK(strstr(server.in, "Expect") == NULL);
    CHECK(strstr(server.in, "\r\n\r\n{}") != NULL);
    end();
}

TEST(a_second_request_takes_the_kept_connection)
{
    begin(answer_hello);
    for (int i = 0; i < 3; i++) {
        send_req(&reqs[i], "GET", NULL);
        wait_for(&reqs[i]);
        CHECK_EQ_I64(reqs[i].status, 0);
    }
    CHECK_EQ_U64(server.count, 1);
    end();
}

TEST(a_refusal_is_an_answer_and_a_redirect_is_not_followed)
{
    begin(answer_error);
    send_req(&reqs[0], "PUT", "{}");
    wait_for(&reqs[0]);
    CHECK_EQ_I64(reqs[0].status, 0);
    CHECK_EQ_I64(reqs[0].http, 412);
    CHECK_STR(reqs[0].body, "no");
    server.answer = answer_redirect;
    send_req(&reqs[1], "GET", NULL);
    wait_for(&reqs[1]);
    CHECK_EQ_I64(reqs[1].status, 0);
    CHECK_EQ_I64(reqs[1].http, 307);
    end();
}

TEST(a_server_that_is_busy_is_left_alone_for_a_second)
{
    char other[sizeof url + 8];

    begin(answer_busy);
    send_req(&reqs[0], "GET", NULL);
    wait_for(&reqs[0]);
    CHECK_EQ_I64(reqs[0].http, 429);
    send_req(&reqs[1], "PUT", "{}");
    wait_for(&reqs[1]);
    CHECK_EQ_I64(reqs[1].status, TENURE_E_UNAVAILABLE);
    CHECK_STR(reqs[1].error, "busy");
    CHECK_EQ_U64(server.requests, 1);
    reqs[2].web.urgent = true; /* In its caller's own time. */
    send_req(&reqs[2], "PUT", "{}");
    wait_for(&reqs[2]);
    CHECK_EQ_I64(reqs[2].http, 429);
    server.answer = answer_hello;
    (void)snprintf(other, sizeof other, "http://localhost%s", url + strlen("http://127.0.0.1"));
    reqs[3].web.url = other; /* Another host, as far as anybody knows. */
    send_req(&reqs[3], "GET", NULL);
    wait_for(&reqs[3]);
    CHECK_EQ_I64(reqs[3].http, 200);
    let_pass(1100); /* It was refused twice: two seconds. */
    send_req(&reqs[4], "GET", NULL);
    wait_for(&reqs[4]);
    CHECK_EQ_I64(reqs[4].status, TENURE_E_UNAVAILABLE);
    let_pass(1000);
    send_req(&reqs[5], "GET", NULL);
    wait_for(&reqs[5]);
    CHECK_EQ_I64(reqs[5].http, 200);
    end();
}

TEST(retry_after_is_obeyed_and_for_a_second_by_what_is_urgent)
{
    begin(answer_busy_for_two);
    send_req(&reqs[0], "GET", NULL);
    wait_for(&reqs[0]);
    reqs[1].web.urgent = true;
    send_req(&reqs[1], "GET", NULL);
    wait_for(&reqs[1]);
    CHECK_EQ_I64(reqs[1].status, TENURE_E_UNAVAILABLE);
    let_pass(1100);
    server.answer = answer_hello;
    send_req(&reqs[2], "GET", NULL);
    wait_for(&reqs[2]);
    CHECK_EQ_I64(reqs[2].status, TENURE_E_UNAVAILABLE);
    CHECK_EQ_U64(server.requests, 1);
    reqs[3].web.urgent = true;
    send_req(&reqs[3], "GET", NULL);
    wait_for(&reqs[3]);
    CHECK_EQ_I64(reqs[3].http, 200);
    send_req(&reqs[4], "GET", NULL); /* It answers well, and has asked for two seconds. */
    wait_for(&reqs[4]);
    CHECK_EQ_I64(reqs[4].status, TENURE_E_UNAVAILABLE);
    let_pass(1000);
    send_req(&reqs[5], "GET", NULL);
    wait_for(&reqs[5]);
    CHECK_EQ_I64(reqs[5].http, 200);
    end();
}

TEST(a_refused_connection_sent_nothing)
{
    begin(answer_hello);
    reqs[0].web.url = "http://127.0.0.1:1/";
    send_req(&reqs[0], "PUT", "{}");
    wait_for(&reqs[0]);
    CHECK_EQ_I64(reqs[0].status, TENURE_E_UNAVAILABLE);
    CHECK_STR(reqs[0].error,
              "127.0.0.1:1: Connection refused; check the address, and that the server runs");
    reqs[1].web.url = "http://no-such-host.invalid/";
    send_req(&reqs[1], "PUT", "{}");
    wait_for(&reqs[1]);
    CHECK_EQ_I64(reqs[1].status, TENURE_E_UNAVAILABLE);
    CHECK(strstr(reqs[1].error, "no-such-host.invalid:80: the name cannot be resolved") != NULL);
    reqs[2].web.url = "http:///nowhere\nX: y";
    send_req(&reqs[2], "PUT", "{}");
    wait_for(&reqs[2]);
    CHECK_EQ_I64(reqs[2].status, TENURE_E_INVALID);
    end();
}

TEST(a_server_without_tls_is_no_tls_server)
{
    char secure[160];

    begin(answer_garbage);
    (void)snprintf(secure, sizeof secure, "https%s", url + 4);
    reqs[0].web.url = secure;
    reqs[0].web.timeout = TN_SEC(5);
    server.answer = answer_garbage;
    send_req(&reqs[0], "PUT", "{}");
    while (reqs[0].done == 0) {
        (void)uv_run(&loop, UV_RUN_ONCE);
        if (server.in_len > 0) { /* Never a whole request. */
            server.in_len = 0;
            answer_garbage((uv_stream_t *)&server.conns[0]);
        }
    }
    CHECK_EQ_I64(reqs[0].status, TENURE_E_UNAVAILABLE);
    CHECK(strstr(reqs[0].error, "no TLS connection") != NULL);
    end();
}

TEST(what_has_no_answer_in_time_may_have_happened)
{
    begin(answer_nothing);
    reqs[0].web.timeout = TN_MS(200);
    send_req(&reqs[0], "PUT", "{}");
    wait_for(&reqs[0]);
    CHECK_EQ_U64(server.requests, 1);
    CHECK_EQ_I64(reqs[0].status, TENURE_E_TIMEOUT);
    CHECK(strstr(reqs[0].error, ": no answer within 200ms") != NULL);
    end();
}

TEST(a_body_that_breaks_off_may_have_happened)
{
    begin(answer_half);
    send_req(&reqs[0], "PUT", "{}");
    wait_for(&reqs[0]);
    CHECK_EQ_I64(reqs[0].status, TENURE_E_TIMEOUT);
    CHECK_EQ_I64(reqs[0].http, 200);
    CHECK(strstr(reqs[0].error, "the connection broke before the answer was complete") != NULL);
    server.answer = answer_garbage;
    send_req(&reqs[1], "GET", NULL);
    wait_for(&reqs[1]);
    CHECK_EQ_I64(reqs[1].status, TENURE_E_TIMEOUT);
    CHECK(strstr(reqs[1].error, "the answer is not HTTP") != NULL);
    end();
}

TEST(a_body_of_a_hundred_megabytes_is_not_taken)
{
    begin(answer_endless);
    send_req(&reqs[0], "GET", NULL);
    wait_for(&reqs[0]);
    CHECK_EQ_I64(reqs[0].status, TENURE_E_TIMEOUT);
    CHECK(strstr(reqs[0].error, "the answer is longer than 1000 bytes") != NULL);
    end();
}

/* The first request may have been carried out before the connection died. libcurl would send a
 * second one, and the server would see the write twice. */
TEST(a_write_is_not_repeated_when_a_kept_connection_is_dead)
{
    begin(answer_first_only);
    send_req(&reqs[0], "GET", NULL);
    wait_for(&reqs[0]);
    send_req(&reqs[1], "PUT", "{}");
    wait_for(&reqs[1]);
    CHECK_EQ_I64(reqs[1].status, TENURE_E_TIMEOUT);
    CHECK_EQ_U64(server.requests, 2);
    end();
}

static int hear_data(struct tn_web_req *req, const char *bytes, size_t len)
{
    struct test_req *test = req->arg;

    (void)bytes;
    CHECK_EQ_I64(req->http, 200);
    test->got += len;
    if (test == &reqs[1])
        tn_web_cancel(web, req);
    else if (test == &reqs[2])
        send_req(&reqs[3], "GET", NULL);
    return test == &reqs[0];
}

TEST(a_stream_comes_in_pieces_and_its_reader_may_end_it)
{
    begin(answer_hello);
    for (int i = 0; i < 3; i++) {
        reqs[i].web.data = hear_data;
        send_req(&reqs[i], "GET", NULL);
        wait_for(&reqs[i]);
        CHECK_EQ_U64(reqs[i].got, 5);
        CHECK_STR(reqs[i].body, "");
    }
    CHECK_EQ_I64(reqs[0].status, TENURE_E_CLOSED);
    CHECK_EQ_I64(reqs[1].status, TENURE_E_CLOSED);
    CHECK_EQ_I64(reqs[2].status, 0);
    wait_for(&reqs[3]);
    CHECK_EQ_I64(reqs[3].status, 0);
    end();
}

TEST(a_cancelled_request_ends_at_once)
{
    begin(answer_nothing);
    send_req(&reqs[0], "PUT", "{}");
    while (server.requests == 0)
        (void)uv_run(&loop, UV_RUN_ONCE);
    inside = true;
    tn_web_cancel(web, &reqs[0].web);
    inside = false;
    wait_for(&reqs[0]);
    CHECK_EQ_I64(reqs[0].status, TENURE_E_CLOSED);
    send_req(&reqs[1], "PUT", "{}"); /* Before it went anywhere. */
    tn_web_cancel(web, &reqs[1].web);
    wait_for(&reqs[1]);
    CHECK_EQ_I64(reqs[1].status, TENURE_E_CLOSED);
    CHECK_EQ_U64(server.requests, 1);
    end();
}

static void done_again(struct tn_web_req *req)
{
    hear_done(req);
    if (req == &reqs[0].web)
        send_req(&reqs[1], "GET", NULL);
}

TEST(closing_ends_what_is_pending_and_what_that_starts)
{
    begin(answer_nothing);
    send_req(&reqs[0], "PUT", "{}");
    reqs[0].web.done = done_again;
    while (server.requests == 0)
        (void)uv_run(&loop, UV_RUN_ONCE);
    end();
    CHECK_EQ_U64(reqs[0].done, 1);
    CHECK_EQ_I64(reqs[0].status, TENURE_E_CLOSED);
    CHECK_EQ_U64(reqs[1].done, 1);
    CHECK_EQ_I64(reqs[1].status, TENURE_E_CLOSED);
}

TEST(a_proxy_of_the_environment_is_not_for_this_machine)
{
    begin(answer_hello);
    CHECK_EQ_I64(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
    send_req(&reqs[0], "GET", NULL);
    wait_for(&reqs[0]);
    reqs[1].web.url = "http://no-such-host.invalid/";
    send_req(&reqs[1], "GET", NULL);
    wait_for(&reqs[1]);
    CHECK_EQ_I64(unsetenv("http_proxy"), 0);
    CHECK_EQ_I64(reqs[0].status, 0);
    CHECK_EQ_I64(reqs[1].status, TENURE_E_UNAVAILABLE);
    CHECK(strstr(reqs[1].error, "Connection refused") != NULL); /* By the proxy's address. */
    end();
}

TEST(a_missing_certificate_file_is_told_at_once)
{
    struct tn_web_options options = { .ca_file = "/no/such/ca.pem" };
    char why[TN_ERROR_TEXT];
    struct tn_text text;

    tn_text_init(&text, why, sizeof why);
    begin(answer_hello);
    struct tn_web *other = NULL;
    CHECK_EQ_I64(tn_web_open(&loop, &options, &other, &text), TENURE_E_INVALID);
    CHECK_STR(why, "cannot read '/no/such/ca.pem', which is to have a certificate or its key");
    end();
}

TEST(a_part_of_an_address_is_encoded)
{
    char buf[64];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_web_escape(&text, "a/b c~+%\xc3\xa4", 10, "/");
    CHECK_STR(buf, "a/b%20c~%2B%25%C3%A4");
    tn_web_escape(&text, "/", 1, "");
    CHECK_STR(buf, "a/b%20c~%2B%25%C3%A4%2F");
}
