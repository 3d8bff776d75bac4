/* election.c - an election that stands: the application's wishes, the wait for a term, the token.
 *
 * campaign.c begins one; news.c has what the application hears of it. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/time.h"
#include "lib/private.h"

/* --- The end ---------------------------------------------------------------------------------- */

void tn_election_free(struct tenure_election *election)
{
    if (election->slot != NULL)
        tn_lib_slot_free(election);
    if (election->rank != NULL)
        tn_lib_rank_free(election);
    tn_list_remove(&election->news_node);
    free(election->fences);
    free(election->seat.soft);
    free(election);
}

/* Its own callback may be running, or its fences going up: then whoever does that frees it. */
void tn_election_dispose(void *arg, struct tn_driver_seat *seat)
{
    struct tenure *tenure = arg;
    struct tenure_election *election = (struct tenure_election *)(void *)seat;

    if (tenure->calling != election && !election->raising) {
        tn_election_free(election);
        return;
    }
    TN_ASSERT(election->life == TN_ELECTION_LEFT);
    election->life = TN_ELECTION_DISPOSED;
}

/* --- Wishes ----------------------------------------------------------------------------------- */

void tn_election_wish(struct tenure_election *election, enum tn_claim_event_kind wish)
{
    if (election->slot != NULL)
        tn_lib_slot_wish(election, wish);
    else
        tn_driver_wish(&election->tenure->driver, &election->seat, wish);
}

static int make_wish(struct tenure_election *election, enum tn_claim_event_kind kind)
{
    struct tenure *tenure = election->tenure;
    int rc = 0;

    if (!tn_lib_alive(tenure))
        return TENURE_E_CLOSED;
    tn_driver_lock(&tenure->driver);
    if (election->life != TN_ELECTION_STANDS || tenure->closing)
        rc = TENURE_E_CLOSED;
    else if (!election->observes)
        tn_election_wish(election, kind);
    tn_driver_unlock(&tenure->driver);
    return rc;
}

int tenure_resign(struct tenure_election *election)
{
    return make_wish(election, TN_CLAIM_EV_RESIGN);
}

int tenure_stand(struct tenure_election *election)
{
    return make_wish(election, TN_CLAIM_EV_CAMPAIGN);
}

int tenure_drained(struct tenure_election *election)
{
    return make_wish(election, TN_CLAIM_EV_DRAINED);
}

int tenure_ready(struct tenure_election *election, bool ready)
{
    return make_wish(election, ready ? TN_CLAIM_EV_READY : TN_CLAIM_EV_NOT_READY);
}

int tenure_check_in(struct tenure_election *election)
{
    return make_wish(election, TN_CLAIM_EV_CHECK_IN);
}

void tenure_leave(struct tenure_election *election)
{
    if (election == NULL || !tn_lib_alive(election->tenure))
        return;
    struct tenure *tenure = election->tenure;
    tn_driver_lock(&tenure->driver);
    tn_list_remove(&election->news_node);
    election->life = TN_ELECTION_LEFT;
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

/* --- The wait --------------------------------------------------------------------------------- */

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
        bool owes = election->asker_state == TN_ASKER_OWES;
        election->asker_state = TN_ASKER_WAITS;
        election->asker = gettid();
        if (owes && election->life == TN_ELECTION_STANDS && !tenure->closing)
            tn_election_wish(election, TN_CLAIM_EV_DRAINED);
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
        if (election->life != TN_ELECTION_STANDS || tenure->closing)
            rc = TENURE_E_CLOSED;
        else if (token == 0 && tn_boottime() >= end)
            rc = TENURE_E_TIMEOUT;
        if (rc < 0 || token != 0)
            break;
        tn_lib_wait_until(tenure, end);
    }
    election->waiters--;
    election->asker_state = TN_ASKER_WORKS;
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
