/* soft_test.c - soft limits (F1) in the daemon: what it reads, and what it keeps across kill -9. */
#include "tests/daemon/stage.h"
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#define ONE "00000000000000000000000000000001"
#define TWO "00000000000000000000000000000002"
#define SIX "00000000000000000000000000000006"
#define SAME " SOFT 300 0123456789abcdef0123456789abcdef"

static void opens(int fd, const char *session, const char *ttl_ms)
{
    char line[200];

    (void)snprintf(line, sizeof line, "SESSION OPEN %s %s", session, ttl_ms);
    stage_ask(fd, line, "*10");
    for (int i = 0; i < 16; i++)
        (void)stage_line(fd);
}

static void refuses(int fd, const char *command, const char *why)
{
    stage_send(fd, command);
    CHECK(strncmp(stage_line(fd), why, strlen(why)) == 0);
}

/* ONE was silent, TWO took over early and gave it back; what ONE has left is kept from SIX. */
TEST(what_falls_back_to_a_superseded_session_does_so_after_kill_9)
{
    stage_begin();
    stage_start();
    int fd = stage_connect();
    opens(fd, ONE, "3000");
    CHECK_EQ_U64(stage_granted(fd, "LEASE ACQUIRE " ONE " " ONE " x" SAME), 1);
    opens(fd, TWO, "60000");
    opens(fd, SIX, "60000");
    CHECK_EQ_U64(stage_granted(fd, "LEASE ACQUIRE " TWO " " TWO " x" SAME), 0);
    while (stage_granted(fd, "LEASE ACQUIRE " TWO " " TWO " x" SAME) == 0)
        CHECK_EQ_U64(stage_granted(fd, "LEASE ACQUIRE " SIX " " SIX " x"), 0);
    refuses(fd, "SESSION RENEW " ONE, "-GONE");
    refuses(fd, "SESSION OPEN " ONE " 3000", "-GONE");
    for (int i = 0; i < 2; i++) { /* From the journal, then from a snapshot as well. */
        stage_kill();
        stage_start_with("--snapshot-bytes", "1");
        fd = stage_connect();
    }
    int64_t began = stage_now_ms();
    stage_ask(fd, "LEASE RELEASE " TWO " " TWO " x 2", "+RELEASED");
    refuses(fd, "SESSION RENEW " ONE, "-GONE");
    refuses(fd, "SESSION OPEN " ONE " 3000", "-GONE");
    CHECK_EQ_U64(stage_granted(fd, "LEASE ACQUIRE " SIX " " SIX
                                   " x SOFT 300 11111111111111111111111111111111"),
                 0);
    while (stage_granted(fd, "LEASE ACQUIRE " SIX " " SIX " x") == 0)
        ;
    CHECK(stage_now_ms() - began > 2000);
    stage_end();
}

TEST(a_holder_that_was_restored_has_its_soft_limit_still)
{
    stage_begin();
    stage_start();
    int fd = stage_connect();
    opens(fd, ONE, "60000");
    CHECK_EQ_U64(stage_granted(fd, "LEASE ACQUIRE " ONE " " ONE " x" SAME), 1);
    stage_kill();
    stage_start();
    fd = stage_connect();
    opens(fd, TWO, "60000");
    while (stage_granted(fd, "LEASE ACQUIRE " TWO " " TWO " x" SAME) == 0)
        ;
    stage_end();
}

TEST(a_soft_limit_is_read_strictly)
{
    stage_begin();
    stage_start();
    int fd = stage_connect();
    opens(fd, ONE, "3000");
    refuses(fd, "LEASE ACQUIRE " ONE " " ONE " x SOFT 0 " ONE, "-ERR SOFT takes");
    refuses(fd, "LEASE ACQUIRE " ONE " " ONE " x SOFT 300 00000000000000000000000000000000",
            "-ERR SOFT takes");
    refuses(fd, "LEASE ACQUIRE " ONE " " ONE " x SOFT 300", "-ERR usage");
    refuses(fd, "LEASE ACQUIRE " ONE " " ONE " x QUEUE SOFT 300 ONE TWO", "-ERR");
    stage_end();
}
