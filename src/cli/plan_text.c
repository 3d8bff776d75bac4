/* plan_text.c - the report of `tenure plan` for people: numbers, a drawing, arithmetic, verdict.
 *
 * Spans are rounded to a thousandth of the unit shown, half up. Rounding keeps the order, so a
 * comparison that holds looks as if it holds; one that fails by less than the rounding is shown to
 * the nanosecond. */
#include "cli/plan.h"

#include <inttypes.h>
#include <string.h>

/* Cells of the drawing: two columns of margin on an 80-column terminal, and room for its ends. */
enum { CELLS = 72 };

static const char *show(char *buf, tenure_ns ns)
{
    tenure_ns step = ns < TN_SEC(1) && ns > -TN_SEC(1) ? TN_US(1) : TN_MS(1);
    tenure_ns half = ns < 0 ? -step / 2 : step / 2;

    if (ns > TN_NEVER - step)
        return "292 years or more";
    return tn_cli_duration(buf, (ns + half) / step * step);
}

/* All nine decimals, for two numbers that would look alike. */
static const char *show_exact(char *buf, tenure_ns ns)
{
    uint64_t span = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;

    (void)snprintf(buf, TN_DURATION_TEXT, "%s%" PRIu64 ".%09" PRIu64 "s", ns < 0 ? "-" : "",
                   span / (uint64_t)TN_SEC(1), span % (uint64_t)TN_SEC(1));
    return buf;
}

static void print_row(const char *label, const char *value, const char *what)
{
    printf("  %-22s  %-9s  %s%s%s\n", label, value, tn_cli_colour(TN_DIM), what,
           tn_cli_colour(TN_PLAIN));
}

static void print_span(const char *label, tenure_ns ns, const char *what)
{
    char buf[TN_DURATION_TEXT];
    print_row(label, show(buf, ns), what);
}

static void print_numbers(const struct tn_plan_report *report)
{
    const struct tn_plan *plan = &report->plan;
    const struct tn_plan_answer *answer = &report->answer;
    char span[2][TN_DURATION_TEXT];
    char text[128];

    print_span("TTL", plan->ttl, "the store keeps a silent session this long");
    (void)snprintf(text, sizeof text, "R; an attempt is given up after %s, repeated within %s",
                   show(span[0], plan->attempt_timeout), show(span[1], plan->backoff));
    print_span("renewal interval", plan->renew_every, text);
    print_row("clock-rate bound", tn_plan_rate(span[0], plan->rho_holder_ppm),
              "rho; how much faster or slower than real time a clock runs");
    print_span("network bound", plan->rtt, "request, store and reply together");
    (void)snprintf(text, sizeof text, "TTL - D; P1 asks for at least %s",
                   show(span[0], answer->margin_least));
    print_span("safety margin", answer->margin, text);
    printf("\n");
    print_span("deadline D", answer->valid_for, "a renewal is good for this long after its send");
    (void)snprintf(text, sizeof text, "G %s from SIGTERM to SIGKILL, K %s until all is gone",
                   show(span[0], plan->grace), show(span[1], plan->kill_bound));
    print_span("time to stop", plan->grace + plan->kill_bound, text);
    print_span("tolerated pause", plan->pause, "a stop of the process that costs no term");
    if (plan->hold_off > 0) {
        (void)snprintf(text, sizeof text, "between a lost term and the next; the store's TTL is %s",
                       show(span[0], tn_plan_asked(plan)));
        print_span("hold-off", plan->hold_off, text);
    }
}

/* The cell of an instant between 0 and the TTL; the last cell is the TTL itself. */
static size_t cell(const struct tn_plan *plan, tenure_ns at)
{
    return (size_t)((double)at / (double)plan->ttl * (CELLS - 1));
}

/* R, 2R, ... above the bar; those that would touch their neighbour are left out. */
static void draw_renewals(const struct tn_plan *plan)
{
    char line[CELLS + 16];
    size_t used = 0;

    memset(line, ' ', sizeof line);
    /* Beyond one renewal per cell there is nothing left to tell apart. */
    for (int64_t i = 1; i < CELLS && i * plan->renew_every < plan->ttl; i++) {
        char label[24] = "R";
        size_t at = cell(plan, i * plan->renew_every);

        if (i > 1)
            (void)snprintf(label, sizeof label, "%" PRId64 "R", i);
        size_t len = strlen(label);
        if (at < used || at + len > CELLS)
            continue;
        memcpy(line + at, label, len);
        used = at + len + 1;
    }
    printf("  %.*s\n", used > 0 ? (int)used - 1 : 0, line);
}

static void fill(char *bar, size_t from, size_t to, char c)
{
    for (size_t i = from; i < to; i++)
        bar[i] = c;
}

/* One TTL: working '=', stopping '~', killing '!', the margin '.', and the letters in between. */
static void draw_bar(const struct tn_plan_report *report)
{
    const struct tn_plan *plan = &report->plan;
    const struct tn_plan_answer *answer = &report->answer;
    tenure_ns kill_at = answer->kill_at > 0 ? answer->kill_at : 0;
    tenure_ns stop_at = answer->stop_at > 0 ? answer->stop_at : 0;
    char bar[CELLS + 1] = "";

    fill(bar, 0, cell(plan, stop_at), '=');
    fill(bar, cell(plan, stop_at), cell(plan, kill_at), '~');
    fill(bar, cell(plan, kill_at), cell(plan, answer->valid_for), '!');
    fill(bar, cell(plan, answer->valid_for), CELLS, '.');
    if (answer->stop_at >= 0)
        bar[cell(plan, stop_at)] = 'T';
    if (answer->kill_at >= 0)
        bar[cell(plan, kill_at)] = 'K';
    bar[cell(plan, answer->valid_for)] = 'D';
    bar[CELLS - 1] = '|';
    printf("  %s\n", bar);
}

static void draw(const struct tn_plan_report *report)
{
    const struct tn_plan_answer *answer = &report->answer;

    printf("\n%sOne TTL, from the send of a renewal that succeeds%s\n\n", tn_cli_colour(TN_BOLD),
           tn_cli_colour(TN_PLAIN));
    draw_renewals(&report->plan);
    draw_bar(report);
    printf("\n");
    print_span("R   next renewal", report->plan.renew_every, "if it succeeds, all begins anew");
    print_span("T   SIGTERM", answer->stop_at, "D - K - G: none has succeeded, the work must stop");
    print_span("K   SIGKILL", answer->kill_at, "D - K: for work that does not stop by itself");
    print_span("D   deadline", answer->valid_for, "nothing acts after this");
    print_span("... margin", answer->margin, "for clocks that run at different rates");
    print_span("|   TTL", report->plan.ttl, "the store may give the lease away");
}

static void print_verdict(bool holds)
{
    printf("   %s%s%s\n", tn_cli_colour(holds ? TN_GREEN : TN_RED), holds ? "holds" : "breaks",
           tn_cli_colour(TN_PLAIN));
}

/* "left <= right   holds" */
static void print_comparison(tenure_ns left, tenure_ns right, bool holds)
{
    char text[2][TN_DURATION_TEXT];
    const char *left_text = show(text[0], left);
    const char *right_text = show(text[1], right);

    if (!holds && strcmp(left_text, right_text) == 0) {
        left_text = show_exact(text[0], left);
        right_text = show_exact(text[1], right);
    }
    printf("%s <= %s", left_text, right_text);
    print_verdict(holds);
}

static void print_inequalities(const struct tn_plan_report *report)
{
    const struct tn_plan *plan = &report->plan;
    const struct tn_plan_answer *answer = &report->answer;
    char span[4][TN_DURATION_TEXT];

    printf("\n%sExclusion and availability%s\n\n", tn_cli_colour(TN_BOLD), tn_cli_colour(TN_PLAIN));
    printf("  P1  (D + slack)/(1 - rho) <= TTL/(1 + rho)    ");
    print_comparison(answer->p1_left, answer->p1_right, report->verdict != TN_PLAN_BREAKS_P1);
    printf("  P8  R + k*(To + b) + pause <= D - K - G       %s + 1*(%s + %s) + %s = ",
           show(span[0], plan->renew_every), show(span[1], plan->attempt_timeout),
           show(span[2], plan->backoff), show(span[3], plan->pause));
    print_comparison(answer->p8_left, answer->p8_right, answer->p8_left <= answer->p8_right);
}

static void print_promises(const struct tn_plan_report *report)
{
    const struct tn_plan *plan = &report->plan;
    const struct tn_plan_answer *answer = &report->answer;
    char span[4][TN_DURATION_TEXT];
    char text[160];

    printf("\n");
    (void)snprintf(text, sizeof text, "%" PRId64, answer->tolerated);
    print_row("tolerated failures", text, "k; failed renewals in a row that cost no term");
    (void)snprintf(text, sizeof text, "expiry %s + poll %s + 2 RTT %s + fence %s",
                   show(span[0], answer->expiry_real), show(span[1], answer->poll_real),
                   show(span[2], 2 * plan->rtt), show(span[3], plan->fence_raise));
    print_span("failover after a crash", answer->failover_crash_real, text);
    if (report->soft > 0)
        print_span("      with soft limit", tn_plan_soft_failover(&report->plan, report->soft),
                   "to a candidate with the same fence: silence, question, fence");
    if (tn_plan_late(plan) > 0) {
        (void)snprintf(text, sizeof text, "%s: the TTL, and %s in which the store may still wait",
                       report->engine->scheme, show(span[0], tn_plan_late(plan)));
        print_row("", "", text);
    }
    (void)snprintf(text, sizeof text, "stop %s + 3 RTT %s + fence %s",
                   show(span[0], answer->stop_real), show(span[1], 3 * plan->rtt),
                   show(span[2], plan->fence_raise));
    print_span("           or a resign", answer->failover_resign, text);
    print_row("", "", "P7; at most, in real time, if every clock involved is slow by rho");
}

/* What a candidate asks while it waits. The jitter is even: three quarters of the longest. */
static void print_reads(const struct tn_store_ops *engine, uint64_t leases)
{
    char load[TN_LOAD_TEXT], text[96], span[2][TN_DURATION_TEXT];

    if (engine->poll_every == 0) {
        print_row("one that waits", "0/s", "reads: the store tells it of changes");
        return;
    }
    (void)snprintf(text, sizeof text, "reads: leases / (%s to %s)",
                   show(span[0], engine->poll_every / 2), show(span[1], engine->poll_every));
    tn_plan_load_text(load, tn_plan_load(leases, engine->poll_every / 4 * 3));
    print_row("one that waits", load, text);
}

static void print_load(const struct tn_plan_report *report)
{
    tenure_ns renew_every = report->plan.renew_every;
    uint64_t all = report->processes * report->leases;
    char load[TN_LOAD_TEXT];

    printf("\n%sLoad on the store%s  %" PRIu64 " process%s, %" PRIu64 " lease%s each\n\n",
           tn_cli_colour(TN_BOLD), tn_cli_colour(TN_PLAIN), report->processes,
           report->processes == 1 ? "" : "es", report->leases, report->leases == 1 ? "" : "s");
    tn_plan_load_text(load, tn_plan_load(report->processes, renew_every));
    print_row("one session a process", load, "renewals: processes / R");
    tn_plan_load_text(load, tn_plan_load(all, renew_every));
    print_row("one session a lease", load, "renewals: processes * leases / R");
    if (report->hosts > 0) {
        tn_plan_load_text(load, tn_plan_agents_load(report->hosts));
        print_row("one agent a host", load, "renewals: hosts / 10s, with tenured --upstream");
    }
    if (report->engine != NULL)
        print_reads(report->engine, report->leases);
}

static void print_changes(const struct tn_plan_report *report)
{
    for (size_t i = 0; i < report->change_count; i++) {
        const struct tn_plan_change *change = &report->changes[i];

        printf("  %-16s %s %s instead of %s%s\n", i == 0 ? "smallest change:" : "or",
               change->option, change->value, change->present,
               change->choice ? "" : ", if that is true where it runs");
    }
    if (report->change_count == 0)
        printf("  no single change helps: %s\n",
               report->verdict == TN_PLAN_BREAKS_P1
                   ? "leave --margin out, then see what P8 asks for"
                   : "change several, beginning with a longer --ttl and a shorter --grace");
}

static void print_conclusion(const struct tn_plan_report *report)
{
    const struct tn_plan_answer *answer = &report->answer;
    bool p1 = report->verdict == TN_PLAN_BREAKS_P1;
    tenure_ns left = p1 ? answer->p1_left : answer->p8_left;
    tenure_ns right = p1 ? answer->p1_right : answer->p8_right;
    char span[TN_DURATION_TEXT];

    if (report->verdict == TN_PLAN_SAFE) {
        printf("\n%ssafe%s: both inequalities hold\n", tn_cli_colour(TN_GREEN),
               tn_cli_colour(TN_PLAIN));
        return;
    }
    printf("\n%sunsafe%s: %s, too long by %s\n", tn_cli_colour(TN_RED), tn_cli_colour(TN_PLAIN),
           p1 ? "P1 breaks, a holder can act when the store has given the lease away"
              : "P8 breaks, one lost renewal costs the term",
           show(span, left - right));
    print_changes(report);
}

void tn_plan_print_text(const struct tn_plan_report *report)
{
    print_numbers(report);
    draw(report);
    print_inequalities(report);
    print_promises(report);
    print_load(report);
    tn_plan_print_advice(report);
    print_conclusion(report);
}
