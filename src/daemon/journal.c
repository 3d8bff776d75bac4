/* journal.c - opening, gathering and flushing; journal.h has the contract.
 *
 * The file is written in whole blocks, past the page cache where the file system can do that: the
 * first flush after a pause took a sixth less time so, and what could not be written stays nowhere
 * as if it had been. The block in which the last frame ends is written again with the next one, as
 * it was: whatever becomes of the writing, the frames in it are the same before and after. */
#define _GNU_SOURCE /* flock, O_DIRECTORY, O_DIRECT */
#include "daemon/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "daemon/journal_private.h"
#include "runtime/random.h"

/* The file is filled with zeros this far ahead, whenever less than half of it is left. */
#define AHEAD_BYTES (UINT64_C(1) << 20)
/* What any disk and file system takes for whole. */
#define BLOCK UINT64_C(4096)
/* With a full disk, so much is kept for what nobody asks for: sessions that end. */
#define SHORT_BYTES (AHEAD_BYTES / 4)
#define BATCH_BYTES (size_t)(64 * 1024)

void tn_journal_name(char ret_name[TN_JOURNAL_NAME], enum tn_file_kind kind, uint64_t seq,
                     const char *suffix)
{
    (void)snprintf(ret_name, TN_JOURNAL_NAME, "%s-%016" PRIx64 "%s",
                   kind == TN_FILE_JOURNAL ? "journal" : "snapshot", seq, suffix);
}

int tn_journal_refuse(const struct tn_journal *journal, const char *name, int code, const char *why,
                      struct tn_text *reterr)
{
    tn_text_escape(reterr, journal->config.dir, strlen(journal->config.dir));
    tn_text_addf(reterr, "%s%s: %s", name[0] != 0 ? "/" : "", name, why);
    return code;
}

int tn_journal_refuse_errno(const struct tn_journal *journal, const char *name, int error,
                            struct tn_text *reterr)
{
    int code = error == EACCES || error == EPERM ? TENURE_E_DENIED : TENURE_E_UNAVAILABLE;
    return tn_journal_refuse(journal, name, code, strerror(error), reterr);
}

/* There are file systems that let a file be opened so, and then refuse to write. */
static bool stop_direct(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && (flags & O_DIRECT) != 0 && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

int tn_journal_write(int fd, const char *bytes, size_t len, uint64_t at)
{
    while (len > 0) {
        ssize_t n = pwrite(fd, bytes, len, (off_t)at);
        if (n < 0 && errno != EINTR && !(errno == EINVAL && stop_direct(fd)))
            return errno;
        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
            at += (uint64_t)n;
        }
    }
    return 0;
}

/* --- Opening --------------------------------------------------------------------------------- */

static int open_dir(struct tn_journal *journal, struct tn_text *reterr)
{
    const char *dir = journal->config.dir;
    struct stat st;

    if (mkdir(dir, 0700) != 0 && errno != EEXIST)
        return tn_journal_refuse_errno(journal, "", errno, reterr);
    journal->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (journal->dir_fd < 0 || fstat(journal->dir_fd, &st) != 0)
        return tn_journal_refuse_errno(journal, "", errno, reterr);
    if (st.st_uid != geteuid())
        return tn_journal_refuse(journal, "", TENURE_E_DENIED, "belongs to another user", reterr);
    if ((st.st_mode & 077) != 0)
        return tn_journal_refuse(journal, "", TENURE_E_DENIED,
                                 "is open to other users; run chmod 700 on it", reterr);
    return 0;
}

static int take_lock(struct tn_journal *journal, struct tn_text *reterr)
{
    journal->lock_fd = openat(journal->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (journal->lock_fd < 0)
        return tn_journal_refuse_errno(journal, "lock", errno, reterr);
    if (flock(journal->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return tn_journal_refuse(journal, "", TENURE_E_CONFLICT,
                                 "another tenured runs on this data", reterr);
    return tn_journal_refuse_errno(journal, "lock", errno, reterr);
}

static uint64_t round_down(uint64_t at)
{
    return at / BLOCK * BLOCK;
}

static uint64_t round_up(uint64_t at)
{
    return round_down(at + BLOCK - 1);
}

static int open_file(const struct tn_journal *journal, const char *name, int flags)
{
    int fd = openat(journal->dir_fd, name, O_RDWR | O_CLOEXEC | O_DIRECT | flags, 0600);

    if (fd < 0 && errno == EINVAL)
        fd = openat(journal->dir_fd, name, O_RDWR | O_CLOEXEC | flags, 0600);
    return fd;
}

/* Make room for @len bytes, which are whole blocks. The first block stays. */
static bool reserve(struct tn_journal *journal, size_t len)
{
    size_t size = journal->blocks_size > 0 ? journal->blocks_size : BATCH_BYTES;

    if (journal->blocks_size >= len)
        return true;
    while (size < len)
        size *= 2;
    char *larger = aligned_alloc(BLOCK, size);
    if (larger == NULL)
        return false;
    memset(larger, 0, BLOCK);
    if (journal->blocks != NULL)
        memcpy(larger, journal->blocks, BLOCK);
    free(journal->blocks);
    journal->blocks = larger;
    journal->blocks_size = size;
    return true;
}

int tn_journal_create(struct tn_journal *journal, uint64_t seq, struct tn_text *reterr)
{
    struct tn_file_head head = {
        .version = TN_FRAME_VERSION, .kind = TN_FILE_JOURNAL, .store = journal->store, .seq = seq
    };
    char name[TN_JOURNAL_NAME];
    char fresh[TN_JOURNAL_NAME];
    _Alignas(BLOCK) char block[BLOCK] = { 0 };

    tn_journal_name(name, TN_FILE_JOURNAL, seq, "");
    tn_journal_name(fresh, TN_FILE_JOURNAL, seq, ".new");
    tn_file_head_encode(block, &head);
    int fd = open_file(journal, fresh, O_CREAT | O_TRUNC);
    int error = fd < 0 ? errno : tn_journal_write(fd, block, sizeof block, 0);
    if (error == 0 && (fsync(fd) != 0 || renameat(journal->dir_fd, fresh, journal->dir_fd, name) ||
                       fsync(journal->dir_fd) != 0))
        error = errno;
    if (error != 0) {
        /* Frames go on in the old file, so none of this may stay. */
        (void)unlinkat(journal->dir_fd, fresh, 0);
        (void)unlinkat(journal->dir_fd, name, 0);
        if (fd >= 0)
            (void)close(fd);
        return tn_journal_refuse_errno(journal, name, error, reterr);
    }
    if (journal->fd >= 0)
        (void)close(journal->fd);
    journal->fd = fd;
    memcpy(journal->blocks, block, sizeof block);
    journal->first_seq = seq;
    journal->at = TN_FILE_HEAD;
    journal->end = BLOCK;
    return 0;
}

/* Read the block in which the last good frame ends. Returns 0 or an errno. */
static int read_last_block(const struct tn_journal *journal, size_t kept)
{
    ssize_t n = pread(journal->fd, journal->blocks, BLOCK, (off_t)round_down(journal->at));

    if (n < 0)
        return errno;
    return (size_t)n < kept ? EIO : 0;
}

/* Go on writing the last file behind its last good frame; what a crash left there is cut off. */
static int resume(struct tn_journal *journal, struct tn_text *reterr)
{
    size_t kept = journal->at % BLOCK;
    char name[TN_JOURNAL_NAME];

    tn_journal_name(name, TN_FILE_JOURNAL, journal->first_seq, "");
    journal->fd = open_file(journal, name, 0);
    int error = journal->fd < 0 ? errno : read_last_block(journal, kept);
    if (error == 0 && ftruncate(journal->fd, (off_t)journal->at) != 0)
        error = errno;
    if (error == 0 && kept > 0) {
        memset(journal->blocks + kept, 0, BLOCK - kept);
        error = tn_journal_write(journal->fd, journal->blocks, BLOCK, round_down(journal->at));
    }
    if (error == 0 && fsync(journal->fd) != 0)
        error = errno;
    if (error != 0)
        return tn_journal_refuse_errno(journal, name, error, reterr);
    journal->end = round_up(journal->at);
    return 0;
}

/* Compare what was read with what the witness knows. */
static int ask_witness(struct tn_journal *journal, bool is_new, struct tn_text *reterr)
{
    struct tn_witness_note note;
    uint64_t token = journal->state.token(journal->state.arg);

    tn_witness_read(&journal->witness, &note);
    if (tn_secret_is_zero(&note.store))
        return 0;
    if (!is_new && tn_secret_equal(&note.store, &journal->store) && note.seq <= journal->seq)
        return 0;
    if (journal->config.accept_older) {
        /* P2: whatever was forgotten, no token comes twice. */
        struct tn_journal_record raised = { .kind = TN_RECORD_RAISED, .token = note.token };
        if (note.token <= token)
            return 0;
        tn_journal_add(journal, &raised);
        return journal->state.apply(journal->state.arg, &raised);
    }
    if (is_new || !tn_secret_equal(&note.store, &journal->store))
        tn_text_addf(reterr, "%s: is not the data that ", journal->config.dir);
    else
        tn_text_addf(reterr, "%s: is older (%" PRIu64 " of %" PRIu64 " flushes) than what ",
                     journal->config.dir, journal->seq, note.seq);
    tn_text_addf(reterr,
                 "%s has seen, up to token %" PRIu64
                 "; put the latest data back, or go on with this by --accept-older-data",
                 journal->config.witness, note.token);
    return TENURE_E_STALE;
}

static int open_files(struct tn_journal *journal, struct tn_text *reterr)
{
    int rc = open_dir(journal, reterr);
    if (rc == 0)
        rc = take_lock(journal, reterr);
    if (rc == 0 && journal->config.witness != NULL)
        rc = tn_witness_open(&journal->witness, journal->config.witness, reterr);
    if (rc == 0)
        rc = tn_journal_load(journal, reterr);
    bool is_new = journal->first_seq == 0;
    if (rc == 0)
        rc = ask_witness(journal, is_new, reterr);
    if (rc != 0)
        return rc;
    if (is_new) {
        rc = tn_random_secret(&journal->store);
        if (rc == 0)
            rc = tn_journal_create(journal, 1, reterr);
    } else {
        rc = resume(journal, reterr);
    }
    /* What the witness demanded is on disk before the witness hears of this data. */
    if (rc == 0 && tn_journal_is_pending(journal))
        rc = tn_journal_flush(journal, reterr);
    return rc;
}

int tn_journal_open(struct tn_journal *journal, const struct tn_journal_config *config,
                    const struct tn_journal_state *state, struct tn_text *reterr)
{
    *journal = (struct tn_journal) { .config = *config,
                                     .state = *state,
                                     .dir_fd = -1,
                                     .lock_fd = -1,
                                     .fd = -1,
                                     .batch_len = TN_FRAME_HEAD,
                                     .batch_size = BATCH_BYTES,
                                     .none = config->dir == NULL };
    if (journal->none)
        return 0;
    journal->batch = malloc(journal->batch_size);
    int rc = journal->batch != NULL && reserve(journal, BLOCK) ? 0 : TENURE_E_NOMEM;
    if (rc == 0)
        rc = open_files(journal, reterr);
    if (rc != 0) {
        tn_journal_close(journal);
        return rc;
    }
    struct tn_witness_note note = { .store = journal->store,
                                    .seq = journal->seq,
                                    .token = state->token(state->arg) };
    (void)tn_witness_write(&journal->witness, &note); /* The next flush tells. */
    tn_journal_prepare(journal);
    return 0;
}

void tn_journal_close(struct tn_journal *journal)
{
    if (!journal->none)
        tn_witness_close(&journal->witness);
    free(journal->batch);
    free(journal->blocks);
    journal->batch = journal->blocks = NULL;
    if (journal->fd >= 0)
        (void)close(journal->fd);
    if (journal->dir_fd >= 0)
        (void)close(journal->dir_fd);
    if (journal->lock_fd >= 0)
        (void)close(journal->lock_fd); /* Last: this lets the next daemon in. */
    journal->fd = journal->dir_fd = journal->lock_fd = -1;
}

/* --- Writing --------------------------------------------------------------------------------- */

void tn_journal_add(struct tn_journal *journal, const struct tn_journal_record *record)
{
    if (journal->none)
        return;
    if (journal->batch_size - journal->batch_len < TN_RECORD_MAX) {
        char *larger = realloc(journal->batch, journal->batch_size * 2);
        TN_ASSERT(larger != NULL);
        journal->batch = larger;
        journal->batch_size *= 2;
    }
    journal->batch_len += tn_record_encode(journal->batch + journal->batch_len, record);
}

/* Fill the file with zeros up to @end, which is the end of a block. Returns 0 or an errno. */
static int extend(struct tn_journal *journal, uint64_t end)
{
    static _Alignas(BLOCK) const char zeros[512 * 1024];

    while (journal->end < end) {
        size_t len =
            end - journal->end < sizeof zeros ? (size_t)(end - journal->end) : sizeof zeros;
        int error = tn_journal_write(journal->fd, zeros, len, journal->end);
        if (error != 0) {
            journal->disk_full = true;
            return error;
        }
        journal->end += len;
    }
    journal->disk_full = false;
    return 0;
}

void tn_journal_prepare(struct tn_journal *journal)
{
    if (!journal->none && journal->end - journal->at < AHEAD_BYTES / 2)
        (void)extend(journal, round_up(journal->at + AHEAD_BYTES));
}

bool tn_journal_is_short(const struct tn_journal *journal)
{
    return journal->disk_full && journal->end < journal->at + journal->batch_len + SHORT_BYTES;
}

static int refuse_flush(const struct tn_journal *journal, int error, struct tn_text *reterr)
{
    char name[TN_JOURNAL_NAME];

    tn_journal_name(name, TN_FILE_JOURNAL, journal->first_seq, "");
    return tn_journal_refuse_errno(journal, name, error, reterr);
}

int tn_journal_seal(struct tn_journal *journal, struct tn_text *reterr)
{
    size_t len = journal->batch_len;
    size_t kept = journal->at % BLOCK;
    size_t whole = round_up(kept + len);
    int error = 0;

    TN_ASSERT(journal->sealed_len == 0);
    TN_ASSERT(len > TN_FRAME_HEAD);
    TN_ASSERT(len - TN_FRAME_HEAD <= TN_FRAME_MAX);
    if (journal->at + len > journal->end)
        error = extend(journal, round_up(journal->at + len));
    if (error == 0 && !reserve(journal, whole))
        error = ENOMEM;
    if (error != 0)
        return refuse_flush(journal, error, reterr);
    tn_frame_seal(journal->batch, (uint32_t)(len - TN_FRAME_HEAD), journal->seq + 1);
    memcpy(journal->blocks + kept, journal->batch, len);
    memset(journal->blocks + kept + len, 0, whole - kept - len);
    journal->sealed_len = len;
    journal->sealed_token = journal->state.token(journal->state.arg);
    journal->batch_len = TN_FRAME_HEAD;
    return 0;
}

int tn_journal_write_out(struct tn_journal *journal)
{
    size_t whole = round_up(journal->at % BLOCK + journal->sealed_len);
    int error = tn_journal_write(journal->fd, journal->blocks, whole, round_down(journal->at));

    if (error == 0 && fdatasync(journal->fd) != 0)
        error = errno;
    /* The highest token may belong to the batch that gathers: the one sealed with this is noted. */
    struct tn_witness_note note = { .store = journal->store,
                                    .seq = journal->seq + 1,
                                    .token = journal->sealed_token };
    if (error == 0)
        journal->witness_error = tn_witness_write(&journal->witness, &note);
    return error;
}

int tn_journal_landed(struct tn_journal *journal, int error, struct tn_text *reterr)
{
    size_t filled = journal->at % BLOCK + journal->sealed_len;

    TN_ASSERT(journal->sealed_len > 0);
    if (error != 0)
        return refuse_flush(journal, error, reterr);
    memmove(journal->blocks, journal->blocks + round_down(filled), filled % BLOCK);
    journal->seq++;
    journal->at += journal->sealed_len;
    journal->grown_bytes += journal->sealed_len;
    journal->sealed_len = 0;
    journal->flushes++;
    return 0;
}

int tn_journal_flush(struct tn_journal *journal, struct tn_text *reterr)
{
    int rc = tn_journal_seal(journal, reterr);

    if (rc != 0)
        return rc;
    return tn_journal_landed(journal, tn_journal_write_out(journal), reterr);
}

bool tn_journal_is_long(const struct tn_journal *journal)
{
    return journal->snapshot_pid == 0 && journal->grown_bytes >= journal->config.snapshot_bytes &&
           journal->grown_bytes >= journal->snapshot_len;
}
