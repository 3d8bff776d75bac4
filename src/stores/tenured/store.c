/* store.c - a request becomes a command, its reply an answer; private.h says what is where.
 *
 * Happy path: submit writes the command; the reply is read in replied(), which fills the request.
 * The deadline of a request is that of its command: unwritten by then it has failed, written it is
 * unknown, and the connection is given up (resp_link.h). Repeating is the candidate's business, and
 * safe, because every command carries its secrets. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/sha256.h"
#include "base/time.h"
#include "stores/tenured/private.h"

/* What nobody waits for may take longer than a request. */
#define OWN_PATIENCE TN_SEC(10)

/* --- Commands --------------------------------------------------------------------------------- */

struct tenured_command {
    struct tn_resp_word words[TN_TENURED_WORDS];
    uint32_t count;
    char texts[TN_TENURED_WORDS][TN_SECRET_DIGITS]; /* Of words that are made here. */
};

static void add_bytes(struct tenured_command *command, const char *bytes, uint32_t len)
{
    TN_ASSERT(command->count < TN_TENURED_WORDS);
    command->words[command->count++] = (struct tn_resp_word) { bytes, len };
}

static void add(struct tenured_command *command, const char *text)
{
    add_bytes(command, text, (uint32_t)strlen(text));
}

static void add_number(struct tenured_command *command, uint64_t number)
{
    char *text = command->texts[command->count];
    int len = snprintf(text, TN_SECRET_DIGITS, "%llu", (unsigned long long)number);

    add_bytes(command, text, (uint32_t)len);
}

/* All zero is nobody's secret, and the daemon does not even read it; it shall answer as to any
 * other stranger. */
static void add_secret(struct tenured_command *command, const struct tn_tenured *store,
                       const struct tn_secret *secret)
{
    char *text = command->texts[command->count];

    tn_secret_text(tn_secret_is_zero(secret) ? &store->nobody : secret, text);
    add_bytes(command, text, TN_SECRET_DIGITS);
}

static bool binds(const struct tn_tenured *store)
{
    return store->base.how.bind != TN_BIND_NONE && store->url.local && !store->unbindable;
}

static void add_open(struct tenured_command *command, const struct tn_tenured *store,
                     const struct tn_op *op)
{
    add_number(command, (uint64_t)((op->ttl + TN_MS(1) - 1) / TN_MS(1)));
    add(command, "LABEL");
    add_bytes(command, op->label, op->label_len);
    add(command, "SAW");
    add_number(command, store->saw);
    if (binds(store))
        add(command, "BIND");
}

static void add_session_words(struct tenured_command *command, const struct tn_tenured *store,
                              const struct tn_op *op)
{
    add(command, "SESSION");
    add(command, op->kind == TN_OP_OPEN ? "OPEN" : op->kind == TN_OP_RENEW ? "RENEW" : "CLOSE");
    add_secret(command, store, &op->session);
    if (op->kind == TN_OP_OPEN)
        add_open(command, store, op);
    if (op->kind != TN_OP_CLOSE && op->seq > 0) {
        add(command, "SEQ");
        add_number(command, op->seq);
    }
    if (op->kind == TN_OP_RENEW) {
        add(command, "SEEN");
        add_number(command, op->seen);
    }
}

static void add_acquire(struct tenured_command *command, const struct tn_tenured *store,
                        const struct tn_secret *session, const struct tn_secret *term,
                        const char *name, uint32_t name_len, bool wait)
{
    add(command, "LEASE");
    add(command, "ACQUIRE");
    add_secret(command, store, session);
    add_secret(command, store, term);
    add_bytes(command, name, name_len);
    if (wait)
        add(command, "QUEUE");
}

static void add_soft(struct tenured_command *command, const struct tn_tenured *store,
                     const struct tn_soft *soft)
{
    add(command, "SOFT");
    add_number(command, (uint64_t)((soft->limit + TN_MS(1) - 1) / TN_MS(1)));
    add_secret(command, store, &soft->fences);
}

static void make_command(struct tenured_command *command, const struct tn_tenured *store,
                         const struct tn_op *op)
{
    switch (op->kind) {
    case TN_OP_OPEN:
    case TN_OP_RENEW:
    case TN_OP_CLOSE:
        add_session_words(command, store, op);
        return;
    case TN_OP_ACQUIRE:
        add_acquire(command, store, &op->session, &op->term, op->name, op->name_len, op->wait);
        if (op->soft.limit > 0)
            add_soft(command, store, &op->soft);
        return;
    case TN_OP_RELEASE:
        add(command, "LEASE");
        add(command, "RELEASE");
        add_secret(command, store, &op->session);
        add_secret(command, store, &op->term);
        add_bytes(command, op->name, op->name_len);
        add_number(command, op->token);
        return;
    case TN_OP_READ:
        add(command, "LEASE");
        add(command, "GET");
        add_bytes(command, op->name, op->name_len);
        return;
    case TN_OP_REVOKE:
        add(command, "REVOKE");
        add_bytes(command, op->name, op->name_len);
        if (op->token != 0)
            add_number(command, op->token);
        return;
    case TN_OP_RAISE:
        add(command, "TOKEN");
        add(command, "RAISE");
        add_number(command, op->token);
        return;
    case TN_OP_GRANT:
    case TN_OP_TICK:
        break;
    }
    TN_ASSERT(tn_op_fault(op) != NULL); /* The frame lets no other operation through. */
}

/* --- Asking ----------------------------------------------------------------------------------- */

/* "TAG N" and the command. What is confirmed by messages has no tag; it only says that a name is
 * to be looked at. */
static int send_tagged(struct tn_tenured *store, struct tn_tenured_job *job, bool greets,
                       const struct tn_resp_word *words, uint32_t count)
{
    struct tenured_command command = { .count = 0 };

    if (job->call.confirms == 0) {
        job->tag = ++store->tag;
        add(&command, "TAG");
        add_number(&command, job->tag);
    }
    for (uint32_t i = 0; i < count; i++)
        add_bytes(&command, words[i].bytes, words[i].len);
    return greets ? tn_resp_link_greet(&store->link, &job->call, command.words, command.count)
                  : tn_resp_link_send(&store->link, &job->call, command.words, command.count);
}

struct tn_tenured_job *tn_tenured_send(struct tn_tenured *store, struct tn_tenured_name *name,
                                       void (*done)(struct tn_resp_call *call), uint32_t confirms,
                                       bool greets, const struct tn_resp_word *words,
                                       uint32_t count)
{
    struct tn_tenured_job *job = calloc(1, sizeof *job);

    if (job == NULL)
        return NULL;
    job->store = store;
    job->call.done = done;
    job->call.confirms = confirms;
    job->call.give_up_at = tn_clock_now(store->base.how.clock) + OWN_PATIENCE;
    if (send_tagged(store, job, greets, words, count) < 0) {
        free(job);
        return NULL;
    }
    job->name = name;
    if (name != NULL)
        name->base.uses++;
    return job;
}

void tn_tenured_job_free(struct tn_tenured_job *job)
{
    if (job->name != NULL)
        tn_store_name_drop(&job->store->base, &job->name->base);
    free(job);
}

struct tn_tenured_job *tn_tenured_queue(struct tn_tenured *store, struct tn_tenured_name *name,
                                        const struct tn_tenured_claim *claim,
                                        void (*done)(struct tn_resp_call *call))
{
    struct tenured_command command = { .count = 0 };

    add_acquire(&command, store, &claim->session, &claim->term, name->base.text,
                (uint32_t)strlen(name->base.text), true);
    struct tn_tenured_job *job =
        tn_tenured_send(store, name, done, 0, true, command.words, command.count);
    if (job != NULL) {
        job->session = claim->session;
        job->term = claim->term;
    }
    return job;
}

/* --- Answers ---------------------------------------------------------------------------------- */

void tn_tenured_note_token(struct tn_tenured *store, uint64_t token)
{
    if (token > store->saw)
        store->saw = token;
}

void tn_tenured_explain_older(const struct tn_tenured *store, struct tn_text *text)
{
    tn_text_addf(text,
                 "an older copy of the data, token %llu was seen before; put the latest data back, "
                 "or raise the counter: redis-cli TOKEN RAISE %llu",
                 (unsigned long long)store->saw, (unsigned long long)store->saw);
}

int tn_tenured_blame(const struct tn_tenured *store, const struct tn_resp_value *value, char *buf,
                     size_t size)
{
    static const struct {
        const char *word;
        int status;
    } failures[] = {
        { "DENIED", TENURE_E_DENIED }, { "NOAUTH", TENURE_E_DENIED },
        { "FULL", TENURE_E_FULL },     { "UNAVAILABLE", TENURE_E_UNAVAILABLE },
        { "OLDER", TENURE_E_DAMAGED }, { "ERR", TENURE_E_UNSUPPORTED },
    };
    const struct tn_stream *stream = &store->link.stream;
    int status = TENURE_E_UNSUPPORTED;
    struct tn_text text;

    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++)
        if (tn_resp_begins(value, failures[i].word))
            status = failures[i].status;
    tn_text_init(&text, buf, size);
    tn_text_addf(&text, "%s ", stream->scheme);
    tn_text_escape(&text, stream->at.where, strlen(stream->at.where));
    tn_text_add(&text, ": ");
    if (tn_resp_begins(value, "OLDER"))
        tn_tenured_explain_older(store, &text);
    else
        tn_text_escape(&text, value->bytes, value->len);
    return status;
}

/* An error of the daemon's: an answer, or a failure. */
static void take_error(struct tn_tenured *store, struct tn_store_req *req,
                       const struct tn_resp_value *value)
{
    if (tn_resp_begins(value, "GONE")) {
        req->answer = TN_ANSWER_GONE;
        tn_tenured_forget_session(store, &req->op.session);
    } else if (tn_resp_begins(value, "STALE")) {
        req->answer = TN_ANSWER_STALE;
    } else if (tn_resp_begins(value, "DENIED held")) {
        req->answer = TN_ANSWER_DENIED;
    } else {
        /* Asked again without BIND, it may be opened. */
        if (tn_resp_begins(value, "UNAVAILABLE the peer's process"))
            store->unbindable = true;
        req->status = tn_tenured_blame(store, value, req->error, sizeof req->error);
    }
}

static void take_open(struct tn_tenured *store, struct tn_store_req *req,
                      struct tn_tenured_reply *reply)
{
    uint32_t pairs = tn_reply_list(reply);

    for (uint32_t i = 0; i < pairs && !reply->bad; i++) {
        struct tn_resp_value key = tn_reply_next(reply);
        if (tn_resp_begins(&key, "ttl_ms"))
            req->ttl = tn_reply_ms(reply);
        else if (tn_resp_begins(&key, "held"))
            req->held = (uint32_t)tn_reply_u64(reply);
        else if (tn_resp_begins(&key, "seen"))
            req->seen = tn_reply_u64(reply);
        else if (tn_resp_begins(&key, "token"))
            tn_tenured_note_token(store, tn_reply_u64(reply));
        else
            tn_reply_skip(reply);
    }
    req->answer = TN_ANSWER_OK;
    if (!reply->bad)
        tn_tenured_keep_session(store, &req->op, req->ttl);
}

/* Revocations are told before the renewal that brings them. */
static void take_renew(struct tn_tenured *store, struct tn_store_req *req,
                       struct tn_tenured_reply *reply)
{
    char name[TN_NAME_MAX + 1];

    if (tn_reply_list(reply) < 5)
        reply->bad = true;
    req->answer = TN_ANSWER_OK;
    req->ttl = tn_reply_ms(reply);
    req->held = (uint32_t)tn_reply_u64(reply);
    req->seen = tn_reply_u64(reply);
    req->more = tn_reply_u64(reply) != 0;
    for (uint32_t left = tn_reply_list(reply); left >= 2 && !reply->bad; left -= 2) {
        (void)tn_reply_text(reply, name, sizeof name);
        uint64_t token = tn_reply_u64(reply);
        if (!reply->bad)
            tn_store_revoked(&store->base, name, token);
    }
}

static void take_grant(struct tn_tenured *store, struct tn_store_req *req, uint64_t token)
{
    const struct tn_tenured_session *session =
        (struct tn_tenured_session *)tn_store_session_find(&store->base, &req->op.session);
    struct tn_store_record *record = &req->record;

    req->answer = TN_ANSWER_GRANTED;
    record->held = true;
    record->token = token;
    tn_req_hash(req);
    record->term = req->term_hash;
    (void)tn_tenured_forget_claim(store, req->op.name, req->op.name_len, &record->term);
    if (session == NULL)
        return;
    record->ttl = record->remaining = session->ttl;
    record->label_len = session->label_len;
    memcpy(record->label, session->label, session->label_len);
    record->label[session->label_len] = '\0';
}

/* The rest of what is known of the holder. It may be another by now: then what the acquire said
 * stands. */
static void read_holder(struct tn_resp_call *call)
{
    struct tn_tenured_job *job = (struct tn_tenured_job *)call;
    struct tn_store_req *req = job->req;
    struct tn_store_lease lease;

    tn_tenured_open_reply(job);
    struct tn_tenured_reply reply = tn_reply_of(call->reply, call->reply_len);
    if (call->status == 0 && call->value.type != TN_RESP_ERROR) {
        tn_reply_lease(&reply, &lease);
        if (!reply.bad && lease.record.held && lease.record.token == req->record.token)
            req->record = lease.record;
    }
    tn_tenured_job_free(job);
    req->done(req);
}

/* True: the request is not over yet. */
static bool ask_holder(struct tn_tenured *store, struct tn_store_req *req)
{
    struct tenured_command command = { .count = 0 };
    struct tn_op read = { .kind = TN_OP_READ, .name = req->op.name, .name_len = req->op.name_len };

    if (store->base.closing)
        return false;
    make_command(&command, store, &read);
    struct tn_tenured_job *job =
        tn_tenured_send(store, NULL, read_holder, 0, false, command.words, command.count);
    if (job == NULL)
        return false;
    job->req = req;
    job->call.give_up_at = req->give_up_at;
    return true;
}

static bool take_acquire(struct tn_tenured *store, struct tn_store_req *req,
                         struct tn_tenured_reply *reply)
{
    struct tn_store_record *record = &req->record;
    uint32_t count = tn_reply_list(reply);
    struct tn_resp_value word = tn_reply_next(reply);
    uint64_t token = tn_reply_u64(reply);

    tn_tenured_note_token(store, token);
    if (tn_resp_begins(&word, "granted")) {
        take_grant(store, req, token);
        return false;
    }
    if (count < 4)
        reply->bad = true;
    /* An agent may not know yet who has it. */
    record->held = token != 0 || !tn_resp_begins(&word, "queued");
    record->token = token;
    record->label_len = tn_reply_text(reply, record->label, sizeof record->label);
    record->remaining = tn_reply_ms(reply);
    if (tn_resp_begins(&word, "queued")) {
        /* At once, because the grant may be the next to come. */
        req->answer = TN_ANSWER_QUEUED;
        tn_tenured_keep_claim(store, &req->op);
        return false;
    }
    req->answer = TN_ANSWER_HELD;
    return !reply->bad && ask_holder(store, req);
}

static void take_lease(struct tn_tenured *store, struct tn_store_req *req,
                       struct tn_tenured_reply *reply)
{
    struct tn_store_lease lease;

    tn_reply_lease(reply, &lease);
    tn_tenured_note_token(store, lease.record.token);
    req->record = lease.record;
    req->answer = lease.record.held ? TN_ANSWER_HELD : TN_ANSWER_FREE;
}

/* True: the request is not over yet. */
static bool take_reply(struct tn_tenured *store, struct tn_store_req *req,
                       struct tn_tenured_reply *reply)
{
    bool more = false;

    switch (req->op.kind) {
    case TN_OP_OPEN:
        take_open(store, req, reply);
        break;
    case TN_OP_RENEW:
        take_renew(store, req, reply);
        break;
    case TN_OP_ACQUIRE:
        more = take_acquire(store, req, reply);
        break;
    case TN_OP_READ:
        take_lease(store, req, reply);
        break;
    case TN_OP_RELEASE:
        req->answer = TN_ANSWER_RELEASED;
        req->record.token = req->op.token;
        break;
    case TN_OP_CLOSE:
    case TN_OP_REVOKE:
    case TN_OP_RAISE:
    case TN_OP_GRANT:
    case TN_OP_TICK:
        req->answer = TN_ANSWER_OK;
    }
    if (reply->bad)
        tn_req_fail(req, TENURE_E_UNSUPPORTED,
                    "tenured: an answer that cannot be read; another version?");
    return more;
}

static void replied(struct tn_resp_call *call)
{
    struct tn_tenured_job *job = (struct tn_tenured_job *)call;
    struct tn_tenured *store = job->store;
    struct tn_store_req *req = job->req;
    bool more = false;

    tn_tenured_open_reply(job);
    struct tn_tenured_reply reply = tn_reply_of(call->reply, call->reply_len);
    if (call->status != 0)
        tn_req_fail(req, call->status, call->error);
    else if (call->value.type == TN_RESP_ERROR)
        take_error(store, req, &call->value);
    else
        more = take_reply(store, req, &reply);
    if (req->op.kind == TN_OP_CLOSE && req->status == 0)
        tn_tenured_forget_session(store, &req->op.session);
    tn_tenured_job_free(job);
    if (!more)
        req->done(req);
}

/* --- Requests --------------------------------------------------------------------------------- */

static void submit(struct tn_store *base, struct tn_store_req *req)
{
    struct tn_tenured *store = (struct tn_tenured *)base;
    struct tenured_command command = { .count = 0 };
    struct tn_tenured_job *job = calloc(1, sizeof *job);

    make_command(&command, store, &req->op);
    /* It is not wanted any more; a new connection must not ask for it again. */
    if (req->op.kind == TN_OP_RELEASE) {
        tn_req_hash(req);
        (void)tn_tenured_forget_claim(store, req->op.name, req->op.name_len, &req->term_hash);
    }
    if (job != NULL) {
        job->store = store;
        job->req = req;
        job->call.done = replied;
        job->call.give_up_at = req->give_up_at;
    }
    if (job == NULL || send_tagged(store, job, false, command.words, command.count) < 0) {
        free(job);
        tn_req_refuse(base, req, TENURE_E_NOMEM, "out of memory");
    }
}

/* --- Life and death --------------------------------------------------------------------------- */

static void free_rest(struct tn_store *base)
{
    tn_tenured_free_claims((struct tn_tenured *)base);
    tn_tls_context_free(((struct tn_tenured *)base)->tls);
}

static void link_closed(void *arg)
{
    tn_store_end(arg);
}

static void shut(struct tn_store *base)
{
    tn_resp_link_close(&((struct tn_tenured *)base)->link, link_closed);
}

static bool binding(const struct tn_store *base, const struct tn_secret *session,
                    struct tn_store_binding *ret_binding)
{
    const struct tn_tenured *store = (const struct tn_tenured *)base;
    char digits[TN_SECRET_DIGITS];

    if (!binds(store))
        return false;
    tn_secret_text(session, digits);
    (void)snprintf(ret_binding->path, sizeof ret_binding->path, "%.107s",
                   store->url.net.endpoints[0].host);
    (void)snprintf(ret_binding->line, sizeof ret_binding->line, "SESSION BIND %.32s\r\n", digits);
    return true;
}

static void facts(const struct tn_store *base, struct tn_store_facts *ret_facts)
{
    *ret_facts = (struct tn_store_facts) { ((const struct tn_tenured *)base)->version, "" };
}

static int open_link(struct tn_tenured *store, struct tn_text *reterr)
{
    struct tn_net_url *net = &store->url.net;
    struct tn_stream *stream = &store->link.stream;
    const struct tn_store_open *how = &store->base.how;
    struct tn_secret secret;
    int rc = 0;

    if (store->url.tls)
        rc = tn_tls_context_new(&store->tls,
                                &(struct tn_tls_options) { .scheme = "tenureds",
                                                           .ca = net->tls.ca,
                                                           .cert = net->tls.cert,
                                                           .key = net->tls.key },
                                reterr);
    if (rc < 0)
        return rc;
    memcpy(&secret, store->base.seeds, sizeof secret);
    tn_secret_hash(&secret, 'n', &store->nobody);
    memcpy(&store->tag, store->nobody.bytes, sizeof store->tag);
    store->tag >>= 2; /* A RESP integer, however many follow. */
    stream->loop = how->loop;
    stream->clock = how->clock;
    stream->scheme = store->url.local ? "unix" : "tenured";
    stream->tls_scheme = store->url.local ? NULL : "tenureds";
    stream->tls = store->tls;
    stream->tls_name = net->tls.name;
    stream->own_peer = true;
    stream->reach_ms = tn_stream_reach_ms(how->patience);
    store->link.host = &tn_tenured_link_host;
    store->link.arg = store;
    store->link.user = net->user;
    store->link.password = net->password;
    return tn_resp_link_init(&store->link, net->endpoints, net->count, store->base.seeds[0]);
}

static int open_store(const struct tn_store_ops *ops, const struct tn_store_open *how,
                      struct tn_store **ret_store, struct tn_text *reterr)
{
    struct tn_tenured *store = tn_store_new(sizeof *store, ops, how, reterr);

    if (store == NULL)
        return TENURE_E_NOMEM;
    int rc = tn_tenured_url_parse(&store->url, ops->scheme, how->rest, reterr);
    if (rc == 0)
        rc = open_link(store, reterr);
    if (rc < 0)
        return tn_store_discard(&store->base, rc, NULL, reterr);
    tn_resp_link_start(&store->link);
    *ret_store = &store->base;
    return 0;
}

#define WHY_STRICT "nothing is answered before it is on the disk of the one daemon"

#define OPS(scheme_)                                                                               \
    {                                                                                              \
        .scheme = scheme_,                                                                         \
        .caps =                                                                                    \
            TN_STORE_QUEUES | TN_STORE_TELLS | TN_STORE_RAISES | TN_STORE_RESUMES | TN_STORE_SOFT, \
        .ttl_min = TN_SEC(1), .ttl_max = TN_SEC(24 * 3600), .open = open_store, .submit = submit,  \
        .watch = tn_store_watch, .list = tn_store_list, .look = tn_store_look,                     \
        .line = tn_store_line, .history = tn_store_history, .close = tn_store_close,               \
        .facts = facts, .class_why = WHY_STRICT, .clock_why = "tenured does not tell its clock",   \
        .binding = binding, .restored = "raise its counter: redis-cli TOKEN RAISE %",              \
        .name_size = sizeof(struct tn_tenured_name),                                               \
        .session_size = sizeof(struct tn_tenured_session), .watched = tn_tenured_watched,          \
        .ask = tn_tenured_list, .shut = shut, .free = free_rest,                                   \
    }

const struct tn_store_ops tn_unix_store_ops = OPS("unix");
const struct tn_store_ops tn_tenured_store_ops = OPS("tenured");
const struct tn_store_ops tn_tenureds_store_ops = OPS("tenureds");
