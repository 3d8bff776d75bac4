/* secret.c - secrets as text. */
#include "base/secret.h"

#include "base/hex.h"

void tn_secret_text(const struct tn_secret *secret, char ret_text[TN_SECRET_DIGITS])
{
    tn_hex(ret_text, secret->bytes, sizeof secret->bytes);
}

bool tn_secret_parse(struct tn_secret *ret_secret, const char text[TN_SECRET_DIGITS])
{
    struct tn_secret secret;

    if (!tn_unhex(secret.bytes, text, sizeof secret.bytes) || tn_secret_is_zero(&secret))
        return false;
    *ret_secret = secret;
    return true;
}
