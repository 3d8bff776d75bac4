/* registry.h - which store a URL names, and what to say when there is none.
 *
 * Threads: any. */
#ifndef TN_STORES_REGISTRY_H
#define TN_STORES_REGISTRY_H

#include "runtime/store.h"

/* Open the store that @how->url names; @how->rest is set here. NULL or an empty URL is "sqlite:",
 * the user's own. Errors, told in @reterr in one line:
 * TENURE_E_INVALID     no such scheme, the URL is malformed, or the TTL out of its range;
 * TENURE_E_UNSUPPORTED the scheme is known, but not part of this build;
 * and those of the store's own open. */
TENURE_MUST_USE int tn_store_open(const struct tn_store_open *how, struct tn_store **ret_store,
                                  struct tn_text *reterr);

/* The operations for @url; codes as above. @ret_rest points into @url, behind "scheme:". */
TENURE_MUST_USE int tn_store_find(const char *url, const struct tn_store_ops **ret_ops,
                                  const char **ret_rest, struct tn_text *reterr);

/* The schemes of this build, and those that others may have with the packages that each needs, both
 * as words for people: "sqlite, memory" and "zookeeper (libzookeeper-st-dev)". */
void tn_store_catalogue(struct tn_text *ret_built, struct tn_text *ret_left_out);

#endif
