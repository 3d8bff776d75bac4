/* line.c - our claim's place in an engine's order; line.h has the picture and the rules.
 *
 * Happy path: ACQUIRE creates the key, looks who is before it and watches that one. When it is
 * gone, the claim looks again; once its key is the first, it proves that the key is still its own,
 * and that is a grant. RELEASE removes the key.
 * What can fail: an answer may be missing, and a look then tells what became of the step; the key
 * may be gone, and the claim takes another place. Every answer first updates what is known of the
 * key, and then the goal judges it and decides about the next step. */
#include "core/line.h"

#include "base/assert.h"
#include "core/plant.h"

enum { TRIES = 8 }; /* Places lost one after the other before an acquire counts as failed. */

static void proceed(struct tn_line_claim *claim, tenure_ns now);

void tn_line_init(struct tn_line *line, const struct tn_line_host *host, void *arg,
                  const struct tn_line_engine *engine)
{
    *line = (struct tn_line) { .host = host, .arg = arg, .engine = *engine };
}

void tn_line_add(struct tn_line *line, struct tn_line_claim *claim, const void *name,
                 const struct tn_secret *term_hash)
{
    *claim = (struct tn_line_claim) {
        .line = line, .name = name, .term = *term_hash, .next = line->claims, .free_at = TN_NEVER
    };
    if (claim->next != NULL)
        claim->next->prev = claim;
    line->claims = claim;
}

void tn_line_remove(struct tn_line_claim *claim)
{
    if (claim->next != NULL)
        claim->next->prev = claim->prev;
    if (claim->prev != NULL)
        claim->prev->next = claim->next;
    else
        claim->line->claims = claim->next;
    claim->request = 0;
    claim->step = TN_LINE_NOTHING;
    claim->line->due -= claim->free_at != TN_NEVER;
}

bool tn_line_is_granted(const struct tn_line_claim *claim)
{
    return claim->place == TN_LINE_HELD || claim->place == TN_LINE_REVOKED;
}

bool tn_line_is_over(const struct tn_line_claim *claim)
{
    return claim->place == TN_LINE_LEFT || claim->place == TN_LINE_OVER;
}

bool tn_line_is_sure(const struct tn_line *line)
{
    for (const struct tn_line_claim *claim = line->claims; claim != NULL; claim = claim->next)
        if (claim->place == TN_LINE_HELD && claim->goal == TN_LINE_CHECK &&
            line->engine.hold_off == 0 && !TN_PLANT(UNWATCHED_RENEWED))
            return false;
    return true;
}

uint32_t tn_line_held(const struct tn_line *line)
{
    uint32_t held = 0;

    for (const struct tn_line_claim *claim = line->claims; claim != NULL; claim = claim->next)
        held += tn_line_is_granted(claim);
    return held;
}

/* --- Steps ------------------------------------------------------------------------------------ */

static void note_past(struct tn_line_claim *claim)
{
    if (claim->key.order > claim->past)
        claim->past = claim->key.order;
}

static void ask(struct tn_line_claim *claim, enum tn_line_step step)
{
    struct tn_line *line = claim->line;

    TN_ASSERT(claim->step == TN_LINE_NOTHING);
    claim->step = step;
    claim->request = ++line->requests;
    if (step == TN_LINE_REMOVE)
        note_past(claim);
    claim->fresh = (claim->proof == TN_LINE_UNSURE && !TN_PLANT(UNSURE_LAGS)) ||
                   claim->goal != TN_LINE_ACQUIRE;
    line->host->step(line->arg, claim, step, claim->request);
}

static bool end_request(struct tn_line_claim *claim, uint64_t request)
{
    if (request == 0 || request != claim->request)
        return false; /* Given up long ago. */
    claim->request = 0;
    claim->step = TN_LINE_NOTHING;
    return true;
}

static void finish(struct tn_line_claim *claim, enum tn_answer answer)
{
    struct tn_line_answer done = { .answer = answer };
    enum tn_line_goal goal = claim->goal;

    claim->goal = TN_LINE_REST;
    claim->tries = 0;
    claim->line->host->done(claim->line->arg, claim, goal, &done);
}

/* When the claim gives up its key by itself. */
static void set_free_at(struct tn_line_claim *claim, tenure_ns at)
{
    claim->line->due -= claim->free_at != TN_NEVER;
    claim->line->due += at != TN_NEVER;
    claim->free_at = at;
}

/* Our key is gone; a claim that led with it has ended, and one that waited has lost its place. */
static void lose_key(struct tn_line_claim *claim)
{
    bool led = tn_line_is_granted(claim);

    note_past(claim);
    claim->proof = TN_LINE_NO_KEY;
    claim->behind = false;
    set_free_at(claim, TN_NEVER);
    if (!led && claim->place != TN_LINE_OVER)
        claim->key.order = 0;
    if (led) {
        claim->place = TN_LINE_OVER;
        if (claim->goal != TN_LINE_RELEASE) { /* Otherwise we have removed it ourselves. */
            claim->line->revocations++;
            claim->line->host->news(claim->line->arg, claim, TN_LINE_TOLD_ENDED);
        }
    } else if (claim->place == TN_LINE_WAITING || claim->place == TN_LINE_BLOCKED) {
        claim->place = TN_LINE_OUT;
    }
}

static void revoke(struct tn_line_claim *claim, tenure_ns now)
{
    if (claim->place != TN_LINE_HELD)
        return;
    claim->place = TN_LINE_REVOKED;
    claim->revocation = ++claim->line->revocations;
    if (claim->line->engine.hold_off > 0)
        set_free_at(claim, now + claim->line->engine.hold_off);
    claim->line->host->news(claim->line->arg, claim, TN_LINE_TOLD_REVOKED);
}

/* --- ACQUIRE ---------------------------------------------------------------------------------- */

static void grant(struct tn_line_claim *claim)
{
    TN_ASSERT(claim->key.token != 0);
    if (claim->place != TN_LINE_REVOKED)
        claim->place = TN_LINE_HELD;
    finish(claim, claim->place == TN_LINE_HELD ? TN_ANSWER_GRANTED : TN_ANSWER_HELD);
}

/* Not our turn. */
static void end_waiting(struct tn_line_claim *claim)
{
    finish(claim, claim->waits ? TN_ANSWER_QUEUED : TN_ANSWER_HELD);
}

static bool is_over(const struct tn_line_claim *claim, const struct tn_secret *term)
{
    for (const struct tn_line_claim *each = claim->line->claims; each != NULL; each = each->next)
        if (each != claim && each->name == claim->name && tn_secret_equal(&each->term, term))
            return each->goal == TN_LINE_REST && tn_line_is_over(each);
    return false;
}

/* The only key that this session may have is another term's. If that term is over - its create
 * arrived after its release - the key goes; otherwise the claim waits until it is gone. */
static void judge_sibling(struct tn_line_claim *claim, const struct tn_line_view *view)
{
    claim->before = view->own.order;
    if (is_over(claim, &view->sibling)) {
        ask(claim, TN_LINE_CLEAR);
    } else if (claim->waits) {
        claim->place = TN_LINE_BLOCKED;
        ask(claim, TN_LINE_FOLLOW);
    } else {
        end_waiting(claim);
    }
}

static void judge_missing(struct tn_line_claim *claim, tenure_ns now,
                          const struct tn_line_view *view)
{
    if (claim->place == TN_LINE_OVER) {
        finish(claim, TN_ANSWER_STALE); /* It led until a moment ago: this term is over. */
    } else if (view->first == 0 || claim->waits) {
        claim->behind = true;
        proceed(claim, now);
    } else {
        finish(claim, TN_ANSWER_HELD);
    }
}

/* Our key is there. */
static void judge_place(struct tn_line_claim *claim, tenure_ns now, const struct tn_line_view *view)
{
    bool first = view->first == claim->key.order;

    if (view->first == 0) {
        ask(claim, TN_LINE_LOOK); /* The create told only of its own key. */
    } else if (first && view->changed && tn_line_is_granted(claim)) {
        revoke(claim, now);
        finish(claim, TN_ANSWER_HELD);
    } else if (first && view->changed) {
        ask(claim, TN_LINE_REMOVE); /* Revoked before it led: it takes another place. */
    } else if (first && (tn_line_is_granted(claim) || view->proved)) {
        grant(claim);
    } else if (first) {
        if (TN_PLANT(TOKEN_OF_REPLY) && claim->place != TN_LINE_WAITING)
            claim->key.token = view->revision;
        if (TN_PLANT(LINE_UNPROVED) && claim->key.token != 0)
            grant(claim);
        else
            ask(claim, TN_LINE_PROVE);
    } else if (!claim->waits && claim->place != TN_LINE_WAITING) {
        ask(claim, TN_LINE_REMOVE); /* It took a place only to see whether it is the first. */
    } else if (view->before == 0) {
        ask(claim, TN_LINE_LOOK);
    } else {
        claim->before = view->before;
        ask(claim, TN_LINE_FOLLOW);
    }
}

static void judge_acquire(struct tn_line_claim *claim, tenure_ns now,
                          const struct tn_line_view *view)
{
    if (claim->proof == TN_LINE_NAMED)
        ask(claim, TN_LINE_PROVE);
    else if (claim->proof == TN_LINE_OURS)
        judge_place(claim, now, view);
    else if (view->whose == TN_LINE_SIBLINGS && claim->place != TN_LINE_OVER)
        judge_sibling(claim, view);
    else
        judge_missing(claim, now, view);
}

static void proceed_acquire(struct tn_line_claim *claim)
{
    bool create = claim->proof == TN_LINE_NO_KEY &&
                  (claim->waits || claim->behind || claim->line->engine.atomic);

    claim->behind = claim->behind || claim->waits;
    if (TN_PLANT(CREATE_REPEATED) && claim->proof == TN_LINE_UNSURE)
        create = true;
    if (create && claim->tries++ >= TRIES) { /* The key is deleted again and again. */
        finish(claim, TN_ANSWER_HELD);
        return;
    }
    ask(claim, create ? TN_LINE_CREATE : TN_LINE_LOOK);
}

/* --- RELEASE ---------------------------------------------------------------------------------- */

/* Nothing of ours is in line any more. */
static void note_left(struct tn_line_claim *claim)
{
    claim->proof = TN_LINE_NO_KEY;
    claim->waits = false;
    claim->behind = false;
    set_free_at(claim, TN_NEVER);
    if (tn_line_is_granted(claim))
        claim->place = TN_LINE_OVER;
    else if (claim->place != TN_LINE_OVER)
        claim->place = TN_LINE_LEFT;
    if (claim->place == TN_LINE_LEFT)
        claim->key.order = 0;
}

static void end_release(struct tn_line_claim *claim)
{
    note_left(claim);
    finish(claim, TN_ANSWER_RELEASED);
}

/* P5: exactly the key that this claim created. */
static void remove_key(struct tn_line_claim *claim)
{
    if (TN_PLANT(RELEASE_FIRST))
        claim->key.order = 0; /* The engine of the simulator takes this for "the first". */
    ask(claim, TN_LINE_REMOVE);
}

enum tn_answer tn_line_judge_release(bool held, uint64_t token, uint64_t asked)
{
    if (asked == 0)
        return TN_ANSWER_RELEASED;
    if (asked != token)
        return TN_ANSWER_STALE;
    return held ? TN_ANSWER_DENIED : TN_ANSWER_RELEASED;
}

/* A claim without a key was asked to release. @token 0: to leave the line, whatever there was. */
static void refuse_release(struct tn_line_claim *claim)
{
    struct tn_line_answer done = { .answer = TN_ANSWER_STALE, .stranger = true };

    if (claim->place == TN_LINE_OVER) {
        end_release(claim);
        return;
    }
    if (claim->asked == 0) {
        note_left(claim);
        done.answer = TN_ANSWER_RELEASED;
    }
    claim->goal = TN_LINE_REST;
    claim->line->host->done(claim->line->arg, claim, TN_LINE_RELEASE, &done);
}

static bool is_asked(const struct tn_line_claim *claim)
{
    return claim->asked == 0 || claim->key.token == 0 || claim->asked == claim->key.token;
}

static void judge_release(struct tn_line_claim *claim, const struct tn_line_view *view)
{
    if (claim->proof == TN_LINE_NAMED) {
        ask(claim, TN_LINE_PROVE);
    } else if (claim->proof != TN_LINE_OURS) {
        refuse_release(claim);
    } else if (!is_asked(claim)) {
        finish(claim, TN_ANSWER_STALE);
    } else {
        if (view->first == claim->key.order && !tn_line_is_granted(claim))
            claim->place = TN_LINE_HELD; /* It led, whoever acquired it. */
        remove_key(claim);
    }
}

static void proceed_release(struct tn_line_claim *claim)
{
    if (claim->proof == TN_LINE_OURS && !is_asked(claim))
        finish(claim, TN_ANSWER_STALE);
    else if (claim->proof == TN_LINE_OURS)
        remove_key(claim);
    else if (claim->proof != TN_LINE_NO_KEY || claim->place == TN_LINE_OVER ||
             claim->line->engine.shared)
        ask(claim, TN_LINE_LOOK);
    else
        refuse_release(claim);
}

/* --- Goals ------------------------------------------------------------------------------------ */

static void proceed(struct tn_line_claim *claim, tenure_ns now)
{
    (void)now;
    if (claim->step != TN_LINE_NOTHING)
        return; /* Its answer comes first. */
    if (claim->goal == TN_LINE_ACQUIRE)
        proceed_acquire(claim);
    else if (claim->goal == TN_LINE_RELEASE)
        proceed_release(claim);
    else if (claim->goal == TN_LINE_CHECK)
        ask(claim, TN_LINE_LOOK);
}

/* A step that changes nothing need not be waited for. */
static void drop_reading(struct tn_line_claim *claim)
{
    if (claim->step == TN_LINE_LOOK || claim->step == TN_LINE_PROVE ||
        claim->step == TN_LINE_FOLLOW)
        (void)end_request(claim, claim->request);
}

void tn_line_acquire(struct tn_line_claim *claim, tenure_ns now, bool wait)
{
    struct tn_line_answer stale = { .answer = TN_ANSWER_STALE };
    struct tn_line_answer held = { .answer = TN_ANSWER_HELD };

    if (claim->goal == TN_LINE_RELEASE || claim->place == TN_LINE_OVER) {
        claim->line->host->done(claim->line->arg, claim, TN_LINE_ACQUIRE, &stale);
        return;
    }
    if (claim->place == TN_LINE_REVOKED) {
        claim->line->host->done(claim->line->arg, claim, TN_LINE_ACQUIRE, &held);
        return;
    }
    if (claim->place == TN_LINE_LEFT)
        claim->place = TN_LINE_OUT;
    claim->waits = claim->waits || wait;
    if (claim->goal == TN_LINE_ACQUIRE && claim->step != TN_LINE_NOTHING)
        return;
    claim->goal = TN_LINE_ACQUIRE;
    proceed(claim, now);
}

void tn_line_release(struct tn_line_claim *claim, tenure_ns now, uint64_t token)
{
    struct tn_line_answer done = { .answer = TN_ANSWER_STALE };
    bool known = claim->place == TN_LINE_OVER || tn_line_is_granted(claim);

    if (known && token != 0 && token != claim->key.token) {
        claim->line->host->done(claim->line->arg, claim, TN_LINE_RELEASE, &done);
        return;
    }
    /* The store has shown this token as ours, and we know of no key: a backup that was restored
     * may have brought it back, and nobody else may remove it. */
    if (token != 0 && (claim->place == TN_LINE_OUT || claim->place == TN_LINE_LEFT) &&
        claim->proof == TN_LINE_NO_KEY && !claim->line->engine.shared)
        claim->proof = TN_LINE_UNSURE;
    claim->asked = token;
    claim->goal = TN_LINE_RELEASE;
    set_free_at(claim, TN_NEVER);
    claim->tries = 0;
    drop_reading(claim);
    proceed(claim, now);
}

void tn_line_go_on(struct tn_line_claim *claim, tenure_ns now)
{
    bool in_line = claim->place == TN_LINE_WAITING || claim->place == TN_LINE_BLOCKED ||
                   (claim->place == TN_LINE_OUT && claim->proof != TN_LINE_NO_KEY);

    if (claim->goal == TN_LINE_REST && in_line && claim->waits)
        claim->goal = TN_LINE_ACQUIRE;
    proceed(claim, now);
}

void tn_line_give_up(struct tn_line_claim *claim)
{
    bool reading = claim->step != TN_LINE_CREATE && claim->step != TN_LINE_REMOVE;

    if (claim->goal == TN_LINE_REST || claim->goal == TN_LINE_CHECK || !reading)
        return;
    drop_reading(claim);
    claim->goal = TN_LINE_REST;
}

static void end_check(struct tn_line_claim *claim, tenure_ns now, const struct tn_line_view *view)
{
    claim->goal = TN_LINE_REST;
    if (claim->proof == TN_LINE_OURS && view->changed)
        revoke(claim, now);
}

/* --- What the engine lists -------------------------------------------------------------------- */

/* A key that bears our name is ours if it is the one that we know, or else, when we may have one,
 * the newest of them. */
static uint64_t find_own(uint64_t own, enum tn_line_proof proof, const struct tn_line_seen *keys,
                         size_t count)
{
    uint64_t found = 0;

    for (size_t i = 0; i < count; i++) {
        uint64_t order = keys[i].order;
        if (order == 0 || !keys[i].named)
            continue;
        if (order == own)
            return own;
        bool later = TN_PLANT(NAMED_OLDEST) && found != 0 ? order < found : order > found;
        if (proof != TN_LINE_NO_KEY && later)
            found = order;
    }
    return found;
}

void tn_line_find(uint64_t own, enum tn_line_proof proof, const struct tn_line_seen *keys,
                  size_t count, struct tn_line_view *ret_view)
{
    struct tn_line_view view = { .own.order = find_own(own, proof, keys, count) };

    view.whose = view.own.order != 0 ? TN_LINE_NAMED_MINE : TN_LINE_NOBODYS;
    for (size_t i = 0; i < count; i++) {
        uint64_t order = keys[i].order;
        if (order != 0 && (view.first == 0 || order < view.first))
            view.first = order;
        if (order < view.own.order && order > view.before)
            view.before = order;
    }
    *ret_view = view;
}

/* --- The engine's answers --------------------------------------------------------------------- */

static void note_view(struct tn_line_claim *claim, const struct tn_line_view *view)
{
    bool same = claim->proof == TN_LINE_OURS && claim->key.order == view->own.order;

    if (view->whose == TN_LINE_NOBODYS || view->whose == TN_LINE_SIBLINGS) {
        lose_key(claim);
        return;
    }
    if (!same && claim->key.order != 0 && claim->key.order != view->own.order)
        lose_key(claim); /* Another one of ours has taken its place. */
    /* The key of a term that is over comes back when the engine was restored from a backup. */
    if (same || (claim->place == TN_LINE_OVER && claim->key.order != view->own.order))
        return;
    claim->proof = view->whose == TN_LINE_MINE ? TN_LINE_OURS : TN_LINE_NAMED;
    claim->key = view->own;
}

void tn_line_saw(struct tn_line_claim *claim, tenure_ns now, uint64_t request,
                 const struct tn_line_view *view)
{
    bool behind = claim->behind;

    if (!end_request(claim, request))
        return;
    note_view(claim, view);
    claim->behind = behind && claim->proof == TN_LINE_NO_KEY && view->first == 0;
    if (claim->goal == TN_LINE_ACQUIRE)
        judge_acquire(claim, now, view);
    else if (claim->goal == TN_LINE_RELEASE)
        judge_release(claim, view);
    else if (claim->goal == TN_LINE_CHECK)
        end_check(claim, now, view);
}

void tn_line_proved(struct tn_line_claim *claim, tenure_ns now, uint64_t request,
                    const struct tn_line_proven *proven)
{
    bool named = claim->proof == TN_LINE_NAMED;
    bool ours = proven->ours || (proven->token != 0 && TN_PLANT(OLD_SESSION_KEY));

    if (!end_request(claim, request))
        return;
    if (!ours) {
        lose_key(claim);
        proceed(claim, now);
        return;
    }
    claim->proof = TN_LINE_OURS;
    if (!TN_PLANT(TOKEN_OF_REPLY) || claim->key.token == 0)
        claim->key.token = proven->token;
    if (claim->goal == TN_LINE_RELEASE || named)
        proceed(claim, now);
    else if (proven->changed && claim->goal == TN_LINE_ACQUIRE)
        ask(claim, TN_LINE_REMOVE);
    else if (claim->goal == TN_LINE_ACQUIRE)
        grant(claim);
}

void tn_line_followed(struct tn_line_claim *claim, tenure_ns now, uint64_t request, bool there)
{
    if (!end_request(claim, request))
        return;
    if (claim->goal != TN_LINE_ACQUIRE || !there) {
        proceed(claim, now); /* It is gone already: look again. */
        return;
    }
    if (claim->place != TN_LINE_BLOCKED)
        claim->place = TN_LINE_WAITING;
    end_waiting(claim);
}

void tn_line_removed(struct tn_line_claim *claim, tenure_ns now, uint64_t request)
{
    bool cleared = claim->step == TN_LINE_CLEAR;

    if (!end_request(claim, request))
        return;
    if (claim->goal == TN_LINE_RELEASE && !cleared) {
        end_release(claim);
        return;
    }
    if (!cleared)
        lose_key(claim);
    proceed(claim, now);
}

bool tn_line_failed(struct tn_line_claim *claim, uint64_t request, bool unknown)
{
    bool created = claim->step == TN_LINE_CREATE;

    if (!end_request(claim, request))
        return false;
    if (created && unknown)
        claim->proof = TN_LINE_UNSURE;
    return true;
}

/* --- The engine's news ------------------------------------------------------------------------ */

/* The key before ours is gone, or so it seems: where are we now? */
static void look_again(struct tn_line_claim *claim, tenure_ns now)
{
    if (claim->place != TN_LINE_WAITING && claim->place != TN_LINE_BLOCKED &&
        claim->step != TN_LINE_FOLLOW)
        return;
    if (claim->step == TN_LINE_FOLLOW)
        drop_reading(claim);
    if (claim->goal == TN_LINE_REST)
        claim->goal = TN_LINE_ACQUIRE;
    proceed(claim, now);
}

void tn_line_gone(struct tn_line_claim *claim, tenure_ns now, uint64_t order)
{
    if (order == 0 || (TN_PLANT(OLD_SESSION_KEY) && tn_line_is_granted(claim)))
        return;
    if (order == claim->key.order && tn_line_is_granted(claim)) {
        lose_key(claim);
        if (claim->goal == TN_LINE_RELEASE) {
            drop_reading(claim);
            proceed(claim, now);
        }
    } else if (order == claim->before && TN_PLANT(LINE_UNLOOKED) &&
               claim->place == TN_LINE_WAITING && claim->key.token != 0 &&
               claim->goal == TN_LINE_REST) {
        claim->goal = TN_LINE_ACQUIRE;
        grant(claim);
    } else if (order == claim->before || order == claim->key.order) {
        look_again(claim, now);
    }
}

void tn_line_unwatched(struct tn_line_claim *claim, tenure_ns now)
{
    if (tn_line_is_granted(claim) && claim->goal == TN_LINE_REST) {
        claim->goal = TN_LINE_CHECK;
        proceed(claim, now);
    } else {
        look_again(claim, now);
    }
}

void tn_line_changed(struct tn_line_claim *claim, tenure_ns now, uint64_t order)
{
    if (order == claim->key.order)
        revoke(claim, now);
}

bool tn_line_adopt(struct tn_line_claim *claim, tenure_ns now, const struct tn_line_key *key,
                   bool changed)
{
    if (claim->place != TN_LINE_OUT || claim->goal != TN_LINE_REST ||
        claim->step != TN_LINE_NOTHING)
        return false;
    if (key->order <= claim->past || key->order < claim->key.order)
        return false;
    claim->proof = TN_LINE_OURS;
    claim->key = *key;
    claim->place = TN_LINE_HELD;
    if (changed)
        revoke(claim, now);
    return true;
}

void tn_line_remind(const struct tn_line *line, uint64_t seen)
{
    for (struct tn_line_claim *claim = line->claims; claim != NULL && line->revocations > seen;
         claim = claim->next)
        if (claim->place == TN_LINE_REVOKED && claim->revocation > seen)
            line->host->news(line->arg, claim, TN_LINE_TOLD_REVOKED);
}

/* --- Time ------------------------------------------------------------------------------------- */

void tn_line_tick(struct tn_line *line, tenure_ns now)
{
    for (struct tn_line_claim *claim = line->claims, *next; claim != NULL && line->due > 0;
         claim = next) {
        next = claim->next;
        if (claim->free_at <= now)
            tn_line_release(claim, now, claim->key.token);
    }
}

tenure_ns tn_line_wake_at(const struct tn_line *line)
{
    tenure_ns at = TN_NEVER;

    for (const struct tn_line_claim *claim = line->due > 0 ? line->claims : NULL; claim != NULL;
         claim = claim->next)
        if (claim->free_at < at)
            at = claim->free_at;
    return at;
}
