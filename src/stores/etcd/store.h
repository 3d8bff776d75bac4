/* store.h - what the files of the etcd store share: sessions, names, claims.
 *
 * A session is a lease of etcd's whose number is made from the session's secret. A claim is one
 * term's place in a name's queue: a key under the name, bound to the lease. Because the key is made
 * of name and lease, a session has one at a time on a name; another term of the same session waits
 * for it.
 *
 * core/line.h has the states and decides about them; claims.c hosts it, steps.c speaks to etcd. A
 * term whose key was changed is revoked (revoke.c): held until it is given back.
 *
 * All of it is of the loop's thread. */
#ifndef TN_STORES_ETCD_STORE_H
#define TN_STORES_ETCD_STORE_H

#include "base/time.h"
#include "core/line.h"
#include "core/line_revoke.h"
#include "runtime/store_frame.h"
#include "stores/etcd/client.h"
#include "stores/etcd/etcd.h"

enum { TN_ETCD_KEY = 800, TN_ETCD_DEAD = 8 };

struct tn_etcd_session {
    struct tn_store_session base;
    int64_t lease;
    uint64_t seq;
    struct tn_line line;
    uint32_t label_len;
    char label[TN_LABEL_MAX + 1];
};

struct tn_etcd_name {
    struct tn_store_name base;
    struct tn_etcd_store *store; /* NULL: the rest is not set yet. */
    struct tn_list claims;       /* The newest first. */
    struct tn_etcd_watch watch;  /* On the leader's key, or on the name when it is vacant. */
    struct tn_etcd_rpc *look;
    tenure_ns look_at;   /* When to look (again); TN_NEVER: not needed. */
    bool crowded;        /* Other names begin with this one: limits do not work. */
    uint64_t last_token; /* The highest seen of a holder. */
};

struct tn_etcd_claim {
    struct tn_line_claim base;           /* The first member. */
    struct tn_list_node of_name, of_all; /* Among those of the name, and of the store. */
    struct tn_etcd_name *name;
    struct tn_etcd_session *session;
    struct tn_req_list reqs; /* That wait for it, ACQUIRE or RELEASE. */
    struct tn_etcd_rpc *rpc; /* Of the step under way, */
    uint64_t request;        /* and the recipe's number for it. */
    tenure_ns due_at;        /* When to go on by ourselves; TN_NEVER: when something happens. */
    int64_t revision;        /* Of the last answer. */
    struct tn_store_record leader; /* As the last answer told, for those who wait, */
    int64_t leader_lease;          /* and its lease. */
    struct tn_etcd_watch own, before;
    char before_key[TN_ETCD_KEY];
};

/* One request, and the call it waits for; those of a term are with its claim. */
struct tn_etcd_job {
    struct tn_list_node node; /* First. */
    struct tn_etcd_store *store;
    struct tn_etcd_session *session; /* NULL: not known here, or over meanwhile. */
    struct tn_store_req *req;
    struct tn_etcd_rpc *rpc;
    struct {
        struct tn_line_revoke recipe;
        int64_t leader;  /* The lease that the holder's key has, */
        int64_t ttl;     /* with so many seconds; */
        int64_t lease;   /* and the one that it moves to. */
        int64_t created; /* The key was created at this revision, */
        char *key;       /* and is called so. */
    } revoke;
    unsigned tries;
};

/* A query, and who asks the server. */
struct tn_etcd_query {
    struct tn_etcd_store *store;
    struct tn_store_query *query;
};

struct tn_etcd_store {
    struct tn_store base;
    struct tn_etcd_client client;
    struct tn_req_list todo; /* With the next turn. */
    struct tn_list jobs;
    struct tn_list claims;
    struct tn_list_node *claim_after; /* The next one of a walk through them. */
    bool permitted;                   /* The server lets us write below the prefix. */
};

/* --- keys.c: the layout ----------------------------------------------------------------------- */

/* The keys of a name: all that are below it, one session's, and where the last token is kept. */
struct tn_etcd_keys {
    char base[TN_ETCD_KEY], end[TN_ETCD_KEY]; /* [base, end) */
    char own[TN_ETCD_KEY];
    char last[TN_ETCD_KEY];
};

void tn_etcd_keys(struct tn_etcd_keys *ret_keys, const struct tn_etcd_store *store,
                  const char *name, int64_t lease);

/* A range of the base, by create revision, ascending or descending. */
void tn_etcd_range(Etcd__RangeRequest *ret_range, const struct tn_etcd_keys *keys, bool ascending,
                   int64_t limit, int64_t max);
void tn_etcd_get(Etcd__RangeRequest *ret_range, const char *key);
/* All keys that begin with @key. */
void tn_etcd_get_all(Etcd__RangeRequest *ret_range, const char *key, char end[TN_ETCD_KEY]);
void tn_etcd_compare(Etcd__Compare *ret_compare, const char *key, const char *end, int64_t created);
/* Created at @created, and left alone since: neither made anew nor revoked. */
void tn_etcd_compare_same(Etcd__Compare *ret_compare, const char *key, int64_t created);

enum { TN_ETCD_VALUE = TN_LABEL_MAX + 8 + 2 * 16 + 2 };
size_t tn_etcd_value(char ret_value[TN_ETCD_VALUE], const char *label, size_t label_len,
                     const struct tn_secret *term);

/* Whose key it is; a value that is not ours is a label, and its term is zero. */
void tn_etcd_record(const Etcd__KeyValue *kv, struct tn_store_record *ret_record);
/* Whether a revocation has moved the key to a lease that nobody keeps alive. */
bool tn_etcd_is_moved(const Etcd__KeyValue *kv);

/* Whether a key's last part is a lease's number as Go's "%x" writes it: up to 16 digits of
 * lower-case hex, perhaps behind a minus. */
bool tn_etcd_is_lease_id(const uint8_t *text, size_t len);
/* Whether the key belongs to a candidate for the name itself: not for a longer name, and not to
 * another program that keeps something there. */
bool tn_etcd_is_candidate(const struct tn_etcd_keys *keys, const Etcd__KeyValue *kv);
/* The key of a candidate, which tn_etcd_is_candidate has seen: it always fits. */
void tn_etcd_candidate_key(const Etcd__KeyValue *kv, char ret_key[TN_ETCD_KEY]);
bool tn_etcd_key_is(const Etcd__KeyValue *kv, const char *key);

/* The first candidate of @range, or NULL; then *@ret_crowded if only others fitted in. */
const Etcd__KeyValue *tn_etcd_first(const struct tn_etcd_keys *keys,
                                    const Etcd__RangeResponse *range, bool *ret_crowded);

/* The last token as kept under keys->last; 0: none. */
uint64_t tn_etcd_last(const Etcd__RangeResponse *range);

/* Answer @number of a transaction, if it is a range; otherwise NULL. */
const Etcd__RangeResponse *tn_etcd_answer(const Etcd__TxnResponse *txn, size_t number);

/* --- foreign.c: other programs' leaders ------------------------------------------------------- */

/* Where another program would keep the leader of a name, and what shows that it is used there. */
struct tn_etcd_foreign {
    char key[TN_ETCD_KEY], end[TN_ETCD_KEY];
    char mark[TN_ETCD_KEY], mark_end[TN_ETCD_KEY];
    Etcd__RangeRequest leader, marks;
};

/* In the transaction that looks at a name, the number of the answer; then come the marks. */
enum { TN_ETCD_FOREIGN_AT = 2 };

/* False: the name has no such form. */
bool tn_etcd_foreign_make(struct tn_etcd_foreign *ret_foreign, const struct tn_etcd_store *store,
                          const char *name);
/* How many bytes of the key are prefix and name; 0: the key is no leader of another program. */
size_t tn_etcd_foreign_name(const Etcd__KeyValue *kv);
/* NULL: there is none. */
const Etcd__KeyValue *tn_etcd_foreign_leader(const Etcd__TxnResponse *txn);
void tn_etcd_foreign_refuse(struct tn_store_req *req);
/* Look before an ACQUIRE whether the name is another program's, and if so refuse it. False: it has
 * no such form, or is no ACQUIRE. */
bool tn_etcd_foreign_check(struct tn_etcd_store *store, struct tn_store_req *req);

/* --- store.c ---------------------------------------------------------------------------------- */

tenure_ns tn_etcd_now(const struct tn_etcd_store *store);
/* A server's number of seconds, which may be any number. */
tenure_ns tn_etcd_seconds(int64_t seconds);
/* NULL: out of memory. */
struct tn_etcd_job *tn_etcd_job_new(struct tn_etcd_store *store, struct tn_store_req *req);
/* Ends the job: its request is done with what it has. */
void tn_etcd_job_end(struct tn_etcd_job *job);
/* Ends the job alone: its request is the caller's. */
struct tn_store_req *tn_etcd_job_take(struct tn_etcd_job *job);
/* Ends the job with the reply's failure. */
void tn_etcd_job_fail(struct tn_etcd_job *job, const struct tn_etcd_reply *reply);
void tn_etcd_job_call(struct tn_etcd_job *job, const char *path, const ProtobufCMessage *request,
                      const ProtobufCMessageDescriptor *type, tn_etcd_answered *answered);
void tn_etcd_job_txn(struct tn_etcd_job *job, const Etcd__TxnRequest *txn,
                     tn_etcd_answered *answered);
/* What is left of @lease: the message is an Etcd__LeaseTimeToLiveResponse. */
void tn_etcd_job_measure(struct tn_etcd_job *job, int64_t lease, tn_etcd_answered *answered);
/* Ends the job with the answer. */
void tn_etcd_job_answer(struct tn_etcd_job *job, enum tn_answer answer);
struct tn_etcd_session *tn_etcd_session_find(struct tn_etcd_store *store,
                                             const struct tn_secret *secret);
/* The same, and if it is not known here it is made: another process may have opened it. */
struct tn_etcd_session *tn_etcd_session_get(struct tn_etcd_store *store,
                                            const struct tn_secret *secret);
/* @hash: of the session's secret. */
int64_t tn_etcd_lease_of(const struct tn_secret *hash);
/* The lease is gone: forget the session; what waits for it is answered GONE. */
void tn_etcd_session_drop(struct tn_etcd_store *store, struct tn_etcd_session *session);

/* --- names.c ---------------------------------------------------------------------------------- */

/* NULL: there is none. */
struct tn_etcd_name *tn_etcd_name_find(struct tn_etcd_store *store, const char *text, size_t len);
/* Found or made, and one use more. NULL: out of memory. */
struct tn_etcd_name *tn_etcd_name_use(struct tn_etcd_store *store, const char *text, size_t len);
void tn_etcd_name_look(struct tn_etcd_name *name);
/* What is due is looked at. Returns whether something still waits. */
bool tn_etcd_names_tick(struct tn_etcd_store *store, tenure_ns now);
void tn_etcd_read(struct tn_etcd_job *job);
/* Completes record.ttl and .remaining of the request from @lease, then ends the job. */
void tn_etcd_add_ttl(struct tn_etcd_job *job, int64_t lease);
/* The transaction that looks at the job's name. */
void tn_etcd_look_for(struct tn_etcd_job *job, tn_etcd_answered *answered);
int tn_etcd_watched(struct tn_store *base, struct tn_store_name *name, bool on);
/* What a vacant name's record shows, or a held one's. */
void tn_etcd_fill(struct tn_etcd_name *name, const Etcd__KeyValue *leader, uint64_t last,
                  struct tn_store_record *ret_record);

/* --- list.c ----------------------------------------------------------------------------------- */

void tn_etcd_ask(struct tn_store *base, struct tn_store_query *query);

/* --- claims.c --------------------------------------------------------------------------------- */

/* ACQUIRE and RELEASE: at once, or after the one under way. */
void tn_etcd_claim_ask(struct tn_etcd_store *store, struct tn_store_req *req);
/* Go on with what is due. Returns whether something still waits. */
bool tn_etcd_claims_tick(struct tn_etcd_store *store, tenure_ns now);
/* All of @session, or with NULL all; what waits for them is answered GONE, or CLOSED. */
void tn_etcd_claims_free(struct tn_etcd_store *store, const struct tn_etcd_session *session);
/* @leader leads @text, as seen at @revision; NULL: nobody. If that is a term of ours whose acquire
 * was never answered, the candidate takes it as granted, and so it is held. */
void tn_etcd_claim_adopt(struct tn_etcd_store *store, const char *text,
                         const Etcd__KeyValue *leader, int64_t revision);

void tn_etcd_line_init(struct tn_etcd_session *session);

/* The answers of steps.c to the step that claim->request is the number of; the claim may be gone
 * afterwards. */
void tn_etcd_claim_saw(struct tn_etcd_claim *claim, const struct tn_line_view *view);
void tn_etcd_claim_proved(struct tn_etcd_claim *claim, const struct tn_line_proven *proven);
void tn_etcd_claim_removed(struct tn_etcd_claim *claim);
void tn_etcd_claim_failed(struct tn_etcd_claim *claim, const struct tn_etcd_reply *reply);

/* --- steps.c ---------------------------------------------------------------------------------- */

/* Send the step that the recipe has asked for. False: out of memory. */
bool tn_etcd_step(struct tn_etcd_claim *claim);

/* --- revoke.c --------------------------------------------------------------------------------- */

/* REVOKE, when it is known who leads; NULL: nobody. */
void tn_etcd_revoke(struct tn_etcd_job *job, const Etcd__KeyValue *leader);
/* The lease that revoked keys of a session's @lease are moved to. */
int64_t tn_etcd_hold_off_lease(int64_t lease);

#endif
