/* table.h - leases as columns for people, and which names were asked for. */
#ifndef TN_CLI_TABLE_H
#define TN_CLI_TABLE_H

#include "base/pattern.h"
#include "cli/store.h"

/* What a word on the command line stands for. */
struct tn_selection {
    bool exact;                   /* The name @prefix alone. */
    char prefix[TN_PATTERN_SIZE]; /* What the names begin with; "": all. */
};

/* Read @word: a pattern, as in the daemon's ACL, or a name. Returns -1 to go on, or the exit
 * status. */
int tn_selection_read(const char *verb, const char *word, struct tn_selection *ret_selection);

/* Of @leases, keep those that are selected, in front. Returns how many. */
size_t tn_selection_filter(const struct tn_selection *selection, struct tn_store_lease *leases,
                           size_t count);

/* A line with the columns' names, if there is any lease, and a line for each. */
void tn_columns_print(FILE *out, const struct tn_store_lease *leases, size_t count);

#endif
