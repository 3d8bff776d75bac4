/* private.h - the parts of the ZooKeeper store to each other.
 *
 *   store.c    requests and lists, time, opening, closing    url.c     hosts, user and chroot
 *   session.c  a ZooKeeper session on the loop               call.c    one call to the library
 *   claim.c    hosts core/line.c, which decides who leads    names.c   names, nodes and records
 *   look.c     reads who leads: READ, watches, lists         version.c which server it is
 *   relay.c    between the library and the server            screen.c  which frames pass there
 *
 * Everything happens in turns of the loop: submit only queues. The answer to a call may find that
 * its asker is gone; then the call has no asker any more, and nobody hears of it. */
#ifndef TN_STORES_ZOOKEEPER_PRIVATE_H
#define TN_STORES_ZOOKEEPER_PRIVATE_H

#include <uv.h>

#include <zookeeper/zookeeper.h>

#include "base/prng.h"
#include "base/time.h"
#include "core/line.h"
#include "runtime/store_frame.h"
#include "stores/zookeeper/url.h"

enum {
    TN_ZK_PATH_MAX = 800, /* chroot, name, node. */
    TN_ZK_NODE_MAX = 128, /* Longer nodes are nobody's we know. */
    /* So many requests at a time: a renewal must not wait behind ten thousand others. */
    TN_ZK_IN_FLIGHT = 128,
};

struct tn_zk_store;
struct tn_zk_session;
struct tn_zk_claim;
struct tn_zk_look;
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

struct tn_zk_call;
typedef void tn_zk_hear(struct tn_zk_call *call, const struct tn_zk_reply *reply);

struct tn_zk_call {
    struct tn_zk_call *next, **link; /* Of the session, in the order of sending; or broken. */
    struct tn_zk_session *session;
    void *asker; /* A claim, a look or a job. NULL: nobody hears of the answer. */
    tn_zk_hear *hear;
    uint64_t request; /* Of a claim: its recipe's number. */
    tenure_ns sent_at;
    int rc; /* Broken: why. */
    struct Stat stat;
    zoo_op_result_t results[2];
    char note[32];
};

enum tn_zk_state {
    TN_ZK_NEW,     /* Was never connected: the server knows nothing of it. */
    TN_ZK_LOST,    /* Is not connected, and tries. */
    TN_ZK_DENIED,  /* The server did not accept the user and the password. */
    TN_ZK_ARRIVED, /* Connected; those who wait for it have not been told. */
    TN_ZK_UP,
    TN_ZK_ENDING,  /* To be dropped in the next turn; its nodes vanish when it times out. */
    TN_ZK_CLOSING, /* The same, and the server is asked to end it at once. */
};

/* A ZooKeeper session. One per session of the process; another, which owns nothing, serves readers
 * while there is no such session. */
struct tn_zk_session {
    struct tn_store_session base;
    struct tn_zk_store *store;
    struct tn_line line;
    enum tn_zk_state state;
    bool reader; /* Was not opened by OPEN. */
    char label[TN_LABEL_MAX + 1];
    uint32_t label_len;
    uint64_t seq;
    tenure_ns ttl;        /* What was agreed to. */
    tenure_ns asked;      /* What was asked for. */
    tenure_ns expires_at; /* Nobody renews it: it ends then. */
    int timeout_ms;       /* What the server is asked for. */
    /* Steps that are not sent yet. */
    struct tn_zk_claim *unsent, **unsent_end;
    /* The connection. */
    zhandle_t *zh;
    struct tn_zk_relay *relay; /* NULL: not connected yet, and the library reads nothing. */
    uv_poll_t *poll;
    uv_timer_t *timer;
    int fd;
    bool dirty; /* Ask the library what it waits for. */
    unsigned failures;
    tenure_ns trying_since; /* To reach the present server. */
    tenure_ns retry_at;
    struct tn_zk_call *calls, **calls_end;
    unsigned in_flight;
    tenure_ns heard_at;        /* The last answer. */
    struct tn_zk_job *closing; /* The CLOSE that ended it. */
    char why[120];
};

/* A znode's own data. */
enum tn_zk_note {
    TN_ZK_NOTE_UNREAD,
    TN_ZK_NOTE_OURS,  /* Empty, or the last token. */
    TN_ZK_NOTE_OTHER, /* Somebody else's: it stays as it is. */
};

/* How far the view of those who watch a name is. */
enum tn_zk_view {
    TN_ZK_SEEN,
    TN_ZK_DUE, /* To be looked at. */
    TN_ZK_LOOKING,
    TN_ZK_LOOKING_AGAIN, /* And once more: it changed meanwhile. */
};

struct tn_zk_name {
    struct tn_store_name base;
    struct tn_zk_claim *claims;
    enum tn_zk_view view;
    enum tn_zk_note note;
    bool missing; /* It had no znode when it was last looked at. */
    uint64_t last_token;
    char first[TN_ZK_NODE_MAX]; /* The node whose end those who watch wait for. */
};

/* One term of one session on one name. */
struct tn_zk_claim {
    struct tn_line_claim base;
    struct tn_zk_claim *name_next, *unsent_next;
    struct tn_zk_session *session;
    struct tn_zk_name *name;
    struct tn_zk_job *jobs; /* That wait for it, ACQUIRE or RELEASE. */
    bool unsent;
    bool denied; /* A parent could not be made. */
    unsigned tries;
    char node[TN_ZK_NODE_MAX];
    char before[TN_ZK_NODE_MAX];
};

enum tn_zk_progress {
    TN_ZK_READY,  /* To be started in the next turn. */
    TN_ZK_PARKED, /* To be started when its session is connected. */
    TN_ZK_STARTED,
};

/* A request, or a list. */
struct tn_zk_job {
    struct tn_zk_job *next, **link; /* Of the store, in the order of submission. */
    struct tn_zk_job *claim_next;
    struct tn_zk_store *store;
    struct tn_store_req *req;      /* Either, */
    struct tn_store_query *query;  /* or. */
    struct tn_zk_session *session; /* Who asks; of readers, whom they ask. */
    struct tn_zk_claim *claim;
    void (*start)(struct tn_zk_job *job);
    tenure_ns give_up_at;
    enum tn_zk_progress progress;
    bool written; /* A change may have reached the server. */
    bool reading; /* ACQUIRE: its claim waits, and the holder is read for the answer. */
    char name[TN_NAME_MAX + 1];
    enum tn_answer otherwise; /* ACQUIRE: once the holder was read. */
    /* A list. */
    char (*todo)[TN_NAME_MAX + 1];
    size_t todo_count, todo_room;
    unsigned looks;
    bool again; /* The connection was lost on the way. */
};

/* Who leads @name, and beside that its children. */
struct tn_zk_look {
    struct tn_zk_look *next, **link; /* Of the store. */
    struct tn_zk_session *session;
    struct tn_zk_job *job;      /* Whose, or NULL: it is done with; or */
    struct tn_zk_name *watched; /* whose. */
    char name[TN_NAME_MAX + 1]; /* "" is the chroot itself. */
    bool exists, listed;
    bool noted; /* The record's token comes from the znode's own data. */
    unsigned tries;
    uint32_t waiting; /* Candidates behind the first. */
    struct Stat stat;
    struct tn_store_record record;
    char first[TN_ZK_NODE_MAX];
    /* @rc: ZOK, or why it is not known. */
    void (*done)(struct tn_zk_look *look, int rc);
};

/* A ZooKeeper session that was closed, until the server has hung up. */
struct tn_zk_farewell {
    struct tn_zk_farewell *next;
    struct tn_zk_store *store;
    struct tn_zk_job *job; /* NULL: nobody waits for it. */
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
    char made[TN_ZK_PATH_MAX]; /* A znode that is there, most probably. */
    size_t due;                /* Names to be looked at. */
    size_t remembered;         /* Names that are kept for their last token, */
    size_t remember_most;      /* and twice their number when some were last forgotten. */
    struct tn_zk_job *jobs, **jobs_end;
    struct tn_zk_job *job_next; /* While jobs are started: the one after it. */
    unsigned ready;
    struct tn_zk_look *looks;
    struct tn_zk_call *broken;
    struct tn_zk_farewell *farewells;
    struct tn_prng prng;
    uv_timer_t timer;
    unsigned handles; /* Of sessions; they are closed before the store's own. */
};

/* --- store.c --- */
tenure_ns tn_zk_now(const struct tn_zk_store *store);
/* One of store->handles less. */
void tn_zk_handle_gone(struct tn_zk_store *store);
/* Answer it, or fail it, and free it. */
void tn_zk_job_answer(struct tn_zk_job *job, enum tn_answer answer);
void tn_zk_job_fail(struct tn_zk_job *job, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The library's @rc in our words. */
void tn_zk_job_refuse(struct tn_zk_job *job, int rc, const char *name);
/* Start it again when its session is connected. */
void tn_zk_job_park(struct tn_zk_job *job);
/* Start those that are parked for @session; NULL: those that have none any more. */
void tn_zk_job_wake(struct tn_zk_store *store, const struct tn_zk_session *session);
/* The connection is lost, or going. */
bool tn_zk_is_loss(int rc);

/* --- session.c --- */
/* NULL: out of memory. @secret NULL: of readers. */
struct tn_zk_session *tn_zk_session_new(struct tn_zk_store *store, const struct tn_secret *secret,
                                        tenure_ns ttl);
struct tn_zk_session *tn_zk_session_next(struct tn_zk_store *store,
                                         const struct tn_zk_session *session);
bool tn_zk_is_up(const struct tn_zk_session *session);
bool tn_zk_is_over(const struct tn_zk_session *session);
/* Whom readers ask. NULL: out of memory. */
struct tn_zk_session *tn_zk_session_reader(struct tn_zk_store *store);
/* End it in the next turn: politely, its nodes vanish at once; otherwise when the server has waited
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
struct tn_zk_call *tn_zk_call_new(struct tn_zk_session *session, void *asker, tn_zk_hear *hear);
/* It is going: no answer may come to it. */
void tn_zk_call_forget(struct tn_zk_store *store, const void *asker);
void tn_zk_call_create(struct tn_zk_call *call, const char *path, const char *value, int len,
                       int mode);
void tn_zk_call_delete(struct tn_zk_call *call, const char *path, const char *parent,
                       uint64_t token);
void tn_zk_call_get(struct tn_zk_call *call, const char *path, bool watch);
void tn_zk_call_exists(struct tn_zk_call *call, const char *path, bool watch);
void tn_zk_call_children(struct tn_zk_call *call, const char *path, bool watch);
void tn_zk_call_set(struct tn_zk_call *call, const char *path, const char *value, int len);
/* The server catches up with its leader before it answers what follows. */
void tn_zk_call_sync(struct tn_zk_session *session);
/* A change that changes nothing: it is ordered with all others by the quorum. */
void tn_zk_call_prove(struct tn_zk_call *call, const char *path);
void tn_zk_call_deliver_broken(struct tn_zk_store *store);

/* --- names.c --- */
struct tn_zk_name *tn_zk_name_find(struct tn_zk_store *store, const char *name);
void tn_zk_name_set_view(struct tn_zk_store *store, struct tn_zk_name *name, enum tn_zk_view view);
/* Look at it in the next turn. */
void tn_zk_name_due(struct tn_zk_store *store, struct tn_zk_name *name);
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
/* The highest token of a name that somebody here uses is remembered. */
void tn_zk_note_token(struct tn_zk_store *store, const char *name, uint64_t token);
void tn_zk_record_held(struct tn_zk_store *store, const char *node, const struct tn_zk_reply *reply,
                       struct tn_store_record *ret_record);
void tn_zk_record_own(const struct tn_zk_claim *claim, struct tn_store_record *ret_record);
/* The candidate with the lowest number; NULL: there is none. */
const char *tn_zk_first_node(const struct String_vector *children);

/* --- claim.c --- */
void tn_zk_claim_init(struct tn_zk_session *session);
void tn_zk_claim_acquire(struct tn_zk_job *job);
void tn_zk_claim_release(struct tn_zk_job *job);
/* Send steps, as many as may be under way. */
void tn_zk_claim_send(struct tn_zk_session *session);
/* News of a node of @name. */
void tn_zk_claim_hear(struct tn_zk_name *name, struct tn_zk_session *session, const char *node,
                      int type);
/* The session is over, and with it all its claims. */
void tn_zk_claim_drop_all(struct tn_zk_session *session);
/* The job waits no longer. */
void tn_zk_claim_forget(struct tn_zk_job *job);
/* Nobody waits for it any more: undo it if nothing of it was sent. */
void tn_zk_claim_abandon(struct tn_zk_claim *claim);

/* --- look.c --- */
void tn_zk_read(struct tn_zk_job *job);
void tn_zk_list(struct tn_zk_job *job);
void tn_zk_look_forget(struct tn_zk_job *job);
/* Look at the names that are due. */
void tn_zk_observe_due(struct tn_zk_store *store);
/* The watches of a session have ended with it. */
void tn_zk_observe_all(struct tn_zk_store *store);

/* --- version.c --- */
void tn_zk_version_ask(struct tn_store *base,
                       void (*done)(void *arg, int status, const char *error), void *arg);
void tn_zk_version_cancel(struct tn_zk_store *store);

#endif
