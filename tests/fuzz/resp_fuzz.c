/* resp_fuzz.c - whatever arrives, both readers of the codec agree with themselves.
 *
 * The first byte says how the rest is cut into pieces. Read piece by piece, a command or a value
 * must end where it ends when read at once, with the same words; and what a scan has measured must
 * be walked to its very end. Every piece gets a buffer of its own size, so that the sanitizer sees
 * a read of one byte too many. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "wire/resp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct tn_resp_limits limits = { .frame_bytes = 512, .word_bytes = 128, .words = 8 };

static char *copy_of(const uint8_t *data, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1);

    TN_ASSERT(copy != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    return copy;
}

/* The sum stands for the words, so that two readings can be compared. */
static int64_t read_pieces(const uint8_t *data, size_t size, size_t step, uint64_t *ret_sum)
{
    struct tn_resp_request request = { 0 };
    struct tn_resp_word words[8];
    const char *err = NULL;
    uint32_t count = 0;
    int64_t rc = 0;

    *ret_sum = 0;
    for (size_t len = step < size ? step : size; rc == 0; len += step < size - len ? step : 1) {
        char *bytes = copy_of(data, len);
        rc = tn_resp_read(&request, &limits, bytes, len, words, &count, &err);
        TN_ASSERT(rc <= (int64_t)len);
        TN_ASSERT(rc >= 0 || err != NULL);
        for (uint32_t i = 0; rc > 0 && i < count; i++)
            for (uint32_t j = 0; j < words[i].len; j++)
                *ret_sum = *ret_sum * 31 + (uint8_t)words[i].bytes[j] + i;
        free(bytes);
        if (len >= size)
            break;
    }
    return rc;
}

static int64_t scan_pieces(const uint8_t *data, size_t size, size_t step)
{
    struct tn_resp_scan scan = { 0 };
    int64_t rc = 0;

    for (size_t len = step < size ? step : size; rc == 0; len += step < size - len ? step : 1) {
        char *bytes = copy_of(data, len);
        rc = tn_resp_scan(&scan, 512, 64, bytes, len);
        TN_ASSERT(rc <= (int64_t)len);
        if (rc > 0) {
            struct tn_resp_value value;
            size_t at = 0;
            while (at < (size_t)rc)
                TN_ASSERT(tn_resp_next(bytes, (size_t)rc, &at, &value) == 0);
            TN_ASSERT(at == (size_t)rc);
        }
        free(bytes);
        if (len >= size)
            break;
    }
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t whole_sum;
    uint64_t pieces_sum;

    if (size < 2)
        return 0;
    size_t step = 1 + data[0] % 16;
    data++;
    size--;
    int64_t whole = read_pieces(data, size, size, &whole_sum);
    int64_t pieces = read_pieces(data, size, step, &pieces_sum);
    TN_ASSERT(whole == pieces);
    TN_ASSERT(whole_sum == pieces_sum);
    TN_ASSERT(scan_pieces(data, size, size) == scan_pieces(data, size, step));
    return 0;
}
