/* run.h - what the parts of `tenure run` share: the campaign and the loop (run.c), and the command
 * below its guardian (run_command.c).
 *
 * The phase says whether a term is ours, and whether a command runs:
 *
 *                    no term                 our term
 *   nothing runs     WAITS -------won-----> STARTS --asked, cannot start--> KEEPS --lost--> WAITS
 *                      ^ <-------lost--------- |                              ^
 *                    reaped                 started                         reaped
 *                      |                       v                              |
 *   a command runs   LOST <--lost--+----- RUNS --asked--> ASKED --cut--> CUT -+
 *
 * Each of RUNS, ASKED and CUT can be reaped and can be lost, and RUNS can be cut.
 * Threads: the main one. */
#ifndef TN_CLI_RUN_H
#define TN_CLI_RUN_H

#include "cli/cron.h"
#include "cli/every.h"
#include "cli/service.h"
#include "cli/sidecar.h"
#include "runner/guardian.h"

enum tn_run_phase {
    TN_RUN_WAITS,  /* Another leads, or nobody. */
    TN_RUN_STARTS, /* We lead, and the command is to be started. */
    TN_RUN_RUNS,   /* We lead, and the command runs. */
    TN_RUN_ASKED,  /* An operator asked for the end of the term: the command is being stopped. */
    TN_RUN_CUT,    /* The guardian ended the command, and neither it nor we were asked to. */
    TN_RUN_LOST,   /* Another may lead: what is left of the command is being ended. */
    TN_RUN_KEEPS,  /* The command is over, or was not started; the lease is still ours. */
    TN_RUN_PHASE_COUNT,
};

struct tn_run {
    struct tn_campaign campaign;
    struct tenure_election *election;
    enum tn_run_phase phase;
    struct tn_guardian *guardian; /* NULL: nothing runs. */
    const char *name;
    char **argv;
    const char *fence;
    const char *contain_word; /* NULL: auto. */
    enum tn_contain contain;
    const char *http_address;
    struct tn_sidecar sidecar;
    struct tn_cron cron;
    struct tn_every every;
    struct tn_service service;
    bool quiet;
    bool once;
    bool leaving;  /* No further campaign: the exit status is known, or follows from the command. */
    bool detached; /* There is no terminal. */
    bool led;      /* Once, so that the fence is right in itself. */
    bool taken;    /* By another, as heard last. */
    /* Each of these lines is printed once; the first for each term, the last until a term. */
    bool told_lost, told_unfenced, told_uncontained, told_refused;
    int status; /* -1: not known yet. */
    uint64_t token;
    tenure_ns deadline; /* The last one told to the guardian. */
};

/* run.c */
void tn_run_move(struct tn_run *run, enum tn_run_phase phase);
/* No further campaign. @status, unless another one is known already. */
void tn_run_leave(struct tn_run *run, int status);
/* One line for each term that is lost, with what the store said last if it did not answer. */
void tn_run_tell_lost(struct tn_run *run, const char *why);
/* Why a run without a limit waits; one with a limit says so at its end. */
void tn_run_tell_outage(struct tn_run *run);

/* run_command.c: start the command when it is to be started, and tell the guardian the deadline. */
void tn_run_drive_command(struct tn_run *run);
/* What the guardian says of the command. */
void tn_run_hear_guardian(struct tn_run *run);

#endif
