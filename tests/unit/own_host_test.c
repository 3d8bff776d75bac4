/* own_host_test.c - which names in Host are this machine's own. */
#include "http/own_host.h"

#include "tests/harness/test.h"

TEST(localhost_and_the_loopback_are_this_machine)
{
    CHECK(tn_own_host("localhost"));
    CHECK(tn_own_host("LocalHost:7421"));
    CHECK(tn_own_host("127.0.0.1"));
    CHECK(tn_own_host("127.1.2.3:65535"));
    CHECK(tn_own_host("[::1]"));
    CHECK(tn_own_host("[::1]:80"));
}

TEST(names_that_begin_like_it_are_not)
{
    static const char *const names[] = {
        "",           "localhost.lol", "localhost.",      "localhos",     "127.loc.as:80",
        "127.0.0.1.", "127.0.0.1.lol", "127.1",           "127.0.0.1:",   "127.0.0.1:x",
        "128.0.0.1",  "0.0.0.0",       "10.0.0.1",        "[::1",         "[::1]x",
        "[::2]",      "::1",           "[127.0.0.1]",     "[::1]:123456", "evil.example",
        "[]",         ":80",           "localhost:80:80", "[localhost]",
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK(!tn_own_host(names[i]));
    CHECK(!tn_own_host("127.0.0.1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}
