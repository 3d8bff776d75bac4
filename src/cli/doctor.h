/* doctor.h - what `tenure doctor` found out, for the two ways of printing it. */
#ifndef TN_CLI_DOCTOR_H
#define TN_CLI_DOCTOR_H

#include "cli/store.h"
#include "core/plan.h"

enum { TN_DOCTOR_SAMPLES = 500 };

/* Round trips of one kind, sorted in the end. */
struct tn_doctor_trips {
    tenure_ns spans[TN_DOCTOR_SAMPLES];
    size_t count;
};

struct tn_doctor_report {
    const char *url; /* Without its password. */
    const struct tn_store_ops *ops;
    char server[128];               /* Empty: there is none, or it does not say. */
    char server_why[TN_ERROR_TEXT]; /* Otherwise why it does not, if that is known. */
    char warning[TN_ERROR_TEXT];    /* Empty: none. */
    tenure_ns first;                /* Until the first answer. */
    bool writes;                    /* A session could be opened. */
    char denied[TN_ERROR_TEXT];     /* Otherwise why not. */
    struct tn_doctor_trips reads, renewals;
    bool clocked; /* The next two are known. */
    double rate_ppm, rate_error_ppm;
    char clock_why[TN_ERROR_TEXT]; /* Otherwise why not. */
    tenure_ns ttl_min, ttl_max;    /* As the server agrees to them. */
    struct tn_plan plan;
    struct tn_plan_answer answer;
    enum tn_plan_verdict verdict;
    tenure_ns ttl_least; /* The shortest TTL in whole seconds that is safe; 0: none. */
};

/* The span below which @percent of the trips are; 0 when there are none. */
tenure_ns tn_doctor_percentile(const struct tn_doctor_trips *trips, unsigned percent);

void tn_doctor_print_text(const struct tn_doctor_report *report);
/* The rights that a user needs, where the store says so. */
void tn_doctor_print_rights(const struct tn_doctor_report *report);
void tn_doctor_print_json(const struct tn_doctor_report *report);

#endif
