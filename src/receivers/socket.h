/* socket.h - connecting and waiting with a deadline, for the receivers that are servers. */
#ifndef TN_RECEIVERS_SOCKET_H
#define TN_RECEIVERS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text.h"
#include "tenure/error.h"
#include "tenure/time.h"

enum { TN_PLACE_MAX = 256 };

struct tn_place {
    char host[TN_PLACE_MAX]; /* Or the path of a Unix socket. */
    char port[8];
    bool is_unix;
};

/* HOST[:PORT] or [V6][:PORT] of @len bytes; false: it makes no sense. */
TENURE_MUST_USE bool tn_place_parse(const char *text, size_t len, const char *port,
                                    struct tn_place *ret_place);

/* @len bytes with %XX undone, into TN_PLACE_MAX bytes; false: too long, malformed, or a zero. */
TENURE_MUST_USE bool tn_percent_decode(const char *text, size_t len, char *ret_text);

/* A number of at most @most from @len digits. */
TENURE_MUST_USE bool tn_digits_check(const char *text, size_t len, uint64_t most, char ret_text[8]);

/* A connected socket that does not block, in *@ret_fd, by @end (of tn_boottime); but a host's name
 * is resolved for as long as the system's resolver takes. @who begins the line in @reterr. */
TENURE_MUST_USE int tn_place_connect(const struct tn_place *place, tenure_ns end, const char *who,
                                     int *ret_fd, struct tn_text *reterr);

/* Until @fd is ready for @events of poll; false when @end has come. */
bool tn_socket_wait(int fd, short events, tenure_ns end);

/* All of @bytes; false: the connection is gone, or @end has come. */
bool tn_socket_send(int fd, const void *bytes, size_t len, tenure_ns end);

/* At least one byte. Returns how many; 0 at the end; -1: gone, or @end has come. */
long tn_socket_receive(int fd, void *buf, size_t size, tenure_ns end);

#endif
