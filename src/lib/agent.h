/* agent.h - what an agent (src/daemon/agent.c) needs of the library beside tenure.h. */
#ifndef TN_LIB_AGENT_H
#define TN_LIB_AGENT_H

#include "tenure/tenure.h"

/* A flag of struct tenure_options: others act for the session, too, and go on when this process has
 * ended. So its end must not end the session, and the store must outlive it. */
#define TN_LIB_UNBOUND (1u << 30)

/* Open the session now, though nobody campaigns yet. 0 or TENURE_E_CLOSED. */
int tn_lib_open_session(struct tenure *tenure);

/* Keep what the next process needs to go on with this session in the file @path (runtime/ledger.h),
 * and go on with that of a process before this one, if the file has it. Before anything else is
 * done with @tenure. @url: the store's. 0 or a code, with a line in @reterr. Where another process
 * cannot go on with a session (TN_STORE_RESUMES) nothing is kept: the next one begins anew. */
int tn_lib_keep(struct tenure *tenure, const char *path, const char *url,
                struct tenure_error *reterr);

/* Whether that file was of this boot and this store. */
bool tn_lib_resumed(const struct tenure *tenure);

/* What that process had asked for: @index from 0 on; false: no more. @ret_token: of its term; 0:
 * none was told. The name stays until tenure_close. */
bool tn_lib_past(const struct tenure *tenure, uint32_t index, const char **ret_name,
                 uint64_t *ret_token);

/* Campaign for it. With the @token of its term the work goes on: what comes is WON with that token,
 * or STOP or LOST without a WON. With 0 it is given back; call tenure_leave next. One thread. */
TENURE_MUST_USE int tn_lib_resume(struct tenure *tenure, uint32_t index, uint64_t token,
                                  const struct tenure_campaign *campaign,
                                  struct tenure_election **ret_election,
                                  struct tenure_error *reterr);

/* The session's deadline as it stands; 0: there is none. Lock-free. What the store told before it
 * was extended to that is there for tenure_dispatch. */
tenure_ns tn_lib_deadline(const struct tenure *tenure);

/* What a renewal proves when the store answers at once: that deadline less the time of its request.
 */
tenure_ns tn_lib_span(struct tenure *tenure);

/* Whether @url names a store that an agent can stand before. 0 or a code, with a line in @reterr.
 * Nothing is opened. */
int tn_lib_check_upstream(const char *url, struct tenure_error *reterr);

/* Whether LEADER, as told last, is about a grant of @election's own: that may be told before WON,
 * while fences go up. */
bool tn_lib_leader_is_mine(const struct tenure_election *election);

#endif
