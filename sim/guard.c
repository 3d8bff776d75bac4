/* guard.c - runs a world so that an assertion that trips ends the run, not the program.
 *
 * A trip of an assertion counts as a broken promise of its own ("assert"): asserts are part of the
 * proof, and a planted bug may be caught by one before any checker sees it. */
#include <setjmp.h>

#include "base/assert.h"
#include "sim/check.h"
#include "sim/run.h"

/* Where an assertion in the simulated code returns to; one per thread. */
static _Thread_local jmp_buf *tripped;
static _Thread_local struct sim_world *tripping;

/* Whose hook it was: an assertion outside of a world is theirs. */
static void (*before)(const char *expr, const char *file, int line);

static void on_assert(const char *expr, const char *file, int line)
{
    if (tripped == NULL) {
        before(expr, file, line);
        return;
    }
    sim_violate(tripping, "assert", "%s:%d: %s", file, line, expr);
    tripping->ended = true;
    longjmp(*tripped, 1);
}

void sim_guard(void)
{
    if (tn_assert_hook == on_assert)
        return;
    before = tn_assert_hook;
    tn_assert_hook = on_assert;
}

static void run_to(struct sim_world *world, tenure_ns until, bool hosts)
{
    jmp_buf back;
    sim_guard();
    tripped = &back;
    tripping = world;
    if (setjmp(back) == 0) {
        if (hosts)
            sim_hosts_run(world);
        else
            sim_world_run(world, until);
    }
    tripped = NULL;
}

void sim_run_guarded(struct sim_world *world, tenure_ns until)
{
    run_to(world, until, false);
}

void sim_hosts_run_guarded(struct sim_world *world)
{
    run_to(world, TN_NEVER, true);
}
