/* own_private.h - what the two files of brought stores share: what travels between the threads. */
#ifndef TN_STORES_OWN_PRIVATE_H
#define TN_STORES_OWN_PRIVATE_H

#include <pthread.h>
#include <uv.h>

#include "runtime/store_frame.h"
#include "tenure/store.h"

/* A registered store. */
struct own_kind_of {
    struct tenure_store_ops ops; /* A copy; what is missing at its end is zero. */
    struct tn_store_ops internal;
    char scheme[32];
};

/* The first four come back exactly once; the others are news. */
enum own_kind {
    OWN_REQUEST,
    OWN_LIST,
    OWN_WATCH,
    OWN_CLOSE,
    OWN_GRANTED,
    OWN_CHANGED,
    OWN_REVOKED
};

struct own_item {
    struct tenure_store_request request; /* First: the application hands it back. */
    enum own_kind kind;
    struct own_item *next; /* In the inbox or the outbox. */
    struct own_item *pending_next, **link;
    struct own_store *store;
    struct tn_store_req *req; /* NULL: nobody waits for it. */
    tn_store_listed *listed;
    void *arg;
    struct tn_store_lease *leases;
    size_t count, room;
    bool looks; /* A read of a watch. */
    bool on;
    tenure_ns give_up_at;
    struct tenure_store_reply reply;
    char error[TN_ERROR_TEXT];
    char name[TN_NAME_MAX + 1]; /* Or a prefix. */
    char label[TN_LABEL_MAX + 1];
};

struct own_queue {
    struct own_item *first, **end;
};

struct own_watch {
    struct own_watch *next;
    unsigned count;
    bool looking, told;
    struct tn_store_record known;
    char name[TN_NAME_MAX + 1];
};

struct own_store {
    struct tn_store base;
    const struct own_kind_of *kind;
    void *own;            /* The application's. */
    pthread_mutex_t lock; /* Of the two queues. */
    pthread_cond_t filled;
    struct own_queue inbox, outbox;
    pthread_t thread;
    bool threaded;
    /* The rest is of the loop's thread. */
    uv_async_t wake;
    uv_timer_t timer;
    unsigned handles;
    size_t out; /* Items that the application has. */
    struct own_item *pending, **pending_end;
    struct own_item *closer; /* Made beforehand: closing needs no memory. */
    struct own_watch *watches;
    tenure_ns patience, answered_at;
    bool closed;
};

/* Back to the loop. Any thread. */
void tn_own_post(struct own_item *item);
void tn_own_record(const struct tenure_store_record *from, struct tn_store_record *ret_record);
/* What is the same for all of them. */
extern const struct tn_store_ops tn_own_ops;

#endif
