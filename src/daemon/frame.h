/* frame.h - how records lie in the journal's files: a head per file, then frames with checksums.
 *
 * A frame is one flush: all records of all requests that waited for it. The next frame is written
 * only after the flush of this one has returned. So the only frame that a crash can leave torn is
 * the last, and a good frame behind a bad one means damage.
 *
 *   head   "TENURE\r\n", version, kind, the store's id, a sequence number, checksum    64 bytes
 *   frame  checksum of what follows, length, sequence number, records            16 + length bytes
 *
 * Journal files are filled with zeros ahead of the frames, because to overwrite is faster to flush
 * than to append; zeros where a frame would begin are the end.
 * Pure: no I/O, no allocation. Numbers are little-endian. */
#ifndef TN_DAEMON_FRAME_H
#define TN_DAEMON_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/secret.h"
#include "tenure/error.h"

#define TN_FRAME_VERSION 1
#define TN_FILE_HEAD 64
#define TN_FRAME_HEAD 16
#define TN_FRAME_MAX (UINT32_C(1) << 28)

enum tn_file_kind { TN_FILE_JOURNAL = 1, TN_FILE_SNAPSHOT = 2 };

struct tn_file_head {
    uint32_t version;
    enum tn_file_kind kind;
    struct tn_secret store; /* Which store the file belongs to; random, no secret. */
    uint64_t seq;           /* Journal: of its first frame. Snapshot: of the last one it covers. */
};

void tn_file_head_encode(char to[TN_FILE_HEAD], const struct tn_file_head *head);

/* Returns 0, TENURE_E_DAMAGED, or TENURE_E_UNSUPPORTED for a version that this program does not
 * know (then ret_head->version is set). */
TENURE_MUST_USE int tn_file_head_decode(const char *bytes, size_t len,
                                        struct tn_file_head *ret_head);

/* Complete the frame that begins at @frame: @len bytes of records are already behind its head. */
void tn_frame_seal(char *frame, uint32_t len, uint64_t seq);

enum tn_frame_verdict {
    TN_FRAME_GOOD,
    TN_FRAME_END,     /* Nothing more: the end of the bytes, or zeros. */
    TN_FRAME_TORN,    /* A frame was begun here, and no good one is behind it. */
    TN_FRAME_DAMAGED, /* Bad, although a good frame is behind it, or it is out of order. */
};

struct tn_frame {
    const char *records;
    uint32_t len;
    uint64_t seq;
};

/* Look at the frame at *@at, which should have number @seq; step over it when it is good. */
enum tn_frame_verdict tn_frame_next(const char *bytes, size_t len, size_t *at, uint64_t seq,
                                    struct tn_frame *ret_frame);

#endif
