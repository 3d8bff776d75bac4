/* plan.h - what `tenure plan` found out, for the two ways of printing it. */
#ifndef TN_CLI_PLAN_H
#define TN_CLI_PLAN_H

#include "base/duration.h"
#include "cli/cli.h"
#include "core/plan.h"
#include "runtime/store.h"

/* One change that makes an unsafe plan safe, ready to be typed. */
struct tn_plan_change {
    const char *option;
    char value[TN_DURATION_TEXT];
    char present[TN_DURATION_TEXT];
    bool choice; /* Free to choose; otherwise a claim about clocks, network or machines. */
    double by;   /* The share of the present value that has to change. */
};

struct tn_plan_report {
    struct tn_plan plan;
    struct tn_plan_answer answer;
    enum tn_plan_verdict verdict;
    uint64_t processes;
    uint64_t leases;                   /* Of each process. */
    uint64_t hosts;                    /* Each with an agent; 0: without. */
    tenure_ns soft;                    /* 0: no soft limit. */
    const struct tn_store_ops *engine; /* NULL: none was named. */

    /* Best first: choices before claims, then the smaller change. */
    struct tn_plan_change changes[TN_KNOB_COUNT];
    size_t change_count;
};

/* A rate as it is typed: "0.1", "0.000001", "0". @buf holds TN_DURATION_TEXT bytes. */
const char *tn_plan_rate(char *buf, int64_t ppm);

/* Renewals per second on the store. */
double tn_plan_load(uint64_t sessions, tenure_ns renew_every);

/* "0.200/s", "20000/s": decimals where they matter. @buf holds TN_LOAD_TEXT bytes. */
enum { TN_LOAD_TEXT = 48 };
const char *tn_plan_load_text(char *buf, double load);

/* The same with an agent of the default TTL on each host. */
double tn_plan_agents_load(uint64_t hosts);

void tn_plan_print_text(const struct tn_plan_report *report);
void tn_plan_print_json(const struct tn_plan_report *report);

/* What to do about many processes or many renewals; prints nothing when there are few. */
void tn_plan_print_advice(const struct tn_plan_report *report);

#endif
