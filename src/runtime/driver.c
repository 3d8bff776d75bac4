/* driver.c - the candidate of core/candidate.h on a real store; driver.h has the contract.
 *
 * Happy path: a step leaves requests in the outbox; the loop's thread submits them; each comes back
 * through done(), which steps the candidate again. One timer wakes the loop for whatever is due.
 * What can fail: the store, which the candidate is told; and memory, in which case the request is
 * not sent and counts as lost, as a message may be. */
#include "runtime/driver.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/sha256.h"
#include "runtime/driver_inside.h"
#include "runtime/note_name.h"
#include "runtime/random.h"
#include "runtime/timer.h"

/* A store that tells of grants is asked only in case of a bug, or a lost message. */
#define QUEUE_POLL TN_SEC(600)

/* A holder that is asked to hand over to somebody leads on for this long, so that the others hear
 * of it and leave the line. */
#define NOTE_SETTLE TN_MS(300)

/* A session that the store did not close is closed again after this. */
#define SAY_AGAIN TN_MS(50)

/* --- Secrets ---------------------------------------------------------------------------------- */

static struct tn_secret derive(const struct tn_driver *driver, uint64_t kind, uint64_t number)
{
    struct {
        struct tn_secret secret;
        uint64_t kind, number;
    } message = { driver->secret, kind, number };
    uint8_t digest[TN_SHA256_SIZE];
    struct tn_secret secret;

    tn_sha256(&message, sizeof message, digest);
    memcpy(&secret, digest, sizeof secret);
    return secret;
}

/* Seats are numbered from 1; 0 is the session. */
struct tn_secret tn_driver_term_secret(const struct tn_driver *driver,
                                       const struct tn_driver_seat *seat, uint64_t gen)
{
    return derive(driver, seat->number, gen);
}

bool tn_driver_binding(struct tn_driver *driver, struct tn_store_binding *ret_binding)
{
    const struct tn_store *store = driver->store;
    struct tn_secret session = derive(driver, 0, driver->candidate.life);

    return store != NULL && store->ops->binding != NULL &&
           store->ops->binding(store, &session, ret_binding);
}

/* --- The lock --------------------------------------------------------------------------------- */

void tn_driver_lock(struct tn_driver *driver)
{
    int rc = pthread_mutex_lock(&driver->lock);
    TN_ASSERT(rc == 0);
}

static bool has_work(const struct tn_driver *driver)
{
    return driver->outbox != NULL || driver->errands != NULL || driver->chores != NULL ||
           driver->close_by == 0;
}

/* Wake the loop's thread if there is something only it can do. */
static void nudge(struct tn_driver *driver)
{
    if (!has_work(driver) || driver->nudged || driver->closed)
        return;
    driver->nudged = true;
    int rc = uv_async_send(&driver->nudge);
    TN_ASSERT(rc == 0);
}

static void arm_timer(struct tn_driver *driver)
{
    tenure_ns at = tn_candidate_wake_at(&driver->candidate);

    if (driver->closing)
        at = driver->close_by < driver->say_again_at ? driver->close_by : driver->say_again_at;
    if (at == driver->timer_at || driver->closed)
        return;
    driver->timer_at = at;
    tn_timer_arm(driver->timer, at);
}

void tn_driver_unlock(struct tn_driver *driver)
{
    driver->host->settle(driver->arg);
    arm_timer(driver);
    nudge(driver);
    int rc = pthread_mutex_unlock(&driver->lock);
    TN_ASSERT(rc == 0);
}

/* --- Requests --------------------------------------------------------------------------------- */

static void done(struct tn_store_req *store_req);

static void fill_op(struct tn_driver *driver, struct tn_driver_req *req)
{
    const struct tn_request *request = &req->request;

    req->req.op = (struct tn_op) {
        .kind = request->kind,
        .wait = request->wait,
        .evident = request->evident,
        .session = derive(driver, 0, request->life),
        .name = req->name,
        .name_len = (uint32_t)strlen(req->name),
        .label = driver->label,
        .label_len = (uint32_t)strlen(driver->label),
        .seq = request->seq,
        .token = request->token,
        .beat = request->beat,
        .seen = request->seen,
        .ttl = request->kind == TN_OP_OPEN ? request->ttl : 0,
    };
    if (req->seat != NULL)
        req->req.op.term = tn_driver_term_secret(driver, req->seat, request->gen);
    if (req->seat != NULL && request->kind == TN_OP_ACQUIRE && req->seat->soft != NULL)
        req->req.op.soft = *req->seat->soft;
    req->req.done = done;
}

static void send_request(void *arg, const struct tn_request *request)
{
    struct tn_driver *driver = arg;
    struct tn_driver_seat *seat = request->seat != NULL ? tn_driver_seat_of(request->seat) : NULL;
    const char *name = seat != NULL ? seat->name : "";

    if (request->kind == TN_OP_RAISE) {
        driver->host->raise(driver->arg, request);
        return;
    }
    if (request->kind == TN_OP_CLOSE) {
        driver->last_word = *request;
        driver->say_again_at = TN_NEVER;
    }
    if (request->kind == TN_OP_OPEN && driver->ledger != NULL)
        tn_ledger_life(driver->ledger, request->life);
    if (request->kind == TN_OP_ACQUIRE)
        tn_driver_note_in_ledger(driver, seat, request->gen, 0);
    struct tn_driver_req *req = calloc(1, sizeof *req + strlen(name) + 1);
    if (req == NULL && request->kind == TN_OP_CLOSE)
        driver->say_again_at = tn_driver_now(driver) + SAY_AGAIN;
    if (req == NULL)
        return; /* Lost, as a message may be: it is repeated in time. */
    memcpy(req->name, name, strlen(name));
    req->request = *request;
    req->driver = driver;
    req->seat = seat;
    if (seat != NULL) {
        req->seat_next = seat->reqs;
        req->seat_prev = &seat->reqs;
        if (req->seat_next != NULL)
            req->seat_next->seat_prev = &req->seat_next;
        seat->reqs = req;
    }
    fill_op(driver, req);
    *driver->outbox_end = req;
    driver->outbox_end = &req->next;
}

/* Who has a session to lose wants to know whether it can be renewed: a store that can only be read
 * is not well. */
static void note_health(struct tn_driver *driver, const struct tn_store_req *req)
{
    if (req->status == 0 && req->op.kind == TN_OP_READ && driver->candidate.life != 0)
        return;
    /* That the session lives does not mean that the name may be had, or even asked for. */
    bool kept = driver->error == TENURE_E_DENIED ||
                (driver->error != 0 && driver->error_of == TN_OP_ACQUIRE);
    if (kept && req->status == 0 && req->op.kind == TN_OP_RENEW)
        return;
    driver->error = req->status;
    driver->error_of = req->op.kind;
    driver->answered = driver->answered || req->status == 0;
    if (req->status != 0) {
        struct tn_text text;
        tn_text_init(&text, driver->error_text, sizeof driver->error_text);
        tn_text_add(&text, req->error[0] != '\0' ? req->error : tenure_strerror(req->status));
        tn_text_cut_full(driver->error_text, sizeof driver->error_text);
    }
}

/* Known with the first answers. */
static void note_warning(struct tn_driver *driver)
{
    struct tn_store_facts facts = { .warning = "" };
    struct tn_text warning;

    if (driver->warning[0] != '\0' || driver->store->ops->facts == NULL)
        return;
    driver->store->ops->facts(driver->store, &facts);
    tn_text_init(&warning, driver->warning, sizeof driver->warning);
    tn_text_add(&warning, facts.warning);
}

static void hear_answer(struct tn_driver *driver, struct tn_driver_req *req)
{
    const struct tn_store_req *from = &req->req;
    struct tn_response response = { .failed = from->status != 0,
                                    .answer = from->answer,
                                    .ttl = from->ttl,
                                    .seen = from->seen,
                                    .held = from->held,
                                    .more = from->more };

    if (req->seat == NULL && req->request.seat != NULL)
        return; /* The seat has left. */
    if (req->seat != NULL && from->status == 0) {
        response.record = tn_driver_read_record(driver, req->seat, &from->record);
        tn_driver_note_leader(req->seat, &from->record);
    }
    tn_candidate_answer(&driver->candidate, tn_driver_now(driver), &req->request, &response);
}

static void unlink_req(struct tn_driver_req *req)
{
    if (req->seat == NULL)
        return;
    *req->seat_prev = req->seat_next;
    if (req->seat_next != NULL)
        req->seat_next->seat_prev = req->seat_prev;
}

/* Of the loop's thread, as all below until the next heading. */
static void done(struct tn_store_req *store_req)
{
    struct tn_driver_req *req = (struct tn_driver_req *)(void *)store_req;
    struct tn_driver *driver = req->driver;

    tn_driver_lock(driver);
    unlink_req(req);
    if (req->request.kind == TN_OP_CLOSE && !driver->closed) {
        driver->close_status = store_req->status;
        if (store_req->status == 0)
            driver->close_by = 0;
        else
            driver->say_again_at = tn_driver_now(driver) + SAY_AGAIN;
    }
    if (store_req->status != TENURE_E_CLOSED) {
        note_health(driver, store_req);
        note_warning(driver);
        hear_answer(driver, req);
        if (req->seat != NULL)
            tn_driver_remove_if_idle(driver, req->seat);
        if (req->request.seat == NULL)
            tn_driver_sweep_leaving(driver);
    }
    free(req);
    tn_driver_unlock(driver);
}

static void errand_done(struct tn_store_req *req)
{
    struct tn_driver_errand *errand = (struct tn_driver_errand *)(void *)req;
    struct tn_driver *driver = errand->driver;

    tn_driver_lock(driver);
    tn_text_cut_full(req->error, sizeof req->error);
    errand->done(errand); /* From here on it may be gone. */
    tn_driver_unlock(driver);
}

/* --- The loop --------------------------------------------------------------------------------- */

/* Who campaigns wants to know what operators ask of it. */
static void watch_notes(struct tn_driver *driver, struct tn_driver_seat *seat)
{
    struct tn_store *store = driver->store;
    char name[TN_NAME_MAX + 1];

    if (store == NULL || tn_name_is_reserved(seat->name))
        return;
    if (!seat->note_watched && tn_note_name_ask(seat->name, name))
        seat->note_watched = store->ops->watch(store, name, true) == 0;
    if (driver->drains_watched)
        return;
    driver->drains_watched = true;
    for (int slot = TN_NOTE_OF_ID; slot < TN_NOTE_SLOTS; slot++)
        if (driver->drain_notes[slot][0] != '\0')
            (void)store->ops->watch(store, driver->drain_notes[slot], true);
}

static void do_chore(struct tn_driver *driver, struct tn_driver_seat *seat, bool left,
                     bool campaigns)
{
    char note[TN_NAME_MAX + 1];

    /* Without memory to watch, a change is heard of later: by the poll. */
    if (!left && !seat->watched && driver->store != NULL)
        seat->watched = driver->store->ops->watch(driver->store, seat->name, true) == 0;
    if (!left && campaigns)
        watch_notes(driver, seat);
    if (!left)
        return;
    if (seat->watched && driver->store != NULL)
        (void)driver->store->ops->watch(driver->store, seat->name, false);
    if (seat->note_watched && driver->store != NULL && tn_note_name_ask(seat->name, note))
        (void)driver->store->ops->watch(driver->store, note, false);
    free(seat->leader);
    seat->leader = NULL;
    tn_driver_lock(driver);
    driver->host->dispose(driver->arg, seat);
    tn_driver_unlock(driver);
}

static void do_chores(struct tn_driver *driver)
{
    for (;;) {
        tn_driver_lock(driver);
        struct tn_driver_seat *seat = driver->chores;
        bool left = seat != NULL && seat->left;
        bool campaigns = seat != NULL && seat->seat.claim.campaigning;
        if (seat != NULL) {
            driver->chores = seat->chore_next;
            seat->chore = false;
        }
        tn_driver_unlock(driver);
        if (seat == NULL)
            return;
        do_chore(driver, seat, left, campaigns);
    }
}

/* Take the whole outbox: what the answers lead to is the next turn's. */
static struct tn_driver_req *take_outbox(struct tn_driver *driver)
{
    struct tn_driver_req *list = driver->outbox;

    driver->outbox = NULL;
    driver->outbox_end = &driver->outbox;
    return list;
}

static void free_loop(uv_handle_t *handle)
{
    struct tn_driver *driver = handle->data;

    if (driver->timer >= 0)
        (void)close(driver->timer);
    driver->timer = -1;
}

static void close_handles(struct tn_driver *driver)
{
    uv_close((uv_handle_t *)&driver->nudge, NULL);
    driver->timer_poll.data = driver;
    uv_close((uv_handle_t *)&driver->timer_poll, free_loop);
}

static void store_closed(void *arg)
{
    struct tn_driver *driver = arg;

    driver->store = NULL;
    do_chores(driver);
    close_handles(driver);
}

/* The session is closed, or it has taken too long. */
static void finish_driver(struct tn_driver *driver)
{
    struct tn_driver_req *unsent;

    tn_driver_lock(driver);
    bool over = driver->closing && !driver->closed && tn_driver_now(driver) >= driver->close_by;
    if (over) {
        driver->closed = true;
        while (driver->candidate.seats != NULL)
            tn_driver_remove_seat(driver, tn_driver_seat_of(driver->candidate.seats));
    }
    unsent = over ? take_outbox(driver) : NULL;
    tn_driver_unlock(driver);
    for (struct tn_driver_req *next; unsent != NULL; unsent = next) {
        next = unsent->next;
        free(unsent);
    }
    if (over)
        driver->store->ops->close(driver->store, store_closed, driver);
}

static void run_errands(struct tn_driver *driver)
{
    tn_driver_lock(driver);
    struct tn_driver_errand *list = driver->errands, *next;
    driver->errands = NULL;
    tn_driver_unlock(driver);
    for (; list != NULL; list = next) {
        next = list->next;
        tn_store_submit(driver->store, &list->req);
    }
}

static void work(struct tn_driver *driver)
{
    struct tn_driver_req *list, *next;

    if (driver->closed)
        return;
    do_chores(driver);
    tn_driver_lock(driver);
    driver->nudged = false;
    list = take_outbox(driver);
    tn_driver_unlock(driver);
    for (; list != NULL; list = next) {
        next = list->next;
        tn_store_submit(driver->store, &list->req);
    }
    run_errands(driver);
    finish_driver(driver);
}

static void hear_nudge(uv_async_t *async)
{
    work(async->data);
}

static void hear_timer(uv_poll_t *poll, int status, int events)
{
    struct tn_driver *driver = poll->data;
    uint64_t times;

    (void)status;
    (void)events;
    ssize_t count = read(driver->timer, &times, sizeof times);
    (void)count; /* It is also read when somebody armed it anew meanwhile. */
    tn_driver_lock(driver);
    driver->timer_at = 0;
    tn_driver_tick(driver);
    if (driver->closing && tn_driver_now(driver) >= driver->say_again_at)
        send_request(driver, &driver->last_word);
    tn_driver_unlock(driver);
    work(driver);
}

/* --- Life and death --------------------------------------------------------------------------- */

static void tell_host(void *arg, struct tn_seat *seat, const struct tn_claim_action *action)
{
    struct tn_driver *driver = arg;

    if (action->kind == TN_CLAIM_DO_WON && driver->error_of == TN_OP_ACQUIRE)
        driver->error = 0; /* Its answer was lost, and word of the grant came all the same. */
    if (action->kind == TN_CLAIM_DO_WON)
        tn_driver_note_in_ledger(driver, tn_driver_seat_of(seat), seat->claim.gen, action->token);
    driver->host->tell(driver->arg, tn_driver_seat_of(seat), action);
}

static void tell_session(void *arg, const struct tn_session_action *action)
{
    struct tn_driver *driver = arg;
    driver->host->tell_session(driver->arg, action);
}

static const struct tn_candidate_host candidate_host = { send_request, tell_host, tell_session };

static int open_handles(struct tn_driver *driver)
{
    if (uv_async_init(driver->loop, &driver->nudge, hear_nudge) != 0)
        return TENURE_E_UNAVAILABLE;
    if (uv_poll_init(driver->loop, &driver->timer_poll, driver->timer) != 0) {
        uv_close((uv_handle_t *)&driver->nudge, NULL);
        return TENURE_E_UNAVAILABLE;
    }
    driver->nudge.data = driver;
    driver->timer_poll.data = driver;
    return 0;
}

int tn_driver_init(struct tn_driver *driver, uv_loop_t *loop, const struct tn_plan *plan,
                   const char *label, const struct tn_driver_host *host, void *arg)
{
    *driver = (struct tn_driver) { .loop = loop,
                                   .plan = *plan,
                                   .host = host,
                                   .arg = arg,
                                   .bucket_count = 16,
                                   .timer_at = TN_NEVER,
                                   .close_by = TN_NEVER,
                                   .say_again_at = TN_NEVER,
                                   .timer = -1 };
    struct tn_text text;
    tn_text_init(&text, driver->label, sizeof driver->label);
    tn_text_add(&text, label);
    driver->outbox_end = &driver->outbox;
    int rc = tn_clock_init(&driver->clock);
    if (rc == 0)
        rc = tn_random_secret(&driver->secret);
    if (rc < 0)
        return rc;
    driver->buckets = calloc(driver->bucket_count, sizeof(*driver->buckets));
    if (driver->buckets == NULL)
        return TENURE_E_NOMEM;
    driver->timer = tn_timer_open();
    rc = driver->timer < 0 ? TENURE_E_UNAVAILABLE : open_handles(driver);
    if (rc == 0 && pthread_mutex_init(&driver->lock, NULL) == 0)
        return 0;
    if (rc == 0)
        close_handles(driver);
    else if (driver->timer >= 0)
        (void)close(driver->timer);
    free(driver->buckets);
    driver->buckets = NULL;
    return rc != 0 ? rc : TENURE_E_NOMEM;
}

/* Where the store tells, others hear of a note and of a vacancy at once; elsewhere by their next
 * poll. */
static struct tn_note_times note_times(const struct tn_plan *plan, unsigned caps)
{
    bool tells = (caps & TN_STORE_TELLS) != 0;

    return (struct tn_note_times) { .settle = tells ? NOTE_SETTLE : plan->poll_every,
                                    .back =
                                        2 * (tells ? plan->attempt_timeout : plan->poll_every) };
}

static void name_drain_notes(struct tn_driver *driver)
{
    char host[256] = "";

    if (!tn_note_name_id(driver->label, driver->drain_notes[TN_NOTE_OF_ID]))
        driver->drain_notes[TN_NOTE_OF_ID][0] = '\0';
    if (gethostname(host, sizeof host - 1) != 0 ||
        !tn_note_name_host(host, driver->drain_notes[TN_NOTE_OF_HOST]))
        driver->drain_notes[TN_NOTE_OF_HOST][0] = '\0';
}

void tn_driver_start(struct tn_driver *driver, struct tn_store *store)
{
    unsigned caps = store->ops->caps;
    uint64_t seed;

    driver->store = store;
    name_drain_notes(driver);
    driver->plan.slack = store->ops->slack;
    driver->config = (struct tn_claim_config) {
        .attempt_timeout = driver->plan.attempt_timeout,
        .backoff = driver->plan.backoff,
        .poll_every = driver->plan.poll_every,
        .queue_poll = caps & TN_STORE_TELLS ? QUEUE_POLL : 0,
        .drain_timeout = driver->plan.grace,
        .raise_timeout = driver->plan.fence_raise,
        .notes = note_times(&driver->plan, caps),
        .jitter_ppm = driver->plan.jitter_ppm,
        .observed = (caps & TN_STORE_OBSERVED) != 0,
    };
    struct tn_secret secret = derive(driver, 0, 0);
    memcpy(&seed, &secret, sizeof seed);
    tn_candidate_init(&driver->candidate, &driver->plan, &driver->config,
                      (caps & TN_STORE_QUEUES) != 0, &candidate_host, driver, seed);
    int rc = uv_poll_start(&driver->timer_poll, UV_READABLE, hear_timer);
    TN_ASSERT(rc == 0);
}

void tn_driver_cancel(struct tn_driver *driver)
{
    driver->closed = true;
    close_handles(driver);
}

void tn_driver_done(struct tn_driver *driver)
{
    free(driver->buckets);
    driver->buckets = NULL;
    (void)pthread_mutex_destroy(&driver->lock);
}

/* --- With the lock held ----------------------------------------------------------------------- */

/* watch_notes asks for them. Where the store does not tell that there is none, a process that
 * starts waits for so long. */
static void await_drain_notes(struct tn_driver *driver)
{
    for (int slot = TN_NOTE_OF_ID; slot < TN_NOTE_SLOTS; slot++)
        if (driver->drain_notes[slot][0] != '\0' && !driver->drains_watched)
            tn_candidate_await(&driver->candidate, (enum tn_note_slot)slot,
                               tn_driver_now(driver) + NOTE_SETTLE);
}

void tn_driver_wish(struct tn_driver *driver, struct tn_driver_seat *seat,
                    enum tn_claim_event_kind wish)
{
    /* Who only observes needs no session. */
    if (wish == TN_CLAIM_EV_CAMPAIGN && driver->candidate.life == 0) {
        await_drain_notes(driver);
        tn_candidate_open(&driver->candidate, tn_driver_now(driver));
    }
    if (wish == TN_CLAIM_EV_CAMPAIGN && !seat->note_watched && !seat->left)
        tn_driver_add_chore(driver, seat);
    if (!seat->left)
        tn_candidate_wish(&driver->candidate, tn_driver_now(driver), &seat->seat, wish);
}

void tn_driver_look(struct tn_driver *driver, struct tn_driver_seat *seat)
{
    if (!seat->left)
        tn_candidate_noted(&driver->candidate, tn_driver_now(driver), &seat->seat, TN_NOTE_OF_NAME,
                           NULL);
}

void tn_driver_raised(struct tn_driver *driver, const struct tn_request *request, int status,
                      uint64_t token)
{
    tn_candidate_raised(&driver->candidate, tn_driver_now(driver), request, status, token);
}

void tn_driver_run(struct tn_driver *driver, struct tn_driver_errand *errand)
{
    TN_ASSERT(!driver->closing);
    errand->driver = driver;
    errand->req.done = errand_done;
    errand->next = driver->errands;
    driver->errands = errand;
}

void tn_driver_tick(struct tn_driver *driver)
{
    tn_candidate_tick(&driver->candidate, tn_driver_now(driver));
    tn_driver_sweep_leaving(driver);
}

void tn_driver_expire(struct tn_driver *driver)
{
    tn_candidate_expire(&driver->candidate, tn_driver_now(driver));
    tn_driver_sweep_leaving(driver);
}

void tn_driver_close(struct tn_driver *driver, tenure_ns by)
{
    driver->closing = true;
    driver->close_by = by;
    driver->close_status = TENURE_E_TIMEOUT;
    bool gone = driver->candidate.life == 0;
    tn_candidate_close(&driver->candidate, tn_driver_now(driver));
    gone = gone || driver->candidate.session.state == TN_SESSION_LOST;
    if (gone) { /* There is nothing left to close. */
        driver->close_status = 0;
        driver->close_by = 0;
    }
}
