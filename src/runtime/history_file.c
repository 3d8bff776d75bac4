/* history_file.c - the file of a history; history_file.h. */
#include "runtime/history_file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MOST = 64 << 20 }; /* A longer one is not ours. */

bool tn_history_file_read(int fd, struct tn_history *history, int64_t *ret_touched)
{
    struct stat st = { .st_size = 0 };
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

int tn_history_file_write(int fd, const char *bytes, size_t len)
{
    int error = 0;

    while (error == 0 && len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno != EINTR)
            error = errno;
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    (void)close(fd);
    return error;
}
