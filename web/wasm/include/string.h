/* string.h - what the core and the simulator use of it. */
#ifndef TN_WASM_STRING_H
#define TN_WASM_STRING_H

#include <stddef.h>

void *memcpy(void *to, const void *from, size_t len);
void *memmove(void *to, const void *from, size_t len);
void *memset(void *to, int byte, size_t len);
int memcmp(const void *a, const void *b, size_t len);
size_t strlen(const char *text);
size_t strnlen(const char *text, size_t most);
int strcmp(const char *a, const char *b);
int strncmp(const char *a, const char *b, size_t len);
char *strchr(const char *text, int byte);
char *strstr(const char *text, const char *part);
size_t strspn(const char *text, const char *bytes);
size_t strcspn(const char *text, const char *bytes);

#endif
