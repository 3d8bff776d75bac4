/* lease_store.c - the records of the lease table; lease_store.h has the layout. */
#include "core/lease_store.h"

#include <string.h>

#include "base/assert.h"
#include "base/hash.h"

static char *block_of(const struct tn_table *table)
{
    return (char *)(uintptr_t)table; /* The block is the caller's, and never really constant. */
}

struct tn_session_record *tn_session_at(const struct tn_table *table, uint32_t index)
{
    TN_ASSERT(index > 0 && index < table->sessions.used);
    return (struct tn_session_record *)(void *)(block_of(table) + table->sessions.at) + index;
}

struct tn_lease_record *tn_lease_at(const struct tn_table *table, uint32_t index)
{
    TN_ASSERT(index > 0 && index < table->leases.used);
    return (struct tn_lease_record *)(void *)(block_of(table) + table->leases.at) + index;
}

struct tn_waiter_record *tn_waiter_at(const struct tn_table *table, uint32_t index)
{
    TN_ASSERT(index > 0 && index < table->waiters.used);
    return (struct tn_waiter_record *)(void *)(block_of(table) + table->waiters.at) + index;
}

struct tn_owner_record *tn_owner_at(const struct tn_table *table, uint32_t index)
{
    TN_ASSERT(index < table->owners.limit);
    return (struct tn_owner_record *)(void *)(block_of(table) + table->owners.at) + index;
}

struct tn_owner_record *tn_owner_of(const struct tn_table *table, uint32_t session)
{
    return tn_owner_at(table, tn_session_at(table, session)->owner);
}

static char *text_memory(const struct tn_table *table, uint32_t at)
{
    return block_of(table) + table->text.at + (uint64_t)at * TN_TEXT_UNIT;
}

const char *tn_text_at(const struct tn_table *table, struct tn_table_text text)
{
    return text_memory(table, text.at);
}

static uint32_t *words_at(const struct tn_table *table, uint64_t at)
{
    return (uint32_t *)(void *)(block_of(table) + at);
}

/* --- Layout --------------------------------------------------------------------------------- */

static uint64_t lay(uint64_t *end, uint64_t bytes)
{
    uint64_t at = *end;
    *end += (bytes + 15) / 16 * 16;
    return at;
}

static struct tn_array lay_array(uint64_t *end, uint32_t limit, size_t bytes)
{
    struct tn_array array = { .limit = limit + 1, .used = 1 };
    array.at = lay(end, ((uint64_t)limit + 1) * bytes);
    return array;
}

static uint64_t lay_out(struct tn_table *table, const struct tn_table_limits *limits)
{
    uint64_t end = 0;
    (void)lay(&end, sizeof *table);
    table->limits = *limits;
    table->sessions = lay_array(&end, limits->sessions, sizeof(struct tn_session_record));
    table->leases = lay_array(&end, limits->leases, sizeof(struct tn_lease_record));
    table->waiters = lay_array(&end, limits->waiters, sizeof(struct tn_waiter_record));
    table->heap = lay_array(&end, limits->sessions, sizeof(uint32_t));
    table->owners = lay_array(&end, limits->owners, sizeof(struct tn_owner_record));
    table->text = lay_array(&end, limits->text_bytes / TN_TEXT_UNIT, TN_TEXT_UNIT);
    table->text_owners_at = lay(&end, (uint64_t)table->text.limit * sizeof(uint32_t));
    table->by_secret.at = lay(&end, ((uint64_t)limits->sessions + 1) * sizeof(uint32_t));
    table->by_name.at = lay(&end, ((uint64_t)limits->leases + 1) * sizeof(uint32_t));
    table->by_secret.buckets = 1;
    table->by_name.buckets = 1;
    return end;
}

size_t tn_table_size(const struct tn_table_limits *limits)
{
    struct tn_table table = { 0 };
    return (size_t)lay_out(&table, limits);
}

struct tn_table *tn_table_init(void *block, const struct tn_table_limits *limits)
{
    struct tn_table *table = block;
    TN_ASSERT(limits->sessions > 0 && limits->leases > 0);
    TN_ASSERT(limits->text_bytes >= 2 * TN_TEXT_UNIT);
    *table = (struct tn_table) { 0 };
    (void)lay_out(table, limits);
    return table;
}

void tn_table_parts(const struct tn_table *table, struct tn_table_part ret_parts[2])
{
    ret_parts[0] = (struct tn_table_part) {
        .at = block_of(table) + table->leases.at,
        .bytes = (size_t)table->leases.limit * sizeof(struct tn_lease_record),
    };
    ret_parts[1] = (struct tn_table_part) {
        .at = words_at(table, table->by_name.at),
        .bytes = (size_t)table->leases.limit * sizeof(uint32_t),
    };
}

/* --- Slots and text ------------------------------------------------------------------------- */

/* A new element of @array; @freed_next is the chaining word of its first freed one, if any. */
static uint32_t take(struct tn_array *array, uint32_t *freed_next)
{
    uint32_t index = array->free;
    if (index != 0)
        array->free = *freed_next;
    else if (array->used < array->limit)
        index = array->used++;
    if (index != 0)
        array->count++;
    return index;
}

static void give(struct tn_array *array, uint32_t index, uint32_t *freed_next)
{
    *freed_next = array->free;
    array->free = index;
    array->count--;
}

static uint32_t units_of(uint32_t len)
{
    TN_ASSERT(len <= TN_NAME_MAX);
    return (len + TN_TEXT_UNIT - 1) / TN_TEXT_UNIT;
}

static void text_put_free(struct tn_table *table, uint32_t at, uint32_t units)
{
    memcpy(text_memory(table, at), &table->text_free[units - 1], sizeof(uint32_t));
    table->text_free[units - 1] = at;
}

/* The first freed piece of @units or, what is too much being freed again, of more. 0: none. */
static uint32_t text_take_free(struct tn_table *table, uint32_t units)
{
    uint32_t has = units;

    while (has <= TN_TEXT_UNITS && table->text_free[has - 1] == 0)
        has++;
    if (has > TN_TEXT_UNITS)
        return 0;
    uint32_t at = table->text_free[has - 1];
    memcpy(&table->text_free[has - 1], text_memory(table, at), sizeof(uint32_t));
    if (has > units)
        text_put_free(table, at + units, has - units);
    return at;
}

/* Whose the text at a unit is: the index of a session, or of a lease with the top bit set. */
#define OWNED_BY_LEASE (UINT32_C(1) << 31)

static struct tn_table_text *text_of(const struct tn_table *table, uint32_t owner)
{
    if ((owner & OWNED_BY_LEASE) != 0)
        return &tn_lease_at(table, owner & ~OWNED_BY_LEASE)->name;
    return &tn_session_at(table, owner)->label;
}

static void note_owner(const struct tn_table *table, uint32_t *owners, uint32_t owner)
{
    const struct tn_table_text *text = text_of(table, owner);
    if (text->len > 0) /* Otherwise a freed record, or a session without a label. */
        owners[text->at] = owner;
}

/* Move all texts together to the front. The owners' words are zero before and after; they lie at
 * the block's end and their pages are touched here only. */
static void text_compact(struct tn_table *table)
{
    uint32_t *owners = words_at(table, table->text_owners_at);
    uint32_t to = 1;

    for (uint32_t i = 1; i < table->sessions.used; i++)
        note_owner(table, owners, i);
    for (uint32_t i = 1; i < table->leases.used; i++)
        note_owner(table, owners, i | OWNED_BY_LEASE);
    for (uint32_t from = 1; from < table->text.used; from++) {
        if (owners[from] == 0)
            continue;
        struct tn_table_text *text = text_of(table, owners[from]);
        owners[from] = 0;
        memmove(text_memory(table, to), text_memory(table, from), text->len);
        text->at = to;
        to += units_of(text->len);
    }
    memset(table->text_free, 0, sizeof table->text_free);
    table->text.used = to;
    TN_ASSERT(table->text.count == to - 1);
}

/* Compaction looks at every record. It is done only when it gains a sixteenth of the memory, so
 * that whoever asks for it has given back as many names before. */
static bool text_is_scattered(const struct tn_table *table, uint32_t units)
{
    uint32_t scattered = table->text.used - 1 - table->text.count;
    return scattered >= units && scattered >= table->text.limit / 16;
}

static uint32_t text_take(struct tn_table *table, uint32_t units)
{
    uint32_t at = text_take_free(table, units);

    if (at != 0)
        return at;
    if (table->text.limit - table->text.used < units && text_is_scattered(table, units))
        text_compact(table);
    if (table->text.limit - table->text.used < units)
        return 0;
    at = table->text.used;
    table->text.used += units;
    return at;
}

static bool text_add(struct tn_table *table, const char *bytes, uint32_t len,
                     struct tn_table_text *ret_text)
{
    uint32_t units = units_of(len);
    uint32_t at;

    *ret_text = (struct tn_table_text) { 0 };
    if (len == 0)
        return true;
    at = text_take(table, units);
    if (at == 0)
        return false;
    memcpy(text_memory(table, at), bytes, len);
    table->text.count += units;
    *ret_text = (struct tn_table_text) { .at = at, .len = (uint8_t)len };
    return true;
}

static void text_drop(struct tn_table *table, struct tn_table_text *text)
{
    uint32_t units = units_of(text->len);
    if (text->len == 0)
        return;
    text_put_free(table, text->at, units);
    table->text.count -= units;
    text->len = 0; /* The freed record owns no text. */
}

/* --- Indexes -------------------------------------------------------------------------------- */

static uint64_t hash_secret(const struct tn_table *table, const struct tn_secret *secret)
{
    return tn_hash(table->limits.hash_key, secret->bytes, sizeof secret->bytes);
}

static uint32_t hash_name(const struct tn_table *table, const char *name, uint32_t len)
{
    return (uint32_t)tn_hash(table->limits.hash_key, name, len);
}

/* The hash of record @index and the word that chains it, for whichever index it is in. */
static uint64_t record_of(const struct tn_table *table, const struct tn_index *index,
                          uint32_t record, uint32_t **ret_chain)
{
    if (index == &table->by_secret) {
        struct tn_session_record *session = tn_session_at(table, record);
        *ret_chain = &session->chain;
        return hash_secret(table, &session->secret);
    }
    struct tn_lease_record *lease = tn_lease_at(table, record);
    *ret_chain = &lease->chain;
    return lease->hash;
}

/* The bits that it takes to write @number. */
static uint32_t mask_of(uint32_t number)
{
    return number != 0 ? UINT32_MAX >> __builtin_clz(number) : 0;
}

/* Linear hashing: with b buckets, the low bits that count b address a bucket, unless that one does
 * not exist yet; then one bit fewer. */
static uint32_t bucket_of(const struct tn_index *index, uint64_t hash)
{
    uint32_t mask = mask_of(index->buckets - 1);
    uint32_t bucket = (uint32_t)hash & mask;
    return bucket < index->buckets ? bucket : bucket & mask >> 1;
}

/* The bucket that the next one to be added halves. */
static uint32_t *next_halved(const struct tn_table *table, const struct tn_index *index)
{
    return words_at(table, index->at) + (index->buckets & mask_of(index->buckets) >> 1);
}

static void link_record(struct tn_table *table, struct tn_index *index, uint32_t record)
{
    uint32_t *chain;
    uint64_t hash = record_of(table, index, record, &chain);
    uint32_t *head = words_at(table, index->at) + bucket_of(index, hash);
    *chain = *head;
    *head = record;
}

static void unlink_record(struct tn_table *table, struct tn_index *index, uint32_t record)
{
    uint32_t *chain;
    uint64_t hash = record_of(table, index, record, &chain);
    uint32_t *link = words_at(table, index->at) + bucket_of(index, hash);
    while (*link != record) {
        TN_ASSERT(*link != 0);
        (void)record_of(table, index, *link, &link);
    }
    *link = *chain;
}

/* One bucket more; only the bucket that it halves has to be dealt out again. */
static void grow(struct tn_table *table, struct tn_index *index)
{
    uint32_t *halved = next_halved(table, index);
    uint32_t record = *halved;
    *halved = 0;
    words_at(table, index->at)[index->buckets++] = 0;
    while (record != 0) {
        uint32_t *chain;
        uint32_t next;
        (void)record_of(table, index, record, &chain);
        next = *chain;
        link_record(table, index, record);
        record = next;
    }
    /* By the next time it will be in the cache. */
    __builtin_prefetch(next_halved(table, index));
}

static void insert(struct tn_table *table, struct tn_index *index, uint32_t record, uint32_t count)
{
    if (count > index->buckets)
        grow(table, index);
    link_record(table, index, record);
}

uint32_t tn_session_find(const struct tn_table *table, const struct tn_secret *secret)
{
    uint32_t bucket = bucket_of(&table->by_secret, hash_secret(table, secret));
    uint32_t index = words_at(table, table->by_secret.at)[bucket];
    while (index != 0 && !tn_secret_equal(&tn_session_at(table, index)->secret, secret))
        index = tn_session_at(table, index)->chain;
    return index;
}

uint32_t tn_table_expect(const struct tn_table *table, const char *name, uint32_t len)
{
    uint32_t bucket = bucket_of(&table->by_name, hash_name(table, name, len));
    uint32_t halved = *next_halved(table, &table->by_name);

    __builtin_prefetch(words_at(table, table->by_name.at) + bucket);
    if (halved != 0) /* A name that is not there will be added, and this bucket dealt out. */
        __builtin_prefetch(&tn_lease_at(table, halved)->chain);
    return bucket;
}

void tn_table_expect_at(const struct tn_table *table, uint32_t bucket)
{
    uint32_t lease = words_at(table, table->by_name.at)[bucket];

    if (lease != 0)
        __builtin_prefetch(&tn_lease_at(table, lease)->hash);
}

uint32_t tn_lease_find(const struct tn_table *table, const char *name, uint32_t len)
{
    uint32_t hash = hash_name(table, name, len);
    uint32_t index = words_at(table, table->by_name.at)[bucket_of(&table->by_name, hash)];
    while (index != 0) {
        struct tn_lease_record *lease = tn_lease_at(table, index);
        if (lease->hash == hash && lease->name.len == len &&
            memcmp(tn_text_at(table, lease->name), name, len) == 0)
            break;
        index = lease->chain;
    }
    return index;
}

/* --- Lists ---------------------------------------------------------------------------------- */

enum chain_kind { IN_LEASES, IN_LEASE_QUEUE, IN_SESSION_QUEUE };

static struct tn_links *links_of(const struct tn_table *table, enum chain_kind kind, uint32_t index)
{
    if (kind == IN_LEASES)
        return &tn_lease_at(table, index)->links;
    struct tn_waiter_record *waiter = tn_waiter_at(table, index);
    return kind == IN_LEASE_QUEUE ? &waiter->in_lease : &waiter->in_session;
}

static void append(struct tn_table *table, struct tn_index_list *list, enum chain_kind kind,
                   uint32_t index)
{
    struct tn_links *links = links_of(table, kind, index);
    *links = (struct tn_links) { .prev = list->last };
    if (list->last != 0)
        links_of(table, kind, list->last)->next = index;
    else
        list->first = index;
    list->last = index;
}

static void take_out(struct tn_table *table, struct tn_index_list *list, enum chain_kind kind,
                     uint32_t index)
{
    struct tn_links links = *links_of(table, kind, index);
    if (links.prev != 0)
        links_of(table, kind, links.prev)->next = links.next;
    else
        list->first = links.next;
    if (links.next != 0)
        links_of(table, kind, links.next)->prev = links.prev;
    else
        list->last = links.prev;
}

static struct tn_index_list *list_of(struct tn_table *table, const struct tn_lease_record *lease)
{
    return lease->session != 0 ? &tn_session_at(table, lease->session)->leases
                               : &table->forgettable;
}

void tn_lease_chain(struct tn_table *table, uint32_t lease)
{
    append(table, list_of(table, tn_lease_at(table, lease)), IN_LEASES, lease);
}

void tn_lease_unchain(struct tn_table *table, uint32_t lease)
{
    take_out(table, list_of(table, tn_lease_at(table, lease)), IN_LEASES, lease);
}

/* --- Records -------------------------------------------------------------------------------- */

/* The longest free name that nobody waits for: at an agent there may be a line for a free one. */
static bool forget_one(struct tn_table *table)
{
    uint32_t lease = table->forgettable.first;

    while (lease != 0 && tn_lease_at(table, lease)->waiters.first != 0)
        lease = tn_lease_at(table, lease)->links.next;
    if (lease != 0)
        tn_lease_drop(table, lease);
    return lease != 0;
}

uint32_t tn_session_add(struct tn_table *table, const struct tn_op *op)
{
    struct tn_table_text label;
    uint32_t *freed = table->sessions.free ? &tn_session_at(table, table->sessions.free)->chain : 0;
    uint32_t index;

    if (table->sessions.count + 1 >= table->sessions.limit)
        return 0;
    while (!text_add(table, op->label, op->label_len, &label)) {
        if (!forget_one(table)) /* As for names: see tn_lease_add. */
            return 0;
    }
    index = take(&table->sessions, freed);
    TN_ASSERT(index != 0);
    *tn_session_at(table, index) = (struct tn_session_record) {
        .secret = op->session,
        .ttl = op->ttl,
        .label = label,
    };
    insert(table, &table->by_secret, index, table->sessions.count);
    tn_owner_of(table, index)->sessions++;
    return index;
}

void tn_session_adopt(struct tn_table *table, uint32_t session, uint32_t owner)
{
    struct tn_session_record *record = tn_session_at(table, session);
    struct tn_owner_record *before = tn_owner_of(table, session);
    struct tn_owner_record *after = tn_owner_at(table, owner);
    uint32_t places = record->held;

    for (uint32_t i = record->waiters.first; i != 0; i = tn_waiter_at(table, i)->in_session.next)
        places++;
    before->sessions--;
    before->places -= places;
    after->sessions++;
    after->places += places;
    record->owner = owner;
}

void tn_session_rename(struct tn_table *table, uint32_t session, const struct tn_secret *secret)
{
    TN_ASSERT(tn_session_find(table, secret) == 0);
    unlink_record(table, &table->by_secret, session);
    tn_session_at(table, session)->secret = *secret;
    link_record(table, &table->by_secret, session);
}

void tn_session_drop(struct tn_table *table, uint32_t session)
{
    struct tn_session_record *record = tn_session_at(table, session);
    TN_ASSERT(record->leases.first == 0);
    TN_ASSERT(record->waiters.first == 0);
    tn_timer_drop(table, session);
    tn_owner_of(table, session)->sessions--;
    unlink_record(table, &table->by_secret, session);
    text_drop(table, &record->label);
    record->ttl = 0; /* Not in use. */
    give(&table->sessions, session, &record->chain);
}

uint32_t tn_lease_add(struct tn_table *table, const char *name, uint32_t len)
{
    struct tn_table_text text;
    uint32_t index;

    /* Forget names that nobody holds before giving up; their tokens live on in the counter. */
    while (table->leases.count + 1 >= table->leases.limit || !text_add(table, name, len, &text)) {
        if (!forget_one(table))
            return 0;
    }
    index = take(&table->leases,
                 table->leases.free ? &tn_lease_at(table, table->leases.free)->chain : NULL);
    TN_ASSERT(index != 0);
    *tn_lease_at(table, index) = (struct tn_lease_record) { .name = text,
                                                            .hash = hash_name(table, name, len),
                                                            .state = TN_LEASE_FREE };
    insert(table, &table->by_name, index, table->leases.count);
    tn_lease_chain(table, index);
    return index;
}

void tn_lease_drop(struct tn_table *table, uint32_t lease)
{
    struct tn_lease_record *record = tn_lease_at(table, lease);
    TN_ASSERT(record->state == TN_LEASE_FREE);
    TN_ASSERT(record->waiters.first == 0);
    tn_lease_unchain(table, lease);
    unlink_record(table, &table->by_name, lease);
    text_drop(table, &record->name);
    record->state = TN_LEASE_UNUSED;
    give(&table->leases, lease, &record->chain);
}

uint32_t tn_waiter_add(struct tn_table *table, uint32_t lease, uint32_t session,
                       const struct tn_secret *term)
{
    uint32_t index =
        take(&table->waiters,
             table->waiters.free ? &tn_waiter_at(table, table->waiters.free)->lease : NULL);
    if (index == 0)
        return 0;
    *tn_waiter_at(table, index) =
        (struct tn_waiter_record) { .term = *term, .session = session, .lease = lease };
    append(table, &tn_lease_at(table, lease)->waiters, IN_LEASE_QUEUE, index);
    append(table, &tn_session_at(table, session)->waiters, IN_SESSION_QUEUE, index);
    tn_owner_of(table, session)->places++;
    return index;
}

void tn_waiter_drop(struct tn_table *table, uint32_t waiter)
{
    struct tn_waiter_record *record = tn_waiter_at(table, waiter);
    tn_owner_of(table, record->session)->places--;
    take_out(table, &tn_lease_at(table, record->lease)->waiters, IN_LEASE_QUEUE, waiter);
    take_out(table, &tn_session_at(table, record->session)->waiters, IN_SESSION_QUEUE, waiter);
    give(&table->waiters, waiter, &record->lease);
}

/* Walks the lease's queue and the session's in step: a process may wait for ten thousand names, and
 * ten thousand processes for one, but hardly both at once. */
uint32_t tn_waiter_find(const struct tn_table *table, uint32_t lease, uint32_t session,
                        const struct tn_secret *term)
{
    uint32_t one = tn_lease_at(table, lease)->waiters.first;
    uint32_t other = tn_session_at(table, session)->waiters.first;
    while (one != 0 && other != 0) {
        struct tn_waiter_record *a = tn_waiter_at(table, one);
        struct tn_waiter_record *b = tn_waiter_at(table, other);
        if (a->session == session && tn_secret_equal(&a->term, term))
            return one;
        if (b->lease == lease && tn_secret_equal(&b->term, term))
            return other;
        one = a->in_lease.next;
        other = b->in_session.next;
    }
    return 0;
}

/* --- Timers --------------------------------------------------------------------------------- */

static tenure_ns key_of(const struct tn_table *table, uint32_t slot)
{
    return tn_session_at(table, words_at(table, table->heap.at)[slot])->timer_key;
}

static void put(struct tn_table *table, uint32_t slot, uint32_t session)
{
    words_at(table, table->heap.at)[slot] = session;
    tn_session_at(table, session)->heap_at = slot;
}

static void swap(struct tn_table *table, uint32_t a, uint32_t b)
{
    const uint32_t *heap = words_at(table, table->heap.at);
    uint32_t kept = heap[a];
    put(table, a, heap[b]);
    put(table, b, kept);
}

void tn_timer_moved(struct tn_table *table, uint32_t session)
{
    uint32_t slot = tn_session_at(table, session)->heap_at;
    TN_ASSERT(slot > 0);
    for (; slot > 1 && key_of(table, slot) < key_of(table, slot / 2); slot /= 2)
        swap(table, slot, slot / 2);
    for (;;) {
        uint32_t child = 2 * slot;
        if (child > table->heap.count)
            break;
        if (child < table->heap.count && key_of(table, child + 1) < key_of(table, child))
            child++;
        if (key_of(table, slot) <= key_of(table, child))
            break;
        swap(table, slot, child);
        slot = child;
    }
}

void tn_timer_add(struct tn_table *table, uint32_t session)
{
    TN_ASSERT(tn_session_at(table, session)->heap_at == 0);
    put(table, ++table->heap.count, session);
    tn_timer_moved(table, session);
}

void tn_timer_drop(struct tn_table *table, uint32_t session)
{
    uint32_t slot = tn_session_at(table, session)->heap_at;
    uint32_t last = table->heap.count;
    if (slot == 0)
        return;
    tn_session_at(table, session)->heap_at = 0;
    table->heap.count--;
    if (slot != last) {
        uint32_t moved = words_at(table, table->heap.at)[last];
        put(table, slot, moved);
        tn_timer_moved(table, moved);
    }
}

uint32_t tn_timer_first(const struct tn_table *table)
{
    return table->heap.count > 0 ? words_at(table, table->heap.at)[1] : 0;
}
