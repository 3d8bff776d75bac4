/* back.c - what is remembered so that it can be said again on a new connection, and the news.
 *
 * On every connection: the sessions are attached, the terms that waited ask for their place again -
 * the same command, so it is the old place, or the grant that was missed, or a new place after a
 * restart of the daemon - and the watches begin anew, each with a look at the record. */
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "stores/tenured/private.h"

/* --- Sessions and places ---------------------------------------------------------------------- */

void tn_tenured_keep_session(struct tn_tenured *store, const struct tn_op *op, tenure_ns ttl)
{
    struct tn_tenured_session *session =
        (struct tn_tenured_session *)tn_store_session_keep(&store->base, &op->session);

    if (session == NULL)
        return;
    session->ttl = ttl;
    session->label_len = op->label_len;
    if (op->label_len > 0)
        memcpy(session->label, op->label, op->label_len);
}

/* All places of @session. */
static void forget_places(struct tn_tenured *store, struct tn_tenured_name *name,
                          const struct tn_secret *session)
{
    struct tn_tenured_claim **at = &name->claims;

    name->base.uses++;
    while (*at != NULL) {
        struct tn_tenured_claim *claim = *at;
        if (!tn_secret_equal(&claim->session, session)) {
            at = &claim->next;
            continue;
        }
        *at = claim->next;
        free(claim);
        tn_store_name_drop(&store->base, &name->base);
    }
    tn_store_name_drop(&store->base, &name->base);
}

void tn_tenured_forget_session(struct tn_tenured *store, const struct tn_secret *secret)
{
    struct tn_store_session *session = tn_store_session_find(&store->base, secret);
    struct tn_store_name *name = tn_store_name_next(&store->base, NULL);

    if (session == NULL)
        return;
    for (struct tn_store_name *next; name != NULL; name = next) {
        next = tn_store_name_next(&store->base, name);
        forget_places(store, (struct tn_tenured_name *)name, secret);
    }
    tn_store_session_drop(&store->base, session);
}

void tn_tenured_free_claims(struct tn_tenured *store)
{
    struct tn_store_name *name = NULL;

    while ((name = tn_store_name_next(&store->base, name)) != NULL) {
        struct tn_tenured_claim *claim = ((struct tn_tenured_name *)name)->claims;
        for (struct tn_tenured_claim *next; claim != NULL; claim = next) {
            next = claim->next;
            free(claim);
        }
    }
}

/* Without memory it waits all the same; after a lost connection the candidate's poll asks. */
void tn_tenured_keep_claim(struct tn_tenured *store, const struct tn_op *op)
{
    struct tn_tenured_name *name =
        (struct tn_tenured_name *)tn_store_name_use(&store->base, op->name, op->name_len);
    struct tn_tenured_claim *claim = name != NULL ? calloc(1, sizeof *claim) : NULL;

    if (claim == NULL) {
        if (name != NULL)
            tn_store_name_drop(&store->base, &name->base);
        return;
    }
    tn_secret_hash(&op->term, 't', &claim->hash);
    (void)tn_tenured_forget_claim(store, op->name, op->name_len, &claim->hash);
    claim->session = op->session;
    claim->term = op->term;
    claim->next = name->claims;
    name->claims = claim;
}

bool tn_tenured_forget_claim(struct tn_tenured *store, const char *text, uint32_t len,
                             const struct tn_secret *hash)
{
    struct tn_tenured_name *name =
        (struct tn_tenured_name *)tn_store_name_find(&store->base, text, len);

    for (struct tn_tenured_claim **at = name != NULL ? &name->claims : NULL;
         at != NULL && *at != NULL; at = &(*at)->next) {
        struct tn_tenured_claim *claim = *at;
        if (!tn_secret_equal(&claim->hash, hash))
            continue;
        *at = claim->next;
        free(claim);
        tn_store_name_drop(&store->base, &name->base);
        return true;
    }
    return false;
}

/* --- Watching --------------------------------------------------------------------------------- */

static void look(struct tn_tenured *store, struct tn_tenured_name *name, bool greets);

static void looked(struct tn_resp_call *call)
{
    struct tn_tenured_job *job = (struct tn_tenured_job *)call;
    struct tn_tenured *store = job->store;
    struct tn_tenured_name *name = job->name;
    struct tn_store_lease lease;
    bool again = name->again;

    tn_tenured_open_reply(job);
    struct tn_tenured_reply reply = tn_reply_of(call->reply, call->reply_len);
    name->looking = name->again = false;
    if (call->status == 0 && call->value.type != TN_RESP_ERROR) {
        tn_reply_lease(&reply, &lease);
        tn_tenured_note_token(store, lease.record.token);
        if (!reply.bad)
            tn_store_changed(&store->base, &name->base, &lease.record);
    }
    if (again && call->status == 0 && name->base.watchers > 0 && store->link.ready)
        look(store, name, false);
    tn_tenured_job_free(job);
}

/* What a message tells is too little to go by: the term that holds it is not in it. */
static void look(struct tn_tenured *store, struct tn_tenured_name *name, bool greets)
{
    const struct tn_resp_word words[] = { tn_resp_word_of("LEASE"), tn_resp_word_of("GET"),
                                          tn_resp_word_of(name->base.text) };

    if (name->looking)
        name->again = true;
    else
        name->looking = tn_tenured_send(store, name, looked, 0, greets, words, 3) != NULL;
}

/* Refused or lost: the candidate's polls are the backstop. */
static void watch_done(struct tn_resp_call *call)
{
    tn_tenured_job_free((struct tn_tenured_job *)call);
}

static void say_watch(struct tn_tenured *store, struct tn_tenured_name *name, bool on, bool greets)
{
    const struct tn_resp_word words[] = { tn_resp_word_of(on ? "WATCH" : "UNWATCH"),
                                          tn_resp_word_of(name->base.text) };

    (void)tn_tenured_send(store, name, watch_done, 1, greets, words, 2);
}

/* Without a connection, the next one begins with it. */
int tn_tenured_watched(struct tn_store *base, struct tn_store_name *watched, bool on)
{
    struct tn_tenured *store = (struct tn_tenured *)base;
    struct tn_tenured_name *name = (struct tn_tenured_name *)watched;

    if (store->link.ready)
        say_watch(store, name, on, false);
    if (store->link.ready && on)
        look(store, name, false);
    return 0;
}

/* --- A new connection ------------------------------------------------------------------------- */

static void attached(struct tn_resp_call *call)
{
    struct tn_tenured_job *job = (struct tn_tenured_job *)call;
    struct tn_tenured *store = job->store;
    char why[TN_ERROR_TEXT];

    tn_tenured_open_reply(job);
    if (call->status == 0 && tn_resp_begins(&call->value, "GONE")) {
        tn_tenured_forget_session(store, &job->session);
    } else if (call->status == 0 && tn_resp_begins(&call->value, "OLDER")) {
        struct tn_text text;
        tn_text_init(&text, why, sizeof why);
        tn_tenured_explain_older(store, &text);
        tn_resp_link_refuse(&store->link, TENURE_E_DAMAGED, why);
    }
    tn_tenured_job_free(job);
}

static void attach(struct tn_tenured *store, const struct tn_tenured_session *session)
{
    char secret[TN_SECRET_DIGITS], saw[24];
    struct tn_text text;
    bool bind = store->base.how.bind == TN_BIND_OWN && store->url.local && !store->unbindable;

    tn_secret_text(&session->base.secret, secret);
    tn_text_init(&text, saw, sizeof saw);
    tn_text_addf(&text, "%llu", (unsigned long long)store->saw);
    const struct tn_resp_word words[] = { tn_resp_word_of("SESSION"), tn_resp_word_of("ATTACH"),
                                          { secret, sizeof secret },  tn_resp_word_of("SAW"),
                                          tn_resp_word_of(saw),       tn_resp_word_of("BIND") };
    struct tn_tenured_job *job =
        tn_tenured_send(store, NULL, attached, 0, true, words, bind ? 6 : 5);
    if (job != NULL)
        job->session = session->base.secret;
}

/* The answer of a term that asked for its place again. */
static void queued_again(struct tn_resp_call *call)
{
    struct tn_tenured_job *job = (struct tn_tenured_job *)call;
    struct tn_tenured *store = job->store;
    struct tn_tenured_name *name = job->name;
    struct tn_secret hash;

    tn_tenured_open_reply(job);
    struct tn_tenured_reply reply = tn_reply_of(call->reply, call->reply_len);
    if (call->status != 0)
        goto out; /* The next connection asks again. */
    tn_secret_hash(&job->term, 't', &hash);
    if (tn_resp_begins(&call->value, "GONE")) {
        tn_tenured_forget_session(store, &job->session);
        goto out;
    }
    (void)tn_reply_list(&reply);
    struct tn_resp_value word = tn_reply_next(&reply);
    if (tn_resp_begins(&word, "queued"))
        goto out;
    bool waited =
        tn_tenured_forget_claim(store, name->base.text, (uint32_t)strlen(name->base.text), &hash);
    if (waited && tn_resp_begins(&word, "granted")) {
        uint64_t token = tn_reply_u64(&reply);
        tn_tenured_note_token(store, token);
        tn_store_granted(&store->base, name->base.text, &hash, token);
    }
out:
    tn_tenured_job_free(job);
}

static void begin_name(struct tn_tenured *store, struct tn_tenured_name *name)
{
    for (struct tn_tenured_claim *claim = name->claims; claim != NULL; claim = claim->next)
        (void)tn_tenured_queue(store, name, claim, queued_again);
    if (name->base.watchers > 0) {
        say_watch(store, name, true, true);
        look(store, name, true);
    }
}

/* Somebody else's server may listen there. */
static bool is_tenured(struct tn_tenured *store, const struct tn_resp_call *hello)
{
    struct tn_tenured_reply reply = tn_reply_of(hello->reply, hello->reply_len);
    uint32_t pairs = hello->value.type == TN_RESP_MAP ? tn_reply_list(&reply) : 0;
    bool tenured = false;

    for (uint32_t i = 0; i < pairs && !reply.bad; i++) {
        struct tn_resp_value key = tn_reply_next(&reply);
        if (tn_resp_begins(&key, "server")) {
            struct tn_resp_value value = tn_reply_next(&reply);
            tenured = tn_resp_begins(&value, "tenured");
        } else if (tn_resp_begins(&key, "version")) {
            (void)tn_reply_text(&reply, store->version, sizeof store->version);
        } else {
            tn_reply_skip(&reply);
        }
    }
    return tenured;
}

static void came_up(void *arg)
{
    struct tn_tenured *store = arg;
    const struct tn_store_session *session = NULL;
    struct tn_store_name *name = NULL;

    if (!is_tenured(store, &store->link.hello)) {
        tn_resp_link_refuse(&store->link, TENURE_E_UNAVAILABLE, "this server is no tenured");
        return;
    }
    while ((session = tn_store_session_next(&store->base, session)) != NULL)
        attach(store, (const struct tn_tenured_session *)session);
    while ((name = tn_store_name_next(&store->base, name)) != NULL)
        begin_name(store, (struct tn_tenured_name *)name);
    tn_resp_link_ready(&store->link);
}

static void went_down(void *arg)
{
    (void)arg; /* Every call ends by itself, and up() begins anew. */
}

/* --- News ------------------------------------------------------------------------------------- */

static void hear_granted(struct tn_tenured *store, struct tn_tenured_reply *reply)
{
    char name[TN_NAME_MAX + 1], digits[TN_SECRET_DIGITS + 1];
    struct tn_secret hash;

    uint32_t len = tn_reply_text(reply, name, sizeof name);
    uint64_t token = tn_reply_u64(reply);
    if (tn_reply_text(reply, digits, sizeof digits) != TN_SECRET_DIGITS ||
        !tn_secret_parse(&hash, digits) || reply->bad)
        return;
    tn_tenured_note_token(store, token);
    (void)tn_tenured_forget_claim(store, name, len, &hash);
    tn_store_granted(&store->base, name, &hash, token);
}

static void hear_revoked(struct tn_tenured *store, struct tn_tenured_reply *reply)
{
    char name[TN_NAME_MAX + 1];

    (void)tn_reply_text(reply, name, sizeof name);
    uint64_t token = tn_reply_u64(reply);
    if (!reply->bad)
        tn_store_revoked(&store->base, name, token);
}

static void pushed(void *arg, const char *frame, size_t len)
{
    struct tn_tenured *store = arg;
    struct tn_tenured_reply reply = tn_reply_of(frame, len);

    if (store->base.closing)
        return;
    (void)tn_reply_list(&reply);
    struct tn_resp_value kind = tn_reply_next(&reply);
    if (tn_resp_begins(&kind, "granted")) {
        hear_granted(store, &reply);
    } else if (tn_resp_begins(&kind, "revoked")) {
        hear_revoked(store, &reply);
    } else if (tn_resp_begins(&kind, "message")) {
        char text[TN_NAME_MAX + 1];
        uint32_t text_len = tn_reply_text(&reply, text, sizeof text);
        struct tn_store_name *name = tn_store_name_find(&store->base, text, text_len);
        if (!reply.bad && name != NULL && name->watchers > 0)
            look(store, (struct tn_tenured_name *)name, false);
    }
}

const struct tn_resp_host tn_tenured_link_host = { came_up, went_down, pushed };
