/* recorded.c - the console's own history file; recorded.h has the contract. */
#define _GNU_SOURCE
#include "cli/recorded.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "runtime/history_file.h"
#include "runtime/state_folder.h"

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
    return tn_history_file_read(open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), history,
                                ret_touched);
}

static int write_bytes(const char *path, int flags, const char *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);

    return fd < 0 ? errno : tn_history_file_write(fd, bytes, len);
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
