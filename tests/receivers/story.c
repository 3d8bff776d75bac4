/* story.c - the paused leader, for real: processes, leases of the embedded store, and SIGSTOP.
 *
 * The leader holds a lease of one second, has written once, and is stopped before its second write.
 * Its lease runs out; a successor is elected by the same store and raises the fence, but writes
 * nothing yet. Then the leader is woken up and writes. The control is the same without a fence. */
#define _GNU_SOURCE /* mkdtemp */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tenure/error.h"
#include "tests/receivers/fences.h"

/* A lease through the command, as scripts take it; 0: none. */
static uint64_t elect(const char *folder, const char *ttl)
{
    const char *build = getenv("TENURE_BUILD");
    char command[512];
    uint64_t token = 0;

    (void)snprintf(command, sizeof command,
                   "%s/tenure acquire story --ttl %s --wait 30s --store sqlite:%s/store.db",
                   build != NULL ? build : "build", ttl, folder);
    FILE *in = popen(command, "r");
    if (in == NULL || fscanf(in, "TENURE_TOKEN=%" SCNu64, &token) != 1)
        token = 0;
    return in != NULL && pclose(in) == 0 ? token : 0;
}

bool unguarded;

static unsigned writer(void)
{
    return unguarded ? CONTROL_WRITER : STORY_WRITER;
}

/* Told by one byte when to go on; tells the code of each write. */
static _Noreturn void lead(const struct receiver *receiver, uint64_t token, int in, int out)
{
    char error[256] = "";
    void *connection = receiver->open(error, sizeof error);

    for (unsigned n = 0; connection != NULL && n < 2; n++) {
        int code = receiver->write(connection, token, writer(), n, error, sizeof error);
        char go;

        if (write(out, &code, sizeof code) != (ssize_t)sizeof code || read(in, &go, 1) != 1)
            break;
    }
    _exit(0);
}

struct tally {
    uint64_t last;
    unsigned records;
};

static void count(void *arg, uint64_t token, unsigned by, unsigned n)
{
    struct tally *tally = arg;

    (void)n;
    tally->records += by == writer();
    tally->last = token;
}

/* What is said of it when it ends otherwise than it must, or NULL. */
static const char *play(const struct receiver *receiver, const char *folder, int in, int out,
                        pid_t leader)
{
    char error[256] = "";
    struct tally tally = { 0 };
    int code = -1;

    if (read(in, &code, sizeof code) != (ssize_t)sizeof code || code != 0)
        return "the leader cannot write at all";
    (void)kill(leader, SIGSTOP);
    uint64_t token = elect(folder, "30s");
    if (token == 0)
        return "no successor was elected";
    if (!unguarded && receiver->raise(token, error, sizeof error) != 0) {
        printf("%s\n", error);
        return "the fence cannot be raised";
    }
    (void)kill(leader, SIGCONT);
    if (write(out, "g", 1) != 1 || read(in, &code, sizeof code) != (ssize_t)sizeof code)
        return "the leader did not go on";
    if (!receiver->read(count, &tally))
        return "the data cannot be read";
    if (unguarded)
        return code == 0 && tally.records == 2 ? NULL : "without a fence there was no damage";
    if (code != TENURE_E_STALE)
        return "the woken leader was not told that it is stale";
    return tally.records == 1 ? NULL : "the woken leader's write arrived";
}

static void remove_store(const char *folder)
{
    static const char *const names[] = { "store.db", "store.db-journal", "store.db-bell" };
    char file[128];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(file, sizeof file, "%s/%s", folder, names[i]);
        (void)unlink(file);
    }
    (void)rmdir(folder);
}

/* Two elections, and what comes of them; NULL: all is as it must be. */
static const char *tell(const struct receiver *receiver)
{
    char folder[64] = "/tmp/tn-story-......";
    const char *wrong = "no lease, or no process, can be had";
    int to[2], from[2];

    memset(strchr(folder, '.'), 'X', 6); /* What mkdtemp replaces. */
    if (mkdtemp(folder) == NULL || pipe(to) != 0 || pipe(from) != 0)
        return wrong;
    uint64_t token = elect(folder, "1s");
    (void)fflush(stdout);
    pid_t leader = token > 0 ? fork() : -1;
    if (leader == 0)
        lead(receiver, token, to[0], from[1]);
    (void)close(to[0]);
    (void)close(from[1]);
    if (leader > 0) {
        wrong = play(receiver, folder, from[0], to[1], leader);
        (void)kill(leader, SIGKILL);
        (void)waitpid(leader, NULL, 0);
    }
    (void)close(to[1]);
    (void)close(from[0]);
    remove_store(folder);
    return wrong;
}

bool tell_story(const struct receiver *receiver, bool guarded)
{
    const char *wrong = "the table's guard cannot be changed";

    unguarded = !guarded;
    if (guarded || receiver->guard == NULL || receiver->guard(false))
        wrong = tell(receiver);
    if (!guarded && receiver->guard != NULL && !receiver->guard(true) && wrong == NULL)
        wrong = "the table's guard cannot be changed";
    unguarded = false;
    if (wrong != NULL)
        printf("FAIL %s, the paused leader%s: %s\n", receiver->name,
               guarded ? "" : " without a fence", wrong);
    else
        printf("%s, the paused leader%s\n", receiver->name,
               guarded ? ": refused" : " without a fence: did damage, as it must");
    return wrong == NULL;
}
