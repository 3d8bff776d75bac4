/* resp.h - RESP2 and RESP3, the protocol of Redis: bytes in, messages out, and back.
 *
 * Three parts, none of which reads or writes a socket:
 *   tn_resp_request  a server's side: one command at a time, as words that point into the buffer.
 *   tn_resp_scan     a client's side: whether a value is all there; then tn_resp_next walks it.
 *   tn_resp_out      writing values of either version into the caller's buffer.
 *
 * Both readers go on where they stopped when more bytes arrive, so a peer that sends one byte at a
 * time costs no more than one that sends all at once. What is too large or malformed is refused as
 * soon as it is announced, before its bytes arrive; the connection has lost its framing then and
 * can only be closed.
 * Threads: one at a time per struct. Memory: the caller's, nothing allocated. */
#ifndef TN_WIRE_RESP_H
#define TN_WIRE_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tenure/error.h"

/* --- Requests -------------------------------------------------------------------------------- */

struct tn_resp_limits {
    uint32_t frame_bytes; /* Of a whole command, its framing included. */
    uint32_t word_bytes;  /* Of one word of it. */
    uint32_t words;
};

/* A word of a command; it lies in the caller's input. */
struct tn_resp_word {
    const char *bytes;
    uint32_t len;
};

/* How far the reading of one command has come. All zero: at its start. */
struct tn_resp_request {
    uint32_t at;    /* The next byte to look at. */
    uint32_t begun; /* Where the line being read begins. */
    uint32_t count; /* Words announced. */
    uint32_t found;
    uint32_t word_len;
    uint8_t state;
};

/* Read a command from @bytes, the same bytes as last time and perhaps more behind them. @words has
 * room for limits->words. A command is an array of bulk strings or, for people with a terminal, a
 * line of words separated by blanks, with "..." or '...' around a word that has blanks in it.
 * An empty line is a command of no words.
 * Returns the bytes that the command took, with its @ret_count words, and is ready for the next;
 * 0 when more bytes are needed; TENURE_E_INVALID or TENURE_E_FULL (a limit) with @reterr, a static
 * text, when the bytes are no command. */
TENURE_MUST_USE int64_t tn_resp_read(struct tn_resp_request *request,
                                     const struct tn_resp_limits *limits, char *bytes, size_t len,
                                     struct tn_resp_word *words, uint32_t *ret_count,
                                     const char **reterr);

/* Whether @word is @text, in whatever case; @text in capitals. */
bool tn_resp_is(const struct tn_resp_word *word, const char *text);

/* --- Values ---------------------------------------------------------------------------------- */

enum tn_resp_type {
    TN_RESP_STRING, /* A bulk, simple or verbatim string. */
    TN_RESP_ERROR,
    TN_RESP_INTEGER,
    TN_RESP_NULL,
    TN_RESP_BOOL,
    TN_RESP_NUMBER, /* A double or a big number, as text. */
    TN_RESP_ARRAY,  /* Also a set. */
    TN_RESP_MAP,    /* @count pairs: twice as many values follow. */
    TN_RESP_PUSH,
};

struct tn_resp_value {
    enum tn_resp_type type;
    int64_t integer;   /* INTEGER, BOOL. */
    const char *bytes; /* STRING, ERROR, NUMBER. */
    uint32_t len;
    uint32_t count; /* ARRAY, PUSH: values that follow; MAP: pairs. */
};

#define TN_RESP_DEPTH 8

struct tn_resp_scan {
    uint32_t at;
    uint32_t begun;
    uint32_t values; /* So far. */
    uint32_t depth;
    uint32_t skip;                /* Bytes of a bulk that have not arrived. */
    uint64_t open[TN_RESP_DEPTH]; /* Values still to come, by depth. */
};

/* Look for the end of one value in @bytes, the same bytes as last time and perhaps more. @frame_max
 * and @values_max bound a whole value. Attributes are refused: nobody asked for them.
 * Returns its length; 0 when more bytes are needed; TENURE_E_INVALID or TENURE_E_FULL. */
TENURE_MUST_USE int64_t tn_resp_scan(struct tn_resp_scan *scan, uint32_t frame_max,
                                     uint32_t values_max, const char *bytes, size_t len);

/* The value at *@at of a frame that tn_resp_scan measured, and step over its head; the elements of
 * an array follow. Returns 0, or TENURE_E_INVALID at the end of @len. */
TENURE_MUST_USE int tn_resp_next(const char *bytes, size_t len, size_t *at,
                                 struct tn_resp_value *ret_value);

/* --- Writing --------------------------------------------------------------------------------- */

struct tn_resp_out {
    char *buf;
    size_t size;
    size_t len;
    bool full; /* Something did not fit; nothing was added from then on. */
    bool resp3;
};

/* Of a line and its framing: enough for a number, a head, or a null. */
#define TN_RESP_HEAD_MAX 32

void tn_resp_put_simple(struct tn_resp_out *out, const char *text);
/* "-CODE message"; line breaks in it become blanks, so that nobody can forge a second reply. */
void tn_resp_put_error(struct tn_resp_out *out, const char *text);
void tn_resp_put_bulk(struct tn_resp_out *out, const void *bytes, size_t len);
void tn_resp_put_text(struct tn_resp_out *out, const char *text);
void tn_resp_put_int(struct tn_resp_out *out, int64_t value);
/* An integer up to 2^63 - 1; above, a big number (RESP3) or its digits as a string (RESP2). */
void tn_resp_put_u64(struct tn_resp_out *out, uint64_t value);
void tn_resp_put_null(struct tn_resp_out *out);
void tn_resp_put_null_array(struct tn_resp_out *out); /* RESP2 has two nulls. */
void tn_resp_put_array(struct tn_resp_out *out, uint32_t count);
void tn_resp_put_map(struct tn_resp_out *out, uint32_t pairs); /* RESP2: an array of both. */
void tn_resp_put_push(struct tn_resp_out *out, uint32_t count);

#endif
