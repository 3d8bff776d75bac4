/* frame.c - the frames of frame.h. */
#include "daemon/frame.h"

#include <string.h>

#include "base/crc32c.h"
#include "base/hash.h"

static const char magic[8] = { 'T', 'E', 'N', 'U', 'R', 'E', '\r', '\n' };

enum { VERSION_AT = 8, KIND_AT = 12, STORE_AT = 16, SEQ_AT = 32, HEAD_CRC_AT = 60 };
enum { CRC_AT = 0, LEN_AT = 4, FRAME_SEQ_AT = 8 };

static void store_le(char *to, uint64_t number, int count)
{
    for (int i = 0; i < count; i++)
        to[i] = (char)(number >> (8 * i) & 255);
}

static uint64_t load(const char *from, size_t count)
{
    return tn_load_le((const uint8_t *)from, count);
}

void tn_file_head_encode(char to[TN_FILE_HEAD], const struct tn_file_head *head)
{
    memset(to, 0, TN_FILE_HEAD);
    memcpy(to, magic, sizeof magic);
    store_le(to + VERSION_AT, head->version, 4);
    store_le(to + KIND_AT, (uint64_t)head->kind, 4);
    memcpy(to + STORE_AT, head->store.bytes, sizeof head->store.bytes);
    store_le(to + SEQ_AT, head->seq, 8);
    store_le(to + HEAD_CRC_AT, tn_crc32c(0, to, HEAD_CRC_AT), 4);
}

int tn_file_head_decode(const char *bytes, size_t len, struct tn_file_head *ret_head)
{
    struct tn_file_head head = { 0 };

    if (len < TN_FILE_HEAD || memcmp(bytes, magic, sizeof magic) != 0 ||
        load(bytes + HEAD_CRC_AT, 4) != tn_crc32c(0, bytes, HEAD_CRC_AT))
        return TENURE_E_DAMAGED;
    head.version = (uint32_t)load(bytes + VERSION_AT, 4);
    if (head.version != TN_FRAME_VERSION) {
        ret_head->version = head.version;
        return TENURE_E_UNSUPPORTED;
    }
    head.kind = (enum tn_file_kind)load(bytes + KIND_AT, 4);
    memcpy(head.store.bytes, bytes + STORE_AT, sizeof head.store.bytes);
    head.seq = load(bytes + SEQ_AT, 8);
    *ret_head = head;
    return 0;
}

void tn_frame_seal(char *frame, uint32_t len, uint64_t seq)
{
    store_le(frame + LEN_AT, len, 4);
    store_le(frame + FRAME_SEQ_AT, seq, 8);
    store_le(frame + CRC_AT, tn_crc32c(0, frame + LEN_AT, TN_FRAME_HEAD - LEN_AT + len), 4);
}

/* Whether a whole frame with a right checksum begins at @at. */
static bool is_good(const char *bytes, size_t len, size_t at)
{
    if (len - at < TN_FRAME_HEAD)
        return false;
    uint64_t size = load(bytes + at + LEN_AT, 4);
    if (size == 0 || size > TN_FRAME_MAX || size > len - at - TN_FRAME_HEAD)
        return false;
    return load(bytes + at + CRC_AT, 4) ==
           tn_crc32c(0, bytes + at + LEN_AT, TN_FRAME_HEAD - LEN_AT + (size_t)size);
}

/* Whether any good frame with a number a little above @seq begins behind @at. The number is looked
 * at first: a checksum at every byte would take for ever. */
static bool good_behind(const char *bytes, size_t len, size_t at, uint64_t seq)
{
    for (at++; at + TN_FRAME_HEAD < len; at++) {
        uint64_t number = load(bytes + at + FRAME_SEQ_AT, 8);
        if (number > seq && number - seq < UINT64_C(1) << 32 && is_good(bytes, len, at))
            return true;
    }
    return false;
}

static bool all_zero(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

enum tn_frame_verdict tn_frame_next(const char *bytes, size_t len, size_t *at, uint64_t seq,
                                    struct tn_frame *ret_frame)
{
    if (*at >= len)
        return TN_FRAME_END;
    if (is_good(bytes, len, *at)) {
        const char *frame = bytes + *at;
        if (load(frame + FRAME_SEQ_AT, 8) != seq)
            return TN_FRAME_DAMAGED;
        *ret_frame = (struct tn_frame) { .records = frame + TN_FRAME_HEAD,
                                         .len = (uint32_t)load(frame + LEN_AT, 4),
                                         .seq = seq };
        *at += TN_FRAME_HEAD + ret_frame->len;
        return TN_FRAME_GOOD;
    }
    if (all_zero(bytes + *at, len - *at))
        return TN_FRAME_END;
    return good_behind(bytes, len, *at, seq) ? TN_FRAME_DAMAGED : TN_FRAME_TORN;
}
