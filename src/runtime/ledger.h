/* ledger.h - what the next process needs to go on with this one's session: its secrets, in a file.
 *
 * The store knows a session and a term by secrets. Who has them is the session, also after this
 * process was killed. So the file has the secret that all others are made of, and for each name the
 * number and the generation under which it was asked for last. That is written before the request
 * is sent: there is nothing in the store that the file does not know of.
 *
 * Nothing is flushed. A process that dies loses nothing that it has written. With the machine all
 * who could act for the session die, too, and a file of another boot is not taken up.
 *
 * Happy path: open, go on with what there was, then life, note and drop as it goes.
 * What can fail: the disk. Then the file is emptied, and the next process begins anew, as if there
 * had been none. Threads: one at a time. */
#ifndef TN_RUNTIME_LEDGER_H
#define TN_RUNTIME_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/name.h"
#include "base/secret.h"
#include "base/sha256.h"
#include "base/text.h"
#include "tenure/error.h"

/* What was asked for under @name. */
struct tn_ledger_entry {
    uint64_t number, gen; /* @number 0: the place is free. */
    uint64_t token;       /* Of the term that was granted and told; 0: not known to be. */
    char name[TN_NAME_MAX + 1];
};

struct tn_ledger {
    int fd; /* -1: emptied, after an error. */
    uint8_t where[TN_SHA256_SIZE];
    struct tn_secret secret;
    uint64_t life;                /* Of the session that was opened last; 0: none was. */
    uint64_t starts;              /* How often it was taken up. */
    bool resumed;                 /* It is of this boot and this store, and there was a session. */
    struct tn_ledger_entry *past; /* What there was when it was opened; entry i is in place i + 1.
                                   */
    uint32_t past_count;
    uint32_t *unused; /* Places in the file that were given back. */
    uint32_t unused_count, unused_room, place_count;
};

/* Open or make the file, of mode 0600. @domain is the clock's: another one is another boot. @url is
 * the store's. On error nothing is left open: TENURE_E_DENIED, TENURE_E_UNAVAILABLE,
 * TENURE_E_NOMEM, TENURE_E_UNSUPPORTED. */
TENURE_MUST_USE int tn_ledger_open(struct tn_ledger *ledger, const char *path, const char *domain,
                                   const char *url, struct tn_text *reterr);

/* A session is about to be opened. */
void tn_ledger_life(struct tn_ledger *ledger, uint64_t life);

/* @entry is about to be asked for, or was granted. @place: where it is in the file; 0: nowhere yet.
 */
void tn_ledger_note(struct tn_ledger *ledger, uint32_t *place, const struct tn_ledger_entry *entry);

/* Nothing is held or waited for under it any more. */
void tn_ledger_drop(struct tn_ledger *ledger, uint32_t *place);

/* The session is closed: there is nothing to go on with. */
void tn_ledger_forget(struct tn_ledger *ledger);

void tn_ledger_close(struct tn_ledger *ledger);

#endif
