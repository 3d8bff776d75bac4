/* ledger_test.c - what a process leaves for the next one. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/ledger.h"
#include "tests/harness/test.h"

static struct tn_ledger ledger;
static char path[64], line[300];

static int open_at(const char *boot, const char *url)
{
    struct tn_text text;

    tn_text_init(&text, line, sizeof line);
    return tn_ledger_open(&ledger, path, boot, url, &text);
}

static void start(void)
{
    (void)snprintf(path, sizeof path, "/tmp/ledger-%d", (int)getpid());
    (void)unlink(path);
    CHECK_EQ_I64(open_at("boot", "etcd://a"), 0);
}

static uint32_t note(const char *name, uint64_t number, uint64_t gen, uint64_t token)
{
    struct tn_ledger_entry entry = { .number = number, .gen = gen, .token = token };
    uint32_t place = 0;

    (void)snprintf(entry.name, sizeof entry.name, "%s", name);
    tn_ledger_note(&ledger, &place, &entry);
    return place;
}

static void end(void)
{
    tn_ledger_close(&ledger);
    (void)unlink(path);
}

TEST(the_next_process_finds_the_secret_and_what_was_asked_for)
{
    struct stat st;

    start();
    CHECK(!ledger.resumed);
    struct tn_secret secret = ledger.secret;
    tn_ledger_life(&ledger, 3);
    uint32_t gone = note("a", 1, 1, 5);
    (void)note("b", 2, 9, 0);
    (void)note("c/d", 3, 2, 77);
    tn_ledger_drop(&ledger, &gone);
    CHECK_EQ_U64(gone, 0);
    CHECK_EQ_U64(note("e", 4, 1, 0), 1); /* In the place that is free. */
    CHECK_EQ_I64(stat(path, &st), 0);
    CHECK_EQ_I64(st.st_mode & 0777, 0600);
    tn_ledger_close(&ledger); /* As SIGKILL would. */

    CHECK_EQ_I64(open_at("boot", "etcd://a"), 0);
    CHECK(ledger.resumed);
    CHECK(tn_secret_equal(&ledger.secret, &secret));
    CHECK_EQ_U64(ledger.life, 3);
    CHECK_EQ_U64(ledger.starts, 1);
    CHECK_EQ_U64(ledger.past_count, 3);
    CHECK_STR(ledger.past[0].name, "e");
    CHECK_STR(ledger.past[2].name, "c/d");
    CHECK_EQ_U64(ledger.past[2].number, 3);
    CHECK_EQ_U64(ledger.past[2].gen, 2);
    CHECK_EQ_U64(ledger.past[2].token, 77);
    CHECK_EQ_U64(note("f", 5, 1, 0), 4);
    end();
}

TEST(another_boot_or_another_store_begins_anew)
{
    static const char *const others[][2] = { { "later", "etcd://a" }, { "boot", "etcd://b" } };

    for (int i = 0; i < 2; i++) {
        start();
        struct tn_secret secret = ledger.secret;
        tn_ledger_life(&ledger, 1);
        (void)note("a", 1, 1, 5);
        tn_ledger_close(&ledger);
        CHECK_EQ_I64(open_at(others[i][0], others[i][1]), 0);
        CHECK(!ledger.resumed);
        CHECK(!tn_secret_equal(&ledger.secret, &secret));
        CHECK_EQ_U64(ledger.life, 0);
        CHECK_EQ_U64(ledger.past_count, 0);
        end();
    }
}

TEST(a_closed_session_or_a_broken_file_is_not_gone_on_with)
{
    start();
    tn_ledger_life(&ledger, 1);
    (void)note("a", 1, 1, 5);
    tn_ledger_forget(&ledger);
    (void)note("b", 2, 1, 0); /* Does nothing. */
    tn_ledger_close(&ledger);
    CHECK_EQ_I64(open_at("boot", "etcd://a"), 0);
    CHECK(!ledger.resumed);
    tn_ledger_life(&ledger, 1);
    (void)note("a", 1, 1, 5);
    tn_ledger_close(&ledger);

    struct stat st;
    CHECK_EQ_I64(stat(path, &st), 0);
    CHECK_EQ_I64(truncate(path, st.st_size - 1), 0); /* Half an entry is none. */
    CHECK_EQ_I64(open_at("boot", "etcd://a"), 0);
    CHECK(ledger.resumed);
    CHECK_EQ_U64(ledger.past_count, 0);
    tn_ledger_close(&ledger);
    CHECK_EQ_I64(truncate(path, 20), 0);
    CHECK_EQ_I64(open_at("boot", "etcd://a"), 0);
    CHECK(!ledger.resumed);
    end();
}

TEST(a_file_that_others_may_read_is_refused)
{
    start();
    tn_ledger_close(&ledger);
    CHECK_EQ_I64(chmod(path, 0640), 0);
    CHECK_EQ_I64(open_at("boot", "etcd://a"), TENURE_E_DENIED);
    CHECK(strstr(line, "0600") != NULL);
    CHECK_EQ_I64(ledger.fd, -1);
    CHECK_EQ_I64(unlink(path), 0);
}
