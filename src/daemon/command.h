/* command.h - commands: their words, who may give them, and their replies.
 *
 * Private to src/daemon. */
#ifndef TN_DAEMON_COMMAND_H
#define TN_DAEMON_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "core/lease_table.h"
#include "daemon/acl.h"
#include "daemon/conn.h"

/* A command being carried out. words[0] is its name. */
struct tn_call {
    struct tn_server *server;
    struct tn_conn *conn;
    const struct tn_resp_word *words;
    uint32_t count;
    bool renews;  /* It renews sessions and does nothing else. */
    bool tagged;  /* The reply is to carry @tag; */
    bool tag_due; /* it does not yet. */
    uint64_t tag;
};

/* Carry out the command in server->words. */
void tn_command(struct tn_conn *conn, uint32_t count);
void tn_cmd_session(struct tn_call *call);
void tn_cmd_lease(struct tn_call *call);
void tn_cmd_fence(struct tn_call *call);
void tn_cmd_revoke(struct tn_call *call);
void tn_cmd_handover(struct tn_call *call);
void tn_cmd_stand_down(struct tn_call *call);
void tn_cmd_resume(struct tn_call *call);
void tn_cmd_drain(struct tn_call *call);
void tn_cmd_undrain(struct tn_call *call);
void tn_cmd_token(struct tn_call *call);
void tn_cmd_info(struct tn_call *call);
void tn_cmd_hello(struct tn_call *call);
void tn_cmd_history(struct tn_call *call);
void tn_cmd_whoami(struct tn_call *call);
/* LEASE MGET, LEASE LINE, SESSION LIST, FENCE LIST. */
void tn_show_leases(struct tn_call *call);
void tn_show_line(struct tn_call *call);
void tn_show_sessions(struct tn_call *call);
void tn_show_fences(struct tn_call *call);

/* Reading words. Each answers the error itself and returns false. */
bool tn_word_u64(struct tn_call *call, uint32_t index, const char *what, uint64_t *ret_value);
/* The token of a term that is to be ended. 0 is refused: within an operation it means any term. */
bool tn_word_token(struct tn_call *call, uint32_t index, uint64_t *ret_token);
bool tn_word_name(struct tn_call *call, uint32_t index, const char *what);
/* 32 hexadecimal digits, hashed for the table; a star: a new secret, its digits in @ret_text. */
bool tn_word_secret(struct tn_call *call, uint32_t index, char kind, struct tn_secret *ret_hash,
                    char ret_text[32]);
/* Whether the peer has the right to the name or pattern; to anything at all when @name is NULL. The
 * first only asks, the second also answers. */
bool tn_may_quietly(const struct tn_call *call, enum tn_right right, const char *name, size_t len);
bool tn_may(struct tn_call *call, enum tn_right right, const char *name, size_t len);
bool tn_may_word(struct tn_call *call, enum tn_right right, uint32_t index);
/* AUTH with the words from @index on: a user and a secret. */
bool tn_authenticate(struct tn_call *call, uint32_t index);
/* Whether the disk has room for what the command may write. */
bool tn_may_write(struct tn_call *call);

void tn_reply_error(struct tn_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void tn_reply_answer(struct tn_call *call, enum tn_answer answer);
struct tn_resp_out *tn_reply(struct tn_call *call, size_t bytes);
/* A lease as LEASE GET gives it; takes TN_LEASE_BYTES. */
#define TN_LEASE_BYTES 2048
void tn_put_lease(struct tn_resp_out *out, const struct tn_lease_view *view,
                  const struct tn_resp_word *name);
/* And as LEASE LIST and LEASE MGET do, with since when it is held and how many wait. */
void tn_put_lease_shown(const struct tn_server *server, struct tn_resp_out *out, uint32_t lease,
                        const struct tn_resp_word *name);
/* "[tag, reply": the reply must follow. It takes TN_TAG_BYTES. */
#define TN_TAG_BYTES (2 * TN_RESP_HEAD_MAX)
void tn_put_tag(struct tn_resp_out *out, uint64_t tag);
bool tn_word_count(struct tn_call *call, uint32_t least, uint32_t most, const char *usage);

#endif
