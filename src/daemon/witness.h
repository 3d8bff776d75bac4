/* witness.h - a page outside the data directory that knows how far the data had come.
 *
 * After every flush the daemon notes the journal's sequence number and the highest token here. When
 * it starts and finds data that is behind, an older copy was put back or a tail is missing, and it
 * refuses. Noting is one write that is not flushed: it costs little beside the flush before it, and
 * survives the daemon's death. After a loss of power it may be older than the data, by as long as
 * the kernel keeps dirty pages (30 s as a rule), but never newer. Whoever puts back the witness
 * together with the data is not noticed here; candidates then notice tokens lower than they have
 * seen.
 * Threads: one at a time. */
#ifndef TN_DAEMON_WITNESS_H
#define TN_DAEMON_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/secret.h"
#include "base/text.h"
#include "tenure/error.h"

/* As it is in the file. */
struct tn_witness_page {
    char magic[8];
    uint32_t version;
    uint32_t unused;
    struct tn_secret store;
    uint64_t token;
    uint64_t seq;
};

struct tn_witness {
    bool open; /* False: there is none. */
    int fd;
    struct tn_witness_page page;
};

struct tn_witness_note {
    struct tn_secret store; /* Zero: nothing noted yet. */
    uint64_t seq;
    uint64_t token;
};

/* Open the witness at @path, made new if there is none. Returns 0, TENURE_E_DENIED (not this user's
 * alone), TENURE_E_UNAVAILABLE or TENURE_E_DAMAGED (no witness) with a line in @reterr. */
TENURE_MUST_USE int tn_witness_open(struct tn_witness *witness, const char *path,
                                    struct tn_text *reterr);

/* Takes a closed or zeroed one too. */
void tn_witness_close(struct tn_witness *witness);

void tn_witness_read(const struct tn_witness *witness, struct tn_witness_note *ret_note);
/* Returns 0 or an errno. */
int tn_witness_write(struct tn_witness *witness, const struct tn_witness_note *note);

#endif
