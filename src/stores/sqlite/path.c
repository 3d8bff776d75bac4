/* path.c - from the URL of an embedded store to the path of its file.
 *
 * sqlite:PATH, also as sqlite:///PATH; a host has no meaning. Without a path it is the user's own
 * store: tenure/tenure.db in XDG_STATE_HOME, else in .local/state at home. */
#define _GNU_SOURCE
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stores/sqlite/private.h"

/* The state directory: XDG_STATE_HOME if it is absolute, as its specification demands, else
 * .local/state at home. Empty when there is no home. */
static const char *state_folder(char *buf, size_t size)
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

/* Make the missing folders of @path, for this user alone. A failure shows when the file is made. */
static void make_folders(char *path)
{
    for (char *c = path + 1; *c != '\0'; c++) {
        if (*c != '/')
            continue;
        *c = '\0';
        (void)mkdir(path, 0700);
        *c = '/';
    }
}

static int default_path(bool create, char *ret_path, struct tn_text *reterr)
{
    char state[PATH_MAX - 32];

    if (state_folder(state, sizeof state)[0] == '\0') {
        tn_text_add(reterr, "no home directory for the default store; give --store sqlite:PATH");
        return TENURE_E_UNSUPPORTED;
    }
    (void)snprintf(ret_path, PATH_MAX, "%s/tenure/tenure.db", state);
    if (create)
        make_folders(ret_path);
    return 0;
}

int tn_sqlite_path(const char *rest, bool create, char *ret_path, struct tn_text *reterr)
{
    if (rest[0] == '\0')
        return default_path(create, ret_path, reterr);
    if (strncmp(rest, "//", 2) == 0 && rest[2] != '/')
        tn_text_add(reterr, "names a host; write sqlite:PATH, the file is on this one");
    else if (strlen(rest) >= PATH_MAX)
        tn_text_add(reterr, "is too long");
    else {
        (void)snprintf(ret_path, PATH_MAX, "%s",
                       rest[0] == '/' && rest[1] == '/' ? rest + 2 : rest);
        return 0;
    }
    return TENURE_E_INVALID;
}
