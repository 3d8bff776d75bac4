/* sha256_test.c - SHA-256 gives the digests of the standard, whatever the length of the message. */
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

#include "base/sha256.h"

static void check_digest(const void *data, size_t len, const char *expected)
{
    uint8_t digest[TN_SHA256_SIZE], portable[TN_SHA256_SIZE];
    char text[2 * TN_SHA256_SIZE + 1];

    tn_sha256(data, len, digest);
    for (size_t i = 0; i < TN_SHA256_SIZE; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", digest[i]);
    CHECK_STR(text, expected);
    tn_sha256_portable(data, len, portable);
    CHECK(memcmp(portable, digest, sizeof digest) == 0);
}

/* The examples that accompany FIPS 180-4, and the empty message. */
TEST(the_examples_of_the_standard)
{
    static const char two_blocks[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static char million[1000000];

    check_digest("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_digest(two_blocks, strlen(two_blocks),
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    memset(million, 'a', sizeof million);
    check_digest(million, sizeof million,
                 "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Where the padding just fits, and where it needs a block of its own. */
TEST(lengths_around_the_padding)
{
    static const char a[] =
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    check_digest(a, 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    check_digest(a, 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
    check_digest(a, 64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

TEST(the_hashes_of_a_session_and_of_a_term_differ)
{
    struct tn_secret secret = { { 1, 2, 3 } };
    struct tn_secret session, term, again;

    tn_secret_hash(&secret, 's', &session);
    tn_secret_hash(&secret, 't', &term);
    tn_secret_hash(&secret, 's', &again);
    CHECK(!tn_secret_equal(&session, &term));
    CHECK(!tn_secret_equal(&session, &secret));
    CHECK(tn_secret_equal(&session, &again));
}
