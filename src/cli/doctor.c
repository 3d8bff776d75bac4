/* doctor.c - `tenure doctor [URL]`: what a store is, what it can, how fast and how honest it is.
 *
 * Happy path: read once (is it there?), open a session (may we write?), then read and renew in turn
 * for a while, with the server's clock at both ends of it where the engine tells one; from the
 * slowest round trip follow the numbers of `tenure plan`. Where only a lease causes writes, the
 * probe's name is taken and given back; nothing else is, and the sessions are closed.
 * What can fail: the store cannot be reached (69), or not be used (77), and then one line says so.
 * Unsafe numbers are a finding (1). */
#define _GNU_SOURCE
#include "cli/doctor.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/time.h"
#include "base/url.h"
#include "runtime/random.h"
#include "stores/registry.h"

#define PROBE "tenure-doctor/probe"
#define FOR_MAX TN_SEC(600)
#define PROBE_TTL TN_SEC(10)
#define PROBE_ASK TN_MS(500)      /* Somebody else holds it: ask again. */
#define PACE_OF_WRITES TN_MS(100) /* Where each is paid for, or counted against a quota. */

static const char about[] =
    "Measures a store: whether it can be reached and written to, the server's version and its "
    "known\n"
    "faults, round trips, the rate of its clock against ours, the TTLs that it grants, its class,\n"
    "and the numbers of 'tenure plan' that follow. It takes no lease and leaves nothing behind; "
    "but\n"
    "in Consul, Kubernetes, DynamoDB and S3, where only a lease shows what may be written, it "
    "takes\n"
    "'" PROBE "' and gives it back.\n";

static const char after[] =
    "Examples:\n"
    "  tenure doctor etcd://10.0.0.1,10.0.0.2/prod\n"
    "  tenure doctor postgres://app@db/app --for 1m --json\n"
    "  tenure doctor --install postgres://owner@db/app    makes the schema, then measures\n"
    "  tenure doctor --conformance etcd://10.0.0.1/test   runs the suite that every store passes,\n"
    "                                                     under names of its own, for a minute or "
    "two\n"
    "\n"
    "Exit status: 0; 1 the numbers are unsafe, or the suite fails; 64 bad usage, 69 store\n"
    "unavailable, 77 not permitted.\n";

struct doctor {
    struct tn_cli_store store;
    struct tn_doctor_report report;
    const char *url, *plugin;
    tenure_ns span, ttl;
    uint32_t rho_ppm;
    bool json, install, conformance;
    struct tn_secret session;
    uint64_t seq;
    bool open; /* The session is. */
};

/* --- Measuring ------------------------------------------------------------------------------ */

static tenure_ns now(const struct doctor *doctor)
{
    return tn_clock_now(&doctor->store.clock);
}

static void add_trip(struct tn_doctor_trips *trips, tenure_ns span)
{
    if (trips->count < TN_DOCTOR_SAMPLES)
        trips->spans[trips->count++] = span;
}

/* One question, its time, and what went wrong. */
static int ask_store(struct doctor *doctor, const struct tn_op *op, struct tn_doctor_trips *trips,
                     struct tn_store_req *ret_req)
{
    tenure_ns sent = now(doctor);

    int rc = tn_cli_ask(&doctor->store, op, ret_req);
    if (rc == 0 && trips != NULL)
        add_trip(trips, now(doctor) - sent);
    return rc;
}

static int read_probe(struct doctor *doctor, struct tn_doctor_trips *trips)
{
    struct tn_op op = { .kind = TN_OP_READ, .name = PROBE, .name_len = sizeof PROBE - 1 };
    struct tn_store_req req;

    int rc = ask_store(doctor, &op, trips, &req);
    if (doctor->store.missing || doctor->store.ask == NULL)
        return tn_cli_fail(TN_EXIT_UNAVAILABLE, "doctor",
                           "there is no store yet; the first candidate makes it, or --install");
    return rc < 0 ? tn_cli_store_fail("doctor", rc, req.error) : -1;
}

/* Not being let is a finding. */
static int note_denied(struct doctor *doctor, const char *why)
{
    doctor->report.writes = false;
    (void)snprintf(doctor->report.denied, sizeof doctor->report.denied, "%s", why);
    return -1;
}

static int renew(struct doctor *doctor, struct tn_doctor_trips *trips)
{
    struct tn_op op = { .kind = TN_OP_RENEW, .session = doctor->session, .seq = ++doctor->seq };
    struct tn_store_req req;

    int rc = ask_store(doctor, &op, trips, &req);
    if (rc == TENURE_E_DENIED)
        return note_denied(doctor, req.error);
    return rc < 0 ? tn_cli_store_fail("doctor", rc, req.error) : -1;
}

static void close_session(struct doctor *doctor)
{
    struct tn_op op = { .kind = TN_OP_CLOSE, .session = doctor->session };
    struct tn_store_req req;

    (void)ask_store(doctor, &op, NULL, &req);
    doctor->open = false;
}

/* A session with @ttl, and what the server made of it. */
static int open_session(struct doctor *doctor, tenure_ns ttl, tenure_ns *ret_agreed)
{
    struct tn_op op = { .kind = TN_OP_OPEN, .ttl = ttl, .label = "tenure-doctor", .label_len = 13 };
    struct tn_store_req req;

    int rc = tn_random_secret(&doctor->session);
    if (rc < 0)
        return tn_cli_store_fail("doctor", rc, "the kernel gives no random numbers");
    op.session = doctor->session;
    op.seq = doctor->seq = 1;
    rc = ask_store(doctor, &op, NULL, &req);
    if (rc < 0 && rc != TENURE_E_DENIED)
        return tn_cli_store_fail("doctor", rc, req.error);
    doctor->report.writes = true;
    if (rc < 0)
        return note_denied(doctor, req.error);
    doctor->open = true;
    *ret_agreed = req.ttl;
    return -1;
}

/* The session alone tells nothing of the right to write a lease, nor of what that takes. */
static bool needs_lease(const struct doctor *doctor)
{
    return (doctor->report.ops->caps & TN_STORE_NAMED) != 0;
}

/* One that was killed may hold the name still: a few TTLs tell. */
static int take_probe(struct doctor *doctor, tenure_ns patience)
{
    struct tn_op op = { .kind = TN_OP_ACQUIRE,
                        .wait = true,
                        .session = doctor->session,
                        .name = PROBE,
                        .name_len = sizeof PROBE - 1 };
    tenure_ns end = now(doctor) + patience;
    struct tn_store_req req;
    int status = -1;

    int rc = tn_random_secret(&op.term);
    if (rc < 0)
        return tn_cli_store_fail("doctor", rc, "the kernel gives no random numbers");
    while (status < 0 && doctor->report.writes) {
        rc = ask_store(doctor, &op, NULL, &req);
        if (rc == TENURE_E_DENIED)
            return note_denied(doctor, req.error);
        if (rc < 0)
            return tn_cli_store_fail("doctor", rc, req.error);
        if (req.answer == TN_ANSWER_GRANTED)
            return -1;
        if (now(doctor) >= end)
            return tn_cli_fail(TN_EXIT_UNAVAILABLE, "doctor",
                               "another doctor holds " PROBE "; try again when it is done");
        tn_cli_pause(&doctor->store, now(doctor) + PROBE_ASK);
        status = renew(doctor, NULL);
    }
    return status;
}

/* A session, and the probe's name where that is needed. */
static int open_measure(struct doctor *doctor)
{
    tenure_ns ttl = TN_SEC(30), agreed = 0;

    if (needs_lease(doctor))
        ttl = doctor->report.ttl_min > PROBE_TTL ? doctor->report.ttl_min : PROBE_TTL;
    int status = open_session(doctor, ttl, &agreed);
    if (status < 0 && doctor->report.writes && needs_lease(doctor))
        status = take_probe(doctor, 4 * agreed);
    return status;
}

/* The limits are those that the server agrees to, which may be narrower than the store's own. */
static int find_limits(struct doctor *doctor)
{
    struct tn_doctor_report *report = &doctor->report;

    report->ttl_min = report->ops->ttl_min;
    report->ttl_max = report->ops->ttl_max;
    int status = open_session(doctor, report->ops->ttl_min, &report->ttl_min);
    if (status >= 0 || !report->writes)
        return status;
    close_session(doctor);
    status = open_session(doctor, report->ops->ttl_max, &report->ttl_max);
    if (doctor->open)
        close_session(doctor);
    return status;
}

static void show_progress(const struct doctor *doctor, tenure_ns began, tenure_ns instant)
{
    if (isatty(STDERR_FILENO) != 1)
        return;
    (void)fprintf(stderr, "\rmeasuring: %d%% ",
                  (int)((instant - began) * 100 / (doctor->span > 0 ? doctor->span : 1)));
}

static void end_progress(void)
{
    if (isatty(STDERR_FILENO) == 1)
        (void)fprintf(stderr, "\r\033[K");
}

/* An instant of the server's clock, and between which two of ours it was. */
struct reading {
    tenure_ns before, clock, after;
};

static bool read_clock(struct doctor *doctor, struct reading *ret_reading)
{
    char text[200];
    struct tn_text error;

    tn_text_init(&error, text, sizeof text);
    ret_reading->before = now(doctor);
    int rc = tn_cli_read_clock(&doctor->store, &ret_reading->clock, &error);
    ret_reading->after = now(doctor);
    if (rc < 0)
        (void)snprintf(doctor->report.clock_why, sizeof doctor->report.clock_why, "%s", text);
    return rc == 0;
}

/* How much faster than ours the server's clock ran between two readings; the error is what the
 * round trips leave open. */
static void judge_clock(struct tn_doctor_report *report, const struct reading *first,
                        const struct reading *last)
{
    double ours = (double)(last->before + last->after - first->before - first->after) / 2;
    double theirs = (double)(last->clock - first->clock);
    double open = (double)(last->after - last->before + first->after - first->before) / 2;

    report->clocked = ours > 0;
    report->rate_ppm = (theirs / ours - 1) * 1e6;
    report->rate_error_ppm = open / ours * 1e6;
}

/* Read and renew in turn, evenly over the time, and at least half of the time not at all: a store
 * that is as slow as our questions are quick must have time for those who lead. */
static int measure(struct doctor *doctor)
{
    struct tn_doctor_report *report = &doctor->report;
    tenure_ns pace = doctor->span / TN_DOCTOR_SAMPLES;
    struct reading first, last;

    if (needs_lease(doctor) && pace < PACE_OF_WRITES)
        pace = PACE_OF_WRITES;
    bool clocked = read_clock(doctor, &first);
    int status = report->writes ? open_measure(doctor) : -1;
    tenure_ns began = now(doctor), instant = began;
    while (status < 0 && instant - began < doctor->span &&
           report->reads.count < TN_DOCTOR_SAMPLES) {
        status = read_probe(doctor, &report->reads);
        if (status < 0 && report->writes)
            status = renew(doctor, &report->renewals);
        show_progress(doctor, began, instant);
        tenure_ns next = began + (tenure_ns)report->reads.count * pace;
        tenure_ns rested = now(doctor) + (now(doctor) - instant);
        tn_cli_pause(&doctor->store, next > rested ? next : rested);
        instant = now(doctor);
    }
    end_progress();
    if (doctor->open)
        close_session(doctor);
    if (status < 0 && clocked && read_clock(doctor, &last))
        judge_clock(report, &first, &last);
    return status;
}

static int compare(const void *a, const void *b)
{
    tenure_ns x = *(const tenure_ns *)a, y = *(const tenure_ns *)b;
    return x < y ? -1 : x > y;
}

tenure_ns tn_doctor_percentile(const struct tn_doctor_trips *trips, unsigned percent)
{
    size_t rank = (trips->count * percent + 99) / 100;

    return trips->count > 0 ? trips->spans[rank > 0 ? rank - 1 : 0] : 0;
}

/* The slowest round trip seen is the network bound, rounded up to a millisecond. */
static void make_plan(struct doctor *doctor)
{
    struct tn_doctor_report *report = &doctor->report;
    struct tn_doctor_trips *both[] = { &report->reads, &report->renewals };
    struct tn_plan_answer answer;
    tenure_ns slowest = 0;

    for (int i = 0; i < 2; i++) {
        qsort(both[i]->spans, both[i]->count, sizeof both[i]->spans[0], compare);
        tenure_ns most = tn_doctor_percentile(both[i], 100);
        slowest = most > slowest ? most : slowest;
    }
    slowest = (slowest + TN_MS(1) - 1) / TN_MS(1) * TN_MS(1);
    tenure_ns longest = report->ops->delay_most; /* P1: no TTL beyond a lock-delay. */
    longest = longest > 0 && longest < TN_SEC(120) ? longest : TN_SEC(120);
    for (tenure_ns ttl = longest; ttl >= TN_SEC(1); ttl -= TN_SEC(1)) {
        tn_plan_init(&report->plan, ttl);
        tn_plan_turn(&report->plan, TN_KNOB_RHO, doctor->rho_ppm);
        tn_plan_turn(&report->plan, TN_KNOB_RTT, slowest);
        tn_cli_plan_store(&report->plan, report->ops);
        if (tn_plan_judge(&report->plan, &answer) != TN_PLAN_SAFE || ttl < report->ttl_min)
            break;
        report->ttl_least = ttl;
    }
    tn_plan_init(&report->plan, doctor->ttl);
    tn_plan_turn(&report->plan, TN_KNOB_RHO, doctor->rho_ppm);
    tn_plan_turn(&report->plan, TN_KNOB_RTT, slowest);
    tn_cli_plan_store(&report->plan, report->ops);
    report->verdict = tn_plan_judge(&report->plan, &report->answer);
}

static int examine(struct doctor *doctor)
{
    struct tn_doctor_report *report = &doctor->report;
    tenure_ns began = now(doctor);

    report->ops = doctor->store.ops;
    int status = read_probe(doctor, NULL);
    report->first = now(doctor) - began;
    if (status == TN_EXIT_DENIED && report->ops->rights != NULL && !doctor->json)
        tn_doctor_print_rights(report);
    if (status < 0) {
        int rc = tn_cli_learn(&doctor->store, report->server_why, sizeof report->server_why);
        if (rc == TENURE_E_DENIED) /* It has tried to write. */
            (void)snprintf(report->denied, sizeof report->denied, "%s", report->server_why);
        status = find_limits(doctor);
        report->writes = report->writes && rc != TENURE_E_DENIED;
    }
    if (status < 0)
        status = measure(doctor);
    if (status >= 0)
        return status;
    tn_cli_facts(&doctor->store, report->server, sizeof report->server, report->warning,
                 sizeof report->warning);
    make_plan(doctor);
    if (doctor->json)
        tn_doctor_print_json(report);
    else
        tn_doctor_print_text(report);
    if (!report->writes)
        return TN_EXIT_DENIED;
    return report->verdict == TN_PLAN_SAFE ? TN_EXIT_OK : TN_EXIT_UNSAFE;
}

/* --- The suite ------------------------------------------------------------------------------ */

/* The suite is a program of its own, which the tests run as well; its output is what it is. */
static int run_suite(const char *url, const char *plugin)
{
    static const char *const places[] = { "tests/conformance",
                                          "../libexec/tenure/tenure-conformance" };
    char *argv[] = { "tenure-conformance", NULL };

    if (setenv("TENURE_CONFORMANCE_URL", url, 1) == 0 &&
        (plugin == NULL || setenv("TENURE_CONFORMANCE_PLUGIN", plugin, 1) == 0))
        tn_cli_exec_beside(places, sizeof places / sizeof places[0], argv);
    return tn_cli_fail(TN_EXIT_UNAVAILABLE, "doctor",
                       "the suite needs the program tenure-conformance beside this one; build it "
                       "with 'make'");
}

/* --- The verb ------------------------------------------------------------------------------- */

/* Before another program is begun with it. */
static int check_url(const char *url)
{
    const struct tn_store_ops *ops;
    const char *rest;
    char text[TN_CLI_LINE_MAX];
    struct tn_text error;

    tn_text_init(&error, text, sizeof text);
    int rc = tn_store_find(url, &ops, &rest, &error);
    return rc < 0 ? tn_cli_store_fail("doctor", rc, text) : -1;
}

static int read_arguments(struct doctor *doctor, int argc, char **argv)
{
    struct tn_option options[] = {
        TN_STORE(&doctor->url),
        TN_DURATION("for", 0, &doctor->span, TN_MS(1), FOR_MAX, "2s", "how long to measure"),
        TN_DURATION("ttl", 0, &doctor->ttl, TN_TTL_MIN, TN_TTL_MAX, "15s", "the TTL to plan with"),
        TN_RATE("rho", 0, &doctor->rho_ppm, "0.1", "clock-rate bound to plan with"),
        TN_FLAG("install", 0, &doctor->install, "make what the store needs: a schema, a file"),
        TN_FLAG("conformance", 0, &doctor->conformance, "run the conformance suite instead"),
        TN_STRING("plugin", 0, &doctor->plugin, "FILE", NULL, "a store of your own for the suite"),
        TN_FLAG("json", 0, &doctor->json, "print one JSON object on one line"),
    };
    struct tn_command command = TN_COMMAND("doctor", "[URL]", 1, options);

    int status = tn_cli_options(&command, argc, argv);
    if (status >= 0)
        return status;
    if (command.rest_count > 0 && doctor->url != NULL)
        return tn_cli_fail(TN_EXIT_USAGE, "doctor", "one store at a time: a URL, or --store");
    if (doctor->plugin != NULL && !doctor->conformance)
        return tn_cli_fail(TN_EXIT_USAGE, "doctor", "--plugin is for --conformance");
    if (command.rest_count > 0)
        doctor->url = command.rest[0];
    if (doctor->url == NULL)
        doctor->url = getenv("TENURE_STORE");
    if (doctor->url == NULL || doctor->url[0] == '\0')
        doctor->url = "sqlite:";
    if (doctor->conformance && doctor->plugin == NULL)
        return check_url(doctor->url);
    return -1;
}

int tn_cli_doctor(int argc, char **argv)
{
    static struct doctor doctor = { .span = TN_SEC(2), .ttl = TN_SEC(15), .rho_ppm = TN_PPM / 10 };
    char shown[256];

    int status = read_arguments(&doctor, argc, argv);
    if (status >= 0)
        return status;
    if (doctor.conformance)
        return run_suite(doctor.url, doctor.plugin);
    doctor.report.url = tn_url_public(doctor.url, shown, sizeof shown);
    status = tn_cli_store_open("doctor", doctor.url, doctor.install, 0, &doctor.store);
    if (status >= 0)
        return status;
    status = examine(&doctor);
    tn_cli_store_close(&doctor.store);
    return status;
}
