/* journal_snapshot.c - the state as a whole, written by a child process; journal.h says when.
 *
 * The child is a copy of the daemon at one instant, so the state it writes is whole, and the daemon
 * serves on meanwhile. The journal goes on in a new file, begun before the child is: whatever
 * becomes of the child, every frame is in one file or the other. The child allocates nothing and
 * ends without any of the daemon's clean-up. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/journal_private.h"

#define CHUNK_BYTES (256 * 1024)

struct writer {
    int fd;
    uint64_t at;
    uint64_t frames;
    uint64_t records;
    size_t len;
    char chunk[CHUNK_BYTES];
};

static int write_chunk(struct writer *writer)
{
    if (writer->len == TN_FRAME_HEAD)
        return 0;
    tn_frame_seal(writer->chunk, (uint32_t)(writer->len - TN_FRAME_HEAD), ++writer->frames);
    int error = tn_journal_write(writer->fd, writer->chunk, writer->len, writer->at);
    writer->at += writer->len;
    writer->len = TN_FRAME_HEAD;
    return error;
}

static int put_record(void *to, const struct tn_journal_record *record)
{
    struct writer *writer = to;
    int error = 0;

    if (sizeof writer->chunk - writer->len < TN_RECORD_MAX)
        error = write_chunk(writer);
    writer->len += tn_record_encode(writer->chunk + writer->len, record);
    writer->records++;
    return error;
}

static int write_state(struct tn_journal *journal, const char *fresh)
{
    static struct writer writer;
    struct tn_file_head head = { .version = TN_FRAME_VERSION,
                                 .kind = TN_FILE_SNAPSHOT,
                                 .store = journal->store,
                                 .seq = journal->snapshot_seq };
    char bytes[TN_FILE_HEAD];

    writer = (struct writer) { .at = TN_FILE_HEAD, .len = TN_FRAME_HEAD };
    writer.fd = openat(journal->dir_fd, fresh, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (writer.fd < 0)
        return errno;
    tn_file_head_encode(bytes, &head);
    int error = tn_journal_write(writer.fd, bytes, sizeof bytes, 0);
    if (error == 0)
        error = journal->state.dump(journal->state.arg, put_record, &writer);
    if (error == 0)
        error = put_record(&writer,
                           &(struct tn_journal_record) { TN_RECORD_LAST, .token = writer.records });
    if (error == 0)
        error = write_chunk(&writer);
    if (error == 0 && fsync(writer.fd) != 0)
        error = errno;
    (void)close(writer.fd);
    return error;
}

_Noreturn static void child(struct tn_journal *journal, pid_t parent)
{
    char fresh[TN_JOURNAL_NAME];
    char name[TN_JOURNAL_NAME];

    /* The next daemon must find no writer of an old state; and the lock is not ours to keep. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)close(journal->lock_fd);
    tn_journal_name(name, TN_FILE_SNAPSHOT, journal->snapshot_seq, "");
    tn_journal_name(fresh, TN_FILE_SNAPSHOT, journal->snapshot_seq, ".new");
    int error = getppid() == parent ? write_state(journal, fresh) : ECHILD;
    if (error == 0 && (renameat(journal->dir_fd, fresh, journal->dir_fd, name) != 0 ||
                       fsync(journal->dir_fd) != 0))
        error = errno;
    if (error != 0)
        (void)unlinkat(journal->dir_fd, fresh, 0);
    _exit(error != 0);
}

int tn_journal_snapshot(struct tn_journal *journal, struct tn_text *reterr)
{
    pid_t parent = getpid();
    int rc = 0;

    if (journal->first_seq != journal->seq + 1)
        rc = tn_journal_create(journal, journal->seq + 1, reterr);
    if (rc != 0)
        return rc;
    tn_journal_prepare(journal);
    journal->snapshot_seq = journal->seq;
    pid_t pid = fork();
    if (pid == 0)
        child(journal, parent);
    if (pid < 0)
        return tn_journal_refuse_errno(journal, "", errno, reterr);
    journal->snapshot_pid = pid;
    journal->grown_bytes = 0;
    return 0;
}

int tn_journal_snapshot_ended(struct tn_journal *journal, int status)
{
    char name[TN_JOURNAL_NAME];
    struct stat st;

    journal->snapshot_pid = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return TENURE_E_UNAVAILABLE;
    tn_journal_name(name, TN_FILE_SNAPSHOT, journal->snapshot_seq, "");
    if (fstatat(journal->dir_fd, name, &st, 0) == 0)
        journal->snapshot_len = (uint64_t)st.st_size;
    tn_journal_sweep(journal, journal->snapshot_seq);
    return 0;
}
