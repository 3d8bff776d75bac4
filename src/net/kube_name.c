/* kube_name.c - the spelling and its way back; kube_name.h has the rules. */
#include "net/kube_name.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/sha256.h"

#define PREFIX "tenure-"
#define LONG_PREFIX "tenure-long." /* No other spelling has a dot. */

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* RFC 1123, a subdomain: parts of letters, digits and inner hyphens, joined by dots. */
static bool is_plain(const char *name, size_t len)
{
    if (len >= TN_KUBE_NAME || (len >= sizeof PREFIX - 1 && memcmp(name, PREFIX, 7) == 0))
        return false;
    for (size_t i = 0; i < len; i++) {
        bool edge = i == 0 || i == len - 1 || name[i - 1] == '.' || name[i + 1] == '.';
        if (!is_alnum(name[i]) && (edge || (name[i] != '-' && name[i] != '.')))
            return false;
    }
    return len > 0;
}

void tn_kube_name(const char *name, size_t len, char ret_object[TN_KUBE_NAME])
{
    uint8_t digest[TN_SHA256_SIZE];
    char digits[2 * TN_SHA256_SIZE];
    struct tn_text text;

    tn_text_init(&text, ret_object, TN_KUBE_NAME);
    if (is_plain(name, len)) {
        tn_text_add_bytes(&text, name, len);
        return;
    }
    tn_text_add(&text, PREFIX);
    for (size_t i = 0; i < len; i++) {
        if (is_alnum(name[i]))
            tn_text_add_bytes(&text, &name[i], 1);
        else
            tn_text_addf(&text, "-%02x", (unsigned char)name[i]);
    }
    if (!tn_text_truncated(&text))
        return;
    tn_sha256(name, len, digest);
    tn_text_init(&text, ret_object, TN_KUBE_NAME);
    tn_text_add(&text, LONG_PREFIX);
    tn_hex(digits, digest, sizeof digest);
    tn_text_add_bytes(&text, digits, sizeof digits);
}

bool tn_kube_name_back(const char *object, const char *full, char ret_name[TN_NAME_MAX + 1])
{
    size_t len = strlen(object), to = 0;
    char again[TN_KUBE_NAME];
    char name[TN_NAME_MAX + 1] = "";

    if (strncmp(object, LONG_PREFIX, sizeof LONG_PREFIX - 1) == 0) {
        (void)snprintf(name, sizeof name, "%s", full != NULL ? full : "");
    } else if (strncmp(object, PREFIX, sizeof PREFIX - 1) == 0) {
        for (size_t i = sizeof PREFIX - 1; i < len && to < TN_NAME_MAX; i++) {
            if (object[i] != '-')
                name[to++] = object[i];
            else if (len - i < 3 || !tn_unhex(&name[to++], object + i + 1, 1))
                return false;
            i += object[i] == '-' ? 2 : 0;
        }
    } else {
        (void)snprintf(name, sizeof name, "%s", object);
    }
    if (tn_name_check(name, strlen(name), NULL) != 0)
        return false;
    tn_kube_name(name, strlen(name), again);
    if (strcmp(again, object) != 0)
        return false; /* Another spelling, which nobody would find again. */
    memcpy(ret_name, name, sizeof name);
    return true;
}

bool tn_kube_name_is_hash(const char *object)
{
    return strncmp(object, LONG_PREFIX, sizeof LONG_PREFIX - 1) == 0;
}
