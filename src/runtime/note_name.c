/* note_name.c - names of notes; note_name.h has the contract. */
#include "runtime/note_name.h"

#include <inttypes.h>
#include <string.h>

#include "base/sha256.h"
#include "base/text.h"

static const char *const prefixes[TN_NOTE_SLOTS] = {
    [TN_NOTE_OF_NAME] = TN_NOTE_ASK,
    [TN_NOTE_OF_ID] = TN_NOTE_DRAIN_ID,
    [TN_NOTE_OF_HOST] = TN_NOTE_DRAIN_HOST,
};

bool tn_name_is_reserved(const char *name)
{
    return strncmp(name, TN_NOTE_PREFIX, sizeof TN_NOTE_PREFIX - 1) == 0;
}

const char *tn_note_name_about(const char *name, enum tn_note_slot *ret_slot)
{
    for (int slot = 0; slot < TN_NOTE_SLOTS; slot++) {
        size_t len = strlen(prefixes[slot]);
        if (strncmp(name, prefixes[slot], len) != 0)
            continue;
        *ret_slot = (enum tn_note_slot)slot;
        return name + len;
    }
    return NULL;
}

bool tn_note_name_ask(const char *name, char buf[TN_NAME_MAX + 1])
{
    struct tn_text text;

    tn_text_init(&text, buf, TN_NAME_MAX + 1);
    tn_text_add(&text, TN_NOTE_ASK);
    tn_text_add(&text, name);
    return !tn_text_truncated(&text);
}

bool tn_rank_name(const char *name, uint32_t level, char buf[TN_NAME_MAX + 1])
{
    struct tn_text text;

    tn_text_init(&text, buf, TN_NAME_MAX + 1);
    tn_text_addf(&text, TN_NOTE_PRIORITY "%" PRIu32 "/%s", level, name);
    return !tn_text_truncated(&text);
}

/* ':' itself is encoded, and a '.' in front, since "." and ".." are no segments. */
static bool is_plain(const char *id, size_t at)
{
    char c = id[at];

    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c == '.' && at > 0) || c == '_' || c == '~' || c == '@' || c == '-';
}

static bool add_segment(enum tn_note_slot slot, const char *id, char *buf)
{
    struct tn_text text;

    tn_text_init(&text, buf, TN_NAME_MAX + 1);
    tn_text_add(&text, prefixes[slot]);
    for (size_t i = 0; id[i] != '\0'; i++) {
        if (is_plain(id, i))
            tn_text_add_bytes(&text, id + i, 1);
        else
            tn_text_addf(&text, ":%02x", (unsigned char)id[i]);
    }
    return id[0] != '\0' && !tn_text_truncated(&text);
}

bool tn_note_name_id(const char *id, char buf[TN_NAME_MAX + 1])
{
    return add_segment(TN_NOTE_OF_ID, id, buf);
}

bool tn_note_name_host(const char *host, char buf[TN_NAME_MAX + 1])
{
    return add_segment(TN_NOTE_OF_HOST, host, buf);
}

bool tn_note_is_on_host(const char *label, size_t len, const char *host)
{
    size_t host_len = strlen(host);
    const char *rest = label + host_len;

    if (len < host_len || memcmp(label, host, host_len) != 0)
        return false;
    if (len == host_len)
        return true;
    for (size_t i = 1; i < len - host_len; i++)
        if (rest[i] < '0' || rest[i] > '9')
            return false;
    return *rest == '-' && len > host_len + 1;
}

void tn_note_secrets(const char *name, struct tn_secret *ret_session, struct tn_secret *ret_term)
{
    uint8_t digest[TN_SHA256_SIZE];

    tn_sha256(name, strlen(name), digest);
    memcpy(ret_session->bytes, digest, sizeof ret_session->bytes);
    memcpy(ret_term->bytes, digest + sizeof ret_session->bytes, sizeof ret_term->bytes);
}

bool tn_slot_name(const char *name, uint32_t slot, char buf[TN_NAME_MAX + 1])
{
    struct tn_text text;

    tn_text_init(&text, buf, TN_NAME_MAX + 1);
    tn_text_addf(&text, "%s/~%" PRIu32, name, slot);
    return !tn_text_truncated(&text);
}

bool tn_name_is_slot(const char *name)
{
    const char *slash = strrchr(name, '/');
    size_t digits = slash != NULL && slash[1] == '~' ? strspn(slash + 2, "0123456789") : 0;

    return digits > 0 && slash[2 + digits] == '\0';
}
