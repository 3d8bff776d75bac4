/* campaign.h - what the verbs that campaign or watch share: their numbers, opening a session, the
 * signals that end them, and one loop for all of it.
 *
 * The functions that can fail return -1 to go on, or the exit status after having said why in one
 * line on stderr. Threads: the main thread only; the library's own do the renewing. */
#ifndef TN_CLI_CAMPAIGN_H
#define TN_CLI_CAMPAIGN_H

#include <poll.h>

#include "cli/store.h"
#include "core/note.h"
#include "core/plan.h"
#include "core/rank.h"
#include "core/slots.h"
#include "tenure/tenure.h"

#define TN_CLI_WAIT_MAX TN_SEC(30 * 24 * 3600)
/* How long a store may take until it answers for the first time, whatever --wait says. */
#define TN_CLI_FIRST_ANSWER TN_SEC(5)

/* What was asked for. */
struct tn_campaign_words {
    const char *url;
    unsigned flags; /* For tenure_open, beside TENURE_OWN_LOOP. */
    const char *id;
    tenure_ns ttl, grace, hold_off, soft_limit;
    uint32_t rho_ppm;
    tenure_ns wait;    /* Negative: for ever. */
    uint64_t slots;    /* How many may lead at the same time. */
    uint64_t priority; /* 0: it takes no part. */
    bool yield;
};

struct tn_campaign {
    const char *verb;
    const char *name;
    struct tn_plan plan;
    char label[TN_LABEL_MAX + 1];
    tenure_ns wait;
    tenure_ns started;
    bool answered;                 /* The store answers, or says why not. */
    bool vacant;                   /* Nobody leads, as told last: our grant may be on its way, */
    enum tn_note_kind forbidden;   /* unless an operator does not let us. */
    char leader[TN_LABEL_MAX + 1]; /* The last one that was heard of; empty: nobody. */
    struct tenure *tenure;
    const struct tenure_election *election;
    int signals, timer;
    bool unheard;     /* Nobody reads the lines of this verb any more. */
    bool warned;      /* What the store warns of was told. */
    unsigned outages; /* The kinds of error of the store that were told since it was well. */
    bool regressed;   /* The last grant was refused because the store went back. */
};

#define TN_CAMPAIGN_OPTIONS(words_)                                                           \
    TN_DURATION("ttl", 0, &(words_)->ttl, TN_TTL_MIN, TN_TTL_MAX, "15s",                      \
                "how long the lease outlives its last renewal"),                              \
        TN_RATE("rho", 0, &(words_)->rho_ppm, "0.1", "how wrong the rate of a clock may be"), \
        TN_DURATION("wait", 0, &(words_)->wait, 0, TN_CLI_WAIT_MAX, "for ever",               \
                    "give up after this long without leading"),                               \
        TN_DURATION("hold-off", 0, &(words_)->hold_off, 0, TN_TTL_MAX, "0s",                  \
                    "least time between a lost term and the next"),                           \
        TN_U64("slots", 0, &(words_)->slots, 1, TN_SLOTS_MAX, "COUNT", "1",                   \
               "a semaphore: so many lead at the same time"),                                 \
        TN_U64("priority", 0, &(words_)->priority, 1, TN_RANK_MAX, "N", NULL,                 \
               "1 to 9: of those who wait with one, the highest leads first"),                \
        TN_FLAG("yield", 0, &(words_)->yield, "hand over when a higher priority waits"),      \
        TN_STRING("id", 'i', &(words_)->id, "ID", "host-pid", "a label, to tell who leads"),  \
        TN_STORE(&(words_)->url)

#define TN_SOFT_LIMIT(words_)                                                  \
    TN_DURATION("soft-limit", 0, &(words_)->soft_limit, 1, TN_TTL_MAX, "none", \
                "a leader silent for so long gives way to one with the same --fence")

/* The defaults. */
#define TN_CAMPAIGN_WORDS                                                               \
    {                                                                                   \
        .ttl = TN_SEC(15), .grace = -1, .rho_ppm = TN_PPM / 10, .wait = -1, .slots = 1, \
    }

/* The kind of store that @url, else TENURE_STORE names; NULL: there is none. */
const struct tn_store_ops *tn_campaign_store(const char *url);

/* What the store of @url, else of TENURE_STORE, can do: enum tn_store_caps. 0: there is none. */
unsigned tn_campaign_caps(const char *url);

/* Whether @name can be campaigned for so, as far as slots and priority are concerned; @beside: an
 * option that does not go with more than one slot, or NULL. */
int tn_campaign_check(const char *verb, const char *name, const struct tn_campaign_words *words,
                      const char *beside);

/* What a campaign raises before it leads: URL#RESOURCE, or "none". NULL is the same to these. */
bool tn_campaign_has_fence(const char *fence);
/* Whether it can be read; @origin: where it comes from, such as "--fence". */
int tn_campaign_check_fence(const char *verb, const char *origin, const char *fence);
/* Whether the words go with their --soft-limit, as far as that can be said without a store. */
int tn_campaign_check_soft(const char *verb, const struct tn_campaign_words *words,
                           const char *fence);
/* Before the first grant, so that a fence that is misspelt costs no token. One that is away is left
 * to the campaign, which asks again. */
int tn_campaign_probe_fence(const char *verb, const char *fence);
/* Say why the fence is of no use; returns the exit status. */
int tn_campaign_fail_fence(const char *verb, int code, const char *why);

/* Check the words and open a session. A store that is unavailable is tried again for the wait. */
int tn_campaign_open(struct tn_campaign *campaign, const char *verb, const char *name,
                     const struct tn_campaign_words *words);

/* Campaign as @words say; @options has the rest. */
int tn_campaign_start(struct tn_campaign *campaign, const struct tn_campaign_words *words,
                      struct tenure_campaign *options, struct tenure_election **ret_election);

/* Block the signals that end or steer the command, and read them from campaign->signals. SIGUSR1
 * and SIGUSR2 only with @all. */
int tn_campaign_signals(struct tn_campaign *campaign, bool all);

/* Wait for a signal, the library, @extra (-1: none) or until @at; then run the callbacks. */
void tn_campaign_poll(struct tn_campaign *campaign, const int *extra, size_t extra_count,
                      tenure_ns at);

/* When to give up waiting to lead; TN_NEVER without --wait. Also `--wait 0s` asks once. */
tenure_ns tn_campaign_give_up_at(const struct tn_campaign *campaign);

/* Whether the store's health is to be told now, and what ails it: each kind of error once until the
 * store is well again, so that a daemon which was away and comes back with an older copy of its
 * data is heard of. */
bool tn_campaign_is_news(struct tn_campaign *campaign, struct tenure_error *ret_error);

/* Of every event of the election. */
void tn_campaign_hear(struct tn_campaign *campaign, const struct tenure_event *event);

/* Nobody led for the whole wait: say whose fault it was. Returns the exit status. */
int tn_campaign_not_acquired(struct tn_campaign *campaign);

/* Give everything back. Returns @status, or 69 when the store did not take back what is @held.
 * Takes one that was never opened. */
int tn_campaign_close(struct tn_campaign *campaign, bool held, int status);

#endif
