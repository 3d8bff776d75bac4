/* doctor_show.c - what `tenure doctor` found out, for people and for programs. */
#include <inttypes.h>
#include <string.h>

#include "base/duration.h"
#include "base/time.h"
#include "cli/doctor.h"

static const unsigned percents[] = { 50, 90, 99, 100 };
static const char *const percent_names[] = { "p50", "p90", "p99", "max" };

enum { PERCENTS = sizeof percents / sizeof percents[0] };

static const char *span(char *buf, tenure_ns ns)
{
    tn_duration_format(buf, TN_DURATION_TEXT, ns);
    return buf;
}

static bool is_advisory(const struct tn_doctor_report *report)
{
    return (report->ops->caps & TN_STORE_ADVISORY) != 0;
}

static const char *or_else(const char *text, const char *otherwise)
{
    return text != NULL && text[0] != '\0' ? text : otherwise;
}

static bool takes_scripts(const struct tn_doctor_report *report)
{
    return (report->ops->caps & TN_STORE_BOUND) == 0;
}

/* --- For people ----------------------------------------------------------------------------- */

static void print_trips(const char *label, const struct tn_doctor_trips *trips)
{
    char buf[TN_DURATION_TEXT];

    printf("  %-12s", label);
    for (int i = 0; i < PERCENTS; i++)
        printf("%s %s, ", percent_names[i], span(buf, tn_doctor_percentile(trips, percents[i])));
    printf("%zu samples\n", trips->count);
}

static void print_clock(const struct tn_doctor_report *report)
{
    if (report->clocked)
        printf("  clock rate  %+.0f ppm against ours, give or take %.0f\n", report->rate_ppm,
               report->rate_error_ppm);
    else
        printf("  clock rate  not measured: %s\n", report->clock_why);
    if (report->clocked && report->rate_ppm - report->rate_error_ppm > report->plan.rho_store_ppm)
        printf("%s  warning     %sits clock is faster than --rho allows: leases may end early\n",
               tn_cli_colour(TN_YELLOW), tn_cli_colour(TN_PLAIN));
}

static void print_plan(const struct tn_doctor_report *report)
{
    const struct tn_plan_answer *answer = &report->answer;
    char a[TN_DURATION_TEXT], b[TN_DURATION_TEXT], c[TN_DURATION_TEXT];
    bool safe = report->verdict == TN_PLAN_SAFE;

    printf("\nWith --ttl %s, and the slowest round trip of %s as network bound\n\n",
           tn_cli_duration(a, report->plan.ttl), span(b, report->plan.rtt));
    printf("  deadline    %s after the send of a renewal\n", span(a, answer->valid_for));
    printf("  failures    %" PRId64 " in a row cost no term\n", answer->tolerated);
    printf("  failover    %s at most after a crash, %s after a resign\n",
           span(a, answer->failover_crash_real), span(b, answer->failover_resign));
    if (report->ttl_least > 0)
        printf("  TTL         %s or more is safe here\n", tn_cli_duration(c, report->ttl_least));
    printf("\n%s%s%s", tn_cli_colour(safe ? TN_GREEN : TN_RED), safe ? "safe" : "unsafe",
           tn_cli_colour(TN_PLAIN));
    printf(": 'tenure plan --ttl %s --rtt %s' shows the arithmetic\n",
           tn_cli_duration(a, report->plan.ttl), span(b, report->plan.rtt));
}

void tn_doctor_print_rights(const struct tn_doctor_report *report)
{
    printf("\nThe least rights that are needed:\n\n%s", report->ops->rights);
}

void tn_doctor_print_text(const struct tn_doctor_report *report)
{
    char a[TN_DURATION_TEXT], b[TN_DURATION_TEXT];
    unsigned caps = report->ops->caps;

    printf("%s\n\n", report->url);
    printf("  reachable   yes; the first answer after %s\n", span(a, report->first));
    if (report->server[0] != '\0')
        printf("  server      %s\n", report->server);
    else if (report->server_why[0] != '\0')
        printf("  server      version not known: %s\n", report->server_why);
    printf("  class       %s: %s\n", is_advisory(report) ? "advisory" : "strict",
           or_else(report->ops->class_why, "as the store declares"));
    printf("  may write   %s%s\n", report->writes ? "yes" : "no: ", report->denied);
    print_trips("reads", &report->reads);
    if (report->writes)
        print_trips("renewals", &report->renewals);
    print_clock(report);
    printf("  TTL         %s to %s\n", tn_cli_duration(a, report->ttl_min),
           tn_cli_duration(b, report->ttl_max));
    printf("  waiters     %s, %s\n",
           (caps & TN_STORE_QUEUES) != 0 ? "first come, first served" : "race for a vacancy",
           (caps & TN_STORE_TELLS) != 0 ? "and are told" : "and poll");
    printf("  scripts     %s\n", takes_scripts(report)
                                     ? "acquire, renew and release work"
                                     : "no: a lease ends with the process that took it");
    if (report->warning[0] != '\0')
        printf("%s  warning     %s%s\n", tn_cli_colour(TN_YELLOW), tn_cli_colour(TN_PLAIN),
               report->warning);
    print_plan(report);
    if (report->ops->rights != NULL)
        tn_doctor_print_rights(report);
}

/* --- For programs --------------------------------------------------------------------------- */

static void json_text(const char *name, const char *value)
{
    char buf[2048];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_json_string(&text, value, strlen(value));
    printf("\"%s\":%s,", name, value[0] != '\0' ? buf : "null");
}

static void json_trips(const char *name, const struct tn_doctor_trips *trips)
{
    printf("\"%s\":{\"samples\":%zu", name, trips->count);
    for (int i = 0; i < PERCENTS; i++)
        printf(",\"%s_ns\":%" PRId64, percent_names[i], tn_doctor_percentile(trips, percents[i]));
    printf("},");
}

void tn_doctor_print_json(const struct tn_doctor_report *report)
{
    const struct tn_plan_answer *answer = &report->answer;

    printf("{\"reachable\":true,\"scheme\":\"%s\",\"class\":\"%s\",\"may_write\":%s,",
           report->ops->scheme, is_advisory(report) ? "advisory" : "strict",
           report->writes ? "true" : "false");
    json_text("url", report->url);
    json_text("class_why", or_else(report->ops->class_why, ""));
    if (report->ops->rights != NULL)
        json_text("rights", report->ops->rights);
    json_text("server", report->server);
    json_text("server_why", report->server_why);
    json_text("warning", report->warning);
    json_text("denied", report->denied);
    printf("\"first_answer_ns\":%" PRId64 ",", report->first);
    json_trips("read", &report->reads);
    json_trips("renew", &report->renewals);
    if (report->clocked)
        printf("\"clock\":{\"rate_ppm\":%.1f,\"error_ppm\":%.1f},", report->rate_ppm,
               report->rate_error_ppm);
    else
        printf("\"clock\":null,");
    json_text("clock_why", report->clocked ? "" : report->clock_why);
    printf("\"ttl_min_ns\":%" PRId64 ",\"ttl_max_ns\":%" PRId64 ",", report->ttl_min,
           report->ttl_max);
    printf("\"queues\":%s,\"tells\":%s,\"scripts\":%s,",
           (report->ops->caps & TN_STORE_QUEUES) != 0 ? "true" : "false",
           (report->ops->caps & TN_STORE_TELLS) != 0 ? "true" : "false",
           takes_scripts(report) ? "true" : "false");
    printf("\"plan\":{\"safe\":%s,\"ttl_ns\":%" PRId64 ",\"rtt_ns\":%" PRId64
           ",\"valid_for_ns\":%" PRId64 ",\"tolerated\":%" PRId64 ",\"failover_crash_ns\":%" PRId64
           ",\"failover_resign_ns\":%" PRId64 ",\"ttl_least_ns\":%" PRId64 "}}\n",
           report->verdict == TN_PLAN_SAFE ? "true" : "false", report->plan.ttl, report->plan.rtt,
           answer->valid_for, answer->tolerated, answer->failover_crash_real,
           answer->failover_resign, report->ttl_least);
}
