/* hex.h - bytes as hexadecimal digits, and back. */
#ifndef TN_BASE_HEX_H
#define TN_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>

/* 2 * @len digits of lower case, without a zero behind them. */
void tn_hex(char *ret_text, const void *bytes, size_t len);
/* From 2 * @len digits of either case. False: one of them is none, and @ret_bytes is undefined. */
bool tn_unhex(void *ret_bytes, const char *text, size_t len);

#endif
