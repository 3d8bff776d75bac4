/* note.c - when a holder steps down for an operator, and who stays out of the line; note.h has the
 * rules.
 *
 * What can fail: word of a note may be late, doubled or lost. A note carries the token of its own
 * lease, so an older one never replaces a newer one. It says how long it lasts, so nobody waits for
 * word of its end. */
#include "core/note.h"

#include <string.h>

#include "core/plan.h"
#include "core/plant.h"

/* --- Words ------------------------------------------------------------------------------------ */

static bool take_word(const char **text, size_t *len, const char *word, size_t word_len)
{
    if (*len < word_len || memcmp(*text, word, word_len) != 0)
        return false;
    *text += word_len;
    *len -= word_len;
    return true;
}

/* Digits of a number above 0. */
static bool take_number(const char **text, size_t *len, uint64_t *ret_number)
{
    uint64_t number = 0;

    while (*len > 0 && **text >= '0' && **text <= '9') {
        uint64_t digit = (uint64_t)(**text - '0');
        if (number > (UINT64_MAX - digit) / 10)
            return false;
        number = 10 * number + digit;
        (*text)++;
        (*len)--;
    }
    *ret_number = number;
    return number > 0;
}

#define TAKE(text, len, word) take_word(&(text), &(len), word, sizeof(word) - 1)

struct tn_note tn_note_parse(const char *text, size_t len, const char *id, size_t id_len)
{
    struct tn_note note = { .kind = TN_NOTE_NONE };

    if (TAKE(text, len, "stand-down") && len == 0) {
        note.kind = TN_NOTE_STAND_DOWN;
    } else if (TAKE(text, len, "drain") && len == 0) {
        note.kind = TN_NOTE_DRAIN;
    } else if (TAKE(text, len, "handover token=") && take_number(&text, &len, &note.token)) {
        note.directed = TAKE(text, len, " to=");
        note.chosen = note.directed && len == id_len && memcmp(text, id, len) == 0;
        if (note.directed ? len > 0 : len == 0)
            note.kind = TN_NOTE_HANDOVER;
    }
    return note;
}

/* --- What is known ---------------------------------------------------------------------------- */

static bool lasts(const struct tn_note *note, tenure_ns heard_at, tenure_ns now)
{
    return note->kind != TN_NOTE_NONE && (now < heard_at + note->lasts || TN_PLANT(NOTE_FOREVER));
}

/* The kind of a note about the process that lasts. */
static enum tn_note_kind node_note(const struct tn_notes *notes, tenure_ns now)
{
    for (int slot = TN_NOTE_OF_ID; notes->node != NULL && slot < TN_NOTE_SLOTS; slot++)
        if (lasts(&notes->node->list[slot], notes->node->heard_at[slot], now))
            return (enum tn_note_kind)notes->node->list[slot].kind;
    return TN_NOTE_NONE;
}

/* A process that starts on a drained node must not lead before it has read so. */
bool tn_node_notes_missing(const struct tn_node_notes *notes, tenure_ns now)
{
    for (int slot = TN_NOTE_OF_ID; notes != NULL && slot < TN_NOTE_SLOTS; slot++)
        if (notes->awaited[slot] && now < notes->await_until)
            return true;
    return false;
}

void tn_node_notes_await(struct tn_node_notes *notes, enum tn_note_slot slot, tenure_ns until)
{
    notes->awaited[slot] = true;
    notes->await_until = until;
}

/* False: older, or the same again, which does not make it last longer. */
static bool hear_note(struct tn_note *known, tenure_ns *heard_at, tenure_ns now,
                      const struct tn_note *note)
{
    bool ends = note->number == known->number && note->kind == TN_NOTE_NONE;

    if (note->number < known->number || (note->number == known->number && !ends))
        return false;
    *known = *note;
    if (known->lasts > TN_TTL_MAX) /* Whatever the store said of it. */
        known->lasts = TN_TTL_MAX;
    *heard_at = now;
    return true;
}

void tn_node_notes_hear(struct tn_node_notes *notes, tenure_ns now, enum tn_note_slot slot,
                        const struct tn_note *note)
{
    struct tn_note heard = *note;

    if (heard.kind != TN_NOTE_DRAIN)
        heard.kind = TN_NOTE_NONE; /* H1: a hand-over is about a term, not about a process. */
    notes->awaited[slot] = false;
    (void)hear_note(&notes->list[slot], &notes->heard_at[slot], now, &heard);
}

void tn_notes_hear(struct tn_notes *notes, tenure_ns now, const struct tn_note *note)
{
    if (!hear_note(&notes->note, &notes->heard_at, now, note))
        return;
    notes->chosen_until = 0;
    if (note->chosen)
        notes->back_until = 0; /* Who is asked to lead need not stand back any more. */
}

void tn_notes_see(struct tn_notes *notes, tenure_ns now, bool held, uint64_t token,
                  const struct tn_note_times *times)
{
    const struct tn_note *note = &notes->note;

    if (notes->rank != NULL)
        tn_rank_see(notes->rank, held, token);
    if (held && token > notes->leader_token)
        notes->leader_token = token;
    if (held && token > notes->back_token)
        notes->back_until = 0;
    if (!held && note->kind == TN_NOTE_HANDOVER && token >= note->token && notes->chosen_until == 0)
        notes->chosen_until = now + times->back;
}

void tn_notes_won(struct tn_notes *notes, tenure_ns now, uint64_t token,
                  const struct tn_note_times *times)
{
    tn_notes_see(notes, now, true, token, times);
    if (notes->rank == NULL)
        return;
    notes->rank->gave_way = false;
    notes->rank->refusals = 0;
    notes->rank->chosen = notes->note.chosen && lasts(&notes->note, notes->heard_at, now);
}

void tn_notes_stand_back(struct tn_notes *notes, tenure_ns now, uint64_t token,
                         const struct tn_note_times *times)
{
    if (notes->rank != NULL)
        tn_rank_stood_back(notes->rank, token);
    notes->back_token = token;
    if (notes->leader_token <= token && !TN_PLANT(NOTE_RETURNS))
        notes->back_until = now + times->back;
}

/* --- What follows ----------------------------------------------------------------------------- */

enum tn_note_kind tn_notes_ask(const struct tn_notes *notes, tenure_ns now, uint64_t token,
                               const struct tn_note_times *times)
{
    const struct tn_note *note = &notes->note;
    enum tn_note_kind kind = node_note(notes, now);

    if (TN_PLANT(NOTE_IGNORED))
        return TN_NOTE_NONE;
    if (kind != TN_NOTE_NONE)
        return kind;
    if (notes->rank != NULL && tn_rank_asks(notes->rank, now, times->settle))
        kind = TN_NOTE_YIELD;
    if (!lasts(note, notes->heard_at, now) || note->chosen)
        return kind;
    if (note->kind != TN_NOTE_HANDOVER)
        return (enum tn_note_kind)note->kind;
    if (note->token != token && !(TN_PLANT(NOTE_OLD_TOKEN) && note->token < token))
        return kind;
    if (note->directed && now < notes->heard_at + times->settle)
        return TN_NOTE_NONE;
    return TN_NOTE_HANDOVER;
}

/* Somebody else is chosen, and may still lead because of this note. */
static bool waits_for_chosen(const struct tn_notes *notes, tenure_ns now)
{
    const struct tn_note *note = &notes->note;

    return note->directed && !note->chosen && notes->leader_token <= note->token &&
           (notes->chosen_until == 0 || now < notes->chosen_until || TN_PLANT(NOTE_FOREVER));
}

/* By an operator, or for one. */
static bool is_kept_out(const struct tn_notes *notes, tenure_ns now)
{
    if (now < notes->back_until || node_note(notes, now) != TN_NOTE_NONE ||
        tn_node_notes_missing(notes->node, now))
        return true;
    return lasts(&notes->note, notes->heard_at, now) &&
           (notes->note.kind != TN_NOTE_HANDOVER || waits_for_chosen(notes, now));
}

bool tn_notes_bar(const struct tn_notes *notes, tenure_ns now)
{
    bool chosen = notes->note.chosen && lasts(&notes->note, notes->heard_at, now);

    return is_kept_out(notes, now) ||
           (notes->rank != NULL && !chosen && tn_rank_bars(notes->rank, now));
}

enum tn_note_kind tn_notes_forbid(const struct tn_notes *notes, tenure_ns now)
{
    enum tn_note_kind kind = node_note(notes, now);

    if (kind == TN_NOTE_NONE && notes->note.kind == TN_NOTE_STAND_DOWN &&
        lasts(&notes->note, notes->heard_at, now))
        kind = TN_NOTE_STAND_DOWN;
    return kind;
}

static tenure_ns sooner(tenure_ns at, tenure_ns than, tenure_ns now)
{
    return at > now && at < than ? at : than;
}

static tenure_ns note_wake_at(const struct tn_note *note, tenure_ns heard_at, tenure_ns at,
                              tenure_ns now)
{
    if (note->kind == TN_NOTE_NONE || TN_PLANT(NOTE_FOREVER))
        return at;
    return sooner(heard_at + note->lasts, at, now);
}

tenure_ns tn_notes_wake_at(const struct tn_notes *notes, tenure_ns now,
                           const struct tn_note_times *times)
{
    tenure_ns at = sooner(notes->back_until, TN_NEVER, now);

    at = sooner(notes->chosen_until, at, now);
    at = note_wake_at(&notes->note, notes->heard_at, at, now);
    if (notes->rank != NULL)
        at = sooner(tn_rank_wake_at(notes->rank, now, times->settle), at, now);
    if (notes->note.directed)
        at = sooner(notes->heard_at + times->settle, at, now);
    if (tn_node_notes_missing(notes->node, now))
        at = sooner(notes->node->await_until, at, now);
    for (int slot = TN_NOTE_OF_ID; notes->node != NULL && slot < TN_NOTE_SLOTS; slot++)
        at = note_wake_at(&notes->node->list[slot], notes->node->heard_at[slot], at, now);
    return at;
}
