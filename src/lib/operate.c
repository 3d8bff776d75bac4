/* operate.c - what an operator asks of a store through a handle: tenure_revoke, tenure_handover.
 *
 * Happy path: each operation is an errand of the driver; the loop's thread sends it, and the caller
 * waits for the answer. So the store is used by one thread, and renewals go on meanwhile. A
 * hand-over leaves a note (core/note.h) in a session of its own, reads the name until a later term
 * is there, and ends that session.
 * What can fail: the store; another operator's note; the chosen one is not there. A caller that
 * dies leaves a note that ends with its TTL. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/private.h"
#include "runtime/note_name.h"
#include "runtime/random.h"

/* How long the note of a process that dies keeps others from asking; renewed meanwhile. */
#define NOTE_TTL TN_SEC(10)
#define LOOK_EVERY TN_MS(100)
#define WAIT_DEFAULT TN_SEC(30)
/* A name that changes hands this often while it is looked at is being fought over. */
enum { TRIES = 10 };

struct errand {
    struct tn_driver_errand base; /* First. */
    struct tenure *tenure;
    bool over;
};

struct handover {
    struct tenure *tenure;
    struct tenure_handover_options options;
    struct tn_op note; /* Its secrets, name and label. */
    struct tn_store_record from;
    tenure_ns end, renew_at;
    uint64_t seq; /* Of the last attempt in the note's session. */
    struct tn_text *error;
    char name[TN_NAME_MAX + 1], label[TN_LABEL_MAX + 1];
};

/* --- Asking the store ------------------------------------------------------------------------- */

static void hear_done(struct tn_driver_errand *base)
{
    struct errand *errand = (struct errand *)(void *)base;

    errand->over = true;
    (void)pthread_cond_broadcast(&errand->tenure->returned);
}

/* Returns the request's status; what the store said of an error is in @reterr. */
static int ask_store(struct tenure *tenure, const struct tn_op *op, struct tn_store_req *ret_req,
                     struct tn_text *reterr)
{
    struct errand errand = { .base = { .req = { .op = *op }, .done = hear_done },
                             .tenure = tenure };

    tn_driver_lock(&tenure->driver);
    tn_driver_run(&tenure->driver, &errand.base);
    tn_driver_unlock(&tenure->driver); /* It wakes the loop's thread. */
    tn_driver_lock(&tenure->driver);
    while (!errand.over)
        tn_lib_wait_until(tenure, TN_NEVER);
    tn_driver_unlock(&tenure->driver);
    *ret_req = errand.base.req;
    if (ret_req->status < 0)
        tn_text_add(reterr, ret_req->error);
    return ret_req->status;
}

/* The handle stays until tn_leave. */
static int enter(struct tenure *tenure, bool blocks, struct tn_text *reterr)
{
    int rc = 0;

    if (!tn_lib_alive(tenure))
        return TENURE_E_CLOSED;
    tn_driver_lock(&tenure->driver);
    if (tenure->closing) {
        rc = TENURE_E_CLOSED;
    } else if (blocks && tenure->dispatching && pthread_equal(tenure->dispatcher, pthread_self())) {
        tn_text_add(reterr, "a hand-over is waited for, which a callback must not do");
        rc = TENURE_E_INVALID;
    } else {
        tenure->waiting++;
    }
    tn_driver_unlock(&tenure->driver);
    return rc;
}

static void leave(struct tenure *tenure)
{
    tn_driver_lock(&tenure->driver);
    tenure->waiting--;
    (void)pthread_cond_broadcast(&tenure->returned);
    tn_driver_unlock(&tenure->driver);
}

static int read_holder(struct tenure *tenure, const char *name, uint64_t token,
                       struct tn_store_record *ret_record, struct tn_text *reterr)
{
    struct tn_op op = { .kind = TN_OP_READ, .name = name, .name_len = (uint32_t)strlen(name) };
    struct tn_store_req req;
    int rc = ask_store(tenure, &op, &req, reterr);

    if (rc < 0)
        return rc;
    *ret_record = req.record;
    if (!req.record.held)
        tn_text_addf(reterr, "%s: nobody holds it", name);
    else if (token != 0 && token != req.record.token)
        tn_text_addf(reterr, "%s: token %" PRIu64 " is not current, %" PRIu64 " is", name, token,
                     req.record.token);
    else
        return 0;
    return TENURE_E_NOT_HELD;
}

/* --- Revoking --------------------------------------------------------------------------------- */

static int revoke(struct tenure *tenure, const char *name, uint64_t token, struct tn_text *reterr)
{
    struct tn_op op = { .kind = TN_OP_REVOKE, .name = name, .name_len = (uint32_t)strlen(name) };
    struct tn_store_record record;
    struct tn_store_req req;

    for (int i = 0; i < TRIES; i++) {
        int rc = read_holder(tenure, name, token, &record, reterr);
        if (rc < 0)
            return rc;
        op.token = record.token;
        rc = ask_store(tenure, &op, &req, reterr);
        if (rc < 0 || req.answer == TN_ANSWER_OK)
            return rc;
    }
    tn_text_addf(reterr, "%s: it changes hands too fast", name);
    return TENURE_E_NOT_HELD;
}

int tenure_revoke(struct tenure *tenure, const char *name, uint64_t token,
                  struct tenure_error *reterr)
{
    char buf[TENURE_ERROR_TEXT];
    struct tn_text error;

    tn_text_init(&error, buf, sizeof buf);
    int rc = tn_lib_check_name(name, &error);
    if (rc == 0)
        rc = enter(tenure, false, &error);
    if (rc == 0) {
        rc = revoke(tenure, name, token, &error);
        leave(tenure);
    }
    tn_text_cut(&error);
    return tn_lib_fail(rc, buf, reterr);
}

/* --- Handing over ----------------------------------------------------------------------------- */

static bool is_label(const struct tn_store_record *record, const char *id)
{
    return id != NULL && record->label_len == strlen(id) &&
           memcmp(record->label, id, record->label_len) == 0;
}

/* Open the note's session, or renew it. */
static int keep_note(struct handover *handover, enum tn_op_kind kind)
{
    const struct tn_store_ops *ops = handover->tenure->driver.store->ops;
    struct tn_op op = handover->note;
    struct tn_store_req req;

    op.kind = kind;
    op.seq = ++handover->seq;
    op.name = NULL;
    op.name_len = 0;
    op.ttl = NOTE_TTL < ops->ttl_min   ? ops->ttl_min
             : NOTE_TTL > ops->ttl_max ? ops->ttl_max
                                       : NOTE_TTL;
    handover->renew_at = tn_boottime() + op.ttl / 3;
    return ask_store(handover->tenure, &op, &req, handover->error);
}

static int leave_note(struct handover *handover)
{
    struct tn_store_req req;
    struct tn_text label;

    tn_text_init(&label, handover->label, sizeof handover->label);
    tn_text_addf(&label, "handover token=%" PRIu64, handover->from.token);
    if (handover->options.to != NULL) {
        tn_text_add(&label, " to=");
        tn_text_add(&label, handover->options.to);
    }
    if (tn_text_truncated(&label)) {
        tn_text_add(handover->error, "the id is too long for a hand-over");
        return TENURE_E_INVALID;
    }
    handover->note.label = handover->label;
    handover->note.label_len = (uint32_t)label.len;
    int rc = keep_note(handover, TN_OP_OPEN);
    if (rc < 0)
        return rc;
    handover->note.kind = TN_OP_ACQUIRE;
    rc = ask_store(handover->tenure, &handover->note, &req, handover->error);
    if (rc < 0 || req.answer == TN_ANSWER_GRANTED)
        return rc;
    tn_text_add(handover->error, "another operator's wish is in force: '");
    tn_text_escape(handover->error, req.record.label, req.record.label_len);
    tn_text_add(handover->error, "'");
    return TENURE_E_CONFLICT;
}

static void end_note(struct handover *handover)
{
    struct tn_op op = { .kind = TN_OP_CLOSE, .session = handover->note.session };
    struct tn_store_req req;
    char buf[TENURE_ERROR_TEXT];
    struct tn_text unused;

    tn_text_init(&unused, buf, sizeof buf); /* Else it ends with its TTL. */
    (void)ask_store(handover->tenure, &op, &req, &unused);
}

/* Until it is time to look again. False: the handle is being closed. */
static bool pause_until(struct tenure *tenure, tenure_ns at)
{
    tn_driver_lock(&tenure->driver);
    while (!tenure->closing && tn_boottime() < at)
        tn_lib_wait_until(tenure, at);
    bool open = !tenure->closing;
    tn_driver_unlock(&tenure->driver);
    return open;
}

/* Of an attempt that was repeated since. */
static void forget_error(struct handover *handover)
{
    tn_text_init(handover->error, handover->error->buf, handover->error->size);
}

/* What a later term means. */
static int judge(struct handover *handover, const struct tn_store_record *next)
{
    bool same = next->label_len == handover->from.label_len &&
                memcmp(next->label, handover->from.label, next->label_len) == 0;

    if (handover->options.to != NULL ? is_label(next, handover->options.to) : !same)
        return 0;
    forget_error(handover);
    tn_text_escape(handover->error, next->label, next->label_len);
    if (same)
        tn_text_addf(handover->error,
                     " stepped down and leads again, token %" PRIu64 ": nobody else was waiting",
                     next->token);
    else
        tn_text_addf(handover->error, " leads now, token %" PRIu64 ", and not the chosen one",
                     next->token);
    return TENURE_E_CONFLICT;
}

static int follow(struct handover *handover, uint64_t *ret_token)
{
    struct tn_op op = { .kind = TN_OP_READ };
    struct tn_store_req req;

    op.name = handover->note.name + sizeof TN_NOTE_ASK - 1; /* What the note is about. */
    op.name_len = handover->note.name_len - (uint32_t)(sizeof TN_NOTE_ASK - 1);
    for (;;) {
        tenure_ns now = tn_boottime();
        if (now >= handover->end) {
            forget_error(handover);
            tn_text_add(handover->error, "nobody else leads yet; the holder may still step down");
            return TENURE_E_TIMEOUT;
        }
        if (now >= handover->renew_at)
            (void)keep_note(handover, TN_OP_RENEW);
        if (!pause_until(handover->tenure, now + LOOK_EVERY))
            return TENURE_E_CLOSED;
        if (ask_store(handover->tenure, &op, &req, handover->error) == 0 && req.record.held &&
            req.record.token > handover->from.token) {
            int rc = judge(handover, &req.record);
            *ret_token = req.record.token;
            return rc;
        }
    }
}

static int hand_over(struct handover *handover, const char *name, uint64_t *ret_token)
{
    struct tenure *tenure = handover->tenure;

    if ((tenure->driver.store->ops->caps & TN_STORE_BOUND) != 0) {
        tn_text_addf(handover->error,
                     "%s: a wish ends with its process there; use 'tenure handover %s'",
                     tenure->driver.store->ops->scheme, name);
        return TENURE_E_UNSUPPORTED;
    }
    int rc = read_holder(tenure, name, handover->options.token, &handover->from, handover->error);
    if (rc < 0)
        return rc;
    *ret_token = handover->from.token;
    if (is_label(&handover->from, handover->options.to))
        return 0;
    if (tn_random_secret(&handover->note.session) < 0 || tn_random_secret(&handover->note.term) < 0)
        return TENURE_E_UNAVAILABLE;
    handover->note.name = handover->name;
    handover->note.name_len = (uint32_t)strlen(handover->name);
    rc = leave_note(handover);
    if (rc == 0)
        rc = follow(handover, ret_token);
    end_note(handover);
    return rc;
}

static int read_options(struct handover *handover, const char *name,
                        const struct tenure_handover_options *options)
{
    int rc = tn_lib_check_name(name, handover->error);
    const char *wrong = NULL;

    if (rc < 0)
        return rc;
    if (options != NULL && options->size >= sizeof *options)
        handover->options = *options;
    else if (options != NULL)
        wrong = "the size of the options is not set";
    if (handover->options.wait < 0 || handover->options.wait > TN_TTL_MAX)
        wrong = "wait: from 0 to 24 h";
    else if (handover->options.to != NULL && handover->options.to[0] == '\0')
        wrong = "to: an id has at least one byte";
    else if (!tn_note_name_ask(name, handover->name))
        wrong = "the name is too long for a hand-over";
    if (wrong != NULL)
        tn_text_add(handover->error, wrong);
    if (handover->options.wait == 0)
        handover->options.wait = WAIT_DEFAULT;
    handover->end = tn_boottime() + handover->options.wait;
    return wrong != NULL ? TENURE_E_INVALID : 0;
}

int tenure_handover(struct tenure *tenure, const char *name,
                    const struct tenure_handover_options *options, uint64_t *ret_token,
                    struct tenure_error *reterr)
{
    char buf[TENURE_ERROR_TEXT];
    struct tn_text error;
    struct handover handover = { .tenure = tenure, .error = &error };
    uint64_t token;

    tn_text_init(&error, buf, sizeof buf);
    int rc = read_options(&handover, name, options);
    if (rc == 0)
        rc = enter(tenure, true, &error);
    if (rc == 0) {
        rc = hand_over(&handover, name, &token);
        leave(tenure);
    }
    if (rc == 0 && ret_token != NULL)
        *ret_token = token;
    tn_text_cut(&error);
    return tn_lib_fail(rc, buf, reterr);
}
