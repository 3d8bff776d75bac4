/* note_name.h - reserved names: those under which operators leave notes (core/note.h), and those of
 * the slots of a semaphore (core/slots.h). */
#ifndef TN_RUNTIME_NOTE_NAME_H
#define TN_RUNTIME_NOTE_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/name.h"
#include "base/secret.h"
#include "core/note.h"

/* Whether @name is reserved: not for campaigns of applications, and not shown in lists. */
bool tn_name_is_reserved(const char *name);

/* The name of the note about the lease @name, an id or a host. False: it would be longer than names
 * may be, so nobody can ask. Bytes of an id or a host that names may not have become ":hh". */
bool tn_note_name_ask(const char *name, char buf[TN_NAME_MAX + 1]);
bool tn_note_name_id(const char *id, char buf[TN_NAME_MAX + 1]);
bool tn_note_name_host(const char *host, char buf[TN_NAME_MAX + 1]);

/* Whether a process with this label runs on @host, as far as one can see: "host-4711", the label of
 * a process without an id of its own, or just the host. */
bool tn_note_is_on_host(const char *label, size_t len, const char *host);

/* The secrets of a note that outlives who left it. They follow from its name, so that anybody may
 * take it back who may leave it. */
void tn_note_secrets(const char *name, struct tn_secret *ret_session, struct tn_secret *ret_term);

/* The name of the lease that shows that a candidate of priority @level waits for @name: one of
 * core/rank.h. False: it would be longer than names may be. */
bool tn_rank_name(const char *name, uint32_t level, char buf[TN_NAME_MAX + 1]);

/* What a note's name is about: the rest of it, and the slot. NULL: it is none of the three. */
const char *tn_note_name_about(const char *name, enum tn_note_slot *ret_slot);

/* The name of slot @slot, from 1 on, of the semaphore @name: "NAME/~3". False: it would be longer
 * than names may be. */
bool tn_slot_name(const char *name, uint32_t slot, char buf[TN_NAME_MAX + 1]);
/* Whether @name is such a name: for candidates that ask for the semaphore, not for itself. */
bool tn_name_is_slot(const char *name);

#endif
