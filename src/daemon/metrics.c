/* metrics.c - what is counted, and how Prometheus reads it.
 *
 * No label holds a name, a user or an address, so the page stays as long however many there are.
 * The exception is asked for: --metrics-names, for TN_METRICS_NAMES_MAX names at most.
 * Times go into buckets that double. How long a term lasted and how long a name was without a
 * holder is known from one number per name, the time of its last change in hundredths of a second,
 * touched only for names that change hands. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "base/pattern.h"
#include "base/time.h"
#include "daemon/server.h"
#include "runtime/clock.h"

/* --- Counting --------------------------------------------------------------------------------- */

static const char *const reasons[TN_REASONS] = { "ERR",  "GONE",  "STALE",       "DENIED", "NOAUTH",
                                                 "FULL", "OLDER", "UNAVAILABLE", "other" };

void tn_metrics_refused(struct tn_server *server, const char *line)
{
    size_t len = strcspn(line, " ");
    size_t i = 0;

    while (i + 1 < TN_REASONS && (strlen(reasons[i]) != len || memcmp(reasons[i], line, len) != 0))
        i++;
    server->count.refusals++;
    server->count.refused[i]++;
}

void tn_histogram_add(struct tn_histogram *histogram, tenure_ns took)
{
    int bucket = 0;

    while (bucket + 1 < TN_HISTOGRAM_BUCKETS && took > histogram->first << bucket)
        bucket++;
    histogram->count[bucket]++;
    histogram->sum += (uint64_t)took;
}

/* The last change of each name: hundredths of a second, and whether it is held since then. */
#define HELD 1u

int tn_metrics_open(struct tn_server *server)
{
    server->started = tn_boottime();
    size_t size = ((size_t)server->config.limits.leases + 1) * sizeof *server->changed;
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (map == MAP_FAILED)
        return TENURE_E_NOMEM;
    server->changed = map;
    server->flushes.first = TN_US(100);
    server->renewals.first = TN_US(100);
    server->gaps.first = TN_MS(10);
    server->terms.first = TN_MS(100);
    return 0;
}

void tn_metrics_close(struct tn_server *server)
{
    if (server->changed != NULL)
        (void)munmap(server->changed,
                     ((size_t)server->config.limits.leases + 1) * sizeof *server->changed);
    server->changed = NULL;
}

void tn_metrics_changed(struct tn_server *server, uint32_t lease, bool held)
{
    uint32_t now = (uint32_t)(server->now / TN_MS(10)) << 1;
    uint32_t before = server->changed[lease];
    tenure_ns since = TN_MS(10) * ((now - before) >> 1);

    server->changed[lease] = now | (held ? HELD : 0);
    if (before == 0)
        return; /* Not since the start. */
    if ((before & HELD) != 0)
        tn_histogram_add(&server->terms, since);
    if (held) /* Passed on directly: without a gap. */
        tn_histogram_add(&server->gaps, (before & HELD) != 0 ? 0 : since);
}

void tn_metrics_sent(struct tn_conn *conn)
{
    tenure_ns took = tn_boottime() - conn->renewed_at;

    for (; conn->renewed > 0; conn->renewed--)
        tn_histogram_add(&conn->server->renewals, took);
}

/* --- Writing ---------------------------------------------------------------------------------- */

static void add_head(struct tn_text *text, const char *name, const char *type, const char *help)
{
    tn_text_addf(text, "# HELP tenured_%s %s\n# TYPE tenured_%s %s\n", name, help, name, type);
}

static void add_metric(struct tn_text *text, const char *name, const char *type, const char *help,
                       uint64_t value)
{
    add_head(text, name, type, help);
    tn_text_addf(text, "tenured_%s %" PRIu64 "\n", name, value);
}

static void add_histogram(struct tn_text *text, const char *name, const char *help,
                          const struct tn_histogram *histogram)
{
    uint64_t sum = 0;

    add_head(text, name, "histogram", help);
    for (int i = 0; i < TN_HISTOGRAM_BUCKETS; i++) {
        sum += histogram->count[i];
        if (i + 1 < TN_HISTOGRAM_BUCKETS)
            tn_text_addf(text, "tenured_%s_bucket{le=\"%g\"} %" PRIu64 "\n", name,
                         (double)(histogram->first << i) / 1e9, sum);
    }
    tn_text_addf(text,
                 "tenured_%s_bucket{le=\"+Inf\"} %" PRIu64
                 "\ntenured_%s_sum %g\ntenured_%s_count %" PRIu64 "\n",
                 name, sum, name, (double)histogram->sum / 1e9, name, sum);
}

static void add_refusals(struct tn_text *text, const struct tn_server *server)
{
    add_head(text, "refusals_total", "counter", "Commands answered with an error, by its word.");
    for (size_t i = 0; i < TN_REASONS; i++)
        tn_text_addf(text, "tenured_refusals_total{reason=\"%s\"} %" PRIu64 "\n", reasons[i],
                     server->count.refused[i]);
}

/* How much of their TTL the sessions have left: who is about to be lost shows at the low end. */
static void add_validity(struct tn_text *text, const struct tn_server *server)
{
    static const unsigned percents[] = { 10, 25, 50, 75, 100 };
    uint64_t count[5] = { 0 };
    tenure_ns least = 0;
    bool any = false;
    uint32_t session = 0;

    while ((session = tn_table_next_session(server->state.table, session)) != 0) {
        struct tn_session_view view;
        tn_table_session(server->state.table, session, &view);
        if (view.closed)
            continue;
        tenure_ns left = view.expires_at > server->now ? view.expires_at - server->now : 0;
        least = !any || left < least ? left : least;
        any = true;
        for (size_t i = 0; i < 5; i++)
            count[i] += i == 4 || left <= view.ttl / 100 * percents[i];
    }
    add_head(text, "sessions_by_remaining", "gauge",
             "Sessions with at most this share of their TTL left.");
    for (size_t i = 0; i < 5; i++)
        tn_text_addf(text, "tenured_sessions_by_remaining{le=\"%g\"} %" PRIu64 "\n",
                     percents[i] / 100.0, count[i]);
    add_head(text, "remaining_validity_seconds_min", "gauge",
             "What the session that ends first has left; 0: there is none.");
    tn_text_addf(text, "tenured_remaining_validity_seconds_min %g\n", (double)least / 1e9);
}

/* A label's value: a backslash, a quote and a newline have to be escaped. */
static void add_label(struct tn_text *text, const char *value, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (value[i] == '\\' || value[i] == '"')
            tn_text_add(text, "\\");
        if (value[i] == '\n')
            tn_text_add(text, "\\n");
        else
            tn_text_add_bytes(text, &value[i], 1);
    }
}

static void add_version(struct tn_text *text, const struct tn_server *server)
{
    const char *dir = server->config.journal.dir != NULL ? server->config.journal.dir : "";

    add_head(text, "info", "gauge", "Always 1: the version, and where the data is.");
    tn_text_addf(text, "tenured_info{version=\"%s\",data=\"", tn_daemon_version);
    add_label(text, dir, strlen(dir));
    tn_text_add(text, "\"} 1\n");
}

/* By the names that all of Prometheus's clients use. */
static void add_process(struct tn_text *text, const struct tn_server *server)
{
    struct tn_process process;

    tn_process_read(server, &process);
    add_head(text, "uptime_seconds", "gauge", "Since the start.");
    tn_text_addf(text, "tenured_uptime_seconds %.3f\n", (double)process.uptime / 1e9);
    tn_text_addf(text,
                 "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total %.6f\n"
                 "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes "
                 "%" PRIu64 "\n# TYPE process_open_fds gauge\nprocess_open_fds %" PRIu64
                 "\n# TYPE process_max_fds gauge\nprocess_max_fds %" PRIu64 "\n",
                 process.cpu_seconds, process.memory, process.fds, process.fds_max);
}

/* Of the names that were asked for, in no particular order: one kind of series after the other. */
static void add_names(struct tn_text *text, const struct tn_server *server)
{
    static const char *const kinds[] = { "lease_held", "lease_token" };
    static const char *const help[] = { "1: somebody holds the name.", "Its last token." };
    const char *pattern = server->config.metrics_names;
    uint64_t left_out = 0;

    for (int kind = 0; pattern != NULL && kind < 2; kind++) {
        uint32_t lease = 0, count = 0;
        left_out = 0;
        add_head(text, kinds[kind], "gauge", help[kind]);
        while ((lease = tn_table_next(server->state.table, lease)) != 0) {
            struct tn_lease_view view;
            tn_table_lease(server->state.table, lease, &view);
            if (!tn_pattern_covers(pattern, view.name, view.name_len))
                continue;
            if (count++ >= TN_METRICS_NAMES_MAX) {
                left_out++;
                continue;
            }
            tn_text_addf(text, "tenured_%s{name=\"", kinds[kind]);
            add_label(text, view.name, view.name_len);
            tn_text_addf(text, "\"} %" PRIu64 "\n",
                         kind == 0 ? (uint64_t)(view.session != NULL) : view.token);
        }
    }
    if (pattern != NULL)
        add_metric(text, "names_left_out", "gauge", "Names of --metrics-names without a series.",
                   left_out);
}

/* From the history of terms, so over restarts too. */
static void add_gaps(struct tn_text *text, const struct tn_server *server)
{
    int64_t longest, current;

    tn_history_gaps(&server->past.history, tn_wall_ms(), &longest, &current);
    add_head(text, "leader_gap_longest_seconds", "gauge",
             "The longest time in the last 24 hours that a name had no leader.");
    tn_text_addf(text, "tenured_leader_gap_longest_seconds %g\n", (double)longest / 1e3);
    add_head(text, "leader_gap_current_seconds", "gauge",
             "How long a name has no leader by now after a crash or a revocation; 0: none.");
    tn_text_addf(text, "tenured_leader_gap_current_seconds %g\n", (double)current / 1e3);
}

void tn_metrics_write(struct tn_server *server, struct tn_text *text)
{
    struct tn_table_counts counts;

    tn_server_tell_time(server);
    tn_table_count(server->state.table, &counts);
    add_version(text, server);
    add_process(text, server);
    add_metric(text, "sessions", "gauge", "Sessions that live.", counts.sessions);
    add_metric(text, "names", "gauge", "Names held or remembered.", counts.leases);
    add_metric(text, "waiters", "gauge", "Acquires that wait in line.", counts.waiters);
    add_metric(text, "fences", "gauge", "Resources with a fence.", server->state.fences.count);
    add_metric(text, "highest_token", "gauge", "The highest token granted.",
               tn_table_token(server->state.table));
    add_metric(text, "connections", "gauge", "Connections.", server->conn_count);
    add_metric(text, "watches", "gauge", "Watches.", server->watch_count);
    add_metric(text, "connections_total", "counter",
               "Connections and requests by HTTP since the start.", server->next_id);
    add_metric(text, "commands_total", "counter", "Commands.", server->count.commands);
    add_metric(text, "grants_total", "counter", "Leases granted.", server->count.grants);
    add_metric(text, "renewals_total", "counter", "Sessions renewed, or tried to.",
               server->count.renewals);
    add_metric(text, "sessions_ended_total", "counter",
               "Sessions that ended by time or with their process.", server->count.expired);
    tn_agent_metrics(server, text);
    add_metric(text, "journal_bytes", "gauge", "Journal since the last snapshot.",
               server->journal.grown_bytes);
    add_metric(text, "disk_full", "gauge", "1: nothing is granted, for want of room.",
               server->journal.disk_full);
    add_refusals(text, server);
    add_validity(text, server);
    add_gaps(text, server);
    add_histogram(text, "journal_flush_seconds", "Time that a commit took: write and flush.",
                  &server->flushes);
    add_histogram(text, "renewal_seconds", "From reading a renewal to sending its reply.",
                  &server->renewals);
    add_histogram(text, "term_seconds", "How long terms lasted that ended.", &server->terms);
    add_histogram(text, "leader_gap_seconds", "How long a name was without a holder between terms.",
                  &server->gaps);
    add_names(text, server);
}
