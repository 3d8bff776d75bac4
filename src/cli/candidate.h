/* candidate.h - one process that wants one name, on the embedded store: the core's session and
 * claim, driven.
 *
 * The store answers at once, so a request and its answer are one call here. The clock is read once
 * before each step, and a request's send time is that reading, as the core demands.
 *
 * Threads: one at a time. Blocks as long as the store does. */
#ifndef TN_CLI_CANDIDATE_H
#define TN_CLI_CANDIDATE_H

#include "cli/store.h"
#include "core/claim.h"
#include "core/plan.h"
#include "core/session.h"

enum tn_cli_candidate_kind {
    TN_CLI_CANDIDATE_WON,      /* Leads with @token. */
    TN_CLI_CANDIDATE_LOST,     /* @token is over, for @reason. */
    TN_CLI_CANDIDATE_DRAIN,    /* Asked to stop; leads until it says that it has. */
    TN_CLI_CANDIDATE_REFUSED,  /* A grant was not taken, for @reason. */
    TN_CLI_CANDIDATE_JEOPARDY, /* A renewal is overdue. */
    TN_CLI_CANDIDATE_SAFE,     /* And came through. */
};

struct tn_cli_candidate;

/* Called from within the functions below, which must not be called from it. */
typedef void tn_cli_candidate_hears(void *arg, enum tn_cli_candidate_kind kind, uint64_t token,
                                    enum tn_reason reason);

struct tn_cli_candidate {
    struct tn_cli_store *store;
    const char *name;
    const char *label;
    struct tn_plan plan;
    struct tn_claim_config config;
    struct tn_session session;
    struct tn_claim claim;
    struct tn_secret session_secret;
    struct tn_secret term_base; /* The secret of generation g is a hash of this and g. */
    uint64_t life;
    tenure_ns now;
    tenure_ns reopen_at;
    tenure_ns look_at; /* When the holder's time is over, unless it renews. */
    int bell;          /* -1: there is none. */
    tn_cli_candidate_hears *hears;
    void *arg;
    int error;          /* Of the last operation; 0: it was answered. */
    bool answered_ever; /* Whether the store ever answered. */
    char error_text[TN_CLI_LINE_MAX];
};

/* Begin to campaign for @name. @store, @name and @label are borrowed. Returns -1 to go on, or the
 * exit status after one line on stderr. */
int tn_cli_candidate_start(struct tn_cli_candidate *candidate, struct tn_cli_store *store,
                           const struct tn_plan *plan, const char *name, const char *label,
                           tn_cli_candidate_hears *hears, void *arg);

/* Do what is due by now: at tn_cli_candidate_wake_at, and (@rung) when the bell can be read. */
void tn_cli_candidate_run(struct tn_cli_candidate *candidate, bool rung);
tenure_ns tn_cli_candidate_wake_at(const struct tn_cli_candidate *candidate);

/* The application's word: RESIGN, DRAINED. */
void tn_cli_candidate_tell(struct tn_cli_candidate *candidate, enum tn_claim_event_kind word);

/* The deadline of the term as it stands; 0: there is none. */
tenure_ns tn_cli_candidate_deadline(const struct tn_cli_candidate *candidate);

/* Whether nothing is held, waited for or on its way back any more. */
bool tn_cli_candidate_is_idle(const struct tn_cli_candidate *candidate);

/* Close the session; what it still has is free at once. */
void tn_cli_candidate_close(struct tn_cli_candidate *candidate);

#endif
