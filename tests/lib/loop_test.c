/* loop_test.c - programs with a loop of their own, and programs that fork. */
#define _GNU_SOURCE /* mkdtemp */
#include <dirent.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "tests/lib/stage.h"

/* As an application's loop would: wait for the descriptor, then dispatch. */
static bool turn_until(struct tenure *tenure, struct listener *listener,
                       enum tenure_event_kind kind, unsigned count)
{
    struct pollfd fd = { .fd = tenure_fd(tenure), .events = POLLIN };
    tenure_ns by = tn_boottime() + STAGE_PATIENCE;

    while (listener_count(listener, kind) < count && tn_boottime() < by) {
        if (poll(&fd, 1, 100) > 0)
            CHECK(tenure_dispatch(tenure) >= 0);
    }
    CHECK_STR(listener->broken, NULL);
    return listener_count(listener, kind) >= count;
}

TEST(callbacks_run_within_dispatch_and_nowhere_else)
{
    struct listener *one = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", TENURE_OWN_LOOP);
    struct tenure_election *election = stage_campaign(tenure, "job", 0, one);

    CHECK(tenure_fd(tenure) >= 0);
    CHECK(stage_leads(election, true));
    CHECK_EQ_U64(listener_count(one, TENURE_WON), 0);
    CHECK(turn_until(tenure, one, TENURE_WON, 1));
    CHECK_EQ_I64(tenure_resign(election), 0);
    CHECK(turn_until(tenure, one, TENURE_STOP, 1));
    CHECK_EQ_I64(tenure_drained(election), 0);
    CHECK(turn_until(tenure, one, TENURE_LOST, 1));
    /* And then the descriptor is quiet. */
    struct pollfd fd = { .fd = tenure_fd(tenure), .events = POLLIN };
    tenure_ns by = tn_boottime() + STAGE_PATIENCE;
    while (poll(&fd, 1, 50) > 0 && tn_boottime() < by)
        CHECK(tenure_dispatch(tenure) >= 0);
    CHECK_EQ_I64(poll(&fd, 1, 0), 0);
    CHECK_EQ_I64(tenure_dispatch(tenure), 0);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

TEST(the_deadline_wakes_an_own_loop)
{
    struct listener *one = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", TENURE_OWN_LOOP);
    struct tenure_election *election = stage_campaign(tenure, "job", 0, one);

    CHECK(turn_until(tenure, one, TENURE_WON, 1));
    stage_lose("a", 1u << TN_OP_RENEW);
    CHECK(turn_until(tenure, one, TENURE_LOST, 1));
    CHECK_EQ_I64(listener_last(one, TENURE_LOST).reason, TENURE_REASON_EXPIRED);
    CHECK_EQ_U64(tenure_token(election), 0);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

static void close_inside(struct listener *listener, struct tenure_election *election,
                         const struct tenure_event *event)
{
    (void)event;
    tenure_leave(election);
    if (tenure_dispatch(listener->arg) != 0) /* Is already at it. */
        listener->broken = "dispatch within dispatch";
    if (tenure_close(listener->arg) != 0)
        listener->broken = "close failed";
}

TEST(dispatch_says_that_a_callback_closed_the_handle)
{
    struct listener *one = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", TENURE_OWN_LOOP);
    struct tenure_election *election = stage_campaign(tenure, "job", 0, one);
    int rc = 0;

    one->also = close_inside;
    one->arg = tenure;
    CHECK(stage_leads(election, true));
    tenure_ns by = tn_boottime() + STAGE_PATIENCE;
    while (rc >= 0 && tn_boottime() < by)
        rc = tenure_dispatch(tenure);
    CHECK_EQ_I64(rc, TENURE_E_CLOSED);
    CHECK_STR(one->broken, NULL);
}

static void *dispatch_once(void *arg)
{
    struct tenure *tenure = arg;

    return tenure_dispatch(tenure) >= 0 ? tenure : NULL;
}

/* Close waits for a dispatch on another thread, which must not touch the handle afterwards. */
TEST(close_waits_for_a_dispatch_elsewhere)
{
    for (int i = 0; i < 20; i++) {
        struct listener *one = listener_new();
        struct tenure *tenure = stage_open(stage_url(), "a", TENURE_OWN_LOOP);
        struct tenure_election *election = stage_campaign(tenure, "job", 0, one);
        pthread_t thread;
        void *fine;

        one->also = listener_block;
        atomic_store(&one->blocked, true);
        CHECK(stage_leads(election, true));
        CHECK(pthread_create(&thread, NULL, dispatch_once, tenure) == 0);
        CHECK(listener_waits(one, TENURE_WON, 1));
        atomic_store(&one->blocked, false);
        CHECK_EQ_I64(tenure_close(tenure), 0);
        CHECK(pthread_join(thread, &fine) == 0);
        CHECK(fine != NULL);
    }
}

/* --- Fork ------------------------------------------------------------------------------------- */

/* What is wrong in the child, as an exit status. */
static int inspect_child(struct tenure *tenure, struct tenure_election *election)
{
    struct tenure_election *late = NULL;

    if (tenure_token(election) != 0 || tenure_deadline(election) != 0)
        return 1;
    if (tenure_resign(election) != TENURE_E_CLOSED || tenure_stand(election) != TENURE_E_CLOSED ||
        tenure_drained(election) != TENURE_E_CLOSED ||
        tenure_ready(election, true) != TENURE_E_CLOSED ||
        tenure_check_in(election) != TENURE_E_CLOSED)
        return 2;
    if (tenure_campaign(tenure, "late", NULL, &late) != TENURE_E_CLOSED ||
        tenure_observe(tenure, "late", NULL, NULL, &late) != TENURE_E_CLOSED || late != NULL)
        return 3;
    if (tenure_fd(tenure) != -1 || tenure_dispatch(tenure) != TENURE_E_CLOSED ||
        tenure_health(tenure, NULL) != TENURE_E_CLOSED)
        return 4;
    if (strcmp(tenure_name(election), "job") != 0)
        return 5;
    tenure_leave(election);
    return tenure_close(tenure) == TENURE_E_CLOSED ? 0 : 6;
}

static void check_child(pid_t child)
{
    int status;

    CHECK(child > 0);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status));
    CHECK_EQ_I64(WEXITSTATUS(status), 0);
}

TEST(a_forked_child_is_inert_and_its_parent_leads_on)
{
    struct listener *one = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    struct tenure_election *election = stage_campaign(tenure, "job", TENURE_TELL_RENEWED, one);

    CHECK(listener_waits(one, TENURE_WON, 1));
    uint64_t token = tenure_token(election);
    for (int i = 0; i < 20; i++) { /* At various moments of the other threads. */
        pid_t child = fork();
        if (child == 0)
            _exit(inspect_child(tenure, election));
        check_child(child);
    }
    CHECK_EQ_U64(tenure_token(election), token);
    CHECK(listener_waits(one, TENURE_RENEWED, listener_count(one, TENURE_RENEWED) + 1));
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

struct churn {
    struct tenure *tenure;
    atomic_bool over;
};

/* Keeps the loop's thread inside SQLite. */
static void *come_and_go(void *arg)
{
    struct churn *churn = arg;

    while (!atomic_load(&churn->over)) {
        struct tenure_election *election = NULL;
        if (tenure_campaign(churn->tenure, "job", NULL, &election) != 0)
            return churn;
        (void)stage_leads(election, true);
        (void)tenure_drained(election);
        tenure_leave(election);
    }
    return NULL;
}

/* What tenure_open does first in a child: it takes a lock of the whole process. */
static int use_sqlite(void)
{
    void *memory;

    (void)alarm(20);
    memory = sqlite3_malloc(1);
    sqlite3_free(memory);
    return memory != NULL ? 0 : 1;
}

static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;

    CHECK(dir != NULL);
    while ((entry = readdir(dir)) != NULL)
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    (void)closedir(dir);
    CHECK(rmdir(folder) == 0);
}

/* docs/library.md promises that a child may open a handle of its own. */
TEST(a_forked_child_finds_no_lock_of_sqlite_taken)
{
    char url[64], folder[] = "/tmp/tn-fork-......";
    struct churn churn = { .over = false };
    pthread_t thread;
    void *failed = NULL;

    memset(strchr(folder, '.'), 'X', 6); /* What mkdtemp replaces. */
    CHECK(mkdtemp(folder) != NULL);
    (void)snprintf(url, sizeof url, "sqlite:%s/fork.db", folder);
    churn.tenure = stage_open(url, "a", 0);
    CHECK(pthread_create(&thread, NULL, come_and_go, &churn) == 0);
    for (int i = 0; i < 400; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(use_sqlite());
        check_child(child);
    }
    atomic_store(&churn.over, true);
    CHECK(pthread_join(thread, &failed) == 0);
    CHECK(failed == NULL);
    CHECK_EQ_I64(tenure_close(churn.tenure), 0);
    remove_folder(folder);
}

static void fork_inside(struct listener *listener, struct tenure_election *election,
                        const struct tenure_event *event)
{
    if (event->kind == TENURE_WON && tenure_token(election) != 0)
        *(pid_t *)listener->arg = fork();
}

/* The child returns from the callback into a handle that is no longer its own. */
TEST(a_child_that_a_callback_forked_is_inert)
{
    struct listener *one = listener_new();
    struct tenure *tenure = stage_open(stage_url(), "a", TENURE_OWN_LOOP);
    struct tenure_election *election = stage_campaign(tenure, "job", 0, one);
    static pid_t child;

    child = -1;
    one->also = fork_inside;
    one->arg = &child;
    CHECK(stage_leads(election, true));
    int rc = tenure_dispatch(tenure);
    if (child == 0)
        _exit(rc == TENURE_E_CLOSED ? inspect_child(tenure, election) : 7);
    CHECK(rc > 0);
    check_child(child);
    CHECK(tenure_token(election) != 0);
    CHECK_EQ_I64(tenure_close(tenure), 0);
}

TEST(a_close_that_failed_is_said_again)
{
    struct tenure *tenure = stage_open(stage_url(), "a", 0);
    struct tenure_election *election = stage_campaign(tenure, "job", 0, listener_new());

    CHECK(stage_leads(election, true));
    stage_spoil_next(TN_OP_CLOSE);
    CHECK_EQ_I64(tenure_close(tenure), 0);
    CHECK_EQ_U64(stage_sent(TN_OP_CLOSE), 2);
}
