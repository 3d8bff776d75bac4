/* record.h - what the journal says, one change of the daemon's state at a time: bytes and back.
 *
 * A record is what became of things, not what was asked for: replaying it needs no clock. Numbers
 * are little-endian and of fixed length, texts are led by their length in one byte. The format is
 * part of the journal's version (frame.h).
 * Pure: no I/O, no allocation. */
#ifndef TN_DAEMON_RECORD_H
#define TN_DAEMON_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/secret.h"
#include "daemon/fences.h" /* TN_USER_MAX */
#include "tenure/error.h"
#include "tenure/time.h"

/* The letters are part of the format. */
enum tn_journal_record_kind {
    TN_RECORD_OPENED = 'O',  /* @session, @ttl, @name (its label). */
    TN_RECORD_ENDED = 'E',   /* @session: its leases are free. */
    TN_RECORD_GRANTED = 'G', /* @name, @session, @term, @token; whoever held it before is out. */
    TN_RECORD_REVOKED = 'R', /* @name, @token. */
    TN_RECORD_FREED = 'F',   /* @name, @token, @term. */
    TN_RECORD_SOFT = 'S',    /* @session, @term (its digest of fences), @ttl (its soft limit). */
    TN_RECORD_LENT = 'L',    /* @name, @session has it; it falls back to whose secret is @term. */
    TN_RECORD_RAISED = 'T',  /* @token: no later grant at or below it. */
    TN_RECORD_FENCED = 'A',  /* @name (a resource), @token. */
    TN_RECORD_OWNED = 'U',   /* @name (a resource), @user: who made its fence. */
    TN_RECORD_REMOVED = 'D', /* @name (a resource): its fence counts no more. */
    TN_RECORD_FORGOT = 'X',  /* @name (a resource): nor is its token remembered. */
    TN_RECORD_LAST = 'Z',    /* A snapshot is complete; @token: of so many records before this. */
};

struct tn_journal_record {
    enum tn_journal_record_kind kind;
    const char *name;
    uint32_t name_len; /* At most 255. */
    const char *user;
    uint32_t user_len; /* At most TN_USER_MAX. */
    struct tn_secret session;
    struct tn_secret term;
    uint64_t token;
    tenure_ns ttl;
};

/* No record is longer. */
#define TN_RECORD_MAX (1 + 256 + 1 + TN_USER_MAX + 16 + 16 + 8)

/* Write @record to @to, which has room for TN_RECORD_MAX bytes. Returns its length. */
size_t tn_record_encode(char *to, const struct tn_journal_record *record);

/* Read a record from the start of @bytes; its texts point there. Returns its length, or
 * TENURE_E_DAMAGED when there is none; then @ret_record is unchanged. */
TENURE_MUST_USE int64_t tn_record_decode(const char *bytes, size_t len,
                                         struct tn_journal_record *ret_record);

#endif
