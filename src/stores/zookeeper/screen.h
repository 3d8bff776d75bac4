/* screen.h - which of a server's bytes may reach the client library.
 *
 * The library believes what it reads: it asserts that an answer has a request, takes any length for
 * a length, and goes on with what it could not decode. One malformed frame ends the process, and
 * with it the application. So every frame is decoded here first, by what was asked: an answer must
 * belong to the oldest request (its xid), have that request's form, and end where its frame ends.
 *
 * Pure: no I/O. Threads: one at a time. */
#ifndef TN_STORES_ZOOKEEPER_SCREEN_H
#define TN_STORES_ZOOKEEPER_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tenure/error.h"

enum {
    TN_ZK_FRAME_MAX = 64 << 20,
    TN_ZK_SUBS_MAX = 2, /* Steps of a transaction; ours have no more. */
};

/* A request without an answer. */
struct tn_zk_asked {
    struct tn_zk_asked *next;
    int32_t xid, type;
    unsigned subs;
    int32_t sub[TN_ZK_SUBS_MAX];
    size_t path_len; /* CREATE, SYNC: their answers repeat it. */
    uint8_t path[];
};

struct tn_zk_screen {
    bool resumes; /* The client has a session: the server may say that it is over. */
    bool greeted;
    unsigned pings, logins, rewatches; /* Their answers have no number of their own. */
    struct tn_zk_asked *first, *last;
    const char *why; /* What was wrong; NULL: nothing yet. */
};

/* @screen is zeroed, but for @resumes. The library has sent the request for a session. */
void tn_zk_screen_free(struct tn_zk_screen *screen);

/* A frame of the library, without its length. Returns 0, TENURE_E_NOMEM, or TENURE_E_DAMAGED: it is
 * none that this store asks for. */
TENURE_MUST_USE int tn_zk_screen_request(struct tn_zk_screen *screen, const uint8_t *frame,
                                         size_t len);

/* A frame of the server, without its length. Returns 0, or TENURE_E_DAMAGED: end the connection. */
TENURE_MUST_USE int tn_zk_screen_answer(struct tn_zk_screen *screen, const uint8_t *frame,
                                        size_t len);

#endif
