/* target.h - fences by URL: the one door for the command, and for a candidate that raises them.
 *
 *     sqlite:PATH       any SQLite database, also that of a Tenure store; resources are its rows
 *     file:PATH         a file that is written through the fence; the path is the resource
 *     postgres://...    a PostgreSQL database in which the fences were installed
 *     redis://...       a Redis, also by redis+unix:PATH and, with TLS, rediss://...
 *     http://...        a gate, `tenure gate`; https://... where TLS is in front of it
 *     dynamodb://...    a table of DynamoDB
 *     unix:PATH         tenured, also by tenured://... and, with TLS, tenureds://...
 *
 * A scheme is one struct tn_fence_ops in the table of target.c.
 *
 * Threads: one at a time per target. Blocks for the receiver, while others keep it busy up to the
 * timeout. All functions tell in @reterr, one line without a full stop, why they failed:
 * TENURE_E_INVALID     a URL, resource or token that makes no sense: nothing was asked for;
 * TENURE_E_UNSUPPORTED this receiver cannot do that;
 * TENURE_E_STALE       the fence stands higher (nothing in @reterr, *@ret_highest says where);
 * TENURE_E_DENIED      not permitted;
 * TENURE_E_UNAVAILABLE not reachable, busy for too long, full: nothing happened;
 * TENURE_E_TIMEOUT     it may have happened: ask again;
 * TENURE_E_DAMAGED     there is no fence, or something else in its place: asking again does not
 *                      help before somebody has installed it, or mended the URL; TENURE_E_NOMEM. */
#ifndef TN_RECEIVERS_TARGET_H
#define TN_RECEIVERS_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "tenure/error.h"
#include "tenure/time.h"

struct tn_fence_target;

/* Called once per fence; @resource is valid during the call. */
typedef void (*tn_fence_each)(void *arg, const char *resource, uint64_t token);

struct tn_fence_options {
    tenure_ns timeout; /* How long to wait for others and for the network; 0: 5 s. */
    bool read_only;    /* Only show. */
    bool create;       /* Make a file that is missing; otherwise that is an error, so that a path
                        * that is misspelt does not become a fence that protects nothing. */
};

/* Whether @url names a receiver; *@ret_single: with one fence only, which the URL names. Then
 * @resource is NULL in the calls below. Opens nothing. */
TENURE_MUST_USE int tn_fence_url_check(const char *url, bool *ret_single, struct tn_text *reterr);

/* The same, and whether it can have a fence of @resource; before anything is made that was not
 * there. */
TENURE_MUST_USE int tn_fence_resource_check(const char *url, const char *resource,
                                            struct tn_text *reterr);

/* The result is closed by tn_fence_target_close. */
TENURE_MUST_USE int tn_fence_target_open(const char *url, const struct tn_fence_options *options,
                                         struct tn_fence_target **ret_target,
                                         struct tn_text *reterr);

/* Takes NULL. */
void tn_fence_target_close(struct tn_fence_target *target);

/* *@ret_highest is set on 0 and TENURE_E_STALE. Raising and admitting do the same to a fence; an
 * admission that is not in one step with its effect protects nothing. */
TENURE_MUST_USE int tn_fence_target_raise(struct tn_fence_target *target, const char *resource,
                                          uint64_t token, uint64_t *ret_highest,
                                          struct tn_text *reterr);

/* Whether a raise can succeed, as far as that shows without one. Changes nothing. */
TENURE_MUST_USE int tn_fence_target_probe(struct tn_fence_target *target, const char *resource,
                                          struct tn_text *reterr);

/* 0 when there was none. */
TENURE_MUST_USE int tn_fence_target_show(struct tn_fence_target *target, const char *resource,
                                         uint64_t *ret_highest, struct tn_text *reterr);

/* All fences, by resource. */
TENURE_MUST_USE int tn_fence_target_list(struct tn_fence_target *target, tn_fence_each each,
                                         void *arg, struct tn_text *reterr);

/* Admit @token and replace the content with @len bytes of @data, or append them, in one step. */
TENURE_MUST_USE int tn_fence_target_write(struct tn_fence_target *target, uint64_t token,
                                          const void *data, size_t len, bool append,
                                          uint64_t *ret_highest, struct tn_text *reterr);

/* Make @table refuse writes without the current token of @resource; and take that away. Where
 * there is something to prepare, @table and @resource may both be NULL: then only that. */
TENURE_MUST_USE int tn_fence_target_install(struct tn_fence_target *target, const char *table,
                                            const char *resource, struct tn_text *reterr);
TENURE_MUST_USE int tn_fence_target_remove(struct tn_fence_target *target, const char *table,
                                           struct tn_text *reterr);

/* What install would run at @url; NULL when there is nothing to read. Opens nothing. */
const char *tn_fence_install_text(const char *url);

/* Open, raise, close: the barrier of P4. @resource is NULL or empty where the URL names it. */
TENURE_MUST_USE int tn_fence_raise_at(const char *url, const char *resource, uint64_t token,
                                      tenure_ns timeout, struct tn_text *reterr);

/* --- For the receivers ---------------------------------------------------------------------- */

struct tn_fence_ops {
    const char *scheme; /* With its colon. */
    const char *form;   /* How the URL is written, for the help. */
    bool single;
    bool file; /* What follows the colon is a path; else the whole URL is passed on. */

    /* @place is the path or the URL. */
    int (*open)(const char *place, const struct tn_fence_options *options, void **ret_self,
                struct tn_text *reterr);
    void (*close)(void *self);
    int (*raise)(void *self, const char *resource, uint64_t token, uint64_t *ret_highest,
                 struct tn_text *reterr);
    int (*show)(void *self, const char *resource, uint64_t *ret_highest, struct tn_text *reterr);
    int (*list)(void *self, tn_fence_each each, void *arg, struct tn_text *reterr);
    /* What show does not tell about a raise; NULL: nothing. */
    int (*probe)(void *self, const char *resource, struct tn_text *reterr);
    /* NULL where it makes no sense. */
    int (*write)(void *self, uint64_t token, const void *data, size_t len, bool append,
                 uint64_t *ret_highest, struct tn_text *reterr);
    int (*install)(void *self, const char *table, const char *resource, struct tn_text *reterr);
    int (*remove)(void *self, const char *table, struct tn_text *reterr);
    const char *install_text; /* What install runs, for people to read; or NULL. */
};

extern const struct tn_fence_ops tn_fence_sqlite_ops;
extern const struct tn_fence_ops tn_fence_file_ops;
extern const struct tn_fence_ops tn_fence_postgres_ops;
extern const struct tn_fence_ops tn_fence_postgresql_ops;
extern const struct tn_fence_ops tn_fence_redis_ops;
extern const struct tn_fence_ops tn_fence_rediss_ops;
extern const struct tn_fence_ops tn_fence_redis_unix_ops;
extern const struct tn_fence_ops tn_fence_http_ops;
extern const struct tn_fence_ops tn_fence_https_ops;
extern const struct tn_fence_ops tn_fence_tenured_ops;
extern const struct tn_fence_ops tn_fence_tenureds_ops;
extern const struct tn_fence_ops tn_fence_unix_ops;
extern const struct tn_fence_ops tn_fence_dynamodb_ops;

/* "PLACE: why", with the foreign part escaped; returns @code. */
int tn_fence_refuse(int code, const char *place, const char *why, struct tn_text *reterr);

/* The same for an errno. */
int tn_fence_refuse_errno(const char *place, int error, struct tn_text *reterr);

/* The same for a file that could not be found, or its folder: what is permanent is
 * TENURE_E_DAMAGED. */
int tn_fence_refuse_missing(const char *place, int error, struct tn_text *reterr);

/* Whether files can be made in the folder of @path, as a raise does. */
TENURE_MUST_USE int tn_fence_folder_check(const char *path, struct tn_text *reterr);

#endif
