/* flush.c - the flush, the sending that waits for it, and who serves when it lasts.
 *
 * Happy path: replies have gathered in the buffers of the dirty connections, and their records in
 * the journal. The thread that serves flushes the records itself, which is faster than to have
 * another do it; then the buffers are sent, in the order of their first reply. So the new holder of
 * a lease hears of the grant before the former one hears that its release is done.
 *
 * What can fail: the flush, which ends the program; and the disk may hang. Holders live on their
 * renewals, which need no disk, so there is a second thread that does nothing but look now and then
 * whether a flush lasts. If so it takes the loop over and serves on: replies that wait for that
 * flush, or for the next one, are held back, all others are sent. When the flush is over its thread
 * reports to the loop and stands by in its turn.
 *
 * All of the server belongs to the thread that serves. Between let_go and take_back that may become
 * the other one, so the first must not touch it meanwhile, but for the sealed frame of the journal;
 * and as libuv's loop cannot be entered twice, no flush is made from inside it. */
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/time.h"
#include "daemon/server.h"
#include "runtime/clock.h"

/* A flush lasts when it takes longer than this; looked for as often. */
#define PATIENCE TN_MS(10)
/* After so many looks at which nothing had been flushed, the second thread sleeps until it is. */
#define LOOKS_MAX 100

enum { STATUS_IO = 74 };

/* What the disk refused cannot be taken back from the table, so nothing may be said any more. */
_Noreturn static void give_up(const struct tn_text *why)
{
    tn_log_error("%s: ending without answering, so that nothing is promised that is not on disk",
                 tn_text_str(why));
    tn_log_finish();
    _exit(STATUS_IO);
}

/* --- Sending ---------------------------------------------------------------------------------- */

static void send_bulk(struct tn_server *server)
{
    struct tn_bulk *bulk = &server->bulk;

    tn_bulk_go(bulk);
    for (uint32_t i = 0; i < bulk->count; i++)
        tn_conn_sent(bulk->list[i].arg, bulk->list[i].len, bulk->list[i].result);
    bulk->count = 0;
}

/* Send the first @len bytes of its buffer, together with those of others: send_bulk must
 * follow, before anybody is told anything. */
static void put_in_bulk(struct tn_conn *conn, size_t len)
{
    struct tn_bulk *bulk = &conn->server->bulk;
    bool plain = tn_conn_is_plain(conn) && len > 0;

    if (!plain || bulk->count == TN_BULK_MAX)
        send_bulk(conn->server);
    if (plain)
        tn_bulk_send(bulk, conn, conn->fd, conn->out.buf, len);
    else
        tn_conn_send(conn, len);
}

void tn_flush_send(struct tn_server *server)
{
    /* What somebody who had to be cut off let go of is not on disk yet, and may be in what follows:
     * that is for the next turn. */
    while (server->dirty != NULL && !tn_journal_is_pending(&server->journal)) {
        struct tn_conn *conn = server->dirty;
        tn_conn_untouch(conn);
        put_in_bulk(conn, conn->out.len);
    }
    send_bulk(server);
}

void tn_flush_send_unbound(struct tn_server *server)
{
    struct tn_conn *next;

    for (struct tn_conn *conn = server->dirty; conn != NULL; conn = next) {
        next = conn->dirty_next;
        if (!conn->dirty || conn->bound || conn->gated) /* It may have been closed meanwhile. */
            continue;
        tn_conn_untouch(conn);
        put_in_bulk(conn, conn->out.len);
    }
    send_bulk(server);
}

/* Holds back every connection with unsent replies until the flush that is under way ends. */
static void gate_all(struct tn_server *server)
{
    struct tn_conn **last = &server->gated;

    TN_ASSERT(server->gated == NULL);
    while (server->dirty != NULL) {
        struct tn_conn *conn = server->dirty;
        tn_conn_untouch(conn);
        conn->gated = true;
        conn->sendable = conn->out.len;
        conn->gated_next = NULL;
        *last = conn;
        last = &conn->gated_next;
    }
}

static void send_gated(struct tn_server *server)
{
    while (server->gated != NULL) {
        struct tn_conn *conn = server->gated;
        server->gated = conn->gated_next;
        conn->gated = false;
        put_in_bulk(conn, conn->sendable);
    }
    send_bulk(server);
}

/* --- Who serves ------------------------------------------------------------------------------- */

static void let_go(struct tn_baton *baton)
{
    uv_mutex_lock(&baton->lock);
    baton->flushes++;
    baton->began = uv_hrtime();
    if (baton->asleep)
        uv_cond_signal(&baton->called);
    uv_mutex_unlock(&baton->lock);
}

/* The flush is over. Returns whether the server still is the caller's. */
static bool take_back(struct tn_baton *baton, int error)
{
    uv_mutex_lock(&baton->lock);
    bool taken = baton->taken;
    baton->error = error;
    baton->began = 0;
    baton->taken = false;
    if (taken)
        (void)uv_async_send(&baton->landed);
    uv_mutex_unlock(&baton->lock);
    return !taken;
}

static bool lasts(const struct tn_baton *baton)
{
    return baton->began != 0 && !baton->taken && uv_hrtime() - baton->began >= (uint64_t)PATIENCE;
}

bool tn_flush_stand_by(struct tn_server *server)
{
    struct tn_baton *baton = &server->baton;
    uint64_t seen = 0;
    unsigned looks = 0;

    uv_mutex_lock(&baton->lock);
    while (!baton->over && !lasts(baton)) {
        looks = baton->flushes == seen ? looks + 1 : 0;
        seen = baton->flushes;
        baton->asleep = looks > LOOKS_MAX;
        if (baton->asleep)
            uv_cond_wait(&baton->called, &baton->lock);
        else
            (void)uv_cond_timedwait(&baton->called, &baton->lock, PATIENCE);
    }
    baton->asleep = false;
    bool over = baton->over;
    baton->taken = !over;
    uv_mutex_unlock(&baton->lock);
    if (over)
        return false;
    server->flushing = true;
    gate_all(server);
    return true;
}

void tn_flush_end(struct tn_server *server)
{
    uv_mutex_lock(&server->baton.lock);
    server->baton.over = true;
    uv_cond_signal(&server->baton.called);
    uv_mutex_unlock(&server->baton.lock);
}

/* --- The flush -------------------------------------------------------------------------------- */

static void take_note(struct tn_server *server, int error)
{
    char line[400];
    struct tn_text err;

    tn_text_init(&err, line, sizeof line);
    if (tn_journal_landed(&server->journal, error, &err) != 0)
        give_up(&err);
    if (server->journal.witness_error != 0 && !server->witness_failed)
        tn_log("%s: %s; an older copy of the data would not be noticed",
               server->config.journal.witness, strerror(server->journal.witness_error));
    tn_pending_landed(server);
    server->witness_failed = server->journal.witness_error != 0;
    tn_histogram_add(&server->flushes, tn_boottime() - server->flush_began);
}

enum tn_flushed tn_flush(struct tn_server *server)
{
    char line[400];
    struct tn_text err;

    if (server->flushing)
        return TN_FLUSH_LASTS;
    if (!tn_journal_is_pending(&server->journal))
        return TN_FLUSH_OVER;
    tn_text_init(&err, line, sizeof line);
    if (tn_journal_seal(&server->journal, &err) != 0)
        give_up(&err);
    tn_pending_sealed(server);
    server->flush_began = tn_boottime();
    let_go(&server->baton);
    int error = tn_journal_write_out(&server->journal);
    if (!take_back(&server->baton, error))
        return TN_FLUSH_TAKEN;
    take_note(server, error);
    return TN_FLUSH_OVER;
}

/* On the thread that took over; those who waited are answered, with what they had to be told by
 * then. */
static void landed(uv_async_t *async)
{
    struct tn_server *server = async->data;

    uv_mutex_lock(&server->baton.lock);
    int error = server->baton.error;
    uv_mutex_unlock(&server->baton.lock);
    server->flushing = false;
    take_note(server, error);
    send_gated(server);
}

int tn_flush_open(struct tn_server *server)
{
    struct tn_baton *baton = &server->baton;

    server->dirty_last = &server->dirty;
    tn_bulk_open(&server->bulk);
    int rc = uv_async_init(&server->loop, &baton->landed, landed);
    baton->landed.data = server;
    if (rc == 0)
        rc = uv_mutex_init(&baton->lock);
    if (rc == 0)
        rc = uv_cond_init(&baton->called);
    return rc;
}

void tn_flush_close(struct tn_server *server)
{
    tn_bulk_close(&server->bulk);
    uv_cond_destroy(&server->baton.called);
    uv_mutex_destroy(&server->baton.lock);
}
