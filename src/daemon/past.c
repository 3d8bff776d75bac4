/* past.c - the history of terms in the daemon: kept in memory, written to "history" beside the
 * journal.
 *
 * Happy path: a step of the table tells of a change, and a line about it gathers in memory. A
 * moment later a thread of libuv's pool appends the lines to the file. So no grant waits for them,
 * and they are not flushed: a crash of the machine may cost the last lines, as SIGKILL may cost
 * those of the last WRITE_MS. The journal stays the truth: at the start, what the history says is
 * open is compared with the leases that are held.
 *
 * What can fail: the writing. That is said once, and the daemon serves on. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "core/note.h"
#include "daemon/server.h"
#include "runtime/history_file.h"
#include "runtime/random.h"

#define FILE_NAME "history"
#define WRITE_MS 200
#define BEAT_MS 5000           /* So exactly the file tells when the daemon was last there. */
#define WHOLE_EVERY TN_SEC(10) /* The whole file is not written more often. */
#define PER_NAME 100
#define IN_ALL 50000

/* Lines on their way to the disk; they belong to the thread of the pool until it is done. */
struct tn_past_job {
    uv_work_t work;
    struct tn_server *server;
    char *bytes; /* NULL: only a sign of life. */
    size_t len;
    bool whole;
    int error;
};

/* --- The file --------------------------------------------------------------------------------- */

static int write_file(int dir, const char *bytes, size_t len, bool whole)
{
    const char *name = whole ? FILE_NAME ".new" : FILE_NAME;
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK; /* A pipe never waits. */
    int fd = openat(dir, name, flags | (whole ? O_TRUNC : O_APPEND), 0600);

    if (fd >= 0)
        (void)futimens(fd, NULL);
    int error = fd < 0 ? errno : tn_history_file_write(fd, bytes, len);
    if (error == 0 && whole && renameat(dir, name, dir, FILE_NAME) != 0)
        error = errno;
    if (error != 0 && whole)
        (void)unlinkat(dir, name, 0); /* On a full disk the journal needs the room. */
    return error;
}

static void say_failed(struct tn_server *server, int error)
{
    if (error != 0 && !server->past.failed)
        tn_log("%s/" FILE_NAME ": %s; the history of terms has a hole from here on",
               server->config.journal.dir, strerror(error));
    server->past.failed = error != 0;
    if (error != 0)
        server->past.history.whole = true;
}

/* --- Writing ---------------------------------------------------------------------------------- */

static void job_run(uv_work_t *work)
{
    struct tn_past_job *job = work->data;

    job->error = write_file(job->server->journal.dir_fd, job->bytes, job->len, job->whole);
}

static void job_done(uv_work_t *work, int status)
{
    struct tn_past_job *job = work->data;
    struct tn_past *past = &job->server->past;

    (void)status;
    if (job->bytes != NULL || job->error != 0) /* That a sign of life is there proves nothing. */
        say_failed(job->server, job->error);
    past->writing = false;
    free(job->bytes);
    free(job);
}

/* What is to be written; NULL: nothing, or not yet. */
static char *next_bytes(struct tn_server *server, size_t *ret_len, bool *ret_whole)
{
    struct tn_past *past = &server->past;

    *ret_whole = past->history.whole || tn_history_is_long(&past->history);
    if (!*ret_whole)
        return tn_history_take(&past->history, ret_len);
    if (server->now < past->whole_at)
        return NULL;
    past->whole_at = server->now + WHOLE_EVERY;
    return tn_history_dump(&past->history, ret_len);
}

static void write_due(uv_timer_t *timer)
{
    struct tn_server *server = timer->data;
    struct tn_past *past = &server->past;
    size_t len = 0;
    bool whole = false;

    if (past->writing)
        return;
    char *bytes = next_bytes(server, &len, &whole);
    if (bytes == NULL && server->now < past->beat_at)
        return;
    struct tn_past_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        free(bytes);
        past->history.whole = true;
        return;
    }
    *job = (struct tn_past_job) {
        .server = server, .bytes = bytes, .len = len, .whole = whole && bytes != NULL
    };
    job->work.data = job;
    past->beat_at = server->now + TN_MS(BEAT_MS);
    past->writing = uv_queue_work(&server->loop, &job->work, job_run, job_done) == 0;
    if (!past->writing) {
        free(bytes);
        free(job);
        past->history.whole = true;
    }
}

/* --- What happens ----------------------------------------------------------------------------- */

/* The sessions' end lets go of its leases, now or over several steps. */
static void mark_ending(struct tn_server *server, const struct tn_secret *secret)
{
    const struct tn_table *table = server->state.table;
    uint32_t session = tn_table_session_of(table, secret);
    struct tn_lease_view view;

    for (uint32_t lease = 0;
         session != 0 && (lease = tn_table_next_held(table, session, lease)) != 0;) {
        tn_table_lease(table, lease, &view);
        tn_history_ending(&server->past.history, view.name, view.name_len,
                          server->past.process_ended ? TN_TERM_GONE : TN_TERM_RELEASED);
    }
}

void tn_past_before(struct tn_server *server, const struct tn_op *op)
{
    if (op->kind == TN_OP_CLOSE)
        mark_ending(server, &op->session);
}

void tn_past_revoked(struct tn_server *server, uint32_t lease)
{
    struct tn_lease_view view;

    tn_table_lease(server->state.table, lease, &view);
    tn_history_ending(&server->past.history, view.name, view.name_len, TN_TERM_REVOKED);
}

static void end_term(struct tn_server *server, const struct tn_op *op,
                     const struct tn_lease_view *view, int64_t now)
{
    struct tn_past *past = &server->past;
    enum tn_term_end why = TN_TERM_OPEN;
    const struct tn_term *term =
        tn_history_current(&past->history, view->name, view->name_len, &why);
    int64_t heard = 0;

    if (term == NULL)
        return;
    if (why == TN_TERM_OPEN)
        why = op->kind == TN_OP_RELEASE ? TN_TERM_RELEASED : TN_TERM_EXPIRED;
    if (why == TN_TERM_EXPIRED) {
        heard = now - term->ttl_ms;
        if (past->away_from != 0 && heard <= past->back_at + WRITE_MS) {
            why = TN_TERM_STORE; /* Not heard of since the daemon is back. */
            heard = past->away_from;
        }
        heard = heard > term->from ? heard : term->from;
    }
    tn_history_ended(&past->history, view->name, view->name_len, term->token, why, now, heard);
}

/* An operator's note is no leader: its end leaves no gap. */
static bool is_note(const struct tn_lease_view *view)
{
    size_t len = sizeof TN_NOTE_PREFIX - 1;

    return view->name_len >= len && memcmp(view->name, TN_NOTE_PREFIX, len) == 0;
}

static void begin_term(struct tn_server *server, const struct tn_lease_view *view, int64_t now)
{
    if (is_note(view))
        return;
    tn_history_began(&server->past.history, view->name, view->name_len,
                     &(struct tn_term) { .token = view->token,
                                         .from = now,
                                         .ttl_ms = view->ttl / TN_MS(1),
                                         .label = view->label,
                                         .label_len = view->label_len });
}

void tn_past_changed(struct tn_server *server, const struct tn_op *op,
                     const struct tn_notice *notice)
{
    struct tn_lease_view view;
    int64_t now = tn_wall_ms();

    tn_table_lease(server->state.table, notice->lease, &view);
    end_term(server, op, &view, now);
    if (notice->held && view.session != NULL && view.token == notice->token)
        begin_term(server, &view, now);
}

/* --- Beginning and end ------------------------------------------------------------------------ */

/* The journal says who holds what; a term that it does not know ended while nobody wrote. */
static void compare_with_table(struct tn_server *server)
{
    struct tn_past *past = &server->past;
    const struct tn_table *table = server->state.table;
    const struct tn_history_name *name = NULL;
    struct tn_lease_view view;
    struct tn_result result;
    enum tn_term_end why;

    while ((name = tn_history_next(&past->history, name)) != NULL) {
        size_t len;
        const char *text = tn_history_name_text(name, &len);
        const struct tn_term *term = tn_history_current(&past->history, text, len, &why);
        struct tn_op op = { .kind = TN_OP_READ, .name = text, .name_len = (uint32_t)len };
        if (term == NULL)
            continue;
        tn_table_step(server->state.table, server->now, &op, &result);
        if (result.answer != TN_ANSWER_HELD || result.token != term->token)
            tn_history_ended(&past->history, text, len, term->token, TN_TERM_UNKNOWN,
                             past->away_from > term->from ? past->away_from : term->from, 0);
    }
    for (uint32_t lease = 0; (lease = tn_table_next(table, lease)) != 0;) {
        tn_table_lease(table, lease, &view);
        if (view.session != NULL)
            begin_term(server, &view, past->back_at);
    }
}

int tn_past_open(struct tn_server *server)
{
    struct tn_past *past = &server->past;
    struct tn_hash_key seed = server->config.limits.hash_key;
    int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;

    tn_history_init(&past->history, seed, PER_NAME, IN_ALL);
    past->back_at = tn_wall_ms();
    (void)tn_history_file_read(openat(server->journal.dir_fd, FILE_NAME, flags), &past->history,
                               &past->away_from);
    if (past->history.since == 0) {
        past->history.since = past->back_at;
        past->history.whole = true;
        past->away_from = 0;
    }
    compare_with_table(server);
    return 0;
}

int tn_past_start(struct tn_server *server)
{
    int rc = uv_timer_init(&server->loop, &server->past.timer);

    server->past.timer.data = server;
    return rc != 0 || server->journal.none
               ? rc
               : uv_timer_start(&server->past.timer, write_due, 0, WRITE_MS);
}

/* The loop has ended, and with it what was on its way. */
void tn_past_close(struct tn_server *server)
{
    size_t len;
    bool whole;

    if (server->journal.none) {
        tn_history_done(&server->past.history);
        return;
    }
    server->past.whole_at = 0;
    char *bytes = next_bytes(server, &len, &whole);
    say_failed(server, write_file(server->journal.dir_fd, bytes, bytes != NULL ? len : 0,
                                  bytes != NULL && whole));
    free(bytes);
    tn_history_done(&server->past.history);
}
