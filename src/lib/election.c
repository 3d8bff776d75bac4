/* election.c - one name: what the core says of it, and what the application hears.
 *
 * The core's news become flags on the election, at most one of each kind, so that an application
 * which does not listen costs no memory. tenure_dispatch (tenure.c) turns the flags into callbacks
 * in an order that keeps WON and LOST in turn. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/name.h"
#include "lib/private.h"
#include "receivers/spec.h"

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

static void tell_won(struct tenure_election *election, const struct tn_claim_action *action)
{
    election->won_token = action->token;
    election->regressed = false;
    election->unheard = false;
    election->anxious = false;
    /* Who has no callback hears of it by tenure_token, and may be at work from now on. */
    election->heard = election->callback == NULL;
    election->won = !election->heard;
    atomic_store_explicit(&election->token, action->token, memory_order_release);
}

/* True when the application never heard of the term: it has nothing to stop, and hears nothing. */
static bool take_back_won(struct tenure_election *election)
{
    if (election->heard)
        return false;
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
    election->heard = false;
    election->lost = true;
    election->lost_token = action->token;
    election->lost_reason = (uint8_t)action->reason;
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

    (void)arg;
    switch (action->kind) {
    case TN_CLAIM_DO_WON:
        tell_won(election, action);
        break;
    case TN_CLAIM_DO_DRAIN:
        if (!take_back_won(election))
            election->stop = true;
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
        /* SAFE follows a JEOPARDY that was told, and what is over before it was told is not. */
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
    free(election->fences);
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

/* In the order in which things happen, and the leader last. LOST comes first: if it is there, then
 * all else is of a later term, because who drains by itself need not wait to be told. */
bool tn_election_next(struct tenure_election *election, struct tenure_event *ret_event)
{
    *ret_event = (struct tenure_event) { .token = election->won_token, .leader = "", .detail = "" };
    if (election->lost) {
        election->lost = false;
        ret_event->kind = TENURE_LOST;
        ret_event->reason = (enum tenure_reason)election->lost_reason;
        ret_event->token = election->lost_token;
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

static struct tenure_election *election_new(struct tenure *tenure, const char *name)
{
    size_t len = strlen(name);
    struct tenure_election *election = calloc(1, sizeof *election + len + 1);

    if (election == NULL)
        return NULL;
    memcpy(election->name, name, len);
    election->seat.name = election->name;
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
    wanted.fenced = campaign->fences != NULL && campaign->fences[0] != NULL;
    if (wanted.raise_timeout < 2 * wanted.attempt_timeout)
        wanted.raise_timeout = 2 * wanted.attempt_timeout;
    for (config = tenure->configs; config != NULL; config = config->next)
        if (config->claim.drain_timeout == wanted.drain_timeout &&
            config->claim.stall_after == wanted.stall_after &&
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
static int copy_fences(struct tenure_election *election, const char *const *fences)
{
    size_t count = 0, bytes = 0;
    char buf[TENURE_ERROR_TEXT];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    for (; fences != NULL && fences[count] != NULL; count++) {
        int rc = tn_fence_spec_check(fences[count], &text);
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
    if (config != NULL)
        rc = tn_driver_add(&tenure->driver, &election->seat, config);
    if (rc == 0) {
        tenure->listeners += election->tell_renewed || election->tell_health;
        *ret_election = election; /* Before the first callback can run. */
    }
    if (rc == 0 && campaign->flags & TENURE_NOT_READY)
        tn_driver_wish(&tenure->driver, &election->seat, TN_CLAIM_EV_NOT_READY);
    if (rc == 0)
        tn_driver_wish(&tenure->driver, &election->seat,
                       election->observes ? TN_CLAIM_EV_OBSERVE : TN_CLAIM_EV_CAMPAIGN);
    tn_driver_unlock(&tenure->driver);
    return rc;
}

static bool is_sound(const struct tenure *tenure, const struct tenure_campaign *campaign)
{
    unsigned known = TENURE_DRAINED_ON_RETURN | TENURE_NOT_READY | TENURE_TELL_RENEWED |
                     TENURE_TELL_HEALTH | TENURE_PATIENT;
    struct tn_plan plan = tenure->driver.plan;
    struct tn_plan_answer answer;

    if ((campaign->flags & ~known) != 0 || campaign->stall_after < 0 ||
        campaign->stall_after > TN_TTL_MAX || campaign->grace < 0 || campaign->grace > plan.ttl)
        return false;
    if (campaign->grace > 0)
        tn_plan_turn(&plan, TN_KNOB_GRACE, campaign->grace);
    return tn_plan_judge(&plan, &answer) == TN_PLAN_SAFE;
}

static int begin(struct tenure *tenure, const char *name, const struct tenure_campaign *campaign,
                 bool observes, struct tenure_election **ret_election)
{
    const char *reason;
    struct tenure_election *election;

    if (tenure == NULL || name == NULL || ret_election == NULL ||
        tn_name_check(name, strlen(name), &reason) != 0)
        return TENURE_E_INVALID;
    if (!tn_lib_alive(tenure))
        return TENURE_E_CLOSED;
    if (!is_sound(tenure, campaign))
        return TENURE_E_INVALID;
    election = election_new(tenure, name);
    if (election == NULL)
        return TENURE_E_NOMEM;
    election->callback = campaign->callback;
    election->arg = campaign->arg;
    election->observes = observes;
    election->drained_on_return = (campaign->flags & TENURE_DRAINED_ON_RETURN) != 0;
    election->tell_renewed = (campaign->flags & TENURE_TELL_RENEWED) != 0;
    election->tell_health = (campaign->flags & TENURE_TELL_HEALTH) != 0;
    int rc = copy_fences(election, campaign->fences);
    if (rc == 0)
        rc = take_seat(tenure, election, campaign, ret_election);
    if (rc < 0)
        tn_election_free(election);
    return rc;
}

int tenure_campaign(struct tenure *tenure, const char *name, const struct tenure_campaign *campaign,
                    struct tenure_election **ret_election)
{
    struct tenure_campaign known = { .size = sizeof known };

    if (campaign != NULL &&
        (campaign->size < sizeof campaign->size || campaign->size > sizeof known))
        return TENURE_E_INVALID;
    if (campaign != NULL)
        memcpy(&known, campaign, campaign->size);
    return begin(tenure, name, &known, false, ret_election);
}

int tenure_observe(struct tenure *tenure, const char *name, tenure_callback *callback, void *arg,
                   struct tenure_election **ret_election)
{
    struct tenure_campaign campaign = { .callback = callback, .arg = arg };

    return begin(tenure, name, &campaign, true, ret_election);
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
        tn_driver_wish(&tenure->driver, &election->seat, kind);
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
    tenure->listeners -= election->tell_renewed || election->tell_health;
    atomic_store_explicit(&election->token, 0, memory_order_release);
    tenure->waiting++;
    while (tenure->calling == election && !pthread_equal(tenure->dispatcher, pthread_self()))
        (void)pthread_cond_wait(&tenure->returned, &tenure->driver.lock);
    tenure->waiting--;
    (void)pthread_cond_broadcast(&tenure->returned);
    if (!tenure->closing) /* Otherwise the close takes it along. */
        tn_driver_leave(&tenure->driver, &election->seat);
    tn_driver_unlock(&tenure->driver);
}

const char *tenure_name(const struct tenure_election *election)
{
    return election->name;
}

/* --- Validity --------------------------------------------------------------------------------- */

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
            return token;
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
