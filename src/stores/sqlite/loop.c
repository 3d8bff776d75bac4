/* loop.c - when the SQLite store takes its turns: at once, in some milliseconds, at an
 * instant of the boot clock, or when the bell rings.
 *
 * libuv's timers serve the milliseconds only: they stand still in suspend. An idle handle, not a
 * timer of zero, makes a turn happen at once: the loop polls between two of them. */
#include "stores/sqlite/loop.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "runtime/timer.h"

static void later(uv_timer_t *timer);

/* --- Turns ---------------------------------------------------------------------------------- */

static bool is_urgent(const struct tn_sqlite_store *store)
{
    return tn_sqlite_has_moved_session(store) || store->queue.first != NULL || store->lists != NULL;
}

/* A transaction is short, so ask again soon; but when many are at it, asking is what keeps the
 * processors from whoever is inside: 1 to 4, then to 10, then to 40 ms, never in step with others.
 * If nobody waits for it, longer in the end. */
static uint64_t busy_ms(struct tn_sqlite_store *store)
{
    uint64_t spread = 39;

    if (store->tries > 20 && !is_urgent(store))
        return 50 + tn_prng_below(&store->sqlite->prng, 50);
    if (store->tries < 12)
        spread = store->tries / 3;
    else if (store->tries < 30)
        spread = 9;
    return 1 + tn_prng_below(&store->sqlite->prng, spread + 1);
}

static tenure_ns wake_at(const struct tn_sqlite_store *store, tenure_ns now)
{
    const struct tn_heap_node *first = tn_heap_first(&store->looks);
    tenure_ns wake = store->tick_at;
    bool listens = store->base.sessions.count > 0 || first != NULL;

    if (first != NULL && first->at < wake)
        wake = first->at;
    /* No inotify to be had: look at the bell now and then. */
    if (listens && !store->listening && now + TN_MS(200) < wake)
        wake = now + TN_MS(200);
    if (listens && wake < store->rest_until)
        wake = store->rest_until;
    return wake;
}

static void schedule(struct tn_sqlite_store *store)
{
    tenure_ns now = tn_clock_now(store->base.how.clock);
    enum tn_sqlite_want want = tn_sqlite_wants(store, now);

    if (want == TN_SQLITE_WANTS_NOTHING)
        tn_timer_arm(store->timer, wake_at(store, now));
    else if (want == TN_SQLITE_WANTS_COMMIT)
        (void)uv_timer_start(&store->later, later, 1, 0);
    else if (store->tries > 0)
        (void)uv_timer_start(&store->later, later, busy_ms(store), 0);
    else
        tn_store_kick(&store->base);
}

void tn_sqlite_loop_turn(struct tn_store *base)
{
    struct tn_sqlite_store *store = (struct tn_sqlite_store *)base;

    (void)uv_timer_stop(&store->later);
    tn_sqlite_turn(store);
    if (!base->closing)
        schedule(store);
}

static void later(uv_timer_t *timer)
{
    tn_store_kick(timer->data);
}

void tn_sqlite_kick(struct tn_sqlite_store *store)
{
    /* Another process is in the way: the turn that comes anyhow takes all. */
    if (!uv_is_active((const uv_handle_t *)&store->later))
        tn_store_kick(&store->base);
}

/* --- Waking up ------------------------------------------------------------------------------ */

static void read_bell(struct tn_sqlite_store *store)
{
    tenure_ns now = tn_clock_now(store->base.how.clock);
    struct tn_sqlite_session *session = NULL;
    struct tn_bell_page page;

    tn_bell_read(store->sqlite, &store->bell, &page);
    while ((session = tn_sqlite_next_session(store, session)) != NULL) {
        if (page.slots[session->slot] != store->page.slots[session->slot])
            session->moved = true;
    }
    for (unsigned slot = TN_BELL_HALF; slot < TN_BELL_SLOTS; slot++) {
        if (page.slots[slot] != store->page.slots[slot])
            tn_sqlite_watches_moved(store, slot, now);
    }
    store->page = page;
}

static void hear_bell(uv_poll_t *handle, int status, int events)
{
    struct tn_sqlite_store *store = handle->data;

    (void)status;
    (void)events;
    if (store->base.closing)
        return;
    if (tn_bell_drain(&store->bell))
        store->listening = tn_bell_listen(store->sqlite, &store->bell);
    read_bell(store);
    tn_sqlite_kick(store);
}

/* Once there is an inotify descriptor, it stays. */
static void start_listening(struct tn_sqlite_store *store)
{
    if (store->listening)
        return;
    store->listening = tn_bell_listen(store->sqlite, &store->bell);
    if (store->has_ear || store->bell.watch < 0)
        return;
    if (uv_poll_init(store->base.how.loop, &store->ear, store->bell.watch) != 0) {
        store->listening = false;
        return;
    }
    store->has_ear = true;
    tn_store_add_handle(&store->base, &store->ear);
    (void)uv_poll_start(&store->ear, UV_READABLE, hear_bell);
}

static void hear_alarm(uv_poll_t *handle, int status, int events)
{
    struct tn_sqlite_store *store = handle->data;
    uint64_t count;

    (void)status;
    (void)events;
    ssize_t len = read(store->timer, &count, sizeof count);
    (void)len;
    if (store->base.closing)
        return;
    if (!store->listening) {
        start_listening(store);
        read_bell(store);
    }
    if (tn_clock_now(store->base.how.clock) >= store->tick_at) {
        store->look = true;
        store->tick_at = TN_NEVER;
    }
    tn_sqlite_kick(store);
}

/* --- Opening and closing -------------------------------------------------------------------- */

void tn_sqlite_loop_free(struct tn_store *base)
{
    struct tn_sqlite_store *store = (struct tn_sqlite_store *)base;

    tn_bell_done(&store->bell);
    if (store->timer >= 0)
        (void)close(store->timer);
    tn_sqlite_close(store->sqlite);
    free(store->news);
}

static void start(struct tn_sqlite_store *store)
{
    (void)uv_timer_init(store->base.how.loop, &store->later);
    tn_store_add_handle(&store->base, &store->later);
    tn_store_add_handle(&store->base, &store->alarm);
    (void)uv_poll_start(&store->alarm, UV_READABLE, hear_alarm);
    start_listening(store);
    tn_bell_read(store->sqlite, &store->bell, &store->page);
}

int tn_sqlite_loop_open(const struct tn_store_ops *ops, const struct tn_store_open *how,
                        struct tn_sqlite_store **ret_store, struct tn_text *reterr)
{
    struct tn_sqlite_store *store = tn_store_new(sizeof *store, ops, how, reterr);
    char path[PATH_MAX];
    char text[256];
    struct tn_text error;

    if (store == NULL)
        return TENURE_E_NOMEM;
    store->tick_at = TN_NEVER;
    store->bell = (struct tn_bell) { .file = -1, .watch = -1 };
    store->timer = tn_timer_open();
    int rc = store->timer >= 0 ? 0 : TENURE_E_UNAVAILABLE;
    if (rc < 0)
        tn_text_add(reterr, "no descriptor is left for a timer");
    if (rc == 0)
        rc = tn_sqlite_path(how->rest, how->create, path, reterr);
    if (rc == 0)
        rc = tn_sqlite_new(path, how->clock, &store->sqlite, reterr);
    if (rc == 0) {
        tn_text_init(&error, text, sizeof text);
        rc = tn_sqlite_connect(store->sqlite, how->create, &error);
        /* Others are busy with it right now; the first turn connects. */
        if (rc == TENURE_E_UNAVAILABLE && store->sqlite->was_busy)
            rc = 0;
        else if (rc < 0)
            tn_text_add(reterr, text);
    }
    if (rc == 0 && uv_poll_init(how->loop, &store->alarm, store->timer) != 0) {
        tn_text_add(reterr, "the loop cannot watch a timer");
        rc = TENURE_E_UNAVAILABLE;
    }
    if (rc < 0)
        return tn_store_discard(&store->base, rc, NULL, reterr);
    start(store);
    *ret_store = store;
    return 0;
}
