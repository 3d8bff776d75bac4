/* journal_load.c - reading the journal back: which files count, and what is wrong with them.
 *
 * The newest snapshot counts, and every journal file from the one that begins behind it; they must
 * follow on each other without a gap. Only the very last frame of the last file may be torn. All
 * else is damage, and refused: guessing could give a lease to two. */
#define _GNU_SOURCE /* fdopendir */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/journal_private.h"

/* Snapshots of one data directory, of which all but one wait to be removed, and journal files. */
#define FILES_MAX 1024

struct journal_files {
    uint64_t snapshot; /* The newest one's number. */
    bool has_snapshot;
    uint32_t count;
    uint64_t journals[FILES_MAX]; /* In order. */
};

/* The number in a file's name, if it is one of ours and complete. */
static bool parse_name(const char *name, enum tn_file_kind *ret_kind, uint64_t *ret_seq)
{
    static const enum tn_file_kind kinds[] = { TN_FILE_JOURNAL, TN_FILE_SNAPSHOT };
    const char *dash = strchr(name, '-');
    uint64_t seq;
    char again[TN_JOURNAL_NAME];

    if (dash == NULL || sscanf(dash + 1, "%16" SCNx64, &seq) != 1)
        return false;
    for (size_t i = 0; i < 2; i++) {
        tn_journal_name(again, kinds[i], seq, "");
        if (strcmp(again, name) == 0) {
            *ret_kind = kinds[i];
            *ret_seq = seq;
            return true;
        }
    }
    return false;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

static DIR *open_listing(const struct tn_journal *journal)
{
    int fd = openat(journal->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

    if (dir == NULL && fd >= 0)
        (void)close(fd);
    return dir;
}

static int list_files(struct tn_journal *journal, struct journal_files *ret, struct tn_text *reterr)
{
    DIR *dir = open_listing(journal);
    const struct dirent *entry;

    if (dir == NULL)
        return tn_journal_refuse_errno(journal, "", errno, reterr);
    while ((entry = readdir(dir)) != NULL) {
        enum tn_file_kind kind;
        uint64_t seq;
        if (!parse_name(entry->d_name, &kind, &seq))
            continue;
        if (kind == TN_FILE_SNAPSHOT) {
            if (!ret->has_snapshot || seq > ret->snapshot)
                ret->snapshot = seq;
            ret->has_snapshot = true;
        } else if (ret->count < FILES_MAX) {
            ret->journals[ret->count++] = seq;
        }
    }
    (void)closedir(dir);
    qsort(ret->journals, ret->count, sizeof ret->journals[0], by_number);
    return 0;
}

void tn_journal_sweep(const struct tn_journal *journal, uint64_t seq)
{
    DIR *dir = open_listing(journal);
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        enum tn_file_kind kind;
        uint64_t number;
        size_t len = strlen(entry->d_name);
        bool covered = parse_name(entry->d_name, &kind, &number) &&
                       (kind == TN_FILE_SNAPSHOT ? number < seq : number <= seq);
        bool incomplete = len > 4 && strcmp(entry->d_name + len - 4, ".new") == 0 &&
                          (strncmp(entry->d_name, "journal-", 8) == 0 ||
                           strncmp(entry->d_name, "snapshot-", 9) == 0);
        if (covered || incomplete)
            (void)unlinkat(journal->dir_fd, entry->d_name, 0);
    }
    if (dir != NULL)
        (void)closedir(dir);
}

/* --- Files ------------------------------------------------------------------------------------ */

struct contents {
    char *bytes;
    size_t len;
};

static int read_file(struct tn_journal *journal, const char *name, struct contents *ret,
                     struct tn_text *reterr)
{
    int fd = openat(journal->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    size_t len = 0;
    int error = 0;

    if (fd < 0 || fstat(fd, &st) != 0) {
        error = errno;
        if (fd >= 0)
            (void)close(fd);
        return tn_journal_refuse_errno(journal, name, error, reterr);
    }
    char *bytes = malloc(st.st_size > 0 ? (size_t)st.st_size : 1);
    while (bytes != NULL && error == 0 && len < (size_t)st.st_size) {
        ssize_t n = read(fd, bytes + len, (size_t)st.st_size - len);
        if (n == 0)
            break;
        if (n > 0)
            len += (size_t)n;
        else if (errno != EINTR)
            error = errno;
    }
    (void)close(fd);
    if (bytes == NULL || error != 0) {
        free(bytes);
        return tn_journal_refuse_errno(journal, name, bytes == NULL ? ENOMEM : error, reterr);
    }
    *ret = (struct contents) { bytes, len };
    return 0;
}

/* The head must be right, of this store, and say what the name says. */
static int check_head(struct tn_journal *journal, const char *name, enum tn_file_kind kind,
                      uint64_t seq, const struct contents *file, struct tn_text *reterr)
{
    struct tn_file_head head = { 0 };
    char why[128];
    int rc = tn_file_head_decode(file->bytes, file->len, &head);

    if (rc == TENURE_E_UNSUPPORTED) {
        (void)snprintf(why, sizeof why,
                       "was written by another tenured: format %" PRIu32 ", this one knows %d",
                       head.version, TN_FRAME_VERSION);
        return tn_journal_refuse(journal, name, rc, why, reterr);
    }
    if (rc != 0 || head.kind != kind || head.seq != seq)
        return tn_journal_refuse(journal, name, TENURE_E_DAMAGED, "is damaged at its head", reterr);
    if (tn_secret_is_zero(&journal->store))
        journal->store = head.store;
    if (!tn_secret_equal(&journal->store, &head.store))
        return tn_journal_refuse(journal, name, TENURE_E_DAMAGED,
                                 "belongs to other data than the files beside it", reterr);
    return 0;
}

static int apply_frame(struct tn_journal *journal, const char *name, const struct tn_frame *frame,
                       struct tn_journal_record *ret_last, uint64_t *ret_count,
                       struct tn_text *reterr)
{
    for (size_t at = 0; at < frame->len;) {
        int64_t len = tn_record_decode(frame->records + at, frame->len - at, ret_last);
        if (len < 0)
            return tn_journal_refuse(journal, name, TENURE_E_DAMAGED,
                                     "has a record that makes no sense", reterr);
        at += (size_t)len;
        if (ret_last->kind == TN_RECORD_LAST)
            return 0;
        ++*ret_count;
        int rc = journal->state.apply(journal->state.arg, ret_last);
        if (rc == TENURE_E_FULL)
            return tn_journal_refuse(journal, name, rc,
                                     "has more sessions, leases or fences than the limits allow; "
                                     "raise them",
                                     reterr);
        if (rc != 0)
            return tn_journal_refuse(journal, name, TENURE_E_DAMAGED,
                                     "has a record that contradicts those before it", reterr);
    }
    return 0;
}

static int refuse_frame(const struct tn_journal *journal, const char *name, size_t at,
                        struct tn_text *reterr)
{
    char why[128];

    (void)snprintf(why, sizeof why,
                   "is damaged at byte %zu: a checksum is wrong; restore the data from a copy", at);
    return tn_journal_refuse(journal, name, TENURE_E_DAMAGED, why, reterr);
}

static int load_snapshot(struct tn_journal *journal, uint64_t seq, struct tn_text *reterr)
{
    struct tn_journal_record last = { .kind = TN_RECORD_RAISED };
    struct tn_frame frame;
    struct contents file;
    char name[TN_JOURNAL_NAME];
    uint64_t count = 0;
    size_t at = TN_FILE_HEAD;

    tn_journal_name(name, TN_FILE_SNAPSHOT, seq, "");
    int rc = read_file(journal, name, &file, reterr);
    if (rc != 0)
        return rc;
    rc = check_head(journal, name, TN_FILE_SNAPSHOT, seq, &file, reterr);
    for (uint64_t number = 1; rc == 0 && last.kind != TN_RECORD_LAST; number++) {
        if (tn_frame_next(file.bytes, file.len, &at, number, &frame) != TN_FRAME_GOOD)
            rc = refuse_frame(journal, name, at, reterr);
        else
            rc = apply_frame(journal, name, &frame, &last, &count, reterr);
    }
    if (rc == 0 && last.token != count)
        rc = refuse_frame(journal, name, at, reterr);
    free(file.bytes);
    journal->seq = seq;
    journal->snapshot_len = file.len;
    return rc;
}

static int load_journal(struct tn_journal *journal, uint64_t first, bool is_last,
                        struct tn_text *reterr)
{
    enum tn_frame_verdict verdict = TN_FRAME_GOOD;
    struct tn_journal_record last;
    struct tn_frame frame;
    struct contents file;
    char name[TN_JOURNAL_NAME];
    uint64_t count = 0;
    size_t at = TN_FILE_HEAD;

    tn_journal_name(name, TN_FILE_JOURNAL, first, "");
    if (first != journal->seq + 1)
        return tn_journal_refuse(journal, name, TENURE_E_DAMAGED,
                                 "does not follow on what is there: a file is missing", reterr);
    int rc = read_file(journal, name, &file, reterr);
    if (rc != 0)
        return rc;
    rc = check_head(journal, name, TN_FILE_JOURNAL, first, &file, reterr);
    while (rc == 0 && verdict == TN_FRAME_GOOD) {
        verdict = tn_frame_next(file.bytes, file.len, &at, journal->seq + 1, &frame);
        if (verdict == TN_FRAME_DAMAGED || (verdict == TN_FRAME_TORN && !is_last)) {
            rc = refuse_frame(journal, name, at, reterr);
        } else if (verdict == TN_FRAME_GOOD) {
            rc = apply_frame(journal, name, &frame, &last, &count, reterr);
            journal->seq++;
        }
    }
    free(file.bytes);
    journal->first_seq = first;
    journal->at = at;
    journal->grown_bytes += at;
    return rc;
}

int tn_journal_load(struct tn_journal *journal, struct tn_text *reterr)
{
    struct journal_files *files = calloc(1, sizeof *files);
    uint32_t i = 0;

    if (files == NULL)
        return TENURE_E_NOMEM;
    int rc = list_files(journal, files, reterr);
    if (rc == 0 && files->has_snapshot)
        rc = load_snapshot(journal, files->snapshot, reterr);
    while (i < files->count && files->has_snapshot && files->journals[i] <= files->snapshot)
        i++;
    if (rc == 0 && i == files->count && (files->has_snapshot || files->count > 0))
        rc = tn_journal_refuse(journal, "", TENURE_E_DAMAGED,
                               "the journal file behind the snapshot is missing", reterr);
    for (; rc == 0 && i < files->count; i++)
        rc = load_journal(journal, files->journals[i], i + 1 == files->count, reterr);
    if (rc == 0)
        tn_journal_sweep(journal, files->has_snapshot ? files->snapshot : 0);
    free(files);
    return rc;
}
