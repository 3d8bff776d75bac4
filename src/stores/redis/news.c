/* news.c - whom to tell what: sessions that are ours, names that are watched, and what is due.
 *
 * Every session that is opened or waits here has a channel, and so has every name that is watched;
 * the script publishes there. A new connection subscribes to all of them first and then asks what
 * was missed meanwhile. Nothing ends by itself in the server, so whoever waits or watches comes by
 * when something is due, as the last answer told; as long as every holder renews, nothing ever is.
 */
#include <string.h>

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

/* --- Sessions and names --------------------------------------------------------------------- */

bool tn_rd_keep_session(struct tn_rd_store *store, const struct tn_secret *secret)
{
    const struct tn_store_session *session = tn_store_session_find(&store->base, secret);

    if (session != NULL)
        return true;
    session = tn_store_session_keep(&store->base, secret);
    if (session != NULL && store->conn.link.ready)
        listen_session(store, true, &session->hash);
    return session != NULL;
}

void tn_rd_drop_session(struct tn_rd_store *store, const struct tn_secret *secret)
{
    struct tn_store_session *session = tn_store_session_find(&store->base, secret);

    if (session == NULL)
        return;
    if (store->conn.link.ready)
        listen_session(store, false, &session->hash);
    tn_store_session_drop(&store->base, session);
}

/* Without a connection, the next one begins with it. */
int tn_rd_watched(struct tn_store *base, struct tn_store_name *name, bool on)
{
    struct tn_rd_store *store = (struct tn_rd_store *)base;

    tn_resp_link_start(&store->conn.link);
    if (!store->conn.link.ready)
        return 0;
    tn_rd_listen(store, on, "n:", name->text);
    if (on)
        tn_rd_call(store, TN_RD_WATCH, NULL, name->text);
    return 0;
}

void tn_rd_catch_up(struct tn_rd_store *store)
{
    const struct tn_store_session *session = NULL;
    const struct tn_store_name *name = NULL;

    while ((session = tn_store_session_next(&store->base, session)) != NULL) {
        listen_session(store, true, &session->hash);
        tn_rd_call(store, TN_RD_LOOK, &session->hash, NULL);
    }
    while ((name = tn_store_name_next(&store->base, name)) != NULL) {
        tn_rd_listen(store, true, "n:", name->text);
        tn_rd_call(store, TN_RD_WATCH, NULL, name->text);
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
    struct tn_secret hash;
    char text[TN_NAME_MAX + 1];

    if (!take_name(name, text))
        return;
    if (revoked)
        tn_store_revoked(&store->base, text, tn_rd_number(token));
    else if (tn_rd_unhex(term, &hash))
        tn_store_granted(&store->base, text, &hash, tn_rd_number(token));
}

static void tell_change(struct tn_rd_store *store, const char *name, size_t len,
                        const struct tn_resp_word parts[7])
{
    struct tn_store_name *watched = tn_store_name_find(&store->base, name, len);
    struct tn_store_record record;

    if (watched == NULL)
        return;
    tn_rd_record(parts, &record);
    tn_store_changed(&store->base, watched, &record);
}

void tn_rd_hear(struct tn_rd_store *store, struct tn_resp_word channel, struct tn_resp_word text)
{
    size_t skip = strlen(store->url.channel);

    if (store->base.closing || channel.len < skip + 2)
        return;
    struct tn_resp_word of = { channel.bytes + skip + 2, channel.len - (uint32_t)skip - 2 };
    if (channel.bytes[skip] == 'n') {
        struct tn_resp_word parts[7];
        for (int i = 0; i < 6; i++)
            parts[i] = take_word(&text);
        parts[6] = text;
        tell_change(store, of.bytes, of.len, parts);
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
    struct tn_resp_word parts[7];

    for (int i = 0; i < 7; i++)
        parts[i] = tn_rd_next(reply);
    tell_change(store, name, strlen(name), parts);
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
    bool watches = store->base.names.count > 0;

    if (watches)
        at = store->conn.link.stream.heard_at + KEEP_EVERY;
    if (store->waits || watches)
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
