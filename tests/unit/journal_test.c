/* journal_test.c - the daemon's memory on disk: what is flushed comes back, and nothing else does.
 *
 * Each test has a data directory of its own. A daemon's death is to leave the journal without
 * closing it, as kill -9 would, except that its descriptors are closed; what power loss or a bad
 * disk does is done to the files directly. */
#define _GNU_SOURCE
#include "tests/harness/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/prng.h"
#include "base/time.h"
#include "daemon/journal_private.h"
#include "daemon/state.h"

static char root[64], data[80], witness[96], message[600];
static struct tn_journal journal;
static struct tn_state state;
static struct tn_result result;
static tenure_ns now;

/* --- A daemon without sockets ----------------------------------------------------------------- */

static void begin(void)
{
    /* Memory will do, and flushes faster. */
    (void)snprintf(root, sizeof root, "/dev/shm/tenure-journal-......");
    memset(strchr(root, '.'), 'X', 6); /* What mkdtemp replaces. */
    CHECK(mkdtemp(root) != NULL);
    (void)snprintf(data, sizeof data, "%s/data", root);
    (void)snprintf(witness, sizeof witness, "%s/witness", root);
    now = TN_SEC(1000);
}

static void finish(void)
{
    char command[128];

    tn_journal_close(&journal);
    tn_state_done(&state);
    (void)snprintf(command, sizeof command, "rm -rf %s", root);
    CHECK(system(command) == 0);
}

static int try_start(bool accept_older)
{
    struct tn_table_limits limits = {
        .sessions = 100, .leases = 1000, .waiters = 100, .text_bytes = 65536, .hash_key = { 5, 6 }
    };
    struct tn_journal_config config = {
        .dir = data, .witness = witness, .accept_older = accept_older, .snapshot_bytes = 1 << 20
    };
    struct tn_text err;

    tn_text_init(&err, message, sizeof message);
    CHECK_EQ_I64(tn_state_init(&state, limits, 100), 0);
    struct tn_journal_state hooks = tn_state_for_journal(&state);
    int rc = tn_journal_open(&journal, &config, &hooks, &err);
    if (rc == 0)
        tn_table_restart(state.table, now);
    else
        tn_state_done(&state);
    return rc;
}

static void start(void)
{
    int rc = try_start(false);
    CHECK_STR(rc == 0 ? "" : message, "");
}

static void flush(void)
{
    struct tn_text err;

    tn_text_init(&err, message, sizeof message);
    if (tn_journal_is_pending(&journal))
        CHECK_EQ_I64(tn_journal_flush(&journal, &err), 0);
}

/* Death without a goodbye: whatever was not flushed is gone. */
static void die(void)
{
    tn_journal_close(&journal);
    tn_state_done(&state);
}

static void restart(void)
{
    die();
    now += TN_SEC(1000);
    start();
}

static struct tn_secret secret_of(unsigned number)
{
    struct tn_secret secret = { { 1 } };
    memcpy(secret.bytes + 4, &number, sizeof number);
    return secret;
}

static enum tn_answer step(struct tn_op op)
{
    enum tn_answer answer;

    tn_table_step(state.table, now, &op, &result);
    tn_state_log(&state, &journal, &op, &result);
    answer = result.answer;
    struct tn_op tick = { .kind = TN_OP_TICK };
    while (tn_table_wake_at(state.table) <= now) {
        struct tn_result more;
        tn_table_step(state.table, now, &tick, &more);
        tn_state_log(&state, &journal, &tick, &more);
    }
    return answer;
}

static enum tn_answer does(enum tn_op_kind kind, unsigned session, const char *name, uint64_t token)
{
    return step((struct tn_op) { .kind = kind,
                                 .session = secret_of(session),
                                 .term = secret_of(session + 1000),
                                 .name = name,
                                 .name_len = (uint32_t)strlen(name),
                                 .label = "host",
                                 .label_len = 4,
                                 .seq = (uint64_t)now,
                                 .token = token,
                                 .ttl = TN_SEC(10) });
}

/* "session token", or "free token". */
static const char *holder(const char *name)
{
    static char text[64];
    struct tn_lease_view view;
    unsigned number = 0;

    (void)step(
        (struct tn_op) { .kind = TN_OP_READ, .name = name, .name_len = (uint32_t)strlen(name) });
    if (result.lease == 0)
        return "unknown";
    tn_table_lease(state.table, result.lease, &view);
    if (view.session == NULL) {
        (void)snprintf(text, sizeof text, "free %" PRIu64, view.token);
    } else {
        memcpy(&number, view.session->bytes + 4, sizeof number);
        (void)snprintf(text, sizeof text, "%u %" PRIu64 "%s", number, view.token,
                       view.revoked ? " revoked" : "");
    }
    return text;
}

/* The only file whose name begins so; its path. */
static const char *file_of(const char *prefix)
{
    static char path[400];
    DIR *dir = opendir(data);
    const struct dirent *entry;

    CHECK(dir != NULL);
    path[0] = 0;
    while ((entry = readdir(dir)) != NULL)
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            (void)snprintf(path, sizeof path, "%s/%s", data, entry->d_name);
    (void)closedir(dir);
    return path;
}

static void run(const char *format, const char *a, const char *b)
{
    char command[1000];

    (void)snprintf(command, sizeof command, format, a, b);
    CHECK(system(command) == 0);
}

static void flip_bit(const char *path, off_t at)
{
    int fd = open(path, O_RDWR);
    char byte;

    CHECK(fd >= 0);
    CHECK(pread(fd, &byte, 1, at) == 1);
    byte = (char)(byte ^ 4);
    CHECK(pwrite(fd, &byte, 1, at) == 1);
    (void)close(fd);
}

/* Session 1 holds x under token 1, session 2 waits; y is free, its last token 2. */
static void start_with_some(void)
{
    start();
    CHECK(does(TN_OP_OPEN, 1, "", 0) == TN_ANSWER_OK);
    CHECK(does(TN_OP_OPEN, 2, "", 0) == TN_ANSWER_OK);
    CHECK(does(TN_OP_ACQUIRE, 1, "x", 0) == TN_ANSWER_GRANTED);
    CHECK(does(TN_OP_ACQUIRE, 2, "y", 0) == TN_ANSWER_GRANTED);
    CHECK(does(TN_OP_RELEASE, 2, "y", 2) == TN_ANSWER_RELEASED);
    flush();
}

/* --- What comes back -------------------------------------------------------------------------- */

TEST(what_was_flushed_is_there_after_a_crash_and_what_was_not_is_not)
{
    begin();
    start_with_some();
    CHECK(does(TN_OP_ACQUIRE, 2, "z", 0) == TN_ANSWER_GRANTED);
    restart();
    CHECK_STR(holder("x"), "1 1");
    CHECK_STR(holder("y"), "free 2");
    CHECK_STR(holder("z"), "unknown");
    CHECK_EQ_U64(tn_table_token(state.table), 2);
    finish();
}

TEST(a_session_has_its_full_ttl_after_a_restart_and_may_renew)
{
    begin();
    start_with_some();
    restart();
    now += TN_SEC(9);
    CHECK_STR(holder("x"), "1 1");
    CHECK(does(TN_OP_RENEW, 1, "", 0) == TN_ANSWER_OK);
    now += TN_SEC(9);
    CHECK_STR(holder("x"), "1 1");
    CHECK(does(TN_OP_RENEW, 2, "", 0) == TN_ANSWER_GONE);
    now += TN_SEC(2);
    CHECK_STR(holder("x"), "free 1");
    finish();
}

TEST(an_expiry_that_was_flushed_is_final)
{
    begin();
    start_with_some();
    now += TN_SEC(11);
    CHECK_STR(holder("x"), "free 1");
    flush();
    restart();
    CHECK_STR(holder("x"), "free 1");
    CHECK(does(TN_OP_RENEW, 1, "", 0) == TN_ANSWER_GONE);
    finish();
}

TEST(a_release_may_be_repeated_after_a_restart)
{
    begin();
    start_with_some();
    restart();
    CHECK(does(TN_OP_RELEASE, 2, "y", 2) == TN_ANSWER_RELEASED);
    CHECK(does(TN_OP_ACQUIRE, 2, "y", 0) == TN_ANSWER_STALE);
    CHECK(does(TN_OP_RELEASE, 2, "x", 1) == TN_ANSWER_DENIED);
    finish();
}

TEST(a_revocation_comes_back_as_one)
{
    begin();
    start_with_some();
    CHECK(does(TN_OP_REVOKE, 0, "x", 0) == TN_ANSWER_OK);
    flush();
    restart();
    CHECK_STR(holder("x"), "1 1 revoked");
    now += TN_SEC(5);
    CHECK(does(TN_OP_RENEW, 1, "", 0) == TN_ANSWER_OK);
    now += TN_SEC(6);
    CHECK_STR(holder("x"), "free 1");
    finish();
}

TEST(a_raised_token_and_a_fence_come_back)
{
    struct tn_fence_entry *entry;

    begin();
    start_with_some();
    CHECK(does(TN_OP_RAISE, 0, "", 500) == TN_ANSWER_OK);
    tn_journal_add(&journal,
                   &(struct tn_journal_record) {
                       .kind = TN_RECORD_FENCED, .name = "db", .name_len = 2, .token = 7 });
    flush();
    restart();
    CHECK(does(TN_OP_ACQUIRE, 1, "z", 0) == TN_ANSWER_GRANTED);
    CHECK_EQ_U64(result.token, 501);
    entry = tn_fences_find(&state.fences, "db", 2);
    CHECK(entry != NULL);
    CHECK_EQ_U64(tenure_fence_highest(&entry->fence), 7);
    finish();
}

/* --- Snapshots -------------------------------------------------------------------------------- */

static void snapshot(void)
{
    struct tn_text err;
    int status;

    tn_text_init(&err, message, sizeof message);
    CHECK_EQ_I64(tn_journal_snapshot(&journal, &err), 0);
    CHECK(waitpid(journal.snapshot_pid, &status, 0) == journal.snapshot_pid);
    CHECK_EQ_I64(tn_journal_snapshot_ended(&journal, status), 0);
}

TEST(a_snapshot_and_the_journal_behind_it_make_the_state)
{
    begin();
    start_with_some();
    CHECK(does(TN_OP_ACQUIRE, 2, "r", 0) == TN_ANSWER_GRANTED);
    CHECK(does(TN_OP_REVOKE, 2, "r", 0) == TN_ANSWER_OK);
    flush();
    snapshot();
    CHECK(does(TN_OP_ACQUIRE, 2, "z", 0) == TN_ANSWER_GRANTED);
    flush();
    restart();
    CHECK_STR(holder("x"), "1 1");
    CHECK_STR(holder("y"), "free 2");
    CHECK_STR(holder("r"), "2 3 revoked");
    CHECK_STR(holder("z"), "2 4");
    CHECK(does(TN_OP_RELEASE, 2, "y", 2) == TN_ANSWER_RELEASED);
    snapshot();
    restart();
    CHECK_STR(holder("z"), "2 4");
    finish();
}

/* So that the snapshots of many leases do not cost more than what they save. */
TEST(a_snapshot_is_due_when_as_much_is_new_as_it_is_long)
{
    char name[16] = "";

    begin();
    start_with_some();
    journal.config.snapshot_bytes = 100;
    for (unsigned i = 0; i < 50; i++) {
        (void)snprintf(name, sizeof name, "n%u", i);
        CHECK(does(TN_OP_ACQUIRE, 2, name, 0) == TN_ANSWER_GRANTED);
    }
    flush();
    CHECK(tn_journal_is_long(&journal));
    snapshot();
    uint64_t len = journal.snapshot_len;
    CHECK(len > 1000);
    restart();
    journal.config.snapshot_bytes = 100;
    CHECK_EQ_U64(journal.snapshot_len, len);
    for (unsigned i = 0; journal.grown_bytes < len; i++) {
        CHECK(!tn_journal_is_long(&journal));
        (void)snprintf(name, sizeof name, "m%u", i);
        CHECK(does(TN_OP_ACQUIRE, 2, name, 0) == TN_ANSWER_GRANTED);
        flush();
    }
    CHECK(tn_journal_is_long(&journal));
    finish();
}

TEST(a_snapshot_that_was_not_finished_is_as_none)
{
    char path[500];

    begin();
    start_with_some();
    (void)snprintf(path, sizeof path, "%s/snapshot-0000000000000009.new", data);
    run("head -c 100 %s >%s", file_of("journal-"), path);
    restart();
    CHECK_STR(holder("x"), "1 1");
    CHECK(access(path, F_OK) != 0);
    finish();
}

TEST(a_missing_journal_file_is_noticed)
{
    begin();
    start_with_some();
    snapshot();
    die();
    run("rm %s%s", file_of("journal-"), "");
    CHECK_EQ_I64(try_start(false), TENURE_E_DAMAGED);
    CHECK(strstr(message, "missing") != NULL);
    finish();
}

/* --- What a crash and a disk can do ----------------------------------------------------------- */

/* Copies of the data, to be broken in many ways. */
static void keep_copy(void)
{
    run("cp -a %s %s.whole", data, data);
}

static void put_copy_back(void)
{
    run("rm -rf %s%s", data, "");
    run("cp -a %s.whole %s", data, data);
}

/* Every length that a power loss can cut the last frame to: what was acknowledged is there. */
TEST(a_torn_frame_is_cut_off_at_any_length)
{
    uint64_t kept;
    uint64_t end;

    begin();
    start_with_some();
    kept = journal.at;
    CHECK(does(TN_OP_ACQUIRE, 2, "torn", 0) == TN_ANSWER_GRANTED);
    flush();
    end = journal.at - 7; /* It ends in the zeros of a small token; cut there, it is still whole. */
    die();
    keep_copy();
    for (uint64_t cut = end; cut-- > kept;) {
        put_copy_back();
        (void)unlink(witness); /* It would say, rightly, that the frame had been flushed. */
        CHECK(truncate(file_of("journal-"), (off_t)cut) == 0);
        CHECK(truncate(file_of("journal-"), 65536) == 0);
        start();
        CHECK_STR(holder("x"), "1 1");
        CHECK_STR(holder("torn"), "unknown");
        CHECK(does(TN_OP_ACQUIRE, 2, "next", 0) == TN_ANSWER_GRANTED);
        flush();
        restart();
        CHECK_STR(holder("next"), "2 3");
        die();
    }
    finish();
}

/* A bit flip in a frame behind which there is another is damage; in the last one it looks like a
 * torn frame, but the witness knows better. */
TEST(a_flipped_bit_anywhere_is_noticed)
{
    off_t end;

    begin();
    start_with_some();
    CHECK(does(TN_OP_ACQUIRE, 2, "z", 0) == TN_ANSWER_GRANTED);
    flush();
    end = (off_t)journal.at;
    die();
    for (off_t at = 0; at < end; at++) {
        flip_bit(file_of("journal-"), at);
        int rc = try_start(false);
        CHECK(rc == TENURE_E_DAMAGED || rc == TENURE_E_STALE || rc == TENURE_E_UNSUPPORTED);
        flip_bit(file_of("journal-"), at); /* Who refuses changes nothing. */
    }
    start();
    CHECK_STR(holder("z"), "2 3");
    finish();
}

TEST(a_flipped_bit_in_a_snapshot_is_noticed)
{
    struct stat st;

    begin();
    start_with_some();
    snapshot();
    die();
    CHECK(stat(file_of("snapshot-"), &st) == 0);
    for (off_t at = 0; at < st.st_size; at++) {
        flip_bit(file_of("snapshot-"), at);
        CHECK(try_start(false) == TENURE_E_DAMAGED);
        flip_bit(file_of("snapshot-"), at);
    }
    finish();
}

TEST(a_missing_tail_is_noticed_by_the_witness)
{
    begin();
    start_with_some();
    off_t before = (off_t)journal.at;
    CHECK(does(TN_OP_ACQUIRE, 2, "z", 0) == TN_ANSWER_GRANTED);
    flush();
    die();
    CHECK(truncate(file_of("journal-"), before) == 0);
    CHECK_EQ_I64(try_start(false), TENURE_E_STALE);
    CHECK(strstr(message, "--accept-older-data") != NULL);
    finish();
}

TEST(an_older_copy_is_refused_and_if_accepted_no_token_comes_twice)
{
    begin();
    start_with_some();
    die();
    keep_copy();
    start();
    CHECK(does(TN_OP_ACQUIRE, 2, "z", 0) == TN_ANSWER_GRANTED);
    CHECK_EQ_U64(result.token, 3);
    flush();
    die();
    put_copy_back();
    CHECK_EQ_I64(try_start(false), TENURE_E_STALE);
    CHECK_EQ_I64(try_start(true), 0);
    CHECK(does(TN_OP_ACQUIRE, 2, "w", 0) == TN_ANSWER_GRANTED);
    CHECK_EQ_U64(result.token, 4);
    flush();
    restart(); /* Accepted once: from now on this is the data. */
    CHECK_STR(holder("w"), "2 4");
    finish();
}

TEST(data_that_is_gone_is_as_an_older_copy)
{
    begin();
    start_with_some();
    die();
    run("rm -rf %s%s", data, "");
    CHECK_EQ_I64(try_start(false), TENURE_E_STALE);
    CHECK_EQ_I64(try_start(true), 0);
    CHECK_EQ_U64(tn_table_token(state.table), 2);
    finish();
}

TEST(files_of_two_stores_do_not_mix)
{
    char other[100];

    begin();
    start_with_some();
    snapshot();
    die();
    keep_copy();
    run("rm -rf %s %s", data, witness);
    (void)snprintf(other, sizeof other, "%s.whole", data);
    start_with_some();
    snapshot();
    die();
    (void)unlink(file_of("journal-"));
    run("cp %s/journal-* %s/", other, data);
    CHECK_EQ_I64(try_start(false), TENURE_E_DAMAGED);
    CHECK(strstr(message, "other data") != NULL);
    finish();
}

TEST(a_later_format_is_refused_by_name)
{
    struct tn_file_head head = { .version = TN_FRAME_VERSION + 1, .kind = TN_FILE_JOURNAL };
    char bytes[TN_FILE_HEAD];

    begin();
    start_with_some();
    die();
    tn_file_head_encode(bytes, &head);
    int fd = open(file_of("journal-"), O_RDWR);
    CHECK(pwrite(fd, bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes);
    (void)close(fd);
    CHECK_EQ_I64(try_start(false), TENURE_E_UNSUPPORTED);
    CHECK(strstr(message, "format 2, this one knows 1") != NULL);
    finish();
}

TEST(a_second_daemon_on_the_same_data_is_refused)
{
    struct tn_journal first;
    struct tn_state first_state;

    begin();
    start_with_some();
    first = journal;
    first_state = state;
    CHECK_EQ_I64(try_start(false), TENURE_E_CONFLICT);
    CHECK(strstr(message, "another tenured") != NULL);
    journal = first;
    state = first_state;
    finish();
}

TEST(a_directory_open_to_others_is_refused)
{
    begin();
    start_with_some();
    die();
    CHECK(chmod(data, 0750) == 0);
    CHECK_EQ_I64(try_start(false), TENURE_E_DENIED);
    CHECK(strstr(message, "chmod 700") != NULL);
    finish();
}

/* --- Disks that fail -------------------------------------------------------------------------- */

TEST(a_flush_that_fails_is_an_error_and_what_was_flushed_before_is_there)
{
    struct tn_text err;
    int null;

    begin();
    start_with_some();
    null = open("/dev/null", O_RDWR); /* Takes every write, and cannot be flushed. */
    CHECK(null >= 0);
    CHECK(dup2(null, journal.fd) == journal.fd);
    (void)close(null);
    CHECK(does(TN_OP_ACQUIRE, 2, "z", 0) == TN_ANSWER_GRANTED);
    tn_text_init(&err, message, sizeof message);
    CHECK_EQ_I64(tn_journal_flush(&journal, &err), TENURE_E_UNAVAILABLE);
    restart();
    CHECK_STR(holder("x"), "1 1");
    CHECK_STR(holder("z"), "unknown");
    finish();
}

TEST(a_full_disk_is_known_before_it_matters)
{
    struct rlimit old;
    struct rlimit tight;
    struct tn_text err;

    begin();
    start_with_some();
    tn_text_init(&err, message, sizeof message);
    CHECK(getrlimit(RLIMIT_FSIZE, &old) == 0);
    tight = old;
    tight.rlim_cur = journal.end;
    (void)signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &tight) == 0);
    for (unsigned i = 0; !tn_journal_is_short(&journal); i++) {
        CHECK(i < 100000);
        does(TN_OP_RAISE, 0, "", 1000 + i);
        CHECK_EQ_I64(tn_journal_flush(&journal, &err), 0);
        tn_journal_prepare(&journal);
    }
    now += TN_SEC(11);
    CHECK_STR(holder("x"), "free 1"); /* What time does still fits. */
    CHECK_EQ_I64(tn_journal_flush(&journal, &err), 0);
    CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
    tn_journal_prepare(&journal);
    CHECK(!tn_journal_is_short(&journal));
    restart();
    CHECK_STR(holder("x"), "free 1");
    finish();
}

TEST(frames_come_back_that_end_where_a_block_does)
{
    enum { BLOCK = 4096, NAME = 60 };
    char name[TN_NAME_MAX + 1];
    char expected[32];
    unsigned ends = 0;

    begin();
    start_with_some();
    uint64_t before = journal.at;
    CHECK(does(TN_OP_ACQUIRE, 2, "z", 0) == TN_ANSWER_GRANTED);
    flush();
    uint64_t rest = journal.at - before - 1; /* Of a frame, beside the name in it. */
    for (unsigned i = 0; ends < 3; i++) {
        uint64_t left = BLOCK - journal.at % BLOCK;
        bool fits = left > rest + 8 && left < rest + 8 + NAME * 2;
        int len = fits ? (int)(left - rest) : NAME;
        (void)snprintf(name, sizeof name, "n%07u%0*d", i, len - 8, 0);
        CHECK(does(TN_OP_ACQUIRE, 2, name, 0) == TN_ANSWER_GRANTED);
        flush();
        CHECK(!fits || journal.at % BLOCK == 0);
        ends += fits;
        (void)snprintf(expected, sizeof expected, "2 %u", i + 4);
        die();
        start();
        CHECK_STR(holder(name), expected);
        CHECK_STR(holder("x"), "1 1");
    }
    finish();
}

/* On a disk: what is in memory takes every write. */
TEST(a_file_that_refuses_direct_writing_is_written_all_the_same)
{
    _Alignas(64) char bytes[64] = "0123456789";
    char path[] = "/var/tmp/tenure-direct-......";
    char found[10];

    memset(strchr(path, '.'), 'X', 6); /* What mkstemp replaces. */
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    (void)fcntl(fd, F_SETFL, O_DIRECT); /* Where that fails there is nothing left to refuse. */
    CHECK_EQ_I64(tn_journal_write(fd, bytes + 1, 9, 3), 0); /* No disk takes it so. */
    CHECK_EQ_I64(tn_journal_write(fd, bytes + 1, 9, 3), 0);
    (void)close(fd);
    fd = open(path, O_RDONLY);
    CHECK_EQ_I64(pread(fd, found, 9, 3), 9);
    CHECK(memcmp(found, bytes + 1, 9) == 0);
    (void)close(fd);
    CHECK(unlink(path) == 0);
}

/* --- Everything at random --------------------------------------------------------------------- */

/* Random operations, flushes, snapshots and crashes; after each crash the table must be what it was
 * at the last flush, and no token may come twice. */
TEST(after_any_crash_the_state_is_that_of_the_last_flush)
{
    static struct {
        char holder[64];
    } flushed[20];
    struct tn_prng prng;
    uint64_t highest = 0;

    begin();
    start();
    tn_prng_seed(&prng, 99);
    for (int i = 0; i < 3000; i++) {
        char name[8];
        unsigned who = 1 + (unsigned)tn_prng_below(&prng, 5);
        unsigned which = (unsigned)tn_prng_below(&prng, 20);
        (void)snprintf(name, sizeof name, "n%u", which);
        switch (tn_prng_below(&prng, 12)) {
        case 0:
            (void)does(TN_OP_OPEN, who, "", 0);
            break;
        case 1:
            (void)does(tn_prng_below(&prng, 4) == 0 ? TN_OP_CLOSE : TN_OP_RENEW, who, "", 0);
            break;
        case 2:
            now += TN_MS(tn_prng_below(&prng, 4000));
            break;
        case 3:
            (void)does(TN_OP_RELEASE, who, name, 0);
            break;
        case 4:
            if (tn_prng_below(&prng, 5) == 0) {
                flush();
                snapshot();
            }
            break;
        default:
            (void)does(TN_OP_ACQUIRE, who, name, 0);
        }
        if (tn_prng_below(&prng, 40) != 0)
            continue;
        for (unsigned n = 0; n < 20; n++) {
            (void)snprintf(name, sizeof name, "n%u", n);
            (void)snprintf(flushed[n].holder, sizeof flushed[n].holder, "%s", holder(name));
        }
        flush();
        CHECK(tn_table_token(state.table) >= highest);
        highest = tn_table_token(state.table);
        (void)does(TN_OP_ACQUIRE, 1, "lost", 0);
        die();
        start();
        for (unsigned n = 0; n < 20; n++) {
            (void)snprintf(name, sizeof name, "n%u", n);
            CHECK_STR(holder(name), flushed[n].holder);
        }
        CHECK_EQ_U64(tn_table_token(state.table), highest);
    }
    CHECK(highest > 100);
    finish();
}
