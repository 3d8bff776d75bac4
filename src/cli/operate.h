/* operate.h - operators' wishes on any store: notes (core/note.h), and a hand-over from the wish to
 * its end.
 *
 * All of it runs on a struct tn_cli_store, which has a loop of its own; so a caller that serves
 * others meanwhile calls it in a thread of its own, with a store of its own. Nothing is printed:
 * what went wrong is a code and a text. */
#ifndef TN_CLI_OPERATE_H
#define TN_CLI_OPERATE_H

#include "cli/store.h"
#include "runtime/note_name.h"

/* A note that this process keeps, or that lasts. */
struct tn_cli_note {
    char name[TN_NAME_MAX + 1];
    char text[TN_LABEL_MAX + 1];
    struct tn_op op; /* ACQUIRE: its secrets. */
    uint64_t token;  /* Of the note's own lease; 0: it is not there. */
    tenure_ns ttl;
    tenure_ns renew_at;
    uint64_t seq; /* Of the last attempt, where the session is this process's own. */
};

enum tn_cli_noted {
    TN_NOTED,       /* It is there. */
    TN_NOTED_TAKEN, /* Another one is; its text is in note->text. */
    TN_NOTED_FAILED
};

/* Leave the note @note->name with @note->text. @lasting: anybody can take it back or prolong it,
 * because its secrets follow from its name; otherwise only this process can. The TTL is fitted to
 * what the store can do, where it can be: for a lasting note it cannot. */
enum tn_cli_noted tn_cli_note_leave(struct tn_cli_store *store, struct tn_cli_note *note,
                                    bool lasting, int *ret_code, struct tn_text *reterr);
/* Renew it when it is time. False: it is gone, or the store does not answer. */
bool tn_cli_note_keep(struct tn_cli_store *store, struct tn_cli_note *note);
/* Take it back; the store may be away, then it ends with its TTL. */
void tn_cli_note_end(struct tn_cli_store *store, struct tn_cli_note *note);
/* Take back a lasting note, whoever left it. Returns 0 and whether there was one, or the error. */
int tn_cli_note_lift(struct tn_cli_store *store, const char *name, bool *ret_was,
                     struct tn_text *reterr);

enum tn_handover_end {
    TN_HANDOVER_DONE,    /* Another one leads, and with @to that one. */
    TN_HANDOVER_ALREADY, /* The one that was asked for leads already. */
    TN_HANDOVER_FREE,    /* Nobody holds it. */
    TN_HANDOVER_BUSY,    /* There is a note already: another hand-over, or it stands down. */
    TN_HANDOVER_SAME,    /* Nobody else was there: the holder leads again. */
    TN_HANDOVER_OTHER,   /* Somebody leads who was not asked for. */
    TN_HANDOVER_LATE,    /* Nothing has happened, or nobody leads, for the whole time. */
    TN_HANDOVER_STOPPED, /* By a signal that tn_cli_catch_signals noted. */
    TN_HANDOVER_FAILED,  /* The store: @code and @text. */
};

struct tn_handover {
    const char *name;
    const char *to; /* The id of the candidate that is to lead; NULL: the next one. */
    tenure_ns wait; /* How long to follow it. */
    uint64_t token; /* In: only the term of this token; 0: the present one. */
    /* What came of it. */
    struct tn_store_record from, next; /* The two terms; held false: there is none. */
    tenure_ns gap;                     /* How long nobody held it. */
    int code;
    char text[TN_ERROR_TEXT]; /* FAILED: why. BUSY: the note that is there. */
};

/* Ask, and follow it to the end. */
enum tn_handover_end tn_handover_run(struct tn_cli_store *store, struct tn_handover *handover);

#endif
