/* rows_name.h - what a process knows of one name on an engine with versioned rows (rows.h).
 *
 * Three things show a row: a read, a write of our own, and the engine's change feed. Reads and
 * writes count. A feed is quick and cheap, and may be anything else: late, doubled, behind a read
 * that was answered already, cut and resumed with a gap, or silent for ever, because it was asked
 * to go on from a version that a restored backup no longer has. So the feed only saves work:
 *
 *   read, write -----> | version known | observer: since when   | <----- feed: an event older
 *                      |               | the holder is silent   |        than a read is dropped
 *   acquire again ---> | HELD without a read, while the feed is recent and nothing contradicts it
 *   time ------------> | the feed is behind what was read: the host begins it anew
 *
 * Nobody acquires by what a feed shows: before a grant the row is read and written, as ever.
 *
 * Threads: one at a time. Memory: the caller's. Reads no clock. */
#ifndef TN_CORE_ROWS_NAME_H
#define TN_CORE_ROWS_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/secret.h"
#include "base/time.h"
#include "core/observer.h"

enum {
    TN_ROW_VERSION = 64, /* Room for a version's text, the zero behind it included; */
    TN_ROW_OWNER = 40,   /* and for the engine's name of a session. */
};

/* What is on record of a name, whatever the engine's own layout is. */
struct tn_row {
    bool held;
    bool revoked;             /* Held, and an operator asks for it back. */
    bool minted;              /* Its token is not in it but follows from the version. */
    uint64_t token;           /* Of the term or, when free, of the last one; 0: there was none. */
    uint64_t floor;           /* No grant at or below it; an operator's, or the engine's. */
    tenure_ns ttl;            /* Of the holder's session. */
    struct tn_secret session; /* Hashes of the holder's secrets; zero: not a client of ours. The */
    struct tn_secret term;    /* term's stays on the free row, to recognise a repeated release. */
    uint64_t nonce;           /* New in every write, so that no two rows are equal. */
    const char *label;        /* Borrowed for the call; NULL: none. */
    uint32_t label_len;
    /* Engines with sessions: the one that holds the row or, in a release, that is to give it up. */
    char owner[TN_ROW_OWNER];
};

/* Whose term a row shows. A stray is of this session, and no claim holds it: a write whose outcome
 * is unknown left it behind. No renewal covers it and the application never heard of it, so it is
 * told to nobody, neither as its own nor as another's. */
enum tn_rows_whose { TN_ROWS_OTHERS, TN_ROWS_OURS, TN_ROWS_STRAY };

/* Shared by all claims of this process on the name; zeroed, it knows nothing yet. */
struct tn_rows_name {
    struct tn_observer observer; /* Of a holder that is not this process. */
    bool told;                   /* That it is silent. */
    tenure_ns retry_at;          /* The engine may give it out then; 0: nothing is waited for. */
    struct tn_secret term; /* The last one that was seen to hold the row before its token was in */
    uint64_t token;        /* it, and the token that followed from the version then. */
    /* The newest version that is known, as a number; 0: it is none. A read may lower it. */
    uint64_t number;
    bool none; /* A read has shown that there is no row. */
    /* What the feed showed last, with its token in it; its label is the caller's. */
    struct tn_row shown;
    char shown_version[TN_ROW_VERSION];
    tenure_ns shown_at;       /* Or when the feed last said that nothing had changed. */
    bool fed;                 /* It is another process's, and nothing known is newer. */
    bool behind;              /* A read or a write is not in the feed yet, */
    tenure_ns behind_since;   /* since then. */
    struct tn_secret refused; /* The last term whose ACQUIRE a read has refused. */
};

/* --- Reads and writes (rows.c) --- */

/* A read, or a write of this process, has shown @version; empty: there is no row. */
void tn_rows_name_know(struct tn_rows_name *name, tenure_ns now, const char *version);
/* A read that was sent at @sent_at has shown the row: the silence of its holder begins, goes on, or
 * is over. @others: another process holds it. */
void tn_rows_name_observe(struct tn_rows_name *name, tenure_ns sent_at, tenure_ns now, bool others,
                          const struct tn_row *row, const char *version, tenure_ns ttl);

/* --- The change feed --- */

struct tn_rows_event {
    const struct tn_row *row; /* NULL: there is none. Its label is borrowed until the next event. */
    const char *version;      /* Of the row, or of its deletion if the engine tells it, or empty. */
    enum tn_rows_whose whose; /* As all sessions of this process see it. */
};

/* What is to be done about it. */
struct tn_rows_news {
    bool tell; /* Whoever watches the name hears of name->shown, judged (tn_rows_name_is_silent). */
    bool look; /* Claims that hold the name under another version have to look (tn_rows_look). */
    bool read; /* It was older than what is known, or a backup was restored: a read tells. */
};

/* The feed shows the row as it is, or was some time ago. What is observed of its holder begins anew
 * with every change, from @now on, which is after the change; an event from before a read, or from
 * before another event, changes nothing. @has_sessions: as in struct tn_rows. */
struct tn_rows_news tn_rows_name_saw(struct tn_rows_name *name, tenure_ns now, bool has_sessions,
                                     const struct tn_rows_event *event);
/* The feed says that nothing has changed. */
void tn_rows_name_feed_alive(struct tn_rows_name *name, tenure_ns now);
/* The feed has ended, or nobody keeps it up: what it showed may be old. */
void tn_rows_name_feed_lost(struct tn_rows_name *name);

/* Whether a read would only refuse @term once more, by what the feed shows. A feed that has shown
 * nothing for @trust, or a holder that is silent, is no reason not to read. */
bool tn_rows_name_shows_held(const struct tn_rows_name *name, tenure_ns now, bool has_sessions,
                             tenure_ns trust, const struct tn_secret *term);

/* Whether the feed has not shown for @lag what a read or a write has: it is silent, and has to
 * begin anew from the present state; and when to ask. */
bool tn_rows_name_is_behind(const struct tn_rows_name *name, tenure_ns now, tenure_ns lag);
tenure_ns tn_rows_name_behind_at(const struct tn_rows_name *name, tenure_ns lag);

/* --- Silence --- */

/* Whether the holder of the row that was seen last is to be taken for gone. */
bool tn_rows_name_is_silent(const struct tn_rows_name *name, tenure_ns now);
/* When that will be, unless something changes; and, once for each silence, that it is. Whoever
 * waits may ask for the name then. */
tenure_ns tn_rows_name_wake_at(const struct tn_rows_name *name);
bool tn_rows_name_is_vacated(struct tn_rows_name *name, tenure_ns now);

/* --- Versions and tokens --- */

size_t tn_row_version_len(const char *version);

/* The token of a row: the one in it or, when it is minted, its version, and always above its floor.
 */
uint64_t tn_row_token(const struct tn_row *row, const char *version);

/* The same for a row that may have been seen before: where the engine has freed a row in which the
 * token is not, the last term's token is the one that it was seen with. Then it is in the row. */
void tn_rows_name_settle(struct tn_rows_name *name, struct tn_row *row, const char *version);

/* What an observer compares: differs whenever the version does. */
uint64_t tn_row_beat(const char *version);

#endif
