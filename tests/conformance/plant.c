/* plant.c - stores with a fault on purpose, to show that the suite finds it.
 *
 * TENURE_CONFORMANCE_PLANT names the fault. The wrapper passes every call on to the real store and
 * changes what comes back. */
#include <stdlib.h>
#include <string.h>

#include "tests/conformance/bed.h"

enum plant {
    NONE,
    REPEATS_TOKEN, /* Every grant has the first one's token. */
    GRANTS_TWICE,  /* Held by another, and granted all the same. */
    FORGETS_DONE,  /* Some requests are never done. */
    DONE_TWICE,
    DONE_INSIDE,    /* Inside submit. */
    SILENT,         /* No grant is pushed. */
    DEAF,           /* No change is told. */
    UNREVOKED,      /* No revocation is told. */
    MISCOUNTS,      /* The number of leases is one off. */
    NEVER_RELEASES, /* Says so, and does not. */
    KEEPS_PLACE,    /* Who leaves the queue is granted all the same. */
    RENEWS_NOTHING, /* Says so, and does not. */
    FORGETS_OPEN,   /* An open said again is refused. */
    DENIES_SCRIPTS, /* Number 0 counts as old. */
    CUTS_LABELS,    /* At 64 bytes. */
    LOST_AT_CLOSE,  /* What is pending when it is closed is never done. */
    NO_LIMITS,      /* Agrees to nothing at the limits. */
    KEEPS_REFUSED,  /* Who does not wait is in the queue all the same. */
    RAISES_NOTHING, /* Says that the counter is raised, and leaves it. */
    PLANTS
};

static const char *const names[PLANTS] = {
    [REPEATS_TOKEN] = "repeats-token",
    [GRANTS_TWICE] = "grants-twice",
    [FORGETS_DONE] = "forgets-done",
    [DONE_TWICE] = "done-twice",
    [DONE_INSIDE] = "done-inside",
    [SILENT] = "silent",
    [DEAF] = "deaf",
    [UNREVOKED] = "unrevoked",
    [MISCOUNTS] = "miscounts",
    [NEVER_RELEASES] = "never-releases",
    [KEEPS_PLACE] = "keeps-place",
    [RENEWS_NOTHING] = "renews-nothing",
    [FORGETS_OPEN] = "forgets-open",
    [DENIES_SCRIPTS] = "denies-scripts",
    [CUTS_LABELS] = "cuts-labels",
    [LOST_AT_CLOSE] = "lost-at-close",
    [NO_LIMITS] = "no-limits",
    [KEEPS_REFUSED] = "keeps-refused",
    [RAISES_NOTHING] = "raises-nothing",
};

static enum plant planted;
static const struct tn_store_ops *real;
static struct tn_store_ops wrapped;
static const struct tn_store_host *real_host;
static struct tn_store_host wrapped_host;
static uint64_t first_token;
static unsigned requests;

/* A request of ours in place of the caller's. */
struct shim {
    struct tn_store_req req;
    struct tn_store_req *caller;
};

static uint64_t forge(uint64_t token)
{
    if (first_token == 0)
        first_token = token;
    return planted == REPEATS_TOKEN ? first_token : token;
}

static void pass_on(struct tn_store_req *caller, const struct tn_store_req *req)
{
    struct tn_store_req answer = *req;

    answer.op = caller->op;
    answer.done = caller->done;
    answer.next = NULL;
    if (planted == GRANTS_TWICE && answer.answer == TN_ANSWER_HELD && req->op.kind == TN_OP_ACQUIRE)
        answer.answer = TN_ANSWER_GRANTED;
    if (answer.answer == TN_ANSWER_GRANTED)
        answer.record.token = forge(answer.record.token);
    if (planted == MISCOUNTS)
        answer.held++;
    if (planted == FORGETS_OPEN && req->op.kind == TN_OP_OPEN && req->op.seq > 1)
        answer.answer = TN_ANSWER_GONE;
    if (planted == DENIES_SCRIPTS && req->op.kind == TN_OP_RENEW && req->op.seq == 0)
        answer.answer = TN_ANSWER_STALE;
    if (planted == CUTS_LABELS && answer.record.label_len > 64)
        answer.record.label_len = 64;
    if (planted == NO_LIMITS && req->op.kind == TN_OP_OPEN && req->op.ttl == real->ttl_max)
        answer.ttl++;
    /* It was only a read; the renewal is what was meant. */
    if (planted == RENEWS_NOTHING && caller->op.kind == TN_OP_RENEW) {
        answer.answer = TN_ANSWER_OK;
        answer.ttl = TN_SEC(1);
    }
    if (planted == KEEPS_PLACE && caller->op.kind == TN_OP_RELEASE && caller->op.token == 0)
        answer.answer = TN_ANSWER_RELEASED;
    if (planted == KEEPS_REFUSED && !caller->op.wait && answer.answer == TN_ANSWER_QUEUED)
        answer.answer = TN_ANSWER_HELD;
    *caller = answer;
    caller->done(caller);
    if (planted == DONE_TWICE)
        caller->done(caller);
}

static void shim_done(struct tn_store_req *req)
{
    struct shim *shim = (struct shim *)req;

    bool lost = (planted == FORGETS_DONE && ++requests % 5 == 0) ||
                (planted == LOST_AT_CLOSE && req->status == TENURE_E_CLOSED);
    if (!lost)
        pass_on(shim->caller, req);
    free(shim);
}

static void submit(struct tn_store *store, struct tn_store_req *req)
{
    struct shim *shim = calloc(1, sizeof *shim);

    if (shim == NULL)
        abort();
    if (planted == DONE_INSIDE) {
        free(shim);
        req->done(req);
        return;
    }
    shim->req.op = req->op;
    shim->req.done = shim_done;
    shim->caller = req;
    if (planted == NEVER_RELEASES && req->op.kind == TN_OP_RELEASE)
        shim->req.op.kind = TN_OP_READ;
    if (planted == KEEPS_PLACE && req->op.kind == TN_OP_RELEASE && req->op.token == 0)
        shim->req.op.kind = TN_OP_READ;
    if (planted == RENEWS_NOTHING && req->op.kind == TN_OP_RENEW) {
        shim->req.op.kind = TN_OP_READ;
        shim->req.op.name = "renews-nothing";
        shim->req.op.name_len = 14;
    }
    if (planted == RAISES_NOTHING && req->op.kind == TN_OP_RAISE)
        shim->req.op.token = 0;
    if (planted == KEEPS_REFUSED)
        shim->req.op.wait = true;
    real->submit(store, &shim->req);
}

static void granted(void *arg, const char *name, const struct tn_secret *term, uint64_t token)
{
    if (planted != SILENT)
        real_host->granted(arg, name, term, forge(token));
}

static void changed(void *arg, const char *name, const struct tn_store_record *record)
{
    if (planted != DEAF)
        real_host->changed(arg, name, record);
}

static void revoked(void *arg, const char *name, uint64_t token)
{
    if (planted != UNREVOKED)
        real_host->revoked(arg, name, token);
}

static int open_wrapped(const struct tn_store_ops *ops, const struct tn_store_open *how,
                        struct tn_store **ret_store, struct tn_text *reterr)
{
    struct tn_store_open changed_how = *how;

    real_host = how->host;
    wrapped_host = (struct tn_store_host) { granted, changed, revoked };
    changed_how.host = &wrapped_host;
    int rc = real->open(real, &changed_how, ret_store, reterr);
    if (rc == 0)
        (*ret_store)->ops = ops;
    return rc;
}

const struct tn_store_ops *bed_planted(const struct tn_store_ops *ops)
{
    const char *name = getenv("TENURE_CONFORMANCE_PLANT");

    planted = NONE;
    for (enum plant i = NONE + 1; name != NULL && i < PLANTS; i++) {
        if (strcmp(names[i], name) == 0)
            planted = i;
    }
    if (name == NULL)
        return ops;
    CHECK(planted != NONE);
    real = ops;
    wrapped = *ops;
    wrapped.open = open_wrapped;
    wrapped.submit = submit;
    return &wrapped;
}
