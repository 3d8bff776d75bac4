/* line.h - the recipe for engines that keep ordered keys which vanish with their session.
 *
 * Such an engine (etcd, ZooKeeper) has sessions with a TTL of its own. A candidate creates a key
 * that is bound to its session; the oldest key of a name leads. This file decides what to ask the
 * engine next, and what its answers mean:
 *
 *   acquire, release   +----------------------+  step: create, look, prove,
 *   ---------------->  | tn_line, one session |  follow, remove
 *                      | tn_line_claim, each  | ----------------->  engine
 *   done, news         | a term on one name   | <-----------------  saw(view), proved,
 *   <----------------  +----------------------+                     followed, removed, failed
 *
 * The way of a claim:
 *
 *         create, look       follow           key before is gone: look, then prove
 *    OUT -------------> ... -------> WAITING -------------------------------------> HELD
 *     ^ \                               |                                          |  \ revoked
 *     |  \ a sibling's key              | release                          release |   v
 *     |   +---> BLOCKED                 v                                          v  REVOKED
 *     +------------------------------- LEFT                                       OVER <--+
 *
 * Rules that peers broke, each with a plant of its own (plant.h):
 * - A claim leads only after a look showed its key as the first, and a proof, in the same step or
 *   after the look, showed that this key is still there and is of this session. That the key before
 *   ours is gone says nothing about ours.
 * - A key that bears our name proves nothing: an earlier session may have left it behind. The
 *   engine has to tell whose it is before it counts as ours.
 * - A create whose outcome is unknown is settled by a look, never by repeating it. That look must
 *   not come from a server that lags behind.
 * - Of several keys that bear our name the newest is ours: the others are older sessions'.
 * - A release removes exactly the key that this claim created, never "the first".
 * - The token is the number under which the engine created the key, not a revision of some reply.
 *
 * Threads: one at a time. Memory: the caller's, nothing allocated. Never blocks, reads no clock;
 * the host's functions are called from within these calls and must not call back. */
#ifndef TN_CORE_LINE_H
#define TN_CORE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/secret.h"
#include "base/time.h"
#include "core/lease_table.h"

/* Where a claim stands. */
enum tn_line_place {
    TN_LINE_OUT,     /* Not in line, as far as is known. */
    TN_LINE_BLOCKED, /* Another term of the same session has the only key that it may have. */
    TN_LINE_WAITING, /* In line; the key before ours is watched. */
    TN_LINE_HELD,    /* Granted. */
    TN_LINE_REVOKED, /* Granted, and an operator wants it back. */
    TN_LINE_LEFT,    /* Has left the line without a grant; it may come back. */
    TN_LINE_OVER,    /* Was granted and has ended; the term never comes back. */
};

/* What is known of our key. */
enum tn_line_proof {
    TN_LINE_NO_KEY,
    TN_LINE_UNSURE, /* A create was sent; the outcome is unknown. */
    TN_LINE_NAMED,  /* A key bears our name; whose session it is of has not been shown. */
    TN_LINE_OURS,
};

enum tn_line_goal {
    TN_LINE_REST,
    TN_LINE_ACQUIRE,
    TN_LINE_RELEASE,
    TN_LINE_CHECK, /* Is the key of a held claim still there? No request waits for it. */
};

/* What the engine is asked to do; each is answered by the function named, or by tn_line_failed. */
enum tn_line_step {
    TN_LINE_NOTHING,
    TN_LINE_CREATE, /* A key of claim->term; with @behind even if others are there. tn_line_saw. */
    TN_LINE_LOOK,   /* Who is in line? With @fresh from no server that lags. tn_line_saw. */
    TN_LINE_PROVE,  /* Is claim->key still there, and of this session? From no server that lags.
                       tn_line_proved. */
    TN_LINE_FOLLOW, /* Watch claim->before. tn_line_followed. */
    TN_LINE_REMOVE, /* Delete claim->key and nothing else. tn_line_removed. */
    TN_LINE_CLEAR,  /* Delete claim->before, which a term that is over left. tn_line_removed. */
};

struct tn_line_key {
    uint64_t order; /* Its place: create revision, or sequence number + 1. 0: none. */
    uint64_t token; /* Create revision, or czxid; 0: the engine tells it with the proof. */
};

enum tn_line_whose {
    TN_LINE_NOBODYS,    /* There is no key of ours. */
    TN_LINE_MINE,       /* Of this term and this session. */
    TN_LINE_NAMED_MINE, /* Named as ours; the session is not shown. */
    TN_LINE_SIBLINGS,   /* Of another term of this session, which has one key at most. */
};

/* A key that the engine lists. */
struct tn_line_seen {
    uint64_t order; /* 0: it is no candidate's. */
    bool named;     /* It bears the name that our key has, or would have. */
};

/* What the engine tells of the line, in one consistent read. */
struct tn_line_view {
    enum tn_line_whose whose;
    struct tn_line_key own;
    struct tn_secret sibling; /* SIBLINGS: the hash of its term. */
    bool changed;             /* Ours was written to since it was created: it is revoked. */
    bool proved;              /* Ours was created in this very step, and is the first. */
    uint64_t first, before;   /* Orders; 0: none, or for @before not told. */
    uint64_t revision;        /* Of the engine when it answered; 0: it has none. */
};

struct tn_line_proven {
    bool ours; /* There, and of this session. */
    bool changed;
    uint64_t token;
};

struct tn_line_answer {
    enum tn_answer answer;
    bool stranger; /* RELEASE: this claim had no key; tn_line_judge_release has the answer. */
};

/* What the engine tells by itself. */
enum tn_line_news {
    TN_LINE_TOLD_REVOKED, /* The holder is to stop, and to give it back. */
    TN_LINE_TOLD_ENDED,   /* The key of a held claim is gone. */
};

struct tn_line;

/* One term on one name; the caller's, usually the first member of something larger. */
struct tn_line_claim {
    struct tn_line *line;
    const void *name;                  /* Compared, never looked at. */
    struct tn_line_claim *next, *prev; /* Among those of the session. */
    struct tn_secret term;             /* The hash. */
    enum tn_line_place place;
    enum tn_line_proof proof;
    enum tn_line_goal goal;
    enum tn_line_step step; /* Under way. */
    uint64_t request;       /* Its number. */
    bool waits;             /* An acquire asked to stay in line. */
    bool behind, fresh;     /* How to CREATE, and how to LOOK. */
    struct tn_line_key key;
    uint64_t past;   /* The newest of our keys that was lost, or that we have asked to delete. */
    uint64_t before; /* The key that is watched. */
    uint64_t asked;  /* RELEASE: the token that was named; 0: any. */
    uint32_t tries;
    uint64_t revocation; /* REVOKED: its number. */
    tenure_ns free_at;   /* REVOKED: when this claim gives up its key by itself. */
};

struct tn_line_host {
    void (*step)(void *arg, struct tn_line_claim *claim, enum tn_line_step step, uint64_t request);
    /* A goal has ended; answers every request that asked for it. GRANTED to nobody: tell the
     * candidate that its turn has come. */
    void (*done)(void *arg, struct tn_line_claim *claim, enum tn_line_goal goal,
                 const struct tn_line_answer *answer);
    void (*news)(void *arg, struct tn_line_claim *claim, enum tn_line_news news);
};

/* How an engine differs from others. */
struct tn_line_engine {
    bool atomic;        /* A CREATE tells the whole line, and can be left undone if it is taken. */
    bool shared;        /* Another process may have opened the session and created keys. */
    tenure_ns hold_off; /* A revoked holder gives up its key after this; 0: the engine takes it. */
};

/* One session of this process. */
struct tn_line {
    const struct tn_line_host *host;
    void *arg;
    struct tn_line_engine engine;
    struct tn_line_claim *claims;
    uint64_t requests;    /* Numbers given out. */
    uint64_t revocations; /* Terms that were revoked, or whose key was taken. */
    uint32_t due;         /* Claims with a free_at. */
};

/* @host is borrowed for the session's life. */
void tn_line_init(struct tn_line *line, const struct tn_line_host *host, void *arg,
                  const struct tn_line_engine *engine);
void tn_line_add(struct tn_line *line, struct tn_line_claim *claim, const void *name,
                 const struct tn_secret *term_hash);
/* Forget it, whatever it is doing; answers that still come for it must not be passed on. */
void tn_line_remove(struct tn_line_claim *claim);
/* Whether it is granted, HELD or REVOKED; whether it has left the line. */
bool tn_line_is_granted(const struct tn_line_claim *claim);
bool tn_line_is_over(const struct tn_line_claim *claim);
/* Whether a renewal of the session may count. Not while a watch is lost and nobody has looked since
 * whether a held key was revoked: where the engine takes such a key, the time for that runs. */
bool tn_line_is_sure(const struct tn_line *line);
/* Terms that are granted and have not been given back. */
uint32_t tn_line_held(const struct tn_line *line);

/* Goals. Asked again while it is under way, a goal is answered once. */
void tn_line_acquire(struct tn_line_claim *claim, tenure_ns now, bool wait);
void tn_line_release(struct tn_line_claim *claim, tenure_ns now, uint64_t token);

/* The view that @keys, which are in no order, give a claim with the key @own, 0: none is known.
 * Whether the key that bears our name is ours has still to be proved. */
void tn_line_find(uint64_t own, enum tn_line_proof proof, const struct tn_line_seen *keys,
                  size_t count, struct tn_line_view *ret_view);

/* The answer to a RELEASE of the token @asked, 0: of any, by a claim that has no key. On record of
 * the name is that it is @held, or was last held, under @token. RELEASED where it is free under the
 * same token: an earlier request gave it back, and its reply may have been lost. */
enum tn_answer tn_line_judge_release(bool held, uint64_t token, uint64_t asked);

/* The engine's answers. One that comes for a request given up long ago is ignored. */
void tn_line_saw(struct tn_line_claim *claim, tenure_ns now, uint64_t request,
                 const struct tn_line_view *view);
void tn_line_proved(struct tn_line_claim *claim, tenure_ns now, uint64_t request,
                    const struct tn_line_proven *proven);
void tn_line_followed(struct tn_line_claim *claim, tenure_ns now, uint64_t request, bool there);
void tn_line_removed(struct tn_line_claim *claim, tenure_ns now, uint64_t request);
/* No answer. @unknown: the step may have been carried out, or may be later. The claim stays as it
 * is until tn_line_go_on. Returns false if nothing of it was under way. */
bool tn_line_failed(struct tn_line_claim *claim, uint64_t request, bool unknown);
/* Go on with the goal, or, in line, look whether our turn has come. */
void tn_line_go_on(struct tn_line_claim *claim, tenure_ns now);
/* Nobody waits for the goal any more. A claim in line stays there. */
void tn_line_give_up(struct tn_line_claim *claim);

/* The engine's news. The key with that order is gone. */
void tn_line_gone(struct tn_line_claim *claim, tenure_ns now, uint64_t order);
/* Nobody can tell what became of the keys that are watched: the watch is lost. */
void tn_line_unwatched(struct tn_line_claim *claim, tenure_ns now);
/* Somebody has written to the key: an operator revokes it. */
void tn_line_changed(struct tn_line_claim *claim, tenure_ns now, uint64_t order);
/* A read, from no server that lags, shows this claim's key as the first. A claim that waits for
 * nothing takes it as granted: the reply to its acquire was lost. Not a key that it has given up
 * since, or one older than the key it knows: then the reply to the read was late. */
bool tn_line_adopt(struct tn_line_claim *claim, tenure_ns now, const struct tn_line_key *key,
                   bool changed);

/* Tell again of revocations after the first @seen of them, which the holder has heard of. */
void tn_line_remind(const struct tn_line *line, uint64_t seen);

/* Time has passed: revoked claims give up their keys. */
void tn_line_tick(struct tn_line *line, tenure_ns now);
tenure_ns tn_line_wake_at(const struct tn_line *line);

#endif
