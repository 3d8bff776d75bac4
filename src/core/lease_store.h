/* lease_store.h - the lease table's records: where they lie, how they are found and chained.
 *
 * Private to lease_table.c and lease_view.c. Everything is an index into an array of the
 * caller's block; index 0 is "none". Arrays fill from the front and freed slots are used again
 * first, so the pages touched follow the number of records, not the limits. */
#ifndef TN_CORE_LEASE_STORE_H
#define TN_CORE_LEASE_STORE_H

#include "core/lease_table.h"
#include "core/plant.h"

#define TN_TEXT_UNIT 16  /* Text memory is dealt out in units of this many bytes, */
#define TN_TEXT_UNITS 16 /* and a name or label has at most so many of them. */

enum tn_lease_state { TN_LEASE_UNUSED, TN_LEASE_FREE, TN_LEASE_HELD, TN_LEASE_REVOKED };

/* A doubly linked list through records of one array. */
struct tn_links {
    uint32_t next, prev;
};

struct tn_index_list {
    uint32_t first, last;
};

struct tn_table_text {
    uint32_t at; /* In units of TN_TEXT_UNIT. */
    uint8_t len;
};

struct tn_session_record {
    struct tn_secret secret;
    tenure_ns ttl;
    tenure_ns expires_at;
    tenure_ns allowed;    /* An agent's: the latest deadline that its answers can have allowed. */
    tenure_ns timer_key;  /* What the timer heap sorts by; at or before the real due time. */
    uint64_t seq;         /* Newest attempt seen. */
    uint64_t beat;        /* Renewals so far, for observers. */
    uint64_t revocations; /* Notices of revocation so far. */
    struct tn_index_list leases, waiters;
    uint32_t heap_at; /* 0: not in the heap. */
    uint32_t chain;   /* Next in the hash bucket, or in the free list. */
    struct tn_table_text label;
    uint32_t held;     /* Leases of this session. */
    uint32_t revoked;  /* Those of them in state REVOKED. */
    uint32_t owner;    /* 0: nobody. */
    bool closed;       /* Over, whatever the clock says. */
    uint32_t borrowed; /* F1: the lease that was taken over early, and falls back to @rest; 0. */
    struct tn_secret rest;
    struct tn_soft soft;
};

/* What a search looks at lies side by side, and so in one line of the processor's cache. */
struct tn_lease_record {
    struct tn_secret term;
    uint32_t chain;
    uint32_t hash; /* Of the name, so that moving between buckets need not touch it. */
    struct tn_table_text name;
    uint64_t token;
    uint64_t revocation;   /* REVOKED: its number in the holder's session. */
    tenure_ns free_at;     /* REVOKED: when the holder's validity is certainly over. */
    struct tn_links links; /* In its session's list; among the free ones otherwise. */
    struct tn_index_list waiters;
    uint32_t session;
    uint8_t state;
};

struct tn_waiter_record {
    struct tn_secret term;
    uint32_t session, lease;
    struct tn_links in_lease, in_session;
};

/* What one owner has. */
struct tn_owner_record {
    uint32_t sessions;
    uint32_t places; /* Leases, and places in line. */
};

/* An array in the block. Offsets, not pointers, so that the block may be copied and moved. */
struct tn_array {
    uint64_t at;
    uint32_t limit;
    uint32_t used; /* High-water mark; element 0 is never used. */
    uint32_t free; /* Head of the list of freed elements. */
    uint32_t count;
};

/* A hash table by linear hashing: it grows by one bucket per record, never all at once. */
struct tn_index {
    uint64_t at;
    uint32_t buckets;
};

struct tn_table {
    struct tn_table_limits limits;
    struct tn_array sessions, leases, waiters, text, heap, owners;
    struct tn_index by_secret, by_name;
    uint64_t text_owners_at;           /* For compaction: one word per unit. */
    uint32_t text_free[TN_TEXT_UNITS]; /* Freed pieces, by their length in units less one. */
    uint32_t dying; /* A session that is over and still has leases or waiters, or 0. */
    struct tn_index_list forgettable; /* Free leases, the longest free first. */
    uint64_t last_token;
    tenure_ns now;
};

struct tn_session_record *tn_session_at(const struct tn_table *table, uint32_t index);
struct tn_lease_record *tn_lease_at(const struct tn_table *table, uint32_t index);
struct tn_waiter_record *tn_waiter_at(const struct tn_table *table, uint32_t index);
struct tn_owner_record *tn_owner_at(const struct tn_table *table, uint32_t index); /* 0: nobody. */
struct tn_owner_record *tn_owner_of(const struct tn_table *table, uint32_t session);
const char *tn_text_at(const struct tn_table *table, struct tn_table_text text);

/* Each returns 0 when the limit is reached. */
uint32_t tn_session_add(struct tn_table *table, const struct tn_op *op);
uint32_t tn_lease_add(struct tn_table *table, const char *name, uint32_t len);
uint32_t tn_waiter_add(struct tn_table *table, uint32_t lease, uint32_t session,
                       const struct tn_secret *term);

uint32_t tn_session_find(const struct tn_table *table, const struct tn_secret *secret);
uint32_t tn_lease_find(const struct tn_table *table, const char *name, uint32_t len);
uint32_t tn_waiter_find(const struct tn_table *table, uint32_t lease, uint32_t session,
                        const struct tn_secret *term);

static inline bool tn_session_is_alive(const struct tn_table *table, uint32_t session)
{
    const struct tn_session_record *record = tn_session_at(table, session);
    if (TN_PLANT(EARLY_EXPIRY))
        return !record->closed && table->now < record->expires_at - record->ttl / 3;
    return !record->closed && table->now < record->expires_at;
}

/* The session, and all that it has, is @owner's from now on. */
void tn_session_adopt(struct tn_table *table, uint32_t session, uint32_t owner);
/* From now on it is found by @secret only. */
void tn_session_rename(struct tn_table *table, uint32_t session, const struct tn_secret *secret);
void tn_session_drop(struct tn_table *table, uint32_t session);
void tn_lease_drop(struct tn_table *table, uint32_t lease);
void tn_waiter_drop(struct tn_table *table, uint32_t waiter);

/* Put a lease into its session's list, or among the free ones (session 0), and take it out. */
void tn_lease_chain(struct tn_table *table, uint32_t lease);
void tn_lease_unchain(struct tn_table *table, uint32_t lease);

/* The timer heap of sessions. A key may be too early, never too late. */
uint32_t tn_timer_first(const struct tn_table *table);
void tn_timer_add(struct tn_table *table, uint32_t session);
void tn_timer_moved(struct tn_table *table, uint32_t session);
void tn_timer_drop(struct tn_table *table, uint32_t session);

#endif
