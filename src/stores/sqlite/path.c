/* path.c - from the URL of an embedded store to the path of its file.
 *
 * sqlite:PATH, also as sqlite:///PATH; a host has no meaning. Without a path it is the user's own
 * store: tenure/tenure.db in XDG_STATE_HOME, else in .local/state at home. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/state_folder.h"
#include "stores/sqlite/private.h"

static int default_path(bool create, char *ret_path, struct tn_text *reterr)
{
    char state[PATH_MAX - 32];

    if (tn_state_folder(state, sizeof state)[0] == '\0') {
        tn_text_add(reterr, "no home directory for the default store; give --store sqlite:PATH");
        return TENURE_E_UNSUPPORTED;
    }
    (void)snprintf(ret_path, PATH_MAX, "%s/tenure", state);
    if (!create && access(ret_path, F_OK) != 0 && errno == ENOENT)
        return TENURE_E_NOT_HELD; /* A new user's: nobody leads there yet. */
    (void)snprintf(ret_path, PATH_MAX, "%s/tenure/tenure.db", state);
    if (create)
        tn_make_folders(ret_path);
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
