/* campaign.c - tenure_campaign_start and tenure_observe_start: checks what is asked for, then makes
 * the election, its slots or the elections that show its priority, and lets it stand.
 *
 * What can fail: options that do not go together, a plan whose numbers do not fit, memory; then
 * nothing is left of it. */
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "base/text.h"
#include "lib/private.h"
#include "receivers/spec.h"
#include "runtime/entry.h"
#include "runtime/note_name.h"

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
        if (tenure->past_token > 0)
            election->term = TN_TERM_KNOWN; /* To the process before this one. */
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
