/* resp_link.h - a client of a server that speaks RESP: commands out, one answer each, on a stream.
 *
 * Commands are pipelined: each is written as soon as it is sent, whatever is still unanswered. What
 * is sent while there is no connection waits for one. On every new connection comes a greeting
 * first:
 *
 *   connected -> HELLO 3, with AUTH -> up(): greet(), greet(), ... ready() -> what has waited
 *
 * A call ends exactly once, by done(), never from within send:
 *   answered                 status 0, and the reply, which may be an error of the server's
 *   not written in time      the code and text of why there is no connection: it did not happen
 *   written, and the connection was lost, or no answer in time: TENURE_E_TIMEOUT, who knows.
 *                            Answers come in order, so one that is late gives the connection up
 *   tn_resp_link_close       TENURE_E_CLOSED, written or not
 *
 * Threads: the loop's. Never blocks. */
#ifndef TN_RUNTIME_RESP_LINK_H
#define TN_RUNTIME_RESP_LINK_H

#include "runtime/stream.h"
#include "wire/resp.h"

struct tn_resp_call {
    /* Set by the caller before it is sent. The memory is the caller's, and left alone until done.
     */
    void (*done)(struct tn_resp_call *call);
    tenure_ns give_up_at; /* On the stream's clock; TN_NEVER: no limit. */
    uint32_t confirms;    /* Of SUBSCRIBE and its like: how many messages confirm it. Otherwise 0.
                             The last of them is the reply. */
    /* Good in done(). */
    int status;
    const char *error;          /* When @status is not 0, for people. */
    struct tn_resp_value value; /* When it is 0: the reply's head, and all of its bytes. */
    const char *reply;
    size_t reply_len;
    /* The link's own. */
    struct tn_resp_call *next;
    char *bytes; /* While it waits. */
    size_t len;
};

struct tn_resp_calls {
    struct tn_resp_call *first, **end;
};

struct tn_resp_host {
    /* A new connection, after HELLO: greet if need be, then, in time, tn_resp_link_ready. */
    void (*up)(void *arg);
    /* Only after up(), before the calls that were written end. */
    void (*down)(void *arg);
    /* A message that answers no call: a frame of @len bytes, read with tn_resp_next. NULL: nobody
     * wants it. */
    void (*push)(void *arg, const char *frame, size_t len);
};

struct tn_resp_link {
    struct tn_stream stream; /* Set before init: all but host and arg; see stream.h. */
    const struct tn_resp_host *host;
    void *arg;
    const char *user, *password;  /* For HELLO; borrowed. NULL or empty: none. */
    void (*connected)(void *arg); /* Before HELLO: where it leads is known, and @user and @password
                                     may be set. NULL: they stay. */
    uint32_t reply_max;           /* Bytes of one reply; 0: 16 MiB. */
    bool no_hello;                /* RESP2, and no greeting but AUTH where there is a password. */
    /* May be read. */
    bool ready;
    /* The link's own. */
    bool greeted; /* up() was called. */
    bool subscribed, closing;
    struct tn_resp_calls waiting, sent;
    struct tn_resp_call hello;
    bool plain_auth;             /* The server knows no HELLO. */
    char refusal[TN_ERROR_TEXT]; /* Why the last connection was of no use; empty: it was. */
    struct tn_resp_scan scan;
    char *in;
    size_t in_len, in_size;
    char *scratch;
    size_t scratch_size;
    uint64_t epoch; /* Counts connections. */
    uv_timer_t timer;
    tenure_ns wake_at;
    unsigned parts;
    void (*closed)(void *arg);
};

/* As tn_stream_init. */
TENURE_MUST_USE int tn_resp_link_init(struct tn_resp_link *link,
                                      const struct tn_endpoint *endpoints, unsigned count,
                                      uint64_t seed);

void tn_resp_link_start(struct tn_resp_link *link);

/* The words are copied. Returns 0 or TENURE_E_NOMEM; then done() is not called. */
TENURE_MUST_USE int tn_resp_link_send(struct tn_resp_link *link, struct tn_resp_call *call,
                                      const struct tn_resp_word *words, uint32_t count);

/* The same between up() and ready(), past those who wait. */
TENURE_MUST_USE int tn_resp_link_greet(struct tn_resp_link *link, struct tn_resp_call *call,
                                       const struct tn_resp_word *words, uint32_t count);

/* The greeting is over: what waits is written. */
void tn_resp_link_ready(struct tn_resp_link *link);

/* The server does not let us in: every call that waits ends with @status, and the connection is
 * given up as soon as the loop comes round. Later ones try again. */
void tn_resp_link_refuse(struct tn_resp_link *link, int status, const char *why);

/* "SCHEME WHERE: why it is not connected". */
const char *tn_resp_link_error(const struct tn_resp_link *link);

/* Ends every call, then closes; no more callbacks but @closed, with the link's arg. */
void tn_resp_link_close(struct tn_resp_link *link, void (*closed)(void *arg));

/* A word of a command. */
struct tn_resp_word tn_resp_word_of(const char *text);

/* Whether @value, a string or an error, begins with @text and then ends or goes on with a blank. */
bool tn_resp_begins(const struct tn_resp_value *value, const char *text);

#endif
