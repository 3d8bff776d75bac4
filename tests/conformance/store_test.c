/* store_test.c - what every store promises of requests, news, listings and closing. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/prng.h"
#include "tests/conformance/bed.h"

#define TTL bed_ttl()

enum { MANY = 1500, FEWER = 200 };
static int asked = MANY; /* How many were submitted. */

static uint32_t length(const char *text)
{
    return (uint32_t)strlen(text);
}

static bool are_done(void *arg)
{
    const struct bed_req *reqs = arg;

    for (int i = 0; i < asked; i++) {
        if (reqs[i].done == 0)
            return false;
    }
    return true;
}

static char (*make_names(const char *prefix))[32]
{
    static char names[MANY][32];

    for (int i = 0; i < MANY; i++)
        (void)snprintf(names[i], sizeof names[i], "%s/%d", prefix, i);
    return names;
}

static int compare_tokens(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

CONFORMS(many_requests_in_one_turn_are_each_answered_once)
{
    struct bed_store *store = bed_open();
    struct bed_actor actor = bed_actor(store, TTL);
    struct bed_req *reqs = calloc(MANY, sizeof *reqs);
    uint64_t *tokens = calloc(MANY, sizeof *tokens);
    char(*names)[32] = make_names("many");
    unsigned caps = store->store->ops->caps;

    /* There a renewal is a write for each of them, and a server of the network carries them out. */
    asked = (caps & TN_STORE_PER_NAME) != 0 && (caps & TN_STORE_LOCAL) == 0 ? FEWER : MANY;
    for (int i = 0; i < asked; i++) {
        struct tn_op op = { .kind = TN_OP_ACQUIRE,
                            .session = actor.session,
                            .term = actor.term,
                            .name = names[i],
                            .name_len = length(names[i]) };
        bed_submit(store, &reqs[i], &op);
    }
    CHECK(bed_until(are_done, reqs, TN_SEC(60)));
    for (int i = 0; i < asked; i++) {
        CHECK_EQ_U64(reqs[i].done, 1);
        CHECK(!reqs[i].inside);
        CHECK_EQ_I64(reqs[i].req.status, 0);
        CHECK_EQ_I64(reqs[i].req.answer, TN_ANSWER_GRANTED);
        tokens[i] = reqs[i].req.record.token;
    }
    qsort(tokens, (size_t)asked, sizeof *tokens, compare_tokens);
    for (int i = 1; i < asked && (caps & TN_STORE_PER_NAME) == 0; i++)
        CHECK(tokens[i] != tokens[i - 1]);
    CHECK_EQ_U64(bed_renew(&actor)->held, (uint64_t)asked);
    struct tn_op op = { .kind = TN_OP_CLOSE, .session = actor.session };
    CHECK_EQ_I64(bed_ask(store, &op)->answer, TN_ANSWER_OK);
    CHECK_EQ_I64(bed_read(store, "many/7")->answer, TN_ANSWER_FREE);
    free(tokens);
    free(reqs);
}

CONFORMS(closing_answers_what_is_pending)
{
    struct bed_store *store = bed_open();
    struct bed_actor actor = bed_actor(store, TTL);
    struct bed_req *reqs = calloc(MANY, sizeof *reqs);
    char(*names)[32] = make_names("closing");

    for (int i = 0; i < MANY; i++) {
        struct tn_op op = { .kind = i % 2 == 0 ? TN_OP_ACQUIRE : TN_OP_READ,
                            .session = actor.session,
                            .term = actor.term,
                            .name = names[i],
                            .name_len = length(names[i]) };
        bed_submit(store, &reqs[i], &op);
    }
    bed_close(store);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ_U64(reqs[i].done, 1);
        CHECK(!reqs[i].inside);
        CHECK(reqs[i].req.status == 0 || reqs[i].req.status == TENURE_E_CLOSED);
    }
    free(reqs);
}

CONFORMS(names_and_labels_go_to_their_limits)
{
    struct bed_store *store = bed_open();
    struct bed_actor actor = bed_actor(store, TTL);
    char name[TN_NAME_MAX + 2];
    char label[TN_LABEL_MAX];

    size_t most = bed_name_max();
    memset(name, 'n', most);
    name[most] = '\0';
    for (size_t i = 0; i < sizeof label; i++)
        label[i] = (char)(i * 7);
    struct bed_actor other = actor;
    other.session.bytes[0] ^= 1;
    struct tn_op op = { .kind = TN_OP_OPEN,
                        .session = other.session,
                        .seq = 1,
                        .ttl = TTL,
                        .label = label,
                        .label_len = TN_LABEL_MAX };
    CHECK_EQ_I64(bed_ask(store, &op)->answer, TN_ANSWER_OK);
    CHECK_EQ_I64(bed_acquire(&other, name, false)->answer, TN_ANSWER_GRANTED);
    struct tn_store_req *req = bed_acquire(&actor, name, false);
    CHECK_EQ_I64(req->answer, TN_ANSWER_HELD);
    CHECK_EQ_U64(req->record.label_len, TN_LABEL_MAX);
    CHECK_MEM(req->record.label, label, TN_LABEL_MAX);

    CHECK_EQ_I64(bed_release(&other, name, other.token)->answer, TN_ANSWER_RELEASED);

    op.label_len = TN_LABEL_MAX + 1;
    CHECK_EQ_I64(bed_ask(store, &op)->status, TENURE_E_INVALID);
    op.label_len = 0;
    op.session.bytes[1] ^= 1;
    other.session = op.session;
    bed_new_term(&other);
    CHECK_EQ_I64(bed_ask(store, &op)->answer, TN_ANSWER_OK);
    CHECK_EQ_I64(bed_acquire(&other, name, false)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_U64(bed_acquire(&actor, name, false)->record.label_len, 0);
    static const char *const bad[] = { "", "a//b", "/a", "a/", ".", "a/../b", "a b", "a\n" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct tn_op read = { .kind = TN_OP_READ, .name = bad[i], .name_len = length(bad[i]) };
        req = bed_ask(store, &read);
        CHECK_EQ_I64(req->status, TENURE_E_INVALID);
        CHECK(req->error[0] != '\0');
    }
    memset(name, 'n', most + 1);
    struct tn_op read = { .kind = TN_OP_READ, .name = name, .name_len = (uint32_t)most + 1 };
    CHECK_EQ_I64(bed_ask(store, &read)->status, TENURE_E_INVALID);
}

/* A TTL that the engine does not take is refused; a longer or shorter one in its place would move
 * the deadline that the holder counts with. */
CONFORMS(a_ttl_outside_the_limits_opens_nothing)
{
    struct bed_store *store = bed_open();
    struct bed_actor actor = bed_actor(store, TTL);
    const struct tn_store_ops *ops = store->store->ops;
    const tenure_ns bad[] = { 0, -1, ops->ttl_min - 1, ops->ttl_max + 1 };
    struct tn_op op = { .kind = TN_OP_OPEN, .session = actor.session, .seq = 1 };

    op.session.bytes[2] ^= 1;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        op.ttl = bad[i];
        struct tn_store_req *req = bed_ask(store, &op);
        CHECK_EQ_I64(req->status, TENURE_E_INVALID);
        CHECK(req->error[0] != '\0');
    }
    struct tn_op renew = { .kind = TN_OP_RENEW, .session = op.session, .seq = 2 };
    CHECK_EQ_I64(bed_ask(store, &renew)->answer, TN_ANSWER_GONE);
}

CONFORMS(who_watches_hears_of_changes)
{
    struct bed_store *store = bed_open();
    struct bed_actor a = bed_actor(store, TTL);
    const struct bed_news *news;
    size_t at = 0;

    CHECK_EQ_I64(bed_watch(store, "watch/job", true), 0);
    CHECK_EQ_I64(bed_watch(store, "watch/job", true), 0);
    CHECK_EQ_I64(bed_acquire(&a, "watch/job", false)->answer, TN_ANSWER_GRANTED);
    do {
        news = bed_hear(store, TN_NOTICE_CHANGED, "watch/job", &at, BED_BOUND);
        CHECK(news != NULL);
    } while (!news->record.held);
    CHECK_EQ_U64(news->record.token, a.token);
    CHECK_STR(news->record.label, "actor");
    CHECK_EQ_I64(bed_release(&a, "watch/job", a.token)->answer, TN_ANSWER_RELEASED);
    do {
        news = bed_hear(store, TN_NOTICE_CHANGED, "watch/job", &at, BED_BOUND);
        CHECK(news != NULL);
    } while (news->record.held);
    CHECK_EQ_U64(news->record.token, a.token);
    /* As many off as on. */
    CHECK_EQ_I64(bed_watch(store, "watch/job", false), 0);
    bed_new_term(&a);
    CHECK_EQ_I64(bed_acquire(&a, "watch/job", false)->answer, TN_ANSWER_GRANTED);
    CHECK(bed_hear(store, TN_NOTICE_CHANGED, "watch/job", &at, BED_BOUND) != NULL);
    CHECK_EQ_I64(bed_watch(store, "watch/job", false), 0);
    at = store->count;
    CHECK_EQ_I64(bed_release(&a, "watch/job", a.token)->answer, TN_ANSWER_RELEASED);
    CHECK(bed_hear(store, TN_NOTICE_CHANGED, "watch/job", &at, TN_MS(500)) == NULL);
}

CONFORMS(who_begins_to_watch_hears_how_it_is)
{
    struct bed_store *store = bed_open();
    struct bed_actor a = bed_actor(store, TTL);
    const struct bed_news *news;
    size_t at = 0;

    CHECK_EQ_I64(bed_watch(store, "watch/free", true), 0);
    news = bed_hear(store, TN_NOTICE_CHANGED, "watch/free", &at, BED_BOUND);
    CHECK(news != NULL);
    CHECK(!news->record.held);
    CHECK_EQ_I64(bed_acquire(&a, "watch/held", false)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_I64(bed_watch(store, "watch/held", true), 0);
    news = bed_hear(store, TN_NOTICE_CHANGED, "watch/held", &at, BED_BOUND);
    CHECK(news != NULL);
    CHECK(news->record.held);
    CHECK_EQ_U64(news->record.token, a.token);
}

CONFORMS(who_watches_hears_of_a_dead_holder)
{
    struct bed_store *store = bed_open();
    struct bed_actor a = bed_actor(store, TN_SEC(1));
    const struct bed_news *news;
    size_t at = 0;

    CHECK_EQ_I64(bed_acquire(&a, "watch/dead", false)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_I64(bed_watch(store, "watch/dead", true), 0);
    do {
        news = bed_hear(store, TN_NOTICE_CHANGED, "watch/dead", &at, TN_SEC(1) + BED_BOUND);
        CHECK(news != NULL);
    } while (news->record.held);
    CHECK_EQ_U64(news->record.token, a.token);
}

static struct {
    int status;
    struct tn_store_lease *leases;
    size_t count;
    unsigned done;
} listed;

static void list_done(void *arg, int status, struct tn_store_lease *leases, size_t count,
                      const char *error)
{
    (void)arg;
    (void)error;
    listed.status = status;
    listed.leases = leases;
    listed.count = count;
    listed.done++;
}

static bool is_listed(void *arg)
{
    (void)arg;
    return listed.done > 0;
}

CONFORMS(a_list_is_sorted)
{
    struct bed_store *store = bed_open();
    struct bed_actor a = bed_actor(store, TTL);

    CHECK_EQ_I64(bed_acquire(&a, "list/b", false)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_I64(bed_acquire(&a, "list/a/x", false)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_I64(bed_acquire(&a, "lisu", false)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_I64(bed_acquire(&a, "list/c", false)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_I64(bed_release(&a, "list/c", a.token)->answer, TN_ANSWER_RELEASED);
    memset(&listed, 0, sizeof listed);
    store->store->ops->list(store->store, bed_full("list/"), list_done, NULL);
    CHECK_EQ_U64(listed.done, 0);
    CHECK(bed_until(is_listed, NULL, BED_BOUND));
    CHECK_EQ_I64(listed.status, 0);
    CHECK_EQ_U64(listed.count, 3);
    CHECK_STR(bed_short(listed.leases[0].name), "list/a/x");
    CHECK(listed.leases[0].record.held);
    CHECK_STR(listed.leases[0].record.label, "actor");
    CHECK_STR(bed_short(listed.leases[1].name), "list/b");
    CHECK_STR(bed_short(listed.leases[2].name), "list/c");
    CHECK(!listed.leases[2].record.held);
    CHECK_EQ_U64(listed.leases[2].record.token, a.token);
    free(listed.leases);
}

static void check_line(struct bed_store *store, const char *wanted)
{
    char line[64];
    struct tn_text text;

    tn_text_init(&text, line, sizeof line);
    memset(&listed, 0, sizeof listed);
    store->store->ops->line(store->store, bed_full("waits/job"), list_done, NULL);
    CHECK_EQ_U64(listed.done, 0);
    CHECK(bed_until(is_listed, NULL, BED_BOUND));
    CHECK_EQ_I64(listed.status, 0);
    for (size_t i = 0; i < listed.count; i++) {
        tn_text_addf(&text, "%s%s", i > 0 ? " " : "", listed.leases[i].record.label);
    }
    free(listed.leases);
    CHECK_STR(line, wanted);
}

CONFORMS(who_waits_is_told_in_order)
{
    struct bed_store *store = bed_open();
    struct bed_actor a = bed_actor_as(store, TTL, "ada"), b = bed_actor_as(store, TTL, "bob");
    struct bed_actor c = bed_actor_as(store, TTL, "cyd"), d = bed_actor_as(store, TTL, "dee");

    if (store->store->ops->line == NULL)
        return; /* Said plainly: it does not know. */
    CHECK_EQ_I64(bed_acquire(&a, "waits/job", true)->answer, TN_ANSWER_GRANTED);
    check_line(store, "");
    CHECK_EQ_I64(bed_acquire(&c, "waits/job", true)->answer, TN_ANSWER_QUEUED);
    CHECK_EQ_I64(bed_acquire(&d, "waits/job", true)->answer, TN_ANSWER_QUEUED);
    CHECK_EQ_I64(bed_acquire(&b, "waits/job", true)->answer, TN_ANSWER_QUEUED);
    CHECK_EQ_I64(bed_acquire(&d, "waits/job/other", true)->answer, TN_ANSWER_GRANTED);
    check_line(store, "cyd dee bob");
    CHECK_EQ_I64(bed_release(&d, "waits/job", 0)->answer, TN_ANSWER_RELEASED);
    check_line(store, "cyd bob");
    CHECK_EQ_I64(bed_release(&a, "waits/job", a.token)->answer, TN_ANSWER_RELEASED);
    CHECK(bed_is_granted(&c, "waits/job", BED_BOUND));
    check_line(store, "bob");
}

CONFORMS(two_stores_of_one_process_are_one)
{
    struct bed_store *one = bed_open();
    struct bed_store *two = bed_open();
    struct bed_actor a = bed_actor(one, TTL);
    struct bed_actor b = bed_actor(two, TTL);
    size_t at = 0;

    CHECK_EQ_I64(bed_acquire(&a, "both/job", true)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_I64(bed_acquire(&b, "both/job", true)->answer, bed_waiting(b.at));
    CHECK_EQ_I64(bed_watch(two, "both/job", true), 0);
    CHECK_EQ_I64(bed_release(&a, "both/job", a.token)->answer, TN_ANSWER_RELEASED);
    CHECK(bed_is_granted(&b, "both/job", BED_BOUND));
    CHECK(b.token > a.token);
    const struct bed_news *news;
    do {
        news = bed_hear(two, TN_NOTICE_CHANGED, "both/job", &at, BED_BOUND);
        CHECK(news != NULL);
    } while (news->record.token != b.token);
    /* A revocation reaches the holder's process from another. */
    struct tn_op op = { .kind = TN_OP_REVOKE, .name = "both/job", .name_len = 8 };
    struct tn_store_req *revoked = bed_ask(one, &op);
    if (bed_lacks(revoked))
        return;
    CHECK_EQ_I64(revoked->answer, TN_ANSWER_OK);
    at = 0;
    CHECK(bed_hear(two, TN_NOTICE_REVOKED, "both/job", &at, BED_BOUND) != NULL);
    CHECK_EQ_U64(one->count, 0);
}

/* The other process holds the lease until it is told to let go. */
static void hold_and_release(int in, int out)
{
    struct bed_store *store = bed_open();
    struct bed_actor actor = bed_actor(store, TTL);
    char word;

    if (bed_acquire(&actor, "across/job", true)->answer != TN_ANSWER_GRANTED ||
        write(out, &actor.token, sizeof actor.token) != (ssize_t)sizeof actor.token ||
        read(in, &word, 1) != 1)
        _exit(1);
    if (bed_release(&actor, "across/job", actor.token)->answer != TN_ANSWER_RELEASED)
        _exit(2);
    bed_close(store);
}

CONFORMS_SHARED(two_processes_share_one_store)
{
    uint64_t token = 0;
    int in;
    int out;

    pid_t child = bed_fork(hold_and_release, &in, &out);
    CHECK_EQ_I64(read(in, &token, sizeof token), (ssize_t)sizeof token);
    struct bed_store *store = bed_open();
    struct bed_actor actor = bed_actor(store, TTL);
    CHECK_EQ_I64(bed_acquire(&actor, "across/job", true)->answer, bed_waiting(actor.at));
    CHECK_EQ_I64(write(out, "x", 1), 1);
    tenure_ns told = bed_now();
    CHECK(bed_is_granted(&actor, "across/job", BED_BOUND));
    CHECK(actor.token > token);
    /* By the bell, not by a poll of a third of the TTL. */
    CHECK(bed_now() - told < TN_SEC(5));
    bed_join(child);
    (void)close(in);
    (void)close(out);
}

/* --- All at once ---------------------------------------------------------------------------- */

enum { CROWD = 4, RUSHES = 60 };

static bool all_done(void *arg)
{
    const struct bed_req *reqs = arg;

    for (unsigned i = 0; i < CROWD; i++)
        if (reqs[i].done == 0)
            return false;
    return true;
}

/* Each asks once and does not wait; whoever gets it gives it back. */
static void rush(struct bed_actor actors[CROWD], uint64_t *highest)
{
    static struct bed_req reqs[CROWD];
    struct bed_actor *winner = NULL;

    for (unsigned i = 0; i < CROWD; i++) {
        struct tn_op op = { .kind = TN_OP_ACQUIRE,
                            .session = actors[i].session,
                            .term = actors[i].term,
                            .name = "crowd/job",
                            .name_len = 9 };
        bed_submit(actors[i].at, &reqs[i], &op);
    }
    CHECK(bed_until(all_done, reqs, BED_BOUND));
    for (unsigned i = 0; i < CROWD; i++) {
        const struct tn_store_req *req = &reqs[i].req;
        if (req->status != 0)
            CHECK_STR(req->error, "");
        CHECK_EQ_I64(req->status, 0);
        if (req->answer != TN_ANSWER_GRANTED) {
            CHECK_EQ_I64(req->answer, TN_ANSWER_HELD);
            if (i == 0) /* The others ask for the same term again. */
                bed_new_term(&actors[i]);
            continue;
        }
        CHECK(winner == NULL);
        CHECK(req->record.token > *highest);
        *highest = req->record.token;
        winner = &actors[i];
    }
    if (winner == NULL)
        return;
    CHECK_EQ_I64(bed_release(winner, "crowd/job", *highest)->answer, TN_ANSWER_RELEASED);
    bed_new_term(winner);
}

static uint64_t rush_often(void)
{
    struct bed_store *store = bed_open();
    struct bed_actor actors[CROWD];
    uint64_t highest = 0;

    for (unsigned i = 0; i < CROWD; i++)
        actors[i] = bed_actor(store, TTL);
    for (unsigned i = 0; i < RUSHES; i++)
        rush(actors, &highest);
    return highest;
}

static bool is_told(void *arg)
{
    struct pollfd poller = { .fd = *(const int *)arg, .events = POLLIN };

    return poll(&poller, 1, 0) == 1;
}

/* Its sessions stay until it is told to end, and so does its loop: what an answer that comes late
 * has given is given back there. */
static void rush_beside(int in, int out)
{
    char word = 'x';

    if (write(out, &word, 1) != 1 || read(in, &word, 1) != 1)
        _exit(1);
    (void)rush_often();
    if (write(out, &word, 1) != 1 || !bed_until(is_told, &in, 2 * BED_BOUND) ||
        read(in, &word, 1) != 1)
        _exit(2);
}

static bool gets_it(void *arg)
{
    return bed_acquire(arg, "crowd/job", false)->answer == TN_ANSWER_GRANTED;
}

CONFORMS_SHARED(who_was_refused_leaves_nothing_behind)
{
    char word;
    int in;
    int out;

    pid_t child = bed_fork(rush_beside, &in, &out);
    CHECK_EQ_I64(read(in, &word, 1), 1);
    CHECK_EQ_I64(write(out, "x", 1), 1);
    uint64_t highest = rush_often();
    CHECK_EQ_I64(read(in, &word, 1), 1);
    struct bed_actor last = bed_actor(bed_open(), TTL);
    CHECK(bed_until(gets_it, &last, BED_BOUND));
    CHECK(last.token > highest);
    CHECK_EQ_I64(write(out, "x", 1), 1);
    bed_join(child);
    (void)close(in);
    (void)close(out);
}

/* --- At random ------------------------------------------------------------------------------ */

enum { ACTORS = 6, STEPS = 400 };

/* Who holds what, by the answers and pushes alone. */
struct ledger {
    struct bed_actor actors[ACTORS];
    uint64_t held[ACTORS];
    uint64_t highest[2];
    size_t read[2];
};

static const char *name_of(unsigned who)
{
    return who % 2 == 0 ? "random/even" : "random/odd";
}

static void note_grant(struct ledger *ledger, unsigned who, uint64_t token)
{
    if (ledger->held[who] == token)
        return;
    for (unsigned i = 0; i < ACTORS; i++)
        CHECK(i % 2 != who % 2 || ledger->held[i] == 0);
    CHECK(token > ledger->highest[who % 2]);
    ledger->highest[who % 2] = token;
    ledger->held[who] = token;
}

static void settle_all(struct ledger *ledger)
{
    for (unsigned who = 0; who < ACTORS; who++) {
        if (ledger->held[who] == 0 && bed_is_granted(&ledger->actors[who], name_of(who), 0))
            note_grant(ledger, who, ledger->actors[who].token);
    }
}

static void take_step(struct ledger *ledger, struct tn_prng *prng)
{
    unsigned who = (unsigned)tn_prng_below(prng, ACTORS);
    struct bed_actor *actor = &ledger->actors[who];

    if (ledger->held[who] != 0 && tn_prng_ppm(prng, 500000)) {
        uint64_t token = ledger->held[who];
        /* It is over before the store hears of it. */
        ledger->held[who] = 0;
        CHECK_EQ_I64(bed_release(actor, name_of(who), token)->answer, TN_ANSWER_RELEASED);
        bed_new_term(actor);
    } else if (ledger->held[who] == 0) {
        enum tn_answer answer = bed_acquire(actor, name_of(who), tn_prng_ppm(prng, 600000))->answer;
        if (answer == TN_ANSWER_GRANTED)
            note_grant(ledger, who, actor->token);
        else
            CHECK(answer == TN_ANSWER_HELD || answer == TN_ANSWER_QUEUED);
    } else {
        CHECK_EQ_I64(bed_renew(actor)->answer, TN_ANSWER_OK);
    }
}

CONFORMS(no_two_hold_whatever_is_asked)
{
    struct bed_store *one = bed_open();
    struct bed_store *two = bed_open();
    struct ledger ledger = { 0 };
    struct tn_prng prng;

    tn_prng_seed(&prng, 11);
    for (unsigned who = 0; who < ACTORS; who++)
        ledger.actors[who] = bed_actor(who < ACTORS / 2 ? one : two, TTL);
    for (int i = 0; i < STEPS; i++) {
        take_step(&ledger, &prng);
        settle_all(&ledger);
    }
    CHECK(ledger.highest[0] > 10);
    CHECK(ledger.highest[1] > 10);
}

static bool is_known(void *arg)
{
    const struct tn_store *store = arg;
    struct tn_store_facts facts = { "", "" };

    store->ops->facts(store, &facts);
    return facts.version[0] != '\0';
}

struct lesson {
    unsigned done;
    int status;
};

static void hear_lesson(void *arg, int status, const char *error)
{
    struct lesson *lesson = arg;

    (void)error;
    lesson->done++;
    lesson->status = status;
}

CONFORMS(a_server_says_what_it_is)
{
    struct bed_actor actor = bed_actor(bed_open(), TTL);
    struct tn_store *store = actor.at->store;
    struct lesson lesson = { 0 }, broken_off = { 0 };
    struct tn_store_facts facts;

    if (store->ops->facts == NULL)
        return;
    if (store->ops->learn != NULL) {
        struct bed_store *other = bed_open();
        store->ops->learn(store, hear_lesson, &lesson);
        other->store->ops->learn(other->store, hear_lesson, &broken_off);
        CHECK_EQ_U64(broken_off.done, 0);
        bed_close(other);
        CHECK_EQ_U64(broken_off.done, 1);
        CHECK_EQ_I64(broken_off.status, TENURE_E_CLOSED);
    }
    CHECK(bed_until(is_known, store, BED_BOUND));
    store->ops->facts(store, &facts);
    printf("%s: version %s; warning: %s\n", store->ops->scheme, facts.version, facts.warning);
    CHECK(strchr(facts.warning, '\n') == NULL);
}
