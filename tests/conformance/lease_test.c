/* lease_test.c - what every store promises of leases, tokens, sessions and queues. */
#include <stdlib.h>
#include <string.h>

#include "runtime/random.h"
#include "tests/conformance/bed.h"

#define TTL bed_ttl()

CONFORMS(one_holder_at_a_time)
{
    struct bed_store *store = bed_open();
    struct bed_actor a = bed_actor(store, TTL);
    struct bed_actor b = bed_actor(store, TTL);

    CHECK_EQ_I64(bed_read(store, "one/job")->answer, TN_ANSWER_FREE);
    CHECK_EQ_I64(bed_acquire(&a, "one/job", false)->answer, TN_ANSWER_GRANTED);
    struct tn_store_req *req = bed_acquire(&b, "one/job", false);
    CHECK_EQ_I64(req->answer, TN_ANSWER_HELD);
    CHECK(req->record.held);
    CHECK_EQ_U64(req->record.token, a.token);
    CHECK_STR(req->record.label, "actor");
    CHECK_EQ_U64(req->record.label_len, 5);
    CHECK_EQ_I64(req->record.ttl, TTL);
    CHECK(req->record.remaining > 0);
    CHECK(req->record.remaining <= TTL);
    CHECK_EQ_I64(bed_acquire(&b, "other/job", false)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_I64(bed_read(store, "one/job")->answer, TN_ANSWER_HELD);
    CHECK_EQ_I64(bed_release(&a, "one/job", a.token)->answer, TN_ANSWER_RELEASED);
    req = bed_read(store, "one/job");
    CHECK_EQ_I64(req->answer, TN_ANSWER_FREE);
    CHECK(!req->record.held);
    CHECK_EQ_U64(req->record.token, a.token);
}

CONFORMS(tokens_rise_over_terms_names_and_stores)
{
    struct bed_store *keeper = bed_open();
    struct bed_store *store = bed_open();
    bool per_name = (store->store->ops->caps & TN_STORE_PER_NAME) != 0;
    uint64_t last[2] = { 0, 0 };

    for (int round = 0; round < 12; round++) {
        int which = per_name && round % 3 != 0;
        const char *name = round % 3 == 0 ? "rise/a" : "rise/b";
        struct bed_actor actor = bed_actor(store, TTL);
        CHECK_EQ_I64(bed_acquire(&actor, name, false)->answer, TN_ANSWER_GRANTED);
        CHECK(actor.token > last[which]);
        last[which] = actor.token;
        if (round % 2 == 0) {
            CHECK_EQ_I64(bed_release(&actor, name, actor.token)->answer, TN_ANSWER_RELEASED);
        } else {
            struct tn_op op = { .kind = TN_OP_CLOSE, .session = actor.session };
            CHECK_EQ_I64(bed_ask(store, &op)->answer, TN_ANSWER_OK);
        }
        if (round % 4 == 3) {
            bed_close(store);
            store = bed_open();
        }
    }
    bed_close(keeper);
}

CONFORMS(a_raised_counter_grants_above_it)
{
    struct bed_store *store = bed_open();
    struct bed_actor a = bed_actor(store, TTL);
    struct bed_actor b = bed_actor(store, TTL);
    struct tn_op op = { .kind = TN_OP_RAISE, .name = "raise/job", .name_len = 9 };

    CHECK_EQ_I64(bed_acquire(&a, "raise/job", false)->answer, TN_ANSWER_GRANTED);
    op.token = a.token + 1000;
    struct tn_store_req *raised = bed_ask(store, &op);
    if ((store->store->ops->caps & TN_STORE_RAISES) == 0) {
        CHECK(raised->status < 0);
        return;
    }
    CHECK_EQ_I64(raised->status, 0);
    CHECK_EQ_I64(raised->answer, TN_ANSWER_OK);
    /* Who holds it keeps its token, and a lower number changes nothing. */
    CHECK_EQ_U64(bed_read(store, "raise/job")->record.token, a.token);
    op.token = a.token + 1;
    CHECK_EQ_I64(bed_ask(store, &op)->answer, TN_ANSWER_OK);
    CHECK_EQ_I64(bed_release(&a, "raise/job", a.token)->answer, TN_ANSWER_RELEASED);
    CHECK_EQ_I64(bed_acquire(&b, "raise/job", false)->answer, TN_ANSWER_GRANTED);
    CHECK(b.token > a.token + 1000);
}

CONFORMS(the_same_term_gets_the_same_answer)
{
    struct bed_store *store = bed_open();
    struct bed_actor a = bed_actor(store, TTL);
    uint64_t token;

    CHECK_EQ_I64(bed_acquire(&a, "again/job", true)->answer, TN_ANSWER_GRANTED);
    token = a.token;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ_I64(bed_acquire(&a, "again/job", i % 2 == 0)->answer, TN_ANSWER_GRANTED);
        CHECK_EQ_U64(a.token, token);
    }
    CHECK_EQ_I64(bed_release(&a, "again/job", token)->answer, TN_ANSWER_RELEASED);
    CHECK_EQ_I64(bed_release(&a, "again/job", token)->answer, TN_ANSWER_RELEASED);
    /* A delayed acquire of a term that is over. */
    CHECK_EQ_I64(bed_acquire(&a, "again/job", true)->answer, TN_ANSWER_STALE);
    bed_new_term(&a);
    CHECK_EQ_I64(bed_acquire(&a, "again/job", true)->answer, TN_ANSWER_GRANTED);
    CHECK(a.token > token);
}

CONFORMS(a_release_is_exact)
{
    struct bed_store *store = bed_open();
    struct bed_actor a = bed_actor(store, TTL);
    struct bed_actor b = bed_actor(store, TTL);
    struct bed_actor forged = a;

    CHECK_EQ_I64(bed_acquire(&a, "exact/job", false)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_I64(bed_release(&a, "exact/job", a.token + 1)->answer, TN_ANSWER_STALE);
    CHECK_EQ_I64(bed_release(&b, "exact/job", a.token)->answer, TN_ANSWER_DENIED);
    bed_new_term(&forged);
    CHECK_EQ_I64(bed_release(&forged, "exact/job", a.token)->answer, TN_ANSWER_DENIED);
    CHECK_EQ_I64(bed_release(&forged, "exact/job", 0)->answer, TN_ANSWER_RELEASED);
    CHECK_EQ_I64(bed_read(store, "exact/job")->answer, TN_ANSWER_HELD);
    CHECK_EQ_I64(bed_release(&a, "exact/job", a.token)->answer, TN_ANSWER_RELEASED);
    CHECK_EQ_I64(bed_acquire(&b, "exact/job", false)->answer, TN_ANSWER_GRANTED);
    /* An old release does not touch the next term. */
    (void)bed_release(&a, "exact/job", a.token);
    CHECK_EQ_I64(bed_read(store, "exact/job")->answer, TN_ANSWER_HELD);
}

CONFORMS(a_session_lasts_its_ttl_and_no_less)
{
    struct bed_store *store = bed_open();
    struct bed_actor a = bed_actor(store, TN_SEC(1));
    struct bed_actor b = bed_actor(store, TTL);
    tenure_ns sent = bed_now();

    CHECK_EQ_I64(bed_renew(&a)->answer, TN_ANSWER_OK);
    CHECK_EQ_I64(bed_acquire(&a, "ttl/job", false)->answer, TN_ANSWER_GRANTED);
    for (;;) {
        struct tn_store_req *req = bed_acquire(&b, "ttl/job", false);
        tenure_ns since = bed_now() - sent;
        if (req->answer == TN_ANSWER_GRANTED) {
            CHECK(since >= TN_SEC(1) - store->store->ops->slack);
            break;
        }
        CHECK_EQ_I64(req->answer, TN_ANSWER_HELD);
        CHECK(since < TN_SEC(1) + BED_BOUND);
        bed_pass(bed_now() + TN_MS(20));
    }
    CHECK(b.token > a.token);
    CHECK_EQ_I64(bed_renew(&a)->answer, TN_ANSWER_GONE);
    CHECK_EQ_I64(bed_acquire(&a, "ttl/job", true)->answer, TN_ANSWER_GONE);
}

CONFORMS(an_old_attempt_extends_nothing)
{
    struct bed_store *store = bed_open();
    struct bed_actor a = bed_actor(store, TTL);

    CHECK_EQ_I64(bed_renew(&a)->answer, TN_ANSWER_OK);
    CHECK_EQ_I64(bed_renew(&a)->answer, TN_ANSWER_OK);
    a.seq -= 2;
    CHECK_EQ_I64(bed_renew(&a)->answer, TN_ANSWER_STALE);
    struct bed_actor stranger = a;
    stranger.session.bytes[3] ^= 1;
    CHECK_EQ_I64(bed_renew(&stranger)->answer, TN_ANSWER_GONE);
}

CONFORMS(waiters_are_served_in_their_order)
{
    struct bed_store *store = bed_open();
    struct bed_actor actors[5];

    for (int i = 0; i < 5; i++)
        actors[i] = bed_actor(store, TTL);
    if (bed_waiting(store) != TN_ANSWER_QUEUED)
        return; /* Said plainly: candidates race for a vacancy. */
    CHECK_EQ_I64(bed_acquire(&actors[0], "fifo/job", true)->answer, TN_ANSWER_GRANTED);
    for (int i = 1; i < 5; i++)
        CHECK_EQ_I64(bed_acquire(&actors[i], "fifo/job", true)->answer, bed_waiting(actors[i].at));
    /* Asking again keeps the place; leaving gives it up. */
    CHECK_EQ_I64(bed_acquire(&actors[1], "fifo/job", true)->answer, bed_waiting(actors[1].at));
    CHECK_EQ_I64(bed_release(&actors[2], "fifo/job", 0)->answer, TN_ANSWER_RELEASED);
    struct tn_op op = { .kind = TN_OP_CLOSE, .session = actors[3].session };
    CHECK_EQ_I64(bed_ask(store, &op)->answer, TN_ANSWER_OK);

    CHECK_EQ_I64(bed_release(&actors[0], "fifo/job", actors[0].token)->answer, TN_ANSWER_RELEASED);
    CHECK(bed_is_granted(&actors[1], "fifo/job", BED_BOUND));
    CHECK(actors[1].token > actors[0].token);
    CHECK_EQ_I64(bed_acquire(&actors[1], "fifo/job", true)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_I64(bed_release(&actors[1], "fifo/job", actors[1].token)->answer, TN_ANSWER_RELEASED);
    CHECK(bed_is_granted(&actors[4], "fifo/job", BED_BOUND));
    CHECK(actors[4].token > actors[1].token);
}

CONFORMS(a_dead_holder_makes_way)
{
    struct bed_store *store = bed_open();
    struct bed_actor dead = bed_actor(store, TN_SEC(1));
    struct bed_actor next = bed_actor(store, TTL);
    tenure_ns opened = bed_now();

    CHECK_EQ_I64(bed_acquire(&dead, "dead/job", true)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_I64(bed_acquire(&next, "dead/job", true)->answer, bed_waiting(next.at));
    /* Nobody asks anything more: the store does it by itself. */
    CHECK(bed_is_granted(&next, "dead/job", TN_SEC(1) + BED_BOUND));
    CHECK(bed_now() - opened < TN_SEC(1) + BED_BOUND);
    CHECK(next.token > dead.token);
}

/* A store that noticed them one after the other would need a TTL for each. */
CONFORMS(dead_waiters_cost_one_ttl_together)
{
    enum { DEAD = 12 };
    struct bed_store *grave = bed_open();
    struct bed_store *store = bed_open();
    struct bed_actor holder = bed_actor(store, TTL);
    struct bed_actor dead[DEAD];
    tenure_ns ttl = 0;

    if (bed_waiting(store) != TN_ANSWER_QUEUED)
        return; /* Candidates race for a vacancy. */
    CHECK_EQ_I64(bed_acquire(&holder, "line/job", true)->answer, TN_ANSWER_GRANTED);
    for (int i = 0; i < DEAD; i++) {
        dead[i] = bed_actor(grave, TN_SEC(4));
        CHECK_EQ_I64(bed_acquire(&dead[i], "line/job", true)->answer, TN_ANSWER_QUEUED);
    }
    struct bed_actor next = bed_actor(store, TTL);
    CHECK_EQ_I64(bed_acquire(&next, "line/job", true)->answer, TN_ANSWER_QUEUED);
    for (int i = 0; i < DEAD; i++)
        ttl = bed_renew(&dead[i])->ttl;
    bed_close(grave);
    CHECK_EQ_I64(bed_release(&holder, "line/job", holder.token)->answer, TN_ANSWER_RELEASED);
    /* Two rounds, from both ends or after a second look, would take twice the TTL. */
    CHECK(bed_is_granted(&next, "line/job", ttl + ttl * 7 / 8));
    CHECK(next.token > holder.token);
}

CONFORMS(a_session_knows_how_many_leases_it_has)
{
    struct bed_store *store = bed_open();
    struct bed_actor a = bed_actor(store, TTL);
    struct bed_actor second = a;

    CHECK_EQ_U64(bed_renew(&a)->held, 0);
    CHECK_EQ_I64(bed_acquire(&a, "count/a", false)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_U64(bed_renew(&a)->held, 1);
    bed_new_term(&second);
    CHECK_EQ_I64(bed_acquire(&second, "count/b", false)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_U64(bed_renew(&a)->held, 2);
    CHECK_EQ_I64(bed_release(&a, "count/a", a.token)->answer, TN_ANSWER_RELEASED);
    CHECK_EQ_U64(bed_renew(&a)->held, 1);
}

static struct tn_op revoke_op(const char *name, uint64_t token)
{
    return (struct tn_op) {
        .kind = TN_OP_REVOKE, .name = name, .name_len = (uint32_t)strlen(name), .token = token
    };
}

CONFORMS(a_revoked_lease_passes_on_when_it_was_given_back)
{
    struct bed_store *store = bed_open();
    struct bed_actor a = bed_actor(store, TTL);
    struct bed_actor b = bed_actor(store, TTL);
    struct tn_op op = revoke_op("revoke/job", 0);
    size_t at = 0;

    struct tn_store_req *first = bed_ask(store, &op);
    if (bed_lacks(first))
        return;
    CHECK_EQ_I64(first->answer, TN_ANSWER_STALE);
    CHECK_EQ_I64(bed_acquire(&a, "revoke/job", true)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_I64(bed_acquire(&b, "revoke/job", true)->answer, bed_waiting(b.at));
    op.token = a.token + 1;
    CHECK_EQ_I64(bed_ask(store, &op)->answer, TN_ANSWER_STALE);
    op.token = a.token;
    CHECK_EQ_I64(bed_ask(store, &op)->answer, TN_ANSWER_OK);
    const struct bed_news *news = bed_hear(store, TN_NOTICE_REVOKED, "revoke/job", &at, BED_BOUND);
    CHECK(news != NULL);
    CHECK_EQ_U64(news->token, a.token);
    /* Held off: the holder has not stopped yet. */
    CHECK_EQ_I64(bed_read(store, "revoke/job")->answer, TN_ANSWER_HELD);
    CHECK_EQ_U64(bed_renew(&a)->held, 1);
    CHECK(bed_is_not_granted(&b, "revoke/job", 0));
    /* The term is over, whatever its holder asks. */
    CHECK(bed_acquire(&a, "revoke/job", false)->answer != TN_ANSWER_GRANTED);
    CHECK_EQ_I64(bed_release(&a, "revoke/job", op.token)->answer, TN_ANSWER_RELEASED);
    CHECK(bed_is_granted(&b, "revoke/job", BED_BOUND));
    CHECK(b.token > op.token);
}

CONFORMS(a_revoked_lease_is_held_off_for_a_ttl)
{
    struct bed_store *store = bed_open();
    tenure_ns brief = bed_brief();
    struct bed_actor a = bed_actor(store, brief);
    struct bed_actor b = bed_actor(store, TTL);
    struct tn_op op = revoke_op("holdoff/job", 0);
    size_t at = 0;
    bool told = false;

    CHECK_EQ_I64(bed_acquire(&a, "holdoff/job", true)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_I64(bed_acquire(&b, "holdoff/job", true)->answer, bed_waiting(b.at));
    tenure_ns before = bed_now();
    struct tn_store_req *revoked = bed_ask(store, &op);
    if (bed_lacks(revoked))
        return;
    CHECK_EQ_I64(revoked->answer, TN_ANSWER_OK);
    /* The holder goes on renewing and does not stop, though it is told. */
    while (!bed_is_granted(&b, "holdoff/job", TN_MS(5))) {
        CHECK(bed_now() - before < brief + BED_BOUND);
        struct tn_store_req *req = bed_renew(&a);
        CHECK_EQ_I64(req->answer, TN_ANSWER_OK);
        while (bed_hear(store, TN_NOTICE_REVOKED, "holdoff/job", &at, 0) != NULL)
            told = true;
    }
    CHECK(told);
    CHECK(bed_now() - before >= brief);
    CHECK_EQ_U64(bed_renew(&a)->held, 0);
}

/* --- Lost replies, other processes, many leases --------------------------------------------- */

static struct tn_op open_op(const struct bed_actor *actor, uint64_t seq, tenure_ns ttl)
{
    return (struct tn_op) { .kind = TN_OP_OPEN,
                            .session = actor->session,
                            .seq = seq,
                            .ttl = ttl,
                            .label = "actor",
                            .label_len = 5 };
}

CONFORMS(an_open_said_again_is_the_same_session)
{
    struct bed_store *store = bed_open();
    struct bed_actor a = bed_actor(store, TTL);

    CHECK_EQ_I64(bed_acquire(&a, "reopen/job", false)->answer, TN_ANSWER_GRANTED);
    struct tn_op op = open_op(&a, ++a.seq, TTL);
    struct tn_store_req *req = bed_ask(store, &op);
    CHECK_EQ_I64(req->status, 0);
    CHECK_EQ_I64(req->answer, TN_ANSWER_OK);
    CHECK_EQ_I64(req->ttl, TTL);
    CHECK_EQ_U64(req->held, 1);
    CHECK_EQ_I64(bed_read(store, "reopen/job")->answer, TN_ANSWER_HELD);
}

/* Where a renewal is a write to each row, all of them have a twelfth of the TTL together. */
CONFORMS(one_renewal_keeps_all_leases)
{
    enum { LEASES = 20 };
    struct bed_store *store = bed_open();
    struct bed_actor a =
        bed_actor(store, bed_has(TN_STORE_PER_NAME) ? 3 * bed_brief() : bed_brief());
    struct bed_actor b = bed_actor(store, TTL);
    tenure_ns ttl = bed_renew(&a)->ttl, until = bed_now() + ttl + ttl / 2;
    char name[32];

    for (int i = 0; i < LEASES; i++) {
        (void)snprintf(name, sizeof name, "all/%d", i);
        bed_new_term(&a);
        CHECK_EQ_I64(bed_acquire(&a, name, false)->answer, TN_ANSWER_GRANTED);
        CHECK_EQ_I64(bed_renew(&a)->answer, TN_ANSWER_OK);
    }
    while (bed_now() < until) {
        bed_pass(bed_now() + ttl / 8);
        struct tn_store_req *req = bed_renew(&a);
        CHECK_EQ_I64(req->answer, TN_ANSWER_OK);
        CHECK_EQ_U64(req->held, LEASES);
    }
    for (int i = 0; i < LEASES; i++) {
        (void)snprintf(name, sizeof name, "all/%d", i);
        CHECK_EQ_I64(bed_renew(&a)->answer, TN_ANSWER_OK); /* Asking takes time, too. */
        CHECK_EQ_I64(bed_acquire(&b, name, false)->answer, TN_ANSWER_HELD);
    }
}

CONFORMS(a_withdrawn_acquire_is_never_granted)
{
    struct bed_store *store = bed_open();
    struct bed_actor a = bed_actor(store, TTL);
    struct bed_actor b = bed_actor(store, TTL);
    struct bed_req reqs[2];

    CHECK_EQ_I64(bed_acquire(&a, "cancel/job", true)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_I64(bed_acquire(&b, "cancel/job", true)->answer, bed_waiting(b.at));
    CHECK_EQ_I64(bed_release(&b, "cancel/job", 0)->answer, TN_ANSWER_RELEASED);
    /* Once more, in the same breath. */
    struct tn_op op = { .kind = TN_OP_ACQUIRE,
                        .session = b.session,
                        .name = "cancel/job",
                        .name_len = 10,
                        .wait = true };
    bed_new_term(&b);
    op.term = b.term;
    bed_submit(store, &reqs[0], &op);
    op.kind = TN_OP_RELEASE;
    bed_submit(store, &reqs[1], &op);
    while (reqs[0].done == 0 || reqs[1].done == 0)
        bed_pass(bed_now() + TN_MS(5));
    CHECK_EQ_I64(reqs[1].req.status, 0);
    CHECK_EQ_I64(bed_release(&b, "cancel/job", 0)->answer, TN_ANSWER_RELEASED);
    CHECK_EQ_I64(bed_release(&a, "cancel/job", a.token)->answer, TN_ANSWER_RELEASED);
    CHECK(bed_is_not_granted(&b, "cancel/job", TN_MS(300)));
    CHECK_EQ_I64(bed_read(store, "cancel/job")->answer, TN_ANSWER_FREE);
}

static struct tn_op script_renewal(const struct bed_actor *actor, const char *name)
{
    struct tn_op op = { .kind = TN_OP_RENEW, .session = actor->session };

    if ((actor->at->store->ops->caps & TN_STORE_NAMED) != 0) {
        op.name = name;
        op.name_len = (uint32_t)strlen(name);
        op.term = actor->term;
        op.token = actor->token;
    }
    return op;
}

/* `tenure acquire`, and later `renew` and `release`: each knows the secrets and the name. */
CONFORMS(who_knows_the_secret_is_the_session)
{
    struct bed_store *first = bed_open();
    struct bed_actor a = { .at = first };
    const unsigned bound = TN_STORE_BOUND | TN_STORE_LOCAL;

    if ((first->store->ops->caps & bound) != 0)
        return; /* Said plainly; scripts are refused there. */
    CHECK_EQ_I64(tn_random_secret(&a.session), 0);
    bed_new_term(&a);
    struct tn_op op = open_op(&a, 0, TTL);
    CHECK_EQ_I64(bed_ask(first, &op)->answer, TN_ANSWER_OK);
    CHECK_EQ_I64(bed_acquire(&a, "script/job", false)->answer, TN_ANSWER_GRANTED);
    bed_close(first);
    struct bed_store *second = bed_open();
    CHECK_EQ_I64(bed_read(second, "script/job")->answer, TN_ANSWER_HELD);
    a.at = second;
    op = script_renewal(&a, "script/job");
    for (int i = 0; i < 3; i++) {
        struct tn_store_req *req = bed_ask(second, &op);
        CHECK_EQ_I64(req->answer, TN_ANSWER_OK);
        CHECK_EQ_I64(req->ttl, TTL);
    }
    const struct tn_store_req *read = bed_read(second, "script/job");
    CHECK_EQ_I64(read->answer, TN_ANSWER_HELD);
    CHECK_EQ_U64(read->record.token, a.token);
    CHECK(strcmp(read->record.label, "actor") == 0);
    bed_close(second);
    a.at = bed_open();
    op.session.bytes[0] ^= 1;
    CHECK_EQ_I64(bed_ask(a.at, &op)->answer, TN_ANSWER_GONE);
    if ((a.at->store->ops->caps & TN_STORE_NAMED) != 0) {
        op = script_renewal(&a, "script/other");
        CHECK_EQ_I64(bed_ask(a.at, &op)->answer, TN_ANSWER_GONE);
        op = script_renewal(&a, "script/job");
        op.token++;
        CHECK_EQ_I64(bed_ask(a.at, &op)->answer, TN_ANSWER_GONE);
        op.token--;
        op.term.bytes[0] ^= 1;
        CHECK_EQ_I64(bed_ask(a.at, &op)->answer, TN_ANSWER_GONE);
    }
    CHECK_EQ_I64(bed_release(&a, "script/job", a.token)->answer, TN_ANSWER_RELEASED);
    CHECK_EQ_I64(bed_release(&a, "script/job", a.token)->answer, TN_ANSWER_RELEASED);
    CHECK_EQ_I64(bed_read(a.at, "script/job")->answer, TN_ANSWER_FREE);
    op = script_renewal(&a, "script/job");
    if ((a.at->store->ops->caps & TN_STORE_NAMED) != 0) {
        CHECK_EQ_I64(bed_ask(a.at, &op)->answer, TN_ANSWER_GONE);
        CHECK_EQ_I64(bed_read(a.at, "script/job")->answer, TN_ANSWER_FREE);
    }
}

/* A candidate whose acquire was never answered finds its own term when it looks, and leads. */
CONFORMS(a_term_that_was_found_by_looking_counts)
{
    struct bed_store *first = bed_open();
    struct bed_actor a = { .at = first };

    if ((first->store->ops->caps & (TN_STORE_BOUND | TN_STORE_LOCAL | TN_STORE_NAMED)) != 0)
        return;
    CHECK_EQ_I64(tn_random_secret(&a.session), 0);
    bed_new_term(&a);
    struct tn_op op = open_op(&a, 0, TTL);
    CHECK_EQ_I64(bed_ask(first, &op)->answer, TN_ANSWER_OK);
    CHECK_EQ_I64(bed_acquire(&a, "found/job", false)->answer, TN_ANSWER_GRANTED);
    bed_close(first);
    a.at = bed_open();
    CHECK_EQ_I64(bed_ask(a.at, &op)->answer, TN_ANSWER_OK);
    CHECK_EQ_I64(bed_read(a.at, "found/job")->answer, TN_ANSWER_HELD);
    op = (struct tn_op) { .kind = TN_OP_RENEW, .session = a.session };
    struct tn_store_req *req = bed_ask(a.at, &op);
    CHECK_EQ_I64(req->answer, TN_ANSWER_OK);
    CHECK_EQ_I64(req->held, 1);
    CHECK_EQ_I64(bed_release(&a, "found/job", a.token)->answer, TN_ANSWER_RELEASED);
}

/* What an agent needs to go on after a restart: the session still has what it had, under the same
 * token. etcd counts what a process has asked for, so there OPEN says 0. */
CONFORMS(a_session_that_is_taken_up_has_what_it_had)
{
    struct bed_store *first = bed_open();
    struct bed_actor a = { .at = first };

    if ((first->store->ops->caps & TN_STORE_RESUMES) == 0)
        return;
    CHECK_EQ_I64(tn_random_secret(&a.session), 0);
    bed_new_term(&a);
    struct tn_op op = open_op(&a, 1, TTL);
    CHECK_EQ_I64(bed_ask(first, &op)->answer, TN_ANSWER_OK);
    CHECK_EQ_I64(bed_acquire(&a, "taken/up", false)->answer, TN_ANSWER_GRANTED);
    uint64_t token = a.token;
    bed_close(first);
    a.at = bed_open();
    a.seq = (uint64_t)1 << 32;
    op = open_op(&a, a.seq, TTL);
    struct tn_store_req *req = bed_ask(a.at, &op);
    CHECK_EQ_I64(req->answer, TN_ANSWER_OK);
    CHECK(req->held <= 1);
    CHECK_EQ_I64(bed_acquire(&a, "taken/up", false)->answer, TN_ANSWER_GRANTED);
    CHECK_EQ_U64(a.token, token);
    CHECK_EQ_I64(bed_renew(&a)->held, 1);
    CHECK_EQ_I64(bed_release(&a, "taken/up", token)->answer, TN_ANSWER_RELEASED);
}

CONFORMS(ttls_go_to_their_limits)
{
    struct bed_store *store = bed_open();
    const struct tn_store_ops *ops = store->store->ops;
    struct bed_actor a = bed_actor(store, TTL);

    CHECK(ops->ttl_min >= TN_SEC(1) && ops->ttl_min <= ops->ttl_max);
    for (int i = 0; i < 2; i++) {
        a.session.bytes[0] ^= (uint8_t)(1 + i);
        struct tn_op op = open_op(&a, 1, i == 0 ? ops->ttl_min : ops->ttl_max);
        struct tn_store_req *req = bed_ask(store, &op);
        CHECK_EQ_I64(req->status, 0);
        CHECK_EQ_I64(req->answer, TN_ANSWER_OK);
        /* What was agreed to counts; it may be less than the most, or more than the least. */
        CHECK(req->ttl >= ops->ttl_min && req->ttl <= ops->ttl_max);
        op.kind = TN_OP_CLOSE;
        CHECK_EQ_I64(bed_ask(store, &op)->answer, TN_ANSWER_OK);
    }
}
