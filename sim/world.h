/* world.h - the simulated world: candidates, one store, receivers, a network, and their clocks.
 *
 * One thread, one queue of events, one seeded generator: a seed is a whole history, and the same
 * seed gives the same bytes on every machine. Real time is the world's; every node has a clock of
 * its own, running at its own rate from its own start, and the core under test sees nothing else.
 *
 * The files: world.c the queue and the clocks, network.c messages, node.c a candidate and its
 * application, store.c the authority, receiver.c the fenced resource, notes.c what operators ask
 * for, ranks.c priorities, faults.c what breaks, check.c the promises, phases.c a seed's life,
 * script.c acts that a person wrote, acts.c what each of them does, scenario.c stories made of
 * them, stage.c a script to look at from outside, snapshot.c what is to be seen there, trace.c the
 * telling, run.c one seed, guard.c assertions, crew.c many seeds on all cores.
 *
 * Three kinds of store have a header of their own: rows.h, votes.h and line.h. hosts.h is a second
 * world, of two levels: processes, an agent on each host, one store; fleet.h the same without
 * faults, for thousands of hosts. All but guard.c, crew.c, hosts*.c and fleet*.c are also compiled
 * to WebAssembly (web/wasm). */
#ifndef TN_SIM_WORLD_H
#define TN_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"
#include "base/time.h"
#include "core/candidate.h"
#include "core/lease_table.h"
#include "core/line.h"
#include "core/plan.h"
#include "core/plant.h"
#include "core/rows.h"
#include "core/votes.h"
#include "tenure/fence.h"

#define SIM_NODES_MAX 1000
#define SIM_NAMES_MAX 12
#define SIM_NOBODY 0xffffffffU
#define SIM_VOTERS_MAX 7
#define SIM_VOTES_NODES 5 /* Candidates in SIM_VOTES at most. */
/* No seed needs as many; a world that does runs in circles. */
#define SIM_EVENTS_MOST 5000000
#define SIM_EVENTS_AT_ONCE 50000

/* X(symbol, text): every kind of fault; each one that really fired is counted. */
#define SIM_FAULTS(X)                                           \
    X(DROP, "message dropped")                                  \
    X(DELAY, "message delayed")                                 \
    X(DUPLICATE, "message duplicated")                          \
    X(REORDER, "message overtaken")                             \
    X(CUT_BOTH, "link cut both ways")                           \
    X(CUT_ONE_WAY, "link cut one way")                          \
    X(UNKNOWN_OUTCOME, "outcome unknown (applied, reply lost)") \
    X(PAUSE, "process paused")                                  \
    X(CRASH, "process crashed")                                 \
    X(CLOCK_RATE, "clock rate changed")                         \
    X(WALL_STEP, "wall clock stepped")                          \
    X(SUSPEND, "machine suspended")                             \
    X(STORE_RESTART, "store restarted")                         \
    X(STORE_PAUSE, "store paused")                              \
    X(STORE_RESTORE, "store restored from a backup")            \
    X(STORE_FULL, "store refused: limit reached")               \
    X(TTL_CUT, "store granted a shorter TTL")                   \
    X(REVOKE, "lease revoked by an operator")                   \
    X(HOLD_OFF_OVER, "revoked key let go by the store")         \
    X(DELETE, "lease deleted by an operator")                   \
    X(FORGET, "name forgotten by the store")                    \
    X(ROW_CONFLICT, "row changed between read and write")       \
    X(ROW_TOUCHED, "row rewritten by somebody else")            \
    X(FLOOR_RAISED, "floor raised above the engine's versions") \
    X(SESSION_LOST, "session ended before its time was over")   \
    X(SESSION_TWICE, "session opened twice")                    \
    X(LOCK_DELAY, "row kept back after the end of a session")   \
    X(STALE_READ, "row read from a cache")                      \
    X(FEED_CUT, "change feed cut, and resumed")                 \
    X(FEED_OLD, "change feed from a server that lags")          \
    X(FEED_SILENT, "change feed silent, and nobody notices")    \
    X(FEED_AHEAD, "change feed from a version yet to come")     \
    X(SESSION_KILLED, "session ended by an operator")           \
    X(WATCH_LOST, "watch lost, or its history compacted")       \
    X(LATE_CREATE, "create arrived after its session's end")    \
    X(STALE_LOOK, "line read from a server that lags")          \
    X(LATE_GRANT, "word of a grant held back, then a cut link") \
    X(VOTER_RESTART, "one server of several restarted")         \
    X(VOTER_FORGETS, "server restarted without its memory")     \
    X(VOTER_JUMP, "clock of a server jumped")                   \
    X(VOTER_SPLIT, "partition through the servers")             \
    X(VOTER_MINORITY, "replies of a minority of servers only")  \
    X(LATE_VOTE, "vote given after its question was given up")  \
    X(DUPLICATE_ID, "two candidates with one identity")         \
    X(HERD, "a herd of candidates")                             \
    X(NOT_READY, "candidate not ready")                         \
    X(RESIGN, "leader resigned")                                \
    X(NOTE, "note of an operator")                              \
    X(SOFT, "lease taken over behind the soft limit")           \
    X(SLOW_DRAIN, "drain longer than the grace")                \
    X(STALL, "work loop stalled")                               \
    X(FENCE_DOWN, "fence unreachable")                          \
    X(STALE_WRITE, "write from a leader of the past")

#define SIM_FAULT_ENUM(symbol, text) SIM_FAULT_##symbol,
enum sim_fault { SIM_FAULTS(SIM_FAULT_ENUM) SIM_FAULT_COUNT };
#undef SIM_FAULT_ENUM

/* How the store tells of a vacancy. */
enum sim_style {
    SIM_QUEUE,    /* The store queues waiters and wakes one. */
    SIM_WATCH,    /* The store tells all watchers; they race. */
    SIM_OBSERVED, /* The store expires nothing; candidates observe. */
    SIM_ROWS,     /* The store has rows with versions and nothing else (core/rows.h). */
    SIM_VOTES,    /* Several servers, of which a majority decides (core/votes.h). */
    SIM_LINE,     /* The store has sessions and ordered keys that vanish with them (core/line.h). */
    SIM_STYLES,
};

struct sim_config {
    uint32_t nodes, names;
    uint32_t voters; /* SIM_VOTES: the servers. */
    enum sim_style style;
    struct tn_plan plan;
    struct tn_claim_config claim;
    bool fenced;
    uint32_t rho_ppm; /* What the clocks really do; within the plan's bound. */
    tenure_ns delay;  /* Longest delay of a healthy network, one way. */
    tenure_ns safety; /* How long anything may break; 0: a scenario, where only the script does. */
    uint32_t drop_ppm, duplicate_ppm, delay_ppm;
    tenure_ns delay_most;  /* Of a delayed message. */
    tenure_ns fault_every; /* Mean time between two faults. */
    uint32_t lease_limit, session_limit, waiter_limit;
    tenure_ns acquire_timeout; /* SIM_ROWS: of one request of an acquire. */
    bool mints;                /* SIM_ROWS: versions become tokens; */
    bool sessions;             /* and the engine has sessions, which hold the rows. */
    bool feeds;                /* and it has a change feed. */
    bool atomic;               /* SIM_LINE: like etcd; otherwise like ZooKeeper. */
    bool twins;                /* The last two candidates carry the same label. */
    bool restores;             /* Backups are taken, and brought back. */
    bool notes;                /* Operators leave notes while things break. */
    bool ranked, yields;       /* Candidates have priorities; leaders yield to higher ones. */
    uint32_t alike;            /* The first so many candidates have the same fences (F1); 0: no soft
                                  limits. */
};

/* A clock: local = local_from + (real - real_from) * rate. */
struct sim_clock {
    tenure_ns real_from, local_from;
    int64_t rate_ppm; /* TN_PPM: exact. */
    tenure_ns wall_offset;
    tenure_ns suspended; /* What a clock that stops in suspend would lack. */
    tenure_ns last;
};

/* What the application of one candidate does about one name. */
struct sim_app {
    bool told_won; /* Between WON and LOST. */
    bool working;  /* Between WON and DRAINED. */
    bool ready, stalled, draining;
    bool waits;         /* Told that it is in the queue, for the telling. */
    bool stall_told;    /* The term ended by a stall. */
    bool given_back;    /* G1: released after the work had stopped. */
    tenure_ns believed; /* G1, local: when the last term's validity ended, or will. */
    uint64_t token;
    uint64_t epoch;       /* Of the store when it granted the token (see sim_store.epoch). */
    tenure_ns stop_by;    /* Local: the deadline as it stood when the term was lost. */
    uint64_t over_token;  /* P6: the highest token seen valid, then invalid. */
    uint64_t seen_token;  /* P2: the highest token seen of someone else's term. */
    tenure_ns checked_in; /* Local. */
    uint32_t drain_id;
    uint64_t written;
};

struct sim_seat { /* One candidate's place in one election. */
    struct tn_seat seat;
    struct sim_app app;
    struct tn_rank rank;
    uint64_t granted_epoch;
    uint64_t superseded; /* F1: the newest token that was taken over early. */
};

struct sim_world;
struct sim_row_client;  /* rows.c */
struct sim_vote_client; /* votes.c */
struct sim_voter;       /* voters.c */
struct sim_line_client; /* line.c */
struct sim_script;
struct host_world; /* hosts.h */

/* What the candidate's host functions get. */
struct sim_host {
    struct sim_world *world;
    struct sim_node *node;
};

/* Why a node stands still. */
enum sim_stop { SIM_PAUSED, SIM_SUSPENDED, SIM_FROZEN };

/* SIM_ROWS: the connection that shows changes (row_feed.c). */
struct sim_feed {
    uint64_t number;    /* Of the connection, counted by the node. */
    uint64_t position;  /* The newest version shown; 0: begin with all. */
    uint64_t restores;  /* Of the store, when it was opened. */
    tenure_ns ask_at;   /* Local: when to open it, or to end a blocking query. */
    bool open, asked;   /* The latter has not been answered yet. */
    uint64_t served;    /* The store's side: the connection that is served; 0: none. */
    uint32_t served_to; /* The incarnation at its other end. */
    bool silent;
    tenure_ns last_at; /* Real: when the last message on it arrives. */
};

struct sim_node {
    struct tn_candidate candidate;
    struct sim_host host;
    struct sim_clock clock;
    struct sim_seat *seats; /* One per name. */
    uint64_t timer_id;
    tenure_ns timer_at;     /* Real; of the timer that counts. */
    tenure_ns paused_until; /* Real. */
    uint32_t index, label, incarnation;
    bool up;
    tenure_ns cut_to_until, cut_from_until; /* Real: when the link to, and from, the store heals. */
    uint64_t last_to_store, last_from_store; /* Newest message delivered, to notice reordering. */
    tenure_ns
        renewed_at;  /* Real: when the store last processed a renewal of the present session. */
    uint8_t stopped; /* enum sim_stop, while paused_until lies ahead. */
    uint64_t news_sent, news_heard; /* SIM_LINE: to notice that some were lost. */
    tenure_ns news_at;              /* SIM_LINE, real: when the last of them arrives. */
    tenure_ns deaf_until; /* SIM_LINE, real: no news and no look gets through; renewals do. */
    struct sim_feed feed; /* SIM_ROWS. */
    uint64_t begun_token; /* Of a write that was begun before the process was frozen, */
    uint32_t begun_by;    /* and the incarnation that began it. */
};

/* Independent of the table: who waits, in which order, and until when each session lives. */
struct sim_waiter {
    uint32_t node;
    uint64_t life, gen;
    uint32_t incarnation;
};

struct sim_queue {
    struct sim_waiter *list;
    uint32_t first, count;
};

/* When a session is over on the store's clock, for the last few lives of each node. */
#define SIM_LIVES 4
struct sim_life {
    uint64_t life;
    tenure_ns ttl, over_at;
    uint64_t asked;        /* SIM_LINE: the number of the last step served. */
    tenure_ns rests_until; /* F1: a term of it was taken over early; 0: none was. */
    tenure_ns held_off,
        held_off_until; /* SIM_LINE: its second lease; 0: there was none; it ended. */
};

/* One row, and what it was before: a cache may still show that. */
struct sim_row {
    struct tn_row row, before;
    uint64_t version, version_before; /* 0: there is none. */
};

/* An engine's session, which lives for one to two TTLs behind its last renewal. */
#define SIM_ROW_SESSIONS 512
struct sim_row_session {
    uint64_t id; /* 0: none. */
    uint32_t node;
    uint64_t life;
    tenure_ns ttl, over_at;
};

/* A key of a name, and the line they form, oldest first; what it was before, a server that lags
 * may still show. */
#define SIM_KEYS_MAX 64
struct sim_key {
    uint64_t order, token;
    uint32_t node, incarnation;
    uint64_t life, gen;
    bool changed; /* By an operator. */
    bool moved;   /* Like etcd's, to the session's second lease. */
    bool led;     /* Its candidate was told that it leads. */
};

struct sim_line {
    struct sim_key keys[SIM_KEYS_MAX], before[SIM_KEYS_MAX];
    uint32_t count, count_before;
    uint64_t revision, revision_before; /* When it changed last, and the time before. */
    uint64_t sequence, last_token;
};

struct sim_store {
    struct sim_line *lines, *backup_lines; /* SIM_LINE: one per name. */
    uint64_t revision;                     /* Of all lines; goes on, after a restore as well. */
    struct tn_table *table;
    struct sim_row rows[SIM_NAMES_MAX], backup_rows[SIM_NAMES_MAX];
    struct sim_row_session *row_sessions, *backup_row_sessions;
    tenure_ns kept_back_until[SIM_NAMES_MAX], kept_back_for[SIM_NAMES_MAX]; /* Lock-delay. */
    uint64_t restores;                                                      /* So far. */
    uint64_t versions;        /* Given out so far; none twice, not after a restore either. */
    struct sim_voter *voters; /* SIM_VOTES. */
    tenure_ns doubt_until;    /* SIM_VOTES: until then a term may rest on votes that were lost. */
    void *block, *backup;
    size_t block_size;
    struct sim_clock clock;
    uint64_t timer_id;
    tenure_ns timer_at;
    tenure_ns paused_until;
    tenure_ns stepped_at; /* Local: when the table was last used. */
    tenure_ns down_since; /* Real; TN_NEVER: up. */
    bool up, has_backup;
    uint64_t epoch[SIM_NAMES_MAX];     /* How often the truth about a name was tampered with. */
    uint64_t cut_token[SIM_NAMES_MAX]; /* Of the last term whose session somebody has ended. */
    uint64_t granted[SIM_NAMES_MAX];   /* P2: the highest token granted. */
    struct sim_waiter holder[SIM_NAMES_MAX]; /* P2: whose term that token is. */
    tenure_ns kept_until[SIM_NAMES_MAX];     /* F1, local: so long for the same fences only. */
    tenure_ns kept_ttl[SIM_NAMES_MAX];
    uint32_t kept_for[SIM_NAMES_MAX];       /* A node with those fences. */
    uint64_t backup_granted[SIM_NAMES_MAX]; /* The same, as of the backup. */
    struct sim_waiter backup_holder[SIM_NAMES_MAX];
    struct sim_queue queue[SIM_NAMES_MAX];
    struct sim_life (*lives)[SIM_LIVES]; /* Per node, by life % SIM_LIVES. */
    tenure_ns ttl_most;                  /* Longest TTL granted. */
    uint64_t highest_token;              /* Over all epochs. */
    uint32_t filler;                     /* Names made only to be forgotten. */
};

enum { SIM_RANKS = 3, SIM_RANKED_NAMES = 3 };

/* Who holds the lease of one priority, which says that it waits. */
struct sim_standing {
    bool held;
    uint32_t node;
    uint64_t number;
    tenure_ns since; /* Real. */
};

/* An operator's note about one name (core/note.h), and how long it lasts in real time. */
#define SIM_ASKED 64
#define SIM_NOTE_TTLS 2 /* How long a note lasts while things break, at most. */
struct sim_note {
    enum tn_note_kind kind;
    uint64_t token, number;
    uint32_t to; /* HANDOVER: the node that is to lead, or SIM_NOBODY; DRAIN: whom it drains. */
    tenure_ns over_at;
};

struct sim_receiver {
    struct tenure_fence fence;
    uint64_t highest; /* P3: the highest token accepted, or raised to. */
    uint64_t accepted, refused, harmed;
    tenure_ns down_until;
};

enum sim_event_kind {
    SIM_EV_REQUEST,          /* node -> store */
    SIM_EV_ROW_GET,          /* node -> store */
    SIM_EV_ROW_PUT,          /* node -> store */
    SIM_EV_ROW_SESSION,      /* node -> store */
    SIM_EV_ROW_WATCH,        /* node -> store */
    SIM_EV_LINE_STEP,        /* node -> store */
    SIM_EV_VOTE,             /* node -> one server; @op is an enum tn_votes_kind. */
    SIM_EV_REPLY,            /* store -> node */
    SIM_EV_GRANTED,          /* store -> node, pushed */
    SIM_EV_REVOKED,          /* store -> node, pushed */
    SIM_EV_CHANGED,          /* store -> node, pushed */
    SIM_EV_ROW_GOT,          /* store -> node */
    SIM_EV_ROW_PUT_DONE,     /* store -> node */
    SIM_EV_ROW_SESSION_DONE, /* store -> node */
    SIM_EV_ROW_SHOWN,        /* store -> node, pushed, in order; @id is the connection's. */
    SIM_EV_LINE_DONE,        /* store -> node */
    SIM_EV_LINE_NEWS,        /* store -> node, pushed */
    SIM_EV_VOTE_REPLY,       /* server -> node */
    SIM_EV_VOTE_NEWS,        /* server -> node, pushed; @op 0: a vote, 1: a revocation. */
    SIM_EV_NOTE,             /* store -> node, pushed; @op is an enum tn_note_kind; YIELD: the
                                lease of level @holder is held (@token 1) under number @seq. */
    SIM_EV_WRITE,            /* node -> receiver */
    SIM_EV_RAISE,            /* node -> receiver */
    SIM_EV_RAISED,           /* receiver -> node */
    SIM_EV_NODE_TIMER,
    SIM_EV_STORE_TIMER,
    SIM_EV_LINE_REVOKE, /* An operator's next step; @op is an enum tn_line_revoke_step. */
    SIM_EV_APP,         /* The application's next bit of work. */
    SIM_EV_DRAINED,     /* The application has stopped. */
    SIM_EV_NODE_UP,
    SIM_EV_STORE_UP,
    SIM_EV_VOTER, /* A server's own: its timer, its return. */
    SIM_EV_FAULT,
    SIM_EV_STEP, /* The next step of the seed's phases, or of a scenario's script. */
    SIM_EV_KINDS
};

/* What became of a key that is watched; the watch itself may be what is gone. */
enum sim_line_news { SIM_LINE_GONE, SIM_LINE_CHANGED, SIM_LINE_UNWATCHED };

struct sim_line_part {
    uint64_t order, before;
    enum tn_line_proof proof;
    bool behind, fresh, there;
    struct tn_line_view view;
    struct tn_line_proven proven;
};

struct sim_revoked {
    uint64_t token;
    uint32_t name;
};

struct sim_event {
    uint8_t kind, op, answer, revoked_count;
    bool held, more, wait, evident, stale, failed;
    uint32_t node, name, incarnation, holder;
    uint64_t order; /* When it was sent, among all. */
    uint64_t life, gen, seq, token, beat, seen, epoch, id, read;
    uint32_t held_count;
    uint64_t holder_life, holder_gen;
    uint32_t holder_incarnation;
    tenure_ns ttl, sent_at;
    struct sim_revoked revoked[TN_TABLE_NOTICES];
    struct tn_row
        row; /* ROW_PUT, ROW_GOT, CHANGED; @id is the request's number, @slot the claim's. */
    uint64_t version;
    uint32_t slot;
    uint32_t server; /* VOTE, VOTE_REPLY, VOTE_NEWS; @id and @slot are the round's. */
    struct tn_votes_reply vote;
    struct sim_line_part line; /* LINE_STEP, LINE_DONE, LINE_NEWS; @op is the step, or the news. */
};

struct sim_violation {
    const char *promise;
    char text[200];
    tenure_ns at;
};

struct sim_stats {
    uint64_t events;
    uint64_t faults[SIM_FAULT_COUNT];
    uint64_t terms, losses, refusals, writes, refused_writes, harm;
    uint64_t lease_us; /* Simulated time times names, in microseconds. */
};

/* What came of a write. */
enum sim_verdict { SIM_TAKEN, SIM_REFUSED, SIM_HARMFUL };

/* The nodes are agents (hosts.h): what is an application's elsewhere is theirs. */
struct sim_below {
    /* @token: of a term that was won; 0: a term is over, or is to end. */
    void (*told)(void *arg, uint32_t node, uint32_t name, uint64_t token);
    void *arg;
};

/* An observer of a world; each function may be NULL. They must not change the world. */
struct sim_listener {
    /* A line of the trace, with its newline. */
    void (*line)(void *arg, const struct sim_world *world, const char *line, size_t len);
    /* Message number @number was sent; @arrives_at is TN_NEVER when the network loses it. */
    void (*message)(void *arg, const struct sim_world *world, const struct sim_event *event,
                    uint64_t number, tenure_ns arrives_at);
    void (*write)(void *arg, const struct sim_world *world, const struct sim_event *event,
                  enum sim_verdict verdict);
    /* An event was dealt with. */
    void (*step)(void *arg, const struct sim_world *world);
    void *arg;
};

struct sim_heap_entry {
    tenure_ns at;
    uint64_t order;
    uint32_t slot;
};

struct sim_world {
    struct sim_config config;
    uint64_t seed;
    struct tn_prng prng;
    tenure_ns now;
    uint64_t order;
    uint64_t moved_on; /* How many events there had been when time last went on. */
    struct sim_heap_entry *heap;
    uint32_t heap_count, heap_room;
    struct sim_event *slots;
    uint32_t *free_slots;
    uint32_t free_count, slot_room;
    struct sim_node *nodes;
    struct sim_seat *seats;
    struct sim_row_client *row_clients;   /* SIM_ROWS: one per node. */
    struct sim_vote_client *vote_clients; /* SIM_VOTES: one per node. */
    struct sim_line_client *line_clients; /* SIM_LINE: one per node. */
    struct host_world *hosts;             /* NULL: none yet. */
    struct sim_store store;
    struct sim_receiver receivers[SIM_NAMES_MAX];
    uint32_t leading[SIM_NAMES_MAX];       /* How many applications are between WON and LOST. */
    uint32_t leader[SIM_NAMES_MAX];        /* The one told last. */
    tenure_ns vacant_since[SIM_NAMES_MAX]; /* The last instant at which a term was valid. */
    tenure_ns gap[SIM_NAMES_MAX];          /* The last time without a leader. */
    tenure_ns gap_most[SIM_NAMES_MAX];     /* The longest, the one before the first term apart. */
    struct sim_note notes[SIM_NAMES_MAX];  /* The last one about each name. */
    uint64_t note_numbers;
    tenure_ns ranks_at; /* Who has waited since then, or longer, is in line. */
    struct sim_standing standings[SIM_RANKED_NAMES][SIM_RANKS + 1];
    uint64_t asked[SIM_NAMES_MAX][SIM_ASKED]; /* H1: the terms that hand-overs have named. */
    uint32_t asked_count[SIM_NAMES_MAX];
    bool stood_down[SIM_NAMES_MAX]; /* Ever, or drained. */
    uint32_t handed_by, handed_to;  /* H2: the hand-over of the liveness phase. */
    uint32_t phase;
    bool healed;              /* The liveness phase: nothing breaks any more. */
    uint32_t doomed_node;     /* P8: whose renewals the network swallows, */
    uint32_t doomed_renewals; /* and how many of them. */
    uint64_t doomed_seq;      /* SIM_VOTES: the one that goes to several servers. */
    uint32_t must_keep;       /* P8: this node must not lose its terms now. */
    bool ended;
    struct sim_violation violation; /* promise NULL: none. */
    struct sim_stats stats;
    bool goes_on;                        /* Behind a broken promise, to show what comes of it. */
    const struct sim_script *script;     /* NULL: a seed, where chance breaks things. */
    uint32_t act;                        /* The next one of the script. */
    uint64_t sent;                       /* Messages so far. */
    bool clock_out_of_bounds;            /* Some clock left the plan's bound: P1 rests on it. */
    const struct sim_listener *listener; /* May be NULL. */
    const struct sim_below *below;       /* NULL: applications are. */
};

/* --- world.c --- */
void sim_world_free(struct sim_world *world);
/* Prepare for @config; memory is kept from one seed to the next. */
void sim_world_reset(struct sim_world *world, const struct sim_config *config, uint64_t seed);
/* Run until the world has ended or a promise is broken, or else until @until, that instant's events
 * included; then it is @until. TN_NEVER: to the end. */
void sim_world_run(struct sim_world *world, tenure_ns until);
/* When the next event is due; TN_NEVER: the world has ended. */
tenure_ns sim_world_next_at(const struct sim_world *world);
/* Schedule @event at real time @at. */
void sim_at(struct sim_world *world, tenure_ns at, const struct sim_event *event);
/* Let every message under way arrive by @latest, and whoever drains be done by @drained. */
void sim_hurry(struct sim_world *world, tenure_ns latest, tenure_ns drained);
tenure_ns sim_clock_local(const struct sim_clock *clock, tenure_ns real);
tenure_ns sim_clock_real(const struct sim_clock *clock, tenure_ns local);
void sim_clock_set_rate(struct sim_clock *clock, tenure_ns real, int64_t rate_ppm);
bool sim_chance(struct sim_world *world, uint32_t ppm);
tenure_ns sim_between(struct sim_world *world, tenure_ns low, tenure_ns high);

/* --- network.c --- */
/* Send; the network decides whether, when and how often it arrives. */
void sim_send(struct sim_world *world, struct sim_event *event);
/* Note the arrival, to notice overtaking. */
void sim_arrived(struct sim_world *world, const struct sim_event *event);

/* --- node.c --- */
void sim_node_boot(struct sim_world *world, uint32_t index);
void sim_node_crash(struct sim_world *world, uint32_t index);
void sim_node_pause(struct sim_world *world, uint32_t index, tenure_ns until, bool suspend);
/* Handle an event for a node: a message, its timer, its application. */
void sim_node_event(struct sim_world *world, const struct sim_event *event);
/* The application's wishes; false when it is down or stopped and has none. */
bool sim_node_tell(struct sim_world *world, uint32_t node, uint32_t name,
                   enum tn_claim_event_kind wish);
/* Of an agent: nobody below it is at work with @name any more. */
void sim_node_drained(struct sim_world *world, uint32_t node, uint32_t name);
tenure_ns sim_node_now(const struct sim_world *world, const struct sim_node *node);
/* The token with which @node may act on @name this very instant, or 0. */
uint64_t sim_node_token(const struct sim_world *world, const struct sim_node *node, uint32_t name);
void sim_node_schedule(struct sim_world *world, struct sim_node *node);
/* The real instant of the deadline of its session; 0 if there was never one. */
tenure_ns sim_node_deadline(const struct sim_node *node);

/* --- store.c --- */
void sim_store_init(struct sim_world *world);
void sim_store_event(struct sim_world *world, const struct sim_event *event);
void sim_store_crash(struct sim_world *world, tenure_ns back_at);
void sim_store_backup(struct sim_world *world);
void sim_store_restore(struct sim_world *world);
void sim_store_operator(struct sim_world *world, enum tn_op_kind kind, uint32_t name,
                        uint64_t token);
void sim_store_forget_names(struct sim_world *world);
tenure_ns sim_store_now(const struct sim_world *world);
void sim_store_schedule(struct sim_world *world);
const char *sim_name(uint32_t name);
/* Whom the store believes to hold a name; looking changes nothing. */
struct sim_holding {
    uint32_t node; /* SIM_NOBODY: nobody. */
    uint64_t token;
    tenure_ns left, ttl; /* On the store's clock. */
    bool revoked;
};
void sim_store_look(const struct sim_world *world, uint32_t name, struct sim_holding *ret_held);

struct tn_secret sim_session_secret(const struct sim_node *node, uint64_t life);
struct tn_secret sim_term_secret(const struct sim_node *node, uint32_t incarnation, uint64_t gen);
struct sim_waiter sim_waiter_of(const struct tn_secret *session, const struct tn_secret *term);

/* --- ranks.c --- */
void sim_ranks_boot(struct sim_world *world, struct sim_node *node);
/* Word of all leases that say who waits, to one node. */
void sim_ranks_tell(struct sim_world *world, uint32_t node);
/* After a step of @node: those leases follow what it wants. */
void sim_ranks_settle(struct sim_world *world, uint32_t node);
void sim_rank_hear(struct sim_world *world, struct sim_node *node, const struct sim_event *event);
/* The store was started again. A line that it kept in memory forms anew, in the order of asking. */
void sim_ranks_scatter(struct sim_world *world);
/* H3 */
void sim_check_yield(struct sim_world *world, const struct sim_node *node, uint32_t name);
/* Those who have shown themselves since @since, or longer, are no higher than the leader. */
void sim_check_rank(struct sim_world *world, uint32_t leader, tenure_ns since, const char *when);

/* --- notes.c --- */
void sim_note_post(struct sim_world *world, uint32_t name, enum tn_note_kind kind, uint32_t to,
                   tenure_ns lasts);
void sim_note_end(struct sim_world *world, uint32_t name);
/* All that stand, to a node that has just started. */
void sim_notes_tell(struct sim_world *world, uint32_t node);
void sim_note_hear(struct sim_node *node, const struct sim_event *event);
void sim_check_asked(struct sim_world *world, const struct sim_node *node, uint32_t name,
                     const struct tn_claim_action *action);

/* --- receiver.c --- */
void sim_receiver_event(struct sim_world *world, const struct sim_event *event);

/* --- faults.c --- */
void sim_faults_start(struct sim_world *world);
void sim_fault_event(struct sim_world *world, const struct sim_event *event);
/* A fault of the store or of a link to it. */
void sim_fault_upstream(struct sim_world *world);
void sim_heal(struct sim_world *world);
/* A clock rate within the plan's bound, at its edge half of the time. */
int64_t sim_pick_rate(struct sim_world *world);
void sim_fired(struct sim_world *world, enum sim_fault fault);
const char *sim_fault_text(enum sim_fault fault);

/* --- phases.c --- */
/* The world of a seed: all its numbers, drawn from the seed. */
void sim_config_of_seed(uint64_t seed, struct sim_config *ret_config);
void sim_phase_step(struct sim_world *world);
void sim_tell_config(struct sim_world *world);

/* --- trace.c --- */
void sim_trace_node(struct sim_world *world, const struct sim_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void sim_trace_other(struct sim_world *world, const char *who, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void sim_trace_label(const struct sim_node *node, char *buf, size_t size);

/* --- hosts.c: a world of its own, with an agent on each host --- */
/* Run it for the world's seed, to its end or until a promise is broken. */
void sim_hosts_run(struct sim_world *world);
void sim_hosts_free(struct sim_world *world);

#endif
