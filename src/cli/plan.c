/* plan.c - `tenure plan`: are these numbers safe, what do they promise, what do they cost?
 *
 * Happy path: read the options, turn the knobs that were given, judge, print. Bad input is refused
 * with one line (exit 64) before anything is printed; numbers that break P1 or P8 are a finding
 * (exit 1), printed with the arithmetic and the changes that mend it. */
#include "cli/plan.h"

#include <inttypes.h>
#include <string.h>

#include "base/url.h"
#include "cli/store.h"
#include "core/agent.h"
#include "runtime/entry.h"
#include "stores/registry.h"

#define SPAN_MAX TN_TTL_MAX
#define COUNT_MAX UINT64_C(1000000000)

static const char about[] =
    "Checks the numbers of a lease: whether two leaders can never overlap (P1), whether a\n"
    "lost renewal costs no term (P8), how long a failover takes (P7), and what the store\n"
    "has to bear. What is not given follows from the TTL.\n";

static const char after[] =
    "Examples:\n"
    "  tenure plan --ttl 30s --grace 10s        slower failover, more time to stop\n"
    "  tenure plan --ttl 5s --pause 1s          does a 1s stop of the process cost the term?\n"
    "  tenure plan --processes 100000           what 100,000 processes ask of the store\n"
    "  tenure plan --processes 100000 --hosts 2000   and with an agent on each host\n"
    "  tenure plan --store consul://host/prod   with what Consul adds to a failover\n"
    "  tenure plan --ttl 15s --json             the same for a program\n"
    "\n"
    "Exit status: 0 safe, 1 unsafe, 64 bad usage, 74 output not written.\n";

/* What the command line said. */
struct arguments {
    tenure_ns spans[TN_KNOB_COUNT];
    bool given[TN_KNOB_COUNT];
    uint32_t rho_ppm;
    uint64_t processes;
    uint64_t leases;
    uint64_t hosts;
    const char *url; /* NULL: of no engine in particular. */
    tenure_ns hold_off;
    tenure_ns soft;
    bool json;
};

static const char *const knob_options[TN_KNOB_COUNT] = {
    [TN_KNOB_TTL] = "--ttl",       [TN_KNOB_RENEW] = "--renew", [TN_KNOB_GRACE] = "--grace",
    [TN_KNOB_PAUSE] = "--pause",   [TN_KNOB_RTT] = "--rtt",     [TN_KNOB_RHO] = "--rho",
    [TN_KNOB_MARGIN] = "--margin",
};

/* Returns -1 to go on, or the exit status. */
static int read_arguments(struct arguments *args, int argc, char **argv)
{
    tenure_ns *spans = args->spans;
    /* The knobs come first, in the order of enum tn_plan_knob. */
    struct tn_option options[] = {
        TN_DURATION("ttl", 0, &spans[TN_KNOB_TTL], TN_TTL_MIN, TN_TTL_MAX, "15s",
                    "how long the store keeps a silent session"),
        TN_DURATION("renew", 0, &spans[TN_KNOB_RENEW], 1, SPAN_MAX, "TTL/3",
                    "time between two renewals, below the TTL"),
        TN_DURATION("grace", 0, &spans[TN_KNOB_GRACE], 0, SPAN_MAX, "TTL/5, at most 5s",
                    "time to stop, from SIGTERM to SIGKILL"),
        TN_DURATION("pause", 0, &spans[TN_KNOB_PAUSE], 0, SPAN_MAX, "100ms",
                    "a stop of the process that must not cost the term"),
        TN_DURATION("rtt", 0, &spans[TN_KNOB_RTT], 0, SPAN_MAX, "100ms",
                    "network bound: request, store and reply together"),
        TN_RATE("rho", 0, &args->rho_ppm, "0.1", "clock-rate bound: how wrong a clock may run"),
        TN_DURATION("margin", 0, &spans[TN_KNOB_MARGIN], 0, SPAN_MAX, "the least that P1 allows",
                    "safety margin: TTL less deadline"),
        TN_DURATION("hold-off", 0, &args->hold_off, 0, TN_TTL_MAX, "0s",
                    "least time between a lost term and the next"),
        TN_DURATION("soft-limit", 0, &args->soft, 1, TN_TTL_MAX, "none",
                    "silence after which a candidate with the same fence may lead"),
        TN_U64("processes", 0, &args->processes, 1, COUNT_MAX, "COUNT", "1",
               "processes that use the store"),
        TN_U64("leases", 0, &args->leases, 1, COUNT_MAX, "COUNT", "1", "leases per process"),
        TN_U64("hosts", 0, &args->hosts, 1, COUNT_MAX, "COUNT", "none",
               "hosts that they are on, with an agent each"),
        TN_STRING("store", 's', &args->url, "URL", "none", "an engine's own delays; not asked"),
        TN_FLAG("json", 0, &args->json, "print one JSON object on one line"),
    };
    struct tn_command command = TN_COMMAND("plan", NULL, 0, options);

    int status = tn_cli_options(&command, argc, argv);
    if (status >= 0)
        return status;
    for (size_t knob = 0; knob < TN_KNOB_COUNT; knob++)
        args->given[knob] = options[knob].given;
    if (args->given[TN_KNOB_RENEW] && spans[TN_KNOB_RENEW] >= spans[TN_KNOB_TTL]) {
        char renew[TN_DURATION_TEXT];
        char ttl[TN_DURATION_TEXT];
        return tn_cli_fail(TN_EXIT_USAGE, "plan",
                           "--renew: %s is not below the TTL of %s; give less, or a longer --ttl",
                           tn_cli_duration(renew, spans[TN_KNOB_RENEW]),
                           tn_cli_duration(ttl, spans[TN_KNOB_TTL]));
    }
    return -1;
}

const char *tn_plan_rate(char *buf, int64_t ppm)
{
    int len = snprintf(buf, TN_DURATION_TEXT, "0.%06" PRId64, ppm);

    /* All decimals may go, and then the point with them. */
    while (buf[len - 1] == '0' && len > 2)
        len--;
    if (buf[len - 1] == '.')
        len--;
    buf[len] = '\0';
    return buf;
}

static void format_knob(char *buf, enum tn_plan_knob knob, int64_t value)
{
    if (knob == TN_KNOB_RHO)
        tn_plan_rate(buf, value);
    else
        tn_cli_duration(buf, value);
}

static bool is_better(const struct tn_plan_change *a, const struct tn_plan_change *b)
{
    if (a->choice != b->choice)
        return a->choice;
    return a->by < b->by;
}

/* Every single change that helps, sorted. Clocks, network and pauses are what they are: a smaller
 * number for them is an answer only if it is true, so they come after what can be chosen. */
static void find_changes(struct tn_plan_report *report)
{
    for (enum tn_plan_knob knob = 0; knob < TN_KNOB_COUNT; knob++) {
        int64_t present = tn_plan_knob(&report->plan, knob);
        int64_t value;

        /* Without an insisted margin there is none to change: D is as long as P1 allows. */
        if (knob == TN_KNOB_MARGIN && report->plan.margin < 0)
            continue;
        if (!tn_plan_mend(&report->plan, knob, &value))
            continue;
        struct tn_plan_change change = {
            .option = knob_options[knob],
            .choice = knob != TN_KNOB_PAUSE && knob != TN_KNOB_RTT && knob != TN_KNOB_RHO,
            .by = ((double)value - (double)present) / (double)(present > 0 ? present : 1),
        };
        change.by = change.by < 0 ? -change.by : change.by;
        format_knob(change.value, knob, value);
        format_knob(change.present, knob, present);

        size_t at = report->change_count++;
        for (; at > 0 && is_better(&change, &report->changes[at - 1]); at--)
            report->changes[at] = report->changes[at - 1];
        report->changes[at] = change;
    }
}

double tn_plan_load(uint64_t sessions, tenure_ns renew_every)
{
    return (double)sessions * 1e9 / (double)renew_every;
}

double tn_plan_agents_load(uint64_t hosts)
{
    struct tn_plan agent;

    tn_plan_init(&agent, TN_AGENT_TTL);
    return tn_plan_load(hosts, agent.renew_every);
}

const char *tn_plan_load_text(char *buf, double load)
{
    (void)snprintf(buf, TN_LOAD_TEXT, load < 100 ? "%.3f/s" : "%.0f/s", load);
    return buf;
}

/* The engine's own numbers; nothing is asked of a server. Returns -1 to go on. */
static int add_engine(struct tn_plan_report *report, const char *url)
{
    char text[TN_CLI_LINE_MAX];
    const char *rest;
    struct tn_text error;

    if (url == NULL)
        return -1;
    tn_text_init(&error, text, sizeof text);
    int rc = tn_store_find(url, &report->engine, &rest, &error);
    if (rc < 0)
        return tn_cli_store_fail("plan", rc, text);
    tn_cli_plan_store(&report->plan, report->engine);
    return -1;
}

static int check_soft(const struct tn_plan_report *report)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    if (report->engine != NULL && (report->engine->caps & TN_STORE_SOFT) == 0)
        return tn_cli_fail(TN_EXIT_USAGE, "plan", "--soft-limit: %s: " TN_ENTRY_NO_SOFT,
                           report->engine->scheme);
    if (tn_entry_soft(&report->plan, report->soft, &text) < 0)
        return tn_cli_fail(TN_EXIT_USAGE, "plan", "--soft-limit: %s", buf);
    return -1;
}

int tn_cli_plan(int argc, char **argv)
{
    struct arguments args = { .processes = 1, .leases = 1 };
    struct tn_plan_report report = { 0 };

    args.spans[TN_KNOB_TTL] = TN_SEC(15);
    int status = read_arguments(&args, argc, argv);
    if (status >= 0)
        return status;

    tn_plan_init(&report.plan, args.spans[TN_KNOB_TTL]);
    for (enum tn_plan_knob knob = 0; knob < TN_KNOB_COUNT; knob++) {
        if (args.given[knob])
            tn_plan_turn(&report.plan, knob,
                         knob == TN_KNOB_RHO ? (int64_t)args.rho_ppm : args.spans[knob]);
    }
    report.plan.hold_off = args.hold_off;
    report.soft = args.soft;
    status = add_engine(&report, args.url);
    if (status < 0 && args.soft > 0)
        status = check_soft(&report);
    if (status >= 0)
        return status;
    report.processes = args.processes;
    report.leases = args.leases;
    report.hosts = args.hosts;
    report.verdict = tn_plan_judge(&report.plan, &report.answer);
    if (report.verdict != TN_PLAN_SAFE)
        find_changes(&report);

    if (args.json)
        tn_plan_print_json(&report);
    else
        tn_plan_print_text(&report);
    return report.verdict == TN_PLAN_SAFE ? TN_EXIT_OK : TN_EXIT_UNSAFE;
}
