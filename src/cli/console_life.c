/* console_life.c - until when the leases live that `tenure console` shows; console.h has the
 * contract.
 *
 * A store tells what is left of a TTL in one of three ways, or not at all:
 *
 *   exactly      with each record: an answer gives the end up to the time that it took.
 *   by a beat    which changes with each renewal (stores that expire nothing themselves): the end
 *                is a TTL behind the renewal, and that was between two looks.
 *   in seconds   and only to READ (etcd). The console reads each held name now and then. A holder
 *                that has missed a renewal is read ten times a second until the number of seconds
 *                changes: so the instant of its last renewal is known to a tenth of a second. */
#define _GNU_SOURCE
#include "cli/console.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"

/* A lease may be gone this much before its end was expected, and has expired all the same. */
#define SLOP TN_MS(300)
/* The console usually looks every second. */
#define LONG_LOOK TN_MS(2500)
/* Close enough for the instant of the last renewal. */
#define NARROW TN_MS(130)
#define LOOKS_MOST 32u
#define LOOK_EVERY TN_SEC(1)
#define WANTED_FOR TN_SEC(3)
/* etcd removes an expired lease so late at most, and says "0 s left" meanwhile. */
#define LATE TN_MS(700)

static tenure_ns smaller(tenure_ns a, tenure_ns b)
{
    return a < b ? a : b;
}

static tenure_ns larger(tenure_ns a, tenure_ns b)
{
    return a > b ? a : b;
}

tenure_ns tn_life_left(const struct tn_life *life, tenure_ns now)
{
    tenure_ns left = life->low + (life->high - life->low) / 2 - now;

    return life->ttl == 0 || left < 0 ? 0 : smaller(left, life->ttl);
}

enum tn_term_end tn_life_end(const struct tn_seen *seen, tenure_ns now, tenure_ns *ret_heard)
{
    const struct tn_life *life = &seen->life;
    tenure_ns high = smaller(life->high, now);

    if (seen->record.revoked)
        return TN_TERM_REVOKED;
    if (life->ttl == 0)
        return TN_TERM_UNKNOWN; /* The store does not tell how long it had left. */
    if (now < life->low - SLOP)
        return TN_TERM_RELEASED;
    /* When it was seen last, the holder was not late. It may have renewed since, and left. */
    if (now - seen->at > LONG_LOOK && life->low - seen->at > life->ttl / 2)
        return TN_TERM_UNKNOWN;
    *ret_heard = smaller(life->low, high) + larger(0, high - life->low) / 2 - life->ttl;
    return TN_TERM_EXPIRED;
}

#ifdef TENURE_CONSOLE

/* Holders renew long before half of their TTL is over. */
static bool is_silent(const struct tn_life *life, tenure_ns now)
{
    return life->ttl > 0 && life->high - now < larger(life->ttl / 2, TN_MS(1250));
}

static void learn_steps(struct tn_life *life, const struct tn_store_record *record, tenure_ns asked,
                        tenure_ns now, tenure_ns step)
{
    tenure_ns low = asked + record->remaining - (record->remaining < step ? LATE : 0);
    tenure_ns high = now + record->remaining + step;
    bool narrows = life->silent && life->low <= high && low <= life->high;

    life->ttl = record->ttl;
    life->low = narrows ? larger(low, life->low) : low;
    life->high = narrows ? smaller(high, life->high) : high;
    life->silent = is_silent(life, now);
}

void tn_life_learn(const struct tn_console *console, struct tn_seen *seen,
                   const struct tn_store_record *record, tenure_ns asked)
{
    struct tn_life *life = &seen->life;
    tenure_ns now = tn_console_now(console);
    bool same = seen->record.held && record->held && record->token == seen->record.token;

    if (!same)
        *life = (struct tn_life) { .asked = life->asked,
                                   .asked_at = life->asked_at,
                                   .wanted_at = life->wanted_at };
    if (!record->held || record->ttl == 0 || (console->store->ops->caps & TN_STORE_HUSHED) != 0)
        return;
    if (console->store->ops->life_step > 0) {
        learn_steps(life, record, asked, now, console->store->ops->life_step);
    } else if (record->beat != 0 && record->remaining == record->ttl) {
        if (life->ttl != 0 && record->beat == seen->record.beat)
            return; /* No sign of life since. */
        life->low = (life->ttl != 0 ? larger(seen->at, now - record->ttl) : asked) + record->ttl;
        life->high = now + record->ttl;
        life->ttl = record->ttl;
    } else {
        life->ttl = record->ttl;
        life->low = asked + record->remaining;
        life->high = now + record->remaining;
    }
}

/* --- READs ------------------------------------------------------------------------------------ */

struct look {
    struct tn_store_req req; /* First. */
    struct tn_console *console;
    tenure_ns asked_at;
    char name[TN_NAME_MAX + 1];
};

static void hear_look(struct tn_store_req *req)
{
    struct look *look = (struct look *)req;
    struct tn_console *console = look->console;
    struct tn_seen *seen =
        (struct tn_seen *)tn_dict_find(&console->names, look->name, strlen(look->name));

    console->looks--;
    if (seen != NULL) {
        seen->life.asked = false;
        if (req->status == 0 && !console->ending && req->record.held && seen->record.held &&
            req->record.token == seen->record.token)
            tn_life_learn(console, seen, &req->record, look->asked_at);
    }
    free(look);
}

static bool is_due(const struct tn_life *life, tenure_ns now)
{
    tenure_ns every = LOOK_EVERY;

    if (life->asked)
        return false;
    if (life->asked_at == 0)
        return true;
    if (is_silent(life, now))
        every = life->high - life->low > NARROW ? 0 : LOOK_EVERY;
    else if (life->ttl > 0 && now - life->wanted_at > WANTED_FOR)
        every = larger(LOOK_EVERY, life->low - life->ttl / 2 - life->asked_at);
    return now - life->asked_at >= every;
}

static void look_at(struct tn_console *console, struct tn_seen *seen, tenure_ns now)
{
    struct look *look = calloc(1, sizeof *look);

    if (look == NULL)
        return;
    look->console = console;
    look->asked_at = now;
    memcpy(look->name, seen->name, strlen(seen->name) + 1);
    look->req.op = (struct tn_op) { .kind = TN_OP_READ,
                                    .name = look->name,
                                    .name_len = (uint32_t)strlen(look->name) };
    look->req.done = hear_look;
    seen->life.asked = true;
    seen->life.asked_at = now;
    console->looks++;
    tn_store_submit(console->store, &look->req);
}

void tn_life_look(struct tn_console *console)
{
    tenure_ns now = tn_console_now(console);
    struct tn_dict_node *node = NULL;

    if (console->store->ops->life_step == 0)
        return;
    while (console->looks < LOOKS_MOST && (node = tn_dict_next(&console->names, node)) != NULL) {
        struct tn_seen *seen = (struct tn_seen *)node;
        if (seen->record.held && is_due(&seen->life, now))
            look_at(console, seen, now);
    }
}

#endif
