/* sim_fleet.c - `tenure sim --hosts`: what a store sees of thousands of hosts, with an agent on
 * each and without, counted in a simulation (sim/fleet.h).
 *
 * The same seed prints the same bytes, so no real time is shown. */
#include <inttypes.h>
#include <stdio.h>

#include "base/duration.h"
#include "cli/cli.h"
#include "cli/sim.h"

#define HOSTS_MOST 100000

struct column {
    bool agents;
    const char *key;
    struct sim_fleet_result result;
};

void tn_sim_fleet_options(struct tn_sim_fleet *fleet, struct tn_option ret_list[])
{
    *fleet = (struct tn_sim_fleet) { .processes = 10,
                                     .ttl = TN_SEC(15),
                                     .upstream_ttl = TN_AGENT_TTL,
                                     .rtt = TN_MS(2),
                                     .span = TN_SEC(60) };
    ret_list[TN_SIM_HOSTS] = (struct tn_option)TN_U64(
        "hosts", 0, &fleet->hosts, 1, HOSTS_MOST, "COUNT", NULL,
        "count what a store sees of so many hosts, with agents and without");
    ret_list[TN_SIM_PROCESSES] = (struct tn_option)TN_U64(
        "processes", 0, &fleet->processes, 1, SIM_FLEET_MOST, "COUNT", "10", "on each host");
    ret_list[TN_SIM_CANDIDATES] =
        (struct tn_option)TN_U64("candidates", 0, &fleet->candidates, 1, HOSTS_MOST, "COUNT",
                                 "2, with one host 1", "processes that want the same name");
    ret_list[TN_SIM_TTL] = (struct tn_option)TN_DURATION("ttl", 0, &fleet->ttl, TN_TTL_MIN,
                                                         TN_TTL_MAX, "15s", "of a process");
    ret_list[TN_SIM_UPSTREAM_TTL] = (struct tn_option)TN_DURATION(
        "upstream-ttl", 0, &fleet->upstream_ttl, TN_TTL_MIN, TN_TTL_MAX, "30s", "of an agent");
    ret_list[TN_SIM_RTT] = (struct tn_option)TN_DURATION("rtt", 0, &fleet->rtt, TN_MS(1), TN_SEC(1),
                                                         "2ms", "a round trip to the store");
    ret_list[TN_SIM_SPAN] =
        (struct tn_option)TN_DURATION("for", 0, &fleet->span, TN_SEC(1), TN_SEC(24 * 3600), "60s",
                                      "count for so long, once every name is led");
    ret_list[TN_SIM_CRASH] = (struct tn_option)TN_DURATION(
        "crash-every", 0, &fleet->crash_every, TN_MS(1), TN_SEC(24 * 3600), "never",
        "kill a process of any host; it is started again after 5s");
}

/* --- Checking what was asked ------------------------------------------------------------------ */

static int check_plan(const char *option, tenure_ns ttl, tenure_ns rtt)
{
    struct tn_plan_answer answer;
    struct tn_plan plan;

    sim_fleet_plan(ttl, rtt, &plan);
    if (tn_plan_judge(&plan, &answer) == TN_PLAN_SAFE)
        return -1;
    return tn_cli_fail(TN_EXIT_USAGE, "sim",
                       "%s is too short for that --rtt; 'tenure plan' says what would do", option);
}

int tn_sim_fleet_check(struct tn_sim_fleet *fleet)
{
    if (fleet->candidates == 0)
        fleet->candidates = fleet->hosts > 1 ? 2 : 1;
    if (fleet->processes > SIM_FLEET_MOST / fleet->hosts)
        return tn_cli_fail(TN_EXIT_USAGE, "sim", "--hosts times --processes: at most %d",
                           SIM_FLEET_MOST);
    if (fleet->candidates > fleet->hosts)
        return tn_cli_fail(TN_EXIT_USAGE, "sim", "--candidates: at most one on each of the hosts");
    int status = check_plan("--ttl", fleet->ttl, fleet->rtt);
    return status >= 0 ? status : check_plan("--upstream-ttl", fleet->upstream_ttl, fleet->rtt);
}

/* --- For people ------------------------------------------------------------------------------- */

static double per_second(uint64_t count, const struct sim_fleet_load *load)
{
    return load->span > 0 ? (double)count * 1e9 / (double)load->span : 0;
}

static void print_counts(const char *what, uint64_t alone, uint64_t agents)
{
    printf("  %-30s %14" PRIu64 " %14" PRIu64 "\n", what, alone, agents);
}

static void print_rates(const char *what, const struct sim_fleet_load *alone, uint64_t alone_count,
                        const struct sim_fleet_load *agents, uint64_t agents_count)
{
    printf("  %-30s %12.2f/s %12.2f/s\n", what, per_second(alone_count, alone),
           per_second(agents_count, agents));
}

static void print_spans(const char *what, tenure_ns alone, tenure_ns agents)
{
    char text[2][TN_DURATION_TEXT];

    printf("  %-30s %14s %14s\n", what, tn_cli_span(text[0], alone), tn_cli_span(text[1], agents));
}

static void print_load(const struct sim_fleet_load *alone, const struct sim_fleet_load *agents)
{
    print_rates("requests", alone, sim_fleet_requests(alone), agents, sim_fleet_requests(agents));
    print_rates("  renewals", alone, alone->renewals, agents, agents->renewals);
    print_rates("  sessions opened", alone, alone->opens, agents, agents->opens);
    print_rates("  campaigns", alone, alone->acquires, agents, agents->acquires);
    print_rates("  releases", alone, alone->releases, agents, agents->releases);
    print_rates("grants pushed", alone, alone->pushes, agents, agents->pushes);
    print_counts("requests in one second, at most", alone->most, agents->most);
}

static void print_failovers(const struct sim_fleet_result *alone,
                            const struct sim_fleet_result *agents)
{
    printf("\n");
    print_counts("processes killed", alone->crashes, agents->crashes);
    print_counts("  of these led", alone->failovers, agents->failovers);
    if (alone->failovers == 0 || agents->failovers == 0)
        return;
    print_spans("the name is led again, median", alone->failover_median, agents->failover_median);
    print_spans("  99 of 100 within", alone->failover_p99, agents->failover_p99);
    print_spans("  longest", alone->failover_most, agents->failover_most);
}

static void print_columns(const struct tn_sim_fleet *fleet, const struct sim_fleet_result *alone,
                          const struct sim_fleet_result *agents)
{
    char text[3][TN_DURATION_TEXT];

    printf("%" PRIu64 " hosts with %" PRIu64 " processes each, %u names; TTL %s, of an agent %s\n",
           fleet->hosts, fleet->processes, alone->names, tn_cli_duration(text[0], fleet->ttl),
           tn_cli_duration(text[1], fleet->upstream_ttl));
    printf("\n%s%-32s %14s %14s%s\n", tn_cli_colour(TN_BOLD), "What the store sees", "no agents",
           "an agent each", tn_cli_colour(TN_PLAIN));
    print_counts("sessions", alone->sessions, agents->sessions);
    print_spans("every name is led after", alone->led_after, agents->led_after);
    print_counts("  requests until then", sim_fleet_requests(&alone->start),
                 sim_fleet_requests(&agents->start));
    print_counts("  in one second, at most", alone->start.most, agents->start.most);
    printf("\nThen, in %s:\n", tn_cli_span(text[2], fleet->span));
    print_load(&alone->store, &agents->store);
    print_rates("requests to agents", &alone->local, 0, &agents->local,
                sim_fleet_requests(&agents->local));
    if (fleet->crash_every > 0)
        print_failovers(alone, agents);
    printf("\n%" PRIu64 " and %" PRIu64 " terms lost by processes that nobody killed\n",
           alone->lost, agents->lost);
}

/* --- For scripts ------------------------------------------------------------------------------ */

static void print_load_json(const char *key, const struct sim_fleet_load *load)
{
    printf(",\"%s\":{\"span_ns\":%lld,\"requests\":%" PRIu64 ",\"requests_per_s\":%.3f"
           ",\"renewals\":%" PRIu64 ",\"opens\":%" PRIu64 ",\"campaigns\":%" PRIu64
           ",\"releases\":%" PRIu64 ",\"others\":%" PRIu64 ",\"pushes\":%" PRIu64
           ",\"most_in_a_second\":%" PRIu64 "}",
           key, (long long)load->span, sim_fleet_requests(load),
           per_second(sim_fleet_requests(load), load), load->renewals, load->opens, load->acquires,
           load->releases, load->others, load->pushes, load->most);
}

static void print_result_json(const struct column *column)
{
    const struct sim_fleet_result *result = &column->result;

    printf(",\"%s\":{\"sessions\":%u,\"led_after_ns\":%lld", column->key, result->sessions,
           (long long)result->led_after);
    print_load_json("start", &result->start);
    print_load_json("store", &result->store);
    if (column->agents)
        print_load_json("local", &result->local);
    printf(",\"crashes\":%" PRIu64 ",\"failovers\":%" PRIu64 ",\"failover_median_ns\":%lld"
           ",\"failover_p99_ns\":%lld,\"failover_most_ns\":%lld,\"lost\":%" PRIu64
           ",\"events\":%" PRIu64 ",\"broken\":",
           result->crashes, result->failovers, (long long)result->failover_median,
           (long long)result->failover_p99, (long long)result->failover_most, result->lost,
           result->events);
    if (result->promise != NULL)
        printf("\"%s\"}", result->promise);
    else
        printf("null}");
}

static void print_json(const struct tn_sim_fleet *fleet, uint64_t seed,
                       const struct column columns[2])
{
    printf("{\"seed\":%" PRIu64 ",\"hosts\":%" PRIu64 ",\"processes\":%" PRIu64
           ",\"candidates\":%" PRIu64 ",\"names\":%u,\"ttl_ns\":%lld,\"upstream_ttl_ns\":%lld"
           ",\"rtt_ns\":%lld,\"crash_every_ns\":%lld",
           seed, fleet->hosts, fleet->processes, fleet->candidates, columns[0].result.names,
           (long long)fleet->ttl, (long long)fleet->upstream_ttl, (long long)fleet->rtt,
           (long long)fleet->crash_every);
    print_result_json(&columns[0]);
    print_result_json(&columns[1]);
    printf("}\n");
}

/* --- Running it ------------------------------------------------------------------------------- */

int tn_sim_fleet_run(const struct tn_sim_fleet *fleet, uint64_t seed, bool json)
{
    struct column columns[] = { { .agents = false, .key = "alone" },
                                { .agents = true, .key = "agents" } };
    int status = TN_EXIT_OK;

    for (int i = 0; i < 2; i++) {
        struct sim_fleet_config config = { .hosts = (uint32_t)fleet->hosts,
                                           .processes = (uint32_t)fleet->processes,
                                           .candidates = (uint32_t)fleet->candidates,
                                           .agents = columns[i].agents,
                                           .ttl = fleet->ttl,
                                           .upstream_ttl = fleet->upstream_ttl,
                                           .rtt = fleet->rtt,
                                           .span = fleet->span,
                                           .crash_every = fleet->crash_every,
                                           .seed = seed };
        if (!sim_fleet_run(&config, &columns[i].result))
            return tn_cli_fail(TN_EXIT_UNAVAILABLE, "sim", "not enough memory for that many hosts");
        if (columns[i].result.promise != NULL)
            status = TN_EXIT_UNSAFE;
    }
    if (json) {
        print_json(fleet, seed, columns);
        return status;
    }
    print_columns(fleet, &columns[0].result, &columns[1].result);
    for (int i = 0; i < 2; i++)
        if (columns[i].result.promise != NULL)
            printf("%s%s is broken%s, %s agents: %s\n", tn_cli_colour(TN_RED),
                   columns[i].result.promise, tn_cli_colour(TN_PLAIN),
                   columns[i].agents ? "with" : "without", columns[i].result.broken);
    if (status == TN_EXIT_OK)
        printf("%sno promise was broken%s\n", tn_cli_colour(TN_GREEN), tn_cli_colour(TN_PLAIN));
    return status;
}
