/* log.h - lines to stderr.
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_LOG_H
#define TN_DAEMON_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "tenure/time.h"

struct tn_server;

/* Lines that peers can cause, as often as they like. */
enum tn_said { TN_SAID_TLS, TN_SAID_SLOW, TN_SAID_OLDER, TN_SAID_COUNT };

struct tn_quiet {
    tenure_ns until;
    uint64_t left_out;
};

/* One line to stderr; never waits for it once tn_log_open was called. tn_log is for warnings. */
void tn_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tn_log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tn_log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Whether a line that peers can cause may be logged: one in a second of each kind. */
bool tn_log_due(struct tn_server *server, enum tn_said what);
/* From here on lines have the time and a level, and are JSON objects if asked for. */
void tn_log_open(bool json);
/* The program ends: wait a moment for the last lines. */
void tn_log_finish(void);

#endif
