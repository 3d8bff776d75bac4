/* sole_file.c - hard links, mounts of single files, and files that another user planted.
 *
 * Happy path: one statx per file. The kernel before 5.8, and some sandboxes, do not tell mount
 * points by statx; then the mount of the file is compared with that of its directory, as /proc
 * shows them. What neither can tell is refused. */
#define _GNU_SOURCE /* statx, O_PATH */
#include "runtime/sole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x00002000
#endif

enum { TRIES = 2000 };

static int fail(int error, const char **ret_why)
{
    *ret_why = strerror(error);
    switch (error) {
    case ENOENT:
        return TENURE_E_NOT_HELD;
    case EACCES:
    case EPERM:
        return TENURE_E_DENIED;
    case ENOMEM:
        return TENURE_E_NOMEM;
    default:
        return TENURE_E_UNAVAILABLE;
    }
}

/* --- Mount points --------------------------------------------------------------------------- */

/* The number of the mount that the O_PATH descriptor @fd lies in; -1: not known. */
static int mount_of(int fd)
{
    char path[64];
    char line[128];
    int mount = -1;

    (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    FILE *info = fopen(path, "re");
    if (info == NULL)
        return -1;
    while (mount < 0 && fgets(line, sizeof line, info) != NULL)
        if (sscanf(line, "mnt_id: %d", &mount) != 1)
            mount = -1;
    (void)fclose(info);
    return mount;
}

static int open_folder(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int len = slash != NULL ? (int)(slash - path) + 1 : 1;

    int size = snprintf(folder, sizeof folder, "%.*s", len, slash != NULL ? path : ".");
    if (size < 0 || (size_t)size >= sizeof folder) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

/* 1: a mount point; 0: none; -1: not known. */
static int look_in_proc(const char *path)
{
    int file = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    int folder = open_folder(path);
    int mounts[2] = { -1, -1 };

    if (file >= 0 && folder >= 0) {
        mounts[0] = mount_of(file);
        mounts[1] = mount_of(folder);
    }
    if (file >= 0)
        (void)close(file);
    if (folder >= 0)
        (void)close(folder);
    return mounts[0] < 0 || mounts[1] < 0 ? -1 : mounts[0] != mounts[1];
}

/* --- One name ------------------------------------------------------------------------------- */

static int judge(const char *path, const struct statx *stx, const char **ret_why)
{
    if (S_ISLNK(stx->stx_mode)) {
        *ret_why = "is a symbolic link; give the file itself";
        return TENURE_E_DENIED;
    }
    if (!S_ISREG(stx->stx_mode)) {
        *ret_why = "is not a regular file";
        return TENURE_E_DAMAGED;
    }
    if (stx->stx_nlink != 1) {
        *ret_why = "has more than one name, and a journal beside each; remove the other hard links "
                   "('find -samefile' finds them)";
        return TENURE_E_DENIED;
    }
    int mounted = (stx->stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0
                      ? (stx->stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0
                      : look_in_proc(path);
    if (mounted < 0) {
        *ret_why = "the kernel does not tell whether the file is a mount point; mount /proc";
        return TENURE_E_UNSUPPORTED;
    }
    if (mounted == 0)
        return 0;
    *ret_why = "is mounted as a single file, apart from the journal beside it; mount its "
               "directory instead";
    return TENURE_E_DENIED;
}

/* 0, or an error number. */
static int look_at(const char *path, struct statx *ret_stx)
{
    struct stat st;

    if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS, ret_stx) ==
        0)
        return 0;
    /* A sandbox that forbids statx; the old call knows all but the mount. */
    if (errno != ENOSYS && errno != EPERM)
        return errno;
    if (lstat(path, &st) != 0)
        return errno;
    *ret_stx = (struct statx) { .stx_mode = (uint16_t)st.st_mode,
                                .stx_nlink = (uint32_t)st.st_nlink,
                                .stx_uid = st.st_uid,
                                .stx_gid = st.st_gid,
                                .stx_ino = st.st_ino,
                                .stx_size = (uint64_t)st.st_size,
                                .stx_dev_major = major(st.st_dev),
                                .stx_dev_minor = minor(st.st_dev) };
    return 0;
}

int tn_sole_file(const char *path, struct stat *ret_st, const char **ret_why)
{
    struct statx stx = { .stx_nlink = 0 };
    int error = 0;

    /* Without any name: it is being replaced. The process that does so may have to wait for the
     * processor in the middle of it. */
    for (int tries = 0; tries < TRIES && error == 0 && stx.stx_nlink == 0; tries++) {
        if (tries > 0)
            (void)poll(NULL, 0, 1);
        error = look_at(path, &stx);
    }
    if (error == 0 && stx.stx_nlink == 0)
        error = EAGAIN;
    if (error != 0)
        return fail(error, ret_why);
    *ret_st = (struct stat) { .st_mode = stx.stx_mode,
                              .st_nlink = stx.stx_nlink,
                              .st_uid = stx.stx_uid,
                              .st_gid = stx.stx_gid,
                              .st_ino = stx.stx_ino,
                              .st_size = (off_t)stx.stx_size,
                              .st_dev = makedev(stx.stx_dev_major, stx.stx_dev_minor) };
    return judge(path, &stx, ret_why);
}

/* --- Owners --------------------------------------------------------------------------------- */

/* The number in the first line of @file; @otherwise when it cannot be read. */
static uint64_t number_in(const char *file, const char *format, uint64_t otherwise)
{
    uint64_t number = otherwise;
    FILE *in = fopen(file, "re");

    if (in == NULL)
        return otherwise;
    if (fscanf(in, format, &number) != 1)
        number = otherwise;
    (void)fclose(in);
    return number;
}

bool tn_uid_is_certain(uid_t uid)
{
    if (uid != number_in("/proc/sys/kernel/overflowuid", "%" SCNu64, 65534))
        return true;
    return number_in("/proc/self/uid_map", "%*u %*u %" SCNu64, 0) == UINT32_MAX;
}

/* Whether @folder of @path may be written by everybody, so that anybody may have put a file there;
 * true also when it cannot be looked at. */
static bool is_open_folder(const char *path)
{
    struct stat st;
    int fd = open_folder(path);

    bool open = fd < 0 || fstat(fd, &st) != 0 || (st.st_mode & S_IWOTH) != 0;
    if (fd >= 0)
        (void)close(fd);
    return open;
}

/* Whether a user with the number of @beside may write @main in any case. */
static bool is_trusted(const char *path, const struct stat *main, const struct stat *beside)
{
    bool known =
        beside->st_uid == main->st_uid || beside->st_uid == geteuid() || beside->st_uid == 0;

    if (known && tn_uid_is_certain(beside->st_uid))
        return true;
    /* Members of the group make files that belong to themselves. */
    return (main->st_mode & S_IWOTH) != 0 ||
           ((main->st_mode & S_IWGRP) != 0 && !is_open_folder(path));
}

const char *tn_beside_reason(const char *path, const struct stat *main, const struct stat *beside)
{
    if (!is_trusted(path, main, beside))
        return "belongs to another user, who may not write the file it is for; find out who put it "
               "there, then remove it";
    if ((beside->st_mode & ~main->st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return "may be written by users who may not write the file it is for; see what they "
               "wrote, then 'chmod go-w' it";
    return NULL;
}
