/* chaos.c - tenured is killed two hundred times while sixteen clients take and give back leases.
 *
 * What must hold: every acknowledged grant of a name has a token above all that were acknowledged
 * for it before; a lease that was granted and not given back is still its holder's, under the same
 * token, after any number of kills; two clients never hold one name. TENURE_CHAOS_ROUNDS sets the
 * number of kills. Run by `make check-chaos`. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/prng.h"
#include "tests/daemon/stage.h"

enum { CLIENTS = 16, NAMES = 8 };

/* What all processes know. */
static struct shared {
    _Atomic uint64_t highest[NAMES]; /* Acknowledged to anybody. */
    _Atomic int holder[NAMES];       /* A client's number, or 0. */
    _Atomic uint64_t grants, repeats;
    _Atomic bool over;
    _Atomic int failed;
    char why[300];
} * shared;

static int me;
static int fd = -1;
static char reply[400]; /* The first line; for an array its first words, joined by blanks. */

static void fail(const char *why, int name, uint64_t token)
{
    if (atomic_fetch_add(&shared->failed, 1) == 0)
        (void)snprintf(shared->why, sizeof shared->why,
                       "client %d, name n%d, token %lu: %s; last reply: %.100s", me, name, token,
                       why, reply);
    _exit(1);
}

/* --- A client that never gives up ------------------------------------------------------------- */

static bool connect_again(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", stage.socket);
    if (fd >= 0)
        (void)close(fd);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(fd, (const struct sockaddr *)&address, sizeof address) == 0;
}

static bool read_line(char *line, size_t size)
{
    size_t len = 0;

    while (len < size) {
        if (read(fd, line + len, 1) != 1)
            return false;
        if (line[len] == '\n') {
            line[len - 1] = 0;
            return true;
        }
        len++;
    }
    return false;
}

/* A whole reply into @reply: "granted :7 ..." for arrays of one level. */
static bool read_reply(void)
{
    char line[200];

    if (!read_line(reply, sizeof reply))
        return false;
    if (reply[0] != '*')
        return true;
    long count = strtol(reply + 1, NULL, 10);
    reply[0] = 0;
    for (long i = 0; i < count; i++) {
        if (!read_line(line, sizeof line) || (line[0] == '$' && !read_line(line, sizeof line)))
            return false;
        (void)strncat(reply, line, sizeof reply - strlen(reply) - 2);
        (void)strncat(reply, " ", 2);
    }
    return true;
}

static bool try_ask(const char *line)
{
    size_t len = strlen(line);
    return send(fd, line, len, MSG_NOSIGNAL) == (ssize_t)len && read_reply();
}

/* Ask until there is an answer. Returns how often it took; 0: the end. */
static int ask(const char *line)
{
    char open[100];
    int tries = 1;

    (void)snprintf(open, sizeof open, "SESSION OPEN %032x 86400000\r\n", me + 1);
    while (fd < 0 || !try_ask(line)) {
        if (atomic_load(&shared->over))
            return 0;
        tries += fd >= 0;
        while (!connect_again() || !try_ask(open)) {
            if (atomic_load(&shared->over))
                return 0;
            (void)poll(NULL, 0, 1);
        }
    }
    return tries;
}

static uint64_t granted_token(void)
{
    return strncmp(reply, "granted :", 9) == 0 ? strtoull(reply + 9, NULL, 10) : 0;
}

static void raise_highest(int name, uint64_t token)
{
    uint64_t seen = atomic_load(&shared->highest[name]);
    while (seen < token && !atomic_compare_exchange_weak(&shared->highest[name], &seen, token))
        ;
}

/* One term: take, hold through whatever happens, give back. */
static void one_term(struct tn_prng *prng, uint64_t term)
{
    char line[200];
    int name = (int)tn_prng_below(prng, NAMES);
    uint64_t before = atomic_load(&shared->highest[name]);
    int nobody = 0;
    uint64_t token;

    (void)snprintf(line, sizeof line, "LEASE ACQUIRE %032x %08x%024lx n%d\r\n", me + 1, me + 1,
                   term, name);
    if (ask(line) == 0)
        return;
    token = granted_token();
    if (token == 0) {
        if (strncmp(reply, "held", 4) != 0)
            fail("neither granted nor held", name, 0);
        return;
    }
    if (token <= before)
        fail("not above what was acknowledged before it was asked for", name, token);
    if (!atomic_compare_exchange_strong(&shared->holder[name], &nobody, me + 1))
        fail("somebody else holds it", name, token);
    raise_highest(name, token);
    (void)atomic_fetch_add(&shared->grants, 1);
    for (uint64_t i = tn_prng_below(prng, 3); i > 0; i--) {
        if (ask(line) == 0)
            return;
        if (granted_token() != token)
            fail("an acknowledged grant was lost", name, token);
        (void)atomic_fetch_add(&shared->repeats, 1);
    }
    atomic_store(&shared->holder[name], 0);
    (void)snprintf(line, sizeof line, "LEASE RELEASE %032x %08x%024lx n%d %lu\r\n", me + 1, me + 1,
                   term, name, token);
    int tries = ask(line);
    /* Given back by an attempt whose reply was lost, and taken by another since: stale. */
    if (tries > 0 && strcmp(reply, "+RELEASED") != 0 &&
        (tries == 1 || strncmp(reply, "-STALE", 6) != 0))
        fail("not released", name, token);
}

_Noreturn static void client(int number)
{
    struct tn_prng prng;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    me = number;
    tn_prng_seed(&prng, (uint64_t)number + 1);
    for (uint64_t term = 1; !atomic_load(&shared->over); term++)
        one_term(&prng, term);
    _exit(0);
}

TEST(two_hundred_kills_lose_nothing_and_double_nothing)
{
    const char *text = getenv("TENURE_CHAOS_ROUNDS");
    long rounds = text != NULL ? strtol(text, NULL, 10) : 200;
    struct tn_prng prng;
    pid_t pids[CLIENTS];

    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    tn_prng_seed(&prng, 4711);
    stage_begin();
    for (int i = 0; i < CLIENTS; i++) {
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0)
            client(i);
    }
    for (long i = 0; i < rounds && atomic_load(&shared->failed) == 0; i++) {
        stage_start_with("--snapshot-bytes", "30000");
        (void)poll(NULL, 0, 5 + (int)tn_prng_below(&prng, 60));
        stage_kill();
    }
    stage_start();
    (void)poll(NULL, 0, 200);
    atomic_store(&shared->over, true);
    stage_kill();
    for (int i = 0; i < CLIENTS; i++)
        (void)waitpid(pids[i], NULL, 0);
    CHECK_STR(shared->why, "");
    CHECK(atomic_load(&shared->grants) > (uint64_t)rounds * 5);
    CHECK(atomic_load(&shared->repeats) > (uint64_t)rounds);
    stage_end();
}
