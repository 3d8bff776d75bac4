/* http.h - the messages of HTTP/1.1, for a client and for a server: bytes in, a head out. No I/O.
 *
 * Strict: what RFC 9112 lets a reader mend is refused instead, because two readers that mend
 * differently disagree on where a message ends.
 * Threads: one at a time per struct. Memory: the caller's, nothing allocated. */
#ifndef TN_WIRE_HTTP_H
#define TN_WIRE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tenure/error.h"

enum { TN_HTTP_HEAD_MAX = 32768, TN_HTTP_FIELDS_MAX = 100 };

/* A part of the caller's bytes. */
struct tn_http_slice {
    const char *bytes;
    size_t len;
};

struct tn_http_field {
    struct tn_http_slice name, value;
};

enum tn_http_body {
    TN_HTTP_NO_BODY,
    TN_HTTP_LENGTH,
    TN_HTTP_CHUNKED,
    TN_HTTP_UNTIL_CLOSE,
};

struct tn_http_head {
    unsigned status;                     /* Of an answer. */
    struct tn_http_slice method, target; /* Of a request. */
    unsigned minor;                      /* Of the version, HTTP/1.0 or HTTP/1.1. */
    bool keep_alive;                     /* The connection can be used again. */
    bool has_length;                     /* There is a Content-Length; also without a body. */
    enum tn_http_body body;
    uint64_t length; /* If @has_length. */
    size_t count;
    struct tn_http_field fields[TN_HTTP_FIELDS_MAX];
};

/* Read the head of an answer; @to_head: the request was HEAD. Returns its length with the blank
 * line; 0 when more bytes are needed; TENURE_E_INVALID or TENURE_E_FULL when it is no answer. */
TENURE_MUST_USE int64_t tn_http_read(const char *bytes, size_t len, bool to_head,
                                     struct tn_http_head *ret_head);

/* The same for a request, whose body is NO_BODY, LENGTH or CHUNKED. */
TENURE_MUST_USE int64_t tn_http_read_request(const char *bytes, size_t len,
                                             struct tn_http_head *ret_head);

/* Whether the path of @target (up to its '?') is one that every server reads in the same way:
 * segments of plain characters, with nothing to resolve, to decode twice or to strip. Returns NULL,
 * or what is wrong with it, for people. */
const char *tn_http_path_check(const struct tn_http_slice *target);

/* The first field of this name, and in *@ret_count how many there are; NULL: none. @name in small
 * letters; @ret_count may be NULL. */
const struct tn_http_slice *tn_http_field(const struct tn_http_head *head, const char *name,
                                          unsigned *ret_count);

/* Whether @slice is @text, in whatever case; @text in small letters. */
bool tn_http_is(const struct tn_http_slice *slice, const char *text);

/* The same, with '_' for '-': CGI and what follows it make one name of both. */
bool tn_http_alike(const struct tn_http_slice *slice, const char *text);

/* Whether the list of words in @slice, separated by commas, has @text. */
bool tn_http_has(const struct tn_http_slice *slice, const char *text);

/* The chunks of a body, in pieces. All zero: at its start. */
struct tn_http_chunks {
    uint8_t state;
    uint32_t line;   /* Bytes of the line being read. */
    uint64_t remain; /* Of the chunk. */
};

/* Take the framing out of @len bytes, in place: *@ret_data bytes of content are at the front of
 * @bytes then. Returns how many bytes were used, less than @len only at the end of the body, which
 * *@ret_done tells; or TENURE_E_INVALID. */
TENURE_MUST_USE int64_t tn_http_unchunk(struct tn_http_chunks *chunks, char *bytes, size_t len,
                                        size_t *ret_data, bool *ret_done);

/* A body that is being gathered behind its head. All zero: at its start. */
struct tn_http_content {
    struct tn_http_chunks chunks;
    size_t len; /* What is there of it. */
};

/* Look at what there is of a body behind the @head_len bytes of @head, of *@in_len at @in; chunks
 * lose their framing, so *@in_len may fall. Returns 1 when the body is whole; 0: more is needed;
 * TENURE_E_INVALID; TENURE_E_FULL: over @max. */
TENURE_MUST_USE int tn_http_gather(char *in, size_t *in_len, const struct tn_http_head *head,
                                   size_t head_len, size_t max, struct tn_http_content *content);

#endif
