/* sim_text.c - the results of `tenure sim`, for people. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/sim.h"

/* 12345678 as 12,345,678. */
static const char *grouped(char buf[32], uint64_t number)
{
    char digits[24];
    int count = snprintf(digits, sizeof digits, "%" PRIu64, number);
    char *out = buf;
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = '\0';
    return buf;
}

void tn_sim_replay(const struct tn_sim_options *asked, uint64_t seed, char *buf, size_t size)
{
    (void)snprintf(buf, size, "tenure sim%s%s --seed %" PRIu64 " --trace",
                   asked->plant != NULL ? " --plant " : "",
                   asked->plant != NULL ? asked->plant : "", seed);
}

static void tell_violation(const struct tn_sim_options *asked,
                           const struct sim_violation *violation, uint64_t seed)
{
    char replay[120];
    tn_sim_replay(asked, seed, replay, sizeof replay);
    printf("%s%s is broken%s in seed %" PRIu64 ": %s\nsee it again with: %s\n",
           tn_cli_colour(TN_RED), violation->promise, tn_cli_colour(TN_PLAIN), seed,
           violation->text, replay);
}

static void tell_faults(const struct sim_stats *stats)
{
    uint32_t fired = 0;
    char buf[32];
    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++)
        fired += stats->faults[i] > 0;
    printf("\n%u of %u kinds of fault fired:\n", fired, SIM_FAULT_COUNT);
    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++)
        printf("  %14s  %s\n", grouped(buf, stats->faults[i]), sim_fault_text((enum sim_fault)i));
}

void tn_sim_text_totals(const struct tn_sim_options *asked, const struct sim_totals *totals)
{
    const struct sim_stats *stats = &totals->stats;
    double rate = totals->seconds > 0 ? (double)stats->events / totals->seconds : 0;
    char seeds[32], events[32], terms[32], losses[32], writes[32], refused[32], harm[32];

    printf("%s seeds, %s events in %.1f s: %.2f million events a second on %u thread%s\n",
           grouped(seeds, totals->seeds), grouped(events, stats->events), totals->seconds,
           rate / 1e6, asked->threads, asked->threads == 1 ? "" : "s");
    printf("%.3f lease-years: %s terms, %s of them lost or handed over\n",
           (double)stats->lease_us / 1e6 / (365.25 * 86400), grouped(terms, stats->terms),
           grouped(losses, stats->losses));
    printf("%s writes; fences refused %s, receivers without a fence were harmed by %s\n",
           grouped(writes, stats->writes), grouped(refused, stats->refused_writes),
           grouped(harm, stats->harm));
    tell_faults(stats);
    printf("\n");
    if (totals->violations > 0)
        tell_violation(asked, &totals->first, totals->first_seed);
    else if (asked->plant != NULL)
        printf("%snot caught%s: the planted bug broke no promise that it should break\n",
               tn_cli_colour(TN_RED), tn_cli_colour(TN_PLAIN));
    if (totals->violations > 0 || asked->plant != NULL)
        printf("%" PRIu64 " violations\n", totals->violations);
    else
        printf("%sno promise was broken%s: 0 violations\n", tn_cli_colour(TN_GREEN),
               tn_cli_colour(TN_PLAIN));
}

void tn_sim_text_seed(const struct tn_sim_options *asked, const struct sim_world *world)
{
    printf("seed %" PRIu64 ": %" PRIu64 " events, %" PRIu64 " terms, %" PRIu64 " refused writes\n",
           asked->seed, world->stats.events, world->stats.terms, world->stats.refused_writes);
    if (world->violation.promise != NULL)
        tell_violation(asked, &world->violation, asked->seed);
    else
        printf("no promise was broken\n");
}

void tn_sim_text_scenario(const struct sim_scenario *scenario, const struct sim_world *world,
                          bool came_true)
{
    printf("\n");
    if (world->violation.promise != NULL)
        printf("%s%s is broken%s: %s\nsee it again with: tenure sim --scenario %s\n",
               tn_cli_colour(TN_RED), world->violation.promise, tn_cli_colour(TN_PLAIN),
               world->violation.text, scenario->name);
    else if (came_true)
        printf("%s\n", scenario->moral);
    else
        printf("%sThe story did not come true.%s\n", tn_cli_colour(TN_RED),
               tn_cli_colour(TN_PLAIN));
}

void tn_sim_text_plant(const struct sim_plant *plant, const struct sim_totals *totals)
{
    bool caught = totals->violations > 0;
    char seed[32] = "";
    if (caught)
        (void)snprintf(seed, sizeof seed, "seed %" PRIu64, totals->first_seed);
    printf("%s%-6s%s  %-22s %-4s %-10s %s\n", tn_cli_colour(caught ? TN_GREEN : TN_RED),
           caught ? "caught" : "MISSED", tn_cli_colour(TN_PLAIN), plant->name, plant->promise, seed,
           caught ? totals->first.text : plant->wrong);
}

static void list_json(void)
{
    printf("{\"scenarios\":[");
    for (uint32_t i = 0; sim_scenario_at(i) != NULL; i++)
        printf("%s\"%s\"", i > 0 ? "," : "", sim_scenario_at(i)->name);
    printf("],\"plants\":[");
    for (uint32_t i = 1; sim_plant_at(i) != NULL; i++)
        printf("%s\"%s\"", i > 1 ? "," : "", sim_plant_at(i)->name);
    printf("]}\n");
}

void tn_sim_list(bool json)
{
    if (json) {
        list_json();
        return;
    }
    printf("Scenarios (--scenario NAME):\n");
    for (uint32_t i = 0; sim_scenario_at(i) != NULL; i++)
        printf("  %-16s %s\n", sim_scenario_at(i)->name, sim_scenario_at(i)->title);
    printf("\nPlanted bugs (--plant NAME), with the promise that each one breaks:\n");
    for (uint32_t i = 1; sim_plant_at(i) != NULL; i++)
        printf("  %-22s %-3s %s\n", sim_plant_at(i)->name, sim_plant_at(i)->promise,
               sim_plant_at(i)->wrong);
}
