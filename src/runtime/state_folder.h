/* state_folder.h - where this user's programs keep what must outlive them. */
#ifndef TN_RUNTIME_STATE_FOLDER_H
#define TN_RUNTIME_STATE_FOLDER_H

#include <stddef.h>

/* XDG_STATE_HOME if it is absolute, as its specification demands, else .local/state at home; in
 * @buf. Empty when there is no home. */
const char *tn_state_folder(char *buf, size_t size);

/* Make the missing folders of @path, for this user alone. A failure shows when the file is made. */
void tn_make_folders(char *path);

#endif
