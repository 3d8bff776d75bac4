/* fenced-writer.c - a leader that writes to a file, and a file that refuses an older leader.
 *
 *     cc fenced-writer.c $(pkg-config --cflags --libs tenure) -o fenced-writer
 *     ./fenced-writer nightly-report journal.txt [STORE]
 *
 * A process can be stopped between the look at its token and the write, for an hour, and then write
 * as if nothing had happened. Only the receiver can tell: it keeps the highest token that it has
 * seen, here in the first line of the file, and refuses a lower one. Check and write are one step,
 * because the file stays locked for both. (For plain files there is a ready-made one that also
 * survives a crash in the middle of a write: tenure/fence_file.h.) */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "tenure/fence.h"
#include "tenure/tenure.h"

enum { HEAD = 21 }; /* Twenty digits and a newline. */

static volatile sig_atomic_t stopping;

static void stop(int signal)
{
    (void)signal;
    stopping = 1;
}

/* --- The receiver ----------------------------------------------------------------------------- */

static int read_fence(int file, struct tenure_fence *fence)
{
    char head[HEAD + 1] = "";
    ssize_t got = pread(file, head, HEAD, 0);

    if (got < 0 || (got > 0 && (got < HEAD || head[HEAD - 1] != '\n')))
        return TENURE_E_DAMAGED;
    fence->highest = got > 0 ? strtoull(head, NULL, 10) : 0; /* A new file has seen none. */
    return 0;
}

static int write_fence(int file, const struct tenure_fence *fence)
{
    char head[HEAD + 1];

    (void)snprintf(head, sizeof head, "%020" PRIu64 "\n", tenure_fence_highest(fence));
    return pwrite(file, head, HEAD, 0) == HEAD ? 0 : TENURE_E_UNAVAILABLE;
}

/* Append @line if @token is not older than what the file has seen. */
static int append(const char *path, uint64_t token, const char *line)
{
    struct tenure_fence fence;
    size_t len = strlen(line);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

    if (file < 0 || flock(file, LOCK_EX) != 0) {
        if (file >= 0)
            (void)close(file);
        return TENURE_E_UNAVAILABLE;
    }
    int rc = read_fence(file, &fence);
    if (rc == 0)
        rc = tenure_fence_admit(&fence, token);
    if (rc == 0)
        rc = write_fence(file, &fence);
    if (rc == 0 && (lseek(file, 0, SEEK_END) < 0 || write(file, line, len) != (ssize_t)len ||
                    fdatasync(file) != 0))
        rc = TENURE_E_UNAVAILABLE;
    (void)close(file); /* And with it the lock. */
    return rc;
}

/* --- The leader ------------------------------------------------------------------------------- */

/* Until a signal, or until the file refuses. The call of tenure_wait says that no write is under
 * way: only then does the lease pass on when an operator asks for a hand-over. */
static int write_while_leading(struct tenure_election *election, const char *path)
{
    struct timespec pause = { .tv_nsec = 100000000 };
    uint64_t token;
    char line[64];
    int rc = 0;

    while (!stopping && (rc == 0 || rc == TENURE_E_TIMEOUT)) {
        rc = tenure_wait(election, 500000000, &token);
        while (rc == 0 && !stopping && tenure_token(election) == token) {
            (void)snprintf(line, sizeof line, "%" PRIu64 " %ld\n", token, (long)getpid());
            rc = append(path, token, line);
            (void)nanosleep(&pause, NULL);
        }
    }
    return rc == TENURE_E_TIMEOUT ? 0 : rc;
}

int main(int argc, char **argv)
{
    struct tenure_campaign campaign = { .size = sizeof campaign,
                                        .flags = TENURE_DRAINED_ON_RETURN };
    struct tenure_election *election;
    struct tenure_error error;
    struct tenure *tenure;

    if (argc < 3) {
        (void)fprintf(stderr, "usage: fenced-writer NAME FILE [STORE]\n");
        return 64;
    }
    (void)signal(SIGTERM, stop);
    (void)signal(SIGINT, stop);
    if (tenure_open(argc > 3 ? argv[3] : NULL, NULL, &tenure, &error) != 0) {
        (void)fprintf(stderr, "fenced-writer: %s\n", error.text);
        return EXIT_FAILURE;
    }
    int rc = tenure_campaign_start(tenure, argv[1], &campaign, &election, &error);
    if (rc != 0)
        (void)fprintf(stderr, "fenced-writer: %s\n", error.text);
    else if ((rc = write_while_leading(election, argv[2])) != 0)
        (void)fprintf(stderr, "fenced-writer: %s: %s\n", argv[2], tenure_strerror(rc));
    (void)tenure_close(tenure);
    return rc == TENURE_E_STALE ? 80 : rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
