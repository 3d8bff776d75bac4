/* crc32c.c - eight bytes at a time: on x86 with the processor's instruction for this checksum, and
 * otherwise with eight tables ("slicing by eight"), which are computed when first needed, as eight
 * kilobytes of numbers in the source would say nothing. */
#include "base/crc32c.h"

#include <pthread.h>

#include "base/hash.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define HAS_X86 1
#endif

#define POLYNOMIAL UINT32_C(0x82f63b78) /* Bits reversed: the lowest bit is the highest power. */

static uint32_t tables[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? POLYNOMIAL : 0);
        tables[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++)
            tables[t][i] = tables[t - 1][i] >> 8 ^ tables[0][tables[t - 1][i] & 255];
}

uint32_t tn_crc32c_portable(uint32_t crc, const void *data, size_t len)
{
    const uint8_t *bytes = data;

    (void)pthread_once(&once, fill_tables);
    crc = ~crc;
    for (; len >= 8; len -= 8, bytes += 8) {
        uint64_t word = tn_load_le(bytes, 8) ^ crc;
        crc = 0;
        for (int i = 0; i < 8; i++)
            crc ^= tables[7 - i][word >> (8 * i) & 255];
    }
    for (; len > 0; len--, bytes++)
        crc = crc >> 8 ^ tables[0][(crc ^ *bytes) & 255];
    return ~crc;
}

#ifdef HAS_X86
__attribute__((target("sse4.2"))) static uint32_t crc32c_x86(uint32_t crc, const uint8_t *bytes,
                                                             size_t len)
{
    uint64_t sum = (uint32_t)~crc;

    for (; len >= 8; len -= 8, bytes += 8)
        sum = _mm_crc32_u64(sum, tn_load_le(bytes, 8));
    for (; len > 0; len--, bytes++)
        sum = _mm_crc32_u8((uint32_t)sum, *bytes);
    return ~(uint32_t)sum;
}
#endif

uint32_t tn_crc32c(uint32_t crc, const void *data, size_t len)
{
#ifdef HAS_X86
    if (__builtin_cpu_supports("sse4.2"))
        return crc32c_x86(crc, data, len);
#endif
    return tn_crc32c_portable(crc, data, len);
}
