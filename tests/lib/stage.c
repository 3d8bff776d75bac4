/* stage.c - listeners, and the store between: the linker hands us tn_store_open (--wrap). */
#include "tests/lib/stage.h"

#include <stdio.h>
#include <string.h>

#include "runtime/clock.h"
#include "stores/registry.h"

/* --- Listeners -------------------------------------------------------------------------------- */

struct listener *listener_new(void)
{
    static struct listener pool[400];
    static unsigned used;

    CHECK(used < sizeof pool / sizeof *pool);
    CHECK(pthread_mutex_init(&pool[used].lock, NULL) == 0);
    return &pool[used++];
}

static void keep_books(struct listener *listener, const struct tenure_event *event)
{
    bool won = event->kind == TENURE_WON, lost = event->kind == TENURE_LOST;

    if (won && listener->leads)
        listener->broken = "WON twice";
    if (lost && !listener->leads)
        listener->broken = "LOST without WON";
    if (lost && event->token != listener->last[TENURE_WON].token)
        listener->broken = "LOST of another term than was won";
    if (won && event->token <= listener->last[TENURE_WON].token)
        listener->broken = "a token that does not grow";
    if (event->kind == TENURE_SAFE &&
        listener->heard[TENURE_SAFE] >= listener->heard[TENURE_JEOPARDY])
        listener->broken = "SAFE without JEOPARDY";
    if (event->kind == TENURE_STOP && !listener->leads)
        listener->broken = "STOP outside a term";
    if (won || lost)
        listener->leads = won;
    if (event->kind == TENURE_LEADER)
        (void)snprintf(listener->leader, sizeof listener->leader, "%s", event->leader);
    listener->last[event->kind] = *event;
    listener->last[event->kind].leader = NULL; /* No longer good. */
    listener->last[event->kind].detail = NULL;
    listener->heard[event->kind]++;
}

void listener_hear(struct tenure_election *election, const struct tenure_event *event, void *arg)
{
    struct listener *listener = arg;

    (void)pthread_mutex_lock(&listener->lock);
    keep_books(listener, event);
    (void)pthread_mutex_unlock(&listener->lock);
    if (listener->also != NULL)
        listener->also(listener, election, event);
}

void listener_block(struct listener *listener, struct tenure_election *election,
                    const struct tenure_event *event)
{
    (void)election;
    (void)event;
    while (atomic_load(&listener->blocked))
        tn_clock_pause(TN_MS(1));
}

unsigned listener_count(struct listener *listener, enum tenure_event_kind kind)
{
    (void)pthread_mutex_lock(&listener->lock);
    unsigned count = listener->heard[kind];
    (void)pthread_mutex_unlock(&listener->lock);
    return count;
}

struct tenure_event listener_last(struct listener *listener, enum tenure_event_kind kind)
{
    (void)pthread_mutex_lock(&listener->lock);
    struct tenure_event event = listener->last[kind];
    (void)pthread_mutex_unlock(&listener->lock);
    return event;
}

bool listener_waits(struct listener *listener, enum tenure_event_kind kind, unsigned count)
{
    tenure_ns by = tn_boottime() + STAGE_PATIENCE;

    while (listener_count(listener, kind) < count && tn_boottime() < by)
        tn_clock_pause(TN_MS(1));
    (void)pthread_mutex_lock(&listener->lock);
    const char *broken = listener->broken;
    (void)pthread_mutex_unlock(&listener->lock);
    if (broken != NULL)
        printf("%s\n", broken);
    CHECK_PROMISE(broken == NULL);
    return listener_count(listener, kind) >= count;
}

/* --- Sessions --------------------------------------------------------------------------------- */

bool stage_leads(const struct tenure_election *election, bool leads)
{
    tenure_ns by = tn_boottime() + STAGE_PATIENCE;

    while ((tenure_token(election) != 0) != leads && tn_boottime() < by)
        tn_clock_pause(TN_MS(1));
    return (tenure_token(election) != 0) == leads;
}

struct tenure *stage_open_ttl(const char *url, const char *id, unsigned flags, tenure_ns ttl)
{
    struct tenure_options options = {
        .size = sizeof options, .id = id, .ttl = ttl, .flags = flags
    };
    struct tenure_error error;
    struct tenure *tenure = NULL;
    int rc = tenure_open(url, &options, &tenure, &error);

    CHECK_STR(error.text, "");
    CHECK_EQ_I64(rc, 0);
    return tenure;
}

struct tenure *stage_open(const char *url, const char *id, unsigned flags)
{
    return stage_open_ttl(url, id, flags, TN_SEC(1));
}

struct tenure_election *stage_campaign(struct tenure *tenure, const char *name, unsigned flags,
                                       struct listener *listener)
{
    struct tenure_campaign campaign = {
        .size = sizeof campaign, .callback = listener_hear, .arg = listener, .flags = flags
    };
    struct tenure_election *election = NULL;

    if (listener == NULL)
        campaign.callback = NULL;
    CHECK_EQ_I64(tenure_campaign(tenure, name, &campaign, &election), 0);
    return election;
}

/* --- The store between ------------------------------------------------------------------------ */

int __real_tn_store_open(const struct tn_store_open *how, struct tn_store **ret_store,
                         struct tn_text *reterr);
int __wrap_tn_store_open(const struct tn_store_open *how, struct tn_store **ret_store,
                         struct tn_text *reterr);

struct kept {
    struct tn_store *store;
    struct tn_store_req *req;
};

static struct {
    pthread_mutex_t lock;
    const struct tn_store_ops *real;
    struct tn_store_ops ops;
    unsigned sent[32]; /* By kind of operation. */
    char lose_id[TENURE_ID_MAX + 1];
    unsigned lose_kinds;
    const struct tn_store_host *host; /* Of the store that was opened last. */
    void *host_arg;
    struct kept kept[1000];
    unsigned kept_count;
    unsigned spoil;      /* Bits. */
    unsigned spoil_each; /* The same, for good. */
    void (*done)(struct tn_store_req *req);
} between = { .lock = PTHREAD_MUTEX_INITIALIZER };

const char *stage_url(void)
{
    static char url[64];
    static unsigned number;

    (void)pthread_mutex_lock(&between.lock);
    memset(between.sent, 0, sizeof between.sent);
    between.lose_kinds = 0;
    between.spoil_each = 0;
    (void)pthread_mutex_unlock(&between.lock);
    (void)snprintf(url, sizeof url, "memory:stage-%u", ++number);
    return url;
}

unsigned stage_sent(enum tn_op_kind kind)
{
    (void)pthread_mutex_lock(&between.lock);
    unsigned sent = between.sent[kind];
    (void)pthread_mutex_unlock(&between.lock);
    return sent;
}

void stage_lose(const char *id, unsigned kinds)
{
    (void)pthread_mutex_lock(&between.lock);
    (void)snprintf(between.lose_id, sizeof between.lose_id, "%s", id);
    between.lose_kinds = kinds;
    (void)pthread_mutex_unlock(&between.lock);
}

void stage_tell(const char *name, uint64_t token, const char *label)
{
    struct tn_store_record record = { .held = true, .token = token };

    (void)snprintf(record.label, sizeof record.label, "%s", label);
    record.label_len = (uint32_t)strlen(record.label);
    between.host->changed(between.host_arg, name, &record);
}

static bool is_lost(const struct tn_store_req *req)
{
    size_t len = strlen(between.lose_id);

    return between.kept_count < sizeof between.kept / sizeof *between.kept &&
           (between.lose_kinds & 1u << req->op.kind) != 0 && req->op.label_len == len &&
           memcmp(req->op.label, between.lose_id, len) == 0;
}

/* One request of @store that was kept and need not be; all of them with @all. */
static struct tn_store_req *take_kept(struct tn_store *store, bool all)
{
    struct tn_store_req *req = NULL;

    (void)pthread_mutex_lock(&between.lock);
    for (unsigned i = 0; i < between.kept_count && req == NULL; i++) {
        if (between.kept[i].store == store && (all || !is_lost(between.kept[i].req))) {
            req = between.kept[i].req;
            between.kept[i] = between.kept[--between.kept_count];
        }
    }
    (void)pthread_mutex_unlock(&between.lock);
    return req;
}

/* It reaches the store, but the answer says that it did not. */
static void answer_spoiled(struct tn_store_req *req)
{
    req->done = between.done;
    req->status = TENURE_E_UNAVAILABLE;
    req->done(req);
}

void stage_spoil_next(enum tn_op_kind kind)
{
    (void)pthread_mutex_lock(&between.lock);
    between.spoil = 1u << kind;
    (void)pthread_mutex_unlock(&between.lock);
}

void stage_spoil_each(unsigned kinds)
{
    (void)pthread_mutex_lock(&between.lock);
    between.spoil_each = kinds;
    (void)pthread_mutex_unlock(&between.lock);
}

static void submit(struct tn_store *store, struct tn_store_req *req)
{
    struct tn_store_req *late;

    (void)pthread_mutex_lock(&between.lock);
    between.sent[req->op.kind]++;
    bool lost = is_lost(req);
    if ((between.spoil | between.spoil_each) & 1u << req->op.kind) {
        between.spoil = 0;
        between.done = req->done;
        req->done = answer_spoiled;
    }
    if (lost)
        between.kept[between.kept_count++] = (struct kept) { store, req };
    (void)pthread_mutex_unlock(&between.lock);
    while ((late = take_kept(store, false)) != NULL)
        between.real->submit(store, late);
    if (!lost)
        between.real->submit(store, req);
}

static void close_store(struct tn_store *store, void (*closed)(void *arg), void *arg)
{
    struct tn_store_req *req;

    while ((req = take_kept(store, true)) != NULL) {
        req->status = TENURE_E_CLOSED;
        req->done(req);
    }
    between.real->close(store, closed, arg);
}

int __wrap_tn_store_open(const struct tn_store_open *how, struct tn_store **ret_store,
                         struct tn_text *reterr)
{
    int rc = __real_tn_store_open(how, ret_store, reterr);

    if (rc < 0 || strncmp(how->url, "memory:", 7) != 0)
        return rc;
    (void)pthread_mutex_lock(&between.lock);
    if (between.real == NULL) {
        between.real = (*ret_store)->ops;
        between.ops = *between.real;
        between.ops.submit = submit;
        between.ops.close = close_store;
    }
    CHECK(between.real == (*ret_store)->ops);
    (*ret_store)->ops = &between.ops;
    between.host = how->host;
    between.host_arg = how->arg;
    (void)pthread_mutex_unlock(&between.lock);
    return 0;
}
