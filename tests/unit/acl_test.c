/* acl_test.c - rights by name and prefix, secrets by hash, and files that are refused. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/acl.h"

static char path[64], message[300];
static struct tn_acl *acl;

static int load(const char *text, mode_t mode)
{
    struct tn_text err;

    (void)snprintf(path, sizeof path, "/tmp/tenure-acl-......");
    memset(strchr(path, '.'), 'X', 6); /* What mkstemp replaces. */
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(fchmod(fd, mode) == 0);
    (void)close(fd);
    tn_text_init(&err, message, sizeof message);
    acl = NULL;
    int rc = tn_acl_load(path, &acl, &err);
    (void)unlink(path);
    return rc;
}

static bool may(const char *user, enum tn_right right, const char *name)
{
    return tn_acl_allows(acl, user, right, name, strlen(name));
}

TEST(rights_cover_whole_segments_and_include_lesser_ones)
{
    CHECK_EQ_I64(load("# rules\nallow ann acquire jobs/*\n\n  allow ann observe x  # more\n"
                      "allow ops admin *\n",
                      0600),
                 0);
    CHECK(may("ann", TN_ACQUIRE, "jobs/mailer"));
    CHECK(may("ann", TN_OBSERVE, "jobs/mailer/deep"));
    CHECK(!may("ann", TN_ADMIN, "jobs/mailer"));
    CHECK(!may("ann", TN_ACQUIRE, "jobs"));
    CHECK(!may("ann", TN_ACQUIRE, "jobs2/mailer"));
    CHECK(may("ann", TN_OBSERVE, "x"));
    CHECK(!may("ann", TN_ACQUIRE, "x"));
    CHECK(!may("ann", TN_OBSERVE, "xy"));
    CHECK(may("ann", TN_OBSERVE, "jobs/*"));
    CHECK(may("ann", TN_OBSERVE, "jobs/a/*"));
    CHECK(!may("ann", TN_OBSERVE, "*"));
    CHECK(may("ops", TN_ADMIN, "*"));
    CHECK(may("ops", TN_ADMIN, "anything/at/all"));
    CHECK(!may("", TN_OBSERVE, "x"));
    CHECK(!may("bob", TN_OBSERVE, "x"));
    CHECK(tn_acl_allows_some(acl, "ann", TN_ACQUIRE));
    CHECK(!tn_acl_allows_some(acl, "ann", TN_ADMIN));
    CHECK(!tn_acl_allows_some(acl, "bob", TN_OBSERVE));
    tn_acl_free(acl);
}

TEST(a_new_secret_is_known_by_its_line_and_no_other_is)
{
    char secret[40];
    char line[200];
    struct tn_text secret_text;
    struct tn_text line_text;

    tn_text_init(&secret_text, secret, sizeof secret);
    tn_text_init(&line_text, line, sizeof line);
    CHECK_EQ_I64(tn_acl_new_secret("ann", &secret_text, &line_text), 0);
    CHECK(strstr(line, secret) == NULL);
    CHECK_EQ_I64(load(line, 0600), 0);
    CHECK(tn_acl_knows(acl, "ann", secret, 32));
    CHECK(!tn_acl_knows(acl, "ann", secret, 31));
    CHECK(!tn_acl_knows(acl, "ann", "", 0));
    CHECK(!tn_acl_knows(acl, "bob", secret, 32));
    CHECK(!tn_acl_knows(acl, "", "", 0));
    secret[5] = secret[5] == '0' ? '1' : '0';
    CHECK(!tn_acl_knows(acl, "ann", secret, 32));
    tn_acl_free(acl);
    CHECK_EQ_I64(tn_acl_new_secret("no blanks", &secret_text, &line_text), TENURE_E_INVALID);
}

TEST(a_mistake_is_named_by_its_line)
{
    static const struct {
        const char *text, *why;
    } bad[] = {
        { "allow ann observe x\nallow ann write x\n", ":2: a right is observe, acquire or admin" },
        { "allow ann observe\n", ":1: expected: allow" },
        { "allow ann observe jobs*\n", ":1: a pattern is a name, PREFIX/* or *" },
        { "allow ann observe a//b\n", ":1: a pattern is a name, PREFIX/* or *" },
        { "grant ann observe x\n", ":1: a line begins with user, allow, limit or #" },
        { "user ann plain\n", ":1: not a line that tenured --new-secret prints" },
        { "a b c d e f\n", ":1: too many words" },
        { "limit ann leases\n", ":1: expected: limit NAME|* sessions|leases|fences N" },
        { "limit ann waiters 3\n", ":1: a limit is of sessions, leases or fences" },
        { "limit ann leases 0\n", ":1: a limit is a number from 1" },
        { "limit ann leases 3x\n", ":1: a limit is a number from 1" },
        { "limit * leases 3\nlimit * leases 4\n", ":2: the limit is there already" },
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK_EQ_I64(load(bad[i].text, 0600), TENURE_E_INVALID);
        CHECK(strstr(message, bad[i].why) != NULL);
        CHECK(acl == NULL);
    }
}

static int64_t most(const char *user, enum tn_limit what)
{
    uint32_t limit = 0;

    tn_acl_limit(acl, user, what, &limit);
    return limit;
}

TEST(a_limit_is_the_users_own_or_that_of_all)
{
    CHECK_EQ_I64(load("limit ann leases 3\nlimit bob sessions 5\n", 0600), 0);
    CHECK_EQ_I64(most("ann", TN_LIMIT_LEASES), 3);
    CHECK_EQ_I64(most("ann", TN_LIMIT_SESSIONS), 0);
    CHECK_EQ_I64(most("bob", TN_LIMIT_LEASES), 0);
    CHECK_EQ_I64(most("eve", TN_LIMIT_LEASES), 0);
    tn_acl_free(acl);
    CHECK_EQ_I64(load("limit ann leases 3\nlimit * leases 7\n", 0600), 0);
    CHECK_EQ_I64(most("ann", TN_LIMIT_LEASES), 3);
    CHECK_EQ_I64(most("eve", TN_LIMIT_LEASES), 7);
    CHECK_EQ_I64(most("eve", TN_LIMIT_SESSIONS), 0);
    tn_acl_free(acl);
}

TEST(a_file_that_others_can_write_is_refused)
{
    struct tn_text err;

    CHECK_EQ_I64(load("allow ann observe x\n", 0620), TENURE_E_DENIED);
    CHECK_EQ_I64(load("allow ann observe x\n", 0644), 0);
    tn_acl_free(acl);
    tn_text_init(&err, message, sizeof message);
    CHECK_EQ_I64(tn_acl_load("/nonexistent/acl", &acl, &err), TENURE_E_UNAVAILABLE);
    tn_acl_free(NULL);
}
