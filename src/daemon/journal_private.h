/* journal_private.h - what the files of the journal share; the others use journal.h. */
#ifndef TN_DAEMON_JOURNAL_PRIVATE_H
#define TN_DAEMON_JOURNAL_PRIVATE_H

#include "daemon/journal.h"

/* "snapshot-0000000000000abc.new" */
#define TN_JOURNAL_NAME 32

void tn_journal_name(char ret_name[TN_JOURNAL_NAME], enum tn_file_kind kind, uint64_t seq,
                     const char *suffix);

/* "DIR/NAME: ..." */
int tn_journal_refuse(const struct tn_journal *journal, const char *name, int code, const char *why,
                      struct tn_text *reterr);
int tn_journal_refuse_errno(const struct tn_journal *journal, const char *name, int error,
                            struct tn_text *reterr);

/* Write all of it at @at. Returns 0 or an errno. */
int tn_journal_write(int fd, const char *bytes, size_t len, uint64_t at);

/* Read what is there: seq, first_seq, at, grown_bytes, and the state through its apply. Leaves the
 * last journal file's name's number in first_seq, 0 when there is no file at all. */
TENURE_MUST_USE int tn_journal_load(struct tn_journal *journal, struct tn_text *reterr);

/* Remove files that a snapshot up to @seq covers, and incomplete ones. */
void tn_journal_sweep(const struct tn_journal *journal, uint64_t seq);

/* A new journal file that begins with frame @seq; it becomes the one being written. */
TENURE_MUST_USE int tn_journal_create(struct tn_journal *journal, uint64_t seq,
                                      struct tn_text *reterr);

#endif
