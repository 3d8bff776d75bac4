/* grpc.h - gRPC calls over one HTTP/2 connection, without the connection: bytes in, bytes out.
 *
 *   tn_grpc_start, tn_grpc_send --> [nghttp2] --> tn_grpc_pull --> the caller's socket
 *   message(), done()           <-- [nghttp2] <-- tn_grpc_feed <-- the caller's socket
 *
 * A unary call sends one message as its last; a stream sends any number. message() and done() are
 * called from within tn_grpc_feed and tn_grpc_free only; they may start and cancel calls, but not
 * feed or free. done() comes exactly once unless the call was cancelled, and after it the call's
 * memory is the caller's.
 * Threads: one at a time. Never blocks, reads no clock. */
#ifndef TN_STORES_ETCD_GRPC_H
#define TN_STORES_ETCD_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/text.h"
#include "tenure/error.h"

struct tn_grpc;

/* gRPC's own status codes, and ours for a call that ended without one. */
enum tn_grpc_status {
    TN_GRPC_LOST = -1, /* The stream or the connection ended first. */
    TN_GRPC_OK = 0,
    TN_GRPC_INVALID_ARGUMENT = 3,
    TN_GRPC_NOT_FOUND = 5,
    TN_GRPC_PERMISSION_DENIED = 7,
    TN_GRPC_RESOURCE_EXHAUSTED = 8,
    TN_GRPC_FAILED_PRECONDITION = 9,
    TN_GRPC_OUT_OF_RANGE = 11,
    TN_GRPC_UNIMPLEMENTED = 12,
    TN_GRPC_UNAVAILABLE = 14,
    TN_GRPC_UNAUTHENTICATED = 16,
};

struct tn_grpc_buf {
    uint8_t *data;
    size_t len, size, at; /* @at: read so far. */
};

struct tn_grpc_call {
    /* Set by the caller before tn_grpc_start. */
    void (*message)(struct tn_grpc_call *call, const uint8_t *data, size_t len);
    void (*done)(struct tn_grpc_call *call);
    void *arg;
    /* Good in done(). */
    int status;                     /* enum tn_grpc_status, or another code of gRPC's. */
    bool sent;                      /* The server may have seen it. */
    char text[TN_ERROR_TEXT - 100]; /* grpc-message, or why there is no status. */
    /* The layer's own. */
    struct tn_list_node under_way;
    struct tn_grpc *grpc; /* NULL: not under way. */
    int32_t stream;
    bool last;
    struct tn_grpc_buf out, in;
};

struct tn_grpc_field {
    const char *name, *value;
};

/* @authority is copied. Returns 0 or TENURE_E_NOMEM. */
TENURE_MUST_USE int tn_grpc_new(struct tn_grpc **ret_grpc, const char *authority, bool tls);

/* Ends every call under way with TN_GRPC_LOST. NULL is fine. */
void tn_grpc_free(struct tn_grpc *grpc);

/* Begin a call; nothing is written yet. The fields are copied. Returns 0, TENURE_E_NOMEM, or
 * TENURE_E_UNAVAILABLE when the server wants no more calls on this connection. */
TENURE_MUST_USE int tn_grpc_start(struct tn_grpc *grpc, struct tn_grpc_call *call, const char *path,
                                  const struct tn_grpc_field *fields, size_t count);

/* Add a message; @last: there are no others. Returns 0 or TENURE_E_NOMEM. */
TENURE_MUST_USE int tn_grpc_send(struct tn_grpc_call *call, const void *data, size_t len,
                                 bool last);

/* Nobody wants the answer: no callback comes from now on. Fine on a call that is not under way. */
void tn_grpc_cancel(struct tn_grpc_call *call);

/* Bytes that arrived. Returns 0, or TENURE_E_DAMAGED: close the connection. */
TENURE_MUST_USE int tn_grpc_feed(struct tn_grpc *grpc, const uint8_t *data, size_t len);

/* Bytes to be written, good until the next call; 0: none, negative: close the connection. From a
 * call's own callback it is always 0; pull after the feed or in the pull that called it. */
ssize_t tn_grpc_pull(struct tn_grpc *grpc, const uint8_t **ret_data);

/* The server has said that it is leaving: calls under way may finish, others go elsewhere. */
bool tn_grpc_leaving(const struct tn_grpc *grpc);

#endif
