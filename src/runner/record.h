/* record.h - what supervisor and guardian say to each other: one fixed-size record per packet.
 *
 * Both are the same program on the same machine, one forked from the other, so the record is a
 * plain struct. SOCK_SEQPACKET keeps the borders: a record comes whole or not at all. */
#ifndef TN_RUNNER_RECORD_H
#define TN_RUNNER_RECORD_H

#include <stdint.h>

#include "tenure/time.h"

enum tn_guard_record_kind {
    /* Supervisor to guardian. */
    TN_RECORD_EXTEND = 1, /* @at: the new deadline. */
    TN_RECORD_STOP,
    TN_RECORD_SIGNAL, /* @value: the signal's number. */

    /* Guardian to supervisor; @at is when it happened. */
    TN_RECORD_STARTED,     /* @value: the command's pid. */
    TN_RECORD_EXEC_FAILED, /* @value: errno. */
    TN_RECORD_STOPPING,    /* @value: enum tn_guardian_reason. */
    TN_RECORD_KILLING,
    TN_RECORD_EXITED, /* @value: the wait status. */
    TN_RECORD_REAPED,
};

struct tn_guard_record {
    uint32_t kind;
    int32_t value;
    tenure_ns at;
};

#endif
