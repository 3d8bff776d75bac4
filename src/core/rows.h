/* rows.h - the recipe for engines that keep versioned rows and nothing else.
 *
 * Such an engine (Kubernetes Leases, DynamoDB, S3) reads a row, and writes it if its version is
 * still the one that was read. It has no sessions and expires nothing. This file turns the
 * operations of a store into such reads and writes, and decides what their outcomes mean:
 *
 *   acquire, release   +---------------------+  get(name)
 *   renew, revoke ---> | tn_rows, one session| ----------------->  engine
 *   read               | tn_rows_claim, each | <-----------------  got(row, version)
 *   done, renewed <--- | a term on one name  |  put(row, if version)
 *   ended              +---------------------+ <-----------------  written, conflict, or unknown
 *
 * Rules that peers broke, each with a plant of its own (plant.h):
 * - A grant rests on a write of this process, never on a read: a row that an earlier write with an
 *   unknown outcome left behind is written again before it counts.
 * - A renewal of the session is one write to each row held, all sent after the renewal began. A row
 *   that joins later is written again first, because no observer has seen it change since.
 * - A write whose outcome is unknown is settled by a read, never by repeating it blindly.
 * - A release writes a free row and keeps it: the token counts on from there.
 * - A holder that is silent for its own TTL is over, counted by the taker's clock from after the
 *   read that first showed its row as it is (observer.h). No clock is compared with another's.
 * - The token of a term never changes. Where the engine mints it, it is the version of the write
 *   that acquired the row, not of a later one; the writes after it carry it in the row.
 *
 * An engine may have sessions with a TTL of its own (Consul). Then nothing is observed: a row is
 * held as long as its session lives, and the engine says so. A renewal is one call for all rows;
 * each is sent by itself, so that one that hangs does not hold up the next. A session that is gone
 * is never replaced by another one under terms that are still believed. Should the engine end a
 * session early, its lock-delay keeps the rows from others for as long as the holder may believe in
 * it.
 *
 * A script acquires in one process and renews in another, which knows the secrets and the name. It
 * adopts the term first: a read shows that the row is still that session's and term's. That alone
 * extends nothing; the renewal after it does, by a write or a call like any other.
 *
 * Threads: one at a time. Memory: the caller's, nothing allocated. Never blocks, reads no clock;
 * the host's functions are called from within these calls and must not call back. */
#ifndef TN_CORE_ROWS_H
#define TN_CORE_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/secret.h"
#include "base/time.h"
#include "core/lease_table.h"
#include "core/rows_name.h"

enum {
    TN_ROWS_RENEWALS = 8, /* Renewals that may wait at once: as many as a session's attempts. */
};

enum tn_rows_goal {
    TN_ROWS_REST, /* Nothing to do. */
    TN_ROWS_READ,
    TN_ROWS_ACQUIRE,
    TN_ROWS_RENEW,
    TN_ROWS_RELEASE,
    TN_ROWS_REVOKE,
    TN_ROWS_GIVE_BACK, /* A release of our own accord; nobody is told. */
    TN_ROWS_ADOPT,     /* A term that another process of the same session has acquired. */
};

/* How a write, or a call about the session, ended. */
enum tn_rows_outcome {
    TN_ROWS_WRITTEN,
    TN_ROWS_CONFLICT, /* The version was another one; nothing was written. */
    TN_ROWS_FAILED,   /* Not written, and never will be. */
    TN_ROWS_UNKNOWN,  /* Written, or not, or not yet. */
    TN_ROWS_DELAYED,  /* Nobody holds the row, and the engine does not let anybody have it yet. */
    TN_ROWS_GONE,     /* The engine does not know the session (any more). */
};

#define TN_ROWS_DELAY_MOST TN_SEC(60) /* The longest lock-delay that Consul accepts. */

/* One term on one name; the caller's, usually the first member of something larger. */
struct tn_rows_claim {
    struct tn_rows *rows;
    struct tn_rows_name *name;
    struct tn_rows_claim *next, *prev; /* Among those of the session. */
    struct tn_secret term;             /* The hash. */
    enum tn_rows_goal goal;
    bool held;                    /* Granted, and not known to be over. */
    bool revoked;                 /* Was held, and has not been given back since. */
    bool known;                   /* @row and @version are what the engine said last. */
    bool putting;                 /* What is under way is a write. */
    bool unsettled;               /* A write of this goal may still arrive. */
    uint64_t token;               /* Of the term. */
    uint64_t asked;               /* RELEASE, REVOKE: the token that was named; 0: any. */
    struct tn_row row;            /* As last seen or written. */
    char version[TN_ROW_VERSION]; /* Empty: there is no row. */
    uint64_t covered;             /* Renewals begun when the last successful write was sent. */
    uint64_t sent_in;             /* The same of the request under way. */
    uint64_t request;             /* Number of the request under way; 0: none. */
    tenure_ns sent_at;            /* Of that request. */
    tenure_ns give_up_at;
    tenure_ns give_back_at; /* Engines with sessions: of a row that was revoked. */
    uint32_t tries;
};

/* The end of a goal. The row is the claim's. */
struct tn_rows_answer {
    bool failed;  /* No answer: the engine could not be asked, */
    bool unknown; /* and something may have been written all the same. */
    enum tn_answer answer;
};

struct tn_rows_host {
    /* Read the row; answer with tn_rows_got or tn_rows_get_failed and the same @request. */
    void (*get)(void *arg, struct tn_rows_claim *claim, uint64_t request);
    /* Write @row if the version is still claim->version (empty: if there is none); answer with
     * tn_rows_put_done. */
    void (*put)(void *arg, struct tn_rows_claim *claim, uint64_t request, const struct tn_row *row);
    /* ACQUIRE, RELEASE, READ, REVOKE or ADOPT has ended. */
    void (*done)(void *arg, struct tn_rows_claim *claim, enum tn_rows_goal goal,
                 const struct tn_rows_answer *answer);
    /* Renewal @seq has ended: WRITTEN, GONE or anything else, which is a failure; @held: as in
     * struct tn_result. */
    void (*renewed)(void *arg, uint64_t seq, enum tn_rows_outcome outcome, uint32_t held);
    /* A term that was held is over: revoked, taken over, or deleted. Comes before the renewal that
     * found out is answered. */
    void (*ended)(void *arg, struct tn_rows_claim *claim);
    uint64_t (*nonce)(void *arg);
    /* Engines with sessions: OPEN one, RENEW or CLOSE the one called @id; answer the first two with
     * tn_rows_session_done and the same @number. */
    void (*session)(void *arg, uint64_t number, enum tn_op_kind kind, const char *id);
};

struct tn_rows_renewal {
    uint64_t seq;
    tenure_ns begun_at;
    uint64_t number; /* Among the renewals begun. */
    bool failed;
    bool done; /* Engines with sessions: it has succeeded. */
};

/* One session of this process. */
struct tn_rows {
    const struct tn_rows_host *host;
    void *arg;
    struct tn_secret session; /* The hash. */
    tenure_ns ttl;
    /* The engine's versions are decimal numbers that rise over the whole engine, also over the
     * deletion of a row: they become the tokens (tn_row_token). */
    bool mints;
    bool has_sessions;     /* The engine has; set together with the host's session(). */
    bool gone;             /* The engine has ended this session. */
    char id[TN_ROW_OWNER]; /* The engine's name of it; empty: it is not open yet. */
    const char *label;
    uint32_t label_len;
    /* A request without an answer has an unknown outcome after this; one of an ACQUIRE, or that
     * opens a session, which no deadline waits for, may take longer. */
    tenure_ns attempt_timeout, acquire_timeout;
    /* Engines with sessions, where rows do not change as long as all is well: how long a change
     * feed is trusted that says nothing; a TTL unless the host knows how often it speaks. */
    tenure_ns feed_trust;
    struct tn_rows_claim *claims;
    tenure_ns good_until; /* A TTL from when the last successful renewal began. */
    uint64_t begun;       /* Renewals so far. */
    uint64_t requests;    /* Numbers given out. */
    uint32_t renewal_count;
    struct tn_rows_renewal renewals[TN_ROWS_RENEWALS]; /* Oldest first. */
};

/* @host and the label are borrowed for the session's life. */
void tn_rows_init(struct tn_rows *rows, const struct tn_rows_host *host, void *arg,
                  const struct tn_secret *session_hash, tenure_ns ttl, tenure_ns attempt_timeout,
                  tenure_ns acquire_timeout);

/* @name is borrowed for the claim's life; zeroed, it knows nothing yet. @term_hash NULL: a claim
 * that only reads or revokes. */
void tn_rows_add(struct tn_rows *rows, struct tn_rows_claim *claim, struct tn_rows_name *name,
                 const struct tn_secret *term_hash);
/* Forget it, whatever it is doing; answers that still come for it must not be passed on. */
void tn_rows_remove(struct tn_rows_claim *claim);
/* Its row could not be given back: it is left to those who observe it. */
void tn_rows_abandon(struct tn_rows_claim *claim);
/* @by has just written its row as held: no other term on that name is left to be given back. */
void tn_rows_outdate(struct tn_rows *rows, const struct tn_rows_claim *by);

/* Begin one goal; the claim must be at rest or renewing (tn_rows_is_free). @op is as for the lease
 * table: ACQUIRE, RELEASE, READ or REVOKE; and RENEW, which adopts the term with op->token: OK, or
 * GONE, if the row is not, or no longer, of this session, term and token. An adopted session has
 * the TTL and, where the engine has sessions, the id that the row has.
 * A candidate that a read has refused asks again every now and then: while a change feed shows
 * another holder, and that one is not silent, the answer is HELD without another read. */
void tn_rows_start(struct tn_rows_claim *claim, tenure_ns now, const struct tn_op *op);
bool tn_rows_is_free(const struct tn_rows_claim *claim);

enum tn_rows_whose tn_rows_whose(const struct tn_rows *rows, const struct tn_rows_name *name,
                                 const struct tn_row *row);

/* Somebody has written to a name that this claim may hold: look whether it still does. */
void tn_rows_look(struct tn_rows_claim *claim, tenure_ns now);

/* Whether the session was not renewed for a TTL: others may have taken all that it had. */
bool tn_rows_is_over(const struct tn_rows *rows, tenure_ns now);
/* Then nothing of it is held any longer. */
void tn_rows_abandon_all(struct tn_rows *rows);

/* Write every row held; answered by renewed(@seq), at once if none is. */
void tn_rows_renew(struct tn_rows *rows, tenure_ns now, uint64_t seq);

/* The engine's answers. */
void tn_rows_got(struct tn_rows_claim *claim, tenure_ns now, uint64_t request,
                 const struct tn_row *row, const char *version);
void tn_rows_get_failed(struct tn_rows_claim *claim, tenure_ns now, uint64_t request);
void tn_rows_put_done(struct tn_rows_claim *claim, tenure_ns now, uint64_t request,
                      enum tn_rows_outcome outcome, const char *version);

void tn_rows_session_done(struct tn_rows *rows, tenure_ns now, uint64_t number,
                          enum tn_rows_outcome outcome, const char *id);
/* All rows are given back, or cannot be: end the session in the engine. */
void tn_rows_close_session(struct tn_rows *rows);
/* How long nobody may have a row whose session the engine has ended. */
tenure_ns tn_rows_lock_delay(tenure_ns ttl);

/* Time has passed: give up requests without an answer. */
void tn_rows_tick(struct tn_rows *rows, tenure_ns now);
tenure_ns tn_rows_wake_at(const struct tn_rows *rows);

#endif
