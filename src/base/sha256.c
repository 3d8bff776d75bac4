/* sha256.c - SHA-256, written from FIPS 180-4; on x86 with the processor's own instructions for it
 * where there are any. */
#include "base/sha256.h"

#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#define HAS_X86 1
#endif

enum { BLOCK = 64 };

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int bits)
{
    return x >> bits | x << (32 - bits);
}

static uint32_t load_be(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void schedule(const uint8_t *block, uint32_t w[64])
{
    for (int i = 0; i < 16; i++)
        w[i] = load_be(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

/* One round. The names of the eight variables move on by one with each, so no value has to. */
static inline void step(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f,
                        uint32_t g, uint32_t *h, uint32_t k_plus_w)
{
    uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
    uint32_t choice = g ^ (e & (f ^ g));
    uint32_t majority = (a & b) | (c & (a | b));
    uint32_t t1 = *h + s1 + choice + k_plus_w;

    *d += t1;
    *h = t1 + s0 + majority;
}

static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64];
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];

    schedule(block, w);
    for (int i = 0; i < 64; i += 8) {
        const uint32_t *k = round_constants + i;
        step(a, b, c, &d, e, f, g, &h, k[0] + w[i]);
        step(h, a, b, &c, d, e, f, &g, k[1] + w[i + 1]);
        step(g, h, a, &b, c, d, e, &f, k[2] + w[i + 2]);
        step(f, g, h, &a, b, c, d, &e, k[3] + w[i + 3]);
        step(e, f, g, &h, a, b, c, &d, k[4] + w[i + 4]);
        step(d, e, f, &g, h, a, b, &c, k[5] + w[i + 5]);
        step(c, d, e, &f, g, h, a, &b, k[6] + w[i + 6]);
        step(b, c, d, &e, f, g, h, &a, k[7] + w[i + 7]);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

#ifdef HAS_X86
/* The instructions do two rounds each and want the state as two halves, ABEF and CDGH, from the
 * highest word down. @m holds the sixteen words of the schedule that are needed next. */
__attribute__((target("sha,sse4.1"))) static void compress_x86(uint32_t state[8],
                                                               const uint8_t *block)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(void *)state), 0xb1);
    __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(void *)(state + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(low, high, 8);
    __m128i cdgh = _mm_blend_epi16(high, low, 0xf0);
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i m[4];

    for (int i = 0; i < 4; i++)
        m[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(block + 16 * i)),
                                big_endian);
    for (int i = 0; i < 16; i++) {
        const void *k = round_constants + 4 * i;
        __m128i sum = _mm_add_epi32(m[i % 4], _mm_loadu_si128((const __m128i *)k));
        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
        abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
        __m128i next = _mm_sha256msg1_epu32(m[i % 4], m[(i + 1) % 4]);
        next = _mm_add_epi32(next, _mm_alignr_epi8(m[(i + 3) % 4], m[(i + 2) % 4], 4));
        m[i % 4] = _mm_sha256msg2_epu32(next, m[(i + 3) % 4]);
    }
    abef = _mm_shuffle_epi32(_mm_add_epi32(abef, abef_before), 0x1b);
    cdgh = _mm_shuffle_epi32(_mm_add_epi32(cdgh, cdgh_before), 0xb1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(abef, cdgh, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(cdgh, abef, 8));
}

static bool has_instructions(void)
{
    static int known; /* 1: no, 2: yes. Whoever finds out finds the same. */
    unsigned a, b = 0, c, d;

    if (__atomic_load_n(&known, __ATOMIC_RELAXED) == 0) {
        bool sse = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1) != 0;
        bool sha = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & 1u << 29) != 0;
        __atomic_store_n(&known, sse && sha ? 2 : 1, __ATOMIC_RELAXED);
    }
    return __atomic_load_n(&known, __ATOMIC_RELAXED) == 2;
}
#endif

typedef void compress_function(uint32_t state[8], const uint8_t *block);

static void digest(compress_function *compress_one, const void *data, size_t len,
                   uint8_t ret_digest[TN_SHA256_SIZE])
{
    uint32_t state[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };
    const uint8_t *bytes = data;
    size_t whole = len / BLOCK * BLOCK;
    size_t rest = len - whole;
    uint8_t tail[2 * BLOCK] = { 0 };
    size_t tail_len = rest < BLOCK - 8 ? BLOCK : 2 * BLOCK;

    for (size_t i = 0; i < whole; i += BLOCK)
        compress_one(state, bytes + i);
    /* The padding: one bit, zeros, and the length in bits, big-endian. */
    if (rest > 0)
        memcpy(tail, bytes + whole, rest);
    tail[rest] = 0x80;
    for (size_t i = 0; i < 8; i++)
        tail[tail_len - 1 - i] = (uint8_t)((uint64_t)len * 8 >> (8 * i));
    for (size_t i = 0; i < tail_len; i += BLOCK)
        compress_one(state, tail + i);
    for (size_t i = 0; i < TN_SHA256_SIZE; i++)
        ret_digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}

void tn_sha256_portable(const void *data, size_t len, uint8_t ret_digest[TN_SHA256_SIZE])
{
    digest(compress, data, len, ret_digest);
}

void tn_sha256(const void *data, size_t len, uint8_t ret_digest[TN_SHA256_SIZE])
{
#ifdef HAS_X86
    if (has_instructions()) {
        digest(compress_x86, data, len, ret_digest);
        return;
    }
#endif
    digest(compress, data, len, ret_digest);
}

void tn_secret_hash(const struct tn_secret *secret, char kind, struct tn_secret *ret_hash)
{
    uint8_t message[1 + sizeof secret->bytes];
    uint8_t digest[TN_SHA256_SIZE];

    message[0] = (uint8_t)kind;
    memcpy(message + 1, secret->bytes, sizeof secret->bytes);
    tn_sha256(message, sizeof message, digest);
    memcpy(ret_hash->bytes, digest, sizeof ret_hash->bytes);
}
