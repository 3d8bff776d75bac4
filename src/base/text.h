/* text.h - building text in the caller's buffer: never overflows, and says when it was cut off.
 *
 * The result always ends in a zero byte. Once something did not fit, nothing more is added, so the
 * text is a prefix of what was meant, and tn_text_truncated says so. */
#ifndef TN_BASE_TEXT_H
#define TN_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Why something failed, as one line for people, zero byte included. */
enum { TN_ERROR_TEXT = 400 };

struct tn_text {
    char *buf;
    size_t size;
    size_t len;
    bool truncated;
};

/* Borrows @buf, @size > 0 bytes, for as long as the builder is used. */
void tn_text_init(struct tn_text *text, char *buf, size_t size);

void tn_text_add(struct tn_text *text, const char *string);
void tn_text_add_bytes(struct tn_text *text, const char *bytes, size_t len);
void tn_text_addf(struct tn_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds foreign bytes so that they cannot forge a line or steer a terminal: a backslash is doubled,
 * \n, \r and \t get their letter, every other byte outside printable ASCII becomes \xNN. An escape
 * is added whole or not at all. */
void tn_text_escape(struct tn_text *text, const char *bytes, size_t len);

/* As tn_text_escape, but valid UTF-8 beyond the control characters passes: for lines that people
 * read. A backslash stays as it is: what was escaped before is not escaped twice. */
void tn_text_add_line(struct tn_text *text, const char *bytes, size_t len);

/* If something did not fit, end the text at a whole word, or at least a whole character, and add
 * "...". Nothing more can be added after that. */
void tn_text_cut(struct tn_text *text);

/* The same for @buf, @size bytes, that snprintf or another copy has filled to its last byte. */
void tn_text_cut_full(char *buf, size_t size);

/* Adds a JSON string with its quotes. Valid UTF-8 passes as it is; bytes that are not become
 * U+FFFD, because JSON has no way to say them. Cut off, it lacks its closing quote. */
void tn_json_string(struct tn_text *text, const char *bytes, size_t len);

/* The text so far; valid until the next call, in the caller's buffer. */
const char *tn_text_str(const struct tn_text *text);

bool tn_text_truncated(const struct tn_text *text);

#endif
