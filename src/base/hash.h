/* hash.h - SipHash-1-3: a keyed hash for tables whose keys come from strangers.
 *
 * With a key they do not know, nobody can pick names that all fall into one bucket. Written from
 * the published description (Aumasson and Bernstein, "SipHash: a fast short-input PRF"). */
#ifndef TN_BASE_HASH_H
#define TN_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct tn_hash_key {
    uint64_t k0, k1;
};

static inline uint64_t tn_rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void tn_sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = tn_rotate(v[1], 13) ^ v[0];
    v[0] = tn_rotate(v[0], 32);
    v[2] += v[3];
    v[3] = tn_rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = tn_rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = tn_rotate(v[1], 17) ^ v[2];
    v[2] = tn_rotate(v[2], 32);
}

/* Up to eight bytes as a little-endian number, on every machine. */
static inline uint64_t tn_load_le(const uint8_t *bytes, size_t count)
{
    uint64_t word = 0;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (count == 8) { /* One load, which compilers do not make of the loop. */
        memcpy(&word, bytes, 8);
        return word;
    }
#endif
    for (size_t i = 0; i < count; i++)
        word |= (uint64_t)bytes[i] << (8 * i);
    return word;
}

static inline uint64_t tn_hash(struct tn_hash_key key, const void *data, size_t len)
{
    const uint8_t *bytes = data;
    uint64_t v[4] = { key.k0 ^ 0x736f6d6570736575, key.k1 ^ 0x646f72616e646f6d,
                      key.k0 ^ 0x6c7967656e657261, key.k1 ^ 0x7465646279746573 };
    size_t whole = len / 8 * 8;
    for (size_t i = 0; i <= whole; i += 8) {
        uint64_t word = i < whole ? tn_load_le(bytes + i, 8)
                                  : tn_load_le(bytes + i, len - whole) | (uint64_t)len << 56;
        v[3] ^= word;
        tn_sip_round(v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        tn_sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

#endif
