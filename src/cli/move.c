/* move.c - `tenure move --from URL --to URL NAME...`: a running election goes to another store.
 *
 * Happy path: the new store's counter is raised above the old tokens, the name is reserved there,
 * the leader at the old store is revoked and stops, the old name is blocked, and the new one is
 * opened. core/move.h decides which step is next; here both stores are read and the step is taken.
 * A block is a lease that lives as long as the store lets one live. Its label says which way the
 * name goes and ends in a random number, from which its secrets follow. So the same move, run
 * again, holds the same leases, and the store proves it by granting them once more.
 * What can fail: the leader does not stop in time, or candidates lead at the new store (75); the
 * tokens there cannot be raised (69). The old election then goes on, and nobody leads elsewhere. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/sha256.h"
#include "base/time.h"
#include "base/url.h"
#include "cli/store.h"
#include "core/move.h"
#include "runtime/random.h"
#include "stores/registry.h"

#define POLL_EVERY TN_MS(100)
#define WAIT_MAX TN_SEC(365 * 86400)

enum {
    NONCE = 16,       /* Hexadecimal digits. */
    SHOWN_MAX = 200,  /* A URL in a label. */
    BURN_MAX = 10000, /* So many tokens are used up to get above the old ones. */
};

static const char moved[] = "moved to ";
static const char reserved[] = "reserved for a move from ";
/* Tokens of engines that number all their writes are used up under a name that begins so. It ends
 * in a random number: what a killed move still holds is in nobody's way. */
static const char scratch[] = "~tenure/move/";

/* The name at one of the two stores. */
struct place {
    struct tn_cli_store store;
    const char *url;
    char shown[SHOWN_MAX + 1]; /* As labels have it. */
    const struct place *other;
    struct tn_move_place is;
    struct tn_store_record record;
    char nonce[NONCE + 1]; /* Of what blocks it, or of our place in line; empty: there is none. */
};

struct move {
    struct place from, to;
    const char *name;
    uint64_t raised;
    uint64_t revoked; /* The last token that was. */
    tenure_ns wait, end;
    bool waits; /* There is a place in line at the old store. */
    bool json, abandon;
    bool told; /* That the leader cannot be revoked. */
};

/* --- Blocks --------------------------------------------------------------------------------- */

static struct tn_op name_op(const struct move *move, enum tn_op_kind kind)
{
    return (struct tn_op) { .kind = kind,
                            .name = move->name,
                            .name_len = (uint32_t)strlen(move->name) };
}

static void derive(struct tn_secret *ret_secret, const struct move *move, const char *nonce,
                   char kind)
{
    uint8_t digest[TN_SHA256_SIZE];
    char text[TN_NAME_MAX + NONCE + 32];

    int len = snprintf(text, sizeof text, "tenure move %c %s %s", kind, nonce, move->name);
    tn_sha256(text, (size_t)len, digest);
    memcpy(ret_secret->bytes, digest, sizeof ret_secret->bytes);
}

/* Where the label of a block says which way the name goes, its number; else NULL. */
static const char *find_nonce(const char *label)
{
    size_t len = strlen(label);
    const char *nonce = label + len - NONCE;

    if (strncmp(label, moved, sizeof moved - 1) != 0 &&
        strncmp(label, reserved, sizeof reserved - 1) != 0)
        return NULL;
    if (len < sizeof moved + NONCE || nonce[-1] != '#' || nonce[-2] != ' ' ||
        strspn(nonce, "0123456789abcdef") != NONCE)
        return NULL;
    return nonce;
}

static void make_label(char ret_label[TN_LABEL_MAX + 1], const struct place *place,
                       const char *role, const char *nonce)
{
    (void)snprintf(ret_label, TN_LABEL_MAX + 1, "%s%s #%s", role, place->other->shown, nonce);
}

/* What a process holds there is not another's to go on with: a reservation must not outlive a move
 * that was killed, and nothing can block an old name. */
static bool is_foreign(const struct tn_store_ops *ops)
{
    return (ops->caps & (TN_STORE_BOUND | TN_STORE_NAMED)) != 0;
}

/* Open the session of the block with @label and ask for the name. The same again is the same. */
static int hold(struct move *move, struct place *place, const char *label, bool wait,
                struct tn_store_req *ret_req)
{
    const struct tn_store_ops *ops = place->store.ops;
    struct tn_op op = name_op(move, TN_OP_ACQUIRE);
    const char *nonce = find_nonce(label);

    derive(&op.session, move, nonce, 's');
    derive(&op.term, move, nonce, 't');
    struct tn_op open = { .kind = TN_OP_OPEN, .session = op.session };
    open.ttl = is_foreign(ops) ? TN_SEC(60) : TN_TTL_MAX;
    if (open.ttl > ops->ttl_max)
        open.ttl = ops->ttl_max;
    open.label = label;
    open.label_len = (uint32_t)strlen(label);
    int rc = tn_cli_ask(&place->store, &open, ret_req);
    if (rc < 0 || ret_req->answer != TN_ANSWER_OK)
        return rc;
    op.wait = wait && (ops->caps & TN_STORE_QUEUES) != 0;
    return tn_cli_ask(&place->store, &op, ret_req);
}

static int let_go(struct move *move, struct place *place, uint64_t token)
{
    struct tn_op op = name_op(move, TN_OP_RELEASE);
    struct tn_store_req req;

    derive(&op.session, move, place->nonce, 's');
    derive(&op.term, move, place->nonce, 't');
    op.token = token;
    int rc = tn_cli_ask(&place->store, &op, &req);
    struct tn_op close = { .kind = TN_OP_CLOSE, .session = op.session };
    if (rc == 0)
        rc = tn_cli_ask(&place->store, &close, &req);
    place->nonce[0] = '\0';
    return rc < 0 ? tn_cli_store_fail("move", rc, req.error) : -1;
}

/* --- Looking -------------------------------------------------------------------------------- */

/* A label is no proof: who holds the name under it must have its secrets, too. */
static int prove(struct move *move, struct place *place, bool *ret_is_ours)
{
    struct tn_store_req req;

    int rc = hold(move, place, place->record.label, false, &req);
    if (rc < 0)
        return tn_cli_store_fail("move", rc, req.error);
    *ret_is_ours = req.answer == TN_ANSWER_GRANTED && req.record.token == place->record.token;
    return -1;
}

static enum tn_move_state read_label(const struct place *place)
{
    char ours[TN_LABEL_MAX + 1];
    const char *label = place->record.label;
    const char *nonce = find_nonce(label);

    make_label(ours, place, moved, nonce);
    if (strcmp(ours, label) == 0)
        return TN_MOVE_MOVED;
    make_label(ours, place, reserved, nonce);
    return strcmp(ours, label) == 0 ? TN_MOVE_RESERVED : TN_MOVE_FOREIGN;
}

static int look(struct move *move, struct place *place)
{
    struct tn_op op = name_op(move, TN_OP_READ);
    struct tn_store_req req;
    bool ours = false;

    int status = tn_cli_step(&place->store, &op, &req);
    if (status >= 0)
        return status;
    if (place->store.missing)
        return tn_cli_fail(TN_EXIT_UNAVAILABLE, "move", "there is no store at %s yet",
                           place->shown);
    place->record = req.record;
    place->is = (struct tn_move_place) { TN_MOVE_FREE, req.record.token };
    if (!req.record.held)
        return -1;
    place->is.state = TN_MOVE_LED;
    const char *nonce = find_nonce(place->record.label);
    if (nonce == NULL)
        return -1;
    enum tn_move_state state = read_label(place);
    if (state == TN_MOVE_FOREIGN) {
        place->is.state = state;
        return -1;
    }
    status = prove(move, place, &ours);
    if (status < 0 && ours) {
        place->is.state = state;
        memcpy(place->nonce, nonce, NONCE + 1);
    }
    return status;
}

/* --- Steps ---------------------------------------------------------------------------------- */

static int draw_nonce(char ret_nonce[NONCE + 1])
{
    char digits[TN_SECRET_DIGITS];
    struct tn_secret secret;

    int rc = tn_random_secret(&secret);
    if (rc < 0)
        return tn_cli_store_fail("move", rc, "the kernel gives no random numbers");
    tn_secret_text(&secret, digits);
    memcpy(ret_nonce, digits, NONCE);
    ret_nonce[NONCE] = '\0';
    return -1;
}

static int refuse_raise(const struct move *move, uint64_t floor, uint64_t at)
{
    char hint[256] = "";
    struct tn_text text;

    tn_text_init(&text, hint, sizeof hint);
    const char *way = move->to.store.ops->restored;
    for (; way != NULL && *way != '\0'; way++) {
        if (*way == '%' || *way == '#')
            tn_text_addf(&text, *way == '#' ? "%020" PRIu64 : "%" PRIu64, floor);
        else
            tn_text_addf(&text, "%c", *way);
    }
    return tn_cli_fail(TN_EXIT_UNAVAILABLE, "move",
                       "%s: the tokens of %s are at %" PRIu64 " and have to be above %" PRIu64
                       "; %s, then run this again",
                       move->name, move->to.shown, at, floor, hint);
}

/* One token of @op's name is used up. Returns 0 or the error. */
static int use_token(struct tn_cli_store *store, struct tn_op *op, uint64_t *ret_token)
{
    struct tn_store_req req;

    op->kind = TN_OP_ACQUIRE;
    int rc = tn_random_secret(&op->term);
    if (rc == 0)
        rc = tn_cli_ask(store, op, &req);
    if (rc < 0 || req.answer != TN_ANSWER_GRANTED)
        return rc < 0 ? rc : TENURE_E_TIMEOUT;
    *ret_token = op->token = req.record.token;
    op->kind = TN_OP_RELEASE;
    rc = tn_cli_ask(store, op, &req);
    op->token = 0;
    return rc;
}

/* An engine whose tokens are its own numbers: these rise with every write, so write. */
static int burn(struct move *move, uint64_t floor)
{
    struct tn_cli_store *store = &move->to.store;
    bool per_name = (store->ops->caps & TN_STORE_PER_NAME) != 0;
    char nonce[NONCE + 1], name[sizeof scratch + NONCE];
    struct tn_op op = { .name = per_name ? move->name : name };
    struct tn_op open = { .kind = TN_OP_OPEN, .ttl = TN_SEC(60), .label = "tenure move" };
    struct tn_store_req req;
    uint64_t at = move->to.is.token, first = 0;

    if (per_name && (move->to.is.state != TN_MOVE_FREE || at >= floor))
        return at >= floor ? -1 : refuse_raise(move, floor, at);
    int status = draw_nonce(nonce);
    if (status >= 0)
        return status;
    (void)snprintf(name, sizeof name, "%s%s", scratch, nonce);
    int rc = tn_random_secret(&open.session);
    op.name_len = (uint32_t)strlen(op.name);
    open.label_len = (uint32_t)strlen(open.label);
    op.session = open.session;
    if (rc == 0)
        rc = tn_cli_ask(store, &open, &req);
    if (rc < 0)
        return tn_cli_store_fail("move", rc, req.error);
    for (unsigned i = 0; rc == 0 && i < BURN_MAX; i++) {
        rc = use_token(store, &op, &at);
        first = first == 0 ? at : first;
        if (at >= floor || floor - first > BURN_MAX)
            break;
    }
    struct tn_op close = { .kind = TN_OP_CLOSE, .session = open.session };
    (void)tn_cli_ask(store, &close, &req);
    if (rc < 0)
        return tn_cli_fail(TN_EXIT_UNAVAILABLE, "move",
                           "%s: no token could be taken at %s: %s; run this again", move->name,
                           move->to.shown, tenure_strerror(rc));
    return at >= floor ? -1 : refuse_raise(move, floor, at);
}

static int raise_tokens(struct move *move)
{
    struct tn_op op = name_op(move, TN_OP_RAISE);
    struct tn_store_req req;
    int status;

    op.token = tn_move_floor(&move->from.is);
    if ((move->to.store.ops->caps & TN_STORE_RAISES) == 0) {
        status = burn(move, op.token);
    } else {
        status = tn_cli_step(&move->to.store, &op, &req);
        if (status < 0 && req.answer != TN_ANSWER_OK)
            status = refuse_raise(move, op.token, move->to.is.token);
    }
    if (status < 0)
        move->raised = op.token;
    return status;
}

static int reserve(struct move *move)
{
    char label[TN_LABEL_MAX + 1];
    struct tn_store_req req;

    int status = draw_nonce(move->to.nonce);
    if (status >= 0)
        return status;
    make_label(label, &move->to, reserved, move->to.nonce);
    int rc = hold(move, &move->to, label, false, &req);
    return rc < 0 ? tn_cli_store_fail("move", rc, req.error) : -1;
}

/* Two spellings of one URL: the reservation is on both sides. Nothing was changed but that. */
static int refuse_same(struct move *move)
{
    int status = let_go(move, &move->to, move->to.is.token);

    if (status >= 0)
        return status;
    return tn_cli_fail(TN_EXIT_USAGE, "move", "%s and %s are the same store", move->from.shown,
                       move->to.shown);
}

/* The leader is told to stop, once for each term. */
static int revoke_leader(struct move *move)
{
    struct tn_op op = name_op(move, TN_OP_REVOKE);
    struct tn_store_req req;

    op.token = move->from.is.token;
    if (move->from.is.state != TN_MOVE_LED || move->revoked == op.token)
        return -1;
    int rc = tn_cli_ask(&move->from.store, &op, &req);
    move->revoked = op.token;
    if (rc == TENURE_E_UNSUPPORTED && !move->told) {
        move->told = true;
        (void)tn_cli_fail(0, "move", "%s: %s cannot revoke; stop the leader there", move->name,
                          move->from.shown);
    }
    return rc < 0 && rc != TENURE_E_UNSUPPORTED ? tn_cli_store_fail("move", rc, req.error) : -1;
}

/* A place in line at the old store, then the leader's end; whether it is our turn shows when the
 * store is looked at again. The place follows from the reservation, for who runs this again. */
static int block(struct move *move)
{
    struct place *from = &move->from;
    char label[TN_LABEL_MAX + 1];
    struct tn_store_req req;
    struct tn_secret next;
    char digits[TN_SECRET_DIGITS];

    if (from->nonce[0] == '\0') {
        derive(&next, move, move->to.nonce, 'n');
        tn_secret_text(&next, digits);
        (void)snprintf(from->nonce, sizeof from->nonce, "%.*s", NONCE, digits);
    }
    make_label(label, from, moved, from->nonce);
    int rc = hold(move, from, label, true, &req);
    if (rc < 0)
        return tn_cli_store_fail("move", rc, req.error);
    move->waits = true;
    if (req.answer == TN_ANSWER_GRANTED)
        return -1;
    /* An earlier move had that place, and its term is over. */
    if (req.answer == TN_ANSWER_STALE || req.answer == TN_ANSWER_GONE)
        return draw_nonce(from->nonce);
    int status = revoke_leader(move);
    if (status < 0)
        tn_cli_pause(&from->store, tn_clock_now(&from->store.clock) + POLL_EVERY);
    return status;
}

/* --- Answers -------------------------------------------------------------------------------- */

static int print_done(const struct move *move)
{
    char ttl[TN_DURATION_TEXT];
    tenure_ns blocked = move->from.record.ttl;

    if (move->abandon) {
        printf(move->json ? "{\"moved\":false,\"name\":\"%s\"}\n" : "%s: not moved\n", move->name);
    } else if (move->json) {
        printf("{\"moved\":true,\"name\":\"%s\",\"token\":%" PRIu64 ",\"blocked_ms\":%" PRId64
               "}\n",
               move->name, move->from.is.token, blocked / TN_MS(1));
    } else {
        printf("%s: moved from %s to %s; tokens go on above %" PRIu64
               "; the old name is blocked for %s\n",
               move->name, move->from.shown, move->to.shown, move->from.is.token,
               tn_cli_duration(ttl, blocked));
    }
    return TN_EXIT_OK;
}

static int refuse_move(const struct move *move, enum tn_move_step step)
{
    char holder[TN_CLI_LINE_MAX];
    const struct place *odd = &move->to;
    struct tn_text text;

    if (step == TN_MOVE_BUSY && move->from.is.state >= TN_MOVE_RESERVED)
        odd = &move->from;
    tn_text_init(&text, holder, sizeof holder);
    tn_cli_quote(&text, odd->record.label);
    if (step == TN_MOVE_BUSY)
        return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, "move",
                           "%s: another move is not finished: held at %s by %s; run that one "
                           "again first",
                           move->name, odd->shown, holder);
    if (step == TN_MOVE_REVERSED)
        return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, "move",
                           "%s: a later move went from %s to %s; finish that one first", move->name,
                           move->to.shown, move->from.shown);
    if (step == TN_MOVE_LOW)
        return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, "move",
                           "%s: %s leads at %s under token %" PRIu64 ", below %" PRIu64
                           ": fences refuse it; 'tenure revoke %s' there lets the next one lead",
                           move->name, holder, odd->shown, odd->is.token, move->from.is.token,
                           move->name);
    if (move->abandon)
        return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, "move",
                           "%s: is moved already; to go back, move it from %s to %s", move->name,
                           move->to.shown, move->from.shown);
    return tn_cli_fail(TN_EXIT_NOT_ACQUIRED, "move",
                       "%s: %s leads at %s already; stop the candidates there first", move->name,
                       holder, odd->shown);
}

/* The leader did not stop, or somebody pressed ^C: the old election goes on. The new store stays
 * reserved, because candidates may be waiting there. */
static int give_up(struct move *move)
{
    int caught = tn_cli_caught(&move->from.store);

    if (move->waits && move->from.is.state != TN_MOVE_MOVED)
        (void)let_go(move, &move->from, 0);
    return tn_cli_fail(caught != 0 ? 128 + caught : TN_EXIT_NOT_ACQUIRED, "move",
                       "%s: not moved yet, and reserved at %s: run this again to go on, or with "
                       "--abandon once no candidate uses %s",
                       move->name, move->to.shown, move->to.shown);
}

/* --- The move ------------------------------------------------------------------------------- */

static int take_step(struct move *move, enum tn_move_step step)
{
    const char *nonce = find_nonce(move->from.record.label);

    if (step == TN_MOVE_BUSY && nonce != NULL && strcmp(nonce, move->to.nonce) == 0)
        return refuse_same(move);
    switch (step) {
    case TN_MOVE_RAISE:
        return raise_tokens(move);
    case TN_MOVE_RESERVE:
        return reserve(move);
    case TN_MOVE_BLOCK:
        return block(move);
    case TN_MOVE_OPEN:
        return let_go(move, &move->to, move->to.is.token);
    case TN_MOVE_REOPEN:
        return let_go(move, &move->from, move->from.is.token);
    case TN_MOVE_DONE:
        return print_done(move);
    default:
        return refuse_move(move, step);
    }
}

static int move_name(struct move *move)
{
    int status = -1;

    move->raised = move->revoked = 0;
    move->waits = false;
    move->from.nonce[0] = move->to.nonce[0] = '\0';
    move->end = tn_clock_now(&move->from.store.clock) + move->wait;
    while (status < 0) {
        status = look(move, &move->from);
        if (status < 0)
            status = look(move, &move->to);
        if (status >= 0)
            break;
        enum tn_move_step step = move->abandon
                                     ? tn_move_undo(&move->from.is, &move->to.is)
                                     : tn_move_next(&move->from.is, &move->to.is, move->raised);
        bool late = tn_clock_now(&move->from.store.clock) >= move->end;
        if ((late && step == TN_MOVE_BLOCK) || tn_cli_caught(&move->from.store) != 0)
            return give_up(move);
        status = take_step(move, step);
    }
    return status;
}

/* --- The command ---------------------------------------------------------------------------- */

static const char about[] =
    "Carries a running election to another store: the leader at the old one stops, the tokens at\n"
    "the new one go on above the old ones, and the old name stays blocked for those who still use\n"
    "it. Then start the candidates again with the new URL. A move that was interrupted goes on "
    "when\n"
    "it is run again with the same URLs; until then nobody may lead, but never two.\n";

static const char after[] =
    "Examples:\n"
    "  tenure move --from sqlite:leases.db --to unix:/run/tenured/tenured.sock report\n"
    "  tenure move --from unix:/run/tenured/tenured.sock --to etcd://e1,e2,e3/jobs report backup\n"
    "\n"
    "Exit status: 0 moved, 64 bad usage, 69 a store is unavailable or its tokens cannot be "
    "raised,\n"
    "75 the leader did not stop in time, or somebody leads at the new store, 77 not permitted.\n";

/* Labels have the URL without its password; of files the whole path, wherever this is run. */
static int show_url(struct place *place)
{
    char text[4096], cwd[2048] = "";
    const struct tn_store_ops *ops;
    const char *rest = NULL;
    char buf[TN_CLI_LINE_MAX];
    struct tn_text error;

    tn_text_init(&error, buf, sizeof buf);
    int rc = tn_store_find(place->url, &ops, &rest, &error);
    if (rc < 0)
        return tn_cli_store_fail("move", rc, buf);
    bool is_file = strcmp(ops->scheme, "sqlite") == 0 || strcmp(ops->scheme, "unix") == 0;
    (void)snprintf(text, sizeof text, "%s", place->url);
    if (is_file && rest[0] != '\0' && rest[0] != '/' && getcwd(cwd, sizeof cwd) != NULL)
        (void)snprintf(text, sizeof text, "%s:%s/%s", ops->scheme, cwd,
                       strncmp(rest, "./", 2) == 0 ? rest + 2 : rest);
    if (strlen(tn_url_public(text, buf, sizeof buf)) > SHOWN_MAX)
        return tn_cli_fail(TN_EXIT_USAGE, "move", "a URL has more than %d characters", SHOWN_MAX);
    (void)snprintf(place->shown, sizeof place->shown, "%.*s", SHOWN_MAX, buf);
    return -1;
}

static int open_place(struct place *place, bool create)
{
    int status = tn_cli_store_open("move", place->url, create, 0, &place->store);

    if (status < 0 && place->store.ask == NULL)
        status = tn_cli_fail(TN_EXIT_UNAVAILABLE, "move", "there is no store at %s", place->shown);
    return status;
}

static int run_move(struct move *move, char **names, size_t count)
{
    int status = show_url(&move->from);

    if (status < 0)
        status = show_url(&move->to);
    if (status < 0 && strcmp(move->from.shown, move->to.shown) == 0)
        status = tn_cli_fail(TN_EXIT_USAGE, "move", "--from and --to are the same store");
    if (status < 0)
        status = open_place(&move->from, false);
    if (status < 0 && is_foreign(move->from.store.ops))
        status = tn_cli_fail(TN_EXIT_USAGE, "move",
                             "what one process holds in %s: no other can go on with, so the old "
                             "name cannot be blocked there; docs/move.md says what to do by hand",
                             move->from.store.ops->scheme);
    if (status < 0)
        status = open_place(&move->to, true);
    if (status < 0) {
        tn_cli_catch_signals(&move->from.store);
        tn_cli_catch_signals(&move->to.store);
    }
    for (size_t i = 0; status < 0 && i < count; i++) {
        move->name = names[i];
        status = move_name(move);
        status = status == TN_EXIT_OK && i + 1 < count ? -1 : status;
    }
    tn_cli_store_close(&move->to.store);
    tn_cli_store_close(&move->from.store);
    return status;
}

int tn_cli_move(int argc, char **argv)
{
    struct move move = { .wait = TN_SEC(120) };
    struct tn_option options[] = {
        TN_STRING("from", 0, &move.from.url, "URL", NULL, "the old store"),
        TN_STRING("to", 0, &move.to.url, "URL", NULL, "the new store"),
        TN_DURATION("wait", 0, &move.wait, 0, WAIT_MAX, "2m", "for the leader to stop"),
        TN_FLAG("abandon", 0, &move.abandon,
                "give up a move that is not finished; no candidate may use the new store"),
        TN_FLAG("json", 0, &move.json, "print one JSON object per name"),
    };
    struct tn_command command = TN_COMMAND("move", "NAME...", SIZE_MAX, options);

    move.from.other = &move.to;
    move.to.other = &move.from;
    int status = tn_cli_options(&command, argc, argv);
    if (status < 0 && (move.from.url == NULL || move.to.url == NULL))
        status = tn_cli_fail(TN_EXIT_USAGE, "move", "--from URL and --to URL are both needed");
    if (status < 0 && command.rest_count == 0)
        status = tn_cli_fail(TN_EXIT_USAGE, "move",
                             "which NAME? 'tenure list --store URL' shows "
                             "them");
    for (size_t i = 0; status < 0 && i < command.rest_count; i++)
        status = tn_cli_check_name("move", command.rest[i]);
    return status >= 0 ? status : run_move(&move, command.rest, command.rest_count);
}
