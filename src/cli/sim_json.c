/* sim_json.c - the results of `tenure sim --json`: one object on one line. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/sim.h"

static void print_string(const char *name, const char *value)
{
    char buf[600];
    struct tn_text text;
    tn_text_init(&text, buf, sizeof buf);
    tn_json_string(&text, value, strlen(value));
    printf("\"%s\":%s", name, tn_text_str(&text));
}

/* Fault names as keys: lower case, as in SIM_FAULTS. */
static void print_faults(const struct sim_stats *stats)
{
#define KEY(symbol, text) #symbol,
    static const char *const keys[] = { SIM_FAULTS(KEY) };
#undef KEY
    printf("\"faults\":{");
    for (uint32_t i = 0; i < SIM_FAULT_COUNT; i++) {
        printf("%s\"", i > 0 ? "," : "");
        for (const char *c = keys[i]; *c != '\0'; c++)
            (void)putchar(tolower((unsigned char)*c));
        printf("\":%" PRIu64, stats->faults[i]);
    }
    printf("}");
}

static void print_stats(const struct sim_stats *stats)
{
    printf("\"events\":%" PRIu64 ",\"terms\":%" PRIu64 ",\"losses\":%" PRIu64
           ",\"refusals\":%" PRIu64 ",\"writes\":%" PRIu64 ",\"refused_writes\":%" PRIu64
           ",\"harm\":%" PRIu64 ",\"lease_years\":%.6f,",
           stats->events, stats->terms, stats->losses, stats->refusals, stats->writes,
           stats->refused_writes, stats->harm, (double)stats->lease_us / 1e6 / (365.25 * 86400));
    print_faults(stats);
}

static void print_violation(const struct sim_violation *violation, const char *replay)
{
    printf(",\"violation\":");
    if (violation->promise == NULL) {
        printf("null");
        return;
    }
    printf("{");
    print_string("promise", violation->promise);
    printf(",");
    print_string("text", violation->text);
    if (replay != NULL) {
        printf(",");
        print_string("replay", replay);
    }
    printf("}");
}

void tn_sim_json_totals(const struct tn_sim_options *asked, const struct sim_totals *totals)
{
    char replay[120];
    tn_sim_replay(asked, totals->first_seed, replay, sizeof replay);
    printf("{\"seeds\":%" PRIu64 ",\"from\":%" PRIu64 ",\"seconds\":%.3f,\"threads\":%u,",
           totals->seeds, asked->from, totals->seconds, asked->threads);
    printf("\"events_per_second\":%.0f,",
           totals->seconds > 0 ? (double)totals->stats.events / totals->seconds : 0);
    print_stats(&totals->stats);
    printf(",\"violations\":%" PRIu64 ",\"first_seed\":%" PRIu64, totals->violations,
           totals->first_seed);
    print_violation(&totals->first, replay);
    printf("}\n");
}

void tn_sim_json_seed(const struct tn_sim_options *asked, const struct sim_world *world)
{
    char replay[120];
    tn_sim_replay(asked, asked->seed, replay, sizeof replay);
    printf("{\"seed\":%" PRIu64 ",", asked->seed);
    print_stats(&world->stats);
    print_violation(&world->violation, replay);
    printf("}\n");
}

void tn_sim_json_scenario(const struct sim_scenario *scenario, const struct sim_world *world,
                          bool came_true)
{
    char replay[120];
    (void)snprintf(replay, sizeof replay, "tenure sim --scenario %s", scenario->name);
    printf("{\"scenario\":\"%s\",\"came_true\":%s,", scenario->name, came_true ? "true" : "false");
    print_stats(&world->stats);
    print_violation(&world->violation, replay);
    printf("}\n");
}

void tn_sim_json_script(const struct sim_world *world)
{
    printf("{\"gap_us\":%" PRId64 ",\"clock_out_of_bounds\":%s,",
           (int64_t)(world->gap_most[0] / 1000), world->clock_out_of_bounds ? "true" : "false");
    print_stats(&world->stats);
    print_violation(&world->violation, NULL);
    printf("}\n");
}

void tn_sim_json_plant(const struct sim_plant *plant, const struct sim_totals *totals, bool first)
{
    bool caught = totals->violations > 0;
    printf("%s{\"name\":\"%s\",\"promise\":\"%s\",\"caught\":%s,\"seed\":%" PRIu64 ",",
           first ? "{\"plants\":[" : ",", plant->name, plant->promise, caught ? "true" : "false",
           totals->first_seed);
    print_string("wrong", plant->wrong);
    printf("}");
}
