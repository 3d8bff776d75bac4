/* hash_test.c - tn_hash is SipHash-1-3, checked against a second, plainer SipHash-c-d that is
 * itself checked against the published SipHash-2-4 vectors. */
#include "tests/harness/test.h"

#include "base/hash.h"

/* The figure of the paper, line by line: four words, c rounds per word, d rounds at the end. */
struct sip {
    uint64_t a, b, c, d;
};

static uint64_t left(uint64_t x, unsigned by)
{
    return (x << by) | (x >> (64 - by));
}

static void rounds(struct sip *s, int count)
{
    while (count-- > 0) {
        s->a = s->a + s->b;
        s->c = s->c + s->d;
        s->b = left(s->b, 13);
        s->d = left(s->d, 16);
        s->b = s->b ^ s->a;
        s->d = s->d ^ s->c;
        s->a = left(s->a, 32);
        s->c = s->c + s->b;
        s->a = s->a + s->d;
        s->b = left(s->b, 17);
        s->d = left(s->d, 21);
        s->b = s->b ^ s->c;
        s->d = s->d ^ s->a;
        s->c = left(s->c, 32);
    }
}

/* The message is padded with zeros to one byte short of a multiple of eight; the length, modulo
 * 256, is that last byte. */
static uint64_t sip_hash(int c, int d, uint64_t k0, uint64_t k1, const uint8_t *data, size_t len)
{
    struct sip s = { k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d),
                     k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573) };
    size_t padded = (len + 8) & ~(size_t)7;
    uint64_t word = 0;

    for (size_t i = 0; i < padded; i++) {
        uint64_t byte = i < len ? data[i] : i == padded - 1 ? len & 0xff : 0;
        word = word >> 8 | byte << 56;
        if (i % 8 == 7) {
            s.d ^= word;
            rounds(&s, c);
            s.a ^= word;
        }
    }
    s.c ^= 0xff;
    rounds(&s, d);
    return s.a ^ s.b ^ s.c ^ s.d;
}

static const struct tn_hash_key counting_key = { UINT64_C(0x0706050403020100),
                                                 UINT64_C(0x0f0e0d0c0b0a0908) };

static void fill_counting(uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)i;
}

TEST(the_reference_gives_the_vectors_of_the_paper)
{
    uint8_t message[16];

    fill_counting(message, sizeof message);
    CHECK_EQ_U64(sip_hash(2, 4, counting_key.k0, counting_key.k1, message, 15),
                 UINT64_C(0xa129ca6149be45e5));
    CHECK_EQ_U64(sip_hash(2, 4, counting_key.k0, counting_key.k1, message, 0),
                 UINT64_C(0x726fdb47dd0e0e31));
    CHECK_EQ_U64(sip_hash(2, 4, counting_key.k0, counting_key.k1, message, 8),
                 UINT64_C(0x93f5f5799a932462));
}

TEST(the_hash_is_siphash_1_3_at_every_length)
{
    uint8_t message[600];

    fill_counting(message, sizeof message);
    for (size_t len = 0; len <= sizeof message; len++)
        CHECK_EQ_U64(tn_hash(counting_key, message, len),
                     sip_hash(1, 3, counting_key.k0, counting_key.k1, message, len));
}

TEST(the_hash_does_not_care_where_the_bytes_lie)
{
    uint8_t message[72];

    fill_counting(message, sizeof message);
    for (size_t shift = 0; shift < 8; shift++)
        CHECK_EQ_U64(tn_hash(counting_key, message + shift, 61),
                     sip_hash(1, 3, counting_key.k0, counting_key.k1, message + shift, 61));
}

TEST(every_bit_of_the_key_and_of_the_message_counts)
{
    uint8_t message[21];
    uint64_t plain;

    fill_counting(message, sizeof message);
    plain = tn_hash(counting_key, message, sizeof message);
    for (int bit = 0; bit < 64; bit++) {
        struct tn_hash_key low = { counting_key.k0 ^ UINT64_C(1) << bit, counting_key.k1 };
        struct tn_hash_key high = { counting_key.k0, counting_key.k1 ^ UINT64_C(1) << bit };
        CHECK(tn_hash(low, message, sizeof message) != plain);
        CHECK(tn_hash(high, message, sizeof message) != plain);
    }
    for (size_t bit = 0; bit < 8 * sizeof message; bit++) {
        message[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK(tn_hash(counting_key, message, sizeof message) != plain);
        message[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

TEST(a_trailing_zero_byte_is_part_of_the_message)
{
    const uint8_t zeros[9] = { 0 };

    for (size_t len = 0; len < sizeof zeros; len++)
        CHECK(tn_hash(counting_key, zeros, len) != tn_hash(counting_key, zeros, len + 1));
}
