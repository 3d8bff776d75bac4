/* bed.c - the test bed of the conformance suite; bed.h. */
#define _GNU_SOURCE
#include "tests/conformance/bed.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sha256.h"
#include "runtime/random.h"
#include "stores/registry.h"
#include "tenure/store.h"

enum { STORES = 8 };

uv_loop_t bed_loop;
struct tn_clock bed_clock;

static char folder[64];
static char url[128];
static struct bed_store stores[STORES];
static uv_timer_t pulse;
static bool inside; /* A call into a store is under way. */
static bool running;
static char prefix[64]; /* Before all names; empty: they are what they are. */
static pid_t beside;    /* The other process, if there is one. */

/* All that were opened, by the other process, too; to be closed in the end. */
static struct opened {
    atomic_size_t count;
    struct tn_secret sessions[1 << 14];
} * opened;

static void note_opened(const struct tn_secret *session)
{
    const size_t size = sizeof opened->sessions / sizeof opened->sessions[0];

    if (opened == NULL) {
        opened =
            mmap(NULL, sizeof *opened, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        CHECK(opened != MAP_FAILED);
    }
    if (session != NULL && opened->count < size)
        opened->sessions[opened->count++] = *session;
}

const char *bed_full(const char *name)
{
    static char full[TN_NAME_MAX + 64];

    (void)snprintf(full, sizeof full, "%s%s", prefix, name);
    return full;
}

const char *bed_short(const char *full)
{
    size_t len = strlen(prefix);

    return strncmp(full, prefix, len) == 0 ? full + len : full;
}

size_t bed_name_max(void)
{
    return TN_NAME_MAX - strlen(prefix);
}

/* --- News ----------------------------------------------------------------------------------- */

static struct bed_news *add_news(void *arg, enum tn_notice_kind kind, const char *name)
{
    struct bed_store *store = arg;
    struct bed_news *news = &store->news[store->count % BED_NEWS];

    CHECK(!inside);
    CHECK(!store->closed);
    memset(news, 0, sizeof *news);
    news->kind = kind;
    news->at = bed_now();
    (void)snprintf(news->name, sizeof news->name, "%s", bed_short(name));
    store->count++;
    return news;
}

static void hear_granted(void *arg, const char *name, const struct tn_secret *term, uint64_t token)
{
    struct bed_news *news = add_news(arg, TN_NOTICE_GRANTED, name);

    news->term = *term;
    news->token = token;
}

static void hear_changed(void *arg, const char *name, const struct tn_store_record *record)
{
    add_news(arg, TN_NOTICE_CHANGED, name)->record = *record;
}

static void hear_revoked(void *arg, const char *name, uint64_t token)
{
    add_news(arg, TN_NOTICE_REVOKED, name)->token = token;
}

static const struct tn_store_host host = { hear_granted, hear_changed, hear_revoked };

/* --- The loop ------------------------------------------------------------------------------- */

tenure_ns bed_now(void)
{
    return tn_clock_now(&bed_clock);
}

tenure_ns bed_bound(void)
{
    return getenv("TENURE_CONFORMANCE_PLANT") != NULL ? TN_SEC(2) : TN_SEC(15);
}

/* So that one turn of the loop never lasts long. */
static void beat(uv_timer_t *timer)
{
    (void)timer;
}

bool bed_until(bool (*condition)(void *arg), void *arg, tenure_ns bound)
{
    tenure_ns end = bed_now() + bound;

    while (!condition(arg)) {
        if (bed_now() >= end)
            return false;
        (void)uv_run(&bed_loop, UV_RUN_ONCE);
    }
    return true;
}

static bool is_reached(void *arg)
{
    return bed_now() >= *(tenure_ns *)arg;
}

void bed_pass(tenure_ns when)
{
    (void)bed_until(is_reached, &when, TN_SEC(60));
}

static void start_loop(void)
{
    CHECK_EQ_I64(uv_loop_init(&bed_loop), 0);
    CHECK_EQ_I64(uv_timer_init(&bed_loop, &pulse), 0);
    CHECK_EQ_I64(uv_timer_start(&pulse, beat, 5, 5), 0);
    CHECK_EQ_I64(tn_clock_init(&bed_clock), 0);
    running = true;
}

/* --- Stores --------------------------------------------------------------------------------- */

bool bed_has(unsigned cap)
{
    for (size_t i = 0; i < STORES; i++)
        if (stores[i].store != NULL)
            return (stores[i].store->ops->caps & cap) != 0;
    return false;
}

tenure_ns bed_ttl(void)
{
    return TN_SEC(bed_has(TN_STORE_PER_NAME) ? 120 : 30);
}

tenure_ns bed_brief(void)
{
    return TN_SEC(bed_has(TN_STORE_NAMED) ? 8 : 1);
}

struct bed_store *bed_open(void)
{
    struct bed_store *store = NULL;
    const struct tn_store_ops *ops = NULL;
    char text[256];
    struct tn_text error;

    if (!running)
        start_loop();
    for (size_t i = 0; i < STORES && store == NULL; i++) {
        if (stores[i].store == NULL)
            store = &stores[i];
    }
    CHECK(store != NULL);
    memset(store, 0, sizeof *store);
    struct tn_store_open how = { .url = url,
                                 .loop = &bed_loop,
                                 .clock = &bed_clock,
                                 .host = &host,
                                 .arg = store,
                                 .create = true,
                                 .patience = TN_SEC(5) };
    tn_text_init(&error, text, sizeof text);
    if (strncmp(url, "rows:", 5) == 0 || strncmp(url, "minted:", 7) == 0) {
        ops = url[0] == 'r' ? &bed_rows_ops : &bed_minted_ops;
        how.rest = strchr(url, ':') + 1;
    } else {
        CHECK_EQ_I64(tn_store_find(how.url, &ops, &how.rest, &error), 0);
    }
    inside = true;
    ops = bed_planted(ops);
    int rc = ops->open(ops, &how, &store->store, &error);
    inside = false;
    CHECK_STR(text, "");
    CHECK_EQ_I64(rc, 0);
    return store;
}

static void store_closed(void *arg)
{
    struct bed_store *store = arg;

    CHECK(!inside);
    CHECK(!store->closed);
    store->closed = true;
}

static bool is_closed(void *arg)
{
    return ((struct bed_store *)arg)->closed;
}

void bed_close(struct bed_store *store)
{
    inside = true;
    store->store->ops->close(store->store, store_closed, store);
    inside = false;
    CHECK(bed_until(is_closed, store, BED_BOUND));
    store->store = NULL;
}

/* --- Requests ------------------------------------------------------------------------------- */

static void req_done(struct tn_store_req *req)
{
    struct bed_req *own = (struct bed_req *)req;

    own->done++;
    own->inside = inside;
}

void bed_submit(struct bed_store *store, struct bed_req *req, const struct tn_op *op)
{
    memset(req, 0, sizeof *req);
    req->req.op = *op;
    req->req.done = req_done;
    if (op->name != NULL) {
        int len =
            snprintf(req->name, sizeof req->name, "%s%.*s", prefix, (int)op->name_len, op->name);
        CHECK((size_t)len < sizeof req->name);
        req->req.op.name = req->name;
        req->req.op.name_len = (uint32_t)len;
    }
    if (op->kind == TN_OP_OPEN)
        note_opened(&op->session);
    inside = true;
    tn_store_submit(store->store, &req->req);
    inside = false;
}

static bool is_done(void *arg)
{
    return ((struct bed_req *)arg)->done > 0;
}

struct tn_store_req *bed_ask(struct bed_store *store, const struct tn_op *op)
{
    /* Static, because a store that calls twice does so later. */
    static struct bed_req reqs[64];
    static unsigned next;
    struct bed_req *req = &reqs[next++ % 64];

    CHECK(req->done <= 1);
    bed_submit(store, req, op);
    CHECK(bed_until(is_done, req, BED_BOUND));
    CHECK(!req->inside);
    /* Once more around, for those who answer twice. */
    (void)uv_run(&bed_loop, UV_RUN_NOWAIT);
    CHECK_EQ_U64(req->done, 1);
    return &req->req;
}

int bed_watch(struct bed_store *store, const char *name, bool on)
{
    inside = true;
    int rc = store->store->ops->watch(store->store, bed_full(name), on);
    inside = false;
    return rc;
}

/* --- Actors --------------------------------------------------------------------------------- */

static uint32_t length(const char *text)
{
    return (uint32_t)strlen(text);
}

/* Asked and answered, whatever the answer is. */
static struct tn_store_req *ask_well(struct bed_store *store, const struct tn_op *op)
{
    struct tn_store_req *req = bed_ask(store, op);

    if (req->status != 0)
        CHECK_STR(req->error, "");
    CHECK_EQ_I64(req->status, 0);
    return req;
}

void bed_new_term(struct bed_actor *actor)
{
    CHECK_EQ_I64(tn_random_secret(&actor->term), 0);
    actor->token = 0;
}

struct bed_actor bed_actor(struct bed_store *store, tenure_ns ttl)
{
    return bed_actor_as(store, ttl, "actor");
}

struct bed_actor bed_actor_as(struct bed_store *store, tenure_ns ttl, const char *label)
{
    struct bed_actor actor = { .at = store, .seq = 1 };

    if (ttl < store->store->ops->ttl_min) /* "Short" is what the engine calls short. */
        ttl = store->store->ops->ttl_min;
    CHECK_EQ_I64(tn_random_secret(&actor.session), 0);
    bed_new_term(&actor);
    struct tn_op op = { .kind = TN_OP_OPEN,
                        .session = actor.session,
                        .seq = actor.seq,
                        .ttl = ttl,
                        .label = label,
                        .label_len = (uint32_t)strlen(label) };
    struct tn_store_req *req = ask_well(store, &op);
    CHECK_EQ_I64(req->answer, TN_ANSWER_OK);
    CHECK_EQ_I64(req->ttl, ttl);
    CHECK_EQ_U64(req->held, 0);
    return actor;
}

static bool is_told(struct bed_actor *actor, const char *name, tenure_ns bound);

/* TENURE_CONFORMANCE_AGENT: an agent of a host asks its upstream first, so it answers QUEUED for a
 * free name, too, and the grant is pushed. */
static bool is_granted_behind(struct bed_actor *actor, const char *name)
{
    return getenv("TENURE_CONFORMANCE_AGENT") != NULL && is_told(actor, name, TN_MS(500));
}

struct tn_store_req *bed_acquire(struct bed_actor *actor, const char *name, bool wait)
{
    struct tn_op op = { .kind = TN_OP_ACQUIRE,
                        .session = actor->session,
                        .term = actor->term,
                        .name = name,
                        .name_len = length(name),
                        .wait = wait };
    struct tn_store_req *req = ask_well(actor->at, &op);

    if (wait && req->answer == TN_ANSWER_QUEUED && is_granted_behind(actor, name)) {
        req->answer = TN_ANSWER_GRANTED;
        return req;
    }
    if (req->answer == TN_ANSWER_GRANTED) {
        struct tn_secret hash;
        tn_secret_hash(&actor->term, 't', &hash);
        CHECK(req->record.held);
        CHECK(req->record.token > 0);
        CHECK_MEM(&req->record.term, &hash, sizeof hash);
        actor->token = req->record.token;
    }
    return req;
}

struct tn_store_req *bed_release(struct bed_actor *actor, const char *name, uint64_t token)
{
    struct tn_op op = { .kind = TN_OP_RELEASE,
                        .session = actor->session,
                        .term = actor->term,
                        .name = name,
                        .name_len = length(name),
                        .token = token };

    return ask_well(actor->at, &op);
}

struct tn_store_req *bed_renew(struct bed_actor *actor)
{
    struct tn_op op = { .kind = TN_OP_RENEW, .session = actor->session, .seq = ++actor->seq };

    return ask_well(actor->at, &op);
}

struct tn_store_req *bed_read(struct bed_store *store, const char *name)
{
    struct tn_op op = { .kind = TN_OP_READ, .name = name, .name_len = length(name) };

    return ask_well(store, &op);
}

struct wanted {
    struct bed_store *store;
    enum tn_notice_kind kind;
    const char *name;
    size_t *at;
    const struct bed_news *found;
};

static bool has_come(void *arg)
{
    struct wanted *wanted = arg;

    CHECK(wanted->store->count < *wanted->at + BED_NEWS);
    while (*wanted->at < wanted->store->count) {
        const struct bed_news *news = &wanted->store->news[(*wanted->at)++ % BED_NEWS];
        if (news->kind == wanted->kind && strcmp(news->name, wanted->name) == 0) {
            wanted->found = news;
            return true;
        }
    }
    return false;
}

const struct bed_news *bed_hear(struct bed_store *store, enum tn_notice_kind kind, const char *name,
                                size_t *at, tenure_ns bound)
{
    struct wanted wanted = { store, kind, name, at, NULL };

    (void)bed_until(has_come, &wanted, bound);
    return wanted.found;
}

static bool is_told(struct bed_actor *actor, const char *name, tenure_ns bound)
{
    size_t at = actor->at->count >= BED_NEWS ? actor->at->count - BED_NEWS + 1 : 0;
    tenure_ns end = bed_now() + bound;
    const struct bed_news *news;
    struct tn_secret hash;

    tn_secret_hash(&actor->term, 't', &hash);
    while ((news = bed_hear(actor->at, TN_NOTICE_GRANTED, name, &at, end - bed_now())) != NULL) {
        if (tn_secret_equal(&news->term, &hash)) {
            actor->token = news->token;
            return true;
        }
    }
    return false;
}

static bool has_cap(const struct bed_store *store, unsigned cap)
{
    return (store->store->ops->caps & cap) != 0;
}

enum tn_answer bed_waiting(const struct bed_store *store)
{
    return has_cap(store, TN_STORE_QUEUES) ? TN_ANSWER_QUEUED : TN_ANSWER_HELD;
}

static bool reads_grant(struct bed_actor *actor, const char *name)
{
    const struct tn_store_req *req = bed_read(actor->at, name);
    struct tn_secret hash;

    tn_secret_hash(&actor->term, 't', &hash);
    if (!req->record.held || !tn_secret_equal(&req->record.term, &hash))
        return false;
    actor->token = req->record.token;
    return true;
}

bool bed_is_granted(struct bed_actor *actor, const char *name, tenure_ns bound)
{
    tenure_ns end = bed_now() + bound;
    bool queues = has_cap(actor->at, TN_STORE_QUEUES);

    if (has_cap(actor->at, TN_STORE_TELLS))
        return is_told(actor, name, bound);
    for (;;) {
        if (queues ? reads_grant(actor, name)
                   : bed_acquire(actor, name, false)->answer == TN_ANSWER_GRANTED)
            return true;
        if (bed_now() >= end)
            return false;
        bed_pass(bed_now() + TN_MS(20));
    }
}

bool bed_is_not_granted(struct bed_actor *actor, const char *name, tenure_ns bound)
{
    if (has_cap(actor->at, TN_STORE_TELLS))
        return !is_told(actor, name, bound);
    bed_pass(bed_now() + bound);
    return !reads_grant(actor, name);
}

/* --- Leaving nothing behind ----------------------------------------------------------------- */

static bool forgotten;

/* Once, and not of what is in this process or in a file of the scenario's own. */
static void tell_what_stays(const struct tn_store_ops *ops)
{
    static bool told;

    if (!told && (ops->caps & TN_STORE_LOCAL) == 0)
        printf("the names below %s stay: %s: has no way to forget them\n", prefix, ops->scheme);
    told = true;
}

static void hear_forgotten(void *arg, int status, const char *error)
{
    (void)arg;
    forgotten = true;
    if (status < 0)
        printf("the names below %s stay: %s\n", prefix, error);
}

static bool is_forgotten(void *arg)
{
    (void)arg;
    return forgotten;
}

/* Whoever failed has left its own. */
static void close_sessions(void)
{
    struct bed_store *store = bed_open();

    for (size_t i = 0; i < opened->count; i++) {
        struct tn_op op = { .kind = TN_OP_CLOSE, .session = opened->sessions[i] };
        (void)bed_ask(store, &op);
    }
    opened->count = 0;
    if (store->store->ops->forget == NULL) {
        tell_what_stays(store->store->ops);
    } else {
        forgotten = false;
        store->store->ops->forget(store->store, prefix, hear_forgotten, NULL);
        (void)bed_until(is_forgotten, NULL, BED_BOUND);
    }
    bed_close(store);
}

/* A scenario that failed has left it. */
static void end_other(void)
{
    if (beside > 0 && kill(beside, SIGKILL) == 0)
        (void)waitpid(beside, NULL, 0);
    beside = 0;
}

/* At the end of the run, when the last scenario has failed. In a process of its own: a check that
 * fails in it has nowhere to go. */
static void clear_away(void)
{
    end_other();
    if (opened == NULL || opened->count == 0 || getenv("TENURE_CONFORMANCE_URL") == NULL)
        return;
    pid_t child = fork();
    if (child == 0) {
        memset(stores, 0, sizeof stores);
        running = inside = false;
        close_sessions();
        _exit(0);
    }
    if (child > 0)
        (void)waitpid(child, NULL, 0);
}

/* --- Processes ------------------------------------------------------------------------------ */

/* It ends with its body, or with the first check that fails in it. */
pid_t bed_fork(void (*body)(int in, int out), int *ret_in, int *ret_out)
{
    int to[2];
    int from[2];

    CHECK(!running);
    CHECK_EQ_I64(pipe(to), 0);
    CHECK_EQ_I64(pipe(from), 0);
    (void)fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        (void)close(to[1]);
        (void)close(from[0]);
        beside = 0;
        start_loop();
        body(to[0], from[1]);
        _exit(0);
    }
    beside = child;
    (void)close(to[0]);
    (void)close(from[1]);
    *ret_in = from[0];
    *ret_out = to[1];
    return child;
}

void bed_join(pid_t child)
{
    int status = -1;

    CHECK_EQ_I64(waitpid(child, &status, 0), child);
    beside = 0;
    CHECK_EQ_I64(status, 0);
}

bool bed_lacks(const struct tn_store_req *req)
{
    bool own = getenv("TENURE_CONFORMANCE_PLUGIN") != NULL;

    CHECK(own || req->status != TENURE_E_UNSUPPORTED);
    return req->status == TENURE_E_UNSUPPORTED;
}

/* --- Scenarios ------------------------------------------------------------------------------ */

static const char *url_of(unsigned slot)
{
    static const char *const urls[BED_URLS] = { "memory:", "sqlite:", "rows:", "minted:" };
    const char *given = getenv("TENURE_CONFORMANCE_URL");

    if (given != NULL)
        return slot == 0 ? given : NULL;
    return urls[slot];
}

/* Whether it is in this process only. */
static bool is_local(const char *base)
{
    return strncmp(base, "memory:", 7) == 0 || strncmp(base, "rows:", 5) == 0 ||
           strncmp(base, "minted:", 7) == 0;
}

void bed_register(struct tn_test *entries, const char *name, bool shared)
{
    static char names[384][96];
    static unsigned used;

    for (unsigned slot = 0; slot < BED_URLS; slot++) {
        const char *base = url_of(slot);
        if (base == NULL || used == 384 || (shared && is_local(base)))
            continue;
        (void)snprintf(names[used], sizeof names[used], "%.*s_%s", (int)strcspn(base, ":"), base,
                       name);
        entries[slot].name = names[used++];
        tn_test_register(&entries[slot]);
    }
}

/* A fresh store of its own: a new name in memory, a new file. */
static void make_url(const char *base)
{
    static unsigned number;

    CHECK(base != NULL);
    folder[0] = '\0';
    (void)snprintf(url, sizeof url, "%s", base);
    if (is_local(base) && strchr(base, ':')[1] == '\0') {
        (void)snprintf(url, sizeof url, "%sconformance-%u", base, number++);
    } else if (strcmp(base, "sqlite:") == 0) {
        (void)snprintf(folder, sizeof folder, "/tmp/tn-conform-......");
        memset(strchr(folder, '.'), 'X', 6);
        CHECK(mkdtemp(folder) != NULL);
        (void)snprintf(url, sizeof url, "sqlite:%s/t.db", folder);
    }
}

static void remove_files(void)
{
    static const char *const suffixes[] = { "", "-journal", "-bell" };
    char file[160];

    for (size_t i = 0; folder[0] != '\0' && i < sizeof suffixes / sizeof suffixes[0]; i++) {
        (void)snprintf(file, sizeof file, "%s/t.db%s", folder, suffixes[i]);
        (void)unlink(file);
    }
    if (folder[0] != '\0')
        (void)rmdir(folder);
}

/* A store that Tenure does not know: tenure/store.h. */
static void load_plugin(void)
{
    const char *path = getenv("TENURE_CONFORMANCE_PLUGIN");
    void *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const struct tenure_store_ops *(*plugin)(void) = NULL;

    if (path == NULL)
        return;
    if (library != NULL) /* POSIX lets a function be found so. */
        *(void **)(&plugin) = dlsym(library, "tenure_store_plugin");
    if (plugin == NULL)
        tn_test_fail(__FILE__, __LINE__, "%s", dlerror());
    CHECK_EQ_I64(tenure_store_register(plugin()), 0);
}

void bed_conform(unsigned slot, void (*scenario)(void))
{
    static bool loaded;
    struct tn_secret chance;

    if (!loaded)
        load_plugin();
    loaded = true;

    CHECK_EQ_I64(tn_random_secret(&chance), 0);
    if (prefix[0] == '\0' && atexit(clear_away) == 0)
        (void)snprintf(prefix, sizeof prefix, "tenure-conformance-%02x%02x%02x%02x/",
                       chance.bytes[0], chance.bytes[1], chance.bytes[2], chance.bytes[3]);
    bed_run(slot, scenario);
}

/* A failed test before this one has left its loop as it was; it is never used again, and what it
 * has left in the store is cleared away by the next. */
void bed_run(unsigned slot, void (*scenario)(void))
{
    end_other();
    memset(stores, 0, sizeof stores);
    running = false;
    inside = false;
    note_opened(NULL);
    CHECK_EQ_I64(tn_clock_init(&bed_clock), 0);
    make_url(url_of(slot));
    scenario();
    for (size_t i = 0; i < STORES; i++) {
        if (stores[i].store != NULL)
            bed_close(&stores[i]);
    }
    if (prefix[0] != '\0' && getenv("TENURE_CONFORMANCE_URL") != NULL && running)
        close_sessions();
    if (running) {
        uv_close((uv_handle_t *)&pulse, NULL);
        (void)uv_run(&bed_loop, UV_RUN_DEFAULT);
        /* Fails when a store has left a handle behind. */
        CHECK_EQ_I64(uv_loop_close(&bed_loop), 0);
    }
    remove_files();
}
