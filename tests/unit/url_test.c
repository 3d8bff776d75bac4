/* url_test.c - no password of a URL is shown. */
#include "tests/harness/test.h"

#include "base/url.h"

static const char *shown(const char *url)
{
    static char buf[128];
    return tn_url_public(url, buf, sizeof buf);
}

TEST(what_has_no_password_is_shown_whole)
{
    CHECK_STR(shown("sqlite:/var/lib/a@b?c.db"), "sqlite:/var/lib/a@b?c.db");
    CHECK_STR(shown("etcd://one,two/prefix"), "etcd://one,two/prefix");
    CHECK_STR(shown(""), "");
}

TEST(users_and_passwords_are_not)
{
    CHECK_STR(shown("postgres://joe:hunter2@host/db"), "postgres://...@host/db");
    CHECK_STR(shown("postgres://joe:a@b/c@host/db"), "postgres://...@host/db");
    CHECK_STR(shown("postgres://joe:a?d@host/db"), "postgres://...");
    CHECK_STR(shown("x://host/db?password=hunter2"), "x://host/db?...");
    CHECK_STR(shown("x://host/db?password=hunt@er2"), "x://...");
}

TEST(a_long_one_is_cut_off)
{
    char buf[8];
    CHECK_STR(tn_url_public("etcd://one,two", buf, sizeof buf), "etcd://");
}
