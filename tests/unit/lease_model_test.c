/* lease_model_test.c - the lease table against a naive model of it, over random operations.
 *
 * The model keeps plain arrays and looks at everything in every step. It does not predict the
 * numbers of tokens, which depend on the order in which the table works off what is due; it learns
 * each from the table and checks that none is reused, that they rise, and that the counter moved by
 * exactly one per grant. A failure names the seed and the step. */
#include "tests/harness/test.h"

#include <string.h>

#include "base/prng.h"
#include "core/lease_store.h"

#define SESSIONS 6
#define NAMES 5
#define TERMS 3
#define QUEUE 32
#define STEP_GRANTS 32
#define OWNERS 2

struct model_session {
    bool exists, closed;
    uint8_t gen; /* Part of the secret. */
    tenure_ns ttl, expires_at;
    uint64_t seq, revocations, seen;
};

struct candidate {
    uint32_t session, term;
};

struct model_lease {
    bool known, held, revoked, changed;
    struct candidate holder;
    struct tn_secret term; /* Of the last holder, also after its end. */
    uint64_t token, revocation;
    tenure_ns free_at;
    struct candidate queue[QUEUE];
    uint32_t waiting;
};

struct model_grant {
    uint32_t lease;
    struct candidate to;
    bool told;
};

struct expected {
    enum tn_answer answer;
    bool direct;     /* A grant by the answer itself. */
    bool with_token; /* The answer carries the lease's token. */
};

struct model {
    uint64_t seed, step;
    tenure_ns now;
    struct tn_prng prng;
    struct tn_table *table;
    struct model_session sessions[SESSIONS];
    struct model_lease leases[NAMES];
    struct model_grant grants[STEP_GRANTS];
    uint32_t grant_count;
    uint64_t tokens_before;
    uint64_t tokens_used; /* One bit per token given out in this step. */
};

static const char *const names[NAMES] = {
    "a", "b/primary", "exactly-16-bytes", "a-name-of-more-than-sixteen-bytes",
    "a-name-of-more-than-sixty-four-bytes-so-that-it-lies-in-yet-another-class"
};

static uint64_t table_block[4096];
static struct model model;

static void agree(bool same, const char *what)
{
    if (!same)
        tn_test_fail(__FILE__, __LINE__, "seed %llu, step %llu: %s", (unsigned long long)model.seed,
                     (unsigned long long)model.step, what);
}

static uint32_t below(uint32_t n)
{
    return (uint32_t)tn_prng_below(&model.prng, n);
}

static struct tn_secret session_secret(uint32_t session)
{
    return (struct tn_secret) { { 's', (uint8_t)session, model.sessions[session].gen } };
}

static struct tn_secret term_secret(struct candidate who)
{
    return (struct tn_secret) { { 't', (uint8_t)who.session, model.sessions[who.session].gen,
                                  (uint8_t)who.term } };
}

/* --- The model's rules ------------------------------------------------------------------------ */

static bool is_alive(uint32_t session)
{
    const struct model_session *s = &model.sessions[session];
    return s->exists && !s->closed && model.now < s->expires_at;
}

static void model_grant(uint32_t lease, struct candidate to)
{
    struct model_lease *l = &model.leases[lease];
    l->held = true;
    l->changed = true;
    l->holder = to;
    l->term = term_secret(to);
}

static void model_vacate(uint32_t lease)
{
    struct model_lease *l = &model.leases[lease];
    l->held = false;
    l->revoked = false;
    l->changed = true;
    while (l->waiting > 0 && !l->held) {
        struct candidate next = l->queue[0];
        memmove(l->queue, l->queue + 1, --l->waiting * sizeof l->queue[0]);
        if (is_alive(next.session)) {
            model_grant(lease, next);
            agree(model.grant_count < STEP_GRANTS, "the model's list of grants is too short");
            model.grants[model.grant_count++] = (struct model_grant) { .lease = lease, .to = next };
        }
    }
}

static void model_settle(uint32_t lease)
{
    struct model_lease *l = &model.leases[lease];
    if (l->held && (!is_alive(l->holder.session) || (l->revoked && model.now >= l->free_at)))
        model_vacate(lease);
}

static void model_leave_queue(uint32_t lease, uint32_t session, uint32_t term)
{
    struct model_lease *l = &model.leases[lease];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < l->waiting; i++)
        if (l->queue[i].session != session || (l->queue[i].term != term && term != TERMS))
            l->queue[kept++] = l->queue[i];
    l->waiting = kept;
}

/* What the clock brings about. */
static void model_time(void)
{
    for (uint32_t i = 0; i < NAMES; i++)
        model_settle(i);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        if (model.sessions[i].exists && !is_alive(i)) {
            model.sessions[i].exists = false;
            for (uint32_t j = 0; j < NAMES; j++)
                model_leave_queue(j, i, TERMS);
        }
    }
}

static bool model_holds(uint32_t lease, struct candidate who)
{
    const struct model_lease *l = &model.leases[lease];
    return l->held && l->holder.session == who.session && l->holder.term == who.term;
}

static void expect_renewal(uint32_t session, const struct tn_op *op, struct expected *want)
{
    struct model_session *s = &model.sessions[session];
    want->answer = op->seq > s->seq ? TN_ANSWER_OK : TN_ANSWER_STALE;
    if (op->seq > s->seq) {
        s->seq = op->seq;
        s->expires_at = model.now + s->ttl;
    }
}

static void expect_session_op(uint32_t session, const struct tn_op *op, struct expected *want)
{
    struct model_session *s = &model.sessions[session];
    want->answer = TN_ANSWER_GONE;
    if (op->kind == TN_OP_OPEN && !s->exists) {
        *s = (struct model_session) { .exists = true, .gen = s->gen, .ttl = op->ttl };
        s->expires_at = model.now + op->ttl;
    }
    if (!is_alive(session))
        return;
    if (op->kind == TN_OP_CLOSE) {
        want->answer = TN_ANSWER_OK;
        s->closed = true;
    } else {
        expect_renewal(session, op, want);
    }
}

static void expect_acquire(uint32_t lease, struct candidate who, const struct tn_op *op,
                           struct expected *want)
{
    struct model_lease *l = &model.leases[lease];
    l->known = true;
    model_settle(lease);
    struct tn_secret term = term_secret(who);
    want->with_token = true;
    if (model_holds(lease, who) && !l->revoked) {
        want->answer = TN_ANSWER_GRANTED;
    } else if (!l->held && l->token > 0 && tn_secret_equal(&l->term, &term)) {
        want->answer = TN_ANSWER_STALE;
    } else if (!l->held) {
        model_grant(lease, who);
        want->answer = TN_ANSWER_GRANTED;
        want->direct = true;
    } else if (op->wait) {
        bool waits = false;
        for (uint32_t i = 0; i < l->waiting; i++)
            waits = waits || (l->queue[i].session == who.session && l->queue[i].term == who.term);
        if (!waits)
            l->queue[l->waiting++] = who;
        want->answer = TN_ANSWER_QUEUED;
    } else {
        want->answer = TN_ANSWER_HELD;
    }
}

static void expect_release(uint32_t lease, struct candidate who, const struct tn_op *op,
                           struct expected *want)
{
    struct model_lease *l = &model.leases[lease];
    struct tn_secret term = term_secret(who);
    uint32_t grants = model.grant_count;
    model_settle(lease);
    want->answer = TN_ANSWER_RELEASED;
    if (op->token == 0) {
        model_leave_queue(lease, who.session, who.term);
        if (model_holds(lease, who))
            model_vacate(lease);
    } else if (!l->known || l->token != op->token || model.grant_count > grants) {
        want->answer = TN_ANSWER_STALE; /* A token made just now nobody could name yet. */
    } else if (model_holds(lease, who)) {
        model_vacate(lease);
    } else if (l->held) {
        want->answer = TN_ANSWER_DENIED;
    } else if (!tn_secret_equal(&l->term, &term)) {
        want->answer = TN_ANSWER_STALE;
    }
}

static void expect_revoke(uint32_t lease, const struct tn_op *op, struct expected *want)
{
    struct model_lease *l = &model.leases[lease];
    uint64_t token = l->token;
    uint32_t grants = model.grant_count;
    model_settle(lease);
    want->answer = TN_ANSWER_STALE;
    if (!l->held || (op->token != 0 && (op->token != token || model.grant_count > grants)))
        return;
    want->answer = TN_ANSWER_OK;
    if (!l->revoked) {
        struct model_session *s = &model.sessions[l->holder.session];
        l->revoked = true;
        l->free_at = model.now + s->ttl;
        l->revocation = ++s->revocations;
    }
}

static void expect(uint32_t lease, struct candidate who, const struct tn_op *op,
                   struct expected *want)
{
    *want = (struct expected) { .answer = TN_ANSWER_OK };
    if (op->kind == TN_OP_OPEN || op->kind == TN_OP_RENEW || op->kind == TN_OP_CLOSE) {
        expect_session_op(who.session, op, want);
    } else if (op->kind == TN_OP_READ) {
        model_settle(lease);
        want->answer = model.leases[lease].held ? TN_ANSWER_HELD : TN_ANSWER_FREE;
        want->with_token = true;
    } else if (op->kind == TN_OP_REVOKE) {
        expect_revoke(lease, op, want);
    } else if (op->kind != TN_OP_TICK && !is_alive(who.session)) {
        want->answer = TN_ANSWER_GONE;
    } else if (op->kind == TN_OP_ACQUIRE) {
        expect_acquire(lease, who, op, want);
    } else if (op->kind == TN_OP_RELEASE) {
        expect_release(lease, who, op, want);
    }
}

/* --- Comparing -------------------------------------------------------------------------------- */

static uint32_t lease_named(uint32_t index, struct tn_lease_view *ret_view)
{
    uint32_t lease = 0;
    tn_table_lease(model.table, index, ret_view);
    while (lease < NAMES && (strlen(names[lease]) != ret_view->name_len ||
                             memcmp(names[lease], ret_view->name, ret_view->name_len) != 0))
        lease++;
    agree(lease < NAMES, "a lease has a name that nobody asked for");
    return lease;
}

/* P2: @token is new, and higher than every earlier one of its name. */
static void learn_token(uint32_t lease, uint64_t token)
{
    agree(token > model.tokens_before, "a token from before this step was granted again");
    agree(token - model.tokens_before <= 64, "a token is too high");
    uint64_t bit = UINT64_C(1) << (token - model.tokens_before - 1);
    agree((model.tokens_used & bit) == 0, "a token was granted twice");
    agree(token > model.leases[lease].token, "the tokens of a name went back");
    model.tokens_used |= bit;
    model.leases[lease].token = token;
}

static void check_grant_notice(const struct tn_notice *notice)
{
    struct tn_lease_view view;
    uint32_t lease = lease_named(notice->lease, &view);
    for (uint32_t i = 0; i < model.grant_count; i++) {
        struct model_grant *grant = &model.grants[i];
        if (grant->lease != lease || grant->told)
            continue;
        struct tn_secret session = session_secret(grant->to.session);
        struct tn_secret term = term_secret(grant->to);
        agree(tn_secret_equal(&notice->session, &session), "the wrong session was granted");
        agree(tn_secret_equal(&notice->term, &term), "the wrong term was granted");
        learn_token(lease, notice->token);
        grant->told = true;
        return;
    }
    agree(false, "a grant too many was told");
}

static void check_changed_notice(const struct tn_notice *notice, uint64_t *ret_last, bool *ret_held)
{
    struct tn_lease_view view;
    uint32_t lease = lease_named(notice->lease, &view);
    agree(model.leases[lease].changed, "a change was told of what did not change");
    ret_last[lease] = notice->token;
    ret_held[lease] = notice->held;
}

/* The revocations of a renewal: all above what the holder has seen, in order. */
static void check_revocations(uint32_t session, const struct tn_op *op,
                              const struct tn_result *result)
{
    uint64_t previous = op->seen;
    uint32_t told = 0;
    uint32_t due = 0;
    for (uint32_t i = 0; i < NAMES; i++) {
        const struct model_lease *l = &model.leases[i];
        due += l->held && l->revoked && l->holder.session == session && l->revocation > op->seen;
    }
    for (uint32_t i = 0; i < result->count; i++) {
        struct tn_lease_view view;
        if (result->list[i].kind != TN_NOTICE_REVOKED)
            continue;
        const struct model_lease *l = &model.leases[lease_named(result->list[i].lease, &view)];
        agree(result->list[i].revocation > previous, "revocations are not told in order");
        agree(result->list[i].revocation == l->revocation, "a revocation has the wrong number");
        agree(result->list[i].token == l->token, "a revocation has the wrong token");
        previous = result->list[i].revocation;
        told++;
    }
    agree(told == due, "not all revocations were told");
    agree(!result->more, "there are no more revocations than fit");
    agree(result->seen == model.sessions[session].revocations, "seen is not the last number");
    model.sessions[session].seen = result->seen;
}

static void check_lease(uint32_t index)
{
    struct tn_lease_view view;
    const struct model_lease *l = &model.leases[lease_named(index, &view)];
    agree((view.session != NULL) == l->held, "held or free");
    agree(view.token == l->token, "the token on record");
    agree(view.revoked == (l->held && l->revoked), "revoked or not");
    if (l->held) {
        struct tn_secret session = session_secret(l->holder.session);
        agree(tn_secret_equal(view.session, &session), "the holder's session");
        agree(tn_secret_equal(view.term, &l->term), "the holder's term");
        agree(view.remaining == model.sessions[l->holder.session].expires_at - model.now,
              "the time that remains");
    }
}

static void check_wake_at(void)
{
    tenure_ns due = TN_NEVER;
    for (uint32_t i = 0; i < SESSIONS; i++)
        if (model.sessions[i].exists && model.sessions[i].expires_at < due)
            due = model.sessions[i].expires_at;
    for (uint32_t i = 0; i < NAMES; i++)
        if (model.leases[i].held && model.leases[i].revoked && model.leases[i].free_at < due)
            due = model.leases[i].free_at;
    agree(tn_table_wake_at(model.table) <= due, "the table wakes too late");
}

/* What each owner has, counted one by one. */
static void check_owners(void)
{
    struct tn_owner_record owners[OWNERS + 1] = { { 0 } };

    for (uint32_t i = 0; (i = tn_table_next_session(model.table, i)) != 0;) {
        const struct tn_session_record *session = tn_session_at(model.table, i);
        struct tn_owner_record *owner = &owners[session->owner];
        owner->sessions++;
        for (uint32_t at = session->leases.first; at != 0;
             at = tn_lease_at(model.table, at)->links.next)
            owner->places++;
        for (uint32_t at = session->waiters.first; at != 0;
             at = tn_waiter_at(model.table, at)->in_session.next)
            owner->places++;
    }
    for (uint32_t i = 0; i <= OWNERS; i++) {
        agree(tn_owner_at(model.table, i)->sessions == owners[i].sessions, "an owner's sessions");
        agree(tn_owner_at(model.table, i)->places == owners[i].places, "an owner's places");
    }
}

/* Carry out @op and everything that is due, and compare all of it. */
static void step_both(uint32_t lease, struct candidate who, const struct tn_op *op)
{
    uint64_t last[NAMES] = { 0 };
    bool held[NAMES] = { false };
    struct tn_op todo = *op;
    struct tn_result result;
    struct expected want;

    model.grant_count = 0;
    model.tokens_used = 0;
    model.tokens_before = tn_table_token(model.table);
    for (uint32_t i = 0; i < NAMES; i++)
        model.leases[i].changed = false;
    expect(lease, who, op, &want);
    for (bool first = true; first || tn_table_wake_at(model.table) <= model.now; first = false) {
        tn_table_step(model.table, model.now, &todo, &result);
        agree(result.count <= TN_TABLE_NOTICES, "too many notices");
        if (first) {
            agree(result.answer == want.answer, "the answer");
            if (want.answer == TN_ANSWER_OK && (op->kind == TN_OP_OPEN || op->kind == TN_OP_RENEW))
                check_revocations(who.session, op, &result);
            model_time();
        }
        for (uint32_t i = 0; i < result.count; i++) {
            if (result.list[i].kind == TN_NOTICE_GRANTED)
                check_grant_notice(&result.list[i]);
            else if (result.list[i].kind == TN_NOTICE_CHANGED)
                check_changed_notice(&result.list[i], last, held);
        }
        if (first && want.direct)
            learn_token(lease, result.token);
        if (first && want.with_token)
            agree(result.token == model.leases[lease].token, "the token of the answer");
        todo = (struct tn_op) { .kind = TN_OP_TICK };
    }
    for (uint32_t i = 0; i < model.grant_count; i++)
        agree(model.grants[i].told, "a grant was not told");
    agree(tn_table_token(model.table) - model.tokens_before ==
              (uint64_t)__builtin_popcountll(model.tokens_used),
          "the counter moved by other than one per grant");
    for (uint32_t i = 0; i < NAMES; i++)
        agree(!model.leases[i].changed ||
                  (last[i] == model.leases[i].token && held[i] == model.leases[i].held),
              "the last change told is not how things are");
    for (uint32_t i = tn_table_next(model.table, 0); i != 0; i = tn_table_next(model.table, i))
        check_lease(i);
    check_owners();
    check_wake_at();
}

/* --- Random operations ------------------------------------------------------------------------ */

static uint64_t random_token(uint32_t lease)
{
    uint64_t token = model.leases[lease].token;
    switch (below(8)) {
    case 0:
        return token + 1000; /* Higher than any that this step can make. */
    case 1:
        return token > 1 ? token - 1 : 1;
    case 2:
    case 3:
        return 0;
    default:
        return token;
    }
}

static enum tn_op_kind random_kind(void)
{
    static const enum tn_op_kind kinds[] = {
        TN_OP_OPEN,    TN_OP_OPEN,    TN_OP_RENEW,   TN_OP_RENEW,   TN_OP_RENEW,   TN_OP_RENEW,
        TN_OP_ACQUIRE, TN_OP_ACQUIRE, TN_OP_ACQUIRE, TN_OP_ACQUIRE, TN_OP_ACQUIRE, TN_OP_ACQUIRE,
        TN_OP_RELEASE, TN_OP_RELEASE, TN_OP_RELEASE, TN_OP_READ,    TN_OP_TICK,    TN_OP_REVOKE,
    };
    return below(60) == 0 ? TN_OP_CLOSE : kinds[below(sizeof kinds / sizeof kinds[0])];
}

static void random_step(void)
{
    struct candidate who = { below(SESSIONS), below(TERMS) };
    struct model_session *s = &model.sessions[who.session];
    uint32_t lease = below(NAMES);
    struct tn_op op = {
        .kind = random_kind(),
        .wait = below(3) > 0,
        .name = names[lease],
        .name_len = (uint32_t)strlen(names[lease]),
        .label = "label",
        .label_len = below(6),
        .seq = s->exists && below(10) == 0 ? s->seq : s->seq + 1,
        .token = random_token(lease),
        .ttl = TN_MS(1000 + below(4000)),
        .owner = below(OWNERS + 1),
    };

    model.now += below(40) == 0 ? TN_MS(below(4000)) : TN_MS(below(120));
    if (!s->exists && below(2) == 0)
        s->gen++; /* Another life; otherwise the old secret is tried again. */
    op.seq = op.seq > 0 ? op.seq : 1;
    op.seen = s->exists && op.kind == TN_OP_RENEW && below(4) > 0 ? s->seen : 0;
    op.session = session_secret(who.session);
    op.term = term_secret(who);
    step_both(lease, who, &op);
}

static void restart_both(void)
{
    model.now = TN_MS(below(100000));
    tn_table_restart(model.table, model.now);
    for (uint32_t i = 0; i < SESSIONS; i++) {
        model.sessions[i].expires_at = model.now + model.sessions[i].ttl;
        model.sessions[i].seq = 0;
    }
    for (uint32_t i = 0; i < NAMES; i++) {
        struct model_lease *l = &model.leases[i];
        l->waiting = 0;
        if (l->held)
            l->free_at = model.now + model.sessions[l->holder.session].ttl;
    }
}

static void run_model(uint64_t seed, uint64_t steps)
{
    struct tn_table_limits limits = { .sessions = 16,
                                      .leases = 8,
                                      .waiters = SESSIONS * NAMES * TERMS,
                                      .text_bytes = 1024,
                                      .owners = OWNERS,
                                      .hash_key = { seed, ~seed } };

    model = (struct model) { .seed = seed };
    tn_prng_seed(&model.prng, seed);
    agree(tn_table_size(&limits) <= sizeof table_block, "the block is too small");
    memset(table_block, 0, sizeof table_block);
    model.table = tn_table_init(table_block, &limits);
    for (; model.step < steps; model.step++) {
        if (below(700) == 0)
            restart_both();
        random_step();
    }
    agree(tn_table_token(model.table) > steps / 50, "hardly anything was granted");
}

TEST(the_table_agrees_with_the_model_over_a_hundred_thousand_operations)
{
    for (uint64_t seed = 1; seed <= 20; seed++)
        run_model(seed, 5000);
}
