/* sha256.h - SHA-256 of a short message, as FIPS 180-4 describes it.
 *
 * Stores keep secrets only as hashes, so that reading a store's file gives nobody a lease. SipHash
 * (hash.h) is no cryptographic hash, and the base may need nothing but the C library: a hundred
 * lines with the standard's own test vectors are cheaper than a dependency on a crypto library. */
#ifndef TN_BASE_SHA256_H
#define TN_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#include "base/secret.h"

enum { TN_SHA256_SIZE = 32 };

void tn_sha256(const void *data, size_t len, uint8_t ret_digest[TN_SHA256_SIZE]);

/* The same without the processor's own instructions, for those that have none, and for tests. */
void tn_sha256_portable(const void *data, size_t len, uint8_t ret_digest[TN_SHA256_SIZE]);

/* What a store keeps of @secret: the first half of the digest. @kind keeps the hashes of a
 * session's and of a term's secret apart. A zero secret is hashed like any other. */
void tn_secret_hash(const struct tn_secret *secret, char kind, struct tn_secret *ret_hash);

#endif
