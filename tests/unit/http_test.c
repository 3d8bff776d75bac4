/* http_test.c - the messages of HTTP: where they end, and which are none. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "base/prng.h"
#include "wire/http.h"

static struct tn_http_head head;

/* The length of the head, when each shorter piece says "more". */
static int64_t reads(const char *text)
{
    int64_t rc = tn_http_read(text, strlen(text), false, &head);

    for (size_t len = 0; rc > 0 && len < (size_t)rc; len++)
        CHECK_EQ_I64(tn_http_read(text, len, false, &head), 0);
    return tn_http_read(text, strlen(text), false, &head);
}

TEST(a_head_is_read_with_its_fields)
{
    const char *text = "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 12\r\n"
                       "fence-highest:\t 34 \r\nX-Empty:\r\n\r\nhello world!";

    CHECK_EQ_I64(reads(text), (int64_t)(strstr(text, "hello") - text));
    CHECK_EQ_U64(head.status, 412);
    CHECK(head.keep_alive);
    CHECK_EQ_I64(head.body, TN_HTTP_LENGTH);
    CHECK_EQ_U64(head.length, 12);
    CHECK_EQ_U64(head.count, 3);
    CHECK(tn_http_is(&head.fields[1].name, "fence-highest"));
    CHECK_EQ_U64(head.fields[1].value.len, 2);
    CHECK_EQ_U64(head.fields[2].value.len, 0);
}

/* The length of a request's head, when each shorter piece says "more". */
static int64_t requests(const char *text)
{
    int64_t rc = tn_http_read_request(text, strlen(text), &head);

    for (size_t len = 0; rc > 0 && len < (size_t)rc; len++)
        CHECK_EQ_I64(tn_http_read_request(text, len, &head), 0);
    return tn_http_read_request(text, strlen(text), &head);
}

TEST(a_request_is_read_with_its_fields)
{
    const char *text = "PUT /a?b=%20 HTTP/1.1\r\nFence-Token: 34\r\nContent-Length: 2\r\n\r\nhi";

    CHECK_EQ_I64(requests(text), (int64_t)strlen(text) - 2);
    CHECK(head.method.len == 3 && memcmp(head.method.bytes, "PUT", 3) == 0);
    CHECK(head.target.len == 8 && memcmp(head.target.bytes, "/a?b=%20", 8) == 0);
    CHECK(head.keep_alive);
    CHECK_EQ_I64(head.body, TN_HTTP_LENGTH);
    CHECK_EQ_U64(head.length, 2);
    CHECK_EQ_U64(head.count, 2);
    CHECK(requests("GET / HTTP/1.1\r\n\r\n") > 0);
    CHECK_EQ_I64(head.body, TN_HTTP_NO_BODY);
    CHECK(requests("GET / HTTP/1.0\r\n\r\n") > 0);
    CHECK(!head.keep_alive);
    CHECK(requests("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n") >
          0);
    CHECK_EQ_I64(head.body, TN_HTTP_CHUNKED);
    CHECK(!head.keep_alive);
}

TEST(what_is_no_request_is_refused)
{
    static const char *const bad[] = {
        "GET  / HTTP/1.1\r\n\r\n",
        "GET /a b HTTP/1.1\r\n\r\n",
        "GET /\t HTTP/1.1\r\n\r\n",
        "GET /\x80 HTTP/1.1\r\n\r\n",
        "GET / HTTP/2.0\r\n\r\n",
        "GET / HTTP/1.2\r\n\r\n",
        "GET /\r\n\r\n",
        "GET HTTP/1.1\r\n\r\n",
        " GET / HTTP/1.1\r\n\r\n",
        "(GET) / HTTP/1.1\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding : chunked\r\n\r\n",
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_EQ_I64(tn_http_read_request(bad[i], strlen(bad[i]), &head), TENURE_E_INVALID);
}

static const char *path_check(const char *target)
{
    return tn_http_path_check(&(struct tn_http_slice) { target, strlen(target) });
}

TEST(a_path_that_all_servers_read_alike_is_good)
{
    static const char *const good[] = { "/",
                                        "/?",
                                        "/orders",
                                        "/orders/",
                                        "/orders/7?x=/../%2e%2e;y\\z",
                                        "/a%20b/x",
                                        "/%20b/x%20",
                                        "/%c3%a4/%e2%82%ac/%f0%9f%98%80",
                                        "/%ee%80%80/%f4%8f%bf%bf/%ed%9f%bf",
                                        "/.a/..a/a../a.",
                                        "/!$&'()*+,=:@-._~",
                                        "/%22%3c%3e%5e%60%7b%7c%7d" };

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        CHECK_STR(path_check(good[i]) != NULL ? path_check(good[i]) : "", "");
}

TEST(a_path_that_servers_read_differently_is_refused)
{
    static const char *const bad[] = {
        "",          "x",       "*",         "?",          "http://h/x",    "/a/../b",
        "/a/./b",    "/..",     "/.",        "//",         "//a",           "/a//b",
        "/a//",      "/...",    "/a/.%20/b", "/%20/a",     "/a/%2e%2e/b",   "/a/.%2E/b",
        "/a/..%2fb", "/a%2Fb",  "/a%5cb",    "/a\\..\\b",  "/a/..;/b",      "/a;b",
        "/a%3Bb",    "/a%00b",  "/a%0a",     "/a%7f",      "/a%252e",       "/a%3f",
        "/a%23",     "/a#b",    "/a?b#c",    "/%61",       "/a%",           "/a%4",
        "/a%4g",     "/%c0%ae", "/%c0%af",   "/%e0%80%af", "/%f0%80%80%af", "/%c3",
        "/%c3/a",    "/%c3%20", "/%80",      "/%ed%a0%80", "/%f4%90%80%80", "/%f5%80%80%80",
        "/%ff",      "/a\"b",   "/a<b",      "/a|b",       "/a\x80",        "/a\x01",
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (path_check(bad[i]) == NULL)
            CHECK_STR(bad[i], "refused");
    }
}

TEST(names_with_underscores_are_alike)
{
    CHECK(tn_http_alike(&(struct tn_http_slice) { "Content_Length", 14 }, "content-length"));
    CHECK(tn_http_alike(&(struct tn_http_slice) { "content-LENGTH", 14 }, "content-length"));
    CHECK(!tn_http_alike(&(struct tn_http_slice) { "content.length", 14 }, "content-length"));
    CHECK(!tn_http_alike(&(struct tn_http_slice) { "content", 7 }, "content-length"));
}

TEST(where_the_body_ends)
{
    CHECK(reads("HTTP/1.1 200\r\n\r\n") > 0);
    CHECK_EQ_I64(head.body, TN_HTTP_UNTIL_CLOSE);
    CHECK(!head.keep_alive);
    CHECK(reads("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n") > 0);
    CHECK_EQ_I64(head.body, TN_HTTP_CHUNKED);
    CHECK(reads("HTTP/1.1 204 No Content\r\n\r\n") > 0);
    CHECK_EQ_I64(head.body, TN_HTTP_NO_BODY);
    CHECK(reads("HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\n") > 0);
    CHECK_EQ_I64(head.body, TN_HTTP_NO_BODY);
    CHECK(reads("HTTP/1.1 100 Continue\r\n\r\n") > 0);
    CHECK_EQ_I64(head.body, TN_HTTP_NO_BODY);
    CHECK(reads("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n") > 0);
    CHECK(!head.keep_alive);
    CHECK(reads("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, Close\r\n\r\n") > 0);
    CHECK(!head.keep_alive);
    CHECK(tn_http_read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 38, true, &head) > 0);
    CHECK_EQ_I64(head.body, TN_HTTP_NO_BODY);
}

TEST(what_is_no_answer_is_refused)
{
    static const char *const bad[] = {
        "HTTP/2 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 099 x\r\n\r\n",
        "http/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\n\n",
        "HTTP/1.1 200 OK\r\nA: b\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
        "HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\n: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nnothing\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: \x01\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK_EQ_I64(tn_http_read(bad[i], strlen(bad[i]), false, &head), TENURE_E_INVALID);
}

TEST(a_head_has_limits)
{
    static char text[TN_HTTP_HEAD_MAX + 64];

    memset(text, 'a', sizeof text);
    memcpy(text, "HTTP/1.1 200 ", 13);
    CHECK_EQ_I64(tn_http_read(text, sizeof text, false, &head), TENURE_E_FULL);
    size_t len = (size_t)snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i <= TN_HTTP_FIELDS_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "a: b\r\n");
    len += (size_t)snprintf(text + len, sizeof text - len, "\r\n");
    CHECK_EQ_I64(tn_http_read(text, len, false, &head), TENURE_E_INVALID);
}

/* Decodes @text in pieces of random size; the content, or "bad", or with "more" at its end. */
static const char *unchunks(const char *text, uint64_t seed)
{
    static char content[512];
    struct tn_http_chunks chunks = { 0 };
    struct tn_prng prng;
    size_t len = 0;
    bool done = false;

    tn_prng_seed(&prng, seed);
    for (size_t at = 0; !done && at < strlen(text);) {
        char piece[16];
        size_t size = 1 + (size_t)tn_prng_below(&prng, sizeof piece);
        size_t data = 0;

        size = size < strlen(text) - at ? size : strlen(text) - at;
        memcpy(piece, text + at, size);
        int64_t used = tn_http_unchunk(&chunks, piece, size, &data, &done);
        if (used < 0)
            return "bad";
        CHECK(done || (size_t)used == size);
        memcpy(content + len, piece, data);
        len += data;
        at += (size_t)used;
    }
    (void)snprintf(content + len, sizeof content - len, "%s", done ? "" : "+more");
    return content;
}

TEST(chunks_in_any_pieces)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        CHECK_STR(unchunks("5\r\nhello\r\n1\r\n \r\n5;a=b\r\nworld\r\n0\r\n\r\n", seed),
                  "hello world");
        CHECK_STR(unchunks("0\r\n\r\n", seed), "");
        CHECK_STR(unchunks("A\r\n0123456789\r\n00\r\nTrailer: x\r\nOther: y\r\n\r\nrest", seed),
                  "0123456789");
        CHECK_STR(unchunks("5\r\nhel", seed), "hel+more");
        CHECK_STR(unchunks("0\r\n", seed), "+more");
        CHECK_STR(unchunks("\r\n", seed), "bad");
        CHECK_STR(unchunks("x\r\n", seed), "bad");
        CHECK_STR(unchunks("5\nhello", seed), "bad");
        CHECK_STR(unchunks("-5\r\nhello", seed), "bad");
        CHECK_STR(unchunks("1000000000000000\r\n", seed), "bad");
        CHECK_STR(unchunks("2\r\nabc\r\n", seed), "bad");
        CHECK_STR(unchunks("0\r\n\n", seed), "bad");
    }
}

TEST(a_word_is_found_in_a_list)
{
    static const char text[] = " keep-alive ,Upgrade,\tclose";
    struct tn_http_slice list = { text, sizeof text - 1 };

    CHECK(tn_http_has(&list, "keep-alive"));
    CHECK(tn_http_has(&list, "upgrade"));
    CHECK(tn_http_has(&list, "close"));
    CHECK(!tn_http_has(&list, "clos"));
    CHECK(!tn_http_has(&list, "alive"));
}
