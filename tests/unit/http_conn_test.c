/* http_conn_test.c - the server's end of an HTTP connection, without its socket. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/conn.h"
#include "http/target.h"
#include "tests/harness/test.h"

/* What went out, and what was asked. */
static char sent[1 << 16];
static size_t sent_len;
static char seen[4096];
static bool slow, at_once, ended, paused;
static unsigned drains;

static void echo(struct tn_http_conn *conn)
{
    size_t len;
    const char *body = tn_http_conn_body(conn, &len);

    tn_http_conn_answer(
        conn, &(struct tn_http_response) {
                  .status = TN_STATUS_OK, .type = "text/plain", .body = body, .len = len });
}

static void take_request(struct tn_http_conn *conn, const struct tn_http_head *head)
{
    size_t used = strlen(seen);

    (void)snprintf(seen + used, sizeof seen - used, "%.*s ", (int)head->target.len,
                   head->target.bytes);
    if (at_once)
        echo(conn);
}

static void refuse(struct tn_http_conn *conn, unsigned status, const char *why)
{
    tn_http_conn_answer(
        conn, &(struct tn_http_response) {
                  .status = status, .type = "text/plain", .body = why, .len = strlen(why) });
}

static void drained(struct tn_http_conn *conn)
{
    (void)conn;
    drains++;
}

static bool send_bytes(struct tn_http_conn *conn, const char *bytes, size_t len)
{
    (void)conn;
    memcpy(sent + sent_len, bytes, len);
    sent_len += len;
    sent[sent_len] = '\0';
    return !slow;
}

static void set_pause(struct tn_http_conn *conn, bool pause)
{
    (void)conn;
    paused = pause;
}

static void end(struct tn_http_conn *conn)
{
    (void)conn;
    ended = true;
}

static const struct tn_http_service service = { 1000, take_request, refuse, drained };
static const struct tn_http_transport transport = { send_bytes, set_pause, end, NULL };
static struct tn_http_head scratch;

static void begin(struct tn_http_conn *conn)
{
    tn_http_conn_init(conn, &service, &transport, &scratch);
    sent_len = 0;
    sent[0] = seen[0] = '\0';
    slow = ended = paused = false;
    at_once = true;
    drains = 0;
}

static void say(struct tn_http_conn *conn, const char *text)
{
    CHECK(tn_http_conn_take(conn, text, strlen(text)));
}

static unsigned answers(void)
{
    unsigned count = 0;

    for (const char *at = sent; (at = strstr(at, "HTTP/1.1 ")) != NULL; at++)
        count++;
    return count;
}

TEST(requests_of_one_connection_are_answered_in_their_order)
{
    struct tn_http_conn conn;

    begin(&conn);
    say(&conn,
        "GET /a HTTP/1.1\r\nHost: x\r\n\r\nPOST /b HTTP/1.1\r\nContent-Length: 3\r\n\r\nyesG");
    say(&conn, "ET /c HTTP/1.1\r\n\r\n");
    CHECK_STR(seen, "/a /b /c ");
    CHECK_EQ_I64(answers(), 3);
    CHECK(strstr(sent, "\r\nContent-Length: 3\r\n\r\nyes") != NULL);
    CHECK(!ended);
    tn_http_conn_free(&conn);
}

TEST(the_next_request_waits_until_the_answer_has_left)
{
    struct tn_http_conn conn;

    begin(&conn);
    slow = true;
    say(&conn, "GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n");
    CHECK_STR(seen, "/a ");
    tn_http_conn_sent(&conn);
    CHECK_STR(seen, "/a /b ");
    tn_http_conn_free(&conn);
}

TEST(a_peer_that_is_far_ahead_is_not_read_from)
{
    static char much[40000];
    struct tn_http_conn conn;

    begin(&conn);
    at_once = false;
    say(&conn, "GET /a HTTP/1.1\r\n\r\n");
    memset(much, 'x', sizeof much);
    CHECK(tn_http_conn_take(&conn, much, sizeof much));
    CHECK(!paused);
    CHECK(tn_http_conn_take(&conn, much, sizeof much));
    CHECK(paused);
    echo(&conn); /* And what follows is no request. */
    CHECK(!paused);
    CHECK(strstr(sent, "HTTP/1.1 431") != NULL || strstr(sent, "HTTP/1.1 400") != NULL);
    CHECK(ended);
    tn_http_conn_free(&conn);
}

TEST(what_is_no_request_is_refused_and_ends_the_connection)
{
    static const struct {
        const char *bytes, *status;
    } cases[] = {
        { "hello\r\n\r\n", "400" },
        { "GET / HTTP/1.1\nHost: x\n\n", "400" },
        { "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400" },
        { "POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", "413" },
        { "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "400" },
        { "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400" },
    };
    struct tn_http_conn conn;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin(&conn);
        say(&conn, cases[i].bytes);
        CHECK(strncmp(sent + 9, cases[i].status, 3) == 0);
        CHECK(strstr(sent, "Connection: close\r\n") != NULL);
        CHECK_STR(seen, "");
        CHECK(ended);
        say(&conn, "GET / HTTP/1.1\r\n\r\n"); /* Nothing is read any more. */
        CHECK_STR(seen, "");
        tn_http_conn_free(&conn);
    }
}

TEST(chunks_in_any_pieces_are_one_body)
{
    static const char bytes[] = "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
                                "2\r\nab\r\n3;x=y\r\ncde\r\n0\r\nA: b\r\n\r\n";
    struct tn_http_conn conn;

    for (size_t piece = 1; piece < sizeof bytes; piece++) {
        begin(&conn);
        for (size_t at = 0; at < sizeof bytes - 1; at += piece) {
            size_t len = sizeof bytes - 1 - at;
            CHECK(tn_http_conn_take(&conn, bytes + at, len < piece ? len : piece));
        }
        CHECK(strstr(sent, "Content-Length: 5\r\n\r\nabcde") != NULL);
        tn_http_conn_free(&conn);
    }
}

TEST(permission_to_send_a_body_is_given_once)
{
    struct tn_http_conn conn;

    begin(&conn);
    say(&conn, "POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    CHECK_STR(sent, "HTTP/1.1 100 Continue\r\n\r\n");
    say(&conn, "o");
    CHECK_EQ_I64(answers(), 1);
    say(&conn, "k");
    CHECK(strstr(sent, "HTTP/1.1 200 OK\r\n") != NULL);
    tn_http_conn_free(&conn);
}

TEST(a_body_that_comes_before_its_permission_has_left_is_served_behind_it)
{
    struct tn_http_conn conn;

    begin(&conn);
    slow = true;
    say(&conn, "POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n");
    CHECK_EQ_I64(answers(), 1);
    say(&conn, "yes");
    CHECK_STR(seen, "");
    slow = false;
    tn_http_conn_sent(&conn);
    CHECK_STR(seen, "/a ");
    CHECK(strstr(sent, "\r\n\r\nyes") != NULL);
    tn_http_conn_free(&conn);
}

TEST(head_gets_the_length_and_no_body)
{
    struct tn_http_conn conn;

    begin(&conn);
    at_once = false;
    say(&conn, "HEAD /a HTTP/1.1\r\n\r\n");
    tn_http_conn_answer(&conn, &(struct tn_http_response) {
                                   .status = 200, .type = "text/plain", .body = "body", .len = 4 });
    CHECK(strstr(sent, "Content-Length: 4\r\n\r\n") != NULL);
    CHECK(strstr(sent, "body") == NULL);
    tn_http_conn_free(&conn);
}

TEST(a_stream_goes_out_in_chunks_and_the_connection_lives_on)
{
    const struct tn_http_response answer = { .status = 200, .type = "text/event-stream" };
    struct tn_http_conn conn;

    begin(&conn);
    at_once = false;
    say(&conn, "GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n");
    tn_http_conn_stream(&conn, &answer);
    CHECK(strstr(sent, "Transfer-Encoding: chunked\r\n") != NULL);
    slow = true;
    tn_http_conn_chunk(&conn, "hello", 5);
    CHECK(!tn_http_conn_is_drained(&conn));
    tn_http_conn_sent(&conn);
    CHECK_EQ_I64(drains, 1);
    slow = false;
    CHECK(strstr(sent, "\r\n\r\n5\r\nhello\r\n") != NULL);
    CHECK_STR(seen, "/a ");
    tn_http_conn_finish(&conn);
    CHECK(strcmp(sent + sent_len - 5, "0\r\n\r\n") == 0);
    CHECK_STR(seen, "/a /b ");
    tn_http_conn_free(&conn);

    begin(&conn); /* HTTP/1.0 has no chunks: the stream lasts until the end. */
    at_once = false;
    say(&conn, "GET /a HTTP/1.0\r\n\r\n");
    tn_http_conn_stream(&conn, &answer);
    tn_http_conn_chunk(&conn, "hello", 5);
    CHECK(strstr(sent, "Connection: close\r\n\r\nhello") != NULL);
    tn_http_conn_finish(&conn);
    CHECK(ended);
    tn_http_conn_free(&conn);
}

TEST(a_peer_that_ends_its_sending_gets_its_answer)
{
    struct tn_http_conn conn;

    begin(&conn);
    at_once = false;
    say(&conn, "GET /a HTTP/1.1\r\n\r\n");
    CHECK(!tn_http_conn_peer_done(&conn));
    echo(&conn);
    CHECK_EQ_I64(answers(), 1);
    CHECK(ended);
    tn_http_conn_free(&conn);
}

TEST(a_target_is_decoded_once)
{
    static const struct {
        const char *bytes, *path, *value;
    } cases[] = {
        { "/a/b?x=1", "/a/b", "1" },
        { "/a%2Fb?x=%41+b%2B", "/a/b", "A b+" },
        { "/%2541", "/%41", NULL },
        { "/?y=2&x=", "/", "" },
        { "/?x", "/", "" },
        { "/?x=1&x=2", "/", "1" },
        { "/a", "/a", NULL },
        { "/a?", "/a", NULL },
        { "a", NULL, NULL },
        { "/%4", NULL, NULL },
        { "/%zz", NULL, NULL },
        { "/%00", NULL, NULL },
        { "http://x/y?x=1", NULL, NULL },
        { "/?x=%", NULL, NULL },
    };
    struct tn_http_target target;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tn_http_slice slice = { cases[i].bytes, strlen(cases[i].bytes) };
        int rc = tn_http_target_read(&target, &slice);
        if (cases[i].path == NULL) {
            CHECK_EQ_I64(rc, TENURE_E_INVALID);
            continue;
        }
        CHECK_EQ_I64(rc, 0);
        CHECK_STR(target.text, cases[i].path);
        const char *value = tn_http_target_argument(&target, "x");
        CHECK((value == NULL) == (cases[i].value == NULL));
        if (value != NULL)
            CHECK_STR(value, cases[i].value);
        tn_http_target_free(&target);
    }
}
