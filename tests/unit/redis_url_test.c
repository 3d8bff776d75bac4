/* redis_url_test.c - what a URL of Redis or Redlock says, and which are refused. */
#include <string.h>

#include "stores/redis/private.h"
#include "tests/harness/test.h"

static char said[256];

static int parse(const char *scheme, const char *rest, struct tn_rd_url *ret_url)
{
    struct tn_text error;

    tn_text_init(&error, said, sizeof said);
    return tn_rd_url_parse(scheme, rest, ret_url, &error);
}

static void refuses(const char *scheme, const char *rest, const char *words)
{
    struct tn_rd_url url;

    CHECK_EQ_I64(parse(scheme, rest, &url), TENURE_E_INVALID);
    CHECK(strstr(said, words) != NULL);
    CHECK(strstr(said, "geheim") == NULL);
}

TEST(a_server_a_user_and_a_database)
{
    struct tn_rd_url url;

    CHECK_EQ_I64(parse("redis", "//ada:a%40b%3a@example.org:7000/3?prefix=app", &url), 0);
    CHECK_EQ_U64(url.net.count, 1);
    CHECK_STR(url.net.endpoints[0].where, "example.org:7000");
    CHECK_STR(url.net.user, "ada");
    CHECK_STR(url.net.password, "a@b:");
    CHECK_STR(url.database, "3");
    CHECK_STR(url.base, "{app}");
    CHECK_STR(url.channel, "{app}:3:");
    CHECK(!url.tls);
    CHECK_EQ_I64(parse("rediss", "//:geheim@[::1]?ca=/ca.pem&name=x", &url), 0);
    CHECK_STR(url.net.endpoints[0].where, "[::1]:6379");
    CHECK_STR(url.net.user, "");
    CHECK_STR(url.net.password, "geheim");
    CHECK_STR(url.database, "0");
    CHECK_STR(url.channel, "{tenure}:0:");
    CHECK_STR(url.net.tls.ca, "/ca.pem");
    CHECK(url.tls);
}

TEST(a_socket)
{
    struct tn_rd_url url;

    CHECK_EQ_I64(parse("redis+unix", "/run/redis.sock", &url), 0);
    CHECK(url.net.endpoints[0].local);
    CHECK_STR(url.net.endpoints[0].where, "/run/redis.sock");
    refuses("redis+unix", "redis.sock", "redis+unix:/PATH");
    refuses("redis+unix", "", "redis+unix:/PATH");
}

TEST(sentinels)
{
    struct tn_rd_url url;

    CHECK_EQ_I64(parse("redis", "//a,b,c:5/2?sentinel=main&sentinel_password=geheim", &url), 0);
    CHECK_EQ_U64(url.net.count, 3);
    CHECK_STR(url.net.endpoints[0].where, "a:26379");
    CHECK_STR(url.net.endpoints[2].where, "c:5");
    CHECK_STR(url.sentinel, "main");
    CHECK_STR(url.sentinel_password, "geheim");
    CHECK_STR(url.database, "2");
}

TEST(sentinels_by_their_own_scheme)
{
    struct tn_rd_url url;

    CHECK_EQ_I64(parse("redis+sentinel", "//ada:geheim@a,b,c:5/main?sentinel_password=x", &url), 0);
    CHECK_EQ_U64(url.net.count, 3);
    CHECK_STR(url.net.endpoints[1].where, "b:26379");
    CHECK_STR(url.sentinel, "main");
    CHECK_STR(url.sentinel_password, "x");
    CHECK_STR(url.net.password, "geheim");
    CHECK_STR(url.database, "0");
    CHECK(!url.tls);
    CHECK_EQ_I64(parse("rediss+sentinel", "//a/main/7?ca=/ca.pem", &url), 0);
    CHECK_STR(url.sentinel, "main");
    CHECK_STR(url.database, "7");
    CHECK(url.tls);
    refuses("redis+sentinel", "//a,b,c", "the master's name");
    refuses("redis+sentinel", "//a,b,c/", "the master's name");
    refuses("redis+sentinel", "//x:geheim@a/main/x", "number of a database");
    refuses("redis+sentinel", "//x:geheim@a/main/1/2", "number of a database");
    refuses("redis+sentinel", "//x:geheim@a/main?sentinel=other", "leave sentinel= out");
    refuses("redis+sentinel", "//a/main?ca=/ca.pem", "redis+sentinel: ");
}

TEST(a_majority_needs_an_odd_number_of_servers)
{
    struct tn_rd_url url;

    CHECK_EQ_I64(parse("redlock", "//a,b,c", &url), 0);
    CHECK_EQ_U64(url.net.count, 3);
    CHECK_EQ_I64(parse("redlocks", "//x:geheim@a,b,c,d:7,d:8/1?ca=/ca.pem", &url), 0);
    CHECK_EQ_U64(url.net.count, 5);
    CHECK(url.tls);
    refuses("redlock", "//a", "odd number");
    refuses("redlock", "//x:geheim@a,b,c,d", "odd number");
    refuses("redlock", "//a,b,a", "named twice");
    refuses("redlock", "//a,b,c?sentinel=x", "independent");
}

TEST(what_is_no_redis_url)
{
    refuses("redis", "//x:geheim@a,b", "several servers are not one");
    refuses("redis", "//x:geheim@a/x", "number of a database");
    refuses("redis", "//x:geheim@a/123456", "number of a database");
    refuses("redis", "//x:geheim@a?prefix=a%7Db", "prefix is");
    refuses("redis", "//x:geheim@a?prefx=a", "redis: ");
    refuses("redis", "//x:geheim@", "redis: ");
    refuses("redis", "", "redis: ");
}
