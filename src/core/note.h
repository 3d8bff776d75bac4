/* note.h - an operator's wish about a name or a node, and what a claim owes it.
 *
 * A note is a lease under a reserved name in the same store; its label is the wish. So every store
 * can carry one, one operator at a time asks, and the wish of an operator who dies ends with its
 * TTL. Holders and candidates watch three reserved names:
 *
 *   ~tenure/ask/NAME         "handover token=7", "handover token=7 to=bob", "stand-down"
 *   ~tenure/drain/id/ID      "drain": this process leads nothing
 *   ~tenure/drain/host/HOST  "drain": no process on this host does
 *
 * handover    The holder steps down if it holds exactly that token, and stands back until another
 *             leads, for a bounded time. With "to" the other candidates leave the line until a
 *             later term was seen; they wait for the chosen one for a bounded time.
 * stand-down  The holder steps down, and nobody campaigns while the note lasts.
 * drain       The same, for all names of one process.
 *
 * To step down is to resign for one term: the work drains while the lease is still renewed, then
 * the lease is given back (P5). A note only ever ends a term early or delays a campaign. It gives
 * no right, so a forged, late or lost one can cost time, but no promise beside H1 and H2.
 *
 * Threads: one at a time. Memory: the caller's, nothing allocated. Never blocks, reads no clock. */
#ifndef TN_CORE_NOTE_H
#define TN_CORE_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"
#include "core/rank.h"

/* All names that begin so are reserved. */
#define TN_NOTE_PREFIX "~tenure/"
#define TN_NOTE_ASK TN_NOTE_PREFIX "ask/"
#define TN_NOTE_DRAIN_ID TN_NOTE_PREFIX "drain/id/"
#define TN_NOTE_DRAIN_HOST TN_NOTE_PREFIX "drain/host/"
#define TN_NOTE_PRIORITY TN_NOTE_PREFIX "priority/" /* core/rank.h */
/* No note, but reserved, too: the last run of `tenure run --every` (cli/every.h). */
#define TN_NOTE_EVERY TN_NOTE_PREFIX "every/"

/* YIELD is none that anybody leaves: a leader steps down for a higher priority (core/rank.h). */
enum tn_note_kind {
    TN_NOTE_NONE,
    TN_NOTE_HANDOVER,
    TN_NOTE_STAND_DOWN,
    TN_NOTE_DRAIN,
    TN_NOTE_YIELD
};

/* Where it is read. */
enum tn_note_slot { TN_NOTE_OF_NAME, TN_NOTE_OF_ID, TN_NOTE_OF_HOST, TN_NOTE_SLOTS };

struct tn_note {
    uint8_t kind;    /* enum tn_note_kind */
    bool directed;   /* HANDOVER: it names a successor, */
    bool chosen;     /* and that is this candidate. */
    uint64_t token;  /* HANDOVER: of the term that is to end. */
    uint64_t number; /* The token of the note's own lease: a later note has a higher one. */
    tenure_ns lasts; /* From now on, at most. */
};

/* What a process knows of notes about itself, for all its claims. */
struct tn_node_notes {
    struct tn_note list[TN_NOTE_SLOTS]; /* That OF_NAME is never there. */
    tenure_ns heard_at[TN_NOTE_SLOTS];
    bool awaited[TN_NOTE_SLOTS]; /* Not read yet: it could be there. */
    tenure_ns await_until;       /* For so long the claims wait for it. */
};

/* What one claim knows of notes. All zero: nothing. Processes have thousands of these. */
struct tn_notes {
    const struct tn_node_notes *node; /* Borrowed; NULL: there are none. */
    struct tn_rank *rank;             /* Borrowed; NULL: it takes no part in priorities. */
    struct tn_note note;              /* About the name. */
    tenure_ns heard_at;
    uint64_t leader_token;  /* The highest token of a term that was seen. */
    uint64_t back_token;    /* Stands back behind its own term of this token, */
    tenure_ns back_until;   /* until then; 0: it does not. */
    tenure_ns chosen_until; /* How long the chosen one is waited for; 0: nobody is. */
};

/* The numbers of struct tn_claim_config that concern notes. */
struct tn_note_times {
    tenure_ns settle; /* A holder leads on for this long, while others leave the line. */
    tenure_ns back;   /* How long to stand back, and to wait for the chosen one. */
};

/* What the label of a note says to the candidate with the label @id. What is not understood is
 * TN_NOTE_NONE: a later version may ask for more than this one can do. The caller sets number and
 * lasts. */
struct tn_note tn_note_parse(const char *text, size_t len, const char *id, size_t id_len);

/* A note was read, or (NONE) that there is none. */
void tn_notes_hear(struct tn_notes *notes, tenure_ns now, const struct tn_note *note);
void tn_node_notes_hear(struct tn_node_notes *notes, tenure_ns now, enum tn_note_slot slot,
                        const struct tn_note *note);
/* The note in @slot was asked for: until it was heard, or @until, nobody campaigns. */
void tn_node_notes_await(struct tn_node_notes *notes, enum tn_note_slot slot, tenure_ns until);
/* One that was asked for has not been heard yet. @notes NULL: none was. */
bool tn_node_notes_missing(const struct tn_node_notes *notes, tenure_ns now);
/* A record was read: a term under @token, or (@held false) a vacancy behind it. */
void tn_notes_see(struct tn_notes *notes, tenure_ns now, bool held, uint64_t token,
                  const struct tn_note_times *times);
/* The term of @token begins. */
void tn_notes_won(struct tn_notes *notes, tenure_ns now, uint64_t token,
                  const struct tn_note_times *times);
/* The term of @token ended because somebody asked for it. */
void tn_notes_stand_back(struct tn_notes *notes, tenure_ns now, uint64_t token,
                         const struct tn_note_times *times);

/* Whether the holder of @token has to step down; for which kind. NONE: it leads on. */
enum tn_note_kind tn_notes_ask(const struct tn_notes *notes, tenure_ns now, uint64_t token,
                               const struct tn_note_times *times);
/* Whether the candidate must not campaign. */
bool tn_notes_bar(const struct tn_notes *notes, tenure_ns now);
/* STAND_DOWN or DRAIN, while an operator lets nobody here campaign; else NONE. */
enum tn_note_kind tn_notes_forbid(const struct tn_notes *notes, tenure_ns now);
/* When one of the two may change by itself; TN_NEVER: not. */
tenure_ns tn_notes_wake_at(const struct tn_notes *notes, tenure_ns now,
                           const struct tn_note_times *times);

#endif
