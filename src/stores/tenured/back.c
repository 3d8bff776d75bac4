/* back.c - what is remembered so that it can be said again on a new connection, and the news.
 *
 * On every connection: the sessions are attached, the terms that waited ask for their place again -
 * the same command, so it is the old place, or the grant that was missed, or a new place after a
 * restart of the daemon - and the watches begin anew, each with a look at the record. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/sha256.h"
#include "stores/tenured/private.h"

/* --- Sessions --------------------------------------------------------------------------------- */

struct tn_tenured_session *tn_tenured_find_session(struct tn_tenured *store,
                                                   const struct tn_secret *secret)
{
    struct tn_tenured_session *session = store->sessions;

    while (session != NULL && !tn_secret_equal(&session->secret, secret))
        session = session->next;
    return session;
}

void tn_tenured_keep_session(struct tn_tenured *store, const struct tn_op *op, tenure_ns ttl)
{
    struct tn_tenured_session *session = tn_tenured_find_session(store, &op->session);

    if (session == NULL) {
        session = calloc(1, sizeof *session);
        if (session == NULL)
            return;
        session->secret = op->session;
        session->next = store->sessions;
        store->sessions = session;
    }
    session->ttl = ttl;
    session->label_len = op->label_len;
    memcpy(session->label, op->label, op->label_len);
}

static void forget_places_of(struct tn_tenured *store, struct tn_tenured_name *name,
                             const struct tn_secret *session)
{
    struct tn_tenured_place **at = &name->places;

    while (*at != NULL) {
        struct tn_tenured_place *place = *at;
        if (session != NULL && !tn_secret_equal(&place->session, session)) {
            at = &place->next;
            continue;
        }
        *at = place->next;
        free(place);
    }
    tn_tenured_free_if_idle(store, name);
}

static void forget_all_places(struct tn_tenured *store, const struct tn_secret *session)
{
    for (size_t i = 0; i < TN_TENURED_BUCKETS; i++) {
        for (struct tn_tenured_name *name = store->names[i], *next; name != NULL; name = next) {
            next = name->next;
            forget_places_of(store, name, session);
        }
    }
}

void tn_tenured_forget_session(struct tn_tenured *store, const struct tn_secret *secret)
{
    struct tn_tenured_session **at = &store->sessions;

    while (*at != NULL && !tn_secret_equal(&(*at)->secret, secret))
        at = &(*at)->next;
    if (*at == NULL)
        return;
    struct tn_tenured_session *session = *at;
    *at = session->next;
    free(session);
    forget_all_places(store, secret);
}

/* --- Names ------------------------------------------------------------------------------------ */

struct tn_tenured_name *tn_tenured_find_name(struct tn_tenured *store, const char *name,
                                             uint32_t len, bool make)
{
    size_t bucket = tn_hash(store->hash_key, name, len) % TN_TENURED_BUCKETS;
    struct tn_tenured_name *found = store->names[bucket];

    while (found != NULL && (strlen(found->name) != len || memcmp(found->name, name, len) != 0))
        found = found->next;
    if (found != NULL || !make || len > TN_NAME_MAX)
        return found;
    found = calloc(1, sizeof *found);
    if (found == NULL)
        return NULL;
    memcpy(found->name, name, len);
    found->next = store->names[bucket];
    store->names[bucket] = found;
    return found;
}

void tn_tenured_free_if_idle(struct tn_tenured *store, struct tn_tenured_name *name)
{
    if (name->watchers > 0 || name->asks > 0 || name->places != NULL)
        return;
    size_t bucket = tn_hash(store->hash_key, name->name, strlen(name->name)) % TN_TENURED_BUCKETS;
    struct tn_tenured_name **at = &store->names[bucket];
    while (*at != name)
        at = &(*at)->next;
    *at = name->next;
    free(name);
}

void tn_tenured_free_all(struct tn_tenured *store)
{
    while (store->sessions != NULL) {
        struct tn_tenured_session *session = store->sessions;
        store->sessions = session->next;
        free(session);
    }
    for (size_t i = 0; i < TN_TENURED_BUCKETS; i++)
        for (struct tn_tenured_name *name = store->names[i]; name != NULL; name = name->next)
            name->watchers = 0;
    forget_all_places(store, NULL);
}

void tn_tenured_keep_place(struct tn_tenured *store, const struct tn_op *op)
{
    struct tn_tenured_name *name = tn_tenured_find_name(store, op->name, op->name_len, true);
    struct tn_tenured_place *place = name != NULL ? calloc(1, sizeof *place) : NULL;

    if (place == NULL)
        return; /* It waits all the same; after a lost connection the candidate's poll asks. */
    tn_secret_hash(&op->term, 't', &place->hash);
    (void)tn_tenured_forget_place(store, op->name, op->name_len, &place->hash);
    name = tn_tenured_find_name(store, op->name, op->name_len, true);
    if (name == NULL) {
        free(place);
        return;
    }
    place->session = op->session;
    place->term = op->term;
    place->next = name->places;
    name->places = place;
}

bool tn_tenured_forget_place(struct tn_tenured *store, const char *text, uint32_t len,
                             const struct tn_secret *hash)
{
    struct tn_tenured_name *name = tn_tenured_find_name(store, text, len, false);

    for (struct tn_tenured_place **at = name != NULL ? &name->places : NULL;
         at != NULL && *at != NULL; at = &(*at)->next) {
        struct tn_tenured_place *place = *at;
        if (!tn_secret_equal(&place->hash, hash))
            continue;
        *at = place->next;
        free(place);
        tn_tenured_free_if_idle(store, name);
        return true;
    }
    return false;
}

/* --- Watching --------------------------------------------------------------------------------- */

static void look(struct tn_tenured *store, struct tn_tenured_name *name, bool greets);

static void looked(struct tn_resp_call *call)
{
    struct tn_tenured_ask *ask = (struct tn_tenured_ask *)call;
    struct tn_tenured *store = ask->store;
    struct tn_tenured_name *name = ask->name;
    struct tn_store_lease lease;
    bool again = name->again;

    tn_tenured_open_reply(ask);
    struct tn_reply reply = tn_reply_of(call->reply, call->reply_len);
    name->looking = name->again = false;
    if (call->status == 0 && call->value.type != TN_RESP_ERROR) {
        tn_reply_lease(&reply, &lease);
        tn_tenured_note_token(store, lease.record.token);
        if (!reply.bad && name->watchers > 0 && !store->base.closing)
            store->base.how.host->changed(store->base.how.arg, name->name, &lease.record);
    }
    if (again && call->status == 0 && name->watchers > 0 && store->link.ready)
        look(store, name, false);
    tn_tenured_ask_free(ask);
}

/* What a message tells is too little to go by: the term that holds it is not in it. */
static void look(struct tn_tenured *store, struct tn_tenured_name *name, bool greets)
{
    const struct tn_resp_word words[] = { tn_resp_word_of("LEASE"), tn_resp_word_of("GET"),
                                          tn_resp_word_of(name->name) };

    if (name->looking)
        name->again = true;
    else
        name->looking = tn_tenured_ask(store, name, looked, 0, greets, words, 3) != NULL;
}

/* Refused or lost: the candidate's polls are the backstop. */
static void watch_done(struct tn_resp_call *call)
{
    tn_tenured_ask_free((struct tn_tenured_ask *)call);
}

static void say_watch(struct tn_tenured *store, struct tn_tenured_name *name, bool on, bool greets)
{
    const struct tn_resp_word words[] = { tn_resp_word_of(on ? "WATCH" : "UNWATCH"),
                                          tn_resp_word_of(name->name) };

    (void)tn_tenured_ask(store, name, watch_done, 1, greets, words, 2);
}

int tn_tenured_watch(struct tn_store *base, const char *text, bool on)
{
    struct tn_tenured *store = (struct tn_tenured *)base;
    struct tn_tenured_name *name = tn_tenured_find_name(store, text, (uint32_t)strlen(text), on);

    if (name == NULL)
        return on ? TENURE_E_NOMEM : 0;
    if (on) {
        name->watchers++;
    } else {
        TN_ASSERT(name->watchers > 0);
        name->watchers--;
    }
    /* Without a connection, the next one begins with it. */
    if (store->link.ready && name->watchers == (on ? 1 : 0))
        say_watch(store, name, on, false);
    if (store->link.ready && on)
        look(store, name, false);
    tn_tenured_free_if_idle(store, name);
    return 0;
}

/* --- A new connection ------------------------------------------------------------------------- */

static void attached(struct tn_resp_call *call)
{
    struct tn_tenured_ask *ask = (struct tn_tenured_ask *)call;
    struct tn_tenured *store = ask->store;
    char why[TN_ERROR_TEXT];

    tn_tenured_open_reply(ask);
    if (call->status == 0 && tn_resp_begins(&call->value, "GONE")) {
        tn_tenured_forget_session(store, &ask->session);
    } else if (call->status == 0 && tn_resp_begins(&call->value, "OLDER")) {
        struct tn_text text;
        tn_text_init(&text, why, sizeof why);
        tn_tenured_explain_older(store, &text);
        tn_resp_link_refuse(&store->link, TENURE_E_DAMAGED, why);
    }
    tn_tenured_ask_free(ask);
}

static void attach(struct tn_tenured *store, const struct tn_tenured_session *session)
{
    char secret[TN_SECRET_DIGITS], saw[24];
    struct tn_text text;
    bool bind = store->base.how.bind == TN_BIND_OWN && store->url.local && !store->unbindable;

    tn_secret_text(&session->secret, secret);
    tn_text_init(&text, saw, sizeof saw);
    tn_text_addf(&text, "%llu", (unsigned long long)store->saw);
    const struct tn_resp_word words[] = { tn_resp_word_of("SESSION"), tn_resp_word_of("ATTACH"),
                                          { secret, sizeof secret },  tn_resp_word_of("SAW"),
                                          tn_resp_word_of(saw),       tn_resp_word_of("BIND") };
    struct tn_tenured_ask *ask =
        tn_tenured_ask(store, NULL, attached, 0, true, words, bind ? 6 : 5);
    if (ask != NULL)
        ask->session = session->secret;
}

/* The answer of a term that asked for its place again. */
static void queued_again(struct tn_resp_call *call)
{
    struct tn_tenured_ask *ask = (struct tn_tenured_ask *)call;
    struct tn_tenured *store = ask->store;
    struct tn_tenured_name *name = ask->name;
    struct tn_secret hash;

    tn_tenured_open_reply(ask);
    struct tn_reply reply = tn_reply_of(call->reply, call->reply_len);
    if (call->status != 0)
        goto out; /* The next connection asks again. */
    tn_secret_hash(&ask->term, 't', &hash);
    if (tn_resp_begins(&call->value, "GONE")) {
        tn_tenured_forget_session(store, &ask->session);
        goto out;
    }
    (void)tn_reply_list(&reply);
    struct tn_resp_value word = tn_reply_next(&reply);
    if (tn_resp_begins(&word, "queued"))
        goto out;
    bool waited = tn_tenured_forget_place(store, name->name, (uint32_t)strlen(name->name), &hash);
    if (waited && tn_resp_begins(&word, "granted") && !store->base.closing) {
        uint64_t token = tn_reply_u64(&reply);
        tn_tenured_note_token(store, token);
        store->base.how.host->granted(store->base.how.arg, name->name, &hash, token);
    }
out:
    tn_tenured_ask_free(ask);
}

static void begin_name(struct tn_tenured *store, struct tn_tenured_name *name)
{
    for (struct tn_tenured_place *place = name->places; place != NULL; place = place->next)
        (void)tn_tenured_queue(store, name, place, queued_again);
    if (name->watchers > 0) {
        say_watch(store, name, true, true);
        look(store, name, true);
    }
}

/* Somebody else's server may listen there. */
static bool is_tenured(struct tn_tenured *store, const struct tn_resp_call *hello)
{
    struct tn_reply reply = tn_reply_of(hello->reply, hello->reply_len);
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

    if (!is_tenured(store, &store->link.hello)) {
        tn_resp_link_refuse(&store->link, TENURE_E_UNAVAILABLE, "this server is no tenured");
        return;
    }
    for (struct tn_tenured_session *session = store->sessions; session != NULL;
         session = session->next)
        attach(store, session);
    for (size_t i = 0; i < TN_TENURED_BUCKETS; i++)
        for (struct tn_tenured_name *name = store->names[i]; name != NULL; name = name->next)
            begin_name(store, name);
    tn_resp_link_ready(&store->link);
}

static void went_down(void *arg)
{
    (void)arg; /* Every call ends by itself, and up() begins anew. */
}

/* --- News ------------------------------------------------------------------------------------- */

static void hear_granted(struct tn_tenured *store, struct tn_reply *reply)
{
    char name[TN_NAME_MAX + 1], digits[TN_SECRET_DIGITS + 1];
    struct tn_secret hash;

    uint32_t len = tn_reply_text(reply, name, sizeof name);
    uint64_t token = tn_reply_u64(reply);
    if (tn_reply_text(reply, digits, sizeof digits) != TN_SECRET_DIGITS ||
        !tn_secret_parse(&hash, digits) || reply->bad)
        return;
    tn_tenured_note_token(store, token);
    (void)tn_tenured_forget_place(store, name, len, &hash);
    store->base.how.host->granted(store->base.how.arg, name, &hash, token);
}

static void hear_revoked(struct tn_tenured *store, struct tn_reply *reply)
{
    char name[TN_NAME_MAX + 1];

    (void)tn_reply_text(reply, name, sizeof name);
    uint64_t token = tn_reply_u64(reply);
    if (!reply->bad)
        store->base.how.host->revoked(store->base.how.arg, name, token);
}

static void pushed(void *arg, const char *frame, size_t len)
{
    struct tn_tenured *store = arg;
    struct tn_reply reply = tn_reply_of(frame, len);

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
        struct tn_tenured_name *name = tn_tenured_find_name(store, text, text_len, false);
        if (!reply.bad && name != NULL && name->watchers > 0)
            look(store, name, false);
    }
}

const struct tn_resp_host tn_tenured_link_host = { came_up, went_down, pushed };
