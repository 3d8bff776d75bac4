/* tenure.c - the handle: a loop's thread that renews, a herald's thread that calls back, and how
 * both begin and end.
 *
 * Happy path: tenure_open starts the two threads, tenure_dispatch (or the herald) hands out news,
 * tenure_close gives the leases back and joins them. What can fail: opening, told by a code; later
 * the store, told by tenure_health and by what becomes of the terms. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/duration.h"
#include "lib/forks.h"
#include "lib/private.h"
#include "runtime/entry.h"
#include "runtime/loop.h"
#include "runtime/timer.h"
#include "stores/registry.h"

bool tn_lib_alive(const struct tenure *tenure)
{
    return atomic_load_explicit(&tenure->shared->alive, memory_order_acquire) != 0;
}

/* --- The deadline and the bell ---------------------------------------------------------------- */

/* False when a reader has seen the present deadline pass. */
static bool publish(struct tenure *tenure, tenure_ns deadline)
{
    tenure_ns expected = tenure->published;
    bool good = true;

    if (expected != 0 && deadline != 0)
        good = atomic_compare_exchange_strong(&tenure->shared->deadline, &expected, deadline);
    else
        atomic_store_explicit(&tenure->shared->deadline, deadline, memory_order_release);
    tenure->published = good ? deadline : 0;
    tn_timer_arm(tenure->timer, tenure->published != 0 ? tenure->published : TN_NEVER);
    return good;
}

static void tell_each(struct tenure *tenure, void (*tell)(struct tenure_election *election))
{
    if (tenure->listeners == 0)
        return;
    for (struct tn_seat *seat = tenure->driver.candidate.seats; seat != NULL; seat = seat->next)
        tell((struct tenure_election *)(void *)seat);
}

static tenure_ns valid_until(const struct tenure *tenure)
{
    const struct tn_candidate *candidate = &tenure->driver.candidate;

    return tn_session_valid(&candidate->session, candidate->now)
               ? tn_session_deadline(&candidate->session)
               : 0;
}

void tn_lib_settle(void *arg)
{
    struct tenure *tenure = arg;
    uint64_t one = 1;

    if (!tenure->closing) {
        tn_lib_slots_settle(tenure);
        tn_lib_ranks_settle(tenure);
    }
    if (valid_until(tenure) != tenure->published) {
        if (!publish(tenure, valid_until(tenure)))
            tn_driver_expire(&tenure->driver);
        else
            tell_each(tenure, tn_election_renewed);
    }
    if (tenure->illness != tenure->driver.error) {
        tenure->illness = tenure->driver.error;
        tell_each(tenure, tn_election_health);
    }
    if (tn_list_first(&tenure->news) == NULL || tenure->rung)
        return;
    tenure->rung = true;
    ssize_t written = write(tenure->bell, &one, sizeof one);
    (void)written; /* It cannot be full: it is emptied before it is rung again. */
}

/* --- Callbacks -------------------------------------------------------------------------------- */

/* TENURE_E_CLOSED: a callback has closed the handle, and the caller has to finish it; or it has
 * forked, and this is the child. Otherwise another thread may have closed it by now. */
static int dispatch(struct tenure *tenure)
{
    uint64_t times;
    int count = 0;

    tn_driver_lock(&tenure->driver);
    if (!tenure->dispatching) {
        tenure->dispatching = true;
        tenure->dispatcher = pthread_self();
        tenure->rung = false;
        ssize_t got = read(tenure->bell, &times, sizeof times);
        (void)got; /* Empty is fine. */
        got = read(tenure->timer, &times, sizeof times);
        (void)got;
        tn_driver_tick(&tenure->driver);
        count = tn_lib_hand_out(tenure);
        if (count == TENURE_E_CLOSED)
            return count;
        tenure->dispatching = false;
        (void)pthread_cond_broadcast(&tenure->returned);
        if (tenure->closed_by_callback)
            count = TENURE_E_CLOSED;
    }
    tn_driver_unlock(&tenure->driver);
    return count;
}

/* --- Threads ---------------------------------------------------------------------------------- */

static void stop_work(uv_prepare_t *prepare)
{
    (void)prepare;
    tn_work_end();
}

static void start_work(uv_check_t *check)
{
    (void)check;
    tn_work_begin();
}

/* The thread is at work, except while it waits for events. */
static void *run_loop(void *arg)
{
    struct tenure *tenure = arg;
    uv_loop_t *loop = &tenure->loop;

    (void)uv_prepare_init(loop, &tenure->before_wait);
    (void)uv_check_init(loop, &tenure->after_wait);
    (void)uv_prepare_start(&tenure->before_wait, stop_work);
    (void)uv_check_start(&tenure->after_wait, start_work);
    uv_unref((uv_handle_t *)&tenure->before_wait);
    uv_unref((uv_handle_t *)&tenure->after_wait);
    tn_work_begin();
    (void)uv_run(loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&tenure->before_wait, NULL);
    uv_close((uv_handle_t *)&tenure->after_wait, NULL);
    (void)uv_run(loop, UV_RUN_DEFAULT);
    tn_work_end();
    return NULL;
}

static int finish(struct tenure *tenure);

static void *run_herald(void *arg)
{
    struct tenure *tenure = arg;
    struct pollfd fd = { .fd = tenure->watch, .events = POLLIN };

    for (;;) {
        (void)poll(&fd, 1, -1);
        if (dispatch(tenure) == TENURE_E_CLOSED) {
            if (tn_lib_alive(tenure)) {
                (void)pthread_detach(pthread_self());
                (void)finish(tenure);
            }
            return NULL;
        }
        tn_driver_lock(&tenure->driver);
        bool closing = tenure->closing;
        tn_driver_unlock(&tenure->driver);
        if (closing)
            return NULL;
    }
}

/* Signals are the application's: none of ours is ever woken by one. */
int tn_lib_start_thread(pthread_t *thread, void *(*body)(void *arg), void *arg, const char *name)
{
    sigset_t all, before;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(thread, NULL, body, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return TENURE_E_UNAVAILABLE;
    (void)pthread_setname_np(*thread, name);
    return 0;
}

/* --- Closing ---------------------------------------------------------------------------------- */

static void close_fd(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

/* What tenure_open made, as far as it came; no thread runs any more. */
static void tenure_free(struct tenure *tenure)
{
    for (struct tn_lib_config *config = tenure->configs, *next; config != NULL; config = next) {
        next = config->next;
        free(config);
    }
    close_fd(tenure->bell);
    close_fd(tenure->timer);
    close_fd(tenure->watch);
    if (tenure->shared != NULL)
        (void)munmap(tenure->shared, sizeof *tenure->shared);
    if (tenure->keeps)
        tn_ledger_close(&tenure->ledger);
    (void)pthread_cond_destroy(&tenure->returned);
    free(tenure);
}

/* How long the store may take to answer the last word: longer if somebody waits for a lease. */
static tenure_ns patience(const struct tenure *tenure)
{
    tenure_ns most = tenure->driver.plan.ttl / 3;

    for (struct tn_seat *seat = tenure->driver.candidate.seats; seat != NULL; seat = seat->next)
        if (seat->claim.token != 0)
            return most;
    return most < TN_SEC(1) ? most : TN_SEC(1);
}

/* End the loop's thread, then free all. */
static int finish(struct tenure *tenure)
{
    struct tn_driver *driver = &tenure->driver;

    tn_driver_lock(driver);
    while (tenure->raising > 0 || tenure->waiting > 0)
        (void)pthread_cond_wait(&tenure->returned, &driver->lock);
    tn_driver_close(driver, tn_clock_now(&driver->clock) + patience(tenure));
    tn_driver_unlock(driver);
    (void)pthread_join(tenure->loop_thread, NULL);
    int status = driver->close_status;
    int rc = uv_loop_close(&tenure->loop);
    TN_ASSERT(rc == 0);
    tn_driver_done(driver);
    if (tenure->keeps && status == 0)
        tn_ledger_forget(&tenure->ledger);
    tenure_free(tenure);
    return status;
}

int tenure_close(struct tenure *tenure)
{
    uint64_t one = 1;

    if (tenure == NULL)
        return 0;
    if (!tn_lib_alive(tenure))
        return TENURE_E_CLOSED;
    tn_driver_lock(&tenure->driver);
    bool inside = tenure->dispatching && pthread_equal(tenure->dispatcher, pthread_self());
    tenure->closing = true;
    tenure->closed_by_callback = inside;
    (void)pthread_cond_broadcast(&tenure->returned); /* For those in tenure_wait. */
    while (!inside && tenure->dispatching)
        (void)pthread_cond_wait(&tenure->returned, &tenure->driver.lock);
    tn_driver_unlock(&tenure->driver);
    if (inside)
        return 0;
    if (!tenure->own_loop) {
        ssize_t written = write(tenure->bell, &one, sizeof one);
        (void)written;
        (void)pthread_join(tenure->herald, NULL);
    }
    return finish(tenure);
}

/* --- Opening ---------------------------------------------------------------------------------- */

static int open_shared(struct tenure *tenure)
{
    void *page = mmap(NULL, sizeof *tenure->shared, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return TENURE_E_NOMEM;
    tenure->shared = page;
    if (madvise(page, sizeof *tenure->shared, MADV_WIPEONFORK) != 0)
        return TENURE_E_UNSUPPORTED; /* Linux before 4.14: a child could take itself for leader. */
    atomic_store_explicit(&tenure->shared->alive, 1, memory_order_release);
    return 0;
}

static int open_fds(struct tenure *tenure)
{
    struct epoll_event readable = { .events = EPOLLIN };

    tenure->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    tenure->timer = tn_timer_open();
    tenure->watch = epoll_create1(EPOLL_CLOEXEC);
    if (tenure->bell < 0 || tenure->timer < 0 || tenure->watch < 0 ||
        epoll_ctl(tenure->watch, EPOLL_CTL_ADD, tenure->bell, &readable) != 0 ||
        epoll_ctl(tenure->watch, EPOLL_CTL_ADD, tenure->timer, &readable) != 0)
        return TENURE_E_UNAVAILABLE;
    return 0;
}

/* Whoever acts when this process has ended needs a store that has not. */
static int check_lasting(const char *url, struct tn_text *text)
{
    const struct tn_store_ops *ops;
    const char *rest;
    int rc = tn_store_find(url, &ops, &rest, text);

    if (rc < 0 || (ops->caps & TN_STORE_LOCAL) == 0)
        return rc;
    tn_text_addf(text, "%s: is gone with its process; name a store that outlives the agent",
                 ops->scheme);
    return TENURE_E_INVALID;
}

/* P1: what this store guarantees bounds the TTL, too. */
static int check_plan_at(const char *url, struct tn_plan *plan, struct tn_text *text)
{
    const struct tn_store_ops *ops;
    const char *rest;
    int rc = tn_store_find(url, &ops, &rest, text);

    if (rc < 0 || ops->delay_most == 0)
        return rc;
    plan->delay_most = ops->delay_most;
    return tn_entry_plan(plan, text);
}

static int open_store(struct tenure *tenure, const char *url, struct tn_text *text)
{
    struct tn_store_open how = { .url = url,
                                 .loop = &tenure->loop,
                                 .clock = &tenure->driver.clock,
                                 .host = &tn_driver_store_host,
                                 .arg = &tenure->driver,
                                 .create = true,
                                 .ttl = tn_plan_asked(&tenure->driver.plan),
                                 .patience = tenure->driver.plan.attempt_timeout,
                                 /* G1: what a process has sent may arrive behind its end. */
                                 .bind = tenure->unbound || tenure->driver.plan.hold_off > 0
                                             ? TN_BIND_NONE
                                         : tenure->shares ? TN_BIND_SHARED
                                                          : TN_BIND_OWN };
    struct tn_store *store;

    if (how.url == NULL)
        how.url = getenv("TENURE_STORE");
    if (how.url == NULL || how.url[0] == '\0')
        how.url = "sqlite:";
    int rc = tenure->unbound ? check_lasting(how.url, text) : 0;
    if (rc == 0)
        rc = check_plan_at(how.url, &tenure->driver.plan, text);
    if (rc == 0)
        rc = tn_store_open(&how, &store, text);
    if (rc == 0)
        tn_driver_start(&tenure->driver, store);
    else
        tn_driver_cancel(&tenure->driver);
    return rc;
}

/* The loop, the driver and the store; when it fails, none of them is left. */
static int open_loop(struct tenure *tenure, const char *url, const struct tn_plan *plan,
                     const char *id, struct tn_text *text)
{
    if (uv_loop_init(&tenure->loop) != 0)
        return TENURE_E_UNAVAILABLE;
    int rc = tn_driver_init(&tenure->driver, &tenure->loop, plan, id, &tn_lib_host, tenure);
    bool made = rc == 0;
    if (rc == 0)
        rc = open_store(tenure, url, text);
    if (rc == 0)
        return 0;
    (void)uv_run(&tenure->loop, UV_RUN_DEFAULT); /* Lets the handles close. */
    if (made)
        tn_driver_done(&tenure->driver);
    (void)uv_loop_close(&tenure->loop);
    return rc;
}

static int start_threads(struct tenure *tenure)
{
    int rc = tn_lib_start_thread(&tenure->loop_thread, run_loop, tenure, "tenure");

    if (rc < 0) { /* The loop runs here, just to end. */
        tn_driver_lock(&tenure->driver);
        tn_driver_close(&tenure->driver, 0);
        tn_driver_unlock(&tenure->driver);
        (void)uv_run(&tenure->loop, UV_RUN_DEFAULT);
        (void)uv_loop_close(&tenure->loop);
        tn_driver_done(&tenure->driver);
        return rc;
    }
    return 0;
}

static int make_plan(const struct tenure_options *options, struct tn_plan *ret_plan,
                     struct tn_text *text)
{
    tenure_ns ttl = options->ttl != 0 ? options->ttl : TN_SEC(15);
    uint32_t rho_most = TN_PPM / 2;

    if (ttl < TN_TTL_MIN || ttl > TN_TTL_MAX)
        tn_text_add(text, "the TTL is out of range: from 1s to 24h");
    else if (options->grace < 0 || options->grace > ttl)
        tn_text_add(text, "the grace is out of range: 0 to the TTL");
    else if (options->rho_ppm > rho_most)
        tn_text_add(text, "rho_ppm is out of range: 0 to 500000");
    else if (options->hold_off < 0 || options->hold_off > TN_TTL_MAX)
        tn_text_add(text, "the hold-off is out of range: 0 to 24h");
    if (text->len > 0)
        return TENURE_E_INVALID;
    tn_plan_init(ret_plan, ttl);
    ret_plan->hold_off = options->hold_off;
    if (options->rho_ppm != 0)
        tn_plan_turn(ret_plan, TN_KNOB_RHO, options->rho_ppm);
    if (options->grace != 0)
        tn_plan_turn(ret_plan, TN_KNOB_GRACE, options->grace);
    return tn_entry_plan(ret_plan, text);
}

static struct tenure *tenure_new(unsigned flags)
{
    struct tenure *tenure = calloc(1, sizeof *tenure);

    if (tenure == NULL)
        return NULL;
    tenure->bell = tenure->timer = tenure->watch = -1;
    tn_list_init(&tenure->news);
    tenure->own_loop = (flags & TENURE_OWN_LOOP) != 0;
    tenure->shares = (flags & TN_LIB_SHARED) != 0;
    tenure->unbound = (flags & TN_LIB_UNBOUND) != 0;
    pthread_condattr_t attributes; /* A wait with a limit must not follow the wall clock. */
    if (pthread_condattr_init(&attributes) != 0 ||
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0 ||
        pthread_cond_init(&tenure->returned, &attributes) != 0) {
        free(tenure);
        return NULL;
    }
    (void)pthread_condattr_destroy(&attributes);
    return tenure;
}

static int open_all(const char *url, const struct tenure_options *options,
                    struct tenure **ret_tenure, struct tn_text *text)
{
    struct tn_plan plan;
    char id[TENURE_ID_MAX + 1];
    int rc = make_plan(options, &plan, text);

    if (rc == 0)
        rc = tn_entry_label(options->id, id, text);
    if (rc < 0)
        return rc;
    struct tenure *tenure = tenure_new(options->flags);
    if (tenure == NULL)
        return TENURE_E_NOMEM;
    rc = tn_loop_check(text);
    if (rc == 0)
        rc = tn_forks_init();
    if (rc == 0)
        rc = open_shared(tenure);
    if (rc == 0)
        rc = open_fds(tenure);
    if (rc == 0) {
        tn_work_begin();
        rc = open_loop(tenure, url, &plan, id, text);
        tn_work_end();
    }
    if (rc == 0)
        rc = start_threads(tenure);
    if (rc < 0) {
        tenure_free(tenure);
        return rc;
    }
    if (!tenure->own_loop &&
        tn_lib_start_thread(&tenure->herald, run_herald, tenure, "tenure-events") != 0) {
        (void)finish(tenure);
        return TENURE_E_UNAVAILABLE;
    }
    *ret_tenure = tenure;
    return 0;
}

int tenure_open(const char *url, const struct tenure_options *options, struct tenure **ret_tenure,
                struct tenure_error *reterr)
{
    struct tenure_options known = { .size = sizeof known };
    char buf[TENURE_ERROR_TEXT] = "";
    struct tn_text text;
    int rc = 0;

    tn_text_init(&text, buf, sizeof buf);
    if (ret_tenure == NULL ||
        (options != NULL && (options->size < sizeof options->size || options->size > sizeof known)))
        rc = TENURE_E_INVALID;
    else if (options != NULL)
        memcpy(&known, options, options->size);
    if (rc == 0 && (known.flags & ~(TENURE_OWN_LOOP | TN_LIB_SHARED | TN_LIB_UNBOUND)) != 0)
        rc = TENURE_E_INVALID;
    if (rc < 0)
        tn_text_add(&text, "the options are not of this version: wrong size, or unknown flags");
    if (rc == 0)
        rc = open_all(url, &known, ret_tenure, &text);
    tn_text_cut(&text);
    return tn_lib_fail(rc, buf, reterr);
}

int tn_lib_fail(int code, const char *text, struct tenure_error *reterr)
{
    if (reterr == NULL)
        return code;
    if (code == 0)
        text = "";
    else if (text[0] == '\0')
        text = tenure_strerror(code);
    reterr->code = code;
    (void)snprintf(reterr->text, sizeof reterr->text, "%s", text);
    return code;
}

/* --- The rest --------------------------------------------------------------------------------- */

bool tn_lib_binding(struct tenure *tenure, struct tn_store_binding *ret_binding)
{
    tn_driver_lock(&tenure->driver);
    bool bound = tn_driver_binding(&tenure->driver, ret_binding);
    tn_driver_unlock(&tenure->driver);
    return bound;
}

int tn_lib_open_session(struct tenure *tenure)
{
    struct tn_driver *driver = &tenure->driver;

    if (!tn_lib_alive(tenure))
        return TENURE_E_CLOSED;
    tn_driver_lock(driver);
    if (driver->candidate.life == 0 && !driver->closing)
        tn_candidate_open(&driver->candidate, tn_clock_now(&driver->clock));
    tn_driver_unlock(driver);
    return 0;
}

tenure_ns tn_lib_deadline(const struct tenure *tenure)
{
    return atomic_load_explicit(&tenure->shared->deadline, memory_order_acquire);
}

tenure_ns tn_lib_span(struct tenure *tenure)
{
    tn_driver_lock(&tenure->driver);
    tenure_ns span = tenure->driver.candidate.session.timing.valid_for;
    tn_driver_unlock(&tenure->driver);
    return span;
}

int tn_lib_check_upstream(const char *url, struct tenure_error *reterr)
{
    char buf[TENURE_ERROR_TEXT] = "";
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    int rc = check_lasting(url, &text);
    tn_text_cut(&text);
    return tn_lib_fail(rc, buf, reterr);
}

bool tn_lib_leader_is_mine(const struct tenure_election *election)
{
    tn_driver_lock(&election->tenure->driver);
    bool mine = election->leader_mine;
    tn_driver_unlock(&election->tenure->driver);
    return mine;
}

enum tn_note_kind tn_lib_forbidden(const struct tenure_election *election)
{
    struct tn_driver *driver = &election->tenure->driver;

    tn_driver_lock(driver);
    enum tn_note_kind kind =
        tn_notes_forbid(&election->seat.seat.claim.notes, tn_clock_now(&driver->clock));
    tn_driver_unlock(driver);
    return kind;
}

int tenure_fd(const struct tenure *tenure)
{
    return tn_lib_alive(tenure) && tenure->own_loop ? tenure->watch : -1;
}

int tenure_dispatch(struct tenure *tenure)
{
    if (!tn_lib_alive(tenure))
        return TENURE_E_CLOSED;
    if (!tenure->own_loop)
        return TENURE_E_INVALID;
    int count = dispatch(tenure);
    if (count == TENURE_E_CLOSED && tn_lib_alive(tenure))
        (void)finish(tenure);
    return count;
}

int tenure_health(struct tenure *tenure, struct tenure_error *reterr)
{
    if (!tn_lib_alive(tenure))
        return TENURE_E_CLOSED;
    tn_driver_lock(&tenure->driver);
    const struct tn_driver *driver = &tenure->driver;
    int code = driver->error != 0 ? driver->error : driver->answered ? 0 : TENURE_E_TIMEOUT;
    if (reterr != NULL) {
        reterr->code = code;
        (void)snprintf(reterr->text, sizeof reterr->text, "%s",
                       driver->error != 0 ? driver->error_text
                       : code != 0        ? "the store has not answered yet"
                                          : "");
    }
    tn_driver_unlock(&tenure->driver);
    return code;
}

bool tenure_warning(struct tenure *tenure, struct tenure_error *ret_warning)
{
    if (!tn_lib_alive(tenure))
        return false;
    tn_driver_lock(&tenure->driver);
    bool warns = tenure->driver.warning[0] != '\0';
    if (warns) {
        ret_warning->code = 0;
        (void)snprintf(ret_warning->text, sizeof ret_warning->text, "%s", tenure->driver.warning);
    }
    tn_driver_unlock(&tenure->driver);
    return warns;
}

const char *tenure_reason_text(enum tenure_reason reason)
{
    return reason <= TENURE_REASON_ASKED ? tn_reason_text((enum tn_reason)reason) : "unknown";
}

const char *tenure_version(void)
{
    return TENURE_VERSION;
}
