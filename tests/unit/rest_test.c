/* rest_test.c - requests to several equal servers: which one is asked, and which one is named. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uv.h>

#include "base/time.h"
#include "net/rest.h"

enum { SERVERS = 2, JOBS = 3 };

static uv_loop_t loop;
static struct tn_rest rest;
static uv_tcp_t listeners[SERVERS], conns[8];
static unsigned conn_count, heard;
static char errors[JOBS][TN_ERROR_TEXT], read_errors[JOBS][TN_ERROR_TEXT];
static const char *answer;

/* --- Servers that all answer the same --------------------------------------------------------- */

static void give_room(uv_handle_t *handle, size_t size, uv_buf_t *ret_buf)
{
    static char bytes[4096];

    (void)handle;
    (void)size;
    *ret_buf = uv_buf_init(bytes, sizeof bytes);
}

static void on_read(uv_stream_t *conn, ssize_t got, const uv_buf_t *bytes)
{
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)answer, (unsigned)strlen(answer));

    (void)bytes;
    if (got > 0)
        CHECK_EQ_I64(uv_try_write(conn, &buf, 1), (int64_t)strlen(answer));
}

static void on_connection(uv_stream_t *listener, int status)
{
    CHECK_EQ_I64(status, 0);
    CHECK(conn_count < sizeof conns / sizeof conns[0]);
    uv_tcp_t *conn = &conns[conn_count++];
    CHECK_EQ_I64(uv_tcp_init(&loop, conn), 0);
    CHECK_EQ_I64(uv_accept(listener, (uv_stream_t *)conn), 0);
    CHECK_EQ_I64(uv_read_start((uv_stream_t *)conn, give_room, on_read), 0);
}

static void name_endpoint(struct tn_endpoint *endpoint, int port)
{
    (void)snprintf(endpoint->host, sizeof endpoint->host, "127.0.0.1");
    (void)snprintf(endpoint->port, sizeof endpoint->port, "%d", port);
    (void)snprintf(endpoint->where, sizeof endpoint->where, "127.0.0.1:%d", port);
}

/* What listens on no port refuses connections. */
static void begin(const char *text)
{
    static const struct tn_web_options options = { .user_agent = "test" };
    struct sockaddr_storage bound;
    struct sockaddr_in any;
    struct tn_text error;
    char why[200];

    answer = text;
    heard = conn_count = 0;
    memset(&rest, 0, sizeof rest);
    CHECK_EQ_I64(uv_loop_init(&loop), 0);
    tn_text_init(&error, why, sizeof why);
    CHECK(tn_web_open(&loop, &options, &rest.web, &error) == 0);
    rest.url.count = SERVERS;
    for (int i = 0; i < SERVERS; i++) {
        int size = sizeof bound;
        CHECK_EQ_I64(uv_ip4_addr("127.0.0.1", 0, &any), 0);
        CHECK_EQ_I64(uv_tcp_init(&loop, &listeners[i]), 0);
        CHECK_EQ_I64(uv_tcp_bind(&listeners[i], (const struct sockaddr *)&any, 0), 0);
        CHECK_EQ_I64(uv_tcp_getsockname(&listeners[i], (struct sockaddr *)(void *)&bound, &size),
                     0);
        if (text != NULL)
            CHECK_EQ_I64(uv_listen((uv_stream_t *)&listeners[i], 8, on_connection), 0);
        name_endpoint(&rest.url.endpoints[i],
                      ntohs(((const struct sockaddr_in *)(const void *)&bound)->sin_port));
    }
}

static void close_handle(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void end(void)
{
    tn_web_close(rest.web, NULL, NULL);
    for (int i = 0; i < SERVERS; i++)
        close_handle((uv_handle_t *)&listeners[i], NULL);
    for (unsigned i = 0; i < conn_count; i++)
        close_handle((uv_handle_t *)&conns[i], NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_EQ_I64(uv_loop_close(&loop), 0);
}

/* --- Requests --------------------------------------------------------------------------------- */

static void hear(struct tn_rest_job *job)
{
    CHECK(heard < JOBS);
    (void)snprintf(errors[heard], sizeof errors[heard], "%s", job->error);
    free(tn_rest_values(job));
    (void)snprintf(read_errors[heard], sizeof read_errors[heard], "%s", job->error);
    heard++;
}

static void start(void)
{
    struct tn_rest_job *job = calloc(1, sizeof *job);

    CHECK(job != NULL);
    job->heard = hear;
    job->web.body_max = 1000;
    tn_rest_start(&rest, job, "GET", "v1/x", NULL, TN_SEC(10));
}

static void run_until(unsigned count)
{
    while (heard < count)
        (void)uv_run(&loop, UV_RUN_ONCE);
}

TEST(requests_that_fail_with_one_server_leave_it_once)
{
    begin(NULL);
    start();
    start();
    run_until(2);
    CHECK_EQ_U64(rest.at, 1);
    CHECK(strstr(errors[1], rest.url.endpoints[0].where) != NULL);
    start();
    run_until(3);
    CHECK_EQ_U64(rest.at, 0);
    CHECK(strstr(errors[2], rest.url.endpoints[1].where) != NULL);
    end();
}

TEST(an_error_names_the_server_that_sent_it)
{
    begin("HTTP/1.1 500 No\r\nContent-Length: 5\r\n\r\nhello");
    start();
    start();
    run_until(2);
    CHECK_EQ_U64(rest.at, 1);
    for (int i = 0; i < 2; i++) {
        CHECK(strstr(errors[i], rest.url.endpoints[0].where) == errors[i]);
        CHECK(strstr(read_errors[i], rest.url.endpoints[0].where) == read_errors[i]);
    }
    end();
}
