/* news.c - whom to tell what: sessions that are ours, names that are watched, and what is due.
 *
 * Every session that is opened or waits here has a channel, and so has every name that is watched;
 * the script publishes there. A new connection subscribes to all of them first and then asks what
 * was missed meanwhile. Nothing ends by itself in the server, so whoever waits or watches comes by
 * when something is due, as the last answer told; as long as every holder renews, nothing ever is.
 */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "stores/redis/private.h"

/* So that not all who wait come by at the same instant. */
#define SPREAD TN_MS(20)

/* A connection on which nothing is said is tried this often by who only watches. */
#define KEEP_EVERY TN_SEC(10)

static void listen_session(struct tn_rd_store *store, bool on, const struct tn_secret *hash)
{
    char hex[TN_RD_HEX + 1];

    tn_rd_hex(hex, hash);
    tn_rd_listen(store, on, "s:", hex);
}

/* --- Sessions ------------------------------------------------------------------------------- */

static struct tn_rd_own **find_own(struct tn_rd_store *store, const struct tn_secret *hash)
{
    struct tn_rd_own **link = &store->owns;

    while (*link != NULL && !tn_secret_equal(&(*link)->hash, hash))
        link = &(*link)->next;
    return link;
}

bool tn_rd_own_add(struct tn_rd_store *store, const struct tn_secret *hash)
{
    struct tn_rd_own **link = find_own(store, hash);

    if (*link != NULL)
        return true;
    *link = calloc(1, sizeof **link);
    if (*link == NULL)
        return false;
    (*link)->hash = *hash;
    if (store->conn.link.ready)
        listen_session(store, true, hash);
    return true;
}

void tn_rd_own_drop(struct tn_rd_store *store, const struct tn_secret *hash)
{
    struct tn_rd_own **link = find_own(store, hash);
    struct tn_rd_own *own = *link;

    if (own == NULL)
        return;
    *link = own->next;
    if (store->conn.link.ready)
        listen_session(store, false, hash);
    free(own);
}

/* --- Names ---------------------------------------------------------------------------------- */

static struct tn_rd_watch **find_watch(struct tn_rd_store *store, const char *name)
{
    const struct tn_hash_key key = { 0, 0 };
    struct tn_rd_watch **link = &store->watches[tn_hash(key, name, strlen(name)) % TN_RD_BUCKETS];

    while (*link != NULL && strcmp((*link)->name, name) != 0)
        link = &(*link)->next;
    return link;
}

int tn_rd_watch(struct tn_rd_store *store, const char *name, bool on)
{
    struct tn_rd_watch **link = find_watch(store, name);
    struct tn_rd_watch *watch = *link;

    if (on && watch == NULL) {
        watch = *link = calloc(1, sizeof *watch);
        if (watch == NULL)
            return TENURE_E_NOMEM;
        memcpy(watch->name, name, strlen(name) + 1);
        store->watched++;
    }
    TN_ASSERT(watch != NULL);
    watch->count += on ? 1U : -1U;
    if (on && watch->count == 1 && store->conn.link.ready) {
        tn_rd_listen(store, true, "n:", name);
        tn_rd_call(store, TN_RD_WATCH, NULL, name);
    } else if (watch->count == 0) {
        if (store->conn.link.ready)
            tn_rd_listen(store, false, "n:", name);
        *link = watch->next;
        store->watched--;
        free(watch);
    }
    return 0;
}

void tn_rd_catch_up(struct tn_rd_store *store)
{
    for (const struct tn_rd_own *own = store->owns; own != NULL; own = own->next) {
        listen_session(store, true, &own->hash);
        tn_rd_call(store, TN_RD_LOOK, &own->hash, NULL);
    }
    for (unsigned i = 0; i < TN_RD_BUCKETS; i++) {
        for (const struct tn_rd_watch *watch = store->watches[i]; watch != NULL;
             watch = watch->next) {
            tn_rd_listen(store, true, "n:", watch->name);
            tn_rd_call(store, TN_RD_WATCH, NULL, watch->name);
        }
    }
}

/* --- Hearing -------------------------------------------------------------------------------- */

/* The name in @word, which is not ours to trust. */
static bool take_name(struct tn_resp_word word, char ret_name[TN_NAME_MAX + 1])
{
    const char *reason;

    if (word.len > TN_NAME_MAX || tn_name_check(word.bytes, word.len, &reason) < 0)
        return false;
    memcpy(ret_name, word.bytes, word.len);
    ret_name[word.len] = '\0';
    return true;
}

/* What is in @text up to the next blank. */
static struct tn_resp_word take_word(struct tn_resp_word *text)
{
    const char *blank = text->len > 0 ? memchr(text->bytes, ' ', text->len) : NULL;
    uint32_t len = blank != NULL ? (uint32_t)(blank - text->bytes) : text->len;
    uint32_t skip = blank != NULL ? len + 1 : len;
    struct tn_resp_word word = { text->bytes, len };

    text->bytes += skip;
    text->len -= skip;
    return word;
}

static void tell_grant(struct tn_rd_store *store, struct tn_resp_word name,
                       struct tn_resp_word term, struct tn_resp_word token, bool revoked)
{
    const struct tn_store_open *how = &store->base.how;
    struct tn_secret hash;
    char text[TN_NAME_MAX + 1];

    if (!take_name(name, text))
        return;
    if (revoked)
        how->host->revoked(how->arg, text, tn_rd_number(token));
    else if (tn_rd_unhex(term, &hash))
        how->host->granted(how->arg, text, &hash, tn_rd_number(token));
}

static void tell_change(struct tn_rd_store *store, struct tn_resp_word name,
                        struct tn_resp_word text)
{
    const struct tn_store_open *how = &store->base.how;
    struct tn_store_record record;
    struct tn_resp_word parts[7];
    char watched[TN_NAME_MAX + 1];

    for (int i = 0; i < 6; i++)
        parts[i] = take_word(&text);
    parts[6] = text;
    if (!take_name(name, watched) || *find_watch(store, watched) == NULL)
        return;
    tn_rd_record(parts, &record);
    how->host->changed(how->arg, watched, &record);
}

void tn_rd_hear(struct tn_rd_store *store, struct tn_resp_word channel, struct tn_resp_word text)
{
    size_t skip = strlen(store->url.channel);

    if (store->base.closing || channel.len < skip + 2)
        return;
    struct tn_resp_word of = { channel.bytes + skip + 2, channel.len - (uint32_t)skip - 2 };
    if (channel.bytes[skip] == 'n') {
        tell_change(store, of, text);
        return;
    }
    struct tn_resp_word kind = take_word(&text);
    struct tn_resp_word token = take_word(&text);
    bool revoked = tn_rd_is(kind, "r");
    struct tn_resp_word term = { "", 0 };
    if (!revoked)
        term = take_word(&text);
    tell_grant(store, text, term, token, revoked);
}

void tn_rd_hear_look(struct tn_rd_store *store, struct tn_rd_reply *reply)
{
    while (reply->left >= 4) {
        struct tn_resp_word token = tn_rd_next(reply);
        struct tn_resp_word term = tn_rd_next(reply);
        struct tn_resp_word name = tn_rd_next(reply);
        tell_grant(store, name, term, token, tn_rd_is(tn_rd_next(reply), "1"));
    }
}

void tn_rd_hear_read(struct tn_rd_store *store, const char *name, struct tn_rd_reply *reply)
{
    const struct tn_store_open *how = &store->base.how;
    struct tn_resp_word parts[7];
    struct tn_store_record record;

    for (int i = 0; i < 7; i++)
        parts[i] = tn_rd_next(reply);
    tn_rd_record(parts, &record);
    if (*find_watch(store, name) != NULL)
        how->host->changed(how->arg, name, &record);
}

/* --- What is due ---------------------------------------------------------------------------- */

static void set_timer(struct tn_rd_store *store);

static void hear_timer(uv_timer_t *timer)
{
    struct tn_rd_store *store = timer->data;

    if (store->base.closing)
        return;
    if (!store->ticking && store->conn.link.ready) {
        store->ticking = true;
        store->due_at = TN_NEVER;
        tn_rd_call(store, TN_RD_TICK, NULL, NULL);
    }
    set_timer(store);
}

static void set_timer(struct tn_rd_store *store)
{
    tenure_ns at = TN_NEVER;

    if (store->watched > 0)
        at = store->conn.link.stream.heard_at + KEEP_EVERY;
    if (store->waits || store->watched > 0)
        at = store->due_at < at ? store->due_at : at;
    if (store->ticking || !store->conn.link.ready)
        at = TN_NEVER;
    tn_store_wake_at(&store->base, &store->timer, hear_timer, at);
}

void tn_rd_hear_due(struct tn_rd_store *store, struct tn_resp_word word)
{
    tenure_ns spread = (tenure_ns)tn_prng_below(&store->prng, (uint64_t)SPREAD);

    store->due_at = TN_NEVER;
    if (word.len > 0 && word.bytes[0] != '-')
        store->due_at = tn_rd_now(store) + spread + tn_rd_ms(word);
    set_timer(store);
}

void tn_rd_ticked(struct tn_rd_store *store)
{
    store->ticking = false;
    set_timer(store);
}

void tn_rd_news_done(struct tn_rd_store *store)
{
    while (store->owns != NULL) {
        struct tn_rd_own *own = store->owns;
        store->owns = own->next;
        free(own);
    }
    for (unsigned i = 0; i < TN_RD_BUCKETS; i++) {
        while (store->watches[i] != NULL) {
            struct tn_rd_watch *watch = store->watches[i];
            store->watches[i] = watch->next;
            free(watch);
        }
    }
}
