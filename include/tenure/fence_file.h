/* fence_file.h - writing a file through a fence: the check and the write are one step.
 *
 * The highest token of PATH is kept beside it in PATH.fence, twenty digits that anybody can read.
 * A writer holds flock on that file from the check to the end of the write, so a pause in between
 * keeps everybody else out. A replacement is a new file that is renamed into place; an append that
 * did not end, because its process was killed or the power failed, is cut off again by the next
 * call: bytes that were never admitted to the end are never seen twice or in half afterwards.
 * What was acknowledged is on the disk: file and directory are flushed.
 *
 * Only those who write through these calls are held back; others see an ordinary file. PATH must
 * not be a symbolic link, and its directory must be writable. Use a local filesystem: flock does
 * not reach other hosts on all network filesystems.
 *
 * The calls return 0 or:
 * TENURE_E_INVALID     token 0 (never granted), a path that names no file, or one that ends in
 *                      ".fence";
 * TENURE_E_STALE       a later holder exists: nothing was written, do not retry;
 * TENURE_E_UNAVAILABLE another writer is at it for longer than @timeout, or the disk failed or is
 *                      full: nothing was written;
 * TENURE_E_TIMEOUT     the last flush failed, the write may have happened;
 * TENURE_E_DENIED      no permission; a symbolic link; a file with more than one name, which would
 *                      have as many fences; or a PATH.fence that another user planted;
 * TENURE_E_DAMAGED     PATH.fence holds something else than a token; TENURE_E_NOMEM.
 * Where the system refused, errno has its reason.
 *
 * Threads: any. Memory: nothing is kept. Blocks for the disk, and up to @timeout for others. */
#ifndef TENURE_FENCE_FILE_H
#define TENURE_FENCE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "tenure/error.h"
#include "tenure/time.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Make @len bytes of @data the whole content of @path, if @token is admitted. The file keeps its
 * mode; a new one gets 0666 less the umask. */
TENURE_API TENURE_MUST_USE int tenure_fence_file_replace(const char *path, uint64_t token,
                                                         const void *data, size_t len,
                                                         tenure_ns timeout);

/* Append @len bytes of @data to @path, all of them or none, if @token is admitted. */
TENURE_API TENURE_MUST_USE int tenure_fence_file_append(const char *path, uint64_t token,
                                                        const void *data, size_t len,
                                                        tenure_ns timeout);

/* Raise the fence of @path to @token before its holder writes. The file need not exist. */
TENURE_API TENURE_MUST_USE int tenure_fence_file_raise(const char *path, uint64_t token,
                                                       tenure_ns timeout);

/* The highest token into @ret_highest; 0 when there was none. Never waits for others. */
TENURE_API TENURE_MUST_USE int tenure_fence_file_highest(const char *path, uint64_t *ret_highest);

#ifdef __cplusplus
}
#endif

#endif
