/* place.c - what receivers have in common: a folder, a server in it, and its fence by URL. */
#define _GNU_SOURCE /* mkdtemp */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/time.h"
#include "receivers/target.h"
#include "tests/receivers/fences.h"

bool place_make(struct place *place, char *why, size_t size)
{
    (void)snprintf(place->folder, sizeof place->folder, "/tmp/tn-fences-......");
    memset(strchr(place->folder, '.'), 'X', 6); /* What mkdtemp replaces. */
    if (mkdtemp(place->folder) != NULL)
        return true;
    (void)snprintf(why, size, "no folder can be made in /tmp");
    return false;
}

/* "ROOT/tests/harness/SERVER ACTION FOLDER" */
static void say(const struct place *place, const char *server, const char *action,
                char ret_command[256])
{
    const char *root = getenv("TENURE_ROOT");

    (void)snprintf(ret_command, 256, "%s/tests/harness/%s %s %s", root != NULL ? root : ".", server,
                   action, place->folder);
}

bool place_start(struct place *place, const char *server, char *why, size_t size)
{
    char command[256];

    if (!place_make(place, why, size))
        return false;
    say(place, server, "start", command);
    FILE *in = popen(command, "r");
    if (in == NULL || fgets(place->url, sizeof place->url, in) == NULL)
        place->url[0] = '\0';
    place->url[strcspn(place->url, "\n")] = '\0';
    (void)snprintf(why, size, "%s%s", place->url,
                   place->url[0] != '\0' ? "" : "the server's script said nothing");
    return in != NULL && pclose(in) == 0;
}

void place_stop(const struct place *place, const char *server)
{
    char command[256];

    say(place, server, "stop", command);
    if (system(command) != 0)
        (void)fprintf(stderr, "%s is left\n", place->folder);
}

bool place_install(const struct place *place, const char *table, char *why, size_t size)
{
    struct tn_fence_options options = { 0 };
    struct tn_fence_target *target = NULL;
    struct tn_text error;

    tn_text_init(&error, why, size);
    bool good = tn_fence_target_open(place->url, &options, &target, &error) == 0 &&
                tn_fence_target_install(target, table, table != NULL ? "log" : NULL, &error) == 0;
    tn_fence_target_close(target);
    return good;
}

bool place_guard(const struct place *place, bool on)
{
    struct tn_fence_options options = { 0 };
    struct tn_fence_target *target = NULL;
    char scratch[256];
    struct tn_text error;

    if (on)
        return place_install(place, "log", scratch, sizeof scratch);
    tn_text_init(&error, scratch, sizeof scratch);
    bool good = tn_fence_target_open(place->url, &options, &target, &error) == 0 &&
                tn_fence_target_remove(target, "log", &error) == 0;
    tn_fence_target_close(target);
    return good;
}

int place_raise(const struct place *place, uint64_t token, char *error, size_t size)
{
    struct tn_text text;

    tn_text_init(&text, error, size);
    return tn_fence_raise_at(place->url, strncmp(place->url, "file:", 5) == 0 ? NULL : "log", token,
                             TN_SEC(10), &text);
}

bool place_highest(const struct place *place, uint64_t *ret_highest)
{
    struct tn_fence_options options = { .read_only = true };
    struct tn_fence_target *target = NULL;
    char scratch[256];
    struct tn_text error;

    tn_text_init(&error, scratch, sizeof scratch);
    bool good = tn_fence_target_open(place->url, &options, &target, &error) == 0 &&
                tn_fence_target_show(target, "log", ret_highest, &error) == 0;
    tn_fence_target_close(target);
    return good;
}
