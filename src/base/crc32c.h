/* crc32c.h - the checksum of what is written to disk: CRC-32 with Castagnoli's polynomial.
 *
 * It notices every burst of up to 32 bits and all but one in four thousand million other changes.
 * It is no proof against somebody who wants to deceive; for that, see sha256.h. */
#ifndef TN_BASE_CRC32C_H
#define TN_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of @len more bytes, after bytes whose checksum is @crc; 0 to begin with. */
uint32_t tn_crc32c(uint32_t crc, const void *data, size_t len);
/* The same without the processor's own instruction, for those that have none, and for tests. */
uint32_t tn_crc32c_portable(uint32_t crc, const void *data, size_t len);

#endif
