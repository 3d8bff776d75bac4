/* observe.c - who is silent, what has changed, and whom to tell.
 *
 * The server has no clock that could be trusted, so each store observes the sessions that stand in
 * its way: those that hold what it waits for or watches, and all that wait before it. A renewal
 * brings their beats along. Each that stood still for its TTL, counted here from after the answer
 * that first showed it, is ended by tenure.evict, which compares once more (core/observer.h).
 *
 * What nobody waits for would be left behind by the dead for ever, so now and then a renewal names
 * one session at random, to be observed like the others.
 *
 * News come by NOTIFY with the whole record in it, so nobody has to ask after a change. Whether
 * notifications get through is tried first: a pooler may swallow them. Without them all is found
 * out by looking, more often. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "stores/postgres/private.h"

#define PROBE_WITHIN TN_SEC(3)
#define BELL_AGAIN TN_SEC(60)
#define LOOK_LEAST TN_MS(200)
#define LOOK_MOST TN_SEC(5)

/* --- Sessions of ours, and names ------------------------------------------------------------ */

static struct tn_pg_session *next_session(const struct tn_pg_store *store,
                                          const struct tn_pg_session *session)
{
    return (struct tn_pg_session *)tn_store_session_next(&store->base,
                                                         session != NULL ? &session->base : NULL);
}

static struct tn_pg_session *find_own(const struct tn_pg_store *store, int64_t num)
{
    struct tn_pg_session *session = next_session(store, NULL);

    while (session != NULL && session->num != num)
        session = next_session(store, session);
    return session;
}

static struct tn_pg_name *next_name(const struct tn_pg_store *store, const struct tn_pg_name *name)
{
    return (struct tn_pg_name *)tn_store_name_next(&store->base, name != NULL ? &name->base : NULL);
}

static struct tn_pg_name *find_name(const struct tn_pg_store *store, const char *text)
{
    return (struct tn_pg_name *)tn_store_name_find(&store->base, text, strlen(text));
}

void tn_pg_mark(struct tn_pg_store *store, struct tn_pg_name *name, bool dirty)
{
    store->dirty += (unsigned)dirty - (unsigned)name->dirty;
    name->dirty = dirty;
}

/* All that are watched and whose holder is @num; -1: all. */
static void mark_all(struct tn_pg_store *store, int64_t num)
{
    for (struct tn_pg_name *name = NULL; (name = next_name(store, name)) != NULL;)
        if (name->base.watchers > 0 && (num < 0 || name->holder == num))
            tn_pg_mark(store, name, true);
}

/* --- Observed sessions ---------------------------------------------------------------------- */

static struct tn_pg_seen *find_seen(struct tn_pg_store *store, int64_t num)
{
    struct tn_pg_seen *seen = store->seen;

    while (seen != NULL && seen->num != num)
        seen = seen->next;
    return seen;
}

static void drop_seen(struct tn_pg_store *store, int64_t num)
{
    for (struct tn_pg_seen **link = &store->seen; *link != NULL; link = &(*link)->next) {
        struct tn_pg_seen *seen = *link;
        if (seen->num != num)
            continue;
        *link = seen->next;
        free(seen);
        return;
    }
}

/* A read that has just returned showed @beat. */
static void note_beat(struct tn_pg_seen *seen, tenure_ns now, int64_t beat)
{
    tn_observer_saw(&seen->observer, now, now, true, (uint64_t)seen->num, (uint64_t)beat,
                    seen->ttl);
}

/* A read that has just returned showed session @num at @beat, and it stands in our way. */
static void observe(struct tn_pg_store *store, int64_t num, int64_t beat, tenure_ns ttl, bool first)
{
    tenure_ns now = tn_pg_now(store);
    struct tn_pg_seen *seen = find_seen(store, num);

    if (seen == NULL) {
        seen = calloc(1, sizeof *seen);
        if (seen == NULL)
            return; /* It is shown again. */
        seen->num = num;
        seen->next = store->seen;
        store->seen = seen;
    }
    seen->ttl = ttl;
    note_beat(seen, now, beat);
    seen->first = first;
    seen->stray = false;
    seen->heard_at = now;
}

static tenure_ns evict_at(const struct tn_pg_seen *seen)
{
    return tn_observer_wake_at(&seen->observer) + (seen->first ? 0 : seen->ttl / 10);
}

static bool matters(const struct tn_pg_seen *seen, tenure_ns now)
{
    return now - seen->heard_at < 3 * seen->ttl;
}

static void forget_old(struct tn_pg_store *store, tenure_ns now)
{
    struct tn_pg_seen **link = &store->seen;

    while (*link != NULL) {
        struct tn_pg_seen *seen = *link;
        if (matters(seen, now)) {
            link = &seen->next;
            continue;
        }
        *link = seen->next;
        free(seen);
    }
}

void tn_pg_list_seen(struct tn_pg_store *store, bool all, struct tn_pg_buf *buf)
{
    tenure_ns now = tn_pg_now(store);
    const char *comma = "";

    for (const struct tn_pg_name *name = NULL; (name = next_name(store, name)) != NULL;) {
        struct tn_pg_seen *seen = name->holder != 0 ? find_seen(store, name->holder) : NULL;
        if (seen != NULL)
            seen->heard_at = now;
    }
    forget_old(store, now);
    tn_pg_buf_add(buf, "{", 1);
    for (struct tn_pg_seen *seen = store->seen; seen != NULL; seen = seen->next) {
        tn_pg_buf_addf(buf, "%s%lld", comma, (long long)seen->num);
        seen->asked = true;
        comma = ",";
    }
    tn_pg_buf_add(buf, "}", 1);
    if (!all)
        return;
    store->looked_at = now;
    store->look_now = false;
}

/* --- Leases that were revoked --------------------------------------------------------------- */

/* A read that has just returned showed @name revoked under @token, and not given back. A @ttl of 0:
 * nobody has it. */
static void note_lapsing(struct tn_pg_store *store, const char *name, int64_t token, tenure_ns ttl)
{
    tenure_ns now = tn_pg_now(store);
    struct tn_pg_lapsing *it = store->lapsing;

    while (it != NULL && (it->observer.token != (uint64_t)token || strcmp(it->name, name) != 0))
        it = it->next;
    if (it == NULL) {
        it = calloc(1, sizeof *it);
        if (it == NULL)
            return; /* It is shown again. */
        (void)snprintf(it->name, sizeof it->name, "%s", name);
        it->next = store->lapsing;
        store->lapsing = it;
    }
    tn_observer_saw(&it->observer, now, now, true, (uint64_t)token, 0, ttl);
}

static struct tn_pg_lapsing **first_lapsing(struct tn_pg_store *store)
{
    struct tn_pg_lapsing **first = &store->lapsing;

    for (struct tn_pg_lapsing **link = &store->lapsing; *link != NULL; link = &(*link)->next)
        if (tn_observer_wake_at(&(*link)->observer) < tn_observer_wake_at(&(*first)->observer))
            first = link;
    return first;
}

/* --- News ----------------------------------------------------------------------------------- */

/* A bell that rings late tells nothing. */
static bool is_older(const struct tn_pg_name *name, const struct tn_store_record *record)
{
    return name->base.told != NULL && record->token < name->base.told->token;
}

/* @read: it is how things are; otherwise how they were when somebody rang. */
static void note(struct tn_pg_store *store, const char *text, int64_t holder, bool revoked,
                 const struct tn_store_record *record, bool read)
{
    struct tn_pg_name *name = find_name(store, text);

    if (holder != 0)
        observe(store, holder, (int64_t)record->beat, record->ttl, true);
    if (revoked)
        note_lapsing(store, text, (int64_t)record->token, record->ttl);
    if (name == NULL)
        return;
    if (read)
        tn_pg_mark(store, name, false);
    if (!read && is_older(name, record))
        return;
    name->holder = holder;
    tn_store_changed(&store->base, &name->base, record);
}

void tn_pg_note(struct tn_pg_store *store, const char *name, int64_t holder, bool revoked,
                const struct tn_store_record *record)
{
    note(store, name, holder, revoked, record, true);
}

static void hear_grant(struct tn_pg_store *store, const char *name, int64_t num, int64_t token,
                       const struct tn_secret *term)
{
    if (find_own(store, num) != NULL)
        tn_store_granted(&store->base, name, term, (uint64_t)token);
}

static void hear_revoked(struct tn_pg_store *store, const char *name, int64_t num, int64_t token)
{
    if (find_own(store, num) != NULL)
        tn_store_revoked(&store->base, name, (uint64_t)token);
}

/* kind, name, term, num, token, beat, ttl */
static void hear_row(struct tn_pg_store *store, const PGresult *result, int row)
{
    const char *name = PQgetvalue(result, row, 1);
    int64_t num = tn_pg_int(result, row, 3);
    int64_t token = tn_pg_int(result, row, 4);
    int64_t beat = tn_pg_int(result, row, 5);
    tenure_ns ttl = tn_pg_int(result, row, 6);
    struct tn_secret term = { { 0 } };

    if (tn_pg_is(result, row, 0, "granted")) {
        struct tn_pg_session *own = find_own(store, num);
        (void)tn_pg_hash(result, row, 2, &term);
        if (own != NULL && token > own->known)
            own->known = token;
        hear_grant(store, name, num, token, &term);
    } else if (tn_pg_is(result, row, 0, "revoked")) {
        hear_revoked(store, name, num, token);
    } else if (tn_pg_is(result, row, 0, "beat")) {
        observe(store, num, beat, ttl, token == 0);
    } else if (tn_pg_is(result, row, 0, "stray")) {
        if (find_seen(store, num) == NULL) { /* Otherwise there is a better reason. */
            observe(store, num, beat, ttl, false);
            if (find_seen(store, num) != NULL)
                find_seen(store, num)->stray = true;
        }
    } else if (tn_pg_is(result, row, 0, "lapsing")) {
        note_lapsing(store, name, token, ttl);
    } else if (tn_pg_is(result, row, 0, "vacant")) {
        note_lapsing(store, name, token, 0);
    } else if (tn_pg_is(result, row, 0, "seen") && find_seen(store, num) != NULL) {
        struct tn_pg_seen *seen = find_seen(store, num);
        seen->asked = false;
        note_beat(seen, tn_pg_now(store), beat);
    }
}

void tn_pg_hear_news(struct tn_pg_store *store, const PGresult *result, int row)
{
    for (; row < PQntuples(result); row++)
        hear_row(store, result, row);
    /* Asked after, and not there any more. */
    for (struct tn_pg_seen *seen = store->seen, *next; seen != NULL; seen = next) {
        next = seen->next;
        if (!seen->asked)
            continue;
        mark_all(store, seen->num);
        drop_seen(store, seen->num);
    }
}

/* --- The bell ------------------------------------------------------------------------------- */

/* The next word of the payload, and past it. */
static const char *word(const char **at, size_t *ret_len)
{
    const char *start = *at;

    *ret_len = strcspn(start, " ");
    *at = start + *ret_len + (start[*ret_len] == ' ');
    return start;
}

static int64_t number(const char **at)
{
    size_t len;

    return strtoll(word(at, &len), NULL, 10);
}

/* Hex digits to at most @size bytes. */
static uint32_t unhex(const char **at, void *bytes, size_t size)
{
    size_t len;
    const char *hex = word(at, &len);
    size_t count = len / 2 < size ? len / 2 : size;

    return tn_unhex(bytes, hex, count) ? (uint32_t)count : 0;
}

/* "kind token num beat ttl term label name"; the probe is "p number". */
void tn_pg_hear_bell(struct tn_pg_store *store, const char *payload)
{
    const char *at = payload;
    size_t len;
    char kind = *word(&at, &len);
    struct tn_store_record record = { 0 };

    if (kind == 'p') {
        if (store->probing && (uint64_t)number(&at) == store->probe) {
            store->probing = false;
            store->heard = store->look_now = true;
            mark_all(store, -1);
        }
        return;
    }
    int64_t token = number(&at);
    int64_t num = number(&at);
    record.token = (uint64_t)token;
    record.held = num != 0;
    record.beat = (uint64_t)number(&at);
    record.ttl = record.remaining = number(&at);
    (void)unhex(&at, &record.term, sizeof record.term);
    record.label_len = unhex(&at, record.label, TN_LABEL_MAX);
    if (kind == 'g')
        hear_grant(store, at, num, token, &record.term);
    if (kind == 'r') {
        hear_revoked(store, at, num, token);
        store->look_now = store->look_now || store->waits;
    }
    if (find_name(store, at) != NULL)
        note(store, at, num, kind == 'r', &record, false);
}

void tn_pg_bell_up(struct tn_pg_store *store)
{
    store->probing = true;
    store->probe = tn_prng_next(&store->prng) >> 1;
    store->probe_by = TN_NEVER; /* From when the probe is sent. */
}

/* What happened since is found out by looking. */
void tn_pg_bell_down(struct tn_pg_store *store)
{
    store->heard = store->probing = false;
    store->look_now = true;
    mark_all(store, -1);
}

/* Nothing comes through: a pooler, perhaps. Try again after a while. */
static void give_up_bell(struct tn_pg_store *store, tenure_ns now)
{
    store->probing = false;
    tn_pg_link_stop(&store->bell);
    tn_pg_link_start(&store->bell, now + BELL_AGAIN);
}

/* --- Statements ----------------------------------------------------------------------------- */

/* Whether something may change that is not ours to change. */
static bool expects_news(const struct tn_pg_store *store)
{
    for (const struct tn_pg_seen *seen = store->seen; seen != NULL; seen = seen->next)
        if (!seen->stray && find_own(store, seen->num) == NULL)
            return true;
    for (const struct tn_pg_name *name = NULL; (name = next_name(store, name)) != NULL;)
        if (name->holder == 0 || find_own(store, name->holder) == NULL)
            return true;
    return false;
}

/* How often to look when no renewal does it on the way: a renewal comes within a third. */
static tenure_ns look_every(const struct tn_pg_store *store)
{
    tenure_ns ttl = TN_NEVER;
    bool deaf = !store->heard && expects_news(store);

    for (const struct tn_pg_seen *seen = store->seen; seen != NULL; seen = seen->next)
        ttl = seen->ttl < ttl ? seen->ttl : ttl;
    if (ttl == TN_NEVER && !deaf)
        return TN_NEVER;
    tenure_ns every = ttl == TN_NEVER ? LOOK_MOST : deaf ? ttl / 15 : ttl / 5 * 2;
    every = every < LOOK_MOST || !deaf ? every : LOOK_MOST;
    return every > LOOK_LEAST ? every : LOOK_LEAST;
}

static tenure_ns look_at(const struct tn_pg_store *store)
{
    tenure_ns every = look_every(store);

    if (store->look_now && (store->base.sessions.count > 0 || store->seen != NULL))
        return 0;
    return every == TN_NEVER ? TN_NEVER : store->looked_at + every;
}

tenure_ns tn_pg_observe_at(const struct tn_pg_store *store)
{
    tenure_ns at = look_at(store);

    if (store->dirty > 0)
        at = 0;
    if (store->probing)
        at = store->probe_by == TN_NEVER ? 0 : store->probe_by < at ? store->probe_by : at;
    for (const struct tn_pg_seen *seen = store->seen; seen != NULL; seen = seen->next)
        at = evict_at(seen) < at ? evict_at(seen) : at;
    for (const struct tn_pg_lapsing *it = store->lapsing; it != NULL; it = it->next)
        at = tn_observer_wake_at(&it->observer) < at ? tn_observer_wake_at(&it->observer) : at;
    return at;
}

/* All that are due go in one statement. */
static bool send_evict(struct tn_pg_store *store, tenure_ns now)
{
    struct tn_pg_buf nums = { 0 }, beats = { 0 };
    bool due = false;

    forget_old(store, now);
    for (struct tn_pg_seen *seen = store->seen; seen != NULL; seen = seen->next) {
        seen->evicting = now >= evict_at(seen);
        if (!seen->evicting)
            continue;
        tn_pg_buf_addf(&nums, "%c%lld", due ? ',' : '{', (long long)seen->num);
        tn_pg_buf_addf(&beats, "%c%lld", due ? ',' : '{', (long long)seen->observer.beat);
        due = true;
    }
    if (due) {
        tn_pg_buf_add(&nums, "}", 1);
        tn_pg_buf_add(&beats, "}", 1);
    }
    const char *values[] = { nums.data, beats.data };
    due = due && !nums.failed && !beats.failed;
    if (due)
        tn_pg_send(store, TN_PG_EVICT, "SELECT * FROM tenure.evict($1::bigint[], $2::bigint[])", 2,
                   values);
    free(nums.data);
    free(beats.data);
    return due;
}

static bool send_lapse(struct tn_pg_store *store, tenure_ns now)
{
    struct tn_pg_lapsing **link = first_lapsing(store);
    struct tn_pg_lapsing *due = *link;
    char token[24];

    if (due == NULL || !tn_observer_vacant(&due->observer, now))
        return false;
    const char *values[] = { due->name, token };
    (void)snprintf(token, sizeof token, "%lld", (long long)due->observer.token);
    *link = due->next; /* Whatever comes of it: who still waits is told again. */
    tn_pg_send(store, TN_PG_LAPSE, "SELECT tenure.lapse($1::text, $2::bigint)", 2, values);
    free(due);
    return true;
}

static bool send_probe(struct tn_pg_store *store, tenure_ns now)
{
    char payload[32];
    const char *values[] = { payload };

    if (!store->probing)
        return false;
    if (store->probe_by != TN_NEVER) {
        if (now >= store->probe_by)
            give_up_bell(store, now);
        return false;
    }
    store->probe_by = now + PROBE_WITHIN;
    (void)snprintf(payload, sizeof payload, "p %llu", (unsigned long long)store->probe);
    tn_pg_send(store, TN_PG_PROBE, "SELECT pg_notify('tenure', $1::text)", 1, values);
    return true;
}

static bool send_look(struct tn_pg_store *store, tenure_ns now)
{
    struct tn_pg_buf secrets = { 0 }, known = { 0 }, nums = { 0 };
    const char *comma = "";

    if (now < look_at(store))
        return false;
    if (!store->heard)
        mark_all(store, -1);
    tn_pg_buf_add(&secrets, "{", 1);
    tn_pg_buf_add(&known, "{", 1);
    for (const struct tn_pg_session *own = NULL; (own = next_session(store, own)) != NULL;) {
        tn_pg_buf_addf(&secrets, "%s", comma);
        tn_pg_buf_hex(&secrets, &own->base.hash, sizeof own->base.hash);
        tn_pg_buf_addf(&known, "%s%lld", comma, (long long)own->known);
        comma = ",";
    }
    tn_pg_buf_add(&secrets, "}", 1);
    tn_pg_buf_add(&known, "}", 1);
    tn_pg_list_seen(store, true, &nums);
    const char *values[] = { secrets.data, known.data, nums.data };
    bool good = !secrets.failed && !known.failed && !nums.failed;
    if (good)
        tn_pg_send(store, TN_PG_LOOK,
                   "SELECT * FROM tenure.look($1::uuid[], $2::bigint[], $3::bigint[])", 3, values);
    free(secrets.data);
    free(known.data);
    free(nums.data);
    return good;
}

/* Names that are watched and not known; as many as fit, the others next. */
static bool send_reads(struct tn_pg_store *store)
{
    static const char sql[] =
        "SELECT o.name, r.* FROM unnest($1::text[]) o (name) CROSS JOIN LATERAL"
        " tenure.step('read', NULL, NULL, o.name, 0, false) r";
    struct tn_pg_buf names = { 0 };
    unsigned count = 0;

    if (store->dirty == 0)
        return false;
    for (const struct tn_pg_name *name = NULL;
         count < TN_PG_READS_MAX && (name = next_name(store, name)) != NULL;)
        if (name->dirty)
            tn_pg_buf_addf(&names, "%c\"%s\"", count++ > 0 ? ',' : '{', name->base.text);
    tn_pg_buf_add(&names, "}", 1);
    const char *values[] = { names.data };
    if (!names.failed)
        tn_pg_send(store, TN_PG_READS, sql, 1, values);
    free(names.data);
    return !names.failed;
}

bool tn_pg_observe_next(struct tn_pg_store *store, tenure_ns now)
{
    return send_evict(store, now) || send_lapse(store, now) || send_probe(store, now) ||
           send_look(store, now) || send_reads(store);
}

/* num, beat: of those that renewed meanwhile. The others are over. */
static void hear_evicted(struct tn_pg_store *store, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        struct tn_pg_seen *seen = find_seen(store, tn_pg_int(result, row, 0));
        if (seen == NULL)
            continue;
        seen->evicting = false;
        note_beat(seen, tn_pg_now(store), tn_pg_int(result, row, 1));
    }
    for (struct tn_pg_seen *seen = store->seen, *next; seen != NULL; seen = next) {
        next = seen->next;
        if (!seen->evicting)
            continue;
        mark_all(store, seen->num);
        drop_seen(store, seen->num);
    }
    store->look_now = true;
}

static void hear_reads(struct tn_pg_store *store, const PGresult *result)
{
    for (int row = 0; row < PQntuples(result); row++) {
        char name[TN_NAME_MAX + 1];
        struct tn_store_record record;
        bool revoked;
        int64_t holder = tn_pg_record(result, row, 2, &record, &revoked);
        (void)snprintf(name, sizeof name, "%s", PQgetvalue(result, row, 0));
        tn_pg_note(store, name, holder, revoked, &record);
    }
}

void tn_pg_observe_result(struct tn_pg_store *store, const PGresult *result)
{
    enum tn_pg_job job = store->job;

    store->job = TN_PG_IDLE;
    store->stuck_at = TN_NEVER;
    if (job == TN_PG_LOOK)
        tn_pg_hear_news(store, result, 0);
    else if (job == TN_PG_EVICT)
        hear_evicted(store, result);
    else if (job == TN_PG_READS)
        hear_reads(store, result);
    else if (job == TN_PG_LAPSE)
        store->look_now = true;
}

void tn_pg_observe_done(struct tn_pg_store *store)
{
    while (store->lapsing != NULL) {
        struct tn_pg_lapsing *it = store->lapsing;
        store->lapsing = it->next;
        free(it);
    }
    while (store->seen != NULL)
        drop_seen(store, store->seen->num);
}
