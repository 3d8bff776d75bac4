/* fences.h - what fences.c needs of a receiver. */
#ifndef TN_TESTS_RECEIVERS_FENCES_H
#define TN_TESTS_RECEIVERS_FENCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void (*record_each)(void *arg, uint64_t token, unsigned writer, unsigned n);

/* Where a receiver's data lies, and the URL of its fence, whose resource is "log". */
struct place {
    char folder[64];
    char url[160];
};

/* Make the folder; false: @why says why. */
bool place_make(struct place *place, char *why, size_t size);

/* The same, with tests/harness/SERVER running in it; its URL is that of the fence. */
bool place_start(struct place *place, const char *server, char *why, size_t size);
void place_stop(const struct place *place, const char *server);

/* Install the fence; @table is protected by it, unless NULL. */
bool place_install(const struct place *place, const char *table, char *why, size_t size);

/* Protect the table "log", or do so no more. */
bool place_guard(const struct place *place, bool on);

/* As those of a receiver. */
int place_raise(const struct place *place, uint64_t token, char *error, size_t size);
bool place_highest(const struct place *place, uint64_t *ret_highest);

/* The leaders of tell_story, with the fence and without it. */
enum { STORY_WRITER = 9999, CONTROL_WRITER = 9998 };

/* The control: writers go past the fence, as if there were none. */
extern bool unguarded;

struct receiver {
    const char *name;
    /* Start what is needed; false: it cannot be had here, and @why says why. */
    bool (*prepare)(char *why, size_t size);
    void (*finish)(void);
    /* In a writer's process. NULL: @error says why. */
    void *(*open)(char *error, size_t size);
    /* 0 accepted, TENURE_E_STALE refused, another code with @error: a failure of the test. */
    int (*write)(void *connection, uint64_t token, unsigned writer, unsigned n, char *error,
                 size_t size);
    /* What a successor does before it works: 0, or a code and @error. */
    int (*raise)(uint64_t token, char *error, size_t size);
    /* In the judge's: all records in the order of their acceptance; where the fence stands. */
    bool (*read)(record_each each, void *arg);
    bool (*highest)(uint64_t *ret_highest);
    /* Make the data itself ask for a token, or not; NULL: it never does. */
    bool (*guard)(bool on);
    bool unfenced; /* There is no fence: the judge must find that P3 is broken. */
};

extern const struct receiver sqlite_receiver;
extern const struct receiver file_receiver;
extern const struct receiver postgres_receiver;
extern const struct receiver redis_receiver;
extern const struct receiver http_receiver;
extern const struct receiver plain_receiver;

/* A leader is stopped in the middle of its work, another is elected and raises the fence, the first
 * is woken up. True when it ends as it must: refused, or without a fence with the damage done. */
bool tell_story(const struct receiver *receiver, bool guarded);

/* Ends in NULL. */
extern const struct receiver *const receivers[];

#endif
