/* rows_name.c - rows as reads, writes and the change feed show them; rows_name.h has the picture.
 */
#include "core/rows_name.h"

#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "core/plant.h"

/* --- Versions and tokens ---------------------------------------------------------------------- */

size_t tn_row_version_len(const char *version)
{
    size_t len = 0;

    while (len < TN_ROW_VERSION && version[len] != '\0')
        len++;
    TN_ASSERT(len < TN_ROW_VERSION);
    return len;
}

uint64_t tn_row_beat(const char *version)
{
    static const struct tn_hash_key key = { 1, 1 }; /* Nobody gains by a collision. */
    uint64_t beat = tn_hash(key, version, tn_row_version_len(version));

    return beat != 0 ? beat : 1;
}

/* A version that is no number counts as 0: the token then goes on from the floor. */
static uint64_t version_number(const char *version)
{
    uint64_t number = 0;

    for (const char *at = version; *at != '\0'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (*at < '0' || *at > '9' || number > (UINT64_MAX - digit) / 10)
            return 0;
        number = 10 * number + digit;
    }
    return number;
}

uint64_t tn_row_token(const struct tn_row *row, const char *version)
{
    uint64_t number;

    if (!row->minted)
        return row->token;
    number = version_number(version);
    if (number > row->floor || TN_PLANT(FLOOR_IGNORED))
        return number;
    return row->floor + (row->floor < UINT64_MAX);
}

void tn_rows_name_settle(struct tn_rows_name *name, struct tn_row *row, const char *version)
{
    bool known = !tn_secret_is_zero(&row->term) && tn_secret_equal(&name->term, &row->term);

    if (!row->minted)
        return;
    row->token = known && !row->held ? name->token : tn_row_token(row, version);
    row->minted = false;
    if (row->held) {
        name->term = row->term;
        name->token = row->token;
    }
}

/* --- Reads and writes ------------------------------------------------------------------------- */

void tn_rows_name_know(struct tn_rows_name *name, tenure_ns now, const char *version)
{
    bool none = version[0] == '\0';

    if (!none)
        name->number = version_number(version);
    else if (!name->none && name->number > 0)
        name->number++; /* It was deleted after that. */
    name->none = none;
    if (memcmp(version, name->shown_version, tn_row_version_len(version) + 1) == 0) {
        name->behind = false;
        return;
    }
    /* A feed that lags behind is not to be relied on. */
    name->fed = false;
    if (!name->behind)
        name->behind_since = now;
    name->behind = true;
}

void tn_rows_name_observe(struct tn_rows_name *name, tenure_ns sent_at, tenure_ns now, bool others,
                          const struct tn_row *row, const char *version, tenure_ns ttl)
{
    struct tn_observer before = name->observer;

    if (TN_PLANT(BLIND_TAKEOVER) && others && tn_observer_vacant(&before, now))
        return;
    tn_observer_saw(&name->observer, sent_at, now, others, row->token, tn_row_beat(version), ttl);
    if (!name->observer.watching || name->observer.since != before.since || !before.watching)
        name->told = false;
}

/* --- The change feed -------------------------------------------------------------------------- */

/* Behind a restored backup the numbers begin again, and everything that the feed shows looks old:
 * then a read tells, and nothing but a read. */
static bool is_old(const struct tn_rows_name *name, const struct tn_rows_event *event)
{
    uint64_t number = version_number(event->version);

    return number != 0 && number < name->number && !TN_PLANT(FEED_OLD);
}

/* What the plant does: the event counts for the term, and its time does not. */
static void resume_silence(struct tn_rows_name *name, const struct tn_row *row, const char *version)
{
    name->observer.beat = tn_row_beat(version);
    name->observer.token = row->token;
}

struct tn_rows_news tn_rows_name_saw(struct tn_rows_name *name, tenure_ns now, bool has_sessions,
                                     const struct tn_rows_event *event)
{
    struct tn_row row = event->row != NULL ? *event->row : (struct tn_row) { .held = false };
    const char *version = event->row != NULL ? event->version : "";
    bool others = event->whose == TN_ROWS_OTHERS;
    bool stray = event->whose == TN_ROWS_STRAY && !TN_PLANT(FEED_STRAY);

    if (is_old(name, event)) {
        name->fed = false;        /* One of the two is wrong: the next acquire reads. */
        name->behind_since = now; /* It goes on. */
        return (struct tn_rows_news) { .read = true };
    }
    if (version_number(event->version) != 0)
        name->number = version_number(event->version);
    name->none = event->row == NULL;
    tn_rows_name_settle(name, &row, version);
    name->fed = others;
    name->behind = false;
    name->shown = row;
    name->shown_at = now;
    memcpy(name->shown_version, version, tn_row_version_len(version) + 1);
    if (TN_PLANT(FEED_RESUMES) && others && row.held && name->observer.watching)
        resume_silence(name, &row, version);
    else if (!stray && !has_sessions) /* Else the engine says who is gone. */
        tn_rows_name_observe(name, now, now, row.held && others, &row, version, row.ttl);
    /* A term of our own is told by its requests; somebody else's write may have ended one. */
    return (struct tn_rows_news) { .tell = !stray,
                                   .look = event->whose != TN_ROWS_OURS || row.revoked };
}

void tn_rows_name_feed_alive(struct tn_rows_name *name, tenure_ns now)
{
    if (name->fed)
        name->shown_at = now;
}

void tn_rows_name_feed_lost(struct tn_rows_name *name)
{
    name->fed = false;
    name->behind = false;
    name->shown_version[0] = '\0';
}

bool tn_rows_name_shows_held(const struct tn_rows_name *name, tenure_ns now, bool has_sessions,
                             tenure_ns trust, const struct tn_secret *term)
{
    bool alive = has_sessions ? now - name->shown_at < trust
                              : name->observer.watching && !tn_rows_name_is_silent(name, now);

    return name->fed && name->shown.held && tn_secret_equal(&name->refused, term) &&
           (alive || TN_PLANT(FEED_TRUSTED));
}

tenure_ns tn_rows_name_behind_at(const struct tn_rows_name *name, tenure_ns lag)
{
    return name->behind ? name->behind_since + lag : TN_NEVER;
}

bool tn_rows_name_is_behind(const struct tn_rows_name *name, tenure_ns now, tenure_ns lag)
{
    return now >= tn_rows_name_behind_at(name, lag);
}

/* --- Silence ---------------------------------------------------------------------------------- */

bool tn_rows_name_is_silent(const struct tn_rows_name *name, tenure_ns now)
{
    return tn_observer_vacant(&name->observer, now);
}

tenure_ns tn_rows_name_wake_at(const struct tn_rows_name *name)
{
    if (name->retry_at != 0)
        return name->retry_at;
    return name->told ? TN_NEVER : tn_observer_wake_at(&name->observer);
}

bool tn_rows_name_is_vacated(struct tn_rows_name *name, tenure_ns now)
{
    bool vacated = !name->told && tn_rows_name_is_silent(name, now);

    if (name->retry_at != 0) {
        vacated = name->retry_at <= now;
        name->retry_at = vacated ? 0 : name->retry_at;
        return vacated;
    }
    name->told = name->told || vacated;
    return vacated;
}
