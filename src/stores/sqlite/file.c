/* file.c - which files are opened at all, and how a new one comes to be.
 *
 * Happy path: resolve the directory, check the file, open it. A file is judged before SQLite opens
 * it, because SQLite may change what it opens: it plays back journals. The judging reads through
 * SQLite's own file layer: closing a descriptor of ours would drop the locks that other stores of
 * this process have on the file (POSIX ties them to process and file, not to the descriptor).
 * O_PATH is exempt.
 *
 * A new store is made under a name of its own and renamed when it is complete. So an
 * empty or half-written file is never one of ours in the making: it is damage, and is refused. */
#define _GNU_SOURCE /* O_PATH, statfs, renameat2 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/assert.h"
#include "runtime/random.h"
#include "runtime/sole_file.h"
#include "runtime/sqlite_vfs.h"
#include "stores/sqlite/private.h"

/* Between the path and a random number: a store in the making. */
#define DRAFT "-new-"

enum { HEADER = 100, USER_VERSION_AT = 60, APPLICATION_AT = 68 };

/* "PATH: ..." */
static int refuse_file(int code, const char *path, const char *why, struct tn_text *reterr)
{
    tn_text_escape(reterr, path, strlen(path));
    tn_text_addf(reterr, ": %s", why);
    return code;
}

static int refuse_errno(const char *path, int error, struct tn_text *reterr)
{
    int code = TENURE_E_UNAVAILABLE;

    if (error == EACCES || error == EPERM)
        code = TENURE_E_DENIED;
    else if (error == ENOMEM)
        code = TENURE_E_NOMEM;
    return refuse_file(code, path, strerror(error), reterr);
}

/* --- Filesystems ---------------------------------------------------------------------------- */

enum { FAT = 0x4d44, NTFS = 0x7366746e };

/* Locks on these are not seen by other hosts, or not always, and no two hosts share CLOCK_BOOTTIME.
 * FUSE stands for all that may lie behind it, sshfs among them: its magic number does not tell. */
static const struct {
    uint32_t magic;
    const char *name;
} network_filesystems[] = {
    { 0x6969, "NFS" },        { 0x517b, "SMB" },          { 0xfe534d42, "SMB" },
    { 0xff534d42, "CIFS" },   { 0x65735546, "FUSE" },     { 0x01021997, "9P" },
    { 0x5346414f, "AFS" },    { 0x6b414653, "AFS" },      { 0x73757245, "Coda" },
    { 0x00c36400, "Ceph" },   { 0x01161970, "GFS2" },     { 0x7461636f, "OCFS2" },
    { 0x0bd00bd0, "Lustre" }, { 0x47504653, "GPFS" },     { 0x19830326, "BeeGFS" },
    { 0x786f4256, "vboxsf" }, { 0xbacbacbc, "vmhgfs" },   { 0x564c, "NCP" },
    { 0xaad7aaea, "PanFS" },  { 0x20030528, "OrangeFS" },
};

static int check_filesystem(int fd, const char *path, struct tn_text *reterr)
{
    struct statfs fs;

    if (fstatfs(fd, &fs) != 0)
        return refuse_errno(path, errno, reterr);
    if (fs.f_type == FAT || fs.f_type == NTFS)
        return refuse_file(
            TENURE_E_UNSUPPORTED, path,
            "lies on FAT or NTFS, where a file has a second, short name and so a second "
            "journal; use another filesystem",
            reterr);
    for (size_t i = 0; i < sizeof network_filesystems / sizeof network_filesystems[0]; i++) {
        if ((uint32_t)fs.f_type == network_filesystems[i].magic) {
            char why[128];
            (void)snprintf(why, sizeof why,
                           "lies on a network filesystem (%s); this store is for one host's disk",
                           network_filesystems[i].name);
            return refuse_file(TENURE_E_UNSUPPORTED, path, why, reterr);
        }
    }
    return 0;
}

/* --- Files ---------------------------------------------------------------------------------- */

/* A store that was made where the filesystem cannot rename without replacing has a second name, the
 * draft's, until its maker has removed that; or for good, if the maker died. */
static void drop_drafts(const char *path, const struct stat *store)
{
    const char *base = strrchr(path, '/') + 1;
    char folder[PATH_MAX];
    struct stat st;

    (void)snprintf(folder, sizeof folder, "%.*s", (int)(base - path), path);
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t len = strlen(base);
        if (strncmp(entry->d_name, base, len) == 0 &&
            strncmp(entry->d_name + len, DRAFT, sizeof DRAFT - 1) == 0 &&
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            st.st_ino == store->st_ino && st.st_dev == store->st_dev)
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    (void)closedir(dir);
}

static int look(const char *path, struct stat *ret_st, struct tn_text *reterr)
{
    const char *why;

    int rc = tn_sole_file(path, ret_st, &why);
    if (rc < 0 && rc != TENURE_E_NOT_HELD && ret_st->st_nlink == 2) {
        drop_drafts(path, ret_st);
        rc = tn_sole_file(path, ret_st, &why);
    }
    return rc == 0 || rc == TENURE_E_NOT_HELD ? rc : refuse_file(rc, path, why, reterr);
}

/* TENURE_E_NOT_HELD without a word when there is no file. */
static int check_node(const char *path, struct tn_text *reterr)
{
    struct stat st = { .st_nlink = 0 };

    int rc = look(path, &st, reterr);
    if (rc < 0)
        return rc;
    if (st.st_uid != geteuid())
        return refuse_file(TENURE_E_DENIED, path, "belongs to another user", reterr);
    if (!tn_uid_is_certain(st.st_uid))
        return refuse_file(
            TENURE_E_DENIED, path,
            "belongs to nobody, as do all files of users that this user namespace does "
            "not map; run as a user that it maps",
            reterr);
    if (faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) != 0)
        return refuse_errno(path, errno, reterr);
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? TENURE_E_NOT_HELD : refuse_errno(path, errno, reterr);
    rc = check_filesystem(fd, path, reterr);
    (void)close(fd);
    return rc;
}

static uint32_t load_be32(const unsigned char *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static int check_header(const unsigned char *header, const char *path, struct tn_text *reterr)
{
    char why[128];
    uint32_t schema = load_be32(header + USER_VERSION_AT);

    if (memcmp(header, "SQLite format 3", 16) != 0)
        return refuse_file(TENURE_E_DAMAGED, path, "is not a database", reterr);
    if (load_be32(header + APPLICATION_AT) != TN_SQLITE_APPLICATION)
        return refuse_file(TENURE_E_DAMAGED, path, "is another program's database", reterr);
    if (schema == 0)
        return refuse_file(TENURE_E_DAMAGED, path, "the database is damaged: it has no version",
                           reterr);
    if (schema > TN_SQLITE_SCHEMA) {
        (void)snprintf(why, sizeof why,
                       "was written by a newer tenure: schema %" PRIu32 ", this one knows %d",
                       schema, TN_SQLITE_SCHEMA);
        return refuse_file(TENURE_E_UNSUPPORTED, path, why, reterr);
    }
    return 0;
}

static int read_header(sqlite3_file *file, const char *path, struct tn_text *reterr)
{
    unsigned char header[HEADER];
    sqlite3_int64 size;

    int rc = file->pMethods->xFileSize(file, &size);
    if (rc == SQLITE_OK && size == 0)
        return refuse_file(TENURE_E_DAMAGED, path, "is empty: not a Tenure database", reterr);
    if (rc == SQLITE_OK && size < HEADER)
        return refuse_file(TENURE_E_DAMAGED, path, "is not a database", reterr);
    if (rc == SQLITE_OK)
        rc = file->pMethods->xRead(file, header, HEADER, 0);
    if (rc != SQLITE_OK)
        return tn_sql_error(path, rc, sqlite3_errstr(rc), reterr);
    return check_header(header, path, reterr);
}

/* SQLite's file layer keeps a descriptor open while closing it would drop a lock. */
static int check_content(const char *path, struct tn_text *reterr)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    const char *name = sqlite3_create_filename(path, "", "", 0, NULL);
    sqlite3_file *file = vfs != NULL ? calloc(1, (size_t)vfs->szOsFile) : NULL;
    int rc = TENURE_E_NOMEM;

    if (file == NULL || name == NULL) {
        tn_text_add(reterr, "out of memory");
        goto out;
    }
    int opened = vfs->xOpen(vfs, name, file, SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB, NULL);
    if (opened == SQLITE_OK)
        rc = read_header(file, path, reterr);
    else
        rc = tn_sql_error(path, opened, strerror(errno), reterr);
    if (file->pMethods != NULL)
        (void)file->pMethods->xClose(file);
out:
    free(file);
    sqlite3_free_filename(name);
    return rc;
}

/* A journal without its file. SQLite would play an old one back into a new file. And one that is
 * done with, which every store keeps beside it, means that there was a store: to begin again with
 * token 1 would break P2, and to call its names free would be a guess. */
static int check_remains(const char *path, struct tn_text *reterr)
{
    char journal[PATH_MAX + 16];
    struct stat st;

    (void)snprintf(journal, sizeof journal, "%s-journal", path);
    if (lstat(path, &st) == 0 || lstat(journal, &st) != 0)
        return 0;
    if (st.st_uid != geteuid())
        return refuse_file(
            TENURE_E_DENIED, journal,
            "belongs to another user, and would be played back into a new store; use a "
            "directory of your own",
            reterr);
    return refuse_file(
        TENURE_E_DAMAGED, path,
        "the file is gone, but its journal is there: put the file back, or remove the "
        "journal too and begin again with token 1",
        reterr);
}

int tn_sqlite_check(const char *path, struct tn_text *reterr)
{
    int rc = check_node(path, reterr);

    if (rc == TENURE_E_NOT_HELD) {
        rc = check_remains(path, reterr);
        return rc < 0 ? rc : refuse_file(TENURE_E_NOT_HELD, path, "there is no such file", reterr);
    }
    return rc < 0 ? rc : check_content(path, reterr);
}

int tn_sqlite_resolve(const char *path, char *ret_path, struct tn_text *reterr)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    char folder[PATH_MAX] = ".";
    char real[PATH_MAX];

    if (base[0] == '\0' || strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
        return refuse_file(TENURE_E_INVALID, path, "is not the path of a file", reterr);
    if (slash == path)
        (void)snprintf(folder, sizeof folder, "/");
    else if (slash != NULL && (size_t)(slash - path) < sizeof folder)
        (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    else if (slash != NULL)
        return refuse_errno(path, ENAMETOOLONG, reterr);
    if (realpath(folder, real) == NULL && errno == ENOENT)
        return refuse_file(TENURE_E_UNAVAILABLE, folder,
                           "No such file or directory; check the path, or make that folder",
                           reterr);
    if (realpath(folder, real) == NULL)
        return refuse_errno(folder, errno, reterr);
    int len = snprintf(ret_path, PATH_MAX, "%s/%s", strcmp(real, "/") == 0 ? "" : real, base);
    /* SQLite adds suffixes, and has a limit of its own. */
    if (len < 0 || len > 480)
        return refuse_file(TENURE_E_INVALID, path, "the path is too long; at most 480 bytes",
                           reterr);
    return 0;
}

/* --- A new store ---------------------------------------------------------------------------- */

static int fill(const char *path, struct tn_text *reterr)
{
    sqlite3 *db = NULL;
    char pragmas[128];

    (void)snprintf(pragmas, sizeof pragmas,
                   "PRAGMA synchronous=EXTRA; PRAGMA application_id=%d; PRAGMA user_version=%d;",
                   TN_SQLITE_APPLICATION, TN_SQLITE_SCHEMA);
    const char *vfs = tn_sqlite_vfs();
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW;
    int rc = vfs != NULL ? sqlite3_open_v2(path, &db, flags, vfs) : SQLITE_NOMEM;
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, pragmas, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, tn_sqlite_schema, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, tn_sqlite_schema_2, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, tn_sqlite_schema_3, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, tn_sqlite_schema_history, NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    int code = rc == SQLITE_OK ? 0 : tn_sql_error(path, rc, sqlite3_errmsg(db), reterr);
    (void)sqlite3_close(db);
    return code;
}

static int sync_folder(const char *path, struct tn_text *reterr)
{
    char folder[PATH_MAX];

    (void)snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path + 1), path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return refuse_errno(folder, errno, reterr);
    int rc = fsync(fd) == 0 ? 0 : refuse_errno(folder, errno, reterr);
    (void)close(fd);
    return rc;
}

/* Give @draft its name, unless that is taken. One rename, so that no process ever sees the file
 * with two names; filesystems that cannot do that (some versions of ZFS) get a link instead. */
static int publish(const char *draft, const char *path, struct tn_text *reterr)
{
    if (renameat2(AT_FDCWD, draft, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
        return 0;
    int error = errno;
    if ((error == EINVAL || error == ENOSYS) && link(draft, path) == 0)
        error = 0;
    else if (error == EINVAL || error == ENOSYS)
        error = errno;
    (void)unlink(draft);
    return error == 0 || error == EEXIST ? 0 : refuse_errno(path, error, reterr);
}

int tn_sqlite_create(const char *path, struct tn_text *reterr)
{
    char draft[PATH_MAX + 32];
    struct tn_secret random;
    uint64_t number;

    int rc = check_remains(path, reterr);
    if (rc == 0)
        rc = tn_random_secret(&random);
    if (rc < 0)
        return rc;
    memcpy(&number, random.bytes, sizeof number);
    (void)snprintf(draft, sizeof draft, "%s" DRAFT "%016" PRIx64, path, number);
    int fd = open(draft, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return refuse_errno(path, errno, reterr);
    rc = check_filesystem(fd, path, reterr);
    (void)close(fd);
    if (rc == 0)
        rc = fill(draft, reterr);
    if (rc == 0)
        rc = publish(draft, path, reterr);
    else
        (void)unlink(draft);
    return rc < 0 ? rc : sync_folder(path, reterr);
}
