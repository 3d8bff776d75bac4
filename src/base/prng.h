/* prng.h - the seeded generator behind jitter and the simulator: xoshiro256** 1.0.
 *
 * The same seed gives the same numbers on every platform and compiler, so a run can be replayed.
 * It is not for secrets. All inline and without 128-bit arithmetic, because the core, which may
 * call nothing, uses it, also where it is compiled to 32-bit WebAssembly.
 * Source of both algorithms: https://prng.di.unimi.it (public domain). */
#ifndef TN_BASE_PRNG_H
#define TN_BASE_PRNG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"

struct tn_prng {
    uint64_t s[4];
};

static inline uint64_t tn_prng_rotl(uint64_t x, unsigned k)
{
    return (x << k) | (x >> (64 - k));
}

/* One step of splitmix64. It also turns a seed and a number into an independent second seed. */
static inline uint64_t tn_prng_split(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Any seed will do, 0 too: splitmix64 spreads it, so the state is never all zero. */
static inline void tn_prng_seed(struct tn_prng *p, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++)
        p->s[i] = tn_prng_split(&seed);
}

static inline uint64_t tn_prng_next(struct tn_prng *p)
{
    uint64_t result = tn_prng_rotl(p->s[1] * 5, 7) * 9;
    uint64_t t = p->s[1] << 17;

    p->s[2] ^= p->s[0];
    p->s[3] ^= p->s[1];
    p->s[1] ^= p->s[2];
    p->s[0] ^= p->s[3];
    p->s[2] ^= t;
    p->s[3] = tn_prng_rotl(p->s[3], 45);
    return result;
}

/* The high 64 bits of a 128-bit product, from 32-bit halves. */
static inline uint64_t tn_prng_mul_high(uint64_t a, uint64_t b)
{
    uint64_t a_low = a & UINT32_MAX;
    uint64_t a_high = a >> 32;
    uint64_t b_low = b & UINT32_MAX;
    uint64_t b_high = b >> 32;
    uint64_t low = a_low * b_low;
    uint64_t mid = a_high * b_low + (low >> 32);
    uint64_t mid_low = a_low * b_high + (mid & UINT32_MAX);

    return a_high * b_high + (mid >> 32) + (mid_low >> 32);
}

/* Uniform in [0, n), without bias; n > 0. Lemire's multiply-shift: the high half of x * n is the
 * result, and the few x whose low half falls below 2^64 mod n are drawn again. */
static inline uint64_t tn_prng_below(struct tn_prng *p, uint64_t n)
{
    TN_ASSERT(n > 0);

    uint64_t x = tn_prng_next(p);
    if (x * n < n) {
        uint64_t threshold = (0 - n) % n;
        while (x * n < threshold)
            x = tn_prng_next(p);
    }
    return tn_prng_mul_high(x, n);
}

/* Uniform in [lo, hi], both included; any pair with lo <= hi. */
static inline int64_t tn_prng_range(struct tn_prng *p, int64_t lo, int64_t hi)
{
    TN_ASSERT(lo <= hi);

    uint64_t span = (uint64_t)hi - (uint64_t)lo;
    uint64_t step = span == UINT64_MAX ? tn_prng_next(p) : tn_prng_below(p, span + 1);
    uint64_t sum = (uint64_t)lo + step;
    /* Back to signed without relying on how an out-of-range conversion behaves. */
    return sum <= INT64_MAX ? (int64_t)sum : -(int64_t)(UINT64_MAX - sum) - 1;
}

/* True with a chance of @ppm in a million; at 1000000 and above, always. It draws for
 * every rate, 0 too, so that turning one fault off does not shift the draws of all others. */
static inline bool tn_prng_ppm(struct tn_prng *p, uint32_t ppm)
{
    return tn_prng_below(p, 1000000) < ppm;
}

#endif
