/* raise.c - the barrier (P4): an election's fences go up before anyone hears that it was won.
 *
 * A receiver may be a database far away, so each raise has a short-lived thread of its own; there
 * is one per grant of a fenced election, not one per renewal. What can fail: the receiver, and then
 * the claim asks again until its time is over and gives the grant back; or it stands higher
 * already, and then the grant is of a store that went back in time. */
#include <stdlib.h>

#include "lib/forks.h"
#include "lib/private.h"
#include "receivers/spec.h"

struct job {
    struct tenure_election *election;
    struct tn_request request;
};

static void finish_raise(struct tenure *tenure, const struct job *job, int status, uint64_t highest,
                         const char *error)
{
    struct tenure_election *election = job->election;
    struct tn_text text;

    tn_driver_lock(&tenure->driver);
    election->raising = false;
    tenure->raising--;
    if (status != 0) {
        tenure->fence_status = status;
        tn_text_init(&text, tenure->fence_error, sizeof tenure->fence_error);
        tn_text_add(&text, error[0] != '\0' ? error : tenure_strerror(status));
    }
    if (election->life == TN_ELECTION_DISPOSED && tenure->calling != election)
        tn_election_free(election);
    else if (election->life == TN_ELECTION_STANDS && !tenure->closing)
        tn_driver_raised(&tenure->driver, &job->request, status, highest);
    (void)pthread_cond_broadcast(&tenure->returned);
    tn_driver_unlock(&tenure->driver);
}

int tn_lib_fence_status(struct tenure *tenure, struct tn_text *reterr)
{
    tn_driver_lock(&tenure->driver);
    int status = tenure->fence_status;
    if (status != 0 && reterr != NULL)
        tn_text_add(reterr, tenure->fence_error);
    tn_driver_unlock(&tenure->driver);
    return status;
}

static void *run(void *arg)
{
    struct job *job = arg;
    struct tenure *tenure = job->election->tenure;
    tenure_ns timeout = tenure->driver.plan.attempt_timeout;
    char buf[TENURE_ERROR_TEXT] = "";
    struct tn_text text;
    uint64_t highest = 0;
    int status = 0;

    tn_text_init(&text, buf, sizeof buf);
    tn_work_begin();
    for (size_t i = 0; status == 0 && job->election->fences[i] != NULL; i++)
        status = tn_fence_spec_raise(job->election->fences[i], job->request.token, timeout,
                                     &highest, &text);
    tn_work_end();
    tn_text_cut(&text);
    finish_raise(tenure, job, status, highest, buf);
    free(job);
    return NULL;
}

void tn_lib_raise(void *arg, const struct tn_request *request)
{
    struct tenure *tenure = arg;
    struct tenure_election *election = (struct tenure_election *)(void *)request->seat;
    struct job *job = election->raising ? NULL : malloc(sizeof *job);
    pthread_t thread;

    if (job == NULL)
        return; /* The last one is still at it, or there is no memory: it is asked for again. */
    *job = (struct job) { election, *request };
    if (tn_lib_start_thread(&thread, run, job, "tenure-fence") != 0) {
        free(job);
        return;
    }
    (void)pthread_detach(thread);
    election->raising = true;
    tenure->raising++;
}
