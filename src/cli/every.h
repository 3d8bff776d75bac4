/* every.h - `tenure run --every D`: not again within the period, whichever host ran last.
 *
 * The store remembers a run as a lease of its own, the mark: "~tenure/every/NAME". Its holder's
 * label says which host ran and when the command started; its TTL is what is left of the period.
 * The mark belongs to no process, so it outlives the host. Only a process that leads NAME reads or
 * writes it, so reading the mark, running the command and writing the mark are one step for all
 * other hosts.
 *
 * A store may keep the mark for longer than its TTL: tenured after a restart, PostgreSQL until
 * somebody waits for it. So the instant in the label counts as well. The hosts' clocks must agree
 * as well as cron needs them to. The mark proves nothing and guards nothing: its secrets follow
 * from its label, so that any host may replace a mark that is over. */
#ifndef TN_CLI_EVERY_H
#define TN_CLI_EVERY_H

#include "cli/campaign.h"
#include "core/note.h"

struct tn_every {
    tenure_ns period; /* 0: not asked for. */
    const char *url;
    const char *label;          /* Of this host. */
    char name[TN_NAME_MAX + 1]; /* Of the mark. */
    struct tn_cli_store store;  /* Opened with the first question. */
    bool open;
    bool told; /* That the store does not answer. */
};

/* Refuse a period that the store cannot remember. Returns -1 to go on, or the exit status. */
int tn_every_check(struct tn_every *every, const char *name, const char *url);

enum tn_every_answer { TN_EVERY_DUE, TN_EVERY_DONE, TN_EVERY_UNKNOWN, TN_EVERY_FAILED };

/* Whether the command is to run; leading NAME. UNKNOWN: ask again. FAILED: *@ret_status, told. */
enum tn_every_answer tn_every_ask(struct tn_every *every, int *ret_status);

/* The command that started at @started (of the boot clock) has succeeded; still leading NAME as
 * long as @election has a token. A failure is told as a warning. */
void tn_every_note(struct tn_every *every, struct tenure_election *election, tenure_ns started);

void tn_every_close(struct tn_every *every);

#endif
