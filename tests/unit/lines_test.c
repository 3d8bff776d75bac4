/* lines_test.c - lines for a reader that is slow, absent or gone. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "runtime/lines.h"
#include "tests/harness/test.h"

struct stage {
    int reader, writer;
    struct tn_lines *lines;
    char text[65536];
};

static void set_up(struct stage *stage)
{
    int ends[2];

    CHECK_EQ_I64(pipe2(ends, O_CLOEXEC), 0);
    stage->reader = ends[0];
    stage->writer = ends[1];
    CHECK_EQ_I64(tn_lines_open(stage->writer, &stage->lines), 0);
}

/* Let the thread be held up in a write. */
static void fill(struct stage *stage)
{
    char line[4097];

    memset(line, '.', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    for (int i = 0; i < 17; i++) /* A pipe holds 16 of them. */
        CHECK(tn_lines_put(stage->lines, TN_LINE_NOTE, NULL, line));
    CHECK(!tn_lines_flush(stage->lines, TN_MS(50)));
}

/* All that is in the pipe and comes after it, but for the filling. */
static const char *read_all(struct stage *stage)
{
    struct pollfd more = { .fd = stage->reader, .events = POLLIN };
    static char raw[131072];
    size_t len = 0, at = 0;

    while (!tn_lines_flush(stage->lines, 0) || poll(&more, 1, 0) == 1) {
        /* What is on its way may have been written and read before. */
        if (poll(&more, 1, 100) == 0)
            continue;
        ssize_t got = read(stage->reader, raw + len, sizeof raw - len);
        CHECK(got > 0);
        len += (size_t)got;
    }
    for (size_t i = 0; i < len; i++) {
        if (raw[i] != '.')
            stage->text[at++] = raw[i];
    }
    stage->text[at] = '\0';
    return stage->text;
}

static void tear_down(struct stage *stage)
{
    CHECK(tn_lines_close(stage->lines, TN_SEC(10)));
    (void)close(stage->reader);
    (void)close(stage->writer);
}

TEST(lines_arrive_in_order)
{
    struct stage stage;

    set_up(&stage);
    CHECK(tn_lines_put(stage.lines, TN_LINE_NOTE, "a", "one\n"));
    CHECK(tn_lines_put(stage.lines, TN_LINE_NOTE, "a", "two\n"));
    CHECK(tn_lines_put(stage.lines, TN_LINE_BEGIN, "a", "three\n"));
    CHECK_STR(read_all(&stage), "one\ntwo\nthree\n");
    tear_down(&stage);
}

TEST(a_reader_that_does_not_read_holds_up_nobody_and_gets_the_lines_later)
{
    struct stage stage;
    char line[32], expected[TN_LINES_MOST * 5] = "";

    set_up(&stage);
    fill(&stage);
    for (int i = 100; i < 1000; i++) {
        (void)snprintf(line, sizeof line, "%d\n", i);
        CHECK(tn_lines_put(stage.lines, TN_LINE_NOTE, "a", line));
        (void)snprintf(expected + 4 * (i - 100), 8, "%d\n", i);
    }
    CHECK_STR(read_all(&stage), expected);
    tear_down(&stage);
}

TEST(too_many_lines_keep_the_last_note_of_each_key_and_terms_that_alternate)
{
    struct stage stage;
    char line[32];

    set_up(&stage);
    CHECK(tn_lines_put(stage.lines, TN_LINE_BEGIN, "a", "won 1\n"));
    fill(&stage);
    CHECK(tn_lines_put(stage.lines, TN_LINE_NOTE, "b", "b\n"));
    CHECK(tn_lines_put(stage.lines, TN_LINE_END, "a", "lost 1\n"));
    for (int i = 2; i < TN_LINES_MOST; i++) {
        (void)snprintf(line, sizeof line, "won %d\n", i);
        CHECK(tn_lines_put(stage.lines, TN_LINE_BEGIN, "a", line));
        CHECK(tn_lines_put(stage.lines, TN_LINE_NOTE, "a", "jeopardy\n"));
        (void)snprintf(line, sizeof line, "lost %d\n", i);
        CHECK(tn_lines_put(stage.lines, TN_LINE_END, "a", line));
    }
    CHECK(tn_lines_put(stage.lines, TN_LINE_BEGIN, "a", "won last\n"));
    const char *text = read_all(&stage);
    CHECK(strncmp(text, "won 1\nb\nlost 1\nwon ", 19) == 0);
    CHECK(strstr(text, "won last\n") != NULL);
    CHECK(strstr(text, "won 2\n") == NULL);
    bool held = false;
    for (const char *at = text; *at != '\0'; at = strchr(at, '\n') + 1) {
        CHECK(strncmp(at, "won", 3) != 0 || !held);
        CHECK(strncmp(at, "lost", 4) != 0 || held);
        CHECK(strncmp(at, "jeopardy", 8) != 0 || held);
        held = strncmp(at, "won", 3) == 0 || (held && strncmp(at, "lost", 4) != 0);
    }
    CHECK(held);
    tear_down(&stage);
}

TEST(of_lines_without_a_key_the_newer_ones_stay)
{
    struct stage stage;
    char line[32];

    set_up(&stage);
    fill(&stage);
    for (int i = 0; i < 5 * TN_LINES_MOST; i++) {
        (void)snprintf(line, sizeof line, "%d\n", i);
        CHECK(tn_lines_put(stage.lines, TN_LINE_NOTE, NULL, line));
    }
    const char *text = read_all(&stage);
    CHECK(strstr(text, "\n5119\n") != NULL);
    CHECK(strlen(text) < 5 * TN_LINES_MOST);
    tear_down(&stage);
}

TEST(a_reader_that_is_gone_is_told_by_a_descriptor_and_by_no_signal)
{
    struct stage stage;

    set_up(&stage);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)close(stage.reader);
    CHECK_EQ_I64(tn_lines_error(stage.lines), 0);
    CHECK(tn_lines_put(stage.lines, TN_LINE_NOTE, NULL, "x\n"));
    struct pollfd bell = { .fd = tn_lines_fd(stage.lines), .events = POLLIN };
    CHECK_EQ_I64(poll(&bell, 1, 10000), 1);
    CHECK_EQ_I64(tn_lines_error(stage.lines), EPIPE);
    CHECK(!tn_lines_put(stage.lines, TN_LINE_NOTE, NULL, "y\n"));
    CHECK(!tn_lines_close(stage.lines, TN_SEC(10)));
    (void)close(stage.writer);
}

TEST(another_process_that_sets_nonblock_loses_no_line)
{
    struct stage stage;

    set_up(&stage);
    CHECK_EQ_I64(fcntl(stage.writer, F_SETFL, O_NONBLOCK), 0);
    fill(&stage);
    CHECK(tn_lines_put(stage.lines, TN_LINE_NOTE, "a", "kept\n"));
    CHECK_STR(read_all(&stage), "kept\n");
    tear_down(&stage);
}

TEST(nobody_waits_for_a_reader_for_ever)
{
    struct stage stage;

    set_up(&stage);
    fill(&stage);
    CHECK(!tn_lines_close(stage.lines, TN_MS(20)));
    /* The thread is still there, and ends with its write. */
    (void)close(stage.reader);
}
