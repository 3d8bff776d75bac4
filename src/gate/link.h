/* link.h - one connection of the gate: bytes in, bytes out.
 *
 * What arrives is gathered at @in until its user takes it from there. What is to be sent is built
 * at @out and goes out with tn_link_send: at once, as far as the kernel takes it, the rest later.
 * Threads: the loop's. */
#ifndef TN_GATE_LINK_H
#define TN_GATE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "tenure/error.h"

struct tn_gate_link;

/* Never called inside a call of the user's. */
struct tn_link_user {
    void (*heard)(struct tn_gate_link *link);  /* There is more at @in. */
    void (*ended)(struct tn_gate_link *link);  /* The other side sends no more, or is gone. */
    void (*sent)(struct tn_gate_link *link);   /* The rest of @out is out, or will never be. */
    void (*closed)(struct tn_gate_link *link); /* Free it. */
};

struct tn_gate_link {
    uv_tcp_t tcp; /* First: libuv hands it back. */
    const struct tn_link_user *user;
    char *in;
    size_t in_len, in_size, in_max;
    char *out;
    size_t out_len, out_size;
    uv_write_t rest;
    uv_shutdown_t finish;
    bool sending; /* The rest is still to go. */
    bool broken;  /* Nothing can be sent any more. */
};

/* @in_max: what may be gathered at most; more is the end of the connection. */
TENURE_MUST_USE bool tn_link_init(struct tn_gate_link *link, uv_loop_t *loop,
                                  const struct tn_link_user *user, size_t in_max);

/* Begin to listen, or do so again after tn_link_pause. */
bool tn_link_hear(struct tn_gate_link *link);
void tn_link_pause(struct tn_gate_link *link);

/* Take @len bytes from the front of @in. */
void tn_link_take(struct tn_gate_link *link, size_t len);

/* Room for @len bytes behind what is at @out; NULL: no memory. */
char *tn_link_room(struct tn_gate_link *link, size_t len);

/* Send what is at @out. True: it is out, or will never be; false: @sent will be called. */
bool tn_link_send(struct tn_gate_link *link);

/* What @from has to send, @to sends. */
void tn_link_hand_over(struct tn_gate_link *from, struct tn_gate_link *to);

/* Say that nothing more will be sent. */
void tn_link_finish(struct tn_gate_link *link);

/* Ends in @closed. May be called twice. */
void tn_link_close(struct tn_gate_link *link);

/* Its memory, once it is closed. */
void tn_link_done(struct tn_gate_link *link);

#endif
