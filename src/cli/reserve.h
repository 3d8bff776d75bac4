/* reserve.h - memory that libuv gets when there is none left.
 *
 * libuv ends the process when it cannot enlarge its table of descriptors. A command that is to say
 * what is wrong, and to give its lease back, cannot have that. It owns its process, so it may give
 * libuv an allocator with something to fall back on; the library may not, and does not. */
#ifndef TN_CLI_RESERVE_H
#define TN_CLI_RESERVE_H

/* Before anything else of libuv is used. */
void tn_reserve_for_libuv(void);

#endif
