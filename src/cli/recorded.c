/* recorded.c - the console's own history file; recorded.h has the contract. */
#define _GNU_SOURCE
#include "cli/recorded.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.h"
#include "runtime/state_folder.h"

enum { FILE_MOST = 64 << 20 };

bool tn_recorded_path(const char *url, bool create, char ret_path[PATH_MAX])
{
    char state[PATH_MAX - 80];
    uint8_t hash[TN_SHA256_SIZE];
    uint64_t number = 0;

    /* A URL may hold a password: its hash does not tell it. */
    tn_sha256(url, strlen(url), hash);
    for (int i = 0; i < 8; i++)
        number = number << 8 | hash[i];
    if (tn_state_folder(state, sizeof state)[0] == '\0')
        return false;
    (void)snprintf(ret_path, PATH_MAX, "%s/tenure/console/%016" PRIx64 ".history", state, number);
    if (create)
        tn_make_folders(ret_path);
    return true;
}

bool tn_recorded_read(const char *path, struct tn_history *history, int64_t *ret_touched)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st = { 0 };
    char *bytes = NULL;
    size_t len = 0;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= FILE_MOST)
        bytes = malloc((size_t)st.st_size + 1);
    while (bytes != NULL && len < (size_t)st.st_size) {
        ssize_t n = read(fd, bytes + len, (size_t)st.st_size - len);
        if (n == 0 || (n < 0 && errno != EINTR))
            break;
        len += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0)
        (void)close(fd);
    if (bytes != NULL)
        tn_history_read(history, bytes, len);
    free(bytes);
    *ret_touched = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
    return len > 0;
}

static int write_bytes(const char *path, int flags, const char *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
    int error = fd < 0 ? errno : 0;

    while (error == 0 && len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno != EINTR)
            error = errno;
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0)
        (void)close(fd);
    return error;
}

int tn_recorded_write(const char *path, struct tn_history *history)
{
    char fresh[PATH_MAX + 8];
    size_t len = 0;
    int error;

    if (!history->whole && !tn_history_is_long(history)) {
        char *bytes = tn_history_take(history, &len);
        error = bytes != NULL ? write_bytes(path, O_APPEND, bytes, len) : 0;
        free(bytes);
    } else {
        char *bytes = tn_history_dump(history, &len);
        (void)snprintf(fresh, sizeof fresh, "%s.new", path);
        error = bytes != NULL ? write_bytes(fresh, O_TRUNC, bytes, len) : ENOMEM;
        if (error == 0 && rename(fresh, path) != 0)
            error = errno;
        free(bytes);
    }
    history->whole = history->whole || error != 0;
    return error;
}
