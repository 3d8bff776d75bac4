/* journal.h - what the daemon must not forget, on disk: a log, flushed once for all who wait.
 *
 * Happy path: open (lock the directory, read the newest snapshot and the journal behind it), then
 * again and again: add the records of all requests at hand, flush once, answer them all. When the
 * journal has grown enough, a snapshot of the state is written by a child process, while the daemon
 * serves on, and what it covers is removed.
 *
 * What can fail: a flush. Then nobody knows what is on disk, and asking again would not tell: the
 * kernel may have dropped the dirty pages. The daemon must end without answering; the next start
 * reads what is there. A disk that is full is seen before that: the journal is extended ahead of
 * need, and tn_journal_is_short says when no more should be promised.
 *
 * Files, in a directory of mode 0700: "lock"; "snapshot-SEQ" covers all frames up to SEQ;
 * "journal-SEQ" begins with frame SEQ. A name that ends in ".new" is not complete and is removed.
 * Threads: one at a time. */
#ifndef TN_DAEMON_JOURNAL_H
#define TN_DAEMON_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"
#include "daemon/frame.h"
#include "daemon/record.h"
#include "daemon/witness.h"

struct tn_journal_config {
    const char *dir;         /* NULL: an agent's, which keeps nothing on disk. */
    const char *witness;     /* A path; NULL: no witness. */
    bool accept_older;       /* Go on with data that is older than the witness knows. */
    uint64_t snapshot_bytes; /* How far the journal grows at least before a snapshot is due. */
};

/* The state, as the journal sees it. */
struct tn_journal_state {
    void *arg;
    /* While opening: one more record, in order. Returns 0 or an error, which ends the opening. */
    int (*apply)(void *arg, const struct tn_journal_record *record);
    /* Give every record that makes up the state to @put; stop when that fails. Runs in a child
     * process, so it must not allocate, and what it changes is lost. */
    int (*dump)(void *arg, int (*put)(void *to, const struct tn_journal_record *record), void *to);
    uint64_t (*token)(void *arg); /* The highest token so far. */
};

struct tn_journal {
    struct tn_journal_config config;
    struct tn_journal_state state;
    struct tn_witness witness;
    int witness_error; /* Of the last note, an errno; 0: it is there. */
    struct tn_secret store;
    int dir_fd, lock_fd, fd;
    uint64_t first_seq;   /* Of the file being written. */
    uint64_t seq;         /* Of the last frame flushed. */
    uint64_t at;          /* Where the next frame goes. */
    uint64_t end;         /* Up to where the file is filled with zeros: the end of a block. */
    uint64_t grown_bytes; /* Of the journal since the last snapshot. */
    char *batch;          /* The frame being gathered, its head included. */
    size_t batch_len, batch_size;
    char *blocks; /* The block that @at is in, and the sealed frame behind. */
    size_t blocks_size;
    size_t sealed_len;     /* Of the frame being flushed; 0: none is. */
    uint64_t sealed_token; /* The highest token when it was sealed. */
    bool disk_full;        /* The last attempt to extend failed. */
    pid_t snapshot_pid;
    uint64_t snapshot_seq;
    uint64_t snapshot_len; /* Of the last that was written or read. */
    uint64_t flushes;
    bool none; /* There is no journal. */
};

/* Returns 0, or an error with a line in @reterr: TENURE_E_CONFLICT (another daemon has it),
 * TENURE_E_DENIED, TENURE_E_DAMAGED, TENURE_E_STALE (older than the witness knows),
 * TENURE_E_UNSUPPORTED (a later format), TENURE_E_FULL (the state refused a record),
 * TENURE_E_UNAVAILABLE. Then there is nothing to close. */
TENURE_MUST_USE int tn_journal_open(struct tn_journal *journal,
                                    const struct tn_journal_config *config,
                                    const struct tn_journal_state *state, struct tn_text *reterr);

void tn_journal_close(struct tn_journal *journal);

/* Add to the batch. Ends the program when there is no memory: the state has changed already. */
void tn_journal_add(struct tn_journal *journal, const struct tn_journal_record *record);

static inline bool tn_journal_is_pending(const struct tn_journal *journal)
{
    return journal->batch_len > TN_FRAME_HEAD;
}

/* Write and flush the batch. On error the caller must end without answering anybody. */
TENURE_MUST_USE int tn_journal_flush(struct tn_journal *journal, struct tn_text *reterr);

/* The same in three parts, so that the slow one can be done on another thread while the next batch
 * gathers: seal the batch; write and flush it (any thread; returns 0 or an errno); and take note of
 * that. One at a time. Between the first and the last nothing may be done to the journal but to
 * add. */
TENURE_MUST_USE int tn_journal_seal(struct tn_journal *journal, struct tn_text *reterr);
TENURE_MUST_USE int tn_journal_write_out(struct tn_journal *journal);
TENURE_MUST_USE int tn_journal_landed(struct tn_journal *journal, int error,
                                      struct tn_text *reterr);

/* Extend the file if that is due; call it when nobody waits. */
void tn_journal_prepare(struct tn_journal *journal);

/* Whether the disk is full and what is left is needed for sessions that end. */
bool tn_journal_is_short(const struct tn_journal *journal);

/* Whether a snapshot should be begun: the journal has grown as far as was asked for, and as far as
 * the last snapshot is long: however many leases there are, no more is written again than anew. */
bool tn_journal_is_long(const struct tn_journal *journal);

/* Begin a new file and let a child process write the state as it is now; nothing may be pending.
 * Returns 0 or an error; it can be tried again later, nothing is lost. */
TENURE_MUST_USE int tn_journal_snapshot(struct tn_journal *journal, struct tn_text *reterr);

/* The child has ended with wait status @status: remove what its snapshot covers. Returns 0, or
 * TENURE_E_UNAVAILABLE when the child failed; the journal is whole all the same. */
TENURE_MUST_USE int tn_journal_snapshot_ended(struct tn_journal *journal, int status);

#endif
