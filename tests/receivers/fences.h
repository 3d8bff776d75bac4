/* fences.h - what fences.c needs of a receiver. */
#ifndef TN_TESTS_RECEIVERS_FENCES_H
#define TN_TESTS_RECEIVERS_FENCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void (*record_each)(void *arg, uint64_t token, unsigned writer, unsigned n);

/* The leaders of tell_story. */
enum { STORY_WRITER = 9999 };

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
bool tell_story(const struct receiver *receiver);

/* Ends in NULL. */
extern const struct receiver *const receivers[];

#endif
