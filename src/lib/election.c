/* election.c - one name: what the core says of it, and what the application hears.
 *
 * The core's news become flags on the election, at most one of each kind, so that an application
 * which does not listen costs no memory. tenure_dispatch (tenure.c) turns the flags into callbacks
 * in an order that keeps WON and LOST in turn. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/name.h"
#include "base/text.h"
#include "base/time.h"
#include "lib/private.h"
#include "receivers/spec.h"
#include "runtime/entry.h"
#include "runtime/note_name.h"

/* --- News ------------------------------------------------------------------------------------- */

static void add_news(struct tenure_election *election)
{
    struct tenure *tenure = election->tenure;

    if (election->has_news || election->left)
        return;
    election->has_news = true;
    election->news_next = NULL;
    *tenure->news_end = election;
    tenure->news_end = &election->news_next;
}

/* The term is over, its token was read, and neither WON nor LOST was told yet. */
static bool is_untold(const struct tenure_election *election)
{
    return election->lost && election->won && election->won_token == election->lost_token;
}

static void tell_won(struct tenure_election *election, const struct tn_claim_action *action)
{
    /* An application that drained before WON and LOST of its last term were told hears neither. */
    if (is_untold(election))
        election->lost = false;
    /* A term from the process before this one, confirmed: somebody works with it already. */
    bool again = election->heard && election->won_token == action->token;
    election->won_token = action->token;
    election->regressed = false;
    election->unheard = false;
    election->taken_back = false;
    election->anxious = false;
    election->owes_drained = false;
    /* Without a callback the application learns of the term from tenure_token, and may be at work
     * from now on. With the flag it counts only when somebody has read the token. */
    election->heard = again || (election->callback == NULL && !election->drained_on_return);
    election->won = election->callback != NULL;
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
    if (election->heard)
        return false;
    atomic_store(&election->token, 0);
    if (!election->taken_back && atomic_load(&election->seen))
        return false;
    election->taken_back = true;
    election->won = false;
    election->unheard = true;
    return true;
}

static void tell_lost(struct tenure_election *election, const struct tn_claim_action *action)
{
    atomic_store_explicit(&election->token, 0, memory_order_release);
    election->mood = 0;
    election->stop = false;
    election->renewed = false;
    if (take_back_won(election))
        return;
    if (election->lost) { /* Of the term before, and not told yet: it stands for both. */
        election->won = false;
        return;
    }
    election->heard = false;
    election->lost = true;
    election->lost_token = action->token;
    election->lost_reason = (uint8_t)action->reason;
    election->lost_proven = action->proven;
}

/* A store that went back grants one token after the other until it has caught up. All of them are
 * refused, for one cause, so it is told once until there is a term again. */
static bool tell_refused(struct tenure_election *election, const struct tn_claim_action *action)
{
    bool regressed = action->reason == TN_REASON_TOKEN_REGRESSED;

    if (regressed && election->regressed)
        return false;
    election->regressed = regressed;
    election->refused = true;
    election->refused_token = action->token;
    election->refused_seen = action->seen;
    election->refused_reason = (uint8_t)action->reason;
    return true;
}

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

static void tell(void *arg, struct tn_driver_seat *seat, const struct tn_claim_action *action)
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
        tell_won(election, action);
        break;
    case TN_CLAIM_DO_DRAIN:
        if (!take_back_won(election))
            election->stop = true;
        if (election->callback == NULL) /* No event tells it to stop, so the token does. */
            atomic_store(&election->token, 0);
        election->stop_note = (uint8_t)action->note;
        break;
    case TN_CLAIM_DO_LOST:
        tell_lost(election, action);
        break;
    case TN_CLAIM_DO_REFUSED:
        if (!tell_refused(election, action))
            return;
        break;
    default:
        TN_ASSERT(action->kind == TN_CLAIM_DO_LEADER);
        election->leader = true;
        election->leader_held = action->held;
        election->leader_token = action->token;
        election->leader_mine = action->mine;
    }
    add_news(election);
}

/* Jeopardy is the session's, so it is everyone's who leads. */
static void tell_session(void *arg, const struct tn_session_action *action)
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
        election->mood = safe == election->anxious ? safe ? TENURE_SAFE : TENURE_JEOPARDY : 0;
        add_news(election);
    }
}

void tn_election_renewed(struct tenure_election *election)
{
    if (!election->tell_renewed ||
        atomic_load_explicit(&election->token, memory_order_relaxed) == 0)
        return;
    election->renewed = true;
    add_news(election);
}

void tn_election_health(struct tenure_election *election)
{
    if (!election->tell_health)
        return;
    election->health = true;
    add_news(election);
}

void tn_election_free(struct tenure_election *election)
{
    if (election->slot != NULL)
        tn_lib_slot_free(election);
    if (election->rank != NULL)
        tn_lib_rank_free(election);
    free(election->fences);
    free(election->seat.soft);
    free(election);
}

/* Its own callback may be running, or its fences going up: then whoever does that frees it. */
static void dispose(void *arg, struct tn_driver_seat *seat)
{
    struct tenure *tenure = arg;
    struct tenure_election *election = (struct tenure_election *)(void *)seat;

    if (tenure->calling == election || election->raising)
        election->dispose_later = true;
    else
        tn_election_free(election);
}

const struct tn_driver_host tn_lib_host = { tell, tell_session, tn_lib_settle, tn_lib_raise,
                                            dispose };

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
 * WON of the same term. */
bool tn_election_next(struct tenure_election *election, struct tenure_event *ret_event)
{
    *ret_event = (struct tenure_event) { .token = election->won_token, .leader = "", .detail = "" };
    if (election->lost && !is_untold(election)) {
        election->lost = false;
        ret_event->kind = TENURE_LOST;
        ret_event->reason = (enum tenure_reason)election->lost_reason;
        ret_event->token = election->lost_token;
        ret_event->proven = election->lost_proven;
        if (election->tenure->driver.error != 0)
            ret_event->detail = election->tenure->driver.error_text;
    } else if (election->refused) {
        election->refused = false;
        ret_event->kind = TENURE_REFUSED;
        ret_event->reason = (enum tenure_reason)election->refused_reason;
        ret_event->token = election->refused_token;
        if (ret_event->reason == TENURE_REASON_FENCE)
            ret_event->detail = election->tenure->fence_error;
        if (ret_event->reason == TENURE_REASON_TOKEN_REGRESSED)
            ret_event->detail = explain_regress(election->tenure, election->refused_seen);
    } else if (election->won) {
        election->won = false;
        election->heard = true;
        ret_event->kind = TENURE_WON;
    } else if (election->mood != 0) {
        ret_event->kind = (enum tenure_event_kind)election->mood;
        election->anxious = election->mood == TENURE_JEOPARDY;
        election->mood = 0;
    } else if (election->renewed) {
        election->renewed = false;
        ret_event->kind = TENURE_RENEWED;
    } else if (election->stop) {
        election->stop = false;
        ret_event->kind = TENURE_STOP;
        ret_event->detail = note_word((enum tn_note_kind)election->stop_note);
        if (election->stop_note != TN_NOTE_NONE)
            ret_event->reason = TENURE_REASON_ASKED;
    } else if (election->health) {
        election->health = false;
        ret_event->kind = TENURE_HEALTH;
    } else if (election->leader) {
        election->leader = false;
        ret_event->kind = election->leader_held ? TENURE_LEADER : TENURE_VACANT;
        ret_event->token = election->leader_token;
    } else {
        return false;
    }
    return true;
}

/* --- Campaigns -------------------------------------------------------------------------------- */

/* @seat_name: the name that is asked for in the store; for all but slots, @name. */
static struct tenure_election *election_new(struct tenure *tenure, const char *name,
                                            const char *seat_name)
{
    size_t len = strlen(name) + 1;
    size_t seat_len = seat_name == name ? 0 : strlen(seat_name) + 1;
    struct tenure_election *election = calloc(1, sizeof *election + len + seat_len);

    if (election == NULL)
        return NULL;
    memcpy(election->name, name, len);
    election->seat.name = election->name;
    if (seat_len > 0)
        election->seat.name = memcpy(election->name + len, seat_name, seat_len);
    election->tenure = tenure;
    return election;
}

/* The settings for these numbers, shared with every election that has the same. */
static const struct tn_claim_config *find_config(struct tenure *tenure,
                                                 const struct tenure_campaign *campaign)
{
    struct tn_claim_config wanted = tenure->driver.config;
    struct tn_lib_config *config;

    if (campaign->grace > 0)
        wanted.drain_timeout = campaign->grace;
    if (campaign->flags & TENURE_PATIENT)
        wanted.drain_timeout = TN_TTL_MAX;
    wanted.stall_after = campaign->stall_after;
    wanted.soft = campaign->soft_limit;
    wanted.fenced = campaign->fences != NULL && campaign->fences[0] != NULL;
    if (wanted.raise_timeout < 2 * wanted.attempt_timeout)
        wanted.raise_timeout = 2 * wanted.attempt_timeout;
    for (config = tenure->configs; config != NULL; config = config->next)
        if (config->claim.drain_timeout == wanted.drain_timeout &&
            config->claim.stall_after == wanted.stall_after && config->claim.soft == wanted.soft &&
            config->claim.fenced == wanted.fenced)
            return &config->claim;
    config = malloc(sizeof *config);
    if (config == NULL)
        return NULL;
    *config = (struct tn_lib_config) { .claim = wanted, .next = tenure->configs };
    tenure->configs = config;
    return &config->claim;
}

/* All in one block: the pointers, then the texts. */
static int copy_fences(struct tenure_election *election, const char *const *fences,
                       struct tn_text *reterr)
{
    size_t count = 0, bytes = 0;

    for (; fences != NULL && fences[count] != NULL; count++) {
        int rc = tn_fence_spec_check(fences[count], reterr);
        if (rc < 0)
            return rc;
        bytes += strlen(fences[count]) + 1;
    }
    if (count == 0)
        return 0;
    election->fences = malloc((count + 1) * sizeof *election->fences + bytes);
    if (election->fences == NULL)
        return TENURE_E_NOMEM;
    char *to = (char *)(election->fences + count + 1);
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(fences[i]) + 1;
        election->fences[i] = memcpy(to, fences[i], len);
        to += len;
    }
    election->fences[count] = NULL;
    return 0;
}

void tn_election_wish(struct tenure_election *election, enum tn_claim_event_kind wish)
{
    if (election->slot != NULL)
        tn_lib_slot_wish(election, wish);
    else
        tn_driver_wish(&election->tenure->driver, &election->seat, wish);
}

static int take_seat(struct tenure *tenure, struct tenure_election *election,
                     const struct tenure_campaign *campaign, struct tenure_election **ret_election)
{
    const struct tn_claim_config *config = NULL;
    int rc = TENURE_E_NOMEM;

    tn_driver_lock(&tenure->driver);
    if (tenure->closing)
        rc = TENURE_E_CLOSED;
    else
        config = find_config(tenure, campaign);
    if (config != NULL && election->slot != NULL)
        rc = tn_lib_slots_add(tenure, election->slot->all, config);
    else if (config != NULL)
        rc = tn_driver_add(&tenure->driver, &election->seat, config);
    if (rc == 0 && tenure->past != NULL) {
        uint32_t place = (uint32_t)(tenure->past - tenure->ledger.past) + 1;
        tn_driver_resume(&election->seat, tenure->past, place, tenure->past_token);
        election->won_token = tenure->past_token;
        election->heard = tenure->past_token > 0; /* In the process before this one. */
    }
    if (rc == 0 && election->rank != NULL)
        rc = tn_lib_rank_add(tenure, election->rank);
    if (rc == 0) {
        tenure->listeners += election->tell_renewed || election->tell_health;
        *ret_election = election; /* Before the first callback can run. */
    }
    if (rc == 0 && campaign->flags & TENURE_NOT_READY)
        tn_election_wish(election, TN_CLAIM_EV_NOT_READY);
    if (rc == 0)
        tn_election_wish(election, election->observes ? TN_CLAIM_EV_OBSERVE : TN_CLAIM_EV_CAMPAIGN);
    tn_driver_unlock(&tenure->driver);
    return rc;
}

/* Priorities rest on the order of a line that the store keeps. */
static bool keeps_line(const struct tenure *tenure, struct tn_text *reterr)
{
    const struct tn_store_ops *ops = tenure->driver.store->ops;

    if (tn_store_keeps_line(ops))
        return true;
    tn_text_addf(reterr,
                 "%s: keeps no line of those who wait, so none can be put first; leave the "
                 "priority out, or hand over to the candidate that is to lead",
                 ops->scheme);
    return false;
}

static const char bad_options[] =
    "the options are not of this version: wrong size, or unknown flags";

static int check_campaign(const struct tenure *tenure, const struct tenure_campaign *campaign,
                          struct tn_text *reterr)
{
    unsigned known = TENURE_DRAINED_ON_RETURN | TENURE_NOT_READY | TENURE_TELL_RENEWED |
                     TENURE_TELL_HEALTH | TENURE_PATIENT | TENURE_YIELD;
    struct tn_plan plan = tenure->driver.plan;

    if ((campaign->flags & ~known) != 0)
        tn_text_add(reterr, bad_options);
    else if (campaign->stall_after < 0 || campaign->stall_after > TN_TTL_MAX)
        tn_text_add(reterr, "stall_after is out of range: 0 to 24 h");
    else if (campaign->soft_limit < 0 || campaign->soft_limit > TN_TTL_MAX)
        tn_text_add(reterr, "soft_limit is out of range: 0 to the TTL");
    else if (campaign->grace < 0 || campaign->grace > plan.ttl)
        tn_text_add(reterr, "the grace is out of range: 0 to the TTL");
    else if (campaign->slots > TN_SLOTS_MAX)
        tn_text_addf(reterr, "slots is out of range: at most %d", TN_SLOTS_MAX);
    else if (campaign->slots > 1 && campaign->fences != NULL && campaign->fences[0] != NULL)
        tn_text_add(reterr, "a fence admits the highest token only, so a semaphore has none");
    else if (campaign->priority > TN_RANK_MAX)
        tn_text_addf(reterr, "the priority is out of range: 1 to %d", TN_RANK_MAX);
    else if (campaign->priority > 0 && campaign->slots > 1)
        tn_text_add(reterr, "a priority is for one leader, so a semaphore has none");
    else if ((campaign->flags & TENURE_YIELD) != 0 && campaign->priority == 0)
        tn_text_add(reterr, "only a candidate with a priority can yield to a higher one");
    else if (campaign->priority > 0 && !keeps_line(tenure, reterr))
        return TENURE_E_UNSUPPORTED;
    if (reterr->len > 0)
        return TENURE_E_INVALID;
    if (campaign->grace > 0)
        tn_plan_turn(&plan, TN_KNOB_GRACE, campaign->grace);
    int rc = tn_lib_soft_check(&plan, tenure->driver.store->ops->caps,
                               tenure->driver.store->ops->scheme, campaign, reterr);
    return rc < 0 ? rc : tn_entry_plan(&plan, reterr);
}

int tn_lib_check_name(const char *name, struct tn_text *reterr)
{
    const char *reason = "it is NULL";

    if (name != NULL && tn_name_check(name, strlen(name), &reason) == 0)
        return 0;
    tn_text_add(reterr, "'");
    tn_text_escape(reterr, name != NULL ? name : "", name != NULL ? strnlen(name, 80) : 0);
    tn_text_addf(reterr, "' is not a name: %s", reason);
    return TENURE_E_INVALID;
}

static int check_free(const char *name, const struct tenure_campaign *campaign,
                      struct tn_text *reterr)
{
    uint32_t slots = campaign->slots;
    char slot[TN_NAME_MAX + 1];

    if (tn_name_is_reserved(name))
        tn_text_add(reterr, "names below " TN_NOTE_PREFIX " are reserved for operators");
    else if (tn_name_is_slot(name))
        tn_text_add(reterr,
                    "a name that ends like '/~1' is a slot of a semaphore: campaign for the "
                    "name before it, with slots");
    else if (slots > 1 && !tn_slot_name(name, slots, slot))
        tn_text_add(reterr, "the name is too long for a semaphore");
    else if (campaign->priority > 0 && !tn_rank_name(name, TN_RANK_MAX, slot))
        tn_text_add(reterr, "the name is too long for a priority");
    return reterr->len > 0 ? TENURE_E_INVALID : 0;
}

/* The elections of all slots; the first one is returned. NULL: out of memory. */
static struct tenure_election *semaphore_new(struct tenure *tenure, const char *name,
                                             uint32_t count)
{
    struct tn_lib_slots *slots = calloc(1, sizeof *slots);
    uint32_t first = tenure->driver.secret.bytes[0]; /* Each process begins elsewhere. */
    char slot[TN_NAME_MAX + 1];

    if (slots == NULL)
        return NULL;
    tn_slots_init(&slots->core, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = 1 + (first + i) % count;
        (void)tn_slot_name(name, number, slot); /* check_free has tried the longest. */
        struct tenure_election *election = election_new(tenure, name, slot);
        if (election == NULL) {
            for (uint32_t j = 0; j < i; j++)
                free(slots->list[j].election);
            free(slots);
            return NULL;
        }
        slots->list[i] = (struct tn_lib_slot) {
            .all = slots, .election = election, .index = i, .number = number, .open = true
        }; /* A claim begins as ready. */
        election->slot = &slots->list[i];
        slots->members++;
    }
    return slots->list[0].election;
}

/* The elections that show who waits. */
static int add_rank(struct tenure_election *election, const struct tenure_campaign *campaign)
{
    struct tn_lib_rank *rank = calloc(1, sizeof *rank);
    char name[TN_NAME_MAX + 1];

    if (rank == NULL)
        return TENURE_E_NOMEM;
    rank->core.level = (uint8_t)campaign->priority;
    rank->core.yields = (campaign->flags & TENURE_YIELD) != 0;
    rank->election = election;
    rank->members = 1;
    election->rank = rank;
    for (uint32_t level = campaign->priority; level <= TN_RANK_MAX; level++) {
        (void)tn_rank_name(election->name, level, name); /* check_free has tried it. */
        struct tenure_election *shows = election_new(election->tenure, name, name);
        if (shows == NULL)
            return TENURE_E_NOMEM;
        shows->rank = rank;
        shows->level = level & 15u;
        shows->observes = level > campaign->priority;
        rank->list[rank->count++] = shows;
        rank->members++;
    }
    return 0;
}

/* What take_seat did not take. */
static void free_all(struct tenure_election *election)
{
    struct tn_lib_slots *slots = election->slot != NULL ? election->slot->all : NULL;

    for (uint32_t i = election->rank != NULL ? election->rank->count : 0; i > 0; i--)
        tn_election_free(election->rank->list[i - 1]);

    for (uint32_t i = slots != NULL ? slots->core.count : 0; i > 1; i--)
        tn_election_free(slots->list[i - 1].election);
    tn_election_free(election);
}

static int begin(struct tenure *tenure, const char *name, const struct tenure_campaign *campaign,
                 bool observes, struct tenure_election **ret_election, struct tn_text *reterr)
{
    struct tenure_election *election;

    if (tenure == NULL || ret_election == NULL)
        return TENURE_E_INVALID;
    int rc = tn_lib_check_name(name, reterr);
    if (rc == 0 && !observes)
        rc = check_free(name, campaign, reterr);
    if (rc == 0 && !tn_lib_alive(tenure))
        rc = TENURE_E_CLOSED;
    if (rc == 0)
        rc = check_campaign(tenure, campaign, reterr);
    if (rc < 0)
        return rc;
    election = campaign->slots > 1 ? semaphore_new(tenure, name, campaign->slots)
                                   : election_new(tenure, name, name);
    if (election == NULL)
        return TENURE_E_NOMEM;
    election->callback = campaign->callback;
    election->arg = campaign->arg;
    election->observes = observes;
    election->drained_on_return = (campaign->flags & TENURE_DRAINED_ON_RETURN) != 0;
    election->tell_renewed = (campaign->flags & TENURE_TELL_RENEWED) != 0;
    election->tell_health = (campaign->flags & TENURE_TELL_HEALTH) != 0;
    rc = copy_fences(election, campaign->fences, reterr);
    if (rc == 0 && campaign->soft_limit > 0)
        rc = tn_lib_soft_make(name, campaign->soft_limit, election->fences, &election->seat.soft,
                              reterr);
    if (rc == 0 && campaign->priority > 0)
        rc = add_rank(election, campaign);
    if (rc == 0)
        rc = take_seat(tenure, election, campaign, ret_election);
    if (rc < 0)
        free_all(election);
    return rc;
}

int tenure_campaign_start(struct tenure *tenure, const char *name,
                          const struct tenure_campaign *options,
                          struct tenure_election **ret_election, struct tenure_error *reterr)
{
    struct tenure_campaign known = { .size = sizeof known };
    char buf[TENURE_ERROR_TEXT] = "";
    struct tn_text text;

    if (options != NULL && (options->size < sizeof options->size || options->size > sizeof known))
        return tn_lib_fail(TENURE_E_INVALID, bad_options, reterr);
    if (options != NULL)
        memcpy(&known, options, options->size);
    tn_text_init(&text, buf, sizeof buf);
    int rc = begin(tenure, name, &known, false, ret_election, &text);
    tn_text_cut(&text);
    return tn_lib_fail(rc, buf, reterr);
}

int tenure_campaign(struct tenure *tenure, const char *name, const struct tenure_campaign *campaign,
                    struct tenure_election **ret_election)
{
    return tenure_campaign_start(tenure, name, campaign, ret_election, NULL);
}

int tenure_observe_start(struct tenure *tenure, const char *name, tenure_callback *callback,
                         void *arg, struct tenure_election **ret_election,
                         struct tenure_error *reterr)
{
    struct tenure_campaign campaign = { .callback = callback, .arg = arg };
    char buf[TENURE_ERROR_TEXT] = "";
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    int rc = begin(tenure, name, &campaign, true, ret_election, &text);
    tn_text_cut(&text);
    return tn_lib_fail(rc, buf, reterr);
}

int tenure_observe(struct tenure *tenure, const char *name, tenure_callback *callback, void *arg,
                   struct tenure_election **ret_election)
{
    return tenure_observe_start(tenure, name, callback, arg, ret_election, NULL);
}

static int wish(struct tenure_election *election, enum tn_claim_event_kind kind)
{
    struct tenure *tenure = election->tenure;
    int rc = 0;

    if (!tn_lib_alive(tenure))
        return TENURE_E_CLOSED;
    tn_driver_lock(&tenure->driver);
    if (election->left || tenure->closing)
        rc = TENURE_E_CLOSED;
    else if (!election->observes)
        tn_election_wish(election, kind);
    tn_driver_unlock(&tenure->driver);
    return rc;
}

int tenure_resign(struct tenure_election *election)
{
    return wish(election, TN_CLAIM_EV_RESIGN);
}

int tenure_stand(struct tenure_election *election)
{
    return wish(election, TN_CLAIM_EV_CAMPAIGN);
}

int tenure_drained(struct tenure_election *election)
{
    return wish(election, TN_CLAIM_EV_DRAINED);
}

int tenure_ready(struct tenure_election *election, bool ready)
{
    return wish(election, ready ? TN_CLAIM_EV_READY : TN_CLAIM_EV_NOT_READY);
}

int tenure_check_in(struct tenure_election *election)
{
    return wish(election, TN_CLAIM_EV_CHECK_IN);
}

static void drop_news(struct tenure_election *election)
{
    struct tenure *tenure = election->tenure;
    struct tenure_election **place = &tenure->news;

    if (!election->has_news)
        return;
    while (*place != election)
        place = &(*place)->news_next;
    *place = election->news_next;
    if (tenure->news_end == &election->news_next)
        tenure->news_end = place;
    election->has_news = false;
}

void tenure_leave(struct tenure_election *election)
{
    if (election == NULL || !tn_lib_alive(election->tenure))
        return;
    struct tenure *tenure = election->tenure;
    tn_driver_lock(&tenure->driver);
    drop_news(election);
    election->left = true;
    (void)pthread_cond_broadcast(&tenure->returned); /* For those in tenure_wait. */
    tenure->listeners -= election->tell_renewed || election->tell_health;
    atomic_store_explicit(&election->token, 0, memory_order_release);
    tenure->waiting++;
    while (election->waiters > 0 ||
           (tenure->calling == election && !pthread_equal(tenure->dispatcher, pthread_self())))
        (void)pthread_cond_wait(&tenure->returned, &tenure->driver.lock);
    tenure->waiting--;
    (void)pthread_cond_broadcast(&tenure->returned);
    if (!tenure->closing && election->rank != NULL)
        tn_lib_rank_leave(election->rank);
    if (!tenure->closing && election->slot != NULL) /* Otherwise the close takes it along. */
        tn_lib_slots_leave(election->slot->all);
    else if (!tenure->closing)
        tn_driver_leave(&tenure->driver, &election->seat);
    tn_driver_unlock(&tenure->driver);
}

void tn_lib_wait_until(struct tenure *tenure, tenure_ns end)
{
    struct timespec at;

    if (end == TN_NEVER) {
        (void)pthread_cond_wait(&tenure->returned, &tenure->driver.lock);
        return;
    }
    tenure_ns left = end - tn_boottime();
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    tenure_ns nsec = at.tv_nsec + left % TN_SEC(1);
    at.tv_sec += (time_t)(left / TN_SEC(1) + nsec / TN_SEC(1));
    at.tv_nsec = (long)(nsec % TN_SEC(1));
    (void)pthread_cond_timedwait(&tenure->returned, &tenure->driver.lock, &at);
}

/* With TENURE_DRAINED_ON_RETURN and no callback, the thread that asks for a term has finished with
 * the one before. It is one thread: another one cannot speak for it. */
static int enter_wait(struct tenure_election *election)
{
    struct tenure *tenure = election->tenure;
    int rc = 0;

    tn_driver_lock(&tenure->driver);
    if (election->asker != 0 && election->asker != gettid()) {
        rc = TENURE_E_INVALID;
    } else {
        election->between_terms = true;
        election->asker = gettid();
        if (election->owes_drained && !election->left && !tenure->closing)
            tn_election_wish(election, TN_CLAIM_EV_DRAINED);
        election->owes_drained = false;
    }
    tn_driver_unlock(&tenure->driver);
    return rc;
}

int tenure_wait(struct tenure_election *election, tenure_ns timeout, uint64_t *ret_token)
{
    if (election == NULL || ret_token == NULL)
        return TENURE_E_INVALID;
    struct tenure *tenure = election->tenure;
    tenure_ns begin_at = tn_boottime();
    bool forever = timeout < 0 || timeout >= TN_NEVER - begin_at;
    tenure_ns end = forever ? TN_NEVER : begin_at + timeout;
    uint64_t token = 0;
    int rc = 0;

    if (!tn_lib_alive(tenure))
        return TENURE_E_CLOSED;
    if (election->observes)
        return TENURE_E_INVALID;
    if (election->callback == NULL && election->drained_on_return)
        rc = enter_wait(election);
    if (rc < 0)
        return rc;
    tn_driver_lock(&tenure->driver);
    tenure->waiting++;
    election->waiters++;
    for (;;) {
        token = tenure_token(election);
        if (election->left || tenure->closing)
            rc = TENURE_E_CLOSED;
        else if (token == 0 && tn_boottime() >= end)
            rc = TENURE_E_TIMEOUT;
        if (rc < 0 || token != 0)
            break;
        tn_lib_wait_until(tenure, end);
    }
    election->waiters--;
    election->between_terms = false;
    tenure->waiting--;
    (void)pthread_cond_broadcast(&tenure->returned);
    tn_driver_unlock(&tenure->driver);
    if (rc == 0)
        *ret_token = token;
    return rc;
}

const char *tenure_name(const struct tenure_election *election)
{
    return election->name;
}

/* --- Validity --------------------------------------------------------------------------------- */

/* Whether @token is still the election's. From now on it counts as heard. The second look at the
 * token is needed also when it is marked: the mark may be of another reader that came too late. */
static bool mark_seen(const struct tenure_election *election, uint64_t token)
{
    atomic_bool *seen = (atomic_bool *)&election->seen;

    if (!atomic_load(seen))
        atomic_store(seen, true);
    return atomic_load(&election->token) == token;
}

uint64_t tenure_token(const struct tenure_election *election)
{
    if (election == NULL)
        return 0;
    struct tn_shared *shared = election->tenure->shared;
    tenure_ns deadline;
    uint64_t token;
    do {
        deadline = atomic_load_explicit(&shared->deadline, memory_order_acquire);
        token = atomic_load_explicit(&election->token, memory_order_acquire);
        if (deadline == 0 || token == 0)
            return 0;
        if (tn_boottime() < deadline)
            return mark_seen(election, token) ? token : 0;
        /* Whoever saw it pass sees it so for ever: an extension on its way comes too late (P6). But
         * one that came since it was read was in time: then look again, or the next call would take
         * this one's 0 back. */
    } while (!atomic_compare_exchange_strong(&shared->deadline, &deadline, 0));
    return 0;
}

tenure_ns tenure_deadline(const struct tenure_election *election)
{
    if (election == NULL)
        return 0;
    struct tn_shared *shared = election->tenure->shared;
    tenure_ns deadline = atomic_load_explicit(&shared->deadline, memory_order_acquire);

    return tenure_token(election) != 0 ? deadline : 0;
}
