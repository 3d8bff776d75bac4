/* kube_watch.h - the objects of a collection: all of them, page by page, and what changes.
 *
 *   tn_kube_list ----> page, page, ... ----> item() for each object ----> done()
 *   tn_kube_watch_set --> list, then watch from its version: item() for each object and event
 *                          ^                    |
 *                          +-- 410, lost, bad --+--> lost(), and a pause that grows to 5 s
 *
 * A watch that the server ends by itself goes on from the last version that it told, which
 * bookmarks move on. After anything else it begins with a list: a server that was restored says
 * nothing about a version of its future.
 *
 * Threads: the loop's. */
#ifndef TN_NET_KUBE_WATCH_H
#define TN_NET_KUBE_WATCH_H

#include "net/kube_api.h"

enum { TN_KUBE_BODY_MAX = 16 << 20, TN_KUBE_PATH = 400 };

struct tn_kube_list {
    struct tn_kube_call call; /* First. done()'s: its status, and why. */
    char path[TN_KUBE_PATH];  /* "/apis/.../leases": set by the caller, as are these: */
    const char *name;         /* Only that object; NULL: all. Good until done(). */
    /* One object. False: it is not what it should be, or there is no memory. */
    bool (*item)(void *arg, const struct tn_json_value *values, uint32_t at);
    void (*done)(struct tn_kube_list *list);
    void *arg;
    char version[24]; /* Of the collection, in done(). */
};

/* @list is the caller's until done(), which is never called inside this. */
void tn_kube_list(struct tn_kube_api *api, struct tn_kube_list *list);

struct tn_kube_watch {
    struct tn_kube_list list; /* Its path is set by the caller, as are these: */
    struct tn_kube_api *api;
    /* One object as it is, or was before it was @deleted. False: it is not what it should be. */
    bool (*item)(void *arg, const struct tn_json_value *values, uint32_t at, bool deleted);
    void (*lost)(void *arg); /* What was shown may be old; it begins anew. */
    void *arg;
    /* The watch's own. */
    struct tn_kube_call call;
    struct tn_kube_lines lines;
    unsigned failures;
    bool wanted, listing, running, refused;
    char name[256];   /* The only object; empty: all. */
    char asked[256];  /* The same of what is under way. */
    char version[24]; /* Where to go on; empty: from the present state. */
};

/* Watch the object @name, all of them if it is empty, or none (NULL). Watching all goes on when
 * only one is asked for: it shows that one, too. */
void tn_kube_watch_set(struct tn_kube_watch *watch, const char *name);
/* Begin with the present state again: the watch shows less than there is. */
void tn_kube_watch_again(struct tn_kube_watch *watch);

#endif
