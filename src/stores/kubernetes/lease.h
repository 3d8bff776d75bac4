/* lease.h - a name's row as a Lease of coordination.k8s.io/v1.
 *
 * The spec is what client-go and controller-runtime write, by their rules, so that they contend for
 * the same name. What they do not know is in annotations:
 *
 *   tenure/session, term   hashes of the holder's secrets   tenure/token   of the term
 *   tenure/floor           no later token is lower           tenure/ttl     in milliseconds
 *   tenure/nonce           new in every write                tenure/revoked it is wanted back
 *   tenure/label, name     in hexadecimal or in full, where Kubernetes cannot take them as they are
 *   tenure/spec            a hash of the spec that was written with them
 *   tenure/transitions     leaseTransitions at that time
 *
 * client-go keeps annotations that it does not know. Ours count only while tenure/spec is the hash
 * of the spec as it is: otherwise another client has written since, and the holder is foreign.
 *
 * A token is one more than the resourceVersion that the acquiring write replaces (or than the last
 * token or the floor, if those are higher). resourceVersions rise over all objects of a cluster, so
 * a Lease that was deleted and made again goes on above; and each is below that of the write
 * itself, so it orders with clients that use the latter.
 *
 * Pure: no I/O, no clock. Threads: any. */
#ifndef TN_STORES_KUBERNETES_LEASE_H
#define TN_STORES_KUBERNETES_LEASE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/name.h"
#include "base/rfc3339.h"
#include "base/text.h"
#include "core/rows.h"
#include "net/kube_name.h"
#include "runtime/store.h"
#include "wire/json.h"

enum { TN_KUBE_NONCE = 17 }; /* Room for its digits. */

struct tn_kube_lease {
    char name[TN_NAME_MAX + 1];   /* Ours; empty: it cannot be one. */
    char version[TN_ROW_VERSION]; /* UID/resourceVersion */
    uint64_t number;              /* The latter, if it is one. */
    struct tn_row row;            /* Its label is below. */
    char label[TN_LABEL_MAX + 1];
    bool foreign;         /* The spec is not the one that we wrote. */
    bool has_transitions; /* Somebody has held it before. */
    uint32_t transitions;
    char acquired[TN_RFC3339], renewed[TN_RFC3339];
    char nonce[TN_KUBE_NONCE]; /* Of the last write of ours; empty: there is none. */
};

/* The Lease at @at. @claimant: the label of the session that reads, which a preferredHolder may be;
 * NULL: none. False: it is no Lease. */
bool tn_kube_lease_read(const struct tn_json_value *values, uint32_t at, const char *claimant,
                        struct tn_kube_lease *ret_lease);

/* What tenure/nonce says in a Lease that was written as @row. */
void tn_kube_nonce(const struct tn_row *row, char ret_nonce[TN_KUBE_NONCE]);

/* Write @name as @row, over @old, which was read from @values at @at and keeps what is not ours;
 * @wall is the time, for people and for client-go. Cut off text: it did not fit. */
void tn_kube_lease_write(struct tn_text *text, const struct tn_json_value *values, uint32_t at,
                         const struct tn_kube_lease *old, const struct tn_row *row,
                         const struct timespec *wall);
/* A new Lease that nobody has held. */
void tn_kube_lease_create(struct tn_text *text, const char *name);

#endif
