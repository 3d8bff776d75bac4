/* lines.h - lines for a descriptor that may block, from a thread that must not.
 *
 * Standard output and error are often pipes, and their reader may stop reading. O_NONBLOCK is no
 * help: the flag belongs to the open file, which other processes share. Nor is poll: the command
 * may fill the pipe between poll and write. So a thread of its own writes, and only it can block.
 *
 * Lines wait in order. When TN_LINES_MOST of them wait, those that the reader no longer needs are
 * dropped, by the rule that the library has for its callbacks: of several notes with one key the
 * last one stays, and a term whose begin and end both wait is not told at all. Without a key, the
 * older half goes. A begin or an end is never dropped alone, so they alternate for the reader.
 *
 * Threads: any. tn_lines_put never blocks. No signal is delivered to the writing thread, and a
 * reader that is gone raises none. */
#ifndef TN_RUNTIME_LINES_H
#define TN_RUNTIME_LINES_H

#include <stdbool.h>

#include "tenure/error.h"
#include "tenure/time.h"

enum { TN_LINES_MOST = 1024 };

enum tn_line_kind { TN_LINE_NOTE, TN_LINE_BEGIN, TN_LINE_END };

struct tn_lines;

/* Start the thread that writes to @fd, which stays the caller's.
 * Returns 0, TENURE_E_NOMEM, or TENURE_E_UNAVAILABLE: no descriptor or no thread. */
TENURE_MUST_USE int tn_lines_open(int fd, struct tn_lines **ret_lines);

/* Let @text, which ends in a newline, be written. It and @key (may be NULL) are copied.
 * False: out of memory, or an earlier write has failed. */
bool tn_lines_put(struct tn_lines *lines, enum tn_line_kind kind, const char *key,
                  const char *text);

/* Readable once a write has failed; and its errno, 0 before that. */
int tn_lines_fd(const struct tn_lines *lines);
int tn_lines_error(struct tn_lines *lines);

/* Wait until all is written, a write has failed, or for @patience nothing has moved. Whether all
 * was written. */
bool tn_lines_flush(struct tn_lines *lines, tenure_ns patience);

/* Flush, and free it. A thread that is stuck in a write is left behind, and frees it when it comes
 * out of it, so leave @fd open. NULL is allowed. Returns as tn_lines_flush. */
bool tn_lines_close(struct tn_lines *lines, tenure_ns patience);

#endif
