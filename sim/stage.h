/* stage.h - a script to look at from outside: any instant of it, and all of it at once.
 *
 * To look at an instant is to run up to it: forward from where the world stands, otherwise again
 * from the beginning. A minute with five candidates takes less than a millisecond, and since a
 * script has one history only, an instant looks the same whichever way it was reached.
 *
 * Texts are JSON. Instants and spans in them are microseconds, instants since the beginning.
 * Threads: one at a time. Memory: the stage's own, given back by sim_stage_close. */
#ifndef TN_SIM_STAGE_H
#define TN_SIM_STAGE_H

#include "sim/script.h"

#define SIM_FLIGHTS 64
#define SIM_SEEN_NODES 7 /* Of a herd, the first ones are shown. */

/* Text that grows. */
struct sim_out {
    char *data;
    size_t len, room;
};

/* A message: under way, just arrived, or lost. */
struct sim_flight {
    struct sim_event event;
    uint64_t number;
    tenure_ns sent_at, arrives_at; /* TN_NEVER: lost. */
};

/* What a lane of the history shows; a change of it is noted. */
struct sim_lane {
    char state;
    bool asleep;
    uint64_t token;
    uint32_t holder;
};

struct sim_stage {
    struct sim_script script;
    struct sim_world world;
    struct sim_listener listener;
    struct sim_flight flights[SIM_FLIGHTS]; /* The last ones, by number. */
    struct sim_out snapshot, history, lines, lanes, writes, messages;
    struct sim_lane seen[SIM_SEEN_NODES + 1]; /* The last one is the store's. */
    uint32_t name;                            /* The name that is looked at. */
};

/* Open @text on a stage that is zeroed or was open before. Returns 0; 1 when Tenure refuses the
 * plan, which the history then explains; -1 for a text that is no script, with one line in
 * @reterr. */
int sim_stage_open(struct sim_stage *stage, const char *text, struct tn_text *reterr);
void sim_stage_close(struct sim_stage *stage);
/* Go to the instant @at, which may lie before the present one. */
void sim_stage_until(struct sim_stage *stage, tenure_ns at);
/* When the next event after the present instant is due; TN_NEVER: none. */
tenure_ns sim_stage_next(const struct sim_stage *stage);
/* What is to be seen at the present instant. The text is good until the next call. */
const char *sim_stage_snapshot(struct sim_stage *stage);
/* The whole run: plan, lanes, writes, lines of the trace, end. Ends at the beginning again. */
const char *sim_stage_history(struct sim_stage *stage);
/* The trace alone, as `tenure sim --script` prints it. */
const char *sim_stage_transcript(struct sim_stage *stage);
/* The rest of the two above, for a program in which an assertion does not come back to them. */
const char *sim_stage_history_end(struct sim_stage *stage);
const char *sim_stage_transcript_end(struct sim_stage *stage);

/* --- snapshot.c --- */
void sim_out_add(struct sim_out *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sim_out_string(struct sim_out *out, const char *text, size_t len);
/* "renew", "renew reply", "granted", "write" and so on. */
const char *sim_message_name(const struct sim_event *event);
void sim_snapshot(const struct sim_stage *stage, struct sim_out *out);
/* The stories and the planted bugs. */
void sim_catalogue(struct sim_out *out);

#endif
