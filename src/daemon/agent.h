/* agent.h - tenured --upstream: the agent of a host.
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_AGENT_H
#define TN_DAEMON_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "core/agent.h"
#include "core/lease_table.h"

/* Upstreams of one agent, at most; and the bytes of a prefix. */
#define TN_UPSTREAMS_MAX 16
#define TN_UPSTREAM_PREFIX_MAX 128

struct tn_server;
struct tn_call;

TENURE_MUST_USE int tn_agent_open(struct tn_server *server, struct tn_text *reterr);
TENURE_MUST_USE int tn_agent_start(struct tn_server *server);
/* The loop has not ended yet. What local sessions still hold stays with the session upstream. */
void tn_agent_close(struct tn_server *server);
/* Whether it does: then a thread of the library runs still. */
bool tn_agent_left_open(const struct tn_server *server);
void tn_agent_free(struct tn_server *server); /* The loop has. */
/* A local session has got the lease, or let go of it. */
void tn_agent_changed(struct tn_server *server, const struct tn_notice *notice);
/* The same, or its line has changed. */
void tn_agent_look(struct tn_server *server, uint32_t lease);
/* What upstreams had proven before their news. */
struct tn_agent_bounds {
    struct tn_agent_reach list[TN_UPSTREAMS_MAX];
};
/* Hear the upstreams' news; before the step @op, which opens or renews a session. What it has of an
 * upstream that no longer counts for it is recalled (N3). */
void tn_agent_listen(struct tn_server *server, const struct tn_op *op,
                     struct tn_agent_bounds *ret_bounds);
/* The TTL to answer with, behind tn_agent_listen and that step (N1). False: it is answered. */
bool tn_agent_promise(struct tn_call *call, const struct tn_op *op,
                      const struct tn_agent_bounds *bounds, tenure_ns *ttl);
/* What is on record of a name that no local session has; @ret_view points into the agent's memory.
 * False: not known yet; then tn_wait_looked comes, unless upstream does not answer. */
bool tn_agent_record(struct tn_server *server, const char *name, uint32_t len,
                     struct tn_lease_view *ret_view);
/* Whether the name has an upstream, and one more may be observed there; it is answered otherwise.
 * Before the two that observe on behalf of those who only look. */
bool tn_agent_may_look(struct tn_call *call, const char *name, uint32_t len);
/* The name's changes upstream are for the watchers of the name, too. False: no memory. */
bool tn_agent_watch(struct tn_server *server, const char *name, uint32_t len);
/* Drop what nobody has asked for in a while. */
void tn_agent_sweep(struct tn_server *server);
/* Whether the command can be carried out here; it is answered otherwise. */
bool tn_agent_may(struct tn_call *call);
void tn_agent_metrics(struct tn_server *server, struct tn_text *text);
void tn_agent_info(struct tn_server *server, struct tn_text *text);

#endif
