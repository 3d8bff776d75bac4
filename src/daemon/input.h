/* input.h - what peers have sent, between its arrival and the commands in it being carried out.
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_INPUT_H
#define TN_DAEMON_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/conn.h"

#define TN_INPUT_MAX 1024

/* Who has something to say, and what has been read and not been carried out yet. */
struct tn_input {
    struct tn_conn *called[TN_INPUT_MAX]; /* NULL: it was closed meanwhile. */
    uint32_t called_count;
    struct tn_saying {
        struct tn_conn *conn; /* NULL: it was closed meanwhile. */
        char *bytes;
        size_t len;
    } list[TN_INPUT_MAX];
    uint32_t count;
    size_t len;
    char bytes[8 * TN_FRAME_BYTES];
};

/* @conn has something to say. */
void tn_input_call(struct tn_conn *conn);
/* Read it, from all who have. */
void tn_input_read(struct tn_server *server);
/* Read it, and carry all of it out. */
void tn_input_carry_out(struct tn_server *server);
/* Where TN_FRAME_BYTES may be read to, and used at once. */
char *tn_input_room(struct tn_server *server);
/* It is closed. */
void tn_input_strike_out(struct tn_conn *conn);

#endif
