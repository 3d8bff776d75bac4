/* exports.c - the simulator as a page calls it: one stage, texts in and out.
 *
 * The page writes a script to input() and calls open(). Instants are nanoseconds in a double, which
 * is exact for a hundred days. Texts that come back end in a zero byte and are good until the next
 * call.
 *
 * An assertion that trips has nowhere to jump to here. It is noted as a violation, then the call
 * traps; memory is as the assertion left it, so the page puts the stack back and asks for the rest
 * with history_end() or snapshot(). */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "sim/check.h"
#include "sim/run.h"
#include "sim/stage.h"

#define EXPORT(name) __attribute__((export_name(name)))

static struct sim_stage stage;
static struct sim_world hunting;
static struct sim_out catalogue;
static struct sim_world *running;
static char text[SIM_SCRIPT_MAX], error[300];

_Noreturn void tn_assert_fail(const char *expr, const char *file, int line)
{
    if (running != NULL) {
        sim_violate(running, "assert", "%s:%d: %s", file, line, expr);
        running->ended = true;
    }
    __builtin_trap();
}

void sim_run_guarded(struct sim_world *world, tenure_ns until)
{
    running = world;
    sim_world_run(world, until);
    running = NULL;
}

/* The two-level world cannot be shown on this stage, so it is not in the module. */
void sim_hosts_run_guarded(struct sim_world *world)
{
    (void)world;
}

void sim_hosts_free(struct sim_world *world)
{
    (void)world;
}

EXPORT("input") char *input(void)
{
    return text;
}

EXPORT("input_size") int input_size(void)
{
    return sizeof text;
}

EXPORT("open") int open_script(void)
{
    struct tn_text why;
    text[sizeof text - 1] = '\0';
    tn_text_init(&why, error, sizeof error);
    return sim_stage_open(&stage, text, &why);
}

EXPORT("error") const char *error_text(void)
{
    return error;
}

EXPORT("until") void until(double ns)
{
    sim_stage_until(&stage, (tenure_ns)ns);
}

/* -1: the world has ended. */
EXPORT("next") double next(void)
{
    tenure_ns at = sim_stage_next(&stage);
    return at == TN_NEVER ? -1 : (double)at;
}

EXPORT("snapshot") const char *snapshot(void)
{
    return sim_stage_snapshot(&stage);
}

EXPORT("history") const char *history(void)
{
    return sim_stage_history(&stage);
}

EXPORT("history_end") const char *history_end(void)
{
    return sim_stage_history_end(&stage);
}

EXPORT("transcript") const char *transcript(void)
{
    return sim_stage_transcript(&stage);
}

EXPORT("transcript_end") const char *transcript_end(void)
{
    return sim_stage_transcript_end(&stage);
}

EXPORT("catalogue") const char *catalogue_text(void)
{
    catalogue.len = 0;
    sim_catalogue(&catalogue);
    return catalogue.data;
}

/* Whether @seed breaks the promise that @plant should break, as `tenure sim --plant` looks for. The
 * stage's own plant is put back; after a trap, open() does that. */
EXPORT("breaks") bool breaks(uint32_t plant, double seed)
{
    (void)sim_plant_set(plant);
    sim_run_seed(&hunting, (uint64_t)seed);
    (void)sim_plant_set(stage.script.plant);
    const char *promise = hunting.violation.promise;
    return promise != NULL && strcmp(promise, sim_plant_at(plant)->promise) == 0;
}
