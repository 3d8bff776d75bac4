/* driver_news.c - what the store tells of names, in the candidate's words; driver.h. */
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "runtime/driver_inside.h"
#include "runtime/note_name.h"

/* A stray grant can only be of a generation that was given up a moment ago. */
#define GENERATIONS_KNOWN 3

/* The generation of @seat whose term has this hash; 0: it is not one of ours. */
static uint64_t find_gen(const struct tn_driver *driver, const struct tn_driver_seat *seat,
                         const struct tn_secret *hash)
{
    uint64_t gen = seat->seat.claim.gen;

    for (unsigned i = 0; i < GENERATIONS_KNOWN && gen > 0; i++, gen--) {
        struct tn_secret secret = tn_driver_term_secret(driver, seat, gen), known;
        tn_secret_hash(&secret, 't', &known);
        if (tn_secret_equal(&known, hash))
            return gen;
    }
    return 0;
}

/* What the store says, in the candidate's words; @seat NULL: nobody's record. */
struct tn_record tn_driver_read_record(const struct tn_driver *driver,
                                       const struct tn_driver_seat *seat,
                                       const struct tn_store_record *record)
{
    uint64_t gen = record->held && seat != NULL ? find_gen(driver, seat, &record->term) : 0;
    return (struct tn_record) { .held = record->held,
                                .mine = gen != 0,
                                .gen = gen,
                                .token = record->token,
                                .beat = record->beat,
                                .ttl = record->ttl };
}

/* Whose label it is, before the candidate decides whether it is news. */
void tn_driver_note_leader(struct tn_driver_seat *seat, const struct tn_store_record *record)
{
    const struct tn_claim *claim = &seat->seat.claim;
    uint32_t len = record->held ? record->label_len : 0;

    if (claim->informed && record->token < claim->leader_token)
        return; /* Late word of an earlier leader. */
    if (len == seat->leader_len && (len == 0 || memcmp(seat->leader, record->label, len) == 0))
        return;
    free(seat->leader);
    seat->leader = len > 0 ? malloc(len) : NULL;
    seat->leader_len = seat->leader != NULL ? len : 0;
    if (seat->leader != NULL)
        memcpy(seat->leader, record->label, len);
}

static void hear_granted(void *arg, const char *name, const struct tn_secret *hash, uint64_t token)
{
    struct tn_driver *driver = arg;

    tn_driver_lock(driver);
    for (struct tn_driver_seat *seat = *tn_driver_bucket(driver, name); seat != NULL;
         seat = seat->bucket_next) {
        uint64_t gen = strcmp(seat->name, name) == 0 ? find_gen(driver, seat, hash) : 0;
        if (gen == 0)
            continue;
        tn_candidate_granted(&driver->candidate, tn_driver_now(driver), &seat->seat,
                             driver->candidate.life, gen, token);
        break;
    }
    tn_driver_unlock(driver);
}

/* A revoked note counts for nothing, although its lease is still held. */
static void hear_note(struct tn_driver *driver, const char *name,
                      const struct tn_store_record *record)
{
    struct tn_note note = { .kind = TN_NOTE_NONE };
    enum tn_note_slot slot;
    const char *about = tn_note_name_about(name, &slot);

    if (about == NULL)
        return;
    if (record->held && !record->revoked)
        note =
            tn_note_parse(record->label, record->label_len, driver->label, strlen(driver->label));
    note.number = record->token;
    note.lasts = record->remaining > 0 ? record->remaining
                 : record->ttl > 0     ? record->ttl
                                       : TN_TTL_MAX; /* The store does not tell; it ends it. */
    if (slot != TN_NOTE_OF_NAME) {
        if (strcmp(name, driver->drain_notes[slot]) == 0)
            tn_candidate_noted(&driver->candidate, tn_driver_now(driver), NULL, slot, &note);
        return;
    }
    for (struct tn_driver_seat *seat = *tn_driver_bucket(driver, about); seat != NULL;
         seat = seat->bucket_next)
        if (strcmp(seat->name, about) == 0)
            tn_candidate_noted(&driver->candidate, tn_driver_now(driver), &seat->seat, slot, &note);
}

static void hear_changed(void *arg, const char *name, const struct tn_store_record *record)
{
    struct tn_driver *driver = arg;

    tn_driver_lock(driver);
    if (tn_name_is_reserved(name))
        hear_note(driver, name, record);
    for (struct tn_driver_seat *seat = *tn_driver_bucket(driver, name); seat != NULL;
         seat = seat->bucket_next) {
        if (strcmp(seat->name, name) != 0)
            continue;
        struct tn_record heard = tn_driver_read_record(driver, seat, record);
        tn_driver_note_leader(seat, record);
        tn_candidate_changed(&driver->candidate, tn_driver_now(driver), &seat->seat, &heard);
    }
    tn_driver_unlock(driver);
}

static void hear_revoked(void *arg, const char *name, uint64_t token)
{
    struct tn_driver *driver = arg;

    tn_driver_lock(driver);
    for (struct tn_driver_seat *seat = *tn_driver_bucket(driver, name); seat != NULL;
         seat = seat->bucket_next)
        if (strcmp(seat->name, name) == 0)
            tn_candidate_revoked(&driver->candidate, tn_driver_now(driver), &seat->seat,
                                 driver->candidate.life, token);
    tn_driver_unlock(driver);
}

const struct tn_store_host tn_driver_store_host = { hear_granted, hear_changed, hear_revoked };
