/* run_command.c - the command of `tenure run` below its guardian; run.h has the picture. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/run.h"
#include "lib/command.h"

/* --- Starting it ------------------------------------------------------------------------------ */

static void start_command(struct tn_run *run)
{
    char name[sizeof "TENURE_NAME=" + TN_NAME_MAX], id[sizeof "TENURE_ID=" + TN_LABEL_MAX];
    char token[64], slot[64];
    uint32_t number = tenure_slot(run->election);
    const char *const env[] = { name, id, token, number > 0 ? slot : NULL, NULL };
    struct tn_guardian_options options = {
        .argv = run->argv,
        .env = env,
        .grace = run->campaign.plan.grace,
        .kill_bound = run->campaign.plan.kill_bound,
        .deadline = tenure_deadline(run->election),
        .watch_every = TN_GUARDIAN_WATCH,
        .contain = run->contain,
    };
    struct tn_store_binding binding;

    if (options.deadline == 0)
        return; /* Over already; the news of it are on their way. */
    (void)snprintf(name, sizeof name, "TENURE_NAME=%s", run->name);
    (void)snprintf(id, sizeof id, "TENURE_ID=%s", run->campaign.label);
    (void)snprintf(token, sizeof token, "TENURE_TOKEN=%" PRIu64, run->token);
    (void)snprintf(slot, sizeof slot, "TENURE_SLOT=%" PRIu32, number);
    if (tn_lib_binding(run->campaign.tenure, &binding))
        options.binding = &binding;
    int rc = tn_guardian_start(&options, &run->guardian);
    if (rc == TENURE_E_EXPIRED || rc == TENURE_E_UNAVAILABLE)
        return; /* Too little of the term is left, or the store is away: with the next renewal. */
    run->deadline = options.deadline;
    if (rc < 0)
        run->guardian = NULL;
    tn_run_move(run, rc == 0 ? TN_RUN_RUNS : TN_RUN_KEEPS);
    if (rc == 0)
        return;
    tn_run_leave(run, tn_cli_fail(TN_EXIT_UNAVAILABLE, "run",
                                  "the command could not be started: %s", tenure_strerror(rc)));
}

/* Whether the command is to run. What is not known now is asked again with the next renewal. */
static bool is_due(struct tn_run *run)
{
    int status = TN_EXIT_OK;

    if (run->every.period == 0)
        return true;
    enum tn_every_answer answer = tn_every_ask(&run->every, &status);
    if (answer == TN_EVERY_DONE)
        tn_run_leave(run, tn_cron_skip_status(&run->cron));
    else if (answer == TN_EVERY_FAILED)
        tn_run_leave(run, status);
    return answer == TN_EVERY_DUE;
}

void tn_run_drive_command(struct tn_run *run)
{
    if (run->phase == TN_RUN_STARTS && !run->leaving && is_due(run))
        start_command(run);
    tenure_ns deadline = tenure_deadline(run->election);
    if (run->guardian == NULL || run->phase == TN_RUN_LOST || deadline <= run->deadline)
        return;
    /* Not told, it acts by the deadline it knows, and is told again next time. */
    if (tn_guardian_extend(run->guardian, deadline) == 0)
        run->deadline = deadline;
}

/* --- What the guardian says ------------------------------------------------------------------- */

static void exec_failed(struct tn_run *run, int error)
{
    char buf[TN_CLI_LINE_MAX];
    struct tn_text text;

    tn_text_init(&text, buf, sizeof buf);
    tn_cli_quote(&text, run->argv[0]);
    (void)tn_cli_fail(126, "run", "%s cannot be run: %s", buf, strerror(error));
}

/* The store is told while the term lasts, so that the next leader knows. True: hold on. */
static bool succeed(struct tn_run *run)
{
    tn_every_note(&run->every, run->election, run->cron.started);
    return tn_cron_hold_on(&run->cron);
}

/* Nothing of the tree is left. A term that was lost may be followed by another; otherwise the
 * command ended, or was told to, and so do we, perhaps after a hold. */
static void tree_reaped(struct tn_run *run)
{
    int status = tn_guardian_status(run->guardian);
    bool over = run->phase != TN_RUN_RUNS;

    tn_guardian_free(run->guardian);
    run->guardian = NULL;
    tn_run_move(run, run->phase == TN_RUN_LOST ? TN_RUN_WAITS : TN_RUN_KEEPS);
    if (over && run->once)
        tn_run_leave(run, TN_EXIT_LOST);
    else if (!over && status == 0 && !run->leaving && succeed(run))
        run->status = status; /* Also when a signal or a loss ends the hold. */
    else if (!over)
        tn_run_leave(run, status >= 0 ? status : TN_EXIT_LOST);
    if (over && !run->leaving)
        (void)tenure_drained(run->election);
    tn_run_tell_outage(run);
}

/* Why the guardian ended the term of its own accord; NULL: it did not. */
static const char *why_cut(const struct tn_guardian_event *event)
{
    if (event->kind == TN_GUARDIAN_LOST)
        return "its guardian was killed";
    if (event->kind != TN_GUARDIAN_STOPPING)
        return NULL;
    switch (event->value) {
    case TN_REASON_DEADLINE:
        return "expired";
    case TN_REASON_SUPERVISOR_STOPPED:
        return "this process was stopped";
    case TN_REASON_GUARDIAN_STOPPED:
        return "its guardian was stopped";
    case TN_REASON_UNBOUND:
        return "the store went away before the command was run";
    default:
        return NULL;
    }
}

/* Once, and only when the command really runs: an error stays one line. */
static void warn_unfenced(struct tn_run *run)
{
    if (run->fence == NULL && !run->told_unfenced)
        (void)tn_cli_fail(0, "run",
                          "warning: %s has no fence: after a pause the command could write "
                          "although another one leads; see --fence, or say --fence none",
                          run->name);
    run->told_unfenced = true;
}

/* Once: what is not certain without a containment. */
static void warn_uncontained(struct tn_run *run)
{
    const char *why = tn_guardian_why_tree(run->guardian);

    if (tn_guardian_containment(run->guardian) == TN_CONTAIN_TREE && !run->told_uncontained)
        (void)tn_cli_fail(0, "run",
                          "warning: %s runs without containment%s%.200s%s: if its processes fork "
                          "and exit without rest, some may act after the deadline; see --contain",
                          run->name, why[0] != '\0' ? " (" : "", why, why[0] != '\0' ? ")" : "");
    run->told_uncontained = true;
}

void tn_run_hear_guardian(struct tn_run *run)
{
    struct tn_guardian_event event;

    while (run->guardian != NULL && tn_guardian_dispatch(run->guardian, &event)) {
        const char *why = why_cut(&event);
        /* Also when a signal that arrived since has told us to leave: the term was over first. But
         * a guardian that is slow to end a command that was asked to leave costs no term. */
        if (why != NULL && run->phase != TN_RUN_LOST &&
            !(run->leaving && event.kind == TN_GUARDIAN_LOST)) {
            tn_run_tell_lost(run, why);
            if (run->phase != TN_RUN_CUT)
                tn_run_move(run, TN_RUN_CUT);
        }
        if (event.kind == TN_GUARDIAN_STARTED) {
            run->cron.started = event.at;
            warn_unfenced(run);
            warn_uncontained(run);
        } else if (event.kind == TN_GUARDIAN_EXEC_FAILED)
            exec_failed(run, event.value);
        else if (event.kind == TN_GUARDIAN_REAPED)
            tree_reaped(run);
    }
}
