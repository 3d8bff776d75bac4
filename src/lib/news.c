/* news.c - what the application hears of its elections: kept here, and handed out in order.
 *
 * What the core says becomes a bit in election->news, at most one for each kind of event, so that
 * an application which does not listen costs no memory. tn_lib_hand_out turns the bits into
 * callbacks in an order that keeps WON and LOST in turn. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "lib/private.h"

/* Callbacks in one tenure_dispatch, so that a loop of the application's gets its turn. */
#define DISPATCH_MOST 1000

/* --- The queue -------------------------------------------------------------------------------- */

static void add_news(struct tenure_election *election)
{
    if (election->news_node.next == NULL && election->life == TN_ELECTION_STANDS)
        tn_list_add(&election->tenure->news, &election->news_node);
}

static void set_news(struct tenure_election *election, enum tenure_event_kind kind)
{
    election->news |= (uint16_t)(1u << kind);
}

static void drop_news(struct tenure_election *election, enum tenure_event_kind kind)
{
    election->news &= (uint16_t) ~(1u << kind);
}

static bool has_news(const struct tenure_election *election, enum tenure_event_kind kind)
{
    return (election->news & 1u << kind) != 0;
}

/* --- What the core says ----------------------------------------------------------------------- */

static const uint8_t allowed[TN_TERM_STATE_COUNT] = {
    [TN_TERM_NONE] = 1 << TN_TERM_UNTOLD | 1 << TN_TERM_KNOWN,
    [TN_TERM_UNTOLD] = 1 << TN_TERM_KNOWN | 1 << TN_TERM_TAKEN_BACK | 1 << TN_TERM_NONE,
    [TN_TERM_KNOWN] = 1 << TN_TERM_KNOWN | 1 << TN_TERM_NONE,
    [TN_TERM_TAKEN_BACK] = 1 << TN_TERM_TAKEN_BACK | 1 << TN_TERM_UNTOLD | 1 << TN_TERM_KNOWN,
};

static void move_term(struct tenure_election *election, enum tn_term_state term)
{
    TN_ASSERT(allowed[election->term] & 1 << term);
    election->term = term;
}

/* The term is over, its token was read, and neither WON nor LOST was told yet. */
static bool is_untold(const struct tenure_election *election)
{
    return has_news(election, TENURE_LOST) && has_news(election, TENURE_WON) &&
           election->won_token == election->lost_token;
}

static void news_won(struct tenure_election *election, const struct tn_claim_action *action)
{
    /* An application that drained before WON and LOST of its last term were told hears neither. */
    if (is_untold(election))
        drop_news(election, TENURE_LOST);
    /* A term from the process before this one, confirmed: somebody works with it already. */
    bool again = election->term == TN_TERM_KNOWN && election->won_token == action->token;
    election->won_token = action->token;
    election->regressed = false;
    election->unheard = false;
    election->anxious = false;
    if (election->asker_state == TN_ASKER_OWES)
        election->asker_state = TN_ASKER_WORKS;
    /* Without a callback the application learns of the term from tenure_token, and may be at work
     * from now on. With the flag it counts only when somebody has read the token. */
    bool known = again || (election->callback == NULL && !election->drained_on_return);
    move_term(election, known ? TN_TERM_KNOWN : TN_TERM_UNTOLD);
    drop_news(election, TENURE_WON);
    if (election->callback != NULL)
        set_news(election, TENURE_WON);
    atomic_store(&election->seen, false);
    atomic_store_explicit(&election->token, action->token, memory_order_release);
    if (election->waiters > 0)
        (void)pthread_cond_broadcast(&election->tenure->returned);
}

/* True when the application knows nothing of the term: WON was not told, and nobody has read the
 * token. Then it has nothing to stop, and hears nothing. A reader marks the token as seen and looks
 * once more; here it is cleared before the look at the mark. So one of the two notices the other,
 * and nothing is given back while a reader may be at work (P5). What was taken back stays so: a
 * mark that comes later is of a reader that found the token cleared. */
static bool take_back_won(struct tenure_election *election)
{
    if (election->term == TN_TERM_KNOWN)
        return false;
    atomic_store(&election->token, 0);
    if (election->term != TN_TERM_TAKEN_BACK && atomic_load(&election->seen))
        return false;
    move_term(election, TN_TERM_TAKEN_BACK);
    drop_news(election, TENURE_WON);
    election->unheard = true;
    return true;
}

static void news_lost(struct tenure_election *election, const struct tn_claim_action *action)
{
    atomic_store_explicit(&election->token, 0, memory_order_release);
    drop_news(election, TENURE_JEOPARDY);
    drop_news(election, TENURE_SAFE);
    drop_news(election, TENURE_STOP);
    drop_news(election, TENURE_RENEWED);
    if (take_back_won(election))
        return;
    move_term(election, TN_TERM_NONE);
    if (has_news(election, TENURE_LOST)) { /* Of the term before: it stands for both. */
        drop_news(election, TENURE_WON);
        return;
    }
    set_news(election, TENURE_LOST);
    election->lost_token = action->token;
    election->lost_reason = (uint8_t)action->reason;
    election->lost_proven = action->proven;
}

/* A store that went back grants one token after the other until it has caught up. All of them are
 * refused, for one cause, so it is told once until there is a term again. */
static bool news_refused(struct tenure_election *election, const struct tn_claim_action *action)
{
    bool regressed = action->reason == TN_REASON_TOKEN_REGRESSED;

    if (regressed && election->regressed)
        return false;
    election->regressed = regressed;
    set_news(election, TENURE_REFUSED);
    election->refused_token = action->token;
    election->refused_seen = action->seen;
    election->refused_reason = (uint8_t)action->reason;
    return true;
}

static void news_drain(struct tenure_election *election, const struct tn_claim_action *action)
{
    if (!take_back_won(election))
        set_news(election, TENURE_STOP);
    if (election->callback == NULL) /* No event tells it to stop, so the token does. */
        atomic_store(&election->token, 0);
    election->stop_note = (uint8_t)action->note;
}

static void news_leader(struct tenure_election *election, const struct tn_claim_action *action)
{
    set_news(election, action->held ? TENURE_LEADER : TENURE_VACANT);
    drop_news(election, action->held ? TENURE_VACANT : TENURE_LEADER);
    election->leader_token = action->token;
    election->leader_mine = action->mine;
}

static void hear_claim(void *arg, struct tn_driver_seat *seat, const struct tn_claim_action *action)
{
    struct tenure_election *election = (struct tenure_election *)(void *)seat;
    struct tn_claim_action changed;

    (void)arg;
    if (election->level != 0) {
        tn_lib_rank_tell(election, action);
        return;
    }
    if (election->slot != NULL)
        election = tn_lib_slot_tell(election, &action, &changed);
    if (election == NULL)
        return;
    switch (action->kind) {
    case TN_CLAIM_DO_WON:
        news_won(election, action);
        break;
    case TN_CLAIM_DO_DRAIN:
        news_drain(election, action);
        break;
    case TN_CLAIM_DO_LOST:
        news_lost(election, action);
        break;
    case TN_CLAIM_DO_REFUSED:
        if (!news_refused(election, action))
            return;
        break;
    default:
        TN_ASSERT(action->kind == TN_CLAIM_DO_LEADER);
        news_leader(election, action);
    }
    add_news(election);
}

/* Jeopardy is the session's, so it is everyone's who leads. */
static void hear_session(void *arg, const struct tn_session_action *action)
{
    struct tenure *tenure = arg;
    bool safe = action->state == TN_SESSION_LIVE && action->from == TN_SESSION_JEOPARDY;

    if (!safe && action->state != TN_SESSION_JEOPARDY)
        return;
    for (struct tn_seat *seat = tenure->driver.candidate.seats; seat != NULL; seat = seat->next) {
        struct tenure_election *election = (struct tenure_election *)(void *)seat;
        if (atomic_load_explicit(&election->token, memory_order_relaxed) == 0)
            continue;
        /* SAFE is told only after a JEOPARDY that was; a JEOPARDY that ends untold is dropped. */
        drop_news(election, TENURE_JEOPARDY);
        drop_news(election, TENURE_SAFE);
        if (safe == election->anxious)
            set_news(election, safe ? TENURE_SAFE : TENURE_JEOPARDY);
        add_news(election);
    }
}

void tn_election_renewed(struct tenure_election *election)
{
    if (!election->tell_renewed ||
        atomic_load_explicit(&election->token, memory_order_relaxed) == 0)
        return;
    set_news(election, TENURE_RENEWED);
    add_news(election);
}

void tn_election_health(struct tenure_election *election)
{
    if (!election->tell_health)
        return;
    set_news(election, TENURE_HEALTH);
    add_news(election);
}

const struct tn_driver_host tn_lib_host = { hear_claim, hear_session, tn_lib_settle, tn_lib_raise,
                                            tn_election_dispose };

/* --- What the application hears --------------------------------------------------------------- */

/* Into tenure->regress: that the store went back, and what its operator can do. */
static const char *explain_regress(struct tenure *tenure, uint64_t seen)
{
    const struct tn_store *store = tenure->driver.store;
    const char *way = store != NULL ? store->ops->restored : NULL;
    struct tn_text text;

    tn_text_init(&text, tenure->regress, sizeof tenure->regress);
    tn_text_addf(&text,
                 "token %" PRIu64 " was seen before: the store went back (an old backup?). Put the "
                 "latest data back, or ",
                 seen);
    for (way = way != NULL ? way : "raise its counter"; *way != '\0'; way++) {
        if (*way == '%')
            tn_text_addf(&text, "%" PRIu64, seen);
        else if (*way == '#')
            tn_text_addf(&text, "%020" PRIu64, seen);
        else
            tn_text_add_bytes(&text, way, 1);
    }
    return tenure->regress;
}

static const char *note_word(enum tn_note_kind kind)
{
    switch (kind) {
    case TN_NOTE_HANDOVER:
        return "handover";
    case TN_NOTE_STAND_DOWN:
        return "stand-down";
    case TN_NOTE_DRAIN:
        return "drain";
    case TN_NOTE_YIELD:
        return "yield";
    case TN_NOTE_NONE:
        break;
    }
    return "";
}

/* In the order in which things happen, and the leader last. LOST comes first: if it is there, then
 * all else is of a later term, because who drains by itself need not wait to be told. Except for
 * WON of the same term. 0: there is nothing. */
static enum tenure_event_kind next_kind(const struct tenure_election *election)
{
    static const uint8_t order[] = { TENURE_REFUSED, TENURE_WON,     TENURE_JEOPARDY,
                                     TENURE_SAFE,    TENURE_RENEWED, TENURE_STOP,
                                     TENURE_HEALTH,  TENURE_LEADER,  TENURE_VACANT };

    if (has_news(election, TENURE_LOST) && !is_untold(election))
        return TENURE_LOST;
    for (size_t i = 0; i < sizeof order; i++)
        if (has_news(election, order[i]))
            return order[i];
    return 0;
}

/* The next thing to tell the callback; false: nothing. Lock held. */
static bool take_event(struct tenure_election *election, struct tenure_event *ret_event)
{
    struct tenure *tenure = election->tenure;
    enum tenure_event_kind kind = next_kind(election);

    *ret_event = (struct tenure_event) {
        .kind = kind, .token = election->won_token, .leader = "", .detail = ""
    };
    drop_news(election, kind);
    if (kind == TENURE_LOST) {
        ret_event->reason = (enum tenure_reason)election->lost_reason;
        ret_event->token = election->lost_token;
        ret_event->proven = election->lost_proven;
        if (tenure->driver.error != 0)
            ret_event->detail = tenure->driver.error_text;
    } else if (kind == TENURE_REFUSED) {
        ret_event->reason = (enum tenure_reason)election->refused_reason;
        ret_event->token = election->refused_token;
        if (ret_event->reason == TENURE_REASON_FENCE)
            ret_event->detail = tenure->fence_error;
        if (ret_event->reason == TENURE_REASON_TOKEN_REGRESSED)
            ret_event->detail = explain_regress(tenure, election->refused_seen);
    } else if (kind == TENURE_WON && election->term == TN_TERM_UNTOLD) {
        move_term(election, TN_TERM_KNOWN); /* Otherwise it is over already, and LOST follows. */
    } else if (kind == TENURE_JEOPARDY || kind == TENURE_SAFE) {
        election->anxious = kind == TENURE_JEOPARDY;
    } else if (kind == TENURE_STOP) {
        ret_event->detail = note_word((enum tn_note_kind)election->stop_note);
        if (election->stop_note != TN_NOTE_NONE)
            ret_event->reason = TENURE_REASON_ASKED;
    } else if (kind == TENURE_LEADER || kind == TENURE_VACANT) {
        ret_event->token = election->leader_token;
    }
    return kind != 0;
}

/* Lock held, but not while the callback runs. False: the election is gone, or this is a child that
 * the callback forked, where the lock may be anybody's. */
static bool call(struct tenure *tenure, struct tenure_election *election,
                 struct tenure_event *event)
{
    char leader[TENURE_ID_MAX + 1] = "", detail[TENURE_ERROR_TEXT];

    if (election->callback != NULL) {
        /* Copies, because without the lock the originals may change. */
        const struct tenure_election *other =
            election->slot != NULL ? election->slot->all->leader_of : NULL;
        const struct tn_driver_seat *of = other != NULL ? &other->seat : &election->seat;
        if (event->kind == TENURE_LEADER && of->leader_len > 0)
            memcpy(leader, of->leader, of->leader_len);
        (void)snprintf(detail, sizeof detail, "%s", event->detail);
        event->leader = leader;
        event->detail = detail;
        tenure->calling = election;
        tn_driver_unlock(&tenure->driver);
        election->callback(election, event, election->arg);
        if (!tn_lib_alive(tenure))
            return false;
        tn_driver_lock(&tenure->driver);
        tenure->calling = NULL;
        (void)pthread_cond_broadcast(&tenure->returned);
    }
    if (election->life != TN_ELECTION_STANDS) {
        if (election->life == TN_ELECTION_DISPOSED && !election->raising)
            tn_election_free(election);
        return false;
    }
    if (election->drained_on_return && !tenure->closing && event->token == election->won_token &&
        (event->kind == TENURE_STOP || event->kind == TENURE_LOST)) {
        if (election->callback != NULL || election->asker_state == TN_ASKER_WAITS)
            tn_election_wish(election, TN_CLAIM_EV_DRAINED);
        else /* Work may be under way: until the application calls tenure_wait. */
            election->asker_state = TN_ASKER_OWES;
    }
    return true;
}

int tn_lib_hand_out(struct tenure *tenure)
{
    struct tn_list_node *node;
    struct tenure_event event;
    int count = 0;

    while (count < DISPATCH_MOST && !tenure->closing &&
           (node = tn_list_take(&tenure->news)) != NULL) {
        struct tenure_election *election = TN_LIST_ENTRY(node, struct tenure_election, news_node);
        bool here = true;
        if (election->unheard) {
            tn_election_wish(election, TN_CLAIM_EV_DRAINED);
            election->unheard = false; /* Also if the wish was what ended the term. */
        }
        while (here && !tenure->closing && take_event(election, &event)) {
            here = call(tenure, election, &event);
            count++;
            if (!here && !tn_lib_alive(tenure))
                return TENURE_E_CLOSED;
        }
    }
    return count;
}
