/* etcd_config_test.c - what an etcd: URL may say. */
#include <stdlib.h>
#include <string.h>

#include "stores/etcd/config.h"
#include "tests/harness/test.h"

static struct tn_etcd_config config;
static char text[300];

static int parse(const char *rest, bool tls)
{
    struct tn_text error;

    (void)unsetenv("TENURE_ETCD_USER");
    (void)unsetenv("TENURE_ETCD_PASSWORD");
    tn_text_init(&error, text, sizeof text);
    return tn_etcd_config_parse(&config, rest, tls, &error);
}

TEST(endpoints_and_their_ports)
{
    CHECK_EQ_I64(parse("//h1,h2:1234,[::1]:5,[fe80::2]/app", false), 0);
    CHECK_EQ_U64(config.url.count, 4);
    CHECK_STR(config.url.endpoints[0].host, "h1");
    CHECK_STR(config.url.endpoints[0].where, "h1:2379");
    CHECK_STR(config.url.endpoints[1].port, "1234");
    CHECK_STR(config.url.endpoints[2].host, "::1");
    CHECK_STR(config.url.endpoints[2].where, "[::1]:5");
    CHECK_STR(config.url.endpoints[3].where, "[fe80::2]:2379");
    CHECK_STR(config.prefix, "app/");
}

TEST(a_prefix_ends_in_one_slash_or_is_empty)
{
    CHECK_EQ_I64(parse("//h", false), 0);
    CHECK_STR(config.prefix, "");
    CHECK_EQ_I64(parse("//h/", false), 0);
    CHECK_STR(config.prefix, "");
    CHECK_EQ_I64(parse("//h//a/b//", false), 0);
    CHECK_STR(config.prefix, "/a/b/");
}

TEST(users_and_passwords_are_decoded)
{
    CHECK_EQ_I64(parse("//ada:p%40ss%3a@h/x", false), 0);
    CHECK_STR(config.url.user, "ada");
    CHECK_STR(config.url.password, "p@ss:");
    CHECK_STR(config.url.endpoints[0].host, "h");
}

TEST(the_environment_stands_in_for_what_is_missing)
{
    struct tn_text error;

    tn_text_init(&error, text, sizeof text);
    (void)setenv("TENURE_ETCD_USER", "eve", 1);
    (void)setenv("TENURE_ETCD_PASSWORD", "secret", 1);
    CHECK_EQ_I64(tn_etcd_config_parse(&config, "//h", false, &error), 0);
    CHECK_STR(config.url.user, "eve");
    CHECK_STR(config.url.password, "secret");
    CHECK_EQ_I64(tn_etcd_config_parse(&config, "//ada:own@h", false, &error), 0);
    CHECK_STR(config.url.user, "ada");
    CHECK_STR(config.url.password, "own");
    (void)unsetenv("TENURE_ETCD_USER");
    (void)unsetenv("TENURE_ETCD_PASSWORD");
}

TEST(options_are_for_tls)
{
    CHECK_EQ_I64(parse("//h/x?ca=/a%20b&cert=c&key=k&name=n", true), 0);
    CHECK_STR(config.url.tls.ca, "/a b");
    CHECK_STR(config.url.tls.cert, "c");
    CHECK_STR(config.url.tls.key, "k");
    CHECK_STR(config.url.tls.name, "n");
    CHECK_EQ_I64(parse("//h?ca=x", false), TENURE_E_INVALID);
    CHECK_EQ_I64(parse("//h?cb=x", true), TENURE_E_INVALID);
    CHECK_EQ_I64(parse("//h?ca=", true), TENURE_E_INVALID);
}

TEST(malformed_urls_are_refused_without_repeating_the_password)
{
    static const char *const bad[] = { "",         "h",      "//",      "//,",       "//h,",
                                       "//h:",     "//h:0",  "//h:+1",  "//h:99999", "//[::1",
                                       "//[::1]x", "//h/%",  "//h/%4",  "//h/%g0",   "//h/%00",
                                       "//%zz@h",  "//:p@h", "//u:%x@h" };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_EQ_I64(parse(bad[i], false), TENURE_E_INVALID);
        CHECK(text[0] != '\0');
    }
    CHECK_EQ_I64(parse("//ada:hunter2@h:bad", false), TENURE_E_INVALID);
    CHECK(strstr(text, "hunter2") == NULL);
    CHECK_EQ_I64(parse("//1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", false), TENURE_E_INVALID);
}
