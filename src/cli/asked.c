/* asked.c - notes that concern a lease; asked.h has the contract. */
#include "cli/asked.h"

#include <stdlib.h>
#include <string.h>

#include "core/rank.h"
#include "runtime/note_name.h"

struct tn_store_lease *tn_asked_read(struct tn_cli_store *store, size_t *ret_count)
{
    struct tn_store_lease *notes = NULL;
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    *ret_count = 0;
    tn_text_init(&error, buf, sizeof buf);
    if (tn_cli_list_ask(store, TN_NOTE_PREFIX, &notes, ret_count, &error) < 0)
        *ret_count = 0;
    return notes;
}

/* "HOST" or "HOST-PID": the length of HOST, or of all of it. */
static size_t host_len(const char *id)
{
    size_t len = strlen(id);
    size_t digits = len;

    while (digits > 0 && id[digits - 1] >= '0' && id[digits - 1] <= '9')
        digits--;
    return digits > 1 && digits < len && id[digits - 1] == '-' ? digits - 1 : len;
}

/* The note @name about the holder @id, or about its host. */
static bool is_about(const char *name, const char *id)
{
    char host[TN_LABEL_MAX + 1], wanted[TN_NAME_MAX + 1];

    (void)snprintf(host, sizeof host, "%.*s", (int)host_len(id), id);
    return (tn_note_name_id(id, wanted) && strcmp(name, wanted) == 0) ||
           (tn_note_name_host(id, wanted) && strcmp(name, wanted) == 0) ||
           (tn_note_name_host(host, wanted) && strcmp(name, wanted) == 0);
}

static struct tn_asked read_note(const struct tn_store_record *note,
                                 const struct tn_store_record *record)
{
    struct tn_note parsed = tn_note_parse(note->label, note->label_len, "", 0);
    struct tn_asked asked = { .kind = (enum tn_note_kind)parsed.kind };
    const char *to = strstr(note->label, " to=");

    if (!note->held || note->revoked)
        asked.kind = TN_NOTE_NONE;
    if (asked.kind != TN_NOTE_HANDOVER)
        return asked;
    if (!record->held || parsed.token != record->token)
        asked.kind = TN_NOTE_NONE; /* Of an earlier term. */
    asked.to = parsed.directed && to != NULL ? to + strlen(" to=") : NULL;
    return asked;
}

struct tn_asked tn_asked_find(const struct tn_store_lease *notes, size_t count,
                              const struct tn_store_lease *lease)
{
    struct tn_asked found = { .kind = TN_NOTE_NONE };

    for (size_t i = 0; i < count; i++) {
        enum tn_note_slot slot;
        const char *about = tn_note_name_about(notes[i].name, &slot);
        bool named = about != NULL && slot == TN_NOTE_OF_NAME && strcmp(about, lease->name) == 0;
        bool node = about != NULL && slot != TN_NOTE_OF_NAME && lease->record.held &&
                    found.kind == TN_NOTE_NONE && is_about(notes[i].name, lease->record.label);
        if (!named && !node)
            continue;
        struct tn_asked asked = read_note(&notes[i].record, &lease->record);
        if (asked.kind != TN_NOTE_NONE)
            found = asked;
    }
    return found;
}

/* --- Who waits ------------------------------------------------------------------------------ */

static void set_level(const struct tn_waiting *waiting, const struct tn_store_record *who,
                      uint64_t level)
{
    for (size_t i = 0; i < waiting->count; i++) {
        struct tn_store_record *one = &waiting->line[i].record;
        if (one->label_len == who->label_len && memcmp(one->label, who->label, who->label_len) == 0)
            one->token = level;
    }
}

/* One candidate of a level holds the lease of that level, and the others wait for it. */
static void read_levels(struct tn_cli_store *store, const char *name,
                        const struct tn_store_lease *notes, size_t note_count,
                        const struct tn_waiting *waiting)
{
    char wanted[TN_NAME_MAX + 1];

    for (uint32_t level = 1; level <= TN_RANK_MAX && tn_rank_name(name, level, wanted); level++) {
        for (size_t i = 0; i < note_count; i++) {
            struct tn_waiting same = { .count = 0 };
            if (!notes[i].record.held || strcmp(notes[i].name, wanted) != 0)
                continue;
            set_level(waiting, &notes[i].record, level);
            if (waiting->count > 1)
                (void)tn_cli_waiters(store, wanted, &same.line, &same.count);
            for (size_t j = 0; j < same.count; j++)
                set_level(waiting, &same.line[j].record, level);
            free(same.line);
        }
    }
}

struct tn_waiting tn_waiting_read(struct tn_cli_store *store, const char *name,
                                  const struct tn_store_lease *notes, size_t note_count)
{
    struct tn_waiting waiting = { .count = 0 };

    waiting.known = tn_cli_waiters(store, name, &waiting.line, &waiting.count);
    for (size_t i = 0; i < waiting.count; i++)
        waiting.line[i].record.token = 0;
    if (waiting.count > 0)
        read_levels(store, name, notes, note_count, &waiting);
    return waiting;
}

const char *tn_asked_word(enum tn_note_kind kind)
{
    static const char *const words[] = { [TN_NOTE_NONE] = "",
                                         [TN_NOTE_HANDOVER] = "handover",
                                         [TN_NOTE_STAND_DOWN] = "stand-down",
                                         [TN_NOTE_DRAIN] = "drain",
                                         [TN_NOTE_YIELD] = "yield" };

    return words[kind];
}
