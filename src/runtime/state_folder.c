/* state_folder.c - the user's state directory. */
#define _GNU_SOURCE
#include "runtime/state_folder.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

const char *tn_state_folder(char *buf, size_t size)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");

    buf[0] = '\0';
    if (state != NULL && state[0] == '/') {
        (void)snprintf(buf, size, "%s", state);
        return buf;
    }
    if (home == NULL || home[0] != '/') {
        const struct passwd *user = getpwuid(geteuid());
        home = user != NULL ? user->pw_dir : NULL;
    }
    if (home != NULL && home[0] == '/')
        (void)snprintf(buf, size, "%s/.local/state", home);
    return buf;
}

void tn_make_folders(char *path)
{
    for (char *c = path + 1; *c != '\0'; c++) {
        if (*c != '/')
            continue;
        *c = '\0';
        (void)mkdir(path, 0700);
        *c = '/';
    }
}
