/* nearest.h - "did you mean ...?": the word that is the fewest slips away from what was typed. */
#ifndef TN_BASE_NEAREST_H
#define TN_BASE_NEAREST_H

/* The one of @candidates, which ends with NULL, that is near enough to be meant; NULL: none is. */
const char *tn_nearest(const char *word, const char *const *candidates);

#endif
