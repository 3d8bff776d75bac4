/* asked.h - which operator's wish is in force for a lease, by the notes in its store (core/note.h).
 */
#ifndef TN_CLI_ASKED_H
#define TN_CLI_ASKED_H

#include "cli/store.h"
#include "core/note.h"

struct tn_asked {
    enum tn_note_kind kind; /* NONE: nothing is asked. */
    const char *to; /* HANDOVER: the chosen one, in the note's memory; NULL: the next one. */
};

/* All notes of the store, for the caller to free. A store that does not show them has none. */
struct tn_store_lease *tn_asked_read(struct tn_cli_store *store, size_t *ret_count);

/* The wish that concerns @lease: about its name, else about its holder's id or host. As in `tenure
 * drain --host`, a holder whose id is neither HOST nor HOST-PID is not known to be on the host. */
struct tn_asked tn_asked_find(const struct tn_store_lease *notes, size_t count,
                              const struct tn_store_lease *lease);

/* "handover", "stand-down", "drain". */
const char *tn_asked_word(enum tn_note_kind kind);

/* The candidates that wait for a lease, the next one first. */
struct tn_waiting {
    struct tn_store_lease *line; /* Each one's label, and its priority as the token; 0: none. */
    size_t count;
    bool known; /* Otherwise the store does not tell. */
};

/* For the caller to free what it has. @notes as by tn_asked_read. */
struct tn_waiting tn_waiting_read(struct tn_cli_store *store, const char *name,
                                  const struct tn_store_lease *notes, size_t note_count);

/* A lease, and what is known of it beside the record. */
struct tn_shown {
    const struct tn_cli_store *store;
    const struct tn_store_lease *lease;
    struct tn_asked asked;
    struct tn_waiting waiting;
};

/* One line about one lease; as JSON the object of `status --json`. In store.c. What the store does
 * not tell is left out. */
void tn_cli_lease_print(const struct tn_shown *shown, bool json);

#endif
