/* file.c - `file:PATH` and tenure/fence_file.h: a path that is written through its fence.
 *
 * Beside PATH lies PATH.fence: "TOKEN\n", or while an append is under way "TOKEN LENGTH\n", with
 * the length that PATH had before. It is replaced by renaming, never written in place, so that it
 * is whole at any instant; and it is the file that is locked. A new one is locked before it gets
 * its name, and who gets a lock makes sure that the file still has its name: so there is one lock
 * from the check to the end of the write, over all renames.
 *
 * Happy path of a write: lock; admit; PATH.fence on the disk with the token, and for an append with
 * the length; the data on the disk; for an append PATH.fence again, without the length. A process
 * that dies on the way has either raised the fence and written nothing, which is harmless, or left
 * a length behind, and the next one cuts off what exceeds it.
 * What can fail: the lock is held for too long; the disk. */
#define _GNU_SOURCE /* flock */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/time.h"
#include "base/token.h"
#include "receivers/target.h"
#include "runtime/clock.h"
#include "runtime/sole_file.h"
#include "tenure/fence.h"
#include "tenure/fence_file.h"

/* Token, blank, length, newline. */
enum { RECORD_MAX = 2 * TN_TOKEN_DIGITS + 2 };

enum file_effect { RAISE, REPLACE, APPEND };

struct file_guard {
    char path[PATH_MAX];
    char fence_path[PATH_MAX + 16]; /* PATH.fence */
    char draft_path[PATH_MAX + 16]; /* PATH.fence-new: the next PATH.fence, or the next PATH. */
    char folder[PATH_MAX];
    int fd; /* PATH.fence, locked; -1: none. */
    struct tenure_fence fence;
    bool appending; /* An append did not end; */
    uint64_t base;  /* before it the file was this long. */
    struct tn_text *reterr;
};

/* --- Small steps ---------------------------------------------------------------------------- */

static int refuse_file(struct file_guard *guard, const char *path)
{
    int error = errno;

    int code = error == ELOOP
                   ? tn_fence_refuse(TENURE_E_DENIED, path,
                                     "is a symbolic link; give the file itself", guard->reterr)
                   : tn_fence_refuse_errno(path, error, guard->reterr);
    errno = error;
    return code;
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text);

    return len >= strlen(end) && strcmp(text + len - strlen(end), end) == 0;
}

static int name_files(struct file_guard *guard, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;

    if (base[0] == '\0' || strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
        return tn_fence_refuse(TENURE_E_INVALID, path, "is not the path of a file", guard->reterr);
    if (ends_with(base, ".fence") || ends_with(base, ".fence-new"))
        return tn_fence_refuse(TENURE_E_INVALID, path, "is the fence of another file",
                               guard->reterr);
    if (strlen(path) >= sizeof guard->path) {
        tn_text_add(guard->reterr, "the path is too long");
        return TENURE_E_INVALID;
    }
    (void)snprintf(guard->path, sizeof guard->path, "%s", path);
    (void)snprintf(guard->fence_path, sizeof guard->fence_path, "%s.fence", path);
    (void)snprintf(guard->draft_path, sizeof guard->draft_path, "%s.fence-new", path);
    (void)snprintf(guard->folder, sizeof guard->folder, "%.*s",
                   slash != NULL ? (int)(slash - path + 1) : 1, slash != NULL ? path : ".");
    return 0;
}

static int write_all(int fd, const void *data, size_t len)
{
    const char *bytes = data;

    while (len > 0) {
        ssize_t written = write(fd, bytes, len);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -1;
        bytes += written;
        len -= (size_t)written;
    }
    return 0;
}

static int sync_folder(const struct file_guard *guard)
{
    int fd = open(guard->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    int rc = fsync(fd);
    int error = errno;
    (void)close(fd);
    errno = error;
    return rc;
}

/* --- The fence's file ----------------------------------------------------------------------- */

static int decode(struct file_guard *guard, const char *record, size_t len)
{
    bool good = len == 0;

    if (len == TN_TOKEN_DIGITS + 1 || len == RECORD_MAX)
        good = record[len - 1] == '\n' &&
               tn_token_parse(record, TN_TOKEN_DIGITS, &guard->fence.highest) == 0;
    guard->appending = good && len == RECORD_MAX;
    if (guard->appending)
        good = record[TN_TOKEN_DIGITS] == ' ' &&
               tn_token_parse(record + TN_TOKEN_DIGITS + 1, TN_TOKEN_DIGITS, &guard->base) == 0 &&
               guard->base <= INT64_MAX;
    if (good)
        return 0;
    return tn_fence_refuse(TENURE_E_DAMAGED, guard->fence_path, "holds something else than a token",
                           guard->reterr);
}

static int load(struct file_guard *guard, int fd)
{
    char record[RECORD_MAX + 1];
    struct stat st;
    size_t len = 0;

    if (fstat(fd, &st) != 0)
        return refuse_file(guard, guard->fence_path);
    if (!S_ISREG(st.st_mode))
        return tn_fence_refuse(TENURE_E_DAMAGED, guard->fence_path, "is not a regular file",
                               guard->reterr);
    while (len < sizeof record) {
        ssize_t got = pread(fd, record + len, sizeof record - len, (off_t)len);
        if (got < 0 && errno != EINTR)
            return refuse_file(guard, guard->fence_path);
        if (got == 0)
            break;
        len += got > 0 ? (size_t)got : 0;
    }
    return decode(guard, record, len);
}

/* A file with two names has two fences, and a stale holder of the one would pass at the other. And
 * in a directory for all, a fence that another user put there holds whatever that user likes. */
static int check_names(struct file_guard *guard)
{
    struct stat data = { .st_uid = geteuid() };
    struct stat fence = { .st_ino = 0 };
    const char *why;

    int rc = tn_sole_file(guard->path, &data, &why);
    if (rc < 0 && rc != TENURE_E_NOT_HELD)
        return tn_fence_refuse(rc, guard->path, why, guard->reterr);
    rc = tn_sole_file(guard->fence_path, &fence, &why);
    if (rc < 0 && rc != TENURE_E_NOT_HELD)
        return tn_fence_refuse(rc, guard->fence_path, why, guard->reterr);
    /* Members of a group share a fence in a directory of theirs, with whatever mode. */
    data.st_mode |= S_IWGRP | S_IWUSR;
    fence.st_mode &= ~(mode_t)(S_IWGRP | S_IWOTH);
    why = rc == 0 ? tn_beside_reason(guard->fence_path, &data, &fence) : NULL;
    return why == NULL ? 0
                       : tn_fence_refuse(TENURE_E_DENIED, guard->fence_path, why, guard->reterr);
}

/* Whether the locked file is still the one with the name. */
static bool is_named(const struct file_guard *guard)
{
    struct stat mine, named;

    return fstat(guard->fd, &mine) == 0 && lstat(guard->fence_path, &named) == 0 &&
           mine.st_ino == named.st_ino && mine.st_dev == named.st_dev;
}

static void leave(struct file_guard *guard)
{
    if (guard->fd >= 0)
        (void)close(guard->fd);
    guard->fd = -1;
}

/* Between 0.5 and 4 ms, spread by the low bits of the clock, so that crowds do not march. */
static tenure_ns backoff(unsigned count)
{
    return TN_US(500) + tn_boottime() / 64 % TN_US(500 * (count < 7 ? count + 1 : 7));
}

static int enter(struct file_guard *guard, tenure_ns timeout)
{
    tenure_ns end = tn_boottime() + timeout;

    for (unsigned count = 0;; count++) {
        int rc = check_names(guard);
        if (rc < 0)
            return rc;
        guard->fd =
            open(guard->fence_path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
        if (guard->fd < 0)
            return refuse_file(guard, guard->fence_path);
        bool locked = flock(guard->fd, LOCK_EX | LOCK_NB) == 0;
        if (!locked && errno != EWOULDBLOCK && errno != EINTR)
            break;
        if (locked && is_named(guard))
            return load(guard, guard->fd);
        leave(guard);
        if (!locked && tn_boottime() >= end) {
            errno = EWOULDBLOCK;
            return tn_fence_refuse(TENURE_E_UNAVAILABLE, guard->path,
                                   "another writer keeps its fence busy", guard->reterr);
        }
        if (!locked)
            tn_clock_pause(backoff(count));
    }
    return refuse_file(guard, guard->fence_path);
}

/* A new file that gets the name @path when it is complete and on the disk; with @ret_fd it stays
 * open, locked. Whoever holds the lock is the only one to use the draft. */
static int put_file(struct file_guard *guard, const char *path, const void *data, size_t len,
                    int *ret_fd)
{
    struct stat old;
    int rc = 0;

    (void)unlink(guard->draft_path);
    int fd = open(guard->draft_path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return refuse_file(guard, guard->draft_path);
    bool good = ret_fd == NULL || flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (good && lstat(path, &old) == 0) {
        good = fchmod(fd, old.st_mode & 07777) == 0;
        /* Only root can give a file away; for others it is theirs already. */
        (void)!fchown(fd, old.st_uid, old.st_gid);
    }
    good = good && write_all(fd, data, len) == 0 && fsync(fd) == 0;
    if (!good || rename(guard->draft_path, path) != 0) {
        rc = refuse_file(guard, path);
        (void)unlink(guard->draft_path);
    } else if (sync_folder(guard) != 0) {
        rc = refuse_file(guard, guard->folder);
        rc = TENURE_E_TIMEOUT;
    }
    if (rc < 0 || ret_fd == NULL)
        (void)close(fd);
    else
        *ret_fd = fd;
    return rc;
}

/* Before the rename nothing has happened; if only the flush of the directory failed, the fence may
 * be raised, which an error may always leave behind. */
static int store(struct file_guard *guard)
{
    char record[RECORD_MAX + 1];
    char base[TN_TOKEN_TEXT];
    int fd = -1;

    tn_token_format(record, guard->fence.highest);
    tn_token_format(base, guard->base);
    (void)snprintf(record + TN_TOKEN_DIGITS, sizeof record - TN_TOKEN_DIGITS, "%s%s\n",
                   guard->appending ? " " : "", guard->appending ? base : "");
    int rc = put_file(guard, guard->fence_path, record, strlen(record), &fd);
    if (rc < 0)
        return rc == TENURE_E_TIMEOUT ? TENURE_E_UNAVAILABLE : rc;
    leave(guard);
    guard->fd = fd;
    return 0;
}

/* --- The data ------------------------------------------------------------------------------- */

/* Without O_CREAT a missing file is no error: then *@ret_fd is -1. */
static int open_data(struct file_guard *guard, int flags, int *ret_fd, struct stat *ret_stat)
{
    int fd = open(guard->path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0666);

    if (fd < 0 && (errno != ENOENT || (flags & O_CREAT) != 0))
        return refuse_file(guard, guard->path);
    if (fd >= 0 && (fstat(fd, ret_stat) != 0 || !S_ISREG(ret_stat->st_mode))) {
        (void)close(fd);
        return tn_fence_refuse(TENURE_E_DAMAGED, guard->path, "is not a regular file",
                               guard->reterr);
    }
    *ret_fd = fd;
    return 0;
}

/* Cut off what an append left behind that did not end. */
static int recover(struct file_guard *guard)
{
    struct stat st;
    int fd = -1;

    if (!guard->appending)
        return 0;
    int rc = open_data(guard, 0, &fd, &st);
    if (rc < 0)
        return rc;
    if (fd >= 0 && (uint64_t)st.st_size > guard->base &&
        (ftruncate(fd, (off_t)guard->base) != 0 || fsync(fd) != 0))
        rc = refuse_file(guard, guard->path);
    if (fd >= 0)
        (void)close(fd);
    if (rc < 0)
        return rc;
    guard->appending = false;
    return store(guard);
}

static int replace(struct file_guard *guard, const void *data, size_t len)
{
    struct stat st;

    if (lstat(guard->path, &st) == 0 && !S_ISREG(st.st_mode)) {
        errno = ELOOP;
        return S_ISLNK(st.st_mode) ? refuse_file(guard, guard->path)
                                   : tn_fence_refuse(TENURE_E_DAMAGED, guard->path,
                                                     "is not a regular file", guard->reterr);
    }
    return put_file(guard, guard->path, data, len, NULL);
}

static int append(struct file_guard *guard, const void *data, size_t len)
{
    struct stat st;
    int fd = -1;

    int rc = open_data(guard, O_APPEND | O_CREAT, &fd, &st);
    if (rc < 0)
        return rc;
    guard->appending = true;
    guard->base = (uint64_t)st.st_size;
    rc = store(guard);
    if (rc == 0 && (write_all(fd, data, len) != 0 || fsync(fd) != 0))
        rc = refuse_file(guard, guard->path);
    if (rc == 0 && sync_folder(guard) != 0)
        rc = refuse_file(guard, guard->folder);
    (void)close(fd);
    if (rc < 0) {
        struct tn_text ignored;
        char scratch[256];
        int error = errno;
        tn_text_init(&ignored, scratch, sizeof scratch);
        guard->reterr = &ignored; /* The first reason is the one to tell. */
        (void)recover(guard);
        errno = error;
        return rc;
    }
    guard->appending = false;
    rc = store(guard);
    return rc < 0 ? TENURE_E_TIMEOUT : 0;
}

/* --- One operation -------------------------------------------------------------------------- */

struct operation {
    enum file_effect kind;
    uint64_t token;
    const void *data;
    size_t len;
    tenure_ns timeout;
};

static int act(struct file_guard *guard, const struct operation *operation, uint64_t *ret_highest)
{
    int rc = recover(guard);
    if (rc < 0)
        return rc;
    uint64_t before = guard->fence.highest;
    *ret_highest = before;
    rc = tenure_fence_admit(&guard->fence, operation->token);
    /* An append stores the token together with the length. */
    if (rc == 0 && before != guard->fence.highest && operation->kind != APPEND)
        rc = store(guard);
    if (rc < 0)
        return rc;
    *ret_highest = guard->fence.highest;
    if (operation->kind == REPLACE)
        return replace(guard, operation->data, operation->len);
    return operation->kind == APPEND ? append(guard, operation->data, operation->len) : 0;
}

static int operate(const char *path, const struct operation *operation, uint64_t *ret_highest,
                   struct tn_text *reterr)
{
    struct file_guard guard = { .fd = -1, .reterr = reterr };

    if (operation->token == 0)
        return TENURE_E_INVALID;
    int rc = name_files(&guard, path);
    if (rc == 0)
        rc = enter(&guard, operation->timeout);
    if (rc == 0)
        rc = act(&guard, operation, ret_highest);
    int error = errno;
    leave(&guard);
    errno = error;
    return rc;
}

static int look(const char *path, uint64_t *ret_highest, struct tn_text *reterr)
{
    struct file_guard guard = { .fd = -1, .reterr = reterr };

    int rc = name_files(&guard, path);
    if (rc < 0)
        return rc;
    int fd = open(guard.fence_path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        return refuse_file(&guard, guard.fence_path);
    if (fd >= 0) {
        rc = load(&guard, fd);
        (void)close(fd);
    }
    if (rc == 0)
        *ret_highest = guard.fence.highest;
    return rc;
}

static int operate_quietly(const char *path, const struct operation *operation)
{
    char scratch[256];
    struct tn_text ignored;
    uint64_t highest;

    tn_text_init(&ignored, scratch, sizeof scratch);
    return operate(path, operation, &highest, &ignored);
}

int tenure_fence_file_replace(const char *path, uint64_t token, const void *data, size_t len,
                              tenure_ns timeout)
{
    return operate_quietly(path, &(struct operation) { REPLACE, token, data, len, timeout });
}

int tenure_fence_file_append(const char *path, uint64_t token, const void *data, size_t len,
                             tenure_ns timeout)
{
    return operate_quietly(path, &(struct operation) { APPEND, token, data, len, timeout });
}

int tenure_fence_file_raise(const char *path, uint64_t token, tenure_ns timeout)
{
    return operate_quietly(path, &(struct operation) { RAISE, token, NULL, 0, timeout });
}

int tenure_fence_file_highest(const char *path, uint64_t *ret_highest)
{
    char scratch[256];
    struct tn_text ignored;

    tn_text_init(&ignored, scratch, sizeof scratch);
    return look(path, ret_highest, &ignored);
}

/* --- By URL --------------------------------------------------------------------------------- */

struct file_place {
    char path[PATH_MAX];
    tenure_ns timeout;
};

/* The file, or its fence, must be there. */
static int find_files(const struct file_guard *guard)
{
    struct stat st;

    if (lstat(guard->fence_path, &st) == 0 || (errno == ENOENT && lstat(guard->path, &st) == 0))
        return 0;
    return tn_fence_refuse_missing(guard->path, errno, guard->reterr);
}

static int open_place(const char *path, const struct tn_fence_options *options, void **ret_self,
                      struct tn_text *reterr)
{
    struct file_guard guard = { .reterr = reterr };

    int rc = name_files(&guard, path);
    if (rc == 0 && !options->create)
        rc = find_files(&guard);
    if (rc < 0)
        return rc;
    struct file_place *place = malloc(sizeof *place);
    if (place == NULL) {
        tn_text_add(reterr, "out of memory");
        return TENURE_E_NOMEM;
    }
    (void)snprintf(place->path, sizeof place->path, "%s", path);
    place->timeout = options->timeout;
    *ret_self = place;
    return 0;
}

static int raise_fence(void *self, const char *resource, uint64_t token, uint64_t *ret_highest,
                       struct tn_text *reterr)
{
    const struct file_place *place = self;

    TN_ASSERT(resource == NULL);
    return operate(place->path, &(struct operation) { RAISE, token, NULL, 0, place->timeout },
                   ret_highest, reterr);
}

static int show(void *self, const char *resource, uint64_t *ret_highest, struct tn_text *reterr)
{
    const struct file_place *place = self;

    TN_ASSERT(resource == NULL);
    return look(place->path, ret_highest, reterr);
}

static int list(void *self, tn_fence_each each, void *arg, struct tn_text *reterr)
{
    const struct file_place *place = self;
    uint64_t highest;

    int rc = look(place->path, &highest, reterr);
    if (rc == 0)
        each(arg, place->path, highest);
    return rc;
}

static int probe(void *self, const char *resource, struct tn_text *reterr)
{
    const struct file_place *place = self;

    (void)resource;
    return tn_fence_folder_check(place->path, reterr);
}

/* An empty fence, at which no token was seen. */
static int install(void *self, const char *table, const char *resource, struct tn_text *reterr)
{
    const struct file_place *place = self;
    struct file_guard guard = { .fd = -1, .reterr = reterr };

    (void)table;
    TN_ASSERT(resource == NULL);
    int rc = name_files(&guard, place->path);
    if (rc == 0)
        rc = enter(&guard, place->timeout);
    if (rc == 0 && sync_folder(&guard) != 0)
        rc = refuse_file(&guard, guard.folder);
    leave(&guard);
    return rc;
}

static int write_data(void *self, uint64_t token, const void *data, size_t len, bool appends,
                      uint64_t *ret_highest, struct tn_text *reterr)
{
    const struct file_place *place = self;
    struct operation operation = { appends ? APPEND : REPLACE, token, data, len, place->timeout };

    return operate(place->path, &operation, ret_highest, reterr);
}

const struct tn_fence_ops tn_fence_file_ops = {
    .scheme = "file:",
    .form = "file:PATH",
    .single = true,
    .file = true,
    .open = open_place,
    .close = free,
    .raise = raise_fence,
    .show = show,
    .list = list,
    .probe = probe,
    .write = write_data,
    .install = install,
};
