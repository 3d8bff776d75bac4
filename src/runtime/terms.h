/* terms.h - terms that are over, the gaps between them, and both as JSON: what `tenure history`,
 * tenured's HTTP and the console show.
 *
 * Instants are milliseconds of the wall clock since 1970. They are for people: nothing that decides
 * who leads reads them.
 *
 * A gap begins when the last leader was known to live. A holder that released, or whose process
 * was seen to end, lived until then. One that fell silent lived at its last renewal: what it did
 * after that nobody knows. So the gap of a crash is at most one renewal interval too long.
 * Pure, but for tn_wall_ms. Threads: any. */
#ifndef TN_RUNTIME_TERMS_H
#define TN_RUNTIME_TERMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "tenure/error.h"

#define TN_DAY_MS INT64_C(86400000)
/* A successor that comes later after a release was not ready. */
#define TN_READY_MS 5000

/* Why a term ended. */
enum tn_term_end {
    TN_TERM_OPEN,     /* It has not. */
    TN_TERM_RELEASED, /* Given back. */
    TN_TERM_EXPIRED,  /* The holder was silent for its TTL. */
    TN_TERM_GONE,     /* Its process was seen to end without giving it back. */
    TN_TERM_REVOKED,  /* Taken away by an operator. */
    TN_TERM_STORE,    /* The store was away, and the holder did not come back. */
    TN_TERM_UNKNOWN,  /* Nobody looked. */
    TN_TERM_ENDS
};

struct tn_term {
    uint64_t token;
    int64_t from, to; /* @to 0: it goes on. */
    int64_t heard;    /* The last sign of life of a term that ended by silence; 0: not known. */
    int64_t ttl_ms;
    enum tn_term_end end;
    uint32_t label_len;
    const char *label;
};

/* The words of the JSON: "released", ... NULL: the term goes on. */
const char *tn_term_word(enum tn_term_end end);
enum tn_term_end tn_term_end_parse(const char *word);

struct tn_gap {
    int64_t from, to; /* @to 0: it goes on. */
    int64_t ms;
    const char *cause; /* "crash", "hand-over", "nobody ready", "revoked", "store gone", ... */
    bool counts;       /* For an alert: somebody should have led. */
    const struct tn_term *after;
};

/* The gap behind @term, up to @next (NULL: there is none yet) or to @now. False: there is none. */
bool tn_gap_after(const struct tn_term *term, const struct tn_term *next, int64_t now,
                  struct tn_gap *ret_gap);

/* The longest gap that reaches into the last 24 hours; with @alert only those that count. False:
 * there is none. @terms are in the order of their tokens. */
bool tn_gap_longest(const struct tn_term *terms, size_t count, int64_t now, bool alert,
                    struct tn_gap *ret_gap);

/* Room for the JSON of @count terms. */
size_t tn_terms_room(size_t count);
/* {"name","since","now","terms":[...],"gaps":[...],"longest_gap":{...}|null}; @since: from when on
 * the record is whole; 0: not known. */
void tn_terms_json(struct tn_text *text, const char *name, size_t name_len,
                   const struct tn_term *terms, size_t count, int64_t since, int64_t now);

/* Such a document, read again. */
struct tn_terms {
    struct tn_term *list; /* The caller frees it; labels lie in the document. */
    size_t count;
    int64_t since, now;
};

/* Changes @json. Returns 0, TENURE_E_INVALID or TENURE_E_NOMEM. */
TENURE_MUST_USE int tn_terms_read(char *json, size_t len, struct tn_terms *ret_terms);

/* The wall clock, for display. */
int64_t tn_wall_ms(void);

#endif
