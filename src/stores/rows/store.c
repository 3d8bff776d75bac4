/* store.c - sessions, names and requests of a store on rows; rows.h has the picture.
 *
 * Happy path: submit() finds the session and the claim, and starts the recipe on it; the recipe
 * asks the engine; its answer comes in a later turn of the loop, goes to the recipe, and what the
 * recipe answers then goes out: news first, so that a term's end is told before the renewal that
 * found out.
 * What can fail: memory, which fails the request; the engine, which the recipe knows about. */
#include "stores/rows/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/sha256.h"
#include "core/plan.h"
#include "runtime/random.h"
#include "stores/rows/inside.h"

/* Requests of which the engine is asked at once; more would only wait in its queues. */
enum { ACTIVE_MAX = 64 };

#define POLL_AGAIN TN_SEC(1) /* A poll that failed; no engine with a feed polls as often. */

tenure_ns tn_rows_now_of(const struct tn_rows_store *store)
{
    return tn_clock_now(store->base.how.clock);
}

/* --- The turn of the loop --------------------------------------------------------------------- */

static void turn(uv_idle_t *handle);

void tn_rows_kick(struct tn_rows_store *store)
{
    (void)uv_idle_start(&store->turn, turn);
}

static void add_news(struct tn_rows_store *store, const char *name,
                     const struct tn_store_record *record)
{
    struct tn_rows_news *news = calloc(1, sizeof *news);

    if (news == NULL)
        return; /* News may be lost; the candidate's polls are the backstop. */
    news->record = *record;
    (void)snprintf(news->name, sizeof news->name, "%s", name);
    *store->news_end = news;
    store->news_end = &news->next;
    tn_rows_kick(store);
}

static void tell_news(struct tn_rows_store *store)
{
    const struct tn_store_open *how = &store->base.how;
    struct tn_rows_news *news = store->news;

    store->news = NULL;
    store->news_end = &store->news;
    while (news != NULL) {
        struct tn_rows_news *next = news->next;
        if (!store->base.closing)
            how->host->changed(how->arg, news->name, &news->record);
        free(news);
        news = next;
    }
}

/* Ends of terms, which must not be lost: they need no memory, and no answer goes out before. */
static void tell_ends(struct tn_rows_store *store)
{
    const struct tn_store_open *how = &store->base.how;

    for (struct tn_rows_session *each = store->sessions; each != NULL; each = each->next) {
        for (struct tn_rows_claim *at = each->rows.claims; at != NULL; at = at->next) {
            struct rows_claim *claim = (struct rows_claim *)(void *)at;
            char name[TN_NAME_MAX + 1];
            if (!claim->untold)
                continue;
            claim->untold = false;
            memcpy(name, claim->watch->name, sizeof name);
            how->host->revoked(how->arg, name, at->token);
            if (store->base.closing)
                return; /* All of it is gone. */
        }
    }
}

static void add_answer(struct tn_rows_store *store, struct tn_store_req *req)
{
    tn_req_add(&store->answers, req);
    tn_rows_kick(store);
}

static void fail_req(struct tn_rows_store *store, struct tn_store_req *req, int status,
                     const char *why)
{
    tn_req_fail(req, status, why);
    add_answer(store, req);
}

/* --- Records ---------------------------------------------------------------------------------- */

void tn_rows_record(const struct tn_row *row, const char *version,
                    struct tn_store_record *ret_record)
{
    uint32_t len = row->label_len < TN_LABEL_MAX ? row->label_len : TN_LABEL_MAX;

    *ret_record =
        (struct tn_store_record) { .held = row->held, .token = tn_row_token(row, version) };
    if (!row->held)
        return;
    ret_record->beat = tn_row_beat(version);
    ret_record->revoked = row->revoked;
    ret_record->ttl = row->ttl;
    ret_record->remaining = row->ttl;
    ret_record->term = row->term;
    ret_record->label_len = len;
    if (len > 0)
        memcpy(ret_record->label, row->label, len);
}

/* The same as this process sees it: a holder that was silent for long enough holds nothing. */
void tn_rows_judge_record(struct tn_rows_store *store, const struct tn_rows_watch *watch,
                          struct tn_store_record *record)
{
    tenure_ns at = tn_observer_wake_at(&watch->known.observer);
    tenure_ns now = tn_rows_now_of(store);

    if (!record->held || at == TN_NEVER)
        return;
    if (at <= now)
        *record = (struct tn_store_record) { .token = record->token };
    else
        record->remaining = at - now;
}

void tn_rows_tell_change(struct tn_rows_store *store, struct tn_rows_watch *watch,
                         const struct tn_store_record *record)
{
    if (watch->watches == 0 ||
        (watch->told && watch->told_held == record->held && watch->told_token == record->token))
        return;
    watch->told = true;
    watch->told_held = record->held;
    watch->told_token = record->token;
    add_news(store, watch->name, record);
}

/* --- Names ------------------------------------------------------------------------------------ */

struct tn_rows_watch *tn_rows_find_name(struct tn_rows_store *store, const char *name, size_t len)
{
    struct tn_rows_watch *watch = store->names;

    while (watch != NULL && (strlen(watch->name) != len || memcmp(watch->name, name, len) != 0))
        watch = watch->next;
    return watch;
}

static struct tn_rows_watch *get_name(struct tn_rows_store *store, const char *name, size_t len)
{
    struct tn_rows_watch *watch = tn_rows_find_name(store, name, len);

    if (watch == NULL && (watch = calloc(1, sizeof *watch)) != NULL) {
        memcpy(watch->name, name, len);
        watch->poll_at = TN_NEVER;
        watch->next = store->names;
        store->names = watch;
    }
    return watch;
}

/* What was observed of a name is forgotten once nobody here has wanted it for a TTL. */
static void drop_names(struct tn_rows_store *store)
{
    struct tn_rows_watch **link = &store->names;

    while (*link != NULL) {
        struct tn_rows_watch *watch = *link;
        const struct tn_observer *observer = &watch->known.observer;
        bool observed =
            observer->watching && tn_rows_now_of(store) < observer->since + 2 * observer->wait;
        if (watch->watches > 0 || watch->claims > 0 || (observed && !store->base.closing)) {
            link = &watch->next;
            continue;
        }
        *link = watch->next;
        free(watch);
    }
}

/* --- Sessions and claims ---------------------------------------------------------------------- */

static const struct tn_rows_host recipe_host;

static struct tn_rows_session *find_session(struct tn_rows_store *store,
                                            const struct tn_secret *hash)
{
    struct tn_rows_session *session = store->sessions;

    while (session != NULL && !tn_secret_equal(&session->rows.session, hash))
        session = session->next;
    return session;
}

static struct tn_rows_session *add_session(struct tn_rows_store *store,
                                           const struct tn_secret *hash, const struct tn_op *op)
{
    struct tn_rows_session *session = calloc(1, sizeof *session);
    tenure_ns ttl = op->kind == TN_OP_OPEN ? op->ttl : TN_TTL_MIN;
    struct tn_plan plan;
    struct tn_timing timing;

    if (session == NULL)
        return NULL;
    if (ttl < store->base.ops->ttl_min)
        ttl = store->base.ops->ttl_min; /* The answer says so. */
    tn_plan_init(&plan, ttl);
    tn_plan_timing(&plan, ttl, &timing);
    if (op->kind != TN_OP_OPEN) /* No deadline waits for it. */
        timing.attempt_timeout = store->base.how.patience;
    tn_rows_init(&session->rows, &recipe_host, session, hash, ttl, timing.attempt_timeout,
                 store->base.how.patience);
    session->rows.mints = store->engine->mints;
    session->rows.has_sessions = store->engine->session != NULL;
    session->store = store;
    if (op->label_len > 0)
        memcpy(session->label, op->label, op->label_len);
    session->rows.label = session->label;
    session->rows.label_len = op->label_len;
    session->next = store->sessions;
    store->sessions = session;
    return session;
}

static struct rows_claim *find_claim(struct tn_rows_session *session,
                                     const struct tn_rows_watch *watch,
                                     const struct tn_secret *term)
{
    for (struct tn_rows_claim *each = session->rows.claims; each != NULL; each = each->next) {
        struct rows_claim *claim = (struct rows_claim *)(void *)each;
        if (claim->watch == watch && tn_secret_equal(&each->term, term))
            return claim;
    }
    return NULL;
}

static struct rows_claim *add_claim(struct tn_rows_session *session, struct tn_rows_watch *watch,
                                    const struct tn_secret *term)
{
    struct rows_claim *claim = calloc(1, sizeof *claim);

    if (claim == NULL)
        return NULL;
    tn_rows_add(&session->rows, &claim->claim, &watch->known, term);
    claim->session = session;
    claim->watch = watch;
    watch->claims++;
    return claim;
}

static void free_claim(struct rows_claim *claim)
{
    for (struct tn_rows_io *io = claim->session->store->under_way; io != NULL; io = io->next)
        if (io->claim == claim)
            io->claim = NULL;
    for (struct tn_rows_io *io = claim->session->store->ended; io != NULL; io = io->next)
        if (io->claim == claim)
            io->claim = NULL;
    if (claim->req != NULL)
        claim->session->store->active--;
    tn_rows_remove(&claim->claim);
    claim->watch->claims--;
    if (claim->watch->poll == claim)
        claim->watch->poll = NULL;
    free(claim);
}

/* A claim that is over is kept until its answers are out: the recipe may still be using it. */
static void drop_claims(struct tn_rows_session *session)
{
    struct tn_rows_claim *next;

    for (struct tn_rows_claim *each = session->rows.claims; each != NULL; each = next) {
        struct rows_claim *claim = (struct rows_claim *)(void *)each;
        next = each->next;
        if (each->goal == TN_ROWS_REST && !each->held && !each->revoked && each->request == 0 &&
            claim->req == NULL && claim->waiting.first == NULL && !claim->untold)
            free_claim(claim);
    }
}

/* The session is to be closed: each row that it has is released, once; what cannot be released is
 * left to those who observe it. */
static void give_back(struct tn_rows_session *session)
{
    struct tn_op op = { .kind = TN_OP_RELEASE };

    for (struct tn_rows_claim *each = session->rows.claims; each != NULL; each = each->next) {
        struct rows_claim *claim = (struct rows_claim *)(void *)each;
        if ((!each->held && !each->revoked) || !tn_rows_is_free(each) || claim->req != NULL)
            continue;
        if (!claim->given_back)
            tn_rows_start(each, tn_rows_now_of(session->store), &op);
        else if (each->goal == TN_ROWS_REST)
            each->held = each->revoked = false;
        claim->given_back = true;
    }
}

static void drop_sessions(struct tn_rows_store *store)
{
    struct tn_rows_session **link = &store->sessions;

    while (*link != NULL) {
        struct tn_rows_session *session = *link;
        if (session->close != NULL)
            give_back(session);
        drop_claims(session);
        if (session->close != NULL && session->rows.claims == NULL) {
            add_answer(store, session->close);
            session->close = NULL;
        }
        if (session->kept || session->rows.claims != NULL || session->renewals.first != NULL) {
            link = &session->next;
            continue;
        }
        *link = session->next;
        tn_rows_close_session(&session->rows);
        tn_rows_forget_calls(store, session);
        free(session);
    }
}

/* --- What the recipe asks of the engine ------------------------------------------------------- */

static struct tn_rows_io *new_io(struct rows_claim *claim, uint64_t request, bool put)
{
    struct tn_rows_store *store = claim->session->store;
    struct tn_rows_io *io = calloc(1, sizeof *io);

    if (io == NULL)
        return NULL; /* The recipe gives up waiting for it, by its own clock. */
    io->store = store;
    io->claim = claim;
    io->request = request;
    io->put = put;
    memcpy(io->name, claim->watch->name, sizeof io->name);
    io->next = store->under_way;
    store->under_way = io;
    return io;
}

static void recipe_get(void *arg, struct tn_rows_claim *claim, uint64_t request)
{
    const struct tn_rows_session *session = arg;
    struct tn_rows_io *io = new_io((struct rows_claim *)(void *)claim, request, false);

    if (io != NULL)
        session->store->engine->get(session->store, io);
}

static void recipe_put(void *arg, struct tn_rows_claim *claim, uint64_t request,
                       const struct tn_row *row)
{
    const struct tn_rows_session *session = arg;
    struct tn_rows_io *io = new_io((struct rows_claim *)(void *)claim, request, true);

    if (io != NULL)
        session->store->engine->put(session->store, io, row, claim->version);
}

const char *tn_rows_io_name(const struct tn_rows_io *io)
{
    return io->name;
}

const char *tn_rows_io_label(const struct tn_rows_io *io)
{
    return io->claim != NULL ? io->claim->session->label : "";
}

static void end_io(struct tn_rows_io *io, const char *version, const char *why)
{
    struct tn_rows_store *store = io->store;
    struct tn_rows_io **link = &store->under_way;
    struct tn_rows_io **last = &store->ended;

    while (*link != io)
        link = &(*link)->next;
    *link = io->next;
    io->next = NULL;
    while (*last != NULL)
        last = &(*last)->next;
    *last = io;
    if (version != NULL && strlen(version) >= sizeof io->version) {
        /* Cut short, it could look like another one. */
        io->failed = true;
        io->outcome = TN_ROWS_UNKNOWN;
        why = "the engine's version of the row is too long";
    } else if (version != NULL) {
        memcpy(io->version, version, strlen(version) + 1);
    }
    if (why != NULL)
        (void)snprintf(io->error, sizeof io->error, "%s", why);
    tn_rows_kick(store);
}

void tn_rows_io_got(struct tn_rows_io *io, const struct tn_row *row, const char *version)
{
    TN_ASSERT(!io->put);
    if (row != NULL) {
        io->row = *row;
        io->row.label = io->label;
        if (io->row.label_len > TN_LABEL_MAX)
            io->row.label_len = TN_LABEL_MAX;
        if (io->row.label_len > 0)
            memcpy(io->label, row->label, io->row.label_len);
    }
    end_io(io, version, NULL);
}

void tn_rows_io_failed(struct tn_rows_io *io, const char *why)
{
    TN_ASSERT(!io->put);
    io->failed = true;
    end_io(io, NULL, why);
}

void tn_rows_io_denied(struct tn_rows_io *io, const char *why)
{
    io->failed = true;
    io->denied = true;
    io->outcome = TN_ROWS_FAILED;
    end_io(io, NULL, why);
}

void tn_rows_io_put(struct tn_rows_io *io, enum tn_rows_outcome outcome, const char *version,
                    const char *why)
{
    TN_ASSERT(io->put);
    io->outcome = outcome;
    end_io(io, version, why);
}

/* What one claim learned of a row concerns all others on that name: those that held it look whether
 * they still do. After a successful write nobody else's term is left to be given back. */
static void share(struct tn_rows_store *store, const struct rows_claim *by,
                  const struct tn_rows_io *io)
{
    bool written = io->put && io->outcome == TN_ROWS_WRITTEN;

    if (io->put ? !written : io->failed)
        return;
    /* A write that went through shows that nobody else has written: no read is needed until a
     * renewal is overdue. */
    if (written && by->claim.row.held && by->watch->poll_at != TN_NEVER)
        by->watch->poll_at = tn_rows_now_of(store) + by->claim.row.ttl / 2;
    (void)snprintf(by->watch->written, sizeof by->watch->written, "%s",
                   io->version[0] != '\0' ? io->version : "-");
    for (struct tn_rows_session *each = store->sessions; written && each != NULL; each = each->next)
        for (struct tn_rows_claim *at = each->rows.claims; at != NULL; at = at->next)
            if (at != &by->claim && at->name == by->claim.name && by->claim.row.held &&
                !by->claim.row.revoked)
                at->revoked = false;
}

static void pass_on(struct tn_rows_io *io, tenure_ns now)
{
    struct rows_claim *claim = io->claim;

    if (claim == NULL)
        return;
    share(io->store, claim, io);
    if (io->error[0] != '\0')
        memcpy(claim->error, io->error, sizeof claim->error);
    claim->denied = io->denied;
    if (io->put)
        tn_rows_put_done(&claim->claim, now, io->request, io->outcome, io->version);
    else if (io->failed)
        tn_rows_get_failed(&claim->claim, now, io->request);
    else
        tn_rows_got(&claim->claim, now, io->request, &io->row, io->version);
}

/* --- What the recipe answers ------------------------------------------------------------------ */

static bool is_stray(const struct tn_rows_store *store, const struct rows_claim *claim)
{
    for (const struct tn_rows_session *each = store->sessions; each != NULL; each = each->next)
        if (tn_rows_whose(&each->rows, &claim->watch->known, &claim->claim.row) == TN_ROWS_STRAY)
            return true;
    return false;
}

/* A read that nobody asked for, to learn of changes. */
static void end_poll(struct tn_rows_store *store, struct rows_claim *claim, bool failed)
{
    struct tn_rows_watch *watch = claim->watch;
    struct tn_store_record record;

    watch->poll = NULL;
    if (failed || is_stray(store, claim)) {
        watch->poll_at =
            tn_rows_now_of(store) + tn_plan_jittered(&store->prng, POLL_AGAIN, TN_PPM / 2);
        return;
    }
    /* A feed that lags behind a poll is not to be relied on. */
    watch->fed = watch->fed && tn_row_beat(claim->claim.version) == watch->shown_beat;
    tn_rows_record(&claim->claim.row, claim->claim.version, &record);
    tn_rows_judge_record(store, watch, &record);
    tn_rows_tell_change(store, watch, &record);
}

static void recipe_done(void *arg, struct tn_rows_claim *of, enum tn_rows_goal goal,
                        const struct tn_rows_answer *answer)
{
    struct tn_rows_session *session = arg;
    struct tn_rows_store *store = session->store;
    struct rows_claim *claim = (struct rows_claim *)(void *)of;
    struct tn_store_req *req = claim->req;
    bool stray = goal == TN_ROWS_READ && is_stray(store, claim);

    claim->req = NULL;
    if (claim->watch->poll == claim) {
        end_poll(store, claim, answer->failed || stray);
        return;
    }
    if (req == NULL)
        return; /* The session's end. */
    store->active--;
    if (answer->failed || stray) {
        int known = claim->denied ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE;
        fail_req(store, req, answer->unknown ? TENURE_E_TIMEOUT : known, claim->error);
        return;
    }
    if (goal == TN_ROWS_ACQUIRE && answer->answer == TN_ANSWER_HELD)
        claim->watch->refused = of->term;
    req->answer = answer->answer;
    tn_rows_record(&of->row, of->version, &req->record);
    if (answer->answer != TN_ANSWER_GRANTED)
        tn_rows_judge_record(store, claim->watch, &req->record);
    add_answer(store, req);
    if (goal != TN_ROWS_READ && claim->watch->watches > 0)
        claim->watch->poll_at = 0; /* What this process did is news to it, too. */
}

/* What the engine said about the last row that it did not write. */
static const char *renewal_error(const struct tn_rows_session *session)
{
    if (session->rows.has_sessions)
        return session->error[0] != '\0' ? session->error : "the session was not renewed in time";
    for (const struct tn_rows_claim *each = session->rows.claims; each != NULL; each = each->next) {
        const struct rows_claim *claim = (const struct rows_claim *)(const void *)each;
        if (claim->error[0] != '\0')
            return claim->error;
    }
    return "a row could not be written";
}

static void recipe_renewed(void *arg, uint64_t seq, enum tn_rows_outcome outcome, uint32_t held)
{
    struct tn_rows_session *session = arg;
    struct tn_req_list others = { NULL, NULL };
    struct tn_store_req *req;

    while ((req = tn_req_take(&session->renewals)) != NULL) {
        if (req->op.beat != seq) { /* Where the frame keeps its own number of it. */
            tn_req_add(&others, req);
            continue;
        }
        req->ttl = session->rows.ttl;
        req->held = held;
        if (outcome == TN_ROWS_GONE)
            req->answer = TN_ANSWER_GONE;
        if (outcome != TN_ROWS_WRITTEN && outcome != TN_ROWS_GONE)
            fail_req(session->store, req, TENURE_E_UNAVAILABLE, renewal_error(session));
        else
            add_answer(session->store, req);
    }
    session->renewals = others;
}

static void recipe_ended(void *arg, struct tn_rows_claim *of)
{
    const struct tn_rows_session *session = arg;

    ((struct rows_claim *)(void *)of)->untold = true;
    tn_rows_kick(session->store);
}

static uint64_t recipe_nonce(void *arg)
{
    const struct tn_rows_session *session = arg;

    return tn_prng_next(&session->store->prng);
}

static const struct tn_rows_host recipe_host = {
    recipe_get,   recipe_put,   recipe_done,           recipe_renewed,
    recipe_ended, recipe_nonce, tn_rows_recipe_session
};

/* --- Requests --------------------------------------------------------------------------------- */

static void start_next(struct rows_claim *claim)
{
    struct tn_rows_store *store = claim->session->store;
    const struct tn_store_req *next = claim->waiting.first;

    if (next == NULL || claim->req != NULL || !tn_rows_is_free(&claim->claim))
        return;
    if (store->active >= ACTIVE_MAX && next->op.kind != TN_OP_RELEASE)
        return; /* Its time counts from when the engine is asked; tick() starts it. */
    claim->req = tn_req_take(&claim->waiting);
    store->active++;
    claim->denied = false; /* What was said about an earlier one. */
    claim->error[0] = '\0';
    tn_rows_start(&claim->claim, tn_rows_now_of(store), &claim->req->op);
}

/* A candidate that was refused asks again every now and then. While the feed shows another holder
 * that is not silent, the engine would only say the same. */
static bool is_still_held(const struct tn_rows_store *store, const struct tn_rows_watch *watch,
                          const struct tn_secret *term)
{
    const struct tn_rows_name *known = &watch->known;

    return watch->fed && watch->shown.held && watch->watches > 0 &&
           tn_secret_equal(&watch->refused, term) &&
           (store->engine->session != NULL ||
            (known->observer.watching &&
             !tn_observer_vacant(&known->observer, tn_rows_now_of(store))));
}

static void ask_claim(struct tn_rows_store *store, struct tn_rows_session *session,
                      struct tn_store_req *req)
{
    const struct tn_op *op = &req->op;
    bool has_term = op->kind == TN_OP_ACQUIRE || op->kind == TN_OP_RELEASE;
    struct tn_rows_watch *watch = get_name(store, op->name, op->name_len);
    struct rows_claim *claim = NULL;
    struct tn_secret term;

    tn_secret_hash(&op->term, 't', &term);
    if (watch != NULL && op->kind == TN_OP_ACQUIRE && is_still_held(store, watch, &term)) {
        req->answer = TN_ANSWER_HELD;
        req->record = watch->shown;
        tn_rows_judge_record(store, watch, &req->record);
        add_answer(store, req);
        return;
    }
    if (watch != NULL && has_term)
        claim = find_claim(session, watch, &term);
    if (watch != NULL && claim == NULL)
        claim = add_claim(session, watch, has_term ? &term : NULL);
    if (claim == NULL) {
        fail_req(store, req, TENURE_E_NOMEM, "out of memory");
        return;
    }
    tn_req_add(&claim->waiting, req);
    start_next(claim);
}

/* Number 0 is newer than all before: a script does not know how often it was renewed. */
static void renew(struct tn_rows_store *store, struct tn_rows_session *session,
                  struct tn_store_req *req)
{
    struct tn_op *op = &req->op;

    if (op->seq != 0 && op->seq <= session->seq) {
        req->answer = TN_ANSWER_STALE;
        add_answer(store, req);
        return;
    }
    session->seq = op->seq != 0 ? op->seq : session->seq + 1;
    op->beat = session->rows.begun + 1;
    tn_req_add(&session->renewals, req);
    tn_rows_renew(&session->rows, tn_rows_now_of(store), op->beat);
}

static void close_session(struct tn_rows_store *store, struct tn_rows_session *session,
                          struct tn_store_req *req)
{
    session->kept = false;
    session->close = req;
    tn_rows_kick(store);
}

/* Nobody renewed it for a TTL: it is gone, as with any other store. */
static bool is_over(const struct tn_rows_store *store, struct tn_rows_session *session)
{
    bool over =
        session->kept && session->seq > 0 && tn_rows_is_over(&session->rows, tn_rows_now_of(store));

    if (over) {
        session->kept = false;
        for (struct tn_rows_claim *each = session->rows.claims; each != NULL; each = each->next)
            each->held = each->revoked = false;
    }
    return over;
}

static void ask_session(struct tn_rows_store *store, struct tn_store_req *req)
{
    const struct tn_op *op = &req->op;
    struct tn_rows_session *session;
    struct tn_secret hash;

    tn_secret_hash(&op->session, 's', &hash);
    session = find_session(store, &hash);
    if (session != NULL && (session->close != NULL || is_over(store, session)))
        session = NULL;
    /* What is left of one that is over, or was never opened here: good for a release only. */
    if (session != NULL && !session->kept && op->kind != TN_OP_RELEASE)
        session = NULL;
    if (session == NULL && op->kind == TN_OP_OPEN) {
        session = add_session(store, &hash, op);
        if (session == NULL) {
            fail_req(store, req, TENURE_E_NOMEM, "out of memory");
            return;
        }
        session->kept = true;
    }
    /* A script's release: the row knows its session, this process does not. */
    if (session == NULL && op->kind == TN_OP_RELEASE)
        session = add_session(store, &hash, op);
    if (session == NULL) {
        req->answer = op->kind == TN_OP_CLOSE ? TN_ANSWER_OK : TN_ANSWER_GONE;
        add_answer(store, req);
    } else if (op->kind == TN_OP_OPEN || op->kind == TN_OP_RENEW) {
        renew(store, session, req);
    } else if (op->kind == TN_OP_CLOSE) {
        close_session(store, session, req);
    } else {
        ask_claim(store, session, req);
    }
}

void tn_rows_submit(struct tn_store *base, struct tn_store_req *req)
{
    struct tn_rows_store *store = (struct tn_rows_store *)base;
    const char *fault = tn_op_fault(&req->op);

    tn_req_init(req);
    if (base->closing)
        fail_req(store, req, TENURE_E_CLOSED, "the store is closed");
    else if (fault != NULL)
        fail_req(store, req, TENURE_E_INVALID, fault);
    else if (req->op.kind == TN_OP_READ || req->op.kind == TN_OP_REVOKE)
        ask_claim(store, store->reader, req);
    else
        ask_session(store, req);
}

/* --- Watching --------------------------------------------------------------------------------- */

static void poll_name(struct tn_rows_store *store, struct tn_rows_watch *watch)
{
    struct tn_op op = { .kind = TN_OP_READ };

    if (watch->poll != NULL)
        return;
    watch->poll_at = TN_NEVER;
    if (store->engine->poll_every > 0)
        watch->poll_at = tn_rows_now_of(store) +
                         tn_plan_jittered(&store->prng, store->engine->poll_every, TN_PPM / 2);
    watch->poll = add_claim(store->reader, watch, NULL);
    if (watch->poll != NULL)
        tn_rows_start(&watch->poll->claim, tn_rows_now_of(store), &op);
}

void tn_rows_changed(struct tn_rows_store *store, const char *name, const char *version)
{
    struct tn_rows_watch *watch = tn_rows_find_name(store, name, strlen(name));

    if (watch == NULL)
        return;
    if (watch->watches > 0)
        watch->poll_at = 0;
    (void)snprintf(watch->written, sizeof watch->written, "%s", version);
    tn_rows_kick(store);
}

/* A holder whose row somebody else has written learns at once what it means. */
static void look_at_held(struct tn_rows_session *session, tenure_ns now)
{
    for (struct tn_rows_claim *each = session->rows.claims; each != NULL; each = each->next) {
        const struct rows_claim *claim = (const struct rows_claim *)(const void *)each;
        if (claim->watch->written[0] != '\0' && strcmp(claim->watch->written, each->version) != 0)
            tn_rows_look(each, now);
    }
}

int tn_rows_watch(struct tn_store *base, const char *name, bool on)
{
    struct tn_rows_store *store = (struct tn_rows_store *)base;
    struct tn_rows_watch *watch = get_name(store, name, strlen(name));

    if (watch == NULL)
        return TENURE_E_NOMEM;
    TN_ASSERT(on || watch->watches > 0);
    watch->watches += on ? 1U : -1U;
    watch->told = watch->told && watch->watches > 0;
    watch->poll_at = watch->watches > 0 ? (on ? 0 : watch->poll_at) : TN_NEVER;
    tn_rows_kick(store);
    if (store->engine->watch != NULL && watch->watches == (on ? 1U : 0U))
        store->engine->watch(store);
    return 0;
}

void tn_rows_list(struct tn_store *base, const char *prefix, tn_store_listed *done, void *arg)
{
    struct tn_rows_store *store = (struct tn_rows_store *)base;
    const struct tn_store_query query = { .listed = done, .arg = arg };

    if (tn_query_add(&store->lists, &query, prefix))
        tn_rows_kick(store);
}

static void start_lists(struct tn_rows_store *store)
{
    struct tn_store_query *query;

    while ((query = store->lists) != NULL) {
        store->lists = query->next;
        if (store->base.closing)
            tn_query_fail(query, TENURE_E_CLOSED, "the store is closed");
        else
            store->engine->list(store, query->prefix, query->listed, query->arg);
        free(query);
    }
}

/* --- Time ------------------------------------------------------------------------------------- */

static void wake(uv_timer_t *handle)
{
    tn_rows_kick(handle->data);
}

static tenure_ns wake_at(const struct tn_rows_store *store)
{
    tenure_ns at = TN_NEVER;

    for (const struct tn_rows_session *each = store->sessions; each != NULL; each = each->next)
        if (tn_rows_wake_at(&each->rows) < at)
            at = tn_rows_wake_at(&each->rows);
    for (const struct tn_rows_watch *each = store->names; each != NULL; each = each->next) {
        if (each->poll_at < at)
            at = each->poll_at;
        if (tn_rows_name_wake_at(&each->known) < at)
            at = tn_rows_name_wake_at(&each->known);
    }
    return at;
}

static void tick(struct tn_rows_store *store, tenure_ns now)
{
    for (struct tn_rows_session *each = store->sessions; each != NULL; each = each->next) {
        tn_rows_tick(&each->rows, now);
        look_at_held(each, now);
        for (struct tn_rows_claim *claim = each->rows.claims; claim != NULL; claim = claim->next)
            start_next((struct rows_claim *)(void *)claim);
    }
    for (struct tn_rows_watch *each = store->names; each != NULL; each = each->next) {
        struct tn_store_record free = { .token = each->known.observer.token };
        each->written[0] = '\0';
        if (tn_rows_name_is_vacated(&each->known, now)) {
            each->told = false; /* It may have been told as free before, and refused since. */
            tn_rows_tell_change(store, each, &free);
        }
        if (each->poll_at <= now && each->watches > 0)
            poll_name(store, each);
    }
}

static void close_handles(struct tn_rows_store *store);

static void turn(uv_idle_t *handle)
{
    struct tn_rows_store *store = handle->data;
    struct tn_rows_io *io;
    tenure_ns now = tn_rows_now_of(store);

    (void)uv_idle_stop(&store->turn);
    while ((io = store->ended) != NULL) {
        store->ended = io->next;
        if (!store->base.closing)
            pass_on(io, now);
        free(io);
    }
    tn_rows_pass_on_calls(store, now);
    if (!store->base.closing) {
        tick(store, now);
        drop_sessions(store);
        drop_names(store);
    }
    tell_ends(store);
    tell_news(store);
    tn_req_finish_all(&store->answers);
    start_lists(store);
    if (store->base.closing)
        close_handles(store);
    else
        tn_store_wake_at(&store->base, &store->timer, wake, wake_at(store));
}

/* --- Opening and closing ---------------------------------------------------------------------- */

static void free_session(struct tn_rows_store *store, struct tn_rows_session *session)
{
    while (session->rows.claims != NULL) {
        struct rows_claim *claim = (struct rows_claim *)(void *)session->rows.claims;
        if (claim->req != NULL)
            tn_req_add(&claim->waiting, claim->req);
        for (struct tn_store_req *req; (req = tn_req_take(&claim->waiting)) != NULL;)
            fail_req(store, req, TENURE_E_CLOSED, "the store is closed");
        free_claim(claim);
    }
    for (struct tn_store_req *req; (req = tn_req_take(&session->renewals)) != NULL;)
        fail_req(store, req, TENURE_E_CLOSED, "the store is closed");
    if (session->close != NULL)
        fail_req(store, session->close, TENURE_E_CLOSED, "the store is closed");
    tn_rows_forget_calls(store, session);
    free(session);
}

static void handle_closed(uv_handle_t *handle)
{
    struct tn_rows_store *store = handle->data;

    TN_ASSERT(store->open_handles > 0);
    if (--store->open_handles == 0)
        tn_store_gone(&store->base);
}

/* The engine has ended what was under way: only the handles are left. */
static void close_handles(struct tn_rows_store *store)
{
    if (!store->shut || store->under_way != NULL || store->ended != NULL || store->calls != NULL ||
        uv_is_closing((uv_handle_t *)&store->turn))
        return;
    drop_names(store);
    uv_close((uv_handle_t *)&store->turn, handle_closed);
    uv_close((uv_handle_t *)&store->timer, handle_closed);
}

void tn_rows_shut(struct tn_rows_store *store)
{
    store->shut = true;
    tn_rows_kick(store);
}

void tn_rows_close(struct tn_store *base, void (*closed)(void *arg), void *arg)
{
    struct tn_rows_store *store = (struct tn_rows_store *)base;

    tn_store_close(base, closed, arg);
    while (store->sessions != NULL) {
        struct tn_rows_session *session = store->sessions;
        store->sessions = session->next;
        session->rows.renewal_count = 0;
        free_session(store, session);
    }
    for (struct tn_rows_watch *each = store->names; each != NULL; each = each->next)
        each->watches = 0;
    tn_rows_kick(store);
    store->engine->shut(store);
}

void *tn_rows_open(size_t size, const struct tn_store_ops *ops, const struct tn_rows_engine *engine,
                   const struct tn_store_open *how, struct tn_text *reterr)
{
    struct tn_rows_store *store = tn_store_new(size, ops, how, reterr);
    struct tn_op none = { .kind = TN_OP_READ };
    struct tn_secret nobody;

    if (store == NULL)
        return NULL;
    store->engine = engine;
    store->news_end = &store->news;
    tn_prng_seed(&store->prng, store->base.seeds[0]);
    if (tn_random_secret(&nobody) == 0)
        store->reader = add_session(store, &nobody, &none);
    if (store->reader == NULL) {
        tn_text_add(reterr, "out of memory");
        free(store);
        return NULL;
    }
    store->reader->kept = true;
    (void)uv_idle_init(how->loop, &store->turn);
    (void)uv_timer_init(how->loop, &store->timer);
    store->turn.data = store;
    store->timer.data = store;
    store->open_handles = 2;
    return store;
}
