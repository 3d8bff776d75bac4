/* stdio.h - what the simulator uses of it. */
#ifndef TN_WASM_STDIO_H
#define TN_WASM_STDIO_H

#include <stdarg.h>
#include <stddef.h>

int snprintf(char *buf, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int vsnprintf(char *buf, size_t size, const char *format, va_list args);

#endif
