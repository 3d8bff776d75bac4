/* journal_fuzz.c - whatever a disk gives back, the journal's reader stays within it and ends.
 *
 * Good frames are cut from the input too: half of the inputs get a right checksum, so that the
 * records behind it are reached. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "daemon/frame.h"
#include "daemon/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_records(const struct tn_frame *frame)
{
    for (size_t at = 0; at < frame->len;) {
        struct tn_journal_record record;
        char again[TN_RECORD_MAX];
        int64_t len = tn_record_decode(frame->records + at, frame->len - at, &record);
        if (len < 0)
            return;
        TN_ASSERT(len > 0);
        TN_ASSERT((size_t)len <= frame->len - at);
        TN_ASSERT(tn_record_encode(again, &record) == (size_t)len);
        TN_ASSERT(memcmp(again, frame->records + at, (size_t)len) == 0);
        at += (size_t)len;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tn_file_head head = { 0 };
    struct tn_frame frame;
    size_t at = 0;
    uint64_t seq = 1;

    if (size < 1)
        return 0;
    char *bytes = malloc(size);
    TN_ASSERT(bytes != NULL);
    memcpy(bytes, data, size);
    if (data[0] % 2 == 0 && size > TN_FRAME_HEAD)
        tn_frame_seal(bytes, (uint32_t)(size - TN_FRAME_HEAD), seq);
    if (tn_file_head_decode(bytes, size, &head) == 0)
        TN_ASSERT(head.version == TN_FRAME_VERSION);
    while (tn_frame_next(bytes, size, &at, seq, &frame) == TN_FRAME_GOOD) {
        TN_ASSERT(at <= size);
        read_records(&frame);
        seq++;
    }
    free(bytes);
    return 0;
}
