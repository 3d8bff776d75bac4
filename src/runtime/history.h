/* history.h - a bounded history of terms in memory, and as lines of a file.
 *
 *   open    tn_history_init, tn_history_read with what the file has
 *   then    tn_history_began, tn_history_ended; what they add to the file gathers in @pending
 *   write   take @pending and append it; or tn_history_dump, when @whole says so, instead of the
 *           file
 *
 * A line is a JSON object, a term as it begins or as it ended; the last line of a term counts. A
 * line that cannot be read is left out: the file is for people, and no decision rests on it. At
 * most @per_name ended terms of a name are kept, and at most @most ended terms in all, the oldest
 * go first. Of terms that go on, @most are recorded; others begin and end unseen.
 *
 * More than TN_HISTORY_PENDING bytes that were not fetched yet are dropped, and the whole is to be
 * written next time: so a storm of short terms costs a bounded amount of writing.
 * Threads: one at a time. Memory: on the heap; without any, terms are missing. */
#ifndef TN_RUNTIME_HISTORY_H
#define TN_RUNTIME_HISTORY_H

#include "base/dict.h"
#include "base/list.h"
#include "runtime/terms.h"

#define TN_HISTORY_PENDING (256u * 1024)

struct tn_history_name;

struct tn_history {
    struct tn_dict names;
    struct tn_list ended; /* Oldest end first. */
    uint32_t per_name, most;
    uint32_t count; /* Terms, */
    uint32_t ends;  /* and of these the ended ones. */
    int64_t since;  /* The record is whole from here on. */
    char *pending;
    size_t pending_len;
    bool whole;          /* The file is to be written anew. */
    uint64_t file_lines; /* In the file and pending, for tn_history_is_long. */
};

void tn_history_init(struct tn_history *history, struct tn_hash_key seed, uint32_t per_name,
                     uint32_t most);
void tn_history_done(struct tn_history *history);

/* Take the lines of a file; changes @bytes. */
void tn_history_read(struct tn_history *history, char *bytes, size_t len);

void tn_history_began(struct tn_history *history, const char *name, size_t len,
                      const struct tn_term *term);
/* The current term of the name is over, if it is that of @token. */
void tn_history_ended(struct tn_history *history, const char *name, size_t len, uint64_t token,
                      enum tn_term_end why, int64_t at, int64_t heard);
/* The term will end for this reason: its session is over, or it was revoked. */
void tn_history_ending(struct tn_history *history, const char *name, size_t len,
                       enum tn_term_end why);
/* The current term; NULL: there is none. And why it will end; OPEN: no reason is known. */
const struct tn_term *tn_history_current(const struct tn_history *history, const char *name,
                                         size_t len, enum tn_term_end *ret_why);

/* The terms of a name in their order, for the caller to free; NULL: none, or no memory. */
struct tn_term *tn_history_terms(const struct tn_history *history, const char *name, size_t len,
                                 size_t *ret_count);

/* Of the gaps in which somebody should have led: the longest that reaches into the last 24 hours,
 * and the longest that goes on, in milliseconds; 0: there is none. */
void tn_history_gaps(const struct tn_history *history, int64_t now, int64_t *ret_longest,
                     int64_t *ret_current);

/* Each name with a history, in no order: NULL begins, NULL is the end. */
const struct tn_history_name *tn_history_next(const struct tn_history *history,
                                              const struct tn_history_name *name);
const char *tn_history_name_text(const struct tn_history_name *name, size_t *ret_len);

/* The file has grown to several times what it must have. */
bool tn_history_is_long(const struct tn_history *history);
/* All of it, as lines, for the caller to free; nothing is pending then. NULL: no memory. */
char *tn_history_dump(struct tn_history *history, size_t *ret_len);
/* What is to be appended, for the caller to free; NULL: nothing. */
char *tn_history_take(struct tn_history *history, size_t *ret_len);

#endif
