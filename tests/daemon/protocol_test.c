/* protocol_test.c - replays every transcript in docs/protocol.md against a real daemon.
 *
 * A transcript is a block fenced as ```transcript. A line "1> WORDS" is sent on connection 1, a
 * line "1< LINE" must be the next line that comes back there; "..." in it stands for anything.
 * Connections are new in each block, the daemon is the same throughout. */
#include "tests/daemon/stage.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CONNS 10

static int conns[CONNS];
static unsigned replayed;

static bool matches(const char *pattern, const char *line)
{
    const char *gap = strstr(pattern, "...");

    if (gap == NULL)
        return strcmp(pattern, line) == 0;
    size_t before = (size_t)(gap - pattern);
    size_t after = strlen(gap + 3);
    size_t len = strlen(line);
    return len >= before + after && strncmp(pattern, line, before) == 0 &&
           strcmp(line + len - after, gap + 3) == 0;
}

static void forget_connections(void)
{
    for (int i = 0; i < CONNS; i++) {
        if (conns[i] > 0)
            (void)close(conns[i]);
        conns[i] = 0;
    }
}

static void replay_line(const char *line, unsigned number)
{
    int which = line[0] - '0';

    if (line[0] == 0)
        return;
    if (which < 0 || which >= CONNS || (line[1] != '>' && line[1] != '<') || line[2] != ' ')
        tn_test_fail("docs/protocol.md", (int)number, "not a line of a transcript: %s", line);
    if (conns[which] == 0)
        conns[which] = stage_connect();
    if (line[1] == '>') {
        stage_send(conns[which], line + 3);
        return;
    }
    const char *got = stage_line(conns[which]);
    if (!matches(line + 3, got))
        tn_test_fail("docs/protocol.md", (int)number, "expected %s, got %s", line + 3, got);
    replayed++;
}

TEST(every_transcript_in_the_protocols_document_is_true)
{
    char line[1000];
    unsigned number = 0;
    bool inside = false;
    FILE *file = fopen(TN_ROOT "/docs/protocol.md", "r");

    CHECK(file != NULL);
    stage_begin();
    stage_start();
    while (fgets(line, sizeof line, file) != NULL) {
        number++;
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "```", 3) == 0) {
            inside = !inside && strcmp(line, "```transcript") == 0;
            forget_connections();
        } else if (inside) {
            replay_line(line, number);
        }
    }
    (void)fclose(file);
    forget_connections();
    stage_end();
    CHECK(replayed > 100);
}
