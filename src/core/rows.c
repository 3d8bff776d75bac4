/* rows.c - operations as reads and conditional writes of rows; rows.h has the picture and the
 * rules.
 *
 * Happy path: ACQUIRE reads the row, finds it free and writes it held; RENEW writes it again with
 * the version that the last write returned; RELEASE writes it free the same way.
 * What can fail: a conflict means that somebody else wrote, and the row is read and judged again;
 * after an unknown outcome the read tells what became of the write. Every answer first updates what
 * is known of the row, and then the goal judges it and decides about the next step. */
#include "core/rows.h"

#include <string.h>

#include "base/assert.h"
#include "core/plant.h"
#include "core/rows_inside.h"

enum {
    TRIES = 6,   /* Writes that may conflict before the goal counts as failed. */
    RETRIES = 8, /* Times a name is asked for within a lock-delay. */
};

void tn_rows_init(struct tn_rows *rows, const struct tn_rows_host *host, void *arg,
                  const struct tn_secret *session_hash, tenure_ns ttl, tenure_ns attempt_timeout,
                  tenure_ns acquire_timeout)
{
    *rows = (struct tn_rows) {
        .host = host,
        .arg = arg,
        .session = *session_hash,
        .ttl = ttl,
        .attempt_timeout = attempt_timeout,
        .acquire_timeout = acquire_timeout,
        .feed_trust = ttl,
    };
}

void tn_rows_add(struct tn_rows *rows, struct tn_rows_claim *claim, struct tn_rows_name *name,
                 const struct tn_secret *term_hash)
{
    *claim = (struct tn_rows_claim) {
        .rows = rows, .name = name, .next = rows->claims, .give_up_at = TN_NEVER
    };
    if (term_hash != NULL)
        claim->term = *term_hash;
    if (claim->next != NULL)
        claim->next->prev = claim;
    rows->claims = claim;
}

/* --- Renewals --------------------------------------------------------------------------------- */

/* The claim has nothing else to do: a renewal may be waiting for it. */
static void rest(struct tn_rows_claim *claim, tenure_ns now)
{
    claim->goal = TN_ROWS_REST;
    claim->tries = 0;
    claim->unsettled = false;
    tn_rows_answer_renewals(claim->rows);
    if (tn_rows_is_wanted(claim)) {
        claim->goal = TN_ROWS_RENEW;
        tn_rows_proceed(claim, now);
    }
}

/* The rows that could not be written cost the renewals that waited for them. */
static void fail_renewal(struct tn_rows_claim *claim, tenure_ns now)
{
    if (TN_PLANT(RENEW_PARTIAL))
        claim->covered = claim->sent_in;
    else if (!claim->rows->has_sessions)
        tn_rows_fail_renewals(claim->rows, claim->sent_in);
    rest(claim, now);
}

void tn_rows_abandon(struct tn_rows_claim *claim)
{
    claim->held = claim->revoked = false;
}

void tn_rows_outdate(struct tn_rows *rows, const struct tn_rows_claim *by)
{
    if (!by->row.held || by->row.revoked)
        return;
    for (struct tn_rows_claim *claim = rows->claims; claim != NULL; claim = claim->next)
        if (claim != by && claim->name == by->name)
            claim->revoked = false;
}

void tn_rows_remove(struct tn_rows_claim *claim)
{
    if (claim->next != NULL)
        claim->next->prev = claim->prev;
    if (claim->prev != NULL)
        claim->prev->next = claim->next;
    else
        claim->rows->claims = claim->next;
    claim->held = false;
    tn_rows_answer_renewals(claim->rows);
}

/* --- Requests --------------------------------------------------------------------------------- */

static void begin_request(struct tn_rows_claim *claim, tenure_ns now, bool putting)
{
    TN_ASSERT(claim->request == 0);
    claim->request = ++claim->rows->requests;
    claim->sent_in = claim->rows->begun;
    claim->sent_at = now;
    claim->give_up_at = now + (claim->goal == TN_ROWS_ACQUIRE ? claim->rows->acquire_timeout
                                                              : claim->rows->attempt_timeout);
    claim->putting = putting;
}

static void get(struct tn_rows_claim *claim, tenure_ns now)
{
    begin_request(claim, now, false);
    claim->rows->host->get(claim->rows->arg, claim, claim->request);
}

static void put(struct tn_rows_claim *claim, tenure_ns now, const struct tn_row *row)
{
    const struct tn_rows *rows = claim->rows;
    struct tn_row written = *row;

    written.nonce = rows->host->nonce(rows->arg);
    begin_request(claim, now, true);
    claim->row = written;
    rows->host->put(rows->arg, claim, claim->request, &written);
}

static bool end_request(struct tn_rows_claim *claim, uint64_t request)
{
    if (request == 0 || request != claim->request)
        return false; /* Given up long ago. */
    claim->request = 0;
    claim->give_up_at = TN_NEVER;
    return true;
}

/* --- Goals ------------------------------------------------------------------------------------ */

static void finish(struct tn_rows_claim *claim, tenure_ns now, enum tn_answer answer)
{
    struct tn_rows_answer done = { .answer = answer };
    enum tn_rows_goal goal = claim->goal;

    if (goal == TN_ROWS_ACQUIRE && answer == TN_ANSWER_HELD)
        claim->name->refused = claim->term;
    if (goal == TN_ROWS_ACQUIRE && answer == TN_ANSWER_GRANTED) {
        claim->held = !claim->row.revoked;
        claim->revoked = claim->row.revoked;
        claim->give_back_at = now + claim->rows->ttl;
    }
    if (goal != TN_ROWS_GIVE_BACK)
        claim->rows->host->done(claim->rows->arg, claim, goal, &done);
    rest(claim, now);
}

static void fail(struct tn_rows_claim *claim, tenure_ns now)
{
    struct tn_rows_answer done = { .failed = true, .unknown = claim->unsettled };

    if (claim->goal == TN_ROWS_RENEW) {
        fail_renewal(claim, now);
        return;
    }
    if (claim->goal != TN_ROWS_GIVE_BACK)
        claim->rows->host->done(claim->rows->arg, claim, claim->goal, &done);
    rest(claim, now);
}

static bool is_of_session(const struct tn_rows_claim *claim)
{
    return claim->row.held && tn_secret_equal(&claim->row.session, &claim->rows->session);
}

static bool is_mine(const struct tn_rows_claim *claim)
{
    return is_of_session(claim) && tn_secret_equal(&claim->row.term, &claim->term);
}

enum tn_rows_whose tn_rows_whose(const struct tn_rows *rows, const struct tn_rows_name *name,
                                 const struct tn_row *row)
{
    if (!row->held || !tn_secret_equal(&row->session, &rows->session))
        return TN_ROWS_OTHERS;
    for (const struct tn_rows_claim *claim = rows->claims; claim != NULL; claim = claim->next)
        if ((claim->held || claim->revoked) && claim->name == name &&
            tn_secret_equal(&claim->term, &row->term))
            return TN_ROWS_OURS;
    return TN_ROWS_STRAY;
}

/* The row as this claim holds it under @token. */
static struct tn_row held_row(const struct tn_rows_claim *claim, uint64_t token)
{
    const struct tn_rows *rows = claim->rows;

    struct tn_row row = { .held = true,
                          .token = token,
                          .floor = claim->row.floor,
                          .ttl = rows->ttl,
                          .session = rows->session,
                          .term = claim->term,
                          .label = rows->label,
                          .label_len = rows->label_len };

    memcpy(row.owner, rows->id, sizeof row.owner);
    return row;
}

/* Whether every renewal so far supports the row. One that the engine ties to the session is as good
 * as the session. */
static bool is_supported(const struct tn_rows_claim *claim)
{
    return claim->rows->has_sessions || claim->covered == claim->rows->begun ||
           TN_PLANT(ROW_UNCOVERED) || TN_PLANT(ROW_ADOPTED);
}

/* Our row is there. It counts once a write of ours has succeeded that was sent after the last
 * renewal began: a session that was renewed since has a deadline that this row does not support. */
static void claim_row(struct tn_rows_claim *claim, tenure_ns now, bool written)
{
    struct tn_row row = held_row(claim, claim->row.token);

    if ((written || TN_PLANT(ROW_ADOPTED)) && is_supported(claim)) {
        claim->token = claim->row.token;
        finish(claim, now, TN_ANSWER_GRANTED);
        return;
    }
    put(claim, now, &row);
}

/* Nobody has it, or the holder was silent for long enough. */
static void take(struct tn_rows_claim *claim, tenure_ns now)
{
    uint64_t last = claim->row.token > claim->row.floor ? claim->row.token : claim->row.floor;

    if (last == UINT64_MAX) { /* Out of tokens: P9, stall rather than repeat one. */
        finish(claim, now, TN_ANSWER_FULL);
        return;
    }
    struct tn_row row = held_row(claim, last + 1);
    if (claim->rows->mints && !(TN_PLANT(TOKEN_RECOUNTED) && claim->version[0] == '\0')) {
        row.token = 0;
        row.minted = true;
        row.floor =
            last; /* Should the engine's numbers have fallen, the token goes on from here. */
    }
    put(claim, now, &row);
}

/* Granted and revoked before anybody heard of it. Told in that order, the application never leads,
 * and gives it back. */
static void hand_over_revoked(struct tn_rows_claim *claim, tenure_ns now)
{
    claim->token = claim->row.token;
    claim->rows->host->ended(claim->rows->arg, claim);
    finish(claim, now, TN_ANSWER_GRANTED);
}

static void judge_acquire(struct tn_rows_claim *claim, tenure_ns now, bool written)
{
    const struct tn_row *row = &claim->row;
    enum tn_rows_whose whose = tn_rows_whose(claim->rows, claim->name, row);
    bool silent = whose == TN_ROWS_OTHERS && tn_rows_name_is_silent(claim->name, now);

    if (is_mine(claim) && !row->revoked)
        claim_row(claim, now, written);
    else if (is_mine(claim) && whose == TN_ROWS_STRAY)
        hand_over_revoked(claim, now);
    else if (!row->held && row->token > 0 && tn_secret_equal(&row->term, &claim->term))
        finish(claim, now, TN_ANSWER_STALE); /* Delayed: this term is over. */
    else if (!row->held || silent || whose == TN_ROWS_STRAY)
        take(claim, now);
    else
        finish(claim, now, TN_ANSWER_HELD);
}

/* P5: exactly this session, term and token. The row stays, and with it the token. */
static void judge_release(struct tn_rows_claim *claim, tenure_ns now)
{
    const struct tn_row *row = &claim->row;
    bool any = claim->asked == 0;

    if (!row->held)
        claim->revoked = false;
    if (is_mine(claim) && (any || row->token == claim->asked)) {
        struct tn_row next = { .token = TN_PLANT(ROW_REMOVED) ? 0 : row->token,
                               .floor = row->floor,
                               .term = row->term };
        memcpy(next.owner, row->owner, sizeof next.owner);
        put(claim, now, &next);
    } else if (any) {
        finish(claim, now, TN_ANSWER_RELEASED);
    } else if (row->token != claim->asked && !TN_PLANT(ROW_REMOVED)) {
        finish(claim, now, TN_ANSWER_STALE);
    } else if (!row->held && tn_secret_equal(&row->term, &claim->term)) {
        finish(claim, now, TN_ANSWER_RELEASED); /* By this write, or by one before it. */
    } else {
        finish(claim, now, row->held ? TN_ANSWER_DENIED : TN_ANSWER_STALE);
    }
}

/* The row cannot support the session any longer than it has so far. */
static void end_term(struct tn_rows_claim *claim, tenure_ns now)
{
    claim->held = false;
    claim->revoked = is_mine(claim);
    claim->give_back_at = now + claim->rows->ttl;
    claim->rows->host->ended(claim->rows->arg, claim);
    rest(claim, now);
}

static void judge_renewal(struct tn_rows_claim *claim, tenure_ns now)
{
    struct tn_row row = held_row(claim, claim->row.token);

    if (claim->revoked) {
        claim->revoked = is_mine(claim); /* Or somebody else has it by now. */
        rest(claim, now);
    } else if (!is_mine(claim) || claim->row.revoked) {
        end_term(claim, now);
    } else if (tn_rows_is_wanted(claim)) {
        put(claim, now, &row);
    } else {
        rest(claim, now);
    }
}

/* The holder's next renewal conflicts and finds the mark; others wait for a TTL from this write,
 * which is a change to every observer. */
static void judge_revoke(struct tn_rows_claim *claim, tenure_ns now)
{
    struct tn_row row = claim->row;

    if (!row.held || (claim->asked != 0 && claim->asked != row.token)) {
        finish(claim, now, TN_ANSWER_STALE);
    } else if (row.revoked) {
        finish(claim, now, TN_ANSWER_OK);
    } else {
        row.revoked = true;
        put(claim, now, &row);
    }
}

/* Another process of this session holds it, by the same secrets: this one may renew from now on. */
static void judge_adoption(struct tn_rows_claim *claim, tenure_ns now)
{
    struct tn_rows *rows = claim->rows;
    const struct tn_row *row = &claim->row;

    if (!is_mine(claim) || row->revoked || row->token != claim->asked) {
        finish(claim, now, TN_ANSWER_GONE);
        return;
    }
    claim->held = true;
    claim->token = row->token;
    rows->ttl = row->ttl;
    memcpy(rows->id, row->owner, sizeof rows->id);
    finish(claim, now, TN_ANSWER_OK);
}

static void judge_read(struct tn_rows_claim *claim, tenure_ns now)
{
    enum tn_rows_whose whose = tn_rows_whose(claim->rows, claim->name, &claim->row);
    bool silent = whose == TN_ROWS_OTHERS && tn_rows_name_is_silent(claim->name, now);

    if (whose == TN_ROWS_STRAY)
        fail(claim, now);
    else
        finish(claim, now, claim->row.held && !silent ? TN_ANSWER_HELD : TN_ANSWER_FREE);
}

/* What is known of the row decides about the next step. @written: it is what we wrote ourselves. */
static void judge(struct tn_rows_claim *claim, tenure_ns now, bool written)
{
    switch (claim->goal) {
    case TN_ROWS_ACQUIRE:
        judge_acquire(claim, now, written);
        break;
    case TN_ROWS_RELEASE:
    case TN_ROWS_GIVE_BACK:
        judge_release(claim, now);
        break;
    case TN_ROWS_RENEW:
        judge_renewal(claim, now);
        break;
    case TN_ROWS_REVOKE:
        judge_revoke(claim, now);
        break;
    case TN_ROWS_READ:
        judge_read(claim, now);
        break;
    case TN_ROWS_ADOPT:
        judge_adoption(claim, now);
        break;
    case TN_ROWS_REST:
        break;
    }
}

void tn_rows_proceed(struct tn_rows_claim *claim, tenure_ns now)
{
    if (claim->request != 0)
        return; /* Its answer comes first. */
    if (claim->known)
        judge(claim, now, false);
    else
        get(claim, now);
}

bool tn_rows_is_free(const struct tn_rows_claim *claim)
{
    return claim->goal == TN_ROWS_REST || claim->goal == TN_ROWS_RENEW;
}

static void answer_shown(struct tn_rows_claim *claim, tenure_ns now)
{
    claim->row = claim->name->shown;
    memcpy(claim->version, claim->name->shown_version, sizeof claim->version);
    claim->known = false;
    finish(claim, now, TN_ANSWER_HELD);
    claim->row.label = NULL;
    claim->row.label_len = 0;
}

void tn_rows_start(struct tn_rows_claim *claim, tenure_ns now, const struct tn_op *op)
{
    static const enum tn_rows_goal goals[] = { [TN_OP_RENEW] = TN_ROWS_ADOPT,
                                               [TN_OP_ACQUIRE] = TN_ROWS_ACQUIRE,
                                               [TN_OP_RELEASE] = TN_ROWS_RELEASE,
                                               [TN_OP_READ] = TN_ROWS_READ,
                                               [TN_OP_REVOKE] = TN_ROWS_REVOKE };

    TN_ASSERT(tn_rows_is_free(claim));
    TN_ASSERT(op->kind <= TN_OP_REVOKE);
    claim->goal = goals[op->kind];
    TN_ASSERT(claim->goal != TN_ROWS_REST);
    claim->tries = 0;
    claim->asked = op->token;
    if (claim->goal == TN_ROWS_RELEASE) {
        if (op->token == 0 || op->token == claim->token)
            claim->held = false; /* No renewal waits for a row on its way out. */
        tn_rows_answer_renewals(claim->rows);
    } else if (claim->request == 0) {
        claim->known = false; /* What others may have written counts. */
    }
    if (claim->request == 0 && claim->goal == TN_ROWS_ACQUIRE &&
        tn_rows_name_shows_held(claim->name, now, claim->rows->has_sessions,
                                claim->rows->feed_trust, &claim->term))
        answer_shown(claim, now);
    else
        tn_rows_proceed(claim, now);
}

void tn_rows_look(struct tn_rows_claim *claim, tenure_ns now)
{
    if ((!claim->held && !claim->revoked) || claim->goal != TN_ROWS_REST)
        return; /* Or what is under way will show it. */
    claim->goal = TN_ROWS_RENEW;
    claim->known = false;
    tn_rows_proceed(claim, now);
}

/* --- The engine's answers --------------------------------------------------------------------- */

static void set_version(struct tn_rows_claim *claim, const char *version)
{
    memcpy(claim->version, version, tn_row_version_len(version) + 1);
    claim->known = true;
}

/* From here on the token is in the row, and so in every write after the one that minted it. A
 * holder knows its token better than a row that somebody has rewritten since. */
static void settle_token(struct tn_rows_claim *claim)
{
    struct tn_row *row = &claim->row;

    if (TN_PLANT(TOKEN_OF_RENEWAL) && claim->rows->mints)
        row->minted = row->held;
    if (TN_PLANT(TOKEN_OF_RENEWAL) && row->minted)
        row->token = tn_row_token(row, claim->version);
    else if (claim->rows->mints && claim->token != 0 && is_mine(claim))
        row->token = claim->token;
    else
        tn_rows_name_settle(claim->name, row, claim->version);
    row->minted = false;
}

void tn_rows_got(struct tn_rows_claim *claim, tenure_ns now, uint64_t request,
                 const struct tn_row *row, const char *version)
{
    if (!end_request(claim, request))
        return;
    claim->row = *row;
    set_version(claim, version);
    settle_token(claim);
    tn_rows_name_know(claim->name, now, version);
    bool others = row->held && !claim->rows->has_sessions &&
                  tn_rows_whose(claim->rows, claim->name, row) == TN_ROWS_OTHERS;
    tn_rows_name_observe(claim->name, claim->sent_at, now, others, &claim->row, version,
                         TN_PLANT(OWN_TTL) ? claim->rows->ttl : row->ttl);
    judge(claim, now, false);
    claim->row.label = NULL; /* It was lent for this call. */
    claim->row.label_len = 0;
}

void tn_rows_get_failed(struct tn_rows_claim *claim, tenure_ns now, uint64_t request)
{
    if (!end_request(claim, request))
        return;
    claim->known = false;
    if (claim->goal != TN_ROWS_REST)
        fail(claim, now);
}

/* A write did not go through, or nobody knows: the row has to be read. */
static void look_again(struct tn_rows_claim *claim, tenure_ns now)
{
    claim->known = false;
    if (claim->goal == TN_ROWS_REST)
        return;
    if (++claim->tries >= TRIES)
        fail(claim, now);
    else
        tn_rows_proceed(claim, now);
}

/* What the plants do instead of looking: once more, whatever the version is by now. */
static void write_blindly(struct tn_rows_claim *claim, tenure_ns now)
{
    struct tn_row row = claim->row;

    set_version(claim, "*");
    put(claim, now, &row);
}

/* Nobody has the row, and the engine keeps it back after the end of a session: ask again soon. */
static void wait_for_engine(struct tn_rows_claim *claim, tenure_ns now)
{
    struct tn_row none = { .token = claim->row.floor, .floor = claim->row.floor };

    claim->known = false;
    claim->row = none;
    claim->name->retry_at = now + claim->rows->ttl / RETRIES;
    if (claim->goal != TN_ROWS_REST)
        finish(claim, now, TN_ANSWER_HELD);
}

/* The engine refused a write for a session that it does not know. */
static void lose_session(struct tn_rows_claim *claim, tenure_ns now)
{
    claim->known = false;
    tn_rows_end_session(claim->rows);
    if (claim->goal == TN_ROWS_ACQUIRE)
        finish(claim, now, TN_ANSWER_GONE);
    else if (claim->goal != TN_ROWS_REST)
        look_again(claim, now);
}

void tn_rows_put_done(struct tn_rows_claim *claim, tenure_ns now, uint64_t request,
                      enum tn_rows_outcome outcome, const char *version)
{
    bool releasing = claim->goal == TN_ROWS_RELEASE;

    if (!end_request(claim, request))
        return;
    if (outcome == TN_ROWS_UNKNOWN && TN_PLANT(UNKNOWN_IS_WRITTEN)) {
        outcome = TN_ROWS_WRITTEN;
        version = "?";
    }
    if ((outcome == TN_ROWS_UNKNOWN && TN_PLANT(PUT_BLIND) && claim->goal != TN_ROWS_REST) ||
        (outcome == TN_ROWS_CONFLICT && TN_PLANT(RELEASE_BLIND) && releasing && !claim->row.held)) {
        write_blindly(claim, now);
        return;
    }
    switch (outcome) {
    case TN_ROWS_WRITTEN:
        set_version(claim, version);
        settle_token(claim);
        claim->covered = claim->sent_in;
        tn_rows_name_know(claim->name, now, version);
        tn_observer_init(&claim->name->observer);
        tn_rows_answer_renewals(claim->rows);
        judge(claim, now, true);
        break;
    case TN_ROWS_CONFLICT:
        look_again(claim, now);
        break;
    case TN_ROWS_FAILED:
        claim->known = false;
        if (claim->goal != TN_ROWS_REST)
            fail(claim, now);
        break;
    case TN_ROWS_UNKNOWN:
        claim->unsettled = true;
        if (claim->goal == TN_ROWS_RENEW) {
            claim->known = false;
            fail_renewal(claim, now);
        } else {
            look_again(claim, now);
        }
        break;
    case TN_ROWS_DELAYED:
        wait_for_engine(claim, now);
        break;
    case TN_ROWS_GONE:
        lose_session(claim, now);
        break;
    }
}

/* --- Time ------------------------------------------------------------------------------------- */

/* Nobody can take a row over as long as its session lives. So a holder that was told to give it
 * back and has not done so for a TTL, in which its deadline has passed, is relieved of it. */
static void give_back(struct tn_rows_claim *claim, tenure_ns now)
{
    if (!claim->rows->has_sessions || !claim->revoked || claim->goal != TN_ROWS_REST ||
        claim->request != 0 || now < claim->give_back_at)
        return;
    claim->goal = TN_ROWS_GIVE_BACK;
    claim->give_back_at = now + claim->rows->ttl / RETRIES; /* Should it fail. */
    claim->asked = 0;
    claim->known = false;
    tn_rows_proceed(claim, now);
}

void tn_rows_tick(struct tn_rows *rows, tenure_ns now)
{
    tn_rows_give_up_renewals(rows, now);
    for (struct tn_rows_claim *claim = rows->claims; claim != NULL; claim = claim->next) {
        give_back(claim, now);
        if (claim->give_up_at > now)
            continue;
        if (claim->putting)
            tn_rows_put_done(claim, now, claim->request, TN_ROWS_UNKNOWN, "");
        else
            tn_rows_get_failed(claim, now, claim->request);
    }
}

tenure_ns tn_rows_wake_at(const struct tn_rows *rows)
{
    tenure_ns at = TN_NEVER;

    for (const struct tn_rows_claim *claim = rows->claims; claim != NULL; claim = claim->next)
        if (claim->give_up_at < at)
            at = claim->give_up_at;
    for (const struct tn_rows_claim *claim = rows->claims; claim != NULL; claim = claim->next)
        if (rows->has_sessions && claim->revoked && claim->goal == TN_ROWS_REST &&
            claim->request == 0 && claim->give_back_at < at)
            at = claim->give_back_at;
    tenure_ns renewals_at = tn_rows_give_up_renewals_at(rows);
    return renewals_at < at ? renewals_at : at;
}
