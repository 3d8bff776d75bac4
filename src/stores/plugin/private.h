/* private.h - what the two files of plug-ins share: what travels between the threads. */
#ifndef TN_STORES_PLUGIN_PRIVATE_H
#define TN_STORES_PLUGIN_PRIVATE_H

#include "base/list.h"
#include "runtime/store_frame.h"
#include "tenure/store.h"

/* A registered plug-in. */
struct plugin_entry {
    struct tenure_store_ops ops; /* A copy; what is missing at its end is zero. */
    struct tn_store_ops internal;
    char scheme[32];
};

/* The first five come back from the application exactly once; the others are news. */
enum plugin_job_kind {
    PLUGIN_REQUEST,
    PLUGIN_LOOK, /* A read of a name that is watched. */
    PLUGIN_LIST,
    PLUGIN_WATCH,
    PLUGIN_CLOSE,
    PLUGIN_GRANTED,
    PLUGIN_CHANGED,
    PLUGIN_REVOKED
};

struct plugin_job {
    struct tenure_store_request request; /* First: the application hands it back. */
    enum plugin_job_kind kind;
    struct tn_list_node queued;  /* In the inbox or the outbox. */
    struct tn_list_node pending; /* Somebody waits for the answer. */
    struct plugin_store *store;
    struct tn_store_req *req;     /* REQUEST. NULL: nobody waits any more. */
    struct tn_store_query *query; /* LIST, the same; */
    struct tn_store_query list;   /* and what the application adds to. */
    tenure_ns give_up_at;
    bool on; /* WATCH. */
    struct tenure_store_reply reply;
    char error[TN_ERROR_TEXT];
    char name[TN_NAME_MAX + 1]; /* Or a prefix. */
    char label[TN_LABEL_MAX + 1];
};

/* To the loop. Any thread. */
void tn_plugin_post(struct plugin_job *job);
void tn_plugin_record(const struct tenure_store_record *from, struct tn_store_record *ret_record);
/* What is the same for all of them. */
extern const struct tn_store_ops tn_plugin_ops;

#endif
