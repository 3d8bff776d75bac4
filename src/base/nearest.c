/* nearest.c - "did you mean ...?": the word that is the fewest slips away from what was typed. */
#include "base/nearest.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Longer words are not compared; no verb or option comes near. */
enum { WORD_MAX = 31 };

static size_t least3(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Letters to insert, drop or replace, or neighbours to swap, to get from @a to @b. Both are at most
 * WORD_MAX long. row[i][j] is the distance between the first i letters and the first j. */
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1][WORD_MAX + 1];
    size_t a_len = strlen(a);
    size_t b_len = strlen(b);

    for (size_t i = 0; i <= a_len; i++) {
        for (size_t j = 0; j <= b_len; j++) {
            if (i == 0 || j == 0) {
                row[i][j] = i + j;
                continue;
            }
            size_t replace = row[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            row[i][j] = least3(row[i - 1][j] + 1, row[i][j - 1] + 1, replace);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[i][j] = least3(row[i][j], row[i - 2][j - 2] + 1, row[i][j]);
        }
    }
    return row[a_len][b_len];
}

const char *tn_nearest(const char *word, const char *const *candidates)
{
    const char *nearest = NULL;
    size_t len = strlen(word);
    size_t best = len / 3 + 2; /* One slip, and one more for every three letters: not a guess. */

    if (len > WORD_MAX)
        return NULL;
    for (; *candidates != NULL; candidates++) {
        bool begins = len >= 2 && strncmp(word, *candidates, len) == 0;
        size_t slips;

        if (strlen(*candidates) > WORD_MAX)
            continue;
        slips = begins ? 1 : distance(word, *candidates);
        if (slips < best && slips < strlen(*candidates)) {
            best = slips;
            nearest = *candidates;
        }
    }
    return nearest;
}
