/* command.h - what the command `tenure` asks of the library beyond the public headers. */
#ifndef TN_LIB_COMMAND_H
#define TN_LIB_COMMAND_H

#include "base/text.h"
#include "core/note.h"
#include "runtime/store.h"
#include "tenure/tenure.h"

/* A flag of struct tenure_options, for `tenure run`: another process can act for the session, too.
 */
#define TN_LIB_SHARED (1u << 31)

/* How that process binds itself to the present session; false: nobody needs to. */
bool tn_lib_binding(struct tenure *tenure, struct tn_store_binding *ret_binding);

/* Why the last fence that was not raised was not: the code, and the line unless @reterr is NULL; 0:
 * all were. */
int tn_lib_fence_status(struct tenure *tenure, struct tn_text *reterr);

/* STAND_DOWN or DRAIN, while an operator does not let @election campaign; else NONE. */
enum tn_note_kind tn_lib_forbidden(const struct tenure_election *election);

#endif
