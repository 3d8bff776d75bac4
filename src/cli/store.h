/* store.h - what the verbs on a store share: opening it, names, secrets, and how a lease is shown.
 *
 * The functions that can fail return -1 to go on, or the exit status after having said why in one
 * line on stderr. */
#ifndef TN_CLI_STORE_H
#define TN_CLI_STORE_H

#include "cli/cli.h"
#include "core/lease_table.h"
#include "core/plan.h"
#include "runtime/store.h"

/* Both halves of a term's secret as one word: 64 hexadecimal digits. */
enum { TN_SECRET_TEXT = 65 };

struct tn_ask; /* The store on a loop of its own. */

struct tn_cli_store {
    const char *verb;
    struct tn_clock clock; /* The store borrows it: do not move. */
    tenure_ns start;       /* When it was asked for. */
    const struct tn_store_ops *ops;
    struct tn_ask *ask; /* NULL: there is none yet, nothing was ever held. */
    bool missing;       /* So the server said; it was not asked to make one. */
};

#define TN_STORE(target_)                                                    \
    TN_STRING("store", 's', (target_), "URL", "$TENURE_STORE, else sqlite:", \
              "where the leases are; 'tenure --version' lists the kinds")

/* --- ask.c: the store ------------------------------------------------------------------------- */

/* Open the store that @url, else TENURE_STORE names; without both, or as "sqlite:", the file
 * tenure/tenure.db in the user's state directory. With @create what is missing is made, and a store
 * that is unavailable is tried again for @wait; without, a missing one is no error. */
int tn_cli_store_open(const char *verb, const char *url, bool create, tenure_ns wait,
                      struct tn_cli_store *ret_store);
void tn_cli_store_close(struct tn_cli_store *store);

/* Say what @error and @text are about; returns the exit status. */
int tn_cli_store_fail(const char *verb, int error, const char *text);

/* One operation, and its answer. tn_cli_ask returns the request's status and says nothing. */
int tn_cli_step(struct tn_cli_store *store, const struct tn_op *op, struct tn_store_req *ret_req);
int tn_cli_ask(struct tn_cli_store *store, const struct tn_op *op, struct tn_store_req *ret_req);

/* The store has told that the term of @token was taken away. */
bool tn_cli_is_revoked(const struct tn_cli_store *store, uint64_t token);

/* All names that begin with @prefix; the array is the caller's to free. Operators' notes are left
 * out unless the prefix is theirs. Returns 0 or the error. */
int tn_cli_list_ask(struct tn_cli_store *store, const char *prefix,
                    struct tn_store_lease **ret_leases, size_t *ret_count, struct tn_text *reterr);

/* What the store tells of the term in @lease beside its record; without an answer, nothing. */
void tn_cli_look(struct tn_cli_store *store, struct tn_store_lease *lease);

/* The candidates that wait for @name, the next one first, for the caller to free: the label of each
 * is in its record. False: the store does not know. */
bool tn_cli_waiters(struct tn_cli_store *store, const char *name, struct tn_store_lease **ret_line,
                    size_t *ret_count);

/* The terms of @name that the store has on record, as JSON, for the caller to free. Returns 0 or
 * the error, told in @reterr: UNSUPPORTED where the store keeps none. NULL: there is no store. */
int tn_cli_history_ask(struct tn_cli_store *store, const char *name, char **ret_json,
                       struct tn_text *reterr);

/* Let the server say its version, where the store asks for it only then. Returns 0, or the store's
 * error, and why is in @ret_why; else it is empty. */
int tn_cli_learn(struct tn_cli_store *store, char *ret_why, size_t size);

/* The engine and its version, and what it warns of, as far as they are known; else empty. */
void tn_cli_facts(const struct tn_cli_store *store, char *ret_server, size_t server_size,
                  char *ret_warning, size_t warning_size);

/* An instant of the server's clock. Returns 0 or the error, told in @reterr: UNSUPPORTED where
 * there is none. */
int tn_cli_read_clock(struct tn_cli_store *store, tenure_ns *ret_clock, struct tn_text *reterr);

/* Until the store has news, a signal that is caught arrives, or @until. */
void tn_cli_pause(struct tn_cli_store *store, tenure_ns until);
/* From here on those that end a program are only noted. */
void tn_cli_catch_signals(struct tn_cli_store *store);
int tn_cli_caught(const struct tn_cli_store *store);
/* Let changes of @name be news. Returns 0 or an error code. */
int tn_cli_watch_name(struct tn_cli_store *store, const char *name);
/* From here on changes of watched names are also told to @hear, from within tn_cli_ask and
 * tn_cli_pause. */
void tn_cli_hear_changes(struct tn_cli_store *store,
                         void (*hear)(void *arg, const char *name,
                                      const struct tn_store_record *record),
                         void *arg);

/* Refuse a store in which a lease cannot outlive the process that takes it. */
int tn_cli_check_scripts(struct tn_cli_store *store);

/* --- store.c: words and answers --------------------------------------------------------------- */

int tn_cli_check_name(const char *verb, const char *name);
/* The same, and it is not reserved for operators' notes (core/note.h). */
int tn_cli_check_free_name(const char *verb, const char *name);
/* The one word that must be a name. */
int tn_cli_name(const struct tn_command *command, const char **ret_name);

/* It is not a slot of a semaphore: operators may name one, candidates do not. */
int tn_cli_check_no_slot(const char *verb, const char *name);

/* The label of who asks: @id, else "host-pid". */
int tn_cli_label(const char *verb, const char *id, char buf[TN_LABEL_MAX + 1]);

/* Refuse numbers that break P1 or P8, with the arithmetic. */
int tn_cli_check_plan(const char *verb, const struct tn_plan *plan);
/* What the engine adds to the numbers: how early and how late it lets go of a silent session. */
void tn_cli_plan_store(struct tn_plan *plan, const struct tn_store_ops *ops);

/* From @text, else from TENURE_SECRET, into @op. */
int tn_cli_secret(const char *verb, const char *text, struct tn_op *op);
void tn_cli_secret_format(char buf[TN_SECRET_TEXT], const struct tn_op *op);

/* What a holder says to the store: `renew` or `release`. */
struct tn_cli_word {
    const char *verb;
    const char *about;
    const char *after;
    enum tn_op_kind kind;
    enum tn_answer done;
    const char *participle; /* The field of the JSON object that says so. */
};

/* All of such a verb; returns its exit status. */
int tn_cli_say(const struct tn_cli_word *word, int argc, char **argv);

/* Wall clock in ms since 1970, local time, for people; 0: "-". */
enum { TN_INSTANT_TEXT = 32 };
const char *tn_cli_instant(char buf[TN_INSTANT_TEXT], int64_t ms);

/* "held", "free" or "revoked", for people. */
const char *tn_cli_state(const struct tn_store_record *record);

#endif
