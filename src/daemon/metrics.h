/* metrics.h - what the daemon counts, for /metrics and INFO.
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_METRICS_H
#define TN_DAEMON_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "tenure/error.h"
#include "tenure/time.h"

struct tn_server;
struct tn_conn;

#define TN_HISTOGRAM_BUCKETS 20
#define TN_REASONS 9

/* Up to @first, twice that, four times, ...; the last takes the rest. */
struct tn_histogram {
    tenure_ns first;
    uint64_t sum;
    uint64_t count[TN_HISTOGRAM_BUCKETS];
};

TENURE_MUST_USE int tn_metrics_open(struct tn_server *server);
void tn_metrics_close(struct tn_server *server);
void tn_histogram_add(struct tn_histogram *histogram, tenure_ns took);
/* An error was answered; @line begins with its word. */
void tn_metrics_refused(struct tn_server *server, const char *line);
void tn_metrics_changed(struct tn_server *server, uint32_t lease, bool held);
/* The replies to the connection's renewals are on their way. */
void tn_metrics_sent(struct tn_conn *conn);
void tn_metrics_write(struct tn_server *server, struct tn_text *text);
/* Room for all that it writes. */
enum { TN_METRICS_NAMES_MAX = 500, TN_METRICS_SIZE = 32 * 1024 + TN_METRICS_NAMES_MAX * 1200 };

/* Of cmd_info.c. */
extern const char tn_daemon_version[];

/* --- process.c -------------------------------------------------------------------------------- */

struct tn_process {
    uint64_t memory;       /* Bytes that are resident. */
    uint64_t fds, fds_max; /* Open descriptors, and how many there may be. */
    double cpu_seconds;    /* User and system. */
    tenure_ns uptime;
};

/* How the process is. What the kernel does not tell is 0. */
void tn_process_read(const struct tn_server *server, struct tn_process *ret_process);

#endif
