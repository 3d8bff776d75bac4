/* operate.c - notes, and the course of a hand-over; operate.h has the contract.
 *
 * Happy path of a hand-over: read who holds the name, leave the note that names this term, watch
 * the name until a later term is there, take the note back. The gap is the time from the news that
 * nobody holds it to the news that somebody does; a store that passes a lease on in one step shows
 * none.
 * What can fail: somebody else wins in between, who did not hear of the note in time: with --to the
 * new holder is asked again. The operator dies: the note ends with its TTL. */
#define _GNU_SOURCE
#include "cli/operate.h"

#include <inttypes.h>
#include <string.h>

#include "base/time.h"
#include "runtime/random.h"

/* How long the note of an operator who dies keeps others from asking; renewed meanwhile. */
#define NOTE_TTL TN_SEC(10)
/* A vacancy of this length shows that the chosen one is not there. */
#define IN_VAIN TN_MS(100)
/* In case that news get lost. */
#define LOOK_EVERY TN_SEC(1)

/* --- Notes ------------------------------------------------------------------------------------ */

static int make_secrets(struct tn_cli_note *note, bool lasting)
{
    if (lasting) {
        tn_note_secrets(note->name, &note->op.session, &note->op.term);
        return 0;
    }
    int rc = tn_random_secret(&note->op.session);
    return rc < 0 ? rc : tn_random_secret(&note->op.term);
}

static int open_session(struct tn_cli_store *store, struct tn_cli_note *note,
                        struct tn_store_req *ret_req)
{
    struct tn_op op = note->op;

    op.kind = note->token == 0 ? TN_OP_OPEN : TN_OP_RENEW;
    op.ttl = note->ttl;
    if ((store->ops->caps & TN_STORE_BOUND) != 0)
        op.seq = ++note->seq;
    op.name = NULL;
    op.name_len = 0;
    note->renew_at = tn_clock_now(&store->clock) + note->ttl / 3;
    return tn_cli_ask(store, &op, ret_req);
}

static tenure_ns fit_ttl(const struct tn_cli_store *store, tenure_ns ttl)
{
    if (ttl < store->ops->ttl_min)
        return store->ops->ttl_min;
    return ttl > store->ops->ttl_max ? store->ops->ttl_max : ttl;
}

/* The known term of a lasting note is over once the note was taken back. It is left again under
 * another one, which nobody has to know: the session is what ends it. */
static int acquire_note(struct tn_cli_store *store, struct tn_cli_note *note, bool lasting,
                        struct tn_store_req *ret_req)
{
    int rc = tn_cli_ask(store, &note->op, ret_req);
    bool over = ret_req->answer == TN_ANSWER_STALE ||
                (ret_req->answer == TN_ANSWER_GRANTED && ret_req->record.revoked);

    if (rc < 0 || !lasting || !over)
        return rc;
    rc = tn_random_secret(&note->op.term);
    return rc < 0 ? rc : tn_cli_ask(store, &note->op, ret_req);
}

/* Everybody can open the session of a lasting note, with a label of its own. One that was there
 * keeps the TTL that it had. */
static bool says_so(struct tn_cli_store *store, struct tn_cli_note *note)
{
    struct tn_op op = { .kind = TN_OP_READ, .name = note->op.name, .name_len = note->op.name_len };
    struct tn_store_req req;

    if (tn_cli_ask(store, &op, &req) != 0 || req.record.token != note->token)
        return true;
    if (req.record.ttl > 0)
        note->ttl = req.record.ttl;
    return req.record.label_len == note->op.label_len &&
           memcmp(req.record.label, note->op.label, note->op.label_len) == 0;
}

enum tn_cli_noted tn_cli_note_leave(struct tn_cli_store *store, struct tn_cli_note *note,
                                    bool lasting, int *ret_code, struct tn_text *reterr)
{
    struct tn_store_req req = { .error = "" };
    int rc = make_secrets(note, lasting);

    if (!lasting || (store->ops->caps & TN_STORE_BOUND) != 0)
        note->ttl = fit_ttl(store, note->ttl);
    note->op.kind = TN_OP_ACQUIRE;
    note->op.name = note->name;
    note->op.name_len = (uint32_t)strlen(note->name);
    note->op.label = note->text;
    note->op.label_len = (uint32_t)strlen(note->text);
    note->token = 0;
    if (rc == 0)
        rc = open_session(store, note, &req);
    if (rc == 0)
        rc = acquire_note(store, note, lasting, &req);
    *ret_code = rc;
    if (rc == 0 && req.answer == TN_ANSWER_GRANTED) {
        note->token = req.record.token;
        if (!lasting || says_so(store, note))
            return TN_NOTED;
        *ret_code = TENURE_E_DENIED;
        tn_text_add(reterr, "somebody else had opened the session of this note, under another "
                            "label; it is closed now: try again");
        tn_cli_note_end(store, note);
        return TN_NOTED_FAILED;
    }
    if (rc == 0 && req.answer == TN_ANSWER_HELD && lasting &&
        strcmp(req.record.label, note->text) == 0) {
        note->token = req.record.token; /* In force already; to open its session renewed it. */
        return TN_NOTED;
    }
    if (rc == 0 && req.answer == TN_ANSWER_HELD) {
        tn_cli_note_end(store, note);
        (void)snprintf(note->text, sizeof note->text, "%s", req.record.label);
        return TN_NOTED_TAKEN;
    }
    if (rc == 0)
        *ret_code = TENURE_E_UNAVAILABLE;
    tn_text_add(reterr, req.error[0] != '\0' ? req.error : tenure_strerror(*ret_code));
    tn_cli_note_end(store, note); /* It may be there all the same. */
    return TN_NOTED_FAILED;
}

bool tn_cli_note_keep(struct tn_cli_store *store, struct tn_cli_note *note)
{
    struct tn_store_req req;

    if (tn_clock_now(&store->clock) < note->renew_at)
        return true;
    return open_session(store, note, &req) == 0 && req.answer == TN_ANSWER_OK;
}

void tn_cli_note_end(struct tn_cli_store *store, struct tn_cli_note *note)
{
    struct tn_op op = { .kind = TN_OP_CLOSE, .session = note->op.session };
    struct tn_store_req req;

    (void)tn_cli_ask(store, &op, &req);
    note->token = 0;
}

int tn_cli_note_lift(struct tn_cli_store *store, const char *name, bool *ret_was,
                     struct tn_text *reterr)
{
    struct tn_op op = { .kind = TN_OP_READ, .name = name, .name_len = (uint32_t)strlen(name) };
    struct tn_op known = { .kind = TN_OP_CLOSE };
    struct tn_store_req req;

    *ret_was = false;
    int rc = tn_cli_ask(store, &op, &req);
    if (rc == 0 && req.record.held && !req.record.revoked) {
        *ret_was = true;
        op.token = req.record.token;
        tn_note_secrets(name, &known.session, &known.term);
        rc = tn_cli_ask(store, &known, &req);
        if (rc == 0)
            rc = tn_cli_ask(store, &op, &req);
    }
    /* Where a session is its process's own, the note's command hears that it was taken away. */
    if (rc == 0 && req.record.held && !req.record.revoked && op.token == req.record.token) {
        op.kind = TN_OP_REVOKE;
        rc = tn_cli_ask(store, &op, &req);
    }
    if (rc < 0)
        tn_text_add(reterr, req.error[0] != '\0' ? req.error : tenure_strerror(rc));
    return rc;
}

/* --- A hand-over ------------------------------------------------------------------------------ */

struct follow {
    struct tn_cli_store *store;
    struct tn_handover *handover;
    struct tn_cli_note note;
    tenure_ns vacant_at; /* When the news came that nobody holds it; 0: somebody does. */
    tenure_ns vacancy;   /* The last one's length. */
};

/* News of the name, or what a read shows. The instants count. */
static void hear_record(void *arg, const char *name, const struct tn_store_record *record)
{
    struct follow *follow = arg;
    struct tn_handover *handover = follow->handover;
    const struct tn_store_record *last = handover->next.held ? &handover->next : &handover->from;

    if (strcmp(name, handover->name) != 0 || !last->held || record->token < last->token)
        return;
    if (!record->held && follow->vacant_at == 0)
        follow->vacant_at = tn_clock_now(&follow->store->clock);
    if (!record->held || record->token == last->token)
        return;
    follow->vacancy = 0;
    if (follow->vacant_at != 0)
        follow->vacancy = tn_clock_now(&follow->store->clock) - follow->vacant_at;
    handover->gap += follow->vacancy;
    follow->vacant_at = 0;
    handover->next = *record;
}

static enum tn_handover_end fail(struct tn_handover *handover, int code, const char *text)
{
    struct tn_text error;

    handover->code = code;
    tn_text_init(&error, handover->text, sizeof handover->text);
    tn_text_add(&error, text[0] != '\0' ? text : tenure_strerror(code));
    return TN_HANDOVER_FAILED;
}

static int read_name(struct follow *follow, struct tn_store_req *ret_req)
{
    const char *name = follow->handover->name;
    struct tn_op op = { .kind = TN_OP_READ, .name = name, .name_len = (uint32_t)strlen(name) };

    return tn_cli_ask(follow->store, &op, ret_req);
}

static bool is_label(const struct tn_store_record *record, const char *id)
{
    return id != NULL && record->label_len == strlen(id) &&
           memcmp(record->label, id, record->label_len) == 0;
}

/* Ask the holder of @token. */
static enum tn_cli_noted leave_note(struct follow *follow, uint64_t token)
{
    struct tn_handover *handover = follow->handover;
    struct tn_text text, error;

    tn_text_init(&text, follow->note.text, sizeof follow->note.text);
    tn_text_addf(&text, "handover token=%" PRIu64, token);
    if (handover->to != NULL) {
        tn_text_add(&text, " to=");
        tn_text_add(&text, handover->to);
    }
    tn_text_init(&error, handover->text, sizeof handover->text);
    if (!tn_note_name_ask(handover->name, follow->note.name) || tn_text_truncated(&text)) {
        handover->code = TENURE_E_INVALID;
        tn_text_add(&error, "the name or the id is too long for a hand-over");
        return TN_NOTED_FAILED;
    }
    follow->note.ttl = NOTE_TTL;
    enum tn_cli_noted noted =
        tn_cli_note_leave(follow->store, &follow->note, false, &handover->code, &error);
    if (noted == TN_NOTED_TAKEN)
        tn_text_add(&error, follow->note.text);
    return noted;
}

/* What a later term means. True: ask its holder, too, since it won before it had heard of the note.
 * One that won only after it had waited for the chosen one in vain is not asked. */
static bool judge(struct follow *follow, enum tn_handover_end *ret_end)
{
    struct tn_handover *handover = follow->handover;
    const struct tn_store_record *next = &handover->next;
    bool same = next->label_len == handover->from.label_len &&
                memcmp(next->label, handover->from.label, next->label_len) == 0;

    *ret_end = TN_HANDOVER_DONE;
    if (handover->to == NULL) {
        if (same)
            *ret_end = TN_HANDOVER_SAME;
        return false;
    }
    if (is_label(next, handover->to))
        return false;
    *ret_end = same ? TN_HANDOVER_SAME : TN_HANDOVER_OTHER;
    return !same && follow->vacancy < IN_VAIN;
}

/* Until a term later than @token is there. */
static enum tn_handover_end wait_for_next(struct follow *follow, uint64_t token, tenure_ns end)
{
    struct tn_cli_store *store = follow->store;
    struct tn_handover *handover = follow->handover;
    struct tn_store_req req;
    tenure_ns look_at = tn_clock_now(&store->clock) + LOOK_EVERY;

    while (!handover->next.held || handover->next.token <= token) {
        tenure_ns now = tn_clock_now(&store->clock);
        tenure_ns until = look_at < end ? look_at : end;
        if (tn_cli_caught(store) != 0)
            return TN_HANDOVER_STOPPED;
        if (now >= end)
            return TN_HANDOVER_LATE;
        tn_cli_pause(store, until < follow->note.renew_at ? until : follow->note.renew_at);
        (void)tn_cli_note_keep(store, &follow->note); /* Without it the holder may lead on. */
        if (tn_clock_now(&store->clock) < look_at)
            continue;
        look_at = tn_clock_now(&store->clock) + LOOK_EVERY;
        if (read_name(follow, &req) == 0)
            hear_record(follow, handover->name, &req.record);
    }
    return TN_HANDOVER_DONE;
}

static enum tn_handover_end follow_all(struct follow *follow)
{
    struct tn_handover *handover = follow->handover;
    tenure_ns end = tn_clock_now(&follow->store->clock) + handover->wait;
    uint64_t token = handover->from.token;
    enum tn_handover_end ended;

    for (;;) {
        enum tn_cli_noted noted = leave_note(follow, token);
        if (noted != TN_NOTED)
            return noted == TN_NOTED_TAKEN ? TN_HANDOVER_BUSY : TN_HANDOVER_FAILED;
        ended = wait_for_next(follow, token, end);
        tn_cli_note_end(follow->store, &follow->note);
        if (ended != TN_HANDOVER_DONE || !judge(follow, &ended))
            return ended;
        if (tn_clock_now(&follow->store->clock) >= end)
            return ended;
        token = handover->next.token;
    }
}

enum tn_handover_end tn_handover_run(struct tn_cli_store *store, struct tn_handover *handover)
{
    struct follow follow = { .store = store, .handover = handover };
    struct tn_store_req req = { .error = "" };

    handover->gap = 0;
    handover->from.held = handover->next.held = false;
    int rc = read_name(&follow, &req);
    if (rc < 0)
        return fail(handover, rc, req.error);
    handover->from = req.record;
    if (!req.record.held || (handover->token != 0 && handover->token != req.record.token))
        return TN_HANDOVER_FREE;
    if (is_label(&req.record, handover->to))
        return TN_HANDOVER_ALREADY;
    tn_cli_hear_changes(store, hear_record, &follow);
    (void)tn_cli_watch_name(store, handover->name); /* Without it, reads do. */
    enum tn_handover_end end = follow_all(&follow);
    tn_cli_hear_changes(store, NULL, NULL);
    return end;
}
