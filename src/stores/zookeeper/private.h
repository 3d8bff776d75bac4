/* private.h - the parts of the ZooKeeper store to each other.
 *
 *   store.c    requests, time, opening and closing          url.c   hosts, user and chroot
 *   session.c  a ZooKeeper session on the loop               call.c  one call to the library
 *   lease.c    a term's node: create, look, wait, delete     names.c names, nodes and records
 *   look.c     who leads: READ, watches, the walk of a list  version.c  which server it is
 *   relay.c    between the library and the server            screen.c   which frames pass there
 *
 * Everything happens in turns of the loop: submit only queues. A call's answer may find that what
 * asked for it is done with; so operations and leases are pinned by their calls. */
#ifndef TN_STORES_ZOOKEEPER_PRIVATE_H
#define TN_STORES_ZOOKEEPER_PRIVATE_H

#include <uv.h>

#include <zookeeper/zookeeper.h>

#include "base/hash.h"
#include "base/prng.h"
#include "base/time.h"
#include "runtime/store_frame.h"
#include "stores/zookeeper/url.h"

enum {
    TN_ZK_PATH_MAX = 800, /* chroot, name, node. */
    TN_ZK_NODE_MAX = 128, /* Longer nodes are nobody's we know. */
    TN_ZK_BUCKETS = 1024,
    /* So many requests at a time: a renewal must not wait behind ten thousand others. */
    TN_ZK_IN_FLIGHT = 128,
};

struct tn_zk_store;
struct tn_zk_session;
struct tn_zk_lease;
struct tn_zk_name;
struct tn_zk_look;
struct tn_zk_op;
struct tn_zk_question;
struct tn_zk_relay;

/* What the library answers, whatever was asked. */
struct tn_zk_reply {
    int rc;
    const char *value;
    int len;
    const struct Stat *stat;
    const struct String_vector *strings;
};

struct tn_zk_call {
    struct tn_zk_call *next, **link; /* Of the session, in the order of sending; or broken. */
    struct tn_zk_session *session;
    void (*hear)(struct tn_zk_call *call, const struct tn_zk_reply *reply);
    struct tn_zk_op *op;
    struct tn_zk_lease *lease;
    struct tn_zk_look *look;
    uint64_t flow; /* Of the lease when it was made; an older one's answer is dropped. */
    tenure_ns sent_at;
    int rc; /* Broken: why. */
    struct Stat stat;
    zoo_op_result_t results[2];
    char note[32];
};

/* A ZooKeeper session. One per session of the process; another, which owns nothing, serves readers
 * while there is no such session. */
struct tn_zk_session {
    struct tn_zk_store *store;
    struct tn_zk_session *next;
    bool owner; /* Was opened by OPEN. */
    struct tn_secret hash;
    char label[TN_LABEL_MAX + 1];
    uint32_t label_len;
    uint64_t seq;
    uint64_t revocations;
    uint32_t held;
    tenure_ns ttl;        /* What was agreed to. */
    tenure_ns asked;      /* What was asked for. */
    tenure_ns expires_at; /* Nobody renews it: it ends then. */
    int timeout_ms;       /* What the server is asked for. */
    struct tn_zk_lease *leases;
    /* The connection. */
    zhandle_t *zh;
    struct tn_zk_relay *relay; /* NULL: not connected yet, and the library reads nothing. */
    uv_poll_t *poll;
    uv_timer_t *timer;
    int fd;
    bool connected;
    bool ever; /* Was connected once: the session exists. */
    bool over; /* To be dropped in the next turn. */
    bool polite;
    bool resume; /* Was connected; tell those who wait. */
    bool dirty;  /* Ask the library what it waits for. */
    bool denied;
    unsigned failures;
    tenure_ns trying_since; /* To reach the present server. */
    tenure_ns retry_at;
    struct tn_zk_call *calls, **calls_end;
    unsigned in_flight;
    unsigned held_back;       /* Leases that wait for others' answers. */
    tenure_ns heard_at;       /* The last answer. */
    struct tn_zk_op *closing; /* The CLOSE that ended it. */
    char why[120];
};

/* A name that somebody here watches, holds, waits for or has asked about. */
struct tn_zk_name {
    struct tn_zk_name *next; /* In its bucket. */
    struct tn_zk_lease *leases;
    unsigned watches;
    bool looking, again, due;
    bool told;
    bool foreign; /* The znode's data is not ours: leave it alone. */
    bool noted;   /* It was looked at. */
    uint64_t last_token;
    uint64_t released_token;
    struct tn_secret released_term; /* Hashed, as all. */
    struct tn_store_record record;  /* As told. */
    char first[TN_ZK_NODE_MAX];     /* The node whose end is waited for. */
    char name[TN_NAME_MAX + 1];
};

enum tn_zk_stage {
    TN_ZK_LOOK_FIRST, /* Without waiting: is it free at all? */
    TN_ZK_CREATE,
    TN_ZK_LOOK,   /* Which place has our node? */
    TN_ZK_VERIFY, /* The first: is it ours, in this session? */
    TN_ZK_FOLLOW, /* Watch the node before it. */
    TN_ZK_FIRST,  /* Who leads, for the answer. */
    TN_ZK_QUEUED,
    TN_ZK_HELD,
    TN_ZK_DELETE,
    TN_ZK_OVER,
};

/* One term of one session on one name. */
struct tn_zk_lease {
    struct tn_zk_lease *session_next, *name_next;
    struct tn_zk_session *session; /* NULL: over. */
    struct tn_zk_name *name;
    struct tn_secret term; /* Hashed. */
    struct tn_zk_op *ops;  /* That wait for it, ACQUIRE or RELEASE. */
    enum tn_zk_stage stage;
    bool wait;
    bool uncertain; /* A create was sent and not answered. */
    bool denied;    /* A parent could not be made. */
    bool leaving;
    bool refused; /* Leaving because it does not wait: its answer follows, and it may come back. */
    bool held_back;
    bool revoked;
    bool counted; /* Was granted: the session has it. */
    unsigned tries;
    unsigned pins;
    uint64_t flow;
    uint64_t token;
    uint64_t revocation;
    tenure_ns free_at; /* Revoked: when it is taken. */
    char node[TN_ZK_NODE_MAX];
    char before[TN_ZK_NODE_MAX];
    char first[TN_ZK_NODE_MAX];
};

/* A request, or a list. */
struct tn_zk_op {
    struct tn_zk_op *next, **link; /* Of the store, in the order of submission. */
    struct tn_zk_op *lease_next;
    struct tn_zk_store *store;
    struct tn_store_req *req;      /* NULL: a list. */
    struct tn_zk_session *session; /* Who asks; of readers, whom they ask. */
    struct tn_zk_lease *lease;
    void (*start)(struct tn_zk_op *op);
    tenure_ns give_up_at;
    bool done, parked, ready, reader;
    bool written; /* A change may have reached the server. */
    unsigned pins;
    const char *fault; /* Of the request itself. */
    char name[TN_NAME_MAX + 1];
    enum tn_answer otherwise; /* Of a queued term that asks again. */
    /* A list. */
    tn_store_listed *list_done;
    void *list_arg;
    char *prefix;
    struct tn_store_lease *leases;
    size_t count, room;
    char (*todo)[TN_NAME_MAX + 1];
    size_t todo_count, todo_room;
    unsigned looks;
    bool again; /* The connection was lost on the way. */
};

/* Who leads @name, and beside that its children. */
struct tn_zk_look {
    struct tn_zk_session *session;
    struct tn_zk_op *op;        /* Whose; or */
    char name[TN_NAME_MAX + 1]; /* "" is the chroot itself. */
    bool watch;
    bool exists;
    bool listed;
    bool noted; /* The record's token comes from the znode's own data. */
    unsigned tries;
    struct Stat stat;
    struct tn_store_record record;
    char first[TN_ZK_NODE_MAX];
    void (*children)(struct tn_zk_look *look, const struct String_vector *children);
    /* @rc: ZOK, or why it is not known. Frees the look. */
    void (*done)(struct tn_zk_look *look, int rc);
};

/* A ZooKeeper session that was closed, until the server has hung up. */
struct tn_zk_farewell {
    struct tn_zk_farewell *next;
    struct tn_zk_store *store;
    struct tn_zk_op *op; /* NULL: nobody waits for it. */
    uv_poll_t poll;
    int fd;
    size_t heard;
};

struct tn_zk_store {
    struct tn_store base;
    struct tn_zk_url url;
    char *servers; /* The hosts as addresses, for the library; NULL: not known yet. */
    struct tn_zk_resolve *resolve;
    tenure_ns resolve_at;
    unsigned resolve_failures;
    char resolve_why[120];
    struct tn_zk_question *question; /* About the version; NULL: not asked. */
    char version[32];
    char warning[TN_ERROR_TEXT];
    struct tn_zk_session *sessions;
    struct tn_zk_name *names[TN_ZK_BUCKETS];
    size_t name_count, sweep_at;
    char made[TN_ZK_PATH_MAX]; /* A znode that is there, most probably. */
    size_t due;                /* Names to be looked at. */
    struct tn_zk_op *ops, **ops_end;
    struct tn_zk_op *fresh, **fresh_end; /* By lease_next; not started yet. */
    struct tn_zk_call *broken;
    struct tn_zk_farewell *farewells;
    struct tn_hash_key key;
    struct tn_prng prng;
    unsigned revoked; /* Leases that are to be taken. */
    uv_prepare_t prepare;
    uv_idle_t idle;
    uv_timer_t timer;
    void (*on_timer)(uv_timer_t *timer);
    unsigned handles; /* Of sessions; they are closed before the store's own. */
    unsigned own_handles;
    bool work; /* There is something to do in a turn. */
    bool hung_up, shut;
};

/* --- store.c --- */
tenure_ns tn_zk_now(const struct tn_zk_store *store);
void tn_zk_kick(struct tn_zk_store *store);
/* Answer and forget; nothing happens when it was answered before. */
void tn_zk_op_answer(struct tn_zk_op *op, enum tn_answer answer);
void tn_zk_op_fail(struct tn_zk_op *op, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The library's @rc in our words. */
void tn_zk_op_refuse(struct tn_zk_op *op, int rc, const char *name);
void tn_zk_op_unpin(struct tn_zk_op *op);
/* Start again when its session is connected. */
void tn_zk_op_park(struct tn_zk_op *op);
void tn_zk_op_give_up(struct tn_zk_op *op);
bool tn_zk_is_loss(int rc);

/* --- session.c --- */
struct tn_zk_session *tn_zk_session_new(struct tn_zk_store *store, bool owner, tenure_ns ttl);
struct tn_zk_session *tn_zk_session_find(struct tn_zk_store *store, const struct tn_secret *secret);
/* Whom readers ask. NULL: out of memory. */
struct tn_zk_session *tn_zk_session_reader(struct tn_zk_store *store);
/* End it in the next turn: @polite, its nodes vanish at once; otherwise when the server has waited
 * for its timeout. */
void tn_zk_session_end(struct tn_zk_session *session, bool polite);
/* Go on with what waited for the connection. */
void tn_zk_session_resume(struct tn_zk_session *session);
void tn_zk_session_drop(struct tn_zk_session *session);
void tn_zk_session_drive(struct tn_zk_session *session);
/* Break off what has been unanswered for too long. Returns when to look again. */
tenure_ns tn_zk_session_check(struct tn_zk_session *session, tenure_ns now);
void tn_zk_session_event(zhandle_t *zh, int type, int state, const char *path, void *arg);
void tn_zk_farewell_cancel(struct tn_zk_farewell *farewell);
/* A poll handle of the store's; NULL: out of memory. Dropping it takes it from *@poll at once. */
uv_poll_t *tn_zk_poll_new(struct tn_zk_store *store, int fd, void *data);
void tn_zk_poll_drop(struct tn_zk_store *store, uv_poll_t **poll);
void tn_zk_resolve_start(struct tn_zk_store *store);
void tn_zk_resolve_drop(struct tn_zk_store *store);

/* --- relay.c --- */
/* Step between the library's connected @fd and the server. @resumes: the library has asked for a
 * session that exists. NULL: no memory, or no descriptor is left; @fd is as it was. */
struct tn_zk_relay *tn_zk_relay_new(struct tn_zk_store *store, int fd, bool resumes);
void tn_zk_relay_free(struct tn_zk_relay *relay);
/* The connection to the server; the library's own descriptor ends in this process. */
int tn_zk_relay_server(const struct tn_zk_relay *relay);
/* Why it has ended the connection: what was malformed, or NULL, and then perhaps *@ret_error. */
const char *tn_zk_relay_why(const struct tn_zk_relay *relay, int *ret_error);
/* Before the library's last request: the library is told at once that nothing more comes, so that
 * it does not wait. Returns a descriptor of the connection, or -1: not now. */
int tn_zk_relay_part(struct tn_zk_relay *relay);
/* After it: send it on. */
void tn_zk_relay_finish(struct tn_zk_relay *relay);

/* --- call.c: each makes one call, whose answer comes to hear() in a later turn --- */
struct tn_zk_call *tn_zk_call_new(struct tn_zk_session *session,
                                  void (*hear)(struct tn_zk_call *call,
                                               const struct tn_zk_reply *reply));
void tn_zk_call_for_op(struct tn_zk_call *call, struct tn_zk_op *op);
void tn_zk_call_for_lease(struct tn_zk_call *call, struct tn_zk_lease *lease);
void tn_zk_call_create(struct tn_zk_call *call, const char *path, const char *value, int len,
                       int mode);
void tn_zk_call_delete(struct tn_zk_call *call, const char *path, const char *parent,
                       uint64_t token);
void tn_zk_call_get(struct tn_zk_call *call, const char *path, bool watch);
void tn_zk_call_exists(struct tn_zk_call *call, const char *path, bool watch);
void tn_zk_call_children(struct tn_zk_call *call, const char *path, bool watch);
void tn_zk_call_set(struct tn_zk_call *call, const char *path, const char *value, int len);
void tn_zk_call_sync(struct tn_zk_call *call, const char *path);
/* A change that changes nothing: it is ordered with all others by the quorum. */
void tn_zk_call_prove(struct tn_zk_call *call, const char *path);
void tn_zk_call_deliver_broken(struct tn_zk_store *store);

/* --- names.c --- */
/* Find or make; NULL: out of memory. */
struct tn_zk_name *tn_zk_name_get(struct tn_zk_store *store, const char *name);
struct tn_zk_name *tn_zk_name_find(struct tn_zk_store *store, const char *name);
/* Look at it in the next turn. */
void tn_zk_name_due(struct tn_zk_store *store, struct tn_zk_name *name, bool due);
void tn_zk_name_sweep(struct tn_zk_store *store);
void tn_zk_path_of(const struct tn_zk_store *store, const char *name, const char *node,
                   char *ret_path);
/* Which name and node a path is; false: none of ours. @ret_node is "" for the name itself. */
bool tn_zk_path_parse(const struct tn_zk_store *store, const char *path, char *ret_name,
                      char *ret_node);
/* Whether a child is a candidate's node, and its place in the queue. */
bool tn_zk_node_parse(const char *node, int64_t *ret_seq);
void tn_zk_node_prefix(const struct tn_secret *term, char *ret_prefix);
bool tn_zk_node_term(const char *node, struct tn_secret *ret_term);
/* The token that a znode's data remembers; false: the data is something else. */
bool tn_zk_note_parse(const char *value, int len, uint64_t *ret_token);
void tn_zk_note_token(struct tn_zk_store *store, const char *name, uint64_t token);
void tn_zk_record_held(struct tn_zk_store *store, const char *node, const struct tn_zk_reply *reply,
                       struct tn_store_record *ret_record);
void tn_zk_record_own(const struct tn_zk_lease *lease, struct tn_store_record *ret_record);
/* The candidate with the lowest number, and how many there are. */
const char *tn_zk_first_node(const struct String_vector *children, size_t *ret_count);

/* --- lease.c --- */
void tn_zk_lease_acquire(struct tn_zk_op *op);
void tn_zk_lease_release(struct tn_zk_op *op);
/* The session is connected (again). */
void tn_zk_lease_resume(struct tn_zk_lease *lease);
/* Go on with those that waited for others. */
void tn_zk_lease_go_on(struct tn_zk_session *session);
/* News of a node of @name. */
void tn_zk_lease_hear(struct tn_zk_name *name, struct tn_zk_session *session, const char *node,
                      int type);
/* The session is over. */
void tn_zk_lease_drop(struct tn_zk_lease *lease);
void tn_zk_lease_unpin(struct tn_zk_lease *lease);
/* Nobody waits for it any more: undo it if nothing of it was sent. */
void tn_zk_lease_abandon(struct tn_zk_lease *lease);
void tn_zk_lease_forget_op(struct tn_zk_lease *lease, struct tn_zk_op *op);
/* Tell of revocations that the holder has not heard of. */
void tn_zk_lease_remind(struct tn_zk_session *session, uint64_t seen);
/* Take revoked leases whose time is over. Returns when the next one is due. */
tenure_ns tn_zk_lease_take(struct tn_zk_store *store, tenure_ns now);

/* --- look.c --- */
void tn_zk_look_start(struct tn_zk_look *look);
void tn_zk_read(struct tn_zk_op *op);
void tn_zk_list(struct tn_zk_op *op);
void tn_zk_observe(struct tn_zk_store *store, struct tn_zk_name *name);
void tn_zk_observe_all(struct tn_zk_store *store, bool all);

/* --- version.c --- */
void tn_zk_version_ask(struct tn_store *base,
                       void (*done)(void *arg, int status, const char *error), void *arg);
void tn_zk_version_cancel(struct tn_zk_store *store);

#endif
