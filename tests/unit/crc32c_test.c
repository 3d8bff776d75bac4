/* crc32c_test.c - the checksum against published values (RFC 3720, appendix B.4). */
#include "tests/harness/test.h"

#include <string.h>

#include "base/crc32c.h"

TEST(the_values_of_the_standard)
{
    unsigned char bytes[32];

    CHECK_EQ_U64(tn_crc32c(0, "123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    CHECK_EQ_U64(tn_crc32c(0, bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    CHECK_EQ_U64(tn_crc32c(0, bytes, sizeof bytes), 0x62a8ab43);
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    CHECK_EQ_U64(tn_crc32c(0, bytes, sizeof bytes), 0x46dd794e);
}

TEST(with_and_without_the_processors_instruction_it_is_the_same)
{
    unsigned char bytes[300];

    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 167 + 13);
    for (size_t len = 0; len <= sizeof bytes; len++)
        for (uint32_t crc = 0; crc < 3; crc++)
            CHECK_EQ_U64(tn_crc32c(~crc, bytes, len), tn_crc32c_portable(~crc, bytes, len));
}

TEST(a_checksum_may_be_made_in_pieces)
{
    const char *text = "the quick brown fox jumps over the lazy dog";
    uint32_t whole = tn_crc32c(0, text, strlen(text));

    for (size_t cut = 0; cut <= strlen(text); cut++)
        CHECK_EQ_U64(tn_crc32c(tn_crc32c(0, text, cut), text + cut, strlen(text) - cut), whole);
}
