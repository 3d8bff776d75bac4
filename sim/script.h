/* script.h - a world that a person wrote: settings, and acts at given instants.
 *
 *     nodes=3+ttl=15000+7000:crash:a+12000:cut:b:4000+end=30000
 *
 * Items are separated by '+' or by line ends. An item that begins with a digit is an act,
 * MS[.DECIMALS]:ACT[:WHO][:NUMBER], done so many milliseconds after the beginning; it may end in
 * =TEXT, which is told in place of the act's own words (nothing at all when TEXT is empty). Every
 * other item is a setting, KEY=VALUE. The same text is the argument of `tenure sim --script` and
 * the hash of the sandbox's address, and gives the same bytes in both. docs/sim.md lists both
 * kinds. */
#ifndef TN_SIM_SCRIPT_H
#define TN_SIM_SCRIPT_H

#include "base/text.h"
#include "sim/world.h"

#define SIM_SCRIPT_MAX 8192
#define SIM_ACTS_MAX 256

/* What an act is done to, and what its number means. */
enum sim_act_whom { SIM_TO_NOBODY, SIM_TO_NODE, SIM_TO_NODE_OR_STORE };
enum sim_act_number { SIM_NO_NUMBER, SIM_SPAN, SIM_RATE, SIM_STEP, SIM_COUNT };

/* X(symbol, name, whom, number, words): the words follow the label of a node. */
#define SIM_ACTS(X)                                                                    \
    X(CRASH, "crash", SIM_TO_NODE, SIM_NO_NUMBER, "crashes")                           \
    X(START, "start", SIM_TO_NODE, SIM_NO_NUMBER, "starts again")                      \
    X(PAUSE, "pause", SIM_TO_NODE, SIM_SPAN, "is stopped for")                         \
    X(FREEZE, "freeze", SIM_TO_NODE, SIM_SPAN,                                         \
      "looks at its token, and is stopped before it can write, for")                   \
    X(FINISH, "finish", SIM_TO_NODE, SIM_NO_NUMBER,                                    \
      "wakes and finishes the write that it had begun")                                \
    X(SUSPEND, "suspend", SIM_TO_NODE, SIM_SPAN, "sleeps with its machine for")        \
    X(CUT, "cut", SIM_TO_NODE, SIM_SPAN, "is cut off from the store both ways for")    \
    X(CUT_TO, "cutto", SIM_TO_NODE, SIM_SPAN, "does not get through to the store for") \
    X(CUT_FROM, "cutfrom", SIM_TO_NODE, SIM_SPAN, "hears nothing from the store for")  \
    X(MEND, "mend", SIM_TO_NODE, SIM_NO_NUMBER, "reaches the store again")             \
    X(RATE, "rate", SIM_TO_NODE_OR_STORE, SIM_RATE, "has a clock that is off by")      \
    X(WALL_STEP, "wallstep", SIM_TO_NODE, SIM_STEP, "has its wall clock stepped by")   \
    X(RESIGN, "resign", SIM_TO_NODE, SIM_NO_NUMBER, "is asked to step down")           \
    X(CAMPAIGN, "campaign", SIM_TO_NODE, SIM_NO_NUMBER, "wants to lead again")         \
    X(UNREADY, "unready", SIM_TO_NODE, SIM_NO_NUMBER, "is not ready to lead")          \
    X(READY, "ready", SIM_TO_NODE, SIM_NO_NUMBER, "is ready to lead")                  \
    X(RESTART, "restart", SIM_TO_NOBODY, SIM_SPAN, NULL)                               \
    X(HANG, "hang", SIM_TO_NOBODY, SIM_SPAN, "the store is stopped for")               \
    X(REVOKE, "revoke", SIM_TO_NOBODY, SIM_NO_NUMBER, "an operator revokes the lease") \
    X(BACKUP, "backup", SIM_TO_NOBODY, SIM_NO_NUMBER, "a backup of the store is made") \
    X(RESTORE, "restore", SIM_TO_NOBODY, SIM_NO_NUMBER, NULL)                          \
    X(LOSE, "lose", SIM_TO_NOBODY, SIM_COUNT, NULL)                                    \
    X(SAY, "say", SIM_TO_NOBODY, SIM_NO_NUMBER, NULL)

#define SIM_ACT_ENUM(symbol, name, whom, number, words) SIM_ACT_##symbol,
enum sim_act_kind { SIM_ACTS(SIM_ACT_ENUM) SIM_ACT_COUNT };
#undef SIM_ACT_ENUM

/* Beside the index of a node. */
#define SIM_WHO_LEADER (SIM_NODES_MAX + 1)
#define SIM_WHO_ALL (SIM_NODES_MAX + 2)
#define SIM_WHO_STORE (SIM_NODES_MAX + 3)

struct sim_act {
    tenure_ns at; /* After the beginning. */
    enum sim_act_kind kind;
    uint32_t who;
    int64_t number;
    const char *text; /* In the script's own text; NULL: the act's own words. */
};

struct sim_script {
    char text[SIM_SCRIPT_MAX];
    struct sim_act acts[SIM_ACTS_MAX]; /* In the order of their instants. */
    uint32_t act_count;
    struct sim_config config;
    struct tn_plan_answer answer;
    enum tn_plan_verdict verdict; /* Tenure refuses to start with a plan that is not safe. */
    uint64_t seed;                /* Of the world's chance, which spreads retries. */
    uint64_t history;             /* Not 0: the world of this seed; acts are not allowed then. */
    uint32_t plant;               /* 0: none. */
    const char *story;            /* The scenario it was made from, or NULL. */
    tenure_ns stagger;            /* Between the starts of two candidates. */
    tenure_ns end;
};

/* --- script.c --- */
/* Read @text. Returns 0, or -1 with one line in @reterr; then @ret_script is undefined. A plan that
 * is not safe is no error: look at the verdict. */
int sim_script_parse(const char *text, struct sim_script *ret_script, struct tn_text *reterr);
/* Prepare @world for the script, which is borrowed while the world is used. */
void sim_script_open(struct sim_world *world, const struct sim_script *script);
void sim_script_step(struct sim_world *world);
/* Whether the script lets message @number get lost. */
bool sim_script_loses(const struct sim_script *script, uint64_t number);
/* What came of it all, as a last line of the trace. */
void sim_script_tell_end(struct sim_world *world);
const char *sim_act_name(enum sim_act_kind kind);

/* --- acts.c --- */
void sim_act_do(struct sim_world *world, const struct sim_act *act);

/* --- scenario.c --- */
/* A story: a script, and what must have come of it. */
struct sim_scenario {
    const char *name, *title, *script;
    bool (*came_true)(const struct sim_world *world);
    const char *moral;
};

const struct sim_scenario *sim_scenario_find(const char *name);
const struct sim_scenario *sim_scenario_at(uint32_t index); /* NULL at the end. */
/* Tell the story to world->listener, with @script as its memory. True when it came true and no
 * promise was broken. */
bool sim_scenario_run(struct sim_world *world, const struct sim_scenario *scenario,
                      struct sim_script *script);

#endif
