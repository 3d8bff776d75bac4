/* console.h - what the parts of `tenure console` share: the store's names as they were last seen
 * (console.c), how long their leases live (console_life.c), hand-overs (console_wish.c), and the
 * page's requests (console_http.c).
 *
 * Threads: one, that of the loop. */
#ifndef TN_CLI_CONSOLE_H
#define TN_CLI_CONSOLE_H

#include <limits.h>
#include <uv.h>

#include "base/dict.h"
#include "base/list.h"
#include "base/secret.h"
#include "cli/recorded.h"
#include "runtime/store.h"

/* When a lease ends if its holder stays silent: between two instants of the console's clock. */
struct tn_life {
    tenure_ns ttl; /* 0: not known. */
    tenure_ns low, high;
    bool silent;         /* The holder has missed a renewal, so the bounds are narrowed. */
    bool asked;          /* A READ is under way, */
    tenure_ns asked_at;  /* since then, or the last one was sent then; 0: never. */
    tenure_ns wanted_at; /* A page has asked for it last. */
};

/* A name, and when it was seen so. */
struct tn_seen {
    struct tn_dict_node node;
    struct tn_store_record record;
    struct tn_life life;
    tenure_ns at;
    tenure_ns heard_at; /* When the store's news of it came last; 0: never. */
    uint64_t round;     /* The listing that it was last in. */
    bool watched;
    char name[];
};

struct tn_console_http;

struct tn_console {
    uv_loop_t loop;
    struct tn_clock clock;
    struct tn_store *store;
    char url[256];         /* As the page shows it: without user, password and options. */
    struct tn_secret key;  /* In the page's address. */
    char opened[PATH_MAX]; /* The file that led the browser there; empty: none. */
    struct tn_dict names;
    uint32_t watches;
    uint64_t round;
    bool listing, synced, ending;
    tenure_ns asked_at, took;  /* When the last listing was asked for, and how long one took. */
    int failed;                /* Of the last listing; 0: it was answered. */
    struct tn_history history; /* Recorded here, where the store keeps none. */
    char path[PATH_MAX];       /* Where to; empty: nowhere. */
    uv_timer_t timer;
    uv_signal_t signals[2];
    struct tn_console_http *http;
    unsigned looks;        /* READs that are under way. */
    struct tn_list wishes; /* Hand-overs that are under way. */
};

tenure_ns tn_console_now(const struct tn_console *console);
/* Whether what is known is as of now, for all that is known. */
bool tn_console_is_fresh(const struct tn_console *console);
/* A lease as the API gives it. */
void tn_console_lease(const struct tn_console *console, const struct tn_seen *seen,
                      struct tn_text *text);

/* --- console_life.c --------------------------------------------------------------------------- */

/* @record was asked for at @asked and has just come; seen->record is the one before it. */
void tn_life_learn(const struct tn_console *console, struct tn_seen *seen,
                   const struct tn_store_record *record, tenure_ns asked);
/* What is left of the lease, at best knowledge. */
tenure_ns tn_life_left(const struct tn_life *life, tenure_ns now);
/* The lease is gone at @now: why, as far as that can be concluded. If its holder was silent until
 * the end: when it was last heard of. */
enum tn_term_end tn_life_end(const struct tn_seen *seen, tenure_ns now, tenure_ns *ret_heard);
/* Ask the store for what its listings do not tell. */
void tn_life_look(struct tn_console *console);

/* --- console_wish.c --------------------------------------------------------------------------- */

/* What came of the request: @status 0 and an answer; STALE: not held under that token; HELD:
 * another wish is in force, @text. */
typedef void tn_wish_done(void *arg, int status, enum tn_answer answer, const char *text);

/* Ask the holder of @name under @token to step down. @done comes once, never inside the call.
 * False: out of memory, or the name is too long. */
bool tn_wish_handover(struct tn_console *console, const char *name, uint64_t token,
                      tn_wish_done *done, void *arg);
/* A record of @name has come: a later term is what was wished for. */
void tn_wish_see(struct tn_console *console, const char *name,
                 const struct tn_store_record *record);
/* Every tick: wishes that came to nothing are taken back. */
void tn_wish_tick(struct tn_console *console);
/* The store is closed. */
void tn_wish_close(struct tn_console *console);

/* --- console_http.c --------------------------------------------------------------------------- */

/* Serve on @fd, which is listening. NULL: out of memory or descriptors. */
struct tn_console_http *tn_console_http_open(struct tn_console *console, int fd);
/* A name has changed: tell all who listen. Every second: a sign of life, if there is any. */
void tn_console_http_changed(struct tn_console_http *http, const struct tn_seen *seen);
void tn_console_http_beat(struct tn_console_http *http);
/* All names are known for the first time. */
void tn_console_http_synced(struct tn_console_http *http);
/* No request is left waiting. Its handles are closed with the loop's. */
void tn_console_http_close(struct tn_console_http *http);

#endif
