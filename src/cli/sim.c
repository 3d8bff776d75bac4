/* sim.c - `tenure sim`: seeds, scenarios and planted bugs of the simulator (sim/).
 *
 * What can fail: bad input (64); a broken promise, a story that did not come true, or a planted bug
 * that was not caught (1, with the command that shows it again); planted bugs asked of a build that
 * has none nearby (69). Runs of one seed print no times, so that the same seed gives the same
 * bytes. */
#define _GNU_SOURCE /* sched_getaffinity: as many threads as there are cores for us. */
#include "cli/sim.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "sim/run.h"
#include "sim/script.h"

static uint32_t cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    return (uint32_t)CPU_COUNT(&set);
}

/* --- Checking what was asked ------------------------------------------------------------------ */

static int unknown_name(const char *option, const char *name, const char *nearest)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;
    tn_text_init(&text, buf, sizeof buf);
    tn_text_addf(&text, "%s: ", option);
    tn_cli_quote(&text, name);
    if (nearest != NULL)
        tn_text_addf(&text, " does not exist; did you mean '%s'?", nearest);
    else
        tn_text_add(&text, " does not exist; 'tenure sim --list' shows what does");
    return tn_cli_fail(TN_EXIT_USAGE, "sim", "%s", tn_text_str(&text));
}

static int check_names(const struct tn_sim_options *asked)
{
    const char *names[128] = { NULL };
    if (asked->scenario != NULL && sim_scenario_find(asked->scenario) == NULL) {
        for (uint32_t i = 0; sim_scenario_at(i) != NULL; i++)
            names[i] = sim_scenario_at(i)->name;
        return unknown_name("--scenario", asked->scenario, tn_nearest(asked->scenario, names));
    }
    if (asked->plant != NULL && sim_plant_find(asked->plant) == 0) {
        for (uint32_t i = 1; sim_plant_at(i) != NULL; i++)
            names[i - 1] = sim_plant_at(i)->name;
        return unknown_name("--plant", asked->plant, tn_nearest(asked->plant, names));
    }
    return -1;
}

static int check_together(const struct tn_sim_options *asked)
{
    bool hosts = asked->fleet.hosts > 0;
    int modes = asked->seeds_given + (asked->seed_given && !hosts) + (asked->scenario != NULL) +
                asked->list + asked->plants + (asked->script != NULL) + hosts;
    if (modes > 1)
        return tn_cli_fail(
            TN_EXIT_USAGE, "sim",
            "give one of --seeds, --seed, --scenario, --script, --list, --plants and --hosts");
    if (!hosts && asked->fleet_option != NULL)
        return tn_cli_fail(TN_EXIT_USAGE, "sim", "--%s goes with --hosts only",
                           asked->fleet_option);
    if (hosts && asked->trace)
        return tn_cli_fail(TN_EXIT_USAGE, "sim", "--hosts goes without --trace");
    if (asked->trace && !asked->seed_given)
        return tn_cli_fail(TN_EXIT_USAGE, "sim", "--trace needs a seed; add --seed N");
    if (asked->plant != NULL && (asked->scenario != NULL || asked->list || asked->plants))
        return tn_cli_fail(TN_EXIT_USAGE, "sim",
                           "--plant goes with --seeds, --seed, --script or --hosts only");
    if (asked->as_script && asked->scenario == NULL)
        return tn_cli_fail(TN_EXIT_USAGE, "sim", "--as-script needs a story; add --scenario NAME");
    if (asked->as_script && asked->json)
        return tn_cli_fail(TN_EXIT_USAGE, "sim", "--as-script and --json exclude each other");
    if (asked->trace && asked->json)
        return tn_cli_fail(TN_EXIT_USAGE, "sim", "--trace and --json exclude each other");
    if (asked->from > UINT64_MAX - asked->seeds)
        return tn_cli_fail(TN_EXIT_USAGE, "sim", "--from: there are not that many seeds after it");
    return check_names(asked);
}

/* --- Planted bugs live in another program ----------------------------------------------------- */

/* Beside this program in the build tree, under libexec when installed. */
static int run_planted(char **argv)
{
    static const char *const places[] = { "tenure-planted", "../libexec/tenure/tenure-planted" };

    tn_cli_exec_beside(places, sizeof places / sizeof places[0], argv);
    return tn_cli_fail(TN_EXIT_UNAVAILABLE, "sim",
                       "planted bugs need the program tenure-planted beside this one; "
                       "build it with 'make'");
}

/* --- Modes ------------------------------------------------------------------------------------ */

static void show_progress(uint64_t done, uint64_t count, void *arg)
{
    (void)arg;
    (void)fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " seeds (%" PRIu64 " %%) ", done, count,
                  done * 100 / count);
    if (done == count)
        (void)fprintf(stderr, "\r%*s\r", 60, "");
    (void)fflush(stderr);
}

static int run_seeds(const struct tn_sim_options *asked)
{
    bool watched = isatty(STDERR_FILENO) && !asked->json;
    const struct sim_plant *plant = sim_plant_at(asked->plant ? sim_plant_find(asked->plant) : 0);
    struct sim_totals totals;
    sim_run_many(asked->from, asked->seeds, asked->threads, plant ? plant->promise : NULL,
                 watched ? show_progress : NULL, NULL, &totals);
    if (asked->json)
        tn_sim_json_totals(asked, &totals);
    else
        tn_sim_text_totals(asked, &totals);
    if (plant != NULL)
        return totals.violations > 0 ? TN_EXIT_OK : TN_EXIT_UNSAFE;
    return totals.violations == 0 ? TN_EXIT_OK : TN_EXIT_UNSAFE;
}

static void print_line(void *arg, const struct sim_world *world, const char *line, size_t len)
{
    (void)arg;
    (void)world;
    (void)fwrite(line, 1, len, stdout);
}

static const struct sim_listener printer = { .line = print_line };

static int run_seed(const struct tn_sim_options *asked)
{
    struct sim_world world = { .listener = asked->trace ? &printer : NULL };
    sim_run_seed(&world, asked->seed);
    bool broken = world.violation.promise != NULL;
    if (asked->json)
        tn_sim_json_seed(asked, &world);
    else
        tn_sim_text_seed(asked, &world);
    sim_world_free(&world);
    return broken ? TN_EXIT_UNSAFE : TN_EXIT_OK;
}

static int run_scenario(const struct tn_sim_options *asked)
{
    const struct sim_scenario *scenario = sim_scenario_find(asked->scenario);
    struct sim_world world = { .listener = asked->json ? NULL : &printer };
    static struct sim_script script;
    if (asked->as_script) {
        printf("%s\n", scenario->script);
        return TN_EXIT_OK;
    }
    if (!asked->json)
        printf("%s%s%s: %s\n", tn_cli_colour(TN_BOLD), scenario->name, tn_cli_colour(TN_PLAIN),
               scenario->title);
    bool came_true = sim_scenario_run(&world, scenario, &script);
    if (asked->json)
        tn_sim_json_scenario(scenario, &world, came_true);
    else
        tn_sim_text_scenario(scenario, &world, came_true);
    sim_world_free(&world);
    return came_true ? TN_EXIT_OK : TN_EXIT_UNSAFE;
}

/* The promises are those of a plan that `tenure run` accepts. */
static int refuse_plan(const struct sim_script *script)
{
    return tn_cli_fail(TN_EXIT_USAGE, "sim",
                       "--script: Tenure refuses these numbers: %s; 'tenure plan' says what would "
                       "do",
                       script->verdict == TN_PLAN_BREAKS_P1
                           ? "the margin is too small for the clocks (P1)"
                           : "there is no time for a second renewal (P8)");
}

static void run_history(const struct tn_sim_options *asked, const struct sim_script *script,
                        struct sim_world *world)
{
    world->listener = asked->json ? NULL : &printer;
    if (script->history != 0) {
        sim_seed_open(world, script->history);
    } else {
        sim_script_open(world, script);
        world->goes_on = true;
    }
    sim_run_guarded(world, TN_NEVER);
    if (script->history == 0)
        sim_script_tell_end(world);
}

static int run_script(const struct tn_sim_options *asked, const struct sim_script *script)
{
    struct sim_world world = { 0 };
    if (script->verdict != TN_PLAN_SAFE)
        return refuse_plan(script);
    run_history(asked, script, &world);
    bool broken = world.violation.promise != NULL;
    if (asked->json)
        tn_sim_json_script(&world);
    sim_world_free(&world);
    return broken ? TN_EXIT_UNSAFE : TN_EXIT_OK;
}

static int run_plants(const struct tn_sim_options *asked)
{
    uint32_t missed = 0, count = 0;
    for (uint32_t i = 1; sim_plant_at(i) != NULL; i++) {
        struct sim_totals totals;
        (void)sim_plant_set(i);
        sim_run_many(asked->from, TN_SIM_PLANT_SEEDS, asked->threads, sim_plant_at(i)->promise,
                     NULL, NULL, &totals);
        count++;
        missed += totals.violations == 0;
        if (asked->json)
            tn_sim_json_plant(sim_plant_at(i), &totals, i == 1);
        else
            tn_sim_text_plant(sim_plant_at(i), &totals);
        (void)fflush(stdout);
    }
    if (asked->json)
        printf("],\"planted\":%u,\"missed\":%u}\n", count, missed);
    else
        printf("%u planted bugs, %u caught, %u missed\n", count, count - missed, missed);
    return missed == 0 ? TN_EXIT_OK : TN_EXIT_UNSAFE;
}

/* --script: the text itself, or - for what comes from standard input. */
static int read_script(const char *word, struct sim_script *ret_script)
{
    static char text[SIM_SCRIPT_MAX + 1];
    char why[TN_CLI_LINE_MAX];
    struct tn_text error;

    tn_text_init(&error, why, sizeof why);
    if (strcmp(word, "-") == 0) {
        size_t len = fread(text, 1, sizeof text - 1, stdin);
        if (ferror(stdin) || strlen(text) != len)
            return tn_cli_fail(TN_EXIT_USAGE, "sim", "--script: standard input is not a text");
        word = text;
    }
    if (sim_script_parse(word, ret_script, &error) != 0)
        return tn_cli_fail(TN_EXIT_USAGE, "sim", "--script: %s", tn_text_str(&error));
    return -1;
}

/* A script that came from standard input cannot be read a second time. */
static int run_script_asked(const struct tn_sim_options *asked, char **argv)
{
    static struct sim_script script;
    int status = read_script(asked->script, &script);

    if (status >= 0)
        return status;
    if (asked->plant != NULL)
        script.plant = sim_plant_find(asked->plant);
    if (sim_plant_set(script.plant))
        return run_script(asked, &script);
    if (strcmp(asked->script, "-") == 0)
        return tn_cli_fail(TN_EXIT_USAGE, "sim",
                           "--script -: a planted bug needs its script as an argument");
    return run_planted(argv);
}

static int run_asked(const struct tn_sim_options *asked, char **argv)
{
    if (asked->script != NULL)
        return run_script_asked(asked, argv);
    bool planted = asked->plants || asked->plant != NULL;
    if (asked->list) {
        tn_sim_list(asked->json);
        return TN_EXIT_OK;
    }
    if (planted && !sim_plant_set(asked->plant != NULL ? sim_plant_find(asked->plant) : 1))
        return run_planted(argv);
    if (asked->plants)
        return run_plants(asked);
    if (asked->fleet.hosts > 0)
        return tn_sim_fleet_run(&asked->fleet, asked->seed_given ? asked->seed : 1, asked->json);
    if (asked->scenario != NULL)
        return run_scenario(asked);
    return asked->seed_given ? run_seed(asked) : run_seeds(asked);
}

static const char about[] =
    "Runs the pure core in a simulated world where clocks drift, messages are lost, late and "
    "doubled,\n"
    "processes pause and crash and the store restarts, and checks every promise at every step.\n";
static const char after[] =
    "Examples:\n"
    "  tenure sim --seeds 10000              ten thousand worlds, on all cores\n"
    "  tenure sim --seed 4711 --trace        one of them, line by line\n"
    "  tenure sim --scenario pause-and-fence   a story: the paused leader's write is refused\n"
    "  tenure sim --script 'nodes=2+9000:crash:a+end=30000'\n"
    "                                        a story of your own; docs/sim.md lists the acts\n"
    "  tenure sim --hosts 2000 --crash-every 100ms\n"
    "                                        what a store sees of them, with agents and without\n"
    "  tenure sim --plants                   plant each known mistake; the checkers must find it\n"
    "  tenure sim --plant no-margin --seeds 100\n"
    "\n"
    "Exit status: 0; 1 a promise was broken, a story did not come true, a planted bug was missed;\n"
    "64 bad input; 69 there is no tenure-planted to run planted bugs with.\n";

/* More than there are options and their values. */
#define WORDS_MOST 48

int tn_cli_sim(int argc, char **argv)
{
    struct tn_sim_options asked = { .seeds = 1000, .from = 1 };
    uint64_t threads = cores();
    enum {
        SEEDS,
        FROM,
        SEED,
        TRACE,
        SCENARIO,
        AS_SCRIPT,
        SCRIPT,
        LIST,
        PLANT,
        PLANTS,
        THREADS,
        JSON,
        FLEET
    };
    struct tn_option options[FLEET + TN_SIM_FLEET_OPTIONS] = {
        [SEEDS] = TN_U64("seeds", 'n', &asked.seeds, 1, 1000000000, "COUNT", "1000",
                         "how many worlds to simulate"),
        [FROM] = TN_U64("from", 0, &asked.from, 1, UINT64_MAX - 1000000000, "SEED", "1",
                        "the first of them"),
        [SEED] = TN_U64("seed", 0, &asked.seed, 1, UINT64_MAX, "SEED", NULL,
                        "simulate this one world; with --hosts: draw from it"),
        [TRACE] = TN_FLAG("trace", 't', &asked.trace, "with --seed: tell all that happens"),
        [SCENARIO] = TN_STRING("scenario", 's', &asked.scenario, "NAME", NULL,
                               "tell this story, with a bar for each TTL"),
        [AS_SCRIPT] = TN_FLAG("as-script", 0, &asked.as_script,
                              "with --scenario: print the story's script, to start from"),
        [SCRIPT] = TN_STRING("script", 0, &asked.script, "TEXT", NULL,
                             "tell what this script does; -: read it from standard input"),
        [LIST] = TN_FLAG("list", 'l', &asked.list, "list the scenarios and the planted bugs"),
        [PLANT] = TN_STRING("plant", 'p', &asked.plant, "NAME", NULL,
                            "simulate code that makes this mistake"),
        [PLANTS] =
            TN_FLAG("plants", 0, &asked.plants, "plant each bug in turn; all must be caught"),
        [THREADS] =
            TN_U64("threads", 0, &threads, 1, 64, "COUNT", "the cores", "how many seeds at a time"),
        [JSON] = TN_FLAG("json", 'j', &asked.json, "print one JSON object"),
    };
    struct tn_command command = TN_COMMAND("sim", NULL, 0, options);
    char *again[WORDS_MOST + 2] = { NULL };

    tn_sim_fleet_options(&asked.fleet, &options[FLEET]);
    /* Kept for tenure-planted: parsing moves the words of argv about. */
    again[0] = argv[0];
    if (argc > WORDS_MOST)
        return tn_cli_fail(TN_EXIT_USAGE, "sim", "too many words; 'tenure sim --help' helps");
    again[1] = argv[0];
    for (int i = 1; i < argc; i++)
        again[i + 1] = argv[i];
    int status = tn_cli_options(&command, argc, argv);
    if (status >= 0)
        return status;
    asked.threads = (uint32_t)threads;
    asked.seeds_given = options[SEEDS].given || options[FROM].given;
    asked.seed_given = options[SEED].given;
    for (int i = FLEET; i < FLEET + TN_SIM_FLEET_OPTIONS; i++)
        asked.fleet_option = options[i].given ? options[i].name : asked.fleet_option;
    status = check_together(&asked);
    if (status < 0 && asked.fleet.hosts > 0)
        status = tn_sim_fleet_check(&asked.fleet);
    return status >= 0 ? status : run_asked(&asked, again);
}
