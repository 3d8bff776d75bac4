/* secret.h - the 128-bit secret that proves who took a lease or opened a session.
 *
 * Identity strings are labels; only the secret is proof. It is compared in constant time, because
 * the comparison happens on the side that an attacker can ask again and again. */
#ifndef TN_BASE_SECRET_H
#define TN_BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tn_secret {
    uint8_t bytes[16];
};

/* Looks at every byte, whatever the first ones say. */
static inline bool tn_secret_equal(const struct tn_secret *a, const struct tn_secret *b)
{
    unsigned difference = 0;

    for (size_t i = 0; i < sizeof a->bytes; i++)
        difference |= (unsigned)(a->bytes[i] ^ b->bytes[i]);
    return difference == 0;
}

/* Its hexadecimal digits, without a zero behind them; and back, from digits of either case: false
 * if they are none, or all zero. */
enum { TN_SECRET_DIGITS = 32 };
void tn_secret_text(const struct tn_secret *secret, char ret_text[TN_SECRET_DIGITS]);
bool tn_secret_parse(struct tn_secret *ret_secret, const char text[TN_SECRET_DIGITS]);

/* All zero means "no secret"; it is never given out. */
static inline bool tn_secret_is_zero(const struct tn_secret *secret)
{
    unsigned bits = 0;

    for (size_t i = 0; i < sizeof secret->bytes; i++)
        bits |= secret->bytes[i];
    return bits == 0;
}

#endif
