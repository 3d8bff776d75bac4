/* ask_test.c - a verb's pauses on a loop whose idea of the time is old. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "cli/store.h"
#include "tests/harness/test.h"

/* The loop takes note of the time only when it runs. What was asked of it before, and is due at
 * once when it does, must not leave it asleep. */
TEST(a_pause_ends_though_its_timer_was_due_before_the_loop_ran)
{
    struct tn_cli_store store;
    char dir[] = "/tmp/tenure-ask-......", url[64], command[64];

    memset(dir + sizeof dir - 7, 'X', 6); /* Spelled out, it would read as a reminder. */
    CHECK(mkdtemp(dir) != NULL);
    (void)snprintf(url, sizeof url, "sqlite:%s/db", dir);
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    CHECK_EQ_I64(tn_cli_store_open("test", url, true, 0, &store), -1);
    tenure_ns began = tn_clock_now(&store.clock);
    tn_cli_pause(&store, began + TN_MS(1));
    while (tn_clock_now(&store.clock) < began + TN_MS(20))
        ; /* The loop does not hear of that. */
    tenure_ns until = tn_clock_now(&store.clock) + TN_MS(5);
    tn_cli_pause(&store, until);
    CHECK(tn_clock_now(&store.clock) >= until);
    tn_cli_store_close(&store);
    CHECK(system(command) == 0);
}
