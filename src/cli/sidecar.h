/* sidecar.h - what `run --http` and `elect --http` tell programs beside them: load balancers,
 * probes, Prometheus, the application itself.
 *
 *     GET /          200 {"name":"<label of the leader>"}; an empty name while there is none
 *     GET /healthz   200 while leading or cleanly following, otherwise 503
 *     GET /leader    200 on the leader, otherwise 503; both say who leads
 *     GET /follower  200 on a healthy follower, otherwise 503; the same words
 *     GET /token     200 and the fencing token on the leader, otherwise 503
 *     GET /metrics   for Prometheus
 *
 * Who is leaving is no leader for these pages, although its term goes on until the work has
 * stopped: no new work should be sent there. Threads: the verb's own. */
#ifndef TN_CLI_SIDECAR_H
#define TN_CLI_SIDECAR_H

#include "cli/campaign.h"
#include "cli/http.h"

enum { TN_SIDECAR_BUCKETS = 12, TN_SIDECAR_REASONS = TENURE_REASON_ASKED + 1 };

struct tn_sidecar {
    struct tn_http *http; /* NULL: nobody asked for pages. */
    const struct tn_campaign *campaign;
    const struct tenure_election *election;
    bool busy;                      /* Work of a term that is over may still run. */
    bool leaving;                   /* No further term, and this one ends. */
    char leader[TENURE_ID_MAX + 1]; /* Another, as heard last; empty: nobody. */
    uint64_t terms, renewals, jeopardies;
    uint64_t losses[TN_SIDECAR_REASONS];
    uint64_t took[TN_SIDECAR_BUCKETS]; /* Renewals, by how long each took; the last: longer. */
    tenure_ns took_sum;
    tenure_ns deadline; /* As of the last renewal. */
};

/* Listen on @address; NULL: there are no pages. @campaign is borrowed, and may be opened later.
 * Returns -1 to go on, or the exit status after one line on stderr. */
int tn_sidecar_open(struct tn_sidecar *sidecar, const char *verb, const char *address,
                    const struct tn_campaign *campaign);
void tn_sidecar_close(struct tn_sidecar *sidecar);

/* Count what happens in the election. */
void tn_sidecar_hear(struct tn_sidecar *sidecar, const struct tenure_event *event);

/* Answer who has asked. */
void tn_sidecar_run(struct tn_sidecar *sidecar);

#endif
