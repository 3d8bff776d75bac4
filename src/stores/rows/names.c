/* names.c - what a store on rows knows of names: their records, reads of what is watched, and what
 * the engine's change feed shows. */
#include <stdio.h>
#include <string.h>

#include "core/note.h"
#include "core/plan.h"
#include "stores/rows/inside.h"

#define FEED_LAG TN_SEC(5) /* How long the feed may take to show what was read, or written here. */
#define NONE "(none)"      /* The version of a row that is not there. */
#define POLL_AGAIN TN_SEC(1)  /* A poll that failed; no engine with a feed polls as often. */
#define NOTES_MOST TN_SEC(10) /* How late an operator's note may be read, */
#define NOTES_BESIDE 4        /* or after how many polls where a feed shows it. */

/* --- Names ------------------------------------------------------------------------------------ */

/* The first use is the store's own: what is observed outlasts those who want it. */
static void keep_name(struct tn_rows_watch *watch)
{
    if (watch->kept)
        return;
    watch->kept = true;
    watch->base.uses++;
    watch->poll_at = TN_NEVER;
}

struct tn_rows_watch *tn_rows_get_name(struct tn_rows_store *store, const char *name, size_t len)
{
    struct tn_rows_watch *watch =
        (struct tn_rows_watch *)tn_store_name_use(&store->base, name, len);

    if (watch == NULL)
        return NULL;
    keep_name(watch);
    tn_store_name_drop(&store->base, &watch->base);
    return watch;
}

struct tn_rows_watch *tn_rows_next_name(const struct tn_rows_store *store,
                                        const struct tn_rows_watch *watch)
{
    return (struct tn_rows_watch *)tn_store_name_next(&store->base,
                                                      watch != NULL ? &watch->base : NULL);
}

static bool is_wanted(const struct tn_rows_watch *watch, tenure_ns now)
{
    const struct tn_observer *observer = &watch->known.observer;

    return watch->base.watchers > 0 || watch->base.uses > 1 ||
           (observer->watching && now < observer->since + 2 * observer->wait);
}

void tn_rows_drop_names(struct tn_rows_store *store)
{
    struct tn_rows_watch *next;
    tenure_ns now = tn_rows_now_of(store);

    for (struct tn_rows_watch *watch = tn_rows_next_name(store, NULL); watch != NULL;
         watch = next) {
        next = tn_rows_next_name(store, watch);
        if (watch->kept && !is_wanted(watch, now))
            tn_store_name_drop(&store->base, &watch->base);
    }
}

/* --- Records ---------------------------------------------------------------------------------- */

void tn_rows_record(const struct tn_row *row, const char *version,
                    struct tn_store_record *ret_record)
{
    uint32_t len = row->label_len < TN_LABEL_MAX ? row->label_len : TN_LABEL_MAX;

    *ret_record =
        (struct tn_store_record) { .held = row->held, .token = tn_row_token(row, version) };
    if (!row->held)
        return;
    ret_record->beat = tn_row_beat(version);
    ret_record->revoked = row->revoked;
    ret_record->ttl = row->ttl;
    ret_record->remaining = row->ttl;
    ret_record->term = row->term;
    ret_record->label_len = len;
    if (len > 0)
        memcpy(ret_record->label, row->label, len);
}

void tn_rows_judge_record(const struct tn_rows_store *store, const struct tn_rows_watch *watch,
                          struct tn_store_record *record)
{
    tenure_ns at = tn_observer_wake_at(&watch->known.observer);
    tenure_ns now = tn_rows_now_of(store);

    if (!record->held || at == TN_NEVER)
        return;
    if (tn_rows_name_is_silent(&watch->known, now))
        *record = (struct tn_store_record) { .token = record->token };
    else
        record->remaining = at - now;
}

/* --- News, told in the turn ------------------------------------------------------------------- */

static void add_news(struct tn_rows_store *store, struct tn_rows_watch *watch,
                     const struct tn_store_record *record)
{
    watch->news = *record;
    if (watch->has_news)
        return;
    watch->has_news = true;
    watch->base.uses++;
    watch->next_news = store->news;
    store->news = watch;
    tn_store_kick(&store->base);
}

void tn_rows_tell_news(struct tn_rows_store *store)
{
    struct tn_rows_watch *watch;

    while ((watch = store->news) != NULL) {
        store->news = watch->next_news;
        watch->has_news = false;
        tn_store_changed(&store->base, &watch->base, &watch->news);
        tn_store_name_drop(&store->base, &watch->base);
    }
}

static void add_judged_news(struct tn_rows_store *store, struct tn_rows_watch *watch,
                            const struct tn_row *row, const char *version)
{
    struct tn_store_record record;

    tn_rows_record(row, version, &record);
    tn_rows_judge_record(store, watch, &record);
    add_news(store, watch, &record);
}

/* --- Reading what is watched ------------------------------------------------------------------ */

int tn_rows_watch_name(struct tn_store *base, struct tn_store_name *name, bool on)
{
    struct tn_rows_store *store = (struct tn_rows_store *)base;
    struct tn_rows_watch *watch = (struct tn_rows_watch *)name;

    keep_name(watch);
    watch->poll_at = on ? 0 : TN_NEVER;
    tn_rows_name_feed_lost(&watch->known); /* Or the feed is yet to show it. */
    tn_store_kick(base);
    if (store->engine->watch != NULL)
        store->engine->watch(store);
    return 0;
}

/* Every process watches the names of three notes, and hardly ever is there one: read as often as
 * the name itself, they would be most of what an election costs. A holder with a directed hand-over
 * waits for a third of its TTL until the others have read of it (note_times in runtime/driver.c).
 */
static tenure_ns next_poll(struct tn_rows_store *store, const struct tn_rows_watch *watch)
{
    tenure_ns every = store->engine->poll_every;
    tenure_ns third = NOTES_MOST;

    if (strncmp(watch->base.text, TN_NOTE_PREFIX, sizeof TN_NOTE_PREFIX - 1) != 0)
        return tn_plan_jittered(&store->prng, every, TN_PPM / 2);
    if (store->engine->refeed != NULL)
        return tn_plan_jittered(&store->prng, NOTES_BESIDE * every, TN_PPM / 2);
    for (struct tn_rows_session *each = NULL; (each = tn_rows_next_session(store, each)) != NULL;)
        if (each != store->reader && each->rows.ttl / 3 < third)
            third = each->rows.ttl / 3;
    return tn_plan_jittered(&store->prng, third > every ? third : every, TN_PPM / 5);
}

static void poll_name(struct tn_rows_store *store, struct tn_rows_watch *watch, tenure_ns now)
{
    struct tn_op op = { .kind = TN_OP_READ };

    if (watch->poll != NULL)
        return;
    watch->poll_at = store->engine->poll_every > 0 ? now + next_poll(store, watch) : TN_NEVER;
    watch->poll = tn_rows_add_claim(store->reader, watch, NULL);
    if (watch->poll != NULL)
        tn_rows_start(&watch->poll->claim, now, &op);
}

void tn_rows_end_poll(struct tn_rows_store *store, struct rows_claim *claim, bool failed)
{
    struct tn_rows_watch *watch = claim->watch;

    watch->poll = NULL;
    if (failed)
        watch->poll_at =
            tn_rows_now_of(store) + tn_plan_jittered(&store->prng, POLL_AGAIN, TN_PPM / 2);
    else
        add_judged_news(store, watch, &claim->claim.row, claim->claim.version);
}

static bool has_feed(const struct tn_rows_store *store, const struct tn_rows_watch *watch)
{
    return store->engine->refeed != NULL && watch->base.watchers > 0;
}

void tn_rows_tick_names(struct tn_rows_store *store, tenure_ns now)
{
    for (struct tn_rows_watch *each = NULL; (each = tn_rows_next_name(store, each)) != NULL;) {
        struct tn_store_record free = { .token = each->known.observer.token };
        each->written[0] = '\0';
        if (tn_rows_name_is_vacated(&each->known, now)) {
            tn_store_forget_told(&each->base); /* It may have been refused since it was told. */
            add_news(store, each, &free);
        }
        if (each->poll_at <= now && each->base.watchers > 0)
            poll_name(store, each, now);
        if (has_feed(store, each) && tn_rows_name_is_behind(&each->known, now, FEED_LAG)) {
            tn_rows_feed_lost(store);
            store->engine->refeed(store);
        }
    }
}

tenure_ns tn_rows_wake_names_at(const struct tn_rows_store *store)
{
    tenure_ns at = TN_NEVER;

    for (struct tn_rows_watch *each = NULL; (each = tn_rows_next_name(store, each)) != NULL;) {
        if (each->poll_at < at)
            at = each->poll_at;
        if (tn_rows_name_wake_at(&each->known) < at)
            at = tn_rows_name_wake_at(&each->known);
        if (has_feed(store, each) && tn_rows_name_behind_at(&each->known, FEED_LAG) < at)
            at = tn_rows_name_behind_at(&each->known, FEED_LAG);
    }
    return at;
}

void tn_rows_changed(struct tn_rows_store *store, const char *name, const char *version)
{
    struct tn_rows_watch *watch =
        (struct tn_rows_watch *)tn_store_name_find(&store->base, name, strlen(name));

    if (watch == NULL)
        return;
    if (watch->base.watchers > 0)
        watch->poll_at = 0;
    (void)snprintf(watch->written, sizeof watch->written, "%s", version);
    tn_store_kick(&store->base);
}

/* --- The engine's change feed ----------------------------------------------------------------- */

/* As the sessions of this process see it. */
static enum tn_rows_whose whose_row(const struct tn_rows_store *store,
                                    const struct tn_rows_watch *watch, const struct tn_row *row)
{
    enum tn_rows_whose whose = TN_ROWS_OTHERS;

    for (struct tn_rows_session *each = NULL;
         whose == TN_ROWS_OTHERS && (each = tn_rows_next_session(store, each)) != NULL;)
        whose = tn_rows_whose(&each->rows, &watch->known, row);
    return whose;
}

bool tn_rows_is_stray(const struct tn_rows_store *store, const struct rows_claim *claim)
{
    return whose_row(store, claim->watch, &claim->claim.row) == TN_ROWS_STRAY;
}

static void see_row(struct tn_rows_store *store, struct tn_rows_watch *watch,
                    const struct tn_row *row, const char *version)
{
    struct tn_row seen = { .label = watch->label };
    struct tn_rows_event event = { row != NULL ? &seen : NULL, version, TN_ROWS_OTHERS };
    struct tn_rows_news news;

    watch->shown_in = store->feed_round + 1;
    if (row != NULL)
        seen = *row;
    if (seen.label_len > TN_LABEL_MAX)
        seen.label_len = TN_LABEL_MAX;
    if (seen.label_len > 0)
        memcpy(watch->label, seen.label, seen.label_len);
    seen.label = watch->label;
    event.whose = whose_row(store, watch, &seen);
    news = tn_rows_name_saw(&watch->known, tn_rows_now_of(store), store->reader->rows.has_sessions,
                            &event);
    if (news.look)
        (void)snprintf(watch->written, sizeof watch->written, "%s", row != NULL ? version : NONE);
    if (news.tell)
        add_judged_news(store, watch, &watch->known.shown, watch->known.shown_version);
    if (news.read && watch->base.watchers > 0)
        watch->poll_at = 0;
    if (watch->base.watchers == 0)
        tn_rows_name_feed_lost(&watch->known); /* The engine need not show what follows. */
    tn_store_kick(&store->base);
}

void tn_rows_saw(struct tn_rows_store *store, const char *name, const struct tn_row *row,
                 const char *version)
{
    struct tn_rows_watch *watch =
        (struct tn_rows_watch *)tn_store_name_find(&store->base, name, strlen(name));

    if (watch != NULL && watch->kept && !store->base.closing)
        see_row(store, watch, row, version);
}

void tn_rows_saw_all(struct tn_rows_store *store)
{
    for (struct tn_rows_watch *each = NULL; (each = tn_rows_next_name(store, each)) != NULL;)
        if (each->base.watchers > 0 && each->shown_in != store->feed_round + 1)
            see_row(store, each, NULL, "");
    store->feed_round++;
}

void tn_rows_feed_alive(struct tn_rows_store *store)
{
    for (struct tn_rows_watch *each = NULL; (each = tn_rows_next_name(store, each)) != NULL;)
        tn_rows_name_feed_alive(&each->known, tn_rows_now_of(store));
}

void tn_rows_feed_lost(struct tn_rows_store *store)
{
    for (struct tn_rows_watch *each = NULL; (each = tn_rows_next_name(store, each)) != NULL;) {
        tn_rows_name_feed_lost(&each->known);
        if (each->base.watchers > 0)
            each->poll_at = 0;
    }
    tn_store_kick(&store->base);
}

size_t tn_rows_watched(const struct tn_rows_store *store, const char **ret_name)
{
    size_t count = 0;

    for (struct tn_rows_watch *each = NULL; (each = tn_rows_next_name(store, each)) != NULL;) {
        if (each->base.watchers == 0)
            continue;
        count++;
        *ret_name = each->base.text;
    }
    return count;
}
