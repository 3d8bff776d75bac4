/* gate.h - an HTTP reverse proxy that checks a token: what has none, or a stale one, is refused.
 *
 *     Fence-Token: 34           the token; missing 428, malformed or twice 400, stale 412
 *     Fence-Resource: orders    the resource, where it is not taken from the path
 *
 * Requests that only read (GET, HEAD, OPTIONS) pass unless asked otherwise. A request is read whole
 * before it is forwarded, the answer before it is given back. What another server could read in
 * another way is refused: a path with something to resolve (wire/http_path.c), framing that is not
 * plain (wire/http.c), a body where none belongs (client.c, check_form).
 *
 * Its own endpoints, which are never forwarded:
 *     PUT /.tenure/fence/RESOURCE  raise to Fence-Token; 200 only when nothing older is in flight
 *     GET /.tenure/fence/RESOURCE  where it stands
 *     GET /.tenure/fences          all fences
 *     ANY /.tenure/auth            for nginx's auth_request: 200, or 403 with the status that was
 *                                  meant in Fence-Status, because nginx knows only 401 and 403
 *     GET /.tenure/healthz         200
 *
 * Threads: the caller's, one. */
#ifndef TN_GATE_GATE_H
#define TN_GATE_GATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "tenure/error.h"
#include "tenure/time.h"

enum tn_gate_by { TN_GATE_BY_PATH, TN_GATE_BY_HEADER };

struct tn_gate_options {
    const char *listen;   /* HOST:PORT; port 0: any. */
    const char *upstream; /* http://HOST[:PORT]; NULL: only the endpoints. */
    const char *fences;   /* The file. */
    const char *resource; /* All requests belong to this one; NULL: see @by. */
    enum tn_gate_by by;   /* PATH: the first segment. */
    bool all;             /* Reads need a token as well. */
    tenure_ns timeout;    /* For the server, and for older requests to end. */
};

struct tn_gate;

/* Opens the fences and listens. The options' texts must live as long. Errors as in
 * receivers/target.h. */
TENURE_MUST_USE int tn_gate_open(const struct tn_gate_options *options, struct tn_gate **ret_gate,
                                 struct tn_text *reterr);

/* Where it listens. */
int tn_gate_port(const struct tn_gate *gate);

/* Serves until SIGTERM or SIGINT. */
void tn_gate_run(struct tn_gate *gate);

/* Takes NULL. Ends the connections. */
void tn_gate_close(struct tn_gate *gate);

#endif
