/* binding.h - how a process tells a store that it can act for a session, so that the store knows
 * when nobody can any more.
 *
 * It connects to the Unix socket @path itself - the kernel tells the other side who it was - writes
 * @line, and reads a line that begins with "+". */
#ifndef TN_RUNTIME_BINDING_H
#define TN_RUNTIME_BINDING_H

struct tn_store_binding {
    char path[108];
    char line[64];
};

#endif
